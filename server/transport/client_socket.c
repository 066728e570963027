#include "client_socket.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>
#include "wire.h"

enum {
    GATE_MAGIC = 0x06a7e5ed,
    LINGER_MS = 3000, SEND_HIGH_WATER = 1000, RECEIVE_HIGH_WATER = 64,
    CURVE_FRAME_BYTES = 64,             //  that CURVE adds to a frame, at most
    KEEPALIVE_IDLE_SECONDS = 60, KEEPALIVE_INTERVAL_SECONDS = 15, KEEPALIVE_COUNT = 4,
    TELL_MS = 1000,
    DESCRIPTORS_LEAST = 24,             //  a context and its sockets take ten; the rest is for clients
    //  Frames of a ZAP request.
    ZAP_VERSION = 0, ZAP_REQUEST, ZAP_DOMAIN, ZAP_ADDRESS, ZAP_ROUTING_ID, ZAP_MECHANISM, ZAP_CREDENTIAL,
        ZAP_FRAMES,
    ZAP_BYTES_MAX = 255
};

//  ZAP's name for the kind of endpoint that a peer has connected to.
#define DOMAIN_KEYS "tureen"
#define DOMAIN_LOCAL "local"

struct client_socket {
    uint32_t magic;
    client_socket_options_t options;
    void *context, *router, *questions;
    uint64_t let_in, refused;
    //  for the log
    int64_t told_ms;
    uint64_t untold;
};

typedef struct {
    uint8_t bytes [ZAP_BYTES_MAX];
    size_t size;                        //  more than ZAP_BYTES_MAX: cut
} zap_frame_t;

//  ---- making

//  libzmq numbers connections from rand (): a peer that can guess the start could take the next client's
//  place.
static int
s_seed (void)
{
    unsigned seed;
    if (getrandom (&seed, sizeof seed, 0) != sizeof seed)
        return -EIO;
    srand (seed);
    return 0;
}

