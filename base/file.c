#include "file.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

//  ---- read

//  /dev/fd/63 leads to "pipe:[4711]", which is nowhere.
static bool
s_has_name (const char *path)
{
    char *real = realpath (path, NULL);
    free (real);
    return real != NULL;
}

//  0, or -errno.
static int
s_check (int fd, const char *path)
{
    struct stat status;
    if (fstat (fd, &status))
        return -errno;
    if (S_ISDIR (status.st_mode))
        return -EISDIR;
    if (!S_ISREG (status.st_mode) && (!S_ISFIFO (status.st_mode) || s_has_name (path)))
        return -EINVAL;
    int flags = fcntl (fd, F_GETFL);
    return flags < 0 || fcntl (fd, F_SETFL, flags & ~O_NONBLOCK)? -errno: 0;
}

int
file_open (const char *path)
{
    int fd;
    do
        fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return errno == ENXIO? -EINVAL: -errno;         //  a socket, or a device that is not there
    int rc = s_check (fd, path);
    if (rc)
        close (fd);
    return rc? rc: fd;
}

FILE *
file_stream (const char *path)
{
    int fd = file_open (path);
    FILE *file = fd < 0? NULL: fdopen (fd, "r");
    if (fd < 0)
        errno = -fd;
    else
    if (!file) {
        int error = errno;
        close (fd);
        errno = error;
    }
    return file;
}

//  A little more than the file has now, or what a pipe may bring.
static size_t
s_room (int fd, size_t bytes_max)
{
    enum { PIPE_ROOM = 4096 };
    struct stat status;
    if (fstat (fd, &status) || status.st_size <= 0)
        return PIPE_ROOM;
    return (size_t) status.st_size < bytes_max? (size_t) status.st_size + 2: bytes_max + 2;
}

int
file_whole (const char *path, size_t bytes_max, char **bytes_p, size_t *size_p)
{
    *bytes_p = NULL;
    *size_p = 0;
    int fd = file_open (path), rc = fd < 0? fd: 0;
    char *bytes = NULL;
    size_t room = rc? 0: s_room (fd, bytes_max), size = 0;
    for (ssize_t got = 1; rc == 0 && got != 0; room *= size + 1 == room? 2: 1) {
        char *more = realloc (bytes, room);
        bytes = more? more: bytes;
        got = more? read (fd, bytes + size, room - 1 - size): -1;
        size += got > 0? (size_t) got: 0;
        if (got < 0 && errno != EINTR)
            rc = -errno;
        else
        if (size > bytes_max)
            rc = -EFBIG;
    }
    if (fd >= 0)
        close (fd);
    if (rc) {
        free (bytes);
        return rc;
    }
    bytes [size] = 0;
    *bytes_p = bytes;
    *size_p = size;
    return 0;
}

size_t
file_read_at (int fd, void *memory, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        int error = errno;
        ssize_t count = pread (fd, (char *) memory + done, bytes - done, (off_t) (offset + done));
        if (count < 0 && errno == EINTR) {
            errno = error;
            continue;
        }
        if (count <= 0)
            break;
        done += (size_t) count;
    }
    return done;
}

enum { HERE = -1 };

static int
s_write (int fd, const char *memory, size_t bytes, off_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t count = offset == HERE? write (fd, memory + done, bytes - done)
            : pwrite (fd, memory + done, bytes - done, offset + (off_t) done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return count < 0? -errno: -EIO;
        done += (size_t) count;
    }
    return 0;
}

int
file_write_at (int fd, const void *memory, size_t bytes, uint64_t offset)
{
    return s_write (fd, memory, bytes, (off_t) offset);
}

int
file_write (int fd, const void *memory, size_t bytes)
{
    return s_write (fd, memory, bytes, HERE);
}

const char *
file_error (int error)
{
    error = error < 0? -error: error;
    return error == EINVAL? "is no regular file": strerror (error);
}

//  ---- kept when the power fails

int
file_sync (int fd)
{
    while (fsync (fd))
        if (errno != EINTR)
            return errno == EINVAL? 0: -errno;
    return 0;
}

int
file_sync_name (int folder)
{
    struct stat status, status_above;
    int above = openat (folder, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0)
        return errno == EACCES? 0: -errno;
    int rc = fstat (folder, &status) || fstat (above, &status_above)? -errno: 0;
    if (rc == 0 && status.st_dev == status_above.st_dev)
        rc = file_sync (above);
    close (above);
    return rc;
}

//  ---- of another user

bool
file_is_foreign (const char *path)
{
    assert (path);
    char folder [PATH_MAX];
    struct stat entry, above;
    if (snprintf (folder, sizeof folder, "%s", path) >= (int) sizeof folder || lstat (path, &entry) != 0)
        return false;
    size_t length = strlen (folder);
    while (length > 1 && folder [length - 1] == '/')
        folder [--length] = 0;
    char *slash = strrchr (folder, '/');
    if (slash)
        slash [slash == folder] = 0;
    if (stat (slash? folder: ".", &above) != 0)
        return false;
    return (above.st_mode & S_IWOTH) && entry.st_uid != geteuid () && entry.st_uid != 0
        && entry.st_uid != above.st_uid;
}
