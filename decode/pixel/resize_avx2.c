/*  resize_avx2.c -- the two passes of a resize for processors with AVX2 (loops.h).  */
#include "loops.h"
#include <immintrin.h>
#include <string.h>
#include "instrument.h"

//  The weights of two neighbours, in place of the two.
typedef struct {
    int16_t low [2];
    int8_t high [4];            //  both twice: 32 bits that fill a vector
} pair_t;

_Static_assert (sizeof (pair_t) == 2 * sizeof (int32_t), "a pair takes the room of two weights");

#define INLINE INSTRUMENT_ROWS static inline __attribute__ ((always_inline))

//  ---------------------------------------------------------------------------------------------------------
//  Weighing: 32 columns of bytes at once

//  Splits all weights of the axis, in their place.
INSTRUMENT_ROWS static void
s_split (const resize_axis_t *axis)
{
    //  From each 8 bytes: the lower halves of both numbers, then twice their third bytes.
    const __m256i places = _mm256_setr_epi8 (
        0, 1, 4, 5, 2, 6, 2, 6, 8, 9, 12, 13, 10, 14, 10, 14,
        0, 1, 4, 5, 2, 6, 2, 6, 8, 9, 12, 13, 10, 14, 10, 14);
    //  Half of 65536 more rounds the upper part; in the lower one it has turned the sign over, which is
    //  turned back.
    const __m256i half = _mm256_set1_epi32 (1 << 15), signs = _mm256_set1_epi64x (0x80008000);
    size_t bytes = (size_t) axis->count * axis->weights_each * sizeof (int32_t);
    for (size_t at = 0; at < bytes; at += sizeof (__m256i)) {
        __m256i *weights = (__m256i *) ((uint8_t *) axis->weights + at);
        __m256i split = _mm256_shuffle_epi8 (_mm256_add_epi32 (_mm256_load_si256 (weights), half), places);
        _mm256_store_si256 (weights, _mm256_xor_si256 (split, signs));
    }
}

//  Behind s_split: of result pixel index.
static inline const pair_t *
s_pairs (const resize_axis_t *axis, uint32_t index)
{
    return (const pair_t *) axis->weights + (size_t) index * (axis->weights_each / 2);
}

//  Of 16 columns: H in 16 bits, L in 32 bits of the even and of the odd ones.
typedef struct {
    __m256i high;
    __m256i even;
    __m256i odd;
} sums_t;

