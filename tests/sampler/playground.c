#include "playground.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = SAMPLER_JOBS_MAX, WORD_BITS = 64 };

typedef struct {
    uint32_t id;
    uint64_t ticket;
    uint64_t seen [JOBS / WORD_BITS];           //  by sampler's job number
} item_t;

typedef struct {
    playground_job_t options;
    bool came, gone;
    uint32_t number;            //  the sampler's
    double next;
    uint64_t epoch;
    uint32_t position;
    uint8_t *had;               //  by id: drawn in this epoch
} player_t;

struct playground {
    uint32_t samples;
    size_t room;
    sampler_t *sampler;
    random_t random;
    item_t *items;
    size_t item_count;
    player_t players [JOBS];
    int player_count;
    double now;
    bool checks;
    playground_drawn_t *drawn;
    void *context;
    uint64_t prepared, delivered;
};

//  What followers scheduled under finer strata goes.
static void
s_merging (void *context, sampler_t *sampler)
{
    playground_t *self = context;
    for (size_t index = self->item_count; index-- > 0; )
        if (self->items [index].ticket) {
            sampler_reusable_remove (sampler, self->items [index].ticket);
            self->items [index] = self->items [--self->item_count];
        }
}

playground_t *
playground_new (uint32_t samples, size_t versions, sampler_policy_t policy, uint64_t seed)
{
    playground_t *self = calloc (1, sizeof *self);
    assert (self);
    self->samples = samples;
    self->room = versions;
    self->sampler = sampler_new (samples, policy, seed);
    sampler_on_merge (self->sampler, s_merging, self);
    self->random = random_from_seed (seed ^ 0x6a09e667);
    self->items = calloc (versions + 1, sizeof *self->items);
    assert (self->items);
    return self;
}

void
playground_destroy (playground_t **self_p)
{
    playground_t *self = *self_p;
    sampler_destroy (&self->sampler);
    for (int player = 0; player < self->player_count; player++)
        free (self->players [player].had);
    free (self->items);
    free (self);
    *self_p = NULL;
}

void
playground_on_draw (playground_t *self, playground_drawn_t *drawn, void *context)
{
    self->drawn = drawn;
    self->context = context;
}

void
playground_check_always (playground_t *self)
{
    self->checks = true;
}

sampler_t *
playground_sampler (playground_t *self)
{
    return self->sampler;
}

double
playground_now (const playground_t *self)
{
    return self->now;
}

uint64_t
playground_prepared (const playground_t *self)
{
    return self->prepared;
}

uint64_t
playground_delivered (const playground_t *self)
{
    return self->delivered;
}

//  ---- the store

static bool
s_has_seen (const item_t *item, uint32_t number)
{
    return item->seen [number / WORD_BITS] >> number % WORD_BITS & 1;
}

static void
s_note_seen (item_t *item, uint32_t number, bool is_seen)
{
    uint64_t bit = UINT64_C (1) << number % WORD_BITS, *word = &item->seen [number / WORD_BITS];
    *word = is_seen? *word | bit: *word & ~bit;
}

static bool
s_may_use (const playground_t *self, const item_t *item, uint32_t number)
{
    return !s_has_seen (item, number) && sampler_needs (self->sampler, number, item->id);
}

static void
s_tell (playground_t *self, const item_t *item, const player_t *player)
{
    if (!item->ticket || !sampler_follows (self->sampler, player->number))
        return;
    if (s_may_use (self, item, player->number))
        sampler_allow (self->sampler, item->ticket, player->number);
    else
        sampler_forbid (self->sampler, item->ticket, player->number);
}

static bool
s_plays (const player_t *player)
{
    return player->came && !player->gone;
}

//  All versions of an id (all: of every id), for a player (NULL: all).
static void
s_tell_all (playground_t *self, const player_t *only, uint32_t id, bool all)
{
    for (size_t index = 0; index < self->item_count; index++)
        for (int player = 0; (all || self->items [index].id == id) && player < self->player_count; player++)
            if (s_plays (&self->players [player]) && (!only || only == &self->players [player]))
                s_tell (self, &self->items [index], &self->players [player]);
}

