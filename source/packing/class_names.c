#include "class_names.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pack_source.h"

typedef struct {
    const char *name;
    size_t length, number;
} class_t;

bool
class_names_next (const char **at_p, const char **name_p, size_t *length_p)
{
    const char *at = *at_p, *end = strchrnul (at, '\n');
    if (!*at)
        return false;
    *name_p = at;
    *length_p = (size_t) (end - at) - (end > at && end [-1] == '\r');
    *at_p = end + (*end == '\n');
    return true;
}

static int
s_compare (const void *left, const void *right)
{
    const class_t *a = left, *b = right;
    int order = memcmp (a->name, b->name, a->length < b->length? a->length: b->length);
    return order? order: a->length != b->length? (a->length > b->length) - (a->length < b->length):
        (a->number > b->number) - (a->number < b->number);
}

static int
s_check_all (class_t *classes, size_t count, char *error)
{
    for (size_t number = 0; number < count; number++)
        if (classes [number].length == 0 || classes [number].length >= PATH_MAX)
            return pack_source_fail (error, -EINVAL, "the name of class %zu is empty, or has more than %d "
                "bytes: give --classes a name a line", number, PATH_MAX - 1);
    qsort (classes, count, sizeof *classes, s_compare);
    for (size_t index = 1; index < count; index++) {
        const class_t *one = &classes [index - 1], *other = &classes [index];
        if (one->length == other->length && memcmp (one->name, other->name, one->length) == 0)
            return pack_source_fail (error, -EINVAL, "the classes %zu and %zu are both called '%.*s': give "
                "--classes a name of its own for each", one->number, other->number,
                (int) (one->length < 160? one->length: 160), one->name);
    }
    return 0;
}

int
class_names_check (const char *text, char *error)
{
    size_t count = 0, limit = 1;
    for (const char *at = text; *at; at++)
        limit += *at == '\n';
    class_t *classes = reallocarray (NULL, limit, sizeof *classes);
    if (!classes)
        return pack_source_fail (error, -ENOMEM, "not enough memory: free memory");
    for (class_t class = { 0 }; class_names_next (&text, &class.name, &class.length); class.number = ++count)
        classes [count] = class;
    int rc = s_check_all (classes, count, error);
    free (classes);
    return rc;
}
