//  The broker over packs, under made-up clients, workers, disks and time: the contract holds whatever tier is
//  underneath, memory stays below its budget, and damage costs only what it hits.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "broker.h"
#include "effort.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000 };

//  What each test runs under.
typedef struct {
    sampler_policy_t policy;
    raw_policy_t tier;
} setting_t;

static setting_t s_settings [] = {
    { SAMPLER_POLICY_FOLLOW, RAW_STREAM }, { SAMPLER_POLICY_DSA, RAW_STREAM },
    { SAMPLER_POLICY_FOLLOW, RAW_REDOX }, { SAMPLER_POLICY_DSA, RAW_REDOX },
    { SAMPLER_POLICY_FOLLOW, RAW_DIRECT }, { SAMPLER_POLICY_DSA, RAW_DIRECT }
};

#define UNDER_ALL(test) \
    { #test " (follow, stream)", test, NULL, NULL, &s_settings [0] }, \
    { #test " (dsa, stream)", test, NULL, NULL, &s_settings [1] }, \
    { #test " (follow, redox)", test, NULL, NULL, &s_settings [2] }, \
    { #test " (dsa, redox)", test, NULL, NULL, &s_settings [3] }, \
    { #test " (follow, direct)", test, NULL, NULL, &s_settings [4] }, \
    { #test " (dsa, direct)", test, NULL, NULL, &s_settings [5] }

static simulation_options_t
s_options (void **state, uint32_t samples, size_t raw_bytes)
{
    const setting_t *setting = *state;
    return (simulation_options_t) { .policy = setting->policy, .tier = setting->tier, .seed = test_seed (),
        .samples = samples, .cache_versions = 24, .workers = 2, .raw_bytes = raw_bytes, .piece = 4,
        .check = true };
}

//  Guards: a job alone over a pack that does not fit: epochs are permutations, the budget holds, and with
//  `stream` each sample is read once an epoch.
static void
test_one_job_reads_once_an_epoch (void **state)
{
    simulation_options_t options = s_options (state, 300, 60000);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 300 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    for (size_t epoch = 0; epoch < 3; epoch++)
        simulation_assert_permutation (simulation_epoch (simulation, 0, epoch), 0, 300);
    assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
    //  Fewer where a sample is still in memory when its next epoch's piece comes up, more where such a one
    //  lies in between.
    if (options.tier != RAW_REDOX)
        assert_in_range (simulation_samples_read (simulation), 700, 990);
    simulation_destroy (&simulation);
}

//  Guards: data that fit are read once for all epochs.
static void
test_what_fits_is_read_once (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .tier = RAW_STREAM,
        .seed = test_seed (),
        .samples = 200, .cache_versions = 24, .workers = 2, .raw_bytes = 500000, .piece = 4, .check = true };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 5, .sample_us = 100 };
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    for (size_t epoch = 0; epoch < 5; epoch++)
        simulation_assert_permutation (simulation_epoch (simulation, 0, epoch), 0, 200);
    assert_int_equal (simulation_samples_read (simulation), 200);
    simulation_destroy (&simulation);
}

//  Guards: equal jobs in step cost one read an epoch between them.
static void
test_equal_jobs_share_what_is_read (void **state)
{
    simulation_options_t options = s_options (state, 300, 60000);
    if (options.tier != RAW_STREAM)
        return;
    options.gather_ms = 10;
    options.cache_versions = 200;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 8, .epochs = 3, .sample_us = 400 };
    for (int client = 0; client < 4; client++)
        simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    for (int client = 0; client < 4; client++)
        for (size_t epoch = 0; epoch < 3; epoch++)
            simulation_assert_permutation (simulation_epoch (simulation, client, epoch), 0, 300);
    assert_in_range (simulation_samples_read (simulation), 700, 990);
    simulation_destroy (&simulation);
}

static bool
s_one_in_nine_is_damaged (void *context, uint32_t id)
{
    (void) context;
    return id % 9 == 4;
}

static bool
s_only_one_in_nine_is_whole (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

//  Every read of several fails; alone, those of damaged samples do.
static int
s_reads_fail (void *context, const raw_request_t *request)
{
    return request->count > 1 || s_one_in_nine_is_damaged (context, request->samples [0]->id)? -EIO: 0;
}

static void
s_assert_all_but_damaged (simulation_t *simulation, int client, uint32_t samples)
{
    for (size_t number = 0; number < simulation_epochs (simulation, client); number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        for (size_t index = 0; index < epoch->count; index++)
            assert_false (s_one_in_nine_is_damaged (NULL, epoch->ids [index]));
        uint32_t whole = 0;
        for (uint32_t id = 0; id < samples; id++)
            whole += !s_one_in_nine_is_damaged (NULL, id);
        assert_true (epoch->ended);
        assert_int_equal (epoch->count, whole);
    }
}

//  Guards: damaged samples leave the data, the others come, each once; so with a disk that fails.
static void
test_damage_costs_what_it_hits (void **state)
{
    for (int fails = 0; fails < 2; fails++) {
        simulation_options_t options = s_options (state, 300, 60000);
        options.damaged = fails? NULL: s_one_in_nine_is_damaged;
        options.read_rc = fails? s_reads_fail: NULL;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 100 };
        simulation_join (simulation, &job);
        job.order = SAMPLER_ORDER_PRIVATE;
        simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        s_assert_all_but_damaged (simulation, 0, 300);
        s_assert_all_but_damaged (simulation, 1, 300);
        simulation_destroy (&simulation);
    }
}

//  Guards: what several classes find damaged at once is forgotten once.  (Strata counted it twice.)
static void
test_damage_found_twice_is_forgotten_once (void **state)
{
    simulation_options_t options = s_options (state, 9 * 4, 120000);
    options.damaged = s_only_one_in_nine_is_whole;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 8, .epochs = 2, .sample_us = 100 };
    simulation_join (simulation, &job);
    job.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    for (int client = 0; client < 2; client++)
        for (size_t epoch = 0; epoch < 2; epoch++)
            assert_int_equal (simulation_epoch (simulation, client, epoch)->count, 4);
    simulation_destroy (&simulation);
}

//  Guards: private jobs have tiers of their own, as many as memory takes; one more is refused, with the
//  figure.
static void
test_too_many_tiers_are_refused (void **state)
{
    simulation_options_t options = s_options (state, 100, 60000);
    if (options.tier == RAW_DIRECT)
        return;
    options.piece = 1;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 4, .slots = 4, .epochs = 2, .sample_us = 100,
        .order = SAMPLER_ORDER_PRIVATE };
    int joined = 0;
    while (joined < 60 && simulation_join (simulation, &job) >= 0)
        joined++;
    assert_in_range (joined, 1, 59);
    assert_string_equal (simulation_refusal (simulation)->code, "budget");
    assert_non_null (strstr (simulation_refusal (simulation)->message, "--raw "));
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    for (int client = 0; client < joined; client++)
        for (size_t epoch = 0; epoch < 2; epoch++)
            simulation_assert_permutation (simulation_epoch (simulation, client, epoch), 0, 100);
    assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
    simulation_destroy (&simulation);
}

//  Guards: what a tier was is told after its last job has left, and adds to that of the next tier.
static void
test_the_last_tier_is_told (void **state)
{
    static const struct { const char *policy; json_int_t piece_samples, virtual_chunks; } told [] = {
        [RAW_STREAM] = { "stream", 4, 0 }, [RAW_REDOX] = { "redox", 16, 2 }, [RAW_DIRECT] = { "direct", 0, 0 }
    };
    simulation_options_t options = s_options (state, 300, 60000);
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .sample_us = 100 };
    json_int_t drawn [2];
    for (int turn = 0; turn < 2; turn++) {
        int client = simulation_must_join (simulation, &job);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        simulation_leave (simulation, client);
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
        assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 0);
        json_t *status = broker_status (simulation_broker (simulation), NULL,
            simulation_now_us (simulation) / 1000);
        json_t *tier = json_object_get (json_array_get (json_object_get (status, "datasets"), 0), "pack");
        assert_int_equal (json_integer_value (json_object_get (tier, "resident_samples")), 0);
        assert_string_equal (json_string_value (json_object_get (tier, "policy")),
            told [options.tier].policy);
        assert_int_equal (json_integer_value (json_object_get (tier, "piece_samples")),
            told [options.tier].piece_samples);
        assert_int_equal (json_integer_value (json_object_get (tier, "virtual_chunks")),
            told [options.tier].virtual_chunks);
        drawn [turn] = json_integer_value (json_object_get (tier, "hits"))
            + json_integer_value (json_object_get (tier, "misses"));
        json_decref (status);
    }
    if (options.tier == RAW_STREAM)
        assert_true (drawn [0] == 300 && drawn [1] == 600);
    simulation_destroy (&simulation);
}

