//  Reads many at once, in every mode that the machine offers: the right bytes, or an error where a file is
//  not what it was.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include "effort.h"
#include "pattern.h"
#include "reader_play.h"
#include "seed.h"

enum { RANGES_MAX = 64 };

//  Guards: any range of any length at any depth is right, and its figures are; the depth is kept to.
static void
test_ranges_hold_what_the_file_does (void **state)
{
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 3);
        uint64_t random = seed + mode;
        static play_item_t items [RANGES_MAX];
        for (int round = 0; reader && round < EFFORT (100); round++) {
            uint32_t depth = (uint32_t) (1 + test_below (&random, 20));
            reader_set_depth (reader, depth);
            size_t count = 1 + test_below (&random, RANGES_MAX);
            for (size_t index = 0; index < count; index++) {
                uint64_t offset = test_below (&random, 4)? test_below (&random, PLAY_FILE_BYTES)
                    : test_below (&random, PLAY_FILE_BYTES / 4096) * 4096;
                uint64_t bytes = 1 + test_below (&random, test_below (&random, 2)? 5000: 100000);
                if (bytes > PLAY_FILE_BYTES - offset)
                    bytes = PLAY_FILE_BYTES - offset;
                play_range (&items [index], (uint32_t) test_below (&random, PLAY_FILES), offset, bytes);
                play_submit (reader, &items [index]);
                if (test_below (&random, 8) == 0)
                    reader_wait (reader, -1);
                assert_true (reader_in_flight (reader) <= depth);
            }
            assert_int_equal (play_finish (reader), 0);
            for (size_t index = 0; index < count; index++) {
                const reader_request_t *request = &items [index].request;
                assert_false (items [index].out);
                assert_int_equal (request->rc, 0);
                assert_true (request->wait_ns > 0 && request->wait_ns < 60000000000u);
                assert_in_range (request->in_flight, 1, depth);
                assert_int_equal (request->read_bytes, play_read_bytes (reader, request->file,
                    request->offset, request->bytes));
                play_free (&items [index]);
            }
        }
        reader_destroy (&reader);
    }
}

//  Guards: the file's last byte can be read, the one behind it is an error, not a wait nor a wrong byte.
static void
test_end_of_file (void **state)
{
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES - 1, 1), 0);
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES - 9000, 9000), 0);
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES - 1, 2), -CATALOGUE_CHANGED);
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES - 9000, 9001), -CATALOGUE_CHANGED);
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES, 1), -CATALOGUE_CHANGED);
        assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES + 100000, 5000), -CATALOGUE_CHANGED);
        assert_int_equal (play_read_one (reader, 0, 0, 10), 0);
        reader_destroy (&reader);
    }
}

//  Guards: a file cut while it is open is told as such.
static void
test_file_that_shrinks (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        pattern_write (world->paths [1], 1, PLAY_FILE_BYTES);
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        assert_int_equal (play_read_one (reader, 1, 20000, 30000), 0);
        assert_int_equal (truncate (world->paths [1], 30001), 0);
        assert_int_equal (play_read_one (reader, 1, 20000, 10001), 0);
        assert_int_equal (play_read_one (reader, 1, 20000, 30000), -CATALOGUE_CHANGED);
        assert_int_equal (truncate (world->paths [1], 0), 0);
        assert_int_equal (play_read_one (reader, 1, 20000, 30000), -CATALOGUE_CHANGED);
        assert_int_equal (play_read_one (reader, 0, 20000, 30000), 0);
        reader_destroy (&reader);
    }
}

//  The first byte of a file's range that lies behind its first block; afresh: opened anew.
static uint8_t
s_read_byte (reader_t *reader, uint32_t file, bool is_afresh)
{
    play_item_t item = { 0 };
    play_range (&item, file, 5000, 1);
    item.request.is_afresh = is_afresh;
    item.out = true;
    reader_submit (reader, &item.request);
    while (!play_take (reader))
        reader_wait (reader, -1);
    assert_int_equal (item.request.rc, 0);
    uint8_t byte = item.memory [item.request.skip];
    play_free (&item);
    return byte;
}

