//  Classes of versions and their pipelines, and rows that wait for a version or a copy.

#include "schedule.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "broker_limits.h"
#include "dispatch.h"
#include "raw_refcount.h"
#include "row_queue.h"
#include "patience.h"
#include "states.h"

//  ---- classes

enum { CLASSES_IDLE_MAX = 256 };

//  What the index must leave free: for each tenant with jobs, every worker must find memory for one version
//  outside the index, and so must every task with an operation of the operator's own.
static size_t
s_workers_bytes (const broker_t *self)
{
    size_t beside = dispatch_beside_bytes (self);
    return (beside > self->version_bytes_max? beside: self->version_bytes_max)
        * broker_hands (self->options.workers, self->options.customs);
}

void
schedule_measure (broker_t *self)
{
    self->version_bytes_max = 0;
    for (const class_t *class = self->classes; class; class = class->next)
        if (class->version_bytes > self->version_bytes_max)
            self->version_bytes_max = class->version_bytes;
    size_t workers_bytes = s_workers_bytes (self);
    self->fetching_bytes = dispatch_fetching_bytes (self, workers_bytes);
    prepared_limit (self->prepared, self->options.cache_bytes - workers_bytes - self->fetching_bytes);
}

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
    uint64_t count = 0, most = broker_share (self, tenant, CLASSES_IDLE_MAX);
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
    class_t *class = needed_memory (calloc (1, sizeof *class));
    bool is_random = pipeline_shared_is_random (job->pipeline),
        is_apart = s_is_apart (job->order, job->pipeline);
    *class = (class_t) {
        .next = self->classes, .tenant = job->tenant, .dataset = job->dataset,
        .pipeline = pipeline_hold (job->pipeline),
        .version_bytes = version_bytes, .is_apart = is_apart, .custom = pipeline_custom (job->pipeline),
        .seed = is_apart? job->seed: random_next (&self->random),
        .kind = version_set_new (self->version_index, job->dataset->sampler, version_bytes, is_random, class)
    };
    class->prepare_ns = self->prepare_ns;
    self->classes = class;
    return class;
}

bool
schedule_allows (const broker_t *self, const broker_join_t *join, refusal_t *refusal)
{
    //  Whether the class exists must not matter: the answer would reveal it.
    return limits_allow_version (self, limits_tenant (self, join), pipeline_version_bytes (join->pipeline),
        refusal);
}

void
schedule_join (broker_t *self, job_t *job)
{
    class_t *class = s_find_class (self, job->dataset, job->order, job->pipeline);
    if (!class)
        class = s_new_class (self, job, broker_version_cost (pipeline_version_bytes (job->pipeline)));
    job->consumer.kind = class->kind;
    job->consumer.numbers = class->is_apart;
    job->consumer.tenant = job->tenant->number;
    //  First: a class without a consumer ends with its last version, which a smaller index may evict.
    version_index_join (self->version_index, &job->consumer);
    dispatch_join (self, job);
}

void
schedule_class_over (void *context, void *user)
{
    broker_t *self = context;
    class_t *class = user, **link = &self->classes;
    while (*link != class)
        link = &(*link)->next;
    *link = class->next;
    pipeline_destroy (&class->pipeline);
    free (class);
    schedule_measure (self);
}

size_t
broker_shared_texts (const dataset_t *dataset, const tenant_t *tenant, sampler_order_t order,
    const char **texts, size_t texts_max)
{
    size_t count = 0;
    for (size_t number = 0; number < SAMPLER_JOBS_MAX && count < texts_max; number++) {
        const job_t *job = dataset->jobs [number];
        if (!job || job->tenant != (tenant? tenant: job->broker->tenants [0])
            || s_is_apart (job->order, job->pipeline)
        ||  (order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (job->pipeline)))
            continue;
        const char *text = pipeline_shared_text (job->pipeline);
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
schedule_await (batch_row_t *row, version_t *version)
{
    row->version = version;
    if (version->state == VERSION_READY) {
        row_move (row, ROW_READY);
        dispatch_hold (version, row->job->tenant);
        row_queue_append (&row->job->ready, row);
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
    version_move (version, raw_prefetch_want (row->job->broker, row->job->tenant, version)?
        VERSION_QUEUED: VERSION_READING);
    if (version->state == VERSION_QUEUED)
        row_queue_append (&row->job->wanted, row);
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
        row_queue_remove (&row->job->wanted, row);
    if (!version->waiting && (version->state == VERSION_QUEUED || version->state == VERSION_READING)) {
        version_move (version, VERSION_IDLE);           //  prepared when a row waits for it again
        raw_prefetch_release (row->job->broker, version);
        patience_leave (row->job->broker, version);
    }
}

void
schedule_cancel (broker_t *self, batch_row_t *row)
{
    if (row->state == ROW_WAITING)
        s_leave_waiting (row);
    else
    if (row->state == ROW_READY)
        row_queue_remove (&row->job->ready, row);
    else
        return;
    version_t *version = row->version;
    row_move (row, ROW_EMPTY);
    row->version = NULL;
    dispatch_unpin (self, version);
}

//  ---- handed out
