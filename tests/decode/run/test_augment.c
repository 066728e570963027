/*  test_augment -- the draws of the augmentation policies: every kind, sign, magnitude and sub-policy as
 *  often as torchvision draws it, and the same for the same key.  test_augment.py compares the steps with
 *  torchvision's.
 *
 *  Counts are compared by chi-square; of the 8 tests of a run each raises a false alarm for fewer than 5e-6
 *  of all seeds (s_limit), so all together in fewer than 1e-4 of runs.
 */
#include <math.h>
#include <string.h>
#include "augment.h"
#include "pipelines.h"
#include "seed.h"

enum { DRAWS = 30000, HEIGHT = 200, WIDTH = 300, KINDS = 14, BINS = 31, SUB_POLICIES = 25 };

static keyed_random_t
s_stream (uint64_t id, uint64_t round, uint32_t view, uint32_t place)
{
    pipeline_key_t key = { .seed = test_seed (), .id = id, .round = round };
    keyed_random_t random;
    keyed_random_init (&random, &key, view, place);
    return random;
}

//  The value that chi-square exceeds for fewer than 5e-6 of all seeds, by Wilson and Hilferty: the normal
//  quantile is 4.42.
static double
s_limit (double freedom)
{
    double part = 2 / (9 * freedom);
    return freedom * pow (1 - part + 4.6 * sqrt (part), 3);
}

static void
s_check_even (const char *name, const uint32_t *counts, size_t cells)
{
    double sum = 0, all = 0;
    for (size_t cell = 0; cell < cells; cell++)
        all += counts [cell];
    for (size_t cell = 0; cell < cells; cell++)
        sum += pow (counts [cell] - all / (double) cells, 2) / (all / (double) cells);
    print_message ("%s: chi-square %.1f of %zu cells, seed %" PRIu64 "\n", name, sum, cells, test_seed ());
    if (sum > s_limit ((double) cells - 1))
        fail_msg ("seed %" PRIu64 ": %s has chi-square %g", test_seed (), name, sum);
}

static bool
s_is_signed (augment_kind_t kind)
{
    return kind >= AUGMENT_SHEAR_X && kind <= AUGMENT_SHARPNESS;
}

//  Both steps choose among all kinds, whatever the other chooses; signs are even.
static void
test_rand_augment (void **state)
{
    (void) state;
    uint32_t kinds [2] [KINDS] = { { 0 } }, pairs [KINDS * KINDS] = { 0 }, signs [2] = { 0 };
    operation_t operation = { .kind = OPERATION_RAND_AUGMENT,
        .augment = { .steps = 2, .level = 9, .bins = BINS } };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id, 1, 0, 4);
        augment_step_t steps [AUGMENT_STEPS_MAX];
        assert_int_equal (augment_draw (&operation, HEIGHT, WIDTH, &random, steps), 2);
        for (size_t index = 0; index < 2; index++) {
            assert_true ((size_t) steps [index].kind < KINDS);
            kinds [index] [steps [index].kind]++;
            if (s_is_signed (steps [index].kind))
                signs [signbit (steps [index].magnitude) != 0]++;
        }
        pairs [steps [0].kind * KINDS + steps [1].kind]++;
    }
    s_check_even ("kinds of the first", kinds [0], KINDS);
    s_check_even ("kinds of the second", kinds [1], KINDS);
    s_check_even ("pairs of kinds", pairs, KINDS * KINDS);
    s_check_even ("signs", signs, 2);
}

//  The magnitude of each kind at level 9 of 31, by torch.
static void
test_magnitudes (void **state)
{
    (void) state;
    static const double magnitudes [KINDS] = { 0, 0.09, 0.09, 150.0 / 331 * WIDTH * 9 / 30,
        150.0 / 331 * HEIGHT * 9 / 30, 9, 0.27, 0.27, 0.27, 0.27, 7, 178.5, 0, 0 };
    operation_t operation = { .kind = OPERATION_RAND_AUGMENT,
        .augment = { .steps = 1, .level = 9, .bins = BINS } };
    unsigned seen = 0;
    for (uint64_t id = 0; seen != (1u << KINDS) - 1; id++) {
        keyed_random_t random = s_stream (id, 1, 0, 4);
        augment_step_t steps [AUGMENT_STEPS_MAX];
        assert_int_equal (augment_draw (&operation, HEIGHT, WIDTH, &random, steps), 1);
        seen |= 1u << steps [0].kind;
        assert_true (fabs (fabs (steps [0].magnitude) - magnitudes [steps [0].kind]) < 1e-5);
        assert_true (steps [0].magnitude >= 0 || s_is_signed (steps [0].kind));
        assert_true (id < DRAWS);
    }
}

