/*  frames -- frames for tests: of text, of bytes, and of tests/golden.  */
#ifndef FRAMES_H
#define FRAMES_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "request.h"

enum { FRAMES_MAX = 8 };

static inline frame_t
frame_of (const void *data, size_t size)
{
    return (frame_t) { .data = data, .size = size };
}

static inline frame_t
frame_of_text (const char *text)
{
    return frame_of (text, strlen (text));
}

static inline void
assert_refusal (const refusal_t *refusal, const char *code, const char *fragment)
{
    if (!refusal->code || strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment,
            refusal->code? refusal->code: "none", refusal->message);
}

//  A message of tests/golden.
typedef struct {
    uint8_t *bytes [FRAMES_MAX];
    frame_t frames [FRAMES_MAX];
    size_t count;
} message_t;

static inline void
message_add_line (message_t *message, const char *line, size_t digits)
{
    assert_true (message->count < FRAMES_MAX && digits % 2 == 0);
    uint8_t *bytes = malloc (digits / 2 + 1);
    assert_non_null (bytes);
    for (size_t index = 0; index < digits / 2; index++) {
        unsigned byte;
        assert_int_equal (sscanf (line + 2 * index, "%2x", &byte), 1);
        bytes [index] = (uint8_t) byte;
    }
    message->bytes [message->count] = bytes;
    message->frames [message->count++] = frame_of (bytes, digits / 2);
}

static inline void
message_load (message_t *message, const char *name)
{
    const char *source = getenv ("TUREEN_SOURCE");
    char path [4096], *line = NULL;
    size_t room = 0;
    *message = (message_t) { .count = 0 };
    snprintf (path, sizeof path, "%s/tests/golden/%s.hex", source? source: ".", name);
    FILE *file = fopen (path, "r");
    if (!file)
        fail_msg ("no %s", path);
    while (getline (&line, &room, file) > 0) {
        size_t digits = strspn (line, "0123456789abcdefABCDEF");
        if (digits)
            message_add_line (message, line, digits);
    }
    free (line);
    fclose (file);
}

static inline void
message_unload (message_t *message)
{
    for (size_t index = 0; index < message->count; index++)
        free (message->bytes [index]);
}

#endif
