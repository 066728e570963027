//  The reading threads: everything submitted comes back once, with the right bytes, in memory that is shared
//  out without overlap; stopping loses nothing.  Threads only read; assertions are made here.

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>
#include "effort.h"
#include "reading.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

enum {
    FILES = 3,
    FILE_BYTES = 1024 * 1024 + 777,
    RANGE_BYTES_MAX = 200 * 1024,
    BUFFER_BYTES = RANGE_BYTES_MAX + 3 * READER_ALIGN_BYTES,        //  whole blocks
    SAMPLES = 20,
    REQUESTS_MAX = 100
};

//  ---- system calls

//  Reads without a ring: how many at once; until so many are together, none continues, for at most
//  PATIENCE_MS.
static struct {
    atomic_int now, most, together;
} s_reads;

static int s_threads_left = INT_MAX;    //  that can be had
static atomic_bool s_ring_fails;

ssize_t __real_preadv (int file, const struct iovec *parts, int count, off_t offset);
ssize_t __wrap_preadv (int file, const struct iovec *parts, int count, off_t offset);
ssize_t
__wrap_preadv (int file, const struct iovec *parts, int count, off_t offset)
{
    enum { PATIENCE_MS = 20000 };
    int now = atomic_fetch_add (&s_reads.now, 1) + 1, most = atomic_load (&s_reads.most);
    while (most < now && !atomic_compare_exchange_weak (&s_reads.most, &most, now));
    for (int ms = 0; ms < PATIENCE_MS && atomic_load (&s_reads.most) < atomic_load (&s_reads.together); ms++)
        nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    ssize_t got = __real_preadv (file, parts, count, offset);
    atomic_fetch_sub (&s_reads.now, 1);
    return got;
}

int __real_pthread_create (pthread_t *id, const pthread_attr_t *attributes, void *(*run) (void *),
    void *argument);
int __wrap_pthread_create (pthread_t *id, const pthread_attr_t *attributes, void *(*run) (void *),
    void *argument);
int
__wrap_pthread_create (pthread_t *id, const pthread_attr_t *attributes, void *(*run) (void *), void *argument)
{
    return s_threads_left-- > 0? __real_pthread_create (id, attributes, run, argument): EAGAIN;
}

struct io_uring;
int __real_io_uring_submit_and_wait (struct io_uring *ring, unsigned wait);
int __wrap_io_uring_submit_and_wait (struct io_uring *ring, unsigned wait);
int
__wrap_io_uring_submit_and_wait (struct io_uring *ring, unsigned wait)
{
    return atomic_load (&s_ring_fails)? -EPERM: __real_io_uring_submit_and_wait (ring, wait);
}

//  ---- a world

typedef struct {
    scratch_folder_t scratch;
    char paths [FILES] [PATH_MAX];
    const char *path_list [FILES];
    catalogue_t *catalogue;
    atomic_uint finished;
    atomic_bool slow;
    int refuse;                         //  what finish makes of every result; set before submitting
} world_t;

static int
begin (void **state)
{
    world_t *world = calloc (1, sizeof *world);
    *state = world;
    alarm (300);                        //  what hangs fails
    atomic_store (&s_reads.together, 0);
    atomic_store (&s_ring_fails, false);
    s_threads_left = INT_MAX;
    if (!world || !scratch_begin (&world->scratch))
        return -1;
    char path [PATH_MAX], error [1024];
    for (uint32_t file = 0; file < FILES; file++) {
        snprintf (world->paths [file], PATH_MAX, "%s/volume-%u", world->scratch.path, file);
        pattern_write (world->paths [file], file, FILE_BYTES);
        world->path_list [file] = world->paths [file];
    }
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/data/class", world->scratch.path);
    mkdir (path, 0700);
    for (uint32_t id = 0; id < SAMPLES; id++) {
        snprintf (path, sizeof path, "%s/data/class/%02u.jpg", world->scratch.path, id);
        pattern_write (path, 100 + id, 1000 * id);
    }
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    return catalogue_open (&world->catalogue, &(catalogue_options_t) { .path = path }, error, sizeof error);
}

