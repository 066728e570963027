//  A clock that counts only time in which its owner looks.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "clock.h"

enum { BEGIN = 7000000, PAUSE = 100 };

//  Guards: a pause counts as long as it is, up to what the owner meant to wait; the next one counts from the
//  look before, not from where the clock stands.
static void
test_stalls_do_not_count (void **state)
{
    (void) state;
    static const uint64_t cases [] [2] = {          //  passes, and counts
        { 0, 0 }, { PAUSE - 1, PAUSE - 1 }, { PAUSE, PAUSE }, { PAUSE + 1, PAUSE },
        { 60000000000, PAUSE }, { 3, 3 }
    };
    watched_clock_t clock = watched_clock_new (BEGIN);
    assert_int_equal (clock.now_ns, BEGIN);
    uint64_t system_ns = BEGIN, expected_ns = BEGIN;
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        watched_clock_look (&clock, system_ns += cases [index] [0], PAUSE);
        assert_int_equal (clock.now_ns, expected_ns += cases [index] [1]);
    }
}

//  Guards: each look has a pause of its own.
static void
test_another_pause (void **state)
{
    (void) state;
    watched_clock_t clock = watched_clock_new (0);
    watched_clock_look (&clock, 5000000, 2000000);
    watched_clock_look (&clock, 9000000, 3000000);
    assert_int_equal (clock.now_ns, 5000000);
    assert_int_equal (watched_clock_ms (&clock), 5);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_stalls_do_not_count),
        cmocka_unit_test (test_another_pause) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
