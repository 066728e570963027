#include "operation.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "blur.h"
#include "entry.h"

#define RATIO_EXPECTED "[least, most], two ratios of width to height with 0.01 <= least <= most <= 100"
#define COUNT(words) (sizeof (words) / sizeof *(words))

//  As resize_filter_t, and OPERATION_FILTER_RANDOM.
static const char *const s_filter_words [] = { "nearest", "bilinear", "bicubic", "random" };
_Static_assert (RESIZE_NEAREST == 0 && RESIZE_BILINEAR == 1
    && RESIZE_BICUBIC == 2 && OPERATION_FILTER_RANDOM == 3, "s_filter_words is in this order");

//  ---------------------------------------------------------------------------------------------------------
//  What several have in common

static int
s_parse_size (operation_t *self, const entry_t *entry)
{
    return entry_size (entry, &self->height, &self->width, NULL);
}

static void
s_write_size (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"size\":[%u,%u]", self->height, self->width);
}

//  A flag that came later than its operation's text: written where it is set.
static void
s_write_set (entry_text_t *text, const char *key, bool flag)
{
    if (flag)
        entry_put_flag (text, key, flag);
}

static int
s_parse_chance (operation_t *self, const entry_t *entry)
{
    self->probability = 0.5;
    return entry_number (entry, "p", 0, 1, &self->probability);
}

static void
s_write_chance (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"p\":");
    entry_put_number (text, self->probability, false);
}

//  ---------------------------------------------------------------------------------------------------------
//  Views and sizes

static int
s_parse_views (operation_t *self, const entry_t *entry)
{
    int rc = entry_whole (entry, "count", ENTRY_REQUIRED, 2, PIPELINE_VIEWS_MAX, &self->views.count);
    return rc? rc: entry_flag (entry, "stack", &self->views.stacks);
}

static void
s_write_views (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"count\":%u", self->views.count);
    entry_put_flag (text, "stack", self->views.stacks);
}

//  One of the first `count` words.
static int
s_parse_filter (const entry_t *entry, size_t count, unsigned *filter_p)
{
    *filter_p = RESIZE_BILINEAR;
    return entry_word (entry, "interpolation", ENTRY_OPTIONAL, s_filter_words, count, filter_p);
}

static int
s_parse_resize (operation_t *self, const entry_t *entry)
{
    uint32_t *side_max = &self->resize.side_max;
    int rc = entry_size (entry, &self->height, &self->width, &self->resize.shorter_side);
    rc = rc? rc: entry_whole (entry, "max_size", ENTRY_OPTIONAL, 1, PIPELINE_SIDE_MAX, side_max);
    if (!rc && *side_max && !self->resize.shorter_side)
        return entry_complain (entry->complaint,
            "\"max_size\" with two sides; expected \"size\" to be one number");
    if (!rc && *side_max && *side_max <= self->height)
        return entry_refuse (entry, "max_size", "a whole number above \"size\", up to %d", PIPELINE_SIDE_MAX);
    unsigned filter = RESIZE_BILINEAR;
    rc = rc? rc: s_parse_filter (entry, OPERATION_FILTER_RANDOM, &filter);
    self->resize.filter = (resize_filter_t) filter;
    return rc? rc: entry_flag (entry, "pillow13", &self->resize.pillow13);
}

static void
s_write_resize (const operation_t *self, entry_text_t *text)
{
    if (self->resize.shorter_side)
        entry_put (text, ",\"size\":%u", self->height);
    else
        s_write_size (self, text);
    if (self->resize.side_max)
        entry_put (text, ",\"max_size\":%u", self->resize.side_max);
    entry_put (text, ",\"interpolation\":\"%s\"", s_filter_words [self->resize.filter]);
    s_write_set (text, "pillow13", self->resize.pillow13);
}

static const char *const s_mirror_words [] = { "across", "down" };

static int
s_parse_corner_crop (operation_t *self, const entry_t *entry)
{
    unsigned word = 0;
    int rc = s_parse_size (self, entry);
    rc = rc? rc: entry_word (entry, "mirror", ENTRY_OPTIONAL, s_mirror_words, COUNT (s_mirror_words), &word);
    self->corner.mirrors_down = word == 1;
    return rc;
}

static void
s_write_corner_crop (const operation_t *self, entry_text_t *text)
{
    s_write_size (self, text);
    entry_put (text, ",\"mirror\":\"%s\"", s_mirror_words [self->corner.mirrors_down]);
}

#define SCALE_EXPECTED "[least, most], two shares of the area with 0 < least <= most <= 1"

static int
s_parse_random_resized_crop (operation_t *self, const entry_t *entry)
{
    double *scale = self->random_resized_crop.scale, *ratio = self->random_resized_crop.ratio;
    scale [0] = 0.08;
    scale [1] = 1;
    ratio [0] = 3.0 / 4;
    ratio [1] = 4.0 / 3;
    int rc = entry_pair (entry, "scale", 0, 1, SCALE_EXPECTED, scale);
    if (!rc && scale [0] <= 0)
        rc = entry_refuse (entry, "scale", SCALE_EXPECTED);
    rc = rc? rc: entry_pair (entry, "ratio", 0.01, 100, RATIO_EXPECTED, ratio);
    rc = rc? rc: s_parse_size (self, entry);
    rc = rc? rc: s_parse_filter (entry, COUNT (s_filter_words), &self->random_resized_crop.filter);
    return rc? rc: entry_flag (entry, "pillow13", &self->random_resized_crop.pillow13);
}

static void
s_write_random_resized_crop (const operation_t *self, entry_text_t *text)
{
    s_write_size (self, text);
    entry_put_pair (text, "scale", self->random_resized_crop.scale);
    entry_put_pair (text, "ratio", self->random_resized_crop.ratio);
    entry_put (text, ",\"interpolation\":\"%s\"", s_filter_words [self->random_resized_crop.filter]);
    s_write_set (text, "pillow13", self->random_resized_crop.pillow13);
}

static const char *const s_mode_words [] = { "constant", "edge", "reflect", "symmetric" };
_Static_assert (PAD_CONSTANT == 0 && PAD_EDGE == 1 && PAD_REFLECT == 2
    && PAD_SYMMETRIC == 3, "s_mode_words is in this order");

