//  Tenants: what each may use, its share of it, its limits, and what it has.
//
//  A single tenant has the server's limits.  With several tenants each has its own limits, which do not
//  depend on what others have now: so a refusal tells a tenant nothing of the others, and no tenant can take
//  another's part.  Settings may promise more than there is; then the server's own limits count too, and a
//  refusal says no more than that.

#include "tenant.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "job.h"
#include "xalloc.h"

_Static_assert ((int) BROKER_TENANTS_MAX <= (int) VERSION_INDEX_TENANTS_MAX
    && (int) BROKER_WEIGHT_MAX <= (int) PREPARED_WEIGHT_MAX, "the stock knows every tenant");

bool
tenant_limits_apply (const broker_t *self)
{
    return self->tenant_count > 1;
}

tenant_t *
tenant_joining (const broker_t *self, const broker_terms_t *join)
{
    return join->tenant? join->tenant: self->tenants [0];
}

//  ---- the list of tenants

//  A single tenant has no limits but the server's.
static void
s_tell_version_index (broker_t *self, const tenant_t *tenant)
{
    bool is_limited = tenant_limits_apply (self) && tenant->given.cache_bytes_max;
    version_index_tenant (self->version_index, tenant->number, tenant->given.weight,
        is_limited? tenant->given.cache_bytes_max: SIZE_MAX);
}

tenant_t *
tenant_add (broker_t *self, const broker_tenant_t *given)
{
    assert (self->tenant_count < BROKER_TENANTS_MAX);
    assert (given->weight > 0 && given->weight <= BROKER_WEIGHT_MAX);
    assert (!tenant_named (self, given->name));
    tenant_t *tenant = xalloc_memory (calloc (1, sizeof *tenant));
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
    budget_measure (self);
    return tenant;
}

void
tenant_limit (broker_t *self, tenant_t *tenant, const broker_tenant_t *given)
{
    assert (given->weight > 0 && given->weight <= BROKER_WEIGHT_MAX);
    self->weights = self->weights - tenant->given.weight + given->weight;
    tenant->given = *given;
    tenant->given.name = tenant->name;
    s_tell_version_index (self, tenant);
}

tenant_t *
tenant_named (broker_t *self, const char *name)
{
    for (size_t index = 0; index < self->tenant_count; index++)
        if (!name || strcmp (self->tenants [index]->name, name) == 0)
            return self->tenants [index];
    return NULL;
}

void
tenant_allow (broker_t *self, tenant_t *tenant, const dataset_t *dataset)
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
tenant_total (const broker_t *self)
{
    return self->tenant_count;
}

const char *
tenant_label (const broker_t *self, const tenant_t *tenant)
{
    return self->tenant_count > 1? tenant->name: NULL;
}

tenant_t *
tenant_of_number (broker_t *self, uint32_t number)
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
tenant_share (const broker_t *self, const tenant_t *tenant, uint64_t whole)
{
    if (whole <= self->tenant_count)
        return 1;
    //  One each, and the rest by weight: otherwise small parts, rounded up, would add up to more than the
    //  whole.
    uint64_t rest = whole - self->tenant_count;
    return 1 + (uint64_t) ((unsigned __int128) rest * tenant->given.weight / self->weights);
}

tenant_t *
job_tenant (const job_t *self)
{
    return self->tenant;
}

//  ---- what a tenant may have

//  given: the setting; 0: none.
static size_t
s_part (const broker_t *self, const tenant_t *tenant, size_t given, size_t whole)
{
    if (!tenant_limits_apply (self))
        return whole;
    if (given == 0)
        return (size_t) tenant_share (self, tenant, whole);
    return given < whole? given: whole;
}

static size_t
s_jobs_max (const broker_t *self, const tenant_t *tenant)
{
    if (!tenant_limits_apply (self))
        return SIZE_MAX;
    return tenant->given.jobs_max? tenant->given.jobs_max:
        (size_t) tenant_share (self, tenant, SAMPLER_JOBS_MAX);
}

