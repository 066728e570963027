/*  peers_wrapped -- the clock and ZeroMQ's sockets as peers.c sees them in a program that links
 *  tureen_peers_wrapped: a time that the program sets, and members that are places in a list, "node:1000" the
 *  first.  The program defines the hooks, and __wrap_zmq_send and __wrap_zmq_msg_recv.
 */
#ifndef PEERS_WRAPPED_H
#define PEERS_WRAPPED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static struct {
    int64_t now_ns;
    bool more;                          //  the part that was received last is not its message's last one
} wrapped;

//  A connection to the member begins, or ends; whether something has arrived on it.
static void wrapped_on_connect (size_t member);
static void wrapped_on_close (size_t member);
static bool wrapped_has_arrived (size_t member);

static inline size_t
wrapped_member (const void *socket)
{
    return *(const size_t *) socket;
}

int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    (void) clock;
    *now = (struct timespec) { .tv_sec = wrapped.now_ns / 1000000000,
        .tv_nsec = wrapped.now_ns % 1000000000 };
    return 0;
}

void *__wrap_zmq_socket (void *context, int type);
void *
__wrap_zmq_socket (void *context, int type)
{
    (void) context; (void) type;
    return malloc (sizeof (size_t));    //  zmq_connect writes the member there
}

int __wrap_zmq_setsockopt (void *socket, int option, const void *value, size_t bytes);
int
__wrap_zmq_setsockopt (void *socket, int option, const void *value, size_t bytes)
{
    (void) socket; (void) option; (void) value; (void) bytes;
    return 0;
}

int __wrap_zmq_connect (void *socket, const char *address);
int
__wrap_zmq_connect (void *socket, const char *address)
{
    *(size_t *) socket = strtoul (strrchr (address, ':') + 1, NULL, 10) - 1000;
    wrapped_on_connect (wrapped_member (socket));
    return 0;
}

int __wrap_zmq_close (void *socket);
int
__wrap_zmq_close (void *socket)
{
    wrapped_on_close (wrapped_member (socket));
    free (socket);
    return 0;
}

int __wrap_zmq_getsockopt (void *socket, int option, void *value, size_t *bytes);
int
__wrap_zmq_getsockopt (void *socket, int option, void *value, size_t *bytes)
{
    (void) bytes;
    bool has_arrived = wrapped_has_arrived (wrapped_member (socket));
    *(int *) value = option != ZMQ_EVENTS? 100: has_arrived? ZMQ_POLLIN: 0;
    return 0;
}

int __wrap_zmq_msg_more (const zmq_msg_t *message);
int
__wrap_zmq_msg_more (const zmq_msg_t *message)
{
    (void) message;
    return wrapped.more;
}

#endif
