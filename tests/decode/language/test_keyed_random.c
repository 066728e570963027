/*  test_keyed_random -- the stream is what its header says, depends on every field of the key, and is
 *  uniform.
 */
#include <math.h>
#include <string.h>
#include "pipelines.h"
#include "keyed_random.h"
#include "seed.h"

//  Computed by Python: hashlib.blake2b (b"tureen-1" + struct.pack ("<QQQIIII", 1, 2, 3, 4, 5, 6,
//  block)).digest ().
static void
test_known_numbers (void **state)
{
    (void) state;
    pipeline_key_t key = { .seed = 1, .round = 2, .id = 3, .occurrence = 4 };
    keyed_random_t random;
    keyed_random_init (&random, &key, 5, 6);
    uint64_t numbers [9];
    for (int index = 0; index < 9; index++)
        numbers [index] = keyed_random_next (&random);
    assert_true (numbers [0] == 0x21ebbe95b4b4d8dfu);
    assert_true (numbers [7] == 0xbdaec85aeaa031f1u);
    assert_true (numbers [8] == 0x1b55f568a90d5aa5u);       //  the first of the second block
}

//  Each field alone changes the stream, the upper halves included; so do view and place.
static void
test_every_field_counts (void **state)
{
    (void) state;
    static const uint64_t high = (uint64_t) 1 << 40;
    const pipeline_key_t keys [] = {
        { 0 }, { .seed = 1 }, { .seed = high }, { .round = 1 }, { .round = high }, { .id = 1 },
        { .id = high }, { .occurrence = 1 }, { .occurrence = 1u << 31 }
    };
    static const struct { uint32_t view, place; } others [] = {
        { 1, 0 }, { 1u << 31, 0 }, { 0, 1 }, { 0, 1u << 31 }
    };
    enum { KEYS = sizeof keys / sizeof *keys, OTHERS = sizeof others / sizeof *others, ALL = KEYS + OTHERS };
    uint64_t first [ALL];
    for (size_t index = 0; index < ALL; index++) {
        keyed_random_t random;
        if (index < KEYS)
            keyed_random_init (&random, &keys [index], 0, 0);
        else
            keyed_random_init (&random, &keys [0], others [index - KEYS].view, others [index - KEYS].place);
        first [index] = keyed_random_next (&random);
        for (size_t other = 0; other < index; other++)
            assert_true (first [index] != first [other]);
    }
}

//  The same key gives the same stream, whatever was drawn in between.
static void
test_deterministic (void **state)
{
    (void) state;
    pipeline_key_t key = { .seed = test_seed (), .id = 9 }, other_key = { .seed = test_seed (), .id = 10 };
    keyed_random_t one, two, other;
    keyed_random_init (&one, &key, 0, 0);
    keyed_random_init (&two, &key, 0, 0);
    keyed_random_init (&other, &other_key, 0, 0);
    for (int index = 0; index < 100; index++) {
        uint64_t number = keyed_random_next (&one);
        for (int skip = 0; skip < index % 3; skip++)
            keyed_random_next (&other);
        assert_true (number == keyed_random_next (&two));
    }
}

//  First numbers of neighbouring keys, as the pipeline uses them: uniform in 100 bins.  Chi-square with 99
//  degrees of freedom stays under 180 but for 1e-6 of all seeds.
static void
test_uniform_over_keys (void **state)
{
    (void) state;
    enum { BINS = 100, DRAWS = 200000 };
    uint32_t uniform [BINS] = { 0 }, below [BINS] = { 0 };
    for (uint64_t id = 0; id < DRAWS; id++) {
        pipeline_key_t key = { .seed = test_seed (), .round = id % 3, .id = id };
        keyed_random_t random;
        keyed_random_init (&random, &key, 0, 1);
        double number = keyed_random_uniform (&random);
        assert_true (number >= 0 && number < 1);
        uniform [(int) (number * BINS)]++;
        uint64_t bounded = keyed_random_below (&random, BINS);
        assert_true (bounded < BINS);
        below [bounded]++;
    }
    double expected = (double) DRAWS / BINS, chi_uniform = 0, chi_below = 0;
    for (int bin = 0; bin < BINS; bin++) {
        chi_uniform += pow (uniform [bin] - expected, 2) / expected;
        chi_below += pow (below [bin] - expected, 2) / expected;
    }
    if (chi_uniform > 180 || chi_below > 180)
        fail_msg ("seed %" PRIu64 ": chi-square %g, %g", test_seed (), chi_uniform, chi_below);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_known_numbers),
        cmocka_unit_test (test_every_field_counts),
        cmocka_unit_test (test_deterministic),
        cmocka_unit_test (test_uniform_over_keys),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
