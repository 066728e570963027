#include "stock_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS_MIN = 8, VERSIONS_OF_SAMPLE_MAX = 16, DRAWS_MORE = 64 };

_Static_assert ((int) SAMPLER_JOBS_MAX == (int) PREPARED_JOBS_MAX, "a version knows every job that may have used it");

static void *
s_need (void *memory)
{
    if (!memory) {
        fprintf (stderr, "tureen: no memory for the bookkeeping of versions\n");
        abort ();
    }
    return memory;
}

static void s_merging (void *context, sampler_t *sampler);

//  ---- kinds

stock_kind_t *
stock_kind_new (stock_t *self, sampler_t *sampler, size_t version_bytes, bool is_random, void *user)
{
    assert (self->magic == STOCK_MAGIC);
    uint32_t number = 0;
    while (number < self->kind_room && self->kinds [number])
        number++;
    if (number == self->kind_room) {
        self->kind_room = self->kind_room? self->kind_room * 2: KINDS_MIN;
        self->kinds = s_need (realloc (self->kinds, self->kind_room * sizeof *self->kinds));
        memset (self->kinds + number, 0, (self->kind_room - number) * sizeof *self->kinds);
    }
    stock_kind_t *kind = s_need (calloc (1, sizeof *kind));
    *kind = (stock_kind_t) {
        .stock = self, .number = number, .sampler = sampler, .version_bytes = version_bytes,
        .is_random = is_random, .user = user
    };
    self->kinds [number] = kind;
    sampler_on_merge (sampler, s_merging, self);
    return kind;
}

void *
stock_kind_user (const stock_kind_t *self)
{
    return self->user;
}

bool
stock_kind_is_random (const stock_kind_t *self)
{
    return self->is_random;
}

stock_kind_t *
stock_kind_of (const stock_t *self, const version_t *version)
{
    assert (version->class < self->kind_room);
    assert (self->kinds [version->class]);
    return self->kinds [version->class];
}

void
stock_on_kind_end (stock_t *self, void (*ended) (void *context, void *user), void *context)
{
    self->ended = ended;
    self->ended_context = context;
}

void
stock_on_leave (stock_t *self, void (*left) (void *context, version_t *version), void *context)
{
    self->left = left;
    self->left_context = context;
}

static void
s_end_when_empty (stock_kind_t *kind)
{
    if (kind->claimants || kind->versions > 0)
        return;
    stock_t *self = kind->stock;
    void *user = kind->user;
    self->kinds [kind->number] = NULL;
    free (kind->draws);
    free (kind);
    stock_measure_reserve (self);
    if (self->ended)
        self->ended (self->ended_context, user);
}

