/*  ring_server -- the Unix socket at which a client on this host fetches its ring; the connection's end shows
 *  the client's.
 *
 *  happy path:   ring_server_expect (key, fd: a token) .. the client connects and sends the token .. it gets
 *                'R' + fd ..
 *                RING_SERVER_ATTACHED .. the connection stays open .. it closes .. RING_SERVER_CLOSED.
 *  client:       the process that connected.  Its forked children hold the socket too, so the server also
 *                watches the process (by a pidfd): its end is RING_SERVER_CLOSED, even if a child lives on.
 *                If the kernel gives no pidfd (it is old, or the client's pid means nothing here), the socket
 *                alone decides.
 *  failure:      a wrong, late or used token, a wrong uid, more bytes than the token: closed without an
 *                answer, no event.  A connection without a token is closed after RING_SERVER_PATIENCE_MS, and
 *                at once if its user (other than root and our own) has no valid token left.  At most
 *                RING_SERVER_PENDING_MAX wait at once; one more closes the oldest connection of the user
 *                with the most of them, so no user keeps others out.  accept fails with EMFILE: the listening
 *                socket is not polled until the next ring_server_tick.
 *  on close:     ring_server_forget (key) closes the connection from our side; no event follows.
 *                ring_server_part (key) closes our side only: the client sees an end as well, and
 *                RING_SERVER_CLOSED comes when it closes its own.
 *
 *  A key is the caller's number for the client of a job, or of one of its ranks.  Nothing blocks.  All
 *  readiness comes through one epoll descriptor, so the caller polls one fd.  Owner: the broker's thread.
 */
#ifndef RING_SERVER_H
#define RING_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ring_server ring_server_t;

enum { RING_SERVER_TOKEN_BYTES = 32, RING_SERVER_PATIENCE_MS = 10000, RING_SERVER_PENDING_MAX = 64 };

typedef enum { RING_SERVER_ATTACHED, RING_SERVER_CLOSED } ring_server_event_kind_t;
typedef struct {
    ring_server_event_kind_t kind;
    uint64_t key;
} ring_server_event_t;

//  Listens at path (removed first if a stale socket is there), mode 0600, which the caller may widen.  0, or
//  -errno with *self_p NULL.
int ring_server_new (ring_server_t **self_p, const char *path);
//  Closes every connection and removes the socket file.
void ring_server_destroy (ring_server_t **self_p);

//  Readable when ring_server_next may have an event.
int ring_server_descriptor (const ring_server_t *self);
//  Makes a token (random, hexadecimal, and a final zero) for one connection of a process of uid (or of root,
//  or of the server's own uid), valid until now_ms + RING_SERVER_PATIENCE_MS.  descriptor is lent until the
//  client attaches or is forgotten.  Forget a key with a token or a connection before it gets another token.
//  0, or -errno and an empty token.
int ring_server_expect (ring_server_t *self, uint64_t key, uid_t uid, int descriptor, int64_t now_ms,
    char token [RING_SERVER_TOKEN_BYTES + 1]);
//  Ends a client: its token becomes invalid, its connection is closed.  Unknown keys are fine.
void ring_server_forget (ring_server_t *self, uint64_t key);
//  The same for a client that may keep its ring: if it is attached the connection stays, closed from our
//  side, until the client closes it.  False: it is not attached.
bool ring_server_part (ring_server_t *self, uint64_t key);
//  Takes the next event; false: none, or many connections were handled without an event: then the descriptor
//  stays readable.  Never blocks.
bool ring_server_next (ring_server_t *self, int64_t now_ms, ring_server_event_t *event);
//  Ends overdue tokens and connections without a token; call it about once a second.
void ring_server_tick (ring_server_t *self, int64_t now_ms);

#endif
