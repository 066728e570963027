//  The broker under made-up clients, workers and time: what the contract promises, event by event.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "budget.h"
#include "effort.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"
#include "version.h"

enum { SECOND_US = 1000000 };

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW;

#define UNDER_BOTH_POLICIES(test) \
    { #test " (dsa)", test, NULL, NULL, &s_dsa }, { #test " (follow)", test, NULL, NULL, &s_follow }

static sampler_policy_t
s_policy (void **state)
{
    return *(const sampler_policy_t *) *state;
}

static bool
s_all_finished (const simulation_t *simulation, int clients)
{
    for (int client = 0; client < clients; client++)
        if (!simulation_finished (simulation, client))
            return false;
    return true;
}

//  Guards: a job alone gets each epoch as a permutation, the last batch short, and two epochs differ.
static void
test_one_job_gets_permutations (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 103,
        .cache_versions = 8, .workers = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 50 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    assert_int_equal (simulation_epochs (simulation, 0), 3);
    for (size_t epoch = 0; epoch < 3; epoch++) {
        simulation_assert_permutation (simulation_epoch (simulation, 0, epoch), 0, 103);
        assert_int_equal (simulation_epoch (simulation, 0, epoch)->batches, 11);
    }
    assert_memory_not_equal (simulation_epoch (simulation, 0, 0)->ids, simulation_epoch (simulation, 0,
        1)->ids,
        103 * sizeof (uint32_t));
    assert_int_equal (simulation_prepared (simulation), 309);       //  random versions are used once
    simulation_destroy (&simulation);
}

//  Guards: drop_last delivers whole batches only, nothing twice.
static void
test_drop_last_leaves_the_rest_out (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 103,
        .cache_versions = 8, .workers = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 3, .epochs = 4, .drop_last = true };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    for (size_t epoch = 0; epoch < 4; epoch++) {
        assert_true (simulation_epoch (simulation, 0, epoch)->ended);
        assert_int_equal (simulation_epoch (simulation, 0, epoch)->count, 100);
        assert_int_equal (simulation_epoch (simulation, 0, epoch)->batches, 10);
    }
    simulation_destroy (&simulation);
}

//  Guards: a list comes in its order, repeats included; without a list, ascending.
static void
test_lists_keep_their_order (void **state)
{
    static const uint32_t list [] = { 5, 3, 3, 99, 0, 5, 7 };
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 100,
        .cache_versions = 8, .workers = 3, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t given = { .batch_size = 2, .slots = 3, .epochs = 2, .order = SAMPLER_ORDER_LIST,
        .list = list,
        .list_count = 7 };
    simulated_job_t ascending = { .batch_size = 16, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST };
    simulation_join (simulation, &given);
    simulation_join (simulation, &ascending);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    for (size_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal (simulation_epoch (simulation, 0, epoch)->count, 7);
        assert_memory_equal (simulation_epoch (simulation, 0, epoch)->ids, list, sizeof list);
    }
    for (uint32_t index = 0; index < 100; index++)
        assert_int_equal (simulation_epoch (simulation, 1, 0)->ids [index], index);
    simulation_destroy (&simulation);
}

//  Must hold: two equal jobs, half a batch out of phase, cache for 2 % of the samples: at most 0.52 prepared
//  per delivered.
static void
test_equal_jobs_out_of_phase_share (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + 5; seed < last; seed++) {
        simulation_options_t options = { .policy = s_policy (state), .seed = seed, .samples = 4000,
            .cache_versions = 80, .workers = 2, .gather_ms = BROKER_GATHER_MS };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 64, .slots = 4, .epochs = 3, .sample_us = 400 };
        simulation_join (simulation, &job);
        simulation_run (simulation, 50000);             //  the other process takes a moment longer to start
        job.first_us = 32 * job.sample_us;
        simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        assert_true (s_all_finished (simulation, 2));
        assert_int_equal (simulation_delivered (simulation), 24000);
        double ratio = (double) simulation_prepared (simulation) / (double) simulation_delivered (simulation);
        if (ratio > 0.52)
            fail_msg ("seed %llu: %.4f prepared per delivered", (unsigned long long) seed, ratio);
        simulation_destroy (&simulation);
    }
}

