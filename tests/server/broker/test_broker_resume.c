//  Jobs that go on where others stopped (docs/protocol.md, Resuming): exactly once over all lives, at every
//  step.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "row.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 37, EPOCHS = 2, STEP_US = 500, LIST = 41 };

//  How a test is run: the policy, and over plain files or a pack.
typedef struct {
    sampler_policy_t policy;
    bool packed;
} way_t;

static way_t s_dsa = { SAMPLER_POLICY_DSA, false }, s_follow = { SAMPLER_POLICY_FOLLOW, false },
    s_dsa_pack = { SAMPLER_POLICY_DSA, true }, s_follow_pack = { SAMPLER_POLICY_FOLLOW, true };

#define IN_ALL_WAYS(test) \
    { #test " (dsa)", test, NULL, NULL, &s_dsa }, { #test " (follow)", test, NULL, NULL, &s_follow }, \
    { #test " (dsa, pack)", test, NULL, NULL, &s_dsa_pack }, \
    { #test " (follow, pack)", test, NULL, NULL, &s_follow_pack }

static simulation_options_t
s_options (void **state, uint64_t seed)
{
    const way_t *way = *state;
    return (simulation_options_t) { .policy = way->policy, .seed = seed, .samples = SAMPLES,
        .cache_versions = 12, .workers = 2,
        .check = true, .raw_bytes = way->packed? 120000: 0, .tier = RAW_STREAM };
}

//  A list in which ids come several times.
static const uint32_t *
s_list (void)
{
    static uint32_t list [LIST];
    for (uint32_t place = 0; place < LIST; place++)
        list [place] = place * 7 % 11 + (place % 4 == 0? 20: 0);
    return list;
}

enum { SHARED, PRIVATE, ASCENDING, GIVEN, SEEDED, POOLED, KINDS };

static simulated_job_t
s_job (int kind)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE,
        SAMPLER_ORDER_LIST, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED, SAMPLER_ORDER_SEEDED };
    return (simulated_job_t) { .batch_size = 5, .slots = 3, .epochs = EPOCHS, .order = orders [kind],
        .seed = 42,
        .list = kind == GIVEN? s_list (): NULL, .list_count = kind == GIVEN? LIST: 0,
        .pool = kind == POOLED? 8: 0,
        .to = kind == GIVEN? 0: SAMPLES, .sample_us = 1000 };
}

static bool
s_is_possible (void **state, int kind)
{
    return kind != POOLED || ((const way_t *) *state)->packed;
}

//  Lets it consume so many batches, one after the other, and die; where it stood.  False: it finished before.
static bool
s_live (simulation_t *simulation, const simulated_job_t *job, uint64_t batches, simulated_state_t *state)
{
    int client = simulation_join (simulation, job);
    assert_true (client >= 0);
    bool idle = false;
    while (simulation_consumed (simulation, client) < batches && !idle)
        idle = simulation_run (simulation, simulation_now_us (simulation) + STEP_US);
    bool reached = simulation_consumed (simulation, client) == batches;
    simulation_state (simulation, client, state);
    simulation_gone (simulation, client);
    return reached;
}

//  What an undisturbed job gets.
static void
s_whole (void **state, int kind, uint32_t orders [EPOCHS] [LIST])
{
    simulation_options_t options = s_options (state, test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (kind);
    int client = simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    for (size_t epoch = 0; epoch < EPOCHS; epoch++) {
        const seen_epoch_t *seen = simulation_epoch (simulation, client, epoch);
        memcpy (orders [epoch], seen->ids, seen->count * sizeof *seen->ids);
    }
    simulation_destroy (&simulation);
}

//  What a later life must have got: all that was left, in the order in which it would have come where there
//  is one.
static void
s_assert_rest (const simulation_t *simulation, int client, int kind, const simulated_job_t *job,
    const simulated_state_t *from, uint32_t orders [EPOCHS] [LIST])
{
    size_t whole = kind == GIVEN? LIST: SAMPLES;
    assert_true (simulation_finished (simulation, client));
    assert_int_equal (simulation_epochs (simulation, client), EPOCHS);
    for (size_t epoch = from->epoch; epoch < EPOCHS; epoch++) {
        const seen_epoch_t *seen = simulation_epoch (simulation, client, epoch);
        size_t left = whole - (epoch == from->epoch? from->samples: 0);
        assert_true (seen->ended);
        assert_int_equal (seen->count, left);               //  none twice, over both lives, was checked on
                                                            //  arrival
        assert_int_equal (seen->batches, (left + job->batch_size - 1) / job->batch_size);
        assert_int_equal (seen->told_samples, whole);
        if (kind >= ASCENDING)
            assert_true (left == 0 || memcmp (seen->ids, orders [epoch] + whole - left,
                left * sizeof *seen->ids) == 0);
    }
}

//  Must hold: wherever a job is stopped, one that goes on with its state, on the same server or another, in
//  other batches, gets just the rest; seeded orders and lists in the order in which it would have come.
static void
test_a_job_goes_on_at_every_step (void **state)
{
    for (int kind = 0; kind < KINDS; kind++) {
        static uint32_t orders [EPOCHS] [LIST];
        if (!s_is_possible (state, kind))
            continue;
        s_whole (state, kind, orders);
        bool more = true;
        for (uint64_t step = 0; more; step += EFFORT (10) == 10? 1: 3) {
            simulation_options_t options = s_options (state, test_seed ());
            simulation_t *first = simulation_new (&options), *second = NULL;
            simulated_state_t stood;
            simulated_job_t job = s_job (kind);
            more = s_live (first, &job, step, &stood) && stood.epoch < EPOCHS;
            options.seed += 1;
            //  The pack is made of the seed, and its order is part of an order with a pool.
            bool elsewhere = step % 2 == 1 && kind != POOLED;
            if (elsewhere)
                second = simulation_new (&options);
            simulation_t *simulation = elsewhere? second: first;
            job.state = &stood;
            job.batch_size = step % 4 == 0? 5: step % 4 == 1? 8: 3;
            job.slots = 3 + step % 2;
            job.sample_us = 20;
            if (more) {
                int client = simulation_join (simulation, &job);
                assert_true (client >= 0);
                assert_true (simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US));
                s_assert_rest (simulation, client, kind, &job, &stood, orders);
            }
            else {
                //  Nothing is left.
                assert_true (step >= 2 * (SAMPLES / 5));
                assert_int_equal (simulation_join (simulation, &job), -1);
                assert_string_equal (simulation_refusal (simulation)->code, "bad_state");
            }
            simulation_state_clear (&stood);
            simulation_destroy (&first);
            if (second)
                simulation_destroy (&second);
        }
    }
}

//  Must hold: with drop_last what is left is what does not fill a batch of what remained, nothing hangs where
//  that is all, and the next epoch is whole again.
static void
test_drop_last_counts_what_remained (void **state)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t step = 0; s_is_possible (state, kind) && step <= 7; step++) {
            simulation_options_t options = s_options (state, test_seed () + step);
            simulation_t *simulation = simulation_new (&options);
            simulated_state_t stood;
            simulated_job_t job = s_job (kind);
            job.drop_last = true;
            assert_true (s_live (simulation, &job, step, &stood));
            assert_int_equal (stood.samples, step == 7 && kind != GIVEN? 0: 5 * step);
            job.state = &stood;
            job.batch_size = 8;
            int client = simulation_join (simulation, &job);
            assert_true (client >= 0);
            assert_true (simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US));
            assert_true (simulation_finished (simulation, client));
            size_t whole = kind == GIVEN? LIST: SAMPLES;
            for (size_t epoch = stood.epoch; epoch < EPOCHS; epoch++) {
                const seen_epoch_t *seen = simulation_epoch (simulation, client, epoch);
                size_t left = whole - (epoch == stood.epoch? stood.samples: 0);
                assert_true (seen->ended);
                assert_int_equal (seen->count, left / 8 * 8);
            }
            simulation_state_clear (&stood);
            simulation_destroy (&simulation);
        }
}

