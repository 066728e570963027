/*  failing_calls -- a library to preload that lets one call of a program fail: test_system_faults.py.
 *
 *  A *site* is where in the program, not in its libraries, a function is called.  TUREEN_FAULT_RECORD=FILE:
 *  writes each site to the file when it is come to first, "malloc 1a2b3c".  TUREEN_FAULT_SITE="malloc
 *  1a2b3c": calls from there fail, as the system would let them, from number TUREEN_FAULT_FROM (1) on;
 *  TUREEN_FAULT_TIMES (1) of them, 0: all.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SITES_MAX = 4096, LINE_BYTES = 96 };

typedef struct {
    const char *function;
    uintptr_t offset;
} site_t;

static struct {
    uintptr_t begin, end;           //  of the program's code
    bool is_ready;
    int record;                     //  descriptor; -1: none
    char function [64];             //  that fails; empty: none
    uintptr_t offset;
    unsigned long from, times, seen;
    site_t sites [SITES_MAX];
    size_t count;
    pthread_mutex_t mutex;
} s_faults = { .record = -1, .mutex = PTHREAD_MUTEX_INITIALIZER };

extern void *__libc_malloc (size_t);
extern void *__libc_calloc (size_t, size_t);
extern void *__libc_realloc (void *, size_t);
extern void *__libc_memalign (size_t, size_t);

static int
s_find_program (struct dl_phdr_info *info, size_t size, void *context)
{
    (void) size;
    (void) context;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW (Phdr) *part = &info->dlpi_phdr [index];
        if (part->p_type == PT_LOAD && part->p_flags & PF_X) {
            s_faults.begin = info->dlpi_addr + part->p_vaddr;
            s_faults.end = s_faults.begin + part->p_memsz;
        }
    }
    return 1;                       //  the first is the program
}

static unsigned long
s_number (const char *name, unsigned long otherwise)
{
    const char *text = getenv (name);
    return text? strtoul (text, NULL, 10): otherwise;
}

__attribute__ ((constructor)) static void
s_begin (void)
{
    dl_iterate_phdr (s_find_program, NULL);
    const char *record = getenv ("TUREEN_FAULT_RECORD"), *site = getenv ("TUREEN_FAULT_SITE");
    if (record)
        s_faults.record = (int) syscall (SYS_openat, AT_FDCWD, record,
            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    unsigned long offset;
    if (site && sscanf (site, "%63s %lx", s_faults.function, &offset) == 2)
        s_faults.offset = offset;
    s_faults.from = s_number ("TUREEN_FAULT_FROM", 1);
    s_faults.times = s_number ("TUREEN_FAULT_TIMES", 1);
    s_faults.is_ready = true;
}

static void
s_record (const char *function, uintptr_t offset)
{
    for (size_t index = 0; index < s_faults.count; index++)
        if (s_faults.sites [index].offset == offset
            && strcmp (s_faults.sites [index].function, function) == 0)
            return;
    if (s_faults.count == SITES_MAX)
        return;
    s_faults.sites [s_faults.count++] = (site_t) { function, offset };
    char line [LINE_BYTES];
    int size = snprintf (line, sizeof line, "%s %lx\n", function, (unsigned long) offset);
    syscall (SYS_write, s_faults.record, line, (size_t) size);
}

//  Whether this call is to fail.
static bool
s_fails (const char *function, const void *caller)
{
    uintptr_t address = (uintptr_t) caller;
    if (!s_faults.is_ready || address < s_faults.begin || address >= s_faults.end)
        return false;
    uintptr_t offset = address - s_faults.begin;
    bool is_meant = s_faults.offset == offset && strcmp (s_faults.function, function) == 0;
    if (!is_meant && s_faults.record < 0)
        return false;
    pthread_mutex_lock (&s_faults.mutex);
    if (s_faults.record >= 0)
        s_record (function, offset);
    unsigned long number = is_meant? ++s_faults.seen: 0;
    pthread_mutex_unlock (&s_faults.mutex);
    return is_meant && number >= s_faults.from
        && (!s_faults.times || number < s_faults.from + s_faults.times);
}

//  What threads wake each other by: it is ours, and the system cannot refuse it.
static bool
s_is_eventfd (int file)
{
    struct stat status;
    return syscall (SYS_fstat, file, &status) == 0 && (status.st_mode & S_IFMT) == 0;
}

//  type name (parameters) that gives `wrong` and sets errno where it fails.
#define FAILING(type, name, parameters, arguments, wrong, reason) \
    type name parameters; \
    type name parameters \
    { \
        static type (*next) parameters; \
        if (s_fails (#name, __builtin_return_address (0))) { \
            errno = reason; \
            return wrong; \
        } \
        if (!next) \
            *(void **) &next = dlsym (RTLD_NEXT, #name); \
        return next arguments; \
    }

void *
malloc (size_t size)
{
    if (!s_fails ("malloc", __builtin_return_address (0)))
        return __libc_malloc (size);
    errno = ENOMEM;
    return NULL;
}

void *
calloc (size_t count, size_t size)
{
    if (!s_fails ("calloc", __builtin_return_address (0)))
        return __libc_calloc (count, size);
    errno = ENOMEM;
    return NULL;
}

void *
realloc (void *memory, size_t size)
{
    if (!s_fails ("realloc", __builtin_return_address (0)))
        return __libc_realloc (memory, size);
    errno = ENOMEM;
    return NULL;
}

void *
aligned_alloc (size_t alignment, size_t size)
{
    if (!s_fails ("aligned_alloc", __builtin_return_address (0)))
        return __libc_memalign (alignment, size);
    errno = ENOMEM;
    return NULL;
}

int
posix_memalign (void **memory, size_t alignment, size_t size)
{
    if (s_fails ("posix_memalign", __builtin_return_address (0)))
        return ENOMEM;
    *memory = __libc_memalign (alignment, size);
    return *memory? 0: ENOMEM;
}

FAILING (char *, strdup, (const char *text), (text), NULL, ENOMEM)
FAILING (char *, strndup, (const char *text, size_t size), (text, size), NULL, ENOMEM)
FAILING (int, vasprintf, (char **text, const char *format, va_list arguments), (text, format, arguments), -1,
    ENOMEM)
FAILING (void *, mmap, (void *at, size_t size, int protection, int flags, int file, off_t offset),
    (at, size, protection, flags, file, offset), MAP_FAILED, ENOMEM)
FAILING (int, ftruncate, (int file, off_t size), (file, size), -1, ENOSPC)
FAILING (int, fallocate, (int file, int mode, off_t offset, off_t size), (file, mode, offset, size), -1,
    ENOSPC)
FAILING (FILE *, fopen, (const char *path, const char *mode), (path, mode), NULL, EMFILE)
FAILING (int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
FAILING (int, bind, (int file, const struct sockaddr *address, socklen_t size), (file, address, size), -1,
    EADDRINUSE)
FAILING (int, listen, (int file, int most), (file, most), -1, EADDRINUSE)
FAILING (int, accept4, (int file, struct sockaddr *address, socklen_t *size, int flags),
    (file, address, size, flags), -1, EMFILE)
FAILING (int, getsockopt, (int file, int level, int name, void *value, socklen_t *size),
    (file, level, name, value, size), -1, EINVAL)
FAILING (int, epoll_create1, (int flags), (flags), -1, EMFILE)
FAILING (int, epoll_ctl, (int epoll, int what, int file, struct epoll_event *event),
    (epoll, what, file, event), -1, ENOMEM)
FAILING (int, eventfd, (unsigned int value, int flags), (value, flags), -1, EMFILE)
FAILING (int, signalfd, (int file, const sigset_t *signals, int flags), (file, signals, flags), -1, EMFILE)
FAILING (ssize_t, recv, (int file, void *bytes, size_t size, int flags), (file, bytes, size, flags), -1,
    ECONNRESET)
FAILING (ssize_t, sendmsg, (int file, const struct msghdr *message, int flags), (file, message, flags), -1,
    ENOBUFS)
FAILING (ssize_t, pread, (int file, void *bytes, size_t size, off_t offset), (file, bytes, size, offset), -1,
    EIO)
FAILING (ssize_t, pread64, (int file, void *bytes, size_t size, off_t offset), (file, bytes, size, offset),
    -1, EIO)
FAILING (ssize_t, preadv, (int file, const struct iovec *parts, int count, off_t offset),
    (file, parts, count, offset), -1, EIO)
FAILING (int, fstat, (int file, struct stat *status), (file, status), -1, EIO)
FAILING (int, lstat, (const char *path, struct stat *status), (path, status), -1, EACCES)
FAILING (int, fchmod, (int file, mode_t mode), (file, mode), -1, EPERM)
FAILING (int, mkdir, (const char *path, mode_t mode), (path, mode), -1, ENOSPC)
FAILING (int, flock, (int file, int what), (file, what), -1, ENOLCK)
FAILING (ssize_t, getrandom, (void *bytes, size_t size, unsigned int flags), (bytes, size, flags), -1, ENOSYS)
FAILING (int, io_uring_queue_init, (unsigned entries, void *ring, unsigned flags), (entries, ring, flags),
    -EPERM, EPERM)

int
pthread_create (pthread_t *thread, const pthread_attr_t *attributes, void *(*run) (void *), void *argument)
{
    static int (*next) (pthread_t *, const pthread_attr_t *, void *(*) (void *), void *);
    if (s_fails ("pthread_create", __builtin_return_address (0)))
        return EAGAIN;
    if (!next)
        *(void **) &next = dlsym (RTLD_NEXT, "pthread_create");
    return next (thread, attributes, run, argument);
}

int
openat (int folder, const char *path, int flags, ...)
{
    va_list more;
    va_start (more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE)? va_arg (more, mode_t): 0;
    va_end (more);
    if (s_fails ("openat", __builtin_return_address (0))) {
        errno = EMFILE;
        return -1;
    }
    return (int) syscall (SYS_openat, folder, path, flags, mode);
}

int
open (const char *path, int flags, ...)
{
    va_list more;
    va_start (more, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE)? va_arg (more, mode_t): 0;
    va_end (more);
    if (s_fails ("open", __builtin_return_address (0))) {
        errno = EMFILE;
        return -1;
    }
    return (int) syscall (SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t
read (int file, void *bytes, size_t size)
{
    if (s_fails ("read", __builtin_return_address (0)) && !s_is_eventfd (file)) {
        errno = EIO;
        return -1;
    }
    return syscall (SYS_read, file, bytes, size);
}

ssize_t
write (int file, const void *bytes, size_t size)
{
    if (s_fails ("write", __builtin_return_address (0)) && !s_is_eventfd (file)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall (SYS_write, file, bytes, size);
}
