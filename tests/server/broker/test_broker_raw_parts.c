//  Memory for compressed samples that is smaller than what tenants draw ahead: each has its part of it all
//  the same, and no tenant waits for ever.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "lookahead.h"
#include "pipeline.h"
#include "raw_prefetch.h"
#include "seed.h"
#include "simulation.h"
#include "version.h"

enum { SECOND_US = 1000000, SAMPLES = 8000, SAMPLE_BYTES = 1000, TENANTS_MAX = 5, CLIENTS_MAX = 40,
    WORKERS = 4 };

static const char s_crop [] =
    "[{\"op\":\"random_resized_crop\",\"size\":[1,1]},{\"share\":true},{\"op\":\"flip\"}]";
static const char s_centre [] = "[{\"op\":\"center_crop\",\"size\":[1,1]},{\"share\":true}]";
static const char *const s_names [TENANTS_MAX] = { "t0", "t1", "t2", "t3", "t4" };

//  Of preparing by the crop and by the centre; of a copy; of a read, and for each sample of it.
typedef struct {
    int64_t crop_us, centre_us, copy_us, read_us, sample_us;
} costs_t;

static int64_t
s_prepare_us (void *context, broker_t *broker, const version_t *version)
{
    const costs_t *costs = context;
    bool is_centre = strstr (pipeline_shared_text (version_pipeline (broker, version)), "center") != NULL;
    return is_centre? costs->centre_us: costs->crop_us;
}

static int64_t
s_copying_us (void *context, const batch_row_t *row)
{
    (void) row;
    return ((const costs_t *) context)->copy_us;
}

static int64_t
s_read_us (void *context, const raw_request_t *request)
{
    const costs_t *costs = context;
    return costs->read_us + (int64_t) request->count * costs->sample_us;
}

typedef struct {
    costs_t costs;
    broker_tenant_t tenants [TENANTS_MAX];
    simulation_options_t options;
    simulation_t *simulation;
} world_t;

static void
s_make (world_t *world, const uint32_t *weights, size_t count, size_t raw_bytes, sampler_policy_t policy)
{
    *world = (world_t) { .costs = { .crop_us = 1000, .centre_us = 1000, .copy_us = 50, .read_us = 20,
        .sample_us = 1 } };
    for (size_t number = 0; number < count; number++)
        world->tenants [number] = (broker_tenant_t) { .name = s_names [number], .weight = weights [number],
            .jobs_max = 1000 };
    world->options = (simulation_options_t) { .seed = test_seed (), .samples = SAMPLES, .cache_versions = 200,
        .workers = WORKERS, .policy = policy, .tenants = world->tenants, .tenant_count = count,
        .raw_bytes = raw_bytes,
        .tier = RAW_STREAM,
        .sample_bytes = SAMPLE_BYTES, .prepare_us = s_prepare_us, .copying_us = s_copying_us,
        .read_us = s_read_us };
}

static void
s_start (world_t *world)
{
    world->options.context = &world->costs;
    world->simulation = simulation_new (&world->options);
}

//  A window of 4,096 samples; one of 128.
static simulated_job_t
s_deep (size_t tenant, sampler_order_t order)
{
    return (simulated_job_t) { .tenant = s_names [tenant], .pipeline = s_crop, .batch_size = 64, .slots = 64,
        .order = order,
        .to = SAMPLES };
}

static simulated_job_t
s_small (size_t tenant, sampler_order_t order)
{
    return (simulated_job_t) { .tenant = s_names [tenant], .pipeline = s_crop, .batch_size = 16, .slots = 8,
        .order = order,
        .to = SAMPLES };
}

static void
s_run (world_t *world, double seconds)
{
    simulation_run (world->simulation,
        simulation_now_us (world->simulation) + (int64_t) (seconds * SECOND_US));
}

static double
s_charged (world_t *world, size_t tenant)
{
    broker_t *broker = simulation_broker (world->simulation);
    return (double) tenant_worker_ns (broker, tenant_named (broker, s_names [tenant])) / 1e9;
}

//  What a small window's job consumes in so many seconds, once everything runs.
static double
s_consumed (world_t *world, int client, double seconds)
{
    s_run (world, 1);
    uint64_t before = simulation_consumed (world->simulation, client);
    s_run (world, seconds);
    return 16.0 * (double) (simulation_consumed (world->simulation, client) - before);
}

