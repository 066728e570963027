#include "version_index.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "sampler_passes.h"
#include "xalloc.h"

enum { VERSION_INDEX_MAGIC = 0x73746f63 };
enum { KINDS_MIN = 8, VERSIONS_OF_SAMPLE_MAX = 16, DRAWS_MORE = 64 };

_Static_assert ((int) SAMPLER_JOBS_MAX == (int) PREPARED_JOBS_MAX,
    "a version knows every job that may have used it");

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
static bool
s_is_own (const consumer_t *consumer, const version_t *version)
{
    return (version->ticket != 0) == consumer->follows;
}

static bool
s_has_used (const consumer_t *consumer, const version_t *version)
{
    return version->seen [consumer->sampler_job / 64] >> consumer->sampler_job % 64 & 1;
}

static void s_merging (void *context, sampler_t *sampler);

//  ---- losses

//  Whether the version, which is of the consumer's side, could serve it.
static bool
s_could_serve (const consumer_t *consumer, const version_t *version)
{
    const version_set_t *kind = consumer->kind;
    if (!kind->is_random)
        return sampler_has (kind->sampler, consumer->sampler_job, version->id);
    return !s_has_used (consumer, version)
        && sampler_passes_comes (kind->sampler, consumer->sampler_job, version->id, version->drawn_at);
}

//  The version leaves the index, or this side: a loss to each consumer that might have used it there.
static void
s_lose (version_index_t *self, const version_t *version, bool is_reusable)
{
    const version_set_t *kind = version_set_of (self, version);
    //  A random version could have served the consumers that it counts; a deterministic one also serves later
    //  epochs.  A consumer at the begin of an epoch needs samples, and no count includes it yet.  (The counts
    //  of a drawn sample do not include the consumers inside the draw.  But one that needs the sample once
    //  more draws alone, and the version serves it.)
    uint32_t left = kind->is_random && !self->beginning? version->count: UINT32_MAX;
    if (left > 0)
        sampler_prefetch (kind->sampler, version->id);
    for (consumer_t *consumer = kind->consumers; consumer && left > 0; consumer = consumer->next) {
        //  Not consumer->follows: strata may merge because the consumer turns to passes.
        if (sampler_follows (kind->sampler, consumer->sampler_job) != is_reusable
            || !s_could_serve (consumer, version))
            continue;
        left--;
        bool is_own = version->sharers >> consumer->tenant & 1;
        lost_samples_add (&consumer->lost [is_own? VERSION_INDEX_LOST_OWN: VERSION_INDEX_LOST_OTHERS],
            version->id);
    }
}

//  A version is removed for another reason than room.  Counts it if one job only has used it.
static void
s_count_drop (version_index_t *self, const version_t *version)
{
    if (version->jobs > 1)
        return;
    self->losses.dropped++;
    self->account_losses [version->account].dropped++;
}

//  The same; also removes it, a loss to all others.
static void
s_drop (version_index_t *self, version_t *version)
{
    s_count_drop (self, version);
    s_lose (self, version, version->ticket != 0);
    prepared_remove (self->prepared, version);
}

//  The version that the consumer gets is a new one.
static void
s_count_again (const consumer_t *consumer)
{
    version_index_t *self = consumer->kind->version_index;
    self->losses.again += consumer->had_lost [VERSION_INDEX_LOST_OWN]
        || consumer->had_lost [VERSION_INDEX_LOST_OTHERS];
    self->account_losses [consumer->tenant].again += consumer->had_lost [VERSION_INDEX_LOST_OWN];
}

version_index_losses_t
version_index_losses (const version_index_t *self)
{
    version_index_losses_t losses = self->losses;
    losses.evictions = prepared_evictions (self->prepared);
    return losses;
}

version_index_losses_t
version_index_tenant_losses (const version_index_t *self, uint32_t number)
{
    assert (number < self->tenant_count);
    version_index_losses_t losses = self->account_losses [number];
    losses.evictions = prepared_account_evictions (self->prepared, number);
    return losses;
}

//  ---- tenants

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

