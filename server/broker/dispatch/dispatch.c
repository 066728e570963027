#include "dispatch.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "fetch_ahead.h"
#include "job.h"
#include "patience.h"
#include "raw_prefetch.h"
#include "raw_refcount.h"
#include "reads.h"
#include "tenant.h"
#include "version.h"
#include "xalloc.h"


enum {
    BUSY_TASKS = 2,                                 //  for each worker: so many keep it busy until the next
                                                    //  turn
    MEAN_TASKS = 16,                                //  of a running mean
    FETCHING_PARTS = 8,                             //  of the cache: one of them for what is being read of
                                                    //  several data sets
    PREPARE_FIRST_NS = 1000000, COPY_FIRST_NS = 50000,      //  estimates for tasks before any was done
    NS_A_US = 1000,
    CLASSES_IDLE_MAX = 256
};

static uint64_t
s_bit (const tenant_t *tenant)
{
    return UINT64_C (1) << tenant->number;
}

//  ---- memory

//  Versions in the index count there.
static void
s_hold (version_t *version, tenant_t *tenant)
{
    if (version->holder)
        return;
    version->holder = tenant->number + 1;
    if (!version->indexed)
        tenant->wants.outside_bytes += version->bytes;
}

void
dispatch_left (void *context, version_t *version)
{
    broker_t *self = context;
    if (version->holder)
        self->tenants [version->holder - 1]->wants.outside_bytes += version->bytes;
}

void
dispatch_unpin (broker_t *self, version_t *version)
{
    if (version->pins == 1 && version->holder) {
        tenant_wants_t *wants = &self->tenants [version->holder - 1]->wants;
        assert (version->indexed || wants->outside_bytes >= version->bytes);
        wants->outside_bytes -= version->indexed? 0: version->bytes;
        version->holder = 0;
    }
    prepared_unpin (self->prepared, version);
}

static size_t
s_beside_bytes (const broker_t *self)
{
    size_t bytes = 0;
    for (size_t number = 0; number < self->tenant_count; number++)
        bytes += self->tenants [number]->wants.version_bytes_max;
    return bytes;
}

//  What tenants have left of their parts outside the index, if this one takes so much more.
static size_t
s_kept_bytes (const broker_t *self, const tenant_t *tenant, size_t taken_bytes)
{
    size_t kept = 0;
    for (size_t number = 0; number < self->tenant_count; number++) {
        const tenant_wants_t *wants = &self->tenants [number]->wants;
        size_t part = budget_hands (self->options.workers, self->options.customs) * wants->version_bytes_max;
        size_t outside = wants->outside_bytes + (self->tenants [number] == tenant? taken_bytes: 0);
        kept += part > outside? part - outside: 0;
    }
    return kept;
}

//  Once memory in use and kept parts are within the budget, nothing is handed out that would change that: so
//  what a tenant takes of its own part always fits.
static bool
s_is_memory_kept (const broker_t *self)
{
    return prepared_memory_bytes (self->prepared) + s_kept_bytes (self, NULL, 0) <= self->options.cache_bytes;
}

static bool
s_reserve (broker_t *self, version_t *version, tenant_t *tenant)
{
    assert (!version->memory && !version->holder);
    size_t used = prepared_memory_bytes (self->prepared) + version->bytes;
    size_t kept = self->tenant_count > 1? s_kept_bytes (self, tenant, version->indexed? 0: version->bytes): 0;
    if (used + kept > self->options.cache_bytes)
        return false;
    if (!prepared_reserve (self->prepared, version))
        return false;
    s_hold (version, tenant);
    return true;
}

//  ---- plain files that are being read

static bool
s_has_jobs (const tenant_t *tenant, const dataset_t *dataset)
{
    return tenant->held.on_dataset [dataset->number] > 0;
}

static bool
s_wants_files (const tenant_t *tenant, const dataset_t *dataset)
{
    size_t fetching = tenant->wants.fetching_of [dataset->number];
    return fetching > 0 || (tenant->wants.waiting > 0 && s_has_jobs (tenant, dataset));
}

//  So many are kept for tenants that have jobs and want none at present: half of their parts, and at most
//  half of all.
static size_t
s_kept_files (const broker_t *self, const dataset_t *dataset)
{
    uint64_t weights = 0;
    size_t kept = 0, most = budget_part (self, self->prepare_max);
    for (size_t number = 0; number < self->tenant_count; number++)
        if (s_has_jobs (self->tenants [number], dataset) || s_wants_files (self->tenants [number], dataset))
            weights += self->tenants [number]->given.weight;
    for (size_t number = 0; number < self->tenant_count; number++) {
        const tenant_t *tenant = self->tenants [number];
        if (!s_has_jobs (tenant, dataset) || s_wants_files (tenant, dataset))
            continue;
        size_t half = (size_t) (most * tenant->given.weight / weights) / 2;
        kept += half > 0? half: 1;
    }
    return kept < most / 2? kept: most / 2;
}

