#include "choice.h"
#include "need.h"

#include <assert.h>

//  A set with more than one id in 16 is mostly bitset containers: membership takes some 10 ns there and
//  select 700.  Below that they are arrays: select takes 20 ns and membership, a binary search, 50 to 70.
enum { DENSE = 16 };

//  How many proposals a pick may cost on average before the class had better be computed, at some 30 us for
//  each of its sets.  A class that is a small part of what its first job needs is offered as seldom as it
//  is small.
enum { PROPOSALS = 512 };

static bool
s_in_all (const roaring_bitmap_t *const *sets, size_t count, uint32_t id)
{
    for (size_t set = 0; set < count; set++)
        if (!roaring_bitmap_contains (sets [set], id))
            return false;
    return true;
}

bool
choice_contains (const choice_t *self, uint32_t id)
{
    return id != self->barred && s_in_all (self->in, self->in_count, id)
        && !(self->out_count && s_in_all (self->out, self->out_count, id));
}

static uint32_t
s_select (const roaring_bitmap_t *set, uint64_t count, random_t *random)
{
    uint32_t id = CHOICE_NO_ID;
    bool found = roaring_bitmap_select (set, (uint32_t) random_below (random, count), &id);
    assert (found);
    return id;
}

static void
s_and (roaring_bitmap_t **set_p, const roaring_bitmap_t *other)
{
    roaring_bitmap_t *both = roaring_bitmap_and (*set_p, other);
    assert (both);
    roaring_bitmap_free (*set_p);
    *set_p = both;
}

//  The class as a set, cut down to within unless that is NULL.  Yours to free.
static roaring_bitmap_t *
s_compute (const choice_t *self, const roaring_bitmap_t *within)
{
    roaring_bitmap_t *set = sampler_need (within? roaring_bitmap_and (within, self->in [0]):
        roaring_bitmap_copy (self->in [0]));
    for (size_t in = 1; in < self->in_count; in++)
        s_and (&set, self->in [in]);
    if (self->out_count) {
        roaring_bitmap_t *out = roaring_bitmap_and (set, self->out [0]);
        assert (out);
        for (size_t next = 1; next < self->out_count; next++)
            s_and (&out, self->out [next]);
        roaring_bitmap_t *rest = roaring_bitmap_andnot (set, out);
        assert (rest);
        roaring_bitmap_free (out);
        roaring_bitmap_free (set);
        set = rest;
    }
    if (self->barred != CHOICE_NO_ID)
        roaring_bitmap_remove (set, self->barred);
    return set;
}

static uint32_t
s_pick_computed (const choice_t *self, random_t *random, const roaring_bitmap_t *within)
{
    roaring_bitmap_t *set = s_compute (self, within);
    uint64_t count = roaring_bitmap_get_cardinality (set);
    uint32_t id = count? s_select (set, count, random): CHOICE_NO_ID;
    roaring_bitmap_free (set);
    return id;
}

static bool
s_is_dense (uint64_t count, uint32_t universe)
{
    return count * DENSE >= universe;
}

//  A uniform id of set, or of the whole universe where set is so dense that most tries would find it there.
static uint32_t
s_propose (const roaring_bitmap_t *set, uint64_t count, uint32_t universe, random_t *random)
{
    return s_is_dense (count, universe)? (uint32_t) random_below (random, universe):
        s_select (set, count, random);
}

uint32_t
choice_try (const choice_t *self, random_t *random)
{
    return s_propose (self->in [0], self->bound, self->universe, random);
}

static uint32_t
s_pick_any (const choice_t *self, random_t *random)
{
    uint64_t proposed_from = s_is_dense (self->bound, self->universe)? self->universe: self->bound;
    uint32_t id;
    if (self->size * PROPOSALS < proposed_from)
        id = s_pick_computed (self, random, NULL);
    else
        do
            id = s_propose (self->in [0], self->bound, self->universe, random);
        while (!choice_contains (self, id));
    assert (id != CHOICE_NO_ID);
    return id;
}

//  A uniform id of class and available, or CHOICE_NO_ID if they have none in common.  A proposal that is
//  taken is uniform over what they have in common, and so is the computed pick if none is.
static uint32_t
s_pick_available (const choice_t *self, random_t *random, const roaring_bitmap_t *available)
{
    uint64_t count = roaring_bitmap_get_cardinality (available);
    if (count == 0)
        return CHOICE_NO_ID;
    for (int tries = 0; tries < PROPOSALS; tries++) {
        uint32_t id = s_propose (available, count, self->universe, random);
        if (roaring_bitmap_contains (available, id) && choice_contains (self, id))
            return id;
    }
    return s_pick_computed (self, random, available);
}

uint32_t
choice_pick (const choice_t *self, random_t *random, const roaring_bitmap_t *available)
{
    assert (self->size > 0);
    assert (self->size <= self->bound);
    uint32_t id = available? s_pick_available (self, random, available): CHOICE_NO_ID;
    return id != CHOICE_NO_ID? id: s_pick_any (self, random);
}
