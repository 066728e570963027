//  What the simulation's clients see, check and do.

#include "simulation_parts.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "job.h"
#include "version.h"

static const char s_pixel [] =
    "[{\"op\":\"random_resized_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]";

//  ---- what clients see

static seen_epoch_t *
s_epoch (client_t *client, uint64_t epoch)
{
    if (epoch >= client->epoch_count) {
        size_t count = (size_t) epoch + 1;
        client->epochs = realloc (client->epochs, count * sizeof *client->epochs);
        assert_non_null (client->epochs);
        memset (client->epochs + client->epoch_count, 0,
            (count - client->epoch_count) * sizeof *client->epochs);
        client->epoch_count = count;
    }
    return &client->epochs [epoch];
}

static bool
s_in_data (const simulation_t *self, const client_t *client, uint32_t id)
{
    if (client->options.to == 0)
        return id < self->options.samples;
    return id >= client->options.from && id < client->options.to;
}

void
clients_check_copy (simulation_t *self, client_t *client, const batch_row_t *row)
{
    if (job_is_over (client->job))
        return;
    assert_true (!client->is_gone || client->died_now);
    pipeline_key_t own = row_key (row), shared = version_key (self->broker, row_version (row));
    assert_true (row_index (row) < client->options.batch_size);
    assert_int_equal (own.id, row_id (row));
    //  Of a seed all follows from the epoch.
    if (client->options.order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (client->pipeline))
        assert_true (shared.round == own.round && shared.seed == client->options.seed);
    if (row_slot (row) == WIRE_SLOT_NONE)
        ranks_check_late_copy (self, client, row);
    else {
        assert_true (row_slot (row) < client->options.slots);
        assert_false (client->slots_used >> row_slot (row) & 1);
    }
}

//  The rows of a slot.
static uint32_t *
s_written (const client_t *client, uint32_t slot)
{
    size_t number = slot == WIRE_SLOT_NONE? client->options.slots: slot;
    return client->written + number * client->options.batch_size;
}

void
clients_copied (client_t *client, const batch_row_t *row)
{
    s_written (client, row_slot (row)) [row_index (row)] = row_id (row) + 1;
}

//  Each row was written for this batch.
static void
s_see_rows (client_t *client, uint32_t slot, const uint32_t *rows, const uint64_t *ids, uint32_t count)
{
    uint32_t *written = s_written (client, slot);
    for (uint32_t index = 0; index < count; index++) {
        assert_true (rows [index] < client->options.batch_size
            && (index == 0 || rows [index] > rows [index - 1]));
        assert_true (written [rows [index]] == ids [index] + 1);
    }
    memset (written, 0, client->options.batch_size * sizeof *written);
}

//  Where the batch lies; one that was sent to others before lies nowhere.
static void
s_see_slot (client_t *client, const wire_batch_t *batch)
{
    bool is_late = client->group >= 0 && client->next_record < client->late_records;
    assert_int_equal ((batch->flags & WIRE_BATCH_INLINE) != 0, client->is_inline || is_late);
    assert_int_equal (batch->slot == WIRE_SLOT_NONE, is_late);
    if (is_late)
        return;
    assert_true (batch->slot < client->options.slots);
    assert_false (client->slots_used >> batch->slot & 1);       //  not written again before it was released
    client->slots_used |= 1ull << batch->slot;
}

static void
s_see_ids (const simulation_t *self, client_t *client, uint64_t number, const uint64_t *ids, size_t count)
{
    seen_epoch_t *epoch = s_epoch (client, number);
    epoch->ids = realloc (epoch->ids, (epoch->count + count + 1) * sizeof *epoch->ids);
    assert_non_null (epoch->ids);
    for (size_t index = 0; index < count; index++) {
        uint32_t id = (uint32_t) ids [index];
        assert_true (s_in_data (self, client, id));
        if (client->occurrences [id]++ && !client->options.list)
            fail_msg ("seed %llu: id %u twice in epoch %llu", (unsigned long long) self->options.seed, id,
                (unsigned long long) number);
        epoch->ids [epoch->count++] = id;
    }
    epoch->batches++;
}

