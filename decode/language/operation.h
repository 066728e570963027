/*  operation -- one entry of a pipeline's list: its parameters, checked, and its canonical text.
 *
 *  Parsing is table driven: one row an operation, with its keys, what it may do and where, and its parser.
 *  A new operation needs
 *      here                its kind and its parameters; operation.c: its row in s_rows and its parser
 *      pipeline.c          whether it may be left out (s_may_be_left_out), whether it moves boxes
 *      plan.c              what a pixel of it costs; what it does to sizes and outputs
 *      geometry.c, pixel/  the work; run/stage.c calls it (run/warp.c what turns or distorts, run/augment.c
 *                          what policies choose), run/decoder.c moves boxes, run/describe.c tells
 *                          what it chose
 *      docs/pipeline.md, clients/python/tureen/transforms.py or augmentations.py, and translation.py
 *      tests/decode        its golden pixels, and the simulation of the costliest pipeline
 *  Foreign input throughout: text from it is quoted into messages in printable ASCII only and cut short.
 */
#ifndef OPERATION_H
#define OPERATION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "decode_request.h"
#include "entry.h"
#include "finish.h"
#include "pipeline.h"
#include "resize.h"

typedef enum {
    OPERATION_DECODE,               //  always the first of a canonical list
    OPERATION_VIEWS,                //  what follows is done for each view by itself
    OPERATION_RESIZE,
    OPERATION_CENTER_CROP,
    OPERATION_CORNER_CROP,          //  of each view another one
    OPERATION_RANDOM_RESIZED_CROP,
    OPERATION_RANDOM_CROP,
    OPERATION_PAD,
    OPERATION_CUSTOM,               //  the operator's own (custom_t)
    OPERATION_FLIP,
    OPERATION_VERTICAL_FLIP,
    OPERATION_COLOR_JITTER,
    OPERATION_GRAYSCALE,
    OPERATION_INVERT,               //  this and the next four: point operations of Pillow's ImageOps
    OPERATION_POSTERIZE,
    OPERATION_SOLARIZE,
    OPERATION_AUTOCONTRAST,
    OPERATION_EQUALIZE,
    OPERATION_ADJUST_SHARPNESS,
    OPERATION_GAUSSIAN_BLUR,
    OPERATION_PILLOW_GAUSSIAN_BLUR,
    OPERATION_RANDOM_ROTATION,
    OPERATION_RANDOM_AFFINE,
    OPERATION_RANDOM_PERSPECTIVE,
    OPERATION_ELASTIC_TRANSFORM,
    OPERATION_RANDOM_APPLY,         //  this and the next two: of the operations behind it
    OPERATION_RANDOM_CHOICE,
    OPERATION_RANDOM_ORDER,
    OPERATION_RAND_AUGMENT,
    OPERATION_TRIVIAL_AUGMENT_WIDE,
    OPERATION_AUTO_AUGMENT,
    OPERATION_AUG_MIX,
    OPERATION_NORMALIZE,            //  this and the next three: private only, last, each once at most, in any
                                    //  order
    OPERATION_CAST,
    OPERATION_LAYOUT,
    OPERATION_RANDOM_ERASING,
    OPERATION_EXCERPT,              //  of audio only
    OPERATION_KINDS
} operation_kind_t;

typedef enum { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC } pad_mode_t;
typedef enum { JITTER_BRIGHTNESS, JITTER_CONTRAST, JITTER_SATURATION, JITTER_HUE,
    JITTER_KINDS } jitter_kind_t;

typedef enum { AUGMENT_IMAGENET, AUGMENT_CIFAR10, AUGMENT_SVHN, AUGMENT_POLICIES } augment_policy_t;
enum { AUGMENT_STEPS_MAX = 16, GROUP_PARTS_MAX = 16, MIX_CHAINS_MAX = 8, MIX_DEPTH_MAX = 8 };   //  of one
enum { OPERATION_FILTER_RANDOM = RESIZE_BICUBIC + 1 };      //  bilinear or bicubic, equally often

