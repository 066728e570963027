/*  Guards: the caches of store_sim beside a dumb model and their closed forms; orders of epochs; how often
 *  a worker uses a sample; the clock of a loader that reads ahead.
 *
 *  Means of RUNS runs are compared with closed forms, some forty in all: |t| of 19 degrees of freedom
 *  passes 8 less than once in a million times.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bucket_cache.h"
#include "bucket_clock.h"
#include "bucket_draws.h"
#include "bucket_frequency.h"
#include "seed.h"
#include "simulated_mean.h"

enum { RUNS = 20, SPREADS = 8, UNITS_MAX = 12, STEPS = 400, ROUNDS = 60 };

//  slack: what the closed form itself is off, for numbers that are not endless.
static void
s_check_mean (const mean_t *mean, double expected, double slack, const char *what)
{
    double distance = fabs (mean_of (mean) - expected) - slack;
    if (distance > SPREADS * mean_standard_error (mean))
        fail_msg ("%s: %f, expected %f, spread %f", what, mean_of (mean), expected,
            mean_standard_error (mean));
}

//  ---- caches

//  Held units, the first to go at the front.
typedef struct {
    uint32_t units [UNITS_MAX], count;
} model_t;

static void
s_model_drop (model_t *model, uint32_t at)
{
    model->count--;
    memmove (model->units + at, model->units + at + 1, (model->count - at) * sizeof *model->units);
}

static bool
s_model_use (model_t *model, bucket_rule_t rule, uint32_t capacity, uint32_t unit)
{
    for (uint32_t at = 0; at < model->count; at++)
        if (model->units [at] == unit) {
            if (rule == BUCKET_LRU) {
                s_model_drop (model, at);
                model->units [model->count++] = unit;
            }
            return true;
        }
    if (capacity == 0 || (rule == BUCKET_PINNED && model->count == capacity))
        return false;
    if (model->count == capacity)
        s_model_drop (model, 0);
    model->units [model->count++] = unit;
    return false;
}

static void
test_caches_are_their_model (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        bucket_rule_t rule = (bucket_rule_t) (round % 3);
        uint32_t units = 1 + (uint32_t) test_below (&random, UNITS_MAX);
        uint32_t capacity = (uint32_t) test_below (&random, units + 1);
        bucket_cache_t *cache = bucket_cache_new (rule, units, capacity);
        model_t model = { .count = 0 };
        for (int step = 0; step < STEPS; step++) {
            uint32_t unit = (uint32_t) test_below (&random, units);
            bool held = bucket_cache_use (cache, unit);
            if (!held)
                bucket_cache_insert (cache, unit);
            bucket_cache_check (cache);
            bool expected = s_model_use (&model, rule, capacity, unit);
            if (held != expected || bucket_cache_count (cache) != model.count)
                fail_msg ("seed %" PRIu64 ", step %d: unit %u", seed, step, unit);
        }
        bucket_cache_destroy (&cache);
        assert_null (cache);
    }
}

//  The last epoch's misses, as a share of a worker's draws.
static mean_t
s_misses (bucket_cache_plan_t plan)
{
    mean_t mean = { 0 };
    uint32_t misses [8];
    assert_true (plan.epochs <= 8);
    for (uint64_t run = 0; run < RUNS; run++) {
        bucket_cache_run (&plan, test_seed () + run, misses);
        mean_add (&mean, misses [plan.epochs - 1] / (double) (plan.units / plan.workers));
    }
    return mean;
}

static void
test_lru_misses_as_its_formula (void **state)
{
    (void) state;
    for (int tenths = 1; tenths < 10; tenths++) {
        bucket_cache_plan_t plan = {
            .rule = BUCKET_LRU, .units = 8000, .workers = 1, .capacity = (uint32_t) tenths * 800, .epochs = 3
        };
        mean_t mean = s_misses (plan);
        s_check_mean (&mean, bucket_cache_lru_misses (tenths / 10.0), 1e-3, "LRU");
    }
    assert_true (fabs (bucket_cache_lru_misses (0.5) - 0.8466) < 1e-4);
    assert_true (bucket_cache_lru_misses (1) == 0);
}

static void
test_fifo_second_epoch_as_its_formula (void **state)
{
    (void) state;
    for (uint32_t workers = 2; workers < 6; workers++)
        for (int quarters = 1; quarters < 10; quarters++) {
            bucket_cache_plan_t plan = {
                .rule = BUCKET_FIFO, .units = 3000 * workers, .workers = workers,
                .capacity = (uint32_t) quarters * 750, .epochs = 2
            };
            if (plan.capacity > plan.units)
                continue;
            mean_t mean = s_misses (plan);
            s_check_mean (&mean, bucket_cache_second_misses (workers, quarters / 4.0), 1e-3, "FIFO");
        }
    assert_true (fabs (bucket_cache_second_misses (3, 0.25) - .989) < 5e-4);
    assert_true (fabs (bucket_cache_second_misses (3, 0.75) - .887) < 5e-4);
    assert_true (fabs (bucket_cache_second_misses (3, 2) - 2.0 / 3) < 1e-9);
}

//  With one worker a pinned cache misses exactly what it has no room for, and no other rule misses less.
static void
test_pinned_is_the_least (void **state)
{
    (void) state;
    uint32_t misses [4];
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        bucket_cache_plan_t plan = { .workers = 1, .epochs = 4 };
        plan.units = 1 + (uint32_t) test_below (&random, 500);
        plan.capacity = (uint32_t) test_below (&random, plan.units + 1);
        for (plan.rule = BUCKET_FIFO; plan.rule <= BUCKET_PINNED; plan.rule++) {
            bucket_cache_run (&plan, seed, misses);
            assert_int_equal (misses [0], plan.units);
            for (int epoch = 1; epoch < 4; epoch++) {
                assert_in_range (misses [epoch], plan.units - plan.capacity, plan.units);
                if (plan.rule == BUCKET_PINNED)
                    assert_int_equal (misses [epoch], plan.units - plan.capacity);
            }
        }
    }
}

//  ---- orders

static void
test_epoch_has_each_id_once (void **state)
{
    (void) state;
    enum { SAMPLES = 300 };
    bucket_draws_t *draws = bucket_draws_new (SAMPLES, test_seed ());
    for (int epoch = 0; epoch < 20; epoch++) {
        uint8_t tally [SAMPLES] = { 0 };
        const uint32_t *order = bucket_draws_epoch (draws, epoch % 2? SAMPLES: SAMPLES / 3);
        for (uint32_t place = 0; place < SAMPLES; place++)
            assert_int_equal (tally [order [place]]++, 0);
    }
    bucket_draws_destroy (&draws);
    assert_null (draws);
}

//  ---- frequencies

static void
test_expected_uses (void **state)
{
    (void) state;
    //  E = 3, N = 2: more than 1.5 uses are two or three, of eight equally likely courses four.
    assert_true (fabs (bucket_frequency_expected (2, 3, 1000, 0) - 500) < 1e-6);
    //  1.1 x 250 is no whole number in binary, but what is meant is more than 275.
    assert_true (fabs (bucket_frequency_expected (4, 1000, 10000, 0.1) - 323) < 0.5);
    assert_true (fabs (bucket_frequency_expected (16, 90, 1281167, 0.8) - 31635) < 0.5);
    mean_t mean = { 0 };
    for (uint64_t run = 0; run < RUNS; run++)
        mean_add (&mean, bucket_frequency_counted (4, 12, 20000, 0.5, test_seed () + run));
    s_check_mean (&mean, bucket_frequency_expected (4, 12, 20000, 0.5), 0, "counted uses");
}

static void
test_frequent_samples_are_hit_more (void **state)
{
    (void) state;
    assert_true (fabs (bucket_frequency_hits (16, 90, 0.5) - 0.663) < 1e-3);
    static const double shares [] = { 0.1, 0.25, 0.5, 0.8 };
    for (int at = 0; at < 4; at++) {
        double hits = bucket_frequency_hits_counted (4, 400, 20000, shares [at], test_seed ());
        //  The formula is of a normal distribution; counts are whole.
        assert_true (fabs (hits - bucket_frequency_hits (4, 400, shares [at])) < 0.002);
        assert_true (hits > shares [at]);
    }
}

static void
test_order_of_uses (void **state)
{
    (void) state;
    enum { SAMPLES = 500 };
    uint16_t uses [SAMPLES];
    uint32_t order [SAMPLES], used = 0;
    uint64_t random = test_seed ();
    for (uint32_t id = 0; id < SAMPLES; id++)
        used += (uses [id] = (uint16_t) test_below (&random, 7)) > 0;
    assert_int_equal (bucket_frequency_order (uses, SAMPLES, order), used);
    for (uint32_t at = 1; at < used; at++)
        assert_true (uses [order [at - 1]] > uses [order [at]]
            || (uses [order [at - 1]] == uses [order [at]] && order [at - 1] < order [at]));
    assert_true (uses [order [used - 1]] > 0);
}

//  ---- the clock

static double
s_seconds (const bucket_store_t *store, double bytes, double busy, uint32_t ahead, uint32_t units,
    uint32_t every)
{
    bucket_clock_t *clock = bucket_clock_new (store, bytes, busy, ahead);
    for (uint32_t unit = 0; unit < units; unit++)
        bucket_clock_step (clock, unit % every == 0);
    double seconds = bucket_clock_seconds (clock);
    bucket_clock_destroy (&clock);
    assert_null (clock);
    return seconds;
}

static void
test_clock_by_hand (void **state)
{
    (void) state;
    bucket_store_t store = { .latency = 1, .stream = 10, .link = 100, .reads = 1 };
    //  A GET of 10 bytes takes 1 s of latency and 1 s at the stream's speed; the job takes 0.5 s.
    assert_true (fabs (s_seconds (&store, 10, 0.5, 1, 3, 1) - 6.5) < 1e-9);
    //  Four at once: 2 s for all of them, then the job.
    store.reads = 4;
    assert_true (fabs (s_seconds (&store, 10, 0.5, 4, 4, 1) - 4) < 1e-9);
    //  With room for two, the next two begin when the first ones are taken, at 2 and 2.5 s.
    assert_true (fabs (s_seconds (&store, 10, 0.5, 2, 4, 1) - 5) < 1e-9);
    //  A slow link is shared: 10 bytes a second after the first latency.
    store.link = 10;
    assert_true (fabs (s_seconds (&store, 10, 0, 4, 4, 1) - 5) < 1e-9);
    assert_true (fabs (bucket_clock_store_alone (&store, 10) - 2) < 1e-9);
    assert_true (fabs (bucket_clock_store_rate (&store, 10) - 1) < 1e-9);
}

//  Never quicker than the link, the job or the GETs allow; more reads and more room never make it slower.
static void
test_clock_keeps_its_bounds (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        bucket_store_t store = {
            .latency = 0.001 * (double) (1 + test_below (&random, 100)), .stream = 1e6,
            .link = 1e5 * (double) (1 + test_below (&random, 100)),
            .reads = 1 + (uint32_t) test_below (&random, 20)
        };
        double bytes = (double) (1 + test_below (&random, 100000));
        double busy = 1e-4 * (double) test_below (&random, 100);
        uint32_t ahead = 1 + (uint32_t) test_below (&random, 50), units = 500;
        double seconds = s_seconds (&store, bytes, busy, ahead, units, 1);
        double alone = bucket_clock_store_alone (&store, bytes);
        assert_true (seconds > units * busy - 1e-9 && seconds > units * bytes / store.link - 1e-9);
        assert_true (seconds > units * alone / fmin (store.reads, ahead + 1) - 1e-9);
        assert_true (seconds < units * (alone + busy + bytes / store.link) + 1e-9);
        assert_true (s_seconds (&store, bytes, busy, ahead, units, 2) <= seconds + 1e-9);
        assert_true (s_seconds (&store, bytes, busy, ahead + 7, units, 1) <= seconds + 1e-9);
        store.reads++;
        assert_true (s_seconds (&store, bytes, busy, ahead, units, 1) <= seconds + 1e-9);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_caches_are_their_model),
        cmocka_unit_test (test_lru_misses_as_its_formula),
        cmocka_unit_test (test_fifo_second_epoch_as_its_formula),
        cmocka_unit_test (test_pinned_is_the_least),
        cmocka_unit_test (test_epoch_has_each_id_once),
        cmocka_unit_test (test_expected_uses),
        cmocka_unit_test (test_frequent_samples_are_hit_more),
        cmocka_unit_test (test_order_of_uses),
        cmocka_unit_test (test_clock_by_hand),
        cmocka_unit_test (test_clock_keeps_its_bounds)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
