#include "simulated_trials.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "simulated_memory.h"

typedef struct {
    simulated_trial_t *trial;
    uint64_t seed;
    _Atomic uint32_t *const *bins;      //  of the trial
    simulated_result_t result;
} run_t;

typedef struct {
    run_t *runs;
    size_t count;
    atomic_size_t next;
} work_t;

static void *
s_work (void *argument)
{
    work_t *work = argument;
    for (size_t at; (at = atomic_fetch_add (&work->next, 1)) < work->count;) {
        run_t *run = &work->runs [at];
        run->result = simulated_run (&run->trial->plan, run->seed, run->bins);
    }
    return NULL;
}

//  This thread and as many more as there are processors for.
static void
s_work_in_threads (work_t *work)
{
    long processors = sysconf (_SC_NPROCESSORS_ONLN);
    size_t wanted = processors > 1? (size_t) processors - 1: 0, started = 0;
    if (wanted >= work->count)
        wanted = work->count - 1;
    pthread_t *threads = simulated_alloc (wanted, sizeof *threads);
    while (started < wanted && pthread_create (&threads [started], NULL, s_work, work) == 0)
        started++;
    s_work (work);
    while (started > 0)
        pthread_join (threads [--started], NULL);
    free (threads);
}

//  ---- positions

static uint64_t
s_samples (const simulated_plan_t *plan, size_t job)
{
    uint32_t from, to;
    simulated_data (plan, job, &from, &to);
    return to - from;
}

static _Atomic uint32_t **
s_new_bins (const simulated_plan_t *plan)
{
    _Atomic uint32_t **bins = simulated_alloc (plan->job_count, sizeof *bins);
    for (size_t job = 0; job < plan->job_count; job++)
        bins [job] = simulated_alloc (plan->jobs [job].epochs * s_samples (plan, job) * ORDERS_BINS,
            sizeof **bins);
    return bins;
}

//  ---- groups of samples

//  How far from the middle a normal z is in one case of 1 / chance, either way.
static double
s_normal_quantile (double chance)
{
    double low = 0, high = 40;
    while (high - low > 1e-6) {
        double middle = (low + high) / 2;
        if (erfc (middle / sqrt (2)) > chance)
            low = middle;
        else
            high = middle;
    }
    return high;
}

//  Of runs * samples places in an epoch, those of a group of so many samples, by bin: as a normal z.  The
//  group's places in a run are drawn without replacement, hence (samples - 1) / samples.
static double
s_group_z (const uint64_t *counts, uint64_t group, uint64_t samples, uint64_t runs)
{
    double chi_square = 0, share = (double) group / (double) samples;
    for (uint64_t bin = 0; bin < ORDERS_BINS; bin++) {
        double places = (double) runs * (double) orders_bin_size (samples, ORDERS_BINS, bin);
        double off = (double) counts [bin] - places * share;
        chi_square += off * off / (places * share * (1 - share));
    }
    chi_square *= ((double) samples - 1) / (double) samples;
    double df = ORDERS_BINS - 1, spread = 2 / (9 * df);
    return (cbrt (chi_square / df) - (1 - spread)) / sqrt (spread);
}

typedef struct {
    const simulated_plan_t *plan;
    uint8_t *has [SIMULATED_GROUPS];    //  by sample; NULL: no group
} grouping_t;

//  The samples for which the sum over their holders is above the median of all samples.
static uint8_t *
s_upper_half (const grouping_t *self, bool counts_speed)
{
    const simulated_plan_t *plan = self->plan;
    double *sums = simulated_alloc (plan->samples, sizeof *sums);
    for (uint32_t id = 0; id < plan->samples; id++)
        for (size_t job = 0; job < plan->job_count; job++)
            sums [id] += self->has [job] [id] * (counts_speed? plan->jobs [job].speed: 1);
    double low = 0, high = (double) plan->job_count;
    for (int step = 0; step < 50; step++) {
        double middle = (low + high) / 2;
        uint32_t above = 0;
        for (uint32_t id = 0; id < plan->samples; id++)
            above += sums [id] > middle;
        *(above > plan->samples / 2? &low: &high) = middle;
    }
    uint8_t *has = simulated_alloc (plan->samples, 1);
    for (uint32_t id = 0; id < plan->samples; id++)
        has [id] = sums [id] > high;
    free (sums);
    return has;
}

