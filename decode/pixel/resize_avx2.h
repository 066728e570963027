/*  resize_avx2 -- the two passes of a resize for processors with AVX2, and the weights that they share with
 *  those of resize.c.
 *
 *  A weight is a whole number; those of one result pixel add up to about 1 << RESIZE_PRECISION.  The vectors
 *  take it in two parts:
 *
 *      weight = high * 65536 + low,    -128 <= high < 128,    -32768 <= low < 32768
 *
 *  so that products with 8-bit pixels need 16-bit multiplications only.  With H = sum of pixel * high and
 *  L = sum of pixel * low, what is wanted, (sum of pixel * weight + half) >> RESIZE_PRECISION, is
 *
 *      (H + (half >> 16) + (L >> 16)) >> (RESIZE_PRECISION - 16)
 *
 *  exactly: the lower 16 bits of L that are cut off cannot carry into what stays.  The sum in brackets fits
 *  in 16 bits, as the positive weights of a pixel add up to less than RESIZE_WEIGHT_MAX (they are normalised,
 *  and the negative ones add up to less than RESIZE_WEIGHT_MAX - 1), so it may be computed modulo 65536, and
 *  L modulo 2^32, whatever the number of taps.  For the same reason pixel * high of two neighbours fits in 16
 *  bits.
 *
 *  Only for resize.c.
 */
#ifndef RESIZE_AVX2_H
#define RESIZE_AVX2_H
#include "image.h"

enum {
    RESIZE_PRECISION = 32 - 8 - 2,          //  Pillow's: 8 bits for the pixel, 2 spare
    RESIZE_HIGH_BITS = RESIZE_PRECISION - 16,
    RESIZE_HIGH_HALF = 1 << (RESIZE_HIGH_BITS - 1)
};

#define RESIZE_WEIGHT_MAX 1.5
_Static_assert (255 * (1 << RESIZE_HIGH_BITS) * 3 / 2 + RESIZE_HIGH_HALF < INT16_MAX, "sums fit in 16 bits");

//  The source pixels under the filter of one result pixel; count > 0.
typedef struct {
    uint32_t first;
    uint32_t count;
} resize_taps_t;

//  One axis: count result pixels.
typedef struct {
    uint32_t count;
    uint32_t weights_each;                  //  even
    const resize_taps_t *taps;              //  [count]; neither first nor first + count ever goes down
    int32_t *weights;                       //  [count * weights_each]: of a pixel's taps, and a 0 where they
                                            //  are odd;
                                            //      aligned, with slack.  Good for one pass, which may change
                                            //      them
} resize_axis_t;

enum {
    RESIZE_VECTOR = 32,                     //  bytes
    RESIZE_TURN_ROWS_MIN = 4,               //  fewer rows are done faster without turning
    RESIZE_WORK_MAX = 4 * 1024 * 1024       //  beyond it, portable C is as good: the caches are too small
};

//  All rows of source to the width of axis.  work has resize_avx2_across_work bytes, aligned.
void resize_avx2_across (const resize_axis_t *axis, const image_t *source, uint8_t *target,
    size_t target_stride, void *work);
size_t resize_avx2_across_work (const resize_axis_t *axis, uint32_t channels);

//  Resizes all columns of source to the height of axis.  A row of source has at least RESIZE_VECTOR bytes.
void resize_avx2_down (const resize_axis_t *axis, const image_t *source, uint8_t *target,
    size_t target_stride);

#endif
