//  The queue alone, without sockets: against a simple model, and with the two sides in threads of their
//  own.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "batch_queue.h"
#include "seed.h"

enum { SLOT_BYTES = 64, BATCH = 2, ROUNDS = 200, STEPS = 400, LOOSE = 3 };

static uint8_t s_ring [WIRE_SLOTS_MAX * SLOT_BYTES];

static batch_queue_t *
s_open (uint32_t slots)
{
    char text [512];
    int length = snprintf (text, sizeof text, "{\"job\":1,\"samples\":9,\"dataset_samples\":9,"
        "\"batch_size\":%d,"
        "\"slots\":%" PRIu32 ",\"slot_bytes\":%d,\"fields\":[{\"name\":\"x\",\"dtype\":\"uint8\","
        "\"shape\":[8],\"offset\":0,\"sample_bytes\":8}],\"seed\":1}", BATCH, slots, SLOT_BYTES);
    message_frame_t frames [2] = { { NULL, 0 }, { (uint8_t *) text, (size_t) length } };
    message_error_t error;
    message_joined_t *joined;
    if (!message_read_joined (frames, 2, BATCH, &joined, &error))
        fail_msg ("%s", error.text);
    batch_queue_t *queue = batch_queue_new ();
    assert_non_null (queue);
    mapped_ring_t *none = NULL;
    window_t *window = batch_queue_window_new (queue, &joined, &none, s_ring, 0);
    position_t *position = position_new (NULL, 0, 9);
    assert_true (window && position);
    batch_queue_open (queue, &window, &position);
    batch_queue_report (queue, 0, NULL);
    assert_int_equal (batch_queue_wait_open (queue, &error), 0);
    return queue;
}

static bool
s_put (batch_queue_t *queue, uint64_t sequence, uint32_t slot)
{
    uint64_t ids [BATCH] = { sequence, sequence };
    message_batch_t batch = { .head = { .sequence = sequence, .slot = slot, .count = BATCH },
        .ids = (uint8_t *) ids,
        .step = (uint8_t *) ids, .step_count = BATCH };
    if (slot != WIRE_SLOT_NONE)
        return batch_queue_put_batch (queue, &batch, NULL);
    zmq_msg_t payload;
    zmq_msg_init_size (&payload, SLOT_BYTES);
    bool fine = batch_queue_put_batch (queue, &batch, &payload);
    zmq_msg_close (&payload);
    return fine;
}

//  --------------------------------------------------------------------------
//  Property: a server that obeys `released` and `kept` and nothing else never writes to a batch that is
//  queued or held, and always gets back what is neither; batches in no slot come between and change nothing
//  of that.  The model: for each slot, what is in it and where that is, and behind the slots some for what is
//  in none.

typedef enum { EMPTY, QUEUED, HELD, DONE } place_t;

typedef struct {
    uint32_t slots;
    place_t place [WIRE_SLOTS_MAX + LOOSE];
    uint64_t sequence [WIRE_SLOTS_MAX + LOOSE];
    tureen_batch_t *batch [WIRE_SLOTS_MAX + LOOSE];
    uint64_t next;
    uint64_t consumed;
    wire_progress_t last;
} model_t;

//  What the server makes of a PROGRESS; false: it would write to what is in use, or the numbers went back.
static bool
s_obey (model_t *model, const wire_progress_t *progress)
{
    if (progress->released < model->last.released || progress->consumed < model->last.consumed
    ||  progress->released > progress->consumed || progress->consumed != model->consumed)
        return false;
    model->last = *progress;
    if (model->slots < 64 && progress->kept >> model->slots)
        return false;
    for (uint32_t slot = 0; slot < model->slots; slot++) {
        bool freed = model->sequence [slot] < progress->released && !(progress->kept >> slot & 1);
        if (model->place [slot] == EMPTY)
            continue;
        if (freed != (model->place [slot] == DONE))
            return false;
        if (freed)
            model->place [slot] = EMPTY;
    }
    return true;
}

static uint32_t
s_find (const model_t *model, place_t place, uint64_t *random)
{
    uint32_t places = model->slots + LOOSE, start = (uint32_t) test_below (random, places);
    for (uint32_t step = 0; step < places; step++)
        if (model->place [(start + step) % places] == place)
            return (start + step) % places;
    return UINT32_MAX;
}

