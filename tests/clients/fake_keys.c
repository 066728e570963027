//  The fake server's keys: CURVE on tcp, and the client that it admits (ZAP, RFC 27).
#include "fake_state.h"
#include <zmq.h>

enum { KEY_BYTES = 32, ZAP_FRAMES = 7 };

static const fake_keys_t *
s_keys (const fake_server_t *self)
{
    return &self->plan.keys [self->lives > 1];
}

void
fake_use_keys (fake_server_t *self)
{
    const fake_keys_t *keys = s_keys (self);
    if (!keys->secret && !keys->allowed)
        return;
    //  The handler must be there before any client can shake hands.
    self->zap = zmq_socket (self->context, ZMQ_REP);
    MUST (zmq_bind (self->zap, "inproc://zeromq.zap.01") == 0);
    MUST (zmq_setsockopt (self->router, ZMQ_ZAP_DOMAIN, "fake", 4) == 0);
    int is_server = 1;
    if (keys->secret)
        MUST (zmq_setsockopt (self->router, ZMQ_CURVE_SERVER, &is_server, sizeof is_server) == 0
            && zmq_setsockopt (self->router, ZMQ_CURVE_SECRETKEY, keys->secret, strlen (keys->secret) + 1)
            == 0);
}

//  version, request, domain, address, identity, mechanism, credentials.
void
fake_answer_zap (fake_server_t *self)
{
    char frames [ZAP_FRAMES] [256], allowed [KEY_BYTES];
    int sizes [ZAP_FRAMES] = { 0 }, more = 1, count = 0;
    size_t size = sizeof more;
    const char *wanted = s_keys (self)->allowed;
    if (!self->zap || zmq_recv (self->zap, frames [0], sizeof frames [0], ZMQ_DONTWAIT) < 0)
        return;
    for (count = 1; zmq_getsockopt (self->zap, ZMQ_RCVMORE, &more, &size) == 0 && more; count++) {
        MUST (count < ZAP_FRAMES);
        sizes [count] = zmq_recv (self->zap, frames [count], sizeof frames [count], 0);
        MUST (sizes [count] >= 0 && sizes [count] <= (int) sizeof frames [count]);
    }
    bool is_fine = !wanted || (count == ZAP_FRAMES && sizes [6] == KEY_BYTES
        && zmq_z85_decode ((uint8_t *) allowed, wanted)
        && !memcmp (frames [6], allowed, KEY_BYTES));
    zmq_send (self->zap, "1.0", 3, ZMQ_SNDMORE);
    zmq_send (self->zap, frames [1], (size_t) sizes [1], ZMQ_SNDMORE);
    zmq_send (self->zap, is_fine? "200": "400", 3, ZMQ_SNDMORE);
    zmq_send (self->zap, "", 0, ZMQ_SNDMORE);
    zmq_send (self->zap, "", 0, ZMQ_SNDMORE);
    zmq_send (self->zap, "", 0, 0);
}

void
fake_drop_keys (fake_server_t *self)
{
    if (self->zap)
        zmq_close (self->zap);
    self->zap = NULL;
}
