#include "broker_state.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//  A version's bookkeeping is some 200 bytes: nothing beside an image, all there is of a pixel.
enum { ACTIONS_MIN = 256, VERSION_COST_MIN = 256, READS_MAX = 128 };

_Static_assert (sizeof (version_t) < VERSION_COST_MIN, "the least cost covers the bookkeeping");

void *
broker_need (void *memory)
{
    if (!memory) {
        fprintf (stderr, "tureen: no memory for the broker's bookkeeping\n");
        abort ();
    }
    return memory;
}

//  Files are read of each folder beside the others and beside what comes of packs; all may be with the workers at once then.
size_t
broker_tasks_max (const broker_t *self)
{
    size_t folders = 0, most = self->prepare_max;
    for (size_t index = 0; index < self->dataset_count; index++)
        folders += !self->datasets [index]->supply;
    if (self->tenant_count == 1 && most < BROKER_FETCHES_MAX)
        most = BROKER_FETCHES_MAX;
    bool has_packs = self->dataset_count > folders || folders == 0;
    return most * folders + self->prepare_max * has_packs + self->copy_max;
}

size_t
broker_version_cost (size_t version_bytes)
{
    return version_bytes > VERSION_COST_MIN? version_bytes: VERSION_COST_MIN;
}

size_t
broker_cache_least (uint32_t workers, size_t version_bytes)
{
    return ((size_t) workers + 1) * broker_version_cost (version_bytes);
}

broker_t *
broker_new (const broker_options_t *options)
{
    assert (options->workers > 0);
    broker_t *self = broker_need (calloc (1, sizeof *self));
    self->magic = BROKER_MAGIC;
    self->options = *options;
    self->random = random_from_seed (options->seed);
    self->pauses = random_from_seed (~options->seed);
    //  Enough to keep workers busy while others' samples are read; copies are short, so more of them.
    self->prepare_max = 4 * (size_t) options->workers + 8;
    self->copy_max = 4 * (size_t) options->workers + 16;
    self->fairness = broker_need (fairness_new (self->prepare_max + self->copy_max + options->workers));
    self->read_max = READS_MAX;
    self->next_job = 1;
    self->wakeup_ms = INT64_MAX;
    self->version_index = version_index_new (options->cache_bytes, random_next (&self->random));
    version_index_reserve (self->version_index, options->workers);
    broker_add_tenant (self, &(broker_tenant_t) { .name = "operator", .weight = 1 });
    self->prepared = version_index_prepared (self->version_index);
    version_index_on_kind_end (self->version_index, schedule_class_over, self);
    version_index_on_leave (self->version_index, dispatch_left, self);
    return self;
}

static void
s_dataset_destroy (dataset_t *dataset)
{
    bad_forget (dataset);
    raw_prefetch_destroy (dataset);
    sampler_destroy (&dataset->sampler);
    free (dataset);
}

void
broker_destroy (broker_t **self_p)
{
    broker_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == BROKER_MAGIC);
    assert (!self->jobs);
    version_index_destroy (&self->version_index);
    assert (!self->classes);
    for (size_t index = 0; index < self->dataset_count; index++)
        patience_end (self, self->datasets [index]);
    for (size_t index = 0; index < self->dataset_count; index++)
        s_dataset_destroy (self->datasets [index]);
    for (size_t index = 0; index < self->tenant_count; index++)
        free (self->tenants [index]);
    raw_store_destroy (&self->raw);
    fairness_destroy (&self->fairness);
    free (self->records.all);
    free (self->actions);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

//  ---- data sets

