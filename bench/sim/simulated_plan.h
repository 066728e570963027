/*  simulated_plan -- what is to be simulated: jobs, their speeds and data, the cache, and the policy.
 *
 *  The clock ticks once for every sample that a job of speed 1 consumes; `epoch` as a unit of time is as many
 *  ticks as there are samples.  What falls due between two ticks is done at the later one: so jobs of
 *  different speed meet in a round, as they do where a window lets draws run ahead.
 */
#ifndef SIMULATED_PLAN_H
#define SIMULATED_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "orders_record.h"

enum {
    SIMULATED_JOBS_MAX = 256,
    SIMULATED_EPOCHS_MAX = 100000,
    SIMULATED_BINS_SAMPLES_MAX = 1000       //  positions are counted up to here
};

typedef enum {
    SIMULATED_DSA,              //  the sampler's policies
    SIMULATED_FOLLOW,
    SIMULATED_RESIDENT,
    SIMULATED_INDEPENDENT,      //  every job draws alone and uniformly; the cache is common
    SIMULATED_LOCKSTEP,         //  CoorDL: the same sample to all at once, at the speed of the slowest
    SIMULATED_SEEDED,           //  every job's order is its seed's; nothing is shared
    SIMULATED_POLICIES
} simulated_policy_t;

typedef struct {
    double speed;               //  samples a tick, in (0, 1]
    double start;               //  in epochs
    uint32_t epochs;            //  > 0
    double from, to;            //  its data, as shares of all samples
    const uint32_t *ids;        //  or these, ascending (simulated_subsets); lent; NULL: from and to say
    uint32_t id_count;
    uint32_t late;              //  its first batch takes the time of so many samples more
    double leave;               //  in epochs; INFINITY: when all its epochs are done
} simulated_job_t;

typedef struct {
    simulated_policy_t policy;
    uint32_t samples;
    uint32_t cache;             //  versions that the prepared cache holds, > 0
    uint32_t window;            //  1, or at least a batch
    uint32_t batch;
    bool is_deterministic;      //  a version serves a job in every epoch; else once
    double jitter;              //  a step takes its time +- this share of it, in [0, 1)
    double slow_fraction;       //  of the samples takes ...
    double slow_factor;         //  ... so many times as long to prepare.  0: preparing takes no time at all
    const simulated_job_t *jobs;            //  lent
    size_t job_count;
} simulated_plan_t;

//  "dsa", "follow" ...
const char *simulated_policy_name (simulated_policy_t policy);

//  The job's data as ids [*from_p .. *to_p), where they are no list; of a list [0 .. how many).
void simulated_data (const simulated_plan_t *plan, size_t job, uint32_t *from_p, uint32_t *to_p);
//  Gives each job a random half of all samples, the same halves in every run and for every seed.  The caller
//  frees what it returns after the jobs.
uint32_t *simulated_subsets (simulated_job_t *jobs, size_t job_count, uint32_t samples);
//  For each sample a byte: is it the job's?
void simulated_mark_data (const simulated_plan_t *plan, size_t job, uint8_t *has);

//  Whether a sample is slow to prepare.  The same ones in every run, so that a bias of theirs adds up.
bool simulated_is_slow (const simulated_plan_t *plan, uint32_t id);
//  A byte for each sample: is it slow?  NULL: nothing is.  The caller's to free.
uint8_t *simulated_slow_samples (const simulated_plan_t *plan);

//  The place of each sample in the job's list, or id_count; NULL: the job has no list.  The caller's to free.
uint32_t *simulated_places (const simulated_plan_t *plan, size_t job);

//  Cuts all ids where a job's data begin or end.  Pieces that are in the same jobs' data have one number;
//  numbers count up from 0 in the order of the pieces.  Where jobs have lists each sample is a piece of its
//  own.  The caller's to free.
orders_stratum_t *simulated_strata (const simulated_plan_t *plan, size_t *count_p);

#endif
