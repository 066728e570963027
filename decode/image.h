/*  image -- a view of RGB pixels, three bytes each, that somebody else owns; and a buffer that grows.  */
#ifndef IMAGE_H
#define IMAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { IMAGE_CHANNELS = 3 };

typedef struct {
    const uint8_t *pixels;      //  the upper left one
    size_t stride;              //  bytes from one row to the next
    uint32_t height;
    uint32_t width;
} image_t;

typedef struct {
    uint32_t top;
    uint32_t left;
    uint32_t height;
    uint32_t width;
} image_box_t;

static inline size_t
image_bytes (uint32_t height, uint32_t width)
{
    return (size_t) height * width * IMAGE_CHANNELS;
}

static inline const uint8_t *
image_at (const image_t *self, uint32_t row, uint32_t column)
{
    return self->pixels + row * self->stride + (size_t) column * IMAGE_CHANNELS;
}

//  Copies every row from self to rows of target_stride bytes; they do not overlap.
void image_copy (const image_t *self, uint8_t *target, size_t target_stride);
//  The same with the columns in reverse order.
void image_copy_flipped (const image_t *self, uint8_t *target, size_t target_stride);

//  A buffer kept from sample to sample.  It grows and never shrinks, so the steady state allocates nothing.
typedef struct {
    void *data;
    size_t bytes;
} scratch_t;

//  At least bytes of room, what was in it is lost; false when there is no memory (then it is empty).
static inline bool
scratch_need (scratch_t *self, size_t bytes)
{
    if (bytes <= self->bytes)
        return true;
    free (self->data);
    self->data = malloc (bytes);
    self->bytes = self->data? bytes: 0;
    return self->data;
}

#endif
