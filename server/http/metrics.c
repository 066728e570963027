#include "metrics.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum { LABELS_BYTES = 2048, NAME_BYTES = 256 };
#define WHOLE_MAX 1e15                  //  each whole number below it is a double

//  One series of each object of a kind.  Rows of one name lie together, and differ in their label.
typedef struct {
    const char *name;                   //  without "tureen_", and a counter's without "_total"
    bool is_counter;
    const char *path;                   //  keys with dots between
    const char *help;
    const char *label, *value;          //  one more; NULL: none
} row_t;

typedef struct {
    FILE *file;
    bool is_open_metrics;
    const char *name;                   //  of the row before
} writer_t;

//  An object, and its labels in the form of the text: `dataset="train"`; "": none.
typedef struct {
    const json_t *object;
    char labels [LABELS_BYTES];
} subject_t;

#define ROWS(rows) (rows), sizeof (rows) / sizeof *(rows)

static const row_t s_server [] = {
    { "uptime_seconds", false, "uptime_seconds", "Time since the server began to serve.", NULL, NULL },
    { "draining", false, "draining", "1 while the server takes no new jobs and waits for its end.", NULL,
        NULL },
    { "jobs_joined", true, "jobs_total", "Jobs that have joined.", NULL, NULL },
    { "samples_prepared", true, "prepared", "Samples decoded and brought through a shared stage.", NULL,
        NULL },
    { "samples_delivered", true, "delivered", "Samples in batches that were sent to jobs.", NULL, NULL },
    { "cache_lookups", true, "cache_hits", "Drawn samples, by whether a prepared one existed.", "result",
        "hit" },
    { "cache_lookups", true, "cache_misses", NULL, "result", "miss" },
    { "cache_bytes", false, "cache_bytes", "Memory of prepared samples.", NULL, NULL },
    { "cache_limit_bytes", false, "cache_bytes_max", "The most memory for prepared samples.", NULL, NULL },
    { "cache_evictions", true, "evictions", "Prepared samples that made room for others.", NULL, NULL },
    { "cache_losses", true, "prepared_again", "Samples prepared again because the cache was too small.", NULL,
        NULL },
    { "raw_bytes", false, "raw_bytes", "Memory of compressed samples.", NULL, NULL },
    { "raw_limit_bytes", false, "raw_bytes_max", "The most memory for compressed samples.", NULL, NULL },
    { "memory_limit_bytes", false, "memory.mixing_bytes", "What --memory is divided into.", "part",
        "mixing" },
    { "memory_limit_bytes", false, "memory.prepared_bytes", NULL, "part", "prepared" },
    { "memory_limit_bytes", false, "memory.pins_bytes", NULL, "part", "pins" },
    { "pinned_memory_bytes", false, "memory.pinned_bytes", "Memory that pins take.", NULL, NULL },
    { "batches_bytes", false, "jobs_bytes", "Memory of jobs: their batches and bookkeeping.", NULL, NULL },
    { "batches_limit_bytes", false, "jobs_bytes_max", "The most memory for jobs.", NULL, NULL },
    { "bad_samples", true, "bad_samples", "Samples that were found unreadable.", NULL, NULL },
    { "read_failures", true, "read_failures", "Reads that failed, each try counted.", NULL, NULL },
    { "shortages", true, "shortages", "Tries that were put off for want of memory or descriptors.", NULL,
        NULL },
    { "processor_seconds", true, "cpu_seconds", "Processor time of the server.", NULL, NULL },
    { "workers_lost", true, "remote_workers_lost", "Workers on other machines that went without a goodbye.",
        NULL, NULL },
    { "descriptors", false, "descriptors.open", "File descriptors in use.", NULL, NULL },
    { "descriptors_limit", false, "descriptors.max", "The most file descriptors.", NULL, NULL },
    { "requests_unanswered", true, "unanswered", "Refusals that were not sent, beyond 50 a second of a user.",
        NULL, NULL },
    { "requests_waiting", false, "waiting_requests", "Requests that wait.", NULL, NULL },
    { "log_lines_lost", true, "log_lines_lost", "Log lines that were lost because the log was not read.",
        NULL, NULL },
    { "restarts", true, "restarts", "How often the supervisor has started the server again.", NULL, NULL },
    { "block_cache_bytes", false, "block_cache.bytes", "What the cache on the local disk takes of it.", NULL,
        NULL },
    { "block_cache_limit_bytes", false, "block_cache.bytes_max", "The most that it may take.", NULL, NULL },
    { "block_cache_aside", false, "block_cache.aside", "1 while its disk does not answer in time.", NULL,
        NULL },
    { "peers_given_bytes", true, "cluster.given.bytes", "Bytes of blocks that other members were given.",
        NULL, NULL },
    { "peers_given_blocks", true, "cluster.given.blocks", "Answers with these bytes.", NULL, NULL },
    { "peers_given_fetched", true, "cluster.given.fetched", "Of these, those read of the store first.", NULL,
        NULL },
    { "peers_waiting_questions", false, "cluster.given.waiting", "Questions of other members that wait.",
        NULL, NULL },
    { "peers_rejected", true, "cluster.given.rejected", "Connections without the members' key.", NULL, NULL }
};

