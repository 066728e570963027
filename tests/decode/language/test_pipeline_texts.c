/*  test_pipeline_texts -- the canonical text of each operation.  */
#include <stdio.h>
#include <string.h>
#include "pipelines.h"

#define SHARE "{'share':true}"
#define DECODE "{'op':'decode','as':'image','fields':['image'],'exact':true,'orientation':false}"
#define TRAIN_CROP "{'op':'random_resized_crop','size':[224,224],'scale':[0.08,1]," \
    "'ratio':[0.75,1.3333333333333333],'interpolation':'bilinear'}"
#define CROP "{'op':'center_crop','size':[8,8]}"
#define NORMALIZE "{'op':'normalize','mean':[0.485,0.456,0.406],'std':[0.229,0.224,0.225]}"

//  What an operation becomes when it is written down: every key, defaults included.
static const struct { const char *sent, *written; } s_written [] = {
    { "{'op':'decode'}", DECODE },
    { "{'op':'decode','exact':false,'orientation':true,'max_pixels':1e4}",
      "{'op':'decode','as':'image','fields':['image'],'exact':false,'orientation':true,'max_pixels':10000}" },
    { "{'op':'views','count':2.0}", "{'op':'views','count':2,'stack':false}" },
    { "{'op':'views','count':10,'stack':true},{'op':'corner_crop','size':8}",
      "{'op':'views','count':10,'stack':true},{'op':'corner_crop','size':[8,8],'mirror':'across'}" },
    { "{'op':'views','count':3},{'op':'corner_crop','size':[8,7],'mirror':'down'}",
      "{'op':'views','count':3,'stack':false},{'op':'corner_crop','size':[8,7],'mirror':'down'}" },
    { "{'op':'resize','size':9}", "{'op':'resize','size':9,'interpolation':'bilinear'}" },
    { "{'op':'resize','size':9,'pillow13':false}", "{'op':'resize','size':9,'interpolation':'bilinear'}" },
    { "{'op':'resize','pillow13':true,'size':9}",
      "{'op':'resize','size':9,'interpolation':'bilinear','pillow13':true}" },
    { "{'op':'random_resized_crop','size':5,'scale':[1,1],'ratio':[1,1],'pillow13':true}",
      "{'op':'random_resized_crop','size':[5,5],'scale':[1,1],'ratio':[1,1],'interpolation':'bilinear',"
        "'pillow13':true}" },
    { "{'op':'resize','size':9,'max_size':10,'interpolation':'bicubic'}",
      "{'op':'resize','size':9,'max_size':10,'interpolation':'bicubic'}" },
    { "{'interpolation':'nearest','op':'resize','size':[9,4096]}",
      "{'op':'resize','size':[9,4096],'interpolation':'nearest'}" },
    { "{'op':'center_crop','size':7}", "{'op':'center_crop','size':[7,7]}" },
    { "{'op':'random_resized_crop','size':224}", TRAIN_CROP },
    { "{'op':'random_crop','size':[3,2]}",
        "{'op':'random_crop','size':[3,2],'padding':[0,0,0,0],'pad_if_needed':false,"
      "'fill':[0,0,0],'mask_fill':0,'mode':'constant'}" },
    { "{'op':'random_crop','size':4,'padding':[1,2],'pad_if_needed':true,'fill':9,'mask_fill':255,"
        "'mode':'edge'}",
      "{'op':'random_crop','size':[4,4],'padding':[1,2,1,2],'pad_if_needed':true,'fill':[9,9,9],"
      "'mask_fill':255,"
      "'mode':'edge'}" },
    { "{'op':'pad','padding':3}",
        "{'op':'pad','padding':[3,3,3,3],'fill':[0,0,0],'mask_fill':0,'mode':'constant'}" },
    { "{'op':'pad','padding':[1,2,3,4],'fill':[5,6,255],'mode':'symmetric'}",
      "{'op':'pad','padding':[1,2,3,4],'fill':[5,6,255],'mask_fill':0,'mode':'symmetric'}" },
    { "{'op':'flip'}", "{'op':'flip','p':0.5}" },
    { "{'op':'vertical_flip','p':1e-1,'share':true}", "{'op':'vertical_flip','p':0.1}" },
    { "{'op':'color_jitter'}",
      "{'op':'color_jitter','brightness':[1,1],'contrast':[1,1],'saturation':[1,1],'hue':[0,0]}" },
    { "{'op':'color_jitter','brightness':0.25,'contrast':2,'saturation':[0,0.5],'hue':0.5,'share':false}",
      "{'op':'color_jitter','brightness':[0.75,1.25],'contrast':[0,3],'saturation':[0,0.5],"
      "'hue':[-0.5,0.5]}" },
    { "{'op':'color_jitter','hue':[-0.25,-0.125]}",
      "{'op':'color_jitter','brightness':[1,1],'contrast':[1,1],'saturation':[1,1],'hue':[-0.25,-0.125]}" },
    { "{'op':'grayscale'}", "{'op':'grayscale','p':1,'channels':1}" },
    { "{'op':'grayscale','p':0.2}", "{'op':'grayscale','p':0.2,'channels':3}" },
    { "{'op':'grayscale','p':0}", "{'op':'grayscale','p':0,'channels':3}" },
    { "{'op':'grayscale','channels':3.0}", "{'op':'grayscale','p':1,'channels':3}" },
    { "{'op':'posterize','bits':3.0,'p':1}", "{'op':'posterize','bits':3,'p':1}" },
    { "{'op':'random_rotation','degrees':30}", "{'op':'random_rotation','degrees':[-30,30],'expand':false,"
        "'interpolation':'nearest','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'random_rotation','degrees':[10,20],'expand':true,'center':[1,-2.5],'fill':[1,2,3],"
        "'interpolation':'bilinear','mask_fill':255}",
      "{'op':'random_rotation','degrees':[10,20],'expand':true,'center':[1,-2.5],'interpolation':'bilinear',"
        "'fill':[1,2,3],'mask_fill':255}" },
    { "{'op':'random_affine','degrees':0}", "{'op':'random_affine','degrees':[0,0],'translate':[0,0],"
        "'scale':[1,1],'shear':[0,0,0,0],'interpolation':'nearest','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'random_affine','degrees':[-5,6],'translate':[0.1,1],'scale':[0.5,2],'shear':7,'fill':9}",
      "{'op':'random_affine','degrees':[-5,6],'translate':[0.1,1],'scale':[0.5,2],'shear':[-7,7,0,0],"
        "'interpolation':'nearest','fill':[9,9,9],'mask_fill':0}" },
    { "{'op':'random_affine','degrees':1,'shear':[1,2,-3,4]}",
      "{'op':'random_affine','degrees':[-1,1],'translate':[0,0],'scale':[1,1],'shear':[1,2,-3,4],"
        "'interpolation':'nearest','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'gaussian_blur','kernel_size':3.0}",
      "{'op':'gaussian_blur','kernel_size':[3,3],'sigma':[0.1,2]}" },
    { "{'op':'gaussian_blur','kernel_size':[255,1],'sigma':0.5}",
      "{'op':'gaussian_blur','kernel_size':[255,1],'sigma':[0.5,0.5]}" },
    { "{'op':'pillow_gaussian_blur'}", "{'op':'pillow_gaussian_blur','radius':[0.1,2]}" },
    { "{'op':'pillow_gaussian_blur','radius':[0,200],'share':true}",
      "{'op':'pillow_gaussian_blur','radius':[0,200]}" },
    { "{'op':'random_perspective'}", "{'op':'random_perspective','distortion_scale':0.5,'p':0.5,"
        "'interpolation':'bilinear','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'random_perspective','distortion_scale':1,'p':0,'interpolation':'nearest','fill':9,"
        "'mask_fill':3}",
      "{'op':'random_perspective','distortion_scale':1,'p':0,'interpolation':'nearest','fill':[9,9,9],"
        "'mask_fill':3}" },
    { "{'op':'elastic_transform'}", "{'op':'elastic_transform','alpha':[50,50],'sigma':[5,5],"
        "'interpolation':'bilinear','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'elastic_transform','alpha':[0,10000],'sigma':0,'interpolation':'nearest','fill':9,"
        "'mask_fill':3}",
      "{'op':'elastic_transform','alpha':[0,10000],'sigma':[0,0],'interpolation':'nearest','fill':[9,9,9],"
        "'mask_fill':3}" },
    { "{'op':'random_apply','count':1},{'op':'invert'}",
      "{'op':'random_apply','count':1,'p':0.5},{'op':'invert','p':0.5}" },
    { "{'op':'random_choice','counts':[1,0]},{'op':'invert'}",
      "{'op':'random_choice','counts':[1,0],'p':[1,1]},{'op':'invert','p':0.5}" },
    { "{'op':'random_choice','counts':[1,0.0],'p':[0.25,1e6]},{'op':'invert'}",
      "{'op':'random_choice','counts':[1,0],'p':[0.25,1000000]},{'op':'invert','p':0.5}" },
    { "{'op':'random_order','counts':[1]},{'op':'invert'}",
      "{'op':'random_order','counts':[1]},{'op':'invert','p':0.5}" },
    { "{'op':'rand_augment'}", "{'op':'rand_augment','num_ops':2,'magnitude':9,'num_magnitude_bins':31,"
        "'unit_threshold':false,'interpolation':'nearest','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'rand_augment','num_ops':3,'magnitude':9,'num_magnitude_bins':10,'unit_threshold':true,"
        "'fill':7,'share':true}",
      "{'op':'rand_augment','num_ops':3,'magnitude':9,'num_magnitude_bins':10,'unit_threshold':true,"
        "'interpolation':'nearest','fill':[7,7,7],'mask_fill':0}" },
    { "{'op':'trivial_augment_wide','interpolation':'bilinear'}", "{'op':'trivial_augment_wide',"
        "'num_magnitude_bins':31,'unit_threshold':false,'interpolation':'bilinear','fill':[0,0,0],"
        "'mask_fill':0}" },
    { "{'op':'aug_mix'}", "{'op':'aug_mix','severity':3,'mixture_width':3,'chain_depth':-1,'alpha':1,"
        "'all_ops':true,'interpolation':'bilinear','fill':[0,0,0]}" },
    { "{'op':'aug_mix','severity':10,'mixture_width':8,'chain_depth':8.0,'alpha':0.5,'all_ops':false,"
        "'fill':7}",
      "{'op':'aug_mix','severity':10,'mixture_width':8,'chain_depth':8,'alpha':0.5,'all_ops':false,"
        "'interpolation':'bilinear','fill':[7,7,7]}" },
    { "{'op':'auto_augment'}", "{'op':'auto_augment','policy':'imagenet','unit_threshold':false,"
        "'interpolation':'nearest','fill':[0,0,0],'mask_fill':0}" },
    { "{'op':'auto_augment','policy':'svhn','mask_fill':255}", "{'op':'auto_augment','policy':'svhn',"
        "'unit_threshold':false,'interpolation':'nearest','fill':[0,0,0],'mask_fill':255}" },
    { "{'op':'normalize'}", "{'op':'normalize','mean':[0],'std':[1]}" },
    { "{'op':'normalize','reciprocal':false}", "{'op':'normalize','mean':[0],'std':[1]}" },
    { "{'op':'normalize','std':2,'reciprocal':true}",
      "{'op':'normalize','mean':[0],'std':[2],'reciprocal':true}" },
    { "{'op':'normalize','mean':0.1,'std':[0.25]}", "{'op':'normalize','mean':[0.1],'std':[0.25]}" },
    { NORMALIZE, NORMALIZE },
    { "{'op':'normalize','std':[1,1e-6,123456.789]}",
        "{'op':'normalize','mean':[0,0,0],'std':[1,1e-06,123456.79]}" },
    { "{'op':'normalize','mean':[-0.0,1,2],'std':[3]}", "{'op':'normalize','mean':[0,1,2],'std':[3,3,3]}" },
    { "{'op':'cast','dtype':'bfloat16'}", "{'op':'cast','dtype':'bfloat16'}" },
    { "{'op':'layout','layout':'NCHW'}", "{'op':'layout','layout':'NCHW'}" },
    { "{'op':'random_erasing'}", "{'op':'random_erasing','p':0.5,'scale':[0.02,0.33],'ratio':[0.3,3.3],"
        "'value':[0]}" },
};

