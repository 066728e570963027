//  The clients of a job, its ranks: they come, get batches, leave, are lost and come back.  Most jobs have
//  one.
//
//  happy path:     all ranks are attached -> the job starts -> a rank is lost: its held slots and waiting
//                  rows go, the job stands still -> the rank is reclaimed when no worker writes for it -> it
//                  comes back (broker_return), is attached, gets the steps that it lacks (steps.c), and its
//                  rows of unsent steps are prepared once more -> the job goes on
//  failure modes:  a rank does not attach, or does not come back in time: the job ends for the others.  It
//                  leaves before the end: likewise.  No rank is left: the job is gone, unless a rank may come
//                  back for the rest and the others have had everything.
//  on close:       a job that is over is reclaimed with its ranks (ACTION_RECLAIM), not rank by rank.

#include "client_life.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bad.h"
#include "dispatch.h"
#include "draw.h"
#include "job.h"
#include "steps.h"
#include "xalloc.h"

enum { JOB_TEXT_BYTES = REQUEST_NAME_BYTES_MAX + 32 };

//  A job waits at least so long for a returning client, even if its rank_wait is shorter.
enum { RETURN_MS = 10000 };

void
client_life_cancel (broker_t *self, job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        dispatch_cancel (self, &job->ranks [number].padding);
        steps_replay_stop (self, &job->ranks [number]);
    }
}

//  ---- states of ranks

static bool
s_is_there (const rank_t *rank)
{
    return rank->state == RANK_ATTACHING || rank->state == RANK_HERE;
}

static uint32_t
s_count_there (const job_t *job)
{
    uint32_t count = 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        count += s_is_there (&job->ranks [number]);
    return count;
}

//  Not when a rank's progress comes: a client that reports too much would have consumed a batch before it is
//  sent.
void
client_life_send (broker_t *self, job_t *job)
{
    if (job->asked.world_size > 1 && !job_has_ended (job))
        steps_send (self, job);
}

//  Whether the rank has been sent everything that the job will deliver.
static bool
s_has_everything (const rank_t *rank)
{
    const job_t *job = rank->job;
    return job->state == JOB_DRAWN && job->draw.order_count == 0 && rank->lacks == job->delivery.replay.next;
}

//  ---- coming

static bool
s_are_all_here (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].state != RANK_HERE)
            return false;
    return true;
}

static void
s_begin (broker_t *self, job_t *job, int64_t now_ms)
{
    draw_start (self, job, now_ms);
    job->delivery.held_up = steps_are_held_up (job);
    if (!job->delivery.held_up)
        draw_go_on (self, job);
    for (uint32_t number = 0; number < job->asked.world_size && job->delivery.held_up; number++)
        steps_replay_go_on (self, &job->ranks [number]);
}

static void
s_here (broker_t *self, rank_t *rank, int64_t now_ms)
{
    job_t *job = rank->job;
    rank_move (rank, RANK_HERE);
    rank->alive_ms = now_ms;
    bad_tell_rank (rank);
    if (job->state != JOB_ATTACHING) {
        draw_revive (self, rank);
        steps_replay_go_on (self, rank);
    }
    else
    if (s_are_all_here (job))
        s_begin (self, job, now_ms);
}

void
client_life_attached (broker_t *self, rank_t *rank, int64_t now_ms)
{
    if (!job_has_ended (rank->job) && rank->state == RANK_ATTACHING)
        s_here (self, rank, now_ms);
}

void
client_life_inline (broker_t *self, rank_t *rank, int64_t now_ms)
{
    if (!job_has_ended (rank->job) && rank->state == RANK_ATTACHING) {
        rank->is_inline = true;
        s_here (self, rank, now_ms);
    }
}

void
broker_heartbeat (broker_t *self, rank_t *rank, int64_t now_ms)
{
    assert (self->magic == BROKER_MAGIC);
    rank->alive_ms = now_ms;
}

//  ---- going

//  ACTION_RECLAIM_RANK once no worker writes for an absent rank; a job that is over is reclaimed as a whole.
static void
s_reclaim_when_still (rank_t *rank)
{
    if (job_has_ended (rank->job) || s_is_there (rank) || rank->copying > 0 || rank->reclaiming)
        return;
    rank->reclaiming = true;
    rank_add_action (rank, ACTION_RECLAIM_RANK);
}

