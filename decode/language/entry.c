#include "entry.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_EXPECTED "a whole number or [height, width], each from 1 to 4096"
#define PADDING_EXPECTED "a whole number, [left and right, top and bottom] or [left, top, right, bottom]," \
    " each from 0 to 4096"
#define FILL_EXPECTED "a whole number or [red, green, blue], each from 0 to 255"
_Static_assert (PIPELINE_SIDE_MAX == 4096, "SIZE_EXPECTED and PADDING_EXPECTED name it");

enum { LIST_BYTES_MAX = 200, NUMBER_BYTES_MAX = 32 };

//  ---------------------------------------------------------------------------------------------------------
//  Complaints

const char *
entry_printable (const char *text, char *target, size_t target_bytes)
{
    assert (target_bytes > 0);
    size_t length = 0;
    for (; length + 1 < target_bytes && text [length]; length++)
        target [length] = text [length] >= ' ' && text [length] <= '~'? text [length]: '?';
    target [length] = 0;
    return target;
}

int
entry_vcomplain (const complaint_t *complaint, const char *format, va_list arguments)
{
    assert (complaint->text_bytes > 0);
    int length = 0;
    if (complaint->place == ENTRY_NOT_SENT)
        complaint->text [0] = 0;
    else
    if (complaint->name)
        length = snprintf (complaint->text, complaint->text_bytes, "operation %zu (%s): ",
            complaint->place + 1, complaint->name);
    else
        length = snprintf (complaint->text, complaint->text_bytes, "operation %zu: ", complaint->place + 1);
    if (length >= 0 && (size_t) length < complaint->text_bytes)
        vsnprintf (complaint->text + length, complaint->text_bytes - (size_t) length, format, arguments);
    return -EINVAL;
}

int
entry_complain (const complaint_t *complaint, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int rc = entry_vcomplain (complaint, format, arguments);
    va_end (arguments);
    return rc;
}

//  ---------------------------------------------------------------------------------------------------------
//  Keys

static const json_t *
s_get (const entry_t *self, const char *key)
{
    return json_object_get (self->object, key);
}

void
entry_append (char *text, size_t text_bytes, const char *word, const char *quote)
{
    size_t length = strlen (text);
    snprintf (text + length, text_bytes - length, "%s%s%s%s", length? ", ": "", quote, word, quote);
}

int
entry_refuse (const entry_t *self, const char *key, const char *format, ...)
{
    char expected [LIST_BYTES_MAX];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (expected, sizeof expected, format, arguments);
    va_end (arguments);
    return entry_complain (self->complaint, "\"%s\" is %s; expected %s",
        key, s_get (self, key)? "not valid": "missing", expected);
}

static bool
s_is_one_of (const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (strcmp (key, *keys) == 0)
            return true;
    return strcmp (key, "op") == 0;
}

int
entry_only (const entry_t *self, const char *const *keys)
{
    const char *key;
    json_t *child;
    //  jansson's iteration takes a json_t * but does not write.
    json_object_foreach ((json_t *) (uintptr_t) self->object, key, child) {
        if (s_is_one_of (key, keys))
            continue;
        char quoted [ENTRY_QUOTE_BYTES_MAX], expected [LIST_BYTES_MAX] = "\"op\"";
        for (; *keys; keys++)
            entry_append (expected, sizeof expected, *keys, "\"");
        return entry_complain (self->complaint, "unknown key \"%s\"; expected %s",
            entry_printable (key, quoted, sizeof quoted), expected);
    }
    return 0;
}

//  A JSON number as a double; booleans and strings are not numbers.  Adding 0 makes one zero of the two.
static bool
s_number (const json_t *value, double least, double most, double *number_p)
{
    if (!json_is_number (value))
        return false;
    double number = json_number_value (value) + 0.0;
    if (!(number >= least && number <= most))
        return false;
    *number_p = number;
    return true;
}

//  1 and 1.0 are the same number, so a side may be spelled either way.
static bool
s_whole (const json_t *value, uint32_t least, uint32_t most, uint32_t *number_p)
{
    double number;
    if (!s_number (value, least, most, &number) || number != floor (number))
        return false;
    *number_p = (uint32_t) number;
    return true;
}

//  A list of exactly count whole numbers.
static bool
s_wholes (const json_t *list, size_t count, uint32_t least, uint32_t most, uint32_t *numbers)
{
    if (json_array_size (list) != count)
        return false;
    for (size_t index = 0; index < count; index++)
        if (!s_whole (json_array_get (list, index), least, most, &numbers [index]))
            return false;
    return true;
}

static bool
s_pair (const json_t *pair, double least, double most, double target [2])
{
    return json_array_size (pair) == 2
        && s_number (json_array_get (pair, 0), least, most, &target [0])
        && s_number (json_array_get (pair, 1), target [0], most, &target [1]);
}

//  Whether key is left out, as it may be.
static bool
s_may_skip (const entry_t *self, const char *key, entry_need_t need)
{
    return need == ENTRY_OPTIONAL && !s_get (self, key);
}