static int
end (void **state)
{
    world_t *world = *state;
    catalogue_destroy (&world->catalogue);
    bool clean = scratch_end (&world->scratch);
    free (world);
    return clean? 0: -1;
}

typedef struct {
    reader_request_t request;
    catalogue_buffer_t buffer;
    bool out, right;
    unsigned int finishes;
    unsigned int finish_row;            //  so many had finished before it
} item_t;

//  In the threads: the bytes are looked at while they are there, twice, as others may write over them.
static void
s_finish (void *context, reader_request_t *request)
{
    world_t *world = context;
    item_t *item = request->user;
    item->finishes++;
    item->right = true;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t at = 0; at < request->bytes; at += pass? 61: 1)
            item->right = item->right
                && request->memory [request->skip + at] == pattern_byte (request->file, request->offset + at);
        if (atomic_load (&world->slow))
            nanosleep (&(struct timespec) { .tv_nsec = 300000 }, NULL);
    }
    if (world->refuse)
        request->rc = world->refuse;
    item->finish_row = atomic_fetch_add (&world->finished, 1);
}

static reading_t *
s_reading (world_t *world, bool no_ring, bool no_direct)
{
    reading_options_t options = { .paths = world->path_list, .path_count = FILES,
        .buffer_bytes = BUFFER_BYTES,
        .requests_max = REQUESTS_MAX, .depth = 8, .no_ring = no_ring, .no_direct = no_direct,
        .finish = s_finish, .context = world };
    reading_t *reading;
    const char *path;
    assert_int_equal (reading_new (&reading, &options, &path), 0);
    assert_null (path);
    bool has_ring = strcmp (reading_mode (reading), "io_uring") == 0;
    assert_false (no_ring && has_ring);
    assert_false (no_direct && reading_is_direct (reading, 0));
    if (has_ring == no_ring || reading_is_direct (reading, 0) == no_direct) {
        print_message ("skipped here: no_ring %d, no_direct %d (%s)\n", no_ring, no_direct,
            reading_mode (reading));
        reading_destroy (&reading);
    }
    return reading;
}

static void
s_submit (reading_t *reading, world_t *world, item_t *item, uint64_t *random)
{
    assert_false (item->out);
    catalogue_buffer_t buffer = item->buffer;
    *item = (item_t) { .buffer = buffer, .out = true };
    if (test_below (random, 4) == 0)
        item->request = (reader_request_t) { .kind = READER_FILE, .catalogue = world->catalogue,
            .id = (uint32_t) test_below (random, SAMPLES), .buffer = &item->buffer };
    else {
        uint64_t bytes = 1 + test_below (random, test_below (random, 3)? 9000: RANGE_BYTES_MAX);
        item->request = (reader_request_t) { .kind = READER_RANGE,
            .file = (uint32_t) test_below (random, FILES),
            .offset = test_below (random, FILE_BYTES - bytes + 1), .bytes = bytes };
    }
    item->request.user = item;
    item->request.is_afresh = test_below (random, 8) == 0;      //  under the eyes of the others
    reading_submit (reading, &item->request);
}

static void
s_check_good (const item_t *item)
{
    const reader_request_t *request = &item->request;
    assert_int_equal (request->rc, 0);
    if (request->kind == READER_RANGE) {
        assert_true (item->right);
        assert_int_equal (item->finishes, 1);
        assert_true (request->read_bytes >= request->bytes);
    }
    else {
        assert_int_equal (item->finishes, 0);
        assert_int_equal (item->buffer.size, 1000 * request->id);
        for (size_t at = 0; at < item->buffer.size; at++)
            if (item->buffer.bytes [at] != pattern_byte (100 + request->id, at))
                fail_msg ("sample %u: byte %zu is wrong", request->id, at);
    }
    assert_true (request->in_flight > 0);
    assert_true (request->wait_ns > 0);
}

