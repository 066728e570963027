/*  The order of a pack and where samples lie in it: the order is a full shuffle, buckets are ranges of it,
 *  the layout follows the format.
 *
 *  The statistics take seeds 0, 1, 2 ..: fixed, so that they pass or fail for ever; their bounds would be
 *  passed by chance in fewer than 1e-5 of all choices of seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "packing_state.h"
#include "effort.h"
#include "seed.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

//  ---- the order

//  |z| of a chi-square, by Wilson and Hilferty.
static double
chi_square_z (double chi_square, double freedom)
{
    double share = 2 / (9 * freedom);
    return fabs ((cbrt (chi_square / freedom) - 1 + share) / sqrt (share));
}

//  Every id is as likely at every position.
static void
test_order_has_each_id_anywhere (void **state)
{
    (void) state;
    enum { SAMPLES = 40, SEEDS = EFFORT (40000) };
    static uint32_t table [SAMPLES] [SAMPLES];
    memset (table, 0, sizeof table);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES];
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 0; position < SAMPLES; position++)
            table [order [position]] [position]++;
    }
    double expected = (double) SEEDS / SAMPLES, sum = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        for (uint32_t position = 0; position < SAMPLES; position++)
            sum += pow (table [id] [position] - expected, 2) / expected;
    //  Rows and columns are exact, which takes the degrees; and a permutation's cells are scaled by (N-1)/N.
    double z = chi_square_z (sum * (SAMPLES - 1) / SAMPLES, pow (SAMPLES - 1, 2));
    print_message ("id x position: z = %.2f\n", z);
    assert_true (z < 4.5);
}

//  All orders of few samples come equally often.
static void
test_order_is_any_order (void **state)
{
    (void) state;
    enum { SAMPLES = 5, ORDERS = 120, SEEDS = EFFORT (240000) };
    uint32_t counts [3125] = { 0 };
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES], code = 0;
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 0; position < SAMPLES; position++)
            code = code * SAMPLES + order [position];
        counts [code]++;
    }
    double expected = (double) SEEDS / ORDERS, sum = 0;
    uint32_t seen = 0;
    for (uint32_t code = 0; code < 3125; code++)
        if (counts [code]) {
            seen++;
            sum += pow (counts [code] - expected, 2) / expected;
        }
    assert_int_equal (seen, ORDERS);
    double z = chi_square_z (sum, ORDERS - 1);
    print_message ("orders: z = %.2f\n", z);
    assert_true (z < 4.5);
}

//  Neighbours in the source, and the classes of a sorted source, meet as often as chance has it.
static void
test_order_tears_neighbours_apart (void **state)
{
    (void) state;
    enum { SAMPLES = 1000, CLASS = 100, SEEDS = EFFORT (2000) };
    uint64_t neighbours = 0, mates = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint32_t order [SAMPLES];
        packing_order (seed, SAMPLES, order);
        for (uint32_t position = 1; position < SAMPLES; position++) {
            uint32_t a = order [position - 1], b = order [position];
            neighbours += a + 1 == b || b + 1 == a;
            mates += a / CLASS == b / CLASS;
        }
    }
    double wanted = 2.0 * (SAMPLES - 1) / SAMPLES * SEEDS, share = (double) (CLASS - 1) / (SAMPLES - 1);
    double z = ((double) neighbours - wanted) / sqrt (wanted);
    double mates_wanted = share * (SAMPLES - 1) * SEEDS;
    double mates_z = ((double) mates - mates_wanted) / sqrt (mates_wanted * (1 - share));
    print_message ("neighbours: z = %.2f, of one class: z = %.2f\n", z, mates_z);
    assert_true (fabs (z) < 4.5);
    assert_true (fabs (mates_z) < 4.5);
}

//  Buckets are ranges of the order, whatever their number, and of about one size.
static void
test_buckets_are_ranges_of_the_order (void **state)
{
    (void) state;
    enum { SAMPLES = 5000 };
    static uint32_t order [SAMPLES];
    static const uint32_t counts [] = { 1, 2, 3, 7, 64, 1000, 8192 };
    packing_order (99, SAMPLES, order);
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++) {
        uint32_t last = 0, size = 0, largest = 0;
        for (uint32_t position = 0; position < SAMPLES; position++) {
            uint32_t bucket = packing_bucket (99, order [position], counts [index]);
            assert_true (bucket >= last && bucket < counts [index]);
            size = bucket == last? size + 1: 1;
            largest = size > largest? size: largest;
            last = bucket;
        }
        double mean = (double) SAMPLES / counts [index];
        assert_true (largest < mean + 6 * sqrt (mean) + 6);
    }
}

//  The order is a format: other seeds would be another one.
static void
test_order_is_golden (void **state)
{
    (void) state;
    uint32_t order [8];
    packing_order (42, 8, order);
    static const uint32_t golden [8] = { 6, 7, 4, 5, 3, 0, 1, 2 };
    assert_memory_equal (order, golden, sizeof golden);
}


//  ---- the layout

static uint64_t
bytes_of (const void *context, uint32_t id)
{
    return ((const uint64_t *) context) [id];
}

//  Property: places and volumes are those of the words of pack_format.h, followed one by one.
static void
test_layout_follows_the_format (void **state)
{
    (void) state;
    enum { SAMPLES_MAX = 2000 };
    static uint64_t bytes [SAMPLES_MAX];
    static uint32_t order [SAMPLES_MAX];
    static pack_place_t places [SAMPLES_MAX];
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (200); round++, seed++) {
        uint64_t random = seed;
        uint32_t samples = 1 + (uint32_t) test_below (&random, SAMPLES_MAX);
        uint32_t chunk = 64 * (1 + (uint32_t) test_below (&random, 3));
        uint64_t volume_bytes = 4096 * (1 + test_below (&random, 100)),
            longest = 1 + test_below (&random, 20000);
        for (uint32_t id = 0; id < samples; id++)
            bytes [id] = test_below (&random, longest);
        packing_order (seed, samples, order);
        packing_layout_t layout = { samples, chunk, volume_bytes, order, bytes_of, bytes };
        pack_volume_t *volumes;
        uint32_t count;
        assert_int_equal (packing_layout (&layout, places, &volumes, &count), 0);
        uint32_t volume = 0;
        uint64_t at = 4096;
        for (uint32_t position = 0; position < samples; position++) {
            if (position % chunk == 0) {
                while (at % 4096)
                    at++;
                if (at > volume_bytes && position) {
                    assert_int_equal (volumes [volume].bytes, at);
                    volume++;
                    at = 4096;
                }
                if (at == 4096)
                    assert_int_equal (volumes [volume].first <= position, true);
            }
            const pack_place_t *place = &places [order [position]];
            if (place->offset != at || place->volume != volume || place->position != position)
                fail_msg ("seed %" PRIu64 ", position %u: %u+%" PRIu64 ", not %u+%" PRIu64, seed, position,
                    place->volume, place->offset, volume, at);
            at += bytes [order [position]];
        }
        assert_int_equal (count, volume + 1);
        assert_int_equal (volumes [volume].bytes, (at + 4095) / 4096 * 4096);
        for (uint32_t index = 0; index < count; index++)
            assert_int_equal (places [order [volumes [index].first]].offset, 4096);
        free (volumes);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_order_has_each_id_anywhere),
        cmocka_unit_test (test_order_is_any_order),
        cmocka_unit_test (test_order_tears_neighbours_apart),
        cmocka_unit_test (test_buckets_are_ranges_of_the_order),
        cmocka_unit_test (test_order_is_golden),
        cmocka_unit_test (test_layout_follows_the_format)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
