/*  random -- the pseudo-random numbers of every decision: small, fast, replayable from one seed.
 *
 *  splitmix64 (Steele, Lea, Flood 2014).  Bounded numbers are exact: rejection, never a modulo bias, and
 *  never floating point, because the sampler's probabilities are ratios of counts.  Floating point decides in
 *  two places, and does no harm there: the reusable set's choice of a level by weight (reusable_set.c),
 *  and whether a class of samples is within its quota (history.c, no random number at all).  Both say which
 *  level or class, never which sample: a rounding error shifts what is shared, or when a quota bites, and all
 *  samples of a stratum alike.
 *  Owner: the holder of the struct; it is plain data and may be copied.
 */
#ifndef RANDOM_H
#define RANDOM_H
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <roaring/roaring.h>

typedef struct { uint64_t state; } random_t;

//  Every seed is a good seed, 0 included.
static inline random_t
random_from_seed (uint64_t seed)
{
    return (random_t) { .state = seed };
}

//  The last step of splitmix64: a permutation of all numbers that scatters them.
static inline uint64_t
random_mix (uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

//  64 uniform bits.
static inline uint64_t
random_next (random_t *self)
{
    return random_mix (self->state += 0x9e3779b97f4a7c15u);
}

//  The first number from a state.
static inline uint64_t
random_first (uint64_t state)
{
    return random_next (&(random_t) { .state = state });
}

//  Uniform in [0, bound), bound > 0.  Lemire (2019): the high half of a 128-bit product maps 2^64 numbers to
//  bound slots.  Each slot gets floor (2^64 / bound) of them or one more; refusing the first 2^64 mod bound
//  low halves evens that out.
static inline uint64_t
random_below (random_t *self, uint64_t bound)
{
    assert (bound > 0);
    unsigned __int128 product = (unsigned __int128) random_next (self) * bound;
    if ((uint64_t) product < bound) {
        //  Only here is the division worth its cost: 2^64 mod bound, in 64 bits.
        uint64_t refused = (0 - bound) % bound;
        while ((uint64_t) product < refused)
            product = (unsigned __int128) random_next (self) * bound;
    }
    return (uint64_t) (product >> 64);
}

//  Uniform in [0, 1), for choices that need not be exact: which level or whether at all, never which sample.
static inline double
random_real (random_t *self)
{
    return (double) (random_next (self) >> 11) * 0x1p-53;
}

//  True with probability numerator / denominator, exactly; numerator <= denominator, denominator > 0.
static inline bool
random_ratio (random_t *self, uint64_t numerator, uint64_t denominator)
{
    assert (denominator > 0);
    assert (numerator <= denominator);
    //  What is certain costs no random number: jobs with equal sets agree without one.
    if (numerator == denominator)
        return true;
    return numerator > 0 && random_below (self, denominator) < numerator;
}

//  A set with more than one id in 16 is mostly bitset containers: select takes 700 ns there, and a look at
//  whether an id is in it 10 to 30.  Below that they are arrays: select takes 20 ns.
enum { RANDOM_DENSE = 16 };

//  A uniform id of the set, which is not run-compressed and has `count` ids, at least 1, all below universe.
static inline uint32_t
random_pick (random_t *self, const roaring_bitmap_t *set, uint64_t count, uint32_t universe)
{
    assert (count > 0);
    uint32_t id;
    if (count * RANDOM_DENSE >= universe) {
        do
            id = (uint32_t) random_below (self, universe);
        while (!roaring_bitmap_contains (set, id));
        return id;
    }
    bool found = roaring_bitmap_select (set, (uint32_t) random_below (self, count), &id);
    assert (found);
    return id;
}

#endif
