#include "courier.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "address.h"
#include "attach.h"
#include "dealer.h"

#define COURIER_MAGIC 0x434f5552u

enum {
    COURIER_TICK_MS = 1000,             //  the longest sleep; so `consumed` is never older
    COURIER_RETRY_MS = 10,              //  when a socket had no room
    COURIER_JOIN_TAG = 1,
    COURIER_BURST = 64                  //  messages read before we look at the rest of the world
};

//  What may follow what:
//
//      JOINING ---> RUNNING ---> LEAVING ---> OVER
//         |            |            ^           ^
//         |            +--> FAILED -+-----------+
//         +-------------------------------------+
typedef enum { JOINING, RUNNING, FAILED, LEAVING, OVER, PHASES } phase_t;

static const bool s_allowed [PHASES] [PHASES] = {
    [JOINING] = { [RUNNING] = true, [OVER] = true },
    [RUNNING] = { [FAILED] = true, [LEAVING] = true },
    [FAILED] = { [LEAVING] = true, [OVER] = true },
    [LEAVING] = { [OVER] = true }
};

//  Where the stream of batches is: what must come next.
typedef struct {
    uint64_t sequence;
    uint64_t epoch;
    uint64_t index;
    uint64_t samples;                   //  of this epoch so far
    bool last;                          //  the last epoch's end has come
} stream_t;

struct courier {
    uint32_t magic;
    pthread_t thread;
    bool started;
    //  Set at birth.
    handover_t *handover;
    const joining_t *joining;           //  NULL once joined
    char address [ADDRESS_BYTES];
    int timeout_ms;
    //  The thread's own.
    phase_t phase;
    dealer_t *dealer;                   //  NULL once the server is gone
    attach_t *attach;                   //  NULL: nothing of a ring was taken
    uint64_t job;
    bool inlined;
    uint32_t heartbeat_ms;
    stream_t stream;
    wire_progress_t told;               //  the last PROGRESS
    int64_t deadline_ms;                //  of JOINING and LEAVING
    bool heard;                         //  a message of the server since ticked_ms
    int64_t ticked_ms;                  //  when silence_ms was counted last
    int64_t silence_ms;                 //  how long we have listened to nothing
    int64_t beat_ms;                    //  our last HEARTBEAT
    int64_t lost_ms;                    //  when we saw the server's end; 0: alive, as far as we know
    const char *lost_how;
    dealer_message_t message;
};

static void
s_move (courier_t *self, phase_t next)
{
    assert (s_allowed [self->phase] [next]);
    self->phase = next;
}

//  --------------------------------------------------------------------------
//  Ends

//  The job cannot be joined: tells the one who waits.
static void
s_refuse (courier_t *self, int rc, const message_error_t *why)
{
    handover_report (self->handover, rc, why);
    s_move (self, OVER);
}

//  The job is lost.  In JOINING nobody has it yet; when leaving nobody wants it any more.
static void
s_fail (courier_t *self, int rc, const message_error_t *why)
{
    if (self->phase == JOINING)
        s_refuse (self, rc, why);
    else if (self->phase == RUNNING) {
        handover_fail (self->handover, why);
        s_move (self, FAILED);
    }
    else if (self->phase == LEAVING)
        s_move (self, OVER);
}

//  Says where, and what became of the server.  Our own reasons only; the server's texts stand for themselves.
static void
s_fail_at (courier_t *self, int rc, const char *what)
{
    message_error_t why;
    message_fail (&why, "%.200s (server at %.250s)", what, self->address);
    s_fail (self, rc, &why);
}

static void
s_see_loss (courier_t *self, const char *how)
{
    if (self->lost_ms == 0) {
        self->lost_ms = dealer_now_ms ();
        self->lost_how = how;
    }
}

//  --------------------------------------------------------------------------
//  Sending

static bool
s_send (courier_t *self, wire_kind_t kind)
{
    wire_head_t head = message_head (kind, self->job, 0);
    return dealer_send (self->dealer, &head, NULL, 0);
}

