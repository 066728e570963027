#include "dealer.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEALER_MAGIC 0x4445414cu

struct dealer {
    uint32_t magic;
    void *socket;
    void *monitor;
    bool connected;
    bool lost;
};

static int
s_open (dealer_t *self, void *context, const char *address, message_error_t *error)
{
    //  Of another dealer in this context, that is being closed, ZeroMQ may still know the name.
    char monitor [64];
    snprintf (monitor, sizeof monitor, "inproc://tureen-monitor-%p-%" PRId64, (void *) self, dealer_now_ms ());
    if (context)
        self->socket = zmq_socket (context, ZMQ_DEALER);
    if (self->socket)
        self->monitor = zmq_socket (context, ZMQ_PAIR);
    if (!self->monitor) {
        message_fail (error, "no socket: %s", zmq_strerror (errno));
        return -errno;
    }
    int none = 0;
    zmq_setsockopt (self->socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt (self->monitor, ZMQ_LINGER, &none, sizeof none);
    if (zmq_socket_monitor (self->socket, monitor, ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED)
    ||  zmq_connect (self->monitor, monitor)) {
        message_fail (error, "no monitor: %s", zmq_strerror (errno));
        return -errno;
    }
    if (zmq_connect (self->socket, address)) {
        message_fail (error, "endpoint \"%.200s\": %s", address, zmq_strerror (errno));
        return -errno;
    }
    return 0;
}

int
dealer_new (dealer_t **self_p, void *context, const char *address, message_error_t *error)
{
    assert (self_p && address);
    *self_p = NULL;
    dealer_t *self = calloc (1, sizeof *self);
    if (!self) {
        message_fail (error, "out of memory");
        return -ENOMEM;
    }
    self->magic = DEALER_MAGIC;
    int rc = s_open (self, context, address, error);
    if (rc == 0) {
        *self_p = self;
        self = NULL;
    }
    dealer_destroy (&self);
    return rc;
}

void
dealer_destroy (dealer_t **self_p)
{
    assert (self_p);
    dealer_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == DEALER_MAGIC);
    if (self->socket) {
        zmq_socket_monitor (self->socket, NULL, 0);
        zmq_close (self->socket);
    }
    if (self->monitor)
        zmq_close (self->monitor);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
dealer_end_context (void **context_p)
{
    assert (context_p);
    //  Terminating waits for ZeroMQ's threads; a signal may interrupt it.
    while (*context_p && zmq_ctx_term (*context_p) && errno == EINTR)
        continue;
    *context_p = NULL;
}

void
dealer_poll_items (const dealer_t *self, zmq_pollitem_t items [DEALER_POLL_ITEMS])
{
    assert (self && self->magic == DEALER_MAGIC);
    items [0] = (zmq_pollitem_t) { .socket = self->socket, .events = ZMQ_POLLIN };
    items [1] = (zmq_pollitem_t) { .socket = self->monitor, .events = ZMQ_POLLIN };
}

bool
dealer_send (dealer_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count)
{
    assert (self && self->magic == DEALER_MAGIC);
    //  Once the first frame is taken, the rest is: the high-water mark counts whole messages.
    int more = count? ZMQ_SNDMORE: 0;
    if (zmq_send (self->socket, head, sizeof *head, ZMQ_DONTWAIT | more) < 0)
        return false;
    for (size_t index = 0; index < count; index++) {
        more = index + 1 < count? ZMQ_SNDMORE: 0;
        int rc = zmq_send (self->socket, frames [index].data, frames [index].size, ZMQ_DONTWAIT | more);
        assert (rc >= 0);
    }
    return true;
}

void
dealer_message_init (dealer_message_t *message)
{
    message->count = 0;
    for (size_t index = 0; index < MESSAGE_FRAMES_MAX; index++)
        zmq_msg_init (&message->parts [index]);
}

void
dealer_message_clear (dealer_message_t *message)
{
    for (size_t index = 0; index < MESSAGE_FRAMES_MAX; index++)
        zmq_msg_close (&message->parts [index]);
    dealer_message_init (message);
}

//  Reads and drops one frame; true: another follows.
static bool
s_drop_frame (void *socket)
{
    zmq_msg_t part;
    zmq_msg_init (&part);
    int rc = zmq_msg_recv (&part, socket, ZMQ_DONTWAIT);
    bool more = rc >= 0 && zmq_msg_more (&part);
    zmq_msg_close (&part);
    return more;
}

bool
dealer_receive (dealer_t *self, dealer_message_t *message)
{
    assert (self && self->magic == DEALER_MAGIC);
    dealer_message_clear (message);
    bool more = true;
    while (more && message->count < MESSAGE_FRAMES_MAX) {
        zmq_msg_t *part = &message->parts [message->count];
        if (zmq_msg_recv (part, self->socket, ZMQ_DONTWAIT) < 0)
            break;                      //  only before the first frame: messages arrive whole
        message_frame_t *frame = &message->frames [message->count++];
        frame->data = zmq_msg_data (part);
        frame->size = zmq_msg_size (part);
        more = zmq_msg_more (part);
    }
    if (message->count == 0)
        return false;
    while (more) {
        more = s_drop_frame (self->socket);
        message->count++;
    }
    return true;
}

//  An event is two frames: its number (and a value), then the address.
static void
s_read_events (dealer_t *self)
{
    uint8_t event [16];
    while (zmq_recv (self->monitor, event, sizeof event, ZMQ_DONTWAIT) >= 2) {
        uint16_t number;
        memcpy (&number, event, sizeof number);
        self->connected |= number == ZMQ_EVENT_CONNECTED;
        self->lost |= number == ZMQ_EVENT_DISCONNECTED;
        while (s_drop_frame (self->monitor))
            continue;
    }
}

bool
dealer_is_lost (dealer_t *self)
{
    assert (self && self->magic == DEALER_MAGIC);
    s_read_events (self);
    return self->lost;
}

bool
dealer_was_connected (dealer_t *self)
{
    assert (self && self->magic == DEALER_MAGIC);
    s_read_events (self);
    return self->connected;
}

int64_t
dealer_now_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
