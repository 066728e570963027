/*  image -- a view of 8-bit pixels that it does not own; boxes; and a buffer that grows.
 *
 *  An image has IMAGE_COLOURS channels (red, green, blue), one (a mask's values) or IMAGE_WIDE (a mask's
 *  values of 16 bits, the lower byte first), interleaved, a byte each.
 */
#ifndef IMAGE_H
#define IMAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include "machine.h"

enum { IMAGE_COLOURS = 3, IMAGE_WIDE = 2 };
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values of 16 bits go to batches as they lie in an image, the lower byte first"
#endif

typedef struct {
    const uint8_t *pixels;      //  the upper left one
    size_t stride;              //  bytes from one row to the next
    uint32_t height;
    uint32_t width;
    uint32_t channels;          //  IMAGE_COLOURS, 1 or IMAGE_WIDE
} image_t;

typedef struct {
    uint32_t top;
    uint32_t left;
    uint32_t height;
    uint32_t width;
} image_box_t;

static inline size_t
image_bytes (uint32_t height, uint32_t width, uint32_t channels)
{
    return (size_t) height * width * channels;
}

static inline const uint8_t *
image_at (const image_t *self, uint32_t row, uint32_t column)
{
    return self->pixels + row * self->stride + (size_t) column * self->channels;
}

//  The part of it in box, which lies inside.
static inline image_t
image_part (const image_t *self, const image_box_t *box)
{
    return (image_t) { image_at (self, box->top, box->left), self->stride, box->height, box->width,
        self->channels };
}

//  A buffer kept from sample to sample.  It grows and never shrinks, so the steady state allocates nothing.
typedef struct {
    void *data;
    size_t bytes;
} scratch_t;

enum { SCRATCH_ALIGNMENT = 64, SCRATCH_SLACK = 64 };

//  At least bytes of room, aligned, and SCRATCH_SLACK behind them that a vector may touch; what was in it is
//  lost; false when there is no memory (then it is empty).
static inline bool
scratch_need (scratch_t *self, size_t bytes)
{
    if (self->data && bytes <= self->bytes)
        return true;
    free (self->data);
    size_t whole = (bytes + SCRATCH_SLACK + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    self->data = whole > bytes? machine_keep_headroom (aligned_alloc (SCRATCH_ALIGNMENT, whole)): NULL;
    self->bytes = self->data? bytes: 0;
    return self->data;
}

static inline void
scratch_free (scratch_t *self)
{
    free (self->data);
    *self = (scratch_t) { NULL, 0 };
}

#endif