//  Must hold: with a deterministic shared stage and a cache that holds the data, the second epoch prepares
//  nothing, nor does another job that comes when the first has left.
static void
test_deterministic_versions_are_used_again (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 200,
        .cache_versions = 210, .workers = 2,
        .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]", .batch_size = 16,
        .slots = 4,
        .epochs = 2, .order = SAMPLER_ORDER_LIST };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_int_equal (simulation_prepared (simulation), 200);
    simulation_gone (simulation, 0);
    job.order = SAMPLER_ORDER_SHARED;
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 1));
    assert_int_equal (simulation_prepared (simulation), 200);
    simulation_destroy (&simulation);
}

//  Must hold: a client that stops holds back its own ring only.
static void
test_a_stopped_client_slows_no_other (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 500,
        .cache_versions = 20, .workers = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 4, .sample_us = 200 };
    for (int client = 0; client < 3; client++)
        simulation_join (simulation, &job);
    simulation_run (simulation, SECOND_US / 20);
    simulation_stop (simulation, 1);
    simulation_run (simulation, 60 * SECOND_US);
    assert_true (simulation_finished (simulation, 0));
    assert_true (simulation_finished (simulation, 2));
    assert_false (simulation_finished (simulation, 1));
    simulation_continue (simulation, 1);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    assert_true (simulation_finished (simulation, 1));
    for (int client = 0; client < 3; client++)
        for (size_t epoch = 0; epoch < 4; epoch++)
            simulation_assert_permutation (simulation_epoch (simulation, client, epoch), 0, 500);
    simulation_destroy (&simulation);
}

static int64_t
s_five_milliseconds (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return 5000;
}

//  Guards: a joiner with a large window does not stand before all others: a job that needs a third of the
//  workers goes on at nine tenths of its pace at least.
static void
test_a_large_window_delays_no_other_job (void **state)
{
    (void) state;
    size_t seen [2];
    for (int crowded = 0; crowded < 2; crowded++) {
        simulation_options_t options = { .seed = test_seed (), .samples = 20000, .cache_versions = 200,
            .workers = 8,
            .cost_us = s_five_milliseconds };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 64, .slots = 4, .epochs = 1, .sample_us = 2000,
            .order = SAMPLER_ORDER_PRIVATE };
        simulation_join (simulation, &job);
        simulation_run (simulation, SECOND_US);
        simulated_job_t wide = { .batch_size = 512, .slots = 16, .order = SAMPLER_ORDER_PRIVATE,
            .sample_us = 100 };
        if (crowded)
            simulation_join (simulation, &wide);
        simulation_run (simulation, 8 * SECOND_US);
        seen [crowded] = simulation_epoch (simulation, 0, 0)->count;
        simulation_destroy (&simulation);
    }
    if (seen [1] * 10 < seen [0] * 9)
        fail_msg ("%zu samples alone, %zu beside a large window", seen [0], seen [1]);
}

//  Guards: a class with large versions takes room from the index only while it is there.
static void
test_a_large_class_gives_its_room_back (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = 100, .cache_versions = 130,
        .workers = 2 };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t small = { .pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]", .batch_size = 10,
        .slots = 3,
        .sample_us = 100 };
    simulation_join (simulation, &small);
    simulation_run (simulation, SECOND_US);
    assert_int_equal (simulation_prepared (simulation), 100);
    simulated_job_t large = { .pipeline =
        "[{\"op\":\"random_resized_crop\",\"size\":[40,40]},{\"share\":true}]",
        .batch_size = 10, .slots = 3 };
    int visitor = simulation_join (simulation, &large);
    simulation_run (simulation, SECOND_US + SECOND_US / 100);
    simulation_gone (simulation, visitor);
    simulation_run (simulation, 3 * SECOND_US);
    uint64_t settled = simulation_prepared (simulation);
    simulation_run (simulation, 5 * SECOND_US);
    assert_int_equal (simulation_prepared (simulation), settled);
    simulation_destroy (&simulation);
}

