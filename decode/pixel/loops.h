/*  loops -- the inner loops that exist twice: for every machine, and for newer ones, with the same bytes; and
 *  which of them this machine and the environment allow, asked once a call.
 *
 *  Those of `loops_t` are plain C: loops.c, compiled twice.  Those of blur, colour and remap have no branch
 *  that keeps compilers from making vectors of them.  Integers are the same on all machines, and floats are
 *  rounded after each operation (-ffp-contract=off) in the order written there, but for fmaf, which rounds a
 *  product and a sum together wherever it is computed.  Those of finish and resize for newer machines are
 *  written out: finish_avx2.c, resize_avx2.c.
 *
 *  For blur, colour, remap and jpeg_entropy, which take loops_chosen, and for finish and resize, which ask
 *  for the loops_level.  TUREEN_SIMD=portable in the environment keeps to portable C, for tests and for
 *  finding faults.
 */
#ifndef LOOPS_H
#define LOOPS_H
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>
#include "colour.h"
#include "finish.h"
#include "image.h"
#include "instrument.h"
#include "jpeg_lookup.h"
#include "remap.h"

//  ---- blur

//  A box of 2 radius + 1 pixels, and a part of one more on either side; weights of 2^24.
typedef struct {
    uint32_t radius;
    uint32_t weight;
    uint32_t edge_weight;
} blur_box_t;

typedef struct {
    //  sums += weight x (one + other)
    void (*add_pixels) (float *sums, const uint8_t *one, const uint8_t *other, float weight, size_t count);
    void (*add_floats) (float *sums, const float *one, const float *other, float weight, size_t count);
    //  To the nearest, halves to even.
    void (*round) (uint8_t *target, const float *sums, size_t count);
    //  One pixel of count lanes: moves the box on by one, then weighs it.
    void (*move_box) (const blur_box_t *box, uint32_t *sums, const uint8_t *in, const uint8_t *out,
        const uint8_t *after, uint8_t *target, size_t count);
} blur_loops_t;

//  ---- colour, most of it on pixels taken apart into planes

enum { COLOUR_BLOCK = 256 };

//  Up to COLOUR_BLOCK pixels.
typedef struct {
    uint8_t red [COLOUR_BLOCK];
    uint8_t green [COLOUR_BLOCK];
    uint8_t blue [COLOUR_BLOCK];
} colour_block_t;

//  For AVX2 these are 2 to 3 times as fast.
typedef struct colour_loops {
    void (*split) (colour_block_t *block, size_t count, const uint8_t *pixels);
    void (*merge) (const colour_block_t *block, size_t count, uint8_t *pixels);
    void (*saturate) (colour_block_t *block, size_t count, float factor);
    void (*turn_hue) (colour_block_t *block, size_t count, int32_t shift);
    void (*grey) (colour_block_t *block, size_t count);
    uint32_t (*sum) (const uint8_t *pixels, size_t count);  //  of their greys; count <= COLOUR_BLOCK
    //  count bytes of RGB pixels, from the second pixel of three rows on.
    void (*sharpen) (uint8_t *target, const uint8_t *above, const uint8_t *row, const uint8_t *below,
        size_t count, float factor);
} colour_loops_t;

//  Pillow's blend of from and to.  What it does not clip, between 0 and 1, cannot leave the range.
static inline uint8_t
colour_blend (int32_t from, int32_t to, float factor)
{
    float value = (float) from + factor * (float) (to - from);
    value = value > 0? value: 0;
    value = value < UINT8_MAX? value: UINT8_MAX;
    return (uint8_t) (int32_t) value;
}

//  ---- remap: each pixel displaced

enum { ELASTIC_BLOCK = 256 };       //  columns that are looked up together

//  Where the pixels of a block look in the source, from the middle of its first pixel on.
typedef struct {
    float x [ELASTIC_BLOCK], y [ELASTIC_BLOCK];
} elastic_places_t;

