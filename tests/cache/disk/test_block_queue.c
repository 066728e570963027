//  Reads of the local disk that are under way beside each other: the right bytes in whatever order the disk
//  gives them, as many at the disk at once as there are threads, and memory that is not touched by what comes
//  too late.  Time is the test's own.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "block_data.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 700, BYTES = UNITS * UNIT - 1000, ERROR_BYTES = 600,
    OWNER = 77, OWNED = 100,            //  units at the end, which have an owner
    FREE = UNITS - OWNED,               //  the others
    MANY = 12, LINE = 8, SLICE_MS = 1000000       //  real time does not count beside it
};

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
    block_queue_t *queue;
} world_t;

typedef struct {
    block_data_range_t range;
    uint8_t *memory, *before;
    bool is_out;
} item_t;

static uint8_t s_truth [UNITS * UNIT];
static uint64_t s_random;


//  -- the disk: reads of what is kept stand in a line while it is held, and pass one by one or all

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held;
    uint64_t came, passed;
} s_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __real_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);

//  Checksums are not held: a read stands in the line once.
ssize_t
__wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset)
{
    if (bytes >= UNIT / 2) {
        pthread_mutex_lock (&s_disk.lock);
        uint64_t place = s_disk.came++;
        pthread_cond_broadcast (&s_disk.changed);
        while (s_disk.is_held && place >= s_disk.passed)
            pthread_cond_wait (&s_disk.changed, &s_disk.lock);
        pthread_mutex_unlock (&s_disk.lock);
    }
    return __real_pread (descriptor, memory, bytes, offset);
}

//  Nothing lies in the page cache.
ssize_t
__wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (flags & RWF_NOWAIT) {
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv2 (descriptor, parts, count, offset, flags);
}

static void
s_hold (bool is_held)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.is_held = is_held;
    s_disk.passed = s_disk.came;
    pthread_cond_broadcast (&s_disk.changed);
    pthread_mutex_unlock (&s_disk.lock);
}

static void
s_let_one_pass (void)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.passed++;
    pthread_cond_broadcast (&s_disk.changed);
    pthread_mutex_unlock (&s_disk.lock);
}

static void
s_wait_for_readers (size_t count)
{
    pthread_mutex_lock (&s_disk.lock);
    while (s_disk.came - s_disk.passed < count)
        pthread_cond_wait (&s_disk.changed, &s_disk.lock);
    pthread_mutex_unlock (&s_disk.lock);
}


//  -- the clock

static atomic_llong s_ahead_ns;

int __real_clock_gettime (clockid_t clock, struct timespec *now);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);

int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    int rc = __real_clock_gettime (clock, now);
    int64_t ns = now->tv_nsec + (clock == CLOCK_MONOTONIC? atomic_load (&s_ahead_ns): 0);
    now->tv_sec += ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return rc;
}

static void
s_pass (double slices)
{
    atomic_fetch_add (&s_ahead_ns, (long long) (slices * SLICE_MS * 1e6));
}


//  -- the moment in which a read is left

//  The disk answers in that moment.
static bool s_answers_then;

bool __real_block_cache_threads_leave (block_cache_threads_t *self, block_cache_job_t *job, double slices);
bool __wrap_block_cache_threads_leave (block_cache_threads_t *self, block_cache_job_t *job, double slices);

bool
__wrap_block_cache_threads_leave (block_cache_threads_t *self, block_cache_job_t *job, double slices)
{
    bool is_left = __real_block_cache_threads_leave (self, job, slices);
    if (is_left && s_answers_then) {
        s_hold (false);
        block_cache_threads_settle (self);
    }
    return is_left;
}


//  -- what the tests share

static void
s_open (world_t *world)
{
    char folder [80], error [ERROR_BYTES];
    block_data_key_t key = { { 0, 0 } };
    block_cache_threads_t *threads = block_cache_threads_new ();
    assert_non_null (threads);
    block_cache_threads_set_slice (threads, SLICE_MS);
    snprintf (folder, sizeof folder, "%s/cache", world->scratch.path);
    block_data_key_add (&key, "https://host/1", "\"1\"", BYTES);
    if (block_cache_open_by (&world->cache, &threads, folder, 32 << 20, error, sizeof error))
        fail_msg ("%s", error);
    assert_int_equal (block_data_open (&world->data, world->cache, &key, BYTES), 0);
    world->queue = block_data_queue (world->data);
    assert_non_null (world->queue);
}

