//  Data sets that are added to a running server, and taken from it: what operators may ask, and what becomes
//  of jobs and joins.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "dataset_source.h"
#include "service_play.h"
#include "service_asserts.h"

#define ADD "{\"arguments\":[\"--dataset\",\"val=/val\"]}"
#define REMOVE "{\"dataset\":\"train\"}"
#define REMOVE_NOW "{\"dataset\":\"train\",\"now\":true}"

//  ADD or REMOVE of this user, and its answer.
static const play_sent_t *
s_ask (play_t *play, uint32_t user, wire_kind_t kind, const char *text)
{
    play_forget_sent (play);
    play_say_text (play, 9, user, kind, 0, 77, text);
    const play_sent_t *sent = play_sent_with (play, 77);
    assert_non_null (sent);
    return sent;
}

static void
s_assert_answer (const play_sent_t *sent, wire_kind_t kind, const char *fragment)
{
    if (sent->kind != kind || !strstr (sent->text, fragment))
        fail_msg ("kind %d: %s; expected kind %d, '%s'", (int) sent->kind, sent->text, (int) kind, fragment);
}

//  A job on `train` by this connection, which has begun.
static uint64_t
s_job (play_t *play, uint32_t peer, uint32_t user)
{
    play_say_text (play, peer, user, WIRE_JOIN, 0, 1, "{\"dataset\":\"train\",\"batch_size\":8,"
        "\"transport\":\"inline\"}");
    play_turn (play, 20);
    const play_sent_t *joined = play_last (play, peer, WIRE_JOINED);
    assert_non_null (joined);
    return joined->job;
}

//  The data set's memory is the driver's again.
static bool
s_is_given_back (play_t *play)
{
    void *user;
    return dataset_next_removed (play_broker (play), &user);
}

//  ---- rights, and a server that ends

static void
only_operators_change_data_sets (void **state)
{
    (void) state;
    static const uint32_t others [] = { PLAY_A1, PLAY_B, PLAY_KEY };
    play_t *play = play_new (true);
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        s_assert_answer (s_ask (play, others [index], WIRE_ADD, ADD), WIRE_ERROR, "\"forbidden\"");
        s_assert_answer (s_ask (play, others [index], WIRE_REMOVE, REMOVE_NOW), WIRE_ERROR, "\"forbidden\"");
    }
    assert_string_equal (play_added (play), "");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ADDING, "\"ready\"");
    assert_string_equal (play_added (play), "--dataset val=/val");
    play_be_worker (play);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ERROR, "worker's key");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "worker's key");
    play_destroy (&play);
}

//  Where every caller is an operator, none has further files opened.
static void
no_caller_adds_to_an_open_server (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    s_assert_answer (s_ask (play, PLAY_A1, WIRE_ADD, ADD), WIRE_ERROR, "--open");
    assert_string_equal (play_added (play), "");
    play_destroy (&play);
}

static void
a_server_that_ends_changes_none (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    s_job (play, 1, PLAY_ROOT);
    play_say_text (play, 2, PLAY_ROOT, WIRE_DRAIN, 0, 1, "{}");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ERROR, "\"stopping\"");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE_NOW), WIRE_ERROR, "\"stopping\"");
    play_destroy (&play);
}

static void
a_server_may_keep_those_it_began_with (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    play_fix_datasets (play);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ERROR, "\"unsupported\"");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "\"unsupported\"");
    play_destroy (&play);
}

static void
messages_that_say_nothing (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, "{}"), WIRE_ERROR, "\"bad_request\"");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, "{}"), WIRE_ERROR, "\"bad_request\"");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, "{\"dataset\":\"trian\"}"), WIRE_ERROR,
        "\"unknown_dataset\"");
    play_destroy (&play);
}

//  ---- adding

static void
an_addition_is_asked_for_again_until_it_is_ready (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    play_add (play, ADDITIONS_OPENING, "data set 'val': 12,000 files");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ADDING,
        "{\"state\":\"opening\",\"progress\":\"data set 'val': 12,000 files\"}");
    play_add (play, ADDITIONS_READY, "data set 'val': 5 samples\nwarning: few\n");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ADDING,
        "{\"state\":\"ready\",\"lines\":[\"data set 'val': 5 samples\",\"warning: few\"]}");
    play_add (play, ADDITIONS_REFUSED, "data set 'val' is /other here");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_ADD, ADD), WIRE_ERROR, "data set 'val' is /other here");
    play_destroy (&play);
}

