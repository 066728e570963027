//  Guards: jobs of order `seeded` with a pool, over packs, under made-up clients, workers, disks and time:
//  the order is a function of the request and of nothing else, every piece is read once an epoch, memory
//  stays below its budget, and no job waits for ever.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "budget.h"
#include "effort.h"
#include "seed.h"
#include "simulation.h"
#include "stream_order.h"

enum { SECOND_US = 1000000, SAMPLES_MAX = 3000 };

static const char s_eval [] = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";

typedef struct { uint32_t ids [SAMPLES_MAX]; size_t count; } listed_t;

static void
s_list (void *context, uint32_t id)
{
    listed_t *listed = context;
    listed->ids [listed->count++] = id;
}

//  What the job's epoch must be, from the description alone.
static void
s_expect (const simulation_t *simulation, uint32_t samples, const simulated_job_t *job, uint64_t epoch,
    listed_t *listed)
{
    roaring_bitmap_t *data = roaring_bitmap_from_range (job->from, job->to? job->to: samples, 1);
    stream_order_t *order = stream_order_new (simulation_pack_order (simulation), samples, data, job->pool,
        job->seed);
    listed->count = 0;
    stream_order_begin (order, epoch);
    stream_order_rest (order, s_list, listed);
    stream_order_destroy (&order);
    roaring_bitmap_free (data);
}

//  Finished epochs, less what left_out says.
static void
s_assert_orders (simulation_t *simulation, uint32_t samples, int client, const simulated_job_t *job,
    bool (*left_out) (void *context, uint32_t id))
{
    static listed_t expected;
    for (size_t number = 0; number < simulation_epochs (simulation, client); number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        s_expect (simulation, samples, job, number, &expected);
        size_t place = 0;
        for (size_t index = 0; index < expected.count; index++) {
            if (left_out && left_out (NULL, expected.ids [index]))
                continue;
            if (place == epoch->count && !epoch->ended)
                break;
            if (job->drop_last && place == epoch->count && expected.count - index < job->batch_size)
                break;
            assert_true (place < epoch->count);
            assert_int_equal (epoch->ids [place++], expected.ids [index]);
        }
        assert_int_equal (place, epoch->count);
    }
}

//  A number of the pack's or the first job's object of status.
static uint64_t
s_status (simulation_t *simulation, const char *part, const char *key)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / 1000);
    const json_t *object = json_array_get (json_object_get (status, part), 0);
    if (strcmp (part, "datasets") == 0)
        object = json_object_get (object, "pack");
    const json_t *value = json_object_get (object, key);
    assert_true (json_is_integer (value));
    uint64_t number = (uint64_t) json_integer_value (value);
    json_decref (status);
    return number;
}

static simulation_options_t
s_options (uint32_t samples, size_t raw_bytes)
{
    return (simulation_options_t) { .policy = SAMPLER_POLICY_FOLLOW, .tier = RAW_STREAM, .seed = test_seed (),
        .samples = samples, .cache_versions = 24, .workers = 2, .raw_bytes = raw_bytes, .piece = 8,
        .check = true };
}

//  Guards: a piece is one read, but where a volume begins or the pack ends in it; each sample is read once an
//  epoch, none alone.
static void
test_every_piece_is_read_once_an_epoch (void **state)
{
    (void) state;
    simulation_options_t options = s_options (1000, 600000);
    options.sample_bytes = 500;                 //  read_bytes_max is of eight such
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 300,
        .order = SAMPLER_ORDER_SEEDED,
        .seed = 5, .pool = 80 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 500000);
    assert_int_equal (s_status (simulation, "jobs", "single_reads"), 0);
    assert_int_equal (s_status (simulation, "jobs", "pool"), 80);
    assert_in_range (s_status (simulation, "jobs", "pool_bytes"), 20000, 80000);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    s_assert_orders (simulation, 1000, 0, &job, NULL);
    //  What is still to be prepared when the next epoch begins is not read again.
    assert_in_range (simulation_samples_read (simulation), 2900, 3000);
    //  125 pieces; some do not fit into one read.
    assert_in_range (s_status (simulation, "datasets", "reads"), 3 * 125, 3 * 230);
    assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
    simulation_destroy (&simulation);
}

