#include "dataset_answer.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "clock.h"
#include "dataset_source.h"
#include "utf8.h"

//  ---- texts

//  Writes as much of the row as fits; returns its full length.
static size_t
s_text (const catalogue_t *catalogue, request_table_kind_t table, uint32_t row, char *buffer, size_t size)
{
    if (table == REQUEST_TABLE_NAMES)
        return catalogue_path (catalogue, row, 0, buffer, size);
    const char *name = catalogue_class_name (catalogue, row);
    size_t length = strlen (name);
    if (size)
        memcpy (buffer, name, length < size? length + 1: size);
    return length;
}

//  Counts the rows from first on that fit, at least one, and the bytes of their texts.
static uint32_t
s_measure (const catalogue_t *catalogue, const request_table_t *request, uint32_t rows, size_t *bytes_p)
{
    uint32_t first = (uint32_t) request->first, row = first;
    *bytes_p = 0;
    for (char none; row < rows; row++) {
        size_t length = s_text (catalogue, request->table, row, &none, 0);
        size_t lengths = (row - first + 1) * sizeof (uint32_t);
        if (row > first && *bytes_p + length + lengths > DATASET_ANSWER_TEXT_BYTES_MAX)
            break;
        *bytes_p += length;
    }
    return row - first;
}

static bool
s_texts (const catalogue_t *catalogue, const request_table_t *request, uint32_t rows, dataset_table_t *table)
{
    size_t bytes, at;
    table->count = s_measure (catalogue, request, rows, &bytes);
    at = table->count * sizeof (uint32_t);
    table->size = at + bytes;
    table->bytes = malloc (table->size + 1);            //  one more: each text is written with an ending zero
    for (uint32_t row = 0; table->bytes && row < table->count; row++) {
        uint32_t length = (uint32_t) s_text (catalogue, request->table, (uint32_t) request->first + row,
            (char *) table->bytes + at, table->size + 1 - at);
        memcpy (table->bytes + row * sizeof length, &length, sizeof length);
        at += length;
    }
    assert (!table->bytes || at == table->size);
    return table->bytes;
}

//  ---- labels

//  The index of the label; the number of labels: no label has this name.
static size_t
s_find (const catalogue_t *catalogue, const char *name)
{
    size_t label = 0;
    while (label < catalogue_labels (catalogue) && strcmp (catalogue_label (catalogue, label)->name, name))
        label++;
    return label;
}

static bool
s_labels (const catalogue_t *catalogue, const request_table_t *request, uint32_t rows, dataset_table_t *table)
{
    size_t label = s_find (catalogue, request->label), bytes = catalogue_label (catalogue, label)->bytes;
    size_t most = bytes < DATASET_ANSWER_BYTES_MAX? DATASET_ANSWER_BYTES_MAX / (bytes? bytes: 1): 1;
    uint64_t left = rows - request->first;
    table->count = (uint32_t) (left < most? left: most);
    table->size = table->count * bytes;
    table->bytes = malloc (table->size? table->size: 1);
    for (uint32_t row = 0; table->bytes && row < table->count; row++)
        catalogue_label_value (catalogue, label, (uint32_t) request->first + row, table->bytes + row * bytes);
    return table->bytes;
}

//  ---- DATASET

bool
dataset_answer_table (const catalogue_t *catalogue, const request_table_t *request, dataset_table_t *table,
    refusal_t *refusal)
{
    *table = (dataset_table_t) { .bytes = NULL };
    if (request->table == REQUEST_TABLE_NONE)
        return true;
    uint32_t rows = request->table == REQUEST_TABLE_CLASSES? catalogue_classes (catalogue)
        : catalogue_samples (catalogue);
    bool is_label = request->table == REQUEST_TABLE_LABEL;
    if (is_label && s_find (catalogue, request->label) == catalogue_labels (catalogue))
        return refuse (refusal, "bad_request", "label: data set '%s' has none called '%s'", request->dataset,
            request->label);
    if (request->first > rows)
        return refuse (refusal, "bad_request", "first: %" PRIu64 ", and the table has %u rows",
            request->first, rows);
    bool good = is_label? s_labels (catalogue, request, rows, table)
        : s_texts (catalogue, request, rows, table);
    return good || refuse (refusal, "busy", "no memory for the table: try again in a moment");
}

static json_t *
s_describe_label (const catalogue_label_t *label)
{
    json_t *shape = json_array ();
    for (uint32_t side = 0; side < label->dimensions; side++)
        json_array_append_new (shape, json_integer (label->shape [side]));
    return json_pack ("{s:s,s:s,s:o}", "name", label->name, "dtype", label->dtype, "shape", shape);
}

