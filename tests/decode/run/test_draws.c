/*  test_draws -- that what operations draw has torchvision's distributions: blurs, choices,
 *  orders, perspectives, displacements and mixtures.
 *
 *  Compared by chi-square with BINS - 1 = 19 degrees of freedom: one stays under LIMIT but for 2e-6 of all
 *  seeds, so those of a run raise a false alarm in fewer than 1e-4 of runs.
 */
#include <math.h>
#include <string.h>
#include "augment.h"
#include "geometry.h"
#include "pipelines.h"
#include "plan.h"
#include "seed.h"
#include "warp.h"

enum { DRAWS = 20000, BINS = 20 };
static const double LIMIT = 62;

static keyed_random_t
s_stream (uint64_t id)
{
    pipeline_key_t key = { .seed = test_seed (), .id = id };
    keyed_random_t random;
    keyed_random_init (&random, &key, 0, 3);
    return random;
}

//  Whether counts are as many as shares say; count is at most BINS.
static void
s_check (const char *name, const uint32_t *counts, const double *shares, size_t count, double draws)
{
    double sum = 0;
    for (size_t bin = 0; bin < count; bin++) {
        double expected = shares? draws * shares [bin]: draws / (double) count;
        if (expected > 0)
            sum += (counts [bin] - expected) * (counts [bin] - expected) / expected;
        else
            assert_int_equal (counts [bin], 0);
    }
    print_message ("%s: chi-square %.1f of %zu bins, seed %" PRIu64 "\n", name, sum, count, test_seed ());
    if (sum > LIMIT)
        fail_msg ("seed %" PRIu64 ": %s has chi-square %g", test_seed (), name, sum);
}

//  Guards: sigma and radius are uniform between their ends, and one number is drawn.
static void
test_blurs_are_uniform (void **state)
{
    (void) state;
    uint32_t sigmas [BINS] = { 0 }, radii [BINS] = { 0 };
    operation_t blur = { .kind = OPERATION_GAUSSIAN_BLUR, .blur = { .range = { 0.1, 2.1 } } };
    operation_t boxes = { .kind = OPERATION_PILLOW_GAUSSIAN_BLUR, .blur = { .range = { 5, 15 } } };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id), again = random, other = s_stream (id + DRAWS);
        double sigma = geometry_blur (&blur, &random), radius = geometry_blur (&boxes, &other);
        keyed_random_next (&again);
        assert_int_equal (again.used, random.used);
        assert_true (sigma >= 0.1 && sigma < 2.1 && radius >= 5 && radius < 15);
        sigmas [(size_t) ((sigma - 0.1) / 2 * BINS)]++;
        radii [(size_t) ((radius - 5) / 10 * BINS)]++;
    }
    s_check ("sigma", sigmas, NULL, BINS, DRAWS);
    s_check ("radius", radii, NULL, BINS, DRAWS);
}

//  Guards: a part comes as often as its weight says, one of weight 0 never.
static void
test_choices_have_their_weights (void **state)
{
    (void) state;
    operation_t choice = { .kind = OPERATION_RANDOM_CHOICE, .group = { .parts = 5,
        .weights = { 0, 3, 1.5, 0, 0.5 } } };
    uint32_t parts [5] = { 0 };
    const double shares [5] = { 0, 0.6, 0.3, 0, 0.1 };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id);
        parts [geometry_choose_part (&choice, &random)]++;
    }
    s_check ("part", parts, shares, 5, DRAWS);
}

//  Guards: each of the orders is as frequent as any other.
static void
test_orders_are_uniform (void **state)
{
    (void) state;
    enum { PARTS = 3, ORDERS = 6 };
    operation_t order = { .kind = OPERATION_RANDOM_ORDER, .group = { .parts = PARTS } };
    uint32_t orders [PARTS * PARTS] = { 0 }, seen [ORDERS], count = 0;
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id);
        uint32_t parts [GROUP_PARTS_MAX];
        geometry_choose_order (&order, &random, parts);
        assert_true (parts [0] + parts [1] + parts [2] == PARTS && parts [0] != parts [1]);
        assert_true (parts [1] != parts [2] && parts [0] != parts [2]);
        orders [parts [0] * PARTS + parts [1]]++;
    }
    for (size_t index = 0; index < PARTS * PARTS; index++)
        if (orders [index]) {
            assert_true (count < ORDERS);
            seen [count++] = orders [index];
        }
    assert_int_equal (count, ORDERS);
    s_check ("order", seen, NULL, ORDERS, DRAWS);
}

