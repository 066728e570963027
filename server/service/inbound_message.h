/*  inbound_message -- one message from a client, with all that is known of whose it is; lent by the socket,
 *  or kept until its turn comes.  */
#ifndef INBOUND_MESSAGE_H
#define INBOUND_MESSAGE_H
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "caller.h"
#include "outbox.h"
#include "request.h"
#include "request_queue.h"

typedef struct {
    waiting_t waiting;          //  first: the way back from it; of kept mail
    peer_t peer;
    caller_t caller;
    wire_head_t head;
    const frame_t *frames;      //  with the head's
    size_t count;
    zmq_msg_t *held;            //  of kept mail: the frames that were not copied
    size_t held_count;
} inbound_message_t;

//  A copy that stays until inbound_message_destroy.  messages, unless NULL, are those that the frames lie in,
//  in their order: large ones are taken out of them.  NULL: no memory.
inbound_message_t *inbound_message_keep (const inbound_message_t *self, zmq_msg_t *messages);
void inbound_message_destroy (inbound_message_t **self_p);
//  Of kept mail: its frames go before it does; what giving them back takes is not the broker's thread's then.
//  Any thread.
void inbound_message_drop_frames (inbound_message_t *self);

//  What keeping it costs.
size_t inbound_message_bytes (const inbound_message_t *self);
//  Stands for the connection and whose it is: another one's hardly has the same.
uint64_t inbound_message_connection (const inbound_message_t *self);

#endif
