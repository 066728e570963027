//  Several tenants, random comings and goings, from one seed each: all invariants at every step, each sample
//  exactly once for every job, every request answered; and what a tenant is told is the same whether the
//  others are there or not.  Replay: TEST_SEED.  More of them: TEST_RUNS.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "job.h"
#include "seed.h"
#include "simulation.h"

enum { MS = 1000, SECOND_US = 1000 * MS, CLIENTS = 60, STEPS = 50, PLAYS = 250, WORLDS = 150, LIST = 12,
    TOLD_BYTES = 1 << 19 };

static uint64_t
s_runs (uint64_t ordinary)
{
    const char *text = getenv ("TEST_RUNS");
    return text? strtoull (text, NULL, 0): ordinary;
}

static const char *const s_names [] = { "alpha", "bravo", "gamma", "delta" };
static const char *const s_runs_of [] = { NULL, "4b7c1d2e3f405162738495a6b7c8d9ea",
    "11111111111111111111111111111111" };
static const char *const s_instances [] = { NULL, "00112233445566778899aabbccddeeff",
    "ffeeddccbbaa99887766554433221100" };
static const char *const s_job_names [] = { NULL, "sweep", "ranks" };
static const char *const s_pipelines [] = { NULL, "[{\"op\":\"center_crop\",\"size\":[1,1]}]",
    "[{\"op\":\"center_crop\",\"size\":[4,4]},{\"share\":true},{\"op\":\"center_crop\",\"size\":[1,1]},"
    "{\"op\":\"flip\"}]",
    //  wherever others share
    "[{\"op\":\"center_crop\",\"size\":[4,4]},{\"op\":\"center_crop\",\"size\":[1,1]},{\"op\":\"flip\"}]",
    "[{\"op\":\"random_resized_crop\",\"size\":[1,1],\"scale\":[0.5,1]},{\"share\":true},{\"op\":\"flip\"}]",
    "[{\"op\":\"center_crop\",\"size\":[9,9]}]", "[{\"op\":\"center_crop\",\"size\":[40,40]}]" };

#define ANY_OF(random, list) (list [test_below (random, sizeof list / sizeof *list)])

//  ---- what any tenant may ask for

typedef struct {
    uint32_t lists [CLIENTS] [LIST];
    simulated_job_t jobs [CLIENTS];     //  by client; of ranks: rank 0's
    int first [CLIENTS];                //  the client of each job
    int count;
} asked_t;

static simulated_job_t
s_any_job (uint64_t *random, const char *tenant, const simulation_options_t *options, uint32_t list [LIST])
{
    uint32_t samples = options->samples, from = (uint32_t) test_below (random, samples);
    simulated_job_t job = { .tenant = tenant, .batch_size = 1 + (uint32_t) test_below (random, 12),
        .slots = 3 + (uint32_t) test_below (random, 3), .epochs = 1 + test_below (random, 3),
        .order = (sampler_order_t) test_below (random, 4), .seed = 1 + test_below (random, 4), .from = from,
        .to = from + 1 + (uint32_t) test_below (random, samples - from),
        .sample_us = (int64_t) test_below (random, 300),
        .pipeline = ANY_OF (random, s_pipelines),
        .slot_bytes = 1000 + test_below (random, test_below (random, 4)? 20000: 300000),
        .run = ANY_OF (random, s_runs_of), .instance = ANY_OF (random, s_instances),
        .job_name = ANY_OF (random, s_job_names),
        .uid = 7 + (uid_t) test_below (random, 2), .is_inline = test_below (random, 3) == 0 };
    if (job.order == SAMPLER_ORDER_LIST) {
        job.from = job.to = 0;
        job.list = list;
        job.list_count = 1 + test_below (random, LIST);
        for (size_t index = 0; index < job.list_count; index++)
            list [index] = (uint32_t) test_below (random, samples);
    }
    if (job.order == SAMPLER_ORDER_SEEDED && options->raw_bytes && test_below (random, 2))
        job.pool = WIRE_POOL_MIN + (uint32_t) test_below (random, 40);
    if (test_below (random, 4) == 0) {
        job.world_size = 2 + (uint32_t) test_below (random, 2);
        job.rank_wait_seconds = (uint32_t) test_below (random, 3);
        job.job_name = "ranks";
        job.instance = NULL;
    }
    return job;
}

