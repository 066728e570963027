/*  The command line is read first and notes what it set; the file then fills in the rest.  The file's syntax is
 *  checked line by line here before czmq parses it: zconfig tells its errors on standard output instead of to
 *  its caller, keeps no line numbers, and in some versions overruns after a line of more than 1024 bytes.
 */
#include "options.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <czmq.h>
#include "machine.h"
#include "utf8.h"

enum {
    NAME_BYTES_MAX = 64,
    FILE_BYTES_MAX = 64 * 1024,
    LINE_BYTES_MAX = 1000,          //  every zconfig takes 1024
    SHOWN_BYTES = 80                //  of a value in a message
};

typedef enum { SET_DATASET, SET_LISTEN, SET_CACHE, SET_WORKERS, SET_POLICY, SET_COUNT } setting_t;

static const char *const s_names [SET_COUNT] = { "dataset", "listen", "cache", "workers", "policy" };
static const char *const s_policies [] = { "follow", "dsa" };

//  What is known while settings are read.
typedef struct {
    options_t *options;
    const char *file;               //  of the settings that are read now; NULL: the command line
    size_t line;                    //  in it, from 1
    bool given [SET_COUNT];         //  by the command line
    bool given_in_file [SET_COUNT];
    const char *config;             //  --config
    char *error;
    size_t error_bytes;
} reading_t;

//  Writes the place and the reason.  Returns false.
static bool __attribute__ ((format (printf, 2, 3)))
s_fail (reading_t *self, const char *format, ...)
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

//  Single-character changes that make one name of the other (Levenshtein), for names of up to NAME_BYTES_MAX.
static size_t
s_distance (const char *left, const char *right)
{
    size_t row [NAME_BYTES_MAX + 1], columns = strlen (right);
    assert (columns <= NAME_BYTES_MAX);
    for (size_t column = 0; column <= columns; column++)
        row [column] = column;
    for (size_t line = 0; left [line]; line++) {
        size_t diagonal = row [0];
        row [0] = line + 1;
        for (size_t column = 1; column <= columns; column++) {
            size_t changed = diagonal + (left [line] != right [column - 1]);
            size_t shorter = (row [column] < row [column - 1]? row [column]: row [column - 1]) + 1;
            diagonal = row [column];
            row [column] = changed < shorter? changed: shorter;
        }
    }
    return row [columns];
}

//  The nearest of the names, if it is near.
static const char *
s_nearest (const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = 3;                //  three changes make another word
    for (size_t index = 0; index < count && strlen (name) <= NAME_BYTES_MAX; index++) {
        size_t distance = s_distance (name, names [index]);
        if (distance < best && distance < strlen (names [index])) {
            best = distance;
            nearest = names [index];
        }
    }
    return nearest;
}

static bool
s_find (const char *name, setting_t *setting)
{
    for (setting_t index = 0; index < SET_COUNT; index++)
        if (strcmp (name, s_names [index]) == 0) {
            *setting = index;
            return true;
        }
    return false;
}

//  --- Settings ---------------------------------------------------------------------------------------------

static char *
s_copy (const char *text, size_t size)
{
    char *copy = strndup (text, size);
    assert (copy);
    return copy;
}

