//  Reads many at once, in every mode that the machine offers: the right bytes or an error, whatever the disk,
//  the ring or a system call does.

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
#include "reader_state.h"
#include "pattern.h"
#include "scratch.h"
#include "seed.h"

//  -- results and calls that fail when told to

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (void *, NULL, malloc, (size_t size), (size))
FAULT_CALL (void *, NULL, realloc, (void *items, size_t size), (items, size))
FAULT_CALL (int, -1, fstat, (int fd, struct stat *status), (fd, status))
FAULT_CALL (int, -fault.error, io_uring_queue_init,
    (unsigned int entries, struct io_uring *ring, unsigned int flags), (entries, ring, flags))
FAULT_CALL (int, -fault.error, io_uring_register_files,
    (struct io_uring *ring, const int *files, unsigned int count), (ring, files, count))
FAULT_CALL (int, -fault.error, io_uring_submit, (struct io_uring *ring), (ring))
FAULT_CALL (int, -fault.error, io_uring_submit_and_wait, (struct io_uring *ring, unsigned int count),
    (ring, count))

//  open refuses O_DIRECT.
static bool refuse_direct;

int __real_open (const char *path, int flags, ...);
int __wrap_open (const char *path, int flags, ...);
int
__wrap_open (const char *path, int flags, ...)
{
    va_list rest;
    va_start (rest, flags);
    int mode = flags & O_CREAT? va_arg (rest, int): 0;
    va_end (rest);
    if (refuse_direct && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return fault_strikes ()? -1: __real_open (path, flags, mode);
}

//  What becomes of a result: -errno, or one of these.
enum { HALF = 1, NOTHING = 2 };

static struct {
    unsigned int countdown;             //  0: not armed, or struck
    int result;
    bool forever, struck;
    bool direct_only;
    bool halting;                   //  every other read is interrupted, the others bring HALT_BYTES at most
    unsigned int reads;             //  while halting
} twist;

enum { HALT_BYTES = 4096 };

static bool
s_twists (const reader_request_t *request)
{
    if (twist.direct_only && !(request->progress.step == READER_READ && request->progress.direct))
        return false;
    if (twist.countdown == 0 && !(twist.struck && twist.forever))
        return false;
    if (twist.countdown && --twist.countdown)
        return false;
    return twist.struck = true;
}

//  Nothing came, so nothing is there.
static void
s_spoil (const reader_request_t *request, size_t bytes)
{
    const reader_progress_t *progress = &request->progress;
    size_t at = progress->direct? progress->done / 4096 * 4096: progress->done;
    if (!progress->direct && at < request->skip)
        at = request->skip;
    memset ((request->kind == READER_RANGE? request->memory: request->buffer->bytes) + at, 0xee, bytes);
}

bool __real_reader_advance (reader_t *self, reader_request_t *request, int result);
bool __wrap_reader_advance (reader_t *self, reader_request_t *request, int result);
bool
__wrap_reader_advance (reader_t *self, reader_request_t *request, int result)
{
    bool reads = request->progress.step == READER_READ;
    if (twist.halting && reads && result > 0) {
        bool interrupted = ++twist.reads % 2 == 1;
        if (interrupted)
            s_spoil (request, (size_t) result);
        result = interrupted? -EINTR: result < HALT_BYTES? result: HALT_BYTES;
    }
    else
    if (s_twists (request) && (reads || twist.result < 0)) {
        if (request->progress.step == READER_OPEN && result >= 0)
            close (result);
        if (reads && result > 0 && twist.result != HALF)
            s_spoil (request, (size_t) result);
        result = twist.result == HALF? (result > 1? result / 2: result): twist.result == NOTHING? 0:
            twist.result;
    }
    return __real_reader_advance (self, request, result);
}


//  -- files and modes

typedef struct {
    const char *name;
    bool no_ring, no_direct;
} mode_type_t;

static const mode_type_t MODES [] = {
    { "io_uring, O_DIRECT", false, false },
    { "io_uring, buffered", false, true },
    { "preadv, O_DIRECT", true, false },
    { "preadv, buffered", true, true }
};
enum { MODE_COUNT = sizeof MODES / sizeof MODES [0] };

enum {
    FILES = 2,
    //  Files that end in the middle of a block.
    FILE_BYTES = 300 * 1024 + 1234,
    RANGES_MAX = 64,
    SAMPLES = 7
};

typedef struct {
    scratch_t scratch;
    char paths [FILES] [PATH_MAX];
    catalogue_t *catalogue;
} world_t;

static size_t
s_sample_bytes (uint32_t id)
{
    static const size_t bytes [SAMPLES] = { 1, 0, 4096, 70000, 5, 12345, 8192 };
    return bytes [id];
}

static char *
s_sample_path (const world_t *world, uint32_t id, char *path)
{
    snprintf (path, PATH_MAX, "%s/data/class/%u.jpg", world->scratch.path, id);
    return path;
}

static int
begin (void **state)
{
    world_t *world = calloc (1, sizeof *world);
    *state = world;
    alarm (300);                        //  what hangs fails
    if (!world || !scratch_begin (&world->scratch))
        return -1;
    char path [PATH_MAX];
    for (uint32_t file = 0; file < FILES; file++) {
        snprintf (world->paths [file], PATH_MAX, "%s/volume-%u", world->scratch.path, file);
        pattern_write (world->paths [file], file, FILE_BYTES);
    }
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/data/class", world->scratch.path);
    mkdir (path, 0700);
    for (uint32_t id = 0; id < SAMPLES; id++)
        pattern_write (s_sample_path (world, id, path), 100 + id, s_sample_bytes (id));
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    char error [1024];
    return catalogue_open (&world->catalogue, &(catalogue_options_t) { .path = path }, error, sizeof error);
}

static int
end (void **state)
{
    world_t *world = *state;
    fault_disarm ();
    memset (&twist, 0, sizeof twist);
    refuse_direct = false;
    catalogue_destroy (&world->catalogue);
    bool clean = scratch_end (&world->scratch);
    free (world);
    return clean? 0: -1;
}

//  A reader of both files; NULL, and it is said: this machine does not have the mode.
static reader_t *
s_reader (world_t *world, const mode_type_t *mode, uint32_t depth)
{
    reader_t *reader;
    reader_options_t options = { .depth = depth, .no_ring = mode->no_ring,
        .no_direct = mode->no_direct && !refuse_direct };
    assert_int_equal (reader_new (&reader, &options), 0);
    bool there = mode->no_ring || reader_has_ring (reader);
    for (uint32_t file = 0; file < FILES; file++) {
        uint32_t number;
        assert_int_equal (reader_add (reader, world->paths [file], &number), 0);
        assert_int_equal (number, file);
        there = there && reader_is_direct (reader, file) == !mode->no_direct;
    }
    if (!there) {
        print_message ("skipped here: %s (%s)\n", mode->name, reader_mode (reader));
        reader_destroy (&reader);
    }
    return reader;
}


//  -- requests

typedef struct {
    reader_request_t request;
    catalogue_buffer_t buffer;
    uint8_t *memory;
    bool out;
} item_t;

static void
s_range (item_t *item, uint32_t file, uint64_t offset, size_t bytes)
{
    size_t span = reader_span (offset, bytes);
    assert_true (span >= bytes && span % READER_ALIGN_BYTES == 0);
    item->memory = aligned_alloc (READER_ALIGN_BYTES, span);
    assert_non_null (item->memory);
    memset (item->memory, 0xee, span);
    item->request = (reader_request_t) { .kind = READER_RANGE, .user = item, .file = file, .offset = offset,
        .bytes = bytes, .memory = item->memory };
}

static void
s_sample (item_t *item, const catalogue_t *catalogue, uint32_t id)
{
    item->request = (reader_request_t) { .kind = READER_FILE, .user = item, .catalogue = catalogue, .id = id,
        .buffer = &item->buffer };
}

static void
s_submit (reader_t *reader, item_t *item)
{
    item->out = true;
    reader_submit (reader, &item->request);
}

static void
s_free (item_t *item)
{
    free (item->memory);
    free (item->buffer.bytes);
    memset (item, 0, sizeof *item);
}

//  The bytes of a request that went well.
static void
s_check_bytes (const item_t *item)
{
    const reader_request_t *request = &item->request;
    bool is_range = request->kind == READER_RANGE;
    uint32_t file = is_range? request->file: 100 + request->id;
    uint64_t offset = is_range? request->offset: 0;
    size_t bytes = is_range? request->bytes: s_sample_bytes (request->id);
    const uint8_t *found = is_range? request->memory + request->skip: request->buffer->bytes;
    if (!is_range)
        assert_int_equal (request->buffer->size, bytes);
    for (size_t at = 0; at < bytes; at++)
        if (found [at] != pattern_byte (file, offset + at))
            fail_msg ("file %u, offset %zu of %zu after %zu: a wrong byte", file, at, bytes, (size_t) offset);
    assert_true (request->read_bytes >= bytes);
}

static item_t *
s_take (reader_t *reader)
{
    reader_request_t *request = reader_take (reader);
    item_t *item = request? request->user: NULL;
    if (item) {
        assert_true (item->out);
        item->out = false;
    }
    return item;
}

//  Waits for all; how many have a result other than 0.
static size_t
s_finish (reader_t *reader)
{
    size_t bad = 0;
    for (;;) {
        item_t *item = s_take (reader);
        if (item) {
            if (item->request.rc == 0)
                s_check_bytes (item);
            else
                bad++;
        }
        else
        if (reader_pending (reader) == 0)
            return bad;
        else
            reader_wait (reader, -1);
    }
}

//  One range, now: its rc.
static int
s_read_one (reader_t *reader, uint32_t file, uint64_t offset, size_t bytes)
{
    item_t item = { 0 };
    s_range (&item, file, offset, bytes);
    s_submit (reader, &item);
    s_finish (reader);
    assert_false (item.out);
    int rc = item.request.rc;
    s_free (&item);
    return rc;
}


//  -- cases

//  Guards: any range of any length at any depth is right, and its figures are; the depth is kept to.
static void
test_ranges_hold_what_the_file_does (void **state)
{
    uint64_t seed = test_seed ();
    print_message ("seed %" PRIu64 "\n", seed);
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (*state, &MODES [mode], 3);
        uint64_t random = seed + mode;
        static item_t items [RANGES_MAX];
        for (int round = 0; reader && round < EFFORT (100); round++) {
            uint32_t depth = (uint32_t) (1 + test_below (&random, 20));
            reader_set_depth (reader, depth);
            size_t count = 1 + test_below (&random, RANGES_MAX);
            for (size_t index = 0; index < count; index++) {
                uint64_t offset = test_below (&random, 4)? test_below (&random, FILE_BYTES)
                    : test_below (&random, FILE_BYTES / 4096) * 4096;
                uint64_t bytes = 1 + test_below (&random, test_below (&random, 2)? 5000: 100000);
                if (bytes > FILE_BYTES - offset)
                    bytes = FILE_BYTES - offset;
                s_range (&items [index], (uint32_t) test_below (&random, FILES), offset, bytes);
                s_submit (reader, &items [index]);
                if (test_below (&random, 8) == 0)
                    reader_wait (reader, -1);
                assert_true (reader->in_flight <= depth);
            }
            assert_int_equal (s_finish (reader), 0);
            for (size_t index = 0; index < count; index++) {
                const reader_request_t *request = &items [index].request;
                assert_false (items [index].out);
                assert_int_equal (request->rc, 0);
                assert_true (request->wait_ns > 0 && request->wait_ns < 60000000000u);
                assert_in_range (request->in_flight, 1, depth);
                size_t span = reader_span (request->offset, request->bytes);
                bool ends = request->offset / 4096 * 4096 + span > FILE_BYTES;
                assert_int_equal (request->read_bytes, MODES [mode].no_direct? request->bytes
                    : ends? FILE_BYTES - request->offset / 4096 * 4096: span);
                s_free (&items [index]);
            }
        }
        reader_destroy (&reader);
    }
}