//  A state in which so many samples, from the first on, are taken.
static simulated_state_t
s_made_up (int kind, uint64_t epoch, uint32_t taken)
{
    simulated_state_t made_up = { .epoch = epoch, .batches = taken, .samples = taken,
        .places = kind == GIVEN? taken: 0 };
    if (kind != GIVEN)
        made_up.taken = roaring_bitmap_from_range (0, taken, 1);
    return made_up;
}

//  Must hold: where all of an epoch is taken its end comes at once, but not before the ring is; then the next
//  epoch, or nothing.
static void
test_an_epoch_that_is_taken_whole_ends_at_once (void **state)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (uint64_t epoch = 0; s_is_possible (state, kind) && epoch < EPOCHS; epoch++) {
            simulation_options_t options = s_options (state, test_seed ());
            simulation_t *simulation = simulation_new (&options);
            uint32_t whole = kind == GIVEN? LIST: SAMPLES;
            simulated_state_t made_up = s_made_up (kind, epoch, whole);
            simulated_job_t other = s_job (SHARED), job = s_job (kind);
            simulation_join (simulation, &other);           //  a job that draws meanwhile
            job.state = &made_up;
            job.detached = true;
            job.drop_last = kind % 2;
            int client = simulation_join (simulation, &job);
            simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 50);
            assert_false (simulation_epoch (simulation, client, epoch)->ended);
            simulation_attach (simulation, client);
            simulation_run (simulation, simulation_now_us (simulation));
            const seen_epoch_t *seen = simulation_epoch (simulation, client, epoch);
            assert_true (seen->ended);
            assert_int_equal (seen->told_samples, whole);
            assert_int_equal (simulation_finished (simulation, client), epoch + 1 == EPOCHS);
            assert_true (simulation_run (simulation, simulation_now_us (simulation) + 100 * SECOND_US));
            assert_true (simulation_finished (simulation, client));
            assert_int_equal (simulation_epochs (simulation, client), EPOCHS);
            if (epoch == 0)
                assert_int_equal (simulation_epoch (simulation, client, 1)->count,
                    job.drop_last? whole / 5 * 5: whole);
            simulation_state_clear (&made_up);
            simulation_destroy (&simulation);
        }
}

