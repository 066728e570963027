#include "reusable_set.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum {
    REUSABLE_SET_MAGIC = 0x5e1f0009,
    LEVELS = 16,                //  1, 2 ... and the last for all above
    LOOKS = 32,                 //  at entries of one level, at most
    NO_PLACE = 0xffffffff
};

typedef struct {
    uint64_t ticket;            //  0: free
    uint32_t id;
    uint32_t place;             //  in its list; NO_PLACE: no job may take it, so it is in none
    uint64_t jobs;              //  the jobs that may take it: numbers below 64
} entry_t;

//  Entries of one stratum and level, by their place in the ring.
typedef struct {
    uint32_t *entries;
    uint32_t count, room;
} list_t;

typedef struct {
    list_t levels [LEVELS];
    uint32_t *takers;           //  by job: entries it may take
} rack_t;

struct reusable_set {
    uint32_t magic;
    //  Set at birth.
    const strata_t *strata;
    size_t places;
    //  Owner only.
    uint64_t newest;
    entry_t *entries;           //  a ring: ticket t is at t % places
    uint64_t *higher;           //  job numbers from 64 on: words - 1 an entry
    size_t words;
    rack_t *racks;              //  by stratum, strata_bound of them
};

//  ------------------------------------------------------------------------------------------------
//  Life

reusable_set_t *
reusable_set_new (size_t places, const strata_t *strata)
{
    assert (places > 0);
    reusable_set_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = REUSABLE_SET_MAGIC;
    self->strata = strata;
    self->places = places;
    self->words = 1;
    self->entries = xalloc_jobs (calloc (places, sizeof *self->entries));
    self->racks = xalloc_jobs (calloc (strata_bound (strata), sizeof *self->racks));
    return self;
}

static void
s_free_racks (reusable_set_t *self)
{
    for (size_t stratum = 0; stratum < strata_bound (self->strata); stratum++) {
        rack_t *rack = &self->racks [stratum];
        for (size_t level = 0; level < LEVELS; level++)
            free (rack->levels [level].entries);
        free (rack->takers);
        *rack = (rack_t) { .takers = NULL };
    }
}

void
reusable_set_destroy (reusable_set_t **self_p)
{
    reusable_set_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == REUSABLE_SET_MAGIC);
    s_free_racks (self);
    free (self->racks);
    free (self->entries);
    free (self->higher);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

uint64_t
reusable_set_newest (const reusable_set_t *self)
{
    return self->newest;
}

//  ------------------------------------------------------------------------------------------------
//  Entries, masks, lists

static uint64_t *
s_jobs_word (const reusable_set_t *self, size_t index, size_t word)
{
    return word == 0? &self->entries [index].jobs: &self->higher [index * (self->words - 1) + word - 1];
}

static size_t
s_jobs (const reusable_set_t *self, size_t index)
{
    size_t count = 0;
    for (size_t word = 0; word < self->words; word++)
        count += (size_t) __builtin_popcountll (*s_jobs_word (self, index, word));
    return count;
}

static bool
s_may_take (const reusable_set_t *self, size_t index, uint32_t job)
{
    return job / 64 < self->words && *s_jobs_word (self, index, job / 64) >> job % 64 & 1;
}

static rack_t *
s_rack (const reusable_set_t *self, size_t index)
{
    return &self->racks [strata_of (self->strata, self->entries [index].id)];
}

static list_t *
s_list (const reusable_set_t *self, size_t index)
{
    size_t level = s_jobs (self, index);
    assert (level > 0);
    return &s_rack (self, index)->levels [level < LEVELS? level - 1: LEVELS - 1];
}

//  Puts the entry into the list of its level, if it has one.
static void
s_file (reusable_set_t *self, size_t index)
{
    self->entries [index].place = NO_PLACE;
    if (s_jobs (self, index) == 0)
        return;
    list_t *list = s_list (self, index);
    if (list->count == list->room) {
        list->room = list->room? list->room * 2: 16;
        list->entries = xalloc_jobs (realloc (list->entries, list->room * sizeof *list->entries));
    }
    self->entries [index].place = list->count;
    list->entries [list->count++] = (uint32_t) index;
}

static void
s_unfile (reusable_set_t *self, size_t index)
{
    uint32_t place = self->entries [index].place;
    if (place == NO_PLACE)
        return;
    list_t *list = s_list (self, index);
    assert (list->entries [place] == index);
    uint32_t last = list->entries [--list->count];
    list->entries [place] = last;
    self->entries [last].place = place;
}

