/*  bad -- samples that cannot be prepared, and what jobs are told of them.  */
#ifndef BAD_H
#define BAD_H
#include "broker.h"
#include "dataset.h"

//  A worker found that the version's sample cannot be read.
void bad_found (broker_t *self, version_t *version, const char *reason);
//  A worker found that the version's sample is not what the version's class asks for.
void bad_unsuitable_found (broker_t *self, version_t *version, const char *reason);
//  Refuses a job that has on-bad fail and known bad samples in its data.
bool bad_allows (const broker_terms_t *join, refusal_t *refusal);
//  The join's on_bad, or that of its data set.
broker_bad_t bad_policy (const broker_terms_t *join);
//  Notes the known unreadable samples of the job's data, after it has joined the sampler.
void bad_join (job_t *job, const broker_terms_t *join);
//  Tells a returned rank of the unreadable samples that the other ranks know; or all ranks, if there are new
//  ones.
void bad_tell_rank (rank_t *rank);
void bad_tell (job_t *job);
//  Once a turn: tells a job of its first unreadable samples, a second after the first was found.
void bad_tell_due (broker_t *self, int64_t now_ms);
//  {"id": 3, "reason": ".."}; a new reference.
json_t *bad_describe (const bad_sample_t *bad);
void bad_forget (dataset_t *dataset);

#endif
