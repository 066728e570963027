//  How a job is dealt to its ranks (or nodes): each rank recorded its part of every epoch.
//
//  Samples need not be dealt one by one: a job over nodes is dealt in units of 64 neighbours
//  (sampler/parts.h), so that tables of samples vary 64 times as much as chance lets them.  The recordings
//  show this: samples that were with the same rank in each of several epochs are more than chance brings
//  together.  The *bundle* is how many samples move together, on average; tables are judged as those of so
//  many fewer, larger things.  Of few epochs, which do not show it, these tests are not made.
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

//  Notes that the part has the epoch, or has not.
static void
s_join_part (audit_part_t *part, uint16_t index, const epoch_t *from, epoch_t *to)
{
    uint16_t *missed = from? &to->unfinished_in: &to->absent_from;
    if (!from || !from->finished) {
        *missed = *missed == AUDIT_NO_PART? index: *missed;
        to->finished = false;
        return;
    }
    if (from->count < part->samples_least || part->samples_most == 0)
        part->samples_least = from->count;
    if (from->count > part->samples_most)
        part->samples_most = from->count;
}

//  Adds the epoch that each part has at its own next: one sample of each part in turn.  So the samples of a
//  step over all ranks stand together, whatever the size of a batch is: recordings do not tell it.
static int
s_join_epoch (audit_t *self, audit_parts_t *parts, const size_t *next, uint64_t number)
{
    const job_t *jobs = self->jobs;
    size_t count = 0, used = 0;
    epoch_t joined = { .finished = true, .absent_from = AUDIT_NO_PART, .unfinished_in = AUDIT_NO_PART };
    bool is_whole = false;              //  some rank finished it
    for (size_t index = 0; index < parts->count; index++) {
        const epoch_t *from = next [index] < jobs [index].count? &jobs [index].epochs [next [index]]: NULL;
        from = from && from->number == number? from: NULL;
        s_join_part (&parts->part [index], (uint16_t) index, from, &joined);
        is_whole |= from && from->finished;
        count += from? from->count: 0;
    }
    uint32_t *ids = calloc (count? count: 1, sizeof *ids);
    joined.parts = calloc (count? count: 1, sizeof *joined.parts);
    for (size_t turn = 0; ids && joined.parts && used < count; turn++)
        for (size_t index = 0; index < parts->count; index++) {
            const epoch_t *from = &jobs [index].epochs [next [index]];
            if (next [index] == jobs [index].count || from->number != number || turn >= from->count)
                continue;
            joined.parts [used] = (uint16_t) index;
            ids [used++] = from->ids [turn];
        }
    if (!ids || !joined.parts || audit_add_epoch (self, number, &ids, count, joined.finished)) {
        free (ids);
        free (joined.parts);
        return -ENOMEM;
    }
    job_t *whole = &self->jobs [parts->count];
    epoch_t *kept = &whole->epochs [whole->count - 1];
    kept->parts = joined.parts;
    //  What no rank has finished is no more than begun, on the ranks that have nothing of it too.
    kept->absent_from = is_whole? joined.absent_from: AUDIT_NO_PART;
    kept->unfinished_in = joined.unfinished_in;
    return 0;
}

