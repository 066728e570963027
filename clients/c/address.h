/*  address -- a server's address: which one is meant, what is there when no server has answered, and how to
 *  start a server there.
 *
 *  A server's files show its state: the socket, and beside it the lock file with its process id and its
 *  parent's.  They are only read: taking the lock, even for a moment, would block a starting server.  The
 *  Python client has the same rules (clients/python/tureen/finding.py).
 */
#ifndef ADDRESS_H
#define ADDRESS_H
#include <stddef.h>
#include "message.h"

enum { ADDRESS_BYTES = 512, ADDRESS_HOW_BYTES = 320 };

//  given, or $TUREEN_ENDPOINT, or the default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or without a usable
//  runtime directory ipc:///tmp/tureen-UID/server.sock: the server's rule too (runtime_folder.h).  False: too
//  long, or of a transport that is neither ipc:// nor tcp://.
bool address_resolve (const char *given, char address [ADDRESS_BYTES], message_error_t *error);

typedef enum {
    ADDRESS_VACANT,             //  nothing listens there, or this user may not use it: waiting does not help
                                //  a single request
    ADDRESS_STARTING,           //  a server has locked the address and does not listen yet, or its supervisor
                                //  starts it again
    ADDRESS_IN_USE              //  something listens there
} address_use_t;

//  Looks at an address (address_resolve) and fills how with half a sentence on what is there.  For tcp:// it
//  connects, which takes a second at most if the name is known; call it only after ZeroMQ could not connect
//  (dealer_is_unreached).
address_use_t address_look (const char *address, char how [ADDRESS_HOW_BYTES]);
//  Whether it is an ipc:// address that is ADDRESS_STARTING; then how is filled.
bool address_is_starting (const char *address, char how [ADDRESS_HOW_BYTES]);

//  The sentence for "no server answers".  Returns false.
bool address_fail (const char *address, int timeout_ms, message_error_t *error);
//  The same for an address without a server, at once; how: of address_look.
bool address_absent (const char *address, const char *how, message_error_t *error);

#endif
