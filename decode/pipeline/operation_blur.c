#include "operation_blur.h"
#include <stdio.h>
#include "blur.h"

//  Pillow's radius is the deviation of its Gaussian.
static const double SIGMA_LEAST = 0.001, SIGMA_MOST = 1000;
#define KERNEL_EXPECTED "an odd whole number or [across, down], each from 1 to 255"
_Static_assert (BLUR_KERNEL_MAX == 255, "KERNEL_EXPECTED names it");

//  A number that is always it, or [least, most].
static int
s_parse_range (const operation_keys_t *keys, const char *key, double least, double most, double range [2])
{
    double number = 0;
    if (!json_object_get (keys->object, key))
        return 0;
    if (json_is_number (json_object_get (keys->object, key))) {
        int rc = operation_keys_number (keys, key, least, most, &number);
        range [0] = range [1] = number;
        return rc;
    }
    char expected [80];
    snprintf (expected, sizeof expected, "a number, or [least, most], from %g to %g", least, most);
    return operation_keys_pair (keys, key, least, most, expected, range);
}

int
operation_blur_parse (operation_t *self, const operation_keys_t *keys)
{
    double sizes [2];
    size_t count = 1;
    const json_t *value = json_object_get (keys->object, "kernel_size");
    if (json_is_number (value))
        sizes [0] = json_number_value (value);
    else
    if (!operation_keys_list (keys, "kernel_size", 1, BLUR_KERNEL_MAX, 2, sizes, &count) || count != 2)
        return operation_keys_refuse (keys, "kernel_size", KERNEL_EXPECTED);
    for (size_t axis = 0; axis < 2; axis++) {
        double size = sizes [axis < count? axis: 0];
        if (!(size >= 1 && size <= BLUR_KERNEL_MAX) || size != (uint32_t) size || (uint32_t) size % 2 == 0)
            return operation_keys_refuse (keys, "kernel_size", KERNEL_EXPECTED);
        self->blur.kernel [axis] = (uint32_t) size;
    }
    self->blur.range [0] = 0.1;
    self->blur.range [1] = 2;
    return s_parse_range (keys, "sigma", SIGMA_LEAST, SIGMA_MOST, self->blur.range);
}

void
operation_blur_write (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"kernel_size\":[%u,%u]", self->blur.kernel [0], self->blur.kernel [1]);
    operation_text_pair (text, "sigma", self->blur.range);
}

int
operation_blur_parse_pillow (operation_t *self, const operation_keys_t *keys)
{
    self->blur.range [0] = 0.1;
    self->blur.range [1] = 2;
    return s_parse_range (keys, "radius", 0, BLUR_RADIUS_MAX, self->blur.range);
}

void
operation_blur_write_pillow (const operation_t *self, operation_text_t *text)
{
    operation_text_pair (text, "radius", self->blur.range);
}
