#include "connection.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"
#include "rank.h"
#include "tenant.h"

int
connection_new (connection_t **self_p, const peer_t *peer, const caller_t *caller, uint64_t key,
    const layout_t *layout, uint32_t slots, bool wants_ring, atomic_size_t *outgoing)
{
    *self_p = NULL;
    connection_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    *self = (connection_t) { .peer = *peer, .caller = *caller, .key = key, .layout = *layout, .slots = slots,
        .outgoing = outgoing };
    self->ring_rc = wants_ring? ring_new (&self->ring, slots, layout->slot_bytes): 0;
    //  With a ring, blocks are for the rare batch in no slot, and none is kept.
    self->memory = outbox_memory_new (layout->slot_bytes, 0, outgoing);
    bool is_short = self->ring_rc == -ENOMEM || self->ring_rc == -ENOSPC;
    bool good = self->memory && (self->ring || (!is_short && connection_go_inline (self)));
    if (!good) {
        outbox_memory_destroy (&self->memory);
        ring_destroy (&self->ring);
        free (self);
        return -ENOMEM;
    }
    *self_p = self;
    return 0;
}

void
connection_destroy (connection_t **self_p)
{
    connection_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t slot = 0; self->inline_slots && slot < self->slots; slot++)
        outbox_memory_give_back (self->memory, self->inline_slots [slot]);
    free (self->inline_slots);
    outbox_memory_give_back (self->memory, self->loose);
    outbox_memory_destroy (&self->memory);
    ring_destroy (&self->ring);
    free (self);
    *self_p = NULL;
}

bool
connection_is_of (const connection_t *self, const peer_t *peer, const caller_t *caller)
{
    return peer_is (&self->peer, peer) && caller_is (&self->caller, caller);
}

typedef struct {
    const peer_t *peer;         //  or NULL:
    const caller_t *caller;
    uint64_t key;               //  of its connection
    rank_t *rank;
} search_t;

static void
s_search (void *context, rank_t *rank)
{
    search_t *search = context;
    const connection_t *connection = rank_user (rank);
    if (search->peer? connection_is_of (connection, search->peer, search->caller):
        connection->key == search->key)
        search->rank = rank;
}

rank_t *
connection_rank_of_peer (broker_t *broker, const peer_t *peer, const caller_t *caller)
{
    search_t search = { .peer = peer, .caller = caller };
    rank_each (broker, s_search, &search);
    return search.rank;
}

rank_t *
connection_rank_of_key (broker_t *broker, uint64_t key)
{
    search_t search = { .key = key };
    rank_each (broker, s_search, &search);
    return search.rank;
}

bool
connection_go_inline (connection_t *self)
{
    outbox_memory_t *memory = outbox_memory_new (self->layout.slot_bytes, self->slots, self->outgoing);
    self->inline_slots = calloc (self->slots, sizeof *self->inline_slots);
    if (!memory || !self->inline_slots) {
        outbox_memory_destroy (&memory);
        free (self->inline_slots);
        self->inline_slots = NULL;
        return false;
    }
    assert (!self->loose);
    outbox_memory_destroy (&self->memory);
    self->memory = memory;
    ring_destroy (&self->ring);
    return true;
}

//  The place of the pointer to a slot's own memory; NULL: the slot is in a ring.
static uint8_t **
s_memory_of (connection_t *self, uint32_t slot)
{
    if (slot == WIRE_SLOT_NONE)
        return &self->loose;
    return self->ring? NULL: &self->inline_slots [slot];
}

uint8_t *
connection_slot (connection_t *self, uint32_t slot)
{
    uint8_t **memory_p = s_memory_of (self, slot);
    if (!memory_p)
        return ring_slot (self->ring, slot);
    if (!*memory_p)
        *memory_p = outbox_memory_take (self->memory);
    return *memory_p;
}

uint8_t *
connection_take_inline (connection_t *self, uint32_t slot)
{
    uint8_t **memory_p = s_memory_of (self, slot), *memory = memory_p? *memory_p: NULL;
    if (memory_p)
        *memory_p = NULL;
    return memory;
}

void
connection_label (const broker_t *broker, rank_t *rank, const char *reason, connection_label_t *label)
{
    job_t *job = rank_job (rank);
    const connection_t *connection = rank_user (rank);
    uint64_t user = connection? connection->caller.user: BROKER_USER_UNKNOWN;
    bool has_ranks = job_world_size (job) > 1;
    int used = snprintf (label->text, sizeof label->text, "job %" PRIu64, job_id (job));
    if (has_ranks)
        snprintf (label->text + used, sizeof label->text - (size_t) used, ", rank %u", rank_number (rank));
    const log_field_t fields [CONNECTION_LABEL_FIELDS] = {
        LOG_TEXT ("tenant", tenant_label (broker, job_tenant (job))),
        LOG_NUMBER ("job", job_id (job)), LOG_NUMBER_IF (has_ranks, "rank", rank_number (rank)),
        LOG_NUMBER_IF (user != BROKER_USER_UNKNOWN, "user", user), LOG_TEXT ("reason", reason),
        { .key = NULL }
    };
    memcpy (label->fields, fields, sizeof fields);
}
