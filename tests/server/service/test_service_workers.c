//  Workers on other machines and clients: each sends its own messages and no others.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
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
    assert_int_equal (broker_jobs_total (play_broker (play)), 0);
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (workers_and_clients_keep_to_their_messages) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
