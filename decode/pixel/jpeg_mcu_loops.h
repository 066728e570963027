/*  jpeg_mcu_loops -- the inner loops of jpeg_entropy: MCUs of a JPEG's coded data, decoded or walked over.
 *
 *  Compiled twice: once for every machine, and once for newer ones (simd.h), where a shift by a variable
 *  takes one operation instead of three.  Both give the same coefficients.  Only jpeg_entropy.c and
 *  loops_avx2.c include it.
 */
#ifndef JPEG_MCU_LOOPS_H
#define JPEG_MCU_LOOPS_H
#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>
#include "instrument.h"
#include "jpeg_lookup.h"

enum { JPEG_BLOCK = DCTSIZE2, JPEG_MCU_BLOCKS_MAX = D_MAX_BLOCKS_IN_MCU };
//  A DC value that overflows an int is libjpeg's affair: it wraps, or refuses the file, by its version.  A
//  difference has 15 bits, so a value that is no further from 0 than this behind each MCU has not overflowed.
enum { JPEG_DC_MAX = 1 << 30 };
//  A damaged MCU reads past the end of its data before it is found out: at most 64 symbols a block, of 31
//  bits each, and 8 bytes are loaded at a time.
enum { JPEG_BYTES_BEHIND = JPEG_MCU_BLOCKS_MAX * JPEG_BLOCK * 31 / 8 + 64 };
#define likely(x) __builtin_expect (!!(x), 1)
#define unlikely(x) __builtin_expect (!!(x), 0)

//  The next bits, from the highest of `bits` on.  `count` of them are loaded; those behind are right or zero.
typedef struct {
    const uint8_t *at;          //  the next byte to load
    uint64_t bits;
    uint64_t count;
} jpeg_bits_t;

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

//  Both: false, the data are damaged.
typedef struct {
    bool (*walk) (jpeg_coded_t *self, size_t mcus);
    bool (*decode) (jpeg_coded_t *self, JBLOCKROW *mcu);    //  libjpeg has zeroed it
} jpeg_mcu_loops_t;

#define JPEG_MCU_LOOPS { s_walk, s_decode }

extern const jpeg_mcu_loops_t jpeg_mcu_loops_portable;
extern const jpeg_mcu_loops_t jpeg_mcu_loops_avx2;

//  ---------------------------------------------------------------------------------------------------------
//  Bits

static inline INSTRUMENT_ROWS void
s_load (jpeg_bits_t *self)
{
    uint64_t next;
    memcpy (&next, self->at, sizeof next);
    self->bits |= be64toh (next) >> self->count;
    self->at += (63 - self->count) >> 3;
    self->count |= 56;
}

static inline INSTRUMENT_ROWS void
s_drop (jpeg_bits_t *self, unsigned count)
{
    self->bits <<= count;
    self->count -= count;
}

static inline INSTRUMENT_ROWS size_t
s_index (const jpeg_bits_t *self)
{
    return self->bits >> (64 - JPEG_LOOKUP_BITS);
}

//  The value behind the code of the symbol that is next (T.81, figure F.12).
static inline INSTRUMENT_ROWS int
s_value (const jpeg_bits_t *self, jpeg_symbol_t symbol)
{
    uint64_t value = self->bits << symbol.code_bits;
    int64_t is_negative = (int64_t) ~value >> 63;       //  all ones, or zero
    value = value >> 1 >> (63 - symbol.value_bits);
    return (int) ((int64_t) value + (int64_t) ((uint64_t) is_negative << symbol.value_bits) - is_negative);
}

//  ---------------------------------------------------------------------------------------------------------
//  Blocks

//  By the place behind a coefficient: the coefficient's place in libjpeg's order.  Places past the block's
//  end are those of an end of block.  Its value is 0, and it goes to DC's place, because DC is written last.
static const uint8_t s_natural [JPEG_BLOCK + 2 * JPEG_LOOKUP_END] = {
    0,
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7,
    14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39,
    46, 53, 60, 61, 54, 47,
    55, 62, 63
};

//  At most 31 bits.  The value is computed: whether one would be in a table is a branch that no processor
//  foresees.
static inline INSTRUMENT_ROWS bool
s_read_dc (jpeg_bits_t *bits, const jpeg_lookup_t *lookup, int *difference_p)
{
    s_load (bits);
    jpeg_symbol_t symbol = lookup->symbols [s_index (bits)];
    if (unlikely (symbol.bits == 0) && (symbol = jpeg_lookup_long (lookup, bits->bits)).bits == 0)
        return false;
    *difference_p = s_value (bits, symbol);
    s_drop (bits, symbol.bits);
    return true;
}

//  One AC symbol, at most 31 bits, whatever its length; 0 bits: no code.
static inline INSTRUMENT_ROWS jpeg_symbol_t
s_next_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup)
{
    s_load (bits);
    jpeg_symbol_t symbol = lookup->symbols [s_index (bits)];
    return likely (symbol.bits > 0)? symbol: jpeg_lookup_long (lookup, bits->bits);
}