typedef struct {
    operation_kind_t kind;
    uint32_t place;                 //  index in the canonical list, the share mark not counted: of its random
                                    //  numbers
    size_t sent;                    //  index in the list as it was sent, or ENTRY_NOT_SENT
    bool may_be_shared;             //  random ones: "share": true stands in it; others: always, where their
                                    //  kind may
    double probability;             //  with which it is done at all; below 0: it is no operation of that sort
    uint32_t height;                //  of what has a size
    uint32_t width;
    //  Of operations that map an image: how, and the pixels beside it.  Masks are mapped to the nearest.
    struct { bool is_bilinear; uint8_t fill [IMAGE_COLOURS]; uint8_t mask_fill; } edge;
    union {
        decode_request_t decode;
        //  stacks: the views of a field are one output
        struct { uint32_t count; bool stacks; } views;
        struct { bool mirrors_down; } corner;       //  views beyond the fifth: down, not across
        //  side_max: of the longer, 0: none
        struct { bool shorter_side, pillow13; uint32_t side_max; resize_filter_t filter; } resize;
        //  filter: a resize_filter_t, or OPERATION_FILTER_RANDOM
        struct { double scale [2]; double ratio [2]; unsigned filter; bool pillow13; } random_resized_crop;
        //  pad, random_crop: left, top, right, bottom; and what the border is filled with
        struct { uint32_t border [4]; bool if_needed; pad_mode_t mode; uint8_t fill [IMAGE_COLOURS];
            uint8_t mask_fill; } pad;
        //  1 .. 1 (hue 0 .. 0): not at all
        struct { double least [JITTER_KINDS]; double most [JITTER_KINDS]; } jitter;
        struct { uint32_t channels; } grayscale;
        //  the point operations and adjust_sharpness; factor: bits, threshold or factor
        struct { double factor; } point;
        struct { double distortion; } perspective;
        struct { double alpha [2], sigma [2]; } elastic;                                    //  across, down
        //  how many operations each part has; of random_choice, their weights
        struct { uint32_t parts; uint8_t counts [GROUP_PARTS_MAX]; double weights [GROUP_PARTS_MAX]; } group;
        //  kernel: across, down, of gaussian_blur; range: of sigma or radius
        struct { uint32_t kernel [2]; double range [2]; } blur;
        //  degrees, shear (across and down): least, most; center: x, y
        struct { double degrees [2]; bool expand, has_center; double center [2]; } rotation;
        struct { double degrees [2], translate [2], scale [2], shear [4]; bool has_center;
            double center [2]; } affine;
        //  the policies and aug_mix; level: the number of the magnitude, below bins, or of those that there
        //  are; depth: of a chain, 0: random
        struct { uint32_t steps, level, bins; augment_policy_t policy; bool unit_threshold, all_kinds;
            uint32_t chains, depth; double alpha; } augment;
        //  count: 1 or 3 given
        struct { float mean [IMAGE_COLOURS]; float std [IMAGE_COLOURS]; uint32_t count; bool reciprocal; }
            normalize;
        struct { dtype_t dtype; } cast;
        //  scale, ratio: of the box; count: 1 or 3 values given, numbers of the output
        struct { double scale [2], ratio [2]; float value [IMAGE_COLOURS]; uint32_t count; } erase;
        struct { bool planar; } layout;
        struct { uint32_t length; bool random; } excerpt;
        struct { const custom_t *is; char arguments [CUSTOM_ARGUMENTS_BYTES_MAX + 1]; } custom;
    };
} operation_t;

//  Complains (entry_complain) about an operation that was parsed before; of complaint only the room counts.
//  -EINVAL.
int operation_refuse (const operation_t *self, const complaint_t *complaint, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

//  Fills *self from one object of the list, all but its place; names of fields are looked up in source.  0,
//  or -EINVAL with a complaint.
int operation_parse (operation_t *self, const json_t *value, const pipeline_source_t *source,
    complaint_t *complaint);
//  The decode of a list that does not begin with one: an image of the source's first field.
int operation_parse_default (operation_t *self, const pipeline_source_t *source,
    const complaint_t *complaint);
const char *operation_name (const operation_t *self);
//  Whether its result depends on random numbers at all: flip with p 0 or 1 does not.
bool operation_is_random (const operation_t *self);
//  Whether its kind may stand before, and behind, the mark; decode is before it.
bool operation_may_be_shared (const operation_t *self);
bool operation_may_be_private (const operation_t *self);
//  Whether a list without a mark may have it in its shared stage.
bool operation_is_shareable (const operation_t *self);
//  Writes the canonical object (every key that has a value, defaults too; "share" not) and returns its
//  length, below ENTRY_TEXT_BYTES_MAX.
size_t operation_write (const operation_t *self, const pipeline_source_t *source,
    char text [ENTRY_TEXT_BYTES_MAX]);
//  Whether it is random_apply, random_choice or random_order.  The operations of a group's parts follow it in
//  the list, part by part.  A part may hold another group, with the operations of that.
bool operation_is_group (const operation_t *self);
//  Of any operation: how many of the following operations belong to it; 0 but for groups.
size_t operation_span (const operation_t *self);


//  ---- decode, the operation at the beginning of a list (operation_decode.c): for operation.c's table

//  Checks for unknown keys itself: which there are depends on "as".
int operation_decode_parse (operation_t *self, const entry_t *entry);
void operation_decode_write (const operation_t *self, entry_text_t *text);

#endif
