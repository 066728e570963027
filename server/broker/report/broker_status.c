//  What `tureen status` shows, and the checks of the broker's invariants: both look at everything and change
//  nothing.

#include "broker.h"
#include <assert.h>
#include "bad.h"
#include "budget.h"
#include "client_life.h"
#include "dispatch.h"
#include "fetch_ahead.h"
#include "job.h"
#include "lookahead.h"
#include "patience.h"
#include "raw_prefetch.h"
#include "sharing_view.h"
#include "steps.h"
#include "tenant.h"
#include "version.h"

static json_t *
s_number (uint64_t number)
{
    return json_integer ((json_int_t) number);
}

//  Samples a second that the client consumed over the last ten seconds.
static double
s_rate (const job_t *job, int64_t now_ms)
{
    if (job->counts.mark_count == 0 || now_ms <= job->counts.marks [0].at_ms)
        return 0;
    return (double) (job->counts.consumed_samples - job->counts.marks [0].samples) * 1000
         / (double) (now_ms - job->counts.marks [0].at_ms);
}

static const char *
s_waiting_on (const job_t *job)
{
    if (job->state == JOB_ATTACHING)
        return "ring";
    if (job->delivery.held_up)
        return "rank";
    if (patience_stops (job))
        return "storage";
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        for (uint32_t slot = 0; slot < job->asked.slots; slot++)
            if (rank->held >> slot & 1 && rank->sequence [slot] >= rank->progress.consumed)
                return "client";
    }
    if (job->state == JOB_DRAWN && job->draw.order_count == 0)
        return "nothing";
    switch (job->waits.kind) {
    case WAITS_READ:
        return "read";
    case WAITS_MEMORY:
        return "memory";
    default:
        return "workers";
    }
}

static json_t *
s_window (const job_t *job)
{
    uint32_t drawn = 0, filled = 0, sent = 0;
    for (uint32_t slot = 0; slot < job->asked.slots; slot++) {
        const batch_t *batch = &job->draw.batches [slot];
        drawn += batch->drawn;
        filled += batch->drawn - batch->open - batch->holes;
        sent += batch->state == SLOT_SENT;
    }
    return json_pack ("{s:I,s:I,s:I,s:I,s:I}", "slots", (json_int_t) job->asked.slots, "batch_size",
        (json_int_t) job->asked.rank_batch, "drawn_samples", (json_int_t) drawn, "filled_samples",
            (json_int_t) filled,
        "sent_batches", (json_int_t) sent);
}

static json_t *
s_ranks (const job_t *job, int64_t now_ms)
{
    static const char *const states [] = { "attaching", "here", "lost", "left" };
    if (job->asked.world_size == 1)
        return json_null ();
    json_t *list = json_array ();
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        uint64_t lacks = rank->state == RANK_LEFT? 0: steps_replay_count (job, rank->lacks);
        json_array_append_new (list,
            json_pack ("{s:I,s:s,s:s,s:I,s:I,s:I,s:o}", "rank", (json_int_t) number, "state",
            states [rank->state], "transport", rank->is_inline? "inline": "ring", "sent_batches",
            (json_int_t) rank->sent,
            "consumed_batches", (json_int_t) rank_batches_done (&rank->progress), "lacks_steps",
            (json_int_t) lacks, "waits", waits_rank_status (rank, now_ms)));
    }
    return list;
}

