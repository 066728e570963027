//  The raw store beside a simple model: holds, requests in line, memory within its budget.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "raw_store.h"
#include "seed.h"

static uint32_t
s_position (void *context, uint32_t source, uint32_t id)
{
    (void) context;
    return source == 0? id: 1000 - id;
}

static raw_store_t *
s_store (size_t budget)
{
    raw_store_t *store = raw_store_new (budget);
    raw_store_on_position (store, s_position, NULL);
    return store;
}

static uint32_t s_arrivals;

static void
s_arrived (void *context, raw_sample_t *sample)
{
    (void) context;
    assert_int_not_equal (sample->state, RAW_SAMPLE_AWAITED);
    assert_true (sample->holds > 0);
    s_arrivals++;
}

static void
s_done (raw_store_t *store, raw_request_t *request)
{
    raw_store_done (store, request, s_arrived, NULL);
    raw_store_check (store);
}

//  count new samples from id on, each held once, in one request.
static void
s_ask (raw_store_t *store, uint32_t id, uint32_t count, size_t bytes, raw_sample_t **samples)
{
    for (uint32_t index = 0; index < count; index++)
        samples [index] = raw_store_hold (store, 0, id + index, bytes);
    raw_store_request (store, 0, 0, samples, count);
}

//  Guards: a request waits until its samples' memory fits; those in line behind it wait too.
static void
test_requests_wait_in_line_for_memory (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_sample_t *first [4], *second [8], *third [1];
    s_ask (store, 0, 4, 100, first);
    s_ask (store, 10, 8, 100, second);
    s_ask (store, 30, 1, 100, third);
    raw_request_t *request = raw_store_next (store);
    assert_non_null (request);
    assert_int_equal (raw_store_bytes (store), 400);
    assert_null (raw_store_next (store));               //  800 more do not fit, and 100 do not overtake
    assert_int_equal (raw_store_queued (store), 2);
    s_done (store, request);
    assert_int_equal (first [0]->state, RAW_SAMPLE_READY);
    raw_store_drop (store, first [0]);
    raw_store_drop (store, first [1]);
    assert_null (raw_store_find (store, 0, 1));
    request = raw_store_next (store);
    assert_non_null (request);
    assert_int_equal (raw_store_bytes (store), 1000);
    s_done (store, request);
    assert_null (raw_store_next (store));
    for (int index = 0; index < 8; index++)
        raw_store_drop (store, second [index]);
    s_done (store, raw_store_next (store));
    raw_store_drop (store, third [0]);
    raw_store_drop (store, first [2]);
    raw_store_drop (store, first [3]);
    assert_int_equal (raw_store_samples (store), 0);
    raw_store_destroy (&store);
}

//  Guards: when all samples of a source have gone, its number is another source's: no request of the old one,
//  and no place in another lane's queue, is left that would count for the new one's samples.
static void
test_a_source_is_forgotten (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_sample_t *old, *other, *fresh;
    raw_store_part (store, 2, 100, 100);
    old = raw_store_hold (store, 1, 7, 10);
    raw_store_request (store, 1, 1, &old, 1);
    raw_store_also (store, 2, old);
    other = raw_store_hold (store, 0, 7, 10);
    raw_store_request (store, 1, 0, &other, 1);
    assert_true (raw_store_has (store, 1));
    raw_store_drop (store, old);
    assert_true (raw_store_has (store, 1));
    raw_store_forget (store, 1);
    raw_store_check (store);
    assert_false (raw_store_has (store, 1));
    assert_int_equal (raw_store_queued (store), 1);
    fresh = raw_store_hold (store, 1, 7, 20);
    raw_store_request (store, 1, 1, &fresh, 1);
    for (int count = 0; count < 2; count++)
        s_done (store, raw_store_next (store));
    assert_null (raw_store_next (store));
    assert_true (raw_sample_lane (fresh) == 1 && fresh->state == RAW_SAMPLE_READY);
    raw_store_drop (store, fresh);
    raw_store_drop (store, other);
    raw_store_destroy (&store);
}

