//  Property: one job over several nodes, each with a broker that knows of no other.  Over all of them each
//  sample comes once an epoch and all send equally many batches, whatever they cannot read, wherever they are
//  stopped, and whatever number of nodes goes on from their states.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "effort.h"
#include "seed.h"
#include "simulation.h"

enum { SECOND_US = 1000000, NODES_MAX = 9, EPOCHS_MAX = 4, STINTS_MAX = 4 };

typedef struct {
    uint64_t random, seed;
    bool (*readable) (void *context, uint32_t id);
    simulation_options_t options;
    simulated_job_t job;
    int64_t paces [WIRE_RANKS_MAX];
    uint32_t nodes;
    simulation_t *simulations [NODES_MAX];
    int clients [NODES_MAX];
    simulated_state_t begin;            //  where the present nodes began, of all
    uint32_t stints, paddings;          //  what came up
} scene_t;

static bool
s_one_in_nine_is_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 9 != 4;
}

//  Of a small data set, all that some nodes have.
static bool
s_most_are_bad (void *context, uint32_t id)
{
    (void) context;
    return id % 6 == 1;
}

static uint32_t
s_below (scene_t *self, uint32_t bound)
{
    return (uint32_t) test_below (&self->random, bound);
}

//  What is to come over all nodes in the epoch, those counted that cannot be read.
static uint64_t
s_whole (const scene_t *self)
{
    return self->job.to? self->job.to - self->job.from: self->options.samples;
}

static void
s_begin_nodes (scene_t *self, uint32_t nodes, bool goes_on)
{
    self->nodes = nodes;
    self->job.nodes = nodes;
    self->job.state = goes_on? &self->begin: NULL;
    self->job.cut = goes_on && nodes > 1? &self->begin: NULL;
    for (uint32_t node = 0; node < nodes; node++) {
        self->job.node = node;
        for (uint32_t rank = 0; rank < self->job.world_size; rank++)
            self->paces [rank] = s_below (self, 400);
        self->simulations [node] = simulation_new (&self->options);
        self->clients [node] = simulation_must_join (self->simulations [node], &self->job);
    }
}

static uint64_t
s_batches (uint64_t samples, const scene_t *self)
{
    uint64_t step = (uint64_t) self->job.world_size * self->job.batch_size;
    uint64_t longest = (samples + self->nodes - 1) / self->nodes;
    return self->job.drop_last? samples / self->nodes / step: (longest + step - 1) / step;
}

//  Dumb: all nodes' ids of an epoch, and what all had before, are the data but for what cannot be read; and
//  each has sent the batches that follow from what was to come.
static void
s_check_epoch (scene_t *self, uint64_t epoch, bool is_first)
{
    roaring_bitmap_t *seen = is_first && self->begin.taken? roaring_bitmap_copy (self->begin.taken)
        : roaring_bitmap_create ();
    uint64_t left = s_whole (self) - roaring_bitmap_get_cardinality (seen);
    for (uint32_t node = 0; node < self->nodes; node++) {
        const seen_epoch_t *had = simulation_epoch (self->simulations [node], self->clients [node], epoch);
        assert_true (had->ended);
        for (size_t place = 0; place < had->count; place++)
            assert_true (roaring_bitmap_add_checked (seen, had->ids [place]));
        if (self->nodes > 1)
            assert_int_equal (had->batches, s_batches (left, self));
    }
    uint64_t missing = 0;
    for (uint32_t id = self->job.from; id < self->job.from + s_whole (self); id++)
        if (!roaring_bitmap_contains (seen, id)) {
            assert_true (self->job.drop_last || (self->readable && !self->readable (NULL, id)));
            missing++;
        }
    uint64_t step = (uint64_t) self->job.world_size * self->job.batch_size;
    assert_true (self->readable || missing <= (self->job.drop_last? self->nodes * step + self->nodes: 0));
    roaring_bitmap_free (seen);
}

static uint64_t
s_sent (const scene_t *self, uint32_t node)
{
    return simulation_consumed (self->simulations [node], self->clients [node]);
}

//  The state of a node after so many batches, of ranks as many steps.
static void
s_state_after (const scene_t *self, uint32_t node, uint64_t batches, simulated_state_t *state)
{
    simulation_t *simulation = self->simulations [node];
    int client = self->clients [node];
    if (self->job.world_size == 1) {
        simulation_state_after (simulation, client, batches, state);
        return;
    }
    size_t records = 0;
    for (uint64_t steps = 0; steps < batches; records++)
        steps += !simulation_record (simulation, client, records)->is_end;
    simulation_state_at (simulation, client, records, state);
}

