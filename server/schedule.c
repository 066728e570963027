//  Classes of versions and their pipelines, places that wait for a version or a copy, and when tasks are handed out.

#include "broker_state.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

//  ---- classes

//  What the index may hold, so that a worker each always finds memory for one version that is out of the
//  index.
static size_t
s_index_limit (const broker_t *self)
{
    return self->options.cache_bytes - self->options.workers * self->version_bytes_max;
}

//  The classes there are have changed: the largest version may be another.
static void
s_measure_classes (broker_t *self)
{
    self->version_bytes_max = 0;
    for (const class_t *class = self->classes; class; class = class->next)
        if (class->version_bytes > self->version_bytes_max)
            self->version_bytes_max = class->version_bytes;
    prepared_limit (self->prepared, s_index_limit (self));
}

//  A `seeded` job's random pixels depend on nobody else: it neither uses others' versions nor lends its own.
static bool
s_is_apart (sampler_order_t order, const pipeline_t *pipeline)
{
    return order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (pipeline);
}

//  The class of a job's stage on its data; NULL: it needs one of its own.
static class_t *
s_find_class (const broker_t *self, const dataset_t *dataset, sampler_order_t order, const pipeline_t *pipeline)
{
    if (s_is_apart (order, pipeline))
        return NULL;
    const char *text = pipeline_shared_text (pipeline);
    for (class_t *class = self->classes; class; class = class->next)
        if (!class->is_apart && class->dataset == dataset
        &&  strcmp (pipeline_shared_text (class->pipeline), text) == 0)
            return class;
    return NULL;
}

static bool
s_class_fits (const broker_t *self, size_t bytes, refusal_t *refusal)
{
    size_t largest = bytes > self->version_bytes_max? bytes: self->version_bytes_max;
    size_t least = ((size_t) self->options.workers + 1) * largest;
    if (least > self->options.cache_bytes)
        return refuse (refusal, "budget",
            "a prepared sample of this pipeline takes %zu bytes, so with %u workers "
            "the cache needs at least %zu; it has %zu: start the server with --cache %zu or fewer --workers",
            bytes, self->options.workers, least, self->options.cache_bytes, least);
    return true;
}

static class_t *
s_new_class (broker_t *self, const job_t *job, size_t version_bytes)
{
    class_t *class = broker_need (calloc (1, sizeof *class));
    bool is_random = pipeline_shared_is_random (job->pipeline), is_apart = s_is_apart (job->order, job->pipeline);
    *class = (class_t) {
        .next = self->classes, .dataset = job->dataset, .pipeline = pipeline_hold (job->pipeline),
        .version_bytes = version_bytes, .is_apart = is_apart,
        .seed = is_apart? job->seed: random_next (&self->random),
        .kind = stock_kind_new (self->stock, job->dataset->sampler, version_bytes, is_random, class)
    };
    self->classes = class;
    s_measure_classes (self);
    return class;
}

bool
schedule_allows (const broker_t *self, const broker_join_t *join, refusal_t *refusal)
{
    return s_find_class (self, join->dataset, join->order, join->pipeline)
        || s_class_fits (self, broker_version_cost (pipeline_version_bytes (join->pipeline)), refusal);
}

void
schedule_join (broker_t *self, job_t *job)
{
    class_t *class = s_find_class (self, job->dataset, job->order, job->pipeline);
    if (!class)
        class = s_new_class (self, job, broker_version_cost (pipeline_version_bytes (job->pipeline)));
    job->claimant.kind = class->kind;
    job->claimant.numbers = class->is_apart;
    stock_join (self->stock, &job->claimant);
}

void
schedule_class_over (void *context, void *user)
{
    broker_t *self = context;
    class_t *class = user, **link = &self->classes;
    while (*link != class)
        link = &(*link)->next;
    *link = class->next;
    pipeline_destroy (&class->pipeline);
    free (class);
    s_measure_classes (self);
}

size_t
broker_shared_texts (const dataset_t *dataset, sampler_order_t order, const char **texts, size_t texts_max)
{
    size_t count = 0;
    for (size_t number = 0; number < SAMPLER_JOBS_MAX && count < texts_max; number++) {
        const job_t *job = dataset->jobs [number];
        if (!job || s_is_apart (job->order, job->pipeline)
        ||  (order == SAMPLER_ORDER_SEEDED && pipeline_shared_is_random (job->pipeline)))
            continue;
        const char *text = pipeline_shared_text (job->pipeline);
        size_t index = 0;
        while (index < count && strcmp (texts [index], text) != 0)
            index++;
        if (index == count)
            texts [count++] = text;
    }
    return count;
}

const class_t *
schedule_class (const broker_t *self, const version_t *version)
{
    return stock_kind_user (stock_kind_of (self->stock, version));
}

//  ---- queues of places

static void
s_append (place_list_t *list, place_t *place)
{
    place->next = NULL;
    place->previous = list->last;
    if (list->last)
        list->last->next = place;
    else
        list->first = place;
    list->last = place;
}

