/*  grouping -- which jobs draw in rounds together: the connected components of overlapping data.
 *
 *  SHARED jobs are one group if their data overlap, directly or through other jobs.  Every other job is a
 *  group of its own.  A job's data only shrink while it is there, so a pair once found disjoint is never
 *  compared again.
 *  Owner: the sampler's thread.
 */
#ifndef GROUPING_H
#define GROUPING_H
#include <stddef.h>
#include <stdint.h>

#include "demand.h"

typedef struct grouping grouping_t;

grouping_t *grouping_new (void);
void grouping_destroy (grouping_t **self_p);

//  The job's number now means another job, or none.
void grouping_forget (grouping_t *self, uint32_t job);
//  Finds the groups anew; jobs [number] is NULL where there is none.  overlap (context, a, b): whether the
//  data of two SHARED jobs overlap and they draw together.
void grouping_update (grouping_t *self, demand_t *const jobs [SAMPLER_JOBS_MAX],
    bool (*overlap) (const void *context, uint32_t a, uint32_t b), const void *context);

size_t grouping_count (const grouping_t *self);
//  The jobs of a group, ascending; groups ascend by their first job.  Lent until the next update.
const uint32_t *grouping_jobs (const grouping_t *self, size_t group, size_t *count_p);
//  The group of a job that was there at the last update.
size_t grouping_of (const grouping_t *self, uint32_t job);

#endif
