/*  tier_published -- Redox (sections 3.2 to 3.4) as it was published, by the raw pool's own code, on a given
 *  generator, so that other implementations can be compared load by load.
 *
 *  The generator is published_random.h's.  Each epoch shuffles the samples and requests them in that order.
 *  Chunk c belongs to virtual chunk floor (c * M / C), C = ceil (samples / chunk).  There is no sampler and
 *  no prepared cache.
 */
#ifndef TIER_PUBLISHED_H
#define TIER_PUBLISHED_H
#include "tier_run.h"

//  One job's epochs.  plan->policy: RAW_REDOX.
tier_result_t tier_published_run (const tier_plan_t *plan, uint64_t seed);

#endif
