#include "resize.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"

enum { RESIZE_MAGIC = 0x7e512e01 };

//  The weights of one axis.
typedef struct {
    scratch_t taps;             //  resize_taps_t [count]
    scratch_t weights;          //  int32_t [count * weights_each]
    scratch_t exact;            //  double [weights_each]: of one pixel, before rounding
} weights_t;

struct resize {
    uint32_t magic;
    weights_t across;
    weights_t down;
    scratch_t rows;             //  what is between the passes
    scratch_t work;             //  of resize_loops_avx2
    scratch_t columns;          //  uint32_t [across.count]: where the nearest pixels are
};

resize_t *
resize_new (void)
{
    resize_t *self = calloc (1, sizeof *self);
    if (self)
        self->magic = RESIZE_MAGIC;
    return self;
}

void
resize_destroy (resize_t **self_p)
{
    resize_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == RESIZE_MAGIC);
    self->magic = 0;
    weights_t *both [] = { &self->across, &self->down };
    for (int index = 0; index < 2; index++) {
        scratch_free (&both [index]->taps);
        scratch_free (&both [index]->weights);
        scratch_free (&both [index]->exact);
    }
    scratch_free (&self->rows);
    scratch_free (&self->work);
    scratch_free (&self->columns);
    free (self);
    *self_p = NULL;
}

size_t
resize_kept_bytes (const resize_t *self)
{
    return self->rows.bytes;
}

resize_span_t
resize_whole (uint32_t side, uint32_t full)
{
    return (resize_span_t) { .side = side, .from = 0, .length = side, .full = full, .begin = 0,
        .count = full };
}

//  ---------------------------------------------------------------------------------------------------------
//  Which source pixels: Pillow's arithmetic in doubles, step by step

typedef struct {
    double scale;               //  source pixels for one of the result
    double stretch;             //  of the filter
    double reach;               //  of the filter to each side, in source pixels
} lens_t;

static lens_t
s_lens (resize_filter_t filter, const resize_span_t *span)
{
    lens_t lens = { .scale = span->length / span->full };
    lens.stretch = lens.scale < 1? 1: lens.scale;
    lens.reach = (filter == RESIZE_BICUBIC? 2.0: 1.0) * lens.stretch;
    return lens;
}

static inline double
s_center (const lens_t *lens, const resize_span_t *span, uint32_t index)
{
    return span->from + (index + 0.5) * lens->scale;
}

//  The taps under the filter of the pixel that is centred at center.
static inline resize_taps_t
s_taps (const lens_t *lens, const resize_span_t *span, double center)
{
    double from = center - lens->reach + 0.5, to = center + lens->reach + 0.5;
    uint32_t first = from < 0? 0: (uint32_t) from;
    uint32_t end = to > span->side? span->side: (uint32_t) to;
    return (resize_taps_t) { first, end - first };
}

//  Of NEAREST: the sums of many steps, as Pillow has them, not products: they may differ where a middle falls
//  on a border.  Returns the source pixel of position and takes a step.
static inline uint32_t
s_step (const resize_span_t *span, double scale, double *position)
{
    double at = *position;
    *position += scale;
    uint32_t pixel = at < 0? 0: (uint32_t) at;
    return pixel < span->side? pixel: span->side - 1;
}

static double
s_walk_to (const resize_span_t *span, double scale)
{
    double position = span->from + scale * 0.5;
    for (uint32_t index = 0; index < span->begin; index++)
        position += scale;
    return position;
}

//  The source's pixels as they are: then nothing is weighed, and no filter would change them.
static bool
s_is_copy (const resize_span_t *span)
{
    return span->length == span->full && span->from == floor (span->from);
}

static void
s_check_span (const resize_span_t *span)
{
    assert (span->count > 0 && span->begin < span->full && span->count <= span->full - span->begin);
    assert (span->from >= 0 && span->length > 0);
    //  A reduced scale's last pixel may be cut off: what matters is that no filter is wholly outside.
    assert (span->from + span->length <= span->side + 0.5);
}

void
resize_needs (resize_filter_t filter, const resize_span_t *span, uint32_t *first_p, uint32_t *count_p)
{
    s_check_span (span);
    if (s_is_copy (span)) {
        *first_p = (uint32_t) span->from + span->begin;
        *count_p = span->count;
        return;
    }
    lens_t lens = s_lens (filter, span);
    if (filter == RESIZE_NEAREST) {
        double position = s_walk_to (span, lens.scale);
        uint32_t last = *first_p = s_step (span, lens.scale, &position);
        for (uint32_t index = 1; index < span->count; index++)
            last = s_step (span, lens.scale, &position);
        *count_p = last + 1 - *first_p;
        return;
    }
    resize_taps_t first = s_taps (&lens, span, s_center (&lens, span, span->begin));
    resize_taps_t last = s_taps (&lens, span, s_center (&lens, span, span->begin + span->count - 1));
    *first_p = first.first;
    *count_p = last.first + last.count - first.first;
}

