//  The command line is read first and notes what it set; the file then fills in the rest.

#include "options_state.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "machine.h"
#include "nearest.h"
#include "utf8.h"

const char *const options_names [SET_COUNT] = { "listen", "cache", "raw", "reads", "patience", "workers",
    "policy", "until-idle", "group",
    "keys", "open", "supervise", "dataset", "field", "extensions", "on-bad", "jpeg-warnings", "tier", "piece",
    "tenant", "tenant-datasets", "tenant-weight", "tenant-jobs", "tenant-batches", "tenant-cache" };
static const char *const s_policies [] = { "follow", "dsa" };

bool
options_fail (settings_t *self, const char *format, ...)
{
    int used = 0;
    if (self->file && self->line)
        used = snprintf (self->error, self->error_bytes, "%s:%zu: ", self->file, self->line);
    else if (self->file)
        used = snprintf (self->error, self->error_bytes, "%s: ", self->file);
    if (used < 0 || (size_t) used >= self->error_bytes)
        return false;
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error + used, self->error_bytes - (size_t) used, format, arguments);
    va_end (arguments);
    return false;
}

//  --- Names ------------------------------------------------------------------------------------------------

bool
options_find (const char *name, setting_t *setting)
{
    for (setting_t index = 0; index < SET_COUNT; index++)
        if (strcmp (name, options_names [index]) == 0) {
            *setting = index;
            return true;
        }
    return false;
}

//  --- Settings ---------------------------------------------------------------------------------------------

char *
options_copy (const char *text, size_t size)
{
    return needed_memory (strndup (text, size));
}

const char *
options_shown (const char *text, char shown [OPTIONS_SHOWN_BYTES])
{
    return utf8_visible (text, strlen (text), shown, OPTIONS_SHOWN_BYTES);
}

bool
options_size (const char *text, uint64_t *bytes_p)
{
    uint64_t bytes = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow (bytes, 10, &bytes)
            || __builtin_add_overflow (bytes, (uint64_t) (*at - '0'), &bytes))
            return false;
    if (at == text)
        return false;
    static const char units [] = "KMGT";
    const char *unit = *at? strchr (units, *at): NULL;
    if (unit) {
        at++;
        if (__builtin_mul_overflow (bytes, UINT64_C (1) << 10 * (unit - units + 1), &bytes))
            return false;
    }
    if (*at && strcmp (at, "B") != 0 && (!unit || strcmp (at, "iB") != 0))
        return false;
    if (bytes > UINT64_C (1) << 63)
        return false;
    *bytes_p = bytes;
    return true;
}

static void
s_replace (char **text_p, const char *value)
{
    free (*text_p);
    *text_p = options_copy (value, strlen (value));
}

bool
options_bytes (settings_t *self, setting_t setting, const char *value, uint64_t *bytes_p)
{
    char shown [OPTIONS_SHOWN_BYTES];
    if (options_size (value, bytes_p) && *bytes_p > 0)
        return true;
    return options_fail (self, "%s: expected a size in bytes, as in 512M or 4G, got '%s'",
        options_names [setting], options_shown (value, shown));
}

bool
options_number (settings_t *self, setting_t setting, const char *value, uint32_t most, uint32_t *number_p)
{
    char shown [OPTIONS_SHOWN_BYTES];
    size_t digits = strspn (value, "0123456789");
    unsigned long number = digits && digits < 9 && !value [digits]? strtoul (value, NULL, 10): 0;
    if (number < 1 || number > most)
        return options_fail (self, "%s: expected a number from 1 to %u, got '%s'", options_names [setting],
            most, options_shown (value, shown));
    *number_p = (uint32_t) number;
    return true;
}

//  A setting that is there or not: on the command line it may stand alone.
static bool
s_is_switch (setting_t setting)
{
    return setting == SET_OPEN || setting == SET_SUPERVISE;
}

static bool
s_set_switch (settings_t *self, setting_t setting, const char *value, bool *on_p)
{
    char shown [OPTIONS_SHOWN_BYTES];
    *on_p = strcmp (value, "1") == 0;
    return *on_p || strcmp (value, "0") == 0
        || options_fail (self, "%s: expected 1 or 0, got '%s'", options_names [setting],
        options_shown (value, shown));
}

