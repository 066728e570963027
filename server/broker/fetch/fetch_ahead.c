#include "fetch_ahead.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "budget.h"
#include "job.h"
#include "sampler.h"
#include "xalloc.h"

enum {
    TRIES_MAX = 256,                                //  samples looked at in a turn
    PAUSE_MS = 1000, PAUSE_MAX_MS = 30000           //  after a failure; doubles
};

struct fetch_ahead {
    fetch_ahead_driver_t driver;
    random_t random;
    uint32_t fields;                    //  that jobs have asked for since `known` began
    bool is_judged, is_complete;        //  these fields' files were all kept, when that was first known
    roaring_bitmap_t *known;            //  ids that are, or were, read; or are kept
    roaring_bitmap_t *to_read;          //  some of them may be needed by no job
    roaring_bitmap_t *reading;          //  no id is in two of the last two
    bool due [SAMPLER_JOBS_MAX];        //  jobs that began to run, or an epoch: to_read lacks what they need
    bool is_due;                        //  some job is
    int64_t rest_until_ms;              //  0: it does not rest
    int64_t pause_ms;                   //  of the next failure; 0: the last read has succeeded
};

void
fetch_ahead_keep (broker_t *self, dataset_t *dataset, const fetch_ahead_driver_t *driver)
{
    assert (!dataset->ahead && !dataset->prefetch);
    fetch_ahead_t *ahead = dataset->ahead = xalloc_memory (calloc (1, sizeof *ahead));
    ahead->driver = *driver;
    //  Servers that share the local disk read different samples first.
    ahead->random = random_from_seed (self->options.seed ^ dataset->number);
    ahead->known = xalloc_memory (roaring_bitmap_create ());
    ahead->to_read = xalloc_memory (roaring_bitmap_create ());
    ahead->reading = xalloc_memory (roaring_bitmap_create ());
}

void
fetch_ahead_destroy (dataset_t *dataset)
{
    fetch_ahead_t *self = dataset->ahead;
    if (!self)
        return;
    assert (fetch_ahead_reading (dataset) == 0);
    roaring_bitmap_free (self->known);
    roaring_bitmap_free (self->to_read);
    roaring_bitmap_free (self->reading);
    free (self);
    dataset->ahead = NULL;
}

void
fetch_ahead_begin (const job_t *job)
{
    fetch_ahead_t *self = job->dataset->ahead;
    if (self)
        self->due [job->consumer.sampler_job] = self->is_due = true;
}

size_t
fetch_ahead_reading (const dataset_t *dataset)
{
    return dataset->ahead? (size_t) roaring_bitmap_get_cardinality (dataset->ahead->reading): 0;
}

void
fetch_ahead_taken (broker_t *self, dataset_t *dataset, uint32_t id)
{
    fetch_ahead_t *ahead = dataset->ahead;
    self->fetched_now++;
    //  Jobs of another data set may read on the same device.
    if (self->fetching >= self->fetching_most)
        self->fetching_most = self->fetching + 1;
    if (!ahead)
        return;
    roaring_bitmap_add (ahead->known, id);
    roaring_bitmap_remove (ahead->to_read, id);
}

//  ---- what is read

//  Jobs that run, and the fields that each of them reads.
typedef struct {
    const sampler_t *sampler;
    struct { uint32_t number, fields; } jobs [SAMPLER_JOBS_MAX];
    size_t count;
    uint32_t fields;                    //  of all
    bool is_waiting;                    //  some job waits for reads
} readers_t;

static void
s_add_reader (readers_t *self, const job_t *job)
{
    uint32_t fields = 0;
    for (size_t file = 0; file < pipeline_files (job->asked.pipeline); file++)
        fields |= UINT32_C (1) << pipeline_file (job->asked.pipeline, file);
    self->jobs [self->count].number = job->consumer.sampler_job;
    self->jobs [self->count++].fields = fields;
    self->fields |= fields;
    self->is_waiting = self->is_waiting || job->waits.kind == WAITS_READ;
}

static void
s_find_readers (readers_t *self, const dataset_t *dataset)
{
    self->sampler = dataset->sampler;
    self->count = self->fields = 0;
    self->is_waiting = false;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
        if (dataset->jobs [number] && dataset->jobs [number]->state == JOB_RUNNING)
            s_add_reader (self, dataset->jobs [number]);
}

