/*  golden -- reads tests/golden/NAME.hex: one message, a line of hexadecimal a frame, # begins a comment.  */
#ifndef GOLDEN_H
#define GOLDEN_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "message.h"

enum { GOLDEN_FRAMES_MAX = 8, GOLDEN_FRAME_BYTES_MAX = 4096 };

typedef struct {
    uint8_t bytes [GOLDEN_FRAMES_MAX] [GOLDEN_FRAME_BYTES_MAX];
    message_frame_t frames [GOLDEN_FRAMES_MAX];
    size_t count;
} golden_t;

//  False: no such file, or nothing in it that we can read.
static inline bool
golden_read (golden_t *self, const char *name)
{
    const char *source = getenv ("TUREEN_SOURCE");
    char path [1024], line [2 * GOLDEN_FRAME_BYTES_MAX + 2];
    snprintf (path, sizeof path, "%s/tests/golden/%s.hex", source? source: ".", name);
    FILE *file = fopen (path, "r");
    self->count = 0;
    while (file && fgets (line, sizeof line, file) && self->count < GOLDEN_FRAMES_MAX) {
        size_t size = strspn (line, "0123456789abcdefABCDEF") / 2;
        if (!size)
            continue;
        uint8_t *bytes = self->bytes [self->count];
        for (size_t index = 0; index < size; index++) {
            unsigned value;
            sscanf (line + 2 * index, "%2x", &value);
            bytes [index] = (uint8_t) value;
        }
        self->frames [self->count++] = (message_frame_t) { bytes, size };
    }
    if (file)
        fclose (file);
    return self->count > 0;
}

#endif
