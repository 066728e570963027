#include "tier_run.h"
#include "sampler_passes.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "random.h"
#include "simulated_memory.h"
#include "tier.h"
#include "tier_disk.h"
#include "tier_pins.h"
#include "tier_published.h"

_Static_assert ((int) TIER_PLAN_JOBS_MAX <= (int) SAMPLER_JOBS_MAX, "all jobs may be there at once");
_Static_assert ((int) TIER_PLAN_TENANTS_MAX <= (int) VERSION_INDEX_TENANTS_MAX, "tenants have numbers");

typedef enum { PLAYER_COMING, PLAYER_HERE, PLAYER_GONE } player_state_t;

typedef struct simulation simulation_t;

//  A job.
typedef struct {
    consumer_t consumer;
    const tier_plan_job_t *plan;
    orders_record_t *record;
    tier_job_result_t *result;
    tier_t *own_tier;           //  of a job that must not share one
    player_state_t state;
    uint32_t from, to;          //  its data
    double start;               //  ticks
    uint32_t epoch;
    uint64_t drawn;
    uint32_t *order;            //  of the present epoch
} player_t;

struct simulation {
    const tier_plan_t *plan;
    tier_disk_t *disk;
    tier_pins_t *pins;          //  NULL: none
    random_t random;
    sampler_t *sampler;
    version_index_t *version_index;
    version_set_t *kind;
    tier_t *tier;               //  of all jobs that share one
    player_t *players;
    player_t *by_number [SAMPLER_JOBS_MAX];
    player_t *fastest;
    uint64_t limit_bytes;
    double now;                 //  ticks, whole
    tier_result_t *result;
};

//  ---- tiers

static size_t
s_sample_bytes (void *context, uint32_t id)
{
    (void) id;
    return ((const simulation_t *) context)->plan->sample_bytes;
}

static tier_t *
s_tier_new (simulation_t *self)
{
    const tier_plan_t *plan = self->plan;
    raw_pool_options_t options = {
        .samples = plan->samples, .order = self->disk->order,
        .positions = self->disk->positions, .breaks = self->disk->breaks,
        .break_count = self->disk->break_count,
        .limit_bytes = self->limit_bytes, .piece = plan->piece, .chunk = plan->chunk,
        .virtual_chunks = plan->virtual_chunks
    };
    return tier_new (self->version_index, self->sampler, plan->policy, &options, s_sample_bytes, self,
        random_next (&self->random));
}

static tier_t *
s_tier_of (const simulation_t *self, const player_t *player)
{
    return player->own_tier? player->own_tier: self->tier;
}

//  Two private jobs that read one stream would not be independent, and what draws apart must not be seen in
//  it.
static bool
s_is_alone (const simulation_t *self, const player_t *player)
{
    return self->plan->sampler == TIER_PRIVATE
        || (self->plan->sampler == TIER_FOLLOW
        && !sampler_follows (self->sampler, player->consumer.sampler_job));
}

//  The fastest job's, or its last one.
static size_t
s_epoch (const simulation_t *self)
{
    return self->fastest->state == PLAYER_GONE? self->result->load_count - 1: self->fastest->epoch;
}

static void
s_read (simulation_t *self, uint32_t first, uint32_t count)
{
    uint64_t bytes = self->pins? tier_pins_read (self->pins, first, count):
        tier_disk_bytes (self->disk, first, count);
    self->result->read_bytes += bytes;
    self->result->bytes_by_epoch [s_epoch (self)] += bytes;
    self->result->loads [s_epoch (self)]++;
}

//  As where a second read is quicker than one through a gap of other samples: so reads and bytes are the most
//  and the least that they may be.  Redox reads whole chunks, as published.
static void
s_read_parts (simulation_t *self, const raw_read_t *read)
{
    uint32_t index = 0;
    while (index < read->count) {
        uint64_t rest = read->keep >> index, gaps = ~rest;
        uint32_t run = gaps? (uint32_t) __builtin_ctzll (gaps): read->count;
        if (run > 0) {
            s_read (self, read->first + index, run);
            self->result->reads++;
        }
        index += run > 0? run: 1;
    }
}

static void
s_read_all (simulation_t *self, tier_t *tier)
{
    raw_read_t read;
    while (tier_next (tier, &read)) {
        if (self->plan->policy == RAW_STREAM)
            s_read_parts (self, &read);
        else {
            s_read (self, read.first, read.count);
            self->result->reads++;
        }
        self->result->filled += (uint64_t) __builtin_popcountll (read.keep);
    }
    raw_pool_figures_t figures = raw_pool_figures (tier_pool (tier));
    if (figures.resident_bytes > self->result->most_bytes)
        self->result->most_bytes = figures.resident_bytes;
}

