//  Files that are read ahead to the local disk: each once, while there is room, beside the jobs' own reads,
//  and none when it would be of no use; and orders are those without.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "seed.h"
#include "simulation.h"

enum { SAMPLES = 600, DEPTH = 40, FETCH_US = 55000, SECOND_US = 1000000, BATCH = 4, SLOTS = 3 };

//  What fails when.
typedef struct {
    int64_t from_us, until_us;
    bool is_aside;                  //  the local disk does not answer, rather than the source
} outage_t;

static bool
s_lasts (const outage_t *outage, int64_t now_us)
{
    return now_us >= outage->from_us && now_us < outage->until_us;
}

static int
s_rc (void *context, uint32_t id, int64_t now_us)
{
    const outage_t *outage = context;
    (void) id;
    return !outage->is_aside && s_lasts (outage, now_us)? -EIO: 0;
}

static bool
s_is_aside (void *context, int64_t now_us)
{
    const outage_t *outage = context;
    return outage->is_aside && s_lasts (outage, now_us);
}

static simulation_options_t
s_options (size_t depth, size_t room)
{
    return (simulation_options_t) { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 2 * SLOTS
        * BATCH + 20, .workers = 2, .policy = SAMPLER_POLICY_FOLLOW, .check = true, .fetch_us = FETCH_US,
        .ahead_depth = depth, .kept_max = room };
}

static simulated_job_t
s_job (uint64_t epochs)
{
    return (simulated_job_t) { .batch_size = BATCH, .slots = SLOTS, .epochs = epochs, .sample_us = 100,
        .to = SAMPLES };
}

static uint64_t
s_source_reads (const simulation_t *simulation)
{
    uint64_t reads = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        reads += simulation_ahead (simulation)->reads [id];
    return reads;
}

static uint64_t
s_kept (const simulation_t *simulation)
{
    return roaring_bitmap_get_cardinality (simulation_ahead (simulation)->kept);
}

static void
s_assert_each_once (const simulation_t *simulation)
{
    for (uint32_t id = 0; id < SAMPLES; id++)
        assert_int_equal (simulation_ahead (simulation)->reads [id], 1);
}

//  Guards: with a window far below the depth an epoch takes as long as the depth allows; every sample is read
//  once; and at no moment is more under way than the depth.
static void
test_a_short_window_fills_the_depth (void **state)
{
    (void) state;
    int64_t took_us [2];
    for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
        outage_t never = { .until_us = is_ahead? 0: INT64_MAX, .is_aside = true };
        simulation_options_t options = s_options (DEPTH, SAMPLES);
        options.is_aside = s_is_aside;
        options.context = &never;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (3);
        int client = simulation_must_join (simulation, &job);
        while (simulation_epochs (simulation, client) == 0
            || !simulation_epoch (simulation, client, 0)->ended)
            simulation_run (simulation, simulation_now_us (simulation) + 1000);
        took_us [is_ahead] = simulation_now_us (simulation);
        while (!simulation_finished (simulation, client))
            simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
        s_assert_each_once (simulation);
        simulation_assert_epochs (simulation, client, &job);
        const simulated_ahead_t *ahead = simulation_ahead (simulation);
        assert_int_equal (ahead->ahead > 0, is_ahead);
        if (is_ahead)
            assert_in_range (ahead->reading_most, DEPTH - SLOTS * BATCH - 1, DEPTH);
        simulation_destroy (&simulation);
    }
    //  A window of 12 of 40.
    assert_true (took_us [1] * 2 < took_us [0]);
}

//  Guards: a job that pauses, as for validation, finds all of its epoch on the local disk afterwards; one
//  that never comes back has caused no more than its epoch.
static void
test_a_pause_is_used (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (1);
    job.to = SAMPLES / 2;
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, SECOND_US / 2);
    simulation_stop (simulation, client);
    assert_true (simulation_run (simulation, 60 * SECOND_US)
        || simulation_ahead (simulation)->under_way == 0);
    assert_int_equal (s_kept (simulation), SAMPLES / 2);
    assert_int_equal (s_source_reads (simulation), SAMPLES / 2);
    uint64_t before = s_source_reads (simulation);
    simulation_continue (simulation, client);
    simulation_run (simulation, 90 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    assert_int_equal (s_source_reads (simulation), before);
    for (uint32_t id = SAMPLES / 2; id < SAMPLES; id++)
        assert_int_equal (simulation_ahead (simulation)->reads [id], 0);
    simulation_destroy (&simulation);
}

static int64_t
s_slow_us (void *context, uint32_t id)
{
    (void) context; (void) id;
    return 100000;
}

//  Guards: while all workers have something to do, the jobs' own reads are enough: what is read ahead then
//  would be read from the local disk once more, and save no time.
static void
test_busy_workers_read_nothing_ahead (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    options.cost_us = s_slow_us;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (1);
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, 60 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    s_assert_each_once (simulation);
    assert_true (simulation_ahead (simulation)->ahead < SAMPLES / 10);
    simulation_destroy (&simulation);
}

