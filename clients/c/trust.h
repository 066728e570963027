/*  trust -- whether this user may believe what listens at a path.
 *
 *  ZeroMQ connects to any socket with the right name.  In /tmp, and in every other folder where several users
 *  may make files, another user can make that name first, and would then give us its own batches.  So:
 *
 *    the path    in a folder where others may write, an entry counts only if it belongs to this user, to
 *                root or to the folder's owner; or if it is the default folder /tmp/tureen-UID of the user
 *                UID, named by the one that gave the path.  This holds for each folder on the way and for
 *                each link.  In the folder of the socket itself no other user may be able to replace it.
 *    the peer    the process that listens, as the kernel reports it (SO_PEERCRED), is this user's or root's,
 *                or belongs to the owner of the socket or of its folder, which the first rule has checked.
 *
 *  A path of which a part does not exist (yet) is not refused: there is nothing to believe.  So the owner
 *  looks before it connects and again at each connection, and no other user can change the answer between:
 *  what belongs to us in a sticky folder stays there.  The default folder /tmp/tureen-UID of this user is
 *  made before it is looked at: another user would else make it while the client waits for its server, and
 *  hear what it asks.  The server leaves that folder there when it ends.  The Python client has the same
 *  rules (clients/python/tureen/trust.py).  Owner: any thread.
 */
#ifndef TRUST_H
#define TRUST_H
#include <sys/types.h>
#include "message.h"

//  No user: a connection that is not of this machine, or one that was closed before it was looked at.
#define TRUST_NOBODY ((uid_t) -1)

//  Whether it is this user or root.
bool trust_is_ours (uid_t user);
//  Looks at the path of a socket, before the first connection.  *closed_p: from now on only trusted users can
//  listen there.  False: error names the place, its owner and the remedy.
bool trust_path (const char *path, bool *closed_p, message_error_t *error);
//  The user that listens at the other end of a Unix socket; TRUST_NOBODY: unknown.
uid_t trust_peer (int descriptor);
//  Looks at the path, and whether the user peer may listen there.
bool trust_listener (const char *path, uid_t peer, message_error_t *error);
//  Opens a small file beside the socket for reading: a regular one, of this user, of root or of the owner of
//  its folder.  Never blocks.  A descriptor, or -errno.
int trust_open (const char *path);

#endif
