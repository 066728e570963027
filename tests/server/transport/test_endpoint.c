/*  The endpoint: one server at a time, whichever dies; nothing of another's is removed; nothing of ours is
 *  left.  (Access: test_endpoint_access.c.  Calls that fail: test_endpoint_faults.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "claims.h"
#include "effort.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { RACERS = 4, WINS = EFFORT (200) };

//  The lock file is removed and another put in its place just before it is locked: a server that ends does
//  the first, one that starts the second.
static unsigned int replacements;

//  Another server locks the file that was just made, before its maker does.
static bool rival_is_due;
static int rival_fd = -1;

int __real_open (const char *path, int flags, mode_t mode);
int __wrap_open (const char *path, int flags, mode_t mode);
int
__wrap_open (const char *path, int flags, mode_t mode)
{
    int fd = __real_open (path, flags, mode);
    if (fd >= 0 && rival_is_due) {
        rival_is_due = false;
        rival_fd = __real_open (path, O_RDWR | O_CLOEXEC, 0);
        assert_int_equal (flock (rival_fd, LOCK_EX | LOCK_NB), 0);
    }
    if (fd >= 0 && replacements) {
        replacements--;
        unlink (path);
        if (replacements % 2)
            close (__real_open (path, flags, mode));
    }
    return fd;
}

//  Whether a file that was removed while this is watched could be locked by another then.
static bool is_watched, was_free;
static bool is_kept;                    //  as on a file system that has become read-only

int __real_unlink (const char *path);
int __wrap_unlink (const char *path);
int
__wrap_unlink (const char *path)
{
    if (is_kept) {
        errno = EROFS;
        return -1;
    }
    int fd = is_watched? __real_open (path, O_RDWR | O_CLOEXEC, 0): -1;
    if (fd >= 0) {
        was_free |= flock (fd, LOCK_EX | LOCK_NB) == 0;
        close (fd);
    }
    return __real_unlink (path);
}

static int
begin (void **state)
{
    replacements = 0;
    return claims_begin (state);
}


//  -- the default

static void
test_default_in_the_runtime_directory (void **state)
{
    claims_t *self = *state;
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
    claims_t *self = *state;
    char text [200], expected [200];
    snprintf (expected, sizeof expected, "ipc:///tmp/tureen-%u/server.sock", getuid ());
    claims_make_file (claims_in (self, "file"), "");
    static const char *const unusable [] = { "", "relative", ".", "/nowhere/at/all" };
    for (size_t index = 0; index < 4; index++) {
        setenv ("XDG_RUNTIME_DIR", unusable [index], 1);
        assert_int_equal (endpoint_default (text, sizeof text), 0);
        assert_string_equal (text, expected);
    }
    setenv ("XDG_RUNTIME_DIR", claims_in (self, "file"), 1);
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
    claims_t *self = *state;
    mode_t mask = umask (0);
    endpoint_t *endpoint = claims_claim (NULL);
    umask (mask);
    struct stat status;
    assert_int_equal (lstat (claims_in (self, "tureen"), &status), 0);
    assert_int_equal (status.st_mode & 07777, 0700);
    assert_int_equal (lstat (claims_in (self, "tureen/server.sock.lock"), &status), 0);
    assert_int_equal (status.st_mode & 07777, 0600);
    char expected [200], text [40] = "";
    FILE *file = fopen (claims_in (self, "tureen/server.sock.lock"), "r");
    assert_non_null (fgets (text, sizeof text, file));
    fclose (file);
    assert_int_equal (atol (text), getpid ());
    endpoint_default (expected, sizeof expected);
    assert_string_equal (endpoint_text (endpoint), expected);
    assert_string_equal (endpoint_ring_path (endpoint), claims_in (self, "tureen/server.sock.ring"));
    close (claims_make_socket (claims_in (self, "tureen/server.sock"), true));
    close (claims_make_socket (endpoint_ring_path (endpoint), true));
    endpoint_destroy (&endpoint);
    assert_null (endpoint);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);

    //  Written out it is the same place, and made as well.
    endpoint = claims_claim (expected);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  The runtime folder goes with the last server, whichever server made it (perhaps one that was killed), but
//  not if it is not empty.
static void
test_directory_of_others_stays (void **state)
{
    claims_t *self = *state;
    assert_int_equal (mkdir (claims_in (self, "tureen"), 0755), 0);
    endpoint_t *endpoint = claims_claim (NULL);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    endpoint = claims_claim (NULL);
    claims_make_file (claims_in (self, "tureen/notes"), "");
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
}

//  In /tmp, unless that folder is in use.
static void
test_default_in_tmp (void **state)
{
    (void) state;
    char directory [40], link [60];
    struct stat status;
    snprintf (directory, sizeof directory, "/tmp/tureen-%u", getuid ());
    if (rmdir (directory) != 0 && errno != ENOENT)
        skip ();
    unsetenv ("XDG_RUNTIME_DIR");
    endpoint_t *endpoint = claims_claim (NULL);
    assert_int_equal (lstat (directory, &status), 0);
    assert_int_equal (status.st_mode & 07777, 0700);
    //  It stays: clients that wait for the next server look there.
    endpoint_destroy (&endpoint);
    assert_int_equal (rmdir (directory), 0);
    //  A link there may lead anywhere.
    snprintf (link, sizeof link, "%s.elsewhere", directory);
    assert_int_equal (mkdir (link, 0700), 0);
    assert_int_equal (symlink (link, directory), 0);
    claims_assert_refused (NULL, -ENOTDIR, "a link", "remove it");
    assert_int_equal (unlink (directory), 0);
    assert_int_equal (rmdir (link), 0);
}


//  -- one server at a time

static void
test_live_server_is_named (void **state)
{
    claims_t *self = *state;
    char process [40];
    snprintf (process, sizeof process, "(process %d)", getpid ());
    endpoint_t *endpoint = claims_claim (self->text);
    int fd = claims_make_socket (self->socket, true);
    claims_assert_refused (self->text, -EADDRINUSE, process, "stop it");
    assert_int_equal (access (self->socket, F_OK), 0);
    claims_make_file (claims_in (self, "s.sock.lock"), "nonsense");
    claims_assert_refused (self->text, -EADDRINUSE, "a live server listens", "stop it");
    close (fd);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    endpoint = claims_claim (self->text);
    endpoint_destroy (&endpoint);
}

//  A server is killed: its lock file and sockets are there, and are taken over.
static void
test_killed_server_is_taken_over (void **state)
{
    claims_t *self = *state;
    int pipes [2];
    assert_int_equal (pipe2 (pipes, O_CLOEXEC), 0);
    pid_t child = fork ();
    if (child == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);      //  also if this test fails
        endpoint_t *endpoint;
        char error [ERROR_BYTES];
        if (endpoint_claim (&endpoint, self->text, NULL, error, sizeof error))
            _exit (1);
        claims_make_socket (self->socket, true);
        claims_make_socket (endpoint_ring_path (endpoint), true);
        if (write (pipes [1], "r", 1) != 1)
            _exit (1);
        pause ();
    }
    char byte, process [40];
    assert_int_equal (read (pipes [0], &byte, 1), 1);
    close (pipes [0]);
    close (pipes [1]);
    snprintf (process, sizeof process, "(process %d)", child);
    claims_assert_refused (self->text, -EADDRINUSE, process, "stop it");
    kill (child, SIGKILL);
    waitpid (child, NULL, 0);
    assert_int_equal (scratch_entries (self->scratch.path), 3);
    endpoint_t *endpoint = claims_claim (self->text);
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  The lock file is gone (something cleans /tmp) but the server lives: it is not taken over, its files are
//  left, and when it ends it does not remove what a later server has made.
static void
test_lock_file_removed_under_a_live_server (void **state)
{
    claims_t *self = *state;
    endpoint_t *endpoint = claims_claim (self->text);
    int fd = claims_make_socket (self->socket, true);
    assert_int_equal (unlink (claims_in (self, "s.sock.lock")), 0);
    char process [40];
    snprintf (process, sizeof process, "(process %d)", getpid ());
    claims_assert_refused (self->text, -EADDRINUSE, process, "stop it");
    assert_int_equal (access (self->socket, F_OK), 0);
    close (fd);
    endpoint_t *later = claims_claim (self->text);
    claims_make_socket (self->socket, false);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 2);
    endpoint_destroy (&later);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  What is locked is not what is found at the path: try again.
static void
test_lock_file_replaced_meanwhile (void **state)
{
    claims_t *self = *state;
    replacements = 7;
    endpoint_t *endpoint = claims_claim (self->text);
    assert_int_equal (replacements, 0);
    claims_assert_refused (self->text, -EADDRINUSE, "live server", "stop it");
    endpoint_destroy (&endpoint);
    replacements = 1000000;
    claims_assert_refused (self->text, -EAGAIN, "keeps changing", "find the program");
    replacements = 0;
    unlink (claims_in (self, "s.sock.lock"));
}

//  A lock file that another server has locked first is that server's, also where we made it.
static void
test_lock_file_locked_by_another_first (void **state)
{
    claims_t *self = *state;
    rival_is_due = true;
    claims_assert_refused (self->text, -EADDRINUSE, "live server", "stop it");
    assert_false (rival_is_due);
    assert_int_equal (access (claims_in (self, "s.sock.lock"), F_OK), 0);
    close (rival_fd);
    endpoint_t *endpoint = claims_claim (self->text);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  No other server can lock the lock file while its owner removes it.
static void
test_lock_is_held_until_its_file_is_gone (void **state)
{
    claims_t *self = *state;
    endpoint_t *endpoint = claims_claim (self->text);
    was_free = false;
    is_watched = true;
    endpoint_destroy (&endpoint);
    is_watched = false;
    assert_false (was_free);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  One of several processes that claim and release without rest, until each has won often enough.  In the
//  shared number is the process that holds.
static bool
race (const char *text, int *holder)
{
    char error [ERROR_BYTES];
    for (int wins = 0; wins < WINS; ) {
        endpoint_t *endpoint;
        int rc = endpoint_claim (&endpoint, text, NULL, error, sizeof error), none = 0, me = getpid ();
        if (rc == -EADDRINUSE)
            continue;
        if (rc != 0 || !__atomic_compare_exchange_n (holder, &none, me, 0, __ATOMIC_SEQ_CST,
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
    claims_t *self = *state;
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
        //  The process that made the directory may have found another's lock file in it; then it stays,
        //  empty.
        rmdir (claims_in (self, "tureen"));
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    munmap (holder, 4096);
}


//  -- others' files and directories

//  Binding would remove what is at the path: only sockets may be there.
static void
test_files_in_the_way_stay (void **state)
{
    claims_t *self = *state;
    claims_make_file (self->socket, "precious");
    claims_assert_refused (self->text, -EEXIST, "no socket", "remove it");
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    assert_int_equal (unlink (self->socket), 0);
    claims_make_file (claims_in (self, "s.sock.ring"), "precious");
    claims_make_socket (self->socket, false);
    claims_assert_refused (self->text, -EEXIST, "s.sock.ring", "remove it");
    assert_int_equal (access (claims_in (self, "s.sock.ring"), F_OK), 0);
    assert_int_equal (unlink (claims_in (self, "s.sock.ring")), 0);
    claims_make_socket (self->socket, false);
    is_kept = true;
    claims_assert_refused (self->text, -EROFS, "s.sock' (Read-only", "remove it");
    is_kept = false;
    assert_int_equal (unlink (claims_in (self, "s.sock.lock")), 0);
    assert_int_equal (mkdir (claims_in (self, "s.sock.lock"), 0700), 0);
    claims_assert_refused (self->text, -EISDIR, "s.sock.lock' (Is a directory)", "remove it");
    assert_int_equal (rmdir (claims_in (self, "s.sock.lock")), 0);
    assert_int_equal (symlink ("/etc/passwd", claims_in (self, "s.sock.lock")), 0);
    claims_assert_refused (self->text, -ELOOP, "s.sock.lock' (Too many", "remove it");
    assert_int_equal (unlink (claims_in (self, "s.sock.lock")), 0);
    claims_make_file (claims_in (self, "precious"), "precious");
    char target [120];
    strcpy (target, claims_in (self, "precious"));
    assert_int_equal (link (target, claims_in (self, "s.sock.lock")), 0);
    claims_assert_refused (self->text, -EPERM, "s.sock.lock", "remove it");
    struct stat status;
    assert_int_equal (stat (target, &status), 0);
    assert_int_equal (status.st_size, strlen ("precious"));
    assert_int_equal (unlink (claims_in (self, "s.sock.lock")), 0);
    assert_int_equal (mkfifo (claims_in (self, "s.sock.lock"), 0600), 0);
    claims_assert_refused (self->text, -EPERM, "s.sock.lock", "remove it");
}

//  Another program's socket, which never heard of our lock, is left alone.
static void
test_live_socket_of_another_program (void **state)
{
    claims_t *self = *state;
    int fd = claims_make_socket (claims_in (self, "s.sock.ring"), true);
    claims_assert_refused (self->text, -EADDRINUSE, "live server", "listen elsewhere");
    assert_int_equal (scratch_entries (self->scratch.path), 1);
    close (fd);
}

//  One that is so busy that its queue of connections is full lives.
static void
test_live_socket_with_a_full_queue (void **state)
{
    enum { MOST = 16 };
    claims_t *self = *state;
    int fd = claims_make_socket (self->socket, true), waiting [MOST], count = 0, rc = 0;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, self->socket);
    while (rc == 0 && count < MOST) {
        waiting [count] = socket (AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        rc = connect (waiting [count++], (struct sockaddr *) &address, sizeof address);
    }
    assert_true (rc != 0 && errno == EAGAIN);
    claims_assert_refused (self->text, -EADDRINUSE, "live server", "listen elsewhere");
    assert_int_equal (access (self->socket, F_OK), 0);
    while (count > 0)
        close (waiting [--count]);
    close (fd);
}

static void
test_directories_that_others_may_write (void **state)
{
    claims_t *self = *state;
    static const mode_t refused [] = { 0770, 0777, 0702 }, taken [] = { 0700, 0750, 0755, 01777, 01770 };
    for (size_t index = 0; index < 3; index++) {
        assert_int_equal (chmod (self->scratch.path, refused [index]), 0);
        claims_assert_refused (self->text, -EPERM, "others may write", "chmod go-w");
    }
    for (size_t index = 0; index < 5; index++) {
        assert_int_equal (chmod (self->scratch.path, taken [index]), 0);
        endpoint_t *endpoint = claims_claim (self->text);
        endpoint_destroy (&endpoint);
    }
    //  The directory that we make ourselves may not even be sticky.
    assert_int_equal (chmod (self->scratch.path, 0700), 0);
    assert_int_equal (mkdir (claims_in (self, "tureen"), 0700), 0);
    assert_int_equal (chmod (claims_in (self, "tureen"), 01777), 0);
    claims_assert_refused (NULL, -EPERM, "others may write", "chmod go-w");
}

static void
test_directory_and_files_of_another_user (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to make them
    assert_int_equal (mkdir (claims_in (self, "tureen"), 0700), 0);
    assert_int_equal (chown (claims_in (self, "tureen"), 65534, 65534), 0);
    claims_assert_refused (NULL, -EPERM, "belongs to user 65534", "your own");
    assert_int_equal (chmod (self->scratch.path, 01777), 0);
    claims_make_socket (self->socket, false);
    assert_int_equal (chown (self->socket, 65534, 65534), 0);
    claims_assert_refused (self->text, -EPERM, "belongs to user 65534", "listen elsewhere");
    assert_int_equal (access (self->socket, F_OK), 0);
    claims_make_file (claims_in (self, "s.sock.lock"), "");
    assert_int_equal (chown (claims_in (self, "s.sock.lock"), 65534, 65534), 0);
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
    claims_t *self = *state;
    char text [200];
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, "missing/s.sock"));
    claims_assert_refused (text, -ENOENT, "missing", "make it");
    claims_make_file (claims_in (self, "file"), "");
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, "file/s.sock"));
    claims_assert_refused (text, -ENOTDIR, "not a folder", "remove it");
    claims_make_file (claims_in (self, "tureen"), "");
    claims_assert_refused (NULL, -ENOTDIR, "not a folder", "remove it");
    assert_int_equal (symlink ("loop", claims_in (self, "loop")), 0);
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, "loop/s.sock"));
    claims_assert_refused (text, -ELOOP, "/loop' (Too many", "listen elsewhere");
    //  By a link to a good directory of one's own choice: fine.
    assert_int_equal (mkdir (claims_in (self, "real"), 0700), 0);
    assert_int_equal (symlink ("real", claims_in (self, "link")), 0);
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, "link/s.sock"));
    endpoint_t *endpoint = claims_claim (text);
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
        { "ipc:///tmp/x, tcp://127.0.0.1:5555", -EINVAL, "looks like two", "without a blank" },
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
        claims_assert_refused (bad [index].text, bad [index].code, bad [index].what, bad [index].remedy);
}

//  The longest path that fits with its ".ring" works in a real bind; a byte more is refused with both
//  figures.
static void
test_path_of_a_socket_has_a_limit (void **state)
{
    claims_t *self = *state;
    char text [200];
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, ""));
    size_t length = strlen (text);
    memset (text + length, 'x', sizeof text - length);
    text [6 + 102] = 0;
    endpoint_t *endpoint = claims_claim (text);
    assert_int_equal (strlen (endpoint_ring_path (endpoint)), 107);
    claims_make_socket (text + 6, false);
    claims_make_socket (endpoint_ring_path (endpoint), false);
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    text [6 + 102] = 'x';
    text [6 + 103] = 0;
    claims_assert_refused (text, -ENAMETOOLONG, "103 bytes and may have 102", "ipc:///tmp/tureen-");
    claims_assert_refused (text, -ENAMETOOLONG, "most 107", "shorter one");

    //  The same by way of the runtime directory.
    char directory [120];
    strcpy (directory, claims_in (self, ""));
    length = strlen (directory);
    memset (directory + length, 'y', sizeof directory - length);
    directory [100] = 0;
    assert_int_equal (mkdir (directory, 0700), 0);
    setenv ("XDG_RUNTIME_DIR", directory, 1);
    claims_assert_refused (NULL, -ENAMETOOLONG, "at most 107", "shorter one");
    claims_assert_refused_for ("tcp://127.0.0.1:5555", &claims_all_users, -ENAMETOOLONG, "XDG_RUNTIME_DIR",
        "unset it");
    assert_int_equal (scratch_entries (directory), 0);
}

//  tcp: files in the runtime directory, one server a port; open only where it is surely this host alone, else
//  with keys.
static void
test_tcp (void **state)
{
    claims_t *self = *state;
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
        claims_assert_refused (text, -EACCES, good [index / 2].remote? "--keys DIR": "--open", "--keys");
        if (good [index / 2].remote && !with_keys) {
            claims_assert_refused_for (text, &claims_all_users, -EACCES, "other machines", "--keys DIR");
            assert_int_equal (scratch_entries (self->scratch.path), 0);
            continue;
        }
        endpoint_t *endpoint = claims_claim_for (text, with_keys? &claims_keys: &claims_all_users);
        assert_string_equal (endpoint_text (endpoint), bound? bound: text);
        assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
        endpoint_destroy (&endpoint);
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    endpoint_t *endpoint = claims_claim_for ("tcp://127.0.0.1:5555", &claims_all_users),
        *other = claims_claim_for ("tcp://127.0.0.1:5556", &claims_keys);
    assert_string_equal (endpoint_ring_path (endpoint), claims_in (self, "tureen/tcp-5555.ring"));
    assert_int_equal (access (claims_in (self, "tureen/tcp-5555.lock"), F_OK), 0);
    claims_assert_refused_for ("tcp://localhost:5555", &claims_all_users, -EADDRINUSE, "live server",
        "stop it");
    endpoint_destroy (&endpoint);
    assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
    endpoint_destroy (&other);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_default_in_the_runtime_directory, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_default_without_a_runtime_directory, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_default_is_claimed_and_released, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_directory_of_others_stays, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_default_in_tmp, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_live_server_is_named, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_killed_server_is_taken_over, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_lock_file_removed_under_a_live_server, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_lock_file_replaced_meanwhile, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_lock_file_locked_by_another_first, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_lock_is_held_until_its_file_is_gone, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_race_has_one_holder, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_files_in_the_way_stay, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_live_socket_of_another_program, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_live_socket_with_a_full_queue, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_directories_that_others_may_write, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_directory_and_files_of_another_user, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_directory_is_missing_or_none, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_texts_that_are_refused, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_path_of_a_socket_has_a_limit, begin, claims_end),
        cmocka_unit_test_setup_teardown (test_tcp, begin, claims_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