char *
dataset_answer_text (const catalogue_t *catalogue, const request_table_t *request,
    const dataset_table_t *table)
{
    static const char *const tables [] = { NULL, "classes", "names", "label" };
    json_t *labels = json_array ();
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        json_array_append_new (labels, s_describe_label (catalogue_label (catalogue, label)));
    json_t *object = json_pack ("{s:s,s:s,s:o,s:o,s:o}", "dataset", request->dataset, "fingerprint",
        catalogue_fingerprint (catalogue), "samples",
        json_sprintf ("%" PRIu32, catalogue_samples (catalogue)), "classes",
        json_sprintf ("%" PRIu32, catalogue_classes (catalogue)), "labels", labels);
    if (request->table != REQUEST_TABLE_NONE) {
        json_object_set_new (object, "table", json_string (tables [request->table]));
        if (request->table == REQUEST_TABLE_LABEL)
            json_object_set_new (object, "label", json_string (request->label));
        json_object_set_new (object, "first", json_sprintf ("%" PRIu64, request->first));
        json_object_set_new (object, "count", json_sprintf ("%" PRIu32, table->count));
    }
    char *text = json_dumps (object, JSON_COMPACT);
    json_decref (object);
    assert (text);
    return text;
}

//  ---- what STATUS says beyond what the broker knows

//  The names of the devices that it lies on, each once.
static json_t *
s_devices (const dataset_source_t *source)
{
    json_t *names = json_array ();
    const device_t *device;
    for (size_t part = 0, before; (device = dataset_source_device (source, part)); part++) {
        char name [DEVICE_NAME_BYTES];
        for (before = 0; dataset_source_device (source, before) != device; before++);
        if (before == part)
            json_array_append_new (names, json_string (device_name (device, name)));
    }
    return names;
}

//  Of single objects in a store, or files that are kept: from where their bytes came, as a pack's status has
//  it.
static json_t *
s_objects (const dataset_source_t *source)
{
    uint64_t held;
    bool is_kept = dataset_source_is_kept (source, &held);
    if (source->pack || (!is_kept && !catalogue_store (source->catalogue, 0)))
        return json_null ();
    const dataset_source_objects_t *objects = &source->objects;
    json_t *object = json_pack ("{s:I, s:f, s:I, s:f, s:I, s:f, s:I, s:I}", "source_bytes",
        (json_int_t) objects->source_bytes, "source_seconds", (double) objects->source_ns / 1e9,
        "block_cache_bytes", (json_int_t) objects->cached_bytes, "block_cache_seconds",
        (double) objects->cached_ns / 1e9, "peer_bytes", (json_int_t) objects->peer_bytes, "peer_seconds",
        (double) objects->peer_ns / 1e9, "gets", (json_int_t) objects->gets, "slow_gets",
        (json_int_t) objects->slow_gets);
    if (is_kept) {
        json_object_set_new (object, "ahead_samples", json_integer ((json_int_t) objects->ahead_samples));
        json_object_set_new (object, "ahead_bytes", json_integer ((json_int_t) objects->ahead_bytes));
        json_object_set_new (object, "block_cache_held", json_integer ((json_int_t) held));
    }
    return object;
}

//  What of the data stays in memory.
static json_t *
s_pins (const dataset_source_t *source)
{
    if (!source->pins)
        return json_null ();
    pins_figures_t pins = pins_figures (source->pins);
    return json_pack ("{s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:f}", "bytes", (json_int_t) pins.bytes, "part",
        (double) pins.bytes / (double) pins.data_bytes, "data_bytes", (json_int_t) pins.data_bytes,
        "memory_bytes", (json_int_t) pins.memory, "limit_bytes", (json_int_t) pins.limit, "hit_bytes",
        (json_int_t) pins.hit_bytes, "miss_bytes", (json_int_t) pins.miss_bytes, "saved_seconds",
        (double) source->saved_ns / 1e9);
}

//  Which of its samples stay in memory decoded, and what that saves.
static json_t *
s_pictures (const dataset_source_t *source)
{
    if (!source->pictures)
        return json_null ();
    pictures_figures_t pictures = pictures_figures (source->pictures);
    return json_pack ("{s:I, s:I, s:I, s:I, s:f}", "count", (json_int_t) pictures.count, "bytes",
        (json_int_t) pictures.bytes, "hits", (json_int_t) pictures.hits, "misses",
        (json_int_t) pictures.misses, "saved_seconds", (double) source->decoding.saved_ns / 1e9);
}