//  Guards: of many jobs on different parts some find no stratum, and draw apart: never through the tier of
//  those that follow (which asserts it); each gets its part once an epoch all the same.
static void
test_jobs_that_draw_apart (void **state)
{
    enum { MANY = 40, STEP = 7, PART = 60 };
    simulation_options_t options = s_options (state, MANY * STEP + PART, 120000);
    options.check = false;
    options.cache_versions = 400;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 5, .slots = 4, .epochs = 2, .sample_us = 100 };
    int apart = 0;
    for (int number = 0; number < MANY; number++) {
        job.from = (uint32_t) number * STEP;
        job.to = job.from + PART;
        int client = simulation_must_join (simulation, &job);
        apart += !simulation_job (simulation, client)->consumer.follows;
    }
    assert_true (apart > 0);
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    for (int client = 0; client < MANY; client++)
        for (size_t epoch = 0; epoch < 2; epoch++)
            simulation_assert_permutation (simulation_epoch (simulation, client, epoch),
                (uint32_t) client * STEP, (uint32_t) client * STEP + PART);
    simulation_destroy (&simulation);
}

//  ---- jobs that stand still

typedef struct {
    uint64_t singles, delivered;
} share_t;

//  What the first two clients have had so far.
static share_t
s_share (simulation_t *simulation)
{
    share_t share = { .singles = 0 };
    json_t *status = broker_status (simulation_broker (simulation), NULL,
        simulation_now_us (simulation) / 1000);
    json_t *jobs = json_object_get (status, "jobs");
    for (size_t index = 0; index < json_array_size (jobs); index++) {
        json_t *job = json_array_get (jobs, index);
        if (json_integer_value (json_object_get (job, "job")) > 2)
            continue;
        share.singles += (uint64_t) json_integer_value (json_object_get (job, "single_reads"));
        share.delivered += (uint64_t) json_integer_value (json_object_get (job, "delivered_samples"));
    }
    json_decref (status);
    return share;
}

