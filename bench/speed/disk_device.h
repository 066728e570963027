/*  disk_device -- what a disk gives by itself: ranges of a pack's volumes read as fast as it can be, and
 *  thrown away.
 *
 *  Past the page cache where the file system lets it, by io_uring, or by as many threads as reads are to be
 *  in flight where the kernel refuses that; none of the server's code takes part.
 */
#ifndef DISK_DEVICE_H
#define DISK_DEVICE_H
#include "disk_data.h"

typedef struct {
    uint64_t bytes;
    double seconds;
} disk_result_t;

//  Whole blocks of a volume.
typedef struct {
    uint64_t offset;
    uint32_t volume, bytes;
} disk_range_t;

typedef struct {
    disk_range_t *ranges;               //  the owner's to free
    size_t count;
    uint32_t bytes_max;
} disk_ranges_t;

typedef struct disk_device disk_device_t;

//  NULL: why was said.
disk_device_t *disk_device_new (const disk_data_t *data, const disk_options_t *options);
void disk_device_destroy (disk_device_t **self_p);
bool disk_device_is_direct (const disk_device_t *self);
bool disk_device_has_ring (const disk_device_t *self);

//  All of the pack in requests of so many bytes, in order; in pieces of so many samples, in random order.
disk_ranges_t disk_ranges_sequential (const disk_data_t *data, uint32_t request_bytes);
disk_ranges_t disk_ranges_pieces (const disk_data_t *data, uint32_t piece, uint64_t seed);

//  Reads them, depth at once, each once, for at most so many seconds.  False: a read failed, and it was said.
bool disk_device_read (disk_device_t *self, const disk_ranges_t *ranges, uint32_t depth, double seconds,
    disk_result_t *result);

//  splitmix64, a bound's tiny bias is no matter here.
uint64_t disk_random_below (uint64_t *state, uint64_t bound);

#endif
