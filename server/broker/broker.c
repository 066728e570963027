#include "broker.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "bad.h"
#include "budget.h"
#include "client_life.h"
#include "dispatch.h"
#include "draw.h"
#include "fetch_ahead.h"
#include "job.h"
#include "patience.h"
#include "raw_prefetch.h"
#include "raw_refcount.h"
#include "sharing_view.h"
#include "tenant.h"
#include "version.h"
#include "xalloc.h"

enum { READS_MAX = 128 };

broker_t *
broker_new (const broker_options_t *options)
{
    assert (options->workers > 0);
    broker_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->magic = BROKER_MAGIC;
    self->options = *options;
    self->random = random_from_seed (options->seed);
    self->pauses = random_from_seed (~options->seed);
    self->prepare_max = self->prepare_most = budget_prepare_max (self, 0);
    //  Copies are short, so more of them.
    self->copy_max = 4 * (size_t) options->workers + 16;
    self->fairness = xalloc_memory (fairness_new (self->prepare_max + self->copy_max + options->workers));
    self->read_max = READS_MAX;
    self->next_job = 1;
    self->wakeup_ms = INT64_MAX;
    self->version_index = version_index_new (options->cache_bytes, random_next (&self->random));
    version_index_reserve (self->version_index, budget_hands (options->workers, options->customs));
    tenant_add (self, &(broker_tenant_t) { .name = "operator", .weight = 1 });
    self->prepared = version_index_prepared (self->version_index);
    version_index_on_kind_end (self->version_index, dispatch_class_over, self);
    version_index_on_leave (self->version_index, dispatch_left, self);
    return self;
}

static void
s_dataset_destroy (dataset_t *dataset)
{
    bad_forget (dataset);
    raw_prefetch_destroy (dataset);
    fetch_ahead_destroy (dataset);
    sharing_view_forget (dataset);
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

//  ---- data sets that go

void
dataset_remove (broker_t *self, dataset_t *dataset)
{
    assert (self->magic == BROKER_MAGIC);
    assert (!dataset->is_removed);
    dataset->is_removed = true;
    for (uint32_t number = 0; number < SAMPLER_JOBS_MAX; number++)
        if (dataset->jobs [number])
            job_end (dataset->jobs [number], "removed", "data set '%s' was removed from the server",
                dataset->name);
    job_life_settle (self);
    version_index_end_sets (self->version_index, dataset->sampler);
}

//  What was handed out has a job, a class or a read.
static bool
s_is_used (const broker_t *self, const dataset_t *dataset)
{
    for (const job_t *job = self->jobs; job; job = job->next)
        if (job->dataset == dataset)
            return true;
    for (const class_t *class = self->classes; class; class = class->next)
        if (class->dataset == dataset)
            return true;
    return dataset->holds > 0 || (dataset->prefetch && dataset->prefetch->reading > 0)
        || fetch_ahead_reading (dataset) > 0;
}

//  Nothing uses it.  No row waits for its reads that rest, nor for emptied requests in the raw store's
//  queues.
static void
s_forget (broker_t *self, dataset_t *dataset)
{
    bool is_pack = dataset->prefetch;
    patience_end (self, dataset);
    if (is_pack)
        raw_store_forget (self->raw, dataset->number);
    for (size_t index = 0; index < self->tenant_count; index++)
        self->tenants [index]->datasets &= ~(UINT64_C (1) << dataset->number);
    self->places [dataset->number] = NULL;
    size_t index = 0;
    while (self->datasets [index] != dataset)
        index++;
    memmove (&self->datasets [index], &self->datasets [index + 1],
        (--self->dataset_count - index) * sizeof *self->datasets);
    budget_measure (self);
    s_dataset_destroy (dataset);
    if (is_pack)
        raw_prefetch_packs_changed (self);
}

bool
dataset_next_removed (broker_t *self, void **user_p)
{
    assert (self->magic == BROKER_MAGIC);
    for (size_t index = 0; index < self->dataset_count; index++) {
        dataset_t *dataset = self->datasets [index];
        if (!dataset->is_removed || s_is_used (self, dataset))
            continue;
        *user_p = dataset->user;
        s_forget (self, dataset);
        return true;
    }
    return false;
}

//  ---- progress

static void
s_count_consumed (job_t *job, uint64_t epoch, uint32_t samples)
{
    job->counts.consumed_samples += samples;
    if (epoch > job->counts.consumed_epoch) {
        job->counts.consumed_epoch = epoch;
        job->counts.consumed_epoch_samples = 0;
    }
    if (epoch == job->counts.consumed_epoch)
        job->counts.consumed_epoch_samples += samples;
}

//  Counts the batches that the client has just reported as consumed, while their slots still exist.
static void
s_count_newly_consumed (const rank_t *rank, const wire_progress_t *progress)
{
    uint64_t before = rank_batches_done (&rank->progress), now = rank_batches_done (progress);
    for (uint32_t slot = 0; slot < rank->job->asked.slots; slot++)
        if (rank->held >> slot & 1 && rank->sequence [slot] >= before && rank->sequence [slot] < now)
            s_count_consumed (rank->job, rank->job->draw.batches [slot].epoch, rank->rows [slot]);
}

//  What all ranks have released.  A returned rank begins at 0, which must not shrink the window.
static void
s_measure_released (job_t *job)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (job->ranks [number].progress.released < least)
            least = job->ranks [number].progress.released;
    if (least > job->delivery.released)
        job->delivery.released = least;
}

