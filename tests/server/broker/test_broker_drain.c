//  A broker that takes no new epochs: whatever the moment, each job gets whole epochs, hears that it is over,
//  and another server gives it just the rest.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 41, CREWS = 5, WORLD_MAX = 3, LIST_MAX = 30, EPOCHS_MAX = 9,
    TURNS = 24 };

static simulation_options_t
s_options (uint64_t seed)
{
    return (simulation_options_t) { .policy = SAMPLER_POLICY_FOLLOW, .seed = seed, .samples = SAMPLES,
        .cache_versions = 12,
        .workers = 2, .check = true };
}

static simulated_job_t
s_job (uint64_t epochs)
{
    return (simulated_job_t) { .batch_size = 4, .slots = 4, .epochs = epochs, .to = SAMPLES,
        .sample_us = 300 };
}

//  Epochs of which the client has got anything; each of them whole.
static size_t
s_whole_epochs (const simulation_t *simulation, int client)
{
    size_t whole = 0;
    for (size_t number = 0; number < simulation_epochs (simulation, client); number++) {
        const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
        if (epoch->count + epoch->before_count == 0 && !epoch->ended)
            continue;
        assert_true (epoch->ended);
        assert_int_equal (epoch->count + epoch->before_count, epoch->told_samples);
        whole++;
    }
    return whole;
}

static void
s_assert_stopping (const simulation_t *simulation, int client)
{
    const char *message;
    assert_true (simulation_ended (simulation, client));
    assert_string_equal (simulation_reason (simulation, client, &message), "stopping");
}

//  Must hold: at every moment of its life, a job without an end gets the epoch that it is in, and nothing
//  beyond, though more was drawn; and the broker is empty then.
static void
test_the_running_epoch_is_the_last (void **state)
{
    (void) state;
    for (int64_t at_us = 0; at_us < 30000; at_us += 370) {
        simulation_options_t options = s_options (test_seed () + (uint64_t) at_us);
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (0);
        int client = simulation_join (simulation, &job);
        simulation_run (simulation, at_us);
        size_t before = 0;
        while (before < simulation_epochs (simulation, client)
            && simulation_epoch (simulation, client, before)->ended)
            before++;
        bool is_open = before < simulation_epochs (simulation, client)
            && simulation_epoch (simulation, client, before)->count;
        broker_drain (simulation_broker (simulation));
        broker_drain (simulation_broker (simulation));
        assert_true (broker_is_draining (simulation_broker (simulation)));
        assert_true (simulation_run (simulation, at_us + 10 * SECOND_US));
        s_assert_stopping (simulation, client);
        assert_int_equal (s_whole_epochs (simulation, client), before + is_open);
        assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 0);
        simulation_destroy (&simulation);
    }
}

//  Must hold: a job that has got nothing of an epoch waits for nothing, nor does a job that comes later.
static void
test_nothing_is_begun (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (2), detached = s_job (2);
    detached.detached = true;
    int waiting = simulation_join (simulation, &detached);
    simulation_run (simulation, 1000);
    broker_drain (simulation_broker (simulation));
    simulation_run (simulation, 1000);
    s_assert_stopping (simulation, waiting);
    int late = simulation_join (simulation, &job);
    simulation_run (simulation, 1000);
    s_assert_stopping (simulation, late);
    assert_int_equal (simulation_epochs (simulation, late), 0);
    assert_int_equal (broker_jobs (simulation_broker (simulation), NULL), 0);
    simulation_destroy (&simulation);
}

//  Must hold: a job that goes on in the middle of an epoch gets the rest of it first, its ring taken or not.
static void
test_an_epoch_begun_elsewhere_is_finished (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *first = simulation_new (&options), *second = simulation_new (&options);
    simulated_job_t job = s_job (3);
    int client = simulation_join (first, &job);
    simulation_run (first, 5000);
    simulated_state_t stood;
    simulation_state (first, client, &stood);
    assert_true (stood.batches > 0 && stood.epoch == 0);
    job.state = &stood;
    job.detached = true;
    int other = simulation_join (second, &job);
    broker_drain (simulation_broker (second));
    simulation_run (second, 1000);
    assert_false (simulation_ended (second, other));
    simulation_attach (second, other);
    assert_true (simulation_run (second, 10 * SECOND_US));
    s_assert_stopping (second, other);
    assert_int_equal (s_whole_epochs (second, other), 1);
    simulation_assert_permutation (simulation_epoch (second, other, 0), 0, SAMPLES);
    simulation_state_clear (&stood);
    simulation_destroy (&first);
    simulation_destroy (&second);
}

