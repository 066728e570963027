//  What every phase needs of the broker itself.

#include "broker_state.h"
#include <assert.h>

//  Enough to keep workers busy while other samples are read.
enum { TASKS_A_WORKER = 4, TASKS_MORE = 8 };

//  A version's bookkeeping is some 200 bytes: little beside an image, but most of the cost of a tiny version.
enum { VERSION_COST_MIN = 256 };

_Static_assert (sizeof (version_t) < VERSION_COST_MIN, "the least cost covers the bookkeeping");

//  Each folder's files are read at the same time as the others' and as packs; the workers may get all of them
//  at once.
static size_t
s_tasks_max (const broker_t *self, size_t prepare_max)
{
    size_t folders = 0, most = prepare_max;
    for (size_t index = 0; index < self->dataset_count; index++)
        folders += !self->datasets [index]->prefetch;
    if (self->tenant_count == 1 && most < BROKER_FETCHES_MAX)
        most = BROKER_FETCHES_MAX;
    bool has_packs = self->dataset_count > folders || folders == 0;
    return most * folders + prepare_max * has_packs + self->copy_max
        + (size_t) self->options.customs * broker_custom_max (self->options.workers);
}

//  What was handed out while more processors were lent may still be out.
size_t
broker_tasks_max (const broker_t *self)
{
    return s_tasks_max (self, self->prepare_most);
}

size_t
broker_prepare_max (const broker_t *self, uint32_t lent)
{
    return TASKS_A_WORKER * ((size_t) self->options.workers + lent) + TASKS_MORE;
}

size_t
broker_tasks_most (const broker_t *self)
{
    return s_tasks_max (self, broker_prepare_max (self, BROKER_LENT_MAX));
}

uint32_t
broker_job_cost_ms (const broker_t *self)
{
    return self->options.job_cost_ms;
}

void
broker_lend (broker_t *self, uint32_t processors)
{
    assert (processors <= BROKER_LENT_MAX);
    self->lent = processors;
    self->prepare_max = broker_prepare_max (self, processors);
    if (self->prepare_max > self->prepare_most)
        self->prepare_most = self->prepare_max;
    fairness_set_tasks (self->fairness, broker_tasks_max (self) + self->options.workers);
}

size_t
broker_version_cost (size_t version_bytes)
{
    return version_bytes > VERSION_COST_MIN? version_bytes: VERSION_COST_MIN;
}

//  One that is being made and one that waits, for each thread.
uint32_t
broker_custom_max (uint32_t workers)
{
    return 2 * workers;
}

//  One that is being made and one that waits, for each.
uint32_t
broker_slow_max (uint32_t processors)
{
    return 2 * processors;
}

bool
broker_prepares_slowly (const pipeline_t *pipeline)
{
    return !pipeline_custom (pipeline) && pipeline_shared_ms (pipeline) > BROKER_SLOW_MS;
}

bool
broker_copies_slowly (const pipeline_t *pipeline)
{
    return pipeline_private_ms (pipeline) > BROKER_SLOW_MS;
}

uint32_t
broker_hands (uint32_t workers, uint32_t customs)
{
    return workers + customs * broker_custom_max (workers);
}

size_t
broker_cache_least (uint32_t hands, size_t version_bytes)
{
    return ((size_t) hands + 1) * broker_version_cost (version_bytes);
}

size_t
broker_with_workers (const broker_t *self)
{
    return self->preparing - self->fetching - self->custom_made;
}

void
broker_wake (broker_t *self, int64_t at_ms)
{
    if (at_ms < self->wakeup_ms)
        self->wakeup_ms = at_ms;
}

//  ---- versions

dataset_t *
version_dataset (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->dataset;
}

const pipeline_t *
version_pipeline (const broker_t *self, const version_t *version)
{
    return version_class (self, version)->pipeline;
}

pipeline_key_t
version_key (const broker_t *self, const version_t *version)
{
    return (pipeline_key_t) { .seed = version_class (self, version)->seed, .round = version->draw,
        .id = version->id };
}

const class_t *
version_class (const broker_t *self, const version_t *version)
{
    return version_set_user (version_set_of (self->version_index, version));
}
