//  What the files of the version index share: its fields, and what one does for the other.

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
    //  how it stands
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
    version_set_t **kinds;       //  by number; NULL: free
    uint32_t kind_room;
    uint32_t tenant_count;      //  numbers above are no tenants'
    uint32_t reserved_versions; //  version_index_reserve
    uint64_t hits, misses;
    version_index_losses_t losses;              //  without evictions, which are the cache's, as are
    version_index_losses_t account_losses [PREPARED_ACCOUNTS];
};

//  Whether a version is of the consumer's side: of those that follow, or of the others.
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

//  ---- version_index_tenants.c: who pays
//  The consumer, which is among its kind's, has come, and counts as having used what there is of its earlier samples
//  (saw_versions); is about to go, and is still among them, but has used nothing any more.
void version_index_tenant_joins (consumer_t *consumer, bool saw_versions);
void version_index_tenant_leaves (consumer_t *consumer);
//  Who has used the version, or its side, has changed.
void version_index_share (version_set_t *kind, version_t *version);
//  The version is about to be on the consumer's side, and nothing that was before matters there.  False: it was too much for the
//  tenant's account, and is out of the index.
bool version_index_share_alone (const consumer_t *consumer, version_t *version);
//  The kinds that there are, or their consumers, have changed.
void version_index_measure_reserve (version_index_t *self);
void version_index_check_tenants (version_index_t *self);

//  ---- version_index_losses.c: what is lost, and prepared again
//  The version leaves the index, or this side, for all that might have used it there.
void version_index_lose (version_index_t *self, const version_t *version, bool is_shelved);
//  A version goes for another reason than room: counts it, if it was of use to one only; and does it, a loss to all others.
void version_index_count_drop (version_index_t *self, const version_t *version);
void version_index_drop (version_index_t *self, version_t *version);
//  The consumer draws the sample: whatever was lost, it gets a version now.
void version_index_losses_take (consumer_t *consumer, uint32_t id);
//  It gets a new one.
void version_index_count_again (const consumer_t *consumer);
//  What is lost to it does not matter any more; nor ever again.
void version_index_losses_forget (consumer_t *consumer);
void version_index_losses_free (consumer_t *consumer);
void version_index_check_losses (const version_index_t *self);

#endif
