/*  Guards: NoPFS's policies in store_sim: times that are known exactly, bytes that have to be fetched,
 *  streams that have each sample once, and room that is never exceeded.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bucket_nopfs.h"
#include "bucket_streams.h"
#include "seed.h"

enum { SAMPLES = 4000, WORKERS = 4, EPOCHS = 4 };

//  Data of 4,000 MB; a worker's memory and disk hold so much of it.
static bucket_nopfs_plan_t
s_plan (bucket_policy_t policy, double memory, double disk, double deviation)
{
    bucket_nopfs_plan_t plan = {
        .data = { "test", 1, deviation, SAMPLES, WORKERS, 32 }, .machine = bucket_nopfs_machine (),
        .policy = policy, .epochs = EPOCHS, .scale = 1
    };
    plan.machine.capacity [0] = 50;
    plan.machine.capacity [1] = memory * SAMPLES;
    plan.machine.capacity [2] = disk * SAMPLES;
    return plan;
}

static bucket_nopfs_result_t
s_run (bucket_policy_t policy, double memory, double disk, bool is_shared)
{
    bucket_nopfs_plan_t plan = s_plan (policy, memory, disk, 0);
    plan.machine.is_shared = is_shared;
    if (is_shared) {
        plan.machine.compute *= 10;
        plan.machine.preprocess *= 10;
    }
    return bucket_nopfs_run (&plan, test_seed ());
}

//  Perfect computes only; Naive also reads with one of four readers of 1,540 MB/s, and preprocesses with 200.
static void
test_times_that_are_known (void **state)
{
    (void) state;
    double each = (double) SAMPLES / WORKERS * EPOCHS;
    bucket_nopfs_result_t perfect = s_run (BUCKET_PERFECT, 1, 1, false);
    bucket_nopfs_result_t naive = s_run (BUCKET_NAIVE, 1, 1, false);
    assert_true (fabs (perfect.seconds - each / 64) < 1e-6);
    assert_true (fabs (naive.seconds - each * (1.0 / 64 + 4.0 / 1540 + 1.0 / 200)) < 1e-6);
    assert_true (fabs (naive.seconds / perfect.seconds - 1.486) < 1e-3);
    //  Where reading counts, the staging buffer has 385 MB/s of the file system, and eight threads that
    //  preprocess 2,000 each; the computing of the last sample follows.
    bucket_nopfs_result_t staging = s_run (BUCKET_STAGING, 1, 1, true);
    assert_true (fabs (staging.seconds - each * (4.0 / 1540 + 1.0 / 16000) - 1.0 / 640) < 1e-6);
}

//  Each source together gives what the staging buffers take; NoPFS also reads into its classes.
static void
test_bytes_that_are_fetched (void **state)
{
    (void) state;
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        bucket_nopfs_result_t perfect = s_run (BUCKET_PERFECT, 0.5, 0.5, is_shared);
        for (bucket_policy_t policy = BUCKET_NAIVE; policy < BUCKET_POLICIES; policy++) {
            bucket_nopfs_result_t result = s_run (policy, 0.5, 0.5, is_shared);
            double bytes = result.shared_bytes + result.peer_bytes + result.own_bytes;
            assert_true (result.is_possible);
            assert_true (result.seconds > perfect.seconds - 1e-6);
            assert_true (bytes > EPOCHS * SAMPLES - 1e-6);
            //  What is loaded before the begin is no more than the data once.
            assert_true (policy == BUCKET_FREQUENCY || bytes < (EPOCHS + 1) * SAMPLES + 1e-6);
            assert_true (fabs (result.seen - 1) < 1e-9);
        }
        //  All samples once.
        assert_true (fabs (s_run (BUCKET_LBANN_DYNAMIC, 0.5, 0, is_shared).shared_bytes - SAMPLES) < 1e-6);
        assert_true (fabs (s_run (BUCKET_LBANN_PRELOAD, 0.5, 0, is_shared).shared_bytes - SAMPLES) < 1e-6);
        assert_true (fabs (s_run (BUCKET_PARALLEL, 0.2, 0.2, is_shared).shared_bytes - SAMPLES) < 1e-6);
        //  All samples in each epoch.
        assert_true (fabs (s_run (BUCKET_STAGING, 1, 1, is_shared).shared_bytes - EPOCHS * SAMPLES) < 1e-6);
        assert_true (fabs (s_run (BUCKET_FREQUENCY, 0, 0, is_shared).shared_bytes - EPOCHS * SAMPLES) < 1e-6);
    }
}

//  Caches of c of the data at each of N workers leave at least 1 - cN of an epoch to the file system.
static void
test_ordered_deepio_reads_what_no_memory_holds (void **state)
{
    (void) state;
    bucket_nopfs_result_t result = s_run (BUCKET_DEEPIO_ORDERED, 0.1, 0, true);
    double expected = SAMPLES + (EPOCHS - 1) * 0.6 * SAMPLES;
    assert_true (fabs (result.shared_bytes - expected) < 1e-6);
    //  NoPFS reads less than without caches, and not less than what no memory can hold.
    result = s_run (BUCKET_FREQUENCY, 0.1, 0, true);
    assert_true (result.shared_bytes > expected - 1e-6);
    assert_true (result.shared_bytes < EPOCHS * SAMPLES);
}

static void
test_data_that_do_not_fit (void **state)
{
    (void) state;
    assert_false (s_run (BUCKET_LBANN_DYNAMIC, 0.2, 1, false).is_possible);
    assert_false (s_run (BUCKET_LBANN_PRELOAD, 0.2, 1, false).is_possible);
    //  Two of ten samples are in some worker's memory; a worker's part is a quarter, of which it has room
    //  for a fifth.
    bucket_nopfs_result_t deepio = s_run (BUCKET_DEEPIO_OPPORTUNISTIC, 0.05, 1, false);
    assert_true (fabs (deepio.seen - 0.2) < 1e-9);
    bucket_nopfs_result_t parallel = s_run (BUCKET_PARALLEL, 0.05, 0, false);
    assert_true (fabs (parallel.seen - 0.2) < 1e-9 && fabs (parallel.seen_by_worker - 0.05) < 1e-9);
}

static void
s_check_streams (const bucket_streams_t *streams, bucket_policy_t policy)
{
    for (uint32_t epoch = 0; epoch < streams->epochs; epoch++) {
        uint8_t tally [SAMPLES] = { 0 };
        for (uint32_t worker = 0; worker < streams->workers; worker++)
            for (uint32_t at = 0; at < streams->slice; at++) {
                uint32_t id = streams->streams [worker] [epoch * streams->slice + at];
                assert_true (id < SAMPLES);
                tally [id]++;
            }
        //  These two draw from a part of the data.
        for (uint32_t id = 0; id < SAMPLES; id++)
            if (policy != BUCKET_PARALLEL && policy != BUCKET_DEEPIO_OPPORTUNISTIC)
                assert_int_equal (tally [id], 1);
    }
}

static void
s_check_room (const bucket_streams_t *streams, const bucket_nopfs_plan_t *plan)
{
    for (uint32_t worker = 0; worker < streams->workers; worker++) {
        double held [BUCKET_NOPFS_CLASSES] = { 0 };
        for (uint32_t id = 0; id < SAMPLES; id++)
            held [bucket_streams_kept (streams, worker, id)] += streams->sizes [id];
        for (int class = 1; class < BUCKET_NOPFS_CLASSES; class++) {
            double room = plan->machine.capacity [class] - held [class];
            assert_true (room > -1e-6);
            assert_true (fabs (room - streams->room [worker] [class]) < 1e-6);
        }
    }
}

static void
test_streams_and_room (void **state)
{
    (void) state;
    for (bucket_policy_t policy = BUCKET_PERFECT; policy < BUCKET_POLICIES; policy++) {
        bucket_nopfs_plan_t plan = s_plan (policy, 0.15, 0.2, 0.9);
        bucket_streams_t *streams = bucket_streams_new (&plan, test_seed ());
        s_check_streams (streams, policy);
        s_check_room (streams, &plan);
        double sum = 0;
        for (uint32_t id = 0; id < SAMPLES; id++) {
            assert_true (streams->sizes [id] > 0);
            sum += streams->sizes [id];
        }
        assert_true (fabs (sum - SAMPLES) < 1e-6);
        bucket_streams_destroy (&streams);
        assert_null (streams);
    }
}

//  What NoPFS keeps in memory is used at least as often as what it keeps on disk, and that as what it
//  leaves out.
static void
test_frequent_samples_are_kept_nearest (void **state)
{
    (void) state;
    bucket_nopfs_plan_t plan = s_plan (BUCKET_FREQUENCY, 0.1, 0.2, 0);
    bucket_streams_t *streams = bucket_streams_new (&plan, test_seed ());
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        uint32_t uses [SAMPLES] = { 0 }, least [BUCKET_NOPFS_CLASSES] = { 0, EPOCHS, EPOCHS };
        uint32_t most [BUCKET_NOPFS_CLASSES] = { 0 };
        for (uint32_t at = 0; at < EPOCHS * streams->slice; at++)
            uses [streams->streams [worker] [at]]++;
        for (uint32_t id = 0; id < SAMPLES; id++) {
            uint8_t class = bucket_streams_kept (streams, worker, id);
            least [class] = uses [id] < least [class]? uses [id]: least [class];
            most [class] = uses [id] > most [class]? uses [id]: most [class];
        }
        assert_true (least [1] >= most [2] && least [2] >= most [BUCKET_STREAMS_UNKEPT]);
        assert_true (least [2] > 0);
    }
    bucket_streams_destroy (&streams);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_times_that_are_known),
        cmocka_unit_test (test_bytes_that_are_fetched),
        cmocka_unit_test (test_ordered_deepio_reads_what_no_memory_holds),
        cmocka_unit_test (test_data_that_do_not_fit),
        cmocka_unit_test (test_streams_and_room),
        cmocka_unit_test (test_frequent_samples_are_kept_nearest)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