//  A disk with a long latency gets more reads at once than keep the workers busy.  With several tenants it
//  does not, so that no tenant waits until so many versions of another are prepared.
static size_t
s_fetch_max (const broker_t *self, const dataset_t *dataset)
{
    return budget_part (self, self->tenant_count == 1
        && dataset->fetch_max > self->prepare_max? dataset->fetch_max: self->prepare_max);
}

//  A version with files being read has memory already, and may leave the index meanwhile.  If the disk hangs,
//  other versions would wait for its memory.  So with several data sets there is room for such versions
//  beside the index, at most an eighth of the cache.
static size_t
s_folders (const broker_t *self)
{
    size_t folders = 0;
    for (size_t index = 0; index < self->dataset_count; index++)
        folders += self->datasets [index]->has_files;
    return folders;
}

static size_t
s_fetching_bytes (const broker_t *self, size_t workers_bytes)
{
    if (self->dataset_count < 2 || self->version_bytes_max == 0)
        return 0;
    size_t most = self->tenant_count == 1
        && self->prepare_max < BROKER_FETCHES_MAX? BROKER_FETCHES_MAX: self->prepare_max;
    size_t bytes = s_folders (self) * most * self->version_bytes_max,
        part = self->options.cache_bytes / FETCHING_PARTS;
    //  The index has room for one.
    size_t left = self->options.cache_bytes - workers_bytes;
    left = left > self->version_bytes_max? left - self->version_bytes_max: 0;
    bytes = bytes < part? bytes: part;
    return bytes < left? bytes: left;
}

//  Each data set has its part of that room, and may always read one version.
static bool
s_has_part (const broker_t *self, const dataset_t *dataset, const version_t *version)
{
    return self->dataset_count < 2 || dataset->fetching == 0
        || (dataset->fetching + 1) * version->bytes <= self->fetching_bytes / s_folders (self);
}

//  Whether the tenant may have one more version that is read.
static bool
s_may_fetch (const broker_t *self, const tenant_t *tenant, const dataset_t *dataset)
{
    uint64_t weights = 0;
    if (self->tenant_count == 1)
        return dataset->fetching < s_fetch_max (self, dataset);
    size_t kept = 0, most = budget_part (self, self->prepare_max) - s_kept_files (self, dataset);
    for (size_t number = 0; number < self->tenant_count; number++)
        if (s_wants_files (self->tenants [number], dataset))
            weights += self->tenants [number]->given.weight;
    for (size_t number = 0; number < self->tenant_count; number++) {
        const tenant_t *other = self->tenants [number];
        size_t fetching = other->wants.fetching_of [dataset->number];
        size_t part = s_wants_files (other, dataset)? (size_t) (most * other->given.weight / weights): 0;
        part = part > 0? part: 1;
        if (other == tenant && fetching < part)
            return true;
        if (other != tenant && s_wants_files (other, dataset) && part > fetching)
            kept += part - fetching;
    }
    return dataset->fetching + kept < most;
}

//  ---- the index's memory

//  What the index must leave free: for each tenant with jobs, every worker must find memory for one version
//  outside the index, and so must every task with an operation of the operator's own.
static size_t
s_workers_bytes (const broker_t *self)
{
    size_t beside = s_beside_bytes (self);
    return (beside > self->version_bytes_max? beside: self->version_bytes_max)
        * budget_hands (self->options.workers, self->options.customs);
}

static void
s_measure_index (broker_t *self)
{
    self->version_bytes_max = 0;
    for (const class_t *class = self->classes; class; class = class->next)
        if (class->version_bytes > self->version_bytes_max)
            self->version_bytes_max = class->version_bytes;
    size_t workers_bytes = s_workers_bytes (self);
    self->fetching_bytes = s_fetching_bytes (self, workers_bytes);
    prepared_limit (self->prepared, self->options.cache_bytes - workers_bytes - self->fetching_bytes);
}

//  ---- tenants that wait

void
tenant_side_task_waits (broker_t *self, tenant_t *tenant)
{
    tenant->wants.side_tasks++;
    tenant_waits (self, tenant);
}

void
tenant_side_task_gives_up (broker_t *self, tenant_t *tenant)
{
    assert (tenant->wants.side_tasks > 0);
    tenant->wants.side_tasks--;
    tenant_waits_no_more (self, tenant);
}

