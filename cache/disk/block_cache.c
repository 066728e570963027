#include "block_cache_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

//  All of DIR/usage.
typedef struct {
    char format [8];
    uint64_t bytes;
    uint64_t sum;                       //  of what stands before it
} usage_t;

#define USAGE_FORMAT "tureenU2"
#define USAGE_NAME "usage"
#define NO_ROOM "free room on its file system, or give a folder on another one"


//  -- the lock, and what it guards

static uint64_t
s_usage_sum (const usage_t *usage)
{
    return XXH3_64bits (usage, offsetof (usage_t, sum));
}

//  Its bytes; 0, or -errno: -EPROTO it is damaged, or of another version.
static int
s_load_usage (const block_cache_t *self, uint64_t *bytes_p)
{
    usage_t usage = { .bytes = 0 };
    ssize_t bytes = pread (self->usage, &usage, sizeof usage, 0);
    if (bytes < 0)
        return -errno;
    *bytes_p = usage.bytes;
    bool is_whole = bytes == sizeof usage && memcmp (usage.format, USAGE_FORMAT, sizeof usage.format) == 0
        && usage.sum == s_usage_sum (&usage);
    return is_whole? 0: -EPROTO;
}

//  What it says can be counted again.
static int
s_read_usage (block_cache_t *self)
{
    int rc = s_load_usage (self, &self->bytes);
    if (rc == 0)
        atomic_store (&self->bytes_seen, self->bytes);
    if (rc != -EPROTO)
        return rc;
    struct stat status;
    if (fstat (self->usage, &status) == 0 && status.st_size > 0 && !block_cache_is_older (self->usage))
        block_cache_found_damage (self);
    //  A new file gets its block before it is measured.
    rc = ftruncate (self->usage, 0) != 0? -errno: block_cache_set_bytes (self, 0);
    return rc? rc: block_cache_room_count (self);
}