//  Of jobs that still need the sample in their epochs; 0: none does.
static uint32_t
s_fields_needed (const readers_t *self, uint32_t id)
{
    uint32_t fields = 0;
    for (size_t index = 0; index < self->count; index++)
        if (sampler_needs (self->sampler, self->jobs [index].number, id))
            fields |= self->jobs [index].fields;
    return fields;
}

typedef struct {
    const sampler_t *sampler;
    uint32_t job;
    roaring_bitmap_t *ids;
} needed_t;

static void
s_find_needed (void *context, uint32_t id)
{
    const needed_t *self = context;
    if (sampler_needs (self->sampler, self->job, id))
        roaring_bitmap_add (self->ids, id);
}

//  Adds what the job needs, and is neither known nor being read.
static void
s_add_needed (fetch_ahead_t *self, const sampler_t *sampler, uint32_t number)
{
    roaring_bitmap_t *needed = xalloc_memory (roaring_bitmap_create ());
    sampler_each (sampler, number, s_find_needed, &(needed_t) { sampler, number, needed });
    roaring_bitmap_andnot_inplace (needed, self->known);
    roaring_bitmap_andnot_inplace (needed, self->reading);
    roaring_bitmap_andnot_inplace (needed, self->to_read);
    //  For random_pick without runs, which CRoaring 0.2.66 may make in a union (sampler/tree.c).
    roaring_bitmap_xor_inplace (self->to_read, needed);
    roaring_bitmap_free (needed);
}

//  What others need is in it since they began.
static void
s_renew (dataset_t *dataset, const readers_t *readers)
{
    fetch_ahead_t *self = dataset->ahead;
    bool is_all_known = roaring_bitmap_get_cardinality (self->known) >= dataset->samples;
    for (size_t index = 0; !is_all_known && index < readers->count; index++)
        if (self->due [readers->jobs [index].number])
            s_add_needed (self, readers->sampler, readers->jobs [index].number);
    memset (self->due, 0, sizeof self->due);
    self->is_due = false;
}

//  A job that reads further fields: of what is known they are not.
static void
s_note_fields (fetch_ahead_t *self, uint32_t fields)
{
    if (!(fields & ~self->fields))
        return;
    self->fields |= fields;
    memset (self->due, true, sizeof self->due);
    self->is_due = true;
    self->is_judged = false;
    roaring_bitmap_clear (self->known);
}

//  A uniform sample of those that are to be read and that a running job needs, and its fields.  False: none
//  was found in so many tries.
static bool
s_pick (dataset_t *dataset, const readers_t *readers, uint32_t *tries_p, uint32_t *id_p, uint32_t *fields_p)
{
    fetch_ahead_t *self = dataset->ahead;
    uint64_t count = roaring_bitmap_get_cardinality (self->to_read);
    for (; count > 0 && *tries_p > 0; count--) {
        --*tries_p;
        *id_p = random_pick (&self->random, self->to_read, count, dataset->samples);
        *fields_p = s_fields_needed (readers, *id_p);
        //  What no job needs now is left out until another epoch begins.
        roaring_bitmap_remove (self->to_read, *id_p);
        if (*fields_p)
            return true;
    }
    return false;
}

static void
s_read_some (broker_t *self, dataset_t *dataset, const readers_t *readers, size_t most, int64_t now_ms)
{
    fetch_ahead_t *ahead = dataset->ahead;
    uint32_t tries = TRIES_MAX, id, fields;
    while (most > 0 && s_pick (dataset, readers, &tries, &id, &fields)) {
        roaring_bitmap_add (ahead->reading, id);
        action_t *action = broker_add_action (self, ACTION_FETCH_AHEAD, NULL);
        action->dataset = dataset;
        action->id = id;
        action->fields = fields;
        self->fetched_now++;
        most--;
    }
    if (most > 0 && tries == 0 && !roaring_bitmap_is_empty (ahead->to_read))
        broker_wake (self, now_ms + 1);
}

static bool
s_rests (broker_t *self, fetch_ahead_t *ahead, int64_t now_ms)
{
    if (now_ms >= ahead->rest_until_ms)
        return false;
    broker_wake (self, ahead->rest_until_ms);
    return true;
}

