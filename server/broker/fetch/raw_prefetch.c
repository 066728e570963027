//  Compressed samples of packs: which job reads which samples ahead, and when reads are handed out.
//
//  A tier (tier.h) serves the SHARED jobs of a data set, or one PRIVATE job.  Jobs with a given order read
//  sample by sample, as far ahead as they draw.  The tiers decide; the raw store has the bytes and the
//  versions that wait for them, and all tiers of a data set, and jobs without one, share a copy.
//
//  With one tenant, all tiers divide the memory that jobs with a pool leave (raw_prefetch_division_t).  With
//  several, half of the resident memory is divided by weight.  A tenant's own tiers (of jobs `private`, or
//  apart) and pools take of its part, and whether a job fits there depends on no other tenant.  The rest,
//  with the parts of tenants without own tiers or pools, is for the tiers of the data sets, which belong to
//  no tenant.
//
//  Reads queue in lanes of the raw store: one lane for the tiers of the data sets, and one for each tenant
//  with its part of the memory.  So other tenants' samples are read however far ahead one tenant draws.  A
//  sample that stands behind others in its lane comes by the lane of any tenant that waits for it
//  (raw_refcount.c).

#include "raw_prefetch.h"
#include "sampler_passes.h"
#include <assert.h>
#include <stdlib.h>
#include "budget.h"
#include "lookahead.h"
#include "raw_refcount.h"
#include "tenant.h"
#include "xalloc.h"

//  So much of the raw store's budget is for resident samples; the rest is for samples drawn and not yet
//  prepared.
enum { RESIDENT_PARTS = 3, PARTS = 4, LEAST_SAMPLES = 8, PIECES_LEAST = 4, OWN_PARTS = 2 };

size_t
raw_prefetch_resident_bytes (const broker_t *self)
{
    return self->options.raw_bytes / PARTS * RESIDENT_PARTS;
}

size_t
raw_prefetch_packs (const broker_t *self)
{
    size_t packs = 0;
    for (size_t index = 0; index < self->dataset_count; index++)
        packs += self->datasets [index]->prefetch != NULL;
    return packs;
}

const uint32_t *
raw_prefetch_order (const dataset_t *dataset)
{
    const raw_prefetch_t *prefetch = dataset->prefetch;
    return prefetch && !prefetch->given.is_copy? prefetch->given.order: NULL;
}

//  ---- memory, divided among tiers
//
//  Which tiers share memory: with one tenant, all; with several, the data sets' tiers, and each tenant's own
//  tiers.  A tier never gets more than its data take: everything is resident then, and more would be useless.
//  The rest goes to tiers with larger data, by weight: a quarter in equal parts, three quarters by the size
//  of their data.  So a large pack gets most of it, and a small one still enough to mix in.
//
//      part = weight x level, but no less than `least` and no more than `most`
//
//  The level makes the parts add up to the whole.  When a tier or a job with a pool comes or goes, the parts
//  change, and pieces and slots are sized anew.

enum { SIZE_WEIGHT = 3, HALVINGS = 100 };

typedef struct { size_t least, most; double weight; } claim_t;

//  What each tier on the data set may have.
static claim_t
s_claim (const raw_prefetch_division_t *self, const dataset_t *dataset)
{
    const raw_prefetch_t *prefetch = dataset->prefetch;
    claim_t claim = { .least = raw_prefetch_tier_least (dataset), .most = (size_t) prefetch->bytes };
    //  Redox fills a slot only while there is room for one of the largest.
    claim.most += prefetch->given.policy == RAW_REDOX? prefetch->sample_bytes_max: 0;
    claim.most = claim.most > claim.least? claim.most: claim.least;
    claim.least = claim.least > self->least? claim.least: self->least;
    claim.least = claim.least < claim.most? claim.least: claim.most;
    claim.weight = self->mean_bytes + SIZE_WEIGHT * (double) prefetch->bytes;
    return claim;
}

size_t
raw_prefetch_division_part (const raw_prefetch_division_t *self, const dataset_t *dataset)
{
    claim_t claim = s_claim (self, dataset);
    double part = self->level * claim.weight;
    if (part >= (double) claim.most)
        return claim.most;
    return part > (double) claim.least? (size_t) part: claim.least;
}

static double
s_all_parts (const raw_prefetch_division_t *self, const broker_t *broker)
{
    double sum = 0;
    for (size_t number = 0; number < BROKER_DATASETS_MAX; number++)
        if (self->tiers [number] > 0)
            sum += (double) self->tiers [number] * (double) raw_prefetch_division_part (self,
                broker->places [number]);
    return sum;
}

//  Parts grow with the level.  At the upper end each tier has all that it can use.
void
raw_prefetch_division_settle (raw_prefetch_division_t *self, const broker_t *broker)
{
    double tiers = 0, data = 0, high = 0;
    for (size_t number = 0; number < BROKER_DATASETS_MAX; number++)
        if (self->tiers [number] > 0) {
            tiers += (double) self->tiers [number];
            data += (double) self->tiers [number] * (double) broker->places [number]->prefetch->bytes;
        }
    self->mean_bytes = tiers > 0? data / tiers: 0;
    for (size_t number = 0; number < BROKER_DATASETS_MAX; number++)
        if (self->tiers [number] > 0) {
            claim_t claim = s_claim (self, broker->places [number]);
            //  And a little more: what is rounded must not lack a byte.
            double level = claim.weight > 0? (double) (claim.most + 1) / claim.weight: 0;
            high = level > high? level: high;
        }
    self->level = high;
    if (s_all_parts (self, broker) <= (double) self->bytes)
        return;
    double low = 0;
    for (int step = 0; step < HALVINGS; step++) {
        self->level = (low + high) / 2;
        if (s_all_parts (self, broker) <= (double) self->bytes)
            low = self->level;
        else
            high = self->level;
    }
    self->level = low;
}

