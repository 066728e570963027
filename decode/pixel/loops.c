#include "loops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define likely(x) __builtin_expect (!!(x), 1)
#define unlikely(x) __builtin_expect (!!(x), 0)

//  ---- blur

INSTRUMENT_ROWS static void
s_add_pixels (float *restrict sums, const uint8_t *one, const uint8_t *other, float weight, size_t count)
{
    for (size_t index = 0; index < count; index++)
        sums [index] += weight * (float) (one [index] + other [index]);
}

INSTRUMENT_ROWS static void
s_add_floats (float *restrict sums, const float *one, const float *other, float weight, size_t count)
{
    for (size_t index = 0; index < count; index++)
        sums [index] += weight * (one [index] + other [index]);
}

//  From 2^23 on floats are whole numbers: the sum is rounded, and its lowest bits are the number.
INSTRUMENT_ROWS static void
s_round (uint8_t *restrict target, const float *sums, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        float sum = sums [index] + (float) (1 << 23);
        uint32_t bits;
        memcpy (&bits, &sum, sizeof bits);
        target [index] = (uint8_t) bits;
    }
}

//  in: the pixel that the box comes to hold; out: the one that it leaves, which is the one before it; after:
//  the next one.
INSTRUMENT_ROWS static void
s_move_box (const blur_box_t *box, uint32_t *restrict sums, const uint8_t *in, const uint8_t *out,
    const uint8_t *after, uint8_t *restrict target, size_t count)
{
    uint32_t weight = box->weight, edge_weight = box->edge_weight;
    for (size_t lane = 0; lane < count; lane++) {
        sums [lane] += (uint32_t) in [lane] - out [lane];
        uint32_t sum = sums [lane] * weight + ((uint32_t) out [lane] + after [lane]) * edge_weight;
        target [lane] = (uint8_t) ((sum + (1u << 23)) >> 24);
    }
}

//  ---- colour

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
        reds [index] = colour_blend (grey, red, factor);
        greens [index] = colour_blend (grey, green, factor);
        blues [index] = colour_blend (grey, blue, factor);
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
        target [index + ONE] = colour_blend ((sum + 6) / 13, row [index + ONE], factor);
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

//  ---- remap: each pixel displaced

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
s_mix_pixel (const remap_elastic_t *self, const image_t *source, float x, float y, uint32_t channels,
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
s_mix (const remap_elastic_t *self, const image_t *source, const elastic_places_t *places, size_t count,
    uint8_t *target)
{
    for (size_t index = 0; index < count; index++)
        if (source->channels == 1)
            s_mix_pixel (self, source, places->x [index], places->y [index], 1, target + index);
        else
            s_mix_pixel (self, source, places->x [index], places->y [index], IMAGE_COLOURS,
                target + index * IMAGE_COLOURS);
}

//  ---- bits of a JPEG

static inline INSTRUMENT_ROWS size_t
s_index (const jpeg_bits_t *self)
{
    return self->bits >> (64 - JPEG_LOOKUP_BITS);
}

//  The value behind the code of the symbol that is next (T.81, figure F.12).
static inline INSTRUMENT_ROWS int
s_value (const jpeg_bits_t *self, jpeg_symbol_t symbol)
{
    uint64_t value = self->bits << symbol.code_bits;
    int64_t is_negative = (int64_t) ~value >> 63;       //  all ones, or zero
    value = value >> 1 >> (63 - symbol.value_bits);
    return (int) ((int64_t) value + (int64_t) ((uint64_t) is_negative << symbol.value_bits) - is_negative);
}

//  ---- blocks of a JPEG

//  By the place behind a coefficient: the coefficient's place in libjpeg's order.  Places past the block's
//  end are those of an end of block.  Its value is 0, and it goes to DC's place, because DC is written last.
static const uint8_t s_natural [JPEG_BLOCK + 2 * JPEG_LOOKUP_END] = {
    0,
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47,
    55, 62, 63
};

//  At most 31 bits.  The value is computed: whether one would be in a table is a branch that no processor
//  foresees.
static inline INSTRUMENT_ROWS bool
s_read_dc (jpeg_bits_t *bits, const jpeg_lookup_t *lookup, int *difference_p)
{
    jpeg_bits_load (bits);
    jpeg_symbol_t symbol = lookup->symbols [s_index (bits)];
    if (unlikely (symbol.bits == 0) && (symbol = jpeg_lookup_long (lookup, bits->bits)).bits == 0)
        return false;
    *difference_p = s_value (bits, symbol);
    jpeg_bits_drop (bits, symbol.bits);
    return true;
}

//  One AC symbol, at most 31 bits, whatever its length; 0 bits: no code.
static inline INSTRUMENT_ROWS jpeg_symbol_t
s_next_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup)
{
    jpeg_bits_load (bits);
    jpeg_symbol_t symbol = lookup->symbols [s_index (bits)];
    return likely (symbol.bits > 0)? symbol: jpeg_lookup_long (lookup, bits->bits);
}

static inline INSTRUMENT_ROWS bool
s_ends_block (unsigned place)
{
    return place == JPEG_BLOCK || place >= JPEG_LOOKUP_END;
}

