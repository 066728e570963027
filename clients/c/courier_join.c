//  How the courier joins: JOIN, its answer, and the ring.

#include "courier_state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "window.h"

//  --------------------------------------------------------------------------
//  Going on

//  The state of what was received.  False: the job cannot be resumed, or no memory.
static bool
s_describe (const courier_t *self, state_t *state)
{
    if (!joining_describe (self->joining, message_joined_info (handover_joined (self->handover)), state))
        return false;
    memcpy (state->run, self->run, sizeof state->run);
    state->epoch = course_epoch (self->received);
    state->batches = course_batches (self->received);
    course_cut_t cut;
    if (!course_taken (self->received, &state->taken) || !course_cut (self->received, &cut))
        return false;
    joining_set_part (self->joining, state->batches, &cut, &state->part);
    return true;
}

bool
courier_has_joined (const courier_t *self)
{
    return handover_joined (self->handover) != NULL;
}

//  Whether joining again helps: a loader that has not joined yet gets its job; a rank that lacks nothing lets
//  the others continue.
bool
courier_can_go_on (const courier_t *self)
{
    state_t state;
    if (self->phase == JOINING)
        return self->rejoin.limit_ms >= 0;
    if (self->phase != RUNNING || self->rejoin.limit_ms < 0
    ||  (self->stream.last && joining_world_size (self->joining) == 1))
        return false;
    bool fine = s_describe (self, &state);
    state_clear (&state);
    return fine;
}

//  Drops the connection; the next one starts fresh.
static void
s_part (courier_t *self)
{
    dealer_destroy (&self->dealer);
    self->attach = NULL;
    self->job = 0;
    self->inlined = false;
    self->lost_ms = self->silence_ms = 0;
    self->told = (wire_progress_t) { .consumed = 0 };
}

//  The server is gone; begins to look for it.
void
courier_go_away (courier_t *self, const char *how)
{
    message_error_t text;
    int64_t now_ms = dealer_now_ms ();
    s_part (self);
    if (courier_has_joined (self))
        handover_retire (self->handover);
    inquiry_lose (self->inquiry);
    rejoin_begin (&self->rejoin, how, self->stream.sequence > 0, now_ms);
    message_fail (&text, "%.250s; looking for it at %.150s for %g seconds", how, self->address,
        (double) self->rejoin.limit_ms / 1e3);
    if (!self->stream.last)
        handover_put_notice (self->handover, text.text);
    courier_move (self, AWAY);
}

//  A try to join again failed.
void
courier_postpone (courier_t *self, const char *why)
{
    s_part (self);
    rejoin_postpone (&self->rejoin, why, dealer_now_ms ());
}

//  --------------------------------------------------------------------------
//  Joining

void
courier_wait_for_ranks (courier_t *self, const char *text)
{
    int patience_ms = self->timeout_ms > COURIER_GATHERING_MS? self->timeout_ms: COURIER_GATHERING_MS;
    self->deadline_ms = dealer_now_ms () + patience_ms;
    //  A thread in tureen_loader_new cannot get a notice; a user that knows of the loss is told once that the
    //  server is back.
    if (self->phase == AWAY) {
        rejoin_hear (&self->rejoin, text);
        if (!self->gathering && !self->stream.last)
            handover_put_notice (self->handover, text);
    }
    self->gathering = true;
}

//  On a new dealer, or after LEAVE on the same.  0, or -errno and why.
int
courier_send_join (courier_t *self, message_error_t *why)
{
    joining_frames_t frames;
    state_t state;
    bool again = self->received != NULL;
    if (again && !s_describe (self, &state)) {
        state_clear (&state);
        message_fail (why, "out of memory for the request");
        return -ENOMEM;
    }
    joining_onward_t onward = { .from = again? &state: joining_state (self->joining),
        .inlined = self->inline_only };
    if (again) {
        onward.recent = recent_numbers (&self->stream.recent, &onward.recent_count);
        onward.gather_seconds = rejoin_left_seconds (&self->rejoin, dealer_now_ms ());
    }
    int rc = joining_make (self->joining, &onward, &frames, why);
    if (again)
        state_clear (&state);
    if (rc)
        return rc;
    wire_head_t head = message_head (WIRE_JOIN, 0, ++self->join_tag);
    bool sent = dealer_send (self->dealer, &head, frames.frames, frames.count);
    joining_frames_clear (&frames);
    self->deadline_ms = dealer_now_ms () + self->timeout_ms;
    self->gathering = false;
    if (!sent)
        message_fail (why, "the socket has no room for the request");
    return sent? 0: -EAGAIN;
}

