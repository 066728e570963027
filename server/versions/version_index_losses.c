//  Versions that the cache loses, and versions that are prepared again because of that.
//
//  A version is *lost to a consumer* when it leaves the index, or its side, although it could still serve
//  that consumer: in the present epoch or, in a deterministic set, in a later one.  (A random set has new
//  versions in every epoch anyway.)  A version of a bad sample, or of one that could not be prepared, is no
//  loss.
//
//  A version is *prepared again* when it is scheduled for a consumer that has lost a version of the sample
//  since it last had the sample.  In a deterministic set these are the same pixels once more.  In a random
//  set a version for several consumers has gone before all of them had it, and another takes its place.  A
//  consumer that finds an existing version costs nothing and does not count.  A tenant sees only its own
//  losses: one of its jobs had used the lost version.  The others count in the total only, since they would
//  reveal which samples another tenant's jobs had.
//
//  A version is *dropped* when it is removed for another reason than room and only the job that it was made
//  for has used it.
//
//  For each consumer, a bit for each sample says what it has lost.  The bits are plain words, because
//  evictions are scattered and one may be a loss to hundreds of jobs.  The losers are looked up as for a new
//  version's count, so such an eviction costs as much as that (tenants_sim, 68 jobs: 3.3 us a draw without,
//  5.8 us with).  No decision reads any of this: `status` shows it.

#include "version_index_state.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "needed.h"

enum { WORDS_MORE = 16 };

//  Ids come in any order, so the set grows to its full size in a few steps.
static void
s_grow (version_index_lost_t *set, size_t word)
{
    size_t room = word + word / 8 + WORDS_MORE;
    set->words = needed_memory (realloc (set->words, room * sizeof *set->words));
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

//  Whether the sample was in the set.
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

//  Whether the version, which is of the consumer's side, could serve it.
static bool
s_could_serve (const consumer_t *consumer, const version_t *version)
{
    const version_set_t *kind = consumer->kind;
    if (!kind->is_random)
        return sampler_has (kind->sampler, consumer->sampler_job, version->id);
    return !version_index_has_used (consumer, version)
        && sampler_needs (kind->sampler, consumer->sampler_job, version->id);
}

void
version_index_lose (version_index_t *self, const version_t *version, bool is_reusable)
{
    const version_set_t *kind = version_set_of (self, version);
    //  A random version could have served the consumers that it counts; a deterministic one also serves later
    //  epochs.  A consumer at the begin of an epoch needs samples, and no count includes it yet.  (The counts
    //  of a drawn sample do not include the consumers inside the draw.  But one that needs the sample once
    //  more draws alone, and the version serves it.)
    uint32_t left = kind->is_random && !self->beginning? version->count: UINT32_MAX;
    if (left > 0)
        sampler_prefetch (kind->sampler, version->id);
    for (consumer_t *consumer = kind->consumers; consumer && left > 0; consumer = consumer->next) {
        if (consumer->follows != is_reusable || !s_could_serve (consumer, version))
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
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++)
        consumer->had_lost [kind] = s_remove (&consumer->lost [kind], id);
}

void
version_index_count_again (const consumer_t *consumer)
{
    version_index_t *self = consumer->kind->version_index;
    self->losses.again += consumer->had_lost [VERSION_INDEX_LOST_OWN]
        || consumer->had_lost [VERSION_INDEX_LOST_OTHERS];
    self->account_losses [consumer->tenant].again += consumer->had_lost [VERSION_INDEX_LOST_OWN];
}

void
version_index_losses_forget (consumer_t *consumer)
{
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++)
        if (consumer->lost [kind].words)
            memset (consumer->lost [kind].words, 0,
                consumer->lost [kind].room * sizeof *consumer->lost [kind].words);
}

void
version_index_losses_free (consumer_t *consumer)
{
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++)
        free (consumer->lost [kind].words);
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