//  gone: a consumer that no longer counts; or NULL.
static uint64_t
s_sharers (const version_set_t *kind, const version_t *version, const consumer_t *gone)
{
    uint64_t used = 0, useful = 0;
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next) {
        uint64_t bit = s_bit (consumer->tenant);
        if (consumer == gone || !s_is_own (consumer, version))
            continue;
        bool has_used = s_has_used (consumer, version);
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
s_share_but (version_set_t *kind, version_t *version, const consumer_t *gone)
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

//  After the users of the version, or its side, have changed.
static void
s_share (version_set_t *kind, version_t *version)
{
    if (version->indexed && kind->version_index->tenant_count > 1)
        s_share_but (kind, version, NULL);
}

//  The version moves to the consumer's side, where its earlier users do not count.  False: it did not fit the
//  tenant's account, and is out of the index.
static bool
s_share_alone (const consumer_t *consumer, version_t *version)
{
    version_index_t *self = consumer->kind->version_index;
    uint32_t tenant = consumer->tenant;
    if (version->account != tenant && !prepared_account_fits (self->prepared, tenant, version->bytes)) {
        s_drop (self, version);
        return false;
    }
    prepared_share (self->prepared, version, s_bit (tenant), tenant);
    return true;
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

//  After sets or their consumers have changed.
static void
s_measure_reserve (version_index_t *self)
{
    if (self->tenant_count == 1)
        return;
    size_t largest [VERSION_INDEX_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        prepared_account_outside (self->prepared, tenant, self->reserved_versions * largest [tenant]);
}

void
version_index_reserve (version_index_t *self, uint32_t versions)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    self->reserved_versions = versions;
    s_measure_reserve (self);
}

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
    if (version->class == consumer->kind->number && s_is_own (consumer, version))
        s_share_but (consumer->kind, version, NULL);
}

//  After the consumer has joined its set; saw_versions: it counts as having used versions of its earlier
//  samples.
static void
s_tenant_joins (consumer_t *consumer, bool saw_versions)
{
    version_set_t *kind = consumer->kind;
    version_index_t *self = kind->version_index;
    assert (consumer->tenant < self->tenant_count);
    bool is_first = !(kind->tenants & s_bit (consumer->tenant));
    kind->tenants |= s_bit (consumer->tenant);
    if (self->tenant_count > 1 && (saw_versions || !is_first))
        prepared_each (self->prepared, s_came, consumer);
    if (is_first)
        s_measure_reserve (self);
}

//  For prepared_each; likewise.
static void
s_goes (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    if (version->class == consumer->kind->number
    &&  (version->account == consumer->tenant || version->sharers & s_bit (consumer->tenant)))
        s_share_but (consumer->kind, version, consumer);
}

//  Before the consumer leaves its set, when it no longer counts as having used any version.  A single tenant
//  keeps its versions for its next job.
static void
s_tenant_leaves (consumer_t *consumer)
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
        s_measure_reserve (self);
}

//  ---- kinds

version_set_t *
version_set_new (version_index_t *self, sampler_t *sampler, size_t version_bytes, bool is_random, void *user)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    uint32_t number = 0;
    while (number < self->kind_room && self->kinds [number])
        number++;
    if (number == self->kind_room) {
        self->kind_room = self->kind_room? self->kind_room * 2: KINDS_MIN;
        self->kinds = xalloc_memory (realloc (self->kinds, self->kind_room * sizeof *self->kinds));
        memset (self->kinds + number, 0, (self->kind_room - number) * sizeof *self->kinds);
    }
    version_set_t *kind = xalloc_memory (calloc (1, sizeof *kind));
    *kind = (version_set_t) {
        .version_index = self, .number = number, .sampler = sampler, .version_bytes = version_bytes,
        .is_random = is_random, .user = user
    };
    self->kinds [number] = kind;
    sampler_on_merge (sampler, s_merging, self);
    return kind;
}

void *
version_set_user (const version_set_t *self)
{
    return self->user;
}

bool
version_set_is_random (const version_set_t *self)
{
    return self->is_random;
}

version_set_t *
version_set_of (const version_index_t *self, const version_t *version)
{
    assert (version->class < self->kind_room);
    assert (self->kinds [version->class]);
    return self->kinds [version->class];
}

void
version_index_on_kind_end (version_index_t *self, void (*ended) (void *context, void *user), void *context)
{
    self->ended = ended;
    self->ended_context = context;
}