static int
s_begin (void **state)
{
    static world_t world;
    alarm (300);                        //  what hangs fails
    s_random = test_seed ();
    s_hold (false);
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    if (!scratch_begin (&world.scratch))
        return -1;
    s_open (&world);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    s_hold (false);                     //  a test that failed has not said so
    block_queue_destroy (&world->queue);
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
    s_hold (false);
    block_cache_threads_settle (block_cache_threads (world->cache));
    s_pass (1000);
    assert_false (s_is_aside (world));
}

static void
s_store_all (const world_t *world)
{
    block_data_store (world->data, 0, FREE * UNIT, s_truth, false);
    block_data_store_owned (world->data, OWNER, FREE * UNIT, BYTES - FREE * UNIT, s_truth + FREE * UNIT);
    assert_true (block_data_has (world->data, 0, BYTES));
}

static size_t
s_bytes (size_t first, size_t units)
{
    return first + units == UNITS? BYTES - first * UNIT: units * UNIT;
}

//  False: it has its answer.
static bool
s_ask (const world_t *world, item_t *item, size_t first, size_t units, uint64_t owner)
{
    size_t bytes = s_bytes (first, units);
    *item = (item_t) { .memory = malloc (bytes), .before = malloc (bytes) };
    assert_true (item->memory && item->before);
    memset (item->memory, 0xee, bytes);
    memset (item->before, 0xee, bytes);
    item->range = (block_data_range_t) { .data = world->data, .owner = owner, .offset = first * UNIT,
        .bytes = bytes, .memory = item->memory, .user = item };
    return item->is_out = block_data_begin (world->queue, &item->range);
}

//  Whatever is said to be here is right.
static void
s_check (const item_t *item)
{
    const block_data_range_t *range = &item->range;
    const block_data_gap_t *gap = &range->gap;
    const uint8_t *truth = s_truth + range->offset;
    assert_true (gap->begin <= gap->end && gap->end <= range->bytes);
    assert_memory_equal (range->memory, truth, gap->begin);
    assert_memory_equal (range->memory + gap->end, truth + gap->end, range->bytes - gap->end);
}

static void
s_free (item_t *item)
{
    free (item->memory);
    free (item->before);
    *item = (item_t) { .is_out = false };
}

//  One that has its answer; NULL: none.
static item_t *
s_take (const world_t *world)
{
    block_data_range_t *range = block_data_take (world->queue);
    item_t *item = range? range->user: NULL;
    if (item) {
        assert_true (item->is_out);
        item->is_out = false;
        s_check (item);
    }
    return item;
}

static item_t *
s_wait (const world_t *world)
{
    item_t *item;
    while (!(item = s_take (world))) {
        struct pollfd descriptor = { .fd = block_queue_descriptor (world->queue), .events = POLLIN };
        poll (&descriptor, 1, -1);
    }
    return item;
}


//  -- the tests

//  Guards: as many reads as are asked for are at the disk at the same time, and all are right.
static void
test_reads_are_at_the_disk_together (void **state)
{
    const world_t *world = *state;
    item_t items [MANY];
    s_store_all (world);
    s_hold (true);
    for (size_t at = 0; at < MANY; at++)
        assert_true (s_ask (world, &items [at], at * 40, 30, 0));
    s_wait_for_readers (MANY);
    assert_null (s_take (world));
    s_hold (false);
    for (size_t at = 0; at < MANY; at++) {
        const item_t *item = s_wait (world);
        assert_int_equal (item->range.gap.begin, item->range.bytes);
        assert_true (item->range.was_asked);
    }
    for (size_t at = 0; at < MANY; at++)
        s_free (&items [at]);
    assert_null (s_take (world));
}

//  What a read that waits finds.
static block_data_gap_t
s_expect (const world_t *world, const block_data_range_t *range)
{
    static uint8_t memory [UNITS * UNIT];
    if (!range->owner)
        return block_data_read (world->data, range->offset, range->bytes, memory);
    bool is_here = block_data_read_owned (world->data, range->owner, range->offset, range->bytes, memory);
    return (block_data_gap_t) { .begin = is_here? range->bytes: 0, .end = range->bytes };
}

