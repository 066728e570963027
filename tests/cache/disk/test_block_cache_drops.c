//  A unit that one server drops while another reads or stores it: it is here with the right bytes, or not
//  here, and never taken for damaged.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "block_data.h"
#include "pattern.h"
#include "scratch.h"

enum { UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 10, BYTES = UNITS * UNIT, ERROR_BYTES = 600 };

//  Two servers of one folder.
typedef struct {
    scratch_folder_t scratch;
    block_cache_t *caches [2];
    block_data_t *data [2];
} world_t;

static uint8_t s_truth [BYTES], s_memory [BYTES];

//  Its fourth unit is dropped before the next read of units; NULL: nothing happens.
static block_data_t *s_dropped;
static bool s_is_stored_again;          //  behind that read
//  The fourth unit is stored into it when the next hole is punched.
static block_data_t *s_storer;

ssize_t __real_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset);
int __real_fallocate (int descriptor, int mode, off_t offset, off_t bytes);
int __wrap_fallocate (int descriptor, int mode, off_t offset, off_t bytes);

static void
s_store_fourth (block_data_t *data)
{
    block_data_store (data, 3 * UNIT, UNIT, s_truth + 3 * UNIT, false);
}

ssize_t
__wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset)
{
    block_data_t *data = bytes >= UNIT? s_dropped: NULL;
    if (data) {
        s_dropped = NULL;
        block_data_drop (data, 3 * UNIT, UNIT);
    }
    ssize_t count = __real_pread (descriptor, memory, bytes, offset);
    if (data && s_is_stored_again)
        s_store_fourth (data);
    return count;
}

int
__wrap_fallocate (int descriptor, int mode, off_t offset, off_t bytes)
{
    block_data_t *storer = mode & FALLOC_FL_PUNCH_HOLE? s_storer: NULL;
    if (storer) {
        s_storer = NULL;
        s_store_fourth (storer);
    }
    return __real_fallocate (descriptor, mode, offset, bytes);
}

static int
s_begin (void **state)
{
    static world_t world;
    char folder [80], error [ERROR_BYTES];
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    if (!scratch_begin (&world.scratch))
        return -1;
    snprintf (folder, sizeof folder, "%s/cache", world.scratch.path);
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "https://host/1", "\"1\"", BYTES);
    for (size_t server = 0; server < 2; server++) {
        if (block_cache_open (&world.caches [server], folder, 8 << 20, error, sizeof error))
            fail_msg ("%s", error);
        assert_int_equal (block_data_open (&world.data [server], world.caches [server], &key, BYTES), 0);
    }
    block_data_store (world.data [0], 0, BYTES, s_truth, false);
    s_is_stored_again = false;
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    for (size_t server = 0; server < 2; server++) {
        block_data_close (&world->data [server]);
        block_cache_close (&world->caches [server]);
    }
    return scratch_end (&world->scratch)? 0: -1;
}

//  Whatever is said to be here is right, and nothing was taken for damaged.
static block_data_gap_t
s_read (const world_t *world)
{
    memset (s_memory, 0xee, sizeof s_memory);
    block_data_gap_t gap = block_data_read (world->data [0], 0, BYTES, s_memory);
    assert_true (gap.begin <= gap.end && gap.end <= BYTES);
    assert_memory_equal (s_memory, s_truth, gap.begin);
    assert_memory_equal (s_memory + gap.end, s_truth + gap.end, BYTES - gap.end);
    assert_int_equal (block_cache_figures (world->caches [0]).damaged, 0);
    return gap;
}

static void
s_assert_fourth_is_missing (const world_t *world)
{
    block_data_gap_t gap = s_read (world);
    assert_int_equal (gap.begin, 3 * UNIT);
    assert_int_equal (gap.end, 4 * UNIT);
}

//  Guards: a unit that another server drops while it is read is not here, and no damage.
static void
test_dropped_while_it_is_read (void **state)
{
    const world_t *world = *state;
    uint32_t sums [UNITS];
    s_dropped = world->data [1];
    s_assert_fourth_is_missing (world);
    s_store_fourth (world->data [0]);
    assert_true (block_data_lend (world->data [0], 0, BYTES, s_memory, sums));
    s_dropped = world->data [1];
    assert_false (block_data_lend (world->data [0], 0, BYTES, s_memory, sums));
    assert_null (s_dropped);
}

//  Guards: stored again before the read looks once more, it is here.
static void
test_stored_again_while_it_is_read (void **state)
{
    const world_t *world = *state;
    s_dropped = world->data [1];
    s_is_stored_again = true;
    assert_int_equal (s_read (world).begin, BYTES);
    assert_null (s_dropped);
}

//  Guards: a drop is one step: what another server stores meanwhile does not become a checksum over a hole.
static void
test_stored_while_it_is_dropped (void **state)
{
    const world_t *world = *state;
    s_storer = world->data [1];
    block_data_drop (world->data [0], 3 * UNIT, UNIT);
    assert_null (s_storer);
    s_assert_fourth_is_missing (world);
    s_store_fourth (world->data [1]);
    assert_int_equal (s_read (world).begin, BYTES);
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_dropped_while_it_is_read),
        CASE (test_stored_again_while_it_is_read),
        CASE (test_stored_while_it_is_dropped)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
