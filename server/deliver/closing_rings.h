/*  closing_rings -- rings of ended jobs that clients still have and may read.
 *
 *  happy path:     closing_rings_keep (after ring_server_part) .. the client closes the ring's socket, or its
 *                  process ends: RING_SERVER_CLOSED .. closing_rings_end empties the ring
 *  failure modes:  a ring beyond its tenant's limit: the tenant's oldest ring is emptied, and its socket
 *  closed.
 *  on close:       closing_rings_leave: clients keep the pages that they have mapped.
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

//  Takes over the ring of a connection, by its key at the ring server.  tenant: a number; it may have
//  rings_max rings, its share of CLOSING_RINGS_MAX.
void closing_rings_keep (closing_rings_t *self, ring_server_t *ring_server, uint64_t key, uint32_t tenant,
    size_t rings_max, ring_t **ring_p);
//  Bytes of the tenant's rings.
size_t closing_rings_bytes (const closing_rings_t *self, uint32_t tenant);
//  The client has closed its ring.  Unknown keys are fine.
void closing_rings_end (closing_rings_t *self, uint64_t key);
void closing_rings_leave (closing_rings_t *self);

#endif
