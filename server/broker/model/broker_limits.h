/*  broker_limits -- what tenants may have, and have.  */
#ifndef BROKER_LIMITS_H
#define BROKER_LIMITS_H
#include "broker_state.h"

//  Whether there are several, so that nothing of one may be told to another.
bool limits_apply (const broker_t *self);
tenant_t *limits_tenant (const broker_t *self, const broker_join_t *join);
//  Whether its tenant may have one more job; memory_bytes: of it, slot_bytes of a rank's.  As if the ghost
//  had left already.
bool limits_allow (const broker_t *self, const broker_join_t *join, const job_t *ghost, size_t memory_bytes,
    refusal_t *refusal);
//  Whether its part of the cache, and its setting for that, let it have versions of this size.
bool limits_allow_version (const broker_t *self, const tenant_t *tenant, size_t version_bytes,
    refusal_t *refusal);
//  Of a new job: its number.
uint64_t limits_new_job (broker_t *self, tenant_t *tenant);
//  A job is there; it is over; it is reclaimed.
void limits_enter (job_t *job);
void limits_leave (job_t *job);
void limits_reclaim (job_t *job);
//  A version is ready: whoever waits for it has had it made.
void limits_prepared (const version_t *version);
void limits_count (counter_t counters [COUNTERS_MAX], const char *what);
json_t *limits_status (const broker_t *self, const tenant_t *tenant);
void limits_check (const broker_t *self);

#endif