dataset_t *
broker_add_dataset (broker_t *self, const char *name, uint32_t sample_count, broker_bad_t on_bad, void *user)
{
    assert (self->dataset_count < BROKER_DATASETS_MAX);
    assert (!broker_dataset (self, NULL, name));
    dataset_t *dataset = broker_need (calloc (1, sizeof *dataset));
    snprintf (dataset->name, sizeof dataset->name, "%s", name);
    dataset->samples = sample_count;
    dataset->number = (uint32_t) self->dataset_count;
    dataset->on_bad = on_bad;
    dataset->user = user;
    dataset->sampler = sampler_new (sample_count, self->options.policy, random_next (&self->random));
    self->datasets [self->dataset_count++] = dataset;
    fairness_set_tasks (self->fairness, broker_tasks_max (self) + self->options.workers);
    return dataset;
}

dataset_t *
broker_dataset (broker_t *self, const tenant_t *tenant, const char *name)
{
    for (size_t index = 0; index < self->dataset_count; index++)
        if (strcmp (self->datasets [index]->name, name) == 0 && tenant_may_use (tenant, self->datasets [index]))
            return self->datasets [index];
    return NULL;
}

char *
broker_dataset_names (const broker_t *self, const tenant_t *tenant)
{
    char *text = broker_need (calloc (self->dataset_count + 1, REQUEST_NAME_BYTES_MAX + 2));
    for (size_t index = 0; index < self->dataset_count; index++) {
        if (!tenant_may_use (tenant, self->datasets [index]))
            continue;
        if (*text)
            strcat (text, ", ");
        strcat (text, self->datasets [index]->name);
    }
    return text;
}

void *
dataset_user (const dataset_t *self)
{
    return self->user;
}

uint32_t
dataset_samples (const dataset_t *self)
{
    return self->samples;
}

//  ---- actions