static void
s_step_put (model_t *model, batch_queue_t *queue, uint64_t *random)
{
    uint32_t slot = s_find (model, EMPTY, random);
    if (slot == UINT32_MAX)
        return;
    assert_true (s_put (queue, model->next, slot < model->slots? slot: WIRE_SLOT_NONE));
    model->place [slot] = QUEUED;
    model->sequence [slot] = model->next++;
}

static void
s_step_take (model_t *model, batch_queue_t *queue)
{
    tureen_batch_t *batch;
    tureen_event_t event = batch_queue_take (queue, &batch, 0);
    assert_int_equal (event, model->consumed < model->next? TUREEN_BATCH: TUREEN_TIMEOUT);
    if (event != TUREEN_BATCH)
        return;
    assert_int_equal (tureen_batch_sequence (batch), model->consumed);
    for (uint32_t slot = 0; slot < model->slots + LOOSE; slot++)
        if (model->place [slot] == QUEUED && model->sequence [slot] == model->consumed) {
            model->place [slot] = HELD;
            model->batch [slot] = batch;
        }
    model->consumed++;
}

static void
s_step_release (model_t *model, uint64_t *random)
{
    uint32_t slot = s_find (model, HELD, random);
    if (slot == UINT32_MAX)
        return;
    tureen_batch_release (&model->batch [slot]);
    model->place [slot] = slot < model->slots? DONE: EMPTY;
}

static void
test_progress_frees_what_is_released_and_nothing_else (void **state)
{
    (void) state;
    for (uint64_t round = 0, seed = test_seed (); round < ROUNDS; round++, seed++) {
        uint64_t random = seed;
        model_t model = { .slots = 3 + (uint32_t) test_below (&random, round % 4? 4: WIRE_SLOTS_MAX - 2) };
        batch_queue_t *queue = s_open (model.slots);
        for (int step = 0; step < STEPS; step++) {
            switch (test_below (&random, 4)) {
                case 0: s_step_put (&model, queue, &random); break;
                case 1: s_step_take (&model, queue); break;
                case 2: s_step_release (&model, &random); break;
                default: {
                    batch_queue_view_t view = batch_queue_look (queue);
                    if (!s_obey (&model, &view.progress))
                        fail_msg ("seed %" PRIu64 ", step %d: consumed %" PRIu64 " released %" PRIu64
                            " kept %" PRIx64,
                            seed, step, view.progress.consumed, view.progress.released, view.progress.kept);
                }
            }
        }
        for (uint32_t slot = 0; slot < model.slots + LOOSE; slot++)
            tureen_batch_release (&model.batch [slot]);
        batch_queue_stop (queue);
        batch_queue_destroy (&queue);
    }
}

//  --------------------------------------------------------------------------

