/*  finish_avx2.c -- the inner loops of finish for processors with AVX2, FMA and F16C (loops.h).  */
#include "loops.h"
#include <immintrin.h>
#include <string.h>
#include "instrument.h"

enum {
    VECTOR = 32,                //  bytes; pixels of a step on bytes
    LANES = FINISH_LANES,       //  floats
    STEP = 2 * LANES,           //  pixels of a step on numbers
    NONE = -1                   //  for a shuffle: zero
};
_Static_assert ((int) VECTOR == FINISH_ALIGNMENT, "stores of one vector");
_Static_assert (LANES == 8, "floats of a vector");

typedef enum {
    LAYOUT_VALUES,              //  one channel
    LAYOUT_FIRST,               //  the first of three
    LAYOUT_PLANAR,
    LAYOUT_INTERLEAVED
} layout_t;

//  Lent by value to the loops: stores of bytes could change what lies in memory, for all the compiler knows.
typedef struct {
    const uint8_t *source;
    uint8_t *targets [IMAGE_COLOURS];
    size_t width;
    bool across;
    bool streams;
} row_t;

//  Two halves of a vector, the first in the lower lane.
static inline __m256i
s_load_halves (const uint8_t *lower, const uint8_t *upper)
{
    return _mm256_inserti128_si256 (_mm256_castsi128_si256 (_mm_loadu_si128 ((const void *) lower)),
        _mm_loadu_si128 ((const void *) upper), 1);
}

//  The same in both lanes.
static inline __m256i
s_twice (__m128i lane)
{
    return _mm256_broadcastsi128_si256 (lane);
}

static inline void
s_store (void *target, __m256i vector, bool streams)
{
    if (streams)
        _mm256_stream_si256 (target, vector);
    else
        _mm256_storeu_si256 (target, vector);
}

//  Bytes of a pixel: of the source; and of the target, if its numbers have `bytes` bytes.
static inline size_t
s_source_pixel_bytes (layout_t layout)
{
    return layout == LAYOUT_VALUES? 1: IMAGE_COLOURS;
}

//  ---------------------------------------------------------------------------------------------------------
//  Bytes

INSTRUMENT_ROWS static void
s_stream (const uint8_t *source, size_t bytes, uint8_t *target)
{
    size_t index = -(uintptr_t) target % FINISH_ALIGNMENT;
    memcpy (target, source, index);
    for (; index + VECTOR <= bytes; index += VECTOR)
        s_store (target + index, _mm256_loadu_si256 ((const void *) (source + index)), true);
    memcpy (target + index, source + index, bytes - index);
}

static void
s_copy (const uint8_t *source, size_t bytes, uint8_t *target, bool streams)
{
    if (streams && bytes >= FINISH_ALIGNMENT)
        s_stream (source, bytes, target);
    else
        memcpy (target, source, bytes);
}

