#include "tar_number.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 64 };

tar_number_t
tar_number_parse (const catalogue_buffer_t *data, locale_t locale, value_t *value_p)
{
    assert (data); assert (value_p);
    char text [NUMBER_BYTES_MAX + 1];
    if (data->size == 0 || data->size > NUMBER_BYTES_MAX)
        return TAR_NUMBER_NONE;
    memcpy (text, data->bytes, data->size);
    text [data->size] = 0;
    char *end;
    errno = 0;
    value_p->whole = strtoll (text, &end, 10);
    if (end > text && end + strspn (end, " \t\r\n") == text + data->size)
        return errno == 0? TAR_NUMBER_WHOLE: TAR_NUMBER_NONE;
    if (strpbrk (text, "xX("))          //  hexadecimal, and nan (...)
        return TAR_NUMBER_NONE;
    value_p->real = strtod_l (text, &end, locale);
    return end > text && end + strspn (end, " \t\r\n") == text + data->size? TAR_NUMBER_REAL: TAR_NUMBER_NONE;
}

bool
tar_number_fit (column_t *column, tar_number_t number, value_t *value)
{
    assert (column); assert (value); assert (number != TAR_NUMBER_NONE);
    if (number == TAR_NUMBER_WHOLE && column->kind == COLUMN_WHOLE)
        return true;
    for (size_t index = 0; column->kind == COLUMN_WHOLE && index < column->value_count; index++) {
        int64_t whole = column->values [index].whole;
        if (!catalogue_is_exact (whole))
            return false;
        column->values [index].real = (double) whole;
    }
    column->kind = COLUMN_REAL;
    if (number == TAR_NUMBER_REAL)
        return true;
    int64_t whole = value->whole;
    value->real = (double) whole;
    return catalogue_is_exact (whole);
}
