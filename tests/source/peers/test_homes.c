/*  Guards: homes of blocks are those of a plain model, whatever the order of the list; they keep to the
 *  weights; and a change of members moves no block that it need not move.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "effort.h"
#include "homes.h"
#include "seed.h"

enum { MEMBERS_MAX = 60, BLOCKS = 20000 };

//  ---- the model: the header's words

static uint64_t
s_mix (uint64_t mixed)
{
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static long double
s_clock (const homes_member_t *member, uint64_t block)
{
    uint64_t u = s_mix (s_mix (block) ^ s_mix (~member->id));
    return (64 - log2l ((long double) (u? u: 1))) / (long double) member->weight;
}

static size_t
s_model (const homes_member_t *members, size_t count, uint64_t block)
{
    size_t home = HOMES_NONE;
    for (size_t at = 0; at < count; at++)
        if (members [at].weight > 0
            && (home == HOMES_NONE || s_clock (&members [at], block) < s_clock (&members [home], block)))
            home = at;
    return home;
}

//  Weights of one size, of few sizes, or of any; ids close together or far apart.
static size_t
s_make (homes_member_t members [MEMBERS_MAX], uint64_t *random)
{
    size_t count = test_below (random, MEMBERS_MAX + 1);
    uint64_t kind = test_below (random, 4), spread = test_below (random, 2)? 1: 0x123456789abcdefu;
    for (size_t at = 0; at < count; at++)
        members [at] = (homes_member_t) {
            .id = at * spread,
            .weight = kind == 0? 1: kind == 1? test_below (random, 3) << 40:
                kind == 2? test_below (random, UINT64_MAX): UINT64_C (1) << test_below (random, 64)
        };
    return count;
}

static void
test_homes_are_the_models (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (2000); round++) {
        uint64_t seed = random;
        homes_member_t members [MEMBERS_MAX];
        size_t count = s_make (members, &random);
        homes_t *homes = homes_new (members, count);
        for (uint64_t block = 0; block < 50; block++) {
            size_t home = homes_of (homes, block), model = s_model (members, count, block);
            if (home != model)
                fail_msg ("seed %" PRIu64 ": block %" PRIu64 " of %zu members: %zu in place of %zu", seed,
                    block, count, home, model);
            for (size_t at = 0; home < count && at < count; at++)      //  else no member has a weight
                if (at != home)
                    assert_true (homes_prefers (&members [home], &members [at], block)
                        || members [at].weight == 0);
        }
        homes_destroy (&homes);
        assert_null (homes);
    }
}

static void
test_the_order_of_the_list_does_not_matter (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    homes_member_t members [MEMBERS_MAX], turned [MEMBERS_MAX];
    size_t count = 0;
    while (count < 3)
        count = s_make (members, &random);
    for (size_t at = 0; at < count; at++)
        turned [count - 1 - at] = members [at];
    homes_t *homes = homes_new (members, count), *other = homes_new (turned, count);
    for (uint64_t block = 0; block < BLOCKS; block++) {
        size_t home = homes_of (homes, block), same = homes_of (other, block);
        assert_true (home == HOMES_NONE? same == HOMES_NONE: home == count - 1 - same);
    }
    homes_destroy (&homes);
    homes_destroy (&other);
}

//  ---- shares

static void
s_count (const homes_member_t *members, size_t count, uint64_t blocks, double *counts)
{
    homes_t *homes = homes_new (members, count);
    for (uint64_t block = 0; block < blocks; block++)
        counts [homes_of (homes, block)]++;
    homes_destroy (&homes);
}

//  Each member's count is binomial: the largest of ten deviations stays below 4.5.
static void
test_shares_are_the_weights (void **state)
{
    (void) state;
    enum { MEMBERS = 10, MANY = 200000 };
    homes_member_t members [MEMBERS];
    double counts [MEMBERS] = { 0 }, all = 0;
    for (size_t at = 0; at < MEMBERS; at++) {
        members [at] = (homes_member_t) { .id = test_seed () + at, .weight = (1 + at * at) << 30 };
        all += (double) members [at].weight;
    }
    s_count (members, MEMBERS, MANY, counts);
    for (size_t at = 0; at < MEMBERS; at++) {
        double share = (double) members [at].weight / all;
        double z = (counts [at] - share * MANY) / sqrt (share * (1 - share) * MANY);
        if (fabs (z) > 4.5)
            fail_msg ("member %zu: %.0f of %d blocks, expected %.0f", at, counts [at], MANY, share * MANY);
    }
}

//  ---- changes

//  A member goes: its blocks spread over the others by weight, and no other block moves.
static void
test_a_member_that_goes_moves_its_blocks_alone (void **state)
{
    (void) state;
    enum { MEMBERS = 8, GONE = 3 };
    homes_member_t members [MEMBERS], rest [MEMBERS - 1];
    double to [MEMBERS] = { 0 }, moved = 0;
    for (size_t at = 0; at < MEMBERS; at++)
        members [at] = (homes_member_t) { .id = at, .weight = at % 2? 2: 1 };
    for (size_t at = 0; at < MEMBERS - 1; at++)
        rest [at] = members [at + (at >= GONE)];
    homes_t *before = homes_new (members, MEMBERS), *after = homes_new (rest, MEMBERS - 1);
    for (uint64_t block = 0; block < BLOCKS * 5; block++) {
        size_t home = homes_of (before, block), next = homes_of (after, block);
        next += next >= GONE;
        if (home != GONE)
            assert_int_equal (next, home);
        else {
            to [next]++;
            moved++;
        }
    }
    for (size_t at = 0; at < MEMBERS; at++) {
        double share = at == GONE? 0: at % 2? .2: .1;
        assert_true (fabs (to [at] - share * moved) < 4.5 * sqrt (share * (1 - share) * moved) + 1e-9);
    }
    homes_destroy (&before);
    homes_destroy (&after);
}

//  A member's weight grows: blocks move to it alone, and homes_prefers says which.
static void
test_a_member_that_grows_gets_blocks_alone (void **state)
{
    (void) state;
    enum { MEMBERS = 8, GROWN = 5 };
    homes_member_t members [MEMBERS];
    for (size_t at = 0; at < MEMBERS; at++)
        members [at] = (homes_member_t) { .id = at, .weight = at == GROWN? 0: 1000 };
    for (uint64_t weight = 1; weight < 100000; weight *= 10) {
        homes_t *before = homes_new (members, MEMBERS);
        members [GROWN].weight = weight;
        homes_t *after = homes_new (members, MEMBERS);
        size_t grown = 0;
        for (uint64_t block = 0; block < BLOCKS; block++) {
            size_t home = homes_of (before, block), next = homes_of (after, block);
            assert_true (next == home || next == GROWN);
            if (home != GROWN)
                assert_int_equal (next == GROWN, homes_prefers (&members [GROWN], &members [home], block));
            grown += next == GROWN;
        }
        double share = (double) weight / (double) (weight + 7000);
        assert_true (fabs ((double) grown - share * BLOCKS) < 4.5 * sqrt (share * (1 - share) * BLOCKS) + 1);
        homes_destroy (&before);
        homes_destroy (&after);
    }
}

//  ---- for ever

//  FNV-1a of homes: a change moves the blocks of every cluster that is running.
static void
test_homes_stay_for_ever (void **state)
{
    (void) state;
    enum { MEMBERS = 12 };
    homes_member_t members [MEMBERS];
    for (size_t at = 0; at < MEMBERS; at++)
        members [at] = (homes_member_t) { .id = at * at, .weight = UINT64_C (100000000000) * (1 + at % 4) };
    homes_t *homes = homes_new (members, MEMBERS);
    static const size_t first [12] = { 10, 3, 7, 11, 11, 3, 0, 7, 11, 6, 2, 1 };
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint64_t block = 0; block < BLOCKS; block++)
        hash = (hash ^ homes_of (homes, block)) * 0x100000001b3u;
    for (size_t at = 0; at < sizeof first / sizeof *first; at++)
        assert_int_equal (homes_of (homes, at), first [at]);
    assert_true (hash == 0xed167044ca67fcdbu);
    homes_destroy (&homes);
}

static void
test_no_members (void **state)
{
    (void) state;
    homes_t *homes = homes_new (NULL, 0);
    assert_int_equal (homes_of (homes, 1), HOMES_NONE);
    homes_destroy (&homes);
    homes_destroy (&homes);
    homes_member_t none = { .id = 1 }, one = { .id = 2, .weight = 1 };
    homes = homes_new (&none, 1);
    assert_int_equal (homes_of (homes, 1), HOMES_NONE);
    homes_destroy (&homes);
    assert_true (homes_prefers (&one, &none, 1) && !homes_prefers (&none, &one, 1));
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_homes_are_the_models),
        cmocka_unit_test (test_the_order_of_the_list_does_not_matter),
        cmocka_unit_test (test_shares_are_the_weights),
        cmocka_unit_test (test_a_member_that_goes_moves_its_blocks_alone),
        cmocka_unit_test (test_a_member_that_grows_gets_blocks_alone),
        cmocka_unit_test (test_homes_stay_for_ever),
        cmocka_unit_test (test_no_members)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