//  ---- what there is to divide

//  What a tenant's own tiers and pools may take.
static size_t
s_own_bytes (const broker_t *self, const tenant_t *tenant)
{
    return (size_t) tenant_share (self, tenant, raw_prefetch_resident_bytes (self) / OWN_PARTS);
}

static size_t
s_packs_with_tiers (const broker_t *self)
{
    size_t packs = 0;
    for (size_t index = 0; index < self->dataset_count; index++)
        packs += self->datasets [index]->prefetch
            && self->datasets [index]->prefetch->given.policy != RAW_DIRECT;
    return packs;
}

//  The least memory for a data set's tier when every data set has one.
static size_t
s_common_least (const broker_t *self)
{
    size_t packs = s_packs_with_tiers (self), resident = raw_prefetch_resident_bytes (self);
    return (resident - resident / OWN_PARTS) / (packs? packs: 1);
}

static bool
s_has_own (const tenant_t *tenant)
{
    return tenant->held.tiers > 0 || tenant->held.lookahead_reserved > 0;
}

//  What is there for all data sets' tiers now.
static size_t
s_all_common_bytes (const broker_t *self)
{
    size_t bytes = raw_prefetch_resident_bytes (self);
    for (size_t index = 0; index < self->tenant_count; index++)
        bytes -= s_has_own (self->tenants [index])? s_own_bytes (self, self->tenants [index]): 0;
    return bytes;
}

//  Which tiers divide the memory with a tier of this owner (NULL: a tier of a data set), and how much it is;
//  not yet settled.
static raw_prefetch_division_t
s_division (const broker_t *self, const tenant_t *owner)
{
    bool is_one = !tenant_limits_apply (self);
    raw_prefetch_division_t division = { .bytes = is_one
        ? raw_prefetch_resident_bytes (self) - self->lookahead_reserved
        : owner? s_own_bytes (self, owner) - owner->held.lookahead_reserved: s_all_common_bytes (self),
        .least = is_one || owner? 0: s_common_least (self) };
    for (size_t index = 0; (is_one || !owner) && index < self->dataset_count; index++) {
        const dataset_t *dataset = self->datasets [index];
        division.tiers [dataset->number] += dataset->prefetch && dataset->prefetch->tier;
    }
    for (const job_t *job = self->jobs; (is_one || owner) && job; job = job->next)
        division.tiers [job->dataset->number] += job->fetch.tier && job->fetch.tier_is_own
            && (is_one || job->tenant == owner);
    return division;
}

//  ---- lanes

//  Jobs that read from packs, except one that leaves.
static size_t
s_readers (const broker_t *self, const tenant_t *tenant, const job_t *leaving)
{
    size_t count = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        const dataset_t *dataset = self->datasets [index];
        count += dataset->prefetch? tenant->held.on_dataset [dataset->number]: 0;
    }
    return count - (leaving && leaving->tenant == tenant && leaving->dataset->prefetch);
}

//  Enough to keep all workers busy, and as much to be read meanwhile.
static size_t
s_busy_bytes (const broker_t *self)
{
    size_t mean = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        const raw_prefetch_t *prefetch = self->datasets [index]->prefetch;
        size_t bytes = prefetch? (size_t) (prefetch->bytes / self->datasets [index]->samples): 0;
        mean = bytes > mean? bytes: mean;
    }
    return 2 * self->prepare_max * mean;
}

//  Memory that is not for resident samples is divided by weight among tenants that read.  A lane also gets
//  what its tenant's own tiers and pools may take.  A lane that has less than half of its part, or less than
//  keeps the workers busy, does not wait until a whole piece can be read.
static void
s_share_out (broker_t *self, const job_t *leaving)
{
    if (!self->raw || !tenant_limits_apply (self))
        return;
    size_t rest = self->options.raw_bytes - raw_prefetch_resident_bytes (self), busy = s_busy_bytes (self);
    uint64_t weights = 0;
    for (size_t index = 0; index < self->tenant_count; index++)
        weights += s_readers (self, self->tenants [index], leaving)? self->tenants [index]->given.weight: 0;
    for (size_t index = 0; index < self->tenant_count; index++) {
        const tenant_t *tenant = self->tenants [index];
        size_t part = s_readers (self, tenant, leaving)? rest / weights * tenant->given.weight: 0;
        size_t own = s_has_own (tenant)? s_own_bytes (self, tenant): 0,
            alone = busy > part / 2? busy: part / 2;
        raw_store_part (self->raw, raw_refcount_lane (self, tenant), own + part,
            own + (alone < part? alone: part));
    }
}

//  The raw store's budget that lets so much be resident.
static size_t
s_budget_for (size_t resident)
{
    return resident / RESIDENT_PARTS * PARTS + PARTS;
}

size_t
budget_raw_setting (size_t raw_bytes)
{
    enum { REST = BROKER_RAW_PARTS - 1 };
    return raw_bytes / REST * BROKER_RAW_PARTS + raw_bytes % REST;
}

static size_t
s_pack_least (size_t sample_bytes, size_t together)
{
    return (LEAST_SAMPLES + 2 * together) * sample_bytes;
}

size_t
budget_raw_least (size_t sample_bytes, uint32_t together)
{
    return budget_raw_setting (s_pack_least (sample_bytes, together));
}

size_t
budget_reads_max (const broker_t *self)
{
    size_t packs = raw_prefetch_packs (self), full = budget_full_datasets (self);
    return self->read_max * (packs < full? packs: full);
}

//  ---- data sets

