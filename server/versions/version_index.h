/*  version_index -- which scheduled version serves which job, and how many jobs a version may still serve.
 *
 *  The sampler and the prepared cache do not know each other; the version index brings them together.  The
 *  broker and the simulators of bench/sim use it alike, so a simulator measures the code that runs here.
 *
 *  A *version set* holds all versions of one shared stage on one data set.  A *consumer* is a job as its set
 *  sees it.  A consumer *may use* a version if the sampler says that it still needs the sample, if the sample
 *  is *open* to it and, in a random stage, if it has not used this very version.  All samples are open to a
 *  consumer of a random set unless a raw pool (tier.h) opens them one by one, as they are read for it:
 *  versions should stay for jobs that will draw their samples soon.  A deterministic version serves each
 *  epoch, so to consumers of its set all samples are open.
 *
 *  A consumer that draws along passes (sampler_passes_has) may use a version only until it comes past the
 *  place at which that was drawn: what no consumer comes to any more may leave the cache first.
 *
 *  A set has two *sides*: consumers that follow (sampler_follows), and the others.  A version belongs to the
 *  side of the consumer that schedules it; the versions of followers are the sampler's reusable versions.  A
 *  version's count in the cache is the number of consumers of its side that may use it.  The sides are apart
 *  for this reason: followers take the versions that stay, so the versions that stay must not depend on data
 *  that the strata do not know (docs/randomness.md).  A consumer uses versions of its own side.  It uses one
 *  of the other side only while the cache has room for more; a follower then brings that version over to its
 *  own side.
 *
 *  Tenants share the cost of versions (version_index.c says how).  A tenant shares a version that one of its
 *  consumers has used and one may use again; one of the sharers, each as likely, has the version on its
 *  account.  An eviction hits the tenant that has most for its weight (prepared.h).  So tenants, weights and
 *  numbers of versions decide, never the versions' samples.  With a single tenant none of this changes
 *  anything.
 *
 *  Invariants, checked by version_index_check ():
 *    K1  the count of an indexed version is the number of consumers of its side that may use it.
 *    K2  a reusable version is indexed, and is allowed to exactly the following consumers that may use it;
 *        every indexed random version that a follower has used is reusable.
 *    K3  with several tenants: the sharers of an indexed version are the tenants with a consumer of its side
 *        that has used it and one that may use it in this epoch or a later one; the account is that of a
 *        tenant with a consumer in the set, or none.
 *    K4  each tenant's memory outside of the index is the number given to version_index_reserve times its
 *        largest version.
 *    K5  every drop is on one account; no more versions are prepared again than are scheduled, and no more on
 *        tenants' accounts than in all.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef VERSION_INDEX_H
#define VERSION_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lost_samples.h"
#include "prepared.h"
#include "random.h"
#include "sampler.h"

typedef struct version_index version_index_t;
typedef struct version_set version_set_t;

enum { VERSION_INDEX_TENANTS_MAX = PREPARED_NOBODY };

//  Versions that a consumer loses (version_index_losses_t): those that a job of its tenant had used, and the
//  others.
enum { VERSION_INDEX_LOST_OWN, VERSION_INDEX_LOST_OTHERS, VERSION_INDEX_LOST_KINDS };

//  A job; its owner embeds this.  Set the first group, then call version_index_join.
typedef struct consumer {
    version_set_t *kind;
    uint32_t sampler_job;
    bool numbers;               //  a `seeded` job, alone in its random set: the draw number of its versions
                                //  is `number`, its
    uint32_t number;            //  epoch, and not the count of the sample's versions
    uint32_t tenant;            //  owns the job
    //  the version index's
    bool follows;
    bool has_passes;            //  it draws along passes (sampler.h)
    const uint64_t *open;       //  tier.c's: a bit for each sample that is open to it; NULL: all are.  The
                                //  claims of a consumer that does not follow, or of a deterministic set, do
                                //  not depend on it
    bool drawing;               //  inside a draw: its claims on the id are withdrawn
    bool had_lost [VERSION_INDEX_LOST_KINDS];           //  inside a draw: the sample was among
    lost_samples_t lost [VERSION_INDEX_LOST_KINDS];       //  samples with a version that is lost to the
                                                                //  consumer
    struct consumer *next;      //  of its set
} consumer_t;

//  budget_bytes: of the prepared cache.  seed: for ties and choices among versions of one sample.
version_index_t *version_index_new (size_t budget_bytes, uint64_t seed);
//  Every consumer must have left and every version be unpinned; the samplers must still exist.
void version_index_destroy (version_index_t **self_p);
//  The cache, for its limit, memory, pins and figures; lent.
prepared_t *version_index_prepared (version_index_t *self);

//  Adds or changes a tenant: its weight, and at most bytes_max of the cache on its account (SIZE_MAX: what
//  others leave).  Tenant 0 exists from the start, with weight 1 and no limit.  Add the first other tenant
//  before any consumer.
void version_index_tenant (version_index_t *self, uint32_t number, uint32_t weight, size_t bytes_max);
//  Bytes on the tenant's account now: its part of the index.
size_t version_index_tenant_bytes (const version_index_t *self, uint32_t number);
//  Each tenant may use memory outside the index for so many of its largest versions, and has that much less
//  of the index.
void version_index_reserve (version_index_t *self, uint32_t versions);

//  A set of versions of version_bytes each.  random: a consumer uses a version once.  user is the caller's.
version_set_t *version_set_new (version_index_t *self, sampler_t *sampler, size_t version_bytes,
    bool is_random, void *user);
void *version_set_user (const version_set_t *self);
bool version_set_is_random (const version_set_t *self);
//  The set of a version; never NULL.
version_set_t *version_set_of (const version_index_t *self, const version_t *version);
//  Sets the function that is called when a set ends: its last consumer has left and its last version, indexed
//  or pinned, is gone.  The set is freed after the call.  Random versions are dropped when the last consumer
//  leaves; deterministic ones stay for the next consumer.
void version_index_on_kind_end (version_index_t *self, void (*ended) (void *context, void *user),
    void *context);
//  Sets the function that is called when a version has left the index and its memory is still there.
void version_index_on_leave (version_index_t *self, void (*left) (void *context, version_t *version),
    void *context);
//  Whether the set has versions only, and no consumer.
bool version_set_is_idle (const version_set_t *self);
//  Drops the versions of an idle set.  The set ends here, or with its last pinned version.
void version_set_end (version_set_t *self);
//  The same for all sets of the sampler.
void version_index_end_sets (version_index_t *self, const sampler_t *sampler);

//  The job has joined the sampler, and claims the samples that it needs.  A resumed job counts as having used
//  the random versions of its side of the samples taken before: its predecessor may have used them here.
void version_index_join (version_index_t *self, consumer_t *consumer);
//  Withdraws the job's claims.  The sampler forgets the job after this call, not before.
void version_index_leave (version_index_t *self, consumer_t *consumer);
//  Begins the job's next epoch in the sampler, and claims anew.
void version_index_epoch_begin (version_index_t *self, consumer_t *consumer);

//  A follower's open samples change: withdraw (-1) the claims that this changes, change, and enter (+1) them.
//  Of one sample; or of all.  Not inside a draw.
void version_index_claim (const consumer_t *consumer, uint32_t id, int change);
void version_index_claim_all (const consumer_t *consumer, int change);
//  Whether an existing version would serve the consumer, if it drew id now and the sample were open to it.
bool version_index_has (const consumer_t *consumer, uint32_t id);

//  Whether existing versions would serve all of these consumers if they drew id now.  For a consumer that
//  does not follow this is true only while the cache has room for more: its choices must not depend on the
//  versions of others.
bool version_index_serves (const version_index_t *self, consumer_t *const *consumers, size_t count,
    uint32_t id);
//  Commits id to the sampler and finds for each consumer of the offer the version that serves it: an existing
//  one, or a new one (also counted in *scheduled, unless NULL).  Pins each version once for each consumer in
//  versions [0 .. count); the caller unpins them.
void version_index_draw (version_index_t *self, consumer_t **consumers, size_t count, uint32_t id,
    version_t **versions, uint64_t *scheduled);
//  The same for one consumer without a draw: the batch row of an unreadable sample gets this id, which the
//  consumer has drawn before.
version_t *version_index_serve (version_index_t *self, consumer_t *consumer, uint32_t id);

//  Every version of the sample leaves the index.
void version_index_forget (version_index_t *self, sampler_t *sampler, uint32_t id);
//  Takes this pinned version out of the index, if it is there.
void version_index_discard (version_index_t *self, version_t *version);

uint64_t version_index_hits (const version_index_t *self);      //  batch rows served by an existing version
uint64_t version_index_misses (const version_index_t *self);

//  Versions that the cache loses, and versions that are prepared again because of that, since birth.
//
//  A version is *lost to a consumer* when it leaves the index, or its side, although it could still serve
//  that consumer: in the present epoch or, in a deterministic set, in a later one.  (A random set has new
//  versions in every epoch anyway.)  A version of a bad sample, or of one that could not be prepared, is no
//  loss.
//
//  A version is *prepared again* when it is scheduled for a consumer that has lost a version of the sample
//  since it last had the sample.  In a deterministic set these are the same pixels once more.  In a random
//  set a version for several consumers has gone before all of them had it, and another takes its place.  A
//  consumer that finds an existing version costs nothing and does not count.  A tenant sees only its own
//  losses: one of its jobs had used the lost version.  The others count in the total only, since they would
//  reveal which samples another tenant's jobs had.
//
//  A version is *dropped* when it is removed for another reason than room and only the job that it was made
//  for has used it.
//
//  For each consumer, a bit for each sample says what it has lost.  The bits are plain words, because
//  evictions are scattered and one may be a loss to hundreds of jobs.  The losers are looked up as for a new
//  version's count, so such an eviction costs as much as that (tenants_sim, 68 jobs: 3.3 us a draw without,
//  5.8 us with).  No decision reads any of this: `status` shows it.
typedef struct {
    uint64_t evictions;         //  versions that made room for others
    uint64_t again;             //  scheduled for a consumer that had lost a version of the sample
    uint64_t dropped;           //  removed for another reason than room, and used by one job only
} version_index_losses_t;

version_index_losses_t version_index_losses (const version_index_t *self);
//  One tenant's losses: versions evicted or dropped from its account, and versions scheduled again for one of
//  its consumers after another of its consumers had used the lost one.
version_index_losses_t version_index_tenant_losses (const version_index_t *self, uint32_t number);

void version_index_check (version_index_t *self);

//  ---- the draw window

enum { VERSION_INDEX_WINDOW_FIRST_BATCHES = 4, VERSION_INDEX_WINDOW_RELEASES_A_SAMPLE = 12 };

//  How many samples a job may have drawn that its client has not released.  whole: the window in the end;
//  released: samples so far.
//
//  Under `follow` the window of a job that shares (it follows, or draws along passes) begins with a few
//  batches and grows by a sample for every few released.  If a newcomer drew a whole window ahead of the
//  others at once, its versions would be gone when the others need them, which costs up to a window of
//  preparations; drawn gradually, others find them among the reusable versions (measured: bench/sampler_sim,
//  --window).
static inline uint64_t
version_index_window (uint64_t whole, bool shares, uint32_t batch, uint64_t released)
{
    uint64_t grown = (uint64_t) VERSION_INDEX_WINDOW_FIRST_BATCHES * batch
        + released / VERSION_INDEX_WINDOW_RELEASES_A_SAMPLE;
    return shares && grown < whole? grown: whole;
}

#endif
