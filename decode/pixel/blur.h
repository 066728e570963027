/*  blur -- two Gaussian blurs of an image: torchvision's, a convolution with a Gaussian, and Pillow's
 *  ImageFilter.GaussianBlur, three box blurs in each direction.
 *
 *  CONVOLUTION: beside the image it is mirrored (its edge is not repeated), again and again where the kernel
 *  is larger.  Down, then across, in 32-bit floats from the outermost taps to the middle: less than 1e-4 from
 *  the exact sum, which is then rounded.  torch adds up in an order that it does not promise, so a value that
 *  lies that near to the middle between two may come out as the other one there.
 *  BOXES: integers, as Pillow's to the last bit; beside the image its edge goes on.
 *  Pure functions on what they are given; any thread.
 */
#ifndef BLUR_H
#define BLUR_H
#include "image.h"

enum { BLUR_KERNEL_MAX = 255, BLUR_HALF_MAX = BLUR_KERNEL_MAX / 2, BLUR_RADIUS_MAX = 200 };

typedef struct {
    uint32_t half;                          //  taps on each side that count at all
    float weights [BLUR_HALF_MAX + 1];      //  from the middle outwards
} blur_kernel_t;

//  size: odd, up to BLUR_KERNEL_MAX; sigma above 0.
blur_kernel_t blur_kernel (uint32_t size, double sigma);
//  Writes the blurred source to target, rows without gaps.  source and target do not overlap.
void blur_convolve (const image_t *source, const blur_kernel_t *across, const blur_kernel_t *down,
    uint8_t *target);
//  Blurs height x width floats in place, by the same sums; room is for blur_field_room () floats.
void blur_field (float *field, uint32_t height, uint32_t width, const blur_kernel_t *across,
    const blur_kernel_t *down, float *room);
size_t blur_field_room (uint32_t height, uint32_t width);
//  The same by boxes; radius from 0 to BLUR_RADIUS_MAX.  room is used; false: no memory for it.
bool blur_boxes (const image_t *source, double radius, scratch_t *room, uint8_t *target);

#endif
