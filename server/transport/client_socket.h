/*  client_socket -- the socket that clients talk to, and the users that it admits.
 *
 *  On tcp with keys the socket speaks CURVE, and ZeroMQ asks about every handshake by ZAP (RFC 27), in its
 *  own context; the answers come from keys and tenants on the broker's thread.  So no peer is admitted
 *  between two states of the keys, and a handshake costs a search in memory.  Before the answer the
 *  connection delivers no message.
 *
 *  On every message of a client that was admitted by its key, ZeroMQ's property "User-Id" is that public key
 *  (Z85).  On ipc, and on open tcp, there is no such handshake: receiver.c looks at each message's
 *  user.
 *
 *  With keys on tcp and users on ipc, one ROUTER listens at both: an endpoint has the options that the socket
 *  had when it was bound.  A peer may put any "User-Id" into its own handshake.  So ZeroMQ asks about ipc
 *  peers, too, and is told to name them CALLER_LOCAL.  That name, like a key, goes before what a peer claims.
 *
 *  Owner: the broker's thread.
 */
#ifndef CLIENT_SOCKET_H
#define CLIENT_SOCKET_H
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "client_keys.h"
#include "log.h"
#include "tenants.h"

typedef struct client_socket client_socket_t;

enum {
    CLIENT_SOCKET_HANDSHAKE_MS = 5000,           //  a peer without a finished handshake is then disconnected
    CLIENT_SOCKET_ANSWERS_A_TURN = 64
};

typedef struct {
    const char *ipc, *tcp;              //  endpoints, as ZeroMQ takes them; NULL: not there; one is
    const client_keys_t *keys;                 //  of tcp; NULL: no handshake there
    const tenants_t *tenants;
    log_t *log;
} client_socket_options_t;

//  Makes and binds the ROUTER.  options are copied; what they point to is lent.  0 and *self_p; or -errno,
//  and a sentence in error.
int client_socket_open (client_socket_t **self_p, const client_socket_options_t *options, char *error,
    size_t error_bytes);
//  The ROUTER (with ROUTER_MANDATORY).  Lent until client_socket_destroy.
void *client_socket_router (const client_socket_t *self);
//  Poll it for input, then call client_socket_answer; NULL: ZeroMQ asks nothing.
void *client_socket_questions (const client_socket_t *self);
//  Answers what ZeroMQ asks, at most CLIENT_SOCKET_ANSWERS_A_TURN.
void client_socket_answer (client_socket_t *self, int64_t now_ms);
//  {"let_in": 5, "refused": 1}: handshakes of peers that proved to have a key's secret; null: no keys.  A new
//  reference.
json_t *client_socket_status (const client_socket_t *self);
//  Closes the sockets and ends the context, when pending messages are sent or LINGER is over (seconds).
//  After that no thread of ZeroMQ runs.  *self_p may be NULL.
void client_socket_destroy (client_socket_t **self_p);

#endif
