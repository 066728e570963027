//  Jobs of several ranks: what they ask for, and what must hold of what all of them get.

#include "simulation_parts.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "job.h"

static group_t *
s_group (const simulation_t *self, int client)
{
    int group = self->clients [client].group;
    assert_true (group >= 0);
    return (group_t *) (uintptr_t) &self->groups [group];
}

static client_t *
s_newest (simulation_t *self, const group_t *group, uint32_t rank)
{
    return &self->clients [group->clients [rank]];
}

static bool
s_is_there (const client_t *client)
{
    return client->rank && !client->is_gone && rank_is_there (client->rank);
}

//  ---- where ranks stand

static simulated_state_t
s_copied (const simulated_state_t *state)
{
    simulated_state_t copy = *state;
    copy.taken = state->taken? roaring_bitmap_copy (state->taken): NULL;
    return copy;
}

static void
s_walk (const broker_record_t *record, uint32_t world_size, simulated_state_t *state)
{
    if (record->is_end) {
        assert_true (state->epoch == record->epoch && state->batches == record->index);
        state->epoch++;
        state->batches = state->samples = 0;
        if (state->taken)
            roaring_bitmap_clear (state->taken);
        return;
    }
    assert_true (state->epoch == record->epoch && state->batches == record->index);
    state->batches++;
    state->samples += record->samples;
    for (uint64_t index = 0; state->taken && index < record->samples; index++)
        roaring_bitmap_add (state->taken, (uint32_t) record->step [world_size + index]);
}

static void
s_state_at (const simulation_t *self, const group_t *group, size_t records, simulated_state_t *state)
{
    assert_true (records <= group->count);
    *state = s_copied (&group->begin);
    for (size_t index = 0; index < records; index++)
        s_walk (&group->records [index], group->options.world_size, state);
    if (group->options.list)
        state->places = state->samples? clients_places (self, &group->options, state->samples): 0;
}

void
simulation_state_at (const simulation_t *self, int client, size_t records, simulated_state_t *state)
{
    s_state_at (self, s_group (self, client), records, state);
    memcpy (state->run, self->clients [client].run, sizeof state->run);
}

//  ---- joining

static broker_record_t
s_copied_record (const broker_record_t *record, uint32_t world_size)
{
    broker_record_t copy = *record;
    if (record->is_end)
        return copy;
    uint64_t *step = calloc (world_size + record->samples, sizeof *step);
    assert_non_null (step);
    memcpy (step, record->step, (world_size + record->samples) * sizeof *step);
    copy.step = step;
    return copy;
}

static void
s_add_record (group_t *group, const broker_record_t *record)
{
    if (group->count == group->room) {
        group->room = 2 * group->room + 16;
        group->records = realloc (group->records, group->room * sizeof *group->records);
        assert_non_null (group->records);
    }
    group->records [group->count++] = s_copied_record (record, group->options.world_size);
}

static uint64_t
s_whole (const simulation_t *self, const simulated_job_t *job)
{
    return job->list? job->list_count: job->to? job->to - job->from: self->options.samples;
}

//  A group that begins with the records that its ranks have received already.
static group_t *
s_new_group (simulation_t *self, const simulated_job_t *job, const simulated_state_t *from,
    const group_t *before, size_t records)
{
    assert_true (self->group_count < GROUPS_MAX);
    group_t *group = &self->groups [self->group_count++];
    *group = (group_t) { .options = *job };
    if (before)
        group->begin = s_copied (&before->begin);
    else
    if (from)
        group->begin = s_copied (from);
    else
    if (!job->list)
        group->begin.taken = roaring_bitmap_create ();
    for (size_t index = 0; index < records; index++)
        s_add_record (group, &before->records [index]);
    group->remaining = s_whole (self, job) - (from? job->list? from->places: from->samples: 0);
    group->options.state = NULL;
    group->options.standing = NULL;
    group->options.cut = NULL;
    group->options.run = NULL;                  //  each return says it, or not
    group->options.instances = NULL;
    return group;
}

static client_t *
s_add_rank (simulation_t *self, group_t *group, const simulated_job_t *job, simulated_ask_t *ask,
    uint32_t rank, const char *instance, size_t records)
{
    simulated_state_t stood;
    s_state_at (self, group, records, &stood);
    simulated_job_t own = *job;
    own.sample_us = job->rank_us? job->rank_us [rank]: job->sample_us;
    client_t *client = clients_add (self, &own, ask, job_rank (group->job, rank), &stood);
    simulation_state_clear (&stood);
    assert_int_equal (client->number, rank);
    snprintf (client->instance, sizeof client->instance, "%s", instance);
    client->group = (int) (group - self->groups);
    client->next_record = records;
    client->late_records = group->count;
    group->clients [rank] = (int) (client - self->clients);
    return client;
}

