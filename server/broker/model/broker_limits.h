/*  broker_limits -- what tenants may have, and have.  */
#ifndef BROKER_LIMITS_H
#define BROKER_LIMITS_H
#include "broker_state.h"

//  Whether there are several tenants: then no tenant may learn anything of another.
bool limits_apply (const broker_t *self);
tenant_t *limits_tenant (const broker_t *self, const broker_join_t *join);
//  Whether the tenant may have one more job, of memory_bytes, as if the ghost had left already.
bool limits_allow (const broker_t *self, const broker_join_t *join, const job_t *ghost, size_t memory_bytes,
    refusal_t *refusal);
//  Whether the tenant's part and limit of the cache are enough for versions of this size.
bool limits_allow_version (const broker_t *self, const tenant_t *tenant, size_t version_bytes,
    refusal_t *refusal);
//  The number of a new job.
uint64_t limits_new_job (broker_t *self, tenant_t *tenant);
//  A job has joined, is over, or is freed.
void limits_enter (job_t *job);
void limits_leave (job_t *job);
void limits_reclaim (job_t *job);
//  A version is ready: counts it for the tenants of the rows that wait for it.
void limits_prepared (const version_t *version);
void limits_count (counter_t counters [COUNTERS_MAX], const char *what);
json_t *limits_status (const broker_t *self, const tenant_t *tenant);
void limits_check (const broker_t *self);

#endif