//  The tenant's largest version may be another one now.
static void
s_measure (broker_t *self, tenant_t *tenant)
{
    tenant_wants_t *wants = &tenant->wants;
    size_t before = wants->version_bytes_max;
    wants->version_bytes_max = 0;
    for (const job_t *job = wants->jobs; job; job = job->next_of_tenant) {
        if (job->state == JOB_OVER)
            continue;
        size_t bytes = ((const class_t *) version_set_user (job->consumer.kind))->version_bytes;
        if (bytes > wants->version_bytes_max)
            wants->version_bytes_max = bytes;
    }
    //  Versions of jobs that are gone keep their memory until the operation ends, which may hang: others do
    //  not get the tenant's part before.
    if (wants->customs_out > 0 && wants->version_bytes_max < before)
        wants->version_bytes_max = before;
    if (wants->version_bytes_max > before)
        self->is_memory_kept = false;               //  other tenants must first come back to their parts
    s_measure_index (self);
}

void
dispatch_leave (broker_t *self, job_t *job)
{
    s_measure (self, job->tenant);
}

void
dispatch_reclaim (job_t *job)
{
    tenant_wants_t *wants = &job->tenant->wants;
    job_t **link = &wants->jobs;
    while (*link != job)
        link = &(*link)->next_of_tenant;
    *link = job->next_of_tenant;
    if (wants->prepare_turn == job)
        wants->prepare_turn = job->next_of_tenant;
    if (wants->copy_turn == job)
        wants->copy_turn = job->next_of_tenant;
}

//  ---- classes

//  A `seeded` job's random pixels depend on no other job: it neither uses others' versions nor lends its own.
static bool
s_is_apart (sampler_order_t order, const pipeline_t *pipeline)
{
    return order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (pipeline);
}

//  The existing class of a job's shared stage on its data; NULL: the job needs one of its own.
static class_t *
s_find_class (const broker_t *self, const dataset_t *dataset, sampler_order_t order,
    const pipeline_t *pipeline)
{
    if (s_is_apart (order, pipeline))
        return NULL;
    const char *text = pipeline_shared_text (pipeline);
    for (class_t *class = self->classes; class; class = class->next)
        if (!class->is_apart && class->dataset == dataset
        &&  strcmp (pipeline_shared_text (class->pipeline), text) == 0)
            return class;
    return NULL;
}

//  Versions that wait for a next job keep their class, and its memory is in no budget: so a tenant keeps only
//  the newest of such classes.
static void
s_end_idle_classes (broker_t *self, const tenant_t *tenant)
{
    uint64_t count = 0, most = tenant_share (self, tenant, CLASSES_IDLE_MAX);
    class_t *oldest = NULL;
    for (class_t *class = self->classes; class; class = class->next)
        if (class->tenant == tenant && version_set_is_idle (class->kind)) {
            oldest = class;
            count++;
        }
    if (count >= most)
        version_set_end (oldest->kind);
}

static class_t *
s_new_class (broker_t *self, const job_t *job, size_t version_bytes)
{
    s_end_idle_classes (self, job->tenant);
    class_t *class = xalloc_memory (calloc (1, sizeof *class));
    bool is_random = pipeline_shared_is_random (job->asked.pipeline),
        is_apart = s_is_apart (job->asked.order, job->asked.pipeline);
    *class = (class_t) {
        .next = self->classes, .tenant = job->tenant, .dataset = job->dataset,
        .pipeline = pipeline_hold (job->asked.pipeline),
        .version_bytes = version_bytes, .is_apart = is_apart, .custom = pipeline_custom (job->asked.pipeline),
        .seed = is_apart? job->asked.seed: random_next (&self->random),
        .kind = version_set_new (self->version_index, job->dataset->sampler, version_bytes, is_random, class)
    };
    class->prepare_ns = self->prepare_ns;
    self->classes = class;
    return class;
}

bool
dispatch_allows (const broker_t *self, const broker_terms_t *join, refusal_t *refusal)
{
    //  Whether the class exists must not matter: the answer would reveal it.
    return tenant_allows_version (self, tenant_joining (self, join), pipeline_version_bytes (join->pipeline),
        refusal);
}

void
dispatch_join (broker_t *self, job_t *job)
{
    class_t *class = s_find_class (self, job->dataset, job->asked.order, job->asked.pipeline);
    if (!class)
        class = s_new_class (self, job, budget_version_cost (pipeline_version_bytes (job->asked.pipeline)));
    job->consumer.kind = class->kind;
    job->consumer.numbers = class->is_apart;
    job->consumer.tenant = job->tenant->number;
    //  First: a class without a consumer ends with its last version, which a smaller index may evict.
    version_index_join (self->version_index, &job->consumer);
    job->dispatch.copy_ns = self->copy_ns;
    job->next_of_tenant = job->tenant->wants.jobs;
    job->tenant->wants.jobs = job;
    s_measure (self, job->tenant);
}

