//  How a job is dealt to its ranks (or nodes): each rank recorded its part of every epoch.
//
//  Samples *stay* that have the same rank in two epochs.  Their expected number is exact for any independent
//  deals of which one is uniform.  Its variance is not: a job over nodes is dealt in units of 64 neighbours
//  (sampler/parts.h), of which all stay or none.  But pairs of epochs are uncorrelated and have one variance,
//  so that the other pairs show it: the *dispersion* is how much more these vary than samples that are dealt
//  one by one.  A test takes the larger one of both variances, and Student's law.
//
//  A rank's own order needs no such care: given which samples it has in two epochs, all orders of these are
//  equally likely.

#include "audit.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "audit_state.h"

enum { NAME_BYTES = 4096 };

//  --------------------------------------------------------------------------
//  Joining

//  Notes how many samples the part has of the epoch; or that it has not finished or (from: NULL) lacks it.
static void
s_join_part (audit_part_t *part, uint16_t index, const epoch_t *from, epoch_t *to)
{
    uint16_t *missed = from? &to->unfinished_in: &to->absent_from;
    if (from && from->finished) {
        if (from->count < part->samples_least || part->samples_most == 0)
            part->samples_least = from->count;
        if (from->count > part->samples_most)
            part->samples_most = from->count;
        return;
    }
    *missed = *missed == AUDIT_NO_PART? index: *missed;
    to->finished = false;
}

//  Adds an epoch of one sample of each part's in turn (from: NULL if the part lacks it).  So the samples of a
//  step over all ranks stand together, whatever the size of a batch is: recordings do not tell it.
static int
s_join_epoch (audit_t *self, audit_parts_t *parts, const epoch_t *const *from, uint64_t number)
{
    size_t count = 0, used = 0;
    for (size_t index = 0; index < parts->count; index++)
        count += from [index]? from [index]->count: 0;
    uint32_t *ids = calloc (count? count: 1, sizeof *ids);
    uint16_t *turns = calloc (count? count: 1, sizeof *turns);
    for (size_t turn = 0; ids && turns && used < count; turn++)
        for (size_t index = 0; index < parts->count; index++)
            if (from [index] && turn < from [index]->count) {
                turns [used] = (uint16_t) index;
                ids [used++] = from [index]->ids [turn];
            }
    if (!ids || !turns || audit_add_epoch (self, number, &ids, count, true)) {
        free (ids);
        free (turns);
        return -ENOMEM;
    }
    job_t *whole = &self->jobs [parts->count];
    epoch_t *joined = &whole->epochs [whole->count - 1];
    bool is_whole = false;              //  some rank finished it
    joined->parts = turns;
    for (size_t index = 0; index < parts->count; index++) {
        s_join_part (&parts->part [index], (uint16_t) index, from [index], joined);
        is_whole |= from [index] && from [index]->finished;
    }
    //  What no rank has finished is no more than begun, on the ranks that have nothing of it too.
    if (!is_whole)
        joined->absent_from = AUDIT_NO_PART;
    return 0;
}

//  Joins the epochs of all jobs but the last into this one.
static int
s_join_epochs (audit_t *self, audit_parts_t *parts)
{
    size_t *next = calloc (parts->count, sizeof *next);
    const epoch_t **from = calloc (parts->count, sizeof *from);
    int rc = next && from? 0: -ENOMEM;
    while (rc == 0) {
        uint64_t number = UINT64_MAX;
        for (size_t index = 0; index < parts->count; index++) {
            const job_t *job = &self->jobs [index];
            from [index] = next [index] < job->count? &job->epochs [next [index]]: NULL;
            if (from [index] && from [index]->number < number)
                number = from [index]->number;
        }
        if (number == UINT64_MAX)
            break;
        for (size_t index = 0; index < parts->count; index++)
            if (from [index] && from [index]->number == number)
                next [index]++;
            else
                from [index] = NULL;
        rc = s_join_epoch (self, parts, from, number);
    }
    free (next);
    free (from);
    return rc;
}

int
audit_join (audit_t *self)
{
    assert (self->magic == AUDIT_MAGIC);
    assert (!self->has_run);
    assert (self->job_count > 0 && self->job_count <= UINT16_MAX);
    char name [NAME_BYTES];
    size_t count = self->job_count;
    snprintf (name, sizeof name, "%.*s and %zu more", NAME_BYTES - 64, self->jobs [0].name, count - 1);
    if (audit_add_job (self, name))
        return -ENOMEM;
    job_t *whole = &self->jobs [count];
    audit_parts_t *parts = calloc (1, sizeof *parts);
    whole->parts = parts;
    if (!parts)
        return -ENOMEM;
    parts->count = count;
    parts->part = calloc (count, sizeof *parts->part);
    if (!parts->part || s_join_epochs (self, parts))
        return -ENOMEM;
    for (size_t index = 0; index < count; index++) {
        job_t *job = &self->jobs [index];
        parts->part [index].name = job->name;
        job->name = NULL;
        audit_clear_job (job);
    }
    self->jobs [0] = self->jobs [count];
    self->jobs [0].shown.parts = parts;
    self->job_count = 1;
    return 0;
}

