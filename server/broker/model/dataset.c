#include "dataset.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "tenant.h"
#include "xalloc.h"

size_t
dataset_places (const broker_t *self)
{
    return BROKER_DATASETS_MAX - self->dataset_count;
}

dataset_t *
dataset_add (broker_t *self, const char *name, uint32_t sample_count, broker_bad_t on_bad, void *user)
{
    assert (dataset_places (self) > 0);
    assert (!dataset_named (self, NULL, name));
    dataset_t *dataset = xalloc_memory (calloc (1, sizeof *dataset));
    snprintf (dataset->name, sizeof dataset->name, "%s", name);
    dataset->samples = sample_count;
    while (self->places [dataset->number])
        dataset->number++;
    dataset->on_bad = on_bad;
    dataset->has_files = true;
    dataset->user = user;
    dataset->sampler = sampler_new (sample_count, self->options.policy, random_next (&self->random));
    self->datasets [self->dataset_count++] = self->places [dataset->number] = dataset;
    if (self->started_ms == 0 && self->dataset_count > self->full_datasets)
        self->full_datasets = self->dataset_count;
    budget_measure (self);
    return dataset;
}

dataset_t *
dataset_named (broker_t *self, const tenant_t *tenant, const char *name)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        if (!self->datasets [index]->is_removed && strcmp (self->datasets [index]->name, name) == 0
            && tenant_may_use (tenant, self->datasets [index]))
            return self->datasets [index];
    return NULL;
}

char *
dataset_names (const broker_t *self, const tenant_t *tenant)
{
    char *text = xalloc_memory (calloc (self->dataset_count + 1, REQUEST_NAME_BYTES_MAX + 2));
    for (size_t index = 0; index < self->dataset_count; index++) {
        if (self->datasets [index]->is_removed || !tenant_may_use (tenant, self->datasets [index]))
            continue;
        if (*text)
            strcat (text, ", ");
        strcat (text, self->datasets [index]->name);
    }
    return text;
}

void *
dataset_user (const dataset_t *self)
{
    return self->user;
}

uint32_t
dataset_samples (const dataset_t *self)
{
    return self->samples;
}

void
dataset_set_fetches (broker_t *self, dataset_t *dataset, size_t most)
{
    (void) self;
    dataset->fetch_max = most < BROKER_FETCHES_MAX? most: BROKER_FETCHES_MAX;
}

dataset_t *
dataset_of_request (const broker_t *self, const raw_request_t *request)
{
    return self->places [request->source];
}

size_t
dataset_jobs (const dataset_t *self)
{
    size_t count = 0;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
        count += self->jobs [number] != NULL;
    return count;
}

void
dataset_hold (dataset_t *self)
{
    self->holds++;
}

void
dataset_let_go (dataset_t *self)
{
    assert (self->holds > 0);
    self->holds--;
}