//  libzmq aborts the process if it gets no descriptor for its threads (4.3.4, epoll.cpp): so test it first.
static int
s_check_descriptors (void)
{
    int fds [DESCRIPTORS_LEAST], count = 0, rc = 0;
    while (rc == 0 && count < DESCRIPTORS_LEAST) {
        fds [count] = open ("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fds [count] < 0)
            rc = -errno;
        else
            count++;
    }
    while (count > 0)
        close (fds [--count]);
    return rc;
}

static int
s_set (void *socket, int option, int value)
{
    return zmq_setsockopt (socket, option, &value, sizeof value);
}

//  Connections of vanished hosts (a cable, a closed laptop) must not keep their descriptors.
static int
s_set_keepalive (void *router)
{
    return s_set (router, ZMQ_TCP_KEEPALIVE, 1)
        || s_set (router, ZMQ_TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_SECONDS)
        || s_set (router, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_INTERVAL_SECONDS)
        || s_set (router, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_COUNT);
}

static int
s_set_router (const client_socket_t *self)
{
    void *router = self->router;
    int64_t frame = WIRE_FRAME_BYTES_MAX + (self->options.keys? CURVE_FRAME_BYTES: 0);
    return s_set (router, ZMQ_ROUTER_MANDATORY, 1) || s_set (router, ZMQ_LINGER, LINGER_MS)
        || s_set (router, ZMQ_SNDHWM, SEND_HIGH_WATER) || s_set (router, ZMQ_RCVHWM, RECEIVE_HIGH_WATER)
        || s_set (router, ZMQ_HANDSHAKE_IVL, CLIENT_SOCKET_HANDSHAKE_MS) || s_set (router, ZMQ_IPV6, 1)
            || s_set_keepalive (router)
        || zmq_setsockopt (router, ZMQ_MAXMSGSIZE, &frame, sizeof frame);
}

//  ZeroMQ asks the socket that listens at this name.  If none does, it admits every peer (4.3.4; the option
//  against it is in no release's headers): so this socket is bound before the ROUTER, and closed after it.
static int
s_guard (client_socket_t *self)
{
    self->questions = zmq_socket (self->context, ZMQ_REP);
    return !self->questions || s_set (self->questions, ZMQ_LINGER, 0)
        || zmq_bind (self->questions, "inproc://zeromq.zap.01");
}

//  Of the endpoints that are bound from now on.
static int
s_ask_about (const client_socket_t *self, const char *domain)
{
    return zmq_setsockopt (self->router, ZMQ_ZAP_DOMAIN, domain, strlen (domain));
}

static int
s_encrypt (const client_socket_t *self)
{
    const char *secret = client_keys_server_secret (self->options.keys);
    return s_set (self->router, ZMQ_CURVE_SERVER, 1)
        || zmq_setsockopt (self->router, ZMQ_CURVE_SECRETKEY, secret, strlen (secret) + 1)
        || s_ask_about (self, DOMAIN_KEYS);
}

//  0, or -errno and a sentence, as the next.
static int
s_fail_socket (char *error, size_t error_bytes)
{
    int rc = zmq_errno ();
    snprintf (error, error_bytes, "no ZeroMQ socket: %s", zmq_strerror (rc));
    return -rc;
}

static int
s_bind (const client_socket_t *self, const char *endpoint, char *error, size_t error_bytes)
{
    if (!endpoint || zmq_bind (self->router, endpoint) == 0)
        return 0;
    int rc = zmq_errno ();
    snprintf (error, error_bytes, "cannot listen on %s: %s; choose another --listen", endpoint,
        zmq_strerror (rc));
    return -rc;
}

//  ipc first: it must have none of the options of tcp.
static int
s_listen (const client_socket_t *self, char *error, size_t error_bytes)
{
    const client_socket_options_t *options = &self->options;
    if (options->ipc && options->keys && s_ask_about (self, DOMAIN_LOCAL))
        return s_fail_socket (error, error_bytes);
    int rc = s_bind (self, options->ipc, error, error_bytes);
    if (rc == 0 && options->keys && s_encrypt (self))
        rc = s_fail_socket (error, error_bytes);
    return rc? rc: s_bind (self, options->tcp, error, error_bytes);
}

static int
s_make (client_socket_t *self, char *error, size_t error_bytes)
{
    int rc = s_seed ();
    if (rc) {
        snprintf (error, error_bytes, "no random seed to be had: %s", strerror (-rc));
        return rc;
    }
    rc = s_check_descriptors ();
    if (rc) {
        snprintf (error, error_bytes,
            "connections take descriptors, and fewer than %d are left (%s): raise the limit of open "
            "files (ulimit -n, LimitNOFILE=)", DESCRIPTORS_LEAST, strerror (-rc));
        return rc;
    }
    self->context = zmq_ctx_new ();
    self->router = self->context? zmq_socket (self->context, ZMQ_ROUTER): NULL;
    if (!self->router || s_set_router (self) || (self->options.keys && s_guard (self)))
        return s_fail_socket (error, error_bytes);
    return s_listen (self, error, error_bytes);
}

int
client_socket_open (client_socket_t **self_p, const client_socket_options_t *options, char *error,
    size_t error_bytes)
{
    assert ((options->ipc || options->tcp) && options->tenants && options->log);
    assert (options->tcp || !options->keys);
    *error = 0;
    *self_p = calloc (1, sizeof **self_p);
    if (!*self_p) {
        snprintf (error, error_bytes, "no memory");
        return -ENOMEM;
    }
    (*self_p)->magic = GATE_MAGIC;
    (*self_p)->options = *options;
    int rc = s_make (*self_p, error, error_bytes);
    if (rc)
        client_socket_destroy (self_p);
    return rc;
}

void
client_socket_destroy (client_socket_t **self_p)
{
    client_socket_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == GATE_MAGIC);
    if (self->router)
        zmq_close (self->router);
    if (self->questions)
        zmq_close (self->questions);
    //  If a signal interrupts the call, the context has not ended.
    while (self->context && zmq_ctx_term (self->context) && zmq_errno () == EINTR);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void *
client_socket_router (const client_socket_t *self)
{
    return self->router;
}

void *
client_socket_questions (const client_socket_t *self)
{
    return self->questions;
}

json_t *
client_socket_status (const client_socket_t *self)
{
    return self->options.keys? json_pack ("{s:I, s:I}", "let_in", (json_int_t) self->let_in, "refused",
        (json_int_t) self->refused): json_null ();
}

//  ---- answering

//  Reads one request and keeps its first ZAP_FRAMES frames.  Returns how many frames it had; 0: no request.
static size_t
s_receive (void *questions, zap_frame_t frames [ZAP_FRAMES])
{
    size_t count = 0;
    for (int more = 1; more; count++) {
        zap_frame_t extra, *frame = count < ZAP_FRAMES? &frames [count]: &extra;
        int size = zmq_recv (questions, frame->bytes, sizeof frame->bytes, ZMQ_DONTWAIT);
        if (size < 0)
            return 0;
        frame->size = (size_t) size;
        size_t length = sizeof more;
        if (zmq_getsockopt (questions, ZMQ_RCVMORE, &more, &length))
            more = 0;
    }
    return count;
}

static bool
s_is (const zap_frame_t *frame, const char *text)
{
    return frame->size == strlen (text) && memcmp (frame->bytes, text, frame->size) == 0;
}

//  Logs unknown keys, so that the operator can admit them; a flood of them takes one line a second.
static void
s_tell_refused (client_socket_t *self, const zap_frame_t *address, const char *key, int64_t now_ms)
{
    char from [ZAP_BYTES_MAX + 1], others [64] = "";
    self->refused++;
    if (self->told_ms && now_ms < self->told_ms + TELL_MS) {
        self->untold++;
        return;
    }
    if (self->untold)
        snprintf (others, sizeof others, " (and %llu more since the last line)",
            (unsigned long long) self->untold);
    //  The log masks bytes that are no text.
    snprintf (from, sizeof from, "%.*s", (int) (address->size < ZAP_BYTES_MAX? address->size: ZAP_BYTES_MAX),
        (const char *) address->bytes);
    const client_keys_grant_t *grant = client_keys_find (self->options.keys, key);
    log_field_t fields [] = { LOG_TEXT ("address", from), LOG_TEXT ("key", key), { .key = NULL } };
    if (grant)
        log_event (self->options.log, LOG_LEVEL_NOTICE, "key_refused", fields,
            "the key '%s' is refused: this server has no "
            "tenant '%s'%s", grant->label, grant->tenant, others);
    else
        log_event (self->options.log, LOG_LEVEL_NOTICE, "key_refused", fields,
            "a key that is not let in is refused%s", others);
    self->told_ms = now_ms;
    self->untold = 0;
}

//  The kernel guards the ipc socket, and each message is judged by its user.
static bool
s_is_local (const zap_frame_t frames [ZAP_FRAMES], size_t count)
{
    return count == ZAP_CREDENTIAL && s_is (&frames [ZAP_VERSION], "1.0")
        && s_is (&frames [ZAP_DOMAIN], DOMAIN_LOCAL) && s_is (&frames [ZAP_MECHANISM], "NULL");
}

//  Whether the request is for this server and its key is admitted; writes the key, "" if there is none.
static bool
s_judge (client_socket_t *self, const zap_frame_t frames [ZAP_FRAMES], size_t count, int64_t now_ms,
    char key [CERTIFICATE_KEY_CHARS + 1])
{
    caller_t caller;
    key [0] = 0;
    if (count != ZAP_FRAMES || !s_is (&frames [ZAP_VERSION], "1.0")
    ||  !s_is (&frames [ZAP_DOMAIN], DOMAIN_KEYS)
    ||  !s_is (&frames [ZAP_MECHANISM], "CURVE") || frames [ZAP_CREDENTIAL].size != CERTIFICATE_KEY_BYTES
    ||  !zmq_z85_encode (key, frames [ZAP_CREDENTIAL].bytes, CERTIFICATE_KEY_BYTES))
        return false;
    if (tenants_caller (self->options.tenants, (uid_t) -1, key, &caller))
        return true;
    s_tell_refused (self, &frames [ZAP_ADDRESS], key, now_ms);
    return false;
}

static void
s_send (void *questions, const char *text, bool more)
{
    //  The connection that asked may be gone: then the answer is dropped.
    zmq_send (questions, text, strlen (text), ZMQ_DONTWAIT | (more? ZMQ_SNDMORE: 0));
}

static void
s_reply (void *questions, const zap_frame_t *request, bool is_let_in, const char *user)
{
    size_t size = request->size < ZAP_BYTES_MAX? request->size: ZAP_BYTES_MAX;
    s_send (questions, "1.0", true);
    zmq_send (questions, request->bytes, size, ZMQ_DONTWAIT | ZMQ_SNDMORE);
    s_send (questions, is_let_in? "200": "400", true);
    s_send (questions, is_let_in? "OK": "this key is not let in", true);
    s_send (questions, is_let_in? user: "", true);
    s_send (questions, "", false);
}

void
client_socket_answer (client_socket_t *self, int64_t now_ms)
{
    assert (self->magic == GATE_MAGIC);
    zap_frame_t frames [ZAP_FRAMES];
    char key [CERTIFICATE_KEY_CHARS + 1];
    for (int turn = 0; self->questions && turn < CLIENT_SOCKET_ANSWERS_A_TURN; turn++) {
        size_t count = s_receive (self->questions, frames);
        if (count == 0)
            return;
        bool is_local = s_is_local (frames, count), is_let_in = !is_local
            && s_judge (self, frames, count, now_ms, key);
        self->let_in += is_let_in;
        //  A REP socket must answer before it receives the next request.
        s_reply (self->questions, count > ZAP_REQUEST? &frames [ZAP_REQUEST]: &(zap_frame_t) { .size = 0 },
            is_local || is_let_in, is_local? CALLER_LOCAL: key);
    }
}
