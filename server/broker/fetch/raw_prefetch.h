/*  raw_prefetch -- compressed samples of packs: what is read, and when.  */
#ifndef RAW_PREFETCH_H
#define RAW_PREFETCH_H
#include "broker_state.h"

//  What a tier on the data set needs at least.
size_t raw_prefetch_tier_least (const dataset_t *dataset);
//  Whether its tenant has memory for the job's tier, if it needs one of its own, or for its pool; without
//  what the ghost has of it.
bool raw_prefetch_allows (const broker_t *self, const broker_join_t *join, const job_t *ghost,
    refusal_t *refusal);
//  The job, which has joined sampler and version index, reads from now on.
void raw_prefetch_join (broker_t *self, job_t *job, const broker_join_t *join);
//  It leaves; version index and sampler still know it.
void raw_prefetch_leave (broker_t *self, job_t *job);
//  It has begun another epoch.
void raw_prefetch_epoch_begin (broker_t *self, job_t *job);
//  The sample has been dropped.
void raw_prefetch_forget (broker_t *self, dataset_t *dataset, uint32_t id);
//  Inside an offer to these jobs: the id to commit.
uint32_t raw_prefetch_pick (job_t *const *jobs, consumer_t **consumers, size_t count);
//  It has been committed, and these versions serve the jobs: those that are new get hold of the sample's
//  bytes.
void raw_prefetch_drawn (broker_t *self, job_t *job, uint32_t id, version_t *const *versions, size_t count);
//  Where the tenant's reads stand in the raw store; NULL: those of the data sets' tiers.
uint32_t raw_prefetch_lane (const broker_t *self, const tenant_t *tenant);
//  A read that was handed out is none any more: what it cost counts, its samples have no memory, and it is at
//  rest.
void raw_prefetch_unread (broker_t *self, raw_request_t *request);
//  Hands out reads.  False: the first in line waits for memory.
bool raw_prefetch_dispatch (broker_t *self);
void raw_prefetch_destroy (dataset_t *dataset);
//  sees_all: with what its tier is doing, which has to do with all who use it.
//  Of the job's own tier; null: it has none.
json_t *raw_prefetch_job_status (const job_t *job);
json_t *raw_prefetch_status (const dataset_t *dataset, bool sees_all);
void raw_prefetch_check (broker_t *self);

//  The most that a read of several samples may bring.
size_t raw_prefetch_read_bytes_max (const broker_t *self, const raw_prefetch_t *supply);

#endif
