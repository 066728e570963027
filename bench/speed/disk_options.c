#include "disk_options.h"
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNUSABLE = 2 };

static const char s_help [] =
    "usage: disk_bench [options]\n"
    "\n"
    "Measures reading from a disk, in turn in several rounds of one run: the device alone (sequential, random\n"
    "pieces, random samples), a pack through the server's reader, raw pool and checksums under limits of memory,\n"
    "and the same files as a plain directory, cold and warm.  Medians.\n"
    "\n"
    "  --samples N         files of the data set that is made (8192)\n"
    "  --sample-bytes B    bytes of each, that no disk can compress (110000); K, M and G are powers of 1024\n"
    "  --folder DIR        where it is made, with its pack; removed at the end (the current directory)\n"
    "  --data DIR --pack DIR\n"
    "                      what is there already instead, left as it is: a folder and the pack made of it\n"
    "  --extensions LIST   of the files of --data: .wav,.flac (torchvision's images)\n"
    "  --memory LIST       limits in per cent of the data (2,8,25)\n"
    "  --rounds N          1 to 99 (5)\n"
    "  --seconds S         a measurement ends with its pass over the data, or after S seconds (3)\n"
    "  --piece N           samples of a piece, 1 to 64 (what the cost model says)\n"
    "  --depth N           reads in flight, 1 to 256 (what the cost model says)\n"
    "  --only LIST         of sequential, random_pieces, packed, served, plain_cold, plain_warm and\n"
    "                      plain_limited these alone\n"
    "  --drop-caches       also drop the kernel's caches of names before what is to be cold (needs root; the\n"
    "                      whole machine feels it)\n"
    "  --no-ring           as if the kernel refused io_uring\n"
    "  --no-direct         as if the file system refused O_DIRECT\n"
    "  --plot FILE         a picture, .svg or .png (needs gnuplot)\n"
    "  --json              one JSON object instead of the table\n";

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

//  A number from least to most, with K, M or G behind it where that is asked.  False: it has been complained
//  of.
static bool
s_number (const char *option, const char *text, uint64_t least, uint64_t most, bool has_unit,
    uint64_t *number_p)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull (text, &end, 10);
    const char *units = "KMG", *unit = *end && has_unit? strchr (units, *end): NULL;
    unsigned shift = unit? 10 * (unsigned) (unit - units + 1): 0;
    end += unit != NULL;
    if (*text >= '0' && *text <= '9' && !*end && errno == 0 && number <= most >> shift
        && number << shift >= least) {
        *number_p = number << shift;
        return true;
    }
    disk_complain ("--%s '%s': expected a number from %llu to %llu", option, text, (unsigned long long) least,
        (unsigned long long) most);
    return false;
}

static bool
s_number_32 (const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *number_p)
{
    uint64_t number;
    bool fine = s_number (option, text, least, most, false, &number);
    if (fine)
        *number_p = (uint32_t) number;
    return fine;
}

static bool
s_seconds (const char *text, double *seconds_p)
{
    char *end;
    *seconds_p = strtod (text, &end);
    if (end != text && !*end && *seconds_p >= 0.1 && *seconds_p <= 3600)
        return true;
    disk_complain ("--seconds '%s': expected a number from 0.1 to 3600", text);
    return false;
}

static bool
s_memory (disk_options_t *self, const char *list)
{
    char text [64];
    self->memory_count = 0;
    for (const char *item = list; item; item = strchr (item, ',')) {
        item += item != list;
        size_t length = strcspn (item, ",");
        snprintf (text, sizeof text, "%.*s", (int) length, item);
        if (self->memory_count == DISK_MEMORIES_MAX) {
            disk_complain ("--memory: at most %d limits", DISK_MEMORIES_MAX);
            return false;
        }
        if (!s_number_32 ("memory", text, 1, 100, &self->memories [self->memory_count++]))
            return false;
    }
    return true;
}

