/*  schedule -- classes of versions, and rows that wait for a version.  */
#ifndef SCHEDULE_H
#define SCHEDULE_H
#include "broker_state.h"

//  Whether the cache has room for versions of the join's shared stage; jobs that may leave do not count.
bool schedule_allows (const broker_t *self, const broker_join_t *join, refusal_t *refusal);
//  Makes the job a consumer of the class of its shared stage, and the class if it is new.  The job has joined
//  the sampler and is allowed.
void schedule_join (broker_t *self, job_t *job);
//  For version_index_on_kind_end; context is the broker, user the class.
void schedule_class_over (void *context, void *user);
//  The row is to be filled from the version, of the same sample.  Takes over a pin.
void schedule_await (batch_row_t *row, version_t *version);
//  The row waits no more.  A row that a worker copies stays as it is.
void schedule_cancel (broker_t *self, batch_row_t *row);
//  After the jobs have changed: measures the memory that the index may use.
void schedule_measure (broker_t *self);

#endif
