#include "slow_job_quota.h"
#include <assert.h>
#include <string.h>

void
slow_job_quota_begin (slow_job_quota_t *self)
{
    memset (self, 0, sizeof *self);
    for (size_t index = 0; index < SLOW_JOB_QUOTA_WITNESSES; index++)
        self->witnesses [index] = SLOW_JOB_QUOTA_NOBODY;
}

void
slow_job_quota_reset (slow_job_quota_t *self, uint32_t job)
{
    self->drawn_all -= self->drawn [job];
    self->drawn [job] = 0;
    for (size_t index = 0; index < SLOW_JOB_QUOTA_WITNESSES && self->seen [job] > 0; index++)
        if (self->witnesses [index] == job) {
            self->witnesses [index] = SLOW_JOB_QUOTA_NOBODY;
            self->seen [job]--;
        }
}

void
slow_job_quota_drew (slow_job_quota_t *self, uint32_t job)
{
    self->drawn [job]++;
    self->drawn_all++;
    if (self->until_ranking > 0)
        self->until_ranking--;
}

void
slow_job_quota_rank (slow_job_quota_t *self, consumer_t **consumers, size_t count, uint64_t residents)
{
    if (self->until_ranking > 0)
        return;
    self->until_ranking = residents + count * SLOW_JOB_QUOTA_DRAWS_A_JOB;
    for (size_t place = 1; place < count; place++)
        for (size_t at = place; at > 0; at--) {
            consumer_t *behind = consumers [at], *before = consumers [at - 1];
            if (self->drawn [behind->sampler_job] <= self->drawn [before->sampler_job])
                break;
            consumers [at] = before;
            consumers [at - 1] = behind;
        }
    self->drawn_all = 0;
    for (size_t place = 0; place < count; place++)
        self->drawn_all += self->drawn [consumers [place]->sampler_job] /= 2;
}

void
slow_job_quota_witness (slow_job_quota_t *self, uint32_t job)
{
    uint16_t *oldest = &self->witnesses [self->newest++ % SLOW_JOB_QUOTA_WITNESSES];
    if (*oldest != SLOW_JOB_QUOTA_NOBODY)
        self->seen [*oldest]--;
    *oldest = (uint16_t) job;
    if (job != SLOW_JOB_QUOTA_NOBODY)
        self->seen [job]++;
}

size_t
slow_job_quota_served (const slow_job_quota_t *self, consumer_t *const *consumers, size_t count,
    uint64_t residents, uint64_t room, size_t *bearable_p)
{
    size_t served = count, bearable = count;
    double fill = room > 0? (double) residents / (double) room / SLOW_JOB_QUOTA_WITNESSES: 0;
    uint64_t seen = 0, drawn = 0;
    for (size_t place = count; place-- > 1;) {
        uint32_t job = consumers [place]->sampler_job;
        seen += self->seen [job];
        drawn += self->drawn [job];
        double share = (double) seen * fill;
        double due = self->drawn_all? 0.25 + SLOW_JOB_QUOTA_DUE * (double) drawn / (double) self->drawn_all:
            1;
        if (share > due)
            served = place;
        if (share > due + 1.0 / SLOW_JOB_QUOTA_SLACK_PARTS)
            bearable = place;
    }
    *bearable_p = bearable;
    return served;
}

void
slow_job_quota_check (const slow_job_quota_t *self)
{
    uint32_t seen [SAMPLER_JOBS_MAX] = { 0 };
    uint64_t drawn = 0;
    for (size_t index = 0; index < SLOW_JOB_QUOTA_WITNESSES; index++)
        if (self->witnesses [index] != SLOW_JOB_QUOTA_NOBODY)
            seen [self->witnesses [index]]++;
    for (size_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        assert (seen [job] == self->seen [job]);
        drawn += self->drawn [job];
    }
    assert (drawn == self->drawn_all);
}
