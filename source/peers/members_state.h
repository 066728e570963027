/*  members_state -- the structure of a list of members, and what its files share; for them alone.
 *
 *      members.c           lists, and those that are given
 *      members_etcd.c      a list in etcd: its thread
 *      members_answer.c    etcd's answers
 */
#ifndef MEMBERS_STATE_H
#define MEMBERS_STATE_H
#include <pthread.h>
#include <stdatomic.h>
#include "members.h"

enum { MEMBERS_MAGIC = 0x00e6be25 };

typedef struct members_etcd members_etcd_t;
typedef struct members_held members_held_t;

struct members {
    uint32_t magic;
    //  set at birth
    char own_name [MEMBERS_NAME_BYTES];
    uint64_t own_bytes;
    members_etcd_t *etcd;               //  NULL: a list that was given
    atomic_uint_fast64_t number;
    //  under the lock
    pthread_mutex_t lock;
    members_held_t *now;
    members_look_t look;
};

//  -- members.c

//  HOST:PORT.
bool members_is_name (const char *text, size_t length);
//  A name that is one.
void members_set_member (member_t *member, const char *name, size_t length, uint64_t bytes);
//  The list from now on, in any order; this server is added if it is not there.  The same as before: nothing
//  changes.  False: no memory.
bool members_set (members_t *self, const member_t *all, size_t count);
//  A sentence; "": none.  It is registered at etcd or not.
void members_set_trouble (members_t *self, const char *trouble, bool is_registered);

//  -- members_etcd.c

//  text: behind "etcd://" or "etcds://".  0; or -errno and in error what is wrong.
int members_etcd_open (members_etcd_t **self_p, members_t *members, const char *text, bool is_secure,
    char *error, size_t error_bytes);
//  Withdraws this server, if etcd answers; takes two seconds at most.
void members_etcd_close (members_etcd_t **self_p);

#endif
