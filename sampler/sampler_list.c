#include "sampler_list.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

//  Added in blocks, which takes a tenth of the time.  NULL: no memory.
static roaring_bitmap_t *
s_set_of (const uint32_t *times, uint32_t sample_count)
{
    enum { BLOCK = 1024 };
    uint32_t ids [BLOCK];
    size_t count = 0;
    roaring_bitmap_t *set = roaring_bitmap_create ();
    for (uint32_t id = 0; set && id < sample_count; id++) {
        //  Without branches: an id that does not occur is overwritten.
        ids [count] = id;
        count += times [id] > 0;
        if (count == BLOCK) {
            roaring_bitmap_add_many (set, count, ids);
            count = 0;
        }
    }
    if (set)
        roaring_bitmap_add_many (set, count, ids);
    return set;
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
    self->times = calloc (sample_count, sizeof *self->times);
    if (!self->times) {
        free (self);
        return NULL;
    }
    return self;
}

static void
s_count_times (sampler_list_t *self)
{
    for (size_t place = 0; place < self->count; place++) {
        assert (self->ids [place] < self->sample_count);
        self->times [self->ids [place]]++;
    }
}

//  Moves the part's places to the front.
static bool
s_cut (sampler_list_t *self, uint32_t step, uint32_t first)
{
    size_t whole = self->count;
    self->count = (whole - first + step - 1) / step;
    uint32_t *before = calloc (self->sample_count, sizeof *before);
    self->occurrences = malloc (self->count * sizeof *self->occurrences);
    size_t next = first, count = 0;
    for (size_t place = 0; before && self->occurrences && place < whole; place++) {
        uint32_t id = self->ids [place];
        assert (id < self->sample_count);
        if (place == next) {
            self->ids [count] = id;
            self->occurrences [count++] = before [id];
            next += step;
        }
        before [id]++;
    }
    free (before);
    return count == self->count;
}

//  What is behind the list's places is given back.
static void
s_fit (sampler_list_t *self)
{
    size_t room = (self->count + 1) * sizeof *self->ids;
    uint32_t *ids = realloc (self->ids, room);
    self->ids = ids? ids: self->ids;
    uint32_t *occurrences = self->occurrences? realloc (self->occurrences, room): NULL;
    self->occurrences = occurrences? occurrences: self->occurrences;
}

sampler_list_t *
sampler_list_new (uint32_t *ids, size_t count, uint32_t sample_count, uint32_t step, uint32_t first)
{
    assert (ids);
    assert (first < step && first < count);
    sampler_list_t *self = s_new (ids, count, sample_count);
    bool good = self && (step == 1 || s_cut (self, step, first));
    if (good) {
        s_count_times (self);
        self->set = s_set_of (self->times, sample_count);
    }
    if (self && !self->set) {
        self->ids = NULL;
        sampler_list_destroy (&self);
    }
    if (self && step > 1)
        s_fit (self);
    return self;
}

sampler_list_t *
sampler_list_copy (const uint32_t *ids, size_t count, uint32_t sample_count)
{
    uint32_t *copy = malloc (count * sizeof *copy);
    if (!copy)
        return NULL;
    memcpy (copy, ids, count * sizeof *copy);
    sampler_list_t *self = sampler_list_new (copy, count, sample_count, 1, 0);
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
    sampler_list_t *self = *self_p;
    *self_p = NULL;
    if (!self || atomic_fetch_sub_explicit (&self->holders, 1, memory_order_acq_rel) > 1)
        return;
    if (self->set)
        roaring_bitmap_free (self->set);
    free (self->times);
    free (self->occurrences);
    free (self->ids);
    free (self);
}

size_t
sampler_list_bytes (size_t count, uint32_t sample_count, bool is_part)
{
    size_t set_bytes = sample_count / 8, place_bytes = (is_part? 2: 1) * sizeof (uint32_t);
    return sizeof (sampler_list_t) + count * place_bytes + sample_count * sizeof (uint32_t) + set_bytes;
}

//  Copies the places that are in bits.  Of the first `places`, returns how many.
static size_t
s_copy_kept (sampler_list_t *kept, const sampler_list_t *self, const uint64_t *bits, size_t places)
{
    size_t before = 0, count = 0;
    for (size_t place = 0; place < self->count; place++) {
        uint32_t id = self->ids [place];
        bool is_kept = bits [id / 64] >> (id % 64) & 1;
        before += place < places? is_kept: 0;
        //  Without branches: what is not kept is overwritten, or lies behind the end.
        kept->ids [count] = id;
        if (self->occurrences)
            kept->occurrences [count] = self->occurrences [place];
        count += is_kept;
    }
    kept->count = count;
    return before;
}

//  An id has all its places or none.  Returns them as plain bits, since a list may have millions of places:
//  1 ns each, where a roaring set takes 20.  NULL: no memory.
static uint64_t *
s_keep_times (sampler_list_t *kept, const sampler_list_t *self)
{
    uint64_t *bits = calloc (self->sample_count / 64 + 1, sizeof *bits);
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (kept->set, &ids); bits && ids.has_value;
        roaring_advance_uint32_iterator (&ids)) {
        uint32_t id = ids.current_value;
        bits [id / 64] |= UINT64_C (1) << (id % 64);
        kept->times [id] = self->times [id];
    }
    return bits;
}

sampler_list_t *
sampler_list_kept (const sampler_list_t *self, const roaring_bitmap_t *kept, size_t *places_p)
{
    assert (*places_p <= self->count);
    size_t room = (self->count + 1) * sizeof *self->ids;
    uint32_t *ids = malloc (room);
    sampler_list_t *made = ids? s_new (ids, self->count, self->sample_count): NULL;
    if (!made) {
        free (ids);
        return NULL;
    }
    made->occurrences = self->occurrences? malloc (room): NULL;
    made->set = roaring_bitmap_and (self->set, kept);
    bool good = made->set && (made->occurrences || !self->occurrences);
    uint64_t *bits = good? s_keep_times (made, self): NULL;
    if (bits) {
        *places_p = s_copy_kept (made, self, bits, *places_p);
        s_fit (made);
    }
    else
        sampler_list_destroy (&made);
    free (bits);
    return made;
}
