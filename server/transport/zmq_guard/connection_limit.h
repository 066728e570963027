/*  connection_limit -- keeps each user's connections to the server's ipc socket within its share.
 *
 *  ZeroMQ accepts every peer, keeps each connection as long as the peer likes, and does not tell which user
 *  made it.  libzmq 4.3.4 aborts the process when an ipc socket cannot accept for lack of descriptors.  So
 *  the server looks through its own descriptors: a connection that was accepted at a path has that path as
 *  its name, and the kernel knows its user.  If a user has too many connections, the youngest of them (by
 *  receive_quota.h) are shut down, which ZeroMQ sees as a close by the peer.
 *
 *  happy path:   a look about twice a second, sooner while many connections come.
 *  failure:      a descriptor that cannot be examined is left alone until the next look.  If all descriptors
 *                are taken between two looks, ZeroMQ accepts no peer until some are free (libc_interpose.c).
 *
 *  Invariants:
 *    W1  only connections that were accepted at path are shut down, whatever other threads open and close
 *        meanwhile: the look duplicates a descriptor and checks it once more before.
 *    W2  a look opens no descriptor: it has all that it needs from the start.
 *  Owner: the broker's thread.
 */
#ifndef CONNECTION_LIMIT_H
#define CONNECTION_LIMIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct connection_limit connection_limit_t;

enum {
    CONNECTION_LIMIT_LOOK_MS = 500,
    CONNECTION_LIMIT_SOON_MS = 20,              //  after a look that shut some, found CONNECTION_LIMIT_MANY
                                               //  new ones, or few descriptors left
    CONNECTION_LIMIT_MANY = 16,
    CONNECTION_LIMIT_LEFT_PART = 4,             //  "few": less than a fourth
    CONNECTION_LIMIT_DESCRIPTORS_A_MS = 25  //  a look costs a microsecond or two for each, and may be some
                                               //  percent of the time
};

//  The connection limit of this user, together with the users of the same *group_p (any pointer; NULL: the
//  user alone).  SIZE_MAX: no limit.
typedef size_t connection_limit_rule_t (void *context, uid_t uid, const void **group_p);

//  path: of the socket that accepts connections; copied.  NULL: no such socket, descriptors are only counted.
//  0, or -errno with *self_p NULL.
int connection_limit_new (connection_limit_t **self_p, const char *path, connection_limit_rule_t *rule,
    void *context);
void connection_limit_destroy (connection_limit_t **self_p);

//  Looks, if a look is due.  Returns how many connections it shut down.
size_t connection_limit_look (connection_limit_t *self, int64_t now_ms);
//  When to call connection_limit_look again.
int64_t connection_limit_due_ms (const connection_limit_t *self);

//  As of the last look: the process's open descriptors, and their limit; connections at path; and how many of
//  these were shut down since the start.
size_t connection_limit_descriptors (const connection_limit_t *self);
size_t connection_limit_descriptors_max (const connection_limit_t *self);
size_t connection_limit_connections (const connection_limit_t *self);
uint64_t connection_limit_turned_away (const connection_limit_t *self);
//  The user of the last connection that was shut down.
uid_t connection_limit_last (const connection_limit_t *self);

#endif
