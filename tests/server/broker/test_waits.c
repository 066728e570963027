//  Where a job's time goes, on made-up time: each cause by itself, and that the sums are always the job's
//  time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <cmocka.h>
#include "effort.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { SAMPLES = 40, MS = 1000, SECOND_US = 1000 * MS };

typedef struct {
    double draw, read, memory, decode, copy, client;
} waits_told_t;

static const json_t *
s_job_status (const json_t *status, uint64_t id)
{
    size_t index;
    const json_t *job;
    json_array_foreach (json_object_get (status, "jobs"), index, job)
        if ((uint64_t) json_integer_value (json_object_get (job, "job")) == id)
            return job;
    return NULL;
}

static waits_told_t
s_waits_at (simulation_t *simulation, uint64_t id, int64_t now_us)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, now_us / MS);
    const json_t *job = s_job_status (status, id), *waits = json_object_get (job, "waits");
    assert_int_equal (json_object_size (waits), 6);
    waits_told_t told = { json_real_value (json_object_get (waits, "draw")),
        json_real_value (json_object_get (waits, "read")),
        json_real_value (json_object_get (waits, "memory")),
        json_real_value (json_object_get (waits, "decode")),
        json_real_value (json_object_get (waits, "copy")),
        json_real_value (json_object_get (waits, "client")) };
    json_decref (status);
    return told;
}

static waits_told_t
s_waits (simulation_t *simulation, uint64_t id)
{
    return s_waits_at (simulation, id, simulation_now_us (simulation));
}

static void
s_assert_sum (const waits_told_t *told, double seconds)
{
    double sum = told->draw + told->read + told->memory + told->decode + told->copy + told->client;
    if (fabs (sum - seconds) > 1e-6)
        fail_msg ("draw %f + read %f + memory %f + decode %f + copy %f + client %f, not %f", told->draw,
            told->read, told->memory, told->decode, told->copy, told->client, seconds);
}

static int64_t
s_slow (void *context, uint32_t id)
{
    (void) context;
    (void) id;
    return 10 * MS;
}

static int64_t
s_slow_read (void *context, const raw_request_t *request)
{
    (void) context;
    (void) request;
    return 50 * MS;
}

//  Each has a second; what is slow takes 0.4 s of it (the disks of a pack: more or less), and the rest, when
//  all is there, is the client's.
static waits_told_t
s_trial (simulation_options_t options, simulated_job_t job)
{
    options.seed = test_seed ();
    options.samples = SAMPLES;
    options.cache_versions = 2 * SAMPLES;
    options.workers = 1;
    options.policy = SAMPLER_POLICY_FOLLOW;
    options.check = true;
    options.fetch_us = options.fetch_us? options.fetch_us: 1;
    job.batch_size = 4;
    job.slots = 4;
    job.epochs = 1;
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, SECOND_US);
    assert_true (simulation_finished (simulation, 0));
    waits_told_t told = s_waits_at (simulation, 1, SECOND_US);
    s_assert_sum (&told, 1);
    simulation_destroy (&simulation);
    return told;
}

static void
s_assert_near (double value, double expected)
{
    if (fabs (value - expected) > 0.015)
        fail_msg ("%f, not about %f", value, expected);
}

