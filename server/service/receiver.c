#include "receiver.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"
#include "connection.h"
#include "dataset_answer.h"
#include "dataset_source.h"
#include "job.h"
#include "receive_quota.h"
#include "rejection_log.h"
#include "remote_workers.h"
#include "reply.h"
#include "request_queue.h"
#include "tenant.h"

enum {
    FRAMES_MAX = WIRE_FRAMES_MAX + 1,       //  the routing id before them
    STOP_TURNS_MAX = 64,
    RECEIVE_NS = 1000000,                   //  a turn's receiving
    SLICE_NS = 2000000,                     //  a turn's serving: at least one request
    ADDING_MS = 5000,                       //  a client that waits for a data set asks again sooner
    //  The time of libzmq's thread to receive a byte: the kernel's copy, and memory that is new each time.
    RECEIVED_NS_A_BYTE = 2,
    //  While other tenants' jobs run, the queue gets one part in so many of the thread's time: a request of
    //  50 ms cannot be divided, and workers run out of tasks behind a row of them.
    REST_PARTS = 10,
    //  But no tenant waits long for work done for another: unmapping a ring of some gigabytes takes a second.
    REST_MS_MAX = 1000,
    //  A larger frame is not copied.  A smaller one shares a buffer of ZeroMQ's with others, all of which
    //  would be kept with it.
    COPIED_BYTES_MAX = 8192,
    AUTOMATIC_ID_BYTES = 5                  //  of a routing id that ZeroMQ gave: a zero, and four more
};

//  One message from a client, with its user and connection: lent by the socket, or kept until its turn comes.
typedef struct inbound_message {
    waiting_t waiting;          //  first, so that it leads back here; of a kept message
    peer_t peer;
    caller_t caller;
    wire_head_t head;
    const frame_t *frames;      //  with the head's
    size_t count;
    zmq_msg_t *held;            //  of a kept message: the frames that were not copied
    size_t held_count;
} inbound_message_t;

struct receiver {
    receiver_options_t options;
    bool is_stopping;
    bool ends_now;              //  an operator has asked for it
    int64_t adding_until_ms;    //  a client waits for a data set that is being added
    //  requests that wait
    request_queue_t *request_queue;
    join_t *reading [BROKER_TENANTS_MAX];       //  for each tenant, the JOIN with ids that a worker reads,
                                //  NULL: none; it is held at the head of its tenant's line
    inbound_message_t *stuck;   //  with one tenant: a message that found the queue full; nothing is received
                                //  until it is in
    int64_t resting_until_ms;   //  no request is taken from the queue before
    uint64_t rest_ns;           //  still to be paused: less than a millisecond
    uint64_t reclaimed_ns;      //  charged for reclaims so far
    //  refusals
    error_rate_limit_t error_rate_limit;
    rejection_log_t *rejection_log;
    uint64_t dropped [REJECTION_LOG_LINES_MAX];     //  that were not sent, by tenant
    uint64_t ignored, strangers;        //  messages of another protocol, or of callers without a tenant
};

static int64_t
s_now_ms (const receiver_t *self)
{
    return *self->options.now_ms;
}

//  ---- a message that is kept

static bool
s_is_copied (const frame_t *frame, const zmq_msg_t *messages)
{
    return !messages || frame->size <= COPIED_BYTES_MAX;
}

//  A copy that lives until s_destroy.  messages (or NULL) are the ZeroMQ messages of the frames, in their
//  order: large ones are moved out of them.  NULL: no memory.
static inbound_message_t *
s_keep (const inbound_message_t *inbound, zmq_msg_t *messages)
{
    size_t held = 0, bytes = 0;
    for (size_t index = 0; index < inbound->count; index++) {
        bool is_copied = s_is_copied (&inbound->frames [index], messages);
        bytes += is_copied? inbound->frames [index].size: 0;
        held += !is_copied;
    }
    //  One block: the message, its held ZeroMQ messages, its frames, their bytes.
    inbound_message_t *kept = malloc (sizeof *kept + held * sizeof *kept->held
        + inbound->count * sizeof *kept->frames + bytes);
    if (!kept)
        return NULL;
    *kept = *inbound;
    kept->held = (zmq_msg_t *) (void *) (kept + 1);
    kept->held_count = 0;
    frame_t *frames = (frame_t *) (void *) (kept->held + held);
    uint8_t *at = (uint8_t *) (frames + inbound->count);
    for (size_t index = 0; index < inbound->count; index++) {
        const frame_t *frame = &inbound->frames [index];
        if (s_is_copied (frame, messages)) {
            if (frame->size > 0)
                memcpy (at, frame->data, frame->size);
            frames [index] = (frame_t) { at, frame->size };
            at += frame->size;
            continue;
        }
        zmq_msg_t *message = &kept->held [kept->held_count++];
        zmq_msg_init (message);
        zmq_msg_move (message, &messages [index]);
        frames [index] = (frame_t) { zmq_msg_data (message), frame->size };
    }
    assert (kept->held_count == held);
    kept->frames = frames;
    return kept;
}

//  Frees the frames of a kept message early, so that the time for it is not the broker's thread's.  Any
//  thread.
static void
s_drop_frames (inbound_message_t *inbound)
{
    while (inbound->held_count > 0)
        zmq_msg_close (&inbound->held [--inbound->held_count]);
    inbound->frames = NULL;
    inbound->count = 0;
}

