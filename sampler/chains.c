#include "chains.h"
#include "need.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CHAINS_MAGIC = 0x2c4a1b5e };

struct chains {
    uint32_t magic;
    uint64_t clock;
    chain_t all [CHAINS_MAX];
};

chains_t *
chains_new (void)
{
    chains_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = CHAINS_MAGIC;
    return self;
}

void
chains_destroy (chains_t **self_p)
{
    assert (self_p);
    chains_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == CHAINS_MAGIC);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  Insertion sort, stable: a list that was sorted a while ago is nearly sorted now.
static void
s_sort (uint32_t *jobs, size_t count, demand_t *const *demands)
{
    for (size_t next = 1; next < count; next++) {
        uint32_t job = jobs [next];
        uint64_t left = demand_remaining_count (demands [job]);
        size_t place = next;
        for (; place > 0 && demand_remaining_count (demands [jobs [place - 1]]) > left; place--)
            jobs [place] = jobs [place - 1];
        jobs [place] = job;
    }
}

static bool
s_is_sorted (const chain_t *chain, demand_t *const *demands)
{
    uint64_t least = 0;
    for (size_t place = 0; place < chain->count; place++) {
        uint64_t left = demand_remaining_count (demands [chain->jobs [place]]);
        if (left < least)
            return false;
        least = left;
    }
    return true;
}

//  Counts the intersections from the last job down; the first one need not be made as a set.
static void
s_count_sizes (const uint32_t *jobs, size_t count, demand_t *const *demands, uint64_t *sizes)
{
    const roaring_bitmap_t *common = demand_remaining (demands [jobs [count - 1]]);
    roaring_bitmap_t *made = NULL;
    sizes [count - 1] = demand_remaining_count (demands [jobs [count - 1]]);
    for (size_t place = count - 1; place-- > 0; ) {
        const roaring_bitmap_t *next = demand_remaining (demands [jobs [place]]);
        if (place == 0) {
            sizes [place] = roaring_bitmap_and_cardinality (next, common);
            break;
        }
        roaring_bitmap_t *both = roaring_bitmap_and (next, common);
        assert (both);
        if (made)
            roaring_bitmap_free (made);
        common = made = both;
        sizes [place] = roaring_bitmap_get_cardinality (made);
    }
    if (made)
        roaring_bitmap_free (made);
}

//  The chain of these members, or else the place to make it in: a free one, or the one unused for longest.
static chain_t *
s_find (chains_t *self, const jobset_t *members)
{
    chain_t *oldest = &self->all [0];
    for (chain_t *chain = self->all; chain < self->all + CHAINS_MAX; chain++) {
        if (chain->count && jobset_equals (&chain->members, members))
            return chain;
        if (chain->used_at < oldest->used_at)
            oldest = chain;
    }
    oldest->count = 0;
    return oldest;
}

const chain_t *
chains_get (chains_t *self, demand_t *const *demands, const uint32_t *jobs, size_t count)
{
    assert (self->magic == CHAINS_MAGIC);
    assert (count > 0 && count <= SAMPLER_JOBS_MAX);
    jobset_t members = { { 0 } };
    for (size_t place = 0; place < count; place++) {
        assert (!jobset_has (&members, jobs [place]));
        jobset_add (&members, jobs [place]);
    }
    chain_t *chain = s_find (self, &members);
    bool known = chain->count > 0;
    chain->used_at = ++self->clock;
    if (known && s_is_sorted (chain, demands))
        return chain;
    if (!known) {
        chain->count = count;
        chain->members = members;
        memcpy (chain->jobs, jobs, count * sizeof *jobs);
    }
    s_sort (chain->jobs, count, demands);
    s_count_sizes (chain->jobs, count, demands, chain->sizes);
    return chain;
}

//  The id was in intersection m if all from m to the last needed it, and is not now if one of them took it.
static void
s_take (chain_t *chain, const jobset_t *needed, const jobset_t *taken)
{
    bool gone = false;
    for (size_t place = chain->count; place-- > 0 && jobset_has (needed, chain->jobs [place]); ) {
        gone |= jobset_has (taken, chain->jobs [place]);
        chain->sizes [place] -= gone;
    }
}

void
chains_take (chains_t *self, const jobset_t *needed, const jobset_t *taken)
{
    assert (self->magic == CHAINS_MAGIC);
    for (chain_t *chain = self->all; chain < self->all + CHAINS_MAX; chain++)
        s_take (chain, needed, taken);
}

void
chains_forget (chains_t *self, uint32_t job)
{
    assert (self->magic == CHAINS_MAGIC);
    for (chain_t *chain = self->all; chain < self->all + CHAINS_MAX; chain++)
        if (chain->count && jobset_has (&chain->members, job)) {
            chain->count = 0;
            chain->used_at = 0;
        }
}

void
chains_check (const chains_t *self, demand_t *const *demands)
{
    assert (self->magic == CHAINS_MAGIC);
    for (const chain_t *chain = self->all; chain < self->all + CHAINS_MAX; chain++) {
        if (!chain->count)
            continue;
        uint64_t sizes [SAMPLER_JOBS_MAX];
        s_count_sizes (chain->jobs, chain->count, demands, sizes);
        for (size_t place = 0; place < chain->count; place++)
            assert (chain->sizes [place] == sizes [place]);                     //  C1, S4
        for (const chain_t *other = self->all; other < chain; other++)
            assert (!other->count || !jobset_equals (&other->members, &chain->members));        //  C2
    }
}
