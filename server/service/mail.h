/*  mail -- one message from a client, with all that is known of whose it is; lent by the socket, or kept until its turn comes.  */
#ifndef MAIL_H
#define MAIL_H
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "caller.h"
#include "outbox.h"
#include "request.h"
#include "waiting_room.h"

typedef struct {
    waiting_t waiting;          //  first: the way back from it; of kept mail
    peer_t peer;
    caller_t caller;
    wire_head_t head;
    const frame_t *frames;      //  with the head's
    size_t count;
    zmq_msg_t *held;            //  of kept mail: the frames that were not copied
    size_t held_count;
} mail_t;

//  A copy that stays until mail_destroy.  messages, unless NULL, are those that the frames lie in, in their order: large ones are
//  taken out of them.  NULL: no memory.
mail_t *mail_keep (const mail_t *self, zmq_msg_t *messages);
void mail_destroy (mail_t **self_p);
//  Of kept mail: its frames go before it does; what giving them back takes is not the broker's thread's then.  Any thread.
void mail_drop_frames (mail_t *self);

//  What keeping it costs.
size_t mail_bytes (const mail_t *self);
//  Stands for the connection and whose it is: another one's hardly has the same.
uint64_t mail_connection (const mail_t *self);

#endif