static void
s_destroy (inbound_message_t **inbound_p)
{
    inbound_message_t *inbound = *inbound_p;
    if (!inbound)
        return;
    s_drop_frames (inbound);
    free (inbound);
    *inbound_p = NULL;
}

//  The bytes that keeping it takes.
static size_t
s_bytes (const inbound_message_t *inbound)
{
    size_t bytes = sizeof *inbound;
    for (size_t index = 0; index < inbound->count; index++)
        bytes += sizeof *inbound->frames + sizeof *inbound->held + inbound->frames [index].size;
    return bytes;
}

//  A key of the connection and its caller: two connections hardly ever have the same.
static uint64_t
s_connection (const inbound_message_t *inbound)
{
    //  FNV-1a: a request with a colliding key only waits a little longer than it must.
    uint64_t hash = UINT64_C (0xcbf29ce484222325) ^ inbound->caller.user;
    for (size_t at = 0; at < inbound->peer.size; at++)
        hash = (hash ^ inbound->peer.bytes [at]) * UINT64_C (0x100000001b3);
    return hash ^ tenant_number (inbound->caller.tenant);
}

//  ---- its life

receiver_t *
receiver_new (const receiver_options_t *options)
{
    receiver_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    self->rejection_log = rejection_log_new (options->log);
    self->request_queue = request_queue_new ();
    if (!self->rejection_log || !self->request_queue)
        receiver_destroy (&self);
    return self;
}

static bool
s_is_any (void *context, const waiting_t *waiting)
{
    (void) context, (void) waiting;
    return true;
}

static void
s_drop_requests (receiver_t *self)
{
    for (waiting_t *waiting; (waiting = request_queue_take_if (self->request_queue, s_is_any, NULL)); ) {
        inbound_message_t *inbound = (inbound_message_t *) waiting;
        s_destroy (&inbound);
    }
    s_destroy (&self->stuck);
}

void
receiver_destroy (receiver_t **self_p)
{
    receiver_t *self = *self_p;
    if (!self)
        return;
    if (self->request_queue)
        s_drop_requests (self);
    request_queue_destroy (&self->request_queue);
    rejection_log_destroy (&self->rejection_log);
    free (self);
    *self_p = NULL;
}

void
receiver_check (const receiver_t *self)
{
    request_queue_check (self->request_queue);
}

//  ---- this thread's time

uint64_t
receiver_nanoseconds (const receiver_t *self)
{
    if (self->options.nanoseconds)
        return self->options.nanoseconds (self->options.clock);
    return clock_thread_ns ();
}

//  Without reclaims, which are charged separately: for the difference between two calls.
static uint64_t
s_unreclaimed_ns (const receiver_t *self)
{
    return receiver_nanoseconds (self) - self->reclaimed_ns;
}

//  Of the tenant's line in the queue.
static uint32_t
s_weight (const receiver_t *self, const tenant_t *tenant)
{
    return (uint32_t) tenant_share (self->options.broker, tenant, 1 << 20);
}

//  Whether another tenant has a job.
typedef struct {
    const tenant_t *tenant;
    bool found;
} others_t;

static void
s_look_for_others (void *context, job_t *job)
{
    others_t *others = context;
    others->found = others->found || job_tenant (job) != others->tenant;
}

//  Charges so much of this thread's time to the tenant, because it held up the others.  Pauses the queue, if
//  its work has held up other tenants.
static void
s_charge (receiver_t *self, const tenant_t *tenant, uint64_t nanoseconds)
{
    request_queue_charge (self->request_queue, tenant_number (tenant), s_weight (self, tenant), nanoseconds);
    others_t others = { .tenant = tenant };
    if (tenant_total (self->options.broker) > 1)
        job_each (self->options.broker, s_look_for_others, &others);
    if (!others.found)
        return;
    //  Times below a millisecond add up: many small requests cost as much as a large one.
    self->rest_ns += nanoseconds * (REST_PARTS - 1);
    int64_t now_ms = s_now_ms (self);
    int64_t from_ms = self->resting_until_ms > now_ms? self->resting_until_ms: now_ms;
    int64_t until_ms = from_ms + (int64_t) (self->rest_ns / 1000000);
    self->resting_until_ms = until_ms < now_ms + REST_MS_MAX? until_ms: now_ms + REST_MS_MAX;
    self->rest_ns %= 1000000;
}

void
receiver_charge_reclaim (receiver_t *self, const tenant_t *tenant, uint64_t nanoseconds)
{
    self->reclaimed_ns += nanoseconds;
    s_charge (self, tenant, nanoseconds);
}

//  ---- refusing

void
receiver_count_refusal (receiver_t *self, const caller_t *caller, const refusal_t *refusal)
{
    rejection_log_one_t one = { .tenant = tenant_number (caller->tenant),
        .name = tenant_label (self->options.broker, caller->tenant),
        .user = caller->user, .code = refusal->code, .message = refusal->message };
    rejection_log_add (self->rejection_log, &one, s_now_ms (self));
}

