//  Where a batch's fields lie, with labels made up here in place of a catalogue's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "layout.h"
#include "seed.h"
#include "wire.h"

static catalogue_label_t s_labels [CATALOGUE_LABELS_MAX];
static size_t s_label_count;

size_t
catalogue_labels (const catalogue_t *self)
{
    assert_null (self);
    return s_label_count;
}

const catalogue_label_t *
catalogue_label (const catalogue_t *self, size_t label)
{
    assert_null (self);
    assert_true (label < s_label_count);
    return &s_labels [label];
}

static const pipeline_t *
s_pipeline (const char *text)
{
    pipeline_source_t source = { .fields = { { .name = "image" }, { .name = "mask", .is_mask = true },
        { .name = "tokens" } },
        .count = 3 };
    json_t *list = json_loads (text, 0, NULL);
    const pipeline_t *pipeline;
    char error [256];
    if (pipeline_new (&pipeline, list, &source, NULL, 0, error, sizeof error))
        fail_msg ("%s", error);
    json_decref (list);
    return pipeline;
}

static const char s_views [] =
    "[{\"op\":\"decode\",\"fields\":[\"image\",\"mask\"]},{\"op\":\"views\",\"count\":2},"
    "{\"op\":\"random_resized_crop\",\"size\":[7,9]},{\"share\":true},"
    "{\"op\":\"cast\",\"dtype\":\"bfloat16\"}]";
static const char *const s_pipelines [] = {
    "[{\"op\":\"resize\",\"size\":[3,5]}]",
    s_views,
    "[{\"op\":\"decode\",\"as\":\"array\",\"dtype\":\"float64\",\"shape\":[2,3,1,4]}]",
    "[{\"op\":\"resize\",\"size\":[224,224]},{\"share\":true},{\"op\":\"normalize\"},"
    "{\"op\":\"layout\",\"layout\":\"NCHW\"}]",
    "[{\"op\":\"decode\",\"fields\":[\"image\",{\"field\":\"tokens\",\"as\":\"array\",\"dtype\":\"int16\","
    "\"shape\":[7,3],\"ragged\":true}]},{\"op\":\"center_crop\",\"size\":5}]"
};

//  Property: whatever labels there are, every field is told as the pipeline and the catalogue have it, begins
//  at a multiple of 64 behind the one before, and the last row of the last one is inside the slot.
static void
test_fields_lie_one_behind_the_other (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + 200; seed < last; seed++) {
        uint64_t random = seed;
        char names [CATALOGUE_LABELS_MAX] [32];
        s_label_count = test_below (&random, CATALOGUE_LABELS_MAX + 1);
        for (size_t label = 0; label < s_label_count; label++) {
            uint32_t length = 1 + (uint32_t) test_below (&random, 50),
                is_vector = (uint32_t) test_below (&random, 2);
            snprintf (names [label], sizeof *names, "label%zu", label);
            s_labels [label] = (catalogue_label_t) { .name = names [label], .dtype = "int64",
                .dimensions = is_vector,
                .shape = { length }, .bytes = is_vector? 8 * length: 8 };
        }
        const pipeline_t *pipeline = s_pipeline (s_pipelines [seed % 5]);
        uint32_t batch_size = 1 + (uint32_t) test_below (&random, 300);
        layout_t layout;
        assert_int_equal (layout_of (&layout, pipeline, NULL, batch_size), LAYOUT_OK);
        assert_int_equal (layout.outputs, pipeline_outputs (pipeline));
        assert_int_equal (layout.count, layout.outputs + s_label_count);
        size_t end = 0;
        for (size_t index = 0; index < layout.count; index++) {
            const reply_field_t *field = &layout.fields [index];
            assert_int_equal (field->offset % 64, 0);
            assert_true (field->offset >= end && field->offset < end + 64);
            end = field->offset + batch_size * field->sample_bytes;
            const pipeline_output_t *output = index < layout.outputs? pipeline_output (pipeline, index): NULL;
            const catalogue_label_t *label = output? NULL: &s_labels [index - layout.outputs];
            assert_string_equal (field->name, output? output->name: label->name);
            assert_string_equal (field->dtype, output? dtype_name (output->dtype): label->dtype);
            assert_int_equal (field->dimensions, output? output->dimensions: label->dimensions);
            assert_memory_equal (field->shape, output? output->shape: label->shape,
                field->dimensions * sizeof *field->shape);
            assert_int_equal (field->sample_bytes, output? output->bytes: label->bytes);
            if (output && output->is_ragged)
                assert_string_equal (field->lengths, layout.fields [index + 1].name);
            else
                assert_null (field->lengths);
            assert_ptr_equal (layout_row (&layout, index, (uint8_t *) 4096, batch_size - 1),
                (uint8_t *) 4096 + end - field->sample_bytes);
        }
        assert_true (layout.slot_bytes % 4096 == 0 && layout.slot_bytes >= end
            && layout.slot_bytes < end + 4096 + 64);
        pipeline_destroy (&pipeline);
    }
}

