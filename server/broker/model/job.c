//  What the driver and the phases ask of a job or a rank, and what they want done outside: the queue of
//  actions, which the driver carries out in order.

#include "job.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "xalloc.h"

//  ---- actions

void
broker_wake (broker_t *self, int64_t at_ms)
{
    if (at_ms < self->wakeup_ms)
        self->wakeup_ms = at_ms;
}

enum { ACTIONS_MIN = 256 };

action_t *
broker_add_action (broker_t *self, action_kind_t kind, job_t *job)
{
    if (self->action_count == self->action_room) {
        size_t room = self->action_room? self->action_room * 2: ACTIONS_MIN;
        action_t *actions = xalloc_memory (calloc (room, sizeof *actions));
        for (size_t index = 0; index < self->action_count; index++)
            actions [index] = self->actions [(self->action_first + index) % self->action_room];
        free (self->actions);
        self->actions = actions;
        self->action_first = 0;
        self->action_room = room;
    }
    size_t place = (self->action_first + self->action_count++) % self->action_room;
    self->actions [place] = (action_t) { .kind = kind, .job = job };
    return &self->actions [place];
}

action_t *
rank_add_action (rank_t *rank, action_kind_t kind)
{
    action_t *action = broker_add_action (rank->job->broker, kind, rank->job);
    action->rank = rank;
    return action;
}

void
rank_tell (rank_t *rank, action_kind_t kind, const char *reason, const char *message)
{
    action_t *action = rank_add_action (rank, kind);
    action->reason = reason;
    action->message = message;
}

void
job_tell_ranks (job_t *job, action_kind_t kind, const char *reason, const char *message)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (rank_is_there (&job->ranks [number]))
            rank_tell (&job->ranks [number], kind, reason, message);
}

bool
broker_next (broker_t *self, action_t *action)
{
    if (self->action_count == 0)
        return false;
    *action = self->actions [self->action_first];
    self->action_first = (self->action_first + 1) % self->action_room;
    self->action_count--;
    return true;
}

//  ---- marks

void
job_go (job_t *job)
{
    broker_t *broker = job->broker;
    if (job_has_ended (job))
        return;
    job_move (job, JOB_ENDING);
    if (broker->last_ending)
        broker->last_ending->next_ending = job;
    else
        broker->ending = job;
    broker->last_ending = job;
}

void
job_end (job_t *job, const char *reason, const char *format, ...)
{
    if (job_has_ended (job))
        return;
    job->life.end_reason = reason;
    va_list arguments;
    va_start (arguments, format);
    job->life.end_message = xalloc_text_of (format, arguments);
    va_end (arguments);
    job_go (job);
}

void
job_mark_delivery (job_t *job)
{
    broker_t *broker = job->broker;
    if (job->delivery.is_marked)
        return;
    job->delivery.is_marked = true;
    if (broker->last_delivery)
        broker->last_delivery->next_delivery = job;
    else
        broker->deliveries = job;
    broker->last_delivery = job;
}

//  ---- places in the ranks' rings

static void
s_measure_places (rank_t *rank)
{
    rank->places = rank->kept;
    for (uint32_t slot = 0; slot < rank->job->asked.slots; slot++) {
        slot_state_t state = rank->job->draw.batches [slot].state;
        if (state == SLOT_SENT? rank->held >> slot & 1: state != SLOT_FREE)
            rank->places |= 1ull << rank->place [slot];
    }
}

static void
s_count_places (job_t *job)
{
    uint32_t most = 0;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        uint32_t count = (uint32_t) __builtin_popcountll (job->ranks [number].places);
        most = count > most? count: most;
    }
    assert (most <= job->asked.slots);
    job->delivery.free_places = job->asked.slots - most;
}

void
job_take_places (job_t *job, uint32_t slot)
{
    assert (job->delivery.free_places > 0);
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        rank_t *rank = &job->ranks [number];
        rank->place [slot] = (uint32_t) __builtin_ctzll (~rank->places);
        rank->places |= 1ull << rank->place [slot];
    }
    job->delivery.free_places--;
}

void
rank_measure_places (rank_t *rank)
{
    s_measure_places (rank);
    s_count_places (rank->job);
}

void
job_measure_places (job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        s_measure_places (&job->ranks [number]);
    s_count_places (job);
}

uint32_t
rank_slot_at (const rank_t *rank, uint32_t place)
{
    uint32_t slot = 0;
    while (!(rank->held >> slot & 1) || rank->place [slot] != place)
        slot++;
    assert (slot < rank->job->asked.slots);
    return slot;
}

//  ---- jobs

uint64_t
job_id (const job_t *self)
{
    assert (self->magic == JOB_MAGIC);
    return self->id;
}

