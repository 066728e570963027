#include "remap.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"

//  Pillow's fixed point: so many bits behind the point, for coordinates of less than FIXED_LIMIT.
enum { FIXED_BITS = 16, FIXED_ONE = 1 << FIXED_BITS, FIXED_LIMIT = 32768 };

//  Everything here is inlined with a constant number of channels, which makes a copy of a pixel two moves.
static inline void
s_copy_pixel (uint8_t *target, const uint8_t *pixel, uint32_t channels)
{
    memcpy (target, pixel, channels);
}

//  The columns [begin, end) of a row.
INSTRUMENT_ROWS static inline void
s_fill (const remap_affine_t *self, int64_t begin, int64_t end, uint32_t channels, uint8_t *row)
{
    uint8_t *target = row + begin * channels;
    bool is_even = channels == 1
        || (self->fill [0] == self->fill [1] && self->fill [1] == self->fill [2]);
    if (is_even)
        memset (target, self->fill [0], (size_t) (end - begin) * channels);
    else
        for (int64_t column = begin; column < end; column++, target += channels)
            s_copy_pixel (target, self->fill, channels);
}

//  ---------------------------------------------------------------------------------------------------------
//  Nearest, in fixed point

static int64_t
s_floor_divide (int64_t number, int64_t by)
{
    int64_t quotient = number / by;
    return quotient - (number % by != 0 && (number < 0) != (by < 0));
}

//  Cuts [begin, end) to those columns for which 0 <= first + column x step < limit; of none, [0, 0).
static void
s_keep_inside (int64_t first, int64_t step, int64_t limit, int64_t *begin, int64_t *end)
{
    int64_t from = 0, until = *end;
    if (step > 0) {
        from = -s_floor_divide (first, step);
        until = -s_floor_divide (first - limit, step);
    }
    else
    if (step < 0) {
        from = s_floor_divide (first - limit, -step) + 1;
        until = s_floor_divide (first, -step) + 1;
    }
    else
    if (first < 0 || first >= limit)
        until = 0;
    *begin = from > *begin? from: *begin;
    *end = until < *end? until: *end;
    if (*end <= *begin)
        *begin = *end = 0;
}

//  Where a row's pixels come from: column c shows (x + c across_x, y + c across_y), in fixed point.
typedef struct {
    int64_t x, y;
    int64_t across_x, across_y;
} walk_t;

INSTRUMENT_ROWS static inline void
s_walk_row (const remap_affine_t *self, const image_t *source, walk_t walk, uint32_t channels, uint8_t *row)
{
    int64_t begin = 0, end = self->width;
    s_keep_inside (walk.x, walk.across_x, (int64_t) source->width << FIXED_BITS, &begin, &end);
    s_keep_inside (walk.y, walk.across_y, (int64_t) source->height << FIXED_BITS, &begin, &end);
    s_fill (self, 0, begin, channels, row);
    s_fill (self, end, self->width, channels, row);
    int64_t x = walk.x + begin * walk.across_x, y = walk.y + begin * walk.across_y;
    uint8_t *target = row + begin * channels;
    for (int64_t column = begin; column < end; column++, target += channels) {
        size_t at = (size_t) (y >> FIXED_BITS) * source->stride + (size_t) (x >> FIXED_BITS) * channels;
        s_copy_pixel (target, source->pixels + at, channels);
        x += walk.across_x;
        y += walk.across_y;
    }
}

static int64_t
s_fix (double number)
{
    return (int64_t) floor (number * FIXED_ONE + 0.5);
}

