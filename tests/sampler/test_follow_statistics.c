/*  Guards: under policy `follow` orders are uniform at every position of every epoch, in mixes of jobs that
 *  lean on each other hard, and fresh from epoch to epoch (design: sampling); and it saves what it says.
 *  `resident` beside it shows that these measures can fail.
 */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "playground.h"
#include "seed.h"
#include "statistics.h"

//  Uniformity is judged over so many seeds.  Nine runs in ten notice chances that are off by 9 % in an epoch
//  of a job (root mean square over samples and bins), or by 5 % if groups of samples (statistics.h) have them
//  in common; with all rounds (effort.h) by 5 %, or 3 %.
enum { SEEDS = EFFORT (1000), BINS = STATISTICS_BINS, SAMPLES = 240, EPOCHS_MAX = 16, JOBS_MAX = 8 };

//  ---- uniform

typedef struct {
    const char *name;
    size_t versions;
    double jitter;
    struct {
        double speed, start;        //  start, leave: in epochs of SAMPLES ticks
        uint64_t epochs;
        double from, to;
        uint32_t stride;
        double leave;               //  0: does not
        int order;
    } jobs [JOBS_MAX];
} mix_t;

enum { SHARED = SAMPLER_ORDER_SHARED, PRIVATE = SAMPLER_ORDER_PRIVATE };

//  Of each job: speed, start, epochs, from, to, stride, leave, order.
static const mix_t s_mixes [] = {
    { "four equal, out of step", 6, 0, {
        { 1, 0, 5, 0, 1, 0, 0, SHARED },
        { 1, .25, 5, 0, 1, 0, 0, SHARED },
        { 1, .5, 5, 0, 1, 0, 0, SHARED },
        { 1, .77, 5, 0, 1, 0, 0, SHARED } } },
    { "all in the cache", SAMPLES, 0, {
        { 1, 0, 5, 0, 1, 0, 0, SHARED },
        { 1, .25, 5, 0, 1, 0, 0, SHARED },
        { 1, .5, 5, 0, 1, 0, 0, SHARED },
        { 1, .77, 5, 0, 1, 0, 0, SHARED } } },
    { "speeds", 6, .2, {
        { 1, 0, 6, 0, 1, 0, 0, SHARED },
        { .73, 0, 4, 0, 1, 0, 0, SHARED },
        { .41, 0, 2, 0, 1, 0, 0, SHARED },
        { .23, 0, 1, 0, 1, 0, 0, SHARED } } },
    { "overlapping data", 8, 0, {
        { 1, 0, 5, 0, .75, 0, 0, SHARED },
        { 1, .3, 5, .25, 1, 0, 0, SHARED },
        { .6, 0, 3, 0, 1, 0, 0, SHARED } } },
    { "nested and scattered data", 12, .1, {
        { 1, 0, 5, 0, 1, 0, 0, SHARED },
        { 1, .4, 9, 0, 1, 2, 0, SHARED },
        { .8, .2, 9, 0, 1, 3, 0, SHARED },
        { 1, .6, 20, .5, .75, 0, 0, SHARED } } },
    { "joins and leaves", 8, 0, {
        { 1, 0, 9, 0, 1, 0, 0, SHARED },
        { 1, .4, 0, 0, .5, 0, 2.7, SHARED },
        { 1, 1.3, 0, .25, 1, 0, 1.6, SHARED },
        { .7, 1.5, 0, 0, 1, 3, 3.1, SHARED },
        { 1, 2.8, 0, .3, .8, 0, 4.4, SHARED },
        { 1, 3.2, 5, 0, 1, 0, 0, SHARED } } },
    { "the first leaves", 8, .3, {
        { 1, 0, 0, 0, 1, 0, 1.5, SHARED },
        { 1, .2, 5, 0, 1, 0, 0, SHARED },
        { .9, .5, 4, .2, 1, 0, 0, SHARED } } },
    { "a merge beside what lies in the cache", 220, 0, {
        { 1, 0, 0, 0, .5, 0, .5, SHARED },
        { .5, .1, 0, 0, 1, 0, .6, SHARED },
        { 1, .52, 3, 0, 1, 0, 0, SHARED },
        { 1, .65, 3, 0, 1, 0, 0, SHARED } } },
    { "a private job on half the data", 10, 0, {
        { 1, 0, 5, 0, 1, 0, 0, SHARED },
        { 1, .5, 5, 0, 1, 0, 0, SHARED },
        { 1, .1, 9, 0, .5, 0, 0, PRIVATE } } },
};
enum { MIXES = sizeof s_mixes / sizeof *s_mixes };