//  Whether a case is left out: half of them are.  A case's number is made of choices; any two of them,
//  where there are four any three, still come together.
static bool
s_is_left_out (int number)
{
    return EFFORT (10) < 10 && __builtin_parity ((unsigned) number) != 0;
}

//  ---- one tenant's window is larger than all the memory

//  The job joins, and gets nine tenths at least of what half of the workers can prepare in a second.
static void
s_assert_half (world_t *world, const simulated_job_t *job, int number)
{
    double due = (double) SECOND_US * WORKERS / 2 / (double) (world->costs.crop_us + world->costs.copy_us);
    double got = s_consumed (world, simulation_must_join (world->simulation, job), 1);
    if (got < 0.9 * due)
        fail_msg ("case %d: of %.0f samples the job has %.0f", number, due, got);
}

//  Must hold: a modest tenant beside a greedy one on the same pack gets nine in ten of the samples that half
//  of the workers could prepare for it.  What is prepared for both in common comes on top.  The tenth is for
//  the smallest memory, of a hundred samples for 48 tasks in flight.  (Before a sample was asked for in the
//  lane of each tenant that waits for it, the modest tenant had 1 to 8 in a hundred of the workers' time.)
static void
test_modest_has_its_half_of_a_pack (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    static const size_t raw_bytes [] = { 100000, 400000 };
    for (int number = 0; number < 16; number++) {
        if (s_is_left_out (number))
            continue;
        world_t world;
        s_make (&world, weights, 2, raw_bytes [number & 1],
            number & 2? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW);
        s_start (&world);
        simulated_job_t greedy = s_deep (0, SAMPLER_ORDER_SHARED), modest = s_small (1, SAMPLER_ORDER_SHARED);
        modest.from = number & 8? SAMPLES / 2: 0;
        greedy.to = number & 8? SAMPLES / 2: SAMPLES;
        for (int jobs = number & 4? 4: 1; jobs > 0; jobs--)
            simulation_must_join (world.simulation, &greedy);
        s_run (&world, 1);
        s_assert_half (&world, &modest, number);
        simulation_destroy (&world.simulation);
    }
}

//  Must hold: so it is where the other needs the same samples later, by another pipeline, with which each
//  takes fifteen times as long: what the modest one has done with does not stay for that at its expense.
//  It has what it has with memory for all samples.  The other has the workers' time that its weight gives
//  it, and gets its batches in order meanwhile.
//
//  With memory for all samples the other may have a fifth more, while the modest job begins its window or
//  an epoch: that is chance.  In 1,080 runs of single cases with other seeds the other had 1.009 times its
//  due or more, never less, with a deviation of 0.03 at most (0.001 in the cases nearest to it); the modest
//  one 0.959 of what it has with memory for all or more, with deviations below 0.007.  Of 4 or 5 batches
//  the other got 2 or more.  By these figures a false alarm is rarer than 1 in 10,000 runs.
static void
test_what_another_needs_later_is_not_at_ones_expense (void **state)
{
    (void) state;
    static const uint32_t weights [2] [2] = { { 1, 1 }, { 1, 10 } };
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE,
        SAMPLER_ORDER_SEEDED };
    for (int number = 0; number < 12; number++) {
        if (s_is_left_out (number))
            continue;
        double got [2], deep [2], workers = 0;
        for (int much = 0; much < 2; much++) {
            world_t world;
            s_make (&world, weights [number & 1], 2, much? 40000000: 200000, SAMPLER_POLICY_FOLLOW);
            world.costs.crop_us = 6000;
            world.costs.centre_us = 400;
            world.options.samples = 4000;
            s_start (&world);
            simulated_job_t greedy = s_deep (0, orders [number / 4]),
                modest = s_small (1, number & 2? SAMPLER_ORDER_PRIVATE:
                SAMPLER_ORDER_SHARED);
            modest.pipeline = s_centre;
            greedy.to = modest.to = 4000;
            int first = simulation_must_join (world.simulation, &greedy);
            s_run (&world, 0.1);
            got [much] = s_consumed (&world, simulation_must_join (world.simulation, &modest), 2);
            deep [much] = (double) simulation_consumed (world.simulation, first);
            workers = much? workers: s_charged (&world, 0);
            simulation_destroy (&world.simulation);
        }
        double due = WORKERS * (0.1 + 3 / (1.0 + weights [number & 1] [1]));
        bool is_light = number & 1;
        if (got [0] < 0.9 * got [1] || workers < 0.98 * due || deep [0] < deep [1] / (is_light? 5: 2))
            fail_msg ("case %d: samples %.0f, with memory for all %.0f; the other's batches %.0f, %.0f, "
                "workers' time %.3f of %.3f s", number, got [0], got [1], deep [0], deep [1], workers, due);
    }
}

