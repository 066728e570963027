//  The first JOIN of a loader, and servers that die before they have answered it, that are ending, or that
//  are just starting: they are looked for as those of running jobs are.  What a server refuses is refused,
//  before and after.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "fake_checks.h"
#include "tureen.h"

enum { SAMPLES = 40, EPOCHS = 2, BATCH = 4, REVIVE_MS = 30, NO_PROCESS = 99999999 };

static char s_error [TUREEN_ERROR_BYTES];

static tureen_loader_t *
s_try (fake_server_t *fake, tureen_options_t options)
{
    options.endpoint = fake_endpoint (fake);
    options.dataset = "train";
    options.batch_size = BATCH;
    options.epochs = EPOCHS;
    options.timeout_ms = options.timeout_ms? options.timeout_ms: PATIENCE_MS;
    return tureen_loader_new (&options, s_error, sizeof s_error);
}

static fake_server_t *
s_fake (fake_plan_t plan)
{
    plan.samples = SAMPLES;
    plan.epochs = EPOCHS;
    return fake_new (&plan);
}

//  The job is refused: with this errno, and these words.
static void
s_expect_refusal (fake_server_t *fake, tureen_options_t options, int number, const char *words)
{
    tureen_loader_t *loader = s_try (fake, options);
    assert_null (loader);
    assert_int_equal (errno, number);
    if (!strstr (s_error, words))
        fail_msg ("\"%s\" does not say \"%s\"", s_error, words);
}

//  The job is joined, and gives each sample once an epoch; the server has only seen one client, which left in
//  order.
static void
s_expect_epochs (fake_server_t *fake, tureen_options_t options)
{
    uint32_t times [EPOCHS] [SAMPLES] = { { 0 } };
    tureen_loader_t *loader = s_try (fake, options);
    if (!loader)
        fail_msg ("%s", s_error);
    tureen_event_t event;
    tureen_batch_t *batch;
    while ((event = tureen_loader_next_within (loader, &batch, PATIENCE_MS)) != TUREEN_END)
        if (event == TUREEN_BATCH) {
            fake_check_batch (batch);
            for (size_t index = 0; index < tureen_batch_count (batch); index++)
                times [tureen_batch_epoch (batch)] [tureen_batch_ids (batch) [index]]++;
            tureen_batch_release (&batch);
        }
        else if (event != TUREEN_EPOCH_END)
            fail_msg ("event %d: %s", event, tureen_loader_error (loader));
    for (size_t epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t id = 0; id < SAMPLES; id++)
            assert_int_equal (times [epoch] [id], 1);
    WAIT_FOR (fake, seen, seen.leaves == 1);
    assert_int_equal (fake_seen (fake).instances, 1);
    assert_int_equal (fake_seen (fake).wrong, 0);
    tureen_loader_destroy (&loader);
}

