//  cluster_sim: caches of many nodes: the published figures of Redox's distributed protocol and of NoPFS's
//  placement.

#include <stdio.h>
#include "cluster_options.h"
#include "cluster_published.h"

int
main (int argc, char **argv)
{
    cluster_options_t options;
    int status = cluster_options_parse (&options, argc, argv);
    if (status < 0)
        status = !cluster_published_print (options.seed);
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("cluster_sim: standard output");
    return status? status: 1;
}