//  Must hold: of a last epoch, the job is there until its client has taken the last batch.
static void
test_a_last_epoch_is_taken (void **state)
{
    (void) state;
    for (uint64_t epochs = 1; epochs <= 3; epochs++) {
        simulation_options_t options = s_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (epochs);
        uint64_t batches = epochs * ((SAMPLES + 3) / 4);
        int client = simulation_join (simulation, &job);
        while (!simulation_finished (simulation, client))
            simulation_run (simulation, simulation_now_us (simulation) + 100);
        simulation_stop (simulation, client);
        assert_true (simulation_consumed (simulation, client) < batches);
        broker_drain (simulation_broker (simulation));
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
        assert_false (simulation_ended (simulation, client));
        simulation_continue (simulation, client);
        simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
        s_assert_stopping (simulation, client);
        assert_int_equal (simulation_consumed (simulation, client), batches);
        simulation_destroy (&simulation);
    }
}

//  Must hold: a rank that is lost with batches of the last epoch may come back for them.
static void
test_a_last_epoch_waits_for_a_lost_rank (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (1);
    job.world_size = 2;
    job.rank_wait_seconds = 5;
    job.job_name = "pair";
    int first = simulation_join (simulation, &job), lost = simulation_rank (simulation, first, 1), back;
    while (!simulation_finished (simulation, lost))
        simulation_run (simulation, simulation_now_us (simulation) + 100);
    simulated_return_t how = { .records = (size_t) simulation_consumed (simulation, lost) };
    assert_true (how.records < simulation_records (simulation, lost));
    simulation_lose (simulation, lost);
    broker_drain (simulation_broker (simulation));
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    assert_false (simulation_ended (simulation, first));
    assert_int_equal (simulation_return (simulation, lost, &how, &back), BROKER_RETURN_READY);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US);
    s_assert_stopping (simulation, first);
    s_assert_stopping (simulation, back);
    assert_int_equal (s_whole_epochs (simulation, back), 1);
    simulation_destroy (&simulation);
}

//  ---- at random

typedef struct {
    simulated_job_t job;
    int first;                  //  client; -1: there is none
    uint32_t list [LIST_MAX];
    int64_t paces [WORLD_MAX];
    char name [16];
} crew_t;

typedef struct {
    simulation_t *simulation;
    uint64_t random;
    crew_t crews [CREWS];
    bool draining;
    uint32_t whole, rest, returned;     //  what came up
} play_t;

static uint32_t
s_below (play_t *play, uint32_t bound)
{
    return (uint32_t) test_below (&play->random, bound);
}

static void
s_begin (play_t *play, int number)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    crew_t *crew = &play->crews [number];
    snprintf (crew->name, sizeof crew->name, "crew %d", number);
    crew->job = (simulated_job_t) { .order = orders [s_below (play, 5)],
        .world_size = 1 + s_below (play, WORLD_MAX),
        .batch_size = 1 + s_below (play, 5), .slots = 3 + s_below (play, 4),
        .epochs = s_below (play, EPOCHS_MAX + 1),
        .drop_last = s_below (play, 5) == 0, .seed = s_below (play, 9), .rank_wait_seconds = 1,
        .rank_us = crew->paces,
        .sample_us = s_below (play, 400), .keeps = s_below (play, 2), .to = SAMPLES };
    crew->job.job_name = crew->job.world_size > 1? crew->name: NULL;
    for (uint32_t rank = 0; rank < WORLD_MAX; rank++)
        crew->paces [rank] = s_below (play, 3) == 0? 0: s_below (play, 500);
    if (crew->job.order == SAMPLER_ORDER_LIST && s_below (play, 2)) {
        crew->job.to = 0;
        crew->job.list = crew->list;
        crew->job.list_count = LIST_MAX / 2 + s_below (play, LIST_MAX / 2);
        for (size_t place = 0; place < crew->job.list_count; place++)
            crew->list [place] = s_below (play, SAMPLES);
    }
    crew->first = simulation_join (play->simulation, &crew->job);
    assert_true (crew->first >= 0);
}

static int
s_client (const play_t *play, const crew_t *crew, uint32_t rank)
{
    return crew->job.world_size > 1? simulation_rank (play->simulation, crew->first, rank): crew->first;
}

//  A rank is lost and comes back in the same breath, or a little later.
static void
s_disturb (play_t *play, crew_t *crew)
{
    uint32_t rank = s_below (play, crew->job.world_size);
    int client = s_client (play, crew, rank), back;
    if (crew->job.world_size == 1 || !simulation_is_there (play->simulation, client)
    ||  !simulation_is_there (play->simulation, s_client (play, crew, (rank + 1) % crew->job.world_size)))
        return;
    size_t records = simulation_records (play->simulation, client);
    simulation_lose (play->simulation, client);
    simulation_run (play->simulation, simulation_now_us (play->simulation) + s_below (play, 3000));
    simulated_return_t how = { .records = records, .is_inline = s_below (play, 3) == 0,
        .sample_us = s_below (play, 300) };
    if (simulation_return (play->simulation, client, &how, &back) == BROKER_RETURN_READY)
        play->returned++;
}