void
version_index_on_leave (version_index_t *self, void (*left) (void *context, version_t *version),
    void *context)
{
    self->left = left;
    self->left_context = context;
}

static void
s_end_when_empty (version_set_t *kind)
{
    if (kind->consumers || kind->versions > 0)
        return;
    version_index_t *self = kind->version_index;
    void *user = kind->user;
    self->kinds [kind->number] = NULL;
    free (kind->draws);
    free (kind);
    s_measure_reserve (self);
    if (self->ended)
        self->ended (self->ended_context, user);
}

//  The number of the sample's next version.  Ids come in any order, so the table grows to its full size in a
//  few steps.
static uint32_t
s_next_draw (version_set_t *kind, uint32_t id)
{
    if (id >= kind->draws_room) {
        size_t room = (size_t) id + id / 8 + DRAWS_MORE;
        kind->draws = xalloc_memory (realloc (kind->draws, room * sizeof *kind->draws));
        memset (kind->draws + kind->draws_room, 0, (room - kind->draws_room) * sizeof *kind->draws);
        kind->draws_room = room;
    }
    return kind->draws [id]++;
}

//  ---- life

static uint64_t
s_random_below (void *random, uint64_t bound)
{
    return random_below (random, bound);
}

//  s_serve reports a new version that is evicted before any use: it is on no side yet.
static void
s_version_left (void *context, version_t *version, bool evicted)
{
    if (evicted && version->jobs > 0)
        s_lose (context, version, version->ticket != 0);
    if (version->ticket && evicted)
        sampler_lost (version_set_of (context, version)->sampler);
    if (version->ticket)
        sampler_reusable_remove (version_set_of (context, version)->sampler, version->ticket);
    version->ticket = 0;
    const version_index_t *self = context;
    if (self->left)
        self->left (self->left_context, version);
}

static void
s_version_freed (void *context, const version_t *version)
{
    version_set_t *kind = version_set_of (context, version);
    assert (kind->versions > 0);
    kind->versions--;
    s_end_when_empty (kind);
}

version_index_t *
version_index_new (size_t budget_bytes, uint64_t seed)
{
    version_index_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->magic = VERSION_INDEX_MAGIC;
    self->tenant_count = 1;
    self->random = random_from_seed (seed);
    prepared_options_t options = {
        .budget_bytes = budget_bytes, .limit_bytes = budget_bytes,
        .random_below = s_random_below, .random = &self->random
    };
    self->prepared = prepared_new (&options);
    prepared_on_leave (self->prepared, s_version_left, self);
    prepared_on_free (self->prepared, s_version_freed, self);
    return self;
}

void
version_index_destroy (version_index_t **self_p)
{
    version_index_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == VERSION_INDEX_MAGIC);
    prepared_destroy (&self->prepared);
    for (uint32_t number = 0; number < self->kind_room; number++)
        assert (!self->kinds [number]);         //  no consumer is left
    free (self->kinds);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

prepared_t *
version_index_prepared (version_index_t *self)
{
    return self->prepared;
}

uint64_t
version_index_hits (const version_index_t *self)
{
    return self->hits;
}

uint64_t
version_index_misses (const version_index_t *self)
{
    return self->misses;
}

//  ---- claims

static void
s_see (version_t *version, const consumer_t *consumer)
{
    version->jobs += !s_has_used (consumer, version);
    version->seen [consumer->sampler_job / 64] |= 1ull << consumer->sampler_job % 64;
}

static bool
s_used_up (const version_t *version, const consumer_t *consumer)
{
    return consumer->kind->is_random && s_has_used (consumer, version);
}

//  Whether the cache has room for a new version without an eviction.
static bool
s_has_room (const consumer_t *consumer)
{
    const version_set_t *kind = consumer->kind;
    return prepared_has_room (kind->version_index->prepared, consumer->tenant, kind->version_bytes);
}

//  A deterministic version stays for later epochs, of which nothing is open yet.  If it counted only once its
//  sample is, it would be evicted like one that was just used.
static bool
s_is_open (const consumer_t *consumer, uint32_t id)
{
    return !consumer->kind->is_random || !consumer->open || !consumer->follows
        || consumer->open [id / 64] >> id % 64 & 1;
}