//  --------------------------------------------------------------------------
//  Which rank had what

//  Two epochs: how many samples stay.
typedef struct { const epoch_t *before, *epoch; uint64_t lag; moments_t stay; } pair_t;

typedef struct {
    audit_t *audit;
    size_t job_index;
    const job_t *job;
    audit_parts_t *parts;
    pair_t *pairs;              //  each two finished epochs of an order of their own
    size_t pair_count, epoch_count;
    double least;               //  samples that both epochs of a pair have
    size_t *rows, *columns;     //  by part: samples in the one epoch of two, and in the other
    size_t *common, *used;      //  by part: samples that it has in both
    series_t all, *own;         //  of one lag
} dealing_t;

//  From here on epoch->parts is by the ids' ranks in the universe.
static bool
s_index_parts (const job_t *job)
{
    for (size_t index = 0; index < job->count; index++) {
        epoch_t *epoch = &job->epochs [index];
        uint16_t *parts = calloc (job->universe_count? job->universe_count: 1, sizeof *parts);
        if (!parts)
            return false;
        memset (parts, 0xff, job->universe_count * sizeof *parts);
        for (size_t place = 0; place < epoch->count; place++)
            parts [epoch->ids [place]] = epoch->parts [place];
        free (epoch->parts);
        epoch->parts = parts;
    }
    return true;
}

static size_t
s_root (size_t *parents, size_t part)
{
    while (parents [part] != part)
        part = parents [part] = parents [parents [part]];
    return part;
}

//  Counts the groups of ranks between which no sample changes; a rank that never has one is in none.
static void
s_count_groups (dealing_t *self)
{
    const job_t *job = self->job;
    size_t *parents = self->used;       //  of each part, one of its group
    for (size_t part = 0; part < self->parts->count; part++) {
        parents [part] = part;
        self->common [part] = 0;
    }
    for (size_t sample = 0; sample < job->universe_count; sample++) {
        size_t first = AUDIT_NO_PART;
        for (size_t index = 0; index < job->count; index++) {
            size_t part = job->epochs [index].parts [sample];
            if (!job->epochs [index].finished || part == AUDIT_NO_PART)
                continue;
            first = first == AUDIT_NO_PART? part: first;
            parents [s_root (parents, part)] = s_root (parents, first);
            self->common [part] = 1;
        }
    }
    for (size_t part = 0; job->shown.epochs > 1 && part < self->parts->count; part++)
        self->parts->groups += self->common [part] && parents [part] == part;
}

//  --------------------------------------------------------------------------
//  Own orders

static trial_t
s_trial (const dealing_t *self, audit_kind_t kind, look_t look, const epoch_t *before, const epoch_t *epoch)
{
    return (trial_t) { .made = { .kind = kind, .job = self->job_index }, .look = look,
        .other = self->job_index, .epoch = epoch? epoch->number: 0, .before = before? before->number: 0,
        .part = AUDIT_NONE };
}

//  For each rank, sets audit->relative of the samples that it has in both epochs, which common counts; the
//  ranks' samples follow each other, and used says where a rank's end.
static void
s_relate (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    size_t begin = 0;
    memset (self->common, 0, self->parts->count * sizeof *self->common);
    for (size_t place = 0; place < epoch->count; place++) {
        uint32_t sample = epoch->ids [place];
        if (before->parts [sample] == epoch->parts [sample])
            self->audit->mark [sample] = (uint32_t) self->common [epoch->parts [sample]]++;
    }
    for (size_t part = 0; part < self->parts->count; begin += self->common [part++])
        self->used [part] = begin;
    for (size_t place = 0; place < before->count; place++) {
        uint32_t sample = before->ids [place];
        if (epoch->parts [sample] == before->parts [sample])
            self->audit->relative [self->used [epoch->parts [sample]]++] = self->audit->mark [sample];
    }
}

static void
s_see_own (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    bool tested = audit_is_tested (before, epoch);
    trial_t trial = s_trial (self, AUDIT_OWN_STALE, LOOK_OWN, before, epoch);
    s_relate (self, before, epoch);
    for (size_t part = 0; part < self->parts->count; part++) {
        size_t count = self->common [part];
        if (count < AUDIT_TENTHS_LEAST)
            continue;
        moments_t phi2 = audit_phi2 (self->audit->relative + self->used [part] - count, count);
        trial.part = part;
        audit_see (self->audit, trial, &self->own [part], &phi2, tested);
        audit_series_add (&self->all, &phi2, tested);
    }
}

