/*  Guards: sampler/tree says what remains to each job, split as tree.h defines it, after any insertions,
 *  removals, swaps, draws and drops, in any order of the jobs, and with raises left out.
 *
 *  The model is dumb: of each job, by id, whether it remains.  A raised tree must have just the common sets
 *  that a look at each id of the model finds.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "effort.h"
#include "seed.h"
#include "tree.h"

enum { IDS_MAX = 12000, JOBS = 12, RUNS = EFFORT (20), STEPS = 1000, LARGE_STEPS = 60 };

typedef struct {
    uint64_t random;
    tree_t *tree;
    uint32_t ids, stride;               //  the model's id is times this
    bool stale;                         //  a raise was left out
    bool left [JOBS] [IDS_MAX];
    uint32_t path [JOBS];
    size_t count;                       //  of jobs on the path
} world_t;

static world_t s_world;

static uint32_t
s_job (uint32_t job)
{
    return 21 * job;                    //  numbers as far apart as they can be
}

//  What remains to the job.
static roaring_bitmap_t *
s_set (const world_t *self, uint32_t job)
{
    roaring_bitmap_t *set = roaring_bitmap_create ();
    for (uint32_t id = 0; id < self->ids; id++)
        if (self->left [job] [id])
            roaring_bitmap_add (set, id * self->stride);
    return set;
}

static bool
s_is_common (const world_t *self, size_t place, uint32_t id)
{
    for (; place < self->count; place++)
        if (!self->left [self->path [place]] [id])
            return false;
    return true;
}

static void
s_check_common (const world_t *self)
{
    assert_true (tree_is_fresh (self->tree));
    for (size_t place = 0; place < self->count; place++)
        for (uint32_t id = 0; id < self->ids; id++) {
            bool in_vertex = s_is_common (self, place, id)
                && !(place > 0 && s_is_common (self, place - 1, id));
            if (in_vertex != roaring_bitmap_contains (tree_vertex (self->tree, place), id * self->stride))
                fail_msg ("id %u, vertex %zu: %d is wrong", id, place, !in_vertex);
        }
}

static void
s_check (const world_t *self)
{
    roaring_bitmap_t *sets [JOBS];
    const roaring_bitmap_t *remaining [SAMPLER_JOBS_MAX] = { NULL };
    for (uint32_t job = 0; job < JOBS; job++) {
        sets [job] = s_set (self, job);
        remaining [s_job (job)] = sets [job];
    }
    assert_int_equal (tree_count (self->tree), self->count);
    for (size_t place = 0; place < self->count; place++)
        assert_int_equal (tree_job (self->tree, place), s_job (self->path [place]));
    tree_check (self->tree, remaining);
    if (!self->stale)
        s_check_common (self);
    for (uint32_t job = 0; job < JOBS; job++)
        roaring_bitmap_free (sets [job]);
}

static size_t
s_place_of (const world_t *self, uint32_t job)
{
    size_t place = 0;
    while (place < self->count && self->path [place] != job)
        place++;
    return place;
}

//  ------------------------------------------------------------------------------------------------
//  Steps

//  A set of its own, or what another job has left, perhaps with some more and some less.
static void
s_insert (world_t *self)
{
    uint32_t job = (uint32_t) test_below (&self->random, JOBS);
    if (s_place_of (self, job) < self->count)
        return;
    uint32_t other = (uint32_t) test_below (&self->random, JOBS);
    uint64_t alike = test_below (&self->random, 4), part = 1 + test_below (&self->random, 4);
    for (uint32_t id = 0; id < self->ids; id++) {
        bool own = test_below (&self->random, 5) < part;
        bool copies = alike == 3 || (alike == 2 && test_below (&self->random, 8) > 0);
        self->left [job] [id] = copies? self->left [other] [id]: own;
    }
    size_t place = test_below (&self->random, self->count + 1);
    roaring_bitmap_t *set = s_set (self, job), *neighbour = self->count == 0? NULL:
        s_set (self, self->path [place < self->count? place: place - 1]);
    tree_insert (self->tree, place, s_job (job), set, neighbour);
    memmove (&self->path [place + 1], &self->path [place], (self->count - place) * sizeof *self->path);
    self->path [place] = job;
    self->count++;
    roaring_bitmap_free (set);
    if (neighbour)
        roaring_bitmap_free (neighbour);
}

static void
s_remove (world_t *self, bool raises)
{
    size_t place = test_below (&self->random, self->count);
    tree_remove (self->tree, s_job (self->path [place]));
    self->count--;
    memmove (&self->path [place], &self->path [place + 1], (self->count - place) * sizeof *self->path);
    if (raises && self->count > 0)
        tree_raise (self->tree, place < self->count? place: place - 1);
    self->stale |= !raises;
}

//  All that was left out, from the back to the front.
static void
s_raise_all (world_t *self)
{
    for (size_t place = self->count; place-- > 0; )
        tree_raise (self->tree, place);
    self->stale = false;
}

static void
s_swap (world_t *self)
{
    if (self->count < 2)
        return;
    size_t place = test_below (&self->random, self->count - 1);
    tree_swap (self->tree, place);
    uint32_t job = self->path [place];
    self->path [place] = self->path [place + 1];
    self->path [place + 1] = job;
}

//  Some of the jobs that need it, one of them not before the vertex; jobs that are not on the path may be
//  among them.
static void
s_draw (world_t *self)
{
    size_t place = test_below (&self->random, self->count);
    if (tree_vertex_size (self->tree, place) == 0)
        return;
    uint32_t id;
    assert_true (roaring_bitmap_select (tree_vertex (self->tree, place),
        (uint32_t) test_below (&self->random, tree_vertex_size (self->tree, place)), &id));
    uint32_t certain = self->path [place + test_below (&self->random, self->count - place)];
    uint32_t jobs [JOBS];
    size_t count = 0;
    for (uint32_t job = 0; job < JOBS; job++)
        if (self->left [job] [id / self->stride] && (job == certain || test_below (&self->random, 2))) {
            jobs [count++] = s_job (job);
            self->left [job] [id / self->stride] = false;
        }
    tree_draw (self->tree, place, id, jobs, count);
}

static void
s_draw_leaf (world_t *self)
{
    size_t place = test_below (&self->random, self->count);
    uint64_t size = roaring_bitmap_get_cardinality (tree_leaf (self->tree, place));
    if (size == 0)
        return;
    uint32_t id;
    assert_true (roaring_bitmap_select (tree_leaf (self->tree, place),
        (uint32_t) test_below (&self->random, size), &id));
    tree_draw_leaf (self->tree, place, id);
    self->left [self->path [place]] [id / self->stride] = false;
}

static void
s_drop (world_t *self)
{
    uint32_t id = (uint32_t) test_below (&self->random, self->ids);
    for (uint32_t job = 0; job < JOBS; job++)
        self->left [job] [id] = false;
    tree_drop (self->tree, id * self->stride);
}

static void
s_step (world_t *self, bool leaves_out)
{
    uint64_t what = test_below (&self->random, 100);
    if (self->count == 0 || what < 10)
        s_insert (self);
    else
    if (what < 16)
        s_remove (self, !(leaves_out && test_below (&self->random, 2)));
    else
    if (what < 30)
        s_swap (self);
    else
    if (what < 32)
        s_drop (self);
    else
    if (what < 34)
        s_raise_all (self);
    else
    if (what < 75)
        s_draw (self);
    else
        s_draw_leaf (self);
}

static void
s_play (uint32_t ids, uint32_t stride, int steps, bool leaves_out)
{
    uint64_t first = test_seed ();
    print_message ("TEST_SEED=%" PRIu64 "\n", first);
    for (uint64_t seed = first; seed < first + RUNS; seed++) {
        world_t *self = &s_world;
        memset (self, 0, sizeof *self);
        *self = (world_t) { .random = seed, .tree = tree_new (), .ids = ids, .stride = stride };
        for (int step = 0; step < steps; step++) {
            s_step (self, leaves_out);
            s_check (self);
        }
        s_raise_all (self);
        s_check (self);
        tree_destroy (&self->tree);
    }
}

static void
test_small_sets (void **state)
{
    (void) state;
    s_play (40, 4001, STEPS, false);            //  three containers
}

static void
test_raises_left_out (void **state)
{
    (void) state;
    s_play (40, 4001, STEPS, true);
}

//  Containers that are bitsets, and become arrays.
static void
test_large_sets (void **state)
{
    (void) state;
    s_play (IDS_MAX, 7, LARGE_STEPS, true);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_small_sets),
        cmocka_unit_test (test_raises_left_out),
        cmocka_unit_test (test_large_sets),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
