#include "block_cache_threads.h"
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"

enum {
    PATIENCE = BLOCK_CACHE_PATIENCE,
    SHARE = 4,                          //  one part in SHARE of the time may be lost
    TOGETHER_BYTES = 4 * 1024 * 1024,   //  are written in one step at most, and wait no longer
    SPARE_BYTES = 16 * 1024,            //  a smaller copy's memory is not kept
    ROUND_BYTES = 64 * 1024
};

static void s_start (struct block_cache_threads *self);

//  Jobs that are carried out in order.
typedef struct {
    block_cache_job_t *first, *last;    //  that wait
    size_t count, bytes;                //  of these; bytes of whole units
    size_t callers;                     //  of these: jobs that a caller waits for
    int64_t since_ms;                   //  the first waits
    block_cache_job_t *now;             //  under way, with those behind it; NULL: none
    size_t now_bytes;
} ordered_t;

struct block_cache_threads {
    //  under the lock
    pthread_mutex_t lock;
    pthread_cond_t work;                //  a job waits, or all end
    pthread_cond_t settled;             //  none is left
    pthread_t threads [BLOCK_CACHE_THREADS_MAX];
    size_t started, idle;
    block_cache_job_t *first, *last;    //  that wait
    size_t waiting;
    ordered_t ordered;
    block_cache_job_t *spare;           //  their memory is used again: what malloc gives back to the system
    size_t spares;                      //  costs the next copy a fault for each page
    size_t left;                        //  jobs that have no caller any more
    bool is_stopped;
    uint64_t ended;                     //  reads, of callers that have gone too
    uint64_t kept;                      //  jobs that were handed over and have ended
    uint32_t slice_ms;
    double lost;                        //  slices, beyond one part in SHARE of the time
    int64_t counted_ms, aside_until_ms;
    uint64_t times_aside;
};


//  -- jobs

//  A spare job with that much memory.  If none has, and as many are spare as may be: one of them, which a
//  larger one is to take the place of.  Else NULL.
static block_cache_job_t *
s_take_spare (block_cache_threads_t *self, size_t bytes)
{
    pthread_mutex_lock (&self->lock);
    block_cache_job_t **link = &self->spare;
    while (*link && (*link)->capacity < bytes)
        link = &(*link)->next;
    if (!*link && self->spares == BLOCK_CACHE_TOGETHER)
        link = &self->spare;
    block_cache_job_t *job = *link;
    if (job) {
        *link = job->next;
        self->spares--;
    }
    pthread_mutex_unlock (&self->lock);
    return job;
}

block_cache_job_t *
block_cache_threads_copy (block_cache_threads_t *self, const block_cache_request_t *request)
{
    assert (request->count <= BLOCK_CACHE_UNITS_MAX);
    size_t bytes = request->memory? request->bytes: 0, capacity = bytes;
    block_cache_job_t *job = NULL;
    if (bytes >= SPARE_BYTES) {
        capacity = (bytes + ROUND_BYTES - 1) / ROUND_BYTES * ROUND_BYTES;
        job = s_take_spare (self, bytes);
    }
    if (job && job->capacity < bytes) {
        free (job);
        job = NULL;
    }
    if (job)
        capacity = job->capacity;
    else
        job = malloc (sizeof *job + capacity);
    if (!job)
        return NULL;
    *job = (block_cache_job_t) { .request = *request, .threads = self, .capacity = capacity,
        .state = BLOCK_CACHE_JOB_WAITS };
    clock_condition_init (&job->changed);
    if (request->memory)
        job->request.memory = job->memory;
    if (request->memory && request->is_change)
        memcpy (job->memory, request->memory, bytes);
    return job;
}

//  Under the lock.
static void
s_free (block_cache_threads_t *self, block_cache_job_t *job)
{
    pthread_cond_destroy (&job->changed);
    if (job->capacity >= SPARE_BYTES && self->spares < BLOCK_CACHE_TOGETHER) {
        job->next = self->spare;
        self->spare = job;
        self->spares++;
    }
    else
        free (job);
}

