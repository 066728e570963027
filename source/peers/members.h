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

//  ---- lists that change: for sources of a list that make it (members.c's own, and tests)

//  HOST:PORT.
bool members_is_name (const char *text, size_t length);
//  A name that is one.
void members_set_member (member_t *member, const char *name, size_t length, uint64_t bytes);
//  The list from now on, in any order; this server is added if it is not there.  The same as before: nothing
//  changes.  False: no memory.
bool members_set (members_t *self, const member_t *all, size_t count);

//  ---- the answers of etcd's JSON gateway that name the members: for members.c, tests and their fuzz target
//  Nothing in an answer is believed: it may come from anything at that address.  No state; any thread.

//  Of a range: the entries PREFIX/HOST:PORT = {"bytes": "N"} as members; entries that are none are counted in
//  *strange_p, and the first one is named in strange (always ended).  -1: the text is no answer.
int members_answer_range (const char *text, size_t bytes, const char *prefix, member_t *members,
    size_t members_max, size_t *strange_p, char *strange, size_t strange_bytes);
//  A 64-bit number that etcd writes as a string, behind these keys; 0: it is not there.
uint64_t members_answer_number (const char *text, size_t bytes, const char *outer, const char *key);
//  What etcd says of a call that failed, for people: in text (always ended).  False: nothing.
bool members_answer_error (const char *text, size_t bytes, char *error, size_t error_bytes);
//  The question for a token of this user, and the token in its answer.  False: it has no room, or the answer
//  has none that a header could have.
bool members_answer_login (const char *user, const char *password, char *room, size_t room_bytes);
bool members_answer_token (const char *text, size_t bytes, char *token, size_t token_bytes);
//  The value of an entry, and a key, for etcd: base64; room: MEMBERS_ANSWER_CODED_BYTES.
enum { MEMBERS_ANSWER_CODED_BYTES = 1024 };
void members_answer_code (const char *text, char *room);

#endif
