//  The loader against a fake server that dies, stops, falls silent or breaks the protocol: the user is told,
//  and what was given out stays good.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>
#include "fake_checks.h"
#include "loading.h"
#include "tureen.h"

//  Reads until the loader says why it is over; what was delivered is good, and stays so.
static void
s_expect_error (const fake_plan_t *plan, tureen_transport_t transport, const char *says)
{
    fake_server_t *fake = fake_new (plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .transport = transport });
    assert_non_null (loader);
    tureen_batch_t *held [3] = { NULL };
    for (uint64_t index = 0; index < plan->deed_batches && index < 3; index++) {
        held [index] = loading_next_batch (loader);
        fake_check_batch (held [index]);
    }
    tureen_batch_t *batch;
    tureen_event_t event;
    while ((event = tureen_loader_next_within (loader, &batch, PATIENCE_MS)) == TUREEN_BATCH
    ||  event == TUREEN_EPOCH_END)
        tureen_batch_release (&batch);
    assert_int_equal (event, TUREEN_ERROR);
    assert_int_equal (tureen_loader_next (loader, &batch), TUREEN_ERROR);
    if (!strstr (tureen_loader_error (loader), says))
        fail_msg ("\"%s\" does not say \"%s\"", tureen_loader_error (loader), says);
    for (int index = 0; index < 3; index++) {
        if (held [index])
            fake_check_batch (held [index]);
        tureen_batch_release (&held [index]);
    }
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

static void
test_server_dies (void **state)
{
    (void) state;
    for (uint64_t batches = 0; batches < 4; batches++) {
        fake_plan_t plan = { .samples = 100, .deed = FAKE_DIE, .deed_batches = batches };
        s_expect_error (&plan, TUREEN_AUTO, "server");
        s_expect_error (&plan, TUREEN_INLINE, "the connection to the server broke");
    }
    fake_plan_t plan = { .samples = 100, .deed = FAKE_DIE_RING, .deed_batches = 2 };
    s_expect_error (&plan, TUREEN_AUTO, "the server is gone");
}

//  The explanation comes after the symptom and is told all the same.
static void
test_server_stops_in_order (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 100, .deed = FAKE_STOP, .deed_batches = 3 };
    s_expect_error (&plan, TUREEN_AUTO, "the server ends (stopping)");
    s_expect_error (&plan, TUREEN_INLINE, "the server ends (stopping)");
}

static void
test_server_falls_silent (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 100, .deed = FAKE_SILENT, .deed_batches = 2, .heartbeat_ms = 20 };
    s_expect_error (&plan, TUREEN_INLINE, "silent");
}

static void
test_server_breaks_the_protocol (void **state)
{
    (void) state;
    static const struct { fake_deed_t deed; const char *says; } cases [] = {
        { FAKE_SEND_NONSENSE, "does not speak Tureen's protocol" },
        { FAKE_SEND_HELD_SLOT, "not free" },
        { FAKE_SEND_BAD_SEQUENCE, "out of its order" },
        { FAKE_SEND_LONG_COUNT, "batch of 5 samples" },
        { FAKE_SEND_BAD_JSON, "JSON" },
        { FAKE_SEND_ERROR, "no such job (unknown_job)" },
        { FAKE_SEND_MANY_FRAMES, "frames" }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        fake_plan_t plan = { .samples = 100, .deed = cases [index].deed, .deed_batches = 3 };
        s_expect_error (&plan, TUREEN_AUTO, cases [index].says);
        s_expect_error (&plan, TUREEN_INLINE, cases [index].says);
    }
}

//  Kinds from the future and answers for others change nothing.
static void
test_unknown_messages_are_ignored (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 30, .epochs = 2, .deed = FAKE_SEND_UNKNOWN, .deed_batches = 2 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    loading_read_all (fake, loader, 30, 2);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  After our own giving up (the server lives) the ring must not be emptied under the user's batches.
static void
test_held_batches_survive_a_failure (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 100, .deed = FAKE_SEND_BAD_SEQUENCE, .deed_batches = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = loading_next_batch (loader), *none;
    assert_int_equal (tureen_loader_next (loader, &none), TUREEN_ERROR);
    usleep (100000);
    fake_check_batch (batch);
    assert_int_equal (fake_seen (fake).leaves, 0);
    assert_int_equal (fake_seen (fake).ring_closed, 0);
    tureen_batch_release (&batch);
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).leaves, 1);
    fake_destroy (&fake);
}

//  Nor where the server (which lives, and has closed its side of the ring's socket) ended the job; and what
//  had come is given.
static void
test_batches_survive_the_end_of_their_job (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 100, .deed = FAKE_END_FENCED, .deed_batches = 3 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = loading_next_batch (loader), *last;
    WAIT_FOR (fake, seen, seen.sent == 3);
    usleep (800000);                    //  by now the loader's thread has ended
    assert_int_equal (fake_seen (fake).ring_closed, 0);
    fake_check_batch (batch);
    tureen_batch_release (&batch);
    for (int given = 1; given < 3; given++) {
        last = loading_next_batch (loader);
        fake_check_batch (last);
        tureen_batch_release (&last);
    }
    assert_int_equal (tureen_loader_next (loader, &last), TUREEN_ERROR);
    assert_non_null (strstr (tureen_loader_error (loader), "fenced"));
    tureen_loader_destroy (&loader);
    WAIT_FOR (fake, seen, seen.ring_closed == 1);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_server_dies),
        cmocka_unit_test (test_server_stops_in_order),
        cmocka_unit_test (test_server_falls_silent),
        cmocka_unit_test (test_server_breaks_the_protocol),
        cmocka_unit_test (test_unknown_messages_are_ignored),
        cmocka_unit_test (test_held_batches_survive_a_failure),
        cmocka_unit_test (test_batches_survive_the_end_of_their_job)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