//  The instance of a rank's client that was given none.
static void
s_name (const simulation_t *self, uint32_t rank, char instance [WIRE_RUN_BYTES + 1])
{
    snprintf (instance, WIRE_RUN_BYTES + 1, "%08x%016x%08x", (unsigned) self->group_count + 1, 0,
        (unsigned) rank);
}

//  What the ranks say of where they stand.
typedef struct {
    size_t records [WIRE_RANKS_MAX], furthest;
    broker_position_t positions [WIRE_RANKS_MAX];
    simulated_state_t state;    //  of the furthest
    const group_t *before;
} stood_t;

static void
s_stand (const simulated_standing_t *standing, uint32_t world_size, simulated_ask_t *ask, stood_t *stood)
{
    const simulation_t *simulation = standing->simulation;
    stood->before = s_group (simulation, standing->client);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        simulated_state_t state;
        stood->records [rank] = standing->records [rank];
        s_state_at (simulation, stood->before, stood->records [rank], &state);
        stood->positions [rank] = (broker_position_t) { state.epoch, state.batches };
        simulation_state_clear (&state);
        if (stood->records [rank] > stood->furthest)
            stood->furthest = stood->records [rank];
    }
    s_state_at (simulation, stood->before, stood->furthest, &stood->state);
    memcpy (stood->state.run, simulation->clients [standing->client].run, sizeof stood->state.run);
    size_t told = standing->recent_count < stood->furthest? standing->recent_count: stood->furthest;
    broker_terms_t *join = &ask->join;
    join->epoch = stood->state.epoch;
    join->epoch_batches = stood->state.batches;
    join->taken = stood->state.taken;
    join->taken_places = stood->state.places;
    join->run = join->run? join->run: stood->state.run;
    join->positions = stood->positions;
    join->recent = stood->before->records + stood->furthest - told;
    join->recent_count = told;
}

static void
s_add_ranks (simulation_t *self, const simulated_job_t *job, simulated_ask_t *ask, job_t *joined,
    const stood_t *stood)
{
    const simulated_state_t *from = job->standing? &stood->state: job->state;
    group_t *group = s_new_group (self, job, from, stood->before, job->standing? stood->furthest: 0);
    group->job = joined;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        s_add_rank (self, group, job, ask, rank, ask->join.instances [rank], stood->records [rank]);
    group->options.rank_us = NULL;
}

int
ranks_join (simulation_t *self, const simulated_job_t *job)
{
    char names [WIRE_RANKS_MAX] [WIRE_RUN_BYTES + 1];
    simulated_ask_t ask;
    stood_t stood = { .furthest = 0 };
    clients_ask (self, job, &ask);
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        s_name (self, rank, names [rank]);
        ask.join.instances [rank] = job->instances? job->instances [rank]: names [rank];
    }
    ask.join.job_name = job->job_name? job->job_name: "ranks";
    if (job->standing)
        s_stand (job->standing, job->world_size, &ask, &stood);
    int first = self->client_count;
    bool allowed = broker_allows (self->broker, &ask.join, self->now_us / 1000, &self->refusal);
    job_t *joined = broker_join (self->broker, &ask.join, self->now_us / 1000, &self->refusal);
    assert_true (allowed || !joined);
    if (joined) {
        assert_int_equal (job_world_size (joined), job->world_size);
        s_add_ranks (self, job, &ask, joined, &stood);
    }
    clients_ask_clear (&ask);
    simulation_state_clear (&stood.state);
    for (int client = first; joined && !job->detached && client < self->client_count; client++)
        clients_attach (self, &self->clients [client]);
    return joined? first: -1;
}