static bool
s_send_join (courier_t *self)
{
    message_frame_t frames [WIRE_FRAMES_MAX];
    size_t count = joining_frame_count (self->joining);
    for (size_t index = 0; index < count; index++)
        frames [index] = joining_frame (self->joining, index);
    wire_head_t head = message_head (WIRE_JOIN, 0, COURIER_JOIN_TAG);
    return dealer_send (self->dealer, &head, frames, count);
}

static void
s_send_progress (courier_t *self, const wire_progress_t *progress)
{
    if (!memcmp (progress, &self->told, sizeof *progress))
        return;
    wire_head_t head = message_head (WIRE_PROGRESS, self->job, 0);
    message_frame_t frame = { .data = (const uint8_t *) progress, .size = sizeof *progress };
    if (dealer_send (self->dealer, &head, &frame, 1))
        self->told = *progress;
}

//  Twice as often as we promised.
static void
s_send_heartbeat (courier_t *self, int64_t now_ms)
{
    if (self->inlined && now_ms - self->beat_ms >= self->heartbeat_ms / 2 && s_send (self, WIRE_HEARTBEAT))
        self->beat_ms = now_ms;
}

//  --------------------------------------------------------------------------
//  Joining

//  Takes the ring, or asks for inline.  0, or -errno.
static int
s_take_transport (courier_t *self, message_joined_t *joined)
{
    const char *path = message_joined_ring_path (joined);
    if (path && attach_new (&self->attach, path, message_joined_ring_token (joined),
            message_joined_ring_bytes (joined)) == 0)
        return 0;
    message_joined_set_inline (joined);
    self->inlined = true;
    return s_send (self, WIRE_INLINE)? 0: -EAGAIN;
}

static void
s_take_joined (courier_t *self)
{
    message_error_t why;
    message_joined_t *joined;
    if (!message_read_joined (self->message.frames, self->message.count, joining_batch_size (self->joining),
            &joined, &why)) {
        s_fail_at (self, -EPROTO, why.text);
        return;
    }
    self->job = message_joined_info (joined)->job;
    self->heartbeat_ms = message_joined_heartbeat_ms (joined);
    int rc = s_take_transport (self, joined);
    if (rc == 0 && !handover_open (self->handover, &joined, self->attach? attach_data (self->attach): NULL))
        rc = -ENOMEM;
    message_joined_destroy (&joined);
    if (rc) {
        s_fail_at (self, rc, "out of memory for the job's window");
        return;
    }
    self->joining = NULL;
    s_move (self, RUNNING);
    handover_report (self->handover, 0, NULL);
}

//  --------------------------------------------------------------------------
//  Receiving

static void
s_take_batch (courier_t *self)
{
    message_error_t why;
    wire_batch_t batch;
    stream_t *stream = &self->stream;
    dealer_message_t *message = &self->message;
    if (!message_read_batch (message->frames, message->count, handover_joined (self->handover), &batch, &why))
        s_fail_at (self, -EPROTO, why.text);
    else if (stream->last || batch.sequence != stream->sequence || batch.epoch != stream->epoch
    ||  batch.index != stream->index)
        s_fail_at (self, -EPROTO, "the server sent a batch out of its order");
    else if (!handover_put_batch (self->handover, &batch, message->frames [2].data,
            self->inlined? &message->parts [3]: NULL))
        s_fail_at (self, -EPROTO, "the server sent a batch into a slot that is not free, or memory is out");
    else {
        stream->sequence++;
        stream->index++;
        stream->samples += batch.count;
    }
}

static void
s_take_epoch_end (courier_t *self)
{
    message_error_t why;
    wire_epoch_end_t epoch_end;
    stream_t *stream = &self->stream;
    if (!message_read_epoch_end (self->message.frames, self->message.count, &epoch_end, &why))
        s_fail_at (self, -EPROTO, why.text);
    else if (stream->last || epoch_end.epoch != stream->epoch || epoch_end.batches != stream->index
    ||  epoch_end.samples != stream->samples)
        s_fail_at (self, -EPROTO, "the server ended an epoch with other figures than its batches have");
    else {
        stream->epoch++;
        stream->index = stream->samples = 0;
        stream->last = epoch_end.flags & WIRE_EPOCH_LAST;
        handover_put_epoch_end (self->handover, &epoch_end);
    }
}