//  A slot is free when no rank holds it.
static void
s_release (rank_t *rank, uint32_t slot)
{
    job_t *job = rank->job;
    rank->held &= ~(1ull << slot);
    rank->in_hand &= ~(1ull << slot);
    for (uint32_t number = 0; number < job->asked.world_size; number++)
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
    for (uint32_t slot = 0; slot < job->asked.slots; slot++) {
        if (!(rank->held >> slot & 1))
            continue;
        if (rank->sequence [slot] < progress->consumed)
            rank->in_hand |= 1ull << slot;
        if (rank->sequence [slot] < progress->released) {
            rank->kept |= 1ull << rank->place [slot] & progress->kept;
            s_release (rank, slot);
        }
    }
    rank->kept &= progress->kept;
    rank_measure_places (rank);
    client_life_count_in_hand (job);
    return true;
}

//  ---- clients and jobs that come and go

void
broker_attached (broker_t *self, rank_t *rank, int64_t now_ms)
{
    client_life_attached (self, rank, now_ms);
    job_life_settle (self);
}

void
broker_inline (broker_t *self, rank_t *rank, int64_t now_ms)
{
    client_life_inline (self, rank, now_ms);
    job_life_settle (self);
}

void
broker_lost (broker_t *self, rank_t *rank, int64_t now_ms)
{
    client_life_lost (self, rank, now_ms);
    job_life_settle (self);
}

void
broker_left (broker_t *self, rank_t *rank)
{
    client_life_left (self, rank);
    job_life_settle (self);
}

void
broker_gone (broker_t *self, job_t *job)
{
    job_go (job);
    job_life_settle (self);
}

void
broker_end (broker_t *self, job_t *job, const char *reason, const char *message)
{
    job_end (job, reason, "%s", message);
    job_life_settle (self);
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
broker_unread (broker_t *self, version_t *version, int rc, const char *reason, int64_t now_ms)
{
    assert (version->state == VERSION_WORKING && !version->raw && rc < 0);
    if (patience_gives_up (self, version, rc, reason, now_ms)) {
        broker_prepared (self, version, OUTCOME_BAD, reason);
        return;
    }
    dispatch_unread (self, version);
    patience_rest (self, version, rc, now_ms);
    dispatch_unpin (self, version);
}

void
broker_prepared (broker_t *self, version_t *version, outcome_t outcome, const char *reason)
{
    assert (version->state == VERSION_WORKING);
    assert (self->preparing > 0);
    s_fetched (self, version);
    self->preparing--;
    dispatch_prepared (self, version);
    raw_refcount_release (self, version);
    if (outcome == OUTCOME_BAD)
        bad_found (self, version, reason);
    else
    if (outcome == OUTCOME_UNSUITABLE)
        bad_unsuitable_found (self, version, reason);
    else
    if (outcome == OUTCOME_ABANDONED) {
        assert (!version->waiting && !version->indexed);
        version_move (version, VERSION_BAD);
    }
    else {
        self->prepared_count++;
        tenant_count_prepared (version);
        row_queue_ready (version);
    }
    dispatch_unpin (self, version);
    job_life_settle (self);
}

void
broker_copied (broker_t *self, batch_row_t *row)
{
    job_t *job = row->job;
    rank_t *rank = &job->ranks [row->rank];
    assert (row->state == ROW_COPYING);
    assert (self->copying > 0 && job->dispatch.copying > 0 && rank->copying > 0);
    self->copying--;
    job->dispatch.copying--;
    rank->copying--;
    dispatch_copied (self, row);
    version_t *version = row->version;
    row->version = NULL;
    dispatch_unpin (self, version);
    row_move (row, ROW_FILLED);
    if (job->state == JOB_OVER)
        job_life_reclaim_when_still (self, job);
    else
    if (!rank_is_there (rank))
        client_life_copied_late (row);
    else
        row_done (row);
    job_life_settle (self);
}

//  ---- time

static void
s_mark_rates (broker_t *self, int64_t now_ms)
{
    for (job_t *job = self->jobs; job; job = job->next) {
        if (job->counts.mark_count && now_ms - job->counts.marks [job->counts.mark_count - 1].at_ms < 1000)
            continue;
        if (job->counts.mark_count == RATE_MARKS) {
            memmove (job->counts.marks, job->counts.marks + 1,
                sizeof job->counts.marks - sizeof job->counts.marks [0]);
            job->counts.mark_count--;
        }
        job->counts.marks [job->counts.mark_count++] = (rate_mark_t) { now_ms, job->counts.consumed_samples };
    }
}

void
broker_advance (broker_t *self, int64_t now_ms)
{
    assert (self->magic == BROKER_MAGIC);
    if (self->started_ms == 0)
        self->started_ms = now_ms;
    self->wakeup_ms = INT64_MAX;
    job_life_end_drained (self);
    job_life_settle (self);
    waits_pass (self, now_ms);
    for (job_t *job = self->jobs; job; job = job->next)
        if (job->state != JOB_OVER) {
            client_life_end_overdue (self, job, now_ms);
            client_life_send (self, job);
        }
    s_mark_rates (self, now_ms);
    patience_pass (self, now_ms);
    job_life_settle (self);
    draw_rounds (self, now_ms);
    job_life_settle (self);
    job_life_mark_drained (self);
    bool dispatched = dispatch_work (self);
    dispatched = dispatch_reads (self) && dispatched;
    fetch_ahead_pass (self, now_ms);
    if (!dispatched && self->preparing == 0 && self->copying == 0 && self->reading == 0)
        broker_wake (self, now_ms + 100);       //  the system had no memory for a version or a sample: try
                                                //  again
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
