//  The loader against a fake server, for users that keep batches: each stays as it is until it is released.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <pthread.h>
#include "fake_checks.h"
#include "loading.h"
#include "seed.h"
#include "tureen.h"

//  The second is released before the first: the first's bit is kept until it goes too, and its bytes stay.
static void
test_release_out_of_order_keeps_the_older_batch (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 400, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 1 });
    assert_non_null (loader);
    tureen_batch_t *first = loading_next_batch (loader), *second = loading_next_batch (loader),
        *third = loading_next_batch (loader);
    tureen_batch_release (&second);
    WAIT_FOR (fake, seen, seen.progress.released == 2);
    assert_int_equal (fake_seen (fake).progress.kept, 1);
    tureen_batch_release (&third);
    WAIT_FOR (fake, seen, seen.progress.released == 3);
    assert_int_equal (fake_seen (fake).progress.kept, 1);
    //  The others go round and round meanwhile.
    for (int count = 0; count < 50; count++) {
        tureen_batch_t *batch = loading_next_batch (loader);
        fake_check_batch (batch);
        tureen_batch_release (&batch);
        fake_check_batch (first);
    }
    tureen_batch_release (&first);
    WAIT_FOR (fake, seen, seen.progress.kept == 0);
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  A user that keeps the whole window gets no further batch, until one is released.
static void
test_a_kept_window_stops_the_job (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 400, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 1, .slots = 3 });
    assert_non_null (loader);
    tureen_batch_t *held [3], *none;
    for (int index = 0; index < 3; index++)
        held [index] = loading_next_batch (loader);
    assert_int_equal (tureen_loader_next_within (loader, &none, 50), TUREEN_TIMEOUT);
    assert_null (none);
    tureen_batch_release (&held [1]);
    held [1] = loading_next_batch (loader);
    for (int index = 0; index < 3; index++) {
        fake_check_batch (held [index]);
        tureen_batch_release (&held [index]);
    }
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

typedef struct {
    tureen_loader_t *loader;
    tureen_batch_t *batch;
} waiter_t;

static void *
s_wait_for_batch (void *argument)
{
    waiter_t *waiter = argument;
    return tureen_loader_next (waiter->loader, &waiter->batch) == TUREEN_BATCH? waiter: NULL;
}

//  If a user holds all batches except the last slot's, and waits for that one, the server is told so without
//  a release.
static void
test_holding_all_but_the_last_slot (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 4000 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .slots = 3 });
    assert_non_null (loader);
    for (uint64_t round = 0; round < 20; round++) {
        tureen_batch_t *held [2] = { loading_next_batch (loader), loading_next_batch (loader) };
        waiter_t waiter = { .loader = loader };
        pthread_t thread;
        void *given;
        assert_int_equal (pthread_create (&thread, NULL, s_wait_for_batch, &waiter), 0);
        WAIT_FOR (fake, seen, seen.progress.consumed >= 3 * round + 2);
        assert_int_equal (fake_seen (fake).progress.released, 3 * round);
        pthread_join (thread, &given);
        assert_ptr_equal (given, &waiter);
        fake_check_batch (waiter.batch);
        for (int index = 0; index < 2; index++)
            tureen_batch_release (&held [index]);
        tureen_batch_release (&waiter.batch);
    }
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  Below 0 there is no end to the waiting.
static void
test_next_within_below_zero_waits (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 8 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { 0 });
    assert_non_null (loader);
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (loader, &batch, -1), TUREEN_BATCH);
    fake_check_batch (batch);
    tureen_batch_release (&batch);
    tureen_loader_destroy (&loader);
    fake_destroy (&fake);
}

