#include "block_cache_threads.h"
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"

enum {
    PATIENCE = BLOCK_CACHE_PATIENCE,
    SHARE = 4                           //  one part in SHARE of the time may be lost
};

struct block_cache_threads {
    //  under the lock
    pthread_mutex_t lock;
    pthread_cond_t work;                //  a job waits, or all end
    pthread_cond_t settled;             //  none is left
    pthread_t threads [BLOCK_CACHE_THREADS_MAX];
    size_t started, idle;
    block_cache_job_t *first, *last;    //  that wait
    size_t waiting;
    size_t left;                        //  jobs that have no caller any more
    bool is_stopped;
    uint64_t ended;                     //  reads, of callers that have gone too
    uint32_t slice_ms;
    double lost;                        //  slices, beyond one part in SHARE of the time
    int64_t counted_ms, aside_until_ms;
    uint64_t times_aside;
};


//  -- jobs

block_cache_job_t *
block_cache_threads_copy (const block_cache_request_t *request)
{
    assert (request->count <= BLOCK_CACHE_UNITS_MAX);
    size_t bytes = request->memory? request->bytes: 0;
    block_cache_job_t *job = malloc (sizeof *job + bytes);
    if (!job)
        return NULL;
    *job = (block_cache_job_t) { .request = *request, .state = BLOCK_CACHE_JOB_WAITS };
    clock_condition_init (&job->changed);
    if (request->memory)
        job->request.memory = job->memory;
    if (request->memory && request->is_change)
        memcpy (job->memory, request->memory, bytes);
    return job;
}

void
block_cache_threads_free (block_cache_job_t *job)
{
    pthread_cond_destroy (&job->changed);
    free (job);
}

void
block_cache_threads_take_over (const block_cache_request_t *request, uint8_t *memory)
{
    if (memory && !request->is_change && request->begin < request->end)
        memcpy (memory + request->begin, request->memory + request->begin, request->end - request->begin);
}

//  The first that waits; NULL: none does.
static block_cache_job_t *
s_next (block_cache_threads_t *self)
{
    block_cache_job_t *job = self->first;
    if (job) {
        self->first = job->next;
        self->waiting--;
        job->next = NULL;
        job->state = BLOCK_CACHE_JOB_WORKS;
    }
    return job;
}

//  Whether its end shows that the disk answers: what is written goes to the page cache, and a request that is
//  locked out does not come to the disk.
static bool
s_counts (const block_cache_job_t *job)
{
    return !job->request.is_change && !job->request.is_locked_out;
}

//  Under the lock.
static void
s_end (block_cache_threads_t *self, block_cache_job_t *job)
{
    self->ended += s_counts (job);
    if (job->is_left) {
        block_cache_threads_free (job);
        if (--self->left == 0)
            pthread_cond_broadcast (&self->settled);
        return;
    }
    job->state = BLOCK_CACHE_JOB_DONE;
    if (job->ended)
        job->ended (job);
    else
        pthread_cond_broadcast (&job->changed);
}

static void *
s_run (void *argument)
{
    block_cache_threads_t *self = argument;
    pthread_mutex_lock (&self->lock);
    for (;;) {
        block_cache_job_t *job = s_next (self);
        if (job) {
            pthread_mutex_unlock (&self->lock);
            job->request.work (&job->request);
            pthread_mutex_lock (&self->lock);
            s_end (self, job);
        }
        else
        if (self->is_stopped)
            break;
        else {
            self->idle++;
            pthread_cond_wait (&self->work, &self->lock);
            self->idle--;
        }
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}


//  -- life

//  One more, if there may be one and it can be had.  Signals are the server's own thread's.
static void
s_start (block_cache_threads_t *self)
{
    if (self->started == BLOCK_CACHE_THREADS_MAX)
        return;
    pthread_t *thread = &self->threads [self->started];
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (thread, NULL, s_run, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc)
        return;
    pthread_setname_np (*thread, "tureen-cache");
    self->started++;
}

block_cache_threads_t *
block_cache_threads_new (void)
{
    block_cache_threads_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->slice_ms = BLOCK_CACHE_SLICE_MS;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->work, NULL);
    pthread_cond_init (&self->settled, NULL);
    s_start (self);
    if (self->started == 0)
        block_cache_threads_destroy (&self);
    return self;
}

