//  Workers' time by weight, with the broker under made-up tenants, workers and time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "budget.h"
#include "effort.h"
#include "row.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, TENANTS = 8, IDS = 400, NAME_BYTES = 24, ROUNDS = 9, CHECKED = 6 };

//  What tasks of each tenant take: each has a range of ids of its own, IDS of them.
typedef struct {
    int64_t prepare_us [TENANTS], copy_us [TENANTS], fetch_us [TENANTS];
    uint64_t given_us [TENANTS];        //  handed out so far
    uint64_t random;
} costs_t;

//  Between half and one and a half.
static int64_t
s_vary (costs_t *costs, int64_t us)
{
    return us / 2 + (int64_t) test_below (&costs->random, (uint64_t) us + 1);
}

static int64_t
s_prepare_us (void *context, broker_t *broker, const version_t *version)
{
    (void) broker;
    costs_t *costs = context;
    int64_t us = s_vary (costs, costs->prepare_us [version->id / IDS]);
    costs->given_us [version->id / IDS] += (uint64_t) us;
    return us;
}

static int64_t
s_copying_us (void *context, const batch_row_t *row)
{
    costs_t *costs = context;
    uint32_t tenant = row_id (row) / IDS;
    int64_t us = s_vary (costs, costs->copy_us [tenant]);
    costs->given_us [tenant] += (uint64_t) us;
    return us;
}

static int64_t
s_fetch_us (void *context, const version_t *version)
{
    const costs_t *costs = context;
    return costs->fetch_us [version->id / IDS];
}

//  Tenants of these weights, each with a range of ids.
typedef struct {
    simulation_options_t options;
    broker_tenant_t tenants [TENANTS];
    char names [TENANTS] [NAME_BYTES];
    costs_t costs;
    size_t count;
    simulation_t *simulation;
} world_t;

static void
s_make (world_t *world, uint64_t seed, const uint32_t *weights, size_t count)
{
    memset (world, 0, sizeof *world);
    world->count = count;
    world->costs.random = seed;
    for (size_t number = 0; number < count; number++) {
        snprintf (world->names [number], NAME_BYTES, "t%zu", number);
        world->tenants [number] = (broker_tenant_t) { .name = world->names [number],
            .weight = weights [number],
            .jobs_max = 1000, .cache_bytes_max = 0 };
        world->costs.prepare_us [number] = 1000;
        world->costs.copy_us [number] = 50;
    }
    world->options = (simulation_options_t) { .seed = seed, .samples = (uint32_t) count * IDS,
        .cache_versions = 4000, .workers = 4,
        .prepare_us = s_prepare_us, .copying_us = s_copying_us, .context = &world->costs,
        .tenants = world->tenants,
        .tenant_count = count };
}

static void
s_start (world_t *world)
{
    world->simulation = simulation_new (&world->options);
}

//  A job of the tenant on its ids, that takes what it can get.
static simulated_job_t
s_greedy (const world_t *world, size_t tenant, uint32_t batch_size, uint32_t slots)
{
    return (simulated_job_t) { .tenant = world->names [tenant], .batch_size = batch_size, .slots = slots,
        .order = SAMPLER_ORDER_PRIVATE, .from = (uint32_t) tenant * IDS,
        .to = (uint32_t) (tenant + 1) * IDS };
}

//  Workers' time of each tenant, as the broker has charged it.
static void
s_charged (const world_t *world, double *seconds)
{
    broker_t *broker = simulation_broker (world->simulation);
    for (size_t number = 0; number < world->count; number++)
        seconds [number] = (double) tenant_worker_ns (broker,
            tenant_named (broker, world->names [number])) / 1e9;
}

//  Lets time pass, and tells what each tenant was charged meanwhile; together no less than most of all
//  workers' time.
static void
s_measure (world_t *world, double seconds, double *charged)
{
    double before [TENANTS], whole = 0;
    s_charged (world, before);
    simulation_run (world->simulation,
        simulation_now_us (world->simulation) + (int64_t) (seconds * SECOND_US));
    s_charged (world, charged);
    for (size_t number = 0; number < world->count; number++)
        whole += charged [number] -= before [number];
    if (whole < 0.97 * seconds * world->options.workers)
        fail_msg ("seed %" PRIu64 ": workers were idle: %.3f s of %.3f", world->options.seed, whole,
            seconds * world->options.workers);
}

