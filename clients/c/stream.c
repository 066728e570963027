#include "stream.h"
#include <inttypes.h>
#include <string.h>

void
stream_begin (stream_t *self, const message_joined_t *joined)
{
    self->before += self->sequence;
    self->sequence = 0;
    self->joined = joined;
    const tureen_info_t *info = message_joined_info (joined);
    self->recent.world_size = info->world_size;
    self->recent.steps_max = info->slots + 1;
}

void
stream_clear (stream_t *self)
{
    recent_steps_clear (&self->recent);
}

//  Marks the step's ids as received: with ranks, those of the others too.
static bool
s_take_ids (stream_t *self, const message_batch_t *batch)
{
    //  A few at a time: the array is ours and aligned.
    uint64_t ids [64];
    bool fine = true;
    for (size_t done = 0; done < batch->step_count; done += 64) {
        size_t part = batch->step_count - done < 64? batch->step_count - done: 64;
        memcpy (ids, batch->step + done * sizeof *ids, part * sizeof *ids);
        fine &= position_take (self->received, ids, part);
    }
    position_end_batch (self->received);
    return fine;
}

bool
stream_take_batch (stream_t *self, dealer_message_t *message, message_error_t *error)
{
    message_batch_t batch;
    if (!message_read_batch (message->frames, message->count, self->joined, &batch, error))
        return false;
    const wire_batch_t *head = &batch.head;
    if (self->last || head->sequence != self->sequence || head->epoch != position_epoch (self->received)
    ||  head->index != position_batches (self->received))
        return message_fail (error, "the server sent a batch out of its order");
    if (!s_take_ids (self, &batch))
        return message_fail (error, "the server sent a sample that is none of the epoch's, or twice");
    //  The frame with the bytes is moved from; the ids lie in others.
    if (!recent_steps_add (&self->recent, &batch)
    ||  !batch_queue_put_batch (self->batches, &batch, batch.payload? &message->parts [batch.payload]: NULL))
        return message_fail (error, "the server sent a batch into a slot that is not free, or memory is out");
    self->sequence++;
    return true;
}

bool
stream_take_epoch_end (stream_t *self, const dealer_message_t *message, message_error_t *error)
{
    wire_epoch_end_t epoch_end;
    uint64_t samples;
    if (!message_read_epoch_end (message->frames, message->count, &epoch_end, error))
        return false;
    bool known = position_samples (self->received, &samples);
    if (self->last || epoch_end.epoch != position_epoch (self->received)
    ||  epoch_end.batches != position_batches (self->received) || (known && epoch_end.samples != samples))
        return message_fail (error, "the server ended an epoch with other figures than its batches have");
    if (!recent_steps_add_end (&self->recent, &epoch_end))
        return message_fail (error, "out of memory for an epoch's end");
    position_end_epoch (self->received);
    self->last = epoch_end.flags & WIRE_EPOCH_LAST;
    batch_queue_put_epoch_end (self->batches, &epoch_end);
    return true;
}
