//  Sends complete steps, in drawn order, to all ranks of their job; and padding to ranks for which a step has
//  no sample.
//
//  happy path:     a step is complete -> each rank without a filled row gets a row with another rank's sample
//                  -> it is sent
//  failure modes:  the sample of a padding cannot be read: another of the step is taken; if none can be read,
//                  the job ends.  A rank is lost while padding is prepared: the step is looked at again when
//                  the rank is back.

#include "draw_send.h"
#include <assert.h>
#include "broker_bad.h"
#include "broker_replay.h"
#include "draw.h"
#include "job.h"
#include "schedule.h"
#include "states.h"

//  ---- padding

static bool
s_is_under_way (const batch_row_t *row)
{
    return row->state == ROW_WAITING || row->state == ROW_READY || row->state == ROW_COPYING;
}

//  Filled rows of each rank in the step.
static void
s_count_rows (const job_t *job, const batch_t *batch, uint32_t *rows)
{
    for (uint32_t number = 0; number < job->world_size; number++)
        rows [number] = 0;
    for (uint32_t index = 0; index < batch->drawn; index++)
        rows [batch->rows [index].rank] += batch->rows [index].state == ROW_FILLED;
}

//  A filled row of the step, with any readable sample or with this one; NULL: none.
static const batch_row_t *
s_filled (const job_t *job, const batch_t *batch, const batch_row_t *same)
{
    for (uint32_t index = 0; index < batch->drawn; index++) {
        const batch_row_t *row = &batch->rows [index];
        if (row->state == ROW_FILLED
        &&  (same? row->id == same->id: !sampler_is_dropped (job->dataset->sampler, row->id)))
            return row;
    }
    return NULL;
}

//  Over several nodes: other nodes have samples for the step, this one has none.
static bool
s_is_empty (const batch_t *batch)
{
    return batch->drawn == batch->holes;
}

//  Whether the rank's padding belongs to this step.
static bool
s_is_padded (const rank_t *rank, uint32_t slot)
{
    const batch_row_t *padding = &rank->padding;
    const job_t *job = rank->job;
    const batch_t *batch = &job->batches [slot];
    if (padding->state != ROW_FILLED || padding->slot != slot)
        return false;
    return s_filled (job, batch, padding)
        || (s_is_empty (batch) && !sampler_is_dropped (job->dataset->sampler, padding->id));
}

void
draw_end_unreadable (job_t *job)
{
    job_end (job, "unreadable", "of the samples of a step none can be read any more; status names them");
}

typedef struct {
    const sampler_t *sampler;
    bool is_found;
    uint32_t id;
} any_t;

static void
s_find_any (void *context, uint32_t id)
{
    any_t *any = context;
    if (!any->is_found && !sampler_is_dropped (any->sampler, id)) {
        any->is_found = true;
        any->id = id;
    }
}

bool
draw_padding_id (job_t *job, uint32_t *id_p)
{
    sampler_t *sampler = job->dataset->sampler;
    if (!job->has_padding_id || sampler_is_dropped (sampler, job->padding_id)) {
        any_t any = { .sampler = sampler };
        if (job_has_parts (job))
            sampler_each (sampler, job->consumer.sampler_job, s_find_any, &any);
        job->has_padding_id = any.is_found;
        job->padding_id = any.id;
    }
    *id_p = job->padding_id;
    return job->has_padding_id;
}

//  False: no sample of the step can be read any more, and the job has ended.
static bool
s_pad_rank (broker_t *self, rank_t *rank, uint32_t slot)
{
    job_t *job = rank->job;
    const batch_t *batch = &job->batches [slot];
    const batch_row_t *other = s_filled (job, batch, NULL);
    batch_row_t *padding = &rank->padding;
    if (!other && !(s_is_empty (batch) && draw_padding_id (job, &padding->id))) {
        draw_end_unreadable (job);
        return false;
    }
    padding->slot = slot;
    padding->epoch = batch->epoch;
    padding->occurrence = other? other->occurrence: 0;
    if (other)
        padding->id = other->id;
    schedule_await (padding, draw_serve (self, padding));
    return true;
}

