//  A service's life, what the broker wants done, and what status shows.

#include "service.h"
#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "admission.h"
#include "build_version.h"
#include "clock.h"
#include "connection.h"
#include "dataset_answer.h"
#include "explaining.h"
#include "job.h"
#include "outbox.h"
#include "remote_workers.h"
#include "reply.h"
#include "ring.h"
#include "tenant.h"

struct service {
    service_options_t options;
    int64_t now_ms;             //  of this turn
    receiver_t *receiver;
    explaining_t *explaining;
    admission_t *admission;
    ring_closing_t closing_rings;
    atomic_size_t outgoing [BROKER_TENANTS_MAX];    //  bytes of inline batches of each tenant that ZeroMQ has
                                                    //  not sent yet; its threads count down
    outbox_backlog_t *backlog;
    //  the end of a server that no job needs any more
    int64_t idle_limit_ms;      //  0: it never ends by itself
    int64_t idle_since_ms;      //  without a job
    uint64_t idle_jobs_total;   //  that had joined at the last look
    //  scratch for one batch
    uint32_t *rows;
    uint64_t *ids;
};

static void s_carry_out_all (void *context);
static json_t *s_status (void *context, const caller_t *caller);

//  Reports memory that counts in the budget of jobs and belongs to no job.
static void
s_count_outside (service_t *self)
{
    broker_t *broker = self->options.broker;
    for (uint32_t number = 0; number < tenant_total (broker); number++) {
        tenant_t *tenant = tenant_of_number (broker, number);
        tenant_outside (broker, tenant, admission_count (self->admission, tenant),
            atomic_load (&self->outgoing [number])
            + ring_closing_bytes (&self->closing_rings, number) + admission_bytes (self->admission, tenant));
    }
}

static void
s_settle (void *context)
{
    service_t *self = context;
    s_carry_out_all (self);
    s_count_outside (self);
}

//  A refusal that admission sends later than in its answer: it is counted here, admission tells the client.
static void
s_count_refusal (void *context, const caller_t *caller, const refusal_t *refusal)
{
    service_t *self = context;
    receiver_count_refusal (self->receiver, caller, refusal);
}

//  NULL: no memory, as where a part of it could not be had.
static receiver_t *
s_new_receiver (service_t *self)
{
    const service_options_t *options = &self->options;
    receiver_options_t receiver = { .broker = options->broker, .tasks = options->tasks,
        .ring_server = options->ring_server, .router = options->router, .log = options->log,
        .tenants = options->tenants, .additions = options->additions,
        .explaining = self->explaining, .admission = self->admission, .backlog = self->backlog,
        .now_ms = &self->now_ms, .nanoseconds = options->nanoseconds, .clock = options->clock,
        .carry_out = s_carry_out_all, .status = s_status, .context = self };
    return self->explaining && self->admission? receiver_new (&receiver): NULL;
}

service_t *
service_new (const service_options_t *options)
{
    service_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->backlog = outbox_backlog_new ();
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++)
        atomic_init (&self->outgoing [number], 0);
    admission_options_t admission = { .broker = options->broker, .ring_server = options->ring_server,
        .router = options->router,
        .ring_path = options->ring_path, .log = options->log, .additions = options->additions,
        .outgoing = self->outgoing, .settle = s_settle,
        .refused = s_count_refusal, .backlog = self->backlog, .context = self };
    self->rows = calloc (REQUEST_BATCH_MAX, sizeof *self->rows);
    self->ids = calloc (REQUEST_BATCH_MAX, sizeof *self->ids);
    self->explaining = explaining_new (options->router, options->broker, options->tasks, self->backlog);
    self->admission = admission_new (&admission);
    self->receiver = s_new_receiver (self);
    if (!self->rows || !self->ids || !self->receiver || !self->backlog
        || tasks_lend (options->tasks, options->router, options->log))
        service_destroy (&self);
    return self;
}

void
service_destroy (service_t **self_p)
{
    service_t *self = *self_p;
    if (!self)
        return;
    explaining_destroy (&self->explaining);
    admission_destroy (&self->admission);
    ring_closing_leave (&self->closing_rings);
    receiver_destroy (&self->receiver);
    outbox_backlog_destroy (&self->backlog);
    free (self->rows);
    free (self->ids);
    free (self);
    *self_p = NULL;
}

void
service_check (const service_t *self)
{
    receiver_check (self->receiver);
}

//  ---- what clients ask

int
service_receive (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    return receiver_receive (self->receiver);
}

