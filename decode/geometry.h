/*  geometry -- which pixels an operation takes: torchvision's arithmetic, pure functions.  */
#ifndef GEOMETRY_H
#define GEOMETRY_H
#include <stdint.h>
#include "image.h"
#include "keyed_random.h"
#include "operation.h"

//  Where a centre crop takes its pixels from and where they go; what is not covered is black.
typedef struct {
    image_box_t from;           //  in the image
    uint32_t to_top;            //  in the crop
    uint32_t to_left;
} geometry_crop_t;

//  The size that resize gives an image of height x width: up to PIPELINE_SIDE_MAX times its long side.
void geometry_resize (const operation_t *resize, uint32_t height, uint32_t width,
    uint32_t *new_height_p, uint32_t *new_width_p);
//  The middle crop_height x crop_width of an image; smaller images are padded evenly.
geometry_crop_t geometry_center_crop (uint32_t crop_height, uint32_t crop_width,
    uint32_t height, uint32_t width);
//  The box that random_resized_crop takes, never empty.  Order of the draws: a try takes area, then ratio;
//  the one that fits takes top, then left; after ten that do not fit, the middle, with no further draw.
image_box_t geometry_random_box (const operation_t *crop, uint32_t height, uint32_t width,
    keyed_random_t *random);
//  Whether a flip flips under this key; draws once, and not at all with p 0 or 1.
bool geometry_flips (const operation_t *flip, const pipeline_key_t *key);

#endif
