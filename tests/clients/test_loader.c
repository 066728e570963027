//  The loader against a fake server: what the user sees, and what the server is told.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "fake_checks.h"
#include "seed.h"
#include "tureen.h"

static char s_error [TUREEN_ERROR_BYTES];

static tureen_loader_t *
s_join (fake_server_t *fake, tureen_options_t options)
{
    options.endpoint = fake_endpoint (fake);
    if (!options.dataset)
        options.dataset = "train";
    if (!options.batch_size)
        options.batch_size = 4;
    //  What happens then is test_rejoin's.
    if (!options.rejoin_ms)
        options.rejoin_ms = -1;
    tureen_loader_t *loader = tureen_loader_new (&options, s_error, sizeof s_error);
    if (!loader)
        print_message ("%s\n", s_error);
    return loader;
}

static tureen_batch_t *
s_next_batch (tureen_loader_t *loader)
{
    tureen_batch_t *batch;
    assert_int_equal (tureen_loader_next_within (loader, &batch, PATIENCE_MS), TUREEN_BATCH);
    assert_non_null (batch);
    return batch;
}

//  --------------------------------------------------------------------------
//  The happy path

//  Reads everything and checks order, bytes and ends.
static void
s_read_all (fake_server_t *fake, tureen_loader_t *loader, uint64_t samples, uint64_t epochs)
{
    uint64_t sequence = 0, batches = (samples + 3) / 4;
    for (uint64_t epoch = 0; epoch < epochs; epoch++) {
        for (uint64_t index = 0; index < batches; index++) {
            tureen_batch_t *batch = s_next_batch (loader);
            assert_int_equal (tureen_batch_epoch (batch), epoch);
            assert_int_equal (tureen_batch_index (batch), index);
            assert_int_equal (tureen_batch_sequence (batch), sequence++);
            assert_int_equal (tureen_batch_ids (batch) [0], index * 4);
            fake_check_batch (batch);
            tureen_batch_release (&batch);
            assert_null (batch);
        }
        tureen_batch_t *none;
        assert_int_equal (tureen_loader_next_within (loader, &none, PATIENCE_MS), TUREEN_EPOCH_END);
        assert_null (none);
        tureen_epoch_t end = tureen_loader_epoch (loader);
        assert_int_equal (end.epoch, epoch);
        assert_int_equal (end.samples, samples);
        assert_int_equal (end.batches, batches);
    }
    tureen_batch_t *none;
    assert_int_equal (tureen_loader_next (loader, &none), TUREEN_END);
    assert_int_equal (tureen_loader_next (loader, &none), TUREEN_END);
    //  All had and released: it leaves by itself.
    WAIT_FOR (fake, seen, seen.leaves == 1);
    WAIT_FOR (fake, seen, seen.progress.released == sequence);
    assert_int_equal (fake_seen (fake).wrong, 0);
}

static void
test_ring_gives_every_epoch_and_the_end (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 30, .epochs = 3 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 3 });
    assert_non_null (loader);
    const tureen_info_t *info = tureen_loader_info (loader);
    assert_true (info->ring);
    assert_int_equal (info->job, FAKE_JOB);
    assert_int_equal (info->samples, 30);
    assert_int_equal (info->field_count, 2);
    assert_string_equal (info->classes [1], "dog");
    s_read_all (fake, loader, 30, 3);
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 3, .transport = TUREEN_INLINE });
    assert_non_null (loader);
    assert_false (tureen_loader_info (loader)->ring);
    WAIT_FOR (fake, seen, seen.heartbeats >= 3);
    s_read_all (fake, loader, 30, 3);
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
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 1, .transport = TUREEN_INLINE,
            .batch_size = batch_size });
        assert_non_null (loader);
        for (int count = 0; count < 4; count++) {
            tureen_batch_t *batch = s_next_batch (loader);
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
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 1 });
        assert_non_null (loader);
        assert_false (tureen_loader_info (loader)->ring);
        s_read_all (fake, loader, 10, 1);
        assert_int_equal (fake_seen (fake).inlines, 1);
        tureen_loader_destroy (&loader);
        fake_destroy (&fake);
    }
}

