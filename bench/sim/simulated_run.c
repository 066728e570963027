#include "simulated_run.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "random.h"
#include "sampler.h"
#include "simulated_memory.h"
#include "simulated_workers.h"
#include "version_index.h"

_Static_assert ((int) SIMULATED_JOBS_MAX <= (int) SAMPLER_JOBS_MAX, "all jobs may be there at once");

//  How many ticks a worker takes for an ordinary sample, where preparing takes time; and the parts of a tick
//  that are told apart.
enum { PREPARE_TICKS = 8, TICK_PARTS = 1024 };

typedef enum { PLAYER_COMING, PLAYER_HERE, PLAYER_DRAWN, PLAYER_GONE } player_state_t;

//  A job.
typedef struct {
    consumer_t consumer;
    const simulated_job_t *plan;
    orders_record_t *record;
    player_state_t state;
    version_set_t *kind;        //  of a job that shares no versions
    uint64_t seed;
    double start, leave;        //  ticks
    uint32_t from, to;          //  its data, if they are no list
    uint32_t *places;           //  of each sample in its list; NULL: it has none
    uint32_t epoch;             //  being drawn
    uint64_t drawn, consumed, released;
    //  consuming, one after the other
    uint32_t epoch_place;       //  of the next sample in the epoch that is being consumed
    bool consuming;
    double done;                //  when the sample that is being consumed will be, or the last one was
    double sample_time;         //  in the present batch
    double *ready;              //  by drawn % window: when the sample is prepared; NULL: at once
} player_t;

typedef struct {
    const simulated_plan_t *plan;
    const uint8_t *slow;        //  lent; NULL: preparing takes no time
    random_t random;
    sampler_t *sampler;
    version_index_t *version_index;
    version_set_t *kind;        //  of all jobs that share versions; NULL: no job is here
    simulated_workers_t *workers;
    player_t *players;
    player_t *by_number [SAMPLER_JOBS_MAX];
    simulated_stay_t *stays;
    double now;                 //  ticks, whole
    uint64_t preparations, deliveries;
    uint64_t settled_preparations, settled_deliveries;
} simulation_t;

//  ---- coming and going

static sampler_policy_t
s_sampler_policy (simulated_policy_t policy)
{
    return policy == SIMULATED_FOLLOW? SAMPLER_POLICY_FOLLOW:
        policy == SIMULATED_RESIDENT? SAMPLER_POLICY_RESIDENT: SAMPLER_POLICY_DSA;
}

static sampler_order_t
s_sampler_order (simulated_policy_t policy)
{
    return policy == SIMULATED_SEEDED? SAMPLER_ORDER_SEEDED:
        policy == SIMULATED_INDEPENDENT? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_SHARED;
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
    roaring_bitmap_t *data = player->plan->ids?
        roaring_bitmap_of_ptr (player->plan->id_count, player->plan->ids):
        roaring_bitmap_from_range (player->from, player->to, 1);
    assert (data);
    sampler_join_t join = { .order = s_sampler_order (self->plan->policy), .data = data,
        .seed = player->seed };
    bool apart = self->plan->policy == SIMULATED_SEEDED;
    version_set_t **kind_p = apart? &player->kind: &self->kind;
    if (!*kind_p)
        *kind_p = version_set_new (self->version_index, self->sampler, 1, !self->plan->is_deterministic,
            kind_p);
    player->consumer = (consumer_t) {
        .kind = *kind_p, .sampler_job = sampler_join (self->sampler, &join), .numbers = apart
    };
    assert (player->consumer.sampler_job != SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
    version_index_join (self->version_index, &player->consumer);
    self->by_number [player->consumer.sampler_job] = player;
    player->state = PLAYER_HERE;
    player->done = player->start;
}

static void
s_leave (simulation_t *self, player_t *player, double at)
{
    version_index_leave (self->version_index, &player->consumer);
    sampler_leave (self->sampler, player->consumer.sampler_job);
    self->by_number [player->consumer.sampler_job] = NULL;
    player->state = PLAYER_GONE;
    self->stays [player - self->players] = (simulated_stay_t) {
        .from = player->start, .to = at, .deliveries = (double) player->drawn
    };
    free (player->ready);
    player->ready = NULL;
}

//  Jobs leave and join before any draw of this time.  True: a job joined.
static bool
s_admit (simulation_t *self)
{
    bool came = false;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        player_t *player = &self->players [job];
        if (player->state == PLAYER_GONE)
            continue;
        if (player->leave <= self->now) {
            if (player->state == PLAYER_COMING)
                player->state = PLAYER_GONE;
            else
                s_leave (self, player, self->now);
        }
        else
        if (player->state == PLAYER_COMING && player->start <= self->now) {
            s_join (self, player);
            came = true;
        }
    }
    return came;
}