static const row_t s_datasets [] = {
    { "dataset_samples", false, "samples", "Samples of the data set.", NULL, NULL },
    { "dataset_bytes", false, "bytes", "Bytes of its files.", NULL, NULL },
    { "dataset_pinned_bytes", false, "pins.bytes", "Bytes of its files that stay in memory.", NULL, NULL },
    { "dataset_pinned_saved_seconds", true, "pins.saved_seconds",
        "How long its devices would have read what came from pins, about.", NULL, NULL },
    { "dataset_bad_samples", false, "bad_samples", "Its unreadable samples.", NULL, NULL },
    { "dataset_failing_reads", false, "trouble.failing", "Reads that failed and wait to be tried again.",
        NULL, NULL },
    { "dataset_read_bytes", true, "pack.source_bytes", "Bytes read, by where they came from.", "source",
        "storage" },
    { "dataset_read_bytes", true, "pack.block_cache_bytes", NULL, "source", "block_cache" },
    { "dataset_read_bytes", true, "pack.peer_bytes", NULL, "source", "peers" },
    { "dataset_read_bytes", true, "pins.hit_bytes", NULL, "source", "pins" },
    { "dataset_read_bytes", true, "objects.source_bytes", NULL, "source", "storage" },
    { "dataset_read_bytes", true, "objects.block_cache_bytes", NULL, "source", "block_cache" },
    { "dataset_read_bytes", true, "objects.peer_bytes", NULL, "source", "peers" },
    { "dataset_read_seconds", true, "pack.source_seconds", "Time that reads took, each its own, by source.",
        "source", "storage" },
    { "dataset_read_seconds", true, "pack.block_cache_seconds", NULL, "source", "block_cache" },
    { "dataset_read_seconds", true, "pack.peer_seconds", NULL, "source", "peers" },
    { "dataset_read_seconds", true, "objects.source_seconds", NULL, "source", "storage" },
    { "dataset_read_seconds", true, "objects.block_cache_seconds", NULL, "source", "block_cache" },
    { "dataset_read_seconds", true, "objects.peer_seconds", NULL, "source", "peers" },
    { "dataset_store_requests", true, "pack.gets", "Requests to an object store.", NULL, NULL },
    { "dataset_store_requests", true, "objects.gets", NULL, NULL, NULL },
    { "dataset_store_slow_requests", true, "pack.slow_gets",
        "Of these, requests that were far slower than others, and were made again.", NULL, NULL },
    { "dataset_store_slow_requests", true, "objects.slow_gets", NULL, NULL, NULL },
    { "dataset_resident_samples", false, "pack.resident_samples", "Compressed samples in memory.", NULL,
        NULL },
    { "dataset_memory_hits", true, "pack.hits", "Samples of a pack that lay in memory when drawn.", NULL,
        NULL },
    { "dataset_memory_misses", true, "pack.misses", "Samples of a pack that were read one by one.", NULL,
        NULL },
    { "dataset_handed_bytes", true, "pack.bytes_handed", "Bytes of a pack's samples that were handed out.",
        NULL, NULL }
};

