/*  Guards: Redox's distributed protocol in cluster_sim: the known counts of the small case, what holds for
 *  all plans, and that the command says so.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "cluster_redox.h"
#include "published_random.h"
#include "seed.h"
#include "simulator_run.h"

#define SMALL .files = 6400, .chunk = 64, .virtual_chunks = 12, .nodes = 3, .held_max = UINT32_MAX

static void
s_check (const cluster_redox_plan_t *plan, size_t count, const uint64_t expected [] [2])
{
    cluster_redox_epoch_t epochs [3];
    cluster_redox_run (plan, 42, (uint32_t) count, epochs);
    for (size_t epoch = 0; epoch < count; epoch++) {
        assert_int_equal (epochs [epoch].loads, expected [epoch] [0]);
        assert_int_equal (epochs [epoch].remote, expected [epoch] [1]);
    }
}

//  An independent program's counts on the same generator.
static void
test_small_case_is_exact (void **state)
{
    (void) state;
    s_check (&(cluster_redox_plan_t) { SMALL }, 1, (const uint64_t [] [2]) { { 861, 4252 } });
    s_check (&(cluster_redox_plan_t) { SMALL, .ahead = 64 }, 3,
        (const uint64_t [] [2]) { { 582, 310 }, { 570, 323 }, { 584, 310 } });
    s_check (&(cluster_redox_plan_t) { SMALL, .ahead = 64, .random_selection = true }, 1,
        (const uint64_t [] [2]) { { 626, 317 } });
}

//  On one node without prefetching the protocol is the rule that tier_sim plays by the raw pool's own code.
static void
test_one_node_is_the_plain_rule (void **state)
{
    (void) state;
    s_check (&(cluster_redox_plan_t) { .files = 6400, .chunk = 64, .virtual_chunks = 10, .nodes = 1 }, 3,
        (const uint64_t [] [2]) { { 909, 0 }, { 868, 0 }, { 885, 0 } });
}

//  The model of the counts that do not depend on loads: without prefetching each file of another home is one
//  request.
static uint64_t
s_count_foreign (const cluster_redox_plan_t *plan, uint64_t seed)
{
    static uint32_t order [20000];
    random_t random = published_random_new (seed);
    uint64_t chunks = cluster_redox_chunks (plan), foreign = 0;
    published_random_shuffle (&random, order, plan->files);
    for (uint64_t place = 0; place < plan->files; place++) {
        uint64_t home = order [place] / plan->chunk * plan->virtual_chunks / chunks
            / (plan->virtual_chunks / plan->nodes);
        foreign += home != place * plan->nodes / plan->files;
    }
    return foreign;
}

//  Any plan gives every file once (cluster_redox.c asserts it), keeps the limit, and each file of another
//  home comes by a request or before it.
static void
test_any_plan_holds_its_bounds (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 200; round++) {
        uint64_t seed = random;
        cluster_redox_plan_t plan = { .nodes = (uint32_t) (1 + test_below (&random, 5)) };
        plan.chunk = (uint32_t) (1 + test_below (&random, 100));
        plan.virtual_chunks = plan.nodes * (uint32_t) (1 + test_below (&random, 6));
        plan.files = plan.chunk * plan.virtual_chunks + (uint32_t) test_below (&random, 9000);
        plan.ahead = test_below (&random, 3)? (uint32_t) test_below (&random, 300): 0;
        plan.held_max = (uint32_t) test_below (&random, 200);
        plan.random_selection = test_below (&random, 2);
        cluster_redox_epoch_t epoch;
        cluster_redox_run (&plan, seed, 1, &epoch);
        if (epoch.held_most > plan.held_max
            || epoch.remote + epoch.prefetched != s_count_foreign (&plan, seed)
            || epoch.loads < cluster_redox_chunks (&plan) || epoch.loads > plan.files)
            fail_msg ("seed %" PRIu64 ": %" PRIu64 " loads, %" PRIu64 " requests, %" PRIu64 " before, "
                "%u held", seed, epoch.loads, epoch.remote, epoch.prefetched, epoch.held_most);
    }
}

//  ---- the command

static void
test_published_figures_are_within_their_tolerances (void **state)
{
    (void) state;
    static char text [20000];
    assert_int_equal (simulator_run ("cluster_sim", "--published", text, sizeof text), 0);
    assert_non_null (strstr (text, "| P = 64, epoch 2: remote requests | 323 | 323 | 1.000 | exact |"));
    assert_non_null (strstr (text, "Table 6"));
    assert_null (strstr (text, "OUT"));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_small_case_is_exact),
        cmocka_unit_test (test_one_node_is_the_plain_rule),
        cmocka_unit_test (test_any_plan_holds_its_bounds),
        cmocka_unit_test (test_published_figures_are_within_their_tolerances)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