//  Guards: the file's last byte can be read, the one behind it is an error, not a wait nor a wrong byte.
static void
test_end_of_file (void **state)
{
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (*state, &MODES [mode], 4);
        if (!reader)
            continue;
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES - 1, 1), 0);
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES - 9000, 9000), 0);
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES - 1, 2), -CATALOGUE_CHANGED);
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES - 9000, 9001), -CATALOGUE_CHANGED);
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES, 1), -CATALOGUE_CHANGED);
        assert_int_equal (s_read_one (reader, 0, FILE_BYTES + 100000, 5000), -CATALOGUE_CHANGED);
        assert_int_equal (s_read_one (reader, 0, 0, 10), 0);
        reader_destroy (&reader);
    }
}

//  Guards: a file cut while it is open is told as such.
static void
test_file_that_shrinks (void **state)
{
    world_t *world = *state;
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        pattern_write (world->paths [1], 1, FILE_BYTES);
        reader_t *reader = s_reader (world, &MODES [mode], 4);
        if (!reader)
            continue;
        assert_int_equal (s_read_one (reader, 1, 20000, 30000), 0);
        assert_int_equal (truncate (world->paths [1], 30001), 0);
        assert_int_equal (s_read_one (reader, 1, 20000, 10001), 0);
        assert_int_equal (s_read_one (reader, 1, 20000, 30000), -CATALOGUE_CHANGED);
        assert_int_equal (truncate (world->paths [1], 0), 0);
        assert_int_equal (s_read_one (reader, 1, 20000, 30000), -CATALOGUE_CHANGED);
        assert_int_equal (s_read_one (reader, 0, 20000, 30000), 0);
        reader_destroy (&reader);
    }
}

