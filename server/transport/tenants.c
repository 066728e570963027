#include "tenants.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tenant.h"

enum {
    CONNECTIONS_LEAST = 64,         //  of a tenant: for status, and for clients that reconnect
    CONNECTIONS_A_JOB = 4,          //  ranks and loaders have one each, and old connections take a moment to
                                    //  close
    CONNECTIONS_WITHOUT_TENANT = 16
};

struct tenants {
    broker_t *broker;
    const client_keys_t *keys;
    uid_t own;
    bool open;
    size_t count;
    tenants_user_t users [];                //  ascending uids
};

tenants_t *
tenants_new (broker_t *broker, const client_keys_t *keys, bool open, const tenants_user_t *users,
    size_t count)
{
    tenants_t *self = calloc (1, sizeof *self + count * sizeof *users);
    if (!self)
        return NULL;
    self->broker = broker;
    self->keys = keys;
    self->own = geteuid ();
    self->open = open;
    self->count = count;
    for (size_t index = 0; index < count; index++) {
        assert (index == 0 || users [index - 1].uid < users [index].uid);
        self->users [index] = users [index];
    }
    return self;
}

void
tenants_destroy (tenants_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

bool
tenants_has (void *broker, const char *name)
{
    return tenant_named (broker, name) != NULL;
}

static int
s_compare (const void *uid, const void *user)
{
    uid_t left = *(const uid_t *) uid, right = ((const tenants_user_t *) user)->uid;
    return left < right? -1: left > right;
}

//  NULL: the user has no tenant.  Runs for every message: twelve comparisons for thousands of users.
static const tenants_user_t *
s_user (const tenants_t *self, uid_t uid)
{
    return bsearch (&uid, self->users, self->count, sizeof *self->users, s_compare);
}

static bool
s_by_user (const tenants_t *self, uid_t uid, caller_t *caller)
{
    bool is_operator = uid == 0 || uid == self->own;
    const tenants_user_t *user = s_user (self, uid);
    tenant_t *tenant = user? user->tenant: is_operator? tenant_named (self->broker, NULL): NULL;
    *caller = (caller_t) { .tenant = tenant, .is_operator = is_operator, .may_add = is_operator,
        .may_work = is_operator, .uid = uid, .user = uid };
    return tenant != NULL;
}

static bool
s_by_key (const tenants_t *self, const char *key, caller_t *caller)
{
    const client_keys_grant_t *grant = key? client_keys_find (self->keys, key): NULL;
    //  A worker belongs to no tenant; the first one stands for that.
    tenant_t *tenant = grant? tenant_named (self->broker, grant->is_worker? NULL: grant->tenant): NULL;
    if (!tenant)
        return false;
    *caller = (caller_t) { .tenant = tenant, .is_operator = grant->is_operator, .may_add = grant->is_operator,
        .may_work = grant->is_worker, .only_works = grant->is_worker, .uid = (uid_t) -1,
        .user = grant->user };
    return true;
}

bool
tenants_caller (const tenants_t *self, uid_t uid, const char *key, caller_t *caller)
{
    //  With keys, a uid in a message that came over tcp is only the peer's claim.
    bool is_local = !self->keys || (key && strcmp (key, CALLER_LOCAL) == 0);
    bool is_remote = !is_local || uid == (uid_t) -1;
    if (self->open)
        *caller = (caller_t) { .tenant = tenant_named (self->broker, NULL), .is_operator = true,
            .may_work = true, .uid = uid, .user = is_remote? BROKER_USER_UNKNOWN: uid };
    else
    if (is_remote)
        return self->keys && s_by_key (self, key, caller);
    else
        return s_by_user (self, uid, caller);
    return true;
}

const char *
tenants_label (const tenants_t *self, const char *key)
{
    const client_keys_grant_t *grant = self->keys && key? client_keys_find (self->keys, key): NULL;
    return grant? grant->label: NULL;
}

size_t
tenants_connections_max (const tenants_t *self, uid_t uid, size_t descriptors_max, const tenant_t **tenant_p)
{
    //  Operators' connections do not count against their tenant's users.
    bool is_operator = self->open || uid == 0 || uid == self->own;
    const tenants_user_t *user = is_operator? NULL: s_user (self, uid);
    *tenant_p = user? user->tenant: NULL;
    if (is_operator)
        return SIZE_MAX;
    if (!user)
        return CONNECTIONS_WITHOUT_TENANT;
    //  Half of the descriptors are for connections, by weight.
    uint64_t share = tenant_share (self->broker, user->tenant, descriptors_max / 2);
    uint64_t wanted = CONNECTIONS_LEAST + CONNECTIONS_A_JOB * (uint64_t) user->jobs_max;
    return share < wanted? share: wanted;
}