//  A refusal has a code and says something, and does not say which other tenants are there.
static void
s_check_refusal (const simulation_t *simulation, const char *tenant)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    assert_true (refusal->code && *refusal->code && *refusal->message);
    for (size_t index = 0; index < sizeof s_names / sizeof *s_names; index++)
        if ((!tenant || strcmp (tenant, s_names [index]) != 0) && strstr (refusal->message, s_names [index]))
            fail_msg ("'%s' is told of '%s': %s", tenant? tenant: "operator", s_names [index],
                refusal->message);
}

//  The client, or -1.
static int
s_join (simulation_t *simulation, asked_t *asked, const simulated_job_t *job)
{
    int client = simulation_join (simulation, job);
    if (client < 0) {
        s_check_refusal (simulation, job->tenant);
        return client;
    }
    assert_string_equal (tenant_name (job_tenant (simulation_job (simulation, client))),
        job->tenant? job->tenant: "operator");
    asked->first [asked->count] = client;
    asked->jobs [asked->count++] = *job;
    return client;
}

//  ---- all at once

static bool
s_one_in_nine_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

//  A rank that is not there comes back to its job, if that is.
static void
s_return (simulation_t *simulation, asked_t *asked, int which, uint64_t *random)
{
    int first = asked->first [which], lost = -1;
    const simulated_job_t *job = &asked->jobs [which];
    bool is_alive = false;
    for (uint32_t number = 0; number < job->world_size; number++) {
        int client = simulation_rank (simulation, first, number);
        is_alive = is_alive || (simulation_job (simulation, client)
            && !job_is_over (simulation_job (simulation, client)));
        lost = simulation_is_there (simulation, client)? lost: client;
    }
    if (!is_alive || lost < 0)
        return;
    simulated_return_t how = { .records = simulation_records (simulation, lost),
        .is_inline = test_below (random, 2) };
    int back;
    if (simulation_return (simulation, lost, &how, &back) == BROKER_RETURN_REFUSED)
        s_check_refusal (simulation, job->tenant);
}

static void
s_play_step (simulation_t *simulation, asked_t *asked, const simulation_options_t *options, uint64_t *random)
{
    uint64_t choice = test_below (random, 9);
    if (choice <= 2 && asked->count < CLIENTS) {
        uint64_t tenant = test_below (random, options->tenant_count + 1);
        simulated_job_t job = s_any_job (random, tenant? options->tenants [tenant - 1].name: NULL, options,
            asked->lists [asked->count]);
        s_join (simulation, asked, &job);
        return;
    }
    if (asked->count == 0)
        return;
    int which = (int) test_below (random, (uint64_t) asked->count), client = asked->first [which];
    bool has_ranks = asked->jobs [which].world_size > 1;
    if (has_ranks)
        client = simulation_rank (simulation, client,
            (uint32_t) test_below (random, asked->jobs [which].world_size));
    switch (choice) {
    case 3: simulation_leave (simulation, client); break;
    case 4: simulation_lose (simulation, client); break;
    case 5: simulation_stop (simulation, client); break;
    case 6: simulation_continue (simulation, client); break;
    case 7: simulation_gone (simulation, client); break;
    default:
        if (has_ranks)
            s_return (simulation, asked, which, random);
    }
}

//  All have left: nothing is held for any of them.
static void
s_check_empty (simulation_t *simulation)
{
    json_t *status = broker_status (simulation_broker (simulation), NULL, 0);
    static const char *const figures [] = { "jobs", "ranks", "batches_bytes", "pools_bytes",
        "waiting_samples", "gathering_jobs" };
    size_t index;
    const json_t *tenant;
    json_array_foreach (json_object_get (status, "tenants"), index, tenant)
        for (size_t figure = 0; figure < sizeof figures / sizeof *figures; figure++)
            if (json_integer_value (json_object_get (tenant, figures [figure])) != 0)
                fail_msg ("%s of %s are left", figures [figure],
                    json_string_value (json_object_get (tenant, "name")));
    json_decref (status);
}

