/*  blur_rows -- the inner loops of blur.
 *
 *  Plain C without a branch, so that compilers make vectors of it.  It is compiled twice, once for every
 *  machine and once for newer ones (simd.h), and gives the same bytes: integers, and floats rounded after
 *  each operation (-ffp-contract=off) in the order written here.  Only blur.c and loops_avx2.c include it.
 */
#ifndef BLUR_ROWS_H
#define BLUR_ROWS_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "instrument.h"

//  A box of 2 radius + 1 pixels, and a part of one more on either side; weights of 2^24.
typedef struct {
    uint32_t radius;
    uint32_t weight;
    uint32_t edge_weight;
} blur_box_t;

typedef struct blur_loops {
    //  sums += weight x (one + other)
    void (*add_pixels) (float *sums, const uint8_t *one, const uint8_t *other, float weight, size_t count);
    void (*add_floats) (float *sums, const float *one, const float *other, float weight, size_t count);
    //  To the nearest, halves to even.
    void (*round) (uint8_t *target, const float *sums, size_t count);
    //  One pixel of count lanes: moves the box on by one, then weighs it.
    void (*move_box) (const blur_box_t *box, uint32_t *sums, const uint8_t *in, const uint8_t *out,
        const uint8_t *after, uint8_t *target, size_t count);
} blur_loops_t;

#define BLUR_LOOPS { s_add_pixels, s_add_floats, s_round, s_move_box }

extern const blur_loops_t blur_loops_portable;
extern const blur_loops_t blur_loops_avx2;

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

#endif