//  Whether each rank has a row in the step; begins padding where one has none.
static bool
s_is_padded_out (broker_t *self, job_t *job, uint32_t slot)
{
    uint32_t rows [WIRE_RANKS_MAX];
    bool is_done = true;
    s_count_rows (job, &job->batches [slot], rows);
    for (uint32_t number = 0; number < job->world_size; number++) {
        rank_t *rank = &job->ranks [number];
        if (rows [number] > 0 || s_is_padded (rank, slot))
            continue;
        is_done = false;
        if (!s_pad_rank (self, rank, slot))
            return false;
    }
    return is_done;
}

//  Padding under way writes into the slot of the next step: the step waits for it, even if it is no longer
//  needed.
static bool
s_is_padding (const job_t *job)
{
    for (uint32_t number = 0; number < job->world_size; number++)
        if (s_is_under_way (&job->ranks [number].padding))
            return true;
    return false;
}

//  ---- steps

//  Whether a rank has as many unconsumed batches as slots.  Replayed batches are in no slot, so slots alone
//  do not tell; and the position of a lost rank must stay within the recorded steps.
static bool
s_is_behind (const job_t *job)
{
    for (uint32_t number = 0; number < job->world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        if (rank->sent - broker_done (&rank->progress) >= job->slots)
            return true;
    }
    return false;
}

//  Whether the batch goes out at all, rather than being left out.
static bool
s_is_sent (const job_t *job, const batch_t *batch)
{
    uint32_t count = batch->drawn - batch->holes;
    //  Other nodes send one too, up to the epoch's number.  Beyond it can be samples that were unreadable
    //  before the job came from another server, and still are.
    if (job_has_parts (job))
        return count > 0 || job->epoch_index < job_epoch_batches (job, batch->epoch);
    //  A job that keeps its holes leaves out only a batch that was never full.
    uint32_t full = draw_keeps_order (job)? batch->drawn: count;
    return count > 0 && (!job->drop_last || full == job->batch_size);
}

//  Sends the rank its part of the step, or its padding.
static void
s_send_part (broker_t *self, rank_t *rank, uint32_t slot, const uint64_t *step, size_t step_words)
{
    const job_t *job = rank->job;
    const batch_t *batch = &job->batches [slot];
    bool is_padding = step? step [rank->number] == 0: s_is_empty (batch);
    rank->rows [slot] = step? (uint32_t) step [rank->number]: batch->drawn - batch->holes;
    rank->held |= 1ull << slot;
    rank->padded &= ~(1ull << slot);
    if (is_padding) {
        assert (rank->padding.state == ROW_FILLED && rank->padding.slot == slot);
        rank->padded |= 1ull << slot;
        rank->padding_ids [slot] = rank->padding.id;
    }
    row_move (&rank->padding, ROW_EMPTY);
    rank->sequence [slot] = rank->sent++;
    action_t *action = broker_act_rank (self, ACTION_SEND_BATCH, rank);
    action->batch = (wire_batch_t) {
        .sequence = rank->sequence [slot], .epoch = batch->epoch, .index = batch->index,
        .slot = rank->place [slot], .count = is_padding? 1: rank->rows [slot],
        .flags = (rank->is_inline? WIRE_BATCH_INLINE: 0) | (is_padding? WIRE_BATCH_PADDING: 0)
    };
    action->step = step;
    action->step_words = step_words;
}

//  step: as on the wire; NULL for a job with one rank.
static void
s_send_parts (broker_t *self, job_t *job, uint32_t slot, const uint64_t *step)
{
    const batch_t *batch = &job->batches [slot];
    size_t step_words = step? job->world_size + batch->drawn - batch->holes: 0;
    for (uint32_t number = 0; number < job->world_size; number++) {
        assert (job->ranks [number].state == RANK_HERE);                        //  B8
        s_send_part (self, &job->ranks [number], slot, step, step_words);
    }
}

