#include "strata.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

enum {
    STRATA_MAGIC = 0x57a7a001,
    //  Marks: a job's number, TAKEN + its number, DEPARTED + an index.
    TAKEN = SAMPLER_JOBS_MAX, DEPARTED = 2 * SAMPLER_JOBS_MAX,
    MARK_WORDS = STRATA_MARKS / 64,
    LIVE_WORDS = DEPARTED / 64                  //  of the jobs that are there
};

_Static_assert (STRATA_MOST <= 1 << 16, "labels are 16 bits");

typedef struct {
    bool used;
    uint32_t size;
    uint64_t marks [MARK_WORDS];
} stratum_t;

//  The mark of a job that has left, or of what had been taken of an epoch that is over.
typedef struct {
    uint32_t waiting;                           //  jobs that have not begun enough epochs
    uint8_t epochs [SAMPLER_JOBS_MAX];          //  how many each has to begin still
} departed_t;

struct strata {
    uint32_t magic;
    //  Set at birth.
    uint32_t sample_count;
    size_t bound;
    //  Owner only.
    uint16_t *labels;                           //  NULL: all samples are in stratum 0
    stratum_t *strata;                          //  room of them; labels below room are in use or free
    size_t room, count;
    bool marked [SAMPLER_JOBS_MAX];             //  jobs that have marks
    bool had_taken [SAMPLER_JOBS_MAX];          //  those that have one for what was taken, too
    size_t marks;                               //  in use, departed ones too: at most SAMPLER_JOBS_MAX, so
                                                //  that every one that departs finds a place
    departed_t *departed [SAMPLER_JOBS_MAX];    //  of mark DEPARTED + index; NULL: free
};

//  ------------------------------------------------------------------------------------------------
//  Life

strata_t *
strata_new (uint32_t sample_count)
{
    strata_t *self = xalloc_jobs (calloc (1, sizeof *self));
    self->magic = STRATA_MAGIC;
    self->sample_count = sample_count;
    self->bound = sample_count / STRATA_SHARE;
    if (self->bound < STRATA_LEAST)
        self->bound = STRATA_LEAST;
    if (self->bound > STRATA_MOST)
        self->bound = STRATA_MOST;
    self->room = self->count = 1;
    self->strata = xalloc_jobs (calloc (1, sizeof *self->strata));
    self->strata [0] = (stratum_t) { .used = true, .size = sample_count };
    return self;
}

void
strata_destroy (strata_t **self_p)
{
    strata_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == STRATA_MAGIC);
    for (size_t index = 0; index < SAMPLER_JOBS_MAX; index++)
        free (self->departed [index]);
    free (self->strata);
    free (self->labels);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

uint32_t
strata_of (const strata_t *self, uint32_t id)
{
    return self->labels? self->labels [id]: 0;
}

size_t
strata_bound (const strata_t *self)
{
    return self->bound;
}

size_t
strata_count (const strata_t *self)
{
    return self->count;
}

static void
s_set_mark (stratum_t *stratum, size_t mark)
{
    stratum->marks [mark / 64] |= UINT64_C (1) << mark % 64;
}

static void
s_clear_mark (stratum_t *stratum, size_t mark)
{
    stratum->marks [mark / 64] &= ~(UINT64_C (1) << mark % 64);
}

static bool
s_has_mark (const stratum_t *stratum, size_t mark)
{
    return stratum->marks [mark / 64] >> mark % 64 & 1;
}

//  ------------------------------------------------------------------------------------------------
//  Refining

typedef struct {
    strata_t *self;
    uint32_t *inside;           //  by label: how many of the data carry it
    uint16_t *parts;            //  by label: what the part inside becomes
} refining_t;

static bool
s_count_inside (uint32_t id, void *context)
{
    refining_t *refining = context;
    refining->inside [strata_of (refining->self, id)]++;
    return true;
}

static bool
s_relabel (uint32_t id, void *context)
{
    refining_t *refining = context;
    uint16_t *label = &refining->self->labels [id];
    *label = refining->parts [*label];
    return true;
}

