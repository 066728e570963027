//  catalogue_jsonl.c -- labels.jsonl: an object a line, all with the same keys; the first says what the
//  columns are.

#include "catalogue_labels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

//  -- one value

static const char *
s_kind_name (column_kind_t kind, bool is_vector)
{
    return kind == COLUMN_TEXT? "a string": is_vector? "a list of numbers": "a number";
}

//  COLUMN_NEW: neither a number nor a string.
static column_kind_t
s_kind (const json_t *value)
{
    return json_is_integer (value)? COLUMN_WHOLE: json_is_real (value)? COLUMN_REAL:
        json_is_string (value)? COLUMN_TEXT: COLUMN_NEW;
}

//  The kind of a list of numbers: COLUMN_REAL if any is real, COLUMN_NEW if an item is no number or the list
//  is empty.
static column_kind_t
s_list_kind (const json_t *list)
{
    column_kind_t kind = COLUMN_NEW;
    for (size_t index = 0; index < json_array_size (list); index++) {
        column_kind_t item = s_kind (json_array_get (list, index));
        if (item != COLUMN_WHOLE && item != COLUMN_REAL)
            return COLUMN_NEW;
        if (kind != COLUMN_REAL)
            kind = item;
    }
    return kind;
}

static int
s_fail_value (const labels_t *labels, const column_t *column, const json_t *value)
{
    const char *fault =
        json_is_boolean (value)? "is true or false: write 1 or 0":
        json_is_null (value)? "is null: write a value":
        json_is_object (value)? "is an object: write its parts as labels of their own":
        json_array_size (value) == 0? "is an empty list: leave the label out, or write numbers":
        "is a list with other things than numbers in it: write numbers alone";
    return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s' %s", column->name, fault);
}

static int
s_take_real (const labels_t *labels, const column_t *column, int64_t whole, value_t *value)
{
    char text [24];
    size_t length = (size_t) snprintf (text, sizeof text, "%lld", (long long) whole);
    return catalogue_labels_real (labels, column, whole, false, (slice_t) { text, length }, &value->real);
}

//  A column read as whole numbers turns out to be real.
static int
s_make_real (const labels_t *labels, column_t *column)
{
    int rc = 0;
    for (size_t index = 0; rc == 0 && index < column->value_count; index++)
        rc = s_take_real (labels, column, column->values [index].whole, &column->values [index]);
    column->kind = COLUMN_REAL;
    return rc;
}

static int
s_put_number (labels_t *labels, column_t *column, const json_t *number)
{
    value_t value = { .whole = json_integer_value (number) };
    int rc = 0;
    if (column->kind == COLUMN_REAL && json_is_integer (number))
        rc = s_take_real (labels, column, value.whole, &value);
    else
    if (column->kind == COLUMN_REAL)
        value.real = json_real_value (number);
    return rc? rc: catalogue_labels_put (labels, column, value);
}

static int
s_put (labels_t *labels, column_t *column, const json_t *value)
{
    bool is_list = json_is_array (value);
    column_kind_t kind = is_list? s_list_kind (value): s_kind (value);
    size_t length = is_list? json_array_size (value): 1;
    if (kind == COLUMN_NEW)
        return s_fail_value (labels, column, value);
    int rc = column->kind == COLUMN_NEW? catalogue_labels_shape (labels, column, kind, is_list, length): 0;
    if (rc)
        return rc;
    if (column->is_vector != is_list || (column->kind == COLUMN_TEXT) != (kind == COLUMN_TEXT))
        return catalogue_labels_fail (labels, -EINVAL, labels->line,
            "'%s' is %s, and %s in the lines before: "
            "write the same in all", column->name, s_kind_name (kind, is_list),
            s_kind_name (column->kind, column->is_vector));
    if (column->length != length)
        return catalogue_labels_fail (labels, -EINVAL, labels->line,
            "'%s' has %zu numbers, and %zu in the lines before: "
            "give all lines as many", column->name, length, column->length);
    if (kind == COLUMN_TEXT)
        return catalogue_labels_put_text (labels, column,
            (slice_t) { json_string_value (value), json_string_length (value) });
    if (kind == COLUMN_REAL && column->kind == COLUMN_WHOLE)
        rc = s_make_real (labels, column);
    for (size_t index = 0; rc == 0 && index < length; index++)
        rc = s_put_number (labels, column, is_list? json_array_get (value, index): value);
    return rc;
}


//  -- one line

//  The keys of the first line, but for the path, in its order.
static int
s_read_keys (labels_t *labels, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        int rc = strcmp (key, "path")? catalogue_labels_add_column (labels, (slice_t) { key, strlen (key) }):
            0;
        if (rc)
            return rc;
    }
    return 0;
}

//  Only keys of the first line; taking the values will show that all of them exist.
static int
s_check_keys (const labels_t *labels, json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach (object, key, value) {
        bool is_known = strcmp (key, "path") == 0;
        for (size_t index = 0; !is_known && index < labels->self->column_count; index++)
            is_known = strcmp (key, labels->self->columns [index].name) == 0;
        if (!is_known)
            return catalogue_labels_fail (labels, -EINVAL, labels->line, "'%s' is not in line 1: "
                "write the same keys in all lines", catalogue_shown (key, strlen (key)).text);
    }
    return 0;
}

static int
s_take_object (labels_t *labels, json_t *object)
{
    catalogue_t *self = labels->self;
    const json_t *path = json_object_get (object, "path");
    if (!json_is_string (path))
        return catalogue_labels_fail (labels, -EINVAL, labels->line, "there is no \"path\" with a string: "
            "write the file's, from the folder on");
    int rc = labels->line == 1? s_read_keys (labels, object): s_check_keys (labels, object);
    if (rc == 0)
        rc = catalogue_labels_add_path (labels,
            (slice_t) { json_string_value (path), json_string_length (path) });
    for (size_t index = 0; rc == 0 && index < self->column_count; index++) {
        column_t *column = &self->columns [index];
        const json_t *value = json_object_get (object, column->name);
        rc = value? s_put (labels, column, value): catalogue_labels_fail (labels, -EINVAL, labels->line,
            "there is no '%s', which line 1 has: write the same keys in all lines", column->name);
    }
    return rc;
}

static int
s_fail_text (const labels_t *labels, const char *reason)
{
    return catalogue_labels_fail (labels, -EINVAL, labels->line, "no JSON object (%s): "
        "write one a line, like {\"path\": \"a/b.jpg\", \"label\": 3}", reason);
}

static int
s_take_line (labels_t *labels, slice_t line)
{
    json_error_t error;
    json_t *object = json_loadb (line.at, line.length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        return json_error_code (&error) == json_error_out_of_memory? catalogue_fail_memory (labels->draft):
            s_fail_text (labels, error.text);
    int rc = json_is_object (object)? s_take_object (labels, object): s_fail_text (labels, "it is a list");
    json_decref (object);
    return rc;
}

static int
s_read (labels_t *labels)
{
    slice_t line;
    int rc;
    while ((rc = catalogue_labels_next (labels, &line)) > 0)
        if ((rc = s_take_line (labels, line)))
            return rc;
    return rc;
}

const labels_reader_t catalogue_jsonl = { .ending = ".jsonl", .read = s_read };
