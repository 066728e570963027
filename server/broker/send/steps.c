//  Sends complete steps, in drawn order, to all ranks of their job; padding to ranks for which a step has no
//  sample; and to a rank what it lacks of the last steps.
//
//  happy path:     a step is complete -> each rank without a filled row gets a row with another rank's sample
//                  -> it is sent, and of a job with ranks it is recorded
//  failure modes:  the sample of a padding cannot be read: another of the step is taken; if none can be read,
//                  the job ends.  A rank is lost while padding is prepared: the step is looked at again when
//                  the rank is back.
//
//  What a rank lacks:
//
//  happy path:     a rank comes back, or joins with less than the others -> each record that it
//                  lacks is sent to it alone: an epoch's end at once, a step when its samples are prepared
//                  again, one step at a time -> it lacks nothing
//  failure modes:  some samples of a step cannot be read any more: the batch is shorter; none of the rank's
//                  can: padding; none at all: the job ends.  The rank is lost meanwhile: when it is back, it
//                  continues from its position.
//
//  As many steps are kept as a client may lack: those in its slots, and those sent and not received.  While a
//  rank lacks a step nothing new is recorded, so the step stays.

#include "steps.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "bad.h"
#include "dispatch.h"
#include "draw.h"
#include "job.h"
#include "tenant.h"

//  Steps kept beyond the number of slots.
enum { STEPS_MORE = 2 };

static uint32_t
s_step_room (const broker_terms_t *join)
{
    return join->slots + STEPS_MORE;
}

//  Few epochs have no step, so there are hardly more ends than steps.
static uint32_t
s_record_room (const broker_terms_t *join)
{
    return 2 * s_step_room (join) + 2;
}

//  A list may repeat ids, so how often each came before is kept with them.
static size_t
s_step_words (sampler_order_t order, uint32_t world_size, uint32_t rank_batch)
{
    return world_size + (size_t) world_size * rank_batch * (order == SAMPLER_ORDER_LIST? 2: 1);
}

static bool
s_is_same (broker_position_t one, broker_position_t other)
{
    return one.epoch == other.epoch && one.batches == other.batches;
}

static replay_record_t *
s_record (const replay_t *replay, uint64_t number)
{
    assert (number >= replay->first && number < replay->next);
    return &replay->records [number % replay->room];
}

//  ---- what clients tell

static broker_position_t
s_before (const broker_record_t *record)
{
    return (broker_position_t) { record->epoch, record->index };
}

static broker_position_t
s_after (const broker_record_t *record)
{
    if (record->is_end)
        return (broker_position_t) { record->epoch + 1, 0 };
    return (broker_position_t) { record->epoch, record->index + 1 };
}

//  Whether this job could have such a step.
static bool
s_fits (const broker_terms_t *join, const broker_record_t *record)
{
    uint64_t samples = 0;
    for (uint32_t number = 0; number < join->world_size; number++) {
        if (record->step [number] > join->batch_size)
            return false;
        samples += record->step [number];
    }
    //  Over several nodes a step may be of padding alone.
    if ((samples == 0 && join->parts.nodes <= 1) || samples != record->samples)
        return false;
    for (uint64_t index = 0; index < samples; index++)
        if (record->step [join->world_size + index] >= join->dataset->samples)
            return false;
    return true;
}

//  The first record from which all records are consecutive up to where the job resumes, and few enough to
//  keep.
static size_t
s_first_usable (const broker_terms_t *join)
{
    broker_position_t after = { join->epoch, join->epoch_batches };
    size_t first = join->recent_count;
    uint32_t steps = 0;
    for (; first > 0 && join->recent_count - first < s_record_room (join); first--) {
        const broker_record_t *record = &join->recent [first - 1];
        if (!s_is_same (s_after (record), after)
        ||  (!record->is_end && (steps++ == s_step_room (join) || !s_fits (join, record))))
            break;
        after = s_before (record);
    }
    return first;
}

