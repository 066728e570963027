#include "block_cache.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "clock.h"

enum {
    MAGIC = 0xb10cac4e,
    ERROR_BYTES = 700,
    LOOK_AGAIN_MS = 10000,              //  when nothing could be removed
    MAP_BLOCKS = 2,                     //  of the maps of `data` and `sums` at first
    FORMAT_AT = 7,                      //  of the formats below: the version
    MAP_STORES = 128                    //  what is written in so many steps takes at most a block more of the
                                        //  map: ext4 has 170 pieces in a block that is half full
};

static const char *const s_files [] = { "data", "sums", "lock" };

//  All of DIR/usage.
typedef struct {
    char format [8];
    uint64_t bytes;
    uint64_t sum;                       //  of what stands before it
} usage_t;

#define USAGE_FORMAT "tureenU2"
#define HEAD_FORMAT "tureenB2"
#define USAGE_NAME "usage"
#define NO_ROOM "free room on its file system, or give a folder on another one"

struct block_cache {
    uint32_t magic;
    //  set at birth
    char *folder;
    uint64_t bytes_max;
    bool is_guest;
    block_cache_threads_t *threads;     //  NULL: callers wait for the disk themselves
    //  set before is_open
    int descriptor;                     //  of the folder
    int usage;                          //  DIR/usage
    int opened;                         //  0 or -errno
    char error [ERROR_BYTES];
    //  under the lock
    pthread_mutex_t lock;               //  before usage's: locks of a file are the process's, not a thread's
    uint64_t bytes;                     //  what DIR/usage says
    int64_t full_until_ms;              //  nothing can be removed before; 0: not known
    int64_t locked_until_ms;            //  another process has usage's lock for long: no wait before; 0: none
    //  shared
    atomic_bool is_open;
    _Atomic (block_cache_closed_t *) closed;
    atomic_uint_fast64_t bytes_seen;    //  what DIR/usage said last
    atomic_int failure;                 //  -errno; 0: none
    atomic_bool is_full;                //  the last write found no room
    atomic_uint_fast64_t damaged;       //  records and units that were thrown away
};


//  -- the lock, and what it guards

static uint64_t
s_usage_sum (const usage_t *usage)
{
    return XXH3_64bits (usage, offsetof (usage_t, sum));
}

//  Its bytes; 0, or -errno: -EPROTO it is damaged, or of another version.  flags: preadv2's.
static int
s_load_usage (const block_cache_t *self, int flags, uint64_t *bytes_p)
{
    usage_t usage = { .bytes = 0 };
    struct iovec part = { &usage, sizeof usage };
    ssize_t bytes = preadv2 (self->usage, &part, 1, 0, flags);
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
    int rc = s_load_usage (self, 0, &self->bytes);
    if (rc == 0)
        atomic_store (&self->bytes_seen, self->bytes);
    if (rc != -EPROTO)
        return rc;
    if (block_cache_is_newer (self->usage))
        return -ENOTSUP;
    struct stat status;
    if (fstat (self->usage, &status) == 0 && status.st_size > 0 && !block_cache_is_older (self->usage))
        block_cache_found_damage (self);
    //  A new file gets its block before it is measured.
    rc = ftruncate (self->usage, 0) != 0? -errno: block_cache_set_bytes (self, 0);
    return rc? rc: block_cache_room_count (self);
}

