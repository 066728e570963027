#include "loader_thread.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "address.h"
#include "dealer.h"
#include "mapped_ring.h"
#include "recent_steps.h"
#include "rejoin.h"

#define LOADER_THREAD_MAGIC 0x4c544852u

enum {
    LOADER_THREAD_TICK_MS = 1000,       //  the longest sleep; so `consumed` is never older
    LOADER_THREAD_AWAY_TICK_MS = 100,   //  the same while AWAY, where the user's queue is waited for too
    LOADER_THREAD_RETRY_MS = 10,        //  when a socket had no room
    LOADER_THREAD_BURST = 64            //  messages read before other events are handled
};

//  What may follow what:
//
//         +------------------------+
//         |                        v
//      JOINING ---> RUNNING <--> AWAY --> OVER
//         |          |   |                 ^ ^
//         |          |   +--> FAILED ------+ |
//         |          |           |         | |
//         |          +-----------+-> LEAVING |
//         +----------------------------------+
typedef enum { JOINING, RUNNING, AWAY, FAILED, LEAVING, OVER, PHASES } phase_t;

struct loader_thread {
    uint32_t magic;
    pthread_t thread;
    bool started;
    //  Set at birth.
    batch_queue_t *batches;
    question_queue_t *questions;
    const job_options_t *options;
    char address [ADDRESS_BYTES];
    credentials_t credentials;
    int timeout_ms;
    //  The thread's own.
    phase_t phase;
    void *context;                      //  ZeroMQ's, of all dealers
    dealer_t *dealer;                   //  NULL: no connection (AWAY, between two tries)
    mapped_ring_t *ring;                //  the present window's, lent; NULL: none
    uint64_t join_tag;                  //  of the last JOIN
    uint64_t job;                       //  0: not joined
    char run [WIRE_RUN_BYTES + 1];
    bool inline_only;                   //  a received ring could not be mapped
    bool inlined;
    uint32_t heartbeat_ms;
    rejoin_t rejoin;
    wire_progress_t told;               //  the last PROGRESS
    int64_t deadline_ms;                //  of JOINING, LEAVING, and a try in AWAY
    int busy_tries;                     //  JOINING: how often the server was busy
    int64_t again_ms;                   //  JOINING: when to send JOIN again; 0: it is sent
    bool gathering;                     //  the server has our JOIN, and waits for other ranks
    int64_t stop_ms;                    //  AWAY: when the user asked to stop; 0: not yet
    bool heard;                         //  a message of the server since ticked_ms
    int64_t ticked_ms;                  //  when silence_ms was counted last
    int64_t silence_ms;                 //  how long the server has been silent while we listened
    int64_t beat_ms;                    //  our last HEARTBEAT
    int64_t lost_ms;                    //  when we saw the server's end; 0: alive, as far as we know
    const char *lost_how;
    dealer_message_t message;
    //  What came.  All joinings together are one run: a batch's sequence starts again with each joining, its
    //  epoch and index continue, and no sample comes twice in an epoch.
    position_t *received;
    recent_steps_t recent;              //  the last messages, over all joinings
    const message_joined_t *joined;     //  of the present joining, lent
    uint64_t sequence;                  //  of the next batch in this joining
    uint64_t before;                    //  batches of earlier joinings
    bool last;                          //  the last epoch's end has come
};

static const bool s_allowed [PHASES] [PHASES] = {
    [JOINING] = { [RUNNING] = true, [AWAY] = true, [OVER] = true },
    [RUNNING] = { [AWAY] = true, [FAILED] = true, [LEAVING] = true },
    [AWAY] = { [RUNNING] = true, [OVER] = true },
    [FAILED] = { [LEAVING] = true, [OVER] = true },
    [LEAVING] = { [OVER] = true }
};

static void
s_move (loader_thread_t *self, phase_t next)
{
    assert (s_allowed [self->phase] [next]);
    self->phase = next;
}

//  --------------------------------------------------------------------------
//  Ends

//  Whether the user has the loader.  Before that, tureen_loader_new reports an end.
static bool
s_has_joined (const loader_thread_t *self)
{
    return batch_queue_joined (self->batches) != NULL;
}

//  The job cannot be joined: tells the waiting thread.
static void
s_refuse (loader_thread_t *self, int rc, const message_error_t *why)
{
    batch_queue_report (self->batches, rc, why);
    s_move (self, OVER);
}

