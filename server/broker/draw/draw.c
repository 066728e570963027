//  Draws: rounds, epochs, rows in batches.  Batches are steps of all ranks of their job.

#include "draw.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "dispatch.h"
#include "fetch_ahead.h"
#include "job.h"
#include "lookahead.h"
#include "raw_prefetch.h"
#include "raw_refcount.h"

//  A large window is drawn over several turns, so that no job holds up other jobs' messages.
enum { ROUNDS_A_TURN = 512 };

static batch_t *
s_filling (const job_t *job)
{
    return job->draw.filling < job->asked.slots? &job->draw.batches [job->draw.filling]: NULL;
}

//  ---- credit

//  Samples drawn and not released; a closed batch counts as full.
static uint64_t
s_outstanding (const job_t *job)
{
    uint64_t samples = (uint64_t) job->draw.used_slots * job->asked.batch_size;
    const batch_t *filling = s_filling (job);
    return filling? samples - (job->asked.batch_size - filling->drawn): samples;
}

//  How many samples may be drawn and not released now.  Slots in the user's hands come on top.
static uint64_t
s_window (const job_t *job)
{
    uint32_t slots = job->draw.used_slots + job->delivery.free_places;
    uint64_t whole = (uint64_t) (slots < job->asked.slots? slots: job->asked.slots) * job->asked.batch_size;
    uint64_t window = version_index_window (whole, job->consumer.follows || job->consumer.has_passes,
        job->asked.batch_size, job->delivery.released * job->asked.batch_size)
        + (uint64_t) job->delivery.in_hand * job->asked.batch_size;
    return window < whole? window: whole;
}

//  For a new step: a slot, and a place in each rank's ring.
static bool
s_has_slot (const job_t *job)
{
    return job->draw.used_slots < job->asked.slots && job->delivery.free_places > 0;
}

static bool
s_has_room (const job_t *job)
{
    return job->state == JOB_RUNNING && !job->delivery.held_up && (s_filling (job) || s_has_slot (job))
        && s_outstanding (job) < s_window (job);
}

//  A draw is needed below the window less one batch: that batch of slack lets equal jobs that are half a
//  batch out of phase still draw together (design: draws run ahead).  If a user keeps all slots but one, that
//  one is still filled.
static bool
s_needs_draw (const job_t *job)
{
    return s_outstanding (job) + job->asked.batch_size < s_window (job)
        || job->draw.used_slots - job->delivery.in_hand + job->delivery.free_places <= 1;
}

void
draw_release (job_t *job, uint32_t slot)
{
    batch_t *batch = &job->draw.batches [slot];
    assert (batch->state == SLOT_SENT || batch->state == SLOT_FULL);
    for (uint32_t index = 0; index < batch->drawn; index++) {
        batch->rows [index].is_hole = batch->rows [index].state == ROW_HOLE;
        row_move (&batch->rows [index], ROW_EMPTY);
    }
    bool was_sent = batch->state == SLOT_SENT;
    uint32_t sent = was_sent? batch->drawn: 0;
    job_batch_move (batch, SLOT_FREE);
    *batch = (batch_t) { .rows = batch->rows, .past = { batch->epoch, batch->index, sent } };
    job->draw.used_slots--;
    if (!was_sent)              //  otherwise each rank's was free when it let go of its part
        job_measure_places (job);
}

//  ---- rows

//  The next batch, for so many samples; returns its slot.
static uint32_t
s_take_slot (job_t *job, uint32_t planned)
{
    uint32_t slot = 0;
    while (job->draw.batches [slot].state != SLOT_FREE)
        slot++;
    assert (slot < job->asked.slots);
    job_take_places (job, slot);
    job_batch_move (&job->draw.batches [slot], SLOT_FILLING);
    job->draw.batches [slot].epoch = job->draw.epoch;
    job->draw.batches [slot].planned = planned;
    job->draw.used_slots++;
    job->draw.opened++;
    job->draw.order_of [(job->draw.order_first + job->draw.order_count++) % WIRE_SLOTS_MAX] = slot;
    return slot;
}

//  Each rank has an equal part of the step; a remainder goes to the first ranks, one sample each.
static void
s_deal (const job_t *job, const batch_t *batch, batch_row_t *row)
{
    uint32_t part = batch->planned / job->asked.world_size, longer = batch->planned % job->asked.world_size;
    uint32_t in_longer = longer * (part + 1), index = row->index;
    if (index < in_longer) {
        row->rank = index / (part + 1);
        row->rank_row = index % (part + 1);
        return;
    }
    assert (part > 0);
    row->rank = longer + (index - in_longer) / part;
    row->rank_row = (index - in_longer) % part;
    assert (row->rank < job->asked.world_size);
}

