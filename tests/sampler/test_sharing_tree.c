/*  Guards: sampler/sharing_tree tells the sizes of vertices and leaves, and what each pair of jobs has in
 *  common, as they are: after any joins, draws, drops, epochs and departures, under both policies.
 *
 *  The model is dumb: it asks the sampler of each id and job whether it is needed, and counts.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "seed.h"
#include "sharing_tree.h"

enum { IDS_MAX = 700, JOBS = 9, RUNS = EFFORT (30), STEPS = 150, MANY_IDS = 200000 };

typedef struct {
    uint64_t random;
    sampler_t *sampler;
    uint32_t ids;
    uint32_t jobs [JOBS];           //  their numbers
    size_t count;
    size_t kept, off_path;          //  trees and jobs that were seen
} world_t;

//  ---- the model

static bool
s_all_need (const world_t *self, const sharing_tree_t *tree, size_t from, size_t end, uint32_t id)
{
    for (size_t place = from; place < end; place++)
        if (!sampler_needs (self->sampler, tree->places [place].job, id))
            return false;
    return true;
}

static uint64_t
s_count_both (const world_t *self, uint32_t job, uint32_t other)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < self->ids; id++)
        count += sampler_needs (self->sampler, job, id) && sampler_needs (self->sampler, other, id);
    return count;
}

//  What all from a place on need, and in a vertex also the one before does not.
static void
s_check_path (const world_t *self, const sharing_tree_t *tree)
{
    for (size_t place = 0; place < tree->on_path; place++) {
        const sharing_place_t *here = &tree->places [place];
        uint64_t vertex = 0, leaf = 0;
        for (uint32_t id = 0; id < self->ids; id++) {
            bool is_common = s_all_need (self, tree, place, tree->on_path, id);
            vertex += is_common && (place == 0 || !s_all_need (self, tree, place - 1, tree->on_path, id));
            leaf += !is_common && sampler_needs (self->sampler, here->job, id);
        }
        assert_int_equal (here->vertex, vertex);
        assert_int_equal (here->leaf, leaf);
    }
}

//  Each job once; sizes add up; without a kept tree the least is first.
static void
s_check_form (const world_t *self, const sharing_tree_t *tree, const uint32_t *jobs, size_t count)
{
    bool is_there [SAMPLER_JOBS_MAX] = { false };
    uint64_t shared = 0;
    assert_int_equal (tree->count, count);
    assert_true (tree->is_kept || tree->on_path == count);
    for (size_t place = 0; place < count; place++) {
        const sharing_place_t *here = &tree->places [place];
        bool is_on_path = place < tree->on_path;
        assert_false (is_there [here->job]);
        is_there [here->job] = true;
        assert_int_equal (here->remaining, sampler_remaining (self->sampler, here->job));
        shared += here->vertex;
        assert_int_equal (here->remaining, (is_on_path? shared: 0) + here->leaf);
        if (!tree->is_kept && place > 0)
            assert_true (here [-1].remaining <= here->remaining);
    }
    for (size_t index = 0; index < count; index++)
        assert_true (is_there [jobs [index]]);
}

static void
s_check_pairs (const world_t *self, const sharing_tree_t *tree)
{
    for (size_t place = 1; place < tree->count; place++)
        for (size_t other = 0; other < place; other++) {
            uint64_t common = s_count_both (self, tree->places [place].job, tree->places [other].job);
            assert_int_equal (sharing_tree_common (tree, place, other), common);
            assert_int_equal (sharing_tree_common (tree, other, place), common);
        }
}

static void
s_check_tree (world_t *self, const uint32_t *jobs, size_t count, bool is_group)
{
    sharing_tree_t *tree = sharing_tree_of (self->sampler, jobs, count, is_group, UINT64_MAX);
    assert_int_equal (tree->ids, self->ids);
    assert_int_equal (tree->looked_at, self->ids);
    s_check_form (self, tree, jobs, count);
    s_check_path (self, tree);
    s_check_pairs (self, tree);
    self->kept += tree->is_kept;
    self->off_path += tree->count - tree->on_path;
    sharing_tree_destroy (&tree);
    assert_null (tree);
}

//  Each group, and some of all jobs as if there were no others.
static void
s_check (world_t *self)
{
    for (size_t group = 0; group < sampler_group_count (self->sampler); group++) {
        size_t count;
        const uint32_t *jobs = sampler_group (self->sampler, group, &count);
        s_check_tree (self, jobs, count, true);
    }
    uint32_t some [JOBS];
    size_t count = 0;
    for (size_t index = 0; index < self->count; index++)
        if (test_below (&self->random, 3) > 0)
            some [count++] = self->jobs [index];
    if (count > 0)
        s_check_tree (self, some, count, false);
}

//  ---- steps

//  Everything, a range, or random ids; perhaps in the middle of an epoch.
static void
s_join (world_t *self)
{
    if (self->count == JOBS)
        return;
    uint32_t from = (uint32_t) test_below (&self->random, self->ids), kind = (uint32_t) test_below (
        &self->random, 3);
    roaring_bitmap_t *data = kind == 0? roaring_bitmap_from_range (0, self->ids, 1):
        roaring_bitmap_from_range (from, from + 1 + test_below (&self->random, self->ids - from), 1);
    roaring_bitmap_t *taken = roaring_bitmap_create ();
    for (uint32_t id = 0; id < self->ids; id++) {
        if (kind == 2 && test_below (&self->random, 2) == 0)
            roaring_bitmap_add (data, id);
        if (kind > 0 && test_below (&self->random, 4) == 0)
            roaring_bitmap_add (taken, id);
    }
    roaring_bitmap_and_inplace (taken, data);
    roaring_bitmap_remove (taken, roaring_bitmap_minimum (data));
    self->jobs [self->count++] = sampler_join (self->sampler, &(sampler_join_t) { .data = data,
        .taken = roaring_bitmap_is_empty (taken)? NULL: taken });
    roaring_bitmap_free (data);
    roaring_bitmap_free (taken);
}

static void
s_leave (world_t *self)
{
    if (self->count == 0)
        return;
    size_t index = test_below (&self->random, self->count);
    sampler_leave (self->sampler, self->jobs [index]);
    self->jobs [index] = self->jobs [--self->count];
}

//  Some rounds of some jobs of a group.  Epochs that are over begin again later: a job may have nothing left.
static void
s_draw (world_t *self)
{
    size_t groups = sampler_group_count (self->sampler), members;
    if (groups == 0)
        return;
    const uint32_t *member = sampler_group (self->sampler, test_below (&self->random, groups), &members);
    uint64_t rounds = test_below (&self->random, 80), kind = test_below (&self->random, 3);
    for (uint64_t round = 0; round < rounds; round++) {
        uint32_t jobs [JOBS];
        size_t count = 0;
        for (size_t index = 0; index < members; index++)
            if (sampler_remaining (self->sampler, member [index]) > 0
                && (kind == 0 || test_below (&self->random, 1 + (kind == 1? 1: index)) == 0))
                jobs [count++] = member [index];
        if (count == 0)
            continue;
        sampler_offer_t offer;
        for (sampler_round_begin (self->sampler, jobs, count); sampler_offer (self->sampler, &offer); )
            sampler_commit (self->sampler, sampler_pick (self->sampler));
    }
}

static void
s_begin_epochs (world_t *self)
{
    for (size_t index = 0; index < self->count; index++)
        if (sampler_remaining (self->sampler, self->jobs [index]) == 0)
            sampler_epoch_begin (self->sampler, self->jobs [index]);
}

static void
s_step (world_t *self)
{
    uint64_t what = test_below (&self->random, 20);
    if (what < 3)
        s_join (self);
    else
    if (what == 3)
        s_leave (self);
    else
    if (what == 4)
        sampler_drop (self->sampler, (uint32_t) test_below (&self->random, self->ids));
    else
    if (what < 8)
        s_begin_epochs (self);
    else
        s_draw (self);
}

static void
s_play (sampler_policy_t policy)
{
    uint64_t first = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", first);
    size_t kept = 0, off_path = 0;
    for (uint64_t seed = first; seed < first + RUNS; seed++) {
        world_t self = { .random = seed };
        self.ids = 1 + (uint32_t) test_below (&self.random, IDS_MAX);
        self.sampler = sampler_new (self.ids, policy, seed);
        for (int step = 0; step < STEPS; step++) {
            s_step (&self);
            s_check (&self);
        }
        sampler_destroy (&self.sampler);
        kept += self.kept;
        off_path += self.off_path;
    }
    assert_true ((kept > 0) == (policy == SAMPLER_POLICY_DSA));
    assert_true ((off_path > 0) == (policy == SAMPLER_POLICY_DSA));
}

static void
test_dsa (void **state)
{
    (void) state;
    s_play (SAMPLER_POLICY_DSA);
}

static void
test_follow (void **state)
{
    (void) state;
    s_play (SAMPLER_POLICY_FOLLOW);
}

//  ---- estimates

//  Three jobs on random parts of large data, the third with the first one's: what is looked at suffices to
//  tell sizes within a tenth, what remains is exact, and so is what equal jobs share.
static void
s_estimate (sampler_policy_t policy)
{
    world_t self = { .random = test_seed (), .ids = MANY_IDS, .sampler = sampler_new (MANY_IDS, policy, 1) };
    roaring_bitmap_t *one = roaring_bitmap_create (), *two = roaring_bitmap_create ();
    for (uint32_t id = 0; id < MANY_IDS; id++) {
        if (test_below (&self.random, 2))
            roaring_bitmap_add (one, id);
        if (id % 3 > 0)
            roaring_bitmap_add (two, id);
    }
    const roaring_bitmap_t *sets [] = { one, two, one };
    for (size_t index = 0; index < 3; index++)
        self.jobs [self.count++] = sampler_join (self.sampler, &(sampler_join_t) { .data = sets [index] });
    sharing_tree_t *tree = sharing_tree_of (self.sampler, self.jobs, 3, true, MANY_IDS / 10);
    assert_in_range (tree->looked_at, MANY_IDS / 20, MANY_IDS / 10);
    s_check_form (&self, tree, self.jobs, 3);
    uint64_t size = roaring_bitmap_get_cardinality (one), both = roaring_bitmap_and_cardinality (one, two);
    assert_int_equal (tree->places [0].remaining, size);
    assert_int_equal (tree->places [1].remaining, size);
    assert_int_equal (sharing_tree_common (tree, 0, 1), size);
    assert_int_equal (tree->places [1].vertex, 0);
    assert_in_range (tree->places [0].vertex, both - both / 10, both + both / 10);
    assert_in_range (sharing_tree_common (tree, 1, 2), both - both / 10, both + both / 10);
    sharing_tree_destroy (&tree);
    tree = sharing_tree_of (self.sampler, self.jobs, 3, true, 0);
    assert_in_range (tree->looked_at, 1, 64);           //  never nothing
    sharing_tree_destroy (&tree);
    sampler_destroy (&self.sampler);
    roaring_bitmap_free (one);
    roaring_bitmap_free (two);
}

static void
test_estimates (void **state)
{
    (void) state;
    s_estimate (SAMPLER_POLICY_DSA);
    s_estimate (SAMPLER_POLICY_FOLLOW);
}

//  A tree of jobs with these ranges of ids, each of which has drawn nothing.
static sharing_tree_t *
s_of_ranges (sampler_policy_t policy, const uint32_t (*ranges) [2], size_t count, uint64_t ids_max)
{
    sampler_t *sampler = sampler_new (MANY_IDS, policy, 1);
    uint32_t jobs [SAMPLER_JOBS_MAX];
    for (size_t index = 0; index < count; index++) {
        roaring_bitmap_t *data = roaring_bitmap_from_range (ranges [index] [0], ranges [index] [1], 1);
        jobs [index] = sampler_join (sampler, &(sampler_join_t) { .data = data });
        roaring_bitmap_free (data);
    }
    sharing_tree_t *tree = sharing_tree_of (sampler, jobs, count, false, ids_max);
    sampler_destroy (&sampler);
    return tree;
}

//  Small parts of large data are seen, wherever they are; a job that is alone needs no look.
static void
s_find_small (sampler_policy_t policy)
{
    static const uint32_t small [] [2] = { { 120000, 122000 }, { 120000, 122000 }, { 121000, 123000 },
        { 150000, 150010 } };
    sharing_tree_t *tree = s_of_ranges (policy, small, 4, MANY_IDS / 10);
    assert_int_equal (tree->looked_at, tree->ids);
    for (size_t place = 1; place < 4; place++)
        for (size_t other = 0; other < place; other++) {
            const uint32_t *one = small [tree->places [place].job], *two = small [tree->places [other].job];
            uint32_t from = one [0] > two [0]? one [0]: two [0], to = one [1] < two [1]? one [1]: two [1];
            assert_int_equal (sharing_tree_common (tree, place, other), from < to? to - from: 0);
        }
    sharing_tree_destroy (&tree);
    //  Beside large ones: within a twentieth, and exact for the small ones.
    uint32_t ranges [20] [2] = { { 100, 2100 }, { 1100, 3100 } };
    for (size_t index = 2; index < 20; index++)
        ranges [index] [1] = MANY_IDS;
    tree = s_of_ranges (policy, ranges, 20, MANY_IDS / 10);
    assert_in_range (tree->looked_at, 1, MANY_IDS / 10);
    assert_int_equal (tree->places [0].remaining, 2000);
    assert_in_range (sharing_tree_common (tree, 0, 1), 950, 1050);
    assert_in_range (sharing_tree_common (tree, 0, 2), 1900, 2000);
    assert_int_equal (sharing_tree_common (tree, 2, 3), MANY_IDS);
    sharing_tree_destroy (&tree);
    tree = s_of_ranges (policy, ranges + 2, 1, 0);
    assert_int_equal (tree->looked_at, tree->ids);
    assert_int_equal (tree->places [0].vertex, MANY_IDS);
    assert_int_equal (tree->places [0].leaf, 0);
    sharing_tree_destroy (&tree);
}

static void
test_small_parts (void **state)
{
    (void) state;
    s_find_small (SAMPLER_POLICY_DSA);
    s_find_small (SAMPLER_POLICY_FOLLOW);
}

//  Many ranges, and the least look: what is told is not far off, and "nothing" is told of no two that share
//  much.  What would be so is not known.
static void
test_not_known (void **state)
{
    (void) state;
    enum { LENGTH = MANY_IDS / 10, COUNT = 100 };
    uint64_t random = test_seed (), unknown = 0;
    uint32_t ranges [COUNT] [2];
    for (size_t index = 0; index < COUNT; index++) {
        ranges [index] [0] = (uint32_t) test_below (&random, MANY_IDS - LENGTH);
        ranges [index] [1] = ranges [index] [0] + LENGTH;
    }
    sharing_tree_t *tree = s_of_ranges (SAMPLER_POLICY_FOLLOW, ranges, COUNT, 0);
    for (size_t place = 1; place < COUNT; place++)
        for (size_t other = 0; other < place; other++) {
            const uint32_t *one = ranges [tree->places [place].job], *two = ranges [tree->places [other].job];
            uint32_t from = one [0] > two [0]? one [0]: two [0], to = one [1] < two [1]? one [1]: two [1];
            uint64_t size = sharing_tree_common (tree, place, other);
            unknown += size == SHARING_TREE_UNKNOWN;
            assert_true (size > 0 || from + LENGTH / 2 > to);
            assert_true (size == SHARING_TREE_UNKNOWN || size <= LENGTH);
        }
    assert_true (unknown > 0);
    for (size_t place = 0; place < COUNT; place++) {
        const sharing_place_t *here = &tree->places [place];
        assert_int_equal (here->remaining, LENGTH);
        assert_true (here->leaf == SHARING_TREE_UNKNOWN || here->leaf <= LENGTH);
        assert_true (here->vertex == SHARING_TREE_UNKNOWN || here->vertex <= LENGTH);
    }
    sharing_tree_destroy (&tree);
}

//  As many jobs as there can be, and no more ids than that a look is short.
static void
test_room (void **state)
{
    (void) state;
    assert_int_equal (sharing_tree_weight (0), 0);
    assert_int_equal (sharing_tree_weight (1), 0);
    for (size_t jobs = 2; jobs <= SAMPLER_JOBS_MAX; jobs++) {
        uint64_t ids = sharing_tree_ids (sharing_tree_weight (jobs));
        assert_true (ids >= 200 && ids <= sharing_tree_ids (sharing_tree_weight (jobs - 1)));
    }
    assert_true (sharing_tree_ids (UINT64_MAX) >= 64);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_dsa),
        cmocka_unit_test (test_follow),
        cmocka_unit_test (test_estimates),
        cmocka_unit_test (test_small_parts),
        cmocka_unit_test (test_not_known),
        cmocka_unit_test (test_room),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
