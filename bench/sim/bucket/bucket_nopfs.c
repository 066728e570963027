#include "bucket_nopfs.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "bucket_streams.h"
#include "simulated_memory.h"

typedef struct {
    const bucket_nopfs_plan_t *plan;
    const bucket_nopfs_machine_t *machine;
    bucket_streams_t *streams;
    double shared_rate;             //  t(g)/g
    double *ready;                  //  [worker x samples + id]: when the keeper has it
    bool *touched;                  //  likewise: the keeper has used it
    uint32_t worker;                //  that is played
    bucket_nopfs_result_t *result;
} run_t;

typedef enum { FROM_OWN, FROM_PEER, FROM_SHARED } source_t;

//  Of one worker.
typedef struct {
    double staged;                  //  when the staging buffer's threads are free
    double taken, busy_until;       //  of the last sample
    double held;                    //  MB in the staging buffer
    uint64_t oldest;                //  in the buffer, a place of the stream
    uint64_t wanted;                //  a place of the stream: what its classes' prefetchers look at next
    double spare;                   //  seconds of its part of the file system that the staging buffer left
    double *taken_at;               //  of each place of the stream
} progress_t;

bucket_nopfs_machine_t
bucket_nopfs_machine (void)
{
    return (bucket_nopfs_machine_t) {
        .compute = 64, .preprocess = 200, .network = 24000,
        .capacity = { 5000, 120000, 900000 }, .rate = { 111000, 85000, 4000 }, .threads = { 8, 4, 2 },
        .shared = { 330, 730, 1540, 2870 }
    };
}

const char *
bucket_nopfs_name (bucket_policy_t policy)
{
    static const char *const names [BUCKET_POLICIES] = {
        "Perfect", "Naive", "StagingBuffer", "DeepIO, ordered", "DeepIO, opportunistic", "ParallelStaging",
        "LBANN, dynamic", "LBANN, preload", "LocalityAware", "Frequency (NoPFS)"
    };
    return names [policy];
}

//  ---- rates

//  Between the measured numbers of readers on a straight line; beyond eight, each reader has what eight have.
static double
s_shared_rate (const bucket_nopfs_machine_t *machine, uint32_t readers)
{
    for (int at = 0; at + 1 < BUCKET_NOPFS_RATES; at++) {
        double low = 1 << at, high = 2 << at;
        if (readers <= high)
            return (machine->shared [at] + (machine->shared [at + 1] - machine->shared [at]) * (readers - low)
                / (high - low)) / readers;
    }
    return machine->shared [BUCKET_NOPFS_RATES - 1] / (1 << (BUCKET_NOPFS_RATES - 1));
}

static double
s_class_rate (const bucket_nopfs_machine_t *machine, uint8_t class)
{
    return machine->rate [class] / machine->threads [class];
}

//  Seconds of one of `threads` threads that read from the file system at the same time.
static double
s_shared_seconds (const run_t *self, double size, uint32_t threads)
{
    return size / self->shared_rate * (self->machine->is_shared? threads: 1);
}

//  ---- one sample

//  The quickest source at this time.
static double
s_fetch (const run_t *self, uint32_t id, double now, source_t *source_p)
{
    const bucket_streams_t *streams = self->streams;
    double size = streams->sizes [id], best = INFINITY;
    for (uint32_t turn = 0; turn < streams->workers; turn++) {
        uint32_t keeper = (self->worker + turn) % streams->workers;
        uint8_t class = bucket_streams_kept (streams, keeper, id);
        if (!class || self->ready [(size_t) keeper * streams->samples + id] > now)
            continue;
        double rate = s_class_rate (self->machine, class);
        double seconds = size / (turn? fmin (self->machine->network, rate): rate);
        if (seconds < best) {
            best = seconds;
            *source_p = turn? FROM_PEER: FROM_OWN;
        }
    }
    double shared = s_shared_seconds (self, size, self->machine->threads [0]);
    if (shared < best) {
        best = shared;
        *source_p = FROM_SHARED;
    }
    return best;
}

static double
s_write (const bucket_nopfs_machine_t *machine, double size)
{
    return fmax (size / machine->preprocess, size / s_class_rate (machine, 0));
}

