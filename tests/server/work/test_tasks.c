/*  The threads between the broker and the files, with catalogue, pack, reader and decoder made up here,
 *  failing when told:
 *  what is waited for, what is blamed, and what becomes of buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "clock.h"
#include "decoder.h"
#include "pool.h"
#include "reading.h"
#include "source.h"
#include "tasks.h"

enum { SAMPLES = 40, BATCH = 8, SLOTS = 4, KEPT_BYTES = 4 * 1024 * 1024, LARGE_BYTES = KEPT_BYTES + 1,
    PATIENCE_MS = 500 };

//  ---- what fails how often; taken by several threads

static struct {
    atomic_int shortages;           //  reads that find no descriptor
    atomic_int poor_ranges;         //  reads of a pack that find no memory
    atomic_int long_shortage;       //  reads of sample 5 that find no descriptor
    atomic_int poor_preparing;      //  shared stages that find no memory
    atomic_int poor_copies;         //  private stages
    atomic_int stalls;              //  private stages that fail; below 0: for ever
    atomic_int stalled;             //  that have failed so
    atomic_int large_buffers;       //  reads into a buffer that should have been given back
    int missing_mask;               //  id; -1: none
    int bad_mask;
    int other_mask;                 //  good, but not for this pipeline
    int changed;
    int damaged;                    //  in the pack
    bool volumes_fail;              //  every read of it
} s_plan;

static bool
s_take (atomic_int *left)
{
    int before = atomic_load (left);
    while (before > 0 && !atomic_compare_exchange_weak (left, &before, before - 1));
    return before > 0;
}

//  ---- a catalogue of images and masks, one label

static int
s_read_file (uint32_t id, size_t field, catalogue_buffer_t *buffer)
{
    if (buffer->limit > KEPT_BYTES)
        atomic_fetch_add (&s_plan.large_buffers, 1);
    if (s_take (&s_plan.shortages) || (id == 5 && s_take (&s_plan.long_shortage)))
        return -EMFILE;
    if (field == 1 && (int) id == s_plan.missing_mask)
        return -ENOENT;
    if (field == 0 && (int) id == s_plan.changed)
        return -CATALOGUE_CHANGED;
    size_t size = id % 7 == 3? LARGE_BYTES: 100;
    if (buffer->limit < size) {
        free (buffer->bytes);
        *buffer = (catalogue_buffer_t) { .bytes = malloc (size), .limit = size };
    }
    buffer->size = size;
    buffer->bytes [0] = (uint8_t) id;
    buffer->bytes [1] = (uint8_t) field;
    return 0;
}

size_t
catalogue_path (const catalogue_t *self, uint32_t id, size_t field, char *buffer, size_t size)
{
    (void) self;
    return (size_t) snprintf (buffer, size, "%s/%02u", field? "m": "i", id);
}

const char *
catalogue_field_name (const catalogue_t *self, size_t field)
{
    (void) self;
    return field? "mask": "image";
}

size_t
catalogue_labels (const catalogue_t *self)
{
    (void) self;
    return 1;
}

const catalogue_label_t *
catalogue_label (const catalogue_t *self, size_t label)
{
    (void) self;
    (void) label;
    static const catalogue_label_t number = { .name = "number", .dtype = "uint8", .bytes = 1 };
    return &number;
}

void
catalogue_label_value (const catalogue_t *self, size_t label, uint32_t id, uint8_t *target)
{
    (void) self;
    (void) label;
    *target = (uint8_t) (id + 100);
}

size_t
catalogue_file_bytes (const catalogue_t *self, uint32_t id, size_t field)
{
    (void) self;
    (void) field;
    return id % 7 == 3? LARGE_BYTES: 100;
}

//  ---- a pack of one volume, in which samples lie as their ids, image and mask of each

enum { HEADER_BYTES = 11 };

pack_range_t
pack_sample (const pack_t *self, uint32_t id)
{
    (void) self;
    size_t offset = HEADER_BYTES;
    for (uint32_t before = 0; before < id; before++)
        offset += 2 * catalogue_file_bytes (NULL, before, 0);
    return (pack_range_t) { .offset = offset, .bytes = 2 * catalogue_file_bytes (NULL, id, 0) };
}

pack_range_t
pack_piece (const pack_t *self, uint32_t first, uint32_t count)
{
    pack_range_t range = pack_sample (self, first), last = pack_sample (self, first + count - 1);
    range.bytes = last.offset + last.bytes - range.offset;
    return range;
}

size_t
pack_volume_path (const pack_t *self, uint32_t volume, char *buffer, size_t size)
{
    (void) self;
    return (size_t) snprintf (buffer, size, "p/volume-%u", volume);
}

uint32_t
pack_position (const pack_t *self, uint32_t id)
{
    (void) self;
    return id;
}

uint32_t
pack_chunk_samples (const pack_t *self)
{
    (void) self;
    return 8;
}

bool
pack_check (const pack_t *self, uint32_t id, const uint8_t *bytes, size_t *field_p)
{
    (void) self;
    *field_p = 0;
    size_t half = catalogue_file_bytes (NULL, id, 0);
    return (int) id != s_plan.damaged && bytes [0] == (uint8_t) id && bytes [1] == 0
        && bytes [half] == (uint8_t) id
        && bytes [half + 1] == 1;
}

//  ---- a reader: two threads that make the bytes up

struct reading {
    pool_t *pool;
    void (*finish) (void *context, reader_request_t *request);
    uint32_t depth;
    uint64_t wait_ns;               //  that a file seems to take
    bool stopped;
};

static uint64_t s_wait_ns = 1000, s_slower = 1;     //  of the next reader; of that after it, so many times as
                                                    //  much

typedef struct {
    reading_t *reading;
    reader_request_t *request;
} job_of_reading_t;

static void
s_read_range (const reading_t *reading, reader_request_t *request)
{
    request->memory = calloc (1, request->bytes + 5);
    assert (request->memory);
    request->skip = 5;
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint8_t field = 0; field < 2; field++) {
            uint64_t at = pack_sample (NULL, id).offset + field * catalogue_file_bytes (NULL, id, 0);
            if (at < request->offset || at + 1 >= request->offset + request->bytes)
                continue;
            request->memory [5 + at - request->offset] = (uint8_t) id;
            request->memory [6 + at - request->offset] = field;
        }
    request->rc = s_take (&s_plan.poor_ranges)? -ENOMEM: s_plan.volumes_fail? -EIO: 0;
    request->read_bytes = request->bytes;
    request->in_flight = 1;
    request->wait_ns = 1000;
    if (request->rc == 0)
        reading->finish (NULL, request);
    free (request->memory);
}

static void
s_read_in_thread (void *context, void *argument)
{
    (void) context;
    job_of_reading_t *job = argument;
    if (job->request->kind == READER_RANGE)
        s_read_range (job->reading, job->request);
    else {
        job->request->rc = s_read_file (job->request->id, job->request->field, job->request->buffer);
        job->request->read_bytes = job->request->buffer->size;
        job->request->in_flight = 1;
        job->request->wait_ns = job->reading->wait_ns;
    }
}

int
reading_new (reading_t **self_p, const reading_options_t *options, const char **path_p)
{
    (void) path_p;
    *self_p = calloc (1, sizeof **self_p);
    assert (*self_p);
    pool_options_t pool = { .name = "reading", .threads = 2, .tasks_max = options->requests_max,
        .work = s_read_in_thread };
    (*self_p)->pool = pool_new (&pool);
    (*self_p)->finish = options->finish;
    (*self_p)->depth = options->depth;
    (*self_p)->wait_ns = s_wait_ns;
    s_wait_ns *= s_slower;
    assert ((*self_p)->pool);
    return 0;
}

void
reading_destroy (reading_t **self_p)
{
    if (!*self_p)
        return;
    pool_destroy (&(*self_p)->pool);
    free (*self_p);
    *self_p = NULL;
}

void
reading_submit (reading_t *self, reader_request_t *request)
{
    job_of_reading_t *job = malloc (sizeof *job);
    assert (job);
    *job = (job_of_reading_t) { self, request };
    pool_submit (self->pool, job);
}

reader_request_t *
reading_done (reading_t *self)
{
    job_of_reading_t *job = pool_done (self->pool);
    reader_request_t *request = job? job->request: NULL;
    if (!job && self->stopped && (job = pool_drain (self->pool))) {
        request = job->request;
        request->rc = -ECANCELED;
    }
    free (job);
    return request;
}

int
reading_descriptor (const reading_t *self)
{
    return pool_descriptor (self->pool);
}

void
reading_stop (reading_t *self)
{
    pool_stop (self->pool);
    self->stopped = true;
}

void
reading_set_depth (reading_t *self, uint32_t depth)
{
    self->depth = depth;
}

uint32_t
reading_depth (const reading_t *self)
{
    return self->depth;
}

const char *
reading_mode (const reading_t *self)
{
    (void) self;
    return "made up";
}

bool
reading_is_direct (const reading_t *self, uint32_t file)
{
    (void) self;
    (void) file;
    return false;
}

//  ---- a decoder: a version is its sample's id

decoder_t *
decoder_new (void)
{
    return calloc (1, 1);
}

void
decoder_destroy (decoder_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

decoder_status_t
decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error, size_t error_bytes)
{
    (void) self;
    assert ((uintptr_t) version % 64 == 0);
    assert (sample->warnings_max == 17);
    for (size_t file = 0; file < pipeline_files (pipeline); file++) {
        assert (sample->files [file].bytes [0] == (uint8_t) key->id
            && sample->files [file].bytes [1] == file);
        assert (sample->files [file].size == (key->id % 7 == 3? LARGE_BYTES: 100));
    }
    snprintf (error, error_bytes, "is spoilt");
    *file_p = 1;
    if ((int) key->id == s_plan.bad_mask)
        return DECODER_BAD;
    if ((int) key->id == s_plan.other_mask)
        return DECODER_UNSUITABLE;
    if (s_take (&s_plan.poor_preparing))
        return DECODER_NO_MEMORY;
    version [0] = (uint8_t) key->id;
    return DECODER_OK;
}

bool
decoder_private (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *version, uint8_t *const *targets)
{
    (void) self;
    assert (version [0] == (uint8_t) key->id);
    bool stalls = atomic_load (&s_plan.stalls) < 0;
    atomic_fetch_add (&s_plan.stalled, stalls);
    if (stalls || s_take (&s_plan.poor_copies))
        return false;
    for (size_t output = 0; output < pipeline_outputs (pipeline); output++)
        memset (targets [output], version [0] + (int) output, pipeline_output (pipeline, output)->bytes);
    return true;
}

//  ---- a server without sockets

typedef struct {
    broker_t *broker;
    tasks_t *tasks;
    source_t source;
    source_volume_t volume;
    device_t *devices [2];          //  of images and packs, of masks
    const pipeline_t *pipeline;
    layout_t layout;
    uint8_t *ring;
    job_t *job;
    uint32_t order [SAMPLES];       //  of the pack
    bool seen [SAMPLES];
    size_t delivered;
    bool finished;
    char ended [400];               //  why, if the server ended it
} scene_t;

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    (void) user;
    return pack_sample (NULL, id).bytes;
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    (void) user;
    return pool_samples > 4? 4: 1;
}

static void
s_make_pack (scene_t *self, dataset_t *dataset)
{
    static const uint32_t breaks [1];
    for (uint32_t id = 0; id < SAMPLES; id++)
        self->order [id] = id;
    broker_pack_t pack = { .order = self->order, .breaks = breaks, .break_count = 1,
        .sample_bytes = s_sample_bytes,
        .piece = s_piece, .policy = RAW_STREAM, .chunk = 8, .read_bytes_max = 3 * LARGE_BYTES };
    size_t least;
    assert_true (broker_set_pack (self->broker, dataset, &pack, &least));
    self->source.pack = (const pack_t *) self->order;       //  never looked at
}

static void
s_begin_over (scene_t *self, bool packed)
{
    s_plan.missing_mask = s_plan.bad_mask = s_plan.other_mask = s_plan.changed = s_plan.damaged = -1;
    s_plan.volumes_fail = false;
    atomic_store (&s_plan.large_buffers, 0);
    atomic_store (&s_plan.stalls, 0);
    atomic_store (&s_plan.stalled, 0);
    *self = (scene_t) { .source = { .jpeg_warnings_max = 17 },
        .devices = { device_new (7, 0), device_new (8, 0) } };
    self->source.volumes = &self->volume;
    self->volume.device = self->devices [0];
    for (size_t field = 0; field < 2; field++) {
        assert_non_null (self->devices [field]);
        self->source.fields [field] = self->devices [field];
    }
    broker_options_t options = { .raw_bytes = packed? 30 * 2 * LARGE_BYTES: 0, .cache_bytes = 1 << 20,
        .workers = 3,
        .jobs_bytes_max = 1 << 26, .seed = 5, .patience_ms = PATIENCE_MS };
    self->broker = broker_new (&options);
    dataset_t *dataset = broker_add_dataset (self->broker, "data", SAMPLES, BROKER_BAD_DROP, &self->source);
    if (packed)
        s_make_pack (self, dataset);
    tasks_options_t tasks = { .broker = self->broker, .workers = 3, .devices = self->devices,
        .device_count = 2,
        .buffer_bytes = 1 << 20 };
    const char *path;
    assert_int_equal (tasks_new (&self->tasks, &tasks, &path), 0);
    pipeline_source_t source = { .fields = { { .name = "image" }, { .name = "mask", .is_mask = true } },
        .count = 2 };
    json_t *list = json_loads ("[{\"op\":\"decode\",\"fields\":[\"image\",\"mask\"]},"
        "{\"op\":\"resize\",\"size\":[2,3]}]", 0, NULL);
    char error [256];
    if (pipeline_new (&self->pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    assert_int_equal (layout_of (&self->layout, self->pipeline, NULL, BATCH), LAYOUT_OK);
    assert_int_equal (self->layout.count, 3);
    self->ring = calloc (SLOTS, self->layout.slot_bytes);
    assert_non_null (self->ring);
    broker_join_t join = { .dataset = dataset, .pipeline = self->pipeline, .world_size = 1,
        .batch_size = BATCH,
        .slots = SLOTS, .epochs = 1, .slot_bytes = self->layout.slot_bytes,
        .fresh_run = "00000000000000000000000000000001" };
    refusal_t refusal;
    self->job = broker_join (self->broker, &join, 0, &refusal);
    assert_non_null (self->job);
    rank_set_user (job_rank (self->job, 0), self, false);
    broker_attached (self->broker, job_rank (self->job, 0), 0);
}

static void
s_begin (scene_t *self)
{
    s_begin_over (self, false);
}

static void
s_end (scene_t *self)
{
    if (self->job)
        broker_gone (self->broker, self->job);
    tasks_stop (self->tasks);
    for (action_t action; broker_next (self->broker, &action);)
        if (action.kind == ACTION_RECLAIM)
            broker_reclaim (self->broker, action.job);
    tasks_destroy (&self->tasks);
    device_destroy (&self->devices [0]);
    device_destroy (&self->devices [1]);
    broker_destroy (&self->broker);
    pipeline_destroy (&self->pipeline);
    free (self->ring);
}

//  Each row is of the sample that it is said to be, in every field.
static void
s_receive (scene_t *self, const wire_batch_t *batch)
{
    uint32_t rows [BATCH];
    uint64_t ids [BATCH];
    uint32_t count = rank_batch_rows (job_rank (self->job, 0), batch->slot, rows, ids);
    uint8_t *slot = self->ring + batch->slot * self->layout.slot_bytes;
    for (uint32_t index = 0; index < count; index++) {
        const uint8_t *image = layout_row (&self->layout, 0, slot, rows [index]);
        const uint8_t *mask = layout_row (&self->layout, 1, slot, rows [index]);
        for (size_t byte = 0; byte < 18; byte++)
            assert_int_equal (image [byte], ids [index]);
        for (size_t byte = 0; byte < 6; byte++)
            assert_int_equal (mask [byte], ids [index] + 1);
        assert_int_equal (*layout_row (&self->layout, 2, slot, rows [index]), ids [index] + 100);
        assert_false (self->seen [ids [index]]);
        self->seen [ids [index]] = true;
    }
    self->delivered += count;
    wire_progress_t progress = { .consumed = batch->sequence + 1, .released = batch->sequence + 1 };
    refusal_t refusal;
    assert_true (broker_progress (self->broker, job_rank (self->job, 0), &progress, 1, &refusal));
}

static void
s_carry_out (scene_t *self, const action_t *action)
{
    if (action->kind == ACTION_READ)
        tasks_read (self->tasks, action->request);
    if (action->kind == ACTION_PREPARE)
        tasks_prepare (self->tasks, action->version);
    if (action->kind == ACTION_COPY)
        tasks_copy (self->tasks, action->row, &self->layout,
            self->ring + row_slot (action->row) * self->layout.slot_bytes);
    if (action->kind == ACTION_SEND_BATCH)
        s_receive (self, &action->batch);
    if (action->kind == ACTION_SEND_EPOCH_END)
        self->finished = true;
    if (action->kind == ACTION_SEND_ENDED)
        snprintf (self->ended, sizeof self->ended, "%s: %s", action->reason, action->message);
    if (action->kind == ACTION_RECLAIM) {
        broker_reclaim (self->broker, action->job);
        self->job = NULL;
    }
}

//  False: nothing happened for so long.
static bool
s_turn_for (scene_t *self, int wait_ms)
{
    int descriptors [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, descriptors);
    tasks_collect (self->tasks, clock_now_ms ());
    broker_advance (self->broker, clock_now_ms ());
    action_t action;
    bool acted = false;
    while (broker_next (self->broker, &action)) {
        s_carry_out (self, &action);
        acted = true;
    }
    struct pollfd items [TASKS_DESCRIPTORS];
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    int64_t due_ms = tasks_wakeup (self->tasks), now_ms = clock_now_ms ();
    due_ms = broker_wakeup (self->broker) < due_ms? broker_wakeup (self->broker): due_ms;
    bool is_due = due_ms < now_ms + wait_ms;
    int patience_ms = !is_due? wait_ms: due_ms > now_ms? (int) (due_ms - now_ms): 0;
    return acted || self->finished || !self->job || poll (items, TASKS_DESCRIPTORS, patience_ms) > 0
        || is_due;
}

static void
s_turn (scene_t *self)
{
    assert_true (s_turn_for (self, 20000));
}

static void
s_run (scene_t *self)
{
    while (!self->finished && self->job)
        s_turn (self);
}

static void
s_assert_bad (scene_t *self, uint32_t id, const char *reason)
{
    json_t *status = broker_status (self->broker, NULL, 0), *entry;
    size_t index, found = 0;
    json_array_foreach (json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "bad"),
        index, entry)
        if (json_integer_value (json_object_get (entry, "id")) == id) {
            assert_string_equal (json_string_value (json_object_get (entry, "reason")), reason);
            found++;
        }
    assert_int_equal (found, 1);
    json_decref (status);
}

//  ---- cases

//  Every field and label of every sample comes to its row, and a large buffer is not kept.
static void
test_all_fields_come_to_their_rows (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&s_plan.large_buffers), 0);
    s_end (&scene);
}

//  Each device has the reads of what lies on it, learns from those alone, and has its own depth.
static void
test_each_device_learns_by_itself (void **state)
{
    (void) state;
    scene_t scene;
    s_slower = 100000;              //  images take a microsecond, masks 100 ms
    s_begin (&scene);
    assert_int_equal (device_depth (scene.devices [0]), device_depth (scene.devices [1]));
    s_run (&scene);
    s_wait_ns = 1000;
    s_slower = 1;
    const cost_t *images = device_cost (scene.devices [0]), *masks = device_cost (scene.devices [1]);
    assert_int_equal (images->observed, SAMPLES);
    assert_int_equal (masks->observed, SAMPLES);
    assert_true (images->latency_seconds < 1e-5 && masks->latency_seconds > 1e-2);
    assert_true (device_depth (scene.devices [0]) < device_depth (scene.devices [1]));
    assert_int_equal (tasks_depth (scene.tasks),
        device_depth (scene.devices [0]) + device_depth (scene.devices [1]));
    json_t *told = tasks_devices_status (scene.tasks), *second = json_array_get (told, 1);
    assert_string_equal (json_string_value (json_object_get (second, "device")), "0:8");
    assert_int_equal (json_integer_value (json_object_get (second, "reads_max")),
        device_depth (scene.devices [1]));
    assert_int_equal (json_integer_value (json_object_get (second, "observed_reads")), SAMPLES);
    assert_true (json_is_true (json_object_get (second, "measured")));
    assert_true (json_real_value (json_object_get (second, "latency_microseconds")) > 1e4);
    json_decref (told);
    s_end (&scene);
}

//  Neither descriptors nor memory that are short for a while cost a sample.
static void
test_shortages_are_waited_out (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    atomic_store (&s_plan.shortages, 9);
    atomic_store (&s_plan.poor_preparing, 9);
    atomic_store (&s_plan.poor_copies, 9);
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    assert_int_equal (atomic_load (&s_plan.shortages) + atomic_load (&s_plan.poor_preparing)
        + atomic_load (&s_plan.poor_copies), 0);
    s_end (&scene);
}

//  However long they last: for seconds, of one sample, over plain files and over a pack.
static void
test_shortages_that_last (void **state)
{
    (void) state;
    for (int packed = 0; packed < 2; packed++) {
        scene_t scene;
        s_begin_over (&scene, packed);
        atomic_store (packed? &s_plan.poor_ranges: &s_plan.long_shortage, 130);
        atomic_store (&s_plan.poor_preparing, 130);
        s_run (&scene);
        assert_int_equal (scene.delivered, SAMPLES);
        assert_int_equal (atomic_load (&s_plan.long_shortage) + atomic_load (&s_plan.poor_preparing)
            + atomic_load (&s_plan.poor_ranges), 0);
        assert_true (tasks_shortages (scene.tasks) > 150);
        s_end (&scene);
    }
}

//  A shortage without an end holds nobody up who wants to end.
static void
test_an_end_in_a_shortage (void **state)
{
    (void) state;
    for (int packed = 0; packed < 2; packed++) {
        scene_t scene;
        s_begin_over (&scene, packed);
        atomic_store (packed? &s_plan.poor_ranges: &s_plan.shortages, INT_MAX);
        while (tasks_shortages (scene.tasks) < 10)
            s_turn_for (&scene, 10);
        assert_int_equal (scene.delivered, 0);
        s_end (&scene);
        atomic_store (packed? &s_plan.poor_ranges: &s_plan.shortages, 0);
    }
}

//  The reason names the file that is at fault, with its field unless it is the first.
static void
test_the_file_at_fault_is_named (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    s_plan.missing_mask = 5;
    s_plan.bad_mask = 6;
    s_plan.changed = 7;
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES - 3);
    s_assert_bad (&scene, 5, "mask: m/05: cannot be read: No such file or directory");
    s_assert_bad (&scene, 6, "mask: m/06: is spoilt");
    s_assert_bad (&scene, 7, "i/07: changed since the server started");
    s_end (&scene);
}

//  What does not suit the pipeline ends the job, by the name of the file, and is not bad.
static void
test_what_does_not_suit_is_not_bad (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    s_plan.other_mask = 6;
    s_run (&scene);
    assert_false (scene.finished);
    assert_string_equal (scene.ended,
        "unsuitable: mask: m/06: is spoilt (sample 6 of data set 'data' does not suit the "
        "pipeline: change that, or leave the sample out by a subset)");
    json_t *status = broker_status (scene.broker, NULL, 0);
    assert_int_equal (json_integer_value (json_object_get (status, "bad_samples")), 0);
    json_decref (status);
    s_end (&scene);
}

//  A copy that finds no memory for ever does not hold up the end.
static void
test_an_end_does_not_wait_for_memory (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    atomic_store (&s_plan.stalls, -1);
    while (!atomic_load (&s_plan.stalled))
        s_turn_for (&scene, 10);
    assert_int_equal (scene.delivered, 0);
    s_end (&scene);
}

//  What tasks take of their workers is charged to the job's tenant, and what they sleep is not.
static void
test_workers_time_is_told (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene);
    atomic_store (&s_plan.poor_copies, 20);                 //  20 ms of waiting each
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    uint64_t worker_ns = broker_worker_ns (scene.broker, broker_tenant (scene.broker, NULL));
    assert_true (worker_ns > 0 && worker_ns < 20 * 20000000u);
    s_end (&scene);
}

//  A pack's samples come to their rows as well, whatever pieces they are read in; damage is told with its
//  place.
static void
test_packed_samples_come_to_their_rows (void **state)
{
    (void) state;
    scene_t scene;
    s_begin_over (&scene, true);
    s_plan.damaged = 13;
    s_plan.bad_mask = 6;
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES - 2);
    s_assert_bad (&scene, 13, "i/13: its bytes in the pack are damaged (volume 0, chunk 1): `tureen verify` "
        "names all that are");
    s_assert_bad (&scene, 6, "mask: m/06: is spoilt");
    s_end (&scene);
}

//  A volume that cannot be read for as long as patience lasts ends the job, by its name, and costs no sample.
static void
test_a_failing_volume_is_told (void **state)
{
    (void) state;
    scene_t scene;
    s_begin_over (&scene, true);
    s_plan.volumes_fail = true;
    s_run (&scene);
    assert_int_equal (scene.delivered, 0);
    assert_non_null (strstr (scene.ended, "storage: data set 'data' could not be read"));
    assert_non_null (strstr (scene.ended, "could not be read for 0 s: volume-0: cannot be read at "));
    assert_non_null (strstr (scene.ended, ": Input/output error. No sample is marked as bad"));
    json_t *status = broker_status (scene.broker, NULL, 0);
    assert_int_equal (json_integer_value (json_object_get (status, "bad_samples")), 0);
    json_decref (status);
    s_end (&scene);
}

//  ---- side tasks

typedef struct {
    side_task_t side_task;                //  first
    atomic_int *gate;               //  it waits until this is not 0
    atomic_int *begun;
    bool done;
} walk_t;

static void
s_walk (side_task_t *side_task, decoder_t *decoder)
{
    walk_t *self = (walk_t *) side_task;
    assert (decoder && !self->done);
    atomic_fetch_add (self->begun, 1);
    while (atomic_load (self->gate) == 0)
        sched_yield ();
    self->done = true;
}

static void *
s_open_later (void *argument)
{
    atomic_int *gate = argument;
    nanosleep (&(struct timespec) { .tv_nsec = 20 * 1000 * 1000 }, NULL);
    atomic_store (gate, 1);
    return NULL;
}

//  Takes back what is done, each once; how many.
static size_t
s_take_back (scene_t *scene, size_t *undone_p)
{
    size_t count = 0;
    side_task_t *side_task;
    while ((side_task = tasks_side_task_done (scene->tasks))) {
        *undone_p += !((walk_t *) side_task)->done;
        side_task->work = NULL;        //  twice would be seen
        count++;
    }
    return count;
}

//  Errands go between a job's samples; all that may be out at once come back, also those that the end finds
//  in the queue.
static void
test_side_tasks_come_back (void **state)
{
    (void) state;
    scene_t scene;
    walk_t walks [TASKS_SIDE_TASKS_MAX];
    atomic_int open, shut, begun;
    atomic_init (&open, 1);
    atomic_init (&shut, 0);
    atomic_init (&begun, 0);
    s_begin (&scene);
    size_t undone = 0, back = 0;
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++) {
        walks [index] = (walk_t) { .side_task = { .work = s_walk }, .gate = &open, .begun = &begun };
        tasks_run (scene.tasks, &walks [index].side_task);
    }
    s_run (&scene);
    assert_int_equal (scene.delivered, SAMPLES);
    while (back < TASKS_SIDE_TASKS_MAX) {
        tasks_collect (scene.tasks, clock_now_ms ());
        back += s_take_back (&scene, &undone);
    }
    assert_int_equal (undone, 0);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++)
        assert_true (walks [index].side_task.worker_ns > 0);
    for (size_t index = 0; index < TASKS_SIDE_TASKS_MAX; index++) {
        walks [index] = (walk_t) { .side_task = { .work = s_walk }, .gate = &shut, .begun = &begun };
        tasks_run (scene.tasks, &walks [index].side_task);
    }
    while (atomic_load (&begun) < TASKS_SIDE_TASKS_MAX + 3)        //  the three workers stand at the gate
        sched_yield ();
    broker_gone (scene.broker, scene.job);
    scene.job = NULL;
    //  One that is to be stopped lets what has begun end: the gate opens when the stop has been asked for.
    pthread_t opener;
    assert_int_equal (pthread_create (&opener, NULL, s_open_later, &shut), 0);
    tasks_stop (scene.tasks);
    pthread_join (opener, NULL);
    assert_int_equal (s_take_back (&scene, &undone), TASKS_SIDE_TASKS_MAX);
    s_end (&scene);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_all_fields_come_to_their_rows),
        cmocka_unit_test (test_each_device_learns_by_itself),
        cmocka_unit_test (test_shortages_are_waited_out),
        cmocka_unit_test (test_shortages_that_last),
        cmocka_unit_test (test_an_end_in_a_shortage),
        cmocka_unit_test (test_the_file_at_fault_is_named),
        cmocka_unit_test (test_what_does_not_suit_is_not_bad),
        cmocka_unit_test (test_an_end_does_not_wait_for_memory),
        cmocka_unit_test (test_workers_time_is_told),
        cmocka_unit_test (test_packed_samples_come_to_their_rows),
        cmocka_unit_test (test_a_failing_volume_is_told),
        cmocka_unit_test (test_side_tasks_come_back)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
