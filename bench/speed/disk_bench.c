/*  disk_bench -- reading from a disk: packed against plain files, beside what the device gives by itself.
 *
 *  disk_data makes the files, disk_lines measures line by line and round by round, disk_report prints.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "disk_data.h"
#include "disk_lines.h"
#include "disk_report.h"

//  A signal handler can reach nothing else.
static atomic_int s_signal;

static void
s_note (int number)
{
    atomic_store (&s_signal, number);
}

static bool
s_stopped (void *context)
{
    (void) context;
    return atomic_load (&s_signal) != 0;
}

static void
s_report (const disk_lines_t *lines)
{
    if (lines->options->json)
        disk_report_json (lines);
    else
        disk_report_table (lines);
}

//  What was made is removed however this ends.
int
main (int argc, char **argv)
{
    disk_options_t options;
    int status = disk_options_parse (&options, argc, argv);
    if (status >= 0)
        return status;
    struct sigaction action = { .sa_handler = s_note };
    sigaction (SIGINT, &action, NULL);
    sigaction (SIGTERM, &action, NULL);
    disk_data_t data;
    disk_lines_t *lines = calloc (1, sizeof *lines);
    status = 1;
    if (lines && disk_data_open (&data, &options, s_stopped)) {
        if (disk_lines_open (lines, &data, &options) && disk_lines_measure (lines, s_stopped)) {
            s_report (lines);
            status = !options.plot || disk_report_plot (lines)? 0: 1;
        }
        disk_lines_close (lines);
    }
    if (lines)
        disk_data_close (&data);
    free (lines);
    return s_stopped (NULL)? 128 + atomic_load (&s_signal): status;
}
