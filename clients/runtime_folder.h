/*  runtime_folder -- the folder of a user's default endpoint, and the users that may replace files in a
 *  folder.  Where other users can, the server refuses to listen and the clients refuse to connect.
 *
 *  Owner: any thread; but the environment must not change meanwhile.
 */
#ifndef RUNTIME_FOLDER_H
#define RUNTIME_FOLDER_H
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

//  $XDG_RUNTIME_DIR if it is usable (absolute, a folder, this user's, writable), or NULL.
static inline const char *
runtime_folder_of_login (void)
{
    const char *path = getenv ("XDG_RUNTIME_DIR");
    struct stat status;
    if (path && path [0] == '/' && stat (path, &status) == 0 && S_ISDIR (status.st_mode)
    &&  status.st_uid == geteuid () && faccessat (AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0)
        return path;
    return NULL;
}

//  That of a user without one; as snprintf.  Other users can make it first.
static inline int
runtime_folder_in_tmp (uid_t user, char *buffer, size_t size)
{
    return snprintf (buffer, size, "/tmp/tureen-%u", (unsigned int) user);
}

//  Whether path is that folder of the user.
static inline bool
runtime_folder_is_in_tmp (const char *path, uid_t user)
{
    char folder [64];
    runtime_folder_in_tmp (user, folder, sizeof folder);
    return strcmp (path, folder) == 0;
}

//  Makes /tmp/tureen-UID of this user, if a socket's path is in it: then no other user can make that folder.
//  If something is there already, it stays, and the caller looks at it.
static inline void
runtime_folder_hold (const char *path)
{
    char folder [64];
    int length = runtime_folder_in_tmp (geteuid (), folder, sizeof folder);
    if (strncmp (path, folder, (size_t) length) == 0 && path [length] == '/')
        mkdir (folder, 0700);
}

//  The folder of this user's default endpoint; as snprintf.
static inline int
runtime_folder_default (char *buffer, size_t size)
{
    const char *login = runtime_folder_of_login ();
    if (login)
        return snprintf (buffer, size, "%s/tureen", login);
    return runtime_folder_in_tmp (geteuid (), buffer, size);
}

//  Whether path is such a folder, also where the user wrote the default endpoint out.
static inline bool
runtime_folder_is (const char *path)
{
    char folder [PATH_MAX];
    int length = runtime_folder_default (folder, sizeof folder);
    return (length >= 0 && (size_t) length < sizeof folder && strcmp (path, folder) == 0)
        || runtime_folder_is_in_tmp (path, geteuid ());
}

//  Whether users other than its owner (and root) can replace the owner's files in a folder.  A runtime folder
//  has no reason to be sticky.
static inline bool
runtime_folder_lets_replace (const struct stat *folder, bool is_runtime)
{
    return (folder->st_mode & 022) && (!(folder->st_mode & S_ISVTX) || is_runtime);
}

#endif