static void
s_dismiss (simulation_t *self)
{
    for (size_t job = 0; job < self->plan->job_count; job++) {
        player_t *player = &self->players [job];
        if (player->state == PLAYER_DRAWN && player->consumed == player->drawn)
            s_leave (self, player, player->done);
    }
}

//  ---- consuming

//  How long each sample of the batch that begins takes.
static double
s_sample_time (simulation_t *self, const player_t *player)
{
    if (self->plan->jitter == 0)
        return 1 / player->plan->speed;
    double even = 2 * random_real (&self->random) - 1;
    return (1 + self->plan->jitter * even) / player->plan->speed;
}

//  A job goes on where it was: a draw that had to wait for the next tick does not delay it, a sample that is
//  not ready does.
static void
s_consume_next (simulation_t *self, player_t *player)
{
    uint32_t window = self->plan->window;
    if (window == 1 || player->epoch_place % self->plan->batch == 0)
        player->sample_time = s_sample_time (self, player);
    if (player->consumed == 0)
        player->done += player->plan->late / player->plan->speed;
    if (player->ready)
        player->done = fmax (player->done, player->ready [player->consumed % window]);
    player->done += player->sample_time;
    player->consuming = true;
}

//  Consumes what can have been consumed by now.  True: there is more credit.
static bool
s_consume (simulation_t *self, player_t *player)
{
    uint64_t released = player->released;
    for (;;) {
        if (!player->consuming && player->consumed < player->drawn)
            s_consume_next (self, player);
        if (!player->consuming || player->done > self->now)
            return player->released != released;
        player->consuming = false;
        player->consumed++;
        player->epoch_place++;
        bool ends_epoch = player->epoch_place == player->to - player->from;
        if (self->plan->window == 1 || player->epoch_place % self->plan->batch == 0 || ends_epoch)
            player->released = player->consumed;
        if (ends_epoch)
            player->epoch_place = 0;
    }
}

static bool
s_consume_all (simulation_t *self)
{
    bool credit = false;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        player_t *player = &self->players [job];
        if (player->state == PLAYER_HERE || player->state == PLAYER_DRAWN)
            credit = s_consume (self, player) || credit;
    }
    return credit;
}

//  ---- drawing

//  When the version is prepared; workers take what is scheduled in that order.  Kept, in parts of a tick,
//  where the broker keeps the rows that wait for a version.
static double
s_ready_time (simulation_t *self, version_t *version)
{
    if (!version->waiting) {
        double duration = PREPARE_TICKS * (self->slow [version->id]? self->plan->slow_factor: 1);
        double finish = simulated_workers_finish (self->workers, self->now, duration);
        version->waiting = (void *) (uintptr_t) (finish * TICK_PARTS);
    }
    return (double) (uintptr_t) version->waiting / TICK_PARTS;
}

static void
s_draw (simulation_t *self, const sampler_offer_t *offer)
{
    consumer_t *consumers [SAMPLER_JOBS_MAX];
    version_t *versions [SAMPLER_JOBS_MAX];
    uint32_t numbers [SAMPLER_JOBS_MAX];
    size_t count = offer->job_count;
    for (size_t index = 0; index < count; index++) {
        numbers [index] = offer->jobs [index];
        consumers [index] = &self->by_number [numbers [index]]->consumer;
    }
    uint32_t id = sampler_pick (self->sampler);
    version_index_draw (self->version_index, consumers, count, id, versions, &self->preparations);
    self->deliveries += count;
    for (size_t index = 0; index < count; index++) {
        player_t *player = self->by_number [numbers [index]];
        if (player->ready)
            player->ready [player->drawn % self->plan->window] = s_ready_time (self, versions [index]);
        prepared_unpin (version_index_prepared (self->version_index), versions [index]);
        orders_record_deliver (player->record, player->places? player->places [id]: id);
        player->drawn++;
    }
}