//  A ring whose descriptor came is taken: who cannot map it leaves, and joins again inline; the user sees one
//  job.
static void
test_a_ring_that_cannot_be_mapped_is_left (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 10, .epochs = 1, .ring = FAKE_RING_SHORT };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 1 });
    assert_non_null (loader);
    assert_false (tureen_loader_info (loader)->ring);
    assert_int_equal (tureen_loader_info (loader)->job, FAKE_JOB + 1);
    fake_seen_t seen = fake_seen (fake);
    assert_int_equal (seen.joins, 2);
    assert_int_equal (seen.instances, 1);
    assert_int_equal (seen.leaves, 1);
    assert_non_null (strstr (seen.join, "\"transport\":\"inline\""));
    tureen_batch_t *batch = s_next_batch (loader);
    fake_check_batch (batch);
    tureen_batch_release (&batch);
    tureen_loader_destroy (&loader);
    assert_int_equal (fake_seen (fake).leaves, 2);
    assert_int_equal (fake_seen (fake).wrong, 0);
    fake_destroy (&fake);
}

//  --------------------------------------------------------------------------
//  Releasing

//  The second is released before the first: the first's bit is kept until it goes too, and its bytes stay.
static void
test_release_out_of_order_keeps_the_older_batch (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 400, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 1 });
    assert_non_null (loader);
    tureen_batch_t *first = s_next_batch (loader), *second = s_next_batch (loader),
        *third = s_next_batch (loader);
    tureen_batch_release (&second);
    WAIT_FOR (fake, seen, seen.progress.released == 2);
    assert_int_equal (fake_seen (fake).progress.kept, 1);
    tureen_batch_release (&third);
    WAIT_FOR (fake, seen, seen.progress.released == 3);
    assert_int_equal (fake_seen (fake).progress.kept, 1);
    //  The others go round and round meanwhile.
    for (int count = 0; count < 50; count++) {
        tureen_batch_t *batch = s_next_batch (loader);
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

//  Who keeps the whole window gets nothing more, and goes on once one is released.
static void
test_a_kept_window_stops_the_job (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 400, .epochs = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 1, .slots = 3 });
    assert_non_null (loader);
    tureen_batch_t *held [3], *none;
    for (int index = 0; index < 3; index++)
        held [index] = s_next_batch (loader);
    assert_int_equal (tureen_loader_next_within (loader, &none, 50), TUREEN_TIMEOUT);
    assert_null (none);
    tureen_batch_release (&held [1]);
    held [1] = s_next_batch (loader);
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

//  Who holds all batches but the last slot's and waits for that one has the server told so, without a
//  release.
static void
test_holding_all_but_the_last_slot (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 4000 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .slots = 3 });
    assert_non_null (loader);
    for (uint64_t round = 0; round < 20; round++) {
        tureen_batch_t *held [2] = { s_next_batch (loader), s_next_batch (loader) };
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { 0 });
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
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2, .slots = slots,
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
        tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 3, .slots = 8,
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

//  --------------------------------------------------------------------------
//  The server's end

//  Reads until the loader says why it is over; what was delivered is good, and stays so.
static void
s_expect_error (const fake_plan_t *plan, tureen_transport_t transport, const char *says)
{
    fake_server_t *fake = fake_new (plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .transport = transport });
    assert_non_null (loader);
    tureen_batch_t *held [3] = { NULL };
    for (uint64_t index = 0; index < plan->deed_batches && index < 3; index++) {
        held [index] = s_next_batch (loader);
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    s_read_all (fake, loader, 30, 2);
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = s_next_batch (loader), *none;
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = s_next_batch (loader), *last;
    WAIT_FOR (fake, seen, seen.sent == 3);
    usleep (800000);                    //  by now the loader's thread has ended
    assert_int_equal (fake_seen (fake).ring_closed, 0);
    fake_check_batch (batch);
    tureen_batch_release (&batch);
    for (int given = 1; given < 3; given++) {
        last = s_next_batch (loader);
        fake_check_batch (last);
        tureen_batch_release (&last);
    }
    assert_int_equal (tureen_loader_next (loader, &last), TUREEN_ERROR);
    assert_non_null (strstr (tureen_loader_error (loader), "fenced"));
    tureen_loader_destroy (&loader);
    WAIT_FOR (fake, seen, seen.ring_closed == 1);
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
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_int_equal (errno, ETIMEDOUT);
    assert_non_null (strstr (s_error, "tureen serve --dataset"));
    assert_non_null (strstr (s_error, options.endpoint));
    //  Whoever asks is told what is waited for, once, in the meantime.
    char told [TUREEN_ERROR_BYTES] = "";
    options.timeout_ms = 1300;
    options.waiting = s_note_waiting;
    options.waiting_context = told;
    assert_null (tureen_loader_new (&options, s_error, sizeof s_error));
    assert_non_null (strstr (told, "tureen-there-is-none.sock yet: there is no such socket"));
    assert_non_null (strstr (told, "; looking for it for 1.3 seconds"));
    //  A server that takes the connection and says nothing.
    fake_plan_t plan = { .deaf = true };
    fake_server_t *fake = fake_new (&plan);
    assert_null (s_join (fake, (tureen_options_t) { .timeout_ms = 100 }));
    assert_int_equal (errno, ETIMEDOUT);
    fake_destroy (&fake);
}

