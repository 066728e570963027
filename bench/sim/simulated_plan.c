#include "simulated_plan.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "simulated_memory.h"

static const char *const s_names [SIMULATED_POLICIES] = {
    "dsa", "follow", "resident", "independent", "lockstep", "seeded"
};

const char *
simulated_policy_name (simulated_policy_t policy)
{
    assert (policy < SIMULATED_POLICIES);
    return s_names [policy];
}

void
simulated_data (const simulated_plan_t *plan, size_t job, uint32_t *from_p, uint32_t *to_p)
{
    if (plan->jobs [job].ids) {
        *from_p = 0;
        *to_p = plan->jobs [job].id_count;
        return;
    }
    *from_p = (uint32_t) llround (plan->jobs [job].from * plan->samples);
    *to_p = (uint32_t) llround (plan->jobs [job].to * plan->samples);
}

//  Which half is a matter of the job's number alone.
uint32_t *
simulated_subsets (simulated_job_t *jobs, size_t job_count, uint32_t samples)
{
    uint32_t half = (samples + 1) / 2;
    uint32_t *lists = simulated_alloc (job_count * (size_t) half, sizeof *lists);
    for (size_t job = 0; job < job_count; job++) {
        random_t random = random_from_seed (job + 1);
        uint32_t *ids = lists + job * half, count = 0;
        for (uint32_t id = 0; id < samples; id++)
            if (random_below (&random, samples - id) < half - count)
                ids [count++] = id;
        assert (count == half);
        jobs [job].ids = ids;
        jobs [job].id_count = half;
    }
    return lists;
}

void
simulated_mark_data (const simulated_plan_t *plan, size_t job, uint8_t *has)
{
    uint32_t from, to;
    simulated_data (plan, job, &from, &to);
    memset (has, 0, plan->samples);
    for (uint32_t place = from; place < to; place++)
        has [plan->jobs [job].ids? plan->jobs [job].ids [place]: place] = 1;
}

uint32_t *
simulated_places (const simulated_plan_t *plan, size_t job)
{
    const simulated_job_t *self = &plan->jobs [job];
    if (!self->ids)
        return NULL;
    uint32_t *places = simulated_alloc (plan->samples, sizeof *places);
    for (uint32_t id = 0; id < plan->samples; id++)
        places [id] = self->id_count;
    for (uint32_t place = 0; place < self->id_count; place++)
        places [self->ids [place]] = place;
    return places;
}

bool
simulated_is_slow (const simulated_plan_t *plan, uint32_t id)
{
    random_t random = random_from_seed (id);
    return (double) random_below (&random, 1u << 30) < plan->slow_fraction * (1u << 30);
}

uint8_t *
simulated_slow_samples (const simulated_plan_t *plan)
{
    if (plan->slow_factor == 0)
        return NULL;
    uint8_t *slow = simulated_alloc (plan->samples, 1);
    for (uint32_t id = 0; id < plan->samples; id++)
        slow [id] = simulated_is_slow (plan, id);
    return slow;
}

static int
s_compare_ids (const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *) a, second = *(const uint32_t *) b;
    return (first > second) - (first < second);
}

static bool
s_same_jobs (const simulated_plan_t *plan, uint32_t id, uint32_t other)
{
    for (size_t job = 0; job < plan->job_count; job++) {
        uint32_t from, to;
        simulated_data (plan, job, &from, &to);
        if ((id >= from && id < to) != (other >= from && other < to))
            return false;
    }
    return true;
}

static bool
s_has_lists (const simulated_plan_t *plan)
{
    for (size_t job = 0; job < plan->job_count; job++)
        if (plan->jobs [job].ids)
            return true;
    return false;
}

static orders_stratum_t *
s_single_pieces (const simulated_plan_t *plan, size_t *count_p)
{
    orders_stratum_t *pieces = simulated_alloc (plan->samples, sizeof *pieces);
    for (uint32_t id = 0; id < plan->samples; id++)
        pieces [id] = (orders_stratum_t) { .from = id, .to = id + 1, .number = id };
    *count_p = plan->samples;
    return pieces;
}

orders_stratum_t *
simulated_strata (const simulated_plan_t *plan, size_t *count_p)
{
    if (s_has_lists (plan))
        return s_single_pieces (plan, count_p);
    size_t cut_count = 0, count = 0;
    uint32_t next = 0;
    uint32_t *cuts = simulated_alloc (2 * plan->job_count + 2, sizeof *cuts);
    orders_stratum_t *pieces = simulated_alloc (2 * plan->job_count + 1, sizeof *pieces);
    cuts [cut_count++] = 0;
    cuts [cut_count++] = plan->samples;
    for (size_t job = 0; job < plan->job_count; job++, cut_count += 2)
        simulated_data (plan, job, &cuts [cut_count], &cuts [cut_count + 1]);
    qsort (cuts, cut_count, sizeof *cuts, s_compare_ids);
    for (size_t cut = 0; cut + 1 < cut_count; cut++) {
        if (cuts [cut] == cuts [cut + 1])
            continue;
        orders_stratum_t *piece = &pieces [count];
        *piece = (orders_stratum_t) { .from = cuts [cut], .to = cuts [cut + 1] };
        size_t same = 0;
        while (same < count && !s_same_jobs (plan, pieces [same].from, piece->from))
            same++;
        piece->number = same < count? pieces [same].number: next++;
        count++;
    }
    free (cuts);
    *count_p = count;
    return pieces;
}
