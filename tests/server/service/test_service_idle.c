//  When a server ends that is to end once it is not needed any more, on made-up time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include "service_play.h"

#define JOIN "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"}"

enum { SECOND = 1000, START = 5 * SECOND };

//  A job; its number.
static uint64_t
s_join (play_t *play)
{
    play_say_text (play, 1, PLAY_ROOT, WIRE_JOIN, 0, 77, JOIN);
    play_turn (play, 0);
    assert_non_null (play_last (play, 1, WIRE_JOINED));
    assert_int_equal (service_jobs (play_service (play)), 1);
    return play_last (play, 1, WIRE_JOINED)->job;
}

static void
s_leave (play_t *play, uint64_t job)
{
    play_say_text (play, 1, PLAY_ROOT, WIRE_LEAVE, job, 78, NULL);
    play_turn (play, 0);
    assert_int_equal (service_jobs (play_service (play)), 0);
}

//  Guards: before the first job there is a minute, or the limit where that is longer; then the limit counts,
//  from the last job's end.
static void
test_it_ends_after_the_last_job (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    service_t *service = play_service (play);
    service_begin_idle (service, 10 * SECOND, START);
    assert_false (service_is_idle (service, START + SERVICE_IDLE_START_MS - 1));
    assert_int_equal (service_idle_due_ms (service), START + SERVICE_IDLE_START_MS);
    assert_true (service_is_idle (service, START + SERVICE_IDLE_START_MS));
    service_begin_idle (service, 100 * SECOND, START);
    assert_false (service_is_idle (service, START + 99 * SECOND));
    assert_true (service_is_idle (service, START + 100 * SECOND));
    service_begin_idle (service, 10 * SECOND, START);
    uint64_t job = s_join (play);
    assert_false (service_is_idle (service, START + 30 * SECOND));
    assert_int_equal (service_idle_due_ms (service), INT64_MAX);
    assert_false (service_is_idle (service, START + 300 * SECOND));
    s_leave (play, job);
    assert_false (service_is_idle (service, START + 301 * SECOND));
    assert_int_equal (service_idle_due_ms (service), START + 310 * SECOND);
    job = s_join (play);                                                //  another has come
    assert_false (service_is_idle (service, START + 309 * SECOND));
    s_leave (play, job);
    assert_false (service_is_idle (service, START + 318 * SECOND));
    assert_true (service_is_idle (service, START + 319 * SECOND));
    play_destroy (&play);
}

//  Guards: a job that came and went between two looks was one.
static void
test_a_job_that_was_never_seen (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    service_t *service = play_service (play);
    service_begin_idle (service, 10 * SECOND, START);
    s_leave (play, s_join (play));
    assert_false (service_is_idle (service, START + SECOND));
    assert_int_equal (service_idle_due_ms (service), START + 11 * SECOND);
    s_leave (play, s_join (play));                                      //  and another one
    assert_false (service_is_idle (service, START + 11 * SECOND));
    assert_true (service_is_idle (service, START + 21 * SECOND));
    play_destroy (&play);
}

//  What status says of it; the caller's reference.
static json_t *
s_until_idle (play_t *play)
{
    json_t *status = play_status (play, PLAY_ROOT), *until_idle = json_object_get (status, "until_idle");
    assert_non_null (until_idle);
    json_incref (until_idle);
    json_decref (status);
    return until_idle;
}

//  Guards: without a limit it goes on for ever, and status says what is set and how long is left.
static void
test_without_a_limit_and_status (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    service_t *service = play_service (play);
    service_begin_idle (service, 0, START);
    assert_false (service_is_idle (service, INT64_MAX));
    assert_int_equal (service_idle_due_ms (service), INT64_MAX);
    json_t *none = s_until_idle (play);
    assert_true (json_is_null (none));
    json_decref (none);
    int64_t begin_ms = play_now_ms (play) - 3 * SECOND;
    service_begin_idle (service, 10 * SECOND, begin_ms);
    uint64_t job = s_join (play);
    assert_false (service_is_idle (service, begin_ms));
    json_t *busy = s_until_idle (play);
    s_leave (play, job);
    json_t *left = s_until_idle (play);
    assert_true (json_is_null (json_object_get (busy, "left")));
    assert_true (json_real_value (json_object_get (busy, "seconds")) == 10);
    assert_true (json_real_value (json_object_get (left, "left")) == 7);
    json_decref (busy);
    json_decref (left);
    play_destroy (&play);
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