//  Of a folder's copy on the local disk, beside what the broker says of it.
static void
s_describe_copy (const dataset_source_t *source, json_t *pieces)
{
    json_object_set_new (pieces, "since_seconds",
        json_real ((double) (clock_now_ms () - source->space_since_ms) / 1000));
    json_object_set_new (pieces, "missing_samples", json_integer (space_missing (source->space)));
    json_object_set_new (pieces, "aside", json_boolean (source->hang.late > 0));
}

static void
s_describe (const dataset_source_t *source, json_t *object, bool sees_all)
{
    const catalogue_t *catalogue = source->catalogue;
    json_t *fields = json_array (), *folders = json_array (), *labels = json_array ();
    for (size_t field = 0; field < catalogue_fields (catalogue); field++) {
        json_array_append_new (fields, json_string (catalogue_field_name (catalogue, field)));
        json_array_append_new (folders, utf8_json_path (catalogue_folder (catalogue, field)));
    }
    for (size_t label = 0; label < catalogue_labels (catalogue); label++)
        json_array_append_new (labels, json_string (catalogue_label (catalogue, label)->name));
    json_object_set_new (object, "path", utf8_json_path (catalogue_root (catalogue)));
    if (source->listed_ms)
        json_object_set_new (object, "listed_seconds",
            json_real ((double) (clock_now_ms () - source->listed_ms) / 1000));
    json_object_set_new (object, "classes", json_integer (catalogue_classes (catalogue)));
    json_object_set_new (object, "bytes", json_integer ((json_int_t) catalogue_bytes (catalogue)));
    json_object_set_new (object, "fields", fields);
    json_object_set_new (object, "folders", folders);
    json_object_set_new (object, "labels", labels);
    json_t *pack = json_object_get (object, "pack");
    if (source->pack)
        json_object_set_new (pack, "volumes", json_integer (pack_volumes (source->pack)));
    uint64_t held;
    if (source->pack && sees_all && dataset_source_is_kept (source, &held))
        json_object_set_new (pack, "block_cache_held", json_integer ((json_int_t) held));
    if (source->space)
        s_describe_copy (source, json_object_get (object, "pieces"));
    if (sees_all)
        json_object_set_new (object, "objects", s_objects (source));
    if (sees_all)
        json_object_set_new (object, "pins", s_pins (source));
    if (sees_all)
        json_object_set_new (object, "pictures", s_pictures (source));
    if (source->rows)
        json_object_set_new (object, "jpeg_rows", json_integer (jpeg_row_index_samples (source->rows)));
    if (sees_all)
        json_object_set_new (object, "devices", s_devices (source));
    json_object_set_new (object, "jpeg_warnings", source->jpeg_warnings_max == UINT32_MAX? json_null ()
        : json_integer (source->jpeg_warnings_max));
}

//  Whether the caller may know of the data set.
static bool
s_is_listed (const json_t *datasets, const char *name)
{
    size_t index;
    const json_t *object;
    json_array_foreach (datasets, index, object)
        if (strcmp (json_string_value (json_object_get (object, "name")), name) == 0)
            return true;
    return false;
}

static void
s_describe_warnings (const data_warnings_t *warnings, const json_t *datasets, json_t *object)
{
    json_t *list = json_array ();
    char clipped [DATA_WARNINGS_TEXT_BYTES];
    const char *text, *other;
    for (size_t index = 0; warnings && (text = data_warnings_text (warnings, index, &other)); index++)
        if (!other || s_is_listed (datasets, other))
            json_array_append_new (list, utf8_json (text));
    if (warnings && data_warnings_clipped_text (warnings, clipped))
        json_array_append_new (list, utf8_json (clipped));
    json_object_set_new (object, "warnings", list);
    json_object_set_new (object, "clipped_samples",
        json_integer (warnings? data_warnings_clipped (warnings): 0));
}

void
dataset_answer_status (broker_t *broker, json_t *status, bool sees_all)
{
    size_t index;
    json_t *object, *datasets = json_object_get (status, "datasets");
    json_array_foreach (datasets, index, object) {
        dataset_t *dataset = dataset_named (broker, NULL,
            json_string_value (json_object_get (object, "name")));
        s_describe (dataset_source_of (dataset), object, sees_all);
        s_describe_warnings (dataset_source_of (dataset)->warnings, datasets, object);
    }
}
