/*  sampler -- the samples of one data set that each job still needs, and the jobs that draw together.
 *
 *  A draw has two phases.  The sampler offers a *class*: a set of exchangeable sample ids, and the jobs that
 *  share the draw.  The caller (server/broker/draw, by a pack's tier) picks one id of the class, preferably a
 *  cheap one, and commits it.  So the sampler knows neither cache nor disk.
 *
 *      sampler_round_begin (sampler, jobs, count);     //  jobs of one group, each with samples left
 *      while (sampler_offer (sampler, &offer)) {
 *          uint32_t id = sampler_pick (sampler);
 *          sampler_commit (sampler, id);               //  gone from the remaining set of each offer->jobs
 *      }                                               //  now every job of the round has one sample more
 *
 *  Orders: SHARED follows the policy.  PRIVATE draws alone, uniformly.  LIST gives its ids in turn.  SEEDED
 *  is a function of seed, epoch and data (permutation.h); with a pool also of the pack's order, and then it
 *  can be read in whole pieces (stream_order.h).
 *  Policy `dsa` (dsa.h): JOADER's dependent sampling; prepared versions play no part.
 *  Policy `follow` (follow.h): every job draws by itself, and takes samples with *reusable versions*, which
 *  the caller has scheduled and told of (sampler_reusable_add), as far as its epoch stays fresh.
 *
 *  Invariants, checked by sampler_check ():
 *    S1  remaining is a subset of data; nothing dropped is in either.
 *    S2  a job's draws of one epoch, the samples of it taken before the job joined or by other nodes, and its
 *        remaining are its data at the epoch's begin, less the dropped.
 *    S3  groups partition the jobs; SHARED jobs are one group if their data overlap, also through others.
 *    S4  under `dsa`: the trees say what the remaining sets say, and jobs that count as one have equal sets.
 *  Owner: one thread.  Nothing here blocks.  Small start-up allocations abort on failure.
 */
#ifndef SAMPLER_H
#define SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>
#include "parts.h"
#include "sampler_list.h"
#include "stream_order.h"

typedef struct sampler sampler_t;

typedef enum {
    SAMPLER_ORDER_SHARED,       //  by the policy, together with the other SHARED jobs on this data set
    SAMPLER_ORDER_PRIVATE,      //  uniform, drawn alone: for replicates and ensembles
    SAMPLER_ORDER_LIST,         //  the given ids in the given order, or the data in ascending order
    SAMPLER_ORDER_SEEDED        //  a permutation that depends on nothing but seed, epoch and data (and pool,
                                //  and pack)
} sampler_order_t;

typedef enum {
    SAMPLER_POLICY_DSA,         //  dependent sampling as published
    SAMPLER_POLICY_FOLLOW,      //  what is scheduled first, as far as orders stay fresh
    SAMPLER_POLICY_RESIDENT     //  for comparison: what is scheduled first, however stale orders become
} sampler_policy_t;

enum {
    SAMPLER_JOBS_MAX = 256,     //  jobs at once on one data set
    SAMPLER_JOB_NONE = 0xffffffff
};

//  What a draw may choose from.  Lent until sampler_commit.
typedef struct {
    const uint32_t *jobs;       //  the jobs that share the draw, at least one
    size_t job_count;
} sampler_offer_t;

