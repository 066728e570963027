//  What clients ask: from the socket to the answer.
//
//  happy path:     a message is received, its caller found, its head read.  A cheap request is served at
//                  once, and so are an operator's (DRAIN, ADD, REMOVE).  An expensive one (JOIN, STATUS,
//                  EXPLAIN, DATASET) waits in the queue, and so does any message that must not overtake it;
//                  the queue is served by weight over tenants, a slice of time each turn.
//  failure modes:  a caller without a tenant, or a message without our magic, gets no answer.  A line that is
//                  full: `busy`.  More errors than a user's limit: counted, not answered.
//  on close:       the queue is emptied: each request gets its answer, a JOIN `stopping`.

#include "service_state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>
#include "dataset_table.h"
#include "job.h"
#include "join.h"
#include "outbox.h"
#include "receive_quota.h"
#include "remote_workers.h"
#include "reply.h"
#include "source.h"
#include "tenant.h"

//  ---- JOIN

//  JOIN: from the request queue to arrivals.h.
//
//  happy path:     the request is checked; its ids are read; a job.  If there are many ids a worker reads
//                  them, as a side job of the tenant's.  Meanwhile the JOIN is held at the head of its
//                  tenant's line, so that a tenant has only one in work, and none of its requests overtakes
//                  another.
//  failure modes:  refused at any step.  Its key is revoked while the ids are read: refused afterwards.
//  on close:       a JOIN with ids that are being read is refused: `stopping`.

enum { AUTOMATIC_ID_BYTES = 5 };            //  of a routing id that ZeroMQ gave: a zero, and four more

//  In a worker, which also frees the ids' bytes: that takes as long as reading them.
static void
s_read (side_task_t *side_task, decoder_t *decoder)
{
    (void) decoder;
    join_t *join = (join_t *) side_task;
    join->ids_refused = !join_read (join, join->message->frames, &join->refusal);
    inbound_message_drop_frames (join->message);
}

//  Takes the join over.
static bool
s_go_on (service_t *self, join_t *join, bool was_read, refusal_t *refusal)
{
    *refusal = join->refusal;
    bool good = was_read? !join->ids_refused: service_refuse_stopping (refusal);
    if (good && self->stopping)
        good = service_refuse_stopping (refusal);
    if (good && join->is_revoked)
        good = service_refuse_revoked (refusal);
    if (good)
        return arrivals_join (self->arrivals, join, self->now_ms, refusal);
    join_destroy (&join);
    return false;
}

static void
s_done (side_job_t *side_job, bool was_read)
{
    service_t *self = side_job->context;
    join_t *join = (join_t *) side_job;
    inbound_message_t *inbound = join->message;
    join->message = NULL;
    const tenant_t *tenant = inbound->caller.tenant;
    refusal_t refusal;
    uint64_t begin = service_unreclaimed_ns (self);
    assert (self->reading [tenant_number (tenant)] == join);
    self->reading [tenant_number (tenant)] = NULL;
    request_queue_release (self->request_queue, &inbound->waiting);
    if (!s_go_on (self, join, was_read, &refusal))
        service_refuse (self, inbound, &refusal);
    inbound_message_destroy (&inbound);
    service_charge (self, tenant, service_unreclaimed_ns (self) - begin);
}

static void
s_let_read (service_t *self, inbound_message_t *inbound, join_t *join)
{
    tenant_t *tenant = join->caller.tenant;
    join->message = inbound;
    join->side_job = (side_job_t) { .side_task = { .work = s_read }, .done = s_done, .context = self };
    assert (!self->reading [tenant_number (tenant)]);
    self->reading [tenant_number (tenant)] = join;
    request_queue_hold (self->request_queue, &inbound->waiting);
    side_jobs_add (self->side_jobs, tenant, &join->side_job);
}

//  Clients ask again: it is there in a moment, or is left out.
static bool
s_is_open (const service_t *self, const caller_t *caller, const char *name, refusal_t *refusal)
{
    return !self->options.additions || !additions_awaits (self->options.additions, caller->tenant, name)
        || refuse (refusal, "opening", "data set '%s' is being opened again: the server was started again "
            "a moment ago", name);
}

