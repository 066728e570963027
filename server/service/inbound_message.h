//  inbound_message -- one message from a client, with its user and connection: lent by the socket, or kept
//  until its turn comes.
#ifndef INBOUND_MESSAGE_H
#define INBOUND_MESSAGE_H
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "dataset.h"
#include "outbox.h"
#include "request.h"
#include "request_queue.h"
#include "tenants.h"

typedef struct inbound_message {
    waiting_t waiting;          //  first, so that it leads back here; of a kept message
    peer_t peer;
    caller_t caller;
    wire_head_t head;
    const frame_t *frames;      //  with the head's
    size_t count;
    zmq_msg_t *held;            //  of a kept message: the frames that were not copied
    size_t held_count;
} inbound_message_t;

//  A copy that lives until inbound_message_destroy.  messages (or NULL) are the ZeroMQ messages of the
//  frames, in their order: large ones are moved out of them.  NULL: no memory.
inbound_message_t *inbound_message_keep (const inbound_message_t *self, zmq_msg_t *messages);
void inbound_message_destroy (inbound_message_t **self_p);
//  Frees the frames of a kept message early, so that the time for it is not the broker's thread's.  Any
//  thread.
void inbound_message_drop_frames (inbound_message_t *self);

//  The bytes that keeping it takes.
size_t inbound_message_bytes (const inbound_message_t *self);
//  A key of the connection and its caller: two connections hardly ever have the same.
uint64_t inbound_message_connection (const inbound_message_t *self);

#endif
