/*  test_pipeline_refused -- what the refusals of lists say: every one names the operation, its place and what
 *  was expected.  */
#include <errno.h>
#include <string.h>
#include "pipelines.h"

#define SHARE "{'share':true}"
#define CROP "{'op':'center_crop','size':[8,8]}"
#define NORMALIZE "{'op':'normalize','mean':[0.485,0.456,0.406],'std':[0.229,0.224,0.225]}"

//  An image, two masks, a second image and another file: what the tests of fields are about.
static const pipeline_source_t s_fields = {
    .fields = { { "image", false }, { "mask", true }, { "depth", false }, { "edges_2", true },
        { "tokens", false } }, .count = 5
};
static const pipeline_source_t s_hostile_names = {
    .fields = { { "image", false }, { "image_2", true } }, .count = 2
};

static const struct { const char *text; const char *fragments [3]; } s_refused [] = {
    { "7", { "expected a list", "'train'" } },
    { "null", { "expected a list" } },
    { "{'op':'flip'}", { "expected a list" } },
    { "'Train'", { "unknown recipe 'Train'", "'eval'" } },
    { "'\\u00e9\\n'", { "unknown recipe '??" } },
    //  Objects
    { "['flip']", { "operation 1: expected an object" } },
    { "[" CROP ",null]", { "operation 2: expected an object" } },
    { "[{}]", { "operation 1: 'op' is missing" } },
    { "[{'op':1}]", { "operation 1: 'op' is not valid", "string" } },
    { "[" CROP ",{'op':'blur'}]",
        { "operation 2: unknown operation 'blur'", "supported: decode, views, resize, center_crop,"
      " corner_crop, random_resized_crop, random_crop, pad, custom, flip, vertical_flip, color_jitter, "
          "grayscale, invert, posterize, solarize, autocontrast, equalize, adjust_sharpness, gaussian_blur, "
          "pillow_gaussian_blur, random_rotation, random_affine, random_perspective, "
          "elastic_transform, random_apply, random_choice, random_order, rand_augment, trivial_augment_wide, "
          "auto_augment, aug_mix, normalize, cast, layout, random_erasing, excerpt" } },
    { "[{'op':'gaussian_blur'}]",
        { "'kernel_size' is missing; expected an odd whole number or [across, down]",
            "each from 1 to 255" } },
    { "[{'op':'gaussian_blur','kernel_size':4}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':257}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':3.5}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':1e300}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':-1}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':[3,3,3]}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':[3]}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':[3,2]}]", { "'kernel_size' is not valid" } },
    { "[{'op':'gaussian_blur','kernel_size':3,'sigma':0}]",
        { "'sigma' is not valid; expected a number from 0.001 to 1000" } },
    { "[{'op':'gaussian_blur','kernel_size':3,'sigma':[2,1]}]",
        { "'sigma' is not valid; expected a number, or [least, most], from 0.001 to 1000" } },
    { "[{'op':'gaussian_blur','kernel_size':3,'radius':2}]", { "unknown key 'radius'" } },
    { "[{'op':'pillow_gaussian_blur','radius':201}]",
        { "'radius' is not valid; expected a number from 0 to 200" } },
    { "[{'op':'pillow_gaussian_blur','radius':[0,1e9]}]",
        { "'radius' is not valid; expected a number, or [least, most], from 0 to 200" } },
    { "[{'op':'pillow_gaussian_blur','p':1}]", { "unknown key 'p'" } },
    { "[{'op':'random_perspective','distortion_scale':1.1}]",
        { "'distortion_scale' is not valid; expected a number from 0 to 1" } },
    { "[{'op':'aug_mix','severity':11}]",
        { "'severity' is not valid; expected a whole number from 1 to 10" } },
    { "[{'op':'aug_mix','mixture_width':9}]",
        { "'mixture_width' is not valid; expected a whole number from 1 to 8" } },
    { "[{'op':'aug_mix','chain_depth':9}]",
        { "'chain_depth' is not valid; expected -1 or a whole number from 1 to 8" } },
    { "[{'op':'aug_mix','chain_depth':0}]", { "'chain_depth' is not valid" } },
    { "[{'op':'aug_mix','chain_depth':1.5}]", { "'chain_depth' is not valid" } },
    { "[{'op':'aug_mix','chain_depth':true}]", { "'chain_depth' is not valid" } },
    { "[{'op':'aug_mix','alpha':0}]", { "'alpha' is not valid; expected a number from 0.1 to 100" } },
    { "[{'op':'aug_mix','mask_fill':0}]", { "unknown key 'mask_fill'" } },
    { "[{'op':'random_perspective','p':-1}]", { "'p' is not valid" } },
    { "[{'op':'random_perspective','interpolation':'bicubic'}]", { "'interpolation' is not valid" } },
    { "[{'op':'elastic_transform','alpha':-1}]",
        { "'alpha' is not valid; expected a number from 0 to 10000" } },
    { "[{'op':'elastic_transform','alpha':[1,2,3]}]",
        { "'alpha' is not valid; expected a number, or [across, down], from 0 to 10000" } },
    { "[{'op':'elastic_transform','sigma':32}]",
        { "'sigma' is not valid; expected a number from 0 to 31" } },
    { "[{'op':'elastic_transform','sigma':[0,3]}]",
        { "'sigma' is not valid; expected both to be 0, or both from 0.001 to 31" } },
    { "[{'op':'elastic_transform','sigma':1e-9}]", { "'sigma' is not valid; expected both" } },
    { "[{'op':'elastic_transform','interpolation':'bicubic'}]", { "'interpolation' is not valid" } },
    { "[{'op':'random_apply'}]", { "'count' is missing; expected a whole number from 1 to 30" } },
    { "[" CROP ",{'op':'random_apply','count':2},{'op':'invert'}]",
        { "operation 2 (random_apply): it is about 2 operations, and 1 are behind it" } },
    { "[{'op':'random_apply','count':1}," CROP "]", { "(center_crop): not supported in a random_apply" } },
    { "[" CROP ",{'op':'random_apply','count':1},{'op':'grayscale'}]",
        { "(grayscale): not supported in a random_apply" } },
    { "[" CROP ",{'op':'random_apply','count':1},{'op':'random_apply','count':1},{'op':'invert'}]",
        { "operation 3 (random_apply): is about more operations than the part of the random_apply" } },
    { "[" CROP ",{'op':'random_order','counts':[2,1]},{'op':'invert'},{'op':'random_choice','counts':[1]},"
        "{'op':'invert'}]",
        { "operation 4 (random_choice): is about more operations than the part of the random_order" } },
    { "[" CROP ",{'op':'random_order'}]",
        { "'counts' is missing; expected a list of 1 to 16 whole numbers, 1 to 30 operations together" } },
    { "[" CROP ",{'op':'random_order','counts':[]}]", { "'counts' is not valid" } },
    { "[" CROP ",{'op':'random_order','counts':[0,0]}]", { "'counts' is not valid" } },
    { "[" CROP ",{'op':'random_order','counts':[16,15]}]", { "'counts' is not valid" } },
    { "[" CROP ",{'op':'random_order','counts':[1.5]},{'op':'invert'}]", { "'counts' is not valid" } },
    { "[" CROP ",{'op':'random_order','counts':[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]",
        { "'counts' is not valid" } },
    { "[" CROP ",{'op':'random_order','counts':[1],'p':[1]},{'op':'invert'}]", { "unknown key 'p'" } },
    { "[" CROP ",{'op':'random_order','counts':[1,1]},{'op':'invert'}]",
        { "(random_order): it is about 2 operations, and 1 are behind it" } },
    { "[" CROP ",{'op':'random_choice','counts':[1],'p':[1,1]},{'op':'invert'}]",
        { "'p' is not valid; expected as many numbers as 'counts' has, each from 0 to 1000000",
            "and not all 0" } },
    { "[" CROP ",{'op':'random_choice','counts':[1,0],'p':[0,0]},{'op':'invert'}]", { "'p' is not valid" } },
    { "[" CROP ",{'op':'random_choice','counts':[1],'p':0.5},{'op':'invert'}]", { "'p' is not valid" } },
    { "[" CROP ",{'op':'random_choice','counts':[0,1]}," CROP "]",
        { "(center_crop): not supported in a random_choice; expected operations that keep the size" } },
    { "[" CROP ",{'op':'random_choice','counts':[1,1]},{'op':'invert'}," SHARE ",{'op':'flip'}]",
        { "(random_choice): {'share': true} among its operations" } },
    { "[" CROP ",{'op':'random_apply','count':1},{'op':'random_rotation','degrees':9,'expand':true},"
        CROP "]",
        { "(random_rotation): not supported in a random_apply" } },
    { "[" CROP ",{'op':'random_apply','count':1},{'op':'normalize'}]", { "(normalize): not supported in" } },
    { "[" CROP ",{'op':'random_apply','count':2},{'op':'invert'}," SHARE ",{'op':'flip'}]",
        { "(random_apply): {'share': true} among its operations" } },
    { "[" CROP ",{'op':'random_erasing','value':[1,2]}]", { "(random_erasing): 'value' is not valid" } },
    { "[" CROP ",{'op':'random_erasing','value':0.5}]",
        { "'value' is no 'uint8'; expected whole numbers from 0 to 255" } },
    { "[" CROP ",{'op':'random_erasing','value':[0,0,256]},{'op':'cast','dtype':'uint8'}]",
        { "'value' is no 'uint8'" } },
    { "[" CROP ",{'op':'grayscale'},{'op':'random_erasing','value':[1,2,3]}]",
        { "three values for the one channel" } },
    { "[" CROP ",{'op':'random_erasing','scale':[0.5,1.5]}]", { "'scale' is not valid" } },
    { "[" CROP ",{'op':'random_erasing','ratio':[0,1]}]", { "'ratio' is not valid" } },
    { "[" CROP ",{'op':'random_erasing','share':true}]", { "unknown key 'share'" } },
    { "[" CROP ",{'op':'random_erasing'},{'op':'flip'}]", { "(flip): not supported behind random_erasing" } },
    { "[" CROP ",{'op':'random_erasing'},{'op':'random_erasing'}]",
        { "a second one; expected one at most" } },
    { "[" CROP ",{'op':'random_erasing'}," SHARE "]",
        { "(random_erasing): not supported before {'share': true}" } },
    { "[{'op':'rand_augment','num_ops':17}]",
        { "(rand_augment): 'num_ops' is not valid; expected a whole number from 0 to 16" } },
    { "[{'op':'rand_augment','magnitude':31}]",
        { "'magnitude' 31 of 31; expected a whole number below 'num_magnitude_bins'" } },
    { "[{'op':'rand_augment','magnitude':-1}]", { "'magnitude' is not valid" } },
    { "[{'op':'rand_augment','magnitude':9.5}]", { "'magnitude' is not valid" } },
    { "[{'op':'rand_augment','num_magnitude_bins':1}]",
        { "'num_magnitude_bins' is not valid; expected a whole number from 2 to 1000" } },
    { "[{'op':'rand_augment','unit_threshold':1}]", { "'unit_threshold' is not valid" } },
    { "[{'op':'trivial_augment_wide','num_ops':1}]", { "unknown key 'num_ops'" } },
    { "[{'op':'trivial_augment_wide','num_magnitude_bins':1e300}]",
        { "'num_magnitude_bins' is not valid" } },
    { "[{'op':'auto_augment','policy':'mnist'}]",
        { "'policy' is not valid; expected one of 'imagenet', 'cifar10', 'svhn'" } },
    { "[{'op':'auto_augment','interpolation':'bicubic'}]", { "'interpolation' is not valid" } },
    { "[{'op':'random_rotation'}]", { "'degrees' is missing; expected a number, or [least, most]" } },
    { "[{'op':'random_rotation','degrees':-1}]",
        { "'degrees' is not valid; expected a number from 0 to 3600" } },
    { "[{'op':'random_rotation','degrees':[2,1]}]", { "'degrees' is not valid" } },
    { "[{'op':'random_rotation','degrees':1e300}]", { "'degrees' is not valid" } },
    { "[{'op':'random_rotation','degrees':'nan'}]", { "'degrees' is not valid" } },
    { "[{'op':'random_rotation','degrees':9,'expand':1}]",
        { "'expand' is not valid; expected true or false" } },
    { "[{'op':'random_rotation','degrees':9,'center':[1]}]", { "'center' is not valid; expected [x, y]" } },
    { "[{'op':'random_rotation','degrees':9,'center':[1,2,3]}]", { "'center' is not valid" } },
    { "[{'op':'random_rotation','degrees':9,'center':[1,1e9]}]", { "'center' is not valid" } },
    { "[{'op':'random_rotation','degrees':9,'interpolation':'bicubic'}]",
        { "'interpolation' is not valid; expected one of 'nearest', 'bilinear'" } },
    { "[{'op':'random_rotation','degrees':9,'mask_fill':256}]", { "'mask_fill' is not valid" } },
    { "[{'op':'random_affine'}]", { "'degrees' is missing" } },
    { "[{'op':'random_affine','degrees':0,'translate':[0.1,1.1]}]",
        { "'translate' is not valid; expected [across, down]" } },
    { "[{'op':'random_affine','degrees':0,'translate':0.1}]", { "'translate' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'translate':[0.1]}]", { "'translate' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'scale':[0,1]}]",
        { "'scale' is not valid; expected [least, most], two numbers from 0.001 to 1000" } },
    { "[{'op':'random_affine','degrees':0,'scale':[2,1]}]", { "'scale' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'shear':[1,2,3]}]", { "'shear' is not valid; expected a number" } },
    { "[{'op':'random_affine','degrees':0,'shear':[1,2,4,3]}]", { "'shear' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'shear':[1,2,3,4,5]}]", { "'shear' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'shear':-1}]", { "'shear' is not valid" } },
    { "[{'op':'random_affine','degrees':0,'shear':1e300}]", { "'shear' is not valid" } },
    { "[" CROP ",{'op':'random_rotation','degrees':9,'expand':true}]",
        { "images come out in different sizes" } },
    { "[{'op':'decode','max_pixels':1e6}," SHARE ",{'op':'random_rotation','degrees':9,'expand':true},"
        CROP "]",
        { "(random_rotation): private, and makes images of up to" } },
    { "[" CROP "," SHARE ",{'op':'random_rotation','degrees':9,'expand':true},{'op':'random_crop','size':4}]",
        { "(random_crop): private, behind images that differ in size" } },
    { "[{'op':'invert','p':1.5}]",
        { "operation 1 (invert): 'p' is not valid; expected a number from 0 to 1" } },
    { "[{'op':'equalize','bits':1}]", { "unknown key 'bits'; expected 'op', 'p', 'share'" } },
    { "[{'op':'posterize'}]", { "'bits' is missing; expected a whole number from 0 to 8" } },
    { "[{'op':'posterize','bits':9}]", { "'bits' is not valid; expected a whole number from 0 to 8" } },
    { "[{'op':'posterize','bits':-1}]", { "'bits' is not valid" } },
    { "[{'op':'posterize','bits':4.5}]", { "'bits' is not valid" } },
    { "[{'op':'solarize'}]", { "'threshold' is missing; expected a number from 0 to 256" } },
    { "[{'op':'solarize','threshold':1e300}]", { "'threshold' is not valid" } },
    { "[{'op':'solarize','threshold':'nan'}]", { "'threshold' is not valid" } },
    { "[{'op':'adjust_sharpness','p':1}]", { "'factor' is missing; expected a number from 0 to 100" } },
    { "[{'op':'adjust_sharpness','factor':-0.1}]", { "'factor' is not valid" } },
    { "[{'op':'adjust_sharpness','factor':1e9}]", { "'factor' is not valid" } },
    { "[{'op':'center_crop','size':8,'pad':1}]", { "operation 1 (center_crop): unknown key 'pad'",
        "expected 'op', 'size'" } },
    { "[{'op':'flip','size':8}]",
        { "operation 1 (flip): unknown key 'size'", "expected 'op', 'p', 'share'" } },
    { "[{'op':'random_resized_crop','p':8}]",
        { "'op', 'size', 'scale', 'ratio', 'interpolation', 'pillow13', 'share'" } },
    { "[{'op':'resize','size':8,'pillow13':13}]", { "'pillow13' is not valid; expected true or false" } },
    { "[" CROP "," SHARE ",{'op':'normalize','reciprocal':255}]", { "'reciprocal' is not valid" } },
    { "[{'op':'center_crop','size':8,'share':true}]", { "unknown key 'share'" } },
    //  The mark
    { "[" CROP "," SHARE "," SHARE "]", { "operation 3: a second", "expected one at most" } },
    { "[" CROP ",{'share':false}]", { "operation 2", "expected {'share': true}" } },
    { "[" CROP ",{'share':true,'p':1}]", { "operation 2", "nothing else" } },
    { "[" CROP ",{'share':1}]", { "operation 2", "expected {'share': true}" } },
    { "[" CROP ",{'op':'flip','share':1}]",
        { "operation 2 (flip): 'share' is not valid; expected true or false" } },
    { "[" SHARE "," CROP "]", { "operation 1: the images before {'share': true} differ in size",
        "'max_pixels'" } },
    { "[{'op':'resize','size':256}," SHARE "," CROP "]",
        { "operation 2: the images before", "[height, width]" } },
    { "[{'op':'resize','size':9,'max_size':11},{'op':'resize','size':8}," SHARE "," CROP "]",
        { "operation 3: the images" } },
    { "[{'op':'random_resized_crop','size':4},{'op':'flip'}]",
        { "operation 1 (random_resized_crop): random and not shared", "{'share': true} behind it",
            "'max_pixels'" } },
    { "[{'op':'flip'}," CROP "]",
        { "operation 1 (flip): random and not shared", "expected 'share': true in it" } },
    { "[{'op':'views','count':2},{'op':'flip'}," CROP "]", { "operation 2 (flip): random and not shared" } },
    { "[" CROP "," NORMALIZE "," SHARE "]",
        { "operation 2 (normalize): not supported before {'share': true}", "behind" } },
    { "[" CROP ",{'op':'cast','dtype':'uint8'}," SHARE "]", { "operation 2 (cast): not supported before" } },
    { "[" CROP ",{'op':'layout','layout':'NCHW'}," SHARE "]",
        { "operation 2 (layout): not supported before" } },
    //  The order
    { "[" CROP ",{'op':'decode'}]", { "operation 2 (decode): not the first", "or not at all" } },
    { "[" SHARE ",{'op':'decode','max_pixels':4}," CROP "]", { "operation 2 (decode): not the first" } },
    { "[{'op':'decode'},{'op':'decode'}," CROP "]", { "operation 2 (decode): not the first" } },
    { "[" NORMALIZE "," CROP "]",
        { "operation 2 (center_crop): not supported behind normalize; expected it before" } },
    { "[" CROP "," NORMALIZE "," SHARE ",{'op':'color_jitter','hue':0.1}]",
        { "operation 4 (color_jitter): not supported behind normalize" } },
    { "[" CROP ",{'op':'cast','dtype':'uint8'},{'op':'views','count':2}]",
        { "operation 3 (views): not supported behind cast" } },
    { "[" CROP ",{'op':'layout','layout':'NCHW'},{'op':'layout','layout':'NCHW'}]",
        { "operation 3 (layout): a second one" } },
    { "[" CROP "," NORMALIZE ",{'op':'layout','layout':'NCHW'}," NORMALIZE "]",
        { "operation 4 (normalize): a second one" } },
    { "[{'op':'views','count':2}," CROP ",{'op':'views','count':2}]",
        { "operation 3 (views): a second one" } },
    { "[" CROP ",{'op':'excerpt','length':3}]",
        { "operation 2 (excerpt): for audio only", "'as': 'audio'" } },
    { "[" CROP "," NORMALIZE ",{'op':'cast','dtype':'uint8'}]",
        { "operation 3 (cast): 'uint8' does not hold", "'bfloat16'" } },
    { "[" CROP "," SHARE ",{'op':'cast','dtype':'uint8'}," NORMALIZE "]",
        { "operation 3 (cast): 'uint8' does not hold" } },
    { "[" CROP ",{'op':'grayscale'}," NORMALIZE "]",
        { "operation 3 (normalize): three numbers for the one channel" } },
    { "[" CROP ",{'op':'grayscale'},{'op':'grayscale','p':0.5}," NORMALIZE "]",
        { "operation 4 (normalize): three numbers" } },
    //  Sizes
    { "[]", { "images come out in different sizes", "center_crop" } },
    { "[" SHARE "]", { "come out in different sizes" } },
    { "[{'op':'resize','size':256}," SHARE "]", { "come out in different sizes", "[height, width]" } },
    { "[{'op':'flip'}]", { "come out in different sizes" } },
    { "[" CROP ",{'op':'resize','size':4096},{'op':'center_crop','size':[1,4096]},{'op':'resize','size':2}]",
        { "operation 4 (resize): makes an image of 2 x 8192; expected sides up to 4096" } },
    { "[" CROP ",{'op':'pad','padding':[0,4089,0,0]}]", { "operation 2 (pad): makes an image of 4097 x 8" } },
    { "[" CROP ",{'op':'random_crop','size':9}]",
        { "operation 2 (random_crop): makes 9 x 9 of an image of 8 x 8", "'pad_if_needed': true" } },
    { "[" CROP ",{'op':'random_crop','size':[8,13],'padding':[2,0]}]",
        { "operation 2 (random_crop): makes 8 x 13" } },
    { "[" CROP ",{'op':'pad','padding':8,'mode':'reflect'}]",
        { "operation 2 (pad): 'padding' mirrors more than the image "
        "of 8 x 8 has; expected up to 7 above and below and up to 7 at the sides" } },
    { "[" CROP ",{'op':'pad','padding':[0,0,0,9],'mode':'symmetric'}]",
        { "expected up to 8 above and below" } },
    { "[" CROP ",{'op':'pad','padding':[0,8,0,0],'mode':'reflect'}]", { "'padding' mirrors" } },
    { "[" CROP ",{'op':'pad','padding':[8,0,0,0],'mode':'reflect'}]", { "'padding' mirrors" } },
    { "[" CROP ",{'op':'pad','padding':[0,0,0,8],'mode':'reflect'}]", { "'padding' mirrors" } },
    { "[" CROP ",{'op':'random_crop','size':3,'padding':[0,0,8,0],'mode':'reflect'}]",
        { "(random_crop): 'padding' mirrors" } },
    { "[" CROP ",{'op':'random_crop','size':30,'padding':1,'mode':'reflect','pad_if_needed':true}]",
        { "operation 2 (random_crop): 'padding' and 'pad_if_needed' both mirror", "as a pad before" } },
    { "[{'op':'decode','max_pixels':9}," SHARE ",{'op':'random_crop','size':3}]",
        { "operation 3 (random_crop): private, behind images that differ in size",
            "'pad_if_needed': true" } },
    { "[{'op':'decode','max_pixels':9},{'op':'random_crop','size':3}]",
        { "operation 2 (random_crop): private" } },
    { "[{'op':'decode','max_pixels':9}," SHARE ",{'op':'resize','size':3}," CROP "]",
        { "operation 3 (resize): private, behind images that differ", "expected 'max_size'" } },
    { "[{'op':'decode','max_pixels':1e8}," SHARE ",{'op':'pad','padding':1}," CROP "]",
        { "operation 3 (pad): private, and makes images of up to 500000004 pixels; expected 100000000 at "
            "most" } },
    { "[{'op':'decode','max_pixels':1e8},{'op':'pad','padding':2}," SHARE "," CROP "]",
        { "a version, at the share point, takes 2700000112 bytes; expected 1073741824 at most" } },
    { "[{'op':'decode','max_pixels':1e8},{'op':'views','count':4}," SHARE "," CROP "]", { "a version" } },
    { "[{'op':'resize','size':[4096,4096]}," SHARE ",{'op':'views','count':6}," NORMALIZE "]",
        { "a sample takes 1207959552 bytes of the batch; expected 1073741824 at most" } },
    //  Values
    { "[{'op':'center_crop'}]",
        { "operation 1 (center_crop): 'size' is missing; expected a whole number or [height, width], "
        "each from 1 to 4096" } },
    { "[{'op':'resize'}]", { "operation 1 (resize): 'size' is missing" } },
    { "[{'op':'center_crop','size':0}]", { "(center_crop): 'size' is not valid", "[height, width]" } },
    { "[{'op':'center_crop','size':4097}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':-1}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':1.5}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':'8'}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':true}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':null}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,8,8]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,0]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':[8,9223372036854775807]}]", { "'size' is not valid" } },
    { "[{'op':'center_crop','size':1e300}]", { "'size' is not valid" } },
    { "[{'op':'resize','size':[8,8],'max_size':9}]",
        { "(resize): 'max_size' with two sides", "one number" } },
    { "[{'op':'resize','size':8,'max_size':8}]",
        { "'max_size' is not valid; expected a whole number above 'size', up to 4096" } },
    { "[{'op':'resize','size':8,'max_size':5000}]",
        { "'max_size' is not valid; expected a whole number from 1 to 4096" } },
    { "[{'op':'resize','size':8,'interpolation':'area'}]",
        { "'interpolation' is not valid; expected one of 'nearest', 'bilinear', 'bicubic'" } },
    { "[{'op':'resize','size':8,'interpolation':'random'}]", { "'interpolation' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'interpolation':2}]",
        { "'interpolation' is not valid; expected one of 'nearest', 'bilinear', 'bicubic', 'random'" } },
    { "[{'op':'flip','p':1.0000001}]",
        { "operation 1 (flip): 'p' is not valid; expected a number from 0 to 1" } },
    { "[{'op':'vertical_flip','p':-1e-9}]", { "(vertical_flip): 'p' is not valid" } },
    { "[{'op':'flip','p':'0.5'}]", { "'p' is not valid" } },
    { "[{'op':'flip','p':true}]", { "'p' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.5,0.4]}]",
        { "(random_resized_crop): 'scale' is not valid", "0 < least <= most <= 1" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0,1]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.1,1.1]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':0.5}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'scale':[0.5]}]", { "'scale' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[2,1]}]",
        { "'ratio' is not valid", "width to height" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[0.009,1]}]", { "'ratio' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[1,101]}]", { "'ratio' is not valid" } },
    { "[{'op':'random_resized_crop','size':8,'ratio':[1,null]}]", { "'ratio' is not valid" } },
    { "[" CROP ",{'op':'pad'}]",
        { "operation 2 (pad): 'padding' is missing; expected a whole number, [left and right, "
        "top and bottom] or [left, top, right, bottom], each from 0 to 4096" } },
    { "[" CROP ",{'op':'pad','padding':[1,2,3]}]", { "'padding' is not valid" } },
    { "[" CROP ",{'op':'pad','padding':-1}]", { "'padding' is not valid" } },
    { "[" CROP ",{'op':'pad','padding':1,'fill':256}]",
        { "'fill' is not valid; expected a whole number or [red, green, blue],"
        " each from 0 to 255" } },
    { "[" CROP ",{'op':'pad','padding':1,'fill':[1,2]}]", { "'fill' is not valid" } },
    { "[" CROP ",{'op':'pad','padding':1,'mask_fill':[1,2,3]}]",
        { "'mask_fill' is not valid; expected a whole number from 0" } },
    { "[" CROP ",{'op':'pad','padding':1,'mode':'wrap'}]",
        { "'mode' is not valid", "'constant', 'edge', 'reflect', 'symmetric'" } },
    { "[{'op':'random_crop','size':4,'pad_if_needed':1}]",
        { "'pad_if_needed' is not valid; expected true or false" } },
    { "[{'op':'color_jitter','brightness':-0.1}]",
        { "(color_jitter): 'brightness' is not valid; expected a number from 0 to 99,"
        " or [least, most] with 0 <= least <= most <= 100" } },
    { "[{'op':'color_jitter','contrast':[2,1]}]", { "'contrast' is not valid" } },
    { "[{'op':'color_jitter','saturation':[-1,1]}]", { "'saturation' is not valid" } },
    { "[{'op':'color_jitter','hue':0.6}]",
        { "'hue' is not valid; expected a number from 0 to 0.5, or [least, most] with "
        "-0.5 <= least <= most <= 0.5" } },
    { "[{'op':'color_jitter','hue':[0,0.6]}]", { "'hue' is not valid" } },
    { "[{'op':'grayscale','channels':2}]", { "(grayscale): 'channels' is not valid; expected 1 or 3" } },
    { "[{'op':'grayscale','channels':4}]", { "'channels' is not valid; expected 1 or 3" } },
    { "[{'op':'grayscale','p':0.5,'channels':1}]", { "'channels' 1 with 'p' below 1; expected 3" } },
    { "[" CROP ",{'op':'normalize','mean':[1,2]}]",
        { "(normalize): 'mean' is not valid; expected a number or a list of 1 or 3,"
        " each from -1e+06 to 1e+06" } },
    { "[" CROP ",{'op':'normalize','mean':'1'}]", { "'mean' is not valid" } },
    { "[" CROP ",{'op':'normalize','std':0}]",
        { "'std' is not valid; expected a number or a list of 1 or 3, each from 1e-06" } },
    { "[" CROP ",{'op':'normalize','std':[1,1,-1]}]", { "'std' is not valid" } },
    { "[" CROP ",{'op':'normalize','std':1e300}]", { "'std' is not valid" } },
    { "[" CROP ",{'op':'cast'}]",
        { "(cast): 'dtype' is missing; expected one of 'uint8', 'float16', 'bfloat16', 'float32'" } },
    { "[" CROP ",{'op':'cast','dtype':'float64'}]", { "'dtype' is not valid" } },
    { "[" CROP ",{'op':'layout','layout':'nchw'}]",
        { "(layout): 'layout' is not valid; expected one of 'NHWC', 'NCHW'" } },
    { "[{'op':'views'}," CROP "]", { "(views): 'count' is missing; expected a whole number from 2 to 10" } },
    { "[{'op':'views','count':5,'stack':1}," CROP "]", { "'stack' is not valid" } },
    { "[" CROP ",{'op':'corner_crop','size':4}]", { "(corner_crop): each view has another corner" } },
    { "[" CROP ",{'op':'views','count':5},{'op':'corner_crop','size':[8,9]}]",
        { "makes 8 x 9 of an image of 8 x 8; expected a smaller 'size'" } },
    { "[{'op':'decode','max_pixels':99}," SHARE ",{'op':'views','count':5},{'op':'corner_crop','size':4}]",
        { "(corner_crop): private, behind images that differ in size" } },
    { "[{'op':'views','count':1}," CROP "]", { "'count' is not valid" } },
    { "[{'op':'views','count':11}," CROP "]", { "'count' is not valid" } },
    //  decode
    { "[{'op':'decode','as':'text'}]",
        { "operation 1 (decode): 'as' is not valid; expected one of 'image', 'bytes', 'array',"
        " 'audio'" } },
    { "[{'op':'decode','as':'image','length':3}]",
        { "unknown key 'length'; expected 'op', 'as', 'fields', 'exact'" } },
    { "[{'op':'decode','as':'bytes','fields':['image']}]",
        { "unknown key 'fields'; expected 'op', 'as', 'length'" } },
    { "[{'op':'decode','as':'array','share':true}]",
        { "unknown key 'share'; expected 'op', 'as', 'dtype', 'shape'" } },
    { "[{'op':'decode','exact':0}]", { "'exact' is not valid; expected true or false" } },
    { "[{'op':'decode','max_pixels':0}]",
        { "'max_pixels' is not valid; expected a whole number from 1 to 100000000" } },
    { "[{'op':'decode','max_pixels':100000001}]", { "'max_pixels' is not valid" } },
    { "[{'op':'decode','as':'bytes'}]",
        { "(decode): 'length' is missing; expected a whole number from 1 to 1073741824" } },
    { "[{'op':'decode','as':'bytes','length':1073741825}]", { "'length' is not valid" } },
    { "[{'op':'decode','as':'array','dtype':'bfloat16','shape':[1]}]",
        { "'dtype' is not valid; expected one of 'uint8', 'int8',"
        " 'uint16', 'int16', 'uint32', 'int32', 'uint64', 'int64', 'float16', 'float32', 'float64', "
        "'bool'" } },
    { "[{'op':'decode','as':'array','shape':[1]}]", { "'dtype' is missing" } },
    { "[{'op':'decode','as':'array','dtype':'int8','shape':[]}]",
        { "'shape' is not valid; expected a list of 1 to 4 whole "
        "numbers" } },
    { "[{'op':'decode','as':'array','dtype':'int8','shape':[1,1,1,1,1]}]", { "'shape' is not valid" } },
    { "[{'op':'decode','as':'array','dtype':'int8','shape':[0]}]", { "'shape' is not valid" } },
    { "[{'op':'decode','as':'array','dtype':'int8','shape':3}]", { "'shape' is not valid" } },
    { "[{'op':'decode','as':'array','dtype':'int16','shape':[1073741824]}]", { "takes 2147483648 bytes" } },
    { "[{'op':'decode','as':'array','dtype':'int16','shape':[1073741824,1073741824,1073741824,1073741824]}]",
        { "takes" } },
    { "[{'op':'decode','as':'audio'}]", { "operation 1 (decode): audio comes in excerpts", "'excerpt'" } },
    { "[{'op':'decode','as':'audio'}," SHARE ",{'op':'excerpt','length':3}]",
        { "operation 3 (excerpt): not supported behind {'share': true}; expected it before the mark" } },
    { "[{'op':'decode','as':'audio'},{'op':'flip'}]",
        { "operation 2 (flip): for images; expected excerpt" } },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':3},{'op':'cast','dtype':'float16'}]",
        { "operation 3 (cast): for" } },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':3},{'op':'excerpt','length':3}]",
        { "operation 3 (excerpt): a second one" } },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':3,'share':false}]",
        { "operation 2 (excerpt): 'share' is not valid; expected true" } },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt','length':3,'place':'left'}]",
        { "'place' is not valid", "'center', 'random'" } },
    { "[{'op':'decode','as':'audio'},{'op':'excerpt'}]", { "'length' is missing" } },
    { "[{'op':'decode','as':'audio','channels':2},{'op':'excerpt','length':1000000000}]",
        { "takes 8000000000 bytes" } },
    { "[{'op':'decode','as':'audio','dtype':'float64'}]",
        { "'dtype' is not valid; expected one of 'float32', 'int16'" } },
    { "[{'op':'decode','as':'audio','channels':0}]",
        { "'channels' is not valid; expected a whole number from 1 to 32" } },
    { "[{'op':'decode','as':'audio','resample':true},{'op':'excerpt','length':3}]",
        { "operation 1 (decode): 'resample'", "'rate' beside it" } },
    { "[{'op':'decode','as':'audio','rate':8000,'dtype':'int16','resample':true},"
        "{'op':'excerpt','length':3}]", { "operation 1 (decode): 'resample'", "'float32'" } },
    { "[{'op':'decode','as':'audio','rate':0}]",
        { "'rate' is not valid; expected a whole number from 1 to 1000000" } },
    { "[{'op':'decode','as':'bytes','length':3}," CROP "]",
        { "operation 2 (center_crop): for images; expected no operation "
        "behind a decode as 'bytes'" } },
    { "[{'op':'decode','as':'array','dtype':'int8','shape':[3]},{'op':'excerpt','length':1}]",
        { "as 'array'" } },
    //  Fields, of s_fields
    { "[{'op':'decode','fields':[]}," CROP "]",
        { "'fields' is not valid; expected a list of 1 to 8 names of fields" } },
    { "[{'op':'decode','fields':'image'}," CROP "]", { "'fields' is not valid" } },
    { "[{'op':'decode','fields':['image',3]}," CROP "]",
        { "'fields' is not valid; expected names of images and masks, as strings, and objects" } },
    { "[{'op':'decode','fields':['image','labe\\u00e9l']}," CROP "]",
        { "operation 1 (decode): the data have no field 'labe??l';"
        " expected 'image', 'mask', 'depth', 'edges_2'" } },
    { "[{'op':'decode','fields':['image','mask','image']}," CROP "]",
        { "field 'image' comes twice; expected each once" } },
    { "[{'op':'decode','fields':['mask','image']}," CROP "]",
        { "field 'mask' is a mask; expected an image as the first" } },
    //  Files beside the images
#define TOKENS "{'field':'tokens','as':'array','dtype':'int32','shape':[9],'ragged':true}"
    { "[{'op':'decode','fields':['image',{}]}," CROP "]",
        { "(decode): 'field' is missing; expected the name of a field" } },
    { "[{'op':'decode','fields':['image',{'field':'x','as':'bytes','length':1}]}," CROP "]",
        { "the data have no field 'x'" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens'}]}," CROP "]",
        { "(decode): 'as' is missing; expected one of 'bytes', 'array', 'boxes'" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'image'}]}," CROP "]",
        { "'as' is not valid; expected one of 'bytes', 'array', 'boxes'" } },
    { "[{'op':'decode','fields':[{'field':'image','as':'mask','dtype':'uint16'}]}," CROP "]",
        { "field 'image' is a mask; expected an image as the first" } },
    { "[{'op':'decode','fields':['image',{'field':'mask','as':'mask','dtype':'int16'}]}," CROP "]",
        { "'dtype' is not valid; expected one of 'uint8', 'uint16'" } },
    { "[{'op':'decode','as':'boxes','shape':[9,4]}," CROP "]",
        { "'as' is not valid; expected one of 'image', 'bytes', 'array', 'audio'" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9]}]}," CROP "]",
        { "'shape' is not valid; expected [most, columns] with 4 to 64 columns" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9,3]}]}," CROP "]",
        { "'shape' is not valid" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9,65]}]}," CROP "]",
        { "'shape' is not valid" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9,4],'min_size':-1}]}," CROP
        "]",
        { "'min_size' is not valid; expected a number from 0 to 1e+06" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9,4],'ragged':true}]}," CROP
        "]",
        { "unknown key 'ragged'" } },
    { "[{'op':'decode','fields':[{'field':'tokens','as':'boxes','shape':[9,4]}]}]",
        { "field 'tokens' has boxes of no image; expected an image as the first field" } },