void
broker_reclaim_rank (broker_t *self, rank_t *rank)
{
    assert (self->magic == BROKER_MAGIC && rank->reclaiming && rank->copying == 0);
    rank->user = NULL;
    rank->reclaimed = true;
}

void
client_life_copied_late (batch_row_t *row)
{
    rank_t *rank = &row->job->ranks [row->rank];
    bool is_of_step = row->slot != WIRE_SLOT_NONE && row != &rank->padding;
    row_move (row, is_of_step? ROW_LOST: ROW_EMPTY);
    s_reclaim_when_still (rank);
}

void
client_life_count_in_hand (job_t *job)
{
    uint64_t in_hand = 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        in_hand |= job->ranks [number].in_hand;
    job->delivery.in_hand = (uint32_t) __builtin_popcountll (in_hand);
}

//  Slots that no other rank holds become free.
static void
s_let_go (rank_t *rank)
{
    job_t *job = rank->job;
    uint64_t held = rank->held, others = 0;
    rank->held = rank->in_hand = rank->kept = 0;
    rank_measure_places (rank);
    client_life_count_in_hand (job);
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        others |= job->ranks [number].held;
    for (uint32_t slot = 0; slot < job->asked.slots; slot++)
        if (held >> slot & 1 && !(others >> slot & 1))
            draw_release (job, slot);
}

//  From now on nothing is sent to the rank, and nothing waits for it.
static void
s_part (broker_t *self, rank_t *rank, rank_state_t state)
{
    rank_move (rank, state);
    rank->reclaiming = rank->reclaimed = false;
    draw_lose (self, rank);
    dispatch_cancel (self, &rank->padding);
    if (rank->padding.state != ROW_COPYING)
        row_move (&rank->padding, ROW_EMPTY);
    steps_replay_stop (self, rank);
    s_let_go (rank);
}

//  "job 'name'", or "job 3".
static const char *
s_job_text (const job_t *job, char text [JOB_TEXT_BYTES])
{
    if (*job->asked.job_name)
        snprintf (text, JOB_TEXT_BYTES, "job '%s'", job->asked.job_name);
    else
        snprintf (text, JOB_TEXT_BYTES, "job %llu", (unsigned long long) job->id);
    return text;
}

//  Tells the other ranks.
static void
s_notice_loss (rank_t *rank)
{
    job_t *job = rank->job;
    char name [JOB_TEXT_BYTES];
    free (rank->notice);                //  the old notice has been sent: the rank was reclaimed after it
    rank->notice = xalloc_text (
        "rank %u of %s is gone (its client died or was silent): the job stands still, and goes "
        "on when the rank is back; it waits %u second%s for the rank", rank->number,
        s_job_text (job, name), job->life.rank_wait_seconds, job->life.rank_wait_seconds == 1? "": "s");
    job_tell_ranks (job, ACTION_SEND_NOTICE, "rank_lost", rank->notice);
}

//  A present rank is lost from now on; the job waits so long for it.
static void
s_lose (broker_t *self, rank_t *rank, int64_t now_ms, int64_t wait_ms)
{
    assert (s_is_there (rank));
    rank->job->delivery.held_up = true;
    s_part (self, rank, RANK_LOST);
    rank->lost_ms = now_ms;
    rank->is_awaited = true;
    rank->due_ms = now_ms + wait_ms;
    broker_wake (self, rank->due_ms);
    s_notice_loss (rank);
    s_reclaim_when_still (rank);
}

static void
s_end_lost (const rank_t *rank, int64_t now_ms)
{
    char name [JOB_TEXT_BYTES];
    job_end (rank->job, "rank_lost",
        "rank %u of %s has been gone for %lld seconds (its client died or was silent), and has "
        "not come back: start all ranks anew, with a state to go on where they were; a larger rank_wait "
        "allows more time", rank->number,
        s_job_text (rank->job, name), (long long) (now_ms - rank->lost_ms) / 1000);
}

//  Until when ranks that are not there may come back, at the latest; INT64_MIN: none may.
static int64_t
s_awaited_ms (const job_t *job)
{
    int64_t due_ms = INT64_MIN;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        if (rank->is_awaited && rank->due_ms > due_ms)
            due_ms = rank->due_ms;
    }
    return due_ms;
}

