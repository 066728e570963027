/*  Questions about samples (EXPLAIN): how many at once, and which epoch is asked for.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "explaining.h"
#include "service_play.h"

//  Whichever sample is asked for, it can be told of.
#define JOIN_SEEDED "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\",\"order\":\"seeded\",\"seed\":\"7\"}"

static void
s_assert_error (const play_t *play, uint32_t peer, uint64_t tag, const char *code, const char *fragment)
{
    const play_sent_t *sent = play_last (play, peer, WIRE_ERROR);
    char wanted [80];
    snprintf (wanted, sizeof wanted, "{\"error\":\"%s\"", code);
    if (!sent || sent->tag != tag || strncmp (sent->text, wanted, strlen (wanted)) != 0
    ||  !strstr (sent->text, fragment))
        fail_msg ("to %u: expected %s with '%s', it was: %s", peer, code, fragment,
            sent? sent->text: "nothing");
}

//  A job; its number.
static uint64_t
s_join (play_t *play, uint32_t peer, uint32_t user, const char *text)
{
    play_say_text (play, peer, user, WIRE_JOIN, 0, 77, text);
    play_turn (play, 0);
    assert_non_null (play_last (play, peer, WIRE_JOINED));
    return play_last (play, peer, WIRE_JOINED)->job;
}

static void
s_explain (play_t *play, uint32_t peer, uint32_t user, uint64_t job, uint64_t tag)
{
    play_say_text (play, peer, user, WIRE_EXPLAIN, job, tag, "{\"id\":\"0\",\"epoch\":\"0\"}");
    service_serve (play_service (play), play_now_ms (play));
}

//  Must hold: a job has so many questions at once and a tenant its share of all, and no other tenant pays;
//  an answer makes room for the next.
static void
questions_are_bounded (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    enum { OF_TENANT = EXPLAINING_MAX / 3 };
    uint64_t jobs [] = { s_join (play, 1, PLAY_A1, JOIN_SEEDED), s_join (play, 2, PLAY_A2, JOIN_SEEDED) };
    uint64_t other = s_join (play, 3, PLAY_B, JOIN_SEEDED);
    play_turn (play, 100);
    play_rest (play, true);
    for (uint64_t round = 0; round < 3; round++) {
        play_forget_sent (play);
        for (uint64_t count = 0; count < EXPLAINING_OF_JOB_MAX; count++)
            s_explain (play, 1, PLAY_A1, jobs [0], 10 + count);
        assert_null (play_last (play, 1, WIRE_ERROR));
        s_explain (play, 1, PLAY_A1, jobs [0], 30);
        s_assert_error (play, 1, 30, "busy", "at most 4 of a job");
        for (uint64_t count = 0; count < OF_TENANT - EXPLAINING_OF_JOB_MAX; count++)
            s_explain (play, 2, PLAY_A2, jobs [1], 40 + count);
        assert_null (play_last (play, 2, WIRE_ERROR));
        s_explain (play, 2, PLAY_A2, jobs [1], 50);
        s_assert_error (play, 2, 50, "busy", "");
        s_explain (play, 3, PLAY_B, other, 60);
        assert_null (play_last (play, 3, WIRE_ERROR));
        play_rest (play, false);
        for (int turn = 0; turn < 10; turn++)
            play_turn (play, 0);
        s_assert_error (play, 3, 60, "bad_sample", "");
        assert_int_equal (play_count (play, 1, WIRE_ERROR), EXPLAINING_OF_JOB_MAX + 1);
        play_rest (play, true);
    }
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (questions_are_bounded),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
