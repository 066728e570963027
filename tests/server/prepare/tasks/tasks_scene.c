#include "tasks_scene.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "clock.h"
#include "decoder.h"
#include "job.h"
#include "pack_index.h"
#include "pool.h"
#include "reading.h"
#include "tenant.h"

enum { BATCH = 8, SLOTS = 4, KEPT_BYTES = 4 * 1024 * 1024, LARGE_BYTES = KEPT_BYTES + 1,
    PACKED_BYTES = 300, PATIENCE_MS = 500 };

//  ---- what fails how often

tasks_scene_plan_t tasks_scene_plan;

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
        atomic_fetch_add (&tasks_scene_plan.large_buffers, 1);
    atomic_fetch_add (&tasks_scene_plan.own_files, 1);
    if (s_take (&tasks_scene_plan.shortages) || (id == 5 && s_take (&tasks_scene_plan.long_shortage)))
        return -EMFILE;
    if (field == 1 && (int) id == tasks_scene_plan.missing_mask)
        return -ENOENT;
    if (field == 0 && (int) id == tasks_scene_plan.changed)
        return -CATALOGUE_CHANGED;
    size_t size = catalogue_file_bytes (NULL, id, field);
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

const char *
catalogue_files_fingerprint (const catalogue_t *self)
{
    (void) self;
    return "made up";
}

bool
catalogue_field_is_mask (const catalogue_t *self, size_t field)
{
    (void) self;
    return field == 1;
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
    bool is_small = tasks_scene_plan.is_packed || tasks_scene_plan.is_kept;
    return id % 7 != 3? 100: is_small? PACKED_BYTES: LARGE_BYTES;
}

//  Nothing is kept on the local disk.
block_data_t *
catalogue_blocks (const catalogue_t *self, size_t field, int *rc_p)
{
    (void) self;
    (void) field;
    *rc_p = 0;
    return NULL;
}

uint64_t
catalogue_place (const catalogue_t *self, uint32_t id, size_t field)
{
    (void) self;
    (void) id;
    (void) field;
    return CATALOGUE_NO_PLACE;
}

size_t
catalogue_fields (const catalogue_t *self)
{
    (void) self;
    return tasks_scene_plan.is_kept? 1: 2;
}

//  Of the warnings, which these data have not.
uint32_t
catalogue_samples (const catalogue_t *self)
{
    (void) self;
    return 0;
}

uint32_t
catalogue_classes (const catalogue_t *self)
{
    (void) self;
    return 0;
}

const char *
catalogue_class_name (const catalogue_t *self, uint32_t class)
{
    (void) self;
    (void) class;
    return NULL;
}

//  ---- a pack of one volume, in which samples lie as their ids, of each image, mask and the rows

enum { HEADER_BYTES = 11, ROWS_BYTES = 9 };

size_t
pack_rows_bytes (const pack_t *self, uint32_t id)
{
    (void) self;
    (void) id;
    return ROWS_BYTES;
}

size_t
pack_sample_bytes (const pack_t *self, uint32_t id)
{
    (void) self;
    return 2 * catalogue_file_bytes (NULL, id, 0) + ROWS_BYTES;
}

pack_range_t
pack_sample (const pack_t *self, uint32_t id)
{
    (void) self;
    size_t offset = HEADER_BYTES;
    for (uint32_t before = 0; before < id; before++)
        offset += pack_sample_bytes (NULL, before);
    return (pack_range_t) { .offset = offset, .bytes = pack_sample_bytes (NULL, id) };
}

pack_range_t
pack_piece (const pack_t *self, uint32_t first, uint32_t count)
{
    pack_range_t range = pack_sample (self, first), last = pack_sample (self, first + count - 1);
    range.bytes = last.offset + last.bytes - range.offset;
    return range;
}

uint64_t
pack_volume_bytes (const pack_t *self, uint32_t volume)
{
    (void) self;
    (void) volume;
    return 1;
}

size_t
pack_volume_path (const pack_t *self, uint32_t volume, char *buffer, size_t size)
{
    (void) self;
    return (size_t) snprintf (buffer, size, "p/volume-%u", volume);
}