//  The first byte of a file's range that lies behind its first block; afresh: opened anew.
static uint8_t
s_read_byte (reader_t *reader, uint32_t file, bool is_afresh)
{
    item_t item = { 0 };
    s_range (&item, file, 5000, 1);
    item.request.is_afresh = is_afresh;
    item.out = true;
    reader_submit (reader, &item.request);
    while (!s_take (reader))
        reader_wait (reader, -1);
    assert_int_equal (item.request.rc, 0);
    uint8_t byte = item.memory [item.request.skip];
    s_free (&item);
    return byte;
}

//  What the reader has open is another file from now on.
static void
s_spoil_descriptor (reader_t *reader, uint32_t file, const char *path)
{
    int flags = fcntl (reader->files [file].descriptor, F_GETFL),
        other = open (path, O_RDONLY | O_CLOEXEC | (flags & O_DIRECT));
    assert_true (other >= 0);
    assert_int_equal (dup3 (other, reader->files [file].descriptor, O_CLOEXEC),
        reader->files [file].descriptor);
    close (other);
}

//  Guards: what is read afresh is opened anew by its path, for all who read it from then on; unless another
//  file has the path by then.
static void
test_afresh_is_opened_anew (void **state)
{
    world_t *world = *state;
    assert_true (pattern_byte (0, 5000) != pattern_byte (1, 5000));
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (world, &MODES [mode], 4);
        if (!reader)
            continue;
        s_spoil_descriptor (reader, 1, world->paths [0]);
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (0, 5000));
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        assert_int_equal (s_read_byte (reader, 1, false), pattern_byte (1, 5000));
        char other [PATH_MAX + 8];
        snprintf (other, sizeof other, "%s.new", world->paths [1]);
        pattern_write (other, 77, FILE_BYTES);
        assert_int_equal (rename (other, world->paths [1]), 0);
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        assert_int_equal (unlink (world->paths [1]), 0);
        assert_int_equal (s_read_byte (reader, 1, true), pattern_byte (1, 5000));
        pattern_write (world->paths [1], 1, FILE_BYTES);
        reader_destroy (&reader);
    }
}