//  Guards: reads beside each other find what reads one after the other find, whatever is here; of more than
//  the disk is asked for at once, too.
static void
test_they_find_what_is_here (void **state)
{
    const world_t *world = *state;
    print_message ("seed %" PRIu64 "\n", s_random);
    for (unsigned round = 0; round < EFFORT (40); round++) {
        item_t items [MANY];
        if (round % 4 == 0)
            s_store_all (world);
        for (uint64_t holes = test_below (&s_random, 6); holes > 0; holes--) {
            size_t first = test_below (&s_random, UNITS), units = 1 + test_below (&s_random, 20);
            units = units < UNITS - first? units: UNITS - first;
            block_data_drop (world->data, first * UNIT, s_bytes (first, units));
        }
        for (size_t at = 0; at < MANY; at++) {
            bool is_owned = test_below (&s_random, 3) == 0;
            size_t from = is_owned? FREE: 0, to = is_owned? UNITS: FREE,
                first = from + test_below (&s_random, to - from),
                units = 1 + test_below (&s_random, at == 0? to - first: (to - first + 9) / 10);
            s_ask (world, &items [at], first, units, is_owned? OWNER + (at == 5): 0);
        }
        for (size_t at = 0; at < MANY; at++) {
            while (items [at].is_out)
                s_wait (world);
            s_check (&items [at]);
            block_data_gap_t gap = s_expect (world, &items [at].range);
            assert_int_equal (items [at].range.gap.begin, gap.begin);
            assert_int_equal (items [at].range.gap.end, gap.end);
            s_free (&items [at]);
        }
        assert_null (s_take (world));
    }
    assert_int_equal (block_cache_figures (world->cache).damaged, 0);
}

//  Guards: reads that hang are given up after the patience, without an answer; what the disk gives later does
//  not come into their memory, and those behind them are answered at once.
static void
test_reads_hang (void **state)
{
    const world_t *world = *state;
    item_t items [MANY], other;
    s_store_all (world);
    s_hold (true);
    for (size_t at = 0; at < MANY; at++)
        assert_true (s_ask (world, &items [at], at * 40, 30, 0));
    s_wait_for_readers (MANY);
    for (size_t slice = 0; slice < BLOCK_CACHE_PATIENCE - 1; slice++) {
        s_pass (1.01);
        assert_null (s_take (world));
        assert_false (s_is_aside (world));
    }
    s_pass (1.01);
    for (size_t at = 0; at < MANY; at++) {
        const item_t *item = s_take (world);
        assert_non_null (item);
        assert_int_equal (item->range.gap.end - item->range.gap.begin, item->range.bytes);
    }
    assert_true (s_is_aside (world));
    assert_int_equal (block_cache_figures (world->cache).times_aside, 1);
    assert_false (s_ask (world, &other, 3, 7, 0));
    assert_int_equal (other.range.gap.end - other.range.gap.begin, other.range.bytes);
    s_free (&other);
    s_mend (world);
    assert_null (s_take (world));
    for (size_t at = 0; at < MANY; at++) {
        assert_memory_equal (items [at].memory, items [at].before, items [at].range.bytes);
        s_free (&items [at]);
    }
    assert_true (s_ask (world, &other, 3, 7, 0));
    assert_ptr_equal (s_wait (world), &other);
    assert_int_equal (other.range.gap.begin, other.range.bytes);
    s_free (&other);
}

//  Guards: what has been left is its thread's, which frees it when the disk answers: that may be at once.
//  The others are answered.
static void
test_the_disk_answers_as_one_is_left (void **state)
{
    const world_t *world = *state;
    item_t items [MANY];
    size_t answered = 0;
    s_store_all (world);
    s_hold (true);
    assert_true (s_ask (world, &items [0], 0, 30, 0));
    s_pass (1.01);                      //  the others are not overdue yet when this one is
    assert_null (s_take (world));
    for (size_t at = 1; at < MANY; at++)
        assert_true (s_ask (world, &items [at], at * 40, 30, 0));
    s_wait_for_readers (MANY);
    for (size_t slice = 1; slice < BLOCK_CACHE_PATIENCE; slice++) {
        assert_null (s_take (world));
        s_pass (1.01);
    }
    mallopt (M_PERTURB, 0x5a);          //  what was freed is not as it was
    s_answers_then = true;
    for (size_t at = 0; at < MANY; at++)
        answered += s_wait (world)->range.gap.begin > 0;
    s_answers_then = false;
    mallopt (M_PERTURB, 0);
    assert_int_equal (answered, MANY - 1);
    assert_null (s_take (world));
    for (size_t at = 0; at < MANY; at++)
        s_free (&items [at]);
}