//  Must hold: the operator's jobs, which are a tenant's like others, have as much beside a greedy one.
static void
test_the_operator_has_its_half_of_a_pack (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1 };
    for (int number = 0; number < 2; number++) {
        world_t world;
        s_make (&world, weights, 1, number? 400000: 100000, SAMPLER_POLICY_FOLLOW);
        s_start (&world);
        simulated_job_t greedy = s_deep (0, SAMPLER_ORDER_SEEDED), modest = s_small (0, SAMPLER_ORDER_SEEDED);
        modest.tenant = NULL;
        modest.from = SAMPLES / 2;
        greedy.to = SAMPLES / 2;
        simulation_must_join (world.simulation, &greedy);
        s_run (&world, 1);
        s_assert_half (&world, &modest, number);
        simulation_destroy (&world.simulation);
    }
}

//  ---- which tenant pays for a sample

//  A bit for each lane on which the sample may count: of tenants with rows that wait for it, or with it in
//  a pool of their own; and the first, which is of all, if the data set's own tier has it.
static uint64_t
s_payers (const simulation_t *simulation, const dataset_t *dataset, const raw_sample_t *sample)
{
    uint64_t waiting = 0, holding = 0;
    for (const version_t *version = sample->waiting; version; version = version->next_raw)
        for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
            waiting |= UINT64_C (2) << row->job->tenant->number;
    const tier_t *tier = dataset->prefetch->tier;
    bool is_common = tier && raw_pool_is_resident (tier_pool ((tier_t *) tier), sample->id);
    for (int client = 0; client < 2; client++) {
        const job_t *job = simulation_job (simulation, client);
        bool has = (job->fetch.ahead && roaring_bitmap_contains (job->fetch.ahead->held, sample->id))
            || (job->fetch.tier_is_own && raw_pool_is_resident (tier_pool (job->fetch.tier), sample->id));
        holding |= has? UINT64_C (2) << job->tenant->number: 0;
    }
    return waiting | holding | is_common;
}

//  Must hold: memory of a sample counts on a tenant that waits for it, or keeps it in its own pool; not on
//  one that has finished with it, and would lack that part of its memory for as long as the other keeps it.
static void
test_a_sample_is_paid_by_those_that_want_it (void **state)
{
    (void) state;
    static const uint32_t weights [] = { 1, 1 };
    for (int number = 0; number < 4; number++) {
        world_t world;
        s_make (&world, weights, 2, 1200000, SAMPLER_POLICY_FOLLOW);
        world.options.samples = 200;
        s_start (&world);
        simulated_job_t quick = s_small (0, number & 1? SAMPLER_ORDER_SHARED: SAMPLER_ORDER_SEEDED),
            keeps = s_small (1, number & 2? SAMPLER_ORDER_PRIVATE: SAMPLER_ORDER_SEEDED);
        quick.to = keeps.to = 200;
        keeps.pipeline = s_centre;
        keeps.pool = number & 2? 0: 64;
        keeps.sample_us = 3000;
        simulation_must_join (world.simulation, &quick);
        simulation_must_join (world.simulation, &keeps);
        const dataset_t *dataset = simulation_dataset (world.simulation);
        const broker_t *broker = simulation_broker (world.simulation);
        size_t settled = 0;
        for (int step = 0; step < 500; step++) {
            simulation_run (world.simulation, simulation_now_us (world.simulation) + 1000);
            for (uint32_t id = 0; id < 200; id++) {
                const raw_sample_t *sample = raw_store_find (broker->raw, dataset->number, id);
                if (!sample || sample->state != RAW_SAMPLE_READY)
                    continue;
                uint64_t payers = s_payers (world.simulation, dataset, sample);
                settled += payers != 0;
                if (payers && !(payers >> raw_sample_lane (sample) & 1))
                    fail_msg ("case %d, step %d: sample %u counts on lane %u, not of %" PRIx64, number, step,
                        id, raw_sample_lane (sample), payers);
            }
        }
        assert_true (settled > 1000);
        simulation_destroy (&world.simulation);
    }
}

