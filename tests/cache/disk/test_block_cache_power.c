//  The cache on the local disk, and the loss of power: nothing is made durable, so the disk may have kept
//  anything.  What is said to be here is right, and the cache is not larger than its bound.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "block_data.h"
#include "effort.h"
#include "pattern.h"
#include "power_calls.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 60, BYTES = UNITS * UNIT - 1000, BOUND = 1 << 20 };

static uint8_t s_truth [UNITS * UNIT], s_memory [UNIT];


//  -- what is stored, and what is read

static int
s_begin (void **state)
{
    static scratch_folder_t scratch;
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    *state = &scratch;
    return scratch_begin (&scratch)? 0: -1;
}

static int
s_end (void **state)
{
    return scratch_end (*state)? 0: -1;
}

static void
s_open (const char *folder, block_cache_t **cache_p, block_data_t **data_p)
{
    char error [600];
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "https://host/a", "\"1\"", BYTES);
    if (block_cache_open (cache_p, folder, BOUND, error, sizeof error))
        fail_msg ("%s", error);
    assert_int_equal (block_data_open (data_p, *cache_p, &key, BYTES), 0);
}

//  How many units are here, all of which are right.
static size_t
s_read (block_data_t *data)
{
    size_t here = 0;
    for (uint64_t unit = 0; unit < UNITS; unit++) {
        size_t bytes = unit + 1 < UNITS? UNIT: BYTES - unit * UNIT;
        block_data_gap_t gap = block_data_read (data, unit * UNIT, bytes, s_memory);
        bool is_here = gap.begin == gap.end;
        if (is_here)
            assert_memory_equal (s_memory, s_truth + unit * UNIT, bytes);
        here += is_here;
    }
    return here;
}

static void
s_store (block_data_t *data, uint64_t *random)
{
    uint64_t first = test_below (random, UNITS), end = first + 1 + test_below (random, UNITS - first);
    size_t bytes = (size_t) ((end == UNITS? BYTES: end * UNIT) - first * UNIT);
    block_data_store (data, first * UNIT, bytes, s_truth + first * UNIT, test_below (random, 4) == 0);
}

//  Guards: whatever the disk has kept, and whatever is done with it: stores, drops, a second server.
static void
test_power_lost_at_any_step (void **state)
{
    const scratch_folder_t *scratch = *state;
    uint64_t seed = test_seed (), random = seed, here = 0, damaged = 0;
    char folder [100], lost [100];
    snprintf (folder, sizeof folder, "%s/cache", scratch->path);
    snprintf (lost, sizeof lost, "%s/lost", scratch->path);
    assert_int_equal (mkdir (folder, 0700), 0);
    power_record (folder);
    block_cache_t *cache;
    block_data_t *data;
    s_open (folder, &cache, &data);
    for (unsigned int turn = 0; turn < 12; turn++) {
        s_store (data, &random);
        if (turn % 4 == 3)
            block_data_drop (data, 0, BYTES);
    }
    block_data_close (&data);
    block_cache_close (&cache);
    size_t all = power_stop ();
    for (unsigned int turn = 0; turn < EFFORT (600); turn++) {
        size_t steps = test_below (&random, all + 1);
        power_lose (lost, steps, turn % 8 == 0? POWER_NONE_LOST: POWER_SOME_LOST, &random);
        s_open (lost, &cache, &data);
        here += s_read (data);
        block_cache_figures_t figures = block_cache_figures (cache);
        damaged += figures.damaged;
        if (figures.failure || figures.bytes > BOUND)
            fail_msg ("seed %" PRIu64 ", turn %u, power lost behind %zu steps: failure %d, %" PRIu64 " bytes",
                seed, turn, steps, figures.failure, figures.bytes);
        block_data_store (data, 0, BYTES, s_truth, true);
        assert_int_equal (s_read (data), UNITS);
        block_data_close (&data);
        block_cache_close (&cache);
        power_remove (lost);
    }
    //  The test sees both: what the disk has kept, and what it has lost.
    assert_true (here > 0);
    assert_true (damaged > 0);
    print_message ("%zu steps, %" PRIu64 " units here, %" PRIu64 " places damaged\n", all, here, damaged);
    power_forget ();
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_power_lost_at_any_step, s_begin, s_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
