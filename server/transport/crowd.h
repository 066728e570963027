/*  crowd -- who is connected to the server's ipc socket, and that nobody has more than its share of connections.
 *
 *  ZeroMQ accepts whoever can connect, keeps each connection for as long as the peer likes, and does not say whose it is; and
 *  libzmq 4.3.4 aborts the process when an ipc socket cannot accept for want of descriptors.  So the process looks through its
 *  own descriptors: a connection that was accepted at a path has that path as its name, and the kernel knows who made it.  Of those
 *  who have too many the youngest connections (by the ledger: ledger.h) are shut down, which for ZeroMQ is as if the peer had closed
 *  them.
 *
 *  happy path:   a look about twice a second, sooner while many come.
 *  failure:      what cannot be looked at is left alone until the next look.  All descriptors can be taken between two looks:
 *                then ZeroMQ accepts nobody until there are some again (syscalls.c).
 *
 *  Invariants:
 *    W1  nothing but a connection that was accepted at path is shut down, whatever other threads open and close meanwhile: it is
 *        looked at once more by a descriptor of our own before.
 *    W2  a look needs no descriptor that it does not have from birth.
 *  Owner: the broker's thread.
 */
#ifndef CROWD_H
#define CROWD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct crowd crowd_t;

enum {
    CROWD_LOOK_MS = 500,
    CROWD_SOON_MS = 20,             //  after a look that shut some, found CROWD_MANY new ones, or few descriptors left
    CROWD_MANY = 16,
    CROWD_LEFT_PART = 4,            //  "few": less than a fourth
    CROWD_DESCRIPTORS_A_MS = 25     //  a look costs a microsecond or two for each, and may be some percent of the time
};

//  The most connections that this user may have together with those of the same *group_p (a pointer that stands for them; NULL:
//  with nobody else).  SIZE_MAX: any number.
typedef size_t crowd_rule_t (void *context, uid_t uid, const void **group_p);

//  path: of the socket at which connections are accepted; copied.  NULL: there is none, and descriptors are only counted.
//  0, or -errno with *self_p NULL.
int crowd_new (crowd_t **self_p, const char *path, crowd_rule_t *rule, void *context);
void crowd_destroy (crowd_t **self_p);

//  Looks, if it is time.  Returns how many connections it shut down.
size_t crowd_look (crowd_t *self, int64_t now_ms);
//  When it wants to be called again.
int64_t crowd_due_ms (const crowd_t *self);

//  As of the last look: descriptors that the process has open, and how many it may have; connections at path; and how many of those
//  were shut down since birth.
size_t crowd_descriptors (const crowd_t *self);
size_t crowd_descriptors_max (const crowd_t *self);
size_t crowd_connections (const crowd_t *self);
uint64_t crowd_turned_away (const crowd_t *self);
//  Whose connection was the last that was shut down.
uid_t crowd_last (const crowd_t *self);

#endif
