#include "dsa.h"
#include "need.h"

#include <assert.h>
#include <stdlib.h>

enum { DSA_MAGIC = 0x5d5a11e3, BLOCK = 512 };

//  What is gathered at most: a part of the samples, and some more.  Where more is outside E, a try there
//  mostly succeeds.
enum { OUTSIDE = 16, OUTSIDE_MIN = 1024 };

//  A SHARED job, as it is sorted for a round.
typedef struct {
    uint64_t left, hash;
    uint32_t job;
} entry_t;

struct dsa {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    demand_t **demands;
    uint64_t key;
    //  Of the SHARED jobs, by number.
    need_table_t needs;
    uint64_t data_hashes [SAMPLER_JOBS_MAX], hashes [SAMPLER_JOBS_MAX];     //  of data, and of what remains
    //  Of the round.
    uint32_t jobs [SAMPLER_JOBS_MAX];       //  by what remains to them; those of a player side by side
    size_t count;                           //  of players
    size_t first [SAMPLER_JOBS_MAX + 1];    //  player m is jobs [first [m] .. first [m + 1])
    uint64_t left [SAMPLER_JOBS_MAX];       //  |R_m| as the round began
    jobset_t from [SAMPLER_JOBS_MAX];       //  a job of each of the players m .. n: what all these need is
                                            //  S_m
    size_t begin;                           //  the first player that lacks a sample
    const jobset_t *out;                    //  E is what all these needed as the round began; NULL: nothing
    uint32_t barred;                        //  the id of E that was drawn, so that some do not need it now
    bool gathered;                          //  it was tried to gather what players without a sample have
                                            //  outside E:
    uint32_t *outside;                      //  all of it, E as it was then; room for outside_max ids
    size_t outside_max, outside_count;      //  0: it was not tried, or they are more
    //  Of the offer.
    size_t end;                             //  the first player that still lacks a sample after it
    bool shares;                            //  the id drawn will be from S_m
    jobset_t alone;                         //  a job of player m
};

dsa_t *
dsa_new (uint32_t sample_count, demand_t **demands, uint64_t key)
{
    dsa_t *self = sampler_need (calloc (1, sizeof *self));
    self->magic = DSA_MAGIC;
    self->sample_count = sample_count;
    self->demands = demands;
    self->key = key;
    self->outside_max = OUTSIDE_MIN + sample_count / OUTSIDE;
    self->outside = sampler_need (malloc (self->outside_max * sizeof *self->outside));
    return self;
}

void
dsa_destroy (dsa_t **self_p)
{
    assert (self_p);
    dsa_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == DSA_MAGIC);
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        free (self->needs.planes [word]);
    free (self->outside);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  ------------------------------------------------------------------------------------------------
//  The table of needs

//  The job, which may be new there, needs these ids, too.
static void
s_needs_add (dsa_t *self, uint32_t job, const roaring_bitmap_t *ids)
{
    uint64_t **plane_p = &self->needs.planes [job / 64];
    if (!*plane_p)
        *plane_p = sampler_need (calloc (self->sample_count, sizeof **plane_p));
    jobset_add (&self->needs.members, job);
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (ids, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            (*plane_p) [block [index]] |= UINT64_C (1) << job % 64;
}

//  The job, which needs these ids and no others, leaves.
static void
s_needs_leave (dsa_t *self, uint32_t job, const roaring_bitmap_t *ids)
{
    assert (jobset_has (&self->needs.members, job));
    jobset_remove (&self->needs.members, job);
    uint64_t **plane_p = &self->needs.planes [job / 64];
    if (!self->needs.members.words [job / 64]) {
        free (*plane_p);
        *plane_p = NULL;
        return;
    }
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (ids, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            (*plane_p) [block [index]] &= ~(UINT64_C (1) << job % 64);
}

//  The jobs, which are members, need id no more.
static void
s_needs_remove (dsa_t *self, uint32_t id, const jobset_t *jobs)
{
    assert (id < self->sample_count);
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word])
            self->needs.planes [word] [id] &= ~jobs->words [word];
}

static bool
s_any (const dsa_t *self, uint32_t id, const jobset_t *jobs)
{
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word] && jobs->words [word] & self->needs.planes [word] [id])
            return true;
    return false;
}

//  Fills ids with those that some of `any` need and not all of `all`, ascending: how many there are, or 0 if
//  they are more than max.
static size_t
s_needs_between (const dsa_t *self, const jobset_t *any, const jobset_t *all, uint32_t *ids, size_t max)
{
    size_t count = 0;
    for (uint32_t id = 0; id < self->sample_count; id++)
        if (!need_table_all (&self->needs, id, all) && s_any (self, id, any)) {
            if (count == max)
                return 0;
            ids [count++] = id;
        }
    return count;
}

//  The members that need id.
static jobset_t
s_needs_of (const dsa_t *self, uint32_t id)
{
    assert (id < self->sample_count);
    jobset_t jobs = { { 0 } };
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (self->needs.planes [word])
            jobs.words [word] = self->needs.planes [word] [id];
    return jobs;
}

//  ------------------------------------------------------------------------------------------------
//  Jobs