//  A version that was drawn at this place in the passes.
static bool
s_wants (const consumer_t *consumer, uint32_t id, uint64_t place)
{
    return s_is_open (consumer, id)
        && sampler_passes_comes (consumer->kind->sampler, consumer->sampler_job, id, place);
}

//  Whether the version's count includes the consumer, unless the consumer is inside a draw.
static bool
s_counts (const consumer_t *consumer, const version_t *version)
{
    return s_is_own (consumer, version) && s_wants (consumer, version->id, version->drawn_at)
        && !s_used_up (version, consumer);
}

typedef struct {
    const consumer_t *consumer;
    int change;
} claim_t;

//  Enters or withdraws a claim: the count, and for a reusable version the permission to take it.
static void
s_claim (void *context, version_t *version)
{
    const claim_t *claim = context;
    const consumer_t *consumer = claim->consumer;
    version_set_t *kind = consumer->kind;
    if (version->class != kind->number || !s_counts (consumer, version))
        return;
    prepared_count (kind->version_index->prepared, version, claim->change);
    if (version->ticket && claim->change > 0)
        sampler_allow (kind->sampler, version->ticket, consumer->sampler_job);
    else
    if (version->ticket)
        sampler_forbid (kind->sampler, version->ticket, consumer->sampler_job);
}

void
version_index_claim (const consumer_t *consumer, uint32_t id, int change)
{
    claim_t claim = { consumer, change };
    version_t *version = prepared_find (consumer->kind->version_index->prepared, consumer->kind->number, id);
    for (; version; version = prepared_find_next (version))
        s_claim (&claim, version);
}

static void
s_claim_sample (void *context, uint32_t id)
{
    const claim_t *claim = context;
    version_index_claim (claim->consumer, id, claim->change);
}

//  After the version has changed sides: counts the consumers of its new side.
static void
s_set_count (version_set_t *kind, version_t *version, uint32_t count)
{
    while (version->count != count)
        prepared_count (kind->version_index->prepared, version, version->count < count? +1: -1);
}

//  All claims of a consumer: before and after the samples that it needs change.
void
version_index_claim_all (const consumer_t *consumer, int change)
{
    claim_t claim = { consumer, change };
    prepared_t *prepared = consumer->kind->version_index->prepared;
    const sampler_t *sampler = consumer->kind->sampler;
    //  What is less work: to look up every sample of the consumer, or to look at every version.
    if (sampler_epoch_samples (sampler, consumer->sampler_job) < prepared_versions (prepared) / 2)
        sampler_each (sampler, consumer->sampler_job, s_claim_sample, &claim);
    else
        prepared_each (prepared, s_claim, &claim);
}

static void
s_enter_draw (consumer_t *consumer, uint32_t id)
{
    //  The consumer gets a version: earlier losses of the sample are over.
    for (int kind = 0; kind < VERSION_INDEX_LOST_KINDS; kind++)
        consumer->had_lost [kind] = lost_samples_remove (&consumer->lost [kind], id);
    version_index_claim (consumer, id, -1);
    consumer->drawing = true;
}

//  Enters the claims that are left: a list may hold the id twice, and a row of an epoch that is over leaves
//  the need of the new epoch as it is.
static void
s_leave_draw (consumer_t *consumer, uint32_t id)
{
    consumer->drawing = false;
    version_index_claim (consumer, id, +1);
}

//  ---- consumers that join and leave

//  For prepared_each.  Without this, a restarted job would find versions of its old epoch in its next one
//  while other jobs go on.  The strata know the samples taken before, as they must know everything that
//  decides here (randomness.md).
static void
s_see_taken (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    const version_set_t *kind = consumer->kind;
    if (version->class == kind->number && s_is_own (consumer, version)
        && !sampler_needs (kind->sampler, consumer->sampler_job, version->id)
    &&  sampler_has (kind->sampler, consumer->sampler_job, version->id))
        s_see (version, consumer);
}

static void
s_skip (void *context, uint32_t id, int change)
{
    if (id == PASSES_ALL)
        version_index_claim_all (context, change);
    else
        version_index_claim (context, id, change);
}

//  How the sampler draws for the consumer.
static void
s_note_draws (consumer_t *consumer)
{
    sampler_t *sampler = consumer->kind->sampler;
    consumer->follows = sampler_follows (sampler, consumer->sampler_job);
    consumer->has_passes = sampler_passes_has (sampler, consumer->sampler_job);
    sampler_passes_on_skip (sampler, consumer->sampler_job, s_skip, consumer);
}