static void
s_run_fixed (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    const double *m = self->matrix;
    walk_t walk = { .across_x = s_fix (m [0]), .across_y = s_fix (m [3]),
        .x = s_fix (m [2] + m [0] * 0.5 + m [1] * 0.5), .y = s_fix (m [5] + m [3] * 0.5 + m [4] * 0.5) };
    int64_t down_x = s_fix (m [1]), down_y = s_fix (m [4]);
    size_t row_bytes = image_bytes (1, self->width, source->channels);
    for (uint32_t row = 0; row < self->height; row++, target += row_bytes) {
        if (source->channels == 1)
            s_walk_row (self, source, walk, 1, target);
        else
        if (source->channels == IMAGE_WIDE)
            s_walk_row (self, source, walk, IMAGE_WIDE, target);
        else
            s_walk_row (self, source, walk, IMAGE_COLOURS, target);
        instrument_written (target, row_bytes);
        walk.x += down_x;
        walk.y += down_y;
    }
}

//  Whether a corner of the result is shown from near enough.
static bool
s_is_near (const double matrix [6], double x, double y)
{
    return fabs (x * matrix [0] + y * matrix [1] + matrix [2]) < FIXED_LIMIT
        && fabs (x * matrix [3] + y * matrix [4] + matrix [5]) < FIXED_LIMIT;
}

static bool
s_fits_fixed (const remap_affine_t *self)
{
    const double *m = self->matrix;
    return s_is_near (m, 0, 0) && s_is_near (m, self->width, self->height)
        && s_is_near (m, 0, self->height) && s_is_near (m, self->width, 0);
}

//  ---------------------------------------------------------------------------------------------------------
//  Nearest, in doubles

//  Pillow has a loop of its own for a map that turns and shears nothing, which adds up each axis by itself.
//  The loop of any other map does the same with steps of 0, so one serves both.
INSTRUMENT_ROWS static inline void
s_add_up_row (const remap_affine_t *self, const image_t *source, double x, double y, uint32_t channels,
    uint8_t *target)
{
    const double *m = self->matrix;
    for (uint32_t column = 0; column < self->width; column++, target += channels) {
        bool is_inside = x >= 0 && x < source->width && y >= 0 && y < source->height;
        s_copy_pixel (target, is_inside? image_at (source, (uint32_t) y, (uint32_t) x): self->fill, channels);
        x += m [0];
        y += m [3];
    }
}

