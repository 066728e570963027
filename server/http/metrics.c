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

#define GAUGE_BY(name, path, help, label, value) { name, false, path, help, label, value }
#define COUNTER_BY(name, path, help, label, value) { name, true, path, help, label, value }
#define GAUGE(name, path, help) GAUGE_BY (name, path, help, NULL, NULL)
#define COUNTER(name, path, help) COUNTER_BY (name, path, help, NULL, NULL)
#define ROWS(rows) (rows), sizeof (rows) / sizeof *(rows)

static const row_t s_server [] = {
    GAUGE ("uptime_seconds", "uptime_seconds", "Time since the server began to serve."),
    GAUGE ("draining", "draining", "1 while the server takes no new jobs and waits for its end."),
    COUNTER ("jobs_joined", "jobs_total", "Jobs that have joined."),
    COUNTER ("samples_prepared", "prepared", "Samples decoded and brought through a shared stage."),
    COUNTER ("samples_delivered", "delivered", "Samples in batches that were sent to jobs."),
    COUNTER_BY ("cache_lookups", "cache_hits", "Drawn samples, by whether a prepared one existed.", "result",
        "hit"),
    COUNTER_BY ("cache_lookups", "cache_misses", NULL, "result", "miss"),
    GAUGE ("cache_bytes", "cache_bytes", "Memory of prepared samples."),
    GAUGE ("cache_limit_bytes", "cache_bytes_max", "The most memory for prepared samples."),
    COUNTER ("cache_evictions", "evictions", "Prepared samples that made room for others."),
    COUNTER ("cache_losses", "prepared_again", "Samples prepared again because the cache was too small."),
    GAUGE ("raw_bytes", "raw_bytes", "Memory of compressed samples."),
    GAUGE ("raw_limit_bytes", "raw_bytes_max", "The most memory for compressed samples."),
    GAUGE_BY ("memory_limit_bytes", "memory.mixing_bytes", "What --memory is divided into.", "part",
        "mixing"),
    GAUGE_BY ("memory_limit_bytes", "memory.prepared_bytes", NULL, "part", "prepared"),
    GAUGE_BY ("memory_limit_bytes", "memory.pins_bytes", NULL, "part", "pins"),
    GAUGE_BY ("memory_limit_bytes", "memory.pictures_bytes", NULL, "part", "pictures"),
    GAUGE ("pinned_memory_bytes", "memory.pinned_bytes", "Memory that pins take."),
    GAUGE ("decoded_memory_bytes", "memory.decoded_bytes", "Memory that decoded pictures take."),
    GAUGE ("batches_bytes", "jobs_bytes", "Memory of jobs: their batches and bookkeeping."),
    GAUGE ("batches_limit_bytes", "jobs_bytes_max", "The most memory for jobs."),
    COUNTER ("bad_samples", "bad_samples", "Samples that were found unreadable."),
    COUNTER ("read_failures", "read_failures", "Reads that failed, each try counted."),
    COUNTER ("shortages", "shortages", "Tries that were put off for want of memory or descriptors."),
    COUNTER ("processor_seconds", "cpu_seconds", "Processor time of the server."),
    COUNTER ("workers_lost", "remote_workers_lost", "Workers on other machines that went without a goodbye."),
    GAUGE ("descriptors", "descriptors.open", "File descriptors in use."),
    GAUGE ("descriptors_limit", "descriptors.max", "The most file descriptors."),
    COUNTER ("requests_unanswered", "unanswered",
        "Refusals that were not sent, beyond 50 a second of a user."),
    GAUGE ("requests_waiting", "waiting_requests", "Requests that wait."),
    COUNTER ("log_lines_lost", "log_lines_lost", "Log lines that were lost because the log was not read."),
    COUNTER ("restarts", "restarts", "How often the supervisor has started the server again."),
    GAUGE ("block_cache_bytes", "block_cache.bytes", "What the cache on the local disk takes of it."),
    GAUGE ("block_cache_limit_bytes", "block_cache.bytes_max", "The most that it may take."),
    GAUGE ("block_cache_aside", "block_cache.aside", "1 while its disk does not answer in time."),
    COUNTER ("peers_given_bytes", "cluster.given.bytes", "Bytes of blocks that other members were given."),
    COUNTER ("peers_given_blocks", "cluster.given.blocks", "Answers with these bytes."),
    COUNTER ("peers_given_fetched", "cluster.given.fetched", "Of these, those read of the store first."),
    GAUGE ("peers_waiting_questions", "cluster.given.waiting", "Questions of other members that wait."),
    COUNTER ("peers_rejected", "cluster.given.rejected", "Connections without the members' key.")
};

