#include "service.h"
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>
#include "arrivals.h"
#include "connection.h"
#include "explaining.h"
#include "lingering.h"
#include "outbox.h"
#include "reply.h"

enum { STOP_TURNS_MAX = 64 };

struct service {
    service_options_t options;
    bool stopping;
    int64_t now_ms;             //  of this turn
    explaining_t *explaining;
    arrivals_t *arrivals;
    lingering_t lingering;
    atomic_size_t outgoing;     //  bytes of inline batches that ZeroMQ has not sent yet; its threads count down
    //  scratch for one batch
    uint32_t *rows;
    uint64_t *ids;
};

static void s_carry_out_all (service_t *self);

//  What counts in the budget of jobs, and is no job's.
static void
s_count_outside (service_t *self)
{
    broker_outside (self->options.broker, atomic_load (&self->outgoing) + self->lingering.bytes
        + arrivals_bytes (self->arrivals));
}

static void
s_settle (void *context)
{
    service_t *self = context;
    s_carry_out_all (self);
    s_count_outside (self);
}

service_t *
service_new (const service_options_t *options)
{
    service_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    arrivals_options_t arrivals = { .broker = options->broker, .door = options->door, .router = options->router,
        .ring_path = options->ring_path, .log = options->log, .outgoing = &self->outgoing, .settle = s_settle, .context = self };
    self->options = *options;
    atomic_init (&self->outgoing, 0);
    self->rows = calloc (REQUEST_BATCH_MAX, sizeof *self->rows);
    self->ids = calloc (REQUEST_BATCH_MAX, sizeof *self->ids);
    self->explaining = explaining_new (options->router, options->broker, options->tasks);
    self->arrivals = arrivals_new (&arrivals);
    if (!self->rows || !self->ids || !self->explaining || !self->arrivals)
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
    arrivals_destroy (&self->arrivals);
    lingering_leave (&self->lingering);
    free (self->rows);
    free (self->ids);
    free (self);
    *self_p = NULL;
}

//  ---- what clients ask

//  A rank in the log: "job 3", or where there are several "job 3, rank 1".
typedef struct {
    char text [64];
} label_t;

static label_t
s_label (const rank_t *rank)
{
    label_t label;
    const job_t *job = rank_job (rank);
    int used = snprintf (label.text, sizeof label.text, "job %llu", (unsigned long long) job_id (job));
    if (job_world_size (job) > 1)
        snprintf (label.text + used, sizeof label.text - (size_t) used, ", rank %u", rank_number (rank));
    return label;
}

static uint64_t
s_job_of (const rank_t *rank)
{
    return job_id (rank_job (rank));
}

typedef struct {
    service_t *service;
    const peer_t *peer;
    caller_t caller;            //  whose message it is
    const frame_t *frames;
    size_t count;
    wire_head_t head;
    int64_t now_ms;
} message_t;

static void
s_answer_error (const message_t *message, const refusal_t *refusal)
{
    //  A peer that does not listen to its error is not our trouble.
    outbox_send_text (message->service->options.router, message->peer, WIRE_ERROR, message->head.job,
        message->head.tag, reply_error (refusal->code, refusal->message));
}

static bool
s_join (const message_t *message, refusal_t *refusal)
{
    arrivals_message_t arrival = { .frames = message->frames, .count = message->count, .peer = message->peer,
        .caller = &message->caller, .tag = message->head.tag, .now_ms = message->now_ms };
    return arrivals_join (message->service->arrivals, &arrival, refusal);
}

//  The rank of the job that a message means, if that is this connection's; NULL: it is not.
static rank_t *
s_find_own (service_t *self, const peer_t *peer, uint64_t id)
{
    job_t *job = broker_job (self->options.broker, id);
    for (uint32_t number = 0; job && number < job_world_size (job); number++) {
        rank_t *rank = job_rank (job, number);
        if (rank_is_there (rank) && connection_is_of (rank_user (rank), peer))
            return rank;
    }
    return NULL;
}

//  The same; else a refusal.
static rank_t *
s_own_rank (const message_t *message, refusal_t *refusal)
{
    rank_t *rank = s_find_own (message->service, message->peer, message->head.job);
    if (rank)
        return rank;
    //  It may have ended in this very turn; then ENDED must come first: without it, this refusal says that the server is not the
    //  one that the client knew, and the client would join anew, which a fenced one must not.
    s_carry_out_all (message->service);
    refuse (refusal, "unknown_job", "this connection has no job %llu (it may have ended)",
        (unsigned long long) message->head.job);
    return NULL;
}