//  Guards: each cause alone is told as such, and what comes first in line does not hide it.
static void
test_each_cause (void **state)
{
    (void) state;
    waits_told_t told = s_trial ((simulation_options_t) { .cost_us = s_slow },
        (simulated_job_t) { .epochs = 1 });
    s_assert_near (told.decode, 0.4);
    s_assert_near (told.read + told.copy, 0);
    told = s_trial ((simulation_options_t) { .cost_us = s_slow, .gather_ms = 200 },
        (simulated_job_t) { .epochs = 1 });
    s_assert_near (told.draw, 0.2);
    s_assert_near (told.decode, 0.4);
    s_assert_near (told.client, 0.4);
    //  Reads all at once, but only so many tasks are handed out: four rounds.
    told = s_trial ((simulation_options_t) { .fetch_us = 100 * MS }, (simulated_job_t) { .epochs = 1 });
    s_assert_near (told.read, 0.4);
    s_assert_near (told.decode + told.copy, 0);
    told = s_trial ((simulation_options_t) { .raw_bytes = 1000000, .piece = 4, .read_us = s_slow_read },
        (simulated_job_t) { .epochs = 1 });
    assert_true (told.read > 0.1 && told.read < 0.9);
    s_assert_near (told.decode + told.copy, 0);
    //  Copies of one batch go side by side.
    told = s_trial ((simulation_options_t) { .copy_us = 100 * MS }, (simulated_job_t) { .epochs = 1 });
    assert_true (told.copy > 0.15 && told.copy < 0.9);
    s_assert_near (told.decode + told.read, 0);
    told = s_trial ((simulation_options_t) { .cost_us = NULL }, (simulated_job_t) { .sample_us = 10 * MS });
    s_assert_near (told.client, 1);
}

//  What the status says that the only job waits on, after 5 ms.
static void
s_assert_waits_on (simulation_options_t options, const char *expected)
{
    options.seed = test_seed ();
    options.samples = SAMPLES;
    options.cache_versions = 2 * SAMPLES;
    options.workers = 1;
    options.fetch_us = options.fetch_us? options.fetch_us: 1;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .epochs = 1 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 5 * MS);
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / MS);
    assert_string_equal (json_string_value (json_object_get (s_job_status (status, 1), "waiting_on")),
        expected);
    json_decref (status);
    simulation_destroy (&simulation);
}

//  Guards: a job with reads under way, of files or of a pack, does not wait for workers.
static void
test_reads_are_not_workers (void **state)
{
    (void) state;
    s_assert_waits_on ((simulation_options_t) { .cost_us = s_slow }, "workers");
    s_assert_waits_on ((simulation_options_t) { .fetch_us = 100 * MS }, "read");
    s_assert_waits_on ((simulation_options_t) { .raw_bytes = 1000000, .piece = 4, .read_us = s_slow_read },
        "read");
}

//  Guards: what is prepared while batches lie ready costs the job nothing, and is told as no wait.
static void
test_work_behind_the_client_is_no_wait (void **state)
{
    (void) state;
    //  The first two batches, 4 samples of 10 ms each, are waited for; then there is always one ready.
    waits_told_t told = s_trial ((simulation_options_t) { .cost_us = s_slow },
        (simulated_job_t) { .sample_us = 20 * MS });
    s_assert_near (told.decode, 0.08);
    s_assert_near (told.client, 0.92);
}

//  In each batch of four another place is slow, from the last one to the first.
static int64_t
s_slow_by_turns (void *context, uint32_t id)
{
    (void) context;
    return id % 4 == 3 - id / 4 % 4? 40 * MS: 100;
}

//  Guards: what the next batch lacks is found wherever it is, also before where the last one's was.
static void
test_the_missing_place_is_found (void **state)
{
    (void) state;
    uint32_t list [SAMPLES];
    for (uint32_t place = 0; place < SAMPLES; place++)
        list [place] = place;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 2 * SAMPLES,
        .workers = 2,
        .cost_us = s_slow_by_turns, .fetch_us = 1, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .epochs = 1, .order = SAMPLER_ORDER_LIST,
        .list = list,
        .list_count = SAMPLES };
    assert_int_equal (simulation_join (simulation, &job), 0);
    while (!simulation_finished (simulation, 0))
        simulation_run (simulation, simulation_now_us (simulation) + MS);
    waits_told_t told = s_waits (simulation, 1);
    assert_true (told.decode > 0.15);
    s_assert_near (told.client + told.read + told.copy, 0);
    simulation_destroy (&simulation);
}

