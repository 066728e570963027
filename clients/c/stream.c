#include "stream.h"
#include <inttypes.h>
#include <string.h>

void
stream_begin (stream_t *self, const message_joined_t *joined)
{
    self->before += self->sequence;
    self->sequence = 0;
    self->joined = joined;
}

//  Frame 2, which may lie at any address: marks the ids as received.
static bool
s_take_ids (stream_t *self, const uint8_t *frame, uint32_t count)
{
    //  A few at a time: the array is ours and aligned.
    uint64_t ids [64];
    bool fine = true;
    for (uint32_t done = 0; done < count; done += 64) {
        uint32_t part = count - done < 64? count - done: 64;
        memcpy (ids, frame + done * sizeof *ids, part * sizeof *ids);
        fine &= course_take (self->received, ids, part);
    }
    course_end_batch (self->received);
    return fine;
}

bool
stream_take_batch (stream_t *self, dealer_message_t *message, message_error_t *error)
{
    wire_batch_t batch;
    if (!message_read_batch (message->frames, message->count, self->joined, &batch, error))
        return false;
    if (self->last || batch.sequence != self->sequence || batch.epoch != course_epoch (self->received)
    ||  batch.index != course_batches (self->received))
        return message_fail (error, "the server sent a batch out of its order");
    bool inlined = batch.flags & WIRE_BATCH_INLINE;
    if (!s_take_ids (self, message->frames [2].data, batch.count))
        return message_fail (error, "the server sent a sample that is none of the epoch's, or twice");
    if (!handover_put_batch (self->handover, &batch, message->frames [2].data, inlined? &message->parts [3]: NULL))
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
    bool known = course_samples (self->received, &samples);
    if (self->last || epoch_end.epoch != course_epoch (self->received)
    ||  epoch_end.batches != course_batches (self->received) || (known && epoch_end.samples != samples))
        return message_fail (error, "the server ended an epoch with other figures than its batches have");
    course_end_epoch (self->received);
    self->last = epoch_end.flags & WIRE_EPOCH_LAST;
    handover_put_epoch_end (self->handover, &epoch_end);
    return true;
}