//  Guards: when the last job leaves, nothing more is read.
static void
test_a_job_that_leaves_ends_it (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (1);
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, SECOND_US / 5);
    size_t under_way = simulation_ahead (simulation)->under_way;
    uint64_t before = s_source_reads (simulation);
    assert_true (under_way > SLOTS * BATCH && before < SAMPLES / 2);
    simulation_leave (simulation, client);
    simulation_run (simulation, 20 * SECOND_US);
    assert_int_equal (simulation_ahead (simulation)->under_way, 0);
    assert_true (s_source_reads (simulation) <= before + under_way);
    simulation_destroy (&simulation);
}

//  Guards: no more is read ahead than the local disk has room for.
static void
test_the_room_is_the_bound (void **state)
{
    (void) state;
    enum { ROOM = SAMPLES / 3, EPOCHS = 3 };
    simulation_options_t options = s_options (DEPTH, ROOM);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (EPOCHS);
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, 120 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    assert_int_equal (s_kept (simulation), ROOM);
    assert_true (simulation_ahead (simulation)->ahead > ROOM / 4);
    //  S, and S (1 - c) in each later epoch: what was read ahead was kept.
    assert_int_equal (s_source_reads (simulation), SAMPLES + (EPOCHS - 1) * (SAMPLES - ROOM));
    simulation_destroy (&simulation);
}

//  Guards: the order of a job, and what its epochs hold, are those without anything read ahead.
static void
test_orders_are_the_same (void **state)
{
    (void) state;
    const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_SEEDED };
    for (size_t order = 0; order < sizeof orders / sizeof *orders; order++) {
        simulation_t *simulations [2];
        for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
            simulation_options_t options = s_options (is_ahead? DEPTH: 0, SAMPLES);
            simulations [is_ahead] = simulation_new (&options);
            simulated_job_t job = s_job (3);
            job.order = orders [order];
            job.seed = orders [order] == SAMPLER_ORDER_SEEDED? 7: 0;
            assert_int_equal (simulation_must_join (simulations [is_ahead], &job), 0);
            simulation_run (simulations [is_ahead], 60 * SECOND_US);
            assert_true (simulation_finished (simulations [is_ahead], 0));
            assert_int_equal (simulation_epochs (simulations [is_ahead], 0), 3);
        }
        assert_true (simulation_ahead (simulations [1])->ahead > SAMPLES / 3);
        for (size_t epoch = 0; epoch < 3; epoch++)
            assert_memory_equal (simulation_epoch (simulations [0], 0, epoch)->ids,
                simulation_epoch (simulations [1], 0, epoch)->ids, SAMPLES * sizeof (uint32_t));
        simulation_destroy (&simulations [0]);
        simulation_destroy (&simulations [1]);
    }
}

//  Several jobs on parts of the data, which join while others read.
static void
s_join_later (uint64_t random)
{
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    options.seed = random;
    simulation_t *simulation = simulation_new (&options);
    for (int number = 0; number < 6; number++) {
        simulated_job_t job = s_job (2);
        job.from = (uint32_t) test_below (&random, SAMPLES / 2);
        job.to = job.from + 1 + (uint32_t) test_below (&random, SAMPLES / 2);
        job.sample_us = (int64_t) test_below (&random, 3000);
        job.batch_size = 1 + (uint32_t) test_below (&random, 6);
        job.order = number % 2? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_SHARED;
        simulation_must_join (simulation, &job);
        simulation_run (simulation, simulation_now_us (simulation)
            + (int64_t) test_below (&random, SECOND_US / 4));
    }
    simulation_run (simulation, 60 * SECOND_US);
    for (int client = 0; client < 6; client++)
        assert_true (simulation_finished (simulation, client));
    //  Versions of a sample that jobs want at the same time are read for each, as without.
    assert_true (simulation_ahead (simulation)->ahead > 0);
    assert_int_equal (s_source_reads (simulation), s_kept (simulation)
        + simulation_ahead (simulation)->jobs_twice);
    simulation_destroy (&simulation);
}

//  Guards: of several jobs none reads what is being read ahead, nor the other way round.
static void
test_jobs_that_join_later (void **state)
{
    (void) state;
    for (uint64_t round = 0; round < 12; round++)
        s_join_later (test_seed () + round);
}

//  Guards: what a job needs is read ahead also if it joined while another's data were, and began later.
static void
test_a_job_that_begins_later (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t jobs [] = { s_job (1), s_job (1) };
    jobs [0].to = SAMPLES / 2;
    jobs [1].from = SAMPLES / 2;
    jobs [1].detached = true;
    int clients [2];
    for (int index = 0; index < 2; index++)
        clients [index] = simulation_must_join (simulation, &jobs [index]);
    simulation_stop (simulation, clients [0]);
    simulation_run (simulation, 2 * SECOND_US);
    assert_int_equal (s_kept (simulation), SAMPLES / 2);
    simulation_attach (simulation, clients [1]);
    simulation_stop (simulation, clients [1]);
    simulation_run (simulation, 4 * SECOND_US);
    assert_int_equal (s_kept (simulation), SAMPLES);
    for (int index = 0; index < 2; index++)
        simulation_continue (simulation, clients [index]);
    simulation_run (simulation, 80 * SECOND_US);
    for (int index = 0; index < 2; index++)
        assert_true (simulation_finished (simulation, clients [index]));
    s_assert_each_once (simulation);
    simulation_destroy (&simulation);
}

