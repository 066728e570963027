#include "plan.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "decode_request.h"
#include "image_codec.h"
#include "geometry.h"

enum { PLANE_ALIGNMENT = 64 };
_Static_assert (PLAN_HEADER_BYTES >= sizeof (plan_size_t) && PLAN_HEADER_BYTES % PLANE_ALIGNMENT == 0,
    "a header fits, and pixels behind it are aligned");

//  ---------------------------------------------------------------------------------------------------------
//  Sizes

static int
s_check_sides (const operation_t *operation, uint64_t height, uint64_t width, const complaint_t *complaint)
{
    if (height <= PIPELINE_SIDE_MAX && width <= PIPELINE_SIDE_MAX)
        return 0;
    return operation_refuse (operation, complaint, "makes an image of %llu x %llu; expected sides up to %d",
        (unsigned long long) height, (unsigned long long) width, PIPELINE_SIDE_MAX);
}

static int
s_follow_resize (const operation_t *resize, plan_images_t *images, const complaint_t *complaint)
{
    plan_size_t size = { resize->height, resize->width };
    if (resize->resize.shorter_side && !images->size.height) {
        images->side_max = resize->resize.side_max;
        images->pixels_max = images->side_max * resize->height;
        return 0;
    }
    if (resize->resize.shorter_side)
        geometry_resize (resize, images->size.height, images->size.width, &size.height, &size.width);
    *images = (plan_images_t) { .size = size };
    return s_check_sides (resize, size.height, size.width, complaint);
}

//  Mirrors of an image that is known: as torch's, within its sides.
static int
s_check_border (const operation_t *pad, plan_size_t size, const complaint_t *complaint)
{
    const uint32_t *border = pad->pad.border;
    uint32_t spared = pad->pad.mode == PAD_REFLECT;     //  symmetric repeats the edge, reflect does not
    if (!size.height || (pad->pad.mode != PAD_REFLECT && pad->pad.mode != PAD_SYMMETRIC))
        return 0;
    if (border [0] + spared <= size.width && border [2] + spared <= size.width
    &&  border [1] + spared <= size.height && border [3] + spared <= size.height)
        return 0;
    return operation_refuse (pad, complaint, "\"padding\" mirrors more than the image of %u x %u has; "
        "expected up to %u above and below and up to %u at the sides", size.height, size.width,
        size.height - spared, size.width - spared);
}

static int
s_follow_pad (const operation_t *pad, plan_images_t *images, const complaint_t *complaint)
{
    const uint32_t *border = pad->pad.border;
    uint32_t across = border [0] + border [2], down = border [1] + border [3];
    int rc = s_check_border (pad, images->size, complaint);
    if (rc)
        return rc;
    if (images->size.height) {
        images->size.height += down;
        images->size.width += across;
        return s_check_sides (pad, images->size.height, images->size.width, complaint);
    }
    if (!images->pixels_max)
        return 0;
    //  (h + down) (w + across), with each term at its largest.
    images->pixels_max += (across + down) * images->side_max + (uint64_t) across * down;
    images->side_max += across > down? across: down;
    return 0;
}

static int
s_follow_random_crop (const operation_t *crop, plan_images_t *images, const complaint_t *complaint)
{
    const uint32_t *border = crop->pad.border;
    plan_size_t size = images->size;
    int rc = s_check_border (crop, size, complaint);
    if (rc)
        return rc;
    *images = (plan_images_t) { .size = { crop->height, crop->width } };
    bool fits = crop->height <= size.height + border [1] + border [3]
        && crop->width <= size.width + border [0] + border [2];
    if (!size.height || fits || crop->pad.if_needed)
        return 0;
    return operation_refuse (crop, complaint, "makes %u x %u of an image of %u x %u, padding not counted; "
        "expected a smaller \"size\", more \"padding\" or \"pad_if_needed\": true",
        crop->height, crop->width, size.height, size.width);
}

