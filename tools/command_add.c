//  `tureen add`: a running server serves further data sets.  `tureen remove`: it serves one no more.
//
//  happy path:     ADD -> ADDING opening -> the same ADD again .. -> ADDING ready: its lines are printed
//  failure modes:  no answer, or ERROR with the server's reason: said, status 1.  A command that is ended
//                  while the server opens the data sets leaves it at that.

#include "command.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <jansson.h>
#include "complain.h"
#include "control.h"
#include "option.h"
#include "options.h"
#include "progress.h"
#include "xalloc.h"

enum { PATIENCE_MS = 5000, PAUSE_MS = 100, QUICK_ASKS = 30, LATER_PAUSE_MS = 500 };

typedef struct {
    tureen_options_t options;           //  endpoint and keys
    bool now;                           //  `remove` alone
    const char *command;                //  "add" or "remove"
    json_t *words;                      //  of data sets, as `tureen serve` takes them
    control_t question;
} change_t;

//  ---- words

static bool
s_is_address (const char *path)
{
    const char *scheme = strstr (path, "://");
    return scheme && strcspn (path, "/") == (size_t) (scheme - path) + 1;
}

//  As the server, which has another working folder, finds it; malloc'ed.
static char *
s_absolute (const char *path)
{
    char folder [PATH_MAX], *real = s_is_address (path)? NULL: realpath (path, NULL);
    if (real)
        return real;
    if (s_is_address (path) || *path == '/' || !*path || !getcwd (folder, sizeof folder))
        return xalloc_memory (strdup (path));
    return xalloc_text ("%s/%s", folder, path);
}

//  Appends both.  False: not UTF-8.
static bool
s_append (json_t *words, const char *name, const char *value)
{
    return json_array_append_new (words, json_string (name)) == 0
        && json_array_append_new (words, json_string (value)) == 0;
}

//  "NAME=PATH", and of a field "NAME.FIELD=KIND:PATH": with a whole path.
static bool
s_append_path (json_t *words, const char *option, const char *value, char before_path)
{
    const char *path = strchr (value, '=');
    if (path && before_path == ':')
        path = strchr (path, ':');
    if (!path)
        return s_append (words, option, value);         //  the server says what is wrong with it
    char *whole = s_absolute (path + 1),
        *word = xalloc_text ("%.*s%s", (int) (path + 1 - value), value, whole);
    bool good = s_append (words, option, word);
    free (whole);
    free (word);
    return good;
}

//  An option of a data set becomes two words; the others are of this command.
static bool
s_set (void *target, const option_row_t *row, char *value, char error [OPTION_ERROR_BYTES])
{
    change_t *self = target;
    char option [80], why [OPTION_ERROR_BYTES];
    if (!row->role)
        return option_value (row, target, value, why) || option_fail (error, "--%s: %s", row->name, why);
    snprintf (option, sizeof option, "--%s", row->name);
    bool good = strcmp (row->name, "field") == 0? s_append_path (self->words, option, value, ':')
        : s_append (self->words, option, value);
    return good || option_fail (error, "--%s: its value is not UTF-8", row->name);
}

//  The words that name the data sets.
static bool
s_take_datasets (change_t *self, const option_result_t *result)
{
    if (result->word_count == 0)
        return complain (self->command, "no data set: expected NAME=PATH; see `tureen add --help`");
    for (size_t index = 0; index < result->word_count; index++) {
        const char *word = result->words [index], *equals = strchr (word, '=');
        if (!equals || equals == word || !equals [1])
            return complain (self->command, "expected NAME=PATH, got '%s'", word);
        if (!s_append_path (self->words, "--dataset", word, '='))
            return complain (self->command, "a data set's name and path must be UTF-8");
    }
    return true;
}

//  ---- the server

static bool
s_open (change_t *self)
{
    message_error_t error = { "" };
    return control_open (&self->question, &self->options, &error) == 0
        || complain_of_options (self->command, error.text);
}

//  The answer, a new reference; NULL: what came instead was said.
static json_t *
s_ask (change_t *self, wire_kind_t kind, const json_t *request, wire_kind_t reply, progress_t *progress)
{
    message_error_t error = { "" };
    char *text, *asked = xalloc_memory (json_dumps (request, JSON_COMPACT));
    int rc = control_ask (&self->question, kind, asked, reply, PATIENCE_MS, &text, &error);
    free (asked);
    if (rc)
        progress_clear (progress);
    if (rc == -EAGAIN || rc == -ETIMEDOUT)
        complain (self->command, "no server answers at %s%s: %s", self->question.address,
            rc == -EAGAIN? " within 5 seconds": "", self->question.how);
    else
    if (rc)
        complain (self->command, "%s", error.text);
    json_t *answer = rc? NULL: json_loads (text, 0, NULL);
    free (text);
    return answer;
}

//  True: the data sets are there, and their lines are printed.
static bool
s_is_ready (const json_t *answer)
{
    size_t index;
    const json_t *line, *lines = json_object_get (answer, "lines");
    json_array_foreach (lines, index, line)
        if (json_is_string (line))
            printf ("%s\n", json_string_value (line));
    return lines;
}

static bool
s_add (change_t *self)
{
    json_t *request = json_pack ("{s:O}", "arguments", self->words), *answer = NULL;
    progress_t progress = progress_begin (self->command, false);
    bool good = s_open (self), is_ready = false;
    for (unsigned asks = 0; good && !is_ready; asks++) {
        answer = s_ask (self, WIRE_ADD, request, WIRE_ADDING, &progress);
        const char *line = json_string_value (json_object_get (answer, "progress"));
        good = answer;
        if (good && line) {
            progress_say (&progress, line);
            usleep (1000 * (asks < QUICK_ASKS? PAUSE_MS: LATER_PAUSE_MS));
        }
        else
        if (good) {
            progress_clear (&progress);
            is_ready = s_is_ready (answer);
            good = is_ready || complain (self->command, "what answers is no server of ours");
        }
        json_decref (answer);
    }
    json_decref (request);
    return good;
}