//  A rank with both states is reported as the first one.
static json_t *
s_job (const job_t *job, bool sees_all, int64_t now_ms)
{
    static const char *const orders [] = { "shared", "private", "list", "seeded" };
    json_t *object = json_object ();
    json_object_set_new (object, "job", s_number (job->id));
    json_object_set_new (object, "name", json_string (job->asked.name));
    json_object_set_new (object, "job_name",
        *job->asked.job_name? json_string (job->asked.job_name): json_null ());
    json_object_set_new (object, "resumed", json_boolean (job->asked.is_resumed));
    json_object_set_new (object, "dataset", json_string (job->dataset->name));
    json_object_set_new (object, "order", json_string (orders [job->asked.order]));
    if (tenant_limits_apply (job->broker))
        json_object_set_new (object, "tenant", json_string (job->tenant->name));
    json_object_set_new (object, "apart", json_boolean (job->asked.order == SAMPLER_ORDER_SHARED
        && job->broker->options.policy != SAMPLER_POLICY_DSA && !job->consumer.follows
        && !job->consumer.has_passes));
    json_object_set_new (object, "passes", json_boolean (job->consumer.has_passes));
    json_object_set_new (object, "transport", json_string (job->ranks [0].is_inline? "inline": "ring"));
    json_object_set_new (object, "world_size", s_number (job->asked.world_size));
    json_object_set_new (object, "ranks", s_ranks (job, now_ms));
    if (job_has_parts (job)) {
        json_object_set_new (object, "nodes", s_number (job->asked.parts.nodes));
        json_object_set_new (object, "node", s_number (job->asked.parts.node));
        json_object_set_new (object, "parts", json_string (job->asked.parts.is_fixed? "fixed": "fresh"));
    }
    json_object_set_new (object, "epoch", s_number (job_sending_epoch (job)));
    json_object_set_new (object, "epochs", job->asked.epochs? s_number (job->asked.epochs): json_null ());
    json_object_set_new (object, "epoch_samples", s_number (job_epoch_samples (job)));
    json_object_set_new (object, "epoch_delivered", s_number (job->delivery.epoch_samples));
    json_object_set_new (object, "delivered_samples", s_number (job->delivery.delivered));
    json_object_set_new (object, "consumed_samples", s_number (job->counts.consumed_samples));
    json_object_set_new (object, "consumed_epoch", s_number (job->counts.consumed_epoch));
    json_object_set_new (object, "epoch_consumed", s_number (job->counts.consumed_epoch_samples));
    json_object_set_new (object, "rate", json_real (s_rate (job, now_ms)));
    json_object_set_new (object, "window", s_window (job));
    json_object_set_new (object, "waiting_on", json_string (s_waiting_on (job)));
    json_object_set_new (object, "waits", waits_status (job, now_ms));
    json_object_set_new (object, "batch_waits", waits_job_histogram_status (job));
    json_object_set_new (object, "sharing", sharing_status (job));
    json_object_set_new (object, "little_shared",
        job->told.little_shared? json_string (job->told.little_shared): json_null ());
    json_object_set_new (object, "ring_bytes", s_number (job->life.ring_bytes));
    json_object_set_new (object, "single_reads", s_number (job->counts.single_reads));
    json_object_set_new (object, "single_bytes", s_number (job->counts.single_bytes));
    if (sees_all)
        json_object_set_new (object, "reads", reads_status (job));
    json_object_set_new (object, "tier", raw_prefetch_job_status (job));
    json_object_set_new (object, "pool", job->asked.pool? s_number (job->asked.pool): json_null ());
    json_object_set_new (object, "pool_bytes", s_number (lookahead_bytes (job)));
    json_object_set_new (object, "on_bad",
        json_string (job->asked.on_bad == BROKER_BAD_FAIL? "fail": "drop"));
    json_object_set_new (object, "unreadable", job_unreadable (job));
    return object;
}

static json_t *
s_dataset (const broker_t *self, const dataset_t *dataset, bool sees_all, int64_t now_ms)
{
    json_t *bad = json_array ();
    for (size_t index = 0; index < dataset->bad_named && index < BAD_NAMED_MAX; index++)
        json_array_append_new (bad, bad_describe (&dataset->bad [index]));
    json_t *object = json_object ();
    json_object_set_new (object, "name", json_string (dataset->name));
    json_object_set_new (object, "samples", s_number (dataset->samples));
    json_object_set_new (object, "on_bad", json_string (dataset->on_bad == BROKER_BAD_FAIL? "fail": "drop"));
    json_object_set_new (object, "bad", bad);
    json_object_set_new (object, "bad_samples", s_number (sampler_dropped_count (dataset->sampler)));
    json_object_set_new (object, "trouble", patience_status (self, dataset, now_ms));
    bool is_copy = dataset->prefetch && dataset->prefetch->given.is_copy;
    json_t *prefetch = dataset->prefetch? raw_prefetch_status (dataset, sees_all): json_null ();
    json_object_set_new (object, "pack", is_copy? json_null (): json_incref (prefetch));
    json_object_set_new (object, "pieces", is_copy? json_incref (prefetch): json_null ());
    json_decref (prefetch);
    return object;
}