//  Guards: what no job's data hold costs no looks: a job on a small part fills the depth in its first turn.
static void
test_a_small_part_fills_the_depth_at_once (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    options.samples = 100000;
    options.kept_max = options.samples;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (1);
    job.from = 70000;
    job.to = job.from + SAMPLES;
    int client = simulation_must_join (simulation, &job);
    simulation_run (simulation, 500);
    assert_in_range (simulation_ahead (simulation)->under_way, DEPTH - 2, DEPTH);
    simulation_run (simulation, 20 * SECOND_US);
    assert_true (simulation_finished (simulation, client));
    assert_int_equal (s_kept (simulation), SAMPLES);
    simulation_destroy (&simulation);
}

//  Guards: another data set's jobs that pause find places left free, too.
static void
test_other_data_sets_have_places (void **state)
{
    (void) state;
    simulation_options_t options = s_options (DEPTH, SAMPLES);
    options.cache_versions = 5000;
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_add_dataset (simulation, "other", false, true), 1);
    simulated_job_t jobs [] = { s_job (1), s_job (1) };
    jobs [0].dataset = "other";
    jobs [1].batch_size = jobs [1].slots = 1;
    int other = simulation_must_join (simulation, &jobs [0]);
    simulation_run (simulation, SECOND_US / 5);
    simulation_stop (simulation, other);
    simulation_run (simulation, SECOND_US);
    int client = simulation_must_join (simulation, &jobs [1]);
    simulation_run (simulation, simulation_now_us (simulation) + 500);
    //  It had at least so many under way: each data set has a part of the memory for that.
    assert_in_range (simulation_ahead (simulation)->under_way, DEPTH / 2, DEPTH - SLOTS * BATCH / 2);
    simulation_continue (simulation, other);
    simulation_run (simulation, 90 * SECOND_US);
    assert_true (simulation_finished (simulation, client) && simulation_finished (simulation, other));
    simulation_destroy (&simulation);
}

//  Guards: while the source fails, or the local disk does not answer, nothing more is read ahead; afterwards
//  it goes on, and no sample is bad.
static void
test_it_pauses (void **state)
{
    (void) state;
    for (int is_aside = 0; is_aside < 2; is_aside++) {
        outage_t outage = { .from_us = SECOND_US / 4, .until_us = 9 * SECOND_US, .is_aside = is_aside };
        simulation_options_t options = s_options (DEPTH, SAMPLES);
        options.unread_rc = s_rc;
        options.is_aside = s_is_aside;
        options.context = &outage;
        options.patience_ms = 60000;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (1);
        //  A slow one: at the outage's end most is left to do.
        job.sample_us = 30000;
        int client = simulation_must_join (simulation, &job);
        simulation_run (simulation, SECOND_US / 2);
        const simulated_ahead_t *ahead = simulation_ahead (simulation);
        assert_int_equal (ahead->reading, 0);
        uint64_t before = ahead->ahead;
        assert_in_range (before, 1, SAMPLES / 2);
        simulation_stop (simulation, client);
        simulation_run (simulation, 8 * SECOND_US);
        assert_int_equal (ahead->ahead, before);
        //  Those under way, then at most one after each pause.
        assert_in_range (ahead->ahead_failed, is_aside? 0: 1, is_aside? 0: DEPTH + 4);
        //  What failed is read then, though the job wants nothing.
        simulation_run (simulation, 60 * SECOND_US);
        assert_int_equal (s_kept (simulation), SAMPLES);
        simulation_continue (simulation, client);
        simulation_run (simulation, 120 * SECOND_US);
        assert_true (simulation_finished (simulation, client));
        simulation_assert_epochs (simulation, client, &job);
        assert_int_equal (simulation_figure (simulation, "bad_samples"), 0);
        assert_int_equal (ahead->ahead_failed == 0, is_aside);
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%" PRIu64 "\n", test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_short_window_fills_the_depth),
        cmocka_unit_test (test_a_pause_is_used),
        cmocka_unit_test (test_busy_workers_read_nothing_ahead),
        cmocka_unit_test (test_a_job_that_leaves_ends_it),
        cmocka_unit_test (test_the_room_is_the_bound),
        cmocka_unit_test (test_orders_are_the_same),
        cmocka_unit_test (test_jobs_that_join_later),
        cmocka_unit_test (test_a_job_that_begins_later),
        cmocka_unit_test (test_a_small_part_fills_the_depth_at_once),
        cmocka_unit_test (test_other_data_sets_have_places),
        cmocka_unit_test (test_it_pauses)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