//  Counts and logs a refusal, and answers it if the caller is below its limit of errors.
static void
s_refuse (receiver_t *self, const inbound_message_t *inbound, const refusal_t *refusal)
{
    const caller_t *caller = &inbound->caller;
    int64_t now_ms = s_now_ms (self);
    rejection_log_one_t one = { .tenant = caller->tenant? tenant_number (caller->tenant):
        REJECTION_LOG_NOBODY,
        .name = caller->tenant? tenant_label (self->options.broker, caller->tenant): NULL,
        .user = caller->user, .code = refusal->code, .message = refusal->message };
    //  A client that leaves a job which the server has just ended does nothing wrong.
    if (inbound->head.kind != WIRE_LEAVE || strcmp (refusal->code, "unknown_job") != 0)
        rejection_log_add (self->rejection_log, &one, now_ms);
    if (!rejection_log_take_answer (&self->error_rate_limit, one.tenant, caller->user,
        now_ms > 0? now_ms: 1)) {
        self->dropped [one.tenant]++;
        return;
    }
    //  A failed send is ignored: it is the peer's problem.
    outbox_send_text (self->options.router, &inbound->peer, WIRE_ERROR, inbound->head.job, inbound->head.tag,
        reply_error (refusal->code, refusal->message));
}

//  Always false.
static bool
s_refuse_stopping (refusal_t *refusal)
{
    return refuse (refusal, "stopping", "the server is ending");
}

static bool
s_refuse_revoked (refusal_t *refusal)
{
    return refuse (refusal, "revoked", "this key is not served any more");
}

//  The counter for answers to this connection; NULL: refused, because it does not read its answers.
static atomic_size_t *
s_account (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    const tenant_t *tenant = inbound->caller.tenant;
    atomic_size_t *account = outbox_backlog_account (self->options.backlog, &inbound->peer,
        tenant_number (tenant),
        (size_t) tenant_share (self->options.broker, tenant, OUTBOX_BACKLOG_ACCOUNTS_MAX));
    if (!account)
        refuse (refusal, "busy", "answers of before have not been read: read them first");
    return account;
}

//  ---- JOIN

//  JOIN: from the request queue to admission.h.
//
//  happy path:     the request is checked; its ids are read; a job.  If there are many ids a worker reads
//                  them, as a side task of the tenant's.  Meanwhile the JOIN is held at the head of its
//                  tenant's line, so that a tenant has only one in work, and none of its requests overtakes
//                  another.
//  failure modes:  refused at any step.  Its key is revoked while the ids are read: refused afterwards.
//  on close:       a JOIN with ids that are being read is refused: `stopping`.

//  In a worker, which also frees the ids' bytes: that takes as long as reading them.
static void
s_read (side_task_t *side_task, decoder_t *decoder)
{
    (void) decoder;
    join_t *join = (join_t *) side_task;
    join->ids_refused = !join_read (join, join->message->frames, &join->refusal);
    s_drop_frames (join->message);
}

//  Takes the join over.
static bool
s_go_on (receiver_t *self, join_t *join, bool was_read, refusal_t *refusal)
{
    *refusal = join->refusal;
    bool good = was_read? !join->ids_refused: s_refuse_stopping (refusal);
    if (good && self->is_stopping)
        good = s_refuse_stopping (refusal);
    if (good && join->is_revoked)
        good = s_refuse_revoked (refusal);
    if (good)
        return admission_join (self->options.admission, join, NULL, s_now_ms (self), refusal);
    join_destroy (&join);
    return false;
}

static void
s_done (side_task_t *side_task)
{
    receiver_t *self = side_task->context;
    join_t *join = (join_t *) side_task;
    inbound_message_t *inbound = join->message;
    join->message = NULL;
    const tenant_t *tenant = inbound->caller.tenant;
    refusal_t refusal;
    uint64_t begin = s_unreclaimed_ns (self);
    assert (self->reading [tenant_number (tenant)] == join);
    self->reading [tenant_number (tenant)] = NULL;
    request_queue_release (self->request_queue, &inbound->waiting);
    if (!s_go_on (self, join, side_task->was_done, &refusal))
        s_refuse (self, inbound, &refusal);
    s_destroy (&inbound);
    s_charge (self, tenant, s_unreclaimed_ns (self) - begin);
}

static void
s_let_read (receiver_t *self, inbound_message_t *inbound, join_t *join)
{
    tenant_t *tenant = join->caller.tenant;
    join->message = inbound;
    join->side_task = (side_task_t) { .work = s_read, .done = s_done, .context = self };
    assert (!self->reading [tenant_number (tenant)]);
    self->reading [tenant_number (tenant)] = join;
    request_queue_hold (self->request_queue, &inbound->waiting);
    tasks_add_side_task (self->options.tasks, tenant, &join->side_task);
}

//  The message is kept, and has just been taken from the queue.  True: it was answered, or will be later
//  (a JOIN in `reading` has it: the message is not the caller's any more).  False: refusal is the answer.
static bool
s_join (receiver_t *self, inbound_message_t *inbound, refusal_t *refusal)
{
    if (self->is_stopping)
        return s_refuse_stopping (refusal);
    //  A routing id that the client chose may have been another client's: messages still on their way to that
    //  client would reach this one.
    if (inbound->peer.size != AUTOMATIC_ID_BYTES || inbound->peer.bytes [0] != 0)
        return refuse (refusal, "bad_request", "leave the DEALER's routing id unset");
    if (!s_account (self, inbound, refusal))
        return false;
    join_t *join = admission_begin (self->options.admission, inbound->frames, inbound->count, &inbound->peer,
        &inbound->caller, inbound->head.tag, s_now_ms (self), refusal);
    if (!join)
        return false;
    if (!join_is_long (join, inbound->frames))
        return admission_join (self->options.admission, join, inbound->frames, s_now_ms (self), refusal);
    s_let_read (self, inbound, join);
    return true;
}

