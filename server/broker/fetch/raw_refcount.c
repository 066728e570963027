//  Compressed samples of packs: which versions and jobs hold them, on which tenant's account, and which
//  version waits for which bytes.
//
//  The memory of a sample counts on one lane of the raw store (raw_prefetch.c): on the lane of a tenant that
//  has rows waiting for it, or that has it in its own tier or pool; else, while it is resident for all, on
//  lane 0.  The lane that brings it pays.  When that tenant has finished with the sample, another that still
//  needs it pays; but not with memory that is kept for a tenant, nor while that other one waits for memory
//  for samples that it needs before.  Then the bytes go, and are read again when it is their turn in the
//  other tenant's lane.  So a tenant gets its part back as soon as it has finished with a sample, whatever
//  others want later; and a sample is re-read only after some tenant has finished with it.
//
//  "No decision depends on a completion" (broker.h) is about draws, deliveries and evictions.  The moment of
//  a read, and whether it is repeated, depends on how long others took; the residents, the deliveries and
//  their order do not.

#include "raw_refcount.h"
#include <assert.h>
#include "job.h"
#include "lookahead.h"
#include "raw_prefetch.h"
#include "tenant.h"
#include "version.h"

//  ---- which lane a sample counts on

uint32_t
raw_refcount_lane (const broker_t *self, const tenant_t *tenant)
{
    return tenant_limits_apply (self) && tenant? tenant->number + 1: 0;
}

static uint32_t
s_pool_lane (const broker_t *self, const dataset_t *dataset, uint32_t id, uint32_t now)
{
    uint32_t found = now;
    for (const job_t *job = self->jobs; job; job = job->next) {
        bool has_it = job->dataset == dataset
            && ((job->fetch.ahead && roaring_bitmap_contains (job->fetch.ahead->held, id))
            || (job->fetch.tier && job->fetch.tier_is_own
            && raw_pool_is_resident (tier_pool (job->fetch.tier), id)));
        if (has_it && raw_refcount_lane (self, job->tenant) == now)
            return now;
        found = has_it? raw_refcount_lane (self, job->tenant): found;
    }
    return found;
}

//  The lane on which a sample of this lane should count now.
static uint32_t
s_lane (const broker_t *self, const dataset_t *dataset, const raw_sample_t *sample, uint32_t now)
{
    const tenant_t *waiting = NULL;
    for (const version_t *version = sample->waiting; version; version = version->next_raw)
        for (const batch_row_t *row = version->waiting; row; row = row->next_waiting) {
            waiting = row->job->tenant;
            if (raw_refcount_lane (self, waiting) == now)
                return now;
        }
    tier_t *tier = dataset->prefetch->tier;
    if (tier && raw_pool_is_resident (tier_pool (tier), sample->id))
        return 0;
    return waiting? raw_refcount_lane (self, waiting): s_pool_lane (self, dataset, sample->id, now);
}

//  Whether its bytes are there, and no worker has them.
static bool
s_is_idle (const raw_sample_t *sample)
{
    for (const version_t *version = sample->waiting; version; version = version->next_raw)
        if (version->state == VERSION_WORKING)
            return false;
    return sample->state == RAW_SAMPLE_READY;
}

static void
s_read_again (broker_t *self, raw_sample_t *sample)
{
    raw_store_again (self->raw, sample);
    for (version_t *version = sample->waiting; version; version = version->next_raw) {
        row_queue_left (version);
        for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
            raw_store_also (self->raw, raw_refcount_lane (self, row->job->tenant), sample);
    }
}

//  After a holder of the sample has finished with it.
static void
s_settle (broker_t *self, const dataset_t *dataset, raw_sample_t *sample)
{
    if (!tenant_limits_apply (self) || sample->state == RAW_SAMPLE_BAD)
        return;
    uint32_t before = raw_sample_lane (sample), lane = s_lane (self, dataset, sample, before);
    if (lane == before)
        return;
    raw_store_count (self->raw, sample, lane);
    if (s_is_idle (sample) && !raw_store_has_room (self->raw, sample))
        s_read_again (self, sample);
}

//  ---- holding

raw_sample_t *
raw_refcount_take (broker_t *self, const dataset_t *dataset, uint32_t id)
{
    const broker_pack_t *given = &dataset->prefetch->given;
    return raw_store_hold (self->raw, dataset->number, id, given->sample_bytes (given->user, id));
}

void
raw_refcount_let_go (broker_t *self, const dataset_t *dataset, raw_sample_t *sample)
{
    if (sample->holds > 1)
        s_settle (self, dataset, sample);
    raw_store_drop (self->raw, sample);
}

void
raw_refcount_read_alone (broker_t *self, uint32_t lane, const dataset_t *dataset, raw_sample_t *sample)
{
    raw_store_request (self->raw, lane, dataset->number, &sample, 1);
}

//  ---- versions

void
raw_refcount_attach (broker_t *self, version_t *version, raw_sample_t *sample)
{
    const dataset_t *dataset = version_dataset (self, version);
    version->raw = raw_store_hold (self->raw, dataset->number, sample->id, sample->bytes);
    version_t *first = sample->waiting;
    version->previous_raw = NULL;
    version->next_raw = first;
    if (first)
        first->previous_raw = version;
    sample->waiting = version;
}

bool
raw_refcount_want (broker_t *self, const tenant_t *tenant, version_t *version)
{
    const dataset_t *dataset = version_dataset (self, version);
    assert (dataset->prefetch);
    if (!version->raw) {
        raw_sample_t *sample = raw_refcount_take (self, dataset, version->id);
        if (raw_sample_is_new (sample))
            raw_refcount_read_alone (self, raw_refcount_lane (self, tenant), dataset, sample);
        raw_refcount_attach (self, version, sample);
        raw_store_drop (self->raw, sample);
    }
    //  Whichever tenant ordered it: in that tenant's lane it may stand far behind, among samples drawn ahead.
    if (tenant_limits_apply (self))
        raw_store_also (self->raw, raw_refcount_lane (self, tenant), version->raw);
    return ((const raw_sample_t *) version->raw)->state != RAW_SAMPLE_AWAITED;
}

void
raw_refcount_release (broker_t *self, version_t *version)
{
    raw_sample_t *sample = version->raw;
    if (!sample)
        return;
    if (version->previous_raw)
        version->previous_raw->next_raw = version->next_raw;
    else
        sample->waiting = version->next_raw;
    if (version->next_raw)
        version->next_raw->previous_raw = version->previous_raw;
    version->raw = NULL;
    version->next_raw = version->previous_raw = NULL;
    raw_refcount_let_go (self, version_dataset (self, version), sample);
}

//  ---- checks

//  A row that waits for queued bytes has a place in its tenant's lane, where it may be served first.
static void
s_check_row (const broker_t *self, const batch_row_t *row)
{
    const raw_sample_t *sample = row->state == ROW_WAITING? row->version->raw: NULL;
    if (!sample || !sample->request || sample->request->handed_out)
        return;
    uint32_t lane = raw_refcount_lane (self, row->job->tenant);
    assert (sample->request->lane == lane || sample->stands >> (lane - 1) & 1);
}

void
raw_refcount_check (const broker_t *self)
{
    for (const job_t *job = self->jobs; tenant_limits_apply (self) && job; job = job->next)
        for (uint32_t slot = 0; slot < job->asked.slots; slot++)
            for (uint32_t index = 0; index < job->draw.batches [slot].drawn; index++)
                s_check_row (self, &job->draw.batches [slot].rows [index]);
}
