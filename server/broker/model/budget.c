//  Limits of tasks and of memory, which follow from the options.

#include "budget.h"
#include <assert.h>
#include "dataset.h"
#include "fairness.h"
#include "version_index.h"

//  Enough to keep workers busy while other samples are read.
enum { TASKS_A_WORKER = 4, TASKS_MORE = 8 };

//  So many data sets, at least, have all the tasks and reads in flight that one may have.
enum { FULL_DATASETS_MIN = 8 };

//  A version's bookkeeping is some 200 bytes: little beside an image, but most of the cost of a tiny version.
enum { VERSION_COST_MIN = 256 };

_Static_assert (sizeof (version_t) < VERSION_COST_MIN, "the least cost covers the bookkeeping");

//  Each folder's files are read at the same time as the others' and as packs; the workers may get all of them
//  at once.
static size_t
s_tasks_max (const broker_t *self, size_t prepare_max, size_t folders, bool has_packs)
{
    size_t most = prepare_max;
    if (self->tenant_count == 1 && most < BROKER_FETCHES_MAX)
        most = BROKER_FETCHES_MAX;
    return most * folders + prepare_max * has_packs + self->copy_max
        + (size_t) self->options.customs * budget_custom_max (self->options.workers);
}

//  What was handed out while more processors were lent may still be out.
size_t
budget_tasks_max (const broker_t *self)
{
    size_t folders = 0, packs = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        folders += self->datasets [index]->has_files;
        packs += self->datasets [index]->prefetch != NULL;
    }
    size_t tasks = s_tasks_max (self, self->prepare_most, folders, packs > 0 || folders == 0),
        most = budget_tasks_most (self);
    return tasks < most? tasks: most;
}

size_t
budget_prepare_max (const broker_t *self, uint32_t lent)
{
    return TASKS_A_WORKER * ((size_t) self->options.workers + lent) + TASKS_MORE;
}

size_t
budget_tasks_most (const broker_t *self)
{
    return s_tasks_max (self, budget_prepare_max (self, BROKER_LENT_MAX), budget_full_datasets (self), true);
}

size_t
budget_reads_most (const broker_t *self)
{
    return self->read_max * budget_full_datasets (self);
}

size_t
budget_full_datasets (const broker_t *self)
{
    return self->full_datasets > FULL_DATASETS_MIN? self->full_datasets: FULL_DATASETS_MIN;
}

size_t
budget_part (const broker_t *self, size_t whole)
{
    size_t full = budget_full_datasets (self);
    return self->dataset_count > full? whole * full / self->dataset_count: whole;
}

//  What was handed out while there were more data sets may still be charged.
void
budget_measure (broker_t *self)
{
    size_t turns = budget_tasks_max (self) + self->options.workers;
    self->turns_most = turns > self->turns_most? turns: self->turns_most;
    fairness_set_tasks (self->fairness, self->turns_most);
    self->index_is_due = true;
}

uint32_t
budget_job_cost_ms (const broker_t *self)
{
    return self->options.job_cost_ms;
}

void
budget_lend (broker_t *self, uint32_t processors)
{
    assert (processors <= BROKER_LENT_MAX);
    self->lent = processors;
    self->prepare_max = budget_prepare_max (self, processors);
    if (self->prepare_max > self->prepare_most)
        self->prepare_most = self->prepare_max;
    budget_measure (self);
}

size_t
budget_version_cost (size_t version_bytes)
{
    return version_bytes > VERSION_COST_MIN? version_bytes: VERSION_COST_MIN;
}

//  One that is being made and one that waits, for each thread.
uint32_t
budget_custom_max (uint32_t workers)
{
    return 2 * workers;
}

//  One that is being made and one that waits, for each.
uint32_t
budget_slow_max (uint32_t processors)
{
    return 2 * processors;
}

bool
budget_prepares_slowly (const pipeline_t *pipeline)
{
    return !pipeline_custom (pipeline) && pipeline_shared_ms (pipeline) > BROKER_SLOW_MS;
}

bool
budget_copies_slowly (const pipeline_t *pipeline)
{
    return pipeline_private_ms (pipeline) > BROKER_SLOW_MS;
}

uint32_t
budget_hands (uint32_t workers, uint32_t customs)
{
    return workers + customs * budget_custom_max (workers);
}

size_t
budget_cache_least (uint32_t hands, size_t version_bytes)
{
    return ((size_t) hands + 1) * budget_version_cost (version_bytes);
}

size_t
budget_with_workers (const broker_t *self)
{
    return self->preparing - self->fetching - self->custom_made;
}