//  Takes the ring, or asks for inline.  0, or -errno; -EREMCHG: the ring was taken and cannot be used;
//  -ETIMEDOUT: the server may still hand it over, so that neither is right.
static int
s_take_transport (courier_t *self, message_joined_t *joined, attach_t **attach_p)
{
    const char *path = message_joined_ring_path (joined);
    int rc = path? attach_new (attach_p, path, dealer_peer (self->dealer), message_joined_ring_token (joined),
        message_joined_ring_bytes (joined), self->timeout_ms): -ENOENT;
    if (rc == -EPERM && !*attach_p) {
        message_error_t text;
        message_fail (&text, "another user than the server's listens at '%.250s': batches come through the "
            "server's main socket, which is slower", path);
        handover_put_notice (self->handover, text.text);
    }
    if (rc == 0 || rc == -ETIMEDOUT)
        return rc;
    if (*attach_p)
        return -EREMCHG;
    message_joined_set_inline (joined);
    self->inlined = true;
    return courier_send (self, WIRE_INLINE)? 0: -EAGAIN;
}

//  Lets it begin in the given state.
static int
s_begin (const joining_t *joining, course_t *course)
{
    const state_t *from = joining_state (joining);
    const course_cut_t fresh = { .batches = 0 };
    if (!course)
        return -ENOMEM;
    const course_cut_t *cut = from? &from->part.cut: &fresh;
    if (!course_set_node (course, joining_nodes (joining), joining_node (joining), cut))
        return -ENOMEM;
    return !from || course_resume (course, from->epoch, from->batches, &from->taken)? 0: -EPROTO;
}

//  Makes the courses, from the given state.
static int
s_make_courses (courier_t *self, const tureen_info_t *info, course_t **given_p)
{
    size_t count;
    const uint64_t *list = joining_list (self->joining, &count);
    self->received = course_new (list, count, info->dataset_samples);
    *given_p = course_new (list, count, info->dataset_samples);
    int rc = s_begin (self->joining, self->received);
    return rc? rc: s_begin (self->joining, *given_p);
}

//  Opens the window of a job that was joined.  0, or -errno.
static int
s_open (courier_t *self, message_joined_t **joined_p, attach_t **attach_p)
{
    course_t *given = NULL;
    bool first = !self->received;
    int rc = first? s_make_courses (self, message_joined_info (*joined_p), &given): 0;
    const message_joined_t *joined = *joined_p;
    attach_t *attach = *attach_p;
    window_t *window = rc? NULL:
        window_new (self->handover, joined_p, attach_p, attach? attach_data (attach): NULL,
        self->stream.before + self->stream.sequence);
    if (window) {
        self->attach = attach;
        snprintf (self->run, sizeof self->run, "%s", message_joined_info (joined)->run);
        self->stream.received = self->received;
        if (!first)
            course_go_on (self->received);
        stream_begin (&self->stream, joined);
        handover_open (self->handover, &window, first? &given: NULL);
    }
    else if (rc == 0)
        rc = -ENOMEM;
    course_destroy (&given);
    return rc;
}

//  Protocol: a client that cannot map its ring leaves, and joins again inline; on the same connection, so
//  that LEAVE is done before the JOIN.
static void
s_join_inline (courier_t *self, attach_t **attach_p)
{
    message_error_t why;
    //  A rank that leaves would end the job for the other ranks.
    if (joining_world_size (self->joining) > 1) {
        courier_fail_at (self, -EPROTO, "the ring cannot be mapped; ask for TUREEN_INLINE");
        return;
    }
    self->inline_only = true;
    bool left = courier_send (self, WIRE_LEAVE);
    self->job = 0;
    attach_destroy (attach_p);
    int rc = left? courier_send_join (self, &why): -EAGAIN;
    if (rc)
        courier_fail_at (self, rc, left? why.text: "the ring cannot be mapped");
}

//  The server is found again.
static void
s_come_back (courier_t *self, const tureen_info_t *info, bool again)
{
    message_error_t text;
    int64_t now_ms = dealer_now_ms ();
    rejoin_found (&self->rejoin, now_ms);
    message_fail (&text, "the server is back after %.3g seconds; %s as job %" PRIu64 "%s",
        (double) (now_ms - self->rejoin.since_ms) / 1e3, again? "going on": "joined", info->job,
        again && info->forked? ", a fork: its run goes on elsewhere": "");
    if (!self->stream.last)
        handover_put_notice (self->handover, text.text);
}

