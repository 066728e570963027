/*  Guards: the figures by which orders are judged fresh and uniform, beside a simple implementation of their
 *  definitions and beside closed forms; and that the record sees every way of not being exactly once.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <math.h>
#include <cmocka.h>

#include "orders_record.h"
#include "seed.h"

enum { FROM = 37, SAMPLES_MAX = 300, EPOCHS_MAX = 6, ROUNDS = 200 };

static void
s_shuffle (uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t place = 0; place < count; place++) {
        uint32_t other = (uint32_t) test_below (random, place + 1);
        order [place] = order [other];
        order [other] = place;
    }
}

static void
s_deliver (orders_record_t *record, const uint32_t *order, uint32_t count)
{
    for (uint32_t place = 0; place < count; place++)
        orders_record_deliver (record, FROM + order [place]);
    orders_record_epoch_end (record);
}

static orders_options_t
s_options (uint32_t samples, uint32_t batch)
{
    return (orders_options_t) { .from = FROM, .to = FROM + samples, .batch = batch,
        .epochs_max = EPOCHS_MAX };
}

//  ------------------------------------------------------------------------------------------------
//  The simple implementation: positions of all epochs, definitions word by word

static void
s_positions (const uint32_t *order, uint32_t count, uint32_t *positions)
{
    for (uint32_t place = 0; place < count; place++)
        positions [order [place]] = place;
}

static double
s_dumb_phi2 (const uint32_t *a, const uint32_t *b, uint32_t count)
{
    double chi_square = 0;
    for (uint32_t row = 0; row < 10; row++)
        for (uint32_t column = 0; column < 10; column++) {
            double both = 0, in_row = 0, in_column = 0;
            for (uint32_t id = 0; id < count; id++) {
                in_row += a [id] * 10 / count == row;
                in_column += b [id] * 10 / count == column;
                both += a [id] * 10 / count == row && b [id] * 10 / count == column;
            }
            double expected = in_row * in_column / count;
            chi_square += (both - expected) * (both - expected) / expected;
        }
    return (chi_square - 81) / count;
}

static double
s_dumb_tail_to_head (const uint32_t *a, const uint32_t *b, uint32_t count)
{
    double tail = 0, head = 0, both = 0;
    for (uint32_t id = 0; id < count; id++) {
        tail += a [id] * 20 / count == 19;
        head += b [id] * 20 / count == 0;
        both += a [id] * 20 / count == 19 && b [id] * 20 / count == 0;
    }
    return both / (tail * head / count);
}

static double
s_dumb_pair_repeat (const uint32_t *a, const uint32_t *b, uint32_t count, uint32_t batch)
{
    double pairs = 0, in_a = 0, in_b = 0, both = 0;
    for (uint32_t one = 0; one < count; one++)
        for (uint32_t other = 0; other < one; other++) {
            int first = a [one] / batch == a [other] / batch, second = b [one] / batch == b [other] / batch;
            pairs++;
            in_a += first;
            in_b += second;
            both += first && second;
        }
    return both / (in_a * in_b / pairs);
}

static double
s_dumb_correlation (const uint32_t *a, const uint32_t *b, uint32_t count)
{
    double sum_a = 0, sum_b = 0, aa = 0, bb = 0, ab = 0;
    for (uint32_t id = 0; id < count; id++) {
        sum_a += a [id];
        sum_b += b [id];
        aa += (double) a [id] * a [id];
        bb += (double) b [id] * b [id];
        ab += (double) a [id] * b [id];
    }
    return (count * ab - sum_a * sum_b)
        / sqrt ((count * aa - sum_a * sum_a) * (count * bb - sum_b * sum_b));
}

//  ------------------------------------------------------------------------------------------------
//  Beside it

static void
s_same (uint64_t seed, const char *what, double found, double expected)
{
    if (!(fabs (found - expected) <= 1e-9 * (1 + fabs (expected))))
        fail_msg ("seed %" PRIu64 ": %s is %.12f, expected %.12f", seed, what, found, expected);
}

typedef struct {
    uint32_t samples, batch, epochs;
    uint32_t positions [EPOCHS_MAX] [SAMPLES_MAX];
} history_t;

//  Random orders, now and then one of before again or reversed, so that figures are far from chance, too.
static void
s_make_history (history_t *self, orders_record_t *record, uint64_t *random)
{
    uint32_t order [SAMPLES_MAX];
    for (uint32_t epoch = 0; epoch < self->epochs; epoch++) {
        uint64_t kind = epoch? test_below (random, 4): 0;
        if (kind < 2)
            s_shuffle (order, self->samples, random);
        else
        if (kind == 3)
            for (uint32_t place = 0; place < self->samples / 2; place++) {
                uint32_t other = order [self->samples - 1 - place];
                order [self->samples - 1 - place] = order [place];
                order [place] = other;
            }
        s_positions (order, self->samples, self->positions [epoch]);
        s_deliver (record, order, self->samples);
    }
}

static void
s_compare (uint64_t seed, const history_t *self, const orders_figures_t *figures)
{
    double phi2 [ORDERS_LAGS] = { 0 }, tail = 0, repeat = 0, pairs = self->epochs - 1;
    for (uint32_t epoch = 1; epoch < self->epochs; epoch++) {
        const uint32_t *before = self->positions [epoch - 1], *after = self->positions [epoch];
        for (uint32_t lag = 1; lag <= ORDERS_LAGS && lag <= epoch; lag++)
            phi2 [lag - 1] += s_dumb_phi2 (self->positions [epoch - lag], after, self->samples);
        tail += s_dumb_tail_to_head (before, after, self->samples);
        repeat += s_dumb_pair_repeat (before, after, self->samples, self->batch);
        s_same (seed, "correlation", mean_of (&figures->correlations [epoch - 1]),
            s_dumb_correlation (before, after, self->samples));
    }
    for (uint32_t lag = 1; lag <= ORDERS_LAGS; lag++) {
        double count = self->epochs > lag? self->epochs - lag: 0;
        assert_int_equal (figures->phi2 [lag - 1].count, count);
        if (count > 0)
            s_same (seed, "phi2", mean_of (&figures->phi2 [lag - 1]), phi2 [lag - 1] / count);
    }
    s_same (seed, "tail to head", mean_of (&figures->tail_to_head), tail / pairs);
    s_same (seed, "pair repeat", mean_of (&figures->pair_repeat), repeat / pairs);
}

//  Property: every figure over pairs of epochs is what its definition says.
static void
test_figures_are_as_defined (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), n = 0; n < ROUNDS; n++, seed++) {
        uint64_t random = seed;
        history_t history = {
            .samples = 20 + (uint32_t) test_below (&random, SAMPLES_MAX - 19),
            .batch = 2 + (uint32_t) test_below (&random, 40),
            .epochs = 2 + (uint32_t) test_below (&random, EPOCHS_MAX - 1)
        };
        orders_options_t options = s_options (history.samples, history.batch);
        orders_record_t *record = orders_record_new (&options);
        s_make_history (&history, record, &random);
        orders_figures_t figures = orders_record_figures (record);
        assert_true (figures.exactly_once);
        assert_int_equal (figures.epochs, history.epochs);
        s_compare (seed, &history, &figures);
        orders_figures_clear (&figures);
        orders_record_destroy (&record);
        assert_null (record);
    }
}

//  Closed forms: the same order again, and the reverse.
static void
test_identical_and_reversed_epochs (void **state)
{
    (void) state;
    enum { SAMPLES = 200, BATCH = 10 };
    orders_options_t options = s_options (SAMPLES, BATCH);
    uint32_t order [SAMPLES], reverse [SAMPLES];
    uint64_t random = test_seed ();
    s_shuffle (order, SAMPLES, &random);
    for (uint32_t place = 0; place < SAMPLES; place++)
        reverse [place] = order [SAMPLES - 1 - place];
    for (int reversed = 0; reversed < 2; reversed++) {
        orders_record_t *record = orders_record_new (&options);
        s_deliver (record, order, SAMPLES);
        s_deliver (record, reversed? reverse: order, SAMPLES);
        orders_figures_t figures = orders_record_figures (record);
        s_same (random, "phi2", mean_of (&figures.phi2 [0]), 9 - 81.0 / SAMPLES);
        s_same (random, "tail to head", mean_of (&figures.tail_to_head), reversed? 20: 0);
        s_same (random, "pair repeat", mean_of (&figures.pair_repeat), (SAMPLES - 1.0) / (BATCH - 1));
        s_same (random, "correlation", mean_of (&figures.correlations [0]), reversed? -1: 1);
        orders_figures_clear (&figures);
        orders_record_destroy (&record);
    }
}

//  Strata and marked ids: means of positions, by hand.
static void
test_positions_of_strata_and_marked (void **state)
{
    (void) state;
    //  Ids 37 .. 46; strata: 0 is 37, 38 and 45, 46; 1 is 39 .. 44; 2 is another job's.
    const orders_stratum_t pieces [] = { { 0, 37, 2 }, { 37, 39, 0 }, { 39, 45, 1 }, { 45, 47, 0 },
        { 47, 60, 2 } };
    uint8_t marked [60] = { 0 };
    marked [39] = marked [46] = marked [50] = 1;
    orders_options_t options = s_options (10, 4);
    options.pieces = pieces;
    options.piece_count = 5;
    options.marked = marked;
    orders_record_t *record = orders_record_new (&options);
    s_deliver (record, (const uint32_t []) { 0, 9, 1, 8, 2, 3, 4, 5, 6, 7 }, 10);
    orders_figures_t figures = orders_record_figures (record);
    assert_int_equal (figures.stratum_count, 3);
    s_same (0, "stratum 0", mean_of (&figures.strata [0]), 0.2);    //  places 0 .. 3, each with half a place
                                                                    //  more
    s_same (0, "stratum 1", mean_of (&figures.strata [1]), 0.7);
    assert_int_equal (figures.strata [2].count, 0);
    s_same (0, "marked", mean_of (&figures.marked_position), (4.5 + 1.5) / 20);
    s_same (0, "marked in the first batch", mean_of (&figures.marked_first), 1 / (2 * 0.4));
    orders_figures_clear (&figures);
    orders_record_destroy (&record);
}

//  A foreign id, a repeat, a missing one: each is seen, and the epochs around it are still measured.
static void
test_not_exactly_once (void **state)
{
    (void) state;
    enum { FOREIGN_BELOW, FOREIGN_ABOVE, REPEAT, MISSING, WAYS };
    const uint32_t order [] = { 3, 1, 0, 2 };
    for (int way = 0; way < WAYS; way++) {
        orders_options_t options = s_options (4, 2);
        orders_record_t *record = orders_record_new (&options);
        s_deliver (record, order, 4);
        for (uint32_t place = 0; place < (way == MISSING || way == REPEAT? 3: 4); place++)
            orders_record_deliver (record, FROM + order [place]);
        if (way != MISSING)
            orders_record_deliver (record,
                way == FOREIGN_BELOW? FROM - 1: way == FOREIGN_ABOVE? FROM + 4: FROM + order [0]);
        orders_record_epoch_end (record);
        s_deliver (record, order, 4);
        s_deliver (record, order, 4);
        orders_figures_t figures = orders_record_figures (record);
        if (figures.exactly_once)
            fail_msg ("way %d was not seen", way);
        assert_int_equal (figures.epochs, 4);
        assert_int_equal (figures.phi2 [0].count, 1);       //  of the last two alone
        assert_int_equal (figures.correlations [2].count, 1);
        orders_figures_clear (&figures);
        orders_record_destroy (&record);
    }
}

//  Positions over many runs: uniform shuffles pass, and a bias of one sample in one bin is seen.
static void
test_bins_see_a_bias (void **state)
{
    (void) state;
    enum { SAMPLES = 50, RUNS = 2000 };
    static _Atomic uint32_t bins [2] [SAMPLES * ORDERS_BINS];
    memset ((void *) bins, 0, sizeof bins);
    uint64_t random = test_seed ();
    uint32_t order [SAMPLES];
    for (int biased = 0; biased < 2; biased++)
        for (int run = 0; run < RUNS; run++) {
            s_shuffle (order, SAMPLES, &random);
            //  Every fifth time sample 7 comes first.
            for (uint32_t place = 0; place < SAMPLES && biased && run % 5 == 0; place++)
                if (order [place] == 7) {
                    order [place] = order [0];
                    order [0] = 7;
                }
            orders_options_t options = s_options (SAMPLES, 5);
            options.bins = bins [biased];
            orders_record_t *record = orders_record_new (&options);
            s_deliver (record, order, SAMPLES);
            orders_record_destroy (&record);
        }
    double fair = orders_bins_z (bins [0], SAMPLES, RUNS), unfair = orders_bins_z (bins [1], SAMPLES, RUNS);
    if (fabs (fair) > 3.9 || unfair < 10)
        fail_msg ("seed %" PRIu64 ": z is %.2f of fair shuffles and %.2f of biased ones", test_seed (), fair,
            unfair);
}

//  Over uniform shuffles z is 0 on average, also where there are fewer places than bins: the degrees of
//  freedom are right.  A mean of 400 is 0.05 off by chance; without the factor (n - 1) / n it would be 0.7
//  and more.
static void
test_z_is_centred (void **state)
{
    (void) state;
    enum { TRIALS = 400, RUNS = 100, MOST = 20 };
    uint64_t random = test_seed ();
    uint32_t order [MOST];
    for (uint32_t samples = 10; samples <= MOST; samples += 10) {
        double sum = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            _Atomic uint32_t bins [MOST * ORDERS_BINS] = { 0 };
            orders_options_t options = s_options (samples, 5);
            options.bins = bins;
            for (int run = 0; run < RUNS; run++) {
                orders_record_t *record = orders_record_new (&options);
                s_shuffle (order, samples, &random);
                s_deliver (record, order, samples);
                orders_record_destroy (&record);
            }
            sum += orders_bins_z (bins, samples, RUNS);
        }
        if (fabs (sum / TRIALS) > 0.3)
            fail_msg ("seed %" PRIu64 ": %u samples: the mean z is %.3f", test_seed (), samples,
                sum / TRIALS);
    }
}

//  Two runs' figures together weigh every pair of epochs alike.
static void
test_merged_figures (void **state)
{
    (void) state;
    const uint32_t up [] = { 0, 1, 2, 3 }, down [] = { 3, 2, 1, 0 };
    orders_options_t options = s_options (4, 2);
    orders_figures_t figures [2];
    for (int run = 0; run < 2; run++) {
        orders_record_t *record = orders_record_new (&options);
        s_deliver (record, up, 4);
        s_deliver (record, run? down: up, 4);
        if (run)
            s_deliver (record, down, 4);
        figures [run] = orders_record_figures (record);
        orders_record_destroy (&record);
    }
    orders_figures_merge (&figures [0], &figures [1]);
    assert_int_equal (figures [0].epochs, 3);
    assert_int_equal (figures [0].correlation_count, 2);
    s_same (0, "first pair", mean_of (&figures [0].correlations [0]), 0);
    s_same (0, "second pair", mean_of (&figures [0].correlations [1]), 1);
    assert_int_equal (figures [0].phi2 [0].count, 3);
    orders_figures_clear (&figures [0]);
    orders_figures_clear (&figures [1]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_figures_are_as_defined),
        cmocka_unit_test (test_identical_and_reversed_epochs),
        cmocka_unit_test (test_positions_of_strata_and_marked),
        cmocka_unit_test (test_not_exactly_once),
        cmocka_unit_test (test_bins_see_a_bias),
        cmocka_unit_test (test_z_is_centred),
        cmocka_unit_test (test_merged_figures),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
