/*  elastic_rows -- the inner loops of elastic.
 *
 *  Compiled twice, once for every machine and once for newer ones (simd.h), with the same bytes: floats
 *  rounded after each operation, but for fmaf, which rounds a product and a sum together wherever it is
 *  computed.  Only elastic.c and loops_avx2.c include it.
 */
#ifndef ELASTIC_ROWS_H
#define ELASTIC_ROWS_H
#include <math.h>
#include <string.h>
#include "elastic.h"
#include "instrument.h"

enum { ELASTIC_BLOCK = 256 };       //  columns that are looked up together

//  Where the pixels of a block look in the source, from the middle of its first pixel on.
typedef struct {
    float x [ELASTIC_BLOCK], y [ELASTIC_BLOCK];
} elastic_places_t;

typedef struct elastic_loops {
    //  places = ((at + displacement) + 1) x half - 0.5
    void (*look) (float *places, const float *at, const float *displacement, float half, size_t count);
    void (*mix) (const elastic_t *self, const image_t *source, const elastic_places_t *places, size_t count,
        uint8_t *target);
} elastic_loops_t;

#define ELASTIC_LOOPS { s_look, s_mix }

extern const elastic_loops_t elastic_loops_portable;
extern const elastic_loops_t elastic_loops_avx2;

INSTRUMENT_ROWS static void
s_look (float *restrict places, const float *at, const float *displacement, float half, size_t count)
{
    for (size_t index = 0; index < count; index++)
        places [index] = fmaf (at [index] + displacement [index] + 1, half, -0.5f);
}

//  A pixel as numbers, and behind its channels how much of it is there: all, or nothing.
static inline void
s_corner (const image_t *source, int64_t row, int64_t column, uint32_t channels, float values [4])
{
    bool is_there = row >= 0 && row < source->height && column >= 0 && column < source->width;
    const uint8_t *pixel = is_there? image_at (source, (uint32_t) row, (uint32_t) column): NULL;
    for (uint32_t channel = 0; channel < channels; channel++)
        values [channel] = is_there? pixel [channel]: 0;
    values [channels] = is_there;
}

//  The terms in torch's order: upper left, upper right, lower left, lower right.
static inline void
s_mix_pixel (const elastic_t *self, const image_t *source, float x, float y, uint32_t channels,
    uint8_t *target)
{
    float left = floorf (x), top = floorf (y);
    float w = x - left, e = 1 - w, n = y - top, s = 1 - n;
    const float weights [4] = { s * e, s * w, n * e, n * w };
    float sums [4] = { 0 };
    for (int corner = 0; corner < 4; corner++) {
        float values [4];
        s_corner (source, (int64_t) top + corner / 2, (int64_t) left + corner % 2, channels, values);
        for (uint32_t channel = 0; channel <= channels; channel++)
            sums [channel] = fmaf (values [channel], weights [corner], sums [channel]);
    }
    float there = sums [channels];
    for (uint32_t channel = 0; channel < channels; channel++) {
        float value = sums [channel] * there + (1 - there) * (float) self->fill [channel];
        //  From 2^23 on floats are whole numbers: rounded, halves to even.
        value += (float) (1 << 23);
        uint32_t bits;
        memcpy (&bits, &value, sizeof bits);
        target [channel] = (uint8_t) bits;
    }
}

INSTRUMENT_ROWS static void
s_mix (const elastic_t *self, const image_t *source, const elastic_places_t *places, size_t count,
    uint8_t *target)
{
    for (size_t index = 0; index < count; index++)
        if (source->channels == 1)
            s_mix_pixel (self, source, places->x [index], places->y [index], 1, target + index);
        else
            s_mix_pixel (self, source, places->x [index], places->y [index], IMAGE_COLOURS,
                target + index * IMAGE_COLOURS);
}

#endif
