//  Where the samples of a group come in a job's epochs: early, late, or anywhere.
//
//  A group's sum of places in an epoch is a rank sum: its mean and variance are exact,
//  tail_probability_places has its tail.  The sums of all epochs add up (A2).  An order may be no shuffle and
//  favour nothing all the same: samples that are read together come together, early in one epoch and late in
//  another, so that a group's mean varies more than in shuffles.
//  So the mean is also judged by how it varies from epoch to epoch (Student's test).  p is the larger of the
//  two, and so never too small.

#include "audit.h"
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "audit_state.h"
#include "tail_probability.h"

enum { EPOCHS_LEAST = 2 };

//  A group, in all epochs of a job.
typedef struct {
    size_t count;               //  samples, in the epoch at hand
    double sum;                 //  of their places there, each in the middle of its part of the epoch, 0 .. 1
    size_t all;                 //  samples, and what these come to, in all epochs
    double places, off, variance;
    size_t epochs;              //  that have some of it, but not only these
    double z, squares;          //  sums of deviations, in standard deviations
} group_t;

typedef struct {
    audit_t *audit;
    size_t job;
    group_t *groups;
    uint32_t *group_of;         //  by rank in the universe; AUDIT_NONE
    double step;                //  the longest between two places
} grouping_t;

void
audit_set_groups (audit_t *self, audit_member_t **members_p, size_t count, const char *const *names,
size_t group_count)
{
    assert (self->magic == AUDIT_MAGIC);
    assert (!self->has_run && !self->members);
    assert (*members_p && count > 0);
    for (size_t index = 0; index < count; index++) {
        assert ((*members_p) [index].group < group_count);
        assert (index == 0 || (*members_p) [index - 1].id < (*members_p) [index].id);
    }
    self->members = *members_p;
    self->member_count = count;
    self->group_names = names;
    self->group_count = group_count;
    *members_p = NULL;
}

static void
s_find_groups (grouping_t *self, const job_t *job)
{
    const audit_t *audit = self->audit;
    size_t next = 0;
    for (size_t rank = 0; rank < job->universe_count; rank++) {
        while (next < audit->member_count && audit->members [next].id < job->universe [rank])
            next++;
        bool has = next < audit->member_count && audit->members [next].id == job->universe [rank];
        self->group_of [rank] = has? audit->members [next].group: AUDIT_NONE;
    }
}

//  What the group's samples came to in the epoch, and nothing else is known of it.
static void
s_end_epoch (group_t *group, double samples)
{
    double count = (double) group->count, sum = group->sum;
    group->count = 0;
    group->sum = 0;
    if (count <= 0 || count >= samples)
        return;
    double off = sum - count / 2,
        variance = count * (samples - count) * (samples + 1) / (12 * samples * samples);
    group->all += (size_t) count;
    group->places += sum;
    group->off += off;
    group->variance += variance;
    group->epochs++;
    group->z += off / sqrt (variance);
    group->squares += off * off / variance;
}

static void
s_see_epoch (grouping_t *self, const epoch_t *epoch)
{
    double samples = (double) epoch->count;
    for (size_t place = 0; place < epoch->count; place++) {
        uint32_t group = self->group_of [epoch->ids [place]];
        if (group == AUDIT_NONE)
            continue;
        self->groups [group].count++;
        self->groups [group].sum += ((double) place + 0.5) / samples;
    }
    for (size_t group = 0; group < self->audit->group_count; group++)
        s_end_epoch (&self->groups [group], samples);
    self->step = fmax (self->step, 1 / samples);
}

//  How probable it is that the group's mean is so far off, going by how much it varies from epoch to epoch.
static double
s_p_by_epochs (const group_t *group)
{
    double epochs = (double) group->epochs, mean = group->z / epochs;
    double variance = (group->squares - epochs * mean * mean) / (epochs - 1);
    return tail_probability_student (fabs (mean) * sqrt (epochs / fmax (variance, DBL_MIN)), epochs - 1);
}

static void
s_try_groups (grouping_t *self)
{
    for (size_t index = 0; index < self->audit->group_count; index++) {
        const group_t *group = &self->groups [index];
        if (group->epochs < EPOCHS_LEAST)
            continue;
        trial_t trial = { .made = { .kind = AUDIT_GROUP, .job = self->job, .pooled = true },
            .look = LOOK_GROUP,
            .other = self->job, .group = index, .epochs = group->epochs };
        trial.value = group->places / (double) group->all;
        trial.expected = 0.5;
        trial.spread = sqrt (group->variance) / (double) group->all;
        trial.made.p = fmax (tail_probability_places (group->off, group->variance, self->step),
            s_p_by_epochs (group));
        audit_push_trial (self->audit, &trial);
        self->audit->jobs [self->job].is_grouped = true;
    }
}

void
audit_groups (audit_t *self, size_t job_index)
{
    const job_t *job = &self->jobs [job_index];
    if (!self->members || job->universe_count < AUDIT_GROUPS_LEAST)
        return;
    grouping_t grouping = { .audit = self, .job = job_index };
    grouping.groups = calloc (self->group_count, sizeof *grouping.groups);
    grouping.group_of = calloc (job->universe_count, sizeof *grouping.group_of);
    if (grouping.groups && grouping.group_of) {
        s_find_groups (&grouping, job);
        for (size_t index = 0; index < job->count; index++) {
            const epoch_t *epoch = &job->epochs [index];
            //  An order that is found again would count twice.
            if (epoch->finished && epoch->same == AUDIT_KINDS && epoch->count >= AUDIT_GROUPS_LEAST)
                s_see_epoch (&grouping, epoch);
        }
        s_try_groups (&grouping);
    }
    else
        self->out_of_memory = true;
    free (grouping.groups);
    free (grouping.group_of);
}
