#include "serve_tenants.h"
#include <stdlib.h>

_Static_assert ((int) OPTIONS_TENANTS_MAX + 1 <= (int) BROKER_TENANTS_MAX, "and the operator");
_Static_assert ((int) OPTIONS_WEIGHT_MAX <= (int) BROKER_WEIGHT_MAX
    && OPTIONS_DATASETS_MAX <= 64, "what settings may say");

static tenant_t *
s_make_tenant (broker_t *broker, const options_t *options, size_t index)
{
    const options_tenant_t *wanted = &options->tenants [index];
    broker_tenant_t given = { .name = wanted->name, .weight = wanted->weight, .jobs_max = wanted->jobs_max,
        .batches_bytes_max = wanted->batches_bytes_max, .cache_bytes_max = wanted->cache_bytes_max };
    tenant_t *tenant = broker_add_tenant (broker, &given);
    for (size_t dataset = 0; dataset < options->dataset_count; dataset++)
        if (wanted->datasets >> dataset & 1)
            broker_allow (broker, tenant, broker_dataset (broker, NULL, options->datasets [dataset].name));
    return tenant;
}

static void
s_make_tenants (broker_t *broker, const options_t *options, tenant_t *tenants [OPTIONS_TENANTS_MAX])
{
    const options_tenant_t *own = &options->own;
    broker_tenant_t given = { .weight = own->weight, .jobs_max = own->jobs_max,
        .batches_bytes_max = own->batches_bytes_max,
        .cache_bytes_max = own->cache_bytes_max };
    if (options->tenant_count > 0)
        broker_limit (broker, broker_tenant (broker, NULL), &given);
    for (size_t index = 0; index < options->tenant_count; index++)
        tenants [index] = s_make_tenant (broker, options, index);
}

tenants_t *
serve_tenants (broker_t *broker, const options_t *options, const keys_t *keys)
{
    tenant_t *tenants [OPTIONS_TENANTS_MAX];
    tenants_user_t *users = calloc (options->user_count + 1, sizeof *users);
    if (!users)
        return NULL;
    s_make_tenants (broker, options, tenants);
    for (size_t index = 0; index < options->user_count; index++) {
        size_t tenant = options->users [index].tenant;
        uint32_t jobs_max = options->tenants [tenant].jobs_max;
        users [index] = (tenants_user_t) { .uid = options->users [index].uid, .tenant = tenants [tenant],
            .jobs_max = jobs_max? jobs_max:
            (uint32_t) broker_share (broker, tenants [tenant], OPTIONS_JOBS_MAX) };
    }
    tenants_t *self = tenants_new (broker, keys, options->open, users, options->user_count);
    free (users);
    return self;
}