//  Guards: a file that one thread reads past the page cache no more, while another opens it anew as it was,
//  is read all the same.
static void
test_direct_is_left_while_it_is_opened_anew (void **state)
{
    world_t *world = *state;
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (world, &MODES [mode], 4);
        if (!reader)
            continue;
        atomic_store (&reader->files [0].direct, false);
        assert_int_equal (s_read_one (reader, 0, 5001, 3001), 0);
        assert_int_equal (s_read_one (reader, 1, 5001, 3001), 0);
        reader_destroy (&reader);
    }
}

//  Guards: what cannot be opened is refused at once, with its code.
static void
test_missing_file (void **state)
{
    (void) state;
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader;
        reader_options_t options = { .depth = 1, .no_ring = MODES [mode].no_ring,
            .no_direct = MODES [mode].no_direct };
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
    world_t *world = *state;
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        mode_type_t buffered = { .name = "refused at opening", .no_ring = no_ring, .no_direct = true };
        refuse_direct = true;
        reader_t *reader = s_reader (world, &buffered, 4);
        refuse_direct = false;
        if (reader)
            assert_int_equal (s_read_one (reader, 0, 5, 100000), 0);
        reader_destroy (&reader);
        mode_type_t direct = { .name = "refused at reading", .no_ring = no_ring };
        reader = s_reader (world, &direct, 4);
        if (!reader)
            continue;
        item_t items [8] = { 0 };
        twist.countdown = 1;
        twist.result = -EINVAL;
        twist.forever = twist.direct_only = true;
        for (size_t index = 0; index < 8; index++) {
            s_range (&items [index], 0, 1000 * index + 7, 30000);
            s_submit (reader, &items [index]);
        }
        assert_int_equal (s_finish (reader), 0);
        assert_true (twist.struck);
        memset (&twist, 0, sizeof twist);
        assert_false (reader_is_direct (reader, 0));
        assert_true (reader_is_direct (reader, 1));
        for (size_t index = 0; index < 8; index++)
            s_free (&items [index]);
        reader_destroy (&reader);
    }
}

