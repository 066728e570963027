/*  Ranks that wait for each other, ranks that come twice, ranks that are gone.  (Ranks that do not fit, and
 *  several tenants: test_rank_gathering_refusals.c.)
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "frames.h"
#include "meeting.h"
#include "seed.h"

//  ---- complete

static void
two_ranks_in_either_order (void **state)
{
    (void) state;
    for (unsigned turn = 0; turn < 2; turn++) {
        rank_gathering_t *gathering = meeting_begin ();
        const char *first = turn? RANK (1) ",\"name\":\"b\"" INSTANCE (2) ",\"rank_wait\":30"
            : RANK (0) ",\"name\":\"a\"" INSTANCE (1);
        const char *second = turn? RANK (0) ",\"name\":\"a\"" INSTANCE (1)
            : RANK (1) ",\"name\":\"b\"" INSTANCE (2) ",\"rank_wait\":30";
        assert_int_equal (meeting_add (gathering, NOW, 1, first), RANK_GATHERING_WAITS);
        assert_int_equal (rank_gathering_count (gathering, NULL), 1);
        assert_true (rank_gathering_bytes (gathering, NULL) > 0);
        assert_string_equal (rank_gathering_of (gathering, &(peer_t) { .bytes = { 1 }, .size = 1 }, NULL),
            "j");
        assert_null (rank_gathering_of (gathering, &(peer_t) { .bytes = { 2 }, .size = 1 }, NULL));
        meeting_assert_sent (0, 1, WIRE_NOTICE,
            turn? "1 of 2 ranks of job 'j' are here; waiting for rank 0, for 300 more seconds"
            : "1 of 2 ranks of job 'j' are here; waiting for rank 1, for 300 more seconds");
        assert_non_null (strstr (meeting_text (0), "\"notice\":\"gathering\""));
        assert_int_equal (meeting_add (gathering, NOW + 10, 2, second), RANK_GATHERING_COMPLETE);
        assert_int_equal (meeting_outbox.count, 1);
        assert_int_equal (meeting_gathered.count, 2);
        assert_true (meeting_gathered.joins [0]->peer.bytes [0] == 1 + turn
            && meeting_gathered.joins [1]->peer.bytes [0] == 2 - turn);
        const broker_terms_t *terms = meeting_gathered.terms;
        assert_string_equal (terms->name, "a");
        assert_string_equal (terms->job_name, "j");
        assert_true (terms->world_size == 2 && terms->rank_wait_seconds == 30 && terms->batch_size == 8
            && !terms->seed_given);
        assert_true (terms->instances [0] [31] == '1' && terms->instances [1] [31] == '2');
        assert_null (terms->positions);
        assert_int_equal (rank_gathering_count (gathering, NULL), 0);
        assert_int_equal (rank_gathering_bytes (gathering, NULL), 0);
        meeting_forget_gathered ();
        meeting_end (gathering);
    }
}

//  The furthest state of any rank is the job's; the seed is the one that a rank gives.
static void
furthest_leads (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    assert_int_equal (meeting_add (gathering, NOW, 1,
        meeting_with_data (RANK (0) ",\"order\":\"private\",\"name\":\"a\"" RESUME (2, 0))),
        RANK_GATHERING_WAITS);
    assert_int_equal (meeting_add (gathering, NOW, 2,
        meeting_with_data (RANK (1) ",\"order\":\"private\",\"seed\":\"5\",\"name\":\"b\"" RUN RESUME (2, 1)
        ",\"frames\":[\"taken\",\"recent\"]")), RANK_GATHERING_COMPLETE);
    const broker_terms_t *terms = meeting_gathered.terms;
    assert_string_equal (terms->name, "a");          //  rank 0's, whichever rank leads
    assert_true (terms->epoch == 2 && terms->epoch_batches == 1 && terms->seed_given && terms->seed == 5);
    assert_int_equal (roaring_bitmap_get_cardinality (terms->taken), 5);
    assert_true (terms->recent_count == 1 && terms->recent [0].epoch == 2 && terms->recent [0].samples == 3);
    assert_int_equal (strlen (terms->run), WIRE_RUN_BYTES);
    assert_non_null (terms->positions);
    assert_true (terms->positions [0].epoch == 2 && terms->positions [0].batches == 0);
    assert_true (terms->positions [1].epoch == 2 && terms->positions [1].batches == 1);
    meeting_forget_gathered ();
    //  A later epoch is further than any number of batches; among equals rank 0's.
    assert_int_equal (meeting_add (gathering, NOW, 1, meeting_with_data (RANK (1) RUN RESUME (1, 900))),
        RANK_GATHERING_WAITS);
    assert_int_equal (meeting_add (gathering, NOW, 2, meeting_with_data (RANK (0) RESUME (2, 0))),
        RANK_GATHERING_COMPLETE);
    terms = meeting_gathered.terms;
    assert_true (terms->epoch == 2 && terms->epoch_batches == 0 && strlen (terms->run) == WIRE_RUN_BYTES);
    assert_ptr_equal (terms->fresh_run, meeting_gathered.joins [0]->fresh_run);
    meeting_forget_gathered ();
    assert_int_equal (meeting_add (gathering, NOW, 1, meeting_with_data (RANK (1) RUN RESUME (2, 3))),
        RANK_GATHERING_WAITS);
    assert_int_equal (meeting_add (gathering, NOW, 2, meeting_with_data (RANK (0) RESUME (2, 3))),
        RANK_GATHERING_COMPLETE);
    terms = meeting_gathered.terms;
    assert_ptr_equal (terms->fresh_run, meeting_gathered.joins [0]->fresh_run);
    assert_null (terms->positions);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

//  The job's ids are held once, and are there in the end whichever ranks came and went, and whichever leads.
static void
data_are_held_once (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    for (int round = 0; round < 3; round++) {
        meeting_outbox.is_gone [1] = meeting_outbox.is_gone [2] = false;
        assert_int_equal (meeting_add (gathering, NOW, 1,
            "\"job\":\"j\",\"world_size\":3,\"rank\":0,\"frames\":[\"subset\"]"), RANK_GATHERING_WAITS);
        assert_int_equal (meeting_add (gathering, NOW, 2,
            "\"job\":\"j\",\"world_size\":3,\"rank\":1,\"frames\":[\"subset\"]"), RANK_GATHERING_WAITS);
        if (round > 0) {
            meeting_outbox.is_gone [round] = true;
            rank_gathering_beat (gathering, NOW + RANK_GATHERING_NOTICE_MS);
            rank_gathering_check (gathering);
            meeting_outbox.is_gone [round] = false;
            assert_int_equal (meeting_add (gathering, NOW + 2000, 3,
                round == 1? "\"job\":\"j\",\"world_size\":3,\"rank\":0,"
                "\"frames\":[\"subset\"]":
                "\"job\":\"j\",\"world_size\":3,\"rank\":1,\"frames\":[\"subset\"]"), RANK_GATHERING_WAITS);
        }
        assert_int_equal (meeting_add (gathering, NOW + 2000, 4,
            "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"frames\":[\"subset\"]"), RANK_GATHERING_COMPLETE);
        assert_int_equal (roaring_bitmap_get_cardinality (meeting_gathered.terms->subset), SAMPLES / 2);
        meeting_forget_gathered ();
    }
    meeting_end (gathering);
}

//  The list lies in what it was made into, which is there and whole.
static void
s_assert_listed (const broker_terms_t *terms)
{
    static const uint32_t listed [LISTED_COUNT] = { LISTED };
    assert_non_null (terms->list_made);
    assert_ptr_equal (terms->list_made->ids, terms->list);
    assert_int_equal (terms->list_made->count, terms->list_count);
    assert_int_equal (terms->list_count, LISTED_COUNT);
    assert_memory_equal (terms->list, listed, sizeof listed);
    assert_int_equal (terms->list_made->times [5], LISTED_COUNT / 4);
    assert_int_equal (roaring_bitmap_get_cardinality (terms->list_made->set), 6);
}

#define LIST_RANK(number) RANK (number) ",\"order\":\"list\",\"frames\":[\"list\"]"

//  The same of lists, which are held by reference: a rank that dies leaves its list to the next rank, and in
//  the end the list goes to the rank that leads.  s_assert_listed finds a made list that is lost, or released
//  by both.
static void
lists_are_held_once (void **state)
{
    (void) state;
    for (unsigned leader = 0; leader < 2; leader++) {
        rank_gathering_t *gathering = meeting_begin ();
        assert_int_equal (meeting_add (gathering, NOW, 1, leader? LIST_RANK (1): LIST_RANK (0)),
            RANK_GATHERING_WAITS);
        size_t bytes = rank_gathering_bytes (gathering, NULL);
        assert_true (bytes > sampler_list_bytes (LISTED_COUNT, SAMPLES, false));
        assert_int_equal (meeting_add (gathering, NOW, 2, leader? LIST_RANK (0): LIST_RANK (1)),
            RANK_GATHERING_COMPLETE);
        s_assert_listed (meeting_gathered.terms);
        size_t held = 0;
        for (size_t rank = 0; rank < meeting_gathered.count; rank++)
            held += meeting_gathered.joins [rank]->terms.list_made != NULL;
        assert_int_equal (held, 1);
        meeting_forget_gathered ();
        meeting_end (gathering);
    }
}

//  A job came between two ranks, and where it has its mark must not part them.
static void
ranks_have_one_share_point (void **state)
{
    (void) state;
    static const char operations [] = RANK (0)
        ",\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]";
    static const char of_another [] = RANK (1)
        ",\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]";
    rank_gathering_t *gathering = meeting_begin ();
    assert_int_equal (meeting_add (gathering, NOW, 1, operations), RANK_GATHERING_WAITS);
    join_t *early = meeting_join (gathering, 9, UID,
        "\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"share\":true},"
        "{\"op\":\"center_crop\",\"size\":16}]");
    meeting_shared_text = pipeline_shared_text (early->terms.pipeline);
    join_t *alone = meeting_join (gathering, 9, UID,
        "\"pipeline\":[{\"op\":\"resize\",\"size\":[32,32]},{\"op\":\"center_crop\",\"size\":16}]");
    assert_string_equal (pipeline_shared_text (alone->terms.pipeline), meeting_shared_text);
    assert_string_not_equal (pipeline_shared_text (rank_gathering_pipeline (gathering,
        meeting_tenants.present,
        "j")), meeting_shared_text);
    assert_int_equal (meeting_add (gathering, NOW, 2, of_another), RANK_GATHERING_COMPLETE);
    meeting_forget_gathered ();
    join_destroy (&early);
    join_destroy (&alone);
    meeting_end (gathering);
}

//  ---- notices, and an end to waiting

static void
notices_come_each_second (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":13,\"rank\":0,\"gather\":60");
    meeting_add (gathering, NOW + 300, 2, "\"job\":\"j\",\"world_size\":13,\"rank\":12");
    meeting_assert_sent (0, 1, WIRE_NOTICE,
        "1 of 13 ranks of job 'j' are here; waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 4 "
        "more, for 60");
    meeting_assert_sent (1, 2, WIRE_NOTICE,
        "2 of 13 ranks of job 'j' are here; waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 3 "
        "more, for 60");
    meeting_outbox.count = 0;
    rank_gathering_beat (gathering, NOW + 500);
    assert_int_equal (meeting_outbox.count, 0);
    rank_gathering_beat (gathering, NOW + 1000);
    assert_int_equal (meeting_outbox.count, 2);
    meeting_assert_sent (0, 1, WIRE_NOTICE, "for 59 more seconds");
    meeting_assert_sent (1, 2, WIRE_NOTICE, "for 59 more seconds");
    rank_gathering_beat (gathering, NOW + 1500);
    assert_int_equal (meeting_outbox.count, 2);
    rank_gathering_beat (gathering, NOW + 2000);
    assert_int_equal (meeting_outbox.count, 4);
    meeting_end (gathering);
}

static void
lists_of_missing_ranks (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    meeting_assert_sent (0, 1, WIRE_NOTICE, "waiting for ranks 0 and 2, for");
    meeting_add (gathering, NOW, 2, "\"job\":\"k\",\"world_size\":10,\"rank\":9");
    meeting_assert_sent (1, 2, WIRE_NOTICE, "waiting for ranks 0, 1, 2, 3, 4, 5, 6, 7 and 8, for");
    meeting_add (gathering, NOW, 3, "\"job\":\"l\",\"world_size\":64,\"rank\":0,\"batch_size\":1");
    meeting_assert_sent (2, 3, WIRE_NOTICE, "waiting for ranks 1, 2, 3, 4, 5, 6, 7, 8 and 55 more, for");
    json_t *status = rank_gathering_status (gathering, NULL, NOW + 1000);
    assert_int_equal (json_array_size (status), 3);
    const json_t *last = json_array_get (status, 2);
    assert_string_equal (json_string_value (json_object_get (last, "job")), "j");
    assert_int_equal (json_integer_value (json_object_get (last, "world_size")), 3);
    assert_int_equal (json_array_size (json_object_get (last, "missing")), 2);
    assert_int_equal (json_integer_value (json_array_get (json_object_get (last, "missing"), 1)), 2);
    assert_true (json_number_value (json_object_get (last, "left")) == 299);
    json_decref (status);
    meeting_end (gathering);
}

//  The first rank to reach the end of its patience ends the waiting of all.
static void
too_late (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0,\"gather\":60");
    meeting_add (gathering, NOW + 5000, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":2,\"gather\":10");
    meeting_add (gathering, NOW, 3, "\"job\":\"k\",\"world_size\":2,\"rank\":0,\"gather\":60");
    rank_gathering_beat (gathering, NOW + 14999);
    meeting_outbox.count = 0;
    rank_gathering_beat (gathering, NOW + 15000);
    assert_int_equal (meeting_outbox.count, 2);
    meeting_assert_sent (0, 1, WIRE_ERROR,
        "2 of 3 ranks of job 'j' came within 15 seconds; missing: rank 1: start all of them "
        "with one job name and world size, or give gather= more time");
    meeting_assert_sent (1, 2, WIRE_ERROR, "\"error\":\"ranks_missing\"");
    assert_int_equal (rank_gathering_count (gathering, NULL), 1);
    assert_null (rank_gathering_pipeline (gathering, meeting_tenants.present, "j"));
    rank_gathering_check (gathering);
    //  The name is free again.
    assert_int_equal (meeting_add (gathering, NOW + 15000, 1, RANK (0)), RANK_GATHERING_WAITS);
    meeting_end (gathering);
}

static void
stopping (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, RANK (0));
    meeting_add (gathering, NOW, 2, "\"job\":\"k\",\"world_size\":2,\"rank\":1");
    meeting_outbox.count = 0;
    rank_gathering_stop (gathering);
    assert_int_equal (meeting_outbox.count, 2);
    for (size_t index = 0; index < 2; index++)
        meeting_assert_sent (index, meeting_outbox.sent [index].peer, WIRE_ERROR, "\"error\":\"stopping\"");
    assert_true (rank_gathering_count (gathering, NULL) == 0 && rank_gathering_bytes (gathering,
        NULL) == 0);
    meeting_end (gathering);
}

//  ---- ranks that come twice, and ranks that are gone

static void
same_client_takes_its_place (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, RANK (0) INSTANCE (1) ",\"frames\":[\"subset\"]");
    meeting_outbox.count = 0;
    assert_int_equal (meeting_add (gathering, NOW + 1, 2, RANK (0) INSTANCE (1) ",\"frames\":[\"subset\"]"),
        RANK_GATHERING_WAITS);
    assert_int_equal (meeting_outbox.count, 1);
    meeting_assert_sent (0, 2, WIRE_NOTICE, "1 of 2 ranks");
    assert_null (rank_gathering_of (gathering, &(peer_t) { .bytes = { 1 }, .size = 1 }, NULL));
    assert_int_equal (meeting_add (gathering, NOW + 2, 3, RANK (1) ",\"frames\":[\"subset\"]"),
        RANK_GATHERING_COMPLETE);
    assert_int_equal (meeting_gathered.joins [0]->peer.bytes [0], 2);
    assert_int_equal (roaring_bitmap_get_cardinality (meeting_gathered.terms->subset), SAMPLES / 2);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

//  Another client is refused, unless the one that waits is dead, which is found out first.
static void
other_client_of_a_rank (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, RANK (0) INSTANCE (1));
    assert_int_equal (meeting_add (gathering, NOW + 7000, 2, RANK (0) INSTANCE (2)), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "job_taken",
        "rank 0 of job 'j' is waiting already, since 7 seconds: two runs use one job name");
    assert_int_equal (meeting_add (gathering, NOW + 7000, 2, RANK (0)), RANK_GATHERING_REFUSED);
    assert_refusal (&meeting_refusal, "job_taken", "rank 0 of job 'j' is waiting already");
    assert_int_equal (rank_gathering_count (gathering, NULL), 1);
    meeting_outbox.is_gone [1] = true;
    assert_int_equal (meeting_add (gathering, NOW + 8000, 3, RANK (0) INSTANCE (3)), RANK_GATHERING_WAITS);
    assert_string_equal (rank_gathering_of (gathering, &(peer_t) { .bytes = { 3 }, .size = 1 }, NULL), "j");
    //  Of two that wait one is dead.
    meeting_add (gathering, NOW, 4, "\"job\":\"k\",\"world_size\":3,\"rank\":0" INSTANCE (4));
    meeting_add (gathering, NOW, 5, "\"job\":\"k\",\"world_size\":3,\"rank\":1" INSTANCE (5));
    meeting_outbox.is_gone [5] = true;
    assert_int_equal (meeting_add (gathering, NOW, 6,
        "\"job\":\"k\",\"world_size\":3,\"rank\":1" INSTANCE (6)), RANK_GATHERING_WAITS);
    assert_int_equal (meeting_add (gathering, NOW, 7, "\"job\":\"k\",\"world_size\":3,\"rank\":2"),
        RANK_GATHERING_COMPLETE);
    assert_int_equal (meeting_gathered.joins [1]->peer.bytes [0], 6);
    meeting_forget_gathered ();
    meeting_end (gathering);
}

static void
gone_while_waiting (void **state)
{
    (void) state;
    rank_gathering_t *gathering = meeting_begin ();
    meeting_add (gathering, NOW, 1, "\"job\":\"j\",\"world_size\":3,\"rank\":0");
    meeting_add (gathering, NOW, 2, "\"job\":\"j\",\"world_size\":3,\"rank\":1");
    meeting_outbox.is_gone [1] = true;
    meeting_outbox.count = 0;
    rank_gathering_beat (gathering, NOW + 1000);
    rank_gathering_check (gathering);
    assert_int_equal (meeting_outbox.count, 1);
    meeting_assert_sent (0, 2, WIRE_NOTICE, "1 of 3 ranks of job 'j' are here; waiting for ranks 0 and 2");
    meeting_outbox.is_gone [2] = true;
    rank_gathering_beat (gathering, NOW + 2000);
    assert_true (rank_gathering_count (gathering, NULL) == 0 && rank_gathering_bytes (gathering,
        NULL) == 0);
    //  One that is gone before its first notice.
    assert_int_equal (meeting_add (gathering, NOW, 1, RANK (0)), RANK_GATHERING_WAITS);
    assert_true (rank_gathering_count (gathering, NULL) == 0 && rank_gathering_bytes (gathering,
        NULL) == 0);
    meeting_end (gathering);
}

//  ---- random comings and goings, beside a table

enum { JOBS = 3, WORLD = 4, STEPS = 60, ROUNDS = 300 };

typedef struct {
    uint8_t peer;               //  0: none
    unsigned instance;
    int64_t end_ms;
} seat_t;

typedef struct {
    seat_t seats [JOBS] [WORLD];
} table_t;

static unsigned
s_seated (const table_t *table, unsigned job)
{
    unsigned count = 0;
    for (unsigned rank = 0; rank < WORLD; rank++)
        count += table->seats [job] [rank].peer != 0;
    return count;
}

//  Dead ranks leave as soon as they are sent something.
static void
s_reclaim_dead (table_t *table, unsigned job)
{
    for (unsigned rank = 0; rank < WORLD; rank++)
        if (meeting_outbox.is_gone [table->seats [job] [rank].peer])
            table->seats [job] [rank].peer = 0;
}

//  True: it was refused.
static bool
s_random_coming (rank_gathering_t *gathering, table_t *table, uint64_t *random, int64_t now_ms, uint8_t peer,
    uint64_t seed)
{
    unsigned job = (unsigned) test_below (random, JOBS), rank = (unsigned) test_below (random, WORLD);
    unsigned instance = (unsigned) test_below (random, 3), gather = 1 + (unsigned) test_below (random, 5);
    char members [200];
    snprintf (members, sizeof members,
        "\"job\":\"j%u\",\"world_size\":%d,\"rank\":%u,\"gather\":%u,\"instance\":\"%032x\","
        "\"frames\":[\"subset\"]", job, WORLD, rank, gather, instance);
    seat_t *seat = &table->seats [job] [rank];
    if (seat->peer && seat->instance != instance)
        s_reclaim_dead (table, job);
    bool is_taken = seat->peer && seat->instance != instance;
    rank_gathering_status_t status = meeting_add (gathering, now_ms, peer, members);
    if (!is_taken)
        *seat = (seat_t) { peer, instance, now_ms + gather * 1000 };
    bool is_complete = s_seated (table, job) == WORLD;
    rank_gathering_status_t expected = is_taken? RANK_GATHERING_REFUSED: is_complete? RANK_GATHERING_COMPLETE:
        RANK_GATHERING_WAITS;
    if (status != expected)
        fail_msg ("seed %" PRIu64 ": expected %d, got %d %s", seed, (int) expected, (int) status,
            meeting_refusal.message);
    if (!is_complete)
        return is_taken;
    for (unsigned place = 0; place < WORLD; place++)
        assert_int_equal (meeting_gathered.joins [place]->peer.bytes [0],
            table->seats [job] [place].peer);
    assert_int_equal (roaring_bitmap_get_cardinality (meeting_gathered.terms->subset), SAMPLES / 2);
    meeting_forget_gathered ();
    memset (table->seats [job], 0, sizeof table->seats [job]);
    return is_taken;
}

//  Time passes: a rank that is late, or dead, is there no more.
static void
s_random_beat (rank_gathering_t *gathering, table_t *table, int64_t now_ms)
{
    rank_gathering_beat (gathering, now_ms);
    for (unsigned job = 0; job < JOBS; job++) {
        bool is_late = false;
        for (unsigned rank = 0; rank < WORLD; rank++)
            is_late = is_late || (table->seats [job] [rank].peer
                && now_ms >= table->seats [job] [rank].end_ms);
        if (is_late)
            memset (table->seats [job], 0, sizeof table->seats [job]);
        else
            s_reclaim_dead (table, job);
    }
}

static void
matches_a_table (void **state)
{
    (void) state;
    size_t refused = 0;
    for (uint64_t seed = test_seed (), round = 0; round < ROUNDS; seed++, round++) {
        uint64_t random = seed;
        table_t table = { 0 };
        int64_t now_ms = NOW;
        rank_gathering_t *gathering = meeting_begin ();
        for (uint8_t step = 1; step <= STEPS; step++) {
            refused += s_random_coming (gathering, &table, &random, now_ms, step, seed);
            if (test_below (&random, 4) == 0)
                meeting_outbox.is_gone [1 + test_below (&random, step)] = true;
            now_ms += (int64_t) test_below (&random, 2) * RANK_GATHERING_NOTICE_MS;
            //  A notice is due each second, so that the dead are found in that beat.
            s_random_beat (gathering, &table, now_ms += RANK_GATHERING_NOTICE_MS);
            rank_gathering_check (gathering);
            for (unsigned job = 0; job < JOBS; job++)
                for (unsigned rank = 0; rank < WORLD; rank++) {
                    peer_t peer = { .bytes = { table.seats [job] [rank].peer }, .size = 1 };
                    if (peer.bytes [0] && !rank_gathering_of (gathering, &peer, NULL))
                        fail_msg ("seed %" PRIu64 ", step %u: %u is forgotten", seed, step, peer.bytes [0]);
                }
        }
        size_t jobs = 0;
        for (unsigned job = 0; job < JOBS; job++)
            jobs += s_seated (&table, job) > 0;
        assert_int_equal (rank_gathering_count (gathering, NULL), jobs);
        meeting_end (gathering);
    }
    assert_true (refused > 100);
}

//  Guards: joins of all nodes of a job tell of one whole; with other nodes, parts or data, of another; and a
//  job of one node tells of none.
static void
nodes_of_one_whole (void **state)
{
    (void) state;
    static const char *const wholes [] = { "\"nodes\":3", "\"nodes\":4", "\"nodes\":3,\"parts\":\"fixed\"",
        "\"nodes\":3,\"frames\":[\"subset\"]", "\"nodes\":3,\"order\":\"list\",\"frames\":[\"list\"]" };
    enum { WHOLES = sizeof wholes / sizeof *wholes };
    request_digest_t partitions [WHOLES];
    rank_gathering_t *gathering = meeting_begin ();
    for (int whole = 0; whole < WHOLES; whole++) {
        for (unsigned node = 0; node < 3; node++) {
            char members [120];
            snprintf (members, sizeof members, "%s,\"node\":%u", wholes [whole], node);
            join_t *join = meeting_join (gathering, 1, UID, members);
            if (node == 0)
                partitions [whole] = join->partition;
            assert_true (*join->partition.text);
            assert_string_equal (join->partition.text, partitions [whole].text);
            join_destroy (&join);
        }
        for (int other = 0; other < whole; other++)
            assert_string_not_equal (partitions [whole].text, partitions [other].text);
    }
    join_t *alone = meeting_join (gathering, 1, UID, "\"seed\":1");
    assert_string_equal (alone->partition.text, "");
    join_destroy (&alone);
    meeting_end (gathering);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (two_ranks_in_either_order),
        cmocka_unit_test (furthest_leads),
        cmocka_unit_test (data_are_held_once),
        cmocka_unit_test (lists_are_held_once),
        cmocka_unit_test (ranks_have_one_share_point),
        cmocka_unit_test (notices_come_each_second),
        cmocka_unit_test (lists_of_missing_ranks),
        cmocka_unit_test (too_late),
        cmocka_unit_test (stopping),
        cmocka_unit_test (same_client_takes_its_place),
        cmocka_unit_test (other_client_of_a_rank),
        cmocka_unit_test (gone_while_waiting),
        cmocka_unit_test (nodes_of_one_whole),
        cmocka_unit_test (matches_a_table),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