const char *
catalogue_error (const catalogue_t *self, size_t field, int rc)
{
    (void) self;
    (void) field;
    return strerror (-rc);
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
    return (int) id != tasks_scene_plan.damaged && bytes [0] == (uint8_t) id && bytes [1] == 0
        && bytes [half] == (uint8_t) id
        && bytes [half + 1] == 1;
}

//  ---- a copy, in which samples lie as their ids, each from a unit on

enum { UNIT = 4096 };

space_range_t
space_sample (const space_t *self, uint32_t id)
{
    (void) self;
    return (space_range_t) { .offset = (uint64_t) id * UNIT, .bytes = catalogue_file_bytes (NULL, id, 0) };
}

space_range_t
space_piece (const space_t *self, uint32_t first, uint32_t count)
{
    space_range_t range = space_sample (self, first), last = space_sample (self, first + count - 1);
    range.bytes = last.offset + last.bytes - range.offset;
    return range;
}

uint64_t
space_bytes (const space_t *self)
{
    (void) self;
    return (uint64_t) SAMPLES * UNIT;
}

bool
space_has (const space_t *self, uint32_t id)
{
    (void) self;
    return !(atomic_load (&tasks_scene_plan.missing) >> id & 1);
}

bool
space_check (const space_t *self, uint32_t id, const uint8_t *bytes)
{
    (void) self;
    return bytes [0] == (uint8_t) id && bytes [1] == 0 && bytes [2] == 77;
}

//  It was kept again.
void
space_note (space_t *self, uint32_t id, const uint8_t *bytes)
{
    (void) self;
    assert (bytes [0] == (uint8_t) id);
    atomic_fetch_and (&tasks_scene_plan.missing, ~(1ULL << id));
    atomic_fetch_and (&tasks_scene_plan.lost, ~(1ULL << id));
}

//  ---- a reader: two threads that make the bytes up

struct reading {
    pool_t *pool;
    void (*finish) (void *context, reader_request_t *request);
    uint32_t depth;
    uint64_t wait_ns;               //  that a file seems to take
    bool stopped;
};

uint64_t tasks_scene_wait_ns = 1000, tasks_scene_slower = 1;

typedef struct {
    reading_t *reading;
    reader_request_t *request;
} job_of_reading_t;

static void
s_fill_copy (reader_request_t *request)
{
    while (atomic_load (&tasks_scene_plan.copy_hangs))
        nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    for (uint32_t id = 0; id < SAMPLES; id++) {
        uint64_t at = (uint64_t) id * UNIT;
        uint64_t lost = atomic_load (&tasks_scene_plan.lost) | atomic_load (&tasks_scene_plan.missing);
        if (lost >> id & 1 || at < request->offset || at + 2 >= request->offset + request->bytes)
            continue;
        request->memory [5 + at - request->offset] = (uint8_t) id;
        request->memory [7 + at - request->offset] = 77;
    }
    atomic_fetch_add (&tasks_scene_plan.joined_ranges, request->bytes > UNIT);
    request->rc = atomic_load (&tasks_scene_plan.copy_fails)? -EIO: 0;
}

static void
s_fill_pack (reader_request_t *request)
{
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint8_t field = 0; field < 3; field++) {
            uint64_t at = pack_sample (NULL, id).offset + field * catalogue_file_bytes (NULL, id, 0);
            if (at < request->offset || at + 1 >= request->offset + request->bytes)
                continue;
            request->memory [5 + at - request->offset] = (uint8_t) id;
            request->memory [6 + at - request->offset] = field;
        }
    atomic_fetch_add (&tasks_scene_plan.joined_ranges,
        request->bytes > 2 * PACKED_BYTES + ROWS_BYTES);
    request->rc = s_take (&tasks_scene_plan.poor_ranges)? -ENOMEM: tasks_scene_plan.volumes_fail? -EIO: 0;
}

