//  Which shared stage a job without a mark gets, and what the jobs that are there come to by it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 120 };

#define RESIZE "{\"op\":\"resize\",\"size\":[4,4]}"
#define CROP "{\"op\":\"center_crop\",\"size\":[1,1]}"
#define RANDOM_CROP "{\"op\":\"random_resized_crop\",\"size\":[1,1],\"share\":true}"
#define MARK "{\"share\":true}"

static const char s_resized [] = "[" RESIZE "," MARK "," CROP "]";
static const char s_cropped [] = "[" RESIZE "," CROP "," MARK "]";
static const char s_open [] = "[" RESIZE "," CROP "]";
static const char s_random [] = "[" RANDOM_CROP "," MARK ",{\"op\":\"flip\"}]";

static simulation_t *
s_simulation (void)
{
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES,
        .cache_versions = 2 * SAMPLES + 8, .workers = 2,
        .policy = SAMPLER_POLICY_FOLLOW, .check = true };
    return simulation_new (&options);
}

static simulated_job_t
s_job (const char *pipeline)
{
    return (simulated_job_t) { .pipeline = pipeline, .batch_size = 10, .slots = 4, .epochs = 2,
        .sample_us = 50 };
}

//  Guards: a list without a mark meets the job that is there, so that each sample is prepared once for both;
//  by itself it takes the longest stage it may.
static void
test_a_list_without_a_mark_meets_those_present (void **state)
{
    (void) state;
    static const struct { const char *first; uint64_t prepared; } cases [] = {
        { s_resized, SAMPLES }, { s_cropped, SAMPLES }, { s_open, SAMPLES },
        { "[" CROP "," MARK "]", 2 * SAMPLES }
    };
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++) {
        simulation_t *simulation = s_simulation ();
        simulated_job_t first = s_job (cases [index].first), second = s_job (s_open);
        assert_int_equal (simulation_join (simulation, &first), 0);
        assert_int_equal (simulation_join (simulation, &second), 1);
        simulation_run (simulation, 100 * SECOND_US);
        assert_true (simulation_finished (simulation, 0) && simulation_finished (simulation, 1));
        assert_int_equal (simulation_prepared (simulation), cases [index].prepared);
        simulation_destroy (&simulation);
    }
}

//  Whether a job of this order is told the stage of that pipeline.
static bool
s_is_told (simulation_t *simulation, sampler_order_t order, const char *pipeline)
{
    const char *texts [SAMPLER_JOBS_MAX];
    size_t count = dataset_shared_texts (simulation_dataset (simulation), NULL, order, texts,
        SAMPLER_JOBS_MAX), found = 0;
    json_t *list = json_loads (pipeline, 0, NULL);
    const pipeline_t *made;
    char error [256];
    assert_int_equal (pipeline_new (&made, list, NULL, NULL, 0, error, sizeof error), 0);
    for (size_t index = 0; index < count; index++)
        found += strcmp (texts [index], pipeline_shared_text (made)) == 0;
    json_decref (list);
    pipeline_destroy (&made);
    assert_in_range (found, 0, 1);          //  each once
    return found;
}

//  Guards: the stages told are those of the present jobs that the asking job could share.  A seeded job
//  shares nothing random, and what is random in one seeded job is shared by no other.
static void
test_the_stages_told_are_those_to_be_shared (void **state)
{
    (void) state;
    simulation_t *simulation = s_simulation ();
    simulated_job_t resized = s_job (s_resized), random = s_job (s_random), seeded = s_job (s_random);
    assert_false (s_is_told (simulation, SAMPLER_ORDER_SHARED, s_resized));
    for (int twice = 0; twice < 2; twice++)
        simulation_join (simulation, &resized);
    seeded.order = SAMPLER_ORDER_SEEDED;
    simulation_join (simulation, &seeded);
    assert_true (s_is_told (simulation, SAMPLER_ORDER_SHARED, s_resized));
    assert_false (s_is_told (simulation, SAMPLER_ORDER_SHARED, s_random));
    int last = simulation_join (simulation, &random);
    assert_true (s_is_told (simulation, SAMPLER_ORDER_SHARED, s_random));
    assert_true (s_is_told (simulation, SAMPLER_ORDER_LIST, s_random));
    assert_true (s_is_told (simulation, SAMPLER_ORDER_SEEDED, s_resized));
    assert_false (s_is_told (simulation, SAMPLER_ORDER_SEEDED, s_random));
    simulation_gone (simulation, last);
    assert_false (s_is_told (simulation, SAMPLER_ORDER_SHARED, s_random));
    simulation_destroy (&simulation);
}

//  Must hold: a job that comes when all others have drawn everything waits a moment for company, as it would
//  alone, and the next one begins with it: each sample is prepared once for the two.
static void
test_what_has_drawn_all_is_no_company (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (), .samples = 20,
        .cache_versions = 30, .workers = 2, .gather_ms = 500, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 8, .slots = 8, .epochs = 1, .sample_us = 100 };
    simulated_job_t slow = job;
    slow.first_us = 3600 * INT64_C (1000000);
    int drawn = simulation_must_join (simulation, &slow);
    simulation_run (simulation, 1000000);
    assert_int_equal (simulation_prepared (simulation), 20);
    assert_int_equal (simulation_job (simulation, drawn)->state, JOB_DRAWN);
    int first = simulation_must_join (simulation, &job);
    simulation_run (simulation, 1300000);
    int second = simulation_must_join (simulation, &job);
    simulation_run (simulation, 1490000);
    assert_int_equal (simulation_job (simulation, first)->delivery.sent, 0);
    simulation_run (simulation, 2500000);
    assert_true (simulation_finished (simulation, first) && simulation_finished (simulation, second));
    assert_int_equal (simulation_prepared (simulation), 40);
    simulation_destroy (&simulation);
}

//  Must hold: a job with other data is no company either: one that comes beside it waits as it would alone.
static void
test_a_job_with_other_data_is_no_company (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (), .samples = 40,
        .cache_versions = 60, .workers = 2, .gather_ms = 500, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 8, .slots = 8, .epochs = 1, .sample_us = 100, .from = 20,
        .to = 40 };
    simulated_job_t other = { .batch_size = 8, .slots = 8, .sample_us = 100000, .to = 20 };
    simulation_must_join (simulation, &other);
    simulation_run (simulation, 1000000);
    int first = simulation_must_join (simulation, &job);
    simulation_run (simulation, 1490000);
    assert_int_equal (simulation_job (simulation, first)->delivery.sent, 0);
    simulation_run (simulation, 2500000);
    assert_true (simulation_finished (simulation, first));
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_list_without_a_mark_meets_those_present),
        cmocka_unit_test (test_the_stages_told_are_those_to_be_shared),
        cmocka_unit_test (test_what_has_drawn_all_is_no_company),
        cmocka_unit_test (test_a_job_with_other_data_is_no_company)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
