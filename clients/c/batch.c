#include "batch.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "window.h"

//  No element of an array is longer than 8 bytes, and ZeroMQ puts the bytes of a large message at a multiple
//  of 8 that is none of 16.
enum { BATCH_ALIGNMENT = 64, BATCH_ALIGNMENT_LEAST = 8 };

size_t
batch_room (const tureen_info_t *info)
{
    return info->world_size == 1? info->batch_size: ((size_t) info->world_size + 1) * info->batch_size;
}

void
batch_init (tureen_batch_t *self, handover_t *handover, window_t *window, const message_joined_t *joined,
    uint64_t *ids, uint8_t *ring)
{
    assert (self && self->magic == 0);
    self->magic = BATCH_MAGIC_IDLE;
    self->handover = handover;
    self->window = window;
    self->info = message_joined_info (joined);
    self->ids = ids;
    self->step = self->info->world_size == 1? ids: ids + self->info->batch_size;
    self->ring = ring;
    self->slot_bytes = message_joined_slot_bytes (joined);
    zmq_msg_init (&self->message);
}

//  ZeroMQ may hand out a message in the middle of its receive buffer, at any address; arrays need a better
//  one.
static bool
s_take_payload (tureen_batch_t *self, zmq_msg_t *payload)
{
    uint8_t *data = zmq_msg_data (payload);
    if ((uintptr_t) data % BATCH_ALIGNMENT_LEAST == 0) {
        zmq_msg_move (&self->message, payload);
        self->data = zmq_msg_data (&self->message);
        return true;
    }
    void *copy;
    if (posix_memalign (&copy, BATCH_ALIGNMENT, self->slot_bytes))
        return false;
    memcpy (copy, data, self->slot_bytes);
    self->copy = self->data = copy;
    return true;
}

bool
batch_fill (tureen_batch_t *self, const message_batch_t *from, zmq_msg_t *payload)
{
    assert (self->magic == BATCH_MAGIC_IDLE && !self->copy);
    self->data = self->ring;
    if (payload && !s_take_payload (self, payload))
        return false;
    assert (self->data);
    self->head = from->head;
    self->sequence = self->window->sequence_base + from->head.sequence;
    memcpy (self->ids, from->ids, from->head.count * sizeof *self->ids);
    self->step_count = from->step_count;
    if (self->step != self->ids)
        memcpy (self->step, from->step, from->step_count * sizeof *self->step);
    return true;
}

void
batch_clear (tureen_batch_t *self)
{
    zmq_msg_close (&self->message);
    zmq_msg_init (&self->message);
    free (self->copy);
    self->copy = self->data = NULL;
}

//  --------------------------------------------------------------------------
//  The user's view

uint64_t
tureen_batch_epoch (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.epoch;
}

uint64_t
tureen_batch_index (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.index;
}

uint64_t
tureen_batch_sequence (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->sequence;
}

size_t
tureen_batch_count (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.count;
}

const uint64_t *
tureen_batch_ids (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->ids;
}

bool
tureen_batch_padding (const tureen_batch_t *self)
{
    assert (self && self->magic == BATCH_MAGIC);
    return self->head.flags & WIRE_BATCH_PADDING;
}

static const tureen_field_t *
s_find_field (const tureen_batch_t *self, const char *name)
{
    for (size_t index = 0; index < self->info->field_count; index++)
        if (!strcmp (self->info->fields [index].name, name))
            return &self->info->fields [index];
    return NULL;
}

bool
tureen_batch_array (const tureen_batch_t *self, const char *name, tureen_array_t *array)
{
    assert (self && self->magic == BATCH_MAGIC && name && array);
    memset (array, 0, sizeof *array);
    const tureen_field_t *field = s_find_field (self, name);
    if (!field)
        return false;
    array->data = self->data + field->offset;
    array->dtype = field->dtype;
    array->dimensions = field->dimensions + 1;
    array->shape [0] = self->head.count;
    memcpy (array->shape + 1, field->shape, field->dimensions * sizeof *field->shape);
    array->bytes = self->head.count * field->sample_bytes;
    return true;
}

bool
tureen_batch_ragged (const tureen_batch_t *self, const char *name, void *values, int64_t *offsets)
{
    assert (self && self->magic == BATCH_MAGIC && name && offsets);
    const tureen_field_t *field = s_find_field (self, name);
    if (!field || !field->lengths)
        return false;
    const int64_t *lengths = (const int64_t *) (const void *) (self->data
        + s_find_field (self, field->lengths)->offset);
    size_t row_bytes = field->sample_bytes / field->shape [0];
    offsets [0] = 0;
    for (size_t sample = 0; sample < self->head.count; sample++) {
        //  The user may have written there, and a server is not believed.
        int64_t most = (int64_t) field->shape [0], length = lengths [sample];
        length = length < 0? 0: length > most? most: length;
        offsets [sample + 1] = offsets [sample] + length;
        if (values && length)
            memcpy ((uint8_t *) values + (size_t) offsets [sample] * row_bytes,
                self->data + field->offset + sample * field->sample_bytes, (size_t) length * row_bytes);
    }
    return true;
}

void
tureen_batch_release (tureen_batch_t **self_p)
{
    assert (self_p);
    tureen_batch_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == BATCH_MAGIC);
    *self_p = NULL;
    handover_release (self->handover, self);
}