static int
s_follow_corner_crop (const operation_t *crop, plan_images_t *images, const complaint_t *complaint)
{
    plan_size_t size = images->size;
    *images = (plan_images_t) { .size = { crop->height, crop->width } };
    if (!size.height || (crop->height <= size.height && crop->width <= size.width))
        return 0;
    return operation_refuse (crop, complaint, "makes %u x %u of an image of %u x %u; expected a smaller "
        "\"size\"", crop->height, crop->width, size.height, size.width);
}

//  The result holds an image that was turned by any angle.
static int
s_follow_rotation (const operation_t *rotation, plan_images_t *images)
{
    //  More than any image may have: the stage makes none with more, and the private one is refused.
    const uint64_t most = DECODER_PIXELS_MAX + 1;
    if (!rotation->rotation.expand || (!images->size.height && !images->pixels_max))
        return 0;
    uint64_t side = images->size.height?
        (uint64_t) ceil (hypot (images->size.height, images->size.width)): 2 * images->side_max;
    side = side + 2 < most? side + 2: most;
    *images = (plan_images_t) { .side_max = side, .pixels_max = side < most / side? side * side: most };
    return 0;
}

static int
s_follow_one (const operation_t *operation, plan_images_t *images, const complaint_t *complaint)
{
    switch (operation->kind) {
        case OPERATION_RESIZE:
            return s_follow_resize (operation, images, complaint);
        case OPERATION_PAD:
            return s_follow_pad (operation, images, complaint);
        case OPERATION_RANDOM_CROP:
            return s_follow_random_crop (operation, images, complaint);
        case OPERATION_RANDOM_ROTATION:
            return s_follow_rotation (operation, images);
        case OPERATION_CORNER_CROP:
            return s_follow_corner_crop (operation, images, complaint);
        case OPERATION_CENTER_CROP:
        case OPERATION_CUSTOM:
        case OPERATION_RANDOM_RESIZED_CROP:
            *images = (plan_images_t) { .size = { operation->height, operation->width } };
            return 0;
        default:
            return 0;
    }
}

int
plan_follow (const operation_t *operations, size_t count, plan_images_t *images, const complaint_t *complaint)
{
    assert (count > 0 && operations [0].kind == OPERATION_DECODE && operations [0].decode.image_count > 0);
    uint64_t pixels_max = operations [0].decode.pixels_max;
    images [0] = (plan_images_t) { .pixels_max = pixels_max, .side_max = pixels_max };
    int rc = 0;
    for (size_t index = 1; !rc && index < count; index++) {
        images [index] = images [index - 1];
        rc = s_follow_one (&operations [index], &images [index], complaint);
    }
    if (rc || images [count - 1].size.height)
        return rc;
    complaint_t whole = *complaint;
    whole.place = ENTRY_NOT_SENT;
    return entry_complain (&whole,
        "images come out in different sizes; expected a center_crop, random_resized_crop, "
        "random_crop or a resize to [height, width]");
}

//  ---------------------------------------------------------------------------------------------------------
//  The share point

static int
s_check_places (const plan_t *self, const complaint_t *complaint)
{
    for (size_t index = 0; index < self->count; index++) {
        const operation_t *operation = &self->operations [index];
        if (index < self->shared_count && !operation_may_be_shared (operation))
            return operation_refuse (operation, complaint,
                "not supported before {\"share\": true}; expected it behind the mark");
        if (index >= self->shared_count && !operation_may_be_private (operation))
            return operation_refuse (operation, complaint,
                "not supported behind {\"share\": true}; expected it before the mark");
        if (index < self->shared_count && index + operation_span (operation) >= self->shared_count)
            return operation_refuse (operation, complaint,
                "{\"share\": true} among its operations; expected it before or behind all of them");
    }
    return 0;
}

