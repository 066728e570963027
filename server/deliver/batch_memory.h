/*  batch_memory -- the memory of one connection's inline batches, used again when ZeroMQ has sent it.
 *
 *  A batch is some megabytes.  Fresh memory for each would cost as much time as filling it: the kernel has to
 *  find pages and to zero them.  So blocks that have left come back, and what a short batch leaves of an
 *  earlier one is of the same client, as it is in a ring.
 *
 *  happy path:     take -> filled -> batch_memory_message -> ZeroMQ's thread gives it back -> take
 *  on close:       batch_memory_destroy; blocks that ZeroMQ still has are freed when they have left.
 *
 *  Owner: the broker's thread; ZeroMQ's threads give blocks back, under a mutex.
 */
#ifndef BATCH_MEMORY_H
#define BATCH_MEMORY_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

typedef struct batch_memory batch_memory_t;

//  Blocks of block_bytes, a multiple of 16.  As long as no more than blocks_max are in use or kept, those
//  that come back are kept.  *outgoing counts block_bytes from batch_memory_message until the bytes have
//  left; it outlives the ROUTER.  NULL: no memory.
batch_memory_t *batch_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing);
//  All blocks must have been given back or be ZeroMQ's.  *self_p may be NULL.
void batch_memory_destroy (batch_memory_t **self_p);

//  A block with zeros or an earlier batch of this connection, yours; NULL: no memory.
uint8_t *batch_memory_take (batch_memory_t *self);
//  It was not sent; NULL is fine.
void batch_memory_give_back (batch_memory_t *self, uint8_t *block);
//  The block becomes a message, and the message's.  0; or -1: no memory, and the block is given back.
int batch_memory_message (batch_memory_t *self, uint8_t *block, zmq_msg_t *message);

#endif
