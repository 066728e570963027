/*  Certificates and the folder of keys: nothing but a whole certificate in a guarded place lets anybody in, secrets are nobody
 *  else's from their first moment, what is taken away is gone at the next look, and a machine without descriptors throws nobody
 *  out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "keys.h"
#include "keys_folder.h"
#include "scratch.h"
#include "seed.h"

#include <time.h>
#include <czmq.h>
#include <zmq.h>

enum { ERROR_BYTES = 512, MUTATIONS = 20000, MODEL_ROUNDS = 20, MODEL_STEPS = 60, MODEL_KEYS = 5, MODEL_LABELS = 6 };

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

//  Whatever the umask, nobody else can have opened it before it is made its owner's.
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

ssize_t __real_write (int fd, const void *bytes, size_t size);
ssize_t __wrap_write (int fd, const void *bytes, size_t size);
ssize_t
__wrap_write (int fd, const void *bytes, size_t size)
{
    return fd != log_fd && fault_strikes ()? -1: __real_write (fd, bytes, size);
}

FAULT_CALL (ssize_t, -1, read, (int fd, void *bytes, size_t size), (fd, bytes, size))
FAULT_CALL (int, -1, fsync, (int fd), (fd))
FAULT_CALL (int, -1, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode))
FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))

//  -- what every case begins and ends with

typedef struct {
    scratch_t scratch;
    char directory [100], path [300];
    log_t log;
    int log_fds [2];
} fixture_t;

static int
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

static int
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

static const char *
in (fixture_t *self, const char *name)
{
    snprintf (self->path, sizeof self->path, "%s/%s", self->directory, name);
    return self->path;
}

//  What the log has said since.
static const char *
said (fixture_t *self)
{
    static char text [65536];
    ssize_t size = __real_read (self->log_fds [0], text, sizeof text - 1);
    text [size > 0? size: 0] = 0;
    return text;
}

static void
assert_said (fixture_t *self, const char *what)
{
    const char *text = said (self);
    if (!strstr (text, what))
        fail_msg ("the log says '%s', not '%s'", text, what);
}

static void
put (const char *path, const char *text, mode_t mode)
{
    int fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true (fd >= 0);
    assert_int_equal (__real_write (fd, text, strlen (text)), strlen (text));
    assert_int_equal (__real_fchmod (fd, mode), 0);
    close (fd);
}

static keys_t *
open_keys (fixture_t *self)
{
    keys_t *keys;
    char error [ERROR_BYTES];
    int rc = keys_open (&keys, self->directory, &self->log, error, sizeof error);
    if (rc)
        fail_msg ("%d, %s", rc, error);
    assert_string_equal (error, "");
    keys_check (keys);
    return keys;
}

static void
assert_refused (fixture_t *self, int code, const char *what)
{
    keys_t *keys = (keys_t *) 1;
    char error [ERROR_BYTES];
    int rc = keys_open (&keys, self->directory, &self->log, error, sizeof error);
    assert_null (keys);
    if (rc != code || !strstr (error, what))
        fail_msg ("%d, not %d: '%s', not '%s'", rc, code, error, what);
}

static void
allow (fixture_t *self, const certificate_t *key, const char *label, const char *tenant, bool is_operator)
{
    keys_folder_t folder;
    char error [ERROR_BYTES];
    certificate_t granted = *key;
    granted.secret_text [0] = 0;
    granted.is_operator = is_operator;
    snprintf (granted.tenant, sizeof granted.tenant, "%s", tenant);
    assert_int_equal (keys_folder_open (&folder, self->directory, true, error, sizeof error), 0);
    assert_int_equal (certificate_write (&granted, folder.allowed, label, false, geteuid ()), 0);
    keys_folder_close (&folder);
}

//  -- certificates

static char good [CERTIFICATE_BYTES_MAX];       //  text of a certificate with everything in it

static const char *
good_text (void)
{
    certificate_t key;
    certificate_make (&key);
    snprintf (good, sizeof good, "#   comment\nmetadata\n    tenant = \"vision\"\n    operator = \"yes\"\n"
        "    since = \"2026-11-22T15:00:00Z\"\n    email = \"x@y\"\n    #   another\n\ncurve\n    public-key = \"%s\"\n"
        "    secret-key = '%s'\n", key.public_text, key.secret_text);
    return good;
}

static void
test_everything_in_a_certificate (void **state)
{
    (void) state;
    certificate_t parsed;
    const char *text = good_text ();
    assert_null (certificate_parse (&parsed, text, strlen (text)));
    assert_string_equal (parsed.tenant, "vision");
    assert_string_equal (parsed.since, "2026-11-22T15:00:00Z");
    assert_true (parsed.is_operator);
    assert_int_equal (strlen (parsed.public_text), 40);
    assert_int_equal (strlen (parsed.secret_text), 40);
    //  Without the last line's end it is the same.
    assert_null (certificate_parse (&parsed, text, strlen (text) - 1));
    certificate_wipe (&parsed);
    assert_string_equal (parsed.secret_text, "");
}

//  Replaces the first occurrence of a piece of the good text.
static void
assert_bad (const char *piece, const char *by, const char *reason)
{
    char text [2 * CERTIFICATE_BYTES_MAX];
    const char *from = good_text (), *at = strstr (from, piece);
    assert_non_null (at);
    snprintf (text, sizeof text, "%.*s%s%s", (int) (at - from), from, by, at + strlen (piece));
    certificate_t parsed;
    const char *said_reason = certificate_parse (&parsed, text, strlen (text));
    if (!said_reason || !strstr (said_reason, reason))
        fail_msg ("'%s' for '%s': '%s', not '%s'", by, piece, said_reason? said_reason: "good", reason);
    assert_string_equal (parsed.public_text, "");
    assert_string_equal (parsed.secret_text, "");
}

static void
test_damaged_certificates (void **state)
{
    (void) state;
    static const struct { const char *piece, *by, *reason; } cases [] = {
        { "public-key", "public", "something else than keys" },
        { "    public-key", "public-key", "a section" },
        { "    public-key", "        public-key", "indented" },
        { "    public-key", "\tpublic-key", "a section" },
        { "curve\n", "", "" },
        { "curve\n", "curve\ncurve\n", "twice" },
        { "curve\n", "curve = 1\n", "section" },
        { "metadata\n", "metadata\nmetadata\n", "twice" },
        { "metadata\n", "", "outside" },
        { "metadata\n", "data\n", "section" },
        { "\"vision\"", "vision", "NAME =" },
        { "\"vision\"", "\"vision", "NAME =" },
        { "\"vision\"", "\"vi\"sion\"", "NAME =" },
        { "\"vision\"", "\"vision\" x", "NAME =" },
        { "\"vision\"", "\"\"", "empty" },
        { "\"vision\"", "\"", "NAME =" },
        { "\"vision\"", "\"vi sion\"", "tenant" },
        { "\"vision\"", "\".vision\"", "tenant" },
        { "\"vision\"", "\"../vision\"", "tenant" },
        { "\"vision\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"", "too long" },
        { "\"vision\"", "\"vision\"\n    tenant = \"other\"", "twice" },
        { "\"yes\"", "\"maybe\"", "operator" },
        { "\"yes\"", "\"yes\"\n    operator = \"no\"", "twice" },
        { "22T15", "22\x01T15", "no text" },
        { "22T15", "22 T15", "time" },
        { "22T15", "22\xff", "time" },
        { "tenant =", "tenant :", "NAME =" },
        { "tenant =", "=", "NAME =" },
        { "secret-key = '", "secret-key = 'x", "40 characters" },
        { "secret-key = '", "secret-key = '0000000000000000000000000000000000000000'\n    secret-key = '", "twice" },
        { "public-key = \"", "public-key = \"~", "40 characters" }
    };
    char text [CERTIFICATE_BYTES_MAX + 100];
    for (size_t index = 0; index < sizeof cases / sizeof cases [0]; index++)
        assert_bad (cases [index].piece, cases [index].by, cases [index].reason);
    certificate_t parsed, other;
    certificate_make (&other);
    snprintf (strstr (strcpy (text, good_text ()), "secret-key = '") + strlen ("secret-key = '"), 60, "%s'\n", other.secret_text);
    assert_string_equal (certificate_parse (&parsed, text, strlen (text)), "has a secret key that is not the public key's");
    assert_non_null (certificate_parse (&parsed, "", 0));
    assert_non_null (certificate_parse (&parsed, "curve\n", 6));
    char zeros [64] = { 0 };
    assert_non_null (certificate_parse (&parsed, zeros, sizeof zeros));
    static char large [CERTIFICATE_BYTES_MAX + 1];
    memset (large, '#', sizeof large);
    assert_string_equal (certificate_parse (&parsed, large, sizeof large), "is too long for a certificate");
}

//  What anybody knows the secret of, what has another length, other letters, or numbers beyond 32 bits.
static void
test_keys_that_are_none (void **state)
{
    (void) state;
    certificate_t key;
    certificate_make (&key);
    assert_true (certificate_is_key (key.public_text));
    static const uint8_t low_orders [] [32] = { { 0 }, { 1 },
        { 0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb,
            0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00 } };
    char text [CERTIFICATE_KEY_CHARS + 1];
    for (size_t index = 0; index < 3; index++)
        assert_false (certificate_is_key (zmq_z85_encode (text, low_orders [index], 32)));
    assert_false (certificate_is_key (""));
    assert_false (certificate_is_key ("0000"));
    memcpy (text, key.public_text, sizeof text);
    text [39] = ' ';
    assert_false (certificate_is_key (text));
    memcpy (text, "#####", 5);          //  85^5 - 1
    text [39] = '0';
    assert_false (certificate_is_key (text));
    assert_false (certificate_is_name (""));
    assert_false (certificate_is_name (".x"));
    assert_false (certificate_is_name ("a/b"));
    assert_true (certificate_is_name ("alice.laptop-2_x"));
}

//  Property: whatever is changed of a certificate, it is refused or still means a key.  Replay: TEST_SEED=<seed>.
static void
test_mutations (void **state)
{
    (void) state;
    uint64_t seed = test_seed (), random = seed;
    for (int round = 0; round < MUTATIONS; round++) {
        char text [CERTIFICATE_BYTES_MAX];
        size_t size = strlen (round % 100 == 0? good_text (): good);
        memcpy (text, good, size);
        for (uint64_t count = 1 + test_below (&random, 4); count; count--)
            switch (test_below (&random, 4)) {
            case 0: text [test_below (&random, size)] = (char) test_below (&random, 256); break;
            case 1: text [test_below (&random, size)] = "\n \"'=#\r0" [test_below (&random, 8)]; break;
            case 2: size = 1 + test_below (&random, size); break;
            default: {
                size_t from = test_below (&random, size), to = test_below (&random, size), most = size - (from > to? from: to);
                memmove (text + to, text + from, test_below (&random, most + 1));
            }
            }
        certificate_t parsed;
        if (certificate_parse (&parsed, text, size) == NULL && (!certificate_is_key (parsed.public_text)
        ||  (parsed.tenant [0] && !certificate_is_name (parsed.tenant))))
            fail_msg ("seed %" PRIu64 ", round %d: a bad certificate was taken", seed, round);
    }
}

//  czmq reads what we write, and we what czmq writes.
static void
test_czmq_agrees (void **state)
{
    fixture_t *self = *state;
    certificate_t key, read_back;
    const char *reason;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_make (&key);
    strcpy (key.tenant, "vision");
    assert_int_equal (certificate_write (&key, folder, "ours_secret", true, geteuid ()), 0);
    snprintf (self->path, sizeof self->path, "%s/ours", self->scratch.path);
    zcert_t *theirs = zcert_load (self->path);
    assert_non_null (theirs);
    assert_string_equal (zcert_public_txt (theirs), key.public_text);
    assert_string_equal (zcert_secret_txt (theirs), key.secret_text);
    assert_string_equal (zcert_meta (theirs, "tenant"), "vision");
    snprintf (self->path, sizeof self->path, "%s/theirs", self->scratch.path);
    mode_t mask = umask (077);
    assert_int_equal (zcert_save (theirs, self->path), 0);
    umask (mask);
    assert_int_equal (certificate_read (&read_back, folder, "theirs", CERTIFICATE_GUARDED, geteuid (), &reason), 0);
    assert_string_equal (read_back.public_text, key.public_text);
    assert_string_equal (read_back.secret_text, "");
    assert_int_equal (certificate_read (&read_back, folder, "theirs_secret", CERTIFICATE_SECRET, geteuid (), &reason), 0);
    assert_string_equal (read_back.secret_text, key.secret_text);
    zcert_destroy (&theirs);
    close (folder);
}

//  -- files

static void
assert_read (int folder, const char *name, certificate_guard_t guard, int code, const char *what)
{
    certificate_t certificate;
    const char *reason;
    int rc = certificate_read (&certificate, folder, name, guard, geteuid (), &reason);
    if (rc != code || (what && (!reason || !strstr (reason, what))))
        fail_msg ("%s: %d, '%s'; not %d, '%s'", name, rc, reason? reason: "", code, what? what: "");
}

static void
test_files_that_are_not_guarded (void **state)
{
    fixture_t *self = *state;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_t key;
    certificate_make (&key);
    mode_t mask = umask (0);
    assert_int_equal (certificate_write (&key, folder, "a", true, geteuid ()), 0);
    umask (mask);
    struct stat status;
    assert_int_equal (fstatat (folder, "a", &status, 0), 0);
    assert_int_equal (status.st_mode & 07777, 0600);
    assert_read (folder, "a", CERTIFICATE_SECRET, 0, NULL);
    fchmodat (folder, "a", 0640, 0);
    assert_read (folder, "a", CERTIFICATE_SECRET, -EBADMSG, "read by others");
    assert_read (folder, "a", CERTIFICATE_GUARDED, 0, NULL);
    fchmodat (folder, "a", 0620, 0);
    assert_read (folder, "a", CERTIFICATE_GUARDED, -EBADMSG, "written by others");
    assert_read (folder, "a", CERTIFICATE_ANY, 0, NULL);
    fchmodat (folder, "a", 0600, 0);
    if (geteuid () == 0) {
        assert_int_equal (fchownat (folder, "a", 65534, (gid_t) -1, 0), 0);
        assert_read (folder, "a", CERTIFICATE_GUARDED, -EBADMSG, "another user");
    }
    assert_int_equal (symlinkat ("a", folder, "link"), 0);
    assert_read (folder, "link", CERTIFICATE_GUARDED, -EBADMSG, "link");
    assert_read (folder, "link", CERTIFICATE_ANY, 0, NULL);
    assert_int_equal (mkfifoat (folder, "fifo", 0600), 0);
    assert_read (folder, "fifo", CERTIFICATE_ANY, -EBADMSG, "no file");
    assert_int_equal (mkdirat (folder, "folder", 0700), 0);
    assert_read (folder, "folder", CERTIFICATE_GUARDED, -EBADMSG, "no file");
    assert_read (folder, "nothing", CERTIFICATE_GUARDED, -ENOENT, NULL);
    assert_int_equal (certificate_write (&key, folder, "public", false, geteuid ()), 0);
    assert_read (folder, "public", CERTIFICATE_SECRET, -EBADMSG, "no secret");
    close (folder);
}

//  Whatever fails, nothing is left, and what was there is as it was.
static void
test_writing_that_fails (void **state)
{
    fixture_t *self = *state;
    int folder = open (self->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    certificate_t key, other, read_back;
    const char *reason;
    certificate_make (&key);
    certificate_make (&other);
    bool struck = true;
    for (unsigned int nth = 1; struck; nth++) {
        fault_arm (nth, ENOSPC, nth % 2);
        int rc = certificate_write (&key, folder, "a", true, geteuid ());
        struck = fault_disarm ();
        //  The folder's own fsync may fail.
        assert_true (rc == 0 || (struck && rc == -ENOSPC));
        assert_int_equal (scratch_entries (self->scratch.path), rc == 0);
        unlinkat (folder, "a", 0);
    }
    for (int round = 0; round < 2; round++) {
        no_links = round;
        assert_int_equal (certificate_write (&key, folder, "a", true, geteuid ()), 0);
        assert_int_equal (certificate_write (&other, folder, "a", true, geteuid ()), -EEXIST);
        assert_int_equal (certificate_read (&read_back, folder, "a", CERTIFICATE_SECRET, geteuid (), &reason), 0);
        assert_string_equal (read_back.secret_text, key.secret_text);
        assert_int_equal (scratch_entries (self->scratch.path), 1);
        unlinkat (folder, "a", 0);
    }
    close (folder);
}

//  -- the server's own

static void
test_the_server_keeps_its_key (void **state)
{
    fixture_t *self = *state;
    mode_t mask = umask (0);
    keys_t *keys = open_keys (self);
    umask (mask);
    char public_text [41], secret_text [41];
    strcpy (public_text, keys_server_public (keys));
    strcpy (secret_text, keys_server_secret (keys));
    keys_destroy (&keys);
    assert_null (keys);
    keys_destroy (&keys);
    struct stat status;
    static const struct { const char *name; mode_t mode; } made [] = { { "", 0700 }, { "allowed", 0700 },
        { "server_secret", 0600 }, { "server", 0600 } };
    for (size_t index = 0; index < 4; index++) {
        assert_int_equal (lstat (in (self, made [index].name), &status), 0);
        assert_int_equal (status.st_mode & 07777, made [index].mode);
    }
    keys = open_keys (self);
    assert_string_equal (keys_server_public (keys), public_text);
    assert_string_equal (keys_server_secret (keys), secret_text);
    keys_destroy (&keys);
    //  The public one can be made again.
    assert_int_equal (unlink (in (self, "server")), 0);
    keys = open_keys (self);
    assert_string_equal (keys_server_public (keys), public_text);
    keys_destroy (&keys);
    assert_int_equal (access (in (self, "server"), F_OK), 0);
    assert_null (strstr (said (self), secret_text));
}

static void
test_folders_that_are_refused (void **state)
{
    fixture_t *self = *state;
    keys_t *keys = open_keys (self);
    keys_destroy (&keys);
    static const struct { const char *name; mode_t mode; int code; const char *what; } cases [] = {
        { "server_secret", 0640, -EBADMSG, "chmod 600" }, { "server_secret", 0604, -EBADMSG, "chmod 600" },
        { "server", 0602, -EBADMSG, "written by others" }, { "", 0720, -EPERM, "chmod 700" },
        { "allowed", 0702, -EPERM, "chmod 700" } };
    for (size_t index = 0; index < 5; index++) {
        struct stat status;
        assert_int_equal (stat (in (self, cases [index].name), &status), 0);
        assert_int_equal (chmod (self->path, cases [index].mode), 0);
        assert_refused (self, cases [index].code, cases [index].what);
        assert_int_equal (chmod (in (self, cases [index].name), status.st_mode & 07777), 0);
    }
    if (geteuid () == 0) {
        assert_int_equal (chown (self->directory, 65534, (gid_t) -1), 0);
        assert_refused (self, -EPERM, "belongs to user");
        assert_int_equal (chown (self->directory, 0, (gid_t) -1), 0);
    }
    certificate_t other;
    certificate_make (&other);
    char text [200];
    snprintf (text, sizeof text, "curve\n    public-key = \"%s\"\n", other.public_text);
    put (in (self, "server"), text, 0600);
    assert_refused (self, -EBADMSG, "is not the public key");
    put (in (self, "server_secret"), text, 0600);
    assert_refused (self, -EBADMSG, "no secret key");
    put (in (self, "server_secret"), "", 0600);
    assert_refused (self, -EBADMSG, "no public key");
    unlink (in (self, "server_secret"));
    assert_refused (self, -ENOENT, "put it back");
    unlink (in (self, "server"));
    keys = open_keys (self);
    keys_destroy (&keys);
    //  Not a folder at all, or elsewhere.
    snprintf (self->directory, sizeof self->directory, "%s/link", self->scratch.path);
    assert_int_equal (symlink ("keys", self->directory), 0);
    assert_refused (self, -ENOTDIR, "link");
    snprintf (self->directory, sizeof self->directory, "%s/keys/server", self->scratch.path);
    assert_refused (self, -ENOTDIR, "no folder");
    snprintf (self->directory, sizeof self->directory, "%s/nowhere/keys", self->scratch.path);
    assert_refused (self, -ENOENT, "cannot make");
}

//  Every call fails once, and for ever: refused with a reason, or opened; nothing half made is in the way of the next start.
static void
test_opening_that_fails (void **state)
{
    fixture_t *self = *state;
    certificate_t key;
    certificate_make (&key);
    allow (self, &key, "alice", "vision", false);
    char error [ERROR_BYTES];
    for (int forever = 0; forever < 2; forever++) {
        bool struck = true;
        for (unsigned int nth = 1; struck; nth++) {
            unlink (in (self, "server"));
            unlink (in (self, "server_secret"));
            keys_t *keys;
            fault_arm (nth, EIO, forever);
            int rc = keys_open (&keys, self->directory, &self->log, error, sizeof error);
            struck = fault_disarm ();
            assert_true (rc? !keys && *error: keys && !*error);
            if (rc == 0)
                keys_check (keys);
            keys_destroy (&keys);
            said (self);
        }
        keys_t *keys = open_keys (self);
        assert_non_null (keys_find (keys, key.public_text));
        keys_destroy (&keys);
    }
}

//  -- who is let in

static void
test_allowed_and_revoked (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob, nobody;
    certificate_make (&alice);
    certificate_make (&bob);
    certificate_make (&nobody);
    keys_t *keys = open_keys (self);
    allow (self, &alice, "alice", "vision", false);
    assert_null (keys_find (keys, alice.public_text));
    assert_false (keys_look (keys));
    keys_check (keys);
    const keys_grant_t *grant = keys_find (keys, alice.public_text);
    assert_non_null (grant);
    assert_string_equal (grant->label, "alice");
    assert_string_equal (grant->tenant, "vision");
    assert_false (grant->is_operator);
    uint64_t user = grant->user;
    assert_true (user >= KEYS_USER_FIRST);
    assert_said (self, "the key 'alice' is let in: tenant 'vision'");
    assert_null (keys_find (keys, nobody.public_text));
    assert_null (keys_find (keys, ""));
    assert_null (keys_find (keys, "alice"));

    allow (self, &bob, "bob", "operator", true);
    assert_false (keys_look (keys));
    assert_true (keys_find (keys, bob.public_text)->is_operator);
    assert_int_equal (keys_find (keys, alice.public_text)->user, user);
    size_t count;
    keys_grants (keys, &count);
    assert_int_equal (count, 2);
    //  Another name is no other user.
    assert_int_equal (renameat (AT_FDCWD, in (self, "allowed/alice"), AT_FDCWD, self->path), 0);
    char to [300];
    strcpy (to, in (self, "allowed/alicia"));
    assert_int_equal (rename (in (self, "allowed/alice"), to), 0);
    assert_false (keys_look (keys));
    assert_int_equal (keys_find (keys, alice.public_text)->user, user);
    assert_string_equal (keys_find (keys, alice.public_text)->label, "alicia");
    said (self);

    assert_int_equal (unlink (in (self, "allowed/alicia")), 0);
    assert_true (keys_look (keys));
    assert_null (keys_find (keys, alice.public_text));
    assert_false (keys_has_user (keys, user));
    assert_said (self, "is revoked");
    assert_false (keys_look (keys));
    assert_string_equal (said (self), "");
    //  Once more: another user (K2).
    allow (self, &alice, "alice", "vision", false);
    assert_false (keys_look (keys));
    assert_int_not_equal (keys_find (keys, alice.public_text)->user, user);
    keys_destroy (&keys);
}

//  As czmq's store does not: within one second, of the same size.
static void
test_revoked_in_the_second_in_which_another_is_allowed (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "a", "vision", false);
    keys_t *keys = open_keys (self);
    assert_non_null (keys_find (keys, alice.public_text));
    assert_int_equal (unlink (in (self, "allowed/a")), 0);
    allow (self, &bob, "a", "vision", false);
    assert_true (keys_look (keys));
    assert_null (keys_find (keys, alice.public_text));
    assert_non_null (keys_find (keys, bob.public_text));
    keys_destroy (&keys);
}

static void
write_grant (fixture_t *self, const char *name, const certificate_t *key, const char *tenant, bool is_operator)
{
    char text [400], path [100];
    snprintf (text, sizeof text, "metadata\n    tenant = \"%s\"\n    operator = \"%s\"\ncurve\n    public-key = \"%s\"\n",
        tenant, is_operator? "yes": "no", key->public_text);
    snprintf (path, sizeof path, "allowed/%s", name);
    put (in (self, path), text, 0600);
}

//  Edited in place: to another tenant the key is another user's, and who had jobs by it has not any more.
static void
test_moved_to_another_tenant (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    keys_t *keys = open_keys (self);
    write_grant (self, "alice", &alice, "vision", false);
    assert_false (keys_look (keys));
    uint64_t user = keys_find (keys, alice.public_text)->user;
    write_grant (self, "alice", &alice, "vision", true);
    assert_false (keys_look (keys));
    assert_int_equal (keys_find (keys, alice.public_text)->user, user);
    assert_true (keys_find (keys, alice.public_text)->is_operator);
    write_grant (self, "alice", &alice, "speech", true);
    assert_true (keys_look (keys));
    assert_false (keys_has_user (keys, user));
    assert_string_equal (keys_find (keys, alice.public_text)->tenant, "speech");
    keys_destroy (&keys);
}

static void
test_files_that_let_nobody_in (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    keys_t *keys = open_keys (self);
    char text [400];
    static const struct { const char *name; mode_t mode; const char *what; } cases [] = {
        { "allowed/a b", 0600, "a name of other characters" }, { "allowed/open", 0666, "written by others" } };
    snprintf (text, sizeof text, "metadata\n    tenant = \"vision\"\ncurve\n    public-key = \"%s\"\n", alice.public_text);
    for (size_t index = 0; index < 2; index++) {
        put (in (self, cases [index].name), text, cases [index].mode);
        assert_false (keys_look (keys));
        assert_null (keys_find (keys, alice.public_text));
        assert_said (self, cases [index].what);
        assert_false (keys_look (keys));
        assert_string_equal (said (self), "");
        unlink (in (self, cases [index].name));
    }
    put (in (self, "allowed/.hidden"), text, 0600);
    snprintf (text, sizeof text, "curve\n    public-key = \"%s\"\n", alice.public_text);
    put (in (self, "allowed/homeless"), text, 0600);
    assert_false (keys_look (keys));
    assert_said (self, "names no tenant");
    snprintf (text, sizeof text, "metadata\n    tenant = \"vision\"\ncurve\n    public-key = \"%s\"\n    secret-key = \"%s\"\n",
        alice.public_text, alice.secret_text);
    put (in (self, "allowed/homeless"), text, 0600);
    assert_false (keys_look (keys));
    const char *line = said (self);
    assert_non_null (strstr (line, "holds a secret key"));
    assert_null (strstr (line, alice.secret_text));
    assert_null (keys_find (keys, alice.public_text));
    unlink (in (self, "allowed/homeless"));
    //  Two that say different things: neither.
    write_grant (self, "one", &alice, "vision", false);
    write_grant (self, "two", &alice, "vision", false);
    assert_false (keys_look (keys));
    keys_check (keys);
    assert_non_null (keys_find (keys, alice.public_text));
    write_grant (self, "two", &alice, "vision", true);
    assert_true (keys_look (keys));
    assert_null (keys_find (keys, alice.public_text));
    assert_said (self, "says something else of it");
    keys_destroy (&keys);
}

static bool
is_vision (void *context, const char *name)
{
    (void) context;
    return strcmp (name, "vision") == 0;
}

static void
test_a_tenant_that_there_is_not (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "speech", false);
    keys_t *keys = open_keys (self);
    said (self);
    keys_judge (keys, is_vision, NULL);
    const char *line = said (self);
    assert_non_null (strstr (line, "no tenant 'speech'"));
    assert_null (strstr (line, "no tenant 'vision'"));
    keys_judge (keys, is_vision, NULL);
    assert_string_equal (said (self), "");
    keys_destroy (&keys);
}

//  For want of descriptors everybody stays; and who was revoked in the meantime goes as soon as there are some.
static void
test_nobody_goes_for_want_of_descriptors (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "vision", false);
    keys_t *keys = open_keys (self);
    assert_int_equal (unlink (in (self, "allowed/bob")), 0);
    static const int errors [] = { EMFILE, EIO, ENOMEM };
    for (int way = 0; way < 6; way++) {
        bool struck = true;
        for (unsigned int nth = 1; struck; nth++) {
            fault_arm (nth, errors [way / 2], way % 2);
            keys_look (keys);
            struck = fault_disarm ();
            keys_check (keys);
            assert_non_null (keys_find (keys, alice.public_text));
            if (nth == 1)
                assert_said (self, "keys stay as they are");
            said (self);
        }
    }
    keys_look (keys);
    assert_null (keys_find (keys, bob.public_text));
    assert_non_null (keys_find (keys, alice.public_text));
    //  A folder that others may write says nothing that could be believed.
    assert_int_equal (chmod (in (self, "allowed"), 0777), 0);
    unlink (in (self, "allowed/alice"));
    assert_false (keys_look (keys));
    assert_non_null (keys_find (keys, alice.public_text));
    assert_said (self, "chmod 700");
    assert_int_equal (chmod (in (self, "allowed"), 0700), 0);
    assert_true (keys_look (keys));
    assert_said (self, "can be looked at again");
    //  No folder: nobody.
    allow (self, &alice, "alice", "vision", false);
    keys_look (keys);
    unlink (in (self, "allowed/alice"));
    rmdir (in (self, "allowed"));
    assert_true (keys_look (keys));
    assert_null (keys_find (keys, alice.public_text));
    keys_destroy (&keys);
}

//  Who has the folder above puts one of his own in its place; root, who may read it, does not take it for the server's.
static void
test_another_users_folder_in_its_place (void **state)
{
    fixture_t *self = *state;
    char other [120];
    certificate_t alice, mallory;
    if (geteuid () != 0)
        skip ();                    //  others' folders are refused to begin with
    certificate_make (&alice);
    certificate_make (&mallory);
    allow (self, &alice, "alice", "vision", false);
    keys_t *keys = open_keys (self);
    said (self);
    snprintf (other, sizeof other, "%s.other", self->directory);
    assert_int_equal (rename (self->directory, other), 0);
    allow (self, &mallory, "mallory", "operator", true);
    static const char *const names [] = { "allowed/mallory", "allowed", "." };
    for (size_t index = 0; index < 3; index++)
        assert_int_equal (chown (in (self, names [index]), 65534, 65534), 0);
    assert_false (keys_look (keys));
    assert_null (keys_find (keys, mallory.public_text));
    assert_non_null (keys_find (keys, alice.public_text));
    assert_said (self, "of user 65534");
    for (size_t index = 0; index < 2; index++)
        assert_int_equal (index? rmdir (in (self, names [index])): unlink (in (self, names [index])), 0);
    assert_int_equal (rmdir (self->directory), 0);
    assert_int_equal (rename (other, self->directory), 0);
    assert_false (keys_look (keys));
    assert_non_null (keys_find (keys, alice.public_text));
    assert_said (self, "can be looked at again");
    keys_destroy (&keys);
}

//  Whoever takes all descriptors keeps nobody in by it.
static void
test_revoked_without_a_descriptor (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    allow (self, &alice, "alice", "vision", false);
    allow (self, &bob, "bob", "vision", false);
    keys_t *keys = open_keys (self);
    uint64_t user = keys_find (keys, alice.public_text)->user;
    no_descriptors = true;
    assert_false (keys_look (keys));
    assert_non_null (keys_find (keys, bob.public_text));
    assert_int_equal (unlink (in (self, "allowed/bob")), 0);
    assert_true (keys_look (keys));
    keys_check (keys);
    assert_null (keys_find (keys, bob.public_text));
    assert_int_equal (keys_find (keys, alice.public_text)->user, user);
    no_descriptors = false;
    assert_false (keys_look (keys));
    assert_int_equal (keys_find (keys, alice.public_text)->user, user);
    keys_destroy (&keys);
}

//  What is not young any more and looks the same is not read again.
static void
test_nothing_is_read_twice_for_nothing (void **state)
{
    fixture_t *self = *state;
    certificate_t alice, bob;
    certificate_make (&alice);
    certificate_make (&bob);
    keys_t *keys = open_keys (self);
    write_grant (self, "alice", &alice, "vision", false);
    ahead = 10;
    keys_look (keys);
    opened = 0;
    keys_look (keys);
    unsigned int idle = opened;
    assert_int_equal (idle, 3);         //  the folder, the one in it, and that again
    write_grant (self, "bob", &bob, "vision", false);
    opened = 0;
    keys_look (keys);
    assert_int_equal (opened, idle + 1);
    assert_non_null (keys_find (keys, bob.public_text));
    keys_destroy (&keys);
}

//  Changed in place, with as many bytes, in the moment in which it was read.
static void
test_changed_within_one_tick (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    keys_t *keys = open_keys (self);
    coarse.tv_sec = __real_time (NULL);
    write_grant (self, "alice", &alice, "vision", false);
    assert_false (keys_look (keys));
    write_grant (self, "alice", &alice, "speech", false);
    assert_true (keys_look (keys));
    assert_string_equal (keys_find (keys, alice.public_text)->tenant, "speech");
    keys_destroy (&keys);
}

static void
test_too_many (void **state)
{
    fixture_t *self = *state;
    certificate_t alice;
    certificate_make (&alice);
    keys_t *keys = open_keys (self);
    for (int index = 0; index <= KEYS_MAX; index++) {
        char name [40];
        snprintf (name, sizeof name, "k%04d", index);
        write_grant (self, name, &alice, "vision", false);
    }
    assert_false (keys_look (keys));
    keys_check (keys);
    assert_said (self, "more than 1024 files");
    assert_non_null (keys_find (keys, alice.public_text));
    keys_destroy (&keys);
}

//  -- beside a model

//  What a label's file says: key + 1, or 0: no file.
typedef struct {
    int key;
    bool is_operator, is_damaged;
    int tenant;
} label_t;

static const char *const tenants [] = { "vision", "speech" };

//  The label that decides of a key; -1: it is nobody's.
static int
model_find (const label_t labels [MODEL_LABELS], int key)
{
    int found = -1;
    for (int index = 0; index < MODEL_LABELS; index++) {
        if (labels [index].key != key + 1 || labels [index].is_damaged)
            continue;
        if (found >= 0 && (labels [found].tenant != labels [index].tenant
        ||  labels [found].is_operator != labels [index].is_operator))
            return -1;
        found = index;
    }
    return found;
}

static void
model_change (fixture_t *self, label_t *label, int index, const certificate_t keys [MODEL_KEYS], uint64_t *random)
{
    char name [40];
    snprintf (name, sizeof name, "l%d", index);
    uint64_t choice = test_below (random, 8);
    if (choice < 2) {
        *label = (label_t) { 0 };
        char path [60];
        snprintf (path, sizeof path, "allowed/%s", name);
        unlink (in (self, path));
    }
    else {
        *label = (label_t) { .key = 1 + (int) test_below (random, MODEL_KEYS), .is_operator = test_below (random, 4) == 0,
            .tenant = (int) test_below (random, 2), .is_damaged = choice == 2 };
        write_grant (self, name, &keys [label->key - 1], label->is_damaged? "no name": tenants [label->tenant],
            label->is_operator);
    }
}

//  Property: after every look exactly those are let in who are in the folder, with a number that was nobody else's.
static void
test_beside_a_model (void **state)
{
    fixture_t *self = *state;
    for (uint64_t round = 0, seed = test_seed (); round < MODEL_ROUNDS; round++, seed++) {
        uint64_t random = seed, users [MODEL_KEYS] = { 0 }, newest = KEYS_USER_FIRST - 1;
        int known_tenant [MODEL_KEYS];
        certificate_t certificates [MODEL_KEYS];
        label_t labels [MODEL_LABELS] = { { 0 } };
        for (int key = 0; key < MODEL_KEYS; key++)
            certificate_make (&certificates [key]);
        keys_t *keys = open_keys (self);
        for (int step = 0; step < MODEL_STEPS; step++) {
            for (uint64_t count = test_below (&random, 3); count; count--) {
                int index = (int) test_below (&random, MODEL_LABELS);
                model_change (self, &labels [index], index, certificates, &random);
            }
            bool gone = keys_look (keys), should = false;
            uint64_t last = newest;
            keys_check (keys);
            for (int key = 0; key < MODEL_KEYS; key++) {
                int label = model_find (labels, key);
                const keys_grant_t *grant = keys_find (keys, certificates [key].public_text);
                if ((label >= 0) != (grant != NULL))
                    fail_msg ("seed %" PRIu64 ", step %d: key %d is %slet in", seed, step, key, grant? "": "not ");
                bool stays = users [key] && label >= 0 && known_tenant [key] == labels [label].tenant;
                should = should || (users [key] && !stays);
                if (grant && (grant->is_operator != labels [label].is_operator
                || strcmp (grant->tenant, tenants [labels [label].tenant])
                || (stays? grant->user != users [key]: grant->user <= last)))
                    fail_msg ("seed %" PRIu64 ", step %d: key %d is somebody else's", seed, step, key);
                if (!stays && users [key])
                    assert_false (keys_has_user (keys, users [key]));
                users [key] = grant? grant->user: 0;
                known_tenant [key] = label >= 0? labels [label].tenant: -1;
                if (grant && grant->user > newest)
                    newest = grant->user;
            }
            if (gone != should)
                fail_msg ("seed %" PRIu64 ", step %d: %s", seed, step, gone? "nobody went": "somebody went unsaid");
            said (self);
        }
        keys_destroy (&keys);
        for (int index = 0; index < MODEL_LABELS; index++) {
            char path [40];
            snprintf (path, sizeof path, "allowed/l%d", index);
            unlink (in (self, path));
        }
    }
}

int
main (void)
{
    setenv ("ZSYS_SIGHANDLER", "false", 1);
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (test_everything_in_a_certificate),
        cmocka_unit_test (test_damaged_certificates),
        cmocka_unit_test (test_keys_that_are_none),
        cmocka_unit_test (test_mutations),
        cmocka_unit_test_setup_teardown (test_czmq_agrees, begin, end),
        cmocka_unit_test_setup_teardown (test_files_that_are_not_guarded, begin, end),
        cmocka_unit_test_setup_teardown (test_writing_that_fails, begin, end),
        cmocka_unit_test_setup_teardown (test_the_server_keeps_its_key, begin, end),
        cmocka_unit_test_setup_teardown (test_folders_that_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_opening_that_fails, begin, end),
        cmocka_unit_test_setup_teardown (test_allowed_and_revoked, begin, end),
        cmocka_unit_test_setup_teardown (test_revoked_in_the_second_in_which_another_is_allowed, begin, end),
        cmocka_unit_test_setup_teardown (test_moved_to_another_tenant, begin, end),
        cmocka_unit_test_setup_teardown (test_files_that_let_nobody_in, begin, end),
        cmocka_unit_test_setup_teardown (test_a_tenant_that_there_is_not, begin, end),
        cmocka_unit_test_setup_teardown (test_nobody_goes_for_want_of_descriptors, begin, end),
        cmocka_unit_test_setup_teardown (test_another_users_folder_in_its_place, begin, end),
        cmocka_unit_test_setup_teardown (test_revoked_without_a_descriptor, begin, end),
        cmocka_unit_test_setup_teardown (test_nothing_is_read_twice_for_nothing, begin, end),
        cmocka_unit_test_setup_teardown (test_changed_within_one_tick, begin, end),
        cmocka_unit_test_setup_teardown (test_too_many, begin, end),
        cmocka_unit_test_setup_teardown (test_beside_a_model, begin, end)
    };
    return cmocka_run_group_tests_name ("keys", tests, NULL, NULL);
}
