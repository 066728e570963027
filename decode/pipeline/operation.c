#include "operation.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "operation_augment.h"
#include "operation_blur.h"
#include "operation_colour.h"
#include "operation_custom.h"
#include "operation_decode.h"
#include "operation_group.h"
#include "operation_keys.h"
#include "operation_text.h"
#include "operation_warp.h"

#define SCALE_EXPECTED "[least, most], two shares of the area with 0 < least <= most <= 1"
#define RATIO_EXPECTED "[least, most], two ratios of width to height with 0.01 <= least <= most <= 100"

enum { QUOTE_BYTES_MAX = 41, LIST_BYTES_MAX = 700 };

//  What an operation may do.
enum { SHARED = 1, PRIVATE = 2, DRAWS = 4 };    //  DRAWS: random numbers, so it takes "share"

typedef struct {
    const char *name;
    operation_kind_t kind;
    unsigned may;
    const char *keys [10];      //  those beside "op"; decode checks its own
    int (*parse) (operation_t *self, const operation_keys_t *keys);
    void (*write) (const operation_t *self, operation_text_t *text);
} operation_row_t;

//  As resize_filter_t, and OPERATION_FILTER_RANDOM.
static const char *const s_filter_words [] = { "nearest", "bilinear", "bicubic", "random" };
static const char *const s_mode_words [] = { "constant", "edge", "reflect", "symmetric" };
static const char *const s_mirror_words [] = { "across", "down" };
static const char *const s_layout_words [] = { "NHWC", "NCHW" };
_Static_assert (RESIZE_NEAREST == 0 && RESIZE_BILINEAR == 1
    && RESIZE_BICUBIC == 2 && OPERATION_FILTER_RANDOM == 3, "s_filter_words is in this order");
_Static_assert (PAD_CONSTANT == 0 && PAD_EDGE == 1 && PAD_REFLECT == 2
    && PAD_SYMMETRIC == 3, "s_mode_words, too");

#define COUNT(words) (sizeof (words) / sizeof *(words))

const char *
operation_printable (const char *text, char *target, size_t target_bytes)
{
    assert (target_bytes > 0);
    size_t length = 0;
    for (; length + 1 < target_bytes && text [length]; length++)
        target [length] = text [length] >= ' ' && text [length] <= '~'? text [length]: '?';
    target [length] = 0;
    return target;
}

static void __attribute__ ((format (printf, 2, 0)))
s_complain (const complaint_t *complaint, const char *format, va_list arguments)
{
    assert (complaint->text_bytes > 0);
    int length = 0;
    if (complaint->place == OPERATION_NOT_SENT)
        complaint->text [0] = 0;
    else
    if (complaint->name)
        length = snprintf (complaint->text, complaint->text_bytes, "operation %zu (%s): ",
            complaint->place + 1, complaint->name);
    else
        length = snprintf (complaint->text, complaint->text_bytes, "operation %zu: ", complaint->place + 1);
    if (length >= 0 && (size_t) length < complaint->text_bytes)
        vsnprintf (complaint->text + length, complaint->text_bytes - (size_t) length, format, arguments);
}

int
operation_complain (const complaint_t *complaint, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    s_complain (complaint, format, arguments);
    va_end (arguments);
    return -EINVAL;
}

int
operation_refuse (const operation_t *self, const complaint_t *complaint, const char *format, ...)
{
    complaint_t own = *complaint;
    own.place = self->sent;
    own.name = operation_name (self);
    va_list arguments;
    va_start (arguments, format);
    s_complain (&own, format, arguments);
    va_end (arguments);
    return -EINVAL;
}

//  ---------------------------------------------------------------------------------------------------------
//  Views and sizes

static int
s_parse_views (operation_t *self, const operation_keys_t *keys)
{
    int rc = operation_keys_whole (keys, "count", OPERATION_KEY_REQUIRED, 2, PIPELINE_VIEWS_MAX,
        &self->views.count);
    return rc? rc: operation_keys_flag (keys, "stack", &self->views.stacks);
}

static void
s_write_views (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"count\":%u", self->views.count);
    operation_text_flag (text, "stack", self->views.stacks);
}

static void
s_put_size (operation_text_t *text, const operation_t *operation)
{
    operation_text_put (text, ",\"size\":[%u,%u]", operation->height, operation->width);
}