static const row_t s_jobs [] = {
    { "job_epoch", false, "consumed_epoch", "The newest epoch of which the job's loop has samples.", NULL,
        NULL },
    { "job_epoch_samples", false, "epoch_samples", "Samples of an epoch.", NULL, NULL },
    { "job_epoch_consumed_samples", false, "epoch_consumed", "Samples of it that the loop has taken.", NULL,
        NULL },
    { "job_samples_consumed", true, "consumed_samples", "Samples that the loop has taken.", NULL, NULL },
    { "job_samples_drawn", true, "sharing.places", "Samples that were drawn for the job.", NULL, NULL },
    { "job_samples_shared", true, "sharing.shared", "Of these, those that served other jobs too.", NULL,
        NULL },
    { "job_read_bytes", true, "reads.bytes", "Bytes that were read for its samples, those from pins too.",
        NULL, NULL },
    { "job_pinned_read_bytes", true, "reads.pinned_bytes", "Of these, those from pins.", NULL, NULL },
    { "job_pinned_saved_seconds", true, "reads.saved_seconds",
        "How long devices would have read what came from pins for it, about.", NULL, NULL },
    { "job_wait_seconds", true, "waits.draw", "What the job's time since its start went to, by cause.",
        "cause", "draw" },
    { "job_wait_seconds", true, "waits.read", NULL, "cause", "read" },
    { "job_wait_seconds", true, "waits.memory", NULL, "cause", "memory" },
    { "job_wait_seconds", true, "waits.decode", NULL, "cause", "decode" },
    { "job_wait_seconds", true, "waits.copy", NULL, "cause", "copy" },
    { "job_wait_seconds", true, "waits.client", NULL, "cause", "client" },
    { "job_window_samples", false, "window.drawn_samples", "Samples of the window, by their state.", "state",
        "drawn" },
    { "job_window_samples", false, "window.filled_samples", NULL, "state", "filled" },
    { "job_batches_bytes", false, "ring_bytes", "Memory of the job's batches.", NULL, NULL },
    { "job_ranks", false, "world_size", "Processes that share the job.", NULL, NULL },
    { "job_unreadable_samples", false, "unreadable.count", "Unreadable samples left out of its data.", NULL,
        NULL }
};

//  Of jobs with several.
static const row_t s_ranks [] = {
    { "rank_wait_seconds", true, "waits.draw", "What a rank's time since its job's start went to, by cause.",
        "cause", "draw" },
    { "rank_wait_seconds", true, "waits.read", NULL, "cause", "read" },
    { "rank_wait_seconds", true, "waits.memory", NULL, "cause", "memory" },
    { "rank_wait_seconds", true, "waits.decode", NULL, "cause", "decode" },
    { "rank_wait_seconds", true, "waits.copy", NULL, "cause", "copy" },
    { "rank_wait_seconds", true, "waits.client", NULL, "cause", "client" },
    { "rank_wait_seconds", true, "waits.other_rank", NULL, "cause", "other_rank" },
    { "rank_batches_consumed", true, "consumed_batches", "Batches that the rank's loop has taken.", NULL,
        NULL }
};

static const row_t s_tenants [] = {
    { "tenant_jobs", false, "jobs", "Present jobs.", NULL, NULL },
    { "tenant_samples_prepared", true, "prepared", "Samples prepared for its jobs.", NULL, NULL },
    { "tenant_samples_delivered", true, "delivered", "Samples sent to its jobs.", NULL, NULL },
    { "tenant_cache_bytes", false, "cache_bytes", "Its part of the prepared samples.", NULL, NULL },
    { "tenant_batches_bytes", false, "batches_bytes", "Memory of its jobs.", NULL, NULL },
    { "tenant_worker_seconds", true, "worker_seconds", "Processor time of workers charged to it.", NULL,
        NULL },
    { "tenant_waiting_samples", false, "waiting_samples", "Samples that wait for a worker.", NULL, NULL }
};

static const row_t s_devices [] = {
    { "device_reads_limit", false, "reads_max", "Reads that may be under way at once.", NULL, NULL },
    { "device_reads", true, "observed_reads", "Reads that were measured.", NULL, NULL }
};

static const row_t s_members [] = {
    { "member_homes", false, "homes", "The part of all blocks of which the member is the home.", NULL, NULL },
    { "member_away", false, "is_away", "1: it does not answer, and its blocks come from the store.", NULL,
        NULL },
    { "member_bytes", true, "bytes", "Bytes that it gave to this server.", NULL, NULL },
    { "member_blocks", true, "blocks", "Answers with these bytes.", NULL, NULL },
    { "member_seconds", true, "seconds", "Time from question to answer, each its own.", NULL, NULL },
    { "member_unanswered", true, "late", "Questions that gave no bytes, by reason.", "reason", "late" },
    { "member_unanswered", true, "damaged", NULL, "reason", "damaged" },
    { "member_unanswered", true, "store_quicker", NULL, "reason", "store_quicker" },
    { "member_unanswered", true, "refused.busy", NULL, "reason", "busy" },
    { "member_unanswered", true, "refused.full", NULL, "reason", "full" },
    { "member_unanswered", true, "refused.not_home", NULL, "reason", "not_home" },
    { "member_unanswered", true, "refused.unknown_data", NULL, "reason", "unknown_data" },
    { "member_unanswered", true, "refused.failed", NULL, "reason", "failed" }
};

