//  Which tenant pays for a version.
//
//  A tenant *shares* a version when a claimant of it, of the version's side, has used it, and one (the same, if the kind is
//  deterministic) may use it in this epoch or a later one.  The version is on the account of one of its sharers, each as likely;
//  so over many versions what serves several is split among them.  Where none shares it, who made it goes on paying, as long as
//  it has a claimant in the kind, and does without it first; or it is nobody's.  So
//    - nobody pays for what others make, unless it uses it;
//    - what a tenant that has less than its part has used, and may use again, stays (prepared.h);
//    - what a tenant keeps for others only goes before what it keeps for itself.
//  (Charging all versions of a kind to all that are in it was considered: then a tenant pays for what others make, and in a kind
//  that two share, only counts decide, which the one with more jobs wins: docs/tiers.md.)
//
//  Who shares follows from claimants of the version's side alone, because it decides what goes, and what followers find must not
//  depend on others' data (stock.h).  That a tenant has a claimant in the kind, of either side, is no matter of data.

#include "stock_state.h"
#include <assert.h>

static uint64_t
s_bit (uint32_t tenant)
{
    return UINT64_C (1) << tenant;
}

void
stock_tenant (stock_t *self, uint32_t number, uint32_t weight, size_t bytes_max)
{
    assert (self->magic == STOCK_MAGIC);
    assert (number < STOCK_TENANTS_MAX);
    if (number >= self->tenant_count) {
        for (uint32_t kind = 0; kind < self->kind_room; kind++)
            assert (!self->kinds [kind] || self->tenant_count > 1);
        self->tenant_count = number + 1;
    }
    prepared_account (self->prepared, number, weight, bytes_max);
}

size_t
stock_tenant_bytes (const stock_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    return prepared_account_bytes (self->prepared, number);
}

//  ---- versions

//  gone: a claimant that does not count any more; or NULL.
static uint64_t
s_sharers (const stock_kind_t *kind, const version_t *version, const claimant_t *gone)
{
    uint64_t used = 0, useful = 0;
    for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next) {
        uint64_t bit = s_bit (claimant->tenant);
        if (claimant == gone || !stock_is_own (claimant, version))
            continue;
        bool has_used = stock_has_used (claimant, version);
        if (has_used)
            used |= bit;
        if (!(useful & bit) && !(kind->is_random && has_used) && sampler_has (kind->sampler, claimant->sampler_job, version->id))
            useful |= bit;
        if ((used & useful) == kind->tenants)
            break;
    }
    return used & useful;
}

//  One of these tenants that has room for the version; PREPARED_NOBODY: none has.
static uint32_t
s_pick_payer (stock_t *self, const version_t *version, uint64_t tenants)
{
    uint32_t payer = PREPARED_NOBODY;
    uint64_t candidates = 0;
    for (; tenants; tenants &= tenants - 1) {
        uint32_t tenant = (uint32_t) __builtin_ctzll (tenants);
        if (prepared_account_fits (self->prepared, tenant, version->bytes) && random_below (&self->random, ++candidates) == 0)
            payer = tenant;
    }
    return payer;
}