static bool
s_inline (const message_t *message, rank_t *rank, refusal_t *refusal)
{
    service_t *self = message->service;
    connection_t *connection = rank_user (rank);
    if (connection->attached)
        return refuse (refusal, "bad_request", "the job's ring was taken already");
    if (!rank_is_inline (rank)) {
        door_forget (self->options.door, connection->key);
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    broker_inline (self->options.broker, rank, message->now_ms);
    return true;
}

static void
s_leave (const message_t *message, rank_t *rank)
{
    service_t *self = message->service;
    log_line (self->options.log, "%s left", s_label (rank).text);
    outbox_send_text (self->options.router, message->peer, WIRE_ENDED, s_job_of (rank), message->head.tag,
        reply_ended ("left", "the job has left"));
    broker_left (self->options.broker, rank);
}

static void
s_status (const message_t *message)
{
    service_t *self = message->service;
    s_count_outside (self);
    json_t *status = broker_status (self->options.broker, message->caller.is_operator? NULL: message->caller.tenant, message->now_ms);
    connection_describe_datasets (self->options.broker, status);
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    double cpu = (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
               + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    json_object_set_new (status, "cpu_seconds", json_real (cpu));
    json_object_set_new (status, "reading", json_string (tasks_reading_mode (self->options.tasks)));
    json_object_set_new (status, "reads_max", json_integer (tasks_depth (self->options.tasks)));
    json_object_set_new (status, "until_idle", idle_status (self->options.idle, service_jobs (self), message->now_ms));
    json_object_set_new (status, "gathering", arrivals_status (self->arrivals, message->now_ms));
    json_object_set_new (status, "version", json_string (TUREEN_VERSION));
    char *text = json_dumps (status, JSON_COMPACT);
    json_decref (status);
    rank_t *rank = s_find_own (self, message->peer, message->head.job);
    if (rank)
        broker_heartbeat (self->options.broker, rank, message->now_ms);     //  whatever it asks, it lives
    if (text)
        outbox_send_text (self->options.router, message->peer, WIRE_STATUS_REPLY, rank? message->head.job: 0,
            message->head.tag, text);
}

static bool
s_of_job (const message_t *message, refusal_t *refusal)
{
    broker_t *broker = message->service->options.broker;
    rank_t *rank = s_own_rank (message, refusal);
    if (!rank)
        return false;
    broker_heartbeat (broker, rank, message->now_ms);       //  whatever it says, it lives
    wire_progress_t progress;
    switch (message->head.kind) {
    case WIRE_PROGRESS:
        return request_progress (&message->frames [1], &progress, refusal)
            && broker_progress (broker, rank, &progress, message->now_ms, refusal);
    case WIRE_INLINE:
        return s_inline (message, rank, refusal);
    case WIRE_LEAVE:
        s_leave (message, rank);
        return true;
    case WIRE_EXPLAIN:
        return explaining_begin (message->service->explaining, rank_job (rank), message->peer, message->head.tag,
            &message->frames [1], refusal);
    default:
        return true;
    }
}

static void
s_answer (message_t *message)
{
    refusal_t refusal = { .code = NULL };
    request_status_t status = request_head (message->frames, message->count, &message->head, &refusal);
    if (status == REQUEST_IGNORED)
        return;
    bool good = status == REQUEST_OK;
    if (good && message->head.kind == WIRE_STATUS) {
        good = request_status (&message->frames [1], &refusal);
        if (good)
            s_status (message);
    }
    else
    //  What came of jobs just before is taken, or their clients would hear of an error first, and not of the end.
    if (good && message->service->stopping && (message->head.kind == WIRE_JOIN || message->head.kind == WIRE_EXPLAIN))
        good = refuse (&refusal, "stopping", "the server is ending");
    else
    if (good && message->head.kind == WIRE_JOIN)
        good = s_join (message, &refusal);
    else
    if (good)
        good = s_of_job (message, &refusal);
    if (!good)
        s_answer_error (message, &refusal);
}

//  ---- receiving

enum { FRAMES_MAX = WIRE_FRAMES_MAX + 1 };      //  the routing id before them

//  The user at the other end: ZeroMQ names an ipc peer "host:uid:gid:pid"; of whoever comes by tcp nothing is known: -1.  The
//  name is on what the peer has sent; the routing id that stands before it has it only where nobody polled first (4.3.4).
static uid_t
s_peer_uid (zmq_msg_t *message)
{
    const char *address = zmq_msg_gets (message, "Peer-Address");
    unsigned uid, gid, pid;
    if (address && sscanf (address, "localhost:%u:%u:%u", &uid, &gid, &pid) == 3)
        return uid;
    return (uid_t) -1;
}

//  Receives one multipart message; frames beyond FRAMES_MAX are thrown away, and counted.  0: nothing there.
static size_t
s_receive_frames (void *router, zmq_msg_t *messages)
{
    size_t count = 0;
    for (bool more = true; more; count++) {
        zmq_msg_t extra, *message = count < FRAMES_MAX? &messages [count]: &extra;
        zmq_msg_init (message);
        if (zmq_msg_recv (message, router, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close (message);
            return count;
        }
        more = zmq_msg_more (message);
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
    size_t count = s_receive_frames (self->options.router, messages);
    if (count == 0)
        return false;
    size_t held = count < FRAMES_MAX? count: FRAMES_MAX;
    for (size_t index = 1; index < held; index++)
        frames [index - 1] = (frame_t) { zmq_msg_data (&messages [index]), zmq_msg_size (&messages [index]) };
    peer_t peer = { .size = (uint8_t) zmq_msg_size (&messages [0]) };
    memcpy (peer.bytes, zmq_msg_data (&messages [0]), peer.size);
    //  A message with too many frames is told by its count, which request_head refuses.
    message_t message = { .service = self, .peer = &peer, .frames = frames, .count = count - 1, .now_ms = now_ms };
    //  Whoever is nobody's gets no answer.
    if (count > 1 && tenants_caller (self->options.tenants, s_peer_uid (&messages [1]), zmq_msg_gets (&messages [1], "User-Id"),
            &message.caller))
        s_answer (&message);
    for (size_t index = 0; index < held; index++)
        zmq_msg_close (&messages [index]);
    return true;
}

int
service_receive (service_t *self, int64_t now_ms)
{
    int count = 0;
    self->now_ms = now_ms;
    while (count < SERVICE_MESSAGES_A_TURN && s_receive_one (self, now_ms))
        count++;
    return count;
}

void
service_attend (service_t *self, int64_t now_ms)
{
    door_event_t event;
    self->now_ms = now_ms;
    while (door_next (self->options.door, now_ms, &event)) {
        rank_t *rank = connection_rank_of_key (self->options.broker, event.key);
        if (!rank) {
            if (event.kind == DOOR_CLOSED)
                lingering_end (&self->lingering, event.key);
            continue;
        }
        if (event.kind == DOOR_ATTACHED) {
            ((connection_t *) rank_user (rank))->attached = true;
            broker_attached (self->options.broker, rank, now_ms);
        }
        else {
            log_line (self->options.log, "%s is gone: its client closed the ring's socket", s_label (rank).text);
            broker_lost (self->options.broker, rank, now_ms);
        }
    }
}

//  ---- what the broker wants done

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
    outbox_batch_t batch = { .batch = &action->batch, .ids = self->ids, .step = action->step, .step_words = action->step_words,
        .inline_slot = connection_take_inline (connection, slot), .slot_bytes = connection->layout.slot_bytes };
    if (outbox_send_batch (self->options.router, &connection->peer, s_job_of (rank), &batch) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
}

static void
s_copy (service_t *self, place_t *place)
{
    rank_t *rank = place_rank (place);
    connection_t *connection = rank_user (rank);
    uint8_t *slot = connection_slot (connection, place_slot (place));
    if (!slot) {
        //  No memory for an inline batch: the job cannot go on, others can.
        log_line (self->options.log, "%s ends: no memory for its batches", s_label (rank).text);
        broker_copied (self->options.broker, place);
        broker_end (self->options.broker, rank_job (rank), "memory", "the server has no memory for the job's batches");
        return;
    }
    tasks_copy (self->options.tasks, place, &connection->layout, slot);
}

//  The client of a job that the server has ended may go on looking at what is in its ring.  True: it will say when it is done.
static bool
s_part (service_t *self, connection_t *connection)
{
    if (!connection->ended || !connection->ring)
        return false;
    if (self->stopping) {
        ring_leave (&connection->ring);
        return false;
    }
    if (!door_part (self->options.door, connection->key))
        return false;
    lingering_keep (&self->lingering, self->options.door, connection->key, &connection->ring);
    return true;
}

//  NULL: it has none, or none any more.
static void
s_bury_connection (service_t *self, connection_t *connection)
{
    if (connection && !s_part (self, connection))
        door_forget (self->options.door, connection->key);
    connection_destroy (&connection);
}

static void
s_bury_rank (service_t *self, rank_t *rank)
{
    s_bury_connection (self, rank_user (rank));
    broker_bury_rank (self->options.broker, rank);
}

static void
s_bury (service_t *self, job_t *job)
{
    for (uint32_t number = 0; number < job_world_size (job); number++)
        s_bury_connection (self, rank_user (job_rank (job, number)));
    broker_bury (self->options.broker, job);
}

static void
s_send_notice (service_t *self, const action_t *action)
{
    rank_t *rank = action->rank;
    const connection_t *connection = rank_user (rank);
    log_line (self->options.log, "%s, %s: %s", s_label (rank).text, action->reason, action->message);
    if (rank_is_there (rank) && outbox_send_text (self->options.router, &connection->peer, WIRE_NOTICE, s_job_of (rank), 0,
            reply_notice (action->reason, action->message)) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
}

static void
s_send_epoch_end (service_t *self, const action_t *action)
{
    rank_t *rank = action->rank;
    const connection_t *connection = rank_user (rank);
    if (rank_is_there (rank) && outbox_send (self->options.router, &connection->peer, WIRE_EPOCH_END, s_job_of (rank), 0,
            &action->epoch_end, sizeof action->epoch_end) == OUTBOX_GONE)
        broker_lost (self->options.broker, rank, self->now_ms);
}

//  The rank may be buried already.
static void
s_send_ended (service_t *self, const action_t *action)
{
    connection_t *connection = rank_user (action->rank);
    log_line (self->options.log, "%s ended: %s", s_label (action->rank).text, action->message);
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
    case ACTION_COPY:
        s_copy (self, action->place);
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
    case ACTION_BURY_RANK:
        s_bury_rank (self, action->rank);
        break;
    case ACTION_BURY:
        s_bury (self, action->job);
        break;
    }
}

static void
s_carry_out_all (service_t *self)
{
    action_t action;
    while (broker_next (self->options.broker, &action))
        s_carry_out (self, &action);
}

void
service_act (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    tasks_collect (self->options.tasks);
    explaining_collect (self->explaining, false);
    broker_advance (self->options.broker, now_ms);
    s_carry_out_all (self);
    if (arrivals_act (self->arrivals, now_ms)) {
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
    if (outbox_send (self->options.router, &connection->peer, WIRE_HEARTBEAT, s_job_of (rank), 0, NULL, 0) == OUTBOX_GONE) {
        log_line (self->options.log, "%s is gone: its connection is closed", s_label (rank).text);
        broker_lost (self->options.broker, rank, self->now_ms);
    }
}

void
service_beat (service_t *self, int64_t now_ms)
{
    self->now_ms = now_ms;
    //  What bursts of messages and jobs have left with the allocator goes back to the system.
    malloc_trim (0);
    broker_each_rank (self->options.broker, s_beat, self);
    arrivals_beat (self->arrivals, now_ms);
}

uint64_t
service_jobs (const service_t *self)
{
    return broker_jobs (self->options.broker) + arrivals_count (self->arrivals);
}

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
    self->stopping = true;
    //  Progress and leaves that came just before; not for ever, since somebody may go on sending.
    for (int turn = 0; turn < STOP_TURNS_MAX && service_receive (self, now_ms) > 0; turn++);
    arrivals_stop (self->arrivals);
    broker_each_rank (self->options.broker, s_tell_end, self);
    broker_each_job (self->options.broker, s_end_job, self);
    tasks_stop (self->options.tasks);
    explaining_collect (self->explaining, true);
    action_t action;
    while (broker_next (self->options.broker, &action))
        if (action.kind == ACTION_BURY)
            s_bury (self, action.job);
        else
        if (action.kind == ACTION_BURY_RANK)
            s_bury_rank (self, action.rank);
}
