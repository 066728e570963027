/*  Guards: replayable numbers, bounded ones that are exact, and uniform picks of a set.  */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "random.h"
#include "seed.h"
#include "statistics.h"

//  The published generator, so that a seed means the same in every build (values of its reference code).
static void
test_published_sequence (void **state)
{
    (void) state;
    random_t random = random_from_seed (1234567);
    const uint64_t expected [] = { 6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
        4593380528125082431u, 16408922859458223821u };
    for (size_t place = 0; place < sizeof expected / sizeof *expected; place++)
        assert_int_equal (random_next (&random), expected [place]);
}

//  Every bound is kept, the smallest and the largest too.
static void
test_below_stays_below (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    random_t random = random_from_seed (seed);
    for (unsigned shift = 0; shift < 64; shift++)
        for (int64_t off = -1; off <= 1; off++) {
            uint64_t bound = (UINT64_C (1) << shift) + (uint64_t) off;
            for (int draw = 0; bound > 0 && draw < 100; draw++)
                if (random_below (&random, bound) >= bound)
                    fail_msg ("seed %" PRIu64 ": not below %" PRIu64, seed, bound);
        }
    assert_int_equal (random_below (&random, 1), 0);
}

//  Small bounds: every number comes equally often.
static void
test_below_is_even (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    random_t random = random_from_seed (seed);
    const double limit = statistics_z_limit (29);
    for (uint64_t bound = 2; bound <= 30; bound++) {
        uint64_t counts [30] = { 0 };
        for (int draw = 0; draw < 100000; draw++)
            counts [random_below (&random, bound)]++;
        double chi_square = statistics_chi_square_even (counts, bound);
        double z = statistics_z_of_chi_square (chi_square, (double) bound - 1);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": bound %" PRIu64 ": z = %f", seed, bound, z);
    }
}

//  Large bounds show a bias that small ones hide: of 3 * 2^62 numbers, a modulo would give the lowest
//  third, and a product without rejection every third one, twice as often as the rest.
static void
test_below_is_exact_where_rejection_matters (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    random_t random = random_from_seed (seed);
    const uint64_t bound = UINT64_C (3) << 62;
    uint64_t thirds [3] = { 0 }, residues [3] = { 0 };
    for (int draw = 0; draw < 300000; draw++) {
        uint64_t number = random_below (&random, bound);
        thirds [number >> 62]++;
        residues [number % 3]++;
    }
    const double limit = statistics_z_limit (2);
    double z_thirds = statistics_z_of_chi_square (statistics_chi_square_even (thirds, 3), 2);
    double z_residues = statistics_z_of_chi_square (statistics_chi_square_even (residues, 3), 2);
    if (fabs (z_thirds) > limit || fabs (z_residues) > limit)
        fail_msg ("seed %" PRIu64 ": z = %f and %f", seed, z_thirds, z_residues);
}

//  Never at 0, always at 1, and just as often as it says between them.
static void
test_ratio (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    random_t random = random_from_seed (seed);
    const double limit = statistics_z_limit (6);
    const uint64_t ratios [] [2] = { { 0, 1 }, { 0, UINT64_MAX }, { 7, 7 }, { UINT64_MAX, UINT64_MAX },
        { 1, 3 }, { 1, 1000 }, { 999, 1000 }, { 1, 2 }, { UINT64_MAX / 3, UINT64_MAX }, { 86, 1281167 } };
    for (size_t place = 0; place < sizeof ratios / sizeof *ratios; place++) {
        uint64_t numerator = ratios [place] [0], denominator = ratios [place] [1];
        statistics_events_t events = { 0 };
        for (int draw = 0; draw < 200000; draw++)
            statistics_event (&events, random_ratio (&random, numerator, denominator),
                (double) numerator / (double) denominator);
        double z = statistics_z_of_events (&events);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": %" PRIu64 " / %" PRIu64 ": z = %f", seed, numerator, denominator, z);
    }
}

enum { IDS_MAX = 64, CASES = 80, PICKS = 3000 };

//  A pick is in the set and uniform over it, whether the set is dense or sparse.
static void
test_pick_is_uniform_over_the_set (void **state)
{
    (void) state;
    const uint32_t strides [] = { 1, 3, 10, 100, 2000 };
    const double limit = statistics_z_limit (CASES);
    for (uint64_t seed = test_seed (), n = 0; n < CASES; n++, seed++) {
        uint64_t model = seed;
        random_t random = random_from_seed (seed);
        uint32_t count = 1 + (uint32_t) test_below (&model, IDS_MAX);
        uint32_t stride = strides [test_below (&model, 5)];
        uint64_t counts [IDS_MAX] = { 0 };
        roaring_bitmap_t *set = roaring_bitmap_create ();
        for (uint32_t id = 0; id < count; id++)
            roaring_bitmap_add (set, id * stride);
        for (int pick = 0; pick < PICKS; pick++) {
            uint32_t id = random_pick (&random, set, count, count * stride);
            if (!roaring_bitmap_contains (set, id))
                fail_msg ("seed %" PRIu64 ": picked %u, outside", seed, id);
            counts [id / stride]++;
        }
        double z = count == 1? 0:
            statistics_z_of_chi_square (statistics_chi_square_even (counts, count), count - 1.0);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": z = %f", seed, z);
        roaring_bitmap_free (set);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_published_sequence),
        cmocka_unit_test (test_below_stays_below),
        cmocka_unit_test (test_below_is_even),
        cmocka_unit_test (test_below_is_exact_where_rejection_matters),
        cmocka_unit_test (test_ratio),
        cmocka_unit_test (test_pick_is_uniform_over_the_set),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