action_t *
broker_act (broker_t *self, action_kind_t kind, job_t *job)
{
    if (self->action_count == self->action_room) {
        size_t room = self->action_room? self->action_room * 2: ACTIONS_MIN;
        action_t *actions = broker_need (calloc (room, sizeof *actions));
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
broker_act_rank (broker_t *self, action_kind_t kind, rank_t *rank)
{
    action_t *action = broker_act (self, kind, rank->job);
    action->rank = rank;
    return action;
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

//  ---- progress

uint64_t
broker_done (const wire_progress_t *progress)
{
    return progress->consumed > progress->released? progress->consumed: progress->released;
}

static void
s_count_consumed (job_t *job, uint64_t epoch, uint32_t samples)
{
    job->consumed_samples += samples;
    if (epoch > job->consumed_epoch) {
        job->consumed_epoch = epoch;
        job->consumed_epoch_samples = 0;
    }
    if (epoch == job->consumed_epoch)
        job->consumed_epoch_samples += samples;
}

//  Counts the batches that the client has just said it is done with: their slots are still there.
static void
s_count_newly_consumed (const rank_t *rank, const wire_progress_t *progress)
{
    uint64_t before = broker_done (&rank->progress), now = broker_done (progress);
    for (uint32_t slot = 0; slot < rank->job->slots; slot++)
        if (rank->held >> slot & 1 && rank->sequence [slot] >= before && rank->sequence [slot] < now)
            s_count_consumed (rank->job, rank->job->batches [slot].epoch, rank->rows [slot]);
}

//  What all ranks have released; one that has come back begins at 0, and the window does not shrink for that.
static void
s_measure_released (job_t *job)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t number = 0; number < job->world_size; number++)
        if (job->ranks [number].progress.released < least)
            least = job->ranks [number].progress.released;
    if (least > job->released)
        job->released = least;
}

//  A slot is free when no rank holds it.
static void
s_release (rank_t *rank, uint32_t slot)
{
    job_t *job = rank->job;
    rank->held &= ~(1ull << slot);
    rank->in_hand &= ~(1ull << slot);
    for (uint32_t number = 0; number < job->world_size; number++)
        if (job->ranks [number].held >> slot & 1)
            return;
    draw_release (job, slot);
}

bool
broker_progress (broker_t *self, rank_t *rank, const wire_progress_t *progress, int64_t now_ms,
    refusal_t *refusal)
{
    job_t *job = rank->job;
    assert (self->magic == BROKER_MAGIC && job->magic == JOB_MAGIC);
    if (!rank_is_there (rank))
        return true;
    rank->alive_ms = now_ms;
    const wire_progress_t *before = &rank->progress;
    if (progress->consumed > rank->sent || progress->released > rank->sent)
        return refuse (refusal, "bad_request",
            "progress (consumed %llu, released %llu) is beyond the %llu batches "
            "sent", (unsigned long long) progress->consumed, (unsigned long long) progress->released,
            (unsigned long long) rank->sent);
    if (progress->consumed < before->consumed || progress->released < before->released)
        return refuse (refusal, "bad_request",
            "progress (consumed %llu, released %llu) goes back from (%llu, %llu)",
            (unsigned long long) progress->consumed, (unsigned long long) progress->released,
            (unsigned long long) before->consumed, (unsigned long long) before->released);
    s_count_newly_consumed (rank, progress);
    rank->progress = *progress;
    s_measure_released (job);
    for (uint32_t slot = 0; slot < job->slots; slot++) {
        bool kept = progress->kept >> slot & 1;
        if (!(rank->held >> slot & 1))
            continue;
        if (rank->sequence [slot] < progress->consumed)
            rank->in_hand |= 1ull << slot;
        if (rank->sequence [slot] < progress->released && !kept)
            s_release (rank, slot);
    }
    ranks_count_in_hand (job);
    return true;
}

//  ---- work done

static void
s_fetched (broker_t *self, version_t *version)
{
    assert (version->state == VERSION_WORKING);
    if (version->raw || version->is_fetched)
        return;
    dispatch_fetched (self, version);
}

void
broker_fetched (broker_t *self, version_t *version)
{
    s_fetched (self, version);
    version->failures = 0;
    patience_good (version_dataset (self, version));
}

void
broker_set_fetches (broker_t *self, dataset_t *dataset, size_t most)
{
    (void) self;
    dataset->fetch_max = most < BROKER_FETCHES_MAX? most: BROKER_FETCHES_MAX;
}

void
broker_prepared (broker_t *self, version_t *version, outcome_t outcome, const char *reason)
{
    assert (version->state == VERSION_WORKING);
    assert (self->preparing > 0);
    s_fetched (self, version);
    self->preparing--;
    dispatch_prepared (self, version);
    raw_prefetch_release (self, version);
    if (outcome == OUTCOME_BAD)
        bad_found (self, version, reason);
    else
    if (outcome == OUTCOME_UNSUITABLE)
        unsuitable_found (self, version, reason);
    else {
        self->prepared_count++;
        limits_prepared (version);
        schedule_ready (version);
    }
    dispatch_unpin (self, version);
}

void
broker_copied (broker_t *self, place_t *place)
{
    job_t *job = place->job;
    rank_t *rank = &job->ranks [place->rank];
    assert (place->state == PLACE_COPYING);
    assert (self->copying > 0 && job->copying > 0 && rank->copying > 0);
    self->copying--;
    job->copying--;
    rank->copying--;
    dispatch_copied (self, place);
    version_t *version = place->version;
    place->version = NULL;
    dispatch_unpin (self, version);
    place->state = PLACE_FILLED;
    if (job->state == JOB_OVER)
        broker_reclaim_when_still (self, job);
    else
    if (!rank_is_there (rank))
        ranks_copied_late (self, place);
    else
        draw_place_done (self, place);
}

//  ---- time

static void
s_mark_rates (broker_t *self, int64_t now_ms)
{
    for (job_t *job = self->jobs; job; job = job->next) {
        if (job->mark_count && now_ms - job->marks [job->mark_count - 1].at_ms < 1000)
            continue;
        if (job->mark_count == RATE_MARKS) {
            memmove (job->marks, job->marks + 1, sizeof job->marks - sizeof job->marks [0]);
            job->mark_count--;
        }
        job->marks [job->mark_count++] = (rate_mark_t) { now_ms, job->consumed_samples };
    }
}

void
broker_wake (broker_t *self, int64_t at_ms)
{
    if (at_ms < self->wakeup_ms)
        self->wakeup_ms = at_ms;
}

void
broker_advance (broker_t *self, int64_t now_ms)
{
    assert (self->magic == BROKER_MAGIC);
    if (self->started_ms == 0)
        self->started_ms = now_ms;
    self->wakeup_ms = INT64_MAX;
    drain_end (self);
    waits_pass (self, now_ms);
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->state != JOB_OVER) {
            ranks_end_overdue (self, job, now_ms);
            ranks_send (self, job);
        }
    s_mark_rates (self, now_ms);
    patience_pass (self, now_ms);
    draw_rounds (self, now_ms);
    drain_mark (self);
    bool dispatched = dispatch_work (self);
    dispatched = raw_prefetch_dispatch (self) && dispatched;
    if (!dispatched && self->preparing == 0 && self->copying == 0 && self->reading == 0)
        broker_wake (self, now_ms + 100);       //  the system had no memory for a version or a sample: try again
    waits_look (self, now_ms);
    sharing_judge (self, now_ms);
    bad_tell_due (self, now_ms);
}