static inline INSTRUMENT_ROWS bool
s_ends_block (unsigned place)
{
    return place == JPEG_BLOCK || place >= JPEG_LOOKUP_END;
}

//  Over the AC coefficients of a block.  An entry takes at most 26 bits, so two fit into a load.
static inline INSTRUMENT_ROWS bool
s_walk_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup)
{
    for (unsigned place = 1;;) {
        jpeg_run_t run;
        s_load (bits);
        for (int step = 0; step < 2; step++) {
            run = lookup->runs [s_index (bits)];
            if (unlikely (run.bits == 0 || place + run.advance >= JPEG_BLOCK))
                goto one;
            place += run.advance;
            s_drop (bits, run.bits);
        }
        continue;
    one:
        //  The end of the block, if it is that of the entry too.
        if (run.bits > 0) {
            unsigned behind = place + run.advance;
            if (behind == JPEG_BLOCK
                || (behind >= JPEG_LOOKUP_END && behind < JPEG_LOOKUP_END + JPEG_BLOCK)) {
                s_drop (bits, run.bits);
                return true;
            }
        }
        jpeg_symbol_t symbol = s_next_ac (bits, lookup);
        if (symbol.bits == 0)
            return false;
        s_drop (bits, symbol.bits);
        place += symbol.advance;
        if (place >= JPEG_BLOCK)
            return s_ends_block (place);
    }
}

//  The AC coefficients of a block, which libjpeg has zeroed.  An entry takes at most 11 bits: four fit into a
//  load.
static inline INSTRUMENT_ROWS bool
s_decode_ac (jpeg_bits_t *bits, const jpeg_lookup_t *lookup, JCOEF *block)
{
    for (unsigned place = 1;;) {
        jpeg_pair_t pair;
        unsigned first;
        s_load (bits);
        for (int step = 0; step < 4; step++) {
            pair = lookup->pairs [s_index (bits)];
            if (unlikely (pair.bits == 0))
                goto one;
            first = place + pair.first_advance;
            place += pair.advance;
            block [s_natural [place]] = pair.value;
            block [s_natural [first]] = pair.first_value;
            if (place >= JPEG_BLOCK)
                goto done;
            s_drop (bits, pair.bits);
        }
        continue;
    done:
        if (first >= JPEG_BLOCK) {
            s_drop (bits, pair.first_bits);
            return s_ends_block (first);
        }
        s_drop (bits, pair.bits);
        return s_ends_block (place);
    one:;
        jpeg_symbol_t symbol = s_next_ac (bits, lookup);
        if (symbol.bits == 0)
            return false;
        place += symbol.advance;
        if (place <= JPEG_BLOCK)
            block [s_natural [place]] = (JCOEF) s_value (bits, symbol);
        s_drop (bits, symbol.bits);
        if (place >= JPEG_BLOCK)
            return s_ends_block (place);
    }
}

//  ---------------------------------------------------------------------------------------------------------
//  MCUs

//  No bits past the end have been read, and no DC value is near an overflow.  Asked behind each MCU, because
//  only a limited number of bits may be read behind the data.
static inline INSTRUMENT_ROWS bool
s_is_inside (const jpeg_coded_t *self, const jpeg_bits_t *bits)
{
    bool is_inside = bits->at - bits->count / 8 <= self->end;
    for (unsigned component = 0; component < MAX_COMPS_IN_SCAN; component++)
        is_inside &= self->last_dc [component] <= JPEG_DC_MAX && self->last_dc [component] >= -JPEG_DC_MAX;
    return is_inside;
}

static INSTRUMENT_ROWS bool
s_walk (jpeg_coded_t *self, size_t mcus)
{
    jpeg_bits_t bits = self->bits;
    bool good = true;
    for (; mcus > 0 && good; mcus--) {
        for (unsigned index = 0; index < self->block_count && good; index++) {
            const jpeg_block_t *block = &self->blocks [index];
            int difference = 0;
            good = s_read_dc (&bits, block->dc, &difference) && s_walk_ac (&bits, block->ac);
            self->last_dc [block->component] += difference;
        }
        good = good && s_is_inside (self, &bits);
    }
    self->bits = bits;
    return good;
}

static INSTRUMENT_ROWS bool
s_decode (jpeg_coded_t *self, JBLOCKROW *mcu)
{
    jpeg_bits_t bits = self->bits;
    bool good = true;
    for (unsigned index = 0; index < self->block_count && good; index++) {
        const jpeg_block_t *block = &self->blocks [index];
        int difference = 0;
        good = s_read_dc (&bits, block->dc, &difference) && s_decode_ac (&bits, block->ac, *mcu [index]);
        self->last_dc [block->component] += difference;
        (*mcu [index]) [0] = (JCOEF) self->last_dc [block->component];
    }
    self->bits = bits;
    return good && s_is_inside (self, &bits);
}

#endif