static void
s_read_single (simulation_t *self, uint32_t id)
{
    uint64_t before = self->result->read_bytes;
    s_read (self, self->disk->positions [id], 1);
    self->result->singles++;
    self->result->singles_by_epoch [s_epoch (self)]++;
    self->result->single_bytes += self->result->read_bytes - before;
}

//  ---- coming and going

static uint32_t
s_tenants (const tier_plan_t *plan)
{
    return plan->tenants > 0? plan->tenants: 1;
}

static void
s_kind_ended (void *context, void *user)
{
    (void) context;
    *(version_set_t **) user = NULL;
}

static void
s_join (simulation_t *self, player_t *player)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (player->from, player->to, 1);
    assert (data);
    bool alone = self->plan->sampler == TIER_PRIVATE;
    sampler_join_t join = { .order = alone? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_SHARED, .data = data };
    if (!self->kind)
        self->kind = version_set_new (self->version_index, self->sampler, 1, !self->plan->is_deterministic,
            &self->kind);
    player->consumer = (consumer_t) { .kind = self->kind, .sampler_job = sampler_join (self->sampler, &join),
        .tenant = (uint32_t) (player - self->players) % s_tenants (self->plan) };
    assert (player->consumer.sampler_job != SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
    version_index_join (self->version_index, &player->consumer);
    if (s_is_alone (self, player))
        player->own_tier = s_tier_new (self);
    tier_t *tier = s_tier_of (self, player);
    tier_join (tier, &player->consumer);
    tier_goes_on (tier, player->consumer.sampler_job, player->plan->epochs > 1);
    self->by_number [player->consumer.sampler_job] = player;
    player->state = PLAYER_HERE;
    s_read_all (self, tier);
}

static void
s_count_discarded (simulation_t *self, tier_t *tier)
{
    self->result->discarded += raw_pool_figures (tier_pool (tier)).discarded;
}

static void
s_leave (simulation_t *self, player_t *player)
{
    tier_leave (s_tier_of (self, player), &player->consumer);
    version_index_leave (self->version_index, &player->consumer);
    sampler_leave (self->sampler, player->consumer.sampler_job);
    self->by_number [player->consumer.sampler_job] = NULL;
    player->state = PLAYER_GONE;
    if (player->own_tier) {
        s_count_discarded (self, player->own_tier);
        tier_destroy (&player->own_tier);
    }
}

static void
s_admit (simulation_t *self)
{
    for (size_t job = 0; job < self->plan->job_count; job++)
        if (self->players [job].state == PLAYER_COMING && self->players [job].start <= self->now)
            s_join (self, &self->players [job]);
}

//  ---- drawing

static void
s_deliver (simulation_t *self, player_t *player, uint32_t id)
{
    orders_record_deliver (player->record, id);
    player->order [player->drawn % (player->to - player->from)] = id;
    player->result->order_hash = tier_hash_add (player->result->order_hash, id);
    self->result->order_hash = tier_hash_add (self->result->order_hash, id);
    player->drawn++;
    self->result->deliveries++;
}

//  Inside an offer.  Looks at all residents.
static tier_single_t
s_why_single (const simulation_t *self, tier_t *tier, consumer_t *const *consumers, size_t count)
{
    const raw_pool_t *pool = tier_pool (tier);
    tier_single_t why = TIER_SINGLE_UNNEEDED;
    for (uint32_t index = 0; index < raw_pool_resident_count (pool); index++) {
        uint32_t id = raw_pool_resident_at (pool, index);
        tier_single_t that = !sampler_needs (self->sampler, consumers [0]->sampler_job, id)?
            TIER_SINGLE_UNNEEDED: !sampler_accepts (self->sampler, id)
            || version_index_serves (self->version_index, consumers, count, id)? TIER_SINGLE_ELSEWHERE:
            !sampler_suits (self->sampler, id)? TIER_SINGLE_REFUSED: TIER_SINGLE_PASSED_BY;
        why = that > why? that: why;
    }
    return why;
}

//  The draw of id has not been committed.  Looking changes no order.
static void
s_note_single (simulation_t *self, tier_t *tier, consumer_t *const *consumers, size_t count, uint32_t id)
{
    if (raw_pool_is_resident (tier_pool (tier), id)
            || version_index_serves (self->version_index, consumers, count, id))
        return;
    uint32_t job = consumers [0]->sampler_job;
    uint64_t all = sampler_epoch_samples (self->sampler, job);
    uint64_t drawn = all - sampler_remaining (self->sampler, job);
    self->result->singles_by_tenth [drawn * TIER_TENTHS / all]++;
    if (self->result->singles % TIER_SINGLE_EVERY == 0)
        self->result->reasons [s_why_single (self, tier, consumers, count)]++;
}