static void
test_two_fields_of_one_name_are_refused (void **state)
{
    (void) state;
    const pipeline_t *pipeline = s_pipeline (s_views);
    static const char *const names [] = { "image", "mask", "image_2", "mask_2", "other" };
    s_label_count = 2;
    for (size_t index = 0; index < 5; index++) {
        s_labels [0] = (catalogue_label_t) { .name = "other", .dtype = "int64", .bytes = 8 };
        s_labels [1] = (catalogue_label_t) { .name = names [index], .dtype = "int64", .bytes = 8 };
        layout_t layout;
        assert_int_equal (layout_of (&layout, pipeline, NULL, 8), LAYOUT_SAME_NAME);
        assert_string_equal (layout.fields [layout.count - 1].name, names [index]);
    }
    pipeline_destroy (&pipeline);
}

//  What cannot be counted is refused, and what barely can is counted right.
static void
test_sizes_that_cannot_be_counted_are_refused (void **state)
{
    (void) state;
    const pipeline_t *pipeline = s_pipeline (s_pipelines [0]);
    //  All slots of a job together stay below half of what can be counted.
    size_t most = SIZE_MAX / 2 / WIRE_SLOTS_MAX;
    s_label_count = 1;
    for (uint32_t batch_size = 1; batch_size <= 65536; batch_size *= 16) {
        size_t image = ((size_t) 45 * batch_size + 63) / 64 * 64, row = (most - 4096 - image) / batch_size;
        const struct { size_t bytes; layout_status_t status; } cases [] = {
            { row, LAYOUT_OK }, { row + 1, LAYOUT_TOO_LARGE }, { SIZE_MAX / 2, LAYOUT_TOO_LARGE },
            { SIZE_MAX, LAYOUT_TOO_LARGE }
        };
        for (size_t index = 0; index < 4; index++) {
            s_labels [0] = (catalogue_label_t) { .name = "label", .dtype = "uint8", .dimensions = 1,
                .shape = { 1 },
                .bytes = cases [index].bytes };
            layout_t layout;
            assert_int_equal (layout_of (&layout, pipeline, NULL, batch_size), cases [index].status);
            if (cases [index].status == LAYOUT_OK)
                assert_true (layout.slot_bytes >= image + row * batch_size && layout.slot_bytes <= most + 1);
        }
        s_label_count = 2;
        s_labels [0].bytes = row;
        s_labels [1] = (catalogue_label_t) { .name = "more", .dtype = "uint8", .bytes = most };
        layout_t layout;
        assert_int_equal (layout_of (&layout, pipeline, NULL, batch_size), LAYOUT_TOO_LARGE);
        s_label_count = 1;
    }
    pipeline_destroy (&pipeline);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_fields_lie_one_behind_the_other),
        cmocka_unit_test (test_two_fields_of_one_name_are_refused),
        cmocka_unit_test (test_sizes_that_cannot_be_counted_are_refused)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
