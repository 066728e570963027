/*  list_operations -- random operations of pipelines, as text with ' for ", for the lists of the tests of
 *  the stages.
 */
#ifndef LIST_OPERATIONS_H
#define LIST_OPERATIONS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "seed.h"

static inline uint32_t
list_between (uint64_t *random, uint32_t least, uint32_t most)
{
    return least + (uint32_t) test_below (random, most - least + 1);
}

static inline const char *
list_pick (uint64_t *random, const char *one, const char *two, const char *three)
{
    uint64_t which = test_below (random, 3);
    return which == 0? one: which == 1? two: three;
}

static inline const char *
list_filter (uint64_t *random)
{
    return list_pick (random, "nearest", "bilinear", "bicubic");
}

//  Keys that every random operation has.
static inline const char *
list_share (uint64_t *random)
{
    return test_below (random, 2)? "": ",'share':true";
}

static inline void
list_write_padding (uint64_t *random, char *text, size_t bytes)
{
    snprintf (text, bytes, "'padding':[%u,%u,%u,%u],'fill':[%u,%u,%u],'mask_fill':%u,'mode':'%s'",
        list_between (random, 0, 7), list_between (random, 0, 7), list_between (random, 0, 7),
        list_between (random, 0, 7),
        list_between (random, 0, 255), list_between (random, 0, 255), list_between (random, 0, 255),
        list_between (random, 0, 255),
        test_below (random, 2)? "constant": list_pick (random, "edge", "reflect", "symmetric"));
}

static inline void
list_write_crop (uint64_t *random, char *text, size_t bytes)
{
    char padding [200] = "'padding':0";
    bool if_needed = test_below (random, 3) > 0;
    if (!if_needed)
        list_write_padding (random, padding, sizeof padding);
    snprintf (text, bytes, "{'op':'random_crop','size':[%u,%u],%s%s,'mode':'%s'%s}",
        list_between (random, 8, 50), list_between (random, 8, 50), padding,
        if_needed? ",'pad_if_needed':true": "",
        list_pick (random, "constant", "edge", "symmetric"), list_share (random));
    if (!if_needed)
        snprintf (text, bytes, "{'op':'random_crop','size':[%u,%u],%s%s}", list_between (random, 8, 50),
            list_between (random, 8, 50), padding, list_share (random));
}

//  An operation that gives all images one size.
static inline void
list_write_sizing (uint64_t *random, char *text, size_t bytes)
{
    uint32_t height = list_between (random, 8, 50), width = list_between (random, 8, 50);
    switch (test_below (random, 4)) {
    case 0:
        snprintf (text, bytes, "{'op':'resize','size':[%u,%u],'interpolation':'%s'}", height, width,
            list_filter (random));
        return;
    case 1:
        snprintf (text, bytes, "{'op':'center_crop','size':[%u,%u]}", height, width);
        return;
    case 2:
        snprintf (text, bytes,
            "{'op':'random_resized_crop','size':[%u,%u],'scale':[%s,1],'interpolation':'%s'%s}", height,
            width, list_pick (random, "0.1", "0.5", "1"), list_filter (random), list_share (random));
        return;
    default:
        list_write_crop (random, text, bytes);
    }
}

static inline void
list_write_blur (uint64_t *random, char *text, size_t bytes)
{
    if (test_below (random, 2))
        snprintf (text, bytes, "{'op':'pillow_gaussian_blur','radius':%s%s}",
            list_pick (random, "[0,3]", "0.7", "[10,90]"), list_share (random));
    else
        snprintf (text, bytes, "{'op':'gaussian_blur','kernel_size':%s,'sigma':%s%s}",
            list_pick (random, "3", "[1,9]", "[23,5]"), list_pick (random, "1", "[0.1,2]", "[5,50]"),
            list_share (random));
}

//  Operations on colours without a jitter.
static inline void
list_write_point (uint64_t *random, char *text, size_t bytes)
{
    const char *p = list_pick (random, "0.5", "0.8", "1");
    switch (test_below (random, 5)) {
    case 0:
        snprintf (text, bytes, "{'op':'%s','p':%s%s}",
            list_pick (random, "invert", "autocontrast", "equalize"), p, list_share (random));
        return;
    case 1:
        snprintf (text, bytes, "{'op':'posterize','bits':%u,'p':%s%s}", list_between (random, 0, 8), p,
            list_share (random));
        return;
    case 2:
        snprintf (text, bytes, "{'op':'solarize','threshold':%u,'p':%s%s}", list_between (random, 0, 256), p,
            list_share (random));
        return;
    case 3:
        list_write_blur (random, text, bytes);
        return;
    default:
        snprintf (text, bytes, "{'op':'adjust_sharpness','factor':%s,'p':%s%s}",
            list_pick (random, "0", "0.4", "2.5"), p, list_share (random));
    }
}

