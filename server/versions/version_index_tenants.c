//  The tenant that pays for a version.
//
//  A tenant *shares* a version when one of its consumers, of the version's side, has used it, and one (the
//  same one, in a deterministic set) may use it in this epoch or a later one.  The version is on the account
//  of one of its sharers, each as likely; so over many versions the tenants that share them split the cost.
//  If no tenant shares a version, the tenant that made it still pays while it has a consumer in the set, and
//  loses it first; after that no account has it.  So
//    - a tenant does not pay for the versions of others unless it uses them;
//    - a tenant with less than its part keeps the versions that it has used and may use again (prepared.h);
//    - a tenant loses the versions that it keeps only for others before those that it keeps for itself.
//  (The alternative, all versions of a set on the accounts of all tenants in it, lets a tenant pay for the
//  versions of others; and in a set of two tenants, counts alone would decide, which the tenant with more
//  jobs wins: docs/tiers.md.)
//
//  Only consumers of the version's side make sharers.  Sharers decide evictions, and the versions that
//  followers find must not depend on the data of others (version_index.h).  Whether a tenant has a consumer
//  of either side in the set tells no data.

#include "version_index_state.h"
#include <assert.h>

static uint64_t
s_bit (uint32_t tenant)
{
    return UINT64_C (1) << tenant;
}

void
version_index_tenant (version_index_t *self, uint32_t number, uint32_t weight, size_t bytes_max)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    assert (number < VERSION_INDEX_TENANTS_MAX);
    if (number >= self->tenant_count) {
        for (uint32_t kind = 0; kind < self->kind_room; kind++)
            assert (!self->kinds [kind] || self->tenant_count > 1);
        self->tenant_count = number + 1;
    }
    prepared_account (self->prepared, number, weight, bytes_max);
}

size_t
version_index_tenant_bytes (const version_index_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    return prepared_account_bytes (self->prepared, number);
}

//  ---- versions

//  gone: a consumer that no longer counts; or NULL.
static uint64_t
s_sharers (const version_set_t *kind, const version_t *version, const consumer_t *gone)
{
    uint64_t used = 0, useful = 0;
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next) {
        uint64_t bit = s_bit (consumer->tenant);
        if (consumer == gone || !version_index_is_own (consumer, version))
            continue;
        bool has_used = version_index_has_used (consumer, version);
        if (has_used)
            used |= bit;
        if (!(useful & bit) && !(kind->is_random && has_used)
            && sampler_has (kind->sampler, consumer->sampler_job, version->id))
            useful |= bit;
        if ((used & useful) == kind->tenants)
            break;
    }
    return used & useful;
}

//  A random tenant of those that have room for the version; PREPARED_NOBODY: none has.
static uint32_t
s_pick_payer (version_index_t *self, const version_t *version, uint64_t tenants)
{
    uint32_t payer = PREPARED_NOBODY;
    uint64_t candidates = 0;
    for (; tenants; tenants &= tenants - 1) {
        uint32_t tenant = (uint32_t) __builtin_ctzll (tenants);
        if (prepared_account_fits (self->prepared, tenant, version->bytes)
            && random_below (&self->random, ++candidates) == 0)
            payer = tenant;
    }
    return payer;
}

//  New sharers take the version over with the probability that makes all sharers equally likely.
static void
s_share (version_set_t *kind, version_t *version, const consumer_t *gone)
{
    version_index_t *self = kind->version_index;
    uint64_t sharers = s_sharers (kind, version, gone), added = sharers & ~version->sharers;
    uint32_t payer = version->account, heir = PREPARED_NOBODY;
    if (payer == PREPARED_NOBODY || !(sharers >> payer & 1))
        heir = s_pick_payer (self, version, sharers);
    else
    if (added && random_below (&self->random, (uint64_t) __builtin_popcountll (sharers))
            < (uint64_t) __builtin_popcountll (added & ~s_bit (payer)))
        heir = s_pick_payer (self, version, added & ~s_bit (payer));
    if (heir != PREPARED_NOBODY)
        payer = heir;
    else
    if (payer != PREPARED_NOBODY && !(kind->tenants >> payer & 1))
        payer = PREPARED_NOBODY;
    prepared_share (self->prepared, version, sharers, payer);
}

void
version_index_share (version_set_t *kind, version_t *version)
{
    if (version->indexed && kind->version_index->tenant_count > 1)
        s_share (kind, version, NULL);
}

