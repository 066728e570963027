#include "stranger.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool
stranger_owns (const char *path)
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
