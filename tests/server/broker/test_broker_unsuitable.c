//  Samples that are whole, but not what a job's shared stage asks for: which jobs end, and which notice
//  nothing.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "pipeline.h"
#include "seed.h"
#include "simulation.h"
#include "version.h"

enum { SECOND_US = 1000000, SAMPLES_MAX = 100, STAGES = 3, ODD = 20, SLOW_US = 5000 };

//  One random stage and two that are not.
static const char *const s_stages [STAGES] = {
    "[{\"op\":\"random_resized_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]",
    "[{\"op\":\"center_crop\",\"size\":[1,1]}]",
    "[{\"op\":\"resize\",\"size\":[1,1]},{\"share\":true}]"
};

typedef struct {
    bool unsuitable [STAGES] [SAMPLES_MAX];
    bool bad [SAMPLES_MAX];
    bool bad_once;              //  what is bad is so the first time it is looked at, and only unsuitable
                                //  after that
    uint64_t apart_seed;        //  only in the class of this job is anything unsuitable; 0: in all
} world_t;

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW;

#define UNDER_BOTH_POLICIES(test) \
    { #test " (dsa)", test, NULL, NULL, &s_dsa }, { #test " (follow)", test, NULL, NULL, &s_follow }

static size_t
s_stage (const pipeline_t *pipeline)
{
    const char *text = pipeline_shared_text (pipeline);
    return strstr (text, "random_resized_crop")? 0: strstr (text, "center_crop")? 1: 2;
}

static bool
s_readable (void *context, uint32_t id)
{
    world_t *world = context;
    bool is_bad = world->bad [id];
    if (world->bad_once)
        world->bad [id] = false;
    return !is_bad;
}

static bool
s_suits (void *context, const broker_t *broker, const version_t *version)
{
    const world_t *world = context;
    if (world->apart_seed && version_key (broker, version).seed != world->apart_seed)
        return true;
    return !world->unsuitable [s_stage (version_pipeline (broker, version))] [version->id];
}

//  So that many wait for the odd one when it turns out to be odd.
static int64_t
s_cost_us (void *context, uint32_t id)
{
    (void) context;
    return id == ODD? SLOW_US: 100;
}

static simulation_t *
s_simulation (void **state, uint64_t seed, uint32_t samples, broker_bad_t on_bad, world_t *world)
{
    simulation_options_t options = { .policy = *(const sampler_policy_t *) *state, .seed = seed,
        .samples = samples,
        .cache_versions = 12, .workers = 3, .on_bad = on_bad, .check = true, .readable = s_readable,
        .suits = s_suits,
        .cost_us = s_cost_us, .context = world };
    return simulation_new (&options);
}

static void
s_assert_ended (const simulation_t *simulation, int client, const char *name)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (!reason || strcmp (reason, "unsuitable") || strncmp (message, "made unsuitable (", 17)
        || !strstr (message, name)
    ||  !strstr (message, "change that, or leave the sample out by a subset"))
        fail_msg ("client %d: %s, %s", client, reason? reason: "not ended", reason? message: "");
}

//  It got every epoch, and every sample in it (the simulation lets nothing come twice, or from elsewhere).
static void
s_assert_whole (const simulation_t *simulation, int client, const simulated_job_t *job, size_t samples)
{
    if (!simulation_finished (simulation, client) || simulation_ended (simulation, client))
        fail_msg ("client %d did not finish", client);
    assert_int_equal (simulation_epochs (simulation, client), job->epochs);
    for (size_t epoch = 0; epoch < job->epochs; epoch++)
        if (simulation_epoch (simulation, client, epoch)->count != samples)
            fail_msg ("client %d, epoch %zu: %zu of %zu samples", client, epoch,
                simulation_epoch (simulation, client, epoch)->count, samples);
}

static uint64_t
s_status (simulation_t *simulation, const char *key)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
    uint64_t value = (uint64_t) json_integer_value (json_object_get (status, key));
    json_decref (status);
    return value;
}

