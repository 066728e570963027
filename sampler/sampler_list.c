#include "sampler_list.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

struct sampler_list {
    atomic_size_t holders;
    uint32_t *ids;
    size_t count;
    uint64_t *last;                 //  a bit a place: the id does not occur after it
    roaring_bitmap_t *set;
};

//  Of ids that repeat, lists have millions more than the data set has samples: so which were seen is kept in plain bits (1 ns an
//  id, where the set takes 20).
static bool
s_look_through (sampler_list_t *self, uint32_t sample_count)
{
    size_t words = sample_count / 64 + 1;
    uint64_t *seen = calloc (words, sizeof *seen);
    self->last = calloc (self->count / 64 + 1, sizeof *self->last);
    self->set = roaring_bitmap_create ();
    bool good = seen && self->last && self->set;
    for (size_t place = self->count; good && place-- > 0; ) {
        uint32_t id = self->ids [place];
        assert (id < sample_count);
        if (seen [id / 64] >> (id % 64) & 1)
            continue;
        seen [id / 64] |= UINT64_C (1) << (id % 64);
        self->last [place / 64] |= UINT64_C (1) << (place % 64);
    }
    for (size_t word = 0; good && word < words; word++)
        for (uint64_t bits = seen [word]; bits; bits &= bits - 1)
            roaring_bitmap_add (self->set, (uint32_t) (64 * word + (size_t) __builtin_ctzll (bits)));
    free (seen);
    return good;
}

sampler_list_t *
sampler_list_new (uint32_t *ids, size_t count, uint32_t sample_count)
{
    assert (ids);
    assert (count > 0);
    sampler_list_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    atomic_init (&self->holders, 1);
    self->ids = ids;
    self->count = count;
    if (!s_look_through (self, sample_count)) {
        self->ids = NULL;
        sampler_list_destroy (&self);
    }
    return self;
}

sampler_list_t *
sampler_list_hold (sampler_list_t *self)
{
    size_t before = atomic_fetch_add_explicit (&self->holders, 1, memory_order_relaxed);
    assert (before > 0);
    return self;
}

void
sampler_list_destroy (sampler_list_t **self_p)
{
    assert (self_p);
    sampler_list_t *self = *self_p;
    *self_p = NULL;
    if (!self || atomic_fetch_sub_explicit (&self->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (self->set)
        roaring_bitmap_free (self->set);
    free (self->last);
    free (self->ids);
    free (self);
}

const uint32_t *
sampler_list_ids (const sampler_list_t *self)
{
    return self->ids;
}

size_t
sampler_list_count (const sampler_list_t *self)
{
    return self->count;
}

const roaring_bitmap_t *
sampler_list_set (const sampler_list_t *self)
{
    return self->set;
}

bool
sampler_list_is_last (const sampler_list_t *self, size_t place)
{
    assert (place < self->count);
    return self->last [place / 64] >> (place % 64) & 1;
}

void
sampler_list_remove_over (const sampler_list_t *self, size_t places, roaring_bitmap_t *set)
{
    assert (places <= self->count);
    for (size_t word = 0; word * 64 < places; word++) {
        uint64_t bits = self->last [word];
        if (places - word * 64 < 64)
            bits &= (UINT64_C (1) << (places - word * 64)) - 1;
        for (; bits; bits &= bits - 1)
            roaring_bitmap_remove (set, self->ids [64 * word + (size_t) __builtin_ctzll (bits)]);
    }
}
