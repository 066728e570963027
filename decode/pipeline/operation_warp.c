#include "operation_warp.h"
#include <assert.h>
#include <math.h>
#include <string.h>

#define COUNT(words) (sizeof (words) / sizeof *(words))
#define SCALE_EXPECTED "[least, most], two numbers from 0.001 to 1000"
#define TRANSLATE_EXPECTED "[across, down], two shares of the sides, each from 0 to 1"
#define SHEAR_EXPECTED "a number from 0 to 3600, [least, most], or two such pairs in one list," \
    " each from -3600 to 3600"

enum { CENTER_MAX = 100 * 1000 };
//  A kernel is eight sigmas long, and at most BLUR_KERNEL_MAX.
static const double ALPHA_MAX = 10000, SIGMA_MIN = 0.001, SIGMA_MAX = 31;

static const char *const s_filter_words [] = { "nearest", "bilinear" };
static const operation_factor_t s_degrees = { 0, 3600, -3600, 3600, true };

int
operation_warp_parse_edge (operation_t *self, const operation_keys_t *keys)
{
    unsigned word = self->edge.is_bilinear;
    uint32_t mask_fill = 0;
    int rc = operation_keys_word (keys, "interpolation", OPERATION_KEY_OPTIONAL, s_filter_words,
        COUNT (s_filter_words), &word);
    rc = rc? rc: operation_keys_fill (keys, "fill", self->edge.fill);
    rc = rc? rc: operation_keys_whole (keys, "mask_fill", OPERATION_KEY_OPTIONAL, 0, UINT8_MAX, &mask_fill);
    self->edge.is_bilinear = word == 1;
    self->edge.mask_fill = (uint8_t) mask_fill;
    return rc;
}

void
operation_warp_write_edge (const operation_t *self, operation_text_t *text)
{
    const uint8_t *fill = self->edge.fill;
    operation_text_put (text, ",\"interpolation\":\"%s\",\"fill\":[%u,%u,%u],\"mask_fill\":%u",
        s_filter_words [self->edge.is_bilinear], fill [0], fill [1], fill [2], self->edge.mask_fill);
}

static int
s_parse_degrees (const operation_keys_t *keys, double degrees [2])
{
    if (!json_object_get (keys->object, "degrees"))
        return operation_keys_refuse (keys, "degrees", "a number, or [least, most]");
    return operation_keys_factor (keys, "degrees", &s_degrees, &degrees [0], &degrees [1]);
}

static int
s_parse_center (const operation_keys_t *keys, double center [2], bool *has_center)
{
    size_t count = 0;
    if (!json_object_get (keys->object, "center"))
        return 0;
    if (!operation_keys_list (keys, "center", -CENTER_MAX, CENTER_MAX, 2, center, &count) || count != 2)
        return operation_keys_refuse (keys, "center", "[x, y], each from %d to %d", -CENTER_MAX, CENTER_MAX);
    *has_center = true;
    return 0;
}

static void
s_write_center (operation_text_t *text, const double center [2], bool has_center)
{
    if (has_center)
        operation_text_pair (text, "center", center);
}

