/*  endpoint -- where a server listens: the default, the lock that makes it the only one, the files beside it.
 *
 *  A server holds flock on a lock file before it binds, because an ipc bind silently takes over the path of a
 *  live server.  ipc://PATH is locked at PATH.lock; tcp:// at a file in the runtime directory.  A stale lock
 *  or socket (of a dead server) is taken over, a live one never.
 *
 *  Access:
 *    ipc, alone    the folder and the sockets are this user's (0700, 0600).  A folder of the user's choice
 *                  may be readable for other users, and the default folder may be open to a group since an
 *                  earlier server; the sockets are not.
 *    ipc, group    the group may enter the folder (0750); the sockets are 0660 and the group's.
 *    tcp           every peer that reaches the port: with keys, or open on an address of this host alone;
 *                  otherwise the endpoint is refused.
 *  No file ever has wider access than in the end: it is made 0700 or 0600, then given to the group, then
 *  opened for it.
 */
#ifndef ENDPOINT_H
#define ENDPOINT_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct endpoint endpoint_t;

//  The clients to be served.
typedef struct {
    bool open;                  //  every peer that can connect
    bool keys;                  //  peers with a key
    bool users;                 //  users of this machine beside our own
    bool is_one_of_two;         //  the server listens on ipc and on tcp: users come by the one, keys by the
                                //  other, and tcp needs no files: the lock and the ring's socket are of ipc
    const char *group;          //  its members may reach the sockets, group_id is its number; NULL: only our
                                //  own user may
    gid_t group_id;
} endpoint_access_t;

//  The default endpoint, the same for server and client: ipc://$XDG_RUNTIME_DIR/tureen/server.sock, or
//  without a usable runtime directory ipc:///tmp/tureen-UID/server.sock.  Usable: absolute, a directory, this
//  user's, writable.  buffer is always terminated.  0, or -ENAMETOOLONG.
int endpoint_default (char *buffer, size_t size);

//  Claims text (ipc:// or tcp://; NULL: the default) for the clients in access (NULL: our own user).  Makes
//  the directory (0700; 0750 for a group) of the default endpoint and of a tcp endpoint's files.  Refuses a
//  directory of another owner or one that other users may write (unless sticky and the file is ours).  Takes
//  the lock.  0 and *self_p; or -errno, and in error a sentence with the remedy: a live server holds it
//  (-EADDRINUSE, with its process id if the lock file has it), path too long for a socket (with the limit),
//  no such directory, an unknown transport, a port that is no number; -EACCES: an access that is impossible
//  or could not be guarded.  A missing lock file does not prove that the server is dead: a socket that
//  answers is a live server's, too.
int endpoint_claim (endpoint_t **self_p, const char *text, const endpoint_access_t *access, char *error,
    size_t error_bytes);
//  Call it when both sockets of an ipc endpoint listen: gives the group access, if there is one.  0; or
//  -errno and a sentence.
int endpoint_share (const endpoint_t *self, char *error, size_t error_bytes);
//  Unlocks, removes lock file, socket files and a directory that it made (if empty).  *self_p may be NULL.
void endpoint_destroy (endpoint_t **self_p);

//  The endpoint for ZeroMQ's bind, which does not resolve names (tcp://localhost becomes 127.0.0.1); lent.
const char *endpoint_text (const endpoint_t *self);
//  The path of the ring server's socket: PATH.ring beside the ipc socket, or in the runtime directory.  Lent.
const char *endpoint_ring_path (const endpoint_t *self);

#endif
