//  cluster_sim: what a cache over many nodes reads from the store and sends over links, on a virtual clock;
//  and the figures of Redox's distributed protocol and of NoPFS's placement beside those of models.

#include <stdio.h>
#include <stdlib.h>
#include "cluster_options.h"
#include "cluster_published.h"
#include "cluster_report.h"
#include "simulated_memory.h"

static void
s_run (const cluster_options_t *options)
{
    cluster_epoch_t *epochs = simulated_alloc (options->plan.epochs, sizeof *epochs);
    cluster_run (&options->plan, options->seed, epochs, NULL, NULL);
    if (options->json)
        cluster_report_json (&options->plan, options->seed, epochs);
    else
        cluster_report_table (&options->plan, options->seed, epochs);
    free (epochs);
}

int
main (int argc, char **argv)
{
    cluster_options_t options;
    int status = cluster_options_parse (&options, argc, argv);
    if (status < 0 && options.published)
        status = !cluster_published_print (options.seed);
    else
    if (status < 0) {
        s_run (&options);
        status = 0;
    }
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("cluster_sim: standard output");
    return status? status: 1;
}
