/*  address -- the server's address if none is given; and how to start a server there.  */
#ifndef ADDRESS_H
#define ADDRESS_H
#include <stddef.h>
#include "message.h"

enum { ADDRESS_BYTES = 512 };

//  given, or $TUREEN_ENDPOINT, or the default: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or without a usable
//  runtime directory ipc:///tmp/tureen-UID/server.sock: the server's rule too (runtime_folder.h).  False: too
//  long, or of a transport that is neither ipc:// nor tcp://.
bool address_resolve (const char *given, char address [ADDRESS_BYTES], message_error_t *error);
//  The sentence for "no server answers".  Returns false.
bool address_fail (const char *address, int timeout_ms, message_error_t *error);
//  The same for an endpoint without a server, at once; how: half a sentence (presence.h).
bool address_absent (const char *address, const char *how, message_error_t *error);

#endif