static void
test_refusal_says_what_the_server_said (void **state)
{
    (void) state;
    fake_plan_t plan = { .refuse = "no data set 'trian'; this server has: train, val" };
    fake_server_t *fake = fake_new (&plan);
    assert_null (s_join (fake, (tureen_options_t) { .dataset = "trian" }));
    assert_int_equal (errno, ECONNREFUSED);
    assert_non_null (strstr (s_error, "this server has: train, val"));
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
        assert_null (s_join (fake, (tureen_options_t) { 0 }));
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
        assert_null (tureen_loader_new (&cases [index].options, s_error, sizeof s_error));
        assert_int_equal (errno, EINVAL);
        if (!strstr (s_error, cases [index].says))
            fail_msg ("\"%s\" does not say \"%s\"", s_error, cases [index].says);
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .order = TUREEN_LIST, .ids = ids,
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
            tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2,
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

//  A server that does not answer LEAVE holds nobody up for long.
static void
test_destroy_does_not_wait_for_ever (void **state)
{
    (void) state;
    fake_plan_t plan = { .samples = 20, .deed = FAKE_SILENT, .deed_batches = 1 };
    fake_server_t *fake = fake_new (&plan);
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2 });
    assert_non_null (loader);
    tureen_batch_t *batch = s_next_batch (loader);
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
    tureen_loader_t *loader = s_join (fake, (tureen_options_t) { .epochs = 2 });
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
    assert_int_equal (tureen_status (fake_endpoint (fake), 5000, &json, s_error, sizeof s_error), 0);
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
        assert_int_equal (tureen_status (absent [index] [0], INT_MAX, &json, s_error, sizeof s_error),
            -ETIMEDOUT);
        assert_null (json);
        assert_non_null (strstr (s_error, absent [index] [1]));
        assert_non_null (strstr (s_error, "tureen serve"));
    }
    assert_int_equal (tureen_status ("nonsense", 50, &json, s_error, sizeof s_error), -EINVAL);
    assert_int_equal (tureen_status (NULL, -1, &json, s_error, sizeof s_error), -EINVAL);
    assert_null (json);
    assert_non_null (strstr (s_error, "timeout_ms: -1"));
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
        cmocka_unit_test (test_release_out_of_order_keeps_the_older_batch),
        cmocka_unit_test (test_a_kept_window_stops_the_job),
        cmocka_unit_test (test_holding_all_but_the_last_slot),
        cmocka_unit_test (test_next_within_below_zero_waits),
        cmocka_unit_test (test_random_releases_never_lose_bytes),
        cmocka_unit_test (test_threads_share_a_loader),
        cmocka_unit_test (test_server_dies),
        cmocka_unit_test (test_server_stops_in_order),
        cmocka_unit_test (test_server_falls_silent),
        cmocka_unit_test (test_server_breaks_the_protocol),
        cmocka_unit_test (test_unknown_messages_are_ignored),
        cmocka_unit_test (test_held_batches_survive_a_failure),
        cmocka_unit_test (test_batches_survive_the_end_of_their_job),
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
