#include "geometry.h"
#include <assert.h>
#include <math.h>

enum { RANDOM_BOX_TRIES = 10 };

void
geometry_resize (const operation_t *resize, uint32_t height, uint32_t width,
    uint32_t *new_height_p, uint32_t *new_width_p)
{
    assert (resize->kind == OPERATION_RESIZE);
    assert (height > 0);
    assert (width > 0);
    *new_height_p = resize->height;
    *new_width_p = resize->width;
    if (!resize->shorter_side)
        return;
    //  int (size * long / short) in torchvision; a double rounds no such quotient up to a whole number.
    uint64_t size = resize->height;
    *new_height_p = (uint32_t) (height <= width? size: size * height / width);
    *new_width_p = (uint32_t) (width <= height? size: size * width / height);
}

//  One axis of the centre crop.
static void
s_center (uint32_t crop, uint32_t side, uint32_t *from_p, uint32_t *to_p, uint32_t *length_p)
{
    *from_p = *to_p = 0;
    *length_p = crop < side? crop: side;
    if (crop > side)
        *to_p = (crop - side) / 2;
    else
        *from_p = (uint32_t) rint ((side - crop) / 2.0);    //  half to even, as Python's round
}

geometry_crop_t
geometry_center_crop (uint32_t crop_height, uint32_t crop_width, uint32_t height, uint32_t width)
{
    geometry_crop_t crop;
    s_center (crop_height, height, &crop.from.top, &crop.to_top, &crop.from.height);
    s_center (crop_width, width, &crop.from.left, &crop.to_left, &crop.from.width);
    return crop;
}

//  The largest middle box whose ratio is allowed.
static image_box_t
s_middle_box (const operation_t *crop, uint32_t height, uint32_t width)
{
    image_box_t box = { .height = height, .width = width };
    double ratio = (double) width / height;
    if (ratio < crop->ratio [0])
        box.height = (uint32_t) rint (width / crop->ratio [0]);
    else
    if (ratio > crop->ratio [1])
        box.width = (uint32_t) rint (height * crop->ratio [1]);
    //  Where torchvision fails on a box of no pixels, take one row or column.
    box.height = box.height? box.height: 1;
    box.width = box.width? box.width: 1;
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

image_box_t
geometry_random_box (const operation_t *crop, uint32_t height, uint32_t width, keyed_random_t *random)
{
    assert (crop->kind == OPERATION_RANDOM_RESIZED_CROP);
    double log_least = log (crop->ratio [0]), log_most = log (crop->ratio [1]);
    for (int attempt = 0; attempt < RANDOM_BOX_TRIES; attempt++) {
        double share = crop->scale [0] + (crop->scale [1] - crop->scale [0]) * keyed_random_uniform (random);
        double area = (double) height * width * share;
        double ratio = exp (log_least + (log_most - log_least) * keyed_random_uniform (random));
        double box_width = rint (sqrt (area * ratio));
        double box_height = rint (sqrt (area / ratio));
        if (!(box_width >= 1 && box_width <= width && box_height >= 1 && box_height <= height))
            continue;
        image_box_t box = { .height = (uint32_t) box_height, .width = (uint32_t) box_width };
        box.top = (uint32_t) keyed_random_below (random, height - box.height + 1);
        box.left = (uint32_t) keyed_random_below (random, width - box.width + 1);
        return box;
    }
    return s_middle_box (crop, height, width);
}

bool
geometry_flips (const operation_t *flip, const pipeline_key_t *key)
{
    assert (flip->kind == OPERATION_FLIP);
    if (!operation_is_random (flip))
        return flip->probability > 0;
    keyed_random_t random;
    keyed_random_init (&random, key, flip->place);
    return keyed_random_uniform (&random) < flip->probability;
}
