//  What a run gives: records, their figures, and what full sharing would have taken.

#include "simulated_run.h"

#include <assert.h>
#include <stdlib.h>

#include "simulated_memory.h"

orders_record_t **
simulated_records (const simulated_plan_t *plan, const uint8_t *slow, const orders_stratum_t *pieces,
    size_t piece_count, _Atomic uint32_t *const *bins)
{
    orders_record_t **records = simulated_alloc (plan->job_count, sizeof *records);
    for (size_t job = 0; job < plan->job_count; job++) {
        orders_options_t options = {
            .batch = plan->batch, .epochs_max = plan->jobs [job].epochs, .bins = bins? bins [job]: NULL
        };
        //  Records know a listed job's samples by their places in the list.
        if (!plan->jobs [job].ids) {
            options.pieces = pieces;
            options.piece_count = piece_count;
            options.marked = slow;
        }
        simulated_data (plan, job, &options.from, &options.to);
        records [job] = orders_record_new (&options);
    }
    return records;
}

void
simulated_collect (simulated_result_t *result, orders_record_t **records, size_t job_count)
{
    result->job_count = job_count;
    result->jobs = simulated_alloc (job_count, sizeof *result->jobs);
    for (size_t job = 0; job < job_count; job++) {
        result->jobs [job] = orders_record_figures (records [job]);
        orders_record_destroy (&records [job]);
    }
    free (records);
}

void
simulated_result_merge (simulated_result_t *self, const simulated_result_t *other)
{
    assert (self->job_count == other->job_count);
    mean_merge (&self->preparations, &other->preparations);
    mean_merge (&self->deliveries, &other->deliveries);
    mean_merge (&self->needed, &other->needed);
    mean_merge (&self->settled_preparations, &other->settled_preparations);
    mean_merge (&self->settled_deliveries, &other->settled_deliveries);
    for (size_t job = 0; job < self->job_count; job++)
        orders_figures_merge (&self->jobs [job], &other->jobs [job]);
}

void
simulated_result_clear (simulated_result_t *self)
{
    for (size_t job = 0; job < self->job_count; job++)
        orders_figures_clear (&self->jobs [job]);
    free (self->jobs);
    *self = (simulated_result_t) { .job_count = 0 };
}

//  ---- full sharing

//  How often a tick the samples of a piece must be prepared, all together, between two changes of company.
static double
s_piece_rate (const simulated_plan_t *plan, const simulated_stay_t *stays, const orders_stratum_t *piece,
    double from, double to, uint8_t *const *has)
{
    double rate = 0;
    for (size_t job = 0; job < plan->job_count; job++) {
        uint32_t data_from, data_to;
        simulated_data (plan, job, &data_from, &data_to);
        if (stays [job].from > from || stays [job].to < to || !has [job] [piece->from])
            continue;
        double mine = stays [job].deliveries / (stays [job].to - stays [job].from) / (data_to - data_from);
        rate = mine > rate? mine: rate;
    }
    return rate * (piece->to - piece->from);
}

static int
s_compare_times (const void *a, const void *b)
{
    double first = *(const double *) a, second = *(const double *) b;
    return (first > second) - (first < second);
}

double
simulated_needed (const simulated_plan_t *plan, const simulated_stay_t *stays)
{
    size_t piece_count, count = 2 * plan->job_count;
    orders_stratum_t *pieces = simulated_strata (plan, &piece_count);
    double *times = simulated_alloc (count, sizeof *times);
    for (size_t job = 0; job < plan->job_count; job++) {
        times [2 * job] = stays [job].from;
        times [2 * job + 1] = stays [job].to;
    }
    qsort (times, count, sizeof *times, s_compare_times);
    uint8_t **has = simulated_alloc (plan->job_count, sizeof *has);
    for (size_t job = 0; job < plan->job_count; job++) {
        has [job] = simulated_alloc (plan->samples, 1);
        simulated_mark_data (plan, job, has [job]);
    }
    double needed = 0;
    for (size_t at = 0; at + 1 < count; at++)
        for (size_t piece = 0; times [at] < times [at + 1] && piece < piece_count; piece++)
            needed += (times [at + 1] - times [at])
                * s_piece_rate (plan, stays, &pieces [piece], times [at], times [at + 1], has);
    for (size_t job = 0; job < plan->job_count; job++)
        free (has [job]);
    free (has);
    free (times);
    free (pieces);
    return needed;
}
