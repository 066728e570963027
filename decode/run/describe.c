//  What the operations of a pipeline do to one sample, in words: decoder_describe.

#include "decoder.h"
#include <assert.h>
#include <stdio.h>
#include "augment.h"
#include "geometry.h"
#include "plan.h"
#include "stage.h"
#include "warp.h"

//  The kinds between these ends leave masks alone.
_Static_assert (OPERATION_COLOR_JITTER < OPERATION_PILLOW_GAUSSIAN_BLUR
    && OPERATION_NORMALIZE < OPERATION_RANDOM_ERASING, "colours, and the end of the private stage");

//  On the way through the list.  All views have one size at every operation: a share point and a batch could
//  not hold others.
typedef struct {
    const pipeline_t *pipeline;
    const plan_t *plan;
    const decoder_described_t *sample;
    json_t *array;
    char *error;
    size_t error_bytes;
    //  of the view that is being followed
    uint32_t view;
    uint32_t height, width;
} walk_t;

static json_t *
s_size (const walk_t *self)
{
    return json_pack ("{s:I,s:I}", "height", (json_int_t) self->height, "width", (json_int_t) self->width);
}

static json_t *
s_box (json_int_t top, json_int_t left, uint32_t height, uint32_t width)
{
    return json_pack ("{s:I,s:I,s:I,s:I}", "top", top, "left", left, "height", (json_int_t) height, "width",
        (json_int_t) width);
}

//  Where the window lies in the image: it may begin before its first row or column.
static json_t *
s_enter_window (walk_t *self, const geometry_window_t *window)
{
    self->height = window->height;
    self->width = window->width;
    return s_box ((json_int_t) window->from.top - window->to_top,
        (json_int_t) window->from.left - window->to_left, window->height, window->width);
}

//  ---- each operation: its parameters, and the size behind it

static json_t *
s_resize (walk_t *self, const operation_t *operation)
{
    uint32_t height, width;
    geometry_resize (operation, self->height, self->width, &height, &width);
    self->height = height;
    self->width = width;
    return s_size (self);
}

static json_t *
s_random_resized_crop (walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    image_box_t box = geometry_random_box (operation, self->height, self->width, random);
    self->height = operation->height;
    self->width = operation->width;
    json_t *parameters = s_box (box.top, box.left, box.height, box.width);
    if (parameters && operation->random_resized_crop.filter == OPERATION_FILTER_RANDOM)
        json_object_set_new (parameters, "interpolation", json_string (
            geometry_random_filter (operation, random) == RESIZE_BICUBIC? "bicubic": "bilinear"));
    return parameters;
}

static json_t *
s_window (walk_t *self, const operation_t *operation)
{
    geometry_window_t window = operation->kind == OPERATION_PAD
        ? geometry_pad (operation, self->height, self->width)
        : geometry_center_crop (operation->height, operation->width, self->height, self->width);
    return s_enter_window (self, &window);
}

static json_t *
s_corner_crop (walk_t *self, const operation_t *operation)
{
    image_box_t box;
    bool is_mirrored;
    if (geometry_corner_crop (operation, self->view, self->height, self->width, &box, &is_mirrored)) {
        self->height = box.height;
        self->width = box.width;
        json_t *parameters = s_box (box.top, box.left, box.height, box.width);
        if (parameters)
            json_object_set_new (parameters, "flipped", json_boolean (is_mirrored));
        return parameters;
    }
    snprintf (self->error, self->error_bytes, "an image of %u x %u pixels is smaller than the corner_crop of "
        "%u x %u", self->width, self->height, operation->width, operation->height);
    return NULL;
}

static json_t *
s_random_crop (walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    geometry_window_t window;
    if (geometry_random_crop (operation, self->height, self->width, random, &window))
        return s_enter_window (self, &window);
    snprintf (self->error, self->error_bytes,
        "an image of %u x %u pixels, with its padding, is smaller than the random_crop of "
        "%u x %u", self->width, self->height, operation->width, operation->height);
    return NULL;
}