int
entry_flag (const entry_t *self, const char *key, bool *value_p)
{
    const json_t *value = s_get (self, key);
    if (value && !json_is_boolean (value))
        return entry_refuse (self, key, "true or false");
    if (value)
        *value_p = json_is_true (value);
    return 0;
}

int
entry_whole (const entry_t *self, const char *key, entry_need_t need,
    uint32_t least, uint32_t most, uint32_t *value_p)
{
    if (s_may_skip (self, key, need) || s_whole (s_get (self, key), least, most, value_p))
        return 0;
    return entry_refuse (self, key, "a whole number from %u to %u", least, most);
}

int
entry_number (const entry_t *self, const char *key, double least, double most, double *value_p)
{
    if (s_may_skip (self, key, ENTRY_OPTIONAL) || s_number (s_get (self, key), least, most, value_p))
        return 0;
    return entry_refuse (self, key, "a number from %g to %g", least, most);
}

int
entry_word (const entry_t *self, const char *key, entry_need_t need,
    const char *const *words, size_t count, unsigned *index_p)
{
    if (s_may_skip (self, key, need))
        return 0;
    const char *word = json_string_value (s_get (self, key));
    char expected [LIST_BYTES_MAX] = "";
    for (size_t index = 0; index < count; index++) {
        entry_append (expected, sizeof expected, words [index], "\"");
        if (!word || strcmp (word, words [index]))
            continue;
        *index_p = (unsigned) index;
        return 0;
    }
    return entry_refuse (self, key, "%s%s", count > 1? "one of ": "", expected);
}

int
entry_pair (const entry_t *self, const char *key, double least, double most,
    const char *expected, double pair_p [2])
{
    double pair [2];
    if (s_may_skip (self, key, ENTRY_OPTIONAL))
        return 0;
    if (!s_pair (s_get (self, key), least, most, pair))
        return entry_refuse (self, key, "%s", expected);
    memcpy (pair_p, pair, sizeof pair);
    return 0;
}

bool
entry_list (const entry_t *self, const char *key, double least, double most,
    size_t count_max, double *values_p, size_t *count_p)
{
    const json_t *list = s_get (self, key);
    size_t count = json_array_size (list);
    if (!json_is_array (list) || count > count_max)
        return false;
    for (size_t index = 0; index < count; index++)
        if (!s_number (json_array_get (list, index), least, most, &values_p [index]))
            return false;
    *count_p = count;
    return true;
}

int
entry_two (const entry_t *self, const char *key, double least, double most, const char *expected,
    double two_p [2], bool *given_p)
{
    size_t count = 0;
    *given_p = s_get (self, key);
    if (!*given_p || (entry_list (self, key, least, most, 2, two_p, &count) && count == 2))
        return 0;
    return entry_refuse (self, key, "%s", expected);
}

int
entry_range (const entry_t *self, const char *key, double least, double most, double range_p [2])
{
    if (json_is_number (s_get (self, key))) {
        int rc = entry_number (self, key, least, most, &range_p [0]);
        range_p [1] = range_p [0];
        return rc;
    }
    char expected [80];
    snprintf (expected, sizeof expected, "a number, or [least, most], from %g to %g", least, most);
    return entry_pair (self, key, least, most, expected, range_p);
}

int
entry_sides (const entry_t *self, const char *key, double most, double sides_p [2])
{
    char expected [80];
    bool given;
    if (json_is_number (s_get (self, key))) {
        int rc = entry_number (self, key, 0, most, &sides_p [0]);
        sides_p [1] = sides_p [0];
        return rc;
    }
    snprintf (expected, sizeof expected, "a number, or [across, down], from 0 to %g", most);
    return entry_two (self, key, 0, most, expected, sides_p, &given);
}

int
entry_size (const entry_t *self, uint32_t *height_p, uint32_t *width_p, bool *is_one_p)
{
    const json_t *size = s_get (self, "size");
    uint32_t sides [2];
    bool is_one = s_whole (size, 1, PIPELINE_SIDE_MAX, &sides [0]);
    if (is_one)
        sides [1] = sides [0];
    else
    if (!s_wholes (size, 2, 1, PIPELINE_SIDE_MAX, sides))
        return entry_refuse (self, "size", SIZE_EXPECTED);
    *height_p = sides [0];
    *width_p = sides [1];
    if (is_one_p)
        *is_one_p = is_one;
    return 0;
}

int
entry_padding (const entry_t *self, const char *key, entry_need_t need, uint32_t border_p [4])
{
    const json_t *padding = s_get (self, key);
    uint32_t given [4];
    if (s_may_skip (self, key, need))
        return 0;
    if (s_whole (padding, 0, PIPELINE_SIDE_MAX, given))
        given [1] = given [2] = given [3] = given [0];
    else
    if (s_wholes (padding, 2, 0, PIPELINE_SIDE_MAX, given)) {
        given [2] = given [0];
        given [3] = given [1];
    }
    else
    if (!s_wholes (padding, 4, 0, PIPELINE_SIDE_MAX, given))
        return entry_refuse (self, key, PADDING_EXPECTED);
    memcpy (border_p, given, sizeof given);
    return 0;
}