static uint16_t
s_take_label (strata_t *self)
{
    size_t label = 0;
    while (label < self->room && self->strata [label].used)
        label++;
    if (label == self->room) {
        self->room *= 2;
        self->strata = xalloc_jobs (realloc (self->strata, self->room * sizeof *self->strata));
        memset (self->strata + label, 0, (self->room - label) * sizeof *self->strata);
    }
    self->count++;
    self->strata [label] = (stratum_t) { .used = true };
    return (uint16_t) label;
}

//  Gives the part inside of each stratum that is only partly inside a label of its own.
static void
s_split (refining_t *refining, size_t labels)
{
    strata_t *self = refining->self;
    for (size_t label = 0; label < labels; label++) {
        refining->parts [label] = (uint16_t) label;
        uint32_t inside = refining->inside [label];
        if (inside == 0 || inside == self->strata [label].size)
            continue;
        uint16_t part = s_take_label (self);
        memcpy (self->strata [part].marks, self->strata [label].marks, sizeof self->strata [part].marks);
        self->strata [part].size = inside;
        self->strata [label].size -= inside;
        refining->parts [label] = part;
    }
}

//  Splits strata by the ids that get this mark.  False: refused, nothing changed.
static bool
s_mark (strata_t *self, size_t mark, const roaring_bitmap_t *ids)
{
    size_t labels = self->room, splits = 0;
    refining_t refining = { .self = self };
    refining.inside = xalloc_jobs (calloc (labels, sizeof *refining.inside));
    refining.parts = xalloc_jobs (calloc (labels, sizeof *refining.parts));
    roaring_iterate (ids, s_count_inside, &refining);
    for (size_t label = 0; label < labels; label++)
        splits += refining.inside [label] > 0 && refining.inside [label] < self->strata [label].size;
    bool fits = self->count + splits <= self->bound && self->marks < SAMPLER_JOBS_MAX;
    if (fits) {
        if (splits > 0 && !self->labels) {
            self->labels = xalloc_jobs (calloc (self->sample_count, sizeof *self->labels));
        }
        s_split (&refining, labels);
        if (splits > 0)
            roaring_iterate (ids, s_relabel, &refining);
        for (size_t label = 0; label < labels; label++)
            if (refining.inside [label] > 0)
                s_set_mark (&self->strata [refining.parts [label]], mark);
        self->marks++;
    }
    free (refining.inside);
    free (refining.parts);
    return fits;
}

bool
strata_refine (strata_t *self, uint32_t job, const roaring_bitmap_t *data)
{
    assert (self->magic == STRATA_MAGIC);
    assert (!self->marked [job]);
    self->marked [job] = s_mark (self, job, data);
    return self->marked [job];
}

bool
strata_refine_taken (strata_t *self, uint32_t job, const roaring_bitmap_t *taken)
{
    assert (self->magic == STRATA_MAGIC);
    assert (self->marked [job] && !self->had_taken [job]);
    self->had_taken [job] = s_mark (self, TAKEN + job, taken);
    return self->had_taken [job];
}

//  ------------------------------------------------------------------------------------------------
//  Departures

static bool
s_leave_waits (strata_t *self, uint32_t job, uint8_t epochs)
{
    bool done = false;
    for (size_t index = 0; index < SAMPLER_JOBS_MAX; index++) {
        departed_t *departed = self->departed [index];
        if (!departed || departed->epochs [job] == 0)
            continue;
        departed->epochs [job] = epochs < departed->epochs [job]? (uint8_t) (departed->epochs [job] - epochs):
            0;
        if (departed->epochs [job] == 0 && --departed->waiting == 0)
            done = true;
    }
    return done;
}

//  By marks; mark words from `words` on are not looked at.
typedef struct {
    const strata_t *self;
    size_t words;
} comparing_t;

static int
s_compare (const void *one, const void *other, void *context)
{
    const comparing_t *comparing = context;
    const stratum_t *strata = comparing->self->strata;
    uint16_t a = *(const uint16_t *) one, b = *(const uint16_t *) other;
    int order = memcmp (strata [a].marks, strata [b].marks, comparing->words * sizeof (uint64_t));
    return order? order: (a > b) - (a < b);
}

//  The labels in use, those with the same marks beside each other, the smallest first.  Yours to free.
static uint16_t *
s_sorted (const strata_t *self, size_t words)
{
    uint16_t *labels = xalloc_jobs (malloc (self->count * sizeof *labels));
    size_t count = 0;
    for (size_t label = 0; label < self->room; label++)
        if (self->strata [label].used)
            labels [count++] = (uint16_t) label;
    assert (count == self->count);
    comparing_t comparing = { self, words };
    qsort_r (labels, count, sizeof *labels, s_compare, &comparing);
    return labels;
}