//  How many may use it, or more than most: of those that follow, if it is on the reusable set; of the others,
//  if it is not.
static size_t
s_count (const playground_t *self, const item_t *item, size_t most)
{
    size_t count = 0;
    for (int index = 0; index < self->player_count && count <= most; index++) {
        const player_t *player = &self->players [index];
        count += s_plays (player) && !s_has_seen (item, player->number)
            && (item->ticket != 0) == sampler_follows (self->sampler, player->number)
            && sampler_needs (self->sampler, player->number, item->id);
    }
    return count;
}

static void
s_remove_item (playground_t *self, size_t index)
{
    sampler_reusable_remove (self->sampler, self->items [index].ticket);
    self->items [index] = self->items [--self->item_count];
}

static void
s_evict (playground_t *self)
{
    while (self->item_count > self->room) {
        size_t least = SIZE_MAX, worst = 0;
        uint64_t ties = 0;
        for (size_t index = 0; index < self->item_count; index++) {
            size_t count = s_count (self, &self->items [index], least);
            if (count < least)
                ties = 0;
            if (count <= least && random_below (&self->random, ++ties) == 0)
                worst = index;
            least = count < least? count: least;
        }
        if (self->items [worst].ticket)
            sampler_lost (self->sampler);
        s_remove_item (self, worst);
    }
}

//  The version that serves a draw: one that is there, or a new one.
static void
s_serve (playground_t *self, player_t *player, uint32_t id)
{
    //  Those that follow and the others keep apart, since the strata do not know the others' data: one uses
    //  what the other side has scheduled only if a new version would push nothing out.
    bool follows = sampler_follows (self->sampler, player->number);
    item_t *item = NULL;
    for (size_t index = 0; index < self->item_count; index++)
        if (self->items [index].id == id && !s_has_seen (&self->items [index], player->number)
                && !(item && (item->ticket != 0) == follows))
            item = &self->items [index];
    if (item && (item->ticket != 0) != follows && self->item_count == self->room)
        item = NULL;
    if (!item) {
        item = &self->items [self->item_count++];
        *item = (item_t) { .id = id };
        self->prepared++;
    }
    s_note_seen (item, player->number, true);
    if (!item->ticket && follows)
        item->ticket = sampler_reusable_add (self->sampler, id);
    s_tell_all (self, NULL, id, false);
    s_evict (self);
}

//  ---- jobs

int
playground_join (playground_t *self, const playground_job_t *job)
{
    assert (self->player_count < JOBS);
    player_t *player = &self->players [self->player_count];
    *player = (player_t) { .options = *job, .next = self->now + job->start };
    player->had = calloc (self->samples, 1);
    assert (player->had);
    return self->player_count++;
}

static bool
s_is_in_data (const playground_job_t *job, uint32_t id)
{
    return id >= job->from && id < job->to && (job->stride == 0 || (id - job->from) % job->stride == 0);
}

static void s_end_epoch (playground_t *self, player_t *player);

//  What its options say is taken is had; as a set, to be freed.
static roaring_bitmap_t *
s_take (const playground_t *self, player_t *player)
{
    roaring_bitmap_t *taken = roaring_bitmap_create ();
    assert (taken);
    player->epoch = player->options.epoch;
    for (uint32_t id = 0; player->options.taken && id < self->samples; id++)
        if (player->options.taken [id]) {
            roaring_bitmap_add (taken, id);
            player->had [id] = 1;
            player->position++;
        }
    return taken;
}

