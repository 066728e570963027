/*  gate -- the socket that clients talk to, and who is let in to it.
 *
 *  On tcp with keys the socket speaks CURVE, and ZeroMQ asks about every handshake by ZAP (RFC 27), in its
 *  own context; the answers come from keys and tenants on the broker's thread.  So nobody is let in between
 *  two states of the keys, and what a handshake costs is a search in memory.  Until it is answered there is
 *  no message of that connection.
 *
 *  On every message of a client that was let in, ZeroMQ's property "User-Id" is its public key (Z85).
 *  On ipc, and open, there is no handshake to ask about: service.c looks at each message's user.
 *
 *  Owner: the broker's thread.
 */
#ifndef GATE_H
#define GATE_H
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "keys.h"
#include "log.h"
#include "tenants.h"

typedef struct gate gate_t;

enum {
    GATE_HANDSHAKE_MS = 5000,           //  who has not shaken hands by then is put out
    GATE_ANSWERS_A_TURN = 64
};

typedef struct {
    const char *text;                   //  the endpoint, as ZeroMQ takes it
    const keys_t *keys;                 //  NULL: no handshake; else text is tcp
    const tenants_t *tenants;
    log_t *log;
} gate_options_t;

//  A ROUTER that is bound.  options are copied, what they point to is lent.  0 and *self_p; or -errno, and in
//  error a sentence.
int gate_open (gate_t **self_p, const gate_options_t *options, char *error, size_t error_bytes);
//  The ROUTER (with ROUTER_MANDATORY).  Lent until gate_close.
void *gate_router (const gate_t *self);
//  To be polled for input, then gate_answer; NULL: nobody asks.
void *gate_questions (const gate_t *self);
//  Answers what ZeroMQ asks, at most GATE_ANSWERS_A_TURN.
void gate_answer (gate_t *self, int64_t now_ms);
//  {"let_in": 5, "refused": 1}: handshakes of peers that proved to have the secret of a key; null: there are
//  no keys.  A new reference.
json_t *gate_status (const gate_t *self);
//  Closes the sockets and ends the context, when what is on its way has gone or LINGER is over (seconds).
//  From then on no thread of ZeroMQ's runs.
void gate_close (gate_t *self);
//  The same, if it was not done, and frees.  NULL inside is fine.
void gate_destroy (gate_t **self_p);

#endif
