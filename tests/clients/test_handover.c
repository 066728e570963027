//  The handover alone, without sockets: against a simple model, and with the two sides in threads of their
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
#include "handover.h"
#include "seed.h"

enum { SLOT_BYTES = 64, BATCH = 2, ROUNDS = 200, STEPS = 400, LOOSE = 3 };

static uint8_t s_ring [WIRE_SLOTS_MAX * SLOT_BYTES];

static handover_t *
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
    handover_t *handover = handover_new ();
    assert_non_null (handover);
    attach_t *none = NULL;
    window_t *window = handover_window_new (handover, &joined, &none, s_ring, 0);
    position_t *position = position_new (NULL, 0, 9);
    assert_true (window && position);
    handover_open (handover, &window, &position);
    handover_report (handover, 0, NULL);
    assert_int_equal (handover_wait_open (handover, &error), 0);
    return handover;
}

static bool
s_put (handover_t *handover, uint64_t sequence, uint32_t slot)
{
    uint64_t ids [BATCH] = { sequence, sequence };
    message_batch_t batch = { .head = { .sequence = sequence, .slot = slot, .count = BATCH },
        .ids = (uint8_t *) ids,
        .step = (uint8_t *) ids, .step_count = BATCH };
    if (slot != WIRE_SLOT_NONE)
        return handover_put_batch (handover, &batch, NULL);
    zmq_msg_t payload;
    zmq_msg_init_size (&payload, SLOT_BYTES);
    bool fine = handover_put_batch (handover, &batch, &payload);
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
s_step_put (model_t *model, handover_t *handover, uint64_t *random)
{
    uint32_t slot = s_find (model, EMPTY, random);
    if (slot == UINT32_MAX)
        return;
    assert_true (s_put (handover, model->next, slot < model->slots? slot: WIRE_SLOT_NONE));
    model->place [slot] = QUEUED;
    model->sequence [slot] = model->next++;
}

static void
s_step_take (model_t *model, handover_t *handover)
{
    tureen_batch_t *batch;
    tureen_event_t event = handover_take (handover, &batch, 0);
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
        handover_t *handover = s_open (model.slots);
        for (int step = 0; step < STEPS; step++) {
            switch (test_below (&random, 4)) {
                case 0: s_step_put (&model, handover, &random); break;
                case 1: s_step_take (&model, handover); break;
                case 2: s_step_release (&model, &random); break;
                default: {
                    handover_view_t view = handover_look (handover);
                    if (!s_obey (&model, &view.progress))
                        fail_msg ("seed %" PRIu64 ", step %d: consumed %" PRIu64 " released %" PRIu64
                            " kept %" PRIx64,
                            seed, step, view.progress.consumed, view.progress.released, view.progress.kept);
                }
            }
        }
        for (uint32_t slot = 0; slot < model.slots + LOOSE; slot++)
            tureen_batch_release (&model.batch [slot]);
        handover_stop (handover);
        handover_destroy (&handover);
    }
}

//  --------------------------------------------------------------------------