static double
s_singles_between (share_t before, share_t after)
{
    assert_true (after.delivered > before.delivered);
    return (double) (after.singles - before.singles) / (double) (after.delivered - before.delivered);
}

//  Guards: of three clients one stops in its first epoch, on the data of the others or on its own; for ten
//  epochs of theirs it does not come to more and more single reads.  Without the rule (tier.c) they have
//  nothing else on other data.
static void
test_a_stopped_job_does_not_fill_memory (void **state)
{
    for (int own = 0; own < 2; own++) {
        simulation_options_t options = s_options (state, 1200, 120000);
        if (options.tier != RAW_STREAM || EFFORT (10) < 10)
            return;
        options.check = false;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 14, .sample_us = 500,
            .to = own? 600: 1200 };
        int64_t epoch_us = (int64_t) job.to * job.sample_us;
        simulation_join (simulation, &job);
        job.sample_us = 800;
        simulation_join (simulation, &job);
        job.from = own? 600: 0;
        job.to = 1200;
        int stopped = simulation_join (simulation, &job);
        simulation_run (simulation, epoch_us / 3);
        simulation_stop (simulation, stopped);
        share_t shares [3];
        for (int part = 0; part < 3; part++) {
            simulation_run (simulation, epoch_us * (1 + 5 * part));
            shares [part] = s_share (simulation);
        }
        double early = s_singles_between (shares [0], shares [1]),
            late = s_singles_between (shares [1], shares [2]);
        print_message ("%s data: single reads a delivery %.3f, then %.3f\n", own? "other": "same", early,
            late);
        assert_true (late <= early + 0.1);
        assert_true (late <= 0.5);
        simulation_continue (simulation, stopped);
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        for (int client = 0; client < 3; client++)
            for (size_t epoch = 0; epoch < 14; epoch++)
                simulation_assert_permutation (simulation_epoch (simulation, client, epoch),
                    client == stopped? job.from: 0, own && client != stopped? 600: 1200);
        assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
        simulation_destroy (&simulation);
    }
}

