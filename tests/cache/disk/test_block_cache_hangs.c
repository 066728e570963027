//  A local disk that hangs, or answers late, or a thread of the cache that gets no processor: those that use
//  the cache go on without it, and use it again when it answers.  What the disk gives them later changes
//  nothing of theirs.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "block_data.h"
#include "clock.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = 300, BYTES = UNITS * UNIT - 1000, ERROR_BYTES = 600,
    CALLERS = BLOCK_CACHE_THREADS_MAX + 4,
    QUICK_MS = 1, SHORT_MS = 4, LONG_MS = 200, SLOW_MS = 1000,          //  slices
    //  One in which nothing ends late: what was lost in short slices is not forgotten in it, so that the
    //  first whole one would put the cache aside.
    PATIENT_MS = 1000 * BLOCK_CACHE_SLICE_MS,
    LATE_MS = 7,                        //  nearly two SHORT_MS
    LATE_ANSWERS = 200,                 //  after some fifteen the cache is aside
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
    bool is_in_memory;                  //  what was written lies in the page cache
} s_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __real_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);
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
__wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (flags & RWF_NOWAIT && !s_disk.is_in_memory) {
        errno = EAGAIN;
        return -1;
    }
    if (!(flags & RWF_NOWAIT))
        s_ask_disk ();
    return __real_preadv2 (descriptor, parts, count, offset, flags);
}

ssize_t
__wrap_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset)
{
    s_ask_disk ();
    return __real_pwrite (descriptor, memory, bytes, offset);
}

//  The system gives the cache's threads no processor, though they have something to do.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_busy;
    size_t waiting;                     //  threads that wait for something to do
} s_system = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void
s_set_busy (bool is_busy)
{
    pthread_mutex_lock (&s_system.lock);
    s_system.is_busy = is_busy;
    pthread_cond_broadcast (&s_system.changed);
    pthread_mutex_unlock (&s_system.lock);
}

int __real_pthread_cond_wait (pthread_cond_t *changed, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait (pthread_cond_t *changed, pthread_mutex_t *lock);

//  Until the first thread waits, the cache starts a second one for the first request; that one could begin
//  at any time, also while the system is busy.
static void
s_wait_for_thread (void)
{
    pthread_mutex_lock (&s_system.lock);
    while (s_system.waiting == 0)
        __real_pthread_cond_wait (&s_system.changed, &s_system.lock);
    pthread_mutex_unlock (&s_system.lock);
}

int
__wrap_pthread_cond_wait (pthread_cond_t *changed, pthread_mutex_t *lock)
{
    pthread_mutex_lock (&s_system.lock);
    s_system.waiting++;
    pthread_cond_broadcast (&s_system.changed);
    pthread_mutex_unlock (&s_system.lock);
    int rc = __real_pthread_cond_wait (changed, lock);
    pthread_mutex_unlock (lock);
    pthread_mutex_lock (&s_system.lock);
    s_system.waiting--;
    while (s_system.is_busy)
        __real_pthread_cond_wait (&s_system.changed, &s_system.lock);
    pthread_mutex_unlock (&s_system.lock);
    pthread_mutex_lock (lock);
    return rc;
}

//  Calls for the cache's lock: those that do not wait for it, and those that do.
static atomic_size_t s_locks, s_waits;

int __real_flock (int descriptor, int operation);
int __wrap_flock (int descriptor, int operation);

int
__wrap_flock (int descriptor, int operation)
{
    atomic_fetch_add (&s_locks, operation == (LOCK_EX | LOCK_NB));
    atomic_fetch_add (&s_waits, operation == LOCK_EX);
    return __real_flock (descriptor, operation);
}


//  -- what the tests share

static void
s_open_data (world_t *world)
{
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "https://host/1", "\"1\"", BYTES);
    assert_int_equal (block_data_open (&world->data, world->cache, &key, BYTES), 0);
}