static size_t
s_thousand (void *context, uint32_t id)
{
    (void) context, (void) id;
    return 1000;
}

//  Guards: a piece that is larger than a read may be is as few reads as it can be.
static void
test_a_large_piece_is_few_reads (void **state)
{
    (void) state;
    simulation_options_t options = s_options (960, 600000);
    options.sample_bytes = 500;                 //  a read may have eight such, and samples are twice as large
    options.bytes_of = s_thousand;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 300,
        .order = SAMPLER_ORDER_SEEDED, .seed = 5, .pool = 80 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    //  Of 120 pieces of eight, a few lie across the begin of a volume or of the pack.
    assert_in_range (s_status (simulation, "datasets", "reads"), 2 * 120, 2 * 120 + 8);
    simulation_destroy (&simulation);
}

//  Guards: the order is the same whatever the batches, workers, memory, policy and company.
static void
test_nothing_else_moves_the_order (void **state)
{
    (void) state;
    for (int round = 0; round < 6; round++) {
        simulation_options_t options = s_options (400, round == 1? 230000: 900000);
        options.workers = 1 + (uint32_t) round % 3;
        options.seed += (uint64_t) round / 3;               //  the third on: another pack
        options.policy = round % 2? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW;
        options.tier = round == 4? RAW_REDOX: round == 5? RAW_DIRECT: RAW_STREAM;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 7 + (uint32_t) round, .slots = 3 + (uint32_t) round,
            .epochs = 3,
            .sample_us = 200, .order = SAMPLER_ORDER_SEEDED, .seed = 77, .pool = 60, .from = 30, .to = 390,
            .drop_last = round == 3 };
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulated_job_t other = { .batch_size = 9, .slots = 4, .epochs = 4, .sample_us = 150 };
        if (round > 1)
            assert_int_equal (simulation_join (simulation, &other), 1);
        other.order = SAMPLER_ORDER_PRIVATE;
        if (round > 2)
            assert_int_equal (simulation_join (simulation, &other), 2);
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        assert_true (simulation_finished (simulation, 0));
        s_assert_orders (simulation, 400, 0, &job, NULL);
        assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
        simulation_destroy (&simulation);
    }
}

//  Guards: what versions in the cache serve is not read.
static void
test_what_is_prepared_is_not_read (void **state)
{
    (void) state;
    simulation_options_t options = s_options (300, 400000);
    options.cache_versions = 400;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .pipeline = s_eval, .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 300,
        .order = SAMPLER_ORDER_SEEDED, .seed = 5, .pool = 64 };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    s_assert_orders (simulation, 300, 0, &job, NULL);
    assert_int_equal (simulation_samples_read (simulation), 300);
    simulation_destroy (&simulation);
}

//  ---- memory

static size_t
s_first_are_large (void *context, uint32_t id)
{
    (void) context;
    return id < 300? 10000: 100;
}

//  Guards: a part of the data with larger samples than the others does not fit as planned: what there is no
//  room for is read by itself, and the epochs are whole.
static void
test_what_does_not_fit_is_read_alone (void **state)
{
    (void) state;
    simulation_options_t options = s_options (3000, 1500000);
    options.bytes_of = s_first_are_large;
    options.sample_bytes = 10000;
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 2, .sample_us = 300,
        .order = SAMPLER_ORDER_SEEDED,
        .seed = 5, .pool = 250, .to = 300 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    simulation_run (simulation, 80000);
    assert_in_range (s_status (simulation, "jobs", "single_reads"), 5, 300);
    broker_check (simulation_broker (simulation));
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    s_assert_orders (simulation, 3000, 0, &job, NULL);
    //  What lies between is read through.
    assert_in_range (simulation_samples_read (simulation), 570, 7000);
    assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
    simulation_destroy (&simulation);
}