static void
s_run_doubles (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    const double *m = self->matrix;
    bool is_straight = m [1] == 0 && m [3] == 0;
    double x = m [2] + (is_straight? 0: m [1] * 0.5) + m [0] * 0.5;
    double y = m [5] + m [4] * 0.5 + (is_straight? 0: m [3] * 0.5);
    size_t row_bytes = image_bytes (1, self->width, source->channels);
    for (uint32_t row = 0; row < self->height; row++, target += row_bytes) {
        if (source->channels == 1)
            s_add_up_row (self, source, x, y, 1, target);
        else
        if (source->channels == IMAGE_WIDE)
            s_add_up_row (self, source, x, y, IMAGE_WIDE, target);
        else
            s_add_up_row (self, source, x, y, IMAGE_COLOURS, target);
        instrument_written (target, row_bytes);
        x += m [1];
        y += m [4];
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Nearest, moved by whole pixels

//  Here all sums of s_run_doubles are exact, so rows are copied.
static bool
s_is_shift (const remap_affine_t *self)
{
    const double *m = self->matrix;
    return m [0] == 1 && m [1] == 0 && m [3] == 0 && m [4] == 1
        && fabs (m [2]) < FIXED_LIMIT && fabs (m [5]) < FIXED_LIMIT
        && m [2] == floor (m [2]) && m [5] == floor (m [5]);
}

static void
s_run_shift (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    int64_t left = (int64_t) self->matrix [2], top = (int64_t) self->matrix [5];
    int64_t begin = 0, end = self->width;
    s_keep_inside (left, 1, source->width, &begin, &end);
    size_t row_bytes = image_bytes (1, self->width, source->channels);
    for (int64_t row = 0; row < self->height; row++, target += row_bytes) {
        int64_t shown = top + row;
        bool is_inside = shown >= 0 && shown < source->height && begin < end;
        int64_t from = is_inside? begin: 0, until = is_inside? end: 0;
        if (source->channels == 1) {
            s_fill (self, 0, from, 1, target);
            s_fill (self, until, self->width, 1, target);
        }
        else {
            s_fill (self, 0, from, source->channels, target);
            s_fill (self, until, self->width, source->channels, target);
        }
        if (is_inside)
            memcpy (target + begin * source->channels,
                image_at (source, (uint32_t) shown, (uint32_t) (left + begin)),
                (size_t) (end - begin) * source->channels);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Bilinear

static inline uint32_t
s_clip (int64_t at, uint32_t side)
{
    return at < 0? 0: at < side? (uint32_t) at: side - 1;
}

static inline double
s_between (uint8_t one, uint8_t other, double part)
{
    return one + (other - one) * part;
}

//  The four pixels around (x, y), which is inside; beside the source its edge goes on.
static inline void
s_mix (const image_t *source, double x, double y, uint32_t channels, uint8_t *target)
{
    x -= 0.5;
    y -= 0.5;
    int64_t left = (int64_t) floor (x), top = (int64_t) floor (y);
    double across = x - (double) left, down = y - (double) top;
    const uint8_t *above = image_at (source, s_clip (top, source->height), 0);
    const uint8_t *below = image_at (source, s_clip (top + 1, source->height), 0);
    size_t one = (size_t) s_clip (left, source->width) * channels;
    size_t other = (size_t) s_clip (left + 1, source->width) * channels;
    for (uint32_t channel = 0; channel < channels; channel++) {
        double upper = s_between (above [one + channel], above [other + channel], across);
        double lower = s_between (below [one + channel], below [other + channel], across);
        target [channel] = (uint8_t) (upper + (lower - upper) * down);
    }
}

INSTRUMENT_ROWS static inline void
s_mix_row (const remap_affine_t *self, const image_t *source, uint32_t row, uint32_t channels,
    uint8_t *target)
{
    const double *m = self->matrix;
    double down_x = m [1] * (row + 0.5), down_y = m [4] * (row + 0.5);
    for (uint32_t column = 0; column < self->width; column++, target += channels) {
        double x = m [0] * (column + 0.5) + down_x + m [2], y = m [3] * (column + 0.5) + down_y + m [5];
        if (x >= 0 && x < source->width && y >= 0 && y < source->height)
            s_mix (source, x, y, channels, target);
        else
            s_copy_pixel (target, self->fill, channels);
    }
}

static void
s_run_bilinear (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    size_t row_bytes = image_bytes (1, self->width, source->channels);
    for (uint32_t row = 0; row < self->height; row++, target += row_bytes) {
        if (source->channels == 1)
            s_mix_row (self, source, row, 1, target);
        else
            s_mix_row (self, source, row, IMAGE_COLOURS, target);
        instrument_written (target, row_bytes);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Perspective

INSTRUMENT_ROWS static inline void
s_project_row (const remap_affine_t *self, const image_t *source, uint32_t row, uint32_t channels,
    uint8_t *target)
{
    const double *m = self->matrix;
    double down_x = m [1] * (row + 0.5), down_y = m [4] * (row + 0.5);
    double away = self->vanishing [1] * (row + 0.5);
    for (uint32_t column = 0; column < self->width; column++, target += channels) {
        double by = self->vanishing [0] * (column + 0.5) + away + 1;
        double x = (m [0] * (column + 0.5) + down_x + m [2]) / by;
        double y = (m [3] * (column + 0.5) + down_y + m [5]) / by;
        //  Not inside is what no number is, too.
        if (!(x >= 0 && x < source->width && y >= 0 && y < source->height))
            s_copy_pixel (target, self->fill, channels);
        else
        if (self->is_bilinear)
            s_mix (source, x, y, channels, target);
        else
            s_copy_pixel (target, image_at (source, (uint32_t) y, (uint32_t) x), channels);
    }
}

static void
s_run_perspective (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    size_t row_bytes = image_bytes (1, self->width, source->channels);
    for (uint32_t row = 0; row < self->height; row++, target += row_bytes) {
        if (source->channels == 1)
            s_project_row (self, source, row, 1, target);
        else
        if (source->channels == IMAGE_WIDE)
            s_project_row (self, source, row, IMAGE_WIDE, target);
        else
            s_project_row (self, source, row, IMAGE_COLOURS, target);
        instrument_written (target, row_bytes);
    }
}

void
remap_affine (const remap_affine_t *self, const image_t *source, uint8_t *target)
{
    assert (source->height && source->width);
    assert (source->channels == 1 || source->channels == IMAGE_COLOURS || !self->is_bilinear);
    for (size_t index = 0; index < 6; index++)
        assert (isfinite (self->matrix [index]));
    const double *m = self->matrix;
    if (self->is_perspective)
        s_run_perspective (self, source, target);
    else
    if (self->is_bilinear)
        s_run_bilinear (self, source, target);
    else
    if (s_is_shift (self))
        s_run_shift (self, source, target);
    else
    if ((m [1] == 0 && m [3] == 0) || !s_fits_fixed (self))
        s_run_doubles (self, source, target);
    else
        s_run_fixed (self, source, target);
}

//  ---------------------------------------------------------------------------------------------------------
//  Each pixel displaced

//  Where pixel `at` of a side is, in half sides from the middle: torch.linspace ((1 - side) / side,
//  (side - 1) / side, side) [at].
static float
s_middle (uint32_t side, uint32_t at)
{
    float first = (float) ((1.0 - side) / side), last = (float) ((side - 1.0) / side);
    if (side == 1)
        return first;
    float step = (last - first) / (float) (side - 1);
    return at < side / 2? fmaf (step, (float) at, first): fmaf (-step, (float) (side - 1 - at), last);
}

INSTRUMENT_ROWS static void
s_meet (const remap_elastic_t *self, const image_t *source, const elastic_places_t *places, size_t count,
    uint8_t *target)
{
    for (size_t index = 0; index < count; index++, target += source->channels) {
        float x = rintf (places->x [index]), y = rintf (places->y [index]);
        bool is_inside = x >= 0 && x < (float) source->width && y >= 0 && y < (float) source->height;
        memcpy (target, is_inside? image_at (source, (uint32_t) y, (uint32_t) x): self->fill,
            source->channels);
    }
}

static void
s_run_row (const remap_elastic_t *self, const image_t *source, const elastic_loops_t *loops, uint32_t row,
    uint8_t *target)
{
    float columns [ELASTIC_BLOCK], rows [ELASTIC_BLOCK];
    elastic_places_t places;
    for (uint32_t first = 0; first < source->width; first += ELASTIC_BLOCK) {
        uint32_t count = source->width - first < ELASTIC_BLOCK? source->width - first: ELASTIC_BLOCK;
        for (uint32_t index = 0; index < count; index++) {
            columns [index] = s_middle (source->width, first + index);
            rows [index] = s_middle (source->height, row);
        }
        size_t at = (size_t) row * source->width + first;
        loops->look (places.x, columns, self->across + at, (float) source->width / 2, count);
        loops->look (places.y, rows, self->down + at, (float) source->height / 2, count);
        uint8_t *pixels = target + (size_t) first * source->channels;
        if (self->is_bilinear)
            loops->mix (self, source, &places, count, pixels);
        else
            s_meet (self, source, &places, count, pixels);
    }
}

void
remap_elastic (const remap_elastic_t *self, const image_t *source, uint8_t *target)
{
    assert (source->height && source->width);
    assert (source->channels == 1 || source->channels == IMAGE_COLOURS || !self->is_bilinear);
    const elastic_loops_t *loops = &loops_chosen ()->elastic;
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    for (uint32_t row = 0; row < source->height; row++, target += row_bytes) {
        s_run_row (self, source, loops, row, target);
        instrument_written (target, row_bytes);
    }
}