//  The steps that are done, in the order that chance chose; a factor that changes nothing is no step.
static json_t *
s_jitter (const operation_t *operation, keyed_random_t *random)
{
    static const char *const names [] = {
        [COLOUR_BRIGHTNESS] = "brightness", [COLOUR_CONTRAST] = "contrast",
            [COLOUR_SATURATION] = "saturation",
        [COLOUR_HUE] = "hue", [COLOUR_GREY] = "grey"
    };
    colour_program_t program = { .count = 0 };
    bool fits = geometry_jitter (operation, random, &program);
    assert (fits);
    json_t *steps = json_array ();
    for (size_t index = 0; index < program.count; index++)
        json_array_append_new (steps,
            json_pack ("{s:s,s:f}", "step", names [program.steps [index].kind], "factor",
            program.steps [index].factor));
    return json_pack ("{s:o}", "steps", steps);
}

static json_t *
s_rotation (walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    keyed_random_t again = *random;
    double angle = warp_draw_angle (operation, &again);
    warp_t warp = warp_draw (operation, self->height, self->width, random);
    self->height = warp.height;
    self->width = warp.width;
    return json_pack ("{s:f,s:I,s:I}", "angle", angle, "height", (json_int_t) warp.height, "width",
        (json_int_t) warp.width);
}

static json_t *
s_affine (const walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    warp_affine_t drawn = warp_draw_affine (operation, self->height, self->width, random);
    return json_pack ("{s:f,s:[I,I],s:f,s:[f,f]}", "angle", drawn.angle, "translate",
        (json_int_t) drawn.translate [0], (json_int_t) drawn.translate [1], "scale", drawn.scale, "shear",
        drawn.shear [0], drawn.shear [1]);
}

//  Where the corners went, if they did.
static json_t *
s_perspective (const walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    bool is_done = geometry_happens (operation, random);
    json_t *corners = json_array ();
    warp_corners_t drawn;
    if (is_done)
        drawn = warp_draw_corners (operation, self->height, self->width, random);
    for (size_t corner = 0; is_done && corner < 4; corner++)
        json_array_append_new (corners, json_pack ("[I,I]", (json_int_t) drawn.corners [corner] [0],
            (json_int_t) drawn.corners [corner] [1]));
    return json_pack ("{s:b,s:o}", "done", is_done, "endpoints", corners);
}

static json_t *
s_steps (const augment_step_t *drawn, size_t count)
{
    json_t *steps = json_array ();
    for (size_t index = 0; index < count; index++)
        json_array_append_new (steps, json_pack ("{s:s,s:f}", "step", augment_name (drawn [index].kind),
            "magnitude", drawn [index].magnitude));
    return steps;
}

static json_t *
s_augment (const walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    augment_step_t drawn [AUGMENT_STEPS_MAX];
    size_t count = augment_draw (operation, self->height, self->width, random, drawn);
    return json_pack ("{s:o}", "steps", s_steps (drawn, count));
}

static json_t *
s_aug_mix (const walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    augment_mix_t mix = augment_mix_draw (operation, self->height, self->width, random);
    json_t *chains = json_array ();
    for (uint32_t chain = 0; chain < mix.chains; chain++)
        json_array_append_new (chains, json_pack ("{s:f,s:o}", "weight", (double) mix.weights [chain],
            "steps", s_steps (mix.steps [chain], mix.lengths [chain])));
    return json_pack ("{s:f,s:o}", "weight", (double) mix.original, "chains", chains);
}

static json_t *
s_order (const operation_t *operation, keyed_random_t *random)
{
    uint32_t parts [GROUP_PARTS_MAX];
    geometry_choose_order (operation, random, parts);
    json_t *order = json_array ();
    for (uint32_t place = 0; place < operation->group.parts; place++)
        json_array_append_new (order, json_integer ((json_int_t) parts [place] + 1));
    return json_pack ("{s:o}", "order", order);
}