//  Guards: a place that waits for its turn to be copied, because others' copies are under way, waits for a
//  copy.
static void
test_copies_stand_in_line (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 2 * SAMPLES,
        .workers = 1,
        .copy_us = 100 * MS, .fetch_us = 1, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t first = { .batch_size = 40, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_PRIVATE },
        second = first;
    second.batch_size = 4;
    assert_int_equal (simulation_join (simulation, &first), 0);
    simulation_run (simulation, 20 * MS);
    assert_int_equal (simulation_join (simulation, &second), 1);
    simulation_run (simulation, 90 * MS);
    waits_told_t told = s_waits (simulation, 2);
    s_assert_near (told.copy, 0.07);            //  but for what preparing took
    simulation_destroy (&simulation);
}

static int64_t
s_a_ms (void *context, uint32_t id)
{
    (void) context, (void) id;
    return MS;
}

static int64_t
s_copy_a_ms (void *context, const batch_row_t *row)
{
    (void) context, (void) row;
    return MS;
}

static int64_t
s_slow_copy (void *context, const batch_row_t *row)
{
    (void) context, (void) row;
    return 10 * MS;
}

//  Guards: a copy that stands in line behind versions that workers prepare is told as a wait for these; where
//  the copies are what takes the workers' time, they are the cause.
static void
test_what_workers_do_is_the_cause (void **state)
{
    (void) state;
    waits_told_t told = s_trial ((simulation_options_t) { .cost_us = s_slow, .copying_us = s_copy_a_ms },
        (simulated_job_t) { .epochs = 1 });
    assert_true (told.decode > 0.39);
    assert_true (told.copy < 0.05);
    told = s_trial ((simulation_options_t) { .cost_us = s_a_ms, .copying_us = s_slow_copy },
        (simulated_job_t) { .epochs = 1 });
    assert_true (told.copy > 0.39);
    assert_true (told.decode < 0.05);
}

//  Guards: where another job's samples, which wait to be copied, fill the prepared cache, a job waits for
//  memory, and no longer than that.
static void
test_a_full_cache_is_told (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 6,
        .workers = 1, .copy_us = 100 * MS, .fetch_us = 1, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t first = { .batch_size = 40, .slots = 3, .epochs = 1, .order = SAMPLER_ORDER_PRIVATE },
        second = first;
    second.batch_size = 4;
    assert_int_equal (simulation_join (simulation, &first), 0);
    simulation_run (simulation, 20 * MS);
    assert_int_equal (simulation_join (simulation, &second), 1);
    simulation_run (simulation, 90 * MS);
    waits_told_t told = s_waits (simulation, 2);
    s_assert_near (told.memory, 0.07);
    told = s_waits (simulation, 1);
    s_assert_near (told.copy, 0.09);
    simulation_stop (simulation, 0);
    simulation_run (simulation, 20 * SECOND_US);
    assert_true (simulation_finished (simulation, 1));
    told = s_waits (simulation, 2);
    simulation_run (simulation, 21 * SECOND_US);
    s_assert_near (s_waits (simulation, 2).memory, told.memory);
    simulation_destroy (&simulation);
}

//  Guards: a job's own histogram has what its batches waited for, in coarse buckets, and causes that took no
//  time not at all.
static void
test_a_jobs_batches_are_counted (void **state)
{
    (void) state;
    enum { BATCH = 4, BATCHES = SAMPLES / BATCH, BUCKETS = 5, BUCKET_OF_40_MS = 1 };
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = SAMPLES,
        .workers = 1, .cost_us = s_slow, .fetch_us = 1, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = BATCH, .slots = 3, .sample_us = 0 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 430 * MS);
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / MS);
    const json_t *waits = json_object_get (s_job_status (status, 1), "batch_waits"),
        *decode = json_object_get (waits, "decode");
    assert_int_equal (json_integer_value (json_object_get (waits, "batches")), BATCHES);
    assert_int_equal (json_array_size (json_object_get (waits, "bounds")), BUCKETS - 1);
    assert_int_equal (json_array_size (json_object_get (decode, "counts")), BUCKETS);
    json_int_t all = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        all += json_integer_value (json_array_get (json_object_get (decode, "counts"), bucket));
    assert_int_equal (all, BATCHES);
    assert_int_equal (json_integer_value (json_array_get (json_object_get (decode, "counts"),
        BUCKET_OF_40_MS)), BATCHES);
    s_assert_near (json_number_value (json_object_get (decode, "sum")), 0.4);
    assert_null (json_object_get (waits, "read"));
    assert_null (json_object_get (waits, "draw"));
    json_decref (status);
    simulation_destroy (&simulation);
}

