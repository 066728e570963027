#include "block_queue.h"
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "clock.h"

struct block_queue {
    //  set at birth
    block_cache_threads_t *threads;
    int descriptor;                     //  readable with one of these:
    int event, timer;
    //  owner only
    watched_clock_t clock;              //  a stop of the whole server counts as one slice at most
    uint64_t pause_ns;                  //  a slice
    uint64_t quiet_ns;                  //  in which something was under way, and nothing ended
    uint64_t due_ns;                    //  of the timer, by the system's clock; 0: it is not set
    bool is_late;                       //  some may be overdue
    block_cache_job_t *first;           //  under way or done
    //  shared
    pthread_mutex_t lock;               //  behind the threads' own
    block_cache_job_t *done, *last_done;
    bool is_told;                       //  `event` is readable
};


//  -- life

block_queue_t *
block_queue_new (block_cache_threads_t *threads)
{
    block_queue_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    *self = (block_queue_t) { .threads = threads, .clock = watched_clock_new (clock_now_ns ()),
        .descriptor = epoll_create1 (EPOLL_CLOEXEC), .event = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK),
        .timer = timerfd_create (CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK) };
    pthread_mutex_init (&self->lock, NULL);
    struct epoll_event item = { .events = EPOLLIN };
    if (self->descriptor < 0 || self->event < 0 || self->timer < 0
    ||  epoll_ctl (self->descriptor, EPOLL_CTL_ADD, self->event, &item) != 0
    ||  epoll_ctl (self->descriptor, EPOLL_CTL_ADD, self->timer, &item) != 0)
        block_queue_destroy (&self);
    return self;
}

void
block_queue_destroy (block_queue_t **self_p)
{
    block_queue_t *self = *self_p;
    if (!self)
        return;
    while (self->first) {
        block_cache_request_t *request;
        void *user;
        struct pollfd item = { .fd = self->descriptor, .events = POLLIN };
        bool is_taken = block_queue_take (self, &request, &user);
        if (request)
            block_queue_free (request);
        if (!is_taken && self->first)
            poll (&item, 1, -1);
    }
    int descriptors [] = { self->descriptor, self->event, self->timer };
    for (size_t at = 0; at < sizeof descriptors / sizeof *descriptors; at++)
        if (descriptors [at] >= 0)
            close (descriptors [at]);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

int
block_queue_descriptor (const block_queue_t *self)
{
    return self->descriptor;
}

block_cache_threads_t *
block_queue_threads (const block_queue_t *self)
{
    return self->threads;
}


//  -- the clock

static void
s_set_timer (block_queue_t *self, uint64_t now_ns)
{
    self->due_ns = self->first? now_ns + self->pause_ns: 0;
    uint64_t span_ns = self->first? self->pause_ns: 0;
    //  Setting it again takes back that it was readable.
    struct itimerspec span = { .it_value = { .tv_sec = (time_t) (span_ns / 1000000000u),
        .tv_nsec = (long) (span_ns % 1000000000u) } };
    timerfd_settime (self->timer, 0, &span, NULL);
}

static void
s_look_at_clock (block_queue_t *self)
{
    uint64_t now_ns = clock_now_ns (), before_ns = self->clock.now_ns;
    watched_clock_look (&self->clock, now_ns, self->pause_ns);
    if (self->first)
        self->quiet_ns += self->clock.now_ns - before_ns;
    if (self->due_ns == 0 || now_ns < self->due_ns)
        return;
    self->is_late = true;
    s_set_timer (self, now_ns);
}


//  -- requests

//  By a thread of the cache's.
static void
s_ended (block_cache_job_t *job)
{
    block_queue_t *self = job->queue;
    pthread_mutex_lock (&self->lock);
    *(self->done? &self->last_done->next: &self->done) = job;
    self->last_done = job;
    if (!self->is_told)
        eventfd_write (self->event, 1);
    self->is_told = true;
    pthread_mutex_unlock (&self->lock);
}

bool
block_queue_put (block_queue_t *self, const block_cache_request_t *request, void *user)
{
    assert (user);
    block_cache_job_t *job = block_cache_threads_copy (self->threads, request);
    if (!job)
        return false;
    if (!self->first)
        self->pause_ns = block_cache_threads_slice_ms (self->threads) * 1000000ull;
    s_look_at_clock (self);
    job->ended = s_ended;
    job->queue = self;
    job->user = user;
    job->began_ns = self->clock.now_ns;
    if (!block_cache_threads_begin (self->threads, job)) {
        block_cache_threads_free (job);
        return false;
    }
    if (!self->first)
        self->quiet_ns = 0;
    job->behind = self->first;
    if (self->first)
        self->first->before = job;
    self->first = job;
    if (self->due_ns == 0)
        s_set_timer (self, clock_now_ns ());
    return true;
}

static void
s_unlink (block_queue_t *self, block_cache_job_t *before, block_cache_job_t *behind)
{
    *(before? &before->behind: &self->first) = behind;
    if (behind)
        behind->before = before;
}

//  One that has ended, or NULL; then the descriptor is not readable for it any more.
static block_cache_job_t *
s_take_done (block_queue_t *self)
{
    pthread_mutex_lock (&self->lock);
    block_cache_job_t *job = self->done;
    if (job)
        self->done = job->next;
    else
    if (self->is_told) {
        eventfd_t count;
        eventfd_read (self->event, &count);
        self->is_told = false;
    }
    pthread_mutex_unlock (&self->lock);
    return job;
}

//  Leaves one that takes longer than callers wait.  False: there is none.
static bool
s_leave_overdue (block_queue_t *self, void **user_p)
{
    uint64_t patience_ns = self->pause_ns * BLOCK_CACHE_PATIENCE;
    for (block_cache_job_t *job = self->is_late? self->first: NULL, *before, *next; job; job = next) {
        before = job->before;
        next = job->behind;
        *user_p = job->user;
        //  One that is left may be freed by its thread at any moment.
        if (self->clock.now_ns - job->began_ns >= patience_ns
        &&  block_cache_threads_leave (self->threads, job, BLOCK_CACHE_PATIENCE)) {
            s_unlink (self, before, next);
            return true;
        }
    }
    self->is_late = false;
    return false;
}

bool
block_queue_take (block_queue_t *self, block_cache_request_t **request_p, void **user_p)
{
    *request_p = NULL;
    s_look_at_clock (self);
    for (block_cache_job_t *job; (job = s_take_done (self));) {
        if (self->quiet_ns > self->pause_ns && !job->request.is_locked_out)
            block_cache_threads_count_lost (self->threads, (double) self->quiet_ns / (double) self->pause_ns);
        self->quiet_ns = 0;
        s_unlink (self, job->before, job->behind);
        *request_p = &job->request;
        *user_p = job->user;
        if (*user_p)
            return true;
        block_cache_threads_free (job);
    }
    *request_p = NULL;
    while (s_leave_overdue (self, user_p))
        if (*user_p)
            return true;
    return false;
}

void
block_queue_free (block_cache_request_t *request)
{
    block_cache_threads_free ((block_cache_job_t *) request);       //  its first member
}

void
block_queue_drop (block_queue_t *self, const void *user)
{
    for (block_cache_job_t *job = self->first; job; job = job->behind)
        if (job->user == user)
            job->user = NULL;
}
