#include "image.h"
#include <string.h>

void
image_copy (const image_t *self, uint8_t *target, size_t target_stride)
{
    for (uint32_t row = 0; row < self->height; row++)
        memcpy (target + row * target_stride, image_at (self, row, 0), image_bytes (1, self->width));
}

void
image_copy_flipped (const image_t *self, uint8_t *target, size_t target_stride)
{
    for (uint32_t row = 0; row < self->height; row++) {
        const uint8_t *restrict from = image_at (self, row, 0);
        uint8_t *restrict to = target + row * target_stride + image_bytes (1, self->width);
        for (uint32_t column = 0; column < self->width; column++) {
            to -= IMAGE_CHANNELS;
            to [0] = from [0];
            to [1] = from [1];
            to [2] = from [2];
            from += IMAGE_CHANNELS;
        }
    }
}
