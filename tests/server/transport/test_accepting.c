/*  ZeroMQ on an ipc socket when the process has no descriptor left: it waits, and serves again when there are
 *  some.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "scratch.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <zmq.h>

enum { CONNECTIONS = 40, PATIENCE_MS = 60000 };

//  Without the module libzmq ends the process here: it can be left out to see that.
static void
test_out_of_descriptors (void **state)
{
    (void) state;
    scratch_folder_t scratch;
    char path [100], text [110];
    assert_true (scratch_begin (&scratch));
    snprintf (path, sizeof path, "%s/s.sock", scratch.path);
    snprintf (text, sizeof text, "ipc://%s", path);
    void *context = zmq_ctx_new (), *router = zmq_socket (context, ZMQ_ROUTER);
    assert_int_equal (zmq_bind (router, text), 0);
    int connections [CONNECTIONS];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy (address.sun_path, path);
    for (int index = 0; index < CONNECTIONS; index++)
        assert_true ((connections [index] = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
    struct rlimit limit, few;
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t) connections [CONNECTIONS - 1] + 6;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &few), 0);
    for (int index = 0; index < CONNECTIONS; index++)
        assert_int_equal (connect (connections [index], (struct sockaddr *) &address, sizeof address),
            0);
    //  All descriptors are in use; then others come, and none is accepted.
    size_t full = scratch_descriptors ();
    for (int waited = 0; waited < 200 && scratch_descriptors () > 0; waited++)
        poll (NULL, 0, 1);
    assert_true (full == 0 || scratch_descriptors () <= few.rlim_cur + 3);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &limit), 0);
    for (int index = 0; index < CONNECTIONS; index++)
        close (connections [index]);
    void *dealer = zmq_socket (context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt (dealer, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal (zmq_connect (dealer, text), 0);
    assert_int_equal (zmq_send (dealer, "hello", 5, 0), 5);
    zmq_pollitem_t item = { .socket = router, .events = ZMQ_POLLIN };
    assert_int_equal (zmq_poll (&item, 1, PATIENCE_MS), 1);
    zmq_close (dealer);
    zmq_close (router);
    zmq_ctx_term (context);
    assert_true (scratch_end (&scratch));
}

int
main (void)
{
    const struct CMUnitTest tests [] = { cmocka_unit_test (test_out_of_descriptors) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
