#include "batch_memory.h"
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include "instrument.h"
#include "rlimits.h"

//  Stands behind the bytes of a block, so that no client gets it.
typedef struct block_end {
    batch_memory_t *memory;
    uint8_t *block;
    struct block_end *next;     //  kept
} block_end_t;

struct batch_memory {
    size_t block_bytes;
    atomic_size_t *outgoing;
    pthread_mutex_t mutex;      //  for all that follows
    block_end_t *kept;
    uint32_t blocks_max, kept_count;
    uint32_t taken;             //  blocks that the connection has
    uint32_t sending;           //  blocks that ZeroMQ has
    bool is_over;
};

batch_memory_t *
batch_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing)
{
    assert (block_bytes % _Alignof (block_end_t) == 0);
    batch_memory_t *self = malloc (sizeof *self);
    if (!self)
        return NULL;
    *self = (batch_memory_t) { .block_bytes = block_bytes, .outgoing = outgoing, .blocks_max = blocks_max };
    pthread_mutex_init (&self->mutex, NULL);
    return self;
}

static void
s_free (batch_memory_t *self)
{
    while (self->kept) {
        block_end_t *end = self->kept;
        self->kept = end->next;
        free (end->block);
    }
    pthread_mutex_destroy (&self->mutex);
    free (self);
}

void
batch_memory_destroy (batch_memory_t **self_p)
{
    batch_memory_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    pthread_mutex_lock (&self->mutex);
    self->is_over = true;
    bool is_last = self->sending == 0;
    pthread_mutex_unlock (&self->mutex);
    if (is_last)
        s_free (self);
}

static block_end_t *
s_end_of (const batch_memory_t *self, uint8_t *block)
{
    return (block_end_t *) (void *) (block + self->block_bytes);
}

uint8_t *
batch_memory_take (batch_memory_t *self)
{
    pthread_mutex_lock (&self->mutex);
    block_end_t *end = self->kept;
    if (end) {
        self->kept = end->next;
        self->kept_count--;
    }
    uint8_t *block = end? end->block: rlimits_keep_headroom (calloc (1, self->block_bytes + sizeof *end));
    if (block && !end)
        *s_end_of (self, block) = (block_end_t) { .memory = self, .block = block };
    self->taken += block != NULL;
    pthread_mutex_unlock (&self->mutex);
    return block;
}

//  With the mutex.
static void
s_keep (batch_memory_t *self, block_end_t *end)
{
    if (self->is_over || self->kept_count + self->taken >= self->blocks_max) {
        free (end->block);
        return;
    }
    end->next = self->kept;
    self->kept = end;
    self->kept_count++;
}

void
batch_memory_give_back (batch_memory_t *self, uint8_t *block)
{
    if (!block)
        return;
    pthread_mutex_lock (&self->mutex);
    assert (self->taken > 0);
    self->taken--;
    s_keep (self, s_end_of (self, block));
    pthread_mutex_unlock (&self->mutex);
}

//  Runs on one of ZeroMQ's threads when the bytes have left.
static void
s_sent (void *block, void *hint)
{
    block_end_t *end = hint;
    instrument_take (block);
    batch_memory_t *self = end->memory;
    atomic_fetch_sub (self->outgoing, self->block_bytes);
    pthread_mutex_lock (&self->mutex);
    self->sending--;
    s_keep (self, end);
    bool is_last = self->is_over && self->sending == 0;
    pthread_mutex_unlock (&self->mutex);
    if (is_last)
        s_free (self);
}

int
batch_memory_message (batch_memory_t *self, uint8_t *block, zmq_msg_t *message)
{
    block_end_t *end = s_end_of (self, block);
    atomic_fetch_add (self->outgoing, self->block_bytes);
    pthread_mutex_lock (&self->mutex);
    assert (self->taken > 0);
    self->taken--;
    self->sending++;
    pthread_mutex_unlock (&self->mutex);
    instrument_give (block);
    if (zmq_msg_init_data (message, block, self->block_bytes, s_sent, end) == 0)
        return 0;
    s_sent (block, end);
    return -1;
}