//  Guards: a client that keeps all its batches waits for itself, however long.
static void
test_a_client_that_stands_still (void **state)
{
    (void) state;
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 2 * SAMPLES,
        .workers = 1,
        .policy = SAMPLER_POLICY_DSA, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .sample_us = 1 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 100 * MS);
    simulation_stop (simulation, 0);
    waits_told_t before = s_waits (simulation, 1);
    simulation_run (simulation, 10 * SECOND_US);
    waits_told_t told = s_waits_at (simulation, 1, 10 * SECOND_US);
    s_assert_near (told.client - before.client, 9.9);
    s_assert_sum (&told, 10);
    simulation_continue (simulation, 0);
    simulation_destroy (&simulation);
}

//  Guards: whatever happens, joins, leaves, unreadable samples, stops, the sums are the time since each
//  start.
static bool
s_readable (void *context, uint32_t id)
{
    (void) context;
    return id % 13 != 5;
}

static int64_t
s_uneven (void *context, uint32_t id)
{
    (void) context;
    return id % 5 * 3 * MS;
}

static void
s_random_schedule (uint64_t seed)
{
    enum { JOBS = 8, STEPS = 60 };
    random_t random = random_from_seed (seed);
    bool packed = random_below (&random, 2);
    simulation_options_t options = { .seed = seed, .samples = SAMPLES, .cache_versions = 20, .workers = 2,
        .cost_us = s_uneven,
        .raw_bytes = packed? 200000: 0, .fetch_us = packed? 0: 7 * MS, .read_us = packed? s_slow_read: NULL,
        .readable = s_readable,
        .policy = random_below (&random, 2)? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW, .check = true };
    simulation_t *simulation = simulation_new (&options);
    int64_t started_ms [JOBS];
    int count = 0;
    for (int step = 0; step < STEPS; step++) {
        simulation_run (simulation,
            simulation_now_us (simulation) + (int64_t) random_below (&random, 40 * MS));
        simulated_job_t job = { .batch_size = 1 + (uint32_t) random_below (&random, 6),
            .slots = 3 + (uint32_t) random_below (&random, 3), .epochs = random_below (&random, 4),
            .sample_us = (int64_t) random_below (&random, 5 * MS),
            .order = random_below (&random, 2)? SAMPLER_ORDER_SHARED: SAMPLER_ORDER_PRIVATE };
        if (count < JOBS && random_below (&random, 4) == 0 && simulation_join (simulation, &job) == count)
            started_ms [count++] = simulation_now_us (simulation) / MS;
        int client = count? (int) random_below (&random, (uint64_t) count): -1;
        if (client >= 0 && random_below (&random, 12) == 0)
            simulation_stop (simulation, client);
        if (client >= 0 && random_below (&random, 12) == 0)
            simulation_continue (simulation, client);
        for (int number = 0; number < count; number++) {
            if (!job_of_id (simulation_broker (simulation), (uint64_t) number + 1))
                continue;
            waits_told_t told = s_waits (simulation, (uint64_t) number + 1);
            s_assert_sum (&told, (double) (simulation_now_us (simulation) / MS - started_ms [number]) / 1000);
        }
        if (client >= 0 && random_below (&random, 15) == 0)
            simulation_gone (simulation, client);
    }
    simulation_destroy (&simulation);
}

static void
test_sums_are_the_time (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (); seed < test_seed () + EFFORT (40); seed++)
        s_random_schedule (seed);
}