//  Those of active, a bit each, have shares by weight, within a part of each share; the others have nothing.
static void
s_expect_shares (const world_t *world, const double *charged, unsigned active, double within)
{
    double whole = 0, weights = 0;
    for (size_t number = 0; number < world->count; number++) {
        whole += charged [number];
        weights += active >> number & 1? world->tenants [number].weight: 0;
    }
    for (size_t number = 0; number < world->count; number++) {
        double due = active >> number & 1? whole * world->tenants [number].weight / weights: 0;
        if (fabs (charged [number] - due) > within * due + 1e-6)
            fail_msg ("seed %" PRIu64 ": tenant %zu of weight %u, of all %g: %.3f s of workers' %.3f, due "
                "%.3f",
                world->options.seed, number, world->tenants [number].weight, weights, charged [number], whole,
                due);
    }
}

//  What the broker charges is what was given, up to what is in flight.
static void
s_expect_honest (const world_t *world)
{
    double charged [TENANTS];
    s_charged (world, charged);
    for (size_t number = 0; number < world->count; number++) {
        double longest = 1.5e-6 * (double) (world->costs.prepare_us [number] > world->costs.copy_us [number]?
            world->costs.prepare_us [number]: world->costs.copy_us [number]);
        double in_flight = longest * (double) budget_tasks_max (simulation_broker (world->simulation));
        double given = (double) world->costs.given_us [number] / 1e6;
        assert_true (charged [number] <= given + 1e-6 && charged [number] >= given - in_flight);
    }
}

static void
s_end (world_t *world)
{
    s_expect_honest (world);
    simulation_destroy (&world->simulation);
}

//  ---- full load

//  One of the tenants' ways: one job with a deep window, a few, or many small ones with tiny batches, as far
//  as it may have them.
static void
s_join_some (world_t *world, size_t tenant, uint64_t *random)
{
    static const struct { uint32_t jobs, batch_size, slots;
        } ways [] = { { 1, 64, 16 }, { 3, 32, 8 }, { 12, 8, 8 } };
    size_t way = test_below (random, 3);
    simulated_job_t job = s_greedy (world, tenant, ways [way].batch_size, ways [way].slots);
    simulation_must_join (world->simulation, &job);
    for (uint32_t number = 1; number < ways [way].jobs
        && simulation_join (world->simulation, &job) >= 0; number++);
}

static void
s_make_random (world_t *world, uint64_t seed, uint64_t *random)
{
    uint32_t weights [TENANTS];
    size_t count = 2 + test_below (random, TENANTS - 1);
    for (size_t number = 0; number < count; number++)
        weights [number] = 1 + (uint32_t) test_below (random, 10);
    s_make (world, seed, weights, count);
    for (size_t number = 0; number < count; number++) {
        world->costs.prepare_us [number] = 300 << test_below (random, 5);
        world->costs.copy_us [number] = 40 << test_below (random, test_below (random, 4)? 3: 7);
    }
    world->options.workers = 1 + (uint32_t) test_below (random, 6);
}

//  Must hold: with the workers short, tenants' shares are those of their weights within 5 %, however many
//  jobs they have, however small their batches are, and whatever their tasks take; and no worker is idle
//  meanwhile.
static void
test_shares_follow_the_weights (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (ROUNDS); seed < last; seed++) {
        uint64_t random = seed;
        world_t world;
        s_make_random (&world, seed, &random);
        s_start (&world);
        for (size_t tenant = 0; tenant < world.count; tenant++)
            s_join_some (&world, tenant, &random);
        double charged [TENANTS];
        s_measure (&world, 0.5, charged);
        s_measure (&world, 40.0 / world.options.workers, charged);
        s_expect_shares (&world, charged, (1u << world.count) - 1, 0.05);
        s_end (&world);
    }
}