static int
s_check_bound (const plan_t *self, const plan_images_t *images, const complaint_t *complaint)
{
    const plan_images_t *shared = &images [self->shared_count - 1];
    if (shared->size.height || shared->pixels_max)
        return 0;
    if (complaint->place != ENTRY_NOT_SENT)
        return entry_complain (complaint,
            "the images before {\"share\": true} differ in size, without a bound; "
            "expected a crop, a resize to [height, width] or with \"max_size\", or \"max_pixels\" in decode, "
            "before it");
    size_t blocking = self->shared_count;
    while (blocking + 1 < self->count && operation_is_shareable (&self->operations [blocking]))
        blocking++;
    return operation_refuse (&self->operations [blocking], complaint,
        "random and not shared, so the share point is before it, where images differ in size; "
        "expected \"share\": true in it or {\"share\": true} behind it (or \"max_pixels\" in decode)");
}

//  What could fail on some images must not be private: there a sample can no longer be found bad.
static int
s_check_private (const plan_t *self, const plan_images_t *images, const complaint_t *complaint)
{
    for (size_t index = self->shared_count; index < self->count; index++) {
        const operation_t *operation = &self->operations [index];
        bool differ = !images [index - 1].size.height;
        if (differ && operation->kind == OPERATION_RANDOM_CROP && !operation->pad.if_needed)
            return operation_refuse (operation, complaint, "private, behind images that differ in size; "
                "expected \"pad_if_needed\": true, or the share point behind it");
        if (differ && operation->kind == OPERATION_CORNER_CROP)
            return operation_refuse (operation, complaint, "private, behind images that differ in size; "
                "expected the share point behind it");
        if (differ && operation->kind == OPERATION_RESIZE && operation->resize.shorter_side
            && !operation->resize.side_max)
            return operation_refuse (operation, complaint, "private, behind images that differ in size; "
                "expected \"max_size\", \"size\" as [height, width], or the share point behind it");
        if (images [index].pixels_max > DECODER_PIXELS_MAX)
            return operation_refuse (operation, complaint,
                "private, and makes images of up to %llu pixels; expected %d "
                "at most, or the share point behind it", (unsigned long long) images [index].pixels_max,
                DECODER_PIXELS_MAX);
    }
    return 0;
}

static int
s_check_bytes (const plan_t *self, const complaint_t *complaint)
{
    size_t bytes = plan_version_bytes (self);
    if (bytes <= PIPELINE_SAMPLE_BYTES_MAX)
        return 0;
    complaint_t whole = *complaint;
    whole.place = ENTRY_NOT_SENT;
    return entry_complain (&whole, "a version, at the share point, takes %zu bytes; expected %d at most",
        bytes, PIPELINE_SAMPLE_BYTES_MAX);
}

//  ---------------------------------------------------------------------------------------------------------
//  Planes and formats

static void
s_append_plane (plan_t *self, plan_plane_t plane)
{
    assert (self->plane_count < PIPELINE_OUTPUTS_MAX);
    size_t end = plan_version_bytes (self);
    plane.offset = (end + PLANE_ALIGNMENT - 1) / PLANE_ALIGNMENT * PLANE_ALIGNMENT;
    self->planes [self->plane_count++] = plane;
}

//  Of the images: fields x views where the views are split already, else the fields.
static void
s_lay_out_images (plan_t *self, const plan_images_t *shared)
{
    const decode_request_t *decode = &self->operations [0].decode;
    uint32_t views = self->views_at < self->shared_count? self->views: 1;
    uint64_t pixels = shared->size.height? (uint64_t) shared->size.height * shared->size.width:
        shared->pixels_max;
    size_t header = shared->size.height? 0: PLAN_HEADER_BYTES;
    for (uint32_t view = 0; view < views; view++)
        for (size_t file = 0; file < decode->image_count; file++) {
            bool is_mask = decode->is_mask [file];
            uint32_t channels = !is_mask? IMAGE_COLOURS: decode->is_wide [file]? IMAGE_WIDE: 1;
            s_append_plane (self, (plan_plane_t) {
                .file = file, .output = (self->stacks? 0: view * decode->image_count) + file,
                .view = view, .is_mask = is_mask, .channels = channels, .bytes = header + pixels * channels
            });
        }
}

