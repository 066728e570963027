//  Transfers beside a store of which one answer hardly comes, or stops: it is given up, and what is missing
//  is asked for on another connection.  Where this program stalls, no answer is late.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <sodium.h>
#include "pace.h"
#include "transfers.h"

enum {
    PEERS_MAX = 128, QUESTION_BYTES = 2048, OBJECT_BYTES = 40000, HEAD_BYTES = 400, GETS = 200, TOGETHER = 8,
    GRAY = 50, TURN_MS = 100, TRICKLE_BYTES = 205
};

typedef enum { TRICKLES, STOPS_BEFORE, STOPS_BEHIND_HEAD, STOPS_IN_BODY } way_t;

//  A connection of the store's.
typedef struct {
    int descriptor;
    char question [QUESTION_BYTES];
    size_t used;
    size_t at, end;                     //  what it still trickles of the object
} peer_t;

typedef struct {
    int listener, bell;                 //  the bell: look at what is set
    pthread_t thread;
    char url [64];
    way_t way;
    unsigned gray_question;             //  from now on; 0: none
    atomic_uint questions;
    atomic_bool is_held, is_ending;     //  held: it answers no question
    peer_t peers [PEERS_MAX];
} world_t;


//  -- the store

static char
s_letter (size_t at)
{
    return (char) ('a' + at % 23);
}

static void
s_send (const peer_t *peer, size_t first, size_t end, size_t answer_end)
{
    static char answer [OBJECT_BYTES + HEAD_BYTES];
    size_t used = 0;
    if (answer_end > 0)
        used = (size_t) snprintf (answer, sizeof answer, "HTTP/1.1 206 Partial\r\nETag: \"one\"\r\n"
            "Content-Range: bytes %zu-%zu/%d\r\nContent-Length: %zu\r\n\r\n", first, answer_end - 1,
            OBJECT_BYTES, answer_end - first);
    for (size_t at = first; at < end; at++)
        answer [used++] = s_letter (at);
    for (size_t sent = 0; sent < used;) {
        ssize_t count = send (peer->descriptor, answer + sent, used - sent, MSG_NOSIGNAL);
        if (count <= 0)
            return;
        sent += (size_t) count;
    }
}

static void
s_answer (world_t *self, peer_t *peer)
{
    size_t first = 0, last = 0;
    const char *range = strstr (peer->question, "Range: bytes=");
    assert_true (range && sscanf (range, "Range: bytes=%zu-%zu", &first, &last) == 2);
    peer->used = 0;
    size_t end = last + 1, good = end;
    if (atomic_fetch_add (&self->questions, 1) + 1 == self->gray_question) {
        good = first;
        if (self->way == STOPS_BEFORE)
            return;
        if (self->way == STOPS_IN_BODY)
            good = (first + end) / 2;
        if (self->way == TRICKLES) {
            peer->at = first;
            peer->end = end;
        }
    }
    s_send (peer, first, good, end);
}

static void
s_hear (world_t *self, peer_t *peer)
{
    ssize_t got = recv (peer->descriptor, peer->question + peer->used, QUESTION_BYTES - 1 - peer->used, 0);
    if (got <= 0) {
        close (peer->descriptor);
        *peer = (peer_t) { .descriptor = -1 };
        return;
    }
    peer->used += (size_t) got;
    peer->question [peer->used] = 0;
    if (strstr (peer->question, "\r\n\r\n") && !atomic_load (&self->is_held))
        s_answer (self, peer);
}

static void
s_accept (world_t *self)
{
    int descriptor = accept (self->listener, NULL, NULL);
    for (size_t at = 0; at < PEERS_MAX && descriptor >= 0; at++)
        if (self->peers [at].descriptor < 0) {
            self->peers [at] = (peer_t) { .descriptor = descriptor };
            descriptor = -1;
        }
    assert_int_equal (descriptor, -1);
}

//  What trickles, and what was held.
static void
s_go_on (world_t *self)
{
    for (size_t at = 0; at < PEERS_MAX; at++) {
        peer_t *peer = &self->peers [at];
        if (peer->descriptor < 0)
            continue;
        if (peer->at < peer->end) {
            size_t end = peer->at + TRICKLE_BYTES < peer->end? peer->at + TRICKLE_BYTES: peer->end;
            s_send (peer, peer->at, end, 0);
            peer->at = end;
        }
        if (peer->used > 0 && !atomic_load (&self->is_held))
            s_answer (self, peer);
    }
}

static void *
s_serve (void *context)
{
    world_t *self = context;
    while (!atomic_load (&self->is_ending)) {
        struct pollfd all [PEERS_MAX + 2];
        all [PEERS_MAX] = (struct pollfd) { .fd = self->listener, .events = POLLIN };
        all [PEERS_MAX + 1] = (struct pollfd) { .fd = self->bell, .events = POLLIN };
        for (size_t at = 0; at < PEERS_MAX; at++)
            all [at] = (struct pollfd) { .fd = self->peers [at].descriptor, .events = POLLIN };
        uint64_t rung;
        if (poll (all, PEERS_MAX + 2, TURN_MS) == 0
        ||  (all [PEERS_MAX + 1].revents && read (self->bell, &rung, sizeof rung) > 0))
            s_go_on (self);
        for (size_t at = 0; at < PEERS_MAX; at++)
            if (all [at].fd >= 0 && all [at].revents)
                s_hear (self, &self->peers [at]);
        if (all [PEERS_MAX].revents)
            s_accept (self);
    }
    return NULL;
}