//  How many records a rank at this position lacks; false: it is not known.
static bool
s_lacking (const broker_terms_t *join, size_t first, broker_position_t position, size_t *count_p)
{
    *count_p = 0;
    if (s_is_same (position, (broker_position_t) { join->epoch, join->epoch_batches }))
        return true;
    for (size_t index = first; index < join->recent_count; index++)
        if (s_is_same (position, s_before (&join->recent [index]))) {
            *count_p = join->recent_count - index;
            return true;
        }
    return false;
}

bool
steps_replay_is_wanted (const broker_terms_t *join)
{
    broker_position_t goal = { join->epoch, join->epoch_batches };
    for (uint32_t number = 0; join->positions && number < join->world_size; number++)
        if (!s_is_same (join->positions [number], goal))
            return true;
    return false;
}

//  The first rank with the position at which the job resumes.
static uint32_t
s_furthest (const broker_terms_t *join)
{
    broker_position_t goal = { join->epoch, join->epoch_batches };
    uint32_t number = 0;
    while (number + 1 < join->world_size && !s_is_same (join->positions [number], goal))
        number++;
    return number;
}

bool
steps_replay_allows (const broker_terms_t *join, refusal_t *refusal)
{
    if (!steps_replay_is_wanted (join))
        return true;
    size_t first = s_first_usable (join), count;
    for (uint32_t number = 0; number < join->world_size; number++) {
        broker_position_t position = join->positions [number];
        uint32_t furthest = s_furthest (join);
        if (!s_lacking (join, first, position, &count))
            return refuse (refusal, "ranks_differ",
                "rank %u stands at epoch %llu, step %llu, rank %u at epoch %llu, step %llu, "
                "and what was between is not known: load one rank's state on all ranks", furthest,
                (unsigned long long) join->positions [furthest].epoch,
                (unsigned long long) join->positions [furthest].batches,
                number, (unsigned long long) position.epoch, (unsigned long long) position.batches);
    }
    return true;
}

//  ---- records

//  Drops the oldest record.
static void
s_forget (replay_t *replay)
{
    assert (replay->first < replay->next);
    replay->first++;
}

static uint32_t
s_steps_kept (const replay_t *replay)
{
    uint32_t steps = 0;
    for (uint64_t number = replay->first; number < replay->next; number++)
        steps += s_record (replay, number)->step != NULL;
    return steps;
}

static replay_record_t *
s_enter (replay_t *replay, uint64_t samples)
{
    if (replay->next - replay->first == replay->room)
        s_forget (replay);
    replay_record_t *record = &replay->records [replay->next++ % replay->room];
    *record = (replay_record_t) { .before = replay->position, .samples = samples };
    return record;
}

//  The caller fills in counts and ids.
static uint64_t *
s_enter_step (job_t *job, uint64_t samples)
{
    replay_t *replay = &job->delivery.replay;
    while (s_steps_kept (replay) == replay->step_room)
        s_forget (replay);
    replay_record_t *record = s_enter (replay, samples);
    size_t words = s_step_words (job->asked.order, job->asked.world_size, job->asked.rank_batch);
    record->step = replay->step_memory + replay->steps++ % replay->step_room * words;
    replay->position.batches++;
    return record->step;
}

static void
s_all_have_it (job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        job->ranks [number].lacks = job->delivery.replay.next;
}

//  The step's entry: world_size counts, then the ids.
static const uint64_t *
s_record_step (job_t *job, uint32_t slot)
{
    const batch_t *batch = &job->draw.batches [slot];
    assert (s_is_same (job->delivery.replay.position, (broker_position_t) { batch->epoch, batch->index }));
    uint32_t samples = batch->drawn - batch->holes;
    uint64_t *step = s_enter_step (job, samples);
    uint64_t *ids = step + job->asked.world_size, *occurrences = ids + samples;
    memset (step, 0, job->asked.world_size * sizeof *step);
    //  Places are assigned in order, so the ids are rank by rank.
    for (uint32_t index = 0; index < batch->drawn; index++) {
        const batch_row_t *row = &batch->rows [index];
        if (row->state != ROW_FILLED)
            continue;
        step [row->rank]++;
        *ids++ = row->id;
        if (job->asked.order == SAMPLER_ORDER_LIST)
            *occurrences++ = row->occurrence;
    }
    s_all_have_it (job);
    return step;
}

