//  How memory for compressed samples is divided among tiers.
//
//  Which tiers share memory: with one tenant, all; with several, the data sets' tiers, and each tenant's own
//  tiers.  A tier never gets more than its data take: everything is resident then, and more would be useless.
//  The rest goes to tiers with larger data, by weight: a quarter in equal parts, three quarters by the size
//  of their data.  So a large pack gets most of it, and a small one still enough to mix in.
//
//      part = weight x level, but no less than `least` and no more than `most`
//
//  The level makes the parts add up to the whole.  When a tier or a job with a pool comes or goes, the parts
//  change, and raw_prefetch.c sizes pieces and slots anew.

#include "raw_prefetch_share.h"
#include "raw_prefetch.h"

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
    for (size_t index = 0; index < broker->dataset_count; index++)
        if (self->tiers [index] > 0)
            sum += (double) self->tiers [index] * (double) raw_prefetch_division_part (self,
                broker->datasets [index]);
    return sum;
}

//  Parts grow with the level.  At the upper end each tier has all that it can use.
void
raw_prefetch_division_settle (raw_prefetch_division_t *self, const broker_t *broker)
{
    double tiers = 0, data = 0, high = 0;
    for (size_t index = 0; index < broker->dataset_count; index++)
        if (self->tiers [index] > 0) {
            tiers += (double) self->tiers [index];
            data += (double) self->tiers [index] * (double) broker->datasets [index]->prefetch->bytes;
        }
    self->mean_bytes = tiers > 0? data / tiers: 0;
    for (size_t index = 0; index < broker->dataset_count; index++)
        if (self->tiers [index] > 0) {
            claim_t claim = s_claim (self, broker->datasets [index]);
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
