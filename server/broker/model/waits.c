#include "waits.h"
#include <assert.h>
#include "budget.h"
#include "job.h"
#include "tenant.h"
#include "version.h"

//  ---- what a job waits for

static bool
s_is_open (const batch_row_t *row)
{
    return row->state != ROW_FILLED && row->state != ROW_HOLE;
}

//  The first row that the next batch lacks; NULL: none.  Filled rows stay filled until waits_restart, so
//  the search continues where it stopped.
static const batch_row_t *
s_first_open (job_t *job)
{
    waits_t *waits = &job->waits;
    const batch_t *batch = &job->draw.batches [job_unsent_slot (job, 0)];
    for (; waits->row < batch->drawn; waits->row++)
        if (s_is_open (&batch->rows [waits->row]))
            return &batch->rows [waits->row];
    return NULL;
}

//  For a version that waits for a worker the queue decides: tasks that are handed out read the plain files.
static bool
s_is_read (const broker_t *self, const version_t *version)
{
    if (version->state == VERSION_READING)
        return true;
    if (version->raw)
        return false;
    size_t fetching = version_dataset (self, version)->fetching, beside = self->preparing - self->fetching;
    return version->state == VERSION_WORKING? !version->is_fetched: fetching > beside;
}

//  A copy stands in one line with the versions that workers prepare, and the broker does not know which task
//  a worker runs: so the cause is what takes more of their time.  Workers on other machines copy nothing.
static bool
s_is_copied (const broker_t *self)
{
    double processors = self->options.workers + self->lent, part = self->options.workers / processors;
    return (double) self->copying * self->copy_ns
        >= part * (double) budget_with_workers (self) * self->prepare_ns;
}

static waits_kind_t
s_look_at_row (const broker_t *self, const job_t *job, const batch_row_t *row)
{
    if (row->state != ROW_WAITING)
        return s_is_copied (self)? WAITS_COPY: WAITS_DECODE;
    if (row->version->state == VERSION_QUEUED && job->tenant->wants.lacks_memory)
        return WAITS_MEMORY;
    return s_is_read (self, row->version)? WAITS_READ: WAITS_DECODE;
}

//  What a rank without a sample in the next batch is sent instead, while it is being made; NULL: none.
static const batch_row_t *
s_open_padding (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        const batch_row_t *padding = &job->ranks [number].padding;
        if (padding->state == ROW_WAITING || padding->state == ROW_READY || padding->state == ROW_COPYING)
            return padding;
    }
    return NULL;
}

static bool
s_has_batches (const rank_t *rank)
{
    return rank->sent > rank_batches_done (&rank->progress);
}

//  With several ranks, if one has taken all it was sent, the job waits for the next batch.
static bool
s_all_have_batches (const job_t *job)
{
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        if (!s_has_batches (&job->ranks [number]))
            return false;
    return true;
}

static waits_kind_t
s_look (const broker_t *self, job_t *job, int64_t now_ms)
{
    if (job->state == JOB_RUNNING && job->draw.start_ms > now_ms)
        return WAITS_DRAW;
    if (job->delivery.held_up || s_all_have_batches (job) || job->draw.order_count == 0)
        return WAITS_CLIENT;
    const batch_row_t *row = s_first_open (job);
    if (!row)
        row = s_open_padding (job);
    return row? s_look_at_row (self, job, row): WAITS_CLIENT;
}

//  It has something to do, or is not there: others may wait for it, and it waits for none.
static bool
s_is_behind (const rank_t *rank)
{
    return s_has_batches (rank) || rank->state == RANK_ATTACHING || rank->state == RANK_LOST;
}

static void
s_look_at_ranks (job_t *job)
{
    bool is_any_behind = false;
    for (uint32_t number = 0; number < job->asked.world_size; number++)
        is_any_behind = is_any_behind || s_is_behind (&job->ranks [number]);
    waits_kind_t kind = job->waits.kind == WAITS_CLIENT && is_any_behind? WAITS_OTHER_RANK: job->waits.kind;
    for (uint32_t number = 0; number < job->asked.world_size; number++) {
        rank_t *rank = &job->ranks [number];
        rank->waits.kind = s_is_behind (rank) || rank->state == RANK_LEFT? WAITS_CLIENT: kind;
    }
}

//  ---- time

void
waits_pass (broker_t *self, int64_t now_ms)
{
    for (job_t *job = self->jobs; job; job = job->next) {
        waits_t *waits = &job->waits;
        if (!waits->runs || now_ms <= waits->since_ms)
            continue;
        int64_t spent_ms = now_ms - waits->since_ms;
        waits->spent_ms [waits->kind] += spent_ms;
        for (uint32_t number = 0; job->asked.world_size > 1 && number < job->asked.world_size; number++)
            job->ranks [number].waits.spent_ms [job->ranks [number].waits.kind] += spent_ms;
        waits->since_ms = now_ms;
    }
}

void
waits_look (broker_t *self, int64_t now_ms)
{
    for (job_t *job = self->jobs; job; job = job->next) {
        waits_t *waits = &job->waits;
        bool runs = job->state == JOB_RUNNING || job->state == JOB_DRAWN;
        if (runs && !waits->runs)
            waits->since_ms = job->draw.start_ms < now_ms? job->draw.start_ms: now_ms;
        waits->runs = runs;
        if (runs)
            waits->kind = s_look (self, job, now_ms);
        if (runs && job->asked.world_size > 1)
            s_look_at_ranks (job);
    }
}