//  Counts the fetch, and keeps the sample where the policy says so.
static void
s_fetched (run_t *self, uint32_t id, source_t source, double now)
{
    bucket_streams_t *streams = self->streams;
    bucket_policy_t policy = self->plan->policy;
    size_t at = (size_t) self->worker * streams->samples + id;
    double size = streams->sizes [id];
    bool is_first_kept = policy == BUCKET_DEEPIO_ORDERED || policy == BUCKET_LBANN_DYNAMIC;
    *(source == FROM_OWN? &self->result->own_bytes: source == FROM_PEER? &self->result->peer_bytes:
        &self->result->shared_bytes) += size;
    if (is_first_kept && source == FROM_SHARED)
        bucket_streams_keep (streams, self->worker, id, 1);
    if (!streams->kept [at] || self->touched [at])
        return;
    //  A class's prefetcher had read it before the first use.
    if (source == FROM_OWN)
        self->result->shared_bytes += size;
    self->touched [at] = true;
    self->ready [at] = fmin (self->ready [at], now);
}

//  ---- one worker

static void
s_begin (const run_t *self, progress_t *progress, double begin)
{
    *progress = (progress_t) { .staged = begin, .busy_until = begin };
    progress->taken_at = simulated_alloc ((size_t) self->streams->epochs * self->streams->slice,
        sizeof *progress->taken_at);
}

//  When the staging buffer has room for the sample at this place.
static double
s_room_at (const run_t *self, progress_t *progress, uint64_t place, double size)
{
    const bucket_streams_t *streams = self->streams;
    double limit = self->machine->capacity [0] / self->plan->scale, at = 0;
    while (progress->oldest < place && progress->held + size > limit) {
        at = progress->taken_at [progress->oldest];
        progress->held -= streams->sizes [streams->streams [self->worker] [progress->oldest++]];
    }
    progress->held += size;
    return at;
}

//  Where threads share a worker's part of the file system, the classes' prefetchers have what the staging
//  buffer leaves of it.
static void
s_prefetch_spare (run_t *self, progress_t *progress)
{
    const bucket_streams_t *streams = self->streams;
    for (; progress->wanted < (uint64_t) streams->epochs * streams->slice; progress->wanted++) {
        uint32_t id = streams->streams [self->worker] [progress->wanted];
        size_t at = (size_t) self->worker * streams->samples + id;
        if (!streams->kept [at] || isfinite (self->ready [at]))
            continue;
        double seconds = streams->sizes [id] / self->shared_rate;
        if (seconds > progress->spare)
            return;
        progress->spare -= seconds;
        self->ready [at] = progress->staged;
    }
}

static void
s_stage (run_t *self, progress_t *progress, uint64_t place, uint32_t id)
{
    double size = self->streams->sizes [id], before = progress->staged;
    source_t source = FROM_SHARED;
    double begin = fmax (before, s_room_at (self, progress, place, size));
    double read = s_fetch (self, id, begin, &source) + s_write (self->machine, size);
    progress->staged = begin + read / self->machine->threads [0];
    s_fetched (self, id, source, progress->staged);
    if (self->plan->policy != BUCKET_FREQUENCY || !self->machine->is_shared)
        return;
    progress->spare += progress->staged - before - (source == FROM_SHARED? size / self->shared_rate: 0);
    s_prefetch_spare (self, progress);
}

static void
s_play_sample (run_t *self, progress_t *progress, uint64_t place)
{
    const bucket_nopfs_machine_t *machine = self->machine;
    uint32_t id = self->streams->streams [self->worker] [place];
    double size = self->streams->sizes [id], there = 0;
    if (self->plan->policy == BUCKET_NAIVE) {
        //  One thread, and nothing ahead.
        there = progress->busy_until + size / self->shared_rate + s_write (machine, size);
        self->result->shared_bytes += size;
    }
    else
    if (self->plan->policy != BUCKET_PERFECT) {
        s_stage (self, progress, place, id);
        there = progress->staged;
    }
    progress->taken = fmax (there, progress->busy_until);
    progress->taken_at [place] = progress->taken;
    progress->busy_until = progress->taken + size / machine->compute;
}

//  Loads a worker's part before it begins; its classes are loaded side by side.  Returns how long that takes.
static double
s_preload (run_t *self)
{
    bucket_streams_t *streams = self->streams;
    double seconds [BUCKET_NOPFS_CLASSES] = { 0 };
    for (uint32_t id = 0; id < streams->samples; id++) {
        size_t at = (size_t) self->worker * streams->samples + id;
        uint8_t class = streams->kept [at];
        if (!class)
            continue;
        self->ready [at] = 0;
        self->touched [at] = true;
        self->result->shared_bytes += streams->sizes [id];
        uint32_t threads = self->machine->threads [class];
        seconds [class] += s_shared_seconds (self, streams->sizes [id], threads) / threads;
    }
    return self->machine->is_shared? seconds [1] + seconds [2]: fmax (seconds [1], seconds [2]);
}