broker_return_t
simulation_return (simulation_t *self, int number, const simulated_return_t *how, int *client_p)
{
    group_t *group = s_group (self, number);
    uint32_t rank = self->clients [number].number;
    const client_t *last = s_newest (self, group, rank);
    simulation_drain (self);
    simulated_job_t job = how->job? *how->job: group->options;
    job.detached = how->detached;
    job.is_inline = how->is_inline;
    job.sample_us = how->sample_us;
    job.run = how->run;
    job.job_name = job.job_name? job.job_name: "ranks";
    simulated_state_t stood;
    s_state_at (self, group, how->records, &stood);
    simulated_ask_t ask;
    clients_ask (self, &job, &ask);
    ask.join.epoch = stood.epoch;
    ask.join.epoch_batches = stood.batches;
    ask.join.taken = stood.taken;
    ask.join.taken_places = stood.places;
    char instance [WIRE_RUN_BYTES + 1];
    snprintf (instance, sizeof instance, "%s", how->instance? how->instance: last->instance);
    ask.join.instances [rank] = instance;
    job_t *found = NULL;
    broker_return_t answer = broker_returns (self->broker, &ask.join, rank, self->now_us / 1000, &found,
        &self->refusal);
    if (answer == BROKER_RETURN_READY) {
        assert_ptr_equal (found, group->job);
        rank_t *back = broker_return (self->broker, found, rank, &ask.join, self->now_us / 1000,
            &self->refusal);
        if (back) {
            assert_ptr_equal (back, job_rank (found, rank));
            client_t *client = s_add_rank (self, group, &job, &ask, rank, instance, how->records);
            *client_p = (int) (client - self->clients);
            if (!how->detached)
                clients_attach (self, client);
        }
        else
            answer = BROKER_RETURN_REFUSED;
    }
    clients_ask_clear (&ask);
    simulation_state_clear (&stood);
    return answer;
}

//  ---- what they get

//  Whether the ids are some of the others, in their order.
static bool
s_are_among (const uint64_t *ids, uint64_t count, const uint64_t *others, uint64_t other_count)
{
    uint64_t found = 0;
    for (uint64_t index = 0; index < other_count && found < count; index++)
        found += others [index] == ids [found];
    return found == count;
}

//  The rows of a rank are its part of the step; or one sample more, where it has none.  Of what it gets late
//  a sample may have become unreadable since.
static void
s_check_part (const simulation_t *self, const client_t *client, const action_t *action, const uint64_t *ids,
    uint32_t count)
{
    uint32_t world_size = client->options.world_size;
    const uint64_t *counts = action->step, *own = action->step + world_size;
    uint64_t samples = 0;
    assert_true (action->step && action->step_words >= world_size + (client->options.nodes <= 1));
    for (uint32_t rank = 0; rank < world_size; rank++) {
        assert_true (counts [rank] <= client->options.batch_size);
        own += rank < client->number? counts [rank]: 0;
        samples += counts [rank];
    }
    assert_true (samples == action->step_words - world_size);
    bool may_lack = self->options.readable && client->next_record < client->late_records;
    bool is_padding = action->batch.flags & WIRE_BATCH_PADDING;
    assert_true (is_padding == (counts [client->number] == 0) || (is_padding && may_lack));
    if (is_padding) {
        assert_int_equal (count, 1);
        assert_true (samples == 0 || s_are_among (ids, 1, action->step + world_size, samples));
    }
    else {
        assert_true (count == counts [client->number] || (may_lack && count < counts [client->number]));
        assert_true (s_are_among (ids, count, own, counts [client->number]));
    }
}

//  Dumb: of n samples that are left, or of world_size times batch_size, rank r gets n / world_size, and one
//  more if r is below the rest.
static void
s_check_form (const simulation_t *self, group_t *group, const broker_record_t *record)
{
    const simulated_job_t *job = &group->options;
    if (self->options.readable || self->options.damaged || job->nodes > 1)
        return;
    uint64_t full = (uint64_t) job->world_size * job->batch_size,
        planned = group->remaining < full? group->remaining: full;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        assert_int_equal (record->step [rank],
            planned / job->world_size + (rank < planned % job->world_size));
    if (job->drop_last)
        assert_int_equal (planned, full);
    group->remaining -= planned;
}

//  B8: something new is sent when all ranks are there and have got all before it.  One may have died since
//  the broker said so.
static void
s_check_level (simulation_t *self, const group_t *group)
{
    for (uint32_t rank = 0; rank < group->options.world_size; rank++) {
        const client_t *client = s_newest (self, group, rank);
        bool is_level = s_is_there (client) && client->is_attached && client->next_record == group->count;
        assert_true (is_level || client->died_now);
    }
}

static bool
s_equal (const broker_record_t *one, const broker_record_t *other, uint32_t world_size)
{
    return one->is_end == other->is_end && one->epoch == other->epoch && one->index == other->index
        && one->samples == other->samples
        && (one->is_end || memcmp (one->step, other->step, (world_size + one->samples) * sizeof *one->step)
        == 0);
}