static const row_t s_workers [] = {
    { "worker_processors", false, "processors", "Processors that the machine lends.", NULL, NULL },
    { "worker_tasks", false, "out", "Tasks that it has.", NULL, NULL },
    { "worker_samples", true, "done", "Tasks, by what became of them.", "result", "done" },
    { "worker_samples", true, "lost", NULL, "result", "lost" },
    { "worker_samples", true, "taken_back", NULL, "result", "taken_back" },
    { "worker_sent_bytes", true, "bytes_sent", "Bytes sent to it.", NULL, NULL },
    { "worker_received_bytes", true, "bytes_received", "Bytes that it sent.", NULL, NULL }
};

static const row_t s_operations [] = {
    { "operation_calls", true, "calls", "Samples given to an operation of the operator's own.", NULL, NULL },
    { "operation_failures", true, "failures", "Of these, it failed.", NULL, NULL },
    { "operation_restarts", true, "restarts", "Its processes that ended.", NULL, NULL },
    { "operation_seconds", true, "seconds", "Time that its calls took.", NULL, NULL },
    { "operation_cpu_seconds", true, "cpu_seconds", "Processor time of its processes.", NULL, NULL },
    { "operation_processes", false, "processes", "Its processes.", NULL, NULL }
};

//  ---- text

//  Behind `"`: as both formats want it.
static size_t
s_escape (char *target, size_t room, const char *text)
{
    size_t used = 0;
    for (; *text && used + 3 < room; text++) {
        if (*text == '\\' || *text == '"')
            target [used++] = '\\';
        target [used++] = *text;
    }
    target [used] = 0;
    return used;
}

static void
s_label (char labels [LABELS_BYTES], const char *name, const char *value)
{
    size_t used = strlen (labels);
    char escaped [LABELS_BYTES / 4];
    s_escape (escaped, sizeof escaped, value? value: "");
    snprintf (labels + used, LABELS_BYTES - used, "%s%s=\"%s\"", used? ",": "", name, utf8_mask (escaped));
}

static const json_t *
s_find (const json_t *object, const char *path)
{
    for (const char *next = path; object && next; ) {
        const char *dot = strchr (next, '.');
        char key [64];
        snprintf (key, sizeof key, "%.*s", dot? (int) (dot - next): (int) strlen (next), next);
        object = json_object_get (object, key);
        next = dot? dot + 1: NULL;
    }
    return object;
}

static void
s_head (writer_t *self, const char *name, const char *type, const char *help)
{
    //  A counter's family has no "_total" in OpenMetrics, and has it in the older format.
    const char *suffix = strcmp (type, "counter") == 0 && !self->is_open_metrics? "_total": "";
    fprintf (self->file, "# HELP tureen_%s%s %s\n# TYPE tureen_%s%s %s\n", name, suffix, help, name, suffix,
        type);
}

static void
s_value (writer_t *self, const char *name, const char *suffix, const char *labels, double value)
{
    fprintf (self->file, *labels? "tureen_%s%s{%s} ": "tureen_%s%s%s ", name, suffix, labels);
    //  Most are whole, and far cheaper to write so.
    if (fabs (value) < WHOLE_MAX && value == trunc (value))
        fprintf (self->file, "%lld\n", (long long) value);
    else
        fprintf (self->file, "%.17g\n", value);
}

static void
s_row (writer_t *self, const row_t *row, const char *help, const subject_t *subjects, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const json_t *found = s_find (subjects [index].object, row->path);
        if (!json_is_number (found) && !json_is_boolean (found))
            continue;
        if (!self->name || strcmp (self->name, row->name) != 0)
            s_head (self, row->name, row->is_counter? "counter": "gauge", help);
        self->name = row->name;
        char labels [LABELS_BYTES];
        snprintf (labels, sizeof labels, "%s", subjects [index].labels);
        if (row->label)
            s_label (labels, row->label, row->value);
        s_value (self, row->name, row->is_counter? "_total": "", labels,
            json_is_boolean (found)? json_is_true (found): json_number_value (found));
    }
}