static void
s_occupy (batch_row_t *row, uint32_t id)
{
    job_t *job = row->job;
    row->id = id;
    row->occurrence = sampler_occurrence (job->dataset->sampler, job->consumer.sampler_job);
}

//  The next row of the job's batch, for the sample it has just drawn.
static batch_row_t *
s_take_row (job_t *job, uint32_t id)
{
    batch_t *batch = s_filling (job);
    if (!batch) {
        //  The ranks' parts of the step follow from its number of samples, as far as known now.  One sample
        //  has been drawn already.
        uint64_t left = sampler_remaining (job->dataset->sampler, job->consumer.sampler_job) + 1;
        job->draw.filling = s_take_slot (job, left < job->asked.batch_size? (uint32_t) left:
            job->asked.batch_size);
        batch = &job->draw.batches [job->draw.filling];
    }
    batch_row_t *row = &batch->rows [batch->drawn++];
    batch->open++;
    row->epoch = job->draw.epoch;
    s_deal (job, batch, row);
    s_occupy (row, id);
    if (batch->drawn == job->asked.batch_size) {
        job_batch_move (batch, SLOT_FULL);
        job->draw.filling = job->asked.slots;
    }
    return row;
}

//  ---- one draw

//  The drawn sample, held once for the caller.  The tier's hold passes to the caller, unless the tier keeps
//  the sample for another epoch.
static raw_sample_t *
s_take_sample (broker_t *self, job_t *job, uint32_t id)
{
    tier_t *tier = job->fetch.tier;
    uint32_t lane = raw_refcount_lane (self, job->tenant);
    raw_sample_t *sample = raw_refcount_take (self, job->dataset, id);      //  before the tier drops its hold
    tier_taken_t taken = tier? tier_take (tier, id): TIER_ABSENT;
    if (taken == TIER_HANDED)
        raw_store_drop (self->raw, sample);
    if (taken != TIER_ABSENT) {
        job->dataset->prefetch->memory_bytes += sample->bytes;
        //  What the tier does not keep is in a tenant's lane, where there are lanes: no other tenant pays.
        bool is_kept = raw_pool_is_resident (tier_pool (tier), id);
        if (!is_kept && raw_sample_lane (sample) == 0)
            raw_store_count (self->raw, sample, lane);
        assert (is_kept || raw_sample_lane (sample) != 0 || lane == 0);
    }
    if (raw_sample_is_new (sample)) {
        raw_refcount_read_alone (self, lane, job->dataset, sample);
        job->counts.single_reads++;
        job->counts.single_bytes += sample->bytes;
    }
    return sample;
}

//  Of a pack: the sampler has committed the id, and these versions serve the jobs: new ones take hold of the
//  sample's bytes.
static void
s_take_bytes (broker_t *self, job_t *job, uint32_t id, version_t *const *versions, size_t count)
{
    tier_t *tier = job->fetch.tier;
    raw_sample_t *sample = NULL;
    if (tier)                   //  redox: the pick may have scheduled the read of this very sample
        raw_prefetch_fill (self, job, tier);
    for (size_t index = 0; index < count; index++) {
        version_t *version = versions [index];
        if (version->state != VERSION_IDLE || version->raw)
            continue;
        if (!sample)
            sample = s_take_sample (self, job, id);
        raw_refcount_attach (self, version, sample);
    }
    if (sample)
        raw_store_drop (self->raw, sample);
    else
    if (tier)
        tier_drawn (tier, id);
    if (tier)
        raw_prefetch_fill (self, job, tier);
    if (job->fetch.ahead)
        lookahead_drop (self, job, id);
}