static void
s_assert_refused (simulation_t *simulation, const simulated_job_t *job, const char *code,
    const char *fragment)
{
    assert_int_equal (simulation_join (simulation, job), -1);
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
}

//  Guards: what does not fit the job's data or epochs is refused, with what differs.
static void
test_a_state_that_does_not_fit_is_refused (void **state)
{
    simulation_options_t options = s_options (state, test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED), given = s_job (GIVEN);
    simulated_state_t late = s_made_up (SHARED, EPOCHS, 3), long_list = s_made_up (GIVEN, 0, LIST + 1),
        half = s_made_up (SHARED, 0, 20), beyond = s_made_up (SHARED, 0, SAMPLES + 2);
    job.state = &late;
    s_assert_refused (simulation, &job, "bad_state",
        "the state is at epoch 2 (from 0), and the job asks for 2 epochs");
    given.state = &long_list;
    s_assert_refused (simulation, &given, "bad_state", "the state is at place 42 of a list, this one has 41");
    job.state = &half;
    job.from = 15;
    s_assert_refused (simulation, &job, "bad_state", "15 samples were taken that are not in the job's data");
    job = s_job (SHARED);
    job.state = &beyond;
    job.to = 0;                                             //  all the data, without a subset
    s_assert_refused (simulation, &job, "bad_state", "2 samples were taken that are not in the job's data");
    //  Whole epochs count, not what is left of one.
    job.state = &half;
    job.batch_size = SAMPLES + 1;
    job.drop_last = true;
    s_assert_refused (simulation, &job, "bad_request", "drop_last with 37 samples leaves no batch of 38");
    job.batch_size = SAMPLES;
    job.to = SAMPLES;
    int client = simulation_join (simulation, &job);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_int_equal (simulation_epoch (simulation, client, 0)->count, 0);
    assert_int_equal (simulation_epoch (simulation, client, 1)->count, SAMPLES);
    simulation_state_clear (&late);
    simulation_state_clear (&half);
    simulation_state_clear (&beyond);
    simulation_destroy (&simulation);
}

//  ---- random numbers of the private stage

typedef struct {
    size_t places;              //  behind the job
    bool seen [LIST];
    uint64_t seed;
} client_keys_t;

//  A copy in epoch 1 is that of a row that is not behind the job, none twice.
static void
s_note_key (void *context, broker_t *broker, int client, const batch_row_t *row)
{
    client_keys_t *keys = context;
    pipeline_key_t key = row_key (row);
    (void) broker;
    (void) client;
    assert_int_equal (key.seed, keys->seed);
    if (key.round != 1)
        return;
    uint32_t before = 0;
    for (size_t index = 0; index < LIST; index++) {
        if (s_list () [index] != key.id || before++ != key.occurrence)
            continue;
        assert_true (index >= keys->places && !keys->seen [index]);
        keys->seen [index] = true;
        return;
    }
    fail_msg ("id %llu does not come %llu times", (unsigned long long) key.id,
        (unsigned long long) key.occurrence + 1);
}

