//  The last steps of a job with ranks, and what a rank lacks of them.
//
//  happy path:     what goes to all ranks is recorded -> a rank comes back, or joins with less than the
//                  others -> each record that it lacks is sent to it alone: an epoch's end at once, a step
//                  when its samples are prepared again, one step at a time -> it lacks nothing
//  failure modes:  some samples of a step cannot be read any more: the batch is shorter; none of the rank's
//                  can: padding; none at all: the job ends.  The rank is lost meanwhile: when it is back, it
//                  continues from its position.
//
//  As many steps are kept as a client may lack: those in its slots, and those sent and not received.  While a
//  rank lacks a step nothing new is recorded, so the step stays.

#include "broker_replay.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "broker_ranks.h"
#include "draw.h"
#include "draw_send.h"
#include "schedule.h"
#include "states.h"

//  Steps kept beyond the number of slots.
enum { STEPS_MORE = 2 };

static uint32_t
s_step_room (const broker_join_t *join)
{
    return join->slots + STEPS_MORE;
}

//  Few epochs have no step, so there are hardly more ends than steps.
static uint32_t
s_record_room (const broker_join_t *join)
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

static record_t *
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
s_fits (const broker_join_t *join, const broker_record_t *record)
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
s_first_usable (const broker_join_t *join)
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
s_lacking (const broker_join_t *join, size_t first, broker_position_t position, size_t *count_p)
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
replay_is_wanted (const broker_join_t *join)
{
    broker_position_t goal = { join->epoch, join->epoch_batches };
    for (uint32_t number = 0; join->positions && number < join->world_size; number++)
        if (!s_is_same (join->positions [number], goal))
            return true;
    return false;
}

//  The first rank with the position at which the job resumes.
static uint32_t
s_furthest (const broker_join_t *join)
{
    broker_position_t goal = { join->epoch, join->epoch_batches };
    uint32_t number = 0;
    while (number + 1 < join->world_size && !s_is_same (join->positions [number], goal))
        number++;
    return number;
}

bool
replay_allows (const broker_join_t *join, refusal_t *refusal)
{
    if (!join->positions || !replay_is_wanted (join))
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

static record_t *
s_enter (replay_t *replay, uint64_t samples)
{
    if (replay->next - replay->first == replay->room)
        s_forget (replay);
    record_t *record = &replay->records [replay->next++ % replay->room];
    *record = (record_t) { .before = replay->position, .samples = samples };
    return record;
}

//  The caller fills in counts and ids.
static uint64_t *
s_enter_step (job_t *job, uint64_t samples)
{
    replay_t *replay = &job->replay;
    while (s_steps_kept (replay) == replay->step_room)
        s_forget (replay);
    record_t *record = s_enter (replay, samples);
    size_t words = s_step_words (job->order, job->world_size, job->rank_batch);
    record->step = replay->step_memory + replay->steps++ % replay->step_room * words;
    replay->position.batches++;
    return record->step;
}

static void
s_all_have_it (job_t *job)
{
    for (uint32_t number = 0; number < job->world_size; number++)
        job->ranks [number].lacks = job->replay.next;
}

const uint64_t *
replay_enter_step (job_t *job, uint32_t slot)
{
    const batch_t *batch = &job->batches [slot];
    assert (s_is_same (job->replay.position, (broker_position_t) { batch->epoch, batch->index }));
    uint32_t samples = batch->drawn - batch->holes;
    uint64_t *step = s_enter_step (job, samples);
    uint64_t *ids = step + job->world_size, *occurrences = ids + samples;
    memset (step, 0, job->world_size * sizeof *step);
    //  Places are assigned in order, so the ids are rank by rank.
    for (uint32_t index = 0; index < batch->drawn; index++) {
        const batch_row_t *row = &batch->rows [index];
        if (row->state != ROW_FILLED)
            continue;
        step [row->rank]++;
        *ids++ = row->id;
        if (job->order == SAMPLER_ORDER_LIST)
            *occurrences++ = row->occurrence;
    }
    s_all_have_it (job);
    return step;
}

void
replay_enter_end (job_t *job, const wire_epoch_end_t *end)
{
    replay_t *replay = &job->replay;
    assert (s_is_same (replay->position, (broker_position_t) { end->epoch, end->batches }));
    s_enter (replay, end->samples);
    replay->position = (broker_position_t) { end->epoch + 1, 0 };
    s_all_have_it (job);
}

bool
replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p)
{
    const replay_t *replay = &job->replay;
    broker_position_t position = { epoch, batches };
    for (*number_p = replay->first; *number_p < replay->next; ++*number_p)
        if (s_is_same (position, s_record (replay, *number_p)->before))
            return true;
    return s_is_same (position, replay->position);
}