//  All nodes stop after the same step, and their states become one.
static void
s_stop_nodes (scene_t *self)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t node = 0; node < self->nodes; node++)
        least = s_sent (self, node) < least? s_sent (self, node): least;
    least = least? s_below (self, (uint32_t) least + 1): 0;
    simulated_state_t merged = { 0 };
    for (uint32_t node = 0; node < self->nodes; node++) {
        simulated_state_t state;
        s_state_after (self, node, least, &state);
        if (node == 0) {
            merged = state;
            continue;
        }
        assert_int_equal (state.epoch, merged.epoch);
        assert_int_equal (state.batches, merged.batches);
        roaring_bitmap_or_inplace (merged.taken, state.taken);
        simulation_state_clear (&state);
    }
    merged.samples = roaring_bitmap_get_cardinality (merged.taken);
    for (uint64_t epoch = self->begin.epoch; epoch < merged.epoch; epoch++)
        s_check_epoch (self, epoch, epoch == self->begin.epoch);
    simulation_state_clear (&self->begin);
    self->begin = merged;
    memset (self->begin.run, 0, sizeof self->begin.run);
}

static void
s_end_nodes (scene_t *self)
{
    for (uint32_t node = 0; node < self->nodes; node++) {
        self->paddings += simulation_paddings (self->simulations [node], self->clients [node]);
        for (uint32_t rank = 0; rank < self->job.world_size; rank++)
            simulation_leave (self->simulations [node], self->clients [node] + (int) rank);
        simulation_run (self->simulations [node], simulation_now_us (self->simulations [node])
            + 20 * SECOND_US);
        assert_int_equal (simulation_figure (self->simulations [node], "jobs_bytes"), 0);
        simulation_destroy (&self->simulations [node]);
    }
}

static void
s_run_nodes (scene_t *self, int64_t time_us)
{
    for (uint32_t node = 0; node < self->nodes; node++)
        simulation_run (self->simulations [node], simulation_now_us (self->simulations [node])
            + (time_us == INT64_MAX? 100 * SECOND_US: time_us + s_below (self, 2000)));
}

static void
s_make_up (scene_t *self)
{
    static const sampler_order_t orders [] = { SAMPLER_ORDER_SHARED, SAMPLER_ORDER_SHARED,
        SAMPLER_ORDER_PRIVATE, SAMPLER_ORDER_LIST, SAMPLER_ORDER_SEEDED };
    self->options = (simulation_options_t) { .policy = s_below (self, 2)? SAMPLER_POLICY_DSA:
        SAMPLER_POLICY_FOLLOW,
        .seed = self->seed, .samples = 1 + s_below (self, s_below (self, 2)? 20: 700),
        .cache_versions = 4 + s_below (self, 40),
        .workers = 1 + s_below (self, 3), .check = true, .readable = self->readable,
        .copy_us = 1 + s_below (self, 300),
        .raw_bytes = s_below (self, 3) == 0? 500000: 0, .tier = s_below (self, 2)? RAW_STREAM: RAW_REDOX };
    self->job = (simulated_job_t) { .order = orders [s_below (self, 5)], .world_size = 1 + s_below (self, 4),
        .batch_size = 1 + s_below (self, 7), .slots = 3 + s_below (self, 3),
        .epochs = 1 + s_below (self, EPOCHS_MAX),
        .drop_last = s_below (self, 4) == 0, .seed = s_below (self, 9), .rank_wait_seconds = 10,
        .rank_us = self->paces, .job_name = "over nodes", .parts_fixed = s_below (self, 4) == 0,
        .pipeline = s_below (self, 2)? "[{\"op\":\"center_crop\",\"size\":[1,1]}]": NULL };
    if (s_below (self, 2)) {
        self->job.from = s_below (self, self->options.samples);
        self->job.to = self->job.from + 1 + s_below (self, self->options.samples - self->job.from);
    }
    if (self->job.world_size == 1)
        self->job.job_name = NULL;
}

//  Whether the broker takes it, of which the state's end and drop_last decide.
static bool
s_is_possible (const scene_t *self)
{
    uint32_t step = self->job.world_size * self->job.batch_size;
    uint64_t readable = 0;
    for (uint32_t id = self->job.from; id < self->job.from + s_whole (self); id++)
        readable += !self->readable || self->readable (NULL, id);
    return readable > 0 && (!self->job.drop_last || readable / NODES_MAX >= 2 * step);
}

