/*  fuzz_decoder -- any bytes as a sample of several pipelines, through both stages: outputs or a reason.
 *
 *  The input begins with the index of a pipeline, a byte of the key, and where the files of a sample with
 *  several part.  The same sample comes out the same twice, and the same with a limit of warnings that no
 *  file reaches.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "decoder.h"

enum { HEAD_BYTES = 4, ERROR_BYTES = 200, ALIGNMENT = 64 };

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

//  Each limits what it decodes: fuzzing lives on speed.
static const char *const s_pipelines [] = {
    "['train']", "['eval']",
    "[{'op':'decode','max_pixels':100000},{'op':'center_crop','size':[40,50]},{'share':true},{'op':'flip'},"
      "{'op':'normalize','mean':[0.4,0.5,0.6],'std':[0.2,0.3,0.1]},{'op':'cast','dtype':'float16'},"
      "{'op':'layout','layout':'NCHW'}]",
    "[{'op':'decode','max_pixels':100000,'exact':false},{'op':'random_resized_crop','size':20,'share':true},"
      "{'share':true},"
      "{'op':'color_jitter','brightness':0.4,'contrast':0.4,'saturation':0.4,'hue':0.2},"
      "{'op':'vertical_flip'}]",
    "[{'op':'decode','max_pixels':100000,'orientation':true,'fields':['image','mask']},"
      "{'op':'resize','size':[30,20]},{'share':true},"
      "{'op':'random_crop','size':[25,18],'padding':[3,1],'mode':'reflect'},{'op':'flip'}]",
    "[{'op':'decode','max_pixels':5000},{'share':true},{'op':'random_resized_crop','size':16,"
      "'interpolation':'bicubic'},"
      "{'op':'grayscale'},{'op':'cast','dtype':'bfloat16'}]",
    "[{'op':'decode','max_pixels':100000,'exact':false},{'op':'resize','size':24,'max_size':60,"
      "'interpolation':'bicubic'},"
      "{'op':'pad','padding':[1,2,3,4],'mode':'symmetric'},{'share':true},"
      "{'op':'random_crop','size':20,'pad_if_needed':true},{'op':'grayscale','p':0.5}]",
    "[{'op':'decode','max_pixels':100000},{'op':'views','count':3},"
      "{'op':'random_crop','size':12,'pad_if_needed':true,'mode':'edge',"
      "'share':true},{'op':'color_jitter','hue':0.1,'share':true},{'share':true},{'op':'flip'},"
      "{'op':'normalize'}]",
    "[{'op':'decode','max_pixels':100000,'fields':['image','mask']},"
      "{'op':'resize','size':20,'interpolation':'nearest'},"
      "{'op':'center_crop','size':[30,16]},{'share':true}]",
    "[{'op':'decode','as':'bytes','length':100},{'share':true}]",
    "[{'op':'decode','as':'array','dtype':'float32','shape':[2,3]},{'share':true}]",
    ("[{'op':'decode','as':'audio','dtype':'int16','channels':1},{'op':'excerpt','length':200,'share':true},"
      "{'share':true}]"),
    ("[{'op':'decode','max_pixels':20000},{'op':'equalize','share':true},"
      "{'op':'adjust_sharpness','factor':2.5,'share':true},"
      "{'op':'autocontrast','share':true},{'share':true},{'op':'solarize','threshold':99.5},"
      "{'op':'posterize','bits':3},{'op':'invert'},{'op':'gaussian_blur','kernel_size':[9,5]},"
      "{'op':'pillow_gaussian_blur'},{'op':'center_crop','size':40}]"),
    ("[{'op':'decode','max_pixels':20000,'fields':['image','mask']},"
      "{'op':'random_rotation','degrees':180,'expand':true,'share':true},{'op':'resize','size':[30,20]},"
      "{'share':true},{'op':'random_affine','degrees':90,'translate':[0.5,0.5],'scale':[0.1,9],'shear':89,"
      "'interpolation':'bilinear'},{'op':'random_rotation','degrees':20,'center':[3,4]},"
      "{'op':'random_perspective','distortion_scale':1,'p':1},{'op':'elastic_transform','alpha':900}]"),
    ("[{'op':'decode','max_pixels':20000,'fields':['image','mask']},"
      "{'op':'rand_augment','num_ops':5,'magnitude':30,'share':true},{'op':'resize','size':[30,20]},"
      "{'share':true},{'op':'auto_augment','policy':'cifar10','interpolation':'bilinear'},"
      "{'op':'trivial_augment_wide','fill':9},{'op':'aug_mix'},{'op':'random_apply','count':1},{'op':'flip'},"
      "{'op':'random_erasing','value':[1,2,3]}]"),
    ("[{'op':'decode','fields':['image','mask']},{'op':'views','count':8,'stack':true},"
      "{'op':'corner_crop','size':[9,11]},{'share':true},{'op':'layout','layout':'NCHW'}]"),
    //  A file beside the image: here it has the mask's name.
    ("[{'op':'decode','max_pixels':20000,'fields':['image',{'field':'mask','as':'array','dtype':'int16',"
      "'shape':[7,2],'ragged':true}]},{'op':'views','count':2},{'op':'random_crop','size':12,"
      "'pad_if_needed':true,'share':true},{'share':true},{'op':'flip'}]"),
    ("[{'op':'decode','fields':[{'field':'mask','as':'bytes','length':30,'ragged':true,'truncate':true},"
      "{'field':'image','as':'array','dtype':'uint8','shape':[40],'ragged':true,'truncate':true}]}]"),
    ("[{'op':'decode','max_pixels':20000,'fields':['image',{'field':'mask','as':'boxes','shape':[7,5],"
      "'min_size':0.5}]},{'op':'random_rotation','degrees':180,'expand':true},"
      "{'op':'resize','size':40,'max_size':90,'interpolation':'nearest'},{'op':'views','count':2},"
      "{'op':'random_resized_crop','size':12,'share':true},{'share':true},{'op':'flip'},"
      "{'op':'random_affine','degrees':90,'scale':[0.1,9],'shear':89},{'op':'trivial_augment_wide'},"
      "{'op':'random_perspective','distortion_scale':1,'p':1},{'op':'pad','padding':2}]"),
    ("[{'op':'decode','max_pixels':20000,'orientation':true},"
      "{'op':'random_order','counts':[1,2],'share':true},{'op':'invert','share':true},"
      "{'op':'random_apply','count':1,'share':true},{'op':'flip','share':true},"
      "{'op':'resize','size':[20,30]},{'share':true},{'op':'random_choice','counts':[1,1,2],'p':[1,2,3]},"
      "{'op':'vertical_flip'},{'op':'gaussian_blur','kernel_size':3},{'op':'posterize','bits':2},"
      "{'op':'equalize'},{'op':'cast','dtype':'float32'}]")
};
enum { PIPELINES = sizeof s_pipelines / sizeof *s_pipelines };

static void
s_require (int condition)
{
    if (!condition)
        abort ();
}

static const pipeline_t *
s_pipeline (size_t index)
{
    pipeline_source_t source = { .fields = { { "image", false }, { "mask", true } }, .count = 2 };
    char text [600], error [ERROR_BYTES];
    s_require (strlen (s_pipelines [index]) < sizeof text);
    strcpy (text, s_pipelines [index]);
    for (char *quote = text; (quote = strchr (quote, '\''));)
        *quote = '"';
    json_t *list = json_loads (text, 0, NULL);
    const json_t *first = json_array_get (list, 0);
    const pipeline_t *pipeline = NULL;
    s_require (pipeline_new (&pipeline, json_is_string (first)? first: list, &source, NULL, 0, error,
        sizeof error) == 0);
    json_decref (list);
    return pipeline;
}

//  Both stages; a sum of all outputs, or 0 of a sample that is refused.
static uint32_t
s_run (decoder_t *decoder, const pipeline_t *pipeline, const pipeline_key_t *key,
    const decoder_sample_t *sample)
{
    char error [ERROR_BYTES];
    size_t bytes = (pipeline_version_bytes (pipeline) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
        file = SIZE_MAX;
    uint8_t *version = aligned_alloc (ALIGNMENT, bytes), *targets [PIPELINE_OUTPUTS_MAX];
    s_require (version != NULL);
    memset (version, 0, bytes);
    decoder_status_t status = decoder_shared (decoder, pipeline, key, sample, version, &file, error,
        sizeof error);
    s_require (memchr (error, 0, sizeof error) != NULL);
    bool is_refused = status == DECODER_BAD || status == DECODER_UNSUITABLE;
    s_require (is_refused == (*error != 0));
    s_require (!is_refused || file < pipeline_files (pipeline));
    for (const char *at = error; *at; at++)
        s_require (*at >= ' ' && *at <= '~');
    uint32_t sum = 1;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++)
        s_require ((targets [index] = calloc (1, pipeline_output (pipeline, index)->bytes)) != NULL);
    if (status == DECODER_OK)
        s_require (decoder_private (decoder, pipeline, key, version, targets));
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++) {
        for (size_t byte = 0; byte < pipeline_output (pipeline, index)->bytes; byte++)
            sum = sum * 31 + targets [index] [byte];
        free (targets [index]);
    }
    free (version);
    return status == DECODER_OK? sum: 0;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    if (size < HEAD_BYTES)
        return 0;
    const pipeline_t *pipeline = s_pipeline (data [0] % PIPELINES);
    pipeline_key_t key = { .seed = 1, .id = data [1] };
    const uint8_t *bytes = data + HEAD_BYTES;
    size_t all = size - HEAD_BYTES, part = data [2] | (size_t) data [3] << 8;
    part = pipeline_files (pipeline) == 1 || part > all? all: part;
    //  A second file of no length is the first once more, as a mask.
    decoder_file_t files [2] = { { .bytes = bytes, .size = part },
        { .bytes = part < all? bytes + part: bytes, .size = part < all? all - part: all } };
    decoder_sample_t sample = { .files = files, .warnings_max = data [1] % 2? UINT32_MAX: 0 };
    s_require (pipeline_files (pipeline) <= 2);
    decoder_t *decoder = decoder_new ();
    s_require (decoder != NULL);
    uint32_t first = s_run (decoder, pipeline, &key, &sample),
        second = s_run (decoder, pipeline, &key, &sample);
    s_require (first == second);
    if (sample.warnings_max == UINT32_MAX) {
        sample.warnings_max--;
        s_require (first == s_run (decoder, pipeline, &key, &sample));
    }
    decoder_destroy (&decoder);
    pipeline_destroy (&pipeline);
    return 0;
}