//  JOINs being read of callers that are gone will be refused.
static void
s_revoke_reading (receiver_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context)
{
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++) {
        join_t *join = self->reading [number];
        if (join && is_gone (context, &join->caller))
            join->is_revoked = true;
    }
}

//  ---- jobs

//  The rank of the message's job, if it belongs to this connection; NULL: it does not.
static rank_t *
s_find_own (receiver_t *self, const inbound_message_t *inbound)
{
    job_t *job = job_of_id (self->options.broker, inbound->head.job);
    for (uint32_t number = 0; job && number < job_world_size (job); number++) {
        rank_t *rank = job_rank (job, number);
        if (rank_is_there (rank) && connection_is_of (rank_user (rank), &inbound->peer, &inbound->caller))
            return rank;
    }
    return NULL;
}

//  The same; refuses if there is none.
static rank_t *
s_own_rank (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    rank_t *rank = s_find_own (self, inbound);
    if (rank)
        return rank;
    //  The job may have ended in this turn; then ENDED must come first.  A client that gets this refusal
    //  without ENDED takes the server for a new one and joins again, which a fenced client must not.
    self->options.carry_out (self->options.context);
    refuse (refusal, "unknown_job", "this connection has no job %" PRIu64 " (it may have ended)",
        inbound->head.job);
    return NULL;
}

static bool
s_inline (receiver_t *self, rank_t *rank, refusal_t *refusal)
{
    connection_t *connection = rank_user (rank);
    if (connection->attached)
        return refuse (refusal, "bad_request", "the job's ring was taken already");
    if (!rank_is_inline (rank)) {
        ring_server_forget (self->options.ring_server, connection->key);
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    broker_inline (self->options.broker, rank, s_now_ms (self));
    return true;
}

static void
s_leave (receiver_t *self, const inbound_message_t *inbound, rank_t *rank)
{
    connection_label_t label;
    connection_label (self->options.broker, rank, NULL, &label);
    log_event (self->options.log, LOG_LEVEL_INFO, "left", label.fields, "%s left", label.text);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_ENDED, job_id (rank_job (rank)),
        inbound->head.tag, reply_ended ("left", "the job has left"));
    broker_left (self->options.broker, rank);
}

static bool
s_of_job (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    broker_t *broker = self->options.broker;
    rank_t *rank = s_own_rank (self, inbound, refusal);
    if (!rank)
        return false;
    broker_heartbeat (broker, rank, s_now_ms (self));       //  any message shows that the client lives
    wire_progress_t progress;
    switch (inbound->head.kind) {
    case WIRE_PROGRESS:
        return request_progress (&inbound->frames [1], &progress, refusal)
            && broker_progress (broker, rank, &progress, s_now_ms (self), refusal);
    case WIRE_INLINE:
        return s_inline (self, rank, refusal);
    case WIRE_LEAVE:
        s_leave (self, inbound, rank);
        return true;
    case WIRE_EXPLAIN:
        return s_account (self, inbound, refusal)
            && explaining_begin (self->options.explaining, rank_job (rank), &inbound->peer,
                inbound->head.tag, &inbound->frames [1], s_now_ms (self), refusal);
    default:
        return true;
    }
}

//  ---- requests without a job

static bool
s_status (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    atomic_size_t *account = s_account (self, inbound, refusal);
    if (!account || !request_status (&inbound->frames [1], refusal))
        return false;
    json_t *status = self->options.status (self->options.context, &inbound->caller);
    char *text = json_dumps (status, JSON_COMPACT);
    json_decref (status);
    rank_t *rank = s_find_own (self, inbound);
    if (rank)
        broker_heartbeat (self->options.broker, rank, s_now_ms (self));     //  any message shows that the
                                                                            //  client lives
    if (text)
        outbox_send_counted (self->options.router, &inbound->peer, WIRE_STATUS_REPLY,
            rank? inbound->head.job: 0, inbound->head.tag, text, account);
    return true;
}

//  Answers what a data set is, or a part of one of its tables.
static bool
s_dataset (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    request_table_t request;
    dataset_table_t table;
    atomic_size_t *account = s_account (self, inbound, refusal);
    if (!account || !request_table (&inbound->frames [1], &request, refusal))
        return false;
    const dataset_t *dataset = join_find_dataset (self->options.broker, self->options.additions,
        &inbound->caller, request.dataset, *request.path? request.path: NULL, refusal);
    if (!dataset || !dataset_answer_table (dataset_source_of (dataset)->catalogue, &request, &table, refusal))
        return false;
    void *router = self->options.router;
    uint64_t tag = inbound->head.tag;
    char *text = dataset_answer_text (dataset_source_of (dataset)->catalogue, &request, &table);
    if (table.bytes)
        outbox_send_bytes (router, &inbound->peer, WIRE_DATASET_REPLY, tag, text, table.bytes, table.size,
            account);
    else
        outbox_send_counted (router, &inbound->peer, WIRE_DATASET_REPLY, 0, tag, text, account);
    return true;
}