//  The message is kept, and has just been taken from the queue.  True: it was answered, or will be later
//  (a JOIN in `reading` has it: the message is not the caller's any more).  False: refusal is the answer.
static bool
s_join (service_t *self, inbound_message_t *inbound, refusal_t *refusal)
{
    if (self->stopping)
        return service_refuse_stopping (refusal);
    //  A routing id that the client chose may have been another client's: messages still on their way to that
    //  client would reach this one.
    if (inbound->peer.size != AUTOMATIC_ID_BYTES || inbound->peer.bytes [0] != 0)
        return refuse (refusal, "bad_request", "leave the DEALER's routing id unset");
    if (!service_account (self, inbound, refusal)
        || !arrivals_is_free (self->arrivals, &inbound->peer, &inbound->caller, refusal))
        return false;
    join_t *join = join_new (inbound->frames, inbound->count, &inbound->peer, &inbound->caller,
        inbound->head.tag, refusal);
    bool good = join && s_is_open (self, &inbound->caller, join->request.dataset, refusal)
        && arrivals_begin (self->arrivals, join, self->now_ms, refusal);
    if (good && join_is_long (join, inbound->frames)) {
        s_let_read (self, inbound, join);
        return true;
    }
    if (good && join_read (join, inbound->frames, refusal))
        return arrivals_join (self->arrivals, join, self->now_ms, refusal);
    join_destroy (&join);
    return false;
}

//  JOINs being read of callers that are gone will be refused.
static void
s_revoke_reading (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context)
{
    for (size_t number = 0; number < BROKER_TENANTS_MAX; number++) {
        join_t *join = self->reading [number];
        if (join && is_gone (context, &join->caller))
            join->is_revoked = true;
    }
}


//  ---- messages

enum {
    FRAMES_MAX = WIRE_FRAMES_MAX + 1,       //  the routing id before them
    STOP_TURNS_MAX = 64,
    RECEIVE_NS = 1000000,                   //  a turn's receiving
    SLICE_NS = 2000000,                     //  a turn's serving: at least one request
    ADDING_MS = 5000,                       //  a client that waits for a data set asks again sooner
    //  The time of libzmq's thread to receive a byte: the kernel's copy, and memory that is new each time.
    RECEIVED_NS_A_BYTE = 2
};

//  ---- jobs

//  The rank of the message's job, if it belongs to this connection; NULL: it does not.
static rank_t *
s_find_own (service_t *self, const inbound_message_t *inbound)
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
s_own_rank (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    rank_t *rank = s_find_own (self, inbound);
    if (rank)
        return rank;
    //  The job may have ended in this turn; then ENDED must come first.  A client that gets this refusal
    //  without ENDED takes the server for a new one and joins again, which a fenced client must not.
    service_carry_out_all (self);
    refuse (refusal, "unknown_job", "this connection has no job %" PRIu64 " (it may have ended)",
        inbound->head.job);
    return NULL;
}

static bool
s_inline (service_t *self, rank_t *rank, refusal_t *refusal)
{
    connection_t *connection = rank_user (rank);
    if (connection->attached)
        return refuse (refusal, "bad_request", "the job's ring was taken already");
    if (!rank_is_inline (rank)) {
        ring_server_forget (self->options.ring_server, connection->key);
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    broker_inline (self->options.broker, rank, self->now_ms);
    return true;
}

static void
s_leave (service_t *self, const inbound_message_t *inbound, rank_t *rank)
{
    service_label_t label;
    service_label (self, rank, NULL, &label);
    log_event (self->options.log, LOG_LEVEL_INFO, "left", label.fields, "%s left", label.text);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_ENDED, job_id (rank_job (rank)),
        inbound->head.tag, reply_ended ("left", "the job has left"));
    broker_left (self->options.broker, rank);
}

static bool
s_explain (service_t *self, const inbound_message_t *inbound, rank_t *rank, refusal_t *refusal)
{
    return service_account (self, inbound, refusal)
        && explaining_begin (self->explaining, rank_job (rank), &inbound->peer, inbound->head.tag,
            &inbound->frames [1], refusal);
}

static bool
s_of_job (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    broker_t *broker = self->options.broker;
    rank_t *rank = s_own_rank (self, inbound, refusal);
    if (!rank)
        return false;
    broker_heartbeat (broker, rank, self->now_ms);      //  any message shows that the client lives
    wire_progress_t progress;
    switch (inbound->head.kind) {
    case WIRE_PROGRESS:
        return request_progress (&inbound->frames [1], &progress, refusal)
            && broker_progress (broker, rank, &progress, self->now_ms, refusal);
    case WIRE_INLINE:
        return s_inline (self, rank, refusal);
    case WIRE_LEAVE:
        s_leave (self, inbound, rank);
        return true;
    case WIRE_EXPLAIN:
        return s_explain (self, inbound, rank, refusal);
    default:
        return true;
    }
}

//  ---- requests without a job