static json_t *
s_datasets (const broker_t *self, const tenant_t *tenant, int64_t now_ms)
{
    json_t *list = json_array ();
    sharing_view_room_t room = sharing_view_room (self, tenant);
    for (size_t index = 0; index < self->dataset_count; index++)
        if (!self->datasets [index]->is_removed && tenant_may_use (tenant, self->datasets [index])) {
            json_t *object = s_dataset (self, self->datasets [index], tenant == NULL, now_ms);
            sharing_view_describe (self->datasets [index], tenant, room, now_ms, object);
            json_array_append_new (list, object);
        }
    return list;
}

static json_t *
s_jobs (const broker_t *self, const tenant_t *tenant, int64_t now_ms)
{
    json_t *list = json_array ();
    for (const job_t *job = self->jobs; job; job = job->next)
        if (job->state != JOB_OVER && (!tenant || job->tenant == tenant))
            json_array_insert_new (list, 0, s_job (job, tenant == NULL, now_ms));
    return list;
}

//  The tenant's limits, its use, and its counters.  The number of versions dropped unused is for operators
//  only: it would reveal whether another tenant had used one.
static json_t *
s_tenant (const broker_t *self, const tenant_t *tenant, bool sees_all)
{
    json_t *object = tenant_status (self, tenant);
    version_index_losses_t losses = version_index_tenant_losses (self->version_index, tenant->number);
    json_object_set_new (object, "cache_bytes",
        s_number (version_index_tenant_bytes (self->version_index, tenant->number)));
    json_object_set_new (object, "evictions", s_number (losses.evictions));
    json_object_set_new (object, "prepared_again", s_number (losses.again));
    if (sees_all)
        json_object_set_new (object, "dropped_unused", s_number (losses.dropped));
    json_object_set_new (object, "worker_seconds",
        json_real ((double) tenant_worker_ns (self, tenant) / 1e9));
    json_object_set_new (object, "waiting_samples", s_number (tenant_waiting (tenant)));
    json_object_set_new (object, "batch_waits", waits_histogram_status (&tenant->waits));
    return object;
}

static json_t *
s_tenants (const broker_t *self)
{
    json_t *list = json_array ();
    for (size_t index = 0; index < self->tenant_count; index++)
        json_array_append_new (list, s_tenant (self, self->tenants [index], true));
    return list;
}

static json_t *
s_all_waits (const broker_t *self)
{
    waits_histogram_t all = { .sums_ms = { 0 } };
    for (size_t index = 0; index < self->tenant_count; index++)
        waits_histogram_add (&all, &self->tenants [index]->waits);
    return waits_histogram_status (&all);
}

static void
s_describe_all (const broker_t *self, json_t *object)
{
    if (tenant_limits_apply (self))
        json_object_set_new (object, "tenants", s_tenants (self));
    json_object_set_new (object, "jobs_total", s_number (self->jobs_total));
    json_object_set_new (object, "prepared", s_number (self->prepared_count));
    json_object_set_new (object, "delivered", s_number (self->delivered_count));
    json_object_set_new (object, "prepared_per_delivered", self->delivered_count == 0? json_null ():
        json_real ((double) self->prepared_count / (double) self->delivered_count));
    json_object_set_new (object, "cache_hits", s_number (version_index_hits (self->version_index)));
    json_object_set_new (object, "cache_misses", s_number (version_index_misses (self->version_index)));
    json_object_set_new (object, "cache_bytes", s_number (prepared_memory_bytes (self->prepared)));
    json_object_set_new (object, "cache_bytes_max", s_number (self->options.cache_bytes));
    json_object_set_new (object, "cache_versions", s_number (prepared_versions (self->prepared)));
    json_object_set_new (object, "raw_bytes", s_number (self->raw? raw_store_bytes (self->raw): 0));
    json_object_set_new (object, "raw_bytes_max", s_number (self->options.raw_bytes));
    version_index_losses_t losses = version_index_losses (self->version_index);
    json_object_set_new (object, "evictions", s_number (losses.evictions));
    json_object_set_new (object, "prepared_again", s_number (losses.again));
    json_object_set_new (object, "dropped_unused", s_number (losses.dropped));
    json_object_set_new (object, "ring_bytes", s_number (self->rings_bytes));
    json_object_set_new (object, "jobs_bytes", s_number (self->jobs_bytes));
    json_object_set_new (object, "outgoing_bytes", s_number (self->outside_bytes));
    json_object_set_new (object, "jobs_bytes_max", s_number (self->options.jobs_bytes_max));
    json_object_set_new (object, "bad_samples", s_number (self->bad_count));
    json_object_set_new (object, "read_failures", s_number (self->read_failures));
    json_object_set_new (object, "batch_waits", s_all_waits (self));
}