//  Whether samples that only this mark told apart would become one stratum for the jobs that are there: then
//  it has to stay.  It is cleared already in what had it, which had [label] tells.
static bool
s_tells_apart (const strata_t *self, const bool *had)
{
    uint16_t *labels = s_sorted (self, LIVE_WORDS);
    bool tells = false;
    for (size_t index = 1; index < self->count && !tells; index++)
        tells = had [labels [index]] != had [labels [index - 1]]
            && memcmp (self->strata [labels [index]].marks, self->strata [labels [index - 1]].marks,
                LIVE_WORDS * sizeof (uint64_t)) == 0;
    free (labels);
    return tells;
}

//  A departed mark on just these strata, or a new one.
static size_t
s_departed_mark (strata_t *self, const bool *had)
{
    size_t free_index = SAMPLER_JOBS_MAX;
    for (size_t index = 0; index < SAMPLER_JOBS_MAX; index++) {
        if (!self->departed [index]) {
            free_index = index < free_index? index: free_index;
            continue;
        }
        size_t label = 0;
        while (label < self->room && (!self->strata [label].used
                || s_has_mark (&self->strata [label], DEPARTED + index) == had [label]))
            label++;
        if (label == self->room)
            return index;
    }
    assert (free_index < SAMPLER_JOBS_MAX);             //  see marks
    self->departed [free_index] = xalloc_jobs (calloc (1, sizeof **self->departed));
    self->marks++;
    for (size_t label = 0; label < self->room; label++)
        if (had [label])
            s_set_mark (&self->strata [label], DEPARTED + free_index);
    return free_index;
}

//  Takes the mark from the strata; which had it is yours to free.
static bool *
s_take_mark (strata_t *self, size_t mark)
{
    bool *had = xalloc_jobs (calloc (self->room, sizeof *had));
    for (size_t label = 0; label < self->room; label++) {
        had [label] = self->strata [label].used && s_has_mark (&self->strata [label], mark);
        s_clear_mark (&self->strata [label], mark);
    }
    self->marks--;
    return had;
}

//  A mark that was taken from what had it (freed here) stays as a departed one if it has to, and waits for
//  jobs.  True: it waits for no job.
static bool
s_keep (strata_t *self, bool *had, const uint32_t *jobs, size_t count)
{
    bool done = false;
    if (s_tells_apart (self, had)) {
        departed_t *departed = self->departed [s_departed_mark (self, had)];
        for (size_t index = 0; index < count; index++)
            if (self->marked [jobs [index]]) {
                departed->waiting += departed->epochs [jobs [index]] == 0;
                departed->epochs [jobs [index]] = STRATA_EPOCHS_KEPT;
            }
        done = departed->waiting == 0;
    }
    free (had);
    return done;
}

bool
strata_depart (strata_t *self, uint32_t job, const uint32_t *others, size_t count)
{
    assert (self->magic == STRATA_MAGIC);
    assert (self->marked [job]);
    bool done = s_leave_waits (self, job, UINT8_MAX);
    bool *had_data = s_take_mark (self, job);
    bool *had_taken = self->had_taken [job]? s_take_mark (self, TAKEN + job): NULL;
    self->marked [job] = self->had_taken [job] = false;
    if (s_keep (self, had_data, others, count))
        done = true;
    if (had_taken && s_keep (self, had_taken, others, count))
        done = true;
    return done;
}

bool
strata_epoch_begun (strata_t *self, uint32_t job)
{
    bool done = s_leave_waits (self, job, 1);
    if (!self->had_taken [job])
        return done;
    uint32_t jobs [SAMPLER_JOBS_MAX];           //  this one among them
    size_t count = 0;
    for (uint32_t other = 0; other < SAMPLER_JOBS_MAX; other++)
        if (self->marked [other] && strata_overlap (self, job, other))
            jobs [count++] = other;
    bool *had = s_take_mark (self, TAKEN + job);
    self->had_taken [job] = false;
    return s_keep (self, had, jobs, count) || done;
}

