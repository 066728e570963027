/*  client_keys.c -- see client_keys.h.
 *
 *  happy path:  client_keys_look: names in allowed/ -> stat each -> read those that are new or changed ->
 *               grants by key, each with the user's number that it had.
 *  failure:     without descriptors, memory or a working disk, the grants of that file, or of all files, stay
 *               as they were.
 *
 *  A file that changes again within the clock tick of its reading shows no new time, so a young file is read
 *  again until it is older.
 */
#include "client_keys.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "file.h"

enum { KEYS_MAGIC = 0x0b3e4a71, YOUNG_SECONDS = 2, NAME_BYTES = 256, PATH_BYTES = 4096, ERROR_BYTES = 512 };

//  A file in allowed/, as it was when it was read.
typedef struct {
    char name [NAME_BYTES];
    struct stat status;
    time_t read_at;
    const char *reason;             //  why it admits no key; static; NULL: it admits certificate's key
    certificate_t certificate;
} file_t;

typedef struct {
    file_t *files;                  //  by name
    size_t count;
    bool too_many;
} files_t;

typedef struct {
    client_keys_grant_t *grants;    //  by key
    size_t count;
} grants_t;

struct client_keys {
    uint32_t magic;
    char *directory;
    log_t *log;
    certificate_t server;
    files_t files;
    grants_t grants;
    uint64_t next_user;
    char trouble [ERROR_BYTES];     //  that was logged last; "": none
};

//  ---- the folder on the disk

