//  Samples that cannot be prepared, and the jobs and rows that they concern.  A sample that cannot be read is
//  bad for all jobs.
//  A sample that does not suit a pipeline ends the jobs of that pipeline's shared stage, and stays good for
//  all others: one user's pipeline must not cost another user anything.

#include "bad.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "dispatch.h"
#include "draw.h"
#include "job.h"
#include "raw_prefetch.h"
#include "tenant.h"
#include "utf8.h"
#include "version.h"
#include "xalloc.h"

//  A job is told of unreadable samples so long after the first was found, or after it joined with known ones,
//  so that it hears of the first ones together.
enum { TELL_MS = 1000 };

//  ---- what is known

//  The fault comes first: a program that cuts the sentence cuts its end.
static char *
s_message (const dataset_t *dataset, bool is_own, uint32_t id, const char *reason)
{
    return is_own
        ? xalloc_text ("%s (sample %u of data set '%s'; the job has on_bad fail)", reason, id, dataset->name)
        : xalloc_text ("%s (sample %u; data set '%s' has on-bad fail)", reason, id, dataset->name);
}

//  Whether a job of this data set shows the sample among its first ones.
static bool
s_is_shown (const dataset_t *dataset, uint32_t id)
{
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        const job_t *job = dataset->jobs [number];
        if (job && roaring_bitmap_contains (job->told.unreadable, id)
        &&  roaring_bitmap_get_cardinality (job->told.unreadable) <= BAD_OF_JOB_MAX)
            return true;
    }
    return false;
}

//  Notes it for the jobs with the sample in their data.
static void
s_name (dataset_t *dataset, uint32_t id, const char *reason)
{
    if (dataset->bad_named >= BAD_NAMED_MAX && dataset->on_bad != BROKER_BAD_FAIL
    &&  (dataset->bad_named >= BAD_KEPT_MAX || !s_is_shown (dataset, id)))
        return;
    if (dataset->bad_named == dataset->bad_room) {
        dataset->bad_room = dataset->bad_room? dataset->bad_room * 2: 16;
        dataset->bad = xalloc_memory (reallocarray (dataset->bad, dataset->bad_room, sizeof *dataset->bad));
    }
    bad_sample_t bad = { .id = id, .reason = xalloc_memory (strdup (reason)) };
    dataset->bad [dataset->bad_named++] = bad;
}

//  What is wrong with a dropped id; NULL: too many were dropped, and this one's name was not kept.
static const char *
s_reason (const dataset_t *dataset, uint32_t id)
{
    for (size_t index = 0; index < dataset->bad_named; index++)
        if (dataset->bad [index].id == id)
            return dataset->bad [index].reason;
    return NULL;
}

bool
dataset_next_bad (broker_t *self, dataset_t **dataset_p, uint32_t *id_p, const char **reason_p)
{
    for (size_t index = 0; index < self->dataset_count; index++) {
        dataset_t *dataset = self->datasets [index];
        if (dataset->is_removed || dataset->bad_told == dataset->bad_named)
            continue;
        const bad_sample_t *bad = &dataset->bad [dataset->bad_told++];
        *dataset_p = dataset;
        *id_p = bad->id;
        *reason_p = bad->reason;
        return true;
    }
    return false;
}

void
bad_forget (dataset_t *dataset)
{
    for (size_t index = 0; index < dataset->bad_named; index++)
        free (dataset->bad [index].reason);
    free (dataset->bad);
}

//  ---- what a job is told

//  The dropped samples of the join's data.
static roaring_bitmap_t *
s_unreadable (const broker_terms_t *join)
{
    const roaring_bitmap_t *dropped = sampler_dropped (join->dataset->sampler);
    if (join->subset)
        return xalloc_memory (roaring_bitmap_and (join->subset, dropped));
    roaring_bitmap_t *found = xalloc_memory (roaring_bitmap_copy (dropped));
    if (!join->list)
        return found;
    roaring_uint32_iterator_t ids;
    for (roaring_init_iterator (dropped, &ids); ids.has_value; roaring_advance_uint32_iterator (&ids))
        if (join->list_made->times [ids.current_value] == 0)
            roaring_bitmap_remove (found, ids.current_value);
    return found;
}

void
bad_join (job_t *job, const broker_terms_t *join)
{
    job->told.unreadable = s_unreadable (join);
}

void
bad_tell_rank (rank_t *rank)
{
    if (rank->job->told.unreadable_told > 0)
        rank_tell (rank, ACTION_SEND_NOTICE, "unreadable", NULL);
}

void
bad_tell (job_t *job)
{
    uint64_t count = roaring_bitmap_get_cardinality (job->told.unreadable);
    if (count == job->told.unreadable_told)
        return;
    job->told.unreadable_told = count;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].state == RANK_HERE)
            rank_tell (&job->ranks [number], ACTION_SEND_NOTICE, "unreadable", NULL);
}

//  Only the first time.  Later samples are told at the epoch's end.
void
bad_tell_due (broker_t *self, int64_t now_ms)
{
    for (job_t *job = self->jobs; job; job = job->next) {
        if (job_has_ended (job) || job->state == JOB_ATTACHING || job->told.unreadable_told > 0
        ||  roaring_bitmap_is_empty (job->told.unreadable))
            continue;
        if (job->told.unreadable_ms == 0)
            job->told.unreadable_ms = now_ms;
        if (now_ms - job->told.unreadable_ms >= TELL_MS)
            bad_tell (job);
        else
            broker_wake (self, job->told.unreadable_ms + TELL_MS);
    }
}

json_t *
bad_describe (const bad_sample_t *bad)
{
    return json_pack ("{s:I,s:o}", "id", (json_int_t) bad->id, "reason", utf8_json (bad->reason));
}

