/*  seed -- replayable randomness for property tests: every failure prints the seed that repeats it.  */
#ifndef SEED_H
#define SEED_H
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

//  TEST_SEED from the environment, or a fixed default, so that an ordinary run is the same run everywhere.
static inline uint64_t
test_seed (void)
{
    const char *text = getenv ("TEST_SEED");
    return text? strtoull (text, NULL, 0): 20261120;
}

//  A splitmix64 step modulo bound: independent of the generators under test, its tiny bias does no harm here.
static inline uint64_t
test_below (uint64_t *state, uint64_t bound)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % bound;
}

#endif