//  One of the first `count` words.
static int
s_parse_filter (const operation_keys_t *keys, size_t count, unsigned *filter_p)
{
    *filter_p = RESIZE_BILINEAR;
    return operation_keys_word (keys, "interpolation", OPERATION_KEY_OPTIONAL, s_filter_words, count,
        filter_p);
}

static int
s_parse_resize (operation_t *self, const operation_keys_t *keys)
{
    uint32_t *side_max = &self->resize.side_max;
    int rc = operation_keys_size (keys, &self->height, &self->width, &self->resize.shorter_side);
    rc = rc? rc: operation_keys_whole (keys, "max_size", OPERATION_KEY_OPTIONAL, 1, PIPELINE_SIDE_MAX,
        side_max);
    if (!rc && *side_max && !self->resize.shorter_side)
        return operation_complain (keys->complaint,
            "\"max_size\" with two sides; expected \"size\" to be one number");
    if (!rc && *side_max && *side_max <= self->height)
        return operation_keys_refuse (keys, "max_size", "a whole number above \"size\", up to %d",
            PIPELINE_SIDE_MAX);
    unsigned filter = RESIZE_BILINEAR;
    rc = rc? rc: s_parse_filter (keys, OPERATION_FILTER_RANDOM, &filter);
    self->resize.filter = (resize_filter_t) filter;
    return rc? rc: operation_keys_flag (keys, "pillow13", &self->resize.pillow13);
}

//  A flag that came later than its operation's text: written where it is set.
static void
s_write_set (operation_text_t *text, const char *key, bool flag)
{
    if (flag)
        operation_text_flag (text, key, flag);
}

static void
s_write_resize (const operation_t *self, operation_text_t *text)
{
    if (self->resize.shorter_side)
        operation_text_put (text, ",\"size\":%u", self->height);
    else
        s_put_size (text, self);
    if (self->resize.side_max)
        operation_text_put (text, ",\"max_size\":%u", self->resize.side_max);
    operation_text_put (text, ",\"interpolation\":\"%s\"", s_filter_words [self->resize.filter]);
    s_write_set (text, "pillow13", self->resize.pillow13);
}

static int
s_parse_center_crop (operation_t *self, const operation_keys_t *keys)
{
    return operation_keys_size (keys, &self->height, &self->width, NULL);
}

static void
s_write_center_crop (const operation_t *self, operation_text_t *text)
{
    s_put_size (text, self);
}

static int
s_parse_corner_crop (operation_t *self, const operation_keys_t *keys)
{
    unsigned word = 0;
    int rc = operation_keys_size (keys, &self->height, &self->width, NULL);
    rc = rc? rc: operation_keys_word (keys, "mirror", OPERATION_KEY_OPTIONAL, s_mirror_words,
        COUNT (s_mirror_words), &word);
    self->corner.mirrors_down = word == 1;
    return rc;
}

static void
s_write_corner_crop (const operation_t *self, operation_text_t *text)
{
    s_put_size (text, self);
    operation_text_put (text, ",\"mirror\":\"%s\"", s_mirror_words [self->corner.mirrors_down]);
}

static int
s_parse_random_resized_crop (operation_t *self, const operation_keys_t *keys)
{
    double *scale = self->random_resized_crop.scale, *ratio = self->random_resized_crop.ratio;
    scale [0] = 0.08;
    scale [1] = 1;
    ratio [0] = 3.0 / 4;
    ratio [1] = 4.0 / 3;
    int rc = operation_keys_pair (keys, "scale", 0, 1, SCALE_EXPECTED, scale);
    if (!rc && scale [0] <= 0)
        rc = operation_keys_refuse (keys, "scale", SCALE_EXPECTED);
    rc = rc? rc: operation_keys_pair (keys, "ratio", 0.01, 100, RATIO_EXPECTED, ratio);
    rc = rc? rc: operation_keys_size (keys, &self->height, &self->width, NULL);
    rc = rc? rc: s_parse_filter (keys, COUNT (s_filter_words), &self->random_resized_crop.filter);
    return rc? rc: operation_keys_flag (keys, "pillow13", &self->random_resized_crop.pillow13);
}