//  The job is lost.  No error before it was joined, because the user does not have the loader yet; nor when
//  leaving, because the user has given the job up.
static void
s_fail (loader_thread_t *self, int rc, const message_error_t *why)
{
    question_queue_close (self->questions, why->text);
    if (!s_has_joined (self))
        s_refuse (self, rc, why);
    else if (self->phase == RUNNING || self->phase == AWAY) {
        batch_queue_fail (self->batches, why);
        s_move (self, self->phase == RUNNING? FAILED: OVER);
    }
    else if (self->phase == LEAVING)
        s_move (self, OVER);
}

//  Adds the address and the state of the server.  Only for our own reasons; the server's texts stay as they
//  are.
static void
s_fail_at (loader_thread_t *self, int rc, const char *what)
{
    message_error_t why;
    message_fail (&why, "%.200s (server at %.250s)", what, self->address);
    s_fail (self, rc, &why);
}

static void
s_see_loss (loader_thread_t *self, const char *how)
{
    if (self->lost_ms == 0) {
        self->lost_ms = dealer_now_ms ();
        self->lost_how = how;
    }
}

//  --------------------------------------------------------------------------
//  Sending

//  A message of one frame, for the present job.  False: no room.
static bool
s_send (loader_thread_t *self, wire_kind_t kind)
{
    wire_head_t head = message_head (kind, self->job, 0);
    return dealer_send (self->dealer, &head, NULL, 0);
}

static void
s_send_progress (loader_thread_t *self, const wire_progress_t *progress)
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
s_send_question (loader_thread_t *self)
{
    question_t question;
    if (!question_queue_look (self->questions, &question))
        return;
    wire_head_t head = message_head (question.kind, question.kind == WIRE_STATUS? 0: self->job, question.tag);
    message_frame_t frame = { .data = (const uint8_t *) question.text, .size = strlen (question.text) };
    if (dealer_send (self->dealer, &head, &frame, 1))
        question_queue_sent (self->questions, question.tag);
}

//  --------------------------------------------------------------------------
//  Resuming

//  The state of what was received.  False: the job cannot be resumed, or no memory.
static bool
s_make_state (const loader_thread_t *self, state_t *state)
{
    const tureen_info_t *info = &batch_queue_joined (self->batches)->info;
    if (!job_options_describe (self->options, info, state))
        return false;
    memcpy (state->run, self->run, sizeof state->run);
    state->epoch = position_epoch (self->received);
    state->batches = position_batches (self->received);
    position_cut_t cut;
    if (!position_taken (self->received, &state->taken) || !position_cut (self->received, &cut))
        return false;
    job_options_set_part (self->options, state->batches, &cut, &state->part);
    return true;
}

//  Whether joining again helps: a loader that has not joined yet gets its job; a rank that lacks nothing lets
//  the others continue.
static bool
s_can_resume (const loader_thread_t *self)
{
    state_t state;
    if (self->phase == JOINING)
        return self->rejoin.limit_ms >= 0;
    if (self->phase != RUNNING || self->rejoin.limit_ms < 0
    ||  (self->last && self->options->world_size == 1))
        return false;
    bool fine = s_make_state (self, &state);
    state_clear (&state);
    return fine;
}

//  Drops the connection; the next one starts fresh.
static void
s_disconnect (loader_thread_t *self)
{
    dealer_destroy (&self->dealer);
    self->ring = NULL;
    self->job = 0;
    self->inlined = false;
    self->lost_ms = self->silence_ms = 0;
    self->told = (wire_progress_t) { .consumed = 0 };
}

//  The server is gone; begins to look for it.
static void
s_go_away (loader_thread_t *self, const char *how)
{
    message_error_t text;
    int64_t now_ms = dealer_now_ms ();
    s_disconnect (self);
    if (s_has_joined (self))
        batch_queue_retire (self->batches);
    question_queue_lose (self->questions);
    rejoin_begin (&self->rejoin, how, self->sequence > 0, now_ms);
    message_fail (&text, "%.250s; looking for it at %.150s for %g seconds", how, self->address,
        (double) self->rejoin.limit_ms / 1e3);
    if (!self->last)
        batch_queue_put_notice (self->batches, text.text);
    s_move (self, AWAY);
}

//  A try to join again failed; why NULL: no server answered.
static void
s_postpone (loader_thread_t *self, const char *why)
{
    s_disconnect (self);
    rejoin_postpone (&self->rejoin, why, dealer_now_ms ());
}

//  --------------------------------------------------------------------------
//  Joining

