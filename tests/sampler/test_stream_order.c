/*  Guards: the order of a `seeded` epoch with a pool: a permutation of any data, uniform, the same for ever,
 *  and read piece by piece with no more than the pool in memory.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "sampler.h"
#include "seed.h"
#include "statistics.h"
#include "stream_order.h"

//  The id at each position of a made-up pack: step has no divisor in common with samples.
static uint32_t *
s_pack (uint32_t samples, uint32_t step)
{
    uint32_t *order = malloc (samples * sizeof *order);
    assert_non_null (order);
    for (uint32_t position = 0; position < samples; position++)
        order [position] = (uint32_t) ((uint64_t) position * step % samples);
    return order;
}

//  ------------------------------------------------------------------------------------------------
//  Values

//  These come from the description in stream_order.h, written down a second time in another language
//  (tests/system/test_system_seeded.py): data are the ids that are 1 modulo part, or all; sum is of the whole
//  order.
static const struct {
    uint64_t seed, epoch;
    uint32_t samples, step, part, pool;
    uint64_t sum;
    uint32_t ids [12];
} s_golden [] = {
    { 0, 0, 1, 1, 0, 8, UINT64_C (0x0000000000000001),
        { 0 } },
    { 7, 0, 20, 3, 0, 8, UINT64_C (0x042c3ef4d198a2a2),
        { 14, 17, 5, 8, 11, 3, 0, 2, 12, 15, 6, 9 } },
    { 7, 1, 20, 3, 0, 8, UINT64_C (0xc357b9f270ee479e),
        { 19, 13, 8, 2, 16, 5, 7, 10, 15, 4, 18, 1 } },
    { 7, 0, 1000, 7, 0, 8, UINT64_C (0x134755ecea053284),
        { 677, 691, 698, 712, 705, 726, 719, 684, 636, 643, 657, 671 } },
    { 7, 0, 1000, 7, 0, 64, UINT64_C (0xc65dac7cc1793cf4),
        { 508, 925, 488, 258, 286, 280, 301, 509, 359, 633, 536, 619 } },
    { 7, 0, 1000, 7, 0, 65, UINT64_C (0x4d0d707a46cd76dc),
        { 958, 999, 856, 753, 920, 971, 916, 541, 951, 6, 923, 849 } },
    { 7, 3, 1000, 7, 3, 64, UINT64_C (0xd9a180bdac783730),
        { 697, 706, 685, 607, 484, 610, 721, 643, 505, 634, 658, 637 } },
    { UINT64_MAX, 2, 1003, 11, 10, 200, UINT64_C (0x0fe4d320fba85216),
        { 991, 881, 651, 141, 771, 181, 151, 481, 391, 721, 961, 601 } },
    { 5, UINT64_C (1) << 63, 5000, 13, 0, 16777216, UINT64_C (0x97325b55813a8db4),
        { 3865, 773, 4994, 1410, 2074, 1869, 2139, 2120, 2445, 3734, 3881, 581 } },
    { 42, 9, 100000, 17, 0, 2000, UINT64_C (0x3ff226803d00b5ec),
        { 57172, 46576, 19498, 45232, 77491, 45249, 19464, 31417, 45804, 31434, 57206, 60910 } },
    { 42, 9, 100000, 17, 97, 500, UINT64_C (0x9a56b1ed16d178f7),
        { 11738, 29295, 66737, 76922, 23184, 59171, 2426, 55776, 95352, 13969, 81869, 60723 } },
};

static roaring_bitmap_t *
s_part (uint32_t samples, uint32_t part)
{
    roaring_bitmap_t *data = roaring_bitmap_create ();
    for (uint32_t id = 0; id < samples; id++)
        if (part == 0 || id % part == 1)
            roaring_bitmap_add (data, id);
    return data;
}

//  What a seed meant once it means for ever.
static void
test_golden_orders (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_golden / sizeof *s_golden; index++) {
        uint32_t *pack = s_pack (s_golden [index].samples, s_golden [index].step);
        roaring_bitmap_t *data = s_part (s_golden [index].samples, s_golden [index].part);
        stream_order_t *order = stream_order_new (pack, s_golden [index].samples, data, s_golden [index].pool,
            s_golden [index].seed);
        stream_order_begin (order, s_golden [index].epoch);
        uint64_t sum = 0;
        for (uint32_t position = 0; stream_order_left (order) > 0; position++) {
            uint32_t id = stream_order_next (order);
            if (position < 12)
                assert_int_equal (id, s_golden [index].ids [position]);
            sum = sum * UINT64_C (0x9e3779b97f4a7c15) + id + 1;
        }
        assert_true (sum == s_golden [index].sum);
        stream_order_destroy (&order);
        roaring_bitmap_free (data);
        free (pack);
    }
}

//  ------------------------------------------------------------------------------------------------
//  A permutation, read in pieces

enum { SAMPLES_MAX = 3000 };

typedef struct {
    uint32_t samples, pool, count;
    uint32_t pack [SAMPLES_MAX];
    roaring_bitmap_t *data;
    uint64_t seed;
} made_t;

static void
s_shuffle_pack (made_t *self, uint64_t *random)
{
    for (uint32_t position = 0; position < self->samples; position++) {
        uint32_t other = (uint32_t) test_below (random, position + 1);
        self->pack [position] = self->pack [other];
        self->pack [other] = position;
    }
}

//  All, one, a range, every few, or a cluster of the pack and a few others.
static void
s_choose_data (made_t *self, uint64_t *random)
{
    uint32_t samples = self->samples, kind = (uint32_t) test_below (random, 6);
    uint32_t from = (uint32_t) test_below (random, samples), share = 1 + (uint32_t) test_below (random, 40);
    uint32_t to = from + (uint32_t) test_below (random, samples - from);
    self->data = roaring_bitmap_create ();
    for (uint32_t position = 0; position < samples; position++) {
        uint32_t id = self->pack [position];
        bool chosen = kind <= 1 || (kind == 2 && id >= from && id <= to)
            || (kind == 3 && test_below (random, share) == 0)
            || (kind == 4 && ((position >= from && position <= to) || test_below (random, 50) == 0));
        if (chosen)
            roaring_bitmap_add (self->data, id);
    }
    roaring_bitmap_add (self->data, self->pack [from]);
    self->count = (uint32_t) roaring_bitmap_get_cardinality (self->data);
}

static void
s_make (made_t *self, uint64_t seed)
{
    uint64_t random = seed;
    self->seed = seed;
    uint64_t size = test_below (&random, 3);
    self->samples = 1 + (uint32_t) test_below (&random, size == 0? 20: size == 1? 300: SAMPLES_MAX);
    self->pool = STREAM_ORDER_POOL_MIN + (uint32_t) test_below (&random,
        test_below (&random, 2)? 30: SAMPLES_MAX);
    s_shuffle_pack (self, &random);
    s_choose_data (self, &random);
}

//  What has entered and has not been drawn.
typedef struct {
    uint8_t seen [SAMPLES_MAX];         //  1: entered; 2: drawn
    uint32_t entered, drawn;
} reusable_t;

//  Pieces are neighbours among the data in pack order, once round.
static void
s_check_piece (const made_t *made, const uint32_t *ranks, const stream_piece_t *piece)
{
    assert_in_range (piece->count, 1, STREAM_ORDER_PIECE);
    for (uint32_t index = 1; index < piece->count; index++)
        if (ranks [piece->ids [index]] != (ranks [piece->ids [index - 1]] + 1) % made->count)
            fail_msg ("seed %" PRIu64 ": %u and %u are no neighbours", made->seed, piece->ids [index - 1],
                piece->ids [index]);
}

static void
s_enter (const made_t *made, const uint32_t *ranks, stream_order_t *order, reusable_t *reusable)
{
    stream_piece_t piece;
    while (stream_order_entered (order, &piece)) {
        s_check_piece (made, ranks, &piece);
        for (uint32_t index = 0; index < piece.count; index++) {
            if (!roaring_bitmap_contains (made->data, piece.ids [index])
                || reusable->seen [piece.ids [index]]++)
                fail_msg ("seed %" PRIu64 ": id %u enters twice, or is not in the data", made->seed,
                    piece.ids [index]);
            reusable->entered++;
        }
    }
    uint64_t room = STREAM_ORDER_FIRST_ROOM + 2 * (uint64_t) reusable->drawn;
    if (room > made->pool)
        room = made->pool;
    uint32_t resident = reusable->entered - reusable->drawn;
    bool is_full = resident + STREAM_ORDER_PIECE > room || reusable->entered == made->count;
    if (resident > room || !is_full)
        fail_msg ("seed %" PRIu64 ": %u of %u drawn, %u in a pool of %" PRIu64, made->seed, reusable->drawn,
            made->count, resident, room);
}

static void
s_play_epoch (const made_t *made, const uint32_t *ranks, stream_order_t *order, uint64_t epoch)
{
    static reusable_t reusable;
    memset (&reusable, 0, sizeof reusable);
    stream_order_begin (order, epoch);
    for (uint32_t position = 0; position < made->count; position++) {
        assert_int_equal (stream_order_left (order), made->count - position);
        uint32_t id = stream_order_next (order);
        s_enter (made, ranks, order, &reusable);
        if (reusable.seen [id] != 1)
            fail_msg ("seed %" PRIu64 " epoch %" PRIu64 ": id %u is drawn twice, or has not entered",
                made->seed, epoch, id);
        reusable.seen [id] = 2;
        reusable.drawn++;
    }
    assert_int_equal (stream_order_left (order), 0);
    assert_int_equal (reusable.entered, made->count);
}

//  Property: whatever the pack, the data and the pool, an epoch draws each sample once, and each has entered
//  with its neighbours before; the pool is as full as it may be and no fuller.  Replay: TEST_SEED.
static void
test_each_id_comes_once_and_from_the_pool (void **state)
{
    (void) state;
    static made_t made;
    static uint32_t ranks [SAMPLES_MAX];
    for (uint64_t seed = test_seed (), last = seed + EFFORT (400); seed < last; seed++) {
        s_make (&made, seed);
        for (uint32_t position = 0, rank = 0; position < made.samples; position++)
            if (roaring_bitmap_contains (made.data, made.pack [position]))
                ranks [made.pack [position]] = rank++;
        stream_order_t *order = stream_order_new (made.pack, made.samples, made.data, made.pool, seed);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            s_play_epoch (&made, ranks, order, epoch);
        stream_order_destroy (&order);
        assert_null (order);
        roaring_bitmap_free (made.data);
    }
}

typedef struct { uint32_t ids [SAMPLES_MAX]; uint32_t count; } listed_t;

static void
s_list (void *context, uint32_t id)
{
    listed_t *listed = context;
    listed->ids [listed->count++] = id;
}

//  Property: an order depends on nothing but what it says: neither on looking ahead or being asked what
//  entered, nor on epochs before.  Replay: TEST_SEED.
static void
test_nothing_else_moves_the_order (void **state)
{
    (void) state;
    static made_t made;
    static listed_t plain, rest;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (200); seed < last; seed++) {
        s_make (&made, seed);
        stream_order_t *one = stream_order_new (made.pack, made.samples, made.data, made.pool, seed);
        stream_order_t *other = stream_order_new (made.pack, made.samples, made.data, made.pool, seed);
        uint64_t random = seed, epoch = test_below (&random, 5);
        plain.count = rest.count = 0;
        stream_order_begin (one, epoch);
        stream_order_rest (one, s_list, &plain);
        assert_int_equal (plain.count, made.count);
        for (uint32_t step = (uint32_t) test_below (&random, made.count); step > 0; step--)
            stream_order_next (other);
        stream_order_begin (other, epoch);
        stream_piece_t piece;
        uint32_t look = (uint32_t) test_below (&random, made.count);
        for (uint32_t position = 0; position < made.count; position++) {
            if (test_below (&random, 3) == 0)
                stream_order_entered (other, &piece);
            if (position == look) {
                stream_order_rest (other, s_list, &rest);
                assert_memory_equal (rest.ids, plain.ids + position, rest.count * sizeof *rest.ids);
            }
            assert_int_equal (stream_order_next (other), plain.ids [position]);
            assert_int_equal (stream_order_next (one), plain.ids [position]);
        }
        stream_order_destroy (&one);
        stream_order_destroy (&other);
        roaring_bitmap_free (made.data);
    }
}

//  ------------------------------------------------------------------------------------------------
//  In the sampler

typedef struct {
    const made_t *made;
    sampler_t *sampler;
    uint32_t job;
    uint64_t random;
    uint8_t entered [SAMPLES_MAX];
} drawing_t;

static void
s_note_entered (drawing_t *self)
{
    stream_piece_t piece;
    while (sampler_entered (self->sampler, self->job, &piece))
        for (uint32_t index = 0; index < piece.count; index++)
            self->entered [piece.ids [index]] = 1;
}

static void
s_draw_one (drawing_t *self, uint32_t job, uint32_t expected)
{
    sampler_offer_t offer;
    sampler_round_begin (self->sampler, &job, 1);
    while (sampler_offer (self->sampler, &offer)) {
        uint32_t id = sampler_pick (self->sampler);
        if (job == self->job)
            assert_int_equal (id, expected);
        sampler_commit (self->sampler, id);
    }
}

//  One epoch, with drops on the way; expected: of the order, without drops.
static void
s_draw_epoch (drawing_t *self, const listed_t *expected)
{
    memset (self->entered, 0, sizeof self->entered);
    for (uint32_t position = 0; position < expected->count; position++) {
        s_note_entered (self);
        if (test_below (&self->random, 20) == 0)
            sampler_drop (self->sampler, (uint32_t) test_below (&self->random, self->made->samples));
        if (test_below (&self->random, 50) == 0)
            sampler_check (self->sampler);
        uint32_t id = expected->ids [position];
        if (sampler_is_dropped (self->sampler, id))
            continue;
        assert_true (sampler_needs (self->sampler, self->job, id));
        assert_true (self->entered [id]);
        s_draw_one (self, self->job, id);
        if (test_below (&self->random, 3) == 0 && sampler_remaining (self->sampler, 0) > 0)
            s_draw_one (self, 0, 0);
    }
    assert_int_equal (sampler_remaining (self->sampler, self->job), 0);
    s_note_entered (self);
    sampler_check (self->sampler);
}

//  Property: a job's order is this one, whatever else draws from the sampler; what is dropped leaves holes
//  and moves nothing. Replay: TEST_SEED.
static void
test_a_job_draws_it_whatever_is_dropped (void **state)
{
    (void) state;
    static made_t made;
    static listed_t expected;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (60); seed < last; seed++) {
        s_make (&made, seed);
        drawing_t drawing = { .made = &made, .random = seed,
            .sampler = sampler_new (made.samples, seed % 2? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_DSA,
            seed) };
        sampler_join (drawing.sampler, &(sampler_join_t) { .data = made.data });
        drawing.job = sampler_join (drawing.sampler, &(sampler_join_t) { .order = SAMPLER_ORDER_SEEDED,
            .data = made.data, .seed = seed, .pool = made.pool, .pack_order = made.pack });
        stream_order_t *order = stream_order_new (made.pack, made.samples, made.data, made.pool, seed);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            expected.count = 0;
            stream_order_begin (order, epoch);
            stream_order_rest (order, s_list, &expected);
            if (sampler_epoch_samples (drawing.sampler, drawing.job) > 0)
                s_draw_epoch (&drawing, &expected);
            sampler_epoch_begin (drawing.sampler, drawing.job);
        }
        stream_order_destroy (&order);
        sampler_destroy (&drawing.sampler);
        roaring_bitmap_free (made.data);
    }
}

//  ------------------------------------------------------------------------------------------------
//  Uniform

enum { BINS = 20, ORDERS = 1000, UNIFORM_MAX = 1000 };

static const struct { uint32_t samples, part, pool; } s_uniform [] = {
    { 40, 0, 8 }, { 500, 0, 64 }, { 1000, 0, 64 }, { 1000, 0, 300 }, { 1000, 0, 5000 }, { 997, 3, 40 }
};
enum { UNIFORM = sizeof s_uniform / sizeof *s_uniform };

//  The contract's figure over samples that are never in one piece: in pack order every eighth of the data,
//  beginning with residue.  (Members of a piece fall into the same bins together, which would make the sum
//  over all vary more than independent samples do.)  Each count is binomial, so that a sample adds BINS - 1
//  on average.
static double
s_z_of_residue (uint64_t counts [UNIFORM_MAX] [BINS], uint32_t n, uint32_t residue)
{
    double sum = 0, df = 0;
    for (uint32_t rank = residue; rank < n
        && rank + STREAM_ORDER_PIECE <= n + residue; rank += STREAM_ORDER_PIECE) {
        for (uint64_t bin = 0; bin < BINS; bin++) {
            uint64_t width = ((bin + 1) * n + BINS - 1) / BINS - (bin * n + BINS - 1) / BINS;
            double expected = (double) ORDERS * (double) width / n,
                off = (double) counts [rank] [bin] - expected;
            sum += off * off / expected;
        }
        df += BINS - 1;
    }
    return statistics_z_of_chi_square (sum, df);
}

static void
test_each_sample_is_equally_likely_at_each_position (void **state)
{
    (void) state;
    static uint64_t counts [UNIFORM_MAX] [BINS];
    static uint32_t ranks [UNIFORM_MAX];
    const double limit = statistics_z_limit (2 * UNIFORM * STREAM_ORDER_PIECE);
    for (size_t index = 0; index < 2 * UNIFORM; index++) {
        uint32_t samples = s_uniform [index / 2].samples, n = 0;
        uint32_t *pack = s_pack (samples, 13);
        roaring_bitmap_t *data = s_part (samples, s_uniform [index / 2].part);
        for (uint32_t position = 0; position < samples; position++)
            if (roaring_bitmap_contains (data, pack [position]))
                ranks [pack [position]] = n++;
        memset (counts, 0, sizeof counts);
        bool of_epochs = index % 2;
        for (uint64_t step = 0; step < ORDERS; step++) {
            uint64_t seed = test_seed () + (of_epochs? 0: step);
            stream_order_t *order = stream_order_new (pack, samples, data, s_uniform [index / 2].pool, seed);
            if (of_epochs)
                stream_order_begin (order, step);
            for (uint32_t position = 0; position < n; position++)
                counts [ranks [stream_order_next (order)]] [(uint64_t) position * BINS / n]++;
            stream_order_destroy (&order);
        }
        for (uint32_t residue = 0; residue < STREAM_ORDER_PIECE; residue++) {
            double z = s_z_of_residue (counts, n, residue);
            if (fabs (z) > limit)
                fail_msg ("seed %" PRIu64 ": %u samples, pool %u, over %s, residue %u: z = %f", test_seed (),
                    n, s_uniform [index / 2].pool, of_epochs? "epochs": "seeds", residue, z);
        }
        roaring_bitmap_free (data);
        free (pack);
    }
}

//  At single positions, where a bin of many would hide what is wrong: first, second, where the pool begins to
//  drain, last.
static void
test_single_positions_are_uniform (void **state)
{
    (void) state;
    enum { SAMPLES = 60, POOL = 16, SEEDS = EFFORT (60000), PLACES = 5 };
    static const uint32_t places [PLACES] = { 0, 1, SAMPLES - POOL, SAMPLES - 2, SAMPLES - 1 };
    static uint64_t counts [PLACES] [SAMPLES];
    memset (counts, 0, sizeof counts);
    uint32_t *pack = s_pack (SAMPLES, 7);
    roaring_bitmap_t *data = s_part (SAMPLES, 0);
    for (uint64_t seed = test_seed (), step = 0; step < SEEDS; step++) {
        stream_order_t *order = stream_order_new (pack, SAMPLES, data, POOL, seed + step);
        for (uint32_t position = 0, place = 0; position < SAMPLES; position++) {
            uint32_t id = stream_order_next (order);
            if (place < PLACES && places [place] == position)
                counts [place++] [id]++;
        }
        stream_order_destroy (&order);
    }
    const double limit = statistics_z_limit (PLACES);
    for (uint32_t place = 0; place < PLACES; place++) {
        double z = statistics_z_of_chi_square (statistics_chi_square_even (counts [place], SAMPLES),
            SAMPLES - 1);
        if (fabs (z) > limit)
            fail_msg ("seed %" PRIu64 ": position %u: z = %f", test_seed (), places [place], z);
    }
    roaring_bitmap_free (data);
    free (pack);
}

//  ------------------------------------------------------------------------------------------------
//  Fresh

enum { FRESH = 20000, FRESH_EPOCHS = EFFORT (20) + 2, BATCH = 64 };

typedef struct { double phi2, pair_repeat; } freshness_t;

//  How many pairs share a batch in both, beside what chance would make it.
static double
s_pairs_again (const uint32_t *batches, const uint32_t *next_batches)
{
    static uint32_t together [FRESH / BATCH + 1] [FRESH / BATCH + 1];
    memset (together, 0, sizeof together);
    double pairs = 0, expected = 0;
    for (uint32_t id = 0; id < FRESH; id++)
        pairs += together [batches [id]] [next_batches [id]]++;
    for (uint32_t begin = 0; begin < FRESH; begin += BATCH) {
        double size = FRESH - begin < BATCH? FRESH - begin: BATCH;
        expected += size * (size - 1) / 2;
    }
    return pairs / (expected * expected / ((double) FRESH * (FRESH - 1) / 2));
}

static freshness_t
s_freshness (uint32_t pool)
{
    static uint32_t places [2] [FRESH], batches [2] [FRESH];
    uint32_t *pack = s_pack (FRESH, 7);
    roaring_bitmap_t *data = s_part (FRESH, 0);
    stream_order_t *order = stream_order_new (pack, FRESH, data, pool, test_seed ());
    freshness_t freshness = { 0 };
    for (uint64_t epoch = 0; epoch <= FRESH_EPOCHS; epoch++) {
        uint32_t *place = places [epoch % 2], *batch = batches [epoch % 2];
        uint64_t table [100] = { 0 };
        stream_order_begin (order, epoch);
        for (uint32_t position = 0; position < FRESH; position++) {
            uint32_t id = stream_order_next (order);
            place [id] = position * 10 / FRESH;
            batch [id] = position / BATCH;
        }
        for (uint32_t id = 0; epoch > 0 && id < FRESH; id++)
            table [places [(epoch + 1) % 2] [id] * 10 + place [id]]++;
        if (epoch == 0)
            continue;
        freshness.phi2 += (statistics_chi_square_even (table, 100) - 81) / FRESH / FRESH_EPOCHS;
        freshness.pair_repeat += s_pairs_again (batches [(epoch + 1) % 2], batch) / FRESH_EPOCHS;
    }
    stream_order_destroy (&order);
    roaring_bitmap_free (data);
    free (pack);
    return freshness;
}

//  The figures of docs/randomness.md: bounds are far from what is there.
static void
test_epochs_are_fresh (void **state)
{
    (void) state;
    static const struct { uint32_t pool; double phi2_max, pair_repeat_max; } cases [] = {
        { FRESH / 50, 0.02, 1.25 }, { 2 * FRESH / 25, 0.01, 1.08 }, { FRESH, 0.01, 1.08 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        freshness_t freshness = s_freshness (cases [index].pool);
        printf ("pool %u of %d: phi2 %.4f, pairs again %.3f\n", cases [index].pool, FRESH, freshness.phi2,
            freshness.pair_repeat);
        assert_true (freshness.phi2 < cases [index].phi2_max);
        assert_true (freshness.pair_repeat < cases [index].pair_repeat_max);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_golden_orders),
        cmocka_unit_test (test_each_id_comes_once_and_from_the_pool),
        cmocka_unit_test (test_nothing_else_moves_the_order),
        cmocka_unit_test (test_a_job_draws_it_whatever_is_dropped),
        cmocka_unit_test (test_each_sample_is_equally_likely_at_each_position),
        cmocka_unit_test (test_single_positions_are_uniform),
        cmocka_unit_test (test_epochs_are_fresh),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
