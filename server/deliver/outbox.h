/*  outbox -- sends messages through the ROUTER: heads, bodies, batches.  Never blocks.
 *
 *  A failed send is an expected input: OUTBOX_GONE means that the peer's connection is gone (or has left a
 *  thousand messages unread), and the caller ends its job. Owner: the broker's thread, which owns the socket.
 */
#ifndef OUTBOX_H
#define OUTBOX_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <zmq.h>
#include "batch_memory.h"
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
//  The same with a text that may be large: it counts in *account, which outlives the ROUTER, until its bytes
//  have left.
outbox_status_t outbox_send_counted (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job,
    uint64_t tag, char *text, atomic_size_t *account);
//  The same with a frame of malloc'ed bytes behind the text, which may be large: it takes the bytes over, and
//  they count instead of the text.
outbox_status_t outbox_send_bytes (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    char *text, uint8_t *bytes, size_t size, atomic_size_t *account);
//  A head, a body that is copied, and one more frame, which it takes over.
outbox_status_t outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag,
    const void *body, size_t size, zmq_msg_t *last);
//  BATCH: ids are batch->count uint64; step, unless NULL, is one more frame of step_words.  block:
//  NULL, or the bytes of an inline batch, taken from memory and the message's from now on, whatever the
//  status.
typedef struct {
    const wire_batch_t *batch;
    const uint64_t *ids;
    const uint64_t *step;
    size_t step_words;
    batch_memory_t *memory;
    uint8_t *block;
} outbox_batch_t;

outbox_status_t outbox_send_batch (void *router, const peer_t *peer, uint64_t job,
    const outbox_batch_t *batch);

#endif
