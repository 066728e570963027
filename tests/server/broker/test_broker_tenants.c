//  Several tenants on one broker: what each may have, that nothing of one is told to another, and what status
//  shows each of them.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "explain.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 60, REFUSED = -1, LIST = 24, ROUNDS = 2000 };

static const char s_run [] = "4b7c1d2e3f405162738495a6b7c8d9ea",
    s_one [] = "00112233445566778899aabbccddeeff", s_crop [] = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";

//  The operator and two others, all of one weight.
static const broker_tenant_t s_two [] = { { .name = "audio", .weight = 1 },
    { .name = "vision", .weight = 1 } };

static simulation_options_t
s_options (void)
{
    return (simulation_options_t) { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (), .samples = SAMPLES,
        .cache_versions = 60, .workers = 2, .check = true, .tenants = s_two, .tenant_count = 2 };
}

static simulated_job_t
s_job (const char *tenant)
{
    return (simulated_job_t) { .tenant = tenant, .batch_size = 4, .slots = 3, .epochs = 2,
        .sample_us = 1000 };
}

static int
s_join (simulation_t *simulation, const simulated_job_t *job)
{
    return simulation_join (simulation, job);
}

static void
s_assert_refused (const simulation_t *simulation, const char *code, const char *fragment)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
}

//  ---- shares

//  Property: whatever the weights, each tenant has something, all together have no more than there is, and a
//  tenant of more weight has no less.  Replay: TEST_SEED.
static void
shares_add_up (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < ROUNDS; round++) {
        broker_t *broker = broker_new (&(broker_options_t) { .cache_bytes = 1 << 20, .workers = 1,
            .jobs_bytes_max = 1 << 20 });
        size_t count = test_below (&random, BROKER_TENANTS_MAX);
        char name [16];
        for (size_t index = 0; index < count; index++) {
            snprintf (name, sizeof name, "tenant%zu", index);
            tenant_add (broker, &(broker_tenant_t) { .name = name,
                .weight = 1 + (uint32_t) test_below (&random,
                test_below (&random, 2)? 3: BROKER_WEIGHT_MAX) });
        }
        uint64_t whole = count + 1 + test_below (&random, test_below (&random, 2)? 300: UINT64_C (1) << 40),
            sum = 0;
        for (uint32_t number = 0; number < tenant_total (broker); number++) {
            uint64_t share = tenant_share (broker, tenant_of_number (broker, number), whole);
            assert_true (share >= 1);
            sum += share;
        }
        if (sum > whole || (count == 0 && sum != whole))
            fail_msg ("round %d: %zu tenants share %llu of %llu", round, count + 1, (unsigned long long) sum,
                (unsigned long long) whole);
        broker_destroy (&broker);
    }
}

//  ---- limits

typedef struct {
    const char *what;
    const char *code, *told;        //  to a tenant that has too much
    broker_tenant_t tenants [2];
    simulation_options_t options;   //  what is other than s_options
    simulated_job_t job;
    int fit;                        //  so many of a tenant's jobs fit; 0: none
} limit_t;

