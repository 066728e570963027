/*  Which requests wait, which is next, and which gives way: by hand, and beside a model that keeps one flat
 *  list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "request_queue.h"

enum { MIB = 1 << 20 };

static waiting_t *
s_new (uint64_t connection, size_t bytes)
{
    waiting_t *request = calloc (1, sizeof *request);
    assert_non_null (request);
    request->connection = connection;
    request->bytes = bytes;
    return request;
}

static bool
s_is_odd (void *context, const waiting_t *request)
{
    return request->connection % *(uint64_t *) context == 1;
}

static void
s_empty (request_queue_t *queue)
{
    for (waiting_t *request; (request = request_queue_take (queue)); )
        free (request);
}

static void
a_line_keeps_its_order (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    waiting_t *requests [10];
    for (size_t index = 0; index < 10; index++) {
        requests [index] = s_new (index % 3, 100);
        assert_null (request_queue_put (queue, 7, 1, requests [index]));
    }
    assert_int_equal (request_queue_bytes (queue), 1000);
    for (size_t index = 0; index < 10; index++) {
        request_queue_check (queue);
        assert_ptr_equal (request_queue_take (queue), requests [index]);
        free (requests [index]);
    }
    assert_null (request_queue_take (queue));
    request_queue_destroy (&queue);
}

//  Lines that never run empty are served by weight, whatever single requests cost.
static void
served_by_weight (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (100); seed++, round++) {
        uint64_t random = seed;
        request_queue_t *queue = request_queue_new ();
        size_t lines = 2 + test_below (&random, 7);
        uint32_t weights [8], costs [8];
        double served [8] = { 0 }, dearest = 0;
        for (uint32_t line = 0; line < lines; line++) {
            weights [line] = (uint32_t) (1 + test_below (&random, 10));
            costs [line] = (uint32_t) (1000 + test_below (&random, 2000000));
            dearest = costs [line] > dearest? costs [line]: dearest;
            assert_null (request_queue_put (queue, line, weights [line], s_new (line, 1)));
        }
        for (int turn = 0; turn < 5000; turn++) {
            waiting_t *request = request_queue_take (queue);
            uint32_t line = request->line;
            free (request);
            uint32_t cost = (uint32_t) (costs [line] / 2 + test_below (&random, costs [line] / 2 + 1));
            request_queue_charge (queue, line, weights [line], cost);
            served [line] += cost;
            assert_null (request_queue_put (queue, line, weights [line], s_new (line, 1)));
        }
        for (uint32_t one = 0; one < lines; one++)
            for (uint32_t other = 0; other < lines; other++) {
                double apart = served [one] / weights [one] - served [other] / weights [other];
                //  One request of each, and what a pass is rounded by.
                if (apart > (double) dearest / weights [one] + (double) dearest / weights [other] + 100)
                    fail_msg ("seed %" PRIu64 ": lines %u and %u are %.0f apart", seed, one, other, apart);
            }
        s_empty (queue);
        request_queue_destroy (&queue);
    }
}

//  A line that had nothing for long gets no more than its share afterwards, and one that was alone is not
//  made to wait for it.
static void
no_tenant_saves_up_or_pays_for_long (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    for (int turn = 0; turn < 10000; turn++) {
        assert_null (request_queue_put (queue, 0, 1, s_new (1, 1)));
        free (request_queue_take (queue));
        request_queue_charge (queue, 0, 1, MIB);         //  ten seconds in all
    }
    size_t of [2] = { 0 };
    for (int turn = 0; turn < 1000; turn++) {
        for (uint32_t line = 0; line < 2; line++)
            if (request_queue_line_count (queue, line) == 0)
                assert_null (request_queue_put (queue, line, 1, s_new (line, 1)));
        waiting_t *request = request_queue_take (queue);
        of [request->line]++;
        request_queue_charge (queue, request->line, 1, MIB);
        free (request);
    }
    size_t debt = WAITING_DEBT_MAX / MIB;
    assert_in_range (of [0], 500 - debt, 500 + debt);
    s_empty (queue);
    request_queue_destroy (&queue);
}

//  What is charged on the side is a debt, but for a while only.
static void
debts_are_bounded (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    for (int times = 0; times < 1000; times++)
        request_queue_charge (queue, 3, 2, 1000 * (uint64_t) MIB);
    size_t before = 0;
    assert_null (request_queue_put (queue, 3, 2, s_new (1, 1)));
    for (;; before++) {
        assert_null (request_queue_put (queue, 4, 2, s_new (2, 1)));
        waiting_t *request = request_queue_take (queue);
        uint32_t line = request->line;
        free (request);
        if (line == 3)
            break;
        request_queue_charge (queue, 4, 2, MIB);
    }
    assert_in_range (before, 1, WAITING_DEBT_MAX / MIB + 1);
    s_empty (queue);
    request_queue_destroy (&queue);
}

static void
one_connection_does_not_fill_a_line (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    for (size_t index = 0; index < WAITING_CONNECTION_MAX; index++)
        assert_null (request_queue_put (queue, 0, 1, s_new (5, 10)));
    waiting_t *extra = s_new (5, 10);
    assert_ptr_equal (request_queue_put (queue, 0, 1, extra), extra);
    //  A few connections fill it; another one takes the place of the newest request of those that have most.
    uint64_t connection = 6;
    while (request_queue_line_count (queue, 0) < WAITING_LINE_MAX) {
        waiting_t *request = s_new (connection, 10);
        if (request_queue_put (queue, 0, 1, request) == request) {
            free (request);
            connection++;
        }
    }
    extra->connection = 1000003;
    waiting_t *gives_way = request_queue_put (queue, 0, 1, extra);
    assert_non_null (gives_way);
    assert_ptr_not_equal (gives_way, extra);
    assert_true (request_queue_has (queue, 0, 1000003));
    request_queue_check (queue);
    free (gives_way);
    //  Another tenant's line is not touched by all that.
    assert_null (request_queue_put (queue, 1, 1, s_new (5, 10)));
    s_empty (queue);
    request_queue_destroy (&queue);
}

//  A connection with one request fewer than another takes no place of it: the two would only change places.
static void
nearly_equal_connections_keep_their_places (void **state)
{
    (void) state;
    enum { CONNECTIONS = WAITING_LINE_MAX / WAITING_CONNECTION_MAX + 1 };
    enum { MOST = WAITING_LINE_MAX / CONNECTIONS + 1, WITH_MOST = WAITING_LINE_MAX % CONNECTIONS };
    request_queue_t *queue = request_queue_new ();
    for (uint64_t connection = 0; connection < CONNECTIONS; connection++)
        for (int count = connection < WITH_MOST? 0: 1; count < MOST; count++)
            assert_null (request_queue_put (queue, 0, 1, s_new (connection, 10)));
    assert_int_equal (request_queue_line_count (queue, 0), WAITING_LINE_MAX);
    waiting_t *extra = s_new (CONNECTIONS - 1, 10);
    assert_ptr_equal (request_queue_put (queue, 0, 1, extra), extra);
    free (extra);
    s_empty (queue);
    request_queue_destroy (&queue);
}

static void
bytes_are_bounded (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    for (size_t index = 0; index < 8; index++)
        assert_null (request_queue_put (queue, 0, 1, s_new (index, MIB)));
    waiting_t *more = s_new (0, MIB);
    assert_ptr_equal (request_queue_put (queue, 0, 1, more), more);
    //  A message as large as the protocol allows waits alone, and beside small ones; two such do not.
    more->bytes = (size_t) 130 * MIB;
    assert_null (request_queue_put (queue, 0, 1, more));
    waiting_t *second = s_new (9, 2 * MIB);
    assert_ptr_equal (request_queue_put (queue, 0, 1, second), second);
    assert_null (request_queue_put (queue, 1, 1, second));
    //  All lines together.
    second = s_new (9, (size_t) 125 * MIB);
    assert_ptr_equal (request_queue_put (queue, 2, 1, second), second);
    request_queue_check (queue);
    free (second);
    s_empty (queue);
    assert_int_equal (request_queue_bytes (queue), 0);
    request_queue_destroy (&queue);
}

//  Must hold: while a line's head is held its line stands still and others do not; nothing is counted out,
//  and the head is not taken.
static void
a_held_head_holds_its_line (void **state)
{
    (void) state;
    request_queue_t *queue = request_queue_new ();
    uint64_t divisor = 1000;
    for (size_t index = 0; index < 3; index++)
        assert_null (request_queue_put (queue, 0, 1, s_new (1, 100)));
    waiting_t *held = request_queue_take (queue);
    request_queue_hold (queue, held);
    request_queue_check (queue);
    assert_int_equal (request_queue_count (queue), 3);
    assert_int_equal (request_queue_bytes (queue), 300);
    assert_false (request_queue_has_next (queue));
    assert_null (request_queue_take (queue));
    for (int turn = 0; turn < 50; turn++) {
        assert_null (request_queue_put (queue, 1, 1, s_new (2, 100)));
        assert_true (request_queue_has_next (queue));
        waiting_t *other = request_queue_take (queue);
        assert_int_equal (other->line, 1);
        request_queue_charge (queue, 1, 1, MIB);
        free (other);
        request_queue_check (queue);
    }
    waiting_t *gone [2] = { request_queue_take_if (queue, s_is_odd, &divisor),
        request_queue_take_if (queue, s_is_odd, &divisor) };
    assert_true (gone [0] && gone [1] && gone [0] != held && gone [1] != held);
    assert_null (request_queue_take_if (queue, s_is_odd, &divisor));
    assert_null (request_queue_put (queue, 0, 1, gone [0]));
    request_queue_release (queue, held);
    request_queue_check (queue);
    //  What it could not have meanwhile it does not get now: the two lines alternate.
    assert_null (request_queue_put (queue, 0, 1, gone [1]));
    size_t of_held = 0;
    for (int turn = 0; turn < 4; turn++) {
        assert_null (request_queue_put (queue, 1, 1, s_new (2, 100)));
        waiting_t *next = request_queue_take (queue);
        of_held += next->line == 0;
        request_queue_charge (queue, next->line, 1, MIB);
        free (next);
    }
    assert_int_equal (of_held, 2);
    free (held);
    s_empty (queue);
    request_queue_destroy (&queue);
}

//  ---- beside a model

enum { MODEL_MAX = 4096, MODEL_LINES = 4 };

typedef struct {
    waiting_t *requests [MODEL_MAX];        //  as they came
    size_t count;
    waiting_t *held [MODEL_LINES];          //  NULL: none
} model_t;

static size_t
s_model_of (const model_t *model, uint32_t line, uint64_t connection, bool firsts_only)
{
    size_t count = 0;
    for (size_t index = 0; index < model->count; index++) {
        const waiting_t *request = model->requests [index];
        count += request->line == line && (connection == UINT64_MAX || request->connection == connection)
            && (request->is_first || !firsts_only);
    }
    return count;
}

static void
s_model_remove (model_t *model, const waiting_t *gone)
{
    size_t index = 0;
    while (index < model->count && model->requests [index] != gone)
        index++;
    assert_true (index < model->count);
    memmove (&model->requests [index], &model->requests [index + 1],
        (--model->count - index) * sizeof *model->requests);
}

static void
s_put_one (request_queue_t *queue, model_t *model, uint64_t *random, size_t *refused)
{
    size_t sizes [] = { 100, 5000, MIB - 7, 3 * MIB, (size_t) 60 * MIB, (size_t) 131 * MIB };
    waiting_t *request = s_new (test_below (random, 12),
        sizes [test_below (random, test_below (random, 6) + 1)]);
    request->is_first = test_below (random, 3) == 0;
    uint32_t line = (uint32_t) test_below (random, MODEL_LINES);
    waiting_t *gone = request_queue_put (queue, line, 1 + line, request);
    *refused += gone != NULL;
    if (gone != request) {
        assert_true (model->count < MODEL_MAX);
        model->requests [model->count++] = request;
    }
    if (gone && gone != request) {
        //  Only one of the same line gives way, of a connection with more, and the newest small one of it.
        assert_int_equal (gone->line, line);
        assert_true (gone->bytes <= WAITING_SMALL_BYTES);
        for (size_t index = model->count; model->requests [--index] != gone; )
            assert_false (model->requests [index]->line == line
                && model->requests [index]->connection == gone->connection
                && model->requests [index]->bytes <= WAITING_SMALL_BYTES);
        s_model_remove (model, gone);
    }
    free (gone);
}

static void
s_take_one (request_queue_t *queue, model_t *model, uint64_t *random)
{
    waiting_t *request = request_queue_take (queue);
    size_t could = 0;
    for (size_t index = 0; index < model->count; index++)
        could += !model->held [model->requests [index]->line];
    assert_int_equal (request != NULL, could > 0);
    if (!request)
        return;
    //  The first of its line.
    for (size_t index = 0; model->requests [index] != request; index++)
        assert_int_not_equal (model->requests [index]->line, request->line);
    assert_null (model->held [request->line]);
    request_queue_charge (queue, request->line, 1 + request->line, test_below (random, 3000000));
    if (test_below (random, 4) == 0) {
        request_queue_hold (queue, request);
        model->held [request->line] = request;
        return;
    }
    s_model_remove (model, request);
    free (request);
}

static void
s_release_one (request_queue_t *queue, model_t *model, uint32_t line)
{
    waiting_t *request = model->held [line];
    if (!request)
        return;
    request_queue_release (queue, request);
    model->held [line] = NULL;
    s_model_remove (model, request);
    free (request);
}

//  Replay: TEST_SEED=<seed>.
static void
agrees_with_a_flat_list (void **state)
{
    (void) state;
    size_t refused = 0;
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (60); seed++, round++) {
        uint64_t random = seed, divisor = 5;
        request_queue_t *queue = request_queue_new ();
        model_t model = { .count = 0 };
        uint64_t bias = 1 + test_below (&random, 8);
        for (int step = 0; step < 600; step++) {
            uint64_t way = test_below (&random, 10);
            if (way == 0) {
                waiting_t *gone = request_queue_take_if (queue, s_is_odd, &divisor);
                if (gone)
                    s_model_remove (&model, gone);
                free (gone);
            }
            else
            if (way <= bias)
                s_put_one (queue, &model, &random, &refused);
            else
                s_take_one (queue, &model, &random);
            if (test_below (&random, 3) == 0)
                s_release_one (queue, &model, (uint32_t) test_below (&random, MODEL_LINES));
            request_queue_check (queue);
            uint32_t line = (uint32_t) test_below (&random, MODEL_LINES);
            uint64_t connection = test_below (&random, 12);
            assert_int_equal (request_queue_count (queue), model.count);
            assert_int_equal (request_queue_line_count (queue, line),
                s_model_of (&model, line, UINT64_MAX, false));
            assert_int_equal (request_queue_has (queue, line, connection),
                s_model_of (&model, line, connection, false) > 0);
            assert_int_equal (request_queue_holds_back (queue, line, connection),
                s_model_of (&model, line, connection, true) > 0);
        }
        for (uint32_t line = 0; line < MODEL_LINES; line++)
            s_release_one (queue, &model, line);
        s_empty (queue);
        request_queue_check (queue);
        request_queue_destroy (&queue);
    }
    assert_true (refused > 100 || EFFORT (60) < 60);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (a_line_keeps_its_order),
        cmocka_unit_test (served_by_weight),
        cmocka_unit_test (no_tenant_saves_up_or_pays_for_long),
        cmocka_unit_test (debts_are_bounded),
        cmocka_unit_test (one_connection_does_not_fill_a_line),
        cmocka_unit_test (nearly_equal_connections_keep_their_places),
        cmocka_unit_test (bytes_are_bounded),
        cmocka_unit_test (a_held_head_holds_its_line),
        cmocka_unit_test (agrees_with_a_flat_list),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