static bool
s_is_shared (const dsa_t *self, uint32_t job)
{
    return self->demands [job] && demand_order (self->demands [job]) == SAMPLER_ORDER_SHARED;
}

//  The id's number in the hash of a set: splitmix64 at the id-th state from the key on.
static uint64_t
s_hash_of (const dsa_t *self, uint32_t id)
{
    return random_first (self->key + id * UINT64_C (0x9e3779b97f4a7c15));
}

static uint64_t
s_hash (const dsa_t *self, const roaring_bitmap_t *set)
{
    uint64_t hash = 0;
    roaring_uint32_iterator_t cursor;
    roaring_init_iterator (set, &cursor);
    uint32_t block [BLOCK], count;
    while ((count = roaring_read_uint32_iterator (&cursor, block, BLOCK)) > 0)
        for (uint32_t index = 0; index < count; index++)
            hash ^= s_hash_of (self, block [index]);
    return hash;
}

void
dsa_join (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (!s_is_shared (self, job))
        return;
    const demand_t *demand = self->demands [job];
    s_needs_add (self, job, demand_remaining (demand));
    self->data_hashes [job] = self->hashes [job] = s_hash (self, demand_data (demand));
    if (demand_remaining_count (demand) < demand_epoch_count (demand))
        self->hashes [job] = s_hash (self, demand_remaining (demand));
}

void
dsa_epoch_begin (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (!s_is_shared (self, job))
        return;
    const demand_t *demand = self->demands [job];
    if (demand_has_parts (demand))      //  what was left out of the last epoch need not be of this one's part
        s_needs_leave (self, job, demand_data (demand));
    s_needs_add (self, job, demand_remaining (demand));
    self->hashes [job] = demand_has_parts (demand)? s_hash (self, demand_remaining (demand)):
        self->data_hashes [job];
}

void
dsa_leave (dsa_t *self, uint32_t job)
{
    assert (self->magic == DSA_MAGIC);
    if (s_is_shared (self, job))
        s_needs_leave (self, job, demand_remaining (self->demands [job]));
}

void
dsa_drop (dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    jobset_t needing = s_needs_of (self, id);
    s_needs_remove (self, id, &needing);
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++)
        if (s_is_shared (self, job)) {
            self->data_hashes [job] ^= demand_has (self->demands [job], id)? s_hash_of (self, id): 0;
            self->hashes [job] ^= jobset_has (&needing, job)? s_hash_of (self, id): 0;
        }
}

//  ------------------------------------------------------------------------------------------------
//  Rounds

static bool
s_precedes (const entry_t *one, const entry_t *other)
{
    return one->left != other->left? one->left < other->left: one->hash < other->hash;
}

//  Fills the entries, sorted: by what remains, equal sets side by side.
static void
s_sort (const dsa_t *self, const uint32_t *jobs, size_t count, entry_t *entries)
{
    for (size_t next = 0; next < count; next++) {
        entry_t entry = {
            .left = demand_remaining_count (self->demands [jobs [next]]), .hash = self->hashes [jobs [next]],
            .job = jobs [next]
        };
        assert (entry.left > 0);
        size_t place = next;
        for (; place > 0 && s_precedes (&entry, &entries [place - 1]); place--)
            entries [place] = entries [place - 1];
        entries [place] = entry;
    }
}

void
dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count)
{
    assert (self->magic == DSA_MAGIC);
    assert (count > 0 && count <= SAMPLER_JOBS_MAX);
    entry_t entries [SAMPLER_JOBS_MAX];
    s_sort (self, jobs, count, entries);
    self->count = 0;
    for (size_t place = 0; place < count; place++) {
        self->jobs [place] = entries [place].job;
        if (place > 0 && entries [place].left == entries [place - 1].left
                && entries [place].hash == entries [place - 1].hash)
            continue;
        self->first [self->count] = place;
        self->left [self->count++] = entries [place].left;
    }
    self->first [self->count] = count;
    jobset_t from = { { 0 } };
    for (size_t player = self->count; player-- > 0; ) {
        jobset_add (&from, self->jobs [self->first [player]]);
        self->from [player] = from;
    }
    self->begin = 0;
    self->out = NULL;
    self->barred = CHOICE_NO_ID;
    self->gathered = false;
    self->outside_count = 0;
}

//  The class R_m - E.  An id is in E if all jobs of out need it now; and so is the barred one, which some of
//  them drew.
static choice_t
s_rest (const dsa_t *self, size_t player, jobset_t *alone)
{
    uint32_t job = self->jobs [self->first [player]];
    *alone = (jobset_t) { { 0 } };
    jobset_add (alone, job);
    return (choice_t) {
        .set = demand_remaining (self->demands [job]), .bound = self->left [player],
        .universe = self->sample_count,
        .among = self->outside_count? self->outside: NULL, .among_count = self->outside_count,
        .needs = &self->needs, .in = alone, .out = self->out, .barred = self->barred,
        .found = CHOICE_NO_ID,
    };
}