static void
test_written_with_all_keys (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_written / sizeof *s_written; index++) {
        char list [600];
        bool is_decode = strstr (s_written [index].sent, "decode");
        //  Behind the mark, in front of a crop that gives the images one size; but what is not private,
        //  before it.
        bool is_end = strstr (s_written [index].sent, "normalize") || strstr (s_written [index].sent, "cast")
            || strstr (s_written [index].sent, "erasing") || strstr (s_written [index].sent, "layout");
        const char *form = is_decode? "[%s," CROP "]": is_end? "[" CROP "," SHARE ",%s]":
            "[%s," CROP "," SHARE "]";
        snprintf (list, sizeof list, form, s_written [index].sent);
        const pipeline_t *self = pipeline_of (list);
        char expected [600];
        snprintf (expected, sizeof expected, is_decode? "[%s,": ",%s", s_written [index].written);
        if (!strstr (pipeline_text (self), quoted (expected)))
            fail_msg ("%s became %s", s_written [index].sent, pipeline_text (self));
        //  A canonical text is a list like any other, and its own canonical text.
        const pipeline_t *again = pipeline_of (pipeline_text (self));
        assert_string_equal (pipeline_text (self), pipeline_text (again));
        assert_string_equal (pipeline_shared_text (self), pipeline_shared_text (again));
        pipeline_destroy (&self);
        pipeline_destroy (&again);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_written_with_all_keys),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