static void
s_record_end (job_t *job, const wire_epoch_end_t *end)
{
    replay_t *replay = &job->delivery.replay;
    assert (s_is_same (replay->position, (broker_position_t) { end->epoch, end->batches }));
    s_enter (replay, end->samples);
    replay->position = (broker_position_t) { end->epoch + 1, 0 };
    s_all_have_it (job);
}

bool
steps_replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p)
{
    const replay_t *replay = &job->delivery.replay;
    broker_position_t position = { epoch, batches };
    for (*number_p = replay->first; *number_p < replay->next; ++*number_p)
        if (s_is_same (position, s_record (replay, *number_p)->before))
            return true;
    return s_is_same (position, replay->position);
}

uint64_t
steps_replay_count (const job_t *job, uint64_t number)
{
    uint64_t steps = 0;
    for (; number < job->delivery.replay.next; number++)
        steps += s_record (&job->delivery.replay, number)->step != NULL;
    return steps;
}

//  ---- life

size_t
steps_replay_bytes (const broker_terms_t *join)
{
    return s_record_room (join) * sizeof (replay_record_t)
        + s_step_room (join) * s_step_words (join->order, join->world_size, join->batch_size)
            * sizeof (uint64_t);
}

static void
s_take_over (job_t *job, const broker_terms_t *join)
{
    replay_t *replay = &job->delivery.replay;
    for (size_t index = s_first_usable (join); index < join->recent_count; index++) {
        const broker_record_t *record = &join->recent [index];
        replay->position = s_before (record);
        if (record->is_end)
            s_enter (replay, record->samples);
        else {
            uint64_t *step = s_enter_step (job, record->samples);
            memcpy (step, record->step, (job->asked.world_size + record->samples) * sizeof *step);
        }
    }
}

//  A place of a list, and how often each id stands in front of it.
typedef struct {
    const broker_terms_t *join;
    size_t place;
    uint32_t *before;
} places_t;

static void
s_go_to (places_t *self, size_t place)
{
    memset (self->before, 0, self->join->dataset->samples * sizeof *self->before);
    for (self->place = 0; self->place < place; self->place++)
        self->before [self->join->list [self->place]]++;
}

//  Goes back to a place with this id, over those of unreadable samples.  Of a node's part the list knows what
//  stands in front of a place on the other nodes too.
static uint32_t
s_go_back (places_t *self, uint64_t id)
{
    const uint32_t *occurrences = self->join->list_made->occurrences;
    while (self->place > 0) {
        uint32_t passed = self->join->list [--self->place];
        self->before [passed]--;
        if (passed == id)
            return occurrences? occurrences [self->place]: self->before [id];
    }
    return self->before [id];
}

//  The clients have told the ids only, the last of which stand in front of the place where the job resumes.
//  False: no memory.
static bool
s_count_occurrences (job_t *job, const broker_terms_t *join)
{
    places_t places = { .join = join, .before = malloc (join->dataset->samples * sizeof *places.before) };
    if (!places.before)
        return false;
    s_go_to (&places, join->taken_places);
    for (uint64_t number = job->delivery.replay.next; number-- > job->delivery.replay.first;) {
        const replay_record_t *record = s_record (&job->delivery.replay, number);
        if (!record->step)
            s_go_to (&places, join->list_count);
        for (uint64_t index = record->step? record->samples: 0; index-- > 0;) {
            uint64_t *ids = record->step + job->asked.world_size;
            ids [record->samples + index] = s_go_back (&places, ids [index]);
        }
    }
    free (places.before);
    return true;
}

