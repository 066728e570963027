//  tier_sim: the real raw tier and sampler, on simulated jobs and a disk that counts.

#include <stdio.h>
#include "tier_options.h"
#include "tier_report.h"
#include "tier_table.h"

static void
s_run (const tier_options_t *options)
{
    //  The pack is older than the run: its order is a stream of its own.
    tier_result_t result = tier_run (&options->plan, options->seed, ~options->seed, NULL);
    if (options->json)
        tier_report_json (&options->plan, options->seed, &result);
    else
        tier_report_table (&options->plan, options->seed, &result);
    tier_result_clear (&result);
}

int
main (int argc, char **argv)
{
    tier_options_t options;
    int status = tier_options_parse (&options, argc, argv);
    if (status < 0 && options.table)
        status = tier_table_print (&options)? 0: 1;
    if (status < 0) {
        s_run (&options);
        status = 0;
    }
    tier_options_clear (&options);
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("tier_sim: standard output");
    return status? status: 1;
}
