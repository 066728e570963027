/*  resize -- bilinear resizing with anti-aliasing, to the last bit as Pillow's Image.resize (size, BILINEAR)
 *  does it.
 *
 *  Separable: first every needed row is resampled to the new width and rounded to 8 bits, then the columns to
 *  the new height.  A weight has RESIZE_PRECISION fractional bits.  The filter is a triangle of one pixel to
 *  each side, stretched by the shrinking factor where the image shrinks.  Pixels outside the source view are
 *  never looked at.  Only the wanted window of the result is computed: each pixel is the same as if all were.
 *  Owner: one thread; buffers are kept from call to call.
 */
#ifndef RESIZE_H
#define RESIZE_H
#include <stdbool.h>
#include "image.h"

enum { RESIZE_PRECISION = 32 - 8 - 2 };     //  8 for the pixel, 2 spare: the sums fit in 32 bits

//  The weights along one axis, for each pixel of the window.
typedef struct {
    scratch_t starts;           //  uint32_t: the first source pixel that counts
    scratch_t weights;          //  int32_t [taps]: of the source pixels from there
    scratch_t exact;            //  double [taps]: the same before rounding, for one pixel
    uint32_t taps;              //  equal for all pixels: what lies outside the filter has weight 0
} resize_axis_t;

typedef struct {
    resize_axis_t across;
    resize_axis_t down;
    scratch_t rows;             //  the source's needed rows at the new width
    scratch_t sums;             //  one row of sums
} resize_t;

//  Makes *self ready for use: all zero is.
void resize_clear (resize_t *self);
//  Frees the buffers; *self is ready again.
void resize_free (resize_t *self);

//  How many rows, each of window's width, there are between the two passes, for a caller who limits memory.
uint32_t resize_rows (const image_t *source, uint32_t full_height, const image_box_t *window);
//  Resizes source (not empty) to full_height x full_width and writes the window of that, which lies inside
//  it, to rows of target_stride bytes.  False if there is no memory.
bool resize_run (resize_t *self, const image_t *source, uint32_t full_height, uint32_t full_width,
    const image_box_t *window, uint8_t *target, size_t target_stride) __attribute__ ((warn_unused_result));

#endif