bool
version_index_share_alone (const consumer_t *consumer, version_t *version)
{
    version_index_t *self = consumer->kind->version_index;
    uint32_t tenant = consumer->tenant;
    if (version->account != tenant && !prepared_account_fits (self->prepared, tenant, version->bytes)) {
        version_index_drop (self, version);
        return false;
    }
    prepared_share (self->prepared, version, s_bit (tenant), tenant);
    return true;
}

//  ---- consumers that join and leave

static uint64_t
s_tenants_but (const consumer_t *gone)
{
    uint64_t tenants = 0;
    for (const consumer_t *consumer = gone->kind->consumers; consumer; consumer = consumer->next)
        tenants |= consumer == gone? 0: s_bit (consumer->tenant);
    return tenants;
}

//  For prepared_each.  A consumer that has used nothing changes nothing, unless others of its tenant have
//  used versions.
static void
s_came (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    if (version->class == consumer->kind->number && version_index_is_own (consumer, version))
        s_share (consumer->kind, version, NULL);
}

void
version_index_tenant_joins (consumer_t *consumer, bool saw_versions)
{
    version_set_t *kind = consumer->kind;
    version_index_t *self = kind->version_index;
    assert (consumer->tenant < self->tenant_count);
    bool is_first = !(kind->tenants & s_bit (consumer->tenant));
    kind->tenants |= s_bit (consumer->tenant);
    if (self->tenant_count > 1 && (saw_versions || !is_first))
        prepared_each (self->prepared, s_came, consumer);
    if (is_first)
        version_index_measure_reserve (self);
}

//  For prepared_each; likewise.
static void
s_goes (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    if (version->class == consumer->kind->number
    &&  (version->account == consumer->tenant || version->sharers & s_bit (consumer->tenant)))
        s_share (consumer->kind, version, consumer);
}

//  A single tenant keeps its versions for its next job.
void
version_index_tenant_leaves (consumer_t *consumer)
{
    version_set_t *kind = consumer->kind;
    version_index_t *self = kind->version_index;
    uint64_t left = s_tenants_but (consumer);
    //  version_index_leave drops them
    bool is_last = left != kind->tenants, all_go = kind->is_random && left == 0;
    kind->tenants = left;
    if (self->tenant_count > 1 && !all_go)
        prepared_each (self->prepared, s_goes, consumer);
    if (is_last)
        version_index_measure_reserve (self);
}

//  ---- memory outside of the index

void
version_index_reserve (version_index_t *self, uint32_t versions)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    self->reserved_versions = versions;
    version_index_measure_reserve (self);
}

//  The largest versions of each tenant.
static void
s_largest (const version_index_t *self, size_t largest [VERSION_INDEX_TENANTS_MAX])
{
    for (uint32_t tenant = 0; tenant < VERSION_INDEX_TENANTS_MAX; tenant++)
        largest [tenant] = 0;
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const version_set_t *kind = self->kinds [number];
        for (uint64_t tenants = kind? kind->tenants: 0; tenants; tenants &= tenants - 1) {
            uint32_t tenant = (uint32_t) __builtin_ctzll (tenants);
            if (largest [tenant] < kind->version_bytes)
                largest [tenant] = kind->version_bytes;
        }
    }
}

void
version_index_measure_reserve (version_index_t *self)
{
    if (self->tenant_count == 1)
        return;
    size_t largest [VERSION_INDEX_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        prepared_account_outside (self->prepared, tenant, self->reserved_versions * largest [tenant]);
}

//  ---- checks

static void
s_check_version (void *context, version_t *version)
{
    const version_index_t *self = context;
    const version_set_t *kind = version_set_of (self, version);
    assert (version->sharers == s_sharers (kind, version, NULL));               //  K3
    assert (version->account == PREPARED_NOBODY || kind->tenants >> version->account & 1);
}

void
version_index_check_tenants (version_index_t *self)
{
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const version_set_t *kind = self->kinds [number];
        uint64_t tenants = 0;
        for (const consumer_t *consumer = kind? kind->consumers: NULL; consumer; consumer = consumer->next)
            tenants |= s_bit (consumer->tenant);
        assert (!kind || kind->tenants == tenants);
    }
    if (self->tenant_count == 1)
        return;
    prepared_each (self->prepared, s_check_version, self);
    size_t largest [VERSION_INDEX_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        assert (prepared_account_outside_bytes (self->prepared, tenant)
            == self->reserved_versions * largest [tenant]);     //  K4
}