static void
s_run (courier_t *self, const tureen_info_t *info, bool again)
{
    if (self->phase == AWAY)
        s_come_back (self, info, again);
    courier_move (self, RUNNING);
    if (!again)
        handover_report (self->handover, 0, NULL);
}

//  The server has our token and does not answer.  It may still hand the ring over, to a closed socket: the
//  job is useless.  Joins a new one on another connection.
static void
s_forsake (courier_t *self)
{
    static const char how [] = "the server did not hand over the ring";
    if (self->phase == AWAY)
        courier_postpone (self, how);
    else if (courier_can_go_on (self))
        courier_go_away (self, how);
    else
        courier_fail_at (self, -ETIMEDOUT, how);
}

//  Whether JOINED is what was asked for, and fits the earlier joining.
static bool
s_is_ours (const courier_t *self, const message_joined_t *joined, message_error_t *why)
{
    const tureen_info_t *info = message_joined_info (joined);
    if (info->world_size != joining_world_size (self->joining) || info->rank != joining_rank (self->joining))
        return message_fail (why, "the server took this process for rank %" PRIu32 " of %" PRIu32 ", not "
            "%" PRIu32 " of %" PRIu32,
            info->rank, info->world_size, joining_rank (self->joining), joining_world_size (self->joining));
    if (info->nodes != joining_nodes (self->joining) || info->node != joining_node (self->joining))
        return message_fail (why, "the server took this process for node %" PRIu32 " of %" PRIu32 ", not "
            "%" PRIu32 " of %" PRIu32,
            info->node, info->nodes, joining_node (self->joining), joining_nodes (self->joining));
    return !self->received || rejoin_is_same (handover_joined (self->handover), joined, why);
}

void
courier_take_joined (courier_t *self)
{
    message_error_t why;
    message_joined_t *joined;
    attach_t *attach = NULL;
    if (!message_read_joined (self->message.frames, self->message.count, joining_batch_size (self->joining),
            &joined, &why)) {
        courier_fail_at (self, -EPROTO, why.text);
        return;
    }
    const tureen_info_t *info = message_joined_info (joined);
    self->job = info->job;
    self->heartbeat_ms = message_joined_heartbeat_ms (joined);
    bool again = self->received != NULL;
    int rc = s_is_ours (self, joined, &why)? 0: -EPROTO;
    if (rc)
        courier_fail_at (self, rc, why.text);
    else {
        rc = s_take_transport (self, joined, &attach);
        if (rc == -EREMCHG)
            s_join_inline (self, &attach);
        else if (rc == -ETIMEDOUT)
            s_forsake (self);
        else if (rc == 0 && (rc = s_open (self, &joined, &attach)) == 0)
            s_run (self, info, again);
        else
            courier_fail_at (self, rc, rc == -EPROTO? "the server took a state that does not fit its data":
                "out of memory for the job's window");
    }
    attach_destroy (&attach);
    message_joined_destroy (&joined);
}

//  --------------------------------------------------------------------------
//  Looking for the server

//  The user stops while the server is away.  If a JOIN may have arrived, waits for its answer, to leave its
//  job; a JOIN that waits for other ranks has no job yet.
static void
s_stop_away (courier_t *self, int64_t now_ms)
{
    if (self->stop_ms == 0)
        self->stop_ms = now_ms;
    if (!self->dealer || self->gathering || !dealer_was_connected (self->dealer)
        || now_ms - self->stop_ms >= COURIER_LEAVE_MS)
        courier_move (self, OVER);
}

//  Looks for the server that is gone.
void
courier_seek (courier_t *self, const handover_view_t *view, int64_t now_ms)
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
        courier_fail (self, -ECONNRESET, &why);
    }
    else if (!self->dealer && rejoin_is_due (&self->rejoin, now_ms)) {
        int rc = dealer_new (&self->dealer, self->context, self->address, &self->credentials, &why);
        rc = rc? rc: courier_send_join (self, &why);
        //  The server cannot come back to a place that is another user's.
        if (rc == -EPERM)
            courier_fail (self, rc, &why);
        else if (rc)
            courier_postpone (self, why.text);
    }
}
