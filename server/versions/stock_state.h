//  What the files of the stock share: its fields, and what one does for the other.

#ifndef STOCK_STATE_H
#define STOCK_STATE_H
#include "stock.h"

enum { STOCK_MAGIC = 0x73746f63 };

struct stock_kind {
    //  set at birth
    stock_t *stock;
    uint32_t number;            //  of its versions: version->class
    sampler_t *sampler;
    size_t version_bytes;
    bool is_random;
    void *user;
    //  how it stands
    claimant_t *claimants;
    uint64_t tenants;           //  a bit for each that has a claimant
    size_t versions;            //  alive, indexed or pinned
    uint32_t *draws;            //  random: how many versions each sample has had
    size_t draws_room;          //  samples above this one have had none
};

struct stock {
    uint32_t magic;
    //  set at birth
    prepared_t *prepared;
    void (*ended) (void *context, void *user);
    void *ended_context;
    void (*left) (void *context, version_t *version);
    void *left_context;
    //  owner only
    random_t random;
    stock_kind_t **kinds;       //  by number; NULL: free
    uint32_t kind_room;
    uint32_t tenant_count;      //  numbers above are no tenants'
    uint32_t reserved_versions; //  stock_reserve
    uint64_t hits, misses;
    stock_losses_t losses;              //  without evictions, which are the cache's, as are
    stock_losses_t account_losses [PREPARED_ACCOUNTS];
};

//  Whether a version is of the claimant's side: of those that follow, or of the others.
static inline bool
stock_is_own (const claimant_t *claimant, const version_t *version)
{
    return (version->ticket != 0) == claimant->follows;
}

static inline bool
stock_has_used (const claimant_t *claimant, const version_t *version)
{
    return version->seen [claimant->sampler_job / 64] >> claimant->sampler_job % 64 & 1;
}

//  ---- stock_tenants.c: who pays
//  The claimant, which is among its kind's, has come, and counts as having used what there is of its earlier samples
//  (saw_versions); is about to go, and is still among them, but has used nothing any more.
void stock_tenant_joins (claimant_t *claimant, bool saw_versions);
void stock_tenant_leaves (claimant_t *claimant);
//  Who has used the version, or its side, has changed.
void stock_share (stock_kind_t *kind, version_t *version);
//  The version is about to be on the claimant's side, and nothing that was before matters there.  False: it was too much for the
//  tenant's account, and is out of the index.
bool stock_share_alone (const claimant_t *claimant, version_t *version);
//  The kinds that there are, or their claimants, have changed.
void stock_measure_reserve (stock_t *self);
void stock_check_tenants (stock_t *self);

//  ---- stock_losses.c: what is lost, and prepared again
//  The version leaves the index, or this side, for all that might have used it there.
void stock_lose (stock_t *self, const version_t *version, bool is_shelved);
//  A version goes for another reason than room: counts it, if it was of use to one only; and does it, a loss to all others.
void stock_count_drop (stock_t *self, const version_t *version);
void stock_drop (stock_t *self, version_t *version);
//  The claimant draws the sample: whatever was lost, it gets a version now.
void stock_losses_take (claimant_t *claimant, uint32_t id);
//  It gets a new one.
void stock_count_again (const claimant_t *claimant);
//  What is lost to it does not matter any more; nor ever again.
void stock_losses_forget (claimant_t *claimant);
void stock_losses_free (claimant_t *claimant);
void stock_check_losses (const stock_t *self);

#endif