static const row_t s_datasets [] = {
    GAUGE ("dataset_samples", "samples", "Samples of the data set."),
    GAUGE ("dataset_bytes", "bytes", "Bytes of its files."),
    GAUGE ("dataset_pinned_bytes", "pins.bytes", "Bytes of its files that stay in memory."),
    COUNTER ("dataset_pinned_saved_seconds", "pins.saved_seconds",
        "How long its devices would have read what came from pins, about."),
    GAUGE ("dataset_decoded_pictures", "pictures.count", "Its pictures that stay in memory decoded."),
    GAUGE ("dataset_decoded_bytes", "pictures.bytes", "Bytes of these."),
    COUNTER_BY ("dataset_picture_lookups", "pictures.hits", "Pictures that were looked for.", "result",
        "hit"),
    COUNTER_BY ("dataset_picture_lookups", "pictures.misses", NULL, "result", "miss"),
    COUNTER ("dataset_decoding_saved_seconds", "pictures.saved_seconds",
        "Processor time that preparing from decoded pictures has saved, about."),
    GAUGE ("dataset_bad_samples", "bad_samples", "Its unreadable samples."),
    GAUGE ("dataset_failing_reads", "trouble.failing", "Reads that failed and wait to be tried again."),
    COUNTER_BY ("dataset_read_bytes", "pack.source_bytes", "Bytes read, by where they came from.", "source",
        "storage"),
    COUNTER_BY ("dataset_read_bytes", "pack.block_cache_bytes", NULL, "source", "block_cache"),
    COUNTER_BY ("dataset_read_bytes", "pack.peer_bytes", NULL, "source", "peers"),
    COUNTER_BY ("dataset_read_bytes", "pins.hit_bytes", NULL, "source", "pins"),
    COUNTER_BY ("dataset_read_bytes", "objects.source_bytes", NULL, "source", "storage"),
    COUNTER_BY ("dataset_read_bytes", "objects.block_cache_bytes", NULL, "source", "block_cache"),
    COUNTER_BY ("dataset_read_bytes", "objects.peer_bytes", NULL, "source", "peers"),
    COUNTER ("dataset_read_ahead_bytes", "objects.ahead_bytes",
        "Of the bytes from storage, those read before a job had drawn them."),
    COUNTER ("dataset_read_ahead_samples", "objects.ahead_samples",
        "Samples that were read from storage before a job had drawn them."),
    COUNTER_BY ("dataset_read_seconds", "pack.source_seconds",
        "Time that reads took, each its own, by source.", "source", "storage"),
    COUNTER_BY ("dataset_read_seconds", "pack.block_cache_seconds", NULL, "source", "block_cache"),
    COUNTER_BY ("dataset_read_seconds", "pack.peer_seconds", NULL, "source", "peers"),
    COUNTER_BY ("dataset_read_seconds", "objects.source_seconds", NULL, "source", "storage"),
    COUNTER_BY ("dataset_read_seconds", "objects.block_cache_seconds", NULL, "source", "block_cache"),
    COUNTER_BY ("dataset_read_seconds", "objects.peer_seconds", NULL, "source", "peers"),
    COUNTER ("dataset_store_requests", "pack.gets", "Requests to an object store."),
    COUNTER ("dataset_store_requests", "objects.gets", NULL),
    COUNTER ("dataset_store_slow_requests", "pack.slow_gets",
        "Of these, requests that were far slower than others, and were made again."),
    COUNTER ("dataset_store_slow_requests", "objects.slow_gets", NULL),
    GAUGE ("dataset_resident_samples", "pack.resident_samples", "Compressed samples in memory."),
    COUNTER ("dataset_memory_hits", "pack.hits", "Samples of a pack that lay in memory when drawn."),
    COUNTER ("dataset_memory_misses", "pack.misses", "Samples of a pack that were read one by one."),
    COUNTER ("dataset_handed_bytes", "pack.bytes_handed", "Bytes of a pack's samples that were handed out.")
};

static const row_t s_jobs [] = {
    GAUGE ("job_epoch", "consumed_epoch", "The newest epoch of which the job's loop has samples."),
    GAUGE ("job_epoch_samples", "epoch_samples", "Samples of an epoch."),
    GAUGE ("job_epoch_consumed_samples", "epoch_consumed", "Samples of it that the loop has taken."),
    COUNTER ("job_samples_consumed", "consumed_samples", "Samples that the loop has taken."),
    COUNTER ("job_samples_drawn", "sharing.places", "Samples that were drawn for the job."),
    COUNTER ("job_samples_shared", "sharing.shared", "Of these, those that served other jobs too."),
    COUNTER ("job_read_bytes", "reads.bytes", "Bytes that were read for its samples, those from pins too."),
    COUNTER ("job_pinned_read_bytes", "reads.pinned_bytes", "Of these, those from pins."),
    COUNTER ("job_pinned_saved_seconds", "reads.saved_seconds",
        "How long devices would have read what came from pins for it, about."),
    COUNTER_BY ("job_wait_seconds", "waits.draw", "What the job's time since its start went to, by cause.",
        "cause", "draw"),
    COUNTER_BY ("job_wait_seconds", "waits.read", NULL, "cause", "read"),
    COUNTER_BY ("job_wait_seconds", "waits.memory", NULL, "cause", "memory"),
    COUNTER_BY ("job_wait_seconds", "waits.decode", NULL, "cause", "decode"),
    COUNTER_BY ("job_wait_seconds", "waits.copy", NULL, "cause", "copy"),
    COUNTER_BY ("job_wait_seconds", "waits.client", NULL, "cause", "client"),
    GAUGE_BY ("job_window_samples", "window.drawn_samples", "Samples of the window, by their state.", "state",
        "drawn"),
    GAUGE_BY ("job_window_samples", "window.filled_samples", NULL, "state", "filled"),
    GAUGE ("job_batches_bytes", "ring_bytes", "Memory of the job's batches."),
    GAUGE ("job_ranks", "world_size", "Processes that share the job."),
    GAUGE ("job_unreadable_samples", "unreadable.count", "Unreadable samples left out of its data.")
};