static bool
s_plot (disk_options_t *self, const char *text)
{
    size_t length = strlen (text);
    if (length < 5 || (strcmp (text + length - 4, ".svg") && strcmp (text + length - 4, ".png"))) {
        disk_complain ("--plot '%s': expected a name that ends in .svg or .png", text);
        return false;
    }
    self->plot = text;
    return true;
}

typedef enum {
    SAMPLES = 256, SAMPLE_BYTES, FOLDER, DATA, PACK, EXTENSIONS, MEMORY, ROUNDS, SECONDS, PIECE, DEPTH, ONLY,
    DROP_CACHES,
    NO_RING, NO_DIRECT, PLOT, JSON, HELP
} option_t;

static const struct option s_options [] = {
    { "samples", required_argument, NULL, SAMPLES },
    { "sample-bytes", required_argument, NULL, SAMPLE_BYTES },
    { "folder", required_argument, NULL, FOLDER }, { "data", required_argument, NULL, DATA },
    { "pack", required_argument, NULL, PACK }, { "extensions", required_argument, NULL, EXTENSIONS },
    { "memory", required_argument, NULL, MEMORY }, { "rounds", required_argument, NULL, ROUNDS },
    { "seconds", required_argument, NULL, SECONDS }, { "piece", required_argument, NULL, PIECE },
    { "only", required_argument, NULL, ONLY },
    { "depth", required_argument, NULL, DEPTH }, { "drop-caches", no_argument, NULL, DROP_CACHES },
    { "no-ring", no_argument, NULL, NO_RING }, { "no-direct", no_argument, NULL, NO_DIRECT },
    { "plot", required_argument, NULL, PLOT }, { "json", no_argument, NULL, JSON },
    { "help", no_argument, NULL, HELP },
    { NULL, 0, NULL, 0 }
};

//  False: it has been complained of.
static bool
s_take (disk_options_t *self, option_t option, const char *text)
{
    switch (option) {
    case SAMPLES:       return s_number_32 ("samples", text, 256, 1u << 28, &self->samples);
    case SAMPLE_BYTES:  return s_number ("sample-bytes", text, 1, UINT64_C (1) << 28, true,
    &self->sample_bytes);
    case FOLDER:        self->folder = text; return true;
    case DATA:          self->data = text; return true;
    case PACK:          self->pack = text; return true;
    case EXTENSIONS:    self->extensions = text; return true;
    case MEMORY:        return s_memory (self, text);
    case ROUNDS:        return s_number_32 ("rounds", text, 1, DISK_ROUNDS_MAX, &self->rounds);
    case SECONDS:       return s_seconds (text, &self->seconds);
    case PIECE:         return s_number_32 ("piece", text, 1, 64, &self->piece);
    case DEPTH:         return s_number_32 ("depth", text, 1, 256, &self->depth);
    case ONLY:          self->only = text; return true;
    case DROP_CACHES:   self->drop_caches = true; return true;
    case NO_RING:       self->no_ring = true; return true;
    case NO_DIRECT:     self->no_direct = true; return true;
    case PLOT:          return s_plot (self, text);
    case JSON:          self->json = true; return true;
    case HELP:          break;
    }
    return false;
}

int
disk_options_parse (disk_options_t *self, int argc, char **argv)
{
    *self = (disk_options_t) {
        .samples = 8192, .sample_bytes = 110000, .folder = ".", .memories = { 2, 8, 25 }, .memory_count = 3,
        .rounds = 5, .seconds = 3
    };
    for (int option; (option = getopt_long (argc, argv, "", s_options, NULL)) != -1;) {
        if (option == HELP)
            return fputs (s_help, stdout) < 0;
        if (option == '?' || !s_take (self, (option_t) option, optarg))
            return UNUSABLE;
    }
    if (optind < argc)
        disk_complain ("unexpected argument '%s'; try: disk_bench --help", argv [optind]);
    else
    if (!self->data != !self->pack)
        disk_complain ("--data and --pack belong together: a folder, and the pack that was made of it");
    else
        return -1;
    return UNUSABLE;
}
