#include "geometry.h"
#include <assert.h>
#include <math.h>
#include <string.h>

enum { RANDOM_BOX_TRIES = 10 };

static uint32_t
s_side (uint64_t side)
{
    return side > UINT32_MAX? UINT32_MAX: side > 0? (uint32_t) side: 1;
}

void
geometry_resize (const operation_t *resize, uint32_t height, uint32_t width,
    uint32_t *new_height_p, uint32_t *new_width_p)
{
    assert (resize->kind == OPERATION_RESIZE);
    assert (height > 0);
    assert (width > 0);
    *new_height_p = resize->height;
    *new_width_p = resize->width;
    if (!resize->resize.shorter_side)
        return;
    //  int (size * long / short) in torchvision; a double rounds no such quotient up to a whole number.
    bool is_tall = height > width;
    uint64_t short_side = is_tall? width: height, long_side = is_tall? height: width;
    uint64_t new_short = resize->height, new_long = new_short * long_side / short_side;
    if (resize->resize.side_max && new_long > resize->resize.side_max) {
        new_short = resize->resize.side_max * new_short / new_long;
        new_long = resize->resize.side_max;
    }
    *new_height_p = s_side (is_tall? new_long: new_short);
    *new_width_p = s_side (is_tall? new_short: new_long);
}

//  ---------------------------------------------------------------------------------------------------------
//  Windows

//  One axis: `length` pixels of which the first shows pixel `first` of a source of side pixels.
static void
s_window (int64_t first, uint32_t length, uint32_t side, uint32_t *from_p, uint32_t *to_p, uint32_t *count_p)
{
    int64_t end = first + length < side? first + length: side, begin = first > 0? first: 0;
    *from_p = (uint32_t) begin;
    *to_p = (uint32_t) (begin - first);
    *count_p = end > begin? (uint32_t) (end - begin): 0;
}

static geometry_window_t
s_windows (int64_t top, int64_t left, uint32_t window_height, uint32_t window_width, uint32_t height,
    uint32_t width)
{
    geometry_window_t window = { .height = window_height, .width = window_width };
    s_window (top, window_height, height, &window.from.top, &window.to_top, &window.from.height);
    s_window (left, window_width, width, &window.from.left, &window.to_left, &window.from.width);
    return window;
}

static int64_t
s_center (uint32_t crop, uint32_t side)
{
    if (crop > side)
        return -(int64_t) ((crop - side) / 2);
    return (int64_t) rint ((side - crop) / 2.0);            //  half to even, as Python's round
}

geometry_window_t
geometry_center_crop (uint32_t crop_height, uint32_t crop_width, uint32_t height, uint32_t width)
{
    return s_windows (s_center (crop_height, height), s_center (crop_width, width),
        crop_height, crop_width, height, width);
}

bool
geometry_corner_crop (const operation_t *crop, uint32_t view, uint32_t height, uint32_t width,
    image_box_t *box_p, bool *is_mirrored_p)
{
    enum { CROPS = 5, MIDDLE = 4 };
    assert (crop->kind == OPERATION_CORNER_CROP);
    if (crop->height > height || crop->width > width)
        return false;
    uint32_t down = height - crop->height, across = width - crop->width, at = view % CROPS;
    geometry_window_t middle = geometry_center_crop (crop->height, crop->width, height, width);
    *box_p = at == MIDDLE? middle.from: (image_box_t) { at >= 2? down: 0, at % 2? across: 0, crop->height,
        crop->width };
    *is_mirrored_p = view >= CROPS;
    //  Back to where it is in the image as it was.
    if (*is_mirrored_p && crop->corner.mirrors_down)
        box_p->top = down - box_p->top;
    else
    if (*is_mirrored_p)
        box_p->left = across - box_p->left;
    return true;
}

geometry_window_t
geometry_pad (const operation_t *pad, uint32_t height, uint32_t width)
{
    assert (pad->kind == OPERATION_PAD);
    const uint32_t *border = pad->pad.border;
    return s_windows (-(int64_t) border [1], -(int64_t) border [0],
        height + border [1] + border [3], width + border [0] + border [2], height, width);
}

//  One axis of what a random crop is taken from: the source with its border.
typedef struct {
    uint64_t side;
    int64_t first;              //  what its first pixel shows of the source
} padded_t;

