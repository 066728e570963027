/*  disk_packed -- a pack read as the server reads it, without a server: one job's pass over a stream of
 *  pieces.
 *
 *      raw pool (which piece next, which samples are drawn) -> raw store (memory, requests) -> reading thread
 *      (io_uring, checksums, samples into memory of their own) -> one copy in the order of the draws, as to a
 *      job's ring
 *
 *  All compressed samples and the memory for ranges on their way stay within the limit.
 */
#ifndef DISK_PACKED_H
#define DISK_PACKED_H
#include "cost.h"
#include "disk_device.h"

typedef struct {
    uint32_t depth;                     //  that the model had come to at the end of the pass
    double read_amplification;          //  bytes from the disk for each byte of a sample
} disk_packed_notes_t;

//  Least memory for it.
uint64_t disk_packed_least (const disk_data_t *data);
//  One pass over the pack, or as much of it as comes in so many seconds; cost goes on learning.  Counted is
//  what has arrived: after a whole pass, that is what was delivered; before, what fills the pool was read all
//  the same.  False: a sample could not be read, and it was said.
bool disk_packed_read (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint32_t piece, cost_t *cost, uint64_t seed, disk_result_t *result, disk_packed_notes_t *notes);
//  Samples of a piece, as the server would take them.
uint32_t disk_packed_piece (const disk_data_t *data, const disk_options_t *options, const cost_t *cost,
    uint64_t limit_bytes);

#endif