static void s_join_all (broker_t *self, const dataset_t *dataset);
static size_t s_budget_with (const broker_t *self, const dataset_t *dataset, const job_t *ghost);

static uint32_t
s_position (void *context, uint32_t source, uint32_t id)
{
    const broker_t *self = context;
    return self->places [source]->prefetch->positions [id];
}

static size_t
s_sample_bytes (void *context, uint32_t id)
{
    const raw_prefetch_t *prefetch = context;
    return prefetch->given.sample_bytes (prefetch->given.user, id);
}

//  What the tiers of the data sets need at least, each for itself, with this one; with several tenants.  A
//  copy also leaves packs what jobs that come later need.
static size_t
s_needed (const broker_t *self, const dataset_t *dataset)
{
    bool is_copy = dataset->prefetch->given.is_copy;
    size_t needed = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        const dataset_t *other = self->datasets [index];
        const raw_prefetch_t *prefetch = other->prefetch;
        bool counts = prefetch && (prefetch->tier || (is_copy && prefetch->given.policy != RAW_DIRECT
            && (!prefetch->given.is_copy || other == dataset)));
        size_t least = counts? raw_prefetch_tier_least (other): 0;
        needed = least > needed? least: needed;
    }
    return needed;
}

//  Whether there is memory for a new pack.  The tiers of the jobs that are there keep the least that they
//  need.  Of a copy, jobs may be there already: also for a tier of the shared ones.
static bool
s_has_memory (const broker_t *self, const dataset_t *dataset, size_t *least_p)
{
    const broker_pack_t *given = &dataset->prefetch->given;
    size_t together = given->policy == RAW_REDOX? given->chunk: 1, needed;
    *least_p = s_pack_least (dataset->prefetch->sample_bytes_max, together);
    if (self->options.raw_bytes < *least_p)
        return false;
    if (!tenant_limits_apply (self)) {
        needed = given->is_copy? s_budget_with (self, dataset, NULL): 0;
        *least_p = needed > *least_p? needed: *least_p;
        return needed <= self->options.raw_bytes;
    }
    needed = s_needed (self, dataset);
    if (needed <= s_common_least (self))
        return true;
    *least_p = s_budget_for (OWN_PARTS * s_packs_with_tiers (self) * needed + OWN_PARTS);
    return false;
}

bool
dataset_set_pack (broker_t *self, dataset_t *dataset, const broker_pack_t *pack, size_t *least_p)
{
    assert (!dataset->prefetch);
    raw_prefetch_t *prefetch = xalloc_memory (calloc (1, sizeof *prefetch));
    prefetch->broker = self;
    prefetch->given = *pack;
    //  A range needs memory beside all resident samples.
    size_t beside = self->options.raw_bytes - raw_prefetch_resident_bytes (self);
    if (beside < prefetch->given.read_bytes_max)
        prefetch->given.read_bytes_max = beside;
    prefetch->positions = xalloc_memory (malloc (dataset->samples * sizeof *prefetch->positions));
    for (uint32_t position = 0; position < dataset->samples; position++) {
        uint32_t id = pack->order [position];
        prefetch->positions [id] = position;
        size_t bytes = s_sample_bytes (prefetch, id);
        prefetch->sample_bytes_max = bytes > prefetch->sample_bytes_max? bytes: prefetch->sample_bytes_max;
        prefetch->bytes += bytes;
        prefetch->square_bytes += (double) bytes * (double) bytes;
    }
    dataset->prefetch = prefetch;
    dataset->has_files = pack->is_copy;
    if (!s_has_memory (self, dataset, least_p)) {
        raw_prefetch_destroy (dataset);
        dataset->has_files = true;
        return false;
    }
    if (!self->raw) {
        self->raw = raw_store_new (self->options.raw_bytes);
        raw_store_on_position (self->raw, s_position, self);
    }
    raw_prefetch_packs_changed (self);
    budget_measure (self);
    //  A tier redirects the draws of its jobs, and all of them follow or none.
    if (pack->policy != RAW_DIRECT)
        sampler_passes_allow (dataset->sampler, false);
    s_join_all (self, dataset);
    return true;
}

void
raw_prefetch_destroy (dataset_t *dataset)
{
    if (!dataset->prefetch)
        return;
    assert (!dataset->prefetch->tier);
    free (dataset->prefetch->positions);
    free (dataset->prefetch);
    dataset->prefetch = NULL;
}

//  ---- tiers

//  A sample has left a tier's pool without having been taken.
static void
s_left (void *context, uint32_t id)
{
    const dataset_t *dataset = context;
    broker_t *broker = dataset->prefetch->broker;
    raw_sample_t *sample = raw_store_find (broker->raw, dataset->number, id);
    assert (sample);
    raw_refcount_let_go (broker, dataset, sample);
}

//  Samples that are read together.
typedef struct {
    raw_sample_t *samples [RAW_PIECE_MAX];
    uint32_t count;
    size_t sample_bytes, range_bytes;
} range_t;

static bool
s_prefers_singles (const dataset_t *dataset, uint32_t count, size_t sample_bytes, size_t range_bytes)
{
    const broker_pack_t *given = &dataset->prefetch->given;
    return given->prefers_singles && given->prefers_singles (given->user, count, sample_bytes, range_bytes);
}

static void
s_request (broker_t *self, uint32_t lane, const dataset_t *dataset, range_t *range)
{
    bool singles = range->count > 0
        && s_prefers_singles (dataset, range->count, range->sample_bytes, range->range_bytes);
    if (range->count > 0 && !singles)
        raw_store_request (self->raw, lane, dataset->number, range->samples, range->count);
    for (uint32_t index = 0; singles && index < range->count; index++)
        raw_refcount_read_alone (self, lane, dataset, range->samples [index]);
    *range = (range_t) { .count = 0 };
}