//  Draws one sample for the jobs of an offer.  instead: the row to fill, when the offer has a single job;
//  NULL: each job's next row.
static void
s_draw (broker_t *self, dataset_t *dataset, const sampler_offer_t *offer, batch_row_t *instead)
{
    job_t *jobs [SAMPLER_JOBS_MAX];
    consumer_t *consumers [SAMPLER_JOBS_MAX];
    version_t *versions [SAMPLER_JOBS_MAX];
    size_t count = offer->job_count;
    assert (count > 0);
    for (size_t index = 0; index < count; index++) {
        jobs [index] = dataset->jobs [offer->jobs [index]];
        jobs [index]->consumer.number = (uint32_t) jobs [index]->draw.epoch;
        jobs [index]->sharing.is_due = true;
        consumers [index] = &jobs [index]->consumer;
    }
    tier_t *tier = jobs [0]->fetch.tier;
    uint32_t id = tier? tier_pick (tier, consumers, count): sampler_pick (dataset->sampler);
    assert (sampler_accepts (dataset->sampler, id));
    version_index_draw (self->version_index, consumers, count, id, versions, NULL);
    if (dataset->prefetch)
        s_take_bytes (self, jobs [0], id, versions, count);
    for (size_t index = 0; index < count; index++) {
        batch_row_t *row = instead? instead: s_take_row (jobs [index], id);
        if (instead)
            s_occupy (instead, id);
        sharing_served (self, row, versions [index]);
        dispatch_await (row, versions [index]);
    }
}

static void
s_draw_alone (broker_t *self, job_t *job, batch_row_t *row)
{
    sampler_t *sampler = job->dataset->sampler;
    sampler_offer_t offer;
    sampler_round_begin (sampler, &job->consumer.sampler_job, 1);
    while (sampler_offer (sampler, &offer))
        s_draw (self, job->dataset, &offer, row);
}

//  ---- epochs

//  Marks the epoch's last batch, so that its end is told after it.
static void
s_mark_end (job_t *job)
{
    batch_t *last = s_filling (job);
    if (last) {
        job_batch_move (last, SLOT_FULL);
        job->draw.filling = job->asked.slots;
    }
    else
    if (job->draw.order_count) {
        uint32_t newest = job_unsent_slot (job, job->draw.order_count - 1);
        if (job->draw.batches [newest].epoch == job->draw.epoch)
            last = &job->draw.batches [newest];
    }
    if (last)
        last->ends_epoch = true;
    else {                                              //  the last batch was sent already
        assert (!job->draw.epoch_end_is_due);
        job->draw.epoch_end_is_due = true;
        job->draw.drawn_epoch = job->draw.epoch;
    }
}

static void
s_close_epoch (broker_t *self, job_t *job)
{
    s_mark_end (job);
    if ((job->asked.epochs && job->draw.epoch + 1 == job->asked.epochs) || self->draining)
        job_move (job, JOB_DRAWN);
    else {
        job->draw.epoch++;
        job->draw.opened = 0;
        version_index_epoch_begin (self->version_index, &job->consumer);
        raw_prefetch_epoch_begin (self, job);
        fetch_ahead_begin (job);
    }
    job_mark_delivery (job);                            //  all its rows may be filled already
}

//  Whether nothing more of this epoch will be drawn.
static bool
s_epoch_is_drawn (job_t *job)
{
    uint64_t remaining = sampler_remaining (job->dataset->sampler, job->consumer.sampler_job);
    if (job_has_parts (job))
        return (remaining == 0 || (job->asked.drop_last && !s_filling (job)))
            && job->draw.opened >= job_epoch_batches (job, job->draw.epoch);
    return remaining == 0 || (job->asked.drop_last && !s_filling (job) && remaining < job->asked.batch_size);
}

//  An epoch may end while the job is held up: then it is closed when the job resumes.
static void
s_after_draw (broker_t *self, job_t *job)
{
    if (job->state == JOB_RUNNING && !job->delivery.held_up && s_epoch_is_drawn (job))
        s_close_epoch (self, job);
}

//  Whether all that the node has for the epoch is drawn, and other nodes send more batches of it.
static bool
s_lacks_batches (const job_t *job)
{
    return job_has_parts (job) && job->state == JOB_RUNNING && !job->delivery.held_up
        && sampler_remaining (job->dataset->sampler, job->consumer.sampler_job) == 0;
}

//  Opens batches without samples, as slots become free, until the epoch has as many as on other nodes; each
//  rank gets padding.  An epoch may consist of these alone.
static void
s_pad_epoch (broker_t *self, job_t *job, int64_t now_ms)
{
    while (s_lacks_batches (job) && job->draw.start_ms <= now_ms) {
        batch_t *filling = s_filling (job);
        if (filling) {
            job_batch_move (filling, SLOT_FULL);
            job->draw.filling = job->asked.slots;
        }
        for (; s_has_slot (job) && job->draw.opened < job_epoch_batches (job, job->draw.epoch);)
            job_batch_move (&job->draw.batches [s_take_slot (job, 0)], SLOT_FULL);
        job_mark_delivery (job);
        if (!s_epoch_is_drawn (job))
            return;
        s_after_draw (self, job);
    }
}