//  Guards: a file system that may know no O_DIRECT at all; whatever it says, the bytes are right.
static void
test_file_in_memory (void **state)
{
    world_t *world = *state;
    char path [PATH_MAX] = "/dev/shm/tureen-test-XXXXXX", before [PATH_MAX];
    int fd = mkstemp (path);
    if (fd < 0) {
        print_message ("skipped here: no /dev/shm\n");
        return;
    }
    close (fd);
    pattern_write (path, 0, FILE_BYTES);
    strcpy (before, world->paths [0]);
    strcpy (world->paths [0], path);
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (world, &MODES [mode], 4);
        if (reader) {
            assert_int_equal (s_read_one (reader, 0, 5, 100000), 0);
            assert_int_equal (s_read_one (reader, 0, FILE_BYTES - 1, 2), -CATALOGUE_CHANGED);
        }
        reader_destroy (&reader);
    }
    strcpy (world->paths [0], before);
    unlink (path);
}

//  Files of a catalogue, all at once, beside catalogue_read of each.
static void
s_compare (world_t *world)
{
    for (int no_ring = 0; no_ring < 2; no_ring++) {
        mode_type_t mode = { .name = "files", .no_ring = no_ring, .no_direct = true };
        reader_t *reader = s_reader (world, &mode, 4);
        if (!reader)
            continue;
        item_t items [SAMPLES] = { 0 };
        for (uint32_t id = 0; id < SAMPLES; id++) {
            s_sample (&items [id], world->catalogue, id);
            s_submit (reader, &items [id]);
        }
        s_finish (reader);
        catalogue_buffer_t buffer = { 0 };
        for (uint32_t id = 0; id < SAMPLES; id++) {
            assert_false (items [id].out);
            int rc = catalogue_read (world->catalogue, id, 0, &buffer);
            assert_int_equal (items [id].request.rc, rc == -ESTALE? -CATALOGUE_CHANGED: rc);
            assert_int_equal (items [id].buffer.size, buffer.size);
            assert_memory_equal (items [id].buffer.bytes? items [id].buffer.bytes: (uint8_t *) "",
                buffer.bytes? buffer.bytes: (uint8_t *) "", buffer.size);
            s_free (&items [id]);
        }
        free (buffer.bytes);
        reader_destroy (&reader);
    }
}