//  No new jobs and no new epochs from now on; the server's loop ends when the last job has gone, or now: then
//  it drains for as long as its end takes.
static bool
s_drain (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    bool now;
    if (!request_drain (&inbound->frames [1], &now, refusal))
        return false;
    if (!inbound->caller.is_operator)
        return refuse (refusal, "forbidden", "only an operator may drain the server, or end it");
    if (now && !self->ends_now)
        log_event (self->options.log, LOG_LEVEL_NOTICE, "ending", LOG_FIELDS (LOG_TEXT ("reason", "stopped")),
            "an operator ends the server (tureen stop), and its jobs with it");
    self->ends_now = self->ends_now || now;
    uint64_t jobs = broker_jobs (self->options.broker, NULL);
    if (!now && !broker_is_draining (self->options.broker))
        log_event (self->options.log, LOG_LEVEL_NOTICE, "draining", LOG_FIELDS (LOG_NUMBER ("jobs", jobs)),
            "draining: no new jobs and no new epochs; %" PRIu64 " job%s left", jobs, jobs == 1? " is":
            "s are");
    broker_drain (self->options.broker);
    admission_drain (self->options.admission);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_DRAINING, 0, inbound->head.tag,
        reply_draining (broker_jobs (self->options.broker, NULL)
        + admission_count (self->options.admission, NULL)));
    return true;
}

//  ---- ADD and REMOVE

//  Whether the caller may change which data sets there are, now.
static bool
s_may_change (const receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    if (!inbound->caller.is_operator)
        return refuse (refusal, "forbidden", "only an operator may add data sets, or remove them");
    if (!self->options.additions)
        return refuse (refusal, "unsupported", "this server's data sets are those that it began with");
    if (self->is_stopping || self->ends_now || broker_is_draining (self->options.broker))
        return s_refuse_stopping (refusal);
    return true;
}

//  The client asks again, with the same words, until the data sets are ready.
static bool
s_add (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    request_add_t add;
    if (inbound->caller.is_operator && !inbound->caller.may_add)
        return refuse (refusal, "forbidden", "every program that reaches this server is its operator "
            "(--open), and could have it read any file: start it without --open, on ipc or with --keys, to "
            "add data sets");
    atomic_size_t *account = s_account (self, inbound, refusal);
    if (!account || !s_may_change (self, inbound, refusal)
        || !request_add (&inbound->frames [1], &add, refusal))
        return false;
    const char *text;
    additions_state_t state = additions_add (self->options.additions, add.words, add.count, &text, refusal);
    request_add_clear (&add);
    if (state == ADDITIONS_REFUSED)
        return false;
    self->adding_until_ms = state == ADDITIONS_OPENING? s_now_ms (self) + ADDING_MS: 0;
    outbox_send_counted (self->options.router, &inbound->peer, WIRE_ADDING, 0, inbound->head.tag,
        reply_adding (state == ADDITIONS_READY, text), account);
    return true;
}

//  The jobs to come on the data set: those that wait for ranks, and those of which a worker reads the ids.
static size_t
s_waiting_on (const receiver_t *self, const dataset_t *dataset)
{
    size_t count = admission_count_on (self->options.admission, dataset);
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++)
        count += self->reading [number] && self->reading [number]->terms.dataset == dataset;
    return count;
}

static bool
s_is_on (void *context, const join_t *join)
{
    return join->terms.dataset == context;
}

//  The broker refuses a JOIN of which a worker reads the ids when they are read.
static bool
s_remove (receiver_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    request_remove_t request;
    if (!s_may_change (self, inbound, refusal)
        || !request_remove (&inbound->frames [1], &request, refusal))
        return false;
    dataset_t *dataset = dataset_named (self->options.broker, NULL, request.dataset);
    size_t waiting = dataset? s_waiting_on (self, dataset): 0, jobs = dataset? dataset_jobs (dataset): 0;
    if (!additions_remove (self->options.additions, request.dataset, request.now, waiting, refusal))
        return false;
    refusal_t removed;
    refuse (&removed, "removed", "data set '%s' was removed from the server", request.dataset);
    if (dataset)
        admission_forget (self->options.admission, s_is_on, dataset, &removed);
    self->options.carry_out (self->options.context);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_REMOVED, 0, inbound->head.tag,
        reply_removed (jobs + waiting));
    return true;
}

static void
s_answer (receiver_t *self, inbound_message_t *inbound)
{
    refusal_t refusal = { .code = NULL };
    bool good;
    switch (inbound->head.kind) {
    case WIRE_JOIN:
        good = s_join (self, inbound, &refusal);
        break;
    case WIRE_EXPLAIN:
        good = self->is_stopping? s_refuse_stopping (&refusal): s_of_job (self, inbound, &refusal);
        break;
    case WIRE_STATUS:
        good = s_status (self, inbound, &refusal);
        break;
    case WIRE_DATASET:
        good = s_dataset (self, inbound, &refusal);
        break;
    case WIRE_DRAIN:
        good = s_drain (self, inbound, &refusal);
        break;
    case WIRE_ADD:
        good = s_add (self, inbound, &refusal);
        break;
    case WIRE_REMOVE:
        good = s_remove (self, inbound, &refusal);
        break;
    default:
        good = s_of_job (self, inbound, &refusal);
    }
    if (!good)
        s_refuse (self, inbound, &refusal);
}

//  ---- requests that wait

