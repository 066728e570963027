/*  remap -- an image in which each pixel shows another place of the source: by one map for all, affine or in
 *  perspective, or each displaced by itself.
 *
 *  All beside the source is the fill.  Pure functions on what they are given; any thread.
 */
#ifndef REMAP_H
#define REMAP_H
#include <stdbool.h>
#include "image.h"

//  ---- an affine map, or one in perspective, as Pillow's Image.transform (size, AFFINE, ...) and (size,
//  PERSPECTIVE, ...) do them, to the last bit
//
//  The matrix leads from the result to the source: the middle of pixel (x, y) of the result shows the source
//  at
//      matrix [0] x + matrix [1] y + matrix [2]        from its left edge
//      matrix [3] x + matrix [4] y + matrix [5]        from its upper edge
//  where x and y are at the middles, so half a pixel more than their numbers.
//  NEAREST: the pixel that is met.  Pillow counts along the rows by addition: in 16.16 fixed point where the
//  numbers allow it, else in doubles.  BILINEAR: doubles throughout, without anti-aliasing, truncated.
//  PERSPECTIVE: both places are divided by vanishing [0] x + vanishing [1] y + 1; in doubles, not by
//  addition.

typedef struct {
    double matrix [6];              //  finite
    bool is_perspective;
    double vanishing [2];           //  finite; of a perspective
    bool is_bilinear;
    uint8_t fill [IMAGE_COLOURS];   //  of an image with one channel, the first
    uint32_t height;                //  of the result; below 2^31
    uint32_t width;
} remap_affine_t;

//  Writes height rows of width pixels to target, without gaps.  source and target do not overlap.
void remap_affine (const remap_affine_t *self, const image_t *source, uint8_t *target);

//  ---- each pixel displaced: torchvision's elastic_transform of a Pillow image, which is torch's grid_sample
//  in 32-bit floats
//
//  A field says for each pixel of the result how far from its place the source is looked at: across in half
//  widths, down in half heights.  NEAREST: the pixel that is met, halves to even.  BILINEAR: between the
//  four pixels around; those beside the source count as the fill.  Rounded where the newest torch rounds on
//  processors with AVX2, where products and sums are rounded together: so the values are its values.  Older
//  torch differs by 1 in a few of a hundred thousand.

typedef struct {
    const float *across, *down;     //  of the result's pixels, which are as many as the source's; finite
    bool is_bilinear;
    uint8_t fill [IMAGE_COLOURS];   //  of an image with one channel, the first
} remap_elastic_t;

//  Writes the result to target, rows without gaps.  source and target do not overlap.
void remap_elastic (const remap_elastic_t *self, const image_t *source, uint8_t *target);

#endif