//  Must hold: the share of one job is the same beside one other as beside as many as a tenant may have, with
//  batches of one.
static void
test_many_jobs_are_worth_one (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    s_start (&world);
    simulated_job_t one = s_greedy (&world, 0, 64, 8), many = s_greedy (&world, 1, 1, 64);
    simulation_must_join (world.simulation, &one);
    while (simulation_join (world.simulation, &many) >= 0);
    assert_true (broker_jobs (simulation_broker (world.simulation), NULL) > 60);
    double charged [TENANTS];
    s_measure (&world, 0.5, charged);
    s_measure (&world, 2, charged);
    s_expect_shares (&world, charged, 3, 0.05);
    s_end (&world);
}

//  Errands are turns like others: however long the line of them, another tenant has its part.  Few are out at
//  once, so they may have less than theirs, and the rest is the other's.
static void
test_side_tasks_have_their_turn (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    for (int64_t side_task_us = 300; side_task_us <= 9000; side_task_us *= 30) {
        world_t world;
        s_make (&world, test_seed (), weights, 2);
        world.options.side_task_us = side_task_us;
        world.options.check = true;
        s_start (&world);
        simulated_job_t job = s_greedy (&world, 0, 16, 6);
        simulation_must_join (world.simulation, &job);
        simulation_side_tasks (world.simulation, world.names [1], 16);
        double charged [TENANTS];
        s_measure (&world, 0.5, charged);
        s_measure (&world, 2, charged);
        if (charged [0] < 0.95 * (charged [0] + charged [1]) / 2 || charged [1] <= 0)
            fail_msg ("errands of %" PRId64 " us: %.3f s of workers' time beside %.3f", side_task_us,
                charged [0], charged [1]);
        //  What a task is charged when it is handed out is what tasks took so far.
        double estimate_ns = simulation_broker (world.simulation)->side_task_ns;
        assert_true (fabs (estimate_ns / 1000 - (double) side_task_us) < 0.01 * (double) side_task_us);
        simulation_destroy (&world.simulation);         //  s_end knows of no side tasks
    }
}

//  Random jobs with the broker's invariants looked at after every event, for a shorter time.
static void
test_invariants_hold_under_load (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + CHECKED; seed < last; seed++) {
        uint64_t random = ~seed;
        world_t world;
        s_make_random (&world, seed, &random);
        world.options.check = true;
        //  Hardly enough for all, so that memory is waited for.
        world.options.cache_versions = (world.options.workers + 2) * (10 * TENANTS + 1);
        s_start (&world);
        int clients [TENANTS];
        for (size_t tenant = 0; tenant < world.count; tenant++) {
            simulated_job_t job = s_greedy (&world, tenant, 16, 6);
            job.order = test_below (&random, 2)? SAMPLER_ORDER_SHARED: SAMPLER_ORDER_PRIVATE;
            clients [tenant] = simulation_must_join (world.simulation, &job);
        }
        for (int step = 0; step < 20; step++) {
            size_t tenant = test_below (&random, world.count);
            simulation_run (world.simulation,
                simulation_now_us (world.simulation) + 1 + (int64_t) test_below (&random, 30000));
            simulation_gone (world.simulation, clients [tenant]);
            simulated_job_t job = s_greedy (&world, tenant, 1 + (uint32_t) test_below (&random, 30), 6);
            clients [tenant] = simulation_must_join (world.simulation, &job);
        }
        s_end (&world);
    }
}

//  Must hold: a tenant that comes gets its share at once, neither more because it was idle nor less because
//  others had all before; when one leaves, the others have its share by their weights.
static void
test_shares_follow_jobs_that_come_and_go (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 3, 2 };
    world_t world;
    s_make (&world, test_seed (), weights, 3);
    s_start (&world);
    simulated_job_t jobs [3];
    int clients [3];
    double charged [TENANTS];
    for (size_t tenant = 0; tenant < 3; tenant++)
        jobs [tenant] = s_greedy (&world, tenant, 32, 16);
    clients [0] = simulation_must_join (world.simulation, &jobs [0]);
    s_measure (&world, 5, charged);
    s_expect_shares (&world, charged, 1, 0);
    clients [1] = simulation_must_join (world.simulation, &jobs [1]);
    s_measure (&world, 0.2, charged);           //  what was in flight goes first
    s_measure (&world, 1, charged);
    s_expect_shares (&world, charged, 3, 0.05);
    clients [2] = simulation_must_join (world.simulation, &jobs [2]);
    s_measure (&world, 0.2, charged);
    s_measure (&world, 1, charged);
    s_expect_shares (&world, charged, 7, 0.05);
    simulation_gone (world.simulation, clients [1]);
    s_measure (&world, 0.2, charged);
    s_measure (&world, 1, charged);
    s_expect_shares (&world, charged, 5, 0.05);
    clients [1] = simulation_must_join (world.simulation, &jobs [1]);
    s_measure (&world, 0.2, charged);
    s_measure (&world, 1, charged);
    s_expect_shares (&world, charged, 7, 0.05);
    simulation_gone (world.simulation, clients [0]);
    simulation_gone (world.simulation, clients [2]);
    s_measure (&world, 0.2, charged);
    s_measure (&world, 3, charged);
    s_expect_shares (&world, charged, 2, 0);
    s_end (&world);
}