static void
s_write_random_resized_crop (const operation_t *self, operation_text_t *text)
{
    s_put_size (text, self);
    operation_text_pair (text, "scale", self->random_resized_crop.scale);
    operation_text_pair (text, "ratio", self->random_resized_crop.ratio);
    operation_text_put (text, ",\"interpolation\":\"%s\"", s_filter_words [self->random_resized_crop.filter]);
    s_write_set (text, "pillow13", self->random_resized_crop.pillow13);
}

//  What pad and random_crop have in common.
static int
s_parse_border (operation_t *self, const operation_keys_t *keys, operation_key_need_t need)
{
    unsigned mode = PAD_CONSTANT;
    uint32_t mask_fill = 0;
    int rc = operation_keys_padding (keys, "padding", need, self->pad.border);
    rc = rc? rc: operation_keys_fill (keys, "fill", self->pad.fill);
    rc = rc? rc: operation_keys_whole (keys, "mask_fill", OPERATION_KEY_OPTIONAL, 0, UINT8_MAX, &mask_fill);
    rc = rc? rc: operation_keys_word (keys, "mode", OPERATION_KEY_OPTIONAL, s_mode_words,
        COUNT (s_mode_words), &mode);
    self->pad.mask_fill = (uint8_t) mask_fill;
    self->pad.mode = (pad_mode_t) mode;
    return rc;
}

static int
s_parse_pad (operation_t *self, const operation_keys_t *keys)
{
    return s_parse_border (self, keys, OPERATION_KEY_REQUIRED);
}

static bool
s_has_border (const operation_t *self)
{
    const uint32_t *border = self->pad.border;
    return border [0] || border [1] || border [2] || border [3];
}

static int
s_parse_random_crop (operation_t *self, const operation_keys_t *keys)
{
    int rc = operation_keys_size (keys, &self->height, &self->width, NULL);
    rc = rc? rc: operation_keys_flag (keys, "pad_if_needed", &self->pad.if_needed);
    rc = rc? rc: s_parse_border (self, keys, OPERATION_KEY_OPTIONAL);
    //  torchvision would mirror the border that it has just mirrored: that is a pad and a crop.
    bool mirrors = self->pad.mode == PAD_REFLECT || self->pad.mode == PAD_SYMMETRIC;
    if (!rc && self->pad.if_needed && mirrors && s_has_border (self))
        return operation_complain (keys->complaint,
            "\"padding\" and \"pad_if_needed\" both mirror the image; "
            "expected the padding as a pad before this operation");
    return rc;
}

static void
s_write_border (const operation_t *self, operation_text_t *text)
{
    const uint32_t *border = self->pad.border;
    const uint8_t *fill = self->pad.fill;
    operation_text_put (text, ",\"padding\":[%u,%u,%u,%u]", border [0], border [1], border [2], border [3]);
    if (self->kind == OPERATION_RANDOM_CROP)
        operation_text_flag (text, "pad_if_needed", self->pad.if_needed);
    operation_text_put (text, ",\"fill\":[%u,%u,%u],\"mask_fill\":%u", fill [0], fill [1], fill [2],
        self->pad.mask_fill);
    operation_text_put (text, ",\"mode\":\"%s\"", s_mode_words [self->pad.mode]);
}

static void
s_write_pad (const operation_t *self, operation_text_t *text)
{
    if (self->kind == OPERATION_RANDOM_CROP)
        s_put_size (text, self);
    s_write_border (self, text);
}

//  ---------------------------------------------------------------------------------------------------------
//  Flips and colours

static int
s_parse_flip (operation_t *self, const operation_keys_t *keys)
{
    self->chance.probability = 0.5;
    return operation_keys_number (keys, "p", 0, 1, &self->chance.probability);
}

static void
s_write_flip (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"p\":");
    operation_text_number (text, self->chance.probability, false);
}

//  ---------------------------------------------------------------------------------------------------------
//  The end of the private stage

static int
s_parse_normalize (operation_t *self, const operation_keys_t *keys)
{
    uint32_t mean_count = 1, std_count = 1;
    for (size_t channel = 0; channel < IMAGE_COLOURS; channel++)
        self->normalize.std [channel] = 1;
    int rc = operation_keys_channels (keys, "mean", -1e6, 1e6, self->normalize.mean, &mean_count);
    rc = rc? rc: operation_keys_channels (keys, "std", 1e-6, 1e6, self->normalize.std, &std_count);
    self->normalize.count = mean_count > std_count? mean_count: std_count;
    return rc? rc: operation_keys_flag (keys, "reciprocal", &self->normalize.reciprocal);
}

