#include "courier_state.h"
#include "presence.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COURIER_MAGIC 0x434f5552u

enum {
    COURIER_TICK_MS = 1000,             //  the longest sleep; so `consumed` is never older
    COURIER_AWAY_TICK_MS = 100,         //  the same while AWAY, where the user's queue is waited for too
    COURIER_RETRY_MS = 10,              //  when a socket had no room
    COURIER_BURST = 64                  //  messages read before other events are handled
};

static const bool s_allowed [PHASES] [PHASES] = {
    [JOINING] = { [RUNNING] = true, [AWAY] = true, [OVER] = true },
    [RUNNING] = { [AWAY] = true, [FAILED] = true, [LEAVING] = true },
    [AWAY] = { [RUNNING] = true, [OVER] = true },
    [FAILED] = { [LEAVING] = true, [OVER] = true },
    [LEAVING] = { [OVER] = true }
};

void
courier_move (courier_t *self, phase_t next)
{
    assert (s_allowed [self->phase] [next]);
    self->phase = next;
}

//  --------------------------------------------------------------------------
//  Ends

//  The job cannot be joined: tells the waiting thread.
static void
s_refuse (courier_t *self, int rc, const message_error_t *why)
{
    handover_report (self->handover, rc, why);
    courier_move (self, OVER);
}

//  The job is lost.  No error before it was joined, because the user does not have the loader yet; nor when
//  leaving, because the user has given the job up.
void
courier_fail (courier_t *self, int rc, const message_error_t *why)
{
    inquiry_close (self->inquiry, why->text);
    if (!courier_has_joined (self))
        s_refuse (self, rc, why);
    else if (self->phase == RUNNING || self->phase == AWAY) {
        handover_fail (self->handover, why);
        courier_move (self, self->phase == RUNNING? FAILED: OVER);
    }
    else if (self->phase == LEAVING)
        courier_move (self, OVER);
}