//  Guards: an unsuitable sample ends every job that has it in its data and a stage that it does not suit, in
//  whatever order the job draws, and no other job, whatever on_bad says.  A job that leaves the sample out
//  goes on; nothing is bad, and no job is refused.
static void
test_it_ends_its_class_and_no_other (void **state)
{
    enum { JOBS = 11, ENDING = 5 };
    for (uint64_t seed = test_seed (), last = seed + 8; seed < last; seed++) {
        world_t world = { .unsuitable = { [1] = { [ODD] = true } } };
        simulation_t *simulation = s_simulation (state, seed, 100, seed % 2? BROKER_BAD_FAIL: BROKER_BAD_DROP,
            &world);
        uint32_t with [] = { 1, ODD, ODD, 3 }, without [] = { 1, 19, 21, 3 };
        simulated_job_t jobs [JOBS];
        size_t counts [JOBS] = { 100, 50, 4, 50, 100, 50, 4, 100, 50, 100, 100 };
        for (int client = 0; client < JOBS; client++)
            jobs [client] = (simulated_job_t) { .batch_size = 8, .slots = 4, .epochs = 3, .sample_us = 30,
                .pipeline = s_stages [1] };
        jobs [1].to = jobs [3].to = jobs [8].to = 50;
        jobs [2].order = jobs [6].order = SAMPLER_ORDER_LIST;
        jobs [2].list = with;
        jobs [6].list = without;
        jobs [2].list_count = jobs [6].list_count = 4;
        jobs [3].order = jobs [9].order = SAMPLER_ORDER_SEEDED;
        jobs [4].order = jobs [10].order = SAMPLER_ORDER_PRIVATE;
        jobs [5].from = 50;
        jobs [5].to = 100;
        jobs [7].pipeline = jobs [9].pipeline = s_stages [0];
        jobs [8].pipeline = jobs [10].pipeline = s_stages [2];
        for (int client = 0; client < JOBS; client++)
            assert_int_equal (simulation_join (simulation, &jobs [client]), client);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        for (int client = 0; client < ENDING; client++)
            s_assert_ended (simulation, client, "sample 20 of data set 'data'");
        for (int client = ENDING; client < JOBS; client++)
            s_assert_whole (simulation, client, &jobs [client], counts [client]);
        assert_int_equal (s_status (simulation, "bad_samples"), 0);
        for (int client = 0; client < JOBS; client++)
            assert_int_equal (simulation_join (simulation, &jobs [client]), JOBS + client);
        assert_true (simulation_run (simulation, 200 * SECOND_US));
        for (int client = 0; client < ENDING; client++)
            s_assert_ended (simulation, JOBS + client, "sample 20 of data set 'data'");
        for (int client = ENDING; client < JOBS; client++)
            s_assert_whole (simulation, JOBS + client, &jobs [client], counts [client]);
        simulation_destroy (&simulation);
    }
}

//  Guards: a seeded job with random pixels has a class of its own.  A sample that does not suit there does
//  not affect other jobs with the same list of operations, seeded or not.  The seeded job itself ends when
//  its own version fails.
static void
test_a_seeded_job_is_apart (void **state)
{
    enum { JOBS = 5 };
    for (uint64_t seed = test_seed (), last = seed + 6; seed < last; seed++)
        for (uint64_t apart_seed = 0; apart_seed < 8; apart_seed += 7) {
            world_t world = { .unsuitable = { [0] = { [ODD] = true } }, .apart_seed = apart_seed };
            simulation_t *simulation = s_simulation (state, seed, 40, BROKER_BAD_FAIL, &world);
            simulated_job_t jobs [JOBS];
            for (int client = 0; client < JOBS; client++)
                jobs [client] = (simulated_job_t) { .batch_size = 5, .slots = 4, .epochs = 2,
                    .pipeline = s_stages [0] };
            jobs [1].order = jobs [2].order = SAMPLER_ORDER_SEEDED;
            jobs [1].seed = 7;
            jobs [2].seed = 8;
            jobs [3].pipeline = s_stages [2];
            jobs [4].order = SAMPLER_ORDER_SEEDED;
            jobs [4].seed = 9;
            jobs [4].to = ODD;
            for (int client = 0; client < JOBS; client++)
                assert_int_equal (simulation_join (simulation, &jobs [client]), client);
            assert_true (simulation_run (simulation, 100 * SECOND_US));
            for (int client = 0; client < JOBS; client++)
                if (client == 1 || (client < 3 && !apart_seed))
                    s_assert_ended (simulation, client, "sample 20 ");
                else
                    s_assert_whole (simulation, client, &jobs [client], client == 4? ODD: 40);
            simulation_destroy (&simulation);
        }
}