void
service_take (service_t *self, const receiver_message_t *message, int64_t now_ms)
{
    self->now_ms = now_ms;
    receiver_take (self->receiver, message);
}

void
service_serve (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    receiver_serve (self->receiver);
}

int64_t
service_wakeup (const service_t *self)
{
    return receiver_wakeup (self->receiver);
}

bool
service_is_full (const service_t *self)
{
    return receiver_is_full (self->receiver);
}

bool
service_ends_now (const service_t *self)
{
    return receiver_ends_now (self->receiver);
}

size_t
service_revoke (service_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context,
    int64_t now_ms)
{
    self->now_ms = now_ms;
    return receiver_revoke (self->receiver, is_gone, context);
}

//  ---- the log

//  A line about a rank; reason: NULL, or one of the server's own words.
static void
s_log_rank (service_t *self, rank_t *rank, log_level_t level, const char *event, const char *reason,
    const char *what)
{
    connection_label_t label;
    connection_label (self->options.broker, rank, reason, &label);
    log_event (self->options.log, level, event, label.fields, "%s%s", label.text, what);
}

static uint64_t
s_job_of (const rank_t *rank)
{
    return job_id (rank_job (rank));
}

//  ---- the ring server

void
service_attend (service_t *self, int64_t now_ms)
{
    ring_server_event_t event;
    self->now_ms = now_ms;
    while (ring_server_next (self->options.ring_server, now_ms, &event)) {
        rank_t *rank = connection_rank_of_key (self->options.broker, event.key);
        if (!rank) {
            if (event.kind == RING_SERVER_CLOSED)
                ring_closing_end (&self->closing_rings, event.key);
            continue;
        }
        if (event.kind == RING_SERVER_ATTACHED) {
            ((connection_t *) rank_user (rank))->attached = true;
            broker_attached (self->options.broker, rank, now_ms);
        }
        else {
            s_log_rank (self, rank, LOG_LEVEL_NOTICE, "lost", NULL,
                " is gone: its client closed the ring's socket");
            broker_lost (self->options.broker, rank, now_ms);
        }
    }
}

//  ---- the broker's actions

//  Moves the rows of a batch together where unreadable samples left holes.
static void
s_close_holes (const layout_t *layout, uint8_t *slot, const uint32_t *rows, uint32_t count)
{
    for (uint32_t row = 0; row < count; row++)
        for (size_t field = 0; rows [row] != row && field < layout->count; field++)
            memcpy (layout_row (layout, field, slot, row), layout_row (layout, field, slot, rows [row]),
                layout->fields [field].sample_bytes);
}

