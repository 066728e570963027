/*  connection -- what the server knows of a job's client, or of one of its ranks: the peer to send to, and
 *  the memory its batches are written to.  What becomes of the job when a client has gone: client_life.h.
 *
 *  Ring: slots in shared memory.  Inline: one block of memory for each slot, made when its first row is
 *  written and given away with the message that sends it (outbox.h).  A batch in no slot always has
 *  such a block.
 *  Owner: the broker's thread; workers write into slots that it gave them.
 */
#ifndef CONNECTION_H
#define CONNECTION_H
#include <stdbool.h>
#include <stdint.h>
#include "broker.h"
#include "dataset.h"
#include "layout.h"
#include "log.h"
#include "outbox.h"
#include "ring.h"
#include "tenants.h"

typedef struct {
    peer_t peer;
    caller_t caller;            //  the job's caller; another caller with this routing id is not its client
    uint64_t key;               //  unique on this server; names the connection to the ring server
    layout_t layout;
    uint32_t slots;
    ring_t *ring;               //  NULL: inline
    int ring_rc;                //  error if a ring was wanted and could not be made; otherwise 0
    bool attached;              //  the client has the ring
    bool ended;                 //  by the server: the client may still read its batches (ring.h)
    uint8_t **inline_slots;     //  NULL: ring
    uint8_t *loose;             //  WIRE_SLOT_NONE
    outbox_memory_t *memory;    //  of these two
    atomic_size_t *outgoing;    //  lent; see outbox_memory_new
} connection_t;

//  Shared memory (wants_ring) or inline.  If a ring cannot be made, falls back to inline, unless memory is
//  short. 0 and *self_p, or -ENOMEM.
int connection_new (connection_t **self_p, const peer_t *peer, const caller_t *caller, uint64_t key,
    const layout_t *layout, uint32_t slots, bool wants_ring, atomic_size_t *outgoing);
//  Also empties the ring, if it still has one.
void connection_destroy (connection_t **self_p);

bool connection_is_of (const connection_t *self, const peer_t *peer, const caller_t *caller);
//  The present rank that has this connection; NULL: none.
rank_t *connection_rank_of_peer (broker_t *broker, const peer_t *peer, const caller_t *caller);
rank_t *connection_rank_of_key (broker_t *broker, uint64_t key);
//  From ring to inline, before anything was written.  False: no memory, nothing changed.
bool connection_go_inline (connection_t *self);
//  Where a slot begins; NULL: no memory for it (inline, and WIRE_SLOT_NONE).
uint8_t *connection_slot (connection_t *self, uint32_t slot);
//  The slot's memory, now the caller's; NULL for one in a ring.
uint8_t *connection_take_inline (connection_t *self, uint32_t slot);

//  A rank in the log: fields, and "job 3", or "job 3, rank 1" if there are several.
enum { CONNECTION_LABEL_FIELDS = 6 };
typedef struct {
    char text [64];
    log_field_t fields [CONNECTION_LABEL_FIELDS];
} connection_label_t;
//  reason: NULL, or one of the server's own words.
void connection_label (const broker_t *broker, rank_t *rank, const char *reason, connection_label_t *label);

#endif
