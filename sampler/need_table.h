/*  need_table -- for each sample, which jobs need it: a bit for each job.
 *
 *  The remaining sets hold the same bits job by job.  Here they lie sample by sample, so that "do all of
 *  these jobs need it?" is one look at memory for each 64 job numbers, however many jobs are asked about.
 *  Eight bytes a sample for each 64 job numbers of which one is there.
 *  Owner: the sampler's thread.
 */
#ifndef NEED_TABLE_H
#define NEED_TABLE_H
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <roaring/roaring.h>

#include "jobset.h"

//  Fields are here for need_table_all alone, which must be inline.
typedef struct {
    uint32_t magic;
    uint32_t sample_count;
    jobset_t members;
    uint64_t *planes [JOBSET_WORDS];        //  by id: the bits of 64 job numbers; NULL: none of them is a
                                            //  member
} need_table_t;

need_table_t *need_table_new (uint32_t sample_count);
void need_table_destroy (need_table_t **self_p);

//  The job, which may be new here, needs these ids, too; all are below sample_count.
void need_table_add (need_table_t *self, uint32_t job, const roaring_bitmap_t *ids);
//  The job, which needs these ids and no others, leaves.
void need_table_leave (need_table_t *self, uint32_t job, const roaring_bitmap_t *ids);
//  The jobs, which are members, need id no more.
void need_table_remove (need_table_t *self, uint32_t id, const jobset_t *jobs);

//  Whether all the jobs, which are members, need id.
static inline bool
need_table_all (const need_table_t *self, uint32_t id, const jobset_t *jobs)
{
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (jobs->words [word] && jobs->words [word] & ~self->planes [word] [id])
            return false;
    return true;
}

//  Fills ids with those that some of `any` need and not all of `all`, ascending: how many there are, or 0 if
//  they are more than max.
size_t need_table_between (const need_table_t *self, const jobset_t *any, const jobset_t *all, uint32_t *ids,
    size_t max);
//  The members that need id.
jobset_t need_table_of (const need_table_t *self, uint32_t id);

#endif
