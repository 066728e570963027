/*  tier -- a raw pool under a sampler: which jobs it serves, what they need of it, and what a draw should choose.
 *
 *  For the broker and for bench/tier_sim, so that what is measured there is what runs here.
 *
 *  A tier serves jobs whose orders are not given, and that may know of each other:
 *    - under `follow` all jobs of a data set that follow (sampler_follows), under `dsa` all SHARED ones;
 *    - or one job alone: a PRIVATE one, since two that read one stream would not be independent; or one that draws
 *      apart, whose data the strata do not know.
 *
 *      while (sampler_offer (sampler, &offer)) {
 *          id = tier_pick (tier, consumers, count);
 *          version_index_draw (version index, consumers, count, id, versions, &scheduled);
 *          if (scheduled)  taken = tier_take (tier, id)    //  TIER_ABSENT: a single read; for all the versions together
 *          else            tier_drawn (tier, id)
 *          while (tier_next (tier, &read))         carry it out
 *      }
 *
 *  A draw:
 *    1. the sampler proposes a sample of the class, under `follow` one on the reusable set if there is one.  Do versions that
 *       are there serve it, it is drawn.
 *    2. Else one that is resident, of the proposal's *stratum*, not served by versions, and *allowed*: by the
 *       quotas of each job's history (history.h; under `follow` the sampler's, else kept here), which keep orders
 *       fresh whatever is resident;
 *    3. else one like that which the present pass has been past, so that what is to come is not read twice; else the
 *       proposal.
 *       redox: 1, and then where the proposal is redirected to; while some job has not all samples, the proposal.
 *  Each choice is uniform.  Samples of a stratum are in the same jobs' data (strata.h), and within one, served or not,
 *  nothing looks at which sample it is; the proposal says in which stratum, and whether served, as often as an
 *  independent draw would.  So every order stays uniform (docs/randomness.md).
 *
 *  What only jobs need that hardly draw does not fill the pool: those are *throttled* with a share of it (turns.h).
 *
 *  Owner: the broker's thread.
 */
#ifndef TIER_H
#define TIER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "raw_pool.h"
#include "sampler.h"
#include "version_index.h"

typedef struct tier tier_t;

//  All of version index, sampler and what options lend stay the caller's, and there while the tier is.  options: need, context
//  and random are filled in here, sample_bytes and its context too.  seed: of all choices.  Never NULL.
tier_t *tier_new (version_index_t *version_index, sampler_t *sampler, const raw_pool_options_t *options,
    size_t (*sample_bytes) (void *context, uint32_t id), void *context, uint64_t seed);
//  Jobs may still be there.
void tier_destroy (tier_t **self_p);
//  The pool, for its limit, figures and what leaves; lent.
raw_pool_t *tier_pool (tier_t *self);

//  The job, which has joined the sampler and the version index, draws through this tier.  Lent until tier_leave.
void tier_join (tier_t *self, consumer_t *consumer);
//  It leaves; version index and sampler still know it, and forget it after this call.
void tier_leave (tier_t *self, const consumer_t *consumer);
//  The job's next epoch has begun: to be told after version_index_epoch_begin.
void tier_epoch_begin (tier_t *self, uint32_t sampler_job);
//  Whether the job will begin another epoch after its present one; true until told otherwise.
void tier_goes_on (tier_t *self, uint32_t sampler_job, bool goes_on);
size_t tier_jobs (const tier_t *self);
//  The sample has been dropped from the sampler, and its versions from the version index.
void tier_forget (tier_t *self, uint32_t id);

//  Inside an offer to jobs of this tier: the id to commit.
uint32_t tier_pick (tier_t *self, consumer_t *const *consumers, size_t count);
typedef enum {
    TIER_ABSENT,                //  it was not resident: it is to be read by itself
    TIER_HANDED,                //  it was and has left: what was held for the pool is the caller's
    TIER_STAYED                 //  it was and stayed: the pool has it still, or has told that it left (raw_pool_on_leave)
} tier_taken_t;
//  The draw of id has been committed and a version scheduled.  May make room: other samples leave, and so may one that has
//  just stayed.
tier_taken_t tier_take (tier_t *self, uint32_t id);
//  The draw of id has been committed, and versions that were there served it.
void tier_drawn (tier_t *self, uint32_t id);
//  A read that is due now, to be carried out in this order; false: none.
bool tier_next (tier_t *self, raw_read_t *read);

//  Aborts naming the broken invariant: for tests.
void tier_check (const tier_t *self);

#endif
