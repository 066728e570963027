//  Servers with keys and servers without: which clients are admitted, and that the others learn why at once.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "dealer.h"
#include "fake_checks.h"
#include "key_files.h"
#include "tureen.h"

enum { SAMPLES = 40, EPOCHS = 2, BATCH = 4, BATCHES = SAMPLES / BATCH };

static char s_error [TUREEN_ERROR_BYTES];
//  A thread that is late: it sends this frame of its request when ZeroMQ has given the connection up.
static enum { IN_TIME, LATE_WITH_HEAD, LATE_WITH_BODY } s_late;
//  So many requests for batches as frames do not go.
static int s_inlines_lost;

bool __real_dealer_send (dealer_t *, const wire_head_t *, const message_frame_t *, size_t);
bool __wrap_dealer_send (dealer_t *, const wire_head_t *, const message_frame_t *, size_t);
int __real_zmq_send (void *, const void *, size_t, int);
int __wrap_zmq_send (void *, const void *, size_t, int);

static _Thread_local dealer_t *s_sending;

bool
__wrap_dealer_send (dealer_t *self, const wire_head_t *head, const message_frame_t *frames, size_t n)
{
    zmq_pollitem_t items [DEALER_POLL_ITEMS];
    dealer_poll_items (self, items);
    items [0].events = ZMQ_POLLOUT;
    while (s_late == LATE_WITH_HEAD && zmq_poll (items, 1, 0) > 0)
        usleep (1000);
    if (head->kind == WIRE_INLINE && s_inlines_lost > 0) {
        s_inlines_lost--;
        return false;
    }
    s_sending = self;
    bool sent = __real_dealer_send (self, head, frames, n);
    s_sending = NULL;
    return sent;
}

int
__wrap_zmq_send (void *socket, const void *bytes, size_t size, int flags)
{
    message_error_t why;
    if (s_sending && s_late == LATE_WITH_BODY && size != sizeof (wire_head_t)) {
        while (dealer_welcome (s_sending, &why) == DEALER_WELCOME)
            usleep (1000);
        //  ZeroMQ's thread tells it, and then gives the connection up.  Within a message the socket does not
        //  say whether it has: where it has not, this frame goes into the void.
        usleep (20000);
    }
    return __real_zmq_send (socket, bytes, size, flags);
}

//  A server with keys that lets our client in, in both its lives.
static fake_plan_t
s_plan (void)
{
    fake_keys_t keys = { key_server.secret_key, key_own.public_key };
    return (fake_plan_t) { .samples = SAMPLES, .epochs = EPOCHS, .shuffle = true, .tcp = true,
        .keys = { keys, keys } };
}

static tureen_options_t
s_options (fake_server_t *fake)
{
    return (tureen_options_t) { .endpoint = fake_endpoint (fake), .dataset = "train", .batch_size = BATCH,
        .epochs = EPOCHS,
        .timeout_ms = PATIENCE_MS, .rejoin_ms = PATIENCE_MS, .key = key_path,
        .server_key = key_server.public_key };
}

static tureen_loader_t *
s_join (tureen_options_t options)
{
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        fail_msg ("%s", s_error);
    return loader;
}

//  Reads everything: each sample once in each epoch.
static void
s_read_once (tureen_loader_t *loader)
{
    uint32_t times [EPOCHS] [SAMPLES] = { { 0 } };
    tureen_event_t event = TUREEN_BATCH;
    while (event != TUREEN_END) {
        tureen_batch_t *batch;
        event = tureen_loader_next_within (loader, &batch, PATIENCE_MS);
        if (event == TUREEN_ERROR || event == TUREEN_TIMEOUT)
            fail_msg ("event %d: %s", event, tureen_loader_error (loader));
        if (event != TUREEN_BATCH)
            continue;
        fake_check_batch (batch);
        for (size_t index = 0; index < tureen_batch_count (batch); index++)
            times [tureen_batch_epoch (batch)] [tureen_batch_ids (batch) [index]]++;
        tureen_batch_release (&batch);
    }
    for (size_t epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t id = 0; id < SAMPLES; id++)
            if (times [epoch] [id] != 1)
                fail_msg ("epoch %zu: sample %zu came %" PRIu32 " times", epoch, id, times [epoch] [id]);
}

