/*  version_index -- which scheduled version serves which job, and how many jobs each may still serve.
 *
 *  It brings sampler and prepared cache together, which do not know each other, for the broker and for
 *  bench/sampler_sim: so what is measured there is what runs here.
 *
 *  A *kind* is what versions are of: one shared stage on one data set.  A *consumer* is a job in the eyes of its
 *  kind.  A consumer *may use* a version when the sampler says that it still needs the sample, and, if the
 *  stage is random, has not used this very version.  A version's count in the cache is how many consumers of
 *  its *side* may use it.  There are two sides, those that follow (sampler_follows) and the others, because what
 *  followers take depends on what stays, and what stays must not depend on data that the strata do not know
 *  (docs/randomness.md).  A version is on the side of who schedules it; followers' versions are on the
 *  sampler's reusable set.  A consumer uses versions of its own side, and of the other only while the cache has room for
 *  more; a follower then brings it over to its own.
 *
 *  What versions cost is shared by tenants (server/versions/version_index_tenants.c): a tenant shares a version that a consumer of it has used and
 *  one may use again, and the version is on the account of one of its sharers, each as likely.  What must go, goes from the
 *  tenant that has most for its weight (prepared.h).  So tenants, their weights and numbers of versions decide, and counts;
 *  never which samples they are of.  As long as there is one tenant, it has everything, and none of this changes anything.
 *
 *  Invariants, checked by version_index_check ():
 *    K1  an indexed version's count is the number of consumers of its side that may use it.
 *    K2  a shelved version is indexed, and is allowed to just the following consumers that may use it; every indexed
 *        random one that such a consumer has used is shelved.
 *    K3  where there are several tenants: an indexed version's sharers are those tenants that have a consumer of its side that has
 *        used it, and one that may use it in this epoch or a later one; it is on the account of a tenant that has a consumer in
 *        its kind, or nobody's.
 *    K4  what a tenant has outside of the index is what version_index_reserve says of its versions' size.
 *    K5  every drop is one account's; no more is prepared again than is scheduled, and not more of tenants than of all.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef VERSION_INDEX_H
#define VERSION_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "prepared.h"
#include "random.h"
#include "sampler.h"

typedef struct version_index version_index_t;
typedef struct version_set version_set_t;

enum { VERSION_INDEX_TENANTS_MAX = PREPARED_NOBODY };

//  What is lost to a consumer (server/versions/version_index_losses.c): versions that a job of its tenant had used, and others.
enum { VERSION_INDEX_LOST_OWN, VERSION_INDEX_LOST_OTHERS, VERSION_INDEX_LOST_KINDS };

//  Samples, a bit each; not those from 64 x room on.
typedef struct {
    uint64_t *words;
    size_t room;
} version_index_lost_t;

//  A job, embedded in whatever the caller keeps of it.  Set the first group, then version_index_join.
typedef struct consumer {
    version_set_t *kind;
    uint32_t sampler_job;
    bool numbers;               //  its versions carry `number` for their draw number, not how many the sample has had:
    uint32_t number;            //  a `seeded` job, alone in its random kind, whose pixels depend on its epoch
    uint32_t tenant;            //  whose it is
    //  the version index's
    bool follows;
    bool drawing;               //  inside a draw, its claims on the id withdrawn
    bool had_lost [VERSION_INDEX_LOST_KINDS];           //  inside a draw: the sample was among
    version_index_lost_t lost [VERSION_INDEX_LOST_KINDS];       //  samples of which a version is lost to it
    struct consumer *next;      //  of its kind
} consumer_t;

//  budget_bytes: of the prepared cache.  seed: for ties and choices among versions of one sample.
version_index_t *version_index_new (size_t budget_bytes, uint64_t seed);
//  Every consumer must have left and every version be unpinned; the samplers are still there.
void version_index_destroy (version_index_t **self_p);
//  The cache, for its limit, memory, pins and figures; lent.
prepared_t *version_index_prepared (version_index_t *self);

//  There is this tenant, with this weight, and at most bytes_max of the cache on its account (SIZE_MAX: as much as others
//  leave).  Number 0 is there from birth, with weight 1 and no limit; the first of others before any consumer.  May be called
//  again, to change them.
void version_index_tenant (version_index_t *self, uint32_t number, uint32_t weight, size_t bytes_max);
//  What is on the tenant's account now: its part of the index.
size_t version_index_tenant_bytes (const version_index_t *self, uint32_t number);
//  Outside of the index there is memory for so many of the largest versions of each tenant: that tenant has the use of it, and less
//  of the index in return.
void version_index_reserve (version_index_t *self, uint32_t versions);

//  A kind of versions of version_bytes each; random: a consumer uses a version once.  user is the caller's.
version_set_t *version_set_new (version_index_t *self, sampler_t *sampler, size_t version_bytes, bool is_random, void *user);
void *version_set_user (const version_set_t *self);
bool version_set_is_random (const version_set_t *self);
//  The kind of a version; never NULL.
version_set_t *version_set_of (const version_index_t *self, const version_t *version);
//  Called when the last consumer has left and the last version, indexed or pinned, is gone: the caller may
//  then forget the kind, which is freed.  Random versions are dropped when the last consumer leaves;
//  deterministic ones wait for the next.
void version_index_on_kind_end (version_index_t *self, void (*ended) (void *context, void *user), void *context);
//  Called when a version has left the index, and is still there.
void version_index_on_leave (version_index_t *self, void (*left) (void *context, version_t *version), void *context);
//  Whether the last consumer has left, and only versions are there still.
bool version_set_is_idle (const version_set_t *self);
//  They do not wait for the next one, but go.  self ends here, unless a version is pinned: then with that.
void version_set_end (version_set_t *self);

//  The job, which has joined the sampler, claims what it needs.  Of what was taken before it joined, it counts as having
//  used the random versions that there are of its side: the job that it goes on for may have, here.
void version_index_join (version_index_t *self, consumer_t *consumer);
//  Its claims go.  The sampler still knows it, and forgets it after this call.
void version_index_leave (version_index_t *self, consumer_t *consumer);
//  sampler_epoch_begin for the job, with its claims.
void version_index_epoch_begin (version_index_t *self, consumer_t *consumer);

//  Whether versions that are there would serve all of these consumers, should they draw id now: for choices.  Of those
//  that do not follow only while the cache has room for more: what they choose must not depend on others' versions.
bool version_index_serves (const version_index_t *self, consumer_t *const *consumers, size_t count, uint32_t id);
//  sampler_commit of id, and for each consumer of the offer the version that serves it: one that is there, or a
//  new one (also counted in *scheduled, unless NULL).  Each version is pinned once for each consumer in
//  versions [0 .. count), which are the caller's to unpin.
void version_index_draw (version_index_t *self, consumer_t **consumers, size_t count, uint32_t id, version_t **versions,
    uint64_t *scheduled);
//  The same for one consumer without a draw: another version's place (an unreadable sample's) gets this id, which
//  the consumer has drawn before.
version_t *version_index_serve (version_index_t *self, consumer_t *consumer, uint32_t id);

//  Every version of the sample leaves the index.
void version_index_forget (version_index_t *self, sampler_t *sampler, uint32_t id);
//  This version, which is pinned, leaves the index, if it is there.
void version_index_discard (version_index_t *self, version_t *version);

uint64_t version_index_hits (const version_index_t *self);      //  places served by a version that was there
uint64_t version_index_misses (const version_index_t *self);

//  Since birth.
typedef struct {
    uint64_t evictions;         //  versions that made room for others
    uint64_t again;             //  scheduled for a consumer to which a version of the sample had been lost
    uint64_t dropped;           //  went for another reason than room, and only the job that they were made for had used them
} version_index_losses_t;

version_index_losses_t version_index_losses (const version_index_t *self);
//  The tenant's: evicted or dropped from its account; scheduled for its consumers, one of which had used what was lost.
version_index_losses_t version_index_tenant_losses (const version_index_t *self, uint32_t number);

void version_index_check (version_index_t *self);

#endif