static void
s_after_draw (simulation_t *self, player_t *player)
{
    if (sampler_remaining (self->sampler, player->consumer.sampler_job) > 0)
        return;
    orders_record_epoch_end (player->record);
    if (++player->epoch == player->plan->epochs) {
        player->state = PLAYER_DRAWN;
        return;
    }
    player->consumer.number = player->epoch;
    version_index_epoch_begin (self->version_index, &player->consumer);
}

static uint32_t
s_window (const simulation_t *self, const player_t *player)
{
    return (uint32_t) version_index_window (self->plan->window,
        player->consumer.follows || player->consumer.has_passes, self->plan->batch, player->released);
}

//  Below a whole batch nothing may ever be released, so a small window is filled up to that.
static bool
s_needs_draw (const simulation_t *self, const player_t *player)
{
    uint32_t window = s_window (self, player), batch = self->plan->batch;
    uint32_t least = window == 1? 1: window < 2 * batch? batch: window - batch;
    return player->drawn - player->released < least;
}

//  One sample for every job of the group that has room, if any needs one.  False: none does.
static bool
s_round (simulation_t *self, const uint32_t *members, size_t count)
{
    uint32_t takers [SAMPLER_JOBS_MAX];
    size_t taker_count = 0;
    bool needed = false;
    for (size_t index = 0; index < count; index++) {
        const player_t *player = self->by_number [members [index]];
        if (player->state != PLAYER_HERE || player->drawn - player->released >= s_window (self, player))
            continue;
        takers [taker_count++] = members [index];
        needed = needed || s_needs_draw (self, player);
    }
    if (!needed)
        return false;
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, takers, taker_count);
    while (sampler_offer (self->sampler, &offer))
        s_draw (self, &offer);
    for (size_t index = 0; index < taker_count; index++)
        s_after_draw (self, self->by_number [takers [index]]);
    return true;
}

static void
s_rounds (simulation_t *self)
{
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        size_t count;
        const uint32_t *members = sampler_group (self->sampler, group, &count);
        while (s_round (self, members, count))
            ;
    }
}

//  ---- the clock

//  The next tick with a job present.  False: all have gone.
static bool
s_advance (simulation_t *self)
{
    double next = INFINITY;
    for (size_t job = 0; job < self->plan->job_count; job++) {
        const player_t *player = &self->players [job];
        double at = player->state == PLAYER_COMING? fmax (player->start, self->now + 1):
            player->state == PLAYER_GONE? INFINITY: self->now + 1;
        next = at < next? at: next;
    }
    self->now = next;
    return next != INFINITY;
}

//  Every job is in its second epoch or a later one.
static bool
s_is_settled (const simulation_t *self)
{
    for (size_t job = 0; job < self->plan->job_count; job++)
        if (self->players [job].state != PLAYER_HERE || self->players [job].epoch == 0)
            return false;
    return true;
}

static void
s_play (simulation_t *self)
{
    self->now = -1;
    while (s_advance (self)) {
        uint64_t preparations = self->preparations, deliveries = self->deliveries;
        bool due = s_admit (self);
        due = s_consume_all (self) || due;
        //  A short step may end within the tick in which its sample was drawn.
        while (due) {
            s_rounds (self);
            due = s_consume_all (self);
        }
        s_dismiss (self);
        if (s_is_settled (self)) {
            self->settled_preparations += self->preparations - preparations;
            self->settled_deliveries += self->deliveries - deliveries;
        }
    }
}

//  ---- a run

static void
s_set_up (simulation_t *self, uint64_t seed, orders_record_t *const *records, size_t workers)
{
    const simulated_plan_t *plan = self->plan;
    self->random = random_from_seed (seed);
    self->sampler = sampler_new (plan->samples, s_sampler_policy (plan->policy), random_next (&self->random));
    self->version_index = version_index_new (plan->cache, random_next (&self->random));
    version_index_on_kind_end (self->version_index, s_kind_ended, NULL);
    self->players = simulated_alloc (plan->job_count, sizeof *self->players);
    self->stays = simulated_alloc (plan->job_count, sizeof *self->stays);
    if (workers > 0)
        self->workers = simulated_workers_new (workers);
    for (size_t job = 0; job < plan->job_count; job++) {
        player_t *player = &self->players [job];
        *player = (player_t) {
            .plan = &plan->jobs [job], .record = records [job], .seed = random_next (&self->random),
            .start = round (plan->jobs [job].start * plan->samples),
            .leave = round (plan->jobs [job].leave * plan->samples)
        };
        simulated_data (plan, job, &player->from, &player->to);
        player->places = simulated_places (plan, job);
        if (workers > 0)
            player->ready = simulated_alloc (plan->window, sizeof *player->ready);
    }
}