//  Guards: a plain catalogue's files are read as catalogue_read does, the bad ones included.
static void
test_files_as_catalogue_read (void **state)
{
    world_t *world = *state;
    char path [PATH_MAX];
    s_compare (world);
    unlink (s_sample_path (world, 0, path));                                    //  missing
    unlink (s_sample_path (world, 2, path));
    assert_int_equal (mkfifo (path, 0600), 0);
    unlink (s_sample_path (world, 3, path));
    assert_int_equal (mkdir (path, 0700), 0);
    assert_int_equal (truncate (s_sample_path (world, 4, path), 4), 0);         //  smaller
    unlink (s_sample_path (world, 5, path));
    assert_int_equal (symlink ("nowhere", path), 0);
    assert_int_equal (chmod (s_sample_path (world, 6, path), 0), 0);            //  unreadable, except to root
    s_compare (world);
    pattern_write (s_sample_path (world, 4, path), 104, 6);                           //  larger
    assert_int_equal (truncate (s_sample_path (world, 1, path), 1), 0);         //  no longer empty
    s_compare (world);
}

//  Guards: what was too large when it was catalogued is not read.
static void
test_file_too_large (void **state)
{
    world_t *world = *state;
    char path [PATH_MAX], error [1024];
    assert_int_equal (truncate (s_sample_path (world, 3, path), (off_t) CATALOGUE_SAMPLE_BYTES_MAX + 1), 0);
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
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (*state, &MODES [mode], 4);
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
            assert_int_equal (s_read_one (reader, 0, 77, 5000), 0);
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
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (*state, &MODES [mode], 2);
        if (!reader)
            continue;
        item_t items [10] = { 0 };
        for (size_t index = 0; index < 10; index++) {
            s_range (&items [index], 1, 4096 * index, 100);
            s_submit (reader, &items [index]);
        }
        item_t *first;
        while (!(first = s_take (reader)))
            reader_wait (reader, -1);
        assert_int_equal (first->request.rc, 0);
        reader_cancel (reader);
        assert_in_range (s_finish (reader), 4, 9);
        for (size_t index = 0; index < 10; index++) {
            assert_false (items [index].out);
            assert_true (items [index].request.rc == 0 || items [index].request.rc == -ECANCELED);
            s_free (&items [index]);
        }
        reader_destroy (&reader);
    }
}


//  -- sweeps

enum { MIX_RANGES = 5, MIX = MIX_RANGES + SAMPLES };

//  Ranges and files, some results twisted.  Every request has the right bytes or an error of those allowed.
static void
s_run_mix (world_t *world, reader_t *reader, int allowed, bool all_good)
{
    static const struct { uint64_t offset; size_t bytes; } ranges [MIX_RANGES] = {
        { 0, 1 }, { 4096, 8192 }, { 100, 20000 }, { FILE_BYTES - 6000, 6000 }, { 8190, 100001 }
    };
    item_t items [MIX] = { 0 };
    for (uint32_t index = 0; index < MIX; index++) {
        if (index < MIX_RANGES)
            s_range (&items [index], index % FILES, ranges [index].offset, ranges [index].bytes);
        else
            s_sample (&items [index], world->catalogue, index - MIX_RANGES);
        s_submit (reader, &items [index]);
    }
    s_finish (reader);
    for (uint32_t index = 0; index < MIX; index++) {
        int rc = items [index].request.rc;
        assert_false (items [index].out);
        if (rc && ((rc != allowed && rc != -ENOMEM) || all_good))
            fail_msg ("request %u: rc %d, only %d may be", index, rc, all_good? 0: allowed);
        s_free (&items [index]);
    }
}

