//  Samples that cannot be prepared: what becomes of the jobs whose data hold them, and of those that wait.  A sample that
//  cannot be read is bad for all jobs.  One that does not suit a pipeline ends the jobs of that pipeline's shared stage, and
//  stays good for all others: what one user asks for must not cost another anything.

#include "broker_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  ---- what is known

//  What is wrong comes first: who cuts the sentence cuts its end.
static char *
s_message (const dataset_t *dataset, uint32_t id, const char *reason)
{
    char *message;
    int rc = asprintf (&message, "%s (sample %u; data set '%s' has on-bad fail)", reason, id, dataset->name);
    return broker_need (rc < 0? NULL: message);
}

static void
s_name (broker_t *self, dataset_t *dataset, uint32_t id, const char *reason)
{
    bool is_fatal = dataset->on_bad == BROKER_BAD_FAIL;
    self->bad_count++;
    if (dataset->bad_named >= BAD_NAMED_MAX && !is_fatal)
        return;
    if (dataset->bad_named == dataset->bad_room) {
        dataset->bad_room = dataset->bad_room? dataset->bad_room * 2: 16;
        dataset->bad = broker_need (reallocarray (dataset->bad, dataset->bad_room, sizeof *dataset->bad));
    }
    bad_sample_t *bad = &dataset->bad [dataset->bad_named++];
    *bad = (bad_sample_t) { .id = id, .reason = broker_need (strdup (reason)) };
    if (is_fatal) {
        bad->message = s_message (dataset, id, reason);
        roaring_bitmap_add (dataset->fatal, id);
    }
}

//  The sentence about an id of dataset->fatal.
static const char *
s_told (const dataset_t *dataset, uint32_t id)
{
    size_t index = 0;
    while (dataset->bad [index].id != id)
        index++;
    return dataset->bad [index].message;
}

bool
broker_next_bad (broker_t *self, dataset_t **dataset_p, uint32_t *id_p, const char **reason_p)
{
    for (size_t index = 0; index < self->dataset_count; index++) {
        dataset_t *dataset = self->datasets [index];
        if (dataset->bad_told == dataset->bad_named)
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
    for (size_t index = 0; index < dataset->bad_named; index++) {
        free (dataset->bad [index].reason);
        free (dataset->bad [index].message);
    }
    free (dataset->bad);
    roaring_bitmap_free (dataset->fatal);
}

//  ---- jobs that end

//  The first id of the join's data that is known to be bad and fatal; false: none is.
static bool
s_find_fatal (const broker_join_t *join, uint32_t *id_p)
{
    const roaring_bitmap_t *fatal = join->dataset->fatal;
    if (roaring_bitmap_is_empty (fatal))
        return false;
    *id_p = roaring_bitmap_minimum (fatal);
    for (size_t index = 0; join->list && index < join->list_count; index++)
        if (roaring_bitmap_contains (fatal, join->list [index])) {
            *id_p = join->list [index];
            return true;
        }
    if (join->list)
        return false;
    if (!join->subset)
        return true;
    roaring_bitmap_t *both = broker_need (roaring_bitmap_and (join->subset, fatal));
    bool found = !roaring_bitmap_is_empty (both);
    if (found)
        *id_p = roaring_bitmap_minimum (both);
    roaring_bitmap_free (both);
    return found;
}

bool
bad_allows (const broker_join_t *join, refusal_t *refusal)
{
    uint32_t id;
    return !s_find_fatal (join, &id) || refuse (refusal, "bad_sample", "%s", s_told (join->dataset, id));
}

//  The jobs that a sample ends: those of the kind (NULL: of any) whose data hold it, and that have not drawn all they will
//  get.  Asked before the sample leaves any data; returns how many.
static size_t
s_holders (const dataset_t *dataset, const stock_kind_t *kind, uint32_t id, job_t *holders [SAMPLER_JOBS_MAX])
{
    size_t count = 0;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++) {
        job_t *job = dataset->jobs [number];
        if (job && job->state != JOB_DRAWN && (!kind || job->claimant.kind == kind)
        &&  sampler_has (dataset->sampler, number, id))
            holders [count++] = job;
    }
    return count;
}

//  Ends them, and who else waits for this very version.
static void
s_end_jobs (broker_t *self, version_t *version, job_t **holders, size_t count, const char *reason, const char *message)
{
    for (size_t index = 0; index < count; index++)
        broker_end (self, holders [index], reason, message);
    while (version->waiting)
        broker_end (self, ((place_t *) version->waiting)->job, reason, message);
}

//  ---- jobs that go on

//  Whoever waited for it gets another one; or a job ends for want of one, and with it others of its places wait no more.
static void
s_replace (broker_t *self, version_t *version)
{
    while (version->waiting) {
        place_t *place = version->waiting;
        place->job->tenant->dropped++;
        schedule_cancel (self, place);
        draw_again (self, place);
    }
}

void
bad_found (broker_t *self, version_t *version, const char *reason)
{
    dataset_t *dataset = version_dataset (self, version);
    job_t *holders [SAMPLER_JOBS_MAX];
    uint32_t id = version->id;
    size_t count = s_holders (dataset, NULL, id, holders);
    version->state = VERSION_BAD;
    stock_forget (self->stock, dataset->sampler, id);
    uint64_t dropped = sampler_dropped_count (dataset->sampler);
    sampler_drop (dataset->sampler, id);
    if (sampler_dropped_count (dataset->sampler) > dropped) {       //  else another class found it bad before
        supply_forget (self, dataset, id);
        s_name (self, dataset, id, reason);
    }
    if (dataset->on_bad == BROKER_BAD_FAIL)
        s_end_jobs (self, version, holders, count, "bad_sample", s_told (dataset, id));
    else
        s_replace (self, version);
    draw_settle (self, dataset);
}

//  ---- samples that are not what a pipeline asks for

void
unsuitable_found (broker_t *self, version_t *version, const char *reason)
{
    const dataset_t *dataset = version_dataset (self, version);
    //  Another class has found it bad meanwhile: it has left the data of these jobs too.
    if (sampler_is_dropped (dataset->sampler, version->id)) {
        bad_found (self, version, reason);
        return;
    }
    job_t *holders [SAMPLER_JOBS_MAX];
    size_t count = s_holders (dataset, stock_kind_of (self->stock, version), version->id, holders);
    char *message;
    int rc = asprintf (&message, "%s (sample %u of data set '%s' does not suit the pipeline: change that, or leave the sample "
        "out by a subset)", reason, version->id, dataset->name);
    broker_need (rc < 0? NULL: message);
    version->state = VERSION_BAD;
    stock_discard (self->stock, version);
    s_end_jobs (self, version, holders, count, "unsuitable", message);
    free (message);
}