static void
s_open (world_t *world, uint32_t slice_ms)
{
    char folder [80], error [ERROR_BYTES];
    block_cache_threads_t *threads = block_cache_threads_new ();
    assert_non_null (threads);
    s_wait_for_thread ();
    block_cache_threads_set_slice (threads, slice_ms);
    snprintf (folder, sizeof folder, "%s/cache", world->scratch.path);
    if (block_cache_open_by (&world->cache, &threads, folder, 32 << 20, error, sizeof error))
        fail_msg ("%s", error);
    assert_null (threads);
    s_open_data (world);
}

static int
s_begin (void **state)
{
    static world_t world;
    alarm (600);                        //  what hangs fails
    s_disk.is_in_memory = false;
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    if (!scratch_begin (&world.scratch))
        return -1;
    s_open (&world, PATIENT_MS);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    s_set_hanging (false);              //  a test that failed has not said so
    s_set_busy (false);
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    return scratch_end (&world->scratch)? 0: -1;
}

static bool
s_is_aside (const world_t *world)
{
    return block_cache_figures (world->cache).is_aside;
}

static void
s_set_slice (const world_t *world, uint32_t slice_ms)
{
    block_cache_threads_set_slice (block_cache_threads (world->cache), slice_ms);
}

//  The disk answers again, and is trusted again.
static void
s_mend (const world_t *world)
{
    s_set_hanging (false);
    block_cache_threads_settle (block_cache_threads (world->cache));
    while (s_is_aside (world))
        s_pause (1);
    s_set_slice (world, PATIENT_MS);
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
    s_set_slice (world, QUICK_MS);
    for (size_t at = 0; at < CALLERS; at++)
        assert_int_equal (pthread_create (&callers [at], NULL, s_store_in_thread, world), 0);
    for (size_t at = 0; at < CALLERS; at++)
        pthread_join (callers [at], NULL);
    s_set_slice (world, PATIENT_MS);           //  a wait now would not end
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
    s_set_slice (world, QUICK_MS);
    block_data_gap_t gap = s_read (world, memory, 0, UNITS);
    assert_true (gap.begin == 0 && gap.end == BYTES);
    assert_true (s_is_aside (world));
    memcpy (before, memory, BYTES);
    s_mend (world);
    assert_memory_equal (memory, before, BYTES);
    s_assert_all_here (world);
}

static void
s_damage (const world_t *world, off_t offset)
{
    char pattern [200];
    glob_t found;
    snprintf (pattern, sizeof pattern, "%s/cache/*/data", world->scratch.path);
    assert_int_equal (glob (pattern, 0, NULL, &found), 0);
    int descriptor = open (found.gl_pathv [0], O_RDWR);
    uint8_t byte = 0;
    assert_int_equal (pread (descriptor, &byte, 1, offset), 1);
    byte ^= 0x10;
    assert_int_equal (pwrite (descriptor, &byte, 1, offset), 1);
    close (descriptor);
    globfree (&found);
}

//  Guards: what lies in the page cache is read while the disk hangs, and the hang is not noticed; unless it
//  is damaged, which is not believed.
static void
test_a_read_needs_no_disk (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    s_store (world);
    s_disk.is_in_memory = true;
    s_set_hanging (true);
    s_set_slice (world, QUICK_MS);
    s_assert_all_here (world);
    assert_false (s_is_aside (world));
    s_set_hanging (false);
    s_set_slice (world, PATIENT_MS);
    s_damage (world, 7 * UNIT + 1);
    block_data_gap_t gap = s_read (world, memory, 0, UNITS);
    assert_true (gap.begin == 7 * UNIT && gap.end == 8 * UNIT);
    assert_int_equal (block_cache_figures (world->cache).damaged, 1);
}

//  Guards: a caller that goes on before its thread has begun, since the system is busy, leaves a thread that
//  works as soon as it can, and the cache is used again.
static void
test_a_thread_gets_no_processor (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    s_store (world);
    s_set_busy (true);
    s_set_slice (world, QUICK_MS);
    assert_int_equal (s_read (world, memory, 0, UNITS).begin, 0);
    assert_true (s_is_aside (world));
    s_set_busy (false);
    s_mend (world);
    s_assert_all_here (world);
}

