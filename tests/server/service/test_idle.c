//  When a server ends that is to end once it is not needed any more, on made-up time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "idle.h"

enum { SECOND = 1000, START = 5 * SECOND };

//  Guards: before the first job there is a minute, or the limit where that is longer; then the limit counts,
//  from the last job's end.
static void
test_it_ends_after_the_last_job (void **state)
{
    (void) state;
    idle_t idle;
    idle_begin (&idle, 10 * SECOND, START);
    assert_false (idle_look (&idle, 0, 0, START + IDLE_START_MS - 1));
    assert_int_equal (idle_due_ms (&idle, 0), START + IDLE_START_MS);
    assert_true (idle_look (&idle, 0, 0, START + IDLE_START_MS));
    idle_begin (&idle, 100 * SECOND, START);
    assert_false (idle_look (&idle, 0, 0, START + 99 * SECOND));
    assert_true (idle_look (&idle, 0, 0, START + 100 * SECOND));
    idle_begin (&idle, 10 * SECOND, START);
    assert_false (idle_look (&idle, 1, 1, START + 30 * SECOND));
    assert_int_equal (idle_due_ms (&idle, 1), INT64_MAX);
    assert_false (idle_look (&idle, 1, 1, START + 300 * SECOND));
    assert_false (idle_look (&idle, 0, 1, START + 301 * SECOND));
    assert_int_equal (idle_due_ms (&idle, 0), START + 310 * SECOND);
    assert_false (idle_look (&idle, 1, 2, START + 309 * SECOND));       //  another has come
    assert_false (idle_look (&idle, 0, 2, START + 318 * SECOND));
    assert_true (idle_look (&idle, 0, 2, START + 319 * SECOND));
}

//  Guards: a job that came and went between two looks was one.
static void
test_a_job_that_was_never_seen (void **state)
{
    (void) state;
    idle_t idle;
    idle_begin (&idle, 10 * SECOND, START);
    assert_false (idle_look (&idle, 0, 1, START + SECOND));
    assert_int_equal (idle_due_ms (&idle, 0), START + 11 * SECOND);
    assert_false (idle_look (&idle, 0, 2, START + 11 * SECOND));        //  and another one
    assert_true (idle_look (&idle, 0, 2, START + 21 * SECOND));
}

//  Guards: without a limit it goes on for ever, and status says what is set and how long is left.
static void
test_without_a_limit_and_status (void **state)
{
    (void) state;
    idle_t idle;
    idle_begin (&idle, 0, START);
    assert_false (idle_look (&idle, 0, 0, INT64_MAX));
    assert_int_equal (idle_due_ms (&idle, 0), INT64_MAX);
    json_t *none = idle_status (&idle, 0, START);
    assert_true (json_is_null (none));
    json_decref (none);
    idle_begin (&idle, 10 * SECOND, START);
    idle_look (&idle, 1, 1, START);
    json_t *busy = idle_status (&idle, 1, START + SECOND), *left = idle_status (&idle, 0, START + 3 * SECOND);
    assert_true (json_is_null (json_object_get (busy, "left")));
    assert_true (json_real_value (json_object_get (busy, "seconds")) == 10);
    assert_true (json_real_value (json_object_get (left, "left")) == 7);
    json_decref (busy);
    json_decref (left);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_it_ends_after_the_last_job),
        cmocka_unit_test (test_a_job_that_was_never_seen),
        cmocka_unit_test (test_without_a_limit_and_status)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