//  Over the AC coefficients of a block.  An entry takes at most 26 bits, so two fit into a load.
static inline INSTRUMENT_ROWS bool
s_walk_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup)
{
    for (unsigned place = 1;;) {
        jpeg_run_t run;
        jpeg_bits_load (bits);
        for (int step = 0; step < 2; step++) {
            run = lookup->runs [s_index (bits)];
            if (unlikely (run.bits == 0 || place + run.advance >= JPEG_BLOCK))
                goto one;
            place += run.advance;
            jpeg_bits_drop (bits, run.bits);
        }
        continue;
    one:
        //  The end of the block, if it is that of the entry too.
        if (run.bits > 0) {
            unsigned behind = place + run.advance;
            if (behind == JPEG_BLOCK
                || (behind >= JPEG_LOOKUP_END && behind < JPEG_LOOKUP_END + JPEG_BLOCK)) {
                jpeg_bits_drop (bits, run.bits);
                return true;
            }
        }
        jpeg_symbol_t symbol = s_next_ac (bits, lookup);
        if (symbol.bits == 0)
            return false;
        jpeg_bits_drop (bits, symbol.bits);
        place += symbol.advance;
        if (place >= JPEG_BLOCK)
            return s_ends_block (place);
    }
}

//  The AC coefficients of a block, which libjpeg has zeroed.  An entry takes at most 11 bits: four fit into a
//  load.
static inline INSTRUMENT_ROWS bool
s_decode_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup, JCOEF *block)
{
    for (unsigned place = 1;;) {
        jpeg_pair_t pair;
        unsigned first;
        jpeg_bits_load (bits);
        for (int step = 0; step < 4; step++) {
            pair = lookup->pairs [s_index (bits)];
            if (unlikely (pair.bits == 0))
                goto one;
            first = place + pair.first_advance;
            place += pair.advance;
            block [s_natural [place]] = pair.value;
            block [s_natural [first]] = pair.first_value;
            if (place >= JPEG_BLOCK)
                goto done;
            jpeg_bits_drop (bits, pair.bits);
        }
        continue;
    done:
        if (first >= JPEG_BLOCK) {
            jpeg_bits_drop (bits, pair.first_bits);
            return s_ends_block (first);
        }
        jpeg_bits_drop (bits, pair.bits);
        return s_ends_block (place);
    one:;
        jpeg_symbol_t symbol = s_next_ac (bits, lookup);
        if (symbol.bits == 0)
            return false;
        place += symbol.advance;
        if (place <= JPEG_BLOCK)
            block [s_natural [place]] = (JCOEF) s_value (bits, symbol);
        jpeg_bits_drop (bits, symbol.bits);
        if (place >= JPEG_BLOCK)
            return s_ends_block (place);
    }
}

//  ---- MCUs of a JPEG

//  No bits past the end have been read, and no DC value is near an overflow.  Asked behind each MCU, because
//  only a limited number of bits may be read behind the data.
static inline INSTRUMENT_ROWS bool
s_is_inside (const jpeg_coded_t *self, const jpeg_bits_t *bits)
{
    bool is_inside = bits->at - bits->count / 8 <= self->end;
    for (unsigned component = 0; component < MAX_COMPS_IN_SCAN; component++)
        is_inside &= self->last_dc [component] <= JPEG_DC_MAX && self->last_dc [component] >= -JPEG_DC_MAX;
    return is_inside;
}

static INSTRUMENT_ROWS bool
s_walk (jpeg_coded_t *self, size_t mcus)
{
    jpeg_bits_t bits = self->bits;
    bool good = true;
    for (; mcus > 0 && good; mcus--) {
        for (unsigned index = 0; index < self->block_count && good; index++) {
            const jpeg_block_t *block = &self->blocks [index];
            int difference = 0;
            good = s_read_dc (&bits, block->dc, &difference) && s_walk_ac (&bits, block->ac);
            self->last_dc [block->component] += difference;
        }
        good = good && s_is_inside (self, &bits);
    }
    self->bits = bits;
    return good;
}

static INSTRUMENT_ROWS bool
s_decode (jpeg_coded_t *self, JBLOCKROW *mcu)
{
    jpeg_bits_t bits = self->bits;
    bool good = true;
    for (unsigned index = 0; index < self->block_count && good; index++) {
        const jpeg_block_t *block = &self->blocks [index];
        int difference = 0;
        good = s_read_dc (&bits, block->dc, &difference) && s_decode_ac (&bits, block->ac, *mcu [index]);
        self->last_dc [block->component] += difference;
        (*mcu [index]) [0] = (JCOEF) self->last_dc [block->component];
    }
    self->bits = bits;
    return good && s_is_inside (self, &bits);
}

//  Each build of this file makes one of them.
#ifdef TUREEN_LOOPS_AVX2
const loops_t loops_avx2 =
#else
const loops_t loops_portable =
#endif
{
    .blur = { s_add_pixels, s_add_floats, s_round, s_move_box },
    .colour = { s_split, s_merge, s_saturate, s_turn_hue, s_grey, s_sum, s_sharpen },
    .elastic = { s_look, s_mix },
    .jpeg = { s_walk, s_decode }
};

//  ---- which of them

#ifndef TUREEN_LOOPS_AVX2
int
loops_has (loops_level_t level)
{
#ifdef TUREEN_AVX2
    //  Reads what the compiler's runtime asked the processor at the start.  The loops use FMA, BMI2 and F16C
    //  too; F16C came before AVX2, so it is there.
    if (level == LOOPS_AVX2)
        return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")
            && __builtin_cpu_supports ("bmi2");
#endif
    return level == LOOPS_PORTABLE;
}

loops_level_t
loops_level (void)
{
    if (!loops_has (LOOPS_AVX2))
        return LOOPS_PORTABLE;
    const char *wish = getenv ("TUREEN_SIMD");
    return wish && strcmp (wish, "portable") == 0? LOOPS_PORTABLE: LOOPS_AVX2;
}

const loops_t *
loops_chosen (void)
{
#ifdef TUREEN_AVX2
    if (loops_level () == LOOPS_AVX2)
        return &loops_avx2;
#endif
    return &loops_portable;
}
#endif
