#include "block_io.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "clock.h"

enum { MAGIC = 0xb10c1010 };

typedef enum {
    IDLE,
    TAKEN,                              //  by a caller, which writes to it or reads of it
    WORKS,                              //  or will, when it gets a processor
    DONE,                               //  its caller has not looked yet
    LEFT                                //  as WORKS, and its caller has gone on
} thread_state_t;

typedef struct {
    block_io_t *io;
    pthread_t thread;
    thread_state_t state;               //  under the lock
    pthread_cond_t changed;             //  the state
    //  the caller's while TAKEN or DONE, else the thread's
    block_io_request_t request;
    uint8_t *memory;
} thread_t;

struct block_io {
    uint32_t magic;
    //  under the lock
    pthread_mutex_t lock;
    pthread_cond_t freed;               //  a thread is IDLE
    thread_t threads [BLOCK_IO_THREADS_MAX];
    size_t started, left;
    bool is_stopped;
    uint32_t slice_ms;
    double lost;                        //  slices, beyond one part in BLOCK_IO_SHARE of the time
    int64_t counted_ms, aside_until_ms;
    uint64_t times_aside;
};


//  -- the threads

static void *
s_run (void *argument)
{
    thread_t *self = argument;
    block_io_t *io = self->io;
    pthread_mutex_lock (&io->lock);
    while (!io->is_stopped || self->state != IDLE) {
        if (self->state != WORKS && self->state != LEFT) {
            pthread_cond_wait (&self->changed, &io->lock);
            continue;
        }
        pthread_mutex_unlock (&io->lock);
        self->request.work (&self->request);
        pthread_mutex_lock (&io->lock);
        bool is_left = self->state == LEFT;
        io->left -= is_left;
        self->state = is_left? IDLE: DONE;
        pthread_cond_broadcast (is_left? &io->freed: &self->changed);
    }
    pthread_mutex_unlock (&io->lock);
    return NULL;
}

//  One more, IDLE; NULL: it cannot be had.  Signals are the server's own thread's.
static thread_t *
s_start (block_io_t *self)
{
    if (self->started == BLOCK_IO_THREADS_MAX)
        return NULL;
    thread_t *thread = &self->threads [self->started];
    *thread = (thread_t) { .io = self, .state = IDLE,
        .memory = malloc ((size_t) BLOCK_IO_UNITS_MAX * BLOCK_DATA_UNIT_BYTES) };
    if (!thread->memory)
        return NULL;
    clock_condition_init (&thread->changed);
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (&thread->thread, NULL, s_run, thread);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc) {
        pthread_cond_destroy (&thread->changed);
        free (thread->memory);
        return NULL;
    }
    pthread_setname_np (thread->thread, "tureen-cache");
    self->started++;
    return thread;
}


//  -- life

block_io_t *
block_io_new (void)
{
    block_io_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->magic = MAGIC;
    self->slice_ms = BLOCK_IO_SLICE_MS;
    pthread_mutex_init (&self->lock, NULL);
    clock_condition_init (&self->freed);
    if (!s_start (self))
        block_io_destroy (&self);
    return self;
}

void
block_io_destroy (block_io_t **self_p)
{
    assert (self_p);
    block_io_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    self->is_stopped = true;
    for (size_t at = 0; at < self->started; at++)
        pthread_cond_broadcast (&self->threads [at].changed);
    pthread_mutex_unlock (&self->lock);
    for (size_t at = 0; at < self->started; at++) {
        thread_t *thread = &self->threads [at];
        pthread_join (thread->thread, NULL);
        pthread_cond_destroy (&thread->changed);
        free (thread->memory);
    }
    pthread_cond_destroy (&self->freed);
    pthread_mutex_destroy (&self->lock);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
block_io_set_slice (block_io_t *self, uint32_t slice_ms)
{
    pthread_mutex_lock (&self->lock);
    self->slice_ms = slice_ms;
    pthread_mutex_unlock (&self->lock);
}

void
block_io_settle (block_io_t *self)
{
    pthread_mutex_lock (&self->lock);
    while (self->left > 0)
        pthread_cond_wait (&self->freed, &self->lock);
    pthread_mutex_unlock (&self->lock);
}


//  -- when the cache is aside; under the lock

static bool
s_is_aside (const block_io_t *self)
{
    return self->left > 0 || clock_now_ms () < self->aside_until_ms;
}

//  A caller has waited for that long.
static void
s_count_lost (block_io_t *self, double slices)
{
    int64_t now_ms = clock_now_ms ();
    double allowed = (double) (now_ms - self->counted_ms) / self->slice_ms / BLOCK_IO_SHARE;
    self->lost = (self->lost > allowed? self->lost - allowed: 0) + slices;
    self->counted_ms = now_ms;
    if (self->lost < BLOCK_IO_PATIENCE)
        return;
    self->lost = BLOCK_IO_PATIENCE;     //  callers that wait at the same time lose the same time
    self->times_aside += !s_is_aside (self);
    self->aside_until_ms = now_ms + (int64_t) BLOCK_IO_PATIENCE * self->slice_ms * BLOCK_IO_SHARE;
}

bool
block_io_is_aside (block_io_t *self)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    bool is_aside = s_is_aside (self);
    pthread_mutex_unlock (&self->lock);
    return is_aside;
}

