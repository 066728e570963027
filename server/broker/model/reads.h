/*  reads -- counters that status shows: the bytes that were read for a job's samples, and those that pins
 *  (pins.h) saved.
 *
 *  A sample's bytes count when they are handed to a worker: for each job that waits for the version then, in
 *  the epoch of its row.  So a read that serves several jobs counts whole for each of them; a version that is
 *  there already, and bytes that stayed in the pool since an earlier draw, were not read again and do not
 *  count.
 *
 *  For status, no decision reads it.  Figures depend on what other tenants' jobs have pinned: they are for
 *  operators, and for servers without tenants.  Owner: the broker's thread.
 */
#ifndef READS_H
#define READS_H
#include <stdint.h>
#include <jansson.h>
#include "raw_store.h"
#include "version_index.h"

typedef struct job job_t;

typedef struct {
    uint64_t bytes;             //  wherever they came from
    uint64_t pinned_bytes;      //  of these, from pins
    uint64_t saved_ns;          //  of the source's time (device_saved_ns)
} reads_sum_t;

typedef struct {
    uint64_t epoch;
    reads_sum_t sum;
} reads_epoch_t;

//  A job's; nothing but zeros when it joins.
typedef struct {
    reads_sum_t all;
    reads_epoch_t epochs [2];   //  the newest even and odd one
} reads_t;

//  The files of the version's sample have been read.
void reads_count (const version_t *version, const reads_sum_t *read);
//  A range of a pack has been read: each of its samples gets its part.
void reads_divide (const raw_request_t *request);
//  The version's bytes, of a pack's sample, are handed to a worker.
void reads_count_raw (const version_t *version);
//  The job's, in all and in the epoch that its loop is in.
json_t *reads_status (const job_t *job);

#endif