static uint64_t
s_tensor_bytes (const plan_t *self, const decode_tensor_t *tensor)
{
    uint64_t bytes = dtype_bytes (tensor->dtype);
    if (tensor->as == DECODE_AUDIO)
        return bytes * tensor->channels * self->operations [1].excerpt.length;
    //  Far above the limit already, it need not grow further, and over.
    for (uint32_t index = 0; index < tensor->dimensions && bytes <= PIPELINE_SAMPLE_BYTES_MAX; index++)
        bytes *= tensor->shape [index];
    return bytes;
}

//  In how many of so many views it is.
static uint32_t
s_views (const decode_tensor_t *tensor, uint32_t views)
{
    return tensor->as == DECODE_BOXES? views: 1;
}

//  How many outputs are made of it.
static size_t
s_count_tensor (const decode_tensor_t *tensor, uint32_t views)
{
    return (tensor->is_ragged? 2: 1) * (size_t) s_views (tensor, views);
}

static void
s_lay_out_tensors (plan_t *self)
{
    const decode_request_t *decode = &self->operations [0].decode;
    size_t output = (size_t) decode->image_count * (self->stacks? 1: self->views);
    for (size_t file = decode->image_count; file < decode->field_count; file++) {
        const decode_tensor_t *tensor = &decode->tensors [file];
        uint32_t views = self->views_at < self->shared_count? s_views (tensor, self->views): 1;
        for (uint32_t view = 0; view < views; view++)
            s_append_plane (self, (plan_plane_t) {
                .file = file, .output = output + 2 * view, .tensor = tensor, .view = view, .channels = 1,
                .bytes = (tensor->is_ragged? PLAN_COUNT_BYTES: 0) + s_tensor_bytes (self, tensor)
            });
        output += s_count_tensor (tensor, self->views);
    }
}

//  What the last operations say of the batch.
static finish_format_t
s_format (const operation_t *operations, size_t count)
{
    finish_format_t format = { .dtype = DTYPE_UINT8, .channels = IMAGE_COLOURS, .std = { 1, 1, 1 } };
    bool is_cast = false;
    for (size_t index = 0; index < count; index++) {
        const operation_t *operation = &operations [index];
        if (operation->kind == OPERATION_GRAYSCALE && operation->probability >= 1)
            format.channels = operation->grayscale.channels;
        if (operation->kind == OPERATION_LAYOUT)
            format.planar = operation->layout.planar;
        if (operation->kind == OPERATION_CAST) {
            is_cast = true;
            format.dtype = operation->cast.dtype;
        }
        if (operation->kind == OPERATION_NORMALIZE) {
            format.normalizes = true;
            format.reciprocal = operation->normalize.reciprocal;
            memcpy (format.mean, operation->normalize.mean, sizeof format.mean);
            memcpy (format.std, operation->normalize.std, sizeof format.std);
        }
    }
    if (format.normalizes && !is_cast)
        format.dtype = DTYPE_FLOAT32;
    return format;
}

static void
s_find_views (plan_t *self)
{
    self->views = 1;
    self->views_at = self->count;
    for (size_t index = 0; index < self->count; index++)
        if (self->operations [index].kind == OPERATION_VIEWS) {
            self->views_at = index;
            self->views = self->operations [index].views.count;
            self->stacks = self->operations [index].views.stacks;
        }
}

size_t
plan_version_bytes (const plan_t *self)
{
    const plan_plane_t *last = &self->planes [self->plane_count? self->plane_count - 1: 0];
    return self->plane_count? last->offset + last->bytes: 0;
}