//  Another server gives what is left of the epochs, none of which is open.
static void
s_assert_rest (play_t *play, const crew_t *crew, uint64_t batches)
{
    simulated_state_t stood;
    simulation_state_after (play->simulation, crew->first, batches, &stood);
    assert_int_equal (stood.batches, 0);
    assert_int_equal (stood.samples, 0);
    if (crew->job.epochs > 0 && stood.epoch < crew->job.epochs) {
        simulation_options_t options = s_options (play->random);
        simulation_t *next = simulation_new (&options);
        simulated_job_t job = crew->job;
        job.state = &stood;
        int client = simulation_join (next, &job);
        assert_true (client >= 0);
        simulation_run (next, 20 * SECOND_US);
        assert_true (simulation_finished (next, client));
        if (!job.drop_last)
            simulation_assert_epochs (next, client, &job);
        simulation_destroy (&next);
        play->rest++;
    }
    simulation_state_clear (&stood);
}

static void
s_assert_crew (play_t *play, const crew_t *crew)
{
    bool was_lost = false;
    const char *message;
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++) {
        int client = s_client (play, crew, rank);
        assert_null (simulation_job (play->simulation, client));
        was_lost = was_lost || !simulation_ended (play->simulation, client);
    }
    for (uint32_t rank = 0; rank < crew->job.world_size; rank++) {
        int client = s_client (play, crew, rank);
        if (!simulation_ended (play->simulation, client))
            continue;
        //  One that did not come back, because the job it came to was over.
        if (was_lost && strcmp (simulation_reason (play->simulation, client, &message), "rank_lost") == 0)
            continue;
        s_assert_stopping (play->simulation, client);
        play->whole += (uint32_t) s_whole_epochs (play->simulation, client);
        if (!crew->job.drop_last)
            simulation_assert_epochs (play->simulation, client, &crew->job);
        if (crew->job.world_size == 1) {
            uint64_t batches = 0;
            for (size_t number = 0; number < simulation_epochs (play->simulation, client); number++)
                batches += simulation_epoch (play->simulation, client, number)->batches;
            s_assert_rest (play, crew, batches);
        }
    }
}

static void
s_play (play_t *play, uint64_t seed)
{
    play->random = seed;
    play->draining = false;
    simulation_options_t options = s_options (seed);
    options.policy = s_below (play, 2)? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW;
    options.copy_us = 1 + s_below (play, 200);
    options.gather_ms = s_below (play, 2);
    options.raw_bytes = s_below (play, 3) == 0? 500000: 0;
    play->simulation = simulation_new (&options);
    int crews = 1 + (int) s_below (play, CREWS), moment = (int) s_below (play, TURNS);
    for (int number = 0; number < CREWS; number++)
        play->crews [number].first = -1;
    for (int turn = 0; turn < TURNS; turn++) {
        int number = (int) s_below (play, (uint32_t) crews);
        crew_t *crew = &play->crews [number];
        if (turn == moment)
            broker_drain (simulation_broker (play->simulation));
        if (crew->first < 0 && turn < moment)
            s_begin (play, number);
        else
        if (crew->first >= 0)
            s_disturb (play, crew);
        simulation_run (play->simulation, simulation_now_us (play->simulation) + s_below (play, 3000));
    }
    simulation_run (play->simulation, simulation_now_us (play->simulation) + 100 * SECOND_US);
    assert_int_equal (broker_jobs (simulation_broker (play->simulation), NULL), 0);
    assert_int_equal (simulation_figure (play->simulation, "jobs_bytes"), 0);
    for (int number = 0; number < CREWS; number++)
        if (play->crews [number].first >= 0)
            s_assert_crew (play, &play->crews [number]);
    simulation_destroy (&play->simulation);
}

//  Property: plain jobs, and jobs of ranks that are lost and come back, drained at a random moment.
static void
test_random_play (void **state)
{
    (void) state;
    static play_t play;
    uint64_t rounds = EFFORT (150);
    for (uint64_t round = 0; round < rounds; round++)
        s_play (&play, test_seed () + round);
    printf ("    %u whole epochs, %u jobs gone on with, %u returns\n", play.whole, play.rest, play.returned);
    assert_true (play.whole > rounds && play.rest > rounds / 4 && play.returned > rounds / 4);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_the_running_epoch_is_the_last),
        cmocka_unit_test (test_nothing_is_begun),
        cmocka_unit_test (test_an_epoch_begun_elsewhere_is_finished),
        cmocka_unit_test (test_a_last_epoch_is_taken),
        cmocka_unit_test (test_a_last_epoch_waits_for_a_lost_rank),
        cmocka_unit_test (test_random_play)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
