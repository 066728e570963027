/*  keys -- the folder of a server's keys: its own certificate, and whom it lets in.
 *
 *      DIR/                    the server's user's own, not writable for others
 *          server              the server's public certificate, for clients
 *          server_secret       both of its keys; readable by its user alone
 *          allowed/LABEL       a client's public key, with its tenant (certificate.h); put there and taken
 *                              away by `tureen key`, or by hand
 *
 *  While the server runs, keys_look sees what was put there, changed or taken away.  A file that is no
 *  certificate, or that others may write, lets nobody in, and the log says so once.  What cannot be looked at
 *  for want of descriptors or memory, or because the disk fails, stays as it was: a full machine must not
 *  throw users out.  That a file is gone is seen without a descriptor.
 *
 *  Not by czmq's zauth, which does the same: it compares the folder's newest time in whole seconds, its size
 *  and its count of files, so that a key that is taken away in the second in which another one comes is let
 *  in for good (4.2.1, tried).
 *
 *  Invariants, checked by keys_check ():
 *    K1  no key is granted twice; of a key that two files grant to different tenants, or with different
 *        rights, neither holds.
 *    K2  a grant's user is a number that no other grant of this server ever had: a key that goes and comes
 *        again, or goes to another tenant, comes with a new one.
 *  Owner: the broker's thread.
 */
#ifndef KEYS_H
#define KEYS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "certificate.h"
#include "log.h"

typedef struct keys keys_t;

enum { KEYS_MAX = 1024 };               //  files in allowed/; those beyond let nobody in
#define KEYS_USER_FIRST (UINT64_C (1) << 40)    //  above all uids

typedef struct {
    char key [CERTIFICATE_KEY_CHARS + 1];       //  public, Z85
    char label [CERTIFICATE_NAME_MAX + 1];
    char tenant [CERTIFICATE_NAME_MAX + 1];
    bool is_operator;
    uint64_t user;                      //  broker_join_t
} keys_grant_t;

//  Opens the folder and makes what is not there: itself (0700), allowed/, the server's certificate.  log is
//  lent.  0 and *self_p; or -errno, and in error a sentence with the remedy.
int keys_open (keys_t **self_p, const char *directory, log_t *log, char *error, size_t error_bytes);
//  Wipes the secret.  NULL inside is fine.
void keys_destroy (keys_t **self_p);

//  The server's own: its public key in Z85 for people, and its secret one as CURVE takes it, also Z85.  Lent.
const char *keys_server_public (const keys_t *self);
const char *keys_server_secret (const keys_t *self);

//  Who has this public key (Z85, 40 characters; anything else is nobody's); NULL: nobody.  Lent until the
//  next keys_look.
const keys_grant_t *keys_find (const keys_t *self, const char *key);
//  Whether a grant with this number of a user is there still.
bool keys_has_user (const keys_t *self, uint64_t user);
//  All of them, ordered by key.  Lent as above.
const keys_grant_t *keys_grants (const keys_t *self, size_t *count_p);

//  Looks whether the folder has changed; to be called about twice a second.  True: a grant has gone, or went
//  to another tenant, so that jobs may have to end.
bool keys_look (keys_t *self);
//  After keys_open, and after every look: warns of new grants to tenants that there are not, for which they
//  are good for nothing.
void keys_judge (keys_t *self, bool (*is_tenant) (void *context, const char *name), void *context);
//  Aborts at a broken invariant.
void keys_check (const keys_t *self);

#endif
