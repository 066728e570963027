//  Jobs of several ranks that go on where others stopped: with another number of ranks, and ranks that stood
//  at different steps.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "broker.h"
#include "effort.h"
#include "row.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, SAMPLES = 29, EPOCHS = 2, WORLD_MAX = 4, SLOTS = 3 };

static simulation_options_t
s_options (uint64_t seed)
{
    return (simulation_options_t) { .policy = seed % 2? SAMPLER_POLICY_DSA: SAMPLER_POLICY_FOLLOW,
        .seed = seed,
        .samples = SAMPLES, .cache_versions = 12, .workers = 2, .check = true };
}

//  A list in which ids come several times.
static const uint32_t *
s_list (void)
{
    static uint32_t list [SAMPLES];
    for (uint32_t place = 0; place < SAMPLES; place++)
        list [place] = place * 7 % 11 + (place % 4 == 0? 10: 0);
    return list;
}

enum { SHARED, PRIVATE, ASCENDING, GIVEN, SEEDED, KINDS };

static simulated_job_t
s_job (int kind, uint32_t batch_size, uint32_t world_size)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_PRIVATE,
        SAMPLER_ORDER_LIST, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    return (simulated_job_t) { .batch_size = batch_size, .world_size = world_size, .slots = SLOTS,
        .epochs = EPOCHS,
        .order = orders [kind], .seed = 42, .list = kind == GIVEN? s_list (): NULL,
        .list_count = kind == GIVEN? SAMPLES: 0, .to = kind == GIVEN? 0: SAMPLES, .rank_wait_seconds = 10 };
}

static void
s_run_whole (simulation_t *simulation)
{
    if (!simulation_run (simulation, simulation_now_us (simulation) + 1000 * SECOND_US))
        fail_msg ("it hangs");
}

static void
s_assert_refused (const simulation_t *simulation, const char *code, const char *fragment)
{
    const refusal_t *refusal = simulation_refusal (simulation);
    if (strcmp (refusal->code, code) != 0 || !strstr (refusal->message, fragment))
        fail_msg ("expected %s with '%s', got %s: %s", code, fragment, refusal->code, refusal->message);
}

//  ---- with another number of ranks

//  How many states there are of a job that has had all; and one of them.
static size_t
s_states (const simulation_t *simulation, int client, uint32_t world_size)
{
    return world_size > 1? simulation_records_sent (simulation, client):
        simulation_consumed (simulation, client);
}

static void
s_state (const simulation_t *simulation, int client, uint32_t world_size, size_t number,
    simulated_state_t *state)
{
    if (world_size > 1)
        simulation_state_at (simulation, client, number, state);
    else
        simulation_state_after (simulation, client, number, state);
}

//  Each of the later ranks has got all that was left; in orders that have one, in the order in which it would
//  have come.
static void
s_assert_rest (const simulation_t *simulation, int first, int kind, const simulated_job_t *job,
    const simulated_state_t *from, const simulation_t *whole)
{
    uint32_t step = job->batch_size * job->world_size;
    for (int client = first; client < first + (int) job->world_size; client++) {
        assert_true (simulation_finished (simulation, client));
        for (size_t number = from->epoch; number < EPOCHS; number++) {
            const seen_epoch_t *epoch = simulation_epoch (simulation, client, number);
            size_t left = SAMPLES - (number == from->epoch? from->samples: 0);
            size_t delivered = job->drop_last? left / step * step: left;
            assert_true (epoch->ended);
            assert_int_equal (epoch->count, delivered);     //  none twice, over both jobs, was checked on
                                                            //  arrival
            assert_int_equal (epoch->batches, (delivered + step - 1) / step);
            assert_int_equal (epoch->told_samples, SAMPLES - left + delivered);
            if (kind >= ASCENDING && delivered)
                assert_memory_equal (epoch->ids, simulation_epoch (whole, 0, number)->ids + SAMPLES - left,
                    delivered * sizeof *epoch->ids);
        }
    }
}

