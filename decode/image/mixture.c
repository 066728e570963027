#include "mixture.h"
#include "instrument.h"

INSTRUMENT_ROWS static void
s_add_row (float *restrict sums, const uint8_t *row, float weight, bool is_first, size_t count)
{
    if (is_first)
        for (size_t index = 0; index < count; index++)
            sums [index] = weight * (float) row [index];
    else
        for (size_t index = 0; index < count; index++)
            sums [index] += weight * (float) row [index];
}

void
mixture_add (float *sums, const image_t *image, float weight, bool is_first)
{
    size_t count = (size_t) image->width * image->channels;
    for (uint32_t row = 0; row < image->height; row++, sums += count) {
        s_add_row (sums, image_at (image, row, 0), weight, is_first, count);
        instrument_written (sums, count * sizeof *sums);
    }
}

INSTRUMENT_ROWS void
mixture_write (const float *sums, size_t count, uint8_t *target)
{
    //  Weights that were rounded may add up to a little more than 1: 255 stays 255.
    for (size_t index = 0; index < count; index++)
        target [index] = (uint8_t) (int32_t) sums [index];
    instrument_written (target, count);
}
