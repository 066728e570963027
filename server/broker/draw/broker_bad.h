/*  broker_bad -- samples that cannot be prepared, and what jobs are told of them.  */
#ifndef BROKER_BAD_H
#define BROKER_BAD_H
#include "broker_state.h"

//  A worker found that the version's sample cannot be read.
void bad_found (broker_t *self, version_t *version, const char *reason);
//  A worker found that the version's sample is not what the version's class asks for.
void unsuitable_found (broker_t *self, version_t *version, const char *reason);
//  Refuses a job whose data hold what is known to be bad, where that is fatal.
bool bad_allows (const broker_join_t *join, refusal_t *refusal);
//  What becomes of the join's job when a sample of its data is bad.
broker_bad_t bad_policy (const broker_join_t *join);
//  The job, which has joined the sampler: what of its data is known to be unreadable.
void bad_join (job_t *job, const broker_join_t *join);
//  Tells the rank, which has come back, what the others were told; or all ranks of the job, if there is more
//  than they were told.
void bad_tell_rank (broker_t *self, rank_t *rank);
void bad_tell (broker_t *self, job_t *job);
//  Once a turn: tells the jobs that have known of some for a second.
void bad_tell_due (broker_t *self, int64_t now_ms);
void bad_forget (dataset_t *dataset);

#endif
