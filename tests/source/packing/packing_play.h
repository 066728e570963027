/*  packing_play -- what the tests of packing share: a source that is made up, a packing of it, and calls that
 *  fail or end the process when told to.
 *
 *  A test program includes cmocka, then this; packing_test in CMakeLists.txt wraps the calls.
 */
#ifndef PACKING_PLAY_H
#define PACKING_PLAY_H
#include "pack.h"
#include "packing.h"
#include "effort.h"
#include "power.h"
#include "scratch.h"
#include "seed.h"

#include <limits.h>
#include <sys/statvfs.h>

enum {
    PLAY_KILLED = 77,
    PLAY_SWEEP_STEP = EFFORT (10) > 1? 1: 10        //  every call, or every tenth
};

//  ---- calls that fail, or end the process, when told to

static bool play_is_killing;                //  the fault ends the process instead
static unsigned int play_calls;             //  in all

//  Threads' calls do not count: which of them is the nth is chance.
static inline bool
play_strikes (void)
{
    if (gettid () != getpid ())
        return false;
    play_calls++;
    bool struck = fault_strikes ();
    if (struck && play_is_killing)
        _exit (PLAY_KILLED);
    return struck;
}

#define PLAY_CALL(type, failure, name, parameters, arguments) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type __wrap_##name parameters \
    { \
        return play_strikes ()? (failure): __real_##name arguments; \
    }

int __real_mkdir (const char *path, mode_t mode);
int __wrap_mkdir (const char *path, mode_t mode);
int
__wrap_mkdir (const char *path, mode_t mode)
{
    int rc = play_strikes ()? -1: __real_mkdir (path, mode);
    if (rc == 0)
        power_named (AT_FDCWD, path);
    return rc;
}

int __real_mkdirat (int fd, const char *path, mode_t mode);
int __wrap_mkdirat (int fd, const char *path, mode_t mode);
int
__wrap_mkdirat (int fd, const char *path, mode_t mode)
{
    int rc = play_strikes ()? -1: __real_mkdirat (fd, path, mode);
    if (rc == 0)
        power_named (fd, path);
    return rc;
}

int __real_unlinkat (int fd, const char *path, int flags);
int __wrap_unlinkat (int fd, const char *path, int flags);
int
__wrap_unlinkat (int fd, const char *path, int flags)
{
    if (play_strikes ())
        return -1;
    int going = power_will_go (fd, path), rc = __real_unlinkat (fd, path, flags);
    if (rc == 0)
        power_removed (fd, path, going);
    return rc;
}

int __real_ftruncate (int fd, off_t size);
int __wrap_ftruncate (int fd, off_t size);
int
__wrap_ftruncate (int fd, off_t size)
{
    int rc = play_strikes ()? -1: __real_ftruncate (fd, size);
    if (rc == 0)
        power_cut (fd, (uint64_t) size);
    return rc;
}