bool
steps_replay_new (job_t *job, const broker_terms_t *join)
{
    replay_t *replay = &job->delivery.replay;
    replay->room = s_record_room (join);
    replay->step_room = s_step_room (join);
    replay->records = calloc (replay->room, sizeof *replay->records);
    replay->step_memory = calloc (replay->step_room
        * s_step_words (join->order, join->world_size, join->batch_size), sizeof (uint64_t));
    if (!replay->records || !replay->step_memory)
        return false;
    size_t first = s_first_usable (join), lacking = 0;
    s_take_over (job, join);            //  even if no rank lacks a step: one that dies next stands behind
    if (replay->next > replay->first && join->list && !s_count_occurrences (job, join))
        return false;
    replay->position = (broker_position_t) { join->epoch, join->epoch_batches };
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        bool is_known = !join->positions || s_lacking (join, first, join->positions [number], &lacking);
        assert (is_known);              //  otherwise the join would have been refused
        job->ranks [number].lacks = replay->next - lacking;
    }
    return true;
}

void
steps_replay_free (job_t *job)
{
    free (job->delivery.replay.records);
    free (job->delivery.replay.step_memory);
}

//  ---- padding

//  Filled rows of each rank in the step.
static void
s_count_rows (const job_t *job, const batch_t *batch, uint32_t *rows)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
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
    const batch_t *batch = &job->draw.batches [slot];
    if (padding->state != ROW_FILLED || padding->slot != slot)
        return false;
    return s_filled (job, batch, padding)
        || (s_is_empty (batch) && !sampler_is_dropped (job->dataset->sampler, padding->id));
}

//  None of its samples can be read.
static void
s_end_unreadable (job_t *job)
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

//  A sample to pad with: one that the job was sent, or any that can be read.  False: none can be read, or the
//  job is on one node.
static bool
s_padding_id (job_t *job, uint32_t *id_p)
{
    sampler_t *sampler = job->dataset->sampler;
    if (!job->delivery.has_padding_id || sampler_is_dropped (sampler, job->delivery.padding_id)) {
        any_t any = { .sampler = sampler };
        if (job_has_parts (job))
            sampler_each (sampler, job->consumer.sampler_job, s_find_any, &any);
        job->delivery.has_padding_id = any.is_found;
        job->delivery.padding_id = any.id;
    }
    *id_p = job->delivery.padding_id;
    return job->delivery.has_padding_id;
}

//  False: no sample of the step can be read any more, and the job has ended.
static bool
s_pad_rank (broker_t *self, rank_t *rank, uint32_t slot)
{
    job_t *job = rank->job;
    const batch_t *batch = &job->draw.batches [slot];
    const batch_row_t *other = s_filled (job, batch, NULL);
    batch_row_t *padding = &rank->padding;
    if (!other && !(s_is_empty (batch) && s_padding_id (job, &padding->id))) {
        s_end_unreadable (job);
        return false;
    }
    padding->slot = slot;
    padding->epoch = batch->epoch;
    padding->occurrence = other? other->occurrence: 0;
    if (other)
        padding->id = other->id;
    dispatch_await (padding, draw_serve (self, padding));
    return true;
}

//  Whether each rank has a row in the step; begins padding where one has none.
static bool
s_is_padded_out (broker_t *self, job_t *job, uint32_t slot)
{
    uint32_t rows [WIRE_RANKS_MAX];
    bool is_done = true;
    s_count_rows (job, &job->draw.batches [slot], rows);
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
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
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        row_state_t state = job->ranks [number].padding.state;
        if (state == ROW_WAITING || state == ROW_READY || state == ROW_COPYING)
            return true;
    }
    return false;
}

//  ---- steps

//  Whether a rank has as many unconsumed batches as slots.  Replayed batches are in no slot, so slots alone
//  do not tell; and the position of a lost rank must stay within the recorded steps.
static bool
s_is_behind (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        if (rank->sent - rank_batches_done (&rank->progress) >= job->asked.slots)
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
        return count > 0 || job->delivery.epoch_index < job_epoch_batches (job, batch->epoch);
    //  A job that keeps its holes leaves out only a batch that was never full.
    uint32_t full = draw_keeps_order (job)? batch->drawn: count;
    return count > 0 && (!job->asked.drop_last || full == job->asked.batch_size);
}