static inline __m256i
s_reverse (__m256i values)
{
    const __m256i backwards = s_twice (_mm_setr_epi8 (15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    return _mm256_permute4x64_epi64 (_mm256_shuffle_epi8 (values, backwards), _MM_SHUFFLE (1, 0, 3, 2));
}

//  32 pixels in reverse order.  A lane of 16 bytes of the result is 18 bytes of the source: most of them in
//  the 16 that end there, the last of them in the 16 that begin 2 before.  Lanes begin at each of the three
//  channels in turn.
static inline void
s_mirror_pixels (const uint8_t *pixels, uint8_t *target, bool streams)
{
    const __m128i most_0 = _mm_setr_epi8 (13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, NONE);
    const __m128i most_1 = _mm_setr_epi8 (14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, NONE, NONE);
    const __m128i most_2 = _mm_setr_epi8 (15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, NONE, NONE, 0);
    const __m128i rest_0 = _mm_setr_epi8 (NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        NONE, NONE, NONE, NONE, 0);
    const __m128i rest_1 = _mm_setr_epi8 (NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        NONE, NONE, NONE, 0, 1);
    const __m128i rest_2 = _mm_setr_epi8 (NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE,
        NONE, NONE, 0, 1, NONE);
    __m256i first = _mm256_or_si256 (
        _mm256_shuffle_epi8 (s_load_halves (pixels + 80, pixels + 65), _mm256_set_m128i (most_1, most_0)),
        _mm256_shuffle_epi8 (s_load_halves (pixels + 78, pixels + 63), _mm256_set_m128i (rest_1, rest_0)));
    __m256i second = _mm256_or_si256 (
        _mm256_shuffle_epi8 (s_load_halves (pixels + 50, pixels + 32), _mm256_set_m128i (most_0, most_2)),
        _mm256_shuffle_epi8 (s_load_halves (pixels + 48, pixels + 30), _mm256_set_m128i (rest_0, rest_2)));
    __m256i third = _mm256_or_si256 (
        _mm256_shuffle_epi8 (s_load_halves (pixels + 17, pixels + 2), _mm256_set_m128i (most_2, most_1)),
        _mm256_shuffle_epi8 (s_load_halves (pixels + 15, pixels), _mm256_set_m128i (rest_2, rest_1)));
    s_store (target, first, streams);
    s_store (target + VECTOR, second, streams);
    s_store (target + 2 * VECTOR, third, streams);
}

//  The channels of 32 pixels, 16 a lane.  A channel's bytes lie at every third place of the lane's three
//  pieces, and no two of them at the same place: they fit into one piece, in which a shuffle puts them in
//  order.
static inline void
s_split_pixels (const uint8_t *pixels, __m256i channels [IMAGE_COLOURS])
{
    const __m256i places_1 = s_twice (_mm_setr_epi8 (0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0));
    const __m256i places_2 = s_twice (_mm_setr_epi8 (0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0));
    __m256i first = s_load_halves (pixels, pixels + 48);
    __m256i second = s_load_halves (pixels + 16, pixels + 64);
    __m256i third = s_load_halves (pixels + 32, pixels + 80);
    channels [0] = _mm256_shuffle_epi8 (
        _mm256_blendv_epi8 (_mm256_blendv_epi8 (first, third, places_1), second, places_2),
        s_twice (_mm_setr_epi8 (0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13)));
    channels [1] = _mm256_shuffle_epi8 (
        _mm256_blendv_epi8 (_mm256_blendv_epi8 (second, first, places_1), third, places_2),
        s_twice (_mm_setr_epi8 (1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14)));
    channels [2] = _mm256_shuffle_epi8 (
        _mm256_blendv_epi8 (_mm256_blendv_epi8 (third, second, places_1), first, places_2),
        s_twice (_mm_setr_epi8 (2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15)));
}

//  32 pixels, to column of the target.
static inline __attribute__ ((always_inline)) void
s_step_bytes (layout_t layout, row_t row, const uint8_t *pixels, size_t column, bool streams)
{
    if (layout == LAYOUT_INTERLEAVED) {
        s_mirror_pixels (pixels, row.targets [0] + column * IMAGE_COLOURS, streams);
        return;
    }
    __m256i channels [IMAGE_COLOURS];
    if (layout == LAYOUT_VALUES)
        channels [0] = _mm256_loadu_si256 ((const void *) pixels);
    else
        s_split_pixels (pixels, channels);
    for (size_t index = 0; index < (layout == LAYOUT_PLANAR? IMAGE_COLOURS: 1); index++)
        s_store (row.targets [index] + column, row.across? s_reverse (channels [index]): channels [index],
            streams);
}

static inline __attribute__ ((always_inline)) void
s_bytes_of (layout_t layout, row_t row)
{
    size_t last = row.width - VECTOR, column = 0, pixel_bytes = s_source_pixel_bytes (layout);
    for (; column <= last; column += VECTOR)
        s_step_bytes (layout, row, row.source + (row.across? last - column: column) * pixel_bytes, column,
            row.streams);
    if (column < row.width)
        s_step_bytes (layout, row, row.source + (row.across? 0: last) * pixel_bytes, last, false);
}

//  A row that is not just a copy.
INSTRUMENT_ROWS static void
s_bytes (layout_t layout, const finish_format_t *format, const row_t *row)
{
    (void) format;
    switch (layout) {
    case LAYOUT_VALUES: s_bytes_of (LAYOUT_VALUES, *row); break;
    case LAYOUT_FIRST: s_bytes_of (LAYOUT_FIRST, *row); break;
    case LAYOUT_PLANAR: s_bytes_of (LAYOUT_PLANAR, *row); break;
    case LAYOUT_INTERLEAVED: s_bytes_of (LAYOUT_INTERLEAVED, *row); break;
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  Numbers

//  8 pixels are 24 bytes: two windows of 16, the first and the last ones; the lower lane of a vector takes
//  its four values from one, the upper lane from one.  A mirrored row swaps the windows.  These are the
//  places in them.
typedef uint8_t order_t [LANES];

static const order_t s_values [2] = { { 0, 1, 2, 3, 4, 5, 6, 7 }, { 7, 6, 5, 4, 3, 2, 1, 0 } };
//  Red ones, from one window each.
static const order_t s_reds [2] = { { 0, 3, 6, 9, 4, 7, 10, 13 }, { 13, 10, 7, 4, 9, 6, 3, 0 } };
//  From the first window, from one each, from the second.
static const order_t s_pixels [2] [IMAGE_COLOURS] = {
    { { 0, 1, 2, 3, 4, 5, 6, 7 }, { 8, 9, 10, 11, 4, 5, 6, 7 }, { 8, 9, 10, 11, 12, 13, 14, 15 } },
    { { 13, 14, 15, 10, 11, 12, 7, 8 }, { 9, 4, 5, 6, 9, 10, 11, 6 }, { 7, 8, 3, 4, 5, 0, 1, 2 } },
};

//  For a shuffle that makes 32 bits of each byte.
static inline __m256i
s_widener (const order_t order, int channel)
{
    __m256i places = _mm256_cvtepu8_epi32 (_mm_loadl_epi64 ((const void *) order));
    places = _mm256_add_epi32 (places, _mm256_set1_epi32 (channel));
    return _mm256_or_si256 (places, _mm256_set1_epi32 ((int) 0x80808000u));
}

//  What is the same for each step of a row.
typedef struct {
    __m256i wideners [IMAGE_COLOURS];
    __m256 first [IMAGE_COLOURS];
    __m256 second [IMAGE_COLOURS];
    __m256 large, small;
} constants_t;

static inline __m256i
s_layout_widener (layout_t layout, bool across, int index)
{
    return layout == LAYOUT_VALUES? s_widener (s_values [across], 0)
        : layout == LAYOUT_INTERLEAVED? s_widener (s_pixels [across] [index], 0)
        : s_widener (s_reds [across], index);
}

//  In a loop gcc would make a copy by halves of it, and wait for the halves when it loads the wholes.
static inline __attribute__ ((always_inline)) constants_t
s_constants (layout_t layout, const finish_format_t *format, bool across)
{
    return (constants_t) {
        { s_layout_widener (layout, across, 0), s_layout_widener (layout, across, 1),
            s_layout_widener (layout, across, 2) },
        { _mm256_loadu_ps (format->first [0]), _mm256_loadu_ps (format->first [1]),
            _mm256_loadu_ps (format->first [2]) },
        { _mm256_loadu_ps (format->second [0]), _mm256_loadu_ps (format->second [1]),
            _mm256_loadu_ps (format->second [2]) },
        _mm256_set1_ps (format->large), _mm256_set1_ps (format->small)
    };
}

//  Where the wideners of 8 pixels find their values.
static inline __attribute__ ((always_inline)) void
s_load_windows (layout_t layout, const uint8_t *pixels, bool across, __m256i windows [IMAGE_COLOURS])
{
    const uint8_t *first = pixels + (across? LANES: 0), *second = pixels + (across? 0: LANES);
    if (layout == LAYOUT_VALUES) {
        windows [0] = _mm256_broadcastq_epi64 (_mm_loadl_epi64 ((const void *) pixels));
        return;
    }
    windows [1] = s_load_halves (first, second);
    windows [0] = layout == LAYOUT_INTERLEAVED? s_twice (_mm_loadu_si128 ((const void *) first)): windows [1];
    windows [2] = layout == LAYOUT_INTERLEAVED? s_twice (_mm_loadu_si128 ((const void *) second)):
        windows [1];
}

static inline __attribute__ ((always_inline)) __m256
s_compute (bool is_linear, __m256i values, const constants_t *constants, size_t channel)
{
    __m256 first = constants->first [channel], second = constants->second [channel];
    __m256 numbers = _mm256_cvtepi32_ps (values);
    if (is_linear)
        return _mm256_fmadd_ps (numbers, first, second);
    numbers = _mm256_fmadd_ps (numbers, constants->small, _mm256_mul_ps (numbers, constants->large));
    return _mm256_div_ps (_mm256_sub_ps (numbers, first), second);
}

static inline __m256i
s_to_float16 (__m256 lower, __m256 upper)
{
    enum { NEAREST_EVEN = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    return _mm256_set_m128i (_mm256_cvtps_ph (upper, NEAREST_EVEN), _mm256_cvtps_ph (lower, NEAREST_EVEN));
}

//  Its upper half is the number.  What a line gives is known to round as it should even where half way is up.
static inline __m256i
s_rounded_bfloat16 (bool is_linear, __m256 numbers)
{
    __m256i bits = _mm256_castps_si256 (numbers), half = _mm256_set1_epi32 (0x8000);
    if (!is_linear) {
        __m256i is_odd = _mm256_and_si256 (_mm256_srli_epi32 (bits, 16), _mm256_set1_epi32 (1));
        half = _mm256_add_epi32 (_mm256_set1_epi32 (0x7fff), is_odd);
    }
    return _mm256_add_epi32 (bits, half);
}

static inline __m256i
s_to_bfloat16 (bool is_linear, __m256 lower, __m256 upper)
{
    __m256i numbers = _mm256_packus_epi32 (_mm256_srli_epi32 (s_rounded_bfloat16 (is_linear, lower), 16),
        _mm256_srli_epi32 (s_rounded_bfloat16 (is_linear, upper), 16));
    return _mm256_permute4x64_epi64 (numbers, _MM_SHUFFLE (3, 1, 2, 0));
}

static inline __attribute__ ((always_inline)) void
s_write_numbers (dtype_t dtype, bool is_linear, __m256 lower, __m256 upper, uint8_t *target, bool streams)
{
    if (dtype == DTYPE_FLOAT32) {
        s_store (target, _mm256_castps_si256 (lower), streams);
        s_store (target + VECTOR, _mm256_castps_si256 (upper), streams);
    }
    else
        s_store (target, dtype == DTYPE_FLOAT16? s_to_float16 (lower, upper)
            : s_to_bfloat16 (is_linear, lower, upper), streams);
}

//  16 pixels, to column of the target: two groups of 8.  Each group makes a vector of numbers for each
//  channel.  Two of the six vectors at a time lie one behind the other: those of a channel, or, interleaved,
//  one and the next.  So a store fills 32 bytes with 16-bit numbers, too; streaming 16 bytes at a time took a
//  third longer.
static inline __attribute__ ((always_inline)) void
s_step_numbers (dtype_t dtype, bool is_linear, layout_t layout, row_t row,
    const constants_t *constants, const uint8_t *pixels, size_t column, bool streams)
{
    bool interleaves = layout == LAYOUT_INTERLEAVED;
    size_t bytes = dtype == DTYPE_FLOAT32? 4: 2, group_bytes = LANES * s_source_pixel_bytes (layout);
    __m256i windows [2] [IMAGE_COLOURS];
    s_load_windows (layout, pixels + (row.across? group_bytes: 0), row.across, windows [0]);
    s_load_windows (layout, pixels + (row.across? 0: group_bytes), row.across, windows [1]);
    for (size_t pair = 0; pair < (interleaves || layout == LAYOUT_PLANAR? IMAGE_COLOURS: 1); pair++) {
        __m256 numbers [2];
        for (size_t index = 0; index < 2; index++) {
            size_t vector = interleaves? 2 * pair + index: pair + index * IMAGE_COLOURS;
            size_t channel = vector % IMAGE_COLOURS;
            __m256i values = _mm256_shuffle_epi8 (windows [vector / IMAGE_COLOURS] [channel],
                constants->wideners [channel]);
            numbers [index] = s_compute (is_linear, values, constants, channel);
        }
        uint8_t *target = interleaves? row.targets [0] + (column * IMAGE_COLOURS + pair * 2 * LANES) * bytes
            : row.targets [pair] + column * bytes;
        s_write_numbers (dtype, is_linear, numbers [0], numbers [1], target, streams);
    }
}

static inline __attribute__ ((always_inline)) void
s_numbers_of (dtype_t dtype, bool is_linear, layout_t layout, const finish_format_t *format, row_t row)
{
    const constants_t constants = s_constants (layout, format, row.across);
    size_t last = row.width - STEP, column = 0, pixel_bytes = s_source_pixel_bytes (layout);
    for (; column <= last; column += STEP)
        s_step_numbers (dtype, is_linear, layout, row, &constants,
            row.source + (row.across? last - column: column) * pixel_bytes, column, row.streams);
    if (column < row.width)
        s_step_numbers (dtype, is_linear, layout, row, &constants,
            row.source + (row.across? 0: last) * pixel_bytes, last, false);
}

//  A loop for each way to compute and each layout.
#define NUMBERS(name, dtype, is_linear) \
    INSTRUMENT_ROWS static void \
    name (layout_t layout, const finish_format_t *format, const row_t *row) \
    { \
        switch (layout) { \
        case LAYOUT_VALUES: s_numbers_of (dtype, is_linear, LAYOUT_VALUES, format, *row); break; \
        case LAYOUT_FIRST: s_numbers_of (dtype, is_linear, LAYOUT_FIRST, format, *row); break; \
        case LAYOUT_PLANAR: s_numbers_of (dtype, is_linear, LAYOUT_PLANAR, format, *row); break; \
        case LAYOUT_INTERLEAVED: s_numbers_of (dtype, is_linear, LAYOUT_INTERLEAVED, format, *row); break; \
        } \
    }

NUMBERS (s_float16, DTYPE_FLOAT16, false)
NUMBERS (s_linear_float16, DTYPE_FLOAT16, true)
NUMBERS (s_bfloat16, DTYPE_BFLOAT16, false)
NUMBERS (s_linear_bfloat16, DTYPE_BFLOAT16, true)
NUMBERS (s_float32, DTYPE_FLOAT32, false)
NUMBERS (s_linear_float32, DTYPE_FLOAT32, true)

//  ---------------------------------------------------------------------------------------------------------
//  Rows

typedef void loop_f (layout_t layout, const finish_format_t *format, const row_t *row);

static loop_f *const s_loops [DTYPES] [2] = {
    [DTYPE_UINT8] = { s_bytes, s_bytes },
    [DTYPE_FLOAT16] = { s_float16, s_linear_float16 },
    [DTYPE_BFLOAT16] = { s_bfloat16, s_linear_bfloat16 },
    [DTYPE_FLOAT32] = { s_float32, s_linear_float32 },
};

//  A row of fewer pixels than a step has, in a buffer: what is behind them, or before them in a mirrored row,
//  is not written.
static void
s_few (loop_f *loop, layout_t layout, const finish_format_t *format, const row_t *row, size_t step)
{
    uint8_t pixels [VECTOR * IMAGE_COLOURS] = { 0 },
        numbers [IMAGE_COLOURS] [STEP * IMAGE_COLOURS * sizeof (float)];
    size_t source_bytes = s_source_pixel_bytes (layout);
    size_t target_bytes = dtype_bytes (format->dtype) * (layout == LAYOUT_INTERLEAVED? IMAGE_COLOURS: 1);
    memcpy (pixels + (row->across? step - row->width: 0) * source_bytes, row->source,
        row->width * source_bytes);
    row_t whole = { pixels, { numbers [0], numbers [1], numbers [2] }, step, row->across, false };
    loop (layout, format, &whole);
    for (size_t index = 0; index < (layout == LAYOUT_PLANAR? IMAGE_COLOURS: 1); index++)
        memcpy (row->targets [index], numbers [index], row->width * target_bytes);
}

static void
s_row (const finish_way_t *way, const uint8_t *source, uint8_t *const targets [IMAGE_COLOURS])
{
    const finish_format_t *format = way->format;
    layout_t layout = way->channels == 1? LAYOUT_VALUES: format->channels == 1? LAYOUT_FIRST
        : format->planar? LAYOUT_PLANAR: LAYOUT_INTERLEAVED;
    row_t row = { source, { targets [0], targets [1], targets [2] }, way->width, way->across, way->streams };
    loop_f *loop = s_loops [format->dtype] [format->is_linear];
    size_t step = format->dtype == DTYPE_UINT8? VECTOR: STEP;
    if (layout == LAYOUT_INTERLEAVED && format->dtype == DTYPE_UINT8 && !way->across)
        memcpy (targets [0], source, way->width * IMAGE_COLOURS);
    else if (way->width < step)
        s_few (loop, layout, format, &row, step);
    else
        loop (layout, format, &row);
}

static void
s_end (void)
{
    _mm_sfence ();
}

const finish_loops_t finish_loops_avx2 = { s_row, s_copy, s_end };
