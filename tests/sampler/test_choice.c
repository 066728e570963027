/*  Guards: a pick is in the set and uniform over it, whether the set is dense or sparse.  */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "choice.h"
#include "seed.h"
#include "statistics.h"

enum { IDS_MAX = 64, CASES = 80, PICKS = 3000 };

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
            uint32_t id = choice_pick (set, count, count * stride, &random);
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
        cmocka_unit_test (test_pick_is_uniform_over_the_set),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