void
dispatch_class_over (void *context, void *user)
{
    broker_t *self = context;
    class_t *class = user, **link = &self->classes;
    while (*link != class)
        link = &(*link)->next;
    *link = class->next;
    pipeline_destroy (&class->pipeline);
    free (class);
    s_measure_index (self);
}

size_t
dataset_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max)
{
    size_t count = 0;
    for (size_t number = 0; number < SAMPLER_JOBS_MAX && count < texts_max; number++) {
        const job_t *job = dataset->jobs [number];
        if (!job || job->tenant != (tenant? tenant: job->broker->tenants [0])
            || s_is_apart (job->asked.order, job->asked.pipeline)
        ||  (order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (job->asked.pipeline)))
            continue;
        const char *text = pipeline_shared_text (job->asked.pipeline);
        size_t index = 0;
        while (index < count && strcmp (texts [index], text) != 0)
            index++;
        if (index == count)
            texts [count++] = text;
    }
    return count;
}

//  ---- a row and its version

void
dispatch_await (batch_row_t *row, version_t *version)
{
    row->version = version;
    if (version->state == VERSION_READY) {
        row_move (row, ROW_READY);
        s_hold (version, row->job->tenant);
        row_queue_append (&row->job->dispatch.ready, row);
        return;
    }
    row_move (row, ROW_WAITING);
    batch_row_t *first = version->waiting;
    row->previous_waiting = NULL;
    row->next_waiting = first;
    if (first)
        first->previous_waiting = row;
    version->waiting = row;
    if (version->state == VERSION_WORKING)
        return;
    //  Plain files are read when the version is handed out, unless their read has failed and rests.  So are
    //  those of a version that waited when its folder began to be read in pieces.
    bool is_packed = row->job->dataset->prefetch && (version->raw || !first);
    bool is_there = is_packed?
        raw_refcount_want (row->job->broker, row->job->tenant, version): !version->resting;
    version_move (version, is_there? VERSION_QUEUED: VERSION_READING);
    if (version->state == VERSION_QUEUED)
        row_queue_append (&row->job->dispatch.wanted, row);
}

static void
s_leave_waiting (batch_row_t *row)
{
    version_t *version = row->version;
    if (row->previous_waiting)
        row->previous_waiting->next_waiting = row->next_waiting;
    else
        version->waiting = row->next_waiting;
    if (row->next_waiting)
        row->next_waiting->previous_waiting = row->previous_waiting;
    row->previous_waiting = row->next_waiting = NULL;
    if (version->state == VERSION_QUEUED)
        row_queue_remove (&row->job->dispatch.wanted, row);
    if (!version->waiting && (version->state == VERSION_QUEUED || version->state == VERSION_READING)) {
        version_move (version, VERSION_IDLE);           //  prepared when a row waits for it again
        raw_refcount_release (row->job->broker, version);
        patience_leave (row->job->broker, version);
    }
}

void
dispatch_cancel (broker_t *self, batch_row_t *row)
{
    if (row->state == ROW_WAITING)
        s_leave_waiting (row);
    else
    if (row->state == ROW_READY)
        row_queue_remove (&row->job->dispatch.ready, row);
    else
        return;
    version_t *version = row->version;
    row_move (row, ROW_EMPTY);
    row->version = NULL;
    dispatch_unpin (self, version);
}

//  ---- slow tasks

static void
s_count_slow (broker_t *self, tenant_t *tenant, bool begins)
{
    assert (begins || (self->slow_out > 0 && tenant->wants.slow_out > 0));
    self->slow_out += begins? 1: (size_t) -1;
    tenant->wants.slow_out += begins? 1: (size_t) -1;
}

//  Whether one more slow task of the tenant may be handed out now.
static bool
s_has_slow_turn (const broker_t *self, const tenant_t *tenant)
{
    bool is_alone = (fairness_waiting (self->fairness) & ~s_bit (tenant)) == 0;
    uint32_t processors = self->options.workers + self->lent;
    return self->slow_out < budget_slow_max (processors)
        && (is_alone || tenant->wants.slow_out < tenant_share (self, tenant, processors));
}

//  ---- operations of the operator's own

//  The version is with the operation's threads from now on, or no longer.
static void
s_count_custom (broker_t *self, const version_t *version, bool begins)
{
    if (!version_class (self, version)->custom)
        return;
    assert (begins || self->custom_made > 0);
    self->custom_made += begins? 1: (size_t) -1;
}