#define BOXES "{'op':'decode','fields':['image',{'field':'tokens','as':'boxes','shape':[9,4]}]},"
    { "[" BOXES CROP ",{'op':'aug_mix'}]",
        { "(aug_mix): not supported with boxes, which do not follow it; expected a list without it, or the "
        "field read 'as': 'array'" } },
    { "[" BOXES CROP ",{'op':'pad','padding':1,'mode':'edge'}]",
        { "(pad): not supported with boxes, which do not follow it; expected 'mode': 'constant', or" } },
    { "[" BOXES CROP ",{'op':'views','count':5,'stack':true}]", { "(views): not supported with boxes" } },
    { "[" BOXES CROP ",{'op':'views','count':5},{'op':'corner_crop','size':4}]",
        { "(corner_crop): not supported with boxes" } },
    { "[" BOXES CROP ",{'op':'elastic_transform'}]", { "(elastic_transform): not supported with boxes" } },
    { "[" BOXES CROP ",{'op':'views','count':6}]", { "2 fields in 6 views are 18 arrays" } },
    { "[{'op':'decode','fields':['image',{'op':'decode','field':'tokens','as':'bytes','length':1}]}," CROP
        "]",
        { "'op' is not valid; expected no such key in a field" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'array','shape':[9]}]}," CROP "]",
        { "'dtype' is missing" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'array','dtype':'int8','shape':[0],"
        "'ragged':true}]}," CROP "]", { "'shape' is not valid; expected a list of 1 to 4 whole numbers" } },
    { "[{'op':'decode','fields':['image',{'field':'tokens','as':'bytes','length':9,'truncate':true}]}," CROP
        "]",
        { "'truncate' is not valid; expected 'ragged': true beside it" } },
    { "[{'op':'decode','as':'bytes','length':9,'ragged':1}]",
        { "'ragged' is not valid; expected true or false" } },
    { "[{'op':'decode','as':'bytes','length':9,'field':'tokens'}]",
        { "unknown key 'field'; expected 'op', 'as', 'length', 'ragged', 'truncate'" } },
    { "[{'op':'decode','as':'audio','ragged':true},{'op':'excerpt','length':9}]",
        { "unknown key 'ragged'" } },
    { "[{'op':'decode','fields':[" TOKENS ",'image']}," CROP "]",
        { "field 'image' is an image behind one that is none; expected all images and masks before" } },
    { "[{'op':'decode','fields':['image'," TOKENS "," TOKENS "]}," CROP "]",
        { "field 'tokens' comes twice" } },
    { "[{'op':'decode','fields':[" TOKENS "]}," CROP "]",
        { "(center_crop): for images; expected no operation behind a decode without an image" } },
    { "[{'op':'decode','exact':false,'fields':[" TOKENS "]}]",
        { "'exact' is not valid; expected an image among the fields, or no such key" } },
    { "[{'op':'decode','fields':['image','mask'," TOKENS "]}," CROP ",{'op':'views','count':8}]",
        { "operation 3 (views): 3 fields in 8 views are 18 arrays (a ragged one is two, whatever the views "
        "are); expected 16 at most" } },
    { "[{'op':'decode','fields':['image','mask']}," CROP ",{'op':'views','count':10,'stack':true}]",
        { "2 fields in 10 views are 20 arrays; expected 16 at most" } },
    { "[{'op':'decode','fields':['image','mask','depth']}," CROP ",{'op':'views','count':6}]",
        { "operation 3 (views): 3 fields in 6 views are 18 arrays; expected 16 at most" } },
};

