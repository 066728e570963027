/*  tenants -- the caller at the other end of a connection: from a user of this machine (ipc) or a key (tcp)
 *  to its tenant and its rights.
 *
 *  Without tenants in the settings there is one, the broker's first.  Its users are the server's own user and
 *  root; with `open` every caller.  With tenants, a user or key of no tenant is not served.  The server's own
 *  user and root are operators, also if they are users of a tenant, and so are keys that were admitted as
 *  operators.
 *
 *  The caller is looked up for every message.  A job belongs to the caller that made it, whatever its routing
 *  id.
 *
 *  Owner: the broker's thread.
 */
#ifndef TENANTS_H
#define TENANTS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"
#include "client_keys.h"
#include "dataset.h"

typedef struct tenants tenants_t;

//  In place of a key where clients come over ipc as well (client_socket.h).  Keys are longer.
#define CALLER_LOCAL "local"

typedef struct {
    tenant_t *tenant;           //  never NULL
    bool may_work;              //  may lend processors (docs/workers.md)
    bool only_works;            //  and do nothing else: a worker's key
    bool is_operator;           //  sees all jobs and figures, and may drain the server
    bool may_add;               //  may have the server open further data sets.  None of an open server: all
                                //  programs that reach it are its operators, and could read any file
    uid_t uid;                  //  of the process; (uid_t) -1: unknown (tcp)
    uint64_t user;              //  broker_terms_t
} caller_t;

static inline bool
caller_is (const caller_t *self, const caller_t *other)
{
    return self->tenant == other->tenant && self->user == other->user;
}

typedef struct {
    uid_t uid;
    tenant_t *tenant;               //  one of the broker's
    uint32_t jobs_max;              //  of the tenant, from 1
} tenants_user_t;

//  users: count of them by ascending uid, none twice; copied.  broker and keys (NULL: none) are lent.  open:
//  a user that is not among them is served too.  NULL: no memory.
tenants_t *tenants_new (broker_t *broker, const client_keys_t *keys, bool open, const tenants_user_t *users,
    size_t count)
    __attribute__ ((warn_unused_result));
void tenants_destroy (tenants_t **self_p);

//  For client_keys_judge: whether the broker has the tenant.
bool tenants_has (void *broker, const char *name);

//  The caller with this uid ((uid_t) -1: over tcp) and this public key (Z85, or with keys CALLER_LOCAL; NULL:
//  none).  False: a caller that is not served.
bool tenants_caller (const tenants_t *self, uid_t uid, const char *key, caller_t *caller);

//  What the operator calls the key; NULL: no key, or one that is not admitted.  Lent until the next
//  client_keys_look.
const char *tenants_label (const tenants_t *self, const char *key);

//  The most ipc connections that the users of the uid's tenant may have together.  *tenant_p: that tenant;
//  NULL: the user has none, and the limit is for this user alone.  SIZE_MAX: no limit, for operators.
size_t tenants_connections_max (const tenants_t *self, uid_t uid, size_t descriptors_max,
    const tenant_t **tenant_p);

#endif
