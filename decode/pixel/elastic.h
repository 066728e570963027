/*  elastic -- an image with each of its pixels displaced: torchvision's elastic_transform of a
 *  Pillow image, which is torch's grid_sample in 32-bit floats.
 *
 *  A field says for each pixel of the result how far from its place the source is looked at: across in half
 *  widths, down in half heights.  All beside the source is the fill.  NEAREST: the pixel that is met, halves
 *  to even.  BILINEAR: between the four pixels around; those beside the source count as the fill.
 *  Rounded where the newest torch rounds on processors with AVX2, where products and sums are rounded
 *  together: so the values are its values.  Older torch differs by 1 in a few of a hundred thousand.
 *  Pure functions on what they are given; any thread.
 */
#ifndef ELASTIC_H
#define ELASTIC_H
#include <stdbool.h>
#include "image.h"

typedef struct {
    const float *across, *down;     //  of the result's pixels, which are as many as the source's; finite
    bool is_bilinear;
    uint8_t fill [IMAGE_COLOURS];   //  of an image with one channel, the first
} elastic_t;

//  Writes the result to target, rows without gaps.  source and target do not overlap.
void elastic_run (const elastic_t *self, const image_t *source, uint8_t *target);

#endif
