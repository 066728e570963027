#include "simulation.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "prepared.h"

enum { STATUS_EVERY = 16, CLIENTS_MAX = 64, HEAP_MAX = 1 << 16, COPY_US = 5, TICK_US = 1000000, DISKS = 4, READ_US = 300,
    BREAKS = 3, CHUNK = 16 };

static const char s_pixel [] = "[{\"op\":\"random_resized_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]";

typedef enum { EVENT_READ, EVENT_FETCHED, EVENT_PREPARED, EVENT_COPIED, EVENT_CONSUME, EVENT_TICK } event_kind_t;

typedef struct {
    int64_t at_us;
    uint64_t order;             //  of equal times: first come, first served
    event_kind_t kind;
    version_t *version;
    place_t *place;
    raw_request_t *request;
    int client;
} event_t;

typedef struct {
    simulated_job_t options;
    const pipeline_t *pipeline;
    job_t *job;                 //  NULL: over
    uint64_t id;
    bool stopped, finished;
    const char *ended;          //  the server's reason; NULL: it did not end the job
    char *message;
    char *notice;               //  the text of "little_shared"; NULL: none came
    wire_batch_t waiting [WIRE_SLOTS_MAX];
    size_t waiting_first, waiting_count;
    bool busy;                  //  holds a batch
    bool overdue;               //  would have released it, but is stopped
    uint64_t next_sequence, next_epoch, next_index;
    uint64_t slots_used;        //  bits
    wire_progress_t progress;
    seen_epoch_t *epochs;
    size_t epoch_count;
    uint32_t *occurrences;      //  of each id in the epoch being received
    struct { uint64_t epoch; uint32_t count; } *received;       //  each batch
    size_t received_room;
    char run [WIRE_RUN_BYTES + 1];
} client_t;

struct simulation {
    simulation_options_t options;
    broker_t *broker;
    dataset_t *dataset;
    int64_t now_us;
    event_t heap [HEAP_MAX];
    size_t heap_count;
    uint64_t orders;
    int64_t *worker_free_us;
    client_t clients [CLIENTS_MAX];
    int client_count;
    refusal_t refusal;
    size_t memory_peak;
    uint64_t settles;
    random_t runs;
    //  a pack
    uint32_t *pack_order, breaks [BREAKS];
    int64_t disk_free_us [DISKS];
    size_t raw_peak;
    uint64_t samples_read;
};

//  ---- events by time

static bool
s_before (const event_t *one, const event_t *other)
{
    return one->at_us != other->at_us? one->at_us < other->at_us: one->order < other->order;
}

static void
s_push (simulation_t *self, event_t event)
{
    assert_true (self->heap_count < HEAP_MAX);
    event.order = self->orders++;
    size_t place = self->heap_count++;
    while (place > 0 && s_before (&event, &self->heap [(place - 1) / 2])) {
        self->heap [place] = self->heap [(place - 1) / 2];
        place = (place - 1) / 2;
    }
    self->heap [place] = event;
}

static event_t
s_pop (simulation_t *self)
{
    event_t first = self->heap [0], last = self->heap [--self->heap_count];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < self->heap_count; place = child) {
        if (child + 1 < self->heap_count && s_before (&self->heap [child + 1], &self->heap [child]))
            child++;
        if (!s_before (&self->heap [child], &last))
            break;
        self->heap [place] = self->heap [child];
    }
    self->heap [place] = last;
    return first;
}

//  ---- a pack

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    const simulation_t *self = user;
    if (self->options.bytes_of)
        return self->options.bytes_of (self->options.context, id);
    size_t mean = self->options.sample_bytes? self->options.sample_bytes: 1000;
    return mean / 2 + (id * 2654435761u >> 8) % mean;
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    const simulation_t *self = user;
    (void) pool_samples;
    return self->options.piece? self->options.piece: 8;
}