//  Must hold: a tenant that comes has its first sample when what was in flight is done, once before it is
//  prepared and once before it is copied, however much others have lined up.
static void
test_a_newcomer_waits_for_what_is_in_flight (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 10, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    s_start (&world);
    simulated_job_t greedy = s_greedy (&world, 0, 64, 64), modest = s_greedy (&world, 1, 1, 2);
    for (int job = 0; job < 30; job++)
        simulation_must_join (world.simulation, &greedy);
    simulation_run (world.simulation, SECOND_US);
    int64_t came_us = simulation_now_us (world.simulation);
    int client = simulation_must_join (world.simulation, &modest);
    while (simulation_consumed (world.simulation, client) == 0)
        simulation_run (world.simulation, simulation_now_us (world.simulation) + 1000);
    int64_t waited_us = simulation_now_us (world.simulation) - came_us, longest_us = 1500;
    int64_t in_flight = (int64_t) budget_tasks_max (simulation_broker (world.simulation));
    if (waited_us > 2 * in_flight * longest_us / world.options.workers + 1000)
        fail_msg ("waited for %lld us", (long long) waited_us);
    s_end (&world);
}

//  Must hold: a tenant that wants little gets all of it, and the rest goes to tenants that can use it.
static void
test_no_tenant_waits_for_one_that_wants_little (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    s_start (&world);
    simulated_job_t greedy = s_greedy (&world, 0, 64, 16), modest = s_greedy (&world, 1, 16, 8);
    modest.sample_us = 2000;                //  of 4 workers about half of one
    simulation_must_join (world.simulation, &greedy);
    simulation_must_join (world.simulation, &modest);
    double charged [TENANTS];
    s_measure (&world, 1, charged);
    s_measure (&world, 5, charged);
    double wanted = 5 * 1.05e-3 * 500;
    if (charged [1] < 0.95 * wanted)
        fail_msg ("of %.3f s that it wants, the modest one has %.3f", wanted, charged [1]);
    s_end (&world);
}

//  Guards: preparing and copying are weighed together: one that only prepares and one that, in effect, only
//  copies.
static void
test_both_kinds_of_tasks_count (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 2, 1 };
    for (int turned = 0; turned < 2; turned++) {
        world_t world;
        s_make (&world, test_seed (), weights, 2);
        world.costs = (costs_t) { .prepare_us = { turned? 10: 4000, turned? 4000: 10 },
            .copy_us = { turned? 4000: 10, turned? 10: 4000 }, .random = 1 };
        s_start (&world);
        for (size_t tenant = 0; tenant < 2; tenant++) {
            simulated_job_t job = s_greedy (&world, tenant, 64, 16);
            simulation_must_join (world.simulation, &job);
        }
        double charged [TENANTS];
        s_measure (&world, 1, charged);
        s_measure (&world, 8, charged);
        s_expect_shares (&world, charged, 3, 0.05);
        s_end (&world);
    }
}

//  ---- what serves several