uint64_t
block_io_times_aside (block_io_t *self)
{
    assert (self && self->magic == MAGIC);
    pthread_mutex_lock (&self->lock);
    uint64_t times = self->times_aside;
    pthread_mutex_unlock (&self->lock);
    return times;
}


//  -- requests

//  Waits until something changes, for a slice at most, and counts the time.  A stop of the whole server
//  counts as one slice at most.  False: the patience is over.
static bool
s_wait (block_io_t *self, pthread_cond_t *changed, double *slices)
{
    if (*slices >= BLOCK_IO_PATIENCE)
        return false;
    double slice_ns = self->slice_ms * 1e6;
    uint64_t began_ns = clock_now_ns ();
    struct timespec until = clock_deadline (self->slice_ms);
    int rc = pthread_cond_timedwait (changed, &self->lock, &until);
    double waited = (double) (clock_now_ns () - began_ns) / slice_ns;
    *slices += rc || waited > 1? 1: waited;
    return true;
}

//  NULL: the cache is aside, or no thread was free in time.
static thread_t *
s_take (block_io_t *self, double *slices)
{
    while (!s_is_aside (self)) {
        thread_t *found = NULL;
        for (size_t at = 0; at < self->started && !found; at++)
            if (self->threads [at].state == IDLE)
                found = &self->threads [at];
        found = found? found: s_start (self);
        if (found) {
            found->state = TAKEN;
            return found;
        }
        if (!s_wait (self, &self->freed, slices))
            break;
    }
    return NULL;
}

static void
s_hand_over (thread_t *thread, const block_io_request_t *request)
{
    thread->request = *request;
    thread->request.memory = request->memory? thread->memory: NULL;
    if (request->is_change && request->memory)
        memcpy (thread->memory, request->memory, request->bytes);
}

static void
s_take_over (const thread_t *thread, block_io_request_t *request)
{
    uint8_t *memory = request->memory;
    *request = thread->request;
    request->memory = memory;
    if (memory && !request->is_change && request->begin < request->end)
        memcpy (memory + request->begin, thread->memory + request->begin, request->end - request->begin);
}

bool
block_io_do (block_io_t *self, block_io_request_t *request)
{
    assert (self && self->magic == MAGIC); assert (request->count <= BLOCK_IO_UNITS_MAX);
    double slices = 0;
    pthread_mutex_lock (&self->lock);
    thread_t *thread = s_take (self, &slices);
    bool is_done = false;
    if (thread) {
        pthread_mutex_unlock (&self->lock);
        s_hand_over (thread, request);
        pthread_mutex_lock (&self->lock);
        thread->state = WORKS;
        pthread_cond_broadcast (&thread->changed);
        while (thread->state == WORKS && s_wait (self, &thread->changed, &slices))
            ;
        is_done = thread->state == DONE;
    }
    if (slices >= 1 && !(is_done && thread->request.is_locked_out))
        s_count_lost (self, slices);
    if (thread && !is_done) {
        thread->state = LEFT;
        self->left++;
    }
    pthread_mutex_unlock (&self->lock);
    if (is_done) {
        s_take_over (thread, request);
        pthread_mutex_lock (&self->lock);
        thread->state = IDLE;
        pthread_cond_broadcast (&self->freed);
        pthread_mutex_unlock (&self->lock);
    }
    return is_done;
}