static void
s_make_pack (simulation_t *self)
{
    uint32_t samples = self->options.samples, *order = calloc (samples, sizeof *order);
    assert_non_null (order);
    random_t random = random_from_seed (self->options.seed ^ 0x7061636b);
    for (uint32_t position = 0; position < samples; position++) {
        uint32_t other = (uint32_t) random_below (&random, position + 1);
        order [position] = order [other];
        order [other] = position;
    }
    self->pack_order = order;
    for (uint32_t index = 0; index < BREAKS; index++)       //  volumes hold whole chunks
        self->breaks [index] = samples / BREAKS / CHUNK * CHUNK * index;
    broker_pack_t pack = { .order = order, .breaks = self->breaks, .break_count = self->breaks [1]? BREAKS: 1,
        .sample_bytes = s_sample_bytes, .piece = s_piece, .user = self, .policy = self->options.tier, .chunk = CHUNK,
        .read_bytes_max = 8 * (self->options.sample_bytes? self->options.sample_bytes: 1000) };
    size_t least;
    if (!broker_set_pack (self->broker, self->dataset, &pack, &least))
        fail_msg ("the pack needs %zu bytes", least);
}

//  ---- life

simulation_t *
simulation_new (const simulation_options_t *options)
{
    simulation_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    self->options = *options;
    broker_options_t broker = {
        .cache_bytes = broker_version_cost (3) * options->cache_versions, .workers = options->workers,
        .jobs_bytes_max = options->jobs_bytes? options->jobs_bytes: SIZE_MAX / 2, .raw_bytes = options->raw_bytes,
        .policy = options->policy, .seed = options->seed, .gather_ms = options->gather_ms
    };
    self->broker = broker_new (&broker);
    self->runs = random_from_seed (options->seed ^ 0x72756e73);
    self->dataset = broker_add_dataset (self->broker, "data", options->samples, options->on_bad, NULL);
    if (options->raw_bytes)
        s_make_pack (self);
    self->worker_free_us = calloc (options->workers, sizeof *self->worker_free_us);
    assert_non_null (self->worker_free_us);
    s_push (self, (event_t) { .kind = EVENT_TICK, .at_us = TICK_US });
    return self;
}

broker_t *
simulation_broker (simulation_t *self)
{
    return self->broker;
}

dataset_t *
simulation_dataset (simulation_t *self)
{
    return self->dataset;
}

int64_t
simulation_now_us (const simulation_t *self)
{
    return self->now_us;
}

uint64_t
simulation_figure (simulation_t *self, const char *key)
{
    json_t *status = broker_status (self->broker, self->now_us / 1000);
    uint64_t value = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return value;
}

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

static void
s_receive (simulation_t *self, client_t *client, const wire_batch_t *batch)
{
    static uint32_t rows [REQUEST_BATCH_MAX];
    static uint64_t ids [REQUEST_BATCH_MAX];
    uint32_t count = job_batch_rows (client->job, batch->slot, rows, ids);
    assert_int_equal (count, batch->count);
    assert_true (count > 0 && count <= client->options.batch_size);
    assert_int_equal (batch->sequence, client->next_sequence++);
    assert_int_equal (batch->epoch, client->next_epoch);
    assert_int_equal (batch->index, client->next_index++);
    assert_true (batch->slot < client->options.slots);
    assert_false (client->slots_used >> batch->slot & 1);       //  not written again before it was released
    client->slots_used |= 1ull << batch->slot;
    seen_epoch_t *epoch = s_epoch (client, batch->epoch);
    epoch->ids = realloc (epoch->ids, (epoch->count + count) * sizeof *epoch->ids);
    assert_non_null (epoch->ids);
    for (uint32_t index = 0; index < count; index++) {
        uint32_t id = (uint32_t) ids [index];
        assert_true (s_in_data (self, client, id));
        if (client->occurrences [id]++ && !client->options.list)
            fail_msg ("seed %llu: id %u twice in epoch %llu", (unsigned long long) self->options.seed, id,
                (unsigned long long) batch->epoch);
        epoch->ids [epoch->count++] = id;
    }
    epoch->batches++;
    if (batch->sequence == client->received_room) {
        client->received_room = 2 * client->received_room + 16;
        client->received = realloc (client->received, client->received_room * sizeof *client->received);
        assert_non_null (client->received);
    }
    client->received [batch->sequence].epoch = batch->epoch;
    client->received [batch->sequence].count = count;
    client->waiting [(client->waiting_first + client->waiting_count++) % WIRE_SLOTS_MAX] = *batch;
}

static void
s_receive_end (simulation_t *self, client_t *client, const wire_epoch_end_t *end)
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
}