//  Must hold: a version that two tenants wait for is charged to each in part; the two together get no more
//  than their weights.
static void
test_what_serves_two_is_split (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1, 2 };
    world_t world;
    s_make (&world, test_seed (), weights, 3);
    world.options.gather_ms = BROKER_GATHER_MS;
    s_start (&world);
    simulated_job_t alone = s_greedy (&world, 2, 64, 16), together = s_greedy (&world, 0, 64, 16);
    together.order = SAMPLER_ORDER_SHARED;
    simulation_must_join (world.simulation, &together);
    together.tenant = world.names [1];
    simulation_must_join (world.simulation, &together);
    simulation_must_join (world.simulation, &alone);
    double charged [TENANTS];
    s_measure (&world, 1, charged);
    s_measure (&world, 8, charged);
    if (fabs (charged [0] - charged [1]) > 0.05 * charged [0])
        fail_msg ("%.3f s and %.3f s for the same", charged [0], charged [1]);
    double due = (charged [0] + charged [1] + charged [2]) / 2;
    if (fabs (charged [2] - due) > 0.05 * due)
        fail_msg ("the one that shares nothing has %.3f s, due %.3f", charged [2], due);
    simulation_destroy (&world.simulation);
}

//  ---- what else tasks need

static const char s_large [] = "[{\"op\":\"random_resized_crop\",\"size\":[40,40]},{\"share\":true}]";

//  Must hold: a tenant may fill the memory that it may have with versions that wait for their copies.  It
//  blocks no other tenant then, and gets what it can use.
static void
test_large_versions_delay_no_other_tenant (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    size_t least = 2 * budget_cache_least (4, 40 * 40 * 3);
    size_t got [2] = { 0 };
    for (int crowded = 0; crowded < 2; crowded++) {
        world_t world;
        s_make (&world, test_seed (), weights, 2);
        world.options.cache_versions = 2 * least / budget_version_cost (3);
        world.options.check = true;
        s_start (&world);
        simulated_job_t small = s_greedy (&world, 0, 16, 16), large = s_greedy (&world, 1, 64, 8);
        large.pipeline = s_large;
        small.sample_us = 600;                          //  about its share: half of 4 workers
        simulation_must_join (world.simulation, &small);
        simulation_run (world.simulation, SECOND_US / 10);
        int client = crowded? simulation_must_join (world.simulation, &large): -1;
        simulation_run (world.simulation, 2 * SECOND_US);
        for (size_t epoch = 0; epoch < simulation_epochs (world.simulation, 0); epoch++)
            got [crowded] += simulation_epoch (world.simulation, 0, epoch)->count;
        if (crowded)
            assert_true (simulation_consumed (world.simulation, client) > 10);
        simulation_destroy (&world.simulation);
    }
    if ((double) got [1] < 0.95 * (double) got [0])
        fail_msg ("%zu samples alone, %zu beside large versions", got [0], got [1]);
}

//  Must hold: a job that finds no memory for its next version keeps its turn before another job of its
//  tenant, so that small versions do not take what is given back each time: both get as many samples.
static void
test_a_turn_is_kept_without_memory (void **state)
{
    (void) state;
    simulation_options_t options = { .policy = SAMPLER_POLICY_FOLLOW, .seed = test_seed (), .samples = 4000,
        .workers = 4, .copy_us = 3000,
        .cache_versions = budget_cache_least (4, 40 * 40 * 3) / budget_version_cost (3) + 1 };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t small = { .batch_size = 16, .slots = 8, .epochs = 100 }, large = small;
    large.pipeline = s_large;
    large.slot_bytes = 16 * 40 * 40 * 3;
    small.order = large.order = SAMPLER_ORDER_PRIVATE;
    int clients [] = { simulation_must_join (simulation, &small), simulation_must_join (simulation, &large) };
    simulation_run (simulation, SECOND_US);
    uint64_t got [2];
    for (int index = 0; index < 2; index++)
        got [index] = simulation_consumed (simulation, clients [index]);
    print_message ("batches: %llu small, %llu large\n", (unsigned long long) got [0],
        (unsigned long long) got [1]);
    assert_in_range (got [1], got [0] - 3, got [0] + 3);
    simulation_destroy (&simulation);
}

