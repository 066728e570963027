/*  colour_rows -- the inner loops of colour, most of them on pixels taken apart into planes.
 *
 *  Plain C without a branch, so that compilers make vectors of it.  It is compiled twice, once for every
 *  machine and once for newer ones (simd.h), and gives the same bytes: integers, and floats rounded after
 *  each operation (-ffp-contract=off) in the order written here.  Only colour.c and loops_avx2.c include it.
 */
#ifndef COLOUR_ROWS_H
#define COLOUR_ROWS_H
#include "colour.h"
#include "instrument.h"

enum { COLOUR_BLOCK = 256 };

//  Up to COLOUR_BLOCK pixels.
typedef struct {
    uint8_t red [COLOUR_BLOCK];
    uint8_t green [COLOUR_BLOCK];
    uint8_t blue [COLOUR_BLOCK];
} colour_block_t;

typedef struct colour_loops {
    void (*split) (colour_block_t *block, size_t count, const uint8_t *pixels);
    void (*merge) (const colour_block_t *block, size_t count, uint8_t *pixels);
    void (*saturate) (colour_block_t *block, size_t count, float factor);
    void (*turn_hue) (colour_block_t *block, size_t count, int32_t shift);
    void (*grey) (colour_block_t *block, size_t count);
    uint32_t (*sum) (const uint8_t *pixels, size_t count);  //  of their greys; count <= COLOUR_BLOCK
    //  count bytes of RGB pixels, from the second pixel of three rows on.
    void (*sharpen) (uint8_t *target, const uint8_t *above, const uint8_t *row, const uint8_t *below,
        size_t count, float factor);
} colour_loops_t;

#define COLOUR_LOOPS { s_split, s_merge, s_saturate, s_turn_hue, s_grey, s_sum, s_sharpen }

extern const colour_loops_t colour_loops_portable;
extern const colour_loops_t colour_loops_avx2;

static inline int32_t
s_least (int32_t one, int32_t other)
{
    return one < other? one: other;
}

static inline int32_t
s_most (int32_t one, int32_t other)
{
    return one > other? one: other;
}

//  Pillow's L.
static inline int32_t
s_luma (int32_t red, int32_t green, int32_t blue)
{
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16;
}

//  Pillow's blend of from and to.  What it does not clip, between 0 and 1, cannot leave the range.
static inline uint8_t
s_blend (int32_t from, int32_t to, float factor)
{
    float value = (float) from + factor * (float) (to - from);
    value = value > 0? value: 0;
    value = value < UINT8_MAX? value: UINT8_MAX;
    return (uint8_t) (int32_t) value;
}

INSTRUMENT_ROWS static void
s_split (colour_block_t *restrict block, size_t count, const uint8_t *restrict pixels)
{
    for (size_t index = 0; index < count; index++) {
        block->red [index] = pixels [3 * index];
        block->green [index] = pixels [3 * index + 1];
        block->blue [index] = pixels [3 * index + 2];
    }
}

INSTRUMENT_ROWS static void
s_merge (const colour_block_t *restrict block, size_t count, uint8_t *restrict pixels)
{
    for (size_t index = 0; index < count; index++) {
        pixels [3 * index] = block->red [index];
        pixels [3 * index + 1] = block->green [index];
        pixels [3 * index + 2] = block->blue [index];
    }
}

INSTRUMENT_ROWS static void
s_grey (colour_block_t *block, size_t count)
{
    uint8_t *restrict reds = block->red, *restrict greens = block->green, *restrict blues = block->blue;
    for (size_t index = 0; index < count; index++)
        reds [index] = greens [index] = blues [index]
            = (uint8_t) s_luma (reds [index], greens [index], blues [index]);
}

INSTRUMENT_ROWS static uint32_t
s_sum (const uint8_t *pixels, size_t count)
{
    uint32_t sum = 0;
    for (size_t index = 0; index < count; index++)
        sum += (uint32_t) s_luma (pixels [3 * index], pixels [3 * index + 1], pixels [3 * index + 2]);
    return sum;
}

