#include "outbox.h"
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "instrument.h"
#include "machine.h"
#include "reply.h"

//  Sending the first frame tells whether the peer exists and takes the message; the others cannot fail for
//  that reason.
static outbox_status_t
s_address (void *router, const peer_t *peer)
{
    int rc = zmq_send (router, peer->bytes, peer->size, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    return rc < 0? OUTBOX_GONE: OUTBOX_SENT;
}

static outbox_status_t
s_frame (void *router, const void *data, size_t size, bool more)
{
    int rc = zmq_send (router, data, size, (more? ZMQ_SNDMORE: 0) | ZMQ_DONTWAIT);
    return rc < 0? OUTBOX_GONE: OUTBOX_SENT;
}

outbox_status_t
outbox_send (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    const void *body, size_t size)
{
    wire_head_t head = reply_head (kind, job, tag);
    if (s_address (router, peer) == OUTBOX_GONE || s_frame (router, &head, sizeof head, body) == OUTBOX_GONE)
        return OUTBOX_GONE;
    return body? s_frame (router, body, size, false): OUTBOX_SENT;
}

outbox_status_t
outbox_send_text (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag, char *text)
{
    outbox_status_t status = outbox_send (router, peer, kind, job, tag, text, strlen (text));
    free (text);
    return status;
}

//  A text, or bytes, being sent.
typedef struct {
    atomic_size_t *account;
    size_t size;
} receipt_t;

//  Runs on one of ZeroMQ's threads when the bytes have left.
static void
s_counted_sent (void *data, void *hint)
{
    receipt_t *receipt = hint;
    instrument_take (receipt);
    atomic_fetch_sub (receipt->account, receipt->size);
    free (data);
    free (receipt);
}

//  The message's last frame: bytes that it frees, and that count until they have left.  OUTBOX_GONE: the
//  caller still owns them.
static outbox_status_t
s_counted (zmq_msg_t *message, void *bytes, size_t size, atomic_size_t *account)
{
    receipt_t *receipt = malloc (sizeof *receipt);
    if (!receipt)
        return OUTBOX_GONE;
    *receipt = (receipt_t) { account, size };
    if (zmq_msg_init_data (message, bytes, size, s_counted_sent, receipt)) {
        free (receipt);
        return OUTBOX_GONE;
    }
    atomic_fetch_add (account, size);
    instrument_give (receipt);         //  not accessed from here on
    return OUTBOX_SENT;
}

outbox_status_t
outbox_send_counted (void *router, const peer_t *peer, wire_kind_t kind, uint64_t job, uint64_t tag,
    char *text, atomic_size_t *account)
{
    wire_head_t head = reply_head (kind, job, tag);
    zmq_msg_t message;
    if (s_counted (&message, text, strlen (text), account) == OUTBOX_GONE)
        return outbox_send_text (router, peer, kind, job, tag, text);
    //  From here on the end of the message frees the text, sent or not.
    if (s_address (router, peer) == OUTBOX_GONE || s_frame (router, &head, sizeof head, true) == OUTBOX_GONE
    ||  zmq_msg_send (&message, router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close (&message);
        return OUTBOX_GONE;
    }
    return OUTBOX_SENT;
}

outbox_status_t
outbox_send_bytes (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag, char *text,
    uint8_t *bytes, size_t size, atomic_size_t *account)
{
    wire_head_t head = reply_head (kind, 0, tag);
    zmq_msg_t message;
    outbox_status_t status = s_counted (&message, bytes, size, account);
    if (status == OUTBOX_GONE)
        free (bytes);                   //  no memory: the request is not answered
    else
    if (s_address (router, peer) == OUTBOX_GONE || s_frame (router, &head, sizeof head, true) == OUTBOX_GONE
    ||  s_frame (router, text, strlen (text), true) == OUTBOX_GONE
    ||  zmq_msg_send (&message, router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close (&message);
        status = OUTBOX_GONE;
    }
    free (text);
    return status;
}

outbox_status_t
outbox_send_message (void *router, const peer_t *peer, wire_kind_t kind, uint64_t tag, const void *body,
    size_t size, zmq_msg_t *last)
{
    wire_head_t head = reply_head (kind, 0, tag);
    if (s_address (router, peer) == OUTBOX_GONE || s_frame (router, &head, sizeof head, true) == OUTBOX_GONE
    ||  s_frame (router, body, size, true) == OUTBOX_GONE || zmq_msg_send (last, router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close (last);
        return OUTBOX_GONE;
    }
    return OUTBOX_SENT;
}

//  ---- answers that clients have not read

//  An account is free for another connection when it is empty.
typedef struct {
    atomic_size_t bytes;
    uint32_t tenant;
    peer_t peer;
} account_t;

struct outbox_backlog {
    account_t accounts [OUTBOX_BACKLOG_ACCOUNTS_MAX];
};

outbox_backlog_t *
outbox_backlog_new (void)
{
    outbox_backlog_t *self = calloc (1, sizeof *self);
    for (size_t index = 0; self && index < OUTBOX_BACKLOG_ACCOUNTS_MAX; index++)
        atomic_init (&self->accounts [index].bytes, 0);
    return self;
}

void
outbox_backlog_destroy (outbox_backlog_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

atomic_size_t *
outbox_backlog_account (outbox_backlog_t *self, const peer_t *peer, uint32_t tenant, size_t share)
{
    account_t *own = NULL, *room = NULL;
    size_t of_tenant = 0, connections = 0;
    for (size_t index = 0; index < OUTBOX_BACKLOG_ACCOUNTS_MAX; index++) {
        account_t *account = &self->accounts [index];
        size_t bytes = atomic_load (&account->bytes);
        if (bytes == 0)
            room = room? room: account;
        else {
            of_tenant += account->tenant == tenant? bytes: 0;
            connections += account->tenant == tenant;
            if (peer_is (&account->peer, peer))
                own = account;
        }
    }
    if (of_tenant >= OUTBOX_BACKLOG_OF_TENANT_MAX)
        return NULL;
    if (own)
        return atomic_load (&own->bytes) < OUTBOX_BACKLOG_OF_ONE_MAX? &own->bytes: NULL;
    if (!room || connections >= share)
        return NULL;
    room->tenant = tenant;
    room->peer = *peer;
    return &room->bytes;
}

size_t
outbox_backlog_bytes (const outbox_backlog_t *self)
{
    size_t bytes = 0;
    for (size_t index = 0; index < OUTBOX_BACKLOG_ACCOUNTS_MAX; index++)
        bytes += atomic_load (&self->accounts [index].bytes);
    return bytes;
}

//  ---- inline batches

//  Stands behind the bytes of a block, so that no client gets it.
typedef struct block_end {
    outbox_memory_t *memory;
    uint8_t *block;
    struct block_end *next;     //  kept
} block_end_t;

struct outbox_memory {
    size_t block_bytes;
    atomic_size_t *outgoing;
    pthread_mutex_t mutex;      //  for all that follows
    block_end_t *kept;
    uint32_t blocks_max, kept_count;
    uint32_t taken;             //  blocks that the connection has
    uint32_t sending;           //  blocks that ZeroMQ has
    bool is_over;
};

outbox_memory_t *
outbox_memory_new (size_t block_bytes, uint32_t blocks_max, atomic_size_t *outgoing)
{
    assert (block_bytes % _Alignof (block_end_t) == 0);
    outbox_memory_t *self = malloc (sizeof *self);
    if (!self)
        return NULL;
    *self = (outbox_memory_t) { .block_bytes = block_bytes, .outgoing = outgoing, .blocks_max = blocks_max };
    pthread_mutex_init (&self->mutex, NULL);
    return self;
}

static void
s_free_memory (outbox_memory_t *self)
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
outbox_memory_destroy (outbox_memory_t **self_p)
{
    outbox_memory_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    pthread_mutex_lock (&self->mutex);
    self->is_over = true;
    bool is_last = self->sending == 0;
    pthread_mutex_unlock (&self->mutex);
    if (is_last)
        s_free_memory (self);
}

static block_end_t *
s_end_of (const outbox_memory_t *self, uint8_t *block)
{
    return (block_end_t *) (void *) (block + self->block_bytes);
}

uint8_t *
outbox_memory_take (outbox_memory_t *self)
{
    pthread_mutex_lock (&self->mutex);
    block_end_t *end = self->kept;
    if (end) {
        self->kept = end->next;
        self->kept_count--;
    }
    uint8_t *block = end? end->block: machine_keep_headroom (calloc (1, self->block_bytes + sizeof *end));
    if (block && !end)
        *s_end_of (self, block) = (block_end_t) { .memory = self, .block = block };
    self->taken += block != NULL;
    pthread_mutex_unlock (&self->mutex);
    return block;
}

//  With the mutex.
static void
s_keep_block (outbox_memory_t *self, block_end_t *end)
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
outbox_memory_give_back (outbox_memory_t *self, uint8_t *block)
{
    if (!block)
        return;
    pthread_mutex_lock (&self->mutex);
    assert (self->taken > 0);
    self->taken--;
    s_keep_block (self, s_end_of (self, block));
    pthread_mutex_unlock (&self->mutex);
}

//  Runs on one of ZeroMQ's threads when the bytes have left.
static void
s_block_sent (void *block, void *hint)
{
    block_end_t *end = hint;
    instrument_take (block);
    outbox_memory_t *self = end->memory;
    atomic_fetch_sub (self->outgoing, self->block_bytes);
    pthread_mutex_lock (&self->mutex);
    self->sending--;
    s_keep_block (self, end);
    bool is_last = self->is_over && self->sending == 0;
    pthread_mutex_unlock (&self->mutex);
    if (is_last)
        s_free_memory (self);
}

//  The block is the message's from now on, whatever the status.
static outbox_status_t
s_block (void *router, outbox_memory_t *self, uint8_t *block)
{
    block_end_t *end = s_end_of (self, block);
    atomic_fetch_add (self->outgoing, self->block_bytes);
    pthread_mutex_lock (&self->mutex);
    assert (self->taken > 0);
    self->taken--;
    self->sending++;
    pthread_mutex_unlock (&self->mutex);
    instrument_give (block);
    zmq_msg_t message;
    if (zmq_msg_init_data (&message, block, self->block_bytes, s_block_sent, end)) {
        s_block_sent (block, end);
        return OUTBOX_GONE;
    }
    if (zmq_msg_send (&message, router, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close (&message);
        return OUTBOX_GONE;
    }
    return OUTBOX_SENT;
}

outbox_status_t
outbox_send_batch (void *router, const peer_t *peer, uint64_t job, const outbox_batch_t *batch)
{
    wire_head_t head = reply_head (WIRE_BATCH, job, 0);
    bool has_bytes = batch->block != NULL;
    if (s_address (router, peer) == OUTBOX_GONE
    ||  s_frame (router, &head, sizeof head, true) == OUTBOX_GONE
    ||  s_frame (router, batch->batch, sizeof *batch->batch, true) == OUTBOX_GONE
    ||  s_frame (router, batch->ids, batch->batch->count * sizeof *batch->ids, batch->step
    || has_bytes) == OUTBOX_GONE
    ||  (batch->step
            && s_frame (router, batch->step, batch->step_words * sizeof *batch->step, has_bytes)
            == OUTBOX_GONE)) {
        if (has_bytes)
            outbox_memory_give_back (batch->memory, batch->block);
        return OUTBOX_GONE;
    }
    return has_bytes? s_block (router, batch->memory, batch->block): OUTBOX_SENT;
}