static const limit_t s_limits [] = {
    { "jobs by setting", "busy",
        "tenant 'audio' has 3 jobs (those that wait for ranks included), at most 3 may be: wait until one "
        "ends, or have the operator set tenant-jobs audio=4",
        { { "audio", 1, 3, 0, 0 }, { "vision", 1, 5, 0, 0 } }, { .seed = 0 },
        { .batch_size = 4 }, 3 },
    { "jobs by share", "busy", "tenant 'audio' has 26 jobs (those that wait for ranks included), at most 26 "
        "may be",
        { { "audio", 1, 0, 0, 0 }, { "vision", 8, 0, 0, 0 } }, { .seed = 0 }, { .batch_size = 1 }, 26 },
    { "jobs on a data set", "busy",
        "data set 'data' has 26 jobs of tenant 'audio', at most 26 may be: wait until one ends, or have the "
        "operator give the tenant more weight (tenant-weight)",
        { { "audio", 1, 200, 0, 0 }, { "vision", 8, 0, 0, 0 } }, { .seed = 0 },
        { .batch_size = 1 }, 26 },
    { "batches by setting", "budget",
        "are left for tenant 'audio': take smaller batches or fewer slots, or have the operator set "
        "tenant-batches audio=", { { "audio", 1, 0, 40000000, 0 }, { "vision", 1, 0, 0, 0 } },
        { .jobs_bytes = 200000000 },
        { .batch_size = 4, .slot_bytes = 4000000 }, 3 },
    { "batches by share", "budget", "of 33333333 are left for tenant 'audio'",
        { { "audio", 1, 0, 0, 0 }, { "vision", 1, 0, 0, 0 } },
        { .jobs_bytes = 100000000 }, { .batch_size = 4, .slot_bytes = 4000000 }, 2 },
    { "processes", "budget", "tenant 'audio' has jobs of 8 processes, at most 9 may be, since each takes 3 "
        "file descriptors of the server's: wait until one ends, or have the operator start the server with "
        "more (ulimit -n)",
        { { "audio", 1, 0, 0, 0 }, { "vision", 1, 0, 0, 0 } }, { .descriptors = 3 * 28 },
        { .batch_size = 2, .world_size = 4 }, 2 },
    { "a pipeline's cache by share", "budget",
        "so with 2 workers tenant 'audio' needs a share of the cache of at least 9180; it has "
        "5120: prepare smaller samples, or have the operator raise tenant-weight audio or --cache",
        { { "audio", 1, 0, 0, 0 }, { "vision", 1, 0, 0, 0 } },
        { .seed = 0 }, { .batch_size = 4, .pipeline = "[{\"op\":\"center_crop\",\"size\":[30,34]}]" }, 0 },
    { "a pipeline's cache by setting", "budget",
        "tenant 'audio' may have 1000: prepare smaller samples, or have the operator set "
        "tenant-cache audio=", { { "audio", 1, 0, 0, 1000 }, { "vision", 1, 0, 0, 0 } }, { .seed = 0 },
        { .batch_size = 4, .pipeline = "[{\"op\":\"center_crop\",\"size\":[11,11]}]" }, 0 },
    { "tiers of private jobs", "budget",
        "of tenant 'audio' read in pieces by themselves; that takes at least ",
        { { "audio", 1, 0, 0, 0 }, { "vision", 1, 0, 0, 0 } }, { .raw_bytes = 200000, .tier = RAW_REDOX },
        { .batch_size = 4, .order = SAMPLER_ORDER_PRIVATE }, 1 },
    { "pools", "budget", "may take ", { { "audio", 1, 0, 0, 0 }, { "vision", 1, 0, 0, 0 } },
        { .raw_bytes = 1600000, .tier = RAW_STREAM },
        { .batch_size = 4, .order = SAMPLER_ORDER_SEEDED, .seed = 5, .pool = 60 }, 3 },
};

//  So many jobs of the tenant as fit; the refusal of the next is left in the simulation.
static int
s_fill (simulation_t *simulation, const limit_t *limit, const char *tenant, char names [300] [16])
{
    simulated_job_t job = limit->job;
    job.tenant = tenant;
    job.slots = 3;
    job.sample_us = SECOND_US;
    int count = 0;
    for (; count < 300; count++) {
        snprintf (names [count], 16, "j%d", count);
        job.job_name = names [count];
        if (simulation_join (simulation, &job) < 0)
            break;
    }
    return count;
}

static simulation_t *
s_begin (const limit_t *limit)
{
    simulation_options_t options = s_options ();
    options.check = false;
    options.tenants = limit->tenants;
    options.jobs_bytes = limit->options.jobs_bytes;
    options.descriptors = limit->options.descriptors;
    options.raw_bytes = limit->options.raw_bytes;
    options.tier = limit->options.tier;
    return simulation_new (&options);
}

