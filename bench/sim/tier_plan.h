/*  tier_plan -- what tier_sim is to simulate: a pack, its raw pool, a prepared cache, and jobs.
 *
 *  The clock ticks once for every sample that a job of speed 1 draws; `epoch` as a unit of time is as many
 *  ticks as there are samples.  What falls due between two ticks is done at the later one.
 */
#ifndef TIER_PLAN_H
#define TIER_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "raw_pool.h"

enum { TIER_PLAN_JOBS_MAX = 256, TIER_PLAN_EPOCHS_MAX = 100000, TIER_PLAN_TENANTS_MAX = 16 };

typedef enum { TIER_DSA, TIER_FOLLOW, TIER_PRIVATE } tier_sampler_t;

typedef struct {
    double speed;               //  samples a tick, in (0, 1]
    double start;               //  in epochs
    uint32_t epochs;            //  > 0
    double from, to;            //  its data, as shares of all samples
} tier_plan_job_t;

typedef struct {
    raw_policy_t policy;
    tier_sampler_t sampler;
    uint32_t samples;
    uint32_t chunk, piece;      //  samples
    double memory;              //  of the raw pool, as a share of all samples; under TIER_PRIVATE of each
                                //  job's
    uint32_t virtual_chunks;    //  redox; 0: as many as fit into `memory`; else that is as large as they need
    double pins;                //  as a share of all samples; 0: none
    double cache;               //  of the prepared cache, as a share of all samples
    bool is_deterministic;      //  a version serves a job in every epoch; else once
    uint32_t tenants;           //  jobs are theirs in turn, and all have the same weight; 0: one
    uint32_t batch;
    size_t sample_bytes;        //  of each sample
    size_t align;               //  of what a read begins and ends at, and of chunks
    bool published_rng;         //  redox alone: tier_published.h
    double until;               //  ends the run after so many epochs of a job of speed 1, even with jobs
                                //  present; 0: does not
    const tier_plan_job_t *jobs;            //  lent
    size_t job_count;
} tier_plan_t;

//  The job's data as ids [*from_p .. *to_p).
static inline void
tier_plan_data (const tier_plan_t *plan, size_t job, uint32_t *from_p, uint32_t *to_p)
{
    *from_p = (uint32_t) (plan->jobs [job].from * plan->samples + 0.5);
    *to_p = (uint32_t) (plan->jobs [job].to * plan->samples + 0.5);
}

#endif
