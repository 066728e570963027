/*  stage_model -- the simple model of a pipeline: the whole image is decoded, and every operation makes a
 *  whole new image of it, one after the other.  Nothing is put off, cut short or shared between views.
 */
#ifndef STAGE_MODEL_H
#define STAGE_MODEL_H
#include <stdio.h>
#include <string.h>
#include "augment.h"
#include "blur.h"
#include "decoder.h"
#include "geometry.h"
#include "image_reader.h"
#include "instrument.h"
#include "plan.h"
#include "remap.h"
#include "warp.h"

typedef struct {
    uint8_t *pixels;            //  malloc; NULL: the sample is bad
    uint32_t height;
    uint32_t width;
    uint32_t channels;
} model_image_t;

//  Which plane, and where its random numbers come from.
typedef struct {
    const plan_t *plan;
    pipeline_key_t shared;
    pipeline_key_t private;
    uint32_t view;
    bool is_mask;
} model_t;

static inline model_image_t
model_image (uint32_t height, uint32_t width, uint32_t channels)
{
    return (model_image_t) { malloc (image_bytes (height, width, channels) + 1), height, width, channels };
}

static inline image_t
model_view (const model_image_t *self)
{
    return (image_t) { self->pixels, (size_t) self->width * self->channels, self->height, self->width,
        self->channels };
}

static inline void
model_replace (model_image_t *self, model_image_t with)
{
    free (self->pixels);
    *self = with;
}

//  least_height, least_width: 0, or how small the whole image may come.
static inline model_image_t
model_read (const decoder_file_t *file, bool is_mask, uint32_t least_height, uint32_t least_width)
{
    image_reader_t *reader = image_reader_new ();
    image_reader_options_t options = { .is_mask = is_mask, .warnings_max = UINT32_MAX };
    char error [ERROR_BYTES];
    image_request_t request = { .least_height = least_height, .least_width = least_width };
    image_pixels_t pixels;
    int rc = image_reader_open (reader, &options, file->bytes, file->size, &request.box.height,
        &request.box.width, error, sizeof error);
    if (!rc)
        rc = image_reader_read (reader, &request, &pixels, error, sizeof error);
    if (rc)
        fail_msg ("the model cannot read the file: %s", error);
    model_image_t image = model_image (pixels.image.height, pixels.image.width, is_mask? 1: IMAGE_COLOURS);
    assert_int_equal (pixels.image.channels, image.channels);
    for (uint32_t row = 0; row < image.height; row++)
        memcpy (image.pixels + (size_t) row * image.width * image.channels, image_at (&pixels.image, row, 0),
            (size_t) image.width * image.channels);
    image_reader_destroy (&reader);
    return image;
}

static inline model_image_t
model_decode (const decoder_file_t *file, bool is_mask)
{
    return model_read (file, is_mask, 0, 0);
}

static inline model_image_t
model_decode_scaled (const decoder_file_t *file, uint32_t least_height, uint32_t least_width)
{
    return model_read (file, false, least_height, least_width);
}

//  Pixel (row, column) of the new image is (rows [row], columns [column]) of the old one; below 0: fill.
static inline INSTRUMENT_ROWS void
model_gather (model_image_t *self, const int64_t *rows, uint32_t height, const int64_t *columns,
    uint32_t width, const uint8_t *fill)
{
    model_image_t made = model_image (height, width, self->channels);
    uint8_t *at = made.pixels;
    for (uint32_t row = 0; row < height; row++)
        for (uint32_t column = 0; column < width; column++)
            for (uint32_t channel = 0; channel < self->channels; channel++) {
                bool inside = rows [row] >= 0 && columns [column] >= 0;
                size_t place = inside? (size_t) rows [row] * self->width + (size_t) columns [column]: 0;
                *at++ = inside? self->pixels [place * self->channels + channel]: fill [channel];
            }
    model_replace (self, made);
}