//  Of pad, which must have a "padding", and of random_crop.
static int
s_parse_pad (operation_t *self, const entry_t *entry)
{
    unsigned mode = PAD_CONSTANT;
    uint32_t mask_fill = 0;
    entry_need_t need = self->kind == OPERATION_PAD? ENTRY_REQUIRED: ENTRY_OPTIONAL;
    int rc = entry_padding (entry, "padding", need, self->pad.border);
    rc = rc? rc: entry_fill (entry, "fill", self->pad.fill);
    rc = rc? rc: entry_whole (entry, "mask_fill", ENTRY_OPTIONAL, 0, UINT8_MAX, &mask_fill);
    rc = rc? rc: entry_word (entry, "mode", ENTRY_OPTIONAL, s_mode_words, COUNT (s_mode_words), &mode);
    self->pad.mask_fill = (uint8_t) mask_fill;
    self->pad.mode = (pad_mode_t) mode;
    return rc;
}

static int
s_parse_random_crop (operation_t *self, const entry_t *entry)
{
    int rc = s_parse_size (self, entry);
    rc = rc? rc: entry_flag (entry, "pad_if_needed", &self->pad.if_needed);
    rc = rc? rc: s_parse_pad (self, entry);
    //  torchvision would mirror the border that it has just mirrored: that is a pad and a crop.
    bool mirrors = self->pad.mode == PAD_REFLECT || self->pad.mode == PAD_SYMMETRIC;
    const uint32_t *border = self->pad.border;
    bool has_border = border [0] || border [1] || border [2] || border [3];
    if (!rc && self->pad.if_needed && mirrors && has_border)
        return entry_complain (entry->complaint,
            "\"padding\" and \"pad_if_needed\" both mirror the image; "
            "expected the padding as a pad before this operation");
    return rc;
}

static void
s_write_pad (const operation_t *self, entry_text_t *text)
{
    const uint32_t *border = self->pad.border;
    const uint8_t *fill = self->pad.fill;
    if (self->kind == OPERATION_RANDOM_CROP)
        s_write_size (self, text);
    entry_put (text, ",\"padding\":[%u,%u,%u,%u]", border [0], border [1], border [2], border [3]);
    if (self->kind == OPERATION_RANDOM_CROP)
        entry_put_flag (text, "pad_if_needed", self->pad.if_needed);
    entry_put (text, ",\"fill\":[%u,%u,%u],\"mask_fill\":%u,\"mode\":\"%s\"", fill [0], fill [1], fill [2],
        self->pad.mask_fill, s_mode_words [self->pad.mode]);
}

//  ---------------------------------------------------------------------------------------------------------
//  Colours; flips, invert, autocontrast and equalize have a chance and nothing else

enum { FACTOR_MAX = 100 };
static const char *const s_jitter_words [JITTER_KINDS] = { "brightness", "contrast", "saturation", "hue" };
static const entry_factor_t s_jitter_limits [JITTER_KINDS] = {
    { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false }, { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false },
    { 1, FACTOR_MAX - 1, 0, FACTOR_MAX, false }, { 0, 0.5, -0.5, 0.5, true }
};

static int
s_parse_jitter (operation_t *self, const entry_t *entry)
{
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        double *least = &self->jitter.least [kind], *most = &self->jitter.most [kind];
        *least = *most = s_jitter_limits [kind].centre;
        int rc = entry_factor (entry, s_jitter_words [kind], &s_jitter_limits [kind], least, most);
        if (rc)
            return rc;
    }
    return 0;
}

static void
s_write_jitter (const operation_t *self, entry_text_t *text)
{
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        const double pair [2] = { self->jitter.least [kind], self->jitter.most [kind] };
        entry_put_pair (text, s_jitter_words [kind], pair);
    }
}

static int
s_parse_grayscale (operation_t *self, const entry_t *entry)
{
    self->probability = 1;
    int rc = entry_number (entry, "p", 0, 1, &self->probability);
    if (rc)
        return rc;
    bool always = self->probability >= 1;
    uint32_t channels = always? 1: IMAGE_COLOURS;
    rc = entry_whole (entry, "channels", ENTRY_OPTIONAL, 1, IMAGE_COLOURS, &channels);
    if (rc || channels == 2)
        return entry_refuse (entry, "channels", "1 or 3");
    if (channels == 1 && !always)
        return entry_complain (entry->complaint,
            "\"channels\" 1 with \"p\" below 1; expected 3, or \"p\" to be 1");
    self->grayscale.channels = channels;
    return 0;
}

static void
s_write_grayscale (const operation_t *self, entry_text_t *text)
{
    s_write_chance (self, text);
    entry_put (text, ",\"channels\":%u", self->grayscale.channels);
}

//  Random are the order of two steps, and a factor with room between least and most.
static bool
s_jitter_is_random (const operation_t *self)
{
    size_t steps = 0;
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        double least = self->jitter.least [kind], most = self->jitter.most [kind];
        if (least < most)
            return true;
        steps += least < s_jitter_limits [kind].centre || least > s_jitter_limits [kind].centre;
    }
    return steps > 1;
}

static int
s_parse_posterize (operation_t *self, const entry_t *entry)
{
    uint32_t bits = 0;
    int rc = entry_whole (entry, "bits", ENTRY_REQUIRED, 0, 8, &bits);
    self->point.factor = bits;
    return rc? rc: s_parse_chance (self, entry);
}

static void
s_write_posterize (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"bits\":%u", (unsigned) self->point.factor);
    s_write_chance (self, text);
}

//  Of solarize and adjust_sharpness, which must have it.
static const char *
s_factor_key (const operation_t *self)
{
    return self->kind == OPERATION_SOLARIZE? "threshold": "factor";
}

//  solarize: from 256 on nothing is inverted.
static int
s_parse_factor (operation_t *self, const entry_t *entry)
{
    const char *key = s_factor_key (self);
    double most = self->kind == OPERATION_SOLARIZE? COLOUR_VALUES: FACTOR_MAX;
    if (!json_object_get (entry->object, key))
        return entry_refuse (entry, key, "a number from 0 to %g", most);
    int rc = entry_number (entry, key, 0, most, &self->point.factor);
    return rc? rc: s_parse_chance (self, entry);
}

static void
s_write_factor (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"%s\":", s_factor_key (self));
    entry_put_number (text, self->point.factor, false);
    s_write_chance (self, text);
}

//  ---------------------------------------------------------------------------------------------------------
//  Blurs

//  Pillow's radius is the deviation of its Gaussian.
static const double SIGMA_LEAST = 0.001, SIGMA_MOST = 1000;
#define KERNEL_EXPECTED "an odd whole number or [across, down], each from 1 to 255"
_Static_assert (BLUR_KERNEL_MAX == 255, "KERNEL_EXPECTED names it");

