/*  affine -- an affine map of an image, or one in perspective, as Pillow's Image.transform (size, AFFINE,
 *  ...) and (size, PERSPECTIVE, ...) do them, to the last bit.
 *
 *  The matrix leads from the result to the source: the middle of pixel (x, y) of the result shows the source
 *  at
 *      matrix [0] x + matrix [1] y + matrix [2]        from its left edge
 *      matrix [3] x + matrix [4] y + matrix [5]        from its upper edge
 *  where x and y are at the middles, so half a pixel more than their numbers.  All beside the source
 *  is the fill.
 *  NEAREST: the pixel that is met.  Pillow counts along the rows by addition: in 16.16 fixed point where the
 *  numbers allow it, else in doubles.  BILINEAR: doubles throughout, without anti-aliasing, truncated.
 *  PERSPECTIVE: both places are divided by vanishing [0] x + vanishing [1] y + 1; in doubles, not by
 *  addition.
 *  Pure functions on what they are given; any thread.
 */
#ifndef AFFINE_H
#define AFFINE_H
#include <stdbool.h>
#include "image.h"

typedef struct {
    double matrix [6];              //  finite
    bool is_perspective;
    double vanishing [2];           //  finite; of a perspective
    bool is_bilinear;
    uint8_t fill [IMAGE_COLOURS];   //  of an image with one channel, the first
    uint32_t height;                //  of the result; below 2^31
    uint32_t width;
} affine_t;

//  Writes height rows of width pixels to target, without gaps.  source and target do not overlap.
void affine_run (const affine_t *self, const image_t *source, uint8_t *target);

#endif