uint32_t
job_world_size (const job_t *self)
{
    return self->asked.world_size;
}

rank_t *
job_rank (job_t *self, uint32_t number)
{
    assert (number < self->asked.world_size);
    return &self->ranks [number];
}

uint64_t
job_seed (const job_t *self)
{
    return self->asked.seed;
}

dataset_t *
job_dataset (const job_t *self)
{
    return self->dataset;
}

const pipeline_t *
job_pipeline (const job_t *self)
{
    return self->asked.pipeline;
}

uint64_t
job_part_samples (const job_t *self)
{
    return sampler_remaining (self->dataset->sampler, self->consumer.sampler_job);
}

uint64_t
job_first_batches (const job_t *self)
{
    return self->asked.first_batches;
}

uint32_t
job_nodes (const job_t *self)
{
    return self->asked.parts.nodes > 1? self->asked.parts.nodes: 1;
}

uint64_t
job_epoch_samples (const job_t *self)
{
    return sampler_epoch_samples (self->dataset->sampler, self->consumer.sampler_job);
}

const char *
job_run (const job_t *self)
{
    return self->asked.run;
}

bool
job_is_forked (const job_t *self)
{
    return self->asked.is_forked;
}

bool
job_is_over (const job_t *self)
{
    return self->state == JOB_OVER;
}

void
job_each (broker_t *self, void (*visit) (void *context, job_t *job), void *context)
{
    for (job_t *job = self->jobs, *next; job; job = next) {
        next = job->next;
        if (job->state != JOB_OVER)
            visit (context, job);
    }
}

job_t *
job_of_id (broker_t *self, uint64_t id)
{
    job_t *job = self->jobs;
    while (job && job->id != id)
        job = job->next;
    return job && job->state != JOB_OVER? job: NULL;
}

//  A line fits into what a client shows.
enum { TEXT_BYTES = 480, MORE_BYTES = 32 };

//  As many samples with reasons as fit into the line; the first one is cut if it does not fit.
char *
job_unreadable_message (const job_t *self)
{
    const dataset_t *dataset = self->dataset;
    uint64_t count = roaring_bitmap_get_cardinality (self->told.unreadable), shown = 0;
    char text [TEXT_BYTES];
    const char *what = count == 1? "sample of this job's data cannot be read, and is left out"
        : "samples of this job's data cannot be read, and are left out";
    size_t used = (size_t) snprintf (text, sizeof text, "%llu %s", (unsigned long long) count, what);
    for (size_t index = 0; index < dataset->bad_named && shown < count; index++) {
        const bad_sample_t *bad = &dataset->bad [index];
        if (!roaring_bitmap_contains (self->told.unreadable, bad->id))
            continue;
        size_t left = sizeof text - MORE_BYTES - used;
        if (shown > 0 && strlen (bad->reason) + 2 >= left)
            break;
        int length = snprintf (text + used, left, "%s%s", shown++? "; ": ": ", bad->reason);
        used += (size_t) length < left? (size_t) length: left - 1;
    }
    if (shown > 0 && shown < count)
        snprintf (text + used, sizeof text - used, "; and %llu more", (unsigned long long) (count - shown));
    return xalloc_memory (strdup (text));
}

uint64_t
rank_batches_done (const wire_progress_t *progress)
{
    return progress->consumed > progress->released? progress->consumed: progress->released;
}

uint64_t
job_sending_epoch (const job_t *job)
{
    return job->draw.order_count? job->draw.batches [job_unsent_slot (job, 0)].epoch: job->draw.epoch;
}

bool
job_is_between_epochs (const job_t *job)
{
    return job->broker->draining && job->delivery.epoch_index == 0;
}

//  ---- ranks

void *
rank_user (const rank_t *self)
{
    return self->user;
}

void
rank_set_user (rank_t *self, void *user, bool is_inline)
{
    self->user = user;
    self->is_inline = is_inline;
}

job_t *
rank_job (const rank_t *self)
{
    return self->job;
}

uint32_t
rank_number (const rank_t *self)
{
    return self->number;
}

bool
rank_is_inline (const rank_t *self)
{
    return self->is_inline;
}

bool
rank_is_there (const rank_t *self)
{
    return self->job->state != JOB_OVER && (self->state == RANK_ATTACHING || self->state == RANK_HERE);
}

void
rank_each (broker_t *self, void (*visit) (void *context, rank_t *rank), void *context)
{
    for (job_t *job = self->jobs, *next; job; job = next) {
        next = job->next;
        for (uint32_t number = 0; number < job->asked.world_size; number++)
            if (rank_is_there (&job->ranks [number]))
                visit (context, &job->ranks [number]);
    }
}