//  One job's states, each gone on with by one of other shape.
static void
s_go_on_everywhere (int kind, uint32_t world_size, uint32_t other_world_size, const simulation_t *whole,
    uint64_t seed)
{
    simulation_options_t options = s_options (seed);
    simulation_t *first = simulation_new (&options);
    simulated_job_t job = s_job (kind, 3, world_size);
    assert_int_equal (simulation_join (first, &job), 0);
    s_run_whole (first);
    size_t states = s_states (first, 0, world_size);
    for (size_t number = 0; number <= states; number += EFFORT (10) == 10? 1: 3) {
        simulated_state_t stood;
        s_state (first, 0, world_size, number, &stood);
        simulated_job_t later = s_job (kind, 1 + (uint32_t) (number + seed) % 4, other_world_size);
        later.state = &stood;
        later.drop_last = number % 5 == 4 && later.batch_size * other_world_size <= SAMPLES;
        options.seed++;
        simulation_t *second = simulation_new (&options);
        int client = simulation_join (second, &later);
        if (stood.epoch == EPOCHS) {
            assert_int_equal (client, -1);
            s_assert_refused (second, "bad_state", "nothing is left");
        }
        else {
            assert_int_equal (client, 0);
            s_run_whole (second);
            s_assert_rest (second, client, kind, &later, &stood, whole);
        }
        simulation_state_clear (&stood);
        simulation_destroy (&second);
    }
    simulation_destroy (&first);
}

//  Must hold: wherever a job is stopped, one with another number of ranks and in other batches gets just the
//  rest; seeded orders and lists in the order in which it would have come.
static void
test_another_world_size_goes_on_at_every_step (void **state)
{
    (void) state;
    for (int kind = 0; kind < KINDS; kind++) {
        simulation_options_t options = s_options (test_seed ());
        simulation_t *whole = simulation_new (&options);
        simulated_job_t job = s_job (kind, 5, 1);
        assert_int_equal (simulation_join (whole, &job), 0);
        s_run_whole (whole);
        for (uint32_t world_size = 1; world_size <= WORLD_MAX; world_size++)
            for (uint32_t other = 1; other <= WORLD_MAX; other++)
                if (EFFORT (10) == 10 || (world_size + other + (uint32_t) kind) % 4 == 0)
                    s_go_on_everywhere (kind, world_size, other, whole,
                        test_seed () + world_size * 4 + other);
        simulation_destroy (&whole);
    }
}

//  ---- ranks that stood at different steps

//  How many of the records before the furthest a client keeps: slots + 1 steps, and the ends between.
static size_t
s_kept (const simulation_t *simulation, int client, size_t furthest)
{
    size_t kept = 0;
    for (size_t steps = 0; kept < furthest; kept++) {
        steps += !simulation_record (simulation, client, furthest - kept - 1)->is_end;
        if (steps > SLOTS + 1)
            break;
    }
    return kept;
}

//  Ranks that have got so many records each, on a server that knows nothing of them.
static void
s_rejoin (const simulation_t *before, int kind, uint32_t world_size, const size_t *records, uint64_t seed)
{
    size_t furthest = 0, least = SIZE_MAX;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        furthest = records [rank] > furthest? records [rank]: furthest;
        least = records [rank] < least? records [rank]: least;
    }
    simulation_options_t options = s_options (seed);
    options.check = seed % 3 == 0;
    simulation_t *simulation = simulation_new (&options);
    simulated_standing_t standing = { .simulation = before, .records = records,
        .recent_count = s_kept (before, 0, furthest) };
    simulated_job_t job = s_job (kind, 2, world_size),
        *plain = &(simulated_job_t) { .batch_size = 4, .slots = 3, .epochs = 1 };
    job.standing = &standing;
    job.is_inline = seed % 2;
    if (seed % 4 == 0)
        assert_int_equal (simulation_join (simulation, plain), 0);
    int first = simulation_join (simulation, &job);
    if (furthest - least > standing.recent_count) {
        assert_int_equal (first, -1);
        s_assert_refused (simulation, "ranks_differ", "rank");
    }
    else
    if (least == simulation_records_sent (before, 0)) {
        assert_int_equal (first, -1);
        s_assert_refused (simulation, "bad_state", "nothing is left");
    }
    else {
        if (first < 0)
            fail_msg ("%s", simulation_refusal (simulation)->message);
        simulation_run (simulation, 60 * SECOND_US);
        for (int client = first; client < first + (int) world_size; client++) {
            assert_true (simulation_finished (simulation, client));
            assert_int_equal (simulation_records (simulation, client),
                simulation_records_sent (simulation, client));
            for (size_t epoch = 0; epoch < simulation_epochs (simulation, client); epoch++)
                if (simulation_epoch (simulation, client, epoch)->ended)
                    assert_int_equal (simulation_epoch (simulation, client, epoch)->told_samples, SAMPLES);
        }
    }
    simulation_destroy (&simulation);
}

