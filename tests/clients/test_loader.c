//  The loader against a fake server, from joining to leaving: what the user sees, what the server is told.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake_checks.h"
#include "loading.h"
#include "tureen.h"

//  --------------------------------------------------------------------------
//  The happy path

static void
test_ring_gives_every_epoch_and_the_end (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 30, .epochs = 3 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 3 });
    assert_non_null (loader);
    const tureen_info_t *info = tureen_loader_info (loader);
    assert_true (info->ring);
    assert_int_equal (info->job, FAKE_JOB);
    assert_int_equal (info->samples, 30);
    assert_int_equal (info->field_count, 2);
    assert_string_equal (info->classes [1], "dog");
    loading_read_all (fake, loader, 30, 3);
    tureen_loader_destroy (&loader);
    assert_null (loader);
    assert_int_equal (fake_seen (fake).leaves, 1);
    assert_int_equal (fake_seen (fake).inlines, 0);
    fake_destroy (&fake);
}

static void
test_inline_gives_every_epoch_and_the_end (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 30, .epochs = 3, .heartbeat_ms = 40 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 3,
        .transport = TUREEN_INLINE });
    assert_non_null (loader);
    assert_false (tureen_loader_info (loader)->ring);
    WAIT_FOR (fake, seen, seen.heartbeats >= 3);
    loading_read_all (fake, loader, 30, 3);
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).inlines, 1);
    fake_destroy (&fake);
}

//  A large frame comes in memory of its own, a small one in the middle of a receive buffer: both must be
//  aligned.
static void
test_inline_arrays_are_aligned_at_any_size (void **state)
{
    (void) state;
    for (uint32_t batch_size = 1; batch_size <= 512; batch_size *= 8) {
        fake_plan_t plan = { .samples = 2048, .epochs = 1 };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 1,
            .transport = TUREEN_INLINE, .batch_size = batch_size });
        assert_non_null (loader);
        for (int count = 0; count < 4; count++) {
            tureen_batch_t *batch = loading_next_batch (loader);
            fake_check_batch (batch);
            tureen_batch_release (&batch);
        }
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  Whatever is wrong with the ring, the job gets its batches.
static void
test_a_failing_ring_becomes_inline (void **state)
{
    (void) state;
    static const fake_ring_t failures [] = { FAKE_RING_WRONG_PATH, FAKE_RING_NO_DESCRIPTOR,
        FAKE_RING_REFUSES };
    for (size_t index = 0; index < sizeof failures / sizeof *failures; index++) {
        fake_plan_t plan = { .samples = 10, .epochs = 1, .ring = failures [index] };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 1 });
        assert_non_null (loader);
        assert_false (tureen_loader_info (loader)->ring);
        loading_read_all (fake, loader, 10, 1);
        assert_int_equal (fake_seen (fake).inlines, 1);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A ring counts as taken when its descriptor came.  A client that cannot map it leaves, and joins again
//  inline; the user sees one job.
static void
test_a_ring_that_cannot_be_mapped_is_left (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 10, .epochs = 1, .ring = FAKE_RING_SHORT };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 1 });
    assert_non_null (loader);
    assert_false (tureen_loader_info (loader)->ring);
    assert_int_equal (tureen_loader_info (loader)->job, FAKE_JOB + 1);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.joins, 2);
    assert_int_equal (seen.instances, 1);
    assert_int_equal (seen.leaves, 1);
    assert_non_null (strstr (seen.join, "\"transport\":\"inline\""));
    tureen_batch_t *batch = loading_next_batch (loader);
    fake_check_batch (batch);
    tureen_batch_release (&batch);
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).leaves, 2);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Joining

static void
s_note_waiting (void *context, const char *text)
{
    char *told = context;
    assert_string_equal (told, "");
    snprintf (told, TUREEN_ERROR_BYTES, "%s", text);
}

static void
test_no_server_is_a_timeout_with_a_remedy (void **state)
{
    (void) state;
    tureen_options_t options = { .endpoint = "ipc:///tmp/tureen-there-is-none.sock", .dataset = "train",
        .timeout_ms = 100 };
    assert_null (tureen_loader_new (&options, loading_error, sizeof loading_error));
    assert_int_equal (errno, ETIMEDOUT);
    assert_non_null (strstr (loading_error, "tureen serve --dataset"));
    assert_non_null (strstr (loading_error, options.endpoint));
    //  The caller is told meanwhile, once, what the loader waits for.
    char told [TUREEN_ERROR_BYTES] = "";
    options.timeout_ms = 5000;            //  told after one second, or later on a busy machine
    options.waiting = s_note_waiting;
    options.waiting_context = told;
    assert_null (tureen_loader_new (&options, loading_error, sizeof loading_error));
    assert_non_null (strstr (told, "tureen-there-is-none.sock yet: there is no such socket"));
    assert_non_null (strstr (told, "; looking for it for 5 seconds"));
    //  A server that takes the connection and says nothing.
    fake_plan_t plan = { .deaf = true };
    fake_server_t *fake = fake_new (&plan);
    assert_null (loading_join (fake, (tureen_options_t) { .timeout_ms = 100 }));
    assert_int_equal (errno, ETIMEDOUT);
    fake_destroy (&fake);
}