static void
s_write_channels (operation_text_t *text, const char *key, const float *values, uint32_t count)
{
    for (uint32_t channel = 0; channel < count; channel++) {
        if (channel)
            operation_text_put (text, ",");
        else
            operation_text_put (text, ",\"%s\":[", key);
        operation_text_number (text, values [channel], true);
    }
    operation_text_put (text, "]");
}

static void
s_write_normalize (const operation_t *self, operation_text_t *text)
{
    s_write_channels (text, "mean", self->normalize.mean, self->normalize.count);
    s_write_channels (text, "std", self->normalize.std, self->normalize.count);
    s_write_set (text, "reciprocal", self->normalize.reciprocal);
}

static const dtype_t s_cast_dtypes [] = { DTYPE_UINT8, DTYPE_FLOAT16, DTYPE_BFLOAT16,
    DTYPE_FLOAT32 };

static int
s_parse_cast (operation_t *self, const operation_keys_t *keys)
{
    const char *words [COUNT (s_cast_dtypes)];
    unsigned word = 0;
    for (size_t index = 0; index < COUNT (words); index++)
        words [index] = dtype_name (s_cast_dtypes [index]);
    int rc = operation_keys_word (keys, "dtype", OPERATION_KEY_REQUIRED, words, COUNT (words), &word);
    self->cast.dtype = s_cast_dtypes [word];
    return rc;
}

static void
s_write_cast (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"dtype\":\"%s\"", dtype_name (self->cast.dtype));
}

static int
s_parse_layout (operation_t *self, const operation_keys_t *keys)
{
    unsigned word = 0;
    int rc = operation_keys_word (keys, "layout", OPERATION_KEY_REQUIRED, s_layout_words,
        COUNT (s_layout_words), &word);
    self->layout.planar = word == 1;
    return rc;
}

static void
s_write_layout (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"layout\":\"%s\"", s_layout_words [self->layout.planar]);
}

#define ERASED_EXPECTED "[least, most], two shares of the area with 0 <= least <= most <= 1"

static int
s_parse_random_erasing (operation_t *self, const operation_keys_t *keys)
{
    double *scale = self->erase.scale, *ratio = self->erase.ratio;
    scale [0] = 0.02;
    scale [1] = 0.33;
    ratio [0] = 0.3;
    ratio [1] = 3.3;
    self->erase.probability = 0.5;
    int rc = operation_keys_number (keys, "p", 0, 1, &self->erase.probability);
    rc = rc? rc: operation_keys_pair (keys, "scale", 0, 1, ERASED_EXPECTED, scale);
    rc = rc? rc: operation_keys_pair (keys, "ratio", 0.01, 100, RATIO_EXPECTED, ratio);
    return rc? rc: operation_keys_channels (keys, "value", -1e6, 1e6, self->erase.value, &self->erase.count);
}

static void
s_write_random_erasing (const operation_t *self, operation_text_t *text)
{
    operation_text_put (text, ",\"p\":");
    operation_text_number (text, self->erase.probability, false);
    operation_text_pair (text, "scale", self->erase.scale);
    operation_text_pair (text, "ratio", self->erase.ratio);
    s_write_channels (text, "value", self->erase.value, self->erase.count);
}

//  ---------------------------------------------------------------------------------------------------------
//  The library

