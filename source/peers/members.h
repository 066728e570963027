/*  members -- the servers that keep blocks for each other: a list given once, or kept in etcd.
 *
 *  Members may have different lists for a while: blocks never change, so that costs reads of the store, and
 *  never a sample.
 *
 *  failure modes:  of a text that is no list, in members_open.  While etcd does not answer, the last list
 *                  holds.
 *  Threads: members_number, members_take, members_give_back and members_look may be called by any.
 */
#ifndef MEMBERS_H
#define MEMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct members members_t;

enum { MEMBERS_MAX = 1024, MEMBERS_NAME_BYTES = 262, MEMBERS_TEXT_BYTES = 300 };

typedef struct {
    char name [MEMBERS_NAME_BYTES];     //  HOST:PORT, where it is reached; an IPv6 address in brackets
    uint64_t id;                        //  XXH3 of the name (homes.h)
    uint64_t bytes;                     //  of its cache: its weight (homes.h)
    int64_t since_ms;                   //  when this server first saw it (clock_now_ms)
} member_t;

//  Ordered by name.  Never changes; counted references.
typedef struct {
    size_t count;
    size_t own;                         //  this server's place in it
    member_t member [];
} member_list_t;

typedef struct {
    char source [MEMBERS_TEXT_BYTES];   //  for people: "3 members given"
    char trouble [MEMBERS_TEXT_BYTES];  //  a sentence; "": none
    bool is_registered;                 //  others can find this server
} members_look_t;

//  text: "HOST:PORT[=BYTES],.." or "etcd://HOST:PORT[,HOST:PORT..]/PREFIX".  own_name: HOST:PORT of this
//  server; own_bytes: of its cache.  A given member without BYTES weighs own_bytes.  0; or -errno, *self_p
//  NULL and in error (always ended) what is wrong and how to mend it.
int members_open (members_t **self_p, const char *text, const char *own_name, uint64_t own_bytes,
    char *error, size_t error_bytes);
//  All lists must have been given back.
void members_close (members_t **self_p);

//  Grows with each change of the list.
uint64_t members_number (const members_t *self);
//  The list as it is now, to be given back.
const member_list_t *members_take (members_t *self);
void members_give_back (members_t *self, const member_list_t *list);
void members_look (members_t *self, members_look_t *look);

#endif