//  Guards: what failed leaves the index at once.  What its class has else stays for the next job, if it is
//  not random, and what another class has of this very sample stays as well.
static void
test_the_version_goes (void **state)
{
    for (size_t stage = 0; stage < STAGES; stage++) {
        world_t world = { .bad = { false } };
        simulation_t *simulation = s_simulation (state, test_seed (), 40, BROKER_BAD_DROP, &world);
        world.unsuitable [stage] [ODD] = true;
        uint32_t with [] = { 1, 2, 3, ODD };
        simulated_job_t job = { .batch_size = 4, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST,
            .list = with,
            .list_count = 4, .pipeline = s_stages [stage] }, other = job;
        other.pipeline = s_stages [stage == 1? 2: 1];
        for (int round = 0; round < 3; round++) {
            assert_int_equal (simulation_join (simulation, &other), 2 * round);
            assert_true (simulation_run (simulation, simulation_now_us (simulation) + SECOND_US));
            s_assert_whole (simulation, 2 * round, &other, 4);
            assert_int_equal (simulation_join (simulation, &job), 2 * round + 1);
            assert_true (simulation_run (simulation, simulation_now_us (simulation) + SECOND_US));
            s_assert_ended (simulation, 2 * round + 1, "sample 20 ");
            assert_int_equal (s_status (simulation, "cache_versions"), 4 + (stage? 3: 0));
            assert_int_equal (s_status (simulation, "prepared"), 4 + (stage? 3: 3 * (round + 1)));
        }
        simulation_destroy (&simulation);
    }
}

//  Guards: a job ends as soon as it is known that it will, not only when it comes to the sample.
static void
test_it_ends_a_job_that_has_not_reached_it (void **state)
{
    world_t world = { .unsuitable = { [1] = { [ODD] = true } } };
    simulation_t *simulation = s_simulation (state, test_seed (), 40, BROKER_BAD_FAIL, &world);
    uint32_t ids [40];
    for (uint32_t index = 0; index < 40; index++)
        ids [index] = (ODD + 1 + index) % 40;
    simulated_job_t late = { .batch_size = 2, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST,
        .list = ids,
        .list_count = 40, .pipeline = s_stages [1] }, early = late, without = late;
    early.list = ids + 39;
    early.list_count = 1;
    without.list_count = 39;
    const simulated_job_t *jobs [] = { &late, &without, &early };
    for (int client = 0; client < 3; client++) {
        assert_int_equal (simulation_join (simulation, jobs [client]), client);
        if (client < 2)
            simulation_stop (simulation, client);
    }
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    s_assert_ended (simulation, 0, "sample 20 ");
    s_assert_ended (simulation, 2, "sample 20 ");
    assert_false (simulation_ended (simulation, 1));
    simulation_continue (simulation, 1);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    s_assert_whole (simulation, 1, &without, 39);
    simulation_destroy (&simulation);
}

//  Guards: a job that has drawn all it will get, and got it, is left alone.
static void
test_a_finished_job_is_left_alone (void **state)
{
    world_t world = { .bad = { false } };
    simulation_t *simulation = s_simulation (state, test_seed (), 24, BROKER_BAD_DROP, &world);
    simulated_job_t job = { .batch_size = 8, .slots = 3, .epochs = 1, .pipeline = s_stages [0] };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    world.unsuitable [0] [ODD] = true;
    assert_int_equal (simulation_join (simulation, &job), 1);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    s_assert_ended (simulation, 1, "sample 20 ");
    s_assert_whole (simulation, 0, &job, 24);
    simulation_destroy (&simulation);
}

//  Guards: a sample that another class has found bad, while this one had it prepared, is bad for these jobs
//  too: it has left their data, and does not end them as unsuitable.
static void
test_bad_comes_before_unsuitable (void **state)
{
    for (int on_bad = BROKER_BAD_DROP; on_bad <= BROKER_BAD_FAIL; on_bad++)
        for (int other = 0; other < STAGES; other++) {
            world_t world = { .bad = { [ODD] = true }, .bad_once = true };
            simulation_t *simulation = s_simulation (state, test_seed (), 40, (broker_bad_t) on_bad, &world);
            for (size_t stage = 0; stage < STAGES; stage++)
                world.unsuitable [stage] [ODD] = true;
            uint32_t ids [] = { ODD, 1, 2, 3 };
            simulated_job_t jobs [2];
            for (int client = 0; client < 2; client++) {
                jobs [client] = (simulated_job_t) { .batch_size = 4, .slots = 3, .epochs = 2,
                    .order = SAMPLER_ORDER_LIST,
                    .list = ids, .list_count = 4,
                    .pipeline = s_stages [client? other: (other + 1) % STAGES] };
                assert_int_equal (simulation_join (simulation, &jobs [client]), client);
            }
            assert_true (simulation_run (simulation, 100 * SECOND_US));
            assert_int_equal (s_status (simulation, "bad_samples"), 1);
            for (int client = 0; client < 2; client++) {
                const char *message, *reason = simulation_reason (simulation, client, &message);
                if (on_bad == BROKER_BAD_FAIL)
                    assert_string_equal (reason, "bad_sample");
                else
                    s_assert_whole (simulation, client, &jobs [client], 3);
            }
            simulation_destroy (&simulation);
        }
}

