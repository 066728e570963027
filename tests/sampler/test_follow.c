/*  Guards: policy `follow` keeps the contract (design: sampling) exactly once, whatever happens; equal jobs
 *  stay in step; more kinds of jobs than it tells apart, and joins at every moment, do no harm.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "playground.h"
#include "seed.h"

enum { SCHEDULES = EFFORT (150), ONCE_SAMPLES = 100, ONCE_JOBS = 40 };

//  ---- exactly once (the playground checks it at every draw)

//  A third of them go on where others stopped, with some of their data taken (lent until they come).
static void
s_join_somehow (playground_t *ground, uint64_t *random, uint8_t taken [ONCE_SAMPLES])
{
    uint32_t from = (uint32_t) test_below (random, 60);
    playground_job_t job = {
        .speed = (double) (1 + test_below (random, 4)) / 4, .start = (double) test_below (random, 3),
        .from = from, .to = from + 1 + (uint32_t) test_below (random, ONCE_SAMPLES - from),
        .stride = (uint32_t) test_below (random, 4), .epochs = test_below (random, 4),
        .order = (sampler_order_t) test_below (random, 8) == 0? SAMPLER_ORDER_PRIVATE:
            test_below (random, 8) == 0? SAMPLER_ORDER_SEEDED: SAMPLER_ORDER_SHARED,
        .jitter = test_below (random, 2)? 0.3: 0
    };
    for (uint32_t id = 0; id < ONCE_SAMPLES; id++)
        taken [id] = id >= job.from && id < job.to && (job.stride == 0 || (id - job.from) % job.stride == 0)
            && test_below (random, 2);
    if (test_below (random, 3) == 0)
        job.taken = taken;
    playground_join (ground, &job);
}

static void
test_exactly_once (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", seed);
    for (int schedule = 0; schedule < SCHEDULES; schedule++) {
        uint64_t random = seed + (uint64_t) schedule;
        playground_t *ground = playground_new (ONCE_SAMPLES, test_below (&random, 30),
            schedule % 3? SAMPLER_POLICY_FOLLOW: SAMPLER_POLICY_RESIDENT, random);
        playground_check_always (ground);
        uint8_t taken [ONCE_JOBS] [ONCE_SAMPLES];
        int jobs = 0;
        for (int step = 0; step < 60; step++) {
            if (jobs < ONCE_JOBS && test_below (&random, 3) == 0) {
                s_join_somehow (ground, &random, taken [jobs]);
                jobs++;
            }
            if (jobs && test_below (&random, 6) == 0)
                playground_leave (ground, (int) test_below (&random, (uint64_t) jobs));
            if (test_below (&random, 10) == 0)
                playground_drop (ground, (uint32_t) test_below (&random, ONCE_SAMPLES));
            playground_run (ground, playground_now (ground) + 7);
        }
        for (int job = 0; job < jobs; job++)
            playground_leave (ground, job);
        sampler_check (playground_sampler (ground));
        playground_destroy (&ground);
    }
}

//  ---- which job follows which

//  Equal jobs in step take the same samples and cost what one costs, epoch after epoch.
static void
test_equal_jobs_in_step (void **state)
{
    (void) state;
    playground_t *ground = playground_new (1000, 20, SAMPLER_POLICY_FOLLOW, test_seed ());
    for (int job = 0; job < 16; job++)
        playground_join (ground, &(playground_job_t) { .speed = 1, .to = 1000, .epochs = 8 });
    assert_true (playground_run (ground, 1e9));
    double share = (double) playground_prepared (ground) / (double) playground_delivered (ground);
    print_message ("16 in step: %.4f prepared a delivery\n", share);
    assert_true (share < 1.01 / 16);
    playground_destroy (&ground);
}

//  More data sets than there is room for strata: a job that comes too late draws apart, and still gets
//  everything once.
static void
test_beyond_the_strata (void **state)
{
    (void) state;
    playground_t *ground = playground_new (1000, 50, SAMPLER_POLICY_FOLLOW, test_seed ());
    playground_check_always (ground);
    uint32_t follow = 0, apart = 0;
    static const uint32_t strides [12] = { 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37 };
    for (uint32_t job = 0; job < 12; job++)
        playground_join (ground, &(playground_job_t) { .speed = 1, .to = 1000, .stride = strides [job],
            .epochs = 3 });
    playground_run (ground, 10);
    for (uint32_t job = 0; job < 12; job++)
        *(sampler_follows (playground_sampler (ground), job)? &follow: &apart) += 1;
    print_message ("%u follow, %u draw apart\n", follow, apart);
    assert_true (follow > 3 && apart > 0);
    assert_true (playground_run (ground, 1e9));
    playground_destroy (&ground);
}

static void
test_128_jobs_and_all_leave_at_once (void **state)
{
    (void) state;
    playground_t *ground = playground_new (300, 12, SAMPLER_POLICY_FOLLOW, test_seed ());
    int jobs [128];
    for (int job = 0; job < 128; job++)
        jobs [job] = playground_join (ground, &(playground_job_t) { .speed = 1 - job % 7 * 0.1,
            .start = job * 11 % 300, .from = (uint32_t) job % 3 * 50, .to = 300, .epochs = job == 5? 1: 0 });
    playground_run (ground, 700);
    sampler_check (playground_sampler (ground));
    for (int job = 0; job < 128; job++)
        playground_leave (ground, jobs [job]);
    sampler_check (playground_sampler (ground));
    assert_int_equal (sampler_group_count (playground_sampler (ground)), 0);
    //  And on: a newcomer finds everything as if no job had been there.
    playground_join (ground, &(playground_job_t) { .speed = 1, .to = 300, .epochs = 2 });
    assert_true (playground_run (ground, 1e9));
    playground_destroy (&ground);
}

//  A job joins at every moment of another's epoch.
static void
test_join_at_every_moment (void **state)
{
    (void) state;
    enum { SIZE = 40 };
    for (uint32_t moment = 0; moment <= 2 * SIZE; moment++) {
        playground_t *ground = playground_new (SIZE, 4, SAMPLER_POLICY_FOLLOW, test_seed () + moment);
        playground_check_always (ground);
        playground_join (ground, &(playground_job_t) { .speed = 1, .to = SIZE, .epochs = 4 });
        playground_join (ground, &(playground_job_t) { .speed = 1, .start = moment, .from = moment % 7,
            .to = SIZE - 3,
            .epochs = 2 });
        playground_join (ground, &(playground_job_t) { .speed = 0.5, .start = moment / 2, .from = 5, .to = 6,
            .epochs = 9 });     //  of one sample
        assert_true (playground_run (ground, 1e9));
        playground_destroy (&ground);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_exactly_once),
        cmocka_unit_test (test_equal_jobs_in_step),
        cmocka_unit_test (test_beyond_the_strata),
        cmocka_unit_test (test_128_jobs_and_all_leave_at_once),
        cmocka_unit_test (test_join_at_every_moment),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