static bool
s_status (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    atomic_size_t *account = service_account (self, inbound, refusal);
    if (!account || !request_status (&inbound->frames [1], refusal))
        return false;
    json_t *status = service_status (self, &inbound->caller, self->now_ms);
    char *text = json_dumps (status, JSON_COMPACT);
    json_decref (status);
    rank_t *rank = s_find_own (self, inbound);
    if (rank)
        broker_heartbeat (self->options.broker, rank, self->now_ms);        //  any message shows that the
                                                                            //  client lives
    if (text)
        outbox_send_counted (self->options.router, &inbound->peer, WIRE_STATUS_REPLY,
            rank? inbound->head.job: 0, inbound->head.tag, text, account);
    return true;
}

//  Answers what a data set is, or a part of one of its tables.
static bool
s_dataset (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    request_table_t request;
    dataset_table_t table;
    atomic_size_t *account = service_account (self, inbound, refusal);
    if (!account || !request_table (&inbound->frames [1], &request, refusal))
        return false;
    if (!s_is_open (self, &inbound->caller, request.dataset, refusal))
        return false;
    broker_t *broker = self->options.broker;
    const dataset_t *dataset = join_find_dataset (broker, &inbound->caller, request.dataset,
        *request.path? request.path: NULL, refusal);
    if (!dataset || !dataset_table (source_of (dataset)->catalogue, &request, &table, refusal))
        return false;
    void *router = self->options.router;
    uint64_t tag = inbound->head.tag;
    char *text = dataset_table_text (source_of (dataset)->catalogue, &request, &table);
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
s_drain (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
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
    if (!now && !broker_is_draining (self->options.broker))
        log_event (self->options.log, LOG_LEVEL_NOTICE, "draining", LOG_FIELDS (LOG_NUMBER ("jobs",
            broker_jobs (self->options.broker))),
            "draining: no new jobs and no new epochs; %" PRIu64 " job%s left",
            broker_jobs (self->options.broker), broker_jobs (self->options.broker) == 1? " is": "s are");
    broker_drain (self->options.broker);
    arrivals_drain (self->arrivals);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_DRAINING, 0, inbound->head.tag,
        reply_draining (service_jobs (self)));
    return true;
}

//  ---- ADD and REMOVE

//  Whether the caller may change which data sets there are, now.
static bool
s_may_change (const service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    if (!inbound->caller.is_operator)
        return refuse (refusal, "forbidden", "only an operator may add data sets, or remove them");
    if (!self->options.additions)
        return refuse (refusal, "unsupported", "this server's data sets are those that it began with");
    if (self->stopping || self->ends_now || broker_is_draining (self->options.broker))
        return service_refuse_stopping (refusal);
    return true;
}

//  The client asks again, with the same words, until the data sets are ready.
static bool
s_add (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    request_add_t add;
    if (inbound->caller.is_operator && !inbound->caller.may_add)
        return refuse (refusal, "forbidden", "every program that reaches this server is its operator "
            "(--open), and could have it read any file: start it without --open, on ipc or with --keys, to "
            "add data sets");
    atomic_size_t *account = service_account (self, inbound, refusal);
    if (!account || !s_may_change (self, inbound, refusal)
        || !request_add (&inbound->frames [1], &add, refusal))
        return false;
    const char *text;
    additions_state_t state = additions_add (self->options.additions, add.words, add.count, &text, refusal);
    request_add_clear (&add);
    if (state == ADDITIONS_REFUSED)
        return false;
    self->adding_until_ms = state == ADDITIONS_OPENING? self->now_ms + ADDING_MS: 0;
    outbox_send_counted (self->options.router, &inbound->peer, WIRE_ADDING, 0, inbound->head.tag,
        reply_adding (state == ADDITIONS_READY, text), account);
    return true;
}

