/*  augment_bench -- the private stage of pipelines on images in memory, for augment_bench.py to time beside
 *  torchvision.
 *
 *      augment_bench FILE...
 *
 *  Each line of standard input is a pipeline that begins as BASE does: its private stage runs once on every
 *  image, and the seconds of processor time that this took are written as a line.  Each run draws anew.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <jansson.h>
#include "decoder.h"

#define BASE "[{\"op\":\"resize\",\"size\":256},{\"op\":\"center_crop\",\"size\":224},{\"share\":true}]"

enum { LINE_BYTES = 4096, ERROR_BYTES = 400, FILE_BYTES_MAX = 1 << 26, ALIGNMENT = 64 };

typedef struct {
    decoder_t *decoder;
    const pipeline_t *base;
    uint8_t **versions;
    size_t count;
    uint64_t runs;
} bench_t;

static const pipeline_t *
s_pipeline (const char *text)
{
    char error [ERROR_BYTES];
    const pipeline_t *pipeline = NULL;
    json_t *list = json_loads (text, 0, NULL);
    if (!list || pipeline_new (&pipeline, list, NULL, NULL, 0, error, sizeof error))
        fprintf (stderr, "augment_bench: %s: %s\n", text, list? error: "no JSON");
    json_decref (list);
    return pipeline;
}

//  False: the file is no image that can be prepared.
static bool
s_prepare (bench_t *self, const char *path)
{
    FILE *file = fopen (path, "rb");
    uint8_t *bytes = malloc (FILE_BYTES_MAX);
    assert (bytes);
    size_t size = file? fread (bytes, 1, FILE_BYTES_MAX, file): 0;
    if (file)
        fclose (file);
    size_t room = (pipeline_version_bytes (self->base) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *version = aligned_alloc (ALIGNMENT, room);
    assert (version);
    char error [ERROR_BYTES];
    decoder_file_t given = { .bytes = bytes, .size = size };
    decoder_sample_t sample = { .files = &given, .warnings_max = UINT32_MAX };
    pipeline_key_t key = { .id = self->count };
    bool good = decoder_shared (self->decoder, self->base, &key, &sample, version, NULL, error,
        sizeof error) == DECODER_OK;
    free (bytes);
    if (good)
        self->versions [self->count++] = version;
    else
        free (version);
    return good;
}

static double
s_now (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

//  Each image has its place in a batch, as in a server.
static double
s_run (bench_t *self, const pipeline_t *pipeline)
{
    size_t bytes = pipeline_sample_bytes (pipeline);
    uint8_t *batch = calloc (self->count, bytes);
    assert (batch);
    memset (batch, 1, self->count * bytes);
    self->runs++;
    double begin = s_now ();
    for (size_t index = 0; index < self->count; index++) {
        pipeline_key_t key = { .seed = 1, .round = self->runs, .id = index };
        uint8_t *targets [PIPELINE_OUTPUTS_MAX] = { batch + index * bytes };
        bool good = decoder_private (self->decoder, pipeline, &key, self->versions [index], targets);
        assert (good);
    }
    double seconds = s_now () - begin;
    free (batch);
    return seconds;
}

int
main (int argc, char **argv)
{
    bench_t bench = { .decoder = decoder_new (), .base = s_pipeline (BASE) };
    bench.versions = calloc ((size_t) argc, sizeof *bench.versions);
    assert (bench.decoder && bench.base && bench.versions);
    for (int index = 1; index < argc; index++)
        if (!s_prepare (&bench, argv [index]))
            fprintf (stderr, "augment_bench: %s is left out\n", argv [index]);
    char line [LINE_BYTES];
    int status = 0;
    while (!status && fgets (line, sizeof line, stdin)) {
        const pipeline_t *pipeline = s_pipeline (line);
        bool fits = pipeline && !strcmp (pipeline_shared_text (pipeline), pipeline_shared_text (bench.base));
        if (fits)
            printf ("%.9f\n", s_run (&bench, pipeline));
        fflush (stdout);
        status = fits? 0: 2;
        pipeline_destroy (&pipeline);
    }
    for (size_t index = 0; index < bench.count; index++)
        free (bench.versions [index]);
    free (bench.versions);
    pipeline_destroy (&bench.base);
    decoder_destroy (&bench.decoder);
    return status;
}
