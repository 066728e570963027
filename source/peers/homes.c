#include "homes.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "xalloc.h"

//  Digits of a logarithm behind the point; six stand before it, so a product with a weight has 126 bits.
enum { FRACTION_BITS = 56 };

struct homes {
    size_t count;
    homes_member_t *members;
    uint64_t *keys;                 //  mix (~id)
    double weight_max;
};

//  ---- the order of members

static uint64_t
s_mix (uint64_t mixed)
{
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

//  -log2 (u / 2^64), u > 0.  Squaring a number of [1, 2) shows the next digit of its logarithm.
static uint64_t
s_logarithm (uint64_t u)
{
    int zeros = __builtin_clzll (u);
    uint64_t number = u << zeros, digits = 0;
    for (int digit = 0; digit < FRACTION_BITS; digit++) {
        unsigned __int128 square = (unsigned __int128) number * number;
        uint64_t is_two = (uint64_t) (square >> 127);
        number = (uint64_t) (square >> (63 + is_two));
        digits = digits << 1 | is_two;
    }
    return ((uint64_t) (zeros + 1) << FRACTION_BITS) - digits;
}

//  A member's clock for a block.
typedef struct { uint64_t u, logarithm, weight, id; } clock_of_t;

static clock_of_t
s_clock (const homes_member_t *member, uint64_t u)
{
    u += !u;
    return (clock_of_t) { .u = u, .logarithm = s_logarithm (u), .weight = member->weight, .id = member->id };
}

static bool
s_is_before (const clock_of_t *one, const clock_of_t *other)
{
    unsigned __int128 left = (unsigned __int128) one->logarithm * other->weight;
    unsigned __int128 right = (unsigned __int128) other->logarithm * one->weight;
    return left != right? left < right: one->u != other->u? one->u > other->u: one->id < other->id;
}

bool
homes_prefers (const homes_member_t *one, const homes_member_t *other, uint64_t block)
{
    if (one->weight == 0 || other->weight == 0)
        return one->weight > 0;
    uint64_t key = s_mix (block);
    clock_of_t first = s_clock (one, s_mix (key ^ s_mix (~one->id)));
    clock_of_t second = s_clock (other, s_mix (key ^ s_mix (~other->id)));
    return s_is_before (&first, &second);
}

//  ---- the list

homes_t *
homes_new (const homes_member_t *members, size_t count)
{
    homes_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->count = count;
    self->members = xalloc_memory (calloc (count + 1, sizeof *self->members));
    self->keys = xalloc_memory (calloc (count + 1, sizeof *self->keys));
    for (size_t at = 0; at < count; at++) {
        self->members [at] = members [at];
        self->keys [at] = s_mix (~members [at].id);
        self->weight_max = fmax (self->weight_max, (double) members [at].weight);
    }
    return self;
}

void
homes_destroy (homes_t **self_p)
{
    assert (self_p);
    homes_t *self = *self_p;
    if (!self)
        return;
    free (self->members);
    free (self->keys);
    free (self);
    *self_p = NULL;
}

//  A member with (1 - u / 2^64) / weight above this is not before the best one.  It exceeds the exact bound
//  by more than what the logarithm's digits and the floating point may be off by.
static double
s_bound (const clock_of_t *best)
{
    double logarithm = ldexp ((double) best->logarithm, -FRACTION_BITS);
    return (logarithm * M_LN2 + 0x1p-40) * (1 + 0x1p-40) / (double) best->weight;
}

//  The least u with which a member of the largest weight is within the bound.
static uint64_t
s_least (const homes_t *self, double bound)
{
    double below = bound * self->weight_max;
    return below < 1? UINT64_MAX - (uint64_t) ldexp (below, 64): 0;
}

size_t
homes_of (const homes_t *self, uint64_t block)
{
    uint64_t key = s_mix (block), least = 0;
    clock_of_t best = { .u = 0 };
    size_t home = HOMES_NONE;
    double bound = INFINITY;
    for (size_t at = 0; at < self->count; at++) {
        uint64_t u = s_mix (key ^ self->keys [at]);
        if (__builtin_expect (u < least, true))
            continue;
        const homes_member_t *member = &self->members [at];
        if (member->weight == 0 || ldexp ((double) ~u, -64) > bound * (double) member->weight)
            continue;
        clock_of_t clock = s_clock (member, u);
        if (home != HOMES_NONE && !s_is_before (&clock, &best))
            continue;
        home = at;
        best = clock;
        bound = s_bound (&best);
        least = s_least (self, bound);
    }
    return home;
}
