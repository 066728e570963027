#include "finish.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "instrument.h"
#include "loops.h"

//  Smaller images make batches that stay in the caches until the client reads them.  From here on streaming
//  wins: it saves reading what is overwritten.
enum { STREAM_BYTES_MIN = 64 * 1024 };

size_t
finish_bytes (const finish_format_t *self, uint32_t height, uint32_t width)
{
    return image_bytes (height, width, self->channels) * dtype_bytes (self->dtype);
}

//  ---------------------------------------------------------------------------------------------------------
//  Numbers

static inline uint32_t
s_bits (float value)
{
    uint32_t bits;
    memcpy (&bits, &value, sizeof bits);
    return bits;
}

//  The sum's last place is a float16's, when it is as small as that.
static uint32_t
s_subnormal_float16 (uint32_t magnitude)
{
    float value;
    memcpy (&value, &magnitude, sizeof value);
    return s_bits (value + 0.5f) - s_bits (0.5f);
}

//  As F16C rounds: to nearest, ties to even, from 65520 on infinite.
static uint16_t
s_float16 (float value)
{
    enum { INFINITE = 0x7f800000, TOO_LARGE = 0x47800000, NORMAL_MIN = 0x38800000, REBIAS = 112 << 23 };
    uint32_t bits = s_bits (value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu, half;
    if (magnitude > INFINITE)
        half = 0x7e00u;
    else if (magnitude >= TOO_LARGE)
        half = 0x7c00u;
    else if (magnitude < NORMAL_MIN)
        half = s_subnormal_float16 (magnitude);
    else
        half = (magnitude - REBIAS + 0xfffu + (magnitude >> 13 & 1)) >> 13;
    return (uint16_t) (sign | half);
}

static uint16_t
s_bfloat16 (float value)
{
    uint32_t bits = s_bits (value);
    return (uint16_t) ((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

//  The bits of value in the dtype.
static uint32_t
s_round (dtype_t dtype, float value)
{
    return dtype == DTYPE_FLOAT16? s_float16 (value): dtype == DTYPE_BFLOAT16? s_bfloat16 (value):
        s_bits (value);
}

//  As vectors round what they compute by a line: for bfloat16 half way is up, which takes fewer instructions.
static uint32_t
s_round_line (dtype_t dtype, float value)
{
    return dtype == DTYPE_BFLOAT16? (s_bits (value) + 0x8000u) >> 16: s_round (dtype, value);
}

static const float s_reciprocal = (float) (1 / 255.);

static float
s_number (const finish_format_t *self, uint32_t channel, size_t value)
{
    float number = (float) value;
    if (!self->normalizes)
        return number;
    number = self->reciprocal? number * s_reciprocal: number / UINT8_MAX;
    return (number - self->mean [channel]) / self->std [channel];
}

static bool
s_equals_table (const finish_format_t *self, uint32_t channel, float scale, float offset)
{
    for (size_t value = 0; value < COLOUR_VALUES; value++) {
        uint32_t exact = s_round (self->dtype, s_number (self, channel, value));
        if (s_round_line (self->dtype, fmaf ((float) value, scale, offset)) != exact)
            return false;
    }
    return true;
}

static float
s_nudged (float value, int places)
{
    uint32_t bits = s_bits (value) + (uint32_t) places;
    memcpy (&value, &bits, sizeof value);
    return value;
}

//  Looks for a scale and an offset that give the channel's table.  For 16-bit dtypes there mostly are some
//  near the obvious ones, for float32 hardly ever.
static bool
s_find_line (const finish_format_t *self, uint32_t channel, float *scale_p, float *offset_p)
{
    enum { REACH = 4 };
    float scale = self->normalizes? 1 / (UINT8_MAX * self->std [channel]): 1;
    float offset = self->normalizes? -self->mean [channel] / self->std [channel]: 0;
    for (int step = 0; step < (2 * REACH + 1) * (2 * REACH + 1); step++) {
        //  0, -1, 1, -2, 2 ...
        int along = step % (2 * REACH + 1), beside = step / (2 * REACH + 1);
        *scale_p = s_nudged (scale, along % 2? -(along + 1) / 2: along / 2);
        *offset_p = s_nudged (offset, beside % 2? -(beside + 1) / 2: beside / 2);
        if (s_equals_table (self, channel, *scale_p, *offset_p))
            return true;
    }
    return false;
}

//  The channels' numbers where vectors want them.
static void
s_fill_lanes (const finish_format_t *self, const float numbers [IMAGE_COLOURS],
    float vectors [IMAGE_COLOURS] [FINISH_LANES])
{
    for (size_t index = 0; index < IMAGE_COLOURS; index++)
        for (size_t lane = 0; lane < FINISH_LANES; lane++)
            vectors [index] [lane] = numbers [finish_interleaves (self)
                ? (index * FINISH_LANES + lane) % IMAGE_COLOURS: index];
}

void
finish_format (finish_format_t *self)
{
    assert (self->channels == 1 || self->channels == IMAGE_COLOURS
        || (self->channels == IMAGE_WIDE && self->dtype == DTYPE_UINT8 && !self->planar));
    assert (!self->normalizes || self->dtype != DTYPE_UINT8);
    float scale [IMAGE_COLOURS] = { 0 }, offset [IMAGE_COLOURS] = { 0 };
    self->is_linear = true;
    for (uint32_t channel = 0; channel < self->channels; channel++) {
        assert (!self->normalizes || self->std [channel] > 0);
        for (size_t value = 0; value < COLOUR_VALUES; value++) {
            float number = s_number (self, channel, value);
            if (self->dtype == DTYPE_FLOAT32)
                self->table.wide [channel] [value] = number;
            else
                self->table.half [channel] [value] = (uint16_t) s_round (self->dtype, number);
        }
        self->is_linear = self->is_linear && s_find_line (self, channel, &scale [channel], &offset [channel]);
    }
    self->large = self->reciprocal? s_reciprocal: 0x101p-16f;
    self->small = self->reciprocal? 0: (float) (1 / 255. - 0x101p-16);
    s_fill_lanes (self, self->is_linear? scale: self->mean, self->first);
    s_fill_lanes (self, self->is_linear? offset: self->std, self->second);
}

//  ---------------------------------------------------------------------------------------------------------
//  Portable loops

//  count values, step bytes of the source apart, to numbers that lie stride bytes apart.
typedef struct {
    const uint8_t *source;
    ptrdiff_t step;
    uint8_t *target;
    size_t stride;
    size_t count;
} span_t;

INSTRUMENT_ROWS static void
s_copy_span (const span_t *span)
{
    for (size_t index = 0; index < span->count; index++)
        span->target [index * span->stride] = span->source [(ptrdiff_t) index * span->step];
}

INSTRUMENT_ROWS static void
s_look_up_halves (const span_t *span, const uint16_t table [COLOUR_VALUES])
{
    for (size_t index = 0; index < span->count; index++)
        memcpy (span->target + index * span->stride, &table [span->source [(ptrdiff_t) index * span->step]],
            sizeof *table);
}

INSTRUMENT_ROWS static void
s_look_up_wide (const span_t *span, const float table [COLOUR_VALUES])
{
    for (size_t index = 0; index < span->count; index++)
        memcpy (span->target + index * span->stride, &table [span->source [(ptrdiff_t) index * span->step]],
            sizeof *table);
}

static void
s_row (const finish_way_t *way, const uint8_t *source, uint8_t *const targets [IMAGE_COLOURS])
{
    const finish_format_t *format = way->format;
    bool interleaves = finish_interleaves (format);
    size_t bytes = dtype_bytes (format->dtype);
    ptrdiff_t step = way->across? -(ptrdiff_t) way->channels: (ptrdiff_t) way->channels;
    const uint8_t *first = way->across? source + (size_t) (way->width - 1) * way->channels: source;
    for (uint32_t channel = 0; channel < format->channels; channel++) {
        span_t span = { .source = first + channel, .step = step, .count = way->width };
        span.target = interleaves? targets [0] + channel * bytes: targets [channel];
        span.stride = interleaves? bytes * format->channels: bytes;
        if (format->dtype == DTYPE_UINT8)
            s_copy_span (&span);
        else if (format->dtype == DTYPE_FLOAT32)
            s_look_up_wide (&span, format->table.wide [channel]);
        else
            s_look_up_halves (&span, format->table.half [channel]);
    }
}

static void
s_copy (const uint8_t *source, size_t bytes, uint8_t *target, bool streams)
{
    (void) streams;
    memcpy (target, source, bytes);
}

static void
s_end (void)
{
}

static const finish_loops_t s_portable = { s_row, s_copy, s_end };

//  ---------------------------------------------------------------------------------------------------------
//  Images

static const finish_loops_t *
s_loops (void)
{
#ifdef TUREEN_AVX2
    if (loops_level () >= LOOPS_AVX2)
        return &finish_loops_avx2;
#endif
    return &s_portable;
}

//  The row of source that comes index-th.
static const uint8_t *
s_source_row (const image_t *source, bool down, uint32_t index)
{
    return image_at (source, down? source->height - 1 - index: index, 0);
}

//  Before the row that comes index-th: asks for the one that is needed AHEAD_BYTES later.  Processors foresee
//  no order but the plain one; without this, flips of versions that lie in memory took up to four times as
//  long.  Inline: gcc thinks that a function that only asks does nothing, and leaves out its calls.
static inline __attribute__ ((always_inline)) void
s_fetch_ahead (const image_t *source, bool down, uint32_t index)
{
    enum { AHEAD_BYTES = 2048, LINE_BYTES = 64 };
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    size_t end = index + 2 + AHEAD_BYTES / row_bytes;
    for (size_t next = index? end - 1: 0; next < end && next < source->height; next++) {
        const uint8_t *row = s_source_row (source, down, (uint32_t) next);
        for (size_t offset = 0; offset < row_bytes; offset += LINE_BYTES)
            __builtin_prefetch (row + offset);
    }
}

//  Nothing changes but where the rows lie.  A whole image is streamed wherever it begins; rows that begin
//  within a vector are not: lines of which one row writes the begin and the next the end cost three times as
//  much as memcpy.
static void
s_copy_rows (const finish_way_t *way, const image_t *source, bool down, const finish_loops_t *loops,
    uint8_t *target, size_t target_stride)
{
    size_t row_bytes = image_bytes (1, source->width, source->channels);
    bool whole = !down && source->stride == row_bytes && target_stride == row_bytes;
    uint32_t runs = whole? 1: source->height;
    size_t run_bytes = whole? row_bytes * source->height: row_bytes;
    for (uint32_t run = 0; run < runs; run++) {
        uint8_t *to = target + run * target_stride;
        if (!whole)
            s_fetch_ahead (source, down, run);
        loops->copy (s_source_row (source, down, run), run_bytes, to, way->streams
            || (whole && way->is_large));
        instrument_written (to, run_bytes);
    }
}

//  One row, to each plane that there is.
static void
s_write_row (const finish_way_t *way, const finish_loops_t *loops, const uint8_t *source, uint8_t *target,
    size_t plane_bytes)
{
    uint32_t planes = finish_interleaves (way->format)? 1: way->format->channels;
    uint8_t *targets [IMAGE_COLOURS] = { target, target + plane_bytes, target + 2 * plane_bytes };
    loops->row (way, source, targets);
    for (uint32_t plane = 0; plane < planes; plane++)
        instrument_written (targets [plane], finish_bytes (way->format, 1, way->width) / planes);
}

void
finish_run (const finish_format_t *self, const image_t *source, finish_flips_t flips,
    const colour_program_t *colours, uint8_t *row, uint8_t *target, size_t target_stride)
{
    assert (source->width && source->height);
    assert (self->channels == source->channels || self->channels == 1);
    assert (!colours || (row && source->channels == IMAGE_COLOURS));
    //  The other loops know one channel and three.
    const finish_loops_t *loops = source->channels == IMAGE_WIDE? &s_portable: s_loops ();
    size_t plane_bytes = self->planar && self->channels > 1? source->height * target_stride: 0;
    bool copies = self->dtype == DTYPE_UINT8 && self->channels == source->channels && !flips.across
        && !colours
        && (!self->planar || self->channels == 1);
    bool is_large = finish_bytes (self, source->height, source->width) >= STREAM_BYTES_MIN;
    bool is_aligned = ((uintptr_t) target | target_stride) % FINISH_ALIGNMENT == 0;
    finish_way_t way = { .format = self, .width = source->width, .channels = source->channels,
        .across = flips.across, .is_large = is_large, .streams = is_large && is_aligned };
    colour_pass_t pass;
    if (colours)
        colour_begin (&pass, colours, colours->count);
    if (copies)
        s_copy_rows (&way, source, flips.down, loops, target, target_stride);
    for (uint32_t index = 0; index < source->height && !copies; index++) {
        s_fetch_ahead (source, flips.down, index);
        const uint8_t *from = s_source_row (source, flips.down, index);
        if (colours) {
            memcpy (row, from, image_bytes (1, source->width, source->channels));
            colour_run (&pass, row, source->width);
            from = row;
        }
        s_write_row (&way, loops, from, target + index * target_stride, plane_bytes);
    }
    if (is_large)
        loops->end ();
}

//  ---------------------------------------------------------------------------------------------------------
//  Boxes

//  Writes count numbers, `step` numbers apart.
INSTRUMENT_ROWS static void
s_set (dtype_t dtype, uint32_t bits, uint8_t *target, size_t step, size_t count)
{
    size_t bytes = dtype_bytes (dtype);
    uint16_t half = (uint16_t) bits;
    for (size_t index = 0; index < count; index++, target += step * bytes) {
        if (bytes == 1)
            *target = (uint8_t) bits;
        else
        if (bytes == 2)
            memcpy (target, &half, sizeof half);
        else
            memcpy (target, &bits, sizeof bits);
        instrument_written (target, bytes);
    }
}

void
finish_fill (const finish_format_t *self, uint32_t height, uint32_t width, const image_box_t *box,
    const float values [IMAGE_COLOURS], uint8_t *target)
{
    assert (box->top + box->height <= height && box->left + box->width <= width);
    size_t step = self->planar? 1: self->channels, bytes = dtype_bytes (self->dtype);
    for (uint32_t channel = 0; channel < self->channels; channel++) {
        uint32_t bits = self->dtype == DTYPE_UINT8? (uint8_t) values [channel]:
            s_round (self->dtype, values [channel]);
        size_t first = self->planar? (size_t) channel * height * width: channel;
        for (uint32_t row = box->top; row < box->top + box->height; row++) {
            size_t place = first + ((size_t) row * width + box->left) * step;
            s_set (self->dtype, bits, target + place * bytes, step, box->width);
        }
    }
}