//  Sends the rank its part of the step, or its padding.
static void
s_send_part (rank_t *rank, uint32_t slot, const uint64_t *step, size_t step_words)
{
    const job_t *job = rank->job;
    const batch_t *batch = &job->draw.batches [slot];
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
    action_t *action = rank_add_action (rank, ACTION_SEND_BATCH);
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
s_send_parts (job_t *job, uint32_t slot, const uint64_t *step)
{
    const batch_t *batch = &job->draw.batches [slot];
    size_t step_words = step? job->asked.world_size + batch->drawn - batch->holes: 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        assert (job->ranks [number].state == RANK_HERE);                        //  B8
        s_send_part (&job->ranks [number], slot, step, step_words);
    }
}

static void
s_send (broker_t *self, job_t *job, uint32_t slot)
{
    batch_t *batch = &job->draw.batches [slot];
    uint32_t count = batch->drawn - batch->holes;
    job_batch_move (batch, SLOT_SENT);
    batch->index = job->delivery.epoch_index++;
    job->delivery.sent++;
    job->delivery.epoch_samples += count;
    job->delivery.delivered += count;
    self->delivered_count += count;
    const batch_row_t *sent = count? s_filled (job, batch, NULL): NULL;
    if (sent && job_has_parts (job)) {
        job->delivery.padding_id = sent->id;
        job->delivery.has_padding_id = true;
    }
    s_send_parts (job, slot, job->asked.world_size > 1? s_record_step (job, slot): NULL);
}

static void
s_send_epoch_end (job_t *job, uint64_t epoch)
{
    assert (!job->delivery.held_up);
    wire_epoch_end_t end = {
        .epoch = epoch, .samples = job->delivery.epoch_samples, .batches = job->delivery.epoch_index,
        .flags = job->asked.epochs && epoch + 1 == job->asked.epochs? WIRE_EPOCH_LAST: 0
    };
    if (job->asked.world_size > 1)
        s_record_end (job, &end);
    bad_tell (job);                         //  all its missing samples are told before its end
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        rank_add_action (&job->ranks [number], ACTION_SEND_EPOCH_END)->epoch_end = end;
    job->delivery.epoch_samples = job->delivery.epoch_index = 0;
}

void
steps_send (broker_t *self, job_t *job)
{
    if (job->draw.epoch_end_is_due && !job->delivery.held_up) {
        job->draw.epoch_end_is_due = false;
        s_send_epoch_end (job, job->draw.drawn_epoch);
    }
    while (job->draw.order_count > 0 && !job->delivery.held_up && !job_is_between_epochs (job)) {
        uint32_t slot = job_unsent_slot (job, 0);
        const batch_t *batch = &job->draw.batches [slot];
        if (batch->state != SLOT_FULL || batch->open > 0)
            return;
        bool is_sent = s_is_sent (job, batch);
        bool may_pad = job->asked.world_size > 1 || job_has_parts (job);
        if (may_pad && (s_is_padding (job) || (is_sent && !s_is_padded_out (self, job, slot))))
            return;
        if (is_sent && s_is_behind (job))
            return;
        bool ends_epoch = batch->ends_epoch;
        uint64_t epoch = batch->epoch;
        job->draw.order_first = (job->draw.order_first + 1) % WIRE_SLOTS_MAX;
        job->draw.order_count--;
        waits_restart (job);
        if (is_sent) {
            waits_count (job, &job->tenant->waits);
            s_send (self, job, slot);
        }
        else
            draw_release (job, slot);
        if (ends_epoch)
            s_send_epoch_end (job, epoch);
    }
}

//  ---- ranks that lack a step

bool
steps_are_held_up (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const rank_t *rank = &job->ranks [number];
        bool lacks_none = rank->state == RANK_HERE && rank->lacks == job->delivery.replay.next;
        if (!lacks_none && rank->state != RANK_LEFT)
            return true;
    }
    return false;
}

