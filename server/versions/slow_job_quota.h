/*  slow_job_quota -- which jobs of a tier are *throttled*: slow ones, or such as stand still, for which too much of its pool waits.
 *
 *  What only a job that hardly draws still needs would enter with each pass and not leave; in the end there would be no
 *  room for the others, who never wait for another.  So jobs are ranked by how much they have drawn of late, and a
 *  resident is *of* the first-ranked job that needs it.  Where what is of a job and of those behind it, as a share of
 *  what may be resident, comes to more than
 *
 *      1/4 + SLOW_JOB_QUOTA_DUE * their share of the draws,
 *
 *  it and those behind it are throttled: only what others need is read, until it is less.  Where it comes to an eighth of
 *  the room more, they are *evictable*: what is of them gives way, at random.  So five eighths are the others', however
 *  many stand still, and those keep what they go on with.  The first-ranked job is never throttled, so one alone is not;
 *  nor is who draws an eighth or more of all: to read pieces without what a job needs that goes on nearly as fast costs
 *  more than it saves, since that is read all the same, between others or by itself (four jobs of speeds 1, .73, .41
 *  and .23, memory for 2 %: with SLOW_JOB_QUOTA_DUE 1/2 and 1/2 for 1/4 a third fewer single reads, but 1.14 bytes read for each
 *  delivered in place of 1.05).
 *
 *  Of how many residents are of whom, a random one told with each draw is witness; the newest SLOW_JOB_QUOTA_WITNESSES count.
 *  Everything here looks at jobs only.
 *
 *  Cost: O(jobs) a draw.  Some kilobytes.
 *  Owner: the broker's thread.
 */
#ifndef SLOW_JOB_QUOTA_H
#define SLOW_JOB_QUOTA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "sampler.h"
#include "version_index.h"

enum {
    SLOW_JOB_QUOTA_WITNESSES = 256,      //  a share's standard deviation is up to 0.03
    SLOW_JOB_QUOTA_DUE = 6,
    SLOW_JOB_QUOTA_SLACK_PARTS = 8,      //  the slack is this part of the room: four standard deviations
    SLOW_JOB_QUOTA_DRAWS_A_JOB = 256,    //  which ranks are by, beside a pool's worth: clients come for whole batches in turn
    SLOW_JOB_QUOTA_NOBODY = 0xffff
};

//  Embedded by the tier; opaque to others.
typedef struct {
    uint32_t drawn [SAMPLER_JOBS_MAX];          //  by job number, halved at each ranking
    uint64_t drawn_all;
    uint64_t until_ranking;                     //  draws
    uint16_t witnesses [SLOW_JOB_QUOTA_WITNESSES];       //  job numbers, a ring
    uint32_t newest;
    uint32_t seen [SAMPLER_JOBS_MAX];           //  how many of the witnesses are of the job
} slow_job_quota_t;

void slow_job_quota_begin (slow_job_quota_t *self);
//  A job of this number begins as one that has not drawn; or is gone.
void slow_job_quota_reset (slow_job_quota_t *self, uint32_t job);
//  The job has drawn.
void slow_job_quota_drew (slow_job_quota_t *self, uint32_t job);
//  Ranks consumers by what they have drawn of late, most first, if that is due; O(jobs) when little changes.
void slow_job_quota_rank (slow_job_quota_t *self, consumer_t **consumers, size_t count, uint64_t residents);
//  A resident, chosen at random, is of the job; of SLOW_JOB_QUOTA_NOBODY.
void slow_job_quota_witness (slow_job_quota_t *self, uint32_t job);
//  How many of the first of count ranked consumers are not throttled; at least one if there are any.  *bearable_p: are not
//  evictable.  residents: how many there are; room: how many there may be.
size_t slow_job_quota_served (const slow_job_quota_t *self, consumer_t *const *consumers, size_t count, uint64_t residents, uint64_t room,
    size_t *bearable_p);
//  K: each witness is counted.
void slow_job_quota_check (const slow_job_quota_t *self);

#endif