//  Must hold: after a server's death ranks go on that stood up to slots + 1 steps apart, over an epoch's end
//  and at the very end too: each gets first what it lacks, just that, and then all go on together. Ranks
//  further apart are refused.
static void
test_pairs_at_different_steps (void **state)
{
    (void) state;
    for (int kind = 0; kind < KINDS; kind++) {
        simulation_options_t options = s_options (test_seed ());
        simulation_t *before = simulation_new (&options);
        simulated_job_t job = s_job (kind, 2, 2);
        assert_int_equal (simulation_join (before, &job), 0);
        s_run_whole (before);
        size_t all = simulation_records_sent (before, 0);
        uint64_t round = 0;
        for (size_t one = 0; one <= all; one++)
            for (size_t other = 0; other <= all; other++)
                if ((one > other? one - other: other - one) <= SLOTS + 4
                    && round++ % (EFFORT (10) == 10? 1: 7) == 0)
                    s_rejoin (before, kind, 2, (size_t []) { one, other }, test_seed () + round);
        simulation_destroy (&before);
    }
}

static void
test_triples_at_different_steps (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *before = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, 2, 3);
    assert_int_equal (simulation_join (before, &job), 0);
    s_run_whole (before);
    size_t all = simulation_records_sent (before, 0);
    uint64_t round = 0;
    for (size_t furthest = 1; furthest <= all; furthest++)
        for (size_t lags = 0; lags < 6 * 6 * 6; lags++) {
            const size_t lag [] = { lags % 6, lags / 6 % 6, lags / 36 };
            bool has_furthest = lag [0] == 0 || lag [1] == 0 || lag [2] == 0;
            if (!has_furthest || lag [0] > furthest || lag [1] > furthest || lag [2] > furthest)
                continue;
            if (round++ % (EFFORT (10) == 10? 1: 9) == 0)
                s_rejoin (before, SHARED, 3,
                    (size_t []) { furthest - lag [0], furthest - lag [1], furthest - lag [2] },
                    test_seed () + round);
        }
    simulation_destroy (&before);
}

//  Must hold: ranks of a node that had a step of padding alone go on as others do, and get it again.
static void
test_steps_of_padding_are_told_too (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    options.samples = 9;                //  of which this node has 4: a step of them, and one of padding
    simulation_t *before = simulation_new (&options);
    simulated_job_t job = s_job (PRIVATE, 2, 2);
    job.to = 9;
    job.nodes = 2;
    job.node = 1;
    assert_int_equal (simulation_join (before, &job), 0);
    s_run_whole (before);
    size_t all = simulation_records_sent (before, 0);
    assert_int_equal (all, EPOCHS * 3);
    for (size_t one = 0; one < all; one++)
        for (size_t other = 0; other < all; other++) {
            if ((one > other? one - other: other - one) > SLOTS + 1)
                continue;
            simulated_standing_t standing = { .simulation = before, .records = (size_t []) { one, other },
                .recent_count = one > other? one: other };
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t later = job;
            later.standing = &standing;
            int first = simulation_must_join (simulation, &later);
            s_run_whole (simulation);
            for (int client = first; client < first + 2; client++) {
                assert_true (simulation_finished (simulation, client));
                assert_int_equal (simulation_records (simulation, client), all);
            }
            simulation_destroy (&simulation);
        }
    simulation_destroy (&before);
}

//  ---- random numbers of what is sent again

enum { STEP = 4, RECORDS = SAMPLES / STEP + 2 };        //  of an epoch: its steps, and its end

//  How often the sample at each place of the list was copied for a rank that lacked it.
typedef struct {
    uint32_t again [EPOCHS] [SAMPLES];
} places_t;

static void
s_note_place (void *context, broker_t *broker, int client, const batch_row_t *row)
{
    places_t *places = context;
    pipeline_key_t key = row_key (row);
    uint32_t before = 0;
    (void) broker;
    (void) client;
    for (size_t place = 0; place < SAMPLES; place++)
        if (s_list () [place] == key.id && before++ == key.occurrence) {
            places->again [key.round] [place] += row_slot (row) == WIRE_SLOT_NONE;
            return;
        }
    fail_msg ("id %llu does not come %llu times", (unsigned long long) key.id,
        (unsigned long long) key.occurrence + 1);
}