static size_t
s_bytes_max (const broker_t *self, const tenant_t *tenant)
{
    return s_part (self, tenant, tenant->given.batches_bytes_max, self->options.jobs_bytes_max);
}

static size_t
s_ranks_max (const broker_t *self, const tenant_t *tenant)
{
    size_t ranks = self->options.descriptors_max / BROKER_RANK_DESCRIPTORS;
    return self->options.descriptors_max == 0? SIZE_MAX: s_part (self, tenant, 0, ranks);
}

//  The sampler's job numbers of a data set are divided among the tenants that may use it.
static size_t
s_on_dataset_max (const broker_t *self, const tenant_t *tenant, const dataset_t *dataset)
{
    if (!tenant_limits_apply (self))
        return SAMPLER_JOBS_MAX;
    uint64_t weights = 0, count = 0;
    for (size_t index = 0; index < self->tenant_count; index++)
        if (tenant_may_use (self->tenants [index], dataset)) {
            weights += self->tenants [index]->given.weight;
            count++;
        }
    return 1 + (size_t) ((SAMPLER_JOBS_MAX - count) * tenant->given.weight / weights);
}

//  ---- admission

static bool
s_allow_count (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const tenant_t *tenant = tenant_joining (self, join);
    const dataset_t *dataset = join->dataset;
    size_t jobs = tenant->held.jobs + tenant->held.outside_jobs - (ghost != NULL),
        jobs_max = s_jobs_max (self, tenant);
    if (jobs >= jobs_max)
        return refuse (refusal, "busy",
            "tenant '%s' has %zu jobs (those that wait for ranks included), at most %zu may be: wait "
            "until one ends, or have the operator set tenant-jobs %s=%zu", tenant->name, jobs, jobs_max,
            tenant->name, jobs + 1);
    size_t here = tenant->held.on_dataset [dataset->number] - (ghost && ghost->dataset == dataset);
    size_t here_max = s_on_dataset_max (self, tenant, dataset);
    if (here < here_max)
        return true;
    if (!tenant_limits_apply (self))
        return refuse (refusal, "busy", "data set '%s' has %d jobs already: wait until one ends",
            dataset->name, SAMPLER_JOBS_MAX);
    return refuse (refusal, "busy",
        "data set '%s' has %zu jobs of tenant '%s', at most %zu may be: wait until one ends, or have the "
        "operator give the tenant more weight (tenant-weight)", dataset->name, here, tenant->name, here_max);
}

static size_t
s_less (size_t whole, size_t part)
{
    return whole > part? whole - part: 0;
}

//  What the job asks for, for a refusal.
static const char *
s_asked (const broker_terms_t *join, size_t bytes, char text [160])
{
    snprintf (text, 160, "the job's batches (%" PRIu32 " slots of %zu bytes%s) and bookkeeping need %zu "
        "bytes of memory", join->slots, join->slot_bytes, join->world_size > 1? " for each rank": "", bytes);
    return text;
}

static bool
s_allow_bytes (const broker_t *self, const broker_terms_t *join, const job_t *ghost, size_t bytes,
    refusal_t *refusal)
{
    const tenant_t *tenant = tenant_joining (self, join);
    size_t old = ghost? ghost->life.memory_bytes: 0, all = self->options.jobs_bytes_max;
    size_t left_of_all = s_less (all, self->jobs_bytes - old + self->outside_bytes);
    char asked [160];
    if (tenant_limits_apply (self)) {
        const tenant_held_t *held = &tenant->held;
        size_t most = s_bytes_max (self, tenant),
            taken = held->jobs_bytes - old + held->outside_bytes + held->dying_bytes;
        size_t left = s_less (most, taken);
        if (bytes > left)
            return refuse (refusal, "budget",
                "%s; %zu of %zu are left for tenant '%s': take smaller batches or fewer slots, or have "
                "the operator set tenant-batches %s=%zu", s_asked (join, bytes, asked), left, most,
                tenant->name, tenant->name, taken + bytes);
    }
    if (bytes <= left_of_all)
        return true;
    if (tenant_limits_apply (self))
        return refuse (refusal, "budget",
            "%s; the server has less at present, for its settings (tenant-batches) promise more than "
            "it has: try again, or take smaller batches or fewer slots", s_asked (join, bytes, asked));
    return refuse (refusal, "budget",
        "%s; %zu of %zu are left on this server: take smaller batches or fewer slots",
        s_asked (join, bytes, asked), left_of_all, all);
}