//  Reads up to the error, which says that; how many samples came before it.
static size_t
s_read_to_any_error (tureen_loader_t *loader)
{
    tureen_batch_t *batch;
    tureen_event_t event;
    size_t samples = 0;
    while ((event = tureen_loader_next_within (loader, &batch, PATIENCE_MS)) == TUREEN_BATCH
        || event == TUREEN_EPOCH_END) {
        samples += batch? tureen_batch_count (batch): 0;
        tureen_batch_release (&batch);
    }
    assert_int_equal (event, TUREEN_ERROR);
    return samples;
}

static size_t
s_read_to_error (tureen_loader_t *loader, const char *says)
{
    size_t samples = s_read_to_any_error (loader);
    if (!strstr (tureen_loader_error (loader), says))
        fail_msg ("\"%s\" does not say \"%s\"", tureen_loader_error (loader), says);
    return samples;
}

//  --------------------------------------------------------------------------
//  Coming in

static void
test_the_right_keys (void **state)
{
    (void) state;
    fake_plan_t plan = s_plan ();
    fake_server_t *fake = fake_new (&plan);
    tureen_options_t options = s_options (fake);
    tureen_loader_t *loader = s_join (options);
    s_read_once (loader);
    tureen_loader_destroy (&loader);
    char *json;
    assert_int_equal (tureen_status_with (&options, &json, s_error, sizeof s_error), 0);
    free (json);
    setenv ("TUREEN_KEY", key_path, 1);
    setenv ("TUREEN_SERVER_KEY", key_server.public_key, 1);
    assert_int_equal (tureen_status (fake_endpoint (fake), PATIENCE_MS, &json, s_error, sizeof s_error), 0);
    free (json);
    unsetenv ("TUREEN_KEY");
    unsetenv ("TUREEN_SERVER_KEY");
    fake_destroy (&fake);
}

//  or_says: where the server hung up before the client had read why, as often as it tried; that depends on
//  the moment.
static bool
s_says (const char *text, const char *says, const char *or_says)
{
    return strstr (text, says) || (or_says && strstr (text, or_says));
}

//  The sentence, and long before the time for an answer is over: EACCES, not ETIMEDOUT.
static void
s_expect_shut_out (const fake_plan_t *plan, const char *key, const char *server_key, const char *says,
    const char *or_says)
{
    fake_server_t *fake = fake_new (plan);
    tureen_options_t options = s_options (fake);
    options.key = key;
    options.server_key = server_key;
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    assert_int_equal (errno, EACCES);
    assert_null (loader);
    if (!s_says (s_error, says, or_says))
        fail_msg ("\"%s\" does not say \"%s\"", s_error, says);
    assert_null (strstr (s_error, key_own.secret_key));
    char *json;
    assert_int_equal (tureen_status_with (&options, &json, s_error, sizeof s_error), -EACCES);
    assert_null (json);
    assert_true (s_says (s_error, says, or_says));
    assert_int_equal (fake_seen (fake).joins + fake_seen (fake).statuses, 0);
    fake_destroy (&fake);
}

static void
test_clients_that_are_not_admitted (void **state)
{
    (void) state;
    fake_plan_t plan = s_plan ();
    s_expect_shut_out (&plan, NULL, NULL, "only clients with a key are let in at tcp://127.0.0.1:",
        "each connection is broken off");
    s_expect_shut_out (&plan, key_path, key_other.public_key, "than the given server_key", NULL);
    plan.keys [0].allowed = key_other.public_key;
    s_expect_shut_out (&plan, key_path, key_server.public_key,
        "this client's key is unknown or revoked at tcp://127.0.0.1:", NULL);
    s_expect_shut_out (&plan, key_path, key_server.public_key, key_own.public_key, NULL);
    plan.keys [0] = (fake_keys_t) { .secret = NULL };
    s_expect_shut_out (&plan, key_path, key_server.public_key, "no keys are used at tcp://127.0.0.1:",
        "or it is open");
    plan.tcp = false;
    plan.keys [0].allowed = key_other.public_key;
    s_expect_shut_out (&plan, NULL, NULL, "does not serve user ", NULL);
}

static int
s_be_in_time (void **state)
{
    (void) state;
    s_late = IN_TIME;
    s_inlines_lost = 0;
    return 0;
}