//  Does a rank's own order depend on the one before?
static void
s_compare_own (dealing_t *self, uint64_t lag)
{
    audit_parts_t *parts = self->parts;
    memset (self->own, 0, parts->count * sizeof *self->own);
    self->all = (series_t) { .all_count = 0 };
    for (size_t index = 0; index < self->job->count; index++) {
        const epoch_t *epoch = audit_later (self->job, index, lag);
        if (epoch)
            s_see_own (self, &self->job->epochs [index], epoch);
    }
    trial_t trial = s_trial (self, AUDIT_OWN_STALE, LOOK_OWN, NULL, NULL);
    trial.epoch = lag;                  //  pooled: the distance
    parts->own_phi2 [lag - 1] = audit_series_end (self->audit, trial, &self->all);
    for (size_t part = 0; part < parts->count; part++) {
        trial.part = part;
        parts->part [part].own_phi2 [lag - 1] = audit_series_end (self->audit, trial, &self->own [part]);
    }
}

//  --------------------------------------------------------------------------
//  Staying

//  Mean and variance are those of permutations of which the sizes of the parts are given; the third moment is
//  that of as many samples, each for itself.
static void
s_count_stay (dealing_t *self, pair_t *pair)
{
    double n = 0, stay = 0, both = 0, cubes = 0;
    memset (self->rows, 0, self->parts->count * sizeof *self->rows);
    memset (self->columns, 0, self->parts->count * sizeof *self->columns);
    for (size_t sample = 0; sample < self->job->universe_count; sample++) {
        size_t row = pair->before->parts [sample], column = pair->epoch->parts [sample];
        if (row == AUDIT_NO_PART || column == AUDIT_NO_PART)
            continue;
        self->rows [row]++;
        self->columns [column]++;
        stay += row == column;
    }
    for (size_t part = 0; part < self->parts->count; part++) {
        double row = (double) self->rows [part], column = (double) self->columns [part];
        n += row;
        both += row * column;
        cubes += row * column * (row + column);
    }
    double p = n > 0? both / (n * n): 0;
    pair->stay = (moments_t) { .value = stay, .mean = n * p, .third = n * p * (1 - p) * (1 - 2 * p) };
    if (n > 1)
        pair->stay.variance = (both - cubes / n + n * n * p * p) / (n - 1);
    self->least = fmin (self->least, n);
}

//  How much more the pairs of other lags vary than samples that are dealt one by one; lag 0: all pairs.
//  degrees_p: of freedom.
static double
s_dispersion (const dealing_t *self, uint64_t lag, double *degrees_p)
{
    double count = 0, sum = 0, squares = 0;
    for (size_t index = 0; index < self->pair_count; index++) {
        const moments_t *stay = &self->pairs [index].stay;
        double z = (stay->value - stay->mean) / sqrt (stay->variance);
        if (self->pairs [index].lag == lag)
            continue;
        count++;
        sum += z;
        squares += z * z;
    }
    *degrees_p = count - 1;
    return (squares - sum * sum / count) / (count - 1);
}

//  Tests a sum over pairs; returns it by what is expected.
static audit_figure_t
s_try_stay (dealing_t *self, trial_t trial, moments_t sum, uint64_t lag, size_t count)
{
    double degrees, dispersion = s_dispersion (self, lag, &degrees), off = sum.value - sum.mean;
    double factor = fmax (1, dispersion);
    //  The normal figure that is as improbable as Student's (Wallace 1959).
    double t2 = dispersion > 0? off * off / (sum.variance * dispersion): HUGE_VAL;
    double z = (8 * degrees + 1) / (8 * degrees + 3) * sqrt (degrees * log1p (t2 / degrees));
    trial.value = sum.value / sum.mean;
    trial.expected = 1;
    trial.spread = sqrt (sum.variance * factor) / sum.mean;
    sum.variance = fmax (sum.variance, off * off / (z * z));
    sum.third *= factor * factor;
    trial.made.p = off > 0? moments_tail (&sum): 1;
    audit_push_trial (self->audit, &trial);
    return (audit_figure_t) { .count = count, .value = trial.value, .expected = 1, .spread = trial.spread };
}

//  Do samples stay with the rank that they had, so many epochs later?
static void
s_compare_stay (dealing_t *self, uint64_t lag)
{
    moments_t sum = { .value = 0 };
    size_t count = 0;
    for (size_t index = 0; index < self->pair_count; index++) {
        const pair_t *pair = &self->pairs [index];
        if (pair->lag != lag)
            continue;
        moments_add (&sum, &pair->stay);
        count++;
        s_try_stay (self, s_trial (self, AUDIT_STAYING, LOOK_STAYING, pair->before, pair->epoch), pair->stay,
            lag, 1);
    }
    trial_t trial = s_trial (self, AUDIT_STAYING, LOOK_STAYING, NULL, NULL);
    trial.made.pooled = true;
    trial.epoch = lag;
    if (count > 1)
        self->parts->stay [lag - 1] = s_try_stay (self, trial, sum, lag, count);
}