static bool
s_set_policy (settings_t *self, const char *value, char **policy_p)
{
    char shown [OPTIONS_SHOWN_BYTES], list [128] = "";
    for (size_t index = 0; index < sizeof s_policies / sizeof *s_policies; index++) {
        if (strcmp (value, s_policies [index]) == 0) {
            s_replace (policy_p, value);
            return true;
        }
        size_t used = strlen (list);
        snprintf (list + used, sizeof list - used, "%s%s", used? ", ": "", s_policies [index]);
    }
    return options_fail (self, "policy: there is no '%s'; there is: %s", options_shown (value, shown), list);
}

//  "KEY=VALUE", as the command line has it.
static bool
s_set_named (settings_t *self, setting_t setting, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    const char *equals = strchr (value, '=');
    if (equals)
        return options_set_named (self, setting, value, (size_t) (equals - value), equals + 1);
    return options_fail (self, "%s: expected %s, got '%s'", options_names [setting], options_form (setting),
        options_shown (value, shown));
}

bool
options_set (settings_t *self, setting_t setting, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    if (options_is_named (setting))
        return s_set_named (self, setting, value);
    if (!*value)
        return options_fail (self, "%s: the value is missing", options_names [setting]);
    if (self->file) {
        if (self->given_in_file [setting])
            return options_fail (self, "%s: it is there twice, now as '%s'",
                options_names [setting], options_shown (value, shown));
        self->given_in_file [setting] = true;
    }
    options_t checked = { 0 }, *options = self->file && self->given [setting]? &checked: self->options;
    bool good = false;
    switch (setting) {
    case SET_LISTEN:
        s_replace (&options->listen, value);
        good = true;
        break;
    case SET_CACHE:
        good = options_bytes (self, setting, value, &options->cache_bytes);
        break;
    case SET_RAW:
        good = options_bytes (self, setting, value, &options->raw_bytes);
        break;
    case SET_READS:
        good = options_number (self, setting, value, OPTIONS_READS_MAX, &options->reads);
        break;
    case SET_PATIENCE:
        good = options_number (self, setting, value, OPTIONS_PATIENCE_MAX, &options->patience);
        break;
    case SET_WORKERS:
        good = options_number (self, setting, value, OPTIONS_WORKERS_MAX, &options->workers);
        break;
    case SET_UNTIL_IDLE:
        good = options_number (self, setting, value, OPTIONS_IDLE_MAX, &options->until_idle);
        break;
    case SET_POLICY:
        good = s_set_policy (self, value, &options->policy);
        break;
    case SET_GROUP:
        good = options_set_group (self, value, &options->group, &options->group_id);
        break;
    case SET_KEYS:
        s_replace (&options->keys, value);
        good = true;
        break;
    case SET_OPEN:
        good = s_set_switch (self, setting, value, &options->open);
        break;
    case SET_SUPERVISE:
        good = s_set_switch (self, setting, value, &options->supervise);
        break;
    default:
        break;                      //  with a name: above
    }
    options_clear (&checked);
    if (!self->file)
        self->given [setting] = true;
    return good;
}

//  --- Command line -----------------------------------------------------------------------------------------

//  Takes "--name=VALUE" or "--name VALUE" apart: *size bytes of name, the value, and *index moved past both.
static bool
s_split_argument (settings_t *self, int argc, char **argv, int *index, char name [OPTIONS_NAME_BYTES_MAX + 1],
    const char **value)
{
    const char *argument = argv [(*index)++];
    char shown [OPTIONS_SHOWN_BYTES];
    setting_t setting;
    size_t size = strncmp (argument, "--", 2) == 0? strcspn (argument + 2, "="): 0;
    if (size == 0)
        return options_fail (self, "unexpected argument '%s'; data sets are given as --dataset NAME=PATH",
            options_shown (argument, shown));
    if (size > OPTIONS_NAME_BYTES_MAX)
        return options_fail (self, "unknown option '%s'", options_shown (argument, shown));
    memcpy (name, argument + 2, size);
    name [size] = 0;
    *value = NULL;
    if (argument [2 + size])
        *value = argument + 2 + size + 1;
    else if (options_find (name, &setting) && s_is_switch (setting))
        *value = "1";
    else if (*index < argc && strncmp (argv [*index], "--", 2) != 0)
        *value = argv [(*index)++];
    return true;
}

