//  What a draw takes of a pack's compressed samples, and when their reads are handed out.

#include "raw_reads.h"
#include <assert.h>
#include "action.h"
#include "budget.h"
#include "lookahead.h"
#include "patience.h"
#include "raw_prefetch.h"
#include "raw_refcount.h"

//  ---- draws

uint32_t
raw_reads_pick (job_t *const *jobs, consumer_t **consumers, size_t count)
{
    tier_t *tier = jobs [0]->tier;
    return tier? tier_pick (tier, consumers, count): sampler_pick (jobs [0]->dataset->sampler);
}

//  The drawn sample, held once for the caller.  The tier's hold passes to the caller, unless the tier keeps
//  the sample for another epoch.
static raw_sample_t *
s_take (broker_t *self, job_t *job, uint32_t id)
{
    raw_sample_t *sample = raw_refcount_take (self, job->dataset, id);      //  first: the tier may drop its
                                                                             //  hold
    tier_taken_t taken = job->tier? tier_take (job->tier, id): TIER_ABSENT;
    if (taken == TIER_HANDED)
        raw_store_drop (self->raw, sample);
    if (taken != TIER_ABSENT)
        job->dataset->prefetch->memory_bytes += sample->bytes;
    if (taken != TIER_ABSENT && !raw_pool_is_resident (tier_pool (job->tier), id)
        && raw_sample_lane (sample) == 0)
        raw_store_count (self->raw, sample, raw_refcount_lane (self, job->tenant));
    //  What the tier does not keep is in a tenant's lane, where there are lanes: no other tenant pays for it.
    assert (taken == TIER_ABSENT || raw_pool_is_resident (tier_pool (job->tier), id)
        || raw_sample_lane (sample) != 0 || raw_refcount_lane (self, job->tenant) == 0);
    if (raw_sample_is_new (sample)) {
        raw_refcount_read_alone (self, raw_refcount_lane (self, job->tenant), job->dataset, sample);
        job->single_reads++;
        job->single_bytes += sample->bytes;
    }
    return sample;
}

void
raw_reads_drawn (broker_t *self, job_t *job, uint32_t id, version_t *const *versions, size_t count)
{
    dataset_t *dataset = job->dataset;
    if (!dataset->prefetch)
        return;
    raw_sample_t *sample = NULL;
    if (job->tier)          //  redox: the pick may have scheduled the read of this very sample
        raw_prefetch_fill (self, job, job->tier);
    for (size_t index = 0; index < count; index++) {
        version_t *version = versions [index];
        if (version->state != VERSION_IDLE || version->raw)
            continue;
        if (!sample)
            sample = s_take (self, job, id);
        raw_refcount_attach (self, version, sample);
    }
    if (sample)
        raw_store_drop (self->raw, sample);
    else
    if (job->tier)
        tier_drawn (job->tier, id);
    if (job->tier)
        raw_prefetch_fill (self, job, job->tier);
    if (job->ahead) {
        lookahead_drop (self, job, id);
        lookahead_fill (self, job);
    }
}

//  ---- reads

//  With several packs, each has its own limit of reads under way and its own part of the memory for them: a
//  pack on a slow disk takes nothing from the others.
static bool
s_is_full (const broker_t *self, const raw_prefetch_t *prefetch)
{
    size_t packs = raw_prefetch_packs (self);
    size_t part = packs > 1? (self->options.raw_bytes - raw_prefetch_resident_bytes (self)) / packs: SIZE_MAX;
    return prefetch->reading >= budget_part (self, self->read_max)
        || (prefetch->reading > 0 && prefetch->reading_bytes >= part);
}

static void
s_count_reading (broker_t *self, const raw_request_t *request, bool begins)
{
    raw_prefetch_t *prefetch = dataset_of_request (self, request)->prefetch;
    size_t bytes = 0;
    for (uint32_t index = 0; index < request->sample_count; index++)
        bytes += request->samples [index]->bytes;
    prefetch->reading += begins? 1: (size_t) -1;
    prefetch->reading_bytes += begins? bytes: -bytes;
    self->reading += begins? 1: (size_t) -1;
    uint64_t bit = UINT64_C (1) << request->source;
    self->reading_full = s_is_full (self, prefetch)? self->reading_full | bit: self->reading_full & ~bit;
    raw_store_hold_back (self->raw, self->reading_full);
}

bool
raw_reads_dispatch (broker_t *self)
{
    if (self->raw && self->preparing == 0 && self->copying == 0 && self->reading == 0)
        raw_store_hurry (self->raw);
    raw_request_t *request;
    while (self->raw && self->reading < budget_reads_most (self) && (request = raw_store_next (self->raw))) {
        if (patience_holds (dataset_of_request (self, request))) {
            patience_hold_request (self, request);
            continue;
        }
        patience_made (dataset_of_request (self, request));
        s_count_reading (self, request, true);
        action_add (self, ACTION_READ, NULL)->request = request;
    }
    return !self->raw || raw_store_queued (self->raw) == 0;
}

static void
s_arrived (void *context, raw_sample_t *sample)
{
    (void) context;
    for (version_t *version = sample->waiting; version; version = version->next_raw)
        row_queue_arrived (version);
}

//  A read has come back, whatever its result.
static void
s_read_is_back (broker_t *self, const raw_request_t *request)
{
    assert (self->reading > 0);
    s_count_reading (self, request, false);
    raw_prefetch_t *prefetch = dataset_of_request (self, request)->prefetch;
    prefetch->reads++;
    prefetch->bytes_read += request->read_bytes + request->cached_bytes + request->peer_bytes;
    prefetch->source_bytes += request->read_bytes;
    prefetch->source_ns += request->read_bytes? request->read_ns: 0;
    prefetch->cached_bytes += request->cached_bytes;
    prefetch->cached_ns += request->cached_ns;
    prefetch->peer_bytes += request->peer_bytes;
    prefetch->peer_ns += request->peer_ns;
    prefetch->gets += request->gets;
    prefetch->slow_gets += request->slow_gets;
}

void
broker_read (broker_t *self, raw_request_t *request)
{
    s_read_is_back (self, request);
    if (request->rc == 0)
        patience_good (dataset_of_request (self, request));
    raw_store_done (self->raw, request, s_arrived, NULL);
}

void
broker_unread_range (broker_t *self, raw_request_t *request, int rc, const char *reason, int64_t now_ms)
{
    assert (rc < 0);
    if (patience_ends_range (self, request, rc, reason, now_ms)) {
        request->rc = rc;
        broker_read (self, request);
        return;
    }
    //  Its cost counts, and its samples have no memory.
    s_read_is_back (self, request);
    raw_store_rest (self->raw, request);
    patience_rest_range (self, request, rc, now_ms);
}

size_t
budget_reads_max (const broker_t *self)
{
    size_t packs = raw_prefetch_packs (self), full = budget_full_datasets (self);
    return self->read_max * (packs < full? packs: full);
}