static void
s_count_taker (reusable_set_t *self, rack_t *rack, size_t job, bool comes)
{
    if (!rack->takers) {
        rack->takers = xalloc_jobs (calloc (self->words * 64, sizeof *rack->takers));
    }
    rack->takers [job] += comes? 1: UINT32_MAX;
}

//  The entry, with all jobs that may take it, enters its stratum or leaves it.
static void
s_count_takers (reusable_set_t *self, size_t index, bool comes)
{
    for (size_t word = 0; word < self->words; word++)
        for (uint64_t bits = *s_jobs_word (self, index, word); bits; bits &= bits - 1)
            s_count_taker (self, s_rack (self, index), word * 64 + (size_t) __builtin_ctzll (bits), comes);
}

//  Room for higher job numbers in every entry.
static void
s_widen (reusable_set_t *self, size_t words)
{
    uint64_t *higher = xalloc_jobs (calloc (self->places * (words - 1), sizeof *higher));
    for (size_t index = 0; self->higher && index < self->places; index++)
        memcpy (higher + index * (words - 1), self->higher + index * (self->words - 1),
            (self->words - 1) * sizeof *higher);
    free (self->higher);
    self->higher = higher;
    for (size_t stratum = 0; stratum < strata_bound (self->strata); stratum++) {
        rack_t *rack = &self->racks [stratum];
        if (!rack->takers)
            continue;
        rack->takers = xalloc_jobs (realloc (rack->takers, words * 64 * sizeof *rack->takers));
        memset (rack->takers + self->words * 64, 0, (words - self->words) * 64 * sizeof *rack->takers);
    }
    self->words = words;
}

//  ------------------------------------------------------------------------------------------------
//  What comes and goes

static void
s_clear (reusable_set_t *self, size_t index)
{
    if (self->entries [index].ticket == 0)
        return;
    s_unfile (self, index);
    s_count_takers (self, index, false);
    for (size_t word = 0; word < self->words; word++)
        *s_jobs_word (self, index, word) = 0;
    self->entries [index] = (entry_t) { .place = NO_PLACE };
}

uint64_t
reusable_set_add (reusable_set_t *self, uint32_t id)
{
    assert (self->magic == REUSABLE_SET_MAGIC);
    uint64_t ticket = ++self->newest;
    size_t index = ticket % self->places;
    s_clear (self, index);
    self->entries [index] = (entry_t) { .ticket = ticket, .id = id, .place = NO_PLACE };
    return ticket;
}

//  The ticket's entry, or places if it has gone.
static size_t
s_find (const reusable_set_t *self, uint64_t ticket)
{
    size_t index = ticket % self->places;
    return ticket && self->entries [index].ticket == ticket? index: self->places;
}

void
reusable_set_remove (reusable_set_t *self, uint64_t ticket)
{
    assert (self->magic == REUSABLE_SET_MAGIC);
    size_t index = s_find (self, ticket);
    if (index < self->places)
        s_clear (self, index);
}

void
reusable_set_remove_until (reusable_set_t *self, uint64_t ticket)
{
    for (size_t index = 0; index < self->places; index++)
        if (self->entries [index].ticket <= ticket)
            s_clear (self, index);
}

static void
s_change (reusable_set_t *self, uint64_t ticket, uint32_t job, bool may)
{
    assert (self->magic == REUSABLE_SET_MAGIC);
    assert (job < SAMPLER_JOBS_MAX);
    size_t index = s_find (self, ticket);
    if (index == self->places || s_may_take (self, index, job) == may)
        return;
    if (job / 64 >= self->words)
        s_widen (self, job / 64 + 1);
    s_unfile (self, index);
    *s_jobs_word (self, index, job / 64) ^= UINT64_C (1) << job % 64;
    s_count_taker (self, s_rack (self, index), job, may);
    s_file (self, index);
}

void
reusable_set_allow (reusable_set_t *self, uint64_t ticket, uint32_t job)
{
    s_change (self, ticket, job, true);
}

void
reusable_set_forbid (reusable_set_t *self, uint64_t ticket, uint32_t job)
{
    s_change (self, ticket, job, false);
}

void
reusable_set_restratify (reusable_set_t *self)
{
    assert (self->magic == REUSABLE_SET_MAGIC);
    s_free_racks (self);
    for (size_t index = 0; index < self->places; index++)
        if (self->entries [index].ticket) {
            s_count_takers (self, index, true);
            s_file (self, index);
        }
}

//  ------------------------------------------------------------------------------------------------
//  Picking