static void
s_send (broker_t *self, job_t *job, uint32_t slot)
{
    batch_t *batch = &job->batches [slot];
    uint32_t count = batch->drawn - batch->holes;
    slot_move (batch, SLOT_SENT);
    batch->index = job->epoch_index++;
    job->sent++;
    job->epoch_samples += count;
    job->delivered += count;
    self->delivered_count += count;
    const batch_row_t *sent = count? s_filled (job, batch, NULL): NULL;
    if (sent && job_has_parts (job)) {
        job->padding_id = sent->id;
        job->has_padding_id = true;
    }
    s_send_parts (self, job, slot, job->world_size > 1? replay_enter_step (job, slot): NULL);
}

static void
s_send_epoch_end (broker_t *self, job_t *job, uint64_t epoch)
{
    assert (!job->held_up);
    wire_epoch_end_t end = {
        .epoch = epoch, .samples = job->epoch_samples, .batches = job->epoch_index,
        .flags = job->epochs && epoch + 1 == job->epochs? WIRE_EPOCH_LAST: 0
    };
    if (job->world_size > 1)
        replay_enter_end (job, &end);
    bad_tell (job);                         //  all its missing samples are told before its end
    for (uint32_t number = 0; number < job->world_size; number++)
        broker_act_rank (self, ACTION_SEND_EPOCH_END, &job->ranks [number])->epoch_end = end;
    job->epoch_samples = job->epoch_index = 0;
}

void
draw_send (broker_t *self, job_t *job)
{
    if (job->epoch_end_is_due && !job->held_up) {
        job->epoch_end_is_due = false;
        s_send_epoch_end (self, job, job->drawn_epoch);
    }
    while (job->order_count > 0 && !job->held_up && !drain_is_between (job)) {
        uint32_t slot = job->order_of [job->order_first];
        const batch_t *batch = &job->batches [slot];
        if (batch->state != SLOT_FULL || batch->open > 0)
            return;
        bool is_sent = s_is_sent (job, batch);
        bool may_pad = job->world_size > 1 || job_has_parts (job);
        if (may_pad && (s_is_padding (job) || (is_sent && !s_is_padded_out (self, job, slot))))
            return;
        if (is_sent && s_is_behind (job))
            return;
        bool ends_epoch = batch->ends_epoch;
        uint64_t epoch = batch->epoch;
        job->order_first = (job->order_first + 1) % WIRE_SLOTS_MAX;
        job->order_count--;
        waits_restart (job);
        if (is_sent) {
            waits_count (job, &job->tenant->waits);
            s_send (self, job, slot);
        }
        else
            draw_release (job, slot);
        if (ends_epoch)
            s_send_epoch_end (self, job, epoch);
    }
}

void
deliver_marked (broker_t *self)
{
    for (job_t *job; (job = self->deliveries);) {
        self->deliveries = job->next_delivery;
        if (!self->deliveries)
            self->last_delivery = NULL;
        job->next_delivery = NULL;
        job->is_marked = false;
        for (uint32_t number = 0; number < job->world_size && !job_has_ended (job); number++)
            replay_deliver (self, &job->ranks [number]);
        if (!job_has_ended (job))
            draw_send (self, job);
    }
}

//  ---- what was sent

uint32_t
rank_batch_rows (const rank_t *self, uint32_t place, uint32_t *rows, uint64_t *ids)
{
    uint32_t count = 0;
    if (place == WIRE_SLOT_NONE) {
        for (; count < self->again.told; count++) {
            rows [count] = self->again.sent_rows [count];
            ids [count] = self->again.ids [count];
        }
        return count;
    }
    uint32_t slot = rank_slot_at (self, place);
    if (self->padded >> slot & 1) {
        rows [0] = 0;
        ids [0] = self->padding_ids [slot];
        return 1;
    }
    const batch_t *batch = &self->job->batches [slot];
    for (uint32_t index = 0; index < batch->drawn; index++) {
        const batch_row_t *row = &batch->rows [index];
        if (row->rank != self->number || row->state != ROW_FILLED)
            continue;
        rows [count] = row->rank_row;
        ids [count++] = row->id;
    }
    return count;
}
