#include "top.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer.h"
#include "utf8.h"
#include "words.h"

//  ---- jobs

static const char *const s_sorts [TOP_SORTS] = { "job", "name", "rate", "wait", "shared" };

static const json_t *
s_job (const json_t *status, uint64_t number)
{
    size_t index;
    const json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        if ((uint64_t) answer_real (job, "job") == number)
            return job;
    return NULL;
}

//  Where nothing has passed since the answer before, of the time since the job's start.
static void
s_fill_waits (top_row_t *row, const json_t *job, const json_t *before)
{
    const json_t *waits = json_object_get (job, "waits"), *old = json_object_get (before, "waits");
    double spent [ANSWER_WAITS], sum = 0, all = 0;
    for (size_t cause = 0; cause < ANSWER_WAITS; cause++) {
        spent [cause] = answer_real (waits, answer_waits [cause]) - answer_real (old, answer_waits [cause]);
        sum += spent [cause];
        all += answer_real (waits, answer_waits [cause]);
    }
    for (size_t cause = 0; cause < ANSWER_WAITS; cause++)
        row->waits [cause] = sum > 0? spent [cause] / sum:
            all > 0? answer_real (waits, answer_waits [cause]) / all: 0;
}

static void
s_fill (top_row_t *row, const json_t *job, const json_t *before)
{
    const json_t *sharing = json_object_get (job, "sharing");
    const char *name = answer_text (job, "name");
    char number [32];
    *row = (top_row_t) { .job = (uint64_t) answer_real (job, "job"), .epoch = (uint64_t) answer_real (job,
        "consumed_epoch"), .rate = answer_real (job, "rate"), .waiting_on = answer_text (job, "waiting_on") };
    snprintf (number, sizeof number, "job %llu", (unsigned long long) row->job);
    name = *name? name: *answer_text (job, "job_name")? answer_text (job, "job_name"): number;
    utf8_visible (name, strlen (name), row->name, sizeof row->name);
    utf8_visible (answer_text (job, "dataset"), strlen (answer_text (job, "dataset")), row->dataset,
        sizeof row->dataset);
    double samples = answer_real (job, "epoch_samples"), drawn = answer_real (sharing, "alone")
        + answer_real (sharing, "shared");
    row->progress = samples > 0? answer_real (job, "epoch_consumed") / samples: 0;
    row->shared = drawn > 0? answer_real (sharing, "shared") / drawn: -1;
    s_fill_waits (row, job, before);
}

//  What it waited for beside its own loop.
static double
s_waited (const top_row_t *row)
{
    double waited = 0;
    for (size_t cause = 0; cause + 1 < ANSWER_WAITS; cause++)
        waited += row->waits [cause];
    return waited;
}

static int
s_compare_jobs (const void *one, const void *other, void *context)
{
    const top_row_t *a = one, *b = other;
    double by = 0;
    switch (*(const top_sort_t *) context) {
    case TOP_BY_NAME:
        by = strcmp (a->name, b->name);
        break;
    case TOP_BY_RATE:
        by = b->rate - a->rate;
        break;
    case TOP_BY_WAIT:
        by = s_waited (b) - s_waited (a);
        break;
    case TOP_BY_SHARED:
        by = a->shared - b->shared;     //  those first that could share more
        break;
    default:
        break;
    }
    if (by != 0)
        return by < 0? -1: 1;
    return a->job < b->job? -1: a->job > b->job;
}

//  To a tenant's viewer what was sent to its jobs.
static double
s_delivered (const json_t *status)
{
    const json_t *all = json_object_get (status, "delivered");
    return all? json_number_value (all): answer_real (json_object_get (status, "tenant"), "delivered");
}

bool
top_view_make (top_view_t *self, const json_t *now, const json_t *before, top_sort_t sort)
{
    const json_t *jobs = json_object_get (now, "jobs");
    bool is_same = before && answer_real (before, "uptime_seconds") <= answer_real (now, "uptime_seconds");
    *self = (top_view_t) { .now = now, .before = is_same? before: NULL, .delivered = -1, .prepared = -1,
        .rows = calloc (json_array_size (jobs) + 1, sizeof *self->rows) };
    if (!self->rows)
        return false;
    if (self->before)
        self->seconds = answer_real (now, "uptime_seconds") - answer_real (before, "uptime_seconds");
    if (self->seconds > 0)
        self->delivered = (s_delivered (now) - s_delivered (before)) / self->seconds;
    if (self->seconds > 0 && json_object_get (now, "prepared"))
        self->prepared = (answer_real (now, "prepared") - answer_real (before, "prepared")) / self->seconds;
    for (; self->count < json_array_size (jobs); self->count++) {
        const json_t *job = json_array_get (jobs, self->count);
        s_fill (&self->rows [self->count], job, s_job (self->before, (uint64_t) answer_real (job, "job")));
    }
    qsort_r (self->rows, self->count, sizeof *self->rows, s_compare_jobs, &sort);
    return true;
}