//  Guards: what a refusal says.
static void
test_refusals_name_the_remedy (void **state)
{
    (void) state;
    simulation_options_t options = s_options (2000, 0);
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 100,
        .order = SAMPLER_ORDER_SEEDED,
        .seed = 5, .pool = 1000 };
    assert_int_equal (simulation_join (simulation, &job), -1);
    assert_string_equal (simulation_refusal (simulation)->code, "bad_request");
    assert_non_null (strstr (simulation_refusal (simulation)->message, "is no pack"));
    assert_non_null (strstr (simulation_refusal (simulation)->message, "tureen pack"));
    simulation_destroy (&simulation);

    options.raw_bytes = 500000;
    simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, &job), -1);
    assert_string_equal (simulation_refusal (simulation)->code, "budget");
    const char *figure = strstr (simulation_refusal (simulation)->message, "--raw ");
    assert_non_null (figure);
    size_t needed = strtoull (figure + 6, NULL, 10);
    simulation_destroy (&simulation);

    //  The setting is of the reading thread's buffers, too.
    needed -= needed / BROKER_RAW_PARTS;
    options.raw_bytes = needed - 16;
    simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, &job), -1);
    simulation_destroy (&simulation);
    options.raw_bytes = needed;
    simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    s_assert_orders (simulation, 2000, 0, &job, NULL);
    simulation_destroy (&simulation);
}

//  Guards: a pool's memory is its own while the job is there, and others' afterwards.
static void
test_memory_of_a_pool_is_given_back (void **state)
{
    (void) state;
    simulation_options_t options = s_options (2000, 600000);
    options.check = false;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 1000,
        .order = SAMPLER_ORDER_SEEDED,
        .seed = 5, .pool = 250 };
    simulated_job_t shared = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 100 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_int_equal (simulation_join (simulation, &job), -1);      //  a second one has no room
    assert_string_equal (simulation_refusal (simulation)->code, "budget");
    assert_int_equal (simulation_join (simulation, &shared), 1);
    simulation_run (simulation, 100000);
    uint64_t beside = s_status (simulation, "datasets", "resident_bytes_max");
    simulation_gone (simulation, 0);
    simulation_run (simulation, 120000);
    assert_true (s_status (simulation, "datasets", "resident_bytes_max") > 3 * beside);
    assert_int_equal (simulation_join (simulation, &job), 2);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    s_assert_orders (simulation, 2000, 2, &job, NULL);
    assert_true (simulation_finished (simulation, 1) && simulation_finished (simulation, 2));
    simulation_destroy (&simulation);
}

//  ---- damage

static bool
s_is_damaged (void *context, uint32_t id)
{
    (void) context;
    return id % 9 == 4;
}

//  Guards: what is damaged leaves a hole, whether a version of it was wanted or not, and moves nothing.
static void
test_damaged_samples_leave_holes (void **state)
{
    (void) state;
    for (uint32_t pool = 8; pool <= 512; pool *= 4) {
        simulation_options_t options = s_options (300, 600000);
        options.damaged = s_is_damaged;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 10, .slots = 6, .epochs = 3, .sample_us = 100,
            .order = SAMPLER_ORDER_SEEDED, .seed = 9, .pool = pool };
        assert_int_equal (simulation_join (simulation, &job), 0);
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        assert_true (simulation_finished (simulation, 0));
        s_assert_orders (simulation, 300, 0, &job, s_is_damaged);
        simulation_destroy (&simulation);
    }
}

//  ---- jobs that come and go

enum { CLIENTS_MAX = 24 };

typedef struct {
    simulated_job_t jobs [CLIENTS_MAX];
    bool gone [CLIENTS_MAX];
    int clients;
} schedule_t;