//  How many more may be read ahead.
static size_t
s_spare (broker_t *self, dataset_t *dataset, const readers_t *readers, int64_t now_ms)
{
    fetch_ahead_t *ahead = dataset->ahead;
    size_t reading = fetch_ahead_reading (dataset);
    fetch_ahead_load_t load = ahead->driver.load (ahead->driver.user, readers->fields);
    //  No event tells that the disk answers again, while jobs pause.
    if (load.depth == 0 && load.is_away)
        broker_wake (self, now_ms + PAUSE_MS);
    if (load.depth == 0)
        return 0;
    if (!ahead->is_judged)
        ahead->is_complete = load.is_complete;
    ahead->is_judged = true;
    if (ahead->is_complete)
        return 0;
    //  What is read ahead is read from the local disk once more.  It saves no time while no job waits for
    //  reads and those that prepare have enough to do.
    size_t processors = (size_t) self->options.workers + self->lent + self->slow_out;
    if (!readers->is_waiting && budget_with_workers (self) >= processors)
        return 0;
    if (ahead->pause_ms > 0)
        return reading == 0? 1: 0;
    //  The driver has not submitted yet what was handed out in this turn; nor what waits for its look at the
    //  local disk.
    size_t own = reading + dataset->fetching, taken = load.busy + self->fetched_now,
        kept = self->fetching_most < load.depth / 2? self->fetching_most: load.depth / 2;
    taken = own > taken? own: taken;
    taken += kept > self->fetching? kept - self->fetching: 0;
    size_t most = load.depth > taken? load.depth - taken: 0;
    return most < FETCH_AHEAD_MAX - reading? most: FETCH_AHEAD_MAX - reading;
}

static void
s_pass_dataset (broker_t *self, dataset_t *dataset, int64_t now_ms)
{
    fetch_ahead_t *ahead = dataset->ahead;
    if ((!ahead->is_due && roaring_bitmap_is_empty (ahead->to_read)) || dataset->prefetch
    ||  dataset->is_removed || dataset->patience.is_trouble || s_rests (self, ahead, now_ms))
        return;
    readers_t readers;
    s_find_readers (&readers, dataset);
    if (!readers.fields)
        return;
    s_note_fields (ahead, readers.fields);
    size_t most = s_spare (self, dataset, &readers, now_ms);
    if (most > 0 && ahead->is_due)
        s_renew (dataset, &readers);
    s_read_some (self, dataset, &readers, most, now_ms);
}

void
fetch_ahead_pass (broker_t *self, int64_t now_ms)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        if (self->datasets [index]->ahead)
            s_pass_dataset (self, self->datasets [index], now_ms);
    self->fetched_now = 0;
}

static void
s_rest (fetch_ahead_t *self, int64_t now_ms)
{
    int64_t pause_ms = self->pause_ms > 0? self->pause_ms: PAUSE_MS;
    if (now_ms < self->rest_until_ms)
        return;                                     //  one that was under way with the first to fail
    self->rest_until_ms = now_ms + pause_ms;
    self->pause_ms = 2 * pause_ms < PAUSE_MAX_MS? 2 * pause_ms: PAUSE_MAX_MS;
}

void
fetch_ahead_done (broker_t *self, dataset_t *dataset, uint32_t id, fetch_ahead_result_t result,
    int64_t now_ms)
{
    fetch_ahead_t *ahead = dataset->ahead;
    bool was_reading = roaring_bitmap_remove_checked (ahead->reading, id);
    assert (was_reading && self->magic == BROKER_MAGIC);
    if (result == FETCH_AHEAD_BUSY || result == FETCH_AHEAD_NO_ROOM || result == FETCH_AHEAD_FAILED) {
        if (result != FETCH_AHEAD_BUSY)
            s_rest (ahead, now_ms);
        if (!roaring_bitmap_contains (ahead->known, id))
            roaring_bitmap_add (ahead->to_read, id);
        return;
    }
    if (result == FETCH_AHEAD_READ)
        ahead->pause_ms = 0;
    if (self->fetching == 0 && self->fetching_most > 0)
        self->fetching_most--;
    roaring_bitmap_add (ahead->known, id);
}

void
fetch_ahead_check (const dataset_t *dataset)
{
    const fetch_ahead_t *self = dataset->ahead;
    if (!self)
        return;
    assert (fetch_ahead_reading (dataset) <= FETCH_AHEAD_MAX);
    assert (!roaring_bitmap_intersect (self->to_read, self->reading));
    assert (!roaring_bitmap_intersect (self->to_read, self->known));
}
