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
#include "connection.h"
#include "admission.h"
#include "explaining.h"
#include "lingering.h"
#include "outbox.h"
#include "reply.h"

enum { STOP_TURNS_MAX = 64 };

struct service {
    service_options_t options;
    bool stopping;
    explaining_t *explaining;
    lingering_t lingering;
    atomic_size_t outgoing;     //  bytes of inline batches that ZeroMQ has not sent yet; its threads count down
    //  scratch for one batch
    uint32_t *rows;
    uint64_t *ids;
};

service_t *
service_new (const service_options_t *options)
{
    service_t *self = calloc (1, sizeof *self);
    uint32_t *rows = calloc (REQUEST_BATCH_MAX, sizeof *rows);
    uint64_t *ids = calloc (REQUEST_BATCH_MAX, sizeof *ids);
    explaining_t *explaining = explaining_new (options->router, options->broker, options->tasks);
    if (!self || !rows || !ids || !explaining) {
        free (self);
        free (rows);
        free (ids);
        explaining_destroy (&explaining);
        return NULL;
    }
    self->options = *options;
    self->explaining = explaining;
    self->rows = rows;
    self->ids = ids;
    atomic_init (&self->outgoing, 0);
    return self;
}

void
service_destroy (service_t **self_p)
{
    service_t *self = *self_p;
    if (!self)
        return;
    explaining_destroy (&self->explaining);
    lingering_leave (&self->lingering);
    free (self->rows);
    free (self->ids);
    free (self);
    *self_p = NULL;
}

//  ---- what clients ask

static void s_carry_out_all (service_t *self);

//  What counts in the budget of jobs, and is no job's.
static void
s_count_outside (service_t *self)
{
    broker_outside (self->options.broker, atomic_load (&self->outgoing) + self->lingering.bytes);
}

