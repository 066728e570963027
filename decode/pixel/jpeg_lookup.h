/*  jpeg_lookup -- a Huffman code of a JPEG as tables that answer with several symbols at once.
 *
 *  Each table is looked up with the next JPEG_LOOKUP_BITS bits of the coded data.  A symbol is a code and the
 *  bits of its value behind it (ITU-T T.81, F.2.2).  It advances the place in the block: by the run of zeros
 *  and the coefficient; JPEG_LOOKUP_END is the end of the block.
 *
 *      symbols     one symbol, without its value
 *      pairs       AC: one symbol or two, with their values
 *      runs        AC: as many symbols as fit, without values: to pass over a block
 *
 *  An entry with 0 bits does not have the symbol: its code is longer than the look-up, or, in `pairs`, the
 *  value of the first symbol ends behind the bits looked up.
 *  Owner: one thread.
 */
#ifndef JPEG_LOOKUP_H
#define JPEG_LOOKUP_H
#include <stdbool.h>
#include <stdint.h>

enum { JPEG_LOOKUP_BITS = 11, JPEG_LOOKUP_ENTRIES = 1 << JPEG_LOOKUP_BITS, JPEG_LOOKUP_END = 128 };
enum { JPEG_CODE_BITS_MAX = 16, JPEG_VALUES_MAX = 256 };

typedef struct {
    uint8_t bits;               //  of code and value
    uint8_t code_bits;
    uint8_t value_bits;
    uint8_t advance;            //  DC: 0
} jpeg_symbol_t;

//  An entry of one symbol says the same of the first and of both.
typedef struct {
    uint8_t bits;               //  of both
    uint8_t first_bits;
    uint8_t advance;            //  by both
    uint8_t first_advance;
    int16_t value;              //  of the last
    int16_t first_value;
} jpeg_pair_t;

typedef struct {
    uint8_t bits;
    uint8_t advance;            //  by all; more than JPEG_LOOKUP_END: the last one ends the block
} jpeg_run_t;

typedef struct {
    jpeg_pair_t pairs [JPEG_LOOKUP_ENTRIES];
    jpeg_run_t runs [JPEG_LOOKUP_ENTRIES];
    jpeg_symbol_t symbols [JPEG_LOOKUP_ENTRIES];
    int32_t last_code [JPEG_CODE_BITS_MAX + 1];     //  by length; -1: no code of that length
    int32_t to_value [JPEG_CODE_BITS_MAX + 1];      //  by length: the code plus this is its value's index
    uint8_t counts [JPEG_CODE_BITS_MAX + 1];        //  as in the file: codes by length
    uint8_t values [JPEG_VALUES_MAX];               //  as in the file: symbols in the order of their codes
    bool is_dc;
    bool is_built;
} jpeg_lookup_t;

//  Builds the tables of a code that libjpeg has checked (counts and values are its JHUFF_TBL's).  Costs about
//  5 % of decoding a crop, and nothing if the tables are those of this code already: many encoders write the
//  standard's.
void jpeg_lookup_build (jpeg_lookup_t *self, const uint8_t counts [JPEG_CODE_BITS_MAX + 1],
    const uint8_t values [JPEG_VALUES_MAX], bool is_dc);

//  The symbol that bits (the next 64, the first one highest) begin with; 0 bits: no code begins so.
jpeg_symbol_t jpeg_lookup_long (const jpeg_lookup_t *self, uint64_t bits);

#endif
