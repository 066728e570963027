/*  Guards: a pick is in the class, uniform, and from what is available where that is possible -- by
 *  whichever of its ways it is found (proposals from all ids, from the smallest set, from available, or the
 *  computed class).
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

typedef struct {
    uint32_t bound, padding, universe;  //  all sets hold only multiples of padding
    roaring_bitmap_t *sets [SETS];
    const roaring_bitmap_t *lent [SETS];
    choice_t choice;
    roaring_bitmap_t *members;          //  the class, computed the dumb way: id by id
    roaring_bitmap_t *available;
} fixture_t;

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
    size_t in_count = 1 + test_below (random, 2);
    size_t out_count = test_below (random, SETS - in_count + 1);
    for (size_t set = 0; set < SETS; set++) {
        self->sets [set] = roaring_bitmap_create ();
        self->lent [set] = self->sets [set];
    }
    for (uint32_t id = 0; id < self->universe; id += self->padding) {
        bool member = test_below (random, wide) == 0;
        roaring_bitmap_add (self->sets [0], id);
        for (size_t set = 1; set < SETS; set++)
            if ((set < in_count) == (member || test_below (random, 10) == 0))
                roaring_bitmap_add (self->sets [set], id);
    }
    self->choice = (choice_t) { .in = self->lent, .in_count = in_count, .out = self->lent + in_count,
        .out_count = out_count, .barred = CHOICE_NO_ID, .universe = self->universe,
        .bound = roaring_bitmap_get_cardinality (self->sets [0]) };
    if (out_count)
        self->choice.barred = (uint32_t) test_below (random, self->bound) * self->padding;
}

static void
s_collect (fixture_t *self)
{
    self->members = roaring_bitmap_create ();
    for (uint32_t id = 0; id < self->universe; id += self->padding) {
        size_t in = 0, out = 0;
        for (size_t set = 0; set < self->choice.in_count; set++)
            in += roaring_bitmap_contains (self->choice.in [set], id);
        for (size_t set = 0; set < self->choice.out_count; set++)
            out += roaring_bitmap_contains (self->choice.out [set], id);
        bool member = in == self->choice.in_count && !(out && out == self->choice.out_count)
            && id != self->choice.barred;
        if (member != choice_contains (&self->choice, id))
            fail_msg ("id %u: contains says %d", id, !member);
        if (member)
            roaring_bitmap_add (self->members, id);
    }
    self->choice.size = roaring_bitmap_get_cardinality (self->members);
}

//  Nothing, all, a few, about half, or just what is not in the class; and of the ids that no set has, some
//  too.
static void
s_make_available (fixture_t *self, uint64_t *random)
{
    uint64_t kind = test_below (random, 5);
    self->available = roaring_bitmap_create ();
    for (uint32_t id = 0; kind > 0 && id < self->universe; id += self->padding) {
        bool member = roaring_bitmap_contains (self->members, id);
        if (kind == 1 || (kind == 2 && test_below (random, 100) == 0)
                || (kind == 3 && test_below (random, 2) == 0) || (kind == 4 && !member))
            roaring_bitmap_add (self->available, id);
        if (self->padding > 1 && test_below (random, 4) == 0)
            roaring_bitmap_add (self->available, id + 1);
    }
}

static void
s_free (fixture_t *self)
{
    for (size_t set = 0; set < SETS; set++)
        roaring_bitmap_free (self->sets [set]);
    roaring_bitmap_free (self->members);
    roaring_bitmap_free (self->available);
}

//  The z of many picks; fails at once at an id that must not come.
static double
s_try (const fixture_t *self, random_t *random, const roaring_bitmap_t *available, uint64_t seed)
{
    roaring_bitmap_t *wanted = available? roaring_bitmap_and (self->members, available):
        roaring_bitmap_copy (self->members);
    if (roaring_bitmap_is_empty (wanted))
        roaring_bitmap_or_inplace (wanted, self->members);
    uint64_t cells = roaring_bitmap_get_cardinality (wanted);
    uint64_t *counts = calloc (cells, sizeof *counts);
    for (int pick = 0; pick < PICKS; pick++) {
        uint32_t id = choice_pick (&self->choice, random, available);
        if (!roaring_bitmap_contains (wanted, id))
            fail_msg ("seed %" PRIu64 ": picked %u, outside", seed, id);
        counts [roaring_bitmap_rank (wanted, id) - 1]++;
    }
    double z = 0;
    if (cells > 1 && cells < PICKS / 10)
        z = statistics_z_of_chi_square (statistics_chi_square_even (counts, cells), (double) cells - 1);
    free (counts);
    roaring_bitmap_free (wanted);
    return z;
}

static void
test_pick_is_uniform_over_the_class_and_what_is_available (void **state)
{
    (void) state;
    const double limit = statistics_z_limit (2 * CASES);
    for (uint64_t seed = test_seed (), n = 0; n < CASES; n++, seed++) {
        uint64_t model = seed;
        random_t random = random_from_seed (seed);
        fixture_t self = { 0 };
        s_make (&self, &model);
        s_collect (&self);
        s_make_available (&self, &model);
        if (self.choice.size > 0) {
            double z = s_try (&self, &random, NULL, seed);
            double z_available = s_try (&self, &random, self.available, seed);
            if (fabs (z) > limit || fabs (z_available) > limit)
                fail_msg ("seed %" PRIu64 ": z = %f, available %f", seed, z, z_available);
        }
        s_free (&self);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_pick_is_uniform_over_the_class_and_what_is_available),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