//  To a tenant nothing reveals another tenant's jobs, except indirectly: costs split among tenants
//  (cache_bytes, worker_seconds) and counts of shared memory (evictions, prepared_again) vary with what
//  others share.
json_t *
broker_status (broker_t *self, const tenant_t *tenant, int64_t now_ms)
{
    const tenant_t *only = tenant_limits_apply (self)? tenant: NULL;
    json_t *object = json_object ();
    json_object_set_new (object, "policy",
        json_string (self->options.policy == SAMPLER_POLICY_DSA? "dsa": "follow"));
    json_object_set_new (object, "datasets", s_datasets (self, only, now_ms));
    json_object_set_new (object, "jobs", s_jobs (self, only, now_ms));
    json_object_set_new (object, "uptime_seconds",
        json_real (self->started_ms? (double) (now_ms - self->started_ms) / 1000: 0));
    if (only)
        json_object_set_new (object, "tenant", s_tenant (self, only, false));
    else
        s_describe_all (self, object);
    return object;
}

uint64_t
broker_jobs (const broker_t *self, uint64_t *total_p)
{
    uint64_t count = 0;
    if (total_p)
        *total_p = self->jobs_total;
    for (const job_t *job = self->jobs; job; job = job->next)
        count += job->state != JOB_OVER;
    return count;
}

//  ---- checks

//  Ranks are in order, and rows within a rank; a row is LOST if and only if its rank is.
static void
s_check_dealt (const job_t *job, const batch_t *batch, const batch_row_t *row)
{
    const rank_t *rank = &job->ranks [row->rank];
    assert (row->rank < job->asked.world_size && row->rank_row < job->asked.rank_batch);
    if (row->index == 0)
        assert (row->rank == 0 && row->rank_row == 0);
    else {
        const batch_row_t *before = row - 1;
        assert (row->rank == before->rank? row->rank_row == before->rank_row + 1:
            row->rank == before->rank + 1 && row->rank_row == 0);
    }
    bool is_unsent = batch->state == SLOT_FILLING || batch->state == SLOT_FULL;
    if (row->state == ROW_LOST)
        assert (is_unsent && rank->state != RANK_HERE);
    if (is_unsent && (rank->state != RANK_HERE && job->state != JOB_ATTACHING))
        assert (row->state == ROW_LOST || row->state == ROW_COPYING || row->state == ROW_HOLE);
}

static void
s_check_batch (const job_t *job, uint32_t slot)
{
    const batch_t *batch = &job->draw.batches [slot];
    uint32_t open = 0, holes = 0;
    for (uint32_t index = 0; index < job->asked.batch_size; index++) {
        const batch_row_t *row = &batch->rows [index];
        assert (row->slot == slot && row->index == index && row->job == job);
        bool pinned = row->state == ROW_WAITING || row->state == ROW_READY
            || row->state == ROW_COPYING;
        assert (pinned == (row->version != NULL));
        if (pinned)
            assert (row->version->pins > 0 && row->version->id == row->id);
        const raw_prefetch_t *prefetch = job->dataset->prefetch;
        const raw_sample_t *raw = row->state == ROW_WAITING? row->version->raw: NULL;
        //  A version that waited when its folder began to be read in pieces has its own files.
        if (row->state == ROW_WAITING && prefetch)
            assert (raw? raw->holds > 0: prefetch->given.is_copy);                      //  B6
        open += pinned || row->state == ROW_LOST;
        if (index < batch->drawn && job->state != JOB_OVER)
            s_check_dealt (job, batch, row);
        holes += row->state == ROW_HOLE;
        assert (index < batch->drawn || row->state == ROW_EMPTY);
    }
    if (job->state == JOB_OVER)
        return;
    assert (batch->open == open);
    assert (batch->holes == holes);
    assert (batch->state != SLOT_SENT || open == 0);
    assert (batch->state != SLOT_FREE || batch->drawn == 0);
    assert ((batch->state == SLOT_FILLING) == (job->draw.filling == slot));
}