static void
s_draw (simulation_t *self, const sampler_offer_t *offer)
{
    consumer_t *consumers [SAMPLER_JOBS_MAX];
    version_t *versions [SAMPLER_JOBS_MAX];
    for (size_t index = 0; index < offer->job_count; index++)
        consumers [index] = &self->by_number [offer->jobs [index]]->consumer;
    tier_t *tier = s_tier_of (self, self->by_number [offer->jobs [0]]);
    raw_pool_figures_t figures = raw_pool_figures (tier_pool (tier));
    mean_add (&self->result->resident, (double) figures.resident_bytes / (double) figures.limit_bytes);
    uint64_t scheduled = 0;
    uint32_t id = tier_pick (tier, consumers, offer->job_count);
    s_note_single (self, tier, consumers, offer->job_count, id);
    version_index_draw (self->version_index, consumers, offer->job_count, id, versions, &scheduled);
    self->result->handed += scheduled;
    if (scheduled == 0)
        tier_drawn (tier, id);
    else
    if (tier_take (tier, id) == TIER_ABSENT)
        s_read_single (self, id);
    for (size_t index = 0; index < offer->job_count; index++) {
        prepared_unpin (version_index_prepared (self->version_index), versions [index]);
        s_deliver (self, self->by_number [offer->jobs [index]], id);
    }
    s_read_all (self, tier);
}

static void
s_after_draw (simulation_t *self, player_t *player)
{
    const tier_plan_t *plan = self->plan;
    if (sampler_remaining (self->sampler, player->consumer.sampler_job) > 0)
        return;
    orders_record_epoch_end (player->record);
    tier_mixing_add (&player->result->mixing, player->order, player->to - player->from, self->disk->positions,
        plan->samples, plan->chunk, plan->piece, plan->batch);
    if (player->epoch + 1 == player->plan->epochs) {
        s_leave (self, player);
        return;
    }
    player->epoch++;
    tier_t *tier = s_tier_of (self, player);
    version_index_epoch_begin (self->version_index, &player->consumer);
    if (player->epoch + 1 == player->plan->epochs)
        tier_goes_on (tier, player->consumer.sampler_job, false);
    tier_epoch_begin (tier, player->consumer.sampler_job);
    s_read_all (self, tier);
}

static bool
s_is_due (const simulation_t *self, const player_t *player)
{
    return player && player->state == PLAYER_HERE
        && (double) player->drawn <= (self->now - player->start) * player->plan->speed;
}

//  One sample for every job of the group that is due.  False: none is.
static bool
s_round (simulation_t *self, const uint32_t *members, size_t count)
{
    uint32_t takers [SAMPLER_JOBS_MAX];
    size_t taker_count = 0;
    for (size_t index = 0; index < count; index++)
        if (s_is_due (self, self->by_number [members [index]]))
            takers [taker_count++] = members [index];
    if (taker_count == 0)
        return false;
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, takers, taker_count);
    while (sampler_offer (self->sampler, &offer))
        s_draw (self, &offer);
    for (size_t index = 0; index < taker_count; index++)
        s_after_draw (self, self->by_number [takers [index]]);
    return true;
}

//  A round may end a job, and so change the groups: all are asked again.
static bool
s_any_round (simulation_t *self)
{
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        size_t count;
        const uint32_t *members = sampler_group (self->sampler, group, &count);
        if (s_round (self, members, count))
            return true;
    }
    return false;
}

//  The next tick with a job present.  False: all have gone.
static bool
s_advance (simulation_t *self)
{
    double next = INFINITY;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        const player_t *player = &self->players [job];
        double at = player->state == PLAYER_COMING? fmax (ceil (player->start), self->now + 1):
            player->state == PLAYER_GONE? INFINITY: self->now + 1;
        next = at < next? at: next;
    }
    self->now = next;
    return next != INFINITY && (self->plan->until <= 0 || next < self->plan->until * self->plan->samples);
}

//  ---- set up and tear down

static void
s_set_up_player (simulation_t *self, size_t job, _Atomic uint32_t *bins)
{
    player_t *player = &self->players [job];
    player->plan = &self->plan->jobs [job];
    player->start = player->plan->start * self->plan->samples;
    player->result = &self->result->jobs [job];
    player->result->order_hash = tier_hash_begin ();
    tier_plan_data (self->plan, job, &player->from, &player->to);
    player->order = simulated_alloc (player->to - player->from, sizeof *player->order);
    orders_options_t options = {
        .from = player->from, .to = player->to, .batch = self->plan->batch,
        .epochs_max = player->plan->epochs, .bins = bins
    };
    player->record = orders_record_new (&options);
    if (!self->fastest || player->plan->speed > self->fastest->plan->speed)
        self->fastest = player;
}