//  In the order of operation_kind_t.
static const operation_row_t s_rows [OPERATION_KINDS] = {
    { "decode", OPERATION_DECODE, SHARED, { NULL }, operation_decode_parse, operation_decode_write },
    { "views", OPERATION_VIEWS, SHARED | PRIVATE, { "count", "stack" }, s_parse_views, s_write_views },
    { "resize", OPERATION_RESIZE, SHARED | PRIVATE, { "size", "max_size", "interpolation", "pillow13" },
        s_parse_resize, s_write_resize },
    { "center_crop", OPERATION_CENTER_CROP, SHARED | PRIVATE, { "size" }, s_parse_center_crop,
        s_write_center_crop },
    { "corner_crop", OPERATION_CORNER_CROP, SHARED | PRIVATE, { "size", "mirror" }, s_parse_corner_crop,
        s_write_corner_crop },
    { "random_resized_crop", OPERATION_RANDOM_RESIZED_CROP, SHARED | PRIVATE | DRAWS,
        { "size", "scale", "ratio", "interpolation", "pillow13", "share" }, s_parse_random_resized_crop,
        s_write_random_resized_crop },
    { "random_crop", OPERATION_RANDOM_CROP, SHARED | PRIVATE | DRAWS,
        { "size", "padding", "pad_if_needed", "fill", "mask_fill", "mode", "share" }, s_parse_random_crop,
        s_write_pad },
    { "pad", OPERATION_PAD, SHARED | PRIVATE, { "padding", "fill", "mask_fill", "mode" }, s_parse_pad,
        s_write_pad },
    { "custom", OPERATION_CUSTOM, SHARED | DRAWS, { "name", "size", "arguments", "identity", "share" },
        operation_custom_parse, operation_custom_write },
    { "flip", OPERATION_FLIP, SHARED | PRIVATE | DRAWS, { "p", "share" }, s_parse_flip, s_write_flip },
    { "vertical_flip", OPERATION_VERTICAL_FLIP, SHARED | PRIVATE | DRAWS, { "p", "share" }, s_parse_flip,
        s_write_flip },
    { "color_jitter", OPERATION_COLOR_JITTER, SHARED | PRIVATE | DRAWS,
        { "brightness", "contrast", "saturation", "hue", "share" }, operation_colour_parse_jitter,
        operation_colour_write_jitter },
    { "grayscale", OPERATION_GRAYSCALE, SHARED | PRIVATE | DRAWS, { "p", "channels", "share" },
        operation_colour_parse_grayscale, operation_colour_write_grayscale },
    { "invert", OPERATION_INVERT, SHARED | PRIVATE | DRAWS, { "p", "share" }, operation_colour_parse_point,
        operation_colour_write_point },
    { "posterize", OPERATION_POSTERIZE, SHARED | PRIVATE | DRAWS, { "bits", "p", "share" },
        operation_colour_parse_posterize, operation_colour_write_posterize },
    { "solarize", OPERATION_SOLARIZE, SHARED | PRIVATE | DRAWS, { "threshold", "p", "share" },
        operation_colour_parse_solarize, operation_colour_write_solarize },
    { "autocontrast", OPERATION_AUTOCONTRAST, SHARED | PRIVATE | DRAWS, { "p", "share" },
        operation_colour_parse_point, operation_colour_write_point },
    { "equalize", OPERATION_EQUALIZE, SHARED | PRIVATE | DRAWS, { "p", "share" },
        operation_colour_parse_point, operation_colour_write_point },
    { "adjust_sharpness", OPERATION_ADJUST_SHARPNESS, SHARED | PRIVATE | DRAWS, { "factor", "p", "share" },
        operation_colour_parse_sharpness, operation_colour_write_sharpness },
    { "gaussian_blur", OPERATION_GAUSSIAN_BLUR, SHARED | PRIVATE | DRAWS, { "kernel_size", "sigma", "share" },
        operation_blur_parse, operation_blur_write },
    { "pillow_gaussian_blur", OPERATION_PILLOW_GAUSSIAN_BLUR, SHARED | PRIVATE | DRAWS,
        { "radius", "share" }, operation_blur_parse_pillow, operation_blur_write_pillow },
    { "random_rotation", OPERATION_RANDOM_ROTATION, SHARED | PRIVATE | DRAWS,
        { "degrees", "interpolation", "expand", "center", "fill", "mask_fill", "share" },
        operation_warp_parse_rotation, operation_warp_write_rotation },
    { "random_affine", OPERATION_RANDOM_AFFINE, SHARED | PRIVATE | DRAWS,
        { "degrees", "translate", "scale", "shear", "interpolation", "fill", "center", "mask_fill", "share" },
        operation_warp_parse_affine, operation_warp_write_affine },
    { "random_perspective", OPERATION_RANDOM_PERSPECTIVE, SHARED | PRIVATE | DRAWS,
        { "distortion_scale", "p", "interpolation", "fill", "mask_fill", "share" },
        operation_warp_parse_perspective, operation_warp_write_perspective },
    { "elastic_transform", OPERATION_ELASTIC_TRANSFORM, SHARED | PRIVATE | DRAWS,
        { "alpha", "sigma", "interpolation", "fill", "mask_fill", "share" },
        operation_warp_parse_elastic, operation_warp_write_elastic },
    { "random_apply", OPERATION_RANDOM_APPLY, SHARED | PRIVATE | DRAWS, { "count", "p", "share" },
        operation_group_parse_apply, operation_group_write_apply },
    { "random_choice", OPERATION_RANDOM_CHOICE, SHARED | PRIVATE | DRAWS, { "counts", "p", "share" },
        operation_group_parse_choice, operation_group_write_choice },
    { "random_order", OPERATION_RANDOM_ORDER, SHARED | PRIVATE | DRAWS, { "counts", "share" },
        operation_group_parse_order, operation_group_write_order },
    { "rand_augment", OPERATION_RAND_AUGMENT, SHARED | PRIVATE | DRAWS,
        { "num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill", "mask_fill",
            "unit_threshold", "share" },
        operation_augment_parse_random, operation_augment_write_random },
    { "trivial_augment_wide", OPERATION_TRIVIAL_AUGMENT_WIDE, SHARED | PRIVATE | DRAWS,
        { "num_magnitude_bins", "interpolation", "fill", "mask_fill", "unit_threshold", "share" },
        operation_augment_parse_trivial, operation_augment_write_trivial },
    { "auto_augment", OPERATION_AUTO_AUGMENT, SHARED | PRIVATE | DRAWS,
        { "policy", "interpolation", "fill", "mask_fill", "unit_threshold", "share" },
        operation_augment_parse_auto, operation_augment_write_auto },
    { "aug_mix", OPERATION_AUG_MIX, SHARED | PRIVATE | DRAWS,
        { "severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill", "share" },
        operation_augment_parse_mix, operation_augment_write_mix },
    { "normalize", OPERATION_NORMALIZE, PRIVATE, { "mean", "std", "reciprocal" }, s_parse_normalize,
        s_write_normalize },
    { "cast", OPERATION_CAST, PRIVATE, { "dtype" }, s_parse_cast, s_write_cast },
    { "layout", OPERATION_LAYOUT, PRIVATE, { "layout" }, s_parse_layout, s_write_layout },
    { "random_erasing", OPERATION_RANDOM_ERASING, PRIVATE, { "p", "scale", "ratio", "value" },
        s_parse_random_erasing, s_write_random_erasing },
    { "excerpt", OPERATION_EXCERPT, SHARED | DRAWS, { "length", "place", "share" },
        operation_excerpt_parse, operation_excerpt_write },
};

