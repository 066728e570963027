/*  Guards: the order of a `seeded` epoch: a permutation for every n, uniform, fresh, and the same for ever.
 *
 *  Two orders are compared by where samples stand (tenth of the one x tenth of the other), by samples at the
 *  same position, and by pairs of neighbours that come again: the first sees drifts and rotations, the others
 *  what is too fine for it.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "permutation.h"
#include "random.h"
#include "seed.h"
#include "statistics.h"

//  The sizes that judge by chance: a table, the smallest grid, square ones, flat ones, few rounds and many.
static const uint32_t s_sizes [] = { 20, 64, 65, 100, 256, 257, 1000 };
enum { SIZES = sizeof s_sizes / sizeof *s_sizes };

//  ------------------------------------------------------------------------------------------------
//  Values

//  These come from the description in permutation.h, written down a second time in another language.
static const struct { uint64_t seed, epoch; uint32_t n, ranks [16]; } s_golden [] = {
    { 0, 0, 1, { 0 } },
    { 0, 0, 2, { 1, 0 } },
    { 7, 0, 16, { 9, 1, 11, 7, 10, 0, 4, 3, 2, 12, 8, 6, 13, 15, 14, 5 } },
    { 7, 1, 16, { 1, 10, 7, 4, 12, 0, 9, 5, 11, 15, 6, 13, 8, 2, 3, 14 } },
    { 5, 1, 64, { 42, 19, 50, 39, 32, 23, 3, 1, 31, 6, 63, 40, 9, 4, 38, 57 } },
    { 5, 1, 65, { 16, 49, 45, 25, 28, 48, 4, 57, 47, 2, 21, 23, 46, 32, 33, 15 } },
    { UINT64_MAX, 3, 1000,
        { 84, 155, 629, 546, 719, 758, 245, 327,
          377, 432, 547, 583, 218, 921, 725, 761 } },
    { 20261120, 0, 4095,
        { 739, 2716, 431, 2071, 1787, 2700, 3451, 218,
          672, 2040, 972, 3616, 3800, 3566, 3448, 3802 } },
    { 20261120, 0, 4096,
        { 3546, 1142, 2272, 3129, 2542, 2684, 2472, 3362,
          1141, 1133, 2975, 706, 242, 329, 2995, 2515 } },
    { 1, UINT64_C (1) << 63, 1281167,
        { 364500, 793842, 302704, 438963, 1217096, 1256374, 1262805, 1169542,
          1046281, 200722, 837478, 161760, 293930, 851338, 954939, 755584 } },
    { 42, 9, UINT32_MAX,
        { 44168296, 3277185812, 2950409216, 337049912, 363937052, 2435969389, 1269355788, 2700652959,
          3245541457, 2352844585, 1497291360, 4148555030, 2441019630, 2485813799, 2533010251, 2189105157 } },
};

//  What a seed meant once it means for ever.
static void
test_golden_orders (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_golden / sizeof *s_golden; index++) {
        permutation_t order = permutation_new (s_golden [index].seed, s_golden [index].epoch,
            s_golden [index].n);
        for (uint32_t position = 0; position < 16 && position < s_golden [index].n; position++)
            assert_int_equal (permutation_at (&order, position), s_golden [index].ranks [position]);
    }
}

//  ------------------------------------------------------------------------------------------------
//  A permutation and its inverse

//  At which position rank comes: the way back, by the description in permutation.h.
static uint32_t
s_position (const permutation_t *order, uint32_t rank)
{
    if (order->count <= PERMUTATION_TABLE_MAX)
        return (uint32_t) ((const uint8_t *) memchr (order->ranks, (int) rank, order->count) - order->ranks);
    uint32_t cell = rank;
    do {
        uint32_t row = cell % order->rows, column = cell / order->rows;
        for (uint32_t round = order->rounds; round > 0; round -= 2) {
            uint64_t step = (random_mix (order->keys [round - 1] ^ row) >> 32) * order->columns >> 32;
            column = (uint32_t) ((column + order->columns - step) % order->columns);
            row = (uint32_t) (row - random_mix (order->keys [round - 2] ^ column)) % order->rows;
        }
        cell = column * order->rows + row;
    } while (cell >= order->count);
    return cell;
}

static void
s_check_all (uint64_t seed, uint64_t epoch, uint32_t n)
{
    permutation_t order = permutation_new (seed, epoch, n);
    uint8_t *seen = calloc (n, 1);
    assert_non_null (seen);
    for (uint32_t position = 0; position < n; position++) {
        uint32_t rank = permutation_at (&order, position);
        if (rank >= n || seen [rank]++)
            fail_msg ("seed %" PRIu64 " epoch %" PRIu64 ": position %u of %u gives %u", seed, epoch, position,
                n, rank);
        if (s_position (&order, rank) != position)
            fail_msg ("seed %" PRIu64 " epoch %" PRIu64 ": %u of %u is not at %u", seed, epoch, rank, n,
                position);
    }
    free (seen);
}

//  Small sizes, all of them, and larger ones at and beside squares and powers of two, where grids change.
static void
test_each_rank_comes_once (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    for (uint32_t n = 1; n <= 300; n++)
        for (uint64_t epoch = 0; epoch < 20; epoch++)
            s_check_all (seed + n, epoch, n);
    const uint32_t large [] = { 1023, 1024, 1025, 4095, 4096, 4097, 9999, 16384, 16385, 50000, 65535, 65536,
        65537, 99991, 262144, 262145, 1281167 };
    for (size_t index = 0; index < sizeof large / sizeof *large; index++)
        s_check_all (seed, index, large [index]);
}

//  The largest sizes, where a cell's number just fits: at the ends and at places anywhere.
static void
test_inverse_of_the_largest (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    const uint32_t sizes [] = { UINT32_MAX, UINT32_MAX - 1, UINT32_MAX - 65535, UINT32_MAX - 65536,
        65535u * 65535u, 65535u * 65535u + 1, (1u << 31) + 1, 1u << 31, (1u << 30) + 1 };
    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        uint32_t n = sizes [index];
        permutation_t order = permutation_new (seed, index, n);
        for (uint32_t step = 0; step < 20000; step++) {
            uint32_t position = step < 100? step: step < 200? n - 1 - (step - 100)
                : (uint32_t) test_below (&random, n);
            uint32_t rank = permutation_at (&order, position);
            if (rank >= n || s_position (&order, rank) != position)
                fail_msg ("seed %" PRIu64 ": position %u of %u gives %u", seed, position, n, rank);
            if (permutation_at (&order, s_position (&order, position)) != position)
                fail_msg ("seed %" PRIu64 ": rank %u of %u is not found", seed, position, n);
        }
    }
}

//  ------------------------------------------------------------------------------------------------
//  Uniform

enum { BINS = 20, ORDERS = 1000, SIZE_MAX_HERE = 1000 };

//  The contract's figure (design: sampling) of ORDERS orders: seeds in turn, or epochs of one seed.
static double
s_z_of_positions (uint64_t seed, uint64_t epoch, bool of_epochs, uint32_t n)
{
    static uint64_t counts [SIZE_MAX_HERE] [BINS];
    memset (counts, 0, sizeof counts);
    for (uint64_t step = 0; step < ORDERS; step++) {
        permutation_t order = of_epochs? permutation_new (seed, epoch + step, n)
            : permutation_new (seed + step, epoch, n);
        for (uint32_t position = 0; position < n; position++)
            counts [permutation_at (&order, position)] [(uint64_t) position * BINS / n]++;
    }
    double sum = 0;
    for (uint32_t rank = 0; rank < n; rank++)
        for (uint64_t bin = 0; bin < BINS; bin++) {
            //  Positions p with p * BINS / n == bin.
            uint64_t width = ((bin + 1) * n + BINS - 1) / BINS - (bin * n + BINS - 1) / BINS;
            double expected = (double) ORDERS * (double) width / n;
            double off = (double) counts [rank] [bin] - expected;
            sum += off * off / expected;
        }
    return statistics_z_of_chi_square (sum * (n - 1) / n, (BINS - 1) * ((double) n - 1));
}

static void
test_each_rank_is_equally_likely_at_each_position (void **state)
{
    (void) state;
    const uint64_t epochs [] = { 0, 1, UINT64_C (1) << 40 };
    const double limit = statistics_z_limit (SIZES * 4);
    uint64_t seed = test_seed ();
    for (size_t size = 0; size < SIZES; size++)
        for (size_t way = 0; way < 4; way++) {
            double z = way < 3? s_z_of_positions (seed, epochs [way], false, s_sizes [size])
                : s_z_of_positions (seed, 0, true, s_sizes [size]);
            if (fabs (z) > limit)
                fail_msg ("seed %" PRIu64 ": n = %u, way %zu: z = %f", seed, s_sizes [size], way, z);
        }
}

//  Which of the orders of `count` numbers these stand in: below count!.
static uint32_t
s_pattern (const uint32_t *numbers, uint32_t count)
{
    uint32_t pattern = 0;
    for (uint32_t place = 0; place < count; place++) {
        uint32_t below = 0;
        for (uint32_t other = place + 1; other < count; other++)
            below += numbers [other] < numbers [place];
        pattern = pattern * (count - place) + below;
    }
    return pattern;
}

//  All n! orders of the first `count` positions, which are all positions where n is as small.
static void
test_all_orders_come_equally_often (void **state)
{
    (void) state;
    const struct { uint32_t n, count, orders; } cases [] = { { 2, 2, 2 }, { 3, 3, 6 }, { 4, 4, 24 },
        { 5, 5, 120 }, { 6, 6, 720 }, { 64, 5, 120 }, { 65, 5, 120 }, { 81, 5, 120 }, { 257, 5, 120 },
        { 4096, 5, 120 }, { 1281167, 5, 120 } };
    const size_t case_count = sizeof cases / sizeof *cases;
    const double limit = statistics_z_limit (2 * case_count);
    uint64_t seed = test_seed ();
    for (size_t index = 0; index < 2 * case_count; index++) {
        const uint32_t n = cases [index / 2].n, count = cases [index / 2].count;
        uint64_t tallies [720] = { 0 };
        for (uint64_t step = 0; step < 60000; step++) {
            permutation_t order = index % 2? permutation_new (seed, step, n)
                : permutation_new (seed + step, 0, n);
            uint32_t ranks [6];
            for (uint32_t position = 0; position < count; position++)
                ranks [position] = permutation_at (&order, position);
            tallies [s_pattern (ranks, count)]++;
        }
        double chi_square = statistics_chi_square_even (tallies, cases [index / 2].orders);
        double z = statistics_z_of_chi_square (chi_square, cases [index / 2].orders - 1.0);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": n = %u, over %s: z = %f", seed, n, index % 2? "epochs": "seeds", z);
    }
}

//  A cycle of k ranks is k - 1 exchanges.
static bool
s_is_odd (const permutation_t *order)
{
    static uint8_t seen [SIZE_MAX_HERE];
    bool odd = false;
    memset (seen, 0, sizeof seen);
    for (uint32_t start = 0; start < order->count; start++) {
        uint32_t length = 0;
        for (uint32_t rank = start; !seen [rank]; rank = permutation_at (order, rank), length++)
            seen [rank] = 1;
        odd ^= length > 0 && length % 2 == 0;
    }
    return odd;
}

//  Half of all orders are odd, in grids of every shape: no table of positions sees it when only even ones
//  come.
static void
test_half_of_the_orders_are_odd (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (SIZES);
    uint64_t seed = test_seed ();
    for (size_t size = 0; size < SIZES; size++) {
        statistics_events_t events = { 0 };
        for (uint64_t step = 0; step < 2000; step++) {
            permutation_t order = permutation_new (seed + step, 0, s_sizes [size]);
            statistics_event (&events, s_is_odd (&order), 0.5);
        }
        double z = statistics_z_of_events (&events);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": n = %u: %.0f odd ones, z = %f", seed, s_sizes [size],
                events.happened, z);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Unrelated

typedef struct {
    double chi_square;                  //  of tenth x tenth, a sum over pairs of orders
    statistics_events_t places;         //  a sample at the same position
    statistics_events_t neighbours;     //  a sample after the same one
    unsigned pairs;
} relation_t;

static void
s_relate (relation_t *self, const permutation_t *one, const permutation_t *other)
{
    uint32_t n = one->count < other->count? one->count: other->count;
    uint64_t table [10] [10] = { { 0 } };
    for (uint32_t position = 0; position < n; position++) {
        uint32_t rank = permutation_at (one, position);
        if (rank >= other->count)
            continue;
        uint32_t there = s_position (other, rank);
        table [(uint64_t) position * 10 / one->count] [(uint64_t) there * 10 / other->count]++;
        statistics_event (&self->places, there == position, 1.0 / other->count);
        if (position + 1 < n && there + 1 < other->count)
            statistics_event (&self->neighbours,
                permutation_at (other, there + 1) == permutation_at (one, position + 1), 1.0 / n);
    }
    self->chi_square += statistics_chi_square_even (table [0], 100);
    self->pairs++;
}

//  The design's measure of freshness: 0 on average for independent orders, up to 81 / (n * n).
static double
s_phi2 (const relation_t *self, uint32_t n)
{
    return (self->chi_square / self->pairs - 81) / n;
}

//  Independent orders give 81 n / (n - 1) on average, because the table's margins are fixed.
static void
s_judge (const relation_t *self, uint32_t n, double limit, const char *what)
{
    double scale = (n - 1.0) / n;
    const double z [] = { statistics_z_of_chi_square (self->chi_square * scale, 81.0 * self->pairs),
        statistics_z_of_events (&self->places), statistics_z_of_events (&self->neighbours) };
    for (size_t figure = 0; figure < 3; figure++)
        if (fabs (z [figure]) > limit)
            fail_msg ("seed %" PRIu64 ": %s, n = %u: tenths %f (phi2 %f), places %f, neighbours %f",
                test_seed (), what, n, z [0], s_phi2 (self, n), z [1], z [2]);
}

//  Multiples of 10, so that tenths are even: a small grid, a flat one, and few rounds.
static const uint32_t s_related [] = { 60, 100, 260, 400, 5000 };
enum { RELATED = sizeof s_related / sizeof *s_related, PAIRS = 400 };

//  A large order tells as much as many small ones.
static uint64_t
s_share (uint64_t pairs, uint32_t n)
{
    return n < 1000? pairs: pairs / 10;
}

static void
test_an_order_says_nothing_about_the_next (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (3 * 2 * RELATED);
    uint64_t seed = test_seed ();
    for (size_t size = 0; size < RELATED; size++) {
        uint32_t n = s_related [size];
        relation_t epochs = { 0 }, crossed = { 0 };
        for (uint64_t step = 0; step < s_share (PAIRS, n); step++) {
            permutation_t order = permutation_new (seed, step, n);
            permutation_t next = permutation_new (seed, step + 1, n);
            //  The next epoch is not the next seed's present one either.
            permutation_t of_next_seed = permutation_new (seed + 1, step, n);
            s_relate (&epochs, &order, &next);
            s_relate (&crossed, &next, &of_next_seed);
        }
        s_judge (&epochs, n, limit, "epochs in turn");
        if (n >= 400 && s_phi2 (&epochs, n) > 0.02)
            fail_msg ("seed %" PRIu64 ": n = %u: phi2 = %f", seed, n, s_phi2 (&epochs, n));
        s_judge (&crossed, n, limit, "next epoch and next seed");
    }
}

//  Each bit of seed and epoch by itself makes another order.
static void
test_one_bit_makes_an_unrelated_order (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (3 * RELATED * 128);
    uint64_t seed = test_seed ();
    for (size_t size = 0; size < RELATED; size++)
        for (unsigned bit = 0; bit < 128; bit++) {
            relation_t relation = { 0 };
            uint64_t flipped = UINT64_C (1) << bit % 64;
            for (uint64_t step = 0; step < s_share (10, s_related [size]); step++) {
                permutation_t order = permutation_new (seed + step, step, s_related [size]);
                permutation_t other = bit < 64
                    ? permutation_new ((seed + step) ^ flipped, step, s_related [size])
                    : permutation_new (seed + step, step ^ flipped, s_related [size]);
                s_relate (&relation, &order, &other);
            }
            s_judge (&relation, s_related [size], limit, bit < 64? "a bit of the seed": "a bit of the epoch");
        }
}

//  One sample more is another order, not the old one with a sample put in: neighbours and places do not stay.
static void
test_another_size_makes_an_unrelated_order (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    const double limit = statistics_z_limit (2 * SIZES);
    for (size_t size = 0; size < SIZES; size++) {
        relation_t relation = { 0 };
        for (uint64_t step = 0; step < PAIRS; step++) {
            permutation_t order = permutation_new (seed, step, s_sizes [size]);
            permutation_t larger = permutation_new (seed, step, s_sizes [size] + 1);
            s_relate (&relation, &order, &larger);
        }
        double places = statistics_z_of_events (&relation.places);
        double neighbours = statistics_z_of_events (&relation.neighbours);
        if (fabs (places) > limit || fabs (neighbours) > limit)
            fail_msg ("seed %" PRIu64 ": n = %u and one more: places %f, neighbours %f", seed, s_sizes [size],
                places, neighbours);
    }
}

//  Within one order: where a sample stands says nothing about the one after it.
static void
test_neighbours_are_unrelated (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (RELATED);
    uint64_t seed = test_seed ();
    for (size_t size = 0; size < RELATED; size++) {
        uint32_t n = s_related [size];
        uint64_t table [100] = { 0 }, orders = s_share (PAIRS, n);
        for (uint64_t step = 0; step < orders; step++) {
            permutation_t order = permutation_new (seed, step, n);
            for (uint32_t position = 0; position + 1 < n; position += 2)
                table [(uint64_t) permutation_at (&order, position) * 10 / n * 10
                    + (uint64_t) permutation_at (&order, position + 1) * 10 / n]++;
        }
        //  Two different samples: a tenth has one place less for the second where it has the first.
        double sum = 0, total = (double) orders * (n / 2);
        for (size_t cell = 0; cell < 100; cell++) {
            double same = cell / 10 == cell % 10;
            double expected = total * (n / 10.0) * (n / 10.0 - same) / ((double) n * (n - 1));
            sum += ((double) table [cell] - expected) * ((double) table [cell] - expected) / expected;
        }
        double z = statistics_z_of_chi_square (sum, 99);
        if (z > limit)
            fail_msg ("seed %" PRIu64 ": n = %u: z = %f", seed, n, z);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden_orders),
        cmocka_unit_test (test_each_rank_comes_once),
        cmocka_unit_test (test_inverse_of_the_largest),
        cmocka_unit_test (test_each_rank_is_equally_likely_at_each_position),
        cmocka_unit_test (test_all_orders_come_equally_often),
        cmocka_unit_test (test_half_of_the_orders_are_odd),
        cmocka_unit_test (test_an_order_says_nothing_about_the_next),
        cmocka_unit_test (test_one_bit_makes_an_unrelated_order),
        cmocka_unit_test (test_another_size_makes_an_unrelated_order),
        cmocka_unit_test (test_neighbours_are_unrelated),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
