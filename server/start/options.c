//  The command line is read first and notes what it set; the file then fills in the rest.

#include "options_state.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "block_cache.h"
#include "machine.h"
#include "utf8.h"

#define OF_SERVER(member) OPTION_AT (options_t, member)
#define OF_DATASET(member) .role = ROLE_OF_DATASET, OPTION_AT (options_dataset_t, member)
#define OF_TENANT(member) .role = ROLE_OF_TENANT, OPTION_AT (options_tenant_t, member)
#define NAMED(its_role) .role = its_role, OPTION_CALL (NULL)

//  "/var/cache/tureen=200G": the size is behind the last '='.
static bool
s_take_block_cache (void *target, char *value, char error [OPTION_ERROR_BYTES])
{
    options_t *self = target;
    const char *equals = strrchr (value, '=');
    if (!equals || equals == value)
        return option_fail (error, "expected DIR=BYTES, as in /var/cache/tureen=200G");
    uint64_t bytes;
    if (!option_size (equals + 1, &bytes) || bytes < BLOCK_CACHE_LEAST_BYTES)
        return option_fail (error, "expected a size of 1M or more behind the '=', as in "
            "/var/cache/tureen=200G");
    free (self->blocks_folder);
    self->blocks_folder = options_copy (value, (size_t) (equals - value));
    self->blocks_bytes = bytes;
    return true;
}

