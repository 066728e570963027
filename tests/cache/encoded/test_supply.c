//  A supply beside an array of flags: what is in it, and that each member can be chosen.  Replay: TEST_SEED.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "supply.h"

enum { IDS = 500, STEPS = EFFORT (20000) };

static void
s_check (const supply_t *supply, const bool *model)
{
    bool found [IDS] = { false };
    supply_check (supply);
    for (uint32_t place = 0; place < supply->count; place++)
        found [supply->ids [place]] = true;
    assert_memory_equal (found, model, sizeof found);
}

//  Ids near each other and far apart, as many as half of them or next to none.
static void
test_is_a_set (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", seed);
    supply_t supply = { .count = 0 };
    bool model [IDS] = { false };
    assert_false (supply_has (&supply, 3));
    assert_false (supply_remove (&supply, 3));
    for (int step = 0; step < STEPS; step++) {
        uint32_t id = (uint32_t) test_below (&seed, IDS);
        bool grows = step / 1000 % 2 == 0 || test_below (&seed, 4) == 0;
        if (!grows)
            assert_int_equal (supply_remove (&supply, id), model [id]);
        else
        if (!model [id])
            supply_add (&supply, id);
        model [id] = grows;
        assert_int_equal (supply_has (&supply, id), model [id]);
        if (step % 64 == 0)
            s_check (&supply, model);
    }
    s_check (&supply, model);
    supply_clear (&supply);
    assert_int_equal (supply.count, 0);
    assert_false (supply_has (&supply, 3));
    supply_clear (&supply);
}

//  Must hold: a supply takes no more memory than is said of its number of ids, and that is not far from it:
//  jobs are admitted by it.
static void
test_its_memory_is_what_is_said (void **state)
{
    (void) state;
    supply_t supply = { .count = 0 };
    for (uint32_t id = 0; id < 5000; id++) {
        supply_add (&supply, id);
        size_t takes = (supply.table_size + supply.table_size / 2) * sizeof (uint32_t),
            given = malloc_usable_size (supply.table) + malloc_usable_size (supply.ids),
            told = supply_bytes (supply.count);
        assert_in_range (given, takes, takes + 256);        //  what the allocator adds
        if (takes > told || told > 2 * takes + 64)
            fail_msg ("%u ids take %zu bytes, and %zu are told", supply.count, takes, told);
    }
    supply_clear (&supply);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_is_a_set),
        cmocka_unit_test (test_its_memory_is_what_is_said) };
    return cmocka_run_group_tests_name ("supply", tests, NULL, NULL);
}
