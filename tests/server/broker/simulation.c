#include "simulation_parts.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/mman.h>
#include "budget.h"
#include "effort.h"
#include "fetch_ahead.h"
#include "job.h"
#include "prepared.h"
#include "seed.h"
#include "version.h"

enum { STATUS_EVERY = 64, COPY_US = 5, TICK_US = 1000000, READ_US = 300, CHUNK = 16 };

//  ---- events by time

static bool
s_before (const event_t *one, const event_t *other)
{
    return one->at_us != other->at_us? one->at_us < other->at_us: one->order < other->order;
}

void
simulation_push (simulation_t *self, event_t event)
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
    const served_t *served = user;
    const simulation_options_t *options = &served->simulation->options;
    if (options->bytes_of)
        return options->bytes_of (options->context, id);
    size_t mean = served->scale * (options->sample_bytes? options->sample_bytes: 1000);
    return mean / 2 + (id * 2654435761u >> 8) % mean;
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    const served_t *served = user;
    (void) pool_samples;
    return served->simulation->options.piece? served->simulation->options.piece: 8;
}

static void
s_make_order (simulation_t *self)
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
}

static bool
s_prefers_singles (void *user, uint32_t samples, size_t sample_bytes, size_t range_bytes)
{
    (void) user;
    (void) samples;
    return range_bytes > sample_bytes;
}

//  Of a folder's copy: samples begin with a block.
static size_t
s_range_bytes (void *user, uint32_t first, uint32_t count)
{
    const served_t *served = user;
    size_t bytes = 0;
    for (uint32_t position = first; position < first + count; position++)
        bytes = (bytes + 63) / 64 * 64 + s_sample_bytes (user, served->simulation->pack_order [position]);
    return bytes;
}

//  Makes it a pack, in the order of all packs; false: it needs *least_p.
static bool
s_make_pack (simulation_t *self, served_t *served, size_t *least_p)
{
    broker_pack_t pack = { .order = self->pack_order, .breaks = self->breaks,
        .break_count = self->breaks [1]? BREAKS: 1,
        .sample_bytes = s_sample_bytes, .piece = s_piece, .user = served, .policy = self->options.tier,
        .chunk = CHUNK, .prefers_singles = self->options.avoids_gaps? s_prefers_singles: NULL,
        .read_bytes_max = 8 * served->scale
            * (self->options.sample_bytes? self->options.sample_bytes: 1000),
        .range_bytes = served->is_copy? s_range_bytes: NULL, .is_copy = served->is_copy };
    return dataset_set_pack (self->broker, served->dataset, &pack, least_p);
}

bool
simulation_reads_in_pieces (simulation_t *self)
{
    size_t least;
    self->served [0].is_copy = true;
    return s_make_pack (self, &self->served [0], &least);
}

//  ---- data sets

static served_t *
s_add_served (simulation_t *self, const char *name)
{
    assert_true (self->served_count < SERVED_MAX);
    served_t *served = &self->served [self->served_count];
    *served = (served_t) { .simulation = self, .scale = self->served_count++ % 4 == 2? 20: 1 };
    served->dataset = dataset_add (self->broker, name, self->options.samples, self->options.on_bad, served);
    assert_ptr_equal (dataset_user (served->dataset), served);
    return served;
}

//  Nothing of it is out, and it is told once.
static void
s_gone (simulation_t *self, served_t *served)
{
    assert_true (served->is_removed && !served->is_held);
    assert_non_null (served->dataset);
    for (size_t place = 0; place < self->heap_count; place++)
        assert_ptr_not_equal (self->heap [place].served, served);
    for (int number = 0; number < self->client_count; number++)
        assert_true (!self->clients [number].job || self->clients [number].served != served);
    served->dataset = NULL;
}

static void
s_take_gone (simulation_t *self)
{
    void *user;
    while (dataset_next_removed (self->broker, &user))
        s_gone (self, user);
}

int
simulation_add_dataset (simulation_t *self, const char *name, bool is_pack, bool is_for_all)
{
    served_t *served = s_add_served (self, name);
    size_t least;
    for (size_t index = 0; is_for_all && index < self->options.tenant_count; index++)
        tenant_allow (self->broker, tenant_named (self->broker, self->options.tenants [index].name),
            served->dataset);
    if (is_pack && !s_make_pack (self, served, &least)) {
        simulation_remove_dataset (self, self->served_count - 1);
        return -1;
    }
    return self->served_count - 1;
}