//  ---- a tenant that is alone

//  Samples read for each that was prepared.
static double
s_amplification (size_t tenants, double *prepared_p)
{
    static const uint32_t weights [] = { 1, 1 };
    world_t world;
    s_make (&world, weights, tenants, 400000, SAMPLER_POLICY_FOLLOW);
    s_start (&world);
    simulated_job_t greedy = s_deep (0, SAMPLER_ORDER_SHARED);
    greedy.tenant = tenants? greedy.tenant: NULL;
    simulation_must_join (world.simulation, &greedy);
    s_run (&world, 5);
    *prepared_p = (double) simulation_prepared (world.simulation);
    double read = (double) simulation_samples_read (world.simulation);
    simulation_destroy (&world.simulation);
    return read / *prepared_p;
}

//  Must hold: of several tenants one alone has all memory, and reads no more than where there is one tenant
//  only.
static void
test_a_tenant_alone_has_all (void **state)
{
    (void) state;
    double one, alone;
    double read_one = s_amplification (0, &one), read_alone = s_amplification (2, &alone);
    if (alone < 0.99 * one || read_alone > 1.02 * read_one)
        fail_msg ("%.0f prepared, %.3f read for each; of two tenants %.0f, %.3f", one, read_one, alone,
            read_alone);
}

//  ---- jobs that come and go

typedef struct {
    world_t world;
    size_t tenants;
    uint64_t random;
    simulated_job_t jobs [CLIENTS_MAX];
    bool gone [CLIENTS_MAX], stopped [CLIENTS_MAX];
    int clients;
} schedule_t;

static void
s_make_random (schedule_t *schedule, uint64_t seed)
{
    memset (schedule, 0, sizeof *schedule);
    schedule->random = seed;
    uint64_t *random = &schedule->random;
    uint32_t weights [TENANTS_MAX];
    schedule->tenants = 2 + test_below (random, TENANTS_MAX - 1);
    for (size_t number = 0; number < schedule->tenants; number++)
        weights [number] = 1 + (uint32_t) test_below (random, 10);
    world_t *world = &schedule->world;
    s_make (world, weights, schedule->tenants, 60000 + test_below (random, 200000),
        test_below (random, 2)? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW);
    static const raw_policy_t tiers [] = { RAW_STREAM, RAW_STREAM, RAW_STREAM, RAW_REDOX, RAW_DIRECT };
    world->options.seed = seed;
    world->options.tier = tiers [test_below (random, 5)];
    world->options.check = true;
    world->options.samples = 100 + (uint32_t) test_below (random, 500);
    world->options.piece = 1 + (uint32_t) test_below (random, 8);
    world->options.workers = 1 + (uint32_t) test_below (random, 4);
    world->options.cache_versions = 14 * (world->options.workers + 1) + test_below (random, 60);
    world->costs = (costs_t) { .crop_us = 50 << test_below (random, 6),
        .centre_us = 50 << test_below (random, 6),
        .copy_us = 5 << test_below (random, 4), .read_us = 20 << test_below (random, 8), .sample_us = 1 };
    s_start (world);
}

static void
s_random_join (schedule_t *schedule)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_LIST };
    uint64_t *random = &schedule->random;
    uint32_t samples = schedule->world.options.samples, from = (uint32_t) test_below (random, samples / 2);
    if (schedule->clients == CLIENTS_MAX)
        return;
    simulated_job_t *job = &schedule->jobs [schedule->clients];
    *job = (simulated_job_t) { .tenant = s_names [test_below (random, schedule->tenants)],
        .order = orders [test_below (random, 6)], .pipeline = test_below (random, 2)? s_crop: s_centre,
        .from = test_below (random, 2)? from: 0, .to = samples,
        .batch_size = 1 + (uint32_t) test_below (random, 32), .slots = 3 + (uint32_t) test_below (random, 40),
        .epochs = 1 + test_below (random, 4), .seed = test_below (random, 3),
        .sample_us = test_below (random, 2)? 0: (int64_t) test_below (random, 1000) };
    if (job->order == SAMPLER_ORDER_SEEDED && test_below (random, 2))
        job->pool = WIRE_POOL_MIN;
    schedule->clients += simulation_join (schedule->world.simulation, job) >= 0;
}