//  The n-th result is twisted, n = 1, 2 .. until there are no more.
static void
s_sweep_results (world_t *world, const mode_type_t *mode, int result, bool forever)
{
    bool passes = result == -EIO || result == -ENOMEM || result == -EINTR || result == -EAGAIN
        || result == -ECANCELED
        || result == HALF;
    int allowed = result == HALF || result == NOTHING? -CATALOGUE_CHANGED: result;
    for (unsigned int nth = 1; ; nth++) {
        reader_t *reader = s_reader (world, mode, 3);
        if (!reader)
            return;
        memset (&twist, 0, sizeof twist);
        twist.countdown = nth;
        twist.result = result;
        twist.forever = forever;
        s_run_mix (world, reader, allowed, passes && !forever);
        bool struck = twist.struck;
        memset (&twist, 0, sizeof twist);
        s_run_mix (world, reader, 0, true);             //  no harm has stayed
        for (uint32_t file = 0; file < FILES && result != -EINVAL; file++)
            assert_true (reader_is_direct (reader, file) == !mode->no_direct);
        reader_destroy (&reader);
        if (!struck)
            break;
        assert_true (nth < 500);
    }
}

//  Guards: whatever an operation's result, once or for ever: the right bytes or an error, nothing lost, no
//  wait without end.
static void
test_results_sweep (void **state)
{
    static const int results [] = { -EIO, -EINTR, -EAGAIN, -ECANCELED, -ENOMEM, -EINVAL, HALF, NOTHING };
    for (size_t mode = 0; mode < MODE_COUNT; mode++)
        for (size_t index = 0; index < sizeof results / sizeof results [0]; index++)
            for (int forever = 0; forever < 2; forever++)
                s_sweep_results (*state, &MODES [mode], results [index], forever);
}

//  Guards: interruptions are put up with as long as bytes come between them: 75 here, and 64 in a row are too
//  many.
static void
test_interruptions_between_bytes (void **state)
{
    world_t *world = *state;
    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        reader_t *reader = s_reader (world, &MODES [mode], 1);
        if (!reader)
            continue;
        item_t item = { 0 };
        s_range (&item, 0, 0, 75 * HALT_BYTES);
        memset (&twist, 0, sizeof twist);
        twist.halting = true;
        s_submit (reader, &item);
        s_finish (reader);
        assert_int_equal (item.request.rc, 0);
        assert_int_equal (twist.reads, 2 * 75);
        memset (&twist, 0, sizeof twist);
        s_free (&item);
        reader_destroy (&reader);
    }
}

//  A reader's whole life while the n-th call fails.  True: it was reached.
static bool
s_live_through (world_t *world, bool no_ring, unsigned int nth, int error, bool forever)
{
    reader_t *reader;
    fault_arm (nth, error, forever);
    int rc = reader_new (&reader, &(reader_options_t) { .depth = 3, .no_ring = no_ring });
    assert_true ((rc == 0) == (reader != NULL));
    for (uint32_t file = 0; rc == 0 && file < FILES; file++) {
        uint32_t number;
        rc = reader_add (reader, world->paths [file], &number);
    }
    if (rc == 0)
        s_run_mix (world, reader, -error, false);
    else
        assert_true (rc == -error || rc == -ENOMEM);    //  memory knows no other
    bool struck = fault_disarm ();
    if (rc == 0)
        s_run_mix (world, reader, 0, true);
    reader_destroy (&reader);
    return struck;
}