void
simulation_remove_dataset (simulation_t *self, int number)
{
    served_t *served = &self->served [number];
    simulation_drain (self);
    assert_false (served->is_removed);
    served->is_removed = true;
    dataset_remove (self->broker, served->dataset);
    assert_int_equal (dataset_jobs (served->dataset), 0);
    s_take_gone (self);
    simulation_drain (self);
    s_take_gone (self);
}

void
simulation_hold_dataset (simulation_t *self, int number, bool is_held)
{
    served_t *served = &self->served [number];
    assert_true (served->is_held != is_held && served->dataset);
    served->is_held = is_held;
    (is_held? dataset_hold: dataset_let_go) (served->dataset);
}

bool
simulation_dataset_is_gone (const simulation_t *self, int number)
{
    return !self->served [number].dataset;
}

//  ---- life

bool
simulation_is_readable (void *context, uint32_t id)
{
    const uint64_t *bad = context;
    return id >= 64 || !(*bad >> id & 1);
}

static fetch_ahead_load_t s_load (void *user, uint32_t fields);

simulation_t *
simulation_new (const simulation_options_t *options)
{
    //  Megabytes, of which most are never touched: calloc would clear them each time.
    simulation_t *self = mmap (NULL, sizeof *self, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    assert_ptr_not_equal (self, MAP_FAILED);
    self->options = *options;
    broker_options_t broker = {
        .cache_bytes = budget_version_cost (3) * options->cache_versions, .workers = options->workers,
        .jobs_bytes_max = options->jobs_bytes? options->jobs_bytes: SIZE_MAX / 2,
        .descriptors_max = options->descriptors, .raw_bytes = options->raw_bytes,
        .policy = options->policy, .seed = options->seed, .gather_ms = options->gather_ms,
        .patience_ms = options->patience_ms
    };
    self->broker = broker_new (&broker);
    self->checks = options->seed;
    self->runs = random_from_seed (options->seed ^ 0x72756e73);
    self->dataset = s_add_served (self, "data")->dataset;
    if (options->ahead_depth > 0) {
        assert_true (options->fetch_us > 0);
        self->ahead.reads = calloc (options->samples, sizeof *self->ahead.reads);
        self->ahead.kept = roaring_bitmap_create ();
        self->ahead_reading = roaring_bitmap_create ();
        self->jobs_reading = roaring_bitmap_create ();
        assert_true (self->ahead.reads && self->ahead.kept && self->ahead_reading && self->jobs_reading);
        fetch_ahead_keep (self->broker, self->dataset, &(fetch_ahead_driver_t) { .load = s_load,
            .user = self });
    }
    for (size_t index = 0; index < options->tenant_count; index++)
        tenant_allow (self->broker, tenant_add (self->broker, &options->tenants [index]),
            self->dataset);
    size_t least;
    if (options->raw_bytes)
        s_make_order (self);
    if (options->raw_bytes && !options->is_folder && !s_make_pack (self, self->served, &least))
        fail_msg ("the pack needs %zu bytes", least);
    self->worker_free_us = calloc (options->workers, sizeof *self->worker_free_us);
    assert_non_null (self->worker_free_us);
    simulation_push (self, (event_t) { .kind = EVENT_TICK, .at_us = TICK_US });
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
    json_t *status = broker_status (self->broker, NULL, self->now_us / 1000);
    uint64_t value = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return value;
}

//  ---- what workers do

//  The next worker takes so long for the task that the event tells of.
static void
s_work (simulation_t *self, int64_t cost_us, event_t event)
{
    uint32_t first = 0;
    for (uint32_t worker = 1; worker < self->options.workers; worker++)
        if (self->worker_free_us [worker] < self->worker_free_us [first])
            first = worker;
    int64_t start_us = self->worker_free_us [first] > self->now_us? self->worker_free_us [first]:
        self->now_us;
    event.at_us = self->worker_free_us [first] = start_us + cost_us;
    event.worker_us = self->options.copying_us? cost_us: 0;
    simulation_push (self, event);
}

static const served_t *
s_served_of (const dataset_t *dataset)
{
    return dataset_user (dataset);
}

static void
s_prepare (simulation_t *self, version_t *version)
{
    const simulation_options_t *options = &self->options;
    int64_t cost_us = options->prepare_us? options->prepare_us (options->context, self->broker, version)
        : options->cost_us? options->cost_us (options->context, version->id): 100;
    s_work (self, cost_us, (event_t) { .kind = EVENT_PREPARED, .version = version,
        .served = s_served_of (version_dataset (self->broker, version)) });
}

static void
s_copy (simulation_t *self, batch_row_t *row)
{
    const simulation_options_t *options = &self->options;
    event_t event = { .kind = EVENT_COPIED, .row = row, .served = s_served_of (job_dataset (row_job (row))),
        .at_us = self->now_us + (options->copy_us? options->copy_us: COPY_US) };
    if (options->copying_us)
        s_work (self, options->copying_us (options->context, row), event);
    else
        simulation_push (self, event);
}

static int
s_unread_rc (const simulation_t *self, uint32_t id)
{
    return self->options.unread_rc? self->options.unread_rc (self->options.context, id, self->now_us): 0;
}

//  ---- files that are kept

static bool
s_keeps (const simulation_t *self, const served_t *served)
{
    return self->options.ahead_depth > 0 && served == self->served;
}

//  As a driver's: what is submitted is under way, and what is looked for on the local disk is not yet.
static fetch_ahead_load_t
s_load (void *user, uint32_t fields)
{
    const simulation_t *self = user;
    assert_int_equal (fields, 1);
    bool is_aside = self->options.is_aside && self->options.is_aside (self->options.context, self->now_us),
        is_full = roaring_bitmap_get_cardinality (self->ahead.kept) >= self->options.kept_max;
    return (fetch_ahead_load_t) { .depth = is_aside || is_full? 0: self->options.ahead_depth,
        .is_away = is_aside, .busy = self->ahead.under_way - self->ahead_looking };
}

static void
s_begin_source (simulation_t *self)
{
    simulated_ahead_t *ahead = &self->ahead;
    ahead->under_way++;
    ahead->under_way_most = ahead->under_way > ahead->under_way_most? ahead->under_way: ahead->under_way_most;
}

static void
s_end_source (simulation_t *self, uint32_t id, int rc)
{
    simulated_ahead_t *ahead = &self->ahead;
    ahead->under_way--;
    ahead->reads [id]++;
    if (rc == 0 && roaring_bitmap_get_cardinality (ahead->kept) < self->options.kept_max)
        roaring_bitmap_add (ahead->kept, id);
}

static void
s_fetch_ahead (simulation_t *self, const action_t *action)
{
    simulated_ahead_t *ahead = &self->ahead;
    assert_int_equal (action->fields, 1);
    assert_false (roaring_bitmap_contains (self->jobs_reading, action->id));
    if (roaring_bitmap_contains (ahead->kept, action->id)) {
        fetch_ahead_done (self->broker, action->dataset, action->id, FETCH_AHEAD_KEPT,
            self->now_us / 1000);
        return;
    }
    if (roaring_bitmap_get_cardinality (ahead->kept) + ahead->under_way >= self->options.kept_max) {
        fetch_ahead_done (self->broker, action->dataset, action->id, FETCH_AHEAD_NO_ROOM,
            self->now_us / 1000);
        return;
    }
    assert_true (roaring_bitmap_add_checked (self->ahead_reading, action->id));
    s_begin_source (self);
    assert_true (ahead->under_way <= self->options.ahead_depth);
    ahead->reading++;
    ahead->reading_most = ahead->reading > ahead->reading_most? ahead->reading: ahead->reading_most;
    self->ahead_looking++;
    assert_true (self->options.fetch_us > AHEAD_LOOK_US);
    simulation_push (self, (event_t) { .kind = EVENT_LOOKED, .at_us = self->now_us + AHEAD_LOOK_US });
    simulation_push (self, (event_t) { .kind = EVENT_AHEAD, .at_us = self->now_us + self->options.fetch_us,
        .id = action->id, .served = s_served_of (action->dataset) });
}

static void s_fetch (simulation_t *self, version_t *version);

static void
s_fetched_ahead (simulation_t *self, const event_t *event)
{
    int rc = self->options.unread_rc? self->options.unread_rc (self->options.context, event->id,
        self->now_us): 0;
    self->ahead.reading--;
    self->ahead.ahead += rc == 0;
    self->ahead.ahead_failed += rc != 0;
    assert_true (roaring_bitmap_remove_checked (self->ahead_reading, event->id));
    s_end_source (self, event->id, rc);
    fetch_ahead_done (self->broker, event->served->dataset, event->id, rc? FETCH_AHEAD_FAILED:
        FETCH_AHEAD_READ, self->now_us / 1000);
    size_t left = 0, count = self->ahead_waiting_count;
    version_t *waiting [AHEAD_WAITING_MAX];
    memcpy (waiting, self->ahead_waiting, count * sizeof *waiting);
    for (size_t index = 0; index < count; index++)
        if (waiting [index]->id != event->id)
            self->ahead_waiting [left++] = waiting [index];
    self->ahead_waiting_count = left;
    for (size_t index = 0; index < count; index++)
        if (waiting [index]->id == event->id)
            s_fetch (self, waiting [index]);
}

//  Whether the version's file waits for what is read ahead, or lies on the local disk: *is_here_p.
static bool
s_waits_ahead (simulation_t *self, version_t *version, bool *is_here_p)
{
    *is_here_p = roaring_bitmap_contains (self->ahead.kept, version->id);
    if (!roaring_bitmap_contains (self->ahead_reading, version->id))
        return false;
    assert_true (self->ahead_waiting_count < AHEAD_WAITING_MAX);
    self->ahead_waiting [self->ahead_waiting_count++] = version;
    return true;
}

static void
s_fetched (simulation_t *self, version_t *version)
{
    int rc = s_unread_rc (self, version->id);
    if (rc) {
        broker_unread (self->broker, version, rc, "made to fail", self->now_us / 1000);
        return;
    }
    broker_fetched (self->broker, version);
    s_prepare (self, version);
}

static void
s_fetch (simulation_t *self, version_t *version)
{
    const simulation_options_t *options = &self->options;
    bool is_here = false, is_kept = s_keeps (self, s_served_of (version_dataset (self->broker, version)));
    if (is_kept && s_waits_ahead (self, version, &is_here))
        return;
    if (is_kept && !is_here) {
        self->ahead.jobs_twice += !roaring_bitmap_add_checked (self->jobs_reading, version->id);
        s_begin_source (self);
    }
    int64_t fetch_us = options->fetch_cost_us? options->fetch_cost_us (options->context, version):
        options->fetch_us;
    if (is_here) {
        broker_fetched (self->broker, version);
        s_prepare (self, version);
        return;
    }
    if (fetch_us > 0)
        simulation_push (self, (event_t) { .kind = EVENT_FETCHED, .at_us = self->now_us + fetch_us,
            .version = version, .served = s_served_of (version_dataset (self->broker, version)) });
    else
        s_fetched (self, version);
}

static void
s_read (simulation_t *self, raw_request_t *request)
{
    uint32_t first = 0;
    for (uint32_t disk = 1; disk < DISKS; disk++)
        if (self->disk_free_us [disk] < self->disk_free_us [first])
            first = disk;
    for (uint32_t index = 0; index < BREAKS; index++)       //  a volume's end is in no read
        assert_false (self->breaks [index] > request->first
            && self->breaks [index] < request->first + request->count);
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
    simulation_push (self, (event_t) { .kind = EVENT_READ, .at_us = start_us + cost_us, .request = request,
        .served = s_served_of (dataset_of_request (self->broker, request)) });
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
    if (options->answer)
        options->answer (options->context, request);
    int rc = 0;
    for (uint32_t index = 0; index < request->sample_count && rc == 0; index++)
        rc = s_unread_rc (self, request->samples [index]->id);
    if (rc)
        broker_unread_range (self->broker, request, rc, "made to fail", self->now_us / 1000);
    else
        broker_read (self->broker, request);
}

//  Whether what is sent reaches the client.
static bool
s_reaches (simulation_t *self, client_t *client)
{
    if (client->dies_at_send && !client->is_gone) {
        client->is_gone = client->died_now = true;
        broker_lost (self->broker, client->rank, self->now_us / 1000);
    }
    return !client->is_gone && !job_is_over (client->job) && rank_is_there (client->rank);
}

static void
s_notice (simulation_t *self, client_t *client, const action_t *action)
{
    if (!s_reaches (self, client))
        return;
    if (strcmp (action->reason, "storage") == 0) {
        client->storage_notices++;                  //  may come again
        return;
    }
    if (strcmp (action->reason, "rank_lost") == 0) {
        assert_true (client->group >= 0);
        free (client->rank_notice);
        client->rank_notice = strdup (action->message);
        client->rank_notices++;
        return;
    }
    if (strcmp (action->reason, "unreadable") == 0) {
        assert_null (action->message);
        free (client->unreadable);
        client->unreadable = job_unreadable_message (action->job);
        client->unreadable_notices++;
        return;
    }
    assert_null (client->notice);
    assert_string_equal (action->reason, "little_shared");
    client->notice = strdup (action->message);
    assert_non_null (client->notice);
}

static void
s_ended (client_t *client, const action_t *action)
{
    assert_true (client->group < 0 || !client->is_gone || client->dies_at_send);
    assert_null (client->ended);
    client->ended = action->reason;
    client->message = strdup (action->message);
    assert_non_null (client->message);
}

//  Nothing of the job is there any more.
static void
s_reclaim (simulation_t *self, job_t *job)
{
    for (uint32_t number = 0; number < job_world_size (job); number++) {
        client_t *client = rank_user (job_rank (job, number));
        if (client)
            client->job = NULL, client->rank = NULL;
    }
    ranks_over (self, job);
    broker_reclaim (self->broker, job);
}

static void
s_reclaim_rank (simulation_t *self, rank_t *rank)
{
    client_t *client = rank_user (rank);
    assert_true (client && client->rank == rank);
    assert_false (rank_is_there (rank));
    client->is_gone = true;                     //  a silent one did not know
    client->job = NULL;
    client->rank = NULL;
    broker_reclaim_rank (self->broker, rank);
    assert_null (rank_user (rank));
}

//  What has to do with a client.
static void
s_carry_out_for_client (simulation_t *self, client_t *client, const action_t *action)
{
    assert_non_null (client);
    assert_ptr_equal (action->job, rank_job (action->rank));
    switch (action->kind) {
    case ACTION_COPY:
        assert_ptr_equal (action->rank, row_rank (action->row));
        clients_check_copy (self, client, action->row);
        if (self->options.copied && !job_is_over (action->job))
            self->options.copied (self->options.context, self->broker, (int) (client - self->clients),
                action->row);
        s_copy (self, action->row);
        break;
    case ACTION_SEND_BATCH:
        if (s_reaches (self, client))
            clients_receive (self, client, action);
        break;
    case ACTION_SEND_EPOCH_END:
        if (s_reaches (self, client))
            clients_receive_end (self, client, &action->epoch_end);
        break;
    case ACTION_SEND_ENDED:
        s_ended (client, action);
        break;
    case ACTION_SEND_NOTICE:
        s_notice (self, client, action);
        break;
    default:
        fail ();
    }
}

static void
s_carry_out (simulation_t *self, const action_t *action)
{
    switch (action->kind) {
    case ACTION_READ:
        s_read (self, action->request);
        break;
    case ACTION_PREPARE:
        assert_non_null (action->version->memory);
        //  Of a folder that is read in pieces since a while, some versions have their own files still.
        if (!self->served [0].is_copy)
            assert_int_equal (version_raw (action->version) != NULL,
                version_dataset (self->broker, action->version)->prefetch != NULL);
        if (version_raw (action->version))
            s_prepare (self, action->version);
        else
            s_fetch (self, action->version);
        break;
    case ACTION_FETCH_AHEAD:
        s_fetch_ahead (self, action);
        break;
    case ACTION_RECLAIM:
        s_reclaim (self, action->job);
        break;
    case ACTION_RECLAIM_RANK:
        s_reclaim_rank (self, action->rank);
        break;
    case ACTION_SIDE_TASK:
        s_work (self, self->options.side_task_us,
            (event_t) { .kind = EVENT_SIDE_TASK, .tenant = action->tenant,
            .charged_us = action->charged_us });
        break;
    case ACTION_COPY:
    case ACTION_SEND_BATCH:
    case ACTION_SEND_EPOCH_END:
    case ACTION_SEND_ENDED:
    case ACTION_SEND_NOTICE:
        s_carry_out_for_client (self, rank_user (action->rank), action);
        break;
    }
}

void
simulation_drain (simulation_t *self)
{
    action_t action;
    while (broker_next (self->broker, &action))
        s_carry_out (self, &action);
}

static void
s_note_peaks (simulation_t *self)
{
    json_t *status = broker_status (self->broker, NULL, self->now_us / 1000);
    size_t memory = (size_t) json_integer_value (json_object_get (status, "cache_bytes"));
    size_t raw = (size_t) json_integer_value (json_object_get (status, "raw_bytes"));
    self->memory_peak = memory > self->memory_peak? memory: self->memory_peak;
    self->raw_peak = raw > self->raw_peak? raw: self->raw_peak;
    json_decref (status);
}

static void
s_settle (simulation_t *self)
{
    broker_advance (self->broker, self->now_us / 1000);
    simulation_drain (self);
    s_take_gone (self);
    ranks_settled (self);
    for (int number = 0; number < self->client_count; number++)
        clients_take (self, number);
    if (!self->options.check)
        return;
    if (test_below (&self->checks, 10) < EFFORT (10))
        broker_check (self->broker);                //  budgets too
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
        assert_true (raw->id == version->id
            && (raw->bytes == 0 || raw->memory [raw->bytes - 1] == (version->id & 0xff)));
    if (options->readable && !options->readable (options->context, version->id))
        broker_prepared (self->broker, version, OUTCOME_BAD, "made unreadable");
    else
    if (options->suits && !options->suits (options->context, self->broker, version))
        broker_prepared (self->broker, version, OUTCOME_UNSUITABLE, "made unsuitable");
    else
        broker_prepared (self->broker, version, OUTCOME_READY, NULL);
}

static void
s_beat (simulation_t *self)
{
    for (int number = 0; number < self->client_count; number++) {
        const client_t *client = &self->clients [number];
        if (client->rank && client->is_inline && client->is_attached && !client->is_silent
            && !client->is_gone)
            broker_heartbeat (self->broker, client->rank, self->now_us / 1000);
    }
}

static void
s_happen (simulation_t *self, const event_t *event)
{
    switch (event->kind) {
    case EVENT_READ:
        s_read_done (self, event->request);
        break;
    case EVENT_FETCHED:
        if (s_keeps (self, event->served)) {
            roaring_bitmap_remove (self->jobs_reading, event->version->id);
            s_end_source (self, event->version->id, s_unread_rc (self, event->version->id));
        }
        s_fetched (self, event->version);
        break;
    case EVENT_LOOKED:
        self->ahead_looking--;
        break;
    case EVENT_AHEAD:
        s_fetched_ahead (self, event);
        break;
    case EVENT_PREPARED:
        if (event->worker_us)
            broker_prepare_took (self->broker, event->version, (uint64_t) event->worker_us * 1000);
        s_prepared (self, event->version);
        break;
    case EVENT_COPIED:
        if (rank_user (row_rank (event->row)))
            clients_copied (rank_user (row_rank (event->row)), event->row);
        if (event->worker_us)
            broker_copy_took (self->broker, event->row, (uint64_t) event->worker_us * 1000);
        broker_copied (self->broker, event->row);
        break;
    case EVENT_SIDE_TASK:
        tenant_side_task_took (self->broker, event->tenant, event->charged_us,
            (uint64_t) event->worker_us * 1000);
        if (self->side_tasks_go_on)
            tenant_side_task_waits (self->broker, event->tenant);
        break;
    case EVENT_CONSUME:
        clients_release (self, event->client);
        break;
    case EVENT_TICK:
        s_beat (self);
        simulation_push (self, (event_t) { .kind = EVENT_TICK, .at_us = self->now_us + TICK_US });
        break;
    }
}

void
simulation_side_tasks (simulation_t *self, const char *tenant, uint32_t count)
{
    self->side_tasks_go_on = true;
    for (uint32_t side_task = 0; side_task < count; side_task++)
        tenant_side_task_waits (self->broker, tenant_named (self->broker, tenant));
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
    self->side_tasks_go_on = false;
    for (int number = 0; number < self->client_count; number++)
        simulation_gone (self, number);
    while (!simulation_run (self, self->now_us + TICK_US));
    for (int number = 0; number < self->client_count; number++) {
        assert_null (self->clients [number].job);
        clients_free (&self->clients [number]);
    }
    for (int number = 0; number < self->group_count; number++)
        ranks_free (&self->groups [number]);
    broker_destroy (&self->broker);
    free (self->worker_free_us);
    free (self->pack_order);
    if (self->options.ahead_depth > 0) {
        assert_true (self->ahead_waiting_count == 0 && self->ahead.under_way == 0);
        free (self->ahead.reads);
        roaring_bitmap_free (self->ahead.kept);
        roaring_bitmap_free (self->ahead_reading);
        roaring_bitmap_free (self->jobs_reading);
    }
    munmap (self, sizeof *self);
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

uint32_t
simulation_unreadable_notices (const simulation_t *self, int client, const char **message_p)
{
    *message_p = self->clients [client].unreadable;
    return self->clients [client].unreadable_notices;
}

uint32_t
simulation_storage_notices (const simulation_t *self, int client)
{
    return self->clients [client].storage_notices;
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
    json_t *status = broker_status (self->broker, NULL, self->now_us / 1000);
    uint64_t value = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return value;
}

const simulated_ahead_t *
simulation_ahead (const simulation_t *self)
{
    return &self->ahead;
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
