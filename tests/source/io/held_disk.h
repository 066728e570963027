/*  held_disk -- a local disk for tests of the cache: nothing of it lies in the page cache, and reads of what
 *  is kept can be held up.
 *
 *  A test program links with --wrap=pread,--wrap=preadv2.
 */
#ifndef HELD_DISK_H
#define HELD_DISK_H
#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>
#include "block_data.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held;                       //  reads of what is kept wait; those of checksums pass
    bool is_cold;                       //  nothing lies in the page cache
    size_t waiting;
} held_disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset);
ssize_t __real_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t __wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags);

ssize_t
__wrap_pread (int descriptor, void *memory, size_t bytes, off_t offset)
{
    if (bytes >= BLOCK_DATA_UNIT_BYTES) {
        pthread_mutex_lock (&held_disk.lock);
        held_disk.waiting++;
        pthread_cond_broadcast (&held_disk.changed);
        while (held_disk.is_held)
            pthread_cond_wait (&held_disk.changed, &held_disk.lock);
        held_disk.waiting--;
        pthread_mutex_unlock (&held_disk.lock);
    }
    return __real_pread (descriptor, memory, bytes, offset);
}

ssize_t
__wrap_preadv2 (int descriptor, const struct iovec *parts, int count, off_t offset, int flags)
{
    if (flags & RWF_NOWAIT && held_disk.is_cold) {
        errno = EAGAIN;
        return -1;
    }
    return __real_preadv2 (descriptor, parts, count, offset, flags);
}

static inline void
held_disk_hold (bool is_held)
{
    pthread_mutex_lock (&held_disk.lock);
    held_disk.is_held = is_held;
    pthread_cond_broadcast (&held_disk.changed);
    pthread_mutex_unlock (&held_disk.lock);
}

static inline void
held_disk_wait_for_readers (size_t count)
{
    pthread_mutex_lock (&held_disk.lock);
    while (held_disk.waiting < count)
        pthread_cond_wait (&held_disk.changed, &held_disk.lock);
    pthread_mutex_unlock (&held_disk.lock);
}

#endif
