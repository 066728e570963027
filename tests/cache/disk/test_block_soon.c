//  What is handed over to the local disk's cache without a wait: a later request of this server finds it
//  there, several are kept in one step, too many wait, and none is lost.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "block_data.h"
#include "effort.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES,
    FILES = 40, FILE_UNITS = 29, FILE_BYTES = FILE_UNITS * UNIT - 700,
    LARGE_UNITS = BLOCK_CACHE_UNITS_MAX, LARGE_BYTES = LARGE_UNITS * UNIT,
    LARGES = BLOCK_CACHE_HANDED_BYTES_MAX / LARGE_BYTES,
    UNITS = (LARGES + 1) * LARGE_UNITS, ERROR_BYTES = 600,
    QUICK_MS = 1, PATIENT_MS = 1000 * BLOCK_CACHE_SLICE_MS      //  slices; a wait of PATIENT_MS would not end
};

typedef struct {
    scratch_folder_t scratch;
    block_cache_t *cache;
    block_data_t *data;
} world_t;

static uint8_t s_truth [UNITS * UNIT];


//  -- requests that are no stores: each waits until it is let through

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t begun, let;
} s_gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void
s_stand (block_cache_request_t *request)
{
    (void) request;
    pthread_mutex_lock (&s_gate.lock);
    size_t number = s_gate.begun++;
    pthread_cond_broadcast (&s_gate.changed);
    while (number >= s_gate.let)
        pthread_cond_wait (&s_gate.changed, &s_gate.lock);
    pthread_mutex_unlock (&s_gate.lock);
}

static size_t
s_begun (void)
{
    pthread_mutex_lock (&s_gate.lock);
    size_t begun = s_gate.begun;
    pthread_mutex_unlock (&s_gate.lock);
    return begun;
}

static void
s_wait_until_begun (size_t begun)
{
    pthread_mutex_lock (&s_gate.lock);
    while (s_gate.begun < begun)
        pthread_cond_wait (&s_gate.changed, &s_gate.lock);
    pthread_mutex_unlock (&s_gate.lock);
}

static void
s_let (size_t let)
{
    pthread_mutex_lock (&s_gate.lock);
    s_gate.let = let;
    pthread_cond_broadcast (&s_gate.changed);
    pthread_mutex_unlock (&s_gate.lock);
}

static void *
s_stand_in_thread (void *cache)
{
    block_cache_request_t request = { .work = s_stand };
    block_cache_do (cache, &request);
    return NULL;
}


//  -- the disk: writes of what is kept hang, or fail; calls for the cache's lock are counted

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool hangs, fails;
    unsigned slow_ms;                   //  a write takes so long
    size_t hanging;                     //  writes
    size_t written;                     //  writes that have ended
    size_t begun_then;                  //  s_gate.begun at the first one
    size_t locks;
} s_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset);

ssize_t
__wrap_pwrite (int descriptor, const void *memory, size_t bytes, off_t offset)
{
    bool fails = false;
    unsigned slow_ms = 0;
    if (bytes >= UNIT / 2) {
        pthread_mutex_lock (&s_disk.lock);
        s_disk.hanging++;
        pthread_cond_broadcast (&s_disk.changed);
        while (s_disk.hangs)
            pthread_cond_wait (&s_disk.changed, &s_disk.lock);
        s_disk.hanging--;
        fails = s_disk.fails;
        slow_ms = s_disk.slow_ms;
        if (s_disk.written++ == 0)
            s_disk.begun_then = s_begun ();
        pthread_cond_broadcast (&s_disk.changed);
        pthread_mutex_unlock (&s_disk.lock);
    }
    usleep (slow_ms * 1000);
    if (fails)
        errno = EIO;
    return fails? -1: __real_pwrite (descriptor, memory, bytes, offset);
}

int __real_flock (int descriptor, int operation);
int __wrap_flock (int descriptor, int operation);

int
__wrap_flock (int descriptor, int operation)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.locks += operation == (LOCK_EX | LOCK_NB);
    pthread_mutex_unlock (&s_disk.lock);
    return __real_flock (descriptor, operation);
}

static void
s_set_hanging (bool hangs)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.hangs = hangs;
    pthread_cond_broadcast (&s_disk.changed);
    pthread_mutex_unlock (&s_disk.lock);
}

static void
s_set_faults (bool fails, unsigned slow_ms)
{
    pthread_mutex_lock (&s_disk.lock);
    s_disk.fails = fails;
    s_disk.slow_ms = slow_ms;
    pthread_mutex_unlock (&s_disk.lock);
}

