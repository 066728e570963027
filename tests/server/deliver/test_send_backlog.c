/*  Answers that their clients have not read: how many bytes a connection and a tenant may leave so, and on
 *  how many connections.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "send_backlog.h"

enum { A = 1, B = 2, SHARE = 5 };

static peer_t
s_peer (uint32_t number)
{
    peer_t peer = { .size = 5 };
    memcpy (&peer.bytes [1], &number, sizeof number);
    return peer;
}

static atomic_size_t *
s_account (send_backlog_t *self, uint32_t number, uint32_t tenant, size_t share)
{
    peer_t peer = s_peer (number);
    return send_backlog_account (self, &peer, tenant, share);
}

//  Must hold: a connection gets answers while it has left less than the limit, and again when it has read.
static void
of_a_connection (void **state)
{
    (void) state;
    send_backlog_t *self = send_backlog_new ();
    assert_non_null (self);
    atomic_size_t *account = s_account (self, 1, A, SHARE);
    atomic_fetch_add (account, SEND_BACKLOG_OF_ONE_MAX - 1);
    assert_ptr_equal (s_account (self, 1, A, SHARE), account);
    atomic_fetch_add (account, 1);
    assert_null (s_account (self, 1, A, SHARE));
    atomic_size_t *other = s_account (self, 2, A, SHARE);
    assert_non_null (other);
    assert_ptr_not_equal (other, account);
    atomic_fetch_add (other, 7);
    assert_int_equal (send_backlog_bytes (self), SEND_BACKLOG_OF_ONE_MAX + 7);
    atomic_fetch_sub (account, 1);
    assert_ptr_equal (s_account (self, 1, A, SHARE), account);
    atomic_fetch_sub (account, SEND_BACKLOG_OF_ONE_MAX - 1);
    //  Nothing is left unread: the place is the next connection's.
    assert_ptr_equal (s_account (self, 3, B, SHARE), account);
    send_backlog_destroy (&self);
    assert_null (self);
}

//  Must hold: a tenant with its share of connections, or with all its bytes, gets no further one, and what it
//  has goes on; another tenant does not notice.
static void
of_a_tenant (void **state)
{
    (void) state;
    send_backlog_t *self = send_backlog_new ();
    atomic_size_t *accounts [SHARE];
    assert_non_null (self);
    for (uint32_t number = 0; number < SHARE; number++) {
        accounts [number] = s_account (self, number, A, SHARE);
        assert_non_null (accounts [number]);
        atomic_fetch_add (accounts [number], 1);
    }
    assert_null (s_account (self, SHARE, A, SHARE));
    assert_ptr_equal (s_account (self, 0, A, SHARE), accounts [0]);
    atomic_size_t *other = s_account (self, 100, B, SHARE);
    assert_non_null (other);
    atomic_fetch_add (other, 1);
    atomic_fetch_add (accounts [1], SEND_BACKLOG_OF_TENANT_MAX - SHARE - 1);
    assert_ptr_equal (s_account (self, 0, A, SHARE), accounts [0]);
    atomic_fetch_add (accounts [1], 1);
    assert_null (s_account (self, 0, A, SHARE));
    assert_ptr_equal (s_account (self, 100, B, SHARE), other);
    send_backlog_destroy (&self);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (of_a_connection),
        cmocka_unit_test (of_a_tenant),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