void
block_cache_threads_free (block_cache_job_t *job)
{
    block_cache_threads_t *self = job->threads;
    pthread_mutex_lock (&self->lock);
    s_free (self, job);
    pthread_mutex_unlock (&self->lock);
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
    self->kept += job->is_handed_over;
    if (job->is_left || job->is_handed_over) {
        self->left -= job->is_left;
        s_free (self, job);
        pthread_cond_broadcast (&self->settled);
        return;
    }
    job->state = BLOCK_CACHE_JOB_DONE;
    if (job->ended)
        job->ended (job);
    else
        pthread_cond_broadcast (&job->changed);
}

//  -- jobs in order

//  Of the files of a data set the smallest take a unit too, or the list would be long.
static size_t
s_room (const block_cache_job_t *job)
{
    return job->request.count * BLOCK_CACHE_UNIT_BYTES;
}

//  Whether those that wait are to begin now.  Under the lock, as the next ones.
static bool
s_are_due (const block_cache_threads_t *self)
{
    const ordered_t *ordered = &self->ordered;
    return ordered->first && !ordered->now && (ordered->callers > 0 || self->is_stopped
        || ordered->count >= BLOCK_CACHE_TOGETHER || ordered->bytes >= TOGETHER_BYTES
        || clock_now_ms () - ordered->since_ms >= BLOCK_CACHE_SOON_MS);
}

//  Takes the first that waits, and those behind it that may be done together with it.
static void
s_take_in_order (block_cache_threads_t *self)
{
    ordered_t *ordered = &self->ordered;
    block_cache_job_t *job = ordered->now = ordered->first;
    for (size_t taken = 1;; taken++, job = job->next) {
        block_cache_job_t *next = job->next;
        job->state = BLOCK_CACHE_JOB_WORKS;
        ordered->count--;
        ordered->bytes -= s_room (job);
        ordered->now_bytes += s_room (job);
        ordered->callers -= !job->is_handed_over;
        if (!next || taken == BLOCK_CACHE_TOGETHER || ordered->now_bytes + s_room (next) > TOGETHER_BYTES
        ||  !job->is_handed_over || !next->is_handed_over
        ||  next->request.work != job->request.work || next->request.data != job->request.data)
            break;
        job->request.more = &next->request;
    }
    ordered->first = job->next;
    job->next = NULL;
    ordered->since_ms = clock_now_ms ();
}

static void
s_work_in_order (block_cache_threads_t *self)
{
    ordered_t *ordered = &self->ordered;
    s_take_in_order (self);
    pthread_mutex_unlock (&self->lock);
    ordered->now->request.work (&ordered->now->request);
    pthread_mutex_lock (&self->lock);
    block_cache_job_t *job = ordered->now, *next;
    ordered->now = NULL;
    ordered->now_bytes = 0;
    for (; job; job = next) {
        next = job->next;
        s_end (self, job);
    }
}

//  Until there may be something to do.
static void
s_rest (block_cache_threads_t *self)
{
    const ordered_t *ordered = &self->ordered;
    self->idle++;
    if (ordered->first && !ordered->now) {
        int64_t waited_ms = clock_now_ms () - ordered->since_ms;
        struct timespec until = clock_deadline (waited_ms < BLOCK_CACHE_SOON_MS? BLOCK_CACHE_SOON_MS
            - waited_ms: 0);
        pthread_cond_timedwait (&self->work, &self->lock, &until);
    }
    else
        pthread_cond_wait (&self->work, &self->lock);
    self->idle--;
}

//  Has a thread that does nothing else wait until those in order are due.
static void
s_have_watched (block_cache_threads_t *self)
{
    if (!self->ordered.first || self->ordered.now)
        return;
    if (self->idle <= self->waiting)
        s_start (self);
    pthread_cond_signal (&self->work);
}