//  The number of the sample's next version.  Ids come in any order, so the table grows to its full size in a
//  few steps.
static uint32_t
s_next_draw (stock_kind_t *kind, uint32_t id)
{
    if (id >= kind->draws_room) {
        size_t room = (size_t) id + id / 8 + DRAWS_MORE;
        kind->draws = s_need (realloc (kind->draws, room * sizeof *kind->draws));
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

//  A newcomer that is evicted at once, which nobody has used, is s_serve's to tell of: it is on no side yet.
static void
s_version_left (void *context, version_t *version, bool evicted)
{
    if (evicted && version->jobs > 0)
        stock_lose (context, version, version->ticket != 0);
    if (version->ticket && evicted)
        sampler_lost (stock_kind_of (context, version)->sampler);
    if (version->ticket)
        sampler_unshelve (stock_kind_of (context, version)->sampler, version->ticket);
    version->ticket = 0;
    const stock_t *self = context;
    if (self->left)
        self->left (self->left_context, version);
}

static void
s_version_freed (void *context, const version_t *version)
{
    stock_kind_t *kind = stock_kind_of (context, version);
    assert (kind->versions > 0);
    kind->versions--;
    s_end_when_empty (kind);
}

stock_t *
stock_new (size_t budget_bytes, uint64_t seed)
{
    stock_t *self = s_need (calloc (1, sizeof *self));
    self->magic = STOCK_MAGIC;
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
stock_destroy (stock_t **self_p)
{
    stock_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == STOCK_MAGIC);
    prepared_destroy (&self->prepared);
    for (uint32_t number = 0; number < self->kind_room; number++)
        assert (!self->kinds [number]);         //  a claimant has not left
    free (self->kinds);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

prepared_t *
stock_prepared (stock_t *self)
{
    return self->prepared;
}

uint64_t
stock_hits (const stock_t *self)
{
    return self->hits;
}

uint64_t
stock_misses (const stock_t *self)
{
    return self->misses;
}

//  ---- claims

static void
s_see (version_t *version, const claimant_t *claimant)
{
    version->jobs += !stock_has_used (claimant, version);
    version->seen [claimant->sampler_job / 64] |= 1ull << claimant->sampler_job % 64;
}

static bool
s_used_up (const version_t *version, const claimant_t *claimant)
{
    return claimant->kind->is_random && stock_has_used (claimant, version);
}

//  Whether a new version would push nothing out that is there.
static bool
s_has_room (const claimant_t *claimant)
{
    const stock_kind_t *kind = claimant->kind;
    return prepared_has_room (kind->stock->prepared, claimant->tenant, kind->version_bytes);
}

static bool
s_wants (const claimant_t *claimant, uint32_t id)
{
    return sampler_needs (claimant->kind->sampler, claimant->sampler_job, id);
}

//  Whether the version's count counts the claimant, unless that is inside a draw.
static bool
s_counts (const claimant_t *claimant, const version_t *version)
{
    return stock_is_own (claimant, version) && s_wants (claimant, version->id)
        && !s_used_up (version, claimant);
}

typedef struct {
    const claimant_t *claimant;
    int change;
} claim_t;

//  Enters or withdraws a claim: the count, and on the shelf the leave to take it.
static void
s_claim (void *context, version_t *version)
{
    const claim_t *claim = context;
    const claimant_t *claimant = claim->claimant;
    stock_kind_t *kind = claimant->kind;
    if (version->class != kind->number || !s_counts (claimant, version))
        return;
    prepared_count (kind->stock->prepared, version, claim->change);
    if (version->ticket && claim->change > 0)
        sampler_allow (kind->sampler, version->ticket, claimant->sampler_job);
    else
    if (version->ticket)
        sampler_forbid (kind->sampler, version->ticket, claimant->sampler_job);
}

static void
s_claim_id (const claimant_t *claimant, uint32_t id, int change)
{
    claim_t claim = { claimant, change };
    version_t *version = prepared_find (claimant->kind->stock->prepared, claimant->kind->number, id);
    for (; version; version = prepared_find_next (version))
        s_claim (&claim, version);
}

static void
s_claim_sample (void *context, uint32_t id)
{
    const claim_t *claim = context;
    s_claim_id (claim->claimant, id, claim->change);
}

//  The version has changed sides: others count.
static void
s_set_count (stock_kind_t *kind, version_t *version, uint32_t count)
{
    while (version->count != count)
        prepared_count (kind->stock->prepared, version, version->count < count? +1: -1);
}

//  Whether it is less work to look every sample of the claimant up than to look at every version.
static bool
s_has_little (const claimant_t *claimant)
{
    return sampler_epoch_samples (claimant->kind->sampler, claimant->sampler_job)
        < prepared_versions (claimant->kind->stock->prepared) / 2;
}

//  All claims of a claimant, before and after what it needs changes.
static void
s_claim_all (const claimant_t *claimant, int change)
{
    claim_t claim = { claimant, change };
    if (s_has_little (claimant))
        sampler_each (claimant->kind->sampler, claimant->sampler_job, s_claim_sample, &claim);
    else
        prepared_each (claimant->kind->stock->prepared, s_claim, &claim);
}

static void
s_enter_draw (claimant_t *claimant, uint32_t id)
{
    s_claim_id (claimant, id, -1);
    stock_losses_take (claimant, id);
    claimant->drawing = true;
}

//  Puts back what is left of its claims: a list may have the id again, and a place that is filled for an epoch
//  that is over leaves the new one's need.
static void
s_leave_draw (claimant_t *claimant, uint32_t id)
{
    claimant->drawing = false;
    s_claim_id (claimant, id, +1);
}

//  ---- coming and going

//  For prepared_each.  Else a job that is started again while others go on would find in its next epoch what it had in
//  this one.  The strata know what was taken, as all that decides here must (randomness.md).
static void
s_see_taken (void *context, version_t *version)
{
    const claimant_t *claimant = context;
    const stock_kind_t *kind = claimant->kind;
    if (version->class == kind->number && stock_is_own (claimant, version) && !s_wants (claimant, version->id)
    &&  sampler_has (kind->sampler, claimant->sampler_job, version->id))
        s_see (version, claimant);
}

void
stock_join (stock_t *self, claimant_t *claimant)
{
    assert (self->magic == STOCK_MAGIC);
    stock_kind_t *kind = claimant->kind;
    claimant->follows = sampler_follows (kind->sampler, claimant->sampler_job);
    claimant->drawing = false;
    memset (claimant->lost, 0, sizeof claimant->lost);
    claimant->next = kind->claimants;
    kind->claimants = claimant;
    bool goes_on = sampler_remaining (kind->sampler, claimant->sampler_job)
        < sampler_epoch_samples (kind->sampler, claimant->sampler_job);
    if (kind->is_random && goes_on)
        prepared_each (self->prepared, s_see_taken, claimant);
    stock_tenant_joins (claimant, kind->is_random && goes_on);
    s_claim_all (claimant, +1);
}

//  The claimant's number will be another's: no version was used by it.
static void
s_unsee (void *context, version_t *version)
{
    const claimant_t *claimant = context;
    if (version->class == claimant->kind->number)
        version->seen [claimant->sampler_job / 64] &= ~(1ull << claimant->sampler_job % 64);
}

typedef struct {
    const stock_t *stock;
    const stock_kind_t *kind;           //  NULL: all kinds of the sampler, what is on the shelf
    const sampler_t *sampler;
    version_t **versions;
    size_t count;
} gather_t;

static void
s_gather (void *context, version_t *version)
{
    gather_t *gather = context;
    const stock_kind_t *kind = stock_kind_of (gather->stock, version);
    if (gather->kind? kind == gather->kind: version->ticket && kind->sampler == gather->sampler)
        gather->versions [gather->count++] = version;
}

//  The versions in question, which the caller frees: prepared_each must not see the index change.
static void
s_gather_all (stock_t *self, gather_t *gather)
{
    gather->stock = self;
    gather->versions = s_need (calloc (prepared_versions (self->prepared) + 1, sizeof *gather->versions));
    prepared_each (self->prepared, s_gather, gather);
}

//  Random versions serve nobody once the last claimant has left: a newcomer's draws would not find them often,
//  and the draw numbers are kept for their sake.
static void
s_drop_versions (stock_kind_t *kind)
{
    gather_t gather = { .kind = kind };
    prepared_t *prepared = kind->stock->prepared;
    bool is_left = kind->claimants != NULL;
    s_gather_all (kind->stock, &gather);
    for (size_t index = 0; index < gather.count; index++) {
        if (is_left)
            stock_count_drop (kind->stock, gather.versions [index]);
        prepared_remove (prepared, gather.versions [index]);    //  the kind may end with its last one
    }
    free (gather.versions);
}

bool
stock_kind_is_idle (const stock_kind_t *self)
{
    return !self->claimants;
}

void
stock_kind_end (stock_kind_t *self)
{
    assert (!self->claimants);
    s_drop_versions (self);
}

//  The version goes over to the others' side.
static void
s_unshelve (stock_kind_t *kind, version_t *version)
{
    stock_lose (kind->stock, version, true);
    sampler_unshelve (kind->sampler, version->ticket);
    version->ticket = 0;
    uint32_t count = 0;
    for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next)
        count += !claimant->drawing && s_counts (claimant, version);
    s_set_count (kind, version, count);
    stock_share (kind, version);
}

//  Strata merge: which versions there are still tells whose data a sample was in, so followers must not prefer
//  them.  Random ones go.  Deterministic ones may be all that a data set will ever cost: they go over to the others'
//  side, from where followers fetch them back where they draw them, while the cache has room.
static void
s_merging (void *context, sampler_t *sampler)
{
    stock_t *self = context;
    gather_t gather = { .sampler = sampler };
    s_gather_all (self, &gather);
    for (size_t index = 0; index < gather.count; index++) {
        stock_kind_t *kind = stock_kind_of (self, gather.versions [index]);
        if (kind->is_random)
            stock_drop (self, gather.versions [index]);
        else
            s_unshelve (kind, gather.versions [index]);
    }
    free (gather.versions);
}

void
stock_leave (stock_t *self, claimant_t *claimant)
{
    assert (self->magic == STOCK_MAGIC);
    stock_kind_t *kind = claimant->kind;
    s_claim_all (claimant, -1);
    prepared_each (self->prepared, s_unsee, claimant);
    stock_tenant_leaves (claimant);
    //  The last one stays until its versions are gone, so that the kind does not end under our feet.
    if (kind->is_random && kind->claimants == claimant && !claimant->next)
        s_drop_versions (kind);
    claimant_t **link = &kind->claimants;
    while (*link != claimant)
        link = &(*link)->next;
    *link = claimant->next;
    stock_losses_free (claimant);
    claimant->kind = NULL;
    s_end_when_empty (kind);
}

void
stock_epoch_begin (stock_t *self, claimant_t *claimant)
{
    assert (self->magic == STOCK_MAGIC);
    sampler_t *sampler = claimant->kind->sampler;
    if (sampler_remaining (sampler, claimant->sampler_job) > 0)     //  else it claims nothing
        s_claim_all (claimant, -1);
    sampler_epoch_begin (sampler, claimant->sampler_job);
    if (claimant->kind->is_random)
        stock_losses_forget (claimant);
    s_claim_all (claimant, +1);
}

//  ---- the version that serves a claimant

//  From now on the version counts those that follow, and they may take it.  Whom else it has served must not matter to them.
static void
s_shelve (const claimant_t *taker, version_t *version)
{
    stock_kind_t *kind = taker->kind;
    if (!stock_share_alone (taker, version))
        return;
    uint32_t count = 0;
    version->ticket = sampler_shelve (kind->sampler, version->id);
    assert (version->ticket);
    for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next)
        if (!claimant->drawing && s_counts (claimant, version)) {
            sampler_allow (kind->sampler, version->ticket, claimant->sampler_job);
            count++;
        }
    s_set_count (kind, version, count);
}

//  Claimants inside the draw are not counted until they leave it: they hold their pins, and eviction sees the
//  claims of all others.
static version_t *
s_new_version (const claimant_t *claimant, uint32_t id)
{
    stock_kind_t *kind = claimant->kind;
    sampler_prefetch (kind->sampler, id);
    uint32_t draw = claimant->numbers? claimant->number: kind->is_random? s_next_draw (kind, id): 0;
    uint32_t count = 0;
    for (const claimant_t *other = kind->claimants; other; other = other->next)
        count += !other->drawing && other->follows == claimant->follows && s_wants (other, id);
    kind->versions++;
    return prepared_insert (kind->stock->prepared, claimant->tenant, kind->number, id, draw, kind->version_bytes, count);
}

//  An indexed version that the claimant may use, one at random where there are several; NULL: none.
//  Those that follow and the others keep apart, because the strata do not know the others' data.  One uses what the
//  other side has scheduled only where a new version would push nothing out; otherwise samples that the others have
//  too would be pushed out less often than those they have not, and so be taken earlier.
static version_t *
s_indexed (const claimant_t *claimant, uint32_t id)
{
    stock_t *self = claimant->kind->stock;
    version_t *chosen = NULL;
    uint64_t candidates = 0;
    version_t *version = prepared_find (self->prepared, claimant->kind->number, id);
    for (; version; version = prepared_find_next (version)) {
        bool own = stock_is_own (claimant, version), chosen_is_own = chosen && stock_is_own (claimant, chosen);
        if (s_used_up (version, claimant) || (chosen_is_own && !own))
            continue;
        candidates = own && !chosen_is_own? 1: candidates + 1;
        if (random_below (&self->random, candidates) == 0)
            chosen = version;
    }
    return chosen && (stock_is_own (claimant, chosen) || s_has_room (claimant))? chosen: NULL;
}

//  Whether s_indexed would find one.  One that does not follow counts only what nothing will push out, because data
//  that its draws must not show decide what there is (private jobs whose data overlap: z = 5 in 1,500 epochs of 72
//  samples).
static bool
s_is_served (const claimant_t *claimant, uint32_t id)
{
    const stock_kind_t *kind = claimant->kind;
    version_t *version = prepared_find (kind->stock->prepared, kind->number, id);
    bool others = false;
    for (; version; version = prepared_find_next (version))
        if (!s_used_up (version, claimant)) {
            if (claimant->follows && stock_is_own (claimant, version))
                return true;
            others = true;
        }
    return others && s_has_room (claimant);
}

bool
stock_serves (const stock_t *self, claimant_t *const *claimants, size_t count, uint32_t id)
{
    assert (self->magic == STOCK_MAGIC);
    for (size_t index = 0; index < count; index++)
        if (!s_is_served (claimants [index], id))
            return false;
    return true;
}

//  What a claimant of the same draw has got serves this one too, even if it was evicted at once.
static version_t *
s_just_served (const claimant_t *claimant, version_t *const *versions, size_t count)
{
    for (size_t index = 0; index < count; index++)
        if (versions [index]->class == claimant->kind->number && !s_used_up (versions [index], claimant))
            return versions [index];
    return NULL;
}

//  The version, which the claimant has just got, goes to its side if that follows; a new one may have been evicted at once.
static void
s_settle (const claimant_t *claimant, version_t *version, bool is_new)
{
    stock_t *self = claimant->kind->stock;
    if (is_new && !version->indexed)
        stock_lose (self, version, claimant->follows);
    if (!claimant->follows || !version->indexed || version->ticket)
        return;
    if (!is_new)
        stock_lose (self, version, false);
    s_shelve (claimant, version);
}

//  A version for the claimant, pinned; versions [0 .. count) were found in the same draw.
static version_t *
s_serve (stock_t *self, claimant_t *claimant, uint32_t id, version_t *const *versions, size_t count,
    uint64_t *scheduled)
{
    version_t *version = s_indexed (claimant, id);
    if (!version)
        version = s_just_served (claimant, versions, count);
    bool is_new = !version;
    if (version) {
        prepared_pin (version);
        self->hits++;
    }
    else {
        version = s_new_version (claimant, id);
        self->misses++;
        stock_count_again (claimant);
        if (scheduled)
            ++*scheduled;
    }
    s_see (version, claimant);
    s_settle (claimant, version, is_new);
    stock_share (claimant->kind, version);
    return version;
}

//  Nobody who is here now will use it again; who comes later may well find another.  On the shelf only those that
//  follow matter, the others' versions may serve both sides.
static bool
s_seen_by_all (const stock_kind_t *kind, const version_t *version)
{
    for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next)
        if ((claimant->follows || version->ticket == 0) && !stock_has_used (claimant, version)
        &&  sampler_has (kind->sampler, claimant->sampler_job, version->id))
            return false;
    return true;
}

