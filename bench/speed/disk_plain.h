/*  disk_plain -- a plain folder's files read in random order, as the server reads them: opened, read and
 *  closed by the reading thread, many at once; one copy in the end, as to a job's ring.
 */
#ifndef DISK_PLAIN_H
#define DISK_PLAIN_H
#include "disk_device.h"

//  *count_p files, the first of the order that `order_seed` gives, in an order of their own by `seed`; or as
//  many as come in so many seconds: how many is put into *count_p.  False: a file could not be read, and it
//  was said.
bool disk_plain_read (const disk_data_t *data, const disk_options_t *options, uint64_t order_seed,
    uint64_t seed, uint32_t *count_p, disk_result_t *result);

//  Two passes in another process, which has only so many bytes for the page cache of what it reads, beside
//  the memory that it needs itself: the second's result.  What is in the page cache before does not count:
//  disk_data_forget_plain.
//  False: it could not be done, and *why_p says why (static).
bool disk_plain_read_limited (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint64_t seed, disk_result_t *result, const char **why_p);

#endif
