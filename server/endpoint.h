/*  endpoint -- where a server listens: the default, the lock that makes it the only one, the files beside it.
 *
 *  A server holds flock on a lock file before it binds, because an ipc bind silently takes over the path of a
 *  live server.  ipc://PATH is locked at PATH.lock; tcp:// at a file in the runtime directory.  A stale lock
 *  or socket (of a dead server) is taken over; a live one never.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H
#include <stdbool.h>
#include <stddef.h>

typedef struct endpoint endpoint_t;

//  The default endpoint, the same for server and client: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or where
//  there is no usable runtime directory ipc:///tmp/tureen-UID/server.sock.  Usable: absolute, a
//  directory, this user's, writable.  buffer is always ended.  0, or -ENAMETOOLONG.
int endpoint_default (char *buffer, size_t size);

//  Claims text (ipc:// or tcp://; NULL: the default): makes the directory (0700) of the default endpoint and
//  of a tcp endpoint's files, refuses a directory of another owner or one that others may write (unless
//  sticky and the file is ours), takes the lock.  0 and *self_p; or -errno and in error a sentence with the
//  remedy: a live server holds it (-EADDRINUSE, naming its process id where the lock file tells it), path too
//  long for a socket (the limit named), no such directory, an unknown transport, a port that is no number.
//  A lock file that is gone is no proof of death: a socket that answers is a live server's too.
int endpoint_claim (endpoint_t **self_p, const char *text, char *error, size_t error_bytes);
//  Unlocks, removes lock file, socket files and a directory it made (if empty).  NULL inside is fine.
void endpoint_destroy (endpoint_t **self_p);

//  The endpoint as ZeroMQ takes it when it binds (tcp://localhost is no name for it: 127.0.0.1 then); lent.
const char *endpoint_text (const endpoint_t *self);
//  Where the Unix socket that hands out rings goes: PATH.ring beside the ipc socket, or in the runtime
//  directory.  Lent.
const char *endpoint_ring_path (const endpoint_t *self);
//  tcp on an address that is not loopback: anyone who reaches it can connect.
bool endpoint_is_open (const endpoint_t *self);

#endif
