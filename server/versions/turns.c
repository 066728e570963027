#include "turns.h"
#include <assert.h>
#include <string.h>

void
turns_begin (turns_t *self)
{
    memset (self, 0, sizeof *self);
    for (size_t index = 0; index < TURNS_WITNESSES; index++)
        self->witnesses [index] = TURNS_NOBODY;
}

void
turns_reset (turns_t *self, uint32_t job)
{
    self->drawn_all -= self->drawn [job];
    self->drawn [job] = 0;
    for (size_t index = 0; index < TURNS_WITNESSES && self->seen [job] > 0; index++)
        if (self->witnesses [index] == job) {
            self->witnesses [index] = TURNS_NOBODY;
            self->seen [job]--;
        }
}

void
turns_drew (turns_t *self, uint32_t job)
{
    self->drawn [job]++;
    self->drawn_all++;
    if (self->until_ranking > 0)
        self->until_ranking--;
}

void
turns_rank (turns_t *self, claimant_t **claimants, size_t count, uint64_t residents)
{
    if (self->until_ranking > 0)
        return;
    self->until_ranking = residents + count * TURNS_DRAWS_A_JOB;
    for (size_t place = 1; place < count; place++)
        for (size_t at = place; at > 0; at--) {
            claimant_t *behind = claimants [at], *before = claimants [at - 1];
            if (self->drawn [behind->sampler_job] <= self->drawn [before->sampler_job])
                break;
            claimants [at] = before;
            claimants [at - 1] = behind;
        }
    self->drawn_all = 0;
    for (size_t place = 0; place < count; place++)
        self->drawn_all += self->drawn [claimants [place]->sampler_job] /= 2;
}

void
turns_witness (turns_t *self, uint32_t job)
{
    uint16_t *oldest = &self->witnesses [self->newest++ % TURNS_WITNESSES];
    if (*oldest != TURNS_NOBODY)
        self->seen [*oldest]--;
    *oldest = (uint16_t) job;
    if (job != TURNS_NOBODY)
        self->seen [job]++;
}

size_t
turns_served (const turns_t *self, claimant_t *const *claimants, size_t count, uint64_t residents, uint64_t room,
    size_t *bearable_p)
{
    size_t served = count, bearable = count;
    double fill = room > 0? (double) residents / (double) room / TURNS_WITNESSES: 0;
    uint64_t seen = 0, drawn = 0;
    for (size_t place = count; place-- > 1;) {
        uint32_t job = claimants [place]->sampler_job;
        seen += self->seen [job];
        drawn += self->drawn [job];
        double share = (double) seen * fill;
        double due = self->drawn_all? 0.25 + TURNS_DUE * (double) drawn / (double) self->drawn_all: 1;
        if (share > due)
            served = place;
        if (share > due + 1.0 / TURNS_SLACK_PARTS)
            bearable = place;
    }
    *bearable_p = bearable;
    return served;
}

void
turns_check (const turns_t *self)
{
    uint32_t seen [SAMPLER_JOBS_MAX] = { 0 };
    uint64_t drawn = 0;
    for (size_t index = 0; index < TURNS_WITNESSES; index++)
        if (self->witnesses [index] != TURNS_NOBODY)
            seen [self->witnesses [index]]++;
    for (size_t job = 0; job < SAMPLER_JOBS_MAX; job++) {
        assert (seen [job] == self->seen [job]);
        drawn += self->drawn [job];
    }
    assert (drawn == self->drawn_all);
}
