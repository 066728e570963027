//  How much of what jobs get is shared, which jobs are told that it is little, and why: each reason, and no
//  notice if all is well.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SAMPLES = 2000, MS = 1000, SECOND_US = 1000 * MS, JOBS_MAX = 6 };

#define CROP "{\"op\":\"random_resized_crop\",\"size\":[1,1],\"share\":true}"
#define OTHER_CROP "{\"op\":\"random_resized_crop\",\"size\":[1,1],\"scale\":[0.5,1],\"share\":true}"
#define MARK "{\"share\":true}"

typedef struct {
    uint64_t places, alone, shared;
} told_t;

static told_t
s_told (simulation_t *simulation, int client)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / MS);
    const json_t *sharing = NULL;
    size_t index;
    json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        if (json_integer_value (json_object_get (job, "job")) == client + 1)
            sharing = json_object_get (job, "sharing");
    assert_non_null (sharing);
    told_t told = { (uint64_t) json_integer_value (json_object_get (sharing, "places")),
        (uint64_t) json_integer_value (json_object_get (sharing, "alone")),
        (uint64_t) json_integer_value (json_object_get (sharing, "shared")) };
    json_decref (status);
    return told;
}

typedef struct {
    sampler_policy_t policy;
    size_t cache_versions;          //  0: 2 % and some
    uint32_t samples;               //  0: SAMPLES
    int count;
    simulated_job_t jobs [JOBS_MAX];
    int64_t at_us [JOBS_MAX];       //  when each joins
    int64_t seconds;
} case_t;

//  The jobs go on until they are told to leave; they are there still.
static simulation_t *
s_run (const case_t *plan)
{
    simulation_options_t options = { .seed = test_seed (), .samples = plan->samples? plan->samples: SAMPLES,
        .workers = 4,
        .cache_versions = plan->cache_versions? plan->cache_versions: 100, .policy = plan->policy,
        .gather_ms = 10 };
    simulation_t *simulation = simulation_new (&options);
    for (int number = 0; number < plan->count; number++) {
        simulated_job_t job = plan->jobs [number];
        job.batch_size = job.batch_size? job.batch_size: 8;
        job.slots = 4;
        job.sample_us = job.sample_us? job.sample_us: 2 * MS;
        simulation_run (simulation, plan->at_us [number]);
        assert_int_equal (simulation_join (simulation, &job), number);
    }
    simulation_run (simulation, plan->seconds * SECOND_US);
    broker_check (simulation_broker (simulation));
    return simulation;
}

//  Runs the case; the notices that came must hold these words, NULL: none.
static void
s_assert_notices (const case_t *plan, const char *const *words)
{
    simulation_t *simulation = s_run (plan);
    for (int number = 0; number < plan->count; number++) {
        const char *notice = simulation_notice (simulation, number);
        if (words [number] && !notice)
            fail_msg ("job %d was told nothing", number + 1);
        if (!words [number] && notice)
            fail_msg ("job %d was told: %s", number + 1, notice);
        if (notice && !strstr (notice, words [number]))
            fail_msg ("job %d was told: %s; not: %s", number + 1, notice, words [number]);
        if (notice)
            assert_true (strlen (notice) < 500);
    }
    simulation_destroy (&simulation);
}

//  ---- figures

//  Guards: two jobs in step share everything, and each is credited once; a job alone shares nothing; a job
//  that comes to a data set's only versions shares them with the job that made them.
static void
test_figures (void **state)
{
    (void) state;
    case_t plan = { .policy = SAMPLER_POLICY_FOLLOW, .count = 2, .seconds = 10 };
    simulation_t *simulation = s_run (&plan);
    for (int client = 0; client < 2; client++) {
        told_t told = s_told (simulation, client);
        assert_true (told.places > SAMPLES);
        assert_true (told.shared * 100 > told.places * 98);
        assert_true (told.alone + told.shared == told.places);          //  random: no job uses its own twice
    }
    simulation_destroy (&simulation);
    plan.count = 1;
    simulation = s_run (&plan);
    told_t told = s_told (simulation, 0);
    assert_true (told.places > SAMPLES && told.alone == told.places && told.shared == 0);
    simulation_destroy (&simulation);
    //  Not random, all in the cache: three epochs of its own, then a second job's one epoch.
    plan = (case_t) { .policy = SAMPLER_POLICY_FOLLOW, .samples = 300, .cache_versions = 400, .count = 2,
        .seconds = 20,
        .jobs = { { .pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}," MARK "]", .epochs = 3 },
            { .pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}," MARK "]", .epochs = 1 } },
            .at_us = { 0, 10 * SECOND_US } };
    simulation = s_run (&plan);
    told_t first = s_told (simulation, 0), second = s_told (simulation, 1);
    assert_int_equal (first.places, 900);
    assert_int_equal (first.shared, 300);           //  each version once
    assert_int_equal (first.alone, 0);
    assert_int_equal (second.places, 300);
    assert_int_equal (second.shared, 300);
    simulation_destroy (&simulation);
}

//  ---- notices