json_t *
job_unreadable (const job_t *self)
{
    const dataset_t *dataset = self->dataset;
    json_t *samples = json_array ();
    for (size_t index = 0; index < dataset->bad_named; index++) {
        const bad_sample_t *bad = &dataset->bad [index];
        if (!roaring_bitmap_contains (self->told.unreadable, bad->id))
            continue;
        json_array_append_new (samples, bad_describe (bad));
        if (json_array_size (samples) == BAD_OF_JOB_MAX)
            break;
    }
    json_int_t count = (json_int_t) roaring_bitmap_get_cardinality (self->told.unreadable);
    return xalloc_memory (json_pack ("{s:I,s:o}", "count", count, "samples", samples));
}

//  ---- jobs that end

broker_bad_t
bad_policy (const broker_terms_t *join)
{
    return join->on_bad_given? join->on_bad: join->dataset->on_bad;
}

bool
bad_allows (const broker_terms_t *join, refusal_t *refusal)
{
    if (bad_policy (join) != BROKER_BAD_FAIL || sampler_dropped_count (join->dataset->sampler) == 0)
        return true;
    roaring_bitmap_t *unreadable = s_unreadable (join);
    bool allows = roaring_bitmap_is_empty (unreadable);
    if (!allows) {
        uint32_t id = roaring_bitmap_minimum (unreadable);
        const char *reason = s_reason (join->dataset, id);
        reason = reason? reason: "a file cannot be read";
        char *message = s_message (join->dataset, join->on_bad_given, id, reason);
        refuse (refusal, "bad_sample", "%s", message);
        free (message);
    }
    roaring_bitmap_free (unreadable);
    return allows;
}

//  The jobs that a sample concerns: jobs of the version set (NULL: of any) with the sample in their data that
//  have not drawn everything yet.  Call it before the sample leaves any data; returns how many.
static size_t
s_holders (const dataset_t *dataset, const version_set_t *kind, uint32_t id,
    job_t *holders [SAMPLER_JOBS_MAX])
{
    size_t count = 0;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *job = dataset->jobs [number];
        if (job && job->state != JOB_DRAWN && (!kind || job->consumer.kind == kind)
        &&  sampler_has (dataset->sampler, number, id))
            holders [count++] = job;
    }
    return count;
}

//  ---- jobs that go on

//  The job cannot get the sample.
static void
s_end_if_fatal (job_t *job, uint32_t id, const char *reason)
{
    const dataset_t *dataset = job->dataset;
    if (job->asked.on_bad != BROKER_BAD_FAIL || job_has_ended (job))
        return;
    char *message = s_message (dataset, dataset->on_bad != BROKER_BAD_FAIL, id, reason);
    job_end (job, "bad_sample", "%s", message);
    free (message);
}

//  A row that waits for the sample gets another one, unless its job ends.  If no sample is left the job
//  ends too, and then its other rows wait no more.
static void
s_replace (broker_t *self, version_t *version, const char *reason)
{
    while (version->waiting) {
        batch_row_t *row = version->waiting;
        s_end_if_fatal (row->job, version->id, reason);
        dispatch_cancel (self, row);
        if (job_has_ended (row->job))
            continue;
        row->job->tenant->dropped++;
        draw_again (self, row);
    }
}

void
bad_found (broker_t *self, version_t *version, const char *reason)
{
    dataset_t *dataset = version_dataset (self, version);
    job_t *holders [SAMPLER_JOBS_MAX];
    uint32_t id = version->id;
    size_t count = s_holders (dataset, NULL, id, holders);
    version_move (version, VERSION_BAD);
    version_index_forget (self->version_index, dataset->sampler, id);
    uint64_t dropped = sampler_dropped_count (dataset->sampler);
    sampler_drop (dataset->sampler, id);
    for (size_t index = 0; index < count; index++)
        roaring_bitmap_add (holders [index]->told.unreadable, id);
    for (const batch_row_t *row = version->waiting; row; row = row->next_waiting)
        roaring_bitmap_add (row->job->told.unreadable, id);         //  also of a job that has drawn
                                                                    //  everything
    if (sampler_dropped_count (dataset->sampler) > dropped) {       //  otherwise another class found it bad
                                                                    //  before
        raw_prefetch_forget (self, dataset, id);
        self->bad_count++;
        s_name (dataset, id, reason);
    }
    else
    if (version->waiting && !s_reason (dataset, id))
        s_name (dataset, id, reason);
    for (size_t index = 0; index < count; index++)
        s_end_if_fatal (holders [index], id, reason);
    s_replace (self, version, reason);
    draw_settle (self, dataset);
}

//  ---- samples that do not suit a pipeline

void
bad_unsuitable_found (broker_t *self, version_t *version, const char *reason)
{
    const dataset_t *dataset = version_dataset (self, version);
    //  Another class has found the sample bad meanwhile: it has left the data of these jobs too.
    if (sampler_is_dropped (dataset->sampler, version->id)) {
        bad_found (self, version, reason);
        return;
    }
    job_t *holders [SAMPLER_JOBS_MAX];
    size_t count = s_holders (dataset, version_set_of (self->version_index, version), version->id, holders);
    char *message = xalloc_text (
        "%s (sample %u of data set '%s' does not suit the pipeline: change that, or leave the sample out by "
        "a subset)", reason, version->id, dataset->name);
    version_move (version, VERSION_BAD);
    version_index_discard (self->version_index, version);
    for (size_t index = 0; index < count; index++)
        job_end (holders [index], "unsuitable", "%s", message);
    while (version->waiting) {
        batch_row_t *row = version->waiting;
        job_end (row->job, "unsuitable", "%s", message);
        dispatch_cancel (self, row);
    }
    free (message);
}