static int
s_parse_gaussian_blur (operation_t *self, const entry_t *entry)
{
    double sizes [2];
    size_t count = 1;
    const json_t *value = json_object_get (entry->object, "kernel_size");
    if (json_is_number (value))
        sizes [0] = json_number_value (value);
    else
    if (!entry_list (entry, "kernel_size", 1, BLUR_KERNEL_MAX, 2, sizes, &count) || count != 2)
        return entry_refuse (entry, "kernel_size", KERNEL_EXPECTED);
    for (size_t axis = 0; axis < 2; axis++) {
        double size = sizes [axis < count? axis: 0];
        if (!(size >= 1 && size <= BLUR_KERNEL_MAX) || size != (uint32_t) size || (uint32_t) size % 2 == 0)
            return entry_refuse (entry, "kernel_size", KERNEL_EXPECTED);
        self->blur.kernel [axis] = (uint32_t) size;
    }
    self->blur.range [0] = 0.1;
    self->blur.range [1] = 2;
    return entry_range (entry, "sigma", SIGMA_LEAST, SIGMA_MOST, self->blur.range);
}

static void
s_write_gaussian_blur (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"kernel_size\":[%u,%u]", self->blur.kernel [0], self->blur.kernel [1]);
    entry_put_pair (text, "sigma", self->blur.range);
}

static int
s_parse_pillow_blur (operation_t *self, const entry_t *entry)
{
    self->blur.range [0] = 0.1;
    self->blur.range [1] = 2;
    return entry_range (entry, "radius", 0, BLUR_RADIUS_MAX, self->blur.range);
}

static void
s_write_pillow_blur (const operation_t *self, entry_text_t *text)
{
    entry_put_pair (text, "radius", self->blur.range);
}

//  ---------------------------------------------------------------------------------------------------------
//  Maps of an image

#define ZOOM_EXPECTED "[least, most], two numbers from 0.001 to 1000"
#define TRANSLATE_EXPECTED "[across, down], two shares of the sides, each from 0 to 1"
#define SHEAR_EXPECTED "a number from 0 to 3600, [least, most], or two such pairs in one list," \
    " each from -3600 to 3600"

enum { CENTER_MAX = 100 * 1000 };
#define CENTER_EXPECTED "[x, y], each from -100000 to 100000"
_Static_assert (CENTER_MAX == 100000, "CENTER_EXPECTED names it");
static const entry_factor_t s_degrees = { 0, 3600, -3600, 3600, true };

static int
s_parse_edge (operation_t *self, const entry_t *entry)
{
    unsigned word = self->edge.is_bilinear;
    uint32_t mask_fill = 0;
    int rc = entry_word (entry, "interpolation", ENTRY_OPTIONAL, s_filter_words, RESIZE_BILINEAR + 1, &word);
    rc = rc? rc: entry_fill (entry, "fill", self->edge.fill);
    rc = rc? rc: entry_whole (entry, "mask_fill", ENTRY_OPTIONAL, 0, UINT8_MAX, &mask_fill);
    self->edge.is_bilinear = word == 1;
    self->edge.mask_fill = (uint8_t) mask_fill;
    return rc;
}

static void
s_write_edge (const operation_t *self, entry_text_t *text)
{
    const uint8_t *fill = self->edge.fill;
    entry_put (text, ",\"interpolation\":\"%s\",\"fill\":[%u,%u,%u],\"mask_fill\":%u",
        s_filter_words [self->edge.is_bilinear], fill [0], fill [1], fill [2], self->edge.mask_fill);
}

static int
s_parse_degrees (const entry_t *entry, double degrees [2])
{
    if (!json_object_get (entry->object, "degrees"))
        return entry_refuse (entry, "degrees", "a number, or [least, most]");
    return entry_factor (entry, "degrees", &s_degrees, &degrees [0], &degrees [1]);
}

static int
s_parse_center (const entry_t *entry, double center [2], bool *has_center)
{
    return entry_two (entry, "center", -CENTER_MAX, CENTER_MAX, CENTER_EXPECTED, center, has_center);
}

