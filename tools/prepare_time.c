#include "prepare_time.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "clock.h"

enum { ERROR_BYTES = 400, ALIGNMENT = 64 };

typedef struct {
    const prepare_time_options_t *options;
    atomic_uint_fast64_t next;
} work_t;

typedef struct {
    work_t *work;
    pthread_t thread;
    decoder_t *decoder;
    uint8_t *version;
    uint8_t *target;            //  all outputs, one behind the other
    prepare_time_t result;      //  the thread's own
} worker_t;

static size_t
s_aligned (size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void
s_targets (const worker_t *self, uint8_t *targets [PIPELINE_OUTPUTS_MAX])
{
    const pipeline_t *pipeline = self->work->options->pipeline;
    uint8_t *target = self->target;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++) {
        targets [index] = target;
        target += s_aligned (pipeline_output (pipeline, index)->bytes);
    }
}

static void
s_prepare (worker_t *self, const prepare_sample_t *sample, uint64_t round)
{
    const prepare_time_options_t *options = self->work->options;
    pipeline_key_t shared = sample->shared, private = sample->private;
    shared.round += round;
    private.round += round;
    decoder_sample_t files = { .files = sample->files, .warnings_max = options->warnings_max };
    char error [ERROR_BYTES];
    uint8_t *targets [PIPELINE_OUTPUTS_MAX];
    s_targets (self, targets);
    double begin = clock_seconds (CLOCK_THREAD_CPUTIME_ID);
    bool good = decoder_shared (self->decoder, options->pipeline, &shared, &files, self->version, NULL, error,
        sizeof error) == DECODER_OK;
    double middle = clock_seconds (CLOCK_THREAD_CPUTIME_ID);
    good = good && decoder_private (self->decoder, options->pipeline, &private, self->version, targets);
    double end = clock_seconds (CLOCK_THREAD_CPUTIME_ID);
    if (!good)
        return;
    self->result.prepared++;
    self->result.shared_seconds += middle - begin;
    self->result.private_seconds += end - middle;
}

static void *
s_run (void *argument)
{
    worker_t *self = argument;
    const prepare_time_options_t *options = self->work->options;
    uint64_t all = (uint64_t) options->count * options->repeat, index;
    while ((index = atomic_fetch_add_explicit (&self->work->next, 1, memory_order_relaxed)) < all)
        s_prepare (self, &options->samples [index % options->count], index / options->count);
    return NULL;
}

static bool
s_equip (worker_t *self, work_t *work)
{
    const pipeline_t *pipeline = work->options->pipeline;
    size_t bytes = 0;
    for (size_t index = 0; index < pipeline_outputs (pipeline); index++)
        bytes += s_aligned (pipeline_output (pipeline, index)->bytes);
    *self = (worker_t) {
        .work = work, .decoder = decoder_new (), .target = aligned_alloc (ALIGNMENT, bytes),
        .version = aligned_alloc (ALIGNMENT, s_aligned (pipeline_version_bytes (pipeline)))
    };
    return self->decoder && self->target && self->version;
}

bool
prepare_time (const prepare_time_options_t *options, prepare_time_t *result)
{
    assert (options->threads > 0);
    *result = (prepare_time_t) { 0 };
    work_t work = { .options = options };
    atomic_init (&work.next, 0);
    worker_t *workers = calloc (options->threads, sizeof *workers);
    bool good = workers;
    for (uint32_t index = 0; good && index < options->threads; index++)
        good = s_equip (&workers [index], &work);
    double begin = clock_seconds (CLOCK_MONOTONIC);
    uint32_t running = 0;
    for (int rc = 0; good && running < options->threads; running += rc == 0) {
        rc = pthread_create (&workers [running].thread, NULL, s_run, &workers [running]);
        good = rc == 0;
        errno = rc? rc: errno;
    }
    for (uint32_t index = 0; index < running; index++)
        pthread_join (workers [index].thread, NULL);
    result->seconds = clock_seconds (CLOCK_MONOTONIC) - begin;
    for (uint32_t index = 0; workers && index < options->threads; index++) {
        worker_t *worker = &workers [index];
        result->prepared += worker->result.prepared;
        result->shared_seconds += worker->result.shared_seconds;
        result->private_seconds += worker->result.private_seconds;
        decoder_destroy (&worker->decoder);
        free (worker->version);
        free (worker->target);
    }
    free (workers);
    return good;
}