//  Guards: the smallest cache works, memory never exceeds the budget, one byte less is refused with the
//  figure.
static void
test_the_least_budget_works (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 300,
        .cache_versions = 5, .workers = 4, .check = true };
    size_t least = budget_cache_least (4, 3);
    assert_int_equal (least, 5 * budget_version_cost (3));
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 7, .slots = 3, .epochs = 2, .sample_us = 20 };
    for (int client = 0; client < 4; client++)
        simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (s_all_finished (simulation, 4));
    assert_in_range (simulation_memory_peak (simulation), 3, least);
    job.pipeline = "[{\"op\":\"center_crop\",\"size\":[10,10]}]";
    assert_int_equal (simulation_join (simulation, &job), -1);
    assert_string_equal (simulation_refusal (simulation)->code, "budget");
    char remedy [40];
    snprintf (remedy, sizeof remedy, "--cache %zu ", budget_cache_least (4, 300));
    assert_non_null (strstr (simulation_refusal (simulation)->message, remedy));
    simulation_destroy (&simulation);
}

//  ---- unreadable samples

static bool
s_every_seventh_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 7 != 3;
}

//  Guards: unreadable samples are dropped and counted, everything else comes once an epoch, whole batches
//  first.
static void
test_unreadable_samples_are_left_out (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + 20; seed < last; seed++) {
        simulation_options_t options = { .policy = s_policy (state), .seed = seed, .samples = 150,
            .cache_versions = 12, .workers = 3, .check = true, .readable = s_every_seventh_is_bad };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 8, .slots = 4, .epochs = 3, .sample_us = 30 };
        simulation_join (simulation, &job);
        job.order = SAMPLER_ORDER_LIST;
        simulation_join (simulation, &job);
        job.order = SAMPLER_ORDER_PRIVATE;
        job.drop_last = true;
        simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_true (s_all_finished (simulation, 3));
        for (size_t epoch = 0; epoch < 3; epoch++) {
            assert_int_equal (simulation_epoch (simulation, 0, epoch)->count, 150 - 21);
            assert_int_equal (simulation_epoch (simulation, 1, epoch)->count, 150 - 21);
            assert_int_equal (simulation_epoch (simulation, 2, epoch)->count % 8, 0);
            for (size_t index = 1; index < 129; index++)
                assert_true (simulation_epoch (simulation, 1, epoch)->ids [index - 1]
                    < simulation_epoch (simulation, 1, epoch)->ids [index]);
        }
        assert_int_equal (simulation_epoch (simulation, 2, 2)->count, 128);
        simulation_destroy (&simulation);
    }
}

static bool
s_as_context_says (void *context, uint32_t id)
{
    (void) id;
    return *(bool *) context;
}

static bool
s_three_are_bad (void *context, uint32_t id)
{
    (void) context;
    return id != 2 && id != 7 && id != 11;
}

//  Guards: with drop_last only the last drawn are left out: a hole in an earlier batch is filled from the
//  last one; a list keeps its order, and sends what it has.
static void
test_drop_last_fills_holes_from_the_end (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + 50; seed < last; seed++) {
        simulation_options_t options = { .policy = s_policy (state), .seed = seed, .samples = 16,
            .cache_versions = 12, .workers = 3, .check = true, .readable = s_three_are_bad };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 4, .slots = 7, .epochs = 3, .drop_last = true };
        simulation_join (simulation, &job);
        job.order = SAMPLER_ORDER_LIST;
        simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_int_equal (simulation_epoch (simulation, 0, 2)->count, 12);
        assert_in_range (simulation_epoch (simulation, 0, 0)->count, 8, 12);
        assert_in_range (simulation_epoch (simulation, 1, 0)->count, 12, 13);
        simulation_destroy (&simulation);
    }
}

