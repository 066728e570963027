/*  sharing -- how much of what a job gets was prepared for others too, and why it is little where it could be
 *  more.
 *
 *  Counted at the draw: the row's version existed, or was made for the row's job.  When a version that
 *  was made for one job first serves another, both jobs are credited.  A version knows its jobs while it
 *  exists.  After that its *record*, shared by all rows that got it, still answers EXPLAIN.
 *
 *  With several tenants, each is counted as if no other existed: a version that another tenant's job uses
 *  counts neither as shared nor as existing.  (Then a job may count as its own a version that a departed job
 *  had made.)
 *
 *  A job of order SHARED is told once (ACTION_SEND_NOTICE "little_shared") when another such job of its
 *  tenant has run on overlapping data long enough, they share nearly nothing, and the state gives a reason;
 *  never on figures alone.  The reasons are tried in this order:
 *      1. the other jobs have another shared stage, or they or this job draw apart;
 *      2. few of the job's samples are in their data;
 *      3. policy dsa, and the jobs are at different points of their epochs.
 *  (A small cache is no reason: with room for a single version two jobs of one speed still share 63 to 96 %
 *  under `follow`, and everything under dsa when in step.)  Jobs that ask for an order of their own get no
 *  such notice and cause none; a job that is `seeded` only because it gave a seed is told so.
 *
 *  Owner: the broker's thread.  Bookkeeping allocations abort when there is no memory.
 */
#ifndef SHARING_H
#define SHARING_H
#include <stdint.h>
#include <jansson.h>
#include "sampler.h"
#include "version_index.h"

typedef struct broker broker_t;
typedef struct job job_t;
typedef struct batch_row batch_row_t;

//  What a job had at a moment.
typedef struct {
    uint64_t places;            //  that got a version
    uint64_t shared;            //  that got a version which other jobs use too
} sharing_mark_t;

//  A job's; nothing but zeros when it joins.
typedef struct {
    uint64_t places, shared;
    uint64_t alone;             //  that got a version made for this job and used by no other
    sharing_mark_t since [SAMPLER_JOBS_MAX];    //  for each other job of the data set: counts when the later
                                                //  of both joined
    uint64_t look_at;           //  number of rows at which the job is judged again
    bool is_told;
    bool is_due;                //  it draws a sample that is not yet counted
} sharing_t;

typedef struct {
    uint64_t birth;             //  number of the row's owner, unique; of a free record: the next free one
    uint32_t jobs;              //  that the version has served
    uint32_t holders;           //  rows; 0: free
} sharing_record_t;

//  All of a broker's, by index less one, no more than its jobs have rows.
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
//  The job has joined: marks it for the other jobs on its data set.
void sharing_join (job_t *job);
//  A draw has given the row this version.  First the draw marks each of its jobs as due.
void sharing_served (broker_t *self, batch_row_t *row, version_t *version);
//  The row drops its record.  Idempotent.
void sharing_forget (broker_t *self, batch_row_t *row);
//  How many jobs the row's last version has served.  With several tenants: jobs of the row's tenant, at
//  the time of the draw.
uint32_t sharing_jobs (const broker_t *self, const batch_row_t *row);
//  About once a second: tells jobs that share little why.
void sharing_judge (broker_t *self, int64_t now_ms);
//  {"places": n, "alone": .., "shared": ..}; a new reference.
json_t *sharing_status (const job_t *job);
void sharing_check (const broker_t *self);

#endif
