//  Tenants: what each may use, and its share of it.

#include "broker_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "broker_limits.h"

_Static_assert ((int) BROKER_TENANTS_MAX <= (int) VERSION_INDEX_TENANTS_MAX
    && (int) BROKER_WEIGHT_MAX <= (int) PREPARED_WEIGHT_MAX, "the stock knows every tenant");

//  A single tenant has no limits but the server's.
static void
s_tell_version_index (broker_t *self, const tenant_t *tenant)
{
    bool is_limited = limits_apply (self) && tenant->given.cache_bytes_max;
    version_index_tenant (self->version_index, tenant->number, tenant->given.weight,
        is_limited? tenant->given.cache_bytes_max: SIZE_MAX);
}

tenant_t *
broker_add_tenant (broker_t *self, const broker_tenant_t *given)
{
    assert (self->tenant_count < BROKER_TENANTS_MAX);
    assert (given->weight > 0 && given->weight <= BROKER_WEIGHT_MAX);
    assert (!broker_tenant (self, given->name));
    tenant_t *tenant = needed_memory (calloc (1, sizeof *tenant));
    tenant->given = *given;
    snprintf (tenant->name, sizeof tenant->name, "%s", given->name);
    tenant->given.name = tenant->name;
    tenant->number = (uint32_t) self->tenant_count;
    self->tenants [self->tenant_count++] = tenant;
    uint32_t number = fairness_add (self->fairness, given->weight);
    assert (number == tenant->number);
    self->weights += given->weight;
    s_tell_version_index (self, self->tenants [0]);
    s_tell_version_index (self, tenant);
    fairness_set_tasks (self->fairness, broker_tasks_max (self) + self->options.workers);
    return tenant;
}

void
broker_limit (broker_t *self, tenant_t *tenant, const broker_tenant_t *given)
{
    assert (given->weight > 0 && given->weight <= BROKER_WEIGHT_MAX);
    self->weights = self->weights - tenant->given.weight + given->weight;
    tenant->given = *given;
    tenant->given.name = tenant->name;
    s_tell_version_index (self, tenant);
}

tenant_t *
broker_tenant (broker_t *self, const char *name)
{
    for (size_t index = 0; index < self->tenant_count; index++)
        if (!name || strcmp (self->tenants [index]->name, name) == 0)
            return self->tenants [index];
    return NULL;
}

void
broker_allow (broker_t *self, tenant_t *tenant, const dataset_t *dataset)
{
    assert (self->magic == BROKER_MAGIC);
    tenant->datasets |= UINT64_C (1) << dataset->number;
}

const char *
dataset_name (const dataset_t *self)
{
    return self->name;
}

const char *
tenant_name (const tenant_t *self)
{
    return self->name;
}

uint32_t
tenant_number (const tenant_t *self)
{
    return self->number;
}

size_t
broker_tenants (const broker_t *self)
{
    return self->tenant_count;
}

const char *
broker_tenant_label (const broker_t *self, const tenant_t *tenant)
{
    return self->tenant_count > 1? tenant->name: NULL;
}

tenant_t *
broker_tenant_of (broker_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    return self->tenants [number];
}

bool
tenant_may_use (const tenant_t *self, const dataset_t *dataset)
{
    return !self || self->number == 0 || self->datasets >> dataset->number & 1;
}

uint64_t
broker_share (const broker_t *self, const tenant_t *tenant, uint64_t whole)
{
    if (whole <= self->tenant_count)
        return 1;
    //  One each, and the rest by weight: otherwise small parts, rounded up, would add up to more than the
    //  whole.
    uint64_t rest = whole - self->tenant_count;
    return 1 + (uint64_t) ((unsigned __int128) rest * tenant->given.weight / self->weights);
}

job_t *
version_job (const version_t *version, const tenant_t *tenant)
{
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
        if (!tenant || row->job->tenant == tenant)
            return row->job;
    return NULL;
}

tenant_t *
version_tenant (const broker_t *self, const version_t *version)
{
    assert (version->holder);
    return self->tenants [version->holder - 1];
}

tenant_t *
job_tenant (const job_t *self)
{
    return self->tenant;
}
