/*  Joins with more ids than the server's thread reads by itself: a worker does, and their tenant's line waits
 *  for it.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "reply.h"
#include "service_asserts.h"
#include "service_play.h"
#include "request_queue.h"

enum { LONG_IDS = 70000, BATCH = 1000, A = 1, A_OTHER = 2, B = 3 };

#define JOIN_LIST "{\"dataset\":\"train\",\"batch_size\":1000,\"epochs\":1,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"," \
    "\"order\":\"list\",\"frames\":[\"list\"]}"
#define JOIN_SHORT "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"}"

//  A JOIN of LONG_IDS ids, the last of which is given.
static void
s_join_long (play_t *play, uint32_t peer, uint32_t user, uint64_t last)
{
    wire_head_t head = reply_head (WIRE_JOIN, 0, 77);
    static uint64_t numbers [1 + LONG_IDS];
    numbers [0] = WIRE_IDS_LIST;
    for (size_t index = 1; index < LONG_IDS; index++)
        numbers [index] = index % PLAY_SAMPLES;
    numbers [LONG_IDS] = last;
    frame_t frames [3] = { { (const uint8_t *) &head, sizeof head },
        { (const uint8_t *) JOIN_LIST, strlen (JOIN_LIST) },
        { (const uint8_t *) numbers, sizeof numbers } };
    play_say_frames (play, peer, user, frames, 3);
}

static void
s_some_turns (play_t *play)
{
    for (int turn = 0; turn < 10; turn++)
        play_turn (play, 200);
}

//  Must hold: while it is read nothing of its tenant overtakes it, other tenants are served, and its own
//  heartbeats are no errors; then there is a job, which gets all of it.
static void
its_line_waits_and_no_other (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_rest (play, true);
    s_join_long (play, A, PLAY_A1, 7);
    s_some_turns (play);
    play_say (play, A, PLAY_A1, WIRE_HEARTBEAT, 0, 0, NULL, 0);
    play_say_text (play, A_OTHER, PLAY_A2, WIRE_STATUS, 0, 5, "{}");
    play_say_text (play, B, PLAY_B, WIRE_STATUS, 0, 5, "{}");
    s_some_turns (play);
    assert_null (play_last (play, A, 0));
    assert_null (play_last (play, A_OTHER, 0));
    assert_non_null (play_last (play, B, WIRE_STATUS_REPLY));
    assert_int_equal (service_wakeup (play_service (play)), INT64_MAX);         //  nothing to do before a
                                                                                //  worker is done
    play_rest (play, false);
    s_some_turns (play);
    const play_sent_t *joined = play_last (play, A, WIRE_JOINED);
    assert_non_null (joined);
    assert_int_equal (joined->tag, 77);
    assert_non_null (play_last (play, A_OTHER, WIRE_STATUS_REPLY));
    assert_error (play, A, "unknown_job", "");                                //  the heartbeat was of job
                                                                                //  0, in its turn
    uint64_t job = joined->job;
    for (int turn = 0; turn < 5000 && !play_last (play, A, WIRE_EPOCH_END); turn++) {
        uint64_t batches = play_count (play, A, WIRE_BATCH);
        wire_progress_t progress = { batches, batches, 0 };
        play_say (play, A, PLAY_A1, WIRE_PROGRESS, job, 0, &progress, sizeof progress);
        play_turn (play, 5);
    }
    assert_non_null (play_last (play, A, WIRE_EPOCH_END));
    assert_int_equal (play_count (play, A, WIRE_BATCH), LONG_IDS / BATCH);
    play_destroy (&play);
}

//  Must hold: joins of two tenants that wait for a worker at the same time are both answered.
static void
several_wait_for_a_worker (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join_long (play, A, PLAY_A1, 7);
    s_join_long (play, B, PLAY_B, 7);
    s_some_turns (play);
    assert_non_null (play_last (play, A, WIRE_JOINED));
    assert_non_null (play_last (play, B, WIRE_JOINED));
    play_destroy (&play);
}

static void
a_wrong_id_is_told (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    for (int turn = 0; turn < 3; turn++) {              //  the line goes on each time
        s_join_long (play, A, PLAY_A1, PLAY_SAMPLES);
        s_some_turns (play);
        assert_error (play, A, "bad_request",
            "list frame 0: number 69999 is sample 48, the data set has 48 samples");
        assert_int_equal (play_count (play, A, WIRE_ERROR), turn + 1);
    }
    assert_int_equal (service_jobs (play_service (play)), 0);
    play_destroy (&play);
}

static void
its_key_may_go (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_rest (play, true);
    s_join_long (play, A, PLAY_KEY, 7);
    s_join_long (play, A_OTHER, PLAY_KEY, 7);           //  behind it
    s_some_turns (play);
    play_revoke (play);
    assert_error (play, A_OTHER, "revoked", "");
    assert_null (play_last (play, A, 0));
    play_rest (play, false);
    s_some_turns (play);
    assert_error (play, A, "revoked", "");
    assert_int_equal (service_jobs (play_service (play)), 0);
    play_destroy (&play);
}

static void
its_client_may_go (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_rest (play, true);
    s_join_long (play, A, PLAY_A1, 7);
    s_some_turns (play);
    play_close (play, A);
    play_rest (play, false);
    s_some_turns (play);
    assert_int_equal (service_jobs (play_service (play)), 0);
    play_destroy (&play);
}

//  Must hold: when the service ends, it answers this request and those behind it.
static void
the_end_may_come (void **state)
{
    (void) state;
    for (int was_begun = 0; was_begun < 2; was_begun++) {
        play_t *play = play_new (true);
        play_rest (play, true);
        s_join_long (play, A, PLAY_A1, 7);
        if (was_begun)
            s_some_turns (play);
        play_say_text (play, A_OTHER, PLAY_A2, WIRE_JOIN, 0, 1, JOIN_SHORT);
        service_stop (play_service (play), play_now_ms (play));
        assert_error (play, A, "stopping", "");
        assert_error (play, A_OTHER, "stopping", "");
        play_destroy (&play);
    }
}

static void
the_server_may_drain (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_rest (play, true);
    s_join_long (play, A, PLAY_A1, 7);
    s_some_turns (play);
    play_say_text (play, B, PLAY_ROOT, WIRE_DRAIN, 0, 1, "{}");
    s_some_turns (play);
    play_rest (play, false);
    s_some_turns (play);
    assert_error (play, A, "stopping", "it takes no new jobs");
    play_destroy (&play);
}

//  Must hold: a refusal that has no room for all its words ends with dots.
static void
a_long_refusal_is_cut (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_say_text (play, A, PLAY_A1, WIRE_JOIN, 0, 1,
        "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1,\"pipeline\":[{\"op\":\"x\"}]}");
    s_some_turns (play);
    assert_error (play, A, "bad_request", "unknown operation");
    assert_error (play, A, "bad_request", "...");
    play_destroy (&play);
}

//  If there is one tenant alone, a client that finds its line full behind such a join waits, and all others
//  wait at the socket.
static void
a_full_line_behind_it_waits (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    play_rest (play, true);
    s_join_long (play, A, PLAY_ROOT, 7);
    s_some_turns (play);
    for (uint32_t count = 0; count < WAITING_CONNECTION_MAX; count++)
        play_say_text (play, A_OTHER, PLAY_ROOT, WIRE_STATUS, 0, 5, "{}");
    assert_false (service_is_full (play_service (play)));
    play_say_text (play, A_OTHER, PLAY_ROOT, WIRE_STATUS, 0, 6, "{}");
    assert_true (service_is_full (play_service (play)));
    s_some_turns (play);
    assert_null (play_last (play, A_OTHER, 0));
    play_rest (play, false);
    s_some_turns (play);
    assert_false (service_is_full (play_service (play)));
    assert_non_null (play_last (play, A, WIRE_JOINED));
    assert_int_equal (play_count (play, A_OTHER, WIRE_STATUS_REPLY), WAITING_CONNECTION_MAX + 1);
    play_destroy (&play);
}

//  The same when the end comes instead.
static void
the_end_answers_requests_that_found_it_full (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    play_rest (play, true);
    s_join_long (play, A, PLAY_ROOT, 7);
    s_some_turns (play);
    for (uint32_t count = 0; count <= WAITING_CONNECTION_MAX; count++)
        play_say_text (play, A_OTHER, PLAY_ROOT, WIRE_JOIN, 0, 5, JOIN_SHORT);
    assert_true (service_is_full (play_service (play)));
    service_stop (play_service (play), play_now_ms (play));
    assert_error (play, A, "stopping", "");
    assert_int_equal (play_count (play, A_OTHER, WIRE_ERROR), WAITING_CONNECTION_MAX + 1);
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (its_line_waits_and_no_other),
        cmocka_unit_test (several_wait_for_a_worker),
        cmocka_unit_test (a_wrong_id_is_told),
        cmocka_unit_test (its_key_may_go),
        cmocka_unit_test (its_client_may_go),
        cmocka_unit_test (the_end_may_come),
        cmocka_unit_test (the_server_may_drain),
        cmocka_unit_test (a_long_refusal_is_cut),
        cmocka_unit_test (a_full_line_behind_it_waits),
        cmocka_unit_test (the_end_answers_requests_that_found_it_full),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