//  The rank was sent everything, so the others need not wait for it.  If it died before it took everything,
//  it may come back for the rest.
static void
s_leave_complete (broker_t *self, rank_t *rank, bool may_return, int64_t due_ms)
{
    job_t *job = rank->job;
    s_part (self, rank, RANK_LEFT);
    rank->is_awaited = may_return;
    rank->due_ms = due_ms;
    if (s_count_there (job) == 0 && s_awaited_ms (job) == INT64_MIN) {
        job_go (job);
        return;
    }
    s_reclaim_when_still (rank);
    steps_settle (self, job);
}

//  Whether a rank has left because it was sent everything: it will not rejoin with the others.
static bool
s_any_has_left (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].state == RANK_LEFT)
            return true;
    return false;
}

void
client_life_lost (broker_t *self, rank_t *rank, int64_t now_ms)
{
    job_t *job = rank->job;
    assert (self->magic == BROKER_MAGIC && job->magic == JOB_MAGIC);
    if (!rank_is_there (rank))
        return;
    int64_t wait_ms = 1000 * (int64_t) job->life.rank_wait_seconds;
    if (job->asked.world_size > 1 && s_has_everything (rank))
        s_leave_complete (self, rank, wait_ms > 0
            && rank_batches_done (&rank->progress) < rank->sent, now_ms + wait_ms);
    else
    if (s_count_there (job) == 1 && !s_any_has_left (job))
        job_go (job);       //  if the ranks come back, they join as a new job
    else {
        s_lose (self, rank, now_ms, wait_ms);
        if (wait_ms == 0)
            s_end_lost (rank, now_ms);
    }
}

void
client_life_left (broker_t *self, rank_t *rank)
{
    job_t *job = rank->job;
    assert (self->magic == BROKER_MAGIC && job->magic == JOB_MAGIC);
    if (!rank_is_there (rank))
        return;
    if (job->asked.world_size > 1 && s_has_everything (rank)) {
        rank->left_itself = true;
        s_leave_complete (self, rank, false, 0);
    }
    else
    if (s_count_there (job) == 1)
        job_go (job);
    else {
        char name [JOB_TEXT_BYTES];
        rank_move (rank, RANK_LEFT);        //  the rank is not told
        job_end (job, "rank_left", "rank %u of %s has left at epoch %llu, step %llu, and there is no step "
            "without it: let all ranks take the same number of batches, and leave their loops at the same "
            "step", rank->number, s_job_text (job, name),
            (unsigned long long) job->delivery.replay.position.epoch,
            (unsigned long long) job->delivery.replay.position.batches);
    }
}

//  ---- coming back

rank_t *
broker_return (broker_t *self, job_t *job, uint32_t number, const broker_terms_t *join, int64_t now_ms,
    refusal_t *refusal)
{
    assert (self->magic == BROKER_MAGIC && job->magic == JOB_MAGIC);
    assert (job->state != JOB_OVER);
    rank_t *rank = &job->ranks [number];
    int64_t wait_ms = 1000 * (int64_t) job->life.rank_wait_seconds;
    if (rank_is_there (rank))
        s_lose (self, rank, now_ms, wait_ms > RETURN_MS? wait_ms: RETURN_MS);
    if (!rank->reclaimed) {
        refuse (refusal, "busy", "what rank %u of job '%s' had before is still being put away; try again",
            number, job->asked.job_name);
        return NULL;
    }
    bool is_known = steps_replay_find (job, join->epoch, join->epoch_batches, &rank->lacks);
    assert (is_known);                  //  broker_returns has checked it
    snprintf (rank->instance, sizeof rank->instance, "%s",
        join->instances [number]? join->instances [number]: "");
    rank_move (rank, RANK_ATTACHING);
    rank->is_inline = rank->reclaiming = rank->reclaimed = rank->is_awaited = false;
    rank->joined_ms = rank->alive_ms = now_ms;
    rank->sent = rank->padded = 0;
    rank->progress = (wire_progress_t) { .consumed = 0 };
    job->delivery.held_up = true;
    if (join->rank_wait_seconds > job->life.rank_wait_seconds)
        job->life.rank_wait_seconds = join->rank_wait_seconds;
    return rank;
}

//  ---- time

