#include "sampler_list.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct sampler_list {
    atomic_size_t holders;
    uint32_t *ids;
    size_t count;
    uint32_t sample_count;
    uint64_t *last;                 //  a bit a place: the id does not occur after it
    uint32_t *times;                //  each sample occurs; NULL: made by sampler_list_kept
    roaring_bitmap_t *set;
};

//  Lists have millions of ids, so what is asked at each place is kept in plain bits: 1 ns, where a roaring
//  set takes 20.

static size_t
s_words (size_t bits)
{
    return bits / 64 + 1;
}

static bool
s_has (const uint64_t *bits, size_t index)
{
    return bits [index / 64] >> (index % 64) & 1;
}

static void
s_add (uint64_t *bits, size_t index)
{
    bits [index / 64] |= UINT64_C (1) << (index % 64);
}

//  NULL: no memory.
static uint64_t *
s_bits_of (const roaring_bitmap_t *set, uint32_t sample_count)
{
    uint64_t *bits = calloc (s_words (sample_count), sizeof *bits);
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (set, &ids); bits && ids.has_value; roaring_advance_uint32_iterator (&ids))
        s_add (bits, ids.current_value);
    return bits;
}

//  Added in blocks, which takes a tenth of the time.  NULL: no memory.
static roaring_bitmap_t *
s_set_of (const uint64_t *bits, uint32_t sample_count)
{
    enum { BLOCK = 1024 };
    uint32_t ids [BLOCK];
    size_t count = 0;
    roaring_bitmap_t *set = roaring_bitmap_create ();
    for (size_t word = 0; set && word < s_words (sample_count); word++) {
        for (uint64_t left = bits [word]; left; left &= left - 1)
            ids [count++] = (uint32_t) (64 * word + (size_t) __builtin_ctzll (left));
        if (count > BLOCK - 64) {
            roaring_bitmap_add_many (set, count, ids);
            count = 0;
        }
    }
    if (set)
        roaring_bitmap_add_many (set, count, ids);
    return set;
}

static bool
s_look_through (sampler_list_t *self)
{
    uint64_t *seen = calloc (s_words (self->sample_count), sizeof *seen);
    self->last = calloc (s_words (self->count), sizeof *self->last);
    self->times = calloc (self->sample_count, sizeof *self->times);
    bool good = seen && self->last && self->times;
    for (size_t place = self->count; good && place-- > 0; ) {
        uint32_t id = self->ids [place];
        assert (id < self->sample_count);
        self->times [id]++;
        if (s_has (seen, id))
            continue;
        s_add (seen, id);
        s_add (self->last, place);
    }
    self->set = good? s_set_of (seen, self->sample_count): NULL;
    free (seen);
    return self->set != NULL;
}

static sampler_list_t *
s_new (uint32_t *ids, size_t count, uint32_t sample_count)
{
    sampler_list_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    atomic_init (&self->holders, 1);
    self->ids = ids;
    self->count = count;
    self->sample_count = sample_count;
    return self;
}

sampler_list_t *
sampler_list_new (uint32_t *ids, size_t count, uint32_t sample_count)
{
    assert (ids);
    assert (count > 0);
    sampler_list_t *self = s_new (ids, count, sample_count);
    if (self && !s_look_through (self)) {
        self->ids = NULL;
        sampler_list_destroy (&self);
    }
    return self;
}

sampler_list_t *
sampler_list_copy (const uint32_t *ids, size_t count, uint32_t sample_count)
{
    uint32_t *copy = malloc (count * sizeof *copy);
    if (!copy)
        return NULL;
    memcpy (copy, ids, count * sizeof *copy);
    sampler_list_t *self = sampler_list_new (copy, count, sample_count);
    if (!self)
        free (copy);
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
    free (self->times);
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

uint32_t
sampler_list_times (const sampler_list_t *self, uint32_t id)
{
    assert (self->times);
    assert (id < self->sample_count);
    return self->times [id];
}

size_t
sampler_list_bytes (size_t count, uint32_t sample_count)
{
    size_t set_bytes = sample_count / 8;
    return sizeof (sampler_list_t) + count * sizeof (uint32_t) + s_words (count) * sizeof (uint64_t)
        + sample_count * sizeof (uint32_t) + set_bytes;
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
    return s_has (self->last, place);
}

//  Copies the places that are in bits: where the last of an id was, the last is.  Of the first `places`,
//  returns how many.
static size_t
s_copy_kept (sampler_list_t *kept, const sampler_list_t *self, const uint64_t *bits, size_t places)
{
    size_t before = 0, count = 0;
    for (size_t place = 0; place < self->count; place++) {
        uint32_t id = self->ids [place];
        uint64_t is_kept = s_has (bits, id);
        before += place < places? is_kept: 0;
        //  Without branches: what is not kept is overwritten, or lies behind the end.
        kept->ids [count] = id;
        kept->last [count / 64] |= (is_kept & s_has (self->last, place)) << (count % 64);
        count += is_kept;
    }
    kept->count = count;
    return before;
}

sampler_list_t *
sampler_list_kept (const sampler_list_t *self, const roaring_bitmap_t *kept, size_t *places_p)
{
    assert (*places_p <= self->count);
    uint64_t *bits = s_bits_of (kept, self->sample_count);
    uint32_t *ids = malloc ((self->count + 1) * sizeof *ids);
    sampler_list_t *made = s_new (ids, self->count, self->sample_count);
    if (!made)
        free (ids);
    else {
        made->last = calloc (s_words (self->count), sizeof *made->last);
        made->set = roaring_bitmap_and (self->set, kept);
    }
    if (bits && made && made->ids && made->last && made->set)
        *places_p = s_copy_kept (made, self, bits, *places_p);
    else
    if (made)
        sampler_list_destroy (&made);
    free (bits);
    if (!made)
        return NULL;
    uint32_t *fitting = realloc (made->ids, (made->count + 1) * sizeof *made->ids);
    made->ids = fitting? fitting: made->ids;
    return made;
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