static const operation_row_t *
s_row (const operation_t *self)
{
    assert (self);
    assert ((size_t) self->kind < OPERATION_KINDS);
    assert (s_rows [self->kind].kind == self->kind);
    return &s_rows [self->kind];
}

static const operation_row_t *
s_find (const char *name)
{
    for (size_t index = 0; index < OPERATION_KINDS; index++)
        if (strcmp (s_rows [index].name, name) == 0)
            return &s_rows [index];
    return NULL;
}

static int
s_complain_unknown (const complaint_t *complaint, const char *name)
{
    char quoted [QUOTE_BYTES_MAX], supported [LIST_BYTES_MAX] = "";
    for (size_t index = 0; index < OPERATION_KINDS; index++)
        operation_keys_append (supported, sizeof supported, s_rows [index].name, "");
    return operation_complain (complaint, "unknown operation \"%s\"; supported: %s",
        operation_printable (name, quoted, sizeof quoted), supported);
}

static int
s_parse_row (operation_t *self, const operation_row_t *row, const operation_keys_t *keys)
{
    self->kind = row->kind;
    self->sent = keys->complaint->place;
    self->may_be_shared = (row->may & SHARED) && !(row->may & DRAWS);
    int rc = row->kind == OPERATION_DECODE? 0: operation_keys_only (keys, row->keys);
    if (!rc && (row->may & DRAWS))
        rc = operation_keys_flag (keys, "share", &self->may_be_shared);
    return rc? rc: row->parse (self, keys);
}

