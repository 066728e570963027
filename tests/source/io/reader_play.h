/*  reader_play -- what the tests of the reader share: files and the modes to read them in, requests, and
 *  results and calls that fail when told to.
 *
 *  A test program includes cmocka, then this; reader_test in CMakeLists.txt wraps the calls.
 */
#ifndef READER_PLAY_H
#define READER_PLAY_H
#include <limits.h>
#include <liburing.h>
#include "pattern.h"
#include "reader_step.h"
#include "scratch.h"

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

//  The ring keeps the file that it knows.
static bool play_refuse_update;

int __real_io_uring_register_files_update (struct io_uring *ring, unsigned int first, const int *files,
    unsigned int count);
int __wrap_io_uring_register_files_update (struct io_uring *ring, unsigned int first, const int *files,
    unsigned int count);
int
__wrap_io_uring_register_files_update (struct io_uring *ring, unsigned int first, const int *files,
    unsigned int count)
{
    return play_refuse_update? -ENOMEM: __real_io_uring_register_files_update (ring, first, files, count);
}

//  open refuses O_DIRECT.
static bool play_refuse_direct;

int __real_open (const char *path, int flags, ...);
int __wrap_open (const char *path, int flags, ...);
int
__wrap_open (const char *path, int flags, ...)
{
    va_list rest;
    va_start (rest, flags);
    int mode = flags & O_CREAT? va_arg (rest, int): 0;
    va_end (rest);
    if (play_refuse_direct && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    return fault_strikes ()? -1: __real_open (path, flags, mode);
}

//  What becomes of a result: -errno, or one of these.
enum { PLAY_HALF = 1, PLAY_NOTHING = 2 };

static struct {
    unsigned int countdown;             //  0: not armed, or struck
    int result;
    bool forever, struck;
    bool direct_only;
    bool halting;                   //  every other read is interrupted, the others bring PLAY_HALT_BYTES at
                                    //  most
    unsigned int reads;             //  while halting
} play_twist;

enum { PLAY_HALT_BYTES = 4096 };

static inline bool
play_twists (const reader_request_t *request)
{
    if (play_twist.direct_only && !(request->progress.step == READER_READ && request->progress.direct))
        return false;
    if (play_twist.countdown == 0 && !(play_twist.struck && play_twist.forever))
        return false;
    if (play_twist.countdown && --play_twist.countdown)
        return false;
    return play_twist.struck = true;
}

//  Nothing came, so nothing is there.
static inline void
play_spoil (const reader_request_t *request, size_t bytes)
{
    const reader_progress_t *progress = &request->progress;
    size_t at = progress->done > progress->begin? progress->done: progress->begin;
    at = progress->direct? at / progress->align * progress->align: at;
    memset ((request->kind == READER_RANGE? request->memory: request->buffer->bytes) + at, 0xee, bytes);
}

bool __real_reader_step_advance (reader_request_t *request, reader_file_t *file, int result);
bool __wrap_reader_step_advance (reader_request_t *request, reader_file_t *file, int result);
bool
__wrap_reader_step_advance (reader_request_t *request, reader_file_t *file, int result)
{
    bool reads = request->progress.step == READER_READ;
    if (play_twist.halting && reads && result > 0) {
        bool interrupted = ++play_twist.reads % 2 == 1;
        if (interrupted)
            play_spoil (request, (size_t) result);
        result = interrupted? -EINTR: result < PLAY_HALT_BYTES? result: PLAY_HALT_BYTES;
    }
    else
    if (play_twists (request) && (reads || play_twist.result < 0)) {
        if (request->progress.step == READER_OPEN && result >= 0)
            close (result);
        if (reads && result > 0 && play_twist.result != PLAY_HALF)
            play_spoil (request, (size_t) result);
        result = play_twist.result == PLAY_HALF? (result > 1? result / 2: result):
            play_twist.result == PLAY_NOTHING? 0: play_twist.result;
    }
    return __real_reader_step_advance (request, file, result);
}


//  -- files and modes

typedef struct {
    const char *name;
    bool no_ring, no_direct;
} play_mode_t;

static const play_mode_t PLAY_MODES [] = {
    { "io_uring, O_DIRECT", false, false },
    { "io_uring, buffered", false, true },
    { "preadv, O_DIRECT", true, false },
    { "preadv, buffered", true, true }
};
enum { PLAY_MODE_COUNT = sizeof PLAY_MODES / sizeof PLAY_MODES [0] };

enum {
    PLAY_FILES = 2,
    //  Files that end in the middle of a block.
    PLAY_FILE_BYTES = 300 * 1024 + 1234,
    PLAY_SAMPLES = 7
};

typedef struct {
    scratch_folder_t scratch;
    char paths [PLAY_FILES] [PATH_MAX];
    catalogue_t *catalogue;
} play_world_t;

static inline size_t
play_sample_bytes (uint32_t id)
{
    static const size_t bytes [PLAY_SAMPLES] = { 1, 0, 4096, 70000, 5, 12345, 8192 };
    return bytes [id];
}

static inline char *
play_sample_path (const play_world_t *world, uint32_t id, char *path)
{
    snprintf (path, PATH_MAX, "%s/data/class/%u.jpg", world->scratch.path, id);
    return path;
}

static inline int
play_begin (void **state)
{
    play_world_t *world = calloc (1, sizeof *world);
    *state = world;
    alarm (300);                        //  what hangs fails
    if (!world || !scratch_begin (&world->scratch))
        return -1;
    char path [PATH_MAX];
    for (uint32_t file = 0; file < PLAY_FILES; file++) {
        snprintf (world->paths [file], PATH_MAX, "%s/volume-%u", world->scratch.path, file);
        pattern_write (world->paths [file], file, PLAY_FILE_BYTES);
    }
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/data/class", world->scratch.path);
    mkdir (path, 0700);
    for (uint32_t id = 0; id < PLAY_SAMPLES; id++)
        pattern_write (play_sample_path (world, id, path), 100 + id, play_sample_bytes (id));
    snprintf (path, sizeof path, "%s/data", world->scratch.path);
    char error [1024];
    return catalogue_open (&world->catalogue, &(catalogue_options_t) { .path = path }, error, sizeof error);
}

static inline int
play_end (void **state)
{
    play_world_t *world = *state;
    fault_disarm ();
    memset (&play_twist, 0, sizeof play_twist);
    play_refuse_direct = false;
    catalogue_destroy (&world->catalogue);
    bool clean = scratch_end (&world->scratch);
    free (world);
    return clean? 0: -1;
}

//  Bytes that a read of the range takes from the file.
static inline size_t
play_read_bytes (const reader_t *reader, uint32_t file, uint64_t offset, size_t bytes)
{
    uint64_t align = reader_is_direct (reader, file)? atomic_load (&reader_file (reader, file)->align): 1,
        begin = offset / align * align, end = (offset + bytes + align - 1) / align * align;
    return (size_t) ((end < PLAY_FILE_BYTES? end: PLAY_FILE_BYTES) - begin);
}

//  A reader of both files; NULL, and it is said: this machine does not have the mode.
static inline reader_t *
play_reader (play_world_t *world, const play_mode_t *mode, uint32_t depth)
{
    reader_t *reader;
    reader_options_t options = { .depth = depth, .no_ring = mode->no_ring,
        .no_direct = mode->no_direct && !play_refuse_direct };
    assert_int_equal (reader_new (&reader, &options), 0);
    assert_false (mode->no_ring && reader_is_concurrent (reader));
    bool there = mode->no_ring || reader_is_concurrent (reader);
    for (uint32_t file = 0; file < PLAY_FILES; file++) {
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
} play_item_t;

static inline void
play_range (play_item_t *item, uint32_t file, uint64_t offset, size_t bytes)
{
    size_t span = reader_span (offset, bytes);
    assert_true (span >= bytes && span % READER_ALIGN_BYTES == 0);
    item->memory = aligned_alloc (READER_ALIGN_BYTES, span);
    assert_non_null (item->memory);
    memset (item->memory, 0xee, span);
    item->request = (reader_request_t) { .kind = READER_RANGE, .user = item, .file = file, .offset = offset,
        .bytes = bytes, .memory = item->memory };
}

static inline void
play_sample (play_item_t *item, const catalogue_t *catalogue, uint32_t id)
{
    item->request = (reader_request_t) { .kind = READER_FILE, .user = item, .catalogue = catalogue, .id = id,
        .buffer = &item->buffer };
}

static inline void
play_submit (reader_t *reader, play_item_t *item)
{
    item->out = true;
    reader_submit (reader, &item->request);
}

static inline void
play_free (play_item_t *item)
{
    free (item->memory);
    free (item->buffer.bytes);
    memset (item, 0, sizeof *item);
}

//  The bytes of a request that went well.
static inline void
play_check_bytes (const play_item_t *item)
{
    const reader_request_t *request = &item->request;
    bool is_range = request->kind == READER_RANGE;
    uint32_t file = is_range? request->file: 100 + request->id;
    uint64_t offset = is_range? request->offset: 0;
    size_t bytes = is_range? request->bytes: play_sample_bytes (request->id);
    const uint8_t *found = is_range? request->memory + request->skip: request->buffer->bytes;
    if (!is_range)
        assert_int_equal (request->buffer->size, bytes);
    for (size_t at = 0; at < bytes; at++)
        if (found [at] != pattern_byte (file, offset + at))
            fail_msg ("file %u, offset %zu of %zu after %zu: a wrong byte", file, at, bytes, (size_t) offset);
    assert_true (request->read_bytes + request->pinned_bytes + request->cached_bytes >= bytes);
}

static inline play_item_t *
play_take (reader_t *reader)
{
    reader_request_t *request = reader_take (reader);
    play_item_t *item = request? request->user: NULL;
    if (item) {
        assert_true (item->out);
        item->out = false;
    }
    return item;
}

//  Waits for all; how many have a result other than 0.
static inline size_t
play_finish (reader_t *reader)
{
    size_t bad = 0;
    for (;;) {
        play_item_t *item = play_take (reader);
        if (item) {
            if (item->request.rc == 0)
                play_check_bytes (item);
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
static inline int
play_read_one (reader_t *reader, uint32_t file, uint64_t offset, size_t bytes)
{
    play_item_t item = { 0 };
    play_range (&item, file, offset, bytes);
    play_submit (reader, &item);
    play_finish (reader);
    assert_false (item.out);
    int rc = item.request.rc;
    play_free (&item);
    return rc;
}

#endif