//  Measures the work and charges it to the request's tenant; reclaims in between are charged already.
static void
s_answer_measured (receiver_t *self, inbound_message_t *inbound)
{
    uint64_t begin = s_unreclaimed_ns (self);
    s_answer (self, inbound);
    s_charge (self, inbound->caller.tenant, s_unreclaimed_ns (self) - begin);
}

//  False: no request waits.
static bool
s_serve_one (receiver_t *self)
{
    inbound_message_t *inbound = (inbound_message_t *) request_queue_take (self->request_queue);
    if (!inbound)
        return false;
    const tenant_t *tenant = inbound->caller.tenant;
    uint64_t received_ns = inbound->waiting.bytes * RECEIVED_NS_A_BYTE;
    s_answer_measured (self, inbound);
    s_charge (self, tenant, received_ns);
    const join_t *reading = self->reading [tenant_number (tenant)];
    if (!reading || reading->message != inbound)
        s_destroy (&inbound);
    return true;
}

//  The message that found the queue full enters as soon as there is room; requests are served for that,
//  unless the ids of the first are being read.
static void
s_let_in (receiver_t *self)
{
    while (self->stuck) {
        const tenant_t *tenant = self->stuck->caller.tenant;
        waiting_t *refused = request_queue_put (self->request_queue, tenant_number (tenant),
            s_weight (self, tenant), &self->stuck->waiting);
        self->stuck = (inbound_message_t *) refused;
        if (refused && !s_serve_one (self))
            return;
    }
}

bool
receiver_is_full (const receiver_t *self)
{
    return self->stuck;
}

void
receiver_serve (receiver_t *self)
{
    s_let_in (self);
    if (s_now_ms (self) < self->resting_until_ms)
        return;
    uint64_t begin = receiver_nanoseconds (self);
    while (s_serve_one (self) && receiver_nanoseconds (self) - begin < SLICE_NS);
}

void
receiver_empty (receiver_t *self)
{
    s_let_in (self);
    while (s_serve_one (self));
}

static void
s_let_wait (receiver_t *self, const inbound_message_t *inbound, zmq_msg_t *messages)
{
    inbound_message_t *kept = s_keep (inbound, messages);
    refusal_t refusal;
    if (!kept) {
        refuse (&refusal, "busy", "no memory for the request: try again in a moment");
        s_refuse (self, inbound, &refusal);
        return;
    }
    const tenant_t *tenant = inbound->caller.tenant;
    kept->waiting = (waiting_t) { .connection = s_connection (inbound),
        .bytes = s_bytes (inbound),
        .is_first = inbound->head.kind == WIRE_JOIN };
    waiting_t *refused = request_queue_put (self->request_queue, tenant_number (tenant),
        s_weight (self, tenant), &kept->waiting);
    inbound_message_t *loser = (inbound_message_t *) refused;
    //  With one tenant no other tenant is hurt if messages wait in the socket, behind this one.
    if (loser && tenant_total (self->options.broker) == 1 && !self->stuck) {
        self->stuck = loser;
        s_let_in (self);
        return;
    }
    if (loser) {
        refuse (&refusal, "busy", "too many requests are waiting already: try again in a moment");
        s_refuse (self, loser, &refusal);
    }
    s_destroy (&loser);
}

//  Expensive requests wait.  So does a message that must not overtake a waiting one of its connection: any
//  message behind a JOIN, because it is about that job; and a message that ends the job behind a question.
//  PROGRESS may overtake a question, or the job would pause while its question waits.
static bool
s_must_wait (const receiver_t *self, const inbound_message_t *inbound)
{
    uint32_t line = tenant_number (inbound->caller.tenant);
    switch (inbound->head.kind) {
    case WIRE_JOIN:
    case WIRE_STATUS:
    case WIRE_EXPLAIN:
    case WIRE_DATASET:
        return true;
    case WIRE_PROGRESS:
    case WIRE_HEARTBEAT:
        return request_queue_holds_back (self->request_queue, line, s_connection (inbound));
    default:
        return request_queue_has (self->request_queue, line, s_connection (inbound));
    }
}

//  ---- workers on other machines

static bool
s_is_of_worker (const inbound_message_t *inbound)
{
    return inbound->head.kind >= WIRE_WORK_HELLO && inbound->head.kind <= WIRE_WORK_GOODBYE;
}

static bool
s_may_send (const inbound_message_t *inbound, refusal_t *refusal)
{
    const caller_t *caller = &inbound->caller;
    if (s_is_of_worker (inbound) && !caller->may_work)
        return refuse (refusal, "forbidden", caller->uid == (uid_t) -1?
            "this is no worker's key: have the server's operator allow one (tureen key allow DIR FILE "
            "--worker)":
            "only the server's own user and root may be workers here: run `tureen work` as that user, or "
            "over tcp with a worker's key");
    if (!s_is_of_worker (inbound) && caller->only_works)
        return refuse (refusal, "forbidden", "this is a worker's key, for `tureen work` alone: have the "
            "server's operator allow another one (tureen key allow DIR FILE --tenant NAME)");
    return true;
}

//  Whether the caller's role allows the message; else it is refused.
static bool
s_check_role (receiver_t *self, const inbound_message_t *inbound)
{
    refusal_t refusal;
    if (s_may_send (inbound, &refusal))
        return true;
    s_refuse (self, inbound, &refusal);
    return false;
}