//  Guards: requests of a source that is held back are passed, in every lane, and those of the others come; it
//  gets its turn again, in the old order.
static void
test_a_source_that_is_held_back_delays_no_other (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_sample_t *slow [6], *quick [4];
    raw_store_part (store, 1, 300, 300);
    for (uint32_t id = 0; id < 6; id++) {
        slow [id] = raw_store_hold (store, 0, id, 10);
        raw_store_request (store, id % 2, 0, &slow [id], 1);
    }
    for (uint32_t id = 0; id < 4; id++) {
        quick [id] = raw_store_hold (store, 1, id, 10);
        raw_store_request (store, id % 2, 1, &quick [id], 1);
    }
    raw_store_hold_back (store, 1);
    raw_store_hurry (store);                    //  a lane that is waited for, too
    for (uint32_t count = 0; count < 4; count++) {
        raw_request_t *request = raw_store_next (store);
        assert_true (request && request->source == 1);
        s_done (store, request);
    }
    assert_null (raw_store_next (store));
    assert_int_equal (raw_store_queued (store), 6);
    raw_store_hold_back (store, 2);
    uint32_t last [2] = { 0, 0 };
    for (uint32_t count = 0; count < 6; count++) {
        raw_request_t *request = raw_store_next (store);
        assert_true (request && request->source == 0);
        uint32_t id = request->samples [0]->id;
        assert_true (last [id % 2] <= id);
        last [id % 2] = id;
        s_done (store, request);
    }
    for (uint32_t id = 0; id < 6; id++)
        raw_store_drop (store, slow [id]);
    for (uint32_t id = 0; id < 4; id++)
        raw_store_drop (store, quick [id]);
    raw_store_destroy (&store);
}

//  Guards: a sample that is not held any more leaves its request, and the request's range shrinks; an empty
//  request is passed over.
static void
test_what_is_not_wanted_is_not_read (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_sample_t *samples [5], *others [2];
    s_ask (store, 20, 5, 10, samples);
    s_ask (store, 40, 2, 10, others);
    raw_store_drop (store, samples [0]);
    raw_store_drop (store, samples [2]);
    raw_store_drop (store, samples [4]);
    raw_store_check (store);
    raw_request_t *request = raw_store_next (store);
    assert_int_equal (request->first, 21);
    assert_int_equal (request->count, 3);
    assert_int_equal (request->sample_count, 2);
    raw_store_drop (store, others [0]);
    raw_store_drop (store, others [1]);
    assert_null (raw_store_next (store));
    assert_int_equal (raw_store_queued (store), 0);
    raw_store_drop (store, samples [1]);                //  while it is being read
    assert_non_null (raw_store_find (store, 0, 21));
    raw_store_check (store);
    s_done (store, request);
    assert_null (raw_store_find (store, 0, 21));
    raw_store_drop (store, samples [3]);
    raw_store_destroy (&store);
}

//  Guards: a read of several that fails becomes reads of single ones; a single one that fails, or does not
//  match twice, is bad.
static void
test_damage_costs_what_it_hits (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_sample_t *samples [3];
    s_ask (store, 5, 3, 10, samples);
    raw_request_t *request = raw_store_next (store);
    request->rc = -EIO;
    s_arrivals = 0;
    s_done (store, request);
    assert_int_equal (s_arrivals, 0);
    assert_int_equal (raw_store_queued (store), 3);
    for (uint32_t index = 0; index < 3; index++) {
        request = raw_store_next (store);
        assert_int_equal (request->count, 1);
        assert_int_equal (request->first, 5 + index);
        request->rc = index == 1? -EIO: 0;
        request->damaged = index == 2;
        s_done (store, request);
    }
    assert_int_equal (s_arrivals, 2);
    request = raw_store_next (store);                   //  once more, from the disk
    assert_true (request->first == 7 && request->is_afresh);
    request->damaged = 1;
    s_done (store, request);
    assert_int_equal (s_arrivals, 3);
    assert_int_equal (samples [0]->state, RAW_SAMPLE_READY);
    assert_int_equal (samples [1]->rc, -EIO);
    assert_int_equal (samples [2]->rc, -EBADMSG);
    assert_null (samples [1]->memory);
    for (int index = 0; index < 3; index++)
        raw_store_drop (store, samples [index]);
    raw_store_destroy (&store);
}