//  One axis of a crop or a border: where each of count pixels, the first at begin, comes from.
static inline int64_t *
model_axis (pad_mode_t mode, int64_t begin, uint32_t count, uint32_t side)
{
    int64_t *places = malloc ((count + 1) * sizeof *places);
    for (uint32_t index = 0; index < count; index++) {
        int64_t at = begin + index;
        places [index] = at >= 0 && at < side? at: geometry_border (mode, at, side);
    }
    return places;
}

static inline void
model_window (const model_t *self, const operation_t *operation, model_image_t *image,
    const geometry_window_t *window)
{
    uint8_t fill [IMAGE_COLOURS] = { 0 };
    pad_mode_t mode = PAD_CONSTANT;
    if (operation->kind != OPERATION_CENTER_CROP) {
        mode = operation->pad.mode;
        memcpy (fill, operation->pad.fill, sizeof fill);
        if (self->is_mask)
            fill [0] = operation->pad.mask_fill;
    }
    int64_t *rows = model_axis (mode, (int64_t) window->from.top - window->to_top, window->height,
        image->height);
    int64_t *columns = model_axis (mode, (int64_t) window->from.left - window->to_left, window->width,
        image->width);
    model_gather (image, rows, window->height, columns, window->width, fill);
    free (rows);
    free (columns);
}

static inline void
model_resize (const model_t *self, model_image_t *image, resize_filter_t filter, bool pillow13,
    uint32_t height, uint32_t width)
{
    resize_t *resize = resize_new ();
    model_image_t made = model_image (height, width, image->channels);
    image_t source = model_view (image);
    resize_span_t down = resize_whole (image->height, height), across = resize_whole (image->width, width);
    bool down_first = pillow13 && image->height > height
        && (double) image->height - height > 2 * ((double) image->width - width);
    bool good = resize_run (resize, self->is_mask? RESIZE_NEAREST: filter, down_first, &source, 0, 0, &down,
        &across, made.pixels, (size_t) width * image->channels);
    assert_true (good);
    resize_destroy (&resize);
    model_replace (image, made);
}

static inline void
model_flip (model_image_t *image, bool across)
{
    int64_t *rows = model_axis (PAD_CONSTANT, 0, image->height, image->height);
    int64_t *columns = model_axis (PAD_CONSTANT, 0, image->width, image->width);
    for (uint32_t row = 0; row < image->height && !across; row++)
        rows [row] = image->height - 1 - row;
    for (uint32_t column = 0; column < image->width && across; column++)
        columns [column] = image->width - 1 - column;
    model_gather (image, rows, image->height, columns, image->width, NULL);
    free (rows);
    free (columns);
}

static inline void
model_sharpen (model_image_t *image, double factor)
{
    model_image_t made = model_image (image->height, image->width, image->channels);
    image_t view = model_view (image);
    colour_sharpen (&view, factor, made.pixels, view.stride);
    model_replace (image, made);
}

static inline void
model_blur (const operation_t *operation, model_image_t *image, keyed_random_t *random)
{
    model_image_t made = model_image (image->height, image->width, image->channels);
    image_t view = model_view (image);
    double drawn = geometry_blur (operation, random);
    scratch_t room = { NULL, 0 };
    if (operation->kind == OPERATION_PILLOW_GAUSSIAN_BLUR)
        assert_true (blur_boxes (&view, drawn, &room, made.pixels));
    else {
        blur_kernel_t across = blur_kernel (operation->blur.kernel [0], drawn);
        blur_kernel_t down = blur_kernel (operation->blur.kernel [1], drawn);
        blur_convolve (&view, &across, &down, made.pixels);
    }
    scratch_free (&room);
    model_replace (image, made);
}