//  The jobs to come on the data set: those that wait for ranks, and those of which a worker reads the ids.
static size_t
s_waiting_on (const service_t *self, const dataset_t *dataset)
{
    size_t count = arrivals_count_on (self->arrivals, dataset);
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
s_remove (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
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
        arrivals_forget (self->arrivals, s_is_on, dataset, &removed);
    service_carry_out_all (self);
    outbox_send_text (self->options.router, &inbound->peer, WIRE_REMOVED, 0, inbound->head.tag,
        reply_removed (jobs + waiting));
    return true;
}

static void
s_answer (service_t *self, inbound_message_t *inbound)
{
    refusal_t refusal = { .code = NULL };
    bool good;
    switch (inbound->head.kind) {
    case WIRE_JOIN:
        good = s_join (self, inbound, &refusal);
        break;
    case WIRE_EXPLAIN:
        good = self->stopping? service_refuse_stopping (&refusal): s_of_job (self, inbound, &refusal);
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
        service_refuse (self, inbound, &refusal);
}

//  ---- requests that wait

//  Measures the work and charges it to the request's tenant; reclaims in between are charged already.
static void
s_answer_measured (service_t *self, inbound_message_t *inbound)
{
    uint64_t begin = service_unreclaimed_ns (self);
    s_answer (self, inbound);
    service_charge (self, inbound->caller.tenant, service_unreclaimed_ns (self) - begin);
}

//  False: no request waits.
static bool
s_serve_one (service_t *self)
{
    inbound_message_t *inbound = (inbound_message_t *) request_queue_take (self->request_queue);
    if (!inbound)
        return false;
    const tenant_t *tenant = inbound->caller.tenant;
    uint64_t received_ns = inbound->waiting.bytes * RECEIVED_NS_A_BYTE;
    s_answer_measured (self, inbound);
    service_charge (self, tenant, received_ns);
    const join_t *reading = self->reading [tenant_number (tenant)];
    if (!reading || reading->message != inbound)
        inbound_message_destroy (&inbound);
    return true;
}

//  The message that found the queue full enters as soon as there is room; requests are served for that,
//  unless the ids of the first are being read.
static void
s_let_in (service_t *self)
{
    while (self->stuck) {
        const tenant_t *tenant = self->stuck->caller.tenant;
        waiting_t *refused = request_queue_put (self->request_queue, tenant_number (tenant),
            service_weight (self, tenant),
            &self->stuck->waiting);
        self->stuck = (inbound_message_t *) refused;
        if (refused && !s_serve_one (self))
            return;
    }
}

bool
service_is_full (const service_t *self)
{
    return self->stuck;
}

void
service_serve (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    s_let_in (self);
    if (self->now_ms < self->resting_until_ms)
        return;
    uint64_t begin = service_nanoseconds (self);
    while (s_serve_one (self) && service_nanoseconds (self) - begin < SLICE_NS);
}

static void
s_empty_queue (service_t *self)
{
    s_let_in (self);
    while (s_serve_one (self));
}

static void
s_refuse_to_wait (service_t *self, const inbound_message_t *inbound)
{
    refusal_t refusal;
    refuse (&refusal, "busy", "too many requests are waiting already: try again in a moment");
    service_refuse (self, inbound, &refusal);
}

static void
s_let_wait (service_t *self, const inbound_message_t *inbound, zmq_msg_t *messages)
{
    inbound_message_t *kept = inbound_message_keep (inbound, messages);
    refusal_t refusal;
    if (!kept) {
        refuse (&refusal, "busy", "no memory for the request: try again in a moment");
        service_refuse (self, inbound, &refusal);
        return;
    }
    const tenant_t *tenant = inbound->caller.tenant;
    kept->waiting = (waiting_t) { .connection = inbound_message_connection (inbound),
        .bytes = inbound_message_bytes (inbound),
        .is_first = inbound->head.kind == WIRE_JOIN };
    waiting_t *refused = request_queue_put (self->request_queue, tenant_number (tenant),
        service_weight (self, tenant),
        &kept->waiting);
    inbound_message_t *loser = (inbound_message_t *) refused;
    //  With one tenant no other tenant is hurt if messages wait in the socket, behind this one.
    if (loser && tenant_total (self->options.broker) == 1 && !self->stuck) {
        self->stuck = loser;
        s_let_in (self);
        return;
    }
    if (loser)
        s_refuse_to_wait (self, loser);
    inbound_message_destroy (&loser);
}

//  Expensive requests wait.  So does a message that must not overtake a waiting one of its connection: any
//  message behind a JOIN, because it is about that job; and a message that ends the job behind a question.
//  PROGRESS may overtake a question, or the job would pause while its question waits.
static bool
s_must_wait (const service_t *self, const inbound_message_t *inbound)
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
        return request_queue_holds_back (self->request_queue, line, inbound_message_connection (inbound));
    default:
        return request_queue_has (self->request_queue, line, inbound_message_connection (inbound));
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
s_check_role (service_t *self, const inbound_message_t *inbound)
{
    refusal_t refusal;
    if (s_may_send (inbound, &refusal))
        return true;
    service_refuse (self, inbound, &refusal);
    return false;
}

//  label: of its key, or NULL.
static void
s_take_work (service_t *self, const inbound_message_t *inbound, const char *label)
{
    refusal_t refusal;
    remote_message_t message = { .peer = &inbound->peer, .user = inbound->caller.user, .label = label,
        .head = &inbound->head, .frames = inbound->frames, .count = inbound->count };
    if (!remote_workers_take (tasks_remote_workers (self->options.tasks), &message, self->now_ms, &refusal))
        service_refuse (self, inbound, &refusal);
}

//  ---- taking a message

static void
s_take (service_t *self, inbound_message_t *inbound, const service_message_t *message)
{
    refusal_t refusal;
    request_status_t status = request_head (inbound->frames, inbound->count, &inbound->head, &refusal);
    if (status == REQUEST_IGNORED)
        self->ignored++;
    else
    if (status == REQUEST_REFUSED)
        service_refuse (self, inbound, &refusal);
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
s_refuse_key (service_t *self, inbound_message_t *inbound)
{
    refusal_t refusal;
    inbound->caller = (caller_t) { .tenant = NULL, .uid = (uid_t) -1, .user = BROKER_USER_UNKNOWN };
    if (request_head (inbound->frames, inbound->count, &inbound->head, &refusal) == REQUEST_IGNORED) {
        self->ignored++;
        return;
    }
    service_refuse_revoked (&refusal);
    service_refuse (self, inbound, &refusal);
}

void
service_take (service_t *self, const service_message_t *message, int64_t now_ms)
{
    inbound_message_t inbound = { .peer = *message->peer, .frames = message->frames,
        .count = message->count };
    self->now_ms = now_ms;
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
s_receive_one (service_t *self, int64_t now_ms)
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
        service_message_t message = { .peer = &peer, .uid = uid,
            .key = zmq_msg_gets (&messages [1], "User-Id"), .frames = frames, .count = count - 1,
            .messages = &messages [1] };
        service_take (self, &message, now_ms);
    }
    for (size_t index = 0; index < held; index++)
        zmq_msg_close (&messages [index]);
    return true;
}

int
service_receive (service_t *self, int64_t now_ms)
{
    int count = 0;
    self->now_ms = now_ms;
    uint64_t begin = service_nanoseconds (self);
    while (count < SERVICE_MESSAGES_A_TURN && !self->stuck && s_receive_one (self, now_ms)) {
        count++;
        if (count % 16 == 0 && service_nanoseconds (self) - begin > RECEIVE_NS)
            break;
    }
    service_serve (self, now_ms);
    return count;
}

//  ---- revoked keys

typedef struct {
    service_t *service;
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
s_forget_requests (service_t *self, revoking_t *revoking)
{
    refusal_t refusal;
    service_refuse_revoked (&refusal);
    s_revoke_reading (self, revoking->is_gone, revoking->context);
    for (waiting_t *waiting; (waiting = request_queue_take_if (self->request_queue, s_is_gone, revoking)); ) {
        inbound_message_t *inbound = (inbound_message_t *) waiting;
        service_refuse (self, inbound, &refusal);
        inbound_message_destroy (&inbound);
    }
    if (self->stuck && s_is_gone (revoking, &self->stuck->waiting)) {
        service_refuse (self, self->stuck, &refusal);
        inbound_message_destroy (&self->stuck);
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
    caller_t caller = { .user = user, .uid = user < KEYS_USER_FIRST? (uid_t) user: (uid_t) -1 };
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
    broker_end (revoking->service->options.broker, job, "revoked", "the key of its client was revoked");
}

size_t
service_revoke (service_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context,
    int64_t now_ms)
{
    self->now_ms = now_ms;
    revoking_t revoking = { .service = self, .is_gone = is_gone, .context = context };
    s_forget_requests (self, &revoking);
    refusal_t refusal;
    refuse (&refusal, "revoked", "the key of its client was revoked");
    arrivals_forget (self->arrivals, s_has_joined_with, &revoking, &refusal);
    remote_workers_revoke (tasks_remote_workers (self->options.tasks), s_is_worker_gone, &revoking, now_ms);
    rank_each (self->options.broker, s_revoke, &revoking);
    service_carry_out_all (self);
    return revoking.count;
}

//  ---- the end

void
service_stop (service_t *self, int64_t now_ms)
{
    self->stopping = true;
    //  Progress and leaves that came just before; bounded, because a client may send without end.
    for (int turn = 0; turn < STOP_TURNS_MAX && service_receive (self, now_ms) > 0; turn++);
    s_empty_queue (self);
    service_end_jobs (self);
    s_empty_queue (self);                   //  requests behind a JOIN with ids that were being read
    service_reclaim_all (self);
}
