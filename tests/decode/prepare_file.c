/*  prepare_file -- one file through a pipeline, for comparison with another implementation.
 *
 *      prepare_file PIPELINE FILE [SEED [ROUND [ID]]]
 *
 *  Standard output gets the version, then what the private stage makes of it under the same key.  PIPELINE is
 *  JSON text or a recipe's name.  Ends with 0; 1 when the sample is bad and 2 when anything else is (the
 *  reason on standard error).
 */
#include <stdio.h>
#include <stdlib.h>
#include <jansson.h>
#include "decoder.h"

static uint8_t *
s_read (const char *path, size_t *size_p)
{
    FILE *file = fopen (path, "rb");
    if (!file || fseek (file, 0, SEEK_END)) {
        perror (path);
        exit (2);
    }
    *size_p = (size_t) ftell (file);
    rewind (file);
    uint8_t *bytes = malloc (*size_p + 1);
    if (!bytes || fread (bytes, 1, *size_p, file) != *size_p) {
        perror (path);
        exit (2);
    }
    fclose (file);
    return bytes;
}

static const pipeline_t *
s_pipeline (const char *text)
{
    char error [400];
    const pipeline_t *pipeline;
    json_t *value = json_loads (text, JSON_REJECT_DUPLICATES, NULL);
    if (!value)
        value = json_string (text);
    if (pipeline_new (&pipeline, value, error, sizeof error)) {
        fprintf (stderr, "%s\n", error);
        exit (2);
    }
    json_decref (value);
    return pipeline;
}

static uint64_t
s_number (int argc, char **argv, int index)
{
    return index < argc? strtoull (argv [index], NULL, 0): 0;
}

int
main (int argc, char **argv)
{
    if (argc < 3) {
        fprintf (stderr, "usage: prepare_file PIPELINE FILE [SEED [ROUND [ID]]]\n");
        return 2;
    }
    const pipeline_t *pipeline = s_pipeline (argv [1]);
    pipeline_key_t key = {
        .seed = s_number (argc, argv, 3), .round = s_number (argc, argv, 4), .id = s_number (argc, argv, 5)
    };
    size_t size, version_bytes = pipeline_version_bytes (pipeline);
    uint8_t *bytes = s_read (argv [2], &size);
    uint8_t *version = malloc (version_bytes), *output = malloc (pipeline_output (pipeline)->bytes);
    decoder_t *decoder = decoder_new ();
    if (!version || !output || !decoder)
        return 2;
    char error [400];
    int rc = decoder_run (decoder, pipeline, &key, bytes, size, version, error, sizeof error) != DECODER_OK;
    if (rc)
        fprintf (stderr, "%s\n", error);
    else {
        pipeline_private (pipeline, &key, version, output);
        fwrite (version, 1, version_bytes, stdout);
        fwrite (output, 1, pipeline_output (pipeline)->bytes, stdout);
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    free (output);
    free (version);
    free (bytes);
    return rc;
}
