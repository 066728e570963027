#include "prepare_options.h"
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "complain.h"

enum { THREADS_MAX = 1024, REPEAT_MAX = 1000000, ERROR_BYTES = 400 };

//  What is known while arguments are read.
typedef struct {
    prepare_options_t *options;
    const char *pipeline;           //  the text of --pipeline or --recipe
    bool pipeline_is_json;
    const char *pipeline_from;      //  which of the two
    bool draw_given;
} reading_t;

static bool
s_number (const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number_p)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = *text >= '0' && *text <= '9'? strtoull (text, &end, 10): 0;
    if (!end || *end || errno || number < least || number > most)
        return complain ("prepare", "--%s '%s': expected a number from %" PRIu64 " to %" PRIu64, option, text,
            least, most);
    *number_p = number;
    return true;
}

static bool
s_small (const char *option, const char *text, uint32_t least, uint32_t most, uint32_t *number_p)
{
    uint64_t number = 0;
    if (!s_number (option, text, least, most, &number))
        return false;
    *number_p = (uint32_t) number;
    return true;
}

//  NAME=mask:DIR or NAME=image:DIR; the text is cut up in place.
static bool
s_field (prepare_options_t *self, char *text)
{
    char *kind = strchr (text, '='), *folder = kind? strchr (kind, ':'): NULL;
    size_t name_bytes = kind? (size_t) (kind - text): 0;
    size_t kind_bytes = folder? (size_t) (folder - kind - 1): 0;
    bool is_mask = kind_bytes == 4 && memcmp (kind + 1, "mask", 4) == 0;
    bool is_image = kind_bytes == 5 && memcmp (kind + 1, "image", 5) == 0;
    if (!name_bytes || name_bytes > PIPELINE_NAME_BYTES_MAX || !(is_mask || is_image) || !folder [1])
        return complain ("prepare", "--field '%s': expected NAME=mask:FOLDER or NAME=image:FOLDER", text);
    if (self->source.count == PIPELINE_FIELDS_MAX)
        return complain ("prepare", "--field '%s': at most %d fields, the image itself among them", text,
            PIPELINE_FIELDS_MAX);
    *kind = 0;
    for (size_t index = 0; index < self->source.count; index++)
        if (strcmp (self->source.fields [index].name, text) == 0)
            return complain ("prepare", "--field '%s': there is a field of this name already", text);
    self->folders [self->source.count] = folder + 1;
    self->source.fields [self->source.count++] = (pipeline_field_t) { text, is_mask };
    return true;
}

static bool
s_pipeline_text (reading_t *self, const char *from, bool is_json)
{
    if (self->pipeline)
        return complain ("prepare", "--%s and --%s: expected one of them, once", self->pipeline_from, from);
    self->pipeline = optarg;
    self->pipeline_from = from;
    self->pipeline_is_json = is_json;
    return true;
}

static bool
s_format (prepare_options_t *self, const char *text)
{
    self->ppm = strcmp (text, "ppm") == 0;
    if (self->ppm || strcmp (text, "npy") == 0)
        return true;
    return complain ("prepare", "--format '%s': expected npy or ppm", text);
}

static bool
s_take (reading_t *self, int option)
{
    prepare_options_t *options = self->options;
    switch (option) {
    case 'r': return s_pipeline_text (self, "recipe", false);
    case 'p': return s_pipeline_text (self, "pipeline", true);
    case 'f': return s_field (options, optarg);
    case 's': return s_number ("seed", optarg, 0, UINT64_MAX, &options->private.seed);
    case 'e': return s_number ("epoch", optarg, 0, UINT64_MAX, &options->private.round);
    case 'i': return s_number ("id", optarg, 0, UINT32_MAX, &options->private.id);
    case 'd':
        self->draw_given = true;
        return s_number ("draw", optarg, 0, UINT64_MAX, &options->shared.round);
    case 'w': return s_small ("jpeg-warnings", optarg, 0, UINT32_MAX, &options->warnings_max);
    case 'F': return s_format (options, optarg);
    case 'n': return s_small ("threads", optarg, 1, THREADS_MAX, &options->threads);
    case 'R': return s_small ("repeat", optarg, 1, REPEAT_MAX, &options->repeat);
    case 'o': options->out = optarg; return true;
    case 't': return options->time = true;
    case 'h': return options->help = true;
    default: return false;
    }
}

static bool
s_make_pipeline (reading_t *self)
{
    json_t *value;
    if (self->pipeline_is_json) {
        json_error_t why;
        value = json_loads (self->pipeline, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
        if (!value)
            return complain ("prepare", "--pipeline: not JSON: %s (column %d)", why.text, why.column);
    }
    else
        value = json_string (self->pipeline? self->pipeline: "train");
    char error [ERROR_BYTES];
    int rc = pipeline_new (&self->options->pipeline, value, &self->options->source, NULL, 0, error,
        sizeof error);
    json_decref (value);
    return rc == 0 || complain ("prepare", "pipeline: %s", error);
}

static bool
s_finish (reading_t *self)
{
    prepare_options_t *options = self->options;
    if (!options->out && !options->time)
        return complain ("prepare", "nothing to do; expected --out FOLDER, or --time");
    if (options->file_count == 0)
        return complain ("prepare", "no file; try: tureen prepare --help");
    if (options->private.id + options->file_count - 1 > UINT32_MAX)
        return complain ("prepare", "--id: the ids of %zu files from there on are too large",
            options->file_count);
    options->shared.seed = options->private.seed;
    options->shared.id = options->private.id;
    if (!self->draw_given)
        options->shared.round = options->private.round;     //  as a job of order `seeded` has it
    return s_make_pipeline (self);
}

bool
prepare_options_parse (prepare_options_t *self, int argc, char **argv)
{
    static const struct option options [] = {
        { "recipe", required_argument, NULL, 'r' }, { "pipeline", required_argument, NULL, 'p' },
        { "field", required_argument, NULL, 'f' }, { "seed", required_argument, NULL, 's' },
        { "epoch", required_argument, NULL, 'e' }, { "draw", required_argument, NULL, 'd' },
        { "id", required_argument, NULL, 'i' }, { "jpeg-warnings", required_argument, NULL, 'w' },
        { "out", required_argument, NULL, 'o' }, { "format", required_argument, NULL, 'F' },
        { "time", no_argument, NULL, 't' }, { "threads", required_argument, NULL, 'n' },
        { "repeat", required_argument, NULL, 'R' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 }
    };
    *self = (prepare_options_t) {
        .source = { .fields = { { "image", false } }, .count = 1 }, .warnings_max = UINT32_MAX, .threads = 1,
        .repeat = 1
    };
    reading_t reading = { .options = self };
    opterr = 0;
    optind = 0;                         //  glibc: start anew, whatever was parsed before
    for (int option; (option = getopt_long (argc, argv, ":h", options, NULL)) != -1;) {
        if (option == ':' || option == '?')
            return complain_of_option ("prepare", argv, options, option);
        if (!s_take (&reading, option))
            return false;
        if (self->help)
            return true;
    }
    self->files = argv + optind;
    self->file_count = (size_t) (argc - optind);
    return s_finish (&reading);
}

void
prepare_options_clear (prepare_options_t *self)
{
    pipeline_destroy (&self->pipeline);
}