static const option_row_t s_rows [] = {
    { "dataset", "NAME=PATH", NAMED (ROLE_DATASET),
        "serve the folder PATH (a folder of files for each class, files and a\n"
        "labels.tsv or labels.jsonl, or what `tureen pack` made) as NAME; PATH may\n"
        "also be s3://BUCKET/PREFIX, and of a pack http(s)://HOST/PATH; a name\n"
        "has 1 to 64 letters, digits, '.', '_' or '-'; at least one, at most 64" },
    { "listen", "ENDPOINT", OF_SERVER (listen),
        "ipc://PATH, tcp://HOST:PORT, or one of each: ipc://PATH,tcp://HOST:PORT\n"
        "(default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or where there is\n"
        "no such directory ipc:///tmp/tureen-UID/server.sock)" },
    { "cache", "BYTES", OF_SERVER (cache_bytes),
        "memory for prepared samples; K, M, G and T are powers of 1024: 512M, 4G\n"
        "(default: a quarter of the memory that this process may use, container\n"
        "limits included)", 1, .unit = OPTION_BYTES },
    { "raw", "BYTES", OF_SERVER (raw_bytes),
        "memory for compressed samples of packs (default: an eighth of the memory)",
        1, .unit = OPTION_BYTES },
    { "jpeg-rows", "BYTES", OF_SERVER (rows_bytes),
        "memory for where the rows of JPEGs of folders begin, by which crops are decoded\n"
        "faster; it is found out while they are decoded, and takes about 1 % of a file's\n"
        "bytes; 0: none (default: 64M)", 0, .unit = OPTION_BYTES },
    { "jpeg-rows-dir", "DIR", OF_SERVER (rows_folder),
        "a folder that keeps where rows begin from one server to the next, in a file for\n"
        "each data set (default: it is found out anew)" },
    { "block-cache", "DIR=BYTES", OPTION_CALL (s_take_block_cache),
        "a folder of the local disk that keeps what is read of object stores, also for later\n"
        "servers; it never takes more than BYTES (default: nothing is kept)" },
    { "members", "HOST:PORT[=BYTES],.. | etcd://HOST:PORT/PREFIX", OF_SERVER (members),
        "servers that keep blocks of object stores for each other, this one among them:\n"
        "one of them fetches a block, and keeps it while its block cache of BYTES has room\n"
        "(default: as much as this server's; docs/cluster_cache.md)" },
    { "member", "HOST:PORT", OF_SERVER (member),
        "by which the other members reach this server" },
    { "member-keys", "DIR", OF_SERVER (member_keys),
        "the folder with the key pair (server, server_secret) that all members have\n"
        "(default: that of --keys)" },
    { "reads", "N", OF_SERVER (reads),
        "reads under way at once on each device, 1 to 128 (default: as\n"
        "measured; status shows them)", 1, OPTIONS_READS_MAX },
    { "patience", "SECONDS", OF_SERVER (patience),
        "how long reads that fail, and may not fail for good (EIO, ESTALE, a network), are\n"
        "tried again before a sample is bad, or the jobs of a disk that is away end\n"
        "(default: 300)", 1, OPTIONS_PATIENCE_MAX },
    { "workers", "N", OF_SERVER (workers),
        "threads that prepare samples, 1 to 1024\n"
        "(default: the processors that this process may use)", 1, OPTIONS_WORKERS_MAX },
    { "job-cost", "MS", OF_SERVER (job_cost_ms),
        "milliseconds of one processor that a job's pipeline may take for a sample, as foreseen\n"
        "from its operations and sizes; a job beyond that is refused (default: 1000)",
        1, OPTIONS_JOB_COST_MAX },
    { "policy", "NAME", OF_SERVER (policy),
        "how jobs of order \"shared\" come to common samples: follow or dsa (default: follow)",
        .choices = OPTION_CHOICES ("follow", "dsa") },
    { "until-idle", "[SECONDS]", OF_SERVER (until_idle),
        "end when the last job has gone and none has come for so long (10 seconds without\n"
        "a number); before the first job has come at least 60 seconds", 1, OPTIONS_IDLE_MAX, .absent = "10" },
    { "supervise", NULL, OF_SERVER (supervise),
        "start the server again when it has died (of a signal, an abort), however often" },
    { "open", NULL, OF_SERVER (open),
        "serve every client that can connect: without it a tcp address needs --keys, and\n"
        "only an address of this machine itself may be open; on ipc users are not told apart" },
    { "http", "[ADDRESS:]PORT|unix:PATH", OF_SERVER (http),
        "show what the server does: a page, /metrics for Prometheus, /status.json\n"
        "(docs/monitoring.md; default: nothing; PORT alone: of 127.0.0.1)" },
    { "http-tokens", "FILE", OF_SERVER (http_tokens),
        "only to those who have a token of this file, a line each: TENANT TOKEN, or\n"
        "* TOKEN for all that operators see" },
    { "log-format", "text|json", OF_SERVER (log_format),
        "of the lines that the server writes: for people (default), or a JSON object each",
        .choices = OPTION_CHOICES ("text", "json") },
    { "config", "FILE", .role = ROLE_COMMAND_LINE, OPTION_CALL (NULL),
        "settings from a ZPL file, by these names; what the command line says wins,\n"
        "data sets, fields and users add up" },
    { "field", "NAME.FIELD=mask:DIR, NAME.FIELD=image:DIR, NAME.FIELD=file:DIR", NAMED (ROLE_FIELD),
        "each sample has a second file, in DIR under the same name but for the\n"
        "extension: the field FIELD (letters, digits, '_'); masks keep their values;\n"
        "at most 7", .heading = "Of a data set NAME, each as often as needed:" },
    { "extensions", "NAME=.wav,.flac", .role = ROLE_OF_DATASET, OPTION_CALL (options_take_extensions),
        "which files are samples (default: torchvision's image extensions)" },
    { "on-bad", "NAME=drop|fail", OF_DATASET (bad_is_fatal),
        "samples that cannot be read leave the data (drop, the default), or\n"
        "end the jobs that have such a sample in their data (fail)",
        .choices = OPTION_CHOICES ("drop", "fail") },
    { "jpeg-warnings", "NAME=N", OF_DATASET (jpeg_warnings_max),
        "a JPEG that libjpeg warns of more than N times is bad (default: any number\n"
        "is read)", 0, 999999999 },
    { "tier", "NAME=stream|redox|direct", OF_DATASET (tier),
        "how a pack is read: stream: whole pieces in random order, shared by jobs in step\n"
        "(default); redox: as the Redox paper has it; direct: sample by sample",
        .choices = OPTION_CHOICES ("stream", "redox", "direct") },
    { "piece", "NAME=N", OF_DATASET (piece),
        "samples of a piece, 1 to 64 (default: as measured; status shows it)", 1, OPTIONS_PIECE_MAX },
    { "listing", "NAME=kept|anew", OF_DATASET (list_anew),
        "objects of a store: as the list in the block cache says, if there is one (kept,\n"
        "the default), or listed anew", .choices = OPTION_CHOICES ("kept", "anew") },
    { "allow-empty", "NAME=no|yes", OF_DATASET (allow_empty),
        "yes: a class folder without a sample is a class, as in ImageFolder (allow_empty=True),\n"
        "so that labels are those of other splits (default: an error)",
        .choices = OPTION_CHOICES ("no", "yes") },
    { "classes-from", "NAME=DATASET", OF_DATASET (classes_from),
        "labels are the numbers that the data set DATASET gives to classes of these names\n"
        "(default: NAME's own classes are numbered)" },
    { "operation", "NAME=COMMAND", NAMED (ROLE_OPERATION),
        "a program that is an operation of pipelines, {\"op\": \"custom\", \"name\": \"NAME\"}; it runs\n"
        "in processes of its own (docs/operation.md); at most 8, each as often as needed",
        .heading = "Of operations of your own:" },
    { "operation-memory", "BYTES", OF_SERVER (operation_bytes),
        "address space of each of their processes (default: 4G)", 64 << 20, .unit = OPTION_BYTES },
    { "operation-seconds", "N", OF_SERVER (operation_seconds),
        "the longest that one may take for a sample, 1 to 3600 (default: 30)",
        1, OPTIONS_OPERATION_SECONDS_MAX },
    { "tenant", "NAME=USER,USER", NAMED (ROLE_TENANT),
        "users of this machine, by name or number, that share the tenant's limits; '-':\n"
        "none, but keys",
        .heading = "Of users beside the server's own, served as tenants (docs/operations.md):" },
    { "tenant-datasets", "NAME=DATASET,DATASET", NAMED (ROLE_TENANT_DATASETS),
        "what it may use; '*': all data sets (default: none)" },
    { "tenant-weight", "NAME=N", OF_TENANT (weight),
        "its part of the workers and the cache when they are short, 1 to 1000 (default: 1)",
        1, OPTIONS_WEIGHT_MAX },
    { "tenant-jobs", "NAME=N", OF_TENANT (jobs_max), NULL, 1, OPTIONS_JOBS_MAX },
    { "tenant-batches", "NAME=BYTES", OF_TENANT (batches_bytes_max),
        "the most jobs it may have at once, and memory for their batches\n"
        "(default: its share by weight of all there may be)", 1, .unit = OPTION_BYTES },
    { "tenant-cache", "NAME=BYTES", OF_TENANT (cache_bytes_max),
        "the most prepared samples it may keep (default: what others leave)", 1, .unit = OPTION_BYTES },
    { "group", "NAME", OPTION_CALL (options_take_group),
        "the group that may reach the ipc socket; its folder becomes the group's (0750)" },
    { "keys", "DIR", OF_SERVER (keys), "encrypt tcp, and serve those keys that `tureen key allow` let in" }
};