int
operation_warp_parse_rotation (operation_t *self, const operation_keys_t *keys)
{
    int rc = s_parse_degrees (keys, self->rotation.degrees);
    rc = rc? rc: operation_keys_flag (keys, "expand", &self->rotation.expand);
    rc = rc? rc: s_parse_center (keys, self->rotation.center, &self->rotation.has_center);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

void
operation_warp_write_rotation (const operation_t *self, operation_text_t *text)
{
    operation_text_pair (text, "degrees", self->rotation.degrees);
    operation_text_flag (text, "expand", self->rotation.expand);
    s_write_center (text, self->rotation.center, self->rotation.has_center);
    operation_warp_write_edge (self, text);
}

static int
s_parse_translate (const operation_keys_t *keys, double translate [2])
{
    size_t count = 0;
    if (!json_object_get (keys->object, "translate"))
        return 0;
    if (operation_keys_list (keys, "translate", 0, 1, 2, translate, &count) && count == 2)
        return 0;
    return operation_keys_refuse (keys, "translate", TRANSLATE_EXPECTED);
}

//  x, which is [-x, x] across; [least, most] across; or both of them across and down.
static int
s_parse_shear (const operation_keys_t *keys, double shear [4])
{
    const json_t *value = json_object_get (keys->object, "shear");
    if (!value)
        return 0;
    if (json_array_size (value) != 4 && !operation_keys_factor (keys, "shear", &s_degrees, &shear [0],
        &shear [1]))
        return 0;
    size_t count = 0;
    bool is_list = operation_keys_list (keys, "shear", s_degrees.least, s_degrees.most, 4, shear, &count);
    if (is_list && count == 4 && shear [0] <= shear [1] && shear [2] <= shear [3])
        return 0;
    return operation_keys_refuse (keys, "shear", SHEAR_EXPECTED);
}

int
operation_warp_parse_affine (operation_t *self, const operation_keys_t *keys)
{
    self->affine.scale [0] = self->affine.scale [1] = 1;
    int rc = s_parse_degrees (keys, self->affine.degrees);
    rc = rc? rc: s_parse_translate (keys, self->affine.translate);
    rc = rc? rc: operation_keys_pair (keys, "scale", 1e-3, 1e3, SCALE_EXPECTED, self->affine.scale);
    rc = rc? rc: s_parse_shear (keys, self->affine.shear);
    rc = rc? rc: s_parse_center (keys, self->affine.center, &self->affine.has_center);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

void
operation_warp_write_affine (const operation_t *self, operation_text_t *text)
{
    operation_text_pair (text, "degrees", self->affine.degrees);
    operation_text_pair (text, "translate", self->affine.translate);
    operation_text_pair (text, "scale", self->affine.scale);
    for (size_t index = 0; index < 4; index++) {
        operation_text_put (text, index? ",": ",\"shear\":[");
        operation_text_number (text, self->affine.shear [index], false);
    }
    operation_text_put (text, "]");
    s_write_center (text, self->affine.center, self->affine.has_center);
    operation_warp_write_edge (self, text);
}

int
operation_warp_parse_perspective (operation_t *self, const operation_keys_t *keys)
{
    self->perspective.probability = self->perspective.distortion = 0.5;
    self->edge.is_bilinear = true;
    int rc = operation_keys_number (keys, "distortion_scale", 0, 1, &self->perspective.distortion);
    rc = rc? rc: operation_keys_number (keys, "p", 0, 1, &self->perspective.probability);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

void
operation_warp_write_perspective (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"distortion_scale\":");
    operation_text_number (text, self->perspective.distortion, false);
    operation_text_put (text, ",\"p\":");
    operation_text_number (text, self->perspective.probability, false);
    operation_warp_write_edge (self, text);
}

//  A number for both sides, or [across, down].
static int
s_parse_sides (const operation_keys_t *keys, const char *key, double most, double sides [2])
{
    size_t count = 0;
    const json_t *value = json_object_get (keys->object, key);
    if (!value)
        return 0;
    if (json_is_number (value)) {
        int rc = operation_keys_number (keys, key, 0, most, &sides [0]);
        sides [1] = sides [0];
        return rc;
    }
    if (operation_keys_list (keys, key, 0, most, 2, sides, &count) && count == 2)
        return 0;
    return operation_keys_refuse (keys, key, "a number, or [across, down], from 0 to %g", most);
}

int
operation_warp_parse_elastic (operation_t *self, const operation_keys_t *keys)
{
    double *alpha = self->elastic.alpha, *sigma = self->elastic.sigma;
    alpha [0] = alpha [1] = 50;
    sigma [0] = sigma [1] = 5;
    self->edge.is_bilinear = true;
    int rc = s_parse_sides (keys, "alpha", ALPHA_MAX, alpha);
    rc = rc? rc: s_parse_sides (keys, "sigma", SIGMA_MAX, sigma);
    bool is_odd = (sigma [0] > 0) != (sigma [1] > 0);
    if (!rc && (is_odd || (sigma [0] > 0 && fmin (sigma [0], sigma [1]) < SIGMA_MIN)))
        return operation_keys_refuse (keys, "sigma", "both to be 0, or both from %g to %g", SIGMA_MIN,
            SIGMA_MAX);
    return rc? rc: operation_warp_parse_edge (self, keys);
}

void
operation_warp_write_elastic (const operation_t *self, operation_text_t *text)
{
    operation_text_pair (text, "alpha", self->elastic.alpha);
    operation_text_pair (text, "sigma", self->elastic.sigma);
    operation_warp_write_edge (self, text);
}

bool
operation_warp_is_random (const operation_t *self)
{
    if (self->kind == OPERATION_RANDOM_ROTATION)
        return self->rotation.degrees [0] < self->rotation.degrees [1];
    if (self->kind == OPERATION_ELASTIC_TRANSFORM)
        return self->elastic.alpha [0] > 0 || self->elastic.alpha [1] > 0;
    assert (self->kind == OPERATION_RANDOM_AFFINE);
    return self->affine.degrees [0] < self->affine.degrees [1]
        || self->affine.translate [0] > 0 || self->affine.translate [1] > 0
        || self->affine.scale [0] < self->affine.scale [1]
        || self->affine.shear [0] < self->affine.shear [1] || self->affine.shear [2] < self->affine.shear [3];
}
