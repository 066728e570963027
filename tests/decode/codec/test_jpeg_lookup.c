/*  test_jpeg_lookup -- tables of random Huffman codes beside a simple model that reads bit by bit.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "jpeg_lookup.h"
#include "seed.h"

enum { ROUNDS = 60, LOOKS = 3000, BLOCK = 64 };

typedef struct {
    uint8_t counts [JPEG_CODE_BITS_MAX + 1];
    uint8_t values [JPEG_VALUES_MAX];
} code_t;

//  Of random lengths; the code of ones alone is never used, as JPEG wants it.
static code_t
s_random_code (bool is_dc, uint64_t *random)
{
    code_t code = { .counts = { 0 } };
    unsigned free_codes = 2, count = 0, values = is_dc? 16: JPEG_VALUES_MAX;
    for (unsigned length = 1; length <= JPEG_CODE_BITS_MAX; length++, free_codes *= 2) {
        unsigned most = free_codes - 1 < values - count? free_codes - 1: values - count;
        unsigned share = test_below (random, 3)? 1 + (unsigned) test_below (random, 4): 1;
        unsigned here = (unsigned) test_below (random, most / share + 1);
        code.counts [length] = (uint8_t) here;
        count += here;
        free_codes -= here;
    }
    for (unsigned index = 0; index < JPEG_VALUES_MAX; index++)
        code.values [index] = (uint8_t) (is_dc? index % 16: index);
    for (unsigned index = values; index > 1; index--) {
        unsigned other = (unsigned) test_below (random, index);
        uint8_t kept = code.values [index - 1];
        code.values [index - 1] = code.values [other];
        code.values [other] = kept;
    }
    return code;
}

//  ---------------------------------------------------------------------------------------------------------
//  The model: one bit after the other (T.81, figures F.12 and F.16)

typedef struct {
    unsigned bits;              //  of code and value; 0: no code
    unsigned code_bits;
    unsigned advance;
    int value;
} symbol_t;

static unsigned
s_take (uint64_t bits, unsigned from, unsigned count)
{
    unsigned taken = 0;
    for (unsigned index = from; index < from + count; index++)
        taken = taken * 2 + (unsigned) (bits >> (63 - index) & 1);
    return taken;
}

static symbol_t
s_read (const code_t *code, uint64_t bits, unsigned from, bool is_dc)
{
    unsigned first = 0, index = 0;
    for (unsigned length = 1; length <= JPEG_CODE_BITS_MAX; length++) {
        unsigned word = s_take (bits, from, length);
        if (word - first < code->counts [length]) {
            uint8_t symbol = code->values [index + word - first];
            unsigned size = symbol & 15, zeros = symbol >> 4;
            unsigned value = s_take (bits, from + length, size);
            return (symbol_t) { length + size, length,
                is_dc? 0: size || zeros == 15? zeros + 1: JPEG_LOOKUP_END,
                size && value < 1u << (size - 1)? (int) value - (1 << size) + 1: (int) value };
        }
        index += code->counts [length];
        first = (first + code->counts [length]) * 2;
    }
    return (symbol_t) { .bits = 0 };
}

//  ---------------------------------------------------------------------------------------------------------

static void
s_check_symbol (const jpeg_lookup_t *lookup, uint64_t bits, symbol_t first)
{
    jpeg_symbol_t found = lookup->symbols [bits >> (64 - JPEG_LOOKUP_BITS)];
    if (first.bits > 0 && first.code_bits > JPEG_LOOKUP_BITS)
        assert_int_equal (found.bits, 0);
    jpeg_symbol_t slow = jpeg_lookup_long (lookup, bits);
    assert_int_equal (slow.bits, first.bits);
    if (found.bits == 0)
        found = slow;
    assert_int_equal (found.bits, first.bits);
    if (first.bits == 0)
        return;
    assert_int_equal (found.code_bits, first.code_bits);
    assert_int_equal (found.value_bits, first.bits - first.code_bits);
    assert_int_equal (found.advance, first.advance);
}

//  Two symbols if both fit into the entry, else one; none if the first does not fit.
static void
s_check_pair (const jpeg_lookup_t *lookup, const code_t *code, uint64_t bits, symbol_t first)
{
    jpeg_pair_t pair = lookup->pairs [bits >> (64 - JPEG_LOOKUP_BITS)];
    if (first.bits == 0 || first.bits > JPEG_LOOKUP_BITS) {
        assert_int_equal (pair.bits, 0);
        return;
    }
    assert_int_equal (pair.first_bits, first.bits);
    assert_int_equal (pair.first_advance, first.advance);
    assert_int_equal (pair.first_value, first.value);
    symbol_t second = s_read (code, bits, first.bits, false);
    bool fits = second.bits > 0 && first.bits + second.bits <= JPEG_LOOKUP_BITS
        && first.advance != JPEG_LOOKUP_END;
    assert_int_equal (pair.bits, first.bits + (fits? second.bits: 0));
    assert_int_equal (pair.advance, first.advance + (fits? second.advance: 0));
    assert_int_equal (pair.value, fits? second.value: first.value);
}

//  As many symbols as have their codes in the entry and stay in a block, up to its end.
static void
s_check_run (const jpeg_lookup_t *lookup, const code_t *code, uint64_t bits)
{
    jpeg_run_t run = lookup->runs [bits >> (64 - JPEG_LOOKUP_BITS)];
    unsigned used = 0, advance = 0;
    while (used < JPEG_LOOKUP_BITS && advance < JPEG_LOOKUP_END) {
        symbol_t next = s_read (code, bits, used, false);
        bool is_end = next.advance == JPEG_LOOKUP_END;
        if (next.bits == 0 || used + next.code_bits > JPEG_LOOKUP_BITS
        || (!is_end && advance + next.advance > BLOCK))
            break;
        used += next.bits;
        advance += next.advance;
    }
    assert_int_equal (run.bits, used);
    assert_int_equal (run.advance, advance);
}

static void
s_check_code (jpeg_lookup_t *lookup, bool is_dc, uint64_t *random)
{
    code_t code = s_random_code (is_dc, random);
    jpeg_lookup_build (lookup, code.counts, code.values, is_dc);
    for (int look = 0; look < LOOKS; look++) {
        uint64_t bits = test_below (random, UINT64_MAX);
        if (look < 2)
            bits = look? UINT64_MAX: 0;
        symbol_t first = s_read (&code, bits, 0, is_dc);
        s_check_symbol (lookup, bits, first);
        if (is_dc)
            continue;
        s_check_pair (lookup, &code, bits, first);
        s_check_run (lookup, &code, bits);
    }
}

//  Guards: tables that are built anew for another code, and kept for the same one.
static void
test_random_codes (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", random);
    jpeg_lookup_t *lookup = calloc (1, sizeof *lookup);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t again = random;
        bool is_dc = test_below (&random, 4) == 0;
        s_check_code (lookup, is_dc, &random);
        if (round % 5 == 0) {
            (void) test_below (&again, 4);
            s_check_code (lookup, is_dc, &again);
        }
    }
    free (lookup);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_random_codes) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