//  Must hold: memory that a tenant has not taken is kept for it (broker_check looks), where another takes all
//  that it may have, for long, and one that wants little gets it.
static void
test_memory_is_kept_for_every_tenant (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    world.options.workers = 2;
    world.options.cache_versions = 4 * budget_cache_least (2, 40 * 40 * 3) / budget_version_cost (3);
    world.options.check = true;
    world.costs.copy_us [1] = 20000;                    //  so long it keeps its memory
    s_start (&world);
    simulated_job_t modest = s_greedy (&world, 0, 1, 3), hungry = s_greedy (&world, 1, 64, 8);
    modest.pipeline = hungry.pipeline = s_large;
    modest.sample_us = 40000;
    int client = simulation_must_join (world.simulation, &modest);
    simulation_must_join (world.simulation, &hungry);
    simulation_run (world.simulation, SECOND_US);
    uint64_t before = simulation_consumed (world.simulation, client);
    simulation_run (world.simulation, 5 * SECOND_US);
    assert_true (simulation_consumed (world.simulation, client) > before + 40);
    s_end (&world);
}

//  Must hold: memory that a tenant has not taken is kept for it for as many of its largest versions as there
//  are workers.  So it has its samples in time where another has the rest of the memory for long, by files
//  that come slowly.
static void
test_slow_files_take_no_memory_of_another_tenant (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    world.options.workers = 2;
    size_t least = budget_cache_least (2, 40 * 40 * 3);         //  of each of the three, the operator's too
    world.options.cache_versions = 3 * least / budget_version_cost (3) + 1;
    world.options.check = true;
    world.costs.fetch_us [1] = 2 * SECOND_US;
    world.options.fetch_cost_us = s_fetch_us;
    s_start (&world);
    simulated_job_t modest = s_greedy (&world, 0, 1, 3), hungry = s_greedy (&world, 1, 64, 8);
    modest.pipeline = hungry.pipeline = s_large;
    modest.sample_us = 40000;
    int client = simulation_must_join (world.simulation, &modest);
    simulation_must_join (world.simulation, &hungry);
    simulation_run (world.simulation, SECOND_US);
    for (int step = 0; step < 60; step++) {
        uint64_t before = simulation_consumed (world.simulation, client);
        simulation_run (world.simulation, simulation_now_us (world.simulation) + 100000);
        if (simulation_consumed (world.simulation, client) < before + 2)
            fail_msg ("nothing at %" PRId64 " us", simulation_now_us (world.simulation));
    }
    s_end (&world);
}

//  Must hold: where files of all come slowly, tenants have reads under way, and so samples, by weight.
static void
test_files_are_read_by_weight (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 3, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    world.costs.fetch_us [0] = world.costs.fetch_us [1] = 100000;
    world.options.fetch_cost_us = s_fetch_us;
    s_start (&world);
    uint64_t got [2];
    for (size_t tenant = 0; tenant < 2; tenant++) {
        simulated_job_t job = s_greedy (&world, tenant, 4, 64);
        simulation_must_join (world.simulation, &job);
    }
    simulation_run (world.simulation, SECOND_US);
    for (int client = 0; client < 2; client++)
        got [client] = simulation_consumed (world.simulation, client);
    simulation_run (world.simulation, 6 * SECOND_US);
    for (int client = 0; client < 2; client++)
        got [client] = simulation_consumed (world.simulation, client) - got [client];
    double part = (double) got [0] / (double) (got [0] + got [1]);
    if (part < 0.72 || part > 0.78)
        fail_msg ("%" PRIu64 " and %" PRIu64 " batches", got [0], got [1]);
    s_end (&world);
}

//  Must hold: files that come slowly slow down only their own tenant.
static void
test_slow_files_delay_no_other_tenant (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, test_seed (), weights, 2);
    world.costs.fetch_us [1] = 200000;
    world.options.fetch_cost_us = s_fetch_us;
    s_start (&world);
    simulated_job_t quick = s_greedy (&world, 0, 64, 16), slow = s_greedy (&world, 1, 64, 16);
    simulation_must_join (world.simulation, &slow);
    simulation_run (world.simulation, SECOND_US);
    simulation_must_join (world.simulation, &quick);
    double charged [TENANTS];
    s_measure (&world, 1, charged);
    s_measure (&world, 5, charged);             //  no worker is idle
    assert_true (charged [1] > 0.1);            //  of 24 tasks in flight it has its part at a time: 60 a
                                                //  second, 1 ms each
    s_end (&world);
}