static void
s_see_count (client_t *client, const wire_batch_t *batch, uint32_t count)
{
    if (batch->sequence == client->received_room) {
        client->received_room = 2 * client->received_room + 16;
        client->received = realloc (client->received, client->received_room * sizeof *client->received);
        assert_non_null (client->received);
    }
    client->received [batch->sequence].epoch = batch->epoch;
    client->received [batch->sequence].count = count;
}

void
clients_receive (simulation_t *self, client_t *client, const action_t *action)
{
    static uint32_t rows [REQUEST_BATCH_MAX];
    static uint64_t ids [REQUEST_BATCH_MAX];
    const wire_batch_t *batch = &action->batch;
    uint32_t count = rank_batch_rows (client->rank, batch->slot, rows, ids);
    assert_int_equal (count, batch->count);
    assert_true (count > 0 && count <= client->options.batch_size);
    bool is_padding = batch->flags & WIRE_BATCH_PADDING;
    s_see_rows (client, batch->slot, rows, ids, count);
    assert_int_equal (batch->sequence, client->next_sequence++);
    assert_int_equal (batch->epoch, client->next_epoch);
    assert_int_equal (batch->index, client->next_index++);
    s_see_slot (client, batch);
    if (client->group < 0) {
        assert_true (action->step == NULL && action->step_words == 0);
        assert_true (!is_padding || (client->options.nodes > 1 && count == 1));
        client->paddings += is_padding;
        s_see_ids (self, client, batch->epoch, ids, is_padding? 0: count);
        s_see_count (client, batch, is_padding? 0: count);
    }
    else {
        ranks_receive (self, client, action, ids, count);
        uint32_t world_size = client->options.world_size,
            samples = (uint32_t) action->step_words - world_size;
        s_see_ids (self, client, batch->epoch, action->step + world_size, samples);
        s_see_count (client, batch, samples);
    }
    assert_true (client->waiting_count < WAITING_MAX);
    client->waiting [(client->waiting_first + client->waiting_count++) % WAITING_MAX] = *batch;
}

void
clients_receive_end (simulation_t *self, client_t *client, const wire_epoch_end_t *end)
{
    assert_int_equal (end->epoch, client->next_epoch++);
    client->next_index = 0;
    seen_epoch_t *epoch = s_epoch (client, end->epoch);
    epoch->ended = true;
    epoch->told_samples = end->samples;
    assert_int_equal (epoch->before_count + epoch->count, end->samples);
    assert_int_equal (epoch->before_batches + epoch->batches, end->batches);
    memset (client->occurrences, 0, self->options.samples * sizeof *client->occurrences);
    if (end->flags & WIRE_EPOCH_LAST)
        client->finished = true;
    if (client->group >= 0)
        ranks_receive_end (self, client, end);
}

//  ---- what clients do

static void
s_send_progress (simulation_t *self, client_t *client)
{
    refusal_t refusal;
    if (client->rank && !client->is_gone
        && !broker_progress (self->broker, client->rank, &client->progress, self->now_us / 1000, &refusal))
        fail_msg ("progress refused: %s", refusal.message);
}

//  Takes the next batch if there is one, and holds it for as long as it lasts.
void
clients_take (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    if (client->busy || client->stopped || client->waiting_count == 0 || !client->rank
    ||  client->is_gone)
        return;
    const wire_batch_t *batch = &client->waiting [client->waiting_first];
    client->busy = true;
    client->progress.consumed++;
    s_send_progress (self, client);
    int64_t wait_us = client->options.sample_us * batch->count;
    if (batch->sequence == 0)
        wait_us += client->options.first_us;
    simulation_push (self, (event_t) { .kind = EVENT_CONSUME, .at_us = self->now_us + wait_us,
        .client = number });
}

//  Of its slot, or of that which it kept before.
static void
s_let_go (client_t *client, const wire_batch_t *batch)
{
    uint64_t slot = batch->slot == WIRE_SLOT_NONE? 0: 1ull << batch->slot;
    bool keeps = client->options.keeps && batch->sequence % 3 == 1;
    uint32_t many = client->options.kept_for_ever;
    bool is_for_ever = many > 0 && batch->sequence / many == rank_number (client->rank);
    client->slots_used &= ~(client->progress.kept & ~client->for_ever);
    client->for_ever |= is_for_ever? slot: 0;
    client->progress.kept = (keeps? slot: 0) | client->for_ever;
    if (!keeps && !is_for_ever)
        client->slots_used &= ~slot;
}

