/*  Guards: cluster_sim's model beside plain ones: homes by brute force, each block read once an epoch by its
 *  job whatever comes and goes, bytes that add up, and cases with closed forms.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_blocks.h"
#include "cluster_queue.h"
#include "cluster_run.h"
#include "effort.h"
#include "homes.h"
#include "seed.h"

enum { JOBS_MAX = 4, EPOCHS_MAX = 5, BLOCKS_MAX = 600 };

//  A block is a byte, and everything is quick and homes are preferred unless a test says otherwise.
static cluster_plan_t
s_plan (uint32_t nodes, uint32_t blocks, uint32_t capacity)
{
    return (cluster_plan_t) {
        .nodes = nodes, .ranks = 1, .jobs = 1, .epochs = 3, .data = blocks, .block = 1, .cache = capacity,
        .larger_factor = 1, .link = 1000, .link_delay = .01, .store = 1000, .store_node = 500,
        .store_delay = .05, .ahead = 4, .credit = 1000, .preference = 1e9, .slow_factor = 1
    };
}

typedef struct {
    uint8_t read [JOBS_MAX] [EPOCHS_MAX] [BLOCKS_MAX];
} watched_t;

static void
s_watch (void *context, uint32_t job, uint32_t epoch, uint32_t node, uint32_t block)
{
    watched_t *self = context;
    (void) node;
    self->read [job] [epoch] [block]++;
}

//  Each job reads each block once an epoch, and what arrives and is sent adds up.  A node that goes loses
//  what has arrived.
static void
s_run (const cluster_plan_t *plan, uint64_t seed, cluster_epoch_t epochs [EPOCHS_MAX])
{
    static watched_t watched;
    uint32_t blocks = cluster_plan_blocks (plan);
    bool goes = false;
    memset (&watched, 0, sizeof watched);
    for (size_t at = 0; at < plan->change_count; at++)
        goes = goes || plan->changes [at].count < 0;
    cluster_run (plan, seed, epochs, s_watch, &watched);
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++) {
        const cluster_epoch_t *figures = &epochs [epoch];
        uint64_t arrived = figures->local + figures->peers + figures->direct;
        double sent = figures->out_mean * figures->nodes, received = figures->in_mean * figures->nodes;
        for (uint32_t job = 0; job < plan->jobs; job++)
            for (uint32_t block = 0; block < blocks; block++)
                if (watched.read [job] [epoch] [block] != 1)
                    fail_msg ("seed %" PRIu64 ": job %u read block %u %d times in epoch %u", seed, job, block,
                        watched.read [job] [epoch] [block], epoch);
        assert_true (goes? arrived >= figures->reads: arrived == figures->reads);
        assert_true (figures->store >= figures->direct);
        assert_true (fabs (sent - received) < 1e-6);
        assert_true (fabs (sent - (double) (figures->peers + figures->handed)) < 1e-6);
        assert_true (figures->lost == 0 || goes);
    }
}

//  ---- any plan

static void
s_random_changes (cluster_plan_t *plan, cluster_change_t *changes, uint64_t *random)
{
    uint32_t present = plan->nodes;
    double at = 0;
    plan->changes = changes;
    for (uint64_t count = test_below (random, 4); plan->change_count < count; plan->change_count++) {
        at += (double) test_below (random, 1000) / 500;
        int32_t step = (int32_t) test_below (random, 4) + 1;
        if (test_below (random, 2) && present > (uint32_t) step + plan->jobs)
            step = -step;
        changes [plan->change_count] = (cluster_change_t) { .at = at, .count = step };
        present += (uint32_t) step;
    }
}

static void
test_any_plan_reads_each_block_once_an_epoch (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (3000); round++) {
        uint64_t seed = random;
        cluster_change_t changes [4];
        cluster_epoch_t epochs [EPOCHS_MAX];
        cluster_plan_t plan = s_plan ((uint32_t) test_below (&random, 12) + 1,
            (uint32_t) test_below (&random, 300) + 1, (uint32_t) test_below (&random, 60));
        plan.jobs = (uint32_t) test_below (&random, plan.nodes < JOBS_MAX? plan.nodes: JOBS_MAX) + 1;
        plan.epochs = (uint32_t) test_below (&random, EPOCHS_MAX) + 1;
        plan.peers = test_below (&random, 5) == 0;
        plan.ahead = (uint32_t) test_below (&random, 9) + 1;
        plan.credit = test_below (&random, 2)? 1000: (uint32_t) test_below (&random, 4) + 1;
        plan.preference = test_below (&random, 2)? 1e9: (double) test_below (&random, 4);
        plan.relays = test_below (&random, 2);
        plan.hands_over = test_below (&random, 2);
        plan.disk = test_below (&random, 2)? 0: 300;
        plan.rate = test_below (&random, 2)? 0: 200;
        plan.larger = (double) test_below (&random, 3) / 4;
        plan.larger_factor = 3;
        plan.slow = test_below (&random, 2) && plan.nodes > 1;
        plan.slow_factor = 7;
        s_random_changes (&plan, changes, &random);
        s_run (&plan, seed, epochs);
    }
}

//  ---- homes

static void
test_homes_are_those_by_brute_force (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (150); round++) {
        enum { MEMBERS = 20, BLOCKS = 200 };
        cluster_plan_t plan = s_plan (MEMBERS, BLOCKS, 10);
        plan.larger = .5;
        plan.larger_factor = 2.5;
        cluster_blocks_t *blocks = cluster_blocks_new (&plan);
        uint32_t present = 0;
        for (int step = 0; step < 10; step++) {
            uint32_t count = (uint32_t) test_below (&random, MEMBERS) + 1;
            if (present + count <= MEMBERS) {
                cluster_blocks_join (blocks, present, count);
                present += count;
            }
            else
            if (present > count) {
                present -= count;
                cluster_blocks_leave (blocks, present, count);
            }
            for (uint32_t block = 0; block < BLOCKS; block++) {
                uint32_t home = cluster_blocks_home (blocks, 0, block);
                for (uint32_t node = 0; node < present; node++) {
                    homes_member_t best = { .id = home, .weight = cluster_plan_capacity (&plan, home) };
                    homes_member_t other = { .id = node, .weight = cluster_plan_capacity (&plan, node) };
                    assert_true (node == home || homes_prefers (&best, &other, block));
                }
                if (test_below (&random, 2) && home != CLUSTER_NO_NODE)
                    cluster_blocks_keep (blocks, home, block);
            }
            cluster_blocks_check (blocks);
        }
        cluster_blocks_destroy (&blocks);
    }
}

//  ---- closed forms

//  Blocks that homes keep once all are full.
static uint64_t
s_kept (const cluster_plan_t *plan, uint32_t present)
{
    cluster_blocks_t *blocks = cluster_blocks_new (plan);
    uint64_t kept = 0;
    cluster_blocks_join (blocks, 0, present);
    for (uint32_t node = 0; node < present; node++) {
        uint32_t homed = cluster_blocks_homed (blocks, node), capacity = cluster_plan_capacity (plan, node);
        kept += homed < capacity? homed: capacity;
    }
    cluster_blocks_destroy (&blocks);
    return kept;
}

//  A cold start reads each block once; each epoch after that, what no home has room for.
static void
test_the_store_sends_what_homes_have_no_room_for (void **state)
{
    (void) state;
    static const uint32_t capacities [] = { 0, 1, 20, 40, 50, 60, 300 };
    for (size_t at = 0; at < sizeof capacities / sizeof *capacities; at++)
        for (uint32_t nodes = 1; nodes <= 12; nodes += nodes == 1? 1: 5) {
            cluster_plan_t plan = s_plan (nodes, 300, capacities [at]);
            cluster_epoch_t epochs [EPOCHS_MAX];
            s_run (&plan, at, epochs);
            uint64_t kept = capacities [at]? s_kept (&plan, nodes): 0;
            assert_int_equal (epochs [0].store, 300);
            for (uint32_t epoch = 1; epoch < plan.epochs; epoch++) {
                uint64_t all = nodes * capacities [at];
                assert_int_equal (epochs [epoch].store, 300 - kept);
                assert_int_equal (epochs [epoch].least, all < 300? 300 - all: 0);
                assert_int_equal (epochs [epoch].alone, nodes * (300 - capacities [at]) / nodes);
                assert_true (nodes > 1 || epochs [epoch].peers == 0);
                assert_true (kept < 300 || epochs [epoch].store == 0);
            }
        }
}

//  Jobs that ask for one block at once cost the store one read of it.
static void
test_a_home_fetches_once_for_all (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (4, 200, 200);
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.jobs = 4;
    plan.ahead = 200;
    s_run (&plan, 1, epochs);
    assert_int_equal (epochs [0].store, 200);
    assert_int_equal (epochs [0].reads, 800);
    assert_int_equal (epochs [1].store, 0);
}

static void
test_without_peers_each_node_keeps_its_own (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (4, 200, 50);
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.jobs = 4;
    plan.peers = CLUSTER_ALONE;
    s_run (&plan, 1, epochs);
    assert_int_equal (epochs [0].store, 800);
    assert_int_equal (epochs [1].store, 4 * (200 - 50));
    assert_int_equal (epochs [1].alone, epochs [1].store);
    assert_int_equal (epochs [1].peers, 0);
}

static void
test_nodes_that_prefer_the_store_ask_no_home (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (4, 200, 200);
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.preference = 0;
    s_run (&plan, 1, epochs);
    for (uint32_t epoch = 0; epoch < plan.epochs; epoch++) {
        assert_int_equal (epochs [epoch].peers, 0);
        assert_int_equal (epochs [epoch].bypassed + epochs [epoch].local, 200);
    }
}

//  ---- nodes that come and go

//  A node goes between two epochs: the store sends what it held, once.
static void
test_a_node_that_goes_costs_what_it_held (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (6, 300, 300);
    const cluster_change_t change = { .at = 2, .count = -1 };
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.changes = &change;
    plan.change_count = 1;
    plan.epochs = 5;
    s_run (&plan, 7, epochs);
    cluster_blocks_t *blocks = cluster_blocks_new (&plan);
    cluster_blocks_join (blocks, 0, 6);
    assert_int_equal (epochs [1].store, 0);
    assert_int_equal (epochs [2].store, cluster_blocks_homed (blocks, 5));
    assert_int_equal (epochs [3].store, 0);
    assert_int_equal (epochs [2].nodes, 5);
    cluster_blocks_destroy (&blocks);
}

//  It comes back with what it held.  Blocks that others fetched meanwhile are fetched again.
static void
test_a_node_that_returns_has_its_cache (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (6, 300, 300);
    const cluster_change_t changes [] = { { .at = 2, .count = -1 }, { .at = 2, .count = 1 } };
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.changes = changes;
    plan.change_count = 2;
    plan.epochs = 4;
    s_run (&plan, 7, epochs);
    assert_int_equal (epochs [2].store + epochs [3].store, 0);
}

//  A newcomer fetches the blocks that it is the home of: from the store, or from the homes before it.
static void
test_a_newcomer_fetches_its_blocks (void **state)
{
    (void) state;
    const cluster_change_t change = { .at = 2, .count = 1 };
    cluster_epoch_t epochs [EPOCHS_MAX];
    for (int hands_over = 0; hands_over < 2; hands_over++) {
        cluster_plan_t plan = s_plan (6, 300, 300);
        plan.changes = &change;
        plan.change_count = 1;
        plan.epochs = 4;
        plan.hands_over = hands_over;
        s_run (&plan, 7, epochs);
        cluster_blocks_t *blocks = cluster_blocks_new (&plan);
        cluster_blocks_join (blocks, 0, 7);
        assert_int_equal (hands_over? epochs [2].handed: epochs [2].store, cluster_blocks_homed (blocks, 6));
        assert_int_equal (hands_over? epochs [2].store: epochs [2].handed, 0);
        assert_int_equal (epochs [3].store, 0);
        cluster_blocks_destroy (&blocks);
    }
}

//  Homes that are full make room for blocks that they have become the home of, and evict only strays.
static void
test_strays_make_room (void **state)
{
    (void) state;
    cluster_plan_t plan = s_plan (6, 300, 50);
    const cluster_change_t changes [] = { { .at = 1, .count = 3 }, { .at = 2, .count = -3 } };
    cluster_epoch_t epochs [EPOCHS_MAX];
    plan.changes = changes;
    plan.change_count = 2;
    plan.epochs = 5;
    s_run (&plan, 3, epochs);
    assert_int_equal (epochs [4].store, 300 - s_kept (&plan, 6));
}

//  ---- time

static void
test_seconds_by_hand (void **state)
{
    (void) state;
    cluster_epoch_t epochs [EPOCHS_MAX];
    //  300 blocks at 500 a second, behind the first byte's delay.
    cluster_plan_t plan = s_plan (1, 300, 0);
    plan.ahead = 300;
    s_run (&plan, 1, epochs);
    assert_true (fabs (epochs [0].seconds - (.05 + 300 / 500.)) < 1e-9);
    assert_true (fabs (epochs [0].node_seconds - epochs [0].seconds) < 1e-9);
    //  The whole store's rate, over four nodes; then what a node has asked for last.
    plan.nodes = plan.ahead = 4;
    plan.store_delay = 0;
    s_run (&plan, 1, epochs);
    assert_true (epochs [0].seconds >= 300 / 1000. && epochs [0].seconds < 300 / 1000. + 4 / 500.);
    //  All cached on one node, at the disk's rate; and at that of two ranks.
    plan = s_plan (1, 300, 300);
    plan.disk = 400;
    plan.ahead = 300;
    s_run (&plan, 1, epochs);
    assert_true (fabs (epochs [1].seconds - 300 / 400.) < 1e-9);
    plan.rate = 50;
    plan.ranks = 2;
    s_run (&plan, 1, epochs);
    assert_true (fabs (epochs [1].seconds - (300 / 100. + 1 / 400.)) < 1e-9);
    //  Two nodes' links: a block takes a way there, a way back and its time, and one follows the other.
    plan = s_plan (2, 300, 300);
    plan.ahead = 300;
    s_run (&plan, 1, epochs);
    double most = fmax (epochs [1].in_max, epochs [1].out_max);
    assert_true (fabs (epochs [1].seconds - (.02 + most / 1000)) < .002);
    //  A slow node takes ten times as long, and the mean shows that the other does not.
    plan.slow = 1;
    plan.slow_factor = 10;
    s_run (&plan, 1, epochs);
    assert_true (epochs [1].seconds > 9 * most / 1000);
}

//  ---- the clock

static void
test_events_come_in_order (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    cluster_queue_t queue = { .count = 0 };
    cluster_event_t event, before = { .time = -1 };
    uint32_t added = 0, taken = 0;
    for (int step = 0; step < 200000; step++) {
        if (test_below (&random, 5) < 3) {
            cluster_queue_add (&queue, before.time + (double) test_below (&random, 5) + 1, 0, added);
            added++;
        }
        else
        if (cluster_queue_next (&queue, &event)) {
            assert_true (event.time > before.time
                || (event.time >= before.time && event.number > before.number));
            before = event;
            taken++;
        }
    }
    while (cluster_queue_next (&queue, &event))
        taken++;
    assert_int_equal (taken, added);
    cluster_queue_clear (&queue);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_any_plan_reads_each_block_once_an_epoch),
        cmocka_unit_test (test_homes_are_those_by_brute_force),
        cmocka_unit_test (test_the_store_sends_what_homes_have_no_room_for),
        cmocka_unit_test (test_a_home_fetches_once_for_all),
        cmocka_unit_test (test_without_peers_each_node_keeps_its_own),
        cmocka_unit_test (test_nodes_that_prefer_the_store_ask_no_home),
        cmocka_unit_test (test_a_node_that_goes_costs_what_it_held),
        cmocka_unit_test (test_a_node_that_returns_has_its_cache),
        cmocka_unit_test (test_a_newcomer_fetches_its_blocks),
        cmocka_unit_test (test_strays_make_room),
        cmocka_unit_test (test_seconds_by_hand),
        cmocka_unit_test (test_events_come_in_order)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
