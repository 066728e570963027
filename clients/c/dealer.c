#include "dealer.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "address.h"
#include "spare_threads.h"
#include "trust.h"

#define DEALER_MAGIC 0x4445414cu

//  A server that refuses our handshake may hang up before we have read why, and a killed server looks the
//  same: after so many times it is no coincidence.
enum { DEALER_SILENT_FAILURES_MAX = 3 };

enum {
    DEALER_EVENTS = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED
        | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
        | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH
};

struct dealer {
    uint32_t magic;
    //  Set at birth.
    void *socket;
    void *monitor;
    char address [ADDRESS_BYTES];
    char public_key [CREDENTIALS_KEY_CHARS + 1];    //  "": the connection is open
    //  Events of the monitor.
    bool connected;
    bool lost;
    bool unreached;                     //  a try to connect failed since the last query
    bool mismatched;                    //  only one side has keys
    bool refused;
    int silent_failures;                //  handshakes in a row that the other side broke off
    uid_t peer;                         //  of a local server, the user that runs it; TRUST_NOBODY: unknown
    bool is_closed;                     //  likewise: no untrusted user can listen there
    bool strange;                       //  a server that is not trusted was connected, or was gone before it
                                        //  could be looked at: no message may be believed
    message_error_t distrust;           //  "": it was gone
};

static bool
s_is_local (const dealer_t *self)
{
    return !strncmp (self->address, "ipc://", 6);
}

//  Keys, before the socket is connected.
static bool
s_set_keys (dealer_t *self, const credentials_t *credentials)
{
    if (!credentials_are_given (credentials))
        return true;
    memcpy (self->public_key, credentials->public_key, sizeof self->public_key);
    size_t size = CREDENTIALS_KEY_CHARS + 1;
    return !zmq_setsockopt (self->socket, ZMQ_CURVE_PUBLICKEY, credentials->public_key, size)
        && !zmq_setsockopt (self->socket, ZMQ_CURVE_SECRETKEY, credentials->secret_key, size)
        && !zmq_setsockopt (self->socket, ZMQ_CURVE_SERVERKEY, credentials->server_key, size);
}

static int
s_open (dealer_t *self, void *context, const char *address, const credentials_t *credentials,
    message_error_t *error)
{
    //  ZeroMQ may still have the name of another dealer in this context that is being closed.
    char monitor [64];
    snprintf (monitor, sizeof monitor, "inproc://tureen-monitor-%p-%" PRId64, (void *) self,
        dealer_now_ms ());
    if (!context) {
        message_fail (error, "no memory or no threads for a connection: raise the limit of processes and "
            "threads (ulimit -u, TasksMax=), or end some");
        return -EAGAIN;
    }
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
    if (!s_set_keys (self, credentials)) {
        message_fail (error, "the keys cannot be used: %s", zmq_strerror (errno));
        return -errno;
    }
    if (zmq_socket_monitor (self->socket, monitor, DEALER_EVENTS)
    ||  zmq_connect (self->monitor, monitor)) {
        message_fail (error, "no monitor: %s", zmq_strerror (errno));
        return -errno;
    }
    if (s_is_local (self) && !trust_path (address + 6, &self->is_closed, error))
        return -EPERM;
    if (zmq_connect (self->socket, address)) {
        message_fail (error, "endpoint \"%.200s\": %s", address, zmq_strerror (errno));
        return -errno;
    }
    return 0;
}

