/*  raw_prefetch -- what is read of packs ahead of the draws: gives each job its tier or pool, and divides the
 *  memory for compressed samples among these.
 */
#ifndef RAW_PREFETCH_H
#define RAW_PREFETCH_H
#include "dataset.h"
#include "raw_pool.h"
#include "tier.h"

//  A data set that is a pack, or a folder's copy (broker_pack_t).
struct raw_prefetch {
    broker_t *broker;
    broker_pack_t given;
    uint32_t *positions;                    //  of each id
    size_t sample_bytes_max;
    uint64_t bytes;                         //  of all samples
    double square_bytes;                    //  the sum of their squares
    tier_t *tier;                           //  of the SHARED jobs that do not draw apart; NULL: no such job
    raw_pool_figures_t last;                //  of the SHARED tier that ended last
    raw_pool_figures_t past;                //  counters of SHARED tiers that have ended
    size_t reading, reading_bytes;          //  requests handed out, and the memory of their samples
    uint64_t reads;                         //  carried out
    uint64_t bytes_read, bytes_handed;      //  from the source, whole blocks; to workers
    uint64_t memory_bytes;                  //  of drawn samples that were resident
    uint64_t source_bytes, source_ns;       //  of bytes_read, from the disk or the store; the reads' times,
                                            //  of which many pass at once
    uint64_t cached_bytes, cached_ns;       //  of bytes_read, from the local disk's cache of a store
    uint64_t peer_bytes, peer_ns;           //  of bytes_read, from other members of the cluster
    uint64_t gets, slow_gets;               //  how often a store was asked; of these, given up as slow
};

//  The least bytes of a tier on the data set.
size_t raw_prefetch_tier_least (const dataset_t *dataset);
//  Whether the tenant has memory for the job's own tier or pool, if it needs one; memory of the ghost counts
//  as free.
bool raw_prefetch_allows (const broker_t *self, const broker_terms_t *join, const job_t *ghost,
    refusal_t *refusal);
//  The most that the join's reads need beside the samples: its tier if it has one of its own, its history in
//  the tier, or its pool.
size_t raw_prefetch_bookkeeping (const broker_t *self, const broker_terms_t *join);
//  The job reads from now on; it has joined the sampler and the version index.
void raw_prefetch_join (broker_t *self, job_t *job, const broker_terms_t *join);
//  The job leaves, before it leaves the version index and the sampler.
void raw_prefetch_leave (broker_t *self, job_t *job);
//  The job has begun another epoch.
void raw_prefetch_epoch_begin (broker_t *self, job_t *job);
//  The sample has been dropped.
void raw_prefetch_forget (broker_t *self, dataset_t *dataset, uint32_t id);
void raw_prefetch_destroy (dataset_t *dataset);
//  A pack has been added, or is gone: tiers and lanes have other parts of the memory.
void raw_prefetch_packs_changed (broker_t *self);
//  The job's own tier; null: it has none.
json_t *raw_prefetch_job_status (const job_t *job);
//  sees_all: include the state of the shared tier, which reveals all jobs in it.
json_t *raw_prefetch_status (const dataset_t *dataset, bool sees_all);
void raw_prefetch_check (broker_t *self);

//  The order of the pack that a job's own order may follow; NULL: there is none.
const uint32_t *raw_prefetch_order (const dataset_t *dataset);
//  Packs that are served.
size_t raw_prefetch_packs (const broker_t *self);
//  The part of the raw store's budget that is for resident samples.
size_t raw_prefetch_resident_bytes (const broker_t *self);
//  Schedules what the job's tier asks for.
void raw_prefetch_fill (broker_t *self, const job_t *job, tier_t *tier);

//  Memory for compressed samples, divided among tiers.
typedef struct {
    size_t tiers [BROKER_DATASETS_MAX];     //  how many, on each data set
    size_t bytes;                           //  for all of them
    size_t least;                           //  each tier has at least so much, or all that its data take
    //  raw_prefetch_division_settle's
    double mean_bytes, level;
} raw_prefetch_division_t;

void raw_prefetch_division_settle (raw_prefetch_division_t *self, const broker_t *broker);
//  Bytes of each tier on this data set, after raw_prefetch_division_settle.
size_t raw_prefetch_division_part (const raw_prefetch_division_t *self, const dataset_t *dataset);

#endif
