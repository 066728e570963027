//  The reader over the cache on the local disk, with pins in front of it or without: the right bytes, only
//  what is in neither is read, and what was read is kept; in every mode that the machine offers, whatever the
//  disk does.  What threads read of the local disk is beside all else, and the local disk may hang.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "effort.h"
#include "held_disk.h"
#include "reader_play.h"
#include "seed.h"

enum {
    UNIT = BLOCK_DATA_UNIT_BYTES, UNITS = (PLAY_FILE_BYTES + UNIT - 1) / UNIT, FILE_ROOM = UNITS * UNIT,
    RANGES_MAX = 32, CACHE_BYTES = 64 << 20, ERROR_BYTES = 600
};

//  What a test is run with.  Threads: nothing of the cache lies in the page cache.
enum { WITH_NOTHING, WITH_PINS, WITH_THREADS, WITH_BOTH, WAYS };
enum { PATIENT_MS = 100000, QUICK_MS = 1, RING_MODES = 2, TOGETHER = 8 };

//  A cache with both files and the samples, and pins of the files.
typedef struct {
    const play_world_t *world;
    block_cache_t *cache;
    block_data_t *data;
    catalogue_t *catalogue;             //  of the samples
    pins_t *pins;
    pins_data_t *pinned;                //  NULL: no pins
    char folder [PATH_MAX];
} kept_t;

static uint64_t s_random;


//  -- what the tests share

static void
s_open_catalogue (kept_t *self)
{
    char path [PATH_MAX], error [ERROR_BYTES];
    snprintf (path, sizeof path, "%s/data", self->world->scratch.path);
    catalogue_options_t options = { .path = path, .cache = self->cache,
        .keep = CATALOGUE_KEEP_ALL };
    if (catalogue_open (&self->catalogue, &options, error, sizeof error))
        fail_msg ("%s", error);
}

static kept_t
s_begin (const play_world_t *world, size_t way)
{
    bool has_pins = way == WITH_PINS || way == WITH_BOTH, has_threads = way >= WITH_THREADS;
    static unsigned number;
    kept_t self = { .world = world };
    char error [ERROR_BYTES];
    snprintf (self.folder, sizeof self.folder, "%.60s/cache-%u", world->scratch.path, number++);
    block_cache_threads_t *threads = has_threads? block_cache_threads_new (): NULL;
    assert_true (threads || !has_threads);
    if (threads)
        block_cache_threads_set_slice (threads, PATIENT_MS);
    held_disk.is_cold = has_threads;
    held_disk_hold (false);             //  a test that failed has not said so
    if (block_cache_open_by (&self.cache, &threads, self.folder, CACHE_BYTES, error, sizeof error))
        fail_msg ("%s", error);
    block_data_key_t key = { { 0, 0 } };
    block_data_key_add (&key, "files", "1", PLAY_FILES);
    assert_int_equal (block_data_open (&self.data, self.cache, &key, PLAY_FILES * (uint64_t) FILE_ROOM), 0);
    s_open_catalogue (&self);
    if (has_pins) {
        self.pins = pins_new (CACHE_BYTES);
        self.pinned = pins_data_new (self.pins, CACHE_BYTES, CACHE_BYTES);
        assert_non_null (self.pinned);
    }
    return self;
}

static void
s_end (kept_t *self)
{
    pins_data_destroy (&self->pinned);
    if (self->pins)
        pins_destroy (&self->pins);
    catalogue_destroy (&self->catalogue);
    block_data_close (&self->data);
    assert_int_equal (block_cache_figures (self->cache).damaged, 0);
    block_cache_close (&self->cache);
}

//  NULL: this machine does not have the mode.
static reader_t *
s_reader (play_world_t *world, const kept_t *kept, size_t mode, uint32_t depth)
{
    reader_t *reader = play_reader (world, &PLAY_MODES [mode], depth);
    for (uint32_t file = 0; reader && file < PLAY_FILES; file++) {
        reader_blocks_t blocks = { .data = kept->data, .begin = file * (uint64_t) FILE_ROOM,
            .bytes = PLAY_FILE_BYTES, .object = file };
        reader_keep_object (reader, file, &blocks);
    }
    return reader;
}

static void
s_range (play_item_t *item, const kept_t *kept, uint32_t file, uint64_t offset, size_t bytes)
{
    play_range (item, file, offset, bytes);
    item->request.pins = (pins_file_t) { .data = kept->pinned, .number = file, .bytes = PLAY_FILE_BYTES };
}

