#include "operation.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_EXPECTED "a whole number or [height, width], each from 1 to 4096"
#define SCALE_EXPECTED "[least, most], two shares of the area with 0 < least <= most <= 1"
#define RATIO_EXPECTED "[least, most], two ratios of width to height with 0.01 <= least <= most <= 100"
#define PROBABILITY_EXPECTED "a number from 0 to 1"
_Static_assert (PIPELINE_SIDE_MAX == 4096, "SIZE_EXPECTED names it");

enum { NUMBER_BYTES_MAX = 32, QUOTE_BYTES_MAX = 41 };

typedef struct {
    const char *name;
    operation_kind_t kind;
    bool may_be_private;
    const char *keys [4];       //  those beside "op"
    int (*parse) (operation_t *self, const json_t *value, const complaint_t *complaint);
} operation_row_t;

const char *
operation_printable (const char *text, char *target, size_t target_bytes)
{
    assert (target_bytes > 0);
    size_t length = 0;
    for (; length + 1 < target_bytes && text [length]; length++)
        target [length] = text [length] >= ' ' && text [length] <= '~'? text [length]: '?';
    target [length] = 0;
    return target;
}

int
operation_complain (const complaint_t *complaint, const char *format, ...)
{
    assert (complaint->text_bytes > 0);
    int length = complaint->name
        ? snprintf (complaint->text, complaint->text_bytes, "operation %zu (%s): ",
            complaint->place + 1, complaint->name)
        : snprintf (complaint->text, complaint->text_bytes, "operation %zu: ", complaint->place + 1);
    if (length >= 0 && (size_t) length < complaint->text_bytes) {
        va_list arguments;
        va_start (arguments, format);
        vsnprintf (complaint->text + length, complaint->text_bytes - (size_t) length, format, arguments);
        va_end (arguments);
    }
    return -EINVAL;
}

//  A JSON number as a double; booleans and strings are not numbers.  Adding 0 makes one zero of the two.
static bool
s_number (const json_t *value, double *number_p)
{
    if (!json_is_number (value))
        return false;
    *number_p = json_number_value (value) + 0.0;
    return true;
}

//  1 and 1.0 are the same number, so a side may be spelled either way.
static bool
s_side (const json_t *value, uint32_t *side_p)
{
    double number;
    if (!s_number (value, &number) || number != floor (number))
        return false;
    if (number < 1 || number > PIPELINE_SIDE_MAX)
        return false;
    *side_p = (uint32_t) number;
    return true;
}

static int
s_parse_size (operation_t *self, const json_t *value, const complaint_t *complaint)
{
    const json_t *size = json_object_get (value, "size");
    if (!size)
        return operation_complain (complaint, "\"size\" is missing; expected " SIZE_EXPECTED);
    if (s_side (size, &self->height)) {
        self->width = self->height;
        self->shorter_side = self->kind == OPERATION_RESIZE;
        return 0;
    }
    if (json_array_size (size) == 2 && s_side (json_array_get (size, 0), &self->height)
    &&  s_side (json_array_get (size, 1), &self->width))
        return 0;
    return operation_complain (complaint, "\"size\" is not valid; expected " SIZE_EXPECTED);
}

//  An optional pair lowest <= pair [0] <= pair [1] <= highest; false if it is there but not so.
static bool
s_pair (const json_t *pair, double lowest, double highest, double target [2])
{
    if (!pair)
        return true;
    return json_array_size (pair) == 2
        && s_number (json_array_get (pair, 0), &target [0])
        && s_number (json_array_get (pair, 1), &target [1])
        && target [0] >= lowest && target [0] <= target [1] && target [1] <= highest;
}

static int
s_parse_random_resized_crop (operation_t *self, const json_t *value, const complaint_t *complaint)
{
    self->scale [0] = 0.08;
    self->scale [1] = 1;
    self->ratio [0] = 3.0 / 4;
    self->ratio [1] = 4.0 / 3;
    if (!s_pair (json_object_get (value, "scale"), 0, 1, self->scale) || self->scale [0] <= 0)
        return operation_complain (complaint, "\"scale\" is not valid; expected " SCALE_EXPECTED);
    if (!s_pair (json_object_get (value, "ratio"), 0.01, 100, self->ratio))
        return operation_complain (complaint, "\"ratio\" is not valid; expected " RATIO_EXPECTED);
    return s_parse_size (self, value, complaint);
}

static int
s_parse_flip (operation_t *self, const json_t *value, const complaint_t *complaint)
{
    self->probability = 0.5;
    const json_t *probability = json_object_get (value, "p");
    if (probability && !(s_number (probability, &self->probability)
    &&  self->probability >= 0 && self->probability <= 1))
        return operation_complain (complaint, "\"p\" is not valid; expected " PROBABILITY_EXPECTED);
    return 0;
}

//  In the order of operation_kind_t.
static const operation_row_t s_rows [] = {
    { "resize", OPERATION_RESIZE, false, { "size" }, s_parse_size },
    { "center_crop", OPERATION_CENTER_CROP, false, { "size" }, s_parse_size },
    { "random_resized_crop", OPERATION_RANDOM_RESIZED_CROP, false,
        { "size", "scale", "ratio" }, s_parse_random_resized_crop },
    { "flip", OPERATION_FLIP, true, { "p" }, s_parse_flip },
};
enum { ROWS = sizeof s_rows / sizeof *s_rows };