//  Of a mask: to the nearest, with a fill of its own.
static inline void
model_warp (const model_t *self, const operation_t *operation, model_image_t *image, const warp_t *warp)
{
    remap_affine_t affine = { .is_bilinear = operation->edge.is_bilinear && !self->is_mask && !warp->is_exact,
        .height = warp->height, .width = warp->width };
    const double half [6] = { -1, 0, image->width, 0, -1, image->height };
    memcpy (affine.matrix, warp->kind == WARP_HALF_TURN? half: warp->matrix, sizeof affine.matrix);
    affine.is_perspective = warp->is_perspective;
    memcpy (affine.vanishing, warp->vanishing, sizeof affine.vanishing);
    memcpy (affine.fill, operation->edge.fill, sizeof affine.fill);
    if (self->is_mask)
        affine.fill [0] = operation->edge.mask_fill;
    if (warp->kind == WARP_NOTHING)
        return;
    model_image_t made = model_image (warp->height, warp->width, image->channels);
    image_t view = model_view (image);
    remap_affine (&affine, &view, made.pixels);
    model_replace (image, made);
}

static inline void
model_elastic (const model_t *self, const operation_t *operation, model_image_t *image,
    keyed_random_t *random)
{
    float *field = malloc (warp_field_floats (image->height, image->width) * sizeof *field);
    warp_draw_field (operation, image->height, image->width, random, field);
    remap_elastic_t elastic = { .across = field, .down = field + (size_t) image->height * image->width,
        .is_bilinear = operation->edge.is_bilinear && !self->is_mask };
    memcpy (elastic.fill, operation->edge.fill, sizeof elastic.fill);
    if (self->is_mask)
        elastic.fill [0] = operation->edge.mask_fill;
    model_image_t made = model_image (image->height, image->width, image->channels);
    image_t view = model_view (image);
    remap_elastic (&elastic, &view, made.pixels);
    free (field);
    model_replace (image, made);
}

//  One step after the other, each over the whole image.
static inline void
model_run_colours (const colour_program_t *all, model_image_t *image)
{
    uint8_t *row = malloc ((size_t) image->width * image->channels + 64);
    for (size_t index = 0; index < all->count; index++) {
        colour_program_t one = { .steps = { all->steps [index] }, .count = 1 };
        image_t view = model_view (image);
        colour_measure (&one, &view, row);
        colour_pass_t pass;
        colour_begin (&pass, &one, one.count);
        for (uint32_t at = 0; at < image->height; at++)
            colour_run (&pass, image->pixels + at * view.stride, image->width);
    }
    free (row);
}

static inline void
model_colour (const operation_t *operation, model_image_t *image, keyed_random_t *random)
{
    colour_program_t all = { .count = 0 };
    assert_true (geometry_colour (operation, random, &all));
    model_run_colours (&all, image);
}

static inline void
model_steps (const model_t *self, const operation_t *operation, model_image_t *image,
    const augment_step_t *steps, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const augment_step_t *step = &steps [index];
        colour_program_t one = { .count = 0 };
        colour_kind_t kind;
        double factor;
        warp_t warp;
        if (augment_warp (step, image->height, image->width, &warp))
            model_warp (self, operation, image, &warp);
        else
        if (step->kind == AUGMENT_SHARPNESS && !self->is_mask)
            model_sharpen (image, 1 + step->magnitude);
        else
        if (augment_colour (step, &kind, &factor) && !self->is_mask) {
            assert_true (colour_add (&one, kind, factor));
            model_run_colours (&one, image);
        }
    }
}

static inline void
model_augment (const model_t *self, const operation_t *operation, model_image_t *image,
    keyed_random_t *random)
{
    augment_step_t steps [AUGMENT_STEPS_MAX];
    size_t count = augment_draw (operation, image->height, image->width, random, steps);
    model_steps (self, operation, image, steps, count);
}

static inline void
model_mix (const model_t *self, const operation_t *operation, model_image_t *image, keyed_random_t *random)
{
    augment_mix_t mix = augment_mix_draw (operation, image->height, image->width, random);
    size_t count = image_bytes (image->height, image->width, image->channels);
    float *sums = malloc ((count + 1) * sizeof *sums);
    for (size_t at = 0; at < count; at++)
        sums [at] = mix.original * image->pixels [at];
    for (uint32_t chain = 0; chain < mix.chains; chain++) {
        model_image_t copy = model_image (image->height, image->width, image->channels);
        memcpy (copy.pixels, image->pixels, count);
        model_steps (self, operation, &copy, mix.steps [chain], mix.lengths [chain]);
        for (size_t at = 0; at < count; at++)
            sums [at] += mix.weights [chain] * copy.pixels [at];
        free (copy.pixels);
    }
    for (size_t at = 0; at < count; at++)
        image->pixels [at] = (uint8_t) sums [at];
    free (sums);
}