//  Operations that turn, shear and move.
static inline void
list_write_warp (uint64_t *random, char *text, size_t bytes)
{
    uint32_t fill = list_between (random, 0, 255);
    const char *filter = test_below (random, 2)? "nearest": "bilinear";
    uint64_t which = test_below (random, 6);
    if (which == 5)
        snprintf (text, bytes,
            "{'op':'elastic_transform','alpha':%s,'sigma':%s,'interpolation':'%s','fill':%u,"
            "'mask_fill':%u%s}", list_pick (random, "50", "[0,9]", "300"),
            list_pick (random, "5", "0", "[1,3]"), filter, fill, 255 - fill, list_share (random));
    else
    if (which == 0)
        snprintf (text, bytes,
            "{'op':'random_perspective','distortion_scale':%s,'p':%s,'interpolation':'%s','fill':%u,"
            "'mask_fill':%u%s}", list_pick (random, "0", "0.3", "1"), list_pick (random, "0.5", "0.8", "1"),
            filter, fill, 255 - fill, list_share (random));
    else
    if (which < 3)
        snprintf (text, bytes,
            "{'op':'random_rotation','degrees':%s,'expand':%s,'interpolation':'%s','fill':%u,"
            "'mask_fill':%u%s}",
            list_pick (random, "180", "[90,90]", "[180,180]"), test_below (random, 2)? "true": "false",
            filter,
            fill, 255 - fill, list_share (random));
    else
        snprintf (text, bytes, "{'op':'random_affine','degrees':%s,'translate':[0.3,%s],'scale':[0.5,1.5],"
            "'shear':%s,'interpolation':'%s','fill':[%u,9,8]%s,'mask_fill':3%s}",
            list_pick (random, "0", "30", "[100,200]"), list_pick (random, "0", "1", "0.2"),
            list_pick (random, "10", "[5,6]", "[-1,1,-30,30]"), filter, fill,
            test_below (random, 2)? "": ",'center':[3,-4.5]", list_share (random));
}

static inline void
list_write_policy (uint64_t *random, char *text, size_t bytes)
{
    const char *filter = test_below (random, 2)? "nearest": "bilinear";
    uint32_t fill = list_between (random, 0, 255);
    switch (test_below (random, 4)) {
    case 0:
        snprintf (text, bytes, "{'op':'aug_mix','severity':%u,'mixture_width':%s,'chain_depth':%s,"
            "'interpolation':'%s','fill':%u%s}", list_between (random, 1, 10),
            list_pick (random, "1", "2", "3"), list_pick (random, "-1", "1", "4"), filter, fill,
            list_share (random));
        return;
    case 1:
        snprintf (text, bytes,
            "{'op':'rand_augment','num_ops':%u,'magnitude':%u,'interpolation':'%s','fill':%u%s}",
            list_between (random, 0, 6), list_between (random, 0, 30), filter, fill, list_share (random));
        return;
    case 2:
        snprintf (text, bytes,
            "{'op':'trivial_augment_wide','interpolation':'%s','fill':[%u,1,2],'mask_fill':%u%s}", filter,
            fill, 255 - fill, list_share (random));
        return;
    default:
        snprintf (text, bytes, "{'op':'auto_augment','policy':'%s','interpolation':'%s','mask_fill':%u%s}",
            list_pick (random, "imagenet", "cifar10", "svhn"), filter, fill, list_share (random));
    }
}

//  Two or three operations, of which chance leaves some out or changes the order: several entries in one
//  text.
static inline void
list_write_group (uint64_t *random, char *text, size_t bytes)
{
    char one [160], other [160], third [160];
    list_write_point (random, one, sizeof one);
    list_write_policy (random, other, sizeof other);
    list_write_point (random, third, sizeof third);
    switch (test_below (random, 4)) {
    case 0:
        snprintf (text, bytes, "{'op':'random_apply','count':2,'p':%s%s},%s,%s",
            list_pick (random, "0.5", "0.5", "1"), list_share (random), one, other);
        return;
    case 1:
        snprintf (text, bytes, "{'op':'random_choice','counts':[1,0,2],'p':%s%s},%s,%s,%s",
            list_pick (random, "[1,2,3]", "[0,0,1]", "[0.5,0.1,0.7]"), list_share (random), one, other,
            third);
        return;
    case 2:
        snprintf (text, bytes, "{'op':'random_order','counts':[1,1,1]%s},%s,%s,%s", list_share (random), one,
            other, third);
        return;
    default:
        snprintf (text, bytes, "{'op':'random_order','counts':[3,1]%s},{'op':'random_apply','count':2%s},%s,"
            "%s,%s", list_share (random), list_share (random), one, other, third);
    }
}

static inline void
list_write_other (uint64_t *random, char *text, size_t bytes)
{
    char padding [200], most [20] = "";
    uint32_t size = list_between (random, 8, 60);
    switch (test_below (random, 16)) {
    case 0:
        if (test_below (random, 2))
            snprintf (most, sizeof most, ",'max_size':%u", size + list_between (random, 1, 20));
        snprintf (text, bytes, "{'op':'resize','size':%u%s,'interpolation':'%s'}", size, most,
            list_filter (random));
        return;
    case 1:
        list_write_padding (random, padding, sizeof padding);
        snprintf (text, bytes, "{'op':'pad',%s}", padding);
        return;
    case 2:
    case 3:
        snprintf (text, bytes, "{'op':'%sflip','p':%s%s}", test_below (random, 2)? "": "vertical_",
            list_pick (random, "0.5", "0.5", "1"), list_share (random));
        return;
    case 4:
    case 5:
        snprintf (text, bytes,
            "{'op':'color_jitter','brightness':%s,'contrast':%s,'saturation':%s,'hue':%s%s}",
            list_pick (random, "0", "0.4", "0.8"), list_pick (random, "0", "0.5", "0.9"),
            list_pick (random, "0", "0.5", "0.5"), list_pick (random, "0", "0.1", "0.5"),
            list_share (random));
        return;
    case 6:
        snprintf (text, bytes, "{'op':'grayscale','p':%s,'channels':3%s}", list_pick (random, "0.5", "0.5",
            "1"),
            list_share (random));
        return;
    case 7:
    case 8:
    case 9:
        list_write_warp (random, text, bytes);
        return;
    case 10:
    case 11:
        list_write_policy (random, text, bytes);
        return;
    case 12:
        list_write_group (random, text, bytes);
        return;
    default:
        list_write_point (random, text, bytes);
    }
}

#endif
