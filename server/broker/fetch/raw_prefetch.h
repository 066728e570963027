/*  raw_prefetch -- compressed samples of packs: what is read, and when.  */
#ifndef RAW_PREFETCH_H
#define RAW_PREFETCH_H
#include "broker_state.h"

//  The least bytes of a tier on the data set.
size_t raw_prefetch_tier_least (const dataset_t *dataset);
//  Whether the tenant has memory for the job's own tier or pool, if it needs one; memory of the ghost counts
//  as free.
bool raw_prefetch_allows (const broker_t *self, const broker_join_t *join, const job_t *ghost,
    refusal_t *refusal);
//  The most that the join's reads need beside the samples: its tier if it has one of its own, its history in
//  the tier, or its pool.
size_t raw_prefetch_bookkeeping (const broker_t *self, const broker_join_t *join);
//  The job reads from now on; it has joined the sampler and the version index.
void raw_prefetch_join (broker_t *self, job_t *job, const broker_join_t *join);
//  The job leaves, before it leaves the version index and the sampler.
void raw_prefetch_leave (broker_t *self, job_t *job);
//  The job has begun another epoch.
void raw_prefetch_epoch_begin (broker_t *self, job_t *job);
//  The sample has been dropped.
void raw_prefetch_forget (broker_t *self, dataset_t *dataset, uint32_t id);
//  The lane of the tenant's reads in the raw store; NULL: that of the data sets' tiers.
uint32_t raw_prefetch_lane (const broker_t *self, const tenant_t *tenant);
void raw_prefetch_destroy (dataset_t *dataset);
//  The job's own tier; null: it has none.
json_t *raw_prefetch_job_status (const job_t *job);
//  sees_all: include the state of the shared tier, which reveals all jobs in it.
json_t *raw_prefetch_status (const dataset_t *dataset, bool sees_all);
void raw_prefetch_check (broker_t *self);

//  Packs that are served.
size_t raw_prefetch_packs (const broker_t *self);
//  The part of the raw store's budget that is for resident samples.
size_t raw_prefetch_resident_bytes (const broker_t *self);
//  Schedules what the job's tier asks for.
void raw_prefetch_fill (broker_t *self, const job_t *job, tier_t *tier);
//  The most bytes of one read of several samples.
size_t raw_prefetch_read_bytes_max (const broker_t *self, const raw_prefetch_t *prefetch);

#endif
