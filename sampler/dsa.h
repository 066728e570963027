/*  dsa -- one round of dependent sampling: JOADER (Xie et al., NeurIPS 2022), section 3, on its tree.
 *
 *  R_i is what remains to player i, players sorted so that |R_1| <= ... <= |R_n|, and S_m is what is common
 *  to the players m .. n; the S_m are nested, S_1 in S_2 in ... S_n = R_n.  The published recursion, with E
 *  for what earlier steps have set aside and m .. n for the players still without a sample (E is empty at
 *  first):
 *
 *      player m draws from S_m - E with probability |S_m - E| / |R_m - E|;
 *          if it does, player i follows player i - 1 with probability |R_(i-1) - E| / |R_i - E|;
 *          the players that did share one sample, the later ones continue with E := S_m
 *      otherwise it draws alone from R_m - S_m, and the others continue with E := S_m
 *
 *  **On the tree** (tree.h) A_m stands for S_m, for a path in any order:
 *
 *      visit the players along the path; skip those that have a sample.  At player m:
 *          one number u is drawn for all: each player i without a sample takes part if
 *              u < |A_m - E| / |R_i - E|
 *          the players that take part share one sample, uniform over A_m - E
 *          if player m itself is not among them, it draws alone from its leaf, R_m - A_m
 *          the others continue with E := A_m
 *
 *  Where sizes ascend along the path, player m takes part if any player does, and this is the published
 *  recursion.  In any order and with any nested A_m that are in every later R_i, each draw of player i is
 *  uniform over R_i, given all that was drawn in earlier rounds: at each visit player i either draws from
 *  A_m - E, with the probability that it has in R_i - E, or continues, uniform over R_i - A_m.  So staleness
 *  costs sharing, never exactness.  All sizes are those at the round's begin.  An id that is drawn from a
 *  vertex stays there, inside E, until the round is over.
 *
 *  **A player is all jobs of the round that have the same remaining set.**  They draw the same sample, so
 *  each of them draws uniformly when the player does, and as long as they take part in the same rounds they
 *  stay one player.  It stands where the last of its jobs stands.  (As published each job is a player.  Two
 *  jobs with one set beside a third with another then part at the first sample that they draw outside what is
 *  common to all three, and do not meet again.)  Jobs with the same set are told by a hash of it, with a
 *  secret key: the exclusive or of one number for each id.  Of two sets that differ the hashes are equal with
 *  probability 2^-64.
 *
 *  **The tree is one for each group**, of all its jobs, also those that are not in the round.  A job that is
 *  not on the path draws alone, from all that remains to it.  A job comes to the path when it draws first in
 *  an epoch, and leaves it with its last sample, or when it has been idle: it has taken no part in 64 rounds
 *  for each round of its last unbroken row of rounds (at most a sixteenth of the samples), since jobs are
 *  drawn for in bursts of a batch or more.  Then it comes back when it draws twice within 64 rounds, or once
 *  within 64 rounds of a join or a leave.  So a job that is far slower than the others cuts nothing from what
 *  they share.  A round has bounded work: it inserts one job, removes one that is idle, and swaps one pair of
 *  neighbours (where the front one has clearly more left); more of them only where the sets are small.
 *
 *  Invariants, checked by dsa_check ():
 *    A1  each tree says just what the remaining sets of its jobs say, which are SHARED jobs of one group.
 *    A2  each SHARED job's hashes are those of its sets; where those of two remaining sets are equal, so are
 *        the sets.
 *    A3  each tree is fresh (tree.h).
 *  Owner: the sampler's thread.  What is lent to a round must not change until it is over, but by dsa_commit.
 */
#ifndef DSA_H
#define DSA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "demand.h"
#include "random.h"
#include "tree.h"

typedef struct dsa dsa_t;

//  For ids below sample_count, and jobs that will be found in demands by their number (lent for good).
dsa_t *dsa_new (uint32_t sample_count, demand_t **demands, uint64_t key);
void dsa_destroy (dsa_t **self_p);

//  The job's demand is there, just now; it has just begun an epoch; it is about to go.  Not inside a round.
void dsa_join (dsa_t *self, uint32_t job);
void dsa_epoch_begin (dsa_t *self, uint32_t job);
void dsa_leave (dsa_t *self, uint32_t job);
//  The groups are others now: by job number, each job's.  After each join and leave.
void dsa_regroup (dsa_t *self, const size_t *group_of);
//  id is about to leave every demand there is.  Not inside a round.
void dsa_drop (dsa_t *self, uint32_t id);

//  Begins a round of SHARED jobs of one group that each have something left.
void dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count);
//  The next class, and the jobs that draw from it (lent until dsa_commit); false: the round is over.
bool dsa_offer (dsa_t *self, random_t *random, const uint32_t **jobs_p, size_t *count_p);
//  A uniform id of the class; whether id is in it.
uint32_t dsa_pick (dsa_t *self, random_t *random);
bool dsa_accepts (const dsa_t *self, uint32_t id);
//  The offer's jobs draw id, which is in the class.
void dsa_commit (dsa_t *self, uint32_t id);

//  The tree of the job's group, lent until the next call; NULL: there is none.
const tree_t *dsa_tree (const dsa_t *self, uint32_t job);
void dsa_check (const dsa_t *self);

#endif
