#include "command_prepare.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "complain.h"
#include "output.h"
#include "plural.h"
#include "prepare_files.h"
#include "prepare_options.h"
#include "prepare_time.h"
#include "prepare_write.h"

enum { EXIT_SOME_BAD = 1, EXIT_UNUSABLE = 2, ERROR_BYTES = 400, ALIGNMENT = 64 };

typedef struct {
    prepare_options_t options;
    prepare_files_t *files;
    decoder_t *decoder;
    uint8_t *version;
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
    prepare_format_t format;
    prepare_sample_t *samples;      //  --time only: those that are good, with their bytes
    size_t good_count;
    size_t bad_count;
} run_t;

//  ---- one sample

static void
s_free_sample (prepare_sample_t *sample)
{
    for (size_t index = 0; index < PIPELINE_FIELDS_MAX; index++)
        free ((void *) (uintptr_t) sample->files [index].bytes);
}

//  The file of a field of the source, 0 being the sample's own.
static bool
s_read_file (const run_t *self, size_t index, size_t field, decoder_file_t *file)
{
    if (field == 0) {
        file->bytes = prepare_files_read (prepare_files_path (self->files, index), &file->size);
        return file->bytes;
    }
    char *path = prepare_files_partner (self->files, index, self->options.folders [field]);
    if (path)
        file->bytes = prepare_files_read (path, &file->size);
    free (path);
    return file->bytes;
}

static bool
s_read_sample (const run_t *self, size_t index, prepare_sample_t *sample)
{
    *sample = (prepare_sample_t) { .shared = self->options.shared, .private = self->options.private };
    sample->shared.id += index;
    sample->private.id += index;
    const pipeline_t *pipeline = self->options.pipeline;
    for (size_t file = 0; file < pipeline_files (pipeline); file++)
        if (!s_read_file (self, index, pipeline_file (pipeline, file), &sample->files [file]))
            return false;
    return true;
}

static bool
s_run_sample (run_t *self, size_t index, const prepare_sample_t *sample)
{
    const pipeline_t *pipeline = self->options.pipeline;
    decoder_sample_t files = { .files = sample->files, .warnings_max = self->options.warnings_max };
    char error [ERROR_BYTES];
    size_t file = 0;
    const char *path = prepare_files_path (self->files, index);
    if (decoder_shared (self->decoder, pipeline, &sample->shared, &files, self->version, &file, error,
        sizeof error)
            != DECODER_OK) {
        size_t field = pipeline_file (pipeline, file);
        return field? complain ("prepare", "%s: its %s: %s", path, self->options.source.fields [field].name,
            error)
            : complain ("prepare", "%s: %s", path, error);
    }
    return decoder_private (self->decoder, pipeline, &sample->private, self->version, self->targets)
        || complain ("prepare", "%s: not enough memory", path);
}

//  PATH.npy, or PATH.NAME.npy for all but the first.
static bool
s_write_output (const run_t *self, size_t index, size_t output)
{
    const pipeline_output_t *array = pipeline_output (self->options.pipeline, output);
    char path [PATH_MAX];
    int bytes = snprintf (path, sizeof path, "%s/%s%s%s%s", self->options.out,
        prepare_files_name (self->files, index),
        output? ".": "", output? array->name: "", prepare_extension (array, self->format));
    if (bytes >= (int) sizeof path)
        return complain ("prepare", "%s: %s", path, strerror (ENAMETOOLONG));
    return prepare_write (path, array, self->format, self->targets [output]);
}

//  Reads, prepares and writes one file; false: said what failed.
static bool
s_take (run_t *self, size_t index)
{
    prepare_sample_t sample;
    bool good = s_read_sample (self, index, &sample) && s_run_sample (self, index, &sample);
    if (self->options.out)
        for (size_t output = 0; good && output < pipeline_outputs (self->options.pipeline); output++)
            good = s_write_output (self, index, output);
    if (good && self->samples)
        self->samples [self->good_count] = sample;
    else
        s_free_sample (&sample);
    self->good_count += good;
    self->bad_count += !good;
    return good;
}

//  ---- all of them

static bool
s_check_pictures (const run_t *self)
{
    const pipeline_t *pipeline = self->options.pipeline;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++) {
        const pipeline_output_t *output = pipeline_output (pipeline, index);
        if (self->options.format && !prepare_is_picture (output, self->format))
            return complain ("prepare",
                "--format ppm: '%s' is %s, no picture of 8 bits; expected --format npy", output->name,
                dtype_name (output->dtype));
    }
    return true;
}

static bool
s_equip (run_t *self)
{
    const pipeline_t *pipeline = self->options.pipeline;
    size_t bytes = (pipeline_version_bytes (pipeline) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    self->decoder = decoder_new ();
    self->version = aligned_alloc (ALIGNMENT, bytes);
    bool good = self->decoder && self->version;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++)
        good = (self->targets [index] = malloc (pipeline_output (pipeline, index)->bytes)) && good;
    if (self->options.time)
        good = (self->samples = calloc (self->options.file_count, sizeof *self->samples)) && good;
    return good || complain ("prepare", "not enough memory");
}

static bool
s_time (const run_t *self)
{
    prepare_time_options_t options = {
        .pipeline = self->options.pipeline, .samples = self->samples, .count = self->good_count,
        .threads = self->options.threads, .repeat = self->options.repeat,
        .warnings_max = self->options.warnings_max
    };
    prepare_time_t result;
    if (!prepare_time (&options, &result))
        return complain ("prepare", "--time: %s", strerror (errno));
    double each = result.prepared? 1e3 / (double) result.prepared: 0;
    printf ("%" PRIu64 " sample%s, %u thread%s: %.0f a second; processor time of one: shared stage %.3f ms, "
        "private stage %.3f ms\n", result.prepared, plural (result.prepared), options.threads,
        options.threads == 1? "": "s",
        (double) result.prepared / result.seconds, each * result.shared_seconds,
        each * result.private_seconds);
    return true;
}

static int
s_run (run_t *self)
{
    self->format = !self->options.format? PREPARE_NPY
        : strstr (pipeline_text (self->options.pipeline), "\"layout\":\"NCHW\"")? PREPARE_PPM_PLANAR:
        PREPARE_PPM;
    if (!s_check_pictures (self))
        return EXIT_UNUSABLE;
    self->files = prepare_files_new (self->options.files, self->options.file_count);
    if (!self->files)
        return EXIT_UNUSABLE;
    if (!s_equip (self))
        return EXIT_SOME_BAD;
    for (size_t index = 0; index < self->options.file_count; index++)
        s_take (self, index);
    if (self->bad_count)
        complain ("prepare", "%zu of %zu files were not prepared", self->bad_count, self->options.file_count);
    bool good = self->bad_count == 0;
    if (self->options.time && self->good_count)
        good = s_time (self) && good;
    return good? 0: EXIT_SOME_BAD;
}

static void
s_clear (run_t *self)
{
    for (size_t index = 0; self->samples && index < self->good_count; index++)
        s_free_sample (&self->samples [index]);
    free (self->samples);
    for (size_t index = 0; index < PIPELINE_OUTPUTS_MAX; index++)
        free (self->targets [index]);
    free (self->version);
    decoder_destroy (&self->decoder);
    prepare_files_destroy (&self->files);
    prepare_options_clear (&self->options);
}

int
command_prepare (int argc, char **argv)
{
    output_begin ();
    run_t run = { .files = NULL };
    int status = prepare_options_parse (&run.options, argc, argv);
    if (status < 0)
        status = s_run (&run);
    s_clear (&run);
    return output_end ("prepare", status);
}
