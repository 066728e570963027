/*  What clients say and what they hear, below the socket: which client a job belongs to, which requests are
 *  answered, which wait, and what each user is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "job.h"
#include "rejection_log.h"
#include "reply.h"
#include "seed.h"
#include "service_asserts.h"
#include "service_play.h"
#include "outbox.h"
#include "request_queue.h"

#define JOIN_TRAIN "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\"}"
//  Whichever sample is asked for, it can be told of.
#define JOIN_SEEDED "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":3,\"pipeline\":\"eval\"," \
    "\"transport\":\"inline\",\"order\":\"seeded\",\"seed\":\"7\"}"

//  A job; its number.
static uint64_t
s_join (play_t *play, uint32_t peer, uint32_t user, const char *text)
{
    play_say_text (play, peer, user, WIRE_JOIN, 0, 77, text);
    play_turn (play, 0);
    const play_sent_t *joined = play_last (play, peer, WIRE_JOINED);
    if (!joined)
        fail_msg ("no JOINED: %s", play_last (play, peer, 0)? play_last (play, peer, 0)->text: "nothing");
    assert_int_equal (joined->tag, 77);
    return joined->job;
}

static void
s_progress (play_t *play, uint32_t peer, uint32_t user, uint64_t job, uint64_t consumed)
{
    wire_progress_t progress = { consumed, consumed, 0 };
    play_say (play, peer, user, WIRE_PROGRESS, job, 5, &progress, sizeof progress);
}

//  Takes all of a job: one batch after the other.
static void
s_take_all (play_t *play, uint32_t peer, uint32_t user, uint64_t job)
{
    for (int turn = 0; turn < 10000; turn++) {
        play_turn (play, 5);
        const play_sent_t *end = play_last (play, peer, WIRE_EPOCH_END);
        wire_epoch_end_t what = { .flags = 0 };
        if (end)
            memcpy (&what, end->text, sizeof what);
        if (what.flags & WIRE_EPOCH_LAST)
            return;
        s_progress (play, peer, user, job, play_count (play, peer, WIRE_BATCH));
    }
    fail_msg ("job %" PRIu64 " does not come to its end", job);
}

//  ---- the owner of a job

//  A job belongs to its connection and to its caller, both: any other finds nothing, and moves nothing.
static void
a_job_belongs_to_its_client (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_A1, JOIN_TRAIN);
    static const struct { uint32_t peer, user;
        } others [] = { { 2, PLAY_A1 }, { 1, PLAY_A2 }, { 1, PLAY_B }, { 2, PLAY_B },
        { 1, PLAY_ROOT }, { 1, PLAY_KEY } };
    static const struct { wire_kind_t kind; const char *body; size_t size; } ways [] = {
        { WIRE_PROGRESS, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24 }, { WIRE_INLINE, NULL, 0 },
        { WIRE_LEAVE, NULL, 0 },
        { WIRE_HEARTBEAT, NULL, 0 }, { WIRE_EXPLAIN, "{\"id\":\"0\"}", 10 } };
    play_turn (play, 100);
    for (size_t other = 0; other < sizeof others / sizeof *others; other++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            play_forget_sent (play);
            play_say (play, others [other].peer, others [other].user, ways [way].kind, job, 9,
                ways [way].body, ways [way].size);
            play_turn (play, 0);
            assert_error_for (play, others [other].peer, 9, "unknown_job", "this connection has no job");
            //  Byte for byte what is said of a job that there never was.
            char first [PLAY_TEXT_BYTES], second [PLAY_TEXT_BYTES], number [24];
            strcpy (first, play_last (play, others [other].peer, WIRE_ERROR)->text);
            play_say (play, others [other].peer, others [other].user, ways [way].kind, job + 1000, 9,
                ways [way].body, ways [way].size);
            play_turn (play, 0);
            strcpy (second, play_last (play, others [other].peer, WIRE_ERROR)->text);
            snprintf (number, sizeof number, "%" PRIu64, job);
            assert_int_equal (strstr (first, number) - first, strstr (second, "job ") + 4 - second);
        }
    //  STATUS with another's job in its head says nothing of it.
    play_say_text (play, 1, PLAY_B, WIRE_STATUS, job, 10, "{}");
    play_turn (play, 0);
    assert_int_equal (play_last (play, 1, WIRE_STATUS_REPLY)->job, 0);
    play_forget_sent (play);
    assert_non_null (job_of_id (play_broker (play), job));
    play_destroy (&play);
}

//  All of its epochs come to the job's client, while others do their worst with its number.
static void
its_epochs_stay_whole (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_A1, JOIN_TRAIN);
    for (int turn = 0; turn < 400; turn++) {
        play_turn (play, 5);
        s_progress (play, 1, PLAY_B, job, 3);
        s_progress (play, 2, PLAY_A1, job, 1000);
        play_say (play, 3, PLAY_B, WIRE_LEAVE, job, 1, NULL, 0);
        s_progress (play, 1, PLAY_A1, job, play_count (play, 1, WIRE_BATCH));
    }
    assert_int_equal (play_count (play, 1, WIRE_BATCH), 3 * PLAY_SAMPLES / 4);
    assert_int_equal (play_count (play, 1, WIRE_EPOCH_END), 3);
    play_destroy (&play);
}

//  Only users that may use a data set hear of it; to others it is as a data set that does not exist.  An
//  answer that is not read counts, as STATUS does.
static void
a_data_set_is_told_to_users_that_may_use_it (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    static const char *const questions [] = { "{\"dataset\":\"%s\"}",
        "{\"dataset\":\"%s\",\"table\":\"names\"}",
        "{\"dataset\":\"%s\",\"table\":\"label\",\"label\":\"label\",\"first\":\"7\"}" };
    for (size_t index = 0; index < sizeof questions / sizeof *questions; index++) {
        char secret [128], train [128], none [128], first [PLAY_TEXT_BYTES];
        snprintf (secret, sizeof secret, questions [index], "secret");
        snprintf (train, sizeof train, questions [index], "train");
        snprintf (none, sizeof none, questions [index], "absent");
        play_forget_sent (play);
        play_say_text (play, 1, PLAY_A1, WIRE_DATASET, 0, 5, secret);
        play_turn (play, 0);
        assert_error_for (play, 1, 5, "unknown_dataset", "no data set 'secret'; this server has: train");
        strcpy (first, play_last (play, 1, WIRE_ERROR)->text);
        play_say_text (play, 1, PLAY_A1, WIRE_DATASET, 0, 6, none);
        play_turn (play, 0);
        memcpy (strstr (first, "secret"), "absent", 6);
        assert_string_equal (play_last (play, 1, WIRE_ERROR)->text, first);
        play_say_text (play, 1, PLAY_A1, WIRE_DATASET, 0, 7, train);
        play_say_text (play, 2, PLAY_B, WIRE_DATASET, 0, 8, secret);
        play_turn (play, 0);
        assert_true (play_last (play, 1, WIRE_DATASET_REPLY)->tag == 7
            && play_last (play, 2, WIRE_DATASET_REPLY)->tag == 8);
        assert_non_null (strstr (play_last (play, 2, WIRE_DATASET_REPLY)->text, "\"samples\":\"48\""));
    }
    play_stop_reading (play);
    for (int count = 0; count < 4000 && !play_last (play, 3, WIRE_ERROR); count++) {
        play_say_text (play, 3, PLAY_A1, WIRE_DATASET, 0, 9, "{\"dataset\":\"train\",\"table\":\"names\"}");
        play_turn (play, 0);
    }
    assert_error_for (play, 3, 9, "busy", "answers of before have not been read");
    play_read_all (play);
    play_destroy (&play);
}

static void
a_chosen_routing_id_gets_no_job (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    peer_t peers [] = { { .bytes = "abc", .size = 3 }, { .bytes = { 1, 2, 3, 4, 5 }, .size = 5 },
        { .bytes = { 0, 1 }, .size = 2 } };
    for (size_t index = 0; index < 3; index++) {
        wire_head_t head = reply_head (WIRE_JOIN, 0, 3);
        frame_t frames [] = { { (uint8_t *) &head, sizeof head },
            { (const uint8_t *) JOIN_TRAIN, strlen (JOIN_TRAIN) } };
        receiver_message_t message = { .peer = &peers [index], .uid = PLAY_A1, .frames = frames, .count = 2 };
        service_take (play_service (play), &message, play_now_ms (play));
        play_turn (play, 0);
    }
    assert_int_equal (broker_jobs (play_broker (play), NULL), 0);
    json_t *status = play_status (play, PLAY_A1);
    assert_int_equal (json_integer_value (json_object_get (json_object_get (status, "refusals"),
        "bad_request")), 3);
    json_decref (status);
    play_destroy (&play);
}

//  ---- what is told

//  What may not be known and what does not exist are told in the same words.
static void
unknown_and_forbidden_look_the_same (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    char first [PLAY_TEXT_BYTES], second [PLAY_TEXT_BYTES];
    play_say_text (play, 1, PLAY_A1, WIRE_JOIN, 0, 1, "{\"dataset\":\"secret\",\"batch_size\":4}");
    play_turn (play, 0);
    assert_error_for (play, 1, 1, "unknown_dataset", "no data set 'secret'");
    strcpy (first, play_last (play, 1, 0)->text);
    play_say_text (play, 1, PLAY_A1, WIRE_JOIN, 0, 1, "{\"dataset\":\"sarcet\",\"batch_size\":4}");
    play_turn (play, 0);
    strcpy (second, play_last (play, 1, 0)->text);
    memcpy (strstr (second, "sarcet"), "secret", 6);
    assert_string_equal (first, second);
    assert_null (strstr (strstr (first, "has:"), "secret"));
    s_join (play, 2, PLAY_B, "{\"dataset\":\"secret\",\"batch_size\":4,\"transport\":\"inline\"}");
    json_t *status = play_status (play, PLAY_A1);
    char *text = json_dumps (status, JSON_COMPACT);
    assert_null (strstr (text, "secret"));
    assert_int_equal (json_array_size (json_object_get (status, "jobs")), 0);
    static const char *const operators [] = { "cpu_seconds", "until_idle", "restarts", "refusals", "ignored",
        "strangers", "descriptors", "unread_bytes" };
    json_t *all = play_status (play, PLAY_ROOT);
    for (size_t index = 0; index < sizeof operators / sizeof *operators; index++) {
        assert_null (json_object_get (status, operators [index]));
        assert_non_null (json_object_get (all, operators [index]));
    }
    assert_int_equal (json_array_size (json_object_get (all, "jobs")), 1);
    //  Where a data set lies is told with it; on which devices, to operators.
    const json_t *mine = json_array_get (json_object_get (status, "datasets"), 0);
    const json_t *one_of_all = json_array_get (json_object_get (all, "datasets"), 0);
    assert_non_null (strstr (json_string_value (json_object_get (mine, "path")), "/train"));
    assert_int_equal (json_integer_value (json_object_get (mine, "classes")), 1);
    assert_null (json_object_get (mine, "devices"));
    assert_non_null (json_object_get (one_of_all, "devices"));
    assert_int_equal (json_integer_value (json_object_get (json_object_get (json_object_get (status,
        "tenant"), "refusals"), "unknown_dataset")), 2);
    free (text);
    json_decref (status);
    json_decref (all);
    play_destroy (&play);
}

static void
a_stranger_gets_no_answer (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    for (unsigned kind = 0; kind < 256; kind++)
        play_say_text (play, 1, PLAY_STRANGER, (wire_kind_t) kind, 0, 1, kind % 2? JOIN_TRAIN: "{}");
    play_turn (play, 0);
    assert_int_equal (play_count (play, 1, 0), 0);
    json_t *status = play_status (play, PLAY_ROOT);
    assert_int_equal (json_integer_value (json_object_get (status, "strangers")), 256);
    json_decref (status);
    play_destroy (&play);
}

static void
only_operators_drain (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_say_text (play, 1, PLAY_A1, WIRE_DRAIN, 0, 1, "{}");
    assert_error_for (play, 1, 1, "forbidden", "operator");
    assert_false (broker_is_draining (play_broker (play)));
    play_say_text (play, 1, PLAY_ROOT, WIRE_DRAIN, 0, 2, "{}");
    assert_non_null (play_last (play, 1, WIRE_DRAINING));
    assert_true (broker_is_draining (play_broker (play)));
    play_destroy (&play);
}

//  Guards: an operator alone ends a server with jobs; what is no word of that is refused.
static void
only_operators_end_it (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_say_text (play, 1, PLAY_A1, WIRE_DRAIN, 0, 1, "{\"now\": true}");
    assert_error_for (play, 1, 1, "forbidden", "operator");
    const char *wrong [] = { "{\"now\": 1}", "{\"now\": null}", "{\"soon\": true}",
        "{\"now\": true, \"x\": 0}" };
    for (size_t index = 0; index < sizeof wrong / sizeof *wrong; index++) {
        play_say_text (play, 1, PLAY_ROOT, WIRE_DRAIN, 0, 2 + index, wrong [index]);
        assert_error_for (play, 1, 2 + index, "bad_request", "now");
    }
    assert_false (service_ends_now (play_service (play)));
    assert_false (broker_is_draining (play_broker (play)));
    play_say_text (play, 1, PLAY_ROOT, WIRE_DRAIN, 0, 9, "{\"now\": true}");
    assert_non_null (play_last (play, 1, WIRE_DRAINING));
    assert_true (service_ends_now (play_service (play)));
    play_destroy (&play);
}

//  A head of another version gets an answer that clients of all versions can read, whatever the kind.
static void
other_versions_are_told_ours (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    static const uint8_t versions [] = { 0, 2, 255 };
    for (size_t index = 0; index < sizeof versions; index++)
        for (unsigned kind = 0; kind < 140; kind++) {
            wire_head_t head = reply_head ((wire_kind_t) kind, 4, kind);
            head.version = versions [index];
            frame_t frames [] = { { (uint8_t *) &head, sizeof head }, { (const uint8_t *) "{}", 2 } };
            play_say_frames (play, 1, PLAY_A1, frames, 1 + kind % 2);
            assert_error_for (play, 1, kind, "version", "\"versions\":[1]");
        }
    play_destroy (&play);
}

//  ---- errors are limited

static void
error_rate_limit_by_hand (void **state)
{
    (void) state;
    error_rate_limit_t *error_rate_limit = calloc (1, sizeof *error_rate_limit);
    assert_non_null (error_rate_limit);
    int64_t now_ms = 5;
    for (int count = 0; count < REJECTION_LOG_ANSWER_BURST; count++)
        assert_true (rejection_log_take_answer (error_rate_limit, 1, 1000, now_ms));
    assert_false (rejection_log_take_answer (error_rate_limit, 1, 1000, now_ms));
    assert_true (rejection_log_take_answer (error_rate_limit, 2, 1000, now_ms)
        && rejection_log_take_answer (error_rate_limit, 1, 1001, now_ms));
    size_t given = 0;
    for (; now_ms <= 10005; now_ms++)
        given += rejection_log_take_answer (error_rate_limit, 1, 1000, now_ms);
    assert_in_range (given, 10 * REJECTION_LOG_ANSWER_A_SECOND - 1, 10 * REJECTION_LOG_ANSWER_A_SECOND + 1);
    //  A long pause gives a burst, not more; whatever the clock says.
    now_ms = INT64_MAX / 2;
    for (given = 0; rejection_log_take_answer (error_rate_limit, 1, 1000, now_ms); given++);
    assert_int_equal (given, REJECTION_LOG_ANSWER_BURST);
    //  More users than there are entries: users that come again are told apart.
    for (uint64_t user = 0; user < 3 * REJECTION_LOG_ANSWER_USERS_MAX; user++)
        assert_true (rejection_log_take_answer (error_rate_limit, 7, user, ++now_ms));
    assert_true (rejection_log_take_answer (error_rate_limit, 7, 3 * REJECTION_LOG_ANSWER_USERS_MAX - 1,
        now_ms));
    free (error_rate_limit);
}

static void
errors_are_limited_by_user (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    for (int count = 0; count < 3000; count++)
        play_say (play, 1 + (uint32_t) count % 50, PLAY_A1, WIRE_PROGRESS, 1, 1, "short", 5);
    size_t answered = 0;
    for (uint32_t peer = 1; peer <= 50; peer++)
        answered += play_count (play, peer, WIRE_ERROR);
    assert_int_equal (answered, REJECTION_LOG_ANSWER_BURST);
    //  Another user of the tenant, and another tenant, get their errors; and a correct request is answered.
    play_say (play, 60, PLAY_A2, WIRE_PROGRESS, 1, 2, "short", 5);
    assert_error_for (play, 60, 2, "unknown_job", "");
    play_say (play, 61, PLAY_B, WIRE_PROGRESS, 1, 2, "short", 5);
    assert_error_for (play, 61, 2, "unknown_job", "");
    s_join (play, 62, PLAY_A1, JOIN_TRAIN);
    //  Nor is one that leaves a job that has ended counted, or logged.
    play_say (play, 63, PLAY_A2, WIRE_LEAVE, 1000, 2, NULL, 0);
    assert_error_for (play, 63, 2, "unknown_job", "");
    json_t *status = play_status (play, PLAY_ROOT);
    assert_int_equal (json_integer_value (json_object_get (status, "unanswered")),
        3000 - REJECTION_LOG_ANSWER_BURST);
    assert_int_equal (json_integer_value (json_object_get (json_object_get (status, "refusals"),
        "unknown_job")), 3002);
    size_t index;
    json_t *tenant;
    json_array_foreach (json_object_get (status, "tenants"), index, tenant)
        assert_int_equal (json_integer_value (json_object_get (tenant, "unanswered")),
            strcmp (json_string_value (json_object_get (tenant, "name")), "a") == 0?
            3000 - REJECTION_LOG_ANSWER_BURST: 0);
    assert_int_equal (index, 3);
    json_decref (status);
    //  The log has a line of them a second, with their number.
    play_turn (play, 2000);
    const char *log = play_log (play);
    size_t lines = 0;
    for (const char *at = log; (at = strstr (at, "notice refused tenant=a code=unknown_job user=")); at++)
        lines++;
    assert_int_equal (lines, 2);
    assert_non_null (strstr (log, "user=1 times=1: "));
    assert_non_null (strstr (log, "user=2 times=3000: "));
    play_destroy (&play);
}

//  ---- requests that wait

//  One tenant floods the thread with what costs much; the other's request, and its job, hardly notice.
static void
one_tenant_does_not_have_the_thread (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_B, JOIN_TRAIN);
    play_cost (play, 1000000);
    for (uint32_t count = 0; count < 200; count++)
        play_say_text (play, 100 + count, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    play_say_text (play, 2, PLAY_B, WIRE_STATUS, 0, 1, "{}");
    play_turn (play, 0);
    assert_non_null (play_last (play, 2, WIRE_STATUS_REPLY));
    size_t answered = 0;
    for (uint32_t count = 0; count < 200; count++)
        answered += play_count (play, 100 + count, WIRE_STATUS_REPLY);
    assert_in_range (answered, 0, 8);
    //  While the other's job is there, the flood has a tenth of the time.
    int64_t begin_ms = play_now_ms (play);
    for (int turn = 0; turn < 10000 && play_count (play, 299, WIRE_STATUS_REPLY) == 0; turn++) {
        play_turn (play, 5);
        s_progress (play, 1, PLAY_B, job, play_count (play, 1, WIRE_BATCH));
    }
    //  Half a millisecond is measured of each.
    assert_in_range (play_now_ms (play) - begin_ms, 200 * 4, 200 * 8);
    assert_int_equal (play_count (play, 1, WIRE_BATCH), 3 * PLAY_SAMPLES / 4);
    play_destroy (&play);
}

//  Requests that cost less than a tenth of a millisecond each are not for nothing.
static void
small_requests_add_up (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    play_cost (play, 150000);               //  of which half is measured; nine times that is less than a
                                            //  millisecond
    int64_t begin_ms = play_now_ms (play);
    for (uint32_t count = 0; count < 250; count++)
        play_say_text (play, 100 + count, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    for (int turn = 0; turn < 1000 && play_count (play, 349, WIRE_STATUS_REPLY) == 0; turn++)
        play_turn (play, 1);
    assert_in_range (play_now_ms (play) - begin_ms, 200, 400);
    play_destroy (&play);
}

//  However much was done for one tenant, another's request waits for it a second at most.
static void
a_rest_has_an_end (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    play_cost (play, UINT64_C (4000000000));
    play_say_text (play, 2, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    play_turn (play, 0);
    assert_non_null (play_last (play, 2, WIRE_STATUS_REPLY));
    play_cost (play, 0);
    play_say_text (play, 3, PLAY_B, WIRE_STATUS, 0, 1, "{}");
    play_turn (play, 500);
    assert_null (play_last (play, 3, WIRE_STATUS_REPLY));
    assert_in_range (service_wakeup (play_service (play)) - play_now_ms (play), 1, 500);
    play_turn (play, 600);
    assert_non_null (play_last (play, 3, WIRE_STATUS_REPLY));
    play_destroy (&play);
}

//  The server does not pause a tenant that is alone.
static void
a_tenant_alone_does_not_wait (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_A1, JOIN_TRAIN);
    play_cost (play, 1000000);
    for (uint32_t count = 0; count < 100; count++)
        play_say_text (play, 100 + count, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    for (int turn = 0; turn < 60; turn++)
        play_turn (play, 0);
    assert_non_null (play_last (play, 199, WIRE_STATUS_REPLY));
    assert_true (service_wakeup (play_service (play)) == INT64_MAX);
    play_destroy (&play);
}

static void
a_full_line_is_busy (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    for (uint32_t count = 0; count < 2 * WAITING_LINE_MAX; count++)
        play_say_text (play, 1000 + count % 300, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    json_t *status = play_status (play, PLAY_ROOT);
    assert_int_equal (json_integer_value (json_object_get (status, "waiting_requests")), WAITING_LINE_MAX);
    assert_int_equal (json_integer_value (json_object_get (json_object_get (status, "refusals"), "busy")),
        WAITING_LINE_MAX);
    json_decref (status);
    //  The other tenant has a line of its own.
    play_say_text (play, 2, PLAY_B, WIRE_STATUS, 0, 1, "{}");
    play_turn (play, 0);
    assert_non_null (play_last (play, 2, WIRE_STATUS_REPLY));
    play_destroy (&play);
    //  If there is one tenant, it is not told that the server is busy: it is served instead.
    play = play_new (false);
    for (uint32_t count = 0; count < 2 * WAITING_LINE_MAX; count++)
        play_say_text (play, 1, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    for (int turn = 0; turn < 10; turn++)
        play_turn (play, 5);
    assert_int_equal (play_count (play, 1, WIRE_STATUS_REPLY), 2 * WAITING_LINE_MAX);
    play_destroy (&play);
}

//  What a connection says is done in its order: JOIN, then what is about that job.
static void
a_connections_order_is_kept (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    uint64_t job = s_join (play, 2, PLAY_A1, JOIN_TRAIN);
    play_cost (play, 10000000);
    for (uint32_t count = 0; count < 20; count++)
        play_say_text (play, 100 + count, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    //  Its number is known before it is there.
    play_say_text (play, 3, PLAY_A1, WIRE_JOIN, 0, 1, JOIN_TRAIN);
    s_progress (play, 3, PLAY_A1, job + 1, 0);
    play_say (play, 3, PLAY_A1, WIRE_LEAVE, job + 1, 2, NULL, 0);
    //  PROGRESS of a job that is there waits for no STATUS; LEAVE does.
    play_say_text (play, 2, PLAY_A1, WIRE_STATUS, job, 3, "{}");
    s_progress (play, 2, PLAY_A1, job, 1000);
    assert_error_for (play, 2, 5, "bad_request", "");
    play_say (play, 2, PLAY_A1, WIRE_LEAVE, job, 4, NULL, 0);
    assert_null (play_last (play, 2, WIRE_ENDED));
    play_turn (play, 4000);
    assert_int_equal (play_count (play, 3, WIRE_JOINED), 1);
    assert_int_equal (play_count (play, 3, WIRE_ERROR), 0);
    assert_non_null (strstr (play_last (play, 3, WIRE_ENDED)->text, "left"));
    assert_int_equal (play_last (play, 2, WIRE_STATUS_REPLY)->job, job);
    assert_int_equal (play_last (play, 2, 0)->kind, WIRE_ENDED);
    play_destroy (&play);
}

//  Every request that waits is answered at the end.
static void
the_end_answers_all (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    play_cost (play, 50000000);
    for (uint32_t count = 0; count < 40; count++)
        play_say_text (play, 100 + count, PLAY_A1, count % 2? WIRE_STATUS: WIRE_JOIN, 0, 1,
            count % 2? "{}": JOIN_TRAIN);
    service_stop (play_service (play), play_now_ms (play));
    for (uint32_t count = 0; count < 40; count++)
        if (count % 2)
            assert_non_null (play_last (play, 100 + count, WIRE_STATUS_REPLY));
        else
            assert_error_for (play, 100 + count, 1, "stopping", "");
    assert_non_null (strstr (play_last (play, 1, WIRE_ENDED)->text, "stopping"));
    play_destroy (&play);
}

//  ---- clients that do not read

static void
a_client_that_does_not_read_is_not_answered (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_stop_reading (play);
    size_t answered = 0;
    for (; answered < 2000; answered++) {
        play_say_text (play, 1, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
        play_turn (play, 0);
        if (play_last (play, 1, 0)->kind == WIRE_ERROR)
            break;
    }
    assert_error_for (play, 1, 1, "busy", "read them first");
    json_t *status = play_status (play, PLAY_ROOT);
    assert_in_range (json_integer_value (json_object_get (status, "unread_bytes")), OUTBOX_BACKLOG_OF_ONE_MAX,
        OUTBOX_BACKLOG_OF_ONE_MAX + 10000);
    json_decref (status);
    play_say_text (play, 1, PLAY_A1, WIRE_JOIN, 0, 2, JOIN_TRAIN);
    play_turn (play, 0);
    assert_error_for (play, 1, 2, "busy", "read them first");
    //  Others' answers come; and its own, when it has read.
    play_say_text (play, 2, PLAY_A1, WIRE_STATUS, 0, 1, "{}");
    play_turn (play, 0);
    assert_int_equal (play_last (play, 2, 0)->kind, WIRE_STATUS_REPLY);
    play_read_all (play);
    play_say_text (play, 1, PLAY_A1, WIRE_STATUS, 0, 3, "{}");
    play_turn (play, 0);
    assert_int_equal (play_last (play, 1, 0)->kind, WIRE_STATUS_REPLY);
    play_destroy (&play);
}

static void
unread_accounts_are_bounded (void **state)
{
    (void) state;
    outbox_backlog_t *backlog = outbox_backlog_new ();
    atomic_size_t *accounts [OUTBOX_BACKLOG_ACCOUNTS_MAX];
    for (uint32_t number = 0; number < OUTBOX_BACKLOG_ACCOUNTS_MAX; number++) {
        peer_t peer = play_peer (number);
        accounts [number] = outbox_backlog_account (backlog, &peer, number % 4, OUTBOX_BACKLOG_ACCOUNTS_MAX);
        assert_non_null (accounts [number]);
        atomic_fetch_add (accounts [number], 10);
        assert_ptr_equal (outbox_backlog_account (backlog, &peer, number % 4, OUTBOX_BACKLOG_ACCOUNTS_MAX),
            accounts [number]);
    }
    peer_t one_more = play_peer (OUTBOX_BACKLOG_ACCOUNTS_MAX), first = play_peer (0);
    assert_null (outbox_backlog_account (backlog, &one_more, 5, OUTBOX_BACKLOG_ACCOUNTS_MAX));
    assert_int_equal (outbox_backlog_bytes (backlog), 10 * OUTBOX_BACKLOG_ACCOUNTS_MAX);
    atomic_fetch_sub (accounts [17], 10);
    //  A place is free, but not for a tenant that has its share of them.
    assert_null (outbox_backlog_account (backlog, &one_more, 0, OUTBOX_BACKLOG_ACCOUNTS_MAX / 4));
    assert_ptr_equal (outbox_backlog_account (backlog, &first, 0, OUTBOX_BACKLOG_ACCOUNTS_MAX / 4),
        accounts [0]);
    assert_ptr_equal (outbox_backlog_account (backlog, &one_more, 0, OUTBOX_BACKLOG_ACCOUNTS_MAX / 4 + 1),
        accounts [17]);
    assert_ptr_equal (outbox_backlog_account (backlog, &one_more, 5, 1), accounts [17]);
    //  A tenant's all together.
    atomic_fetch_add (accounts [4], OUTBOX_BACKLOG_OF_TENANT_MAX);
    assert_null (outbox_backlog_account (backlog, &first, 0, OUTBOX_BACKLOG_ACCOUNTS_MAX));
    outbox_backlog_destroy (&backlog);
}

//  STATUS on so many connections of a that none of them reads, until one is refused.
static void
s_fill_unread (play_t *play)
{
    uint32_t peer = 100;
    do {
        assert_true (peer < 100 + 2 * OUTBOX_BACKLOG_ACCOUNTS_MAX);
        play_say_text (play, ++peer, PLAY_A2, WIRE_STATUS, 0, 1, "{}");
        service_serve (play_service (play), play_now_ms (play));
    } while (play_last (play, peer, WIRE_STATUS_REPLY));
    assert_error_for (play, peer, 1, "busy", "read them first");
}

//  However many connections of one tenant read nothing, another tenant's requests are answered.
static void
unread_answers_are_their_tenants (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    play_stop_reading (play);
    s_fill_unread (play);
    play_say_text (play, 1, PLAY_B, WIRE_STATUS, 0, 1, "{}");
    service_serve (play_service (play), play_now_ms (play));
    assert_int_equal (play_last (play, 1, 0)->kind, WIRE_STATUS_REPLY);
    s_join (play, 2, PLAY_B, JOIN_TRAIN);
    play_destroy (&play);
}

//  What was taken on is answered, whatever others of the tenant leave unread meanwhile.
static void
a_question_is_answered (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_A1, JOIN_SEEDED);
    play_turn (play, 100);
    play_stop_reading (play);
    play_say_text (play, 1, PLAY_A1, WIRE_EXPLAIN, job, 9, "{\"id\":\"0\",\"epoch\":\"0\"}");
    service_serve (play_service (play), play_now_ms (play));
    s_fill_unread (play);
    play_turn (play, 0);        //  a worker's turn
    play_turn (play, 0);        //  the answer
    //  The files are empty here, so that nothing can be told of them.
    assert_error_for (play, 1, 9, "bad_sample", "");
    play_destroy (&play);
}

//  ---- keys that are no more

#define JOIN_RANK "{\"dataset\":\"train\",\"batch_size\":4,\"pipeline\":\"eval\",\"transport\":\"inline\"," \
    "\"job\":\"j\",\"rank\":0,\"world_size\":2}"

static void
a_revoked_key_loses_all (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_join (play, 1, PLAY_KEY, JOIN_TRAIN), others = s_join (play, 2, PLAY_B, JOIN_TRAIN);
    uint64_t same_tenant = s_join (play, 3, PLAY_A1, JOIN_TRAIN);
    play_say_text (play, 4, PLAY_KEY, WIRE_JOIN, 0, 1, JOIN_RANK);
    for (int turn = 0; turn < 10; turn++)
        play_turn (play, 5);
    assert_non_null (play_last (play, 4, WIRE_NOTICE));
    assert_int_equal (service_jobs (play_service (play)), 4);
    play_say_text (play, 5, PLAY_KEY, WIRE_JOIN, 0, 1, JOIN_TRAIN);         //  it waits
    assert_int_equal (play_revoke (play), 1);
    assert_non_null (strstr (play_last (play, 1, WIRE_ENDED)->text, "\"revoked\""));
    play_turn (play, 2000);
    assert_null (job_of_id (play_broker (play), job));
    assert_non_null (job_of_id (play_broker (play), others));
    assert_non_null (job_of_id (play_broker (play), same_tenant));
    assert_int_equal (service_jobs (play_service (play)), 2);
    assert_error_for (play, 4, 1, "revoked", "");
    assert_error_for (play, 5, 1, "revoked", "");
    assert_null (play_last (play, 5, WIRE_JOINED));
    //  Whatever it says now, it is told that, up to a limit, and nothing else.
    size_t before = play_count (play, 1, 0);
    for (int count = 0; count < 2000; count++)
        play_say_text (play, 1, PLAY_KEY, count % 2? WIRE_STATUS: WIRE_JOIN, job, 1,
            count % 2? "{}": JOIN_TRAIN);
    assert_error_for (play, 1, 1, "revoked", "");
    //  One went to 5.
    assert_in_range (play_count (play, 1, 0) - before, REJECTION_LOG_ANSWER_BURST - 1,
        REJECTION_LOG_ANSWER_BURST);
    assert_int_equal (play_count (play, 1, WIRE_ERROR), play_count (play, 1, 0) - before);
    s_take_all (play, 2, PLAY_B, others);
    assert_int_equal (play_count (play, 2, WIRE_BATCH), 3 * PLAY_SAMPLES / 4);
    assert_non_null (strstr (play_log (play), " warning ended tenant=a job="));
    assert_non_null (strstr (play_log (play),
        " reason=revoked: job 4294967297 ended: the key of its client was revoked\n"));
    play_destroy (&play);
}

//  ---- the log

static void
names_of_tenants_only_where_there_are_several (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    uint64_t job = s_join (play, 1, PLAY_A1,
        "{\"dataset\":\"train\",\"batch_size\":4,\"transport\":\"inline\",\"name\":\"x: job=7 y\"}");
    play_say (play, 1, PLAY_A1, WIRE_LEAVE, job, 2, NULL, 0);
    play_turn (play, 0);
    const char *log = play_log (play);
    assert_non_null (strstr (log,
        " info joined job=1 user=1 dataset=train: job 1 joined: train, batches of 4, inline, x: job=7 y\n"));
    assert_non_null (strstr (log, " info left job=1 user=1: job 1 left\n"));
    assert_null (strstr (log, "tenant"));
    play_destroy (&play);
    play = play_new (true);
    s_join (play, 1, PLAY_B, JOIN_TRAIN);
    assert_non_null (strstr (play_log (play), " info joined tenant=b job="));
    play_destroy (&play);
}

//  ---- anything

//  Whatever is said in whatever order, no client gets what is not its own, and all is put away.  Replay:
//  TEST_SEED=<seed>.
static void
made_up_messages (void **state)
{
    (void) state;
    static const char *const joins [] = { JOIN_TRAIN, "{\"dataset\":\"secret\",\"batch_size\":4}", JOIN_RANK,
        "{}", "[",
        "{\"dataset\":\"train\",\"batch_size\":16,\"slots\":3,\"job\":\"j\"}",
        "{\"dataset\":\"train\",\"batch_size\":65536,\"slots\":16}" };
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (10); seed++, round++) {
        uint64_t random = seed;
        play_t *play = play_new (true);
        static const uint32_t users [] = { PLAY_ROOT, PLAY_A1, PLAY_A2, PLAY_B, PLAY_STRANGER, PLAY_KEY };
        for (int step = 0; step < 1500; step++) {
            uint32_t user = users [test_below (&random, 6)], peer = (uint32_t) test_below (&random, 6);
            uint64_t job = test_below (&random, 3) << 32 | test_below (&random, 20);
            wire_progress_t progress = { test_below (&random, 4), test_below (&random, 4),
                test_below (&random, 2) };
            switch (test_below (&random, 9)) {
            case 0: case 1:
                play_say_text (play, peer, user, WIRE_JOIN, 0, 1,
                    joins [test_below (&random, sizeof joins / sizeof *joins)]);
                break;
            case 2: case 3:
                play_say (play, peer, user, WIRE_PROGRESS, job, 1, &progress,
                    test_below (&random, 10)? sizeof progress: 7);
                break;
            case 4:
                play_say_text (play, peer, user, WIRE_EXPLAIN, job, 1, "{\"id\":\"3\"}");
                break;
            case 5:
                play_say_text (play, peer, user, WIRE_STATUS, job, 1, test_below (&random, 5)? "{}": "x");
                break;
            case 6:
                play_say (play, peer, user, test_below (&random, 3)? WIRE_HEARTBEAT: WIRE_LEAVE, job, 1, NULL,
                    0);
                break;
            case 7:
                play_say (play, peer, user, (wire_kind_t) test_below (&random, 256), job, 1, NULL, 0);
                break;
            default:
                play_cost (play, test_below (&random, 4) * 1000000);
                play_turn (play, 5 * (int64_t) test_below (&random, 10));
            }
        }
        play_turn (play, 50);
        const play_sent_t *sent = play_last (play, 0, 0);
        if (!sent)
            fail_msg ("seed %" PRIu64 ": nothing was sent at all", seed);
        play_destroy (&play);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (a_job_belongs_to_its_client),
        cmocka_unit_test (a_data_set_is_told_to_users_that_may_use_it),
        cmocka_unit_test (its_epochs_stay_whole),
        cmocka_unit_test (a_chosen_routing_id_gets_no_job),
        cmocka_unit_test (unknown_and_forbidden_look_the_same),
        cmocka_unit_test (a_stranger_gets_no_answer),
        cmocka_unit_test (only_operators_drain),
        cmocka_unit_test (only_operators_end_it),
        cmocka_unit_test (other_versions_are_told_ours),
        cmocka_unit_test (error_rate_limit_by_hand),
        cmocka_unit_test (errors_are_limited_by_user),
        cmocka_unit_test (one_tenant_does_not_have_the_thread),
        cmocka_unit_test (small_requests_add_up),
        cmocka_unit_test (a_rest_has_an_end),
        cmocka_unit_test (a_tenant_alone_does_not_wait),
        cmocka_unit_test (a_full_line_is_busy),
        cmocka_unit_test (a_connections_order_is_kept),
        cmocka_unit_test (the_end_answers_all),
        cmocka_unit_test (a_client_that_does_not_read_is_not_answered),
        cmocka_unit_test (unread_accounts_are_bounded),
        cmocka_unit_test (unread_answers_are_their_tenants),
        cmocka_unit_test (a_question_is_answered),
        cmocka_unit_test (a_revoked_key_loses_all),
        cmocka_unit_test (names_of_tenants_only_where_there_are_several),
        cmocka_unit_test (made_up_messages),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
