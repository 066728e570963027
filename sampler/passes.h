/*  passes -- the orders of jobs on many different subsets: each takes its samples where common passes have
 *  them.
 *
 *  A *pass* is a random order of all samples.  Pass follows pass for ever, and no job's data decide anything
 *  in them.  A *place* counts through all passes: sample_count of them each.  A job walks along the passes
 *  with its *cursor*, from where they are (the *clock*) when its epoch begins to the place where its epoch
 *  is expected to end, and takes each sample that remains to it at the sample's place in one of these
 *  passes.  Jobs on different subsets thus come to a sample at about the same time, whichever jobs these
 *  are.
 *
 *  Which pass it takes a sample in.  The epoch is `length` passes long: the rest of the first one, the whole
 *  ones, and the beginning of the last one.  Each place of the epoch has to be equally likely, and so has to
 *  be each place after each place of the epoch before.
 *    - *Last*: a sample that has a place there is kept for it with probability 1 / length.  All the others
 *      are taken before.
 *    - *First*: of the samples that are not kept, a part is due here that is as long as the rest of the
 *      pass.  For a sample that the job took in this very pass, at the end of the epoch before, its place
 *      has gone: it is drawn *alone*, at a random time, if it is due.  All that is known of another sample
 *      is that it was not: so those that have a place here are taken with the probability that makes up for
 *      those that have none.  Of a sample that came before the plan
 *      of that epoch's end was made, or on another node, not even that is known: it has a place here as often
 *      as any.
 *    - *Whole*: the rest, in each of them with the same probability.
 *  Where the epoch has no whole pass, all that is not kept and has no place left in the first one is drawn
 *  alone.  Where it is shorter than a pass, so is in the last one what has no place in the epoch.
 *
 *  Every order is uniform: exchange the names of two samples of a job's data, and the passes and coins are as
 *  likely as before.  What other jobs do, and what is in the cache, decide nothing.  (The clock may tell of
 *  samples that hold jobs up: docs/randomness.md.)  So there are no strata to keep, and none to merge when a
 *  job leaves.  Orders are fresh because passes are independent of each other, and the rules above see to the
 *  one that two epochs have in common.
 *
 *  The clock moves by a pass while the jobs draw 1 / PASSES_EPOCH of what they all have, together: jobs of
 *  one speed have PASSES_EPOCH passes an epoch, faster ones fewer, slower ones more.  A job that is ahead of
 *  the clock or behind it takes more or fewer of the samples where it may; one that is far off begins anew
 *  from the clock with what remains to it.  In the last pass it has to take all: there, one that is ahead
 *  draws some alone.  A pass in which a plan ended early or late says when the rest of it was drawn.  The one
 *  in which a job goes on (it was interrupted, perhaps here) may say what it drew late in the epoch before,
 *  and the one in which that resumed epoch ends what came before the interruption.  So nothing is taken
 *  there: all is drawn alone until that pass is over.
 *
 *  Coins are functions of sample and pass, so that equal jobs in step draw the same samples.
 *
 *  Some hundred bytes a job and none a sample: orders are computed (permutation.h), and the history says what
 *  a job needs and what it drew at the end of the epoch before (to a twentieth of it).
 *
 *  Invariants, checked by passes_check ():
 *    P1  a job's first pass is not behind its last one, and its cursor is in one of them or where it ends.
 *  Owner: the sampler's thread.
 */
#ifndef PASSES_H
#define PASSES_H
#include <stdbool.h>
#include <stdint.h>
#include "history.h"
#include "random.h"

typedef struct passes passes_t;

enum {
    PASSES_EPOCH = 2,           //  passes in the epoch of a job of average speed
    PASSES_SPARSE = 64,         //  data with fewer than one sample in so many are not worth walking for
    PASSES_NO_PLACE = 0,        //  places count from sample_count on
    PASSES_ALL = 0xffffffff     //  in place of an id
};

//  Never NULL.
passes_t *passes_new (uint32_t sample_count, uint64_t seed);
void passes_destroy (passes_t **self_p);

//  The job, which has none here, draws along the passes from now on.  history is lent until it leaves.
//  goes_on: it has drawn before, perhaps along these passes.
void passes_join (passes_t *self, uint32_t job, history_t *history, bool goes_on);
void passes_leave (passes_t *self, uint32_t job);
bool passes_has (const passes_t *self, uint32_t job);
uint32_t passes_jobs (const passes_t *self);
//  Its history has begun an epoch.
void passes_epoch_begin (passes_t *self, uint32_t job);
//  skip (context, id, -1) is called before the job's cursor passes the place of a sample that it needs and
//  does not take, skip (context, id, +1) after that; with PASSES_ALL around a leap.
void passes_on_skip (passes_t *self, uint32_t job, void (*skip) (void *context, uint32_t id, int change),
    void *context);

//  The sample for the job's next draw; something remains to it.  The same until that is drawn.
uint32_t passes_pick (passes_t *self, uint32_t job, random_t *random);
//  Its history has drawn id, picked or not.
void passes_draw (passes_t *self, uint32_t job, uint32_t id);
//  The place of what the job drew last; PASSES_NO_PLACE: it was drawn alone.
uint64_t passes_place (const passes_t *self, uint32_t job);
//  Whether the job is not past that place.
bool passes_comes (const passes_t *self, uint32_t job, uint64_t place);

void passes_check (const passes_t *self);

#endif
