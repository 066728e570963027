/*  client_keys -- the folder of a server's keys: its own certificate, and the clients it admits.
 *
 *  A client's key is checked twice: in its handshake (client_socket.h), and with each of its messages, since
 *  it may have been revoked (tenants.h).  Both ask here.
 *
 *      DIR/                    owned by the server's user, not writable for others
 *          server              the server's public certificate, for clients
 *          server_secret       both of its keys; readable only by its user
 *          allowed/LABEL       a client's public key, with its tenant (certificate.h); put there and taken
 *                              away by `tureen key`, or by hand
 *
 *  While the server runs, client_keys_look finds files that were added, changed or removed.  A file that is
 *  no certificate, or that others may write, admits no key, and the log says so once.  A file that cannot be
 *  examined, for lack of descriptors or memory or because the disk fails, keeps its grant: a full machine
 *  must not lock users out.  A removed file is noticed without a descriptor.
 *
 *  czmq's zauth does the same, but compares the folder's newest time in whole seconds, its size and its count
 *  of files: a key that is removed in the second in which another one comes stays admitted for ever (4.2.1,
 *  tried).
 *
 *  Invariants, checked by client_keys_check ():
 *    K1  no key is granted twice; if two files grant a key to different tenants, or with different rights,
 *        neither holds.
 *    K2  a grant's user is a number that no other grant of this server ever had: a key that is removed and
 *        added again, or moves to another tenant, gets a new one.
 *  Owner: the broker's thread.
 */
#ifndef CLIENT_KEYS_H
#define CLIENT_KEYS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "certificate.h"
#include "log.h"

typedef struct client_keys client_keys_t;

enum { CLIENT_KEYS_MAX = 1024 };               //  files in allowed/; further ones admit no key
#define CLIENT_KEYS_USER_FIRST (UINT64_C (1) << 40)    //  above all uids

typedef struct {
    char key [CERTIFICATE_KEY_CHARS + 1];       //  public, Z85
    char label [CERTIFICATE_NAME_MAX + 1];
    char tenant [CERTIFICATE_NAME_MAX + 1];
    bool is_operator;
    bool is_worker;                     //  then tenant is of no meaning
    uint64_t user;                      //  broker_terms_t
    bool is_judged, admits;             //  client_keys_judge's: it has looked; the server has the tenant
} client_keys_grant_t;

//  Opens the folder and makes what is missing: the folder (0700), allowed/, the server's certificate.  log is
//  lent.  0 and *self_p; or -errno, and in error a sentence with the remedy.
int client_keys_open (client_keys_t **self_p, const char *directory, log_t *log, char *error,
    size_t error_bytes);
//  Wipes the secret.  *self_p may be NULL.
void client_keys_destroy (client_keys_t **self_p);

//  The server's own keys: the public one in Z85 for people, and the secret one for CURVE, also Z85.  Lent.
const char *client_keys_server_public (const client_keys_t *self);
const char *client_keys_server_secret (const client_keys_t *self);

//  Reads a server's pair from a folder of this user's in which it lies already; makes nothing.  The caller
//  wipes the pair (certificate_wipe).  0; or -errno, and in error a sentence with the remedy.
int client_keys_pair (certificate_t *pair, const char *directory, char *error, size_t error_bytes);

//  The grant of this public key (Z85, 40 characters; other texts have none); NULL: none.  Lent until the next
//  client_keys_look.
const client_keys_grant_t *client_keys_find (const client_keys_t *self, const char *key);
//  Whether a grant with this user number still exists.
bool client_keys_has_user (const client_keys_t *self, uint64_t user);
//  All grants, ordered by key.  Lent as above.
const client_keys_grant_t *client_keys_grants (const client_keys_t *self, size_t *count_p);

//  Looks whether the folder has changed; call it about twice a second.  True: a grant was removed or moved to
//  another tenant, so jobs may have to end.
bool client_keys_look (client_keys_t *self);
//  Call it after client_keys_open, and after every look: logs new grants, and warns of those to unknown
//  tenants, which have no effect.
void client_keys_judge (client_keys_t *self, bool (*is_tenant) (void *context, const char *name),
    void *context);
//  Aborts at a broken invariant.
void client_keys_check (const client_keys_t *self);

//  ---- the folder on the disk, for `tureen key` too.  No state; any thread.

typedef struct {
    int folder, allowed;                //  descriptors; -1: not open
    uid_t owner;                        //  the server's user
} client_keys_folder_t;

//  Opens a guarded folder: it must be a folder, owned by us (for root: by any user) and writable only for its
//  owner; so must allowed/ in it.  make: first makes what is missing (0700).  0, or -errno, nothing open, and
//  in error a sentence with the remedy.
int client_keys_folder_open (client_keys_folder_t *self, const char *path, bool make, char *error,
    size_t error_bytes);
void client_keys_folder_close (client_keys_folder_t *self);

//  Files in allowed/ that may be certificates, in no order: calls visit for each name until it returns false.
//  0, or -errno.
int client_keys_folder_each (int allowed, bool (*visit) (void *context, const char *name), void *context);
//  Reads the certificate of a name in allowed/, without a secret.  0; -EBADMSG: *reason_p (static) says why
//  it admits no key; otherwise -errno.
int client_keys_folder_read (const client_keys_folder_t *self, const char *name, certificate_t *certificate,
    const char **reason_p);

#endif