void
version_index_join (version_index_t *self, consumer_t *consumer)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    version_set_t *kind = consumer->kind;
    s_note_draws (consumer);
    consumer->drawing = false;
    consumer->open = NULL;
    memset (consumer->lost, 0, sizeof consumer->lost);
    consumer->next = kind->consumers;
    kind->consumers = consumer;
    bool goes_on = sampler_remaining (kind->sampler, consumer->sampler_job)
        < sampler_epoch_samples (kind->sampler, consumer->sampler_job);
    if (kind->is_random && goes_on)
        prepared_each (self->prepared, s_see_taken, consumer);
    s_tenant_joins (consumer, kind->is_random && goes_on);
    version_index_claim_all (consumer, +1);
}

//  Another job will get the consumer's number, and has used no version.
static void
s_unsee (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    if (version->class == consumer->kind->number)
        version->seen [consumer->sampler_job / 64] &= ~(1ull << consumer->sampler_job % 64);
}

typedef struct {
    const version_index_t *version_index;
    const version_set_t *kind;          //  NULL: the reusable versions of all sets of the sampler
    const sampler_t *sampler;
    version_t **versions;
    size_t count;
} gather_t;

static void
s_gather (void *context, version_t *version)
{
    gather_t *gather = context;
    const version_set_t *kind = version_set_of (gather->version_index, version);
    if (gather->kind? kind == gather->kind: version->ticket && kind->sampler == gather->sampler)
        gather->versions [gather->count++] = version;
}

//  Collects the versions; the caller frees the array.  The index must not change inside prepared_each.
static void
s_gather_all (version_index_t *self, gather_t *gather)
{
    gather->version_index = self;
    gather->versions = xalloc_memory (calloc (prepared_versions (self->prepared) + 1,
        sizeof *gather->versions));
    prepared_each (self->prepared, s_gather, gather);
}

//  After the last consumer has left, random versions serve no job: the draws of a new job would rarely find
//  them, and they would keep the table of draw numbers alive.
static void
s_drop_versions (version_set_t *kind)
{
    gather_t gather = { .kind = kind };
    prepared_t *prepared = kind->version_index->prepared;
    bool is_left = kind->consumers != NULL;
    s_gather_all (kind->version_index, &gather);
    for (size_t index = 0; index < gather.count; index++) {
        if (is_left)
            s_count_drop (kind->version_index, gather.versions [index]);
        prepared_remove (prepared, gather.versions [index]);    //  the set may end with its last version
    }
    free (gather.versions);
}

bool
version_set_is_idle (const version_set_t *self)
{
    return !self->consumers;
}

void
version_set_end (version_set_t *self)
{
    assert (!self->consumers);
    s_drop_versions (self);
}

//  By number: the end of one set may be the end of another.
void
version_index_end_sets (version_index_t *self, const sampler_t *sampler)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    for (uint32_t number = 0; number < self->kind_room; number++)
        if (self->kinds [number] && self->kinds [number]->sampler == sampler)
            version_set_end (self->kinds [number]);
}

//  The version goes over to the others' side.
static void
s_reusable_remove (version_set_t *kind, version_t *version)
{
    s_lose (kind->version_index, version, true);
    sampler_reusable_remove (kind->sampler, version->ticket);
    version->ticket = 0;
    uint32_t count = 0;
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next)
        count += !consumer->drawing && s_counts (consumer, version);
    s_set_count (kind, version, count);
    s_share (kind, version);
}

//  Strata merge.  The existing versions still reveal which jobs' data a sample was in, so followers must not
//  prefer them.  Random versions are dropped.  Deterministic versions may be the whole cost of a data set:
//  they move to the other side, and a follower that draws one brings it back while the cache has room.
static void
s_merging (void *context, sampler_t *sampler)
{
    version_index_t *self = context;
    gather_t gather = { .sampler = sampler };
    s_gather_all (self, &gather);
    for (size_t index = 0; index < gather.count; index++) {
        version_set_t *kind = version_set_of (self, gather.versions [index]);
        if (kind->is_random)
            s_drop (self, gather.versions [index]);
        else
            s_reusable_remove (kind, gather.versions [index]);
    }
    free (gather.versions);
}

