#include "request_values.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "utf8.h"

enum {
    JSON_BYTES_MAX = 64 * 1024,
    JSON_LEVELS_MAX = 16
};

_Static_assert ((int) REQUEST_NAME_BYTES_MAX < (int) REQUEST_SHOWN_BYTES, "a whole name fits a message");

//  Deepest nesting of brackets outside strings.  Up to the place of the first error, which a parser never
//  passes, this is how deep the parser recurses; so whatever follows is safe to parse.
static size_t
s_levels (const uint8_t *text, size_t size)
{
    size_t level = 0, deepest = 0;
    bool quoted = false;
    for (size_t index = 0; index < size; index++) {
        uint8_t byte = text [index];
        if (quoted && byte == '\\')
            index++;                //  an escaped character does not end the string
        else if (byte == '"')
            quoted = !quoted;
        else if (!quoted && (byte == '{' || byte == '['))
            deepest = ++level > deepest? level: deepest;
        else if (!quoted && (byte == '}' || byte == ']') && level)
            level--;
    }
    return deepest;
}

json_t *
request_object (const frame_t *frame, refusal_t *refusal)
{
    if (frame->size > JSON_BYTES_MAX) {
        refuse (refusal, "malformed", "the JSON has %zu bytes, at most %d are taken",
            frame->size, JSON_BYTES_MAX);
        return NULL;
    }
    if (frame->size && memchr (frame->data, 0, frame->size)) {
        refuse (refusal, "malformed", "the JSON holds a zero byte");
        return NULL;
    }
    size_t levels = s_levels (frame->data, frame->size);
    if (levels > JSON_LEVELS_MAX) {
        refuse (refusal, "malformed", "the JSON nests %zu levels deep, at most %d are taken",
            levels, JSON_LEVELS_MAX);
        return NULL;
    }
    json_error_t error;
    json_t *object = json_loadb (frame->size? (const char *) frame->data: "", frame->size,
        JSON_REJECT_DUPLICATES, &error);
    if (!object) {
        char shown [2 * REQUEST_SHOWN_BYTES];
        utf8_visible (error.text, strlen (error.text), shown, sizeof shown);
        bool overflow = json_error_code (&error) == json_error_numeric_overflow;
        refuse (refusal, "malformed", "no JSON, line %d column %d: %s%s", error.line, error.column, shown,
            overflow? " (a number of 64 bits goes into a string)": "");
    }
    else if (!json_is_object (object)) {
        refuse (refusal, "malformed", "the JSON is no object");
        json_decref (object);
        object = NULL;
    }
    return object;
}

bool
request_refuse_value (refusal_t *refusal, const char *key, const char *expected, const json_t *value)
{
    char shown [REQUEST_SHOWN_BYTES] = "something else";
    char *text = json_dumps (value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text)
        utf8_visible (text, strlen (text), shown, sizeof shown);
    free (text);
    return refuse (refusal, "bad_request", "%s: expected %s, got %s", key, expected, shown);
}

bool
request_refuse_key (refusal_t *refusal, const char *key, const char *known)
{
    char shown [REQUEST_SHOWN_BYTES];
    utf8_visible (key, strlen (key), shown, sizeof shown);
    return refuse (refusal, "bad_request", "unknown key '%s'; there are %s", shown, known);
}

bool
request_integer (const json_t *value, uint64_t min, uint64_t max, uint64_t *number)
{
    if (!json_is_integer (value) || json_integer_value (value) < 0)
        return false;
    *number = (uint64_t) json_integer_value (value);
    return *number >= min && *number <= max;
}

bool
request_take_integer (const char *key, const json_t *value, uint32_t min, uint32_t max, const char *unit,
    uint32_t *number_p, refusal_t *refusal)
{
    uint64_t number;
    if (!request_integer (value, min, max, &number)) {
        char expected [80];
        snprintf (expected, sizeof expected, "an integer from %" PRIu32 " to %" PRIu32 "%s", min, max, unit);
        return request_refuse_value (refusal, key, expected, value);
    }
    *number_p = (uint32_t) number;
    return true;
}

bool
request_text (const json_t *value, size_t bytes_min, char name [REQUEST_NAME_BYTES_MAX + 1])
{
    if (!json_is_string (value))
        return false;
    size_t size = json_string_length (value);
    if (size < bytes_min || size > REQUEST_NAME_BYTES_MAX)
        return false;
    //  A control character does not show as itself.
    char shown [4 * REQUEST_NAME_BYTES_MAX + 8];
    utf8_visible (json_string_value (value), size, shown, sizeof shown);
    if (strcmp (shown, json_string_value (value)) != 0)
        return false;
    memcpy (name, shown, size + 1);
    return true;
}

int
request_word (const json_t *value, const char *const *words, int count)
{
    for (int index = 0; index < count && json_is_string (value); index++)
        if (strcmp (json_string_value (value), words [index]) == 0)
            return index;
    return -1;
}

//  Digits only, so that no sign, blank or base slips in, and below 2^64.
static bool
s_decimal (const char *text, uint64_t *number_p)
{
    uint64_t number = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9'
            || __builtin_mul_overflow (number, 10, &number)
            || __builtin_add_overflow (number, (uint64_t) (*text - '0'), &number))
            return false;
    }
    *number_p = number;
    return true;
}

bool
request_count (const json_t *value, uint64_t max, uint64_t *number_p)
{
    return json_is_string (value)? s_decimal (json_string_value (value), number_p) && *number_p <= max
        : request_integer (value, 0, max < INT64_MAX? max: INT64_MAX, number_p);
}

bool
request_hexadecimal (const json_t *value, size_t digits, char *text)
{
    static const char allowed [] = "0123456789abcdef";
    if (!json_is_string (value) || json_string_length (value) != digits
    ||  strspn (json_string_value (value), allowed) != digits)
        return false;
    memcpy (text, json_string_value (value), digits + 1);
    return true;
}