static void
test_refusal_says_what_the_server_said (void **state)
{
    (void) state;
    fake_plan_t plan = { .refuse = "no data set 'trian'; this server has: train, val" };
    fake_server_t *fake = fake_new (&plan);
    assert_null (loading_join (fake, (tureen_options_t) { .dataset = "trian" }));
    assert_int_equal (errno, ECONNREFUSED);
    assert_non_null (strstr (loading_error, "this server has: train, val"));
    fake_destroy (&fake);
}

static void
test_unusable_joined_is_an_error (void **state)
{
    (void) state;
    static const char *const answers [] = { "{}", "[]", "{", "", "{\"job\":\"x\"}" };
    for (size_t index = 0; index < sizeof answers / sizeof *answers; index++) {
        fake_plan_t plan = { .joined = answers [index] };
        fake_server_t *fake = fake_new (&plan);
        assert_null (loading_join (fake, (tureen_options_t) { 0 }));
        assert_int_equal (errno, EPROTO);
        fake_destroy (&fake);
    }
}

static void
test_unusable_options_name_the_option (void **state)
{
    (void) state;
    static const uint64_t ids [] = { 1 };
    static const tureen_range_t crossed [] = { { 0, 5 }, { 4, 6 } };
    static const struct { tureen_options_t options; const char *says; } cases [] = {
        { { .batch_size = 1 }, "options.dataset" },
        { { .dataset = "a", .batch_size = 65537 }, "options.batch_size" },
        { { .dataset = "a", .slots = 2 }, "options.slots" },
        { { .dataset = "a", .slots = 65 }, "options.slots" },
        { { .dataset = "a", .ids = ids, .id_count = 1 }, "options.ids" },
        { { .dataset = "a", .ids = ids, .id_count = 1, .seeded = true }, "options.ids" },
        { { .dataset = "a", .ids = ids, .id_count = 1, .order = TUREEN_SEEDED }, "options.ids" },
        { { .dataset = "a", .order = TUREEN_SEEDED + 1 }, "options.order" },
        { { .dataset = "a", .pool = 64 }, "options.pool: only with order" },
        { { .dataset = "a", .pool = 64, .seeded = true, .order = TUREEN_PRIVATE },
            "options.pool: only with order" },
        { { .dataset = "a", .pool = 7, .seeded = true }, "options.pool: 7; expected 8 to 16777216" },
        { { .dataset = "a", .pool = 16777217, .order = TUREEN_SEEDED }, "options.pool: 16777217" },
        { { .dataset = "a", .ids = ids, .order = TUREEN_LIST }, "empty" },
        { { .dataset = "a", .ids = ids, .id_count = 1, .order = TUREEN_LIST, .subset = crossed },
        "excludes" },
        { { .dataset = "a", .subset = crossed, .subset_count = 2 }, "overlap" },
        { { .dataset = "a", .subset = crossed }, "no ranges" },
        { { .dataset = "a", .pipeline = "[{\"op\":]" }, "options.pipeline" },
        { { .dataset = "\xff" }, "options.dataset" },
        { { .dataset = "a", .endpoint = "udp://x" }, "ipc://PATH" },
        { { .dataset = "a", .name = "12345678901234567890123456789012345678901234567890123456789012345" },
        "name" },
        { { .dataset = "a", .timeout_ms = -1 }, "timeout_ms" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        assert_null (tureen_loader_new (&cases [index].options, loading_error, sizeof loading_error));
        assert_int_equal (errno, EINVAL);
        if (!strstr (loading_error, cases [index].says))
            fail_msg ("\"%s\" does not say \"%s\"", loading_error, cases [index].says);
    }
    //  And without a buffer for the sentence.
    assert_null (tureen_loader_new (&cases [0].options, NULL, 0));
}

//  A list longer than a frame goes in several.
static void
test_a_long_list_takes_several_frames (void **state)
{
    (void) state;
    enum { IDS = 300000 };
    uint64_t *ids = calloc (IDS, sizeof *ids);
    assert_non_null (ids);
    fake_plan_t plan = { .samples = 8, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .order = TUREEN_LIST, .ids = ids,
        .id_count = IDS });
    assert_non_null (loader);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.join_frames, 2 + 3);
    assert_int_equal (seen.id_bytes, 3 * 8 + IDS * 8);
    assert_non_null (strstr (seen.join, "\"frames\":[\"list\",\"list\",\"list\"]"));
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
    free (ids);
}

//  --------------------------------------------------------------------------
//  Destroying

