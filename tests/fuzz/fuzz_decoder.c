/*  fuzz_decoder -- any bytes as a sample of the two recipes: a version or a reason.  */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "decoder.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static void
s_run (const char *recipe, const uint8_t *data, size_t size)
{
    char error [200];
    const pipeline_t *pipeline;
    json_t *name = json_string (recipe);
    s_require (pipeline_new (&pipeline, name, error, sizeof error) == 0);
    json_decref (name);
    uint8_t *version = malloc (pipeline_version_bytes (pipeline));
    decoder_t *decoder = decoder_new ();
    s_require (version && decoder);
    pipeline_key_t key = { .seed = 1, .id = size };
    decoder_status_t status = decoder_run (decoder, pipeline, &key, data, size, version, error, sizeof error);
    s_require (memchr (error, 0, sizeof error) != NULL);
    s_require ((status == DECODER_BAD) == (*error != 0));
    decoder_destroy (&decoder);
    free (version);
    const pipeline_t *held = pipeline;
    pipeline_destroy (&held);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    s_run ("train", data, size);
    s_run ("eval", data, size);
    return 0;
}
