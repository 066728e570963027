/*  presence -- what is at an endpoint where no server has answered.
 *
 *  A server's files show its state: the socket, and beside it the lock file with its process id and its
 *  parent's.  They are only read: taking the lock, even for a moment, would block a starting server.  The
 *  Python client has the same rules (clients/python/tureen/finding.py).
 */
#ifndef PRESENCE_H
#define PRESENCE_H
#include <stdbool.h>

enum { PRESENCE_BYTES = 320 };

typedef enum {
    PRESENCE_NONE,              //  nothing listens there, or this user may not use it: waiting does not help
                                //  a single question
    PRESENCE_STARTING,          //  a server has locked the endpoint and does not listen yet, or its
                                //  supervisor starts it again
    PRESENCE_SOMETHING          //  something listens there
} presence_t;

//  Looks at address (address_resolve) and fills text with half a sentence on what is there.  For tcp:// it
//  connects, which takes a second at most if the name is known; call it only after ZeroMQ could not connect
//  (dealer_is_unreached).
presence_t presence_look (const char *address, char text [PRESENCE_BYTES]);
//  Whether there is PRESENCE_STARTING at an ipc:// address; then text is filled.
bool presence_is_starting (const char *address, char text [PRESENCE_BYTES]);

#endif