typedef struct {
    uint32_t counts [JOBS_MAX] [EPOCHS_MAX] [SAMPLES] [BINS];
    uint32_t sizes [JOBS_MAX];
    uint32_t finished [JOBS_MAX] [EPOCHS_MAX];
} tally_t;

static void
s_tally (void *context, int job, uint64_t epoch, uint32_t position, uint32_t id)
{
    tally_t *tally = context;
    if (epoch >= EPOCHS_MAX)
        return;
    uint32_t size = tally->sizes [job];
    tally->counts [job] [epoch] [id] [position * BINS / size]++;
    tally->finished [job] [epoch] += position + 1 == size;
}

static uint32_t
s_play_mix (const mix_t *mix, uint64_t seed, tally_t *tally, sampler_policy_t policy)
{
    playground_t *ground = playground_new (SAMPLES, mix->versions, policy, seed);
    playground_on_draw (ground, s_tally, tally);
    uint32_t jobs = 0;
    while (jobs < JOBS_MAX && mix->jobs [jobs].speed > 0) {
        playground_job_t job = {
            .speed = mix->jobs [jobs].speed, .start = mix->jobs [jobs].start * SAMPLES,
            .from = (uint32_t) (mix->jobs [jobs].from * SAMPLES),
            .to = (uint32_t) (mix->jobs [jobs].to * SAMPLES),
            .stride = mix->jobs [jobs].stride, .epochs = mix->jobs [jobs].epochs,
            .order = (sampler_order_t) mix->jobs [jobs].order,
            .jitter = mix->jitter
        };
        uint32_t stride = job.stride? job.stride: 1;
        tally->sizes [jobs++] = (job.to - job.from + stride - 1) / stride;
        playground_join (ground, &job);
    }
    //  A leave at a time; a mix lists them in any order.
    for (double at = 0; at < 12; at += 0.1) {
        playground_run (ground, at * SAMPLES);
        for (uint32_t job = 0; job < jobs; job++)
            if (mix->jobs [job].leave > 0 && at >= mix->jobs [job].leave)
                playground_leave (ground, (int) job);
    }
    for (uint32_t job = 0; job < jobs; job++)
        playground_leave (ground, (int) job);
    playground_destroy (&ground);
    return jobs;
}

//  The largest |z| of a mix's epochs that all seeds finished, two figures each; *tests_p counts them.
static double
s_worst_z (const mix_t *mix, sampler_policy_t policy, uint64_t seed, size_t *tests_p)
{
    tally_t *tally = calloc (1, sizeof *tally);
    assert_non_null (tally);
    uint32_t jobs = 0;
    for (uint64_t each = 0; each < SEEDS; each++)
        jobs = s_play_mix (mix, seed + each * 7919, tally, policy);
    double worst = 0;
    for (uint32_t job = 0; job < jobs; job++)
        for (uint32_t epoch = 0; epoch < EPOCHS_MAX; epoch++)
            if (tally->sizes [job] >= BINS && tally->finished [job] [epoch] == SEEDS) {
                worst = fmax (worst, statistics_worst_z (tally->counts [job] [epoch], SAMPLES,
                    tally->sizes [job], SEEDS));
                *tests_p += 2;
            }
    free (tally);
    return worst;
}