//  Of file descriptors.
static bool
s_allow_ranks (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const tenant_t *tenant = tenant_joining (self, join);
    size_t ranks = tenant->held.ranks - (ghost? ghost->asked.world_size: 0);
    size_t ranks_max = s_ranks_max (self, tenant);
    if (join->world_size <= s_less (ranks_max, ranks))
        return true;
    if (tenant_limits_apply (self))
        return refuse (refusal, "budget",
            "tenant '%s' has jobs of %zu processes, at most %zu may be, since each takes %d file "
            "descriptors of the server's: wait until one ends, or have the operator start the server with "
            "more (ulimit -n)", tenant->name, ranks, ranks_max, BROKER_RANK_DESCRIPTORS);
    return refuse (refusal, "budget",
        "there are jobs of %zu processes, at most %zu may be, since each takes %d file descriptors of the "
        "server's: wait until one ends, or start the server with more (ulimit -n)", ranks, ranks_max,
        BROKER_RANK_DESCRIPTORS);
}

bool
tenant_allows_job (const broker_t *self, const broker_terms_t *join, const job_t *ghost, size_t memory_bytes,
    refusal_t *refusal)
{
    return s_allow_bytes (self, join, ghost, memory_bytes, refusal)
        && s_allow_count (self, join, ghost, refusal)
        && s_allow_ranks (self, join, ghost, refusal);
}

//  The memory for a tenant's largest versions comes from its own share of the cache, even if it may use more:
//  so there is enough for all tenants, and no refusal depends on what others have.
static bool
s_allow_share (const broker_t *self, const tenant_t *tenant, size_t bytes, size_t least, refusal_t *refusal)
{
    size_t share = (size_t) tenant_share (self, tenant, self->options.cache_bytes);
    if (least <= share)
        return true;
    if (!tenant_limits_apply (self))
        return refuse (refusal, "budget",
            "a prepared sample of this pipeline takes %zu bytes, so with %" PRIu32 " workers "
            "the cache needs at least %zu; it has %zu: start the server with --cache %zu or fewer --workers",
            bytes, self->options.workers, least, self->options.cache_bytes, least);
    return refuse (refusal, "budget",
        "a prepared sample of this pipeline takes %zu bytes, so with %" PRIu32 " workers tenant '%s' "
        "needs a share of the cache of at least %zu; it has %zu: prepare smaller samples, or have the "
        "operator raise tenant-weight %s or --cache, or start the server with fewer --workers", bytes,
        self->options.workers, tenant->name, least, share, tenant->name);
}

bool
tenant_allows_version (const broker_t *self, const tenant_t *tenant, size_t version_bytes, refusal_t *refusal)
{
    size_t most = tenant->given.cache_bytes_max,
        least = budget_cache_least (budget_hands (self->options.workers, self->options.customs),
            version_bytes);
    size_t bytes = budget_version_cost (version_bytes);
    if (tenant_limits_apply (self) && most && least > most)
        return refuse (refusal, "budget",
            "a prepared sample of this pipeline takes %zu bytes, so with %" PRIu32 " workers "
            "it needs a cache of at least %zu; tenant '%s' may have %zu: prepare smaller samples, or have "
            "the operator set tenant-cache %s=%zu", bytes, self->options.workers, least, tenant->name, most,
            tenant->name, least);
    return s_allow_share (self, tenant, bytes, least, refusal);
}

