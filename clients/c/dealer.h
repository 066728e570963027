/*  dealer -- one DEALER socket, with a monitor for the loss of its connection, and for what came of the
 *  handshake.
 *
 *  Sends and receives never block; the owner polls.  A message is sent whole or not at all.  Owner: one
 *  thread.
 */
#ifndef DEALER_H
#define DEALER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>
#include "credentials.h"
#include "message.h"
#include "wire.h"

typedef struct dealer dealer_t;

//  context: from dealer_begin_context, lent; NULL: none.  Each has two threads, so a caller that makes one
//  dealer after the other keeps it.  credentials: lent for the call, except the public key, which is copied;
//  without keys the connection is open.  0; or -errno with error filled (an address that ZeroMQ refuses, no
//  descriptors); -EPERM: what listens there may be another user's (trust.h).
int dealer_new (dealer_t **self_p, void *context, const char *address, const credentials_t *credentials,
    message_error_t *error) TUREEN_CHECKED;
void dealer_destroy (dealer_t **self_p);
//  A context for dealers, to be ended by dealer_end_context.  NULL: no memory, or its two threads cannot be
//  started; dealer_new reports it.
void *dealer_begin_context (void);
//  Ends a context after its dealers were destroyed; NULL inside is fine.
void dealer_end_context (void **context_p);

//  Two entries for zmq_poll: the socket, and its monitor.
enum { DEALER_POLL_ITEMS = 2 };
void dealer_poll_items (const dealer_t *self, zmq_pollitem_t items [DEALER_POLL_ITEMS]);

//  Sends a head and count frames.  False: no room now; or ZeroMQ has given the connection up, since the
//  server does not let us in, and dealer_welcome tells why.
bool dealer_send (dealer_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count);

//  A message received: frames lent until the next receive.  More than MESSAGE_FRAMES_MAX frames: count has
//  their number, the rest is lost.
typedef struct {
    message_frame_t frames [MESSAGE_FRAMES_MAX];
    zmq_msg_t parts [MESSAGE_FRAMES_MAX];
    size_t count;
} dealer_message_t;
//  False: no message.  Messages of a server that is not trusted are dropped; dealer_welcome tells.
bool dealer_receive (dealer_t *self, dealer_message_t *message);
//  Before the first receive, and after the last.
void dealer_message_init (dealer_message_t *message);
void dealer_message_clear (dealer_message_t *message);

//  Whether an established connection was lost; whether there ever was one.  Both read the monitor.  A
//  connection with a failed handshake does not count.
bool dealer_is_lost (dealer_t *self);
bool dealer_was_connected (dealer_t *self);

//  Whether a try to connect failed, and there was no connection.  Reads the monitor; reports each try once.
bool dealer_is_unreached (dealer_t *self);

//  The result of the handshake.  Reads the monitor.
typedef enum {
    DEALER_WELCOME,                 //  nothing bad so far
    DEALER_SHUT_OUT,                //  only one side has keys, or it is another server; permanent unless a
                                    //  side changes
    DEALER_REFUSED                  //  the server does not know this client, or has revoked its key; or this
                                    //  client does not trust the server
} dealer_welcome_t;
//  why: filled unless DEALER_WELCOME.
dealer_welcome_t dealer_welcome (dealer_t *self, message_error_t *why);

//  The user that runs the server at an ipc:// address; TRUST_NOBODY: it is another machine's, or unknown.
uid_t dealer_peer (const dealer_t *self);

//  Milliseconds of a monotonic clock.
int64_t dealer_now_ms (void);

#endif