static bool
s_take_option (settings_t *self, const char *name, const char *value)
{
    const char *names [SET_COUNT + 2] = { "config", "help" };
    memcpy (names + 2, options_names, sizeof options_names);
    setting_t setting = SET_COUNT;
    bool is_config = strcmp (name, "config") == 0;
    if (strcmp (name, "help") == 0)
        return options_fail (self, "--help takes no value");
    if (!is_config && !options_find (name, &setting)) {
        char shown [OPTIONS_SHOWN_BYTES];
        const char *nearest = nearest_name (name, names, sizeof names / sizeof *names);
        return options_fail (self, "unknown option '--%s'%s%s%s", options_shown (name, shown),
            nearest? "; did you mean '--": "; see --help", nearest? nearest: "", nearest? "'?": "");
    }
    char seconds [16];
    snprintf (seconds, sizeof seconds, "%d", OPTIONS_IDLE_SECONDS);
    if (!value && setting == SET_UNTIL_IDLE)
        value = seconds;
    if (!value)
        return options_fail (self, "--%s needs a value%s%s", name, options_is_named (setting)
            && !is_config? ": ": "", options_is_named (setting) && !is_config? options_form (setting): "");
    if (!is_config)
        return options_set (self, setting, value);
    if (self->config)
        return options_fail (self, "--config is given twice: %s and %s", self->config, value);
    self->config = value;
    return true;
}

static options_status_t
s_read_arguments (settings_t *self, int argc, char **argv)
{
    for (int index = 1; index < argc;) {
        if (strcmp (argv [index], "-h") == 0 || strcmp (argv [index], "--help") == 0)
            return OPTIONS_HELP;
        char name [OPTIONS_NAME_BYTES_MAX + 1];
        const char *value = NULL;
        if (!s_split_argument (self, argc, argv, &index, name, &value) || !s_take_option (self, name, value))
            return OPTIONS_ERROR;
    }
    return OPTIONS_RUN;
}

//  --- The whole --------------------------------------------------------------------------------------------

static void
s_fill_defaults (options_t *self)
{
    if (!self->cache_bytes) {
        uint64_t quarter = machine_memory_bytes ("") / 4;
        self->cache_bytes = quarter? quarter: 1;
    }
    if (!self->raw_bytes) {
        uint64_t eighth = machine_memory_bytes ("") / 8;
        self->raw_bytes = eighth? eighth: 1;
    }
    if (!self->workers) {
        uint32_t processors = machine_processors ("");
        self->workers = processors < OPTIONS_WORKERS_MAX? processors: OPTIONS_WORKERS_MAX;
    }
    if (!self->patience)
        self->patience = OPTIONS_PATIENCE_SECONDS;
    if (!self->policy)
        s_replace (&self->policy, s_policies [0]);
}

//  What the arguments leave open.
static bool
s_complete (settings_t *self)
{
    if (self->config && !options_read_config (self))
        return false;
    if (self->options->dataset_count == 0)
        return options_fail (self, "no data set: name one, as in tureen serve --dataset train=/data/train");
    if (!options_apply (self) || !options_check_tenants (self))
        return false;
    s_fill_defaults (self->options);
    return true;
}

options_status_t
options_parse (options_t *self, int argc, char **argv, char *error, size_t error_bytes)
{
    assert (error_bytes > 0);
    *self = (options_t) { 0 };
    *error = 0;
    settings_t reading = { .options = self, .error = error, .error_bytes = error_bytes };
    options_status_t status = s_read_arguments (&reading, argc, argv);
    if (status == OPTIONS_RUN && !s_complete (&reading))
        status = OPTIONS_ERROR;
    options_forget (&reading);
    return status;
}

void
options_clear (options_t *self)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        options_clear_dataset (&self->datasets [index]);
    options_clear_tenants (self);
    free (self->listen);
    free (self->policy);
    free (self->group);
    free (self->keys);
    *self = (options_t) { 0 };
}

