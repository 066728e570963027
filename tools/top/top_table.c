#include "top_table.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "answer.h"
#include "plural.h"
#include "utf8.h"

//  Widths of 80 columns in all, a blank between.
static const top_column_t s_data [] = { { "DATA", 16, false }, { "SAMPLES", 10, true }, { "SIZE", 9, true },
    { "KIND", 12, false }, { "MEMORY", 7, true }, { "READ/S", 9, true }, { "CACHE/S", 9, true },
    { "BAD", 6, true } };
static const top_column_t s_workers [] = { { "MACHINE", 18, false }, { "STATE", 8, false },
    { "CPUS", 4, true }, { "SAMPLES/S", 9, true }, { "DONE", 10, true }, { "LOST", 6, true },
    { "SENT", 9, true },
    { "RECEIVED", 9, true } };
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

//  ---- cells

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

static void __attribute__ ((format (printf, 2, 3)))
s_add (char text [TOP_TEXT_BYTES], const char *format, ...)
{
    size_t used = strlen (text);
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text + used, TOP_TEXT_BYTES - used, format, arguments);
    va_end (arguments);
}

//  ---- what was in the answer before

//  The rows of a kind in an answer; NULL: there are none.
static const json_t *
s_list (const json_t *answer, top_kind_t kind)
{
    const json_t *object = kind == TOP_MEMBERS? json_object_get (answer, "cluster"): answer;
    return json_object_get (object, s_kinds [kind].list);
}

static const char *
s_name (const json_t *item, top_kind_t kind)
{
    return answer_text (item, kind == TOP_MEMBERS? "member": "name");
}

static const json_t *
s_before (const top_view_t *view, top_kind_t kind, const char *name)
{
    size_t index;
    const json_t *item;
    json_array_foreach (s_list (view->before, kind), index, item)
        if (strcmp (s_name (item, kind), name) == 0)
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

//  ---- kinds of rows

//  What was read of it, as a pack or as single objects; NULL: files.
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

static void
s_put_dataset (const top_view_t *view, const json_t *dataset, const json_t *before, top_cells_t *row)
{
    const json_t *pack = json_object_get (dataset, "pack"), *bad = json_object_get (dataset, "bad");
    char kind [TOP_CELL_BYTES];
    double hits = answer_real (pack, "hits"), all = hits + answer_real (pack, "misses");
    snprintf (kind, sizeof kind, json_is_object (pack)? "pack, %s": "%s", json_is_object (pack)?
        answer_text (pack, "policy"): s_read (dataset)? "objects": "files");
    s_count (row, 1, answer_real (dataset, "samples"));
    s_bytes (row, 2, answer_real (dataset, "bytes"));
    s_text (row, 3, kind);
    s_nothing (row, 4);
    if (all > 0) {
        row->values [4] = hits / all;
        snprintf (row->cells [4], TOP_CELL_BYTES, "%.0f %%", 100 * hits / all);
    }
    s_put_read (view, dataset, before, row);
    s_count (row, 7, answer_real (dataset, "bad_samples"));
    const char *trouble = answer_text (json_object_get (dataset, "trouble"), "reason"),
        *reason = answer_text (json_array_get (bad, 0), "reason");
    reason = *trouble? trouble: reason;
    if (*reason)
        utf8_visible (reason, strlen (reason), row->words, sizeof row->words);
    else
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
    const char *name = s_name (item, kind);
    s_text (row, 0, name);
    kinds [kind] (view, item, s_before (view, kind, name), row);
}

//  ---- the line above

static void
s_add_part (char text [TOP_TEXT_BYTES], const json_t *object, const char *what, const char *used,
    const char *most)
{
    char is [TOP_CELL_BYTES], may [TOP_CELL_BYTES];
    if (json_object_get (object, most))
        s_add (text, "%s%s %s of %s", *text? ", ": "", what, s_size (answer_real (object, used), is),
            s_size (answer_real (object, most), may));
}

static void
s_head_members (top_table_t *self, const json_t *cluster)
{
    const char *trouble = answer_text (cluster, "trouble");
    char given [TOP_CELL_BYTES];
    if (self->count == 0)
        s_add (self->head, "this server keeps no blocks together with others, or shows them to operators "
            "alone");
    else
    if (*trouble)
        utf8_visible (trouble, strlen (trouble), self->head, sizeof self->head);
    else
        s_add (self->head, "this server gave the others %s", s_size (answer_real (json_object_get (cluster,
            "given"), "bytes"), given));
}

static void
s_head (top_table_t *self, const json_t *now, top_kind_t kind)
{
    self->head [0] = 0;
    if (kind == TOP_DATA) {
        s_add_part (self->head, now, "prepared", "cache_bytes", "cache_bytes_max");
        s_add_part (self->head, now, "compressed", "raw_bytes", "raw_bytes_max");
        s_add_part (self->head, now, "batches", "jobs_bytes", "jobs_bytes_max");
        s_add_part (self->head, json_object_get (now, "block_cache"), "on the disk", "bytes", "bytes_max");
    }
    if (kind == TOP_WORKERS) {
        double processors = 0;
        for (size_t row = 0; row < self->count; row++)
            processors += self->rows [row].values [2];
        s_add (self->head, "%zu machine%s lend%s %.0f processors", self->count, plural (self->count),
            self->count == 1? "s": "", processors);
    }
    if (kind == TOP_TENANTS && self->count == 0)
        s_add (self->head, "this server has no tenants, or shows them to operators alone");
    if (kind == TOP_MEMBERS)
        s_head_members (self, json_object_get (now, "cluster"));
}

//  ---- all of it

typedef struct {
    size_t column;
    bool is_number;
} order_t;

static int
s_compare (const void *one, const void *other, void *context)
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
    const json_t *list = s_list (view->now, kind);
    *self = (top_table_t) { .columns = s_kinds [kind].columns, .column_count = s_kinds [kind].count,
        .rows = calloc (json_array_size (list) + 1, sizeof *self->rows) };
    if (!self->rows)
        return false;
    for (; self->count < json_array_size (list); self->count++)
        s_put (view, kind, json_array_get (list, self->count), &self->rows [self->count]);
    order_t order = { sort % self->column_count, self->columns [sort % self->column_count].is_number };
    qsort_r (self->rows, self->count, sizeof *self->rows, s_compare, &order);
    s_head (self, view->now, kind);
    return true;
}

void
top_table_clear (top_table_t *self)
{
    free (self->rows);
    *self = (top_table_t) { .count = 0 };
}