typedef struct {
    uint32_t job;
    bool (*suits) (const void *context, uint32_t id);
    const void *context;
} wish_t;

static bool
s_fits (const reusable_set_t *self, const wish_t *wish, uint32_t index)
{
    return s_may_take (self, index, wish->job) && wish->suits (wish->context, self->entries [index].id);
}

//  An entry of the list that fits, uniform among those that do as far as looks reach: all of a short list.
static uint32_t
s_look (const reusable_set_t *self, const list_t *list, const wish_t *wish, random_t *random)
{
    if (list->count > LOOKS) {
        for (int look = 0; look < LOOKS; look++) {
            uint32_t index = list->entries [random_below (random, list->count)];
            if (s_fits (self, wish, index))
                return index;
        }
        return NO_PLACE;
    }
    uint32_t found = NO_PLACE;
    uint64_t fitting = 0;
    for (uint32_t place = 0; place < list->count; place++)
        if (s_fits (self, wish, list->entries [place]) && random_below (random, ++fitting) == 0)
            found = list->entries [place];
    return found;
}

//  One of the levels in question, by weight: how many entries it has that the job may take if all jobs were
//  alike, and REUSABLE_SET_PREFERENCE times less for each further taker.
static size_t
s_choose_level (const rack_t *rack, uint32_t levels, random_t *random)
{
    double weights [LEVELS], sum = 0, scale = 1;
    for (size_t level = 0; level < LEVELS; level++, scale /= REUSABLE_SET_PREFERENCE) {
        weights [level] = levels >> level & 1? rack->levels [level].count * (double) (level + 1) * scale: 0;
        sum += weights [level];
    }
    double point = random_real (random) * sum;
    size_t chosen = LEVELS;
    for (size_t level = 0; level < LEVELS; level++) {
        if (weights [level] == 0)
            continue;
        chosen = level;
        if (point < weights [level])
            break;
        point -= weights [level];
    }
    return chosen;
}

uint32_t
reusable_set_pick (const reusable_set_t *self, uint32_t stratum, uint32_t job, random_t *random,
    bool (*suits) (const void *context, uint32_t id), const void *context)
{
    const rack_t *rack = &self->racks [stratum];
    if (!rack->takers || job / 64 >= self->words || rack->takers [job] == 0)
        return REUSABLE_SET_NO_ID;
    wish_t wish = { job, suits, context };
    uint32_t levels = (UINT32_C (1) << LEVELS) - 1;
    size_t level;
    while ((level = s_choose_level (rack, levels, random)) < LEVELS) {
        uint32_t index = s_look (self, &rack->levels [level], &wish, random);
        if (index != NO_PLACE)
            return self->entries [index].id;
        levels &= ~(UINT32_C (1) << level);
    }
    return REUSABLE_SET_NO_ID;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

static void
s_check_entry (const reusable_set_t *self, size_t index, uint32_t *takers)
{
    const entry_t *entry = &self->entries [index];
    assert (entry->ticket % self->places == index && entry->ticket <= self->newest);
    assert ((entry->place == NO_PLACE) == (s_jobs (self, index) == 0));                     //  E1
    if (entry->place != NO_PLACE) {
        const list_t *list = s_list (self, index);
        assert (entry->place < list->count && list->entries [entry->place] == index);       //  E1
    }
    uint32_t stratum = strata_of (self->strata, entry->id);
    for (uint32_t job = 0; job < self->words * 64; job++)
        takers [stratum * self->words * 64 + job] += s_may_take (self, index, job);
}

void
reusable_set_check (const reusable_set_t *self)
{
    assert (self->magic == REUSABLE_SET_MAGIC);
    size_t bound = strata_bound (self->strata), jobs = self->words * 64;
    uint32_t *takers = xalloc_jobs (calloc (bound * jobs, sizeof *takers));
    size_t filed = 0, listed = 0;
    for (size_t index = 0; index < self->places; index++)
        if (self->entries [index].ticket) {
            s_check_entry (self, index, takers);
            filed += self->entries [index].place != NO_PLACE;
        }
    for (size_t stratum = 0; stratum < bound; stratum++) {
        for (size_t level = 0; level < LEVELS; level++)
            listed += self->racks [stratum].levels [level].count;
        for (size_t job = 0; self->racks [stratum].takers && job < jobs; job++)
            assert (self->racks [stratum].takers [job] == takers [stratum * jobs + job]);   //  E2
    }
    assert (listed == filed);                                                               //  E1
    free (takers);
}