//  Guards: a disk that hangs when the cache is opened holds up the start for the patience; the cache is used
//  when the disk answers.  It does not hold up the closing of data sets either.
static void
test_opening_hangs (void **state)
{
    world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    s_store (world);
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    s_set_hanging (true);
    s_open (world, QUICK_MS);
    s_set_slice (world, PATIENT_MS);           //  a wait now would not end
    assert_true (s_is_aside (world) && block_cache_figures (world->cache).times_aside == 1);
    block_data_t *other;
    block_data_key_t key = { { 1, 1 } };
    assert_int_equal (block_data_open (&other, world->cache, &key, BYTES), 0);
    assert_false (block_data_may_answer (world->data));
    assert_true (block_data_is_aside (world->data) && block_data_bytes (other) > 0);
    assert_int_equal (s_read (world, memory, 0, UNITS).begin, 0);
    s_store (world);
    block_data_drop (world->data, 0, BYTES);
    block_data_close (&other);
    s_mend (world);
    //  The first use opens it.
    assert_true (block_data_is_aside (world->data) && block_data_may_answer (world->data));
    s_assert_all_here (world);
    assert_false (block_data_is_aside (world->data));
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
    assert_int_equal (block_cache_figures (world->cache).damaged, 0);
    assert_true (block_data_held_bytes (world->data) > BYTES);
}

//  Guards: a cache that cannot be opened when its disk answers at last is not used, and says why.
static void
test_opening_hangs_and_fails (void **state)
{
    world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    char path [80];
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    snprintf (path, sizeof path, "%s/cache", world->scratch.path);
    s_set_hanging (true);
    s_open (world, QUICK_MS);
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
    //  Its file `usage` becomes one of something else while the first look at it hangs.
    strcat (path, "/usage");
    FILE *file = fopen (path, "we");
    assert_true (file && fputs ("a person's own notes", file) > 0 && fclose (file) == 0);
    strcpy (strrchr (path, '/'), "/more");
    assert_non_null (file = fopen (path, "we"));
    fclose (file);
    s_mend (world);
    assert_int_equal (block_cache_figures (world->cache).failure, -ENOTEMPTY);
    s_store (world);
    assert_int_equal (s_read (world, memory, 0, UNITS).begin, 0);
    block_data_drop (world->data, 0, BYTES);
    assert_int_equal (block_cache_figures (world->cache).failure, -ENOTEMPTY);
}

//  Guards: a data set that cannot be opened when the disk answers at last is not kept, and takes nothing from
//  the others.
static void
test_one_data_set_cannot_be_opened (void **state)
{
    world_t *world = *state;
    static uint8_t memory [UNITS * UNIT];
    char path [120];
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    //  A file where its folder would be.
    block_data_key_t key = { { 1, 1 } };
    snprintf (path, sizeof path, "%s/cache/00000000000000010000000000000001", world->scratch.path);
    FILE *file = fopen (path, "we");
    assert_true (file && fclose (file) == 0);
    s_set_hanging (true);
    s_open (world, QUICK_MS);
    block_data_t *other;
    assert_int_equal (block_data_open (&other, world->cache, &key, BYTES), 0);
    s_mend (world);
    for (int turn = 0; turn < 2; turn++) {
        block_data_store (other, 0, BYTES, s_truth, false);
        block_data_gap_t gap = block_data_read (other, 0, BYTES, memory);
        assert_true (gap.begin == 0 && gap.end == BYTES);
    }
    assert_true (block_data_is_aside (other));
    assert_false (block_data_may_answer (other));
    assert_int_equal (block_data_failure (other), -ENOTDIR);
    assert_int_equal (block_data_failure (world->data), 0);
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
    s_store (world);
    s_assert_all_here (world);
    block_data_close (&other);
}

static void
s_be_late (block_cache_request_t *request)
{
    (void) request;
    s_pause (LATE_MS);
}