//  A client that sends its request, or the rest of it, after it was refused neither waits for ever nor gets
//  another error.
static void
test_requests_after_the_refusal (void **state)
{
    (void) state;
    fake_plan_t plan = s_plan (), local = { .keys [0].allowed = key_other.public_key };
    plan.keys [0].allowed = key_other.public_key;
    for (s_late = LATE_WITH_HEAD; s_late <= LATE_WITH_BODY; s_late++) {
        s_expect_shut_out (&plan, key_path, key_server.public_key, "unknown or revoked at tcp://127", NULL);
        s_expect_shut_out (&local, NULL, NULL, "does not serve user ", NULL);
    }
}

//  A connection that does not take the request for batches as frames: the job is joined again on another one.
static void
test_a_request_for_frames_that_is_lost (void **state)
{
    (void) state;
    fake_plan_t plan = s_plan ();
    fake_server_t *fake = fake_new (&plan);
    tureen_options_t options = s_options (fake);
    options.transport = TUREEN_INLINE;
    s_inlines_lost = 1;
    tureen_loader_t *loader = s_join (options);
    s_read_once (loader);
    assert_int_equal (fake_seen (fake).joins, 2);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  Keys that cannot be used are the caller's mistake, and no server is asked.
static void
test_unusable_keys (void **state)
{
    (void) state;
    tureen_options_t options = { .endpoint = "tcp://127.0.0.1:9", .dataset = "train", .key = key_path };
    char *json;
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_int_equal (errno, EINVAL);
    assert_non_null (strstr (s_error, "options.server_key: required"));
    assert_int_equal (tureen_status_with (&options, &json, s_error, sizeof s_error), -EINVAL);
    assert_non_null (strstr (s_error, "options.server_key: required"));
}

//  A server that says nothing at ipc:// may not serve this user.
static void
test_silence_may_be_a_refusal (void **state)
{
    (void) state;
    fake_plan_t plan = { .deaf = true };
    fake_server_t *fake = fake_new (&plan);
    char *json, user [64];
    snprintf (user, sizeof user, "or it does not serve user %u", (unsigned) geteuid ());
    assert_int_equal (tureen_status (fake_endpoint (fake), 50, &json, s_error, sizeof s_error), -ETIMEDOUT);
    assert_non_null (strstr (s_error, user));
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Coming in again

static void
test_the_server_comes_back (void **state)
{
    (void) state;
    static const tureen_transport_t transports [] = { TUREEN_AUTO, TUREEN_INLINE };
    for (size_t index = 0; index < 2; index++) {
        fake_plan_t plan = s_plan ();
        plan.deed = FAKE_DIE;
        plan.deed_batches = 3;
        plan.deed_times = 3;
        plan.revive_ms = 30;
        fake_server_t *fake = fake_new (&plan);
        tureen_options_t options = s_options (fake);
        options.transport = transports [index];
        tureen_loader_t *loader = s_join (options);
        s_read_once (loader);
        assert_int_equal (fake_seen (fake).joins, 4);
        assert_int_equal (fake_seen (fake).wrong, 0);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  The error of a loader that looked so long for a server which has these keys when it comes back.
static bool
s_is_told (fake_keys_t keys, int rejoin_ms, const char *says, const char *or_says)
{
    fake_plan_t plan = s_plan ();
    plan.deed = FAKE_DIE;
    plan.deed_batches = 3;
    plan.revive_ms = 30;
    plan.keys [1] = keys;
    fake_server_t *fake = fake_new (&plan);
    tureen_options_t options = s_options (fake);
    options.rejoin_ms = rejoin_ms;
    tureen_loader_t *loader = s_join (options);
    s_read_to_any_error (loader);
    assert_int_equal (fake_seen (fake).joins, 1);
    bool is_told = s_says (tureen_loader_error (loader), says, or_says);
    if (is_told && rejoin_ms < PATIENCE_MS)
        assert_non_null (strstr (tureen_loader_error (loader), "looked for it again for"));
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
    return is_told;
}

//  Revoked meanwhile: for good.  Open or of another key now: perhaps the right one comes yet.
static void
test_the_server_comes_back_otherwise (void **state)
{
    (void) state;
    assert_true (s_is_told ((fake_keys_t) { key_server.secret_key, key_other.public_key }, PATIENCE_MS,
        "this client's key is unknown or revoked", NULL));
    const struct { fake_keys_t keys; const char *says, *or_says; } cases [] = {
        { { NULL, NULL }, "no keys are used at", "the key is another at" },
        { { key_other.secret_key, NULL }, "the key is another at", NULL }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        int rejoin_ms = 1000;           //  on a busy machine a longer look is needed to see anything
        while (!s_is_told (cases [index].keys, rejoin_ms, cases [index].says, cases [index].or_says)) {
            rejoin_ms *= 2;
            assert_true (rejoin_ms < PATIENCE_MS);
        }
    }
}

//  ENDED and ERROR `revoked`: what was delivered is given, and that is the end.
static void
test_revoked (void **state)
{
    (void) state;
    static const fake_deed_t deeds [] = { FAKE_END_REVOKED, FAKE_SEND_REVOKED };
    for (size_t index = 0; index < 2; index++) {
        fake_plan_t plan = s_plan ();
        plan.deed = deeds [index];
        plan.deed_batches = 3;
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = s_join (s_options (fake));
        assert_int_equal (s_read_to_error (loader, "(revoked)"), 3 * BATCH);
        assert_int_equal (fake_seen (fake).joins, 1);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  --------------------------------------------------------------------------
//  Not now

//  A server that drains ends the job behind a whole epoch, of which its user may have taken nothing yet;
//  refuses it for a while; and the next one has it from there.
static void
test_drained_behind_an_epoch (void **state)
{
    (void) state;
    for (int taken = 0; taken < 3; taken++) {
        fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .shuffle = true, .deed = FAKE_DRAIN,
            .deed_batches = BATCHES,
            .refuse = "the server is ending", .refuse_code = "stopping", .refuse_after = 1,
            .refuse_times = 3 };
        fake_server_t *fake = fake_new (&plan);
        tureen_options_t options = s_options (fake);
        options.slots = BATCHES + 2;
        options.transport = taken == 1? TUREEN_INLINE: TUREEN_AUTO;
        tureen_loader_t *loader = s_join (options);
        //  It has begun to look for the next one while everything lies there.
        WAIT_FOR (fake, seen, seen.joins >= 2);
        if (taken == 2)
            WAIT_FOR (fake, seen, seen.joins >= 5);
        s_read_once (loader);
        fake_seen_t seen = fake_seen (fake);
        assert_int_equal (seen.joins, 5);
        assert_int_equal (seen.refusals, 3);
        assert_int_equal (seen.resume_epoch, 1);
        assert_int_equal (seen.resume_batches, 0);
        assert_int_equal (seen.wrong, 0);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  `busy` and `opening` at the first join are asked again, four times at most; other refusals are not.
static void
test_a_busy_server (void **state)
{
    (void) state;
    static const struct { const char *code; uint64_t times, joins; } cases [] = {
        { "busy", 2, 3 }, { "opening", 2, 3 }, { "busy", 0, 5 }, { "budget", 1, 1 }, { "forbidden", 1, 1 },
        { "revoked", 1, 1 }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        fake_plan_t plan = { .samples = SAMPLES, .epochs = EPOCHS, .refuse = "not now",
            .refuse_code = cases [index].code,
            .refuse_times = cases [index].times };
        fake_server_t *fake = fake_new (&plan);
        tureen_options_t options = s_options (fake);
        tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
        bool is_taken = cases [index].joins == cases [index].times + 1 && cases [index].times == 2;
        if (is_taken)
            s_read_once (loader);
        else {
            assert_null (loader);
            assert_non_null (strstr (s_error, cases [index].code));
        }
        assert_int_equal (fake_seen (fake).joins, cases [index].joins);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  Within the time for an answer only.
static void
test_a_busy_server_and_no_patience (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = SAMPLES, .refuse = "not now", .refuse_code = "busy" };
    fake_server_t *fake = fake_new (&plan);
    tureen_options_t options = s_options (fake);
    options.timeout_ms = 200;
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_true (fake_seen (fake).joins <= 1);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_the_right_keys),
        cmocka_unit_test (test_clients_that_are_not_admitted),
        cmocka_unit_test_teardown (test_requests_after_the_refusal, s_be_in_time),
        cmocka_unit_test_teardown (test_a_request_for_frames_that_is_lost, s_be_in_time),
        cmocka_unit_test (test_unusable_keys),
        cmocka_unit_test (test_silence_may_be_a_refusal),
        cmocka_unit_test (test_the_server_comes_back),
        cmocka_unit_test (test_the_server_comes_back_otherwise),
        cmocka_unit_test (test_revoked),
        cmocka_unit_test (test_drained_behind_an_epoch),
        cmocka_unit_test (test_a_busy_server),
        cmocka_unit_test (test_a_busy_server_and_no_patience),
    };
    return cmocka_run_group_tests (tests, key_set_up, key_tear_down);
}
