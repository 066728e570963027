/*  lingering -- rings of jobs that the server has ended, whose clients still have them and may look at what is in them.
 *
 *  happy path:     lingering_keep (what door_part has parted from) .. the client closes the ring's socket, or its process ends:
 *                  DOOR_CLOSED .. lingering_end empties the ring
 *  failure modes:  one more than its tenant may have: that one's oldest is emptied, and its socket closed.
 *  on close:       lingering_leave: what the clients have mapped stays theirs.
 *
 *  Owner: the broker's thread.
 */
#ifndef LINGERING_H
#define LINGERING_H
#include <stddef.h>
#include <stdint.h>
#include "door.h"
#include "ring.h"

enum { LINGERING_MAX = 64 };

//  All zero: none.
typedef struct {
    struct { uint64_t key; ring_t *ring; uint32_t tenant; } rings [LINGERING_MAX];      //  the oldest first
    size_t count;
} lingering_t;

//  Takes over the ring of a connection, by the key that the door knows.  tenant: a number; it may have rings_max of them, its share
//  of LINGERING_MAX.
void lingering_keep (lingering_t *self, door_t *door, uint64_t key, uint32_t tenant, size_t rings_max, ring_t **ring_p);
//  Bytes of the tenant's.
size_t lingering_bytes (const lingering_t *self, uint32_t tenant);
//  Its client has let go of it.  Unknown keys are fine.
void lingering_end (lingering_t *self, uint64_t key);
void lingering_leave (lingering_t *self);

#endif
