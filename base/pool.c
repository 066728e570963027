#include "pool.h"
#include "exchange.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { DONE_A_THREAD = 4 };     //  done and not announced

typedef struct {
    pool_t *pool;
    void *context;
    pthread_t thread;
} worker_t;

struct pool {
    //  set at birth
    pool_options_t options;
    exchange_t *todo;
    exchange_t *done;
    worker_t *workers;
    //  owner only
    size_t contexts;            //  made so far
    size_t running;             //  threads started and not joined
    size_t tasks;
    //  shared
    atomic_bool stopping;
};

//  The last of the tasks that wait now finds none waiting and announces all.  So a done task stays
//  unannounced only while others run, and at most until DONE_A_THREAD of each thread are done.
static void
s_hand_back (pool_t *self, void *task)
{
    size_t threads = self->options.threads;
    bool put = exchange_put_quietly (self->done, task);
    assert (put);               //  room for tasks_max, and no more are out
    if (exchange_count (self->todo) <= threads || exchange_count (self->done) >= DONE_A_THREAD * threads)
        exchange_announce (self->done);
}

static void *
s_run (void *argument)
{
    worker_t *worker = argument;
    pool_t *pool = worker->pool;
    void *task;
    while (!atomic_load (&pool->stopping) && (task = exchange_take (pool->todo))) {
        if (atomic_load (&pool->stopping)) {
            //  Not begun: back to where pool_drain finds it.  There is room, it was just taken from there.
            exchange_put (pool->todo, task);
            break;
        }
        pool->options.work (worker->context, task);
        s_hand_back (pool, task);
    }
    return NULL;
}

//  A thread with every signal blocked: signals are the broker thread's alone.
static int
s_start (worker_t *worker)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (&worker->thread, NULL, s_run, worker);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc == 0)
        pthread_setname_np (worker->thread, worker->pool->options.name);
    return rc;
}

pool_t *
pool_new (const pool_options_t *options)
{
    assert (options->threads > 0 && options->tasks_max > 0);
    pool_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->options = *options;
    atomic_init (&self->stopping, false);
    self->todo = exchange_new (options->tasks_max, false);
    self->done = exchange_new (options->tasks_max, true);
    self->workers = calloc (options->threads, sizeof *self->workers);
    bool good = self->todo && self->done && self->workers;
    for (; good && self->contexts < options->threads; self->contexts++) {
        worker_t *worker = &self->workers [self->contexts];
        worker->pool = self;
        worker->context = options->context_new? options->context_new (): NULL;
        good = worker->context || !options->context_new;
    }
    while (good && self->running < options->threads) {
        int rc = s_start (&self->workers [self->running]);
        if (rc) {
            errno = rc;
            good = false;
        }
        else
            self->running++;
    }
    if (!good) {
        int error = errno;
        pool_destroy (&self);
        errno = error;
    }
    return self;
}

void
pool_submit (pool_t *self, void *task)
{
    assert (self->tasks < self->options.tasks_max);
    self->tasks++;
    bool put = exchange_put (self->todo, task);
    assert (put);
}

void *
pool_done (pool_t *self)
{
    void *task = exchange_try (self->done);
    if (task)
        self->tasks--;
    return task;
}

int
pool_descriptor (const pool_t *self)
{
    return exchange_descriptor (self->done);
}

//  In this order: a thread puts a done task first, then it looks at what waits.  What waits becomes only less
//  here.
bool
pool_is_quiet (pool_t *self)
{
    return exchange_count (self->todo) > self->options.threads || exchange_count (self->done) > 0;
}

void
pool_stop (pool_t *self)
{
    atomic_store (&self->stopping, true);
    if (self->todo)
        exchange_close (self->todo);
    for (; self->running > 0; self->running--)
        pthread_join (self->workers [self->running - 1].thread, NULL);
}

void *
pool_drain (pool_t *self)
{
    assert (self->running == 0);
    void *task = exchange_try (self->todo);
    if (task)
        self->tasks--;
    return task;
}

void
pool_destroy (pool_t **self_p)
{
    pool_t *self = *self_p;
    if (!self)
        return;
    pool_stop (self);
    assert (self->tasks == 0);
    for (size_t index = 0; index < self->contexts; index++)
        if (self->workers [index].context)
            self->options.context_destroy (self->workers [index].context);
    exchange_destroy (&self->todo);
    exchange_destroy (&self->done);
    free (self->workers);
    free (self);
    *self_p = NULL;
}