//  Must hold: an id of a list that had come before has the random numbers of its later occurrence, and the
//  epoch's.
static void
test_occurrences_go_on (void **state)
{
    for (size_t places = 0; places < LIST; places += 3) {
        client_keys_t keys = { .places = places, .seed = 42 };
        simulation_options_t options = s_options (state, test_seed ());
        options.copied = s_note_key;
        options.context = &keys;
        simulation_t *simulation = simulation_new (&options);
        simulated_state_t made_up = s_made_up (GIVEN, 1, (uint32_t) places);
        simulated_job_t job = s_job (GIVEN);
        job.state = &made_up;
        job.epochs = 3;
        int client = simulation_join (simulation, &job);
        assert_true (simulation_run (simulation, 100 * SECOND_US));
        assert_true (simulation_finished (simulation, client));
        for (size_t index = 0; index < LIST; index++)
            assert_int_equal (keys.seen [index], index >= places);
        simulation_destroy (&simulation);
    }
}

//  ---- lives

enum { CHAINS = 4, LIVES = 40 };

typedef struct {
    simulated_job_t job;
    int client;                 //  the present life; -1: between two
    simulated_state_t stood;
    uint32_t list [LIST];
    char instance [WIRE_RUN_BYTES + 1];
} chain_t;

static bool
s_one_in_nine_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

static void
s_begin_chain (chain_t *chain, int number, uint32_t samples, bool packed, uint64_t *random)
{
    int kind = (int) test_below (random, packed? KINDS: POOLED);
    chain->job = s_job (kind);
    chain->job.batch_size = 1 + (uint32_t) test_below (random, 9);
    chain->job.epochs = 2 + test_below (random, 2);
    chain->job.sample_us = (int64_t) test_below (random, 200);
    chain->job.seed = 5 + (uint64_t) number;
    chain->job.from = (uint32_t) test_below (random, samples);
    chain->job.to = chain->job.from + 1 + (uint32_t) test_below (random, samples - chain->job.from);
    if (test_below (random, 3) == 0) {
        chain->job.from = 0;
        chain->job.to = samples;
    }
    if (test_below (random, 2))
        chain->job.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    if (kind == GIVEN) {
        chain->job.from = chain->job.to = 0;
        for (size_t place = 0; place < LIST; place++)
            chain->list [place] = (uint32_t) test_below (random, samples);
        chain->job.list = chain->list;
    }
    chain->client = -1;
    snprintf (chain->instance, sizeof chain->instance, "%032x", (unsigned) number + 1);
}

//  Begins the chain's next life.
static void
s_join (simulation_t *simulation, chain_t *chain, const simulated_state_t *state, uint64_t *random)
{
    simulated_job_t *job = &chain->job;
    job->state = state;
    job->batch_size = 1 + (uint32_t) test_below (random, 9);
    job->slots = 3 + (uint32_t) test_below (random, 3);
    job->instance = chain->instance;
    chain->client = simulation_join (simulation, job);
    if (chain->client < 0)                      //  none of its samples can be read
        assert_string_equal (simulation_refusal (simulation)->code, "bad_request");
}

static uint64_t
s_readable (const chain_t *chain, bool (*readable) (void *context, uint32_t id))
{
    uint64_t count = 0;
    if (chain->job.list)
        for (size_t place = 0; place < LIST; place++)
            count += !readable || readable (NULL, chain->list [place]);
    else
        for (uint32_t id = chain->job.from; id < chain->job.to; id++)
            count += !readable || readable (NULL, id);
    return count;
}

//  The last life is at its end; what it does not show was over in those before.
static void
s_assert_chain (const simulation_t *simulation, const chain_t *chain,
    bool (*readable) (void *context, uint32_t id))
{
    const seen_epoch_t *epoch = simulation_epoch (simulation, chain->client, chain->job.epochs - 1);
    assert_true (epoch->ended);
    if (!readable && !chain->job.list)
        simulation_assert_permutation (epoch, chain->job.from, chain->job.to);
    assert_int_equal (epoch->before_count + epoch->count, s_readable (chain, readable));
}

