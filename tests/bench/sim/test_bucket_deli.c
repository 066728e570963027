/*  Guards: DELI in store_sim: small runs by hand, what it never does whatever its parameters, its cost
 *  model.  */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

#include "bucket_cache.h"
#include "bucket_deli.h"
#include "seed.h"

enum { ROUNDS = 100, EPOCHS = 3 };

static bool
s_near (double value, double expected)
{
    return fabs (value - expected) < 1e-9 * fmax (1, fabs (expected));
}

//  Without prefetching, every sample of the first epoch costs a GET; what is missed is kept.
static void
test_no_prefetching_by_hand (void **state)
{
    (void) state;
    bucket_deli_plan_t plan = {
        .samples = 4, .workers = 1, .cache = 4, .batch = 2, .get_seconds = 1, .gets_per_second = 1,
        .hit_seconds = 0.25, .compute_seconds = 0.5, .epochs = 2
    };
    bucket_deli_epoch_t epochs [2];
    bucket_deli_run (&plan, test_seed (), epochs);
    assert_int_equal (epochs [0].misses, 4);
    assert_int_equal (epochs [0].posts, 0);
    assert_true (s_near (epochs [0].loading, 4) && s_near (epochs [0].seconds, 6));
    assert_int_equal (epochs [1].misses, 0);
    assert_int_equal (epochs [1].gets, 0);
    assert_true (s_near (epochs [1].loading, 1) && s_near (epochs [1].seconds, 3));
}

//  One post of four at four GETs a second comes after a second: two samples are missed before, at 0 and 0.6
//  s.
static void
test_prefetching_by_hand (void **state)
{
    (void) state;
    bucket_deli_plan_t plan = {
        .samples = 4, .workers = 1, .fetch = 4, .cache = 4, .batch = 4, .get_seconds = 0.6,
        .gets_per_second = 4, .epochs = 2
    };
    bucket_deli_epoch_t epochs [2];
    bucket_deli_run (&plan, test_seed (), epochs);
    assert_int_equal (epochs [0].posts, 1);
    assert_int_equal (epochs [0].misses, 2);
    assert_int_equal (epochs [0].gets, 6);
    assert_true (s_near (epochs [0].seconds, 1.2));
    //  All is cached now, and nothing is fetched.
    assert_int_equal (epochs [1].misses, 0);
    assert_int_equal (epochs [1].gets, 0);
    //  With threshold 2 and posts of two, two posts go out at the begin and share the service: both come
    //  after a second.
    plan.fetch = plan.threshold = 2;
    plan.epochs = 1;
    bucket_deli_run (&plan, test_seed (), epochs);
    assert_int_equal (epochs [0].posts, 2);
    assert_int_equal (epochs [0].misses, 2);
    //  Where loader and service share, a GET of the loader takes 1.2 s while the service is busy, and
    //  delays it by 0.25 s: the second sample is there after it.
    plan.is_shared = true;
    bucket_deli_run (&plan, test_seed (), epochs);
    assert_int_equal (epochs [0].misses, 2);
    assert_true (s_near (epochs [0].seconds, 1.2 + 1.2));
}

//  A cache that holds everything, and a service that takes no time: only an epoch's first sample can be
//  missed.
static void
test_instant_service_misses_nothing (void **state)
{
    (void) state;
    bucket_deli_plan_t plan = {
        .samples = 3000, .workers = 3, .fetch = 50, .threshold = 50, .cache = 3000, .batch = 10,
        .get_seconds = 1e-9, .gets_per_second = 1e15, .hit_seconds = 1e-6, .epochs = EPOCHS
    };
    bucket_deli_epoch_t epochs [EPOCHS];
    bucket_deli_run (&plan, test_seed (), epochs);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        assert_in_range (epochs [epoch].misses, 0, 1);
}

