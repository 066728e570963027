/*  closing_rings -- rings of jobs that the server has ended, whose clients still have them and may look at
 *  what is in them.
 *
 *  happy path:     closing_rings_keep (what ring_server_part has parted from) .. the client closes the ring's
 *                  socket, or its process ends:
 *                  RING_SERVER_CLOSED .. closing_rings_end empties the ring
 *  failure modes:  one more than its tenant may have: that one's oldest is emptied, and its socket closed.
 *  on close:       closing_rings_leave: what the clients have mapped stays theirs.
 *
 *  Owner: the broker's thread.
 */
#ifndef CLOSING_RINGS_H
#define CLOSING_RINGS_H
#include <stddef.h>
#include <stdint.h>
#include "ring_server.h"
#include "ring.h"

enum { CLOSING_RINGS_MAX = 64 };

//  All zero: none.
typedef struct {
    struct { uint64_t key; ring_t *ring; uint32_t tenant; } rings [CLOSING_RINGS_MAX];  //  the oldest first
    size_t count;
} closing_rings_t;

//  Takes over the ring of a connection, by the key that the door knows.  tenant: a number; it may have
//  rings_max of them, its share of CLOSING_RINGS_MAX.
void closing_rings_keep (closing_rings_t *self, ring_server_t *ring_server, uint64_t key, uint32_t tenant,
    size_t rings_max, ring_t **ring_p);
//  Bytes of the tenant's.
size_t closing_rings_bytes (const closing_rings_t *self, uint32_t tenant);
//  Its client has let go of it.  Unknown keys are fine.
void closing_rings_end (closing_rings_t *self, uint64_t key);
void closing_rings_leave (closing_rings_t *self);

#endif