void
draw_go_on (broker_t *self, job_t *job)
{
    s_after_draw (self, job);
}

void
draw_settle (broker_t *self, dataset_t *dataset)
{
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *job = dataset->jobs [number];
        if (!job || job_has_ended (job))
            continue;
        uint64_t samples = sampler_epoch_samples (dataset->sampler, number);
        //  Draws are final: a later bad sample does not end a job that has received, or will receive,
        //  something.
        if (job->state == JOB_DRAWN && (samples > 0 || job->delivery.delivered > 0))
            continue;
        bool is_short = job->asked.drop_last && samples < job->asked.batch_size && !job_has_parts (job);
        if (samples == 0 || is_short) {
            char *which = job_unreadable_message (job);
            job_end (job, "unreadable", "of the job's samples too few can be read: %s", which);
            free (which);
        }
        else
            s_after_draw (self, job);
    }
}

//  ---- the first draw

//  Jobs that are started together should begin together: the first of an idle group waits a moment for the
//  others, because dependent sampling can share only what two jobs need at the same time.
void
draw_start (broker_t *self, job_t *job, int64_t now_ms)
{
    job_move (job, job->asked.epochs && job->draw.epoch >= job->asked.epochs? JOB_DRAWN: JOB_RUNNING);
    job->draw.start_ms = now_ms;
    fetch_ahead_begin (job);
    if (job->state == JOB_DRAWN || job->asked.order != SAMPLER_ORDER_SHARED)
        return;
    int64_t first = INT64_MAX;
    sampler_t *sampler = job->dataset->sampler;
    for (size_t group = 0; group < sampler_group_count (sampler); group++) {
        size_t count;
        const uint32_t *members = sampler_group (sampler, group, &count);
        bool mine = false;
        int64_t start = INT64_MAX;
        for (size_t index = 0; index < count; index++) {
            const job_t *other = job->dataset->jobs [members [index]];
            mine |= other == job;
            if (other != job && other->state == JOB_RUNNING && other->draw.start_ms < start)
                start = other->draw.start_ms;
        }
        if (mine)
            first = start;
    }
    if (first == INT64_MAX)
        job->draw.start_ms = now_ms + self->options.gather_ms;
    else
    if (first > now_ms)
        job->draw.start_ms = first;
}

//  ---- rounds

//  Draws one sample for every job of the group that has room, if any job needs one.  False: none does.
static bool
s_round (broker_t *self, dataset_t *dataset, const uint32_t *members, size_t count, int64_t now_ms)
{
    uint32_t takers [SAMPLER_JOBS_MAX];
    size_t taker_count = 0;
    bool needed = false;
    for (size_t index = 0; index < count; index++) {
        job_t *job = dataset->jobs [members [index]];
        if (!job || !s_has_room (job) || s_lacks_batches (job))
            continue;
        if (job->draw.start_ms > now_ms) {
            broker_wake (self, job->draw.start_ms);
            continue;
        }
        takers [taker_count++] = members [index];
        needed = needed || s_needs_draw (job);
    }
    if (!needed)
        return false;
    sampler_offer_t offer;
    sampler_round_begin (dataset->sampler, takers, taker_count);
    while (sampler_offer (dataset->sampler, &offer))
        s_draw (self, dataset, &offer, NULL);
    for (size_t index = 0; index < taker_count; index++)
        s_after_draw (self, dataset->jobs [takers [index]]);
    return true;
}

void
draw_rounds (broker_t *self, int64_t now_ms)
{
    for (size_t index = 0; index < self->dataset_count; index++) {
        dataset_t *dataset = self->datasets [index];
        for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
            if (dataset->jobs [number])
                s_pad_epoch (self, dataset->jobs [number], now_ms);
        for (size_t group = 0; group < sampler_group_count (dataset->sampler); group++) {
            size_t count;
            const uint32_t *members = sampler_group (dataset->sampler, group, &count);
            int rounds = 0;
            while (rounds < ROUNDS_A_TURN && s_round (self, dataset, members, count, now_ms))
                rounds++;
            if (rounds == ROUNDS_A_TURN)
                broker_wake (self, now_ms);             //  other jobs' messages first, then continue
        }
    }
}

//  ---- unreadable samples