void
version_index_leave (version_index_t *self, consumer_t *consumer)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    version_set_t *kind = consumer->kind;
    version_index_claim_all (consumer, -1);
    prepared_each (self->prepared, s_unsee, consumer);
    s_tenant_leaves (consumer);
    //  The last consumer stays until the versions are gone, so that the set does not end inside this
    //  function.
    if (kind->is_random && kind->consumers == consumer && !consumer->next)
        s_drop_versions (kind);
    consumer_t **link = &kind->consumers;
    while (*link != consumer)
        link = &(*link)->next;
    *link = consumer->next;
    for (int lost = 0; lost < VERSION_INDEX_LOST_KINDS; lost++)
        lost_samples_free (&consumer->lost [lost]);
    consumer->kind = NULL;
    s_end_when_empty (kind);
}

//  For prepared_each: a consumer that followed draws along passes now, and is of the other side.
static void
s_share_anew (void *context, version_t *version)
{
    const consumer_t *consumer = context;
    if (version->class == consumer->kind->number)
        s_share (consumer->kind, version);
}

void
version_index_epoch_begin (version_index_t *self, consumer_t *consumer)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    sampler_t *sampler = consumer->kind->sampler;
    if (sampler_remaining (sampler, consumer->sampler_job) > 0)     //  otherwise it claims nothing
        version_index_claim_all (consumer, -1);
    self->beginning = true;
    sampler_epoch_begin (sampler, consumer->sampler_job);       //  strata may merge, which drops versions
    self->beginning = false;
    bool followed = consumer->follows;
    s_note_draws (consumer);
    if (followed && !consumer->follows && self->tenant_count > 1)
        prepared_each (self->prepared, s_share_anew, consumer);
    if (consumer->kind->is_random)
        for (int lost = 0; lost < VERSION_INDEX_LOST_KINDS; lost++)
            lost_samples_clear (&consumer->lost [lost]);
    version_index_claim_all (consumer, +1);
}

//  ---- the version that serves a consumer

//  From now on the version counts followers, and they may take it.  The other consumers that it has served
//  must not matter to them.
static void
s_reusable_add (const consumer_t *taker, version_t *version)
{
    version_set_t *kind = taker->kind;
    if (!s_share_alone (taker, version))
        return;
    uint32_t count = 0;
    version->ticket = sampler_reusable_add (kind->sampler, version->id);
    assert (version->ticket);
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next)
        if (!consumer->drawing && s_counts (consumer, version)) {
            sampler_allow (kind->sampler, version->ticket, consumer->sampler_job);
            count++;
        }
    s_set_count (kind, version, count);
}

//  Consumers inside the draw do not count until they leave it: they hold their pins, and eviction sees the
//  claims of all others.
static version_t *
s_new_version (const consumer_t *consumer, uint32_t id, uint64_t place)
{
    version_set_t *kind = consumer->kind;
    uint32_t draw = consumer->numbers? consumer->number: kind->is_random? s_next_draw (kind, id): 0;
    uint32_t count = 0;
    sampler_prefetch (kind->sampler, id);
    for (const consumer_t *other = kind->consumers; other; other = other->next)
        count += !other->drawing && other->follows == consumer->follows && s_wants (other, id, place);
    kind->versions++;
    version_t *version = prepared_insert (kind->version_index->prepared, consumer->tenant, kind->number, id,
        draw, kind->version_bytes, count);
    version->drawn_at = place;
    return version;
}

//  An indexed version that the consumer may use, a random one of several; NULL: none.  The two sides are
//  apart, because the strata do not know the data of the other side.  A consumer uses a version of the other
//  side only if a new version would evict none; otherwise samples that the other side has too would be
//  evicted less often than the rest, and so be taken earlier.
static version_t *
s_indexed (const consumer_t *consumer, uint32_t id)
{
    version_index_t *self = consumer->kind->version_index;
    version_t *chosen = NULL;
    uint64_t candidates = 0;
    version_t *version = prepared_find (self->prepared, consumer->kind->number, id);
    for (; version; version = prepared_find_next (version)) {
        bool own = s_is_own (consumer, version), chosen_is_own = chosen
            && s_is_own (consumer, chosen);
        if (s_used_up (version, consumer) || (chosen_is_own && !own))
            continue;
        candidates = own && !chosen_is_own? 1: candidates + 1;
        if (random_below (&self->random, candidates) == 0)
            chosen = version;
    }
    return chosen && (s_is_own (consumer, chosen) || s_has_room (consumer))? chosen: NULL;
}