//  True: it is the first rank that gets it.
static bool
s_receive_record (simulation_t *self, client_t *client, const broker_record_t *record)
{
    group_t *group = &self->groups [client->group];
    bool is_new = client->next_record == group->count;
    if (is_new) {
        s_check_level (self, group);
        s_add_record (group, record);
    }
    else
        assert_true (s_equal (&group->records [client->next_record], record, group->options.world_size));
    client->next_record++;
    return is_new;
}

void
ranks_check_late_copy (simulation_t *self, const client_t *client, const batch_row_t *row)
{
    assert_true (client->group >= 0);
    if (client->died_now)           //  what was sent before it did not come
        return;
    const group_t *group = &self->groups [client->group];
    //  An end that comes before the step may be on its way.
    size_t next = client->next_record;
    while (next < client->late_records && group->records [next].is_end)
        next++;
    const broker_record_t *record = &group->records [next];
    assert_true (next < client->late_records);
    assert_int_equal (row_key (row).round, record->epoch);
    assert_true (record->samples == 0 || s_are_among (&(uint64_t) { row_id (row) }, 1,
        record->step + group->options.world_size, record->samples));
}

void
ranks_receive (simulation_t *self, client_t *client, const action_t *action, const uint64_t *ids,
    uint32_t count)
{
    s_check_part (self, client, action, ids, count);
    broker_record_t record = { .epoch = action->batch.epoch, .index = action->batch.index,
        .step = action->step,
        .samples = action->step_words - client->options.world_size };
    client->paddings += (action->batch.flags & WIRE_BATCH_PADDING) != 0;
    if (s_receive_record (self, client, &record))
        s_check_form (self, &self->groups [client->group], &record);
}

void
ranks_receive_end (simulation_t *self, client_t *client, const wire_epoch_end_t *end)
{
    const simulated_job_t *job = &self->groups [client->group].options;
    broker_record_t record = { .is_end = true, .epoch = end->epoch, .index = end->batches,
        .samples = end->samples };
    assert_int_equal ((end->flags & WIRE_EPOCH_LAST) != 0, job->epochs && end->epoch + 1 == job->epochs);
    if (s_receive_record (self, client, &record))
        self->groups [client->group].remaining = s_whole (self, job);
}

void
ranks_settled (simulation_t *self)
{
    for (int number = 0; number < self->group_count; number++) {
        group_t *group = &self->groups [number];
        if (!group->job || job_is_over (group->job))
            continue;
        for (uint32_t rank = 0; rank < group->options.world_size; rank++) {
            client_t *client = s_newest (self, group, rank);
            client->died_now = false;
            bool is_there = s_is_there (client) && client->is_attached;
            assert_true (!is_there || client->next_record == group->count
                || client->next_record < client->late_records);
        }
    }
}

void
ranks_over (simulation_t *self, const job_t *job)
{
    for (int number = 0; number < self->group_count; number++)
        if (self->groups [number].job == job)
            self->groups [number].job = NULL;
}

void
ranks_free (group_t *group)
{
    for (size_t index = 0; index < group->count; index++)
        free ((void *) (uintptr_t) group->records [index].step);
    free (group->records);
    simulation_state_clear (&group->begin);
}

//  ---- answers

size_t
simulation_records (const simulation_t *self, int client)
{
    assert_true (self->clients [client].group >= 0);
    return self->clients [client].next_record;
}

size_t
simulation_records_sent (const simulation_t *self, int client)
{
    return s_group (self, client)->count;
}

const broker_record_t *
simulation_record (const simulation_t *self, int client, size_t record)
{
    assert_true (record < simulation_records_sent (self, client));
    return &s_group (self, client)->records [record];
}

int
simulation_rank (const simulation_t *self, int client, uint32_t rank)
{
    return s_group (self, client)->clients [rank];
}

bool
simulation_is_there (const simulation_t *self, int client)
{
    return s_is_there (&self->clients [client]);
}

const char *
simulation_instance (const simulation_t *self, int client)
{
    return self->clients [client].instance;
}

uint32_t
simulation_rank_notices (const simulation_t *self, int client, const char **message_p)
{
    *message_p = self->clients [client].rank_notice;
    return self->clients [client].rank_notices;
}

uint32_t
simulation_paddings (const simulation_t *self, int client)
{
    return self->clients [client].paddings;
}