//  Guards: what a list becomes, with groups in groups: each operation at most once, behind its group, those
//  of a part one after the other.
static void
test_lists_are_chosen (void **state)
{
    (void) state;
    const pipeline_t *pipeline = pipeline_of ("[{'op':'center_crop','size':8},"
        "{'op':'random_order','counts':[1,3]},{'op':'flip'},{'op':'random_choice','counts':[0,2],'p':[1,3]},"
        "{'op':'invert'},{'op':'equalize'},{'op':'vertical_flip'}]");
    const plan_t *plan = pipeline_plan (pipeline);
    assert_int_equal (plan->count, 8);
    uint32_t counts [4] = { 0 };
    for (uint64_t id = 0; id < DRAWS; id++) {
        pipeline_key_t key = { .seed = test_seed (), .id = id };
        geometry_chosen_t chosen = geometry_choose (plan->operations, 1, plan->count, &key, 0);
        char text [PIPELINE_OPERATIONS_MAX + 1] = "";
        for (size_t index = 0; index < chosen.count; index++)
            text [index] = (char) ('0' + chosen.operations [index]);
        static const char *const lists [4] = { "12347", "1234567", "12437", "1245637" };
        size_t which = 0;
        while (which < 4 && strcmp (text, lists [which]))
            which++;
        if (which == 4)
            fail_msg ("seed %" PRIu64 ": %s", test_seed (), text);
        counts [which]++;
    }
    const double shares [4] = { 0.125, 0.375, 0.125, 0.375 };
    s_check ("list", counts, shares, 4, DRAWS);
    pipeline_destroy (&pipeline);
}

//  Guards: each corner goes uniformly to a pixel of its part of the image, across and down by itself.
static void
test_corners_are_uniform (void **state)
{
    (void) state;
    enum { HEIGHT = 37, WIDTH = 31, DOWN = 10, ACROSS = 8 };    //  of 18 and 15 x 0.5, and the corner itself
    operation_t perspective = { .kind = OPERATION_RANDOM_PERSPECTIVE,
        .probability = 1, .perspective = { .distortion = 0.5 } };
    static const int64_t from [4] [2] = { { 0, 0 }, { WIDTH - ACROSS, 0 }, { WIDTH - ACROSS, HEIGHT - DOWN },
        { 0, HEIGHT - DOWN } };
    uint32_t counts [4] [2] [BINS] = { { { 0 } } }, both [ACROSS] [2] = { { 0 } };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id), again = random;
        warp_corners_t drawn = warp_draw_corners (&perspective, HEIGHT, WIDTH, &random);
        for (int draw = 0; draw < 8; draw++)
            keyed_random_next (&again);
        assert_int_equal (again.used, random.used);
        for (size_t corner = 0; corner < 4; corner++)
            for (size_t axis = 0; axis < 2; axis++) {
                int64_t at = drawn.corners [corner] [axis] - from [corner] [axis];
                assert_true (at >= 0 && at < (axis? DOWN: ACROSS));
                counts [corner] [axis] [at]++;
            }
        both [drawn.corners [0] [0]] [drawn.corners [0] [1] % 2]++;
    }
    for (size_t corner = 0; corner < 4; corner++) {
        s_check ("corner across", counts [corner] [0], NULL, ACROSS, DRAWS);
        s_check ("corner down", counts [corner] [1], NULL, DOWN, DRAWS);
    }
    s_check ("across and down", both [0], NULL, 2 * ACROSS, DRAWS);
}

//  Guards: without a blur displacements are uniform within alpha, across and down, and neighbours are
//  independent; one number gives two.
static void
test_displacements_are_uniform (void **state)
{
    (void) state;
    enum { HEIGHT = 7, WIDTH = 5, PIXELS = HEIGHT * WIDTH };
    static float field [2 * PIXELS + PIXELS + WIDTH + 2 * 127];
    operation_t elastic = { .kind = OPERATION_ELASTIC_TRANSFORM, .elastic = { .alpha = { 20, 60 } } };
    uint32_t counts [2] [BINS] = { 0 }, both [BINS] = { 0 };
    assert_true (warp_field_floats (HEIGHT, WIDTH) <= sizeof field / sizeof *field);
    for (uint64_t id = 0; id < DRAWS / PIXELS; id++) {
        keyed_random_t random = s_stream (id), again = random;
        warp_draw_field (&elastic, HEIGHT, WIDTH, &random, field);
        for (int draw = 0; draw < PIXELS; draw++)
            keyed_random_next (&again);
        assert_int_equal (again.used, random.used);
        for (size_t at = 0; at < 2 * PIXELS; at++) {
            bool is_down = at >= PIXELS;
            double alpha = is_down? 60.0 / HEIGHT: 20.0 / WIDTH;
            double share = ((double) field [at] / alpha + 1) / 2;
            assert_true (share >= 0 && share <= 1);
            counts [is_down] [(size_t) fmin (share * BINS, BINS - 1)]++;
            if (at % 2 == 0)
                both [(size_t) fmin (share * 10, 9) * 2 + (field [at + 1] > 0)]++;
        }
    }
    s_check ("displacement across", counts [0], NULL, BINS, DRAWS / PIXELS * PIXELS);
    s_check ("displacement down", counts [1], NULL, BINS, DRAWS / PIXELS * PIXELS);
    s_check ("neighbours", both, NULL, BINS, DRAWS / PIXELS * PIXELS);
}