//  Property: whatever is kept and released in whatever order, every batch keeps its bytes until it is
//  released, and none is missed.  The fake poisons what it may write.
static void
test_random_releases_never_lose_bytes (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    for (int round = 0; round < 12; round++) {
        uint64_t random = seed + (uint64_t) round;
        uint32_t slots = 3 + (uint32_t) test_below (&random, 10);
        fake_plan_t plan = { .samples = 300, .epochs = 2 };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 2, .slots = slots,
            .transport = round % 3? TUREEN_AUTO: TUREEN_INLINE });
        assert_non_null (loader);
        tureen_batch_t *held [WIRE_SLOTS_MAX];
        uint32_t count = 0;
        tureen_event_t event = TUREEN_BATCH;
        while (event != TUREEN_END) {
            if (count == slots || (count && test_below (&random, 2))) {
                uint32_t which = (uint32_t) test_below (&random, count);
                fake_check_batch (held [which]);
                tureen_batch_release (&held [which]);
                held [which] = held [--count];
                continue;
            }
            event = tureen_loader_next_within (loader, &held [count], PATIENCE_MS);
            if (event != TUREEN_BATCH && event != TUREEN_EPOCH_END && event != TUREEN_END)
                fail_msg ("seed %" PRIu64 ": event %d, %s", seed + (uint64_t) round, event,
                tureen_loader_error (loader));
            count += event == TUREEN_BATCH;
        }
        while (count--) {
            fake_check_batch (held [count]);
            tureen_batch_release (&held [count]);
        }
        WAIT_FOR (fake, seen, seen.leaves == 1);
        assert_int_equal (fake_seen (fake).sent, 150);
        assert_int_equal (fake_seen (fake).progress.released, 150);
        assert_int_equal (fake_seen (fake).wrong, 0);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

typedef struct {
    tureen_loader_t *loader;
    uint64_t samples;
    uint64_t sum;
    bool failed;
} reader_t;

static void *
s_reader (void *argument)
{
    reader_t *self = argument;
    for (;;) {
        tureen_batch_t *batch;
        tureen_event_t event = tureen_loader_next (self->loader, &batch);
        if (event == TUREEN_END || event == TUREEN_ERROR) {
            self->failed = event == TUREEN_ERROR;
            return NULL;
        }
        if (event == TUREEN_EPOCH_END)
            continue;
        tureen_array_t image;
        self->failed |= !tureen_batch_array (batch, "image", &image);
        for (size_t index = 0; index < tureen_batch_count (batch); index++) {
            uint64_t id = tureen_batch_ids (batch) [index];
            uint8_t *pixels = (uint8_t *) image.data + index * FAKE_PIXELS;
            self->failed |= pixels [0] != fake_pixel (id) || pixels [FAKE_PIXELS - 1] != fake_pixel (id);
            self->samples++;
            self->sum += id;
            pixels [0] = 0;             //  a batch may be changed in place
        }
        tureen_batch_release (&batch);
    }
}

//  Several threads share one loader: each batch goes to one of them, and all learn of the end.
static void
test_threads_share_a_loader (void **state)
{
    (void) state;
    for (int transport = 0; transport < 2; transport++) {
        fake_plan_t plan = { .samples = 2000, .epochs = 3 };
        fake_server_t *fake = fake_new (&plan);
        tureen_loader_t *loader = loading_join (fake, (tureen_options_t) { .epochs = 3, .slots = 8,
            .transport = (tureen_transport_t) transport });
        assert_non_null (loader);
        reader_t readers [4] = { { 0 } };
        pthread_t threads [4];
        for (int index = 0; index < 4; index++) {
            readers [index].loader = loader;
            assert_int_equal (pthread_create (&threads [index], NULL, s_reader, &readers [index]), 0);
        }
        uint64_t samples = 0, sum = 0;
        for (int index = 0; index < 4; index++) {
            pthread_join (threads [index], NULL);
            assert_false (readers [index].failed);
            samples += readers [index].samples;
            sum += readers [index].sum;
        }
        assert_int_equal (samples, 6000);
        assert_int_equal (sum, 3 * (1999 * 2000 / 2));
        tureen_loader_destroy (&loader);
        assert_int_equal (fake_seen (fake).wrong, 0);
        fake_destroy (&fake);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_release_out_of_order_keeps_the_older_batch),
        cmocka_unit_test (test_a_kept_window_stops_the_job),
        cmocka_unit_test (test_holding_all_but_the_last_slot),
        cmocka_unit_test (test_next_within_below_zero_waits),
        cmocka_unit_test (test_random_releases_never_lose_bytes),
        cmocka_unit_test (test_threads_share_a_loader)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
