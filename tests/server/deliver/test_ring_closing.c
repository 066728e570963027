//  Rings of ended jobs, beside a list: which ring is emptied when there are too many.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "ring.h"
#include "scratch.h"
#include "seed.h"

enum { TENANTS = 3, STEPS = 3000, SLOT_BYTES = 4096 };

//  ---- the ring server

static struct {
    uint64_t keys [2];
    size_t count;
} s_forgotten;

void
ring_server_forget (ring_server_t *self, uint64_t key)
{
    assert_null (self);
    assert_true (s_forgotten.count < 2);
    s_forgotten.keys [s_forgotten.count++] = key;
}

//  ---- beside a list

//  Rings come in any order of their keys: a job that is older may end later.
static uint64_t
s_key (uint64_t step)
{
    return step * UINT64_C (0x9e3779b97f4a7c15);
}

typedef struct {
    struct { uint64_t key; uint32_t tenant; size_t bytes; } rings [RING_CLOSING_MAX + 1];
    size_t count;
} table_t;

static void
s_take_out (table_t *table, size_t index)
{
    table->count--;
    memmove (&table->rings [index], &table->rings [index + 1],
        (table->count - index) * sizeof table->rings [0]);
}

static void
s_keep (ring_closing_t *closing_rings, table_t *table, uint64_t key, uint32_t tenant, size_t rings_max,
    uint32_t slots)
{
    ring_t *ring;
    assert_int_equal (ring_new (&ring, slots, SLOT_BYTES), 0);
    size_t bytes = ring_bytes (ring), own = 0, first = table->count;
    for (size_t index = table->count; index-- > 0;)
        if (table->rings [index].tenant == tenant) {
            own++;
            first = index;
        }
    bool is_full = own >= rings_max;
    uint64_t expected = is_full? table->rings [first].key: 0;
    s_forgotten.count = 0;
    ring_closing_keep (closing_rings, NULL, key, tenant, rings_max, &ring);
    assert_null (ring);
    assert_int_equal (s_forgotten.count, is_full);
    if (is_full) {
        assert_int_equal (s_forgotten.keys [0], expected);
        s_take_out (table, first);
    }
    table->rings [table->count].key = key;
    table->rings [table->count].tenant = tenant;
    table->rings [table->count++].bytes = bytes;
}

//  Property: a tenant with as many rings as it may have loses its own oldest ring and no other tenant's;
//  bytes count for their own tenant; what has gone holds nothing.
static void
each_loses_its_own (void **state)
{
    (void) state;
    uint64_t random = test_seed ();
    size_t descriptors = scratch_descriptors ();
    ring_closing_t closing_rings = { .count = 0 };
    table_t table = { .count = 0 };
    const size_t rings_max [TENANTS] = { 1, 20, 43 };
    for (uint64_t step = 1; step <= STEPS; step++) {
        if (test_below (&random, 3) || table.count == 0) {
            uint32_t tenant = (uint32_t) test_below (&random, TENANTS);
            s_keep (&closing_rings, &table, s_key (step), tenant, rings_max [tenant],
                1 + (uint32_t) test_below (&random, 3));
        }
        else {
            size_t index = test_below (&random, table.count);
            bool is_known = test_below (&random, 8);
            uint64_t key = is_known? table.rings [index].key: s_key (STEPS + step);
            ring_closing_end (&closing_rings, key);
            if (is_known)
                s_take_out (&table, index);
            ring_closing_end (&closing_rings, key);        //  not known any more
        }
        assert_int_equal (closing_rings.count, table.count);
        assert_int_equal (scratch_descriptors (), descriptors + table.count);
        for (uint32_t tenant = 0; tenant < TENANTS; tenant++) {
            size_t bytes = 0;
            for (size_t index = 0; index < table.count; index++)
                bytes += table.rings [index].tenant == tenant? table.rings [index].bytes: 0;
            assert_int_equal (ring_closing_bytes (&closing_rings, tenant), bytes);
        }
    }
    ring_closing_leave (&closing_rings);
    assert_int_equal (closing_rings.count, 0);
    assert_int_equal (scratch_descriptors (), descriptors);
}

int
main (void)
{
    printf ("TEST_SEED=%llu\n", (unsigned long long) test_seed ());
    const struct CMUnitTest tests [] = { cmocka_unit_test (each_loses_its_own) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