//  torchvision pads both ends by all that is missing, so there is room to draw the place.
static padded_t
s_padded (uint32_t side, uint32_t before, uint32_t behind, uint32_t crop, bool if_needed)
{
    padded_t padded = { (uint64_t) side + before + behind, -(int64_t) before };
    uint64_t missing = if_needed && padded.side < crop? crop - padded.side: 0;
    padded.side += 2 * missing;
    padded.first -= (int64_t) missing;
    return padded;
}

bool
geometry_random_crop (const operation_t *crop, uint32_t height, uint32_t width, keyed_random_t *random,
    geometry_window_t *window_p)
{
    assert (crop->kind == OPERATION_RANDOM_CROP);
    const uint32_t *border = crop->pad.border;
    padded_t down = s_padded (height, border [1], border [3], crop->height, crop->pad.if_needed);
    padded_t across = s_padded (width, border [0], border [2], crop->width, crop->pad.if_needed);
    if (down.side < crop->height || across.side < crop->width)
        return false;
    int64_t top = down.first, left = across.first;
    if (down.side > crop->height || across.side > crop->width) {
        top += (int64_t) keyed_random_below (random, down.side - crop->height + 1);
        left += (int64_t) keyed_random_below (random, across.side - crop->width + 1);
    }
    *window_p = s_windows (top, left, crop->height, crop->width, height, width);
    return true;
}

int64_t
geometry_border (pad_mode_t mode, int64_t at, uint32_t side)
{
    assert (side > 0);
    int64_t last = (int64_t) side - 1;
    if (at >= 0 && at <= last)
        return at;
    if (mode == PAD_CONSTANT)
        return -1;
    if (mode == PAD_EDGE || !last)
        return at < 0? 0: last;
    //  There and back again: symmetric shows the edges twice, reflect once.
    int64_t period = mode == PAD_REFLECT? 2 * last: 2 * (last + 1);
    int64_t place = at % period < 0? at % period + period: at % period;
    if (place <= last)
        return place;
    return mode == PAD_REFLECT? period - place: period - 1 - place;
}

//  ---------------------------------------------------------------------------------------------------------
//  random_resized_crop