int64_t
broker_wakeup (const broker_t *self)
{
    return self->wakeup_ms;
}

//  ---- questions

dataset_t *
version_dataset (const broker_t *self, const version_t *version)
{
    return schedule_class (self, version)->dataset;
}

const pipeline_t *
version_pipeline (const broker_t *self, const version_t *version)
{
    return schedule_class (self, version)->pipeline;
}

pipeline_key_t
version_key (const broker_t *self, const version_t *version)
{
    return (pipeline_key_t) { .seed = schedule_class (self, version)->seed, .round = version->draw,
        .id = version->id };
}

job_t *
place_job (const place_t *self)
{
    return self->job;
}

rank_t *
place_rank (const place_t *self)
{
    return &self->job->ranks [self->rank];
}

uint32_t
place_slot (const place_t *self)
{
    return self->slot;
}

uint32_t
place_index (const place_t *self)
{
    return self->row;
}

uint32_t
place_id (const place_t *self)
{
    return self->id;
}

const version_t *
place_version (const place_t *self)
{
    return self->version;
}

pipeline_key_t
place_key (const place_t *self)
{
    return (pipeline_key_t) { .seed = self->job->seed, .round = self->epoch, .id = self->id,
        .occurrence = self->occurrence };
}

uint64_t
job_id (const job_t *self)
{
    assert (self->magic == JOB_MAGIC);
    return self->id;
}

uint32_t
job_world_size (const job_t *self)
{
    return self->world_size;
}

rank_t *
job_rank (job_t *self, uint32_t number)
{
    assert (number < self->world_size);
    return &self->ranks [number];
}

uint64_t
job_seed (const job_t *self)
{
    return self->seed;
}

dataset_t *
job_dataset (const job_t *self)
{
    return self->dataset;
}

const pipeline_t *
job_pipeline (const job_t *self)
{
    return self->pipeline;
}

uint64_t
job_epoch_samples (const job_t *self)
{
    return sampler_epoch_samples (self->dataset->sampler, self->consumer.sampler_job);
}

const char *
job_run (const job_t *self)
{
    return self->run;
}

bool
job_is_forked (const job_t *self)
{
    return self->is_forked;
}

bool
job_is_over (const job_t *self)
{
    return self->state == JOB_OVER;
}

void
broker_each_job (broker_t *self, void (*visit) (void *context, job_t *job), void *context)
{
    for (job_t *job = self->jobs, *next; job; job = next) {
        next = job->next;
        if (job->state != JOB_OVER)
            visit (context, job);
    }
}

job_t *
broker_job (broker_t *self, uint64_t id)
{
    job_t *job = self->jobs;
    while (job && job->id != id)
        job = job->next;
    return job && job->state != JOB_OVER? job: NULL;
}