static void
s_random_step (schedule_t *schedule)
{
    uint64_t *random = &schedule->random, choice = test_below (random, 6);
    simulation_t *simulation = schedule->world.simulation;
    int victim = schedule->clients? (int) test_below (random, (uint64_t) schedule->clients): -1;
    if (choice <= 1 || victim < 0) {
        s_random_join (schedule);
        return;
    }
    if (choice == 2) {
        simulation_gone (simulation, victim);
        schedule->gone [victim] = true;
    }
    else
    if (choice == 3) {
        simulation_stop (simulation, victim);
        schedule->stopped [victim] = true;
    }
    else
    if (choice == 4) {
        simulation_continue (simulation, victim);
        schedule->stopped [victim] = false;
    }
}

static bool
s_is_hungry (const schedule_t *schedule, int client)
{
    return !schedule->gone [client] && !schedule->stopped [client]
        && !simulation_finished (schedule->world.simulation, client);
}

//  While no job comes or goes, each job that takes what it gets gets something, in three times the time in
//  which all windows could be read one by one, prepared and copied: weights may favour another tenant ten to
//  one.
static void
s_expect_progress (schedule_t *schedule, uint64_t seed)
{
    const world_t *world = &schedule->world;
    const costs_t *costs = &world->costs;
    uint64_t before [CLIENTS_MAX];
    int64_t window = 0, longest_us = costs->crop_us > costs->centre_us? costs->crop_us: costs->centre_us;
    for (int client = 0; client < schedule->clients; client++) {
        before [client] = simulation_consumed (world->simulation, client);
        window += (int64_t) schedule->jobs [client].batch_size * schedule->jobs [client].slots;
    }
    int64_t sample_us = longest_us + costs->copy_us + costs->read_us + 20;
    simulation_run (world->simulation, simulation_now_us (world->simulation) + 3 * window * sample_us);
    for (int client = 0; client < schedule->clients; client++)
        if (s_is_hungry (schedule, client)
            && simulation_consumed (world->simulation, client) == before [client])
            fail_msg ("seed %" PRIu64 ": client %d of %s has got nothing for %" PRId64 " us", seed, client,
                schedule->jobs [client].tenant, 3 * window * sample_us);
}

static void
s_expect_end (schedule_t *schedule, uint64_t seed)
{
    simulation_t *simulation = schedule->world.simulation;
    for (int client = 0; client < schedule->clients; client++)
        simulation_continue (simulation, client);
    if (!simulation_run (simulation, simulation_now_us (simulation) + (int64_t) 10000 * SECOND_US))
        fail_msg ("seed %" PRIu64 ": it does not come to an end", seed);
    for (int client = 0; client < schedule->clients; client++) {
        simulation_assert_epochs (simulation, client, &schedule->jobs [client]);
        if (!schedule->gone [client] && !simulation_finished (simulation, client))
            fail_msg ("seed %" PRIu64 ": client %d waits for ever", seed, client);
    }
    assert_true (simulation_raw_peak (simulation) <= schedule->world.options.raw_bytes);
}

//  Property: whichever jobs join, leave, stop or go on, with whatever weights, orders, pipelines, paces,
//  windows, costs and memory: every job goes on, and in the end all have had all, once; and the invariants
//  hold after every event.  Replay: TEST_SEED.
static void
test_no_job_waits_for_ever (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), last = seed + 2 + EFFORT (16); seed < last; seed++) {
        static schedule_t schedule;
        s_make_random (&schedule, seed);
        for (int step = 0; step < 40; step++) {
            s_random_step (&schedule);
            if (step % 10 == 9)
                s_expect_progress (&schedule, seed);
            else
                simulation_run (schedule.world.simulation, simulation_now_us (schedule.world.simulation)
                    + (int64_t) test_below (&schedule.random, 30000));
        }
        s_expect_end (&schedule, seed);
        simulation_destroy (&schedule.world.simulation);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_modest_has_its_half_of_a_pack),
        cmocka_unit_test (test_what_another_needs_later_is_not_at_ones_expense),
        cmocka_unit_test (test_the_operator_has_its_half_of_a_pack),
        cmocka_unit_test (test_a_sample_is_paid_by_those_that_want_it),
        cmocka_unit_test (test_a_tenant_alone_has_all),
        cmocka_unit_test (test_no_job_waits_for_ever)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