int
plan_make (plan_t *self, const operation_t *operations, size_t count, size_t shared_count,
    const plan_images_t *images, const complaint_t *complaint)
{
    assert (shared_count > 0 && shared_count <= count);
    bool is_image = operations [0].decode.image_count > 0;
    *self = (plan_t) { .operations = operations, .count = count, .shared_count = shared_count };
    s_find_views (self);
    int rc = s_check_places (self, complaint);
    if (!rc && is_image)
        rc = s_check_bound (self, images, complaint);
    if (!rc && is_image)
        rc = s_check_private (self, images, complaint);
    if (rc)
        return rc;
    if (is_image) {
        self->format = s_format (operations, count);
        self->shared_size = images [shared_count - 1].size;
        self->output_size = images [count - 1].size;
        s_lay_out_images (self, &images [shared_count - 1]);
    }
    s_lay_out_tensors (self);
    return s_check_bytes (self, complaint);
}

//  ---------------------------------------------------------------------------------------------------------
//  Outputs

static void
s_push_dimension (pipeline_output_t *output, uint32_t side)
{
    output->shape [output->dimensions++] = side;
}

static pipeline_output_t
s_describe_image (const plan_t *self, bool is_mask, bool is_wide)
{
    const finish_format_t *format = &self->format;
    pipeline_output_t output = { .dtype = !is_mask? format->dtype: is_wide? DTYPE_UINT16: DTYPE_UINT8 };
    if (self->stacks)
        s_push_dimension (&output, self->views);
    if (!is_mask && format->planar)
        s_push_dimension (&output, format->channels);
    s_push_dimension (&output, self->output_size.height);
    s_push_dimension (&output, self->output_size.width);
    if (!is_mask && !format->planar)
        s_push_dimension (&output, format->channels);
    return output;
}

static void
s_name_output (pipeline_output_t *output, const char *field, uint32_t view, const char *end)
{
    if (view)
        snprintf (output->name, sizeof output->name, "%s_%u%s", field, view + 1, end);
    else
        snprintf (output->name, sizeof output->name, "%s%s", field, end);
}

//  One output, or two; returns how many.
static size_t
s_describe_tensor (const plan_t *self, size_t file, uint32_t view, const pipeline_source_t *source,
    pipeline_output_t outputs [2])
{
    static const char *const names [] = {
        [DECODE_BYTES] = "bytes", [DECODE_ARRAY] = "array", [DECODE_AUDIO] = "audio"
    };
    const decode_request_t *decode = &self->operations [0].decode;
    const decode_tensor_t *tensor = &decode->tensors [file];
    const char *name = decode->as == DECODE_IMAGE? source->fields [decode->fields [file]].name:
        names [tensor->as];
    outputs [0] = (pipeline_output_t) { .dtype = tensor->dtype, .is_ragged = tensor->is_ragged };
    s_name_output (&outputs [0], name, view, "");
    for (uint32_t index = 0; index < tensor->dimensions; index++)
        s_push_dimension (&outputs [0], tensor->shape [index]);
    if (tensor->as == DECODE_AUDIO) {
        s_push_dimension (&outputs [0], tensor->channels);
        s_push_dimension (&outputs [0], self->operations [1].excerpt.length);
    }
    if (!tensor->is_ragged)
        return 1;
    outputs [1] = (pipeline_output_t) { .dtype = DTYPE_INT64 };
    s_name_output (&outputs [1], name, view, "_length");
    return 2;
}

size_t
plan_count_outputs (const decode_request_t *decode, uint32_t views)
{
    size_t count = (size_t) decode->image_count * views;
    for (size_t file = decode->image_count; file < decode->field_count; file++)
        count += s_count_tensor (&decode->tensors [file], views);
    return count;
}