static int
s_parse_rotation (operation_t *self, const entry_t *entry)
{
    int rc = s_parse_degrees (entry, self->rotation.degrees);
    rc = rc? rc: entry_flag (entry, "expand", &self->rotation.expand);
    rc = rc? rc: s_parse_center (entry, self->rotation.center, &self->rotation.has_center);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_rotation (const operation_t *self, entry_text_t *text)
{
    entry_put_pair (text, "degrees", self->rotation.degrees);
    entry_put_flag (text, "expand", self->rotation.expand);
    if (self->rotation.has_center)
        entry_put_pair (text, "center", self->rotation.center);
    s_write_edge (self, text);
}

//  x, which is [-x, x] across; [least, most] across; or both of them across and down.
static int
s_parse_shear (const entry_t *entry, double shear [4])
{
    const json_t *value = json_object_get (entry->object, "shear");
    if (!value)
        return 0;
    if (json_array_size (value) != 4 && !entry_factor (entry, "shear", &s_degrees, &shear [0], &shear [1]))
        return 0;
    size_t count = 0;
    bool is_list = entry_list (entry, "shear", s_degrees.least, s_degrees.most, 4, shear, &count);
    if (is_list && count == 4 && shear [0] <= shear [1] && shear [2] <= shear [3])
        return 0;
    return entry_refuse (entry, "shear", SHEAR_EXPECTED);
}

static int
s_parse_affine (operation_t *self, const entry_t *entry)
{
    bool translates;
    self->affine.scale [0] = self->affine.scale [1] = 1;
    int rc = s_parse_degrees (entry, self->affine.degrees);
    rc = rc? rc: entry_two (entry, "translate", 0, 1, TRANSLATE_EXPECTED, self->affine.translate,
        &translates);
    rc = rc? rc: entry_pair (entry, "scale", 1e-3, 1e3, ZOOM_EXPECTED, self->affine.scale);
    rc = rc? rc: s_parse_shear (entry, self->affine.shear);
    rc = rc? rc: s_parse_center (entry, self->affine.center, &self->affine.has_center);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_affine (const operation_t *self, entry_text_t *text)
{
    entry_put_pair (text, "degrees", self->affine.degrees);
    entry_put_pair (text, "translate", self->affine.translate);
    entry_put_pair (text, "scale", self->affine.scale);
    for (size_t index = 0; index < 4; index++) {
        entry_put (text, index? ",": ",\"shear\":[");
        entry_put_number (text, self->affine.shear [index], false);
    }
    entry_put (text, "]");
    if (self->affine.has_center)
        entry_put_pair (text, "center", self->affine.center);
    s_write_edge (self, text);
}

static int
s_parse_perspective (operation_t *self, const entry_t *entry)
{
    self->perspective.distortion = 0.5;
    self->edge.is_bilinear = true;
    int rc = entry_number (entry, "distortion_scale", 0, 1, &self->perspective.distortion);
    rc = rc? rc: s_parse_chance (self, entry);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_perspective (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"distortion_scale\":");
    entry_put_number (text, self->perspective.distortion, false);
    s_write_chance (self, text);
    s_write_edge (self, text);
}

//  A kernel is eight sigmas long, and at most BLUR_KERNEL_MAX.
static const double ELASTIC_ALPHA_MAX = 10000, ELASTIC_SIGMA_MIN = 0.001, ELASTIC_SIGMA_MAX = 31;

static int
s_parse_elastic (operation_t *self, const entry_t *entry)
{
    double *alpha = self->elastic.alpha, *sigma = self->elastic.sigma;
    alpha [0] = alpha [1] = 50;
    sigma [0] = sigma [1] = 5;
    self->edge.is_bilinear = true;
    int rc = entry_sides (entry, "alpha", ELASTIC_ALPHA_MAX, alpha);
    rc = rc? rc: entry_sides (entry, "sigma", ELASTIC_SIGMA_MAX, sigma);
    bool is_odd = (sigma [0] > 0) != (sigma [1] > 0);
    if (!rc && (is_odd || (sigma [0] > 0 && fmin (sigma [0], sigma [1]) < ELASTIC_SIGMA_MIN)))
        return entry_refuse (entry, "sigma", "both to be 0, or both from %g to %g", ELASTIC_SIGMA_MIN,
            ELASTIC_SIGMA_MAX);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_elastic (const operation_t *self, entry_text_t *text)
{
    entry_put_pair (text, "alpha", self->elastic.alpha);
    entry_put_pair (text, "sigma", self->elastic.sigma);
    s_write_edge (self, text);
}

//  ---------------------------------------------------------------------------------------------------------
//  Groups: what is about the operations behind it

enum { SPAN_MAX = PIPELINE_OPERATIONS_MAX - 2, WEIGHT_MAX = 1000 * 1000 };
#define COUNTS_EXPECTED "a list of 1 to 16 whole numbers, 1 to 30 operations together"
_Static_assert (SPAN_MAX == 30 && GROUP_PARTS_MAX == 16, "COUNTS_EXPECTED names them");

static int
s_parse_apply (operation_t *self, const entry_t *entry)
{
    uint32_t count = 0;
    self->group.parts = 1;
    int rc = entry_whole (entry, "count", ENTRY_REQUIRED, 1, SPAN_MAX, &count);
    self->group.counts [0] = (uint8_t) count;
    return rc? rc: s_parse_chance (self, entry);
}

static void
s_write_apply (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"count\":%u", self->group.counts [0]);
    s_write_chance (self, text);
}

static int
s_parse_counts (operation_t *self, const entry_t *entry)
{
    double counts [GROUP_PARTS_MAX], sum = 0;
    size_t parts = 0;
    bool is_valid = entry_list (entry, "counts", 0, SPAN_MAX, GROUP_PARTS_MAX, counts, &parts);
    for (size_t part = 0; is_valid && part < parts; part++) {
        self->group.counts [part] = (uint8_t) counts [part];
        is_valid = self->group.counts [part] == counts [part];
        sum += counts [part];
    }
    self->group.parts = (uint32_t) parts;
    if (is_valid && sum >= 1 && sum <= SPAN_MAX)
        return 0;
    return entry_refuse (entry, "counts", COUNTS_EXPECTED);
}

static int
s_parse_choice (operation_t *self, const entry_t *entry)
{
    int rc = s_parse_counts (self, entry);
    double *weights = self->group.weights, sum = 0;
    size_t count = 0;
    for (uint32_t part = 0; part < self->group.parts; part++)
        weights [part] = 1;
    if (rc || !json_object_get (entry->object, "p"))
        return rc;
    bool is_valid = entry_list (entry, "p", 0, WEIGHT_MAX, GROUP_PARTS_MAX, weights, &count);
    for (size_t part = 0; is_valid && part < count; part++)
        sum += weights [part];
    if (is_valid && count == self->group.parts && sum > 0)
        return 0;
    return entry_refuse (entry, "p",
        "as many numbers as \"counts\" has, each from 0 to %d and not all 0", WEIGHT_MAX);
}

static void
s_write_counts (const operation_t *self, entry_text_t *text)
{
    for (uint32_t part = 0; part < self->group.parts; part++)
        entry_put (text, part? ",%u": ",\"counts\":[%u", self->group.counts [part]);
    entry_put (text, "]");
}

static void
s_write_choice (const operation_t *self, entry_text_t *text)
{
    s_write_counts (self, text);
    for (uint32_t part = 0; part < self->group.parts; part++) {
        entry_put (text, part? ",": ",\"p\":[");
        entry_put_number (text, self->group.weights [part], false);
    }
    entry_put (text, "]");
}

bool
operation_is_group (const operation_t *self)
{
    return self->kind == OPERATION_RANDOM_APPLY || self->kind == OPERATION_RANDOM_CHOICE
        || self->kind == OPERATION_RANDOM_ORDER;
}

size_t
operation_span (const operation_t *self)
{
    size_t span = 0;
    for (uint32_t part = 0; operation_is_group (self) && part < self->group.parts; part++)
        span += self->group.counts [part];
    return span;
}

static bool
s_group_is_random (const operation_t *self)
{
    uint32_t ways = 0;
    assert (operation_is_group (self));
    for (uint32_t part = 0; part < self->group.parts; part++)
        ways += self->kind == OPERATION_RANDOM_ORDER || self->group.weights [part] > 0;
    return ways > 1;
}

//  ---------------------------------------------------------------------------------------------------------
//  Augmentation policies

enum { BINS_MAX = 1000, MIX_BINS = 10 };
static const double MIX_ALPHA_LEAST = 0.1, MIX_ALPHA_MOST = 100;
static const char *const s_policy_words [AUGMENT_POLICIES] = { "imagenet", "cifar10", "svhn" };

//  torchvision's v2 counts the thresholds of Solarize from 1 to 0, which rounds some of them otherwise.
static int
s_parse_end (operation_t *self, const entry_t *entry)
{
    int rc = entry_flag (entry, "unit_threshold", &self->augment.unit_threshold);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_end (const operation_t *self, entry_text_t *text)
{
    entry_put_flag (text, "unit_threshold", self->augment.unit_threshold);
    s_write_edge (self, text);
}

static int
s_parse_bins (operation_t *self, const entry_t *entry)
{
    self->augment.bins = 31;
    return entry_whole (entry, "num_magnitude_bins", ENTRY_OPTIONAL, 2, BINS_MAX, &self->augment.bins);
}

static int
s_parse_rand_augment (operation_t *self, const entry_t *entry)
{
    self->augment.steps = 2;
    self->augment.level = 9;
    int rc = entry_whole (entry, "num_ops", ENTRY_OPTIONAL, 0, AUGMENT_STEPS_MAX, &self->augment.steps);
    rc = rc? rc: s_parse_bins (self, entry);
    rc = rc? rc: entry_whole (entry, "magnitude", ENTRY_OPTIONAL, 0, BINS_MAX - 1, &self->augment.level);
    if (!rc && self->augment.level >= self->augment.bins)
        return entry_complain (entry->complaint,
            "\"magnitude\" %u of %u; expected a whole number below \"num_magnitude_bins\"",
            self->augment.level, self->augment.bins);
    return rc? rc: s_parse_end (self, entry);
}

static void
s_write_rand_augment (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"num_ops\":%u,\"magnitude\":%u,\"num_magnitude_bins\":%u",
        self->augment.steps, self->augment.level, self->augment.bins);
    s_write_end (self, text);
}

static int
s_parse_trivial_augment (operation_t *self, const entry_t *entry)
{
    int rc = s_parse_bins (self, entry);
    return rc? rc: s_parse_end (self, entry);
}

static void
s_write_trivial_augment (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"num_magnitude_bins\":%u", self->augment.bins);
    s_write_end (self, text);
}

static int
s_parse_auto_augment (operation_t *self, const entry_t *entry)
{
    unsigned word = AUGMENT_IMAGENET;
    int rc = entry_word (entry, "policy", ENTRY_OPTIONAL, s_policy_words, AUGMENT_POLICIES, &word);
    self->augment.policy = (augment_policy_t) word;
    return rc? rc: s_parse_end (self, entry);
}

static void
s_write_auto_augment (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"policy\":\"%s\"", s_policy_words [self->augment.policy]);
    s_write_end (self, text);
}

