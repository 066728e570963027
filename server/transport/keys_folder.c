#include "keys_folder.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "disk_sync.h"

//  The place for the sentence.
typedef struct {
    const char *path;
    char *error;
    size_t error_bytes;
} failing_t;

__attribute__ ((format (printf, 3, 4)))
static int
s_fail (const failing_t *self, int rc, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (self->error, self->error_bytes, format, arguments);
    va_end (arguments);
    return rc;
}

static int
s_check_guard (const failing_t *self, const char *which, int fd, uid_t owner)
{
    struct stat status;
    if (fstat (fd, &status))
        return s_fail (self, -errno, "cannot look at the %s '%s': %s", which, self->path, strerror (errno));
    if (status.st_uid != owner)
        return s_fail (self, -EPERM,
            "the %s '%s' belongs to user %u, not to user %u as its keys do: chown it, or take "
            "another folder", which, self->path, (unsigned) status.st_uid, (unsigned) owner);
    if (status.st_mode & 022)
        return s_fail (self, -EPERM,
            "others may write to the %s '%s', and could let themselves in: chmod 700 it", which, self->path);
    return 0;
}

//  The descriptor of one of the two folders, or -errno.
static int
s_open (const failing_t *self, int above, const char *name, bool make, bool *made_p)
{
    const char *which = above == AT_FDCWD? "folder": "folder 'allowed' in";
    *made_p = make && mkdirat (above, name, 0700) == 0;
    if (make && !*made_p && errno != EEXIST)
        return s_fail (self, -errno, "cannot make the %s '%s': %s", which, self->path, strerror (errno));
    //  A link may lead to a place that other users can write.
    int fd = openat (above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    //  Its name is durable before what is put into it, also where a run that was killed made it.
    int rc = fd >= 0 && make? disk_sync_name (fd): 0;
    if (rc) {
        close (fd);
        return s_fail (self, rc, "cannot write the name of the %s '%s' to the disk: %s", which, self->path,
            strerror (-rc));
    }
    if (fd >= 0)
        return fd;
    if (errno == ENOENT)
        return s_fail (self, -ENOENT,
            "there is no %s '%s': `tureen key allow` and a server with --keys make it", which, self->path);
    if (errno == ENOTDIR || errno == ELOOP)
        return s_fail (self, -ENOTDIR, "the %s '%s' is no folder, or a link to one: name the folder itself",
            which, self->path);
    return s_fail (self, -errno, "cannot open the %s '%s': %s", which, self->path, strerror (errno));
}

//  Our own user; for root, which works on other users' folders, the folder's owner.
static uid_t
s_owner (int fd)
{
    struct stat status;
    return geteuid () == 0 && fstat (fd, &status) == 0? status.st_uid: geteuid ();
}

int
keys_folder_open (keys_folder_t *self, const char *path, bool make, char *error, size_t error_bytes)
{
    failing_t failing = { path, error, error_bytes };
    bool made;
    *error = 0;
    *self = (keys_folder_t) { .allowed = -1 };
    int rc = self->folder = s_open (&failing, AT_FDCWD, path, make, &made);
    if (rc >= 0) {
        self->owner = s_owner (self->folder);
        rc = s_check_guard (&failing, "folder", self->folder, self->owner);
    }
    if (rc >= 0)
        rc = self->allowed = s_open (&failing, self->folder, "allowed", make, &made);
    if (rc >= 0 && made && self->owner != geteuid () && fchown (self->allowed, self->owner, (gid_t) -1))
        rc = s_fail (&failing, -errno, "cannot give the folder 'allowed' in '%s' to user %u: %s", path,
            (unsigned) self->owner, strerror (errno));
    if (rc >= 0)
        rc = s_check_guard (&failing, "folder 'allowed' in", self->allowed, self->owner);
    if (rc < 0)
        keys_folder_close (self);
    return rc < 0? rc: 0;
}

void
keys_folder_close (keys_folder_t *self)
{
    if (self->allowed >= 0)
        close (self->allowed);
    if (self->folder >= 0)
        close (self->folder);
    self->allowed = self->folder = -1;
}

int
keys_folder_each (int allowed, bool (*visit) (void *context, const char *name), void *context)
{
    //  A descriptor of its own, because reading moves a shared position.
    int fd = openat (allowed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0? fdopendir (fd): NULL;
    if (!folder) {
        int rc = -errno;
        if (fd >= 0)
            close (fd);
        return rc;
    }
    struct dirent *entry;
    //  Names with a dot are files being written, or an editor's.
    for (errno = 0; (entry = readdir (folder)); errno = 0)
        if (entry->d_name [0] != '.' && !visit (context, entry->d_name))
            break;
    int rc = entry? 0: -errno;
    closedir (folder);
    return rc;
}

int
keys_folder_read (const keys_folder_t *self, const char *name, certificate_t *certificate,
    const char **reason_p)
{
    *certificate = (certificate_t) { .public_text = "" };
    *reason_p = NULL;
    if (!certificate_is_name (name))
        *reason_p = "has a name of other characters than letters, digits, '.', '_', '-', or of more than 64";
    else {
        int rc = certificate_read (certificate, self->allowed, name, CERTIFICATE_GUARDED, self->owner,
            reason_p);
        if (rc)
            return rc;
        if (certificate->secret_text [0])
            *reason_p = "holds a secret key, which is its user's alone";
        else
        if (!certificate->tenant [0])
            *reason_p = "names no tenant";
    }
    if (*reason_p)
        certificate_wipe (certificate);
    return *reason_p? -EBADMSG: 0;
}
