#include "dataset_table.h"
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>

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
        if (row > first && *bytes_p + length + lengths > DATASET_TABLE_TEXT_BYTES_MAX)
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
    size_t most = bytes < DATASET_TABLE_BYTES_MAX? DATASET_TABLE_BYTES_MAX / (bytes? bytes: 1): 1;
    uint64_t left = rows - request->first;
    table->count = (uint32_t) (left < most? left: most);
    table->size = table->count * bytes;
    table->bytes = malloc (table->size? table->size: 1);
    for (uint32_t row = 0; table->bytes && row < table->count; row++)
        catalogue_label_value (catalogue, label, (uint32_t) request->first + row, table->bytes + row * bytes);
    return table->bytes;
}

//  ----

bool
dataset_table (const catalogue_t *catalogue, const request_table_t *request, dataset_table_t *table,
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
dataset_table_text (const catalogue_t *catalogue, const request_table_t *request,
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