//  A sample has few versions at a time: those that every claimant has used go, and of too many the one that
//  fewest claimants may still use, as in any eviction.  Else a job that stands still would let them pile up,
//  and every draw walks them.  The shelf is thinned out by itself, so that what stays there depends on none but
//  those that follow.
static void
s_thin_out (stock_kind_t *kind, uint32_t id, bool shelved)
{
    stock_t *self = kind->stock;
    version_t *worst = NULL, *next;
    uint64_t count = 0, ties = 0;
    for (version_t *version = prepared_find (self->prepared, kind->number, id); version; version = next) {
        next = prepared_find_next (version);
        if ((version->ticket != 0) != shelved)
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
        stock_drop (self, worst);
}

void
stock_draw (stock_t *self, claimant_t **claimants, size_t count, uint32_t id, version_t **versions,
    uint64_t *scheduled)
{
    assert (self->magic == STOCK_MAGIC);
    assert (count > 0);
    for (size_t index = 0; index < count; index++)
        s_enter_draw (claimants [index], id);
    sampler_commit (claimants [0]->kind->sampler, id);
    for (size_t index = 0; index < count; index++)
        versions [index] = s_serve (self, claimants [index], id, versions, index, scheduled);
    for (size_t index = 0; index < count; index++)
        s_leave_draw (claimants [index], id);
    for (size_t index = 0; index < count; index++)
        if (index == 0 || claimants [index]->kind != claimants [index - 1]->kind
        ||  claimants [index]->follows != claimants [index - 1]->follows)
            s_thin_out (claimants [index]->kind, id, claimants [index]->follows);
}

version_t *
stock_serve (stock_t *self, claimant_t *claimant, uint32_t id)
{
    assert (self->magic == STOCK_MAGIC);
    s_enter_draw (claimant, id);
    version_t *version = s_serve (self, claimant, id, NULL, 0, NULL);
    s_leave_draw (claimant, id);
    s_thin_out (claimant->kind, id, claimant->follows);
    return version;
}

void
stock_forget (stock_t *self, sampler_t *sampler, uint32_t id)
{
    assert (self->magic == STOCK_MAGIC);
    for (uint32_t number = 0; number < self->kind_room; number++) {
        version_t *version;
        //  The kind may end with its last version.
        while (self->kinds [number] && self->kinds [number]->sampler == sampler
        &&     (version = prepared_find (self->prepared, number, id)))
            prepared_remove (self->prepared, version);
    }
}

void
stock_discard (stock_t *self, version_t *version)
{
    assert (self->magic == STOCK_MAGIC);
    assert (version->pins > 0);
    prepared_remove (self->prepared, version);
}

//  ---- checks

static void
s_check_version (void *context, version_t *version)
{
    const stock_kind_t *kind = stock_kind_of (context, version);
    uint32_t count = 0;
    for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next) {
        count += s_counts (claimant, version);
        if (claimant->follows && kind->is_random && stock_has_used (claimant, version))
            assert (version->ticket);                                           //  K2
    }
    assert (version->count == count);                                           //  K1
}

void
stock_check (stock_t *self)
{
    assert (self->magic == STOCK_MAGIC);
    prepared_check (self->prepared);
    prepared_each (self->prepared, s_check_version, self);
    size_t versions = 0;
    for (uint32_t number = 0; number < self->kind_room; number++) {
        const stock_kind_t *kind = self->kinds [number];
        if (!kind)
            continue;
        assert (kind->number == number);
        versions += kind->versions;
        for (const claimant_t *claimant = kind->claimants; claimant; claimant = claimant->next) {
            assert (claimant->kind == kind);
            assert (!claimant->drawing);
        }
    }
    assert (versions >= prepared_versions (self->prepared));
    stock_check_tenants (self);
    stock_check_losses (self);
}
