/*  key_source -- asks for keys where an account says that they come from: STS for a web identity, the service
 *  of a container or of an instance (IMDSv2), the program of a profile, and its file.
 *
 *  happy path:     key_source_new .. key_source_first .. key_source_ask ..
 *  failure modes:  -EBUSY, -ETIMEDOUT, -ECONNREFUSED .. no answer now; -EKEYREJECTED the service refuses;
 *                  -ENOKEY there are no keys; -EBADMSG no such answer; -EACCES .. a file that cannot be read;
 *                  -ECANCELED key_source_stop; -ENOMEM.  The text says what was asked, what came, and a
 *                  remedy; it holds nothing secret.
 *  on close:       no question may be under way.
 *
 *  Services of AWS's own addresses are asked without a proxy, and no redirection is followed.
 *  Owner: the thread that asks; key_source_stop from any thread.
 */
#ifndef KEY_SOURCE_H
#define KEY_SOURCE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "account.h"

typedef struct key_source key_source_t;

//  account: lent; its keys come from a profile or from a service.  0; or -ENOMEM and *self_p NULL.
int key_source_new (key_source_t **self_p, const account_t *account);
void key_source_destroy (key_source_t **self_p);

//  Keys, held by the caller; or -errno and in error (always ended) why not.  Blocks for some seconds at most,
//  while a program runs for a minute.
int key_source_ask (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes);
//  The same when a program begins: an instance is asked once and shortly, since there may be none, and what
//  may pass is tried three times.
int key_source_first (key_source_t *self, account_key_t **key_p, char *error, size_t error_bytes);
//  What is under way, and all that comes, ends with -ECANCELED.
void key_source_stop (key_source_t *self);


//  ---- answers of key services

//  Keys in the answers of key services: STS's XML, and the JSON of containers, instances and programs.
//
//  The answers are foreign text: each function takes any bytes, and what it takes out is bounded and has the
//  characters that it may have.  What is secret stays in guarded memory, and what the parsers free is wiped.
//  Plain functions; any thread.

enum { KEY_SOURCE_BYTES_MAX = 64 * 1024, KEY_SOURCE_CODE_BYTES = 64, KEY_SOURCE_WORD_BYTES = 1024 };

//  The answer to AssumeRoleWithWebIdentity.  0 and the caller holds the keys; or *key_p NULL, and
//  -EKEYREJECTED an error, its code in code (letters, digits and '.'; "": none), -EBADMSG no such answer, or
//  -ENOMEM.
int key_source_parse_xml (const char *text, size_t bytes, account_key_t **key_p,
    char code [KEY_SOURCE_CODE_BYTES]);
//  A container's or an instance's answer, or what a program prints; the same.
int key_source_parse_json (const char *text, size_t bytes, account_key_t **key_p,
    char code [KEY_SOURCE_CODE_BYTES]);

//  The first line, if it is one word of characters that can stand in a header: an instance's token, or the
//  name of its role.  False: it is not.
bool key_source_parse_word (const char *text, size_t bytes, char word [KEY_SOURCE_WORD_BYTES]);
//  "2026-11-25T18:00:00Z", with a fraction of seconds and an offset if there are: seconds since 1970.  False:
//  no time.
bool key_source_parse_time (const char *text, int64_t *seconds_p);


//  ---- the program of a profile

//  Runs the program that a profile names for its keys (credential_process), and takes what it prints.
//
//  The command is one of /bin/sh, runs as this user with this environment and no input, and gets a process
//  group of its own.
//  on close:       a program that takes too long is killed with its group.
//  Plain function; any thread, also one that blocks all signals.

enum { KEY_SOURCE_SAID_BYTES = 500 };     //  enough for what is said

//  0: it ended with status 0, and the first *used_p bytes of output are what it printed.  Otherwise in what
//  (always ended) what happened, for people, with the last line of its standard error if there is one:
//  -EKEYREJECTED it ended otherwise; -ETIMEDOUT limit_ms are over; -ECANCELED is_stopped is true, which is
//  looked at ten times a second; -EBADMSG it printed more than output_bytes; or -errno of starting it.
int key_source_run_program (const char *command, const atomic_bool *is_stopped, int64_t limit_ms,
    char *output, size_t output_bytes, size_t *used_p, char *what, size_t what_bytes);

#endif