//  ---- what a tenant has

//  A tenant's job numbers must not reveal how many jobs other tenants have.
uint64_t
tenant_new_job (broker_t *self, tenant_t *tenant)
{
    tenant->jobs_total++;
    return tenant_limits_apply (self)? (uint64_t) tenant->number << 32 | (uint32_t) tenant->jobs_total:
        self->next_job++;
}

void
tenant_job_enters (job_t *job)
{
    tenant_held_t *held = &job->tenant->held;
    held->jobs++;
    held->on_dataset [job->dataset->number]++;
    held->ranks += job->asked.world_size;
    held->jobs_bytes += job->life.memory_bytes;
}

void
tenant_job_leaves (job_t *job)
{
    tenant_held_t *held = &job->tenant->held;
    held->jobs--;
    held->on_dataset [job->dataset->number]--;
    held->ranks -= job->asked.world_size;
    held->jobs_bytes -= job->life.memory_bytes;
    held->dying_bytes += job->life.memory_bytes;
    job->tenant->past_delivered += job->delivery.delivered;
}

void
tenant_job_reclaimed (job_t *job)
{
    assert (job->tenant->held.dying_bytes >= job->life.memory_bytes);
    job->tenant->held.dying_bytes -= job->life.memory_bytes;
}

void
tenant_outside (broker_t *self, tenant_t *tenant, size_t jobs, size_t bytes)
{
    assert (self->magic == BROKER_MAGIC);
    self->outside_bytes += bytes - tenant->held.outside_bytes;
    tenant->held.outside_bytes = bytes;
    tenant->held.outside_jobs = jobs;
}

//  ---- figures

void
tenant_count_end (tenant_counter_t counters [COUNTERS_MAX], const char *what)
{
    size_t index = 0;
    while (index < COUNTERS_MAX - 1 && counters [index].what && strcmp (counters [index].what, what) != 0)
        index++;
    if (!counters [index].what)
        counters [index].what = index < COUNTERS_MAX - 1? what: "other";
    counters [index].count++;
}

void
tenant_count_prepared (const version_t *version)
{
    uint64_t told = 0;
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting) {
        tenant_t *tenant = row->job->tenant;
        tenant->prepared += !(told >> tenant->number & 1);
        told |= UINT64_C (1) << tenant->number;
    }
}

static json_t *
s_number (uint64_t number)
{
    return json_integer ((json_int_t) number);
}

static json_t *
s_limit (size_t limit)
{
    return limit < SIZE_MAX? s_number (limit): json_null ();
}

static json_t *
s_counters (const tenant_counter_t counters [COUNTERS_MAX])
{
    json_t *object = json_object ();
    for (size_t index = 0; index < COUNTERS_MAX && counters [index].what; index++)
        json_object_set_new (object, counters [index].what, s_number (counters [index].count));
    return object;
}

static uint64_t
s_delivered (const broker_t *self, const tenant_t *tenant)
{
    uint64_t delivered = tenant->past_delivered;
    for (const job_t *job = self->jobs; job; job = job->next)
        if (job->tenant == tenant && job->state != JOB_OVER)
            delivered += job->delivery.delivered;
    return delivered;
}