bool
draw_keeps_order (const job_t *job)
{
    return job->asked.order == SAMPLER_ORDER_LIST || job->asked.order == SAMPLER_ORDER_SEEDED;
}

//  The row that the epoch can best leave empty: in its last unsent batch.
static batch_row_t *
s_last_row (job_t *job, const batch_row_t *row)
{
    uint32_t slot = job->asked.slots;
    for (uint32_t index = 0; index < job->draw.order_count; index++) {
        uint32_t candidate = job_unsent_slot (job, index);
        if (job->draw.batches [candidate].epoch == row->epoch)
            slot = candidate;
    }
    if (slot == job->asked.slots || slot == row->slot)
        return NULL;
    batch_t *batch = &job->draw.batches [slot];
    for (uint32_t index = batch->drawn; index-- > 0;) {
        row_state_t state = batch->rows [index].state;
        if (state == ROW_WAITING || state == ROW_READY || state == ROW_FILLED || state == ROW_LOST)
            return &batch->rows [index];
    }
    return NULL;
}

//  For a `seeded` job the epoch determines the version.
version_t *
draw_serve (broker_t *self, batch_row_t *row)
{
    job_t *job = row->job;
    job->consumer.number = (uint32_t) row->epoch;
    return version_index_serve (self->version_index, &job->consumer, row->id);
}

//  Moves the sample of the epoch's last row to this one, so that the last batch gets shorter instead.
static bool
s_move_up (broker_t *self, batch_row_t *row)
{
    job_t *job = row->job;
    batch_row_t *last = s_last_row (job, row);
    if (!last)
        return false;
    batch_t *batch = &job->draw.batches [last->slot];
    if (last->state != ROW_FILLED)
        batch->open--;
    dispatch_cancel (self, last);
    row_move (last, ROW_HOLE);
    batch->holes++;
    row->id = last->id;
    row->occurrence = last->occurrence;
    version_t *version = draw_serve (self, row);
    sharing_served (self, row, version);
    dispatch_await (row, version);
    return true;
}

//  Gives a row with an unreadable sample another one of the same epoch; false: none is left, or the batch
//  becomes shorter instead.
static bool
s_substitute (broker_t *self, batch_row_t *row)
{
    job_t *job = row->job;
    if (draw_keeps_order (job))
        return false;
    if (row->epoch == job->draw.epoch
        && sampler_remaining (job->dataset->sampler, job->consumer.sampler_job) > 0) {
        s_draw_alone (self, job, row);
        return true;
    }
    return s_move_up (self, row);
}

void
draw_again (broker_t *self, batch_row_t *row)
{
    job_t *job = row->job;
    if (job_has_ended (job))
        return;
    if (row == &job->ranks [row->rank].padding) {
        job_mark_delivery (job);            //  which looks for another sample
        return;
    }
    if (row->slot != WIRE_SLOT_NONE) {
        if (s_substitute (self, row))
            return;
        job->draw.batches [row->slot].holes++;
    }
    row_move (row, ROW_HOLE);
    row_done (row);
}

//  ---- ranks that are lost, and come back

static void
s_lose_row (broker_t *self, batch_t *batch, batch_row_t *row)
{
    if (row->state == ROW_COPYING || row->state == ROW_HOLE)
        return;                             //  a row that a worker copies becomes lost when the worker is
                                            //  done
    batch->open += row->state == ROW_FILLED;
    dispatch_cancel (self, row);
    row_move (row, ROW_LOST);
}

void
draw_lose (broker_t *self, rank_t *rank)
{
    job_t *job = rank->job;
    for (uint32_t order = 0; order < job->draw.order_count; order++) {
        batch_t *batch = &job->draw.batches [job_unsent_slot (job, order)];
        for (uint32_t index = 0; index < batch->drawn; index++)
            if (batch->rows [index].rank == rank->number)
                s_lose_row (self, batch, &batch->rows [index]);
    }
    waits_restart (job);
}

void
draw_revive (broker_t *self, rank_t *rank)
{
    job_t *job = rank->job;
    for (uint32_t order = 0; order < job->draw.order_count; order++) {
        batch_t *batch = &job->draw.batches [job_unsent_slot (job, order)];
        for (uint32_t index = 0; index < batch->drawn; index++) {
            batch_row_t *row = &batch->rows [index];
            if (row->rank != rank->number || row->state != ROW_LOST)
                continue;
            version_t *version = draw_serve (self, row);
            sharing_served (self, row, version);
            dispatch_await (row, version);
        }
    }
}