INSTRUMENT_ROWS static void
s_saturate (colour_block_t *block, size_t count, float factor)
{
    uint8_t *restrict reds = block->red, *restrict greens = block->green, *restrict blues = block->blue;
    for (size_t index = 0; index < count; index++) {
        int32_t red = reds [index], green = greens [index], blue = blues [index];
        int32_t grey = s_luma (red, green, blue);
        reds [index] = s_blend (grey, red, factor);
        greens [index] = s_blend (grey, green, factor);
        blues [index] = s_blend (grey, blue, factor);
    }
}

//  The blend of each value with Pillow's SMOOTH of it: its eight neighbours, and itself five times, of 13.
//  Pillow sums in floats and adds a half; 13 is odd, so no sum is near a half, and whole numbers round alike.
INSTRUMENT_ROWS static void
s_sharpen (uint8_t *restrict target, const uint8_t *restrict above, const uint8_t *restrict row,
    const uint8_t *restrict below, size_t count, float factor)
{
    enum { ONE = IMAGE_COLOURS, TWO = 2 * IMAGE_COLOURS };
    for (size_t index = 0; index < count; index++) {
        int32_t sum = above [index] + above [index + ONE] + above [index + TWO]
            + row [index] + 5 * row [index + ONE] + row [index + TWO]
            + below [index] + below [index + ONE] + below [index + TWO];
        target [index + ONE] = s_blend ((sum + 6) / 13, row [index + ONE], factor);
    }
}

//  The circle of hues is 510 long here, with red at 0, green at 170 and blue at 340; a channel is full within
//  85 of its place, and gone, as far as the saturation goes, from 170 on.  How far it is gone, of 85.
static inline int32_t
s_gone (int32_t hue, int32_t place)
{
    int32_t distance = s_most (hue - place, place - hue);
    distance = s_least (distance, 510 - distance);
    return s_most (s_least (distance - 85, 85), 0);
}

//  Pillow rounds brightness * (1 - saturation / 255 * gone / 85), in doubles.  The value is never half way
//  between two numbers, since 255 * 85 is odd, and a float tells it from one that is.
static inline uint8_t
s_channel (int32_t brightness, int32_t saturation, int32_t gone)
{
    float less = (float) (brightness * saturation * gone) * (1.f / (255 * 85));
    return (uint8_t) (brightness - (int32_t) (less + 0.5f));
}

//  Pillow's conversion to HSV, the hue moved by shift of 256, and back.  Saturation and the way back are what
//  exact arithmetic gives; the hue is not: Pillow counts sixths of the circle in floats and truncates, and
//  what should be a whole number may fall below it.  The floats here round as Pillow's do.
INSTRUMENT_ROWS static void
s_turn_hue (colour_block_t *block, size_t count, int32_t shift)
{
    uint8_t *restrict reds = block->red, *restrict greens = block->green, *restrict blues = block->blue;
    for (size_t index = 0; index < count; index++) {
        int32_t red = reds [index], green = greens [index], blue = blues [index];
        int32_t most = s_most (red, s_most (green, blue)), least = s_least (red, s_least (green, blue));
        int32_t middle = red + green + blue - most - least, span = most - least;
        //  From the strongest channel a sixth of the circle on or back, and back again for what the middle
        //  lacks.
        int32_t sixths = red == most? 0: green == most? 2: 4;
        int32_t last = red == most? blue: green == most? red: green;
        int32_t way = last == least? 1: -1;
        float lack = (float) (most - middle) / (float) s_most (span, 1);
        float turn = ((float) (sixths + way) - (float) way * lack) / 6;
        turn += (float) s_most (-(sixths + way), 0);
        int32_t hue = ((int32_t) (turn * 255) + shift) & 255;
        int32_t saturation = (int32_t) ((float) (span * 255) / (float) s_most (most, 1));
        reds [index] = s_channel (most, saturation, s_gone (2 * hue, 0));
        greens [index] = s_channel (most, saturation, s_gone (2 * hue, 170));
        blues [index] = s_channel (most, saturation, s_gone (2 * hue, 340));
    }
}

#endif
