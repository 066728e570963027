/*  simulated_run -- one run of a plan: the real sampler and the real prepared cache
 *  (server/versions/version_index.h) on a virtual clock, with nothing decoded.
 *
 *  Credit is the broker's (server/broker/draw/draw.c).  A job *needs* a draw when fewer than its window less
 *  one batch are drawn and not released (below two batches: fewer than a batch; with a window of 1: none); in
 *  a round, which some job of a group (sampler_group) needs, every job of the group below its full window
 *  takes part.  A batch is released when its last sample is consumed; with a window of 1 every sample is.
 *  The policy `lockstep` has no credit and no cache: a small model of its own.
 *
 *  Preparing takes no time, or (slow_factor > 0) the time of a virtual worker: then a job consumes a sample
 *  when it, and all drawn before it, are ready.  Draws are decided when they are due, either way.
 *
 *  A run is a function of plan and seed.  It uses no globals: runs may go on in several threads.
 */
#ifndef SIMULATED_RUN_H
#define SIMULATED_RUN_H
#include "orders_record.h"
#include "simulated_plan.h"

typedef struct {
    mean_t preparations;                //  one entry a run
    mean_t deliveries;                  //  samples drawn, also in epochs that were not finished
    mean_t needed;                      //  preparations that full sharing would take; see simulated_needed
    //  The same two from when every job's first epoch has ended until a job has drawn all: newcomers share
    //  little, and so do those that go on alone.  Of a lockstep run: empty.
    mean_t settled_preparations, settled_deliveries;
    size_t job_count;
    orders_figures_t *jobs;
} simulated_result_t;

//  bins: for each job where its positions are counted (orders_options_t), or NULL.
simulated_result_t simulated_run (const simulated_plan_t *plan, uint64_t seed, _Atomic uint32_t *const *bins);
void simulated_result_merge (simulated_result_t *self, const simulated_result_t *other);
void simulated_result_clear (simulated_result_t *self);

//  When a job was there, and how many samples it was given then.
typedef struct {
    double from, to;                    //  ticks
    double deliveries;
} simulated_stay_t;

//  Preparations that full sharing takes: at any time a sample must be prepared as often as that job uses it
//  which goes through its data most often, since no job uses a version twice.  Integrated over the jobs'
//  stays at their mean paces.  stays: one for each job of the plan.
double simulated_needed (const simulated_plan_t *plan, const simulated_stay_t *stays);

//  ---- for the files of this library

//  A record for each job; slow and pieces are lent to them.
orders_record_t **simulated_records (const simulated_plan_t *plan, const uint8_t *slow,
    const orders_stratum_t *pieces, size_t piece_count, _Atomic uint32_t *const *bins);
//  Takes what the records found, and the records.
void simulated_collect (simulated_result_t *result, orders_record_t **records, size_t job_count);

//  simulated_lockstep.c: the run of plans with this policy.
void simulated_lockstep (const simulated_plan_t *plan, uint64_t seed, orders_record_t *const *records,
    simulated_result_t *result);

#endif
