/*  published_random -- the generator on which other implementations of Redox can be compared load by load.
 *
 *  One splitmix64, seeded once; bounded (n) is the high 64 bits of next () * n.  An order shuffles the
 *  identity: for i = n - 1 .. 1, a [i] and a [bounded (i + 1)] change places.
 *  Owner: the holder of the random_t.
 */
#ifndef PUBLISHED_RANDOM_H
#define PUBLISHED_RANDOM_H
#include <stddef.h>
#include "random.h"

static inline random_t
published_random_new (uint64_t seed)
{
    return (random_t) { .state = seed };
}

static inline uint64_t
published_random_below (random_t *self, uint64_t bound)
{
    return (uint64_t) ((unsigned __int128) random_next (self) * bound >> 64);
}

static inline void
published_random_shuffle (random_t *self, uint32_t *order, uint32_t count)
{
    for (uint32_t place = 0; place < count; place++)
        order [place] = place;
    for (uint32_t place = count; place-- > 1;) {
        uint32_t other = (uint32_t) published_random_below (self, (uint64_t) place + 1), kept = order [place];
        order [place] = order [other];
        order [other] = kept;
    }
}

#endif
