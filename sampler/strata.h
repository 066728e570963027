/*  strata -- the samples that are in the data of exactly the same jobs: partition refinement.
 *
 *  Under `follow` a job may take any reusable version.  Samples that are in different jobs' data are
 *  available at different times, but samples of one stratum are exchangeable.  So a job picks the stratum by
 *  chance, each with probability (remaining in it) / (remaining), and takes an available sample only inside
 *  it.
 *
 *  A *mark* stands for the data of a job.  A job that goes on where another stopped has a second mark, for
 *  the samples *taken* of its first epoch: the samples that two such jobs both still need may hold more of
 *  one kind than of another, because of earlier jobs that the sampler does not know.  (Two such jobs without
 *  these marks: z = 38.)  When the first epoch ends, this mark becomes that of a departed job, and waits for
 *  the job itself, too.
 *
 *  Refining (a join) is always safe.  Coarsening is not.  The mark of a departed job stays while any decision
 *  could still remember its draws: until each job that was there when it left, and that has common data with
 *  it, has begun STRATA_EPOCHS_KEPT epochs (those that a history remembers, and the epoch being drawn) or has
 *  left; versions scheduled before must then be reusable no more.  The mark goes at once if the marks of the
 *  present jobs tell the same samples apart.  A refinement is refused if it would make more strata than the
 *  bound, STRATA_LEAST or a STRATA_SHARE-th of the samples, or if no mark is left.
 *
 *  Two bytes a sample from the second stratum on, and some dozen bytes a stratum.
 *
 *  Invariants, checked by strata_check ():
 *    T1  a stratum's size is the number of readable samples that carry its label.
 *    T2  no two strata have the same marks; there are no more than the bound.
 *    T3  a stratum with a job's mark for taken samples has the mark for its data too.
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
//  The job has a mark and has left.  Its marks stay as said above, and wait for the others: the jobs with
//  marks, without this one, that have common data with it (strata_overlap, asked before).  True: some mark
//  waits for no job any more, so call strata_merge.
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