//  Guards: so with ranks, which are lost and come back; and while one is not there the job waits for its
//  client.
static void
test_sums_of_ranks (void **state)
{
    (void) state;
    for (uint32_t lost = 0; lost < 3; lost++) {
        simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 20,
            .workers = 1,
            .cost_us = s_uneven, .fetch_us = MS, .readable = s_readable, .check = true };
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .world_size = 3, .batch_size = 3, .slots = 3, .epochs = 3,
            .rank_wait_seconds = 100,
            .sample_us = 100 };
        assert_int_equal (simulation_join (simulation, &job), 0);
        for (int step = 0; step < 100; step++) {
            int client = simulation_rank (simulation, 0, lost), back;
            simulation_run (simulation, simulation_now_us (simulation) + 3 * MS);
            if (step % 20 == 7 && !simulation_finished (simulation, client)) {
                waits_told_t before = s_waits (simulation, 1);
                simulation_lose (simulation, client);
                simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
                waits_told_t told = s_waits (simulation, 1);
                s_assert_near (told.client - before.client, 1);
                simulated_return_t how = { .records = simulation_records (simulation, client),
                    .sample_us = 2 * MS };
                assert_int_equal (simulation_return (simulation, client, &how, &back), BROKER_RETURN_READY);
            }
            waits_told_t told = s_waits (simulation, 1);
            s_assert_sum (&told, (double) (simulation_now_us (simulation) / MS) / 1000);
        }
        simulation_destroy (&simulation);
    }
}

static int64_t
s_five_ms (void *context, uint32_t id)
{
    (void) context, (void) id;
    return 5 * MS;
}

//  Guards: the histogram has each sent batch once under each cause, in its bucket, and those of jobs that
//  have gone.
static void
test_batches_are_counted (void **state)
{
    (void) state;
    enum { BATCH = 4, BATCHES = 2 * SAMPLES / BATCH, BUCKET_OF_20_MS = 3 };
    simulation_options_t options = { .seed = test_seed (), .samples = SAMPLES, .cache_versions = SAMPLES,
        .workers = 1, .cost_us = s_five_ms, .readable = s_readable, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = BATCH, .slots = 3, .epochs = 2, .sample_us = 0 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 2 * SECOND_US);
    simulation_gone (simulation, 0);
    simulation_run (simulation, 3 * SECOND_US);
    assert_null (job_of_id (simulation_broker (simulation), 1));
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / MS);
    const json_t *waits = json_object_get (status, "batch_waits");
    static const char *const causes [] = { "draw", "read", "memory", "decode", "copy", "client" };
    double sum = 0;
    for (size_t cause = 0; cause < 6; cause++) {
        const json_t *object = json_object_get (waits, causes [cause]),
            *counts = json_object_get (object, "counts");
        json_int_t all = 0;
        assert_int_equal (json_array_size (counts), json_array_size (json_object_get (waits, "bounds")) + 1);
        for (size_t bucket = 0; bucket < json_array_size (counts); bucket++)
            all += json_integer_value (json_array_get (counts, bucket));
        assert_int_equal (all, BATCHES);
        sum += json_number_value (json_object_get (object, "sum"));
        if (cause == 3)
            assert_in_range (json_integer_value (json_array_get (counts, BUCKET_OF_20_MS)), BATCHES - 8,
                BATCHES);
    }
    assert_true (sum > BATCHES * 0.019 && sum < BATCHES * 0.025);
    json_decref (status);
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_each_cause),
        cmocka_unit_test (test_reads_are_not_workers),
        cmocka_unit_test (test_work_behind_the_client_is_no_wait),
        cmocka_unit_test (test_the_missing_place_is_found),
        cmocka_unit_test (test_copies_stand_in_line),
        cmocka_unit_test (test_what_workers_do_is_the_cause),
        cmocka_unit_test (test_a_full_cache_is_told),
        cmocka_unit_test (test_a_jobs_batches_are_counted),
        cmocka_unit_test (test_a_client_that_stands_still),
        cmocka_unit_test (test_sums_are_the_time),
        cmocka_unit_test (test_sums_of_ranks),
        cmocka_unit_test (test_batches_are_counted)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