//  The server waits for other ranks, named in text: it is alive.
static void
s_wait_for_ranks (loader_thread_t *self, const char *text)
{
    bool is_longer = self->timeout_ms > LOADER_THREAD_GATHERING_MS;
    self->deadline_ms = dealer_now_ms () + (is_longer? self->timeout_ms: LOADER_THREAD_GATHERING_MS);
    //  A thread in tureen_loader_new cannot get a notice; a user that knows of the loss is told once that the
    //  server is back.
    if (self->phase == AWAY) {
        rejoin_hear (&self->rejoin, text);
        if (!self->gathering && !self->last)
            batch_queue_put_notice (self->batches, text);
    }
    self->gathering = true;
}

//  On a new dealer, or after LEAVE on the same.  0, or -errno and why.
static int
s_send_join (loader_thread_t *self, message_error_t *why)
{
    job_options_frames_t frames;
    state_t state;
    bool again = self->received != NULL;
    if (again && !s_make_state (self, &state)) {
        state_clear (&state);
        message_fail (why, "out of memory for the request");
        return -ENOMEM;
    }
    job_options_resume_t resume = { .from = again? &state: self->options->state,
        .inlined = self->inline_only };
    if (again) {
        resume.recent = recent_steps_numbers (&self->recent, &resume.recent_count);
        resume.gather_seconds = rejoin_left_seconds (&self->rejoin, dealer_now_ms ());
    }
    int rc = job_options_make_join (self->options, &resume, &frames, why);
    if (again)
        state_clear (&state);
    if (rc)
        return rc;
    wire_head_t head = message_head (WIRE_JOIN, 0, ++self->join_tag);
    //  Without room for it the server has refused us already, which s_check_welcome tells; or an old
    //  connection has broken, which s_check_loss tells.
    dealer_send (self->dealer, &head, frames.frames, frames.count);
    job_options_frames_clear (&frames);
    self->deadline_ms = dealer_now_ms () + self->timeout_ms;
    self->gathering = false;
    return 0;
}

//  Takes the ring, or asks for inline.  0, or -errno; -EREMCHG: the ring was taken and cannot be used;
//  -ETIMEDOUT: the server may still hand it over, so that neither is right; -ECONNRESET: the connection takes
//  no request.
static int
s_take_transport (loader_thread_t *self, message_joined_t *joined, mapped_ring_t **ring_p)
{
    const char *path = joined->ring_path;
    int rc = path? mapped_ring_new (ring_p, path, dealer_peer (self->dealer),
        joined->ring_token, joined->ring_bytes, self->timeout_ms): -ENOENT;
    if (rc == -EPERM && !*ring_p) {
        message_error_t text;
        message_fail (&text, "another user than the server's listens at '%.250s': batches come through the "
            "server's main socket, which is slower", path);
        batch_queue_put_notice (self->batches, text.text);
    }
    if (rc == 0 || rc == -ETIMEDOUT)
        return rc;
    if (*ring_p)
        return -EREMCHG;
    message_joined_set_inline (joined);
    self->inlined = true;
    return s_send (self, WIRE_INLINE)? 0: -ECONNRESET;
}

//  Lets it begin in the given state.
static int
s_begin (const job_options_t *options, position_t *position)
{
    const state_t *from = options->state;
    const position_cut_t fresh = { .batches = 0 };
    if (!position)
        return -ENOMEM;
    const position_cut_t *cut = from? &from->part.cut: &fresh;
    if (!position_set_node (position, options->nodes, options->node, cut))
        return -ENOMEM;
    return !from || position_resume (position, from->epoch, from->batches, &from->taken)? 0: -EPROTO;
}

//  Makes the positions, from the given state.
static int
s_make_positions (loader_thread_t *self, const tureen_info_t *info, position_t **given_p)
{
    const job_options_t *options = self->options;
    self->received = position_new (options->list, options->list_count, info->dataset_samples);
    *given_p = position_new (options->list, options->list_count, info->dataset_samples);
    int rc = s_begin (options, self->received);
    return rc? rc: s_begin (options, *given_p);
}

//  Opens the window of a job that was joined.  0, or -errno.
static int
s_open (loader_thread_t *self, message_joined_t **joined_p, mapped_ring_t **ring_p)
{
    position_t *given = NULL;
    bool first = !self->received;
    int rc = first? s_make_positions (self, &(*joined_p)->info, &given): 0;
    const message_joined_t *joined = *joined_p;
    mapped_ring_t *ring = *ring_p;
    window_t *window = rc? NULL:
        batch_queue_window_new (self->batches, joined_p, ring_p, ring? mapped_ring_data (ring): NULL,
        self->before + self->sequence);
    if (window) {
        self->ring = ring;
        snprintf (self->run, sizeof self->run, "%s", joined->info.run);
        if (!first)
            position_next_job (self->received);
        self->before += self->sequence;
        self->sequence = 0;
        self->joined = joined;
        self->recent.world_size = joined->info.world_size;
        self->recent.steps_max = joined->info.slots + 1;
        batch_queue_open (self->batches, &window, first? &given: NULL);
    }
    else if (rc == 0)
        rc = -ENOMEM;
    position_destroy (&given);
    return rc;
}

