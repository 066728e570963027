//  The fields of the version index, for its own files, and the functions that they offer each other.

#ifndef VERSION_INDEX_STATE_H
#define VERSION_INDEX_STATE_H
#include "version_index.h"

enum { VERSION_INDEX_MAGIC = 0x73746f63 };

struct version_set {
    //  set at birth
    version_index_t *version_index;
    uint32_t number;            //  of its versions: version->class
    sampler_t *sampler;
    size_t version_bytes;
    bool is_random;
    void *user;
    //  changes
    consumer_t *consumers;
    uint64_t tenants;           //  a bit for each that has a consumer
    size_t versions;            //  alive, indexed or pinned
    uint32_t *draws;            //  random: how many versions each sample has had
    size_t draws_room;          //  samples above this one have had none
};

struct version_index {
    uint32_t magic;
    //  set at birth
    prepared_t *prepared;
    void (*ended) (void *context, void *user);
    void *ended_context;
    void (*left) (void *context, version_t *version);
    void *left_context;
    //  owner only
    random_t random;
    version_set_t **kinds;      //  by number; NULL: free
    uint32_t kind_room;
    uint32_t tenant_count;      //  tenants have the numbers below
    uint32_t reserved_versions; //  version_index_reserve
    bool beginning;             //  an epoch begins in the sampler: its consumer has withdrawn its claims
    uint64_t hits, misses;
    version_index_losses_t losses;              //  without evictions: the cache counts those
    version_index_losses_t account_losses [PREPARED_ACCOUNTS];
};

//  Whether the version is of the consumer's side: the followers, or the others.
static inline bool
version_index_is_own (const consumer_t *consumer, const version_t *version)
{
    return (version->ticket != 0) == consumer->follows;
}

static inline bool
version_index_has_used (const consumer_t *consumer, const version_t *version)
{
    return version->seen [consumer->sampler_job / 64] >> consumer->sampler_job % 64 & 1;
}

//  ---- version_index_tenants.c: the account that pays
//  After a consumer has joined its set; saw_versions: it counts as having used versions of its earlier
//  samples.  Before a consumer leaves its set, when it no longer counts as having used any version.
void version_index_tenant_joins (consumer_t *consumer, bool saw_versions);
void version_index_tenant_leaves (consumer_t *consumer);
//  After the users of the version, or its side, have changed.
void version_index_share (version_set_t *kind, version_t *version);
//  The version moves to the consumer's side, where its earlier users do not count.  False: it did not fit the
//  tenant's account, and is out of the index.
bool version_index_share_alone (const consumer_t *consumer, version_t *version);
//  After sets or their consumers have changed.
void version_index_measure_reserve (version_index_t *self);
void version_index_check_tenants (version_index_t *self);

//  ---- version_index_losses.c: versions that are lost and prepared again
//  The version leaves the index, or this side: a loss to each consumer that might have used it there.
void version_index_lose (version_index_t *self, const version_t *version, bool is_reusable);
//  A version is removed for another reason than room.  The first counts it if one job only has used it; the
//  second also removes it, a loss to all others.
void version_index_count_drop (version_index_t *self, const version_t *version);
void version_index_drop (version_index_t *self, version_t *version);
//  The consumer draws the sample and gets a version: earlier losses of it are over.
void version_index_losses_take (consumer_t *consumer, uint32_t id);
//  The version that the consumer gets is a new one.
void version_index_count_again (const consumer_t *consumer);
//  Forgets the consumer's losses; frees their memory.
void version_index_losses_forget (consumer_t *consumer);
void version_index_losses_free (consumer_t *consumer);
void version_index_check_losses (const version_index_t *self);

#endif