//  ---- jobs that come and go

enum { SCHEDULE_CLIENTS_MAX = 24, LIST_MAX = 60 };

typedef struct {
    simulated_job_t jobs [SCHEDULE_CLIENTS_MAX];
    uint32_t lists [SCHEDULE_CLIENTS_MAX] [LIST_MAX];
    bool gone [SCHEDULE_CLIENTS_MAX];
    int clients;
    size_t tenants;             //  0: only the operator
} schedule_t;

static void
s_random_join (simulation_t *simulation, schedule_t *schedule, uint32_t samples, uint64_t *random)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_LIST };
    if (schedule->clients == SCHEDULE_CLIENTS_MAX)
        return;
    simulated_job_t *job = &schedule->jobs [schedule->clients];
    uint32_t from = (uint32_t) test_below (random, samples),
        to = from + 1 + (uint32_t) test_below (random, samples - from);
    *job = (simulated_job_t) { .from = from, .to = to, .order = orders [test_below (random, 6)],
        .seed = test_below (random, 3),
        .pipeline = test_below (random, 3)? NULL: "[{\"op\":\"center_crop\",\"size\":[1,1]}]",
        .batch_size = 1 + (uint32_t) test_below (random, 12), .slots = 3 + (uint32_t) test_below (random, 5),
        .epochs = 1 + test_below (random, 4), .sample_us = (int64_t) test_below (random, 300) };
    if (schedule->tenants)
        job->tenant = test_below (random, 2)? "a": "b";
    if (job->order == SAMPLER_ORDER_LIST && test_below (random, 2)) {
        uint32_t *list = schedule->lists [schedule->clients];
        job->list_count = 1 + test_below (random, LIST_MAX);
        for (size_t index = 0; index < job->list_count; index++)
            list [index] = (uint32_t) test_below (random, samples);
        job->list = list;
        job->from = job->to = 0;
    }
    schedule->clients += simulation_join (simulation, job) >= 0;
}

static int64_t
s_read_us (void *context, const raw_request_t *request)
{
    (void) context;
    return 50 + request->first * 2654435761u % 4000;        //  whatever finishes first
}