//  The version is handed out, or back.
static void
s_count_custom_out (broker_t *self, const version_t *version, bool begins)
{
    const custom_t *custom = version_class (self, version)->custom;
    if (!custom)
        return;
    assert (version->holder);
    tenant_t *tenant = self->tenants [version->holder - 1];
    assert (begins || (self->custom_out [custom->number] > 0 && tenant->wants.customs_out > 0));
    self->custom_out [custom->number] += begins? 1: (size_t) -1;
    tenant->wants.customs_out += begins? 1: (size_t) -1;
    if (tenant->wants.customs_out == 0)
        s_measure (self, tenant);
}

//  A thread is done with the version, or it was not made.
static void
s_end_version (broker_t *self, const version_t *version)
{
    s_count_custom (self, version, false);
    s_count_custom_out (self, version, false);
    if (budget_prepares_slowly (version_class (self, version)->pipeline))
        s_count_slow (self, self->tenants [version->holder - 1], false);
}

//  Whether the job's next version may be handed out now.
static bool
s_may_prepare (const broker_t *self, const job_t *job)
{
    const version_t *version = job->dispatch.wanted.first->version;
    const dataset_t *dataset = job->dataset;
    const class_t *class = version_class (self, version);
    const custom_t *custom = class->custom;
    size_t beside = custom? 0: budget_with_workers (self), most = self->prepare_max;
    if (budget_prepares_slowly (class->pipeline) && !s_has_slow_turn (self, job->tenant))
        return false;
    if (!version->raw) {
        beside += dataset->fetching;
        most = s_fetch_max (self, dataset);
    }
    return beside < most && self->preparing + self->copy_max < budget_tasks_most (self)
        && (!custom || self->custom_out [custom->number] < budget_custom_max (self->options.workers))
        && (version->raw || (s_has_part (self, dataset, version)
        && s_may_fetch (self, job->tenant, dataset)));
}

//  One more, or one fewer, version charged to the tenant while its files are read.
static void
s_count_fetching (broker_t *self, tenant_t *tenant, dataset_t *dataset, bool begins)
{
    size_t change = begins? 1: (size_t) -1;
    assert (begins || tenant->wants.fetching_of [dataset->number] > 0);
    tenant->wants.fetching_of [dataset->number] += change;
    dataset->fetching += change;
    self->fetching += change;
}

void
dispatch_fetched (broker_t *self, version_t *version)
{
    assert (version->holder);
    version->is_fetched = true;
    s_count_fetching (self, self->tenants [version->holder - 1], version_dataset (self, version), false);
    s_count_custom (self, version, true);
}

//  ---- what tasks take

//  Tasks that never reached a worker teach nothing: their files could not be read.
static void
s_learn (double *mean_p, uint64_t ns)
{
    if (ns > 0)
        *mean_p += *mean_p > 0? ((double) ns - *mean_p) / MEAN_TASKS: (double) ns;
}

//  mean: 0 if unknown.
static uint32_t
s_estimate_us (double mean_ns, uint64_t first_ns)
{
    double us = (mean_ns > 0? mean_ns: (double) first_ns) / NS_A_US;
    return us < 1? 1: us < UINT32_MAX? (uint32_t) us: UINT32_MAX;
}

static void
s_settle (broker_t *self, uint64_t payers, uint32_t charged_us, uint64_t took_ns)
{
    fairness_done (self->fairness, payers, (uint64_t) charged_us * NS_A_US, took_ns);
}

void
broker_prepare_took (broker_t *self, version_t *version, uint64_t worker_ns)
{
    assert (version->state == VERSION_WORKING && version->payers);
    class_t *class = version_set_user (version_set_of (self->version_index, version));
    s_learn (&class->prepare_ns, worker_ns);
    s_learn (&self->prepare_ns, worker_ns);
    s_settle (self, version->payers, version->charged_us, worker_ns);
    version->payers = 0;
}

void
dispatch_prepared (broker_t *self, version_t *version)
{
    if (version->payers)
        s_settle (self, version->payers, version->charged_us, (uint64_t) version->charged_us * NS_A_US);
    version->payers = 0;
    s_end_version (self, version);
}

void
dispatch_unread (broker_t *self, version_t *version)
{
    assert (!version->is_fetched && self->preparing > 0);
    dispatch_fetched (self, version);
    s_end_version (self, version);
    self->preparing--;
    broker_prepare_took (self, version, 0);
    tenant_wants_t *wants = &self->tenants [version->holder - 1]->wants;
    wants->outside_bytes -= version->indexed? 0: version->bytes;
    version->holder = 0;
    prepared_release (self->prepared, version);
}

void
broker_copy_took (broker_t *self, batch_row_t *row, uint64_t worker_ns)
{
    assert (row->state == ROW_COPYING && row->charged_us);
    s_learn (&row->job->dispatch.copy_ns, worker_ns);
    s_learn (&self->copy_ns, worker_ns);
    s_settle (self, s_bit (row->job->tenant), row->charged_us, worker_ns);
    row->charged_us = 0;
}

