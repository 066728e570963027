/*  lookahead -- samples that orders with a pool read ahead of their draws.  */
#ifndef LOOKAHEAD_H
#define LOOKAHEAD_H
#include "broker_state.h"

//  Bytes that the job may hold.
size_t lookahead_bound (const broker_join_t *join);
//  The job, which has joined sampler and version index, reads from now on; it may hold so much.
void lookahead_begin (broker_t *self, job_t *job, size_t bytes_max);
//  It leaves; all it holds goes.
void lookahead_end (broker_t *self, job_t *job);
//  Reads what has entered the pool: after a begin, every draw, every drop and at an epoch's begin.
void lookahead_fill (broker_t *self, job_t *job);
//  The sample has been drawn or dropped: it is held no more.  Idempotent.
void lookahead_drop (broker_t *self, job_t *job, uint32_t id);
//  What the epoch has left over (drop_last) is held no more.
void lookahead_clear (broker_t *self, job_t *job);
//  Whether the sample is in its pool.
bool lookahead_holds (const job_t *job, uint32_t id);
size_t lookahead_bytes (const job_t *job);
void lookahead_check (const broker_t *self, const job_t *job);

#endif