//  Guards: with other shared stages both are told which operation differs, or where the share points are.
static void
test_other_stages (void **state)
{
    (void) state;
    case_t plan = { .count = 2, .seconds = 10,
        .jobs = { { .pipeline = "[" CROP "," MARK "]" }, { .pipeline = "[" OTHER_CROP "," MARK "]" } } };
    const char *const differ [] = { "\"scale\":[0.08,1", "\"scale\":[0.5,1" };
    for (plan.policy = SAMPLER_POLICY_DSA; plan.policy <= SAMPLER_POLICY_FOLLOW; plan.policy++)
        s_assert_notices (&plan, differ);
    plan.jobs [0].pipeline =
        "[{\"op\":\"resize\",\"size\":[4,4]}," MARK ",{\"op\":\"center_crop\",\"size\":[1,1]}]";
    plan.jobs [1].pipeline =
        "[{\"op\":\"resize\",\"size\":[4,4]},{\"op\":\"center_crop\",\"size\":[1,1]}," MARK "]";
    const char *const marks [] = { "this one's share point stands before {\"op\":\"center_crop\"",
        "that one's share point stands before {\"op\":\"center_crop\"" };
    s_assert_notices (&plan, marks);
    //  Not before there is something to judge by: a quarter of an epoch of both.
    const char *const none [] = { NULL, NULL };
    plan.samples = 4000;
    plan.seconds = 1;
    s_assert_notices (&plan, none);
    //  A job that shares with others is not told of a third that does not.
    plan = (case_t) { .policy = SAMPLER_POLICY_FOLLOW, .count = 3, .seconds = 10,
        .jobs = { { .pipeline = NULL }, { .pipeline = NULL }, { .pipeline = "[" OTHER_CROP "," MARK "]" } } };
    const char *const third [] = { NULL, NULL, "nothing is prepared for both this job and job" };
    s_assert_notices (&plan, third);
}

//  Guards: data that overlap little are named with the figure; disjoint data are not mentioned.
static void
test_little_overlap (void **state)
{
    (void) state;
    case_t plan = { .count = 2, .seconds = 10,
        .jobs = { { .from = 0, .to = 1050 }, { .from = 950, .to = 2000 } } };
    const char *const little [] = { "of this job's samples are in the data of other jobs",
        "of this job's samples are in the data" };
    const char *const none [] = { NULL, NULL };
    for (plan.policy = SAMPLER_POLICY_DSA; plan.policy <= SAMPLER_POLICY_FOLLOW; plan.policy++)
        s_assert_notices (&plan, little);
    plan.jobs [0].to = 1000;
    plan.jobs [1].from = 1000;
    s_assert_notices (&plan, none);
}

//  Guards: under dsa jobs that are out of step are told how far, and under follow there is nothing to tell.
static void
test_out_of_step (void **state)
{
    (void) state;
    //  Half an epoch apart, which takes four seconds.
    case_t plan = { .policy = SAMPLER_POLICY_DSA, .count = 2, .seconds = 20, .at_us = { 0, 2 * SECOND_US } };
    const char *const step [] = { "out of step", "out of step" }, *const none [] = { NULL, NULL };
    s_assert_notices (&plan, step);
    plan.policy = SAMPLER_POLICY_FOLLOW;
    s_assert_notices (&plan, none);
    //  What a slow neighbour has got is all that could be shared with it.
    plan = (case_t) { .policy = SAMPLER_POLICY_DSA, .count = 2, .seconds = 60,
        .jobs = { { .sample_us = MS }, { .sample_us = 20 * MS } } };
    s_assert_notices (&plan, none);
}

//  Guards: jobs over a pack that the strata have no room for are told so, those that follow are not; over a
//  folder they draw along passes, and there is nothing to tell.
static void
s_assert_apart (bool is_pack)
{
    enum { JOBS = 36, APART = 4 };
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .workers = 4,
        .cache_versions = 100, .raw_bytes = is_pack? 8000000: 0, .piece = 4, .tier = RAW_STREAM,
        .policy = SAMPLER_POLICY_FOLLOW };
    simulation_t *simulation = simulation_new (&options);
    uint32_t apart = 0, passes = 0, told = 0;
    for (uint32_t number = 0; number < JOBS; number++) {
        simulated_job_t job = { .batch_size = 8, .slots = 4, .sample_us = 5 * MS, .from = 3 * number,
            .to = 1000 + 5 * number };
        assert_int_equal (simulation_join (simulation, &job), number);
    }
    simulation_run (simulation, 8 * SECOND_US);
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / MS);
    for (int number = 0; number < JOBS; number++) {
        const char *notice = simulation_notice (simulation, number);
        const json_t *job = json_array_get (json_object_get (status, "jobs"), (size_t) number);
        bool is_apart = json_is_true (json_object_get (job, "apart"));
        apart += is_apart;
        passes += json_is_true (json_object_get (job, "passes"));
        told += notice != NULL;
        if (notice && (!is_apart || !strstr (notice, "this job draws by itself")))
            fail_msg ("job %d, %s, was told: %s", number + 1, is_apart? "apart": "following", notice);
    }
    if (is_pack)
        assert_in_range (apart, APART, JOBS / 2);
    else
        assert_true (apart == 0 && passes >= APART);
    assert_true (told == apart && (passes == 0) == is_pack);
    json_decref (status);
    simulation_destroy (&simulation);
}