//  Guards: calls that fail, once or for ever, the ring's too: an error, or system calls go on where the ring
//  ends.
static void
test_calls_sweep (void **state)
{
    static const int errors [] = { ENOMEM, EPERM, ENOSYS };
    for (int no_ring = 0; no_ring < 2; no_ring++)
        for (size_t index = 0; index < sizeof errors / sizeof errors [0]; index++)
            for (int forever = 0; forever < 2; forever++)
                for (unsigned int nth = 1; s_live_through (*state, no_ring, nth, errors [index], forever);
                    nth++)
                    assert_true (nth < 500);
    for (unsigned int nth = 1; s_live_through (*state, false, nth, EINTR, false); nth++)
        assert_true (nth < 500);
    for (unsigned int nth = 1; s_live_through (*state, false, nth, EAGAIN, false); nth++)
        assert_true (nth < 500);
    for (unsigned int nth = 6; nth < 12; nth++)         //  each takes as long as a kernel without memory is
                                                        //  borne with
        s_live_through (*state, false, nth, EAGAIN, true);
}

//  Guards: a ring that fails in the middle is named as such, and reading goes on.
static void
test_ring_that_breaks (void **state)
{
    reader_t *reader = s_reader (*state, &MODES [0], 4);
    if (!reader)
        return;
    assert_string_equal (reader_mode (reader), "io_uring");
    assert_int_equal (s_read_one (reader, 0, 3, 50000), 0);
    fault_arm (1, EPERM, false);
    assert_int_equal (s_read_one (reader, 0, 3, 50000), 0);
    assert_true (fault_disarm ());
    assert_false (reader_has_ring (reader));
    assert_string_equal (reader_mode (reader), "preadv (io_uring: Operation not permitted)");
    assert_int_equal (s_read_one (reader, 0, 3, 50000), 0);
    reader_destroy (&reader);
}

//  Guards: a kernel that refuses the ring is told with its reason.
static void
test_ring_refused (void **state)
{
    world_t *world = *state;
    reader_t *reader;
    fault_arm (2, EPERM, false);                        //  after the reader's own memory
    assert_int_equal (reader_new (&reader, &(reader_options_t) { .depth = 1 }), 0);
    assert_true (fault_disarm ());
    assert_string_equal (reader_mode (reader), "preadv (io_uring: Operation not permitted)");
    uint32_t file;
    assert_int_equal (reader_add (reader, world->paths [0], &file), 0);
    assert_int_equal (s_read_one (reader, 0, 3, 50000), 0);
    reader_destroy (&reader);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_ranges_hold_what_the_file_does, begin, end),
        cmocka_unit_test_setup_teardown (test_end_of_file, begin, end),
        cmocka_unit_test_setup_teardown (test_file_that_shrinks, begin, end),
        cmocka_unit_test_setup_teardown (test_missing_file, begin, end),
        cmocka_unit_test_setup_teardown (test_afresh_is_opened_anew, begin, end),
        cmocka_unit_test_setup_teardown (test_direct_is_left_while_it_is_opened_anew, begin, end),
        cmocka_unit_test_setup_teardown (test_direct_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_file_in_memory, begin, end),
        cmocka_unit_test_setup_teardown (test_files_as_catalogue_read, begin, end),
        cmocka_unit_test_setup_teardown (test_file_too_large, begin, end),
        cmocka_unit_test_setup_teardown (test_wake, begin, end),
        cmocka_unit_test_setup_teardown (test_cancel, begin, end),
        cmocka_unit_test_setup_teardown (test_interruptions_between_bytes, begin, end),
        cmocka_unit_test_setup_teardown (test_results_sweep, begin, end),
        cmocka_unit_test_setup_teardown (test_calls_sweep, begin, end),
        cmocka_unit_test_setup_teardown (test_ring_that_breaks, begin, end),
        cmocka_unit_test_setup_teardown (test_ring_refused, begin, end)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