typedef struct {
    sampler_order_t order;
    //  The job's samples, not empty, all < sample_count; copied, run-compressed or not.  LIST with ids: NULL.
    const roaring_bitmap_t *data;
    //  LIST only: ids < sample_count in order of delivery, repeats allowed, copied; NULL: data ascending.
    const uint32_t *list;
    size_t list_count;
    sampler_list_t *made;       //  the same list, made before: held, so that nothing is copied; NULL: it is
                                //  made here
    uint64_t seed;              //  SEEDED only
    uint32_t pool;              //  SEEDED only: stream_order's; 0: an order without one
    const uint32_t *pack_order; //  with a pool: the id at each position of the pack; lent for the job's life
    //  Where it goes on; all zero: at the beginning of epoch 0.
    uint64_t epoch;             //  of the first epoch; SEEDED orders depend on it
    const roaring_bitmap_t *taken;  //  of that epoch's samples, those that are drawn already: of the job's
                                    //  data, copied; NULL: none
    size_t taken_places;        //  LIST with ids, instead of taken: so many of its places are behind it, at
                                //  most list_count
    //  Of a job over several nodes (not of a LIST with ids): in each epoch what remains is the node's part of
    //  the data.  Copied, but for its order, which is lent for the job's life.  NULL: one node.
    const parts_t *parts;
    const roaring_bitmap_t *cut;    //  of taken: what was taken before the first epoch's parts were made;
                                    //  copied; NULL: nothing.  Of a given order what stands in front of the
                                    //  last one taken since then does not remain either
} sampler_join_t;

//  A sampler for ids 0 .. sample_count-1 (> 0).  All its choices follow from seed.  Never NULL.
sampler_t *sampler_new (uint32_t sample_count, sampler_policy_t policy, uint64_t seed);
void sampler_destroy (sampler_t **self_p);

//  Adds a job at the beginning of its first epoch, or where an earlier job's state says; then nothing may
//  remain, and the next call for it is sampler_epoch_begin.  Returns its number (the smallest one free), or
//  SAMPLER_JOB_NONE when SAMPLER_JOBS_MAX are there.  Samples dropped before are left out at once.
uint32_t sampler_join (sampler_t *self, const sampler_join_t *join);
//  Forgets the job, at any moment but inside a round.  Another job will get its number, so the reusable
//  versions that it was allowed must have been forbidden before (version_index_leave does).
void sampler_leave (sampler_t *self, uint32_t job);

//  Samples the job has not drawn in its present epoch.
uint64_t sampler_remaining (const sampler_t *self, uint32_t job);
//  Samples of one whole epoch of this job, dropped ones left out (LIST: with repeats), over all nodes.
uint64_t sampler_epoch_samples (const sampler_t *self, uint32_t job);
//  Whether the job will still draw id in its present epoch.
bool sampler_needs (const sampler_t *self, uint32_t job, uint32_t id);
//  Whether it will draw id in the next one, if there is one.
bool sampler_needs_next (const sampler_t *self, uint32_t job, uint32_t id);
//  Whether the job has other samples in each epoch (parts).
bool sampler_has_parts (const sampler_t *self, uint32_t job);
//  Whether id belongs to the job's data at all (dropped: no), of whichever node.
bool sampler_has (const sampler_t *self, uint32_t job, uint32_t id);
//  Calls visit for each sample of the job's data, once.
void sampler_each (const sampler_t *self, uint32_t job, void (*visit) (void *context, uint32_t id),
    void *context);
//  For a job with a pool: the next piece that has entered it and has not been told of in this epoch; false:
//  none.  Called after the join, each epoch's begin and each draw, it tells of every piece of this epoch
//  before any of its samples is drawn.  Some samples of a piece may have been taken before the job joined, or
//  dropped, and will not be drawn (sampler_needs); not all.
bool sampler_entered (sampler_t *self, uint32_t job, stream_piece_t *piece);
//  The job's next epoch begins: all its data remain again.  What had remained is left out for good
//  (drop_last), so normally nothing does.  Not inside a round.
void sampler_epoch_begin (sampler_t *self, uint32_t job);

//  The sample cannot be read: it leaves every job's data and remaining set.  Idempotent.  Not inside a round.
void sampler_drop (sampler_t *self, uint32_t id);
//  All of them; lent until the next drop.
const roaring_bitmap_t *sampler_dropped (const sampler_t *self);

static inline bool
sampler_is_dropped (const sampler_t *self, uint32_t id)
{
    return roaring_bitmap_contains (sampler_dropped (self), id);
}

static inline uint64_t
sampler_dropped_count (const sampler_t *self)
{
    return roaring_bitmap_get_cardinality (sampler_dropped (self));
}

