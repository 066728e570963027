/*  sharing -- how much of what a job gets was prepared for others too, and why it is little where it could be
 *  more.
 *
 *  Counted at the draw: a place's version was there, or was made for its job.  That a version that was made
 *  for one job serves another is credited to both, to the first when it happens.  A version knows its jobs
 *  while it is there; what places remember of it is a *record*, which all places of one version share, so
 *  that EXPLAIN can tell after it has gone.
 *
 *  Where there are several tenants, each counts as if its jobs were all there are: another tenant's job that
 *  uses a version is no reason to call it shared, nor that it was there.  (Then a version that a job which
 *  has left had made, and the same job uses again, may be taken for its own.)
 *
 *  A job of order SHARED is told (ACTION_SEND_NOTICE "little_shared", once) when another of that order has
 *  been on overlapping data long enough, nearly nothing is shared, and the state says why: never on figures
 *  alone; another of its own tenant.  What is looked at, in this order:
 *      1. the other jobs have another shared stage, or draw apart, or this one does;
 *      2. few of the job's samples are in their data;
 *      3. policy dsa, and the jobs are at different points of their epochs.
 *  (A small cache is no reason: with room for a single version two jobs of one speed still share 63 to 96 %
 *  under `follow`, and all of it in step under dsa.)
 *  Jobs that ask for an order of their own get none and cause none; but one that is `seeded` only because it
 *  gave a seed is told so.
 *
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef SHARING_H
#define SHARING_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"

//  What a job had at a moment.
typedef struct {
    uint64_t places;            //  that got a version
    uint64_t shared;            //  whose version others use too
} sharing_mark_t;

//  A job's; nothing but zeros when it joins.
typedef struct {
    uint64_t places, shared;
    uint64_t alone;             //  whose version was made for it, and nobody else has used it
    sharing_mark_t since [SAMPLER_JOBS_MAX];    //  for each other job of the data set: when the later of both
                                                //  joined
    uint64_t look_at;           //  places, when it is judged again
    bool is_told;
    bool is_due;                //  it has drawn a sample, and is not yet counted for it
} sharing_t;

typedef struct {
    uint64_t birth;             //  of whom it is: no two have the same; or, of a free one, the next free
    uint32_t jobs;              //  that the version has served
    uint32_t holders;           //  places; 0: free
} sharing_record_t;

//  All of a broker's, by index less one, no more than its jobs have places.
typedef struct {
    sharing_record_t *all;
    uint32_t count, room, first_free, held;
    uint64_t births;
} sharing_records_t;

//  The counts of the job now.
static inline sharing_mark_t
sharing_mark_of (const sharing_t *sharing)
{
    return (sharing_mark_t) { .places = sharing->places, .shared = sharing->shared };
}
//  The job is there, for the others on its data set.
void sharing_join (job_t *job);
//  These jobs have drawn one sample together; sharing_served follows for each.
void sharing_drawn (job_t *const *jobs, size_t count);
//  The place has got this version, by a draw.
void sharing_served (broker_t *self, place_t *place, version_t *version);
//  What the place remembers goes.  Idempotent.
void sharing_forget (broker_t *self, place_t *place);
//  How many jobs, of the place's tenant if there are several, the version that it got last has served; of
//  several: then.
uint32_t sharing_jobs (const broker_t *self, const place_t *place);
//  About once a second: tells jobs that share little why.
void sharing_judge (broker_t *self, int64_t now_ms);
//  {"places": n, "alone": .., "shared": ..}; a new reference.
json_t *sharing_status (const job_t *job);
void sharing_check (const broker_t *self);

#endif