//  "chain_depth": a whole number, or -1, which is any of 1 to 3.
static int
s_parse_depth (operation_t *self, const entry_t *entry)
{
    const json_t *value = json_object_get (entry->object, "chain_depth");
    double depth = value? json_number_value (value): -1;
    self->augment.depth = depth > 0 && depth <= MIX_DEPTH_MAX? (uint32_t) depth: 0;
    if (!value || (json_is_number (value) && (depth == -1 || (depth > 0 && self->augment.depth == depth))))
        return 0;
    return entry_refuse (entry, "chain_depth", "-1 or a whole number from 1 to %d", MIX_DEPTH_MAX);
}

static int
s_parse_aug_mix (operation_t *self, const entry_t *entry)
{
    self->augment.bins = MIX_BINS;
    self->augment.level = self->augment.chains = 3;
    self->augment.alpha = 1;
    self->augment.all_kinds = self->edge.is_bilinear = true;
    int rc = entry_whole (entry, "severity", ENTRY_OPTIONAL, 1, MIX_BINS, &self->augment.level);
    rc = rc? rc: entry_whole (entry, "mixture_width", ENTRY_OPTIONAL, 1, MIX_CHAINS_MAX,
        &self->augment.chains);
    rc = rc? rc: s_parse_depth (self, entry);
    rc = rc? rc: entry_number (entry, "alpha", MIX_ALPHA_LEAST, MIX_ALPHA_MOST, &self->augment.alpha);
    rc = rc? rc: entry_flag (entry, "all_ops", &self->augment.all_kinds);
    return rc? rc: s_parse_edge (self, entry);
}

static void
s_write_aug_mix (const operation_t *self, entry_text_t *text)
{
    const uint8_t *fill = self->edge.fill;
    entry_put (text, ",\"severity\":%u,\"mixture_width\":%u,\"chain_depth\":%d,\"alpha\":",
        self->augment.level, self->augment.chains, self->augment.depth? (int) self->augment.depth: -1);
    entry_put_number (text, self->augment.alpha, false);
    entry_put_flag (text, "all_ops", self->augment.all_kinds);
    entry_put (text, ",\"interpolation\":\"%s\",\"fill\":[%u,%u,%u]",
        s_filter_words [self->edge.is_bilinear], fill [0], fill [1], fill [2]);
}

//  ---------------------------------------------------------------------------------------------------------
//  The operator's own

static int
s_complain_no_custom (const entry_t *entry, const char *name)
{
    char quoted [ENTRY_QUOTE_BYTES_MAX], there [CUSTOM_MAX * (CUSTOM_NAME_BYTES_MAX + 4)] = "";
    const pipeline_source_t *source = entry->source;
    for (size_t index = 0; index < source->custom_count; index++)
        entry_append (there, sizeof there, source->customs [index].name, "\"");
    entry_printable (name, quoted, sizeof quoted);
    if (!*there)
        return entry_complain (entry->complaint, "there is no operation \"%s\" here, and none at all: "
            "the operator adds some by `tureen serve --operation %s=COMMAND`", quoted, quoted);
    return entry_complain (entry->complaint, "there is no operation \"%s\" here; expected one of %s",
        quoted, there);
}

static int
s_parse_name (operation_t *self, const entry_t *entry)
{
    const pipeline_source_t *source = entry->source;
    const char *name = json_string_value (json_object_get (entry->object, "name"));
    if (!name)
        return entry_refuse (entry, "name", "the name of an operation of the operator's");
    for (size_t index = 0; index < source->custom_count; index++)
        if (strcmp (source->customs [index].name, name) == 0)
            self->custom.is = &source->customs [index];
    return self->custom.is? 0: s_complain_no_custom (entry, name);
}