//  The newest of each rank.
static void
s_each_client (simulation_t *simulation, const asked_t *asked,
    void (*visit) (simulation_t *simulation, int client))
{
    for (int which = 0; which < asked->count; which++) {
        const simulated_job_t *job = &asked->jobs [which];
        for (uint32_t number = 0; number < (job->world_size? job->world_size: 1); number++)
            visit (simulation, job->world_size? simulation_rank (simulation, asked->first [which], number):
                asked->first [which]);
    }
}

static void
s_play (uint64_t seed)
{
    uint64_t random = seed;
    broker_tenant_t tenants [4];
    simulation_options_t options = { .policy = test_below (&random, 2)? SAMPLER_POLICY_DSA:
        SAMPLER_POLICY_FOLLOW, .seed = seed,
        .samples = 1 + (uint32_t) test_below (&random, 70), .workers = 1 + (uint32_t) test_below (&random, 3),
        .check = true,
        .tenants = tenants, .tenant_count = 1 + test_below (&random, 4),
        .jobs_bytes = 200000 + test_below (&random, 4000000),
        .descriptors = test_below (&random, 2)? 30 + test_below (&random, 100): 0 };
    for (size_t index = 0; index < options.tenant_count; index++)
        tenants [index] = (broker_tenant_t) { .name = s_names [index],
            .weight = 1 + (uint32_t) test_below (&random, 10),
            .jobs_max = test_below (&random, 2)? 1 + (uint32_t) test_below (&random, 8): 0,
            .batches_bytes_max = test_below (&random, 3)? 0: 100000 + test_below (&random, 1000000),
            .cache_bytes_max = test_below (&random, 3)? 0: 1000 + test_below (&random, 20000) };
    options.cache_versions = (options.workers + 1) * (1 + options.tenant_count) + test_below (&random, 80);
    if (test_below (&random, 2)) {
        options.raw_bytes = 100000 + test_below (&random, 900000);
        options.tier = (raw_policy_t) test_below (&random, 3);
    }
    if (test_below (&random, 4) == 0)
        options.readable = s_one_in_nine_is_bad;
    static asked_t asked;
    asked.count = 0;
    simulation_t *simulation = simulation_new (&options);
    for (int step = 0; step < STEPS; step++) {
        s_play_step (simulation, &asked, &options, &random);
        simulation_run (simulation, simulation_now_us (simulation) + (int64_t) test_below (&random, 15 * MS));
    }
    s_each_client (simulation, &asked, simulation_continue);
    simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US);
    for (int which = 0; which < asked.count; which++) {
        simulated_job_t job = asked.jobs [which];
        job.from = job.to? job.from: 0;
        job.to = job.to? job.to: options.samples;
        if (!options.readable && job.world_size < 2)
            simulation_assert_epochs (simulation, asked.first [which], &job);
    }
    s_each_client (simulation, &asked, simulation_gone);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    s_check_empty (simulation);
    simulation_destroy (&simulation);
}

//  Property: whichever jobs join, leave, die, stop or come back, and whatever limits there are: budgets and
//  all other invariants hold after every event, each epoch that ends is whole and has nothing twice, a tenant
//  that is refused is told why in its own figures, and in the end nothing is left of any of them.
static void
all_hold_their_own (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + s_runs (EFFORT (PLAYS)); seed < last; seed++) {
        if (getenv ("TEST_RUNS"))
            printf ("    TEST_SEED=%llu\n", (unsigned long long) seed), fflush (stdout);
        s_play (seed);
    }
}

//  ---- two worlds

//  What one tenant was told, in words.
typedef struct {
    char text [TOLD_BYTES];
    size_t used;
} told_t;

static void
s_tell (told_t *told, const char *format, ...) __attribute__ ((format (printf, 2, 3)));

static void
s_tell (told_t *told, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int used = vsnprintf (told->text + told->used, sizeof told->text - told->used, format, arguments);
    va_end (arguments);
    assert_true (used >= 0 && told->used + (size_t) used < sizeof told->text);
    told->used += (size_t) used;
}