typedef struct {
    //  places = ((at + displacement) + 1) x half - 0.5
    void (*look) (float *places, const float *at, const float *displacement, float half, size_t count);
    void (*mix) (const remap_elastic_t *self, const image_t *source, const elastic_places_t *places,
        size_t count, uint8_t *target);
} elastic_loops_t;

//  ---- MCUs of a JPEG's coded data, decoded or walked over (codec/jpeg_entropy.h)

enum { JPEG_BLOCK = DCTSIZE2, JPEG_MCU_BLOCKS_MAX = D_MAX_BLOCKS_IN_MCU };
//  A DC value that overflows an int is libjpeg's affair: it wraps, or refuses the file, by its version.  A
//  difference has 15 bits, so a value that is no further from 0 than this behind each MCU has not overflowed.
enum { JPEG_DC_MAX = 1 << 30 };
//  A damaged MCU reads past the end of its data before it is found out: at most 64 symbols a block, of 31
//  bits each, and 8 bytes are loaded at a time.
enum { JPEG_BYTES_BEHIND = JPEG_MCU_BLOCKS_MAX * JPEG_BLOCK * 31 / 8 + 64 };

//  The next bits, from the highest of `bits` on.  `count` of them are loaded; those behind are right or zero.
typedef struct {
    const uint8_t *at;          //  the next byte to load
    uint64_t bits;
    uint64_t count;
} jpeg_bits_t;

static inline INSTRUMENT_ROWS void
jpeg_bits_load (jpeg_bits_t *self)
{
    uint64_t next;
    memcpy (&next, self->at, sizeof next);
    self->bits |= be64toh (next) >> self->count;
    self->at += (63 - self->count) >> 3;
    self->count |= 56;
}

static inline INSTRUMENT_ROWS void
jpeg_bits_drop (jpeg_bits_t *self, unsigned count)
{
    self->bits <<= count;
    self->count -= count;
}

typedef struct {
    const jpeg_lookup_t *dc, *ac;
    unsigned component;
} jpeg_block_t;

//  Coded data without stuffing, up to a restart marker or the end of the scan.
typedef struct {
    jpeg_bits_t bits;
    const uint8_t *end;         //  of the data; JPEG_BYTES_BEHIND may be read behind it
    int64_t last_dc [MAX_COMPS_IN_SCAN];
    jpeg_block_t blocks [JPEG_MCU_BLOCKS_MAX];
    unsigned block_count;       //  in an MCU
} jpeg_coded_t;

//  Newer processors shift by a variable in one operation instead of three.
//  Both: false, the data are damaged.
typedef struct {
    bool (*walk) (jpeg_coded_t *self, size_t mcus);
    bool (*decode) (jpeg_coded_t *self, JBLOCKROW *mcu);    //  libjpeg has zeroed it
} jpeg_loops_t;

//  ---- all of them

typedef struct loops {
    blur_loops_t blur;
    colour_loops_t colour;
    elastic_loops_t elastic;
    jpeg_loops_t jpeg;
} loops_t;

extern const loops_t loops_portable;
extern const loops_t loops_avx2;        //  in builds with TUREEN_AVX2

//  ---- which of them

typedef enum { LOOPS_PORTABLE, LOOPS_AVX2, LOOPS_LEVELS } loops_level_t;

//  The best level of this machine that the environment allows.  It looks every time: some tens of
//  nanoseconds, cheap enough for a call a row.  Any thread.
loops_level_t loops_level (void);
//  The loops of that level.
const loops_t *loops_chosen (void);
//  Whether this machine has it, for tests that run every level.
int loops_has (loops_level_t level);

//  ---- finish: one row, whatever the format, with AVX2, FMA and F16C
//
//  They read and write no byte outside the row.  8-bit rows are done 32 pixels at a time, others 16 at a
//  time, so that the channels take turns in the same way each time.  What is left at the end of a row is done
//  by doing its last pixels again; a row that is shorter than one step, in a buffer of its own.

