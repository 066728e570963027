/*  Questions about samples (EXPLAIN): how many at once, and which epoch is asked for.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>
#include "explaining.h"
#include "service_asserts.h"
#include "service_play.h"

//  Whichever sample is asked for, it can be told of.
#define JOIN_SEEDED "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\",\"order\":\"seeded\",\"seed\":\"7\"}"

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
        assert_error_for (play, 1, 30, "busy", "at most 4 of a job");
        for (uint64_t count = 0; count < OF_TENANT - EXPLAINING_OF_JOB_MAX; count++)
            s_explain (play, 2, PLAY_A2, jobs [1], 40 + count);
        assert_null (play_last (play, 2, WIRE_ERROR));
        s_explain (play, 2, PLAY_A2, jobs [1], 50);
        assert_error_for (play, 2, 50, "busy", "");
        s_explain (play, 3, PLAY_B, other, 60);
        assert_null (play_last (play, 3, WIRE_ERROR));
        play_rest (play, false);
        for (int turn = 0; turn < 10; turn++)
            play_turn (play, 0);
        assert_error_for (play, 3, 60, "bad_sample", "");
        assert_int_equal (play_count (play, 1, WIRE_ERROR), EXPLAINING_OF_JOB_MAX + 1);
        play_rest (play, true);
    }
    play_destroy (&play);
}

//  Makes the first sample an image of one pixel; the others stay what no decoder reads.
static void
s_make_image (void)
{
    static const uint8_t png [] = {
        137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82, 0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0,
        0, 0, 31, 21, 196, 137, 0, 0, 0, 10, 73, 68, 65, 84, 120, 156, 99, 0, 1, 0, 0, 5, 0, 1, 13, 10,
        45, 180, 0, 0, 0, 0, 73, 69, 78, 68, 174, 66, 96, 130 };
    char path [400];
    play_t *play = play_new (true);             //  which makes the files
    json_t *status = play_status (play, PLAY_ROOT);
    snprintf (path, sizeof path, "%s/class/train-000.jpg", json_string_value (json_object_get (
        json_array_get (json_object_get (status, "datasets"), 0), "path")));
    json_decref (status);
    play_destroy (&play);
    int file = open (path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true (file >= 0);
    assert_int_equal (write (file, png, sizeof png), sizeof png);
    close (file);
}

//  Must hold: what can be told of a sample is the answer, and no error.
static void
a_sample_is_explained (void **state)
{
    (void) state;
    s_make_image ();
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_A1, JOIN_SEEDED);
    play_turn (play, 100);
    s_explain (play, 1, PLAY_A1, job, 9);
    for (int turn = 0; turn < 10; turn++)
        play_turn (play, 0);
    assert_null (play_last (play, 1, WIRE_ERROR));
    const play_sent_t *reply = play_last (play, 1, WIRE_EXPLAIN_REPLY);
    assert_true (reply && reply->tag == 9 && reply->job == job);
    assert_non_null (strstr (reply->text, "{\"id\":\"0\",\"epoch\":\"0\""));
    assert_non_null (strstr (reply->text, "class/train-000.jpg"));
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (questions_are_bounded),
        cmocka_unit_test (a_sample_is_explained),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