//  Joins the epochs of all jobs but the last into this one.
static int
s_join_epochs (audit_t *self, audit_parts_t *parts)
{
    size_t *next = calloc (parts->count, sizeof *next);
    int rc = next? 0: -ENOMEM;
    while (rc == 0) {
        uint64_t number = UINT64_MAX;
        for (size_t index = 0; index < parts->count; index++) {
            const job_t *job = &self->jobs [index];
            if (next [index] < job->count && job->epochs [next [index]].number < number)
                number = job->epochs [next [index]].number;
        }
        if (number == UINT64_MAX)
            break;
        rc = s_join_epoch (self, parts, next, number);
        for (size_t index = 0; index < parts->count; index++) {
            const job_t *job = &self->jobs [index];
            if (next [index] == job->count || job->epochs [next [index]].number != number)
                continue;
            epoch_t *used = &job->epochs [next [index]++];
            free (used->ids);
            used->ids = NULL;
        }
    }
    free (next);
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

typedef struct {
    audit_t *audit;
    size_t job_index;
    const job_t *job;
    audit_parts_t *parts;
    const epoch_t **epochs;     //  the finished ones of an order of their own
    size_t epoch_count;
    double weight;              //  samples that count as one thing; 0: too little to judge tables
    //  A pair of epochs: cells [part before * parts + part after]; cells NULL: weight is 0.
    uint64_t *cells, *rows, *columns;
    size_t *common, *used;      //  by part: samples that it has in both
    double *expected;           //  by part: how often it is due to have a sample
    series_t table, all, *own;  //  of one lag
    double stays;               //  the sum of its table's
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
    for (size_t rank = 0; rank < job->universe_count; rank++) {
        size_t first = AUDIT_NO_PART;
        for (size_t index = 0; index < job->count; index++) {
            size_t part = job->epochs [index].parts [rank];
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
//  Bundles

//  How probable it is that two samples are with the same rank in the epoch.
static double
s_together (dealing_t *self, const epoch_t *epoch)
{
    double n = (double) epoch->count, pairs = 0;
    memset (self->rows, 0, self->parts->count * sizeof *self->rows);
    for (size_t place = 0; place < epoch->count; place++)
        self->rows [epoch->parts [epoch->ids [place]]]++;
    for (size_t part = 0; part < self->parts->count; part++)
        pairs += (double) self->rows [part] * ((double) self->rows [part] - 1);
    return n > 1? pairs / (n * (n - 1)): 1;
}

static int
s_compare_keys (const void *one, const void *two)
{
    const uint64_t *first = one, *second = two;
    return *first < *second? -1: *first > *second;
}

//  Of samples that all these epochs have: with how many a sample was together in all of them, itself counted,
//  less what chance brings together.  If all move in bundles of one size, this is the size.
static double
s_bundle (audit_t *audit, const job_t *job, const epoch_t *const *epochs, size_t epoch_count, double together)
{
    size_t count = 0;
    for (size_t rank = 0; rank < job->universe_count; rank++) {
        uint64_t key = 0;
        bool is_whole = true;
        for (size_t index = 0; index < epoch_count && is_whole; index++) {
            is_whole = epochs [index]->parts [rank] != AUDIT_NO_PART;
            key = audit_mix (key + epochs [index]->parts [rank] + 1);
        }
        if (is_whole)
            audit->keys [count++] = key;
    }
    qsort (audit->keys, count, sizeof *audit->keys, s_compare_keys);
    double n = (double) count, squares = 0;
    for (size_t index = 0, next; index < count; index = next) {
        for (next = index; next < count && audit->keys [next] == audit->keys [index];)
            next++;
        squares += (double) (next - index) * (double) (next - index);
    }
    return count? 1 + (squares / n - 1 - (n - 1) * together) / (1 - together): 1;
}

//  Windows are as short as they may be, so that few bundles are cut at the end of a rank's part within one.
//  Their mean is off by about sqrt (2 together): what may be chance is taken for bundles of one sample, and
//  larger ones rather for too large.
static void
s_measure_bundle (dealing_t *self)
{
    double sum = 0, together = 1, worst = 0;
    size_t windows = 0;
    for (size_t index = 0, begin = 0; index < self->epoch_count; index++) {
        together *= s_together (self, self->epochs [index]);
        if (together > AUDIT_TOGETHER_P || index + 1 - begin < AUDIT_WINDOW_LEAST)
            continue;
        sum += s_bundle (self->audit, self->job, self->epochs + begin, index + 1 - begin, together);
        windows++;
        worst = fmax (worst, together);
        together = 1;
        begin = index + 1;
    }
    if (windows == 0)
        return;
    double margin = 1 + 3 * sqrt (2 * worst), bundle = sum / (double) windows;
    self->parts->bundle = bundle > margin? bundle: 1;
    self->weight = bundle > margin? bundle * margin: 1;
    double least = fmax (AUDIT_DEALT_LEAST, (double) self->parts->count * (double) self->parts->count);
    if ((double) self->job->universe_count / self->weight < least)
        self->weight = 0;
}

//  --------------------------------------------------------------------------
//  An epoch and a later one

static trial_t
s_trial (const dealing_t *self, audit_kind_t kind, look_t look, const epoch_t *before, const epoch_t *epoch)
{
    return (trial_t) { .made = { .kind = kind, .job = self->job_index }, .look = look,
        .other = self->job_index, .epoch = epoch? epoch->number: 0, .before = before? before->number: 0,
        .part = AUDIT_NONE };
}

//  Fills in the pair's table; then audit->mark has the place of each sample that stays, among those that stay
//  with its rank, in the later epoch, and common counts them.
static void
s_fill (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    size_t count = self->parts->count;
    memset (self->common, 0, count * sizeof *self->common);
    memset (self->rows, 0, count * sizeof *self->rows);
    memset (self->columns, 0, count * sizeof *self->columns);
    if (self->cells)
        memset (self->cells, 0, count * count * sizeof *self->cells);
    for (size_t place = 0; place < epoch->count; place++) {
        uint32_t rank = epoch->ids [place];
        size_t row = before->parts [rank], column = epoch->parts [rank];
        if (row == AUDIT_NO_PART)
            continue;
        self->rows [row]++;
        self->columns [column]++;
        if (self->cells)
            self->cells [row * count + column]++;
        if (row == column)
            self->audit->mark [rank] = (uint32_t) self->common [row]++;
    }
}

//  Does where a sample comes depend on where it was?
static void
s_see_table (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    double rows = 0, columns = 0, all = 0, stay = 0, due = 0;
    for (size_t part = 0; part < self->parts->count; part++) {
        rows += self->rows [part] > 0;
        columns += self->columns [part] > 0;
        all += (double) self->rows [part];
        stay += (double) self->common [part];
        due += (double) self->rows [part] * (double) self->columns [part];
    }
    if (!self->cells || rows < 2 || columns < 2 || all / self->weight < AUDIT_DEALT_LEAST)
        return;
    trial_t trial = s_trial (self, AUDIT_STAYING, LOOK_STAYING, before, epoch);
    trial.stays = due > 0? stay * all / due: 0;
    moments_t moments = relation_table (self->cells, self->rows, self->columns, self->parts->count,
        self->weight);
    moments = audit_phi2 (moments, self->weight * (rows - 1) * (columns - 1), (size_t) all);
    self->stays += trial.stays;
    audit_see (self->audit, trial, &self->table, &moments, audit_is_tested (before, epoch));
}

//  Does a rank's own order depend on its order before?
static void
s_see_own (dealing_t *self, const epoch_t *before, const epoch_t *epoch)
{
    size_t begin = 0;
    for (size_t part = 0; part < self->parts->count; part++) {
        self->used [part] = begin;
        begin += self->common [part];
    }
    for (size_t place = 0; place < before->count; place++) {
        uint32_t rank = before->ids [place];
        uint16_t part = before->parts [rank];
        if (epoch->parts [rank] == part)
            self->audit->relative [self->used [part]++] = self->audit->mark [rank];
    }
    for (size_t part = 0; part < self->parts->count; part++) {
        size_t count = self->common [part];
        if (count < AUDIT_TENTHS_LEAST)
            continue;
        double degrees = (RELATION_TENTHS - 1) * (RELATION_TENTHS - 1);
        moments_t phi2 = relation_tenths (self->audit->relative + self->used [part] - count, count);
        phi2 = audit_phi2 (phi2, degrees, count);
        trial_t trial = s_trial (self, AUDIT_OWN_STALE, LOOK_OWN, before, epoch);
        trial.part = (uint32_t) part;
        bool tested = audit_is_tested (before, epoch);
        audit_see (self->audit, trial, &self->own [part], &phi2, tested);
        audit_series_add (&self->all, &phi2, tested);
    }
}

static void
s_see_lag (dealing_t *self, uint64_t lag)
{
    audit_parts_t *parts = self->parts;
    const job_t *job = self->job;
    memset (self->own, 0, parts->count * sizeof *self->own);
    self->table = self->all = (series_t) { .all_count = 0 };
    self->stays = 0;
    for (size_t index = 0; index < job->count; index++) {
        const epoch_t *before = &job->epochs [index], *epoch = audit_later (job, index, lag);
        if (!epoch)
            continue;
        s_fill (self, before, epoch);
        s_see_table (self, before, epoch);
        s_see_own (self, before, epoch);
    }
    trial_t trial = s_trial (self, AUDIT_STAYING, LOOK_STAYING, NULL, NULL);
    trial.epoch = lag;                  //  pooled: the distance
    trial.stays = self->stays / fmax (1, (double) self->table.all_count);
    parts->rank_phi2 [lag - 1] = audit_series_end (self->audit, trial, &self->table);
    trial.made.kind = AUDIT_OWN_STALE;
    trial.look = LOOK_OWN;
    parts->own_phi2 [lag - 1] = audit_series_end (self->audit, trial, &self->all);
    for (size_t part = 0; part < parts->count; part++) {
        trial.part = part;
        parts->part [part].own_phi2 [lag - 1] = audit_series_end (self->audit, trial, &self->own [part]);
    }
}

//  --------------------------------------------------------------------------
//  All epochs together

static bool
s_is_whole (const dealing_t *self, size_t rank)
{
    for (size_t index = 0; index < self->epoch_count; index++)
        if (self->epochs [index]->parts [rank] == AUDIT_NO_PART)
            return false;
    return true;
}

//  The squares of how often the sample was with each rank, by what is expected.  used is zeros, and stays so.
static double
s_sample_squares (dealing_t *self, size_t rank)
{
    double sum = 0;
    for (size_t index = 0; index < self->epoch_count; index++)
        self->used [self->epochs [index]->parts [rank]]++;
    for (size_t index = 0; index < self->epoch_count; index++) {
        size_t part = self->epochs [index]->parts [rank];
        sum += (double) self->used [part] * (double) self->used [part] / self->expected [part];
        self->used [part] = 0;
    }
    return sum;
}

//  Marks the samples that all epochs have, and sets how often each rank is due to have one of them; returns
//  their number.
static size_t
s_expect (dealing_t *self)
{
    size_t samples = 0;
    memset (self->rows, 0, self->parts->count * sizeof *self->rows);
    for (size_t rank = 0; rank < self->job->universe_count; rank++) {
        samples += self->audit->mark [rank] = s_is_whole (self, rank);
        for (size_t index = 0; self->audit->mark [rank] && index < self->epoch_count; index++)
            self->rows [self->epochs [index]->parts [rank]]++;
    }
    for (size_t part = 0; samples && part < self->parts->count; part++)
        self->expected [part] = (double) self->rows [part] / (double) samples;
    return samples;
}

//  Are samples with some ranks more often than with others?  Chi-square of "sample" x "rank".  With parts of
//  equal size this is whether samples stay with their rank, over all pairs of epochs, which are uncorrelated.
//  So mean and variance are exact where a rank's part has the same size in all epochs; else the mean is less.
//  The third moment is that of samples that are dealt independently.
static void
s_see_evenness (dealing_t *self)
{
    size_t count = self->parts->count, samples = s_expect (self);
    double n = (double) samples, epochs = (double) self->epoch_count, parts = 0, sum = 0;
    for (size_t part = 0; part < count; part++)
        parts += self->expected [part] > 0;
    if (n / self->weight < AUDIT_DEALT_LEAST || parts < 2)
        return;
    memset (self->used, 0, count * sizeof *self->used);
    for (size_t rank = 0; rank < self->job->universe_count; rank++)
        if (self->audit->mark [rank])
            sum += s_sample_squares (self, rank);
    moments_t chi_square = { .value = sum - n * epochs, .mean = n * (parts - 1),
        .variance = self->weight * 2 * (parts - 1) * (1 - 1 / epochs) * n * n / (n - 1),
        .third = self->weight * self->weight * n * (parts - 1) * (epochs - 1) / (epochs * epochs)
            * (4 * (parts - 2) + 8 * (epochs - 2)) };
    moments_t ratio = moments_scaled (chi_square, 1 / chi_square.mean);
    trial_t trial = s_trial (self, AUDIT_UNEVEN, LOOK_UNEVEN, NULL, NULL);
    series_t series = { .all_count = 0 };
    trial.made.pooled = true;
    trial.epochs = self->epoch_count;
    audit_see (self->audit, trial, &series, &ratio, true);
    self->parts->unevenness = audit_figure (&series.all, 1);
    self->parts->unevenness.count = self->epoch_count;
}

//  --------------------------------------------------------------------------

//  Room for all; false: there is none.
static bool
s_begin (dealing_t *self)
{
    const job_t *job = self->job;
    size_t count = self->parts->count;
    self->rows = calloc (count, sizeof *self->rows);
    self->columns = calloc (count, sizeof *self->columns);
    self->common = calloc (count, sizeof *self->common);
    self->used = calloc (count, sizeof *self->used);
    self->expected = calloc (count, sizeof *self->expected);
    self->own = calloc (count, sizeof *self->own);
    self->epochs = calloc (job->count? job->count: 1, sizeof *self->epochs);
    if (!self->rows || !self->columns || !self->common || !self->used || !self->expected || !self->own
    ||  !self->epochs)
        return false;
    for (size_t index = 0; index < job->count; index++)
        if (job->epochs [index].finished && job->epochs [index].same == AUDIT_KINDS)
            self->epochs [self->epoch_count++] = &job->epochs [index];
    if (!s_index_parts (job))
        return false;
    s_count_groups (self);
    //  Where some samples cannot meet others, tables of all say no more than that.
    if (self->parts->groups == 1)
        s_measure_bundle (self);
    if (self->weight > 0)
        self->cells = calloc (count * count, sizeof *self->cells);
    return self->weight == 0 || self->cells;
}

void
audit_parts (audit_t *self, size_t job_index)
{
    job_t *job = &self->jobs [job_index];
    dealing_t dealing = { .audit = self, .job_index = job_index, .job = job, .parts = job->parts };
    if (s_begin (&dealing)) {
        for (uint64_t lag = 1; lag <= AUDIT_LAGS; lag++)
            s_see_lag (&dealing, lag);
        if (dealing.weight > 0)
            s_see_evenness (&dealing);
    }
    else
        self->out_of_memory = true;
    free (dealing.rows);
    free (dealing.columns);
    free (dealing.common);
    free (dealing.used);
    free (dealing.expected);
    free (dealing.own);
    free (dealing.epochs);
    free (dealing.cells);
}