//  Sorted, so that the order of keys makes no difference.
static int
s_parse_arguments (operation_t *self, const entry_t *entry)
{
    const json_t *given = json_object_get (entry->object, "arguments");
    if (given && !json_is_object (given))
        return entry_refuse (entry, "arguments", "an object, which the operation understands");
    char *text = given? json_dumps (given, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENSURE_ASCII): strdup ("{}");
    if (!text)
        return -ENOMEM;
    size_t size = strlen (text) + 1;
    bool fits = size <= sizeof self->custom.arguments;
    if (fits)
        memcpy (self->custom.arguments, text, size);
    free (text);
    return fits? 0: entry_refuse (entry, "arguments", "at most %d bytes of JSON", CUSTOM_ARGUMENTS_BYTES_MAX);
}

//  A list that has it asks for the very command that made earlier pixels.
static int
s_check_identity (const operation_t *self, const entry_t *entry)
{
    const json_t *given = json_object_get (entry->object, "identity");
    const char *text = json_string_value (given), *own = self->custom.is->identity;
    if (!given || (text && strcmp (text, own) == 0))
        return 0;
    return entry_complain (entry->complaint,
        "\"identity\" is another one: the command behind \"%s\" is not what it was; expected \"%s\", or no "
        "\"identity\" for whatever it is now", self->custom.is->name, own);
}

static int
s_parse_custom (operation_t *self, const entry_t *entry)
{
    int rc = s_parse_name (self, entry);
    rc = rc? rc: s_parse_size (self, entry);
    rc = rc? rc: s_parse_arguments (self, entry);
    return rc? rc: s_check_identity (self, entry);
}

static void
s_write_custom (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"name\":\"%s\",\"size\":[%u,%u],\"arguments\":%s,\"identity\":\"%s\"",
        self->custom.is->name, self->height, self->width, self->custom.arguments, self->custom.is->identity);
}

//  ---------------------------------------------------------------------------------------------------------
//  The end of the private stage

static int
s_parse_normalize (operation_t *self, const entry_t *entry)
{
    uint32_t mean_count = 1, std_count = 1;
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++)
        self->normalize.std [channel] = 1;
    int rc = entry_channels (entry, "mean", -1e6, 1e6, self->normalize.mean, &mean_count);
    rc = rc? rc: entry_channels (entry, "std", 1e-6, 1e6, self->normalize.std, &std_count);
    self->normalize.count = mean_count > std_count? mean_count: std_count;
    return rc? rc: entry_flag (entry, "reciprocal", &self->normalize.reciprocal);
}

static void
s_write_channels (entry_text_t *text, const char *key, const float *values, uint32_t count)
{
    for (uint32_t channel = 0; channel < count; channel++) {
        if (channel)
            entry_put (text, ",");
        else
            entry_put (text, ",\"%s\":[", key);
        entry_put_number (text, values [channel], true);
    }
    entry_put (text, "]");
}

static void
s_write_normalize (const operation_t *self, entry_text_t *text)
{
    s_write_channels (text, "mean", self->normalize.mean, self->normalize.count);
    s_write_channels (text, "std", self->normalize.std, self->normalize.count);
    s_write_set (text, "reciprocal", self->normalize.reciprocal);
}

static const dtype_t s_cast_dtypes [] = { DTYPE_UINT8, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_FLOAT32 };

static int
s_parse_cast (operation_t *self, const entry_t *entry)
{
    const char *words [COUNT (s_cast_dtypes)];
    unsigned word = 0;
    for (size_t index = 0; index < COUNT (words); index++)
        words [index] = dtype_name (s_cast_dtypes [index]);
    int rc = entry_word (entry, "dtype", ENTRY_REQUIRED, words, COUNT (words), &word);
    self->cast.dtype = s_cast_dtypes [word];
    return rc;
}

static void
s_write_cast (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"dtype\":\"%s\"", dtype_name (self->cast.dtype));
}

static const char *const s_layout_words [] = { "NHWC", "NCHW" };

static int
s_parse_layout (operation_t *self, const entry_t *entry)
{
    unsigned word = 0;
    int rc = entry_word (entry, "layout", ENTRY_REQUIRED, s_layout_words, COUNT (s_layout_words), &word);
    self->layout.planar = word == 1;
    return rc;
}

static void
s_write_layout (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"layout\":\"%s\"", s_layout_words [self->layout.planar]);
}

#define ERASED_EXPECTED "[least, most], two shares of the area with 0 <= least <= most <= 1"

static int
s_parse_random_erasing (operation_t *self, const entry_t *entry)
{
    double *scale = self->erase.scale, *ratio = self->erase.ratio;
    scale [0] = 0.02;
    scale [1] = 0.33;
    ratio [0] = 0.3;
    ratio [1] = 3.3;
    int rc = s_parse_chance (self, entry);
    rc = rc? rc: entry_pair (entry, "scale", 0, 1, ERASED_EXPECTED, scale);
    rc = rc? rc: entry_pair (entry, "ratio", 0.01, 100, RATIO_EXPECTED, ratio);
    return rc? rc: entry_channels (entry, "value", -1e6, 1e6, self->erase.value, &self->erase.count);
}

static void
s_write_random_erasing (const operation_t *self, entry_text_t *text)
{
    s_write_chance (self, text);
    entry_put_pair (text, "scale", self->erase.scale);
    entry_put_pair (text, "ratio", self->erase.ratio);
    s_write_channels (text, "value", self->erase.value, self->erase.count);
}

//  Of audio alone.
static const char *const s_place_words [] = { "center", "random" };

static int
s_parse_excerpt (operation_t *self, const entry_t *entry)
{
    unsigned word = 1;
    int rc = entry_whole (entry, "length", ENTRY_REQUIRED, 1, PIPELINE_SAMPLE_BYTES_MAX,
        &self->excerpt.length);
    rc = rc? rc: entry_word (entry, "place", ENTRY_OPTIONAL, s_place_words, COUNT (s_place_words), &word);
    self->excerpt.random = word == 1;
    if (!rc && json_is_false (json_object_get (entry->object, "share")))
        return entry_refuse (entry, "share", "true: an excerpt is always in the shared stage");
    self->may_be_shared = true;
    return rc;
}

static void
s_write_excerpt (const operation_t *self, entry_text_t *text)
{
    entry_put (text, ",\"length\":%u,\"place\":\"%s\"", self->excerpt.length,
        s_place_words [self->excerpt.random]);
}

//  ---------------------------------------------------------------------------------------------------------
//  The library

//  What an operation may do.
enum { SHARED = 1, PRIVATE = 2, BOTH = SHARED | PRIVATE, DRAWS = 4 };   //  DRAWS: random numbers, so it takes
                                                                        //  "share"

