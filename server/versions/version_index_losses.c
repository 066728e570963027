//  What the cache loses, and what is prepared again because of that.
//
//  A version is *lost to a consumer* when it leaves the index, or its side, although it could still serve that one: in
//  its present epoch, or, without random operations, in a later one too.  (Of a random kind every epoch has versions of
//  its own anyway.)  What was only forgotten because its sample is bad, or could not be prepared, is no loss.
//
//  *Prepared again* is a version that is scheduled for a consumer to which one of the sample has been lost since it last
//  had the sample.  So without random operations these are the same pixels once more; with them, a version that was to
//  serve several has gone before all of them had it, and another takes its place.  What the others have found meanwhile
//  costs nothing, and does not count.  A tenant is told of those that it has lost itself: one of its jobs had used the
//  version.  All others count in the total only, since they would tell what another tenant's jobs had.
//
//  *Dropped* is a version that went for another reason than room before any job but the one that it was made for had used
//  it.
//
//  A bit a sample for each consumer says what is lost to it: plain words, as what is evicted is scattered, and may be lost
//  to a connection limit at once.  Who has lost it is looked up as for a new version's count, so an eviction that matters costs what
//  that does (tenants_sim, connection limit: 68 jobs, 3.3 us a draw without, 5.8 us with).  Nothing that decides looks at any of this.

#include "version_index_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MORE = 16 };

//  Ids come in any order, so the set grows to its full size in a few steps.
static void
s_grow (version_index_lost_t *set, size_t word)
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
s_add (version_index_lost_t *set, uint32_t id)
{
    if (id / 64 >= set->room)
        s_grow (set, id / 64);
    set->words [id / 64] |= 1ull << id % 64;
}

//  Whether it was there.
static bool
s_remove (version_index_lost_t *set, uint32_t id)
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
s_could_serve (const consumer_t *consumer, const version_t *version)
{
    const version_set_t *kind = consumer->kind;
    if (!kind->is_random)
        return sampler_has (kind->sampler, consumer->sampler_job, version->id);
    return !version_index_has_used (consumer, version) && sampler_needs (kind->sampler, consumer->sampler_job, version->id);
}

void
version_index_lose (version_index_t *self, const version_t *version, bool is_shelved)
{
    const version_set_t *kind = version_set_of (self, version);
    //  A random one could have served those that it counts; without random operations more: later epochs matter too.
    uint32_t left = kind->is_random? version->count: UINT32_MAX;
    if (left > 0)
        sampler_prefetch (kind->sampler, version->id);
    for (consumer_t *consumer = kind->consumers; consumer && left > 0; consumer = consumer->next) {
        if (consumer->follows != is_shelved || !s_could_serve (consumer, version))
            continue;
        left--;
        bool is_own = version->sharers >> consumer->tenant & 1;
        s_add (&consumer->lost [is_own? VERSION_INDEX_LOST_OWN: VERSION_INDEX_LOST_OTHERS], version->id);
    }
}

void
version_index_count_drop (version_index_t *self, const version_t *version)
{
    if (version->jobs > 1)
        return;
    self->losses.dropped++;
    self->account_losses [version->account].dropped++;
}

void
version_index_drop (version_index_t *self, version_t *version)
{
    version_index_count_drop (self, version);
    version_index_lose (self, version, version->ticket != 0);
    prepared_remove (self->prepared, version);
}

void
version_index_losses_take (consumer_t *consumer, uint32_t id)
{
    for (int whose = 0; whose < VERSION_INDEX_LOST_KINDS; whose++)
        consumer->had_lost [whose] = s_remove (&consumer->lost [whose], id);
}

void
version_index_count_again (const consumer_t *consumer)
{
    version_index_t *self = consumer->kind->version_index;
    self->losses.again += consumer->had_lost [VERSION_INDEX_LOST_OWN] || consumer->had_lost [VERSION_INDEX_LOST_OTHERS];
    self->account_losses [consumer->tenant].again += consumer->had_lost [VERSION_INDEX_LOST_OWN];
}

void
version_index_losses_forget (consumer_t *consumer)
{
    for (int whose = 0; whose < VERSION_INDEX_LOST_KINDS; whose++)
        if (consumer->lost [whose].words)
            memset (consumer->lost [whose].words, 0, consumer->lost [whose].room * sizeof *consumer->lost [whose].words);
}

void
version_index_losses_free (consumer_t *consumer)
{
    for (int whose = 0; whose < VERSION_INDEX_LOST_KINDS; whose++)
        free (consumer->lost [whose].words);
    memset (consumer->lost, 0, sizeof consumer->lost);
}

version_index_losses_t
version_index_losses (const version_index_t *self)
{
    version_index_losses_t losses = self->losses;
    losses.evictions = prepared_evictions (self->prepared);
    return losses;
}

version_index_losses_t
version_index_tenant_losses (const version_index_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    version_index_losses_t losses = self->account_losses [number];
    losses.evictions = prepared_account_evictions (self->prepared, number);
    return losses;
}

void
version_index_check_losses (const version_index_t *self)
{
    version_index_losses_t sum = { 0 };
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++) {
        sum.again += self->account_losses [number].again;
        sum.dropped += self->account_losses [number].dropped;
    }
    assert (sum.dropped == self->losses.dropped);                               //  K5
    assert (sum.again <= self->losses.again);
    assert (self->losses.again <= self->misses);
}
