//  A local disk that hangs, or answers late: those that use the cache go on without it, and use it again when
//  it answers; what the disk gives them later changes nothing of theirs.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "block_cache_state.h"
#include "block_data.h"
#include "clock.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 300, BYTES = UNITS * UNIT - 1000, ERROR_BYTES = 600,
    CALLERS = 12,                       //  more than the cache has threads
    QUICK_MS = 1, SHORT_MS = 4, LONG_MS = 40,               //  slices
    LATE_MS = 7,                        //  nearly two SHORT_MS
    LOCKED_MS = 3 * LONG_MS
};

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
} world_t;

static uint8_t s_truth [UNITS * UNIT];

//  The disk.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs;
} s_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __real_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset);

static void
s_pause (unsigned milliseconds)
{
    nanosleep (&(struct timespec) { .tv_nsec = milliseconds * 1000000L }, NULL);
}

static void
s_ask_disk (void)
{
    pthread_mutex_lock (&s_disk.lock);
    while (s_disk.hangs)
        pthread_cond_wait (&s_disk.changed, &s_disk.lock);
    pthread_mutex_unlock (&s_disk.lock);
}

static void
s_set_hanging (bool hangs)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.hangs = hangs;
    pthread_cond_broadcast (&s_disk.changed);
    pthread_mutex_unlock (&s_disk.lock);
}

ssize_t
__wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset)
{
    s_ask_disk ();
    return __real_pread (descriptor, memory, bytes, offset);
}

ssize_t
__wrap_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset)
{
    s_ask_disk ();
    return __real_pwrite (descriptor, memory, bytes, offset);
}


//  -- what the tests share

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
    if (block_cache_open (&world.cache, folder, 32 << 20, error, sizeof error))
        fail_msg ("%s", error);
    assert_int_equal (block_cache_start_threads (world.cache), 0);
    assert_int_equal (block_data_open (&world.data, world.cache, &key, BYTES), 0);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    return scratch_end (&world->scratch)? 0: -1;
}

static bool
s_is_aside (const world_t *world)
{
    return block_cache_figures (world->cache).is_aside;
}

//  The disk answers again, and is trusted again.
static void
s_mend (const world_t *world)
{
    s_set_hanging (false);
    block_io_settle (world->cache->io);
    while (s_is_aside (world))
        s_pause (1);
    block_io_set_slice (world->cache->io, BLOCK_IO_SLICE_MS);
}

static void
s_store (const world_t *world)
{
    block_data_store (world->data, 0, BYTES, s_truth, false);
}

//  Whatever is said to be here is right.
static block_data_gap_t
s_read (const world_t *world, uint8_t *memory, size_t first, size_t units)
{
    size_t bytes = first + units == UNITS? BYTES - first * UNIT: units * UNIT;
    memset (memory, 0xee, bytes);
    block_data_gap_t gap = block_data_read (world->data, first * UNIT, bytes, memory);
    const uint8_t *truth = s_truth + first * UNIT;
    assert_true (gap.begin <= gap.end && gap.end <= bytes);
    assert_memory_equal (memory, truth, gap.begin);
    assert_memory_equal (memory + gap.end, truth + gap.end, bytes - gap.end);
    return gap;
}

static void
s_assert_all_here (const world_t *world)
{
    static uint8_t memory [UNITS * UNIT];
    assert_int_equal (s_read (world, memory, 0, UNITS).begin, BYTES);
}


//  -- the tests

static void *
s_store_in_thread (void *argument)
{
    s_store (argument);
    return NULL;
}

//  Guards: a write that hangs, under the cache's lock, holds up those that store, read, lend, drop or look at
//  figures for the patience at most, and not at all when it was waited for once.
static void
test_a_write_hangs (void **state)
{
    world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    static uint32_t sums [UNITS];
    pthread_t callers [CALLERS];
    block_data_store (world->data, 0, 200 * UNIT, s_truth, false);
    uint64_t bytes = block_cache_figures (world->cache).bytes;
    s_set_hanging (true);
    block_io_set_slice (world->cache->io, QUICK_MS);
    for (size_t at = 0; at < CALLERS; at++)
        assert_int_equal (pthread_create (&callers [at], NULL, s_store_in_thread, world), 0);
    for (size_t at = 0; at < CALLERS; at++)
        pthread_join (callers [at], NULL);
    block_io_set_slice (world->cache->io, 1000 * BLOCK_IO_SLICE_MS);       //  a wait now would not end
    block_cache_figures_t figures = block_cache_figures (world->cache);
    assert_true (figures.is_aside && figures.times_aside == 1 && figures.failure == 0);
    assert_true (figures.bytes >= bytes);
    assert_true (block_data_is_aside (world->data) && !block_data_is_full (world->data));
    s_store (world);
    assert_int_equal (s_read (world, memory, 0, UNITS).begin, 0);
    assert_false (block_data_lend (world->data, 0, 200 * UNIT, memory, sums));
    assert_false (block_data_has_some (world->data, 0, BYTES));
    block_data_drop (world->data, 0, BYTES);
    s_mend (world);
    assert_false (block_data_is_aside (world->data));
    s_store (world);
    s_assert_all_here (world);
    assert_true (block_data_lend (world->data, 0, BYTES, memory, sums));
    assert_memory_equal (memory, s_truth, BYTES);
    block_data_drop (world->data, 0, BYTES);
    assert_false (block_data_has_some (world->data, 0, BYTES));
}