static void
s_ring (const world_t *self)
{
    assert_int_equal (write (self->bell, &(uint64_t) { 1 }, sizeof (uint64_t)), sizeof (uint64_t));
}

static int
s_set_up (void **state)
{
    static world_t world;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    memset (&world, 0, sizeof world);
    for (size_t at = 0; at < PEERS_MAX; at++)
        world.peers [at].descriptor = -1;
    world.listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    world.bell = eventfd (0, EFD_CLOEXEC);
    assert_int_equal (bind (world.listener, (struct sockaddr *) &address, length), 0);
    assert_int_equal (listen (world.listener, 64), 0);
    assert_int_equal (getsockname (world.listener, (struct sockaddr *) &address, &length), 0);
    snprintf (world.url, sizeof world.url, "http://127.0.0.1:%u/object", ntohs (address.sin_port));
    *state = &world;
    return 0;
}

static void
s_start (world_t *self)
{
    assert_int_equal (pthread_create (&self->thread, NULL, s_serve, self), 0);
}

static int
s_tear_down (void **state)
{
    world_t *self = *state;
    atomic_store (&self->is_ending, true);
    s_ring (self);
    pthread_join (self->thread, NULL);
    for (size_t at = 0; at < PEERS_MAX; at++)
        if (self->peers [at].descriptor >= 0)
            close (self->peers [at].descriptor);
    close (self->listener);
    close (self->bell);
    return 0;
}


//  -- the tests

static uint8_t s_memory [TOGETHER] [OBJECT_BYTES];

static void
s_begin (const world_t *self, transfers_t *transfers, transfer_t *transfer, size_t place)
{
    memset (s_memory [place], 0, OBJECT_BYTES);
    *transfer = (transfer_t) { .url = self->url, .bytes = OBJECT_BYTES, .memory = s_memory [place] };
    assert_int_equal (transfers_begin (transfers, transfer), 0);
}

static void
s_check (const transfer_t *transfer)
{
    if (transfer->rc)
        fail_msg ("%s", transfer->detail);
    assert_int_equal (transfer->done, OBJECT_BYTES);
    for (size_t at = 0; at < OBJECT_BYTES; at++)
        assert_int_equal (transfer->memory [at], s_letter (at));
}

//  So many GETs, some together; returns how many requests were given up.
static unsigned
s_read (const world_t *self, transfers_t *transfers, unsigned count)
{
    transfer_t all [TOGETHER];
    unsigned begun = 0, done = 0, given_up = 0;
    for (; begun < TOGETHER; begun++)
        s_begin (self, transfers, &all [begun], begun);
    while (done < count) {
        transfers_wait (transfers, NULL, 0, -1);
        for (transfer_t *transfer; (transfer = transfers_take (transfers)); done++) {
            s_check (transfer);
            given_up += transfer->given_up;
            if (begun++ < count)
                s_begin (self, transfers, transfer, (size_t) (transfer - all));
        }
    }
    return given_up;
}

//  Guards: an answer that hardly comes, or stops, is asked for again long before it would fail or end, with
//  all its bytes, and few others are.
static void
s_run_gray (world_t *self, way_t way)
{
    transfers_t *transfers;
    self->way = way;
    self->gray_question = GRAY;
    s_start (self);
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    unsigned given_up = s_read (self, transfers, GETS);
    assert_in_range (given_up, 1, 1 + GETS / 20);
    assert_int_equal (atomic_load (&self->questions), GETS + given_up);
    transfers_destroy (&transfers);
}

static void
test_an_answer_that_trickles (void **state)
{
    s_run_gray (*state, TRICKLES);
}

static void
test_no_answer (void **state)
{
    s_run_gray (*state, STOPS_BEFORE);
}

static void
test_a_head_without_a_body (void **state)
{
    s_run_gray (*state, STOPS_BEHIND_HEAD);
}

static void
test_a_body_that_stops (void **state)
{
    s_run_gray (*state, STOPS_IN_BODY);
}

//  Guards: the store has no part in it that this program did not look for a while.
static void
test_a_stall_of_this_program (void **state)
{
    world_t *self = *state;
    transfers_t *transfers;
    transfer_t transfer;
    s_start (self);
    assert_int_equal (transfers_new (&transfers, NULL, NULL), 0);
    s_read (self, transfers, 20);
    atomic_store (&self->is_held, true);
    s_begin (self, transfers, &transfer, 0);
    nanosleep (&(struct timespec) { .tv_sec = 2 }, NULL);
    transfers_wait (transfers, NULL, 0, 0);
    assert_int_equal (transfer.given_up, 0);
    atomic_store (&self->is_held, false);
    s_ring (self);
    while (!transfers_take (transfers))
        transfers_wait (transfers, NULL, 0, -1);
    s_check (&transfer);
    transfers_destroy (&transfers);
}

int
main (void)
{
    if (sodium_init () < 0)
        return 1;
    const struct CMUnitTest tests [] = {
        cmocka_unit_test_setup_teardown (test_an_answer_that_trickles, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_no_answer, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_head_without_a_body, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_body_that_stops, s_set_up, s_tear_down),
        cmocka_unit_test_setup_teardown (test_a_stall_of_this_program, s_set_up, s_tear_down),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