static void
s_send_batch (service_t *self, const action_t *action)
{
    rank_t *rank = action->rank;
    connection_t *connection = rank_user (rank);
    if (!rank_is_there (rank))
        return;
    uint32_t slot = action->batch.slot;
    uint32_t count = rank_batch_rows (rank, slot, self->rows, self->ids);
    assert (count == action->batch.count);
    s_close_holes (&connection->layout, connection_slot (connection, slot), self->rows, count);
    outbox_batch_t batch = { .batch = &action->batch, .ids = self->ids, .step = action->step,
        .step_words = action->step_words,
        .memory = connection->memory, .block = connection_take_inline (connection, slot) };
    if (outbox_send_batch (self->options.router, &connection->peer, s_job_of (rank), &batch) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
}

static void
s_copy (service_t *self, batch_row_t *row)
{
    rank_t *rank = row_rank (row);
    connection_t *connection = rank_user (rank);
    uint8_t *slot = connection_slot (connection, row_slot (row));
    if (!slot) {
        //  No memory for an inline batch: this job ends, others continue.
        broker_copied (self->options.broker, row);
        broker_end (self->options.broker, rank_job (rank), "memory",
            "the server has no memory for the job's batches");
        return;
    }
    tasks_copy (self->options.tasks, row, &connection->layout, slot);
}

//  The client of a job that the server has ended may still read its ring.  True: the client will say when it
//  has finished.
static bool
s_part (service_t *self, connection_t *connection, const tenant_t *tenant)
{
    if (!connection->ended || !connection->ring)
        return false;
    if (receiver_is_stopping (self->receiver)) {
        ring_leave (&connection->ring);
        return false;
    }
    if (!ring_server_part (self->options.ring_server, connection->key))
        return false;
    ring_closing_keep (&self->closing_rings, self->options.ring_server, connection->key,
        tenant_number (tenant),
        (size_t) tenant_share (self->options.broker, tenant, RING_CLOSING_MAX), &connection->ring);
    return true;
}

//  NULL: the rank has no connection, or has it no more.
static void
s_reclaim_connection (service_t *self, connection_t *connection, const tenant_t *tenant)
{
    if (connection && !s_part (self, connection, tenant))
        ring_server_forget (self->options.ring_server, connection->key);
    connection_destroy (&connection);
}

static void
s_reclaim_rank (service_t *self, rank_t *rank)
{
    s_reclaim_connection (self, rank_user (rank), job_tenant (rank_job (rank)));
    broker_reclaim_rank (self->options.broker, rank);
}

//  Unmapping a large ring takes as long as making it: the time is measured, and charged to its tenant.
static void
s_reclaim (service_t *self, job_t *job)
{
    const tenant_t *tenant = job_tenant (job);
    uint64_t begin = receiver_nanoseconds (self->receiver);
    for (uint32_t number = 0; number < job_world_size (job); number++)
        s_reclaim_connection (self, rank_user (job_rank (job, number)), job_tenant (job));
    broker_reclaim (self->options.broker, job);
    receiver_charge_reclaim (self->receiver, tenant, receiver_nanoseconds (self->receiver) - begin);
}

static void
s_send_notice (service_t *self, const action_t *action)
{
    rank_t *rank = action->rank;
    const job_t *job = rank_job (rank);
    const connection_t *connection = rank_user (rank);
    char what [LOG_LINE_BYTES_MAX], *unreadable = action->message? NULL: job_unreadable_message (job);
    const char *message = unreadable? unreadable: action->message;
    snprintf (what, sizeof what, ", %s: %s", action->reason, message);
    s_log_rank (self, rank, LOG_LEVEL_NOTICE, "notice", action->reason, what);
    if (rank_is_there (rank) && outbox_send_text (self->options.router, &connection->peer, WIRE_NOTICE,
        s_job_of (rank), 0,
            unreadable? reply_notice_unreadable (message, job_epoch_samples (job), job_unreadable (job))
                : reply_notice (action->reason, message)) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
    free (unreadable);
}

static void
s_send_epoch_end (service_t *self, const action_t *action)
{
    rank_t *rank = action->rank;
    const connection_t *connection = rank_user (rank);
    if (rank_is_there (rank) && outbox_send (self->options.router, &connection->peer, WIRE_EPOCH_END,
        s_job_of (rank), 0, &action->epoch_end, sizeof action->epoch_end) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
}

//  The rank may be reclaimed already.
static void
s_send_ended (service_t *self, const action_t *action)
{
    connection_t *connection = rank_user (action->rank);
    char what [LOG_LINE_BYTES_MAX];
    snprintf (what, sizeof what, " ended: %s", action->message);
    //  What a server that ends stops goes on at the next one, and loses nothing.
    bool is_stopped = strcmp (action->reason, "stopping") == 0;
    s_log_rank (self, action->rank, is_stopped? LOG_LEVEL_NOTICE: LOG_LEVEL_WARNING, "ended", action->reason,
        what);
    if (!connection)
        return;
    connection->ended = true;
    outbox_send_text (self->options.router, &connection->peer, WIRE_ENDED, s_job_of (action->rank), 0,
        reply_ended (action->reason, action->message));
}

static void
s_carry_out (service_t *self, const action_t *action)
{
    switch (action->kind) {
    case ACTION_READ:
        tasks_read (self->options.tasks, action->request);
        break;
    case ACTION_PREPARE:
        tasks_prepare (self->options.tasks, action->version);
        break;
    case ACTION_FETCH_AHEAD:
        tasks_fetch_ahead (self->options.tasks, action);
        break;
    case ACTION_COPY:
        s_copy (self, action->row);
        break;
    case ACTION_SIDE_TASK:
        tasks_start_side_task (self->options.tasks, action->tenant, action->charged_us);
        break;
    case ACTION_SEND_BATCH:
        s_send_batch (self, action);
        break;
    case ACTION_SEND_EPOCH_END:
        s_send_epoch_end (self, action);
        break;
    case ACTION_SEND_ENDED:
        s_send_ended (self, action);
        break;
    case ACTION_SEND_NOTICE:
        s_send_notice (self, action);
        break;
    case ACTION_RECLAIM_RANK:
        s_reclaim_rank (self, action->rank);
        break;
    case ACTION_RECLAIM:
        s_reclaim (self, action->job);
        break;
    }
}

static void
s_carry_out_all (void *context)
{
    service_t *self = context;
    action_t action;
    while (broker_next (self->options.broker, &action))
        s_carry_out (self, &action);
}

static void
s_log_bad_samples (service_t *self)
{
    dataset_t *dataset;
    uint32_t id;
    const char *reason;
    while (dataset_next_bad (self->options.broker, &dataset, &id, &reason))
        log_event (self->options.log, LOG_LEVEL_WARNING, "bad_sample",
            LOG_FIELDS (LOG_TEXT ("dataset", dataset_name (dataset)),
            LOG_NUMBER ("sample", id)), "sample %u of data set '%s' cannot be read: %s", id,
            dataset_name (dataset), reason);
}

//  Logs once that reads of a data set have failed for a while, and once that they succeed again.
static void
s_log_trouble (service_t *self)
{
    broker_trouble_t trouble;
    while (dataset_next_trouble (self->options.broker, &trouble)) {
        const char *name = dataset_name (trouble.dataset);
        if (trouble.is_over)
            log_event (self->options.log, LOG_LEVEL_NOTICE, "storage",
                LOG_FIELDS (LOG_TEXT ("dataset", name)),
                "data set '%s' can be read again; reads failed for %.1f s", name,
                (double) trouble.lasted_ms / 1000);
        else
            log_event (self->options.log, LOG_LEVEL_WARNING, "storage",
                LOG_FIELDS (LOG_TEXT ("dataset", name)),
                "data set '%s' %s: %s; tried again for %lld s (--patience)", name,
                trouble.is_still? "stands still": "has reads that fail", trouble.reason,
                (long long) (trouble.patience_ms / 1000));
    }
}

//  Logs once that keys of a store are not renewed, while the old ones may still be good, and once that they
//  are again.
static void
s_log_keys (service_t *self)
{
    char name [DEVICE_NAME_BYTES];
    const char *trouble;
    while (tasks_next_key_trouble (self->options.tasks, self->now_ms, name, &trouble))
        if (*trouble)
            log_event (self->options.log, LOG_LEVEL_WARNING, "keys", LOG_FIELDS (LOG_TEXT ("device", name)),
                "the keys of '%s' are not renewed: %s; tried again", name, trouble);
        else
            log_event (self->options.log, LOG_LEVEL_NOTICE, "keys", LOG_FIELDS (LOG_TEXT ("device", name)),
                "the keys of '%s' are renewed again", name);
}

//  Logs once a data set that its values are clipped; status has their number.
static void
s_log_clipped (service_t *self)
{
    const data_warnings_t *warnings;
    char text [DATA_WARNINGS_TEXT_BYTES];
    while ((warnings = tasks_next_news (self->options.tasks)))
        if (data_warnings_clipped_text (warnings, text))
            log_event (self->options.log, LOG_LEVEL_WARNING, "clipped",
                LOG_FIELDS (LOG_TEXT ("dataset", data_warnings_name (warnings))), "data set '%s': %s",
                data_warnings_name (warnings), text);
}

void
service_act (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    tasks_collect (self->options.tasks, now_ms);
    s_log_bad_samples (self);
    s_log_clipped (self);
    tasks_collect_side_tasks (self->options.tasks);
    broker_advance (self->options.broker, now_ms);
    s_log_trouble (self);
    s_log_keys (self);
    s_carry_out_all (self);
    if (admission_act (self->admission, now_ms)) {
        broker_advance (self->options.broker, now_ms);
        s_carry_out_all (self);
    }
}

static void
s_beat (void *context, rank_t *rank)
{
    service_t *self = context;
    const connection_t *connection = rank_user (rank);
    if (connection->attached)
        return;
    if (outbox_send (self->options.router, &connection->peer, WIRE_HEARTBEAT, s_job_of (rank), 0, NULL, 0)
        == OUTBOX_GONE) {
        s_log_rank (self, rank, LOG_LEVEL_NOTICE, "lost", NULL, " is gone: its connection is closed");
        broker_lost (self->options.broker, rank, self->now_ms);
    }
}

void
service_beat (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    //  Returns memory to the system that bursts of messages and jobs have left with the allocator.
    malloc_trim (0);
    rank_each (self->options.broker, s_beat, self);
    admission_beat (self->admission, now_ms);
    receiver_beat (self->receiver);
}

uint64_t
service_jobs (const service_t *self)
{
    return broker_jobs (self->options.broker, NULL) + admission_count (self->admission, NULL);
}

uint64_t
service_uses (const service_t *self)
{
    return service_jobs (self) + receiver_is_adding (self->receiver);
}

void
service_begin_idle (service_t *self, int64_t limit_ms, int64_t now_ms)
{
    self->idle_limit_ms = limit_ms;
    self->idle_since_ms = now_ms;
    self->idle_jobs_total = 0;
}

static int64_t
s_idle_end_ms (const service_t *self)
{
    bool is_starting = self->idle_jobs_total == 0 && self->idle_limit_ms < SERVICE_IDLE_START_MS;
    return self->idle_since_ms + (is_starting? SERVICE_IDLE_START_MS: self->idle_limit_ms);
}

bool
service_is_idle (service_t *self, int64_t now_ms)
{
    uint64_t uses = service_uses (self), jobs_total;
    broker_jobs (self->options.broker, &jobs_total);
    //  A job may have joined and left since the last look.
    if (uses > 0 || jobs_total != self->idle_jobs_total)
        self->idle_since_ms = now_ms;
    self->idle_jobs_total = jobs_total;
    return self->idle_limit_ms > 0 && uses == 0 && now_ms >= s_idle_end_ms (self);
}

int64_t
service_idle_due_ms (const service_t *self)
{
    return self->idle_limit_ms > 0 && service_uses (self) == 0? s_idle_end_ms (self): INT64_MAX;
}

bool
service_is_drained (const service_t *self)
{
    return broker_is_draining (self->options.broker) && service_jobs (self) == 0;
}

//  ---- what `tureen status` shows beyond what the broker knows: to each caller what is its own to know

static void
s_put (json_t *object, const char *key, uint64_t number)
{
    json_object_set_new (object, key, json_integer ((json_int_t) number));
}

static double
s_cpu_seconds (void)
{
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
         + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

//  The limit, and the seconds left, or null while there are jobs; null without a limit.
static json_t *
s_until_idle (const service_t *self, int64_t now_ms)
{
    if (self->idle_limit_ms == 0)
        return json_null ();
    int64_t left_ms = s_idle_end_ms (self) - now_ms;
    return json_pack ("{s:f,s:o}", "seconds", (double) self->idle_limit_ms / 1000, "left",
        service_uses (self)? json_null (): json_real (left_ms > 0? (double) left_ms / 1000: 0));
}

static void
s_describe_tenants (const service_t *self, json_t *status)
{
    size_t index;
    json_t *object, *own = json_object_get (status, "tenant");
    const tenant_t *tenant = own?
        tenant_named (self->options.broker, json_string_value (json_object_get (own, "name"))): NULL;
    if (tenant)
        receiver_describe_tenant (self->receiver, own, tenant);
    json_array_foreach (json_object_get (status, "tenants"), index, object) {
        tenant = tenant_named (self->options.broker, json_string_value (json_object_get (object, "name")));
        if (tenant)
            receiver_describe_tenant (self->receiver, object, tenant);
    }
}

//  As of the connection limit's last look, half a second ago at most.
static json_t *
s_descriptors (const connection_limit_t *connection_limit)
{
    json_t *object = json_object ();
    s_put (object, "open", connection_limit_descriptors (connection_limit));
    s_put (object, "max", connection_limit_descriptors_max (connection_limit));
    return object;
}

static json_t *
s_block_cache (const block_cache_t *block_cache)
{
    if (!block_cache)
        return json_null ();
    block_cache_figures_t figures = block_cache_figures (block_cache);
    json_t *object = json_object (), *folder = json_string (figures.folder);
    json_object_set_new (object, "folder", folder? folder: json_string ("(not UTF-8)"));
    s_put (object, "bytes", figures.bytes);
    s_put (object, "bytes_max", figures.bytes_max);
    s_put (object, "damaged", figures.damaged);
    json_object_set_new (object, "aside", json_boolean (figures.is_aside));
    json_object_set_new (object, "failure", figures.failure? json_string (strerror (-figures.failure)):
        json_null ());
    return object;
}

//  What --memory is divided into, and what pins take of it.
static json_t *
s_memory (const memory_parts_t *parts, const json_t *datasets)
{
    size_t index;
    uint64_t pinned = 0, decoded = 0;
    const json_t *dataset;
    if (!parts)
        return json_null ();
    json_array_foreach (datasets, index, dataset) {
        pinned += (uint64_t) json_integer_value (json_object_get (json_object_get (dataset, "pins"),
            "memory_bytes"));
        decoded += (uint64_t) json_integer_value (json_object_get (json_object_get (dataset, "pictures"),
            "bytes"));
    }
    json_t *object = json_object ();
    s_put (object, "bytes", parts->memory);
    s_put (object, "mixing_bytes", parts->raw);
    s_put (object, "prepared_bytes", parts->cache);
    s_put (object, "pins_bytes", parts->pins_now - parts->pictures);
    s_put (object, "pinned_bytes", pinned);
    s_put (object, "pictures_bytes", parts->pictures);
    s_put (object, "decoded_bytes", decoded);
    return object;
}

//  Figures of the whole server: other tenants change them.
static void
s_describe_server (service_t *self, json_t *status, int64_t now_ms)
{
    json_object_set_new (status, "devices", tasks_devices_status (self->options.tasks));
    uint64_t lost;
    json_object_set_new (status, "remote_workers",
        remote_workers_status (tasks_remote_workers (self->options.tasks), &lost));
    s_put (status, "remote_workers_lost", lost);
    json_object_set_new (status, "operations", customs_status (self->options.customs));
    s_put (status, "reads_max", tasks_depth (self->options.tasks));
    json_object_set_new (status, "memory", s_memory (self->options.memory,
        json_object_get (status, "datasets")));
    json_object_set_new (status, "block_cache", s_block_cache (self->options.block_cache));
    json_object_set_new (status, "cluster", self->options.cluster? cluster_status (self->options.cluster):
        json_null ());
    json_object_set_new (status, "cpu_seconds", json_real (s_cpu_seconds ()));
    json_object_set_new (status, "until_idle", s_until_idle (self, now_ms));
    s_put (status, "restarts", self->options.restarts);
    receiver_describe (self->receiver, status);
    s_put (status, "unread_bytes", outbox_backlog_bytes (self->backlog));
    s_put (status, "shortages", tasks_shortages (self->options.tasks));
    s_put (status, "log_lines_lost", self->options.log->lost);
    json_object_set_new (status, "descriptors", s_descriptors (self->options.connection_limit));
    if (self->options.client_socket)
        json_object_set_new (status, "handshakes", client_socket_status (self->options.client_socket));
}

json_t *
service_status (service_t *self, const caller_t *caller, int64_t now_ms)
{
    //  Operators see everything; with one tenant every caller does.
    bool sees_all = caller->is_operator || tenant_total (self->options.broker) == 1;
    s_count_outside (self);
    json_t *status = broker_status (self->options.broker, sees_all? NULL: caller->tenant, now_ms);
    dataset_answer_status (self->options.broker, status, sees_all);
    const char *of_files = tasks_reading_mode (self->options.tasks, false);
    json_object_set_new (status, "reading",
        json_string (of_files? of_files: tasks_reading_mode (self->options.tasks, true)));
    json_object_set_new (status, "draining", json_boolean (broker_is_draining (self->options.broker)));
    json_object_set_new (status, "gathering",
        admission_status (self->admission, sees_all? NULL: caller->tenant, now_ms));
    json_object_set_new (status, "long_tasks",
        tasks_long_status (self->options.tasks, sees_all? NULL: caller->tenant, clock_now_ms ()));
    json_object_set_new (status, "version", json_string (build_version ()));
    if (sees_all)
        s_describe_server (self, status, now_ms);
    s_describe_tenants (self, status);
    return status;
}

static json_t *
s_status (void *context, const caller_t *caller)
{
    service_t *self = context;
    return service_status (self, caller, self->now_ms);
}

//  ---- the end

static void
s_tell_end (void *context, rank_t *rank)
{
    service_t *self = context;
    connection_t *connection = rank_user (rank);
    connection->ended = true;
    outbox_send_text (self->options.router, &connection->peer, WIRE_ENDED, s_job_of (rank), 0,
        reply_ended ("stopping", "the server is ending"));
}

static void
s_end_job (void *context, job_t *job)
{
    service_t *self = context;
    broker_gone (self->options.broker, job);
}

void
service_stop (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    receiver_stop (self->receiver);
    admission_stop (self->admission);
    rank_each (self->options.broker, s_tell_end, self);
    job_each (self->options.broker, s_end_job, self);
    tasks_stop (self->options.tasks);
    tasks_collect_side_tasks (self->options.tasks);
    receiver_empty (self->receiver);        //  requests behind a JOIN with ids that were being read
    //  What jobs had.
    action_t action;
    while (broker_next (self->options.broker, &action))
        if (action.kind == ACTION_RECLAIM)
            s_reclaim (self, action.job);
        else
        if (action.kind == ACTION_RECLAIM_RANK)
            s_reclaim_rank (self, action.rank);
}
