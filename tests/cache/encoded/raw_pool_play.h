/*  raw_pool_play -- a raw pool with made-up samples and jobs, for its tests: arrays of flags say what each
 *  job needs. */
#ifndef RAW_POOL_PLAY_H
#define RAW_POOL_PLAY_H
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "raw_pool.h"
#include "seed.h"

enum { PLAY_JOBS_MAX = 4 };

typedef struct {
    bool *data;                 //  by id
    bool *remains;              //  by id: not drawn in the present epoch
    uint32_t size, left;        //  of data, of remains
    uint32_t epochs;            //  to begin after the present one
    bool here;
} play_job_t;

typedef struct {
    uint64_t random;            //  of everything
    uint32_t samples;
    uint32_t *order;
    size_t *bytes;
    uint32_t *breaks;
    size_t break_count;
    play_job_t jobs [PLAY_JOBS_MAX];
    raw_policy_t policy;
    raw_pool_t *pool;
    uint64_t needs_asked;
} play_t;

static inline uint64_t
play_below (void *random, uint64_t bound)
{
    return test_below (random, bound);
}

static inline size_t
play_bytes (void *context, uint32_t id)
{
    const play_t *self = context;
    return self->bytes [id];
}

//  As a tier says it: a next epoch counts when what is left of this one could all be resident.
static inline raw_need_t
play_need (void *context, uint32_t id)
{
    play_t *self = context;
    self->needs_asked++;
    bool now = false, next = false;
    for (int index = 0; index < PLAY_JOBS_MAX; index++) {
        const play_job_t *job = &self->jobs [index];
        if (!job->here || !job->data [id])
            continue;
        now |= job->remains [id];
        next |= job->epochs && self->pool && job->left <= raw_pool_figures (self->pool).resident;
    }
    return now? next? RAW_NEEDED_BOTH: RAW_NEEDED: next? RAW_NEEDED_NEXT: RAW_UNNEEDED;
}

//  samples of 1 .. bytes_max bytes (all bytes_max, if even) in a random order with a break at every
//  break_every.
static inline play_t
play_new (uint64_t random, uint32_t samples, size_t bytes_max, bool even, uint32_t break_every)
{
    play_t self = { .random = random, .samples = samples, .order = malloc (samples * sizeof (uint32_t)),
        .bytes = malloc (samples * sizeof (size_t)),
        .breaks = malloc ((samples / break_every + 1) * sizeof (uint32_t)) };
    for (uint32_t position = 0; position < samples; position++) {
        uint32_t other = (uint32_t) test_below (&self.random, position + 1);
        self.order [position] = self.order [other];
        self.order [other] = position;
        self.bytes [position] = even? bytes_max: 1 + test_below (&self.random, bytes_max);
        if (position % break_every == 0)
            self.breaks [self.break_count++] = position;
    }
    for (int index = 0; index < PLAY_JOBS_MAX; index++) {
        self.jobs [index].data = calloc (samples, 1);
        self.jobs [index].remains = calloc (samples, 1);
    }
    return self;
}

//  The play must not move any more.
static inline void
play_start (play_t *self, raw_policy_t policy, size_t limit_bytes, uint32_t piece, uint32_t virtual_chunks)
{
    static const raw_policy_ops_t *const ops [] = {
        [RAW_STREAM] = &raw_stream_ops, [RAW_REDOX] = &raw_redox_ops, [RAW_DIRECT] = &raw_direct_ops };
    raw_pool_options_t options = { .ops = ops [policy], .samples = self->samples, .order = self->order,
        .breaks = self->breaks, .break_count = self->break_count,
        .sample_bytes = play_bytes, .need = play_need, .context = self,
        .random_below = play_below, .random = &self->random, .limit_bytes = limit_bytes, .piece = piece,
        .chunk = piece,
        .virtual_chunks = virtual_chunks };
    self->policy = policy;
    self->pool = raw_pool_new (&options);
}

static inline void
play_destroy (play_t *self)
{
    raw_pool_destroy (&self->pool);
    for (int index = 0; index < PLAY_JOBS_MAX; index++) {
        free (self->jobs [index].data);
        free (self->jobs [index].remains);
    }
    free (self->order);
    free (self->bytes);
    free (self->breaks);
}

static inline void
play_epoch_begin (play_t *self, play_job_t *job)
{
    memcpy (job->remains, job->data, self->samples);
    job->left = job->size;
    raw_pool_needs_grew (self->pool);
}

//  The job draws from ids for which chance (of 8) says so, but at least from one.
static inline void
play_join (play_t *self, play_job_t *job, uint32_t chance, uint32_t epochs)
{
    job->size = 0;
    for (uint32_t id = 0; id < self->samples; id++)
        job->size += job->data [id] = test_below (&self->random, 8) < chance;
    if (job->size == 0)
        job->size = job->data [test_below (&self->random, self->samples)] = true;
    job->here = true;
    job->epochs = epochs - 1;
    play_epoch_begin (self, job);
}

static inline void
play_leave (play_t *self, play_job_t *job)
{
    job->here = false;
    raw_pool_sweep (self->pool);
}

typedef enum { PLAY_RESIDENT, PLAY_PASSED, PLAY_ANY } play_rank_t;

//  A random id that the job has left and that is of this rank; samples: there is none.
static inline uint32_t
play_choose_of (play_t *self, const play_job_t *job, play_rank_t rank)
{
    uint32_t chosen = self->samples;
    uint64_t seen = 0;
    for (uint32_t id = 0; id < self->samples; id++) {
        bool fits = rank == PLAY_RESIDENT? raw_pool_is_resident (self->pool, id)
            : rank == PLAY_PASSED? raw_pool_was_passed (self->pool, id): true;
        if (job->remains [id] && fits && test_below (&self->random, ++seen) == 0)
            chosen = id;
    }
    return chosen;
}

static inline bool
play_accepts (void *context, uint32_t id)
{
    const play_job_t *job = context;
    return job->remains [id];
}

//  What a tier would commit for this job.
static inline uint32_t
play_choose (play_t *self, play_job_t *job)
{
    if (self->policy == RAW_REDOX)
        return raw_pool_redirect (self->pool, play_choose_of (self, job, PLAY_ANY), play_accepts, job);
    for (play_rank_t rank = PLAY_RESIDENT; rank < PLAY_ANY; rank++) {
        uint32_t id = play_choose_of (self, job, rank);
        if (id < self->samples)
            return id;
    }
    return play_choose_of (self, job, PLAY_ANY);
}

//  The job has drawn it: its needs change.
static inline void
play_commit (play_job_t *job, uint32_t id)
{
    assert (job->remains [id]);
    job->remains [id] = false;
    job->left--;
}

#endif
