/*  members_answer -- the answers of etcd's JSON gateway that name the members.
 *
 *  Nothing in an answer is believed: it may come from anything at that address.  No state; any thread.
 */
#ifndef MEMBERS_ANSWER_H
#define MEMBERS_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "members.h"

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
