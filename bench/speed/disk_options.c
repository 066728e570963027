#include "disk_options.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "option.h"

enum { UNUSABLE = 2 };

void
disk_complain (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    fputs ("disk_bench: ", stderr);
    vfprintf (stderr, format, arguments);
    fputc ('\n', stderr);
    va_end (arguments);
}

static bool
s_memory (void *target, char *list, char error [OPTION_ERROR_BYTES])
{
    disk_options_t *self = target;
    self->memory_count = 0;
    const char *at = list;
    do {
        uint64_t memory;
        if (self->memory_count == DISK_MEMORIES_MAX)
            return option_fail (error, "at most %d limits", DISK_MEMORIES_MAX);
        if (!option_digits (at, "", &memory, &at) || memory < 1 || memory > 100 || (*at && *at != ','))
            return option_fail (error, "expected numbers from 1 to 100, with commas between");
        self->memories [self->memory_count++] = (uint32_t) memory;
    } while (*at++);
    return true;
}

static bool
s_plot (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    size_t length = strlen (text);
    if (length < 5 || (strcmp (text + length - 4, ".svg") && strcmp (text + length - 4, ".png")))
        return option_fail (error, "expected a name that ends in .svg or .png");
    ((disk_options_t *) target)->plot = text;
    return true;
}

#define AT(member) OPTION_AT (disk_options_t, member)
static const option_row_t s_rows [] = {
    { "samples", "N", AT (samples), "files of the data set that is made (8192)", 256, 1u << 28 },
    { "sample-bytes", "B", AT (sample_bytes),
        "bytes of each, that no disk can compress (110000); K, M and G are powers of 1024",
        1, UINT64_C (1) << 28, OPTION_SCALED },
    { "folder", "DIR", AT (folder),
        "where it is made, with its pack; removed at the end (the current directory)" },
    { "data", "DIR", AT (data), NULL },
    { "pack", "DIR", AT (pack),
        "what is there already instead, left as it is: a folder and the pack made of it" },
    { "extensions", "LIST", AT (extensions), "of the files of --data: .wav,.flac (torchvision's images)" },
    { "memory", "LIST", OPTION_CALL (s_memory), "limits in per cent of the data (2,8,25)" },
    { "rounds", "N", AT (rounds), "1 to 99 (5)", 1, DISK_ROUNDS_MAX },
    { "seconds", "S", AT (seconds), "a measurement ends with its pass over the data, or after S seconds (3)",
        .low = 0.1, .high = 3600, .expected = "a number from 0.1 to 3600" },
    { "piece", "N", AT (piece), "samples of a piece, 1 to 64 (what the cost model says)", 1, 64 },
    { "depth", "N", AT (depth), "reads in flight, 1 to 256 (what the cost model says)", 1, 256 },
    { "only", "LIST", AT (only),
        "of sequential, random_pieces, packed, served, plain_cold, plain_warm and\n"
        "plain_limited these alone" },
    { "drop-caches", NULL, AT (drop_caches),
        "also drop the kernel's caches of names before what is to be cold (needs root; the\n"
        "whole machine feels it)" },
    { "no-ring", NULL, AT (no_ring), "as if the kernel refused io_uring" },
    { "no-direct", NULL, AT (no_direct), "as if the file system refused O_DIRECT" },
    { "plot", "FILE", OPTION_CALL (s_plot), "a picture, .svg or .png (needs gnuplot)" },
    { "json", NULL, AT (json), "one JSON object instead of the table" }
};

static const option_table_t s_table = { "disk_bench", s_rows, OPTION_ROWS (s_rows), .before =
    "usage: disk_bench [options]\n"
    "\n"
    "Measures reading from a disk, in turn in several rounds of one run: the device alone (sequential,\n"
    "random pieces, random samples), a pack through the server's reader, raw pool and checksums under\n"
    "limits of memory, and the same files as a plain directory, cold and warm.  Medians.\n"
    "\n" };

int
disk_options_parse (disk_options_t *self, int argc, char **argv)
{
    *self = (disk_options_t) {
        .samples = 8192, .sample_bytes = 110000, .folder = ".", .memories = { 2, 8, 25 }, .memory_count = 3,
        .rounds = 5, .seconds = 3
    };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    if (status >= 0 || !self->data == !self->pack)
        return status;
    disk_complain ("--data and --pack belong together: a folder, and the pack that was made of it");
    return UNUSABLE;
}
