#include "operation_text.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "operation.h"

enum { NUMBER_BYTES_MAX = 32 };

void
operation_text_put (operation_text_t *self, const char *format, ...)
{
    assert (self->length < OPERATION_TEXT_BYTES_MAX);
    size_t room = OPERATION_TEXT_BYTES_MAX - self->length;
    va_list arguments;
    va_start (arguments, format);
    int length = vsnprintf (self->text + self->length, room, format, arguments);
    va_end (arguments);
    assert (length >= 0 && (size_t) length < room);
    self->length += (size_t) length;
}

//  Whatever the locale's decimal point is, a point is written.
void
operation_text_number (operation_text_t *self, double number, bool is_float)
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
    operation_text_put (self, "%s", text);
}

void
operation_text_pair (operation_text_t *self, const char *key, const double pair [2])
{
    operation_text_put (self, ",\"%s\":[", key);
    operation_text_number (self, pair [0], false);
    operation_text_put (self, ",");
    operation_text_number (self, pair [1], false);
    operation_text_put (self, "]");
}

void
operation_text_flag (operation_text_t *self, const char *key, bool flag)
{
    operation_text_put (self, ",\"%s\":%s", key, flag? "true": "false");
}