static void
test_refused (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_refused / sizeof *s_refused; index++) {
        char error [ERROR_BYTES];
        const pipeline_t *self = (const pipeline_t *) &error;
        if (pipeline_try_on (&self, s_refused [index].text, &s_fields, NULL, 0, error) != -EINVAL || self)
            fail_msg ("%s: accepted", s_refused [index].text);
        for (size_t piece = 0; piece < 3 && s_refused [index].fragments [piece]; piece++)
            if (!strstr (error, quoted (s_refused [index].fragments [piece])))
                fail_msg ("%s: \"%s\" lacks \"%s\"", s_refused [index].text, error,
                    s_refused [index].fragments [piece]);
    }
}

//  What is wrong with the data's fields is said, and nothing aborts.
static void
test_refused_sources (void **state)
{
    (void) state;
    static const struct { pipeline_source_t source; const char *text, *error; } cases [] = {
        { { .count = 0 }, "'eval'", "the data have 0 fields; expected 1 to 8" },
        { { .count = 9 }, "'eval'", "the data have 9 fields; expected 1 to 8" },
        { { .fields = { { "image", false }, { "a b", false } }, .count = 2 }, "'eval'",
          "the name of field 2 of the data is not valid; expected letters, digits and underscores, 64 at "
          "most" },
        { { .fields = { { "", false } }, .count = 1 }, "'eval'",
            "the name of field 1 of the data is not valid; "
          "expected letters, digits and underscores, 64 at most" },
        { { .fields = { { NULL, false } }, .count = 1 }, "'eval'",
            "the name of field 1 of the data is not valid; "
          "expected letters, digits and underscores, 64 at most" },
        { { .fields = { { "x", false }, { "x", true } }, .count = 2 }, "'eval'",
          "the data have two fields 'x'; expected other names" },
        { { .fields = { { "x", true } }, .count = 1 }, "'eval'",
          "field 'x' is a mask; expected an image as the first field" },
        { { .fields = { { "image", false }, { "image_2", true } }, .count = 2 },
          "[{'op':'decode','fields':['image','image_2']}," CROP ",{'op':'views','count':2}]",
          "operation 3 (views): makes a second array 'image_2'; expected other names of fields" },
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        char error [ERROR_BYTES];
        const pipeline_t *self;
        assert_int_equal (pipeline_try_on (&self, cases [index].text, &cases [index].source, NULL, 0, error),
            -EINVAL);
        assert_string_equal (error, quoted (cases [index].error));
    }
    //  Only what is decoded counts.
    const pipeline_t *self = pipeline_on ("[" CROP ",{'op':'views','count':2}]", &s_hostile_names);
    pipeline_destroy (&self);
}

//  A message that does not fit is cut, ended and nothing is written behind it.
static void
test_short_error_room (void **state)
{
    (void) state;
    json_t *list = json_pack ("[{s:s}]", "op", "blur\xc3\xa9");
    for (size_t room = 1; room < 120; room++) {
        char error [128];
        memset (error, 'x', sizeof error);
        const pipeline_t *self;
        assert_int_equal (pipeline_new (&self, list, NULL, NULL, 0, error, room), -EINVAL);
        assert_non_null (memchr (error, 0, room));
        assert_int_equal (error [room], 'x');
        for (const char *at = error; *at; at++)
            assert_true (*at >= ' ' && *at <= '~');
    }
    json_decref (list);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_refused_sources),
        cmocka_unit_test (test_short_error_room),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