//  Whether the range ends before this sample: the reader's buffers have no room for both, or a second read is
//  quicker than one through the gap between them.  reach: the bytes from the range's begin to the sample's
//  end.
static bool
s_is_complete (const dataset_t *dataset, const range_t *range, const raw_sample_t *sample, size_t reach)
{
    if (range->count == 0)
        return false;
    if (reach > dataset->prefetch->given.read_bytes_max)
        return true;
    size_t gap = reach - range->range_bytes - sample->bytes;
    size_t two = range->samples [range->count - 1]->bytes + sample->bytes;
    return gap > 0 && s_prefers_singles (dataset, 2, two, two + gap);
}

//  Reads the samples of a piece that are not in memory, in ranges that fit the reader's buffers.  A gap of
//  others is read through unless a second read behind it is quicker.
static void
s_schedule_read (broker_t *self, uint32_t lane, dataset_t *dataset, const raw_read_t *read)
{
    const broker_pack_t *given = &dataset->prefetch->given;
    size_t reach = 0;
    uint32_t first = 0;                         //  of the range
    range_t range = { .count = 0 };
    for (uint32_t index = 0; index < read->count; index++) {
        uint32_t id = given->order [read->first + index];
        reach = given->range_bytes? given->range_bytes (given->user, read->first + first, index + 1 - first):
            reach + s_sample_bytes (dataset->prefetch, id);
        raw_sample_t *sample = read->keep >> index & 1? raw_refcount_take (self, dataset, id): NULL;
        if (!sample || !raw_sample_is_new (sample))
            continue;
        raw_store_count (self->raw, sample, lane);
        if (s_is_complete (dataset, &range, sample, reach))
            s_request (self, lane, dataset, &range);
        if (range.count == 0) {
            reach = sample->bytes;
            first = index;
        }
        range.range_bytes = reach;
        range.sample_bytes += sample->bytes;
        range.samples [range.count++] = sample;
    }
    s_request (self, lane, dataset, &range);
}

//  owner: NULL for a data set's tier.
static void
s_fill (broker_t *self, dataset_t *dataset, tier_t *tier, const tenant_t *owner)
{
    raw_read_t read;
    while (tier_next (tier, &read))
        s_schedule_read (self, raw_refcount_lane (self, owner), dataset, &read);
}

size_t
raw_prefetch_tier_least (const dataset_t *dataset)
{
    const raw_prefetch_t *prefetch = dataset->prefetch;
    return (prefetch->given.policy == RAW_REDOX? prefetch->given.chunk: 1) * prefetch->sample_bytes_max;
}

//  How many samples a piece has, for a pool of so many bytes.
static uint32_t
s_piece (const dataset_t *dataset, size_t limit)
{
    const raw_prefetch_t *prefetch = dataset->prefetch;
    const broker_pack_t *given = &prefetch->given;
    if (given->policy == RAW_REDOX)
        return 1;
    uint64_t pool_samples = limit >= prefetch->bytes? dataset->samples
        : (uint64_t) ((double) limit * dataset->samples / (double) prefetch->bytes);
    uint32_t piece = given->piece (given->user, pool_samples);
    while (piece > 1 && PIECES_LEAST * piece * prefetch->sample_bytes_max > limit)
        piece /= 2;
    return piece;
}

static tier_t *
s_new_tier (broker_t *self, job_t *job)
{
    dataset_t *dataset = job->dataset;
    raw_prefetch_t *prefetch = dataset->prefetch;
    const broker_pack_t *given = &prefetch->given;
    raw_prefetch_division_t division = s_division (self, job->fetch.tier_is_own? job->tenant: NULL);
    division.tiers [dataset->number]++;
    raw_prefetch_division_settle (&division, self);
    size_t limit = raw_prefetch_division_part (&division, dataset);
    uint32_t piece = s_piece (dataset, limit);
    raw_pool_options_t options = {
        .samples = dataset->samples, .order = given->order, .positions = prefetch->positions,
        .breaks = given->breaks, .break_count = given->break_count, .limit_bytes = limit, .piece = piece,
        .chunk = given->chunk
    };
    size_t least = (given->policy == RAW_REDOX? given->chunk: piece) * prefetch->sample_bytes_max;
    self->tier_least = least > self->tier_least? least: self->tier_least;
    tenant_held_t *held = &job->tenant->held;
    held->tier_least = job->fetch.tier_is_own && least > held->tier_least? least: held->tier_least;
    return tier_new (self->version_index, dataset->sampler, given->policy, &options, s_sample_bytes, prefetch,
        random_next (&self->random));
}

//  Calls visit for each tier; owner is NULL for a data set's tier.
static void
s_each_tier (broker_t *self,
    void (*visit) (broker_t *self, dataset_t *dataset, tier_t *tier, const tenant_t *owner))
{
    for (size_t index = 0; index < self->dataset_count; index++)
        if (self->datasets [index]->prefetch && self->datasets [index]->prefetch->tier)
            visit (self, self->datasets [index], self->datasets [index]->prefetch->tier, NULL);
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->fetch.tier && job->fetch.tier_is_own)
            visit (self, job->dataset, job->fetch.tier, job->tenant);
}

//  Of the job's tier.
void
raw_prefetch_fill (broker_t *self, const job_t *job, tier_t *tier)
{
    s_fill (self, job->dataset, tier, job->fetch.tier_is_own? job->tenant: NULL);
}

static size_t
s_limit (const broker_t *self, const dataset_t *dataset, const tenant_t *owner)
{
    raw_prefetch_division_t division = s_division (self, owner);
    raw_prefetch_division_settle (&division, self);
    return raw_prefetch_division_part (&division, dataset);
}

