//  What the cache takes of the local disk, and the removal of data sets that no server uses.

#include "block_cache_state.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include "clock.h"

enum {
    LOOK_AGAIN_MS = 10000,              //  when nothing could be removed
    MAP_BLOCKS = 2,                     //  of the maps of `data` and `sums` at first
    MAP_STORES = 128                    //  what is written in so many steps takes at most a block more of the
                                        //  map: ext4 has 170 pieces in a block that is half full
};

static const char *const s_files [] = { "data", "sums", "lock" };

//  -- heads

static uint64_t
s_taken (const block_cache_t *self, const char *path)
{
    struct stat status;
    return fstatat (self->descriptor, path, &status, AT_SYMLINK_NOFOLLOW) == 0?
        (uint64_t) status.st_blocks * 512: 0;
}

static uint64_t
s_head_sum (const block_head_t *head)
{
    return XXH3_64bits (head, offsetof (block_head_t, sum));
}

bool
block_cache_head_read (const block_cache_t *self, const char *name, int sums, block_head_t *head)
{
    if (pread (sums, head, sizeof *head, 0) == sizeof *head
    &&  memcmp (head->format, BLOCK_HEAD_FORMAT, sizeof head->format) == 0
    &&  head->sum == s_head_sum (head))
        return true;
    //  Each store has written a block or more.
    char path [BLOCK_CACHE_PATH_BYTES];
    snprintf (path, sizeof path, "%.32s/data", name);
    *head = (block_head_t) { .format = BLOCK_HEAD_FORMAT,
        .stores = s_taken (self, path) / BLOCK_CACHE_BLOCK_BYTES };
    return false;
}

int
block_cache_head_write (int sums, const block_head_t *head)
{
    block_head_t whole = *head;
    whole.sum = s_head_sum (&whole);
    ssize_t written = pwrite (sums, &whole, sizeof whole, 0);
    return written == sizeof whole? 0: written < 0? -errno: -EIO;
}


//  -- measuring

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

bool
block_cache_is_dataset (const char *name)
{
    return strlen (name) == BLOCK_CACHE_NAME_BYTES - 1
        && strspn (name, "0123456789abcdef") == BLOCK_CACHE_NAME_BYTES - 1;
}

//  Notes in its head what the data set takes, and returns it.  Opening the data set writes a damaged head.
static uint64_t
s_measure (block_cache_t *self, const char *name)
{
    char path [BLOCK_CACHE_PATH_BYTES];
    block_head_t head = { .held = 0 };
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
    DIR *stream = block_cache_list (self);
    if (!stream)
        return -errno;
    uint64_t bytes = s_taken (self, ".");
    for (const struct dirent *item; (item = readdir (stream));)
        if (block_cache_is_dataset (item->d_name))
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
    DIR *stream = block_cache_list (self);
    unused_t found = { .lock = -1 };
    for (const struct dirent *item; stream && (item = readdir (stream));)
        if (block_cache_is_dataset (item->d_name))
            s_consider (self, item->d_name, &found);
    if (stream)
        closedir (stream);
    bool is_removed = found.lock >= 0 && s_remove (self, &found);
    if (found.lock >= 0)
        close (found.lock);
    return is_removed;
}

static uint64_t
s_room (const block_cache_t *self)
{
    return self->bytes < self->bytes_max? self->bytes_max - self->bytes: 0;
}

uint64_t
block_cache_room_make (block_cache_t *self, uint64_t bytes)
{
    bool is_over = self->bytes > self->bytes_max;
    if ((s_room (self) >= bytes && !is_over) || clock_now_ms () < self->full_until_ms)
        return s_room (self);
    while (s_room (self) < bytes || self->bytes > self->bytes_max)
        if (!s_remove_oldest (self)) {
            //  A server that was killed has left too large a number.
            s_count_again (self);
            self->full_until_ms = clock_now_ms () + LOOK_AGAIN_MS;
            break;
        }
    return s_room (self);
}
