/*  The ledger beside ZeroMQ itself: every byte that was received is taken again, and who sends without an end is cut off.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>
#include "effort.h"
#include "ledger.h"
#include "scratch.h"
#include "seed.h"

enum { MIB = 1 << 20, PATIENCE_MS = 60000, MESSAGES = 400, FRAMES_MAX = 12, FRAME_MAX = 100000, HANDS_BYTES = 2000 };

typedef struct {
    scratch_t scratch;
    char path [100], text [110];
    void *context, *router;
    bool is_curve;
    char server_public [41], server_secret [41], public [41], secret [41];
} scene_t;

static void
s_begin (scene_t *self, bool is_tcp, bool is_curve)
{
    int one = 1;
    *self = (scene_t) { .is_curve = is_curve };
    assert_true (scratch_begin (&self->scratch));
    snprintf (self->path, sizeof self->path, "%s/s.sock", self->scratch.path);
    snprintf (self->text, sizeof self->text, "ipc://%s", self->path);
    self->context = zmq_ctx_new ();
    self->router = zmq_socket (self->context, ZMQ_ROUTER);
    if (is_curve) {
        zmq_curve_keypair (self->server_public, self->server_secret);
        zmq_curve_keypair (self->public, self->secret);
        zmq_setsockopt (self->router, ZMQ_CURVE_SERVER, &one, sizeof one);
        zmq_setsockopt (self->router, ZMQ_CURVE_SECRETKEY, self->server_secret, 41);
    }
    assert_int_equal (zmq_bind (self->router, is_tcp? "tcp://127.0.0.1:*": self->text), 0);
    size_t size = sizeof self->text;
    assert_int_equal (zmq_getsockopt (self->router, ZMQ_LAST_ENDPOINT, self->text, &size), 0);
    assert_int_equal (ledger_bytes (), 0);
}

static void
s_end (scene_t *self)
{
    zmq_close (self->router);
    zmq_ctx_term (self->context);
    assert_int_equal (ledger_bytes (), 0);              //  all are closed
    assert_true (scratch_end (&self->scratch));
    ledger_set_limits (LEDGER_CONNECTION_MAX, LEDGER_USER_MAX);
}

static void *
s_dealer (const scene_t *self)
{
    int none = 0;
    void *dealer = zmq_socket (self->context, ZMQ_DEALER);
    zmq_setsockopt (dealer, ZMQ_LINGER, &none, sizeof none);
    if (self->is_curve) {
        zmq_setsockopt (dealer, ZMQ_CURVE_SERVERKEY, self->server_public, 41);
        zmq_setsockopt (dealer, ZMQ_CURVE_PUBLICKEY, self->public, 41);
        zmq_setsockopt (dealer, ZMQ_CURVE_SECRETKEY, self->secret, 41);
    }
    assert_int_equal (zmq_connect (dealer, self->text), 0);
    return dealer;
}

//  Takes a message as the server does.  False: none within the time.
static bool
s_take (const scene_t *self, int patience_ms)
{
    zmq_pollitem_t item = { .socket = self->router, .events = ZMQ_POLLIN };
    if (zmq_poll (&item, 1, patience_ms) < 1)
        return false;
    size_t bytes = 0;
    int fd = -1;
    bool more = true;
    for (size_t frame = 0; more; frame++) {
        zmq_msg_t message;
        zmq_msg_init (&message);
        assert_true (zmq_msg_recv (&message, self->router, 0) >= 0);
        bytes += frame > 0? ledger_frame_bytes (zmq_msg_size (&message), self->is_curve): 0;
        fd = frame == 1? zmq_msg_get (&message, ZMQ_SRCFD): fd;
        more = zmq_msg_more (&message);
        zmq_msg_close (&message);
    }
    assert_true (fd >= 0);
    ledger_taken (fd, bytes);
    return true;
}

static size_t
s_some_size (uint64_t *random)
{
    static const size_t edges [] = { 0, 1, 200, 221, 222, 223, 224, 254, 255, 256, 8191, 8192 };
    return test_below (random, 2)? edges [test_below (random, sizeof edges / sizeof *edges)]: test_below (random, FRAME_MAX);
}

static void
s_send (void *dealer, uint64_t *random)
{
    static uint8_t bytes [FRAME_MAX];
    size_t frames = 1 + test_below (random, FRAMES_MAX);
    for (size_t frame = 0; frame < frames; frame++)
        assert_true (zmq_send (dealer, bytes, s_some_size (random), frame + 1 < frames? ZMQ_SNDMORE: 0) >= 0);
}

//  Must hold: when all has been taken nothing is held but what hands were shaken with: not a byte a message is lost or made up.
static void
s_comes_out_even (bool is_tcp, bool is_curve)
{
    scene_t scene;
    uint64_t random = test_seed ();
    s_begin (&scene, is_tcp, is_curve);
    void *dealers [2] = { s_dealer (&scene), s_dealer (&scene) };
    size_t first = 0;
    for (size_t round = 0; round < EFFORT (MESSAGES) + 2; round++) {
        for (int dealer = 0; dealer < 2; dealer++)
            s_send (dealers [dealer], &random);
        for (int dealer = 0; dealer < 2; dealer++)
            assert_true (s_take (&scene, PATIENCE_MS));
        first = round == 1? ledger_bytes (): first;
    }
    assert_true (first > 0 && first < HANDS_BYTES);
    assert_int_equal (ledger_bytes (), first);
    for (int dealer = 0; dealer < 2; dealer++)
        zmq_close (dealers [dealer]);
    s_end (&scene);
}

static void
local_messages_come_out_even (void **state)
{
    (void) state;
    s_comes_out_even (false, false);
}

static void
remote_messages_come_out_even (void **state)
{
    (void) state;
    s_comes_out_even (true, false);
}

static void
encrypted_messages_come_out_even (void **state)
{
    (void) state;
    s_comes_out_even (true, true);
}

//  Sends frames of one message for as long as the other end takes them; how many bytes that were.
static size_t
s_send_without_end (const char *path, size_t most)
{
    static const uint8_t greeting [64] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    static const uint8_t ready [] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\6DEALER";
    static uint8_t frame [5 + 4 + MIB] = { 3, 0, 0, 0, 0, 0, MIB >> 16, 0, 0 };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    size_t sent = 0;
    bool good = send (fd, greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting
        && send (fd, ready, sizeof ready - 1, MSG_NOSIGNAL) == sizeof ready - 1;
    while (good && sent < most) {
        ssize_t rc = send (fd, frame, sizeof frame, MSG_NOSIGNAL);
        good = rc == sizeof frame;
        sent += rc > 0? (size_t) rc: 0;
    }
    close (fd);
    return sent;
}

//  Must hold: one that never ends its message is cut off near the bound, and nothing of it stays; another's messages come.
static void
a_message_without_end_ends (void **state)
{
    (void) state;
    scene_t scene;
    uint64_t random = test_seed ();
    s_begin (&scene, false, false);
    ledger_set_limits (20 * MIB, 40 * MIB);
    void *dealer = s_dealer (&scene);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t resets = ledger_resets ();
        assert_in_range (s_send_without_end (scene.path, (size_t) 1000 * MIB), 20 * MIB, 23 * MIB);
        assert_int_equal (ledger_resets (), resets + 1);
        s_send (dealer, &random);
        assert_true (s_take (&scene, PATIENCE_MS));
    }
    //  Those that are closed by their peers are off the user's account, too.
    for (int turn = 0; turn < 5; turn++) {
        assert_in_range (s_send_without_end (scene.path, 15 * MIB), 15 * MIB, 17 * MIB);
        for (int waited = 0; waited < PATIENCE_MS / 10 && ledger_bytes () > HANDS_BYTES; waited++)
            poll (NULL, 0, 10);
        assert_true (ledger_bytes () < HANDS_BYTES);
    }
    s_send (dealer, &random);
    assert_true (s_take (&scene, PATIENCE_MS));
    zmq_close (dealer);
    s_end (&scene);
}

//  By hand: the bound of a user over all connections, and who is not cut off for others' sake.
static void
a_user_has_a_bound_of_all (void **state)
{
    (void) state;
    ledger_set_limits (1000 * 256, 3000 * 256);
    for (int fd = 500; fd < 506; fd++)
        ledger_accepted (fd, fd < 504? 7: 8);
    for (int fd = 500; fd < 504; fd++) {
        assert_true (ledger_may_receive (fd));
        ledger_received (fd, 900 * 256);
    }
    assert_false (ledger_may_receive (503));            //  4 x 900 of 3,000
    assert_true (ledger_may_receive (504));             //  another user
    ledger_taken (502, 895 * 256);
    assert_true (ledger_may_receive (503));             //  2,705
    ledger_received (503, 90 * 256);
    ledger_taken (501, 10 * 256);
    ledger_received (501, 100 * 256);
    assert_true (ledger_may_receive (500));
    ledger_received (500, 99 * 256);
    assert_true (ledger_may_receive (500));
    ledger_received (500, 100 * 256);
    assert_false (ledger_may_receive (500));            //  its own bound
    ledger_received (504, 999);
    ledger_taken (504, 5000);                           //  more than there is: nothing is owed
    assert_int_equal (ledger_bytes (), (900 + 199 + 900 + 90 + 5 + 900 + 90) * 256);
    for (int fd = 500; fd < 506; fd++)
        ledger_closed (fd);
    assert_int_equal (ledger_bytes (), 0);
    assert_true (ledger_may_receive (500));             //  nobody's
    ledger_received (500, 1 << 30);
    ledger_taken (500, 1);
    assert_int_equal (ledger_bytes (), 0);
    ledger_set_limits (LEDGER_CONNECTION_MAX, LEDGER_USER_MAX);
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (local_messages_come_out_even),
        cmocka_unit_test (remote_messages_come_out_even),
        cmocka_unit_test (encrypted_messages_come_out_even),
        cmocka_unit_test (a_message_without_end_ends),
        cmocka_unit_test (a_user_has_a_bound_of_all),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