static void
s_set_limit (broker_t *self, dataset_t *dataset, tier_t *tier, const tenant_t *owner)
{
    size_t limit = s_limit (self, dataset, owner);
    if (limit == raw_pool_figures (tier_pool (tier)).limit_bytes)
        return;
    raw_pool_limit (tier_pool (tier), limit);
    raw_pool_piece (tier_pool (tier), s_piece (dataset, limit));
}

//  After a tier has come or gone, or the reserved memory has changed: nothing is read until all tiers have
//  made room.
static void
s_divide (broker_t *self)
{
    s_each_tier (self, s_set_limit);
    s_each_tier (self, s_fill);
}

void
raw_prefetch_packs_changed (broker_t *self)
{
    s_divide (self);
    s_share_out (self, NULL);
}

//  Whether the tier ends with this job (NULL: no job).
static bool
s_ends_tier (const job_t *ghost, const tier_t *tier)
{
    return ghost && ghost->fetch.tier && ghost->fetch.tier == tier && tier_jobs (tier) == 1;
}

//  Counts tiers, and memory of jobs with a pool, as if the ghost had left.
static size_t
s_tiers_without (const broker_t *self, const job_t *ghost)
{
    return self->tier_count - (ghost && s_ends_tier (ghost, ghost->fetch.tier));
}

static size_t
s_reserved_without (const broker_t *self, const job_t *ghost)
{
    return self->lookahead_reserved - (ghost? ghost->fetch.lookahead_bytes_max: 0);
}

//  The same for a tenant's own, if there are several tenants.
static size_t
s_own_tiers_without (const tenant_t *tenant, const job_t *ghost)
{
    return tenant->held.tiers - (ghost && ghost->fetch.tier && ghost->fetch.tier_is_own);
}

static size_t
s_own_reserved_without (const tenant_t *tenant, const job_t *ghost)
{
    return tenant->held.lookahead_reserved - (ghost? ghost->fetch.lookahead_bytes_max: 0);
}

//  The setting (--raw) that gives a tenant so much of its own.
static size_t
s_setting_for_own (const broker_t *self, const tenant_t *tenant, size_t bytes)
{
    double whole = (double) bytes * (double) self->weights / tenant->given.weight
        + (double) self->tenant_count;
    return budget_raw_setting (s_budget_for (OWN_PARTS * (size_t) whole + OWN_PARTS));
}

//  Whether another epoch follows the one that the job is in.
static bool
s_goes_on (const job_t *job)
{
    return job->asked.epochs == 0 || job->draw.epoch + 1 < job->asked.epochs;
}

static bool
s_wants_tier (const dataset_t *dataset, sampler_order_t order)
{
    return dataset->prefetch && dataset->prefetch->given.policy != RAW_DIRECT
        && (order == SAMPLER_ORDER_SHARED || order == SAMPLER_ORDER_PRIVATE);
}

size_t
raw_prefetch_bookkeeping (const broker_t *self, const broker_terms_t *join)
{
    const dataset_t *dataset = join->dataset;
    const raw_prefetch_t *prefetch = dataset->prefetch;
    uint32_t samples = dataset->samples, ahead = join->pool < samples? join->pool: samples;
    if (join->pool > 0)
        return stream_order_bytes (samples, join->pool) + ahead * (sizeof (raw_sample_t) + sizeof (uint32_t));
    bool is_apart = join->order == SAMPLER_ORDER_PRIVATE;
    if (!s_wants_tier (dataset, join->order))
        return 0;
    uint64_t fitting = (uint64_t) ((double) self->options.raw_bytes * samples / (double) prefetch->bytes);
    fitting = fitting < samples? fitting: samples;
    return tier_job_bytes (prefetch->given.policy, samples, fitting,
            !is_apart && self->options.policy != SAMPLER_POLICY_DSA)
        + (is_apart? tier_bytes (prefetch->given.policy, samples, prefetch->given.chunk, fitting): 0);
}

static bool
s_needs_new_tier (const dataset_t *dataset, sampler_order_t order, const job_t *ghost)
{
    return s_wants_tier (dataset, order) && (order == SAMPLER_ORDER_PRIVATE || !dataset->prefetch->tier
        || s_ends_tier (ghost, dataset->prefetch->tier));
}

static bool
s_allows_own_pool (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const tenant_t *tenant = tenant_joining (self, join);
    size_t taken = tenant->held.tier_least * s_own_tiers_without (tenant,
        ghost) + s_own_reserved_without (tenant, ghost);
    size_t bound = lookahead_bound (join), most = s_own_bytes (self, tenant);
    return bound + taken <= most
        || refuse (refusal, "budget", "pool: %u samples of '%s' may take %zu bytes; with %zu of other jobs "
        "tenant '%s' needs %zu bytes of memory for compressed samples, and may have %zu: take a smaller "
        "pool, or have the operator start the server with --raw %zu, or give the tenant more weight",
        join->pool, join->dataset->name, bound, taken, tenant->name,
        bound + taken, most, s_setting_for_own (self, tenant, bound + taken));
}

//  For a job with a pool: existing tiers keep the least that they need.
static bool
s_allows_pool (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const dataset_t *dataset = join->dataset;
    if (!raw_prefetch_order (dataset))
        return refuse (refusal, "bad_request",
            "pool: data set '%s' is no pack, so there is no order of pieces that all servers have: leave "
            "pool out, or pack the data (tureen pack) and serve the pack", dataset->name);
    if (tenant_limits_apply (self))
        return s_allows_own_pool (self, join, ghost, refusal);
    size_t bound = lookahead_bound (join),
        taken = self->tier_least * s_tiers_without (self, ghost) + s_reserved_without (self, ghost);
    size_t needed = s_budget_for (bound + taken);
    return needed <= self->options.raw_bytes
        || refuse (refusal, "budget", "pool: %u samples of '%s' may take %zu bytes; with the "
        "other jobs' %zu, compressed samples need %zu bytes of memory, there are %zu: start the server with "
        "--raw %zu, or take a smaller pool", join->pool, dataset->name, bound, taken,
        budget_raw_setting (needed),
        budget_raw_setting (self->options.raw_bytes), budget_raw_setting (needed));
}