//  label: of its key, or NULL.
static void
s_take_work (receiver_t *self, const inbound_message_t *inbound, const char *label)
{
    refusal_t refusal;
    remote_message_t message = { .peer = &inbound->peer, .user = inbound->caller.user, .label = label,
        .head = &inbound->head, .frames = inbound->frames, .count = inbound->count };
    if (!remote_workers_take (tasks_remote_workers (self->options.tasks), &message, s_now_ms (self),
        &refusal))
        s_refuse (self, inbound, &refusal);
}

//  ---- taking a message

static void
s_take (receiver_t *self, inbound_message_t *inbound, const receiver_message_t *message)
{
    refusal_t refusal;
    request_status_t status = request_head (inbound->frames, inbound->count, &inbound->head, &refusal);
    if (status == REQUEST_IGNORED)
        self->ignored++;
    else
    if (status == REQUEST_REFUSED)
        s_refuse (self, inbound, &refusal);
    else
    if (!s_check_role (self, inbound))
        return;
    else
    if (s_is_of_worker (inbound))
        s_take_work (self, inbound, tenants_label (self->options.tenants, message->key));
    else
    if (s_must_wait (self, inbound))
        s_let_wait (self, inbound, message->messages);
    else
    if (inbound->head.kind == WIRE_LEAVE)
        s_answer_measured (self, inbound);          //  freeing a job's memory costs as much as joining
    else
        s_answer (self, inbound);
}

//  ---- receiving

//  Whether the key was admitted when its connection was made, and has no tenant now.
static void
s_refuse_key (receiver_t *self, inbound_message_t *inbound)
{
    refusal_t refusal;
    inbound->caller = (caller_t) { .tenant = NULL, .uid = (uid_t) -1, .user = BROKER_USER_UNKNOWN };
    if (request_head (inbound->frames, inbound->count, &inbound->head, &refusal) == REQUEST_IGNORED) {
        self->ignored++;
        return;
    }
    s_refuse_revoked (&refusal);
    s_refuse (self, inbound, &refusal);
}

void
receiver_take (receiver_t *self, const receiver_message_t *message)
{
    inbound_message_t inbound = { .peer = *message->peer, .frames = message->frames,
        .count = message->count };
    if (tenants_caller (self->options.tenants, message->uid, message->key, &inbound.caller))
        s_take (self, &inbound, message);
    else
    //  On ipc no peer has a key, whatever it claims.
    if (message->key && message->uid == (uid_t) -1)
        s_refuse_key (self, &inbound);
    else
        self->strangers++;
}

//  The user at the other end: ZeroMQ names an ipc peer "host:uid:gid:pid"; a tcp peer has no uid: -1.  Take
//  the name from a frame that the peer sent: the routing id frame before it has it only if the socket was not
//  polled first (4.3.4).
static uid_t
s_peer_uid (zmq_msg_t *message)
{
    const char *address = zmq_msg_gets (message, "Peer-Address");
    unsigned uid, gid, pid;
    if (address && sscanf (address, "localhost:%u:%u:%u", &uid, &gid, &pid) == 3)
        return uid;
    return (uid_t) -1;
}

//  Receives one multipart message; frames beyond FRAMES_MAX are thrown away, and counted.  0: no message.
//  *bytes_p: of all frames but the first, which was not on the wire.
static size_t
s_receive_frames (void *router, zmq_msg_t *messages, size_t *bytes_p)
{
    size_t count = 0;
    *bytes_p = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t extra, *message = count < FRAMES_MAX? &messages [count]: &extra;
        zmq_msg_init (message);
        if (zmq_msg_recv (message, router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close (message);
            return count;
        }
        more = zmq_msg_more (message);
        *bytes_p += count > 0? zmq_msg_size (message): 0;
        if (message == &extra)
            zmq_msg_close (&extra);
    }
    return count;
}

static bool
s_receive_one (receiver_t *self)
{
    zmq_msg_t messages [FRAMES_MAX];
    frame_t frames [FRAMES_MAX];
    size_t bytes, count = s_receive_frames (self->options.router, messages, &bytes);
    if (count == 0) {
        receive_quota_settled ();
        return false;
    }
    size_t held = count < FRAMES_MAX? count: FRAMES_MAX;
    for (size_t index = 1; index < held; index++)
        frames [index - 1] = (frame_t) { zmq_msg_data (&messages [index]), zmq_msg_size (&messages [index]) };
    peer_t peer = { .size = (uint8_t) zmq_msg_size (&messages [0]) };
    memcpy (peer.bytes, zmq_msg_data (&messages [0]), peer.size);
    //  request_head refuses a message with too many frames by its count.
    if (count > 1) {
        uid_t uid = s_peer_uid (&messages [1]);
        receive_quota_taken (uid == (uid_t) -1? RECEIVE_QUOTA_REMOTE: uid,
            zmq_msg_get (&messages [1], ZMQ_SRCFD), count - 1, bytes);
        receiver_message_t message = { .peer = &peer, .uid = uid,
            .key = zmq_msg_gets (&messages [1], "User-Id"), .frames = frames, .count = count - 1,
            .messages = &messages [1] };
        receiver_take (self, &message);
    }
    for (size_t index = 0; index < held; index++)
        zmq_msg_close (&messages [index]);
    return true;
}