static inline void
model_random_crop (const model_t *self, const operation_t *operation, model_image_t *image,
    keyed_random_t *random)
{
    geometry_window_t window;
    if (geometry_random_crop (operation, image->height, image->width, random, &window))
        model_window (self, operation, image, &window);
    else
        model_replace (image, (model_image_t) { NULL, 0, 0, 0 });
}

static inline void
model_random_resized_crop (const model_t *self, const operation_t *operation, model_image_t *image,
    keyed_random_t *random)
{
    image_box_t box = geometry_random_box (operation, image->height, image->width, random);
    geometry_window_t window = { .height = box.height, .width = box.width, .from = box };
    operation_t crop = { .kind = OPERATION_CENTER_CROP };
    model_window (self, &crop, image, &window);
    model_resize (self, image, operation->random_resized_crop.filter, operation->random_resized_crop.pillow13,
        operation->height, operation->width);
}

static inline void
model_step (const model_t *self, size_t index, model_image_t *image)
{
    const plan_t *plan = self->plan;
    const operation_t *operation = &plan->operations [index];
    const pipeline_key_t *key = index < plan->shared_count? &self->shared: &self->private;
    keyed_random_t random;
    keyed_random_init (&random, key, index < plan->views_at? 0: self->view, operation->place);
    uint32_t height, width;
    geometry_window_t window;
    warp_t warp;
    switch (operation->kind) {
    case OPERATION_RESIZE:
        geometry_resize (operation, image->height, image->width, &height, &width);
        model_resize (self, image, operation->resize.filter, operation->resize.pillow13, height, width);
        break;
    case OPERATION_CENTER_CROP:
        window = geometry_center_crop (operation->height, operation->width, image->height, image->width);
        model_window (self, operation, image, &window);
        break;
    case OPERATION_PAD:
        window = geometry_pad (operation, image->height, image->width);
        model_window (self, operation, image, &window);
        break;
    case OPERATION_RANDOM_RESIZED_CROP:
        model_random_resized_crop (self, operation, image, &random);
        break;
    case OPERATION_RANDOM_CROP:
        model_random_crop (self, operation, image, &random);
        break;
    case OPERATION_FLIP:
    case OPERATION_VERTICAL_FLIP:
        if (geometry_happens (operation, &random))
            model_flip (image, operation->kind == OPERATION_FLIP);
        break;
    case OPERATION_COLOR_JITTER:
    case OPERATION_GRAYSCALE:
    case OPERATION_INVERT:
    case OPERATION_POSTERIZE:
    case OPERATION_SOLARIZE:
    case OPERATION_AUTOCONTRAST:
    case OPERATION_EQUALIZE:
        if (!self->is_mask)
            model_colour (operation, image, &random);
        break;
    case OPERATION_RANDOM_ROTATION:
    case OPERATION_RANDOM_AFFINE:
    case OPERATION_RANDOM_PERSPECTIVE:
        warp = warp_draw (operation, image->height, image->width, &random);
        model_warp (self, operation, image, &warp);
        break;
    case OPERATION_ELASTIC_TRANSFORM:
        model_elastic (self, operation, image, &random);
        break;
    case OPERATION_RAND_AUGMENT:
    case OPERATION_TRIVIAL_AUGMENT_WIDE:
    case OPERATION_AUTO_AUGMENT:
        model_augment (self, operation, image, &random);
        break;
    case OPERATION_AUG_MIX:
        if (!self->is_mask)
            model_mix (self, operation, image, &random);
        break;
    case OPERATION_GAUSSIAN_BLUR:
    case OPERATION_PILLOW_GAUSSIAN_BLUR:
        if (!self->is_mask)
            model_blur (operation, image, &random);
        break;
    case OPERATION_ADJUST_SHARPNESS:
        if (!self->is_mask && geometry_happens (operation, &random))
            model_sharpen (image, operation->point.factor);
        break;
    default:                    //  views; and what the format says
        break;
    }
}

