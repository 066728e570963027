/*  simulated_trials -- plans run with several seeds each, on as many threads as there are processors.
 *
 *  What comes out does not depend on the threads: each run is a function of its seed, and results are merged
 *  in the order of the seeds.
 */
#ifndef SIMULATED_TRIALS_H
#define SIMULATED_TRIALS_H
#include "simulated_run.h"

//  Whether a group of samples comes at other places than the rest: what each job of the plan holds, and for
//  plans with lists (simulated_subsets) the samples with more holders than the median has, and those of
//  fast holders: their speeds add up to more.  Each group of a job's epoch is a test; the worst is told.
typedef struct {
    size_t tests;
    double z;                           //  of the chi-square of the group's positions
    double bound;                       //  what |z| exceeds in one run of 10,000, for so many tests
    size_t job;
    uint32_t epoch;
    size_t group;                       //  a job's number, or SIMULATED_MANY_HOLDERS or _FAST_HOLDERS
} simulated_groups_t;

enum { SIMULATED_MANY_HOLDERS = SIMULATED_JOBS_MAX, SIMULATED_FAST_HOLDERS, SIMULATED_GROUPS };

typedef struct {
    simulated_plan_t plan;              //  its jobs lent
    uint64_t seed;                      //  of the first run; then one more each
    uint32_t seeds;                     //  runs, > 0
    bool counts_positions;              //  of at most SIMULATED_BINS_SAMPLES_MAX samples
    //  set by simulated_trials_run, cleared by simulated_trial_clear
    simulated_result_t result;          //  of all runs
    double **position_z;                //  by job and epoch: NAN if no run finished it; NULL: not counted
    simulated_groups_t groups;          //  if positions are counted
} simulated_trial_t;

//  Runs them all.  Threads that cannot be started are done without.
void simulated_trials_run (simulated_trial_t *trials, size_t count);
void simulated_trial_clear (simulated_trial_t *trial);

#endif