int
dealer_new (dealer_t **self_p, void *context, const char *address, const credentials_t *credentials,
    message_error_t *error)
{
    assert (self_p && address && credentials);
    *self_p = NULL;
    dealer_t *self = calloc (1, sizeof *self);
    if (!self) {
        message_fail (error, "out of memory");
        return -ENOMEM;
    }
    self->magic = DEALER_MAGIC;
    self->peer = TRUST_NOBODY;
    snprintf (self->address, sizeof self->address, "%s", address);
    int rc = s_open (self, context, address, credentials, error);
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

void *
dealer_begin_context (void)
{
    return spare_threads_try () == 0? zmq_ctx_new (): NULL;
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
    int more = count? ZMQ_SNDMORE: 0;
    bool sent = zmq_send (self->socket, head, sizeof *head, ZMQ_DONTWAIT | more) >= 0;
    if (!sent)
        return false;
    //  The high-water mark counts whole messages, so the rest is refused only where ZeroMQ has given the
    //  connection up meanwhile.  Then it drops what follows, up to the last frame.
    for (size_t index = 0; index < count; index++) {
        more = index + 1 < count? ZMQ_SNDMORE: 0;
        sent = zmq_send (self->socket, frames [index].data, frames [index].size, ZMQ_DONTWAIT | more) >= 0
            && sent;
    }
    return sent;
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

typedef enum { FRAME_NONE, FRAME_LAST, FRAME_AND_MORE } frame_status_t;

//  Reads and drops one frame, if there is one.
static frame_status_t
s_drop_frame (void *socket)
{
    zmq_msg_t part;
    zmq_msg_init (&part);
    frame_status_t status = zmq_msg_recv (&part, socket, ZMQ_DONTWAIT) < 0? FRAME_NONE
        : zmq_msg_more (&part)? FRAME_AND_MORE: FRAME_LAST;
    zmq_msg_close (&part);
    return status;
}

//  A local server was connected: looks at the user that runs it.
static void
s_look_at_peer (dealer_t *self, int descriptor)
{
    message_error_t why;
    if (!s_is_local (self))
        return;
    self->peer = trust_peer (descriptor);
    if (self->peer == TRUST_NOBODY || trust_listener (self->address + 6, self->peer, &why))
        return;
    self->strange = true;
    self->distrust = why;
}

//  Handles one event; value: the kind of error, for a failed handshake, or a connection's descriptor.
static void
s_take_event (dealer_t *self, uint16_t number, uint32_t value)
{
    switch (number) {
        case ZMQ_EVENT_CONNECTED:
            s_look_at_peer (self, (int) value);
            break;
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            self->connected = true;
            self->silent_failures = 0;
            //  Another server is looked for.
            if (s_is_local (self) && self->peer == TRUST_NOBODY && !self->is_closed)
                self->strange = self->lost = true;
            break;
        case ZMQ_EVENT_CONNECT_RETRIED:
            self->unreached = true;
            break;
        case ZMQ_EVENT_DISCONNECTED:
            self->lost |= self->connected;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            self->refused = true;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self->mismatched |= value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
            break;
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            self->silent_failures++;
            break;
    }
}

//  An event is two frames: its number and a value, then the address.
static void
s_read_events (dealer_t *self)
{
    uint8_t event [16];
    uint16_t number;
    uint32_t value;
    while (zmq_recv (self->monitor, event, sizeof event, ZMQ_DONTWAIT)
        >= (int) (sizeof number + sizeof value)) {
        memcpy (&number, event, sizeof number);
        memcpy (&value, event + sizeof number, sizeof value);
        s_take_event (self, number, value);
        while (s_drop_frame (self->monitor) == FRAME_AND_MORE)
            continue;
    }
}

//  Whether a message that was received comes from a server that is trusted.  ZeroMQ reports a connection
//  before the first message from it, so the events tell.  Else it is dropped, and so is all that waits.
static bool
s_is_believed (dealer_t *self, dealer_message_t *message)
{
    if (!s_is_local (self))
        return true;
    s_read_events (self);
    if (!self->strange)
        return true;
    dealer_message_clear (message);
    while (s_drop_frame (self->socket) != FRAME_NONE)
        continue;
    return false;
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
        more = s_drop_frame (self->socket) == FRAME_AND_MORE;
        message->count++;
    }
    return s_is_believed (self, message);
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

bool
dealer_is_unreached (dealer_t *self)
{
    assert (self && self->magic == DEALER_MAGIC);
    s_read_events (self);
    bool unreached = self->unreached && !self->connected;
    self->unreached = false;
    return unreached;
}

dealer_welcome_t
dealer_welcome (dealer_t *self, message_error_t *why)
{
    assert (self && self->magic == DEALER_MAGIC);
    s_read_events (self);
    bool has_keys = *self->public_key, is_local = s_is_local (self);
    if (*self->distrust.text)
        *why = self->distrust;
    else if (self->refused && is_local)
        message_fail (why, "the server at %.200s does not serve user %u of this machine", self->address,
            (unsigned) geteuid ());
    else if (self->refused)
        message_fail (why, "this client's key is unknown or revoked at %.120s: have its operator allow it "
            "(tureen key allow, of a worker with --worker); the public key is %s", self->address,
            has_keys? self->public_key: "none");
    else if (self->mismatched && has_keys)
        message_fail (why, "no keys are used at %.120s, which is open, and this client has one: is it the "
            "right server? Then leave key and server_key out (TUREEN_KEY, TUREEN_SERVER_KEY)", self->address);
    else if (self->mismatched)
        message_fail (why, "only clients with a key are let in at %.120s: give key and server_key "
            "(TUREEN_KEY, TUREEN_SERVER_KEY); tureen key new FILE makes a key", self->address);
    else if (has_keys && self->silent_failures >= DEALER_SILENT_FAILURES_MAX)
        message_fail (why, "the key is another at %.120s than the given server_key (TUREEN_SERVER_KEY): give "
            "the one that the server's log names; or it is open, then give no keys", self->address);
    else if (self->silent_failures >= DEALER_SILENT_FAILURES_MAX && is_local)
        message_fail (why, "each connection is broken off at once at %.200s: either this user has too many "
            "of them, or it is no Tureen server", self->address);
    else if (self->silent_failures >= DEALER_SILENT_FAILURES_MAX)
        message_fail (why, "each connection is broken off at once at %.120s: either it lets in only clients "
            "with a key (give key and server_key, TUREEN_KEY and TUREEN_SERVER_KEY), or it is no Tureen "
            "server", self->address);
    else
        return DEALER_WELCOME;
    return self->refused || *self->distrust.text? DEALER_REFUSED: DEALER_SHUT_OUT;
}

uid_t
dealer_peer (const dealer_t *self)
{
    assert (self && self->magic == DEALER_MAGIC);
    return self->peer;
}

int64_t
dealer_now_ms (void)
{
    struct timespec time;
    clock_gettime (CLOCK_MONOTONIC, &time);
    return (int64_t) time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