//  Another process that has it for long (a debugger stops it) must not hold up reads: each second one request
//  waits for it, for 0.1 s, under this process' lock, and the others do not.
static int
s_lock_soon (block_cache_t *self)
{
    enum { TRIES = 20, PAUSE_MS = 5, LOCKED_MS = 1000 };
    int most = clock_now_ms () < self->locked_until_ms? 0: TRIES;
    for (int tries = 0; flock (self->usage, LOCK_EX | LOCK_NB) != 0; tries++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (tries == most && most > 0)
            self->locked_until_ms = clock_now_ms () + LOCKED_MS;
        if (tries == most)
            return -EAGAIN;
        nanosleep (&(struct timespec) { .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
    self->locked_until_ms = 0;
    return 0;
}

int
block_cache_begin (block_cache_t *self, bool may_wait)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    int rc;
    do
        rc = !may_wait? s_lock_soon (self): flock (self->usage, LOCK_EX)? -errno: 0;
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

uint64_t
block_cache_bytes (const block_cache_t *self)
{
    return self->bytes;
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
block_cache_look (block_cache_t *self, bool from_memory)
{
    uint64_t bytes;
    int rc = s_load_usage (self, from_memory? RWF_NOWAIT: 0, &bytes);
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
block_cache_has_failed (const block_cache_t *self)
{
    return atomic_load (&self->failure) != 0;
}

bool
block_cache_is_full (const block_cache_t *self)
{
    return atomic_load (&self->is_full);
}

void
block_cache_set_full (block_cache_t *self, bool is_full)
{
    atomic_store (&self->is_full, is_full);
}

bool
block_cache_is_open (const block_cache_t *self)
{
    return atomic_load (&self->is_open);
}

int
block_cache_descriptor (const block_cache_t *self)
{
    return self->descriptor;
}

bool
block_cache_is_older (int descriptor)
{
    char format [8];
    return pread (descriptor, format, sizeof format, 0) == sizeof format
        && (memcmp (format, "tureenU1", sizeof format) == 0
            || memcmp (format, "tureenB1", sizeof format) == 0);
}

//  So that any Tureen sees it: a record of each format has its format first, and the sum of all that stands
//  before it in the words behind.
bool
block_cache_is_newer (int descriptor)
{
    uint64_t words [4] = { 0 };
    bool is_whole = pread (descriptor, words, sizeof words, 0) >= (ssize_t) sizeof (usage_t);
    const char *format = (const char *) words;
    bool is_usage = memcmp (format, USAGE_FORMAT, FORMAT_AT) == 0,
        is_head = memcmp (format, HEAD_FORMAT, FORMAT_AT) == 0;
    size_t sum = is_usage? offsetof (usage_t, sum): offsetof (block_cache_head_t, sum);
    return is_whole && (is_usage || is_head) && format [FORMAT_AT] > USAGE_FORMAT [FORMAT_AT]
        && words [sum / sizeof *words] == XXH3_64bits (words, sum);
}

bool
block_cache_is_guest (const block_cache_t *self)
{
    return self->is_guest;
}

void
block_cache_found_damage (block_cache_t *self)
{
    atomic_fetch_add (&self->damaged, 1);
}


//  -- heads

static uint64_t
s_taken (const block_cache_t *self, const char *path)
{
    struct stat status;
    return fstatat (self->descriptor, path, &status, AT_SYMLINK_NOFOLLOW) == 0?
        (uint64_t) status.st_blocks * 512: 0;
}

static uint64_t
s_head_sum (const block_cache_head_t *head)
{
    return XXH3_64bits (head, offsetof (block_cache_head_t, sum));
}

bool
block_cache_head_read (const block_cache_t *self, const char *name, int sums, block_cache_head_t *head)
{
    if (pread (sums, head, sizeof *head, 0) == sizeof *head
    &&  memcmp (head->format, HEAD_FORMAT, sizeof head->format) == 0
    &&  head->sum == s_head_sum (head))
        return true;
    //  Each store has written a block or more.
    char path [BLOCK_CACHE_PATH_BYTES];
    snprintf (path, sizeof path, "%.32s/data", name);
    *head = (block_cache_head_t) { .format = HEAD_FORMAT,
        .stores = s_taken (self, path) / BLOCK_CACHE_BLOCK_BYTES };
    return false;
}

int
block_cache_head_write (int sums, const block_cache_head_t *head)
{
    block_cache_head_t whole = *head;
    whole.sum = s_head_sum (&whole);
    ssize_t written = pwrite (sums, &whole, sizeof whole, 0);
    return written == sizeof whole? 0: written < 0? -errno: -EIO;
}


//  -- measuring

//  What is in DIR, from the begin; NULL with errno.  The caller closes it.
static DIR *
s_list (const block_cache_t *self)
{
    int copy = openat (self->descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy >= 0? fdopendir (copy): NULL;
    if (!stream && copy >= 0)
        close (copy);
    return stream;
}

//  A folder of the cache is that of a data set.
static bool
s_is_dataset (const char *name)
{
    return strlen (name) == BLOCK_CACHE_NAME_BYTES - 1
        && strspn (name, "0123456789abcdef") == BLOCK_CACHE_NAME_BYTES - 1;
}

int
block_cache_each (const block_cache_t *self, block_cache_each_fn *each, void *context)
{
    DIR *stream = s_list (self);
    if (!stream)
        return -errno;
    for (const struct dirent *item; (item = readdir (stream));)
        if (s_is_dataset (item->d_name))
            each (context, item->d_name);
    closedir (stream);
    return 0;
}

uint64_t
block_cache_room_taken (const block_cache_t *self, const char *name, uint64_t stores)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    uint64_t bytes = s_taken (self, name);
    for (size_t file = 0; file < sizeof s_files / sizeof *s_files; file++) {
        snprintf (path, sizeof path, "%.32s/%s", name, s_files [file]);
        bytes += s_taken (self, path);
    }
    //  A file system finds out what the map takes when it writes its pages to the disk, seconds later.
    return bytes + (MAP_BLOCKS + stores / MAP_STORES) * BLOCK_CACHE_BLOCK_BYTES;
}

//  Notes in its head what the data set takes, and returns it.  Opening the data set writes a damaged head.
static uint64_t
s_measure (block_cache_t *self, const char *name)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    block_cache_head_t head = { .held = 0 };
    snprintf (path, sizeof path, "%.32s/sums", name);
    int sums = openat (self->descriptor, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool is_good = sums >= 0 && block_cache_head_read (self, name, sums, &head);
    uint64_t taken = block_cache_room_taken (self, name, head.stores), noted = head.held;
    head.held = taken;
    int rc = is_good && noted != taken? block_cache_head_write (sums, &head): 0;
    if (rc) {
        block_cache_failed (self, rc);
        taken = noted > taken? noted: taken;            //  rather too much
    }
    if (sums >= 0)
        close (sums);
    return taken;
}

int
block_cache_room_count (block_cache_t *self)
{
    DIR *stream = s_list (self);
    if (!stream)
        return -errno;
    uint64_t bytes = s_taken (self, ".");
    for (const struct dirent *item; (item = readdir (stream));)
        if (s_is_dataset (item->d_name))
            bytes += s_measure (self, item->d_name);
        else
        if (strcmp (item->d_name, ".") != 0 && strcmp (item->d_name, "..") != 0)
            bytes += s_taken (self, item->d_name);
    closedir (stream);
    return block_cache_set_bytes (self, bytes);
}


//  -- removing

typedef struct {
    char name [BLOCK_CACHE_NAME_BYTES];
    int lock;                           //  held alone; -1: none was found
    struct timespec used;
} unused_t;

//  If no server uses the data set, and it was not used for longer than the one that was found before.
static void
s_consider (const block_cache_t *self, const char *name, unused_t *found)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    struct stat status;
    snprintf (path, sizeof path, "%.32s/lock", name);
    int lock = openat (self->descriptor, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (lock < 0)
        return;
    bool is_older = fstat (lock, &status) == 0 && (found->lock < 0
        || status.st_mtim.tv_sec < found->used.tv_sec
        || (status.st_mtim.tv_sec == found->used.tv_sec && status.st_mtim.tv_nsec < found->used.tv_nsec));
    if (is_older && flock (lock, LOCK_EX | LOCK_NB) == 0) {
        if (found->lock >= 0)
            close (found->lock);
        *found = (unused_t) { .lock = lock, .used = status.st_mtim };
        snprintf (found->name, sizeof found->name, "%.32s", name);
    }
    else
        close (lock);
}

static void
s_count_again (block_cache_t *self)
{
    int rc = block_cache_room_count (self);
    if (rc)
        block_cache_failed (self, rc);
}

//  Data sets are opened under the cache's lock: none can be in use again before this one has gone.
static bool
s_remove (block_cache_t *self, const unused_t *unused)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    uint64_t before = self->bytes;
    for (size_t file = 0; file < sizeof s_files / sizeof *s_files; file++) {
        snprintf (path, sizeof path, "%.32s/%s", unused->name, s_files [file]);
        unlinkat (self->descriptor, path, 0);
    }
    bool is_gone = unlinkat (self->descriptor, unused->name, AT_REMOVEDIR) == 0;
    s_count_again (self);
    return is_gone || self->bytes < before;         //  a foreign file in it keeps the folder
}

static bool
s_remove_oldest (block_cache_t *self)
{
    DIR *stream = s_list (self);
    unused_t found = { .lock = -1 };
    for (const struct dirent *item; stream && (item = readdir (stream));)
        if (s_is_dataset (item->d_name))
            s_consider (self, item->d_name, &found);
    if (stream)
        closedir (stream);
    bool is_removed = found.lock >= 0 && s_remove (self, &found);
    if (found.lock >= 0)
        close (found.lock);
    return is_removed;
}

int
block_cache_remove (block_cache_t *self, const char *name)
{
    unused_t unused = { .lock = -1 };
    if (faccessat (self->descriptor, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
        return 0;
    s_consider (self, name, &unused);
    if (unused.lock < 0)
        return -EBUSY;
    bool is_removed = s_remove (self, &unused);
    close (unused.lock);
    return is_removed? 0: -EIO;
}

uint64_t
block_cache_room (const block_cache_t *self)
{
    return self->bytes < self->bytes_max? self->bytes_max - self->bytes: 0;
}

uint64_t
block_cache_room_make (block_cache_t *self, uint64_t bytes)
{
    bool is_over = self->bytes > self->bytes_max;
    if ((block_cache_room (self) >= bytes && !is_over) || clock_now_ms () < self->full_until_ms)
        return block_cache_room (self);
    while (block_cache_room (self) < bytes || self->bytes > self->bytes_max)
        if (!s_remove_oldest (self)) {
            //  A server that was killed has left too large a number.
            s_count_again (self);
            self->full_until_ms = clock_now_ms () + LOOK_AGAIN_MS;
            break;
        }
    return block_cache_room (self);
}


//  -- requests

bool
block_cache_do (block_cache_t *self, block_cache_request_t *request)
{
    if (self->threads)
        return block_cache_threads_do (self->threads, request);
    request->work (request);
    return true;
}

bool
block_cache_do_opening (block_cache_t *self, block_cache_request_t *request)
{
    enum { TRIES = 50, PAUSE_MS = 100 };
    const block_cache_request_t wanted = *request;
    for (int left = self->threads? TRIES: 0;; left--) {
        *request = wanted;
        request->may_wait = left == 0;
        if (!block_cache_do (self, request))
            return false;
        if (!request->is_locked_out || left == 0)
            return true;
        nanosleep (&(struct timespec) { .tv_nsec = PAUSE_MS * 1000000L }, NULL);
    }
}

bool
block_cache_is_aside (block_cache_t *self)
{
    return self->threads && block_cache_threads_are_aside (self->threads);
}

block_cache_threads_t *
block_cache_threads (const block_cache_t *self)
{
    return self->threads;
}


//  -- life

static int
s_fail (const char *folder, int rc, const char *what, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "'%.300s' cannot be the cache on the local disk (%s): %s", folder,
        strerror (-rc), what);
    return rc;
}

//  The folder is not made: it is the cache of a server, or none.
static int
s_fail_guest (const block_cache_t *self, int rc, char *error, size_t error_bytes)
{
    snprintf (error, error_bytes, "there is no cache on the local disk in '%.300s' (%s): give the folder DIR "
        "that a server has as --disk DIR=BYTES", self->folder, strerror (-rc));
    return rc;
}

//  What is in the folder beside DIR/usage.
typedef struct {
    size_t datasets, others;
} content_t;

static content_t
s_content (const block_cache_t *self)
{
    content_t content = { 0, 0 };
    DIR *stream = s_list (self);
    if (!stream) {
        content.others = 1;             //  perhaps
        return content;
    }
    for (const struct dirent *item; (item = readdir (stream));)
        if (s_is_dataset (item->d_name))
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
    if (!self->is_guest && mkdir (self->folder, 0700) != 0 && errno != EEXIST)
        return s_fail (self->folder, -errno, "give a folder that this user may make, or make it", error,
            error_bytes);
    self->descriptor = open (self->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self->descriptor < 0 && self->is_guest)
        return s_fail_guest (self, -errno, error, error_bytes);
    if (self->descriptor < 0 || fstat (self->descriptor, &status) != 0)
        return s_fail (self->folder, -errno, "give a folder of this user's own", error, error_bytes);
    if (status.st_uid != geteuid ())
        return s_fail (self->folder, -EPERM, self->is_guest? "it belongs to another user: run this as that "
            "user": "it belongs to another user, and users do not share a cache: give each a folder of its "
            "own", error, error_bytes);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return s_fail (self->folder, -EPERM, "other users may write to it: take that from them with chmod "
            "go-w", error, error_bytes);
    return 0;
}

//  Whether DIR/usage is a cache's, whole or damaged: a person's file of that name stays as it is.  An empty
//  one, which a server leaves that is killed at its first start, is a cache's beside data sets, or to a
//  server, if nothing else is there.
static bool
s_is_usage (const block_cache_t *self)
{
    static const char begin [] = "tureenU", zeros [sizeof begin];
    char text [sizeof begin - 1];
    ssize_t bytes = pread (self->usage, text, sizeof text, 0);
    if (bytes > 0
    &&  (memcmp (text, begin, (size_t) bytes) == 0 || memcmp (text, zeros, (size_t) bytes) == 0))
        return true;
    content_t content = s_content (self);
    bool is_new = bytes == 0 && !self->is_guest;
    return (content.datasets > 0 || is_new) && content.others == 0;
}

static int
s_open_usage (block_cache_t *self, char *error, size_t error_bytes)
{
    //  Another server may make the file at this moment.
    if (!self->is_guest
    &&  faccessat (self->descriptor, USAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT
    &&  s_content (self).others > 0
    &&  faccessat (self->descriptor, USAGE_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return s_fail (self->folder, -ENOTEMPTY, "something else is in it: give a folder that is empty, or "
            "does not exist", error, error_bytes);
    //  What callers read of the page cache, a disk that hangs would be told.  For the owner alone.
    int flags = O_RDWR | (self->is_guest? 0: O_CREAT) | O_NOFOLLOW | O_CLOEXEC;
    self->usage = openat (self->descriptor, USAGE_NAME, flags | O_NOATIME, 0600);
    if (self->usage < 0 && errno == EPERM)
        self->usage = openat (self->descriptor, USAGE_NAME, flags, 0600);
    if (self->usage < 0 && self->is_guest && errno == ENOENT)
        return s_fail_guest (self, -ENOENT, error, error_bytes);
    if (self->usage < 0)
        return s_fail (self->folder, -errno, "give a folder that this user may write to", error, error_bytes);
    if (!s_is_usage (self) && self->is_guest)
        return s_fail_guest (self, -ENOTEMPTY, error, error_bytes);
    if (!s_is_usage (self))
        return s_fail (self->folder, -ENOTEMPTY, "its file 'usage' is of something else: give a folder that "
            "is empty, or does not exist", error, error_bytes);
    return 0;
}

//  Measures what is there, and removes what is too much.
static int
s_look (block_cache_t *self, bool may_wait, char *error, size_t error_bytes)
{
    int rc = block_cache_begin (self, may_wait);
    if (rc == -EAGAIN)
        return rc;
    if (rc)
        return s_fail (self->folder, rc, rc == -ENOSPC? NO_ROOM: rc == -ENOTSUP? "a later Tureen has written "
            "it, in a newer format: use that one, or give another folder, or remove this one and what it "
            "has is read again":
            "give a folder on a local file system, which has locks (flock)", error, error_bytes);
    rc = block_cache_room_count (self);
    if (rc == 0)
        block_cache_room_make (self, 0);
    block_cache_end (self);
    return rc? s_fail (self->folder, rc, rc == -ENOSPC? NO_ROOM: "check its file system", error, error_bytes):
        0;
}

//  Opens it, and says in `error` what is wrong and how to mend it.  Whether the caller still waits for it is
//  not known here.
static void
s_work_open (block_cache_request_t *request)
{
    block_cache_t *self = request->cache;
    int64_t began_ms = clock_now_ms ();
    int rc = self->descriptor < 0? s_open_folder (self, self->error, sizeof self->error): 0;
    if (rc == 0 && self->usage < 0)
        rc = s_open_usage (self, self->error, sizeof self->error);
    rc = rc? rc: s_look (self, request->may_wait, self->error, sizeof self->error);
    //  A caller that has gone on for a late disk does not try again.
    if (rc == -EAGAIN && clock_now_ms () - began_ms
        > (int64_t) block_cache_threads_slice_ms (self->threads) * BLOCK_CACHE_PATIENCE / 2)
        rc = s_look (self, true, self->error, sizeof self->error);
    request->is_locked_out = rc == -EAGAIN;
    if (request->is_locked_out)
        return;
    self->opened = rc;
    if (rc)
        block_cache_failed (self, rc);
    atomic_store (&self->is_open, rc == 0);
}

//  NULL: no memory.
static block_cache_t *
s_new (const char *folder, uint64_t bytes_max)
{
    block_cache_t *self = calloc (1, sizeof *self);
    char *kept = strdup (folder);
    if (!self || !kept) {
        free (self);
        free (kept);
        return NULL;
    }
    *self = (block_cache_t) { .magic = MAGIC, .folder = kept, .descriptor = -1, .usage = -1,
        .bytes_max = bytes_max };
    pthread_mutex_init (&self->lock, NULL);
    atomic_init (&self->is_open, false);
    atomic_init (&self->closed, NULL);
    atomic_init (&self->bytes_seen, 0);
    atomic_init (&self->failure, 0);
    atomic_init (&self->is_full, false);
    atomic_init (&self->damaged, 0);
    return self;
}

static int
s_open (block_cache_t **self_p, char *error, size_t error_bytes)
{
    block_cache_t *self = *self_p;
    block_cache_request_t request = { .work = s_work_open, .cache = self };
    int rc = block_cache_do_opening (self, &request)? self->opened: 0;
    if (rc) {
        snprintf (error, error_bytes, "%s", self->error);
        block_cache_close (self_p);
    }
    return rc;
}

int
block_cache_open_by (block_cache_t **self_p, block_cache_threads_t **threads_p, const char *folder,
    uint64_t bytes_max, char *error, size_t error_bytes)
{
    assert (self_p); assert (threads_p); assert (folder && *folder);
    assert (bytes_max >= BLOCK_CACHE_LEAST_BYTES); assert (error && error_bytes > 0);
    *error = 0;
    block_cache_t *self = *self_p = s_new (folder, bytes_max);
    if (!self) {
        block_cache_threads_destroy (threads_p);
        return s_fail (folder, -ENOMEM, "free memory", error, error_bytes);
    }
    self->threads = *threads_p;
    *threads_p = NULL;
    return s_open (self_p, error, error_bytes);
}

int
block_cache_open (block_cache_t **self_p, const char *folder, uint64_t bytes_max, char *error,
    size_t error_bytes)
{
    block_cache_threads_t *none = NULL;
    return block_cache_open_by (self_p, &none, folder, bytes_max, error, error_bytes);
}

int
block_cache_open_guest (block_cache_t **self_p, const char *folder, char *error, size_t error_bytes)
{
    assert (self_p); assert (folder && *folder); assert (error && error_bytes > 0);
    *error = 0;
    block_cache_t *self = *self_p = s_new (folder, UINT64_MAX);
    if (!self)
        return s_fail (folder, -ENOMEM, "free memory", error, error_bytes);
    self->is_guest = true;
    return s_open (self_p, error, error_bytes);
}

void
block_cache_end_later (block_cache_t *self, block_cache_closed_t *closed)
{
    closed->next = atomic_load (&self->closed);
    while (!atomic_compare_exchange_weak (&self->closed, &closed->next, closed))
        ;
}

void
block_cache_close (block_cache_t **self_p)
{
    assert (self_p);
    block_cache_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    block_cache_threads_destroy (&self->threads);
    for (block_cache_closed_t *closed = atomic_load (&self->closed), *next; closed; closed = next) {
        next = closed->next;
        closed->end (closed->data);
    }
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

block_cache_figures_t
block_cache_figures (const block_cache_t *self)
{
    assert (self && self->magic == MAGIC);
    block_cache_figures_t figures = { .folder = self->folder, .bytes = atomic_load (&self->bytes_seen),
        .bytes_max = self->bytes_max, .damaged = atomic_load (&self->damaged),
        .failure = atomic_load (&self->failure), .is_open = atomic_load (&self->is_open) };
    if (self->threads) {
        figures.times_aside = block_cache_threads_times_aside (self->threads);
        figures.is_aside = block_cache_threads_are_aside (self->threads);
        figures.waiting = block_cache_threads_bytes (self->threads);
    }
    return figures;
}
