//  Samples that cannot be read: which jobs end if bad samples are fatal (on_bad = fail), which go on, which
//  are refused and which are told.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000 };

static const char s_crop [] = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";

static sampler_policy_t s_dsa = SAMPLER_POLICY_DSA, s_follow = SAMPLER_POLICY_FOLLOW;

#define UNDER_BOTH_POLICIES(test) \
    { #test " (dsa)", test, NULL, NULL, &s_dsa }, { #test " (follow)", test, NULL, NULL, &s_follow }

static sampler_policy_t
s_policy (void **state)
{
    return *(const sampler_policy_t *) *state;
}

static bool
s_twenty_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id != 20;
}

static simulation_t *
s_simulation (void **state, uint64_t seed, uint32_t samples, bool (*readable) (void *, uint32_t),
    void *context)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = seed, .samples = samples,
        .cache_versions = 12,
        .workers = 3, .on_bad = BROKER_BAD_FAIL, .check = true, .readable = readable, .context = context };
    return simulation_new (&options);
}

static void
s_assert_ended (const simulation_t *simulation, int client, const char *fragment)
{
    const char *message, *reason = simulation_reason (simulation, client, &message);
    if (!reason || strcmp (reason, "bad_sample") || !strstr (message, fragment)
        || !strstr (message, "made unreadable"))
        fail_msg ("client %d: %s, %s", client, reason? reason: "not ended", reason? message: "");
}

static void
s_assert_refused (simulation_t *simulation, const simulated_job_t *job, const char *fragment)
{
    assert_int_equal (simulation_join (simulation, job), -1);
    const refusal_t *refusal = simulation_refusal (simulation);
    assert_string_equal (refusal->code, "bad_sample");
    if (!strstr (refusal->message, fragment) || !strstr (refusal->message, "made unreadable"))
        fail_msg ("'%s' is not in: %s", fragment, refusal->message);
}

//  Guards: a bad sample ends every job that has it in its data and no other, and each is told which sample
//  and why.  A job that comes later with this sample is refused in the same words.
static void
test_a_bad_sample_ends_jobs_that_have_it (void **state)
{
    for (uint64_t seed = test_seed (), last = seed + 8; seed < last; seed++) {
        simulation_t *simulation = s_simulation (state, seed, 100, s_twenty_is_bad, NULL);
        simulated_job_t whole = { .batch_size = 8, .slots = 4, .epochs = 3, .sample_us = 30 }, low = whole,
            high = whole;
        low.to = 50;
        high.from = 50;
        high.to = 100;
        uint32_t with [] = { 1, 20, 20, 3 }, without [] = { 1, 19, 21, 3 };
        simulated_job_t listed = whole, clean = whole;
        listed.order = clean.order = SAMPLER_ORDER_LIST;
        listed.list = with;
        clean.list = without;
        listed.list_count = clean.list_count = 4;
        simulated_job_t seeded = low, alone = high;
        seeded.order = SAMPLER_ORDER_SEEDED;
        alone.order = SAMPLER_ORDER_PRIVATE;
        const simulated_job_t *jobs [] = { &whole, &low, &listed, &seeded, &high, &clean, &alone };
        for (int client = 0; client < 7; client++)
            assert_int_equal (simulation_join (simulation, jobs [client]), client);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        for (int client = 0; client < 7; client++) {
            if (client < 4)
                s_assert_ended (simulation, client, "sample 20;");
            else
                assert_true (simulation_finished (simulation, client)
                    && !simulation_ended (simulation, client));
        }
        for (int client = 0; client < 4; client++)
            s_assert_refused (simulation, jobs [client], "sample 20;");
        for (int client = 4; client < 7; client++)
            assert_int_equal (simulation_join (simulation, jobs [client]), client + 3);
        assert_true (simulation_run (simulation, 200 * SECOND_US));
        for (int client = 7; client < 10; client++)
            assert_true (simulation_finished (simulation, client));
        simulation_destroy (&simulation);
    }
}

static bool
s_as_context_says (void *context, uint32_t id)
{
    (void) id;
    return *(bool *) context;
}