//  ---- shown

static const int64_t s_bounds_ms [WAITS_BUCKETS] = { 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 60000 };

static const char *const s_names [WAITS_RANK_KINDS] = { "draw", "read", "memory", "decode", "copy", "client",
    "other_rank" };

void
waits_count (job_t *job, waits_histogram_t *histogram)
{
    waits_t *waits = &job->waits;
    for (int kind = 0; kind < WAITS_KINDS; kind++) {
        int64_t took_ms = waits->spent_ms [kind] - waits->counted_ms [kind];
        size_t bucket = 0;
        while (bucket < WAITS_BUCKETS && took_ms > s_bounds_ms [bucket])
            bucket++;
        histogram->counts [kind][bucket]++;
        waits->sent.counts [kind][bucket]++;
        histogram->sums_ms [kind] += took_ms;
        waits->sent.sums_ms [kind] += took_ms;
        waits->counted_ms [kind] = waits->spent_ms [kind];
    }
}

void
waits_histogram_add (waits_histogram_t *self, const waits_histogram_t *other)
{
    for (int kind = 0; kind < WAITS_KINDS; kind++) {
        self->sums_ms [kind] += other->sums_ms [kind];
        for (size_t bucket = 0; bucket <= WAITS_BUCKETS; bucket++)
            self->counts [kind][bucket] += other->counts [kind][bucket];
    }
}

//  A job's histogram has every second bound from the third one on: 10 ms, .. 10 s, more.
json_t *
waits_job_histogram_status (const job_t *job)
{
    const waits_histogram_t *sent = &job->waits.sent;
    json_t *object = json_pack ("{s:I}", "batches", (json_int_t) job->delivery.sent), *bounds = json_array ();
    for (size_t bucket = 2; bucket < WAITS_BUCKETS; bucket += 2)
        json_array_append_new (bounds, json_real ((double) s_bounds_ms [bucket] / 1000));
    json_object_set_new (object, "bounds", bounds);
    for (int kind = 0; kind < WAITS_KINDS; kind++) {
        json_t *counts = json_array ();
        uint64_t folded [WAITS_BUCKETS] = { 0 };
        for (size_t bucket = 0; bucket <= WAITS_BUCKETS; bucket++)
            folded [bucket < 3? 0: (bucket - 1) / 2] += sent->counts [kind][bucket];
        for (size_t bucket = 0; bucket <= json_array_size (bounds); bucket++)
            json_array_append_new (counts, json_integer ((json_int_t) folded [bucket]));
        if (sent->sums_ms [kind] > 0)
            json_object_set_new (object, s_names [kind], json_pack ("{s:O, s:f}", "counts", counts, "sum",
                (double) sent->sums_ms [kind] / 1000));
        json_decref (counts);
    }
    return object;
}

json_t *
waits_histogram_status (const waits_histogram_t *histogram)
{
    json_t *object = json_object (), *bounds = json_array ();
    for (size_t bucket = 0; bucket < WAITS_BUCKETS; bucket++)
        json_array_append_new (bounds, json_real ((double) s_bounds_ms [bucket] / 1000));
    json_object_set_new (object, "bounds", bounds);
    for (int kind = 0; kind < WAITS_KINDS; kind++) {
        json_t *counts = json_array ();
        for (size_t bucket = 0; bucket <= WAITS_BUCKETS; bucket++)
            json_array_append_new (counts, json_integer ((json_int_t) histogram->counts [kind][bucket]));
        json_object_set_new (object, s_names [kind], json_pack ("{s:o, s:f}", "counts", counts, "sum",
            (double) histogram->sums_ms [kind] / 1000));
    }
    return object;
}

//  since_ms: since when the time goes to `current`, and is not in the sums yet.
static json_t *
s_sums (const int64_t *spent_ms, int kinds, waits_kind_t current, int64_t since_ms, int64_t now_ms)
{
    json_t *object = json_object ();
    for (int kind = 0; kind < kinds; kind++) {
        int64_t more_ms = kind == (int) current && now_ms > since_ms? now_ms - since_ms: 0;
        json_object_set_new (object, s_names [kind], json_real ((double) (spent_ms [kind] + more_ms) / 1000));
    }
    return object;
}

json_t *
waits_status (const job_t *job, int64_t now_ms)
{
    const waits_t *waits = &job->waits;
    return s_sums (waits->spent_ms, WAITS_KINDS, waits->kind, waits->runs? waits->since_ms: now_ms, now_ms);
}

json_t *
waits_rank_status (const rank_t *rank, int64_t now_ms)
{
    const waits_t *clock = &rank->job->waits;
    return s_sums (rank->waits.spent_ms, WAITS_RANK_KINDS, rank->waits.kind,
        clock->runs? clock->since_ms: now_ms, now_ms);
}

void
waits_restart (job_t *job)
{
    job->waits.row = 0;
}

void
waits_check (const job_t *job)
{
    for (uint32_t row = 0; job->draw.order_count > 0 && row < job->waits.row; row++)
        assert (!s_is_open (&job->draw.batches [job_unsent_slot (job, 0)].rows [row]));
}
