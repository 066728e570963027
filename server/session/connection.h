/*  connection -- what the server knows of a job's client, or of one of its ranks: whom to send to, and the
 *  memory its batches are written to.
 *
 *  Ring: slots in shared memory.  Inline: one block of memory a slot, made when its first row is written and
 *  given away with the message that sends it; so is, whatever the others are, that of the batch that is in no
 *  slot.
 *  Owner: the broker's thread; workers write into slots that it gave them.
 */
#ifndef CONNECTION_H
#define CONNECTION_H
#include <stdbool.h>
#include <stdint.h>
#include "broker.h"
#include "caller.h"
#include "layout.h"
#include "outbox.h"
#include "ring.h"

typedef struct {
    peer_t peer;
    caller_t caller;            //  whose it is: another one with this routing id is not its client
    uint64_t key;               //  no other connection of this server has it: names it at the door
    layout_t layout;
    uint32_t slots;
    ring_t *ring;               //  NULL: inline
    int ring_rc;                //  why there is none, though one was wanted; 0: it is there, or none was
    bool attached;              //  the client has the ring
    bool ended;                 //  by the server: the client may go on reading what it has (lingering.h)
    uint8_t **inline_slots;     //  NULL: ring
    uint8_t *loose;             //  WIRE_SLOT_NONE
    atomic_size_t *outgoing;    //  lent; see outbox_slot_new
} connection_t;

//  Memory as shared (wants_ring) or inline; falls back to inline where no ring is to be had for another
//  reason than memory.  0 and *self_p, or -ENOMEM.
int connection_new (connection_t **self_p, const peer_t *peer, const caller_t *caller, uint64_t key,
    const layout_t *layout, uint32_t slots, bool wants_ring, atomic_size_t *outgoing);
//  The ring, if it still has one, is emptied.
void connection_destroy (connection_t **self_p);

bool connection_is_of (const connection_t *self, const peer_t *peer, const caller_t *caller);
//  The rank that has this connection, of those that are there; NULL: none.
rank_t *connection_rank_of_peer (broker_t *broker, const peer_t *peer, const caller_t *caller);
rank_t *connection_rank_of_key (broker_t *broker, uint64_t key);
//  From ring to inline, before anything was written.  False: no memory, nothing changed.
bool connection_go_inline (connection_t *self);
//  Where a slot begins; NULL: no memory for it (inline, and WIRE_SLOT_NONE).
uint8_t *connection_slot (connection_t *self, uint32_t slot);
//  The slot's memory, now the caller's; NULL for one in a ring.
uint8_t *connection_take_inline (connection_t *self, uint32_t slot);

//  Adds what the catalogues know to the data sets of a status object.  sees_all: also what others' jobs move.
void connection_describe_datasets (broker_t *broker, json_t *status, bool sees_all);

#endif
