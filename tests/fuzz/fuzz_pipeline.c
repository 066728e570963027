/*  fuzz_pipeline -- any text as a pipeline: refused with a printable reason, or its text is one again.  */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "pipeline.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static const pipeline_t *
s_parse (const char *text, size_t size)
{
    //  Every length of room for the reason comes by.
    char error [300];
    size_t room = 1 + size % sizeof error;
    json_t *value = json_loadb (text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!value)
        return NULL;
    const pipeline_t *pipeline;
    int rc = pipeline_new (&pipeline, value, error, room);
    json_decref (value);
    s_require (memchr (error, 0, room) != NULL);
    s_require (!rc == !!pipeline && (rc == 0 || *error || room == 1));
    for (const char *at = error; *at; at++)
        s_require (*at >= ' ' && *at <= '~');
    return pipeline;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    const pipeline_t *pipeline = s_parse ((const char *) data, size);
    if (!pipeline)
        return 0;
    const pipeline_output_t *output = pipeline_output (pipeline);
    s_require (output->bytes == (size_t) output->shape [0] * output->shape [1] * 3);
    s_require (output->shape [0] <= PIPELINE_SIDE_MAX && output->shape [1] <= PIPELINE_SIDE_MAX);
    const pipeline_t *again = s_parse (pipeline_text (pipeline), strlen (pipeline_text (pipeline)));
    s_require (again && !strcmp (pipeline_text (again), pipeline_text (pipeline)));
    s_require (!strcmp (pipeline_shared_text (again), pipeline_shared_text (pipeline)));
    s_require (pipeline_shared_is_random (again) == pipeline_shared_is_random (pipeline));
    pipeline_destroy (&again);
    pipeline_destroy (&pipeline);
    return 0;
}