int
receiver_receive (receiver_t *self)
{
    int count = 0;
    uint64_t begin = receiver_nanoseconds (self);
    while (count < RECEIVER_MESSAGES_A_TURN && !self->stuck && s_receive_one (self)) {
        count++;
        if (count % 16 == 0 && receiver_nanoseconds (self) - begin > RECEIVE_NS)
            break;
    }
    receiver_serve (self);
    return count;
}

//  ---- revoked keys

typedef struct {
    receiver_t *receiver;
    bool (*is_gone) (void *context, const caller_t *caller);
    void *context;
    size_t count;
} revoking_t;

static bool
s_is_gone (void *context, const waiting_t *waiting)
{
    const revoking_t *revoking = context;
    return revoking->is_gone (revoking->context, &((const inbound_message_t *) waiting)->caller);
}

static void
s_forget_requests (receiver_t *self, revoking_t *revoking)
{
    refusal_t refusal;
    s_refuse_revoked (&refusal);
    s_revoke_reading (self, revoking->is_gone, revoking->context);
    for (waiting_t *waiting; (waiting = request_queue_take_if (self->request_queue, s_is_gone, revoking)); ) {
        inbound_message_t *inbound = (inbound_message_t *) waiting;
        s_refuse (self, inbound, &refusal);
        s_destroy (&inbound);
    }
    if (self->stuck && s_is_gone (revoking, &self->stuck->waiting)) {
        s_refuse (self, self->stuck, &refusal);
        s_destroy (&self->stuck);
    }
}

static bool
s_has_joined_with (void *context, const join_t *join)
{
    const revoking_t *revoking = context;
    return revoking->is_gone (revoking->context, &join->caller);
}

static bool
s_is_worker_gone (void *context, uint64_t user)
{
    const revoking_t *revoking = context;
    //  A worker without a key has the number of its uid.
    caller_t caller = { .user = user, .uid = user < CLIENT_KEYS_USER_FIRST? (uid_t) user: (uid_t) -1 };
    return user != BROKER_USER_UNKNOWN && revoking->is_gone (revoking->context, &caller);
}

static void
s_revoke (void *context, rank_t *rank)
{
    revoking_t *revoking = context;
    const connection_t *connection = rank_user (rank);
    job_t *job = rank_job (rank);
    if (job_is_over (job) || !revoking->is_gone (revoking->context, &connection->caller))
        return;
    revoking->count++;
    broker_end (revoking->receiver->options.broker, job, "revoked", "the key of its client was revoked");
}

size_t
receiver_revoke (receiver_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context)
{
    revoking_t revoking = { .receiver = self, .is_gone = is_gone, .context = context };
    s_forget_requests (self, &revoking);
    refusal_t refusal;
    refuse (&refusal, "revoked", "the key of its client was revoked");
    admission_forget (self->options.admission, s_has_joined_with, &revoking, &refusal);
    remote_workers_revoke (tasks_remote_workers (self->options.tasks), s_is_worker_gone, &revoking,
        s_now_ms (self));
    rank_each (self->options.broker, s_revoke, &revoking);
    self->options.carry_out (self->options.context);
    return revoking.count;
}

//  ---- what the service asks

int64_t
receiver_wakeup (const receiver_t *self)
{
    return request_queue_has_next (self->request_queue)? self->resting_until_ms: INT64_MAX;
}

bool
receiver_is_adding (const receiver_t *self)
{
    return s_now_ms (self) < self->adding_until_ms
        || (self->options.additions && additions_is_busy (self->options.additions));
}

bool
receiver_ends_now (const receiver_t *self)
{
    return self->ends_now;
}

bool
receiver_is_stopping (const receiver_t *self)
{
    return self->is_stopping;
}

void
receiver_beat (receiver_t *self)
{
    rejection_log_beat (self->rejection_log, s_now_ms (self));
}

static void
s_put (json_t *object, const char *key, uint64_t number)
{
    json_object_set_new (object, key, json_integer ((json_int_t) number));
}

void
receiver_describe_tenant (const receiver_t *self, json_t *object, const tenant_t *tenant)
{
    uint32_t number = tenant_number (tenant);
    json_object_set_new (object, "refusals", rejection_log_status (self->rejection_log, number));
    s_put (object, "unanswered", self->dropped [number]);
    s_put (object, "waiting_requests", request_queue_line_count (self->request_queue, number));
}

void
receiver_describe (const receiver_t *self, json_t *object)
{
    uint64_t unanswered = 0;
    for (size_t number = 0; number < REJECTION_LOG_LINES_MAX; number++)
        unanswered += self->dropped [number];
    json_object_set_new (object, "refusals",
        rejection_log_status (self->rejection_log, REJECTION_LOG_LINES_MAX));
    s_put (object, "unanswered", unanswered);
    s_put (object, "ignored", self->ignored);
    s_put (object, "strangers", self->strangers);
    s_put (object, "waiting_requests", request_queue_count (self->request_queue));
    s_put (object, "waiting_request_bytes", request_queue_bytes (self->request_queue));
}

//  ---- the end

void
receiver_stop (receiver_t *self)
{
    self->is_stopping = true;
    //  Progress and leaves that came just before; bounded, because a client may send without end.
    for (int turn = 0; turn < STOP_TURNS_MAX && receiver_receive (self) > 0; turn++);
    receiver_empty (self);
}