size_t
plan_outputs (const plan_t *self, const pipeline_source_t *source,
    pipeline_output_t outputs [PIPELINE_OUTPUTS_MAX], size_t *bytes_p)
{
    const decode_request_t *decode = &self->operations [0].decode;
    size_t count = 0;
    for (uint32_t view = 0; view < (self->stacks? 1: self->views); view++)
        for (size_t file = 0; file < decode->image_count; file++) {
            outputs [count] = s_describe_image (self, decode->is_mask [file], decode->is_wide [file]);
            s_name_output (&outputs [count++], source->fields [decode->fields [file]].name, view, "");
        }
    for (size_t file = decode->image_count; file < decode->field_count; file++)
        for (uint32_t view = 0; view < s_views (&decode->tensors [file], self->views); view++)
            count += s_describe_tensor (self, file, view, source, &outputs [count]);
    *bytes_p = 0;
    for (size_t index = 0; index < count; index++) {
        pipeline_output_t *output = &outputs [index];
        output->bytes = dtype_bytes (output->dtype);
        for (uint32_t axis = 0; axis < output->dimensions; axis++)
            output->bytes *= output->shape [axis];
        *bytes_p += output->bytes;
    }
    return count;
}

//  ---------------------------------------------------------------------------------------------------------
//  Cost

//  Nanoseconds for a pixel of three channels that an operation reads, and for one that it makes.
typedef struct { double read, made; } rate_t;

static const rate_t s_rates [OPERATION_KINDS] = {
    [OPERATION_VIEWS] = { 0, 3 },
    [OPERATION_RESIZE] = { 6, 8 },
    [OPERATION_CENTER_CROP] = { 0, 4 },
    [OPERATION_CORNER_CROP] = { 0, 2 },
    [OPERATION_RANDOM_RESIZED_CROP] = { 6, 8 },
    [OPERATION_RANDOM_CROP] = { 0, 6 },
    [OPERATION_PAD] = { 0, 6 },
    [OPERATION_FLIP] = { 0, 2 },
    [OPERATION_VERTICAL_FLIP] = { 0, 2 },
    [OPERATION_COLOR_JITTER] = { 0, 40 },
    [OPERATION_GRAYSCALE] = { 0, 4 },
    [OPERATION_INVERT] = { 0, 4 },
    [OPERATION_POSTERIZE] = { 0, 4 },
    [OPERATION_SOLARIZE] = { 0, 4 },
    [OPERATION_AUTOCONTRAST] = { 0, 16 },
    [OPERATION_EQUALIZE] = { 0, 16 },
    [OPERATION_ADJUST_SHARPNESS] = { 0, 10 },
    [OPERATION_GAUSSIAN_BLUR] = { 0, 8 },
    [OPERATION_PILLOW_GAUSSIAN_BLUR] = { 0, 40 },
    [OPERATION_RANDOM_ROTATION] = { 0, 45 },
    [OPERATION_RANDOM_AFFINE] = { 0, 45 },
    [OPERATION_RANDOM_PERSPECTIVE] = { 0, 40 },
    [OPERATION_ELASTIC_TRANSFORM] = { 0, 80 },
    [OPERATION_NORMALIZE] = { 0, 5 },
    [OPERATION_CAST] = { 0, 5 },
    [OPERATION_LAYOUT] = { 0, 5 },
    [OPERATION_RANDOM_ERASING] = { 0, 5 }
};
//  For each tap of a gaussian_blur, and for each deviation of an elastic_transform: two fields of eight taps.
static const double BLUR_TAP_NS = 1, FIELD_SIGMA_NS = 4;
//  A step of a policy, and what each chain of aug_mix takes beside its steps.
static const double STEP_NS = 25, CHAIN_NS = 6;