void
top_view_clear (top_view_t *self)
{
    free (self->rows);
    *self = (top_view_t) { .count = 0 };
}

const char *
top_sort_name (top_sort_t sort)
{
    return s_sorts [sort];
}

//  "3 min"
static const char *
s_time (double seconds, char text [32])
{
    static const struct { double seconds; const char *name; } units [] = { { 86400, "d" }, { 3600, "h" },
        { 60, "min" }, { 1, "s" } };
    size_t unit = 0;
    while (unit < 3 && seconds < units [unit].seconds)
        unit++;
    snprintf (text, 32, "%llu %s", (unsigned long long) (seconds / units [unit].seconds), units [unit].name);
    return text;
}

void
top_view_head (const top_view_t *self, char text [TOP_TEXT_BYTES])
{
    char up [32], version [32];
    const char *given = answer_text (self->now, "version");
    text [0] = 0;
    append (text, TOP_TEXT_BYTES,
        "tureen %s, up for %s, %zu job%s", utf8_visible (given, strlen (given), version,
        sizeof version), s_time (answer_real (self->now, "uptime_seconds"), up), self->count,
        plural (self->count));
    if (self->delivered >= 0)
        append (text, TOP_TEXT_BYTES, ", delivered %.0f/s", self->delivered);
    if (self->prepared >= 0)
        append (text, TOP_TEXT_BYTES, ", prepared %.0f/s", self->prepared);
    if (answer_real (self->now, "prepared") > 0)
        append (text, TOP_TEXT_BYTES, ", %.2f deliveries of each since the start",
            answer_real (self->now, "delivered") / answer_real (self->now, "prepared"));
}

void
top_view_memory (const top_view_t *self, const top_row_t *row, char *text, size_t text_bytes)
{
    answer_memory_job (self->now, s_job (self->now, row->job), text, text_bytes);
}

void
top_view_words (const top_view_t *self, const top_row_t *row, char *text, size_t text_bytes)
{
    const json_t *job = s_job (self->now, row->job);
    const char *little = answer_text (job, "little_shared");
    if (*little)
        utf8_visible (little, strlen (little), text, text_bytes);
    else
    if (row->shared < 0)
        snprintf (text, text_bytes, "it has drawn nothing yet");
    else
        snprintf (text, text_bytes, "%.0f %% of its samples served other jobs too, order %s, %.0f samples "
            "taken", 100 * row->shared, answer_text (job, "order"), answer_real (job, "consumed_samples"));
    char others [TOP_TEXT_BYTES];
    answer_tree_words (self->now, (double) row->job, others, sizeof others);
    size_t used = strlen (text);
    if (*others && !*little)
        snprintf (text + used, text_bytes - used, "; %s", others);
    top_view_memory (self, row, others, sizeof others);
    used = strlen (text);
    if (*others)
        snprintf (text + used, text_bytes - used, "; %s", others);
}

//  ---- data, workers, tenants and members

//  Widths of 80 columns in all, a blank between.
static const top_column_t s_data [] = { { "DATA", 16, false }, { "SAMPLES", 10, true }, { "SIZE", 9, true },
    { "KIND", 13, false }, { "MEMORY", 7, true }, { "READ/S", 9, true }, { "CACHE/S", 9, true },
    { "BAD", 6, true } };
static const top_column_t s_workers [] = { { "MACHINE", 18, false }, { "STATE", 8, false },
    { "CPUS", 4, true }, { "SAMPLES/S", 9, true }, { "DONE", 10, true }, { "LOST", 6, true },
    { "SENT", 9, true }, { "RECEIVED", 9, true } };
static const top_column_t s_tenants [] = { { "TENANT", 16, false }, { "JOBS", 5, true },
    { "PREPARED/S", 10, true }, { "DELIVERED/S", 11, true }, { "CACHE", 9, true }, { "BATCHES", 9, true },
    { "WORKERS %", 9, true }, { "WAIT", 5, true } };
static const top_column_t s_members [] = { { "MEMBER", 21, false }, { "STATE", 7, false },
    { "HOMES %", 7, true }, { "CACHE", 9, true }, { "GIVES/S", 9, true }, { "GAVE", 9, true },
    { "REFUSED", 8, true } };