static const char s_no_room [] = "the connection to the server takes no request";

//  The job is useless: joins a new one on another connection.
static void
s_give_job_up (loader_thread_t *self, int rc, const char *how)
{
    if (self->phase == AWAY)
        s_postpone (self, how);
    else if (s_can_resume (self))
        s_go_away (self, how);
    else
        s_fail_at (self, rc, how);
}

//  Protocol: a client that cannot map its ring leaves, and joins again inline; on the same connection, so
//  that LEAVE is done before the JOIN.
static void
s_join_inline (loader_thread_t *self, mapped_ring_t **ring_p)
{
    message_error_t why;
    //  A rank that leaves would end the job for the other ranks.
    if (self->options->world_size > 1) {
        s_fail_at (self, -EPROTO, "the ring cannot be mapped; ask for TUREEN_INLINE");
        return;
    }
    self->inline_only = true;
    bool left = s_send (self, WIRE_LEAVE);
    self->job = 0;
    mapped_ring_destroy (ring_p);
    if (!left) {
        s_give_job_up (self, -ECONNRESET, s_no_room);
        return;
    }
    int rc = s_send_join (self, &why);
    if (rc)
        s_fail_at (self, rc, why.text);
}

//  The server is found again.
static void
s_come_back (loader_thread_t *self, const tureen_info_t *info, bool again)
{
    message_error_t text;
    int64_t now_ms = dealer_now_ms ();
    rejoin_found (&self->rejoin, now_ms);
    message_fail (&text, "the server is back after %.3g seconds; %s as job %" PRIu64 "%s",
        (double) (now_ms - self->rejoin.since_ms) / 1e3, again? "going on": "joined", info->job,
        again && info->forked? ", a fork: its run goes on elsewhere": "");
    if (!self->last)
        batch_queue_put_notice (self->batches, text.text);
}

static void
s_begin_running (loader_thread_t *self, const tureen_info_t *info, bool again)
{
    if (self->phase == AWAY)
        s_come_back (self, info, again);
    s_move (self, RUNNING);
    if (!again)
        batch_queue_report (self->batches, 0, NULL);
}

//  Whether JOINED is what was asked for, and fits the earlier joining.
static bool
s_is_ours (const loader_thread_t *self, const message_joined_t *joined, message_error_t *why)
{
    const tureen_info_t *info = &joined->info;
    uint32_t world_size = self->options->world_size, rank = self->options->rank;
    uint32_t nodes = self->options->nodes, node = self->options->node;
    if (info->world_size != world_size || info->rank != rank)
        return message_fail (why, "the server took this process for rank %" PRIu32 " of %" PRIu32 ", not "
            "%" PRIu32 " of %" PRIu32, info->rank, info->world_size, rank, world_size);
    if (info->nodes != nodes || info->node != node)
        return message_fail (why, "the server took this process for node %" PRIu32 " of %" PRIu32 ", not "
            "%" PRIu32 " of %" PRIu32, info->node, info->nodes, node, nodes);
    return !self->received || rejoin_is_same (batch_queue_joined (self->batches), joined, why);
}

//  Takes self->message, the JOINED that answers it.
static void
s_take_joined (loader_thread_t *self)
{
    message_error_t why;
    message_joined_t *joined;
    mapped_ring_t *ring = NULL;
    if (!message_read_joined (self->message.frames, self->message.count,
            self->options->batch_size, &joined, &why)) {
        s_fail_at (self, -EPROTO, why.text);
        return;
    }
    const tureen_info_t *info = &joined->info;
    self->job = info->job;
    self->heartbeat_ms = joined->heartbeat_ms;
    bool again = self->received != NULL;
    int rc = s_is_ours (self, joined, &why)? 0: -EPROTO;
    if (rc)
        s_fail_at (self, rc, why.text);
    else {
        rc = s_take_transport (self, joined, &ring);
        if (rc == -EREMCHG)
            s_join_inline (self, &ring);
        else if (rc == -ETIMEDOUT)
            //  It may still hand the ring over, to a closed socket.
            s_give_job_up (self, rc, "the server did not hand over the ring");
        else if (rc == -ECONNRESET)
            s_give_job_up (self, rc, s_no_room);
        else if (rc == 0 && (rc = s_open (self, &joined, &ring)) == 0)
            s_begin_running (self, info, again);
        else
            s_fail_at (self, rc, rc == -EPROTO? "the server took a state that does not fit its data":
                "out of memory for the job's window");
    }
    mapped_ring_destroy (&ring);
    message_joined_destroy (&joined);
}