static void
s_sample (play_item_t *item, const kept_t *kept, uint32_t id)
{
    play_sample (item, kept->catalogue, id);
    item->request.pins = (pins_file_t) { .data = kept->pinned, .number = 100 + id,
        .bytes = play_sample_bytes (id) };
}

static void
s_read (reader_t *reader, play_item_t *item)
{
    play_submit (reader, item);
    while (!play_take (reader))
        reader_wait (reader, -1);
    if (item->request.rc == 0)
        play_check_bytes (item);
}

//  Some of a file's units are kept: what the file has there, or what the other one has.
static void
s_keep (const kept_t *kept, uint32_t file, size_t first, size_t count, bool is_wrong)
{
    static uint8_t bytes [FILE_ROOM];
    size_t begin = first * UNIT, end = (first + count) * UNIT;
    end = end < PLAY_FILE_BYTES? end: PLAY_FILE_BYTES;
    for (size_t at = begin; at < end; at++)
        bytes [at - begin] = pattern_byte (is_wrong? 1 - file: file, at);
    block_data_store (kept->data, file * (uint64_t) FILE_ROOM + begin, end - begin, bytes, false);
}

static void
s_pin (const kept_t *kept, uint32_t file, size_t first, size_t count)
{
    static uint8_t bytes [FILE_ROOM];
    pins_file_t pins = { .data = kept->pinned, .number = file, .bytes = PLAY_FILE_BYTES };
    size_t begin = first * UNIT, end = (first + count) * UNIT;
    end = end < PLAY_FILE_BYTES? end: PLAY_FILE_BYTES;
    for (size_t at = begin; at < end; at++)
        bytes [at - begin] = pattern_byte (file, at);
    if (kept->pinned)
        pins_keep (&pins, begin, end - begin, bytes);
}

static size_t
s_unit (void)
{
    return (size_t) test_below (&s_random, UNITS);
}

static size_t
s_run (size_t unit)
{
    size_t run = 1 + (size_t) test_below (&s_random, 20);
    return run < UNITS - unit? run: UNITS - unit;
}

//  What a range has to read by its units: those from the first that is neither pinned nor kept to the last,
//  as pins and cache tell when they are asked one after the other.
static void
s_expect (const kept_t *kept, uint32_t file, uint64_t place, size_t span, size_t *pinned_p, size_t *kept_p)
{
    static uint8_t memory [FILE_ROOM];
    pins_file_t pins = { .data = kept->pinned, .number = file, .bytes = PLAY_FILE_BYTES };
    pins_gap_t gap = { .begin = 0, .end = span };
    if (kept->pinned)
        gap = pins_read (&pins, place, span, memory);
    *pinned_p = span - (gap.end - gap.begin);
    *kept_p = 0;
    if (gap.begin < gap.end) {
        block_data_gap_t rest = block_data_read (kept->data, file * (uint64_t) FILE_ROOM + place + gap.begin,
            gap.end - gap.begin, memory);
        *kept_p = gap.end - gap.begin - (rest.end - rest.begin);
    }
}

//  Guards: only what is neither pinned nor kept is read, whole units of it; then all of it is kept, and with
//  pins also pinned.
static void
test_only_what_is_nowhere_is_read (void **state)
{
    s_random = test_seed ();
    print_message ("seed %" PRIu64 "\n", s_random);
    for (size_t mode = 0; mode < WAYS * PLAY_MODE_COUNT; mode++)
        for (int round = 0; round < EFFORT (40); round++) {
            kept_t kept = s_begin (*state, mode / PLAY_MODE_COUNT);
            reader_t *reader = s_reader (*state, &kept, mode % PLAY_MODE_COUNT, 4);
            for (uint64_t runs = test_below (&s_random, 6); runs > 0; runs--) {
                size_t unit = s_unit (), other = s_unit ();
                s_keep (&kept, 1, unit, s_run (unit), false);
                s_pin (&kept, 1, other, s_run (other));
            }
            uint64_t offset = test_below (&s_random, PLAY_FILE_BYTES),
                bytes = 1 + test_below (&s_random, 150000);
            bytes = bytes < PLAY_FILE_BYTES - offset? bytes: PLAY_FILE_BYTES - offset;
            uint64_t place = offset / UNIT * UNIT;
            size_t span = reader_span (offset, bytes), pinned, there;
            span = span < PLAY_FILE_BYTES - place? span: PLAY_FILE_BYTES - place;
            for (int again = 0; reader && again < 2; again++) {
                s_expect (&kept, 1, place, span, &pinned, &there);
                if (again)
                    assert_int_equal (pinned + there, span);
                if (again && kept.pinned)
                    assert_int_equal (pinned, span);
                play_item_t item = { 0 };
                s_range (&item, &kept, 1, offset, bytes);
                s_read (reader, &item);
                assert_int_equal (item.request.rc, 0);
                assert_int_equal (item.request.pinned_bytes, pinned);
                assert_int_equal (item.request.cached_bytes, there);
                assert_int_equal (item.request.read_bytes, span - pinned - there);
                play_free (&item);
            }
            reader_destroy (&reader);
            s_end (&kept);
        }
}

