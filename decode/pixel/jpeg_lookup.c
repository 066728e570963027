#include "jpeg_lookup.h"
#include <assert.h>
#include <string.h>

enum { BITS = JPEG_LOOKUP_BITS, ENTRIES = JPEG_LOOKUP_ENTRIES, END = JPEG_LOOKUP_END, BLOCK = 64 };
//  Symbols without value bits: a run of 16 zeros, or the rest of the block.
enum { RUN_OF_16 = 15 };

static jpeg_symbol_t
s_symbol (unsigned code_bits, uint8_t value, bool is_dc)
{
    unsigned value_bits = value & 15, zeros = value >> 4;
    unsigned advance = is_dc? 0: value_bits || zeros == RUN_OF_16? zeros + 1: END;
    return (jpeg_symbol_t) { (uint8_t) (code_bits + value_bits), (uint8_t) code_bits, (uint8_t) value_bits,
        (uint8_t) advance };
}

//  The number that the last value_bits of bits stand for (T.81, figure F.12).
static int16_t
s_number (unsigned bits, unsigned value_bits)
{
    unsigned value = bits & ((1u << value_bits) - 1);
    bool is_negative = value_bits > 0 && !(value >> (value_bits - 1));
    return (int16_t) (is_negative? (int) value - (1 << value_bits) + 1: (int) value);
}

//  Codes in order are numbers in order, and so are the entries that begin with them (T.81, C.2).
static void
s_build_symbols (jpeg_lookup_t *self)
{
    jpeg_symbol_t *entry = self->symbols, *end = self->symbols + ENTRIES;
    int32_t code = 0, index = 0;
    for (unsigned length = 1; length <= JPEG_CODE_BITS_MAX; length++, code *= 2) {
        self->to_value [length] = index - code;
        for (unsigned count = self->counts [length]; count > 0; count--, code++, index++) {
            assert (code < 1 << length && index < JPEG_VALUES_MAX);
            jpeg_symbol_t symbol = s_symbol (length, self->values [index], self->is_dc);
            for (unsigned same = length <= BITS? 1u << (BITS - length): 0; same > 0; same--)
                *entry++ = symbol;
        }
        self->last_code [length] = self->counts [length]? code - 1: -1;
        assert (entry <= end);
    }
    while (entry < end)
        *entry++ = (jpeg_symbol_t) { .bits = 0 };
}

//  Fills all entries of `pairs` that begin with first, from *index_p on.  The value of first is in the entry.
static void
s_build_second (jpeg_lookup_t *self, unsigned *index_p, jpeg_symbol_t first)
{
    unsigned left = BITS - first.bits;
    jpeg_pair_t alone = { first.bits, first.bits, first.advance, first.advance, 0, 0 };
    alone.value = alone.first_value = s_number (*index_p >> left, first.value_bits);
    jpeg_pair_t *entry = self->pairs + *index_p, *end = entry + (1u << left);
    *index_p += 1u << left;
    for (unsigned rest = 0; entry < end;) {
        jpeg_symbol_t second = self->symbols [rest << first.bits];
        bool fits = second.bits > 0 && second.bits <= left && first.advance != END;
        jpeg_pair_t pair = alone;
        if (fits) {
            pair.bits = (uint8_t) (first.bits + second.bits);
            pair.advance = (uint8_t) (first.advance + second.advance);
            pair.value = s_number (rest >> (left - second.bits), second.value_bits);
        }
        for (unsigned same = fits? 1u << (left - second.bits): 1; same > 0; same--, rest++)
            *entry++ = pair;
    }
}

static void
s_build_pairs (jpeg_lookup_t *self)
{
    for (unsigned index = 0; index < ENTRIES;) {
        jpeg_symbol_t first = self->symbols [index];
        if (first.bits > 0 && first.bits <= BITS)
            s_build_second (self, &index, first);
        else
            self->pairs [index++] = (jpeg_pair_t) { .bits = 0 };
    }
}

//  `runs` of the entries from `entry` on that begin with the symbols of `before`: one for each of their last
//  `left` bits.  The value of the last symbol may end behind the entry: it is passed over all the same.
static void
s_build_runs (const jpeg_lookup_t *self, jpeg_run_t *entry, unsigned left, jpeg_run_t before)
{
    for (unsigned rest = 0; rest < 1u << left;) {
        jpeg_symbol_t next = self->symbols [rest << (BITS - left)];
        bool fits = next.bits > 0 && next.code_bits <= left
            && (next.advance == END || before.advance + next.advance <= BLOCK);
        jpeg_run_t run = before;
        if (fits)
            run = (jpeg_run_t) { (uint8_t) (before.bits + next.bits),
                (uint8_t) (before.advance + next.advance) };
        bool is_last = next.advance == END || next.bits >= left;
        unsigned same = fits? 1u << (left - (is_last? next.code_bits: next.bits)): 1;
        if (fits && !is_last)
            s_build_runs (self, entry + rest, left - next.bits, run);
        else
            for (unsigned index = 0; index < same; index++)
                entry [rest + index] = run;
        rest += same;
    }
}

void
jpeg_lookup_build (jpeg_lookup_t *self, const uint8_t counts [JPEG_CODE_BITS_MAX + 1],
    const uint8_t values [JPEG_VALUES_MAX], bool is_dc)
{
    if (self->is_built && self->is_dc == is_dc
    &&  memcmp (self->counts + 1, counts + 1, JPEG_CODE_BITS_MAX) == 0
    &&  memcmp (self->values, values, JPEG_VALUES_MAX) == 0)
        return;
    memcpy (self->counts, counts, sizeof self->counts);
    memcpy (self->values, values, sizeof self->values);
    self->is_dc = is_dc;
    s_build_symbols (self);
    if (!is_dc) {
        s_build_pairs (self);
        s_build_runs (self, self->runs, BITS, (jpeg_run_t) { 0, 0 });
    }
    self->is_built = true;
}

jpeg_symbol_t
jpeg_lookup_long (const jpeg_lookup_t *self, uint64_t bits)
{
    for (unsigned length = 1; length <= JPEG_CODE_BITS_MAX; length++) {
        int32_t code = (int32_t) (bits >> (64 - length));
        if (code <= self->last_code [length])
            return s_symbol (length, self->values [code + self->to_value [length]], self->is_dc);
    }
    return (jpeg_symbol_t) { .bits = 0 };
}