//  --------------------------------------------------------------------------
//  Looking for the server

//  The user stops while the server is away.  If a JOIN may have arrived, waits for its answer, to leave its
//  job; a JOIN that waits for other ranks has no job yet.
static void
s_stop_away (loader_thread_t *self, int64_t now_ms)
{
    if (self->stop_ms == 0)
        self->stop_ms = now_ms;
    if (!self->dealer || self->gathering || !dealer_was_connected (self->dealer)
        || now_ms - self->stop_ms >= LOADER_THREAD_LEAVE_MS)
        s_move (self, OVER);
}

//  Looks for the server that is gone.
static void
s_search (loader_thread_t *self, const batch_queue_view_t *view, int64_t now_ms)
{
    message_error_t why;
    if (view->stop) {
        s_stop_away (self, now_ms);
        return;
    }
    //  A user that takes nothing needs no new window: otherwise each server that comes and goes would leave
    //  one behind.
    if (!self->dealer && view->queued > WIRE_SLOTS_MAX)
        self->rejoin.since_ms = now_ms;
    else if (rejoin_is_over (&self->rejoin, now_ms)) {
        rejoin_explain (&self->rejoin, self->address, now_ms, &why);
        s_fail (self, -ECONNRESET, &why);
    }
    else if (!self->dealer && rejoin_is_due (&self->rejoin, now_ms)) {
        int rc = dealer_new (&self->dealer, self->context, self->address, &self->credentials, &why);
        rc = rc? rc: s_send_join (self, &why);
        //  The server cannot come back to a place that is another user's.
        if (rc == -EPERM)
            s_fail (self, rc, &why);
        else if (rc)
            s_postpone (self, why.text);
    }
}

//  --------------------------------------------------------------------------
//  Batches and epoch ends: checked against what must come next, then put into the user's queue

//  Marks the step's ids as received: with ranks, those of the others too.
static bool
s_take_ids (loader_thread_t *self, const message_batch_t *batch)
{
    //  A few at a time: the array is ours and aligned.
    uint64_t ids [64];
    bool fine = true;
    for (size_t done = 0; done < batch->step_count; done += 64) {
        size_t part = batch->step_count - done < 64? batch->step_count - done: 64;
        memcpy (ids, batch->step + done * sizeof *ids, part * sizeof *ids);
        fine &= position_take (self->received, ids, part);
    }
    position_end_batch (self->received);
    return fine;
}

//  False: the server's mistake, or no memory; error tells which.
static bool
s_take_batch (loader_thread_t *self, message_error_t *error)
{
    message_batch_t batch;
    dealer_message_t *message = &self->message;
    if (!message_read_batch (message->frames, message->count, self->joined, &batch, error))
        return false;
    const wire_batch_t *head = &batch.head;
    if (self->last || head->sequence != self->sequence || head->epoch != position_epoch (self->received)
    ||  head->index != position_batches (self->received))
        return message_fail (error, "the server sent a batch out of its order");
    if (!s_take_ids (self, &batch))
        return message_fail (error, "the server sent a sample that is none of the epoch's, or twice");
    //  The frame with the bytes is moved from; the ids lie in others.
    if (!recent_steps_add (&self->recent, &batch)
    ||  !batch_queue_put_batch (self->batches, &batch, batch.payload? &message->parts [batch.payload]: NULL))
        return message_fail (error, "the server sent a batch into a slot that is not free, or memory is out");
    self->sequence++;
    return true;
}

//  Likewise.
static bool
s_take_epoch_end (loader_thread_t *self, message_error_t *error)
{
    wire_epoch_end_t epoch_end;
    uint64_t samples;
    if (!message_read_epoch_end (self->message.frames, self->message.count, &epoch_end, error))
        return false;
    bool known = position_samples (self->received, &samples);
    if (self->last || epoch_end.epoch != position_epoch (self->received)
    ||  epoch_end.batches != position_batches (self->received) || (known && epoch_end.samples != samples))
        return message_fail (error, "the server ended an epoch with other figures than its batches have");
    if (!recent_steps_add_end (&self->recent, &epoch_end))
        return message_fail (error, "out of memory for an epoch's end");
    position_end_epoch (self->received);
    self->last = epoch_end.flags & WIRE_EPOCH_LAST;
    batch_queue_put_epoch_end (self->batches, &epoch_end);
    return true;
}

