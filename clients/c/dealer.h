/*  dealer -- one DEALER socket, with a monitor for the loss of its connection, and for what came of the
 *  handshake.
 *
 *  Sends never block and receives never block; who owns it polls.  Sent whole or not at all.
 *  Owner: one thread.
 */
#ifndef DEALER_H
#define DEALER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "credentials.h"
#include "message.h"
#include "wire.h"

typedef struct dealer dealer_t;

//  context: of dealer_begin_context, lent; NULL: there is none.  Each is two threads, so whoever makes one
//  dealer after the other keeps it.  credentials: lent for the call, but for the public key, which is copied;
//  without keys the connection is open.  0; or -errno with error filled (an address that ZeroMQ does not
//  take, no descriptors).
int dealer_new (dealer_t **self_p, void *context, const char *address, const credentials_t *credentials,
    message_error_t *error) TUREEN_CHECKED;
void dealer_destroy (dealer_t **self_p);
//  A context for dealers, to be ended by dealer_end_context.  NULL: no memory, or the two threads that it
//  takes cannot be started; dealer_new says so.
void *dealer_begin_context (void);
//  Ends a context whose dealers are destroyed; NULL inside is fine.
void dealer_end_context (void **context_p);

//  Two entries for zmq_poll: the socket, and its monitor.
enum { DEALER_POLL_ITEMS = 2 };
void dealer_poll_items (const dealer_t *self, zmq_pollitem_t items [DEALER_POLL_ITEMS]);

//  Sends a head and count frames.  False: there is no room now.
bool dealer_send (dealer_t *self, const wire_head_t *head, const message_frame_t *frames, size_t count);

//  A message received: frames lent until the next receive.  More than MESSAGE_FRAMES_MAX frames: count
//  tells, the rest is lost.
typedef struct {
    message_frame_t frames [MESSAGE_FRAMES_MAX];
    zmq_msg_t parts [MESSAGE_FRAMES_MAX];
    size_t count;
} dealer_message_t;
//  False: nothing there.
bool dealer_receive (dealer_t *self, dealer_message_t *message);
//  Before the first receive, and after the last.
void dealer_message_init (dealer_message_t *message);
void dealer_message_clear (dealer_message_t *message);

//  Has an established connection been lost?  Was there one at all?  Both read the monitor.  One whose
//  handshake failed was none.
bool dealer_is_lost (dealer_t *self);
bool dealer_was_connected (dealer_t *self);

//  Has a try to connect come to nothing, and no connection been made?  Reads the monitor; each try is told
//  once.
bool dealer_is_unreached (dealer_t *self);

//  What came of the handshake.  Reads the monitor.
typedef enum {
    DEALER_WELCOME,                 //  nothing bad so far
    DEALER_SHUT_OUT,                //  the one has keys and the other not, or it is another server: as long
                                    //  as neither changes
    DEALER_REFUSED                  //  the server does not know this client, or has revoked its key
} dealer_welcome_t;
//  why: filled unless DEALER_WELCOME.
dealer_welcome_t dealer_welcome (dealer_t *self, message_error_t *why);

//  Milliseconds of a clock that only goes on.
int64_t dealer_now_ms (void);

#endif