static void
test_uniform_in_every_mix (void **state)
{
    (void) state;
    uint64_t seed = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", seed);
    double worst = 0;
    size_t tests = 0;
    for (size_t mix = 0; mix < MIXES; mix++) {
        size_t before = tests;
        double z = s_worst_z (&s_mixes [mix], SAMPLER_POLICY_FOLLOW, seed, &tests);
        print_message ("%s: largest |z| %.2f of %zu figures\n", s_mixes [mix].name, z, tests - before);
        assert_true (tests > before);
        worst = z > worst? z: worst;
    }
    assert_true (worst < statistics_z_limit (tests));
}

//  ---- fresh, and what it saves

enum { LONG_SAMPLES = 2000, LONG_EPOCHS = 11 };

typedef struct {
    uint32_t positions [4] [LONG_EPOCHS] [LONG_SAMPLES];
} orders_t;

static void
s_note_order (void *context, int job, uint64_t epoch, uint32_t position, uint32_t id)
{
    ((orders_t *) context)->positions [job] [epoch] [id] = position;
}

//  Mean over pairs of epochs `lag` apart (design: fresh).
static double
s_phi2 (const orders_t *orders, int job, size_t lag)
{
    double sum = 0;
    for (size_t epoch = 0; epoch + lag < LONG_EPOCHS; epoch++) {
        double table [10] [10] = { { 0 } };
        for (uint32_t id = 0; id < LONG_SAMPLES; id++)
            table [orders->positions [job] [epoch] [id] * 10 / LONG_SAMPLES]
                [orders->positions [job] [epoch + lag] [id] * 10 / LONG_SAMPLES]++;
        double expected = LONG_SAMPLES / 100.0;
        for (int cell = 0; cell < 100; cell++)
            sum += (table [cell / 10] [cell % 10] - expected) * (table [cell / 10] [cell % 10]
                - expected) / expected;
        sum -= 81;
    }
    return sum / LONG_SAMPLES / (double) (LONG_EPOCHS - lag);
}

//  Four equal jobs out of step; *phi2_p: of the worst job.  Returns preparations per delivery.
static double
s_play_four (sampler_policy_t policy, uint64_t seed, double *phi2_p, double *older_p)
{
    orders_t *orders = calloc (1, sizeof *orders);
    assert_non_null (orders);
    playground_t *ground = playground_new (LONG_SAMPLES, LONG_SAMPLES / 50, policy, seed);
    playground_on_draw (ground, s_note_order, orders);
    for (int job = 0; job < 4; job++)
        playground_join (ground, &(playground_job_t) { .speed = 1, .start = job * 0.26 * LONG_SAMPLES,
            .to = LONG_SAMPLES, .epochs = LONG_EPOCHS });
    assert_true (playground_run (ground, 1e9));
    double share = (double) playground_prepared (ground) / (double) playground_delivered (ground);
    *phi2_p = *older_p = -1;
    for (int job = 0; job < 4; job++) {
        double phi2 = s_phi2 (orders, job, 1), older = s_phi2 (orders, job, 2);
        *phi2_p = phi2 > *phi2_p? phi2: *phi2_p;
        *older_p = older > *older_p? older: *older_p;
    }
    playground_destroy (&ground);
    free (orders);
    return share;
}

//  Bounds: phi2 of independent shuffles has a standard deviation of 12.7 / (N sqrt (pairs)) = 0.002 here.
static void
test_fresh_and_thrifty (void **state)
{
    (void) state;
    double phi2, older;
    double share = s_play_four (SAMPLER_POLICY_FOLLOW, test_seed (), &phi2, &older);
    print_message ("follow: %.3f prepared a delivery, phi2 %.3f, two epochs apart %.3f\n", share, phi2,
        older);
    assert_true (share < 0.40);
    assert_true (phi2 < 0.028 && older < 0.028);
    share = s_play_four (SAMPLER_POLICY_RESIDENT, test_seed (), &phi2, &older);
    print_message ("resident: %.3f prepared a delivery, phi2 %.3f, two epochs apart %.3f\n", share, phi2,
        older);
    assert_true (share < 0.30);
    assert_true (phi2 > 1);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_uniform_in_every_mix),
        cmocka_unit_test (test_fresh_and_thrifty)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