static json_t *
s_erasing (const walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    image_box_t box;
    geometry_erasing (operation, self->height, self->width, random, &box);
    return s_box (box.top, box.left, box.height, box.width);
}

static json_t *
s_custom (walk_t *self, const operation_t *operation, keyed_random_t *random)
{
    self->height = operation->height;
    self->width = operation->width;
    return operation->custom.is->is_random
        ? json_pack ("{s:I}", "seed", (json_int_t) stage_custom_seed (operation, random)): json_object ();
}

//  NULL: it cannot be done.
static json_t *
s_parameters (walk_t *self, const operation_t *operation, const pipeline_key_t *key)
{
    keyed_random_t random = stage_random (operation, key, self->view);
    switch (operation->kind) {
    case OPERATION_DECODE:
        return self->height? s_size (self): json_object ();
    case OPERATION_RESIZE:
        return s_resize (self, operation);
    case OPERATION_CENTER_CROP:
    case OPERATION_PAD:
        return s_window (self, operation);
    case OPERATION_CORNER_CROP:
        return s_corner_crop (self, operation);
    case OPERATION_RANDOM_RESIZED_CROP:
        return s_random_resized_crop (self, operation, &random);
    case OPERATION_RANDOM_CROP:
        return s_random_crop (self, operation, &random);
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        return json_pack ("{s:b}", "flipped", geometry_happens (operation, &random));
    case OPERATION_COLOR_JITTER:
        return s_jitter (operation, &random);
    case OPERATION_GRAYSCALE:
        return json_pack ("{s:b}", "grey", geometry_happens (operation, &random));
    case OPERATION_INVERT:
    case OPERATION_POSTERIZE:
    case OPERATION_SOLARIZE:
    case OPERATION_AUTOCONTRAST:
    case OPERATION_EQUALIZE:
    case OPERATION_ADJUST_SHARPNESS:
    case OPERATION_RANDOM_APPLY:
        return json_pack ("{s:b}", "done", geometry_happens (operation, &random));
    case OPERATION_GAUSSIAN_BLUR:
        return json_pack ("{s:f}", "sigma", geometry_blur (operation, &random));
    case OPERATION_PILLOW_GAUSSIAN_BLUR:
        return json_pack ("{s:f}", "radius", geometry_blur (operation, &random));
    case OPERATION_RANDOM_ROTATION:
        return s_rotation (self, operation, &random);
    case OPERATION_RANDOM_AFFINE:
        return s_affine (self, operation, &random);
    case OPERATION_RANDOM_PERSPECTIVE:
        return s_perspective (self, operation, &random);
    case OPERATION_RANDOM_CHOICE:
        return json_pack ("{s:I}", "chosen", (json_int_t) geometry_choose_part (operation, &random) + 1);
    case OPERATION_RANDOM_ORDER:
        return s_order (operation, &random);
    case OPERATION_RAND_AUGMENT:
    case OPERATION_TRIVIAL_AUGMENT_WIDE:
    case OPERATION_AUTO_AUGMENT:
        return s_augment (self, operation, &random);
    case OPERATION_AUG_MIX:
        return s_aug_mix (self, operation, &random);
    case OPERATION_RANDOM_ERASING:
        return s_erasing (self, operation, &random);
    case OPERATION_EXCERPT:
        return operation->excerpt.random? json_pack ("{s:f}", "place", keyed_random_uniform (&random))
            : json_object ();
    case OPERATION_CUSTOM:
        return s_custom (self, operation, &random);
    case OPERATION_ELASTIC_TRANSFORM:       //  a number for each pixel is not told
    case OPERATION_VIEWS:
    case OPERATION_NORMALIZE:
    case OPERATION_CAST:
    case OPERATION_LAYOUT:
    case OPERATION_KINDS:
        break;
    }
    return json_object ();
}

//  ---- the list

