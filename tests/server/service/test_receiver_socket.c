/*  Messages from a real socket to the service: where one ends and the next begins, the user of each, and how
 *  many are taken at once.  */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "scratch.h"

#include <jansson.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>
#include "reply.h"
#include "service_play.h"

enum { LISTED = 2000, PATIENCE_MS = 60000, MANY = 3 * RECEIVER_MESSAGES_A_TURN,
    FRAMES = WIRE_FRAMES_MAX + 40 };

typedef struct {
    scratch_folder_t scratch;
    void *context, *router, *dealer;
    play_t *play;
} scene_t;

static int
s_setup (void **state)
{
    static scene_t scene;
    char address [120];
    int none = 0;
    assert_true (scratch_begin (&scene.scratch));
    scene.context = zmq_ctx_new ();
    snprintf (address, sizeof address, "ipc://%s/s.sock", scene.scratch.path);
    scene.router = zmq_socket (scene.context, ZMQ_ROUTER);
    scene.dealer = zmq_socket (scene.context, ZMQ_DEALER);
    zmq_setsockopt (scene.dealer, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal (zmq_bind (scene.router, address), 0);
    assert_int_equal (zmq_connect (scene.dealer, address), 0);
    scene.play = play_new_at (false, scene.router);
    *state = &scene;
    return 0;
}

static int
s_teardown (void **state)
{
    scene_t *scene = *state;
    play_destroy (&scene->play);
    zmq_close (scene->dealer);
    zmq_close (scene->router);
    zmq_ctx_term (scene->context);
    return scratch_end (&scene->scratch)? 0: 1;
}

static void
s_send (scene_t *scene, wire_kind_t kind, uint64_t tag, const char *body)
{
    wire_head_t head = reply_head (kind, 0, tag);
    assert_int_equal (zmq_send (scene->dealer, &head, sizeof head, body? ZMQ_SNDMORE: 0), sizeof head);
    if (body)
        assert_int_equal (zmq_send (scene->dealer, body, strlen (body), 0), strlen (body));
}

//  So many messages have come, and nothing has been received.
static void
s_wait (scene_t *scene)
{
    zmq_pollitem_t item = { .socket = scene->router, .events = ZMQ_POLLIN };
    assert_int_equal (zmq_poll (&item, 1, PATIENCE_MS), 1);
}

//  What was sent to any client, by tag; NULL: nothing.
static const play_sent_t *
s_answer (const scene_t *scene, uint64_t tag)
{
    static play_sent_t none;
    const play_sent_t *sent = play_sent_with (scene->play, tag);
    return sent? sent: &none;
}

//  Must hold: each message is answered by itself, in its turn, to its connection, whatever lies behind it.
static void
messages_are_told_apart (void **state)
{
    scene_t *scene = *state;
    s_send (scene, WIRE_STATUS, 1, "{}");
    s_send (scene, WIRE_STATUS, 2, "{}");
    s_send (scene, WIRE_HEARTBEAT, 3, NULL);
    s_send (scene, WIRE_STATUS, 4, "{}");
    for (int waited = 0; waited < PATIENCE_MS && !play_sent_with (scene->play, 4); waited += 1) {
        s_wait (scene);
        service_receive (play_service (scene->play), play_now_ms (scene->play));
    }
    assert_int_equal (s_answer (scene, 1)->kind, WIRE_STATUS_REPLY);
    assert_int_equal (s_answer (scene, 2)->kind, WIRE_STATUS_REPLY);
    assert_int_equal (s_answer (scene, 3)->kind, WIRE_ERROR);
    assert_int_equal (s_answer (scene, 4)->kind, WIRE_STATUS_REPLY);
    assert_int_equal (s_answer (scene, 4)->peer.size, 5);           //  as ROUTER makes them: a zero, a number
    assert_int_equal (s_answer (scene, 4)->peer.bytes [0], 0);
    assert_memory_equal (&s_answer (scene, 4)->peer, &s_answer (scene, 1)->peer, sizeof (peer_t));
}

//  Must hold: one turn takes no more than RECEIVER_MESSAGES_A_TURN, and none is lost.
static void
a_turn_has_an_end (void **state)
{
    scene_t *scene = *state;
    for (uint64_t tag = 1; tag <= MANY; tag++)
        s_send (scene, WIRE_HEARTBEAT, tag, NULL);
    int taken = 0, most = 0;
    while (taken < MANY) {
        s_wait (scene);
        int count = service_receive (play_service (scene->play), play_now_ms (scene->play));
        most = count > most? count: most;
        taken += count;
    }
    assert_int_equal (taken, MANY);
    assert_true (most <= RECEIVER_MESSAGES_A_TURN);
    assert_int_equal (service_receive (play_service (scene->play), play_now_ms (scene->play)), 0);
}

//  Must hold: a message of too many frames is one message, refused; the next is taken as ever.
static void
too_many_frames (void **state)
{
    scene_t *scene = *state;
    wire_head_t head = reply_head (WIRE_STATUS, 0, 1);
    zmq_send (scene->dealer, &head, sizeof head, ZMQ_SNDMORE);
    for (int frame = 1; frame < FRAMES; frame++)
        zmq_send (scene->dealer, "{}", 2, frame + 1 < FRAMES? ZMQ_SNDMORE: 0);
    s_send (scene, WIRE_STATUS, 2, "{}");
    int taken = 0;
    while (taken < 2) {
        s_wait (scene);
        taken += service_receive (play_service (scene->play), play_now_ms (scene->play));
    }
    assert_int_equal (taken, 2);
    assert_int_equal (s_answer (scene, 2)->kind, WIRE_STATUS_REPLY);
    assert_int_not_equal (s_answer (scene, 1)->kind, WIRE_STATUS_REPLY);
}

//  Must hold: on a local socket the user is the one that the kernel names.
static void
the_user_is_the_kernels (void **state)
{
    scene_t *scene = *state;
    s_send (scene, WIRE_JOIN, 1, "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1,\"pipeline\":\"eval\","
        "\"transport\":\"inline\"}");
    s_wait (scene);
    while (service_receive (play_service (scene->play), play_now_ms (scene->play)) == 0)
        ;
    if (getuid () == PLAY_ROOT)
        assert_int_equal (s_answer (scene, 1)->kind, WIRE_JOINED);
    else
        assert_int_not_equal (s_answer (scene, 1)->kind, WIRE_JOINED);
}

//  A JOIN with two frames of ids, of which the second is too large to be copied; the last id is given.
static void
s_join_list (scene_t *scene, uint64_t tag, uint64_t last)
{
    static const char json [] = "{\"dataset\":\"train\",\"batch_size\":4,\"epochs\":1,\"pipeline\":\"eval\","
        "\"transport\":\"inline\",\"order\":\"list\",\"frames\":[\"list\",\"list\"]}";
    wire_head_t head = reply_head (WIRE_JOIN, 0, tag);
    uint64_t few [] = { WIRE_IDS_LIST, 5, 6, 7 }, many [1 + LISTED] = { WIRE_IDS_LIST };
    for (uint64_t index = 0; index < LISTED; index++)
        many [1 + index] = index % PLAY_SAMPLES;
    many [LISTED] = last;
    zmq_send (scene->dealer, &head, sizeof head, ZMQ_SNDMORE);
    zmq_send (scene->dealer, json, sizeof json - 1, ZMQ_SNDMORE);
    zmq_send (scene->dealer, few, sizeof few, ZMQ_SNDMORE);
    zmq_send (scene->dealer, many, sizeof many, 0);
}

//  Must hold: frames are whole when their turn comes, those that are copied and those that are held.
static void
large_frames_are_held (void **state)
{
    scene_t *scene = *state;
    if (getuid () != PLAY_ROOT)
        skip ();                    //  the play knows root, and few others
    s_join_list (scene, 1, PLAY_SAMPLES);
    s_join_list (scene, 2, 9);
    for (int taken = 0; taken < 2;) {
        s_wait (scene);
        taken += service_receive (play_service (scene->play), play_now_ms (scene->play));
    }
    assert_non_null (strstr (s_answer (scene, 1)->text,
        "list frame 1: number 1999 is sample 48, the data set has 48 samples"));
    assert_int_equal (s_answer (scene, 2)->kind, WIRE_JOINED);
    assert_non_null (strstr (s_answer (scene, 2)->text, "\"samples\":\"2003\""));
}

#define case_of(test) cmocka_unit_test_setup_teardown (test, s_setup, s_teardown)

int
main (void)
{
    const struct CMUnitTest tests [] = {
        case_of (messages_are_told_apart),
        case_of (a_turn_has_an_end),
        case_of (too_many_frames),
        case_of (the_user_is_the_kernels),
        case_of (large_frames_are_held),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
