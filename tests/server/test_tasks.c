/*  The threads between the broker and the files, with a catalogue and a decoder made up here that fail when they are told to:
 *  what is waited for, what is blamed, and what becomes of buffers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "decoder.h"
#include "source.h"
#include "tasks.h"

enum { SAMPLES = 40, BATCH = 8, SLOTS = 4, KEPT_BYTES = 4 * 1024 * 1024, LARGE_BYTES = KEPT_BYTES + 1 };

//  ---- what fails how often; taken by several threads

static struct {
    atomic_int shortages;           //  reads that find no descriptor
    atomic_int poor_preparing;      //  shared stages that find no memory
    atomic_int poor_copies;         //  private stages
    atomic_int stalls;              //  private stages that fail; below 0: for ever
    atomic_int large_buffers;       //  reads into a buffer that should have been given back
    int missing_mask;               //  id; -1: none
    int bad_mask;
    int other_mask;                 //  good, but not for this pipeline
    int changed;
} s_plan;

static bool
s_take (atomic_int *left)
{
    int before = atomic_load (left);
    while (before > 0 && !atomic_compare_exchange_weak (left, &before, before - 1));
    return before > 0;
}

//  ---- a catalogue of images and masks, one label

int
catalogue_read (const catalogue_t *self, uint32_t id, size_t field, catalogue_buffer_t *buffer)
{
    assert (self == NULL);
    if (buffer->limit > KEPT_BYTES)
        atomic_fetch_add (&s_plan.large_buffers, 1);
    if (s_take (&s_plan.shortages))
        return -EMFILE;
    if (field == 1 && (int) id == s_plan.missing_mask)
        return -ENOENT;
    if (field == 0 && (int) id == s_plan.changed)
        return -ESTALE;
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
decoder_shared (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key, const decoder_sample_t *sample,
    uint8_t *version, size_t *file_p, char *error, size_t error_bytes)
{
    (void) self;
    assert ((uintptr_t) version % 64 == 0);
    assert (sample->warnings_max == 17);
    for (size_t file = 0; file < pipeline_files (pipeline); file++) {
        assert (sample->files [file].bytes [0] == (uint8_t) key->id && sample->files [file].bytes [1] == file);
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
decoder_private (decoder_t *self, const pipeline_t *pipeline, const pipeline_key_t *key, const uint8_t *version,
    uint8_t *const *targets)
{
    (void) self;
    assert (version [0] == (uint8_t) key->id);
    if (atomic_load (&s_plan.stalls) < 0 || s_take (&s_plan.poor_copies))
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
    const pipeline_t *pipeline;
    layout_t layout;
    uint8_t *ring;
    job_t *job;
    bool seen [SAMPLES];
    size_t delivered;
    bool finished;
    char ended [400];               //  why, if the server ended it
} scene_t;

static void
s_begin (scene_t *self)
{
    s_plan.missing_mask = s_plan.bad_mask = s_plan.other_mask = s_plan.changed = -1;
    atomic_store (&s_plan.large_buffers, 0);
    atomic_store (&s_plan.stalls, 0);
    *self = (scene_t) { .source = { .jpeg_warnings_max = 17 } };
    broker_options_t options = { .cache_bytes = 1 << 20, .workers = 3, .jobs_bytes_max = 1 << 26, .seed = 5 };
    self->broker = broker_new (&options);
    dataset_t *dataset = broker_add_dataset (self->broker, "data", SAMPLES, BROKER_BAD_DROP, &self->source);
    self->tasks = tasks_new (self->broker, 3);
    assert_non_null (self->tasks);
    pipeline_source_t source = { .fields = { { .name = "image" }, { .name = "mask", .is_mask = true } }, .count = 2 };
    json_t *list = json_loads ("[{\"op\":\"decode\",\"fields\":[\"image\",\"mask\"]},{\"op\":\"resize\",\"size\":[2,3]}]", 0, NULL);
    char error [256];
    if (pipeline_new (&self->pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    assert_int_equal (layout_of (&self->layout, self->pipeline, NULL, BATCH), LAYOUT_OK);
    assert_int_equal (self->layout.count, 3);
    self->ring = calloc (SLOTS, self->layout.slot_bytes);
    assert_non_null (self->ring);
    broker_join_t join = { .dataset = dataset, .pipeline = self->pipeline, .batch_size = BATCH, .slots = SLOTS, .epochs = 1,
        .slot_bytes = self->layout.slot_bytes };
    refusal_t refusal;
    self->job = broker_join (self->broker, &join, 0, &refusal);
    assert_non_null (self->job);
    job_set_user (self->job, self, false);
    broker_attached (self->broker, self->job, 0);
}

static void
s_end (scene_t *self)
{
    if (self->job)
        broker_gone (self->broker, self->job);
    tasks_stop (self->tasks);
    for (action_t action; broker_next (self->broker, &action);)
        if (action.kind == ACTION_BURY)
            broker_bury (self->broker, action.job);
    tasks_destroy (&self->tasks);
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
    uint32_t count = job_batch_rows (self->job, batch->slot, rows, ids);
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
    assert_true (broker_progress (self->broker, self->job, &progress, 1, &refusal));
}

static void
s_carry_out (scene_t *self, const action_t *action)
{
    if (action->kind == ACTION_PREPARE)
        tasks_prepare (self->tasks, action->version);
    if (action->kind == ACTION_COPY)
        tasks_copy (self->tasks, action->place, &self->layout,
            self->ring + place_slot (action->place) * self->layout.slot_bytes);
    if (action->kind == ACTION_SEND_BATCH)
        s_receive (self, &action->batch);
    if (action->kind == ACTION_SEND_EPOCH_END)
        self->finished = true;
    if (action->kind == ACTION_SEND_ENDED)
        snprintf (self->ended, sizeof self->ended, "%s: %s", action->reason, action->message);
    if (action->kind == ACTION_BURY) {
        broker_bury (self->broker, action->job);
        self->job = NULL;
    }
}

static void
s_turn (scene_t *self)
{
    int descriptors [TASKS_DESCRIPTORS];
    tasks_descriptors (self->tasks, descriptors);
    tasks_collect (self->tasks);
    broker_advance (self->broker, 1);
    action_t action;
    bool acted = false;
    while (broker_next (self->broker, &action)) {
        s_carry_out (self, &action);
        acted = true;
    }
    struct pollfd items [TASKS_DESCRIPTORS];
    for (size_t index = 0; index < TASKS_DESCRIPTORS; index++)
        items [index] = (struct pollfd) { .fd = descriptors [index], .events = POLLIN };
    if (!acted && !self->finished && self->job)
        assert_true (poll (items, TASKS_DESCRIPTORS, 20000) > 0);
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
    json_t *status = broker_status (self->broker, 0), *entry;
    size_t index, found = 0;
    json_array_foreach (json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "bad"), index, entry)
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
    assert_string_equal (scene.ended, "unsuitable: mask: m/06: is spoilt (sample 6 of data set 'data' does not suit the "
        "pipeline: change that, or leave the sample out by a subset)");
    json_t *status = broker_status (scene.broker, 0);
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
    for (int turn = 0; turn < 3; turn++)
        s_turn (&scene);
    assert_int_equal (scene.delivered, 0);
    s_end (&scene);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_all_fields_come_to_their_rows),
        cmocka_unit_test (test_shortages_are_waited_out),
        cmocka_unit_test (test_the_file_at_fault_is_named),
        cmocka_unit_test (test_what_does_not_suit_is_not_bad),
        cmocka_unit_test (test_an_end_does_not_wait_for_memory)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