//  Adds two taps.  Their bytes alternate in pixels.
INLINE void
s_add (sums_t *sums, __m256i pixels, __m256i low, __m256i high)
{
    //  Of the pairs 0, 2, ... and 1, 3, ...; each byte becomes 16 bits.
    const __m256i even = _mm256_setr_epi8 (
        0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1,
        0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
    const __m256i odd = _mm256_setr_epi8 (
        2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1,
        2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
    sums->high = _mm256_add_epi16 (sums->high, _mm256_maddubs_epi16 (pixels, high));
    sums->even = _mm256_add_epi32 (sums->even, _mm256_madd_epi16 (_mm256_shuffle_epi8 (pixels, even), low));
    sums->odd = _mm256_add_epi32 (sums->odd, _mm256_madd_epi16 (_mm256_shuffle_epi8 (pixels, odd), low));
}

//  H + (L >> 16), without the last bits.
INLINE __m256i
s_round (const sums_t *sums)
{
    __m256i low = _mm256_blend_epi16 (_mm256_srli_epi32 (sums->even, 16), sums->odd, 0xaa);
    return _mm256_srai_epi16 (_mm256_add_epi16 (sums->high, low), RESIZE_HIGH_BITS);
}

INLINE __m256i
s_broadcast (const void *four_bytes)
{
    int32_t value;
    memcpy (&value, four_bytes, sizeof value);
    return _mm256_set1_epi32 (value);
}

//  The weighted sum of taps vectors, stride bytes apart, two by two.  There is nothing to read behind the
//  last one: it is its own neighbour then, with weight 0.
INLINE __m256i
s_weigh (const uint8_t *from, size_t stride, uint32_t taps, uint32_t pair_count, const pair_t *pairs)
{
    const __m256i half = _mm256_set1_epi16 (RESIZE_HIGH_HALF), zero = _mm256_setzero_si256 ();
    sums_t left = { half, zero, zero }, right = left;
    for (uint32_t pair = 0; pair < pair_count; pair++, from += 2 * stride) {
        __m256i first = _mm256_loadu_si256 ((const __m256i *) from);
        __m256i second = _mm256_loadu_si256 ((const __m256i *) (2 * pair + 1 < taps? from + stride: from));
        __m256i low = s_broadcast (pairs [pair].low), high = s_broadcast (pairs [pair].high);
        s_add (&left, _mm256_unpacklo_epi8 (first, second), low, high);
        s_add (&right, _mm256_unpackhi_epi8 (first, second), low, high);
    }
    return _mm256_packus_epi16 (s_round (&left), s_round (&right));
}

INLINE void
s_weigh_vectors (const uint8_t *from, size_t stride, uint32_t taps, uint32_t pair_count, const pair_t *pairs,
    size_t bytes, uint8_t *target)
{
    for (size_t at = 0; at < bytes; at += RESIZE_VECTOR) {
        //  The last vector goes back a little rather than beyond the end.
        if (at > bytes - RESIZE_VECTOR)
            at = bytes - RESIZE_VECTOR;
        _mm256_storeu_si256 ((__m256i *) (target + at), s_weigh (from + at, stride, taps, pair_count, pairs));
    }
}

//  The weighted sum of taps rows of bytes >= RESIZE_VECTOR.  Few taps are the usual case: known to the
//  compiler, they take a sixth off the whole resize.
INLINE void
s_weigh_row (const uint8_t *from, size_t stride, uint32_t taps, const pair_t *pairs, size_t bytes,
    uint8_t *target)
{
    if (taps <= 2)
        s_weigh_vectors (from, stride, taps, 1, pairs, bytes, target);
    else if (taps <= 4)
        s_weigh_vectors (from, stride, taps, 2, pairs, bytes, target);
    else
        s_weigh_vectors (from, stride, taps, (taps + 1) / 2, pairs, bytes, target);
}

INSTRUMENT_ROWS static void
s_down (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride)
{
    size_t bytes = image_bytes (1, source->width, source->channels);
    s_split (axis);
    const pair_t *pairs = s_pairs (axis, 0);
    for (uint32_t row = 0; row < axis->count; row++, pairs += axis->weights_each / 2, target += target_stride)
        s_weigh_row (image_at (source, axis->taps [row].first, 0), source->stride, axis->taps [row].count,
            pairs, bytes, target);
}

//  ---------------------------------------------------------------------------------------------------------
//  Across: STRIP rows are turned, so that the bytes of a column stand together; then a pixel of the result is
//  a weighted sum of columns, as above; then they are turned back.

enum {
    STRIP = 32,
    BLOCK = 16,                 //  columns that are turned at once
    CHUNK = 64                  //  result pixels that are turned at once: with their sources they fit in a
                                //  near cache
};

typedef struct {
    const uint8_t *from [STRIP];
    uint8_t *to [STRIP];
} strip_t;

//  A loop over the lines of a block, written out: then compilers keep them in registers at -O1, too.
#define EACH_LINE(DO) DO (0) DO (1) DO (2) DO (3) DO (4) DO (5) DO (6) DO (7) \
    DO (8) DO (9) DO (10) DO (11) DO (12) DO (13) DO (14) DO (15)

//  Lines 0 and 8, 1 and 9, ... go together, byte by byte.
INLINE void
s_mix (__m256i lines [BLOCK])
{
    __m256i before [BLOCK];
#define KEEP(line) before [line] = lines [line];
    EACH_LINE (KEEP)
#define MIX(line) lines [line] = line % 2 \
        ? _mm256_unpackhi_epi8 (before [line / 2], before [line / 2 + BLOCK / 2]) \
        : _mm256_unpacklo_epi8 (before [line / 2], before [line / 2 + BLOCK / 2]);
    EACH_LINE (MIX)
}

//  Turns two squares of BLOCK x BLOCK bytes, one in each half of the vectors.
INLINE void
s_turn (__m256i lines [BLOCK])
{
    s_mix (lines);
    s_mix (lines);
    s_mix (lines);
    s_mix (lines);
}

INLINE void
s_turn_in_block (const uint8_t *const rows [STRIP], size_t at, uint8_t *columns)
{
    __m256i lines [BLOCK];
#define READ_ROWS(line) lines [line] = _mm256_inserti128_si256 ( \
        _mm256_castsi128_si256 (_mm_loadu_si128 ((const __m128i *) (rows [line] + at))), \
        _mm_loadu_si128 ((const __m128i *) (rows [line + BLOCK] + at)), 1);
    EACH_LINE (READ_ROWS)
    s_turn (lines);
#define WRITE_COLUMN(line) _mm256_store_si256 ((__m256i *) (columns + line * STRIP), lines [line]);
    EACH_LINE (WRITE_COLUMN)
}

INLINE void
s_turn_out_block (const uint8_t *columns, uint8_t *const rows [STRIP], size_t at)
{
    __m256i lines [BLOCK];
#define READ_COLUMN(line) lines [line] = _mm256_load_si256 ((const __m256i *) (columns + line * STRIP));
    EACH_LINE (READ_COLUMN)
    s_turn (lines);
#define WRITE_ROWS(line) _mm_storeu_si128 ((__m128i *) (rows [line] + at), \
    _mm256_castsi256_si128 (lines [line])); \
    _mm_storeu_si128 ((__m128i *) (rows [line + BLOCK] + at), _mm256_extracti128_si256 (lines [line], 1));
    EACH_LINE (WRITE_ROWS)
}