static void
s_play (void **state, bool is_folder)
{
    static const broker_tenant_t tenants [] = { { .name = "a", .weight = 1 }, { .name = "b", .weight = 3 } };
    for (uint64_t seed = test_seed (), last = seed + 2 + EFFORT (10); seed < last; seed++) {
        uint64_t random = seed;
        int begins = is_folder? (int) test_below (&random, 50): -1;     //  step
        simulation_options_t options = s_options (state, 1 + (uint32_t) test_below (&random, 150), 0);
        options.seed = seed;
        options.piece = 1 + (uint32_t) test_below (&random, 8);
        options.workers = 1 + (uint32_t) test_below (&random, 4);
        options.cache_versions = options.workers + 1 + test_below (&random, 40);
        options.raw_bytes = 90000 + test_below (&random, 200000);
        options.read_us = s_read_us;
        options.is_folder = is_folder;
        options.fetch_us = is_folder? 1 + (int64_t) test_below (&random, 3000): 0;
        options.tenants = tenants;
        options.tenant_count = is_folder && test_below (&random, 2)? 2: 0;
        schedule_t schedule = { .tenants = options.tenant_count };
        simulation_t *simulation = simulation_new (&options);
        for (int step = 0; step < 50; step++) {
            if (step == begins)
                simulation_reads_in_pieces (simulation);
            int clients = schedule.clients,
                victim = clients? (int) test_below (&random, (uint64_t) clients): 0;
            uint64_t choice = test_below (&random, 6);
            if (choice <= 1)
                s_random_join (simulation, &schedule, options.samples, &random);
            else
            if (choice == 2 && clients) {
                simulation_gone (simulation, victim);
                schedule.gone [victim] = true;
            }
            else
            if (choice == 3 && clients)
                simulation_stop (simulation, victim);
            else
            if (choice == 4 && clients)
                simulation_continue (simulation, victim);
            simulation_run (simulation,
                simulation_now_us (simulation) + (int64_t) test_below (&random, 20000));
        }
        for (int client = 0; client < schedule.clients; client++)
            simulation_continue (simulation, client);
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < schedule.clients; client++) {
            simulation_assert_epochs (simulation, client, &schedule.jobs [client]);
            //  no job waits for ever
            assert_true (schedule.gone [client] || simulation_finished (simulation, client));
        }
        assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
        simulation_destroy (&simulation);
    }
}

//  Property: whichever jobs join, leave, stop or go on, in whatever order reads finish: every finished epoch
//  is a permutation, bytes are the sample's, memory is in its budget, and all invariants hold after every
//  event.  Replay: TEST_SEED.
static void
test_random_schedules_keep_epochs_whole (void **state)
{
    s_play (state, false);
}

//  The same of a folder that begins to be read in pieces while jobs are in mid-epoch, of one tenant or of
//  two.
static void
test_a_folder_begins_to_be_read_in_pieces (void **state)
{
    s_play (state, true);
}

//  A job that is there goes on by pieces in its epoch; and most reads are of several samples.
static void
test_a_job_goes_on_by_pieces (void **state)
{
    simulation_options_t options = s_options (state, 300, 60000);
    if (options.tier != RAW_STREAM)
        return;
    options.is_folder = true;
    options.fetch_us = 200;
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 3, .sample_us = 300 };
    assert_int_equal (simulation_join (simulation, &job), 0);
    assert_false (simulation_run (simulation, 50000));
    assert_in_range (simulation_consumed (simulation, 0), 2, 28);
    assert_int_equal (simulation_samples_read (simulation), 0);
    assert_true (simulation_reads_in_pieces (simulation));
    assert_true (simulation_run (simulation, 1000 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    for (size_t epoch = 0; epoch < 3; epoch++)
        simulation_assert_permutation (simulation_epoch (simulation, 0, epoch), 0, 300);
    assert_true (simulation_raw_peak (simulation) <= options.raw_bytes);
    //  Two epochs and a part.
    assert_in_range (simulation_samples_read (simulation), 450, 960);
    simulation_destroy (&simulation);
}

//  Orders that follow a pack's are refused: another server's copy has another one.
static void
test_no_order_follows_a_copy (void **state)
{
    simulation_options_t options = s_options (state, 300, 600000);
    options.is_folder = true;
    simulation_t *simulation = simulation_new (&options);
    assert_true (simulation_reads_in_pieces (simulation));
    simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 1, .order = SAMPLER_ORDER_SEEDED,
        .pool = WIRE_POOL_MIN };
    assert_int_equal (simulation_join (simulation, &job), -1);
    assert_non_null (strstr (simulation_refusal (simulation)->message, "is no pack"));
    simulation_destroy (&simulation);
}