static void
s_read_range (const reading_t *reading, reader_request_t *request)
{
    request->memory = calloc (1, request->bytes + 5);
    assert (request->memory);
    request->skip = 5;
    if (tasks_scene_plan.is_kept)
        s_fill_copy (request);
    else
        s_fill_pack (request);
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
        job->request->is_here = tasks_scene_plan.is_kept;
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
    (*self_p)->wait_ns = tasks_scene_wait_ns;
    tasks_scene_wait_ns *= tasks_scene_slower;
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

size_t
reading_pending (const reading_t *self)
{
    (void) self;
    return 0;
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
reading_source_depth (const reading_t *self)
{
    return reading_depth (self);
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

//  ---- a decoder: a version is its sample's id, and the rows of an image are that and a mark

struct decoder {
    uint8_t rows [2];
    bool has_learned;               //  of the last sample
    bool is_large;
};

enum { ROWS_MARK = 0xa7 };

decoder_t *
decoder_new (void)
{
    atomic_fetch_add (&tasks_scene_plan.decoders, 1);
    return calloc (1, sizeof (decoder_t));
}

void
decoder_destroy (decoder_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

size_t
decoder_kept_bytes (const decoder_t *self)
{
    return self->is_large? SIZE_MAX: 0;
}

//  They lie in a pack, or the task was told them of a plain file, or they are found out now.
static void
s_look_at_rows (decoder_t *self, const pipeline_key_t *key, const decoder_sample_t *sample)
{
    bool is_packed = tasks_scene_plan.is_packed;
    const uint8_t *rows = sample->files [0].rows;
    size_t size = sample->files [0].rows_bytes;
    assert (tasks_scene_plan.is_kept || sample->files [1].rows_bytes == 0);
    assert (is_packed? size == ROWS_BYTES: size == 0 || size == sizeof self->rows);
    assert (size == 0 || (rows [0] == (uint8_t) key->id && rows [1] == (is_packed? 2: ROWS_MARK)));
    atomic_fetch_add (&tasks_scene_plan.told_rows, size > 0);
    self->has_learned = size == 0;
    self->rows [0] = (uint8_t) key->id;
    self->rows [1] = ROWS_MARK;
}

static _Thread_local const atomic_bool *s_abandoned;

void
decoder_watch (decoder_t *self, const atomic_bool *abandoned)
{
    (void) self;
    s_abandoned = abandoned;
}

static void
s_hang (void)
{
    atomic_fetch_add (&tasks_scene_plan.hanging, 1);
    while (!atomic_load (s_abandoned))
        nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    atomic_fetch_sub (&tasks_scene_plan.hanging, 1);
}

uint32_t
decoder_picture_kind (const pipeline_t *pipeline, size_t file)
{
    (void) pipeline;
    return tasks_scene_plan.pictures? (uint32_t) file: DECODER_NO_PICTURE;
}

static void
s_keep_picture (const pipeline_key_t *key, const decoder_sample_t *sample, size_t file)
{
    const decoder_picture_t picture = { .height = 1, .width = 2, .channels = 1 };
    if (!tasks_scene_plan.pictures)
        return;
    if (sample->files [file].picture) {
        atomic_fetch_add (&tasks_scene_plan.decoded, 1);
        return;
    }
    uint8_t *room = sample->room (sample->context, file, &picture);
    if (room) {
        room [0] = (uint8_t) key->id;
        room [1] = (uint8_t) file;
    }
}

decoder_status_t
decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample, uint8_t *version, size_t *file_p, char *error, size_t error_bytes)
{
    assert ((uintptr_t) version % 64 == 0);
    assert (sample->warnings_max == 17);
    s_look_at_rows (self, key, sample);
    for (size_t file = 0; file < pipeline_files (pipeline); file++) {
        const decoder_picture_t *picture = sample->files [file].picture;
        const uint8_t *bytes = picture? picture->pixels: sample->files [file].bytes;
        assert (bytes [0] == (uint8_t) key->id && bytes [1] == file);
        assert (picture
            || sample->files [file].size == catalogue_file_bytes (NULL, (uint32_t) key->id, file));
        s_keep_picture (key, sample, file);
    }
    if (atomic_load (&tasks_scene_plan.shared_hang)) {
        s_hang ();
        return DECODER_ABANDONED;
    }
    snprintf (error, error_bytes, "is spoilt");
    *file_p = 1;
    if ((int) key->id == tasks_scene_plan.bad_mask)
        return DECODER_BAD;
    if ((int) key->id == tasks_scene_plan.other_mask)
        return DECODER_UNSUITABLE;
    if (s_take (&tasks_scene_plan.poor_preparing))
        return DECODER_NO_MEMORY;
    version [0] = (uint8_t) key->id;
    return DECODER_OK;
}

bool
decoder_clipped (const decoder_t *self)
{
    (void) self;
    return false;
}

size_t
decoder_learned (decoder_t *self, const uint8_t **rows_p)
{
    *rows_p = self->rows;
    return self->has_learned && !tasks_scene_plan.finds_nothing? sizeof self->rows: 0;
}

uint64_t
decoder_custom_ns (decoder_t *self)
{
    (void) self;
    return 0;
}

uint64_t
pack_index_checksum (const void *bytes, size_t size)
{
    atomic_fetch_add (&tasks_scene_plan.checksums, 1);
    return size + *(const uint8_t *) bytes + ((uint64_t) tasks_scene_plan.edition << 32);
}

bool
decoder_is_version (const pipeline_t *pipeline, const uint8_t *version)
{
    (void) pipeline, (void) version;
    return true;
}

bool
decoder_private (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key,
    const uint8_t *version, uint8_t *const *targets)
{
    assert (version [0] == (uint8_t) key->id);
    self->is_large = self->is_large || s_take (&tasks_scene_plan.large_stages);
    if (atomic_load (&tasks_scene_plan.private_hang)) {
        s_hang ();
        return false;
    }
    bool stalls = atomic_load (&tasks_scene_plan.stalls) < 0;
    atomic_fetch_add (&tasks_scene_plan.stalled, stalls);
    if (stalls || s_take (&tasks_scene_plan.poor_copies))
        return false;
    for (size_t output = 0; output < pipeline_outputs (pipeline); output++)
        memset (targets [output], version [0] + (int) output, pipeline_output (pipeline, output)->bytes);
    return true;
}

//  ---- a server without sockets

static size_t
s_sample_bytes (void *user, uint32_t id)
{
    (void) user;
    return tasks_scene_plan.is_kept? catalogue_file_bytes (NULL, id, 0): pack_sample (NULL, id).bytes;
}

static uint32_t
s_piece (void *user, uint64_t pool_samples)
{
    (void) user;
    return pool_samples > 4? 4: 1;
}

static void
s_make_pack (tasks_scene_t *self, dataset_t *dataset)
{
    static const uint32_t breaks [1];
    for (uint32_t id = 0; id < SAMPLES; id++)
        self->order [id] = id;
    broker_pack_t pack = { .order = self->order, .breaks = breaks, .break_count = 1,
        .sample_bytes = s_sample_bytes,
        .piece = s_piece, .policy = RAW_STREAM, .chunk = 8,
        .read_bytes_max = 3 * (2 * PACKED_BYTES + ROWS_BYTES), .is_copy = tasks_scene_plan.is_kept };
    size_t least;
    assert_true (dataset_set_pack (self->broker, dataset, &pack, &least));
    //  Never looked at.
    if (tasks_scene_plan.is_kept)
        self->source.space = (space_t *) self->order;
    else
        self->source.pack = (const pack_t *) self->order;
}

static void
s_add_tenants (tasks_scene_t *self)
{
    static const char *const names [2] = { "a", "b" };
    self->datasets [1] = dataset_add (self->broker, "secret", SAMPLES, BROKER_BAD_DROP, &self->source);
    for (size_t index = 0; index < 2; index++) {
        broker_tenant_t tenant = { .name = names [index], .weight = 1 };
        self->tenants [index] = tenant_add (self->broker, &tenant);
        tenant_allow (self->broker, self->tenants [index], self->datasets [0]);
    }
    tenant_allow (self->broker, self->tenants [1], self->datasets [1]);
}

job_t *
tasks_scene_join (tasks_scene_t *self, tenant_t *tenant, dataset_t *dataset)
{
    broker_terms_t join = { .tenant = tenant, .dataset = dataset, .pipeline = self->pipeline, .world_size = 1,
        .batch_size = BATCH,
        .slots = SLOTS, .epochs = 1, .slot_bytes = self->layout.slot_bytes,
        .fresh_run = self->job? "00000000000000000000000000000002": "00000000000000000000000000000001" };
    refusal_t refusal;
    job_t *job = broker_join (self->broker, &join, 0, &refusal);
    assert_non_null (job);
    rank_set_user (job_rank (job, 0), self, false);
    broker_attached (self->broker, job_rank (job, 0), 0);
    return job;
}

void
tasks_scene_begin_over (tasks_scene_t *self, bool packed)
{
    tasks_scene_plan_t *plan = &tasks_scene_plan;
    alarm (300);                        //  what hangs fails
    plan->missing_mask = plan->bad_mask = plan->other_mask = plan->changed = plan->damaged = -1;
    plan->volumes_fail = false;
    plan->is_packed = packed && !plan->is_kept;
    atomic_store (&plan->own_files, 0);
    plan->finds_nothing = false;
    atomic_store (&plan->checksums, 0);
    atomic_store (&plan->large_buffers, 0);
    atomic_store (&plan->told_rows, 0);
    atomic_store (&plan->joined_ranges, 0);
    atomic_store (&plan->shared_hang, false);
    atomic_store (&plan->private_hang, false);
    atomic_store (&plan->hanging, 0);
    atomic_store (&plan->stalls, 0);
    atomic_store (&plan->stalled, 0);
    *self = (tasks_scene_t) { .source = { .jpeg_warnings_max = 17, .rows = plan->rows,
        .pictures = plan->pictures },
        .devices = { device_new (7, NULL, 0), device_new (8, NULL, 0) } };
    self->source.volumes = &self->volume;
    self->volume.device = self->devices [0];
    for (size_t field = 0; field < 2; field++) {
        assert_non_null (self->devices [field]);
        self->source.fields [field] = self->devices [plan->is_kept? 1: field];
    }
    broker_options_t options = { .raw_bytes = packed? 30 * (2 * PACKED_BYTES + ROWS_BYTES): 0,
        .cache_bytes = 1 << 20,
        .workers = 3,
        .jobs_bytes_max = 1 << 26, .seed = 5, .patience_ms = PATIENCE_MS };
    self->broker = broker_new (&options);
    self->datasets [0] = dataset_add (self->broker, "data", SAMPLES, BROKER_BAD_DROP, &self->source);
    if (packed)
        s_make_pack (self, self->datasets [0]);
    if (plan->has_tenants)
        s_add_tenants (self);
    tasks_options_t tasks = { .broker = self->broker, .workers = 3, .devices = self->devices,
        .device_count = 2,
        .buffer_bytes = 1 << 20 };
    const char *path;
    assert_int_equal (tasks_new (&self->tasks, &tasks, &path), 0);
    pipeline_source_t source = { .fields = { { .name = "image" }, { .name = "mask", .is_mask = true } },
        .count = plan->is_kept? 1: 2 };
    json_t *list = json_loads (plan->is_kept? "[{\"op\":\"decode\"},{\"op\":\"resize\",\"size\":[2,3]}]":
        "[{\"op\":\"decode\",\"fields\":[\"image\",\"mask\"]},{\"op\":\"resize\",\"size\":[2,3]}]", 0,
        NULL);
    char error [256];
    if (pipeline_new (&self->pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    assert_int_equal (layout_of (&self->layout, self->pipeline, NULL, BATCH), LAYOUT_OK);
    assert_int_equal (self->layout.count, plan->is_kept? 2: 3);
    self->ring = calloc (SLOTS, self->layout.slot_bytes);
    assert_non_null (self->ring);
    self->job = tasks_scene_join (self, self->tenants [0], self->datasets [0]);
}

void
tasks_scene_begin (tasks_scene_t *self)
{
    tasks_scene_begin_over (self, false);
}

void
tasks_scene_begin_kept (tasks_scene_t *self)
{
    tasks_scene_plan_t *plan = &tasks_scene_plan;
    plan->is_kept = true;
    atomic_store (&plan->lost, 0);
    atomic_store (&plan->missing, 0);
    atomic_store (&plan->copy_fails, false);
    atomic_store (&plan->copy_hangs, false);
    tasks_scene_begin_over (self, true);
}

void
tasks_scene_end (tasks_scene_t *self)
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
    tasks_scene_plan.is_kept = false;
}

int
tasks_scene_forget (void **state)
{
    (void) state;
    tasks_scene_plan = (tasks_scene_plan_t) { .later_ms = 0 };
    tasks_scene_wait_ns = 1000;
    tasks_scene_slower = 1;
    return 0;
}

//  Each row is of the sample that it is said to be, in every field.
static void
s_receive (tasks_scene_t *self, const wire_batch_t *batch)
{
    uint32_t rows [BATCH];
    uint64_t ids [BATCH];
    uint32_t count = rank_batch_rows (job_rank (self->job, 0), batch->slot, rows, ids);
    uint8_t *slot = self->ring + batch->slot * self->layout.slot_bytes;
    for (uint32_t index = 0; index < count; index++) {
        const uint8_t *image = layout_row (&self->layout, 0, slot, rows [index]);
        size_t label = self->layout.count - 1;
        const uint8_t *mask = label > 1? layout_row (&self->layout, 1, slot, rows [index]): NULL;
        for (size_t byte = 0; byte < 18; byte++)
            assert_int_equal (image [byte], ids [index]);
        for (size_t byte = 0; mask && byte < 6; byte++)
            assert_int_equal (mask [byte], ids [index] + 1);
        assert_int_equal (*layout_row (&self->layout, label, slot, rows [index]), ids [index] + 100);
        assert_false (self->seen [ids [index]]);
        self->seen [ids [index]] = true;
    }
    self->delivered += count;
    wire_progress_t progress = { .consumed = batch->sequence + 1, .released = batch->sequence + 1 };
    refusal_t refusal;
    assert_true (broker_progress (self->broker, job_rank (self->job, 0), &progress, 1, &refusal));
}

static void
s_carry_out (tasks_scene_t *self, const action_t *action)
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
        self->job = action->job == self->job? NULL: self->job;
        broker_reclaim (self->broker, action->job);
    }
}

bool
tasks_scene_turn_for (tasks_scene_t *self, int wait_ms)
{
    int descriptors [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, descriptors);
    tasks_collect (self->tasks, clock_now_ms () + tasks_scene_plan.later_ms);
    broker_advance (self->broker, clock_now_ms () + tasks_scene_plan.later_ms);
    action_t action;
    bool acted = false;
    while (broker_next (self->broker, &action)) {
        s_carry_out (self, &action);
        acted = true;
    }
    struct pollfd items [TASKS_DESCRIPTORS];
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    int64_t due_ms = tasks_wakeup (self->tasks), now_ms = clock_now_ms () + tasks_scene_plan.later_ms;
    due_ms = broker_wakeup (self->broker) < due_ms? broker_wakeup (self->broker): due_ms;
    bool is_due = due_ms < now_ms + wait_ms;
    int patience_ms = !is_due? wait_ms: due_ms > now_ms? (int) (due_ms - now_ms): 0;
    return acted || self->finished || !self->job || poll (items, TASKS_DESCRIPTORS, patience_ms) > 0
        || is_due;
}

static void
s_turn (tasks_scene_t *self)
{
    assert_true (tasks_scene_turn_for (self, 20000));
}

void
tasks_scene_run (tasks_scene_t *self)
{
    while (!self->finished && self->job)
        s_turn (self);
}
