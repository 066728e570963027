//  store_sim: what reading from an object store costs under several policies, on a virtual clock; and the
//  figures of NoPFS and DELI beside those of the same models.

#include <stdio.h>
#include "bucket_options.h"
#include "bucket_published.h"
#include "bucket_report.h"

static void
s_run (const bucket_options_t *options)
{
    if (options->published) {
        bucket_published_print (options->seed);
        return;
    }
    bucket_answer_t answers [BUCKET_QUESTION_POLICIES];
    bucket_question_answer (&options->question, options->seed, answers);
    if (options->json)
        bucket_report_json (&options->question, options->seed, answers);
    else
        bucket_report_table (&options->question, answers);
}

int
main (int argc, char **argv)
{
    bucket_options_t options;
    int status = bucket_options_parse (&options, argc, argv);
    if (status < 0) {
        s_run (&options);
        status = 0;
    }
    if (fflush (stdout) == 0 && !ferror (stdout))
        return status;
    perror ("store_sim: standard output");
    return status? status: 1;
}
