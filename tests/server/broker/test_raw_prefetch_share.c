//  How memory is divided among tiers: all of what there is, and no more; no tier gets more than its data or
//  less than its least.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "broker.h"
#include "seed.h"
#include "raw_prefetch.h"

enum { PACKS = 6, MB = 1000000 };

//  Packs of a broker that knows nothing else, and the tiers on them.
typedef struct {
    broker_t broker;
    dataset_t datasets [PACKS];
    raw_prefetch_t prefetches [PACKS];
    raw_prefetch_division_t division;
} world_t;

static void
s_add (world_t *self, uint64_t bytes, size_t largest, raw_policy_t policy, size_t tiers)
{
    size_t number = self->broker.dataset_count++;
    self->prefetches [number] = (raw_prefetch_t) { .bytes = bytes, .sample_bytes_max = largest,
        .given = { .policy = policy, .chunk = 64 } };
    self->datasets [number].prefetch = &self->prefetches [number];
    self->datasets [number].number = (uint32_t) number;
    self->broker.datasets [number] = self->broker.places [number] = &self->datasets [number];
    self->division.tiers [number] = tiers;
}

static size_t
s_part (const world_t *self, size_t number)
{
    return raw_prefetch_division_part (&self->division, &self->datasets [number]);
}

static void
s_settle (world_t *self, size_t bytes, size_t least)
{
    self->division.bytes = bytes;
    self->division.least = least;
    raw_prefetch_division_settle (&self->division, &self->broker);
}

//  A small pack has what it takes, and a large one the rest; the one that took half of all before.
static void
test_a_small_pack_has_no_more_than_it_takes (void **state)
{
    (void) state;
    world_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    s_add (self, 100 * MB, 200000, RAW_STREAM, 1);
    s_add (self, (uint64_t) 500000 * MB, 200000, RAW_STREAM, 1);
    s_settle (self, (size_t) 8000 * MB, 0);
    assert_int_equal (s_part (self, 0), 100 * MB);
    assert_in_range (s_part (self, 1), (size_t) 7899 * MB, (size_t) 7900 * MB);
    free (self);
}

//  What is left is divided by size, but for a quarter: 1/8 + 3/4 x 1/11 of all, and 1/8 + 3/4 x 10/11.
static void
test_large_packs_divide_by_size (void **state)
{
    (void) state;
    world_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    s_add (self, (uint64_t) 50000 * MB, 200000, RAW_STREAM, 1);
    s_add (self, (uint64_t) 500000 * MB, 200000, RAW_STREAM, 1);
    s_settle (self, (size_t) 8800 * MB, 0);
    assert_in_range (s_part (self, 0), 1699u * MB, 1700u * MB);
    assert_in_range (s_part (self, 1), (size_t) 7099 * MB, (size_t) 7100 * MB);
    //  Where there are tenants each has a part that depends on no other.
    s_settle (self, (size_t) 8800 * MB, (size_t) 2000 * MB);
    assert_int_equal (s_part (self, 0), (size_t) 2000 * MB);
    assert_in_range (s_part (self, 1), (size_t) 6799 * MB, (size_t) 6800 * MB);
    free (self);
}

//  Equal tiers, as a group and two private jobs on one pack, have equal parts; and all they need, if there is
//  so much.
static void
test_equal_tiers_have_equal_parts (void **state)
{
    (void) state;
    world_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    s_add (self, 9000 * (uint64_t) MB, 200000, RAW_STREAM, 3);
    s_settle (self, (size_t) 3000 * MB, 0);
    assert_in_range (s_part (self, 0), (size_t) 999 * MB, (size_t) 1000 * MB);
    s_settle (self, (size_t) 30000 * MB, 0);
    assert_int_equal (s_part (self, 0), (size_t) 9000 * MB);
    free (self);
}

//  Property: over random packs, tiers and memory, from the least that is admitted on.
static void
test_parts_are_within_their_bounds (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    for (int round = 0; round < 3000; round++) {
        world_t *self = calloc (1, sizeof *self);
        size_t all = 0, needed = 0, wanted = 0;
        assert_non_null (self);
        for (size_t count = 1 + (size_t) test_below (&random, PACKS); count > 0; count--) {
            size_t largest = 1 + (size_t) test_below (&random, 100000),
                tiers = (size_t) test_below (&random, 4);
            raw_policy_t policy = test_below (&random, 3)? RAW_STREAM: RAW_REDOX;
            s_add (self, largest + test_below (&random, UINT64_C (1) << test_below (&random, 40)), largest,
                policy, tiers);
            size_t least = raw_prefetch_tier_least (&self->datasets [self->broker.dataset_count - 1]);
            needed += tiers * least;
            wanted += tiers * (self->prefetches [self->broker.dataset_count - 1].bytes + least);
        }
        size_t bytes = needed + (size_t) test_below (&random, 1 + wanted / (1 + test_below (&random, 20)));
        s_settle (self, bytes, 0);
        bool is_short = false;
        for (size_t number = 0; number < self->broker.dataset_count; number++) {
            const raw_prefetch_t *prefetch = &self->prefetches [number];
            size_t part = s_part (self, number), least = raw_prefetch_tier_least (&self->datasets [number]);
            if (self->division.tiers [number] == 0)
                continue;
            assert_true (part >= least);
            assert_true (part <= prefetch->bytes + prefetch->sample_bytes_max || part == least);
            is_short |= part < prefetch->bytes;
            all += self->division.tiers [number] * part;
        }
        assert_true (all <= bytes);
        //  Nothing is left while a tier could use it, except for what dividing leaves: a byte and some
        //  rounding each.
        if (is_short && bytes - all > 100 + bytes / 1000000)
            fail_msg ("%zu of %zu bytes are left", bytes - all, bytes);
        free (self);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_a_small_pack_has_no_more_than_it_takes),
        cmocka_unit_test (test_large_packs_divide_by_size),
        cmocka_unit_test (test_equal_tiers_have_equal_parts),
        cmocka_unit_test (test_parts_are_within_their_bounds)
    };
    return cmocka_run_group_tests_name ("supply_share", tests, NULL, NULL);
}