static double
s_made_ns (const operation_t *operation)
{
    double made = s_rates [operation->kind].made;
    switch (operation->kind) {
        //  They do nothing themselves; an operation of the operator's own has a limit of its own.
        case OPERATION_RANDOM_APPLY: case OPERATION_RANDOM_CHOICE: case OPERATION_RANDOM_ORDER:
        case OPERATION_CUSTOM: case OPERATION_EXCERPT:
            return 0;
        case OPERATION_GAUSSIAN_BLUR:
            return made + BLUR_TAP_NS * (operation->blur.kernel [0] + operation->blur.kernel [1]);
        case OPERATION_ELASTIC_TRANSFORM:
            return made + FIELD_SIGMA_NS * (operation->elastic.sigma [0] + operation->elastic.sigma [1]);
        case OPERATION_RAND_AUGMENT:
            return STEP_NS * operation->augment.steps;
        case OPERATION_TRIVIAL_AUGMENT_WIDE:
            return STEP_NS;
        case OPERATION_AUTO_AUGMENT:
            return 2 * STEP_NS;
        case OPERATION_AUG_MIX: {
            //  A depth that is left to chance is 3 at most.
            double depth = operation->augment.depth? operation->augment.depth: 3;
            return CHAIN_NS + operation->augment.chains * (CHAIN_NS + depth * STEP_NS);
        }
        default:
            assert (made > 0);                  //  a new operation would be free
            return made;
    }
}

//  Pixels behind an operation.
static double
s_pixels (const operation_t *operation, const plan_images_t *images, double before)
{
    if (images->size.height)
        return (double) images->size.height * images->size.width;
    double pixels = before;
    //  A picture that is half as wide again as it is high.
    if (operation->kind == OPERATION_RESIZE)
        pixels = 1.5 * operation->height * operation->height;
    else
    if (operation->kind == OPERATION_PAD) {
        const uint32_t *border = operation->pad.border;
        pixels = (sqrt (before) + border [0] + border [2]) * (sqrt (before) + border [1] + border [3]);
    }
    else
    if (operation->kind == OPERATION_RANDOM_ROTATION && operation->rotation.expand)
        pixels = 2 * before;
    return images->pixels_max? fmin (pixels, (double) images->pixels_max): pixels;
}

//  A random_choice does one of its parts: the others' operations, behind it, count nothing.
static void
s_choose (const operation_t *operations, size_t at, double ms [PIPELINE_OPERATIONS_MAX])
{
    const operation_t *choice = &operations [at];
    double most = 0;
    size_t first = at + 1, best = first, best_count = 0;
    for (uint32_t part = 0; part < choice->group.parts; part++) {
        double sum = 0;
        for (size_t index = 0; index < choice->group.counts [part]; index++)
            sum += ms [first + index];
        if (sum > most) {
            most = sum;
            best = first;
            best_count = choice->group.counts [part];
        }
        first += choice->group.counts [part];
    }
    for (size_t index = at + 1; index < first; index++)
        if (index < best || index >= best + best_count)
            ms [index] = 0;
}

plan_cost_t
plan_foresee (const plan_t *self, const plan_images_t *images)
{
    assert (self->count > 0 && self->count <= PIPELINE_OPERATIONS_MAX);
    double ms [PIPELINE_OPERATIONS_MAX] = { 0 }, before = PLAN_USUAL_PIXELS;
    uint32_t fields = self->operations [0].decode.image_count, views = 1;
    if (images [0].pixels_max)
        before = fmin (before, (double) images [0].pixels_max);
    for (size_t index = 1; fields > 0 && index < self->count; index++) {
        const operation_t *operation = &self->operations [index];
        double made = s_pixels (operation, &images [index], before);
        if (index == self->views_at)
            views = self->views;
        ms [index] = 1e-6 * fields * views
            * (before * s_rates [operation->kind].read + made * s_made_ns (operation));
        before = made;
    }
    //  The inner ones first.
    for (size_t index = self->count; index-- > 1;)
        if (self->operations [index].kind == OPERATION_RANDOM_CHOICE)
            s_choose (self->operations, index, ms);
    plan_cost_t cost = { 0 };
    for (size_t index = 1; index < self->count; index++) {
        *(index < self->shared_count? &cost.shared_ms: &cost.private_ms) += ms [index];
        if (ms [index] > cost.costliest_ms) {
            cost.costliest = index;
            cost.costliest_ms = ms [index];
        }
    }
    return cost;
}