//  Guards: a job that has drawn all it will get is left alone, whatever another job finds out about the data.
static void
test_a_finished_job_is_left_alone (void **state)
{
    bool readable = true;
    simulation_t *simulation = s_simulation (state, test_seed (), 8, s_as_context_says, &readable);
    simulated_job_t job = { .batch_size = 8, .slots = 3, .epochs = 1 };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    readable = false;
    job.pipeline = s_crop;
    assert_int_equal (simulation_join (simulation, &job), 1);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    s_assert_ended (simulation, 1, "sample ");
    assert_false (simulation_ended (simulation, 0));
    simulation_destroy (&simulation);
}

static bool
s_none_is_good (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return false;
}

//  Guards: however many are known to be bad, each refuses by its own name; status names the first hundred.
static void
test_every_bad_sample_is_remembered (void **state)
{
    enum { SAMPLES = 130 };
    simulation_t *simulation = s_simulation (state, test_seed (), SAMPLES, s_none_is_good, NULL);
    simulated_job_t job = { .batch_size = 64, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_LIST };
    //  A job in ascending order ends at the first it is told of; those that were on their way then are found
    //  too.
    uint32_t bad = 0;
    for (int client = 0; bad < SAMPLES; client++) {
        job.from = bad;
        job.to = SAMPLES;
        assert_int_equal (simulation_join (simulation, &job), client);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 10 * SECOND_US));
        s_assert_ended (simulation, client, "sample ");
        json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
        json_t *dataset = json_array_get (json_object_get (status, "datasets"), 0);
        bad = (uint32_t) json_integer_value (json_object_get (status, "bad_samples"));
        assert_in_range (bad, job.from + 1, SAMPLES);
        assert_string_equal (json_string_value (json_object_get (dataset, "on_bad")), "fail");
        assert_int_equal (json_array_size (json_object_get (dataset, "bad")), bad < 100? bad: 100);
        json_decref (status);
    }
    for (uint32_t id = 0; id < SAMPLES; id++) {
        char name [32];
        snprintf (name, sizeof name, "(sample %u;", id);
        job.from = id;
        job.to = id + 1;
        s_assert_refused (simulation, &job, name);
    }
    simulation_destroy (&simulation);
}

enum { JOBS = 12 };

static bool
s_holds (const simulated_job_t *job, const bool *bad, uint32_t samples)
{
    for (uint32_t id = 0; id < samples; id++)
        if (bad [id] && id >= job->from && id < job->to)
            return true;
    return false;
}

static bool
s_by_table (void *context, uint32_t id)
{
    return !((const bool *) context) [id];
}

//  Property: whichever jobs come and go, in the end each job has either finished whole epochs and has nothing
//  bad in its data, or it ended, or it left; all invariants hold after every event.  Replay: TEST_SEED.
static void
test_random_schedules_with_fatal_samples (void **state)
{
    enum { SAMPLES = 60 };
    for (uint64_t seed = test_seed (), last = seed + 30; seed < last; seed++) {
        uint64_t random = seed ^ 0xfa7a1;
        bool bad [SAMPLES] = { false }, gone [JOBS] = { false };
        for (uint64_t count = test_below (&random, 4); count; count--)
            bad [test_below (&random, SAMPLES)] = true;
        simulation_t *simulation = s_simulation (state, seed, SAMPLES, s_by_table, bad);
        simulated_job_t jobs [JOBS];
        int clients = 0;
        for (int step = 0; step < 2 * JOBS && clients < JOBS; step++) {
            uint32_t from = (uint32_t) test_below (&random, SAMPLES);
            jobs [clients] = (simulated_job_t) { .batch_size = 1 + (uint32_t) test_below (&random, 12),
                .slots = 3,
                .epochs = 1 + test_below (&random, 3), .order = (sampler_order_t) test_below (&random, 4),
                .from = from,
                .to = from + 1 + (uint32_t) test_below (&random, SAMPLES - from),
                .seed = 1 + test_below (&random, 5),
                .sample_us = (int64_t) test_below (&random, 100),
                .pipeline = test_below (&random, 2)? s_crop: NULL };
            if (simulation_join (simulation, &jobs [clients]) >= 0)
                clients++;
            else
                assert_true (s_holds (&jobs [clients], bad, SAMPLES));
            if (clients && test_below (&random, 6) == 0) {
                int victim = (int) test_below (&random, (uint64_t) clients);
                simulation_gone (simulation, victim);
                gone [victim] = true;
            }
            simulation_run (simulation,
                simulation_now_us (simulation) + (int64_t) test_below (&random, 10000));
        }
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < clients; client++) {
            bool ended = simulation_ended (simulation, client);
            if (ended)
                s_assert_ended (simulation, client, "sample ");
            if (ended? !s_holds (&jobs [client], bad, SAMPLES)
                    : !gone [client] && (!simulation_finished (simulation, client)
                        || s_holds (&jobs [client], bad, SAMPLES)))
                fail_msg ("seed %llu: client %d", (unsigned long long) seed, client);
        }
        simulation_destroy (&simulation);
    }
}