int
entry_fill (const entry_t *self, const char *key, uint8_t fill_p [IMAGE_COLOURS])
{
    const json_t *fill = s_get (self, key);
    uint32_t given [IMAGE_COLOURS];
    if (!fill)
        return 0;
    if (s_whole (fill, 0, UINT8_MAX, given))
        given [1] = given [2] = given [0];
    else
    if (!s_wholes (fill, IMAGE_COLOURS, 0, UINT8_MAX, given))
        return entry_refuse (self, key, FILL_EXPECTED);
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++)
        fill_p [channel] = (uint8_t) given [channel];
    return 0;
}

int
entry_factor (const entry_t *self, const char *key, const entry_factor_t *limits,
    double *least_p, double *most_p)
{
    const json_t *value = s_get (self, key);
    double x, pair [2];
    if (!value)
        return 0;
    if (s_number (value, 0, limits->x_most, &x)) {
        pair [0] = limits->centre - x;
        pair [1] = limits->centre + x;
        if (pair [0] < 0 && !limits->is_signed)
            pair [0] = 0;
    }
    else
    if (!s_pair (value, limits->least, limits->most, pair))
        return entry_refuse (self, key,
            "a number from 0 to %g, or [least, most] with %g <= least <= most <= %g",
            limits->x_most, limits->least, limits->most);
    *least_p = pair [0] + 0.0;
    *most_p = pair [1];
    return 0;
}

int
entry_channels (const entry_t *self, const char *key, double least, double most,
    float values_p [IMAGE_COLOURS], uint32_t *count_p)
{
    const json_t *value = s_get (self, key);
    *count_p = 1;
    if (!value)
        return 0;
    size_t count = json_is_array (value)? json_array_size (value): 1;
    bool is_valid = count == 1 || count == IMAGE_COLOURS;
    double number = 0;
    for (size_t channel = 0; is_valid && channel < IMAGE_COLOURS; channel++) {
        if (channel < count)
            is_valid = s_number (json_is_array (value)? json_array_get (value, channel): value, least, most,
                &number);
        values_p [channel] = (float) number;
    }
    if (!is_valid)
        return entry_refuse (self, key, "a number or a list of 1 or 3, each from %g to %g", least, most);
    *count_p = (uint32_t) count;
    return 0;
}

int
entry_shape (const entry_t *self, const char *key, uint32_t most,
    uint32_t *dimensions_p, uint32_t shape_p [PIPELINE_DIMENSIONS_MAX])
{
    const json_t *shape = s_get (self, key);
    size_t count = json_array_size (shape);
    if (count < 1 || count > PIPELINE_DIMENSIONS_MAX || !s_wholes (shape, count, 1, most, shape_p))
        return entry_refuse (self, key, "a list of 1 to %d whole numbers, each from 1 to %u",
            PIPELINE_DIMENSIONS_MAX, most);
    *dimensions_p = (uint32_t) count;
    return 0;
}

//  ---------------------------------------------------------------------------------------------------------
//  Canonical text

void
entry_put (entry_text_t *self, const char *format, ...)
{
    assert (self->length < ENTRY_TEXT_BYTES_MAX);
    size_t room = ENTRY_TEXT_BYTES_MAX - self->length;
    va_list arguments;
    va_start (arguments, format);
    int length = vsnprintf (self->text + self->length, room, format, arguments);
    va_end (arguments);
    assert (length >= 0 && (size_t) length < room);
    self->length += (size_t) length;
}

//  Whatever the locale's decimal point is, a point is written.
void
entry_put_number (entry_text_t *self, double number, bool is_float)
{
    char text [NUMBER_BYTES_MAX];
    for (int digits = is_float? 6: 15; digits <= 17; digits++) {
        int length = snprintf (text, NUMBER_BYTES_MAX, "%.*g", digits, number);
        assert (length > 0 && length < NUMBER_BYTES_MAX);
        double back = is_float? (double) (float) strtod (text, NULL): strtod (text, NULL);
        if (back == number)
            break;
    }
    size_t point = strspn (text, "-0123456789");
    if (text [point] && text [point] != 'e') {
        size_t rest = point + strcspn (text + point, "0123456789");
        memmove (text + point + 1, text + rest, strlen (text + rest) + 1);
        text [point] = '.';
    }
    entry_put (self, "%s", text);
}

void
entry_put_pair (entry_text_t *self, const char *key, const double pair [2])
{
    entry_put (self, ",\"%s\":[", key);
    entry_put_number (self, pair [0], false);
    entry_put (self, ",");
    entry_put_number (self, pair [1], false);
    entry_put (self, "]");
}

void
entry_put_flag (entry_text_t *self, const char *key, bool flag)
{
    entry_put (self, ",\"%s\":%s", key, flag? "true": "false");
}
