//  What was read for a job, by hand: which jobs a read counts for, in which epoch, and that bytes which are
//  used again count once.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>
#include "job.h"
#include "reads.h"

enum { JOBS = 2, ROWS = 3 };

typedef struct {
    job_t jobs [JOBS];
    batch_row_t rows [ROWS];
    version_t version;
} scene_t;

//  Two rows of the first job and one of the second wait for the version.
static int
s_begin (void **state)
{
    scene_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    for (size_t row = 0; row < ROWS; row++) {
        self->rows [row].job = &self->jobs [row == 1];
        self->rows [row].next_waiting = row + 1 < ROWS? &self->rows [row + 1]: NULL;
    }
    self->version.waiting = self->rows;
    *state = self;
    return 0;
}

static int
s_end (void **state)
{
    free (*state);
    return 0;
}

static double
s_told (const job_t *job, const char *key)
{
    json_t *status = reads_status (job), *value = json_object_get (status, key);
    assert_true (json_is_number (value));
    double number = json_number_value (value);
    json_decref (status);
    return number;
}

//  Guards: a read counts for each job that waits for it, once, and for no other.
static void
test_each_job_that_waits (void **state)
{
    scene_t *self = *state;
    reads_count (&self->version, &(reads_sum_t) { .bytes = 100, .pinned_bytes = 40, .saved_ns = 500000000 });
    for (size_t job = 0; job < JOBS; job++) {
        assert_int_equal ((int) s_told (&self->jobs [job], "bytes"), 100);
        assert_int_equal ((int) s_told (&self->jobs [job], "pinned_bytes"), 40);
        assert_int_equal ((int) (s_told (&self->jobs [job], "saved_seconds") * 10), 5);
    }
    self->version.waiting = &self->rows [2];
    reads_count (&self->version, &(reads_sum_t) { .bytes = 7 });
    assert_int_equal ((int) s_told (&self->jobs [0], "bytes"), 107);
    assert_int_equal ((int) s_told (&self->jobs [1], "bytes"), 100);
}

//  Guards: the epoch that is told is the one of the job's loop, though reads for the next one are counted
//  already; and what is left of an epoch before both counts in the whole alone.
static void
test_epochs (void **state)
{
    scene_t *self = *state;
    job_t *job = &self->jobs [0];
    self->version.waiting = &self->rows [2];
    for (uint64_t epoch = 0; epoch < 5; epoch++) {
        job->counts.consumed_epoch = epoch? epoch - 1: 0;
        self->rows [2].epoch = epoch;
        reads_count (&self->version, &(reads_sum_t) { .bytes = 10 + epoch, .pinned_bytes = epoch });
        uint64_t told = job->counts.consumed_epoch;
        assert_int_equal ((int) s_told (job, "epoch"), told);
        assert_int_equal ((int) s_told (job, "epoch_bytes"), 10 + told);
        assert_int_equal ((int) s_told (job, "epoch_pinned_bytes"), told);
    }
    self->rows [2].epoch = 1;
    reads_count (&self->version, &(reads_sum_t) { .bytes = 1000 });
    assert_int_equal ((int) s_told (job, "epoch_bytes"), 13);
    assert_int_equal ((int) s_told (job, "bytes"), 10 + 11 + 12 + 13 + 14 + 1000);
    //  Its loop is far behind: the newest epoch is told.
    job->counts.consumed_epoch = 0;
    assert_int_equal ((int) s_told (job, "epoch"), 4);
}

//  Guards: samples of a range share what pins gave by their bytes, each counts when a version takes it, and
//  once, until it is read again.
static void
test_a_range_of_a_pack (void **state)
{
    scene_t *self = *state;
    raw_sample_t samples [2] = { { .bytes = 100 }, { .bytes = 300 } };
    raw_request_t request = { .samples = { &samples [0], &samples [1] }, .sample_count = 2,
        .read_bytes = 200, .cached_bytes = 50, .peer_bytes = 50, .pinned_bytes = 100, .saved_ns = 800000000 };
    reads_divide (&request);
    self->version.raw = &samples [1];
    for (int turn = 0; turn < 3; turn++) {
        reads_count_raw (&self->version);
        assert_int_equal ((int) s_told (&self->jobs [0], "bytes"), turn < 2? 300: 600);
        assert_int_equal ((int) s_told (&self->jobs [0], "pinned_bytes"), turn < 2? 75: 150);
        assert_in_range ((int) (s_told (&self->jobs [0], "saved_seconds") * 1000), turn < 2? 599: 1199,
            turn < 2? 600: 1200);
        if (turn == 1)
            reads_divide (&request);
    }
    assert_true (samples [0].is_uncounted);
    //  One that the tests of the broker have, with nothing in it.
    raw_sample_t empty = { .bytes = 0 };
    reads_divide (&(raw_request_t) { .samples = { &empty }, .sample_count = 1 });
    self->version.raw = &empty;
    reads_count_raw (&self->version);
    assert_int_equal ((int) s_told (&self->jobs [0], "bytes"), 600);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_each_job_that_waits, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_epochs, s_begin, s_end),
        cmocka_unit_test_setup_teardown (test_a_range_of_a_pack, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
