//  The order's judge: laws against all orders of few and shuffles of many, and orders that are no shuffle.

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "effort.h"
#include "seed.h"
#include "verify_order.h"

enum { SAMPLES_MAX = 20000 };

static void
s_shuffle (uint32_t *order, uint32_t from, uint32_t to, uint64_t *random)
{
    for (uint32_t left = to - from; left > 1; left--) {
        uint32_t other = from + (uint32_t) test_below (random, left), swap = order [from + left - 1];
        order [from + left - 1] = order [other];
        order [other] = swap;
    }
}

static void
s_identity (uint32_t *order, uint32_t samples)
{
    for (uint32_t place = 0; place < samples; place++)
        order [place] = place;
}

//  ---- moments: those that the judge computes are those that shuffles have

typedef struct {
    double sum, squares, expected, spread;
    uint32_t count, low [2];            //  p below 1e-2, 1e-3
} moments_t;

static void
s_take_moments (const verify_order_t *result, moments_t *moments)
{
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const verify_figure_t *figure = &result->figures [index];
        if (!figure->tested)
            continue;
        moments_t *all = &moments [index];
        all->sum += figure->value;
        all->squares += figure->value * figure->value;
        all->expected = figure->expected;
        all->spread = figure->spread;
        all->count++;
        all->low [0] += figure->p < 1e-2;
        all->low [1] += figure->p < 1e-3;
    }
}

//  Each figure's mean within 4.5 standard errors (false alarm 7e-6 each), its spread within 12 %; few low
//  p's.
static void
s_check_moments (const moments_t *moments, const char *what)
{
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const moments_t *all = &moments [index];
        if (all->count == 0)
            continue;
        double mean = all->sum / all->count, spread = sqrt (all->squares / all->count - mean * mean);
        double off = (mean - all->expected) / all->spread * sqrt (all->count);
        bool is_calibrated = all->low [0] < 0.01 * all->count + 6 * sqrt (0.01 * all->count) + 3
            && all->low [1] < 0.002 * all->count + 6 * sqrt (0.002 * all->count) + 3;
        if (fabs (off) > 4.5 || fabs (spread / all->spread - 1) > 0.12 || !is_calibrated)
            fail_msg ("%s, figure %zu: mean %g for %g (%.1f errors), spread %g for %g, low %u %u of %u", what,
                index, mean,
                all->expected, off, spread, all->spread, all->low [0], all->low [1], all->count);
    }
}

static void
test_shuffles_have_the_laws (void **state)
{
    (void) state;
    static const struct { uint32_t samples, rounds, classes; } cases [] = {
        { 30, 4000, 2 }, { 64, 4000, 10 }, { 200, 4000, 100 }, { 1500, 1500, 3 }
    };
    static uint32_t order [SAMPLES_MAX];
    static int64_t labels [SAMPLES_MAX];
    uint64_t random = test_seed ();
    for (size_t index = 0; index < sizeof cases / sizeof cases [0]; index++) {
        uint32_t samples = cases [index].samples;
        moments_t moments [VERIFY_ORDER_TESTS] = { { 0 } };
        for (uint32_t id = 0; id < samples; id++)
            labels [id] = id * cases [index].classes / samples;
        s_identity (order, samples);
        for (uint32_t round = 0; round < EFFORT (cases [index].rounds); round++) {
            verify_order_t result;
            s_shuffle (order, 0, samples, &random);
            assert_int_equal (verify_order (order, samples, 64, labels, &result), 0);
            if (result.faults)
                fail_msg ("seed %" PRIu64 ": a shuffle of %u is no shuffle", test_seed (), samples);
            s_take_moments (&result, moments);
        }
        char what [80];
        snprintf (what, sizeof what, "seed %" PRIu64 ", %u samples", test_seed (), samples);
        s_check_moments (moments, what);
    }
}


//  ---- what is no shuffle