//  A server with --until-idle does not end while it opens what a client waits for.
static void
a_server_that_opens_is_not_idle (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    service_t *service = play_service (play);
    assert_int_equal (service_uses (service), 0);
    play_add (play, ADDITIONS_OPENING, "");
    s_ask (play, PLAY_ROOT, WIRE_ADD, ADD);
    play_turn (play, 4000);
    assert_int_equal (service_uses (service), 1);
    assert_int_equal (service_jobs (service), 0);
    s_ask (play, PLAY_ROOT, WIRE_ADD, ADD);
    play_turn (play, 4000);
    assert_int_equal (service_uses (service), 1);
    play_add (play, ADDITIONS_READY, "");
    s_ask (play, PLAY_ROOT, WIRE_ADD, ADD);
    assert_int_equal (service_uses (service), 0);
    play_add (play, ADDITIONS_OPENING, "");         //  the client is gone then
    s_ask (play, PLAY_ROOT, WIRE_ADD, ADD);
    play_turn (play, 5500);
    assert_int_equal (service_uses (service), 0);
    play_destroy (&play);
}

//  After a restart a client asks again until its data set is there, and the server waits for that.
static void
a_data_set_that_is_opened_again_is_waited_for (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    play_await (play, "val");
    play_say_text (play, 1, PLAY_ROOT, WIRE_JOIN, 0, 5, "{\"dataset\":\"val\",\"batch_size\":8}");
    play_turn (play, 5);
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "\"opening\"");
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "data set 'val' is being opened again");
    play_say_text (play, 2, PLAY_ROOT, WIRE_DATASET, 0, 6, "{\"dataset\":\"val\"}");
    play_turn (play, 5);
    s_assert_answer (play_last (play, 2, 0), WIRE_ERROR, "\"opening\"");
    assert_int_equal (service_uses (play_service (play)), 1);
    play_await (play, NULL);
    play_say_text (play, 1, PLAY_ROOT, WIRE_JOIN, 0, 7, "{\"dataset\":\"val\",\"batch_size\":8}");
    play_turn (play, 5);
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "\"unknown_dataset\"");
    assert_int_equal (service_uses (play_service (play)), 0);
    play_destroy (&play);
}

//  ---- removing

static void
a_data_set_without_jobs_goes_at_once (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_REMOVED, "{\"jobs\":0}");
    assert_true (s_is_given_back (play));
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "\"unknown_dataset\"");
    play_say_text (play, 1, PLAY_ROOT, WIRE_JOIN, 0, 5, "{\"dataset\":\"train\",\"batch_size\":8}");
    play_turn (play, 5);
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "this server has: secret");
    play_say_text (play, 1, PLAY_ROOT, WIRE_DATASET, 0, 6, "{\"dataset\":\"train\"}");
    play_turn (play, 5);
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "\"unknown_dataset\"");
    json_t *status = play_status (play, PLAY_ROOT), *datasets = json_object_get (status, "datasets");
    assert_int_equal (json_array_size (datasets), 1);
    const json_t *name = json_object_get (json_array_get (datasets, 0), "name");
    assert_string_equal (json_string_value (name), "secret");
    json_decref (status);
    play_destroy (&play);
}

//  A name that goes on to another project's data gives no client those.
static void
a_name_at_another_path_is_no_data_set (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    json_t *status = play_status (play, PLAY_ROOT);
    const json_t *first = json_array_get (json_object_get (status, "datasets"), 0);
    const char *path = json_string_value (json_object_get (first, "path"));
    static const char *const more [] = { "", ",\"batch_size\":8,\"transport\":\"inline\"" };
    static const wire_kind_t kinds [] = { WIRE_DATASET, WIRE_JOIN }, replies [] = { WIRE_DATASET_REPLY,
        WIRE_JOINED };
    char text [8192];
    for (uint32_t index = 0; index < 2; index++) {
        snprintf (text, sizeof text, "{\"dataset\":\"train\",\"path\":\"/other\"%s}", more [index]);
        play_say_text (play, 1 + index, PLAY_ROOT, kinds [index], 0, 5, text);
        play_turn (play, 20);
        const play_sent_t *sent = play_last (play, 1 + index, 0);
        s_assert_answer (sent, WIRE_ERROR, "\"unknown_dataset\"");
        s_assert_answer (sent, WIRE_ERROR, path);
        s_assert_answer (sent, WIRE_ERROR, "this client means /other");
        snprintf (text, sizeof text, "{\"dataset\":\"train\",\"path\":\"%s\"%s}", path, more [index]);
        play_say_text (play, 1 + index, PLAY_ROOT, kinds [index], 0, 6, text);
        play_turn (play, 20);
        assert_non_null (play_last (play, 1 + index, replies [index]));
    }
    json_decref (status);
    play_destroy (&play);
}

static void
a_job_keeps_its_data_set_or_ends_with_it (void **state)
{
    (void) state;
    play_t *play = play_new (true);
    uint64_t job = s_job (play, 1, PLAY_A1);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "\"in_use\"");
    play_turn (play, 20);
    assert_null (play_last (play, 1, WIRE_ENDED));
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE_NOW), WIRE_REMOVED, "{\"jobs\":1}");
    const play_sent_t *ended = play_last (play, 1, WIRE_ENDED);
    assert_non_null (ended);
    assert_int_equal (ended->job, job);
    s_assert_answer (ended, WIRE_ENDED,
        "{\"reason\":\"removed\",\"message\":\"data set 'train' was removed from the server\"}");
    play_turn (play, 20);
    assert_int_equal (broker_jobs (play_broker (play), NULL), 0);
    assert_true (s_is_given_back (play));
    play_destroy (&play);
}