//  The largest middle box with an allowed ratio.
static image_box_t
s_middle_box (const double ratio [2], uint32_t height, uint32_t width)
{
    image_box_t box = { .height = height, .width = width };
    double in_ratio = (double) width / height;
    if (in_ratio < ratio [0])
        box.height = (uint32_t) rint (width / ratio [0]);
    else
    if (in_ratio > ratio [1])
        box.width = (uint32_t) rint (height * ratio [1]);
    //  Where torchvision fails on a box of no pixels, take one row or column.
    box.height = box.height? box.height: 1;
    box.width = box.width? box.width: 1;
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

image_box_t
geometry_random_box (const operation_t *crop, uint32_t height, uint32_t width, keyed_random_t *random)
{
    assert (crop->kind == OPERATION_RANDOM_RESIZED_CROP);
    const double *scale = crop->random_resized_crop.scale, *ratio = crop->random_resized_crop.ratio;
    double log_least = log (ratio [0]), log_most = log (ratio [1]);
    for (int attempt = 0; attempt < RANDOM_BOX_TRIES; attempt++) {
        double share = scale [0] + (scale [1] - scale [0]) * keyed_random_uniform (random);
        double area = (double) height * width * share;
        double try_ratio = exp (log_least + (log_most - log_least) * keyed_random_uniform (random));
        double box_width = rint (sqrt (area * try_ratio));
        double box_height = rint (sqrt (area / try_ratio));
        if (!(box_width >= 1 && box_width <= width && box_height >= 1 && box_height <= height))
            continue;
        image_box_t box = { .height = (uint32_t) box_height, .width = (uint32_t) box_width };
        box.top = (uint32_t) keyed_random_below (random, height - box.height + 1);
        box.left = (uint32_t) keyed_random_below (random, width - box.width + 1);
        return box;
    }
    return s_middle_box (ratio, height, width);
}

resize_filter_t
geometry_random_filter (const operation_t *crop, keyed_random_t *random)
{
    assert (crop->kind == OPERATION_RANDOM_RESIZED_CROP);
    unsigned filter = crop->random_resized_crop.filter;
    if (filter != OPERATION_FILTER_RANDOM)
        return (resize_filter_t) filter;
    return keyed_random_below (random, 2) == 0? RESIZE_BILINEAR: RESIZE_BICUBIC;
}

//  ---------------------------------------------------------------------------------------------------------
//  Flips and colours

bool
geometry_happens (const operation_t *operation, keyed_random_t *random)
{
    double probability = operation->probability;
    assert (probability >= 0);
    if (probability <= 0 || probability >= 1)
        return probability > 0;
    return keyed_random_uniform (random) < probability;
}

double
geometry_blur (const operation_t *blur, keyed_random_t *random)
{
    assert (blur->kind == OPERATION_GAUSSIAN_BLUR || blur->kind == OPERATION_PILLOW_GAUSSIAN_BLUR);
    const double *range = blur->blur.range;
    return range [0] + (range [1] - range [0]) * keyed_random_uniform (random);
}

bool
geometry_erasing (const operation_t *erasing, uint32_t height, uint32_t width, keyed_random_t *random,
    image_box_t *box_p)
{
    assert (erasing->kind == OPERATION_RANDOM_ERASING);
    const double *scale = erasing->erase.scale, *ratio = erasing->erase.ratio;
    double log_least = log (ratio [0]), log_most = log (ratio [1]);
    *box_p = (image_box_t) { 0 };
    if (!geometry_happens (erasing, random))
        return false;
    for (int attempt = 0; attempt < RANDOM_BOX_TRIES; attempt++) {
        double share = scale [0] + (scale [1] - scale [0]) * keyed_random_uniform (random);
        double area = (double) height * width * share;
        double try_ratio = exp (log_least + (log_most - log_least) * keyed_random_uniform (random));
        double box_height = rint (sqrt (area * try_ratio)), box_width = rint (sqrt (area / try_ratio));
        if (!(box_height < height && box_width < width))
            continue;
        *box_p = (image_box_t) { .height = (uint32_t) box_height, .width = (uint32_t) box_width };
        box_p->top = (uint32_t) keyed_random_below (random, height - box_p->height + 1);
        box_p->left = (uint32_t) keyed_random_below (random, width - box_p->width + 1);
        return true;
    }
    return false;
}

bool
geometry_colour (const operation_t *operation, keyed_random_t *random, colour_program_t *program)
{
    static const colour_kind_t kinds [OPERATION_KINDS] = {
        [OPERATION_GRAYSCALE] = COLOUR_GREY, [OPERATION_INVERT] = COLOUR_INVERT,
        [OPERATION_POSTERIZE] = COLOUR_POSTERIZE, [OPERATION_SOLARIZE] = COLOUR_SOLARIZE,
        [OPERATION_AUTOCONTRAST] = COLOUR_AUTOCONTRAST, [OPERATION_EQUALIZE] = COLOUR_EQUALIZE
    };
    if (operation->kind == OPERATION_COLOR_JITTER)
        return geometry_jitter (operation, random, program);
    assert (kinds [operation->kind]);
    if (!geometry_happens (operation, random))
        return true;
    double factor = operation->kind == OPERATION_GRAYSCALE? 1: operation->point.factor;
    return colour_add (program, kinds [operation->kind], factor);
}

bool
geometry_jitter (const operation_t *jitter, keyed_random_t *random, colour_program_t *program)
{
    static const colour_kind_t kinds [JITTER_KINDS] = {
        [JITTER_BRIGHTNESS] = COLOUR_BRIGHTNESS, [JITTER_CONTRAST] = COLOUR_CONTRAST,
        [JITTER_SATURATION] = COLOUR_SATURATION, [JITTER_HUE] = COLOUR_HUE
    };
    assert (jitter->kind == OPERATION_COLOR_JITTER);
    size_t order [JITTER_KINDS], left [JITTER_KINDS] = { 0, 1, 2, 3 };
    for (size_t step = 0; step < JITTER_KINDS; step++) {
        size_t last = JITTER_KINDS - 1 - step, chosen = (size_t) keyed_random_below (random, last + 1);
        order [step] = left [chosen];
        for (size_t index = chosen; index < last; index++)
            left [index] = left [index + 1];
    }
    double factors [JITTER_KINDS] = { 0 };
    bool is_on [JITTER_KINDS];
    for (size_t kind = 0; kind < JITTER_KINDS; kind++) {
        double least = jitter->jitter.least [kind], most = jitter->jitter.most [kind];
        double neutral = kind == JITTER_HUE? 0: 1;
        is_on [kind] = least < neutral || most > neutral;
        if (is_on [kind])
            factors [kind] = least + (most - least) * keyed_random_uniform (random);
    }
    bool fits = true;
    for (size_t step = 0; fits && step < JITTER_KINDS; step++)
        if (is_on [order [step]])
            fits = colour_add (program, kinds [order [step]], factors [order [step]]);
    return fits;
}

//  ---------------------------------------------------------------------------------------------------------
//  Which operations are done

typedef struct {
    const operation_t *operations;
    const pipeline_key_t *key;
    uint32_t view;
    geometry_chosen_t chosen;
} draw_t;

uint32_t
geometry_choose_part (const operation_t *choice, keyed_random_t *random)
{
    assert (choice->kind == OPERATION_RANDOM_CHOICE);
    const double *weights = choice->group.weights;
    uint32_t last = 0;
    double sum = 0, until = 0;
    for (uint32_t part = 0; part < choice->group.parts; part++) {
        sum += weights [part];
        last = weights [part] > 0? part: last;
    }
    double at = keyed_random_uniform (random) * sum;
    for (uint32_t part = 0; part < last; part++) {
        until += weights [part];
        if (at < until)
            return part;
    }
    return last;
}

void
geometry_choose_order (const operation_t *order, keyed_random_t *random, uint32_t parts [GROUP_PARTS_MAX])
{
    assert (order->kind == OPERATION_RANDOM_ORDER);
    uint32_t left = order->group.parts;
    for (uint32_t part = 0; part < left; part++)
        parts [part] = part;
    for (uint32_t place = 0; left > 1; place++, left--) {
        uint32_t at = place + (uint32_t) keyed_random_below (random, left), taken = parts [at];
        memmove (&parts [place + 1], &parts [place], (at - place) * sizeof *parts);
        parts [place] = taken;
    }
}

static void s_append (draw_t *self, size_t begin, size_t end);

static void
s_append_part (draw_t *self, size_t group, uint32_t part)
{
    const operation_t *operation = &self->operations [group];
    size_t begin = group + 1;
    for (uint32_t before = 0; before < part; before++)
        begin += operation->group.counts [before];
    s_append (self, begin, begin + operation->group.counts [part]);
}

static void
s_append_group (draw_t *self, size_t group)
{
    const operation_t *operation = &self->operations [group];
    keyed_random_t random;
    keyed_random_init (&random, self->key, self->view, operation->place);
    uint32_t parts [GROUP_PARTS_MAX];
    if (operation->kind == OPERATION_RANDOM_APPLY) {
        if (geometry_happens (operation, &random))
            s_append_part (self, group, 0);
        return;
    }
    if (operation->kind == OPERATION_RANDOM_CHOICE) {
        s_append_part (self, group, geometry_choose_part (operation, &random));
        return;
    }
    geometry_choose_order (operation, &random, parts);
    for (uint32_t place = 0; place < operation->group.parts; place++)
        s_append_part (self, group, parts [place]);
}

//  As deep as groups stand in groups: less than PIPELINE_OPERATIONS_MAX.
static void
s_append (draw_t *self, size_t begin, size_t end)
{
    for (size_t index = begin; index < end; index++) {
        assert (self->chosen.count < PIPELINE_OPERATIONS_MAX);
        self->chosen.operations [self->chosen.count++] = (uint8_t) index;
        if (!operation_is_group (&self->operations [index]))
            continue;
        s_append_group (self, index);
        index += operation_span (&self->operations [index]);
    }
}

geometry_chosen_t
geometry_choose (const operation_t *operations, size_t begin, size_t end, const pipeline_key_t *key,
    uint32_t view)
{
    draw_t draw = { .operations = operations, .key = key, .view = view };
    s_append (&draw, begin, end);
    return draw.chosen;
}