//  One that is done; waits for the descriptor.
static item_t *
s_take (reading_t *reading)
{
    struct pollfd wait = { .fd = reading_descriptor (reading), .events = POLLIN };
    assert_int_equal (poll (&wait, 1, 60000), 1);
    reader_request_t *request = reading_done (reading);
    assert_non_null (request);
    item_t *item = request->user;
    assert_true (item->out);
    assert_null (request->memory);
    item->out = false;
    return item;
}

//  Guards: any traffic, far more than the memory holds, while the depth changes: each comes back once and
//  right.
static void
test_all_come_back_right (void **state)
{
    world_t *world = *state;
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    for (int mode = 0; mode < 4; mode++) {
        reading_t *reading = s_reading (world, mode & 1, mode & 2);
        if (!reading)
            continue;
        uint64_t random = seed + (uint64_t) mode;
        static item_t items [REQUESTS_MAX];
        size_t out = 0;
        for (int left = EFFORT (3000); left > 0 || out > 0; ) {
            size_t target = test_below (&random, REQUESTS_MAX + 1);
            for (size_t index = 0; index < REQUESTS_MAX && out < target && left > 0; index++)
                if (!items [index].out) {
                    s_submit (reading, world, &items [index], &random);
                    out++;
                    left--;
                }
            if (test_below (&random, 4) == 0)
                reading_set_depth (reading, (uint32_t) (1 + test_below (&random, 32)));
            size_t count = left > 0? test_below (&random, REQUESTS_MAX): out;
            for (; out > 0 && count > 0; count--, out--)
                s_check_good (s_take (reading));
        }
        assert_null (reading_done (reading));
        reading_destroy (&reading);
        for (size_t index = 0; index < REQUESTS_MAX; index++)
            free (items [index].buffer.bytes);
        memset (items, 0, sizeof items);
    }
}

//  Guards: a stop is noticed also by a thread that is just about to look up for a depth.
static void
test_stop_right_after_a_depth (void **state)
{
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (2000); round++) {
        reading_t *reading = s_reading (*state, false, false);
        if (!reading)
            return;
        for (uint32_t depth = 1; depth < 4; depth++) {
            reading_set_depth (reading, depth);
            for (atomic_uint spins = (unsigned int) test_below (&random, 2000); atomic_load (&spins) > 0;)
                atomic_fetch_sub (&spins, 1);
        }
        reading_destroy (&reading);
    }
}

//  Guards: stopped at any moment, everything comes back: right, or not begun.
static void
test_stop_loses_nothing (void **state)
{
    world_t *world = *state;
    uint64_t random = test_seed ();
    for (int round = 0; round < EFFORT (80); round++) {
        int mode = round % 4;
        reading_t *reading = s_reading (world, mode & 1, mode & 2);
        if (!reading)
            continue;
        atomic_store (&world->slow, round % 3 == 0);
        item_t items [REQUESTS_MAX] = { 0 };
        size_t count = test_below (&random, REQUESTS_MAX + 1), taken = test_below (&random, count + 1) / 4;
        for (size_t index = 0; index < count; index++)
            s_submit (reading, world, &items [index], &random);
        for (size_t index = 0; index < taken; index++)
            s_check_good (s_take (reading));
        reading_stop (reading);
        for (size_t index = taken; index < count; index++) {
            item_t *item = s_take (reading);
            if (item->request.rc == -ECANCELED)
                assert_int_equal (item->finishes, 0);
            else
                s_check_good (item);
        }
        assert_null (reading_done (reading));
        if (count > 0) {
            s_submit (reading, world, &items [0], &random);
            assert_int_equal (s_take (reading)->request.rc, -ECANCELED);
        }
        reading_destroy (&reading);
        for (size_t index = 0; index < count; index++) {
            assert_false (items [index].out);
            free (items [index].buffer.bytes);
        }
    }
}