//  Guards: a job that was sent its last epoch stays, whatever another job finds out about the data.
static void
test_a_finished_job_is_left_alone (void **state)
{
    bool readable = true;
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 8,
        .cache_versions = 12, .workers = 2,
        .check = true, .readable = s_as_context_says, .context = &readable };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 8, .slots = 3, .epochs = 1 };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    readable = false;
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    assert_true (simulation_ended (simulation, 1));
    assert_false (simulation_ended (simulation, 0));
    simulation_destroy (&simulation);
}

static bool
s_all_are_bad (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return false;
}

//  Guards: a job without any readable sample is ended with the reason, and the server goes on.
static void
test_a_job_without_readable_samples_ends (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 40,
        .cache_versions = 12, .workers = 3, .check = true, .readable = s_all_are_bad };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 8, .slots = 4, .epochs = 3 };
    simulation_join (simulation, &job);
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_ended (simulation, 0));
    assert_true (simulation_ended (simulation, 1));
    assert_int_equal (simulation_join (simulation, &job), -1);      //  the next one is refused at once
    assert_string_equal (simulation_refusal (simulation)->code, "bad_request");
    simulation_destroy (&simulation);
}

//  ---- coming and going

enum { SCHEDULE_JOBS = 30, LIST_MAX = 40 };

//  What a random schedule has asked for.
typedef struct {
    simulated_job_t jobs [SCHEDULE_JOBS];
    uint32_t lists [SCHEDULE_JOBS] [LIST_MAX];
    int clients;
    bool drop_last;             //  some jobs have it
} schedule_t;

//  Any order, any subset; sometimes a list with many repeats; random and deterministic shared stages.
static void
s_random_join (simulation_t *simulation, schedule_t *schedule, uint32_t samples, uint64_t *random)
{
    uint32_t from = (uint32_t) test_below (random, samples), *list = schedule->lists [schedule->clients];
    simulated_job_t job = { .batch_size = 1 + (uint32_t) test_below (random, 20),
        .slots = 3 + (uint32_t) test_below (random, 3), .epochs = 1 + test_below (random, 4),
        .order = (sampler_order_t) test_below (random, 4), .seed = 1 + test_below (random, 5), .from = from,
        .to = from + 1 + (uint32_t) test_below (random, samples - from),
        .sample_us = (int64_t) test_below (random, 300) };
    job.drop_last = schedule->drop_last && test_below (random, 2);
    if (test_below (random, 2))
        job.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    if (job.order == SAMPLER_ORDER_LIST && test_below (random, 2)) {
        job.from = job.to = 0;
        job.list = list;
        job.list_count = 1 + test_below (random, LIST_MAX);
        for (size_t index = 0; index < job.list_count; index++)
            list [index] = (uint32_t) test_below (random, samples < 8? samples: 8);
    }
    if (schedule->clients < SCHEDULE_JOBS && simulation_join (simulation, &job) >= 0)
        schedule->jobs [schedule->clients++] = job;
}

//  Where a copy's random numbers come from: a seeded job's from its seed, the epoch and the id alone, other
//  jobs' versions never from such a seed.
static void
s_check_keys (void *context, broker_t *broker, int client, const batch_row_t *row)
{
    const simulated_job_t *job = &((const schedule_t *) context)->jobs [client];
    pipeline_key_t copied = row_key (row), version = version_key (broker, row_version (row));
    assert_int_equal (copied.seed, job->seed);
    assert_int_equal (copied.id, row_id (row));
    assert_int_equal (version.id, row_id (row));
    bool is_random = !job->pipeline, is_apart = is_random && job->order == SAMPLER_ORDER_SEEDED;
    if (is_apart)
        assert_int_equal (version.round, copied.round);
    if (!is_random)
        assert_int_equal (version.round, 0);
    assert_int_equal (version.seed == job->seed, is_apart);
}

