#include "picture.h"
#include <assert.h>
#include <math.h>

void
picture_init (picture_t *self, uint32_t height, uint32_t width, uint32_t channels)
{
    assert (height > 0 && width > 0);
    *self = (picture_t) {
        .height = height, .width = width, .channels = channels, .box = { .height = height, .width = width }
    };
}

void
picture_of (picture_t *self, const image_t *image)
{
    picture_init (self, image->height, image->width, image->channels);
    self->shown = self->box;
    self->have = (image_pixels_t) { .image = *image, .height = image->height, .width = image->width };
}

void
picture_supply (picture_t *self, const image_request_t *request, const image_pixels_t *pixels)
{
    assert (pixels->image.channels == self->channels);
    self->shown = request->box;
    self->have = *pixels;
}

//  ---------------------------------------------------------------------------------------------------------
//  The description

uint32_t
picture_height (const picture_t *self)
{
    return self->resizes? self->window.height: self->box.height;
}

uint32_t
picture_width (const picture_t *self)
{
    return self->resizes? self->window.width: self->box.width;
}

bool
picture_has_pixels (const picture_t *self)
{
    return self->have.image.pixels;
}

bool
picture_is_plain (const picture_t *self)
{
    return !self->resizes && !self->flips.across && !self->flips.down && self->colours.count == 0;
}

bool
picture_may_narrow (const picture_t *self)
{
    for (size_t index = 0; index < self->colours.count; index++)
        if (colour_is_measured (self->colours.steps [index].kind))
            return false;
    return true;
}

void
picture_narrow (picture_t *self, const image_box_t *box)
{
    //  Of what it is resized to, or of the source.
    image_box_t *taken = self->resizes? &self->window: &self->box;
    assert (box->height > 0 && box->top + box->height <= taken->height);
    assert (box->width > 0 && box->left + box->width <= taken->width);
    //  The box is in what is shown: flipped, it lies at the other end.
    taken->top += self->flips.down? taken->height - box->top - box->height: box->top;
    taken->left += self->flips.across? taken->width - box->left - box->width: box->left;
    taken->height = box->height;
    taken->width = box->width;
}

void
picture_resize (picture_t *self, resize_filter_t filter, bool pillow13, uint32_t height, uint32_t width)
{
    assert (picture_is_plain (self));
    assert (height > 0 && width > 0);
    int64_t rows_lost = (int64_t) self->box.height - height, columns_lost = (int64_t) self->box.width - width;
    self->down_first = pillow13 && rows_lost > 0 && rows_lost > 2 * columns_lost;
    self->resizes = true;
    self->filter = filter;
    self->full_height = height;
    self->full_width = width;
    self->window = (image_box_t) { .height = height, .width = width };
}

void
picture_flip (picture_t *self, bool across, bool down)
{
    self->flips.across ^= across;
    self->flips.down ^= down;
}

//  ---------------------------------------------------------------------------------------------------------
//  What it needs

//  Along one axis at full scale: side pixels become full.
static resize_span_t
s_span (uint32_t side, uint32_t full, uint32_t begin, uint32_t count)
{
    resize_span_t span = resize_whole (side, full);
    span.begin = begin;
    span.count = count;
    return span;
}

static resize_span_t
s_span_down (const picture_t *self)
{
    return s_span (self->box.height, self->full_height, self->window.top, self->window.height);
}

static resize_span_t
s_span_across (const picture_t *self)
{
    return s_span (self->box.width, self->full_width, self->window.left, self->window.width);
}

picture_need_t
picture_need (const picture_t *self, bool exact)
{
    picture_need_t need = { self->box, 1, 1 };
    if (!self->resizes)
        return need;
    resize_span_t down = s_span_down (self), across = s_span_across (self);
    uint32_t top, left;
    resize_needs (self->filter, &down, &top, &need.box.height);
    resize_needs (self->filter, &across, &left, &need.box.width);
    need.box.top += top;
    need.box.left += left;
    //  Another scale makes new values, which the nearest pixel must not be.
    if (!exact && self->filter != RESIZE_NEAREST) {
        need.down = fmin (1, (double) self->full_height / self->box.height);
        need.across = fmin (1, (double) self->full_width / self->box.width);
    }
    return need;
}