static bool s_set_option (void *target, const option_row_t *row, char *value,
    char error [OPTION_ERROR_BYTES]);

const option_table_t options_table = { "tureen serve", s_rows, OPTION_ROWS (s_rows), .is_strict = true,
    .set = s_set_option, .word_hint = "data sets are given as --dataset NAME=PATH", .before =
    "usage: tureen serve --dataset NAME=PATH [--dataset NAME=PATH ...] [options]\n"
    "\n"
    "Prepares samples of the data sets once for several training jobs, and gives each job its batches.\n"
    "\n", .after =
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
    "      val = fail\n" };

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
options_value (settings_t *self, const option_row_t *row, void *target, char *value)
{
    char expected [OPTION_ERROR_BYTES], shown [OPTIONS_SHOWN_BYTES];
    return option_value (row, target, value, expected)
        || options_fail (self, "%s: %s, got '%s'", row->name, expected, options_shown (value, shown));
}

//  "KEY=VALUE", as the command line has it.
static bool
s_set_named (settings_t *self, const option_row_t *row, const char *value)
{
    char shown [OPTIONS_SHOWN_BYTES], form [OPTION_FORM_BYTES];
    const char *equals = strchr (value, '=');
    if (equals)
        return options_set_named (self, row, value, (size_t) (equals - value), equals + 1);
    return options_fail (self, "%s: expected %s, got '%s'", row->name, option_form (row, form),
        options_shown (value, shown));
}