static void
ranks_that_wait_keep_it_or_are_refused (void **state)
{
    (void) state;
    static const char rank [] = "{\"dataset\":\"%s\",\"batch_size\":8,\"job\":\"%s\",\"world_size\":2,"
        "\"rank\":0}";
    char join [200];
    play_t *play = play_new (false);
    snprintf (join, sizeof join, rank, "train", "run");
    play_say_text (play, 1, PLAY_ROOT, WIRE_JOIN, 0, 1, join);
    snprintf (join, sizeof join, rank, "secret", "other");
    play_say_text (play, 2, PLAY_ROOT, WIRE_JOIN, 0, 2, join);
    play_turn (play, 5);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "0 jobs, 1 wait");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE_NOW), WIRE_REMOVED, "{\"jobs\":1}");
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR,
        "{\"error\":\"removed\",\"message\":\"data set 'train' was removed from the server\"}");
    assert_int_equal (play_count (play, 2, WIRE_ERROR), 0);
    assert_int_equal (service_jobs (play_service (play)), 1);
    assert_true (s_is_given_back (play));
    play_destroy (&play);
}

//  A worker reads its ids, and looks at the data set while it does.
static void
a_join_that_is_being_read_holds_it (void **state)
{
    (void) state;
    enum { IDS = (1 << 17) - 1 };       //  a whole frame
    static uint64_t ids [1 + IDS];
    ids [0] = WIRE_IDS_LIST;
    static const char text [] = "{\"dataset\":\"train\",\"batch_size\":8,\"order\":\"list\","
        "\"frames\":[\"list\"]}";
    wire_head_t head = reply_head (WIRE_JOIN, 0, 1);
    frame_t frames [3] = { { (const uint8_t *) &head, sizeof head },
        { (const uint8_t *) text, sizeof text - 1 }, { (const uint8_t *) ids, sizeof ids } };
    play_t *play = play_new (false);
    play_rest (play, true);
    play_say_frames (play, 1, PLAY_ROOT, frames, 3);
    play_turn (play, 5);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE), WIRE_ERROR, "0 jobs, 1 wait");
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE_NOW), WIRE_REMOVED, "{\"jobs\":1}");
    assert_false (s_is_given_back (play));
    play_rest (play, false);
    play_turn (play, 5);
    s_assert_answer (play_last (play, 1, 0), WIRE_ERROR, "\"removed\"");
    assert_true (s_is_given_back (play));
    play_destroy (&play);
}

static void
a_question_about_a_sample_holds_it (void **state)
{
    (void) state;
    play_t *play = play_new (false);
    uint64_t job = s_job (play, 1, PLAY_ROOT);
    const play_sent_t *batch = play_last (play, 1, WIRE_BATCH);
    assert_non_null (batch);
    uint64_t id;
    memcpy (&id, batch->text + sizeof (wire_batch_t), sizeof id);
    char text [60];
    snprintf (text, sizeof text, "{\"id\":\"%llu\"}", (unsigned long long) id);
    play_rest (play, true);
    play_say_text (play, 1, PLAY_ROOT, WIRE_EXPLAIN, job, 5, text);
    play_turn (play, 5);
    s_assert_answer (s_ask (play, PLAY_ROOT, WIRE_REMOVE, REMOVE_NOW), WIRE_REMOVED, "{\"jobs\":1}");
    //  The samples' workers end first, the one with the question last.
    play_turn (play, 5);
    assert_false (s_is_given_back (play));
    play_rest (play, false);
    play_turn (play, 20);
    assert_true (s_is_given_back (play));
    play_destroy (&play);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (only_operators_change_data_sets),
        cmocka_unit_test (no_caller_adds_to_an_open_server),
        cmocka_unit_test (a_server_that_ends_changes_none),
        cmocka_unit_test (a_server_may_keep_those_it_began_with),
        cmocka_unit_test (messages_that_say_nothing),
        cmocka_unit_test (an_addition_is_asked_for_again_until_it_is_ready),
        cmocka_unit_test (a_server_that_opens_is_not_idle),
        cmocka_unit_test (a_data_set_without_jobs_goes_at_once),
        cmocka_unit_test (a_data_set_that_is_opened_again_is_waited_for),
        cmocka_unit_test (a_name_at_another_path_is_no_data_set),
        cmocka_unit_test (a_job_keeps_its_data_set_or_ends_with_it),
        cmocka_unit_test (ranks_that_wait_keep_it_or_are_refused),
        cmocka_unit_test (a_join_that_is_being_read_holds_it),
        cmocka_unit_test (a_question_about_a_sample_holds_it)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