//  At each step, once and again; what was joined begins at the beginning.
static void
test_the_server_dies_at_each_step (void **state)
{
    (void) state;
    static const struct { fake_step_t step; tureen_transport_t transport; } cases [] = {
        { FAKE_AT_JOIN, TUREEN_AUTO }, { FAKE_AT_JOIN, TUREEN_INLINE }, { FAKE_AT_JOINED, TUREEN_AUTO },
        { FAKE_AT_JOINED, TUREEN_INLINE }, { FAKE_AT_TOKEN, TUREEN_AUTO }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        for (uint64_t deaths = 1; deaths <= 3; deaths += 2) {
            fake_server_t *fake = s_fake ((fake_plan_t) { .die_at = cases [index].step, .die_times = deaths,
                .revive_ms = REVIVE_MS });
            s_expect_epochs (fake, (tureen_options_t) { .transport = cases [index].transport });
            fake_seen_t seen = fake_seen (fake);
            assert_int_equal (seen.deaths, deaths);
            assert_int_equal (seen.joins, deaths + 1);
            fake_destroy (&fake);
        }
}

//  Over tcp, one of several ranks, and one that goes on from a state, the same.
static void
test_of_every_kind (void **state)
{
    (void) state;
    fake_plan_t plan = { .die_at = FAKE_AT_JOIN, .die_times = 1, .revive_ms = REVIVE_MS };
    plan.tcp = true;
    fake_server_t *fake = s_fake (plan);
    s_expect_epochs (fake, (tureen_options_t) { .transport = TUREEN_INLINE });
    fake_destroy (&fake);
    plan = (fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1, .revive_ms = REVIVE_MS, .gathering = 3,
        .gathering_ms = 20 };
    fake = s_fake (plan);
    tureen_loader_t *loader = s_try (fake,
        (tureen_options_t) { .job = "j", .world_size = 2, .gather_seconds = 77 });
    if (!loader)
        fail_msg ("%s", s_error);
    //  The others are waited for as long as the user said, not as long as the server is looked for.
    assert_non_null (strstr (fake_seen (fake).join, "\"gather\":77"));
    assert_int_equal (fake_seen (fake).joins, 2);
    char *json;
    assert_int_equal (tureen_loader_state (loader, &json), 0);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
    fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1, .revive_ms = REVIVE_MS });
    s_expect_epochs (fake, (tureen_options_t) { .state = json });
    assert_non_null (strstr (fake_seen (fake).join, "\"resume\""));
    free (json);
    fake_destroy (&fake);
}

static void
s_hear (void *context, const char *text)
{
    char *heard = context;
    snprintf (heard + strlen (heard), TUREEN_ERROR_BYTES - strlen (heard), "%s; ", text);
}

//  What is waited for is told at once where options.waiting is given, else once the user has the loader.
static void
test_what_is_told (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1,
        .revive_ms = REVIVE_MS });
    tureen_loader_t *loader = s_try (fake, (tureen_options_t) { .rejoin_ms = PATIENCE_MS });
    if (!loader)
        fail_msg ("%s", s_error);
    char *gone = tureen_loader_notice (loader), *back = tureen_loader_notice (loader);
    assert_true (gone && back);
    assert_non_null (strstr (gone, "the connection to the server broke; looking for it at ipc://"));
    assert_non_null (strstr (gone, "for 60 seconds"));
    assert_non_null (strstr (back, "the server is back after"));
    assert_non_null (strstr (back, "joined as job 7"));
    assert_null (tureen_loader_notice (loader));
    free (gone);
    free (back);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
    char heard [TUREEN_ERROR_BYTES] = "";
    fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1 });
    s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = 200, .waiting = s_hear,
        .waiting_context = heard }, ECONNRESET, "broke");
    assert_non_null (strstr (heard, "the connection to the server broke; looking for it at ipc://"));
    fake_destroy (&fake);
}

static void
test_in_vain (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1 });
    s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = 400 }, ECONNRESET,
        "the connection to the server broke; looked for it again for ");
    fake_destroy (&fake);
    fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = 1, .revive_ms = REVIVE_MS });
    s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = -1 }, ECONNRESET,
        "the connection to the server broke (server at ");
    assert_int_equal (fake_seen (fake).joins, 1);
    fake_destroy (&fake);
}

