/*  keyed_random -- a stream of random numbers that is a pure function of a key: never of timing, thread or
 *  machine.
 *
 *  Block n of the stream is BLAKE2b-512 of these 48 bytes, read as eight little-endian 64-bit numbers:
 *
 *      0        8       16       24       32           36     40      44      48
 *      | tag    | seed  | round  | id     | occurrence | view | place | block |
 *
 *  All fields are little-endian; tag is the eight characters "tureen-1"; place is the operation's index in
 *  the pipeline's canonical list, decode counted, the share mark not: so what an operation draws does not
 *  depend on where the share point is.  block counts from 0.
 *  Owner: the function that declares it; lives on the stack, needs no destroy.
 */
#ifndef KEYED_RANDOM_H
#define KEYED_RANDOM_H
#include <stdint.h>
#include "pipeline.h"

enum { KEYED_RANDOM_MESSAGE_BYTES = 48, KEYED_RANDOM_BLOCK_NUMBERS = 8 };

typedef struct {
    uint8_t message [KEYED_RANDOM_MESSAGE_BYTES];
    uint64_t numbers [KEYED_RANDOM_BLOCK_NUMBERS];
    uint32_t block;             //  the next one to make
    uint32_t used;              //  of numbers
} keyed_random_t;

//  Begins the stream of the operation at place, in a view, under key.  What stands before the views are split
//  has view 0.
void keyed_random_init (keyed_random_t *self, const pipeline_key_t *key, uint32_t view, uint32_t place);
uint64_t keyed_random_next (keyed_random_t *self);
//  Uniform in [0, 1): the upper 53 bits of one number.
double keyed_random_uniform (keyed_random_t *self);
//  Uniform in 0 .. bound - 1, bound > 0: the upper half of number x bound (bias below bound / 2^64).
uint64_t keyed_random_below (keyed_random_t *self, uint64_t bound);

#endif
