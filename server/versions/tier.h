/*  tier -- decides which sample of a pack is drawn next, by what is in memory: a raw pool under a sampler,
 *  the jobs that it serves, and the samples that they need.
 *
 *  The broker and bench/sim/tier_sim use it alike, so the simulator measures the code that runs here.
 *
 *  A tier serves jobs without a given order that may depend on each other:
 *    - under `follow` all jobs of a data set that follow (sampler_follows); under `dsa` all SHARED jobs;
 *    - or a single job: a PRIVATE one, since two jobs that read one stream would not be independent, or one
 *      that draws apart, because the strata do not know its data.
 *
 *      while (sampler_offer (sampler, &offer)) {
 *          id = tier_pick (tier, consumers, count);
 *          version_index_draw (version_index, consumers, count, id, versions, &scheduled);
 *          if (scheduled)  taken = tier_take (tier, id)    //  TIER_ABSENT: one read for all the versions
 *          else            tier_drawn (tier, id)
 *          while (tier_next (tier, &read))         carry it out
 *      }
 *
 *  A draw takes the first of these that exists:
 *    1. the sampler's proposal, if existing versions serve it (under `follow` the sampler proposes a sample
 *       with a reusable version if there is one);
 *    2. a sample of the jobs' supplies (raw_pool.h), of the proposal's *stratum*, that no version serves and
 *       that the quotas of each job's history allow (history.h; under `follow` the sampler keeps them,
 *       otherwise the tier).  Quotas keep orders fresh whatever is resident;
 *    3. any resident sample of the same kind;
 *    4. the proposal: a single read.
 *  Redox takes 1, otherwise the sample that the proposal is redirected to; while a job lacks some samples,
 *  the proposal.
 *
 *  Each choice is uniform.  Samples of one stratum are in the data of the same jobs (strata.h).  Within a
 *  stratum, served or not, no choice looks at which sample it is; and the proposal gives each stratum, served
 *  or not, as often as an independent draw would.  So every order stays uniform (docs/randomness.md).
 *
 *  A follower uses random versions only of samples that were read for it, or read singly by some job
 *  (version_index.h: they are open to it).  The tier tells the pool how fast jobs draw, so that slow ones do
 *  not fill it.
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

//  Draws between two measurements of the jobs' speed, for each job, beside a pool's worth: clients take whole
//  batches in turn.
enum { TIER_PACE_DRAWS = 256 };

//  version_index, sampler and the memory that options lend belong to the caller and outlive the tier.  The
//  tier fills in ops, need, sample_bytes, context and random of options.  seed: for all choices.  Never
//  returns NULL.
tier_t *tier_new (version_index_t *version_index, sampler_t *sampler, raw_policy_t policy,
    const raw_pool_options_t *options, size_t (*sample_bytes) (void *context, uint32_t id), void *context,
    uint64_t seed);
//  The most that a tier with so many residents holds beside their bytes, without its jobs; and for each job.
//  chunk: of redox.
size_t tier_bytes (raw_policy_t policy, uint32_t samples, uint32_t chunk, uint64_t residents);
size_t tier_job_bytes (raw_policy_t policy, uint32_t samples, uint64_t residents, bool follows);
//  Jobs may still be there.
void tier_destroy (tier_t **self_p);
//  The pool, for its limit, its figures and its leave callback; lent.
raw_pool_t *tier_pool (tier_t *self);

//  The job, which has joined the sampler and the version index, draws through this tier.  Lent until
//  tier_leave.
void tier_join (tier_t *self, consumer_t *consumer);
//  The job leaves; the version index and the sampler forget it after this call, not before.
void tier_leave (tier_t *self, const consumer_t *consumer);
//  The job's next epoch has begun: call it after version_index_epoch_begin.
void tier_epoch_begin (tier_t *self, uint32_t sampler_job);
//  Whether the job will begin another epoch after its present one; true until told otherwise.
void tier_goes_on (tier_t *self, uint32_t sampler_job, bool goes_on);
size_t tier_jobs (const tier_t *self);
//  The sample has been dropped from the sampler, and its versions from the version index.
void tier_forget (tier_t *self, uint32_t id);

//  Inside an offer to jobs of this tier: the id to commit.
uint32_t tier_pick (tier_t *self, consumer_t *const *consumers, size_t count);
typedef enum {
    TIER_ABSENT,                //  it was not resident: read it by itself
    TIER_HANDED,                //  it was resident and has left: the pool's hold is now the caller's
    TIER_STAYED                 //  it was resident and stayed: the pool keeps it, or has reported its leave
                                //  (raw_pool_on_leave)
} tier_taken_t;
//  The draw of id has been committed and a version scheduled.  May make room: other samples leave, perhaps
//  also one that has just stayed.
tier_taken_t tier_take (tier_t *self, uint32_t id);
//  The draw of id has been committed, and existing versions served it.
void tier_drawn (tier_t *self, uint32_t id);
//  A read that is due now, to be carried out in this order; false: none.
bool tier_next (tier_t *self, raw_read_t *read);

//  Aborts naming the broken invariant: for tests.
void tier_check (const tier_t *self);

#endif