PLAY_CALL (ssize_t, -1, pread, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
PLAY_CALL (void *, NULL, malloc, (size_t size), (size))
PLAY_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
PLAY_CALL (void *, NULL, reallocarray, (void *items, size_t count, size_t size), (items, count, size))

//  Files that were written and not made durable.  The power goes in power.h only, so nothing needs the disk.
enum { PLAY_DESCRIPTORS = 1024 };
static bool play_is_dirty [PLAY_DESCRIPTORS];
static unsigned int play_broken_words;      //  journals that spoke of what was not durable

static bool play_refuses_folders;           //  as a file system that syncs no folders
static struct stat play_mounted_in;         //  the parent of a mount point, which cannot be synced; 0: none

static inline bool
play_is_mounted_in (const struct stat *status)
{
    return play_mounted_in.st_ino > 0 && status->st_ino == play_mounted_in.st_ino
        && status->st_dev == play_mounted_in.st_dev;
}

int __real_fstat (int fd, struct stat *status);
int __wrap_fstat (int fd, struct stat *status);
int
__wrap_fstat (int fd, struct stat *status)
{
    int rc = __real_fstat (fd, status);
    if (rc == 0 && play_is_mounted_in (status))
        status->st_dev++;
    return rc;
}

int __wrap_fsync (int fd);
int
__wrap_fsync (int fd)
{
    struct stat status;
    play_is_dirty [fd] = false;
    if (play_strikes () || __real_fstat (fd, &status) != 0)
        return -1;
    if (play_is_mounted_in (&status) || (play_refuses_folders && S_ISDIR (status.st_mode))) {
        errno = play_refuses_folders? EINVAL: EIO;
        return -1;
    }
    power_synced (fd);
    return 0;
}

int __wrap_fdatasync (int fd);
int
__wrap_fdatasync (int fd)
{
    return __wrap_fsync (fd);
}

int __real_close (int fd);
int __wrap_close (int fd);
int
__wrap_close (int fd)
{
    if (fd >= 0 && play_is_dirty [fd]) {
        play_broken_words++;
        play_is_dirty [fd] = false;
    }
    return __real_close (fd);
}

int __real_renameat (int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat (int from_fd, const char *from, int to_fd, const char *to);
int
__wrap_renameat (int from_fd, const char *from, int to_fd, const char *to)
{
    for (int fd = 0; fd < PLAY_DESCRIPTORS; fd++)
        play_broken_words += play_is_dirty [fd];
    if (play_strikes ())
        return -1;
    int going = power_will_go (to_fd, to), rc = __real_renameat (from_fd, from, to_fd, to);
    if (rc == 0)
        power_renamed (from_fd, from, to, going);
    return rc;
}

int __real_openat (int fd, const char *path, int flags, mode_t mode);
int __wrap_openat (int fd, const char *path, int flags, mode_t mode);
int
__wrap_openat (int fd, const char *path, int flags, mode_t mode)
{
    int opened = play_strikes ()? -1: __real_openat (fd, path, flags, mode);
    if (opened >= 0 && (flags & O_CREAT) && power_named (fd, path) && (flags & O_TRUNC))
        power_cut (opened, 0);
    return opened;
}

//  A write that is struck has written half.
static size_t play_write_limit;
ssize_t __real_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset);
ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t size, off_t offset)
{
    play_is_dirty [fd] = true;
    if (play_write_limit && size > play_write_limit)
        size = play_write_limit;
    if (fault.countdown == 1 && size > 1)
        __real_pwrite (fd, bytes, size / 2, offset);
    ssize_t written = play_strikes ()? -1: __real_pwrite (fd, bytes, size, offset);
    if (written > 0)
        power_written (fd, bytes, (size_t) written, (uint64_t) offset);
    return written;
}

static uint64_t play_free_blocks;           //  0: as it is
int __real_fstatvfs (int fd, struct statvfs *status);
int __wrap_fstatvfs (int fd, struct statvfs *status);
int
__wrap_fstatvfs (int fd, struct statvfs *status)
{
    int rc = play_strikes ()? -1: __real_fstatvfs (fd, status);
    if (rc == 0 && play_free_blocks)
        status->f_bavail = play_free_blocks;
    return rc;
}

//  ---- a source

static inline int
play_begin (void **state)
{
    scratch_folder_t *scratch = calloc (1, sizeof *scratch);
    *state = scratch;
    play_is_killing = false;
    play_write_limit = 0;
    play_free_blocks = 0;
    alarm (600);
    return scratch && scratch_begin (scratch)? 0: -1;
}

static inline int
play_end (void **state)
{
    fault_disarm ();
    bool clean = scratch_end (*state);
    free (*state);
    return clean? 0: -1;
}

static inline const char *
play_in (void *state, const char *name)
{
    static char paths [16] [PATH_MAX];
    static unsigned int turn;
    char *path = paths [turn++ % 16];
    snprintf (path, PATH_MAX, "%s/%s", ((scratch_folder_t *) state)->path, name);
    return path;
}

