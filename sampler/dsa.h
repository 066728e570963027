/*  dsa -- one round of dependent sampling: JOADER (Xu et al., NeurIPS 2022), section 3.
 *
 *  R_i is what remains to job i, jobs sorted so that |R_1| <= ... <= |R_n|, and S_m is what is common to
 *  the jobs m .. n; the S_m are nested, S_1 in S_2 in ... S_n = R_n.  The published recursion, with E for
 *  what earlier steps have set aside and m .. n for the jobs still without a sample (E is empty at first):
 *
 *      job m draws from S_m - E with probability |S_m - E| / |R_m - E|;
 *          if it does, job i follows job i - 1 with probability |R_(i-1) - E| / |R_i - E|;
 *          those who did share one sample, those after them go on with E := S_m
 *      otherwise it draws alone from R_m - S_m, and the others go on with E := S_m
 *
 *  That is all of it: those who do not follow are always the last ones, because each follows the one
 *  before; and once the common part is set aside what is left in common is empty, so that the first job can
 *  only draw alone.  E is always one of the S_k, k <= m, as it was before this round's draws, and is in
 *  every R_i that is left, so |R_i - E| = |R_i| - |E|: every probability is a ratio of known counts.  Job i
 *  comes to draw from S_m - E with probability |S_m - E| / |R_i - E|, so its draw is uniform over R_i,
 *  given all that was drawn in earlier rounds, whatever the order among equal sizes.
 *
 *  Owner: the sampler's thread.  What is lent to a round must not change until it is over, but by dsa_commit.
 */
#ifndef DSA_H
#define DSA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chains.h"
#include "choice.h"
#include "demand.h"
#include "random.h"

typedef struct dsa dsa_t;

//  For ids below sample_count, and jobs that will be found in demands by their number (lent for good).
dsa_t *dsa_new (uint32_t sample_count, demand_t **demands);
void dsa_destroy (dsa_t **self_p);

//  Begins a round of jobs that each have something left.
void dsa_begin (dsa_t *self, const uint32_t *jobs, size_t count);
//  The next class (fills *choice, lent until dsa_commit) and who draws from it, or false: the round is over.
bool dsa_offer (dsa_t *self, random_t *random, choice_t *choice, const uint32_t **jobs_p, size_t *count_p);
//  The offer's jobs draw id.  group: all the jobs whose data may hold id, the offer's among them.
void dsa_commit (dsa_t *self, uint32_t id, const uint32_t *group, size_t group_count);

//  id leaves every demand there is.  Not inside a round.
void dsa_drop (dsa_t *self, uint32_t id);
//  The job has begun an epoch or has left.  Not inside a round.
void dsa_forget (dsa_t *self, uint32_t job);

void dsa_check (const dsa_t *self);

#endif
