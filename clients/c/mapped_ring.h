/*  mapped_ring -- a job's ring, mapped: its descriptor comes over the server's Unix socket.
 *
 *  happy path:   the address space is reserved .. connect, send the token .. 'R' and one descriptor come ..
 *                mapped over the reservation.  From then on the socket is only watched: its end is the
 *                server's.
 *  failure:      before the token was sent, or if the server answers by closing: nothing is left, the job can
 *                go inline.  The server has the token and does not answer: it may hand the ring over later,
 *                and would take the end of our socket for the client's death, whatever we sent meanwhile.
 *                After the descriptor came (it is too small, or cannot be mapped): the socket stays open,
 *                because the server would take its end for the client's death.  Because the address space is
 *                reserved first, this second case means a broken server, never a lack of address space.
 *  on close:     mapped_ring_close_socket, and mapped_ring_destroy when no thread reads the batches any more.
 *
 *  Owner: the loader's thread, except the mapped pages, which belong to the holder of the batch.
 */
#ifndef MAPPED_RING_H
#define MAPPED_RING_H
#include <stddef.h>
#include <stdint.h>
#include "message.h"
#include "trust.h"

typedef struct mapped_ring mapped_ring_t;

//  Blocks: MAPPED_RING_PATIENCE_MS at most until the token is sent, then answer_ms at most until the answer
//  comes; more than MAPPED_RING_ANSWER_MS is useless, because the token is valid only so long.  0 and
//  *self_p; or -errno, and *self_p is NULL or (see above) a socket without a ring; -ETIMEDOUT: no answer;
//  -EPERM: another user listens there than this one, root and server (TRUST_NOBODY: of this machine's users
//  none runs it), and did not get the token.
enum { MAPPED_RING_PATIENCE_MS = 3000, MAPPED_RING_ANSWER_MS = 10000 };
int mapped_ring_new (mapped_ring_t **self_p, const char *path, uid_t server, const char *token, size_t bytes,
    int answer_ms) TUREEN_CHECKED;
void mapped_ring_destroy (mapped_ring_t **self_p);

//  The ring's first byte; NULL: no ring.
uint8_t *mapped_ring_data (const mapped_ring_t *self);
//  Poll it; -1 once closed.
int mapped_ring_socket (const mapped_ring_t *self);
//  After the socket became readable: whether the server has ended.
bool mapped_ring_is_over (const mapped_ring_t *self);
void mapped_ring_close_socket (mapped_ring_t *self);

#endif