typedef struct {
    const char *name;
    unsigned may;
    const char *keys [10];      //  those beside "op"; decode checks its own
    int (*parse) (operation_t *self, const entry_t *entry);
    void (*write) (const operation_t *self, entry_text_t *text);
} operation_row_t;

static const operation_row_t s_rows [OPERATION_KINDS] = {
    [OPERATION_DECODE] = { "decode", SHARED, { NULL }, operation_decode_parse, operation_decode_write },
    [OPERATION_VIEWS] = { "views", BOTH, { "count", "stack" }, s_parse_views, s_write_views },
    [OPERATION_RESIZE] = { "resize", BOTH, { "size", "max_size", "interpolation", "pillow13" },
        s_parse_resize, s_write_resize },
    [OPERATION_CENTER_CROP] = { "center_crop", BOTH, { "size" }, s_parse_size, s_write_size },
    [OPERATION_CORNER_CROP] = { "corner_crop", BOTH, { "size", "mirror" }, s_parse_corner_crop,
        s_write_corner_crop },
    [OPERATION_RANDOM_RESIZED_CROP] = { "random_resized_crop", BOTH | DRAWS, { "size", "scale", "ratio",
        "interpolation", "pillow13", "share" }, s_parse_random_resized_crop, s_write_random_resized_crop },
    [OPERATION_RANDOM_CROP] = { "random_crop", BOTH | DRAWS, { "size", "padding", "pad_if_needed", "fill",
        "mask_fill", "mode", "share" }, s_parse_random_crop, s_write_pad },
    [OPERATION_PAD] = { "pad", BOTH, { "padding", "fill", "mask_fill", "mode" }, s_parse_pad, s_write_pad },
    [OPERATION_CUSTOM] = { "custom", SHARED | DRAWS, { "name", "size", "arguments", "identity", "share" },
        s_parse_custom, s_write_custom },
    [OPERATION_FLIP] = { "flip", BOTH | DRAWS, { "p", "share" }, s_parse_chance, s_write_chance },
    [OPERATION_VERTICAL_FLIP] = { "vertical_flip", BOTH | DRAWS, { "p", "share" }, s_parse_chance,
        s_write_chance },
    [OPERATION_COLOR_JITTER] = { "color_jitter", BOTH | DRAWS, { "brightness", "contrast", "saturation",
        "hue", "share" }, s_parse_jitter, s_write_jitter },
    [OPERATION_GRAYSCALE] = { "grayscale", BOTH | DRAWS, { "p", "channels", "share" }, s_parse_grayscale,
        s_write_grayscale },
    [OPERATION_INVERT] = { "invert", BOTH | DRAWS, { "p", "share" }, s_parse_chance, s_write_chance },
    [OPERATION_POSTERIZE] = { "posterize", BOTH | DRAWS, { "bits", "p", "share" }, s_parse_posterize,
        s_write_posterize },
    [OPERATION_SOLARIZE] = { "solarize", BOTH | DRAWS, { "threshold", "p", "share" }, s_parse_factor,
        s_write_factor },
    [OPERATION_AUTOCONTRAST] = { "autocontrast", BOTH | DRAWS, { "p", "share" }, s_parse_chance,
        s_write_chance },
    [OPERATION_EQUALIZE] = { "equalize", BOTH | DRAWS, { "p", "share" }, s_parse_chance, s_write_chance },
    [OPERATION_ADJUST_SHARPNESS] = { "adjust_sharpness", BOTH | DRAWS, { "factor", "p", "share" },
        s_parse_factor, s_write_factor },
    [OPERATION_GAUSSIAN_BLUR] = { "gaussian_blur", BOTH | DRAWS, { "kernel_size", "sigma", "share" },
        s_parse_gaussian_blur, s_write_gaussian_blur },
    [OPERATION_PILLOW_GAUSSIAN_BLUR] = { "pillow_gaussian_blur", BOTH | DRAWS, { "radius", "share" },
        s_parse_pillow_blur, s_write_pillow_blur },
    [OPERATION_RANDOM_ROTATION] = { "random_rotation", BOTH | DRAWS, { "degrees", "interpolation", "expand",
        "center", "fill", "mask_fill", "share" }, s_parse_rotation, s_write_rotation },
    [OPERATION_RANDOM_AFFINE] = { "random_affine", BOTH | DRAWS, { "degrees", "translate", "scale", "shear",
        "interpolation", "fill", "center", "mask_fill", "share" }, s_parse_affine, s_write_affine },
    [OPERATION_RANDOM_PERSPECTIVE] = { "random_perspective", BOTH | DRAWS, { "distortion_scale", "p",
        "interpolation", "fill", "mask_fill", "share" }, s_parse_perspective, s_write_perspective },
    [OPERATION_ELASTIC_TRANSFORM] = { "elastic_transform", BOTH | DRAWS, { "alpha", "sigma", "interpolation",
        "fill", "mask_fill", "share" }, s_parse_elastic, s_write_elastic },
    [OPERATION_RANDOM_APPLY] = { "random_apply", BOTH | DRAWS, { "count", "p", "share" }, s_parse_apply,
        s_write_apply },
    [OPERATION_RANDOM_CHOICE] = { "random_choice", BOTH | DRAWS, { "counts", "p", "share" }, s_parse_choice,
        s_write_choice },
    [OPERATION_RANDOM_ORDER] = { "random_order", BOTH | DRAWS, { "counts", "share" }, s_parse_counts,
        s_write_counts },
    [OPERATION_RAND_AUGMENT] = { "rand_augment", BOTH | DRAWS, { "num_ops", "magnitude", "num_magnitude_bins",
        "interpolation", "fill", "mask_fill", "unit_threshold", "share" }, s_parse_rand_augment,
        s_write_rand_augment },
    [OPERATION_TRIVIAL_AUGMENT_WIDE] = { "trivial_augment_wide", BOTH | DRAWS, { "num_magnitude_bins",
        "interpolation", "fill", "mask_fill", "unit_threshold", "share" }, s_parse_trivial_augment,
        s_write_trivial_augment },
    [OPERATION_AUTO_AUGMENT] = { "auto_augment", BOTH | DRAWS, { "policy", "interpolation", "fill",
        "mask_fill", "unit_threshold", "share" }, s_parse_auto_augment, s_write_auto_augment },
    [OPERATION_AUG_MIX] = { "aug_mix", BOTH | DRAWS, { "severity", "mixture_width", "chain_depth", "alpha",
        "all_ops", "interpolation", "fill", "share" }, s_parse_aug_mix, s_write_aug_mix },
    [OPERATION_NORMALIZE] = { "normalize", PRIVATE, { "mean", "std", "reciprocal" }, s_parse_normalize,
        s_write_normalize },
    [OPERATION_CAST] = { "cast", PRIVATE, { "dtype" }, s_parse_cast, s_write_cast },
    [OPERATION_LAYOUT] = { "layout", PRIVATE, { "layout" }, s_parse_layout, s_write_layout },
    [OPERATION_RANDOM_ERASING] = { "random_erasing", PRIVATE, { "p", "scale", "ratio", "value" },
        s_parse_random_erasing, s_write_random_erasing },
    [OPERATION_EXCERPT] = { "excerpt", SHARED | DRAWS, { "length", "place", "share" }, s_parse_excerpt,
        s_write_excerpt },
};