//  One step of any kind and any level.
static void
test_trivial_augment (void **state)
{
    (void) state;
    uint32_t kinds [KINDS] = { 0 }, levels [BINS] = { 0 }, signs [2] = { 0 };
    operation_t operation = { .kind = OPERATION_TRIVIAL_AUGMENT_WIDE, .augment = { .bins = BINS } };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id, 1, 0, 4);
        augment_step_t step [AUGMENT_STEPS_MAX];
        assert_int_equal (augment_draw (&operation, HEIGHT, WIDTH, &random, step), 1);
        kinds [step->kind]++;
        if (step->kind != AUGMENT_ROTATE)
            continue;
        double level = fabs (step->magnitude) / 135 * (BINS - 1);
        assert_true (fabs (level - rint (level)) < 1e-4);
        levels [(int) rint (level)]++;
        signs [signbit (step->magnitude) != 0]++;
    }
    s_check_even ("kinds", kinds, KINDS);
    s_check_even ("levels of rotations", levels, BINS);
    s_check_even ("signs of rotations", signs, 2);
}

//  Steps of CIFAR-10's policy that come from one or two of its sub-policies alone come as often as 25 even
//  sub-policies, and their probabilities, make them.
static void
test_auto_augment (void **state)
{
    (void) state;
    operation_t operation = { .kind = OPERATION_AUTO_AUGMENT, .augment = { .policy = AUGMENT_CIFAR10 } };
    uint32_t sheared [2] = { 0 }, inverted = 0, nothing = 0, signs [2] = { 0 };
    for (uint64_t id = 0; id < DRAWS; id++) {
        keyed_random_t random = s_stream (id, 1, 0, 4), again = random;
        augment_step_t steps [AUGMENT_STEPS_MAX];
        size_t count = augment_draw (&operation, HEIGHT, WIDTH, &random, steps);
        for (int draw = 0; draw < 5; draw++)
            keyed_random_next (&again);
        assert_int_equal (again.used, random.used);
        assert_true (count <= 2);
        nothing += count == 0;
        inverted += count > 0 && steps [0].kind == AUGMENT_INVERT && count == 1;
        if (count == 2 && steps [0].kind == AUGMENT_SHEAR_Y)
            sheared [steps [1].kind == AUGMENT_TRANSLATE_Y]++;
        for (size_t index = 0; index < count; index++)
            if (s_is_signed (steps [index].kind))
                signs [signbit (steps [index].magnitude) != 0]++;
    }
    //  (ShearY .5, TranslateY .7) and (ShearY .2, Posterize .3); Invert alone: (Invert .1, Contrast .2) and,
    //  last of two, (Equalize .8, Invert .1).
    const double shares [3] = { 0.5 * 0.7 / 25, 0.2 * 0.3 / 25, (0.1 * 0.8 + 0.2 * 0.1) / 25 };
    const uint32_t counts [3] = { sheared [1], sheared [0], inverted };
    for (size_t index = 0; index < 3; index++)
        //  Beyond 5.5 deviations: once in 2e7 runs.
        if (fabs (counts [index] - DRAWS * shares [index]) > 5.5 * sqrt (DRAWS * shares [index]))
            fail_msg ("seed %" PRIu64 ": case %zu comes %u times, not %g", test_seed (), index,
                counts [index], DRAWS * shares [index]);
    assert_true (nothing > 0);
    s_check_even ("signs", signs, 2);
}

