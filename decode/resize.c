#include "resize.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"

typedef struct {
    double scale;               //  source pixels for one of the result
    double reach;               //  of the filter, in source pixels
    uint32_t side;              //  of the source
} axis_plan_t;

void
resize_clear (resize_t *self)
{
    *self = (resize_t) { 0 };
}

void
resize_free (resize_t *self)
{
    scratch_t *buffers [] = {
        &self->across.starts, &self->across.weights, &self->across.exact,
        &self->down.starts, &self->down.weights, &self->down.exact, &self->rows, &self->sums
    };
    for (size_t index = 0; index < sizeof buffers / sizeof *buffers; index++)
        free (buffers [index]->data);
    resize_clear (self);
}

//  ---------------------------------------------------------------------------------------------------------
//  Weights

static axis_plan_t
s_plan (uint32_t side, uint32_t full)
{
    axis_plan_t plan = { .scale = (double) side / full, .side = side };
    plan.reach = plan.scale < 1? 1: plan.scale;
    return plan;
}

//  The source pixels [*from_p, *to_p) under the filter of pixel index of the result.
static void
s_span (const axis_plan_t *plan, uint32_t index, uint32_t *from_p, uint32_t *to_p)
{
    double center = (index + 0.5) * plan->scale;
    double from = center - plan->reach + 0.5, to = center + plan->reach + 0.5;
    *from_p = from < 0? 0: (uint32_t) from;
    *to_p = to > plan->side? plan->side: (uint32_t) to;
}

//  Taps that hold any span of the window, and no more than the source has.
static uint32_t
s_taps (const axis_plan_t *plan, uint32_t begin, uint32_t count)
{
    uint32_t taps = 1;
    for (uint32_t index = begin; index < begin + count; index++) {
        uint32_t from, to;
        s_span (plan, index, &from, &to);
        if (to - from > taps)
            taps = to - from;
    }
    return taps;
}

//  The weights of one pixel, normalised, then rounded to fixed point; they add up to about 1.
static void
s_weigh (const axis_plan_t *plan, uint32_t index, uint32_t from, uint32_t to, double *exact, int32_t *weights)
{
    double center = (index + 0.5) * plan->scale;
    double per_pixel = 1 / plan->reach;
    double total = 0;
    for (uint32_t pixel = from; pixel < to; pixel++) {
        double distance = fabs ((pixel - center + 0.5) * per_pixel);
        exact [pixel - from] = distance < 1? 1 - distance: 0;
        total += exact [pixel - from];
    }
    for (uint32_t pixel = from; pixel < to; pixel++) {
        double weight = total != 0? exact [pixel - from] / total: exact [pixel - from];
        weights [pixel - from] = (int32_t) (0.5 + weight * (1 << RESIZE_PRECISION));
    }
}

//  Fills the axis for pixels [begin, begin + count) of full.  A span that is shorter than taps gets zeros
//  behind it, or, at the source's end, before it, so that the inner loops have one length.
static bool
s_axis (resize_axis_t *self, uint32_t side, uint32_t full, uint32_t begin, uint32_t count)
{
    axis_plan_t plan = s_plan (side, full);
    self->taps = s_taps (&plan, begin, count);
    size_t weights_bytes = (size_t) count * self->taps * sizeof (int32_t);
    if (!scratch_need (&self->starts, count * sizeof (uint32_t))
    ||  !scratch_need (&self->weights, weights_bytes)
    ||  !scratch_need (&self->exact, self->taps * sizeof (double)))
        return false;
    memset (self->weights.data, 0, weights_bytes);
    uint32_t *starts = self->starts.data;
    int32_t *weights = self->weights.data;
    for (uint32_t index = 0; index < count; index++, weights += self->taps) {
        uint32_t from, to;
        s_span (&plan, begin + index, &from, &to);
        starts [index] = from < side - self->taps? from: side - self->taps;
        s_weigh (&plan, begin + index, from, to, self->exact.data, weights + (from - starts [index]));
    }
    return true;
}

