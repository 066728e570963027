#include "inbound_message.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "tenant.h"

//  A larger frame is not copied.  A smaller one shares a buffer of ZeroMQ's with others, all of which would
//  be kept with it.
enum { COPIED_BYTES_MAX = 8192 };

static bool
s_is_copied (const frame_t *frame, const zmq_msg_t *messages)
{
    return !messages || frame->size <= COPIED_BYTES_MAX;
}

inbound_message_t *
inbound_message_keep (const inbound_message_t *self, zmq_msg_t *messages)
{
    size_t held = 0, bytes = 0;
    for (size_t index = 0; index < self->count; index++) {
        bool is_copied = s_is_copied (&self->frames [index], messages);
        bytes += is_copied? self->frames [index].size: 0;
        held += !is_copied;
    }
    //  One block: the message, its held ZeroMQ messages, its frames, their bytes.
    inbound_message_t *kept = malloc (sizeof *kept + held * sizeof *kept->held
        + self->count * sizeof *kept->frames + bytes);
    if (!kept)
        return NULL;
    *kept = *self;
    kept->held = (zmq_msg_t *) (void *) (kept + 1);
    kept->held_count = 0;
    frame_t *frames = (frame_t *) (void *) (kept->held + held);
    uint8_t *at = (uint8_t *) (frames + self->count);
    for (size_t index = 0; index < self->count; index++) {
        const frame_t *frame = &self->frames [index];
        if (s_is_copied (frame, messages)) {
            if (frame->size > 0)
                memcpy (at, frame->data, frame->size);
            frames [index] = (frame_t) { at, frame->size };
            at += frame->size;
            continue;
        }
        zmq_msg_t *message = &kept->held [kept->held_count++];
        zmq_msg_init (message);
        zmq_msg_move (message, &messages [index]);
        frames [index] = (frame_t) { zmq_msg_data (message), frame->size };
    }
    assert (kept->held_count == held);
    kept->frames = frames;
    return kept;
}

void
inbound_message_destroy (inbound_message_t **self_p)
{
    inbound_message_t *self = *self_p;
    if (!self)
        return;
    inbound_message_drop_frames (self);
    free (self);
    *self_p = NULL;
}

void
inbound_message_drop_frames (inbound_message_t *self)
{
    while (self->held_count > 0)
        zmq_msg_close (&self->held [--self->held_count]);
    self->frames = NULL;
    self->count = 0;
}

size_t
inbound_message_bytes (const inbound_message_t *self)
{
    size_t bytes = sizeof *self;
    for (size_t index = 0; index < self->count; index++)
        bytes += sizeof *self->frames + sizeof *self->held + self->frames [index].size;
    return bytes;
}

uint64_t
inbound_message_connection (const inbound_message_t *self)
{
    //  FNV-1a: a request with a colliding key only waits a little longer than it must.
    uint64_t hash = UINT64_C (0xcbf29ce484222325) ^ self->caller.user;
    for (size_t at = 0; at < self->peer.size; at++)
        hash = (hash ^ self->peer.bytes [at]) * UINT64_C (0x100000001b3);
    return hash ^ tenant_number (self->caller.tenant);
}