void
steps_settle (broker_t *self, job_t *job)
{
    if (job_has_ended (job) || job->state == JOB_ATTACHING || !job->delivery.held_up
        || steps_are_held_up (job))
        return;
    job->delivery.held_up = false;
    draw_go_on (self, job);
    steps_send (self, job);
}

//  ---- what a rank lacks

static void
s_send_end (rank_t *rank, const replay_record_t *record)
{
    const job_t *job = rank->job;
    rank_add_action (rank, ACTION_SEND_EPOCH_END)->epoch_end = (wire_epoch_end_t) {
        .epoch = record->before.epoch, .samples = record->samples, .batches = record->before.batches,
        .flags = job->asked.epochs && record->before.epoch + 1 == job->asked.epochs? WIRE_EPOCH_LAST: 0
    };
}

static void
s_prepare_row (broker_t *self, rank_t *rank, const replay_record_t *record, uint64_t id, uint64_t occurrence)
{
    again_t *again = &rank->again;
    batch_row_t *row = &again->rows [again->used++];
    again->open++;
    row->epoch = record->before.epoch;
    row->id = (uint32_t) id;
    row->occurrence = (uint32_t) occurrence;
    dispatch_await (row, draw_serve (self, row));
}

//  The sample at this place of the step.
static void
s_prepare (broker_t *self, rank_t *rank, const replay_record_t *record, uint64_t index)
{
    const uint64_t *ids = record->step + rank->job->asked.world_size;
    s_prepare_row (self, rank, record, ids [index],
        rank->job->asked.order == SAMPLER_ORDER_LIST? ids [record->samples + index]: 0);
}

//  One sample of the step, from any rank, for a rank that has none of its own.
static void
s_prepare_padding (broker_t *self, rank_t *rank, const replay_record_t *record)
{
    job_t *job = rank->job;
    const uint64_t *ids = record->step + job->asked.world_size;
    rank->again.is_padding = true;
    rank->again.used = 0;
    for (uint64_t index = 0; index < record->samples; index++)
        if (!sampler_is_dropped (job->dataset->sampler, (uint32_t) ids [index])) {
            s_prepare (self, rank, record, index);
            return;
        }
    uint32_t id;
    if (record->samples == 0 && s_padding_id (job, &id))
        s_prepare_row (self, rank, record, id, 0);
    else
        s_end_unreadable (job);
}

static void
s_prepare_step (broker_t *self, rank_t *rank, const replay_record_t *record)
{
    uint64_t first = 0;
    for (uint32_t number = 0; number < rank->number; number++)
        first += record->step [number];
    rank->again.is_padding = false;
    for (uint64_t index = 0; index < record->step [rank->number]; index++)
        s_prepare (self, rank, record, first + index);
    if (rank->again.used == 0)
        s_prepare_padding (self, rank, record);
}

void
steps_replay_go_on (broker_t *self, rank_t *rank)
{
    job_t *job = rank->job;
    if (rank->state != RANK_HERE || (job->state != JOB_RUNNING && job->state != JOB_DRAWN)
        || rank->again.used > 0)
        return;
    for (; rank->lacks < job->delivery.replay.next; rank->lacks++) {
        const replay_record_t *record = s_record (&job->delivery.replay, rank->lacks);
        if (record->step) {
            s_prepare_step (self, rank, record);
            return;
        }
        s_send_end (rank, record);
    }
    steps_settle (self, job);
}

void
steps_replay_stop (broker_t *self, rank_t *rank)
{
    again_t *again = &rank->again;
    for (uint32_t index = 0; index < again->used; index++) {
        dispatch_cancel (self, &again->rows [index]);
        if (again->rows [index].state != ROW_COPYING)
            row_move (&again->rows [index], ROW_EMPTY);
    }
    again->used = again->open = 0;
}

