/*  slow_job_quota -- how much of a tier's pool the samples of slow jobs may fill.
 *
 *  A sample that only a slow or stopped job still needs enters the pool with each pass and hardly ever
 *  leaves.  Without a quota such samples would fill the pool, and the other jobs, which never wait for
 *  another, would have no room.
 *
 *  Jobs are ranked by their recent draws, most first.  A resident sample *belongs to* the first-ranked job
 *  that needs it.  A job and those ranked behind it have a quota, as a share of the residents that fit:
 *
 *      1/4 + SLOW_JOB_QUOTA_DUE * their share of the draws.
 *
 *  While their samples exceed it, these jobs are *throttled*: the tier reads only samples that other jobs
 *  need.  While their samples exceed the quota by an eighth of the room, these jobs are *evictable*: the tier
 *  evicts random samples of theirs.  So five eighths of the room belong to the other jobs, however many jobs
 *  stop, and a stopped job keeps enough to resume with.
 *
 *  The first-ranked job is never throttled, and so a single job is not.  Nor is a job with an eighth or more
 *  of all draws: its samples would be read anyway, for other jobs or one by one, and that costs more than it
 *  saves (four jobs of speeds 1, .73, .41 and .23, memory for 2 %: with SLOW_JOB_QUOTA_DUE 1/2, and 1/2 for
 *  1/4, a third fewer single reads, but 1.14 bytes read for each delivered in place of 1.05).
 *
 *  The shares are estimates: with each draw the tier names the job of a random resident (a witness), and the
 *  newest SLOW_JOB_QUOTA_WITNESSES count.  All decisions here depend on jobs only, never on samples.
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
    SLOW_JOB_QUOTA_WITNESSES = 256,     //  a share's standard deviation is up to 0.03
    SLOW_JOB_QUOTA_DUE = 6,
    SLOW_JOB_QUOTA_SLACK_PARTS = 8,     //  the slack is this part of the room: four standard deviations
    SLOW_JOB_QUOTA_DRAWS_A_JOB = 256,   //  draws between two rankings, beside a pool's worth: clients take
                                         //  whole batches in turn
    SLOW_JOB_QUOTA_NOBODY = 0xffff
};

//  Embedded by the tier; opaque to others.
typedef struct {
    uint32_t drawn [SAMPLER_JOBS_MAX];          //  by job number, halved at each ranking
    uint64_t drawn_all;
    uint64_t until_ranking;                     //  draws
    uint16_t witnesses [SLOW_JOB_QUOTA_WITNESSES];      //  job numbers, a ring
    uint32_t newest;
    uint32_t seen [SAMPLER_JOBS_MAX];           //  how many of the witnesses are the job's
} slow_job_quota_t;

void slow_job_quota_begin (slow_job_quota_t *self);
//  The job of this number has not drawn yet, or has left.
void slow_job_quota_reset (slow_job_quota_t *self, uint32_t job);
//  The job has drawn.
void slow_job_quota_drew (slow_job_quota_t *self, uint32_t job);
//  If a ranking is due, sorts the consumers by their recent draws, most first; O(jobs) when little changes.
void slow_job_quota_rank (slow_job_quota_t *self, consumer_t **consumers, size_t count, uint64_t residents);
//  A resident chosen at random belongs to the job; SLOW_JOB_QUOTA_NOBODY: to none.
void slow_job_quota_witness (slow_job_quota_t *self, uint32_t job);
//  The number of consumers, from the first-ranked on, that are not throttled; at least one if there are any.
//  *bearable_p: the number that are not evictable.  residents: how many there are; room: how many fit.
size_t slow_job_quota_served (const slow_job_quota_t *self, consumer_t *const *consumers, size_t count,
    uint64_t residents, uint64_t room, size_t *bearable_p);
//  Invariant: each witness is counted.
void slow_job_quota_check (const slow_job_quota_t *self);

#endif
