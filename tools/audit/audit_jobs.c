//  Jobs against each other: are they independent replicates?
//
//  Each two jobs are compared in each epoch of the same number, on about SKETCH_IDS ids, the same for all:
//  the ids with a small hash.  So the work for two jobs does not grow with their data.  Jobs that have too
//  few of these ids in common are never reported as "same order".

#include "audit.h"
#include <math.h>
#include <stdlib.h>
#include "audit_state.h"

enum { SKETCH_IDS = 1024 };

//  Two orders are called the same if their positions correlate that much.
#define JOBS_SAME_CORRELATION 0.9

//  The hash below which an id is in the sample.
static uint64_t
s_threshold (const audit_t *self)
{
    size_t largest = 0;
    for (size_t index = 0; index < self->job_count; index++)
        if (self->jobs [index].universe_count > largest)
            largest = self->jobs [index].universe_count;
    return largest <= SKETCH_IDS? UINT64_MAX: UINT64_MAX / largest * SKETCH_IDS;
}

typedef struct { uint32_t id, place; } placed_t;

static int
s_compare_placed (const void *one, const void *two)
{
    const placed_t *first = one, *second = two;
    return first->id < second->id? -1: first->id > second->id;
}

//  Fills in the epoch's sketch; false: no memory.
static bool
s_sketch_epoch (const job_t *job, epoch_t *epoch, uint64_t threshold)
{
    size_t count = 0;
    for (size_t place = 0; place < epoch->count; place++)
        count += audit_mix (job->universe [epoch->ids [place]]) <= threshold;
    size_t room = count? count: 1;
    placed_t *placed = calloc (room, sizeof *placed);
    epoch->sketch = calloc (room, sizeof *epoch->sketch);
    epoch->sketch_ids = calloc (room, sizeof *epoch->sketch_ids);
    epoch->sketch_places = calloc (room, sizeof *epoch->sketch_places);
    bool fine = placed && epoch->sketch && epoch->sketch_ids && epoch->sketch_places;
    for (size_t place = 0; fine && place < epoch->count; place++) {
        uint32_t id = job->universe [epoch->ids [place]];
        if (audit_mix (id) > threshold)
            continue;
        placed [epoch->sketch_count] = (placed_t) { id, (uint32_t) epoch->sketch_count };
        epoch->sketch [epoch->sketch_count++] = id;
    }
    if (fine)
        qsort (placed, count, sizeof *placed, s_compare_placed);
    for (size_t index = 0; fine && index < count; index++) {
        epoch->sketch_ids [index] = placed [index].id;
        epoch->sketch_places [index] = placed [index].place;
    }
    free (placed);
    return fine;
}

//  The place of an id in the sketch; AUDIT_NONE: it is not in it.
static uint32_t
s_find (const epoch_t *epoch, uint32_t id)
{
    size_t low = 0, high = epoch->sketch_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (epoch->sketch_ids [middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < epoch->sketch_count && epoch->sketch_ids [low] == id? epoch->sketch_places [low]: AUDIT_NONE;
}

//  Sets relative for the sampled ids that both have; returns their number.  mark has room for the second's.
static size_t
s_relate (const epoch_t *first, const epoch_t *second, uint32_t *relative, uint32_t *mark)
{
    size_t common = 0;
    for (size_t place = 0; place < second->sketch_count; place++)
        mark [place] = 0;
    for (size_t place = 0; place < first->sketch_count; place++) {
        uint32_t found = s_find (second, first->sketch [place]);
        if (found != AUDIT_NONE) {
            mark [found] = 1;
            relative [common++] = found;
        }
    }
    for (size_t place = 0, below = 0; place < second->sketch_count; place++) {
        size_t counts = mark [place];
        mark [place] = (uint32_t) below;
        below += counts;
    }
    for (size_t index = 0; index < common; index++)
        relative [index] = mark [relative [index]];
    return common;
}

static bool
s_is_identical (const audit_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second)
{
    return first->count > 0 && first->count == second->count && first->hash == second->hash
        && self->jobs [job].universe [first->ids [0]] == self->jobs [other].universe [second->ids [0]];
}

//  Too few ids for the table: only the same order as a whole is seen.
static void
s_compare_small (audit_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second)
{
    trial_t trial = { .made = { .kind = AUDIT_SAME_ORDER, .job = job, .p = 1 }, .look = LOOK_FILES,
        .other = other, .epoch = first->number };
    trial.identical = s_is_identical (self, job, other, first, second);
    if (trial.identical)
        trial.made.p = exp (-lgamma ((double) first->count + 1));
    audit_push_trial (self, &trial);
}

static void
s_compare_epochs (audit_t *self, size_t job, size_t other, const epoch_t *first, const epoch_t *second,
uint32_t *scratch [2])
{
    size_t count = s_relate (first, second, scratch [0], scratch [1]);
    //  Ids in ascending or descending order in both show nothing of a common source.
    if (count < AUDIT_SAME_LEAST || (first->same == AUDIT_SORTED && second->same == AUDIT_SORTED))
        return;
    if (count < AUDIT_TENTHS_LEAST) {
        s_compare_small (self, job, other, first, second);
        return;
    }
    moments_t tenths = relation_tenths (scratch [0], count), rank = relation_rank (scratch [0], count);
    double degrees = (RELATION_TENTHS - 1) * (RELATION_TENTHS - 1);
    trial_t trial = { .made = { .kind = AUDIT_RELATED_ORDER, .job = job, .p = moments_tail (&tenths) },
        .look = LOOK_FILES, .other = other, .epoch = first->number,
        .value = (tenths.value - degrees) / (double) count,
        .spread = sqrt (tenths.variance) / (double) count };
    if (rank.value >= JOBS_SAME_CORRELATION)
        trial.made.kind = AUDIT_SAME_ORDER;
    trial.identical = s_is_identical (self, job, other, first, second);
    audit_push_trial (self, &trial);
}

static void
s_compare_jobs (audit_t *self, size_t job, size_t other, uint32_t *scratch [2])
{
    const job_t *one = &self->jobs [job], *two = &self->jobs [other];
    for (size_t index = 0, next = 0; index < one->count; index++) {
        while (next < two->count && two->epochs [next].number < one->epochs [index].number)
            next++;
        if (next < two->count && two->epochs [next].number == one->epochs [index].number)
            s_compare_epochs (self, job, other, &one->epochs [index], &two->epochs [next], scratch);
    }
}

void
audit_jobs_together (audit_t *self)
{
    uint64_t threshold = s_threshold (self);
    size_t longest = 1;
    for (size_t job = 0; job < self->job_count; job++)
        for (size_t index = 0; index < self->jobs [job].count; index++) {
            epoch_t *epoch = &self->jobs [job].epochs [index];
            if (!s_sketch_epoch (&self->jobs [job], epoch, threshold)) {
                self->out_of_memory = true;
                return;
            }
            longest = epoch->sketch_count > longest? epoch->sketch_count: longest;
        }
    uint32_t *scratch [2] = { calloc (longest, sizeof (uint32_t)), calloc (longest, sizeof (uint32_t)) };
    self->out_of_memory |= !scratch [0] || !scratch [1];
    for (size_t job = 0; !self->out_of_memory && job < self->job_count; job++)
        for (size_t other = job + 1; other < self->job_count; other++)
            s_compare_jobs (self, job, other, scratch);
    free (scratch [0]);
    free (scratch [1]);
}
