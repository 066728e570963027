/*  stock -- which scheduled version serves which job, and how many jobs each may still serve.
 *
 *  It brings sampler and prepared cache together, which do not know each other, for the broker and for
 *  bench/sampler_sim: so what is measured there is what runs here.
 *
 *  A *kind* is what versions are of: one shared stage on one data set.  A *claimant* is a job in the eyes of its
 *  kind.  A claimant *may use* a version when the sampler says that it still needs the sample, and, if the
 *  stage is random, has not used this very version.  A version's count in the cache is how many claimants of
 *  its *side* may use it.  There are two sides, those that follow (sampler_follows) and the others, because what
 *  followers take depends on what stays, and what stays must not depend on data that the strata do not know
 *  (docs/randomness.md).  A version is on the side of who schedules it; followers' versions are on the
 *  sampler's shelf.  A claimant uses versions of its own side, and of the other only while the cache has room for
 *  more; a follower then brings it over to its own.
 *
 *  What versions cost is shared by tenants (server/versions/stock_tenants.c): a tenant shares a version that a claimant of it has used and
 *  one may use again, and the version is on the account of one of its sharers, each as likely.  What must go, goes from the
 *  tenant that has most for its weight (prepared.h).  So tenants, their weights and numbers of versions decide, and counts;
 *  never which samples they are of.  As long as there is one tenant, it has everything, and none of this changes anything.
 *
 *  Invariants, checked by stock_check ():
 *    K1  an indexed version's count is the number of claimants of its side that may use it.
 *    K2  a shelved version is indexed, and is allowed to just the following claimants that may use it; every indexed
 *        random one that such a claimant has used is shelved.
 *    K3  where there are several tenants: an indexed version's sharers are those tenants that have a claimant of its side that has
 *        used it, and one that may use it in this epoch or a later one; it is on the account of a tenant that has a claimant in
 *        its kind, or nobody's.
 *    K4  what a tenant has outside of the index is what stock_reserve says of its versions' size.
 *    K5  every drop is one account's; no more is prepared again than is scheduled, and not more of tenants than of all.
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef STOCK_H
#define STOCK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "prepared.h"
#include "random.h"
#include "sampler.h"

typedef struct stock stock_t;
typedef struct stock_kind stock_kind_t;

enum { STOCK_TENANTS_MAX = PREPARED_NOBODY };

//  What is lost to a claimant (server/versions/stock_losses.c): versions that a job of its tenant had used, and others.
enum { STOCK_LOST_OWN, STOCK_LOST_OTHERS, STOCK_LOST_KINDS };

//  Samples, a bit each; not those from 64 x room on.
typedef struct {
    uint64_t *words;
    size_t room;
} stock_lost_t;

//  A job, embedded in whatever the caller keeps of it.  Set the first group, then stock_join.
typedef struct claimant {
    stock_kind_t *kind;
    uint32_t sampler_job;
    bool numbers;               //  its versions carry `number` for their draw number, not how many the sample has had:
    uint32_t number;            //  a `seeded` job, alone in its random kind, whose pixels depend on its epoch
    uint32_t tenant;            //  whose it is
    //  the stock's
    bool follows;
    bool drawing;               //  inside a draw, its claims on the id withdrawn
    bool had_lost [STOCK_LOST_KINDS];           //  inside a draw: the sample was among
    stock_lost_t lost [STOCK_LOST_KINDS];       //  samples of which a version is lost to it
    struct claimant *next;      //  of its kind
} claimant_t;

//  budget_bytes: of the prepared cache.  seed: for ties and choices among versions of one sample.
stock_t *stock_new (size_t budget_bytes, uint64_t seed);
//  Every claimant must have left and every version be unpinned; the samplers are still there.
void stock_destroy (stock_t **self_p);
//  The cache, for its limit, memory, pins and figures; lent.
prepared_t *stock_prepared (stock_t *self);

//  There is this tenant, with this weight, and at most bytes_max of the cache on its account (SIZE_MAX: as much as others
//  leave).  Number 0 is there from birth, with weight 1 and no limit; the first of others before any claimant.  May be called
//  again, to change them.
void stock_tenant (stock_t *self, uint32_t number, uint32_t weight, size_t bytes_max);
//  What is on the tenant's account now: its part of the index.
size_t stock_tenant_bytes (const stock_t *self, uint32_t number);
//  Outside of the index there is memory for so many of the largest versions of each tenant: that tenant has the use of it, and less
//  of the index in return.
void stock_reserve (stock_t *self, uint32_t versions);

//  A kind of versions of version_bytes each; random: a claimant uses a version once.  user is the caller's.
stock_kind_t *stock_kind_new (stock_t *self, sampler_t *sampler, size_t version_bytes, bool is_random, void *user);
void *stock_kind_user (const stock_kind_t *self);
bool stock_kind_is_random (const stock_kind_t *self);
//  The kind of a version; never NULL.
stock_kind_t *stock_kind_of (const stock_t *self, const version_t *version);
//  Called when the last claimant has left and the last version, indexed or pinned, is gone: the caller may
//  then forget the kind, which is freed.  Random versions are dropped when the last claimant leaves;
//  deterministic ones wait for the next.
void stock_on_kind_end (stock_t *self, void (*ended) (void *context, void *user), void *context);
//  Called when a version has left the index, and is still there.
void stock_on_leave (stock_t *self, void (*left) (void *context, version_t *version), void *context);
//  Whether the last claimant has left, and only versions are there still.
bool stock_kind_is_idle (const stock_kind_t *self);
//  They do not wait for the next one, but go.  self ends here, unless a version is pinned: then with that.
void stock_kind_end (stock_kind_t *self);

//  The job, which has joined the sampler, claims what it needs.  Of what was taken before it joined, it counts as having
//  used the random versions that there are of its side: the job that it goes on for may have, here.
void stock_join (stock_t *self, claimant_t *claimant);
//  Its claims go.  The sampler still knows it, and forgets it after this call.
void stock_leave (stock_t *self, claimant_t *claimant);
//  sampler_epoch_begin for the job, with its claims.
void stock_epoch_begin (stock_t *self, claimant_t *claimant);

//  Whether versions that are there would serve all of these claimants, should they draw id now: for choices.  Of those
//  that do not follow only while the cache has room for more: what they choose must not depend on others' versions.
bool stock_serves (const stock_t *self, claimant_t *const *claimants, size_t count, uint32_t id);
//  sampler_commit of id, and for each claimant of the offer the version that serves it: one that is there, or a
//  new one (also counted in *scheduled, unless NULL).  Each version is pinned once for each claimant in
//  versions [0 .. count), which are the caller's to unpin.
void stock_draw (stock_t *self, claimant_t **claimants, size_t count, uint32_t id, version_t **versions,
    uint64_t *scheduled);
//  The same for one claimant without a draw: another version's place (an unreadable sample's) gets this id, which
//  the claimant has drawn before.
version_t *stock_serve (stock_t *self, claimant_t *claimant, uint32_t id);

//  Every version of the sample leaves the index.
void stock_forget (stock_t *self, sampler_t *sampler, uint32_t id);
//  This version, which is pinned, leaves the index, if it is there.
void stock_discard (stock_t *self, version_t *version);

uint64_t stock_hits (const stock_t *self);      //  places served by a version that was there
uint64_t stock_misses (const stock_t *self);

//  Since birth.
typedef struct {
    uint64_t evictions;         //  versions that made room for others
    uint64_t again;             //  scheduled for a claimant to which a version of the sample had been lost
    uint64_t dropped;           //  went for another reason than room, and only the job that they were made for had used them
} stock_losses_t;

stock_losses_t stock_losses (const stock_t *self);
//  The tenant's: evicted or dropped from its account; scheduled for its claimants, one of which had used what was lost.
stock_losses_t stock_tenant_losses (const stock_t *self, uint32_t number);

void stock_check (stock_t *self);

#endif
