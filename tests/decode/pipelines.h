/*  pipelines -- short cuts of the decode tests: a pipeline from JSON text, a key from a number.  */
#ifndef PIPELINES_H
#define PIPELINES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "pipeline.h"

enum { ERROR_BYTES = 400 };

//  text with every ' as a ": JSON in C that one can read.  Lent until the second next call; text must be
//  short.
static inline const char *
quoted (const char *text)
{
    enum { ROOM = 8192 };
    static char rooms [2] [ROOM];
    static unsigned turn;
    char *room = rooms [turn ^= 1], *at = room;
    assert_true (strlen (text) < ROOM);
    for (; *text; text++)
        *at++ = *text == '\''? '"': *text;
    *at = 0;
    return room;
}

//  pipeline_new on text, ' for "; 0 or its error.  Fails the test when text is not JSON.
static inline int
pipeline_try (const pipeline_t **self_p, const char *text, char error [ERROR_BYTES])
{
    json_t *value = json_loads (quoted (text), JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (!value)
        fail_msg ("not JSON: %s", text);
    int rc = pipeline_new (self_p, value, error, ERROR_BYTES);
    json_decref (value);
    return rc;
}

//  A valid one; the caller destroys it.
static inline const pipeline_t *
pipeline_of (const char *text)
{
    char error [ERROR_BYTES];
    const pipeline_t *self;
    if (pipeline_try (&self, text, error))
        fail_msg ("%s: %s", text, error);
    return self;
}

#endif
