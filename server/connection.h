/*  connection -- what the server knows of a job's client: whom to send to, and the memory its batches are written to.
 *
 *  Ring: slots in shared memory.  Inline: one block of memory a slot, made when its first row is written and
 *  given away with the message that sends it. Owner: the broker's thread; workers write into slots that it
 *  gave them.
 */
#ifndef CONNECTION_H
#define CONNECTION_H
#include <stdbool.h>
#include <stdint.h>
#include "broker.h"
#include "layout.h"
#include "outbox.h"
#include "ring.h"

typedef struct {
    peer_t peer;
    layout_t layout;
    uint32_t slots;
    ring_t *ring;               //  NULL: inline
    bool attached;              //  the client has the ring
    bool ended;                 //  by the server: the client may go on reading what it has (lingering.h)
    uint8_t **inline_slots;     //  NULL: ring
    atomic_size_t *outgoing;    //  lent; see outbox_slot_new
} connection_t;

//  Memory as shared (wants_ring) or inline; falls back to inline where no ring is to be had for another
//  reason than memory.  0 and *self_p, or -ENOMEM.
int connection_new (connection_t **self_p, const peer_t *peer, const layout_t *layout, uint32_t slots,
    bool wants_ring, atomic_size_t *outgoing);
//  The ring, if it still has one, is emptied.
void connection_destroy (connection_t **self_p);

bool connection_is_of (const connection_t *self, const peer_t *peer);
//  From ring to inline, before anything was written.  False: no memory, nothing changed.
bool connection_go_inline (connection_t *self);
//  Where a slot begins; NULL: no memory for it (inline only).
uint8_t *connection_slot (connection_t *self, uint32_t slot);
//  The slot's memory, now the caller's; NULL for a ring.
uint8_t *connection_take_inline (connection_t *self, uint32_t slot);

//  Adds what the catalogues know to the data sets of a status object.
void connection_describe_datasets (broker_t *broker, json_t *status);

#endif