//  ---------------------------------------------------------------------------------------------------------
//  Weights

static inline double
s_weight (resize_filter_t filter, double distance)
{
    double x = fabs (distance);
    double triangle = x < 1? 1 - x: 0;
    if (filter == RESIZE_BILINEAR)
        return triangle;
    //  Pillow's a = -0.5, in its order of operations.
    if (x < 1)
        return ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1;
    return x < 2? (((x - 5) * x + 8) * x - 4) * -0.5: 0;
}

//  The weights of one pixel, normalised, then rounded to fixed point.
static inline void
s_weigh (resize_filter_t filter, double shrink, double center, resize_taps_t taps, double *exact,
    int32_t *weights)
{
    double total = 0;
    for (uint32_t tap = 0; tap < taps.count; tap++) {
        exact [tap] = s_weight (filter, (taps.first + tap - center + 0.5) * shrink);
        total += exact [tap];
    }
    for (uint32_t tap = 0; tap < taps.count; tap++) {
        double weight = total != 0? exact [tap] / total: exact [tap];
        assert (fabs (weight) < RESIZE_WEIGHT_MAX);
        weights [tap] = (int32_t) (weight * (1 << RESIZE_PRECISION) + (weight < 0? -0.5: 0.5));
    }
    if (taps.count % 2)
        weights [taps.count] = 0;
}

//  Fills the axis; its taps count from origin.  False if there is no memory.
static bool
s_axis (weights_t *self, resize_filter_t filter, const resize_span_t *span, uint32_t origin,
    resize_axis_t *axis)
{
    lens_t lens = s_lens (filter, span);
    //  As many pixels as there may be under the filter, one more where the sums below are rounded, and an
    //  even number.
    double most = ceil (2 * lens.reach) + 1;
    uint32_t weights_each = ((most < span->side? (uint32_t) most: span->side) + 1) / 2 * 2;
    if (!scratch_need (&self->taps, span->count * sizeof (resize_taps_t))
    ||  !scratch_need (&self->weights, (size_t) span->count * weights_each * sizeof (int32_t))
    ||  !scratch_need (&self->exact, weights_each * sizeof (double)))
        return false;
    resize_taps_t *taps = self->taps.data;
    int32_t *weights = self->weights.data;
    *axis = (resize_axis_t) { span->count, weights_each, taps, weights };
    for (uint32_t index = 0; index < span->count; index++, weights += weights_each) {
        double center = s_center (&lens, span, span->begin + index);
        taps [index] = s_taps (&lens, span, center);
        assert (taps [index].count > 0 && taps [index].count <= weights_each);
        s_weigh (filter, 1 / lens.stretch, center, taps [index], self->exact.data, weights);
        taps [index].first -= origin;
    }
    return true;
}

//  ---------------------------------------------------------------------------------------------------------
//  The two passes in portable C

enum {
    HALF = 1 << (RESIZE_PRECISION - 1),
    PIECE = 1024                //  columns that are summed before the next
};

static inline uint8_t
s_clip (int32_t sum)
{
    int32_t value = sum >> RESIZE_PRECISION;
    return (uint8_t) (value < 0? 0: value > UINT8_MAX? UINT8_MAX: value);
}

//  Two rows at once, which may be the same one: a weight is fetched once for both.
INSTRUMENT_ROWS static inline void
s_rows_across (const resize_axis_t *axis, const uint8_t *upper, const uint8_t *lower, uint32_t channels,
    uint8_t *upper_target, uint8_t *lower_target)
{
    const int32_t *weights = axis->weights;
    for (uint32_t index = 0; index < axis->count; index++, weights += axis->weights_each) {
        size_t from = (size_t) axis->taps [index].first * channels, to = (size_t) index * channels;
        int32_t upper_sums [IMAGE_COLOURS] = { HALF, HALF, HALF },
            lower_sums [IMAGE_COLOURS] = { HALF, HALF, HALF };
        for (uint32_t tap = 0; tap < axis->taps [index].count; tap++, from += channels)
            for (uint32_t channel = 0; channel < channels; channel++) {
                upper_sums [channel] += upper [from + channel] * weights [tap];
                lower_sums [channel] += lower [from + channel] * weights [tap];
            }
        for (uint32_t channel = 0; channel < channels; channel++) {
            upper_target [to + channel] = s_clip (upper_sums [channel]);
            lower_target [to + channel] = s_clip (lower_sums [channel]);
        }
    }
}