//  From the first of two spans' beginnings to the last of their ends.
static void
s_unite (uint32_t *begin_p, uint32_t *length_p, uint32_t begin, uint32_t length)
{
    uint32_t first = begin < *begin_p? begin: *begin_p;
    uint32_t end = begin + length > *begin_p + *length_p? begin + length: *begin_p + *length_p;
    *begin_p = first;
    *length_p = end - first;
}

picture_need_t
picture_need_both (const picture_need_t *one, const picture_need_t *other)
{
    picture_need_t both = { one->box, fmax (one->down, other->down), fmax (one->across, other->across) };
    s_unite (&both.box.top, &both.box.height, other->box.top, other->box.height);
    s_unite (&both.box.left, &both.box.width, other->box.left, other->box.width);
    return both;
}

image_request_t
picture_request (const picture_need_t *need)
{
    image_request_t request = { .box = need->box };
    //  Less a little: the quotient is rounded, and a whole number must stay one.
    const double little = 1e-6;
    if (need->down < 1 && need->across < 1) {
        request.least_height = (uint32_t) ceil (need->down * need->box.height - little);
        request.least_width = (uint32_t) ceil (need->across * need->box.width - little);
    }
    return request;
}

//  ---------------------------------------------------------------------------------------------------------
//  Where it finds that

//  At full scale: the pixels of the source in box, all of which are shown.
static image_t
s_shown (const picture_t *self, const image_box_t *box)
{
    const image_box_t *shown = &self->shown;
    assert (box->top >= shown->top && box->top + box->height <= shown->top + shown->height);
    assert (box->left >= shown->left && box->left + box->width <= shown->left + shown->width);
    image_box_t there = { box->top - shown->top, box->left - shown->left, box->height, box->width };
    return image_part (&self->have.image, &there);
}

static bool
s_is_scaled (const picture_t *self)
{
    const image_pixels_t *have = &self->have;
    return have->height != self->shown.height || have->width != self->shown.width
        || have->image.height != self->shown.height || have->image.width != self->shown.width;
}

image_t
picture_pixels (const picture_t *self)
{
    assert (!self->resizes);
    assert (!s_is_scaled (self));
    return s_shown (self, &self->box);
}

//  At another scale: where a span of the source that begins at begin lies in what there is of it.  shown
//  pixels of the source from shown_begin are `length` of `side` from `from`.  Of the span only the window is
//  left, and it is cut off where the pixels end: what is beyond does not reach into the window, but for
//  rounding.
static resize_span_t
s_scaled (resize_span_t span, uint32_t begin, uint32_t shown_begin, uint32_t shown, double from,
    double length, uint32_t side)
{
    double scale = length / shown, step = span.length * scale / span.full;
    double first = from + ((double) begin - shown_begin) * scale + span.begin * step;
    double last = fmin (first + span.count * step, side);
    first = fmax (first, 0);
    return (resize_span_t) { .side = side, .from = first, .length = last - first, .full = span.count,
        .count = span.count };
}

static picture_resample_t
s_resample_scaled (const picture_t *self)
{
    const image_pixels_t *have = &self->have;
    return (picture_resample_t) {
        .have = have->image,
        .down = s_scaled (s_span_down (self), self->box.top, self->shown.top, self->shown.height,
            have->top, have->height, have->image.height),
        .across = s_scaled (s_span_across (self), self->box.left, self->shown.left, self->shown.width,
            have->left, have->width, have->image.width)
    };
}

picture_resample_t
picture_resample (const picture_t *self)
{
    assert (self->resizes);
    if (s_is_scaled (self))
        return s_resample_scaled (self);
    picture_resample_t resample = { .down = s_span_down (self), .across = s_span_across (self) };
    picture_need_t need = picture_need (self, true);
    resample.have = s_shown (self, &need.box);
    resample.top = need.box.top - self->box.top;
    resample.left = need.box.left - self->box.left;
    return resample;
}
