//  sampler_sim: the real sampler and the real prepared cache, on simulated jobs.

#include <stdio.h>
#include <stdlib.h>

#include "simulated_options.h"
#include "simulated_report.h"
#include "simulated_sweep.h"
#include "simulated_trials.h"

static const char s_help [] =
    "usage: sampler_sim --policy P --samples N [--cache C] --job JOB... [options]\n"
    "       sampler_sim --sweep FOLDER [options]\n"
    "\n"
    "Drives the sampler and the prepared cache with simulated jobs, on a virtual clock and without decoding, and\n"
    "says how much is shared and how fresh and uniform every job's orders are.  Time counts in epochs of N samples\n"
    "of a job of speed 1; only finished epochs are judged.\n"
    "\n"
    "  --policy P          dsa, follow, resident: the sampler's; independent: every job draws alone; lockstep: one\n"
    "                      order for all, at the pace of the slowest, and no cache; seeded: nothing is shared\n"
    "  --samples N         how many there are\n"
    "  --cache C           how many versions the prepared cache holds (default: 2 % of N)\n"
    "  --job SPEED:START:EPOCHS:FROM:TO\n"
    "                      a job, again for each, counted from 0: speed (the fastest job's is 1), when it joins,\n"
    "                      how many epochs, and its data, FROM*N to TO*N\n"
    "  --window W          samples that a job may have drawn and not released: 1 (default), or at least a batch\n"
    "  --batch B           samples that are released together, and that share a batch (default: 64)\n"
    "  --phase JOB:SAMPLES the job is so many samples late in its first batch\n"
    "  --leave JOB:AT      the job leaves at this time\n"
    "  --deterministic     the shared stage has no random operations: a version serves a job in every epoch, not once\n"
    "  --jitter FRACTION   each step takes its time +- this share of it\n"
    "  --slow FRACTION:FACTOR\n"
    "                      preparing takes time, on as many workers as just keep up, and this share of the samples\n"
    "                      takes FACTOR times as long\n"
    "  --seed S            (default: 1)\n"
    "  --seeds K           K runs, from seed S on: figures are means, preparations get a standard error, and up to\n"
    "                      1000 samples every epoch is tested for uniform positions\n"
    "  --json              the figures as JSON\n"
    "  --sweep FOLDER      the design's table, then offsets and speed ratios of two to four jobs, for dsa, follow and\n"
    "                      resident: writes sweep.md, offsets.dat, ratios.dat and, with gnuplot, sweep.svg\n"
    "                      (default: 4000 samples)\n"
    "  --help              this text\n"
    "\n"
    "phi2: 0 for independent orders, at most 0.02 is fresh.  t5h5 and pairs: how often, over chance, a sample of the\n"
    "last 5 % comes in the next first 5 %, and two samples share a batch again.\n"
    "\n"
    "Exit status: 0 done, 1 something could not be written or plotted, 2 unusable arguments.\n";

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
    int status = 2;
    if (simulated_options_parse (&options, argc, argv)) {
        if (options.help)
            status = fputs (s_help, stdout) < 0;
        else
            status = options.sweep? simulated_sweep (&options): s_run_plan (&options);
    }
    simulated_options_clear (&options);
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("sampler_sim: standard output");
    return status? status: 1;
}
