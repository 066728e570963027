//  A client that was paused for longer than a silent server is borne with: its clock here skips a minute.

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>
#include "fake_checks.h"
#include "fake_server.h"
#include "tureen.h"

enum { HEARTBEAT_MS = 500, SKIPS = 3, SKIP_MS = 60000, BETWEEN_US = 100000, BATCHES = 8 };

static atomic_llong s_skipped_ms;

int64_t __real_dealer_now_ms (void);
int64_t __wrap_dealer_now_ms (void);
int64_t
__wrap_dealer_now_ms (void)
{
    return __real_dealer_now_ms () + s_skipped_ms;
}

//  Guards: a pause counts as one heartbeat of silence, so the server that is there is not taken for lost.
//  Three pauses count for 1.5 of 5 seconds, also if a busy machine lets the server say nothing between them;
//  one that counted whole would be too long.
static void
test_a_pause_is_not_the_servers_silence (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = BATCHES * 4, .epochs = 1, .heartbeat_ms = HEARTBEAT_MS };
    fake_server_t *fake = fake_new (&plan);
    char error [512];
    tureen_options_t options = { .endpoint = fake_endpoint (fake), .dataset = "train", .job = "paused",
        .epochs = 1, .batch_size = 4, .transport = TUREEN_INLINE };
    tureen_loader_t *loader = tureen_loader_new (&options, error, sizeof error);
    if (!loader)
        fail_msg ("%s", error);
    for (int skip = 0; skip < SKIPS; skip++) {
        s_skipped_ms += SKIP_MS;
        usleep (BETWEEN_US);
    }
    tureen_batch_t *batch;
    for (int taken = 0; taken < BATCHES; taken++) {
        assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
        tureen_batch_release (&batch);
    }
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_EPOCH_END);
    assert_null (tureen_loader_notice (loader));
    assert_int_equal (fake_seen (fake).joins, 1);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_a_pause_is_not_the_servers_silence) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
