#include "blur.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"

enum {
    BLOCK_COLUMNS = 512,            //  that are convolved together
    BLOCK_VALUES = BLOCK_COLUMNS * IMAGE_COLOURS,
    HALO_VALUES = BLUR_HALF_MAX * IMAGE_COLOURS,
    BOX_LANES = 96,                 //  values beside each other that boxes move over together: whole vectors
    BOX_ROWS = BOX_LANES / IMAGE_COLOURS,
    BOX_PASSES = 3
};

//  What a tap of less adds up to over a whole kernel shows in no value.
static const double WEIGHT_MIN = 1e-10;

//  ---------------------------------------------------------------------------------------------------------
//  Convolution

blur_kernel_t
blur_kernel (uint32_t size, double sigma)
{
    assert (size % 2 == 1 && size <= BLUR_KERNEL_MAX);
    assert (sigma > 0);
    blur_kernel_t kernel = { .half = size / 2 };
    double weights [BLUR_HALF_MAX + 1], sum = 0;
    for (uint32_t index = 0; index <= kernel.half; index++) {
        double deviations = index / sigma;
        weights [index] = exp (-0.5 * deviations * deviations);
        sum += weights [index] * (index? 2: 1);
    }
    while (kernel.half && weights [kernel.half] / sum < WEIGHT_MIN)
        kernel.half--;
    for (uint32_t index = 0; index <= kernel.half; index++)
        kernel.weights [index] = (float) (weights [index] / sum);
    return kernel;
}

static uint32_t
s_mirror (int64_t at, uint32_t side)
{
    if (side == 1)
        return 0;
    int64_t period = 2 * ((int64_t) side - 1);
    at = at < 0? -at % period: at % period;
    return (uint32_t) (at < side? at: period - at);
}

//  Columns that are convolved together, and those beside them that they need.
typedef struct {
    const image_t *source;
    const blur_loops_t *loops;
    const blur_kernel_t *across, *down;
    int64_t begin, end;
    int64_t from, until;            //  of those the ones that are in the image
    float values [BLOCK_VALUES + 2 * HALO_VALUES];  //  a row, from column begin - across->half on
} block_t;

static float *
s_values_at (block_t *self, int64_t column)
{
    return self->values + (column - self->begin + self->across->half) * self->source->channels;
}

static void
s_copy_mirrored (block_t *self, int64_t column)
{
    memcpy (s_values_at (self, column), s_values_at (self, s_mirror (column, self->source->width)),
        self->source->channels * sizeof (float));
}

//  A row of the image blurred down; and its mirrors beside the image.
static void
s_blur_down (block_t *self, uint32_t row)
{
    const image_t *source = self->source;
    size_t count = (size_t) (self->until - self->from) * source->channels;
    float *sums = s_values_at (self, self->from);
    memset (sums, 0, count * sizeof *sums);
    for (int64_t tap = self->down->half; tap > 0; tap--)
        self->loops->add_pixels (sums,
            image_at (source, s_mirror (row - tap, source->height), (uint32_t) self->from),
            image_at (source, s_mirror (row + tap, source->height), (uint32_t) self->from),
            self->down->weights [tap], count);
    const uint8_t *middle = image_at (source, row, (uint32_t) self->from);
    self->loops->add_pixels (sums, middle, middle, self->down->weights [0] / 2, count);
    for (int64_t column = self->begin - self->across->half; column < self->from; column++)
        s_copy_mirrored (self, column);
    for (int64_t column = self->until; column < self->end + self->across->half; column++)
        s_copy_mirrored (self, column);
}

static void
s_blur_across (block_t *self, uint8_t *target)
{
    float sums [BLOCK_VALUES];
    uint32_t channels = self->source->channels;
    size_t count = (size_t) (self->end - self->begin) * channels;
    const float *middle = s_values_at (self, self->begin);
    memset (sums, 0, count * sizeof *sums);
    for (int64_t tap = self->across->half; tap > 0; tap--)
        self->loops->add_floats (sums, middle - tap * channels, middle + tap * channels,
            self->across->weights [tap], count);
    self->loops->add_floats (sums, middle, middle, self->across->weights [0] / 2, count);
    self->loops->round (target, sums, count);
}

