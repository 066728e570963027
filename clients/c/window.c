#include "window.h"
#include <assert.h>
#include <stdlib.h>

#define WINDOW_MAGIC 0x57494e44u

window_t *
window_new (handover_t *handover, message_joined_t **joined_p, attach_t **attach_p, uint8_t *base,
    uint64_t sequence_base)
{
    assert (joined_p && *joined_p && attach_p);
    const tureen_info_t *info = message_joined_info (*joined_p);
    window_t *self = calloc (1, sizeof *self);
    uint64_t *ids = calloc (info->slots * batch_room (info), sizeof *ids);
    if (!self || !ids) {
        free (self);
        free (ids);
        return NULL;
    }
    self->magic = WINDOW_MAGIC;
    self->slots = info->slots;
    self->ids = ids;
    self->sequence_base = sequence_base;
    for (uint32_t slot = 0; slot < info->slots; slot++)
        batch_init (&self->batches [slot], handover, self, *joined_p, ids + slot * batch_room (info),
            base? base + slot * message_joined_slot_bytes (*joined_p): NULL);
    self->joined = *joined_p;
    self->attach = *attach_p;
    *joined_p = NULL;
    *attach_p = NULL;
    return self;
}

void
window_destroy (window_t **self_p)
{
    assert (self_p);
    window_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == WINDOW_MAGIC);
    for (uint32_t slot = 0; slot < self->slots; slot++)
        batch_clear (&self->batches [slot]);
    for (size_t index = 0; index < self->loose_count; index++) {
        batch_clear (self->loose [index]);
        free (self->loose [index]);
    }
    attach_destroy (&self->attach);
    if (!self->lends_joined)
        message_joined_destroy (&self->joined);
    free (self->ids);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

static tureen_batch_t *
s_free_loose (window_t *self)
{
    for (size_t index = 0; index < self->loose_count; index++)
        if (self->loose [index]->state == BATCH_FREE)
            return self->loose [index];
    if (self->loose_count == WINDOW_LOOSE_MAX)
        return NULL;
    size_t room = batch_room (message_joined_info (self->joined));
    tureen_batch_t *batch = calloc (1, sizeof *batch + room * sizeof *batch->ids);
    if (batch) {
        batch_init (batch, self->batches [0].handover, self, self->joined, (uint64_t *) (batch + 1), NULL);
        self->loose [self->loose_count++] = batch;
    }
    return batch;
}

tureen_batch_t *
window_free (window_t *self, uint32_t slot)
{
    assert (self->magic == WINDOW_MAGIC && (slot == WIRE_SLOT_NONE || slot < self->slots));
    tureen_batch_t *batch = slot == WIRE_SLOT_NONE? s_free_loose (self): &self->batches [slot];
    return batch && batch->state == BATCH_FREE? batch: NULL;
}

uint64_t
window_kept (const window_t *self)
{
    uint64_t kept = 0;
    for (uint32_t slot = 0; slot < self->slots; slot++) {
        const tureen_batch_t *batch = &self->batches [slot];
        if (batch->state == BATCH_GIVEN && batch->head.sequence < self->released)
            kept |= (uint64_t) 1 << slot;
    }
    return kept;
}