//  Notes the filled rows for the message; the rows are then free for the next step.
static void
s_tell (again_t *again)
{
    again->told = 0;
    for (uint32_t index = 0; index < again->used; index++) {
        batch_row_t *row = &again->rows [index];
        if (row->state == ROW_FILLED) {
            again->sent_rows [again->told] = index;
            again->ids [again->told++] = row->id;
        }
        row_move (row, ROW_EMPTY);
    }
    again->used = 0;
}

static void
s_send_again (rank_t *rank, const replay_record_t *record)
{
    const job_t *job = rank->job;
    action_t *action = rank_add_action (rank, ACTION_SEND_BATCH);
    action->batch = (wire_batch_t) {
        .sequence = rank->sent++, .epoch = record->before.epoch, .index = record->before.batches,
        .slot = WIRE_SLOT_NONE,
        .count = rank->again.told, .flags = WIRE_BATCH_INLINE | (rank->again.is_padding? WIRE_BATCH_PADDING:
        0)
    };
    action->step = record->step;
    action->step_words = job->asked.world_size + record->samples;
    rank->lacks++;
}

static void
s_deliver_again (broker_t *self, rank_t *rank)
{
    again_t *again = &rank->again;
    if (again->used == 0 || again->open > 0)
        return;
    const replay_record_t *record = s_record (&rank->job->delivery.replay, rank->lacks);
    s_tell (again);
    if (again->told == 0)
        s_prepare_padding (self, rank, record);
    else {
        s_send_again (rank, record);
        steps_replay_go_on (self, rank);
    }
}

//  ---- jobs that are marked

void
steps_send_marked (broker_t *self)
{
    for (job_t *job; (job = self->deliveries);) {
        self->deliveries = job->next_delivery;
        if (!self->deliveries)
            self->last_delivery = NULL;
        job->next_delivery = NULL;
        job->delivery.is_marked = false;
        for (uint32_t number = 0; number < job->asked.world_size && !job_has_ended (job); number++)
            s_deliver_again (self, &job->ranks [number]);
        if (!job_has_ended (job))
            steps_send (self, job);
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
    const batch_t *batch = &self->job->draw.batches [slot];
    for (uint32_t index = 0; index < batch->drawn; index++) {
        const batch_row_t *row = &batch->rows [index];
        if (row->rank != self->number || row->state != ROW_FILLED)
            continue;
        rows [count] = row->rank_row;
        ids [count++] = row->id;
    }
    return count;
}

//  ---- checks

static void
s_check_again (const rank_t *rank)
{
    const again_t *again = &rank->again;
    uint32_t open = 0;
    for (uint32_t index = 0; index < rank->job->asked.rank_batch; index++) {
        const batch_row_t *row = &again->rows [index];
        bool pinned = row->state == ROW_WAITING || row->state == ROW_READY
            || row->state == ROW_COPYING;
        assert (pinned == (row->version != NULL));
        assert (row->job == rank->job && row->rank == rank->number && row->rank_row == index);
        assert (row->slot == WIRE_SLOT_NONE && row->record == 0);
        open += pinned && index < again->used;
        if (rank->job->state != JOB_OVER)
            assert (index < again->used || row->state == ROW_EMPTY || row->state == ROW_COPYING);
    }
    if (rank->job->state == JOB_OVER)
        return;
    assert (open == again->open);
    assert (again->used == 0 || (rank->state == RANK_HERE && rank->lacks < rank->job->delivery.replay.next));
}

void
steps_replay_check (const job_t *job)
{
    const replay_t *replay = &job->delivery.replay;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        //  B8
        assert (job->ranks [number].lacks >= replay->first && job->ranks [number].lacks <= replay->next);
        s_check_again (&job->ranks [number]);
    }
    assert (s_steps_kept (replay) <= replay->step_room);
    for (uint64_t number = replay->first; number + 1 < replay->next; number++) {
        const replay_record_t *record = s_record (replay, number), *next = s_record (replay, number + 1);
        broker_position_t after = record->step?
            (broker_position_t) { record->before.epoch, record->before.batches + 1 }
            : (broker_position_t) { record->before.epoch + 1, 0 };
        assert (s_is_same (after, next->before));
    }
}