//  Must hold: each limit refuses with its code, the tenant's own figures and the setting.  A tenant at its
//  limit leaves the others theirs.  What it is told, and how many jobs fit, is byte for byte the same whether
//  another tenant has all it may have or nothing.
static void
each_tenant_has_its_limits (void **state)
{
    (void) state;
    static char names [300] [16];
    for (size_t index = 0; index < sizeof s_limits / sizeof *s_limits; index++) {
        const limit_t *limit = &s_limits [index];
        printf ("    %s\n", limit->what);
        refusal_t alone;
        for (int turn = 0; turn < 2; turn++) {
            simulation_t *simulation = s_begin (limit);
            if (turn) {
                int others = s_fill (simulation, limit, "vision", names);
                assert_true (others > 0 || limit->fit == 0);
                assert_null (strstr (simulation_refusal (simulation)->message, "audio"));
            }
            int fit = s_fill (simulation, limit, "audio", names);
            if (fit != limit->fit)
                fail_msg ("%s: %d fit, expected %d: %s", limit->what, fit, limit->fit,
                    simulation_refusal (simulation)->message);
            s_assert_refused (simulation, limit->code, limit->told);
            assert_null (strstr (simulation_refusal (simulation)->message, "vision"));
            if (turn)
                assert_string_equal (alone.message, simulation_refusal (simulation)->message);
            alone = *simulation_refusal (simulation);
            broker_check (simulation_broker (simulation));
            simulation_destroy (&simulation);
        }
    }
}

//  Must hold: what the driver says of batches on their way, rings that linger and jobs that gather counts for
//  their tenant only.
static void
what_is_outside_counts (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    options.jobs_bytes = 3000000;
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    simulated_job_t job = s_job ("audio"), other = s_job ("vision");
    tenant_outside (broker, tenant_named (broker, "audio"), 85, 0);
    assert_int_equal (s_join (simulation, &job), REFUSED);
    s_assert_refused (simulation, "busy",
        "tenant 'audio' has 85 jobs (those that wait for ranks included), at most 85 may be");
    tenant_outside (broker, tenant_named (broker, "audio"), 0, 1000000);
    assert_int_equal (s_join (simulation, &job), REFUSED);
    s_assert_refused (simulation, "budget", "; 0 of 1000000 are left for tenant 'audio'");
    assert_int_equal (simulation_figure (simulation, "outgoing_bytes"), 1000000);
    assert_true (s_join (simulation, &other) >= 0);
    tenant_outside (broker, tenant_named (broker, "audio"), 0, 0);
    assert_true (s_join (simulation, &job) >= 0);
    assert_int_equal (simulation_figure (simulation, "outgoing_bytes"), 0);
    simulation_destroy (&simulation);
}

//  Must hold: if settings promise more than there is, a late tenant is told that, and no figure of the
//  others.
static void
promises_beyond_what_there_is (void **state)
{
    (void) state;
    const broker_tenant_t tenants [] = { { "audio", 1, 0, 90000000, 0 }, { "vision", 1, 0, 90000000, 0 } };
    simulation_options_t options = s_options ();
    options.jobs_bytes = 100000000;
    options.tenants = tenants;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job ("vision");
    job.slot_bytes = 20000000;
    assert_true (s_join (simulation, &job) >= 0);
    job.tenant = "audio";
    assert_int_equal (s_join (simulation, &job), REFUSED);
    s_assert_refused (simulation, "budget",
        "the server has less at present, for its settings (tenant-batches) promise more than it has");
    simulation_destroy (&simulation);
}

//  Guards: one tenant alone is limited by the server only, and told as ever.
static void
one_tenant_has_what_there_is (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    options.tenants = NULL;
    options.tenant_count = 0;
    options.descriptors = 3 * 40;
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (NULL);
    job.batch_size = 1;
    for (uint64_t number = 1; number <= 40; number++) {
        int client = s_join (simulation, &job);
        assert_true (client >= 0);
        assert_int_equal (simulation_job_id (simulation, client), number);
    }
    assert_int_equal (s_join (simulation, &job), REFUSED);
    s_assert_refused (simulation, "budget",
        "there are jobs of 40 processes, at most 40 may be, since each takes 3 file descriptors");
    simulation_destroy (&simulation);
    options.descriptors = 0;
    simulation = simulation_new (&options);
    for (int number = 0; number < SAMPLER_JOBS_MAX; number++)
        assert_true (s_join (simulation, &job) >= 0);
    assert_int_equal (s_join (simulation, &job), REFUSED);
    s_assert_refused (simulation, "busy", "data set 'data' has 256 jobs already: wait until one ends");
    json_t *status = broker_status (simulation_broker (simulation),
        tenant_named (simulation_broker (simulation), NULL), 0);
    assert_non_null (json_object_get (status, "cache_hits"));
    assert_null (json_object_get (status, "tenant"));
    json_decref (status);
    simulation_destroy (&simulation);
}

