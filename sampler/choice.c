#include "choice.h"
#include "need.h"

#include <assert.h>

//  A set with more than one id in 16 is mostly bitset containers: select takes 700 ns there, and a look at
//  whether an id is in it 10 to 30.  Below that they are arrays: select takes 20 ns.
enum { DENSE = 16 };

//  A look at a random id takes about eight times as long as one at the next id of a walk.  Where tries fail
//  for a quarter of the time of a walk, the class is so small that they would go on failing.
enum { LOOKS = 32, TRIES_MIN = 16, BLOCK = 512 };

bool
choice_contains (const choice_t *self, uint32_t id)
{
    if (!self->needs)
        return roaring_bitmap_contains (self->set, id);
    return id != self->barred && need_table_all (self->needs, id, self->in)
        && !(self->out && need_table_all (self->needs, id, self->out));
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
    if (s_is_dense (count, universe))
        return (uint32_t) random_below (random, universe);
    uint32_t id = CHOICE_NO_ID;
    bool found = roaring_bitmap_select (set, (uint32_t) random_below (random, count), &id);
    assert (found);
    return id;
}

uint32_t
choice_try (const choice_t *self, random_t *random)
{
    return self->among? self->among [random_below (random, self->among_count)]:
        s_propose (self->set, self->bound, self->universe, random);
}

uint64_t
choice_width (const choice_t *self)
{
    return self->among? self->among_count: s_is_dense (self->bound, self->universe)? self->universe:
        self->bound;
}

uint64_t
choice_patience (const choice_t *self)
{
    return TRIES_MIN + (self->among? self->among_count: self->bound) / LOOKS;
}

uint32_t
choice_seek (const choice_t *self, random_t *random)
{
    for (uint64_t tries = choice_patience (self); tries > 0; tries--) {
        uint32_t id = choice_try (self, random);
        if (choice_contains (self, id))
            return id;
    }
    return CHOICE_NO_ID;
}

//  The k-th id that fits takes the place of the one before with probability 1 / k: all are equally likely in
//  the end.
static void
s_look_at (const choice_t *self, const uint32_t *ids, size_t count, random_t *random, uint64_t *fitting_p,
    uint32_t *id_p)
{
    for (size_t index = 0; index < count; index++)
        if (choice_contains (self, ids [index]) && random_below (random, ++*fitting_p) == 0)
            *id_p = ids [index];
}

uint64_t
choice_walk (const choice_t *self, random_t *random, uint32_t *id_p)
{
    uint64_t fitting = 0;
    if (self->among) {
        s_look_at (self, self->among, self->among_count, random, &fitting, id_p);
        return fitting;
    }
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (self->set, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        s_look_at (self, block, count, random, &fitting, id_p);
    return fitting;
}

static uint32_t
s_pick_any (const choice_t *self, random_t *random)
{
    uint32_t id = choice_seek (self, random);
    if (id == CHOICE_NO_ID)
        choice_walk (self, random, &id);
    assert (id != CHOICE_NO_ID);
    return id;
}

uint32_t
choice_pick (const choice_t *self, random_t *random)
{
    assert (self->bound > 0);
    return self->found != CHOICE_NO_ID? self->found: s_pick_any (self, random);
}
