/*  disk_served -- a pack read through a server and a job of its own, bytes as they are: `tureen serve` and
 *  `tureen read`.  */
#ifndef DISK_SERVED_H
#define DISK_SERVED_H
#include "disk_device.h"

//  One epoch; limit_bytes is the server's --raw.  The time is the job's, from having joined to the last
//  batch.  False: it could not be done, and *why_p says why (static).
bool disk_served_read (const disk_data_t *data, const disk_options_t *options, uint64_t limit_bytes,
    uint32_t piece, disk_result_t *result, const char **why_p);

#endif