//  ---- names and numbers

typedef struct {
    const char *run, *instance, *job_name;
} identity_t;

//  Must hold: a job of another tenant that has the same run, instance, name and user, in whatever
//  combination, is as if it were not there: no job is fenced, nothing is taken, and the run stays the
//  joiner's, though it is another's state.
static void
names_are_a_tenants_own (void **state)
{
    (void) state;
    const identity_t rows [] = { { s_run, s_one, "sweep" }, { s_run, s_one, NULL }, { s_run, NULL, "sweep" },
        { s_run, NULL, NULL },
        { NULL, s_one, "sweep" }, { NULL, NULL, "sweep" } };
    for (size_t there = 0; there < sizeof rows / sizeof *rows; there++)
        for (size_t comes = 0; comes < sizeof rows / sizeof *rows; comes++) {
            simulation_options_t options = s_options ();
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t one = s_job ("audio"), other = s_job ("vision");
            one.run = rows [there].run;
            one.instance = rows [there].instance;
            one.job_name = rows [there].job_name;
            other.run = rows [comes].run;
            other.instance = rows [comes].instance;
            other.job_name = rows [comes].job_name;
            int first = s_join (simulation, &one);
            simulation_run (simulation, 10000);
            int second = s_join (simulation, &other);
            assert_true (first >= 0 && second >= 0);
            assert_false (job_is_forked (simulation_job (simulation, second)));
            if (other.run)
                assert_string_equal (job_run (simulation_job (simulation, second)), s_run);
            broker_t *broker = simulation_broker (simulation);
            assert_ptr_equal (job_named (broker, tenant_named (broker, "vision"), other.job_name),
                other.job_name? simulation_job (simulation, second): NULL);
            assert_true (simulation_run (simulation, 100 * SECOND_US));
            assert_true (simulation_finished (simulation, first) && simulation_finished (simulation, second));
            simulation_destroy (&simulation);
        }
}

//  Must hold: a rank does not come back to another tenant's job, whatever it says; to its own it does.
static void
ranks_return_to_their_own (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    simulated_job_t job = s_job ("audio");
    job.world_size = 2;
    job.job_name = "sweep";
    job.rank_wait_seconds = 100;
    int first = simulation_join (simulation, &job);
    simulation_run (simulation, 20000);
    int rank = simulation_rank (simulation, first, 1);
    simulation_lose (simulation, rank);
    simulation_run (simulation, 30000);
    simulated_job_t stolen = job;
    stolen.tenant = "vision";
    simulated_return_t how = { .records = simulation_records (simulation, rank), .job = &stolen,
        .run = job_run (simulation_job (simulation, first)) };
    int back;
    assert_int_equal (simulation_return (simulation, rank, &how, &back), BROKER_RETURN_NONE);
    assert_int_equal (broker_jobs (broker, NULL), 1);
    how.job = &job;
    assert_int_equal (simulation_return (simulation, rank, &how, &back), BROKER_RETURN_READY);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, first));
    simulation_destroy (&simulation);
}

//  Must hold: a job's number tells its tenant how many jobs that one had, and nothing else.
static void
numbers_count_a_tenants_own (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    const char *tenants [] = { NULL, "audio", "vision" };
    uint64_t counts [3] = { 0 }, random = test_seed ();
    for (int turn = 0; turn < 40; turn++) {
        uint64_t which = test_below (&random, 3);
        simulated_job_t job = s_job (tenants [which]);
        int client = s_join (simulation, &job);
        assert_true (client >= 0);
        assert_int_equal (simulation_job_id (simulation, client), which << 32 | ++counts [which]);
        if (test_below (&random, 2))
            simulation_gone (simulation, client);
        simulation_run (simulation, simulation_now_us (simulation) + 5000);
    }
    simulation_destroy (&simulation);
}

//  ---- data sets

