//  What clients ask: from the socket to the answer.
//
//  happy path:     a message is received, its caller found, its head read.  A cheap request is served at
//                  once.  An expensive one (JOIN, STATUS, EXPLAIN, DATASET) waits in the queue, and so does
//                  any message that must not overtake it; the queue is served by weight over tenants, a slice
//                  of time each turn.
//  failure modes:  a caller without a tenant, or a message without our magic, gets no answer.  A line that is
//                  full: `busy`.  More errors than a user's limit: counted, not answered.
//  on close:       the queue is emptied: each request gets its answer, a JOIN `stopping`.
//  service_joins.c: JOIN.

#include "service_state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>
#include "clock.h"
#include "dataset_table.h"
#include "join_request.h"
#include "receive_quota.h"
#include "outbox.h"
#include "reply.h"
#include "source.h"

enum {
    FRAMES_MAX = WIRE_FRAMES_MAX + 1,       //  the routing id before them
    RECEIVE_NS = 1000000,                   //  a turn's receiving
    SLICE_NS = 2000000,                     //  a turn's serving: at least one request
    //  While other tenants' jobs run, the queue gets one part in so many of the thread's time: a request of
    //  50 ms cannot be divided, and workers run out of tasks behind a row of them.
    REST_PARTS = 10,
    //  But no tenant waits long for work done for another: unmapping a ring of some gigabytes takes a second.
    REST_MS_MAX = 1000,
    //  The time of libzmq's thread to receive a byte: the kernel's copy, and memory that is new each time.
    RECEIVED_NS_A_BYTE = 2
};

uint64_t
service_nanoseconds (const service_t *self)
{
    if (self->options.nanoseconds)
        return self->options.nanoseconds (self->options.clock);
    return clock_thread_ns ();
}

uint64_t
service_unreclaimed_ns (const service_t *self)
{
    return service_nanoseconds (self) - self->reclaimed_ns;
}

//  ---- refusing

void
service_refuse (service_t *self, const inbound_message_t *inbound, const refusal_t *refusal)
{
    const caller_t *caller = &inbound->caller;
    rejection_log_one_t one = { .tenant = caller->tenant? tenant_number (caller->tenant):
        REJECTION_LOG_NOBODY,
        .name = caller->tenant? broker_tenant_label (self->options.broker, caller->tenant): NULL,
        .user = caller->user, .code = refusal->code, .message = refusal->message };
    //  A client that leaves a job which the server has just ended does nothing wrong.
    if (inbound->head.kind != WIRE_LEAVE || strcmp (refusal->code, "unknown_job") != 0)
        rejection_log_add (self->rejection_log, &one, self->now_ms);
    if (!error_rate_limit_take (&self->error_rate_limit, one.tenant, caller->user,
        self->now_ms > 0? self->now_ms: 1)) {
        self->dropped [one.tenant]++;
        return;
    }
    //  A failed send is ignored: it is the peer's problem.
    outbox_send_text (self->options.router, &inbound->peer, WIRE_ERROR, inbound->head.job, inbound->head.tag,
        reply_error (refusal->code, refusal->message));
}

bool
service_refuse_stopping (refusal_t *refusal)
{
    return refuse (refusal, "stopping", "the server is ending");
}

bool
service_refuse_revoked (refusal_t *refusal)
{
    return refuse (refusal, "revoked", "this key is not served any more");
}

atomic_size_t *
service_account (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    const tenant_t *tenant = inbound->caller.tenant;
    atomic_size_t *account = send_backlog_account (self->send_backlog, &inbound->peer, tenant_number (tenant),
        (size_t) broker_share (self->options.broker, tenant, SEND_BACKLOG_ACCOUNTS_MAX));
    if (!account)
        refuse (refusal, "busy", "answers of before have not been read: read them first");
    return account;
}

//  ---- jobs

