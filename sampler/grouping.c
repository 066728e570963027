#include "grouping.h"
#include "need.h"

#include <assert.h>
#include <stdlib.h>

#include "jobset.h"

enum { GROUPING_MAGIC = 0x6409a11c };

struct grouping {
    uint32_t magic;
    jobset_t disjoint [SAMPLER_JOBS_MAX];       //  [a] has b, a > b: their data are known not to overlap
    size_t group_of [SAMPLER_JOBS_MAX];
    size_t count;
    size_t first [SAMPLER_JOBS_MAX + 1];        //  group g is members [first [g] .. first [g + 1])
    uint32_t members [SAMPLER_JOBS_MAX];
};

grouping_t *
grouping_new (void)
{
    grouping_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = GROUPING_MAGIC;
    return self;
}

void
grouping_destroy (grouping_t **self_p)
{
    assert (self_p);
    grouping_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == GROUPING_MAGIC);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
grouping_forget (grouping_t *self, uint32_t job)
{
    assert (self->magic == GROUPING_MAGIC);
    assert (job < SAMPLER_JOBS_MAX);
    self->disjoint [job] = (jobset_t) { { 0 } };
    for (uint32_t other = job + 1; other < SAMPLER_JOBS_MAX; other++)
        jobset_remove (&self->disjoint [other], job);
}

//  What an update looks at.
typedef struct {
    demand_t *const *jobs;
    bool (*overlap) (const void *context, uint32_t a, uint32_t b);
    const void *context;
} look_t;

//  Whether a and b, a > b, belong together directly; remembers it if not.
static bool
s_overlap (grouping_t *self, const look_t *look, uint32_t a, uint32_t b)
{
    if (jobset_has (&self->disjoint [a], b))
        return false;
    bool overlap = demand_order (look->jobs [a]) == SAMPLER_ORDER_SHARED
        && demand_order (look->jobs [b]) == SAMPLER_ORDER_SHARED
        && look->overlap (look->context, a, b);
    if (!overlap)
        jobset_add (&self->disjoint [a], b);
    return overlap;
}

//  Labels every job with the smallest job number of its component.
static void
s_label (grouping_t *self, const look_t *look, uint32_t *labels)
{
    demand_t *const *jobs = look->jobs;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        labels [job] = job;
        for (uint32_t other = 0; jobs [job] && other < job; other++) {
            if (!jobs [other] || labels [other] == labels [job] || !s_overlap (self, look, job, other))
                continue;
            uint32_t low = labels [other] < labels [job]? labels [other]: labels [job];
            uint32_t high = labels [other] < labels [job]? labels [job]: labels [other];
            for (uint32_t each = 0; each <= job; each++)
                if (labels [each] == high)
                    labels [each] = low;
        }
    }
}

void
grouping_update (grouping_t *self, demand_t *const jobs [SAMPLER_JOBS_MAX],
    bool (*overlap) (const void *context, uint32_t a, uint32_t b), const void *context)
{
    assert (self->magic == GROUPING_MAGIC);
    uint32_t labels [SAMPLER_JOBS_MAX];
    look_t look = { jobs, overlap, context };
    s_label (self, &look, labels);
    self->count = 0;
    size_t filled = 0;
    for (uint32_t root = 0; root < SAMPLER_JOBS_MAX; root++) {
        if (!jobs [root] || labels [root] != root)
            continue;
        self->first [self->count] = filled;
        for (uint32_t job = root; job < SAMPLER_JOBS_MAX; job++)
            if (jobs [job] && labels [job] == root) {
                self->group_of [job] = self->count;
                self->members [filled++] = job;
            }
        self->count++;
    }
    self->first [self->count] = filled;
}

size_t
grouping_count (const grouping_t *self)
{
    return self->count;
}

const uint32_t *
grouping_jobs (const grouping_t *self, size_t group, size_t *count_p)
{
    assert (group < self->count);
    *count_p = self->first [group + 1] - self->first [group];
    return self->members + self->first [group];
}

size_t
grouping_of (const grouping_t *self, uint32_t job)
{
    assert (job < SAMPLER_JOBS_MAX);
    return self->group_of [job];
}