//  Whether s_indexed would find a version.  For a consumer that does not follow, only versions count that
//  will not be evicted: data that its draws must not reveal decide which versions exist (private jobs with
//  overlapping data: z = 5 in 1,500 epochs of 72 samples).
bool
version_index_has (const consumer_t *consumer, uint32_t id)
{
    const version_set_t *kind = consumer->kind;
    version_t *version = prepared_find (kind->version_index->prepared, kind->number, id);
    bool others = false;
    for (; version; version = prepared_find_next (version))
        if (!s_used_up (version, consumer)) {
            if (consumer->follows && s_is_own (consumer, version))
                return true;
            others = true;
        }
    return others && s_has_room (consumer);
}

bool
version_index_serves (const version_index_t *self, consumer_t *const *consumers, size_t count, uint32_t id)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    for (size_t index = 0; index < count; index++)
        if (!s_is_open (consumers [index], id) || !version_index_has (consumers [index], id))
            return false;
    return true;
}

//  A version that serves a consumer of the same draw serves this one too, even if it was evicted at once.
static version_t *
s_just_served (const consumer_t *consumer, version_t *const *versions, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (versions [index]->class == consumer->kind->number && !s_used_up (versions [index], consumer))
            return versions [index];
    return NULL;
}

//  A follower's version becomes reusable; a new one may have been evicted at once.
static void
s_settle (const consumer_t *consumer, version_t *version, bool is_new)
{
    version_index_t *self = consumer->kind->version_index;
    if (is_new && !version->indexed)
        s_lose (self, version, consumer->follows);
    if (!consumer->follows || !version->indexed || version->ticket)
        return;
    if (!is_new)
        s_lose (self, version, false);
    s_reusable_add (consumer, version);
}

//  A version for the consumer, pinned; versions [0 .. count) were found in the same draw.
static version_t *
s_serve (version_index_t *self, consumer_t *consumer, uint32_t id, uint64_t place, version_t *const *versions,
    size_t count, uint64_t *scheduled)
{
    version_t *version = s_indexed (consumer, id);
    if (!version)
        version = s_just_served (consumer, versions, count);
    bool is_new = !version;
    if (version) {
        prepared_pin (version);
        self->hits++;
    }
    else {
        version = s_new_version (consumer, id, place);
        self->misses++;
        s_count_again (consumer);
        if (scheduled)
            ++*scheduled;
    }
    s_see (version, consumer);
    s_settle (consumer, version, is_new);
    s_share (consumer->kind, version);
    return version;
}

//  Whether no present consumer will use the version again.  For a reusable version only followers matter; a
//  version of the other side may serve both sides.
static bool
s_seen_by_all (const version_set_t *kind, const version_t *version)
{
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next)
        if ((consumer->follows || version->ticket == 0) && !s_has_used (consumer, version)
        &&  sampler_has (kind->sampler, consumer->sampler_job, version->id))
            return false;
    return true;
}

//  Limits a sample to few versions at a time.  Drops versions that every consumer has used; if too many
//  remain, drops the one that the fewest consumers may still use, as in any eviction.  Otherwise versions
//  would pile up beside a stopped job, and every draw walks them.  Reusable versions are limited separately,
//  so that those that stay depend on followers only.
static void
s_thin_out (version_set_t *kind, uint32_t id, bool is_reusable)
{
    version_index_t *self = kind->version_index;
    version_t *worst = NULL, *next;
    uint64_t count = 0, ties = 0;
    for (version_t *version = prepared_find (self->prepared, kind->number, id); version; version = next) {
        next = prepared_find_next (version);
        if ((version->ticket != 0) != is_reusable)
            continue;
        if (kind->is_random && s_seen_by_all (kind, version)) {
            prepared_remove (self->prepared, version);
            continue;
        }
        count++;
        if (!worst || version->count < worst->count)
            ties = 0;
        if ((!worst || version->count <= worst->count) && random_below (&self->random, ++ties) == 0)
            worst = version;
    }
    if (count > VERSIONS_OF_SAMPLE_MAX)
        s_drop (self, worst);
}

