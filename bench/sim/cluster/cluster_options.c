#include "cluster_options.h"
#include <stdio.h>
#include "option.h"

#define AT(member) OPTION_AT (cluster_options_t, member)
static const option_row_t s_rows [] = {
    { "published", NULL, AT (published),
        "the figures of Redox's distributed protocol and of NoPFS's placement beside those of these\n"
        "models: published, ours, ratio" },
    { "seed", "S", AT (seed), "(default: 42)" }
};

static const option_table_t s_table = { "cluster_sim", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: cluster_sim --published\n"
    "\n", .after =
    "\n"
    "Exit status: 0 done, 1 something could not be written or a published figure is out of its tolerance,\n"
    "2 unusable arguments.\n" };

int
cluster_options_parse (cluster_options_t *self, int argc, char **argv)
{
    *self = (cluster_options_t) { .seed = 42 };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0)
        return status;
    if (self->published)
        return -1;
    fputs ("cluster_sim: --published is missing\n", stderr);
    return 2;
}
