//  What a client believes at a path, by owners of folders, links and sockets, and by the user that listens.
//  Other users' files take root; without it those tests are skipped.
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "mapped_ring.h"
#include "trust.h"

enum { STRANGER = 3007, OWNER = 3008, HOLDER = 3011, RING_BYTES = 4096 };
#define HELD "/tmp/tureen-3011"

//  All users may write there, as in /tmp.
typedef struct {
    char folder [64];
    char path [160];                    //  the one that is looked at
} place_t;

static int
s_set_up (void **state)
{
    place_t *self = calloc (1, sizeof *self);
    assert_non_null (self);
    strcpy (self->folder, "/tmp/tureen-trust-XXXXXX");
    assert_non_null (mkdtemp (self->folder));
    assert_int_equal (chmod (self->folder, 01777), 0);
    *state = self;
    return 0;
}

static int
s_tear_down (void **state)
{
    place_t *self = *state;
    char command [128];
    snprintf (command, sizeof command, "rm -rf '%s'", self->folder);
    int rc = system (command);
    free (self);
    return rc;
}

static const char *
s_in (place_t *self, const char *name)
{
    snprintf (self->path, sizeof self->path, "%s/%s", self->folder, name);
    return self->path;
}

static void
s_make_folder (place_t *self, const char *name, mode_t mode, uid_t owner)
{
    assert_int_equal (mkdir (s_in (self, name), 0700), 0);
    assert_int_equal (chmod (self->path, mode), 0);
    assert_int_equal (chown (self->path, owner, (gid_t) -1), 0);
}