//  ---- what a job says itself, and is told

static simulation_t *
s_dropping (void **state, uint64_t seed, uint32_t samples, bool *bad)
{
    simulation_options_t options = { .policy = s_policy (state), .seed = seed, .samples = samples,
        .cache_versions = 12,
        .workers = 3, .on_bad = BROKER_BAD_DROP, .check = true, .readable = s_by_table, .context = bad };
    return simulation_new (&options);
}

//  Guards: what a job says of bad samples counts, whatever its data set says: one ends and the other goes on,
//  and so with those that come when the sample is known.
static void
test_a_job_says_itself_what_bad_samples_do (void **state)
{
    for (int on_bad = BROKER_BAD_DROP; on_bad <= BROKER_BAD_FAIL; on_bad++) {
        simulation_options_t options = { .policy = s_policy (state), .seed = test_seed (), .samples = 100,
            .cache_versions = 12,
            .workers = 3, .on_bad = (broker_bad_t) on_bad, .check = true, .readable = s_twenty_is_bad };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t strict = { .batch_size = 8, .slots = 4, .epochs = 3, .on_bad_given = true,
            .on_bad = BROKER_BAD_FAIL };
        simulated_job_t lenient = strict, silent = strict, without = strict;
        lenient.on_bad = BROKER_BAD_DROP;
        silent.on_bad_given = false;
        silent.on_bad = on_bad == BROKER_BAD_FAIL? BROKER_BAD_DROP: BROKER_BAD_FAIL;  //  not to be looked at
        without.from = 50;
        without.to = 100;
        const simulated_job_t *jobs [] = { &strict, &lenient, &silent, &without };
        const bool ends [] = { true, false, on_bad == BROKER_BAD_FAIL, false };
        for (int client = 0; client < 4; client++)
            assert_int_equal (simulation_join (simulation, jobs [client]), client);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        for (int client = 0; client < 4; client++) {
            if (ends [client])
                s_assert_ended (simulation, client, "sample 20");
            else
                assert_true (simulation_finished (simulation, client));
        }
        s_assert_refused (simulation, &strict,
            on_bad == BROKER_BAD_FAIL? "sample 20": "the job has on_bad fail");
        assert_true (simulation_join (simulation, &lenient) >= 0);
        assert_true (simulation_run (simulation, 200 * SECOND_US));
        simulation_destroy (&simulation);
    }
}

static void
s_assert_told (const simulation_t *simulation, int client, uint32_t times, const char *fragment)
{
    const char *message;
    assert_int_equal (simulation_unreadable_notices (simulation, client, &message), times);
    if (fragment && !strstr (message, fragment))
        fail_msg ("client %d: '%s' is not in: %s", client, fragment, message);
}

//  Guards: a job is told of what is missing of its own data and of nothing else: once, before its first epoch
//  ends, with the count; so is one that comes when all are known.  Status has the same.
static void
test_a_job_is_told_of_its_own_samples (void **state)
{
    bool bad [100] = { [3] = true, [7] = true, [70] = true };
    simulation_t *simulation = s_dropping (state, test_seed (), 100, bad);
    simulated_job_t whole = { .batch_size = 8, .slots = 4, .epochs = 3 }, low = whole, clean = whole,
        listed = whole;
    low.to = 50;
    clean.from = 20;
    clean.to = 60;
    uint32_t list [] = { 3, 4, 3, 70 };
    listed.order = SAMPLER_ORDER_LIST;
    listed.list = list;
    listed.list_count = 4;
    const simulated_job_t *jobs [] = { &whole, &low, &clean, &listed };
    for (int round = 0; round < 2; round++) {
        int first = simulation_must_join (simulation, jobs [0]);
        for (int client = 1; client < 4; client++)
            assert_int_equal (simulation_must_join (simulation, jobs [client]), first + client);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US));
        s_assert_told (simulation, first, 1,
            "3 samples of this job's data cannot be read, and are left out: ");
        s_assert_told (simulation, first + 1, 1, "2 samples of this job's data cannot be read");
        s_assert_told (simulation, first + 2, 0, NULL);
        s_assert_told (simulation, first + 3, 1, "2 samples of this job's data cannot be read");
        json_t *status = broker_status (simulation_broker (simulation), NULL, 0), *entry;
        size_t index;
        const json_int_t counts [] = { 3, 2, 0, 2 }, samples [] = { 97, 48, 40, 1 };
        json_array_foreach (json_object_get (status, "jobs"), index, entry) {
            json_t *unreadable = json_object_get (entry, "unreadable");
            assert_int_equal (json_integer_value (json_object_get (unreadable, "count")), counts [index % 4]);
            assert_int_equal (json_array_size (json_object_get (unreadable, "samples")), counts [index % 4]);
            assert_int_equal (json_integer_value (json_object_get (entry, "epoch_samples")),
                samples [index % 4]);
        }
        json_decref (status);
        for (int client = 0; client < 4; client++)
            assert_true (simulation_finished (simulation, first + client));
    }
    simulation_destroy (&simulation);
}