//  What the reader has open is another file from now on.
static void
s_spoil_descriptor (reader_t *reader, uint32_t file, const char *path)
{
    int descriptor = reader_file (reader, file)->descriptor, flags = fcntl (descriptor, F_GETFL),
        other = open (path, O_RDONLY | O_CLOEXEC | (flags & O_DIRECT));
    assert_true (other >= 0);
    assert_int_equal (dup3 (other, descriptor, O_CLOEXEC), descriptor);
    close (other);
}

//  Guards: a file that is read afresh is opened anew by its path, for all later reads of it too; unless
//  another file has the path by then.
static void
test_afresh_is_opened_anew (void **state)
{
    play_world_t *world = *state;
    assert_true (pattern_byte (0, 5000) != pattern_byte (1, 5000));
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        s_spoil_descriptor (reader, 1, world->paths [0]);
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (0, 5000));
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (1, 5000));
        char other [PATH_MAX + 8];
        snprintf (other, sizeof other, "%s.new", world->paths [1]);
        pattern_write (other, 77, PLAY_FILE_BYTES);
        assert_int_equal (rename (other, world->paths [1]), 0);
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        assert_int_equal (unlink (world->paths [1]), 0);
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        pattern_write (world->paths [1], 1, PLAY_FILE_BYTES);
        reader_destroy (&reader);
    }
}

//  Guards: so it is where the ring cannot be told of it; and what was opened for it is closed.
static void
test_afresh_beside_a_ring_that_cannot_be_told (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        s_spoil_descriptor (reader, 1, world->paths [0]);
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (0, 5000));
        size_t before = scratch_descriptors ();
        play_refuse_update = true;
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        play_refuse_update = false;
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (1, 5000));
        assert_int_equal (scratch_descriptors (), before);
        reader_destroy (&reader);
    }
}

//  Guards: a file that one thread reads past the page cache no more, while another opens it anew as it was,
//  is read all the same.
static void
test_direct_is_left_while_it_is_opened_anew (void **state)
{
    play_world_t *world = *state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        atomic_store (&reader_file (reader, 0)->direct, false);
        assert_int_equal (play_read_one (reader, 0, 5001, 3001), 0);
        assert_int_equal (play_read_one (reader, 1, 5001, 3001), 0);
        reader_destroy (&reader);
    }
}

//  Guards: what cannot be opened is refused at once, with its code.
static void
test_missing_file (void **state)
{
    (void) state;
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader;
        reader_options_t options = { .depth = 1, .no_ring = PLAY_MODES [mode].no_ring,
            .no_direct = PLAY_MODES [mode].no_direct };
        assert_int_equal (reader_new (&reader, &options), 0);
        uint32_t file;
        assert_int_equal (reader_add (reader, "/nowhere/at/all", &file), -ENOENT);
        reader_destroy (&reader);
    }
}

//  Guards: a file system that refuses O_DIRECT, when opened or when read, is read through the page cache; and
//  says so.
static void
test_direct_refused (void **state)
{
    play_world_t *world = *state;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        play_mode_t buffered = { .name = "refused at opening", .no_ring = no_ring, .no_direct = true };
        play_refuse_direct = true;
        reader_t *reader = play_reader (world, &buffered, 4);
        play_refuse_direct = false;
        assert_true (reader || !no_ring);               //  without a ring nothing can be missing
        if (reader)
            assert_int_equal (play_read_one (reader, 0, 5, 100000), 0);
        reader_destroy (&reader);
        play_mode_t direct = { .name = "refused at reading", .no_ring = no_ring };
        reader = play_reader (world, &direct, 4);
        if (!reader)
            continue;
        play_item_t items [8] = { 0 };
        play_twist.countdown = 1;
        play_twist.result = -EINVAL;
        play_twist.forever = play_twist.direct_only = true;
        for (size_t index = 0; index < 8; index++) {
            play_range (&items [index], 0, 1000 * index + 7, 30000);
            play_submit (reader, &items [index]);
        }
        assert_int_equal (play_finish (reader), 0);
        assert_true (play_twist.struck);
        memset (&play_twist, 0, sizeof play_twist);
        assert_false (reader_is_direct (reader, 0));
        assert_true (reader_is_direct (reader, 1));
        for (size_t index = 0; index < 8; index++)
            play_free (&items [index]);
        reader_destroy (&reader);
    }
}

