/*  tenants -- which callers there are: from users of this machine and from keys to tenants and their rights.
 *
 *  Without tenants in the settings there is one, the broker's first, whose users are the server's own and root; with --open
 *  whoever can connect.  With tenants, a user or a key that is no tenant's is nobody's: it is not served.
 *
 *  Owner: the broker's thread.
 */
#ifndef TENANTS_H
#define TENANTS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"
#include "caller.h"

typedef struct tenants tenants_t;

//  broker is lent.  NULL: no memory.
tenants_t *tenants_new (broker_t *broker);
void tenants_destroy (tenants_t **self_p);

//  The caller with this uid ((uid_t) -1: it came by tcp) and this public key (Z85; NULL: none).  False: nobody that is served.
bool tenants_caller (const tenants_t *self, uid_t uid, const char *key, caller_t *caller);

#endif