//  Figures of time do not count: "12 seconds".
static void
s_tell_refusal (told_t *told, const refusal_t *refusal)
{
    char message [sizeof refusal->message];
    size_t used = 0;
    for (const char *at = refusal->message; *at; at++) {
        size_t digits = strspn (at, "0123456789");
        if (digits > 0 && strncmp (at + digits, " seconds", 8) == 0)
            at += digits;
        message [used++] = *at;
    }
    message [used] = 0;
    s_tell (told, "%s: %s\n", refusal->code, message);
}

//  Nor do figures of samples; but that they are there, and of which kind.
static void
s_blank (json_t *value)
{
    static const char *const figures [] = { "rate", "epoch", "epoch_delivered", "delivered_samples",
        "consumed_samples",
        "consumed_epoch", "epoch_consumed", "window", "waiting_on", "waits", "batch_waits", "sharing",
        "single_reads", "single_bytes",
        "pool_bytes", "resident_samples", "resident_bytes", "delivered", "prepared", "cache_bytes",
        "evictions",
        "prepared_again", "worker_seconds", "waiting_samples", "sent_batches", "consumed_batches",
        "lacks_steps", "uptime_seconds", "pairs" };
    size_t index;
    json_t *part;
    const char *key;
    json_array_foreach (value, index, part)
        s_blank (part);
    if (!json_is_object (value))
        return;
    //  Jobs of a sampling tree stand by what is left to them: only their number is told.
    if ((part = json_object_get (value, "vertices")))
        json_object_set_new (value, "vertices", json_integer ((json_int_t) json_array_size (part)));
    for (index = 0; index < sizeof figures / sizeof *figures; index++)
        if ((part = json_object_get (value, figures [index])))
            json_object_set_new (value, figures [index], json_integer (json_typeof (part)));
    json_object_foreach (value, key, part)
        s_blank (part);
}

static void
s_tell_status (told_t *told, simulation_t *simulation, const char *tenant)
{
    broker_t *broker = simulation_broker (simulation);
    json_t *status = broker_status (broker, tenant_named (broker, tenant),
        simulation_now_us (simulation) / MS);
    s_blank (status);
    char *text = json_dumps (status, JSON_SORT_KEYS | JSON_COMPACT);
    s_tell (told, "%s\n", text);
    free (text);
    json_decref (status);
}

//  All that a join can tell its client.
static void
s_tell_join (told_t *told, simulation_t *simulation, asked_t *asked, const simulated_job_t *job)
{
    int client = s_join (simulation, asked, job);
    if (client < 0) {
        s_tell_refusal (told, simulation_refusal (simulation));
        return;
    }
    const job_t *joined = simulation_job (simulation, client);
    bool is_own_run = job->run && strcmp (job_run (joined), job->run) == 0;
    s_tell (told, "job %llu, run %s, forked %d, shared %s, %llu samples\n",
        (unsigned long long) job_id (joined),
        is_own_run? job->run: "fresh", job_is_forked (joined), pipeline_shared_text (job_pipeline (joined)),
        (unsigned long long) job_epoch_samples (joined));
}

//  Whether its rank comes back, and what it is told of that; by a client that says to be one of this
//  tenant's.
static void
s_tell_return (told_t *told, simulation_t *simulation, asked_t *asked, const char *tenant, uint64_t *random)
{
    simulated_job_t job = { .tenant = tenant, .batch_size = 1 + (uint32_t) test_below (random, 3), .slots = 3,
        .world_size = 2,
        .job_name = "ranks", .run = ANY_OF (random, s_runs_of), .uid = 7, .slot_bytes = 1000 };
    const broker_terms_t *join = simulation_asked (simulation, &job);
    broker_terms_t asks = *join;
    asks.instances [1] = ANY_OF (random, s_instances);
    refusal_t refusal;
    job_t *found = NULL;
    broker_return_t answer = broker_returns (simulation_broker (simulation), &asks, 1,
        simulation_now_us (simulation) / MS, &found, &refusal);
    s_tell (told, "return %d\n", (int) answer);
    if (answer == BROKER_RETURN_REFUSED)
        s_tell_refusal (told, &refusal);
    simulation_asked_clear (join);
    (void) asked;
}