//  Where the parts of a group are done, of those that are; returns how many.
static inline size_t
model_parts (const operation_t *group, keyed_random_t *random, uint32_t parts [GROUP_PARTS_MAX])
{
    size_t count = group->group.parts;
    bool is_taken [GROUP_PARTS_MAX] = { false };
    if (group->kind == OPERATION_RANDOM_APPLY) {
        parts [0] = 0;
        return geometry_happens (group, random);
    }
    if (group->kind == OPERATION_RANDOM_CHOICE) {
        double sum = 0;
        for (size_t part = 0; part < count; part++)
            sum += group->group.weights [part];
        double left = keyed_random_uniform (random) * sum;
        for (parts [0] = 0; left >= group->group.weights [parts [0]]; parts [0]++)
            left -= group->group.weights [parts [0]];
        return 1;
    }
    for (size_t place = 0; place < count; place++) {
        uint64_t skip = count - place > 1? keyed_random_below (random, count - place): 0;
        uint32_t part = 0;
        for (; is_taken [part] || skip > 0; part++)
            skip -= !is_taken [part];
        is_taken [part] = true;
        parts [place] = part;
    }
    return count;
}

static inline void
model_range (const model_t *self, size_t begin, size_t end, model_image_t *image)
{
    for (size_t index = begin; index < end && image->pixels; index++) {
        const operation_t *operation = &self->plan->operations [index];
        const pipeline_key_t *key = index < self->plan->shared_count? &self->shared: &self->private;
        if (!operation_is_group (operation)) {
            model_step (self, index, image);
            continue;
        }
        keyed_random_t random;
        keyed_random_init (&random, key, index < self->plan->views_at? 0: self->view, operation->place);
        uint32_t parts [GROUP_PARTS_MAX];
        size_t count = model_parts (operation, &random, parts);
        for (size_t place = 0; place < count; place++) {
            size_t at = index + 1;
            for (uint32_t before = 0; before < parts [place]; before++)
                at += operation->group.counts [before];
            model_range (self, at, at + operation->group.counts [parts [place]], image);
        }
        index += operation_span (operation);
    }
}

//  The image behind the first count operations.
static inline model_image_t
model_run (const model_t *self, const decoder_file_t *file, size_t count)
{
    model_image_t image = model_decode (file, self->is_mask);
    model_range (self, 1, count, &image);
    return image;
}

//  What is in the batch; the caller frees it.
static inline uint8_t *
model_output (const model_t *self, const model_image_t *image, size_t *bytes_p)
{
    finish_format_t format = self->plan->format;
    if (self->is_mask) {
        format = (finish_format_t) { .dtype = DTYPE_UINT8, .channels = 1 };
        finish_format (&format);
    }
    *bytes_p = finish_bytes (&format, image->height, image->width);
    uint8_t *output = malloc (*bytes_p);
    image_t view = model_view (image);
    size_t stride = image->width * dtype_bytes (format.dtype) * (format.planar? 1: format.channels);
    finish_run (&format, &view, (finish_flips_t) { false, false }, NULL, NULL, output, stride);
    for (size_t index = 0; index < self->plan->count && !self->is_mask; index++) {
        const operation_t *operation = &self->plan->operations [index];
        keyed_random_t random;
        keyed_random_init (&random, &self->private, index < self->plan->views_at? 0: self->view,
            operation->place);
        image_box_t box;
        if (operation->kind == OPERATION_RANDOM_ERASING
        &&  geometry_erasing (operation, image->height, image->width, &random, &box))
            finish_fill (&format, image->height, image->width, &box, operation->erase.value, output);
    }
    return output;
}

#endif