//  A rank that had returned to a running job is lost again, for the rest of its time; at a job's beginning
//  there is no such rank.
static void
s_end_unattached (broker_t *self, rank_t *rank, int64_t now_ms)
{
    char name [JOB_TEXT_BYTES];
    if (rank->job->state != JOB_ATTACHING)
        s_lose (self, rank, now_ms, rank->due_ms > now_ms? rank->due_ms - now_ms: 0);
    else
    if (rank->job->asked.world_size == 1)
        job_end (rank->job, "transport", "the ring was not taken, nor inline asked for, in ten seconds");
    else
        job_end (rank->job, "transport",
            "rank %u of %s has not taken its ring, nor asked for inline, in ten seconds",
            rank->number, s_job_text (rank->job, name));
}

static void
s_end_overdue (broker_t *self, rank_t *rank, int64_t now_ms)
{
    int64_t due_ms;
    if (rank->state == RANK_ATTACHING)
        due_ms = rank->joined_ms + BROKER_ATTACH_MS;
    else
    if (rank->state == RANK_HERE && rank->is_inline)
        due_ms = rank->alive_ms + BROKER_LEASE_MS;
    else
    if (rank->state == RANK_LOST)
        due_ms = rank->due_ms;
    else
        return;
    if (now_ms <= due_ms)
        broker_wake (self, due_ms + 1);
    else
    if (rank->state == RANK_ATTACHING)
        s_end_unattached (self, rank, now_ms);
    else
    if (rank->state == RANK_LOST)
        s_end_lost (rank, now_ms);
    else
    if (rank->job->asked.world_size == 1)
        job_end (rank->job, "silent", "no heartbeat within the lease");
    else
        client_life_lost (self, rank, now_ms);
}

void
client_life_end_overdue (broker_t *self, job_t *job, int64_t now_ms)
{
    for (uint32_t number = 0; number < job->asked.world_size && !job_has_ended (job); number++)
        s_end_overdue (self, &job->ranks [number], now_ms);
    if (job_has_ended (job) || s_count_there (job) > 0)
        return;
    if (now_ms > s_awaited_ms (job))
        job_go (job);
    else
        broker_wake (self, s_awaited_ms (job) + 1);
}

//  ---- checks

static void
s_check_padding (const rank_t *rank)
{
    const batch_row_t *padding = &rank->padding;
    bool pinned = padding->state == ROW_WAITING || padding->state == ROW_READY
        || padding->state == ROW_COPYING;
    assert (pinned == (padding->version != NULL));
    assert (padding->job == rank->job && padding->rank == rank->number && padding->rank_row == 0
        && padding->record == 0);
    assert (rank->job->asked.world_size > 1 || job_has_parts (rank->job) || padding->state == ROW_EMPTY);
}

//  No place has two batches.
static void
s_check_places (const rank_t *rank)
{
    const job_t *job = rank->job;
    uint64_t places = rank->kept;
    for (uint32_t slot = 0; slot < job->asked.slots; slot++) {
        uint64_t place = 1ull << rank->place [slot];
        slot_state_t state = job->draw.batches [slot].state;
        if (state == SLOT_FREE || (state == SLOT_SENT && !(rank->held >> slot & 1)))
            continue;
        assert (!(places & place));                                             //  B8
        places |= place;
    }
    assert (rank->places == places && (uint32_t) __builtin_popcountll (places) <= job->asked.slots
        - job->delivery.free_places);
    assert (s_is_there (rank) || rank->kept == 0);
}

void
client_life_check (const job_t *job)
{
    uint64_t held = 0, sent = 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        assert (rank->job == job && rank->number == number);
        assert (s_is_there (rank) || job_has_ended (job) || (rank->held == 0 && rank->again.used == 0));
        assert (!rank->reclaimed || !s_is_there (rank));
        assert ((rank->in_hand & ~rank->held) == 0);
        s_check_places (rank);
        s_check_padding (rank);
        held |= rank->held;
    }
    if (job->asked.world_size > 1)
        steps_replay_check (job);
    if (job_has_ended (job))
        return;
    for (uint32_t slot = 0; slot < job->asked.slots; slot++)
        sent |= (uint64_t) (job->draw.batches [slot].state == SLOT_SENT) << slot;
    assert (held == sent);                                                      //  B8
    if (job->state == JOB_ATTACHING)
        assert (job->delivery.held_up == (job->asked.world_size > 1));
    else
        assert (job->delivery.held_up == steps_are_held_up (job));
}
