/*  pipelines -- short cuts of the decode tests: a pipeline from JSON text, with or without a source of
 *  several fields.  */
#ifndef PIPELINES_H
#define PIPELINES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "pipeline.h"

enum { ERROR_BYTES = 800 };

//  text with every ' as a ": JSON in C that one can read.  Lent until the second next call; text must be
//  short.
static inline const char *
quoted (const char *text)
{
    enum { ROOM = 16384 };
    static char rooms [2] [ROOM];
    static unsigned turn;
    char *room = rooms [turn ^= 1], *at = room;
    assert_true (strlen (text) < ROOM);
    for (; *text; text++)
        *at++ = *text == '\''? '"': *text;
    *at = 0;
    return room;
}

//  pipeline_new on text, ' for ", with a source (NULL: one image) and present texts; 0 or its error.  Fails
//  the test when text is not JSON.
static inline int
pipeline_try_on (const pipeline_t **self_p, const char *text, const pipeline_source_t *source,
    const char *const *present, size_t present_count, char error [ERROR_BYTES])
{
    json_t *value = json_loads (quoted (text), JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!value)
        fail_msg ("not JSON: %s", text);
    int rc = pipeline_new (self_p, value, source, present, present_count, error, ERROR_BYTES);
    json_decref (value);
    return rc;
}

static inline int
pipeline_try (const pipeline_t **self_p, const char *text, char error [ERROR_BYTES])
{
    return pipeline_try_on (self_p, text, NULL, NULL, 0, error);
}

//  A valid one; the caller destroys it.
static inline const pipeline_t *
pipeline_on (const char *text, const pipeline_source_t *source)
{
    char error [ERROR_BYTES];
    const pipeline_t *self;
    if (pipeline_try_on (&self, text, source, NULL, 0, error))
        fail_msg ("%s: %s", text, error);
    return self;
}

static inline const pipeline_t *
pipeline_of (const char *text)
{
    return pipeline_on (text, NULL);
}

#endif
