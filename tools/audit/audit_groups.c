//  Groups of samples, and what other jobs hold: does it come early or late?

#include "audit_groups.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "chance.h"

enum { GROUP_EPOCHS_LEAST = 2 };

//  Where the samples of a group come in a job's epochs: early, late, or anywhere.
//
//  A group's sum of places in an epoch is a rank sum: its mean and variance are exact,
//  chance_places has its tail.  The sums of all epochs add up (A2).  An order may be no shuffle and
//  favour nothing all the same: samples that are read together come together, early in one epoch and late in
//  another, so that a group's mean varies more than in shuffles.
//  So the mean is also judged by how it varies from epoch to epoch (Student's test).  p is the larger of the
//  two, and so never too small.

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
    record_t *record;
    size_t job;
    size_t first, count;        //  the number of groups [0]; how many there are
    group_t *groups;
    uint32_t *group_of;         //  by rank in the universe; AUDIT_NONE
    double step;                //  the longest between two places
} grouping_t;

static void
s_find_groups (grouping_t *self, const job_t *job)
{
    const record_t *record = self->record;
    size_t next = 0;
    for (size_t rank = 0; rank < job->universe_count; rank++) {
        while (next < record->member_count && record->members [next].id < job->universe [rank])
            next++;
        bool has = next < record->member_count && record->members [next].id == job->universe [rank];
        self->group_of [rank] = has? record->members [next].group: AUDIT_NONE;
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
    for (size_t group = 0; group < self->count; group++)
        s_end_epoch (&self->groups [group], samples);
    self->step = fmax (self->step, 1 / samples);
}

//  How probable it is that the group's mean is so far off, going by how much it varies from epoch to epoch.
static double
s_p_by_epochs (const group_t *group)
{
    double epochs = (double) group->epochs, mean = group->z / epochs;
    double variance = (group->squares - epochs * mean * mean) / (epochs - 1);
    return chance_student (fabs (mean) * sqrt (epochs / fmax (variance, DBL_MIN)), epochs - 1);
}

static void
s_try_groups (grouping_t *self)
{
    for (size_t index = 0; index < self->count; index++) {
        const group_t *group = &self->groups [index];
        if (group->epochs < GROUP_EPOCHS_LEAST)
            continue;
        trial_t trial = { .made = { .kind = AUDIT_GROUP, .job = self->job, .pooled = true },
            .look = LOOK_GROUP, .other = self->job, .part = AUDIT_NONE };
        trial.group = self->first + index;
        trial.epochs = group->epochs;
        trial.value = group->places / (double) group->all;
        trial.expected = 0.5;
        trial.spread = sqrt (group->variance) / (double) group->all;
        trial.made.p = fmax (chance_places (group->off, group->variance, self->step),
            s_p_by_epochs (group));
        audit_tests_push (self->record, &trial);
        *(self->first < self->record->group_count? &self->record->jobs [self->job].is_grouped:
            &self->record->jobs [self->job].is_held) = true;
    }
}

static void
s_see_groups (grouping_t *self)
{
    const job_t *job = &self->record->jobs [self->job];
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *epoch = &job->epochs [index];
        //  An order that is found again would count twice.
        if (epoch->finished && epoch->same == AUDIT_KINDS && epoch->count >= AUDIT_GROUPS_LEAST)
            s_see_epoch (self, epoch);
    }
    s_try_groups (self);
}

static int
s_compare_reals (const void *one, const void *other)
{
    double a = *(const double *) one, b = *(const double *) other;
    return (a > b) - (a < b);
}

void
audit_groups_job (record_t *self, size_t job_index)
{
    const job_t *job = &self->jobs [job_index];
    if (!self->members || job->universe_count < AUDIT_GROUPS_LEAST)
        return;
    grouping_t grouping = { .record = self, .job = job_index, .count = self->group_count };
    grouping.groups = calloc (self->group_count, sizeof *grouping.groups);
    grouping.group_of = calloc (job->universe_count, sizeof *grouping.group_of);
    if (grouping.groups && grouping.group_of) {
        s_find_groups (&grouping, job);
        s_see_groups (&grouping);
    }
    else
        self->out_of_memory = true;
    free (grouping.groups);
    free (grouping.group_of);
}

//  Of each of the job's samples, what the other job's weight adds if it holds it.
static void
s_add_held (const job_t *job, const job_t *other, double weight, double *held)
{
    for (size_t rank = 0, next = 0; rank < job->universe_count; rank++) {
        while (next < other->universe_count && other->universe [next] < job->universe [rank])
            next++;
        bool has = next < other->universe_count && other->universe [next] == job->universe [rank];
        held [rank] += has? weight: 0;
    }
}

//  The samples of which more is held are the group of this number.
static void
s_compare_held_group (grouping_t *self, const double *held, double bound, size_t number)
{
    const job_t *job = &self->record->jobs [self->job];
    for (size_t rank = 0; rank < job->universe_count; rank++)
        self->group_of [rank] = held [rank] > bound? 0: AUDIT_NONE;
    *self->groups = (group_t) { .count = 0 };
    self->first = self->record->group_count + number;
    s_see_groups (self);
}

//  The least of two weights, where one job holds the sample or not.
static double
s_least (const double *held, size_t count)
{
    double least = held [0];
    for (size_t rank = 1; rank < count && least > 0; rank++)
        least = fmin (least, held [rank]);
    return least;
}

//  What half of the samples have no more of, if some have more; else the least.
static double
s_middle (const double *held, size_t count, double *sorted)
{
    memcpy (sorted, held, count * sizeof *held);
    qsort (sorted, count, sizeof *sorted, s_compare_reals);
    double middle = sorted [(count - 1) / 2];
    return middle < sorted [count - 1]? middle: sorted [0];
}

static size_t
s_finished (const job_t *job)
{
    size_t count = 0;
    for (size_t index = 0; index < job->count; index++)
        count += job->epochs [index].finished;
    return count;
}

void
audit_groups_held (record_t *self, size_t job_index)
{
    const job_t *job = &self->jobs [job_index];
    if (job->universe_count < AUDIT_GROUPS_LEAST)
        return;
    grouping_t grouping = { .record = self, .job = job_index, .count = 1 };
    group_t group;
    grouping.groups = &group;
    grouping.group_of = calloc (job->universe_count, sizeof *grouping.group_of);
    double *held = calloc (4 * job->universe_count, sizeof *held), *many = held + job->universe_count,
        *fast = many + job->universe_count, *sorted = fast + job->universe_count;
    self->out_of_memory |= !grouping.group_of || !held;
    for (size_t other = 0; !self->out_of_memory && other < self->job_count; other++) {
        if (other == job_index)
            continue;
        memset (held, 0, job->universe_count * sizeof *held);
        s_add_held (job, &self->jobs [other], 1, held);
        s_add_held (job, &self->jobs [other], 1, many);
        s_add_held (job, &self->jobs [other], (double) s_finished (&self->jobs [other]), fast);
        s_compare_held_group (&grouping, held, s_least (held, job->universe_count), other);
    }
    if (!self->out_of_memory && self->job_count > 2) {
        s_compare_held_group (&grouping, many, s_middle (many, job->universe_count, sorted), self->job_count);
        s_compare_held_group (&grouping, fast, s_middle (fast, job->universe_count, sorted),
            self->job_count + 1);
    }
    free (held);
    free (grouping.group_of);
}
