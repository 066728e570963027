/*  Guards: a pick is in the class and uniform, by whichever of its ways it is found (proposals from all ids,
 *  from the job's set, among given ids, or a walk).
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "choice.h"
#include "seed.h"
#include "statistics.h"

enum { SETS = 4, MEMBERS_MAX = 64, CASES = 80, PICKS = 3000 };

//  One job for each set, in three planes of the table.
static const uint32_t s_jobs [SETS] = { 63, 0, 64, 255 };

typedef struct {
    uint32_t bound, padding, universe;  //  all sets hold only multiples of padding
    roaring_bitmap_t *sets [SETS];
    size_t in_count, out_count;         //  the class: what is in all of the first, less what is in all of the
                                        //  next
    need_table_t needs;
    jobset_t in, out;
    choice_t choice;
    roaring_bitmap_t *members;          //  the class, computed the simple way: id by id
    uint32_t *among;                    //  the class and other ids
} fixture_t;

static void
s_add_needs (fixture_t *self, uint32_t job, const roaring_bitmap_t *ids)
{
    uint64_t **plane_p = &self->needs.planes [job / 64];
    if (!*plane_p)
        *plane_p = calloc (self->universe, sizeof **plane_p);
    assert_non_null (*plane_p);
    jobset_add (&self->needs.members, job);
    for (uint32_t id = 0; id < self->universe; id++)
        if (roaring_bitmap_contains (ids, id))
            (*plane_p) [id] |= UINT64_C (1) << job % 64;
}

//  A class of some 1 to MEMBERS_MAX ids inside sets `wide` times as large, spread over ids `padding` times
//  as many.
static void
s_make (fixture_t *self, uint64_t *random)
{
    const uint32_t wides [] = { 1, 10, 100, 2000 };
    uint32_t wide = wides [test_below (random, 4)];
    self->padding = wides [test_below (random, 3)];
    self->bound = wide * (1 + (uint32_t) test_below (random, MEMBERS_MAX));
    self->universe = self->bound * self->padding;
    self->in_count = 1 + test_below (random, 2);
    self->out_count = test_below (random, SETS - self->in_count + 1);
    for (size_t set = 0; set < SETS; set++)
        self->sets [set] = roaring_bitmap_create ();
    for (uint32_t id = 0; id < self->universe; id += self->padding) {
        bool member = test_below (random, wide) == 0;
        roaring_bitmap_add (self->sets [0], id);
        for (size_t set = 1; set < SETS; set++)
            if ((set < self->in_count) == (member || test_below (random, 10) == 0))
                roaring_bitmap_add (self->sets [set], id);
    }
    for (size_t set = 0; set < SETS; set++) {
        s_add_needs (self, s_jobs [set], self->sets [set]);
        if (set < self->in_count)
            jobset_add (&self->in, s_jobs [set]);
        else
        if (set < self->in_count + self->out_count)
            jobset_add (&self->out, s_jobs [set]);
    }
    self->choice = (choice_t) { .set = self->sets [0],
        .bound = roaring_bitmap_get_cardinality (self->sets [0]),
        .universe = self->universe, .needs = &self->needs, .in = &self->in,
        .out = self->out_count? &self->out: NULL, .barred = CHOICE_NO_ID, .found = CHOICE_NO_ID };
    if (self->out_count)
        self->choice.barred = (uint32_t) test_below (random, self->bound) * self->padding;
}

static void
s_collect (fixture_t *self)
{
    self->members = roaring_bitmap_create ();
    for (uint32_t id = 0; id < self->universe; id += self->padding) {
        size_t in = 0, out = 0;
        for (size_t set = 0; set < self->in_count; set++)
            in += roaring_bitmap_contains (self->sets [set], id);
        for (size_t set = 0; set < self->out_count; set++)
            out += roaring_bitmap_contains (self->sets [self->in_count + set], id);
        bool member = in == self->in_count && !(out && out == self->out_count) && id != self->choice.barred;
        if (member != choice_contains (&self->choice, id))
            fail_msg ("id %u: contains says %d", id, !member);
        if (member)
            roaring_bitmap_add (self->members, id);
    }
    random_t random = random_from_seed (1);
    uint32_t id = CHOICE_NO_ID;
    uint64_t size = choice_walk (&self->choice, &random, &id);
    assert_int_equal (size, roaring_bitmap_get_cardinality (self->members));
    assert_int_equal (id != CHOICE_NO_ID, size > 0);
}

//  Every other class is sought among some ids only.
static void
s_make_among (fixture_t *self, uint64_t *random)
{
    if (test_below (random, 2))
        return;
    self->among = malloc (self->bound * sizeof *self->among);
    assert_non_null (self->among);
    for (uint32_t id = 0; id < self->universe; id += self->padding)
        if (roaring_bitmap_contains (self->members, id) || test_below (random, 3) == 0)
            self->among [self->choice.among_count++] = id;
    self->choice.among = self->among;
}

static void
s_free (fixture_t *self)
{
    for (size_t set = 0; set < SETS; set++)
        roaring_bitmap_free (self->sets [set]);
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        free (self->needs.planes [word]);
    roaring_bitmap_free (self->members);
    free (self->among);
}

//  The z of many picks; fails at once at an id that must not come.
static double
s_try (const fixture_t *self, random_t *random, uint64_t seed)
{
    uint64_t cells = roaring_bitmap_get_cardinality (self->members);
    uint64_t *counts = calloc (cells, sizeof *counts);
    for (int pick = 0; pick < PICKS; pick++) {
        uint32_t id = choice_pick (&self->choice, random);
        if (!roaring_bitmap_contains (self->members, id))
            fail_msg ("seed %" PRIu64 ": picked %u, outside", seed, id);
        counts [roaring_bitmap_rank (self->members, id) - 1]++;
    }
    double z = 0;
    if (cells > 1 && cells < PICKS / 10)
        z = statistics_z_of_chi_square (statistics_chi_square_even (counts, cells), (double) cells - 1);
    free (counts);
    return z;
}

static void
test_pick_is_uniform_over_the_class (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (CASES);
    for (uint64_t seed = test_seed (), n = 0; n < CASES; n++, seed++) {
        uint64_t model = seed;
        random_t random = random_from_seed (seed);
        fixture_t self = { 0 };
        s_make (&self, &model);
        s_collect (&self);
        s_make_among (&self, &model);
        if (!roaring_bitmap_is_empty (self.members)) {
            double z = s_try (&self, &random, seed);
            if (fabs (z) > limit)
                fail_msg ("seed %" PRIu64 ": z = %f", seed, z);
        }
        s_free (&self);
    }
}

//  An id that is known to be uniform over the class is the pick.
static void
test_what_was_found_is_picked (void **state)
{
    (void) state;
    random_t random = random_from_seed (test_seed ());
    roaring_bitmap_t *set = roaring_bitmap_from_range (0, 1000, 1);
    choice_t choice = { .set = set, .bound = 1000, .universe = 2000, .barred = CHOICE_NO_ID, .found = 777 };
    assert_int_equal (choice_pick (&choice, &random), 777);
    assert_int_equal (choice_pick (&choice, &random), 777);
    roaring_bitmap_free (set);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pick_is_uniform_over_the_class),
        cmocka_unit_test (test_what_was_found_is_picked),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