//  Must hold: a data set that a tenant may not use is to it as one that there is not.
static void
foreign_data_sets_are_unknown (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    const tenant_t *audio = tenant_named (broker, "audio"), *vision = tenant_named (broker, "vision");
    dataset_t *speech = dataset_add (broker, "speech", 10, BROKER_BAD_DROP, NULL);
    tenant_allow (broker, tenant_named (broker, "audio"), speech);
    assert_ptr_equal (dataset_named (broker, audio, "speech"), speech);
    assert_ptr_equal (dataset_named (broker, NULL, "speech"), speech);
    assert_null (dataset_named (broker, vision, "speech"));
    char *names [] = { dataset_names (broker, NULL), dataset_names (broker, audio),
        dataset_names (broker, vision) };
    assert_string_equal (names [0], "data, speech");
    assert_string_equal (names [1], "data, speech");
    assert_string_equal (names [2], "data");
    for (int index = 0; index < 3; index++)
        free (names [index]);
    json_t *status = broker_status (broker, vision, 0);
    assert_int_equal (json_array_size (json_object_get (status, "datasets")), 1);
    char *text = json_dumps (status, 0);
    assert_null (strstr (text, "speech"));
    free (text);
    json_decref (status);
    simulation_destroy (&simulation);
}

//  ---- figures

//  Must hold: of one's own jobs all, of others' nothing, and no figure that they move; to the operator
//  everything.
static void
status_tells_the_tenant (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    simulated_job_t jobs [] = { s_job (NULL), s_job ("audio"), s_job ("vision"), s_job ("vision") };
    for (size_t index = 0; index < 4; index++)
        assert_true (s_join (simulation, &jobs [index]) >= 0);
    simulation_run (simulation, 20000);
    static const char *const servers [] = { "jobs_total", "prepared", "delivered", "prepared_per_delivered",
        "cache_hits",
        "cache_misses", "cache_bytes", "cache_versions", "evictions", "prepared_again", "dropped_unused",
        "ring_bytes",
        "jobs_bytes", "outgoing_bytes", "raw_bytes", "bad_samples", "tenants", "jobs_bytes_max",
        "cache_bytes_max" };
    json_t *status = broker_status (broker, tenant_named (broker, "vision"),
        simulation_now_us (simulation) / 1000);
    for (size_t index = 0; index < sizeof servers / sizeof *servers; index++)
        assert_null (json_object_get (status, servers [index]));
    char *text = json_dumps (status, 0);
    assert_null (strstr (text, "audio"));
    assert_null (strstr (text, "operator"));
    free (text);
    assert_int_equal (json_array_size (json_object_get (status, "jobs")), 2);
    const json_t *tenant = json_object_get (status, "tenant");
    assert_string_equal (json_string_value (json_object_get (tenant, "name")), "vision");
    assert_int_equal (json_integer_value (json_object_get (tenant, "jobs")), 2);
    assert_int_equal (json_integer_value (json_object_get (tenant, "jobs_max")), 85);
    assert_true (json_is_integer (json_object_get (tenant, "evictions")));
    assert_true (json_is_integer (json_object_get (tenant, "prepared_again")));
    assert_null (json_object_get (tenant, "dropped_unused"));   //  others' use decides that
    json_decref (status);
    status = broker_status (broker, NULL, simulation_now_us (simulation) / 1000);
    for (size_t index = 0; index < sizeof servers / sizeof *servers; index++)
        assert_non_null (json_object_get (status, servers [index]));
    assert_int_equal (json_array_size (json_object_get (status, "jobs")), 4);
    assert_string_equal (json_string_value (json_object_get (json_array_get (json_object_get (status, "jobs"),
        1), "tenant")), "audio");
    assert_int_equal (json_array_size (json_object_get (status, "tenants")), 3);
    assert_non_null (json_object_get (json_array_get (json_object_get (status, "tenants"), 1),
        "dropped_unused"));
    json_decref (status);
    simulation_destroy (&simulation);
}

enum { RANGE = 20, COUNTED_JOBS = 4 };

