/*  connection_limit -- who is connected to the server's ipc socket, and that nobody has more than its share
 *  of connections.
 *
 *  ZeroMQ accepts whoever can connect, keeps each connection for as long as the peer likes, and does not say
 *  whose it is; and libzmq 4.3.4 aborts the process when an ipc socket cannot accept for want of descriptors.
 *  So the process looks through its own descriptors: a connection that was accepted at a path has that path
 *  as its name, and the kernel knows who made it.  Of those who have too many the youngest connections (by
 *  the receive quota: receive_quota.h) are shut down, which for ZeroMQ is as if the peer had closed them.
 *
 *  happy path:   a look about twice a second, sooner while many come.
 *  failure:      what cannot be looked at is left alone until the next look.  All descriptors can be taken
 *                between two looks:
 *                then ZeroMQ accepts nobody until there are some again (syscalls.c).
 *
 *  Invariants:
 *    W1  nothing but a connection that was accepted at path is shut down, whatever other threads open and
 *        close meanwhile: it is looked at once more by a descriptor of our own before.
 *    W2  a look needs no descriptor that it does not have from birth.
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
    CONNECTION_LIMIT_SOON_MS = 20,             //  after a look that shut some, found CONNECTION_LIMIT_MANY
                                               //  new ones, or few descriptors left
    CONNECTION_LIMIT_MANY = 16,
    CONNECTION_LIMIT_LEFT_PART = 4,            //  "few": less than a fourth
    CONNECTION_LIMIT_DESCRIPTORS_A_MS = 25     //  a look costs a microsecond or two for each, and may be some
                                               //  percent of the time
};

//  The most connections that this user may have together with those of the same *group_p (a pointer that
//  stands for them; NULL:
//  with nobody else).  SIZE_MAX: any number.
typedef size_t connection_limit_rule_t (void *context, uid_t uid, const void **group_p);

//  path: of the socket at which connections are accepted; copied.  NULL: there is none, and descriptors are
//  only counted.
//  0, or -errno with *self_p NULL.
int connection_limit_new (connection_limit_t **self_p, const char *path, connection_limit_rule_t *rule,
    void *context);
void connection_limit_destroy (connection_limit_t **self_p);

//  Looks, if it is time.  Returns how many connections it shut down.
size_t connection_limit_look (connection_limit_t *self, int64_t now_ms);
//  When it wants to be called again.
int64_t connection_limit_due_ms (const connection_limit_t *self);

//  As of the last look: descriptors that the process has open, and how many it may have; connections at path;
//  and how many of those were shut down since birth.
size_t connection_limit_descriptors (const connection_limit_t *self);
size_t connection_limit_descriptors_max (const connection_limit_t *self);
size_t connection_limit_connections (const connection_limit_t *self);
uint64_t connection_limit_turned_away (const connection_limit_t *self);
//  Whose connection was the last that was shut down.
uid_t connection_limit_last (const connection_limit_t *self);

#endif