const char *
options_help (void)
{
    return
        "usage: tureen serve --dataset NAME=PATH [--dataset NAME=PATH ...] [options]\n"
        "\n"
        "Prepares each sample of the data sets once and serves it to every training job that joins.\n"
        "\n"
        "  --dataset NAME=PATH  serve the folder PATH (a folder of files for each class, files and a\n"
        "                       labels.tsv or labels.jsonl, or what `tureen pack` made) as NAME; a name\n"
        "                       has 1 to 64 letters, digits, '.', '_' or '-'; at least one, at most 64\n"
        "  --listen ENDPOINT    ipc://PATH or tcp://HOST:PORT\n"
        "                       (default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or where there is\n"
        "                       no such directory ipc:///tmp/tureen-UID/server.sock)\n"
        "  --cache BYTES        memory for prepared samples; K, M, G and T are powers of 1024: 512M, 4G\n"
        "                       (default: a quarter of the memory that this process may use, container\n"
        "                       limits included)\n"
        "  --raw BYTES          memory for compressed samples of packs (default: an eighth of the memory)\n"
        "  --reads N            reads under way at once on each device, 1 to 128 (default: as\n"
        "                       measured; status shows them)\n"
        "  --patience SECONDS   how long reads that fail, and may not fail for good (EIO, ESTALE, a network), are\n"
        "                       tried again before a sample is bad, or the jobs of a disk that is away end\n"
        "                       (default: 300)\n"
        "  --workers N          threads that prepare samples, 1 to 1024\n"
        "                       (default: the processors that this process may use)\n"
        "  --policy NAME        how jobs of order \"shared\" come to common samples: follow or dsa (default: follow)\n"
        "  --until-idle [SECONDS]\n"
        "                       end when the last job has gone and none has come for so long (10 seconds without\n"
        "                       a number); before the first job has come at least 60 seconds\n"
        "  --supervise          start the server again when it has died (of a signal, an abort), however often\n"
        "  --open               serve whoever can connect: without it a tcp address needs --keys, and only an\n"
        "                       address of this machine itself may be open; on ipc users are not told apart\n"
        "  --config FILE        settings from a ZPL file, by these names; what the command line says wins,\n"
        "                       data sets, fields and users add up\n"
        "  -h, --help           this text\n"
        "\n"
        "Of a data set NAME, each as often as needed:\n"
        "  --field NAME.FIELD=image:DIR, --field NAME.FIELD=mask:DIR\n"
        "                       each sample has a second file, in DIR under the same name but for the\n"
        "                       extension: the field FIELD (letters, digits, '_'); masks keep their values;\n"
        "                       at most 7\n"
        "  --extensions NAME=.wav,.flac\n"
        "                       which files are samples (default: torchvision's image extensions)\n"
        "  --on-bad NAME=drop   samples that cannot be read leave the data (default), or\n"
        "  --on-bad NAME=fail   end the jobs whose data hold them\n"
        "  --jpeg-warnings NAME=N\n"
        "                       a JPEG that libjpeg warns of more than N times is bad (default: any number\n"
        "                       is read)\n"
        "  --tier NAME=stream   how a pack is read: whole pieces, each once an epoch, in random order\n"
        "                       (default); redox: as the Redox paper has it; direct: sample by sample\n"
        "  --piece NAME=N       samples of a piece, 1 to 64 (default: as measured; status shows it)\n"
        "\n"
        "Of users beside the server's own, who are served as tenants (docs/operations.md):\n"
        "  --tenant NAME=USER,USER\n"
        "                       users of this machine, by name or number, who share what the tenant has; '-':\n"
        "                       none, but keys\n"
        "  --tenant-datasets NAME=train,val\n"
        "                       what it may use; '*': all data sets (default: none)\n"
        "  --tenant-weight NAME=N\n"
        "                       its part of the workers and the cache when they are short, 1 to 1000 (default: 1)\n"
        "  --tenant-jobs NAME=N, --tenant-batches NAME=BYTES\n"
        "                       the most jobs it may have at once, and memory for their batches\n"
        "                       (default: its share by weight of all there may be)\n"
        "  --tenant-cache NAME=BYTES\n"
        "                       the most prepared samples it may keep (default: what others leave)\n"
        "  --group NAME         the group that may reach the ipc socket; its folder becomes the group's (0750)\n"
        "  --keys DIR           encrypt tcp, and serve those keys that `tureen key allow` let in\n"
        "\n"
        "Options may be written --name VALUE or --name=VALUE.\n"
        "\n"
        "Example:\n"
        "  tureen serve --dataset train=/data/imagenet/train --dataset val=/data/imagenet/val --cache 4G \\\n"
        "      --on-bad val=fail\n"
        "\n"
        "The same as a file:\n"
        "  cache = 4G\n"
        "  dataset\n"
        "      train = /data/imagenet/train\n"
        "      val = /data/imagenet/val\n"
        "  on-bad\n"
        "      val = fail\n";
}