int
operation_parse (operation_t *self, const json_t *value, const pipeline_source_t *source,
    complaint_t *complaint)
{
    assert (self);
    assert (source);
    assert (complaint);
    *self = (operation_t) { 0 };
    if (!json_is_object (value))
        return operation_complain (complaint,
            "expected an object like {\"op\": \"flip\"} or {\"share\": true}");
    const json_t *name = json_object_get (value, "op");
    if (!name)
        return operation_complain (complaint,
            "\"op\" is missing; expected the operation's name, or {\"share\": true}");
    if (!json_is_string (name))
        return operation_complain (complaint,
            "\"op\" is not valid; expected the operation's name as a string");
    const operation_row_t *row = s_find (json_string_value (name));
    if (!row)
        return s_complain_unknown (complaint, json_string_value (name));
    complaint->name = row->name;
    const operation_keys_t keys = { value, complaint, source };
    return s_parse_row (self, row, &keys);
}

int
operation_parse_default (operation_t *self, const pipeline_source_t *source, const complaint_t *complaint)
{
    assert (self);
    *self = (operation_t) { .kind = OPERATION_DECODE };
    complaint_t whole = *complaint;
    whole.place = OPERATION_NOT_SENT;
    //  Without an object every key is left out.
    const operation_keys_t keys = { NULL, &whole, source };
    return s_parse_row (self, &s_rows [OPERATION_DECODE], &keys);
}

const char *
operation_name (const operation_t *self)
{
    return s_row (self)->name;
}

double
operation_probability (const operation_t *self)
{
    switch (s_row (self)->kind) {
        case OPERATION_FLIP:
        case OPERATION_VERTICAL_FLIP:
            return self->chance.probability;
        case OPERATION_GRAYSCALE:
            return self->grayscale.probability;
        case OPERATION_INVERT:
        case OPERATION_POSTERIZE:
        case OPERATION_SOLARIZE:
        case OPERATION_AUTOCONTRAST:
        case OPERATION_EQUALIZE:
        case OPERATION_ADJUST_SHARPNESS:
            return self->point.probability;
        case OPERATION_RANDOM_APPLY:
            return self->group.probability;
        case OPERATION_RANDOM_PERSPECTIVE:
            return self->perspective.probability;
        case OPERATION_RANDOM_ERASING:
            return self->erase.probability;
        default:
            return -1;
    }
}

bool
operation_is_random (const operation_t *self)
{
    double probability = operation_probability (self);
    bool draws_more = self->kind == OPERATION_RANDOM_ERASING || self->kind == OPERATION_RANDOM_PERSPECTIVE;
    if (probability >= 0 && !draws_more)
        return probability > 0 && probability < 1;
    switch (self->kind) {
        case OPERATION_COLOR_JITTER:
            return operation_colour_jitter_is_random (self);
        case OPERATION_GAUSSIAN_BLUR:
        case OPERATION_PILLOW_GAUSSIAN_BLUR:
            return self->blur.range [0] < self->blur.range [1];
        case OPERATION_RANDOM_ROTATION:
        case OPERATION_RANDOM_AFFINE:
        case OPERATION_ELASTIC_TRANSFORM:
            return operation_warp_is_random (self);
        case OPERATION_RANDOM_CHOICE:
        case OPERATION_RANDOM_ORDER:
            return operation_group_is_random (self);
        case OPERATION_RAND_AUGMENT:
            return self->augment.steps > 0;
        case OPERATION_RANDOM_ERASING:
        case OPERATION_RANDOM_PERSPECTIVE:
            return probability > 0;
        case OPERATION_EXCERPT:
            return self->excerpt.random;
        case OPERATION_CUSTOM:
            return self->custom.is->is_random;
        default:
            return s_row (self)->may & DRAWS;
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
operation_write (const operation_t *self, const pipeline_source_t *source,
    char text [OPERATION_TEXT_BYTES_MAX])
{
    const operation_row_t *row = s_row (self);
    operation_text_t writer = { text, 0, source };
    operation_text_put (&writer, "{\"op\":\"%s\"", row->name);
    row->write (self, &writer);
    operation_text_put (&writer, "}");
    return writer.length;
}