static const struct {
    const char *name, *list;
    const top_column_t *columns;
    size_t count;
} s_kinds [TOP_KINDS] = {
    { "data", "datasets", s_data, sizeof s_data / sizeof *s_data },
    { "workers", "remote_workers", s_workers, sizeof s_workers / sizeof *s_workers },
    { "tenants", "tenants", s_tenants, sizeof s_tenants / sizeof *s_tenants },
    { "members", "members", s_members, sizeof s_members / sizeof *s_members }
};

const char *
top_table_name (top_kind_t kind)
{
    return s_kinds [kind].name;
}

size_t
top_table_columns (top_kind_t kind)
{
    return s_kinds [kind].count;
}

static void
s_text (top_cells_t *row, size_t column, const char *text)
{
    utf8_visible (text, strlen (text), row->cells [column], TOP_CELL_BYTES);
}

static void
s_count (top_cells_t *row, size_t column, double value)
{
    row->values [column] = value;
    snprintf (row->cells [column], TOP_CELL_BYTES, "%.0f", value);
}

static const char *
s_size (double bytes, char text [TOP_CELL_BYTES])
{
    static const char *const units [] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    size_t unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++)
        bytes /= 1024;
    snprintf (text, TOP_CELL_BYTES, unit && bytes < 10? "%.1f %s": "%.0f %s", bytes, units [unit]);
    return text;
}

static void
s_bytes (top_cells_t *row, size_t column, double value)
{
    row->values [column] = value;
    s_size (value, row->cells [column]);
}

//  A figure that there is not comes last where its column is sorted by.
static void
s_nothing (top_cells_t *row, size_t column)
{
    row->values [column] = -1;
    strcpy (row->cells [column], "-");
}

//  The rows of a kind in an answer; NULL: there are none.
static const json_t *
s_list_of (const json_t *answer, top_kind_t kind)
{
    const json_t *object = kind == TOP_MEMBERS? json_object_get (answer, "cluster"): answer;
    return json_object_get (object, s_kinds [kind].list);
}

static const char *
s_name_of (const json_t *item, top_kind_t kind)
{
    return answer_text (item, kind == TOP_MEMBERS? "member": "name");
}

static const json_t *
s_row_before (const top_view_t *view, top_kind_t kind, const char *name)
{
    size_t index;
    const json_t *item;
    json_array_foreach (s_list_of (view->before, kind), index, item)
        if (strcmp (s_name_of (item, kind), name) == 0)
            return item;
    return NULL;
}

//  What the counter has grown by in a second; below 0: not known.
static double
s_rate (const top_view_t *view, const json_t *now, const json_t *before, const char *key)
{
    if (!before || !json_object_get (now, key) || view->seconds <= 0)
        return -1;
    double grown = answer_real (now, key) - answer_real (before, key);
    return grown > 0? grown / view->seconds: 0;
}

//  What was read of it, as a pack, or as objects or files that the local disk keeps; NULL: it is not known.
static const json_t *
s_read (const json_t *dataset)
{
    const json_t *pack = json_object_get (dataset, "pack"), *objects = json_object_get (dataset, "objects");
    return json_is_object (pack)? pack: json_is_object (objects)? objects: NULL;
}

static void
s_put_read (const top_view_t *view, const json_t *dataset, const json_t *before, top_cells_t *row)
{
    static const char *const keys [] = { "source_bytes", "block_cache_bytes" };
    const json_t *read = s_read (dataset), *old = s_read (before);
    for (size_t index = 0; index < 2; index++) {
        double rate = s_rate (view, read, old, keys [index]);
        if (rate < 0)
            s_nothing (row, 5 + index);
        else
            s_bytes (row, 5 + index, rate);
    }
}

//  How it is read.
static void
s_put_kind (const json_t *dataset, top_cells_t *row)
{
    const json_t *pack = json_object_get (dataset, "pack");
    const char *folder = json_string_value (json_array_get (json_object_get (dataset, "folders"), 0));
    bool is_store = folder && strstr (folder, "://");
    bool has_pieces = json_is_object (json_object_get (dataset, "pieces"));
    char kind [TOP_CELL_BYTES];
    snprintf (kind, sizeof kind, json_is_object (pack)? "pack, %s": "%s", json_is_object (pack)?
        answer_text (pack, "policy"): is_store? "objects": has_pieces? "files, pieces": "files");
    s_text (row, 3, kind);
}