static void
s_expect (const uint32_t *order, uint32_t samples, const int64_t *labels, const char *names)
{
    verify_order_t result;
    assert_int_equal (verify_order (order, samples, 64, labels, &result), 0);
    assert_int_not_equal (result.faults, 0);
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const verify_figure_t *figure = &result.figures [index];
        if (strstr (names, figure->name) && !(figure->tested && figure->p < VERIFY_ORDER_BOUND))
            fail_msg ("%u samples: %s is no fault: %g for %g +- %g, p %g", samples, figure->name,
                figure->value, figure->expected, figure->spread, figure->p);
    }
}

//  Sorted, backwards, and rotated.
static void
test_sorted_orders (void **state)
{
    (void) state;
    static uint32_t order [SAMPLES_MAX];
    static int64_t labels [SAMPLES_MAX];
    for (uint32_t samples = 30; samples <= SAMPLES_MAX; samples *= 4) {
        for (uint32_t id = 0; id < samples; id++)
            labels [id] = id * 10 / samples;
        s_identity (order, samples);
        s_expect (order, samples, labels, "correlation ascents jumps neighbours");
        for (uint32_t place = 0; place < samples; place++)
            order [place] = samples - 1 - place;
        s_expect (order, samples, labels, "correlation ascents jumps neighbours");
        for (uint32_t place = 0; place < samples; place++)
            order [place] = (place + samples / 2) % samples;
        s_expect (order, samples, labels, "ascents jumps neighbours");
    }
}

//  A shuffle buffer of 1,000, blocks of 64 that moved as a whole, and shuffles within classes.
static void
test_half_shuffles (void **state)
{
    (void) state;
    static uint32_t order [SAMPLES_MAX];
    static int64_t labels [SAMPLES_MAX];
    uint32_t samples = SAMPLES_MAX, blocks = SAMPLES_MAX / 64;
    uint64_t random = test_seed ();
    for (uint32_t id = 0; id < samples; id++)
        labels [id] = id / 200;
    s_identity (order, samples);
    for (uint32_t place = 0; place < samples; place++) {
        uint32_t ahead = samples - place < 1000? samples - place: 1000;
        uint32_t other = place + (uint32_t) test_below (&random, ahead), swap = order [place];
        order [place] = order [other];
        order [other] = swap;
    }
    s_expect (order, samples, labels, "correlation jumps tenths chunk_mates labels");
    samples = blocks * 64;
    uint32_t moved [SAMPLES_MAX / 64];
    s_identity (moved, blocks);
    s_shuffle (moved, 0, blocks, &random);
    for (uint32_t place = 0; place < samples; place++)
        order [place] = moved [place / 64] * 64 + place % 64;
    for (uint32_t block = 0; block < blocks; block++)
        s_shuffle (order, block * 64, block * 64 + 64, &random);
    s_expect (order, samples, labels, "jumps chunk_mates labels");
}

static void
test_few_samples_say_nothing (void **state)
{
    (void) state;
    uint32_t order [VERIFY_ORDER_LEAST];
    verify_order_t result;
    s_identity (order, VERIFY_ORDER_LEAST);
    for (uint32_t samples = 1; samples < VERIFY_ORDER_LEAST; samples++) {
        assert_int_equal (verify_order (order, samples, 64, NULL, &result), 0);
        assert_int_equal (result.tested, 0);
        assert_int_equal (result.faults, 0);
    }
}

//  All alike, all different: nothing to say of labels.
static void
test_labels_without_a_law (void **state)
{
    (void) state;
    uint32_t order [100];
    int64_t labels [100] = { 0 };
    uint64_t random = test_seed ();
    verify_order_t result;
    s_identity (order, 100);
    s_shuffle (order, 0, 100, &random);
    assert_int_equal (verify_order (order, 100, 64, labels, &result), 0);
    assert_false (result.figures [6].tested);
    for (int64_t id = 0; id < 100; id++)
        labels [id] = id;
    assert_int_equal (verify_order (order, 100, 64, labels, &result), 0);
    assert_false (result.figures [6].tested);
    assert_int_equal (result.tested, 5);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_shuffles_have_the_laws),
        cmocka_unit_test (test_sorted_orders),
        cmocka_unit_test (test_half_shuffles),
        cmocka_unit_test (test_few_samples_say_nothing),
        cmocka_unit_test (test_labels_without_a_law)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