void
dispatch_copied (broker_t *self, batch_row_t *row)
{
    if (row->charged_us)
        s_settle (self, s_bit (row->job->tenant), row->charged_us, (uint64_t) row->charged_us * NS_A_US);
    row->charged_us = 0;
    if (budget_copies_slowly (row->job->asked.pipeline))
        s_count_slow (self, row->job->tenant, false);
}

void
tenant_side_task_took (broker_t *self, const tenant_t *tenant, uint32_t charged_us, uint64_t worker_ns)
{
    assert (self->side_tasks > 0);
    self->side_tasks--;
    s_learn (&self->side_task_ns, worker_ns);
    s_settle (self, s_bit (tenant), charged_us, worker_ns);
}

//  ---- handing out

typedef enum {
    TURN_TAKEN,
    TURN_FULL,                  //  too much of its kind is in flight
    TURN_NO_MEMORY
} turn_t;

static bool
s_may_copy (const broker_t *self, const job_t *job)
{
    return job->dispatch.ready.first
        && (!budget_copies_slowly (job->asked.pipeline) || s_has_slow_turn (self, job->tenant));
}

//  The next job from *turn_p on of which something may be copied, or prepared, now; NULL: none.
static job_t *
s_next_turn (const broker_t *self, const tenant_t *tenant, job_t **turn_p, bool copies)
{
    job_t *start = *turn_p? *turn_p: tenant->wants.jobs, *job = start;
    while (job) {
        if (copies? s_may_copy (self, job): job->dispatch.wanted.first && s_may_prepare (self, job)) {
            *turn_p = job->next_of_tenant;
            return job;
        }
        job = job->next_of_tenant? job->next_of_tenant: tenant->wants.jobs;
        if (job == start)
            break;
    }
    return NULL;
}

static void
s_hand_out_copy (broker_t *self, batch_row_t *row, uint64_t passed_over)
{
    job_t *job = row->job;
    rank_t *rank = &job->ranks [row->rank];
    row->charged_us = s_estimate_us (job->dispatch.copy_ns, COPY_FIRST_NS);
    fairness_serve (self->fairness, job->tenant->number, 0, passed_over,
        (uint64_t) row->charged_us * NS_A_US);
    row_queue_take_copy (row);
    row_move (row, ROW_COPYING);
    job->dispatch.copying++;
    rank->copying++;
    self->copying++;
    if (budget_copies_slowly (job->asked.pipeline))
        s_count_slow (self, job->tenant, true);
    rank_add_action (rank, ACTION_COPY)->row = row;
}

//  All jobs with rows that wait for the version gain by it.
static void
s_charge_version (broker_t *self, version_t *version, const tenant_t *tenant, uint64_t passed_over)
{
    uint64_t others = 0;
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
        others |= s_bit (row->job->tenant);
    version->charged_us = s_estimate_us (version_class (self, version)->prepare_ns, PREPARE_FIRST_NS);
    version->payers = fairness_serve (self->fairness, tenant->number, others & ~s_bit (tenant), passed_over,
        (uint64_t) version->charged_us * NS_A_US);
}

static void
s_hand_out_version (broker_t *self, version_t *version, tenant_t *tenant, uint64_t passed_over)
{
    assert (version->state == VERSION_QUEUED);
    s_charge_version (self, version, tenant, passed_over);
    row_queue_take_version (version);
    version_move (version, VERSION_WORKING);
    version->is_fetched = false;
    s_count_custom_out (self, version, true);
    if (version->raw)
        s_count_custom (self, version, true);
    if (budget_prepares_slowly (version_class (self, version)->pipeline))
        s_count_slow (self, tenant, true);
    if (!version->raw) {
        patience_made (version_dataset (self, version));
        fetch_ahead_taken (self, version_dataset (self, version), version->id);
        s_count_fetching (self, tenant, version_dataset (self, version), true);
    }
    else {
        version_dataset (self, version)->prefetch->bytes_handed
            += ((const raw_sample_t *) version->raw)->bytes;
        reads_count_raw (version);
    }
    prepared_pin (version);
    self->preparing++;
    broker_add_action (self, ACTION_PREPARE, NULL)->version = version;
}