static void
test_drawing_apart (void **state)
{
    (void) state;
    s_assert_apart (true);
    s_assert_apart (false);
}

//  Guards: a job that asks for an order of its own is told nothing, nor are its neighbours; a job that has
//  such an order only because it gave a seed is told.
static void
test_orders_of_their_own (void **state)
{
    (void) state;
    case_t plan = { .policy = SAMPLER_POLICY_FOLLOW, .count = 4, .seconds = 10,
        .jobs = { { .order = SAMPLER_ORDER_SHARED }, { .order = SAMPLER_ORDER_PRIVATE },
        { .order = SAMPLER_ORDER_SEEDED, .seed = 1 },
            { .order = SAMPLER_ORDER_SEEDED, .seed = 2, .order_is_of_seed = true } } };
    const char *const words [] = { NULL, NULL, NULL, "a job with a seed and no order" };
    s_assert_notices (&plan, words);
}

//  Guards: equal healthy jobs are never told anything, whenever they come, at whatever speed, whatever else
//  is there.
static void
test_healthy_jobs (void **state)
{
    (void) state;
    const char *const none [JOBS_MAX] = { NULL };
    random_t random = random_from_seed (test_seed ());
    for (int round = 0; round < EFFORT (30); round++) {
        case_t plan = { .policy = round % 3? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_DSA, .seconds = 30,
            .count = 2 + (int) random_below (&random, JOBS_MAX - 1),
            .samples = 400 + (uint32_t) random_below (&random, 1600),
            .cache_versions = 30 + (size_t) random_below (&random, 400) * (size_t) random_below (&random,
            10) };
        int64_t pace_us = MS + (int64_t) random_below (&random, 3 * MS), at_us = 0;
        for (int number = 0; number < plan.count; number++) {
            //  Under dsa only what is in step is healthy.
            bool is_dsa = plan.policy == SAMPLER_POLICY_DSA;
            plan.jobs [number] = (simulated_job_t) { .batch_size = 4u << random_below (&random, 3),
                .sample_us = is_dsa? pace_us: MS + (int64_t) random_below (&random, 4 * MS) };
            if (is_dsa)
                plan.jobs [number].batch_size = 8;
            plan.at_us [number] = at_us;
            at_us += is_dsa? 0: (int64_t) random_below (&random, 3 * SECOND_US);
        }
        s_assert_notices (&plan, none);
    }
}

//  Must hold: a job is told later if all its ranks are away for a moment (the last one that was there joins
//  again, and its old connection is not yet cleared).
static void
test_no_rank_is_there_to_be_told (void **state)
{
    (void) state;
    for (int64_t at_us = 500 * MS; at_us <= 4 * SECOND_US; at_us += 250 * MS) {
        simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .workers = 4,
            .cache_versions = 100,
            .policy = SAMPLER_POLICY_FOLLOW, .gather_ms = 10 };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t ranks = { .pipeline = "[" CROP "," MARK "]", .batch_size = 4, .slots = 4,
            .sample_us = 2 * MS,
            .world_size = 2, .rank_wait_seconds = 60, .job_name = "x" };
        simulated_job_t plain = { .pipeline = "[" OTHER_CROP "," MARK "]", .batch_size = 8, .slots = 4,
            .sample_us = MS };
        assert_int_equal (simulation_join (simulation, &ranks), 0);
        assert_int_equal (simulation_join (simulation, &plain), 2);
        simulation_run (simulation, at_us);
        bool is_told = simulation_notice (simulation, 0);
        simulation_lose (simulation, 1);
        int back = -1;
        simulated_return_t how = { .records = simulation_records (simulation, 0), .sample_us = 2 * MS };
        assert_int_equal (simulation_return (simulation, 0, &how, &back), BROKER_RETURN_REFUSED);
        assert_string_equal (simulation_refusal (simulation)->code, "busy");
        simulation_run (simulation, at_us + 2 * SECOND_US);
        assert_true (!simulation_notice (simulation, 0) || is_told);
        for (uint32_t rank = 0; rank < 2; rank++) {
            int client = simulation_rank (simulation, 0, rank);
            how.records = simulation_records (simulation, client);
            assert_int_equal (simulation_return (simulation, client, &how, &back), BROKER_RETURN_READY);
        }
        simulation_run (simulation, at_us + 8 * SECOND_US);
        assert_true (simulation_notice (simulation, 0)
            || simulation_notice (simulation, simulation_rank (simulation, 0, 0)));
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_figures),
        cmocka_unit_test (test_other_stages),
        cmocka_unit_test (test_little_overlap),
        cmocka_unit_test (test_out_of_step),
        cmocka_unit_test (test_drawing_apart),
        cmocka_unit_test (test_orders_of_their_own),
        cmocka_unit_test (test_healthy_jobs),
        cmocka_unit_test (test_no_rank_is_there_to_be_told)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