//  ENDED and ERROR: the server gave the job up, refused it, or confirms that we left.
static void
s_take_note (courier_t *self, bool ended)
{
    message_error_t why;
    message_note_t note;
    if (!message_read_note (self->message.frames, self->message.count, &note, &why)) {
        s_fail_at (self, -EPROTO, why.text);
        return;
    }
    if (ended)
        message_fail (&why, "the server ended the job: %s (%s)", note.text, note.code);
    else
        message_fail (&why, "the server refused: %s (%s)", note.text, note.code);
    s_fail (self, -ECONNREFUSED, &why);
}

static void
s_take_message (courier_t *self)
{
    wire_head_t head;
    message_error_t why;
    message_status_t status = message_read_head (self->message.frames, self->message.count, &head, &why);
    if (status == MESSAGE_BROKEN)
        s_fail_at (self, -EPROTO, why.text);
    //  A job that is not ours is none of our business: an answer that came late.
    if (status != MESSAGE_OK || (head.job && self->job && head.job != self->job))
        return;
    if (head.kind == WIRE_ERROR || head.kind == WIRE_ENDED)
        s_take_note (self, head.kind == WIRE_ENDED);
    else if (self->phase == JOINING && head.kind == WIRE_JOINED && head.tag == COURIER_JOIN_TAG)
        s_take_joined (self);
    else if (self->phase == RUNNING && head.kind == WIRE_BATCH)
        s_take_batch (self);
    else if (self->phase == RUNNING && head.kind == WIRE_EPOCH_END)
        s_take_epoch_end (self);
}

//  Takes what has come, as long as the user's queue has room.
static void
s_receive (courier_t *self)
{
    for (int count = 0; count < COURIER_BURST; count++) {
        if (self->phase == OVER || self->phase == FAILED || (self->phase == RUNNING
        &&  handover_look (self->handover).full))
            return;
        if (!dealer_receive (self->dealer, &self->message))
            return;
        self->heard = true;
        s_take_message (self);
    }
}

//  --------------------------------------------------------------------------
//  Time

//  A long pause of this whole process is not the server's silence: it counts for one heartbeat.
static void
s_check_silence (courier_t *self, int64_t now_ms)
{
    if (!self->inlined)
        return;
    int64_t heartbeat_ms = self->heartbeat_ms, passed_ms = now_ms - self->ticked_ms;
    self->silence_ms = self->heard? 0: self->silence_ms + (passed_ms < heartbeat_ms? passed_ms: heartbeat_ms);
    self->heard = false;
    self->ticked_ms = now_ms;
    if (self->silence_ms > heartbeat_ms * COURIER_SILENT_HEARTBEATS)
        s_see_loss (self, "the server has been silent for ten heartbeats");
}

//  The server's end, once the message that may explain it had its time.
static void
s_check_loss (courier_t *self, int64_t now_ms)
{
    if (self->lost_ms == 0 || now_ms - self->lost_ms < COURIER_GRACE_MS)
        return;
    s_fail_at (self, -ECONNRESET, self->lost_how);
    if (self->phase == FAILED)
        s_move (self, OVER);
}

static void
s_check_deadline (courier_t *self, int64_t now_ms)
{
    if (now_ms < self->deadline_ms)
        return;
    message_error_t why;
    if (self->phase == JOINING) {
        address_fail (self->address, self->timeout_ms, &why);
        s_refuse (self, -ETIMEDOUT, &why);
    }
    else if (self->phase == LEAVING)
        s_move (self, OVER);
}

//  How long to sleep at most.
static int64_t
s_patience_ms (const courier_t *self, int64_t now_ms, bool unsent)
{
    int64_t wake_ms = now_ms + (unsent? COURIER_RETRY_MS: COURIER_TICK_MS);
    if ((self->phase == JOINING || self->phase == LEAVING) && self->deadline_ms < wake_ms)
        wake_ms = self->deadline_ms;
    if (self->lost_ms && self->lost_ms + COURIER_GRACE_MS < wake_ms)
        wake_ms = self->lost_ms + COURIER_GRACE_MS;
    if (self->inlined && self->beat_ms + self->heartbeat_ms / 2 < wake_ms)
        wake_ms = self->beat_ms + self->heartbeat_ms / 2;
    return wake_ms > now_ms? wake_ms - now_ms: 0;
}