//  The tenants' counters are what these clients saw, and sum up to the server's.
static void
s_assert_counters (simulation_t *simulation)
{
    static const json_int_t jobs [] = { 1, 1, 2 }, dropped [] = { 2, 1, 0 };
    json_int_t prepared = 0, delivered = 0, seen = 0;
    double seconds = 0, worker_seconds;
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
    for (size_t index = 0; index < 3; index++) {
        json_int_t told_prepared, told_delivered, told_jobs, told_dropped;
        json_t *tenant = json_array_get (json_object_get (status, "tenants"), index);
        assert_int_equal (json_unpack (tenant, "{s:I, s:I, s:I, s:I, s:f}", "prepared", &told_prepared,
            "delivered", &told_delivered, "jobs_total", &told_jobs, "dropped", &told_dropped,
            "worker_seconds", &worker_seconds), 0);
        assert_int_equal (told_jobs, jobs [index]);
        assert_int_equal (told_dropped, dropped [index]);
        for (json_int_t job = 0; job < jobs [index]; job++)
            for (size_t epoch = 0; epoch < 2; epoch++)
                seen += (json_int_t) simulation_epoch (simulation, (int) (index + (size_t) job),
                    epoch)->count;
        prepared += told_prepared;
        delivered += told_delivered;
        seconds += worker_seconds;
        assert_int_equal (delivered, seen);
    }
    assert_int_equal (prepared, simulation_figure (simulation, "prepared"));
    assert_int_equal (delivered, simulation_figure (simulation, "delivered"));
    assert_int_equal (simulation_figure (simulation, "jobs_total"), COUNTED_JOBS);
    assert_int_equal (simulation_figure (simulation, "bad_samples"), 3);
    double expected = (double) prepared / (double) delivered,
        told = json_real_value (json_object_get (status, "prepared_per_delivered"));
    assert_true (told > expected - 1e-9 && told < expected + 1e-9);
    //  The simulation does not tell times: what counts is the broker's estimate, of about a millisecond.
    assert_true (seconds >= (double) prepared * 1e-4 && seconds <= (double) prepared * 1e-2);
    json_decref (status);
}

//  Must hold: each tenant's counters are what its own jobs did, also when these are over.  Where no sample is
//  shared by tenants, they sum up to the server's: what two jobs of a tenant wait for is prepared once.
static void
a_tenant_is_told_what_its_jobs_did (void **state)
{
    (void) state;
    uint64_t bad = UINT64_C (1) << 3 | UINT64_C (1) << 8 | UINT64_C (1) << 25;
    simulation_options_t options = s_options ();
    options.readable = simulation_is_readable;
    options.context = &bad;
    simulation_t *simulation = simulation_new (&options);
    const char *const names [COUNTED_JOBS] = { NULL, "audio", "vision", "vision" };
    for (uint32_t index = 0; index < COUNTED_JOBS; index++) {
        simulated_job_t job = s_job (names [index]);
        job.from = RANGE * (index < 2? index: 2);
        job.to = job.from + RANGE;
        assert_int_equal (simulation_must_join (simulation, &job), index);
    }
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    s_assert_counters (simulation);
    for (int client = 0; client < COUNTED_JOBS; client++)
        simulation_gone (simulation, client);
    assert_true (simulation_run (simulation, 200 * SECOND_US));
    assert_null (simulation_job (simulation, 0));
    s_assert_counters (simulation);
    simulation_destroy (&simulation);
}

//  Must hold: jobs that the server ended are counted by the reason, for their own tenant.
static void
a_tenant_is_told_why_its_jobs_ended (void **state)
{
    (void) state;
    uint64_t bad = UINT64_C (1) << 25;
    simulation_options_t options = s_options ();
    options.readable = simulation_is_readable;
    options.context = &bad;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t strict = s_job ("audio"), other = s_job ("vision");
    strict.on_bad_given = true;
    strict.on_bad = BROKER_BAD_FAIL;
    simulation_must_join (simulation, &strict);
    simulation_must_join (simulation, &other);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_ended (simulation, 0) && !simulation_ended (simulation, 1));
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0),
        *tenants = json_object_get (status, "tenants"),
        *ended = json_object_get (json_array_get (tenants, 1), "ended");
    assert_int_equal (json_object_size (ended), 1);
    assert_int_equal (json_integer_value (json_object_get (ended, "bad_sample")), 1);
    assert_int_equal (json_object_size (json_object_get (json_array_get (tenants, 2), "ended")), 0);
    json_decref (status);
    simulation_destroy (&simulation);
}