static bool
s_remove (change_t *self, const char *name)
{
    json_t *request = json_pack ("{s:s,s:b}", "dataset", name, "now", self->now);
    if (!request)
        return complain (self->command, "a data set's name must be UTF-8");
    json_t *answer = s_open (self)? s_ask (self, WIRE_REMOVE, request, WIRE_REMOVED, NULL): NULL;
    const json_t *jobs = json_object_get (answer, "jobs");
    long long count = json_integer_value (jobs);
    bool good = answer && (json_is_integer (jobs)
        || complain (self->command, "what answers is no server of ours"));
    if (good && count == 0)
        printf ("data set '%s' is removed\n", name);
    else
    if (good)
        printf ("data set '%s' is removed, and %lld job%s with it\n", name, count,
            count == 1? " ends": "s end");
    json_decref (answer);
    json_decref (request);
    return good;
}

//  ---- the commands

//  -1: go on; else the exit status.
static int
s_parse (change_t *self, const option_table_t *table, int argc, char **argv, option_result_t *result)
{
    message_error_t error = { "" };
    int status = option_parse (table, self, argc, argv, result);
    if (status < 0 && !address_resolve (self->options.endpoint, self->question.address, &error)) {
        complain (self->command, "%s", error.text);
        status = 2;
    }
    return status;
}

//  Those of data sets stand in `tureen serve` (options.h).
static const char *const s_of_datasets [] = { "field", "extensions", "on-bad", "jpeg-warnings", "tier",
    "piece", "listing", "keep", "allow-empty", "classes-from" };

static const option_row_t s_add_rows [] = {
    COMMAND_SERVER_ROWS (change_t, options),
    { "tenant-datasets", "NAME=DATASET,DATASET", .role = 1, OPTION_CALL (NULL),
        "a tenant NAME that the server has may use these data sets too" }
};

enum { ADD_ROWS = OPTION_ROWS (s_add_rows), DATASET_ROWS = OPTION_ROWS (s_of_datasets) };

static option_table_t
s_add_table (option_row_t rows [ADD_ROWS + DATASET_ROWS])
{
    memcpy (rows, s_add_rows, sizeof s_add_rows);
    for (size_t index = 0; index < DATASET_ROWS; index++)
        rows [ADD_ROWS + index] = *option_row (options_table (), s_of_datasets [index]);
    return (option_table_t) { "tureen add", rows, ADD_ROWS + DATASET_ROWS, .set = s_set,
        .words_max = OPTIONS_DATASETS_MAX, .before =
        "usage: tureen add NAME=PATH [NAME=PATH ...] [--connect ENDPOINT] [--key PATH --server-key KEY]\n"
        "                  [options of data sets]\n"
        "\n"
        "Adds data sets to a running server, with the options that they have in `tureen serve`, and prints\n"
        "what it found.  All are added, or none.  Jobs on other data sets run on meanwhile.  Data sets that\n"
        "the server has already, with the same settings, are no error.  PATH is one of the server's\n"
        "machine.  Needs the rights of an operator: the server's own user, root, or a key that was allowed\n"
        "with --operator.\n"
        "\n", .after =
        "\n"
        "Exit status: 0 they are served, 1 no answer or refused, 2 unusable arguments.\n" };
}

int
command_add (int argc, char **argv)
{
    change_t self = { .command = "add", .options = { .timeout_ms = PATIENCE_MS },
        .words = xalloc_memory (json_array ()) };
    option_row_t rows [ADD_ROWS + DATASET_ROWS];
    option_result_t result;
    const option_table_t table = s_add_table (rows);
    complain_begin ();
    int status = s_parse (&self, &table, argc, argv, &result);
    if (status < 0)
        status = !s_take_datasets (&self, &result)? 2: s_add (&self)? 0: 1;
    control_close (&self.question);
    json_decref (self.words);
    return complain_of_output ("add", status);
}

static const option_row_t s_remove_rows [] = {
    COMMAND_SERVER_ROWS (change_t, options),
    { "now", NULL, OPTION_AT (change_t, now), "also if jobs use it: they end, with an error that says so" }
};

static const option_table_t s_remove_table = { "tureen remove", s_remove_rows, OPTION_ROWS (s_remove_rows),
    .words_max = 1, .before =
    "usage: tureen remove NAME [--now] [--connect ENDPOINT] [--key PATH --server-key KEY]\n"
    "\n"
    "Takes a data set from a running server.  Its files stay, and another one may have its name at once.\n"
    "Needs the rights of an operator: the server's own user, root, or a key that was allowed with\n"
    "--operator.\n"
    "\n", .after =
    "\n"
    "Exit status: 0 it is removed, 1 no answer or refused, 2 unusable arguments.\n" };

int
command_remove (int argc, char **argv)
{
    change_t self = { .command = "remove", .options = { .timeout_ms = PATIENCE_MS } };
    option_result_t result;
    complain_begin ();
    int status = s_parse (&self, &s_remove_table, argc, argv, &result);
    if (status < 0 && result.word_count == 0) {
        complain (self.command, "which data set?  See `tureen remove --help`");
        status = 2;
    }
    if (status < 0)
        status = s_remove (&self, result.words [0])? 0: 1;
    control_close (&self.question);
    return complain_of_output ("remove", status);
}