static bucket_deli_plan_t
s_random_plan (uint64_t seed)
{
    uint64_t random = seed;
    bucket_deli_plan_t plan = {
        .samples = 200 + (uint32_t) test_below (&random, 2000),
        .workers = 1 + (uint32_t) test_below (&random, 4),
        .fetch = 1 + (uint32_t) test_below (&random, 300), .threshold = (uint32_t) test_below (&random, 300),
        .cache = (uint32_t) test_below (&random, 600), .batch = 1 + (uint32_t) test_below (&random, 64),
        .gets_per_second = (double) (10 + test_below (&random, 200)), .is_shared = test_below (&random, 2),
        .compute_seconds = 1e-3 * (double) test_below (&random, 30), .epochs = EPOCHS
    };
    plan.get_seconds = plan.is_shared? 1 / plan.gets_per_second: 0.055;
    return plan;
}

static void
test_whatever_the_parameters (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; round++, seed++) {
        bucket_deli_plan_t plan = s_random_plan (seed);
        bucket_deli_epoch_t epochs [EPOCHS];
        bucket_deli_run (&plan, seed, epochs);
        uint32_t slice = plan.samples / plan.workers;
        double seconds = 0, gets = 0;
        for (int epoch = 0; epoch < EPOCHS; epoch++) {
            const bucket_deli_epoch_t *one = &epochs [epoch];
            assert_int_equal (one->draws, slice);
            assert_in_range (one->posts, 1, (slice - 1) / plan.fetch + 1);
            assert_in_range (one->misses, 0, slice);
            assert_true (one->gets <= one->misses + slice);
            assert_true (one->seconds > one->loading - 1e-6 && one->loading >= 0);
            assert_true (one->seconds > slice * plan.compute_seconds - 1e-6);
            seconds += one->seconds;
            gets += (double) one->gets;
        }
        assert_true (epochs [0].gets >= slice);
        //  Together they never have more than the store gives; posts that are on their way are counted
        //  already.
        if (plan.is_shared && gets > plan.gets_per_second * seconds + plan.threshold + plan.fetch + 1)
            fail_msg ("seed %" PRIu64 ": %.0f GETs in %.2f s at %.0f a second", seed, gets, seconds,
                plan.gets_per_second);
    }
}

//  f = tau = q/2 waits less than f = q, tau = 0, where the job is slower than the service.
static void
test_half_beats_full_fetch (void **state)
{
    (void) state;
    bucket_deli_plan_t half = {
        .samples = 35001, .workers = 3, .fetch = 1024, .threshold = 1024, .cache = 2048, .batch = 512,
        .get_seconds = .055, .gets_per_second = 103, .hit_seconds = .002, .compute_seconds = .0124,
        .epochs = EPOCHS
    }, full = half;
    full.fetch = 2048;
    full.threshold = 0;
    bucket_deli_epoch_t halves [EPOCHS], fulls [EPOCHS];
    bucket_deli_run (&half, test_seed (), halves);
    bucket_deli_run (&full, test_seed (), fulls);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        assert_true (2 * halves [epoch].misses < fulls [epoch].misses);
}

static void
test_cost_by_hand (void **state)
{
    (void) state;
    bucket_deli_cost_t cost = {
        .machines = 3, .epochs = 2, .system_gb = 16, .data_gb = 100, .cached_share = 0.5, .disk_gb = 0.01,
        .bucket_gb = 0.001, .machine_hour = 2, .seconds = 1800, .list_price = 0.1, .get_price = 0.01,
        .samples = 2500, .page = 1000, .group = 10
    };
    assert_true (s_near (bucket_deli_disk_cost (&cost), 3 * (1.16 + 1)));
    //  Three listings an epoch, 250 GETs of ten samples each.
    assert_true (s_near (bucket_deli_bucket_cost (&cost), 3 * (0.66 + 1) + 0.1 + 2 * (0.3 + 2.5)));
    //  DELI's listing for each post of 500.
    cost.fetch = 500;
    assert_true (s_near (bucket_deli_bucket_cost (&cost), 3 * (0.66 + 1) + 0.1 + 2 * (1.5 + 2.5)));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_no_prefetching_by_hand),
        cmocka_unit_test (test_prefetching_by_hand),
        cmocka_unit_test (test_instant_service_misses_nothing),
        cmocka_unit_test (test_whatever_the_parameters),
        cmocka_unit_test (test_half_beats_full_fetch),
        cmocka_unit_test (test_cost_by_hand)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