//  --------------------------------------------------------------------------
//  Other messages

//  The server has no room for another job at the moment.  False: no more tries, or the time is up.
static bool
s_ask_again (loader_thread_t *self)
{
    int64_t now_ms = dealer_now_ms (), pause_ms = (int64_t) LOADER_THREAD_BUSY_MS << self->busy_tries;
    if (self->busy_tries == LOADER_THREAD_BUSY_TRIES || now_ms + pause_ms >= self->deadline_ms)
        return false;
    self->busy_tries++;
    self->again_ms = now_ms + pause_ms;
    return true;
}

//  ENDED and ERROR: the server gave the job up, refused it, or confirms that we left.
static void
s_take_note (loader_thread_t *self, bool ended)
{
    message_error_t why;
    message_note_t note;
    if (!message_read_note (self->message.frames, self->message.count, &note, &why)) {
        s_fail_at (self, -EPROTO, why.text);
        return;
    }
    //  A long text leaves room for the code.
    message_fail (&why, "%s: %.420s (%s)", ended? "the server ended the job": "the server refused", note.text,
        note.code);
    if (!ended && self->phase == JOINING && rejoin_asks_again (note.code) && s_ask_again (self))
        return;
    if (rejoin_helps (note.code) && s_can_resume (self))
        s_go_away (self, why.text);
    else if (self->phase == AWAY && rejoin_may_pass (note.code, s_has_joined (self)))
        s_postpone (self, why.text);
    else
        s_fail (self, -ECONNREFUSED, &why);
}

static void
s_take_notice (loader_thread_t *self)
{
    message_error_t why;
    message_note_t note;
    if (!message_read_note (self->message.frames, self->message.count, &note, &why))
        return;
    uint64_t count;
    char *json;
    if (self->phase != RUNNING && !strcmp (note.code, "gathering"))
        s_wait_for_ranks (self, note.text);
    else if (!strcmp (note.code, "unreadable")
    &&  message_read_unreadable (self->message.frames, self->message.count, &count, &json, &why))
        batch_queue_put_unreadable (self->batches, count, json, note.text);
    else
        batch_queue_put_notice (self->batches, note.text);
}

static void
s_take_message (loader_thread_t *self)
{
    wire_head_t head;
    message_error_t why;
    message_status_t status = message_read_head (self->message.frames, self->message.count, &head, &why);
    if (status == MESSAGE_BROKEN)
        s_fail_at (self, -EPROTO, why.text);
    //  Ignores a message for another job: an answer that came late.
    if (status != MESSAGE_OK || (head.job && self->job && head.job != self->job))
        return;
    bool joining = self->phase == JOINING || self->phase == AWAY;
    if ((head.kind == WIRE_ERROR || head.kind == WIRE_STATUS_REPLY || head.kind == WIRE_EXPLAIN_REPLY)
    &&  question_queue_take (self->questions, &head, self->message.frames, self->message.count))
        return;
    //  Before we have a job, a message without our tag is for a job that we left.
    if (joining && head.tag != self->join_tag && (head.job || head.kind != WIRE_ERROR))
        return;
    if (head.kind == WIRE_ERROR || head.kind == WIRE_ENDED)
        s_take_note (self, head.kind == WIRE_ENDED);
    else if (joining && head.kind == WIRE_JOINED)
        s_take_joined (self);
    else if (self->phase == RUNNING && (head.kind == WIRE_BATCH || head.kind == WIRE_EPOCH_END)) {
        if (!(head.kind == WIRE_BATCH? s_take_batch (self, &why): s_take_epoch_end (self, &why)))
            s_fail_at (self, -EPROTO, why.text);
    }
    else if ((self->phase == RUNNING || joining) && head.kind == WIRE_NOTICE)
        s_take_notice (self);
}

