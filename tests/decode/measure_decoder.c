/*  measure_decoder -- what the shared stage costs beside the bare JPEG decode, on one thread.
 *
 *      measure_decoder FILE ...
 *
 *  Every file is read first; then each of the three does all files ROUNDS times, in turn.  Seconds are those of
 *  the processor, so other programs disturb little.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "decoder.h"
#include "jpeg_reader.h"

enum { ROUNDS = 3 };

typedef struct {
    uint8_t *bytes;
    size_t size;
} sample_t;

static double
s_now (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static sample_t
s_read (const char *path)
{
    FILE *file = fopen (path, "rb");
    if (!file || fseek (file, 0, SEEK_END)) {
        perror (path);
        exit (2);
    }
    sample_t sample = { .size = (size_t) ftell (file) };
    rewind (file);
    sample.bytes = malloc (sample.size);
    assert (sample.bytes);
    size_t got = fread (sample.bytes, 1, sample.size, file);
    assert (got == sample.size);
    fclose (file);
    return sample;
}

static const pipeline_t *
s_recipe (const char *name)
{
    char error [200];
    const pipeline_t *pipeline;
    json_t *value = json_string (name);
    int rc = pipeline_new (&pipeline, value, error, sizeof error);
    assert (rc == 0);
    json_decref (value);
    return pipeline;
}

static double
s_plain (const sample_t *samples, size_t count)
{
    jpeg_reader_t *reader = jpeg_reader_new ();
    double begin = s_now ();
    for (size_t index = 0; index < count; index++) {
        image_t image;
        char error [200];
        int rc = jpeg_reader_run (reader, samples [index].bytes, samples [index].size, &image,
            error, sizeof error);
        assert (rc == 0);
    }
    double seconds = s_now () - begin;
    jpeg_reader_destroy (&reader);
    return seconds;
}

static double
s_recipe_run (const char *name, const sample_t *samples, size_t count, uint64_t round)
{
    const pipeline_t *pipeline = s_recipe (name);
    decoder_t *decoder = decoder_new ();
    uint8_t *version = malloc (pipeline_version_bytes (pipeline));
    double begin = s_now ();
    for (size_t index = 0; index < count; index++) {
        char error [200];
        pipeline_key_t key = { .round = round, .id = index };
        decoder_status_t status = decoder_run (decoder, pipeline, &key,
            samples [index].bytes, samples [index].size, version, error, sizeof error);
        assert (status == DECODER_OK);
    }
    double seconds = s_now () - begin;
    free (version);
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    return seconds;
}

static void
s_report (const char *name, double seconds, double plain, size_t images)
{
    printf ("%-6s %8.1f images/s   %.3f ms an image, %.3f beyond the bare decode\n",
        name, (double) images / seconds, 1e3 * seconds / (double) images,
        1e3 * (seconds - plain) / (double) images);
}

int
main (int argc, char **argv)
{
    size_t count = (size_t) argc - 1;
    sample_t *samples = calloc (count + 1, sizeof *samples);
    assert (samples);
    for (size_t index = 0; index < count; index++)
        samples [index] = s_read (argv [index + 1]);
    double plain = 0, train = 0, eval = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        plain += s_plain (samples, count);
        train += s_recipe_run ("train", samples, count, round);
        eval += s_recipe_run ("eval", samples, count, round);
    }
    s_report ("decode", plain, plain, count * ROUNDS);
    s_report ("train", train, plain, count * ROUNDS);
    s_report ("eval", eval, plain, count * ROUNDS);
    for (size_t index = 0; index < count; index++)
        free (samples [index].bytes);
    free (samples);
    return 0;
}