//  The raw store's budget that one more tier, on this data set, would need.
static size_t
s_budget_with (const broker_t *self, const dataset_t *dataset, const job_t *ghost)
{
    size_t tiers = s_tiers_without (self, ghost), others = tiers > 0? self->tier_least: 0;
    size_t own = raw_prefetch_tier_least (dataset), least = own > others? own: others;
    return s_budget_for (least * (tiers + 1) + s_reserved_without (self, ghost));
}

//  What the tenant needs with one more tier of its own, on this data set.
static size_t
s_own_with (const tenant_t *tenant, const dataset_t *dataset, const job_t *ghost)
{
    size_t tiers = s_own_tiers_without (tenant, ghost), others = tiers > 0? tenant->held.tier_least: 0;
    size_t own = raw_prefetch_tier_least (dataset), least = own > others? own: others;
    return least * (tiers + 1) + s_own_reserved_without (tenant, ghost);
}

//  With several tenants.
static bool
s_allows_tier (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const dataset_t *dataset = join->dataset;
    const tenant_t *tenant = tenant_joining (self, join);
    size_t needed = raw_prefetch_tier_least (dataset), most = s_common_least (self);
    if (join->order == SAMPLER_ORDER_PRIVATE) {
        needed = s_own_with (tenant, dataset, ghost);
        most = s_own_bytes (self, tenant);
        return needed <= most || refuse (refusal, "budget",
            "with this job %zu of tenant '%s' read in pieces by themselves; that "
            "takes at least %zu bytes for compressed samples, and it may have %zu: join with order shared, "
            "or have the operator start the server with --raw %zu, or give the tenant more weight",
            s_own_tiers_without (tenant, ghost) + 1, tenant->name, needed,
            most, s_setting_for_own (self, tenant, needed));
    }
    return needed <= most || refuse (refusal, "budget",
        "data set '%s' needs at least %zu bytes for compressed samples, and there are "
        "%zu for each: have the operator start the server with more (--raw)", dataset->name, needed, most);
}

bool
raw_prefetch_allows (const broker_t *self, const broker_terms_t *join, const job_t *ghost, refusal_t *refusal)
{
    const dataset_t *dataset = join->dataset;
    if (join->pool > 0)
        return s_allows_pool (self, join, ghost, refusal);
    //  Jobs on a folder may always join: where there is no memory they have no tier (s_has_room).
    if (dataset->prefetch && dataset->prefetch->given.is_copy)
        return true;
    if (tenant_limits_apply (self))
        return !s_wants_tier (dataset, join->order) || s_allows_tier (self, join, ghost, refusal);
    if (!s_needs_new_tier (dataset, join->order, ghost))
        return true;
    size_t needed = s_budget_with (self, dataset, ghost);
    return needed <= self->options.raw_bytes || refuse (refusal, "budget",
        "with this job %zu groups of jobs read in pieces, each with memory of its own; that takes at least "
        "%zu bytes for compressed samples, there are %zu: start the server with --raw %zu, or join with "
        "order shared", s_tiers_without (self, ghost) + 1,
        budget_raw_setting (needed), budget_raw_setting (self->options.raw_bytes),
        budget_raw_setting (needed));
}

//  A job that draws apart has no strata in common with those that follow (sampler.h).
static bool
s_is_apart (const broker_t *self, const job_t *job)
{
    return job->asked.order == SAMPLER_ORDER_SHARED && self->options.policy != SAMPLER_POLICY_DSA
        && !job->consumer.follows;
}

static bool
s_wants_own (const broker_t *self, const job_t *job)
{
    return job->asked.order == SAMPLER_ORDER_PRIVATE || s_is_apart (self, job);
}

//  For one more tier.
static bool
s_has_room_for_own (const broker_t *self, const job_t *job)
{
    return tenant_limits_apply (self)?
        s_own_with (job->tenant, job->dataset, NULL) <= s_own_bytes (self, job->tenant)
        : s_budget_with (self, job->dataset, NULL) <= self->options.raw_bytes;
}

//  For the tier of a copy's shared jobs, which all of them have, or none.
static bool
s_has_room_for_all (const broker_t *self, const job_t *job)
{
    const dataset_t *dataset = job->dataset;
    if (dataset->prefetch->tier)
        return true;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        const job_t *other = dataset->jobs [number];
        if (other && other != job && other->asked.order == SAMPLER_ORDER_SHARED && !s_is_apart (self, other))
            return false;
    }
    return tenant_limits_apply (self)? raw_prefetch_tier_least (dataset) <= s_common_least (self):
        s_budget_with (self, dataset, NULL) <= self->options.raw_bytes;
}

//  Whether the job has a tier: one that draws apart, and one on a folder, reads sample by sample where there
//  is no memory.
static bool
s_has_room (const broker_t *self, const job_t *job)
{
    if (job->dataset->prefetch->given.is_copy && !s_wants_own (self, job))
        return s_has_room_for_all (self, job);
    return (!job->dataset->prefetch->given.is_copy && !s_is_apart (self, job))
        || s_has_room_for_own (self, job);
}

