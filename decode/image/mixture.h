/*  mixture -- a weighted sum of images of one size, in 32-bit floats rounded at each step, as torch adds them
 *  up; and the sum as pixels, cut to whole numbers.
 *
 *  Pure functions on what they are given; any thread.
 */
#ifndef MIXTURE_H
#define MIXTURE_H
#include "image.h"

//  sums: a float for each value of the image, row by row.  The first image sets them, others are added.
void mixture_add (float *sums, const image_t *image, float weight, bool is_first);
//  count values, from 0 to below 256.
void mixture_write (const float *sums, size_t count, uint8_t *target);

#endif
