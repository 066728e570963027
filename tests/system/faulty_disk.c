/*  faulty_disk -- a library to preload that makes the files which the server reads fail or slow, as told
 *  while it runs: test_system_storage.py, test_system_block_cache.py.
 *
 *  TUREEN_DISK names a file of rules, one a line, looked at with each call.  "open ERRNO TEXT", "read ERRNO
 *  TEXT" and "write ERRNO TEXT" let the opening, the reading by preadv and the writing by pwrite of files
 *  fail that have TEXT in their path; "slow MILLISECONDS TEXT" lets reading them wait, "stall 1 TEXT" reading
 *  (by pread too) and writing for as long as the rule is there.  "device NUMBER TEXT" lets them lie on a file
 *  system of that number.  "stale 1 TEXT" lets what was opened before the rule was there, files and folders
 *  below which others are opened, fail with ESTALE.  There is no io_uring, so that all reading comes through
 *  here.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RULES_BYTES = 1024, WORD_BYTES = 8, TEXT_BYTES = 200, FILES_MAX = 4096 };

static atomic_bool s_is_new [FILES_MAX];        //  by descriptor: opened while it fell under a rule of stale
                                                //  ones

struct io_uring;
int io_uring_queue_init (unsigned entries, struct io_uring *ring, unsigned flags);
int open (const char *path, int flags, ...);
int dup3 (int file, int other, int flags);
int openat (int folder, const char *path, int flags, ...);
ssize_t preadv (int file, const struct iovec *parts, int count, off_t offset);
ssize_t pread (int file, void *bytes, size_t size, off_t offset);
ssize_t preadv2 (int file, const struct iovec *parts, int count, off_t offset, int flags);
ssize_t pwrite (int file, const void *bytes, size_t size, off_t offset);

static int
s_openat (int folder, const char *path, int flags, mode_t mode)
{
    static int (*real) (int, const char *, int, ...);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "openat");
    return real (folder, path, flags, mode);
}

//  The number of the first rule of this kind that the path falls under; 0: none.
static int
s_rule (const char *kind, const char *path)
{
    const char *file = getenv ("TUREEN_DISK");
    char rules [RULES_BYTES], word [WORD_BYTES], text [TEXT_BYTES];
    int fd = file? s_openat (AT_FDCWD, file, O_RDONLY | O_CLOEXEC, 0): -1;
    ssize_t size = fd < 0? 0: read (fd, rules, sizeof rules - 1);
    if (fd >= 0)
        close (fd);
    rules [size > 0? size: 0] = 0;
    int number, length;
    for (const char *at = rules; sscanf (at, "%7s %d %199s%n", word, &number, text, &length) == 3;
        at += length)
        if (strcmp (word, kind) == 0 && strstr (path, text))
            return number;
    return 0;
}

static bool
s_fails (const char *kind, const char *path)
{
    int number = s_rule (kind, path);
    if (number)
        errno = number;
    return number != 0;
}

int
io_uring_queue_init (unsigned entries, struct io_uring *ring, unsigned flags)
{
    (void) entries;
    (void) ring;
    (void) flags;
    return -ENOSYS;
}

static void
s_path (int file, char path [PATH_MAX])
{
    char link [64];
    snprintf (link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink (link, path, PATH_MAX - 1);
    path [length > 0? length: 0] = 0;
}

static void
s_stall (const char *path)
{
    while (s_rule ("stall", path))
        nanosleep (&(struct timespec) { .tv_nsec = 10000000L }, NULL);
}

//  Notes whether it was opened under such a rule.
static int
s_opened (int file)
{
    char path [PATH_MAX];
    if (file >= 0 && file < FILES_MAX) {
        s_path (file, path);
        atomic_store (&s_is_new [file], s_rule ("stale", path) != 0);
    }
    return file;
}

//  Whether it went stale.
static bool
s_is_stale (int file)
{
    char path [PATH_MAX];
    if (file < 0 || file >= FILES_MAX || atomic_load (&s_is_new [file]))
        return false;
    s_path (file, path);
    errno = ESTALE;
    return s_rule ("stale", path) != 0;
}

int
dup3 (int file, int other, int flags)
{
    int rc = (int) syscall (SYS_dup3, file, other, flags);
    if (rc >= 0 && file < FILES_MAX && other < FILES_MAX)
        atomic_store (&s_is_new [other], atomic_load (&s_is_new [file]));
    return rc;
}

int
open (const char *path, int flags, ...)
{
    va_list rest;
    va_start (rest, flags);
    mode_t mode = flags & O_CREAT? va_arg (rest, mode_t): 0;
    va_end (rest);
    return s_opened (s_openat (AT_FDCWD, path, flags, mode));
}

int
openat (int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start (rest, flags);
    mode_t mode = flags & O_CREAT? va_arg (rest, mode_t): 0;
    va_end (rest);
    return s_fails ("open", path) || s_is_stale (folder)? -1: s_opened (s_openat (folder, path, flags, mode));
}

ssize_t
preadv (int file, const struct iovec *parts, int count, off_t offset)
{
    static ssize_t (*real) (int, const struct iovec *, int, off_t);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "preadv");
    char path [PATH_MAX];
    s_path (file, path);
    int slow_ms = s_rule ("slow", path);
    if (slow_ms)
        nanosleep (&(struct timespec) { .tv_sec = slow_ms / 1000, .tv_nsec = slow_ms % 1000 * 1000000L },
            NULL);
    s_stall (path);
    return s_fails ("read", path) || s_is_stale (file)? -1: real (file, parts, count, offset);
}

ssize_t
pread (int file, void *bytes, size_t size, off_t offset)
{
    static ssize_t (*real) (int, void *, size_t, off_t);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "pread");
    char path [PATH_MAX];
    s_path (file, path);
    s_stall (path);
    return real (file, bytes, size, offset);
}

//  Nothing of a disk that stalls lies in the page cache.
ssize_t
preadv2 (int file, const struct iovec *parts, int count, off_t offset, int flags)
{
    static ssize_t (*real) (int, const struct iovec *, int, off_t, int);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "preadv2");
    char path [PATH_MAX];
    s_path (file, path);
    if (flags & RWF_NOWAIT && s_rule ("stall", path)) {
        errno = EAGAIN;
        return -1;
    }
    s_stall (path);
    return real (file, parts, count, offset, flags);
}

ssize_t
pwrite (int file, const void *bytes, size_t size, off_t offset)
{
    static ssize_t (*real) (int, const void *, size_t, off_t);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "pwrite");
    char path [PATH_MAX];
    s_path (file, path);
    s_stall (path);
    return s_fails ("write", path)? -1: real (file, bytes, size, offset);
}

static int
s_tell_device (int rc, const char *path, struct stat *status)
{
    int number = rc == 0? s_rule ("device", path): 0;
    if (number)
        status->st_dev = (dev_t) number;
    return rc;
}

int
stat (const char *path, struct stat *status)
{
    static int (*real) (const char *, struct stat *);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "stat");
    return s_tell_device (real (path, status), path, status);
}

int
fstat (int file, struct stat *status)
{
    static int (*real) (int, struct stat *);
    if (!real)
        *(void **) &real = dlsym (RTLD_NEXT, "fstat");
    char path [PATH_MAX];
    s_path (file, path);
    return s_tell_device (real (file, status), path, status);
}
