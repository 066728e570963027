//  Workers on other machines and clients: each sends its own messages and no others.  And which users see in
//  status what the server's own threads have been busy with for long.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include "service_asserts.h"
#include "service_play.h"

#define JOIN_TRAIN "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"}"

//  A client is no worker, and a worker no client; the server's own user may be both.
static void
workers_and_clients_keep_to_their_messages (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_say_text (play, 1, PLAY_A1, WIRE_WORK_HELLO, 0, 5, "{}");
    assert_error_for (play, 1, 5, "forbidden", "only the server's own user");
    play_say_text (play, 2, PLAY_KEY, WIRE_WORK_HELLO, 0, 6, "{}");
    assert_error_for (play, 2, 6, "forbidden", "no worker's key");
    assert_int_equal (play_worker_messages (play), 0);
    play_say_text (play, 3, PLAY_ROOT, WIRE_WORK_HELLO, 0, 7, "{}");
    assert_int_equal (play_worker_messages (play), 1);
    play_be_worker (play);
    play_say_text (play, 4, PLAY_A1, WIRE_WORK_HELLO, 0, 8, "{}");
    assert_int_equal (play_worker_messages (play), 2);
    play_say_text (play, 4, PLAY_A1, WIRE_JOIN, 0, 9, JOIN_TRAIN);
    assert_error_for (play, 4, 9, "forbidden", "a worker's key");
    play_say_text (play, 4, PLAY_A1, WIRE_STATUS, 0, 10, "{}");
    assert_error_for (play, 4, 10, "forbidden", "a worker's key");
    play_turn (play, 0);
    uint64_t total;
    broker_jobs (play_broker (play), &total);
    assert_int_equal (total, 0);
    play_destroy (&play);
}

static void
s_assert_long_tasks_of (play_t *play, uint32_t user, const char *expected)
{
    json_t *status = play_status (play, user);
    const json_t *task = json_array_get (json_object_get (status, "long_tasks"), 0);
    assert_string_equal (json_string_value (json_object_get (task, "asked_for")), expected);
    json_decref (status);
}

//  A user sees the tenant's, an operator all; where there is one tenant, so does every user.
static void
long_tasks_are_those_of_the_users_tenant (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_assert_long_tasks_of (play, PLAY_A1, "a");
    s_assert_long_tasks_of (play, PLAY_A2, "a");
    s_assert_long_tasks_of (play, PLAY_B, "b");
    s_assert_long_tasks_of (play, PLAY_ROOT, "all");
    play_destroy (&play);
    play = play_new (false);
    s_assert_long_tasks_of (play, PLAY_A1, "all");
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (workers_and_clients_keep_to_their_messages),
        cmocka_unit_test (long_tasks_are_those_of_the_users_tenant)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