uint64_t
replay_steps_from (const job_t *job, uint64_t number)
{
    uint64_t steps = 0;
    for (; number < job->replay.next; number++)
        steps += s_record (&job->replay, number)->step != NULL;
    return steps;
}

//  ---- life

size_t
replay_bytes (const broker_join_t *join)
{
    return s_record_room (join) * sizeof (record_t)
        + s_step_room (join) * s_step_words (join->order, join->world_size, join->batch_size)
            * sizeof (uint64_t);
}

static void
s_take_over (job_t *job, const broker_join_t *join)
{
    replay_t *replay = &job->replay;
    for (size_t index = s_first_usable (join); index < join->recent_count; index++) {
        const broker_record_t *record = &join->recent [index];
        replay->position = s_before (record);
        if (record->is_end)
            s_enter (replay, record->samples);
        else {
            uint64_t *step = s_enter_step (job, record->samples);
            memcpy (step, record->step, (job->world_size + record->samples) * sizeof *step);
        }
    }
}

//  A place of a list, and how often each id stands in front of it.
typedef struct {
    const broker_join_t *join;
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
    const uint32_t *occurrences = sampler_list_occurrences (self->join->list_made);
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
s_count_occurrences (job_t *job, const broker_join_t *join)
{
    places_t places = { .join = join, .before = malloc (join->dataset->samples * sizeof *places.before) };
    if (!places.before)
        return false;
    s_go_to (&places, join->taken_places);
    for (uint64_t number = job->replay.next; number-- > job->replay.first;) {
        const record_t *record = s_record (&job->replay, number);
        if (!record->step)
            s_go_to (&places, join->list_count);
        for (uint64_t index = record->step? record->samples: 0; index-- > 0;) {
            uint64_t *ids = record->step + job->world_size;
            ids [record->samples + index] = s_go_back (&places, ids [index]);
        }
    }
    free (places.before);
    return true;
}

bool
replay_new (job_t *job, const broker_join_t *join)
{
    replay_t *replay = &job->replay;
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
    for (uint32_t number = 0; number < job->world_size; number++) {
        bool is_known = !join->positions || s_lacking (join, first, join->positions [number], &lacking);
        assert (is_known);              //  otherwise the join would have been refused
        job->ranks [number].lacks = replay->next - lacking;
    }
    return true;
}

void
replay_free (job_t *job)
{
    free (job->replay.records);
    free (job->replay.step_memory);
}

//  ---- what a rank lacks

static void
s_send_end (broker_t *self, rank_t *rank, const record_t *record)
{
    const job_t *job = rank->job;
    broker_act_rank (self, ACTION_SEND_EPOCH_END, rank)->epoch_end = (wire_epoch_end_t) {
        .epoch = record->before.epoch, .samples = record->samples, .batches = record->before.batches,
        .flags = job->epochs && record->before.epoch + 1 == job->epochs? WIRE_EPOCH_LAST: 0
    };
}

static void
s_prepare_row (broker_t *self, rank_t *rank, const record_t *record, uint64_t id, uint64_t occurrence)
{
    again_t *again = &rank->again;
    batch_row_t *row = &again->rows [again->used++];
    again->open++;
    row->epoch = record->before.epoch;
    row->id = (uint32_t) id;
    row->occurrence = (uint32_t) occurrence;
    schedule_await (row, draw_serve (self, row));
}

//  The sample at this place of the step.
static void
s_prepare (broker_t *self, rank_t *rank, const record_t *record, uint64_t index)
{
    const uint64_t *ids = record->step + rank->job->world_size;
    s_prepare_row (self, rank, record, ids [index],
        rank->job->order == SAMPLER_ORDER_LIST? ids [record->samples + index]: 0);
}

//  One sample of the step, from any rank, for a rank that has none of its own.
static void
s_prepare_padding (broker_t *self, rank_t *rank, const record_t *record)
{
    job_t *job = rank->job;
    const uint64_t *ids = record->step + job->world_size;
    rank->again.is_padding = true;
    rank->again.used = 0;
    for (uint64_t index = 0; index < record->samples; index++)
        if (!sampler_is_dropped (job->dataset->sampler, (uint32_t) ids [index])) {
            s_prepare (self, rank, record, index);
            return;
        }
    uint32_t id;
    if (record->samples == 0 && draw_padding_id (job, &id))
        s_prepare_row (self, rank, record, id, 0);
    else
        draw_end_unreadable (job);
}

static void
s_prepare_step (broker_t *self, rank_t *rank, const record_t *record)
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
replay_go_on (broker_t *self, rank_t *rank)
{
    job_t *job = rank->job;
    if (rank->state != RANK_HERE || (job->state != JOB_RUNNING && job->state != JOB_DRAWN)
        || rank->again.used > 0)
        return;
    for (; rank->lacks < job->replay.next; rank->lacks++) {
        const record_t *record = s_record (&job->replay, rank->lacks);
        if (record->step) {
            s_prepare_step (self, rank, record);
            return;
        }
        s_send_end (self, rank, record);
    }
    ranks_settle (self, job);
}

void
replay_stop (broker_t *self, rank_t *rank)
{
    again_t *again = &rank->again;
    for (uint32_t index = 0; index < again->used; index++) {
        schedule_cancel (self, &again->rows [index]);
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
s_send (broker_t *self, rank_t *rank, const record_t *record)
{
    const job_t *job = rank->job;
    action_t *action = broker_act_rank (self, ACTION_SEND_BATCH, rank);
    action->batch = (wire_batch_t) {
        .sequence = rank->sent++, .epoch = record->before.epoch, .index = record->before.batches,
        .slot = WIRE_SLOT_NONE,
        .count = rank->again.told, .flags = WIRE_BATCH_INLINE | (rank->again.is_padding? WIRE_BATCH_PADDING:
        0)
    };
    action->step = record->step;
    action->step_words = job->world_size + record->samples;
    rank->lacks++;
}

void
replay_deliver (broker_t *self, rank_t *rank)
{
    again_t *again = &rank->again;
    if (again->used == 0 || again->open > 0)
        return;
    const record_t *record = s_record (&rank->job->replay, rank->lacks);
    s_tell (again);
    if (again->told == 0)
        s_prepare_padding (self, rank, record);
    else {
        s_send (self, rank, record);
        replay_go_on (self, rank);
    }
}

//  ---- checks

static void
s_check_again (const rank_t *rank)
{
    const again_t *again = &rank->again;
    uint32_t open = 0;
    for (uint32_t index = 0; index < rank->job->rank_batch; index++) {
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
    assert (again->used == 0 || (rank->state == RANK_HERE && rank->lacks < rank->job->replay.next));
}

void
replay_check (const job_t *job)
{
    const replay_t *replay = &job->replay;
    for (uint32_t number = 0; number < job->world_size; number++) {
        //  B8
        assert (job->ranks [number].lacks >= replay->first && job->ranks [number].lacks <= replay->next);
        s_check_again (&job->ranks [number]);
    }
    assert (s_steps_kept (replay) <= replay->step_room);
    for (uint64_t number = replay->first; number + 1 < replay->next; number++) {
        const record_t *record = s_record (replay, number), *next = s_record (replay, number + 1);
        broker_position_t after = record->step?
            (broker_position_t) { record->before.epoch, record->before.batches + 1 }
            : (broker_position_t) { record->before.epoch + 1, 0 };
        assert (s_is_same (after, next->before));
    }
}