//  Guards: a data set that could not be opened while the disk did not answer, and then for a reason that
//  passes, is opened by a later use.
static void
test_a_late_opening_fails_for_a_while (void **state)
{
    const world_t *world = *state;
    block_data_t *other;
    block_data_key_t key = { { 1, 1 } };
    item_t item;
    struct rlimit before, few;
    uint8_t memory [UNIT];
    s_store_all (world);
    s_hold (true);
    assert_true (s_ask (world, &item, 3, 7, 0));
    s_wait_for_readers (1);
    for (size_t slice = 0; slice < BLOCK_CACHE_PATIENCE; slice++) {
        assert_null (s_take (world));
        s_pass (1.01);
    }
    assert_ptr_equal (s_wait (world), &item);
    s_free (&item);
    assert_int_equal (block_data_open (&other, world->cache, &key, UNIT), 0);
    assert_false (block_data_may_answer (other));
    s_mend (world);
    assert_true (block_data_is_aside (other) && block_data_may_answer (other));
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &before), 0);
    few = before, few.rlim_cur = 3;     //  no more than there are
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &few), 0);
    block_data_store (other, 0, UNIT, s_truth, false);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &before), 0);
    assert_true (block_data_is_aside (other));
    assert_false (block_data_may_answer (other));
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
    s_pass (1);
    assert_true (block_data_may_answer (other));
    block_data_store (other, 0, UNIT, s_truth, false);
    assert_int_equal (block_data_read (other, 0, UNIT, memory).begin, UNIT);
    assert_memory_equal (memory, s_truth, UNIT);
    block_data_close (&other);
}

//  Guards: a stop of the whole server for a long time is no disk that hangs.
static void
test_the_server_stops (void **state)
{
    const world_t *world = *state;
    item_t item;
    s_store_all (world);
    s_hold (true);
    assert_true (s_ask (world, &item, 0, 30, 0));
    s_wait_for_readers (1);
    s_pass (1000);
    assert_null (s_take (world));
    s_hold (false);
    assert_ptr_equal (s_wait (world), &item);
    assert_int_equal (item.range.gap.begin, item.range.bytes);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    s_free (&item);
}

//  The disk takes so many slices from one read to the next, with LINE under way: after how many reads it is
//  left alone; READS_MAX: it is not.
enum { READS_MAX = 200 };

static size_t
s_reads_until_aside (const world_t *world, double slices)
{
    item_t items [LINE];
    size_t asked = 0;
    s_hold (true);
    for (; asked < LINE; asked++)
        assert_true (s_ask (world, &items [asked], asked, 1, 0));
    s_wait_for_readers (LINE);
    while (asked < READS_MAX && !s_is_aside (world)) {
        for (double left = slices; left > 0; left -= 1) {
            s_pass (left < 1? left: 1);
            assert_null (s_take (world));
        }
        s_let_one_pass ();
        item_t *item = s_wait (world);
        s_free (item);
        if (!s_is_aside (world)) {
            assert_true (s_ask (world, item, asked++ % FREE, 1, 0));
            s_wait_for_readers (LINE);
        }
    }
    s_mend (world);
    for (size_t at = 0; at < LINE; at++) {
        while (items [at].is_out)
            s_wait (world);
        s_free (&items [at]);
    }
    return asked;
}

//  Guards: reads that the disk does one after the other, each within a slice, are not late, though each takes
//  many slices from when it is asked for.  Where the disk gives nothing for two slices again and again, it is
//  left alone.
static void
test_a_line_is_not_late (void **state)
{
    const world_t *world = *state;
    s_store_all (world);
    assert_int_equal (s_reads_until_aside (world, 0.9), READS_MAX);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    assert_in_range (s_reads_until_aside (world, 2), LINE, READS_MAX / 2);
}

//  Guards: a read that was dropped leaves its memory alone, others come, and the queue ends with one at the
//  disk.
static void
test_reads_are_dropped (void **state)
{
    world_t *world = *state;
    item_t items [MANY];
    s_store_all (world);
    for (size_t round = 0; round < 2; round++) {
        s_hold (true);
        for (size_t at = 0; at < MANY; at++)
            assert_true (s_ask (world, &items [at], at * 40, 30, 0));
        s_wait_for_readers (MANY);
        for (size_t at = round; at < MANY; at += 2 - round)
            block_queue_drop (world->queue, &items [at].range);
        s_hold (false);
        for (size_t at = 0; at < MANY / 2 && round == 0; at++) {
            size_t index = (size_t) (s_wait (world) - items);
            assert_int_equal (index % 2, 1);
        }
        if (round == 1) {
            assert_ptr_equal (s_wait (world), &items [0]);
            block_queue_destroy (&world->queue);
        }
        for (size_t at = 0; at < MANY; at++) {
            bool is_dropped = round? at > 0: at % 2 == 0;
            if (is_dropped)
                assert_memory_equal (items [at].memory, items [at].before, items [at].range.bytes);
            s_free (&items [at]);
        }
    }
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_reads_are_at_the_disk_together),
        CASE (test_they_find_what_is_here),
        CASE (test_reads_hang),
        CASE (test_the_disk_answers_as_one_is_left),
        CASE (test_a_late_opening_fails_for_a_while),
        CASE (test_the_server_stops),
        CASE (test_a_line_is_not_late),
        CASE (test_reads_are_dropped)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