//  An answer with a reason is the end, whatever was before it; but for a server that is ending, or that had
//  no room yet.
static void
test_what_is_refused (void **state)
{
    (void) state;
    static const struct { const char *code; uint64_t times; bool passes; } cases [] = {
        { "unknown_dataset", 0, false }, { "bad_request", 0, false }, { "budget", 1, false },
        { "ranks_missing", 1, false },
        { "version", 0, false }, { "job_taken", 1, false }, { "forbidden", 0, false },
        { "revoked", 0, false },
        { "stopping", 2, true }, { "busy", 2, true }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        for (uint64_t deaths = 0; deaths < 2; deaths++) {
            fake_server_t *fake = s_fake ((fake_plan_t) { .die_at = FAKE_AT_JOIN, .die_times = deaths,
                .revive_ms = REVIVE_MS,
                .refuse = "not so", .refuse_code = cases [index].code, .refuse_times = cases [index].times });
            if (cases [index].passes)
                s_expect_epochs (fake, (tureen_options_t) { .rejoin_ms = PATIENCE_MS });
            else
                s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = PATIENCE_MS }, ECONNREFUSED,
                    "not so");
            assert_int_equal (fake_seen (fake).joins, deaths + (cases [index].passes? 3: 1));
            fake_destroy (&fake);
        }
    }
    fake_server_t *fake = s_fake ((fake_plan_t) { .refuse = "it ends", .refuse_code = "stopping" });
    s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = -1 }, ECONNREFUSED, "it ends (stopping)");
    s_expect_refusal (fake, (tureen_options_t) { .rejoin_ms = 300 }, ECONNRESET, "it ends (stopping)");
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  A server that starts

//  The lock is of these two processes: the server's and its parent's.
static void
s_lock (fake_server_t *fake, char path [256], long process, long parent)
{
    snprintf (path, 256, "%s.lock", fake_endpoint (fake) + strlen ("ipc://"));
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fprintf (file, "%ld %ld\n", process, parent);
    fclose (file);
}

//  It is waited for beyond the time that an answer may take; where there is none, it is not.
static void
test_a_server_that_starts (void **state)
{
    (void) state;
    char name [16], path [256];
    prctl (PR_GET_NAME, name);
    prctl (PR_SET_NAME, "tureen");          //  as a server is called
    fake_server_t *fake = s_fake ((fake_plan_t) { .unborn = true, .revive_ms = 800 });
    s_lock (fake, path, getpid (), 1);
    s_expect_epochs (fake, (tureen_options_t) { .timeout_ms = 200 });
    unlink (path);
    fake_destroy (&fake);
    fake = s_fake ((fake_plan_t) { .unborn = true });
    s_lock (fake, path, NO_PROCESS, getpid ());
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 100, .rejoin_ms = 300 }, ECONNRESET,
        "its server has died, and process ");
    s_lock (fake, path, getpid (), 1);
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 100, .rejoin_ms = 300 }, ECONNRESET,
        "no server listens yet: process ");
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 100, .rejoin_ms = -1 }, ETIMEDOUT,
        "no server answered");
    prctl (PR_SET_NAME, name);
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 100 }, ETIMEDOUT, "no server answered");
    unlink (path);
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 100 }, ETIMEDOUT, "no server answered");
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  A ring server that does not answer

//  The server may still hand the ring over, and takes the socket's end for the client's: INLINE would be
//  wrong now.  The limit is that of each JOINED too, which comes in time also on a busy machine.
static void
test_a_ring_that_is_not_handed_over (void **state)
{
    (void) state;
    fake_server_t *fake = s_fake ((fake_plan_t) { .mute_tokens = 2 });
    s_expect_epochs (fake, (tureen_options_t) { .timeout_ms = 2000 });
    assert_int_equal (fake_seen (fake).joins, 3);
    assert_int_equal (fake_seen (fake).inlines, 0);
    fake_destroy (&fake);
    fake = s_fake ((fake_plan_t) { .mute_tokens = 1 });
    s_expect_refusal (fake, (tureen_options_t) { .timeout_ms = 2000, .rejoin_ms = -1 }, ETIMEDOUT,
        "did not hand over the ring");
    assert_int_equal (fake_seen (fake).inlines, 0);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_the_server_dies_at_each_step),
        cmocka_unit_test (test_of_every_kind),
        cmocka_unit_test (test_what_is_told),
        cmocka_unit_test (test_in_vain),
        cmocka_unit_test (test_what_is_refused),
        cmocka_unit_test (test_a_server_that_starts),
        cmocka_unit_test (test_a_ring_that_is_not_handed_over)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
