/*  Ranks that do not fit the ranks that wait: other settings, other users, too many; and tenants, which do
 *  not meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include "frames.h"
#include "meeting.h"

//  ---- ranks that do not fit

static void
ranks_that_differ (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    meeting_add (gathering, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    meeting_outbox.count = 0;
    assert_int_equal (meeting_add (gathering, NOW, 3,
        "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"batch_size\":16"), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "ranks_differ", "rank 0 has batch_size 8, rank 2 16");
    //  Asked first whether they live, then refused.
    assert_int_equal (meeting_outbox.count, 4);
    meeting_assert_sent (2, 1, WIRE_ERROR, "\"error\":\"ranks_differ\"");
    meeting_assert_sent (3, 2, WIRE_ERROR, "rank 0 has batch_size 8, rank 2 16");
    assert_true (rank_gathering_count (gathering, NULL) == 0 && rank_gathering_bytes (gathering,
        NULL) == 0);
    //  The world's size too, also where the rank is beyond the others'.
    meeting_add (gathering, NOW, 1, RANK (0));
    assert_int_equal (meeting_add (gathering, NOW, 2,
        "\"job\":\"j\",\"world_size\":40,\"rank\":39,\"batch_size\":8"), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "ranks_differ", "");
    assert_int_equal (rank_gathering_count (gathering, NULL), 0);
    meeting_end (gathering);
}

//  A setting that only some ranks give is compared among those that give it, whichever rank came first.
static void
ranks_of_two_runs (void **state)
{
    (void) state;
    for (unsigned silent = 0; silent < 2; silent++) {
        rank_gathering_t *gathering = meeting_begin ();
        meeting_add (gathering, NOW, 1, silent? "\"job\":\"j\",\"world_size\":3,\"rank\":0"
            : "\"job\":\"j\",\"world_size\":3,\"rank\":0" RUN);
        meeting_add (gathering, NOW, 2, silent? "\"job\":\"j\",\"world_size\":3,\"rank\":1" RUN
            : "\"job\":\"j\",\"world_size\":3,\"rank\":1");
        assert_int_equal (meeting_add (gathering, NOW, 3, "\"job\":\"j\",\"world_size\":3,\"rank\":2,"
            "\"run\":\"00000000000000000000000000000001\""), RANK_GATHERING_REFUSED);
        assert_refusal (&meeting_refusal, "ranks_differ", silent? "rank 1 has another run than rank 2"
            : "rank 0 has another run than rank 2");
        assert_int_equal (rank_gathering_count (gathering, NULL), 0);
        meeting_end (gathering);
    }
}

//  A run that was killed while it waited, and is started anew with other settings, is not held up by itself.
static void
dead_ranks_differ_from_none (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    meeting_add (gathering, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    meeting_outbox.is_gone [1] = meeting_outbox.is_gone [2] = true;
    assert_int_equal (meeting_add (gathering, NOW, 3, RANK (0) ",\"batch_size\":16"), RANK_GATHERING_WAITS);
    assert_int_equal (rank_gathering_count (gathering, NULL), 1);
    assert_int_equal (meeting_add (gathering, NOW, 4, RANK (1) ",\"batch_size\":16"),
        RANK_GATHERING_COMPLETE);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

static void
other_users_and_plain_jobs (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, RANK (0));
    assert_int_equal (meeting_add_of (gathering, NOW, 2, UID + 1, RANK (1)), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "job_taken",
        "the job name 'j' is another user's at present: take another");
    assert_int_equal (rank_gathering_count (gathering, NULL), 1);
    join_t *plain = meeting_join (gathering, 3, UID, "\"job\":\"j\""),
        *other = meeting_join (gathering, 3, UID, "\"job\":\"k\"");
    join_t *nameless = meeting_join (gathering, 3, UID, "\"name\":\"j\"");
    join_t *foreign = meeting_join (gathering, 3, UID + 1, "\"job\":\"j\"");
    assert_false (rank_gathering_leaves_name (gathering, plain, NOW + 3000, &meeting_refusal));
    assert_refusal (&meeting_refusal, "job_taken",
        "1 of 2 ranks wait for a job of the name 'j', since 3 seconds");
    assert_false (rank_gathering_leaves_name (gathering, foreign, NOW, &meeting_refusal));
    assert_refusal (&meeting_refusal, "job_taken", "another user's");
    assert_true (rank_gathering_leaves_name (gathering, other, NOW, &meeting_refusal));
    assert_true (rank_gathering_leaves_name (gathering, nameless, NOW, &meeting_refusal));
    meeting_outbox.is_gone [1] = true;
    assert_true (rank_gathering_leaves_name (gathering, plain, NOW, &meeting_refusal));
    assert_int_equal (rank_gathering_count (gathering, NULL), 0);
    join_destroy (&plain);
    join_destroy (&other);
    join_destroy (&nameless);
    join_destroy (&foreign);
    meeting_end (gathering);
}

//  What can never work is told to the first; what may be otherwise when all are here is not asked of it.
static void
broker_is_asked_at_first (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_broker.refuses = "budget";
    assert_int_equal (meeting_add (gathering, NOW, 1, RANK (0)), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "budget", "the broker says no");
    assert_int_equal (rank_gathering_count (gathering, NULL), 0);
    meeting_broker.refuses = "job_taken";
    assert_int_equal (meeting_add (gathering, NOW, 1,
        meeting_with_data (RANK (0) ",\"epochs\":4" RESUME (4, 0))), RANK_GATHERING_WAITS);
    assert_true (meeting_broker.terms.epoch == 3 && meeting_broker.terms.epochs == 4);
    size_t asked = meeting_broker.asked;
    assert_int_equal (meeting_add (gathering, NOW, 2,
        meeting_with_data (RANK (1) ",\"epochs\":4" RESUME (3, 2))), RANK_GATHERING_COMPLETE);
    assert_int_equal (meeting_broker.asked, asked);
    assert_true (meeting_gathered.terms->epoch == 4 && meeting_gathered.terms->positions [1].batches == 2);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

//  What a request that claims a list points to.
static const uint32_t s_no_ids;

static void
bounds (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    char members [100];
    for (unsigned job = 0; job < RANK_GATHERING_MAX; job++) {
        snprintf (members, sizeof members, "\"job\":\"j%u\",\"world_size\":2,\"rank\":0", job);
        assert_int_equal (meeting_add (gathering, NOW, (uint8_t) (1 + job), members), RANK_GATHERING_WAITS);
    }
    assert_int_equal (meeting_add (gathering, NOW, 100, RANK (0)), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "busy", "64 jobs wait for ranks already, at most 64 may");
    assert_int_equal (meeting_add (gathering, NOW, 100, "\"job\":\"j5\",\"world_size\":2,\"rank\":1"),
        RANK_GATHERING_COMPLETE);
    meeting_forget_gathered ();
    assert_int_equal (meeting_add (gathering, NOW, 100, RANK (0)), RANK_GATHERING_WAITS);
    //  A request that claims more ids than all may have.
    join_t *large = meeting_join (gathering, 101, UID, RANK (1));
    large->terms.list = &s_no_ids;
    large->terms.list_count = RANK_GATHERING_BYTES_MAX / sizeof *large->terms.list;
    assert_int_equal (rank_gathering_add (gathering, &large, NOW, meeting_gathered.joins,
            &meeting_gathered.terms, &meeting_refusal),
        RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "budget", "bytes already, at most 268435456 may");
    join_destroy (&large);
    meeting_end (gathering);
}

//  ---- several tenants

//  Must hold: a name is a tenant's own: ranks of two tenants do not meet, a plain job's name is free, and
//  each is told of its own.
static void
tenants_do_not_meet (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    tenant_t *one = meeting_tenant (&meeting_tenants.one), *other = meeting_tenant (&meeting_tenants.other);
    meeting_tenants.count = 2;
    assert_int_equal (meeting_add (gathering, NOW, 1, RANK (0)), RANK_GATHERING_WAITS);
    meeting_tenants.present = other;
    join_t *plain = meeting_join (gathering, 9, UID, "\"job\":\"j\"");
    assert_null (rank_gathering_pipeline (gathering, other, "j"));
    assert_true (rank_gathering_leaves_name (gathering, plain, NOW, &meeting_refusal));
    join_destroy (&plain);
    //  Another batch size, and the rank that the first one has: no refusal, and no rank is told.
    assert_int_equal (meeting_add_of (gathering, NOW, 2, UID + 1, RANK (0) ",\"batch_size\":16"),
        RANK_GATHERING_WAITS);
    assert_true (rank_gathering_count (gathering, one) == 1 && rank_gathering_count (gathering,
        other) == 1);
    assert_int_equal (rank_gathering_bytes (gathering, one) + rank_gathering_bytes (gathering, other),
        rank_gathering_bytes (gathering, NULL));
    json_t *status = rank_gathering_status (gathering, other, NOW);
    assert_int_equal (json_array_size (status), 1);
    json_decref (status);
    assert_int_equal (meeting_add_of (gathering, NOW, 3, UID + 1, RANK (1) ",\"batch_size\":16"),
        RANK_GATHERING_COMPLETE);
    assert_true (meeting_gathered.terms->batch_size == 16 && meeting_gathered.terms->tenant == other);
    meeting_forget_gathered ();
    assert_int_equal (meeting_outbox.count, 2);         //  one notice to each rank that began
    assert_true (rank_gathering_count (gathering, one) == 1 && rank_gathering_count (gathering,
        other) == 0);
    meeting_tenants.present = one;
    assert_int_equal (meeting_add (gathering, NOW, 4, RANK (1)), RANK_GATHERING_COMPLETE);
    assert_int_equal (meeting_gathered.terms->batch_size, 8);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

//  Must hold: one that has as many as it may have leaves the other its share, and is told its own figures.
static void
tenants_have_shares (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    char members [100];
    meeting_tenants.count = 2;
    for (unsigned job = 0; job < RANK_GATHERING_MAX / 2; job++) {
        snprintf (members, sizeof members, "\"job\":\"j%u\",\"world_size\":2,\"rank\":0", job);
        assert_int_equal (meeting_add (gathering, NOW, (uint8_t) (1 + job), members), RANK_GATHERING_WAITS);
    }
    for (int turn = 0; turn < 2; turn++) {                      //  the second time the other has some, which
                                                                //  changes nothing
        assert_int_equal (meeting_add (gathering, NOW, 100, RANK (0)), RANK_GATHERING_REFUSED);
        assert_refusal (&meeting_refusal, "busy", "32 jobs wait for ranks already, at most 32 may");
        meeting_tenants.present = meeting_tenant (&meeting_tenants.other);
        join_t *large = meeting_join (gathering, 101, UID,
            "\"job\":\"k\",\"world_size\":2,\"rank\":1");
        large->terms.list = &s_no_ids;
        large->terms.list_count = RANK_GATHERING_BYTES_MAX / 2 / sizeof *large->terms.list;
        assert_int_equal (rank_gathering_add (gathering, &large, NOW, meeting_gathered.joins,
            &meeting_gathered.terms, &meeting_refusal),
            RANK_GATHERING_REFUSED);
        assert_refusal (&meeting_refusal, "budget", "at most 134217728 may");
        join_destroy (&large);
        snprintf (members, sizeof members, "\"job\":\"j%d\",\"world_size\":2,\"rank\":0", turn);
        assert_int_equal (meeting_add (gathering, NOW, (uint8_t) (102 + turn), members),
            RANK_GATHERING_WAITS);
        meeting_tenants.present = meeting_tenant (&meeting_tenants.one);
    }
    meeting_end (gathering);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (ranks_that_differ),
        cmocka_unit_test (ranks_of_two_runs),
        cmocka_unit_test (dead_ranks_differ_from_none),
        cmocka_unit_test (other_users_and_plain_jobs),
        cmocka_unit_test (broker_is_asked_at_first),
        cmocka_unit_test (bounds),
        cmocka_unit_test (tenants_do_not_meet),
        cmocka_unit_test (tenants_have_shares),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