//  Where tries in R_m - E fail, E is nearly all of R_m, and mostly also of the sets after it, because they
//  are nearly the same.  What those have beyond E is gathered once a round, and all later tries are in that.
//  False: it was before, or is too much.
static bool
s_gather (dsa_t *self, choice_t *rest)
{
    if (!self->out || self->gathered)
        return false;
    self->gathered = true;
    self->outside_count = s_needs_between (self, &self->from [self->begin], self->out,
        self->outside, self->outside_max);
    rest->among = self->outside_count? self->outside: NULL;
    rest->among_count = self->outside_count;
    return rest->among != NULL;
}

//  Whether the player draws what the one before it draws: with probability |R_(i-1) - E| / |R_i - E|.
static bool
s_follows (dsa_t *self, random_t *random, size_t player)
{
    uint64_t dummies = self->left [player] - self->left [player - 1];
    if (dummies == 0 || !self->out)
        return random_ratio (random, self->left [player - 1], self->left [player]);
    jobset_t alone;
    choice_t rest = s_rest (self, player - 1, &alone);
    do {
        uint64_t width = choice_width (&rest);
        for (uint64_t tries = choice_patience (&rest); tries > 0; tries--) {
            if (random_below (random, dummies + width) < dummies)
                return false;
            if (choice_contains (&rest, choice_try (&rest, random)))
                return true;
        }
    }
    while (s_gather (self, &rest));
    uint32_t id;
    uint64_t size = choice_walk (&rest, random, &id);
    return random_ratio (random, size, dummies + size);
}

bool
dsa_offer (dsa_t *self, random_t *random, choice_t *choice, const uint32_t **jobs_p, size_t *count_p)
{
    assert (self->magic == DSA_MAGIC);
    size_t m = self->begin;
    if (m == self->count)
        return false;
    //  This round's draws touched only players before m: what remains to m and to those after it is as it
    //  began.
    *choice = s_rest (self, m, &self->alone);
    choice->found = choice_seek (choice, random);
    if (choice->found == CHOICE_NO_ID) {
        s_gather (self, choice);
        choice->found = choice_pick (choice, random);
    }
    self->end = m + 1;
    self->shares = need_table_all (&self->needs, choice->found, &self->from [m]);
    if (self->shares) {
        choice->in = &self->from [m];                       //  S_m - E
        while (self->end < self->count && s_follows (self, random, self->end))
            self->end++;
    }
    else {
        choice->out = &self->from [m + 1];                  //  R_m - S_m, which has nothing of E
        choice->barred = CHOICE_NO_ID;
    }
    *jobs_p = self->jobs + self->first [m];
    *count_p = self->first [self->end] - self->first [m];
    return true;
}

void
dsa_commit (dsa_t *self, uint32_t id)
{
    assert (self->magic == DSA_MAGIC);
    assert (self->end > self->begin);
    jobset_t taken = { { 0 } };
    for (size_t place = self->first [self->begin]; place < self->first [self->end]; place++)
        jobset_add (&taken, self->jobs [place]);
    s_needs_remove (self, id, &taken);
    for (size_t place = self->first [self->begin]; place < self->first [self->end]; place++) {
        self->hashes [self->jobs [place]] ^= s_hash_of (self, id);
        demand_draw (self->demands [self->jobs [place]], id);
    }
    self->out = &self->from [self->begin];
    self->barred = self->shares? id: CHOICE_NO_ID;
    self->begin = self->end;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

//  Each job that needs an id has its bit there; and in all data there are no more bits than that.
static void
s_check_needs (const dsa_t *self, const roaring_bitmap_t *of_any)
{
    uint64_t needed = 0, bits = 0;
    roaring_uint32_iterator_t cursor;
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        if (!s_is_shared (self, job))
            continue;
        jobset_t one = { { 0 } };
        jobset_add (&one, job);
        roaring_init_iterator (demand_remaining (self->demands [job]), &cursor);
        for (; cursor.has_value; roaring_advance_uint32_iterator (&cursor))
            assert (need_table_all (&self->needs, cursor.current_value, &one));  //  A1
        needed += demand_remaining_count (self->demands [job]);
    }
    for (roaring_init_iterator (of_any, &cursor); cursor.has_value; roaring_advance_uint32_iterator (&cursor))
        bits += jobset_count (s_needs_of (self, cursor.current_value));
    assert (bits == needed);                                                    //  A1
}

void
dsa_check (const dsa_t *self)
{
    assert (self->magic == DSA_MAGIC);
    roaring_bitmap_t *of_any = sampler_need (roaring_bitmap_create ());
    for (uint32_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        if (!s_is_shared (self, job))
            continue;
        const demand_t *demand = self->demands [job];
        roaring_bitmap_or_inplace (of_any, demand_data (demand));
        assert (s_hash (self, demand_data (demand)) == self->data_hashes [job]);        //  A2
        assert (s_hash (self, demand_remaining (demand)) == self->hashes [job]);        //  A2
        for (uint32_t other = 0; other < job; other++)
            if (s_is_shared (self, other) && self->hashes [other] == self->hashes [job])
                assert (roaring_bitmap_equals (demand_remaining (self->demands [other]),
                    demand_remaining (demand)));                                //  A2
    }
    s_check_needs (self, of_any);
    roaring_bitmap_free (of_any);
}