void
block_cache_threads_destroy (block_cache_threads_t **self_p)
{
    block_cache_threads_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    self->is_stopped = true;
    pthread_cond_broadcast (&self->work);
    pthread_mutex_unlock (&self->lock);
    for (size_t at = 0; at < self->started; at++)
        pthread_join (self->threads [at], NULL);
    pthread_cond_destroy (&self->work);
    pthread_cond_destroy (&self->settled);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

void
block_cache_threads_set_slice (block_cache_threads_t *self, uint32_t slice_ms)
{
    pthread_mutex_lock (&self->lock);
    self->slice_ms = slice_ms;
    pthread_mutex_unlock (&self->lock);
}

uint32_t
block_cache_threads_slice_ms (block_cache_threads_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint32_t slice_ms = self->slice_ms;
    pthread_mutex_unlock (&self->lock);
    return slice_ms;
}

void
block_cache_threads_settle (block_cache_threads_t *self)
{
    pthread_mutex_lock (&self->lock);
    while (self->left > 0)
        pthread_cond_wait (&self->settled, &self->lock);
    pthread_mutex_unlock (&self->lock);
}


//  -- a disk that is late

//  Under the lock.
static bool
s_is_aside (const block_cache_threads_t *self)
{
    return self->left > 0 || clock_now_ms () < self->aside_until_ms;
}

//  A caller has waited for that long.  Under the lock.
static void
s_count_lost (block_cache_threads_t *self, double slices)
{
    int64_t now_ms = clock_now_ms ();
    double allowed = (double) (now_ms - self->counted_ms) / self->slice_ms / SHARE;
    self->lost = (self->lost > allowed? self->lost - allowed: 0) + slices;
    self->counted_ms = now_ms;
    if (self->lost < PATIENCE)
        return;
    self->lost = PATIENCE;              //  callers that wait at the same time lose the same time
    self->times_aside += !s_is_aside (self);
    self->aside_until_ms = now_ms + (int64_t) PATIENCE * self->slice_ms * SHARE;
}

void
block_cache_threads_count_lost (block_cache_threads_t *self, double slices)
{
    pthread_mutex_lock (&self->lock);
    s_count_lost (self, slices);
    pthread_mutex_unlock (&self->lock);
}

bool
block_cache_threads_are_aside (block_cache_threads_t *self)
{
    pthread_mutex_lock (&self->lock);
    bool is_aside = s_is_aside (self);
    pthread_mutex_unlock (&self->lock);
    return is_aside;
}

uint64_t
block_cache_threads_times_aside (block_cache_threads_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint64_t times = self->times_aside;
    pthread_mutex_unlock (&self->lock);
    return times;
}


//  -- requests

//  Under the lock.  False: the cache is aside.
static bool
s_begin (block_cache_threads_t *self, block_cache_job_t *job)
{
    if (s_is_aside (self))
        return false;
    *(self->first? &self->last->next: &self->first) = job;
    self->last = job;
    self->waiting++;
    //  A thread that was woken and has no processor yet counts as idle: each has one job that waits.
    if (self->waiting > self->idle)
        s_start (self);
    pthread_cond_signal (&self->work);
    return true;
}

bool
block_cache_threads_begin (block_cache_threads_t *self, block_cache_job_t *job)
{
    pthread_mutex_lock (&self->lock);
    bool is_begun = s_begin (self, job);
    pthread_mutex_unlock (&self->lock);
    return is_begun;
}

//  Under the lock.
static bool
s_leave (block_cache_threads_t *self, block_cache_job_t *job)
{
    if (job->state == BLOCK_CACHE_JOB_DONE)
        return false;
    job->is_left = true;
    self->left++;
    return true;
}

bool
block_cache_threads_leave (block_cache_threads_t *self, block_cache_job_t *job, double slices)
{
    pthread_mutex_lock (&self->lock);
    bool is_done = job->state == BLOCK_CACHE_JOB_DONE;
    if (!is_done)
        s_count_lost (self, slices);
    bool is_left = s_leave (self, job);
    pthread_mutex_unlock (&self->lock);
    return is_left;
}

//  Waits until the job has ended, for a slice at most, and counts the time; as lost if no other read ended in
//  it.  A stop of the whole server counts as one slice at most.  False: the patience is over.
static bool
s_wait (block_cache_threads_t *self, block_cache_job_t *job, double *slices, double *lost)
{
    if (*slices >= PATIENCE)
        return false;
    double slice_ns = self->slice_ms * 1e6;
    uint64_t began_ns = clock_now_ns (), ended = self->ended;
    struct timespec until = clock_deadline (self->slice_ms);
    int rc = pthread_cond_timedwait (&job->changed, &self->lock, &until);
    double waited = (double) (clock_now_ns () - began_ns) / slice_ns;
    double step = rc || waited > 1? 1: waited;
    *slices += step;
    bool is_own = job->state == BLOCK_CACHE_JOB_DONE && s_counts (job);
    if (self->ended - ended == is_own)
        *lost += step;
    return true;
}

bool
block_cache_threads_do (block_cache_threads_t *self, block_cache_request_t *request)
{
    block_cache_job_t *job = block_cache_threads_copy (request);
    if (!job)
        return false;
    double slices = 0, lost = 0;
    pthread_mutex_lock (&self->lock);
    bool is_begun = s_begin (self, job);
    while (is_begun && job->state != BLOCK_CACHE_JOB_DONE && s_wait (self, job, &slices, &lost))
        ;
    bool is_done = job->state == BLOCK_CACHE_JOB_DONE;
    lost = is_done? lost: slices;
    if (lost >= 1 && !(is_done && job->request.is_locked_out))
        s_count_lost (self, lost);
    bool is_left = is_begun && s_leave (self, job);
    pthread_mutex_unlock (&self->lock);
    if (is_done) {
        uint8_t *memory = request->memory;
        block_cache_threads_take_over (&job->request, memory);
        *request = job->request;
        request->memory = memory;
    }
    if (!is_left)
        block_cache_threads_free (job);
    return is_done;
}