static const operation_row_t *
s_row (const operation_t *self)
{
    assert ((size_t) self->kind < OPERATION_KINDS);
    return &s_rows [self->kind];
}

static int
s_complain_unknown (const complaint_t *complaint, const char *name)
{
    char quoted [ENTRY_QUOTE_BYTES_MAX], supported [700] = "";
    for (size_t index = 0; index < OPERATION_KINDS; index++)
        entry_append (supported, sizeof supported, s_rows [index].name, "");
    return entry_complain (complaint, "unknown operation \"%s\"; supported: %s",
        entry_printable (name, quoted, sizeof quoted), supported);
}

static int
s_parse_kind (operation_t *self, operation_kind_t kind, const entry_t *entry)
{
    const operation_row_t *row = &s_rows [kind];
    *self = (operation_t) { .kind = kind, .sent = entry->complaint->place, .probability = -1,
        .may_be_shared = (row->may & SHARED) && !(row->may & DRAWS) };
    int rc = kind == OPERATION_DECODE? 0: entry_only (entry, row->keys);
    if (!rc && (row->may & DRAWS))
        rc = entry_flag (entry, "share", &self->may_be_shared);
    return rc? rc: row->parse (self, entry);
}

int
operation_parse (operation_t *self, const json_t *value, const pipeline_source_t *source,
    complaint_t *complaint)
{
    assert (self);
    assert (source);
    assert (complaint);
    if (!json_is_object (value))
        return entry_complain (complaint, "expected an object like {\"op\": \"flip\"} or {\"share\": true}");
    const json_t *op = json_object_get (value, "op");
    if (!op)
        return entry_complain (complaint,
            "\"op\" is missing; expected the operation's name, or {\"share\": true}");
    const char *name = json_string_value (op);
    if (!name)
        return entry_complain (complaint, "\"op\" is not valid; expected the operation's name as a string");
    size_t kind = 0;
    while (kind < OPERATION_KINDS && strcmp (s_rows [kind].name, name))
        kind++;
    if (kind == OPERATION_KINDS)
        return s_complain_unknown (complaint, name);
    complaint->name = s_rows [kind].name;
    const entry_t entry = { value, complaint, source };
    return s_parse_kind (self, (operation_kind_t) kind, &entry);
}

int
operation_parse_default (operation_t *self, const pipeline_source_t *source, const complaint_t *complaint)
{
    assert (self);
    complaint_t whole = *complaint;
    whole.place = ENTRY_NOT_SENT;
    //  Without an object every key is left out.
    const entry_t entry = { NULL, &whole, source };
    return s_parse_kind (self, OPERATION_DECODE, &entry);
}

const char *
operation_name (const operation_t *self)
{
    return s_row (self)->name;
}

int
operation_refuse (const operation_t *self, const complaint_t *complaint, const char *format, ...)
{
    complaint_t own = *complaint;
    own.place = self->sent;
    own.name = operation_name (self);
    va_list arguments;
    va_start (arguments, format);
    entry_vcomplain (&own, format, arguments);
    va_end (arguments);
    return -EINVAL;
}

bool
operation_is_random (const operation_t *self)
{
    const operation_row_t *row = s_row (self);
    switch (self->kind) {
        case OPERATION_COLOR_JITTER:
            return s_jitter_is_random (self);
        case OPERATION_GAUSSIAN_BLUR:
        case OPERATION_PILLOW_GAUSSIAN_BLUR:
            return self->blur.range [0] < self->blur.range [1];
        case OPERATION_RANDOM_ROTATION:
            return self->rotation.degrees [0] < self->rotation.degrees [1];
        case OPERATION_RANDOM_AFFINE:
            return self->affine.degrees [0] < self->affine.degrees [1]
                || self->affine.translate [0] > 0 || self->affine.translate [1] > 0
                || self->affine.scale [0] < self->affine.scale [1]
                || self->affine.shear [0] < self->affine.shear [1]
                || self->affine.shear [2] < self->affine.shear [3];
        case OPERATION_ELASTIC_TRANSFORM:
            return self->elastic.alpha [0] > 0 || self->elastic.alpha [1] > 0;
        case OPERATION_RANDOM_CHOICE:
        case OPERATION_RANDOM_ORDER:
            return s_group_is_random (self);
        case OPERATION_RAND_AUGMENT:
            return self->augment.steps > 0;
        case OPERATION_RANDOM_ERASING:
        case OPERATION_RANDOM_PERSPECTIVE:
            return self->probability > 0;
        case OPERATION_EXCERPT:
            return self->excerpt.random;
        case OPERATION_CUSTOM:
            return self->custom.is->is_random;
        default:
            return self->probability >= 0? self->probability > 0 && self->probability < 1: row->may & DRAWS;
    }
}

bool
operation_may_be_shared (const operation_t *self)
{
    return s_row (self)->may & SHARED;
}

bool
operation_may_be_private (const operation_t *self)
{
    return s_row (self)->may & PRIVATE;
}

bool
operation_is_shareable (const operation_t *self)
{
    return operation_may_be_shared (self) && (self->may_be_shared || !operation_is_random (self));
}

size_t
operation_write (const operation_t *self, const pipeline_source_t *source, char text [ENTRY_TEXT_BYTES_MAX])
{
    const operation_row_t *row = s_row (self);
    entry_text_t writer = { text, 0, source };
    entry_put (&writer, "{\"op\":\"%s\"", row->name);
    row->write (self, &writer);
    entry_put (&writer, "}");
    return writer.length;
}
