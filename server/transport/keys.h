/*  keys -- the folder of a server's keys: its own certificate, and the clients it admits.
 *
 *      DIR/                    owned by the server's user, not writable for others
 *          server              the server's public certificate, for clients
 *          server_secret       both of its keys; readable only by its user
 *          allowed/LABEL       a client's public key, with its tenant (certificate.h); put there and taken
 *                              away by `tureen key`, or by hand
 *
 *  While the server runs, keys_look finds files that were added, changed or removed.  A file that is no
 *  certificate, or that others may write, admits no key, and the log says so once.  A file that cannot be
 *  examined, for lack of descriptors or memory or because the disk fails, keeps its grant: a full machine
 *  must not lock users out.  A removed file is noticed without a descriptor.
 *
 *  czmq's zauth does the same, but compares the folder's newest time in whole seconds, its size and its count
 *  of files: a key that is removed in the second in which another one comes stays admitted for ever (4.2.1,
 *  tried).
 *
 *  Invariants, checked by keys_check ():
 *    K1  no key is granted twice; if two files grant a key to different tenants, or with different rights,
 *        neither holds.
 *    K2  a grant's user is a number that no other grant of this server ever had: a key that is removed and
 *        added again, or moves to another tenant, gets a new one.
 *  Owner: the broker's thread.
 */
#ifndef KEYS_H
#define KEYS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "certificate.h"
#include "log.h"

typedef struct keys keys_t;

enum { KEYS_MAX = 1024 };               //  files in allowed/; further ones admit no key
#define KEYS_USER_FIRST (UINT64_C (1) << 40)    //  above all uids

typedef struct {
    char key [CERTIFICATE_KEY_CHARS + 1];       //  public, Z85
    char label [CERTIFICATE_NAME_MAX + 1];
    char tenant [CERTIFICATE_NAME_MAX + 1];
    bool is_operator;
    bool is_worker;                     //  then tenant is of no meaning
    uint64_t user;                      //  broker_terms_t
    bool is_judged, admits;             //  keys_judge's: it has looked; the server has the tenant
} keys_grant_t;

//  Opens the folder and makes what is missing: the folder (0700), allowed/, the server's certificate.  log is
//  lent.  0 and *self_p; or -errno, and in error a sentence with the remedy.
int keys_open (keys_t **self_p, const char *directory, log_t *log, char *error, size_t error_bytes);
//  Wipes the secret.  *self_p may be NULL.
void keys_destroy (keys_t **self_p);

//  The server's own keys: the public one in Z85 for people, and the secret one for CURVE, also Z85.  Lent.
const char *keys_server_public (const keys_t *self);
const char *keys_server_secret (const keys_t *self);

//  Reads a server's pair from a folder of this user's in which it lies already; makes nothing.  The caller
//  wipes the pair (certificate_wipe).  0; or -errno, and in error a sentence with the remedy.
int keys_pair (certificate_t *pair, const char *directory, char *error, size_t error_bytes);

//  The grant of this public key (Z85, 40 characters; other texts have none); NULL: none.  Lent until the next
//  keys_look.
const keys_grant_t *keys_find (const keys_t *self, const char *key);
//  Whether a grant with this user number still exists.
bool keys_has_user (const keys_t *self, uint64_t user);
//  All grants, ordered by key.  Lent as above.
const keys_grant_t *keys_grants (const keys_t *self, size_t *count_p);

//  Looks whether the folder has changed; call it about twice a second.  True: a grant was removed or moved to
//  another tenant, so jobs may have to end.
bool keys_look (keys_t *self);
//  Call it after keys_open, and after every look: logs new grants, and warns of those to unknown tenants,
//  which have no effect.
void keys_judge (keys_t *self, bool (*is_tenant) (void *context, const char *name), void *context);
//  Aborts at a broken invariant.
void keys_check (const keys_t *self);

//  ---- the folder on the disk, for `tureen key` too.  No state; any thread.

typedef struct {
    int folder, allowed;                //  descriptors; -1: not open
    uid_t owner;                        //  the server's user
} keys_folder_t;

//  Opens a guarded folder: it must be a folder, owned by us (for root: by any user) and writable only for its
//  owner; so must allowed/ in it.  make: first makes what is missing (0700).  0, or -errno, nothing open, and
//  in error a sentence with the remedy.
int keys_folder_open (keys_folder_t *self, const char *path, bool make, char *error, size_t error_bytes);
void keys_folder_close (keys_folder_t *self);

//  Files in allowed/ that may be certificates, in no order: calls visit for each name until it returns false.
//  0, or -errno.
int keys_folder_each (int allowed, bool (*visit) (void *context, const char *name), void *context);
//  Reads the certificate of a name in allowed/, without a secret.  0; -EBADMSG: *reason_p (static) says why
//  it admits no key; otherwise -errno.
int keys_folder_read (const keys_folder_t *self, const char *name, certificate_t *certificate,
    const char **reason_p);

#endif
