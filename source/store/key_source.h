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
#include "account.h"

typedef struct key_source key_source_t;

//  account: lent; its keys come from a profile or from a service.  0; or -ENOMEM and *self_p NULL.
int key_source_new (key_source_t **self_p, const account_t *account);
void key_source_destroy (key_source_t **self_p);

//  Keys, held by the caller; or -errno and in error (always ended) why not.  Blocks for some seconds at most,
//  while a program runs for a minute.
int key_source_ask (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes);
//  The same when a program begins: an instance is asked once and shortly, since there may be none, and what
//  may pass is tried three times.
int key_source_first (key_source_t *self, access_key_t **key_p, char *error, size_t error_bytes);
//  What is under way, and all that comes, ends with -ECANCELED.
void key_source_stop (key_source_t *self);

#endif
