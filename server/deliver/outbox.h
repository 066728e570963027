/*  outbox -- sends messages through the ROUTER: heads, bodies, batches; and counts what its clients have not
 *  read.  Never blocks.
 *
 *  A failed send is an expected input: OUTBOX_GONE means that the peer's connection is gone (or has left a
 *  thousand messages unread), and the caller ends its job.
 *
 *  Answers that clients do not read: ZeroMQ keeps up to a thousand messages for a connection, whatever their
 *  size.  So each large answer is counted, from its sending until its bytes have left, in the account of its
 *  connection.  A connection with OUTBOX_BACKLOG_OF_ONE_MAX such bytes, or a tenant with
 *  OUTBOX_BACKLOG_OF_TENANT_MAX, gets no further answer.  If a tenant has unread answers on its share of
 *  connections, it gets none on a further connection.  An answer is never refused because of its own size,
 *  only because of earlier answers.
 *
 *  The memory of inline batches: a batch is some megabytes.  Fresh memory for each would cost as much time as
 *  filling it: the kernel has to find pages and to zero them.  So a connection has its blocks, and those that
 *  ZeroMQ has sent come back to it.  What a short batch leaves of an earlier one is of the same client, as it
 *  is in a ring.
 *
 *  happy path:     outbox_memory_take -> filled -> outbox_send_batch -> ZeroMQ's thread gives it back -> take
 *  on close:       outbox_memory_destroy; blocks that ZeroMQ still has are freed when they have left.
 *
 *  Owner: the broker's thread, which owns the socket; ZeroMQ's threads give blocks back, under a mutex, and
 *  count accounts down.  The backlog must outlive the ROUTER's context.
 */
#ifndef OUTBOX_H
#define OUTBOX_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zmq.h>
#include "wire.h"

enum { OUTBOX_PEER_BYTES_MAX = 255 };

//  A connection, as ROUTER names it.
typedef struct {
    uint8_t bytes [OUTBOX_PEER_BYTES_MAX];
    uint8_t size;
} peer_t;

static inline bool
peer_is (const peer_t *self, const peer_t *other)
{
    return self->size == other->size && memcmp (self->bytes, other->bytes, self->size) == 0;
}

typedef enum { OUTBOX_SENT, OUTBOX_GONE } outbox_status_t;

//  A head and, unless body is NULL, one more frame, both copied.
outbox_status_t outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size);
//  The same with a text, which it frees.
outbox_status_t outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag,
    char *text);
//  The same with a text that may be large: it counts in *account, from outbox_backlog_account, until its
//  bytes have left.
outbox_status_t outbox_send_counted (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, char *text, atomic_size_t *account);
//  The same with a frame of malloc'ed bytes behind the text, which may be large: it takes the bytes over, and
//  they count instead of the text.
outbox_status_t outbox_send_bytes (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    char *text, uint8_t *bytes, size_t size, atomic_size_t *account);
//  A head, a body that is copied, and one more frame, which it takes over.
outbox_status_t outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    const void *body, size_t size, zmq_msg_t *last);

//  ---- answers that were sent and that ZeroMQ still has, by connection

typedef struct outbox_backlog outbox_backlog_t;

enum {
    OUTBOX_BACKLOG_ACCOUNTS_MAX = 1024,
    OUTBOX_BACKLOG_OF_ONE_MAX = 1 << 20,
    OUTBOX_BACKLOG_OF_TENANT_MAX = 64 << 20
};

//  NULL: no memory.
outbox_backlog_t *outbox_backlog_new (void);
void outbox_backlog_destroy (outbox_backlog_t **self_p);
//  The counter of the next answer to this connection of the tenant (a number), for outbox_send_counted.
//  share: the tenant's share of OUTBOX_BACKLOG_ACCOUNTS_MAX.  NULL: the client must first read its earlier
//  answers.
atomic_size_t *outbox_backlog_account (outbox_backlog_t *self, const peer_t *peer, uint32_t tenant,
    size_t share);
//  The bytes of all connections.
size_t outbox_backlog_bytes (const outbox_backlog_t *self);

//  ---- inline batches

typedef struct outbox_memory outbox_memory_t;

//  A connection's blocks, of block_bytes each, a multiple of 16.  As long as no more than blocks_max are in
//  use or kept, those that come back are kept.  *outgoing counts block_bytes from outbox_send_batch until the
//  bytes have left; it outlives the ROUTER.  NULL: no memory.
outbox_memory_t *outbox_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing);
//  All blocks must have been given back or be ZeroMQ's.  *self_p may be NULL.
void outbox_memory_destroy (outbox_memory_t **self_p);
//  A block with zeros or an earlier batch of this connection, yours; NULL: no memory.
uint8_t *outbox_memory_take (outbox_memory_t *self);
//  It was not sent; NULL is fine.
void outbox_memory_give_back (outbox_memory_t *self, uint8_t *block);

//  BATCH: ids are batch->count uint64; step, unless NULL, is one more frame of step_words.  block:
//  NULL, or the bytes of an inline batch, taken from memory and the message's from now on, whatever the
//  status.
typedef struct {
    const wire_batch_t *batch;
    const uint64_t *ids;
    const uint64_t *step;
    size_t step_words;
    outbox_memory_t *memory;
    uint8_t *block;
} outbox_batch_t;

outbox_status_t outbox_send_batch (void *router, const peer_t *peer, uint64_t job,
    const outbox_batch_t *batch);

#endif