static void
s_wait_for_hang (void)
{
    pthread_mutex_lock (&s_disk.lock);
    while (s_disk.hanging == 0)
        pthread_cond_wait (&s_disk.changed, &s_disk.lock);
    pthread_mutex_unlock (&s_disk.lock);
}


static void
s_wait_until_written (void)
{
    pthread_mutex_lock (&s_disk.lock);
    while (s_disk.written == 0)
        pthread_cond_wait (&s_disk.changed, &s_disk.lock);
    pthread_mutex_unlock (&s_disk.lock);
}


//  -- what the tests share

static block_cache_threads_t *
s_threads (const world_t *world)
{
    return block_cache_threads (world->cache);
}

static void
s_open (world_t *world, uint64_t most)
{
    char folder [80], error [ERROR_BYTES];
    block_cache_threads_t *threads = block_cache_threads_new ();
    assert_non_null (threads);
    block_cache_threads_set_slice (threads, PATIENT_MS);
    snprintf (folder, sizeof folder, "%s/cache", world->scratch.path);
    if (block_cache_open_by (&world->cache, &threads, folder, most, error, sizeof error))
        fail_msg ("%s", error);
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "https://host/1", "\"1\"", sizeof s_truth);
    assert_int_equal (block_data_open (&world->data, world->cache, &key, sizeof s_truth), 0);
}

static void
s_close (world_t *world)
{
    block_data_close (&world->data);
    block_cache_close (&world->cache);
}

static int
s_begin (void **state)
{
    static world_t world;
    alarm (600);                        //  what hangs fails
    for (size_t at = 0; at < sizeof s_truth; at++)
        s_truth [at] = pattern_byte (1, at);
    if (!scratch_begin (&world.scratch))
        return -1;
    s_gate.begun = s_gate.let = s_disk.written = 0;
    s_open (&world, 64 << 20);
    *state = &world;
    return 0;
}

static int
s_end (void **state)
{
    world_t *world = *state;
    s_set_hanging (false);              //  a test that failed has not said so
    s_set_faults (false, 0);
    s_let (SIZE_MAX);
    s_close (world);
    return scratch_end (&world->scratch)? 0: -1;
}

static uint64_t
s_owner (size_t file)
{
    return 1000 + file;
}

static size_t
s_place (size_t file)
{
    return file * FILE_UNITS * UNIT;
}

static bool
s_store (const world_t *world, size_t file)
{
    return block_data_store_soon (world->data, s_owner (file), s_place (file), FILE_BYTES,
        s_truth + s_place (file));
}

//  Whatever is said to be here is right.
static bool
s_read (const world_t *world, size_t file)
{
    static _Thread_local uint8_t memory [FILE_BYTES];
    if (!block_data_read_owned (world->data, s_owner (file), s_place (file), FILE_BYTES, memory))
        return false;
    assert_memory_equal (memory, s_truth + s_place (file), FILE_BYTES);
    return true;
}

static size_t
s_count (const world_t *world)
{
    size_t count = 0;
    for (size_t file = 0; file < FILES; file++)
        count += s_read (world, file);
    return count;
}


//  -- the tests

//  Guards: each way to ask for what was handed over finds all of it.
static void
test_a_question_waits (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [FILE_BYTES];
    uint32_t sums [FILE_UNITS];
    size_t file = 0;
    assert_true (s_store (world, file));
    assert_true (s_read (world, file));
    assert_true (s_store (world, ++file));
    assert_true (block_data_has (world->data, s_place (file), FILE_BYTES));
    assert_true (s_store (world, ++file));
    assert_true (block_data_has_some (world->data, s_place (file) + 3 * UNIT, UNIT));
    assert_true (s_store (world, ++file));
    assert_true (block_data_lend (world->data, s_place (file), FILE_BYTES, memory, sums));
    assert_true (s_store (world, ++file));
    assert_true (block_data_find_sums (world->data, s_place (file), FILE_BYTES, sums));
    for (size_t unit = 0; unit < FILE_UNITS; unit++)
        assert_true (sums [unit] != 0);
}

//  Guards: what is given up, or kept as another's, after it was handed over does not come back.
static void
test_the_order_is_kept (void **state)
{
    const world_t *world = *state;
    static uint8_t memory [FILE_BYTES];
    assert_true (s_store (world, 0));
    assert_true (block_data_drop (world->data, s_place (0), FILE_BYTES));
    assert_false (block_data_has_some (world->data, s_place (0), FILE_BYTES));
    for (size_t file = 1; file < 3; file++) {
        assert_true (s_store (world, file));
        bool is_kept = (file == 1? block_data_store_owned: block_data_store_soon) (world->data, 7,
            s_place (file), FILE_BYTES, s_truth);
        assert_true (is_kept);
        assert_false (s_read (world, file));
        assert_true (block_data_read_owned (world->data, 7, s_place (file), FILE_BYTES, memory));
        assert_memory_equal (memory, s_truth, FILE_BYTES);
    }
}