//  Guards: so it is with many at once, which keep what others read.
static void
test_many_at_once (void **state)
{
    s_random = test_seed ();
    print_message ("seed %" PRIu64 "\n", s_random);
    for (size_t mode = 0; mode < WAYS * PLAY_MODE_COUNT; mode++) {
        kept_t kept = s_begin (*state, mode / PLAY_MODE_COUNT);
        reader_t *reader = s_reader (*state, &kept, mode % PLAY_MODE_COUNT, 8);
        static play_item_t items [RANGES_MAX];
        for (int round = 0; reader && round < EFFORT (20); round++) {
            for (size_t index = 0; index < RANGES_MAX; index++) {
                uint64_t offset = test_below (&s_random, PLAY_FILE_BYTES),
                    bytes = 1 + test_below (&s_random, 50000);
                bytes = bytes < PLAY_FILE_BYTES - offset? bytes: PLAY_FILE_BYTES - offset;
                if (test_below (&s_random, 4) == 0)
                    s_sample (&items [index], &kept, (uint32_t) test_below (&s_random, PLAY_SAMPLES));
                else
                    s_range (&items [index], &kept, (uint32_t) test_below (&s_random, PLAY_FILES), offset,
                        bytes);
                play_submit (reader, &items [index]);
            }
            assert_int_equal (play_finish (reader), 0);
            for (size_t index = 0; index < RANGES_MAX; index++) {
                assert_false (items [index].out);
                play_free (&items [index]);
            }
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Guards: what is kept is what comes, right or wrong, until it is read afresh; that replaces it.
static void
test_afresh_replaces_what_is_kept (void **state)
{
    for (size_t mode = 0; mode < 2 * PLAY_MODE_COUNT; mode++) {
        kept_t kept = s_begin (*state, mode < PLAY_MODE_COUNT? WITH_NOTHING: WITH_THREADS);
        reader_t *reader = s_reader (*state, &kept, mode % PLAY_MODE_COUNT, 4);
        s_keep (&kept, 0, 0, UNITS, true);
        for (int turn = 0; reader && turn < 3; turn++) {
            play_item_t item = { 0 };
            s_range (&item, &kept, 0, 50000, 12345);
            item.request.is_afresh = turn == 1;
            play_submit (reader, &item);
            while (!play_take (reader))
                reader_wait (reader, -1);
            assert_int_equal (item.request.rc, 0);
            assert_int_equal (item.request.cached_bytes > 0, turn != 1);
            assert_int_equal (item.request.read_bytes > 0, turn == 1);
            assert_int_equal (item.memory [item.request.skip], pattern_byte (turn == 0, 50000));
            assert_int_equal (item.memory [item.request.skip + 12344], pattern_byte (turn == 0, 62344));
            play_free (&item);
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Writes a sample's file as it is, at another time.
static void
s_touch (const play_world_t *world, uint32_t id)
{
    static time_t now = 1000;
    char path [PATH_MAX];
    pattern_write (play_sample_path (world, id, path), 100 + id, play_sample_bytes (id));
    now++;
    struct timespec times [2] = { { .tv_sec = now }, { .tv_sec = now } };
    assert_int_equal (utimensat (AT_FDCWD, path, times, 0), 0);
}

//  Guards: a sample's file is read once, and then neither opened nor read, by this server and by the next.  A
//  file that has changed since the walk is delivered as it is, and not kept.
static void
test_files (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < 2 * PLAY_MODE_COUNT; mode += 2) {
        kept_t kept = s_begin (world, mode < PLAY_MODE_COUNT? WITH_NOTHING: WITH_THREADS);
        reader_t *reader = s_reader (world, &kept, mode % PLAY_MODE_COUNT, 4);
        char path [PATH_MAX];
        for (int turn = 0; reader && turn < 5; turn++) {
            if (turn == 0)
                s_touch (world, 5);
            if (turn == 2)
                assert_int_equal (unlink (play_sample_path (world, 3, path)), 0);
            if (turn == 3) {
                s_touch (world, 3);
                catalogue_destroy (&kept.catalogue);
                s_open_catalogue (&kept);
            }
            for (uint32_t id = 0; id < PLAY_SAMPLES; id++) {
                size_t bytes = play_sample_bytes (id);
                play_item_t item = { 0 };
                s_sample (&item, &kept, id);
                s_read (reader, &item);
                //  5 changed after the walk, 3 before the second one.
                bool is_read = turn == 0 || (id == 5 && turn < 4) || (id == 3 && turn == 3);
                assert_int_equal (item.request.rc, 0);
                assert_int_equal (item.request.read_bytes, is_read? bytes: 0);
                assert_int_equal (item.request.cached_bytes, is_read? 0: bytes);
                play_free (&item);
            }
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Guards: whatever the n-th result is, a request has the right bytes or an error, and nothing that is kept
//  is wrong.
static void
test_faults (void **state)
{
    play_world_t *world = *state;
    static const int results [] = { PLAY_HALF, PLAY_NOTHING, -EIO, -EINTR, -EINVAL, -ENOMEM, -ESTALE };
    for (size_t mode = 0; mode < WAYS * PLAY_MODE_COUNT; mode++)
        for (size_t result = 0; result < sizeof results / sizeof *results; result++)
            for (unsigned int nth = 1, struck = 1; struck; nth++) {
                kept_t kept = s_begin (world, mode / PLAY_MODE_COUNT);
                reader_t *reader = s_reader (world, &kept, mode % PLAY_MODE_COUNT, 3);
                struck = reader != NULL;
                s_keep (&kept, 0, 5, 3, false);
                s_keep (&kept, 1, 1, 3, false);
                s_pin (&kept, 1, 0, 2);
                play_twist.countdown = nth;
                play_twist.result = results [result];
                for (int again = 0; reader && again < 2; again++) {
                    play_item_t items [4] = { 0 };
                    s_range (&items [0], &kept, 0, 3 * UNIT + 7, 4 * UNIT);
                    s_range (&items [1], &kept, 1, 100, 7 * UNIT);
                    s_range (&items [2], &kept, 1, PLAY_FILE_BYTES - 6000, 6000);
                    s_sample (&items [3], &kept, 3);
                    for (size_t index = 0; index < 4; index++)
                        play_submit (reader, &items [index]);
                    size_t bad = play_finish (reader);
                    assert_true (bad <= (again? 0: 1));
                    for (size_t index = 0; index < 4; index++)
                        play_free (&items [index]);
                    struck = again? struck: play_twist.struck;
                    memset (&play_twist, 0, sizeof play_twist);
                }
                reader_destroy (&reader);
                s_end (&kept);
            }
}

//  Ranges of file 0, of which all is kept, and of file 1, of which only the begin of each is.
static void
s_submit_together (reader_t *reader, const kept_t *kept, play_item_t items [TOGETHER])
{
    for (size_t index = 0; index < TOGETHER; index++) {
        uint32_t file = index % 2;
        items [index] = (play_item_t) { .out = false };
        s_range (&items [index], kept, file, index * 8 * UNIT + 100, 6 * UNIT);
        play_submit (reader, &items [index]);
    }
    assert_null (reader_take (reader));         //  they begin
}

static void
s_keep_together (const kept_t *kept, bool is_wrong)
{
    s_keep (kept, 0, 0, UNITS, is_wrong);
    for (size_t index = 1; index < TOGETHER; index += 2)
        s_keep (kept, 1, index * 8, 3, is_wrong);
}

static void
s_free_together (play_item_t items [TOGETHER])
{
    for (size_t index = 0; index < TOGETHER; index++) {
        assert_false (items [index].out);
        play_free (&items [index]);
    }
}

//  Guards: reads of the local disk are there together, more of them than the source's depth, and what is not
//  there is read of the source afterwards.
static void
test_reads_of_the_local_disk_are_together (void **state)
{
    for (size_t mode = 0; mode < RING_MODES; mode++) {
        kept_t kept = s_begin (*state, WITH_THREADS);
        reader_t *reader = s_reader (*state, &kept, mode, 2);
        play_item_t items [TOGETHER];
        s_keep_together (&kept, false);
        if (reader) {
            assert_int_equal (reader_local_depth (reader), 0);
            held_disk_hold (true);
            s_submit_together (reader, &kept, items);
            held_disk_wait_for_readers (TOGETHER);
            assert_null (reader_take (reader));
            assert_int_equal (reader_pending (reader), TOGETHER);
            assert_true (reader_local_depth (reader) >= TOGETHER);
            held_disk_hold (false);
            assert_int_equal (play_finish (reader), 0);
            for (size_t index = 0; index < TOGETHER; index++) {
                assert_int_equal (items [index].request.cached_bytes, (index % 2? 3: 7) * UNIT);
                assert_int_equal (items [index].request.read_bytes, (index % 2? 4: 0) * UNIT);
            }
            s_free_together (items);
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Guards: when the local disk hangs all comes from the source, and what the disk gives later, here the wrong
//  bytes, changes nothing.
static void
test_the_local_disk_hangs (void **state)
{
    for (size_t mode = 0; mode < RING_MODES; mode++) {
        kept_t kept = s_begin (*state, WITH_THREADS);
        reader_t *reader = s_reader (*state, &kept, mode, 4);
        block_cache_threads_t *threads = block_cache_threads (kept.cache);
        play_item_t items [TOGETHER];
        s_keep_together (&kept, true);
        if (reader) {
            held_disk_hold (true);
            block_cache_threads_set_slice (threads, QUICK_MS);
            s_submit_together (reader, &kept, items);
            assert_int_equal (play_finish (reader), 0);
            for (size_t index = 0; index < TOGETHER; index++)
                assert_int_equal (items [index].request.cached_bytes, 0);
            assert_true (block_cache_figures (kept.cache).times_aside > 0);
            held_disk_hold (false);
            block_cache_threads_settle (threads);
            for (size_t index = 0; index < TOGETHER; index++)
                play_check_bytes (&items [index]);
            s_free_together (items);
        }
        held_disk_hold (false);
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Guards: of requests that are cancelled while they are looked for, those that are on the local disk come,
//  and the others are read nowhere.
static void
test_cancelled_while_they_are_looked_for (void **state)
{
    for (size_t mode = 0; mode < RING_MODES; mode++) {
        kept_t kept = s_begin (*state, WITH_THREADS);
        reader_t *reader = s_reader (*state, &kept, mode, 4);
        play_item_t items [TOGETHER];
        s_keep_together (&kept, false);
        if (reader) {
            held_disk_hold (true);
            s_submit_together (reader, &kept, items);
            held_disk_wait_for_readers (TOGETHER);
            reader_cancel (reader);
            held_disk_hold (false);
            assert_int_equal (play_finish (reader), TOGETHER / 2);
            for (size_t index = 0; index < TOGETHER; index++) {
                assert_int_equal (items [index].request.rc, index % 2? -ECANCELED: 0);
                assert_int_equal (items [index].request.read_bytes, 0);
            }
            s_free_together (items);
            assert_int_equal (play_read_one (reader, 1, 100000, 50000), 0);
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

//  Guards: a ring that fails while requests are looked for loses none.
static void
test_the_ring_breaks_while_they_are_looked_for (void **state)
{
    for (size_t mode = 0; mode < RING_MODES; mode++) {
        kept_t kept = s_begin (*state, WITH_THREADS);
        reader_t *reader = s_reader (*state, &kept, mode, 4);
        play_item_t items [TOGETHER];
        s_keep_together (&kept, false);
        if (reader) {
            held_disk_hold (true);
            s_submit_together (reader, &kept, items);
            held_disk_wait_for_readers (TOGETHER);
            fault_arm (1, EPERM, false);
            reader_wait (reader, -1);
            assert_true (fault_disarm ());
            assert_false (reader_is_concurrent (reader));
            assert_int_equal (reader_pending (reader), TOGETHER);
            held_disk_hold (false);
            assert_int_equal (play_finish (reader), 0);
            s_free_together (items);
        }
        reader_destroy (&reader);
        s_end (&kept);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_only_what_is_nowhere_is_read, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_many_at_once, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_afresh_replaces_what_is_kept, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_files, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_faults, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_reads_of_the_local_disk_are_together, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_the_local_disk_hangs, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_cancelled_while_they_are_looked_for, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_the_ring_breaks_while_they_are_looked_for, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