static turn_t
s_take_preparing (broker_t *self, tenant_t *tenant, uint64_t passed_over)
{
    job_t *turn = tenant->wants.prepare_turn, *job = s_next_turn (self, tenant, &turn, false);
    if (!job)
        return TURN_FULL;
    version_t *version = job->dispatch.wanted.first->version;
    if (!version->raw && patience_holds (job->dataset)) {
        patience_hold_version (self, version);
        return TURN_TAKEN;
    }
    tenant->wants.prepare_turn = job;           //  it stays next, until a copy has given memory back
    if (!s_reserve (self, version, tenant))
        return TURN_NO_MEMORY;
    tenant->wants.prepare_turn = turn;
    s_hand_out_version (self, version, tenant, passed_over);
    return TURN_TAKEN;
}

static void
s_hand_out_side_task (broker_t *self, tenant_t *tenant, uint64_t passed_over)
{
    uint32_t charged_us = s_estimate_us (self->side_task_ns, PREPARE_FIRST_NS);
    fairness_serve (self->fairness, tenant->number, 0, passed_over, (uint64_t) charged_us * NS_A_US);
    tenant_side_task_gives_up (self, tenant);           //  the task waits no more
    self->side_tasks++;
    action_t *action = broker_add_action (self, ACTION_SIDE_TASK, NULL);
    action->tenant = tenant;
    action->charged_us = charged_us;
}

//  Side tasks first: they are few, and a user waits at a screen.  Then copies: they give memory back.
static turn_t
s_take_turn (broker_t *self, tenant_t *tenant, uint64_t passed_over)
{
    if (tenant->wants.side_tasks > 0 && self->side_tasks < self->options.workers) {
        s_hand_out_side_task (self, tenant, passed_over);
        return TURN_TAKEN;
    }
    job_t *job = self->copying < self->copy_max? s_next_turn (self, tenant, &tenant->wants.copy_turn, true):
        NULL;
    if (!job)
        return s_take_preparing (self, tenant, passed_over);
    s_hand_out_copy (self, job->dispatch.ready.first, passed_over);
    return TURN_TAKEN;
}

bool
dispatch_work (broker_t *self)
{
    uint64_t passed_over = 0;
    uint32_t number;
    bool has_memory = true;
    if (self->index_is_due)
        s_measure_index (self);
    self->index_is_due = false;
    self->is_memory_kept = self->is_memory_kept || s_is_memory_kept (self);
    for (size_t index = 0; index < self->tenant_count; index++)
        self->tenants [index]->wants.lacks_memory = false;
    while (fairness_next (self->fairness, passed_over, &number)) {
        tenant_t *tenant = self->tenants [number];
        turn_t turn = s_take_turn (self, tenant, passed_over);
        if (turn == TURN_TAKEN)
            continue;
        tenant->wants.lacks_memory = turn == TURN_NO_MEMORY;
        has_memory = has_memory && !tenant->wants.lacks_memory;
        passed_over |= s_bit (tenant);
        if (budget_with_workers (self) + self->copying + self->side_tasks
            >= BUSY_TASKS * ((size_t) self->options.workers + self->lent) + self->slow_out)
            break;
    }
    return has_memory;
}

//  ---- reads of packs

//  With several packs, each has its own limit of reads under way and its own part of the memory for them: a
//  pack on a slow disk takes nothing from the others.
static bool
s_is_full (const broker_t *self, const raw_prefetch_t *prefetch)
{
    size_t packs = raw_prefetch_packs (self);
    size_t part = packs > 1? (self->options.raw_bytes - raw_prefetch_resident_bytes (self)) / packs: SIZE_MAX;
    return prefetch->reading >= budget_part (self, self->read_max)
        || (prefetch->reading > 0 && prefetch->reading_bytes >= part);
}

static void
s_count_reading (broker_t *self, const raw_request_t *request, bool begins)
{
    raw_prefetch_t *prefetch = dataset_of_request (self, request)->prefetch;
    size_t bytes = 0;
    for (uint32_t index = 0; index < request->sample_count; index++)
        bytes += request->samples [index]->bytes;
    prefetch->reading += begins? 1: (size_t) -1;
    prefetch->reading_bytes += begins? bytes: -bytes;
    self->reading += begins? 1: (size_t) -1;
    uint64_t bit = UINT64_C (1) << request->source;
    self->reading_full = s_is_full (self, prefetch)? self->reading_full | bit: self->reading_full & ~bit;
    raw_store_hold_back (self->raw, self->reading_full);
}

bool
dispatch_reads (broker_t *self)
{
    if (self->raw && self->preparing == 0 && self->copying == 0 && self->reading == 0)
        raw_store_hurry (self->raw);
    raw_request_t *request;
    while (self->raw && self->reading < budget_reads_most (self) && (request = raw_store_next (self->raw))) {
        if (patience_holds (dataset_of_request (self, request))) {
            patience_hold_request (self, request);
            continue;
        }
        patience_made (dataset_of_request (self, request));
        s_count_reading (self, request, true);
        broker_add_action (self, ACTION_READ, NULL)->request = request;
    }
    return !self->raw || raw_store_queued (self->raw) == 0;
}

