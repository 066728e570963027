/*  tier_run -- one run of a plan: the real sampler, prepared cache and raw pool (server/versions/tier.h) on a
 *  virtual clock and a disk that only counts.
 *
 *  A job draws its k-th sample, counted from 0, at the first tick at or after start + k / speed; those of a
 *  group that are due at the same tick draw in one round.  Nothing takes time, as no decision depends on when
 *  something is ready.  Every sample handed to a worker makes one version.  Versions are random ones, so that
 *  each epoch needs new ones, unless the plan says otherwise.
 *
 *  The pack is a permutation of the ids, from the seed (with a published generator: the identity), in chunks
 *  that are padded to `align`, and volumes of whole chunks, up to 1 GiB.  A read takes all bytes from the
 *  first sample's first to the last one's last, rounded out to `align`.
 *
 *  A run is a function of plan and seed, and uses no globals.
 */
#ifndef TIER_RUN_H
#define TIER_RUN_H
#include "orders_record.h"
#include "tier_mixing.h"
#include "tier_plan.h"

typedef struct {
    orders_figures_t orders;
    tier_mixing_t mixing;
    uint64_t order_hash;                //  FNV-1a of the ids in the order of delivery
} tier_job_result_t;

//  Why a draw reads a sample by itself: what is resident that the jobs of the draw ..
typedef enum {
    TIER_SINGLE_UNNEEDED,               //  .. need: nothing;
    TIER_SINGLE_ELSEWHERE,              //  .. need is of other strata, or versions serve it;
    TIER_SINGLE_REFUSED,                //  .. need otherwise, the quotas of `follow` refuse;
    TIER_SINGLE_PASSED_BY,              //  .. need, the pool did not give: it is of other jobs' supplies, was
                                        //  not found, or the policy does not redirect
    TIER_SINGLE_REASONS
} tier_single_t;

enum { TIER_TENTHS = 10, TIER_SINGLE_EVERY = 16 };

typedef struct {
    uint64_t *loads;                    //  reads in each epoch of the fastest job (the first of several)
    uint64_t *singles_by_epoch;         //  those of samples by themselves
    uint64_t *bytes_by_epoch;           //  that were read
    size_t load_count;
    double pinned;                      //  samples, as a share of all
    uint64_t singles_by_tenth [TIER_TENTHS];    //  of the drawing job's epoch
    uint64_t reasons [TIER_SINGLE_REASONS];     //  of each TIER_SINGLE_EVERYth single read
    uint64_t reads, singles;            //  of pieces or chunks; of samples by themselves
    uint64_t single_bytes, read_bytes;  //  of single reads; of all
    uint64_t handed;                    //  samples that went to workers
    uint64_t deliveries;
    uint64_t discarded;                 //  samples that were read, and left the pool without going to a
                                        //  worker
    uint64_t filled;                    //  samples that became resident
    double data_epochs;                 //  bytes of all jobs' data, times the epochs of the fastest job
    mean_t resident;                    //  resident bytes / limit, at draws
    uint64_t limit_bytes, most_bytes;   //  the most that was resident at once
    uint64_t order_hash;                //  of all jobs
    tier_job_result_t *jobs;
    size_t job_count;
} tier_result_t;

//  bins: for each job where its positions are counted (orders_record.h), or NULL.  pack_seed: of the pack's
//  order.
tier_result_t tier_run (const tier_plan_t *plan, uint64_t seed, uint64_t pack_seed,
    _Atomic uint32_t *const *bins);
void tier_result_clear (tier_result_t *self);

//  FNV-1a.
uint64_t tier_hash_begin (void);
uint64_t tier_hash_add (uint64_t hash, uint32_t id);

#endif
