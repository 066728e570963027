/*  Ranks from JOIN to EPOCH_END as the service handles them: they gather, one is lost and comes back at once,
 *  late, or before the server knows of the loss.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "admission.h"
#include "reply.h"
#include "service_asserts.h"
#include "service_play.h"
#include "tenant.h"

//  Connections: of rank 0, of rank 1, of the client that comes for rank 1 after it, and of others.
enum { ZERO = 1, ONE = 2, ONE_AGAIN = 3, OTHER = 4, ANOTHER = 5 };
enum { BATCH = 4, WORLD = 2, STEPS = PLAY_SAMPLES / (BATCH * WORLD) };

//  Instances: each client object draws its own.
#define INSTANCE(digit) "\"instance\":\"" digit "0000000000000000000000000000000\""
#define RANK_OF(name, rank, more) "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1," \
    "\"pipeline\":\"eval\",\"transport\":\"inline\",\"job\":\"" name "\",\"world_size\":2," \
    "\"rank\":" #rank "," more "}"
#define RANK(rank, more) RANK_OF ("pair", rank, more)

static void
s_join (play_t *play, uint32_t peer, uint32_t user, const char *text)
{
    play_say_text (play, peer, user, WIRE_JOIN, 0, 7, text);
    service_serve (play_service (play), play_now_ms (play));
}

//  The job that the connection was told; fails if it was told none.
static uint64_t
s_joined (const play_t *play, uint32_t peer)
{
    const play_sent_t *joined = play_last (play, peer, WIRE_JOINED);
    if (!joined)
        fail_msg ("connection %u: no JOINED, but %s", peer,
            play_last (play, peer, 0)? play_last (play, peer, 0)->text: "nothing");
    return joined->job;
}

static void
s_assert_notice (const play_t *play, uint32_t peer, const char *word)
{
    const play_sent_t *sent = play_last (play, peer, WIRE_NOTICE);
    if (!sent || !strstr (sent->text, word))
        fail_msg ("to %u: expected NOTICE %s, it was: %s", peer, word, sent? sent->text: "nothing");
}

//  Both ranks of the job, both of this user.
static uint64_t
s_begin (play_t *play, uint32_t user)
{
    s_join (play, ZERO, user, RANK (0, INSTANCE ("a")));
    assert_null (play_last (play, ZERO, WIRE_JOINED));
    s_assert_notice (play, ZERO, "gathering");
    s_join (play, ONE, user, RANK (1, INSTANCE ("b")));
    uint64_t job = s_joined (play, ZERO);
    assert_int_equal (s_joined (play, ONE), job);
    assert_non_null (strstr (play_last (play, ONE, WIRE_JOINED)->text, "\"rank\":1"));
    return job;
}

//  Takes all that comes, until the epoch ends for both.
static void
s_consume (play_t *play, uint32_t user, uint64_t job, const uint32_t peers [WORLD])
{
    for (int turn = 0; turn < 2000; turn++) {
        for (int rank = 0; rank < WORLD; rank++) {
            uint64_t batches = play_count (play, peers [rank], WIRE_BATCH);
            wire_progress_t progress = { batches, batches, 0 };
            if (!play_last (play, peers [rank], WIRE_EPOCH_END))
                play_say (play, peers [rank], user, WIRE_PROGRESS, job, 0, &progress, sizeof progress);
        }
        play_turn (play, 5);
        if (play_last (play, peers [0], WIRE_EPOCH_END) && play_last (play, peers [1], WIRE_EPOCH_END))
            break;
    }
    for (int rank = 0; rank < WORLD; rank++) {
        assert_non_null (play_last (play, peers [rank], WIRE_EPOCH_END));
        assert_int_equal (play_count (play, peers [rank], WIRE_BATCH), STEPS);
    }
}

//  Must hold: one job, and as many batches for one rank as for the other.
static void
ranks_take_one_job (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    assert_int_equal (service_jobs (play_service (play)), 1);
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE });
    play_destroy (&play);
}

//  Must hold: a rank that asks for something else is told so, and so is the one that waits; there is no job.
static void
ranks_must_agree (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, ZERO, PLAY_A1, RANK (0, INSTANCE ("a")));
    s_join (play, ONE, PLAY_A1, RANK (1, "\"seed\":\"1\",\"drop_last\":true"));
    assert_error (play, ZERO, "ranks_differ", "");
    assert_error (play, ONE, "ranks_differ", "");
    assert_int_equal (service_jobs (play_service (play)), 0);
    s_begin (play, PLAY_A1);
    play_destroy (&play);
}

//  A member of JOINED that is a text; valid until the next call.
static const char *
s_told (const play_t *play, uint32_t peer, const char *key)
{
    static char text [80];
    json_t *joined = json_loads (play_last (play, peer, WIRE_JOINED)->text, 0, NULL);
    assert_non_null (joined);
    snprintf (text, sizeof text, "%s", json_string_value (json_object_get (joined, key)));
    json_decref (joined);
    return text;
}

//  Both ranks stand at the end of the last epoch, which one of them may, for the other's sake.
//  Must hold: a job that is refused when all ranks are there is refused to each of them, and leaves nothing.
static void
a_refusal_reaches_all_ranks (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    char resume [200], text [600];
    int length = snprintf (resume, sizeof resume, "\"resume\":{\"fingerprint\":\"%s\",",
        s_told (play, ZERO, "fingerprint"));
    snprintf (&resume [length], sizeof resume - (size_t) length, "\"data\":\"%s\",\"epoch\":\"1\"}",
        s_told (play, ZERO, "data"));
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE });
    play_say (play, ZERO, PLAY_A1, WIRE_LEAVE, job, 0, NULL, 0);
    play_say (play, ONE, PLAY_A1, WIRE_LEAVE, job, 0, NULL, 0);
    play_turn (play, 20);
    assert_int_equal (service_jobs (play_service (play)), 0);
    snprintf (text, sizeof text, RANK (0, "%s"), resume);
    s_join (play, OTHER, PLAY_A1, text);
    s_assert_notice (play, OTHER, "gathering");
    snprintf (text, sizeof text, RANK (1, "%s"), resume);
    s_join (play, ANOTHER, PLAY_A1, text);
    assert_error (play, OTHER, "bad_state", "");
    assert_error (play, ANOTHER, "bad_state", "");
    const char *log = play_log (play);
    assert_non_null (strstr (log, " name=pair state=refused: the ranks of job 'pair' are refused: the state "
        "is at epoch 1 (from 0), and"));
    assert_non_null (strstr (log, " code=bad_state user=1 times=1: the state is at epoch 1 (from 0), and"));
    assert_int_equal (service_jobs (play_service (play)), 0);
    play_destroy (&play);
}

//  Must hold: the other rank is told of the loss; the client that comes for it has the same job and gets all
//  that it lacks.
static void
a_lost_rank_comes_back (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    play_turn (play, 100);
    play_close (play, ONE);
    play_turn (play, 1000);
    s_assert_notice (play, ZERO, "rank_lost");
    const char *log = play_log (play);
    assert_non_null (strstr (log, " rank=1 user=1: job 4294967297, rank 1 is gone: its connection is "
        "closed\n"));
    assert_non_null (strstr (log, " rank=0 user=1 reason=rank_lost: job 4294967297, rank 0, rank_lost: "
        "rank 1 of job 'pair' is gone (its client "));
    s_join (play, ONE_AGAIN, PLAY_A1, RANK (1, INSTANCE ("b")));
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE_AGAIN });
    assert_int_equal (service_jobs (play_service (play)), 1);
    play_destroy (&play);
}

//  The rank's first batches are being copied when it is lost and comes back: a worker has its memory.
static play_t *
s_play_that_waits (uint32_t user, uint64_t *job_p)
{
    play_t *play = play_new (true);
    *job_p = s_begin (play, user);
    for (int turn = 0; turn < 2; turn++)            //  versions are prepared, then copies begin
        service_act (play_service (play), play_now_ms (play));
    play_rest (play, true);
    play_close (play, ONE);
    s_join (play, ONE_AGAIN, user, RANK (1, INSTANCE ("b")));
    assert_null (play_last (play, ONE_AGAIN, 0));
    s_join (play, ONE_AGAIN, user, RANK (1, INSTANCE ("b")));
    assert_error (play, ONE_AGAIN, "already_joined", "");
    play_forget_sent (play);
    play_turn (play, 1000);
    assert_null (play_last (play, ONE_AGAIN, 0));
    return play;
}

//  Must hold: it is answered when the worker is done, and gets its batches from the first on.
static void
it_waits_for_its_memory (void **state)
{
    (void) state;
    uint64_t job;
    play_t *play = s_play_that_waits (PLAY_A1, &job);
    play_rest (play, false);
    play_turn (play, 10);
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    play_destroy (&play);
}

static void
it_does_not_wait_for_ever (void **state)
{
    (void) state;
    uint64_t job;
    play_t *play = s_play_that_waits (PLAY_A1, &job);
    play_turn (play, ADMISSION_PATIENCE_MS - 2000);
    assert_null (play_last (play, ONE_AGAIN, 0));
    play_turn (play, 2000);
    assert_error (play, ONE_AGAIN, "busy", "");
    play_rest (play, false);
    play_turn (play, 10);
    s_join (play, ONE_AGAIN, PLAY_A1, RANK (1, INSTANCE ("b")));
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    play_destroy (&play);
}

static void
the_end_answers_it (void **state)
{
    (void) state;
    uint64_t job;
    play_t *play = s_play_that_waits (PLAY_A1, &job);
    service_stop (play_service (play), play_now_ms (play));
    assert_error (play, ONE_AGAIN, "stopping", "");
    play_destroy (&play);
}

static void
its_key_may_be_revoked (void **state)
{
    (void) state;
    uint64_t job;
    play_t *play = s_play_that_waits (PLAY_KEY, &job);
    play_revoke (play);
    assert_error (play, ONE_AGAIN, "revoked", "");
    play_rest (play, false);
    play_turn (play, 10);
    assert_null (play_last (play, ONE_AGAIN, WIRE_JOINED));
    play_destroy (&play);
}

//  Both ranks of a job, on connections first and first + 1.
static uint64_t
s_begin_at (play_t *play, uint32_t first, uint32_t user)
{
    s_join (play, first, user, RANK (0, INSTANCE ("a")));
    s_join (play, first + 1, user, RANK (1, INSTANCE ("b")));
    return s_joined (play, first);
}

//  Must hold: when a key is revoked, another tenant's rank that waits for its memory goes on waiting.
static void
others_wait_on (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    enum { OF_KEY = 1, OF_B = 11 };
    s_begin_at (play, OF_KEY, PLAY_KEY);
    uint64_t job = s_begin_at (play, OF_B, PLAY_B);
    for (int turn = 0; turn < 2; turn++)            //  versions are prepared, then copies begin
        service_act (play_service (play), play_now_ms (play));
    play_rest (play, true);
    play_close (play, OF_KEY + 1);
    s_join (play, OF_KEY + 2, PLAY_KEY, RANK (1, INSTANCE ("b")));
    play_close (play, OF_B + 1);
    s_join (play, OF_B + 2, PLAY_B, RANK (1, INSTANCE ("b")));
    play_turn (play, 1000);
    assert_null (play_last (play, OF_B + 2, 0));
    play_revoke (play);
    assert_error (play, OF_KEY + 2, "revoked", "");
    play_turn (play, 1000);
    assert_null (play_last (play, OF_B + 2, 0));
    play_rest (play, false);
    play_turn (play, 10);
    assert_int_equal (s_joined (play, OF_B + 2), job);
    assert_null (play_last (play, OF_KEY + 2, WIRE_JOINED));
    play_destroy (&play);
}

//  Must hold: a tenant's ranks wait in its share of the places; there is one here.
static void
a_tenant_waits_in_its_share (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    broker_t *broker = play_broker (play);
    tenant_limit (broker, tenant_named (broker, "b"), &(broker_tenant_t) { .name = "b", .weight = 100 });
    assert_int_equal (tenant_share (broker, tenant_named (broker, "a"), ADMISSION_RETURNING_MAX), 1);
    enum { MATE = 11 };
    uint64_t job = s_begin (play, PLAY_A1);
    s_join (play, MATE, PLAY_A2, RANK_OF ("other", 0, INSTANCE ("a")));
    s_join (play, MATE + 1, PLAY_A2, RANK_OF ("other", 1, INSTANCE ("b")));
    for (int turn = 0; turn < 2; turn++)            //  versions are prepared, then copies begin
        service_act (play_service (play), play_now_ms (play));
    play_rest (play, true);
    play_close (play, ONE);
    s_join (play, ONE_AGAIN, PLAY_A1, RANK (1, INSTANCE ("b")));
    play_close (play, MATE + 1);
    s_join (play, MATE + 2, PLAY_A2, RANK_OF ("other", 1, INSTANCE ("b")));
    assert_null (play_last (play, ONE_AGAIN, 0));
    assert_error (play, MATE + 2, "busy", "");
    play_rest (play, false);
    play_turn (play, 10);
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    s_join (play, MATE + 3, PLAY_A2, RANK_OF ("other", 1, INSTANCE ("b")));
    assert_int_equal (s_joined (play, MATE + 3), s_joined (play, MATE));
    play_destroy (&play);
}

//  A client of the same run, but of another instance, comes while its rank is still there: it gathers.
//  Must hold: it has the rank as soon as that is lost, without having asked again.
static void
one_that_came_early_returns (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    char text [400];
    snprintf (text, sizeof text, RANK (1, "\"run\":\"%s\"," INSTANCE ("c")), s_told (play, ONE, "run"));
    play_turn (play, 20);
    s_join (play, ONE_AGAIN, PLAY_A1, text);
    play_turn (play, 1000);
    assert_null (play_last (play, ONE_AGAIN, WIRE_JOINED));
    s_assert_notice (play, ONE_AGAIN, "gathering");
    play_close (play, ONE);
    play_turn (play, 1000);
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE_AGAIN });
    assert_int_equal (service_jobs (play_service (play)), 1);
    play_destroy (&play);
}

//  Must hold: a client neither of the run nor of the rank's instance gets nothing, and the job goes on.
static void
a_stranger_is_refused (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    s_join (play, OTHER, PLAY_A1, RANK (1, INSTANCE ("d")));
    assert_error (play, OTHER, "job_taken", "");
    s_join (play, ANOTHER, PLAY_A2, RANK (1, INSTANCE ("b")));
    assert_error (play, ANOTHER, "job_taken", "");
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE });
    play_destroy (&play);
}

//  Must hold: a server that drains takes a rank back, and refuses those that gather and those that come to.
static void
a_draining_server_takes_ranks_back (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_begin (play, PLAY_A1);
    play_turn (play, 100);
    s_join (play, OTHER, PLAY_B, RANK (0, INSTANCE ("e")));
    play_say_text (play, ANOTHER, PLAY_ROOT, WIRE_DRAIN, 0, 1, "{}");
    play_turn (play, 20);
    assert_error (play, OTHER, "stopping", "");
    s_join (play, OTHER, PLAY_B, RANK (0, INSTANCE ("e")));
    assert_error (play, OTHER, "stopping", "");
    play_close (play, ONE);
    play_turn (play, 1000);
    s_join (play, ONE_AGAIN, PLAY_A1, RANK (1, INSTANCE ("b")));
    assert_int_equal (s_joined (play, ONE_AGAIN), job);
    s_consume (play, PLAY_A1, job, (uint32_t []) { ZERO, ONE_AGAIN });
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (ranks_take_one_job),
        cmocka_unit_test (ranks_must_agree),
        cmocka_unit_test (a_refusal_reaches_all_ranks),
        cmocka_unit_test (a_lost_rank_comes_back),
        cmocka_unit_test (it_waits_for_its_memory),
        cmocka_unit_test (it_does_not_wait_for_ever),
        cmocka_unit_test (the_end_answers_it),
        cmocka_unit_test (its_key_may_be_revoked),
        cmocka_unit_test (others_wait_on),
        cmocka_unit_test (a_tenant_waits_in_its_share),
        cmocka_unit_test (one_that_came_early_returns),
        cmocka_unit_test (a_stranger_is_refused),
        cmocka_unit_test (a_draining_server_takes_ranks_back),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