static void
s_remove (place_list_t *list, place_t *place)
{
    if (place->previous)
        place->previous->next = place->next;
    else
        list->first = place->next;
    if (place->next)
        place->next->previous = place->previous;
    else
        list->last = place->previous;
    place->previous = place->next = NULL;
}

//  ---- a place and its version

void
schedule_await (place_t *place, version_t *version)
{
    place->version = version;
    if (version->state == VERSION_READY) {
        place->state = PLACE_READY;
        s_append (&place->job->ready, place);
        return;
    }
    place->state = PLACE_WAITING;
    place_t *first = version->waiting;
    place->previous_waiting = NULL;
    place->next_waiting = first;
    if (first)
        first->previous_waiting = place;
    version->waiting = place;
    if (version->state == VERSION_WORKING)
        return;
    version->state = supply_want (place->job->broker, version)? VERSION_QUEUED: VERSION_READING;
    if (version->state == VERSION_QUEUED)
        s_append (&place->job->wanted, place);
}

void
schedule_arrived (version_t *version)
{
    if (version->state != VERSION_READING)
        return;
    version->state = VERSION_QUEUED;
    for (place_t *place = version->waiting; place; place = place->next_waiting)
        s_append (&place->job->wanted, place);
}

static void
s_leave_waiting (place_t *place)
{
    version_t *version = place->version;
    if (place->previous_waiting)
        place->previous_waiting->next_waiting = place->next_waiting;
    else
        version->waiting = place->next_waiting;
    if (place->next_waiting)
        place->next_waiting->previous_waiting = place->previous_waiting;
    place->previous_waiting = place->next_waiting = NULL;
    if (version->state == VERSION_QUEUED)
        s_remove (&place->job->wanted, place);
    if (!version->waiting && (version->state == VERSION_QUEUED || version->state == VERSION_READING)) {
        version->state = VERSION_IDLE;          //  prepared when somebody wants it again
        supply_release (place->job->broker, version);
    }
}

void
schedule_cancel (broker_t *self, place_t *place)
{
    if (place->state == PLACE_WAITING)
        s_leave_waiting (place);
    else
    if (place->state == PLACE_READY)
        s_remove (&place->job->ready, place);
    else
        return;
    version_t *version = place->version;
    place->state = PLACE_EMPTY;
    place->version = NULL;
    prepared_unpin (self->prepared, version);
}

void
schedule_ready (version_t *version)
{
    version->state = VERSION_READY;
    for (place_t *place = version->waiting, *next; place; place = next) {
        next = place->next_waiting;
        place->next_waiting = place->previous_waiting = NULL;
        place->state = PLACE_READY;
        s_append (&place->job->ready, place);
    }
    version->waiting = NULL;
}

//  ---- handing out: jobs in turn, so that one with a large window does not stand before all others

//  The next job from *turn_p on of which a queue is not empty; NULL: none.
static job_t *
s_next_turn (broker_t *self, job_t **turn_p, bool copies)
{
    job_t *start = *turn_p? *turn_p: self->jobs, *job = start;
    while (job) {
        if ((copies? &job->ready: &job->wanted)->first) {
            *turn_p = job->next;
            return job;
        }
        job = job->next? job->next: self->jobs;
        if (job == start)
            break;
    }
    return NULL;
}

static void
s_hand_out_copy (broker_t *self, place_t *place)
{
    s_remove (&place->job->ready, place);
    place->state = PLACE_COPYING;
    rank_t *rank = &place->job->ranks [place->rank];
    place->job->copying++;
    rank->copying++;
    self->copying++;
    broker_act_rank (self, ACTION_COPY, rank)->place = place;
}

static void
s_hand_out_version (broker_t *self, version_t *version)
{
    assert (version->state == VERSION_QUEUED);
    for (place_t *place = version->waiting; place; place = place->next_waiting)
        s_remove (&place->job->wanted, place);
    version->state = VERSION_WORKING;
    version->is_fetched = false;
    if (!version->raw)
        self->fetching++;
    else
        version_dataset (self, version)->supply->bytes_handed += ((const raw_sample_t *) version->raw)->bytes;
    prepared_pin (version);
    self->preparing++;
    broker_act (self, ACTION_PREPARE, NULL)->version = version;
}

bool
schedule_dispatch (broker_t *self)
{
    job_t *job;
    while (self->copying < self->copy_max && (job = s_next_turn (self, &self->copy_turn, true)))
        s_hand_out_copy (self, job->ready.first);
    while (self->preparing < self->prepare_max && (job = s_next_turn (self, &self->prepare_turn, false))) {
        version_t *version = job->wanted.first->version;
        if (!prepared_reserve (self->prepared, version)) {
            self->prepare_turn = job;           //  still its turn, when a copy has given memory back
            return false;
        }
        s_hand_out_version (self, version);
    }
    return true;
}