//  Adds the address and the state of the server.  Only for our own reasons; the server's texts stay as they
//  are.
void
courier_fail_at (courier_t *self, int rc, const char *what)
{
    message_error_t why;
    message_fail (&why, "%.200s (server at %.250s)", what, self->address);
    courier_fail (self, rc, &why);
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

bool
courier_send (courier_t *self, wire_kind_t kind)
{
    wire_head_t head = message_head (kind, self->job, 0);
    return dealer_send (self->dealer, &head, NULL, 0);
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

//  Sends the question of the user's threads.
static void
s_send_question (courier_t *self)
{
    inquiry_question_t question;
    if (!inquiry_look (self->inquiry, &question))
        return;
    wire_head_t head = message_head (question.kind, question.kind == WIRE_STATUS? 0: self->job, question.tag);
    message_frame_t frame = { .data = (const uint8_t *) question.text, .size = strlen (question.text) };
    if (dealer_send (self->dealer, &head, &frame, 1))
        inquiry_sent (self->inquiry, question.tag);
}

//  Twice as often as promised.
static void
s_send_heartbeat (courier_t *self, int64_t now_ms)
{
    if (self->inlined && now_ms - self->beat_ms >= self->heartbeat_ms / 2
        && courier_send (self, WIRE_HEARTBEAT))
        self->beat_ms = now_ms;
}

//  --------------------------------------------------------------------------
//  Receiving

static void
s_take_stream (courier_t *self, uint8_t kind)
{
    message_error_t why;
    bool fine = kind == WIRE_BATCH? stream_take_batch (&self->stream, &self->message, &why):
        stream_take_epoch_end (&self->stream, &self->message, &why);
    if (!fine)
        courier_fail_at (self, -EPROTO, why.text);
}

//  The server has no room for another job at the moment.  False: no more tries, or the time is up.
static bool
s_ask_again (courier_t *self)
{
    int64_t now_ms = dealer_now_ms (), pause_ms = (int64_t) COURIER_BUSY_MS << self->busy_tries;
    if (self->busy_tries == COURIER_BUSY_TRIES || now_ms + pause_ms >= self->deadline_ms)
        return false;
    self->busy_tries++;
    self->again_ms = now_ms + pause_ms;
    return true;
}

//  ENDED and ERROR: the server gave the job up, refused it, or confirms that we left.
static void
s_take_note (courier_t *self, bool ended)
{
    message_error_t why;
    message_note_t note;
    if (!message_read_note (self->message.frames, self->message.count, &note, &why)) {
        courier_fail_at (self, -EPROTO, why.text);
        return;
    }
    //  A long text leaves room for the code.
    message_fail (&why, "%s: %.420s (%s)", ended? "the server ended the job": "the server refused", note.text,
        note.code);
    if (!ended && self->phase == JOINING && !strcmp (note.code, "busy") && s_ask_again (self))
        return;
    if (rejoin_helps (note.code) && courier_can_go_on (self))
        courier_go_away (self, why.text);
    else if (self->phase == AWAY && rejoin_may_pass (note.code, courier_has_joined (self)))
        courier_postpone (self, why.text);
    else
        courier_fail (self, -ECONNREFUSED, &why);
}

static void
s_take_notice (courier_t *self)
{
    message_error_t why;
    message_note_t note;
    if (!message_read_note (self->message.frames, self->message.count, &note, &why))
        return;
    uint64_t count;
    char *json;
    if (self->phase != RUNNING && !strcmp (note.code, "gathering"))
        courier_wait_for_ranks (self, note.text);
    else if (!strcmp (note.code, "unreadable")
    &&  message_read_unreadable (self->message.frames, self->message.count, &count, &json, &why))
        handover_put_unreadable (self->handover, count, json, note.text);
    else
        handover_put_notice (self->handover, note.text);
}

static void
s_take_message (courier_t *self)
{
    wire_head_t head;
    message_error_t why;
    message_status_t status = message_read_head (self->message.frames, self->message.count, &head, &why);
    if (status == MESSAGE_BROKEN)
        courier_fail_at (self, -EPROTO, why.text);
    //  Ignores a message for another job: an answer that came late.
    if (status != MESSAGE_OK || (head.job && self->job && head.job != self->job))
        return;
    bool joining = self->phase == JOINING || self->phase == AWAY;
    if ((head.kind == WIRE_ERROR || head.kind == WIRE_STATUS_REPLY || head.kind == WIRE_EXPLAIN_REPLY)
    &&  inquiry_take (self->inquiry, &head, self->message.frames, self->message.count))
        return;
    //  Before we have a job, a message without our tag is for a job that we left.
    if (joining && head.tag != self->join_tag && (head.job || head.kind != WIRE_ERROR))
        return;
    if (head.kind == WIRE_ERROR || head.kind == WIRE_ENDED)
        s_take_note (self, head.kind == WIRE_ENDED);
    else if (joining && head.kind == WIRE_JOINED)
        courier_take_joined (self);
    else if (self->phase == RUNNING && (head.kind == WIRE_BATCH || head.kind == WIRE_EPOCH_END))
        s_take_stream (self, head.kind);
    else if ((self->phase == RUNNING || joining) && head.kind == WIRE_NOTICE)
        s_take_notice (self);
}

//  Takes received messages, while the user's queue has room.
static void
s_receive (courier_t *self)
{
    for (int count = 0; count < COURIER_BURST; count++) {
        if (self->phase == OVER || self->phase == FAILED || !self->dealer || (self->phase == RUNNING
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

//  The server's end, after the time for a message that explains it.  While we join, that message comes with
//  the end or not at all; and a wait would let ZeroMQ connect again and send the JOIN twice.
static void
s_check_loss (courier_t *self, int64_t now_ms)
{
    bool joining = self->phase == JOINING || self->phase == AWAY;
    if (self->lost_ms == 0 || (!joining && now_ms - self->lost_ms < COURIER_GRACE_MS))
        return;
    if (self->phase == AWAY)
        courier_postpone (self, self->lost_how);
    else if (courier_can_go_on (self))
        courier_go_away (self, self->lost_how);
    else {
        courier_fail_at (self, -ECONNRESET, self->lost_how);
        if (self->phase == FAILED)
            courier_move (self, OVER);
    }
}

//  A server that does not admit us says so in the handshake, which ZeroMQ reports.
static void
s_check_welcome (courier_t *self)
{
    message_error_t why;
    bool joining = self->phase == JOINING || (self->phase == AWAY && self->dealer);
    dealer_welcome_t welcome = joining? dealer_welcome (self->dealer, &why): DEALER_WELCOME;
    if (welcome == DEALER_WELCOME)
        return;
    //  A server with other keys, or none, may be the wrong one, and the right one may be back in a while.
    if (welcome == DEALER_SHUT_OUT && self->phase == AWAY)
        courier_postpone (self, why.text);
    else
        courier_fail (self, -EACCES, &why);
}

//  The time for the answer continues.
static void
s_check_busy (courier_t *self, int64_t now_ms)
{
    message_error_t why;
    if (self->phase != JOINING || self->again_ms == 0 || now_ms < self->again_ms)
        return;
    int64_t deadline_ms = self->deadline_ms;
    self->again_ms = 0;
    int rc = courier_send_join (self, &why);
    self->deadline_ms = deadline_ms;
    if (rc)
        courier_fail (self, rc, &why);
}

static void
s_check_deadline (courier_t *self, int64_t now_ms)
{
    if (now_ms < self->deadline_ms)
        return;
    message_error_t why;
    char how [PRESENCE_BYTES];
    if (self->phase == JOINING && self->gathering)
        courier_fail_at (self, -ETIMEDOUT, "the server waited for other ranks, and has fallen silent");
    else if (self->phase == JOINING && !dealer_was_connected (self->dealer)
        && presence_is_starting (self->address, how)
    &&  courier_can_go_on (self)) {
        message_fail (&why, "no server listens yet: %s", how);
        courier_go_away (self, why.text);
    }
    else if (self->phase == JOINING) {
        address_fail (self->address, self->timeout_ms, &why);
        s_refuse (self, -ETIMEDOUT, &why);
    }
    else if (self->phase == LEAVING)
        courier_move (self, OVER);
    else if (self->phase == AWAY && self->dealer)
        courier_postpone (self, NULL);
}

static int64_t
s_sooner (int64_t one_ms, int64_t other_ms)
{
    return one_ms < other_ms? one_ms: other_ms;
}

//  How long to sleep at most.
static int64_t
s_patience_ms (const courier_t *self, int64_t now_ms, bool unsent)
{
    int64_t wake_ms = now_ms + (unsent? COURIER_RETRY_MS: self->phase == AWAY? COURIER_AWAY_TICK_MS:
        COURIER_TICK_MS);
    if (self->phase == JOINING || self->phase == LEAVING)
        wake_ms = s_sooner (wake_ms, self->deadline_ms);
    if (self->phase == JOINING && self->again_ms)
        wake_ms = s_sooner (wake_ms, self->again_ms);
    if (self->lost_ms)
        wake_ms = s_sooner (wake_ms, self->lost_ms + COURIER_GRACE_MS);
    if (self->inlined)
        wake_ms = s_sooner (wake_ms, self->beat_ms + self->heartbeat_ms / 2);
    return wake_ms > now_ms? wake_ms - now_ms: 0;
}

//  --------------------------------------------------------------------------
//  The thread

//  Tells the server what the user did; leaves when the job is done.
static void
s_tell (courier_t *self, const handover_view_t *view, int64_t now_ms)
{
    if (self->phase != RUNNING && !(self->phase == FAILED && view->stop))
        return;
    if (self->phase == RUNNING) {
        s_send_progress (self, &view->progress);
        s_send_heartbeat (self, now_ms);
        s_send_question (self);
    }
    if (view->leave && courier_send (self, WIRE_LEAVE)) {
        inquiry_close (self->inquiry, "the job is over");
        self->deadline_ms = now_ms + COURIER_LEAVE_MS;
        courier_move (self, LEAVING);
    }
}

//  The monitor's events may have been read with a message.  True: this is news.
static bool
s_notice_loss (courier_t *self)
{
    if (!self->dealer || self->lost_ms || !dealer_is_lost (self->dealer))
        return false;
    s_see_loss (self, "the connection to the server broke");
    return true;
}

//  Sleeps until an event, and notes it.
static void
s_poll (courier_t *self, const handover_view_t *view, int64_t now_ms)
{
    zmq_pollitem_t items [DEALER_POLL_ITEMS + 2] = { { .fd = handover_descriptor (self->handover),
        .events = ZMQ_POLLIN } };
    int count = 1, ring = 0, dealer = 0;
    bool is_news = s_notice_loss (self);
    if (self->attach && attach_socket (self->attach) >= 0 && !self->lost_ms) {
        ring = count;
        items [count++] = (zmq_pollitem_t) { .fd = attach_socket (self->attach), .events = ZMQ_POLLIN };
    }
    if (self->dealer) {
        dealer = count;
        dealer_poll_items (self->dealer, items + count);
        count += DEALER_POLL_ITEMS;
        if ((view->full && self->phase == RUNNING) || self->phase == FAILED)
            items [dealer].events = 0;
        if (self->lost_ms)
            items [dealer + 1].events = 0;
    }
    bool unsent = self->phase == RUNNING && memcmp (&view->progress, &self->told, sizeof self->told);
    if (zmq_poll (items, count, is_news? 0: s_patience_ms (self, now_ms, unsent)) <= 0 && !is_news)
        return;
    s_notice_loss (self);
    if (ring && items [ring].revents && attach_is_over (self->attach))
        s_see_loss (self, "the server is gone");
    if (dealer && (items [dealer].revents || self->lost_ms))
        s_receive (self);               //  messages before the end count
}

static void
s_serve (courier_t *self)
{
    while (self->phase != OVER) {
        handover_view_t view = handover_look (self->handover);
        int64_t now_ms = dealer_now_ms ();
        if (self->phase == AWAY)
            courier_seek (self, &view, now_ms);
        else
            s_tell (self, &view, now_ms);
        if (self->phase == OVER)
            break;
        s_poll (self, &view, now_ms);
        now_ms = dealer_now_ms ();
        self->heard |= view.full;       //  we did not listen
        s_check_silence (self, now_ms);
        s_check_welcome (self);
        s_check_busy (self, now_ms);
        s_check_loss (self, now_ms);
        s_check_deadline (self, now_ms);
    }
}

static void *
s_run (void *argument)
{
    courier_t *self = argument;
    message_error_t why;
    dealer_message_init (&self->message);
    self->ticked_ms = dealer_now_ms ();
    self->context = dealer_begin_context ();
    int rc = dealer_new (&self->dealer, self->context, self->address, &self->credentials, &why);
    if (rc == 0)
        rc = courier_send_join (self, &why);
    if (rc)
        s_refuse (self, rc, &why);
    s_serve (self);
    inquiry_close (self->inquiry, "the job is over");
    dealer_message_clear (&self->message);
    dealer_destroy (&self->dealer);
    dealer_end_context (&self->context);
    //  A living server that ended the job empties the ring when the socket closes: so the window closes it.
    if (self->attach && self->lost_ms == 0)
        attach_close_socket (self->attach);
    return NULL;
}

int
courier_new (courier_t **self_p, const courier_options_t *options)
{
    assert (self_p && options && options->handover && options->inquiry && options->joining && options->address
        && options->credentials);
    *self_p = NULL;
    courier_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->magic = COURIER_MAGIC;
    self->handover = options->handover;
    self->inquiry = options->inquiry;
    self->joining = options->joining;
    self->credentials = *options->credentials;
    self->timeout_ms = options->timeout_ms;
    self->rejoin.limit_ms = options->rejoin_ms? options->rejoin_ms: REJOIN_DEFAULT_MS;
    self->stream.handover = options->handover;
    snprintf (self->address, sizeof self->address, "%s", options->address);
    //  Signals are for the user's threads.
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
    course_destroy (&self->received);
    stream_clear (&self->stream);
    credentials_wipe (&self->credentials);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}