static void
s_rows (writer_t *self, const row_t *rows, size_t row_count, const subject_t *subjects, size_t count)
{
    const char *help = NULL;
    for (size_t index = 0; index < row_count; index++) {
        help = rows [index].help? rows [index].help: help;
        s_row (self, &rows [index], help, subjects, count);
    }
}

//  ---- what there is

static bool
s_is_taken (const subject_t *subjects, size_t count, const char *labels)
{
    for (size_t index = 0; index < count; index++)
        if (strcmp (subjects [index].labels, labels) == 0)
            return true;
    return false;
}

//  The objects of a list, each with a label; *count_p of them.  Yours to free; NULL: none.  Two workers may
//  have one name, and no two series may: the second is "NAME#2".
static subject_t *
s_subjects (const json_t *list, const char *label, const char *key, size_t *count_p)
{
    *count_p = 0;
    subject_t *subjects = calloc (json_array_size (list) + 1, sizeof *subjects);
    for (size_t index = 0; subjects && index < json_array_size (list); index++) {
        subject_t *subject = &subjects [index];
        subject->object = json_array_get (list, index);
        const char *name = json_string_value (json_object_get (subject->object, key));
        size_t number = 1;
        do {
            char numbered [NAME_BYTES];
            snprintf (numbered, sizeof numbered, number > 1? "%.200s#%zu": "%.200s", name? name: "", number);
            subject->labels [0] = 0;
            s_label (subject->labels, label, numbered);
            number++;
        } while (s_is_taken (subjects, index, subject->labels));
        ++*count_p;
    }
    return subjects;
}

static void
s_list (writer_t *self, const json_t *list, const char *label, const char *key, const row_t *rows,
    size_t row_count)
{
    size_t count;
    subject_t *subjects = s_subjects (list, label, key, &count);
    s_rows (self, rows, row_count, subjects, count);
    free (subjects);
}

//  What was delivered to jobs that are there no more is what is left of all.
static void
s_delivered (writer_t *self, const json_t *status, const subject_t *jobs, size_t count)
{
    const json_t *all = json_object_get (status, "delivered");
    if (!all)
        all = s_find (status, "tenant.delivered");
    double gone = json_number_value (all);
    s_head (self, "job_samples_delivered", "counter", "Samples in batches that were sent to the job.");
    for (size_t index = 0; index < count; index++) {
        double delivered = json_number_value (json_object_get (jobs [index].object, "delivered_samples"));
        s_value (self, "job_samples_delivered", "_total", jobs [index].labels, delivered);
        gone -= delivered;
    }
    s_value (self, "job_samples_delivered", "_total", "number=\"gone\"", gone > 0? gone: 0);
}

//  ---- histograms

static const char *const s_causes [] = { "draw", "read", "memory", "decode", "copy", "client" };
enum { CAUSES = sizeof s_causes / sizeof *s_causes, BUCKETS_MAX = 16 };

typedef struct {
    double bounds [BUCKETS_MAX];        //  of all buckets but the last
    size_t count;                       //  buckets
    double batches [BUCKETS_MAX];       //  in each
    double sum;                         //  seconds
} histogram_t;

//  Of `batch_waits` and a cause; of a job's where that took no time, all its batches are in the first bucket.
static histogram_t
s_histogram (const json_t *waits, const char *cause)
{
    const json_t *object = json_object_get (waits, cause), *bounds = json_object_get (waits, "bounds"),
        *counts = json_object_get (object, "counts");
    histogram_t histogram = { .count = json_array_size (bounds) + 1,
        .sum = json_number_value (json_object_get (object, "sum")) };
    histogram.count = histogram.count < BUCKETS_MAX? histogram.count: BUCKETS_MAX;
    for (size_t bucket = 0; bucket < histogram.count; bucket++) {
        histogram.bounds [bucket] = json_number_value (json_array_get (bounds, bucket));
        histogram.batches [bucket] = json_number_value (json_array_get (counts, bucket));
    }
    if (!object)
        histogram.batches [0] = json_number_value (json_object_get (waits, "batches"));
    return histogram;
}

