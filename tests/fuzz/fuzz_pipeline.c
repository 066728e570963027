/*  fuzz_pipeline -- any text as a pipeline: refused with a printable reason, or its text is one again.  For
 *  data with one image and with several fields; with other jobs' shared stages present, too.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pipeline.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static const pipeline_source_t s_fields = {
    .fields = { { "image", false }, { "mask", true }, { "depth", false }, { "image_2", true },
        { "tokens", false }, { "tokens_length", false } }, .count = 6
};

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static const pipeline_t *
s_new (const json_t *value, const pipeline_source_t *source, const char *const *present, size_t present_count,
    size_t room)
{
    char error [300];
    const pipeline_t *pipeline;
    int rc = pipeline_new (&pipeline, value, source, present, present_count, error, room);
    s_require (memchr (error, 0, room) != NULL);
    s_require (!rc == !!pipeline && (rc == 0 || *error || room == 1));
    for (const char *at = error; *at; at++)
        s_require (*at >= ' ' && *at <= '~');
    return pipeline;
}

static const pipeline_t *
s_again (const char *text, const pipeline_source_t *source)
{
    json_t *value = json_loads (text, JSON_REJECT_DUPLICATES, NULL);
    s_require (value != NULL);
    const pipeline_t *again = s_new (value, source, NULL, 0, 300);
    json_decref (value);
    return again;
}

static void
s_check_outputs (const pipeline_t *pipeline)
{
    size_t sum = 0;
    s_require (pipeline_outputs (pipeline) > 0 && pipeline_outputs (pipeline) <= PIPELINE_OUTPUTS_MAX);
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++) {
        const pipeline_output_t *output = pipeline_output (pipeline, index);
        size_t bytes = dtype_bytes (output->dtype);
        //  Of what is ragged, a number for each sample follows.
        bool is_length = index > 0 && pipeline_output (pipeline, index - 1)->is_ragged;
        s_require (is_length == (output->dimensions == 0));
        s_require (output->dimensions <= PIPELINE_DIMENSIONS_MAX && (!is_length || !output->is_ragged));
        for (uint32_t axis = 0; axis < output->dimensions; axis++)
            bytes *= output->shape [axis];
        s_require (bytes > 0 && bytes == output->bytes);
        s_require (*output->name && strlen (output->name) < sizeof output->name);
        for (size_t other = 0; other < index; other++)
            s_require (strcmp (pipeline_output (pipeline, other)->name, output->name) != 0);
        sum += bytes;
    }
    s_require (sum == pipeline_sample_bytes (pipeline) && sum <= PIPELINE_SAMPLE_BYTES_MAX);
    s_require (pipeline_version_bytes (pipeline) > 0
        && pipeline_version_bytes (pipeline) <= PIPELINE_SAMPLE_BYTES_MAX);
}

//  With the shared stage of a mark at any place present, the share point is there or where it was.
static void
s_check_present (const json_t *list, const pipeline_source_t *source, const pipeline_t *alone)
{
    json_t *op = json_pack ("{s:b}", "share", 1);
    for (size_t place = 0; place <= json_array_size (list) && place < 6; place++) {
        json_t *marked = json_copy ((json_t *) (uintptr_t) list);
        json_array_insert (marked, place, op);
        const pipeline_t *other = s_new (marked, source, NULL, 0, 300);
        json_decref (marked);
        if (!other)
            continue;
        const char *present [] = { "", pipeline_shared_text (other) };
        const pipeline_t *beside = s_new (list, source, present, 2, 300);
        //  A list that has a mark takes no second one, so this one had none: with a place for one, it is
        //  accepted.
        s_require (!alone == !beside);
        if (beside) {
            const char *text = pipeline_shared_text (beside);
            s_require (!strcmp (text, present [1]) || !strcmp (text, pipeline_shared_text (alone)));
        }
        pipeline_destroy (&beside);
        pipeline_destroy (&other);
    }
    json_decref (op);
}

static void
s_check (const json_t *value, const pipeline_source_t *source, size_t room)
{
    const pipeline_t *pipeline = s_new (value, source, NULL, 0, room);
    if (json_is_array (value))
        s_check_present (value, source, pipeline);
    if (!pipeline)
        return;
    s_check_outputs (pipeline);
    const pipeline_t *again = s_again (pipeline_text (pipeline), source);
    s_require (again && !strcmp (pipeline_text (again), pipeline_text (pipeline)));
    s_require (!strcmp (pipeline_shared_text (again), pipeline_shared_text (pipeline)));
    s_require (pipeline_shared_is_random (again) == pipeline_shared_is_random (pipeline));
    s_require (pipeline_version_bytes (again) == pipeline_version_bytes (pipeline));
    pipeline_destroy (&again);
    pipeline_destroy (&pipeline);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    json_t *value = json_loadb ((const char *) data, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!value)
        return 0;
    //  Every length of room for the reason comes by.
    s_check (value, NULL, 1 + size % 300);
    s_check (value, &s_fields, 300);
    json_decref (value);
    return 0;
}