//  Guards: direct reads take blocks as small as the file system says; where it refuses them all the same,
//  larger ones, and only then the page cache.
static void
test_small_blocks (void **state)
{
#ifdef STATX_DIOALIGN
    play_world_t *world = *state;
    struct statx status = { .stx_mask = 0 };
    assert_int_equal (statx (AT_FDCWD, world->paths [0], 0, STATX_DIOALIGN, &status), 0);
    uint32_t align = status.stx_mask & STATX_DIOALIGN? status.stx_dio_offset_align: 0;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        play_mode_t direct = { .name = "small blocks", .no_ring = no_ring };
        reader_t *reader = play_reader (world, &direct, 4);
        if (!reader)
            continue;
        bool is_small = align >= 512 && align < READER_ALIGN_BYTES && status.stx_dio_mem_align <= align;
        const struct reader_file *file = reader_file (reader, 0);
        assert_int_equal (atomic_load (&file->align), is_small? align: READER_ALIGN_BYTES);
        assert_int_equal (play_read_one (reader, 0, 70001, 3), 0);
        for (int refusals = 1; is_small && refusals <= 2; refusals++) {
            play_twist.countdown = 1;
            play_twist.result = -EINVAL;
            assert_int_equal (play_read_one (reader, 0, 5001, 100000), 0);
            assert_true (play_twist.struck);
            memset (&play_twist, 0, sizeof play_twist);
            assert_int_equal (atomic_load (&file->align), READER_ALIGN_BYTES);
            assert_true (reader_is_direct (reader, 0) == (refusals == 1));
        }
        reader_destroy (&reader);
    }
#else
    (void) state;
#endif
}

//  Guards: a file system that may know no O_DIRECT at all; whatever it says, the bytes are right.
static void
test_file_in_memory (void **state)
{
    play_world_t *world = *state;
    char path [PATH_MAX] = "/dev/shm/reader-test-XXXXXX", before [PATH_MAX];
    int fd = mkstemp (path);
    if (fd < 0) {
        print_message ("skipped here: no /dev/shm\n");
        return;
    }
    close (fd);
    pattern_write (path, 0, PLAY_FILE_BYTES);
    strcpy (before, world->paths [0]);
    strcpy (world->paths [0], path);
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (world, &PLAY_MODES [mode], 4);
        if (reader) {
            assert_int_equal (play_read_one (reader, 0, 5, 100000), 0);
            assert_int_equal (play_read_one (reader, 0, PLAY_FILE_BYTES - 1, 2), -CATALOGUE_CHANGED);
        }
        reader_destroy (&reader);
    }
    strcpy (world->paths [0], before);
    unlink (path);
}

//  Files of a catalogue, all at once, beside catalogue_read of each.
static void
s_compare (play_world_t *world)
{
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        play_mode_t mode = { .name = "files", .no_ring = no_ring, .no_direct = true };
        reader_t *reader = play_reader (world, &mode, 4);
        if (!reader)
            continue;
        play_item_t items [PLAY_SAMPLES] = { 0 };
        for (uint32_t id = 0; id < PLAY_SAMPLES; id++) {
            play_sample (&items [id], world->catalogue, id);
            play_submit (reader, &items [id]);
        }
        play_finish (reader);
        catalogue_buffer_t buffer = { 0 };
        for (uint32_t id = 0; id < PLAY_SAMPLES; id++) {
            assert_false (items [id].out);
            int rc = catalogue_read (world->catalogue, id, 0, &buffer);
            assert_int_equal (items [id].request.rc, rc == -ESTALE? -CATALOGUE_CHANGED: rc);
            assert_int_equal (items [id].buffer.size, buffer.size);
            assert_memory_equal (items [id].buffer.bytes? items [id].buffer.bytes: (uint8_t *) "",
                buffer.bytes? buffer.bytes: (uint8_t *) "", buffer.size);
            play_free (&items [id]);
        }
        free (buffer.bytes);
        reader_destroy (&reader);
    }
}

