/*  power_calls -- the calls that tell power.h what a program writes, for programs that use none of them
 *  otherwise: power_test in CMakeLists.txt wraps them.
 */
#ifndef POWER_CALLS_H
#define POWER_CALLS_H
#include "power.h"

#define POWER_CALL(type, name, parameters) \
    type __real_##name parameters; \
    type __wrap_##name parameters; \
    type \
    __wrap_##name parameters

POWER_CALL (int, openat, (int folder, const char *path, int flags, mode_t mode))
{
    int opened = __real_openat (folder, path, flags, mode);
    if (opened >= 0 && (flags & O_CREAT) && power_named (folder, path) && (flags & O_TRUNC))
        power_cut (opened, 0);
    return opened;
}

POWER_CALL (int, open, (const char *path, int flags, mode_t mode))
{
    int opened = __real_open (path, flags, mode);
    if (opened >= 0 && (flags & O_CREAT) && power_named (AT_FDCWD, path) && (flags & O_TRUNC))
        power_cut (opened, 0);
    return opened;
}

POWER_CALL (int, mkdirat, (int folder, const char *path, mode_t mode))
{
    int rc = __real_mkdirat (folder, path, mode);
    if (rc == 0)
        power_named (folder, path);
    return rc;
}

POWER_CALL (int, linkat, (int from_folder, const char *from, int folder, const char *path, int flags))
{
    int rc = __real_linkat (from_folder, from, folder, path, flags);
    if (rc == 0)
        power_linked (folder, path);
    return rc;
}

POWER_CALL (int, rename, (const char *from, const char *to))
{
    int going = power_will_go (AT_FDCWD, to), rc = __real_rename (from, to);
    if (rc == 0)
        power_renamed (AT_FDCWD, from, to, going);
    return rc;
}

POWER_CALL (int, unlinkat, (int folder, const char *path, int flags))
{
    int going = power_will_go (folder, path), rc = __real_unlinkat (folder, path, flags);
    if (rc == 0)
        power_removed (folder, path, going);
    return rc;
}

POWER_CALL (int, unlink, (const char *path))
{
    int going = power_will_go (AT_FDCWD, path), rc = __real_unlink (path);
    if (rc == 0)
        power_removed (AT_FDCWD, path, going);
    return rc;
}

POWER_CALL (int, ftruncate, (int file, off_t size))
{
    int rc = __real_ftruncate (file, size);
    if (rc == 0)
        power_cut (file, (uint64_t) size);
    return rc;
}

POWER_CALL (int, fallocate, (int file, int mode, off_t offset, off_t size))
{
    int rc = __real_fallocate (file, mode, offset, size);
    if (rc == 0)
        power_written (file, NULL, (size_t) size, (uint64_t) offset);
    return rc;
}

POWER_CALL (ssize_t, pwrite, (int file, const void *bytes, size_t size, off_t offset))
{
    ssize_t written = __real_pwrite (file, bytes, size, offset);
    if (written > 0)
        power_written (file, bytes, (size_t) written, (uint64_t) offset);
    return written;
}

POWER_CALL (ssize_t, write, (int file, const void *bytes, size_t size))
{
    ssize_t written = __real_write (file, bytes, size);
    off_t end = written > 0? lseek (file, 0, SEEK_CUR): -1;
    if (end >= written)
        power_written (file, bytes, (size_t) written, (uint64_t) (end - written));
    return written;
}

//  Nothing needs the disk: the power goes in power.h only.
POWER_CALL (int, fsync, (int file))
{
    power_synced (file);
    return 0;
}

POWER_CALL (int, fdatasync, (int file))
{
    power_synced (file);
    return 0;
}

//  -- streams: what they write is seen when they are flushed, and stands behind what they wrote before

POWER_CALL (FILE *, fopen, (const char *path, const char *mode))
{
    FILE *stream = __real_fopen (path, mode);
    if (stream && *mode == 'w')
        power_named (AT_FDCWD, path);
    return stream;
}

POWER_CALL (int, fflush, (FILE *stream))
{
    int rc = __real_fflush (stream);
    if (stream && rc == 0)
        power_grown (fileno (stream));
    return rc;
}

POWER_CALL (int, fclose, (FILE *stream))
{
    if (__real_fflush (stream) == 0)
        power_grown (fileno (stream));
    return __real_fclose (stream);
}

#endif
