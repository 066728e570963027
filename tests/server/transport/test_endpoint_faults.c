/*  The endpoint where a call of the system fails: a code, a sentence, nothing left behind, and nothing more
 *  open than it was to be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "claims.h"

#include <sys/file.h>

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
FAULT_CALL (int, -1, open, (const char *path, int flags, mode_t mode), (path, flags, mode))


//  -- what every case ends with

static int
end (void **state)
{
    fault_disarm ();
    return claims_end (state);
}


//  -- faults

//  Each call fails in turn: a code, a sentence, and nothing left behind.
static void
test_claim_with_faults (void **state)
{
    claims_t *self = *state;
    const char *texts [] = { self->text, NULL, "tcp://localhost:5555", NULL };
    const endpoint_access_t *accesses [] = { NULL, NULL, &claims_all_users,
        getuid () == 0? &claims_group: NULL };
    claims_open_the_way (self);
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
            assert_true (fault_has_words (error));
            endpoint_destroy (&endpoint);
            if (scratch_entries (self->scratch.path) != 0)
                fail_msg ("%s: the %u. call leaves something behind", texts [which]? texts [which]: "default",
                    nth);
        }
        assert_true (nth > 9);
    }
}

//  Each call of sharing fails in turn: a sentence, and the sockets are never more open than they were to be.
static void
test_share_with_faults (void **state)
{
    claims_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to give files to any group
    claims_open_the_way (self);
    endpoint_t *endpoint = claims_claim_for (NULL, &claims_group);
    const char *names [] = { "tureen/server.sock", "tureen/server.sock.ring" };
    int fds [2];
    for (int which = 0; which < 2; which++)
        fds [which] = claims_make_socket (claims_in (self, names [which]), true);
    bool struck = true;
    unsigned int nth = 0;
    while (struck) {
        char error [ERROR_BYTES] = "";
        for (int which = 0; which < 2; which++) {
            assert_int_equal (chmod (claims_in (self, names [which]), 0700), 0);
            assert_int_equal (lchown (claims_in (self, names [which]), 0, 0), 0);
        }
        fault_arm (++nth, EIO, false);
        int rc = endpoint_share (endpoint, error, sizeof error);
        struck = fault_disarm ();
        assert_int_equal (rc, struck? -EIO: 0);
        assert_int_equal (error [0] != 0, struck);
        assert_int_equal (strstr (error, strerror (EIO)) != NULL, struck);
        for (int which = 0; which < 2; which++) {
            struct stat status;
            assert_int_equal (lstat (claims_in (self, names [which]), &status), 0);
            assert_int_equal (status.st_mode & 07, 0);
            assert_true (status.st_gid == OTHERS || !(status.st_mode & 070));
        }
    }
    assert_int_equal (nth, 7);
    endpoint_destroy (&endpoint);
    close (fds [0]);
    close (fds [1]);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_share_with_faults, claims_begin, end),
        cmocka_unit_test_setup_teardown (test_claim_with_faults, claims_begin, end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