static bool
s_is_of_colours (const operation_t *operation)
{
    operation_kind_t kind = operation->kind;
    return (kind >= OPERATION_COLOR_JITTER && kind <= OPERATION_PILLOW_GAUSSIAN_BLUR)
        || kind == OPERATION_AUG_MIX || (kind >= OPERATION_NORMALIZE && kind <= OPERATION_RANDOM_ERASING);
}

//  A file beside the images is read, and nothing else is done to it; boxes follow as masks do.
static bool
s_is_done_on (const walk_t *self, const operation_t *operation, const plan_plane_t *plane)
{
    bool is_boxes = plane->tensor && plane->tensor->as == DECODE_BOXES;
    if (plane->tensor && !is_boxes && self->plan->operations [0].decode.image_count)
        return operation->kind == OPERATION_DECODE;
    return !(plane->is_mask || is_boxes) || !s_is_of_colours (operation);
}

//  The fields' names are those of the first view's outputs.
static void
s_append (walk_t *self, const operation_t *operation, bool is_shared, json_t *parameters)
{
    json_t *none = json_object ();
    for (size_t index = 0; index < self->plan->plane_count; index++) {
        const plan_plane_t *plane = &self->plan->planes [index];
        if (plane->view > 0 || !s_is_done_on (self, operation, plane))
            continue;
        bool is_read = plane->tensor && operation->kind == OPERATION_DECODE;
        json_array_append_new (self->array,
            json_pack ("{s:s,s:s,s:I,s:s,s:O}", "op", operation_name (operation), "field",
            pipeline_output (self->pipeline, plane->output)->name, "view", (json_int_t) self->view, "stage",
            is_shared? "shared": "private", "parameters", is_read? none: parameters));
    }
    json_decref (none);
    json_decref (parameters);
}

//  The operations [begin, end), of one stage, for one view.
static bool
s_walk_stage (walk_t *self, size_t begin, size_t end, bool is_shared)
{
    const pipeline_key_t *key = is_shared? &self->sample->shared_key: &self->sample->private_key;
    geometry_chosen_t chosen = geometry_choose (self->plan->operations, begin, end, key, self->view);
    for (size_t index = 0; index < chosen.count; index++) {
        const operation_t *operation = &self->plan->operations [chosen.operations [index]];
        json_t *parameters = s_parameters (self, operation, key);
        if (!parameters)
            return false;
        s_append (self, operation, is_shared, parameters);
        if (self->height == UINT32_MAX || self->width == UINT32_MAX) {
            snprintf (self->error, self->error_bytes,
                "%s would make an image with a side of more than %u pixels",
                operation_name (operation), UINT32_MAX - 1);
            return false;
        }
    }
    return true;
}

static bool
s_walk (walk_t *self, size_t begin, size_t end)
{
    size_t shared = self->plan->shared_count;
    shared = shared < begin? begin: shared < end? shared: end;
    return s_walk_stage (self, begin, shared, true) && s_walk_stage (self, shared, end, false);
}

json_t *
decoder_describe (const pipeline_t *pipeline, const decoder_described_t *sample, char *error,
    size_t error_bytes)
{
    assert (pipeline && sample && error && error_bytes > 0);
    *error = 0;
    walk_t walk = {
        .pipeline = pipeline, .plan = pipeline_plan (pipeline), .sample = sample, .array = json_array (),
        .error = error,
        .error_bytes = error_bytes, .height = sample->height, .width = sample->width
    };
    const plan_t *plan = walk.plan;
    size_t parts = plan->views_at < plan->count? plan->views_at + 1: plan->count;
    bool good = s_walk (&walk, 0, parts);
    walk_t common = walk;
    for (uint32_t view = 0; view < plan->views && good && parts < plan->count; view++) {
        walk = common;
        walk.view = view;
        good = s_walk (&walk, parts, plan->count);
    }
    if (good)
        return walk.array;
    json_decref (walk.array);
    return NULL;
}
