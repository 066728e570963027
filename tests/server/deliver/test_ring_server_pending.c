/*  The ring server's pending connections: which clients may connect without a token yet, how many, for how
 *  long; and what a token is worth to another user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "ring_play.h"

#include <sys/resource.h>

//  Ten bytes and silence, or silence from the start: over when the patience is.
static void
test_half_token_hangs (void **state)
{
    ring_play_t *self = *state;
    int silent = ring_play_knock (self), half = ring_play_knock (self);
    ring_play_say (half, "0123456789", 10);
    ring_play_assert_quiet (self, NOW);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS - 1);
    assert_int_equal (ring_play_hear (silent), -2);
    assert_int_equal (ring_play_hear (half), -2);
    ring_server_tick (self->ring_server, NOW + RING_SERVER_PATIENCE_MS);
    assert_int_equal (ring_play_hear (silent), -1);
    assert_int_equal (ring_play_hear (half), -1);
    close (silent);
    close (half);
    ring_play_assert_quiet (self, NOW);
}

//  Patience is for pending connections: an attached client may be silent for ever.
static void
test_attached_client_stays (void **state)
{
    ring_play_t *self = *state;
    int fd = ring_play_attach (self, 7);
    ring_server_tick (self->ring_server, NOW + 1000 * (int64_t) RING_SERVER_PATIENCE_MS);
    assert_int_equal (ring_play_hear (fd), -2);
    ring_play_assert_quiet (self, NOW + 1000 * (int64_t) RING_SERVER_PATIENCE_MS);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  Many idle connections cost a bounded number of descriptors and do not keep a client out.
static void
test_pending_connections (void **state)
{
    ring_play_t *self = *state;
    enum { CONNECTIONS = 100 };
    int connections [CONNECTIONS];
    int attached = ring_play_attach (self, 7);
    size_t before = scratch_descriptors ();
    for (int index = 0; index < CONNECTIONS; index++) {
        connections [index] = ring_play_knock (self);
        ring_play_assert_quiet (self, NOW);
    }
    assert_int_equal (scratch_descriptors () - before, CONNECTIONS + RING_SERVER_PENDING_MAX);
    int fd = ring_play_attach (self, 8);
    assert_int_equal (ring_play_hear (attached), -2);
    for (int index = 0; index < CONNECTIONS; index++) {
        assert_int_equal (ring_play_hear (connections [index]),
            index <= CONNECTIONS - RING_SERVER_PENDING_MAX? -1: -2);
        close (connections [index]);
    }
    ring_play_assert_quiet (self, NOW);
    close (attached);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 8);
}

//  The server's own user; 0: the real one.
static uid_t s_own;

uid_t __real_geteuid (void);
uid_t __wrap_geteuid (void);
uid_t
__wrap_geteuid (void)
{
    return s_own? s_own: __real_geteuid ();
}

//  As another user: the effective one, which the kernel tells of the peer.
static int
knock_as (const ring_play_t *self, uid_t uid)
{
    assert_int_equal (seteuid (uid), 0);
    int fd = ring_play_knock (self);
    assert_int_equal (seteuid (0), 0);
    return fd;
}

//  Opens the socket to every user.
static void
open_the_way (const ring_play_t *self)
{
    assert_int_equal (chmod (self->path, 0666), 0);
    assert_int_equal (chmod (self->scratch.path, 0711), 0);
}

enum { ALICE = 65001, BOB = 65002, CAROL = 65003 };

static void
expect_of (const ring_play_t *self, uint64_t key, uid_t uid, char token [RING_SERVER_TOKEN_BYTES + 1])
{
    assert_int_equal (ring_server_expect (self->ring_server, key, uid, self->descriptor, NOW, token), 0);
}

//  A user that is not expected is sent away at once, and takes no place.
static void
test_user_that_is_not_expected (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 7, ALICE, token);
    int bob = knock_as (self, BOB), alice = knock_as (self, ALICE);
    ring_play_assert_quiet (self, NOW);
    assert_int_equal (ring_play_hear (bob), -1);
    assert_int_equal (ring_play_hear (alice), -2);
    ring_play_say (alice, token, RING_SERVER_TOKEN_BYTES);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    //  Her token is used: the next time there is nothing for her to fetch.
    int again = knock_as (self, ALICE);
    ring_play_assert_quiet (self, NOW);
    assert_int_equal (ring_play_hear (again), -1);
    close (again);
    close (bob);
    close (alice);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  A user that connects again and again pushes out only itself, however fast it is.
static void
test_connections_of_one_user (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { CONNECTIONS = 200 };
    open_the_way (self);
    char tokens [3] [RING_SERVER_TOKEN_BYTES + 1];
    static const uid_t users [] = { ALICE, BOB, CAROL };
    for (uint64_t key = 0; key < 3; key++)
        expect_of (self, key, users [key], tokens [key]);
    //  Bob and Carol stand there with half a token each, Alice comes; and some of her early ones are before
    //  them.
    int early = knock_as (self, ALICE), bob = knock_as (self, BOB), connections [CONNECTIONS];
    ring_play_say (bob, tokens [1], 10);
    for (int index = 0; index < CONNECTIONS / 2; index++) {
        connections [index] = knock_as (self, ALICE);
        ring_play_assert_quiet (self, NOW);
    }
    int carol = knock_as (self, CAROL);
    ring_play_say (carol, tokens [2], 10);
    for (int index = CONNECTIONS / 2; index < CONNECTIONS; index++) {
        connections [index] = knock_as (self, ALICE);
        ring_play_assert_quiet (self, NOW);
    }
    assert_int_equal (ring_play_hear (early), -1);
    for (int index = 0; index < CONNECTIONS; index++)
        assert_int_equal (ring_play_hear (connections [index]),
            index < CONNECTIONS - RING_SERVER_PENDING_MAX + 2? -1: -2);
    ring_play_say (bob, tokens [1] + 10, RING_SERVER_TOKEN_BYTES - 10);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 1);
    ring_play_say (carol, tokens [2] + 10, RING_SERVER_TOKEN_BYTES - 10);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 2);
    //  Hers is good still.
    ring_play_say (connections [CONNECTIONS - 1], tokens [0], RING_SERVER_TOKEN_BYTES);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 0);
    for (int index = 0; index < CONNECTIONS; index++)
        close (connections [index]);
    close (early);
    close (bob);
    close (carol);
    ring_server_forget (self->ring_server, 0);
    ring_server_forget (self->ring_server, 1);
    ring_server_forget (self->ring_server, 2);
    ring_play_assert_quiet (self, NOW);
}

//  Two users share the places as equals: neither has more than half of them when both want them.
static void
test_connections_of_two_users (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { CONNECTIONS = 100 };
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 1, ALICE, token);
    expect_of (self, 2, BOB, token);
    int fds [2] [CONNECTIONS], held [2] = { 0 };
    for (int index = 0; index < CONNECTIONS; index++)
        for (int which = 0; which < 2; which++) {
            fds [which] [index] = knock_as (self, which? BOB: ALICE);
            ring_play_assert_quiet (self, NOW);
        }
    for (int index = 0; index < CONNECTIONS; index++)
        for (int which = 0; which < 2; which++) {
            held [which] += ring_play_hear (fds [which] [index]) == -2;
            close (fds [which] [index]);
        }
    assert_int_equal (held [0], RING_SERVER_PENDING_MAX / 2);
    assert_int_equal (held [1], RING_SERVER_PENDING_MAX / 2);
    ring_play_assert_quiet (self, NOW);
}

//  The newcomer counts: at half each, a further one costs its own user a place, though the other's are older.
static void
test_connection_limit_at_the_balance (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    enum { HALF = RING_SERVER_PENDING_MAX / 2 };
    open_the_way (self);
    char token [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 1, ALICE, token);
    expect_of (self, 2, BOB, token);
    int fds [RING_SERVER_PENDING_MAX + 1];
    for (int index = 0; index <= RING_SERVER_PENDING_MAX; index++) {
        fds [index] = knock_as (self, index < HALF? BOB: ALICE);
        ring_play_assert_quiet (self, NOW);
    }
    for (int index = 0; index <= RING_SERVER_PENDING_MAX; index++) {
        assert_int_equal (ring_play_hear (fds [index]), index == HALF? -1: -2);
        close (fds [index]);
    }
    ring_play_assert_quiet (self, NOW);
}

//  A token is its user's, however another user has got it; and the thief does not use it up.
static void
test_stolen_token (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    char alices [RING_SERVER_TOKEN_BYTES + 1], bobs [RING_SERVER_TOKEN_BYTES + 1];
    expect_of (self, 7, ALICE, alices);
    expect_of (self, 8, BOB, bobs);
    for (int times = 0; times < 3; times++) {
        int thief = knock_as (self, BOB);       //  an expected user, with a token of its own
        ring_play_say (thief, alices, RING_SERVER_TOKEN_BYTES);
        ring_play_assert_quiet (self, NOW);
        assert_int_equal (ring_play_hear (thief), -1);
        close (thief);
    }
    int alice = knock_as (self, ALICE), bob = knock_as (self, BOB);
    ring_play_say (alice, alices, RING_SERVER_TOKEN_BYTES);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    ring_play_assert_handed (self, alice);
    ring_play_say (bob, bobs, RING_SERVER_TOKEN_BYTES);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 8);
    ring_server_forget (self->ring_server, 7);
    ring_server_forget (self->ring_server, 8);
    close (alice);
    close (bob);
}

//  Must hold: the server's own user may bring any user's token, and comes to the socket without one; also
//  where it is not root, as which this test runs.
static void
test_the_servers_own_user (void **state)
{
    ring_play_t *self = *state;
    if (getuid () != 0)
        skip ();                    //  takes root to become another user
    open_the_way (self);
    s_own = CAROL;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    int early = knock_as (self, CAROL), bob = knock_as (self, BOB);
    ring_play_assert_quiet (self, NOW);
    assert_int_equal (ring_play_hear (early), -2);
    assert_int_equal (ring_play_hear (bob), -1);
    expect_of (self, 7, ALICE, token);
    ring_play_say (early, token, RING_SERVER_TOKEN_BYTES);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 7);
    ring_play_assert_handed (self, early);
    s_own = 0;
    close (bob);
    close (early);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
}

//  No descriptor for a newcomer: the ring server pauses instead of spinning, and accepts again with the tick.
static void
test_out_of_descriptors (void **state)
{
    ring_play_t *self = *state;
    char token [RING_SERVER_TOKEN_BYTES + 1];
    struct rlimit limit, none;
    int attached = ring_play_attach (self, 7);
    ring_play_expect (self, 8, token);
    int fd = ring_play_knock_with (self, token);
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = (rlim_t) fd + 1;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    for (int round = 0; round < 3; round++) {
        ring_play_assert_quiet (self, NOW);
        ring_server_tick (self->ring_server, NOW);
    }
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    ring_play_assert_event (self, NOW, RING_SERVER_ATTACHED, 8);
    ring_play_assert_handed (self, fd);
    //  Attached clients are heard while the ring server pauses.
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    close (attached);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 7);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    close (fd);
    ring_play_assert_event (self, NOW, RING_SERVER_CLOSED, 8);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_half_token_hangs, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_attached_client_stays, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_pending_connections, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_user_that_is_not_expected, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_connections_of_one_user, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_connections_of_two_users, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_connection_limit_at_the_balance, ring_play_begin,
            ring_play_end),
        cmocka_unit_test_setup_teardown (test_stolen_token, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_the_servers_own_user, ring_play_begin, ring_play_end),
        cmocka_unit_test_setup_teardown (test_out_of_descriptors, ring_play_begin, ring_play_end),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
