/*  The receive quota beside ZeroMQ itself: every byte that was received is taken again, and a client that
 *  sends without an end is cut off. */
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
#include "receive_quota.h"
#include "scratch.h"
#include "seed.h"

enum { MIB = 1 << 20, PATIENCE_MS = 60000, MESSAGES = 400, FRAMES_MAX = 12, FRAME_MAX = 100000 };

typedef struct {
    scratch_folder_t scratch;
    char path [100], text [110];
    void *context, *router;
    bool is_tcp, is_curve;
    char server_public [41], server_secret [41], public [41], secret [41];
} scene_t;

static void
s_begin (scene_t *self, bool is_tcp, bool is_curve)
{
    int one = 1, unlimited = 0;
    *self = (scene_t) { .is_tcp = is_tcp, .is_curve = is_curve };
    assert_true (scratch_begin (&self->scratch));
    snprintf (self->path, sizeof self->path, "%s/s.sock", self->scratch.path);
    snprintf (self->text, sizeof self->text, "ipc://%s", self->path);
    self->context = zmq_ctx_new ();
    self->router = zmq_socket (self->context, ZMQ_ROUTER);
    //  ZeroMQ must not be the one to stop a flood.
    zmq_setsockopt (self->router, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
    if (is_curve) {
        zmq_curve_keypair (self->server_public, self->server_secret);
        zmq_curve_keypair (self->public, self->secret);
        zmq_setsockopt (self->router, ZMQ_CURVE_SERVER, &one, sizeof one);
        zmq_setsockopt (self->router, ZMQ_CURVE_SECRETKEY, self->server_secret, 41);
    }
    assert_int_equal (zmq_bind (self->router, is_tcp? "tcp://127.0.0.1:*": self->text), 0);
    size_t size = sizeof self->text;
    assert_int_equal (zmq_getsockopt (self->router, ZMQ_LAST_ENDPOINT, self->text, &size), 0);
    assert_int_equal (receive_quota_bytes (), 0);
}

static void
s_end (scene_t *self)
{
    zmq_close (self->router);
    zmq_ctx_term (self->context);
    assert_int_equal (receive_quota_bytes (), 0);               //  all are closed
    assert_true (scratch_end (&self->scratch));
    receive_quota_set_limits (RECEIVE_QUOTA_CONNECTION_MAX, RECEIVE_QUOTA_USER_LEAST);
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
    size_t bytes = 0, frames = 0;
    int fd = -1;
    bool more = true;
    for (size_t frame = 0; more; frame++) {
        frames = frame;
        zmq_msg_t message;
        zmq_msg_init (&message);
        assert_true (zmq_msg_recv (&message, self->router, 0) >= 0);
        bytes += frame > 0? zmq_msg_size (&message): 0;
        fd = frame == 1? zmq_msg_get (&message, ZMQ_SRCFD): fd;
        more = zmq_msg_more (&message);
        zmq_msg_close (&message);
    }
    assert_true (fd >= 0);
    receive_quota_taken (self->is_tcp? RECEIVE_QUOTA_REMOTE: getuid (), fd, frames, bytes);
    return true;
}

static size_t
s_some_size (uint64_t *random)
{
    static const size_t edges [] = { 0, 1, 200, 221, 222, 223, 224, 254, 255, 256, 8191, 8192 };
    return test_below (random, 2)? edges [test_below (random, sizeof edges / sizeof *edges)]:
        test_below (random, FRAME_MAX);
}

static void
s_send (void *dealer, uint64_t *random)
{
    static uint8_t bytes [FRAME_MAX];
    size_t frames = 1 + test_below (random, FRAMES_MAX);
    for (size_t frame = 0; frame < frames; frame++)
        assert_true (zmq_send (dealer, bytes, s_some_size (random), frame + 1 < frames? ZMQ_SNDMORE: 0) >= 0);
}

//  Must hold: what has come and was not taken is held, and nothing when all has been: no byte is lost or made
//  up.
static void
s_comes_out_even (bool is_tcp, bool is_curve)
{
    scene_t scene;
    uint64_t random = test_seed ();
    s_begin (&scene, is_tcp, is_curve);
    void *dealers [2] = { s_dealer (&scene), s_dealer (&scene) };
    for (size_t round = 0; round < EFFORT (MESSAGES) + 2; round++) {
        for (int dealer = 0; dealer < 2; dealer++)
            s_send (dealers [dealer], &random);
        for (int dealer = 0; dealer < 2; dealer++) {
            zmq_pollitem_t item = { .socket = scene.router, .events = ZMQ_POLLIN };
            assert_int_equal (zmq_poll (&item, 1, PATIENCE_MS), 1);
            assert_true (receive_quota_bytes () >= RECEIVE_QUOTA_FRAME_BYTES);
            assert_true (s_take (&scene, 0));
        }
        assert_int_equal (receive_quota_bytes (), 0);
    }
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

//  Takes the other end's greeting and READY: a client that sends more before that is sometimes too quick for
//  libzmq, which closes.
static bool
s_is_ready (int fd)
{
    uint8_t said [64 + 2 + 255];
    size_t count = 0;
    while (count < 64 + 2 || count < 64u + 2 + said [65]) {
        ssize_t rc = recv (fd, said + count, (count < 64 + 2? 64 + 2: 64u + 2 + said [65]) - count, 0);
        if (rc <= 0)
            return false;
        count += (size_t) rc;
    }
    return true;
}

//  Sends frames of one message for as long as the other end takes them; how many bytes that were.
static size_t
s_send_without_end (const char *path, const void *frame, size_t size, size_t most)
{
    static const uint8_t greeting [64] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    static const uint8_t ready [] = "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\6DEALER";
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    size_t sent = 0;
    bool good = send (fd, greeting, sizeof greeting, MSG_NOSIGNAL) == sizeof greeting
        && send (fd, ready, sizeof ready - 1, MSG_NOSIGNAL) == sizeof ready - 1 && s_is_ready (fd);
    while (good && sent < most) {
        ssize_t rc = send (fd, frame, size, MSG_NOSIGNAL);
        good = rc == (ssize_t) size;
        sent += rc > 0? (size_t) rc: 0;
    }
    close (fd);
    return sent;
}

//  Must hold: one that never ends its message is cut off near the bound, and nothing of it stays; another's
//  messages come.
static void
a_message_without_end_ends (void **state)
{
    (void) state;
    scene_t scene;
    uint64_t random = test_seed ();
    s_begin (&scene, false, false);
    receive_quota_set_limits (20 * MIB, 40 * MIB);
    static const uint8_t frame [5 + 4 + MIB] = { 3, 0, 0, 0, 0, 0, MIB >> 16, 0, 0 };
    void *dealer = s_dealer (&scene);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t resets = receive_quota_resets ();
        assert_in_range (s_send_without_end (scene.path, frame, sizeof frame, (size_t) 1000 * MIB), 19 * MIB,
            23 * MIB);
        assert_int_equal (receive_quota_resets (), resets + 1);
        s_send (dealer, &random);
        assert_true (s_take (&scene, PATIENCE_MS));
    }
    //  Those that are closed by their peers are off the user's account, too.
    for (int turn = 0; turn < 5; turn++) {
        assert_in_range (s_send_without_end (scene.path, frame, sizeof frame, 15 * MIB), 15 * MIB, 17 * MIB);
        for (int waited = 0; waited < PATIENCE_MS / 10 && receive_quota_bytes () > 0; waited++)
            poll (NULL, 0, 10);
        assert_int_equal (receive_quota_bytes (), 0);
    }
    s_send (dealer, &random);
    assert_true (s_take (&scene, PATIENCE_MS));
    zmq_close (dealer);
    s_end (&scene);
}

//  Frames cost more than their bytes: as empty as they may be, and as many in one message as never makes
//  sense.
static void
empty_frames_are_not_for_nothing (void **state)
{
    (void) state;
    scene_t scene;
    s_begin (&scene, false, false);
    static uint8_t ended [2 * 60] = { 0 }, endless [2 * 4096];
    for (size_t at = 0; at < sizeof endless; at += 2)
        endless [at] = 1;
    //  While the server does not look, more comes than the socket between them holds.
    assert_in_range (s_send_without_end (scene.path, endless, sizeof endless, (size_t) 100 * MIB),
        2 * RECEIVE_QUOTA_FRAMES_MAX, MIB);
    receive_quota_set_limits (MIB, 100 * MIB);
    uint64_t resets = receive_quota_resets ();
    s_send_without_end (scene.path, ended, sizeof ended, 10 * MIB);
    for (int waited = 0; waited < PATIENCE_MS / 10 && receive_quota_resets () == resets; waited++) {
        s_take (&scene, 0);
        poll (NULL, 0, 1);
    }
    while (s_take (&scene, 50));
    //  What ZeroMQ had received and not looked at yet is gone with the connection: the server sees that there
    //  is nothing.
    assert_true (receive_quota_bytes () <= 8192 / 2 * RECEIVE_QUOTA_FRAME_BYTES);
    receive_quota_settled ();
    s_end (&scene);
}

//  Must hold: whole messages that a connection leaves behind count until they are taken; a reader that has
//  taken all may say that nothing is left.
static void
the_closed_leave_whole_messages (void **state)
{
    (void) state;
    for (int settled = 0; settled < 2; settled++) {
        scene_t scene;
        s_begin (&scene, false, false);
        static const uint8_t frame [5 + 4 + MIB] = { 2, 0, 0, 0, 0, 0, MIB >> 16, 0, 0 };
        size_t descriptors = scratch_descriptors ();
        s_send_without_end (scene.path, frame, sizeof frame, 5 * MIB);
        size_t whole = 5 * (MIB + RECEIVE_QUOTA_FRAME_BYTES);
        for (int waited = 0; waited < PATIENCE_MS / 10 && receive_quota_bytes () < whole; waited++)
            poll (NULL, 0, 10);
        //  It is closed at this end, too.
        for (int waited = 0; waited < PATIENCE_MS / 10 && scratch_descriptors () > descriptors; waited++)
            poll (NULL, 0, 10);
        assert_int_equal (scratch_descriptors (), descriptors);
        assert_int_equal (receive_quota_bytes (), whole);
        if (settled)
            receive_quota_settled ();
        for (int message = 0; message < 5; message++) {
            assert_int_equal (receive_quota_bytes (),
                settled? 0: whole - (size_t) message * (MIB + RECEIVE_QUOTA_FRAME_BYTES));
            assert_true (s_take (&scene, PATIENCE_MS));
        }
        assert_int_equal (receive_quota_bytes (), 0);
        s_end (&scene);
    }
}

//  Heartbeats are no messages.
static void
heartbeats_are_not_held (void **state)
{
    (void) state;
    static const uint8_t ping [] = "\x04\x07\x04PING\0\0";
    scene_t scene;
    s_begin (&scene, false, false);
    receive_quota_set_limits (MIB, MIB);
    s_send_without_end (scene.path, ping, sizeof ping - 1, 4 * MIB);
    assert_int_equal (receive_quota_bytes (), 0);
    s_end (&scene);
}

//  By hand: the bound of a user over all connections, and users that are not cut off because of others.  The
//  greeting of a client that encrypts nothing, then one frame of the size given; it ends its message, or does
//  not.
static void
s_pass (int fd, size_t size, bool more)
{
    uint8_t frame [9] = { more? 3: 2, 0, 0, 0, 0, (uint8_t) (size >> 24), (uint8_t) (size >> 16),
        (uint8_t) (size >> 8), (uint8_t) size };
    static const uint8_t nothing [MIB];
    receive_quota_received (fd, frame, sizeof frame);
    receive_quota_received (fd, nothing, size);
}

static void
a_user_has_a_bound_of_all (void **state)
{
    (void) state;
    static const uint8_t greeting [64] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    enum { FRAME = 1000000 - RECEIVE_QUOTA_FRAME_BYTES, ONE = 1000000 };
    receive_quota_set_limits (10 * ONE, 30 * ONE);
    for (int fd = 500; fd < 506; fd++) {
        receive_quota_accepted (fd, fd < 504? 7: 8);
        receive_quota_received (fd, greeting, sizeof greeting);
    }
    for (int fd = 500; fd < 504; fd++) {
        assert_true (receive_quota_may_receive (fd));
        for (int frame = 0; frame < (fd == 503? 3: 9); frame++)
            s_pass (fd, FRAME, false);
    }
    assert_int_equal (receive_quota_bytes (), 30 * ONE);
    assert_false (receive_quota_may_receive (500));
    assert_false (receive_quota_may_receive (503));
    assert_true (receive_quota_may_receive (504));              //  another user
    receive_quota_taken (7, 502, 1, FRAME);
    assert_true (receive_quota_may_receive (503));
    s_pass (503, FRAME, false);
    receive_quota_taken (7, 503, 4, 4 * FRAME);     //  it has nothing, and is not cut off for what
                                                               //  the others have
    s_pass (501, FRAME, true);
    s_pass (502, FRAME, true);
    s_pass (502, FRAME, true);
    assert_false (receive_quota_may_receive (501));             //  its own bound
    s_pass (500, FRAME, false);
    assert_int_equal (receive_quota_bytes (), 30 * ONE);
    assert_false (receive_quota_may_receive (500));
    s_pass (503, 10000, false);
    assert_true (receive_quota_may_receive (503));
    //  More is taken than there is: nothing is owed, neither here nor by the user.
    s_pass (504, 999, false);
    receive_quota_taken (8, 504, 100, 5000);
    assert_int_equal (receive_quota_bytes (), 30 * ONE + 10000 + RECEIVE_QUOTA_FRAME_BYTES);
    receive_quota_taken (7, 503, 10, 5 * FRAME);
    assert_int_equal (receive_quota_bytes (), 30 * ONE);
    //  What was not ended goes with its connection.
    receive_quota_closed (501);
    assert_int_equal (receive_quota_bytes (), 29 * ONE);
    receive_quota_taken (7, 501, 9, 9 * FRAME);
    assert_int_equal (receive_quota_bytes (), 20 * ONE);
    for (int fd = 500; fd < 506; fd++)
        receive_quota_closed (fd);
    assert_int_equal (receive_quota_bytes (), 18 * ONE);
    //  The whole messages that its closed connections left count for the user: 12 more fill it.
    for (int fd = 500; fd < 502; fd++) {
        receive_quota_accepted (fd, 7);
        receive_quota_received (fd, greeting, sizeof greeting);
        for (int frame = 0; frame < 6; frame++) {
            assert_true (receive_quota_may_receive (fd));
            s_pass (fd, FRAME, true);
        }
    }
    assert_int_equal (receive_quota_bytes (), 30 * ONE);
    assert_false (receive_quota_may_receive (500));
    receive_quota_closed (500);
    receive_quota_closed (501);
    assert_int_equal (receive_quota_bytes (), 18 * ONE);
    receive_quota_settled ();
    assert_int_equal (receive_quota_bytes (), 0);
    assert_true (receive_quota_may_receive (500));              //  no user's
    s_pass (500, FRAME, false);
    receive_quota_taken (9, 500, 1, 1);
    assert_int_equal (receive_quota_bytes (), 0);
    receive_quota_set_limits (RECEIVE_QUOTA_CONNECTION_MAX, RECEIVE_QUOTA_USER_LEAST);
}

//  Must hold: a message that is taken comes off its connection, and only what that does not hold off those
//  that closed connections have left.
static void
a_message_is_taken_off_once (void **state)
{
    (void) state;
    static const uint8_t greeting [64] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    enum { FRAME = 1000000 - RECEIVE_QUOTA_FRAME_BYTES, ONE = 1000000 };
    for (int fd = 500; fd < 502; fd++) {
        receive_quota_accepted (fd, 7);
        receive_quota_received (fd, greeting, sizeof greeting);
        for (int frame = 0; frame < 3; frame++)
            s_pass (fd, FRAME, false);
    }
    receive_quota_closed (500);
    for (int left = 6; left-- > 0;) {
        receive_quota_taken (7, 501, 1, FRAME);
        assert_int_equal (receive_quota_bytes (), left * ONE);
    }
    receive_quota_closed (501);
}

//  Beside a model that reads the whole stream at once: however it is cut, whatever it says.
static void
frames_are_told_wherever_bytes_are_cut (void **state)
{
    (void) state;
    for (uint64_t seed = test_seed (), round = 0; round < EFFORT (2000); seed++, round++) {
        uint64_t random = seed;
        static uint8_t stream [1 << 16];
        size_t size = 64, held = 0, open = 0;
        memset (stream, 0, sizeof stream);
        stream [0] = 0xff;
        stream [9] = 0x7f;
        stream [10] = 3;
        while (size < sizeof stream - 3000) {
            size_t body = test_below (&random, test_below (&random, 2)? 40: 1000);
            bool is_long = body > 255 || test_below (&random, 4) == 0, more = test_below (&random, 2);
            bool is_command = test_below (&random, 5) == 0;
            stream [size++] = (uint8_t) (more + 2 * is_long + 4 * is_command);
            for (size_t at = 0; is_long && at < 6; at++)
                stream [size++] = 0;
            if (is_long)
                stream [size++] = (uint8_t) (body >> 8);
            stream [size++] = (uint8_t) body;
            for (size_t at = 0; at < body; at++)
                stream [size++] = (uint8_t) test_below (&random, 256);
            if (is_command)
                continue;
            held += RECEIVE_QUOTA_FRAME_BYTES + body;
            open = more? open + RECEIVE_QUOTA_FRAME_BYTES + body: 0;
        }
        receive_quota_accepted (500, 7);
        for (size_t at = 0, part; at < size; at += part) {
            part = 1 + test_below (&random, test_below (&random, 2)? 5: 3000);
            part = part < size - at? part: size - at;
            receive_quota_received (500, stream + at, part);
        }
        assert_true (receive_quota_may_receive (500));
        assert_int_equal (receive_quota_bytes (), held);
        receive_quota_closed (500);
        assert_int_equal (receive_quota_bytes (), held - open);         //  the server cannot take the rest
        receive_quota_settled ();
        assert_int_equal (receive_quota_bytes (), 0);
    }
}

int
main (void)
{
    const struct CMUnitTest tests [] = {
        cmocka_unit_test (local_messages_come_out_even),
        cmocka_unit_test (remote_messages_come_out_even),
        cmocka_unit_test (encrypted_messages_come_out_even),
        cmocka_unit_test (a_message_without_end_ends),
        cmocka_unit_test (empty_frames_are_not_for_nothing),
        cmocka_unit_test (the_closed_leave_whole_messages),
        cmocka_unit_test (heartbeats_are_not_held),
        cmocka_unit_test (a_user_has_a_bound_of_all),
        cmocka_unit_test (a_message_is_taken_off_once),
        cmocka_unit_test (frames_are_told_wherever_bytes_are_cut),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