//  The rank of the message's job, if it belongs to this connection; NULL: it does not.
static rank_t *
s_find_own (service_t *self, const inbound_message_t *inbound)
{
    job_t *job = broker_job (self->options.broker, inbound->head.job);
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
    broker_t *broker = self->options.broker;
    const dataset_t *dataset = join_request_find_dataset (broker, &inbound->caller, request.dataset, refusal);
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

//  No new jobs and no new epochs from now on; the server's loop ends when the last job has gone.
static bool
s_drain (service_t *self, const inbound_message_t *inbound, refusal_t *refusal)
{
    if (!request_drain (&inbound->frames [1], refusal))
        return false;
    if (!inbound->caller.is_operator)
        return refuse (refusal, "forbidden", "only an operator may drain the server");
    if (!broker_is_draining (self->options.broker))
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

static void
s_answer (service_t *self, inbound_message_t *inbound)
{
    refusal_t refusal = { .code = NULL };
    bool good;
    switch (inbound->head.kind) {
    case WIRE_JOIN:
        good = service_join (self, inbound, &refusal);
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
    default:
        good = s_of_job (self, inbound, &refusal);
    }
    if (!good)
        service_refuse (self, inbound, &refusal);
}

//  ---- requests that wait

static uint32_t
s_weight (const service_t *self, const tenant_t *tenant)
{
    return (uint32_t) broker_share (self->options.broker, tenant, 1 << 20);
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

//  Pauses the queue, if its work has held up other tenants.
void
service_charge (service_t *self, const tenant_t *tenant, uint64_t nanoseconds)
{
    request_queue_charge (self->request_queue, tenant_number (tenant), s_weight (self, tenant), nanoseconds);
    others_t others = { .tenant = tenant };
    if (broker_tenants (self->options.broker) > 1)
        broker_each_job (self->options.broker, s_look_for_others, &others);
    if (!others.found)
        return;
    //  Times below a millisecond add up: many small requests cost as much as a large one.
    self->rest_ns += nanoseconds * (REST_PARTS - 1);
    int64_t from_ms = self->resting_until_ms > self->now_ms? self->resting_until_ms: self->now_ms;
    int64_t until_ms = from_ms + (int64_t) (self->rest_ns / 1000000);
    self->resting_until_ms = until_ms < self->now_ms + REST_MS_MAX? until_ms: self->now_ms + REST_MS_MAX;
    self->rest_ns %= 1000000;
}

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
    if (!service_is_reading (self, inbound))
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
            s_weight (self, tenant),
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

void
service_empty_queue (service_t *self)
{
    s_let_in (self);
    while (s_serve_one (self));
}

typedef struct {
    bool (*is_gone) (void *context, const caller_t *caller);        //  NULL: all are gone
    void *context;
} gone_t;

static bool
s_is_gone (void *context, const waiting_t *waiting)
{
    const gone_t *gone = context;
    return !gone->is_gone || gone->is_gone (gone->context, &((const inbound_message_t *) waiting)->caller);
}

void
service_forget_mail (service_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context)
{
    gone_t gone = { is_gone, context };
    refusal_t refusal;
    service_refuse_revoked (&refusal);
    if (is_gone)
        service_revoke_reading (self, is_gone, context);
    for (waiting_t *waiting; (waiting = request_queue_take_if (self->request_queue, s_is_gone, &gone)); ) {
        inbound_message_t *inbound = (inbound_message_t *) waiting;
        if (is_gone)
            service_refuse (self, inbound, &refusal);
        inbound_message_destroy (&inbound);
    }
    if (self->stuck && s_is_gone (&gone, &self->stuck->waiting)) {
        if (is_gone)
            service_refuse (self, self->stuck, &refusal);
        inbound_message_destroy (&self->stuck);
    }
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
        s_weight (self, tenant),
        &kept->waiting);
    inbound_message_t *loser = (inbound_message_t *) refused;
    //  With one tenant no other tenant is hurt if messages wait in the socket, behind this one.
    if (loser && broker_tenants (self->options.broker) == 1 && !self->stuck) {
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
    if (!service_check_role (self, inbound))
        return;
    else
    if (service_is_of_worker (inbound))
        service_take_work (self, inbound, tenants_label (self->options.tenants, message->key));
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