//  The place for the sentence.
typedef struct {
    const char *path;                   //  of the folder
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
s_open_folder (const failing_t *self, int above, const char *name, bool make, bool *made_p)
{
    const char *which = above == AT_FDCWD? "folder": "folder 'allowed' in";
    *made_p = make && mkdirat (above, name, 0700) == 0;
    if (make && !*made_p && errno != EEXIST)
        return s_fail (self, -errno, "cannot make the %s '%s': %s", which, self->path, strerror (errno));
    //  A link may lead to a place that other users can write.
    int fd = openat (above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    //  Its name is durable before what is put into it, also where a run that was killed made it.
    int rc = fd >= 0 && make? file_sync_name (fd): 0;
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
s_folder_owner (int fd)
{
    struct stat status;
    return geteuid () == 0 && fstat (fd, &status) == 0? status.st_uid: geteuid ();
}

int
client_keys_folder_open (client_keys_folder_t *self, const char *path, bool make, char *error,
    size_t error_bytes)
{
    failing_t failing = { path, error, error_bytes };
    bool made;
    *error = 0;
    *self = (client_keys_folder_t) { .allowed = -1 };
    int rc = self->folder = s_open_folder (&failing, AT_FDCWD, path, make, &made);
    if (rc >= 0) {
        self->owner = s_folder_owner (self->folder);
        rc = s_check_guard (&failing, "folder", self->folder, self->owner);
    }
    if (rc >= 0)
        rc = self->allowed = s_open_folder (&failing, self->folder, "allowed", make, &made);
    if (rc >= 0 && made && self->owner != geteuid () && fchown (self->allowed, self->owner, (gid_t) -1))
        rc = s_fail (&failing, -errno, "cannot give the folder 'allowed' in '%s' to user %u: %s", path,
            (unsigned) self->owner, strerror (errno));
    if (rc >= 0)
        rc = s_check_guard (&failing, "folder 'allowed' in", self->allowed, self->owner);
    if (rc < 0)
        client_keys_folder_close (self);
    return rc < 0? rc: 0;
}

void
client_keys_folder_close (client_keys_folder_t *self)
{
    if (self->allowed >= 0)
        close (self->allowed);
    if (self->folder >= 0)
        close (self->folder);
    self->allowed = self->folder = -1;
}

int
client_keys_folder_each (int allowed, bool (*visit) (void *context, const char *name), void *context)
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
client_keys_folder_read (const client_keys_folder_t *self, const char *name, certificate_t *certificate,
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

//  ---- files

static int
s_compare_files (const void *left, const void *right)
{
    return strcmp (((const file_t *) left)->name, ((const file_t *) right)->name);
}

static const file_t *
s_file (const files_t *files, const char *name)
{
    file_t wanted;
    snprintf (wanted.name, sizeof wanted.name, "%s", name);
    return bsearch (&wanted, files->files, files->count, sizeof wanted, s_compare_files);
}

static bool
s_is_same (const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino && left->st_size == right->st_size
        && left->st_mode == right->st_mode && left->st_uid == right->st_uid
        && memcmp (&left->st_mtim, &right->st_mtim, sizeof left->st_mtim) == 0
        && memcmp (&left->st_ctim, &right->st_ctim, sizeof left->st_ctim) == 0;
}

//  Errors that tell nothing of the file: it may be as good as before.
static bool
s_is_want (int rc)
{
    return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EIO || rc == -EINTR || rc == -EAGAIN
        || rc == -ESTALE
        || rc == -ENOBUFS || rc == -ETIMEDOUT;
}

typedef struct {
    const client_keys_t *keys;
    client_keys_folder_t folder;
    files_t found;
    bool wants;                     //  a file could not be examined
} look_t;

//  Reads file->name.  False: it does not exist.
static bool
s_read_file (look_t *look, file_t *file)
{
    file->read_at = time (NULL);
    int rc = client_keys_folder_read (&look->folder, file->name, &file->certificate, &file->reason);
    if (rc == -ENOENT)
        return false;
    if (s_is_want (rc)) {
        const file_t *before = s_file (&look->keys->files, file->name);
        look->wants = true;
        if (!before)
            return false;
        *file = *before;
        return true;
    }
    if (rc && rc != -EBADMSG)
        file->reason = "cannot be read by the server";
    return true;
}

static bool
s_look_at (void *context, const char *name)
{
    look_t *look = context;
    if (look->found.count == CLIENT_KEYS_MAX) {
        look->found.too_many = true;
        return false;
    }
    file_t *file = &look->found.files [look->found.count];
    const file_t *before = s_file (&look->keys->files, name);
    struct stat status;
    if (fstatat (look->folder.allowed, name, &status, AT_SYMLINK_NOFOLLOW)) {
        if (errno == ENOENT)
            return true;
        //  Reading it will tell what it is.
        status = (struct stat) { .st_ino = 0 };
    }
    //  A file that was read right after a change may have changed again without another time.
    if (before && s_is_same (&before->status, &status)
    &&  before->status.st_ctim.tv_sec < before->read_at - YOUNG_SECONDS)
        *file = *before;
    else {
        *file = (file_t) { .status = status };
        snprintf (file->name, sizeof file->name, "%s", name);
        if (!s_read_file (look, file))
            return true;
    }
    look->found.count++;
    return true;
}

//  ---- grants

static int
s_compare_grants (const void *left, const void *right)
{
    return strcmp (((const client_keys_grant_t *) left)->key, ((const client_keys_grant_t *) right)->key);
}

static const client_keys_grant_t *
s_find (const grants_t *grants, const char *key)
{
    client_keys_grant_t wanted;
    snprintf (wanted.key, sizeof wanted.key, "%s", key);
    return bsearch (&wanted, grants->grants, grants->count, sizeof wanted, s_compare_grants);
}

static bool
s_agree (const client_keys_grant_t *left, const client_keys_grant_t *right)
{
    return left->is_operator == right->is_operator && left->is_worker == right->is_worker
        && strcmp (left->tenant, right->tenant) == 0;
}

//  The run of grants of one key that begins at first: how many, and whether they are equal.
static size_t
s_run (const grants_t *grants, size_t first, bool *agree)
{
    size_t count = 1;
    *agree = true;
    for (; first + count < grants->count
        && s_compare_grants (&grants->grants [first], &grants->grants [first + count]) == 0; count++)
        *agree = *agree && s_agree (&grants->grants [first], &grants->grants [first + count]);
    return count;
}

//  Leaves one grant of each key: K1.
static void
s_merge (client_keys_t *self, grants_t *grants)
{
    size_t kept = 0;
    bool agree;
    for (size_t first = 0, count; first < grants->count; first += count) {
        count = s_run (grants, first, &agree);
        if (agree)
            grants->grants [kept++] = grants->grants [first];
        else
            log_event (self->log, LOG_LEVEL_WARNING, "key_bad",
                LOG_FIELDS (LOG_TEXT ("label", grants->grants [first].label)),
                "the key of '%s' admits no client: '%s' says something else of it",
                grants->grants [first].label, grants->grants [first + 1].label);
    }
    grants->count = kept;
}

//  The grants of the files, by key, with the users' numbers.
static void
s_grant (client_keys_t *self, grants_t *grants)
{
    grants->count = 0;
    for (size_t index = 0; index < self->files.count; index++) {
        const file_t *file = &self->files.files [index];
        if (file->reason)
            continue;
        client_keys_grant_t *grant = &grants->grants [grants->count++];
        *grant = (client_keys_grant_t) { .is_operator = file->certificate.is_operator,
            .is_worker = file->certificate.is_worker };
        memcpy (grant->key, file->certificate.public_text, sizeof grant->key);
        memcpy (grant->tenant, file->certificate.tenant, sizeof grant->tenant);
        snprintf (grant->label, sizeof grant->label, "%.*s", CERTIFICATE_NAME_MAX, file->name);
    }
    qsort (grants->grants, grants->count, sizeof *grants->grants, s_compare_grants);
    s_merge (self, grants);
    for (size_t index = 0; index < grants->count; index++) {
        client_keys_grant_t *grant = &grants->grants [index];
        const client_keys_grant_t *before = s_find (&self->grants, grant->key);
        bool is_same = before && before->is_worker == grant->is_worker
            && strcmp (before->tenant, grant->tenant) == 0;
        grant->user = is_same? before->user: self->next_user++;
        grant->is_judged = is_same && before->is_judged && before->is_operator == grant->is_operator;
        grant->admits = grant->is_judged && before->admits;
    }
}

//  Logs grants that went.  True: there are some.
static bool
s_tell_gone (const client_keys_t *self, const grants_t *before, const grants_t *after)
{
    bool gone = false;
    for (size_t index = 0; index < before->count; index++) {
        const client_keys_grant_t *grant = &before->grants [index], *now = s_find (after, grant->key);
        if (now && now->user == grant->user)
            continue;
        gone = true;
        log_event (self->log, LOG_LEVEL_NOTICE, "key_revoked",
            LOG_FIELDS (LOG_TEXT ("label", grant->label), LOG_TEXT ("tenant",
            grant->tenant), LOG_NUMBER ("user", grant->user)), "the key '%s' of tenant '%s' is revoked",
            grant->label, grant->tenant);
    }
    return gone;
}

static void
s_tell_bad_files (const client_keys_t *self, const files_t *before, const files_t *after)
{
    for (size_t index = 0; index < after->count; index++) {
        const file_t *file = &after->files [index], *was = file->reason? s_file (before, file->name): NULL;
        if (file->reason && !(was && was->reason && strcmp (was->reason, file->reason) == 0))
            log_event (self->log, LOG_LEVEL_WARNING, "key_bad", LOG_FIELDS (LOG_TEXT ("label", file->name)),
                "%s/allowed/%s admits no client: it %s", self->directory, file->name, file->reason);
    }
    if (after->too_many && !before->too_many)
        log_event (self->log, LOG_LEVEL_WARNING, "keys_full", NULL,
            "%s/allowed has more than %d files: those beyond admit no client", self->directory,
            CLIENT_KEYS_MAX);
}

//  ---- looking

static bool
s_is_unchanged (const files_t *before, const files_t *after)
{
    if (before->count != after->count || before->too_many != after->too_many)
        return false;
    for (size_t index = 0; index < after->count; index++) {
        const file_t *left = &before->files [index], *right = &after->files [index];
        if (strcmp (left->name, right->name) || left->reason != right->reason
        ||  memcmp (&left->certificate, &right->certificate, sizeof left->certificate))
            return false;
    }
    return true;
}

//  Logged once while it lasts; "": it is over.
static void
s_tell_trouble (client_keys_t *self, const char *trouble)
{
    if (strcmp (self->trouble, trouble) == 0)
        return;
    if (*trouble)
        log_event (self->log, LOG_LEVEL_WARNING, "keys_trouble", NULL, "keys stay as they are: %s", trouble);
    else
        log_event (self->log, LOG_LEVEL_NOTICE, "keys_trouble", NULL, "keys in '%s' can be looked at again",
            self->directory);
    snprintf (self->trouble, sizeof self->trouble, "%s", trouble);
}

//  Takes over the result of a look.  True: a grant has gone.
static bool
s_take (client_keys_t *self, look_t *look)
{
    qsort (look->found.files, look->found.count, sizeof *look->found.files, s_compare_files);
    files_t before = self->files;
    bool unchanged = s_is_unchanged (&before, &look->found);
    self->files = look->found;
    look->found = before;               //  the caller frees it
    if (unchanged)
        return false;
    grants_t grants = { .grants = calloc (CLIENT_KEYS_MAX, sizeof *grants.grants) };
    if (!grants.grants) {
        //  Takes over neither: the next look finds the change again.
        look->found = self->files;
        self->files = before;
        s_tell_trouble (self, "no memory");
        return false;
    }
    s_tell_bad_files (self, &before, &self->files);
    s_grant (self, &grants);
    bool gone = s_tell_gone (self, &self->grants, &grants);
    free (self->grants.grants);
    self->grants = grants;
    return gone;
}

//  0, or -errno and the sentence: the folder's content is unknown.
static int
s_find_files (look_t *look, char *error, size_t error_bytes)
{
    int rc = client_keys_folder_open (&look->folder, look->keys->directory, false, error, error_bytes);
    //  Without the folder no key is admitted: its removal is intended.
    if (rc == -ENOENT)
        return 0;
    if (rc)
        return rc;
    //  Root can open any folder: the owner of the parent folder may have replaced ours.
    bool is_ours = look->folder.owner == geteuid ();
    rc = is_ours? client_keys_folder_each (look->folder.allowed, s_look_at, look): -EPERM;
    if (!is_ours)
        snprintf (error, error_bytes,
            "the folder '%s' is another one now, of user %u: put the right one back",
            look->keys->directory, (unsigned) look->folder.owner);
    else
    if (rc)
        snprintf (error, error_bytes, "cannot look at the files in '%s/allowed': %s", look->keys->directory,
            strerror (-rc));
    client_keys_folder_close (&look->folder);
    return rc;
}

//  Without a free descriptor: keeps those known files that still exist.  Peers that use up all descriptors
//  must not keep a revoked key alive.
static void
s_find_known (look_t *look)
{
    char path [PATH_BYTES];
    struct stat status;
    const files_t *known = &look->keys->files;
    look->found.count = 0;
    look->found.too_many = known->too_many;
    for (size_t index = 0; index < known->count; index++) {
        snprintf (path, sizeof path, "%s/allowed/%s", look->keys->directory, known->files [index].name);
        if (lstat (path, &status) == 0 || (errno != ENOENT && errno != ENOTDIR))
            look->found.files [look->found.count++] = known->files [index];
    }
}

bool
client_keys_look (client_keys_t *self)
{
    assert (self->magic == KEYS_MAGIC);
    char error [ERROR_BYTES] = "no memory";
    look_t look = { .keys = self, .found.files = calloc (CLIENT_KEYS_MAX, sizeof *look.found.files) };
    bool gone = false;
    int rc = look.found.files? s_find_files (&look, error, sizeof error): -ENOMEM;
    bool poor = rc == -EMFILE || rc == -ENFILE;
    if (poor)
        s_find_known (&look);
    if (rc == 0 || poor)
        gone = s_take (self, &look);
    s_tell_trouble (self, rc? error: look.wants? "some files cannot be read now": "");
    free (look.found.files);
    return gone;
}

void
client_keys_judge (client_keys_t *self, bool (*is_tenant) (void *context, const char *name), void *context)
{
    for (size_t index = 0; index < self->grants.count; index++) {
        client_keys_grant_t *grant = &self->grants.grants [index];
        if (grant->is_judged)
            continue;
        grant->is_judged = true;
        grant->admits = is_tenant (context, grant->tenant);
        if (grant->admits)
            log_event (self->log, LOG_LEVEL_INFO, "key_allowed",
                LOG_FIELDS (LOG_TEXT ("label", grant->label), LOG_TEXT ("tenant",
                grant->tenant), LOG_NUMBER ("user", grant->user)), "the key '%s' is let in: tenant '%s'%s",
                grant->label, grant->tenant,
                grant->is_operator? ", operator": grant->is_worker? ", worker": "");
        else
            log_event (self->log, LOG_LEVEL_WARNING, "key_bad",
                LOG_FIELDS (LOG_TEXT ("label", grant->label), LOG_TEXT ("tenant",
                grant->tenant)), "the key '%s' admits no client: this server has no tenant '%s'",
                grant->label, grant->tenant);
    }
}

//  ---- the server's own

//  Whether the public certificate exists, and belongs to the secret one.
static int
s_match_public (client_keys_t *self, const client_keys_folder_t *folder, const failing_t *failing)
{
    const char *reason;
    certificate_t known;
    int rc = certificate_read (&known, folder->folder, "server", CERTIFICATE_GUARDED, folder->owner, &reason);
    if (rc == -ENOENT)
        rc = certificate_write (&self->server, folder->folder, "server", false, folder->owner);
    else
    if (rc == 0 && strcmp (known.public_text, self->server.public_text))
        return s_fail (failing, -EBADMSG, "'%s/server' is not the public key of '%s/server_secret': "
            "put the one back that belongs to it, or remove it", self->directory, self->directory);
    if (rc == -EBADMSG)
        return s_fail (failing, rc, "'%s/server' %s: mend it, or remove it", self->directory, reason);
    return rc == 0? 0: s_fail (failing, rc, "'%s/server': %s", self->directory, strerror (-rc));
}

//  Makes the server's certificate if there is none.
static int
s_make_server (client_keys_t *self, const client_keys_folder_t *folder, const failing_t *failing)
{
    if (faccessat (folder->folder, "server", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return s_fail (failing, -ENOENT, "'%s/server' is there, and '%s/server_secret' is not: put it "
            "back, or remove both (clients then need the server's new key)", self->directory,
            self->directory);
    certificate_make (&self->server);
    int rc = certificate_write (&self->server, folder->folder, "server_secret", true, folder->owner);
    return rc == 0? 0: s_fail (failing, rc, "cannot write '%s/server_secret': %s", self->directory,
        strerror (-rc));
}

static int
s_open_server (client_keys_t *self, const client_keys_folder_t *folder, const failing_t *failing)
{
    const char *reason;
    int rc = certificate_read (&self->server, folder->folder, "server_secret", CERTIFICATE_SECRET,
        folder->owner, &reason);
    if (rc == -ENOENT)
        rc = s_make_server (self, folder, failing);
    else
    if (rc == -EBADMSG)
        s_fail (failing, rc, "'%s/server_secret' %s", self->directory, reason);
    else
    if (rc)
        s_fail (failing, rc, "'%s/server_secret': %s", self->directory, strerror (-rc));
    return rc? rc: s_match_public (self, folder, failing);
}

static int
s_no_pair (const failing_t *failing)
{
    return s_fail (failing, -ENOENT, "there is no key pair '%s/server_secret': copy the folder that all "
        "members have, or make the first one (`tureen key new %s/server`)", failing->path, failing->path);
}

//  The folder is another user's.
static int
s_not_ours (const failing_t *failing, uid_t owner)
{
    return s_fail (failing, -EPERM, "the folder '%s' belongs to user %u: run the server as that user, or "
        "chown it", failing->path, (unsigned) owner);
}

//  Reads it from the folder, where it must be.
static int
s_read_pair (certificate_t *pair, int folder, const failing_t *failing)
{
    const char *reason = NULL;
    int rc = certificate_read (pair, folder, "server_secret", CERTIFICATE_SECRET, geteuid (), &reason);
    if (rc == -ENOENT)
        return s_no_pair (failing);
    if (rc == -EBADMSG)
        s_fail (failing, rc, "'%s/server_secret' %s", failing->path, reason);
    else
    if (rc)
        s_fail (failing, rc, "'%s/server_secret': %s", failing->path, strerror (-rc));
    return rc;
}

int
client_keys_pair (certificate_t *pair, const char *directory, char *error, size_t error_bytes)
{
    failing_t failing = { directory, error, error_bytes };
    bool made;
    int folder = s_open_folder (&failing, AT_FDCWD, directory, false, &made);
    if (folder == -ENOENT)
        return s_no_pair (&failing);
    if (folder < 0)
        return folder;
    int rc = s_folder_owner (folder) == geteuid ()? s_check_guard (&failing, "folder", folder, geteuid ()):
        s_not_ours (&failing, s_folder_owner (folder));
    if (rc == 0)
        rc = s_read_pair (pair, folder, &failing);
    close (folder);
    return rc;
}

//  ---- the whole

//  The folder, the server's certificate, and the present grants.
static int
s_open (client_keys_t *self, const failing_t *failing)
{
    client_keys_folder_t folder;
    int rc = client_keys_folder_open (&folder, self->directory, true, failing->error, failing->error_bytes);
    if (rc)
        return rc;
    rc = folder.owner == geteuid ()? s_open_server (self, &folder, failing):
        s_not_ours (failing, folder.owner);
    client_keys_folder_close (&folder);
    if (rc)
        return rc;
    client_keys_look (self);
    return self->trouble [0]? s_fail (failing, -EIO, "%s", self->trouble): 0;
}

int
client_keys_open (client_keys_t **self_p, const char *directory, log_t *log, char *error, size_t error_bytes)
{
    failing_t failing = { directory, error, error_bytes };
    *error = 0;
    *self_p = calloc (1, sizeof **self_p);
    client_keys_t *self = *self_p;
    if (self) {
        self->magic = KEYS_MAGIC;
        self->log = log;
        self->next_user = CLIENT_KEYS_USER_FIRST;
        self->directory = strdup (directory);
        self->files.files = calloc (CLIENT_KEYS_MAX, sizeof *self->files.files);
        self->grants.grants = calloc (CLIENT_KEYS_MAX, sizeof *self->grants.grants);
    }
    int rc = self && self->directory && self->files.files
        && self->grants.grants? s_open (self, &failing): -ENOMEM;
    if (rc == 0)
        return 0;
    if (!*error)
        snprintf (error, error_bytes, "%s: no memory for keys", directory);
    client_keys_destroy (self_p);
    return rc;
}

void
client_keys_destroy (client_keys_t **self_p)
{
    client_keys_t *self = *self_p;
    if (!self)
        return;
    certificate_wipe (&self->server);
    free (self->directory);
    free (self->files.files);
    free (self->grants.grants);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

const char *
client_keys_server_public (const client_keys_t *self)
{
    return self->server.public_text;
}

const char *
client_keys_server_secret (const client_keys_t *self)
{
    return self->server.secret_text;
}

const client_keys_grant_t *
client_keys_find (const client_keys_t *self, const char *key)
{
    assert (self->magic == KEYS_MAGIC);
    return strnlen (key, CERTIFICATE_KEY_CHARS + 1) == CERTIFICATE_KEY_CHARS? s_find (&self->grants, key):
        NULL;
}

bool
client_keys_has_user (const client_keys_t *self, uint64_t user)
{
    for (size_t index = 0; index < self->grants.count; index++)
        if (self->grants.grants [index].user == user)
            return true;
    return false;
}

const client_keys_grant_t *
client_keys_grants (const client_keys_t *self, size_t *count_p)
{
    *count_p = self->grants.count;
    return self->grants.grants;
}

void
client_keys_check (const client_keys_t *self)
{
    assert (self->magic == KEYS_MAGIC);
    for (size_t index = 0; index < self->grants.count; index++) {
        const client_keys_grant_t *grant = &self->grants.grants [index];
        assert (certificate_is_key (grant->key));
        assert (certificate_is_name (grant->tenant));
        assert (grant->user >= CLIENT_KEYS_USER_FIRST && grant->user < self->next_user);
        if (index)
            assert (strcmp (grant [-1].key, grant->key) < 0);       //  K1
        for (size_t other = 0; other < index; other++)
            assert (self->grants.grants [other].user != grant->user);
    }
}