//  Guards: gamma variates have the mean and the variance of their shape, for shapes on both sides of 1.
static void
test_gamma_variates (void **state)
{
    (void) state;
    static const double alphas [] = { 0.1, 0.5, 1, 3, 100 };
    for (size_t index = 0; index < sizeof alphas / sizeof *alphas; index++) {
        double alpha = alphas [index], sum = 0, squares = 0;
        for (uint64_t id = 0; id < DRAWS; id++) {
            keyed_random_t random = s_stream (id);
            double variate = augment_mix_gamma (alpha, &random);
            assert_true (variate > 0);
            sum += variate;
            squares += (variate - alpha) * (variate - alpha);
        }
        //  The variance is alpha, that of the squares 2 alpha^2 + 6 alpha; beyond 5.5 deviations: once in 2e7
        //  runs, with alpha 0.1 in 1e5.
        assert_true (fabs (sum / DRAWS - alpha) < 5.5 * sqrt (alpha / DRAWS));
        assert_true (fabs (squares / DRAWS - alpha) < 5.5 * sqrt ((2 * alpha * alpha + 6 * alpha) / DRAWS));
    }
}

//  Guards: with alpha 1 the image's weight is uniform, and of two chains each one's share of the rest; kinds,
//  levels, signs and lengths are even; weights add up to 1.
static void
test_mixtures_are_uniform (void **state)
{
    (void) state;
    enum { KINDS = 13, SEVERITY = 4 };
    operation_t mix = { .kind = OPERATION_AUG_MIX, .augment = { .level = SEVERITY, .bins = 10, .chains = 2,
        .alpha = 1, .all_kinds = true } };
    uint32_t originals [BINS] = { 0 }, parts [BINS] = { 0 }, lengths [3] = { 0 };
    uint32_t kinds [AUGMENT_KINDS] = { 0 }, levels [SEVERITY] = { 0 }, signs [2] = { 0 };
    uint32_t steps = 0, rotations = 0, seen [KINDS], count = 0;
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id);
        augment_mix_t drawn = augment_mix_draw (&mix, 200, 300, &random);
        double rest = 1 - (double) drawn.original;
        assert_true (fabs ((double) drawn.weights [0] + (double) drawn.weights [1] - rest) < 1e-6);
        originals [(size_t) fmin ((double) drawn.original * BINS, BINS - 1)]++;
        parts [(size_t) fmin ((double) drawn.weights [0] / rest * BINS, BINS - 1)]++;
        lengths [drawn.lengths [0] - 1]++;
        const augment_step_t *step = &drawn.steps [1] [0];
        kinds [step->kind]++;
        steps++;
        if (step->kind != AUGMENT_ROTATE)
            continue;
        double level = fabs (step->magnitude) / 30 * 9;
        assert_true (fabs (level - rint (level)) < 1e-4 && rint (level) < SEVERITY);
        levels [(size_t) rint (level)]++;
        signs [signbit (step->magnitude) != 0]++;
        rotations++;
    }
    for (size_t kind = 0; kind < AUGMENT_KINDS; kind++)
        if (kinds [kind]) {
            assert_true (count < KINDS && kind != AUGMENT_IDENTITY && kind != AUGMENT_INVERT);
            seen [count++] = kinds [kind];
        }
    assert_int_equal (count, KINDS);
    s_check ("weight of the image", originals, NULL, BINS, DRAWS);
    s_check ("weight of a chain", parts, NULL, BINS, DRAWS);
    s_check ("length", lengths, NULL, 3, DRAWS);
    s_check ("kind", seen, NULL, KINDS, steps);
    s_check ("level", levels, NULL, SEVERITY, rotations);
    s_check ("sign", signs, NULL, 2, rotations);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_blurs_are_uniform),
        cmocka_unit_test (test_choices_have_their_weights),
        cmocka_unit_test (test_orders_are_uniform),
        cmocka_unit_test (test_lists_are_chosen),
        cmocka_unit_test (test_corners_are_uniform),
        cmocka_unit_test (test_displacements_are_uniform),
        cmocka_unit_test (test_gamma_variates),
        cmocka_unit_test (test_mixtures_are_uniform),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