//  Guards: a disk of which every answer is late, by less than two slices, costs about a quarter of the time.
//  On a busy machine a wait that ends late counts as one slice only: then it is up to a half, and the cache
//  may never be aside.
static void
test_answers_are_late (void **state)
{
    const world_t *world = *state;
    s_set_slice (world, SHORT_MS);
    int64_t began_ms = clock_now_ms (), lost_ms = 0;
    block_cache_request_t late = { .work = s_be_late };
    for (size_t turn = 0; turn < LATE_ANSWERS && block_cache_do (world->cache, &late); turn++)
        lost_ms += LATE_MS;
    while (s_is_aside (world))
        s_pause (1);
    double share = (double) lost_ms / (double) (clock_now_ms () - began_ms);
    if (share > .5)
        fail_msg ("%.2f of the time was lost", share);
}

static void
s_wait_for_disk (block_cache_request_t *request)
{
    (void) request;
    s_pause (LOCKED_MS);
}

static void
s_wait_for_lock (block_cache_request_t *request)
{
    s_pause (LOCKED_MS);
    request->is_locked_out = true;
}

typedef struct {
    block_cache_t *cache;
    void (*work) (block_cache_request_t *request);
} waiter_t;

static void *
s_wait_in_thread (void *argument)
{
    const waiter_t *self = argument;
    block_cache_request_t request = { .work = self->work };
    block_cache_do (self->cache, &request);
    return NULL;
}

//  All threads at once.
static void
s_wait_for (const world_t *world, void (*work) (block_cache_request_t *request))
{
    waiter_t waiter = { .cache = world->cache, .work = work };
    pthread_t threads [BLOCK_CACHE_THREADS_MAX];
    for (size_t at = 0; at < BLOCK_CACHE_THREADS_MAX; at++)
        assert_int_equal (pthread_create (&threads [at], NULL, s_wait_in_thread, &waiter), 0);
    for (size_t at = 0; at < BLOCK_CACHE_THREADS_MAX; at++)
        pthread_join (threads [at], NULL);
}

//  Guards: a lock that another server holds is no disk that is late.
static void
test_a_lock_is_held (void **state)
{
    const world_t *world = *state;
    s_set_slice (world, LONG_MS);
    for (size_t turn = 0; turn < 2; turn++)
        s_wait_for (world, s_wait_for_lock);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    while (!s_is_aside (world))
        s_wait_for (world, s_wait_for_disk);
}

static pthread_mutex_t s_line = PTHREAD_MUTEX_INITIALIZER;

static void
s_stand_in_line (block_cache_request_t *request)
{
    (void) request;
    pthread_mutex_lock (&s_line);
    s_pause (SLOW_MS / 16);
    pthread_mutex_unlock (&s_line);
}

//  Guards: a disk that carries out many requests one after the other is late for most of them, and not late.
static void
test_a_line_is_not_late (void **state)
{
    const world_t *world = *state;
    s_set_slice (world, SLOW_MS);
    for (size_t turn = 0; turn < 2; turn++)
        s_wait_for (world, s_stand_in_line);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
}

//  As another process takes it.
static int
s_take_lock (const world_t *world)
{
    char path [80];
    snprintf (path, sizeof path, "%s/cache/usage", world->scratch.path);
    int descriptor = open (path, O_RDWR | O_CLOEXEC);
    assert_true (descriptor >= 0);
    assert_int_equal (__real_flock (descriptor, LOCK_EX), 0);
    return descriptor;
}

//  Guards: of those that need the lock while another process has it for long one waits, and the others do not
//  wait behind it, each for its own time, until the cache is aside.
static void
test_another_process_has_the_lock (void **state)
{
    const world_t *world = *state;
    enum { MOST = 10 * CALLERS };       //  a wait alone asks 21 times
    pthread_t callers [CALLERS];
    int lock = s_take_lock (world);
    atomic_store (&s_locks, 0);
    for (size_t at = 0; at < CALLERS; at++)
        assert_int_equal (pthread_create (&callers [at], NULL, s_store_in_thread, *state), 0);
    for (size_t at = 0; at < CALLERS; at++)
        pthread_join (callers [at], NULL);
    assert_in_range (atomic_load (&s_locks), CALLERS, MOST);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    close (lock);
    s_store (world);
    s_assert_all_here (world);
}