//  Of jobs with several.
static const row_t s_ranks [] = {
    COUNTER_BY ("rank_wait_seconds", "waits.draw",
        "What a rank's time since its job's start went to, by cause.", "cause", "draw"),
    COUNTER_BY ("rank_wait_seconds", "waits.read", NULL, "cause", "read"),
    COUNTER_BY ("rank_wait_seconds", "waits.memory", NULL, "cause", "memory"),
    COUNTER_BY ("rank_wait_seconds", "waits.decode", NULL, "cause", "decode"),
    COUNTER_BY ("rank_wait_seconds", "waits.copy", NULL, "cause", "copy"),
    COUNTER_BY ("rank_wait_seconds", "waits.client", NULL, "cause", "client"),
    COUNTER_BY ("rank_wait_seconds", "waits.other_rank", NULL, "cause", "other_rank"),
    COUNTER ("rank_batches_consumed", "consumed_batches", "Batches that the rank's loop has taken.")
};

static const row_t s_tenants [] = {
    GAUGE ("tenant_jobs", "jobs", "Present jobs."),
    COUNTER ("tenant_samples_prepared", "prepared", "Samples prepared for its jobs."),
    COUNTER ("tenant_samples_delivered", "delivered", "Samples sent to its jobs."),
    GAUGE ("tenant_cache_bytes", "cache_bytes", "Its part of the prepared samples."),
    GAUGE ("tenant_batches_bytes", "batches_bytes", "Memory of its jobs."),
    COUNTER ("tenant_worker_seconds", "worker_seconds", "Processor time of workers charged to it."),
    GAUGE ("tenant_waiting_samples", "waiting_samples", "Samples that wait for a worker.")
};

static const row_t s_devices [] = {
    GAUGE ("device_reads_limit", "reads_max", "Reads that may be under way at once."),
    COUNTER ("device_reads", "observed_reads", "Reads that were measured.")
};

static const row_t s_members [] = {
    GAUGE ("member_homes", "homes", "The part of all blocks of which the member is the home."),
    GAUGE ("member_away", "is_away", "1: it does not answer, and its blocks come from the store."),
    COUNTER ("member_bytes", "bytes", "Bytes that it gave to this server."),
    COUNTER ("member_blocks", "blocks", "Answers with these bytes."),
    COUNTER ("member_seconds", "seconds", "Time from question to answer, each its own."),
    COUNTER_BY ("member_unanswered", "late", "Questions that gave no bytes, by reason.", "reason", "late"),
    COUNTER_BY ("member_unanswered", "damaged", NULL, "reason", "damaged"),
    COUNTER_BY ("member_unanswered", "store_quicker", NULL, "reason", "store_quicker"),
    COUNTER_BY ("member_unanswered", "refused.busy", NULL, "reason", "busy"),
    COUNTER_BY ("member_unanswered", "refused.full", NULL, "reason", "full"),
    COUNTER_BY ("member_unanswered", "refused.not_home", NULL, "reason", "not_home"),
    COUNTER_BY ("member_unanswered", "refused.unknown_data", NULL, "reason", "unknown_data"),
    COUNTER_BY ("member_unanswered", "refused.failed", NULL, "reason", "failed"),
    COUNTER_BY ("member_unanswered", "refused.invalid", NULL, "reason", "invalid")
};

static const row_t s_workers [] = {
    GAUGE ("worker_processors", "processors", "Processors that the machine lends."),
    GAUGE ("worker_tasks", "out", "Tasks that it has."),
    COUNTER_BY ("worker_samples", "done", "Tasks, by what became of them.", "result", "done"),
    COUNTER_BY ("worker_samples", "lost", NULL, "result", "lost"),
    COUNTER_BY ("worker_samples", "taken_back", NULL, "result", "taken_back"),
    COUNTER ("worker_sent_bytes", "bytes_sent", "Bytes sent to it."),
    COUNTER ("worker_received_bytes", "bytes_received", "Bytes that it sent.")
};

static const row_t s_operations [] = {
    COUNTER ("operation_calls", "calls", "Samples given to an operation of the operator's own."),
    COUNTER ("operation_failures", "failures", "Of these, it failed."),
    COUNTER ("operation_restarts", "restarts", "Its processes that ended."),
    COUNTER ("operation_seconds", "seconds", "Time that its calls took."),
    COUNTER ("operation_cpu_seconds", "cpu_seconds", "Processor time of its processes."),
    GAUGE ("operation_processes", "processes", "Its processes.")
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
