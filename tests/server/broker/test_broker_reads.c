//  What jobs over a pack read, counted: samples read for each sample delivered, and how many of these were
//  read by themselves.  A part of tier, stream or prefetch that does nothing any more costs reads and nothing
//  else, so only a count shows it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>
#include "broker.h"
#include "job.h"
#include "raw_refcount.h"
#include "seed.h"
#include "simulation.h"

enum { SAMPLES = 1000, SAMPLE_BYTES = 1000, JOBS = 3, EPOCHS = 8, STEP_US = 10000 };

//  Of 200 seeds none came near the bounds: they are 5 standard deviations from the mean, or more.
typedef struct {
    const char *name;
    raw_policy_t tier;
    size_t memory;                      //  in samples
    simulated_job_t jobs [JOBS];        //  up to the first without a batch size
    double reads_min, reads_max, singles_max;
} plan_t;

#define JOB(pace_us, first, end) \
    { .batch_size = 20, .slots = 8, .sample_us = pace_us, .from = first, .to = end }
#define PRIVATE(pace_us) \
    { .batch_size = 20, .slots = 8, .sample_us = pace_us, .order = SAMPLER_ORDER_PRIVATE }

static const plan_t s_plans [] = {
    { "one job", RAW_STREAM, 200, { JOB (100, 0, 0) }, 1.0, 1.026, 0.016 },
    { "three equal jobs", RAW_STREAM, 200, { JOB (100, 0, 0), JOB (100, 0, 0), JOB (100, 0, 0) },
        0.325, 0.38, 0.012 },
    { "three paces", RAW_STREAM, 200, { JOB (60, 0, 0), JOB (100, 0, 0), JOB (150, 0, 0) },
        0.5, 0.535, 0.03 },
    { "overlapping data", RAW_STREAM, 200, { JOB (100, 0, 700), JOB (100, 300, 1000) }, 0.70, 0.78, 0.025 },
    { "apart", RAW_STREAM, 200, { JOB (100, 0, 500), JOB (100, 500, 1000) }, 0.95, 1.036, 0.02 },
    { "private", RAW_STREAM, 600, { PRIVATE (100), PRIVATE (100) }, 0.80, 0.91, 0.024 },
    { "redox", RAW_REDOX, 300, { JOB (100, 0, 0) }, 1.49, 1.65, 0.012 },
    { "direct", RAW_DIRECT, 200, { JOB (100, 0, 0) }, 1.0, 1.004, 1.004 }
};

static size_t
s_bytes_of (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return SAMPLE_BYTES;
}

//  Must hold: the bytes in status are those of the samples: single reads' of each job, and, with a tier, of a
//  job alone, the rest of what it drew was in memory.
static void
s_expect_bytes (simulation_t *simulation, const plan_t *plan)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0), *job;
    uint64_t singles = 0, drawn = 0;
    size_t index;
    json_array_foreach (json_object_get (status, "jobs"), index, job) {
        uint64_t reads = (uint64_t) json_integer_value (json_object_get (job, "single_reads"));
        assert_int_equal (json_integer_value (json_object_get (job, "single_bytes")), reads * SAMPLE_BYTES);
        singles += reads;
        drawn += (uint64_t) json_integer_value (json_object_get (json_object_get (job, "sharing"), "places"));
    }
    const json_t *pack = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
    uint64_t resident = (uint64_t) json_integer_value (json_object_get (pack, "memory_bytes"));
    if (plan->tier == RAW_DIRECT)
        assert_int_equal (resident, 0);
    else
    if (index == 1)
        assert_int_equal (resident, (drawn - singles) * SAMPLE_BYTES);
    json_decref (status);
}

static void
test_reads_are_counted (void **state)
{
    (void) state;
    for (size_t index = 0; index < sizeof s_plans / sizeof *s_plans; index++) {
        const plan_t *plan = &s_plans [index];
        simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .tier = plan->tier,
            .seed = test_seed (), .samples = SAMPLES, .cache_versions = 100, .workers = 4,
            .raw_bytes = plan->memory * SAMPLE_BYTES, .sample_bytes = SAMPLE_BYTES, .piece = 8,
            .bytes_of = s_bytes_of, .gather_ms = 10 };
        simulation_t *simulation = simulation_new (&options);
        int clients [JOBS], count = 0;
        while (count < JOBS && plan->jobs [count].batch_size) {
            clients [count] = simulation_must_join (simulation, &plan->jobs [count]);
            count++;
        }
        while (simulation_delivered (simulation) < (uint64_t) EPOCHS * SAMPLES * (uint64_t) count)
            simulation_run (simulation, simulation_now_us (simulation) + STEP_US);
        uint64_t singles = 0;
        for (int client = 0; client < count; client++)
            singles += simulation_job (simulation, clients [client])->counts.single_reads;
        double delivered = (double) simulation_delivered (simulation);
        double reads = (double) simulation_samples_read (simulation) / delivered;
        print_message ("%-18s reads a delivery %.3f, single ones %.3f\n", plan->name, reads,
            (double) singles / delivered);
        assert_true (reads >= plan->reads_min && reads <= plan->reads_max);
        assert_true ((double) singles / delivered <= plan->singles_max);
        s_expect_bytes (simulation, plan);
        //  Of one tenant all reads stand in one queue.
        broker_t *broker = simulation_broker (simulation);
        assert_int_equal (raw_refcount_lane (broker, tenant_named (broker, NULL)), 0);
        simulation_destroy (&simulation);
    }
}

//  The reads of jobs of three paces, which need different samples of a piece.
static json_int_t
s_read_with_gaps (bool avoids_gaps)
{
    const plan_t *plan = &s_plans [2];
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .tier = plan->tier,
        .seed = test_seed (), .samples = SAMPLES, .cache_versions = 100, .workers = 4,
        .raw_bytes = plan->memory * SAMPLE_BYTES, .sample_bytes = SAMPLE_BYTES, .piece = 8,
        .bytes_of = s_bytes_of, .gather_ms = 10, .avoids_gaps = avoids_gaps };
    simulation_t *simulation = simulation_new (&options);
    for (int job = 0; job < JOBS && plan->jobs [job].batch_size; job++)
        simulation_must_join (simulation, &plan->jobs [job]);
    while (simulation_delivered (simulation) < (uint64_t) EPOCHS * SAMPLES * 3)
        simulation_run (simulation, simulation_now_us (simulation) + STEP_US);
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
    const json_t *pack = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
    json_int_t reads = json_integer_value (json_object_get (pack, "reads"));
    json_decref (status);
    simulation_destroy (&simulation);
    return reads;
}

//  Guards: the device decides whether a gap of samples that are not needed is read through, which takes fewer
//  reads.
static void
test_gaps_are_the_devices_choice (void **state)
{
    (void) state;
    json_int_t through = s_read_with_gaps (false), around = s_read_with_gaps (true);
    print_message ("%" JSON_INTEGER_FORMAT " reads through gaps, %" JSON_INTEGER_FORMAT " around them\n",
        through, around);
    assert_true (around > through + through / 50);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_reads_are_counted),
        cmocka_unit_test (test_gaps_are_the_devices_choice)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
