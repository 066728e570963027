/*  client_keys_fixture -- what tests of certificates and of the folder of keys share: a folder, a log that is
 *  heard, and calls of the system that fail when told to (--wrap, in CMakeLists.txt).  After cmocka.h.
 */
#ifndef CLIENT_KEYS_FIXTURE_H
#define CLIENT_KEYS_FIXTURE_H
#include <time.h>
#include "client_keys.h"
#include "scratch.h"

enum { ERROR_BYTES = 512 };

//  -- calls that fail when told to

static unsigned int opened;             //  calls of openat
static time_t ahead;                    //  of the clock
static bool no_links;                   //  as a file system without second names
static bool no_descriptors;
static struct timespec coarse;          //  what files' times are; zero: what they are

int __real_openat (int folder, const char *path, int flags, ...);
int __wrap_openat (int folder, const char *path, int flags, ...);
int
__wrap_openat (int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start (arguments, flags);
    mode_t mode = flags & O_CREAT? va_arg (arguments, mode_t): 0;
    va_end (arguments);
    opened++;
    if (no_descriptors) {
        errno = EMFILE;
        return -1;
    }
    return fault_strikes ()? -1: __real_openat (folder, path, flags, mode);
}

//  Whatever the umask, no other user can have opened the file before its mode is set.
int __real_fchmod (int fd, mode_t mode);
int __wrap_fchmod (int fd, mode_t mode);
int
__wrap_fchmod (int fd, mode_t mode)
{
    struct stat status;
    if (fstat (fd, &status) == 0)
        assert_int_equal (status.st_mode & 077, 0);
    return fault_strikes ()? -1: __real_fchmod (fd, mode);
}

int __real_linkat (int from_folder, const char *from, int folder, const char *name, int flags);
int __wrap_linkat (int from_folder, const char *from, int folder, const char *name, int flags);
int
__wrap_linkat (int from_folder, const char *from, int folder, const char *name, int flags)
{
    if (no_links) {
        errno = EPERM;
        return -1;
    }
    return fault_strikes ()? -1: __real_linkat (from_folder, from, folder, name, flags);
}

//  Of a file system that does not count so finely, changes within a moment have one time.
int __real_fstatat (int folder, const char *path, struct stat *status, int flags);
int __wrap_fstatat (int folder, const char *path, struct stat *status, int flags);
int
__wrap_fstatat (int folder, const char *path, struct stat *status, int flags)
{
    int rc = __real_fstatat (folder, path, status, flags);
    if (rc == 0 && coarse.tv_sec)
        status->st_mtim = status->st_ctim = coarse;
    return rc;
}

time_t __real_time (time_t *at);
time_t __wrap_time (time_t *at);
time_t
__wrap_time (time_t *at)
{
    return __real_time (at) + ahead;
}

//  The log is heard whatever else fails.
static int log_fd = -1;
static size_t write_most = SIZE_MAX;    //  bytes that one call of write takes

ssize_t __real_write (int fd, const void *bytes, size_t size);
ssize_t __wrap_write (int fd, const void *bytes, size_t size);
ssize_t
__wrap_write (int fd, const void *bytes, size_t size)
{
    return fd != log_fd && fault_strikes ()? -1:
        __real_write (fd, bytes, size < write_most? size: write_most);
}

FAULT_CALL (ssize_t, -1, read, (int fd, void *bytes, size_t size), (fd, bytes, size))
FAULT_CALL (int, -1, fsync, (int fd), (fd))
FAULT_CALL (int, -1, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))

//  -- what every case begins and ends with

typedef struct {
    scratch_folder_t scratch;
    char directory [100], path [300];
    log_t log;
    int log_fds [2];
} fixture_t;

static inline int
begin (void **state)
{
    fixture_t *self = calloc (1, sizeof *self);
    *state = self;
    opened = 0;
    ahead = 0;
    no_links = no_descriptors = false;
    coarse = (struct timespec) { 0 };
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    snprintf (self->directory, sizeof self->directory, "%s/keys", self->scratch.path);
    if (pipe2 (self->log_fds, O_CLOEXEC | O_NONBLOCK))
        return -1;
    self->log.descriptor = log_fd = self->log_fds [1];
    return 0;
}

static inline int
end (void **state)
{
    fixture_t *self = *state;
    fault_disarm ();
    close (self->log_fds [0]);
    close (self->log_fds [1]);
    bool clean = scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

static inline const char *
in (fixture_t *self, const char *name)
{
    snprintf (self->path, sizeof self->path, "%s/%s", self->directory, name);
    return self->path;
}

//  What the log has said since.
static inline const char *
said (fixture_t *self)
{
    static char text [65536];
    ssize_t size = __real_read (self->log_fds [0], text, sizeof text - 1);
    text [size > 0? size: 0] = 0;
    return text;
}

static inline void
assert_said (fixture_t *self, const char *what)
{
    const char *text = said (self);
    if (!strstr (text, what))
        fail_msg ("the log says '%s', not '%s'", text, what);
}

static inline void
put (const char *path, const char *text, mode_t mode)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true (fd >= 0);
    assert_int_equal (__real_write (fd, text, strlen (text)), strlen (text));
    assert_int_equal (__real_fchmod (fd, mode), 0);
    close (fd);
}

static inline client_keys_t *
open_keys (fixture_t *self)
{
    client_keys_t *keys;
    char error [ERROR_BYTES];
    int rc = client_keys_open (&keys, self->directory, &self->log, error, sizeof error);
    if (rc)
        fail_msg ("%d, %s", rc, error);
    assert_string_equal (error, "");
    client_keys_check (keys);
    return keys;
}

static inline void
assert_refused (fixture_t *self, int code, const char *what)
{
    client_keys_t *keys = (client_keys_t *) 1;
    char error [ERROR_BYTES];
    int rc = client_keys_open (&keys, self->directory, &self->log, error, sizeof error);
    assert_null (keys);
    if (rc != code || !strstr (error, what))
        fail_msg ("%d, not %d: '%s', not '%s'", rc, code, error, what);
}

static inline void
allow (fixture_t *self, const certificate_t *key, const char *label, const char *tenant, bool is_operator)
{
    client_keys_folder_t folder;
    char error [ERROR_BYTES];
    certificate_t granted = *key;
    granted.secret_text [0] = 0;
    granted.is_operator = is_operator;
    snprintf (granted.tenant, sizeof granted.tenant, "%s", tenant);
    assert_int_equal (client_keys_folder_open (&folder, self->directory, true, error, sizeof error), 0);
    assert_int_equal (certificate_write (&granted, folder.allowed, label, false, geteuid ()), 0);
    client_keys_folder_close (&folder);
}

#endif