//  What all rows of an image have in common.
typedef struct {
    const finish_format_t *format;
    uint32_t width;
    uint32_t channels;          //  of the source
    bool across;                //  the last pixel comes first
    bool is_large;              //  the whole target: worth going past the caches
    bool streams;               //  it does, and every row of the target begins at FINISH_ALIGNMENT
} finish_way_t;

enum { FINISH_ALIGNMENT = 32 };

typedef struct {
    //  targets: one of each plane, or only the first.
    void (*row) (const finish_way_t *way, const uint8_t *source, uint8_t *const targets [IMAGE_COLOURS]);
    void (*copy) (const uint8_t *source, size_t bytes, uint8_t *target, bool streams);
    //  Where something may have been streamed: before other threads look.
    void (*end) (void);
} finish_loops_t;

extern const finish_loops_t finish_loops_avx2;

//  Whether the channels of a row lie one behind the other in one place.
static inline bool
finish_interleaves (const finish_format_t *format)
{
    return format->channels > 1 && !format->planar;
}

//  ---- resize: the two passes with AVX2, and the weights that they share with those of resize.c
//
//  A weight is a whole number; those of one result pixel add up to about 1 << RESIZE_PRECISION.  The vectors
//  take it in two parts:
//
//      weight = high * 65536 + low,    -128 <= high < 128,    -32768 <= low < 32768
//
//  so that products with 8-bit pixels need 16-bit multiplications only.  With H = sum of pixel * high and
//  L = sum of pixel * low, what is wanted, (sum of pixel * weight + half) >> RESIZE_PRECISION, is
//
//      (H + (half >> 16) + (L >> 16)) >> (RESIZE_PRECISION - 16)
//
//  exactly: the lower 16 bits of L that are cut off cannot carry into what stays.  The sum in brackets fits
//  in 16 bits, as the positive weights of a pixel add up to less than RESIZE_WEIGHT_MAX (they are normalised,
//  and the negative ones add up to less than RESIZE_WEIGHT_MAX - 1), so it may be computed modulo 65536, and
//  L modulo 2^32, whatever the number of taps.  For the same reason pixel * high of two neighbours fits in 16
//  bits.

enum {
    RESIZE_PRECISION = 32 - 8 - 2,          //  Pillow's: 8 bits for the pixel, 2 spare
    RESIZE_HIGH_BITS = RESIZE_PRECISION - 16,
    RESIZE_HIGH_HALF = 1 << (RESIZE_HIGH_BITS - 1)
};

#define RESIZE_WEIGHT_MAX 1.5
_Static_assert (255 * (1 << RESIZE_HIGH_BITS) * 3 / 2 + RESIZE_HIGH_HALF < INT16_MAX, "sums fit in 16 bits");

//  The source pixels under the filter of one result pixel; count > 0.
typedef struct {
    uint32_t first;
    uint32_t count;
} resize_taps_t;

//  One axis: count result pixels.
typedef struct {
    uint32_t count;
    uint32_t weights_each;                  //  even
    const resize_taps_t *taps;              //  [count]; neither first nor first + count ever goes down
    int32_t *weights;                       //  [count * weights_each]: of a pixel's taps, and a 0 where they
                                            //  are odd;
                                            //      aligned, with slack.  Good for one pass, which may change
                                            //      them
} resize_axis_t;

enum {
    RESIZE_VECTOR = 32,                     //  bytes
    RESIZE_TURN_ROWS_MIN = 4,               //  fewer rows are done faster without turning
    RESIZE_WORK_MAX = 4 * 1024 * 1024       //  beyond it, portable C is as good: the caches are too small
};

typedef struct {
    //  All rows of source to the width of axis.  work has across_work bytes, aligned.
    void (*across) (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride,
        void *work);
    size_t (*across_work) (const resize_axis_t *axis, uint32_t channels);
    //  All columns of source to the height of axis.  A row of source has at least RESIZE_VECTOR bytes.
    void (*down) (const resize_axis_t *axis, const image_t *source, uint8_t *target, size_t target_stride);
} resize_loops_t;

extern const resize_loops_t resize_loops_avx2;

#endif
