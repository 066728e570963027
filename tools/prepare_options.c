#include "prepare_options.h"
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "complain.h"
#include "option.h"
#include "pack_options.h"

enum { THREADS_MAX = 1024, REPEAT_MAX = 1000000, ERROR_BYTES = 400 };

static bool
s_field (void *target, char *text, char error [OPTION_ERROR_BYTES])
{
    prepare_options_t *self = target;
    bool is_mask;
    char *folder;
    if (self->source.count == PIPELINE_FIELDS_MAX)
        return option_fail (error, "at most %d fields, the image itself among them", PIPELINE_FIELDS_MAX);
    if (!pack_options_split_field (text, &is_mask, &folder) || strlen (text) > PIPELINE_NAME_BYTES_MAX)
        return option_fail (error, "expected NAME=mask:FOLDER, NAME=image:FOLDER or NAME=file:FOLDER");
    for (size_t index = 0; index < self->source.count; index++)
        if (strcmp (self->source.fields [index].name, text) == 0)
            return option_fail (error, "there is a field of this name already");
    self->folders [self->source.count] = folder;
    self->source.fields [self->source.count++] = (pipeline_field_t) { text, is_mask };
    return true;
}

#define AT(member) OPTION_AT (prepare_options_t, member)
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
        "and PATH.NAME.npy for masks and further views; bfloat16 as uint16" },
    { "format", "npy|ppm", AT (format),
        "ppm: pictures to look at, of 8 bits (.pgm where there is one channel)",
        .choices = OPTION_CHOICES ("npy", "ppm") },
    { "time", NULL, AT (time), "say how many samples a second, reading not counted" },
    { "threads", "N", AT (threads), NULL, 1, THREADS_MAX },
    { "repeat", "N", AT (repeat),
        "of --time: threads (1), and how often each file, each time under the next\n"
        "epoch and draw (1)", 1, REPEAT_MAX }
};

static const option_table_t s_table = { "tureen prepare", s_rows, OPTION_ROWS (s_rows), SIZE_MAX, .before =
    "Usage: tureen prepare [--recipe NAME | --pipeline JSON] [OPTION...] FILE...\n"
    "Runs a pipeline on files, by the server's own code: what a job will see.\n"
    "\n"
    "  tureen prepare --recipe eval --out prepared photos/*.jpg\n"
    "  tureen prepare --pipeline '[{\"op\":\"resize\",\"size\":256},"
    "{\"op\":\"center_crop\",\"size\":224}]' \\\n"
    "      --format ppm --out look photo.jpg\n"
    "  tureen prepare --time --threads 8 --repeat 10 photos/*.jpg\n"
    "\n", .after =
    "\n"
    "Exit status: 0 all prepared, 1 some were not (standard error says which, and why), 2 unusable\n"
    "arguments.\n" };

static bool
s_make_pipeline (prepare_options_t *self)
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
s_finish (prepare_options_t *self, const option_result_t *result)
{
    if (option_given (&s_table, result, "recipe") + option_given (&s_table, result, "pipeline") > 1)
        return complain ("prepare", "--recipe and --pipeline: expected one of them, once");
    if (!self->out && !self->time)
        return complain ("prepare", "nothing to do; expected --out FOLDER, or --time");
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

int
prepare_options_parse (prepare_options_t *self, int argc, char **argv)
{
    *self = (prepare_options_t) {
        .source = { .fields = { { "image", false } }, .count = 1 }, .warnings_max = UINT32_MAX, .threads = 1,
        .repeat = 1
    };
    option_result_t result;
    int status = option_parse (&s_table, self, argc, argv, &result);
    self->files = result.words;
    self->file_count = result.word_count;
    return status >= 0? status: s_finish (self, &result)? -1: 2;
}

void
prepare_options_clear (prepare_options_t *self)
{
    pipeline_destroy (&self->pipeline);
}