//  Property: whichever jobs join, leave, die, stop or go on, and whenever: every finished epoch is a
//  permutation, nothing comes twice, and all invariants hold after every event.  Replay: TEST_SEED.
static void
test_random_schedules_keep_epochs_whole (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + EFFORT (60); seed < last; seed++) {
        uint64_t random = seed;
        simulation_options_t options = { .policy = s_policy (state), .seed = seed,
            .samples = 1 + (uint32_t) test_below (&random, 120),
            .workers = 1 + (uint32_t) test_below (&random, 4), .gather_ms = (uint32_t) test_below (&random,
                2) * 5,
            .check = true };
        options.cache_versions = options.workers + 1 + test_below (&random, 40);
        schedule_t schedule = { .clients = 0 };
        options.copied = s_check_keys;
        options.context = &schedule;
        simulation_t *simulation = simulation_new (&options);
        for (int step = 0; step < 60; step++) {
            int clients = schedule.clients;
            int victim = clients? (int) test_below (&random, (uint64_t) clients): 0;
            uint64_t choice = test_below (&random, 6);
            if (choice <= 1)
                s_random_join (simulation, &schedule, options.samples, &random);
            else
            if (choice == 2 && clients)
                simulation_gone (simulation, victim);
            else
            if (choice == 3 && clients)
                simulation_stop (simulation, victim);
            else
            if (choice == 4 && clients)
                simulation_continue (simulation, victim);
            simulation_run (simulation, simulation_now_us (simulation) + (int64_t) test_below (&random,
                20000));
        }
        for (int client = 0; client < schedule.clients; client++)
            simulation_continue (simulation, client);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < schedule.clients; client++)
            simulation_assert_epochs (simulation, client, &schedule.jobs [client]);
        simulation_destroy (&simulation);
    }
}

static bool
s_one_in_nine_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

//  Property: the same comings and goings with unreadable samples and drop_last: no sample comes twice, no
//  unreadable one comes, and in the end all invariants hold.  How many must come is counted in the test of a
//  job alone (above).
static void
test_random_schedules_with_unreadable_samples (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + EFFORT (60); seed < last; seed++) {
        uint64_t random = seed ^ 0x5eed;
        simulation_options_t options = { .policy = s_policy (state), .seed = seed,
            .samples = 1 + (uint32_t) test_below (&random, 80),
            .workers = 1 + (uint32_t) test_below (&random, 4), .check = true,
                .readable = s_one_in_nine_is_bad };
        options.cache_versions = options.workers + 1 + test_below (&random, 40);
        schedule_t schedule = { .drop_last = true };
        options.copied = s_check_keys;
        options.context = &schedule;
        simulation_t *simulation = simulation_new (&options);
        for (int step = 0; step < 40; step++) {
            if (test_below (&random, 2))
                s_random_join (simulation, &schedule, options.samples, &random);
            else
            if (schedule.clients)
                simulation_gone (simulation, (int) test_below (&random, (uint64_t) schedule.clients));
            simulation_run (simulation, simulation_now_us (simulation) + (int64_t) test_below (&random,
                10000));
        }
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < schedule.clients; client++)
            for (size_t number = 0; number < simulation_epochs (simulation, client); number++) {
                const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
                for (size_t index = 0; index < epoch->count; index++)
                    assert_true (s_one_in_nine_is_bad (NULL, epoch->ids [index]));
            }
        simulation_destroy (&simulation);
    }
}

//  ---- seeded jobs

enum { SEEDED_SAMPLES = 150, SEEDED_EPOCHS = 3 };

//  What one seeded job has got, as far as it may depend on nothing but seed, epoch and data.
typedef struct {
    int client;
    uint32_t ids [SEEDED_EPOCHS] [SEEDED_SAMPLES];
    pipeline_key_t versions [SEEDED_EPOCHS] [SEEDED_SAMPLES];       //  by id
    pipeline_key_t copies [SEEDED_EPOCHS] [SEEDED_SAMPLES];
} record_t;

//  Into zeroed memory, field by field: keys are compared as bytes, and a copy's padding is anything.
static void
s_keep (pipeline_key_t *kept, pipeline_key_t key)
{
    kept->seed = key.seed;
    kept->round = key.round;
    kept->id = key.id;
    kept->occurrence = key.occurrence;
}

static void
s_record_keys (void *context, broker_t *broker, int client, const batch_row_t *row)
{
    record_t *record = context;
    pipeline_key_t key = row_key (row);
    if (client != record->client)
        return;
    s_keep (&record->copies [key.round] [key.id], key);
    s_keep (&record->versions [key.round] [key.id], version_key (broker, row_version (row)));
}