//  Another process that has it for long (a debugger stops it) must not hold up reads.
static int
s_lock_soon (int descriptor)
{
    enum { TRIES = 20, PAUSE_MS = 5 };
    for (int tries = 0; flock (descriptor, LOCK_EX | LOCK_NB) != 0; tries++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || tries == TRIES)
            return errno == EWOULDBLOCK? -EAGAIN: -errno;
        nanosleep (&(struct timespec) { .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
    return 0;
}

int
block_cache_begin (block_cache_t *self, bool may_wait)
{
    assert (self && self->magic == BLOCK_CACHE_MAGIC);
    pthread_mutex_lock (&self->lock);
    int rc;
    do
        rc = !may_wait? s_lock_soon (self->usage): flock (self->usage, LOCK_EX)? -errno: 0;
    while (rc == -EINTR);
    if (rc == 0 && (rc = s_read_usage (self)))
        flock (self->usage, LOCK_UN);
    if (rc)
        pthread_mutex_unlock (&self->lock);
    return rc;
}

void
block_cache_end (block_cache_t *self)
{
    flock (self->usage, LOCK_UN);
    pthread_mutex_unlock (&self->lock);
}

int
block_cache_set_bytes (block_cache_t *self, uint64_t bytes)
{
    usage_t usage = { .format = USAGE_FORMAT, .bytes = bytes };
    usage.sum = s_usage_sum (&usage);
    ssize_t written = pwrite (self->usage, &usage, sizeof usage, 0);
    if (written != sizeof usage)
        return written < 0? -errno: -EIO;
    self->bytes = bytes;
    atomic_store (&self->bytes_seen, bytes);
    return 0;
}

void
block_cache_look (block_cache_t *self)
{
    uint64_t bytes;
    int rc = s_load_usage (self, &bytes);
    if (rc == 0 || rc == -EPROTO)
        atomic_store (&self->bytes_seen, rc? 0: bytes);
}

int
block_cache_failed (block_cache_t *self, int rc)
{
    int none = 0;
    atomic_compare_exchange_strong (&self->failure, &none, rc);
    return rc;
}

bool
block_cache_is_older (int descriptor)
{
    char format [8];
    return pread (descriptor, format, sizeof format, 0) == sizeof format
        && (memcmp (format, "tureenU1", sizeof format) == 0
            || memcmp (format, "tureenB1", sizeof format) == 0);
}

void
block_cache_found_damage (block_cache_t *self)
{
    atomic_fetch_add (&self->damaged, 1);
}


//  -- life

static int
s_fail (const char *folder, int rc, const char *what, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "'%.300s' cannot be the cache on the local disk (%s): %s", folder,
        strerror (-rc), what);
    return rc;
}

DIR *
block_cache_list (const block_cache_t *self)
{
    int copy = openat (self->descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy >= 0? fdopendir (copy): NULL;
    if (!stream && copy >= 0)
        close (copy);
    return stream;
}

//  What is in the folder beside DIR/usage.
typedef struct {
    size_t datasets, others;
} content_t;

static content_t
s_content (const block_cache_t *self)
{
    content_t content = { 0, 0 };
    DIR *stream = block_cache_list (self);
    if (!stream) {
        content.others = 1;             //  perhaps
        return content;
    }
    for (const struct dirent *item; (item = readdir (stream));)
        if (block_cache_is_dataset (item->d_name))
            content.datasets++;
        else
            content.others += strcmp (item->d_name, ".") != 0 && strcmp (item->d_name, "..") != 0
                && strcmp (item->d_name, USAGE_NAME) != 0;
    closedir (stream);
    return content;
}

//  The folder is this user's alone.
static int
s_open_folder (block_cache_t *self, char *error, size_t error_bytes)
{
    struct stat status;
    if (mkdir (self->folder, 0700) != 0 && errno != EEXIST)
        return s_fail (self->folder, -errno, "give a folder that this user may make, or make it", error,
            error_bytes);
    self->descriptor = open (self->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->descriptor < 0 || fstat (self->descriptor, &status) != 0)
        return s_fail (self->folder, -errno, "give a folder of this user's own", error, error_bytes);
    if (status.st_uid != geteuid ())
        return s_fail (self->folder, -EPERM, "it belongs to another user, and users do not share a cache: "
            "give each a folder of its own", error, error_bytes);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return s_fail (self->folder, -EPERM, "other users may write to it: take that from them with chmod "
            "go-w", error, error_bytes);
    return 0;
}

//  Whether DIR/usage is a cache's, whole or damaged: a person's file of that name stays as it is.
static bool
s_is_usage (const block_cache_t *self)
{
    static const char begin [] = "tureenU", zeros [sizeof begin];
    char text [sizeof begin - 1];
    ssize_t bytes = pread (self->usage, text, sizeof text, 0);
    if (bytes >= 0
    &&  (memcmp (text, begin, (size_t) bytes) == 0 || memcmp (text, zeros, (size_t) bytes) == 0))
        return true;
    content_t content = s_content (self);
    return content.datasets > 0 && content.others == 0;
}

static int
s_open_usage (block_cache_t *self, char *error, size_t error_bytes)
{
    //  Another server may make the file at this moment.
    if (faccessat (self->descriptor, USAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT
    &&  s_content (self).others > 0
    &&  faccessat (self->descriptor, USAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return s_fail (self->folder, -ENOTEMPTY, "something else is in it: give a folder that is empty, or "
            "does not exist", error, error_bytes);
    self->usage = openat (self->descriptor, USAGE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (self->usage < 0)
        return s_fail (self->folder, -errno, "give a folder that this user may write to", error, error_bytes);
    if (!s_is_usage (self))
        return s_fail (self->folder, -ENOTEMPTY, "its file 'usage' is of something else: give a folder that "
            "is empty, or does not exist", error, error_bytes);
    return 0;
}

//  Measures what is there, and removes what is too much.
static int
s_look (block_cache_t *self, char *error, size_t error_bytes)
{
    int rc = block_cache_begin (self, true);
    if (rc)
        return s_fail (self->folder, rc, rc == -ENOSPC? NO_ROOM:
            "give a folder on a local file system, which has locks (flock)", error, error_bytes);
    rc = block_cache_room_count (self);
    if (rc == 0)
        block_cache_room_make (self, 0);
    block_cache_end (self);
    return rc? s_fail (self->folder, rc, rc == -ENOSPC? NO_ROOM: "check its file system", error, error_bytes):
        0;
}

int
block_cache_open (block_cache_t **self_p, const char *folder, uint64_t bytes_max, char *error,
    size_t error_bytes)
{
    assert (self_p); assert (folder && *folder); assert (bytes_max >= BLOCK_CACHE_LEAST_BYTES);
    assert (error && error_bytes > 0);
    *self_p = NULL;
    *error = 0;
    block_cache_t *self = calloc (1, sizeof *self);
    char *kept = strdup (folder);
    if (!self || !kept) {
        free (self);
        free (kept);
        return s_fail (folder, -ENOMEM, "free memory", error, error_bytes);
    }
    *self = (block_cache_t) { .magic = BLOCK_CACHE_MAGIC, .folder = kept, .descriptor = -1, .usage = -1,
        .bytes_max = bytes_max };
    pthread_mutex_init (&self->lock, NULL);
    atomic_init (&self->bytes_seen, 0);
    atomic_init (&self->failure, 0);
    atomic_init (&self->is_full, false);
    atomic_init (&self->damaged, 0);
    int rc = s_open_folder (self, error, error_bytes);
    rc = rc? rc: s_open_usage (self, error, error_bytes);
    rc = rc? rc: s_look (self, error, error_bytes);
    if (rc)
        block_cache_close (&self);
    *self_p = self;
    return rc;
}

void
block_cache_close (block_cache_t **self_p)
{
    assert (self_p);
    block_cache_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == BLOCK_CACHE_MAGIC);
    block_io_destroy (&self->io);
    if (self->usage >= 0)
        close (self->usage);
    if (self->descriptor >= 0)
        close (self->descriptor);
    pthread_mutex_destroy (&self->lock);
    free (self->folder);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

int
block_cache_start_threads (block_cache_t *self)
{
    assert (self && self->magic == BLOCK_CACHE_MAGIC); assert (!self->io);
    self->io = block_io_new ();
    return self->io? 0: -EAGAIN;
}

block_cache_figures_t
block_cache_figures (const block_cache_t *self)
{
    assert (self && self->magic == BLOCK_CACHE_MAGIC);
    return (block_cache_figures_t) { .folder = self->folder, .bytes = atomic_load (&self->bytes_seen),
        .bytes_max = self->bytes_max, .damaged = atomic_load (&self->damaged),
        .failure = atomic_load (&self->failure), .times_aside = self->io? block_io_times_aside (self->io): 0,
        .is_aside = self->io && block_io_is_aside (self->io) };
}
