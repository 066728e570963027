/*  Guards: Redox's distributed protocol in cluster_sim: the known counts of the small case, what holds for
 *  all plans, that the command says so, and the origins of its figures.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "cluster_redox.h"
#include "figure_rows.h"
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

//  A node with room for one file more gets it.
static void
test_the_room_is_used_up (void **state)
{
    (void) state;
    for (uint32_t room = 1; room <= 3; room++) {
        cluster_redox_plan_t plan = { SMALL, .ahead = 64 };
        plan.held_max = room;
        cluster_redox_epoch_t epoch;
        cluster_redox_run (&plan, test_seed (), 1, &epoch);
        assert_int_equal (epoch.held_most, room);
    }
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

//  The figures are within their tolerances, and each row names the origin of its figure: only those of Table
//  6 are the paper's.  The parameters of the paper's text have rows beside the fitted ones.
static void
test_figures_are_within_tolerance_and_name_their_origin (void **state)
{
    (void) state;
    static char text [30000];
    int counts [FIGURE_ROWS_ORIGINS];
    assert_int_equal (simulator_run ("cluster_sim", "--published", text, sizeof text), 0);
    assert_non_null (strstr (text, "Not derivable"));
    assert_null (strstr (text, "OUT"));
    figure_rows_count (text, counts);
    assert_int_equal (counts [FIGURE_ROWS_PAPER], 8 + 8 + 2);
    assert_int_equal (counts [FIGURE_ROWS_DERIVED], 8);
    assert_int_equal (counts [FIGURE_ROWS_OWN], 10 + 8 + 8 + 2 + 1);
    figure_row_t small = figure_rows_find (text, "P = 64, epoch 2: remote requests");
    assert_int_equal (figure_rows_origin (&small), FIGURE_ROWS_OWN);
    assert_string_equal (small.cells [4], "323");
    assert_string_equal (small.cells [6], "exact");
    figure_rows_expect (text, "no prefetching: misses, x 10^5", FIGURE_ROWS_PAPER, "1.78 (Table 6)");
    figure_rows_expect (text, "1 GB, 9500 files: loads", FIGURE_ROWS_OWN, "126900 (");
    figure_rows_expect (text, "K = 2: loads/C", FIGURE_ROWS_OWN, "1.35 (");
    figure_rows_expect (text, "local hits, counted, F = 100,000", FIGURE_ROWS_OWN, "0.663 (c (1 + k");
    const char *quarter = strstr (text, "the text's memory, 25 %: M = 5004");
    assert_non_null (quarter);
    figure_row_t row = figure_rows_find (quarter, "no prefetching: misses, x 10^5");
    assert_string_equal (row.cells [4], "1.44");
    assert_string_equal (row.cells [6], "none");
    const char *best = strstr (text, "the text's best limit, 1.5 GB: L = 14,250");
    assert_non_null (best);
    row = figure_rows_find (best, "Redox: remote requests, x 10^5");
    assert_string_equal (row.cells [4], "0.31");
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_small_case_is_exact),
        cmocka_unit_test (test_the_room_is_used_up),
        cmocka_unit_test (test_one_node_is_the_plain_rule),
        cmocka_unit_test (test_any_plan_holds_its_bounds),
        cmocka_unit_test (test_figures_are_within_tolerance_and_name_their_origin)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