//  Guards: where an epoch takes long, the job is told a second after the first was found, and of what is
//  found later at the epoch's end: twice, however many there are.
static void
test_a_long_epoch_is_told_in_the_midst (void **state)
{
    enum { SAMPLES = 400 };
    bool bad [SAMPLES] = { false };
    for (uint32_t id = 0; id < SAMPLES; id += 4)
        bad [id] = true;
    simulation_t *simulation = s_dropping (state, test_seed (), SAMPLES, bad);
    //  15 seconds an epoch
    simulated_job_t job = { .batch_size = 4, .slots = 3, .epochs = 2, .sample_us = 50000 };
    simulation_must_join (simulation, &job);
    simulation_run (simulation, 5 * SECOND_US);
    s_assert_told (simulation, 0, 1, "samples of this job's data cannot be read");
    assert_int_equal (simulation_epochs (simulation, 0), 1);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    s_assert_told (simulation, 0, 2, "100 samples of this job's data cannot be read");
    s_assert_told (simulation, 0, 2, " more");
    //  Another one, when all of them are known: after a second, and never again.
    simulation_must_join (simulation, &job);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 2);
    s_assert_told (simulation, 1, 0, NULL);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    s_assert_told (simulation, 1, 1, "100 samples of this job's data cannot be read");
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    s_assert_told (simulation, 1, 1, NULL);
    simulation_destroy (&simulation);
}

//  Guards: a job is told the names of its bad samples even if they are not among the first hundred of its
//  data set.
static void
test_each_job_has_names (void **state)
{
    enum { SAMPLES = 300 };
    bool bad [SAMPLES] = { false };
    for (uint32_t id = 0; id < SAMPLES; id += 2)
        bad [id] = true;
    simulation_t *simulation = s_dropping (state, test_seed (), SAMPLES, bad);
    simulated_job_t most = { .batch_size = 8, .slots = 4, .epochs = 1, .to = 250 }, last = most;
    last.from = 290;
    last.to = 300;
    simulation_must_join (simulation, &most);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    simulation_must_join (simulation, &last);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    s_assert_told (simulation, 0, 1, "; made unreadable; and 103 more");
    s_assert_told (simulation, 1, 1,
        "5 samples of this job's data cannot be read, and are left out: made unreadable");
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
    json_t *entry = json_array_get (json_object_get (status, "jobs"), 1);
    assert_int_equal (json_array_size (json_object_get (json_object_get (entry, "unreadable"), "samples")),
        5);
    assert_int_equal (json_array_size (json_object_get (json_array_get (json_object_get (status, "datasets"),
        0), "bad")), 100);
    json_decref (status);
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        UNDER_BOTH_POLICIES (test_a_bad_sample_ends_jobs_that_have_it),
        UNDER_BOTH_POLICIES (test_a_finished_job_is_left_alone),
        UNDER_BOTH_POLICIES (test_every_bad_sample_is_remembered),
        UNDER_BOTH_POLICIES (test_random_schedules_with_fatal_samples),
        UNDER_BOTH_POLICIES (test_a_job_says_itself_what_bad_samples_do),
        UNDER_BOTH_POLICIES (test_a_job_is_told_of_its_own_samples),
        UNDER_BOTH_POLICIES (test_a_long_epoch_is_told_in_the_midst),
        UNDER_BOTH_POLICIES (test_each_job_has_names)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