//  Guards: a read at rest has no memory and does not block other reads.  Back in line it is the first,
//  without samples that are not wanted any more.
static void
test_reads_at_rest (void **state)
{
    (void) state;
    raw_store_t *store = s_store (30);
    raw_sample_t *samples [3], *others [3];
    s_ask (store, 5, 3, 10, samples);
    s_ask (store, 20, 3, 10, others);
    raw_request_t *request = raw_store_next (store), *other;
    raw_store_rest (store, request);
    assert_int_equal (raw_store_bytes (store), 0);
    raw_store_check (store);
    raw_store_drop (store, samples [0]);
    other = raw_store_next (store);
    assert_int_equal (other->first, 20);
    assert_true (raw_store_retry (store, request));
    raw_store_check (store);
    s_done (store, other);
    for (int index = 0; index < 3; index++)
        raw_store_drop (store, others [index]);
    request = raw_store_next (store);
    assert_int_equal (request->first, 6);
    assert_int_equal (request->sample_count, 2);
    raw_store_rest (store, request);
    raw_store_drop (store, samples [1]);
    raw_store_drop (store, samples [2]);
    assert_false (raw_store_retry (store, request));
    assert_int_equal (raw_store_samples (store), 0);
    raw_store_check (store);
    raw_store_destroy (&store);
}

enum { IDS = 400, SOURCES = 2, IN_FLIGHT = 6 };

typedef struct {
    uint32_t holds [SOURCES] [IDS];
    raw_request_t *requests [IN_FLIGHT];
    size_t count;
} model_t;

//  A few ids from one on: new ones are asked for in one request, others held once more.
static void
s_hold_some (raw_store_t *store, model_t *model, uint64_t *random)
{
    uint32_t source = (uint32_t) test_below (random, SOURCES), id = (uint32_t) test_below (random, IDS - 8);
    raw_sample_t *samples [8];
    uint32_t count = 0, wanted = 1 + (uint32_t) test_below (random, 8);
    for (uint32_t index = 0; index < wanted; index++) {
        raw_sample_t *sample = raw_store_hold (store, source, id + index, 1 + (id + index) % 50);
        model->holds [source] [id + index]++;
        assert_int_equal (sample->id, id + index);
        if (sample->state != RAW_SAMPLE_AWAITED || sample->request)
            continue;
        samples [count++] = sample;
    }
    if (count > 0)
        raw_store_request (store, 0, source, samples, count);
}

static void
s_drop_one (raw_store_t *store, model_t *model, uint64_t *random)
{
    uint32_t source = (uint32_t) test_below (random, SOURCES), id = (uint32_t) test_below (random, IDS);
    for (uint32_t tries = 0; tries < IDS && !model->holds [source] [id]; tries++)
        id = (id + 1) % IDS;
    if (!model->holds [source] [id])
        return;
    model->holds [source] [id]--;
    raw_store_drop (store, raw_store_find (store, source, id));
}

static void
s_finish_one (raw_store_t *store, model_t *model, uint64_t *random)
{
    size_t index = test_below (random, model->count);
    raw_request_t *request = model->requests [index];
    for (uint32_t sample = 0; sample < request->sample_count; sample++)
        memset (request->samples [sample]->memory, 7, request->samples [sample]->bytes);
    if (test_below (random, 5) == 0)
        request->rc = -EIO;
    request->damaged = test_below (random, 4)? 0: test_below (random, 256);
    s_done (store, request);
    model->requests [index] = model->requests [--model->count];
}

//  Property: holds are the model's, in any order of holding, dropping, reading and failing; memory stays
//  within the budget; in the end all is free.  Replay: TEST_SEED.
static void
test_random_use_keeps_the_invariants (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (40); seed < last; seed++) {
        uint64_t random = seed;
        raw_store_t *store = s_store (500 + test_below (&random, 2000));
        static model_t model;
        memset (&model, 0, sizeof model);
        for (int step = 0; step < 1500; step++) {
            uint64_t choice = test_below (&random, 6);
            if (choice == 0)
                s_hold_some (store, &model, &random);
            else
            if (choice < 4)
                s_drop_one (store, &model, &random);
            else
            if (choice == 4 && model.count < IN_FLIGHT) {
                raw_request_t *request = raw_store_next (store);
                if (request)
                    model.requests [model.count++] = request;
            }
            else
            if (model.count > 0)
                s_finish_one (store, &model, &random);
            raw_store_check (store);
        }
        for (uint32_t source = 0; source < SOURCES; source++)
            for (uint32_t id = 0; id < IDS; id++) {
                const raw_sample_t *sample = raw_store_find (store, source, id);
                assert_int_equal (sample? sample->holds: 0, model.holds [source] [id]);
                while (model.holds [source] [id]-- > 0)
                    raw_store_drop (store, raw_store_find (store, source, id));
            }
        while (model.count > 0)
            s_finish_one (store, &model, &random);
        assert_int_equal (raw_store_samples (store), 0);
        assert_int_equal (raw_store_bytes (store), 0);
        raw_store_destroy (&store);
    }
}