static inline void
play_make_file (const char *path, size_t size, uint64_t seed)
{
    uint8_t *bytes = malloc (size + 8);
    assert_non_null (bytes);
    for (size_t index = 0; index < size; index += 8) {
        uint64_t number = test_below (&seed, UINT64_MAX);
        memcpy (bytes + index, &number, 8);
    }
    FILE *file = fopen (path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    assert_int_equal (fclose (file), 0);
    free (bytes);
}

typedef struct {
    uint32_t samples;
    size_t longest;
    bool has_masks;
} play_source_t;

//  DIR/cN/NNN.jpg, most of them small, a few as large as may be and a few empty; masks beside them.
static inline void
play_make_source (void *state, const play_source_t *source, uint64_t seed)
{
    char path [PATH_MAX];
    assert_int_equal (mkdir (play_in (state, "data"), 0700), 0);
    assert_int_equal (mkdir (play_in (state, "masks"), 0700), 0);
    for (uint32_t id = 0; id < source->samples; id++) {
        if (id % 100 == 0)
            for (int folder = 0; folder <= source->has_masks; folder++) {
                snprintf (path, sizeof path, "%s/c%03u", play_in (state, folder? "masks": "data"), id / 100);
                assert_int_equal (mkdir (path, 0700), 0);
            }
        size_t size = test_below (&seed, 16) == 0? test_below (&seed, source->longest + 1):
            test_below (&seed, 2000);
        snprintf (path, sizeof path, "%s/c%03u/%05u.jpg", play_in (state, "data"), id / 100, id);
        play_make_file (path, test_below (&seed, 20) == 0? 0: size, seed);
        snprintf (path, sizeof path, "%s/c%03u/%05u.png", play_in (state, "masks"), id / 100, id);
        if (source->has_masks)
            play_make_file (path, test_below (&seed, 300), seed + 1);
    }
}

typedef struct {
    const char *path;
    catalogue_field_t field;
    packing_options_t options;
    char error [PACK_SOURCE_ERROR_BYTES];
    packing_result_t result;
} play_job_t;

//  Stands for what a decoder says of a file: of each third one nothing.
static inline size_t
play_rows_of (const uint8_t *bytes, size_t size, uint8_t rows [64])
{
    size_t count = size % 3? 1 + size % 64: 0;
    for (size_t at = 0; at < count; at++)
        rows [at] = (uint8_t) (bytes [at % size] ^ at);
    return count;
}

static inline void *
play_finder_new (void)
{
    return malloc (64);
}

static inline int
play_find (void *finder, const uint8_t *bytes, size_t size, const uint8_t **rows_p, size_t *rows_bytes_p)
{
    *rows_p = finder;
    *rows_bytes_p = play_rows_of (bytes, size, finder);
    return 0;
}

//  In the caller's thread: which call of malloc fails is the same each time.
static const packing_rows_t play_rows = { .finder_new = play_finder_new, .finder_destroy = free,
    .find = play_find };

static inline void
play_prepare (void *state, play_job_t *self, const play_source_t *source, const char *target)
{
    *self = (play_job_t) { .path = play_in (state, "data"),
        .field = { "mask", true, play_in (state, "masks") } };
    self->options = (packing_options_t) {
        .source = { .paths = &self->path, .path_count = 1, .fields = &self->field,
        .field_count = source->has_masks },
        .target = target, .volume_bytes = 1 << 20, .has_seed = true, .seed = 1,
        .memory_bytes = PACKING_MEMORY_BYTES_MIN, .rows = &play_rows
    };
}

static inline int
play_run (play_job_t *self)
{
    return packing_run (&self->options, &self->result, self->error);
}

static inline void
play_run_well (play_job_t *self)
{
    memset (play_is_dirty, 0, sizeof play_is_dirty);
    play_broken_words = 0;
    int rc = play_run (self);
    if (rc)
        fail_msg ("%d: %s", rc, self->error);
    assert_string_equal (self->error, "");
    assert_int_equal (play_broken_words, 0);
}

static inline void
play_assert_refused (play_job_t *self, int code, const char *what, const char *remedy)
{
    int rc = play_run (self);
    if (rc != code || !strstr (self->error, what) || !strstr (self->error, remedy))
        fail_msg ("%d, not %d: '%s', not '%s', '%s'", rc, code, self->error, what, remedy);
}

static inline void
play_assert_same_file (const char *left, const char *right)
{
    FILE *files [2] = { fopen (left, "rb"), fopen (right, "rb") };
    if (!files [0] || !files [1])
        fail_msg ("%s or %s is not there", left, right);
    static uint8_t bytes [2] [1 << 16];
    for (size_t size = 1; size; ) {
        size = fread (bytes [0], 1, sizeof bytes [0], files [0]);
        if (fread (bytes [1], 1, sizeof bytes [1], files [1]) != size
            || memcmp (bytes [0], bytes [1], size) != 0)
            fail_msg ("%s and %s differ", left, right);
    }
    fclose (files [0]);
    fclose (files [1]);
}

//  Both folders hold the same files, no folders among them, with the same bytes.
static inline void
play_assert_same (const char *left, const char *right)
{
    char paths [2] [PATH_MAX];
    assert_int_equal (scratch_entries (left), scratch_entries (right));
    DIR *folder = opendir (left);
    assert_non_null (folder);
    const struct dirent *item;
    while ((item = readdir (folder))) {
        if (item->d_name [0] == '.')
            continue;
        snprintf (paths [0], PATH_MAX, "%.3000s/%s", left, item->d_name);
        snprintf (paths [1], PATH_MAX, "%.3000s/%s", right, item->d_name);
        play_assert_same_file (paths [0], paths [1]);
    }
    closedir (folder);
}

static inline catalogue_t *
play_open_catalogue (const catalogue_options_t *options)
{
    catalogue_t *catalogue;
    char error [PACK_SOURCE_ERROR_BYTES];
    if (catalogue_open (&catalogue, options, error, sizeof error))
        fail_msg ("%s", error);
    return catalogue;
}

//  The sample's last file in the pack is play_rows' of its first.
static inline void
play_assert_rows (const pack_t *pack, size_t fields, uint32_t id, const catalogue_buffer_t *file)
{
    uint8_t expected [64];
    size_t count = play_rows_of (file->bytes, file->size, expected), told = 0;
    assert_int_equal (pack_rows_bytes (pack, id), count);
    pack_range_t where = pack_sample (pack, id);
    uint8_t *sample = malloc (where.bytes + 1), *rows = sample + where.bytes - count;
    ssize_t got = __real_pread (pack_volume_descriptor (pack, where.volume), sample, where.bytes,
        (off_t) where.offset);
    assert_int_equal (got, where.bytes);
    assert_memory_equal (rows, expected, count);
    assert_true (pack_check (pack, id, sample, &told));
    if (count) {
        rows [count / 2] ^= 1;
        assert_false (pack_check (pack, id, sample, &told));
        assert_int_equal (told, fields);
    }
    free (sample);
}

//  The pack is the source: names, labels, and bytes of every file.
static inline void
play_assert_holds (const play_job_t *job)
{
    catalogue_options_t wanted = { .path = job->path, .fields = job->options.source.fields,
        .field_count = job->options.source.field_count };
    catalogue_options_t packed = { .path = job->options.target };
    catalogue_t *source = play_open_catalogue (&wanted), *pack = play_open_catalogue (&packed);
    assert_non_null (catalogue_pack (pack));
    assert_string_equal (catalogue_fingerprint (source), catalogue_fingerprint (pack));
    assert_int_equal (catalogue_samples (source), catalogue_samples (pack));
    assert_int_equal (catalogue_fields (source), catalogue_fields (pack));
    catalogue_buffer_t left = { 0 }, right = { 0 };
    uint64_t bytes = 0;
    for (uint32_t id = 0; id < catalogue_samples (source); id++)
        for (size_t field = 0; field < catalogue_fields (source); field++) {
            assert_int_equal (catalogue_read (source, id, field, &left), 0);
            assert_int_equal (catalogue_read (pack, id, field, &right), 0);
            assert_int_equal (left.size, right.size);
            assert_memory_equal (left.bytes, right.bytes, left.size);
            bytes += left.size;
            if (field == 0 && job->options.rows)
                play_assert_rows (catalogue_pack (pack), catalogue_fields (pack), id, &left);
        }
    assert_int_equal (catalogue_bytes (pack), bytes);
    bytes += job->result.rows_bytes;
    assert_int_equal (pack_bytes (catalogue_pack (pack)), bytes);
    assert_int_equal (job->result.bytes, bytes);
    assert_int_equal (job->result.samples, catalogue_samples (source));
    assert_int_equal (job->result.volumes, pack_volumes (catalogue_pack (pack)));
    //  Beside the index nothing but volumes.
    assert_int_equal (scratch_entries (job->options.target), job->result.volumes + 1);
    free (left.bytes);
    free (right.bytes);
    catalogue_destroy (&source);
    catalogue_destroy (&pack);
}


//  ---- stopped or killed on the way

typedef struct {
    unsigned int countdown;
} play_stop_t;

static inline bool
play_stop_after (void *context)
{
    play_stop_t *stop = context;
    return stop->countdown == 0 || --stop->countdown == 0;
}

//  Stops after so many samples of both passes.
static inline void
play_run_until (play_job_t *job, unsigned int samples)
{
    play_stop_t stop = { samples };
    job->options.stopped = play_stop_after;
    job->options.context = &stop;
    assert_int_equal (play_run (job), -ECANCELED);
    job->options.stopped = NULL;
}

//  In a process of its own, which is killed at the nth call.
static inline void
play_run_and_kill (play_job_t *job, unsigned int nth)
{
    pid_t child = fork ();
    if (child == 0) {
        play_is_killing = true;
        fault_arm (nth, 0, false);
        _exit (play_run (job) == 0? 0: 1);
    }
    int status = -1;
    waitpid (child, &status, 0);
    assert_int_equal (WEXITSTATUS (status), PLAY_KILLED);
}

#endif
