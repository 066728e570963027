//  The division of --memory.

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "memory_parts.h"
#include "seed.h"

static const uint64_t MB = 1000 * 1000;

//  Guards: of 1 GB of data, a pack or a folder, pins get what is given but for a twentieth of the data.
static void
test_pins_get_the_rest (void **state)
{
    (void) state;
    for (uint64_t percent = 25; percent <= 90; percent += 5)
        for (int is_pack = 0; is_pack < 2; is_pack++) {
            memory_parts_wanted_t wanted = { .memory = percent * 10 * MB, .cache_least = 3 * MB,
                .pack_bytes = is_pack? 1000 * MB: 0, .data_bytes = 1000 * MB, .pins_most = 1003 * MB };
            memory_parts_t parts = memory_parts_divide (&wanted);
            assert_true (parts.pins + 46 * MB >= wanted.memory);
            assert_true (parts.cache >= MEMORY_PARTS_LEAST && parts.raw >= MEMORY_PARTS_LEAST);
        }
}

//  Guards: parts add up to all that there is, or more if a part is given or needed; what is given holds; if
//  data fit they are pinned, and the others get more only of what is left, and leave the most of it to pins.
static void
test_bounds (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    print_message ("seed %" PRIu64 "\n", random);
    for (int round = 0; round < 10000; round++) {
        memory_parts_wanted_t wanted = {
            .memory = 1 + test_below (&random, (uint64_t) 1 << test_below (&random, 45)),
            .cache_least = test_below (&random, 50 * MB), .raw_least = test_below (&random, 50 * MB),
            .data_bytes = test_below (&random, (uint64_t) 1 << test_below (&random, 45)) };
        wanted.pack_bytes = test_below (&random, 2)? wanted.data_bytes: 0;
        wanted.pins_most = wanted.data_bytes + wanted.data_bytes / 300;
        if (test_below (&random, 4) == 0)
            wanted.cache_given = 1 + test_below (&random, wanted.memory * 2);
        if (test_below (&random, 4) == 0)
            wanted.raw_given = 1 + test_below (&random, wanted.memory * 2);
        memory_parts_t parts = memory_parts_divide (&wanted);
        assert_true (parts.cache > 0 && parts.raw > 0);
        assert_true (!wanted.cache_given || parts.cache == wanted.cache_given);
        assert_true (!wanted.raw_given || parts.raw == wanted.raw_given);
        assert_true (wanted.cache_given || parts.cache >= wanted.cache_least);
        assert_true (wanted.raw_given || parts.raw >= wanted.raw_least);
        uint64_t sum = parts.cache + parts.raw + parts.pins;
        //  More than there is only where less cannot be divided.
        assert_true (parts.cache + parts.raw <= wanted.memory
            || wanted.memory < memory_parts_least (&wanted));
        if (wanted.memory < memory_parts_least (&wanted))
            assert_int_equal (sum, memory_parts_least (&wanted));
        if (parts.pins > 0)
            assert_int_equal (sum, wanted.memory);
        else
            assert_true (sum >= wanted.memory);
        bool is_by_rules = !wanted.cache_given && !wanted.raw_given && wanted.cache_least < wanted.memory / 8
            && wanted.raw_least < wanted.memory / 8;
        if (parts.pins < wanted.pins_most && is_by_rules)
            assert_true (parts.pins >= wanted.memory / 4 * 3 - 8);
        if (parts.pins > wanted.pins_most && is_by_rules) {
            assert_true (parts.raw >= wanted.memory / 8 && parts.cache >= wanted.memory / 4);
            assert_true (parts.pins >= wanted.memory / 8 * 5 - 8);
        }
    }
}

//  Guards: 64 MB are divided so that there is something of each for data of any size.
static void
test_small_memory (void **state)
{
    (void) state;
    memory_parts_wanted_t wanted = { .memory = 64 * MB, .cache_least = 3 * MB, .pack_bytes = 1000000 * MB,
        .data_bytes = 1000000 * MB, .pins_most = 1000300 * MB };
    memory_parts_t parts = memory_parts_divide (&wanted);
    assert_int_equal (parts.cache, 8 * MB);
    assert_int_equal (parts.raw, 8 * MB);
    assert_int_equal (parts.pins, 48 * MB);
}

//  Guards: what is the least is enough, and a byte less is not; of more, what mixing needs goes first.
static void
test_the_least (void **state)
{
    (void) state;
    memory_parts_wanted_t wanted = { .cache_least = 1 * MB, .raw_least = 8 * MB, .pack_bytes = 45 * MB,
        .data_bytes = 45 * MB, .pins_most = 45 * MB };
    assert_int_equal (memory_parts_least (&wanted), 9 * MB);
    for (uint64_t memory = 9 * MB - 1; memory <= 10 * MB; memory += 250001) {
        wanted.memory = memory;
        memory_parts_t parts = memory_parts_divide (&wanted);
        assert_int_equal (parts.raw, 8 * MB);
        assert_int_equal (parts.cache + parts.raw + parts.pins, memory < 9 * MB? 9 * MB: memory);
    }
    wanted.cache_given = 5 * MB;
    assert_int_equal (memory_parts_least (&wanted), 13 * MB);
    wanted.raw_given = 2 * MB;
    assert_int_equal (memory_parts_least (&wanted), 7 * MB);
    assert_int_equal (memory_parts_least (&(memory_parts_wanted_t) { .memory = 1 }), 2);
}

//  Guards: when a limit falls pins give way, and come back when it grows; the other parts stay.
static void
test_a_limit_that_changes (void **state)
{
    (void) state;
    memory_parts_t parts = { .cache = 10 * MB, .raw = 20 * MB, .pins = 50 * MB };
    assert_int_equal (memory_parts_pins_now (&parts, 1000 * MB), 50 * MB);
    assert_int_equal (memory_parts_pins_now (&parts, 80 * MB), 40 * MB);
    assert_int_equal (memory_parts_pins_now (&parts, 40 * MB), 5 * MB);
    assert_int_equal (memory_parts_pins_now (&parts, 8 * MB), 0);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pins_get_the_rest),
        cmocka_unit_test (test_bounds),
        cmocka_unit_test (test_small_memory),
        cmocka_unit_test (test_the_least),
        cmocka_unit_test (test_a_limit_that_changes)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