//  Must hold: a tenant that has asked for much in one lane does not block another: the other's part is kept
//  for it.  A sample that stands far behind in the first lane, and that the other tenant wants too, comes by
//  the other's lane.
static void
test_lanes_do_not_block_each_other (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_store_part (store, 1, 500, 500);
    raw_store_part (store, 2, 500, 500);
    raw_sample_t *greedy [20], *modest;
    raw_request_t *requests [20];
    for (uint32_t id = 0; id < 20; id++) {
        greedy [id] = raw_store_hold (store, 0, id, 100);
        raw_store_request (store, 1, 0, &greedy [id], 1);
    }
    size_t taken = 0;
    while (taken < 20 && (requests [taken] = raw_store_next (store)))
        taken++;
    assert_int_equal (taken, 5);
    for (size_t index = 0; index < taken; index++)
        s_done (store, requests [index]);
    assert_null (raw_store_next (store));
    modest = raw_store_hold (store, 0, 30, 100);
    raw_store_request (store, 2, 0, &modest, 1);
    raw_store_also (store, 2, greedy [19]);
    raw_store_check (store);
    for (uint32_t id = 30; id >= 19; id -= 11) {
        raw_request_t *request = raw_store_next (store);
        assert_true (request && request->sample_count == 1 && request->samples [0]->id == id);
        s_done (store, request);
    }
    assert_null (raw_store_next (store));
    raw_store_count (store, greedy [0], 2);                 //  so the first lane has room again
    raw_request_t *request = raw_store_next (store);
    assert_true (request && request->samples [0]->id == 5);
    s_done (store, request);
    raw_store_hurry (store);
    assert_non_null (request = raw_store_next (store));     //  from what is kept for the other: nothing else
                                                            //  goes on
    s_done (store, request);
    assert_null (raw_store_next (store));
    for (uint32_t id = 0; id < 20; id++)
        raw_store_drop (store, greedy [id]);
    raw_store_drop (store, modest);
    raw_store_check (store);
    raw_store_destroy (&store);
}

//  A new sample, of 100 bytes, asked for alone in a lane.
static raw_sample_t *
s_ask_alone (raw_store_t *store, uint32_t lane, uint32_t id)
{
    raw_sample_t *sample = raw_store_hold (store, 0, id, 100);
    raw_store_request (store, lane, 0, &sample, 1);
    return sample;
}

//  The next request brings so many samples from this id on; it is carried out.
static void
s_expect_next (raw_store_t *store, uint32_t first, uint32_t count)
{
    raw_request_t *request = raw_store_next (store);
    assert_non_null (request);
    assert_int_equal (request->first, first);
    assert_int_equal (request->sample_count, count);
    s_done (store, request);
}

