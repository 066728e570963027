//  sampler_sim: the real sampler and the real prepared cache, on simulated jobs.

#include <stdio.h>
#include <stdlib.h>

#include "simulated_options.h"
#include "simulated_report.h"
#include "simulated_sweep.h"
#include "simulated_trials.h"

static int
s_run_plan (const simulated_options_t *options)
{
    simulated_trial_t trial = { .plan = options->plan, .seed = options->seed, .seeds = options->seeds };
    trial.counts_positions = options->seeds > 1 && options->plan.samples <= SIMULATED_BINS_SAMPLES_MAX;
    if (options->seeds > 1 && !trial.counts_positions)
        fprintf (stderr, "sampler_sim: --samples %u: positions are not tested; expected at most %d for "
            "that\n", options->plan.samples, SIMULATED_BINS_SAMPLES_MAX);
    simulated_trials_run (&trial, 1);
    if (options->json)
        simulated_report_json (&trial);
    else
        simulated_report_table (&trial);
    simulated_trial_clear (&trial);
    return 0;
}

int
main (int argc, char **argv)
{
    simulated_options_t options;
    int status = simulated_options_parse (&options, argc, argv);
    if (status < 0)
        status = options.sweep? simulated_sweep (&options): s_run_plan (&options);
    simulated_options_clear (&options);
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("sampler_sim: standard output");
    return status? status: 1;
}
