/*  Access to the endpoint: users of a group, with folders and sockets of that group, and what cannot be
 *  guarded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "claims.h"

#include <grp.h>

static void
assert_mode (const char *path, gid_t gid, mode_t mode)
{
    struct stat status;
    assert_int_equal (lstat (path, &status), 0);
    if ((status.st_mode & 07777) != mode || status.st_gid != gid || status.st_uid != geteuid ())
        fail_msg ("%s: user %u, group %u, mode %04o; expected group %u, mode %04o", path, status.st_uid,
            status.st_gid, status.st_mode & 07777, gid, mode);
}

//  An endpoint that cannot be guarded, or that could serve no user, is refused before there is any file.
static void
test_access_that_cannot_be (void **state)
{
    claims_t *self = *state;
    endpoint_access_t users = { .users = true }, both = claims_group;
    claims_assert_refused_for (self->text, &claims_keys, -EACCES, "keys are for tcp", "take --keys out");
    claims_assert_refused_for (self->text, &users, -EACCES, "could not reach", "--group NAME");
    users.keys = true;
    claims_assert_refused_for ("tcp://127.0.0.1:5555", &users, -EACCES, "the user of a client at",
        "tureen key allow");
    both.keys = true;
    claims_assert_refused_for ("tcp://127.0.0.1:5555", &both, -EACCES, "group 'others'", "ipc:///PATH");
    if (getuid () == 0) {
        //  The scratch folder is ours alone, and the runtime folder is in it.
        assert_int_equal (chmod (self->scratch.path, 0700), 0);
        claims_assert_refused_for (NULL, &claims_group, -EACCES, "its owner's alone", self->scratch.path);
    }
    assert_int_equal (scratch_entries (self->scratch.path), 0);
}

//  Of a server's two endpoints each is claimed for all of its clients, and the files are those of ipc.
static void
test_one_of_two (void **state)
{
    claims_t *self = *state;
    endpoint_access_t access = { .keys = true, .is_one_of_two = true };
    endpoint_t *ipc = claims_claim_for (NULL, &access);
    assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
    access.users = true;
    access.group = "others";
    endpoint_t *tcp = claims_claim_for ("tcp://127.0.0.1:5555", &access);
    assert_string_equal (endpoint_text (tcp), "tcp://127.0.0.1:5555");
    assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
    endpoint_destroy (&tcp);
    assert_int_equal (scratch_entries (claims_in (self, "tureen")), 1);
    endpoint_destroy (&ipc);
    assert_int_equal (scratch_entries (self->scratch.path), 0);
    access.keys = false;
    claims_assert_refused_for ("tcp://127.0.0.1:5555", &access, -EACCES, "--keys DIR", "--open");
}

//  A process that is not root can give sockets to its own groups only.
static void
test_group_of_others (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    claims_open_the_way (self);
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
            assert_mode (claims_in (self, "tureen"), ours [index], 0750);
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
    claims_t *self = *state;
    claims_assert_refused ("ipc:///proc/s.sock", -ENOENT, "cannot make a file in the folder '/proc' (",
        "--listen ipc:///FOLDER/server.sock");
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    claims_open_the_way (self);
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

//  The group may enter the folder that we make, both sockets are the group's, and no other user may use them.
static void
test_group_gets_the_sockets (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    claims_open_the_way (self);
    mode_t mask = umask (0);
    char error [ERROR_BYTES];
    //  As it is made, and as an earlier server without a group has left it.
    for (int there = 0; there < 2; there++) {
        if (there)
            assert_int_equal (mkdir (claims_in (self, "tureen"), 0700), 0);
        endpoint_t *endpoint = claims_claim_for (NULL, &claims_group);
        assert_mode (claims_in (self, "tureen"), OTHERS, 0750);
        assert_mode (claims_in (self, "tureen/server.sock.lock"), getgid (), 0600);
        int router = claims_make_socket (claims_in (self, "tureen/server.sock"), true),
            ring_server = claims_make_socket (claims_in (self, "tureen/server.sock.ring"), true);
        assert_int_equal (endpoint_share (endpoint, error, sizeof error), 0);
        assert_mode (claims_in (self, "tureen/server.sock"), OTHERS, 0660);
        assert_mode (claims_in (self, "tureen/server.sock.ring"), OTHERS, 0660);
        endpoint_destroy (&endpoint);
        close (router);
        close (ring_server);
        assert_int_equal (scratch_entries (self->scratch.path), 0);
    }
    umask (mask);
}

//  A second server with another group leaves the folder of a live server's endpoint as it is.
static void
test_group_of_a_live_server_stays (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    claims_open_the_way (self);
    static const endpoint_access_t other = { .users = true, .group = "other", .group_id = 3 };
    endpoint_t *endpoint = claims_claim_for (NULL, &claims_group);
    int router = claims_make_socket (claims_in (self, "tureen/server.sock"), true);
    claims_assert_refused_for (NULL, &other, -EADDRINUSE, "a live server", "listen elsewhere");
    assert_mode (claims_in (self, "tureen"), OTHERS, 0750);
    //  Nor where something has removed its lock file.
    assert_int_equal (unlink (claims_in (self, "tureen/server.sock.lock")), 0);
    claims_assert_refused_for (NULL, &other, -EADDRINUSE, "a live server", "listen elsewhere");
    assert_mode (claims_in (self, "tureen"), OTHERS, 0750);
    //  So does one at another endpoint in the folder, as long as a server listens there.
    char text [140];
    snprintf (text, sizeof text, "ipc://%s", claims_in (self, "tureen/second.sock"));
    claims_assert_refused_for (text, &other, -EPERM, "is for group 65534, and", "take the same group");
    assert_mode (claims_in (self, "tureen"), OTHERS, 0750);
    endpoint_t *second = claims_claim_for (text, &claims_group);
    endpoint_destroy (&second);
    close (router);
    second = claims_claim_for (text, &other);
    assert_mode (claims_in (self, "tureen"), 3, 0750);
    endpoint_destroy (&second);
    assert_int_equal (unlink (claims_in (self, "tureen/server.sock")), 0);
    endpoint_destroy (&endpoint);
}

//  Without a group sockets stay as they are.
static void
test_without_a_group_nothing_is_shared (void **state)
{
    claims_t *self = *state;
    char error [ERROR_BYTES];
    endpoint_t *endpoint = claims_claim (NULL);
    int router = claims_make_socket (claims_in (self, "tureen/server.sock"), true);
    assert_int_equal (chmod (claims_in (self, "tureen/server.sock"), 0700), 0);
    assert_int_equal (endpoint_share (endpoint, error, sizeof error), 0);
    assert_mode (claims_in (self, "tureen"), getgid (), 0700);
    assert_mode (claims_in (self, "tureen/server.sock"), getgid (), 0700);
    close (router);
    endpoint_destroy (&endpoint);
}

//  A folder that is not ours to change must be right, and the sentence has the commands.
static void
test_folder_of_the_group (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    static const struct { gid_t gid; mode_t mode; bool good; } folders [] = {
        { OTHERS, 0750, true }, { OTHERS, 0710, true }, { OTHERS, 02750, true }, { OTHERS, 0755, false },
        { OTHERS, 0751, false },
        { OTHERS, 0700, false }, { OTHERS, 0740, false }, { OTHERS, 0770, false }, { OTHERS, 01777, false },
        { 3, 0750, false },
    };
    claims_open_the_way (self);
    char folder [120], text [140], chgrp [160], now [60];
    snprintf (folder, sizeof folder, "%s/d", self->scratch.path);
    snprintf (text, sizeof text, "ipc://%s/s.sock", folder);
    snprintf (chgrp, sizeof chgrp, "chgrp %d '%s' && chmod 0750", OTHERS, folder);
    assert_int_equal (mkdir (folder, 0700), 0);
    for (size_t index = 0; index < sizeof folders / sizeof folders [0]; index++) {
        bool written = folders [index].mode & 020 && !(folders [index].mode & S_ISVTX);
        assert_int_equal (chown (folder, 0, folders [index].gid), 0);
        assert_int_equal (chmod (folder, folders [index].mode), 0);
        snprintf (now, sizeof now, "(now: group %u, mode %04o)", folders [index].gid, folders [index].mode);
        if (folders [index].good) {
            endpoint_t *endpoint = claims_claim_for (text, &claims_group);
            endpoint_destroy (&endpoint);
        }
        else
            claims_assert_refused_for (text, &claims_group, -EPERM,
                written? "others may write": now, written? "chmod go-w": chgrp);
        assert_mode (folder, folders [index].gid, folders [index].mode);
        assert_int_equal (scratch_entries (folder), 0);
    }
    assert_int_equal (rmdir (folder), 0);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_folder_that_takes_no_file, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_access_that_cannot_be, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_one_of_two, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_group_of_others, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_group_gets_the_sockets, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_group_of_a_live_server_stays, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_without_a_group_nothing_is_shared, claims_begin, claims_end),
        cmocka_unit_test_setup_teardown (test_folder_of_the_group, claims_begin, claims_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