//  Of a client's job: "places", "alone" or "shared".
static uint64_t
s_sharing (simulation_t *simulation, int client, const char *key)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0), *job;
    uint64_t value = UINT64_MAX;
    size_t index;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        if ((uint64_t) json_integer_value (json_object_get (job, "job"))
            == simulation_job_id (simulation, client))
            value = (uint64_t) json_integer_value (json_object_get (json_object_get (job, "sharing"), key));
    json_decref (status);
    return value;
}

//  A job of the tenant over a list, which stays when it has got it.
static int
s_list (simulation_t *simulation, const char *tenant, const uint32_t *list)
{
    simulated_job_t job = s_job (tenant);
    job.pipeline = s_crop;
    job.epochs = 1;
    job.order = SAMPLER_ORDER_LIST;
    job.list = list;
    job.list_count = LIST;
    job.slots = 8;                      //  its places stay what they are: for EXPLAIN
    int client = s_join (simulation, &job);
    assert_true (client >= 0);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    assert_true (simulation_finished (simulation, client));
    return client;
}

//  Must hold: what is told of sharing, and of one sample, is of the tenant's own jobs, and the same whether
//  others have had all of it before or not.
static void
sharing_is_told_of_own_jobs (void **state)
{
    (void) state;
    uint32_t list [LIST];
    for (uint32_t place = 0; place < LIST; place++)
        list [place] = 2 * place;
    for (int others = 0; others < 3; others++) {
        simulation_options_t options = s_options ();
        options.cache_versions = 400;
        simulation_t *simulation = simulation_new (&options);
        if (others > 0)
            s_list (simulation, "vision", list);
        int first = s_list (simulation, "audio", list);
        assert_int_equal (s_sharing (simulation, first, "alone"), LIST);
        assert_int_equal (s_sharing (simulation, first, "shared"), 0);
        if (others > 1)
            s_list (simulation, NULL, list);
        explanation_t told;
        refusal_t refusal;
        assert_true (explain_sample (simulation_broker (simulation), simulation_job (simulation, first),
            &(request_explain_t) { .id = list [3] }, &told, 0, &refusal));
        assert_true (told.reply.is_placed && told.reply.prepared_for == 1 && !told.reply.is_reused);
        explain_clear (&told);
        int second = s_list (simulation, "audio", list);
        assert_int_equal (s_sharing (simulation, first, "alone"), 0);
        assert_int_equal (s_sharing (simulation, first, "shared"), LIST);
        assert_int_equal (s_sharing (simulation, second, "alone"), 0);
        assert_int_equal (s_sharing (simulation, second, "shared"), LIST);
        assert_true (explain_sample (simulation_broker (simulation), simulation_job (simulation, second),
            &(request_explain_t) { .id = list [3] }, &told, 0, &refusal));
        assert_true (told.reply.is_placed && told.reply.prepared_for == 2 && told.reply.is_reused);
        explain_clear (&told);
        simulation_destroy (&simulation);
    }
}

//  Must hold: of three jobs of a tenant that draw together each sample serves all, and each job is told so,
//  the one that draws first too.
static void
what_is_drawn_together_is_shared_by_all (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    options.gather_ms = BROKER_GATHER_MS;
    options.policy = SAMPLER_POLICY_DSA;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job ("audio");
    for (int number = 0; number < 3; number++)
        assert_int_equal (s_join (simulation, &job), number);
    simulation_run (simulation, SECOND_US / 4);
    for (int client = 0; client < 3; client++) {
        uint64_t places = s_sharing (simulation, client, "places"),
            shared = s_sharing (simulation, client, "shared");
        if (places < SAMPLES / 2 || shared < places * 9 / 10)       //  few are drawn by one alone
            fail_msg ("client %d: %llu of %llu", client, (unsigned long long) shared,
                (unsigned long long) places);
    }
    simulation_destroy (&simulation);
}