//  The jobs that a folder's server takes before it reads pieces, it takes then too: without memory they read
//  sample by sample.
static void
test_a_folder_refuses_no_job (void **state)
{
    static const broker_tenant_t tenants [] = { { .name = "a", .weight = 1 } };
    enum { JOBS = 64 };
    if (s_options (state, 0, 0).tier == RAW_REDOX)
        return;                     //  of packs alone
    for (size_t tenant_count = 0; tenant_count < 2; tenant_count++) {
        simulation_options_t options = s_options (state, 100, 60000);
        options.is_folder = true;
        options.fetch_us = 200;
        options.cache_versions = 200;
        options.tenants = tenants;
        options.tenant_count = tenant_count;
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t jobs [JOBS];
        for (int client = 0; client < JOBS; client++) {
            jobs [client] = (simulated_job_t) { .batch_size = 10, .slots = 4, .epochs = 2, .sample_us = 300,
                .tenant = tenant_count? "a": NULL, .to = options.samples,
                .order = client % 8 == 7? SAMPLER_ORDER_SHARED: SAMPLER_ORDER_PRIVATE };
            assert_int_equal (simulation_join (simulation, &jobs [client]), client);
            simulation_run (simulation, simulation_now_us (simulation) + 500);
            if (client == JOBS / 2)
                assert_true (simulation_reads_in_pieces (simulation));
        }
        assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
        for (int client = 0; client < JOBS; client++) {
            assert_true (simulation_finished (simulation, client));
            simulation_assert_epochs (simulation, client, &jobs [client]);
        }
        simulation_destroy (&simulation);
    }
}

//  What jobs with a pool have reserved is theirs: a folder is read in pieces when they have gone, if there is
//  too little beside it.
static void
test_a_folder_leaves_pools_their_memory (void **state)
{
    enum { LEAST = 100000, STEP = 500, STEPS = 60 };
    simulation_options_t options = s_options (state, 60, LEAST);
    if (options.tier != RAW_STREAM)
        return;
    options.is_folder = true;
    options.fetch_us = 200;
    int waits = 0;
    for (int step = 0; step < STEPS; step++, options.raw_bytes += STEP) {
        simulation_t *simulation = simulation_new (&options);
        assert_int_equal (simulation_add_dataset (simulation, "pack", true, true), 1);
        simulated_job_t job = { .batch_size = 10, .slots = 4, .epochs = 2, .sample_us = 300,
            .to = options.samples };
        assert_int_equal (simulation_join (simulation, &job), 0);
        simulated_job_t pools = { .dataset = "pack", .batch_size = 4, .slots = 3,
            .order = SAMPLER_ORDER_SEEDED, .pool = WIRE_POOL_MIN };
        int clients = 1;
        while (simulation_join (simulation, &pools) == clients)
            clients++;
        assert_int_not_equal (clients, 1);
        bool is_read_in_pieces = simulation_reads_in_pieces (simulation);
        broker_check (simulation_broker (simulation));
        simulation_run (simulation, 2000);
        broker_check (simulation_broker (simulation));
        while (--clients > 0)
            simulation_gone (simulation, clients);
        waits += !is_read_in_pieces;
        assert_true (is_read_in_pieces || simulation_reads_in_pieces (simulation));
        assert_true (simulation_run (simulation, 1000 * SECOND_US));
        assert_true (simulation_finished (simulation, 0));
        simulation_assert_epochs (simulation, 0, &job);
        simulation_destroy (&simulation);
    }
    assert_in_range (waits, 1, STEPS - 1);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        UNDER_ALL (test_one_job_reads_once_an_epoch),
        UNDER_ALL (test_a_folder_begins_to_be_read_in_pieces),
        UNDER_ALL (test_a_job_goes_on_by_pieces),
        UNDER_ALL (test_no_order_follows_a_copy),
        UNDER_ALL (test_a_folder_refuses_no_job),
        UNDER_ALL (test_a_folder_leaves_pools_their_memory),
        cmocka_unit_test (test_what_fits_is_read_once),
        UNDER_ALL (test_equal_jobs_share_what_is_read),
        UNDER_ALL (test_damage_costs_what_it_hits),
        UNDER_ALL (test_damage_found_twice_is_forgotten_once),
        UNDER_ALL (test_too_many_tiers_are_refused),
        UNDER_ALL (test_the_last_tier_is_told),
        UNDER_ALL (test_jobs_that_draw_apart),
        UNDER_ALL (test_a_stopped_job_does_not_fill_memory),
        UNDER_ALL (test_random_schedules_keep_epochs_whole)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