static void
test_a_slot_in_use_is_refused (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    assert_true (s_put (handover, 0, 1));
    assert_false (s_put (handover, 1, 1));
    tureen_batch_t *batch;
    assert_int_equal (handover_take (handover, &batch, 0), TUREEN_BATCH);
    assert_false (s_put (handover, 1, 1));
    tureen_batch_release (&batch);
    assert_true (s_put (handover, 1, 1));
    //  Of what is in no slot there are only so many.
    for (uint64_t count = 0; count < WINDOW_LOOSE_MAX; count++)
        assert_true (s_put (handover, 2 + count, WIRE_SLOT_NONE));
    assert_false (s_put (handover, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    assert_int_equal (handover_take (handover, &batch, 0), TUREEN_BATCH);
    tureen_batch_release (&batch);
    assert_false (s_put (handover, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    assert_int_equal (handover_take (handover, &batch, 0), TUREEN_BATCH);
    tureen_batch_release (&batch);
    assert_true (s_put (handover, 2 + WINDOW_LOOSE_MAX, WIRE_SLOT_NONE));
    handover_stop (handover);
    handover_destroy (&handover);
}

//  The queue fills with ends of epochs; then it is full and says so, and room wakes the loader's thread.
static void
test_a_full_queue_says_so (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    wire_epoch_end_t end = { 0 };
    for (int count = 0; count < HANDOVER_QUEUE_MAX; count++) {
        assert_false (handover_look (handover).full);
        end.epoch = (uint64_t) count;
        handover_put_epoch_end (handover, &end);
    }
    assert_true (handover_look (handover).full);
    struct pollfd wakeup = { .fd = handover_descriptor (handover), .events = POLLIN };
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    tureen_batch_t *batch;
    assert_int_equal (handover_take (handover, &batch, 0), TUREEN_EPOCH_END);
    assert_int_equal (poll (&wakeup, 1, 0), 1);
    assert_false (handover_look (handover).full);
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    handover_stop (handover);
    handover_destroy (&handover);
}

//  A user's thread that finds nothing to take has told the loader's thread what it took: the server may wait
//  for that.
static void
test_waiting_reports_what_was_taken (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    struct pollfd wakeup = { .fd = handover_descriptor (handover), .events = POLLIN };
    tureen_batch_t *held [2], *none;
    assert_true (s_put (handover, 0, 0));
    assert_true (s_put (handover, 1, 1));
    for (int index = 0; index < 2; index++)
        assert_int_equal (handover_take (handover, &held [index], -1), TUREEN_BATCH);
    //  As long as there are batches to take it costs nothing.
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    assert_int_equal (handover_take (handover, &none, 0), TUREEN_TIMEOUT);
    assert_int_equal (poll (&wakeup, 1, 0), 1);
    assert_int_equal (handover_look (handover).progress.consumed, 2);
    //  The loader's thread knows: no need to wake it again.
    assert_int_equal (handover_take (handover, &none, 0), TUREEN_TIMEOUT);
    assert_int_equal (poll (&wakeup, 1, 0), 0);
    for (int index = 0; index < 2; index++)
        tureen_batch_release (&held [index]);
    handover_stop (handover);
    handover_destroy (&handover);
}

//  What came before a failure is given, then the failure; what comes after it is dropped.
static void
test_a_failure_waits_its_turn (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    message_error_t first = { "first" }, second = { "second" };
    assert_true (s_put (handover, 0, 0));
    assert_string_equal (handover_error (handover), "");
    handover_fail (handover, &first);
    handover_fail (handover, &second);
    assert_true (s_put (handover, 1, 1));
    tureen_batch_t *batch, *none;
    assert_int_equal (handover_take (handover, &batch, -1), TUREEN_BATCH);
    assert_int_equal (handover_take (handover, &none, -1), TUREEN_ERROR);
    assert_string_equal (handover_error (handover), "first");
    assert_false (handover_look (handover).leave);
    tureen_batch_release (&batch);
    handover_stop (handover);
    assert_true (handover_look (handover).leave);
    handover_destroy (&handover);
}

//  After the last end has been taken, a failure is not reported; the job leaves when all is released.
static void
test_the_last_end_wins_over_a_failure (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    wire_epoch_end_t end = { .flags = WIRE_EPOCH_LAST };
    message_error_t late = { "late" };
    assert_true (s_put (handover, 0, 0));
    handover_put_epoch_end (handover, &end);
    handover_fail (handover, &late);
    tureen_batch_t *batch, *none;
    assert_int_equal (handover_take (handover, &batch, -1), TUREEN_BATCH);
    assert_int_equal (handover_take (handover, &none, -1), TUREEN_EPOCH_END);
    assert_int_equal (handover_take (handover, &none, -1), TUREEN_END);
    assert_false (handover_look (handover).leave);
    tureen_batch_release (&batch);
    assert_true (handover_look (handover).leave);
    handover_stop (handover);
    handover_destroy (&handover);
}

//  --------------------------------------------------------------------------
//  A loader's thread, and users that write into their batches: the thread sanitizer's case.

enum { USERS = 3, USERS_BATCHES = 3000, USERS_SLOTS = 5 };

typedef struct {
    handover_t *handover;
    atomic_bool failed;
} threads_t;

static void *
s_loader (void *argument)
{
    threads_t *threads = argument;
    uint64_t sequence = 0, in_slot [USERS_SLOTS];
    bool busy [USERS_SLOTS] = { false };
    while (sequence < USERS_BATCHES) {
        struct pollfd wakeup = { .fd = handover_descriptor (threads->handover), .events = POLLIN };
        handover_view_t view = handover_look (threads->handover);
        for (uint32_t slot = 0; slot < USERS_SLOTS && sequence < USERS_BATCHES; slot++) {
            if (busy [slot] && (in_slot [slot] >= view.progress.released || (view.progress.kept >> slot & 1)))
                continue;
            memset (s_ring + slot * SLOT_BYTES, (int) sequence, SLOT_BYTES);
            busy [slot] = s_put (threads->handover, in_slot [slot] = sequence, slot);
            threads->failed |= !busy [slot];
            sequence++;
        }
        poll (&wakeup, 1, 1000);
    }
    wire_epoch_end_t end = { .flags = WIRE_EPOCH_LAST };
    handover_put_epoch_end (threads->handover, &end);
    return NULL;
}

static void *
s_user (void *argument)
{
    threads_t *threads = argument;
    tureen_batch_t *held = NULL, *batch;
    while (handover_take (threads->handover, &batch, -1) != TUREEN_END) {
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
    threads_t threads = { .handover = s_open (USERS_SLOTS) };
    pthread_t loader, users [USERS];
    assert_int_equal (pthread_create (&loader, NULL, s_loader, &threads), 0);
    for (int index = 0; index < USERS; index++)
        assert_int_equal (pthread_create (&users [index], NULL, s_user, &threads), 0);
    pthread_join (loader, NULL);
    for (int index = 0; index < USERS; index++)
        pthread_join (users [index], NULL);
    assert_false (threads.failed);
    handover_view_t view = handover_look (threads.handover);
    assert_int_equal (view.progress.released, USERS_BATCHES);
    assert_int_equal (view.progress.kept, 0);
    assert_true (view.leave);
    handover_stop (threads.handover);
    handover_destroy (&threads.handover);
}

//  Guards: what is said of unreadable samples is kept as it was said last, and is a notice where more are
//  missing than ever before.
static void
test_unreadable_samples (void **state)
{
    (void) state;
    handover_t *handover = s_open (3);
    static const struct { uint64_t count; const char *json; bool is_notice; } said [] = {
        { 2, "{\"count\":2}", true }, { 2, "{\"count\":2,\"again\":1}", false },
        { 0, "{\"count\":0}", false },
        { 1, "{\"count\":1}", false }, { 3, "{\"count\":3}", true }
    };
    char *json = handover_unreadable (handover);
    assert_string_equal (json, "{\"count\":0,\"samples\":[]}");
    free (json);
    for (size_t index = 0; index < sizeof said / sizeof *said; index++) {
        handover_put_unreadable (handover, said [index].count, strdup (said [index].json), said [index].json);
        json = handover_unreadable (handover);
        assert_string_equal (json, said [index].json);
        free (json);
        char *notice = handover_take_notice (handover);
        assert_int_equal (notice != NULL, said [index].is_notice);
        free (notice);
    }
    handover_put_unreadable (handover, 4, strdup ("{}"), "not taken");
    handover_stop (handover);
    handover_destroy (&handover);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_unreadable_samples),
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
