/*  The endpoint: one server at a time, whoever dies; nothing of another's is removed; nothing of ours is
 *  left.
 *
 *  All directories are the test's own, by way of XDG_RUNTIME_DIR.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "endpoint.h"
#include "scratch.h"

#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ERROR_BYTES = 512, RACERS = 4, WINS = 200 };

//  -- calls that fail when told to

FAULT_CALL (void *, NULL, calloc, (size_t count, size_t size), (count, size))
FAULT_CALL (char *, NULL, strdup, (const char *text), (text))
FAULT_CALL (char *, NULL, strndup, (const char *text, size_t size), (text, size))
FAULT_CALL (int, -1, vasprintf, (char **text_p, const char *format, va_list arguments), (text_p, format,
arguments))
FAULT_CALL (int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
FAULT_CALL (int, -1, flock, (int fd, int operation), (fd, operation))
FAULT_CALL (int, -1, ftruncate, (int fd, off_t size), (fd, size))
FAULT_CALL (ssize_t, -1, pwrite, (int fd, const void *bytes, size_t size, off_t at), (fd, bytes, size, at))
FAULT_CALL (int, -1, fstat, (int fd, struct stat *status), (fd, status))
FAULT_CALL (int, -1, chmod, (const char *path, mode_t mode), (path, mode))
FAULT_CALL (int, -1, lchown, (const char *path, uid_t uid, gid_t gid), (path, uid, gid))

//  The lock file is removed and another put in its place just before it is locked: a server that ends does
//  the first, one that starts the second.
static unsigned int replacements;

int __real_open (const char *path, int flags, mode_t mode);
int __wrap_open (const char *path, int flags, mode_t mode);
int
__wrap_open (const char *path, int flags, mode_t mode)
{
    if (fault_strikes ())
        return -1;
    int fd = __real_open (path, flags, mode);
    if (fd >= 0 && replacements) {
        replacements--;
        unlink (path);
        if (replacements % 2)
            close (__real_open (path, flags, mode));
    }
    return fd;
}


//  -- what every case begins and ends with

typedef struct {
    scratch_t scratch;
    char socket [100];              //  an ipc path in it
    char text [120];                //  the endpoint of that path
} fixture_t;

static int
begin (void **state)
{
    fixture_t *self = calloc (1, sizeof *self);
    *state = self;
    replacements = 0;
    alarm (300);
    if (!self || !scratch_begin (&self->scratch))
        return -1;
    snprintf (self->socket, sizeof self->socket, "%s/s.sock", self->scratch.path);
    snprintf (self->text, sizeof self->text, "ipc://%s", self->socket);
    return setenv ("XDG_RUNTIME_DIR", self->scratch.path, 1);
}

static int
end (void **state)
{
    fixture_t *self = *state;
    fault_disarm ();
    unsetenv ("XDG_RUNTIME_DIR");
    bool clean = scratch_end (&self->scratch);
    free (self);
    return clean? 0: -1;
}

static const char *
in (const fixture_t *self, const char *name)
{
    static char path [120];
    snprintf (path, sizeof path, "%s/%s", self->scratch.path, name);
    return path;
}

static void
make_file (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

//  A socket at path; -1 or the descriptor that listens.  Not listening: as a dead server leaves it.
static int
make_socket (const char *path, bool live)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (bind (fd, (struct sockaddr *) &address, sizeof address), 0);
    if (live) {
        assert_int_equal (listen (fd, 1), 0);
        return fd;
    }
    close (fd);
    return -1;
}

static const endpoint_access_t everybody = { .open = true }, keys = { .keys = true };

static endpoint_t *
claim_for (const char *text, const endpoint_access_t *access)
{
    endpoint_t *endpoint;
    char error [ERROR_BYTES];
    int rc = endpoint_claim (&endpoint, text, access, error, sizeof error);
    if (rc)
        fail_msg ("%s: %d, %s", text? text: "default", rc, error);
    assert_string_equal (error, "");
    return endpoint;
}

static endpoint_t *
claim (const char *text)
{
    return claim_for (text, NULL);
}

static void
assert_refused_for (const char *text, const endpoint_access_t *access, int code, const char *what,
    const char *remedy)
{
    endpoint_t *endpoint = (endpoint_t *) 1;
    char error [ERROR_BYTES];
    int rc = endpoint_claim (&endpoint, text, access, error, sizeof error);
    assert_null (endpoint);
    if (rc != code || !strstr (error, what) || !strstr (error, remedy))
        fail_msg ("%s: %d, not %d: '%s', not '%s', '%s'", text, rc, code, error, what, remedy);
}

static void
assert_refused (const char *text, int code, const char *what, const char *remedy)
{
    assert_refused_for (text, NULL, code, what, remedy);
}


//  -- the default

static void
test_default_in_the_runtime_directory (void **state)
{
    fixture_t *self = *state;
    char text [200], expected [200];
    snprintf (expected, sizeof expected, "ipc://%s/tureen/server.sock", self->scratch.path);
    assert_int_equal (endpoint_default (text, sizeof text), 0);
    assert_string_equal (text, expected);
    assert_int_equal (endpoint_default (text, strlen (expected) + 1), 0);
    assert_int_equal (endpoint_default (text, strlen (expected)), -ENAMETOOLONG);
    assert_string_equal (text, "");
}

//  Unset, empty, relative, missing, a file, another user's: not usable, so /tmp.
static void
test_default_without_a_runtime_directory (void **state)
{
    fixture_t *self = *state;
    char text [200], expected [200];
    snprintf (expected, sizeof expected, "ipc:///tmp/tureen-%u/server.sock", getuid ());
    make_file (in (self, "file"), "");
    static const char *const unusable [] = { "", "relative", ".", "/nowhere/at/all" };
    for (size_t index = 0; index < 4; index++) {
        setenv ("XDG_RUNTIME_DIR", unusable [index], 1);
        assert_int_equal (endpoint_default (text, sizeof text), 0);
        assert_string_equal (text, expected);
    }
    setenv ("XDG_RUNTIME_DIR", in (self, "file"), 1);
    assert_int_equal (endpoint_default (text, sizeof text), 0);
    assert_string_equal (text, expected);
    if (getuid () == 0) {
        assert_int_equal (chown (self->scratch.path, 65534, 65534), 0);
        setenv ("XDG_RUNTIME_DIR", self->scratch.path, 1);
        assert_int_equal (endpoint_default (text, sizeof text), 0);
        assert_string_equal (text, expected);
    }
    unsetenv ("XDG_RUNTIME_DIR");
    assert_int_equal (endpoint_default (text, sizeof text), 0);
    assert_string_equal (text, expected);
}

//  The directory for us alone, a lock that names us; and afterwards nothing.
static void
test_default_is_claimed_and_released (void **state)
{
    fixture_t *self = *state;
    mode_t mask = umask (0);
    endpoint_t *endpoint = claim (NULL);
    umask (mask);
    struct stat status;
    assert_int_equal (lstat (in (self, "tureen"), &status), 0);
    assert_int_equal (status.st_mode & 07777, 0700);
    assert_int_equal (lstat (in (self, "tureen/server.sock.lock"), &status), 0);
    assert_int_equal (status.st_mode & 07777, 0600);
    char expected [200], text [40] = "";
    FILE *file = fopen (in (self, "tureen/server.sock.lock"), "r");
    assert_non_null (fgets (text, sizeof text, file));
    fclose (file);
    assert_int_equal (atol (text), getpid ());
    endpoint_default (expected, sizeof expected);
    assert_string_equal (endpoint_text (endpoint), expected);
    assert_string_equal (endpoint_ring_path (endpoint), in (self, "tureen/server.sock.ring"));
    assert_true (endpoint_is_ipc (endpoint));
    close (make_socket (in (self, "tureen/server.sock"), true));
    close (make_socket (endpoint_ring_path (endpoint), true));
    endpoint_destroy (&endpoint);
    assert_null (endpoint);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);

    //  Written out it is the same place, and made as well.
    endpoint = claim (expected);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  The runtime folder goes with the last server, whoever made it (one that was killed, perhaps), but not with
//  something in it.
static void
test_directory_of_others_stays (void **state)
{
    fixture_t *self = *state;
    assert_int_equal (mkdir (in (self, "tureen"), 0755), 0);
    endpoint_t *endpoint = claim (NULL);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    endpoint = claim (NULL);
    make_file (in (self, "tureen/notes"), "");
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (in (self, "tureen")), 1);
}

//  In /tmp, unless somebody is at work there.
static void
test_default_in_tmp (void **state)
{
    (void) state;
    char directory [40], link [60];
    struct stat status;
    snprintf (directory, sizeof directory, "/tmp/tureen-%u", getuid ());
    if (lstat (directory, &status) == 0)
        skip ();
    unsetenv ("XDG_RUNTIME_DIR");
    endpoint_t *endpoint = claim (NULL);
    assert_int_equal (lstat (directory, &status), 0);
    assert_int_equal (status.st_mode & 07777, 0700);
    endpoint_destroy (&endpoint);
    assert_int_equal (lstat (directory, &status), -1);
    //  A link there may lead anywhere.
    snprintf (link, sizeof link, "%s.elsewhere", directory);
    assert_int_equal (mkdir (link, 0700), 0);
    assert_int_equal (symlink (link, directory), 0);
    assert_refused (NULL, -ENOTDIR, "a link", "remove it");
    assert_int_equal (unlink (directory), 0);
    assert_int_equal (rmdir (link), 0);
}


//  -- one server at a time

static void
test_live_server_is_named (void **state)
{
    fixture_t *self = *state;
    char process [40];
    snprintf (process, sizeof process, "(process %d)", getpid ());
    endpoint_t *endpoint = claim (self->text);
    int fd = make_socket (self->socket, true);
    assert_refused (self->text, -EADDRINUSE, process, "stop it");
    assert_int_equal (access (self->socket, F_OK), 0);
    make_file (in (self, "s.sock.lock"), "nonsense");
    assert_refused (self->text, -EADDRINUSE, "a live server listens", "stop it");
    close (fd);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    endpoint = claim (self->text);
    endpoint_destroy (&endpoint);
}

//  A server is killed: its lock file and sockets are there, and are taken over.
static void
test_killed_server_is_taken_over (void **state)
{
    fixture_t *self = *state;
    int pipes [2];
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    pid_t child = fork ();
    if (child == 0) {
        endpoint_t *endpoint;
        char error [ERROR_BYTES];
        if (endpoint_claim (&endpoint, self->text, NULL, error, sizeof error))
            _exit (1);
        make_socket (self->socket, true);
        make_socket (endpoint_ring_path (endpoint), true);
        if (write (pipes [1], "r", 1) != 1)
            _exit (1);
        pause ();
    }
    char byte, process [40];
    assert_int_equal (read (pipes [0], &byte, 1), 1);
    close (pipes [0]);
    close (pipes [1]);
    snprintf (process, sizeof process, "(process %d)", child);
    assert_refused (self->text, -EADDRINUSE, process, "stop it");
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    assert_int_equal (scratch_entries (self->scratch.path), 3);
    endpoint_t *endpoint = claim (self->text);
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  The lock file is gone (something cleans /tmp) but the server lives: it is not taken over, its files are
//  left, and when it ends it does not remove what a later server has made.
static void
test_lock_file_removed_under_a_live_server (void **state)
{
    fixture_t *self = *state;
    endpoint_t *endpoint = claim (self->text);
    int fd = make_socket (self->socket, true);
    assert_int_equal (unlink (in (self, "s.sock.lock")), 0);
    char process [40];
    snprintf (process, sizeof process, "(process %d)", getpid ());
    assert_refused (self->text, -EADDRINUSE, process, "stop it");
    assert_int_equal (access (self->socket, F_OK), 0);
    close (fd);
    endpoint_t *later = claim (self->text);
    make_socket (self->socket, false);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 2);
    endpoint_destroy (&later);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  What is locked is not what is found at the path: try again.
static void
test_lock_file_replaced_meanwhile (void **state)
{
    fixture_t *self = *state;
    replacements = 7;
    endpoint_t *endpoint = claim (self->text);
    assert_int_equal (replacements, 0);
    assert_refused (self->text, -EADDRINUSE, "live server", "stop it");
    endpoint_destroy (&endpoint);
    replacements = 1000000;
    assert_refused (self->text, -EAGAIN, "keeps changing", "find out");
    replacements = 0;
    unlink (in (self, "s.sock.lock"));
}

//  One of several processes that claim and release without rest, until each has won often enough.  In the
//  shared number is the process that holds.
static bool
race (const char *text, int *holder)
{
    char error [ERROR_BYTES];
    for (int wins = 0; wins < WINS; ) {
        endpoint_t *endpoint;
        int rc = endpoint_claim (&endpoint, text, NULL, error, sizeof error), nobody = 0, me = getpid ();
        if (rc == -EADDRINUSE)
            continue;
        if (rc != 0 || !__atomic_compare_exchange_n (holder, &nobody, me, 0, __ATOMIC_SEQ_CST,
            __ATOMIC_SEQ_CST))
            return false;
        wins++;
        __atomic_store_n (holder, 0, __ATOMIC_SEQ_CST);
        endpoint_destroy (&endpoint);
    }
    return true;
}

//  Property: however many start and end at once, one holds it; in the end nothing is left.
static void
test_race_has_one_holder (void **state)
{
    fixture_t *self = *state;
    int *holder = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true (holder != MAP_FAILED);
    const char *texts [] = { self->text, NULL };
    for (int which = 0; which < 2; which++) {
        pid_t children [RACERS];
        for (int index = 0; index < RACERS; index++)
            if ((children [index] = fork ()) == 0)
                _exit (race (texts [which], holder)? 0: 1);
        for (int index = 0; index < RACERS; index++) {
            int status;
            assert_int_equal (waitpid (children [index], &status, 0), children [index]);
            assert_int_equal (status, 0);
        }
        assert_int_equal (*holder, 0);
        //  Who made the directory may have found another's lock file in it; then it stays, empty.
        rmdir (in (self, "tureen"));
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    munmap (holder, 4096);
}


//  -- whose files, whose directories

//  Binding would remove what is at the path: only sockets may be there.
static void
test_files_in_the_way_stay (void **state)
{
    fixture_t *self = *state;
    make_file (self->socket, "precious");
    assert_refused (self->text, -EEXIST, "no socket", "remove it");
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    assert_int_equal (unlink (self->socket), 0);
    make_file (in (self, "s.sock.ring"), "precious");
    make_socket (self->socket, false);
    assert_refused (self->text, -EEXIST, "s.sock.ring", "remove it");
    assert_int_equal (access (in (self, "s.sock.ring"), F_OK), 0);
    assert_int_equal (unlink (in (self, "s.sock.ring")), 0);
    assert_int_equal (mkdir (in (self, "s.sock.lock"), 0700), 0);
    assert_refused (self->text, -EISDIR, "s.sock.lock", "remove it");
    assert_int_equal (rmdir (in (self, "s.sock.lock")), 0);
    assert_int_equal (symlink ("/etc/passwd", in (self, "s.sock.lock")), 0);
    assert_refused (self->text, -ELOOP, "s.sock.lock", "remove it");
    assert_int_equal (unlink (in (self, "s.sock.lock")), 0);
    make_file (in (self, "precious"), "precious");
    char target [120];
    strcpy (target, in (self, "precious"));
    assert_int_equal (link (target, in (self, "s.sock.lock")), 0);
    assert_refused (self->text, -EPERM, "s.sock.lock", "remove it");
    struct stat status;
    assert_int_equal (stat (target, &status), 0);
    assert_int_equal (status.st_size, strlen ("precious"));
    assert_int_equal (unlink (in (self, "s.sock.lock")), 0);
    assert_int_equal (mkfifo (in (self, "s.sock.lock"), 0600), 0);
    assert_refused (self->text, -EPERM, "s.sock.lock", "remove it");
}

//  Another program's socket, which never heard of our lock, is left alone.
static void
test_live_socket_of_another_program (void **state)
{
    fixture_t *self = *state;
    int fd = make_socket (in (self, "s.sock.ring"), true);
    assert_refused (self->text, -EADDRINUSE, "live server", "listen elsewhere");
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    close (fd);
}

static void
test_directories_that_others_may_write (void **state)
{
    fixture_t *self = *state;
    static const mode_t refused [] = { 0770, 0777, 0702 }, taken [] = { 0700, 0750, 0755, 01777, 01770 };
    for (size_t index = 0; index < 3; index++) {
        assert_int_equal (chmod (self->scratch.path, refused [index]), 0);
        assert_refused (self->text, -EPERM, "others may write", "chmod go-w");
    }
    for (size_t index = 0; index < 5; index++) {
        assert_int_equal (chmod (self->scratch.path, taken [index]), 0);
        endpoint_t *endpoint = claim (self->text);
        endpoint_destroy (&endpoint);
    }
    //  The directory that we make ourselves may not even be sticky.
    assert_int_equal (chmod (self->scratch.path, 0700), 0);
    assert_int_equal (mkdir (in (self, "tureen"), 0700), 0);
    assert_int_equal (chmod (in (self, "tureen"), 01777), 0);
    assert_refused (NULL, -EPERM, "others may write", "chmod go-w");
}

static void
test_directory_and_files_of_another_user (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to make them
    assert_int_equal (mkdir (in (self, "tureen"), 0700), 0);
    assert_int_equal (chown (in (self, "tureen"), 65534, 65534), 0);
    assert_refused (NULL, -EPERM, "belongs to user 65534", "your own");
    assert_int_equal (chmod (self->scratch.path, 01777), 0);
    make_socket (self->socket, false);
    assert_int_equal (chown (self->socket, 65534, 65534), 0);
    assert_refused (self->text, -EPERM, "belongs to user 65534", "listen elsewhere");
    assert_int_equal (access (self->socket, F_OK), 0);
    make_file (in (self, "s.sock.lock"), "");
    assert_int_equal (chown (in (self, "s.sock.lock"), 65534, 65534), 0);
    //  Which of the two depends on the system's protected_regular.
    endpoint_t *endpoint;
    char error [ERROR_BYTES];
    int rc = endpoint_claim (&endpoint, self->text, NULL, error, sizeof error);
    assert_true (rc == -EPERM || rc == -EACCES);
    assert_non_null (strstr (error, "remove it"));
}

static void
test_directory_is_missing_or_none (void **state)
{
    fixture_t *self = *state;
    char text [200];
    snprintf (text, sizeof text, "ipc://%s", in (self, "missing/s.sock"));
    assert_refused (text, -ENOENT, "missing", "make it");
    make_file (in (self, "file"), "");
    snprintf (text, sizeof text, "ipc://%s", in (self, "file/s.sock"));
    assert_refused (text, -ENOTDIR, "not a folder", "remove it");
    make_file (in (self, "tureen"), "");
    assert_refused (NULL, -ENOTDIR, "not a folder", "remove it");
    //  By a link to a good directory of one's own choice: fine.
    assert_int_equal (mkdir (in (self, "real"), 0700), 0);
    assert_int_equal (symlink ("real", in (self, "link")), 0);
    snprintf (text, sizeof text, "ipc://%s", in (self, "link/s.sock"));
    endpoint_t *endpoint = claim (text);
    endpoint_destroy (&endpoint);
}


//  -- what may be written

static void
test_texts_that_are_refused (void **state)
{
    (void) state;
    static const struct { const char *text; int code; const char *what, *remedy; } bad [] = {
        { "", -EPROTONOSUPPORT, "neither", "ipc:///PATH" },
        { "/tmp/x.sock", -EPROTONOSUPPORT, "neither", "ipc:///PATH" },
        { "udp://127.0.0.1:5555", -EPROTONOSUPPORT, "neither", "tcp://HOST:PORT" },
        { "inproc://x", -EPROTONOSUPPORT, "neither", "tcp://HOST:PORT" },
        { "ipc://", -EINVAL, "no absolute path", "ipc:///PATH" },
        { "ipc://*", -EINVAL, "no absolute path", "ipc:///PATH" },
        { "ipc://x.sock", -EINVAL, "no absolute path", "ipc:///PATH" },
        { "ipc://@x", -EINVAL, "abstract", "ipc:///PATH" },
        { "ipc:///", -EINVAL, "names a folder", "ipc:///server.sock" },
        { "ipc:///tmp/", -EINVAL, "names a folder", "ipc:///tmp/server.sock" },
        { "tcp://", -EINVAL, "is not tcp://HOST:PORT", "e.g." },
        { "tcp://5555", -EINVAL, "is not tcp://HOST:PORT", "e.g." },
        { "tcp://:5555", -EINVAL, "is not tcp://HOST:PORT", "e.g." },
        { "tcp://::1:5555", -EINVAL, "is not tcp://HOST:PORT", "brackets" },
        { "tcp://a:1;127.0.0.1:5555", -EINVAL, "is not tcp://HOST:PORT", "e.g." },
        { "tcp://127.0.0.1:", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:*", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:0", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:65536", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:4294967297", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:55a", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:-1", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
        { "tcp://127.0.0.1:+1", -EINVAL, "no port", "tcp://127.0.0.1:5555" },
    };
    for (size_t index = 0; index < sizeof bad / sizeof bad [0]; index++)
        assert_refused (bad [index].text, bad [index].code, bad [index].what, bad [index].remedy);
}

//  The longest path that fits with its ".ring" works in a real bind; a byte more is refused with both
//  figures.
static void
test_path_of_a_socket_has_a_limit (void **state)
{
    fixture_t *self = *state;
    char text [200];
    snprintf (text, sizeof text, "ipc://%s", in (self, ""));
    size_t length = strlen (text);
    memset (text + length, 'x', sizeof text - length);
    text [6 + 102] = 0;
    endpoint_t *endpoint = claim (text);
    assert_int_equal (strlen (endpoint_ring_path (endpoint)), 107);
    make_socket (text + 6, false);
    make_socket (endpoint_ring_path (endpoint), false);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    text [6 + 102] = 'x';
    text [6 + 103] = 0;
    assert_refused (text, -ENAMETOOLONG, "103 bytes and may have 102", "ipc:///tmp/tureen-");
    assert_refused (text, -ENAMETOOLONG, "most 107", "shorter one");

    //  The same by way of the runtime directory.
    char directory [120];
    strcpy (directory, in (self, ""));
    length = strlen (directory);
    memset (directory + length, 'y', sizeof directory - length);
    directory [100] = 0;
    assert_int_equal (mkdir (directory, 0700), 0);
    setenv ("XDG_RUNTIME_DIR", directory, 1);
    assert_refused (NULL, -ENAMETOOLONG, "at most 107", "shorter one");
    assert_refused_for ("tcp://127.0.0.1:5555", &everybody, -ENAMETOOLONG, "XDG_RUNTIME_DIR", "unset it");
    assert_int_equal (scratch_entries (directory), 0);
}

//  tcp: files in the runtime directory, one server a port; open only where it is surely this host alone, else
//  with keys.
static void
test_tcp (void **state)
{
    fixture_t *self = *state;
    static const struct { const char *text, *bound; bool remote; } good [] = {
        { "tcp://127.0.0.1:5555", NULL, false },
        { "tcp://127.255.3.4:1", NULL, false },
        { "tcp://[::1]:65535", NULL, false },
        { "tcp://[0:0:0:0:0:0:0:1]:5555", NULL, false },
        { "tcp://localhost:5555", "tcp://127.0.0.1:5555", false },
        { "tcp://LocalHost:5555", "tcp://127.0.0.1:5555", false },
        { "tcp://0.0.0.0:5555", NULL, true },
        { "tcp://*:5555", NULL, true },
        { "tcp://[::]:5555", NULL, true },
        { "tcp://[::1:5555", NULL, true },
        { "tcp://[fe80::1%eth0]:5555", NULL, true },
        { "tcp://128.0.0.1:5555", NULL, true },
        { "tcp://127.1:5555", NULL, true },
        { "tcp://eth0:5555", NULL, true },
        { "tcp://localhost.example.org:5555", NULL, true },
    };
    for (size_t index = 0; index < 2 * (sizeof good / sizeof good [0]); index++) {
        const char *text = good [index / 2].text, *bound = good [index / 2].bound;
        bool with_keys = index % 2;
        assert_refused (text, -EACCES, good [index / 2].remote? "--keys DIR": "--open", "--keys");
        if (good [index / 2].remote && !with_keys) {
            assert_refused_for (text, &everybody, -EACCES, "other machines", "--keys DIR");
            assert_int_equal (scratch_entries (self->scratch.path), 0);
            continue;
        }
        endpoint_t *endpoint = claim_for (text, with_keys? &keys: &everybody);
        assert_false (endpoint_is_ipc (endpoint));
        assert_string_equal (endpoint_text (endpoint), bound? bound: text);
        assert_int_equal (scratch_entries (in (self, "tureen")), 1);
        endpoint_destroy (&endpoint);
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    endpoint_t *endpoint = claim_for ("tcp://127.0.0.1:5555", &everybody),
        *other = claim_for ("tcp://127.0.0.1:5556", &keys);
    assert_string_equal (endpoint_ring_path (endpoint), in (self, "tureen/tcp-5555.ring"));
    assert_int_equal (access (in (self, "tureen/tcp-5555.lock"), F_OK), 0);
    assert_refused_for ("tcp://localhost:5555", &everybody, -EADDRINUSE, "live server", "stop it");
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (in (self, "tureen")), 1);
    endpoint_destroy (&other);
}


//  -- who may come

enum { OTHERS = 65534 };            //  the number of a group

static const endpoint_access_t group = { .users = true, .group = "others", .group_id = OTHERS };

//  A folder that everybody may enter, in which ours is.
static void
open_the_way (const fixture_t *self)
{
    assert_int_equal (chmod (self->scratch.path, 0711), 0);
}

static void
assert_mode (const char *path, gid_t gid, mode_t mode)
{
    struct stat status;
    assert_int_equal (lstat (path, &status), 0);
    if ((status.st_mode & 07777) != mode || status.st_gid != gid || status.st_uid != geteuid ())
        fail_msg ("%s: user %u, group %u, mode %04o; expected group %u, mode %04o", path, status.st_uid,
            status.st_gid, status.st_mode & 07777, gid, mode);
}

//  What cannot be guarded, or would serve nobody, is refused before there is any file.
static void
test_access_that_cannot_be (void **state)
{
    fixture_t *self = *state;
    endpoint_access_t users = { .users = true }, both = group;
    assert_refused_for (self->text, &keys, -EACCES, "keys are for tcp", "take --keys out");
    assert_refused_for (self->text, &users, -EACCES, "could not reach", "--group NAME");
    users.keys = true;
    assert_refused_for ("tcp://127.0.0.1:5555", &users, -EACCES, "cannot be told by a user",
        "tureen key allow");
    both.keys = true;
    assert_refused_for ("tcp://127.0.0.1:5555", &both, -EACCES, "group 'others'", "ipc:///PATH");
    if (getuid () == 0) {
        //  The scratch folder is ours alone, and the runtime folder is in it.
        assert_int_equal (chmod (self->scratch.path, 0700), 0);
        assert_refused_for (NULL, &group, -EACCES, "its owner's alone", self->scratch.path);
    }
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  A process that is not root can give sockets to its own groups only.
static void
test_group_of_others (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    assert_int_equal (chown (self->scratch.path, OTHERS, OTHERS), 0);
    pid_t child = fork ();
    if (child == 0) {
        gid_t further = 3;
        char error [ERROR_BYTES];
        endpoint_t *endpoint;
        endpoint_access_t access = { .users = true, .group = "x", .group_id = 5 };
        if (setgroups (1, &further) != 0 || setgid (OTHERS) != 0 || setuid (OTHERS) != 0)
            _exit (1);
        if (endpoint_claim (&endpoint, NULL, &access, error, sizeof error) != -EACCES
            || !strstr (error, "not in group 'x'")
        ||  !strstr (error, "usermod"))
            _exit (2);
        static const gid_t ours [] = { OTHERS, 3 };
        for (size_t index = 0; index < 2; index++) {
            access.group_id = ours [index];
            if (endpoint_claim (&endpoint, NULL, &access, error, sizeof error) != 0)
                _exit (3);
            assert_mode (in (self, "tureen"), ours [index], 0750);
            endpoint_destroy (&endpoint);
        }
        _exit (0);
    }
    int status;
    waitpid (child, &status, 0);
    assert_int_equal (chown (self->scratch.path, 0, 0), 0);
    assert_int_equal (status, 0);
}

//  A folder where no file can be made: it is named, not a lock file that is not there.
static void
test_folder_that_takes_no_file (void **state)
{
    fixture_t *self = *state;
    assert_refused ("ipc:///proc/s.sock", -ENOENT, "cannot make a file in the folder '/proc' (",
        "--listen ipc:///FOLDER/server.sock");
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    assert_int_equal (chmod (self->scratch.path, 0755), 0);
    pid_t child = fork ();
    if (child == 0) {
        char error [ERROR_BYTES];
        endpoint_t *endpoint;
        if (setgroups (0, NULL) != 0 || setgid (OTHERS) != 0 || setuid (OTHERS) != 0)
            _exit (1);
        if (endpoint_claim (&endpoint, self->text, NULL, error, sizeof error) != -EACCES
            || strstr (error, "lock file")
        ||  !strstr (error, self->scratch.path)
            || !strstr (error, "write there, or listen in another one, with --listen"))
            _exit (2);
        _exit (0);
    }
    int status;
    waitpid (child, &status, 0);
    assert_int_equal (status, 0);
}

//  The folder that we make is the group's to enter, both sockets are its own, and nothing is anybody else's.
static void
test_group_gets_the_sockets (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    open_the_way (self);
    mode_t mask = umask (0);
    char error [ERROR_BYTES];
    //  As it is made, and as an earlier server without a group has left it.
    for (int there = 0; there < 2; there++) {
        if (there)
            assert_int_equal (mkdir (in (self, "tureen"), 0700), 0);
        endpoint_t *endpoint = claim_for (NULL, &group);
        assert_mode (in (self, "tureen"), OTHERS, 0750);
        assert_mode (in (self, "tureen/server.sock.lock"), getgid (), 0600);
        int router = make_socket (in (self, "tureen/server.sock"), true),
            ring_server = make_socket (in (self, "tureen/server.sock.ring"), true);
        assert_int_equal (endpoint_share (endpoint, error, sizeof error), 0);
        assert_mode (in (self, "tureen/server.sock"), OTHERS, 0660);
        assert_mode (in (self, "tureen/server.sock.ring"), OTHERS, 0660);
        endpoint_destroy (&endpoint);
        close (router);
        close (ring_server);
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    umask (mask);
}

//  Who comes to a live server's endpoint with another group leaves its folder as it is.
static void
test_group_of_a_live_server_stays (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    open_the_way (self);
    static const endpoint_access_t other = { .users = true, .group = "other", .group_id = 3 };
    endpoint_t *endpoint = claim_for (NULL, &group);
    int router = make_socket (in (self, "tureen/server.sock"), true);
    assert_refused_for (NULL, &other, -EADDRINUSE, "a live server", "listen elsewhere");
    assert_mode (in (self, "tureen"), OTHERS, 0750);
    //  Nor where something has removed its lock file.
    assert_int_equal (unlink (in (self, "tureen/server.sock.lock")), 0);
    assert_refused_for (NULL, &other, -EADDRINUSE, "a live server", "listen elsewhere");
    assert_mode (in (self, "tureen"), OTHERS, 0750);
    //  Nor does who comes to another endpoint in the folder, as long as a server listens there.
    char text [140];
    snprintf (text, sizeof text, "ipc://%s", in (self, "tureen/second.sock"));
    assert_refused_for (text, &other, -EPERM, "is for group", "take the same group");
    assert_mode (in (self, "tureen"), OTHERS, 0750);
    endpoint_t *second = claim_for (text, &group);
    endpoint_destroy (&second);
    close (router);
    second = claim_for (text, &other);
    assert_mode (in (self, "tureen"), 3, 0750);
    endpoint_destroy (&second);
    assert_int_equal (unlink (in (self, "tureen/server.sock")), 0);
    endpoint_destroy (&endpoint);
}

//  Without a group sockets stay as they are.
static void
test_without_a_group_nothing_is_shared (void **state)
{
    fixture_t *self = *state;
    char error [ERROR_BYTES];
    endpoint_t *endpoint = claim (NULL);
    int router = make_socket (in (self, "tureen/server.sock"), true);
    assert_int_equal (chmod (in (self, "tureen/server.sock"), 0700), 0);
    assert_int_equal (endpoint_share (endpoint, error, sizeof error), 0);
    assert_mode (in (self, "tureen"), getgid (), 0700);
    assert_mode (in (self, "tureen/server.sock"), getgid (), 0700);
    close (router);
    endpoint_destroy (&endpoint);
}

//  A folder that is not ours to change must be right, and the sentence has the commands.
static void
test_folder_of_the_group (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    static const struct { gid_t gid; mode_t mode; bool good; } folders [] = {
        { OTHERS, 0750, true }, { OTHERS, 0710, true }, { OTHERS, 02750, true }, { OTHERS, 0755, false },
        { OTHERS, 0751, false },
        { OTHERS, 0700, false }, { OTHERS, 0740, false }, { OTHERS, 0770, false }, { OTHERS, 01777, false },
        { 3, 0750, false },
    };
    open_the_way (self);
    char folder [120], text [140], chgrp [160];
    snprintf (folder, sizeof folder, "%s/d", self->scratch.path);
    snprintf (text, sizeof text, "ipc://%s/s.sock", folder);
    snprintf (chgrp, sizeof chgrp, "chgrp %d '%s' && chmod 0750", OTHERS, folder);
    assert_int_equal (mkdir (folder, 0700), 0);
    for (size_t index = 0; index < sizeof folders / sizeof folders [0]; index++) {
        bool written = folders [index].mode & 020 && !(folders [index].mode & S_ISVTX);
        assert_int_equal (chown (folder, 0, folders [index].gid), 0);
        assert_int_equal (chmod (folder, folders [index].mode), 0);
        if (folders [index].good) {
            endpoint_t *endpoint = claim_for (text, &group);
            endpoint_destroy (&endpoint);
        }
        else
            assert_refused_for (text, &group, -EPERM, written? "others may write": "for the group to enter",
                written? "chmod go-w": chgrp);
        assert_mode (folder, folders [index].gid, folders [index].mode);
        assert_int_equal (scratch_entries (folder), 0);
    }
    assert_int_equal (rmdir (folder), 0);
}

//  Each call of sharing fails in turn: a sentence, and the sockets are never more open than they were to be.
static void
test_share_with_faults (void **state)
{
    fixture_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    open_the_way (self);
    endpoint_t *endpoint = claim_for (NULL, &group);
    const char *names [] = { "tureen/server.sock", "tureen/server.sock.ring" };
    int fds [2];
    for (int which = 0; which < 2; which++)
        fds [which] = make_socket (in (self, names [which]), true);
    bool struck = true;
    unsigned int nth = 0;
    while (struck) {
        char error [ERROR_BYTES] = "";
        for (int which = 0; which < 2; which++) {
            assert_int_equal (chmod (in (self, names [which]), 0700), 0);
            assert_int_equal (lchown (in (self, names [which]), 0, 0), 0);
        }
        fault_arm (++nth, EIO, false);
        int rc = endpoint_share (endpoint, error, sizeof error);
        struck = fault_disarm ();
        assert_int_equal (rc, struck? -EIO: 0);
        assert_int_equal (error [0] != 0, struck);
        for (int which = 0; which < 2; which++) {
            struct stat status;
            assert_int_equal (lstat (in (self, names [which]), &status), 0);
            assert_int_equal (status.st_mode & 07, 0);
            assert_true (status.st_gid == OTHERS || !(status.st_mode & 070));
        }
    }
    assert_int_equal (nth, 7);
    endpoint_destroy (&endpoint);
    close (fds [0]);
    close (fds [1]);
}


//  -- faults

//  Each call fails in turn: a code, a sentence, and nothing left behind.
static void
test_claim_with_faults (void **state)
{
    fixture_t *self = *state;
    const char *texts [] = { self->text, NULL, "tcp://localhost:5555", NULL };
    const endpoint_access_t *accesses [] = { NULL, NULL, &everybody, getuid () == 0? &group: NULL };
    open_the_way (self);
    for (int which = 0; which < 4; which++) {
        bool struck = true;
        unsigned int nth = 0;
        while (struck) {
            endpoint_t *endpoint = (endpoint_t *) 1;
            char error [ERROR_BYTES];
            fault_arm (++nth, ENOSPC, false);
            int rc = endpoint_claim (&endpoint, texts [which], accesses [which], error, sizeof error);
            struck = fault_disarm ();
            assert_int_equal (rc != 0, struck);
            assert_int_equal (endpoint == NULL, struck);
            assert_int_equal (error [0] != 0, struck);
            endpoint_destroy (&endpoint);
            if (scratch_entries (self->scratch.path) != 0)
                fail_msg ("%s: the %u. call leaves something behind", texts [which]? texts [which]: "default",
                    nth);
        }
        assert_true (nth > 9);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_default_in_the_runtime_directory, begin, end),
        cmocka_unit_test_setup_teardown (test_default_without_a_runtime_directory, begin, end),
        cmocka_unit_test_setup_teardown (test_default_is_claimed_and_released, begin, end),
        cmocka_unit_test_setup_teardown (test_directory_of_others_stays, begin, end),
        cmocka_unit_test_setup_teardown (test_default_in_tmp, begin, end),
        cmocka_unit_test_setup_teardown (test_live_server_is_named, begin, end),
        cmocka_unit_test_setup_teardown (test_killed_server_is_taken_over, begin, end),
        cmocka_unit_test_setup_teardown (test_lock_file_removed_under_a_live_server, begin, end),
        cmocka_unit_test_setup_teardown (test_lock_file_replaced_meanwhile, begin, end),
        cmocka_unit_test_setup_teardown (test_race_has_one_holder, begin, end),
        cmocka_unit_test_setup_teardown (test_files_in_the_way_stay, begin, end),
        cmocka_unit_test_setup_teardown (test_live_socket_of_another_program, begin, end),
        cmocka_unit_test_setup_teardown (test_directories_that_others_may_write, begin, end),
        cmocka_unit_test_setup_teardown (test_directory_and_files_of_another_user, begin, end),
        cmocka_unit_test_setup_teardown (test_directory_is_missing_or_none, begin, end),
        cmocka_unit_test_setup_teardown (test_texts_that_are_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_folder_that_takes_no_file, begin, end),
        cmocka_unit_test_setup_teardown (test_path_of_a_socket_has_a_limit, begin, end),
        cmocka_unit_test_setup_teardown (test_tcp, begin, end),
        cmocka_unit_test_setup_teardown (test_access_that_cannot_be, begin, end),
        cmocka_unit_test_setup_teardown (test_group_of_others, begin, end),
        cmocka_unit_test_setup_teardown (test_group_gets_the_sockets, begin, end),
        cmocka_unit_test_setup_teardown (test_group_of_a_live_server_stays, begin, end),
        cmocka_unit_test_setup_teardown (test_without_a_group_nothing_is_shared, begin, end),
        cmocka_unit_test_setup_teardown (test_folder_of_the_group, begin, end),
        cmocka_unit_test_setup_teardown (test_share_with_faults, begin, end),
        cmocka_unit_test_setup_teardown (test_claim_with_faults, begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