void
clients_release (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    client->overdue = client->stopped;          //  a stopped client keeps what it holds
    if (client->stopped || !client->rank || client->is_gone)
        return;
    client->busy = false;
    s_let_go (client, &client->waiting [client->waiting_first]);
    client->waiting_first = (client->waiting_first + 1) % WAITING_MAX;
    client->waiting_count--;
    client->progress.released++;
    s_send_progress (self, client);
    clients_take (self, number);
}

//  What was consumed before counts as seen.
static void
s_go_on (client_t *client, const simulated_state_t *from)
{
    seen_epoch_t *epoch = s_epoch (client, from->epoch);
    epoch->before_count = from->samples;
    epoch->before_batches = from->batches;
    epoch->before_places = from->places;
    client->next_epoch = from->epoch;
    client->next_index = from->batches;
    if (!from->taken)
        return;
    epoch->before = roaring_bitmap_copy (from->taken);
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (from->taken, &ids); ids.has_value; roaring_advance_uint32_iterator (&ids))
        client->occurrences [ids.current_value]++;
}

//  Stands for the data in what it asks for; not request.h's, but as different where they are.
static void
s_tell_data (const simulated_job_t *job, char text [WIRE_DATA_BYTES + 1])
{
    uint64_t digest = (uint64_t) job->from << 32 | job->to;
    for (size_t place = 0; place < job->list_count; place++)
        digest = (digest ^ (job->list [place] + 1)) * 0x9e3779b97f4a7c15u;
    snprintf (text, WIRE_DATA_BYTES + 1, "%016" PRIx64, digest);
}

static broker_parts_t
s_parts (const simulation_t *self, const simulated_job_t *job)
{
    assert_true (job->nodes <= 1 || !job->list);
    const simulated_state_t *cut = job->cut;
    return (broker_parts_t) { .nodes = job->nodes, .node = job->node, .is_fixed = job->parts_fixed,
        .key = 0x9a7, .whole = job->to? job->to - job->from: self->options.samples,
        .cut = cut? cut->taken: NULL,
        .cut_samples = cut? roaring_bitmap_get_cardinality (cut->taken): 0,
        .cut_batches = cut? cut->batches: 0 };
}

