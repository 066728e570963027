/*  dsa -- one round of dependent sampling: JOADER (Xie et al., NeurIPS 2022), section 3.
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
 *  Nothing more is needed: the players that do not follow are always the last ones, because each follows the
 *  one before; and without the common part the intersection is empty, so the first player can only draw
 *  alone.  E is always one of the S_k, k < m, as it was before this round's draws, and is in every R_i that
 *  is left.  Player i comes to draw from S_m - E with probability |S_m - E| / |R_i - E|, so its draw is
 *  uniform over R_i, given all that was drawn in earlier rounds, whatever the order among equal sizes.
 *
 *  **A player is all jobs of the round that have the same remaining set.**  They draw the same sample, so
 *  each of them draws uniformly when the player does, and as long as they take part in the same rounds they
 *  stay one player.  (As published each job is a player.  Two jobs with one set beside a third with another
 *  then part at the first sample that they draw outside what is common to all three, and do not meet again.)
 *
 *  **Nothing is counted but what remains to each job.**  The probabilities are those of trials:
 *    - a uniform id of R_m - E is in S_m with probability |S_m - E| / |R_m - E|, and is then uniform over the
 *      class that the player draws from: the trial that chooses the class gives the sample, too;
 *    - where a stands for |R_(i-1)|, b for |R_i| and e for |E|: of b - a dummies and the a ids of R_(i-1)
 *      pick one, and again if it is in E.  It is no dummy with probability (a - e) / (b - e), that of
 *      following.
 *  Whether an id is in E or S_m is one look at which jobs need it (choice.h).  A trial repeats what falls
 *  into E, so it takes |R_i| / |R_i - E| picks on average.  But with such an E a round comes to it with at
 *  most about the inverse probability, since player i follows with at least |R_(i-1)| / |R_i|: on average a
 *  trial is a few picks.  Where it would be very many, what players have outside E is gathered, once in the
 *  round.
 *  So a round costs no more if its jobs are others than those of the round before; a join, an epoch or a
 *  departure costs a walk over the job's ids.
 *
 *  Jobs with the same set are told by a hash of it, with a secret key: the exclusive or of one number for
 *  each id.  Of two sets that differ the hashes are equal with probability 2^-64.
 *
 *  Invariants, checked by dsa_check ():
 *    A1  the table of needs says just what the remaining sets of the SHARED jobs say.
 *    A2  each SHARED job's hashes are those of its sets; where those of two remaining sets are equal, so are
 *        the sets.
 *  Owner: the sampler's thread.  What is lent to a round must not change until it is over, but by dsa_commit.
 */
#ifndef DSA_H
#define DSA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "choice.h"
#include "demand.h"
#include "random.h"

typedef struct dsa dsa_t;

//  For ids below sample_count, and jobs that will be found in demands by their number (lent for good).
dsa_t *dsa_new (uint32_t sample_count, demand_t **demands, uint64_t key);
void dsa_destroy (dsa_t **self_p);

//  The job's demand is there, just now; it has just begun an epoch; it is about to go.  Not inside a round.
void dsa_join (dsa_t *self, uint32_t job);
void dsa_epoch_begin (dsa_t *self, uint32_t job);
void dsa_leave (dsa_t *self, uint32_t job);
//  id is about to leave every demand there is.  Not inside a round.
void dsa_drop (dsa_t *self, uint32_t id);

//  Begins a round of SHARED jobs that each have something left.
void dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count);
//  The next class (fills *choice, lent until dsa_commit) and the jobs that draw from it; false: the round is
//  over.
bool dsa_offer (dsa_t *self, random_t *random, choice_t *choice, const uint32_t **jobs_p, size_t *count_p);
//  The offer's jobs draw id.
void dsa_commit (dsa_t *self, uint32_t id);

void dsa_check (const dsa_t *self);

#endif