//  Guards: a plain catalogue's files are read as catalogue_read does, the bad ones included.
static void
test_files_as_catalogue_read (void **state)
{
    play_world_t *world = *state;
    char path [PATH_MAX];
    s_compare (world);
    unlink (play_sample_path (world, 0, path));                                 //  missing
    unlink (play_sample_path (world, 2, path));
    assert_int_equal (mkfifo (path, 0600), 0);
    unlink (play_sample_path (world, 3, path));
    assert_int_equal (mkdir (path, 0700), 0);
    assert_int_equal (truncate (play_sample_path (world, 4, path), 4), 0);      //  smaller
    unlink (play_sample_path (world, 5, path));
    assert_int_equal (symlink ("nowhere", path), 0);
    assert_int_equal (chmod (play_sample_path (world, 6, path), 0), 0);         //  unreadable, except to root
    s_compare (world);
    pattern_write (play_sample_path (world, 4, path), 104, 6);                  //  larger
    assert_int_equal (truncate (play_sample_path (world, 1, path), 1), 0);      //  no longer empty
    s_compare (world);
}

//  Guards: what was too large when it was catalogued is not read.
static void
test_file_too_large (void **state)
{
    play_world_t *world = *state;
    char path [PATH_MAX], error [1024];
    assert_int_equal (truncate (play_sample_path (world, 3, path), (off_t) CATALOGUE_SAMPLE_BYTES_MAX + 1),
        0);
    catalogue_destroy (&world->catalogue);
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    assert_int_equal (catalogue_open (&world->catalogue, &(catalogue_options_t) { .path = path }, error,
        sizeof error), 0);
    catalogue_buffer_t buffer = { 0 };
    assert_int_equal (catalogue_read (world->catalogue, 3, 0, &buffer), -EFBIG);
    s_compare (world);
}

static void *
s_ring_bell (void *argument)
{
    usleep (20000);
    uint64_t one = 1;
    return write (*(int *) argument, &one, sizeof one) == sizeof one? argument: NULL;
}

//  Guards: the wake descriptor ends a wait, again and again, before it and during it; without one a wait for
//  nothing ends.
static void
test_wake (void **state)
{
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 4);
        if (!reader)
            continue;
        int bell = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert_true (bell >= 0);
        for (int round = 0; round < 5; round++) {
            pthread_t thread;
            assert_int_equal (pthread_create (&thread, NULL, s_ring_bell, &bell), 0);
            struct pollfd item = { .fd = bell, .events = POLLIN };
            do
                reader_wait (reader, bell);
            while (poll (&item, 1, 0) == 0);
            reader_wait (reader, bell);                 //  still readable
            pthread_join (thread, NULL);
            uint64_t sum;
            assert_int_equal (read (bell, &sum, sizeof sum), sizeof sum);
            assert_int_equal (play_read_one (reader, 0, 77, 5000), 0);
            reader_wait (reader, -1);
        }
        reader_destroy (&reader);
        close (bell);
    }
}

//  Guards: what waits comes back, what is in flight is finished.
static void
test_cancel (void **state)
{
    for (size_t mode = 0; mode < PLAY_MODE_COUNT; mode++) {
        reader_t *reader = play_reader (*state, &PLAY_MODES [mode], 2);
        if (!reader)
            continue;
        play_item_t items [10] = { 0 };
        for (size_t index = 0; index < 10; index++) {
            play_range (&items [index], 1, 4096 * index, 100);
            play_submit (reader, &items [index]);
        }
        play_item_t *first;
        while (!(first = play_take (reader)))
            reader_wait (reader, -1);
        assert_int_equal (first->request.rc, 0);
        reader_cancel (reader);
        assert_in_range (play_finish (reader), 4, 9);
        for (size_t index = 0; index < 10; index++) {
            assert_false (items [index].out);
            assert_true (items [index].request.rc == 0 || items [index].request.rc == -ECANCELED);
            play_free (&items [index]);
        }
        reader_destroy (&reader);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_ranges_hold_what_the_file_does, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_end_of_file, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_file_that_shrinks, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_missing_file, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_afresh_is_opened_anew, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_afresh_beside_a_ring_that_cannot_be_told, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_direct_is_left_while_it_is_opened_anew, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_direct_refused, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_small_blocks, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_file_in_memory, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_files_as_catalogue_read, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_file_too_large, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_wake, play_begin, play_end),
        cmocka_unit_test_setup_teardown (test_cancel, play_begin, play_end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