static void
s_join_tier (broker_t *self, job_t *job)
{
    dataset_t *dataset = job->dataset;
    job->fetch.tier_is_own = s_wants_own (self, job);
    if (job->fetch.tier_is_own || !dataset->prefetch->tier) {
        job->fetch.tier = s_new_tier (self, job);
        raw_pool_on_leave (tier_pool (job->fetch.tier), s_left, dataset);
        if (!job->fetch.tier_is_own)
            dataset->prefetch->tier = job->fetch.tier;
        self->tier_count++;
        job->tenant->held.tiers += job->fetch.tier_is_own;
        s_divide (self);
    }
    else
        job->fetch.tier = dataset->prefetch->tier;
    tier_join (job->fetch.tier, &job->consumer);
    tier_goes_on (job->fetch.tier, job->consumer.sampler_job, s_goes_on (job));
    raw_prefetch_fill (self, job, job->fetch.tier);
}

//  The jobs that are there when a folder becomes one that is read in pieces.  No piece follows from what has
//  been read: a job may begin in mid-epoch, as one that resumes does.  Versions that are being read from
//  files go on so.
static void
s_join_all (broker_t *self, const dataset_t *dataset)
{
    //  First the shared ones, for which there is memory (s_has_memory).
    for (uint32_t turn = 0; turn < 2 * SAMPLER_JOBS_MAX; turn++) {
        job_t *job = dataset->jobs [turn % SAMPLER_JOBS_MAX];
        bool is_first = turn < SAMPLER_JOBS_MAX;
        if (job && s_wants_tier (dataset, job->asked.order) && is_first != s_wants_own (self, job)
        &&  (is_first || s_has_room_for_own (self, job)))
            s_join_tier (self, job);
    }
    s_share_out (self, NULL);
}

void
raw_prefetch_join (broker_t *self, job_t *job, const broker_terms_t *join)
{
    if (job->asked.pool > 0) {
        size_t bytes = lookahead_bound (join);
        self->lookahead_reserved += bytes;
        job->tenant->held.lookahead_reserved += bytes;
        s_divide (self);
        lookahead_begin (self, job, bytes);
    }
    if (s_wants_tier (job->dataset, job->asked.order) && s_has_room (self, job))
        s_join_tier (self, job);
    s_share_out (self, NULL);
}

static void
s_clear_reserve (broker_t *self, job_t *job)
{
    size_t bytes = job->fetch.lookahead_bytes_max;
    lookahead_end (self, job);
    self->lookahead_reserved -= bytes;
    job->tenant->held.lookahead_reserved -= bytes;
    s_divide (self);
}

//  The next tier continues the counters of a tier that ends.
static void
s_remember (raw_prefetch_t *prefetch, raw_pool_figures_t figures)
{
    prefetch->last = figures;
    prefetch->past.passes += figures.passes;
    prefetch->past.reads += figures.reads;
    prefetch->past.hits += figures.hits;
    prefetch->past.misses += figures.misses;
    prefetch->past.discarded += figures.discarded;
}

static void
s_leave_tier (broker_t *self, job_t *job)
{
    tier_t *tier = job->fetch.tier;
    if (!tier)
        return;
    tier_leave (tier, &job->consumer);
    job->fetch.tier = NULL;
    if (tier_jobs (tier) > 0) {
        raw_prefetch_fill (self, job, tier);
        return;
    }
    if (!job->fetch.tier_is_own) {
        s_remember (job->dataset->prefetch, raw_pool_figures (tier_pool (tier)));
        job->dataset->prefetch->tier = NULL;
    }
    raw_pool_each (tier_pool (tier), s_left, job->dataset);
    tier_destroy (&tier);
    tenant_held_t *held = &job->tenant->held;
    held->tiers -= job->fetch.tier_is_own;
    held->tier_least = held->tiers > 0? held->tier_least: 0;
    if (--self->tier_count == 0)
        self->tier_least = 0;
    s_divide (self);
}

void
raw_prefetch_leave (broker_t *self, job_t *job)
{
    if (job->fetch.ahead)
        s_clear_reserve (self, job);
    s_leave_tier (self, job);
    s_share_out (self, job);
}

void
raw_prefetch_epoch_begin (broker_t *self, job_t *job)
{
    if (job->fetch.ahead)
        lookahead_epoch_begin (self, job);
    if (!job->fetch.tier)
        return;
    tier_epoch_begin (job->fetch.tier, job->consumer.sampler_job);
    tier_goes_on (job->fetch.tier, job->consumer.sampler_job, s_goes_on (job));
    raw_prefetch_fill (self, job, job->fetch.tier);
}

static void
s_forget (broker_t *self, dataset_t *dataset, tier_t *tier, const tenant_t *owner, uint32_t id)
{
    tier_forget (tier, id);
    s_fill (self, dataset, tier, owner);
}

void
raw_prefetch_forget (broker_t *self, dataset_t *dataset, uint32_t id)
{
    if (!dataset->prefetch)
        return;
    if (dataset->prefetch->tier)
        s_forget (self, dataset, dataset->prefetch->tier, NULL, id);
    for (job_t *job = self->jobs; job; job = job->next) {
        if (job->dataset != dataset)
            continue;
        if (job->fetch.tier && job->fetch.tier_is_own)
            s_forget (self, dataset, job->fetch.tier, job->tenant, id);
        if (job->fetch.ahead)
            lookahead_drop (self, job, id);
    }
}

//  ---- what a data set's tier holds and has read, and what a job's own tier holds, for `status`

static json_t *
s_policy (const dataset_t *dataset)
{
    static const char *const policies [] = { "stream", "redox", "direct" };
    return json_string (policies [dataset->prefetch->given.policy]);
}