static void
test_destroy_at_every_stage (void **state)
{
    (void) state;
    for (int transport = 0; transport < 2; transport++)
        for (int batches = 0; batches <= 12; batches++) {
            fake_plan_t plan = { .samples = 20, .epochs = 2 };
            fake_server_t *fake = fake_new (&plan);
            tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2,
                .transport = (tureen_transport_t) transport });
            assert_non_null (loader);
            for (int count = 0; count < batches; count++) {
                tureen_batch_t *batch;
                tureen_event_t event = tureen_loader_next_within (loader, &batch, PATIENCE_MS);
                assert_true (event == TUREEN_BATCH || event == TUREEN_EPOCH_END);
                tureen_batch_release (&batch);
            }
            tureen_loader_destroy (&loader);
            assert_int_equal (fake_seen (fake).leaves, 1);
            assert_int_equal (fake_seen (fake).wrong, 0);
            fake_destroy (&fake);
        }
    tureen_loader_t *none = NULL;
    tureen_loader_destroy (&none);
    tureen_batch_t *nothing = NULL;
    tureen_batch_release (&nothing);
}

//  A server that does not answer LEAVE does not delay the loader's end for long.
static void
test_destroy_does_not_wait_for_ever (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 20, .deed = FAKE_SILENT, .deed_batches = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = loading_next_batch (loader);
    tureen_batch_release (&batch);
    struct timespec begin, end;
    clock_gettime (CLOCK_MONOTONIC, &begin);
    tureen_loader_destroy (&loader);
    clock_gettime (CLOCK_MONOTONIC, &end);
    assert_true (end.tv_sec - begin.tv_sec <= 20);
    fake_destroy (&fake);
}

static volatile sig_atomic_t s_taken;

static void
s_take_signal (int number)
{
    s_taken = number;
}

//  Signals are for the user's threads: with one blocked here, it stays pending when it is sent to the
//  process.
static void
test_no_thread_takes_signals (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 20 };
    fake_server_t *fake = fake_new (&plan);
    sigset_t mask, before, after, pending;
    pthread_sigmask (SIG_SETMASK, NULL, &before);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    pthread_sigmask (SIG_SETMASK, NULL, &after);
    assert_int_equal (sigismember (&after, SIGUSR1), sigismember (&before, SIGUSR1));
    //  The fake's thread must not take it either: it goes first.
    fake_destroy (&fake);
    signal (SIGUSR1, s_take_signal);
    sigemptyset (&mask);
    sigaddset (&mask, SIGUSR1);
    pthread_sigmask (SIG_BLOCK, &mask, NULL);
    kill (getpid (), SIGUSR1);
    usleep (50000);
    sigpending (&pending);
    assert_int_equal (s_taken, 0);
    assert_true (sigismember (&pending, SIGUSR1));
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    signal (SIGUSR1, SIG_DFL);
    tureen_loader_destroy (&loader);
}

//  --------------------------------------------------------------------------
//  Status

static void
test_status_asks_without_a_job (void **state)
{
    (void) state;
    fake_plan_t plan = { 0 };
    fake_server_t *fake = fake_new (&plan);
    char *json;
    assert_int_equal (tureen_status (fake_endpoint (fake), 5000, &json, loading_error, sizeof loading_error),
        0);
    assert_string_equal (json, "{\"version\":\"0.1.0\",\"jobs\":[]}");
    free (json);
    fake_destroy (&fake);
    //  At once, whatever the time for an answer: where nothing listens there will be none.
    static const char *const absent [] [2] = {
        { "ipc:///tmp/tureen-there-is-none.sock", "there is no such socket" },
        { "ipc:///tmp/tureen-there-is-none/s.sock", "there is no folder /tmp/tureen-there-is-none:" },
        { "ipc:///dev/null", "is no socket" },
        { "tcp://127.0.0.1:1", "that host refuses the connection" }
    };
    for (size_t index = 0; index < sizeof absent / sizeof *absent; index++) {
        assert_int_equal (tureen_status (absent [index] [0], INT_MAX, &json, loading_error,
            sizeof loading_error), -ETIMEDOUT);
        assert_null (json);
        assert_non_null (strstr (loading_error, absent [index] [1]));
        assert_non_null (strstr (loading_error, "tureen serve"));
    }
    assert_int_equal (tureen_status ("nonsense", 50, &json, loading_error, sizeof loading_error), -EINVAL);
    assert_int_equal (tureen_status (NULL, -1, &json, loading_error, sizeof loading_error), -EINVAL);
    assert_null (json);
    assert_non_null (strstr (loading_error, "timeout_ms: -1"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_ring_gives_every_epoch_and_the_end),
        cmocka_unit_test (test_inline_gives_every_epoch_and_the_end),
        cmocka_unit_test (test_inline_arrays_are_aligned_at_any_size),
        cmocka_unit_test (test_a_failing_ring_becomes_inline),
        cmocka_unit_test (test_a_ring_that_cannot_be_mapped_is_left),
        cmocka_unit_test (test_no_server_is_a_timeout_with_a_remedy),
        cmocka_unit_test (test_refusal_says_what_the_server_said),
        cmocka_unit_test (test_unusable_joined_is_an_error),
        cmocka_unit_test (test_unusable_options_name_the_option),
        cmocka_unit_test (test_a_long_list_takes_several_frames),
        cmocka_unit_test (test_destroy_at_every_stage),
        cmocka_unit_test (test_destroy_does_not_wait_for_ever),
        cmocka_unit_test (test_no_thread_takes_signals),
        cmocka_unit_test (test_status_asks_without_a_job)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