//  Must hold: neither do they one that wants samples only now and then, so that the slow files have the time
//  between to themselves.
static void
test_slow_files_do_not_delay_a_tenant_that_rests (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    uint64_t got [2];
    for (int crowded = 0; crowded < 2; crowded++) {
        world_t world;
        s_make (&world, test_seed (), weights, 2);
        world.costs.fetch_us [1] = 2 * SECOND_US;
        world.options.fetch_cost_us = s_fetch_us;
        s_start (&world);
        simulated_job_t quick = s_greedy (&world, 0, 16, 8), slow = s_greedy (&world, 1, 64, 16);
        quick.sample_us = 1000;
        int client = simulation_must_join (world.simulation, &quick);
        if (crowded)
            simulation_must_join (world.simulation, &slow);
        simulation_run (world.simulation, SECOND_US);
        uint64_t before = simulation_consumed (world.simulation, client);
        simulation_run (world.simulation, 6 * SECOND_US);
        got [crowded] = simulation_consumed (world.simulation, client) - before;
        s_end (&world);
    }
    if ((double) got [1] < 0.95 * (double) got [0])
        fail_msg ("%" PRIu64 " batches alone, %" PRIu64 " beside slow files", got [0], got [1]);
}

static int64_t
s_quick_read (void *context, const raw_request_t *request)
{
    (void) context;
    (void) request;
    return 20;
}

//  Must hold: how far ahead a tenant draws from packs, so that what it waits for fills the memory for
//  compressed samples, does not matter to one that draws in another way; nor whether that one wants samples
//  that the other waits for too.
static void
test_deep_windows_on_packs_delay_no_tenant (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    static const struct { int jobs; sampler_order_t greedy, modest; bool same; } cases [] = {
        { 4, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SHARED, false },
        { 1, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_PRIVATE, false },
        { 1, SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_SHARED, false },
        { 4, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SHARED, true } };
    for (size_t number = 0; number < sizeof cases / sizeof *cases; number++) {
        world_t world;
        s_make (&world, test_seed (), weights, 2);
        world.options.raw_bytes = 400000;
        world.options.sample_bytes = 1000;
        world.options.tier = RAW_STREAM;
        world.options.read_us = s_quick_read;
        s_start (&world);
        simulated_job_t greedy = s_greedy (&world, 0, 64, 64), modest = s_greedy (&world, 1, 16, 8);
        greedy.order = cases [number].greedy;
        modest.order = cases [number].modest;
        greedy.to = cases [number].same? 2 * IDS: greedy.to;
        for (int job = 0; job < cases [number].jobs; job++)
            simulation_must_join (world.simulation, &greedy);
        simulation_must_join (world.simulation, &modest);
        double charged [TENANTS];
        s_measure (&world, 1, charged);
        s_measure (&world, 4, charged);
        s_expect_shares (&world, charged, 3, 0.05);
        simulation_destroy (&world.simulation);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_shares_follow_the_weights),
        cmocka_unit_test (test_many_jobs_are_worth_one),
        cmocka_unit_test (test_side_tasks_have_their_turn),
        cmocka_unit_test (test_invariants_hold_under_load),
        cmocka_unit_test (test_shares_follow_jobs_that_come_and_go),
        cmocka_unit_test (test_a_newcomer_waits_for_what_is_in_flight),
        cmocka_unit_test (test_no_tenant_waits_for_one_that_wants_little),
        cmocka_unit_test (test_both_kinds_of_tasks_count),
        cmocka_unit_test (test_what_serves_two_is_split),
        cmocka_unit_test (test_large_versions_delay_no_other_tenant),
        cmocka_unit_test (test_a_turn_is_kept_without_memory),
        cmocka_unit_test (test_memory_is_kept_for_every_tenant),
        cmocka_unit_test (test_slow_files_take_no_memory_of_another_tenant),
        cmocka_unit_test (test_files_are_read_by_weight),
        cmocka_unit_test (test_slow_files_delay_no_other_tenant),
        cmocka_unit_test (test_slow_files_do_not_delay_a_tenant_that_rests),
        cmocka_unit_test (test_deep_windows_on_packs_delay_no_tenant),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
