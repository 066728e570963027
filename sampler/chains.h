/*  chains -- the sizes of nested intersections, for the lists of jobs that took part in the last rounds.
 *
 *  A chain belongs to a set of jobs, ordered by what they have left: job 0 has the least.  Its size m is
 *  how many samples remain to each of the jobs m, m + 1, ... last: sizes never fall along the chain, and
 *  the last one is what the last job has left.  Sizes are all that dependent sampling needs to know; the
 *  intersections are not kept, because the jobs' own sets tell whether an id is in one.
 *
 *  When an id leaves some of the remaining sets, each size changes by at most one, and which do follows from
 *  who needed the id and who took it.  So a chain is counted once (one Roaring intersection a job) and then
 *  kept, until an epoch begins, a job leaves or sizes cross.  Several are kept because a job whose window is
 *  full sits out some rounds: the same few lists of participants come again and again.
 *
 *  Invariants, checked by chains_check ():
 *    C1  each size equals the size of the intersection computed afresh.
 *    C2  no two chains belong to the same set of jobs.
 *  Owner: the sampler's thread.
 */
#ifndef CHAINS_H
#define CHAINS_H
#include <stddef.h>
#include <stdint.h>

#include "demand.h"
#include "jobset.h"

typedef struct chains chains_t;

enum { CHAINS_MAX = 16 };       //  all lists of up to four jobs

typedef struct {
    uint64_t used_at;           //  for the eviction of the one not used for longest
    jobset_t members;
    size_t count;               //  jobs; 0: this place is free
    uint32_t jobs [SAMPLER_JOBS_MAX];
    uint64_t sizes [SAMPLER_JOBS_MAX];
} chain_t;

chains_t *chains_new (void);
void chains_destroy (chains_t **self_p);

//  The chain of these jobs, in the order of what they have left at this moment; among equals any order is
//  right, and the one of before is kept.  demands is indexed by job number.  Lent until the next call but
//  chains_take: its order stays, its sizes follow.
const chain_t *chains_get (chains_t *self, demand_t *const *demands, const uint32_t *jobs, size_t count);
//  An id has left the remaining sets of the jobs `taken`; just those in `needed` had it in theirs before.
void chains_take (chains_t *self, const jobset_t *needed, const jobset_t *taken);
//  The job's remaining set has become another, or the job has left.
void chains_forget (chains_t *self, uint32_t job);

void chains_check (const chains_t *self, demand_t *const *demands);

#endif