//  Sharers that are new take it over with the probability that makes all equally likely.
static void
s_share (stock_kind_t *kind, version_t *version, const claimant_t *gone)
{
    stock_t *self = kind->stock;
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
stock_share (stock_kind_t *kind, version_t *version)
{
    if (version->indexed && kind->stock->tenant_count > 1)
        s_share (kind, version, NULL);
}

bool
stock_share_alone (const claimant_t *claimant, version_t *version)
{
    stock_t *self = claimant->kind->stock;
    uint32_t tenant = claimant->tenant;
    if (version->account != tenant && !prepared_account_fits (self->prepared, tenant, version->bytes)) {
        stock_drop (self, version);
        return false;
    }
    prepared_share (self->prepared, version, s_bit (tenant), tenant);
    return true;
}

//  ---- coming and going

static uint64_t
s_tenants_but (const claimant_t *gone)
{
    uint64_t tenants = 0;
    for (const claimant_t *claimant = gone->kind->claimants; claimant; claimant = claimant->next)
        tenants |= claimant == gone? 0: s_bit (claimant->tenant);
    return tenants;
}

//  For prepared_each.  One that has used nothing is of no matter, unless others of its tenant have.
static void
s_came (void *context, version_t *version)
{
    const claimant_t *claimant = context;
    if (version->class == claimant->kind->number && stock_is_own (claimant, version))
        s_share (claimant->kind, version, NULL);
}

void
stock_tenant_joins (claimant_t *claimant, bool saw_versions)
{
    stock_kind_t *kind = claimant->kind;
    stock_t *self = kind->stock;
    assert (claimant->tenant < self->tenant_count);
    bool is_first = !(kind->tenants & s_bit (claimant->tenant));
    kind->tenants |= s_bit (claimant->tenant);
    if (self->tenant_count > 1 && (saw_versions || !is_first))
        prepared_each (self->prepared, s_came, claimant);
    if (is_first)
        stock_measure_reserve (self);
}

//  For prepared_each, likewise.
static void
s_goes (void *context, version_t *version)
{
    const claimant_t *claimant = context;
    if (version->class == claimant->kind->number
    &&  (version->account == claimant->tenant || version->sharers & s_bit (claimant->tenant)))
        s_share (claimant->kind, version, claimant);
}

//  A tenant that is alone on the server keeps what it has, for its next job.
void
stock_tenant_leaves (claimant_t *claimant)
{
    stock_kind_t *kind = claimant->kind;
    stock_t *self = kind->stock;
    uint64_t left = s_tenants_but (claimant);
    bool is_last = left != kind->tenants, all_go = kind->is_random && left == 0;        //  stock_leave drops them
    kind->tenants = left;
    if (self->tenant_count > 1 && !all_go)
        prepared_each (self->prepared, s_goes, claimant);
    if (is_last)
        stock_measure_reserve (self);
}

//  ---- memory outside of the index

void
stock_reserve (stock_t *self, uint32_t versions)
{
    assert (self->magic == STOCK_MAGIC);
    self->reserved_versions = versions;
    stock_measure_reserve (self);
}

//  The largest versions of each tenant.
static void
s_largest (const stock_t *self, size_t largest [STOCK_TENANTS_MAX])
{
    for (uint32_t tenant = 0; tenant < STOCK_TENANTS_MAX; tenant++)
        largest [tenant] = 0;
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const stock_kind_t *kind = self->kinds [number];
        for (uint64_t tenants = kind? kind->tenants: 0; tenants; tenants &= tenants - 1) {
            uint32_t tenant = (uint32_t) __builtin_ctzll (tenants);
            if (largest [tenant] < kind->version_bytes)
                largest [tenant] = kind->version_bytes;
        }
    }
}

void
stock_measure_reserve (stock_t *self)
{
    if (self->tenant_count == 1)
        return;
    size_t largest [STOCK_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        prepared_account_outside (self->prepared, tenant, self->reserved_versions * largest [tenant]);
}

//  ---- checks

static void
s_check_version (void *context, version_t *version)
{
    const stock_t *self = context;
    const stock_kind_t *kind = stock_kind_of (self, version);
    assert (version->sharers == s_sharers (kind, version, NULL));               //  K3
    assert (version->account == PREPARED_NOBODY || kind->tenants >> version->account & 1);
}

void
stock_check_tenants (stock_t *self)
{
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const stock_kind_t *kind = self->kinds [number];
        uint64_t tenants = 0;
        for (const claimant_t *claimant = kind? kind->claimants: NULL; claimant; claimant = claimant->next)
            tenants |= s_bit (claimant->tenant);
        assert (!kind || kind->tenants == tenants);
    }
    if (self->tenant_count == 1)
        return;
    prepared_each (self->prepared, s_check_version, self);
    size_t largest [STOCK_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        assert (prepared_account_outside_bytes (self->prepared, tenant) == self->reserved_versions * largest [tenant]);      //  K4
}