//  Guards: what finish says stands; a range that cannot be read does not get there, and its memory comes
//  back.
static void
test_results_pass_through (void **state)
{
    world_t *world = *state;
    for (int mode = 0; mode < 4; mode++) {
        reading_t *reading = s_reading (world, mode & 1, mode & 2);
        if (!reading)
            continue;
        item_t item = { 0 };
        for (int round = 0; round < 20; round++) {
            bool beyond = round % 2;
            world->refuse = beyond? 0: -EBADMSG;
            item = (item_t) { .out = true };
            item.request = (reader_request_t) { .kind = READER_RANGE, .user = &item, .bytes = RANGE_BYTES_MAX,
                .offset = beyond? FILE_BYTES - 5000: 4095 };
            reading_submit (reading, &item.request);
            assert_ptr_equal (s_take (reading), &item);
            assert_int_equal (item.request.rc, beyond? -CATALOGUE_CHANGED: -EBADMSG);
            assert_int_equal (item.finishes, beyond? 0: 1);
        }
        world->refuse = 0;
        reading_destroy (&reading);
    }
}

//  Guards: a large range is not overtaken by small ones.  It needs all the memory, and finishes while it has
//  it: after all that came before it, before all that came later.  (In which order threads then say that they
//  are done is another matter.)
static void
test_large_is_not_starved (void **state)
{
    world_t *world = *state;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        reading_t *reading = s_reading (world, no_ring, false);
        if (!reading)
            continue;
        atomic_store (&world->finished, 0);
        item_t items [REQUESTS_MAX] = { 0 };
        size_t large = 10;
        for (size_t index = 0; index < REQUESTS_MAX; index++) {
            items [index].out = true;
            items [index].request = (reader_request_t) { .kind = READER_RANGE, .user = &items [index],
                .offset = 4096 * index, .bytes = index == large? BUFFER_BYTES: 4096 };
            reading_submit (reading, &items [index].request);
        }
        for (size_t index = 0; index < REQUESTS_MAX; index++)
            s_check_good (s_take (reading));
        assert_int_equal (items [large].finish_row, large);
        reading_destroy (&reading);
    }
}

//  Guards: a file that cannot be opened is named.
static void
test_missing_file_is_named (void **state)
{
    world_t *world = *state;
    world->path_list [1] = "/nowhere/volume";
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        reading_options_t options = { .paths = world->path_list, .path_count = FILES,
            .buffer_bytes = BUFFER_BYTES,
            .requests_max = 1, .depth = 1, .no_ring = no_ring, .finish = s_finish, .context = world };
        reading_t *reading;
        const char *path;
        assert_int_equal (reading_new (&reading, &options, &path), -ENOENT);
        assert_null (reading);
        assert_string_equal (path, "/nowhere/volume");
    }
}

//  Guards: no volumes at all, for plain folders.
static void
test_files_alone (void **state)
{
    world_t *world = *state;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        reading_options_t options = { .requests_max = SAMPLES, .depth = 4, .no_ring = no_ring };
        reading_t *reading;
        const char *path;
        assert_int_equal (reading_new (&reading, &options, &path), 0);
        item_t items [SAMPLES] = { 0 };
        for (uint32_t id = 0; id < SAMPLES; id++) {
            items [id].out = true;
            items [id].request = (reader_request_t) { .kind = READER_FILE, .user = &items [id],
                .catalogue = world->catalogue, .id = id, .buffer = &items [id].buffer };
            reading_submit (reading, &items [id].request);
        }
        for (uint32_t id = 0; id < SAMPLES; id++)
            s_check_good (s_take (reading));
        for (uint32_t id = 0; id < SAMPLES; id++)
            free (items [id].buffer.bytes);
        reading_destroy (&reading);
    }
}