//  Checks rows that are in no step, and that the job's counts are the sums over its ranks.
static uint32_t
s_copying_beside (const job_t *job)
{
    uint32_t count = 0, of_ranks = 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        of_ranks += rank->copying;
        count += rank->padding.state == ROW_COPYING;
        for (uint32_t row = 0; rank->again.rows && row < job->asked.rank_batch; row++)
            count += rank->again.rows [row].state == ROW_COPYING;
    }
    assert (of_ranks == job->dispatch.copying);
    return count;
}

static uint32_t
s_check_job (const job_t *job)
{
    uint32_t copying = 0, used = 0, unsent = 0;
    for (uint32_t slot = 0; slot < job->asked.slots; slot++) {
        s_check_batch (job, slot);
        const batch_t *batch = &job->draw.batches [slot];
        used += batch->state != SLOT_FREE;
        unsent += batch->state == SLOT_FILLING || batch->state == SLOT_FULL;
        for (uint32_t index = 0; index < job->asked.batch_size; index++)
            copying += batch->rows [index].state == ROW_COPYING;
    }
    copying += s_copying_beside (job);
    client_life_check (job);
    waits_check (job);
    assert (copying == job->dispatch.copying);
    if (job->state != JOB_OVER) {
        assert (used == job->draw.used_slots);
        assert (unsent == job->draw.order_count);
        assert (job->dataset->jobs [job->consumer.sampler_job] == job);
    }
    return copying;
}

//  What is read the next time begins anew.
static void
s_check_version (void *context, version_t *version)
{
    (void) context;
    assert (version->failures == 0 || (version->state != VERSION_IDLE && version->state != VERSION_READY));
}

static void
s_check_datasets (const broker_t *self)
{
    size_t taken = 0;
    for (size_t number = 0; number < BROKER_DATASETS_MAX; number++)
        taken += self->places [number] != NULL;
    assert (taken == self->dataset_count);                                                      //  B10
    for (size_t index = 0; index < self->dataset_count; index++) {
        const dataset_t *dataset = self->datasets [index];
        assert (self->places [dataset->number] == dataset);                                     //  B10
        assert (!dataset->is_removed || dataset_jobs (dataset) == 0);                           //  B10
        patience_check (dataset);
        fetch_ahead_check (dataset);
    }
    for (const class_t *class = self->classes; class; class = class->next)
        assert (self->places [class->dataset->number] == class->dataset
            && (!class->dataset->is_removed || version_set_is_idle (class->kind)));             //  B10
}

void
broker_check (broker_t *self)
{
    version_index_check (self->version_index);                                                  //  B4
    uint32_t copying = 0;
    size_t rings = 0, jobs = 0;
    for (const job_t *job = self->jobs; job; job = job->next) {
        copying += s_check_job (job);
        rings += job->state == JOB_OVER? 0: job->life.ring_bytes;
        jobs += job->state == JOB_OVER? 0: job->life.memory_bytes;
    }
    assert (copying == self->copying);
    assert (rings == self->rings_bytes);
    assert (jobs == self->jobs_bytes && jobs <= self->options.jobs_bytes_max);
    assert (self->copying <= self->copy_max);
    assert (self->preparing + self->copy_max <= budget_tasks_max (self));
    sharing_check (self);
    dispatch_check (self);
    raw_prefetch_check (self);
    prepared_each (self->prepared, s_check_version, NULL);
    s_check_datasets (self);
    job_life_check (self);
    tenant_check (self);
}
