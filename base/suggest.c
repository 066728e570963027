#include "suggest.h"
#include <assert.h>
#include <string.h>

enum { CHANGES_MAX = 2,                 //  three make another word
    PART_BYTES_MIN = 3 };               //  shorter ones are in many

static size_t
s_least (size_t one, size_t other)
{
    return one < other? one: other;
}

//  Changes that make one name of the other, for names of up to SUGGEST_BYTES_MAX: a character more, less or
//  another, or two neighbours in the other order.
static size_t
s_distance (const char *left, const char *right)
{
    size_t rows [3] [SUGGEST_BYTES_MAX + 1], columns = strlen (right), line = 0;
    assert (columns <= SUGGEST_BYTES_MAX);
    for (size_t column = 0; column <= columns; column++)
        rows [0] [column] = column;
    for (; left [line]; line++) {
        const size_t *older = rows [(line + 2) % 3], *old = rows [line % 3];
        size_t *row = rows [(line + 1) % 3];
        row [0] = line + 1;
        for (size_t column = 1; column <= columns; column++) {
            size_t changed = old [column - 1] + (left [line] != right [column - 1]);
            row [column] = s_least (changed, s_least (row [column - 1], old [column]) + 1);
            if (line && column > 1 && left [line] == right [column - 2]
                && left [line - 1] == right [column - 1])
                row [column] = s_least (row [column], older [column - 2] + 1);
        }
    }
    return rows [line % 3] [columns];
}

static const char *
s_part (const char *name, const char *const *names, size_t count)
{
    const char *part = NULL, *whole = NULL;
    for (size_t index = 0; index < count; index++) {
        size_t size = strlen (names [index]);
        if (size >= PART_BYTES_MIN && strstr (name, names [index]) && (!part || size > strlen (part)))
            part = names [index];
        if (strlen (name) >= PART_BYTES_MIN && strstr (names [index], name)
            && (!whole || size < strlen (whole)))
            whole = names [index];
    }
    return part? part: whole;
}

const char *
suggest_name (const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = CHANGES_MAX + 1;
    if (strlen (name) > SUGGEST_BYTES_MAX)
        return NULL;
    for (size_t index = 0; index < count; index++) {
        size_t distance = s_distance (name, names [index]);
        if (distance < best && distance < strlen (names [index])) {
            best = distance;
            nearest = names [index];
        }
    }
    return nearest? nearest: s_part (name, names, count);
}