static void
s_across_portable (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride)
{
    for (uint32_t row = 0; row < source->height; row += 2) {
        uint32_t next = row + 1 < source->height? row + 1: row;
        const uint8_t *upper = image_at (source, row, 0), *lower = image_at (source, next, 0);
        uint8_t *upper_target = target + row * target_stride, *lower_target = target + next * target_stride;
        if (source->channels == 1)
            s_rows_across (axis, upper, lower, 1, upper_target, lower_target);
        else
            s_rows_across (axis, upper, lower, IMAGE_COLOURS, upper_target, lower_target);
    }
}

//  Up to PIECE columns of one row, two taps at a time.  The sums stay in the nearest cache.
INSTRUMENT_ROWS static void
s_piece_down (const int32_t *weights, uint32_t taps, const uint8_t *from, size_t stride, size_t bytes,
    uint8_t *restrict target)
{
    int32_t sums [PIECE];
    for (size_t index = 0; index < bytes; index++)
        sums [index] = HALF;
    for (uint32_t tap = 0; tap < taps; tap += 2, from += 2 * stride) {
        const uint8_t *restrict first = from, *restrict second = tap + 1 < taps? from + stride: from;
        int32_t first_weight = weights [tap], second_weight = weights [tap + 1];
        for (size_t index = 0; index < bytes; index++)
            sums [index] += first [index] * first_weight + second [index] * second_weight;
    }
    for (size_t index = 0; index < bytes; index++)
        target [index] = s_clip (sums [index]);
}

