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
    bool *open;                 //  by id: read for the job, and it remains
    uint32_t size, left, opened;            //  of data, of remains, of open
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
    bool *versions;             //  by id: a version is there, which serves every job
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

static inline raw_need_t
play_need (void *context, uint32_t number, uint32_t id)
{
    play_t *self = context;
    raw_need_t need = RAW_UNNEEDED;
    self->needs_asked++;
    for (uint32_t index = 0; index < PLAY_JOBS_MAX; index++) {
        const play_job_t *job = &self->jobs [index];
        if (!job->here || !job->data [id] || (number != index && number != RAW_ANY_JOB))
            continue;
        if (job->remains [id])
            need |= self->versions [id]? RAW_SERVED: RAW_NEEDED;
        if (job->epochs)
            need |= RAW_NEEDED_NEXT;
    }
    return need;
}

static inline void
play_open (void *context, uint32_t number, uint32_t id, bool open)
{
    play_job_t *job = &((play_t *) context)->jobs [number];
    if (job->open [id] == open || !job->remains [id])
        return;
    job->open [id] = open;
    job->opened += open? 1: (uint32_t) -1;
}

static inline uint64_t
play_unopened (void *context, uint32_t number)
{
    const play_job_t *job = &((const play_t *) context)->jobs [number];
    return job->left - job->opened;
}

static inline bool
play_goes_on (void *context, uint32_t number)
{
    return ((const play_t *) context)->jobs [number].epochs > 0;
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
    self.versions = calloc (samples, 1);
    for (int index = 0; index < PLAY_JOBS_MAX; index++) {
        self.jobs [index].data = calloc (samples, 1);
        self.jobs [index].remains = calloc (samples, 1);
        self.jobs [index].open = calloc (samples, 1);
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
        .sample_bytes = play_bytes, .need = play_need, .open = play_open, .unopened = play_unopened,
        .goes_on = play_goes_on, .context = self,
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
        free (self->jobs [index].open);
    }
    free (self->versions);
    free (self->order);
    free (self->bytes);
    free (self->breaks);
}

static inline uint32_t
play_number (const play_t *self, const play_job_t *job)
{
    return (uint32_t) (job - self->jobs);
}

static inline void
play_all_remain (play_t *self, play_job_t *job)
{
    memcpy (job->remains, job->data, self->samples);
    memset (job->open, 0, self->samples);
    job->left = job->size;
    job->opened = 0;
}

static inline void
play_epoch_begin (play_t *self, play_job_t *job)
{
    play_all_remain (self, job);
    raw_pool_epoch_begin (self->pool, play_number (self, job));
}

//  Its data are there.
static inline void
play_begin (play_t *self, play_job_t *job, uint32_t epochs)
{
    job->here = true;
    job->epochs = epochs - 1;
    play_all_remain (self, job);
    raw_pool_join (self->pool, play_number (self, job));
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
    play_begin (self, job, epochs);
}

static inline void
play_leave (play_t *self, play_job_t *job)
{
    job->here = false;
    raw_pool_leave (self->pool, play_number (self, job));
    raw_pool_sweep (self->pool);
}

typedef enum { PLAY_SUPPLY, PLAY_RESIDENT, PLAY_ANY } play_rank_t;

//  A random id that the job has left and that is of this rank; samples: there is none.
static inline uint32_t
play_choose_of (play_t *self, const play_job_t *job, play_rank_t rank)
{
    uint32_t chosen = self->samples;
    uint64_t seen = 0;
    for (uint32_t id = 0; id < self->samples; id++) {
        bool fits = rank == PLAY_SUPPLY? raw_pool_is_in_supply (self->pool, play_number (self, job), id)
            : rank == PLAY_RESIDENT? raw_pool_is_resident (self->pool, id): true;
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
    for (play_rank_t rank = PLAY_SUPPLY; rank < PLAY_ANY; rank++) {
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
    job->opened -= job->open [id];
    job->open [id] = false;
}

#endif