bool
options_set (settings_t *self, const option_row_t *row, char *value)
{
    char shown [OPTIONS_SHOWN_BYTES];
    size_t index = (size_t) (row - s_rows);
    if (options_is_named (row))
        return s_set_named (self, row, value);
    if (!*value)
        return options_fail (self, "%s: the value is missing", row->name);
    if (self->file && self->given_in_file [index])
        return options_fail (self, "%s: it is there twice, now as '%s'", row->name,
            options_shown (value, shown));
    self->given_in_file [index] = self->file;
    options_t checked = { 0 };
    bool good = options_value (self, row, self->file && self->result.given [index]? &checked: self->options,
        value);
    options_clear (&checked);
    return good;
}

static bool
s_set_option (void *target, const option_row_t *row, char *value, char error [OPTION_ERROR_BYTES])
{
    settings_t *self = target;
    *error = 0;                         //  options_fail writes its own text
    if (row->role != ROLE_COMMAND_LINE)
        return options_set (self, row, value);
    if (self->config)
        return options_fail (self, "--config is given twice: %s and %s", self->config, value);
    self->config = value;
    return true;
}

//  --- The whole --------------------------------------------------------------------------------------------

static void
s_fill_defaults (options_t *self)
{
    if (!self->cache_bytes) {
        uint64_t quarter = machine_memory_bytes ("") / 4;
        self->cache_bytes = quarter? quarter: 1;
    }
    self->raw_is_given = self->raw_bytes > 0;
    if (!self->raw_is_given) {
        uint64_t eighth = machine_memory_bytes ("") / 8;
        self->raw_bytes = eighth? eighth: 1;
    }
    if (!self->workers) {
        uint32_t processors = machine_processors ("");
        self->workers = processors < OPTIONS_WORKERS_MAX? processors: OPTIONS_WORKERS_MAX;
    }
    if (!self->patience)
        self->patience = OPTIONS_PATIENCE_SECONDS;
    if (!self->job_cost_ms)
        self->job_cost_ms = OPTIONS_JOB_COST_MS;
    if (!self->policy)
        self->policy = options_copy ("follow", strlen ("follow"));
}

//  The defaults for settings that the arguments leave out.
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

option_status_t
options_parse (options_t *self, int argc, char **argv, char *error, size_t error_bytes)
{
    assert (error_bytes > 0);
    *self = (options_t) { .rows_bytes = OPTIONS_ROWS_BYTES, .operation_bytes = OPTIONS_OPERATION_BYTES,
        .operation_seconds = OPTIONS_OPERATION_SECONDS };
    *error = 0;
    char reason [OPTION_ERROR_BYTES] = "";
    settings_t reading = { .options = self, .error = error, .error_bytes = error_bytes };
    option_status_t status = option_read (&options_table, &reading, argc, argv, &reading.result, reason);
    if (*reason)
        options_fail (&reading, "%s", reason);
    if (status == OPTION_RUN && !s_complete (&reading))
        status = OPTION_WRONG;
    options_forget (&reading);
    return status;
}

void
options_clear (options_t *self)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        options_clear_dataset (&self->datasets [index]);
    for (size_t index = 0; index < self->operation_count; index++) {
        free (self->operations [index].name);
        free (self->operations [index].command);
    }
    options_clear_tenants (self);
    free (self->listen);
    free (self->rows_folder);
    free (self->blocks_folder);
    free (self->members);
    free (self->member);
    free (self->member_keys);
    free (self->policy);
    free (self->group);
    free (self->keys);
    free (self->log_format);
    free (self->http);
    free (self->http_tokens);
    *self = (options_t) { 0 };
}

void
options_help (FILE *stream)
{
    option_help (&options_table, stream);
}