//  Ends the chain's life, or leaves it as a ghost for the next one to end; and begins the next one.  True: it
//  continues within an epoch.
static bool
s_live_on (simulation_t *simulation, chain_t *chain, uint64_t *random)
{
    const char *message;
    int ghost = chain->client;
    bool fence = test_below (random, 2);
    simulation_state (simulation, ghost, &chain->stood);
    bool within = chain->stood.samples > 0;
    if (chain->stood.epoch < chain->job.epochs) {
        if (!fence)
            simulation_gone (simulation, ghost);
        s_join (simulation, chain, &chain->stood, random);
        simulation_run (simulation, simulation_now_us (simulation));
        if (fence && chain->client >= 0)
            assert_string_equal (simulation_reason (simulation, ghost, &message), "fenced");
    }
    simulation_state_clear (&chain->stood);
    return within;
}

//  How many lives went on within an epoch.
static int
s_run_lives (void **state, uint64_t seed, bool (*readable) (void *context, uint32_t id))
{
    int within = 0;
    uint64_t random = seed;
    simulation_options_t options = s_options (state, seed);
    options.samples = 1 + (uint32_t) test_below (&random, 80);
    options.raw_bytes *= 4;                     //  enough for a tier, or a pool, for each
    options.cache_versions = 3 + test_below (&random, 40);
    options.readable = readable;
    options.tier = test_below (&random, 2)? RAW_STREAM: RAW_REDOX;
    simulation_t *simulation = simulation_new (&options);
    static chain_t chains [CHAINS];
    for (int number = 0; number < CHAINS; number++)
        s_begin_chain (&chains [number], number, options.samples, options.raw_bytes > 0, &random);
    for (int life = 0; life < LIVES; life++) {
        int number = (int) test_below (&random, CHAINS);
        chain_t *chain = &chains [number];
        bool is_over = chain->client >= 0
            && (simulation_finished (simulation, chain->client)
            || simulation_ended (simulation, chain->client));
        if (is_over && !simulation_ended (simulation, chain->client)) {
            s_assert_chain (simulation, chain, readable);
            simulation_gone (simulation, chain->client);
        }
        if (is_over)
            s_begin_chain (chain, number, options.samples, options.raw_bytes > 0, &random);
        if (chain->client >= 0)
            within += s_live_on (simulation, chain, &random);
        else
            s_join (simulation, chain, NULL, &random);
        simulation_run (simulation, simulation_now_us (simulation) + (int64_t) test_below (&random, 9000));
    }
    assert_true (simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US));
    for (int number = 0; number < CHAINS; number++) {
        const chain_t *chain = &chains [number];
        if (chain->client < 0 || simulation_ended (simulation, chain->client))
            continue;
        assert_true (simulation_finished (simulation, chain->client));
        s_assert_chain (simulation, chain, readable);
        simulation_gone (simulation, chain->client);
    }
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    assert_int_equal (simulation_figure (simulation, "jobs_bytes"), 0);
    assert_int_equal (simulation_figure (simulation, "ring_bytes"), 0);
    assert_int_equal (simulation_figure (simulation, "raw_bytes"), 0);
    simulation_destroy (&simulation);
    return within;
}

//  Property: whichever jobs die, or lose their connection, and whenever, and continue with their states in
//  other batches, beside others that do the same: each sample comes once an epoch over all lives, all
//  invariants hold after every event, and nothing is left in the end.
static void
test_random_lives_get_each_sample_once (void **state)
{
    int within = 0;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (10); seed < last; seed++)
        within += s_run_lives (state, seed, NULL);
    assert_true (within >= EFFORT (10));
}

//  Property: the same with samples that cannot be read, found before, between and after.
static void
test_random_lives_with_unreadable_samples (void **state)
{
    int within = 0;
    for (uint64_t seed = test_seed (), last = seed + EFFORT (10); seed < last; seed++)
        within += s_run_lives (state, seed ^ 0x5eed, s_one_in_nine_is_bad);
    assert_true (within >= EFFORT (10));
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        IN_ALL_WAYS (test_a_job_goes_on_at_every_step),
        IN_ALL_WAYS (test_drop_last_counts_what_remained),
        IN_ALL_WAYS (test_an_epoch_that_is_taken_whole_ends_at_once),
        IN_ALL_WAYS (test_a_state_that_does_not_fit_is_refused),
        IN_ALL_WAYS (test_occurrences_go_on),
        IN_ALL_WAYS (test_random_lives_get_each_sample_once),
        IN_ALL_WAYS (test_random_lives_with_unreadable_samples)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