static void
s_put_dataset (const top_view_t *view, const json_t *dataset, const json_t *before, top_cells_t *row)
{
    const json_t *pack = json_object_get (dataset, "pack"), *bad = json_object_get (dataset, "bad");
    double hits = answer_real (pack, "hits"), all = hits + answer_real (pack, "misses");
    s_count (row, 1, answer_real (dataset, "samples"));
    s_bytes (row, 2, answer_real (dataset, "bytes"));
    s_put_kind (dataset, row);
    s_nothing (row, 4);
    if (all > 0) {
        row->values [4] = hits / all;
        snprintf (row->cells [4], TOP_CELL_BYTES, "%.0f %%", 100 * hits / all);
    }
    s_put_read (view, dataset, before, row);
    s_count (row, 7, answer_real (dataset, "bad_samples"));
    const char *trouble = answer_text (json_object_get (dataset, "trouble"), "reason"),
        *reason = answer_text (json_array_get (bad, 0), "reason");
    char pinned [TOP_TEXT_BYTES];
    reason = *trouble? trouble: reason;
    if (*reason)
        utf8_visible (reason, strlen (reason), row->words, sizeof row->words);
    else
        answer_tree_summary (view->now, dataset, row->words, sizeof row->words);
    answer_memory_dataset (dataset, pinned, sizeof pinned);
    if (*pinned && !*reason)
        append (row->words, sizeof row->words, "%s%s", *row->words? "; ": "", pinned);
    if (!*row->words)
        snprintf (row->words, sizeof row->words, "all of its samples that were read are good");
}

static void
s_put_worker (const top_view_t *view, const json_t *worker, const json_t *before, top_cells_t *row)
{
    (void) view, (void) before;
    const char *reason = answer_text (worker, "reason");
    s_text (row, 1, answer_text (worker, "state"));
    s_count (row, 2, answer_real (worker, "processors"));
    s_count (row, 3, answer_real (worker, "rate"));
    s_count (row, 4, answer_real (worker, "done"));
    s_count (row, 5, answer_real (worker, "lost"));
    s_bytes (row, 6, answer_real (worker, "bytes_sent"));
    s_bytes (row, 7, answer_real (worker, "bytes_received"));
    if (*reason)
        utf8_visible (reason, strlen (reason), row->words, sizeof row->words);
    else
        snprintf (row->words, sizeof row->words, "%.0f samples are there now; %.0f were taken back, and %.0f "
            "came late", answer_real (worker, "out"), answer_real (worker, "taken_back"),
            answer_real (worker, "late"));
}

static void
s_put_tenant (const top_view_t *view, const json_t *tenant, const json_t *before, top_cells_t *row)
{
    static const char *const keys [] = { "prepared", "delivered" };
    s_count (row, 1, answer_real (tenant, "jobs"));
    for (size_t index = 0; index < 2; index++) {
        double rate = s_rate (view, tenant, before, keys [index]);
        if (rate < 0)
            s_nothing (row, 2 + index);
        else
            s_count (row, 2 + index, rate);
    }
    s_bytes (row, 4, answer_real (tenant, "cache_bytes"));
    s_bytes (row, 5, answer_real (tenant, "batches_bytes"));
    double workers = s_rate (view, tenant, before, "worker_seconds");
    if (workers < 0)
        s_nothing (row, 6);
    else
        s_count (row, 6, 100 * workers);
    s_count (row, 7, answer_real (tenant, "waiting_samples"));
    snprintf (row->words, sizeof row->words, "weight %.0f, prepared %.0f samples and was sent %.0f since the "
        "start", answer_real (tenant, "weight"), answer_real (tenant, "prepared"),
        answer_real (tenant, "delivered"));
}

static void
s_put_member (const top_view_t *view, const json_t *member, const json_t *before, top_cells_t *row)
{
    const char *key;
    const json_t *count;
    double refused = 0, rate = s_rate (view, member, before, "bytes");
    json_object_foreach ((json_t *) json_object_get (member, "refused"), key, count)
        refused += json_number_value (count);
    s_text (row, 1, answer_text (member, "state"));
    s_count (row, 2, 100 * answer_real (member, "homes"));
    s_bytes (row, 3, answer_real (member, "cache_bytes"));
    if (rate < 0)
        s_nothing (row, 4);
    else
        s_bytes (row, 4, rate);
    s_bytes (row, 5, answer_real (member, "bytes"));
    s_count (row, 6, refused);
    if (strcmp (answer_text (member, "state"), "this") == 0)
        snprintf (row->words, sizeof row->words, "this server");
    else
        snprintf (row->words, sizeof row->words, "in the list for %.0f s; %.0f questions were not answered "
            "in time, %.0f answers were damaged, and %.0f times the store was quicker",
            answer_real (member, "age_seconds"), answer_real (member, "late"),
            answer_real (member, "damaged"), answer_real (member, "store_quicker"));
}