//  One key, one answer; another epoch, view or place, another one in most cases.
static void
test_steps_follow_from_the_key (void **state)
{
    (void) state;
    enum { IDS = 500 };
    operation_t operation = { .kind = OPERATION_RAND_AUGMENT,
        .augment = { .steps = 2, .level = 9, .bins = BINS } };
    int equal [3] = { 0 };
    for (uint64_t id = 0; id < IDS; id++) {
        keyed_random_t streams [5] = { s_stream (id, 1, 0, 4), s_stream (id, 1, 0, 4), s_stream (id, 2, 0, 4),
            s_stream (id, 1, 1, 4), s_stream (id, 1, 0, 5) };
        augment_step_t steps [5] [AUGMENT_STEPS_MAX];
        memset (steps, 0, sizeof steps);
        for (size_t index = 0; index < 5; index++)
            augment_draw (&operation, HEIGHT, WIDTH, &streams [index], steps [index]);
        assert_memory_equal (steps [0], steps [1], sizeof steps [0]);
        for (size_t index = 0; index < 3; index++)
            equal [index] += memcmp (steps [0], steps [index + 2], sizeof steps [0]) == 0;
    }
    //  Expected: about one in 130.
    for (size_t index = 0; index < 3; index++)
        assert_true (equal [index] < IDS / 10);
}

//  Must hold: the same key draws the same steps in every version, of each operation.  So no probability,
//  kind or magnitude of a policy's table changes unseen.  Where one is meant to change, test_augment.py
//  compares it with torchvision, and the sums here follow.
static void
test_steps_of_other_versions (void **state)
{
    (void) state;
    enum { IDS = 20000 };
    static const struct { const char *name; operation_t operation; uint64_t sum; } golden [] = {
        { "rand_augment", { .kind = OPERATION_RAND_AUGMENT,
            .augment = { .steps = 2, .level = 9, .bins = BINS } }, UINT64_C (0x43b7ab7d91a1d2c8) },
        { "trivial_augment_wide", { .kind = OPERATION_TRIVIAL_AUGMENT_WIDE, .augment = { .bins = BINS } },
            UINT64_C (0x2ea0bb89ed46f702) },
        { "imagenet", { .kind = OPERATION_AUTO_AUGMENT, .augment = { .policy = AUGMENT_IMAGENET } },
            UINT64_C (0xec6c48e9ed6fbf1e) },
        { "cifar10", { .kind = OPERATION_AUTO_AUGMENT, .augment = { .policy = AUGMENT_CIFAR10 } },
            UINT64_C (0x0b3d77a232e595f2) },
        { "svhn", { .kind = OPERATION_AUTO_AUGMENT, .augment = { .policy = AUGMENT_SVHN } },
            UINT64_C (0xca50438136abbd17) }
    };
    for (size_t index = 0; index < sizeof golden / sizeof *golden; index++) {
        uint64_t sum = UINT64_C (0xcbf29ce484222325);               //  FNV-1a, of numbers in place of bytes
        for (uint64_t id = 0; id < IDS; id++) {
            keyed_random_t random;
            augment_step_t steps [AUGMENT_STEPS_MAX];
            keyed_random_init (&random, &(pipeline_key_t) { .seed = 7, .id = id, .round = 1 }, 0, 4);
            size_t count = augment_draw (&golden [index].operation, HEIGHT, WIDTH, &random, steps);
            for (size_t step = 0; step < count; step++) {
                sum = (sum ^ steps [step].kind) * UINT64_C (0x100000001b3);
                sum = (sum ^ (uint64_t) llround (steps [step].magnitude * 1e6)) * UINT64_C (0x100000001b3);
            }
            sum = (sum ^ count) * UINT64_C (0x100000001b3);
        }
        if (sum != golden [index].sum)
            fail_msg ("%s draws other steps: 0x%016" PRIx64, golden [index].name, sum);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_rand_augment),
        cmocka_unit_test (test_magnitudes),
        cmocka_unit_test (test_trivial_augment),
        cmocka_unit_test (test_auto_augment),
        cmocka_unit_test (test_steps_follow_from_the_key),
        cmocka_unit_test (test_steps_of_other_versions),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
