#include "input.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
input_open (const char *path)
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
input_stream (const char *path)
{
    int fd = input_open (path);
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

const char *
input_error (int error)
{
    error = error < 0? -error: error;
    return error == EINVAL? "is no regular file": strerror (error);
}
