/*  ring -- the memory that one job's batches are written to: slots of equal size, one after the other.
 *
 *  A memfd, sealed against SHRINK, GROW and further seals (without the last, a client could add FUTURE_WRITE
 *  and keep us from punching it empty), reserved when made, so that lack of memory shows at join and not as
 *  SIGBUS in a worker.  The client maps the same pages and may write to them; the server never reads them.
 *
 *  Owner: the broker's thread makes and ends it; workers write into slots that it gave them.
 */
#ifndef RING_H
#define RING_H
#include <stddef.h>
#include <stdint.h>
#include "ring_server.h"

typedef struct ring ring_t;

//  slots x slot_bytes, slot_bytes a multiple of the page size.  0, or -errno and *self_p NULL (-ENOMEM, also
//  for more than the machine has; -ENOSPC, -EMFILE, -ENOSYS ...).  Leaves nothing behind when it fails.
int ring_new (ring_t **self_p, uint32_t slots, size_t slot_bytes);
//  Frees its pages (a dead or stopped client may still map it), unmaps, closes.  No worker may write to it
//  any more.
void ring_destroy (ring_t **self_p);
//  Unmaps and closes, but leaves the pages to the client that maps them: for an orderly end of the server.
void ring_leave (ring_t **self_p);

uint8_t *ring_slot (ring_t *self, uint32_t slot);
size_t ring_bytes (const ring_t *self);
//  Lent, for SCM_RIGHTS.
int ring_descriptor (const ring_t *self);

//  ---- rings of ended jobs that clients still have and may read

enum { RING_CLOSING_MAX = 64 };

//  All zero: none.  Owner: the broker's thread.
typedef struct {
    struct { uint64_t key; ring_t *ring; uint32_t tenant; } rings [RING_CLOSING_MAX];   //  the oldest first
    size_t count;
} ring_closing_t;

//  After ring_server_part: takes over the ring of a connection, by its key at the ring server.  tenant: a
//  number; it may have rings_max rings, its share of RING_CLOSING_MAX.  If it has more, its oldest one is
//  emptied and that one's socket closed.
void ring_closing_keep (ring_closing_t *self, ring_server_t *ring_server, uint64_t key, uint32_t tenant,
    size_t rings_max, ring_t **ring_p);
//  Bytes of the tenant's rings.
size_t ring_closing_bytes (const ring_closing_t *self, uint32_t tenant);
//  RING_SERVER_CLOSED: the client has closed its ring's socket, or its process has ended.  Empties the ring.
//  Unknown keys are fine.
void ring_closing_end (ring_closing_t *self, uint64_t key);
//  At the server's end: clients keep the pages that they have mapped.
void ring_closing_leave (ring_closing_t *self);

#endif