static void
s_make_file (place_t *self, const char *name, uid_t owner)
{
    int file = open (s_in (self, name), O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_true (file >= 0);
    assert_int_equal (fchown (file, owner, (gid_t) -1), 0);
    close (file);
}

static void
s_assert_trusted (place_t *self, const char *name, bool closed)
{
    message_error_t error = { "" };
    bool is_closed = !closed;
    if (!trust_path (s_in (self, name), &is_closed, &error))
        fail_msg ("%s: %s", name, error.text);
    assert_int_equal (is_closed, closed);
}

//  words: what the sentence has to have.
static void
s_assert_refused (place_t *self, const char *name, const char *words)
{
    message_error_t error = { "" };
    bool is_closed;
    assert_false (trust_path (s_in (self, name), &is_closed, &error));
    if (!strstr (error.text, words) || !strstr (error.text, self->path))
        fail_msg ("%s: '%s' lacks '%s'", name, error.text, words);
}

static void
s_need_root (void)
{
    if (geteuid () != 0) {
        print_message ("SKIPPED: other users' files need root\n");
        skip ();
    }
}

//  What does not exist is nothing to believe; only in an own folder that stays so.
static void
test_own_places (void **state)
{
    place_t *self = *state;
    s_assert_trusted (self, "s.sock", false);
    s_assert_trusted (self, "none/at/all/s.sock", false);
    s_make_folder (self, "own", 0755, geteuid ());
    s_assert_trusted (self, "own/s.sock", true);
    s_assert_trusted (self, "own/../own/./s.sock", true);
    s_assert_trusted (self, "own//s.sock", true);
    s_make_file (self, "own/s.sock", geteuid ());
    s_assert_trusted (self, "own/s.sock", true);
    assert_int_equal (symlink ("own", s_in (self, "link")), 0);
    s_assert_trusted (self, "link/s.sock", true);
    assert_int_equal (symlink ("loop", s_in (self, "loop")), 0);
    s_assert_trusted (self, "loop/s.sock", false);
    message_error_t error;
    bool is_closed;
    assert_true (trust_path ("@abstract", &is_closed, &error));
    assert_false (is_closed);
    assert_true (chdir (self->folder) == 0 && trust_path ("own/s.sock", &is_closed, &error) && is_closed);
    assert_int_equal (chdir ("/"), 0);
}

//  Where others can exchange the socket no server listens.
static void
test_a_folder_that_others_may_write (void **state)
{
    place_t *self = *state;
    s_make_folder (self, "open", 0777, geteuid ());
    s_assert_refused (self, "open/s.sock", "may write to the folder '");
    assert_int_equal (chmod (s_in (self, "open"), 0775), 0);
    s_assert_refused (self, "open/s.sock", "chmod go-w it");
    assert_int_equal (chmod (s_in (self, "open"), 01777), 0);
    s_assert_trusted (self, "open/s.sock", false);
    //  Another user can exchange an own folder there.
    assert_int_equal (chmod (s_in (self, "open"), 0777), 0);
    s_make_folder (self, "open/own", 0755, geteuid ());
    s_assert_trusted (self, "open/own/s.sock", false);
    //  A runtime folder has no reason to be sticky.
    s_make_folder (self, "login", 0700, geteuid ());
    setenv ("XDG_RUNTIME_DIR", s_in (self, "login"), 1);
    s_make_folder (self, "login/tureen", 01777, geteuid ());
    s_assert_refused (self, "login/tureen/server.sock", "may write to the folder '");
    unsetenv ("XDG_RUNTIME_DIR");
}

static void
test_what_a_stranger_made (void **state)
{
    place_t *self = *state;
    s_need_root ();
    s_make_folder (self, "folder", 0755, STRANGER);
    s_make_file (self, "folder/s.sock", STRANGER);
    s_assert_refused (self, "folder/s.sock", "folder' belongs to user 3007, and every user that may");
    s_make_file (self, "s.sock", STRANGER);
    s_assert_refused (self, "s.sock", "s.sock' belongs to user 3007");
    s_make_folder (self, "own", 0755, 0);
    assert_int_equal (symlink ("own", s_in (self, "link")), 0);
    assert_int_equal (lchown (self->path, STRANGER, (gid_t) -1), 0);
    s_assert_refused (self, "link/s.sock", "link' belongs to user 3007");
    //  A link of our own that leads to a stranger's folder.
    assert_int_equal (symlink ("../folder/none", s_in (self, "own/way")), 0);
    s_assert_refused (self, "own/way/s.sock", "folder' belongs to user 3007");
    //  Where only root can make names, they are the operator's word.
    assert_int_equal (chmod (self->folder, 0755), 0);
    s_assert_trusted (self, "folder/s.sock", true);
    //  A folder's owner may make names in it; all users without a number look like one.
    s_make_folder (self, "named", 01777, OWNER);
    s_make_file (self, "named/s.sock", OWNER);
    s_assert_trusted (self, "named/s.sock", false);
    assert_int_equal (chown (s_in (self, "named/s.sock"), 65534, (gid_t) -1), 0);
    assert_int_equal (chown (s_in (self, "named"), 65534, (gid_t) -1), 0);
    s_assert_refused (self, "named/s.sock", "s.sock' belongs to user 65534");
    //  All of it is a stranger's now.
    assert_int_equal (chown (self->folder, STRANGER, (gid_t) -1), 0);
    assert_int_equal (chmod (self->folder, 0775), 0);
    s_assert_refused (self, "folder/s.sock", "tureen-trust");
}

//  In a process of that user: looks for its server in /tmp.  0: trusted, and closed; 1: refused as a
//  stranger's.
static int
s_wait_as (uid_t user)
{
    int status;
    pid_t child = fork ();
    if (child == 0) {
        char path [80];
        message_error_t error = { "" };
        bool is_closed = false;
        umask (0);
        if (setuid (user))
            _exit (3);
        snprintf (path, sizeof path, "/tmp/tureen-%u/server.sock", (unsigned) user);
        _exit (!trust_path (path, &is_closed, &error)? 1 + !strstr (error.text, "belongs to user 3007"):
            is_closed? 0: 4);
    }
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_true (WIFEXITED (status));
    return WEXITSTATUS (status);
}

//  A client that waits for its server makes the default folder: no other user can any more.
static void
test_the_default_folder_is_held (void **state)
{
    (void) state;
    s_need_root ();
    struct stat folder;
    rmdir (HELD);                       //  of a run that was killed
    assert_int_equal (s_wait_as (HOLDER), 0);
    assert_int_equal (lstat (HELD, &folder), 0);
    assert_int_equal (folder.st_uid, HOLDER);
    assert_int_equal (folder.st_mode & 07777, 0700);
    assert_true (S_ISDIR (folder.st_mode));
    //  What is there is left as it is, and looked at.
    assert_int_equal (chmod (HELD, 0755), 0);
    assert_int_equal (s_wait_as (HOLDER), 0);
    assert_int_equal (lstat (HELD, &folder), 0);
    assert_int_equal (folder.st_mode & 07777, 0755);
    assert_int_equal (chown (HELD, STRANGER, (gid_t) -1), 0);
    assert_int_equal (s_wait_as (HOLDER), 1);
    assert_int_equal (rmdir (HELD), 0);
    //  Only the own one is made.
    message_error_t error;
    bool is_closed;
    assert_true (trust_path (HELD "/server.sock", &is_closed, &error));
    assert_int_equal (lstat (HELD, &folder), -1);
}

static void
s_assert_listener (const char *path, uid_t peer, bool trusted)
{
    message_error_t error = { "" };
    if (trust_listener (path, peer, &error) != trusted)
        fail_msg ("user %u at %s: %s", (unsigned) peer, path, error.text);
    if (!trusted)
        assert_non_null (strstr (error.text, "runs it, and is neither user"));
}

static void
test_who_listens (void **state)
{
    place_t *self = *state;
    s_make_folder (self, "own", 0755, geteuid ());
    s_assert_listener (s_in (self, "own/s.sock"), geteuid (), true);
    s_assert_listener (self->path, 0, true);
    s_assert_listener (self->path, STRANGER, false);
    s_assert_listener (s_in (self, "s.sock"), STRANGER, false);
    s_assert_listener ("@abstract", STRANGER, false);
    s_assert_listener ("@abstract", 0, true);
    s_need_root ();
    //  A server for several users, in a folder of its own user's, or in root's where root gave it the socket.
    s_make_folder (self, "own/named", 0755, OWNER);
    s_assert_listener (s_in (self, "own/named/s.sock"), OWNER, true);
    s_assert_listener (self->path, STRANGER, false);
    s_make_file (self, "own/s.sock", OWNER);
    s_assert_listener (self->path, OWNER, true);
    s_assert_listener (self->path, STRANGER, false);
}

static void
test_files_beside_the_socket (void **state)
{
    place_t *self = *state;
    assert_int_equal (trust_open (s_in (self, "none")), -ENOENT);
    assert_int_equal (mkfifo (s_in (self, "fifo"), 0600), 0);
    assert_int_equal (trust_open (self->path), -EPERM);
    assert_int_equal (symlink ("/etc/passwd", s_in (self, "link")), 0);
    assert_int_equal (trust_open (self->path), -ELOOP);
    s_make_file (self, "own", geteuid ());
    int file = trust_open (self->path);
    assert_true (file >= 0);
    close (file);
    s_need_root ();
    s_make_file (self, "strange", STRANGER);
    assert_int_equal (trust_open (self->path), -EPERM);
}

//  --------------------------------------------------------------------------

static int
s_bind (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true (listener >= 0);
    assert_int_equal (bind (listener, (struct sockaddr *) &address, sizeof address), 0);
    return listener;
}

//  A process of that user listens, and says how many bytes it is sent.  told: its pipe.
static pid_t
s_listen_as (int listener, uid_t user, int *told)
{
    int ends [2];
    char byte = 1;
    assert_int_equal (pipe (ends), 0);
    pid_t child = fork ();
    if (child == 0) {
        char token [64];
        if (setuid (user) || listen (listener, 1) || write (ends [1], &byte, 1) != 1)
            _exit (1);
        int connection = accept (listener, NULL, NULL);
        ssize_t got = recv (connection, token, sizeof token, 0);
        byte = (char) got;
        _exit (write (ends [1], &byte, 1) != 1);
    }
    close (ends [1]);
    assert_int_equal (read (ends [0], &byte, 1), 1);
    *told = ends [0];
    return child;
}

//  The token is worth a ring: only the server's user gets it.
static void
test_a_ring_of_a_stranger (void **state)
{
    place_t *self = *state;
    s_need_root ();
    char token [WIRE_TOKEN_BYTES + 1], got;
    memset (token, 't', WIRE_TOKEN_BYTES);
    token [WIRE_TOKEN_BYTES] = 0;
    for (int known = 0; known < 2; known++) {
        mapped_ring_t *ring;
        int told, status, listener = s_bind (s_in (self, "ring"));
        pid_t child = s_listen_as (listener, STRANGER, &told);
        close (listener);
        int rc = mapped_ring_new (&ring, self->path, known? STRANGER: OWNER, token, RING_BYTES, 10000);
        //  The known server gets the token, and ends without an answer.
        assert_int_equal (rc, known? -EPROTO: -EPERM);
        assert_null (ring);
        assert_int_equal (read (told, &got, 1), 1);
        assert_int_equal (got, known? WIRE_TOKEN_BYTES: 0);
        close (told);
        assert_int_equal (waitpid (child, &status, 0), child);
        assert_int_equal (status, 0);
        unlink (self->path);
    }
}

int
main (void)
{
    unsetenv ("XDG_RUNTIME_DIR");
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_own_places, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_folder_that_others_may_write, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_what_a_stranger_made, s_set_up, s_tear_down),
        cmocka_unit_test (test_the_default_folder_is_held),
        cmocka_unit_test_setup_teardown (test_who_listens, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_files_beside_the_socket, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_ring_of_a_stranger, s_set_up, s_tear_down)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