static void
s_come (playground_t *self, player_t *player)
{
    const playground_job_t *job = &player->options;
    roaring_bitmap_t *data = roaring_bitmap_from_range (job->from, job->to, job->stride? job->stride: 1);
    roaring_bitmap_t *taken = s_take (self, player);
    sampler_join_t join = { .order = job->order, .data = data, .seed = 1, .epoch = job->epoch,
        .taken = taken };
    player->number = sampler_join (self->sampler, &join);
    assert (player->number != SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
    roaring_bitmap_free (taken);
    player->came = true;
    s_tell_all (self, player, 0, true);
    if (job->taken && sampler_remaining (self->sampler, player->number) == 0)
        s_end_epoch (self, player);
}

static void
s_go (playground_t *self, player_t *player)
{
    for (size_t index = 0; index < self->item_count; index++) {
        if (sampler_follows (self->sampler, player->number))
            sampler_forbid (self->sampler, self->items [index].ticket, player->number);
        s_note_seen (&self->items [index], player->number, false);
    }
    sampler_leave (self->sampler, player->number);
    player->gone = true;
}

void
playground_leave (playground_t *self, int job)
{
    player_t *player = &self->players [job];
    if (s_plays (player))
        s_go (self, player);
    player->gone = true;
}

bool
playground_is_there (const playground_t *self, int job)
{
    return s_plays (&self->players [job]);
}

const uint8_t *
playground_had (const playground_t *self, int job)
{
    return self->players [job].had;
}

uint64_t
playground_epoch (const playground_t *self, int job)
{
    return self->players [job].epoch;
}

void
playground_drop (playground_t *self, uint32_t id)
{
    sampler_drop (self->sampler, id);
    for (size_t index = self->item_count; index-- > 0; )
        if (self->items [index].id == id)
            s_remove_item (self, index);
}

static void
s_end_epoch (playground_t *self, player_t *player)
{
    player->epoch++;
    player->position = 0;
    memset (player->had, 0, self->samples);
    if (player->options.epochs && player->epoch == player->options.epochs) {
        s_go (self, player);
        return;
    }
    sampler_epoch_begin (self->sampler, player->number);
    s_tell_all (self, player, 0, true);
}

//  ---- time

static player_t *
s_player_of (playground_t *self, uint32_t number)
{
    for (int index = 0; index < self->player_count; index++)
        if (s_plays (&self->players [index]) && self->players [index].number == number)
            return &self->players [index];
    abort ();
}

static void
s_draw (playground_t *self, const sampler_offer_t *offer)
{
    uint32_t jobs [JOBS];
    size_t count = offer->job_count;
    memcpy (jobs, offer->jobs, count * sizeof *jobs);
    uint32_t id = sampler_pick (self->sampler);
    sampler_commit (self->sampler, id);
    for (size_t index = 0; index < count; index++) {
        player_t *player = s_player_of (self, jobs [index]);
        assert (s_is_in_data (&player->options, id) && !player->had [id]);
        player->had [id] = 1;
        self->delivered++;
        if (self->drawn)
            self->drawn (self->context, (int) (player - self->players), player->epoch, player->position, id);
        player->position++;
        s_serve (self, player, id);
    }
}

//  A round of the jobs of a group that take a step now.
static void
s_round (playground_t *self, const uint32_t *group, size_t count)
{
    uint32_t jobs [JOBS];
    size_t takers = 0;
    for (size_t index = 0; index < count; index++) {
        player_t *player = s_player_of (self, group [index]);
        if (player->next > self->now + 1e-9 || sampler_remaining (self->sampler, player->number) == 0)
            continue;
        jobs [takers++] = group [index];
    }
    if (takers == 0)
        return;
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, jobs, takers);
    while (sampler_offer (self->sampler, &offer))
        s_draw (self, &offer);
}

static void
s_tick (playground_t *self)
{
    for (int index = 0; index < self->player_count; index++) {
        player_t *player = &self->players [index];
        if (!player->came && !player->gone && player->next <= self->now + 1e-9)
            s_come (self, player);
    }
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        size_t count;
        const uint32_t *jobs = sampler_group (self->sampler, group, &count);
        s_round (self, jobs, count);
    }
    for (int index = 0; index < self->player_count; index++) {
        player_t *player = &self->players [index];
        if (!s_plays (player) || player->next > self->now + 1e-9)
            continue;
        double off = ((double) random_below (&self->random,
            1 << 20) / (1 << 19) - 1) * player->options.jitter;
        player->next += (1 + off) / player->options.speed;
        if (sampler_remaining (self->sampler, player->number) == 0)
            s_end_epoch (self, player);
    }
    if (self->checks)
        sampler_check (self->sampler);
}

bool
playground_run (playground_t *self, double until)
{
    for (;;) {
        double next = -1;
        for (int index = 0; index < self->player_count; index++)
            if (!self->players [index].gone && (next < 0 || self->players [index].next < next))
                next = self->players [index].next;
        if (next < 0)
            return true;
        if (next > until) {
            self->now = until;
            return false;
        }
        self->now = next;
        s_tick (self);
    }
}
