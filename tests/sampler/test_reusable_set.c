/*  Guards: which version each job is offered, whatever came and went, and by which weights it is chosen.
 *
 *  Beside a simple model: an array of all tickets with a row of jobs each, walked from end to end.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "sampler.h"
#include "seed.h"
#include "reusable_set.h"
#include "statistics.h"
#include "strata.h"

enum { WORLDS = EFFORT (80), STEPS = 700, SAMPLES = 90, JOBS = SAMPLER_JOBS_MAX, LEVELS = 16, SHORT = 32 };

//  ------------------------------------------------------------------------------------------------
//  The model

typedef struct {
    uint64_t ticket;            //  0: gone
    uint32_t id;
    bool may [JOBS];
} item_t;

typedef struct {
    uint64_t seed, random;
    strata_t *strata;
    reusable_set_t *reusable;
    size_t places;
    uint32_t jobs;
    item_t items [STEPS];       //  by ticket - 1
    uint64_t newest;
    uint64_t found, missed;
    //  Of the pick at hand.
    uint32_t picker;
    bool suits [SAMPLES];
} world_t;

static size_t
s_takers (const item_t *item)
{
    size_t count = 0;
    for (uint32_t job = 0; job < JOBS; job++)
        count += item->may [job];
    return count;
}

//  From 0; LEVELS: no job may take it.
static size_t
s_level (const item_t *item)
{
    size_t takers = s_takers (item);
    return takers == 0? LEVELS: takers < LEVELS? takers - 1: LEVELS - 1;
}

//  The reusable set may ask about a sample only if it is one that the job may take.
static bool
s_suits (const void *context, uint32_t id)
{
    const world_t *self = context;
    for (uint64_t ticket = 1; ticket <= self->newest; ticket++) {
        const item_t *item = &self->items [ticket - 1];
        if (item->ticket && item->id == id && item->may [self->picker])
            return self->suits [id];
    }
    fail_msg ("seed %" PRIu64 ": job %u may not take id %u", self->seed, self->picker, id);
    return false;
}

//  What a pick may find, by level, and how long that level's list is.
typedef struct { size_t fitting [LEVELS + 1], listed [LEVELS + 1]; } chances_t;

static chances_t
s_chances (const world_t *self, uint32_t stratum)
{
    chances_t chances = { { 0 }, { 0 } };
    for (uint64_t ticket = 1; ticket <= self->newest; ticket++) {
        const item_t *item = &self->items [ticket - 1];
        if (!item->ticket || strata_of (self->strata, item->id) != stratum)
            continue;
        size_t level = s_level (item);
        chances.listed [level]++;
        chances.fitting [level] += item->may [self->picker] && self->suits [item->id];
    }
    return chances;
}

//  ------------------------------------------------------------------------------------------------
//  What happens

//  One that is there or has gone, or none.
static uint64_t
s_any_ticket (world_t *self)
{
    uint64_t back = test_below (&self->random, 4) == 0? self->newest: 2 * self->places;
    uint64_t least = self->newest > back? self->newest - back: 0;
    return least + test_below (&self->random, self->newest - least + 1);
}

//  Mostly low numbers, which meet; now and then any.
static uint32_t
s_any_job (world_t *self)
{
    return (uint32_t) test_below (&self->random, test_below (&self->random, 10)? self->jobs: JOBS);
}

static void
s_add (world_t *self)
{
    uint32_t id = (uint32_t) test_below (&self->random, SAMPLES);
    uint64_t ticket = reusable_set_add (self->reusable, id);
    assert_int_equal (ticket, ++self->newest);
    self->items [ticket - 1] = (item_t) { .ticket = ticket, .id = id };
    if (ticket > self->places)
        self->items [ticket - self->places - 1].ticket = 0;
    for (uint32_t job = 0; job < self->jobs; job++)
        if (test_below (&self->random, 3)) {
            self->items [ticket - 1].may [job] = true;
            reusable_set_allow (self->reusable, ticket, job);
        }
}

static void
s_remove (world_t *self)
{
    uint64_t ticket = s_any_ticket (self);
    if (ticket)
        self->items [ticket - 1].ticket = 0;
    reusable_set_remove (self->reusable, ticket);
}

static void
s_remove_until (world_t *self)
{
    uint64_t ticket = s_any_ticket (self);
    for (uint64_t old = 1; old <= ticket; old++)
        self->items [old - 1].ticket = 0;
    reusable_set_remove_until (self->reusable, ticket);
}

static void
s_change (world_t *self)
{
    uint64_t ticket = s_any_ticket (self);
    uint32_t job = s_any_job (self);
    bool may = test_below (&self->random, 2);
    if (ticket)
        self->items [ticket - 1].may [job] = may;
    if (may)
        reusable_set_allow (self->reusable, ticket, job);
    else
        reusable_set_forbid (self->reusable, ticket, job);
}

//  A job of the strata comes; or all that came leave, and nothing tells samples apart any more.
static void
s_restratify (world_t *self, uint32_t *strata_jobs)
{
    if (*strata_jobs < 5) {
        roaring_bitmap_t *data = roaring_bitmap_create ();
        for (uint32_t id = 0; id < SAMPLES; id++)
            if (test_below (&self->random, 2))
                roaring_bitmap_add (data, id);
        assert_true (strata_refine (self->strata, (*strata_jobs)++, data));
        roaring_bitmap_free (data);
    }
    else {
        while (*strata_jobs > 0)
            strata_depart (self->strata, --*strata_jobs, NULL, 0);
        strata_merge (self->strata);
        assert_int_equal (strata_count (self->strata), 1);
    }
    reusable_set_restratify (self->reusable);
}

//  What is found may be taken and suits; and it is found, if a list that is looked through from end to end
//  has it.
static void
s_pick (world_t *self)
{
    uint32_t stratum = strata_of (self->strata, (uint32_t) test_below (&self->random, SAMPLES));
    uint64_t suiting = 1 + test_below (&self->random, 8);
    self->picker = s_any_job (self);
    for (uint32_t id = 0; id < SAMPLES; id++)
        self->suits [id] = test_below (&self->random, suiting) == 0;
    random_t random = random_from_seed (self->random);
    uint32_t id = reusable_set_pick (self->reusable, stratum, self->picker, &random, s_suits, self);
    chances_t chances = s_chances (self, stratum);
    bool any = false, sure = false;
    for (size_t level = 0; level < LEVELS; level++) {
        any |= chances.fitting [level] > 0;
        sure |= chances.fitting [level] > 0 && chances.listed [level] <= SHORT;
    }
    if (id == REUSABLE_SET_NO_ID? sure: !any || id >= SAMPLES || strata_of (self->strata, id) != stratum
            || !s_suits (self, id))
        fail_msg ("seed %" PRIu64 ": job %u got id %u", self->seed, self->picker, id);
    self->found += id != REUSABLE_SET_NO_ID;
    self->missed += id == REUSABLE_SET_NO_ID && any;
}

//  ------------------------------------------------------------------------------------------------
//  Schedules

static void
s_step (world_t *self, uint32_t *strata_jobs)
{
    uint64_t what = test_below (&self->random, 400);
    if (what < 120)
        s_add (self);
    else
    if (what < 130)
        s_remove (self);
    else
    if (what < 131)
        s_remove_until (self);
    else
    if (what < 135)
        s_restratify (self, strata_jobs);
    else
    if (what < 280)
        s_change (self);
    else
        s_pick (self);
    assert_int_equal (reusable_set_newest (self->reusable), self->newest);
}

static void
s_new_world (world_t *self, uint64_t seed)
{
    static const size_t s_places [] = { 1, 2, 7, 64, 300 };
    static const uint32_t s_jobs [] = { 1, 3, 8, 20 };
    memset (self, 0, sizeof *self);
    self->seed = self->random = seed;
    self->places = s_places [test_below (&self->random, 5)];
    self->jobs = s_jobs [test_below (&self->random, 4)];
    self->strata = strata_new (SAMPLES);
    self->reusable = reusable_set_new (self->places, self->strata);
}

//  All operations at random: stale tickets, a ring that wraps around, high job numbers, strata that change.
static void
test_reusable_and_its_model_agree (void **state)
{
    (void) state;
    static world_t self;                        //  too large for a stack
    uint64_t found = 0, missed = 0;
    for (uint64_t seed = test_seed (), n = 0; n < WORLDS; n++, seed++) {
        s_new_world (&self, seed);
        uint32_t strata_jobs = 0;
        for (int step = 0; step < STEPS; step++) {
            s_step (&self, &strata_jobs);
            reusable_set_check (self.reusable);
        }
        found += self.found;
        missed += self.missed;
        reusable_set_destroy (&self.reusable);
        assert_null (self.reusable);
        strata_destroy (&self.strata);
    }
    assert_true (found > 20 * WORLDS && missed * 20 < found);
}

//  Masks grow when a job number is high, with all that they hold: each of the numbers is told from the
//  others.
static void
test_every_job_number (void **state)
{
    (void) state;
    static world_t self;
    memset (&self, 0, sizeof self);
    self.strata = strata_new (SAMPLES);
    self.places = SAMPLES;
    self.reusable = reusable_set_new (self.places, self.strata);
    for (uint32_t job = 0; job < JOBS; job++) {
        uint64_t ticket = reusable_set_add (self.reusable, job % SAMPLES);
        reusable_set_allow (self.reusable, ticket, job);
        reusable_set_allow (self.reusable, ticket, (job * 67 + 5) % JOBS);
        reusable_set_check (self.reusable);
        self.newest = ticket;
        self.items [ticket - 1] = (item_t) { .ticket = ticket, .id = job % SAMPLES };
        self.items [ticket - 1].may [job] = self.items [ticket - 1].may [(job * 67 + 5) % JOBS] = true;
        if (ticket > self.places)
            self.items [ticket - self.places - 1].ticket = 0;
        memset (self.suits, true, sizeof self.suits);
        random_t random = random_from_seed (job);
        for (self.picker = 0; self.picker < JOBS; self.picker++) {
            chances_t chances = s_chances (&self, 0);
            bool any = chances.fitting [0] + chances.fitting [1] > 0;
            bool found = reusable_set_pick (self.reusable, 0, self.picker, &random, s_suits, &self)
                != REUSABLE_SET_NO_ID;
            assert_true (found == any || (!found && chances.listed [0] + chances.listed [1] > SHORT));
        }
    }
    reusable_set_destroy (&self.reusable);
    strata_destroy (&self.strata);
}

//  ------------------------------------------------------------------------------------------------
//  Weights

enum { PICKS = 40000, CELLS = 200 };

typedef struct { uint64_t counts [CELLS]; double weights [CELLS]; } picks_t;

static bool
s_below_cells (const void *context, uint32_t id)
{
    (void) context;
    return id < CELLS;
}

//  z of PICKS by job 0: each id that has a weight comes as often as its weight says.
static double
s_z_of_picks (const reusable_set_t *reusable, picks_t *picks, uint64_t seed)
{
    random_t random = random_from_seed (seed);
    double sum = 0, chi_square = 0;
    size_t cells = 0;
    for (int pick = 0; pick < PICKS; pick++) {
        uint32_t id = reusable_set_pick (reusable, 0, 0, &random, s_below_cells, NULL);
        if (id >= CELLS || picks->weights [id] == 0)
            fail_msg ("seed %" PRIu64 ": job 0 got id %u", seed, id);
        picks->counts [id]++;
    }
    for (size_t id = 0; id < CELLS; id++)
        sum += picks->weights [id];
    for (size_t id = 0; id < CELLS; id++) {
        if (picks->weights [id] == 0)
            continue;
        double expected = PICKS * picks->weights [id] / sum;
        chi_square += ((double) picks->counts [id] - expected) * ((double) picks->counts [id]
            - expected) / expected;
        cells++;
    }
    return statistics_z_of_chi_square (chi_square, (double) cells - 1);
}

//  Adds a version of id that the jobs of a mask may take.
static void
s_add_for (reusable_set_t *reusable, uint32_t id, uint32_t mask)
{
    uint64_t ticket = reusable_set_add (reusable, id);
    for (uint32_t job = 0; job < 32; job++)
        if (mask >> job & 1)
            reusable_set_allow (reusable, ticket, job);
}

//  One level: `fitting` ids for job 0, among others that it may not take, or that do not suit.
static void
s_one_level (reusable_set_t *reusable, picks_t *picks, uint32_t fitting, uint32_t others)
{
    for (uint32_t id = 0; id < fitting; id++) {
        s_add_for (reusable, id, 3);
        picks->weights [id] = 1;
        if (id < others) {
            s_add_for (reusable, id, 6);
            s_add_for (reusable, CELLS + id, 5);
        }
    }
}

//  Jobs that are alike: each set of `jobs` jobs may take `each` versions.  So a further taker makes one
//  REUSABLE_SET_PREFERENCE times less likely.
static void
s_alike (reusable_set_t *reusable, picks_t *picks, uint32_t jobs, uint32_t each)
{
    uint32_t id = 0;
    for (uint32_t mask = 1; mask < UINT32_C (1) << jobs; mask++)
        for (uint32_t version = 0; version < each; version++) {
            if (mask & 1) {
                picks->weights [id] = pow (REUSABLE_SET_PREFERENCE, 1 - __builtin_popcount (mask));
                s_add_for (reusable, id++, mask);
            }
            else
                s_add_for (reusable, 2 * CELLS, mask);
        }
}

//  Where no version is at a low level, the high ones are alike: 16 takers and more.
static void
s_high_levels (reusable_set_t *reusable, picks_t *picks)
{
    for (uint32_t id = 0; id < 30; id++) {
        s_add_for (reusable, id, (UINT32_C (1) << (16 + id % 10)) - 1);
        picks->weights [id] = 1;
    }
    for (uint32_t id = 30; id < 35; id++) {
        s_add_for (reusable, id, (1 << 15) - 1);                            //  15: a level below, and as many
                                                                           //  lists
        picks->weights [id] = REUSABLE_SET_PREFERENCE * 15 / 16.0;
    }
}

//  Within a level all are equally likely, whether its list is short or long; between levels by weight.
static void
test_choice_is_by_weight_and_else_uniform (void **state)
{
    (void) state;
    enum { CASES = 7 };
    for (int n = 0; n < CASES; n++) {
        strata_t *strata = strata_new (3 * CELLS);
        reusable_set_t *reusable = reusable_set_new (1000, strata);
        picks_t picks = { { 0 }, { 0 } };
        switch (n) {
        case 0: s_one_level (reusable, &picks, 6, 6); break;                //  18 in the list: short
        case 1: s_one_level (reusable, &picks, 12, 10); break;              //  32: just so
        case 2: s_one_level (reusable, &picks, 150, 30); break;             //  210: long
        case 3: s_alike (reusable, &picks, 3, 4); break;
        case 4: s_alike (reusable, &picks, 4, 4); break;
        case 5: s_alike (reusable, &picks, 3, 40); break;
        default: s_high_levels (reusable, &picks);
        }
        reusable_set_check (reusable);
        double z = s_z_of_picks (reusable, &picks, test_seed () + (uint64_t) n);
        if (z > statistics_z_limit (CASES))
            fail_msg ("seed %" PRIu64 ": case %d: z = %f", test_seed (), n, z);
        reusable_set_destroy (&reusable);
        strata_destroy (&strata);
    }
}

//  ------------------------------------------------------------------------------------------------
//  In follow

typedef struct { sampler_t *sampler; uint32_t stays, leaves; } pair_t;

//  A job with all 1024 samples, and one with the first half.
static pair_t
s_pair (void)
{
    pair_t pair = { .sampler = sampler_new (1024, SAMPLER_POLICY_FOLLOW, test_seed ()) };
    roaring_bitmap_t *all = roaring_bitmap_from_range (0, 1024, 1),
        *half = roaring_bitmap_from_range (0, 512, 1);
    pair.stays = sampler_join (pair.sampler,
        &(sampler_join_t) { .order = SAMPLER_ORDER_SHARED, .data = all });
    pair.leaves = sampler_join (pair.sampler,
        &(sampler_join_t) { .order = SAMPLER_ORDER_SHARED, .data = half });
    roaring_bitmap_free (all);
    roaring_bitmap_free (half);
    return pair;
}

static uint32_t
s_draw (pair_t *pair)
{
    sampler_offer_t offer;
    sampler_round_begin (pair->sampler, &pair->stays, 1);
    assert_true (sampler_offer (pair->sampler, &offer));
    uint32_t id = sampler_pick (pair->sampler);
    sampler_commit (pair->sampler, id);
    assert_false (sampler_offer (pair->sampler, &offer));
    return id;
}

//  A job that shares its samples with no other does not look at the reusable set.
static void
s_give_company (pair_t *pair)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (0, 1024, 1);
    sampler_join_t join = { .order = SAMPLER_ORDER_SHARED, .data = data };
    assert_true (sampler_join (pair->sampler, &join) != SAMPLER_JOB_NONE);
    roaring_bitmap_free (data);
}

//  The reusable set is empty when strata are merged at last: of versions of before the departure, which lie
//  in strata that are there no more, and of those after it.
static void
test_a_merge_clears_the_reusable (void **state)
{
    (void) state;
    pair_t pair = s_pair ();
    uint64_t tickets [600];
    for (uint32_t id = 0; id < 600; id += 3) {
        tickets [id] = sampler_reusable_add (pair.sampler, id);
        sampler_allow (pair.sampler, tickets [id], pair.stays);
    }
    sampler_leave (pair.sampler, pair.leaves);
    uint64_t late = sampler_reusable_add (pair.sampler, 301);
    sampler_allow (pair.sampler, late, pair.stays);
    for (int epoch = 0; epoch < STRATA_EPOCHS_KEPT; epoch++) {
        sampler_epoch_begin (pair.sampler, pair.stays);
        sampler_check (pair.sampler);
    }
    sampler_allow (pair.sampler, tickets [3], pair.stays);  //  forgotten, both
    sampler_allow (pair.sampler, late, pair.stays);
    sampler_check (pair.sampler);
    uint64_t young = sampler_reusable_add (pair.sampler, 777);
    sampler_allow (pair.sampler, young, pair.stays);
    s_give_company (&pair);
    assert_int_equal (s_draw (&pair), 777);                 //  all that is on the reusable set, in one
                                                            //  stratum now
    sampler_forbid (pair.sampler, young, pair.stays);
    sampler_check (pair.sampler);
    sampler_destroy (&pair.sampler);
}

//  ------------------------------------------------------------------------------------------------

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_reusable_and_its_model_agree),
        cmocka_unit_test (test_every_job_number),
        cmocka_unit_test (test_choice_is_by_weight_and_else_uniform),
        cmocka_unit_test (test_a_merge_clears_the_reusable),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
