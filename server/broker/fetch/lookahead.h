/*  lookahead -- the pool of a job with an order of its own (stream_order.h): the samples of a pack that it
 *  reads ahead, and holds until they are drawn.
 */
#ifndef LOOKAHEAD_H
#define LOOKAHEAD_H
#include "job.h"

//  Of a job that reads ahead.
struct lookahead {
    roaring_bitmap_t *held;     //  ids, each held once in the raw store
    size_t bytes;
};

//  Bytes that the job may hold.
size_t lookahead_bound (const broker_terms_t *join);
//  The job reads ahead from now on, and may hold so many bytes; it has joined the sampler and the version
//  index.
void lookahead_begin (broker_t *self, job_t *job, size_t bytes_max);
//  The job leaves, and holds nothing any more.
void lookahead_end (broker_t *self, job_t *job);
//  The sample was drawn, or has left the job's data: gives back the hold on it, if there is one, and reads
//  what enters the pool.
void lookahead_drop (broker_t *self, job_t *job, uint32_t id);
//  The job's next epoch has begun: gives back the holds on samples that the last one did not deliver
//  (drop_last), and reads what enters the pool.
void lookahead_epoch_begin (broker_t *self, job_t *job);
size_t lookahead_bytes (const job_t *job);
void lookahead_check (const broker_t *self, const job_t *job);

#endif