void
version_index_draw (version_index_t *self, consumer_t **consumers, size_t count, uint32_t id,
    version_t **versions, uint64_t *scheduled)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    assert (count > 0);
    for (size_t index = 0; index < count; index++)
        s_enter_draw (consumers [index], id);
    sampler_commit (consumers [0]->kind->sampler, id);
    for (size_t index = 0; index < count; index++)
        versions [index] = s_serve (self, consumers [index], id, sampler_passes_place (
            consumers [index]->kind->sampler, consumers [index]->sampler_job), versions, index, scheduled);
    for (size_t index = 0; index < count; index++)
        s_leave_draw (consumers [index], id);
    for (size_t index = 0; index < count; index++)
        if (index == 0 || consumers [index]->kind != consumers [index - 1]->kind
        ||  consumers [index]->follows != consumers [index - 1]->follows)
            s_thin_out (consumers [index]->kind, id, consumers [index]->follows);
}

version_t *
version_index_serve (version_index_t *self, consumer_t *consumer, uint32_t id)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    s_enter_draw (consumer, id);
    version_t *version = s_serve (self, consumer, id, PASSES_NO_PLACE, NULL, 0, NULL);
    s_leave_draw (consumer, id);
    s_thin_out (consumer->kind, id, consumer->follows);
    return version;
}

void
version_index_forget (version_index_t *self, sampler_t *sampler, uint32_t id)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    for (uint32_t number = 0; number < self->kind_room; number++) {
        version_t *version;
        //  The set may end with its last version.
        while (self->kinds [number] && self->kinds [number]->sampler == sampler
        &&     (version = prepared_find (self->prepared, number, id)))
            prepared_remove (self->prepared, version);
    }
}

void
version_index_discard (version_index_t *self, version_t *version)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    assert (version->pins > 0);
    prepared_remove (self->prepared, version);
}

//  ---- checks

static void
s_check_version (void *context, version_t *version)
{
    const version_set_t *kind = version_set_of (context, version);
    uint32_t count = 0;
    for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next) {
        count += s_counts (consumer, version);
        if (consumer->follows && kind->is_random && s_has_used (consumer, version))
            assert (version->ticket);                                           //  K2
    }
    assert (version->count == count);                                           //  K1
}

static void
s_check_sharers (void *context, version_t *version)
{
    const version_index_t *self = context;
    const version_set_t *kind = version_set_of (self, version);
    assert (version->sharers == s_sharers (kind, version, NULL));               //  K3
    assert (version->account == PREPARED_NOBODY || kind->tenants >> version->account & 1);
}

static void
s_check_tenants (version_index_t *self)
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
    prepared_each (self->prepared, s_check_sharers, self);
    size_t largest [VERSION_INDEX_TENANTS_MAX];
    s_largest (self, largest);
    for (uint32_t tenant = 0; tenant < self->tenant_count; tenant++)
        assert (prepared_account_outside_bytes (self->prepared, tenant)
            == self->reserved_versions * largest [tenant]);     //  K4
}

static void
s_check_losses (const version_index_t *self)
{
    version_index_losses_t sum = { 0 };
    for (uint32_t number = 0; number < PREPARED_ACCOUNTS; number++) {
        sum.again += self->account_losses [number].again;
        sum.dropped += self->account_losses [number].dropped;
    }
    assert (sum.dropped == self->losses.dropped);                               //  K5
    assert (sum.again <= self->losses.again);
    assert (self->losses.again <= self->misses);
}

void
version_index_check (version_index_t *self)
{
    assert (self->magic == VERSION_INDEX_MAGIC);
    prepared_check (self->prepared);
    prepared_each (self->prepared, s_check_version, self);
    size_t versions = 0;
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const version_set_t *kind = self->kinds [number];
        if (!kind)
            continue;
        assert (kind->number == number);
        versions += kind->versions;
        for (const consumer_t *consumer = kind->consumers; consumer; consumer = consumer->next) {
            assert (consumer->kind == kind);
            assert (!consumer->drawing);
        }
    }
    assert (versions >= prepared_versions (self->prepared));
    s_check_tenants (self);
    s_check_losses (self);
}