//  What is in memory now, and how it is read.
static json_t *
s_pool (raw_pool_figures_t figures)
{
    json_t *object = json_object ();
    json_object_set_new (object, "piece_samples", json_integer (figures.piece));
    json_object_set_new (object, "virtual_chunks",
        figures.virtual_chunks? json_integer (figures.virtual_chunks): json_null ());
    json_object_set_new (object, "resident_samples", json_integer ((json_int_t) figures.resident));
    json_object_set_new (object, "resident_bytes", json_integer ((json_int_t) figures.resident_bytes));
    json_object_set_new (object, "resident_bytes_max", json_integer ((json_int_t) figures.limit_bytes));
    return object;
}

//  Where bytes came from, and how long reads took: each its own time, though many are under way at once.
static void
s_put_levels (json_t *object, const raw_prefetch_t *prefetch)
{
    const struct { const char *key; uint64_t number; } counts [] = {
        { "memory_bytes", prefetch->memory_bytes }, { "source_bytes", prefetch->source_bytes },
        { "block_cache_bytes", prefetch->cached_bytes }, { "peer_bytes", prefetch->peer_bytes },
        { "gets", prefetch->gets }, { "slow_gets", prefetch->slow_gets } };
    for (size_t index = 0; index < sizeof counts / sizeof *counts; index++)
        json_object_set_new (object, counts [index].key, json_integer ((json_int_t) counts [index].number));
    json_object_set_new (object, "source_seconds", json_real ((double) prefetch->source_ns / 1e9));
    json_object_set_new (object, "block_cache_seconds", json_real ((double) prefetch->cached_ns / 1e9));
    json_object_set_new (object, "peer_seconds", json_real ((double) prefetch->peer_ns / 1e9));
}

json_t *
raw_prefetch_job_status (const job_t *job)
{
    bool has_own = job->fetch.tier && job->fetch.tier_is_own;
    return has_own? s_pool (raw_pool_figures (tier_pool (job->fetch.tier))): json_null ();
}

json_t *
raw_prefetch_status (const dataset_t *dataset, bool sees_all)
{
    if (!sees_all)
        return json_pack ("{s:o}", "policy", s_policy (dataset));
    const raw_prefetch_t *prefetch = dataset->prefetch;
    raw_pool_figures_t figures = { .piece = prefetch->last.piece,
        .virtual_chunks = prefetch->last.virtual_chunks };
    if (prefetch->tier)
        figures = raw_pool_figures (tier_pool (prefetch->tier));
    json_t *object = s_pool (figures);
    json_object_set_new (object, "policy", s_policy (dataset));
    json_object_set_new (object, "passes",
        json_integer ((json_int_t) (prefetch->past.passes + figures.passes)));
    json_object_set_new (object, "pieces",
        json_integer ((json_int_t) (prefetch->past.reads + figures.reads)));
    json_object_set_new (object, "hits", json_integer ((json_int_t) (prefetch->past.hits + figures.hits)));
    json_object_set_new (object, "misses",
        json_integer ((json_int_t) (prefetch->past.misses + figures.misses)));
    json_object_set_new (object, "discarded",
        json_integer ((json_int_t) (prefetch->past.discarded + figures.discarded)));
    json_object_set_new (object, "reads", json_integer ((json_int_t) prefetch->reads));
    json_object_set_new (object, "bytes_read", json_integer ((json_int_t) prefetch->bytes_read));
    s_put_levels (object, prefetch);
    json_object_set_new (object, "bytes_handed", json_integer ((json_int_t) prefetch->bytes_handed));
    json_object_set_new (object, "read_amplification",
        prefetch->bytes_handed? json_real ((double) prefetch->bytes_read / (double) prefetch->bytes_handed):
        json_null ());
    return object;
}

//  ---- checks

static void
s_check_held (void *context, uint32_t id)
{
    const dataset_t *dataset = context;
    const raw_sample_t *sample = raw_store_find (dataset->prefetch->broker->raw, dataset->number, id);
    assert (sample && sample->holds > 0);                                       //  B6
}

static void
s_check_tier (broker_t *self, dataset_t *dataset, tier_t *tier, const tenant_t *owner)
{
    assert (raw_pool_figures (tier_pool (tier)).limit_bytes == s_limit (self, dataset, owner));
    raw_pool_check (tier_pool (tier));
    raw_pool_each (tier_pool (tier), s_check_held, dataset);
}

void
raw_prefetch_check (broker_t *self)
{
    if (!self->raw)
        return;
    raw_store_check (self->raw);
    raw_refcount_check (self);
    s_each_tier (self, s_check_tier);
    size_t reserved = 0, limits = 0;
    for (size_t index = 0; index < self->dataset_count; index++)
        if (self->datasets [index]->prefetch && self->datasets [index]->prefetch->tier)
            limits += raw_pool_figures (tier_pool (self->datasets [index]->prefetch->tier)).limit_bytes;
    for (const job_t *job = self->jobs; job; job = job->next) {
        reserved += job->fetch.lookahead_bytes_max;
        if (job->fetch.tier && job->fetch.tier_is_own)
            limits += raw_pool_figures (tier_pool (job->fetch.tier)).limit_bytes;
        if (job->fetch.ahead)
            lookahead_check (self, job);
    }
    assert (reserved == self->lookahead_reserved);
    assert (reserved + limits <= raw_prefetch_resident_bytes (self));
    size_t reading = 0;
    for (size_t index = 0; index < self->dataset_count; index++) {
        const raw_prefetch_t *prefetch = self->datasets [index]->prefetch;
        reading += prefetch? prefetch->reading: 0;
        assert (!prefetch || prefetch->reading <= self->read_max);
    }
    assert (reading == self->reading && reading <= budget_reads_most (self));
    for (uint32_t number = 0; number < BROKER_DATASETS_MAX; number++)
        assert (self->places [number] || (!(self->reading_full >> number & 1)
            && !raw_store_has (self->raw, number)));            //  B10
}