//  Are samples with some ranks more often than with others?  With W equal parts, n samples and E epochs the
//  chi-square of "sample" x "rank" is n (W - 1) + 2 W / E (how many more stay than is expected, over all
//  pairs of epochs).  Its third moment has those of the pairs, and those of each three epochs.
static void
s_compare_all (dealing_t *self)
{
    moments_t sum = { .value = 0 };
    double epochs = (double) self->epoch_count;
    for (size_t index = 0; index < self->pair_count; index++)
        moments_add (&sum, &self->pairs [index].stay);
    double pairs = (double) self->pair_count, p = sum.mean / (pairs * self->least);
    sum.third += self->least * epochs * (epochs - 1) * (epochs - 2) * p * p * (1 - p);
    double scale = 2 / (epochs * self->least * (1 - p));
    sum = moments_scaled (sum, scale);
    //  By n (W - 1) the chi-square has a mean of 1.
    sum.value += 1 - sum.mean;
    sum.mean = 1;
    trial_t trial = s_trial (self, AUDIT_UNEVEN, LOOK_UNEVEN, NULL, NULL);
    trial.made.pooled = true;
    trial.epochs = self->epoch_count;
    self->parts->uneven = s_try_stay (self, trial, sum, 0, self->epoch_count);
}

//  Lists the pairs of epochs; false: there is no memory.
static bool
s_pair_epochs (dealing_t *self)
{
    const job_t *job = self->job;
    const epoch_t **epochs = calloc (job->count? job->count: 1, sizeof *epochs);
    size_t count = 0;
    for (size_t index = 0; epochs && index < job->count; index++)
        if (job->epochs [index].finished && job->epochs [index].same == AUDIT_KINDS)
            epochs [count++] = &job->epochs [index];
    self->epoch_count = count;
    self->pairs = calloc (count * count + 1, sizeof *self->pairs);
    for (size_t after = 0; epochs && self->pairs && after < count; after++)
        for (size_t before = 0; before < after; before++) {
            pair_t *pair = &self->pairs [self->pair_count++];
            pair->before = epochs [before];
            pair->epoch = epochs [after];
            pair->lag = pair->epoch->number - pair->before->number;
            s_count_stay (self, pair);
        }
    bool fine = epochs && self->pairs;
    free (epochs);
    return fine;
}

//  Are there enough epochs and samples, and is there chance in all?
static bool
s_can_compare (const dealing_t *self)
{
    bool can = self->epoch_count >= AUDIT_DEALS_LEAST
        && self->least >= fmax (AUDIT_DEALT_LEAST, 10 * (double) self->parts->count);
    for (size_t index = 0; index < self->pair_count; index++)
        can &= self->pairs [index].stay.variance > 0;
    return can;
}

//  --------------------------------------------------------------------------

//  Room for all; false: there is none.
static bool
s_begin (dealing_t *self)
{
    size_t count = self->parts->count;
    self->rows = calloc (count, sizeof *self->rows);
    self->columns = calloc (count, sizeof *self->columns);
    self->common = calloc (count, sizeof *self->common);
    self->used = calloc (count, sizeof *self->used);
    self->own = calloc (count, sizeof *self->own);
    if (!self->rows || !self->columns || !self->common || !self->used || !self->own)
        return false;
    return s_index_parts (self->job);
}

void
audit_parts (audit_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    dealing_t dealing = { .audit = self, .job_index = job_index, .job = job, .parts = job->parts,
        .least = HUGE_VAL };
    bool fine = s_begin (&dealing);
    for (uint64_t lag = 1; fine && lag <= AUDIT_LAGS; lag++)
        s_compare_own (&dealing, lag);
    if (fine)
        s_count_groups (&dealing);
    //  Where some samples cannot meet others, that they stay is no more than this.
    if (fine && job->parts->groups == 1) {
        fine = s_pair_epochs (&dealing);
        bool comparable = fine && s_can_compare (&dealing);
        for (uint64_t lag = 1; comparable && lag <= AUDIT_LAGS; lag++)
            s_compare_stay (&dealing, lag);
        if (comparable)
            s_compare_all (&dealing);
    }
    self->out_of_memory |= !fine;
    free (dealing.rows);
    free (dealing.columns);
    free (dealing.common);
    free (dealing.used);
    free (dealing.own);
    free (dealing.pairs);
}