//  ---------------------------------------------------------------------------------------------------------
//  The two passes

static inline uint8_t
s_round (int32_t sum)
{
    int32_t value = sum >> RESIZE_PRECISION;
    return (uint8_t) (value < 0? 0: value > UINT8_MAX? UINT8_MAX: value);
}

//  One row to the new width.
INSTRUMENT_ROWS static void
s_row_across (const resize_axis_t *axis, const uint8_t *restrict row, uint32_t count,
    uint8_t *restrict target)
{
    const uint32_t *starts = axis->starts.data;
    const int32_t *weights = axis->weights.data;
    uint32_t taps = axis->taps;
    for (uint32_t index = 0; index < count; index++, weights += taps, target += IMAGE_CHANNELS) {
        const uint8_t *from = row + (size_t) starts [index] * IMAGE_CHANNELS;
        int32_t red = 1 << (RESIZE_PRECISION - 1), green = red, blue = red;
        for (uint32_t tap = 0; tap < taps; tap++, from += IMAGE_CHANNELS) {
            red += from [0] * weights [tap];
            green += from [1] * weights [tap];
            blue += from [2] * weights [tap];
        }
        target [0] = s_round (red);
        target [1] = s_round (green);
        target [2] = s_round (blue);
    }
}

//  One row of the result from the taps rows that begin at rows; row by row, so that the loops vectorise.
INSTRUMENT_ROWS static void
s_row_down (const int32_t *weights, uint32_t taps, const uint8_t *rows, size_t row_bytes,
    int32_t *restrict sums, uint8_t *restrict target)
{
    for (size_t index = 0; index < row_bytes; index++)
        sums [index] = 1 << (RESIZE_PRECISION - 1);
    for (uint32_t tap = 0; tap < taps; tap++, rows += row_bytes) {
        const uint8_t *restrict row = rows;
        int32_t weight = weights [tap];
        for (size_t index = 0; index < row_bytes; index++)
            sums [index] += row [index] * weight;
    }
    for (size_t index = 0; index < row_bytes; index++)
        target [index] = s_round (sums [index]);
}

uint32_t
resize_rows (const image_t *source, uint32_t full_height, const image_box_t *window)
{
    axis_plan_t plan = s_plan (source->height, full_height);
    uint32_t from, to, unused;
    s_span (&plan, window->top, &from, &unused);
    s_span (&plan, window->top + window->height - 1, &unused, &to);
    return to - from;
}

bool
resize_run (resize_t *self, const image_t *source, uint32_t full_height, uint32_t full_width,
    const image_box_t *window, uint8_t *target, size_t target_stride)
{
    assert (source->height > 0 && source->width > 0);
    assert (window->height > 0 && window->top + window->height <= full_height);
    assert (window->width > 0 && window->left + window->width <= full_width);
    size_t row_bytes = image_bytes (1, window->width);
    if (!s_axis (&self->across, source->width, full_width, window->left, window->width)
    ||  !s_axis (&self->down, source->height, full_height, window->top, window->height))
        return false;
    //  The padding of the spans may reach a little further than the spans: take what the taps take.
    const uint32_t *starts = self->down.starts.data;
    uint32_t first = starts [0], last = starts [window->height - 1] + self->down.taps;
    if (!scratch_need (&self->rows, (last - first) * row_bytes)
    ||  !scratch_need (&self->sums, row_bytes * sizeof (int32_t)))
        return false;
    uint8_t *rows = self->rows.data;
    for (uint32_t row = first; row < last; row++)
        s_row_across (&self->across, image_at (source, row, 0), window->width,
            rows + (row - first) * row_bytes);
    instrument_written (rows, (last - first) * row_bytes);
    const int32_t *weights = self->down.weights.data;
    for (uint32_t row = 0; row < window->height; row++, weights += self->down.taps) {
        s_row_down (weights, self->down.taps, rows + (starts [row] - first) * row_bytes, row_bytes,
            self->sums.data, target + row * target_stride);
        instrument_written (target + row * target_stride, row_bytes);
    }
    return true;
}
