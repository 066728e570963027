//  `tureen prepare`: runs a pipeline on files, by the server's own code, and writes the result.

#include "command.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jansson.h>
#include "catalogue.h"
#include "complain.h"
#include "decoder.h"
#include "file.h"
#include "location.h"
#include "machine.h"
#include "option.h"
#include "pipeline.h"

enum {
    EXIT_SOME_BAD = 1, EXIT_UNUSABLE = 2,
    ERROR_BYTES = 400, ALIGNMENT = 64,
    NPY_ALIGNMENT = 64, NPY_PREFIX_BYTES = 10, HEADER_BYTES = 256
};

//  ---- arguments

typedef struct {
    const char *recipe, *operations;        //  the texts of --recipe and --pipeline; NULL: not given
    const pipeline_t *pipeline;             //  made of them; one reference
    pipeline_source_t source;               //  "image", then the further fields
    const char *folders [PIPELINE_FIELDS_MAX];  //  where the files of a further field are; lent from argv
    pipeline_key_t shared;                  //  ids: of the first sample, the others follow
    pipeline_key_t private;
    uint32_t warnings_max;
    const char *out;                        //  NULL: the files are tried, and nothing is written
    uint32_t format;                        //  0: .npy, 1: .ppm
    char **files;
    size_t file_count;
} options_t;

static bool
s_field (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    options_t *self = target;
    bool is_mask;
    char *folder;
    if (self->source.count == PIPELINE_FIELDS_MAX)
        return option_fail (error, "at most %d fields, the image itself among them", PIPELINE_FIELDS_MAX);
    if (!command_pack_split_field (text, &is_mask, &folder) || strlen (text) > PIPELINE_NAME_BYTES_MAX)
        return option_fail (error, "expected NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER");
    for (size_t index = 0; index < self->source.count; index++)
        if (strcmp (self->source.fields [index].name, text) == 0)
            return option_fail (error, "there is a field of this name already");
    self->folders [self->source.count] = folder;
    self->source.fields [self->source.count++] = (pipeline_field_t) { text, is_mask };
    return true;
}

#define AT(member) OPTION_AT (options_t, member)
static const option_row_t s_rows [] = {
    { "recipe", "NAME", AT (recipe), "train (default) or eval" },
    { "pipeline", "JSON", AT (operations), "a list of operations; docs/pipeline.md has them" },
    { "field", "NAME=mask:FOLDER, NAME=image:FOLDER, NAME=file:FOLDER", OPTION_CALL (s_field),
        "a further file of each sample: the one in FOLDER with its path below the\n"
        "files' common folder, whatever the extension; repeatable" },
    { "seed", "S", AT (private.seed), NULL },
    { "epoch", "E", AT (private.round), NULL },
    { "id", "N", AT (private.id),
        "of the random operations; N is of the first file, the others follow (0, 0, 0).\n"
        "A job of order `seeded` gets just this in epoch E", 0, UINT32_MAX },
    { "draw", "N", AT (shared.round), "the shared stage's version number; the epoch when left out" },
    { "jpeg-warnings", "N", AT (warnings_max), "a JPEG with more warnings is bad (any number is read past)" },
    { "out", "FOLDER", AT (out),
        "write FOLDER/PATH.npy for each file, PATH being that below the common folder,\n"
        "and PATH.NAME.npy for masks and further views; bfloat16 as uint16\n"
        "left out: the files are tried, and nothing is written" },
    { "format", "npy|ppm", AT (format),
        "ppm: pictures to look at, of 8 bits (.pgm where there is one channel)",
        .choices = OPTION_CHOICES ("npy", "ppm") }
};

static const option_table_t s_table = { "tureen prepare", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "Usage: tureen prepare [--recipe NAME | --pipeline JSON] [OPTION...] FILE...\n"
    "Runs a pipeline on files, by the server's own code: what a job will see.\n"
    "\n"
    "  tureen prepare --recipe eval --out prepared photos/*.jpg\n"
    "  tureen prepare --pipeline '[{\"op\":\"resize\",\"size\":256},"
    "{\"op\":\"center_crop\",\"size\":224}]' \\\n"
    "      --format ppm --out look photo.jpg\n"
    "\n", .after =
    "\n"
    "Exit status: 0 all prepared, 1 some were not (standard error says which, and why), 2 unusable\n"
    "arguments.\n" };