//  ---- what clients do

static void
s_send_progress (simulation_t *self, client_t *client)
{
    refusal_t refusal;
    if (client->job && !broker_progress (self->broker, client->job, &client->progress, self->now_us / 1000,
        &refusal))
        fail_msg ("progress refused: %s", refusal.message);
}

//  Takes the next batch if there is one, and holds it for as long as it lasts.
static void
s_take (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    if (client->busy || client->stopped || client->waiting_count == 0 || !client->job)
        return;
    const wire_batch_t *batch = &client->waiting [client->waiting_first];
    client->busy = true;
    client->progress.consumed++;
    s_send_progress (self, client);
    int64_t wait_us = client->options.sample_us * batch->count;
    if (batch->sequence == 0)
        wait_us += client->options.first_us;
    s_push (self, (event_t) { .kind = EVENT_CONSUME, .at_us = self->now_us + wait_us, .client = number });
}

static void
s_release (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    client->overdue = client->stopped;          //  a stopped client keeps what it holds
    if (client->stopped || !client->job)
        return;
    client->busy = false;
    client->slots_used &= ~(1ull << client->waiting [client->waiting_first].slot);
    client->waiting_first = (client->waiting_first + 1) % WIRE_SLOTS_MAX;
    client->waiting_count--;
    client->progress.released++;
    s_send_progress (self, client);
    s_take (self, number);
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

int
simulation_join (simulation_t *self, const simulated_job_t *job)
{
    assert_true (self->client_count < CLIENTS_MAX);
    client_t *client = &self->clients [self->client_count];
    *client = (client_t) { .options = *job };
    json_t *list = json_loads (job->pipeline? job->pipeline: s_pixel, 0, NULL);
    const char *present [SAMPLER_JOBS_MAX];
    size_t present_count = broker_shared_texts (self->dataset, job->order, present, SAMPLER_JOBS_MAX);
    char error [256];
    if (pipeline_new (&client->pipeline, list, NULL, present, present_count, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    roaring_bitmap_t *subset = job->to? roaring_bitmap_from_range (job->from, job->to, 1): NULL;
    const simulated_state_t *from = job->state;
    char fresh_run [WIRE_RUN_BYTES + 1];
    snprintf (fresh_run, sizeof fresh_run, "%016" PRIx64 "%016" PRIx64, random_next (&self->runs), random_next (&self->runs));
    broker_join_t join = {
        .epoch = from? from->epoch: 0, .epoch_batches = from? from->batches: 0, .taken = from? from->taken: NULL,
        .taken_places = from? from->places: 0, .run = job->run? job->run: from? from->run: NULL, .instance = job->instance,
        .job_name = job->job_name, .fresh_run = fresh_run, .uid = job->uid,
        .dataset = self->dataset, .pipeline = client->pipeline, .batch_size = job->batch_size,
            .slots = job->slots,
        .epochs = job->epochs, .drop_last = job->drop_last, .order = job->order, .subset = subset,
        .list = job->list, .list_count = job->list_count, .order_is_of_seed = job->order_is_of_seed,
        .seed = job->seed, .pool = job->pool, .slot_bytes = 4096
    };
    bool allowed = broker_allows (self->broker, &join, self->now_us / 1000, &self->refusal);
    client->job = broker_join (self->broker, &join, self->now_us / 1000, &self->refusal);
    assert_int_equal (allowed, client->job != NULL);
    if (subset)
        roaring_bitmap_free (subset);
    if (!client->job) {
        pipeline_destroy (&client->pipeline);
        return -1;
    }
    client->occurrences = calloc (self->options.samples, sizeof *client->occurrences);
    assert_non_null (client->occurrences);
    client->id = job_id (client->job);
    job_set_user (client->job, client, false);
    snprintf (client->run, sizeof client->run, "%s", job_run (client->job));
    if (from)
        s_go_on (client, from);
    client->options.state = NULL;               //  lent for the join only, as are these
    client->options.instance = client->options.job_name = client->options.run = NULL;
    if (!job->detached)
        broker_attached (self->broker, client->job, self->now_us / 1000);
    return self->client_count++;
}

void
simulation_attach (simulation_t *self, int number)
{
    client_t *client = &self->clients [number];
    if (client->job)
        broker_attached (self->broker, client->job, self->now_us / 1000);
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

//  Of a list: the least number of its places that hold so many readable samples.
static size_t
s_places (const simulation_t *self, const client_t *client, uint64_t samples)
{
    const simulation_options_t *options = &self->options;
    size_t places = 0;
    for (uint64_t count = 0; count < samples; places++) {
        assert_true (places < client->options.list_count);
        count += !options->readable || options->readable (options->context, client->options.list [places]);
    }
    return places;
}

void
simulation_state (const simulation_t *self, int number, simulated_state_t *state)
{
    const client_t *client = &self->clients [number];
    size_t *batches = calloc (client->epoch_count + 1, sizeof *batches);
    uint64_t *samples = calloc (client->epoch_count + 1, sizeof *samples);
    assert_true (batches && samples);
    for (uint64_t sequence = 0; sequence < client->progress.consumed; sequence++) {
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
        state->places = state->samples? s_places (self, client, state->samples): 0;
    else {
        state->taken = is_seen && epoch->before? roaring_bitmap_copy (epoch->before): roaring_bitmap_create ();
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
        s_push (self, (event_t) { .kind = EVENT_CONSUME, .at_us = self->now_us, .client = number });
    else
        s_take (self, number);
}

//  ---- what workers do

static void
s_prepare (simulation_t *self, version_t *version)
{
    uint32_t first = 0;
    for (uint32_t worker = 1; worker < self->options.workers; worker++)
        if (self->worker_free_us [worker] < self->worker_free_us [first])
            first = worker;
    int64_t start_us = self->worker_free_us [first] > self->now_us? self->worker_free_us [first]: self->now_us;
    int64_t cost_us = self->options.cost_us? self->options.cost_us (self->options.context, version->id): 100;
    self->worker_free_us [first] = start_us + cost_us;
    s_push (self, (event_t) { .kind = EVENT_PREPARED, .at_us = start_us + cost_us, .version = version });
}

static void
s_fetched (simulation_t *self, version_t *version)
{
    broker_fetched (self->broker, version);
    s_prepare (self, version);
}

static void
s_read (simulation_t *self, raw_request_t *request)
{
    uint32_t first = 0;
    for (uint32_t disk = 1; disk < DISKS; disk++)
        if (self->disk_free_us [disk] < self->disk_free_us [first])
            first = disk;
    for (uint32_t index = 0; index < BREAKS; index++)       //  a volume's end is in no read
        assert_false (self->breaks [index] > request->first && self->breaks [index] < request->first + request->count);
    for (uint32_t index = 0; index < request->sample_count; index++) {
        const raw_sample_t *sample = request->samples [index];
        assert_non_null (sample->memory);
        bool found = false;
        for (uint32_t position = request->first; position < request->first + request->count; position++)
            found = found || self->pack_order [position] == sample->id;
        assert_true (found);
        memset (sample->memory, (int) (sample->id & 0xff), sample->bytes);
    }
    self->samples_read += request->count;
    int64_t start_us = self->disk_free_us [first] > self->now_us? self->disk_free_us [first]: self->now_us;
    int64_t cost_us = self->options.read_us? self->options.read_us (self->options.context, request): READ_US;
    self->disk_free_us [first] = start_us + cost_us;
    s_push (self, (event_t) { .kind = EVENT_READ, .at_us = start_us + cost_us, .request = request });
}

static void
s_read_done (simulation_t *self, raw_request_t *request)
{
    const simulation_options_t *options = &self->options;
    request->rc = options->read_rc? options->read_rc (options->context, request): 0;
    for (uint32_t index = 0; index < request->sample_count; index++) {
        request->read_bytes += request->samples [index]->bytes;
        if (options->damaged && options->damaged (options->context, request->samples [index]->id))
            request->damaged |= 1ull << index;
    }
    broker_read (self->broker, request);
}

static void
s_carry_out (simulation_t *self, const action_t *action)
{
    client_t *client = action->job? job_user (action->job): NULL;
    switch (action->kind) {
    case ACTION_READ:
        s_read (self, action->request);
        break;
    case ACTION_PREPARE:
        assert_non_null (action->version->memory);
        assert_int_equal (version_raw (action->version) != NULL, self->options.raw_bytes > 0);
        if (self->options.raw_bytes > 0)
            s_prepare (self, action->version);
        else
        if (self->options.fetch_us > 0)
            s_push (self, (event_t) { .kind = EVENT_FETCHED, .at_us = self->now_us + self->options.fetch_us,
                .version = action->version });
        else
            s_fetched (self, action->version);
        break;
    case ACTION_COPY:
        if (self->options.copied && !job_is_over (action->job))
            self->options.copied (self->options.context, self->broker, (int) (client - self->clients), action->place);
        s_push (self, (event_t) { .kind = EVENT_COPIED, .place = action->place,
            .at_us = self->now_us + (self->options.copy_us? self->options.copy_us: COPY_US) });
        break;
    case ACTION_SEND_BATCH:
        if (!job_is_over (action->job))
            s_receive (self, client, &action->batch);
        break;
    case ACTION_SEND_EPOCH_END:
        if (!job_is_over (action->job))
            s_receive_end (self, client, &action->epoch_end);
        break;
    case ACTION_SEND_ENDED:
        client->ended = action->reason;
        assert_null (client->message);
        client->message = strdup (action->message);
        assert_non_null (client->message);
        break;
    case ACTION_SEND_NOTICE:
        assert_null (client->notice);
        assert_false (job_is_over (action->job));
        assert_string_equal (action->reason, "little_shared");
        client->notice = strdup (action->message);
        assert_non_null (client->notice);
        break;
    case ACTION_BURY:
        client->job = NULL;
        broker_bury (self->broker, action->job);
        break;
    }
}

static void
s_note_peaks (simulation_t *self)
{
    json_t *status = broker_status (self->broker, self->now_us / 1000);
    size_t memory = (size_t) json_integer_value (json_object_get (status, "cache_bytes"));
    size_t raw = (size_t) json_integer_value (json_object_get (status, "raw_bytes"));
    self->memory_peak = memory > self->memory_peak? memory: self->memory_peak;
    self->raw_peak = raw > self->raw_peak? raw: self->raw_peak;
    json_decref (status);
}

static void
s_settle (simulation_t *self)
{
    action_t action;
    broker_advance (self->broker, self->now_us / 1000);
    while (broker_next (self->broker, &action))
        s_carry_out (self, &action);
    for (int number = 0; number < self->client_count; number++)
        s_take (self, number);
    if (!self->options.check)
        return;
    broker_check (self->broker);                    //  budgets too
    if (self->settles++ % STATUS_EVERY == 0)
        s_note_peaks (self);
}

static void
s_prepared (simulation_t *self, version_t *version)
{
    const simulation_options_t *options = &self->options;
    const raw_sample_t *raw = version_raw (version);
    if (raw && raw->rc) {
        broker_prepared (self->broker, version, OUTCOME_BAD, "made damaged");
        return;
    }
    if (raw)                                    //  the bytes are the sample's
        assert_true (raw->id == version->id && (raw->bytes == 0 || raw->memory [raw->bytes - 1] == (version->id & 0xff)));
    if (options->readable && !options->readable (options->context, version->id))
        broker_prepared (self->broker, version, OUTCOME_BAD, "made unreadable");
    else
    if (options->suits && !options->suits (options->context, self->broker, version))
        broker_prepared (self->broker, version, OUTCOME_UNSUITABLE, "made unsuitable");
    else
        broker_prepared (self->broker, version, OUTCOME_READY, NULL);
}

static void
s_happen (simulation_t *self, const event_t *event)
{
    switch (event->kind) {
    case EVENT_READ:
        s_read_done (self, event->request);
        break;
    case EVENT_FETCHED:
        s_fetched (self, event->version);
        break;
    case EVENT_PREPARED:
        s_prepared (self, event->version);
        break;
    case EVENT_COPIED:
        broker_copied (self->broker, event->place);
        break;
    case EVENT_CONSUME:
        s_release (self, event->client);
        break;
    case EVENT_TICK:
        s_push (self, (event_t) { .kind = EVENT_TICK, .at_us = self->now_us + TICK_US });
        break;
    }
}

bool
simulation_run (simulation_t *self, int64_t until_us)
{
    s_settle (self);
    for (;;) {
        //  A start that waits for others is an event too.
        int64_t wakeup_ms = broker_wakeup (self->broker);
        bool idle = self->heap_count == 1 && wakeup_ms == INT64_MAX;    //  only the tick
        if (idle)
            return true;
        int64_t next_us = self->heap [0].at_us;
        if (wakeup_ms < INT64_MAX && wakeup_ms * 1000 < next_us)
            next_us = wakeup_ms * 1000;
        if (next_us > until_us) {
            self->now_us = until_us;
            return false;
        }
        self->now_us = next_us > self->now_us? next_us: self->now_us;
        if (self->heap [0].at_us <= self->now_us) {
            event_t event = s_pop (self);
            s_happen (self, &event);
        }
        s_settle (self);
    }
}

void
simulation_destroy (simulation_t **self_p)
{
    simulation_t *self = *self_p;
    for (int number = 0; number < self->client_count; number++)
        simulation_gone (self, number);
    while (!simulation_run (self, self->now_us + TICK_US));
    for (int number = 0; number < self->client_count; number++) {
        client_t *client = &self->clients [number];
        assert_null (client->job);
        pipeline_destroy (&client->pipeline);
        for (size_t epoch = 0; epoch < client->epoch_count; epoch++) {
            free (client->epochs [epoch].ids);
            if (client->epochs [epoch].before)
                roaring_bitmap_free (client->epochs [epoch].before);
        }
        free (client->received);
        free (client->epochs);
        free (client->occurrences);
        free (client->message);
        free (client->notice);
    }
    broker_destroy (&self->broker);
    free (self->worker_free_us);
    free (self->pack_order);
    free (self);
    *self_p = NULL;
}

//  ---- answers

bool
simulation_finished (const simulation_t *self, int client)
{
    return self->clients [client].finished;
}

bool
simulation_ended (const simulation_t *self, int client)
{
    return self->clients [client].ended != NULL;
}

const char *
simulation_reason (const simulation_t *self, int client, const char **message_p)
{
    *message_p = self->clients [client].message;
    return self->clients [client].ended;
}

const char *
simulation_notice (const simulation_t *self, int client)
{
    return self->clients [client].notice;
}

size_t
simulation_epochs (const simulation_t *self, int client)
{
    return self->clients [client].epoch_count;
}

const seen_epoch_t *
simulation_epoch (const simulation_t *self, int client, size_t epoch)
{
    return &self->clients [client].epochs [epoch];
}

static uint64_t
s_counter (simulation_t *self, const char *key)
{
    json_t *status = broker_status (self->broker, self->now_us / 1000);
    uint64_t value = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return value;
}

uint64_t
simulation_prepared (simulation_t *self)
{
    return s_counter (self, "prepared");
}

uint64_t
simulation_delivered (simulation_t *self)
{
    return s_counter (self, "delivered");
}

size_t
simulation_memory_peak (const simulation_t *self)
{
    return self->memory_peak;
}

size_t
simulation_raw_peak (const simulation_t *self)
{
    return self->raw_peak;
}

uint64_t
simulation_samples_read (const simulation_t *self)
{
    return self->samples_read;
}

const uint32_t *
simulation_pack_order (const simulation_t *self)
{
    return self->pack_order;
}

void
simulation_assert_permutation (const seen_epoch_t *epoch, uint32_t from, uint32_t to)
{
    assert_true (epoch->ended);
    assert_int_equal (epoch->before_count + epoch->count, to - from);   //  none twice was checked on arrival
    for (size_t index = 0; index < epoch->count; index++)
        assert_true (epoch->ids [index] >= from && epoch->ids [index] < to);
}

void
simulation_assert_epochs (simulation_t *simulation, int client, const simulated_job_t *job)
{
    for (size_t number = 0; number < simulation_epochs (simulation, client); number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        if (!epoch->ended)
            continue;
        if (job->list) {
            assert_int_equal (epoch->count, job->list_count - epoch->before_places);
            assert_true (epoch->count == 0 || memcmp (epoch->ids, job->list + epoch->before_places,
                epoch->count * sizeof *job->list) == 0);
        }
        else
            simulation_assert_permutation (epoch, job->from, job->to);
    }
}