//  Just rank 1's samples of these records were; but for the last, which is its padding too.
static void
s_assert_again (const places_t *places, size_t from, size_t to)
{
    for (size_t epoch = 0; epoch < EPOCHS; epoch++)
        for (size_t place = 0; place < SAMPLES - 1; place++) {
            size_t record = epoch * RECORDS + place / STEP;
            bool is_lacking = place % STEP >= STEP / 2 && record >= from && record < to;
            assert_int_equal (places->again [epoch] [place], is_lacking);
        }
}

//  On the server that sent the steps.
static void
s_come_back (simulation_options_t options, const simulated_job_t *job, size_t sent, size_t lag)
{
    places_t places = { 0 };
    options.context = &places;
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_join (simulation, job), 0);
    while (simulation_records_sent (simulation, 0) < sent)
        simulation_run (simulation, simulation_now_us (simulation) + 100);
    sent = simulation_records_sent (simulation, 0);
    simulation_lose (simulation, 1);
    simulation_run (simulation, simulation_now_us (simulation) + SECOND_US / 10);
    int back;
    simulated_return_t how = { .records = sent - lag };
    assert_int_equal (simulation_return (simulation, 1, &how, &back), BROKER_RETURN_READY);
    s_run_whole (simulation);
    assert_true (simulation_finished (simulation, back));
    s_assert_again (&places, sent - lag, sent);
    simulation_destroy (&simulation);
}

//  On another server, which knows of them what the ranks tell.
static void
s_go_on_behind (simulation_options_t options, const simulated_job_t *job, const simulation_t *before,
    size_t sent, size_t lag)
{
    places_t places = { 0 };
    options.context = &places;
    simulated_standing_t standing = { .simulation = before, .records = (size_t []) { sent, sent - lag },
        .recent_count = s_kept (before, 0, sent) };
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t later = *job;
    later.standing = &standing;
    simulation_must_join (simulation, &later);
    s_run_whole (simulation);
    s_assert_again (&places, sent - lag, sent);
    simulation_destroy (&simulation);
}

//  Must hold: a sample that a list repeats, and that a rank gets late, has the random numbers that it would
//  have had.
static void
test_what_a_rank_lacks_of_a_list_keeps_its_occurrences (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulated_job_t job = s_job (GIVEN, 2, 2);
    job.sample_us = 500;
    simulation_t *before = simulation_new (&options);
    assert_int_equal (simulation_join (before, &job), 0);
    s_run_whole (before);
    assert_int_equal (simulation_records_sent (before, 0), EPOCHS * RECORDS);
    options.copied = s_note_place;
    for (size_t sent = SLOTS + 1; sent < EPOCHS * RECORDS; sent++)
        for (size_t lag = 1; lag <= SLOTS; lag++) {
            s_go_on_behind (options, &job, before, sent, lag);
            s_come_back (options, &job, sent, lag);
        }
    simulation_destroy (&before);
}

//  Must hold: all ranks go on at the same step, and one of them dies at once. Its process is started again
//  where it had consumed, which is further back: it gets what it lacks of the steps that were told.
static void
test_a_rank_comes_back_from_its_state_after_a_restart (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *before = simulation_new (&options);
    simulated_job_t job = s_job (PRIVATE, 2, 2);
    job.run = "4b7c1d2e3f405162738495a6b7c8d9ea";
    assert_int_equal (simulation_join (before, &job), 0);
    s_run_whole (before);
    size_t all = simulation_records_sent (before, 0);
    for (size_t furthest = 1; furthest < all; furthest++)
        for (size_t lag = 0; lag <= s_kept (before, 0, furthest); lag++) {
            simulated_standing_t standing = { .simulation = before,
                .records = (size_t []) { furthest, furthest },
                .recent_count = s_kept (before, 0, furthest) };
            simulation_t *simulation = simulation_new (&options);
            simulated_job_t later = job;
            later.standing = &standing;
            int back, first = simulation_must_join (simulation, &later);
            simulation_lose (simulation, first + 1);
            simulated_return_t how = { .records = furthest - lag, .run = job.run,
                .instance = "0123456789abcdef0123456789abcdef" };
            assert_int_equal (simulation_return (simulation, first + 1, &how, &back), BROKER_RETURN_READY);
            s_run_whole (simulation);
            assert_true (simulation_finished (simulation, first) && simulation_finished (simulation, back));
            assert_int_equal (simulation_records (simulation, back), all);
            simulation_destroy (&simulation);
        }
    simulation_destroy (&before);
}