//  bytes of each row from at on become as many columns.  No other byte is read: the last block goes back a
//  little.
INSTRUMENT_ROWS static void
s_turn_in (const strip_t *strip, size_t at, size_t bytes, uint8_t *columns)
{
    if (bytes < BLOCK) {
        uint8_t narrow [STRIP] [BLOCK] = { { 0 } };
        const uint8_t *rows [STRIP];
        for (int row = 0; row < STRIP; row++)
            rows [row] = memcpy (narrow [row], strip->from [row] + at, bytes);
        s_turn_in_block (rows, 0, columns);
        return;
    }
    for (size_t done = 0; done < bytes; done += BLOCK) {
        if (done > bytes - BLOCK)
            done = bytes - BLOCK;
        s_turn_in_block (strip->from, at + done, columns + done * STRIP);
    }
}

//  The way back: no other byte is written.
INSTRUMENT_ROWS static void
s_turn_out (const uint8_t *columns, size_t bytes, const strip_t *strip, size_t at)
{
    if (bytes < BLOCK) {
        uint8_t narrow [STRIP] [BLOCK], *rows [STRIP];
        for (int row = 0; row < STRIP; row++)
            rows [row] = narrow [row];
        s_turn_out_block (columns, rows, 0);
        for (int row = 0; row < STRIP; row++)
            memcpy (strip->to [row] + at, narrow [row], bytes);
        return;
    }
    for (size_t done = 0; done < bytes; done += BLOCK) {
        if (done > bytes - BLOCK)
            done = bytes - BLOCK;
        s_turn_out_block (columns + done * STRIP, strip->to, at + done);
    }
}

static inline uint32_t
s_chunk_end (const resize_axis_t *axis, uint32_t begin)
{
    return axis->count - begin > CHUNK? begin + CHUNK: axis->count;
}

//  The source pixels for the result pixels [begin, end).
static inline resize_taps_t
s_chunk_taps (const resize_axis_t *axis, uint32_t begin, uint32_t end)
{
    uint32_t first = axis->taps [begin].first;
    return (resize_taps_t) { first, axis->taps [end - 1].first + axis->taps [end - 1].count - first };
}

INSTRUMENT_ROWS static void
s_chunk (const resize_axis_t *axis, uint32_t begin, uint32_t end, uint32_t channels, const strip_t *strip,
    uint8_t *work)
{
    size_t pixel_bytes = channels * STRIP;
    resize_taps_t all = s_chunk_taps (axis, begin, end);
    uint8_t *results = work, *columns = work + CHUNK * pixel_bytes;
    s_turn_in (strip, (size_t) all.first * channels, (size_t) all.count * channels, columns);
    const pair_t *pairs = s_pairs (axis, begin);
    for (uint32_t pixel = begin; pixel < end; pixel++, pairs += axis->weights_each / 2) {
        resize_taps_t taps = axis->taps [pixel];
        s_weigh_row (columns + (taps.first - all.first) * pixel_bytes, pixel_bytes, taps.count, pairs,
            pixel_bytes, results + (pixel - begin) * pixel_bytes);
    }
    s_turn_out (results, (size_t) (end - begin) * channels, strip, (size_t) begin * channels);
}

static size_t
s_across_work (const resize_axis_t *axis, uint32_t channels)
{
    uint32_t most = 0;
    for (uint32_t begin = 0; begin < axis->count; begin += CHUNK) {
        resize_taps_t all = s_chunk_taps (axis, begin, s_chunk_end (axis, begin));
        most = all.count > most? all.count: most;
    }
    //  A block is turned whole, even if there are fewer columns.
    return ((size_t) most + CHUNK) * channels * STRIP + BLOCK * STRIP;
}

INSTRUMENT_ROWS static void
s_across (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride, void *work)
{
    s_split (axis);
    for (uint32_t top = 0; top < source->height; top += STRIP) {
        strip_t strip;
        //  The last strip repeats the last row: the same bytes are then written more than once.
        for (uint32_t row = 0; row < STRIP; row++) {
            uint32_t at = top + row < source->height? top + row: source->height - 1;
            strip.from [row] = image_at (source, at, 0);
            strip.to [row] = target + at * target_stride;
        }
        for (uint32_t begin = 0; begin < axis->count; begin += CHUNK)
            s_chunk (axis, begin, s_chunk_end (axis, begin), source->channels, &strip, work);
    }
}

const resize_loops_t resize_loops_avx2 = { s_across, s_across_work, s_down };
