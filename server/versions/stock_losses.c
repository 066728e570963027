//  What the cache loses, and what is prepared again because of that.
//
//  A version is *lost to a claimant* when it leaves the index, or its side, although it could still serve that one: in
//  its present epoch, or, without random operations, in a later one too.  (Of a random kind every epoch has versions of
//  its own anyway.)  What was only forgotten because its sample is bad, or could not be prepared, is no loss.
//
//  *Prepared again* is a version that is scheduled for a claimant to which one of the sample has been lost since it last
//  had the sample.  So without random operations these are the same pixels once more; with them, a version that was to
//  serve several has gone before all of them had it, and another takes its place.  What the others have found meanwhile
//  costs nothing, and does not count.  A tenant is told of those that it has lost itself: one of its jobs had used the
//  version.  All others count in the total only, since they would tell what another tenant's jobs had.
//
//  *Dropped* is a version that went for another reason than room before any job but the one that it was made for had used
//  it.
//
//  A bit a sample for each claimant says what is lost to it: plain words, as what is evicted is scattered, and may be lost
//  to a crowd at once.  Who has lost it is looked up as for a new version's count, so an eviction that matters costs what
//  that does (tenants_sim, crowd: 68 jobs, 3.3 us a draw without, 5.8 us with).  Nothing that decides looks at any of this.

#include "stock_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MORE = 16 };

//  Ids come in any order, so the set grows to its full size in a few steps.
static void
s_grow (stock_lost_t *set, size_t word)
{
    size_t room = word + word / 8 + WORDS_MORE;
    set->words = realloc (set->words, room * sizeof *set->words);
    if (!set->words) {
        fprintf (stderr, "tureen: no memory for what the cache has lost\n");
        abort ();
    }
    memset (set->words + set->room, 0, (room - set->room) * sizeof *set->words);
    set->room = room;
}

static void
s_add (stock_lost_t *set, uint32_t id)
{
    if (id / 64 >= set->room)
        s_grow (set, id / 64);
    set->words [id / 64] |= 1ull << id % 64;
}

//  Whether it was there.
static bool
s_remove (stock_lost_t *set, uint32_t id)
{
    if (id / 64 >= set->room)
        return false;
    uint64_t bit = 1ull << id % 64;
    bool was_there = set->words [id / 64] & bit;
    set->words [id / 64] &= ~bit;
    return was_there;
}

//  Whether the version could serve it, this being its side.
static bool
s_could_serve (const claimant_t *claimant, const version_t *version)
{
    const stock_kind_t *kind = claimant->kind;
    if (!kind->is_random)
        return sampler_has (kind->sampler, claimant->sampler_job, version->id);
    return !stock_has_used (claimant, version) && sampler_needs (kind->sampler, claimant->sampler_job, version->id);
}

void
stock_lose (stock_t *self, const version_t *version, bool is_shelved)
{
    const stock_kind_t *kind = stock_kind_of (self, version);
    //  A random one could have served those that it counts; without random operations more: later epochs matter too.
    uint32_t left = kind->is_random? version->count: UINT32_MAX;
    if (left > 0)
        sampler_prefetch (kind->sampler, version->id);
    for (claimant_t *claimant = kind->claimants; claimant && left > 0; claimant = claimant->next) {
        if (claimant->follows != is_shelved || !s_could_serve (claimant, version))
            continue;
        left--;
        bool is_own = version->sharers >> claimant->tenant & 1;
        s_add (&claimant->lost [is_own? STOCK_LOST_OWN: STOCK_LOST_OTHERS], version->id);
    }
}

void
stock_count_drop (stock_t *self, const version_t *version)
{
    if (version->jobs > 1)
        return;
    self->losses.dropped++;
    self->account_losses [version->account].dropped++;
}

void
stock_drop (stock_t *self, version_t *version)
{
    stock_count_drop (self, version);
    stock_lose (self, version, version->ticket != 0);
    prepared_remove (self->prepared, version);
}

void
stock_losses_take (claimant_t *claimant, uint32_t id)
{
    for (int whose = 0; whose < STOCK_LOST_KINDS; whose++)
        claimant->had_lost [whose] = s_remove (&claimant->lost [whose], id);
}

void
stock_count_again (const claimant_t *claimant)
{
    stock_t *self = claimant->kind->stock;
    self->losses.again += claimant->had_lost [STOCK_LOST_OWN] || claimant->had_lost [STOCK_LOST_OTHERS];
    self->account_losses [claimant->tenant].again += claimant->had_lost [STOCK_LOST_OWN];
}

void
stock_losses_forget (claimant_t *claimant)
{
    for (int whose = 0; whose < STOCK_LOST_KINDS; whose++)
        if (claimant->lost [whose].words)
            memset (claimant->lost [whose].words, 0, claimant->lost [whose].room * sizeof *claimant->lost [whose].words);
}

void
stock_losses_free (claimant_t *claimant)
{
    for (int whose = 0; whose < STOCK_LOST_KINDS; whose++)
        free (claimant->lost [whose].words);
    memset (claimant->lost, 0, sizeof claimant->lost);
}

stock_losses_t
stock_losses (const stock_t *self)
{
    stock_losses_t losses = self->losses;
    losses.evictions = prepared_evictions (self->prepared);
    return losses;
}

stock_losses_t
stock_tenant_losses (const stock_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    stock_losses_t losses = self->account_losses [number];
    losses.evictions = prepared_account_evictions (self->prepared, number);
    return losses;
}

void
stock_check_losses (const stock_t *self)
{
    stock_losses_t sum = { 0 };
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++) {
        sum.again += self->account_losses [number].again;
        sum.dropped += self->account_losses [number].dropped;
    }
    assert (sum.dropped == self->losses.dropped);                               //  K5
    assert (sum.again <= self->losses.again);
    assert (self->losses.again <= self->misses);
}