static void
s_random_join (simulation_t *simulation, schedule_t *schedule, uint32_t samples, uint64_t *random)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SEEDED,
        SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE };
    if (schedule->clients == CLIENTS_MAX)
        return;
    simulated_job_t *job = &schedule->jobs [schedule->clients];
    uint32_t from = (uint32_t) test_below (random, samples);
    uint32_t to = from + 1 + (uint32_t) test_below (random, samples - from);
    *job = (simulated_job_t) { .from = from, .to = to, .order = orders [test_below (random, 6)],
        .seed = test_below (random, 3), .pipeline = test_below (random, 3)? NULL: s_eval,
        .batch_size = 1 + (uint32_t) test_below (random, 12), .slots = 3 + (uint32_t) test_below (random, 5),
        .epochs = 1 + test_below (random, 4), .sample_us = (int64_t) test_below (random, 300) };
    if (job->order == SAMPLER_ORDER_SEEDED)
        job->pool = 8 + (uint32_t) test_below (random, 60);
    job->drop_last = to - from >= job->batch_size && test_below (random, 3) == 0;
    schedule->clients += simulation_join (simulation, job) >= 0;
}

static int64_t
s_read_us (void *context, const raw_request_t *request)
{
    (void) context;
    return 50 + request->first * 2654435761u % 4000;        //  whatever finishes first
}

static bool
s_two_are_damaged (void *context, uint32_t id)
{
    (void) context;
    return id == 3 || id == 40;
}

static void
s_step (simulation_t *simulation, schedule_t *schedule, uint32_t samples, uint64_t *random)
{
    int clients = schedule->clients, victim = clients? (int) test_below (random, (uint64_t) clients): 0;
    uint64_t choice = test_below (random, 6);
    if (choice <= 1)
        s_random_join (simulation, schedule, samples, random);
    else
    if (choice == 2 && clients) {
        simulation_gone (simulation, victim);
        schedule->gone [victim] = true;
    }
    else
    if (choice == 3 && clients)
        simulation_stop (simulation, victim);
    else
    if (choice == 4 && clients)
        simulation_continue (simulation, victim);
    simulation_run (simulation, simulation_now_us (simulation) + (int64_t) test_below (random, 20000));
}

//  Property: whichever jobs join, leave, stop or go on, in whatever order reads finish, and whatever is
//  damaged: each job has its order, memory is in its budget, every job comes to its end, and all invariants
//  hold after every event.  Replay: TEST_SEED.
static void
test_random_schedules_keep_orders (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (30); seed < last; seed++) {
        uint64_t random = seed;
        simulation_options_t options = s_options (2 + (uint32_t) test_below (&random, 150), 0);
        options.seed = seed;
        options.workers = 1 + (uint32_t) test_below (&random, 4);
        options.cache_versions = options.workers + 1 + test_below (&random, 40);
        options.raw_bytes = 150000 + test_below (&random, 600000);
        options.read_us = s_read_us;
        options.damaged = seed % 2? s_two_are_damaged: NULL;
        schedule_t schedule = { .clients = 0 };
        simulation_t *simulation = simulation_new (&options);
        for (int step = 0; step < 50; step++)
            s_step (simulation, &schedule, options.samples, &random);
        for (int client = 0; client < schedule.clients; client++)
            simulation_continue (simulation, client);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < schedule.clients; client++)
            if (!schedule.gone [client] && !simulation_finished (simulation, client)
            &&  !simulation_ended (simulation, client))
                fail_msg ("seed %llu: client %d waits for ever", (unsigned long long) seed, client);
        for (int client = 0; client < schedule.clients; client++)
            if (schedule.jobs [client].pool && !(options.damaged && schedule.jobs [client].drop_last))
                s_assert_orders (simulation, options.samples, client, &schedule.jobs [client],
                    options.damaged);
        assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
        simulation_destroy (&simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_every_piece_is_read_once_an_epoch),
        cmocka_unit_test (test_a_large_piece_is_few_reads),
        cmocka_unit_test (test_nothing_else_moves_the_order),
        cmocka_unit_test (test_what_is_prepared_is_not_read),
        cmocka_unit_test (test_what_does_not_fit_is_read_alone),
        cmocka_unit_test (test_refusals_name_the_remedy),
        cmocka_unit_test (test_memory_of_a_pool_is_given_back),
        cmocka_unit_test (test_damaged_samples_leave_holes),
        cmocka_unit_test (test_random_schedules_keep_orders)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