static void
s_set_up_result (simulation_t *self)
{
    const tier_plan_t *plan = self->plan;
    tier_result_t *result = self->result;
    uint8_t *covered = simulated_alloc (plan->samples, 1);
    uint64_t data = 0;
    for (size_t job = 0; job < plan->job_count; job++)
        memset (covered + self->players [job].from, 1, self->players [job].to - self->players [job].from);
    for (uint32_t id = 0; id < plan->samples; id++)
        data += covered [id];
    free (covered);
    result->load_count = self->fastest->plan->epochs;
    result->loads = simulated_alloc (result->load_count, sizeof *result->loads);
    result->bytes_by_epoch = simulated_alloc (result->load_count, sizeof *result->bytes_by_epoch);
    result->singles_by_epoch = simulated_alloc (result->load_count, sizeof *result->singles_by_epoch);
    result->data_epochs = (double) (data * plan->sample_bytes) * self->fastest->plan->epochs;
    result->limit_bytes = self->limit_bytes;
    result->order_hash = tier_hash_begin ();
}

static void
s_set_up (simulation_t *self, uint64_t seed, _Atomic uint32_t *const *bins)
{
    const tier_plan_t *plan = self->plan;
    self->random = random_from_seed (seed);
    self->now = -1;
    self->limit_bytes = tier_disk_limit (plan);
    sampler_policy_t policy = plan->sampler == TIER_DSA? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW;
    self->sampler = sampler_new (plan->samples, policy, random_next (&self->random));
    sampler_passes_allow (self->sampler, false);
    size_t versions = (size_t) (plan->cache * plan->samples);
    self->version_index = version_index_new (versions > 0? versions: 1, random_next (&self->random));
    version_index_on_kind_end (self->version_index, s_kind_ended, self);
    for (uint32_t tenant = 1; tenant < s_tenants (plan); tenant++)
        version_index_tenant (self->version_index, tenant, 1, SIZE_MAX);
    if (plan->sampler != TIER_PRIVATE)
        self->tier = s_tier_new (self);
    self->result->job_count = plan->job_count;
    self->result->jobs = simulated_alloc (plan->job_count, sizeof *self->result->jobs);
    self->players = simulated_alloc (plan->job_count, sizeof *self->players);
    for (size_t job = 0; job < plan->job_count; job++)
        s_set_up_player (self, job, bins? bins [job]: NULL);
    s_set_up_result (self);
}

static void
s_tear_down (simulation_t *self)
{
    for (size_t job = 0; job < self->plan->job_count; job++) {
        player_t *player = &self->players [job];
        if (player->state == PLAYER_HERE)
            s_leave (self, player);
        player->result->orders = orders_record_figures (player->record);
        orders_record_destroy (&player->record);
        free (player->order);
    }
    if (self->tier)
        s_count_discarded (self, self->tier);
    tier_destroy (&self->tier);
    version_index_destroy (&self->version_index);
    sampler_destroy (&self->sampler);
    free (self->players);
}

tier_result_t
tier_run (const tier_plan_t *plan, uint64_t seed, uint64_t pack_seed, _Atomic uint32_t *const *bins)
{
    assert (plan->job_count > 0 && plan->job_count <= TIER_PLAN_JOBS_MAX);
    if (plan->published_rng)
        return tier_published_run (plan, seed);
    tier_result_t result = { .load_count = 0 };
    tier_disk_t *disk = tier_disk_new (plan, pack_seed);
    simulation_t self = { .plan = plan, .disk = disk, .pins = tier_pins_new (disk), .result = &result };
    s_set_up (&self, seed, bins);
    while (s_advance (&self)) {
        s_admit (&self);
        while (s_any_round (&self))
            ;
    }
    s_tear_down (&self);
    result.pinned = self.pins? tier_pins_part (self.pins): 0;
    tier_pins_destroy (&self.pins);
    tier_disk_destroy (&disk);
    return result;
}

void
tier_result_clear (tier_result_t *self)
{
    for (size_t job = 0; job < self->job_count; job++)
        orders_figures_clear (&self->jobs [job].orders);
    free (self->jobs);
    free (self->loads);
    free (self->singles_by_epoch);
    free (self->bytes_by_epoch);
    *self = (tier_result_t) { .load_count = 0 };
}

uint64_t
tier_hash_begin (void)
{
    return 0xcbf29ce484222325u;
}

uint64_t
tier_hash_add (uint64_t hash, uint32_t id)
{
    for (int shift = 0; shift < 32; shift += 8)
        hash = (hash ^ (id >> shift & 0xff)) * 0x100000001b3u;
    return hash;
}