//  How often something was stored, as the data set's head says: the room of the file's map is judged by it.
static uint64_t
s_head_stores (const world_t *world)
{
    char path [120];
    block_cache_head_t head;
    block_data_path (world->data, path, sizeof path);
    strcpy (strrchr (path, '/'), "/sums");
    FILE *file = fopen (path, "re");
    assert_true (file && fread (&head, sizeof head, 1, file) == 1);
    fclose (file);
    return head.stores;
}

//  Guards: those that wait are kept in one step, with the cache's lock taken once.
static void
test_several_are_kept_together (void **state)
{
    const world_t *world = *state;
    s_set_hanging (true);
    assert_true (s_store (world, 0));
    s_wait_for_hang ();
    pthread_mutex_lock (&s_disk.lock);
    s_disk.locks = 0;
    pthread_mutex_unlock (&s_disk.lock);
    for (size_t file = 1; file <= BLOCK_CACHE_TOGETHER; file++)
        assert_true (s_store (world, file));
    s_set_hanging (false);
    block_cache_threads_settle (s_threads (world));
    assert_int_equal (s_disk.locks, 1);
    assert_int_equal (s_head_stores (world), 1 + BLOCK_CACHE_TOGETHER);
    for (size_t file = 0; file <= BLOCK_CACHE_TOGETHER; file++)
        assert_true (s_read (world, file));
}

//  Guards: one that nothing follows is kept soon.
static void
test_one_alone (void **state)
{
    const world_t *world = *state;
    s_set_hanging (true);
    assert_true (s_store (world, 0));
    s_wait_for_hang ();
}

//  Guards: a disk that hangs does not hold up what is handed over, until too many bytes wait; then it is seen
//  to hang.  When it answers, all that was taken is kept.
static void
test_the_disk_hangs (void **state)
{
    const world_t *world = *state;
    s_set_hanging (true);
    for (size_t large = 0; large < LARGES; large++)
        assert_true (block_data_store_soon (world->data, s_owner (large), large * LARGE_BYTES, LARGE_BYTES,
            s_truth + large * LARGE_BYTES));
    assert_false (block_cache_figures (world->cache).is_aside);
    block_cache_threads_set_slice (s_threads (world), QUICK_MS);
    assert_false (block_data_store_soon (world->data, 1, LARGES * LARGE_BYTES, LARGE_BYTES, s_truth));
    assert_true (block_cache_figures (world->cache).is_aside);
    block_cache_threads_set_slice (s_threads (world), PATIENT_MS);
    assert_false (block_data_store_soon (world->data, 1, LARGES * LARGE_BYTES, LARGE_BYTES, s_truth));
    s_set_hanging (false);
    block_cache_threads_settle (s_threads (world));
    while (block_cache_figures (world->cache).is_aside)
        usleep (1000);
    static uint8_t memory [LARGE_BYTES];
    for (size_t large = 0; large < LARGES; large++) {
        assert_true (block_data_read_owned (world->data, s_owner (large), large * LARGE_BYTES, LARGE_BYTES,
            memory));
        assert_memory_equal (memory, s_truth + large * LARGE_BYTES, LARGE_BYTES);
    }
}

//  Guards: a disk that is slower than what is handed over to it holds its caller up, and is no disk that
//  hangs.
static void
test_the_disk_is_slow (void **state)
{
    const world_t *world = *state;
    enum { SLICE_MS = 50 };             //  patience: a second; all that waits takes nearly two
    s_set_faults (false, 2 * SLICE_MS);
    block_cache_threads_set_slice (s_threads (world), SLICE_MS);
    for (size_t large = 0; large <= LARGES; large++)
        assert_true (block_data_store_soon (world->data, s_owner (large), large * LARGE_BYTES, LARGE_BYTES,
            s_truth + large * LARGE_BYTES));
    assert_int_equal (block_cache_figures (world->cache).times_aside, 0);
    block_cache_threads_set_slice (s_threads (world), PATIENT_MS);
}

//  Guards: a request that takes the thread which waits for more files does not leave those that are there.
static void
test_a_long_read_beside (void **state)
{
    const world_t *world = *state;
    pthread_t reader;
    assert_true (s_store (world, 0));
    assert_int_equal (pthread_create (&reader, NULL, s_stand_in_thread, world->cache), 0);
    s_wait_until_begun (1);
    s_wait_until_written ();
    s_let (1);
    pthread_join (reader, NULL);
}