static void *
s_run (void *argument)
{
    block_cache_threads_t *self = argument;
    pthread_mutex_lock (&self->lock);
    for (;;) {
        block_cache_job_t *job;
        if (s_are_due (self))
            s_work_in_order (self);
        else
        if ((job = s_next (self))) {
            s_have_watched (self);      //  if this thread did
            pthread_mutex_unlock (&self->lock);
            job->request.work (&job->request);
            pthread_mutex_lock (&self->lock);
            s_end (self, job);
        }
        else
        if (self->is_stopped)
            break;
        else
            s_rest (self);
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
    clock_condition_init (&self->work);
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
    for (block_cache_job_t *job; (job = self->spare);) {
        self->spare = job->next;
        free (job);
    }
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
    while (self->left > 0 || self->ordered.first || self->ordered.now)
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

//  In order, behind what waits.  Under the lock.
static void
s_put_in_order (block_cache_threads_t *self, block_cache_job_t *job)
{
    ordered_t *ordered = &self->ordered;
    bool is_first = !ordered->first;
    *(ordered->first? &ordered->last->next: &ordered->first) = job;
    ordered->last = job;
    ordered->count++;
    ordered->bytes += s_room (job);
    ordered->callers += !job->is_handed_over;
    if (is_first)
        ordered->since_ms = clock_now_ms ();
    //  The first one's thread sees when it is due.
    if (is_first || s_are_due (self))
        s_have_watched (self);
}

//  Under the lock.  False: the cache is aside.
static bool
s_begin (block_cache_threads_t *self, block_cache_job_t *job)
{
    if (s_is_aside (self))
        return false;
    if (job->request.is_behind && (self->ordered.first || self->ordered.now)) {
        s_put_in_order (self, job);
        return true;
    }
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
block_cache_threads_hand_over (block_cache_threads_t *self, const block_cache_request_t *request)
{
    block_cache_job_t *job = block_cache_threads_copy (self, request);
    if (!job)
        return false;
    job->is_handed_over = true;
    pthread_mutex_lock (&self->lock);
    bool is_taken = !s_is_aside (self) && self->ordered.bytes + self->ordered.now_bytes + s_room (job)
        <= BLOCK_CACHE_HANDED_BYTES_MAX;
    if (is_taken)
        s_put_in_order (self, job);
    else
        s_free (self, job);
    pthread_mutex_unlock (&self->lock);
    return is_taken;
}

bool
block_cache_threads_have (block_cache_threads_t *self, const struct block_data *data, uint64_t first,
    uint64_t count)
{
    pthread_mutex_lock (&self->lock);
    const block_cache_job_t *lists [] = { self->ordered.now, self->ordered.first };
    bool is_found = false;
    for (size_t list = 0; list < 2; list++)
        for (const block_cache_job_t *job = lists [list]; job && !is_found; job = job->next)
            is_found = job->request.data == data && job->request.first < first + count
                && first < job->request.first + job->request.count;
    pthread_mutex_unlock (&self->lock);
    return is_found;
}

uint64_t
block_cache_threads_bytes (block_cache_threads_t *self)
{
    pthread_mutex_lock (&self->lock);
    uint64_t bytes = self->ordered.bytes + self->ordered.now_bytes;
    pthread_mutex_unlock (&self->lock);
    return bytes;
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
    uint64_t began_ns = clock_now_ns (), ended = self->ended, kept = self->kept;
    struct timespec until = clock_deadline (self->slice_ms);
    int rc = pthread_cond_timedwait (&job->changed, &self->lock, &until);
    double waited = (double) (clock_now_ns () - began_ns) / slice_ns;
    double step = rc || waited > 1? 1: waited;
    *slices += step;
    bool is_own = job->state == BLOCK_CACHE_JOB_DONE && s_counts (job);
    if (self->ended - ended == is_own)
        *lost += step;
    if (job->request.is_behind && self->kept != kept)
        *slices = *lost = 0;            //  what stands before it is carried out
    return true;
}

bool
block_cache_threads_do (block_cache_threads_t *self, block_cache_request_t *request)
{
    block_cache_job_t *job = block_cache_threads_copy (self, request);
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
