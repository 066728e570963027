/*  key_answer -- keys in the answers of key services: STS's XML, and the JSON of containers, instances and
 *  programs.
 *
 *  The answers are foreign text: each function takes any bytes, and what it takes out is bounded and has the
 *  characters that it may have.  What is secret stays in guarded memory, and what the parsers free is wiped.
 *  Plain functions; any thread.
 */
#ifndef KEY_ANSWER_H
#define KEY_ANSWER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "access_key.h"

enum { KEY_ANSWER_BYTES_MAX = 64 * 1024, KEY_ANSWER_CODE_BYTES = 64, KEY_ANSWER_WORD_BYTES = 1024 };

//  The answer to AssumeRoleWithWebIdentity.  0 and the caller holds the keys; or *key_p NULL, and
//  -EKEYREJECTED an error, its code in code (letters, digits and '.'; "": none), -EBADMSG no such answer, or
//  -ENOMEM.
int key_answer_xml (const char *text, size_t bytes, access_key_t **key_p, char code [KEY_ANSWER_CODE_BYTES]);
//  A container's or an instance's answer, or what a program prints; the same.
int key_answer_json (const char *text, size_t bytes, access_key_t **key_p, char code [KEY_ANSWER_CODE_BYTES]);

//  The first line, if it is one word of characters that can stand in a header: an instance's token, or the
//  name of its role.  False: it is not.
bool key_answer_word (const char *text, size_t bytes, char word [KEY_ANSWER_WORD_BYTES]);
//  "2026-11-25T18:00:00Z", with a fraction of seconds and an offset if there are: seconds since 1970.  False:
//  no time.
bool key_answer_time (const char *text, int64_t *seconds_p);

#endif