static void
s_drop_marks (strata_t *self)
{
    for (size_t index = 0; index < SAMPLER_JOBS_MAX; index++) {
        if (!self->departed [index] || self->departed [index]->waiting > 0)
            continue;
        for (size_t label = 0; label < self->room; label++)
            s_clear_mark (&self->strata [label], DEPARTED + index);
        free (self->departed [index]);
        self->departed [index] = NULL;
        self->marks--;
    }
}

//  Makes one of strata that have the same marks.
static void
s_merge_twins (strata_t *self)
{
    uint16_t *becomes = xalloc_jobs (calloc (self->room, sizeof *becomes));
    uint16_t *labels = s_sorted (self, MARK_WORDS);
    for (size_t index = 0, count = self->count; index < count; index++) {
        stratum_t *stratum = &self->strata [labels [index]];
        uint16_t first = index > 0? becomes [labels [index - 1]]: labels [index];
        bool same = memcmp (self->strata [first].marks, stratum->marks, sizeof stratum->marks) == 0;
        becomes [labels [index]] = same? first: labels [index];
        if (!same || first == labels [index])
            continue;
        self->strata [first].size += stratum->size;
        stratum->used = false;
        self->count--;
    }
    free (labels);
    //  Label 0 is never merged into another.
    if (self->count == 1) {
        free (self->labels);
        self->labels = NULL;
    }
    for (uint32_t id = 0; self->labels && id < self->sample_count; id++)
        self->labels [id] = becomes [self->labels [id]];
    free (becomes);
}

void
strata_merge (strata_t *self)
{
    assert (self->magic == STRATA_MAGIC);
    s_drop_marks (self);
    s_merge_twins (self);
}

void
strata_cancel (strata_t *self, uint32_t job)
{
    assert (self->magic == STRATA_MAGIC);
    assert (self->marked [job]);
    free (s_take_mark (self, job));
    if (self->had_taken [job])
        free (s_take_mark (self, TAKEN + job));
    self->marked [job] = self->had_taken [job] = false;
    s_merge_twins (self);
}

void
strata_drop (strata_t *self, uint32_t id)
{
    assert (self->magic == STRATA_MAGIC);
    stratum_t *stratum = &self->strata [strata_of (self, id)];
    assert (stratum->size > 0);
    stratum->size--;
}

size_t
strata_sole (const strata_t *self, uint32_t job)
{
    size_t sole = self->bound, count = 0;
    for (size_t label = 0; label < self->room && count < 2; label++)
        if (self->strata [label].used && s_has_mark (&self->strata [label], job)) {
            sole = label;
            count++;
        }
    return count == 1? sole: self->bound;
}

bool
strata_overlap (const strata_t *self, uint32_t job, uint32_t other)
{
    for (size_t label = 0; label < self->room; label++) {
        const stratum_t *stratum = &self->strata [label];
        if (stratum->used && stratum->size > 0 && s_has_mark (stratum, job) && s_has_mark (stratum, other))
            return true;
    }
    return false;
}

//  ------------------------------------------------------------------------------------------------
//  Invariants

void
strata_check (const strata_t *self, const roaring_bitmap_t *readable)
{
    assert (self->magic == STRATA_MAGIC);
    uint32_t *sizes = xalloc_jobs (calloc (self->room, sizeof *sizes));
    for (uint32_t id = 0; id < self->sample_count; id++)
        if (roaring_bitmap_contains (readable, id)) {
            assert (self->strata [strata_of (self, id)].used);
            sizes [strata_of (self, id)]++;
        }
    size_t count = 0;
    for (size_t label = 0; label < self->room; label++) {
        if (!self->strata [label].used)
            continue;
        count++;
        assert (sizes [label] == self->strata [label].size);                //  T1
        for (size_t job = 0; job < SAMPLER_JOBS_MAX; job++)
            assert (s_has_mark (&self->strata [label], job)
                || !s_has_mark (&self->strata [label], TAKEN + job));   //  T3
    }
    assert (count == self->count && count <= self->bound);                  //  T2
    free (sizes);
    uint16_t *labels = s_sorted (self, MARK_WORDS);
    for (size_t index = 1; index < count; index++)
        assert (memcmp (self->strata [labels [index]].marks, self->strata [labels [index - 1]].marks,
            sizeof self->strata [0].marks) != 0);                           //  T2
    free (labels);
}