//  Guards: what is refused names where each stands, and what to do.
static void
test_ranks_too_far_apart_are_told_where_they_stand (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, 1, 2);
    assert_int_equal (simulation_join (simulation, &job), 0);
    s_run_whole (simulation);
    //  What was told has no gap, ends where the furthest stands, and reaches back to where the others do.
    for (size_t told = 0; told <= 6; told++) {
        simulated_standing_t standing = { .simulation = simulation, .records = (size_t []) { 11, 8 },
            .recent_count = told };
        simulation_t *other = simulation_new (&options);
        simulated_job_t later = s_job (SHARED, 1, 2);
        later.standing = &standing;
        assert_int_equal (simulation_join (other, &later), told < 3? -1: 0);
        if (told < 3) {
            s_assert_refused (other, "ranks_differ", "rank 0");
            s_assert_refused (other, "ranks_differ", "step 11");
            s_assert_refused (other, "ranks_differ", "rank 1");
            s_assert_refused (other, "ranks_differ", "step 8");
        }
        simulation_destroy (&other);
    }
    //  And so many steps are kept, whatever is told.
    for (size_t lag = SLOTS + 1; lag <= SLOTS + 5; lag++) {
        simulated_standing_t standing = { .simulation = simulation, .records = (size_t []) { 12, 12 - lag },
            .recent_count = lag };
        simulation_t *other = simulation_new (&options);
        simulated_job_t later = s_job (SHARED, 1, 2);
        later.standing = &standing;
        assert_int_equal (simulation_join (other, &later), lag <= SLOTS + 2? 0: -1);
        if (lag > SLOTS + 2)
            s_assert_refused (other, "ranks_differ", "step 12");
        simulation_destroy (&other);
    }
    simulation_destroy (&simulation);
}

//  Guards: records with a gap, of another place, with counts or ids that cannot be, are refused and nothing
//  of them is used.
static void
test_impossible_records_are_refused (void **state)
{
    (void) state;
    for (int wrong = 0; wrong < 8; wrong++) {
        simulation_options_t options = s_options (test_seed ());
        simulation_t *simulation = simulation_new (&options);
        simulated_job_t job = s_job (SHARED, 1, 2);
        job.job_name = "x";
        const broker_terms_t *asked = simulation_asked (simulation, &job);
        broker_terms_t join = *asked;
        uint64_t steps [3] [4] = { { 1, 1, 5, 7 }, { 1, 1, 2, 9 }, { 1, 1, 4, 28 } };
        broker_record_t records [3];
        for (uint64_t index = 0; index < 3; index++)
            records [index] = (broker_record_t) { .epoch = 0, .index = index, .samples = 2,
                .step = steps [index] };
        broker_position_t positions [2] = { { 0, 3 }, { 0, 0 } };
        roaring_bitmap_t *taken = roaring_bitmap_of (6, 5, 7, 2, 9, 4, 28);
        join.positions = positions;
        join.recent = records;
        join.recent_count = 3;
        join.epoch_batches = 3;
        join.taken = taken;
        if (wrong == 1)
            records [1].index = 2;                          //  a gap
        if (wrong == 2)
            join.recent_count = 2;                          //  does not end where the furthest stands
        if (wrong == 3)
            records [2].epoch = 1;
        if (wrong == 4)
            steps [1] [0] = 2, steps [1] [1] = 0;           //  more than a batch holds
        if (wrong == 5)
            steps [1] [2] = SAMPLES;                        //  no such id
        if (wrong == 6)
            records [1] = (broker_record_t) { .is_end = true, .epoch = 0, .index = 1, .samples = SAMPLES };
        if (wrong == 7)
            join.recent++, join.recent_count = 2;           //  does not reach back
        refusal_t refusal;
        job_t *joined = broker_join (simulation_broker (simulation), &join, 0, &refusal);
        assert_int_equal (joined != NULL, wrong == 0);
        if (!joined)
            assert_string_equal (refusal.code, "ranks_differ");
        else {
            broker_gone (simulation_broker (simulation), joined);
            action_t action;
            assert_true (broker_next (simulation_broker (simulation), &action)
                && action.kind == ACTION_RECLAIM);
            broker_reclaim (simulation_broker (simulation), joined);
        }
        roaring_bitmap_free (taken);
        simulation_asked_clear (asked);
        simulation_destroy (&simulation);
    }
}

//  ---- what ranks ask for