//  Guards: what is due has the next free thread, however many reads wait.
static void
test_many_reads_beside (void **state)
{
    const world_t *world = *state;
    enum { READS = 2 * BLOCK_CACHE_THREADS_MAX };
    pthread_t readers [READS];
    for (size_t at = 0; at < READS; at++)
        assert_int_equal (pthread_create (&readers [at], NULL, s_stand_in_thread, world->cache), 0);
    s_wait_until_begun (BLOCK_CACHE_THREADS_MAX);
    for (size_t file = 0; file < BLOCK_CACHE_TOGETHER; file++)
        assert_true (s_store (world, file));
    s_let (1);
    s_wait_until_written ();
    assert_int_equal (s_disk.begun_then, BLOCK_CACHE_THREADS_MAX);
    s_let (READS);
    for (size_t at = 0; at < READS; at++)
        pthread_join (readers [at], NULL);
}

//  Guards: closing waits for what was handed over.
static void
test_a_later_server_has_all (void **state)
{
    world_t *world = *state;
    for (size_t file = 0; file < FILES; file++)
        assert_true (s_store (world, file));
    s_close (world);
    s_open (world, 64 << 20);
    assert_int_equal (s_count (world), FILES);
}

//  Guards: where there is no room for all that wait, those are kept for which there is some.
static void
test_little_room (void **state)
{
    world_t *world = *state;
    enum { ROOM = 7 };                  //  files, at least, with what one store needs beside its units
    s_close (world);
    s_open (world, BLOCK_CACHE_LEAST_BYTES);
    s_set_hanging (true);
    assert_true (s_store (world, 0));
    s_wait_for_hang ();
    for (size_t file = 1; file <= BLOCK_CACHE_TOGETHER; file++)
        assert_true (s_store (world, file));
    s_set_hanging (false);
    block_cache_threads_settle (s_threads (world));
    assert_in_range (s_count (world), ROOM, BLOCK_CACHE_LEAST_BYTES / FILE_BYTES);
    assert_true (block_data_is_full (world->data));
    assert_true (block_cache_figures (world->cache).bytes <= BLOCK_CACHE_LEAST_BYTES);
}

//  Guards: a write that fails ends the keeping, with the reason, and nothing wrong is here.
static void
test_a_write_fails (void **state)
{
    const world_t *world = *state;
    assert_true (s_store (world, 0));
    assert_true (s_read (world, 0));
    s_set_faults (true, 0);
    for (size_t file = 1; file < 5; file++)
        assert_true (s_store (world, file));
    block_cache_threads_settle (s_threads (world));
    assert_int_equal (block_cache_figures (world->cache).failure, -EIO);
    assert_int_equal (s_count (world), 1);
    assert_false (s_store (world, 5));
}

typedef struct {
    const world_t *world;
    uint64_t random;
    size_t number;
} caller_t;

//  Of files of its own: a third of them.
static void *
s_use (void *argument)
{
    caller_t *self = argument;
    bool is_here [FILES] = { false };
    for (unsigned turn = 0; turn < EFFORT (300); turn++) {
        size_t file = test_below (&self->random, FILES / 3) * 3 + self->number;
        switch (test_below (&self->random, 4)) {
        case 0:
            block_data_drop (self->world->data, s_place (file), FILE_BYTES);
            is_here [file] = false;
            break;
        case 1:
            assert_int_equal (s_read (self->world, file), is_here [file]);
            break;
        default:
            is_here [file] = s_store (self->world, file);
            assert_true (is_here [file]);
        }
    }
    return NULL;
}

//  Guards: each caller finds what it handed over, and only that, whatever the others do.
static void
test_beside_each_other (void **state)
{
    enum { USERS = 3 };
    pthread_t threads [USERS];
    caller_t callers [USERS];
    uint64_t random = test_seed ();
    for (size_t at = 0; at < USERS; at++) {
        callers [at] = (caller_t) { .world = *state, .random = random + at, .number = at };
        assert_int_equal (pthread_create (&threads [at], NULL, s_use, &callers [at]), 0);
    }
    for (size_t at = 0; at < USERS; at++)
        pthread_join (threads [at], NULL);
    const world_t *world = *state;
    assert_int_equal (block_cache_figures (world->cache).damaged, 0);
}

#define CASE(function) cmocka_unit_test_setup_teardown (function, s_begin, s_end)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        CASE (test_a_question_waits),
        CASE (test_the_order_is_kept),
        CASE (test_several_are_kept_together),
        CASE (test_one_alone),
        CASE (test_the_disk_hangs),
        CASE (test_the_disk_is_slow),
        CASE (test_a_long_read_beside),
        CASE (test_many_reads_beside),
        CASE (test_a_later_server_has_all),
        CASE (test_little_room),
        CASE (test_a_write_fails),
        CASE (test_beside_each_other)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