static bool
s_make_pipeline (options_t *self)
{
    json_t *value;
    if (self->operations) {
        json_error_t why;
        value = json_loads (self->operations, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
        if (!value)
            return complain ("prepare", "--pipeline: not JSON: %s (column %d)", why.text, why.column);
    }
    else
        value = json_string (self->recipe? self->recipe: "train");
    char error [ERROR_BYTES];
    int rc = pipeline_new (&self->pipeline, value, &self->source, NULL, 0, error, sizeof error);
    json_decref (value);
    return rc == 0 || complain ("prepare", "pipeline: %s", error);
}

static bool
s_finish (options_t *self, const option_result_t *result)
{
    if (option_given (&s_table, result, "recipe") + option_given (&s_table, result, "pipeline") > 1)
        return complain ("prepare", "--recipe and --pipeline: expected one of them, once");
    if (self->file_count == 0)
        return complain ("prepare", "no file; try: tureen prepare --help");
    if (self->private.id + self->file_count - 1 > UINT32_MAX)
        return complain ("prepare", "--id: the ids of %zu files from there on are too large",
            self->file_count);
    self->shared.seed = self->private.seed;
    self->shared.id = self->private.id;
    if (!option_given (&s_table, result, "draw"))
        self->shared.round = self->private.round;       //  as a job of order `seeded` has it
    return s_make_pipeline (self);
}

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
static int
s_parse (options_t *self, int argc, char **argv)
{
    *self = (options_t) {
        .source = { .fields = { { "image", false } }, .count = 1 }, .warnings_max = UINT32_MAX
    };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    self->files = result.words;
    self->file_count = result.word_count;
    return status >= 0? status: s_finish (self, &result)? -1: 2;
}

//  ---- files

//  The files of the arguments.
typedef struct {
    size_t count;
    char *const *given;         //  the caller's
    char **paths;               //  absolute, links in the folders resolved, not in the file's own name
    size_t common;              //  bytes of the common folder, its slash included
} files_t;

//  What errno says of a path.  Returns false.
static bool
s_complain (const char *path)
{
    if (errno == ENOENT)
        return complain ("prepare", "there is no file '%s': %s", path, location_remedy (path));
    return complain ("prepare", "%s: %s", path, file_error (errno));
}

//  The absolute path of a file: its folder as it really is, then its name.  NULL with errno.
static char *
s_absolute (const char *path)
{
    const char *slash = strrchr (path, '/');
    const char *name = slash? slash + 1: path;
    char folder [PATH_MAX], real [PATH_MAX], *absolute = NULL;
    size_t bytes = slash? (size_t) (slash - path): 0;
    if (bytes >= sizeof folder) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    memcpy (folder, path, bytes);
    folder [bytes] = 0;
    if (!realpath (slash? (bytes? folder: "/"): ".", real))
        return NULL;
    if (asprintf (&absolute, "%s%s%s", real, strcmp (real, "/")? "/": "", name) < 0)
        return NULL;
    struct stat status;
    int rc = stat (absolute, &status)? errno: S_ISREG (status.st_mode)? 0: S_ISDIR (status.st_mode)? EISDIR:
        EINVAL;
    if (rc == 0)
        return absolute;
    free (absolute);
    errno = rc;
    return NULL;
}

//  As many bytes as both begin with, up to and with a slash.
static size_t
s_common (const char *left, const char *right, size_t most)
{
    size_t common = 0;
    for (size_t index = 0; index < most && left [index] == right [index] && left [index]; index++)
        if (left [index] == '/')
            common = index + 1;
    return common;
}

static int
s_compare (const void *left, const void *right)
{
    return strcmp (*(char *const *) left, *(char *const *) right);
}

static bool
s_twice (const files_t *self)
{
    char **sorted = malloc (self->count * sizeof *sorted);
    assert (sorted);
    memcpy (sorted, self->paths, self->count * sizeof *sorted);
    qsort (sorted, self->count, sizeof *sorted, s_compare);
    bool twice = false;
    for (size_t index = 1; index < self->count && !twice; index++)
        if (strcmp (sorted [index - 1], sorted [index]) == 0)
            twice = !complain ("prepare", "%s: given twice", sorted [index]);
    free (sorted);
    return twice;
}

//  False: said on standard error which file is not there, or given twice.
static bool
s_find_files (files_t *self, char *const *paths, size_t count)
{
    assert (count > 0);
    *self = (files_t) { .count = count, .given = paths, .paths = calloc (count, sizeof *self->paths) };
    assert (self->paths);
    for (size_t index = 0; index < count; index++) {
        self->paths [index] = s_absolute (paths [index]);
        if (!self->paths [index])
            return s_complain (paths [index]);
    }
    if (s_twice (self))
        return false;
    self->common = (size_t) (strrchr (self->paths [0], '/') + 1 - self->paths [0]);
    for (size_t index = 1; index < count; index++)
        self->common = s_common (self->paths [0], self->paths [index], self->common);
    return true;
}

//  The path below the folder that all have in common.
static const char *
s_below (const files_t *self, size_t index)
{
    assert (index < self->count);
    return self->paths [index] + self->common;
}

//  Bytes of a name before its extension; a name that begins with its only dot has none.
static size_t
s_stem (const char *name)
{
    const char *dot = strrchr (name, '.');
    return dot && dot != name? (size_t) (dot - name): strlen (name);
}

//  The file in folder that has the same name below it but for the extension: the caller's.  NULL: there is
//  none, or more than one, said on standard error.
static char *
s_partner (const files_t *self, size_t index, const char *folder)
{
    const char *below = s_below (self, index), *slash = strrchr (below, '/');
    const char *name = slash? slash + 1: below;
    size_t stem = s_stem (name);
    char path [PATH_MAX], *partner = NULL;
    int bytes = snprintf (path, sizeof path, "%s/%.*s", folder, (int) (name - below), below);
    DIR *directory = bytes < (int) sizeof path? opendir (path): NULL;
    bool twice = false;
    for (struct dirent *entry; directory && !twice && (entry = readdir (directory));) {
        if (s_stem (entry->d_name) != stem || memcmp (entry->d_name, name, stem))
            continue;
        twice = partner && !complain ("prepare", "%s and %s%s: two files for %s; expected one", partner, path,
            entry->d_name, self->given [index]);
        if (!partner && asprintf (&partner, "%s%s", path, entry->d_name) < 0)
            partner = NULL;
    }
    if (directory)
        closedir (directory);
    if (!partner)
        complain ("prepare", "%s%.*s.*: no such file; expected one for %s", path, (int) stem, name,
            self->given [index]);
    if (twice) {
        free (partner);
        partner = NULL;
    }
    return partner;
}

//  The caller's; NULL: said on standard error.
static uint8_t *
s_read (const char *path, size_t *size_p)
{
    char *bytes;
    errno = -file_whole (path, CATALOGUE_SAMPLE_BYTES_MAX, &bytes, size_p);
    if (errno)
        s_complain (path);
    return (uint8_t *) bytes;
}

//  ---- what is written

typedef enum { NPY, PPM, PPM_PLANAR } format_t;

static bool
s_make_folders (const char *path)
{
    char folder [PATH_MAX];
    if (strlen (path) >= sizeof folder)
        return complain ("prepare", "%s: %s", path, strerror (ENAMETOOLONG));
    strcpy (folder, path);
    for (char *slash = folder + 1; (slash = strchr (slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir (folder, 0777) && errno != EEXIST)
            return complain ("prepare", "%s: %s", folder, strerror (errno));
        if (file_is_foreign (folder))
            return complain ("prepare", "--out: '%s' " FILE_FOREIGN_WORDS, folder);
    }
    return true;
}

//  An empty file; NULL, and it was said why not.
static FILE *
s_open_target (const char *path)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool is_strange = fd >= 0 && file_is_foreign (path);
    struct stat status;
    FILE *file = NULL;
    //  Emptied only now: it may be what a link of another user leads to.
    if (fd >= 0 && !is_strange && fstat (fd, &status) == 0
    &&  (!S_ISREG (status.st_mode) || ftruncate (fd, 0) == 0))
        file = fdopen (fd, "wb");
    if (is_strange)
        complain ("prepare", "--out: '%s' " FILE_FOREIGN_WORDS, path);
    else
    if (!file)
        complain ("prepare", "%s: %s", path, strerror (errno));
    if (!file && fd >= 0)
        close (fd);
    return file;
}

//  NumPy's type string, little-endian as this machine is.
static const char *
s_descr (dtype_t dtype)
{
    static const char *const texts [DTYPES] = {
        [DTYPE_UINT8] = "|u1", [DTYPE_INT8] = "|i1", [DTYPE_UINT16] = "<u2",
            [DTYPE_INT16] = "<i2",
        [DTYPE_UINT32] = "<u4", [DTYPE_INT32] = "<i4", [DTYPE_UINT64] = "<u8",
            [DTYPE_INT64] = "<i8",
        [DTYPE_FLOAT16] = "<f2", [DTYPE_BFLOAT16] = "<u2", [DTYPE_FLOAT32] = "<f4",
            [DTYPE_FLOAT64] = "<f8",
        [DTYPE_BOOL] = "|b1"
    };
    assert (texts [dtype]);
    return texts [dtype];
}

//  Format 1.0 of numpy.lib.format: magic, version, length, a Python dict padded with spaces, a new line.
static size_t
s_npy_header (const pipeline_output_t *output, char header [HEADER_BYTES])
{
    char shape [HEADER_BYTES / 2] = "";
    size_t used = 0;
    for (uint32_t dimension = 0; dimension < output->dimensions; dimension++)
        used += (size_t) snprintf (shape + used, sizeof shape - used, "%u,", output->shape [dimension]);
    int text = snprintf (header + NPY_PREFIX_BYTES, HEADER_BYTES - NPY_PREFIX_BYTES,
        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", s_descr (output->dtype), shape);
    size_t bytes = ((size_t) text + 1 + NPY_PREFIX_BYTES + NPY_ALIGNMENT - 1) / NPY_ALIGNMENT * NPY_ALIGNMENT;
    assert (text > 0 && bytes < HEADER_BYTES);
    memset (header + NPY_PREFIX_BYTES + text, ' ', bytes - NPY_PREFIX_BYTES - (size_t) text);
    header [bytes - 1] = '\n';
    memcpy (header, "\x93NUMPY\1\0", 8);
    header [8] = (char) (bytes - NPY_PREFIX_BYTES);
    header [9] = 0;
    return bytes;
}

typedef struct {
    uint32_t height, width, channels;
} picture_t;

static picture_t
s_picture (const pipeline_output_t *output, format_t format)
{
    const uint32_t *shape = output->shape;
    if (output->dimensions == 2)
        return (picture_t) { shape [0], shape [1], 1 };
    if (output->dimensions != 3)
        return (picture_t) { 0 };
    return format == PPM_PLANAR? (picture_t) { shape [1], shape [2], shape [0] }
        : (picture_t) { shape [0], shape [1], shape [2] };
}

static void
s_write_planes (FILE *file, const picture_t *picture, const uint8_t *bytes)
{
    size_t plane = (size_t) picture->height * picture->width;
    for (size_t pixel = 0; pixel < plane; pixel++)
        for (uint32_t channel = 0; channel < picture->channels; channel++)
            putc (bytes [channel * plane + pixel], file);
}

//  Writes the file, and the folders that it is in.  bfloat16 becomes uint16, for NumPy has none.
static bool
s_write (const char *path, const pipeline_output_t *output, format_t format, const uint8_t *bytes)
{
    if (!s_make_folders (path))
        return false;
    FILE *file = s_open_target (path);
    if (!file)
        return false;
    if (format == NPY) {
        char header [HEADER_BYTES];
        fwrite (header, 1, s_npy_header (output, header), file);
    }
    else {
        picture_t picture = s_picture (output, format);
        fprintf (file, "P%c\n%u %u\n255\n", picture.channels == 1? '5': '6', picture.width, picture.height);
        if (format == PPM_PLANAR && picture.channels > 1)
            s_write_planes (file, &picture, bytes);
    }
    if (format != PPM_PLANAR || s_picture (output, format).channels == 1)
        fwrite (bytes, 1, output->bytes, file);
    bool good = !ferror (file);
    good = fclose (file) == 0 && good;
    return good || complain ("prepare", "%s: cannot be written: %s%s", path, strerror (errno),
        machine_remedy (errno));
}

//  ---- one sample

typedef struct {
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    pipeline_key_t shared;
    pipeline_key_t private;
} sample_t;

typedef struct {
    options_t options;
    files_t files;
    decoder_t *decoder;
    uint8_t *version;
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
    format_t format;
    size_t bad_count;
} run_t;

//  The file of a field of the source, 0 being the sample's own.
static bool
s_read_file (const run_t *self, size_t index, size_t field, decoder_file_t *file)
{
    if (field == 0) {
        file->bytes = s_read (self->options.files [index], &file->size);
        return file->bytes;
    }
    char *path = s_partner (&self->files, index, self->options.folders [field]);
    if (path)
        file->bytes = s_read (path, &file->size);
    free (path);
    return file->bytes;
}

static bool
s_read_sample (const run_t *self, size_t index, sample_t *sample)
{
    *sample = (sample_t) { .shared = self->options.shared, .private = self->options.private };
    sample->shared.id += index;
    sample->private.id += index;
    const pipeline_t *pipeline = self->options.pipeline;
    for (size_t file = 0; file < pipeline_files (pipeline); file++)
        if (!s_read_file (self, index, pipeline_file (pipeline, file), &sample->files [file]))
            return false;
    return true;
}

static bool
s_run_sample (run_t *self, size_t index, const sample_t *sample)
{
    const pipeline_t *pipeline = self->options.pipeline;
    decoder_sample_t files = { .files = sample->files, .warnings_max = self->options.warnings_max };
    char error [ERROR_BYTES];
    size_t file = 0;
    const char *path = self->options.files [index];
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
    const char *extension = self->format == NPY? ".npy":
        s_picture (array, self->format).channels == 1? ".pgm": ".ppm";
    char path [PATH_MAX];
    int bytes = snprintf (path, sizeof path, "%s/%s%s%s%s", self->options.out,
        s_below (&self->files, index), output? ".": "", output? array->name: "", extension);
    if (bytes >= (int) sizeof path)
        return complain ("prepare", "%s: %s", path, strerror (ENAMETOOLONG));
    return s_write (path, array, self->format, self->targets [output]);
}

//  Reads and prepares one file, and writes what comes of it if that is wanted; false: said what failed.
static bool
s_take (run_t *self, size_t index)
{
    sample_t sample;
    bool good = s_read_sample (self, index, &sample) && s_run_sample (self, index, &sample);
    size_t outputs = self->options.out? pipeline_outputs (self->options.pipeline): 0;
    for (size_t output = 0; good && output < outputs; output++)
        good = s_write_output (self, index, output);
    for (size_t file = 0; file < PIPELINE_FIELDS_MAX; file++)
        free ((void *) (uintptr_t) sample.files [file].bytes);
    return good;
}

//  ---- all of them

//  Pictures have 8 bits, height x width with three channels, one or none.
static bool
s_check_pictures (const run_t *self)
{
    const pipeline_t *pipeline = self->options.pipeline;
    for (size_t index = 0; self->format != NPY && index < pipeline_outputs (pipeline); index++) {
        const pipeline_output_t *output = pipeline_output (pipeline, index);
        uint32_t channels = s_picture (output, self->format).channels;
        if (output->dtype != DTYPE_UINT8 || (channels != 1 && channels != 3))
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
    self->decoder = decoder_new ();
    size_t units = (pipeline_version_bytes (pipeline) + ALIGNMENT - 1) / ALIGNMENT;
    self->version = aligned_alloc (ALIGNMENT, units * ALIGNMENT);
    bool good = self->decoder && self->version;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++)
        good = (self->targets [index] = malloc (pipeline_output (pipeline, index)->bytes)) && good;
    return good || complain ("prepare", "not enough memory");
}

static int
s_run (run_t *self)
{
    self->format = !self->options.format? NPY
        : strstr (pipeline_text (self->options.pipeline), "\"layout\":\"NCHW\"")? PPM_PLANAR:
        PPM;
    if (!s_check_pictures (self))
        return EXIT_UNUSABLE;
    if (!s_find_files (&self->files, self->options.files, self->options.file_count))
        return EXIT_UNUSABLE;
    if (!s_equip (self))
        return EXIT_SOME_BAD;
    for (size_t index = 0; index < self->options.file_count; index++)
        self->bad_count += !s_take (self, index);
    if (self->bad_count)
        complain ("prepare", "%zu of %zu files were not prepared", self->bad_count, self->options.file_count);
    else
    if (!self->options.out)
        printf ("%zu files can be prepared\n", self->options.file_count);
    return self->bad_count? EXIT_SOME_BAD: 0;
}

static void
s_clear (run_t *self)
{
    for (size_t index = 0; index < PIPELINE_OUTPUTS_MAX; index++)
        free (self->targets [index]);
    free (self->version);
    decoder_destroy (&self->decoder);
    for (size_t index = 0; index < self->files.count; index++)
        free (self->files.paths [index]);
    free (self->files.paths);
    pipeline_destroy (&self->options.pipeline);
}

int
command_prepare (int argc, char **argv)
{
    complain_begin ();
    run_t run = { .bad_count = 0 };
    int status = s_parse (&run.options, argc, argv);
    if (status < 0)
        status = s_run (&run);
    s_clear (&run);
    return complain_of_output ("prepare", status);
}