//  What the number says is another now; below 0: nothing.
static void
s_make_wrong (broker_terms_t *other, int wrong, dataset_t *dataset, const pipeline_t *pipeline)
{
    if (wrong == 0) other->dataset = dataset;
    if (wrong == 1) other->world_size = 3;
    if (wrong == 2) other->batch_size = 7;
    if (wrong == 3) other->slots = 5;
    if (wrong == 4) other->epochs = 9;
    if (wrong == 5) other->drop_last = true;
    if (wrong == 6) other->order = SAMPLER_ORDER_SHARED;
    if (wrong == 7) other->pool = 8;
    if (wrong == 8) other->data = "fedcba9876543210";
    if (wrong == 9) other->pipeline = pipeline;
    if (wrong == 10) other->run = "ffffffffffffffff0123456789abcdef";
    if (wrong == 11) other->seed = 43;
}

//  Must hold: all that must be the same on all ranks is compared, and named with both values.
static void
test_ranks_that_do_not_agree (void **state)
{
    (void) state;
    simulation_options_t options = s_options (test_seed ());
    simulation_t *simulation = simulation_new (&options);
    simulated_job_t job = s_job (SHARED, 2, 2);
    job.job_name = "x";
    const broker_terms_t *one = simulation_asked (simulation, &job),
        *same = simulation_asked (simulation, &job);
    simulated_job_t cropped = job;
    cropped.pipeline = "[{\"op\":\"center_crop\",\"size\":[1,1]}]";
    const broker_terms_t *other_pipeline = simulation_asked (simulation, &cropped);
    dataset_t *other_dataset = dataset_add (simulation_broker (simulation), "other", SAMPLES,
        BROKER_BAD_DROP, NULL);
    refusal_t refusal;
    broker_terms_t base = *one;
    base.run = "0123456789abcdef0123456789abcdef";
    base.seed_given = true;
    base.order = SAMPLER_ORDER_SEEDED;
    enum { WRONG = 12 };
    static const char *const fragments [WRONG] [3] = { { "dataset", "data", "other" },
        { "world_size", "2", "3" },
        { "batch_size", "2", "7" }, { "slots", "3", "5" }, { "epochs", "2", "9" },
        { "drop_last", "false", "true" },
        { "order", "shared", "seeded" }, { "pool", "8", "" }, { "data", "", "" }, { "pipeline", "", "" },
        { "run", "", "" },
        { "seed", "42", "43" } };
    for (int wrong = -1; wrong < WRONG; wrong++) {
        broker_terms_t other = base;
        other.pipeline = same->pipeline;
        other.name = "another name";
        other.rank_wait_seconds = 77;
        other.instances [1] = "ffeeddccbbaa99887766554433221100";
        other.epoch = 1;
        s_make_wrong (&other, wrong, other_dataset, other_pipeline->pipeline);
        bool agree = broker_agree (&base, 0, &other, 1, &refusal);
        if (wrong < 0) {
            if (!agree)
                fail_msg ("%s", refusal.message);
            continue;
        }
        assert_false (agree);
        assert_string_equal (refusal.code, "ranks_differ");
        for (int part = 0; part < 3; part++)
            if (!strstr (refusal.message, fragments [wrong] [part]))
                fail_msg ("'%s' is not in: %s", fragments [wrong] [part], refusal.message);
        assert_non_null (strstr (refusal.message, "rank 0"));
        assert_non_null (strstr (refusal.message, "rank 1"));
    }
    //  What only one says is no difference.
    broker_terms_t silent = base;
    silent.run = NULL;
    silent.seed_given = false;
    silent.seed = 99;
    assert_true (broker_agree (&base, 0, &silent, 1, &refusal));
    assert_true (broker_agree (&silent, 1, &base, 0, &refusal));
    simulation_asked_clear (one);
    simulation_asked_clear (same);
    simulation_asked_clear (other_pipeline);
    simulation_destroy (&simulation);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_another_world_size_goes_on_at_every_step),
        cmocka_unit_test (test_pairs_at_different_steps),
        cmocka_unit_test (test_triples_at_different_steps),
        cmocka_unit_test (test_what_a_rank_lacks_of_a_list_keeps_its_occurrences),
        cmocka_unit_test (test_steps_of_padding_are_told_too),
        cmocka_unit_test (test_a_rank_comes_back_from_its_state_after_a_restart),
        cmocka_unit_test (test_ranks_too_far_apart_are_told_where_they_stand),
        cmocka_unit_test (test_impossible_records_are_refused),
        cmocka_unit_test (test_ranks_that_do_not_agree)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