//  A step of one tenant, which asks and is told.  Its jobs go on for ever, so that nothing depends on how
//  fast.
static void
s_world_step (told_t *told, simulation_t *simulation, asked_t *asked, const simulation_options_t *options,
    const char *tenant, uint64_t *random)
{
    uint64_t choice = test_below (random, 8);
    int which = asked->count? (int) test_below (random, (uint64_t) asked->count): -1;
    if (choice <= 3 && asked->count < CLIENTS) {
        simulated_job_t job = s_any_job (random, tenant, options, asked->lists [asked->count]);
        job.epochs = 0;
        job.sample_us += 2 * MS;
        job.is_inline = false;
        job.rank_wait_seconds = 1000;
        s_tell_join (told, simulation, asked, &job);
    }
    else
    if (choice == 4 && which >= 0)
        simulation_gone (simulation, asked->first [which]);
    else
    if (choice == 5)
        s_tell_return (told, simulation, asked, tenant, random);
    else
    if (choice == 6 && which >= 0 && asked->jobs [which].world_size > 1)
        simulation_lose (simulation, simulation_rank (simulation, asked->first [which], 1));
}

//  One world: the first tenant's schedule follows from the seed; others: with the same things done by others
//  in between, by the same names, runs and instances.
static void
s_live (uint64_t seed, bool others, told_t *told)
{
    uint64_t random = seed, own = seed ^ 0x6f776e, foreign = seed ^ 0x666f72;
    const broker_tenant_t tenants [] = { { "alpha", 2, (uint32_t) test_below (&random, 7), 0,
        test_below (&random, 2) * 5000 },
        { "bravo", 1, 0, 0, 0 } };
    simulation_options_t options = { .policy = test_below (&random, 2)? SAMPLER_POLICY_DSA:
        SAMPLER_POLICY_FOLLOW, .seed = seed,
        .samples = 10 + (uint32_t) test_below (&random, 60), .workers = 2,
        .cache_versions = 40 + test_below (&random, 60),
        .tenants = tenants, .tenant_count = 2, .jobs_bytes = 600000 + test_below (&random, 6000000),
        .descriptors = test_below (&random, 2)? 30 + test_below (&random, 60): 0,
        .raw_bytes = test_below (&random, 2) * 600000,
        .tier = (raw_policy_t) test_below (&random, 3) };
    static asked_t asked, beside;
    static told_t unheard;
    asked.count = beside.count = 0;
    simulation_t *simulation = simulation_new (&options);
    for (int step = 0; step < STEPS; step++) {
        for (int turn = 0; others && turn < 3; turn++) {
            unheard.used = 0;
            s_world_step (&unheard, simulation, &beside, &options, test_below (&foreign, 3)? "bravo": NULL,
                &foreign);
        }
        s_world_step (told, simulation, &asked, &options, "alpha", &own);
        simulation_run (simulation, (step + 1) * 20 * MS);
        if (step % 5 == 4)
            s_tell_status (told, simulation, "alpha");
    }
    broker_check (simulation_broker (simulation));
    simulation_destroy (&simulation);
}

//  Property: for all that a tenant can ask (joins by run, instance and name, ranks that return, status), the
//  answers are byte for byte the same whether others do the same under the same names or are not there.
static void
nothing_is_told_of_others (void **state)
{
    (void) state;
    static told_t alone, among;
    for (uint64_t seed = test_seed (), last = seed + s_runs (EFFORT (WORLDS)); seed < last; seed++) {
        alone.used = among.used = 0;
        s_live (seed, false, &alone);
        s_live (seed, true, &among);
        if (alone.used == among.used && memcmp (alone.text, among.text, alone.used) == 0)
            continue;
        size_t at = 0, line = 0;
        for (; alone.text [at] == among.text [at]; at++)
            line = alone.text [at] == '\n'? at + 1: line;
        alone.text [alone.used] = among.text [among.used] = 0;
        fail_msg ("TEST_SEED=%llu: alone: %.3000s\n... among others: %.3000s", (unsigned long long) seed,
            alone.text + line, among.text + line);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (all_hold_their_own),
        cmocka_unit_test (nothing_is_told_of_others)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