//  Guards: what a read brings for a caller that has gone on does not come into its memory.
static void
test_a_read_hangs (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [UNITS * UNIT], before [UNITS * UNIT];
    s_store (world);
    s_set_hanging (true);
    block_io_set_slice (world->cache->io, QUICK_MS);
    block_data_gap_t gap = s_read (world, memory, 0, UNITS);
    assert_true (gap.begin == 0 && gap.end == BYTES);
    assert_true (s_is_aside (world));
    memcpy (before, memory, BYTES);
    s_mend (world);
    assert_memory_equal (memory, before, BYTES);
    s_assert_all_here (world);
}

static void
s_be_late (block_io_request_t *request)
{
    (void) request;
    s_pause (LATE_MS);
}

//  Guards: a disk of which every answer is late, by less than two slices, costs about a quarter of the time.
static void
test_answers_are_late (void **state)
{
    const world_t *world = *state;
    block_io_set_slice (world->cache->io, SHORT_MS);
    int64_t began_ms = clock_now_ms (), lost_ms = 0;
    for (block_io_request_t late = { .work = s_be_late }; block_io_do (world->cache->io, &late);)
        lost_ms += LATE_MS;
    while (s_is_aside (world))
        s_pause (1);
    double share = (double) lost_ms / (double) (clock_now_ms () - began_ms);
    if (share > .36)
        fail_msg ("%.2f of the time was lost", share);
}

static void
s_wait_for_disk (block_io_request_t *request)
{
    (void) request;
    s_pause (LOCKED_MS);
}

static void
s_wait_for_lock (block_io_request_t *request)
{
    s_pause (LOCKED_MS);
    request->is_locked_out = true;
}

typedef struct {
    block_io_t *io;
    void (*work) (block_io_request_t *request);
} waiter_t;

static void *
s_wait_in_thread (void *argument)
{
    const waiter_t *self = argument;
    block_io_request_t request = { .work = self->work };
    block_io_do (self->io, &request);
    return NULL;
}

//  All threads at once.
static void
s_wait_for (const world_t *world, void (*work) (block_io_request_t *request))
{
    waiter_t waiter = { .io = world->cache->io, .work = work };
    pthread_t threads [BLOCK_IO_THREADS_MAX];
    for (size_t at = 0; at < BLOCK_IO_THREADS_MAX; at++)
        assert_int_equal (pthread_create (&threads [at], NULL, s_wait_in_thread, &waiter), 0);
    for (size_t at = 0; at < BLOCK_IO_THREADS_MAX; at++)
        pthread_join (threads [at], NULL);
}

//  Guards: a lock that another server holds is no disk that is late.
static void
test_a_lock_is_held (void **state)
{
    const world_t *world = *state;
    block_io_set_slice (world->cache->io, LONG_MS);
    for (size_t turn = 0; turn < 2; turn++)
        s_wait_for (world, s_wait_for_lock);
    assert_int_equal (block_io_times_aside (world->cache->io), 0);
    while (!s_is_aside (world))
        s_wait_for (world, s_wait_for_disk);
}

typedef struct {
    const world_t *world;
    uint64_t random;
} caller_t;

static void *
s_use (void *argument)
{
    caller_t *self = argument;
    static _Thread_local uint8_t memory [UNITS * UNIT];
    uint32_t sums [UNITS];
    block_data_t *data = self->world->data;
    for (unsigned turn = 0; turn < EFFORT (40); turn++) {
        size_t first = test_below (&self->random, UNITS),
            units = 1 + test_below (&self->random, UNITS - first),
            bytes = first + units == UNITS? BYTES - first * UNIT: units * UNIT;
        switch (test_below (&self->random, 5)) {
        case 0:
            block_data_drop (data, first * UNIT, bytes);
            break;
        case 1:
            if (block_data_lend (data, first * UNIT, bytes, memory, sums))
                assert_memory_equal (memory, s_truth + first * UNIT, bytes);
            break;
        case 2:
            s_read (self->world, memory, first, units);
            break;
        default:
            block_data_store (data, first * UNIT, bytes, s_truth + first * UNIT,
                test_below (&self->random, 2));
        }
    }
    return NULL;
}

//  Guards: whatever hangs when, what is said to be here is right, and the cache is whole at the end.
static void
test_any_hang (void **state)
{
    const world_t *world = *state;
    enum { USERS = 3 };
    pthread_t threads [USERS];
    caller_t callers [USERS];
    uint64_t random = test_seed ();
    block_io_set_slice (world->cache->io, QUICK_MS);
    for (size_t at = 0; at < USERS; at++) {
        callers [at] = (caller_t) { .world = world, .random = random + at };
        assert_int_equal (pthread_create (&threads [at], NULL, s_use, &callers [at]), 0);
    }
    for (size_t turn = 0; turn < EFFORT (20); turn++) {
        s_set_hanging (test_below (&random, 4) == 0);
        s_pause ((unsigned) test_below (&random, 20));
    }
    s_set_hanging (false);
    for (size_t at = 0; at < USERS; at++)
        pthread_join (threads [at], NULL);
    s_mend (world);
    s_store (world);
    s_assert_all_here (world);
    assert_int_equal (block_cache_figures (world->cache).damaged, 0);
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_a_write_hangs),
        CASE (test_a_read_hangs),
        CASE (test_answers_are_late),
        CASE (test_a_lock_is_held),
        CASE (test_any_hang)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