static void
s_put (const top_view_t *view, top_kind_t kind, const json_t *item, top_cells_t *row)
{
    static void (*const kinds [TOP_KINDS]) (const top_view_t *, const json_t *, const json_t *,
        top_cells_t *) = { s_put_dataset, s_put_worker, s_put_tenant, s_put_member };
    const char *name = s_name_of (item, kind);
    s_text (row, 0, name);
    kinds [kind] (view, item, s_row_before (view, kind, name), row);
}

static void
s_add_part (char text [TOP_TEXT_BYTES], const json_t *object, const char *what, const char *used,
    const char *most)
{
    char is [TOP_CELL_BYTES], may [TOP_CELL_BYTES];
    if (json_object_get (object, most))
        append (text, TOP_TEXT_BYTES,
            "%s%s %s of %s", *text? ", ": "", what, s_size (answer_real (object, used), is),
            s_size (answer_real (object, most), may));
}

static void
s_head_members (top_table_t *self, const json_t *cluster)
{
    const char *trouble = answer_text (cluster, "trouble");
    char given [TOP_CELL_BYTES];
    if (self->count == 0)
        append (self->head, TOP_TEXT_BYTES,
            "this server keeps no blocks together with others, or shows them to operators "
            "alone");
    else
    if (*trouble)
        utf8_visible (trouble, strlen (trouble), self->head, sizeof self->head);
    else
        append (self->head, TOP_TEXT_BYTES,
            "this server gave the others %s", s_size (answer_real (json_object_get (cluster,
            "given"), "bytes"), given));
}

static void
s_head_table (top_table_t *self, const json_t *now, top_kind_t kind)
{
    self->head [0] = 0;
    if (kind == TOP_DATA) {
        s_add_part (self->head, now, "prepared", "cache_bytes", "cache_bytes_max");
        s_add_part (self->head, now, "compressed", "raw_bytes", "raw_bytes_max");
        s_add_part (self->head, json_object_get (now, "memory"), "pinned", "pinned_bytes", "pins_bytes");
        s_add_part (self->head, now, "batches", "jobs_bytes", "jobs_bytes_max");
        s_add_part (self->head, json_object_get (now, "block_cache"), "on the disk", "bytes", "bytes_max");
    }
    if (kind == TOP_WORKERS) {
        double processors = 0;
        for (size_t row = 0; row < self->count; row++)
            processors += self->rows [row].values [2];
        append (self->head, TOP_TEXT_BYTES,
            "%zu machine%s lend%s %.0f processors", self->count, plural (self->count),
            self->count == 1? "s": "", processors);
    }
    if (kind == TOP_TENANTS && self->count == 0)
        append (self->head, TOP_TEXT_BYTES, "this server has no tenants, or shows them to operators alone");
    if (kind == TOP_MEMBERS)
        s_head_members (self, json_object_get (now, "cluster"));
}

typedef struct {
    size_t column;
    bool is_number;
} order_t;

static int
s_compare_rows (const void *one, const void *other, void *context)
{
    const top_cells_t *a = one, *b = other;
    const order_t *order = context;
    double by = order->is_number? b->values [order->column] - a->values [order->column]:
        strcmp (a->cells [order->column], b->cells [order->column]);
    if (by != 0)
        return by < 0? -1: 1;
    return strcmp (a->cells [0], b->cells [0]);
}

bool
top_table_make (top_table_t *self, const top_view_t *view, top_kind_t kind, size_t sort)
{
    const json_t *list = s_list_of (view->now, kind);
    *self = (top_table_t) { .columns = s_kinds [kind].columns, .column_count = s_kinds [kind].count,
        .rows = calloc (json_array_size (list) + 1, sizeof *self->rows) };
    if (!self->rows)
        return false;
    for (; self->count < json_array_size (list); self->count++)
        s_put (view, kind, json_array_get (list, self->count), &self->rows [self->count]);
    order_t order = { sort % self->column_count, self->columns [sort % self->column_count].is_number };
    qsort_r (self->rows, self->count, sizeof *self->rows, s_compare_rows, &order);
    s_head_table (self, view->now, kind);
    return true;
}

void
top_table_clear (top_table_t *self)
{
    free (self->rows);
    *self = (top_table_t) { .count = 0 };
}