static void
test_a_slot_in_use_is_refused (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    assert_true (s_put (queue, 0, 1));
    assert_false (s_put (queue, 1, 1));
    tureen_batch_t *batch;
    assert_int_equal (batch_queue_take (queue, &batch, 0), TUREEN_BATCH);
    assert_false (s_put (queue, 1, 1));
    tureen_batch_release (&batch);
    assert_true (s_put (queue, 1, 1));
    //  Of what is in no slot there are only so many.
    for (uint64_t count = 0; count < WINDOW_LOOSE_MAX; count++)
        assert_true (s_put (queue, 2 + count, WIRE_SLOT_NONE));
    assert_false (s_put (queue, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    assert_int_equal (batch_queue_take (queue, &batch, 0), TUREEN_BATCH);
    tureen_batch_release (&batch);
    assert_false (s_put (queue, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    assert_int_equal (batch_queue_take (queue, &batch, 0), TUREEN_BATCH);
    tureen_batch_release (&batch);
    assert_true (s_put (queue, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

//  The queue fills with ends of epochs; then it is full and says so, and room wakes the loader's thread.
static void
test_a_full_queue_says_so (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    wire_epoch_end_t end = { 0 };
    for (int count = 0; count < BATCH_QUEUE_MAX; count++) {
        assert_false (batch_queue_look (queue).full);
        end.epoch = (uint64_t) count;
        batch_queue_put_epoch_end (queue, &end);
    }
    assert_true (batch_queue_look (queue).full);
    struct pollfd wakeup = { .fd = batch_queue_descriptor (queue), .events = POLLIN };
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    tureen_batch_t *batch;
    assert_int_equal (batch_queue_take (queue, &batch, 0), TUREEN_EPOCH_END);
    assert_int_equal (poll (&wakeup, 1, 0), 1);
    assert_false (batch_queue_look (queue).full);
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

//  A user's thread that finds nothing to take has told the loader's thread what it took: the server may wait
//  for that.
static void
test_waiting_reports_what_was_taken (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    struct pollfd wakeup = { .fd = batch_queue_descriptor (queue), .events = POLLIN };
    tureen_batch_t *held [2], *none;
    assert_true (s_put (queue, 0, 0));
    assert_true (s_put (queue, 1, 1));
    for (int index = 0; index < 2; index++)
        assert_int_equal (batch_queue_take (queue, &held [index], -1), TUREEN_BATCH);
    //  As long as there are batches to take it costs nothing.
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    assert_int_equal (batch_queue_take (queue, &none, 0), TUREEN_TIMEOUT);
    assert_int_equal (poll (&wakeup, 1, 0), 1);
    assert_int_equal (batch_queue_look (queue).progress.consumed, 2);
    //  The loader's thread knows: no need to wake it again.
    assert_int_equal (batch_queue_take (queue, &none, 0), TUREEN_TIMEOUT);
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    for (int index = 0; index < 2; index++)
        tureen_batch_release (&held [index]);
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

//  What came before a failure is given, then the failure; what comes after it is dropped.
static void
test_a_failure_waits_its_turn (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    message_error_t first = { "first" }, second = { "second" };
    assert_true (s_put (queue, 0, 0));
    assert_string_equal (batch_queue_error (queue), "");
    batch_queue_fail (queue, &first);
    batch_queue_fail (queue, &second);
    assert_true (s_put (queue, 1, 1));
    tureen_batch_t *batch, *none;
    assert_int_equal (batch_queue_take (queue, &batch, -1), TUREEN_BATCH);
    assert_int_equal (batch_queue_take (queue, &none, -1), TUREEN_ERROR);
    assert_string_equal (batch_queue_error (queue), "first");
    assert_false (batch_queue_look (queue).leave);
    tureen_batch_release (&batch);
    batch_queue_stop (queue);
    assert_true (batch_queue_look (queue).leave);
    batch_queue_destroy (&queue);
}

//  After the last end has been taken, a failure is not reported; the job leaves when all is released.
static void
test_the_last_end_wins_over_a_failure (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    wire_epoch_end_t end = { .flags = WIRE_EPOCH_LAST };
    message_error_t late = { "late" };
    assert_true (s_put (queue, 0, 0));
    batch_queue_put_epoch_end (queue, &end);
    batch_queue_fail (queue, &late);
    tureen_batch_t *batch, *none;
    assert_int_equal (batch_queue_take (queue, &batch, -1), TUREEN_BATCH);
    assert_int_equal (batch_queue_take (queue, &none, -1), TUREEN_EPOCH_END);
    assert_int_equal (batch_queue_take (queue, &none, -1), TUREEN_END);
    assert_string_equal (batch_queue_error (queue), "");
    assert_false (batch_queue_look (queue).leave);
    tureen_batch_release (&batch);
    assert_true (batch_queue_look (queue).leave);
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

//  --------------------------------------------------------------------------
//  A loader's thread, and users that write into their batches: the thread sanitizer's case.

enum { USERS = 3, USERS_BATCHES = 3000, USERS_SLOTS = 5 };

typedef struct {
    batch_queue_t *queue;
    atomic_bool failed;
} threads_t;

static void *
s_loader (void *argument)
{
    threads_t *threads = argument;
    uint64_t sequence = 0, in_slot [USERS_SLOTS];
    bool busy [USERS_SLOTS] = { false };
    while (sequence < USERS_BATCHES) {
        struct pollfd wakeup = { .fd = batch_queue_descriptor (threads->queue), .events = POLLIN };
        batch_queue_view_t view = batch_queue_look (threads->queue);
        for (uint32_t slot = 0; slot < USERS_SLOTS && sequence < USERS_BATCHES; slot++) {
            if (busy [slot] && (in_slot [slot] >= view.progress.released || (view.progress.kept >> slot & 1)))
                continue;
            memset (s_ring + slot * SLOT_BYTES, (int) sequence, SLOT_BYTES);
            busy [slot] = s_put (threads->queue, in_slot [slot] = sequence, slot);
            threads->failed |= !busy [slot];
            sequence++;
        }
        poll (&wakeup, 1, 1000);
    }
    wire_epoch_end_t end = { .flags = WIRE_EPOCH_LAST };
    batch_queue_put_epoch_end (threads->queue, &end);
    return NULL;
}

static void *
s_user (void *argument)
{
    threads_t *threads = argument;
    tureen_batch_t *held = NULL, *batch;
    while (batch_queue_take (threads->queue, &batch, -1) != TUREEN_END) {
        tureen_array_t array;
        if (!batch)
            continue;
        tureen_batch_array (batch, "x", &array);
        uint8_t expected = (uint8_t) tureen_batch_sequence (batch);
        threads->failed |= *(uint8_t *) array.data != expected
            || tureen_batch_ids (batch) [1] % 256 != expected;
        memset (array.data, 0, array.bytes);
        //  One is kept while the next is taken: releases go out of order.
        if (expected % 3 == 0 && !held)
            held = batch;
        else {
            tureen_batch_release (&batch);
            if (expected % 5 == 0)
                tureen_batch_release (&held);
        }
    }
    tureen_batch_release (&held);
    return NULL;
}

static void
test_many_threads (void **state)
{
    (void) state;
    threads_t threads = { .queue = s_open (USERS_SLOTS) };
    pthread_t loader, users [USERS];
    assert_int_equal (pthread_create (&loader, NULL, s_loader, &threads), 0);
    for (int index = 0; index < USERS; index++)
        assert_int_equal (pthread_create (&users [index], NULL, s_user, &threads), 0);
    pthread_join (loader, NULL);
    for (int index = 0; index < USERS; index++)
        pthread_join (users [index], NULL);
    assert_false (threads.failed);
    batch_queue_view_t view = batch_queue_look (threads.queue);
    assert_int_equal (view.progress.released, USERS_BATCHES);
    assert_int_equal (view.progress.kept, 0);
    assert_true (view.leave);
    batch_queue_stop (threads.queue);
    batch_queue_destroy (&threads.queue);
}

//  Guards: what is said of unreadable samples is kept as it was said last, and is a notice where more are
//  missing than ever before.
static void
test_unreadable_samples (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    static const struct { uint64_t count; const char *json; bool is_notice; } said [] = {
        { 2, "{\"count\":2}", true }, { 2, "{\"count\":2,\"again\":1}", false },
        { 0, "{\"count\":0}", false },
        { 1, "{\"count\":1}", false }, { 3, "{\"count\":3}", true }
    };
    char *json = batch_queue_unreadable (queue);
    assert_string_equal (json, "{\"count\":0,\"samples\":[]}");
    free (json);
    for (size_t index = 0; index < sizeof said / sizeof *said; index++) {
        batch_queue_put_unreadable (queue, said [index].count, strdup (said [index].json), said [index].json);
        json = batch_queue_unreadable (queue);
        assert_string_equal (json, said [index].json);
        free (json);
        char *notice = batch_queue_take_notice (queue);
        assert_int_equal (notice != NULL, said [index].is_notice);
        free (notice);
    }
    batch_queue_put_unreadable (queue, 4, strdup ("{}"), "not taken");
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

//  Guards: notices that are not taken are forgotten from the oldest on, but not that of unreadable samples.
static void
test_too_many_notices (void **state)
{
    (void) state;
    batch_queue_t *queue = s_open (3);
    char text [2] = "a";
    for (uint64_t count = 1; count <= 2; count++) {
        batch_queue_put_notice (queue, "before");
        batch_queue_put_unreadable (queue, count, strdup ("{}"), "unreadable");
        for (text [0] = 'a'; text [0] <= 'j'; text [0]++)
            batch_queue_put_notice (queue, text);
        char *notice = batch_queue_take_notice (queue);
        assert_string_equal (notice, "unreadable");
        free (notice);
        for (text [0] = 'd'; text [0] <= 'j'; text [0]++) {
            notice = batch_queue_take_notice (queue);
            assert_string_equal (notice, text);
            free (notice);
        }
        assert_null (batch_queue_take_notice (queue));
    }
    batch_queue_stop (queue);
    batch_queue_destroy (&queue);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_unreadable_samples),
        cmocka_unit_test (test_too_many_notices),
        cmocka_unit_test (test_progress_frees_what_is_released_and_nothing_else),
        cmocka_unit_test (test_a_slot_in_use_is_refused),
        cmocka_unit_test (test_a_full_queue_says_so),
        cmocka_unit_test (test_waiting_reports_what_was_taken),
        cmocka_unit_test (test_a_failure_waits_its_turn),
        cmocka_unit_test (test_the_last_end_wins_over_a_failure),
        cmocka_unit_test (test_many_threads)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