//  Must hold: what a tenant wants of a piece that stands behind others is read with all that the piece
//  brings, if there is memory beside what is kept for lanes; else by itself, in the lane's part; and with
//  most of its part in use it waits for the piece.
static void
test_pieces_are_read_together_if_they_fit (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_store_part (store, 1, 300, 200);
    raw_store_part (store, 2, 300, 300);
    raw_sample_t *large [8], *small [3], *piece [5], *other = raw_store_hold (store, 0, 90, 10);
    raw_store_request (store, 3, 0, &other, 1);
    s_expect_next (store, 90, 1);                           //  so that memory is in use
    s_ask (store, 0, 8, 100, large);                        //  never fits beside 600 that are kept
    s_ask (store, 20, 3, 100, small);
    s_ask (store, 40, 5, 100, piece);
    raw_store_also (store, 1, small [1]);
    raw_store_also (store, 1, small [1]);
    assert_int_equal (raw_store_queued (store), 4);         //  once is enough
    s_expect_next (store, 20, 3);
    for (uint32_t index = 0; index < 3; index++)
        raw_store_also (store, 1, piece [1 + index]);
    s_expect_next (store, 41, 1);
    s_expect_next (store, 42, 1);
    assert_null (raw_store_next (store));                   //  a third one by itself would be above 200
    assert_int_equal (piece [3]->state, RAW_SAMPLE_AWAITED);
    for (uint32_t index = 0; index < 3; index++)
        raw_store_drop (store, small [index]);
    s_expect_next (store, 40, 3);                           //  the rest fits now
    assert_null (raw_store_next (store));
    for (uint32_t index = 0; index < 8; index++)
        raw_store_drop (store, large [index]);
    for (uint32_t index = 0; index < 5; index++)
        raw_store_drop (store, piece [index]);
    raw_store_drop (store, other);
    assert_null (raw_store_next (store));
    assert_int_equal (raw_store_queued (store), 0);         //  nothing stays in line for ever
    raw_store_check (store);
    raw_store_destroy (&store);
}

//  Must hold: samples that lane 0 brings for a tenant count on it: lane 0 does not take for it what is kept
//  for others.
static void
test_lane_0_takes_nothing_that_is_kept (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_store_part (store, 1, 400, 400);
    raw_store_part (store, 2, 400, 400);
    raw_sample_t *samples [10];
    for (uint32_t id = 0; id < 10; id++) {
        samples [id] = s_ask_alone (store, 0, id);
        raw_store_count (store, samples [id], 1);
    }
    for (uint32_t id = 0; id < 6; id++)                     //  400 of its own, 200 kept for no lane
        s_expect_next (store, id, 1);
    assert_null (raw_store_next (store));
    raw_sample_t *modest = s_ask_alone (store, 2, 30);
    s_expect_next (store, 30, 1);
    raw_store_drop (store, modest);
    for (uint32_t id = 0; id < 10; id++)
        raw_store_drop (store, samples [id]);
    assert_null (raw_store_next (store));
    raw_store_destroy (&store);
}

//  Must hold: what another lane has taken out of the middle of one keeps its place there, should it have to
//  be read again; what has no place is first.
static void
test_what_is_read_again_keeps_its_place (void **state)
{
    (void) state;
    raw_store_t *store = s_store (1000);
    raw_store_part (store, 1, 100, 100);
    raw_store_part (store, 2, 100, 100);
    raw_sample_t *filling = s_ask_alone (store, 3, 90), *samples [5];
    raw_store_count (store, filling, 1);
    s_expect_next (store, 90, 1);
    samples [4] = raw_store_hold (store, 0, 4, 850);        //  so that there is no memory for others
    raw_store_request (store, 3, 0, &samples [4], 1);
    raw_request_t *large = raw_store_next (store);
    assert_true (large && large->first == 4);
    for (uint32_t id = 0; id < 4; id++)
        samples [id] = s_ask_alone (store, 1, id);
    raw_store_also (store, 2, samples [2]);
    assert_null (raw_store_next (store));
    raw_store_drop (store, filling);
    raw_store_drop (store, samples [4]);
    s_done (store, large);
    s_expect_next (store, 0, 1);
    s_expect_next (store, 2, 1);                            //  by lane 2
    raw_store_count (store, samples [2], 1);
    raw_store_again (store, samples [2]);
    raw_store_check (store);
    for (uint32_t id = 1; id < 4; id++)                     //  in the order in which they were asked for
        s_expect_next (store, id, 1);
    raw_sample_t *last = s_ask_alone (store, 1, 50);
    raw_store_again (store, samples [2]);
    s_expect_next (store, 2, 1);
    s_expect_next (store, 50, 1);
    raw_store_drop (store, last);
    for (uint32_t id = 0; id < 4; id++)
        raw_store_drop (store, samples [id]);
    raw_store_check (store);
    raw_store_destroy (&store);
}

enum { LANES = 5 };