//  --------------------------------------------------------------------------
//  The thread

//  Tells the server what the user did; leaves when there is nothing more to want.
static void
s_tell (courier_t *self, const handover_view_t *view, int64_t now_ms)
{
    if (self->phase != RUNNING && !(self->phase == FAILED && view->stop))
        return;
    if (self->phase == RUNNING) {
        s_send_progress (self, &view->progress);
        s_send_heartbeat (self, now_ms);
    }
    if (view->leave && s_send (self, WIRE_LEAVE)) {
        self->deadline_ms = now_ms + COURIER_LEAVE_MS;
        s_move (self, LEAVING);
    }
}

//  Sleeps until something happens, and takes note of it.
static void
s_poll (courier_t *self, const handover_view_t *view, int64_t now_ms)
{
    zmq_pollitem_t items [DEALER_POLL_ITEMS + 2] = { { 0 } };
    dealer_poll_items (self->dealer, items);
    if (view->full || self->phase == FAILED)
        items [0].events = 0;
    if (self->lost_ms)
        items [1].events = 0;
    items [2] = (zmq_pollitem_t) { .fd = handover_descriptor (self->handover), .events = ZMQ_POLLIN };
    int count = 3;
    if (self->attach && attach_socket (self->attach) >= 0 && !self->lost_ms)
        items [count++] = (zmq_pollitem_t) { .fd = attach_socket (self->attach), .events = ZMQ_POLLIN };
    bool unsent = self->phase == RUNNING && memcmp (&view->progress, &self->told, sizeof self->told);
    if (zmq_poll (items, count, s_patience_ms (self, now_ms, unsent)) <= 0)
        return;
    if (items [1].revents && dealer_is_lost (self->dealer))
        s_see_loss (self, "the connection to the server broke");
    if (count == 4 && items [3].revents && attach_is_over (self->attach))
        s_see_loss (self, "the server is gone");
    if (items [0].revents)
        s_receive (self);
}

static void
s_serve (courier_t *self)
{
    while (self->phase != OVER) {
        handover_view_t view = handover_look (self->handover);
        int64_t now_ms = dealer_now_ms ();
        s_tell (self, &view, now_ms);
        s_poll (self, &view, now_ms);
        now_ms = dealer_now_ms ();
        self->heard |= view.full;       //  we did not listen
        s_check_silence (self, now_ms);
        s_check_loss (self, now_ms);
        s_check_deadline (self, now_ms);
    }
}

static void *
s_run (void *argument)
{
    courier_t *self = argument;
    message_error_t why;
    int rc = dealer_new (&self->dealer, self->address, &why);
    if (rc) {
        s_refuse (self, rc, &why);
        return NULL;
    }
    dealer_message_init (&self->message);
    self->ticked_ms = dealer_now_ms ();
    self->deadline_ms = self->ticked_ms + self->timeout_ms;
    bool sent = s_send_join (self);
    assert (sent);                      //  the first message has room
    s_serve (self);
    dealer_message_clear (&self->message);
    dealer_destroy (&self->dealer);
    if (self->attach)
        attach_close_socket (self->attach);
    return NULL;
}

int
courier_new (courier_t **self_p, const courier_options_t *options)
{
    assert (self_p && options && options->handover && options->joining && options->address);
    *self_p = NULL;
    courier_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->magic = COURIER_MAGIC;
    self->handover = options->handover;
    self->joining = options->joining;
    self->timeout_ms = options->timeout_ms;
    snprintf (self->address, sizeof self->address, "%s", options->address);
    //  The user's signals are for the user's threads.
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = -pthread_create (&self->thread, NULL, s_run, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    self->started = rc == 0;
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    courier_destroy (&self);
    return rc;
}

void
courier_destroy (courier_t **self_p)
{
    assert (self_p);
    courier_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == COURIER_MAGIC);
    if (self->started)
        pthread_join (self->thread, NULL);
    attach_destroy (&self->attach);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}