//  The buckets add up, as both formats want it.
static void
s_write_histogram (writer_t *self, const char *name, const char *own_labels, const char *cause,
    const histogram_t *histogram)
{
    char labels [LABELS_BYTES], with_bound [LABELS_BYTES], bound [32];
    double sum = 0;
    snprintf (labels, sizeof labels, "%s", own_labels);
    s_label (labels, "cause", cause);
    for (size_t bucket = 0; bucket < histogram->count; bucket++) {
        snprintf (bound, sizeof bound, "%g", histogram->bounds [bucket]);
        if (self->is_open_metrics && !strpbrk (bound, ".e"))
            strcat (bound, ".0");       //  as that format wants it
        snprintf (with_bound, sizeof with_bound, "%s", labels);
        s_label (with_bound, "le", bucket + 1 == histogram->count? "+Inf": bound);
        sum += histogram->batches [bucket];
        s_value (self, name, "_bucket", with_bound, sum);
    }
    s_value (self, name, "_sum", labels, histogram->sum);
    s_value (self, name, "_count", labels, sum);
}

static void
s_all_causes (writer_t *self, const json_t *waits, const char *tenant)
{
    char labels [LABELS_BYTES] = "";
    if (tenant)
        s_label (labels, "tenant", tenant);
    for (size_t cause = 0; cause < CAUSES; cause++) {
        histogram_t histogram = s_histogram (waits, s_causes [cause]);
        s_write_histogram (self, "batch_wait_seconds", labels, s_causes [cause], &histogram);
    }
}

static void
s_histograms (writer_t *self, const json_t *status)
{
    size_t index;
    json_t *tenants = json_object_get (status, "tenants"), *own = json_object_get (status, "tenant"), *tenant;
    s_head (self, "batch_wait_seconds", "histogram",
        "How long a batch was waited for, by cause; each batch is counted under all causes.");
    if (!tenants && !own)
        s_all_causes (self, json_object_get (status, "batch_waits"), NULL);
    if (own)
        s_all_causes (self, json_object_get (own, "batch_waits"),
            json_string_value (json_object_get (own, "name")));
    json_array_foreach (tenants, index, tenant)
        s_all_causes (self, json_object_get (tenant, "batch_waits"),
            json_string_value (json_object_get (tenant, "name")));
}

//  Not "job": Prometheus gives each series a label of that name, its own.
static void
s_label_number (char labels [LABELS_BYTES], const json_t *job)
{
    char number [32];
    snprintf (number, sizeof number, "%lld", (long long) json_integer_value (json_object_get (job, "job")));
    s_label (labels, "number", number);
}

//  With every second bound from the third one on, as those of jobs have them.
static histogram_t
s_folded (histogram_t whole)
{
    histogram_t folded = { .count = whole.count > 3? (whole.count - 1) / 2: 1, .sum = whole.sum };
    for (size_t bucket = 0; bucket < whole.count && bucket < BUCKETS_MAX; bucket++)
        folded.batches [bucket < 3? 0: (bucket - 1) / 2] += whole.batches [bucket];
    for (size_t bucket = 0; bucket + 1 < folded.count; bucket++)
        folded.bounds [bucket] = whole.bounds [2 * bucket + 2];
    return folded;
}

//  What is left of all batches is of jobs that are there no more.  A cause for which a job has never waited
//  has no series of its own: most have two or three.  Nor has `draw`, for which one batch of a job waits.
//  Names are in the job's other series: there are many of these.
static void
s_job_histograms (writer_t *self, const json_t *status, const subject_t *jobs, size_t count)
{
    const json_t *own = json_object_get (status, "tenant"),
        *all = json_object_get (own? own: status, "batch_waits");
    s_head (self, "job_batch_wait_seconds", "histogram", "The same of a job's batches.");
    for (size_t cause = 1; cause < CAUSES; cause++) {
        histogram_t whole = s_histogram (all, s_causes [cause]), gone = s_folded (whole);
        for (size_t index = 0; index < count; index++) {
            histogram_t histogram = s_histogram (json_object_get (jobs [index].object, "batch_waits"),
                s_causes [cause]);
            for (size_t bucket = 0; bucket < histogram.count && bucket < gone.count; bucket++)
                gone.batches [bucket] -= histogram.batches [bucket];
            gone.sum -= histogram.sum;
            char number [LABELS_BYTES] = "";
            s_label_number (number, jobs [index].object);
            if (histogram.sum > 0)
                s_write_histogram (self, "job_batch_wait_seconds", number, s_causes [cause], &histogram);
        }
        gone.sum = gone.sum > 0? round (gone.sum * 1000) / 1000: 0;     //  sums are of milliseconds
        s_write_histogram (self, "job_batch_wait_seconds", "number=\"gone\"", s_causes [cause], &gone);
    }
}

