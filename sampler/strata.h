/*  strata -- which samples are in exactly the same jobs' data: partition refinement.
 *
 *  Under `follow` a job may take whatever is on offer, so samples that differ in whose data they are in are
 *  on offer at different times; but samples of one stratum are exchangeable.  A job therefore picks the
 *  stratum by chance, each with probability what remains in it / what remains, and only inside it what is on
 *  offer.
 *
 *  A *mark* stands for a job's data.  A job that goes on where another stopped has a second one, for what was
 *  *taken* of its first epoch: of two such jobs, what both still need may hold more of one sample's kind than
 *  of another's, because of the company that they kept before, and whose data nobody here knows.  Two such
 *  jobs, without these marks: z = 38.  When its first epoch ends, this mark is as a departed job's, and waits
 *  for the job itself, too.
 *
 *  Refining (a join) is always safe.  Coarsening is not: a departed job's mark
 *  stays while anything that is decided could still remember that its data were drawn by it: until each job
 *  that was there when it left, and whose data overlap its own, has begun STRATA_EPOCHS_KEPT epochs (what a
 *  history remembers, and the epoch that was being drawn) or has left; what was scheduled before must then no
 *  longer be on offer.  It goes at once if the marks of the jobs that are there tell the same samples apart.
 *  Refining by a mark is refused when there would be more than the bound of strata, STRATA_LEAST or a
 *  STRATA_SHARE-th of the samples, or when there is no mark left.
 *
 *  Two bytes a sample from the second stratum on, and some dozen bytes a stratum.
 *
 *  Invariants, checked by strata_check ():
 *    T1  a stratum's size is the number of readable samples that carry its label.
 *    T2  no two strata have the same marks; there are no more than the bound.
 *    T3  what has a job's mark for what was taken, has the mark for its data too.
 *  Owner: the sampler's thread.
 */
#ifndef STRATA_H
#define STRATA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

#include "sampler.h"

typedef struct strata strata_t;

enum {
    STRATA_LEAST = 64, STRATA_SHARE = 256, STRATA_MOST = 4096,
    STRATA_EPOCHS_KEPT = 3,
    STRATA_MARKS = 3 * SAMPLER_JOBS_MAX     //  of jobs that are there, of what they had taken, and of
                                            //  departed ones
};

//  One stratum, of all samples.  Never NULL.
strata_t *strata_new (uint32_t sample_count);
void strata_destroy (strata_t **self_p);

//  The stratum's label, below strata_bound.  Of a dropped sample: any.
uint32_t strata_of (const strata_t *self, uint32_t id);
size_t strata_bound (const strata_t *self);
size_t strata_count (const strata_t *self);

//  Splits strata by the job's data: not empty, not kept, and readable samples only, as a stratum's size
//  counts no others.  False: refused, nothing changed.
bool strata_refine (strata_t *self, uint32_t job, const roaring_bitmap_t *data);
//  The job, which has just refined, goes on in an epoch of which so much is taken: of its data, some but not
//  all.
//  False: refused, nothing changed.
bool strata_refine_taken (strata_t *self, uint32_t job, const roaring_bitmap_t *taken);
//  The job, which has a mark, has left; its marks stay as said above, and wait for the others: of the jobs
//  with marks, not this one, those whose data overlap its own (strata_overlap, asked before).  True: some
//  mark has nobody to wait for, strata_merge has something to do.
bool strata_depart (strata_t *self, uint32_t job, const uint32_t *others, size_t count);
//  The job, which has just refined, is as if it had never been: no trace of its data is anywhere.
void strata_cancel (strata_t *self, uint32_t job);
//  The job, which has a mark, has begun an epoch.  True: a mark has done its time, strata_merge has something
//  to do.
bool strata_epoch_begun (strata_t *self, uint32_t job);
//  Takes away marks that have done their time.  What was scheduled before must not be on offer any more.
void strata_merge (strata_t *self);
//  The sample, which was not dropped before, belongs to no stratum any more.
void strata_drop (strata_t *self, uint32_t id);

//  The one stratum that has all of the job's data; strata_bound if there are several.
size_t strata_sole (const strata_t *self, uint32_t job);
//  Whether some sample is in the data of both jobs, which have marks.
bool strata_overlap (const strata_t *self, uint32_t job, uint32_t other);

//  readable: all samples that are not dropped.
void strata_check (const strata_t *self, const roaring_bitmap_t *readable);

#endif