void
clients_ask (simulation_t *self, const simulated_job_t *job, simulated_ask_t *ask)
{
    json_t *list = json_loads (job->pipeline? job->pipeline: s_pixel, 0, NULL);
    const char *present [SAMPLER_JOBS_MAX];
    const tenant_t *tenant = job->tenant? tenant_named (self->broker, job->tenant): NULL;
    dataset_t *dataset = job->dataset? dataset_named (self->broker, NULL, job->dataset): self->dataset;
    assert_non_null (dataset);
    size_t present_count = dataset_shared_texts (dataset, tenant, job->order, present,
        SAMPLER_JOBS_MAX);
    char error [256];
    *ask = (simulated_ask_t) { .subset = job->to? roaring_bitmap_from_range (job->from, job->to, 1): NULL };
    if (pipeline_new (&ask->pipeline, list, NULL, present, present_count, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    const simulated_state_t *from = job->state;
    snprintf (ask->fresh_run, sizeof ask->fresh_run, "%016" PRIx64 "%016" PRIx64, random_next (&self->runs),
        random_next (&self->runs));
    s_tell_data (job, ask->data);
    ask->join = (broker_terms_t) {
        .tenant = job->tenant? tenant_named (self->broker, job->tenant): NULL,
        .epoch = from? from->epoch: 0, .epoch_batches = from? from->batches: 0,
        .taken = from? from->taken: NULL,
        .taken_places = from? from->places: 0, .run = job->run? job->run: from? from->run: NULL,
        .instances = { job->instance }, .job_name = job->job_name, .fresh_run = ask->fresh_run,
        .user = job->uid,
        .dataset = dataset, .pipeline = ask->pipeline,
        .world_size = job->world_size? job->world_size: 1,
        .batch_size = job->batch_size, .slots = job->slots, .epochs = job->epochs,
        .drop_last = job->drop_last,
        .order = job->order, .subset = ask->subset, .list = job->list, .list_count = job->list_count,
        .order_is_of_seed = job->order_is_of_seed, .seed = job->seed, .pool = job->pool,
        .slot_bytes = job->slot_bytes? job->slot_bytes: 4096,
        .data = ask->data, .rank_wait_seconds = job->rank_wait_seconds, .on_bad_given = job->on_bad_given,
        .on_bad = job->on_bad, .parts = s_parts (self, job)
    };
}

void
clients_ask_clear (simulated_ask_t *ask)
{
    pipeline_destroy (&ask->pipeline);
    if (ask->subset)
        roaring_bitmap_free (ask->subset);
}

client_t *
clients_add (simulation_t *self, const simulated_job_t *job, simulated_ask_t *ask, rank_t *rank,
    const simulated_state_t *from)
{
    assert_true (self->client_count < CLIENTS_MAX);
    client_t *client = &self->clients [self->client_count++];
    *client = (client_t) { .options = *job, .rank = rank, .job = rank_job (rank), .group = -1,
        .number = rank_number (rank), .served = dataset_user (job_dataset (rank_job (rank))),
        .pipeline = pipeline_hold (ask->pipeline) };
    client->occurrences = calloc (self->options.samples, sizeof *client->occurrences);
    client->written = calloc ((size_t) job->batch_size * (job->slots + 1), sizeof *client->written);
    assert_true (client->occurrences && client->written);
    client->id = job_id (client->job);
    assert_null (rank_user (rank));
    rank_set_user (rank, client, false);
    snprintf (client->run, sizeof client->run, "%s", job_run (client->job));
    client->finished = from && job->epochs && from->epoch == job->epochs;
    if (client->finished)
        client->next_epoch = from->epoch;
    else
    if (from)
        s_go_on (client, from);
    client->options.state = NULL;               //  lent for the join only, as are these
    client->options.standing = NULL;
    client->options.cut = NULL;
    client->options.rank_us = NULL;
    client->options.instances = NULL;
    client->options.instance = client->options.job_name = client->options.run = NULL;
    return client;
}

void
clients_attach (simulation_t *self, client_t *client)
{
    if (!client->rank || client->is_attached || client->is_gone)
        return;
    client->is_attached = true;
    client->is_inline = client->options.is_inline;
    if (client->is_inline)
        broker_inline (self->broker, client->rank, self->now_us / 1000);
    else
        broker_attached (self->broker, client->rank, self->now_us / 1000);
    assert_int_equal (rank_is_inline (client->rank), client->is_inline);
}

int
simulation_join (simulation_t *self, const simulated_job_t *job)
{
    if (job->world_size > 1)
        return ranks_join (self, job);
    simulated_ask_t ask;
    clients_ask (self, job, &ask);
    bool allowed = broker_allows (self->broker, &ask.join, self->now_us / 1000, &self->refusal);
    job_t *joined = broker_join (self->broker, &ask.join, self->now_us / 1000, &self->refusal);
    assert_int_equal (allowed, joined != NULL);
    client_t *client = joined? clients_add (self, job, &ask, job_rank (joined, 0), job->state): NULL;
    clients_ask_clear (&ask);
    if (client && !job->detached)
        clients_attach (self, client);
    return client? (int) (client - self->clients): -1;
}

void
simulation_attach (simulation_t *self, int number)
{
    clients_attach (self, &self->clients [number]);
}

const broker_terms_t *
simulation_asked (simulation_t *self, const simulated_job_t *job)
{
    simulated_ask_t *ask = malloc (sizeof *ask);
    assert_non_null (ask);
    clients_ask (self, job, ask);
    return &ask->join;
}

void
simulation_asked_clear (const broker_terms_t *join)
{
    simulated_ask_t *ask = (simulated_ask_t *) (uintptr_t) join;        //  its first field
    clients_ask_clear (ask);
    free (ask);
}

uint64_t
simulation_consumed (const simulation_t *self, int number)
{
    return self->clients [number].progress.consumed;
}

uint64_t
simulation_job_id (const simulation_t *self, int number)
{
    return self->clients [number].id;
}

job_t *
simulation_job (const simulation_t *self, int number)
{
    return self->clients [number].job;
}

//  ---- where a client stands

size_t
clients_places (const simulation_t *self, const simulated_job_t *job, uint64_t samples)
{
    const simulation_options_t *options = &self->options;
    size_t places = 0;
    for (uint64_t count = 0; count < samples; places++) {
        assert_true (places < job->list_count);
        count += !options->readable || options->readable (options->context, job->list [places]);
    }
    return places;
}

void
simulation_state (const simulation_t *self, int number, simulated_state_t *state)
{
    simulation_state_after (self, number, self->clients [number].progress.consumed, state);
}

void
simulation_state_after (const simulation_t *self, int number, uint64_t consumed, simulated_state_t *state)
{
    const client_t *client = &self->clients [number];
    size_t *batches = calloc (client->epoch_count + 1, sizeof *batches);
    uint64_t *samples = calloc (client->epoch_count + 1, sizeof *samples);
    assert_true (batches && samples);
    for (uint64_t sequence = 0; sequence < consumed; sequence++) {
        batches [client->received [sequence].epoch]++;
        samples [client->received [sequence].epoch] += client->received [sequence].count;
    }
    size_t number_of = 0;                       //  the first epoch that is not consumed whole
    while (number_of < client->next_epoch && client->epochs [number_of].batches == batches [number_of])
        number_of++;
    bool is_seen = number_of < client->epoch_count;
    const seen_epoch_t none = { .ids = NULL }, *epoch = is_seen? &client->epochs [number_of]: &none;
    *state = (simulated_state_t) { .epoch = number_of, .batches = epoch->before_batches + batches [number_of],
        .samples = epoch->before_count + samples [number_of] };
    memcpy (state->run, client->run, sizeof state->run);
    if (client->options.list)
        state->places = state->samples? clients_places (self, &client->options, state->samples): 0;
    else {
        state->taken = is_seen && epoch->before? roaring_bitmap_copy (epoch->before):
            roaring_bitmap_create ();
        roaring_bitmap_add_many (state->taken, samples [number_of], epoch->ids);
    }
    free (batches);
    free (samples);
}

void
simulation_state_clear (simulated_state_t *state)
{
    if (state->taken)
        roaring_bitmap_free (state->taken);
    state->taken = NULL;
}

int
simulation_must_join (simulation_t *self, const simulated_job_t *job)
{
    int client = simulation_join (self, job);
    if (client < 0)
        fail_msg ("%s", self->refusal.message);
    return client;
}

const refusal_t *
simulation_refusal (const simulation_t *self)
{
    return &self->refusal;
}

void
simulation_gone (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    if (client->job)
        broker_gone (self->broker, client->job);
}

void
simulation_leave (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    simulation_drain (self);
    if (!client->rank || client->is_gone)
        return;
    client->is_gone = true;
    broker_left (self->broker, client->rank);
    assert_false (rank_is_there (client->rank));
}

void
simulation_lose (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    simulation_drain (self);
    if (!client->rank || client->is_gone)
        return;
    client->is_gone = true;
    broker_lost (self->broker, client->rank, self->now_us / 1000);
    assert_false (rank_is_there (client->rank));
}

void
simulation_dies_at_send (simulation_t *self, int number)
{
    self->clients [number].dies_at_send = true;
}

void
simulation_silence (simulation_t *self, int number)
{
    self->clients [number].is_silent = self->clients [number].stopped = true;
}

void
simulation_stop (simulation_t *self, int number)
{
    self->clients [number].stopped = true;
}

void
simulation_continue (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    client->stopped = false;
    if (client->overdue)
        simulation_push (self, (event_t) { .kind = EVENT_CONSUME, .at_us = self->now_us, .client = number });
    else
        clients_take (self, number);
}

void
clients_free (client_t *client)
{
    pipeline_destroy (&client->pipeline);
    for (size_t epoch = 0; epoch < client->epoch_count; epoch++) {
        free (client->epochs [epoch].ids);
        if (client->epochs [epoch].before)
            roaring_bitmap_free (client->epochs [epoch].before);
    }
    free (client->received);
    free (client->epochs);
    free (client->occurrences);
    free (client->written);
    free (client->message);
    free (client->notice);
    free (client->unreadable);
    free (client->rank_notice);
}