static const operation_row_t *
s_row (const operation_t *self)
{
    assert (self);
    assert ((size_t) self->kind < ROWS);
    assert (s_rows [self->kind].kind == self->kind);
    return &s_rows [self->kind];
}

static const operation_row_t *
s_find (const char *name)
{
    for (size_t index = 0; index < ROWS; index++)
        if (strcmp (s_rows [index].name, name) == 0)
            return &s_rows [index];
    return NULL;
}

//  Appends words with ", " between them; what does not fit is left out.
static void
s_append (char *text, size_t text_bytes, const char *word, const char *quote)
{
    size_t length = strlen (text);
    snprintf (text + length, text_bytes - length, "%s%s%s%s", length? ", ": "", quote, word, quote);
}

static int
s_complain_unknown (const complaint_t *complaint, const char *name)
{
    char quoted [QUOTE_BYTES_MAX], supported [160] = "";
    for (size_t index = 0; index < ROWS; index++)
        s_append (supported, sizeof supported, s_rows [index].name, "");
    return operation_complain (complaint, "unknown operation \"%s\"; supported: %s",
        operation_printable (name, quoted, sizeof quoted), supported);
}

static bool
s_has_key (const operation_row_t *row, const char *key)
{
    for (size_t index = 0; index < sizeof row->keys / sizeof *row->keys && row->keys [index]; index++)
        if (strcmp (row->keys [index], key) == 0)
            return true;
    return strcmp (key, "op") == 0;
}

static int
s_check_keys (const operation_row_t *row, const json_t *value, const complaint_t *complaint)
{
    const char *key;
    json_t *child;
    //  jansson's iteration takes a json_t * but does not write.
    json_object_foreach ((json_t *) (uintptr_t) value, key, child) {
        if (s_has_key (row, key))
            continue;
        char quoted [QUOTE_BYTES_MAX], expected [96] = "\"op\"";
        for (size_t index = 0; index < sizeof row->keys / sizeof *row->keys && row->keys [index]; index++)
            s_append (expected, sizeof expected, row->keys [index], "\"");
        return operation_complain (complaint, "unknown key \"%s\"; expected %s",
            operation_printable (key, quoted, sizeof quoted), expected);
    }
    return 0;
}

int
operation_parse (operation_t *self, const json_t *value, complaint_t *complaint)
{
    assert (self);
    assert (complaint);
    *self = (operation_t) { 0 };
    if (!json_is_object (value))
        return operation_complain (complaint,
            "expected an object like {\"op\": \"flip\"} or {\"share\": true}");
    const json_t *name = json_object_get (value, "op");
    if (!name)
        return operation_complain (complaint,
            "\"op\" is missing; expected the operation's name, or {\"share\": true}");
    if (!json_is_string (name))
        return operation_complain (complaint,
            "\"op\" is not valid; expected the operation's name as a string");
    const operation_row_t *row = s_find (json_string_value (name));
    if (!row)
        return s_complain_unknown (complaint, json_string_value (name));
    complaint->name = row->name;
    self->kind = row->kind;
    int rc = s_check_keys (row, value, complaint);
    return rc? rc: row->parse (self, value, complaint);
}

const char *
operation_name (const operation_t *self)
{
    return s_row (self)->name;
}

bool
operation_is_random (const operation_t *self)
{
    if (self->kind == OPERATION_FLIP)
        return self->probability > 0 && self->probability < 1;
    return self->kind == OPERATION_RANDOM_RESIZED_CROP;
}

bool
operation_may_be_private (const operation_t *self)
{
    return s_row (self)->may_be_private;
}

//  The shortest decimal that reads back as the same double, whatever the locale's decimal point is.
static const char *
s_shortest (double number, char text [NUMBER_BYTES_MAX])
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf (text, NUMBER_BYTES_MAX, "%.*g", digits, number);
        if (strtod (text, NULL) == number)
            break;
    }
    size_t point = strspn (text, "-0123456789");
    if (text [point] && text [point] != 'e') {
        size_t rest = point + strcspn (text + point, "0123456789");
        memmove (text + point + 1, text + rest, strlen (text + rest) + 1);
        text [point] = '.';
    }
    return text;
}

size_t
operation_write (const operation_t *self, char text [OPERATION_TEXT_BYTES_MAX])
{
    char number [4] [NUMBER_BYTES_MAX], size [NUMBER_BYTES_MAX];
    if (self->shorter_side)
        snprintf (size, sizeof size, "%u", self->height);
    else
        snprintf (size, sizeof size, "[%u,%u]", self->height, self->width);
    int length = 0;
    if (self->kind == OPERATION_FLIP)
        length = snprintf (text, OPERATION_TEXT_BYTES_MAX, "{\"op\":\"flip\",\"p\":%s}",
            s_shortest (self->probability, number [0]));
    else
    if (self->kind == OPERATION_RANDOM_RESIZED_CROP)
        length = snprintf (text, OPERATION_TEXT_BYTES_MAX,
            "{\"op\":\"%s\",\"size\":%s,\"scale\":[%s,%s],\"ratio\":[%s,%s]}", operation_name (self), size,
            s_shortest (self->scale [0], number [0]), s_shortest (self->scale [1], number [1]),
            s_shortest (self->ratio [0], number [2]), s_shortest (self->ratio [1], number [3]));
    else
        length = snprintf (text, OPERATION_TEXT_BYTES_MAX, "{\"op\":\"%s\",\"size\":%s}",
            operation_name (self), size);
    assert (length > 0 && length < OPERATION_TEXT_BYTES_MAX);
    return (size_t) length;
}
