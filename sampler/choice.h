/*  choice -- a class of exchangeable ids, and a uniform pick from it.
 *
 *  A class is part of what remains to one job: the ids that all jobs of `in` need, less those that all jobs
 *  of `out` need, less one id.  It is neither computed nor counted.  Ids are proposed uniformly from a larger
 *  set, and the first one that is in the class is taken; it is exactly uniform over the class.  Only if very
 *  many proposals fail are all ids looked at, once.
 *  Owner: the holder of the struct; the memory that it points to is lent and must not change while it is
 *  used.
 */
#ifndef CHOICE_H
#define CHOICE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

#include "random.h"
#include "sampler.h"

enum { CHOICE_NO_ID = 0xffffffff };     //  never a sample: ids are below a 32-bit count

//  ---- a set of job numbers below SAMPLER_JOBS_MAX.  Plain data: { 0 } is empty, assignment copies.

enum { JOBSET_WORDS = SAMPLER_JOBS_MAX / 64 };
_Static_assert (SAMPLER_JOBS_MAX % 64 == 0, "whole words");

typedef struct { uint64_t words [JOBSET_WORDS]; } jobset_t;

static inline void
jobset_add (jobset_t *self, uint32_t job)
{
    self->words [job / 64] |= UINT64_C (1) << (job % 64);
}

static inline void
jobset_remove (jobset_t *self, uint32_t job)
{
    self->words [job / 64] &= ~(UINT64_C (1) << (job % 64));
}

static inline bool
jobset_has (const jobset_t *self, uint32_t job)
{
    return self->words [job / 64] >> (job % 64) & 1;
}

static inline uint32_t
jobset_count (jobset_t self)
{
    uint32_t count = 0;
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        count += (uint32_t) __builtin_popcountll (self.words [word]);
    return count;
}

//  ---- which jobs need a sample

//  For each sample, which jobs need it: a bit for each job.  The remaining sets hold the same bits job by
//  job.  Here they lie sample by sample, so that "do all of these jobs need it?" is one look at memory for
//  each 64 job numbers, however many jobs are asked about.  Eight bytes a sample for each 64 job numbers of
//  which one is there.  dsa.c fills it.
typedef struct {
    jobset_t members;
    uint64_t *planes [JOBSET_WORDS];    //  by id: the bits of 64 job numbers; NULL: none of them is a member
} need_table_t;

//  Whether all the jobs, which are members, need id.
static inline bool
need_table_all (const need_table_t *self, uint32_t id, const jobset_t *jobs)
{
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word] && jobs->words [word] & ~self->planes [word] [id])
            return false;
    return true;
}

//  ---- the class

typedef struct {
    const roaring_bitmap_t *set;        //  what remains to the job; not run-compressed
    uint64_t bound;                     //  how much that is, at least 1
    uint32_t universe;                  //  every id is below this
    const uint32_t *among;              //  NULL, or so many ids that hold the class: it is sought among them
    size_t among_count;
    const need_table_t *needs;          //  NULL: the class is the set, and what follows but found says
                                        //  nothing
    const jobset_t *in;                 //  the job itself among them
    const jobset_t *out;                //  NULL: nothing is left out
    uint32_t barred;                    //  one id more that is not in the class, or CHOICE_NO_ID
    uint32_t found;                     //  an id that is uniform over the class, or CHOICE_NO_ID: none is
                                        //  known yet
} choice_t;

bool choice_contains (const choice_t *self, uint32_t id);

//  A uniform id of choice_width ids, those of the class and others: what is in the class is uniform over it.
uint32_t choice_try (const choice_t *self, random_t *random);
uint64_t choice_width (const choice_t *self);
//  After so many tries that failed choice_walk costs less than as many again.
uint64_t choice_patience (const choice_t *self);
//  Uniform over the class, or CHOICE_NO_ID if so many tries failed.
uint32_t choice_seek (const choice_t *self, random_t *random);
//  Looks at all of the set, or among: how much of it is in the class, which may be nothing, and a uniform id
//  of that.
uint64_t choice_walk (const choice_t *self, random_t *random, uint32_t *id_p);

//  Uniform over the class, which is not empty.  What was found is picked as often as it is asked for.
uint32_t choice_pick (const choice_t *self, random_t *random);

#endif