static void
s_down_portable (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride)
{
    size_t bytes = image_bytes (1, source->width, source->channels);
    const int32_t *weights = axis->weights;
    for (uint32_t row = 0; row < axis->count; row++, weights += axis->weights_each, target += target_stride) {
        const uint8_t *from = image_at (source, axis->taps [row].first, 0);
        for (size_t at = 0; at < bytes; at += PIECE)
            s_piece_down (weights, axis->taps [row].count, from + at, source->stride,
                bytes - at < PIECE? bytes - at: PIECE, target + at);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Running

static void
s_tell_written (uint8_t *target, size_t stride, uint32_t height, size_t bytes)
{
    for (uint32_t row = 0; row < height; row++)
        instrument_written (target + row * stride, bytes);
}

static void
s_copy (const image_t *source, uint8_t *target, size_t target_stride)
{
    size_t bytes = image_bytes (1, source->width, source->channels);
    for (uint32_t row = 0; row < source->height; row++)
        memcpy (target + row * target_stride, image_at (source, row, 0), bytes);
}

#ifdef TUREEN_AVX2
//  Asks the level first: without it nothing of that file may run.
static bool
s_turns (const resize_axis_t *axis, const image_t *source)
{
    return source->height >= RESIZE_TURN_ROWS_MIN && loops_level () == LOOPS_AVX2
        && resize_loops_avx2.across_work (axis, source->channels) <= RESIZE_WORK_MAX;
}
#endif

static bool
s_across (resize_t *self, const resize_axis_t *axis, const image_t *source, uint8_t *target,
    size_t target_stride)
{
    (void) self;                        //  without these loops
#ifdef TUREEN_AVX2
    if (s_turns (axis, source)) {
        if (!scratch_need (&self->work, resize_loops_avx2.across_work (axis, source->channels)))
            return false;
        resize_loops_avx2.across (axis, source, target, target_stride, self->work.data);
    }
    else
#endif
        s_across_portable (axis, source, target, target_stride);
    s_tell_written (target, target_stride, source->height, image_bytes (1, axis->count, source->channels));
    return true;
}

static void
s_down (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride)
{
    size_t bytes = image_bytes (1, source->width, source->channels);
#ifdef TUREEN_AVX2
    if (bytes >= RESIZE_VECTOR && loops_level () == LOOPS_AVX2)
        resize_loops_avx2.down (axis, source, target, target_stride);
    else
#endif
        s_down_portable (axis, source, target, target_stride);
    s_tell_written (target, target_stride, axis->count, bytes);
}

INSTRUMENT_ROWS static void
s_row_nearest (const uint32_t *columns, uint32_t count, const uint8_t *restrict row, uint32_t channels,
    uint8_t *restrict target)
{
    if (channels == 1)
        for (uint32_t index = 0; index < count; index++)
            target [index] = row [columns [index]];
    else
    if (channels == IMAGE_WIDE)
        for (uint32_t index = 0; index < count; index++)
            memcpy (target + (size_t) index * IMAGE_WIDE, row + (size_t) columns [index] * IMAGE_WIDE,
                IMAGE_WIDE);
    else
        for (uint32_t index = 0; index < count; index++, target += IMAGE_COLOURS) {
            const uint8_t *from = row + (size_t) columns [index] * IMAGE_COLOURS;
            target [0] = from [0];
            target [1] = from [1];
            target [2] = from [2];
        }
}

//  needed is what resize_needs says of the source, from (top, left).
static bool
s_nearest (resize_t *self, const image_t *needed, uint32_t top, uint32_t left, const resize_span_t *down,
    const resize_span_t *across, uint8_t *target, size_t target_stride)
{
    if (!scratch_need (&self->columns, across->count * sizeof (uint32_t)))
        return false;
    uint32_t *columns = self->columns.data;
    double scale = across->length / across->full, position = s_walk_to (across, scale);
    for (uint32_t index = 0; index < across->count; index++)
        columns [index] = s_step (across, scale, &position) - left;
    scale = down->length / down->full;
    position = s_walk_to (down, scale);
    size_t bytes = image_bytes (1, across->count, needed->channels);
    uint32_t shown = UINT32_MAX;
    for (uint32_t row = 0; row < down->count; row++, target += target_stride) {
        uint32_t wanted = s_step (down, scale, &position) - top;
        if (wanted == shown)
            memcpy (target, target - target_stride, bytes);
        else
            s_row_nearest (columns, across->count, image_at (needed, wanted, 0), needed->channels, target);
        instrument_written (target, bytes);
        shown = wanted;
    }
    return true;
}

//  One of the two passes; the image's first row or column is origin of the source.
typedef struct {
    const resize_span_t *span;
    uint32_t origin;
    bool is_down;
} pass_t;

//  Writes what it makes of image to target, and makes that the image.
static bool
s_pass (resize_t *self, resize_filter_t filter, const pass_t *pass, image_t *image, uint8_t *target,
    size_t stride)
{
    resize_axis_t axis;
    if (!s_axis (pass->is_down? &self->down: &self->across, filter, pass->span, pass->origin, &axis))
        return false;
    if (pass->is_down)
        s_down (&axis, image, target, stride);
    else
    if (!s_across (self, &axis, image, target, stride))
        return false;
    *image = (image_t) { target, stride, pass->is_down? axis.count: image->height,
        pass->is_down? image->width: axis.count, image->channels };
    return true;
}

//  needed is what resize_needs says of the source.
static bool
s_weighed (resize_t *self, resize_filter_t filter, image_t needed, const pass_t *first, const pass_t *second,
    uint8_t *target, size_t target_stride)
{
    if (s_is_copy (first->span))
        return s_pass (self, filter, second, &needed, target, target_stride);
    if (s_is_copy (second->span))
        return s_pass (self, filter, first, &needed, target, target_stride);
    size_t stride = image_bytes (1, first->is_down? needed.width: first->span->count, needed.channels);
    return scratch_need (&self->rows, (first->is_down? first->span->count: needed.height) * stride)
        && s_pass (self, filter, first, &needed, self->rows.data, stride)
        && s_pass (self, filter, second, &needed, target, target_stride);
}

bool
resize_run (resize_t *self, resize_filter_t filter, bool down_first, const image_t *have, uint32_t top,
    uint32_t left, const resize_span_t *down, const resize_span_t *across, uint8_t *target,
    size_t target_stride)
{
    assert (self->magic == RESIZE_MAGIC);
    assert (have->channels == 1 || have->channels == IMAGE_COLOURS || filter == RESIZE_NEAREST);
    assert (have->channels <= IMAGE_COLOURS);
    uint32_t first_row, first_column;
    image_box_t box;
    resize_needs (filter, down, &first_row, &box.height);
    resize_needs (filter, across, &first_column, &box.width);
    box.top = first_row - top;
    box.left = first_column - left;
    assert (first_row >= top && box.height <= have->height && box.top <= have->height - box.height);
    assert (first_column >= left && box.width <= have->width && box.left <= have->width - box.width);
    image_t needed = image_part (have, &box);
    if (s_is_copy (down) && s_is_copy (across)) {
        s_copy (&needed, target, target_stride);
        return true;
    }
    if (filter == RESIZE_NEAREST)
        return s_nearest (self, &needed, first_row, first_column, down, across, target, target_stride);
    const pass_t passes [2] = { { across, first_column, false }, { down, first_row, true } };
    return s_weighed (self, filter, needed, &passes [down_first], &passes [!down_first], target,
        target_stride);
}