//  Groups of jobs that draw in rounds together, numbered from 0, ascending by their first job, and fixed
//  until the next join or leave.
size_t sampler_group_count (const sampler_t *self);
//  The jobs of a group, ascending; lent until the next join or leave.
const uint32_t *sampler_group (const sampler_t *self, size_t group, size_t *count_p);

//  Begins a round: each of the jobs (of one group, each with remaining > 0, no repeats) will get one sample.
void sampler_round_begin (sampler_t *self, const uint32_t *jobs, size_t count);
//  The next class of the round, or false when every job has its sample and the round is over.
bool sampler_offer (sampler_t *self, sampler_offer_t *offer);
//  An id of the offered class, uniform over it; LIST: the next id of the list.
uint32_t sampler_pick (sampler_t *self);
//  Whether id is in the offered class; whether it is, and quotas allow it now, with room to spare (`follow`;
//  others have none).  What sampler_suits says holds from the offer's first sampler_pick on.
bool sampler_accepts (const sampler_t *self, uint32_t id);
bool sampler_suits (const sampler_t *self, uint32_t id);
//  A uniform id of a set that the class is part of, but for a LIST or SEEDED job: to be tried with
//  sampler_accepts.  What is accepted is uniform over the class.  Under `dsa` all is.
uint32_t sampler_try (sampler_t *self);
//  The offer's jobs draw id, which is in the class.  It need not come from sampler_pick; uniformity then is
//  not the sampler's.  The caller asserts that it is in the class (sampler_accepts).
void sampler_commit (sampler_t *self, uint32_t id);

//  How often the id that the job drew last came before, in this epoch of its list (over all nodes); without a
//  list 0.
uint32_t sampler_occurrence (const sampler_t *self, uint32_t job);

//  ---- the reusable set of `follow`: versions that are scheduled, and the jobs that may take each.  Inside a
//  round these are called between a commit and the next offer; sampler_forbid also between pick and commit,
//  where a job's leave to take other versions of what it draws ends.

//  Whether the job takes from the reusable set, and what it schedules belongs there: SHARED under `follow`,
//  unless its data, or what was taken of them, would have split the samples into more strata than there is
//  room for (strata.h): such a job draws apart, uniformly, and comes to common versions by chance only.
//  A job that follows may turn to common passes when an epoch of it begins (sampler_passes.h); else it is
//  fixed while the job is there.
bool sampler_follows (const sampler_t *self, uint32_t job);
//  Adds a version of id, scheduled or first used by a job that follows; no job may take it yet.  The ticket
//  names it and is never used again; the reusable set forgets the oldest when it is full, and calls with a
//  forgotten ticket (or 0) do nothing.
uint64_t sampler_reusable_add (sampler_t *self, uint32_t id);
//  Prefetches the memory for asking many jobs whether they need id.
void sampler_prefetch (const sampler_t *self, uint32_t id);
//  It was evicted, by others, before every job that may had used it: to be told before
//  sampler_reusable_remove.
void sampler_lost (sampler_t *self);
//  merging (context, sampler) is called when a departed job's data are about to be forgotten (strata.h): what
//  was scheduled before must be removed then, and used no more by those that follow.
void sampler_on_merge (sampler_t *self, void (*merging) (void *context, sampler_t *sampler), void *context);
//  How often strata have merged: what was there before a merge must not be preferred after it.
uint64_t sampler_merges (const sampler_t *self);
//  It was evicted.
void sampler_reusable_remove (sampler_t *self, uint64_t ticket);
//  The job, which follows and needs the id, may take it; or may not any more: so when it has drawn the id, or
//  the sample is dropped, before the next offer.  Idempotent.
void sampler_allow (sampler_t *self, uint64_t ticket, uint32_t job);
void sampler_forbid (sampler_t *self, uint64_t ticket, uint32_t job);

//  Aborts naming the broken invariant; costs set operations over all jobs: for tests.
void sampler_check (const sampler_t *self);

#endif
