//  Tenants: who may use what, and how much of it is whose.

#include "broker_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenant_t *
broker_add_tenant (broker_t *self, const broker_tenant_t *given)
{
    assert (self->tenant_count < BROKER_TENANTS_MAX);
    assert (given->weight > 0 && given->weight <= BROKER_WEIGHT_MAX);
    assert (!broker_tenant (self, given->name));
    tenant_t *tenant = broker_need (calloc (1, sizeof *tenant));
    tenant->given = *given;
    snprintf (tenant->name, sizeof tenant->name, "%s", given->name);
    tenant->given.name = tenant->name;
    tenant->number = (uint32_t) self->tenant_count;
    self->tenants [self->tenant_count++] = tenant;
    self->weights += given->weight;
    return tenant;
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
tenant_name (const tenant_t *self)
{
    return self->name;
}

bool
tenant_may_use (const tenant_t *self, const dataset_t *dataset)
{
    return !self || self->number == 0 || self->datasets >> dataset->number & 1;
}

uint64_t
broker_share (const broker_t *self, const tenant_t *tenant, uint64_t whole)
{
    uint64_t share = (uint64_t) ((unsigned __int128) whole * tenant->given.weight / self->weights);
    return share? share: 1;
}

tenant_t *
job_tenant (const job_t *self)
{
    return self->tenant;
}