enum { JOBS = 14, SAMPLES = 60 };

//  Whether the job must end: its data hold what does not suit it, and is not bad, which comes first.
static bool
s_is_odd (const simulated_job_t *job, size_t stage, const world_t *world)
{
    for (uint32_t id = job->from; id < job->to; id++)
        if (world->unsuitable [stage] [id] && !world->bad [id])
            return true;
    return false;
}

static size_t
s_bad_of (const simulated_job_t *job, const world_t *world)
{
    size_t count = 0;
    for (uint32_t id = job->from; id < job->to; id++)
        count += world->bad [id];
    return count;
}

static void
s_judge (const simulation_t *simulation, int client, const simulated_job_t *job, size_t stage,
    const world_t *world, broker_bad_t on_bad)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    size_t bad = s_bad_of (job, world), samples = job->to - job->from;
    bool is_odd = s_is_odd (job, stage, world);
    if (!reason) {
        assert_false (is_odd);
        assert_false (on_bad == BROKER_BAD_FAIL && bad > 0);
        s_assert_whole (simulation, client, job, samples - bad);
    }
    else
    if (!strcmp (reason, "unsuitable")) {
        s_assert_ended (simulation, client, "sample ");
        assert_true (is_odd);
    }
    else
    if (!strcmp (reason, "bad_sample"))
        assert_true (on_bad == BROKER_BAD_FAIL && bad > 0);
    else {
        assert_string_equal (reason, "unreadable");
        assert_true (on_bad == BROKER_BAD_DROP && bad == samples);
    }
}

//  Property: whichever jobs come and go, a job ends for a sample that does not suit it exactly if its own
//  data and its own stage say so, and gets all its epochs otherwise; all invariants hold after every event.
//  Replay: TEST_SEED.
static void
test_random_schedules (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + 30; seed < last; seed++) {
        uint64_t random = seed ^ 0x0dd;
        world_t world = { .bad = { false } };
        broker_bad_t on_bad = test_below (&random, 2)? BROKER_BAD_FAIL: BROKER_BAD_DROP;
        for (uint64_t count = test_below (&random, 5); count; count--)
            world.unsuitable [test_below (&random, STAGES)] [test_below (&random, SAMPLES)] = true;
        for (uint64_t count = test_below (&random, 3); count; count--)
            world.bad [test_below (&random, SAMPLES)] = true;
        world.unsuitable [test_below (&random, STAGES)] [ODD] = true;
        simulation_t *simulation = s_simulation (state, seed, SAMPLES, on_bad, &world);
        simulated_job_t jobs [JOBS];
        size_t stages [JOBS];
        bool gone [JOBS] = { false };
        int clients = 0;
        for (int step = 0; step < 2 * JOBS && clients < JOBS; step++) {
            uint32_t from = (uint32_t) test_below (&random, SAMPLES);
            stages [clients] = test_below (&random, STAGES);
            jobs [clients] = (simulated_job_t) { .batch_size = 1 + (uint32_t) test_below (&random, 12),
                .slots = 3,
                .epochs = 1 + test_below (&random, 3), .order = (sampler_order_t) test_below (&random, 4),
                .from = from,
                .to = from + 1 + (uint32_t) test_below (&random, SAMPLES - from),
                .seed = 1 + test_below (&random, 5),
                .sample_us = (int64_t) test_below (&random, 100), .pipeline = s_stages [stages [clients]] };
            if (simulation_join (simulation, &jobs [clients]) >= 0)
                clients++;
            else
                assert_true (s_bad_of (&jobs [clients], &world) > 0);
            if (clients && test_below (&random, 8) == 0) {
                int victim = (int) test_below (&random, (uint64_t) clients);
                gone [victim] = true;
                simulation_gone (simulation, victim);
            }
            simulation_run (simulation,
                simulation_now_us (simulation) + (int64_t) test_below (&random, 10000));
        }
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < clients; client++)
            if (!gone [client])
                s_judge (simulation, client, &jobs [client], stages [client], &world, on_bad);
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        UNDER_BOTH_POLICIES (test_it_ends_its_class_and_no_other),
        UNDER_BOTH_POLICIES (test_a_seeded_job_is_apart),
        UNDER_BOTH_POLICIES (test_the_version_goes),
        UNDER_BOTH_POLICIES (test_it_ends_a_job_that_has_not_reached_it),
        UNDER_BOTH_POLICIES (test_a_finished_job_is_left_alone),
        UNDER_BOTH_POLICIES (test_bad_comes_before_unsuitable),
        UNDER_BOTH_POLICIES (test_random_schedules)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