static void
s_play (scene_t *self, uint64_t seed)
{
    self->random = self->seed = seed;
    do
        s_make_up (self);
    while (!s_is_possible (self));
    self->begin = (simulated_state_t) { .taken = roaring_bitmap_create () };
    s_begin_nodes (self, 2 + s_below (self, NODES_MAX - 1), false);
    for (uint32_t stint = s_below (self, STINTS_MAX); stint > 0; stint--) {
        s_run_nodes (self, s_below (self, 40000));
        s_stop_nodes (self);
        s_end_nodes (self);
        self->stints++;
        if (self->begin.epoch == self->job.epochs) {
            simulation_state_clear (&self->begin);
            return;
        }
        s_begin_nodes (self, 1 + s_below (self, NODES_MAX), true);
    }
    s_run_nodes (self, INT64_MAX);
    for (uint32_t node = 0; node < self->nodes; node++)
        assert_true (simulation_finished (self->simulations [node], self->clients [node]));
    for (uint64_t epoch = self->begin.epoch; epoch < self->job.epochs; epoch++)
        s_check_epoch (self, epoch, epoch == self->begin.epoch);
    s_end_nodes (self);
    simulation_state_clear (&self->begin);
}

static void
s_play_all (bool (*readable) (void *context, uint32_t id), uint64_t salt)
{
    static scene_t scene;
    scene = (scene_t) { .readable = readable };
    for (uint64_t round = 0; round < EFFORT (400); round++)
        s_play (&scene, (test_seed () ^ salt) + round);
    printf ("    %u times others went on, %u batches of padding\n", scene.stints, scene.paddings);
    assert_true (scene.stints >= EFFORT (160) && scene.paddings >= EFFORT (160));
}

static void
test_once_over_all_nodes (void **state)
{
    (void) state;
    s_play_all (NULL, 0);
}

static void
test_with_unreadable_samples (void **state)
{
    (void) state;
    s_play_all (s_one_in_nine_is_bad, 0x5eed);
    s_play_all (s_most_are_bad, 0xbad);
}

//  ---- a node that goes on by itself

enum { FEW = 48, STEPS = 6, STEP = 4 };

static simulation_t *
s_run_node (const simulated_job_t *job, uint64_t *bad)
{
    simulation_options_t options = { .seed = test_seed (), .samples = FEW, .cache_versions = 20,
        .workers = 2, .check = true, .readable = simulation_is_readable, .context = bad,
        .raw_bytes = job->pool? 500000: 0 };
    simulation_t *simulation = simulation_new (&options);
    assert_int_equal (simulation_must_join (simulation, job), 0);
    assert_true (simulation_run (simulation, 100 * SECOND_US));
    assert_true (simulation_finished (simulation, 0));
    return simulation;
}

//  The ids of an epoch that comes whole, but for some in each of the first steps, not the last of a step.
static uint64_t
s_spoil (const simulated_job_t *job)
{
    uint64_t bad = 0;
    simulation_t *simulation = s_run_node (job, &bad);
    const seen_epoch_t *epoch = simulation_epoch (simulation, 0, 0);
    assert_int_equal (epoch->count, FEW / 2);
    for (size_t place = 0; place < epoch->count; place++)
        if (place < STEP * 3 && place % STEP != STEP - 1)
            bad |= UINT64_C (1) << epoch->ids [place];
    simulation_destroy (&simulation);
    return bad;
}

//  Must hold: a server that does not know which samples another one could not read sends the rest of the
//  epoch in as many batches as the other nodes send.
static void
test_skipped_samples_do_not_come_again (void **state)
{
    (void) state;
    static const struct { sampler_order_t order; uint32_t pool; } orders [] = {
        { SAMPLER_ORDER_SEEDED, 0 }, { SAMPLER_ORDER_SEEDED, 8 }, { SAMPLER_ORDER_LIST, 0 },
        { SAMPLER_ORDER_PRIVATE, 0 }, { SAMPLER_ORDER_SHARED, 0 }
    };
    for (size_t index = 0; index < sizeof orders / sizeof *orders; index++) {
        simulated_job_t job = { .order = orders [index].order, .pool = orders [index].pool, .seed = 5,
            .batch_size = STEP, .slots = 3, .epochs = 2, .nodes = 2 };
        uint64_t bad = s_spoil (&job);
        simulation_t *before = s_run_node (&job, &bad);
        assert_int_equal (simulation_epoch (before, 0, 0)->batches, STEPS);
        for (uint64_t batches = 0; batches < STEPS; batches++) {
            simulated_state_t stood;
            simulation_state_after (before, 0, batches, &stood);
            simulated_job_t later = job;
            later.state = &stood;
            simulation_t *simulation = s_run_node (&later, &bad);
            assert_int_equal (simulation_epoch (simulation, 0, 0)->batches, STEPS - batches);
            assert_int_equal (simulation_epoch (simulation, 0, 1)->batches, STEPS);
            assert_int_equal (simulation_epoch (simulation, 0, 0)->count + stood.samples, FEW / 2 - 9);
            simulation_destroy (&simulation);
            simulation_state_clear (&stood);
        }
        simulation_destroy (&before);
    }
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_once_over_all_nodes),
        cmocka_unit_test (test_with_unreadable_samples),
        cmocka_unit_test (test_skipped_samples_do_not_come_again)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