//  One thing that users or the reader do, in a lane.
static void
s_step_in_lanes (raw_store_t *store, model_t *model, uint64_t *random)
{
    uint32_t source = (uint32_t) test_below (random, SOURCES),
        id = (uint32_t) test_below (random, IDS);
    uint32_t lane = (uint32_t) test_below (random, LANES);
    raw_sample_t *sample = raw_store_find (store, source, id);
    uint64_t choice = test_below (random, 8);
    if (choice == 0)
        s_hold_some (store, model, random);
    else
    if (choice == 1 && !sample) {
        sample = raw_store_hold (store, source, id, 1 + id % 50);
        model->holds [source] [id]++;
        raw_store_request (store, lane, source, &sample, 1);
    }
    else
    if (choice <= 3 && sample && sample->holds > 0 && sample->state == RAW_SAMPLE_AWAITED)
        raw_store_also (store, lane, sample);
    else
    if (choice == 4 && sample && sample->holds > 0 && sample->state != RAW_SAMPLE_BAD) {
        raw_store_count (store, sample, lane);
        if (sample->state == RAW_SAMPLE_READY && !raw_store_has_room (store, sample))
            raw_store_again (store, sample);
    }
    else
    if (choice == 5)
        s_drop_one (store, model, random);
    else
    if (choice == 6 && model->count < IN_FLIGHT) {
        raw_request_t *request = raw_store_next (store);
        for (uint32_t index = 0; request && index < request->sample_count; index++)
            assert_non_null (request->samples [index]->memory);
        if (request)
            model->requests [model->count++] = request;
    }
    else
    if (model->count > 0)
        s_finish_one (store, model, random);
    raw_store_check (store);
}

//  Until nothing more comes; what has come is dropped, as if it were prepared.
static void
s_come_to_an_end (raw_store_t *store, model_t *model, uint64_t *random)
{
    for (;;) {
        for (uint32_t source = 0; source < SOURCES; source++)
            for (uint32_t id = 0; id < IDS; id++)
                while (model->holds [source] [id] > 0
                &&  raw_store_find (store, source, id)->state != RAW_SAMPLE_AWAITED) {
                    model->holds [source] [id]--;
                    raw_store_drop (store, raw_store_find (store, source, id));
                }
        raw_request_t *request = raw_store_next (store);
        if (!request && model->count == 0) {
            raw_store_hurry (store);
            request = raw_store_next (store);
        }
        if (!request && model->count == 0)
            break;
        if (request)
            s_done (store, request);
        else
            s_finish_one (store, model, random);
    }
}

//  Property: whatever is asked for in any lane, counted elsewhere, dropped, failed or read again, the
//  invariants hold, no read is handed out without memory, and at last all that is held is read.  Replay:
//  TEST_SEED.
static void
test_random_lanes_come_to_an_end (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (60); seed < last; seed++) {
        uint64_t random = seed;
        size_t budget = 300 + test_below (&random, 2000);
        raw_store_t *store = s_store (budget);
        static model_t model;
        memset (&model, 0, sizeof model);
        for (uint32_t lane = 1; lane < LANES; lane++) {
            size_t part = test_below (&random, budget / LANES);
            raw_store_part (store, lane, part, test_below (&random, part + 1));
        }
        for (int step = 0; step < 1500; step++)
            s_step_in_lanes (store, &model, &random);
        s_come_to_an_end (store, &model, &random);
        if (raw_store_samples (store) > 0)
            fail_msg ("seed %llu: %zu samples never come", (unsigned long long) seed,
                raw_store_samples (store));
        assert_int_equal (raw_store_queued (store), 0);
        raw_store_destroy (&store);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_requests_wait_in_line_for_memory),
        cmocka_unit_test (test_a_source_is_forgotten),
        cmocka_unit_test (test_a_source_that_is_held_back_delays_no_other),
        cmocka_unit_test (test_what_is_not_wanted_is_not_read),
        cmocka_unit_test (test_damage_costs_what_it_hits),
        cmocka_unit_test (test_reads_at_rest),
        cmocka_unit_test (test_lanes_do_not_block_each_other),
        cmocka_unit_test (test_pieces_are_read_together_if_they_fit),
        cmocka_unit_test (test_lane_0_takes_nothing_that_is_kept),
        cmocka_unit_test (test_what_is_read_again_keeps_its_place),
        cmocka_unit_test (test_random_lanes_come_to_an_end),
        cmocka_unit_test (test_random_use_keeps_the_invariants)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
