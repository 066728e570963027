/*  disk_options -- the command line of disk_bench.  */
#ifndef DISK_OPTIONS_H
#define DISK_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_MEMORIES_MAX = 8, DISK_ROUNDS_MAX = 99 };

typedef struct {
    uint32_t samples;                   //  of the data set that is made
    uint64_t sample_bytes;
    const char *folder;                 //  a folder of its own is made in it, and removed at the end
    const char *data, *pack;            //  what is there already; NULL: made
    const char *extensions;             //  of the files of data; NULL: torchvision's
    uint32_t memories [DISK_MEMORIES_MAX];      //  per cent of the data
    size_t memory_count;
    uint32_t rounds;
    double seconds;                     //  of one measurement, at most
    uint32_t piece, depth;              //  0: the cost model's
    const char *only;                   //  kinds of lines, commas between; NULL: all
    bool drop_caches;                   //  /proc/sys/vm/drop_caches too, before what is to be cold
    bool no_ring, no_direct;
    const char *plot;                   //  a picture (.svg, .png); NULL: none
    bool json;
} disk_options_t;

//  -1: go on; else the exit status: help was asked for (0), or the arguments are unusable, and what is wrong
//  was said (2).
int disk_options_parse (disk_options_t *self, int argc, char **argv);
//  "disk_bench: ..." on standard error.
void disk_complain (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

#endif