static int64_t
s_some_are_slow (void *context, uint32_t id)
{
    (void) context;
    return id % 5? 100: 3000;
}

//  Runs the job by itself, or (crowded) on another server, beside a twin of the same seed and other jobs that
//  come and go.
static void
s_run_seeded (record_t *record, sampler_policy_t policy, const simulated_job_t *seeded, bool crowded)
{
    memset (record, 0, sizeof *record);
    simulation_options_t options = { .policy = policy, .seed = test_seed () + crowded,
        .samples = SEEDED_SAMPLES,
        .cache_versions = crowded? 60: 6, .workers = crowded? 4: 1, .cost_us = crowded? s_some_are_slow: NULL,
        .check = true, .copied = s_record_keys, .context = record };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t other = { .pipeline = seeded->pipeline, .batch_size = 9, .slots = 5, .seed = 77,
        .epochs = 4,
        .sample_us = 60 };
    if (crowded) {
        simulation_join (simulation, &other);
        simulation_join (simulation, seeded);
        other.order = SAMPLER_ORDER_PRIVATE;
        simulation_join (simulation, &other);
        simulation_run (simulation, 7000);
    }
    simulated_job_t job = *seeded;
    job.batch_size += crowded;
    job.sample_us = crowded? 90: 20;
    record->client = simulation_join (simulation, &job);
    simulation_run (simulation, 15000);
    if (crowded)
        simulation_gone (simulation, 0);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, record->client));
    for (size_t epoch = 0; epoch < SEEDED_EPOCHS; epoch++) {
        const seen_epoch_t *seen = simulation_epoch (simulation, record->client, epoch);
        simulation_assert_permutation (seen, 0, SEEDED_SAMPLES);
        memcpy (record->ids [epoch], seen->ids, sizeof record->ids [epoch]);
    }
    simulation_destroy (&simulation);
}

//  Must hold: a seeded job's order, and where its random numbers come from, is the same on another server,
//  with other workers, cache, batches and company; another seed gives another order.
static void
test_a_seeded_job_is_the_same_in_any_company (void **state)
{
    static record_t alone, crowded, reseeded;
    simulated_job_t job = { .order = SAMPLER_ORDER_SEEDED, .seed = 42, .batch_size = 8, .slots = 4,
        .epochs = SEEDED_EPOCHS };
    s_run_seeded (&alone, s_policy (state), &job, false);
    s_run_seeded (&crowded, s_policy (state), &job, true);
    assert_memory_equal (alone.ids, crowded.ids, sizeof alone.ids);
    assert_memory_equal (alone.versions, crowded.versions, sizeof alone.versions);
    assert_memory_equal (alone.copies, crowded.copies, sizeof alone.copies);
    assert_memory_not_equal (alone.ids [0], alone.ids [1], sizeof alone.ids [0]);
    job.seed = 43;
    s_run_seeded (&reseeded, s_policy (state), &job, false);
    assert_memory_not_equal (alone.ids, reseeded.ids, sizeof alone.ids);
    job.seed = 42;
    job.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]";
    s_run_seeded (&reseeded, s_policy (state), &job, true);
    assert_memory_equal (alone.ids, reseeded.ids, sizeof alone.ids);
    assert_memory_equal (alone.copies, reseeded.copies, sizeof alone.copies);
}

