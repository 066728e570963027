/*  bare_jpeg -- the plain loops that decode_bench compares with: libjpeg-turbo called as its manual says,
 *  nothing else, and a resize as one writes it down.  The files must be good: a bad one ends the program.
 *
 *  Owner: one thread; buffers are kept from image to image.
 */
#ifndef BARE_JPEG_H
#define BARE_JPEG_H
#include <stddef.h>
#include <stdint.h>
#include "image.h"

typedef struct bare_jpeg bare_jpeg_t;

bare_jpeg_t *bare_jpeg_new (void);
void bare_jpeg_destroy (bare_jpeg_t **self_p);

//  The size in the header.
void bare_jpeg_size (bare_jpeg_t *self, const uint8_t *bytes, size_t size, uint32_t *height_p,
    uint32_t *width_p);
//  Entropy decoding alone.
void bare_jpeg_coefficients (bare_jpeg_t *self, const uint8_t *bytes, size_t size);
//  All of it to RGB; lent until the next call.
image_t bare_jpeg_full (bare_jpeg_t *self, const uint8_t *bytes, size_t size);
//  The box by jpeg_crop_scanline and jpeg_skip_scanlines, without a thought for the pixels at its border.
image_t bare_jpeg_box (bare_jpeg_t *self, const uint8_t *bytes, size_t size, const image_box_t *box);

//  Bilinear with anti-aliasing, RGB, one multiplication after the other.
void scalar_resize (const image_t *source, uint32_t height, uint32_t width, uint8_t *target);

#endif