json_t *
tenant_status (const broker_t *self, const tenant_t *tenant)
{
    const tenant_held_t *held = &tenant->held;
    size_t cache_max = s_part (self, tenant, tenant->given.cache_bytes_max, self->options.cache_bytes);
    json_t *object = json_object ();
    json_object_set_new (object, "name", json_string (tenant->name));
    json_object_set_new (object, "weight", s_number (tenant->given.weight));
    json_object_set_new (object, "jobs", s_number (held->jobs));
    json_object_set_new (object, "gathering_jobs", s_number (held->outside_jobs));
    json_object_set_new (object, "jobs_max", s_limit (s_jobs_max (self, tenant)));
    json_object_set_new (object, "jobs_total", s_number (tenant->jobs_total));
    json_object_set_new (object, "ranks", s_number (held->ranks));
    json_object_set_new (object, "ranks_max", s_limit (s_ranks_max (self, tenant)));
    json_object_set_new (object, "batches_bytes",
        s_number (held->jobs_bytes + held->dying_bytes + held->outside_bytes));
    json_object_set_new (object, "batches_bytes_max", s_limit (s_bytes_max (self, tenant)));
    json_object_set_new (object, "pools_bytes", s_number (held->lookahead_reserved));
    json_object_set_new (object, "cache_bytes_max", s_number (cache_max));
    json_object_set_new (object, "cache_is_limited", json_boolean (tenant->given.cache_bytes_max));
    json_object_set_new (object, "delivered", s_number (s_delivered (self, tenant)));
    json_object_set_new (object, "prepared", s_number (tenant->prepared));
    json_object_set_new (object, "dropped", s_number (tenant->dropped));
    json_object_set_new (object, "ended", s_counters (tenant->ends));
    return object;
}

//  ---- checks

//  Counted again, over all jobs.
static void
s_check_tenant (const broker_t *self, const tenant_t *tenant)
{
    tenant_held_t held = { .outside_jobs = tenant->held.outside_jobs,
        .outside_bytes = tenant->held.outside_bytes };
    for (const job_t *job = self->jobs; job; job = job->next) {
        if (job->tenant != tenant)
            continue;
        if (job->state == JOB_OVER) {
            held.dying_bytes += job->life.memory_bytes;
            continue;
        }
        assert (tenant_may_use (tenant, job->dataset));
        held.jobs++;
        held.on_dataset [job->dataset->number]++;
        held.ranks += job->asked.world_size;
        held.jobs_bytes += job->life.memory_bytes;
        held.lookahead_reserved += job->fetch.lookahead_bytes_max;
        held.tiers += job->fetch.tier && job->fetch.tier_is_own;
    }
    assert (held.jobs == tenant->held.jobs && held.ranks == tenant->held.ranks);
    assert (held.jobs_bytes == tenant->held.jobs_bytes && held.dying_bytes == tenant->held.dying_bytes);
    assert (held.lookahead_reserved == tenant->held.lookahead_reserved && held.tiers == tenant->held.tiers);
    assert (held.jobs <= s_jobs_max (self, tenant) && held.ranks <= s_ranks_max (self, tenant));  //  B9
    assert (held.jobs_bytes <= s_bytes_max (self, tenant));  //  B9
    for (uint32_t number = 0; number < BROKER_DATASETS_MAX; number++) {
        const dataset_t *dataset = self->places [number];
        assert (held.on_dataset [number] == tenant->held.on_dataset [number]);
        assert (!dataset || held.on_dataset [number] <= s_on_dataset_max (self, tenant, dataset));  //  B9
        assert (dataset || !(tenant->datasets >> number & 1));  //  B10
    }
}

void
tenant_check (const broker_t *self)
{
    size_t outside = 0;
    for (size_t index = 0; index < self->tenant_count; index++) {
        s_check_tenant (self, self->tenants [index]);
        outside += self->tenants [index]->held.outside_bytes;
    }
    assert (outside == self->outside_bytes);
}

//  ---- tenants that wait

void
tenant_waits (broker_t *self, tenant_t *tenant)
{
    if (tenant->wants.waiting++ == 0)
        fairness_wait (self->fairness, tenant->number);
}

void
tenant_waits_no_more (broker_t *self, tenant_t *tenant)
{
    assert (tenant->wants.waiting > 0);
    if (--tenant->wants.waiting == 0)
        fairness_rest (self->fairness, tenant->number);
}