void
blur_convolve (const image_t *source, const blur_kernel_t *across, const blur_kernel_t *down, uint8_t *target)
{
    assert (source->height && source->width);
    block_t block = { .source = source, .loops = &loops_chosen ()->blur, .across = across, .down = down };
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    for (block.begin = 0; block.begin < source->width; block.begin = block.end) {
        block.end = block.begin + BLOCK_COLUMNS;
        block.end = block.end < source->width? block.end: source->width;
        block.from = block.begin - across->half;
        block.from = block.from > 0? block.from: 0;
        block.until = block.end + across->half;
        block.until = block.until < source->width? block.until: source->width;
        for (uint32_t row = 0; row < source->height; row++) {
            uint8_t *at = target + row * row_bytes + (size_t) block.begin * source->channels;
            s_blur_down (&block, row);
            s_blur_across (&block, at);
            instrument_written (at, (size_t) (block.end - block.begin) * source->channels);
        }
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  A field of floats

size_t
blur_field_room (uint32_t height, uint32_t width)
{
    return (size_t) height * width + width + 2 * BLUR_HALF_MAX;
}

static void
s_sum_taps (const blur_loops_t *loops, const blur_kernel_t *kernel, const float *const *taps, float *sums,
    size_t count)
{
    memset (sums, 0, count * sizeof *sums);
    for (uint32_t tap = kernel->half; tap > 0; tap--)
        loops->add_floats (sums, taps [kernel->half - tap], taps [kernel->half + tap], kernel->weights [tap],
            count);
    loops->add_floats (sums, taps [kernel->half], taps [kernel->half], kernel->weights [0] / 2, count);
}

void
blur_field (float *field, uint32_t height, uint32_t width, const blur_kernel_t *across,
    const blur_kernel_t *down, float *room)
{
    assert (height && width);
    const blur_loops_t *loops = &loops_chosen ()->blur;
    const float *taps [BLUR_KERNEL_MAX];
    for (uint32_t row = 0; row < height; row++) {
        for (uint32_t tap = 0; tap <= 2 * down->half; tap++)
            taps [tap] = field + (size_t) s_mirror ((int64_t) row + tap - down->half, height) * width;
        s_sum_taps (loops, down, taps, room + (size_t) row * width, width);
    }
    //  A row with its mirrors on both sides.
    float *line = room + (size_t) height * width;
    for (uint32_t tap = 0; tap <= 2 * across->half; tap++)
        taps [tap] = line + tap;
    for (uint32_t row = 0; row < height; row++) {
        const float *from = room + (size_t) row * width;
        for (uint32_t at = 0; at < across->half; at++) {
            line [at] = from [s_mirror ((int64_t) at - across->half, width)];
            line [across->half + width + at] = from [s_mirror ((int64_t) width + at, width)];
        }
        memcpy (line + across->half, from, width * sizeof *from);
        s_sum_taps (loops, across, taps, field + (size_t) row * width, width);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Boxes

//  Three of them have the variance of the Gaussian: Gwosdek et al., "Theoretical foundations of Gaussian
//  convolution by extended box filtering", 2011, (7), (11), (14).  Rounded where Pillow rounds.
static blur_box_t
s_box (double radius)
{
    float variance = (float) radius * (float) radius / BOX_PASSES;
    float length = (float) sqrt (12.0 * variance + 1.0);
    float whole = (float) floor ((length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
    part /= 6 * (variance - (whole + 1) * (whole + 1));
    float box_radius = whole + part;
    blur_box_t box = { .radius = (uint32_t) box_radius };
    box.weight = (uint32_t) ((float) (1 << 24) / (box_radius * 2 + 1));
    box.edge_weight = ((1u << 24) - (box.radius * 2 + 1) * box.weight) / 2;
    return box;
}

//  A line of pixels, each of count lanes, the next one step bytes on, is blurred in place.  The pixels that a
//  box still needs and that are overwritten already are kept in a ring.
INSTRUMENT_ROWS static void
s_blur_line (const blur_box_t *box, const blur_loops_t *loops, uint8_t *line, size_t step, uint32_t length,
    size_t count)
{
    uint8_t ring [BLUR_RADIUS_MAX + 2] [BOX_LANES];
    uint32_t sums [BOX_LANES], radius = box->radius, last = length - 1, kept = radius + 2;
    assert (kept <= BLUR_RADIUS_MAX + 2 && count <= BOX_LANES);
    for (size_t lane = 0; lane < count; lane++)
        sums [lane] = line [lane] * (radius + 1);
    for (uint32_t at = 0; at < radius; at++) {
        const uint8_t *pixel = line + (at < last? at: last) * step;
        for (size_t lane = 0; lane < count; lane++)
            sums [lane] += pixel [lane];
    }
    for (uint32_t at = 0; at < length; at++) {
        uint8_t *pixel = line + at * step;
        memcpy (ring [at % kept], pixel, count);
        uint32_t left = at > radius? at - radius - 1: 0;
        uint32_t in = last - at > radius? at + radius: last, after = last - at > radius? in + 1: last;
        const uint8_t *in_pixel = in > at? line + in * step: ring [at % kept];
        const uint8_t *after_pixel = after > at? line + after * step: ring [at % kept];
        loops->move_box (box, sums, in_pixel, ring [left % kept], after_pixel, pixel, count);
    }
}

static void
s_blur_lines (const blur_box_t *box, const blur_loops_t *loops, uint8_t *line, size_t step, uint32_t length,
    size_t count)
{
    for (int pass = 0; pass < BOX_PASSES; pass++)
        s_blur_line (box, loops, line, step, length, count);
}

//  Rows become columns of room and back, so that lanes are beside each other.  Inlined with a constant number
//  of channels, which makes a copy of a pixel two moves.
INSTRUMENT_ROWS static inline void
s_boxes_across (const image_t *source, const blur_box_t *box, const blur_loops_t *loops, uint32_t first,
    uint32_t rows, uint32_t channels, uint8_t *room, uint8_t *target)
{
    size_t lanes = (size_t) rows * channels, row_bytes = image_bytes (1, source->width, channels);
    for (uint32_t row = 0; row < rows; row++) {
        const uint8_t *pixel = image_at (source, first + row, 0);
        uint8_t *lane = room + row * channels;
        for (uint32_t column = 0; column < source->width; column++, lane += lanes, pixel += channels)
            memcpy (lane, pixel, channels);
    }
    s_blur_lines (box, loops, room, lanes, source->width, lanes);
    for (uint32_t row = 0; row < rows; row++) {
        uint8_t *pixel = target + (first + row) * row_bytes;
        const uint8_t *lane = room + row * channels;
        for (uint32_t column = 0; column < source->width; column++, lane += lanes, pixel += channels)
            memcpy (pixel, lane, channels);
        instrument_written (target + (first + row) * row_bytes, row_bytes);
    }
}

bool
blur_boxes (const image_t *source, double radius, scratch_t *room, uint8_t *target)
{
    assert (source->height && source->width);
    assert (radius >= 0 && radius <= BLUR_RADIUS_MAX);
    const blur_loops_t *loops = &loops_chosen ()->blur;
    blur_box_t box = s_box (radius);
    uint32_t rows = source->height < BOX_ROWS? source->height: BOX_ROWS;
    if (!scratch_need (room, image_bytes (rows, source->width, source->channels)))
        return false;
    for (uint32_t first = 0; first < source->height; first += rows) {
        rows = source->height - first < rows? source->height - first: rows;
        if (source->channels == 1)
            s_boxes_across (source, &box, loops, first, rows, 1, room->data, target);
        else
            s_boxes_across (source, &box, loops, first, rows, IMAGE_COLOURS, room->data, target);
    }
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    for (size_t at = 0; at < row_bytes; at += BOX_LANES)
        s_blur_lines (&box, loops, target + at, row_bytes, source->height,
            row_bytes - at < BOX_LANES? row_bytes - at: BOX_LANES);
    return true;
}