//  When NoPFS's prefetchers, with rates of their own, will have each sample that this worker keeps: in the
//  order of first use.
static void
s_prefetch (run_t *self)
{
    const bucket_streams_t *streams = self->streams;
    double clocks [BUCKET_NOPFS_CLASSES] = { 0 };
    for (size_t place = 0; place < (size_t) streams->epochs * streams->slice; place++) {
        uint32_t id = streams->streams [self->worker] [place];
        size_t at = (size_t) self->worker * streams->samples + id;
        uint8_t class = streams->kept [at];
        if (!class || isfinite (self->ready [at]))
            continue;
        uint32_t threads = self->machine->threads [class];
        clocks [class] += streams->sizes [id] / self->shared_rate / threads;
        self->ready [at] = clocks [class];
    }
}

//  ---- the run

static bool
s_is_possible (const bucket_nopfs_plan_t *plan, const bucket_streams_t *streams)
{
    double bytes = 0;
    for (uint32_t id = 0; id < streams->samples; id++)
        bytes += streams->sizes [id];
    return (plan->policy != BUCKET_LBANN_DYNAMIC && plan->policy != BUCKET_LBANN_PRELOAD)
        || bytes * plan->scale <= streams->workers * plan->machine.capacity [1];
}

static void
s_count_seen (const bucket_streams_t *streams, bucket_nopfs_result_t *result)
{
    uint64_t *workers = simulated_alloc (streams->samples, sizeof *workers), all = 0, pairs = 0;
    _Static_assert (BUCKET_NOPFS_WORKERS_MAX == 64, "a bit for each");
    for (uint32_t worker = 0; worker < streams->workers; worker++)
        for (size_t at = 0; at < (size_t) streams->epochs * streams->slice; at++)
            workers [streams->streams [worker] [at]] |= UINT64_C (1) << worker;
    for (uint32_t id = 0; id < streams->samples; id++) {
        all += workers [id] != 0;
        pairs += (uint64_t) __builtin_popcountll (workers [id]);
    }
    result->seen = (double) all / streams->samples;
    result->seen_by_worker = (double) pairs / streams->samples / streams->workers;
    free (workers);
}

//  Place by place, so that the workers are about in step.
static void
s_play (run_t *self)
{
    const bucket_streams_t *streams = self->streams;
    progress_t progress [BUCKET_NOPFS_WORKERS_MAX];
    bool is_loaded = self->plan->policy == BUCKET_PARALLEL || self->plan->policy == BUCKET_LBANN_PRELOAD;
    double begin = 0;
    for (self->worker = 0; self->worker < streams->workers; self->worker++) {
        if (is_loaded)
            begin = fmax (begin, s_preload (self));
        if (self->plan->policy == BUCKET_FREQUENCY && !self->machine->is_shared)
            s_prefetch (self);
    }
    for (self->worker = 0; self->worker < streams->workers; self->worker++)
        s_begin (self, &progress [self->worker], begin);
    for (uint64_t place = 0; place < (uint64_t) streams->epochs * streams->slice; place++)
        for (self->worker = 0; self->worker < streams->workers; self->worker++)
            s_play_sample (self, &progress [self->worker], place);
    for (uint32_t worker = 0; worker < streams->workers; worker++) {
        self->result->seconds = fmax (self->result->seconds, progress [worker].busy_until);
        free (progress [worker].taken_at);
    }
}

bucket_nopfs_result_t
bucket_nopfs_run (const bucket_nopfs_plan_t *plan, uint64_t seed)
{
    bucket_nopfs_result_t result = { .is_possible = false };
    run_t self = { .plan = plan, .machine = &plan->machine, .result = &result };
    self.streams = bucket_streams_new (plan, seed);
    result.is_possible = s_is_possible (plan, self.streams);
    if (result.is_possible) {
        size_t count = (size_t) self.streams->workers * self.streams->samples;
        self.shared_rate = s_shared_rate (&plan->machine, self.streams->workers);
        self.ready = simulated_alloc (count, sizeof *self.ready);
        self.touched = simulated_alloc (count, sizeof *self.touched);
        for (size_t at = 0; at < count; at++)
            self.ready [at] = INFINITY;
        s_play (&self);
        s_count_seen (self.streams, &result);
        free (self.ready);
        free (self.touched);
    }
    bucket_streams_destroy (&self.streams);
    return result;
}
