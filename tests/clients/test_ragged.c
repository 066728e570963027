//  Ragged fields in libtureen: what JOINED says of their lengths, and the rows of a batch behind one another.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "batch_queue.h"
#include "golden.h"
#include "seed.h"

enum { SLOT_BYTES = 256, BATCH = 2, MOST = 5, LENGTHS_AT = 64, ROUNDS = 200 };

static golden_t s_golden;

static message_joined_t *
s_joined (message_error_t *error)
{
    message_joined_t *joined = NULL;
    if (!message_read_joined (s_golden.frames, s_golden.count, BATCH, &joined, error))
        return NULL;
    return joined;
}

//  A field names its lengths; one that names what is none is refused.
static void
test_lengths_are_read_and_checked (void **state)
{
    (void) state;
    message_error_t error;
    assert_true (golden_read (&s_golden, "joined_ragged"));
    message_joined_t *joined = s_joined (&error);
    assert_non_null (joined);
    const tureen_info_t *info = &joined->info;
    assert_int_equal (info->field_count, 3);
    assert_string_equal (info->fields [0].lengths, "tokens_length");
    assert_null (info->fields [1].lengths);
    message_joined_destroy (&joined);
    //  Of the same length, so that the frame stays as it is: no such field; one of another type; no text.
    static const char *const others [] = {
        "\"tokens_lengtx\"", "\"tokens\"       ", "\"\"             ", "7              "
    };
    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        assert_true (golden_read (&s_golden, "joined_ragged"));
        char *at = memmem (s_golden.frames [1].data, s_golden.frames [1].size, "\"lengths\":", 10);
        assert_non_null (at);
        memcpy (at + 10, others [index], 15);
        assert_null (s_joined (&error));
        assert_non_null (strstr (error.text, "lengths"));
    }
}

//  Random rows, and lengths that no server sends, which are taken for the nearest that it may.
static void
test_rows_lie_behind_one_another (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    message_error_t error;
    static uint64_t slots [4 * SLOT_BYTES / 8];
    uint8_t *ring = (uint8_t *) slots;
    assert_true (golden_read (&s_golden, "joined_ragged"));
    message_joined_t *joined = s_joined (&error);
    batch_queue_t *queue = batch_queue_new ();
    mapped_ring_t *none = NULL;
    window_t *window = batch_queue_window_new (queue, &joined, &none, ring, 0);
    position_t *position = position_new (NULL, 0, 9);
    assert_true (window && position);
    batch_queue_open (queue, &window, &position);
    batch_queue_report (queue, 0, NULL);
    assert_int_equal (batch_queue_wait_open (queue, &error), 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        int16_t expected [BATCH * MOST], values [BATCH * MOST] = { 0 };
        int64_t offsets [BATCH + 1], lengths [BATCH], ends [BATCH + 1] = { 0 };
        size_t count = 1 + test_below (&random, BATCH);
        uint8_t *slot = ring + round % 4 * SLOT_BYTES;
        for (size_t index = 0; index < SLOT_BYTES; index++)
            slot [index] = (uint8_t) test_below (&random, 256);
        for (size_t sample = 0; sample < count; sample++) {
            lengths [sample] = (int64_t) test_below (&random, MOST + 5) - 2;
            memcpy (slot + LENGTHS_AT + sample * 8, &lengths [sample], 8);
            int64_t rows = lengths [sample] < 0? 0: lengths [sample] > MOST? MOST: lengths [sample];
            memcpy (expected + ends [sample], slot + sample * MOST * 2, (size_t) rows * 2);
            ends [sample + 1] = ends [sample] + rows;
        }
        uint64_t ids [BATCH] = { 1, 2 };
        message_batch_t message = { .ids = (uint8_t *) ids, .step = (uint8_t *) ids, .step_count = count,
            .head = { .sequence = round, .slot = round % 4, .count = (uint32_t) count } };
        assert_true (batch_queue_put_batch (queue, &message, NULL));
        tureen_batch_t *batch;
        assert_int_equal (batch_queue_take (queue, &batch, -1), TUREEN_BATCH);
        for (int with_values = 0; with_values < 2; with_values++) {
            assert_true (tureen_batch_ragged (batch, "tokens", with_values? values: NULL, offsets));
            if (memcmp (offsets, ends, (count + 1) * sizeof *ends))
                fail_msg ("seed %llu, round %llu: other offsets", (unsigned long long) test_seed (),
                    (unsigned long long) round);
        }
        assert_memory_equal (values, expected, (size_t) ends [count] * 2);
        assert_false (tureen_batch_ragged (batch, "label", values, offsets));
        assert_false (tureen_batch_ragged (batch, "none", values, offsets));
        tureen_batch_release (&batch);
    }
    batch_queue_destroy (&queue);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_lengths_are_read_and_checked),
        cmocka_unit_test (test_rows_lie_behind_one_another),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