//  Must hold: with unreadable samples the others keep their order and their keys, whatever the window and the
//  workers and whenever they were found.
static void
test_a_seeded_job_leaves_bad_samples_out_where_they_stand (void **state)
{
    static record_t whole, record;
    simulated_job_t job = { .order = SAMPLER_ORDER_SEEDED, .seed = 42, .batch_size = 8, .slots = 4,
        .epochs = SEEDED_EPOCHS };
    s_run_seeded (&whole, s_policy (state), &job, false);
    for (uint32_t workers = 1; workers < 5; workers++) {
        simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (),
            .samples = SEEDED_SAMPLES,
            .cache_versions = 12, .workers = workers, .check = true, .readable = s_every_seventh_is_bad,
            .copied = s_record_keys, .context = &record };
        simulation_t *simulation = simulation_new (&options);
        job.slots = 2 + workers;
        record.client = simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        for (size_t epoch = 0; epoch < SEEDED_EPOCHS; epoch++) {
            const seen_epoch_t *seen = simulation_epoch (simulation, record.client, epoch);
            size_t place = 0;
            for (size_t index = 0; index < SEEDED_SAMPLES; index++) {
                uint32_t id = whole.ids [epoch] [index];
                if (!s_every_seventh_is_bad (NULL, id))
                    continue;
                assert_true (place < seen->count);
                assert_int_equal (seen->ids [place++], id);
                assert_memory_equal (&record.versions [epoch] [id], &whole.versions [epoch] [id],
                    sizeof *whole.versions [0]);
            }
            assert_int_equal (seen->count, place);
        }
        simulation_destroy (&simulation);
    }
}

//  Guards: what is not random is shared with a seeded job as with any other.
static void
test_a_seeded_job_shares_what_is_not_random (void **state)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 200,
        .cache_versions = 210, .workers = 2, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]", .batch_size = 16,
        .slots = 4,
        .epochs = 2 };
    simulation_join (simulation, &job);
    job.order = SAMPLER_ORDER_SEEDED;
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (s_all_finished (simulation, 2));
    assert_int_equal (simulation_prepared (simulation), 200);
    simulation_destroy (&simulation);
}

//  Guards: impossible progress is refused and changes nothing.
static void
test_impossible_progress_is_refused (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = 100, .cache_versions = 8, .workers = 1,
        .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 3, .epochs = 1, .sample_us = 100 };
    simulation_join (simulation, &job);
    simulation_run (simulation, SECOND_US / 100);
    refusal_t refusal;
    job_t *joined = job_of_id (simulation_broker (simulation), 1);
    assert_non_null (joined);
    wire_progress_t beyond = { .consumed = 99, .released = 0 }, back = { .consumed = 0, .released = 0 };
    assert_false (broker_progress (simulation_broker (simulation), job_rank (joined, 0), &beyond, 10,
        &refusal));
    assert_string_equal (refusal.code, "bad_request");
    assert_false (broker_progress (simulation_broker (simulation), job_rank (joined, 0), &back, 10,
        &refusal));
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        UNDER_BOTH_POLICIES (test_one_job_gets_permutations),
        UNDER_BOTH_POLICIES (test_drop_last_leaves_the_rest_out),
        UNDER_BOTH_POLICIES (test_lists_keep_their_order),
        UNDER_BOTH_POLICIES (test_equal_jobs_out_of_phase_share),
        UNDER_BOTH_POLICIES (test_deterministic_versions_are_used_again),
        UNDER_BOTH_POLICIES (test_a_stopped_client_slows_no_other),
        UNDER_BOTH_POLICIES (test_the_least_budget_works),
        UNDER_BOTH_POLICIES (test_unreadable_samples_are_left_out),
        cmocka_unit_test (test_a_large_window_delays_no_other_job),
        cmocka_unit_test (test_a_large_class_gives_its_room_back),
        UNDER_BOTH_POLICIES (test_drop_last_fills_holes_from_the_end),
        UNDER_BOTH_POLICIES (test_a_finished_job_is_left_alone),
        UNDER_BOTH_POLICIES (test_a_job_without_readable_samples_ends),
        UNDER_BOTH_POLICIES (test_random_schedules_with_unreadable_samples),
        UNDER_BOTH_POLICIES (test_random_schedules_keep_epochs_whole),
        UNDER_BOTH_POLICIES (test_a_seeded_job_is_the_same_in_any_company),
        UNDER_BOTH_POLICIES (test_a_seeded_job_leaves_bad_samples_out_where_they_stand),
        UNDER_BOTH_POLICIES (test_a_seeded_job_shares_what_is_not_random),
        cmocka_unit_test (test_impossible_progress_is_refused)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