static atomic_bool s_is_open;

static void *
s_open_in_thread (void *argument)
{
    s_open (argument, SLOW_MS);
    atomic_store (&s_is_open, true);
    return NULL;
}

static void *
s_open_data_in_thread (void *argument)
{
    s_open_data (argument);
    atomic_store (&s_is_open, true);
    return NULL;
}

//  `open`, in a thread, ends when another process gives the lock back, and the disk is no disk that hangs.
static void
s_open_behind_lock (world_t *world, void *(*open) (void *world))
{
    pthread_t opener;
    int lock = s_take_lock (world);
    atomic_store (&s_is_open, false);
    atomic_store (&s_locks, 0);
    assert_int_equal (pthread_create (&opener, NULL, open, world), 0);
    while (atomic_load (&s_locks) < 30 && !atomic_load (&s_is_open))
        s_pause (1);
    assert_false (atomic_load (&s_is_open));
    close (lock);
    pthread_join (opener, NULL);
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    assert_false (block_data_is_aside (world->data));
    s_assert_all_here (world);
}

//  Guards: a server that starts while another process has the lock for long waits for it.
static void
test_opening_waits_for_the_lock (void **state)
{
    world_t *world = *state;
    s_store (world);
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    s_open_behind_lock (world, s_open_in_thread);
}

//  Guards: the same for a data set that is added to a server.
static void
test_a_data_set_waits_for_the_lock (void **state)
{
    world_t *world = *state;
    s_store (world);
    s_set_slice (world, SLOW_MS);
    block_data_close (&world->data);
    s_open_behind_lock (world, s_open_data_in_thread);
}

//  Guards: a start that went on without a disk that hung, and then met the lock of another process, opens the
//  cache when it has the lock.
static void
test_opening_hangs_and_waits_for_the_lock (void **state)
{
    world_t *world = *state;
    s_store (world);
    block_data_close (&world->data);
    block_cache_close (&world->cache);
    s_set_hanging (true);
    s_open (world, QUICK_MS);
    int lock = s_take_lock (world);
    atomic_store (&s_locks, 0);
    atomic_store (&s_waits, 0);
    s_set_hanging (false);
    while (atomic_load (&s_locks) < 21)
        s_pause (1);
    for (size_t turn = 0; turn < 1000 && atomic_load (&s_waits) == 0; turn++)
        s_pause (1);
    close (lock);
    s_mend (world);
    s_assert_all_here (world);
    assert_int_equal (block_cache_figures (world->cache).failure, 0);
}

typedef struct {
    const world_t *world;
    uint64_t random;
} caller_t;

//  What gets the units checks them: the lender does not see that one was dropped and stored again meanwhile.
static void
s_check_lent (const uint8_t *memory, const uint32_t *sums, size_t first, size_t units)
{
    uint32_t found [UNITS];
    size_t bytes = first + units == UNITS? BYTES - first * UNIT: units * UNIT;
    block_data_sums (first * UNIT, bytes, memory, found);
    for (size_t unit = 0; unit < units; unit++)
        if (found [unit] == sums [unit])
            assert_memory_equal (memory + unit * UNIT, s_truth + (first + unit) * UNIT,
                bytes - unit * UNIT < UNIT? bytes - unit * UNIT: UNIT);
}

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
                s_check_lent (memory, sums, first, units);
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
    s_set_slice (world, QUICK_MS);
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
        CASE (test_a_read_needs_no_disk),
        CASE (test_a_thread_gets_no_processor),
        CASE (test_opening_hangs),
        CASE (test_opening_hangs_and_fails),
        CASE (test_one_data_set_cannot_be_opened),
        CASE (test_answers_are_late),
        CASE (test_a_line_is_not_late),
        CASE (test_a_lock_is_held),
        CASE (test_another_process_has_the_lock),
        CASE (test_opening_waits_for_the_lock),
        CASE (test_opening_hangs_and_waits_for_the_lock),
        CASE (test_a_data_set_waits_for_the_lock),
        CASE (test_any_hang)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