//  One job's epoch.  A group that has all or nothing of the job's data is none.
static void
s_judge_groups (simulated_groups_t *worst, const grouping_t *self, size_t job, uint32_t epoch,
    const _Atomic uint32_t *counts, uint64_t samples, uint64_t runs)
{
    const uint32_t *ids = self->plan->jobs [job].ids;
    uint32_t from, to;
    simulated_data (self->plan, job, &from, &to);
    for (size_t group = 0; group < SIMULATED_GROUPS; group++) {
        uint64_t of_group [ORDERS_BINS] = { 0 }, size = 0;
        for (uint64_t place = 0; self->has [group] && place < samples; place++)
            if (self->has [group] [ids? ids [place]: from + place]) {
                size++;
                for (uint64_t bin = 0; bin < ORDERS_BINS; bin++)
                    of_group [bin] += counts [place * ORDERS_BINS + bin];
            }
        if (size == 0 || size == samples || samples < ORDERS_BINS)
            continue;
        double z = s_group_z (of_group, size, samples, runs);
        worst->tests++;
        if (worst->tests > 1 && fabs (z) <= fabs (worst->z))
            continue;
        worst->z = z;
        worst->job = job;
        worst->epoch = epoch;
        worst->group = group;
    }
}

static grouping_t
s_groups_of (const simulated_plan_t *plan)
{
    grouping_t self = { .plan = plan };
    for (size_t job = 0; job < plan->job_count; job++) {
        self.has [job] = simulated_alloc (plan->samples, 1);
        simulated_mark_data (plan, job, self.has [job]);
    }
    if (plan->jobs [0].ids) {
        self.has [SIMULATED_MANY_HOLDERS] = s_upper_half (&self, false);
        self.has [SIMULATED_FAST_HOLDERS] = s_upper_half (&self, true);
    }
    return self;
}

//  An epoch that only some runs finished is judged by those: each of them counted every sample once.
static void
s_judge_positions (simulated_trial_t *trial, _Atomic uint32_t *const *bins)
{
    const simulated_plan_t *plan = &trial->plan;
    trial->position_z = simulated_alloc (plan->job_count, sizeof *trial->position_z);
    grouping_t grouping = s_groups_of (plan);
    for (size_t job = 0; job < plan->job_count; job++) {
        uint64_t samples = s_samples (plan, job);
        trial->position_z [job] = simulated_alloc (plan->jobs [job].epochs, sizeof (double));
        for (uint64_t epoch = 0; epoch < plan->jobs [job].epochs; epoch++) {
            const _Atomic uint32_t *counts = bins [job] + epoch * samples * ORDERS_BINS;
            uint64_t runs = 0;
            for (uint64_t bin = 0; bin < ORDERS_BINS; bin++)
                runs += counts [bin];
            trial->position_z [job] [epoch] = runs && samples > 1? orders_bins_z (counts, samples, runs): NAN;
            if (runs > 0)
                s_judge_groups (&trial->groups, &grouping, job, (uint32_t) epoch, counts, samples, runs);
        }
    }
    if (trial->groups.tests > 0)
        trial->groups.bound = s_normal_quantile (1e-4 / (double) trial->groups.tests);
    for (size_t group = 0; group < SIMULATED_GROUPS; group++)
        free (grouping.has [group]);
}

static void
s_free_bins (_Atomic uint32_t **bins, size_t job_count)
{
    for (size_t job = 0; bins && job < job_count; job++)
        free (bins [job]);
    free (bins);
}

//  ---- trials

//  Merges the results of a trial's runs into the first one's.
static void
s_finish (simulated_trial_t *trial, run_t *runs, _Atomic uint32_t **bins)
{
    for (uint32_t seed = 1; seed < trial->seeds; seed++) {
        simulated_result_merge (&runs [0].result, &runs [seed].result);
        simulated_result_clear (&runs [seed].result);
    }
    trial->result = runs [0].result;
    if (bins)
        s_judge_positions (trial, bins);
    s_free_bins (bins, trial->plan.job_count);
}

void
simulated_trials_run (simulated_trial_t *trials, size_t count)
{
    work_t work = { .count = 0 };
    for (size_t trial = 0; trial < count; trial++)
        work.count += trials [trial].seeds;
    work.runs = simulated_alloc (work.count, sizeof *work.runs);
    _Atomic uint32_t ***bins = simulated_alloc (count, sizeof *bins);
    size_t at = 0;
    for (size_t trial = 0; trial < count; trial++) {
        assert (trials [trial].seeds > 0);
        if (trials [trial].counts_positions) {
            assert (trials [trial].plan.samples <= SIMULATED_BINS_SAMPLES_MAX);
            bins [trial] = s_new_bins (&trials [trial].plan);
        }
        for (uint32_t seed = 0; seed < trials [trial].seeds; seed++)
            work.runs [at++] = (run_t) {
                .trial = &trials [trial], .seed = trials [trial].seed + seed, .bins = bins [trial]
            };
    }
    s_work_in_threads (&work);
    run_t *runs = work.runs;
    for (size_t trial = 0; trial < count; runs += trials [trial++].seeds)
        s_finish (&trials [trial], runs, bins [trial]);
    free (bins);
    free (work.runs);
}

void
simulated_trial_clear (simulated_trial_t *trial)
{
    for (size_t job = 0; trial->position_z && job < trial->plan.job_count; job++)
        free (trial->position_z [job]);
    free (trial->position_z);
    trial->position_z = NULL;
    simulated_result_clear (&trial->result);
}