static void
s_tear_down (simulation_t *self)
{
    for (size_t job = 0; job < self->plan->job_count; job++) {
        const player_t *player = &self->players [job];
        if (player->epoch < player->plan->epochs && player->leave == INFINITY)
            orders_record_fail (player->record);
        free (player->ready);
        free (player->places);
    }
    version_index_destroy (&self->version_index);
    sampler_destroy (&self->sampler);
    simulated_workers_destroy (&self->workers);
    free (self->players);
    free (self->stays);
}

static void
s_run_sampler (const simulated_plan_t *plan, uint64_t seed, const uint8_t *slow,
    orders_record_t *const *records, size_t workers, simulated_result_t *result)
{
    simulation_t self = { .plan = plan, .slow = slow };
    s_set_up (&self, seed, records, workers);
    s_play (&self);
    mean_add (&result->preparations, (double) self.preparations);
    mean_add (&result->deliveries, (double) self.deliveries);
    mean_add (&result->needed, simulated_needed (plan, self.stays));
    mean_add (&result->settled_preparations, (double) self.settled_preparations);
    mean_add (&result->settled_deliveries, (double) self.settled_deliveries);
    s_tear_down (&self);
}

//  The most samples that the jobs consume in a tick, all together.
static double
s_peak_pace (const simulated_plan_t *plan)
{
    double peak = 0;
    for (size_t first = 0; first < plan->job_count; first++) {
        double pace = 0, at = plan->jobs [first].start;
        for (size_t job = 0; job < plan->job_count; job++) {
            const simulated_job_t *other = &plan->jobs [job];
            double share = other->ids? (double) other->id_count / plan->samples: other->to - other->from;
            double end = other->start + other->epochs * share / other->speed;
            if (other->start <= at && at < fmin (end, other->leave))
                pace += other->speed;
        }
        peak = fmax (peak, pace);
    }
    return peak;
}

//  As many workers as just keep up with what the same run needs when preparing takes no time.
static size_t
s_count_workers (const simulated_plan_t *plan, uint64_t seed)
{
    simulated_plan_t at_once = *plan;
    at_once.slow_fraction = at_once.slow_factor = 0;
    simulated_result_t result = simulated_run (&at_once, seed, NULL);
    double deliveries = mean_of (&result.deliveries);
    double share = deliveries > 0? mean_of (&result.preparations) / deliveries: 1;  //  0: all left at once
    simulated_result_clear (&result);
    double duration = PREPARE_TICKS * (1 + plan->slow_fraction * (plan->slow_factor - 1));
    size_t workers = (size_t) ceil (s_peak_pace (plan) * share * duration);
    return workers > 0? workers: 1;
}

simulated_result_t
simulated_run (const simulated_plan_t *plan, uint64_t seed, _Atomic uint32_t *const *bins)
{
    assert (plan->job_count > 0 && plan->job_count <= SIMULATED_JOBS_MAX);
    assert (plan->window == 1 || plan->window >= plan->batch);
    simulated_result_t result = { .job_count = 0 };
    bool takes_time = plan->slow_factor > 0 && plan->policy != SIMULATED_LOCKSTEP;
    size_t piece_count, workers = takes_time? s_count_workers (plan, seed): 0;
    orders_stratum_t *pieces = simulated_strata (plan, &piece_count);
    uint8_t *slow = simulated_slow_samples (plan);
    orders_record_t **records = simulated_records (plan, slow, pieces, piece_count, bins);
    if (plan->policy == SIMULATED_LOCKSTEP)
        simulated_lockstep (plan, seed, records, &result);
    else
        s_run_sampler (plan, seed, slow, records, workers, &result);
    simulated_collect (&result, records, plan->job_count);
    free (slow);
    free (pieces);
    return result;
}