//  So many ranges of a block each, all back and right; how many were read at once.
static int
s_read_blocks (reading_t *reading, size_t count, int together)
{
    item_t items [REQUESTS_MAX] = { 0 };
    atomic_store (&s_reads.most, 0);
    atomic_store (&s_reads.together, together);
    for (size_t index = 0; index < count; index++) {
        items [index].out = true;
        items [index].request = (reader_request_t) { .kind = READER_RANGE, .user = &items [index],
            .offset = 4096 * index, .bytes = 4096 };
        reading_submit (reading, &items [index].request);
    }
    for (size_t index = 0; index < count; index++) {
        item_t *item = s_take (reading);
        s_check_good (item);
        assert_true (item->request.in_flight > 0 && item->request.in_flight <= reading_depth (reading));
    }
    return atomic_load (&s_reads.most);
}

//  Guards: without a ring as many reads as the depth are under way at once, and never more; it is raised and
//  lowered while it reads.
static void
test_the_depth_holds_without_a_ring (void **state)
{
    world_t *world = *state;
    const uint32_t depths [] = { 8, 1, 3, 20, 1, 2 };
    reading_t *reading = s_reading (world, true, false);
    for (size_t index = 0; index < sizeof depths / sizeof *depths; index++) {
        int depth = (int) depths [index];
        reading_set_depth (reading, depths [index]);
        assert_int_equal (reading_depth (reading), depth);
        assert_int_equal (s_read_blocks (reading, 60, depth), depth);
    }
    reading_destroy (&reading);
}

//  Guards: where threads cannot be had, the depth is what there is, and it is said; later it grows.
static void
test_threads_that_cannot_be_had (void **state)
{
    world_t *world = *state;
    s_threads_left = 3;
    reading_t *reading = s_reading (world, true, false);
    assert_int_equal (reading_depth (reading), 3);
    assert_int_equal (s_read_blocks (reading, 30, 3), 3);
    s_threads_left = INT_MAX;
    reading_set_depth (reading, 6);
    assert_int_equal (reading_depth (reading), 6);
    assert_int_equal (s_read_blocks (reading, 30, 6), 6);
    reading_destroy (&reading);
    s_threads_left = 0;
    reading_options_t options = { .requests_max = 1, .depth = 1 };
    const char *path;
    assert_int_equal (reading_new (&reading, &options, &path), -EAGAIN);
    assert_null (path);
    s_threads_left = INT_MAX;
}

//  Guards: a ring that fails while it is used costs no request, and from then on threads keep the depth.
static void
test_a_ring_is_lost (void **state)
{
    world_t *world = *state;
    reading_t *reading = s_reading (world, false, false);
    if (!reading)
        return;
    s_read_blocks (reading, 20, 0);
    atomic_store (&s_ring_fails, true);
    s_read_blocks (reading, 60, 0);
    for (int turn = 0; turn < 20000 && strcmp (reading_mode (reading), "io_uring") == 0; turn++)
        nanosleep (&(struct timespec) { .tv_nsec = 1000000 }, NULL);
    assert_string_equal (reading_mode (reading), "preadv (io_uring: Operation not permitted)");
    reading_set_depth (reading, 5);
    assert_int_equal (reading_depth (reading), 5);
    assert_int_equal (s_read_blocks (reading, 60, 5), 5);
    reading_destroy (&reading);
    atomic_store (&s_ring_fails, false);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_all_come_back_right, begin, end),
        cmocka_unit_test_setup_teardown (test_stop_loses_nothing, begin, end),
        cmocka_unit_test_setup_teardown (test_stop_right_after_a_depth, begin, end),
        cmocka_unit_test_setup_teardown (test_results_pass_through, begin, end),
        cmocka_unit_test_setup_teardown (test_large_is_not_starved, begin, end),
        cmocka_unit_test_setup_teardown (test_missing_file_is_named, begin, end),
        cmocka_unit_test_setup_teardown (test_files_alone, begin, end),
        cmocka_unit_test_setup_teardown (test_the_depth_holds_without_a_ring, begin, end),
        cmocka_unit_test_setup_teardown (test_threads_that_cannot_be_had, begin, end),
        cmocka_unit_test_setup_teardown (test_a_ring_is_lost, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