typedef struct {
    service_t *service;
    const peer_t *peer;
    uid_t uid;
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

typedef struct {
    const peer_t *peer;
    job_t *job;
} search_t;

static void
s_search (void *context, job_t *job)
{
    search_t *search = context;
    if (connection_is_of (job_user (job), search->peer))
        search->job = job;
}

static bool
s_join (const message_t *message, refusal_t *refusal)
{
    service_t *self = message->service;
    search_t search = { .peer = message->peer };
    broker_each_job (self->options.broker, s_search, &search);
    if (search.job)
        return refuse (refusal, "already_joined",
            "this connection has job %llu: leave it first, or connect another",
            (unsigned long long) job_id (search.job));
    admission_t admission = {
        .broker = self->options.broker, .door = self->options.door, .ring_path = self->options.ring_path,
        .log = self->options.log, .outgoing = &self->outgoing, .peer = message->peer, .uid = message->uid,
            .now_ms = message->now_ms
    };
    //  What has ended must give back its memory before another takes some: else those who come and go within one turn would
    //  have more than the budget.
    s_carry_out_all (self);
    s_count_outside (self);
    char *text;
    job_t *job = admission_run (&admission, message->frames, message->count, &text, refusal);
    if (!job)
        return false;
    if (outbox_send_text (self->options.router, message->peer, WIRE_JOINED, job_id (job), message->head.tag,
        text)
            == OUTBOX_GONE)
        broker_gone (self->options.broker, job);
    else
    if (job_is_inline (job))
        broker_inline (self->options.broker, job, message->now_ms);
    return true;
}

//  The job that a message means, if it is this connection's; else a refusal.
static job_t *
s_own_job (const message_t *message, refusal_t *refusal)
{
    job_t *job = broker_job (message->service->options.broker, message->head.job);
    if (job && connection_is_of (job_user (job), message->peer))
        return job;
    //  It may have ended in this very turn; then ENDED must come first: without it, this refusal says that the server is not the
    //  one that the client knew, and the client would join anew, which a fenced one must not.
    s_carry_out_all (message->service);
    refuse (refusal, "unknown_job", "this connection has no job %llu (it may have ended)",
        (unsigned long long) message->head.job);
    return NULL;
}

static bool
s_inline (const message_t *message, job_t *job, refusal_t *refusal)
{
    service_t *self = message->service;
    connection_t *connection = job_user (job);
    if (connection->attached)
        return refuse (refusal, "bad_request", "the job's ring was taken already");
    if (!job_is_inline (job)) {
        door_forget (self->options.door, job_id (job));
        if (!connection_go_inline (connection))
            return refuse (refusal, "budget", "no memory for the job's batches");
    }
    broker_inline (self->options.broker, job, message->now_ms);
    return true;
}

static void
s_leave (const message_t *message, job_t *job)
{
    service_t *self = message->service;
    log_line (self->options.log, "job %llu left", (unsigned long long) job_id (job));
    outbox_send_text (self->options.router, message->peer, WIRE_ENDED, job_id (job), message->head.tag,
        reply_ended ("left", "the job has left"));
    broker_gone (self->options.broker, job);
}

static void
s_status (const message_t *message)
{
    service_t *self = message->service;
    s_count_outside (self);
    json_t *status = broker_status (self->options.broker, message->now_ms);
    connection_describe_datasets (self->options.broker, status);
    struct rusage usage;
    getrusage (RUSAGE_SELF, &usage);
    double cpu = (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
               + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    json_object_set_new (status, "cpu_seconds", json_real (cpu));
    json_object_set_new (status, "reading", json_string (tasks_reading_mode (self->options.tasks)));
    json_object_set_new (status, "reads_max", json_integer (tasks_depth (self->options.tasks)));
    json_object_set_new (status, "until_idle", idle_status (self->options.idle, broker_jobs (self->options.broker),
        message->now_ms));
    json_object_set_new (status, "version", json_string (TUREEN_VERSION));
    char *text = json_dumps (status, JSON_COMPACT);
    json_decref (status);
    job_t *job = broker_job (self->options.broker, message->head.job);
    bool is_own = job && connection_is_of (job_user (job), message->peer);
    if (is_own)
        broker_heartbeat (self->options.broker, job, message->now_ms);      //  whatever it asks, it lives
    if (text)
        outbox_send_text (self->options.router, message->peer, WIRE_STATUS_REPLY, is_own? message->head.job: 0,
            message->head.tag, text);
}

static bool
s_of_job (const message_t *message, refusal_t *refusal)
{
    broker_t *broker = message->service->options.broker;
    job_t *job = s_own_job (message, refusal);
    if (!job)
        return false;
    broker_heartbeat (broker, job, message->now_ms);        //  whatever it says, it lives
    wire_progress_t progress;
    switch (message->head.kind) {
    case WIRE_PROGRESS:
        return request_progress (&message->frames [1], &progress, refusal)
            && broker_progress (broker, job, &progress, message->now_ms, refusal);
    case WIRE_INLINE:
        return s_inline (message, job, refusal);
    case WIRE_LEAVE:
        s_leave (message, job);
        return true;
    case WIRE_EXPLAIN:
        return explaining_begin (message->service->explaining, job, message->peer, message->head.tag, &message->frames [1],
            refusal);
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
    message_t message = { .service = self, .peer = &peer, .uid = count > 1? s_peer_uid (&messages [1]): (uid_t) -1,
        .frames = frames, .count = count - 1, .now_ms = now_ms };
    if (count > 1)
        s_answer (&message);
    for (size_t index = 0; index < held; index++)
        zmq_msg_close (&messages [index]);
    return true;
}

int
service_receive (service_t *self, int64_t now_ms)
{
    int count = 0;
    while (count < SERVICE_MESSAGES_A_TURN && s_receive_one (self, now_ms))
        count++;
    return count;
}

void
service_attend (service_t *self, int64_t now_ms)
{
    door_event_t event;
    while (door_next (self->options.door, now_ms, &event)) {
        job_t *job = broker_job (self->options.broker, event.job);
        if (!job) {
            if (event.kind == DOOR_CLOSED)
                lingering_end (&self->lingering, event.job);
            continue;
        }
        if (event.kind == DOOR_ATTACHED) {
            ((connection_t *) job_user (job))->attached = true;
            broker_attached (self->options.broker, job, now_ms);
        }
        else {
            log_line (self->options.log, "job %llu is gone: its client closed the ring's socket",
                (unsigned long long) event.job);
            broker_gone (self->options.broker, job);
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
    job_t *job = action->job;
    connection_t *connection = job_user (job);
    if (job_is_over (job))
        return;
    uint32_t slot = action->batch.slot;
    uint32_t count = job_batch_rows (job, slot, self->rows, self->ids);
    assert (count == action->batch.count);
    s_close_holes (&connection->layout, connection_slot (connection, slot), self->rows, count);
    uint8_t *inline_slot = connection_take_inline (connection, slot);
    if (outbox_send_batch (self->options.router, &connection->peer, job_id (job), &action->batch, self->ids,
            inline_slot, connection->layout.slot_bytes) == OUTBOX_GONE)
        broker_gone (self->options.broker, job);
}

static void
s_copy (service_t *self, place_t *place)
{
    job_t *job = place_job (place);
    connection_t *connection = job_user (job);
    uint8_t *slot = connection_slot (connection, place_slot (place));
    if (!slot) {
        //  No memory for an inline batch: the job cannot go on, others can.
        log_line (self->options.log, "job %llu ends: no memory for its batches",
            (unsigned long long) job_id (job));
        broker_copied (self->options.broker, place);
        broker_end (self->options.broker, job, "memory", "the server has no memory for the job's batches");
        return;
    }
    tasks_copy (self->options.tasks, place, &connection->layout, slot);
}

//  The client of a job that the server has ended may go on looking at what is in its ring.  True: it will say when it is done.
static bool
s_part (service_t *self, uint64_t job, connection_t *connection)
{
    if (!connection || !connection->ended || !connection->ring)
        return false;
    if (self->stopping) {
        ring_leave (&connection->ring);
        return false;
    }
    if (!door_part (self->options.door, job))
        return false;
    lingering_keep (&self->lingering, self->options.door, job, &connection->ring);
    return true;
}

static void
s_bury (service_t *self, job_t *job)
{
    connection_t *connection = job_user (job);
    if (!s_part (self, job_id (job), connection))
        door_forget (self->options.door, job_id (job));
    connection_destroy (&connection);
    broker_bury (self->options.broker, job);
}

static void
s_send_notice (service_t *self, const action_t *action)
{
    job_t *job = action->job;
    const connection_t *connection = job_user (job);
    log_line (self->options.log, "job %llu, %s: %s", (unsigned long long) job_id (job), action->reason, action->message);
    if (!job_is_over (job) && outbox_send_text (self->options.router, &connection->peer, WIRE_NOTICE, job_id (job), 0,
            reply_notice (action->reason, action->message)) == OUTBOX_GONE)
        broker_gone (self->options.broker, job);
}

static void
s_carry_out (service_t *self, const action_t *action)
{
    job_t *job = action->job;
    connection_t *connection = job? job_user (job): NULL;
    void *router = self->options.router;
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
        if (!job_is_over (job) && outbox_send (router, &connection->peer, WIRE_EPOCH_END, job_id (job), 0,
                &action->epoch_end, sizeof action->epoch_end) == OUTBOX_GONE)
            broker_gone (self->options.broker, job);
        break;
    case ACTION_SEND_ENDED:
        connection->ended = true;
        log_line (self->options.log, "job %llu ended: %s", (unsigned long long) job_id (job),
            action->message);
        outbox_send_text (router, &connection->peer, WIRE_ENDED, job_id (job), 0,
            reply_ended (action->reason, action->message));
        break;
    case ACTION_SEND_NOTICE:
        s_send_notice (self, action);
        break;
    case ACTION_BURY:
        s_bury (self, job);
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
    tasks_collect (self->options.tasks);
    explaining_collect (self->explaining, false);
    broker_advance (self->options.broker, now_ms);
    s_carry_out_all (self);
}

typedef struct {
    service_t *service;
    int64_t now_ms;
} beat_t;

static void
s_beat (void *context, job_t *job)
{
    const beat_t *beat = context;
    service_t *self = beat->service;
    const connection_t *connection = job_user (job);
    if (connection->attached)
        return;
    if (outbox_send (self->options.router, &connection->peer, WIRE_HEARTBEAT, job_id (job), 0, NULL, 0)
            == OUTBOX_GONE) {
        log_line (self->options.log, "job %llu is gone: its connection is closed",
            (unsigned long long) job_id (job));
        broker_gone (self->options.broker, job);
    }
}

void
service_beat (service_t *self, int64_t now_ms)
{
    //  What bursts of messages and jobs have left with the allocator goes back to the system.
    malloc_trim (0);
    beat_t beat = { self, now_ms };
    broker_each_job (self->options.broker, s_beat, &beat);
}

static void
s_end_job (void *context, job_t *job)
{
    service_t *self = context;
    connection_t *connection = job_user (job);
    connection->ended = true;
    outbox_send_text (self->options.router, &connection->peer, WIRE_ENDED, job_id (job), 0,
        reply_ended ("stopping", "the server is ending"));
    broker_gone (self->options.broker, job);
}

void
service_stop (service_t *self, int64_t now_ms)
{
    self->stopping = true;
    //  Progress and leaves that came just before; not for ever, since somebody may go on sending.
    for (int turn = 0; turn < STOP_TURNS_MAX && service_receive (self, now_ms) > 0; turn++);
    broker_each_job (self->options.broker, s_end_job, self);
    tasks_stop (self->options.tasks);
    explaining_collect (self->explaining, true);
    action_t action;
    while (broker_next (self->options.broker, &action))
        if (action.kind == ACTION_BURY)
            s_bury (self, action.job);
}