static const char *
s_shown (const char *text, char shown [SHOWN_BYTES])
{
    return utf8_visible (text, strlen (text), shown, SHOWN_BYTES);
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

static bool
s_is_dataset_name (const char *name, size_t size)
{
    static const char taken [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    return size > 0 && size <= NAME_BYTES_MAX && strspn (name, taken) >= size;
}

static bool
s_add_dataset (reading_t *self, const char *name, size_t size, const char *path)
{
    options_t *options = self->options;
    char shown [SHOWN_BYTES];
    utf8_visible (name, size, shown, sizeof shown);
    if (!s_is_dataset_name (name, size))
        return s_fail (self, "dataset: a name has 1 to %d letters, digits, '.', '_' or '-', got '%s'",
            NAME_BYTES_MAX, shown);
    if (!*path)
        return s_fail (self, "dataset %s: the path is missing, as in %s=/data/%s", shown, shown, shown);
    for (size_t index = 0; index < options->dataset_count; index++)
        if (strlen (options->datasets [index].name) == size
            && memcmp (options->datasets [index].name, name, size) == 0)
            return s_fail (self, "dataset %s: there are two of that name: %s and %s", shown,
                options->datasets [index].path, path);
    if (options->dataset_count == OPTIONS_DATASETS_MAX)
        return s_fail (self, "dataset %s: there are more than %d", shown, OPTIONS_DATASETS_MAX);
    options->datasets [options->dataset_count++] = (options_dataset_t) {
        .name = s_copy (name, size), .path = s_copy (path, strlen (path)) };
    return true;
}

static bool
s_set_dataset (reading_t *self, const char *value)
{
    char shown [SHOWN_BYTES];
    const char *equals = strchr (value, '=');
    if (!equals)
        return s_fail (self, "dataset: expected NAME=PATH, as in train=/data/train, got '%s'",
            s_shown (value, shown));
    return s_add_dataset (self, value, (size_t) (equals - value), equals + 1);
}

static void
s_replace (char **text_p, const char *value)
{
    free (*text_p);
    *text_p = s_copy (value, strlen (value));
}

static bool
s_set_cache (reading_t *self, const char *value, uint64_t *bytes_p)
{
    char shown [SHOWN_BYTES];
    if (options_size (value, bytes_p) && *bytes_p > 0)
        return true;
    return s_fail (self, "cache: expected a size in bytes, as in 512M or 4G, got '%s'",
        s_shown (value, shown));
}

static bool
s_set_workers (reading_t *self, const char *value, uint32_t *workers_p)
{
    char shown [SHOWN_BYTES];
    size_t digits = strspn (value, "0123456789");
    unsigned long number = digits && digits < 9 && !value [digits]? strtoul (value, NULL, 10): 0;
    if (number < 1 || number > OPTIONS_WORKERS_MAX)
        return s_fail (self, "workers: expected a number from 1 to %d, got '%s'", OPTIONS_WORKERS_MAX,
            s_shown (value, shown));
    *workers_p = (uint32_t) number;
    return true;
}

static bool
s_set_policy (reading_t *self, const char *value, char **policy_p)
{
    char shown [SHOWN_BYTES], list [128] = "";
    for (size_t index = 0; index < sizeof s_policies / sizeof *s_policies; index++) {
        if (strcmp (value, s_policies [index]) == 0) {
            s_replace (policy_p, value);
            return true;
        }
        size_t used = strlen (list);
        snprintf (list + used, sizeof list - used, "%s%s", used? ", ": "", s_policies [index]);
    }
    return s_fail (self, "policy: there is no '%s'; there is: %s", s_shown (value, shown), list);
}

//  Checks a value and keeps it, unless the command line has already said something else.
static bool
s_set (reading_t *self, setting_t setting, const char *value)
{
    char shown [SHOWN_BYTES];
    if (!*value && setting != SET_DATASET)
        return s_fail (self, "%s: the value is missing", s_names [setting]);
    if (self->file && setting != SET_DATASET) {
        if (self->given_in_file [setting])
            return s_fail (self, "%s: it is there twice, now as '%s'",
                s_names [setting], s_shown (value, shown));
        self->given_in_file [setting] = true;
    }
    options_t checked = { 0 }, *options = self->file && self->given [setting]? &checked: self->options;
    bool good = false;
    switch (setting) {
    case SET_DATASET:
        return s_set_dataset (self, value);
    case SET_LISTEN:
        s_replace (&options->listen, value);
        good = true;
        break;
    case SET_CACHE:
        good = s_set_cache (self, value, &options->cache_bytes);
        break;
    case SET_WORKERS:
        good = s_set_workers (self, value, &options->workers);
        break;
    case SET_POLICY:
        good = s_set_policy (self, value, &options->policy);
        break;
    case SET_COUNT:
        break;
    }
    options_clear (&checked);
    if (!self->file)
        self->given [setting] = true;
    return good;
}

//  --- Command line -----------------------------------------------------------------------------------------

//  Takes "--name=VALUE" or "--name VALUE" apart: *size bytes of name, the value, and *index moved past both.
static bool
s_split_argument (reading_t *self, int argc, char **argv, int *index, char name [NAME_BYTES_MAX + 1],
    const char **value)
{
    const char *argument = argv [(*index)++];
    char shown [SHOWN_BYTES];
    size_t size = strncmp (argument, "--", 2) == 0? strcspn (argument + 2, "="): 0;
    if (size == 0)
        return s_fail (self, "unexpected argument '%s'; data sets are given as --dataset NAME=PATH",
            s_shown (argument, shown));
    if (size > NAME_BYTES_MAX)
        return s_fail (self, "unknown option '%s'", s_shown (argument, shown));
    memcpy (name, argument + 2, size);
    name [size] = 0;
    *value = NULL;
    if (argument [2 + size])
        *value = argument + 2 + size + 1;
    else if (*index < argc && strncmp (argv [*index], "--", 2) != 0)
        *value = argv [(*index)++];
    return true;
}

static bool
s_take_option (reading_t *self, const char *name, const char *value)
{
    static const char *const names [] = { "dataset", "listen", "cache", "workers", "policy", "config",
        "help" };
    setting_t setting = SET_COUNT;
    bool is_config = strcmp (name, "config") == 0;
    if (strcmp (name, "help") == 0)
        return s_fail (self, "--help takes no value");
    if (!is_config && !s_find (name, &setting)) {
        char shown [SHOWN_BYTES];
        const char *nearest = s_nearest (name, names, sizeof names / sizeof *names);
        return s_fail (self, "unknown option '--%s'%s%s%s", s_shown (name, shown),
            nearest? "; did you mean --": "; see --help", nearest? nearest: "", nearest? "?": "");
    }
    if (!value)
        return s_fail (self, "--%s needs a value%s", name, setting == SET_DATASET? ": NAME=PATH": "");
    if (!is_config)
        return s_set (self, setting, value);
    if (self->config)
        return s_fail (self, "--config is given twice: %s and %s", self->config, value);
    self->config = value;
    return true;
}

static options_status_t
s_read_arguments (reading_t *self, int argc, char **argv)
{
    for (int index = 1; index < argc;) {
        if (strcmp (argv [index], "-h") == 0 || strcmp (argv [index], "--help") == 0)
            return OPTIONS_HELP;
        char name [NAME_BYTES_MAX + 1];
        const char *value = NULL;
        if (!s_split_argument (self, argc, argv, &index, name, &value) || !s_take_option (self, name, value))
            return OPTIONS_ERROR;
    }
    return OPTIONS_RUN;
}

//  --- File -------------------------------------------------------------------------------------------------

//  The whole file, ended; the caller's.  NULL and the reason.
static char *
s_read_file (reading_t *self)
{
    int descriptor = open (self->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (descriptor < 0 || fstat (descriptor, &status) != 0 || S_ISDIR (status.st_mode)) {
        s_fail (self, "cannot be read: %s", strerror (descriptor < 0? errno: EISDIR));
        if (descriptor >= 0)
            close (descriptor);
        return NULL;
    }
    char *text = malloc (FILE_BYTES_MAX + 2);
    assert (text);
    size_t size = 0;
    ssize_t got = 0;
    while (size <= FILE_BYTES_MAX && (got = read (descriptor, text + size, FILE_BYTES_MAX + 1 - size)) > 0)
        size += (size_t) got;
    int reason = errno;
    close (descriptor);
    text [size] = 0;
    if (got < 0)
        s_fail (self, "cannot be read: %s", strerror (reason));
    else if (size > FILE_BYTES_MAX)
        s_fail (self, "has more than %d bytes", FILE_BYTES_MAX);
    else if (strlen (text) != size)
        s_fail (self, "holds a zero byte");
    else
        return text;
    free (text);
    return NULL;
}

//  The rest of a line after its name is nothing, a comment, or "= value".
static bool
s_check_rest (reading_t *self, const char *at, size_t size)
{
    char shown [SHOWN_BYTES];
    const char *end = at + size;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at == '#')
        return true;
    if (*at != '=')
        return s_fail (self, "expected '=' and a value, got '%s'",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
    for (at++; at < end && (*at == ' ' || *at == '\t');)
        at++;
    if (at == end || *at == '#')
        return s_fail (self, "the value after '=' is missing");
    if (*at != '"' && *at != '\'')
        return true;
    const char *quote = memchr (at + 1, *at, (size_t) (end - at - 1));
    if (!quote)
        return s_fail (self, "the quotation mark %c is not closed", *at);
    at = quote + 1;
    at += strspn (at, " \t");
    return at >= end || *at == '#'
        || s_fail (self, "'%s' after the quotation",
            utf8_visible (at, (size_t) (end - at), shown, sizeof shown));
}

//  One line (without its end) as ZPL has it; *level is that of the line before it, and becomes its own.
static bool
s_check_line (reading_t *self, const char *line, size_t size, size_t *level)
{
    static const char in_names [] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789$-_@.&+/";
    char shown [SHOWN_BYTES];
    if (size > LINE_BYTES_MAX)
        return s_fail (self, "the line has more than %d bytes", LINE_BYTES_MAX);
    while (size && strchr (" \t\r", line [size - 1]))
        size--;
    for (size_t index = 0; index < size; index++)
        if ((uint8_t) line [index] < ' ' && line [index] != '\t')
            return s_fail (self, "a control character, %d", line [index]);
    size_t indent = 0;
    while (indent < size && line [indent] == ' ')
        indent++;
    if (indent == size || line [indent] == '#')
        return indent % 4 == 0 || indent == size
            || s_fail (self, "indent a comment by 4 blanks or not at all");
    if (indent % 4 != 0 || indent / 4 > *level + 1 || indent / 4 > 1)
        return s_fail (self, "indent by 4 blanks, below the setting that it belongs to, or not at all");
    *level = indent / 4;
    size_t name = 0;
    while (indent + name < size && strchr (in_names, line [indent + name]))
        name++;
    if (name == 0 || name > NAME_BYTES_MAX || line [indent] == '/' || line [indent + name - 1] == '/')
        return s_fail (self, "expected a name, got '%s'",
            utf8_visible (line + indent, size - indent, shown, sizeof shown));
    return s_check_rest (self, line + indent + name, size - indent - name);
}

static bool
s_check_text (reading_t *self, const char *text)
{
    size_t level = SIZE_MAX;        //  of the line before: none yet, so that the first may have 0 at most
    self->line = 0;
    while (*text) {
        size_t size = strcspn (text, "\n");
        self->line++;
        if (!s_check_line (self, text, size, &level))
            return false;
        text += size + (text [size] == '\n');
    }
    return true;
}

//  Moves self->line to the next line that holds a setting: zconfig's items come in the order of those lines.
static void
s_next_setting (reading_t *self, const char **text)
{
    bool found = false;
    while (**text && !found) {
        size_t indent = strspn (*text, " \t\r");
        found = (*text) [indent] && (*text) [indent] != '#' && (*text) [indent] != '\n';
        *text += strcspn (*text, "\n");
        *text += **text == '\n';
        self->line++;
    }
}

static bool
s_take_datasets (reading_t *self, zconfig_t *item, const char **text)
{
    if (*zconfig_value (item))
        return s_fail (self, "dataset: expected no value here, but lines '    NAME = PATH' below it");
    if (!zconfig_child (item))
        return s_fail (self, "dataset: expected lines '    NAME = PATH' below it");
    for (zconfig_t *child = zconfig_child (item); child; child = zconfig_next (child)) {
        s_next_setting (self, text);
        const char *name = zconfig_name (child);
        if (!s_add_dataset (self, name, strlen (name), zconfig_value (child)))
            return false;
    }
    return true;
}

static bool
s_take_item (reading_t *self, zconfig_t *item, const char **text)
{
    setting_t setting;
    s_next_setting (self, text);
    const char *name = zconfig_name (item);
    if (!s_find (name, &setting)) {
        char shown [SHOWN_BYTES];
        const char *nearest = s_nearest (name, s_names, SET_COUNT);
        return s_fail (self, "unknown setting '%s'; %s%s%s", s_shown (name, shown),
            nearest? "did you mean ": "there are dataset, listen, cache, workers and policy",
            nearest? nearest: "", nearest? "?": "");
    }
    if (setting == SET_DATASET)
        return s_take_datasets (self, item, text);
    if (zconfig_child (item))
        return s_fail (self, "%s: nothing belongs below it", name);
    return s_set (self, setting, zconfig_value (item));
}

static bool
s_read_config (reading_t *self)
{
    self->file = self->config;
    self->line = 0;
    char *text = s_read_file (self);
    if (!text || !s_check_text (self, text)) {
        free (text);
        return false;
    }
    self->line = 0;
    zconfig_t *root = zconfig_str_load (text);
    bool good = root || s_fail (self, "is no ZPL");
    const char *at = text;
    for (zconfig_t *item = root? zconfig_child (root): NULL; item && good; item = zconfig_next (item))
        good = s_take_item (self, item, &at);
    zconfig_destroy (&root);
    free (text);
    self->file = NULL;
    return good;
}

//  --- The whole --------------------------------------------------------------------------------------------

static void
s_fill_defaults (options_t *self)
{
    if (!self->cache_bytes) {
        uint64_t quarter = machine_memory_bytes ("") / 4;
        self->cache_bytes = quarter? quarter: 1;
    }
    if (!self->workers) {
        uint32_t processors = machine_processors ("");
        self->workers = processors < OPTIONS_WORKERS_MAX? processors: OPTIONS_WORKERS_MAX;
    }
    if (!self->policy)
        s_replace (&self->policy, s_policies [0]);
}

options_status_t
options_parse (options_t *self, int argc, char **argv, char *error, size_t error_bytes)
{
    assert (error_bytes > 0);
    *self = (options_t) { 0 };
    *error = 0;
    reading_t reading = { .options = self, .error = error, .error_bytes = error_bytes };
    options_status_t status = s_read_arguments (&reading, argc, argv);
    if (status != OPTIONS_RUN)
        return status;
    if (reading.config && !s_read_config (&reading))
        return OPTIONS_ERROR;
    if (self->dataset_count == 0) {
        s_fail (&reading, "no data set: name one, as in tureen serve --dataset train=/data/train");
        return OPTIONS_ERROR;
    }
    s_fill_defaults (self);
    return OPTIONS_RUN;
}

void
options_clear (options_t *self)
{
    for (size_t index = 0; index < self->dataset_count; index++) {
        free (self->datasets [index].name);
        free (self->datasets [index].path);
    }
    free (self->listen);
    free (self->policy);
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
        "  --dataset NAME=PATH  serve the image folder PATH (a folder of JPEGs for each class) as NAME;\n"
        "                       a name has 1 to 64 letters, digits, '.', '_' or '-'; at least one,\n"
        "                       at most 64\n"
        "  --listen ENDPOINT    ipc://PATH or tcp://HOST:PORT\n"
        "                       (default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or where there is\n"
        "                       no such directory ipc:///tmp/tureen-UID/server.sock)\n"
        "  --cache BYTES        memory for prepared samples; K, M, G and T are powers of 1024: 512M, 4G\n"
        "                       (default: a quarter of the memory that this process may use, container\n"
        "                       limits included)\n"
        "  --workers N          threads that prepare samples, 1 to 1024\n"
        "                       (default: the processors that this process may use)\n"
        "  --policy NAME        how jobs of order \"shared\" come to common samples: follow or dsa (default: follow)\n"
        "  --config FILE        settings from a ZPL file, by the names above; what the command line says\n"
        "                       wins, data sets add up\n"
        "  -h, --help           this text\n"
        "\n"
        "Options may be written --name VALUE or --name=VALUE.\n"
        "\n"
        "Example:\n"
        "  tureen serve --dataset train=/data/imagenet/train --dataset val=/data/imagenet/val --cache 4G\n"
        "\n"
        "The same as a file:\n"
        "  cache = 4G\n"
        "  dataset\n"
        "      train = /data/imagenet/train\n"
        "      val = /data/imagenet/val\n";
}