static void
s_arrived (void *context, raw_sample_t *sample)
{
    (void) context;
    for (version_t *version = sample->waiting; version; version = version->next_raw)
        row_queue_arrived (version);
}

//  A read has come back, whatever its result.
static void
s_read_is_back (broker_t *self, const raw_request_t *request)
{
    assert (self->reading > 0);
    s_count_reading (self, request, false);
    raw_prefetch_t *prefetch = dataset_of_request (self, request)->prefetch;
    prefetch->reads++;
    prefetch->bytes_read += request->read_bytes + request->cached_bytes + request->peer_bytes
        + request->pinned_bytes;
    prefetch->source_bytes += request->read_bytes;
    prefetch->source_ns += request->read_bytes? request->read_ns: 0;
    prefetch->cached_bytes += request->cached_bytes;
    prefetch->cached_ns += request->cached_ns;
    prefetch->peer_bytes += request->peer_bytes;
    prefetch->peer_ns += request->peer_ns;
    prefetch->gets += request->gets;
    prefetch->slow_gets += request->slow_gets;
}

void
broker_read (broker_t *self, raw_request_t *request)
{
    s_read_is_back (self, request);
    if (request->rc == 0) {
        patience_good (dataset_of_request (self, request));
        reads_divide (request);
    }
    raw_store_done (self->raw, request, s_arrived, NULL);
}

void
broker_unread_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms)
{
    assert (rc < 0);
    if (patience_ends_range (self, request, rc, reason, now_ms)) {
        request->rc = rc;
        broker_read (self, request);
        return;
    }
    //  Its cost counts, and its samples have no memory.
    s_read_is_back (self, request);
    raw_store_rest (self->raw, request);
    patience_rest_range (self, request, rc, now_ms);
}

//  ---- questions

uint64_t
tenant_worker_ns (const broker_t *self, const tenant_t *tenant)
{
    return fairness_charged_ns (self->fairness, tenant->number);
}

size_t
tenant_waiting (const tenant_t *self)
{
    return self->wants.waiting;
}

static size_t
s_count_queue (const row_list_t *list)
{
    size_t count = 0;
    for (const batch_row_t *row = list->first; row; row = row->next)
        count++;
    return count;
}

void
dispatch_check (const broker_t *self)
{
    size_t outside_bytes = 0, fetching = 0, beside = s_beside_bytes (self);
    for (size_t number = 0; number < self->tenant_count; number++) {
        const tenant_t *tenant = self->tenants [number];
        size_t waiting = tenant->wants.side_tasks;
        for (const job_t *job = tenant->wants.jobs; job; job = job->next_of_tenant) {
            assert (job->tenant == tenant);
            waiting += s_count_queue (&job->dispatch.wanted) + s_count_queue (&job->dispatch.ready);
        }
        assert (waiting == tenant->wants.waiting);
        assert ((waiting > 0) == (fairness_waiting (self->fairness) >> number & 1));
        outside_bytes += tenant->wants.outside_bytes;
        for (size_t index = 0; index < BROKER_DATASETS_MAX; index++) {
            fetching += tenant->wants.fetching_of [index];
            assert (self->places [index] || tenant->wants.fetching_of [index] == 0);    //  B10
        }
    }
    assert (outside_bytes <= prepared_memory_bytes (self->prepared));
    assert (fetching == self->fetching);
    for (size_t index = 0; index < self->dataset_count; index++) {
        fetching -= self->datasets [index]->fetching;
        assert (self->datasets [index]->fetching <= BROKER_FETCHES_MAX + self->prepare_most);
    }
    assert (fetching == 0);
    assert (self->index_is_due || self->fetching_bytes == s_fetching_bytes (self, s_workers_bytes (self)));
    assert (self->side_tasks <= self->options.workers);
    if (self->tenant_count > 1 && self->is_memory_kept)
        assert (s_is_memory_kept (self));
    assert (budget_hands (self->options.workers, self->options.customs) * beside
        <= self->options.cache_bytes);
    size_t custom_out = 0;
    for (size_t number = 0; number < CUSTOM_MAX; number++) {
        assert (self->custom_out [number] <= budget_custom_max (self->options.workers));
        custom_out += self->custom_out [number];
    }
    assert (self->custom_made <= custom_out && custom_out <= self->preparing);
    size_t slow_out = 0;
    for (size_t number = 0; number < self->tenant_count; number++)
        slow_out += self->tenants [number]->wants.slow_out;
    assert (slow_out == self->slow_out && slow_out <= self->preparing + self->copying);
    fairness_check (self->fairness);
}