static void
s_all_jobs (writer_t *self, const json_t *status)
{
    size_t count = 0;
    const json_t *list = json_object_get (status, "jobs");
    subject_t *jobs = calloc (json_array_size (list) + 1, sizeof *jobs);
    for (size_t index = 0; jobs && index < json_array_size (list); index++) {
        const json_t *job = json_array_get (list, index);
        jobs [index].object = job;
        s_label_number (jobs [index].labels, job);
        static const char *const keys [] = { "name", "dataset", "tenant" };
        for (size_t key = 0; key < sizeof keys / sizeof *keys; key++)
            if (json_object_get (job, keys [key]))
                s_label (jobs [index].labels, keys [key],
                    json_string_value (json_object_get (job, keys [key])));
        count++;
    }
    s_delivered (self, status, jobs, count);
    s_job_histograms (self, status, jobs, count);
    s_rows (self, ROWS (s_jobs), jobs, count);
    free (jobs);
}

static void
s_all_ranks (writer_t *self, const json_t *status)
{
    size_t index, number, count = 0;
    json_t *jobs = json_object_get (status, "jobs"), *job, *rank;
    json_array_foreach (jobs, index, job)
        count += json_array_size (json_object_get (job, "ranks"));
    subject_t *ranks = calloc (count + 1, sizeof *ranks);
    count = 0;
    if (ranks)
        json_array_foreach (jobs, index, job)
            json_array_foreach (json_object_get (job, "ranks"), number, rank) {
                char name [32];
                snprintf (name, sizeof name, "%zu", number);
                ranks [count].object = rank;
                s_label_number (ranks [count].labels, job);
                s_label (ranks [count++].labels, "rank", name);
            }
    s_rows (self, ROWS (s_ranks), ranks, count);
    free (ranks);
}

static void
s_refusals (writer_t *self, json_t *refusals)
{
    const char *code;
    json_t *count;
    if (!refusals)
        return;
    s_head (self, "requests_refused", "counter", "Refused requests, by the protocol's code.");
    json_object_foreach (refusals, code, count) {
        char labels [LABELS_BYTES] = "";
        s_label (labels, "code", code);
        s_value (self, "requests_refused", "_total", labels, json_number_value (count));
    }
}

char *
metrics_text (const json_t *status, bool is_open_metrics, size_t *size_p)
{
    char *text = NULL;
    writer_t self = { .file = open_memstream (&text, size_p), .is_open_metrics = is_open_metrics };
    if (!self.file)
        return NULL;
    subject_t server = { .object = status };
    char labels [LABELS_BYTES] = "";
    s_label (labels, "version", json_string_value (json_object_get (status, "version")));
    s_head (&self, "build", "gauge", "1; the server's version.");
    s_value (&self, "build", "", labels, 1);
    s_rows (&self, ROWS (s_server), &server, 1);
    s_refusals (&self, json_object_get (status, "refusals"));
    s_histograms (&self, status);
    s_all_jobs (&self, status);
    s_all_ranks (&self, status);
    s_list (&self, json_object_get (status, "datasets"), "dataset", "name", ROWS (s_datasets));
    s_list (&self, json_object_get (status, "tenants"), "tenant", "name", ROWS (s_tenants));
    s_list (&self, json_object_get (status, "devices"), "device", "device", ROWS (s_devices));
    s_list (&self, json_object_get (status, "remote_workers"), "worker", "name", ROWS (s_workers));
    s_list (&self, json_object_get (status, "operations"), "operation", "name", ROWS (s_operations));
    s_list (&self, s_find (status, "cluster.members"), "member", "member", ROWS (s_members));
    if (is_open_metrics)
        fputs ("# EOF\n", self.file);
    if (fclose (self.file) == 0)
        return text;
    free (text);
    return NULL;
}

const char *
metrics_type (bool is_open_metrics)
{
    return is_open_metrics? "application/openmetrics-text; version=1.0.0; charset=utf-8":
        "text/plain; version=0.0.4; charset=utf-8";
}