//  Takes received messages, while the user's queue has room.
static void
s_receive (loader_thread_t *self)
{
    for (int count = 0; count < LOADER_THREAD_BURST; count++) {
        if (self->phase == OVER || self->phase == FAILED || !self->dealer || (self->phase == RUNNING
        &&  batch_queue_look (self->batches).full))
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
s_check_silence (loader_thread_t *self, int64_t now_ms)
{
    if (!self->inlined)
        return;
    int64_t heartbeat_ms = self->heartbeat_ms, passed_ms = now_ms - self->ticked_ms;
    self->silence_ms = self->heard? 0: self->silence_ms + (passed_ms < heartbeat_ms? passed_ms: heartbeat_ms);
    self->heard = false;
    self->ticked_ms = now_ms;
    if (self->silence_ms > heartbeat_ms * LOADER_THREAD_SILENT_HEARTBEATS)
        s_see_loss (self, "the server has been silent for ten heartbeats");
}

//  The server's end, after the time for a message that explains it.  While we join, that message comes with
//  the end or not at all; and a wait would let ZeroMQ connect again and send the JOIN twice.
static void
s_check_loss (loader_thread_t *self, int64_t now_ms)
{
    bool joining = self->phase == JOINING || self->phase == AWAY;
    if (self->lost_ms == 0 || (!joining && now_ms - self->lost_ms < LOADER_THREAD_GRACE_MS))
        return;
    if (self->phase == AWAY)
        s_postpone (self, self->lost_how);
    else if (s_can_resume (self))
        s_go_away (self, self->lost_how);
    else {
        s_fail_at (self, -ECONNRESET, self->lost_how);
        if (self->phase == FAILED)
            s_move (self, OVER);
    }
}

//  A server that does not admit us says so in the handshake, which ZeroMQ reports.
static void
s_check_welcome (loader_thread_t *self)
{
    message_error_t why;
    bool joining = self->phase == JOINING || (self->phase == AWAY && self->dealer);
    dealer_welcome_t welcome = joining? dealer_welcome (self->dealer, &why): DEALER_WELCOME;
    if (welcome == DEALER_WELCOME)
        return;
    //  A server with other keys, or none, may be the wrong one, and the right one may be back in a while.
    if (welcome == DEALER_SHUT_OUT && self->phase == AWAY)
        s_postpone (self, why.text);
    else
        s_fail (self, -EACCES, &why);
}

//  The time for the answer continues.
static void
s_check_busy (loader_thread_t *self, int64_t now_ms)
{
    message_error_t why;
    if (self->phase != JOINING || self->again_ms == 0 || now_ms < self->again_ms)
        return;
    int64_t deadline_ms = self->deadline_ms;
    self->again_ms = 0;
    int rc = s_send_join (self, &why);
    self->deadline_ms = deadline_ms;
    if (rc)
        s_fail (self, rc, &why);
}

static void
s_check_deadline (loader_thread_t *self, int64_t now_ms)
{
    if (now_ms < self->deadline_ms)
        return;
    message_error_t why;
    char how [ADDRESS_HOW_BYTES];
    if (self->phase == JOINING && self->gathering)
        s_fail_at (self, -ETIMEDOUT, "the server waited for other ranks, and has fallen silent");
    else if (self->phase == JOINING && !dealer_was_connected (self->dealer)
        && address_is_starting (self->address, how)
    &&  s_can_resume (self)) {
        message_fail (&why, "no server listens yet: %s", how);
        s_go_away (self, why.text);
    }
    else if (self->phase == JOINING) {
        address_fail (self->address, self->timeout_ms, &why);
        s_refuse (self, -ETIMEDOUT, &why);
    }
    else if (self->phase == LEAVING)
        s_move (self, OVER);
    else if (self->phase == AWAY && self->dealer)
        s_postpone (self, NULL);
}

static int64_t
s_sooner (int64_t one_ms, int64_t other_ms)
{
    return one_ms < other_ms? one_ms: other_ms;
}

//  How long to sleep at most.
static int64_t
s_patience_ms (const loader_thread_t *self, int64_t now_ms, bool unsent)
{
    int64_t wake_ms = now_ms + (unsent? LOADER_THREAD_RETRY_MS
        : self->phase == AWAY? LOADER_THREAD_AWAY_TICK_MS: LOADER_THREAD_TICK_MS);
    if (self->phase == JOINING || self->phase == LEAVING)
        wake_ms = s_sooner (wake_ms, self->deadline_ms);
    if (self->phase == JOINING && self->again_ms)
        wake_ms = s_sooner (wake_ms, self->again_ms);
    if (self->lost_ms)
        wake_ms = s_sooner (wake_ms, self->lost_ms + LOADER_THREAD_GRACE_MS);
    if (self->inlined)
        wake_ms = s_sooner (wake_ms, self->beat_ms + self->heartbeat_ms / 2);
    return wake_ms > now_ms? wake_ms - now_ms: 0;
}

//  --------------------------------------------------------------------------
//  The thread

//  Tells the server what the user did; leaves when the job is done.
static void
s_tell (loader_thread_t *self, const batch_queue_view_t *view, int64_t now_ms)
{
    if (self->phase != RUNNING && !(self->phase == FAILED && view->stop))
        return;
    if (self->phase == RUNNING) {
        s_send_progress (self, &view->progress);
        //  Twice as often as promised.
        bool is_due = self->inlined && now_ms - self->beat_ms >= self->heartbeat_ms / 2;
        if (is_due && s_send (self, WIRE_HEARTBEAT))
            self->beat_ms = now_ms;
        s_send_question (self);
    }
    if (view->leave && s_send (self, WIRE_LEAVE)) {
        question_queue_close (self->questions, "the job is over");
        self->deadline_ms = now_ms + LOADER_THREAD_LEAVE_MS;
        s_move (self, LEAVING);
    }
}

//  The monitor's events may have been read with a message.  True: this is news.
static bool
s_notice_loss (loader_thread_t *self)
{
    if (!self->dealer || self->lost_ms || !dealer_is_lost (self->dealer))
        return false;
    s_see_loss (self, "the connection to the server broke");
    return true;
}

//  Sleeps until an event, and notes it.
static void
s_poll (loader_thread_t *self, const batch_queue_view_t *view, int64_t now_ms)
{
    zmq_pollitem_t items [DEALER_POLL_ITEMS + 2] = { { .fd = batch_queue_descriptor (self->batches),
        .events = ZMQ_POLLIN } };
    int count = 1, ring_item = 0, dealer_item = 0;
    bool is_news = s_notice_loss (self);
    if (self->ring && mapped_ring_socket (self->ring) >= 0 && !self->lost_ms) {
        ring_item = count;
        items [count++] = (zmq_pollitem_t) { .fd = mapped_ring_socket (self->ring), .events = ZMQ_POLLIN };
    }
    if (self->dealer) {
        dealer_item = count;
        dealer_poll_items (self->dealer, items + count);
        count += DEALER_POLL_ITEMS;
        if ((view->full && self->phase == RUNNING) || self->phase == FAILED)
            items [dealer_item].events = 0;
        if (self->lost_ms)
            items [dealer_item + 1].events = 0;
    }
    bool unsent = self->phase == RUNNING && memcmp (&view->progress, &self->told, sizeof self->told);
    if (zmq_poll (items, count, is_news? 0: s_patience_ms (self, now_ms, unsent)) <= 0 && !is_news)
        return;
    s_notice_loss (self);
    if (ring_item && items [ring_item].revents && mapped_ring_is_over (self->ring))
        s_see_loss (self, "the server is gone");
    if (dealer_item && (items [dealer_item].revents || self->lost_ms))
        s_receive (self);               //  messages before the end count
}

static void
s_serve (loader_thread_t *self)
{
    while (self->phase != OVER) {
        batch_queue_view_t view = batch_queue_look (self->batches);
        int64_t now_ms = dealer_now_ms ();
        if (self->phase == AWAY)
            s_search (self, &view, now_ms);
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
    loader_thread_t *self = argument;
    message_error_t why;
    dealer_message_init (&self->message);
    self->ticked_ms = dealer_now_ms ();
    self->context = dealer_begin_context ();
    int rc = dealer_new (&self->dealer, self->context, self->address, &self->credentials, &why);
    if (rc == 0)
        rc = s_send_join (self, &why);
    if (rc)
        s_refuse (self, rc, &why);
    s_serve (self);
    question_queue_close (self->questions, "the job is over");
    dealer_message_clear (&self->message);
    dealer_destroy (&self->dealer);
    dealer_end_context (&self->context);
    //  A living server that ended the job empties the ring when the socket closes: so the window closes it.
    if (self->ring && self->lost_ms == 0)
        mapped_ring_close_socket (self->ring);
    return NULL;
}

int
loader_thread_new (loader_thread_t **self_p, const loader_thread_setup_t *setup)
{
    assert (self_p && setup && setup->batches && setup->questions && setup->options && setup->address
        && setup->credentials);
    *self_p = NULL;
    loader_thread_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->magic = LOADER_THREAD_MAGIC;
    self->batches = setup->batches;
    self->questions = setup->questions;
    self->options = setup->options;
    self->credentials = *setup->credentials;
    self->timeout_ms = setup->timeout_ms;
    self->rejoin.limit_ms = setup->rejoin_ms? setup->rejoin_ms: REJOIN_DEFAULT_MS;
    snprintf (self->address, sizeof self->address, "%s", setup->address);
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
    loader_thread_destroy (&self);
    return rc;
}

void
loader_thread_destroy (loader_thread_t **self_p)
{
    loader_thread_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == LOADER_THREAD_MAGIC);
    if (self->started)
        pthread_join (self->thread, NULL);
    position_destroy (&self->received);
    recent_steps_clear (&self->recent);
    credentials_wipe (&self->credentials);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}