//  Must hold: where a pipeline has no mark, it meets its tenant's jobs only; and a notice that little is
//  shared is of its own.
static void
share_points_are_a_tenants_own (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    options.samples = 2000;
    options.cache_versions = 300;
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    broker_t *broker = simulation_broker (simulation);
    simulated_job_t job = s_job ("audio"), other = s_job ("vision");
    job.pipeline = "[{\"op\":\"random_resized_crop\",\"size\":[1,1],\"share\":true}]";
    other.pipeline = "[{\"op\":\"random_resized_crop\",\"size\":[1,1],\"scale\":[0.5,1],\"share\":true}]";
    job.epochs = other.epochs = 0;
    int first = s_join (simulation, &job), second = s_join (simulation, &other);
    const char *texts [4];
    assert_int_equal (dataset_shared_texts (simulation_dataset (simulation), NULL, SAMPLER_ORDER_SHARED,
        texts, 4), 0);
    assert_int_equal (dataset_shared_texts (simulation_dataset (simulation), tenant_named (broker, "vision"),
        SAMPLER_ORDER_SHARED, texts, 4), 1);
    assert_non_null (strstr (texts [0], "0.5"));
    simulation_run (simulation, 10 * SECOND_US);
    assert_null (simulation_notice (simulation, first));
    assert_null (simulation_notice (simulation, second));
    other.tenant = "audio";
    int third = s_join (simulation, &other);
    simulation_run (simulation, 20 * SECOND_US);
    assert_non_null (simulation_notice (simulation, first));
    assert_non_null (strstr (simulation_notice (simulation, third),
        "nothing is prepared for both this job and job 4294967297"));
    assert_null (simulation_notice (simulation, second));
    simulation_destroy (&simulation);
}

//  Must hold: classes that no job uses any more wait for the next jobs, but only a bounded number of them;
//  and one tenant's idle classes give way to its own only.
static void
idle_classes_are_bounded (void **state)
{
    (void) state;
    simulation_options_t options = s_options ();
    options.cache_versions = 20000;
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t mine = s_job ("vision");
    mine.pipeline = s_crop;
    int client = s_join (simulation, &mine);
    assert_true (simulation_run (simulation, simulation_now_us (simulation) + SECOND_US) || client >= 0);
    simulation_gone (simulation, client);
    char pipeline [100];
    for (int number = 0; number < 300; number++) {
        snprintf (pipeline, sizeof pipeline,
            "[{\"op\":\"resize\",\"size\":%d},{\"op\":\"center_crop\",\"size\":[1,1]}]", 1 + number);
        simulated_job_t job = s_job ("audio");
        job.pipeline = pipeline;
        job.epochs = 1;
        client = s_join (simulation, &job);
        assert_true (client >= 0);
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 10);
        simulation_gone (simulation, client);
        simulation_run (simulation, simulation_now_us (simulation) + 1000);
    }
    //  85 of them at SAMPLES versions each, and the other's.
    uint64_t versions = simulation_figure (simulation, "cache_versions");
    assert_in_range (versions, 85 * 10, 87 * SAMPLES);
    uint64_t prepared = simulation_prepared (simulation);
    assert_true (s_join (simulation, &mine) >= 0);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    assert_int_equal (simulation_prepared (simulation), prepared);
    broker_check (simulation_broker (simulation));
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (shares_add_up),
        cmocka_unit_test (each_tenant_has_its_limits),
        cmocka_unit_test (what_is_outside_counts),
        cmocka_unit_test (promises_beyond_what_there_is),
        cmocka_unit_test (one_tenant_has_what_there_is),
        cmocka_unit_test (names_are_a_tenants_own),
        cmocka_unit_test (ranks_return_to_their_own),
        cmocka_unit_test (numbers_count_a_tenants_own),
        cmocka_unit_test (foreign_data_sets_are_unknown),
        cmocka_unit_test (status_tells_the_tenant),
        cmocka_unit_test (a_tenant_is_told_what_its_jobs_did),
        cmocka_unit_test (a_tenant_is_told_why_its_jobs_ended),
        cmocka_unit_test (sharing_is_told_of_own_jobs),
        cmocka_unit_test (what_is_drawn_together_is_shared_by_all),
        cmocka_unit_test (share_points_are_a_tenants_own),
        cmocka_unit_test (idle_classes_are_bounded)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
