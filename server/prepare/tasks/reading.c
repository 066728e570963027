/*  A submitted request goes through `todo` to a thread, and through `done` back.
 *
 *  With a ring, or a store, there is one thread, which sleeps in reader_wait until a read is done or `todo`
 *  has something.  Without a ring, as many threads as the depth take turns at `todo`.  The thread with the
 *  turn takes a request and waits until fewer threads than the depth are reading, and then for memory, so
 *  that memory is given out in order here too; then it reads, and the next thread has the turn.  A thread
 *  that loses its ring becomes the first of those threads.
 */
#include "reading.h"
#include "exchange.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t at, bytes;
} share_t;

//  The memory for ranges: shares of one block, whole blocks of READER_ALIGN_BYTES.
typedef struct {
    //  set at birth
    uint8_t *bytes;
    size_t limit_bytes;
    size_t shares_max;
    share_t *shares;            //  by position
    //  shared, under lock
    pthread_mutex_t lock;
    pthread_cond_t freed;
    size_t count;
} memory_t;

typedef struct {
    reading_t *reading;
    reader_t *reader;
    pthread_t thread;
    reader_request_t *held;     //  the ring's thread: waits for memory, with all requests behind it
} worker_t;

struct reading {
    //  set at birth
    reading_options_t options;
    exchange_t *todo, *done;
    memory_t memory;
    bool began_with_ring;
    char mode [96];
    //  owner only
    worker_t workers [READING_DEPTH_MAX];
    size_t worker_count;        //  the first worker has the files, which the others share
    size_t running;             //  threads started and not joined
    size_t requests;            //  submitted and not taken back
    //  shared
    pthread_mutex_t turn;
    pthread_mutex_t lock;       //  of busy
    pthread_cond_t fewer;       //  signalled when fewer are busy, or more may be
    uint32_t busy;              //  threads that read, without a ring
    atomic_uint depth;
    atomic_bool lost_ring;
    char mode_without [96];     //  set before that
    atomic_bool stopping;
    atomic_bool poked;          //  `poke` is in todo
    reader_request_t poke;      //  no request: makes the thread look at its flags
};


static bool
s_has_ring (const reading_t *self)
{
    return self->began_with_ring && !atomic_load (&self->lost_ring);
}


//  -- memory

static bool
s_memory_open (memory_t *self, size_t limit_bytes, size_t shares_max)
{
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->freed, NULL);
    self->limit_bytes = limit_bytes / READER_ALIGN_BYTES * READER_ALIGN_BYTES;
    self->shares_max = shares_max;
    self->shares = calloc (shares_max, sizeof *self->shares);
    if (self->limit_bytes)
        self->bytes = aligned_alloc (READER_ALIGN_BYTES, self->limit_bytes);
    return self->shares && (self->bytes || self->limit_bytes == 0);
}

static void
s_memory_close (memory_t *self)
{
    assert (self->count == 0);
    pthread_mutex_destroy (&self->lock);
    pthread_cond_destroy (&self->freed);
    free (self->shares);
    free (self->bytes);
}

//  Finds the first gap that is wide enough.  Under lock.
static uint8_t *
s_memory_find (memory_t *self, size_t bytes)
{
    size_t at = 0, place = 0;
    for (; place < self->count && self->shares [place].at - at < bytes; place++)
        at = self->shares [place].at + self->shares [place].bytes;
    if (self->limit_bytes - at < bytes)
        return NULL;
    assert (self->count < self->shares_max);
    memmove (&self->shares [place + 1], &self->shares [place], (self->count - place) * sizeof *self->shares);
    self->shares [place] = (share_t) { .at = at, .bytes = bytes };
    self->count++;
    return self->bytes + at;
}

//  Room for the range's blocks; NULL: not now.  Waits for it if asked to.
static uint8_t *
s_memory_take (memory_t *self, const reader_request_t *request, bool wait)
{
    size_t bytes = reader_span (request->offset, request->bytes);
    pthread_mutex_lock (&self->lock);
    uint8_t *memory;
    while (!(memory = s_memory_find (self, bytes)) && wait)
        pthread_cond_wait (&self->freed, &self->lock);
    pthread_mutex_unlock (&self->lock);
    return memory;
}

static void
s_memory_give (memory_t *self, const uint8_t *memory)
{
    size_t at = (size_t) (memory - self->bytes);
    pthread_mutex_lock (&self->lock);
    size_t place = 0;
    while (place < self->count && self->shares [place].at != at)
        place++;
    assert (place < self->count);
    self->count--;
    memmove (&self->shares [place], &self->shares [place + 1], (self->count - place) * sizeof *self->shares);
    pthread_cond_signal (&self->freed);         //  only the thread with the turn waits
    pthread_mutex_unlock (&self->lock);
}


//  -- in the threads

//  To be announced.
static void
s_return (reading_t *self, reader_request_t *request)
{
    bool put = exchange_put_quietly (self->done, request);
    assert (put);               //  room for requests_max, and no more are submitted
}

//  A request has left the reader: its range's memory is freed after this.  A range is announced at once,
//  because more requests may be long in coming.
static void
s_complete (reading_t *self, reader_request_t *request)
{
    bool is_range = request->kind == READER_RANGE;
    if (is_range) {
        if (request->rc == 0)
            self->options.finish (self->options.context, request);
        s_memory_give (&self->memory, request->memory);
        request->memory = NULL;
    }
    s_return (self, request);
    if (is_range)
        exchange_announce (self->done);
}

static void
s_cancel (reading_t *self, reader_request_t *request)
{
    if (request == &self->poke)
        return;
    request->rc = -ECANCELED;
    request->memory = NULL;
    s_return (self, request);
    exchange_announce (self->done);
}

//  Gives requests from todo to the reader, as far as there is memory; if the ring is lost, only those taken
//  before.
static void
s_feed (worker_t *worker)
{
    reading_t *self = worker->reading;
    reader_request_t *request;
    while ((request = worker->held? worker->held: reader_is_concurrent (worker->reader)?
        exchange_try (self->todo): NULL)) {
        worker->held = NULL;
        if (request == &self->poke) {
            atomic_store (&self->poked, false);
            continue;
        }
        request->memory = NULL;
        if (request->kind == READER_RANGE
            && !(request->memory = s_memory_take (&self->memory, request, false))) {
            worker->held = request;
            break;
        }
        reader_submit (worker->reader, request);
    }
    reader_set_depth (worker->reader, atomic_load (&self->depth));
}

//  Waits until the request may be read beside the others.  False: given up.
static bool
s_begin (reading_t *self, reader_request_t *request)
{
    pthread_mutex_lock (&self->lock);
    while (self->busy >= atomic_load (&self->depth) && !atomic_load (&self->stopping))
        pthread_cond_wait (&self->fewer, &self->lock);
    bool goes_on = !atomic_load (&self->stopping);
    self->busy += goes_on;
    request->in_flight = self->busy;
    pthread_mutex_unlock (&self->lock);
    return goes_on;
}

static void
s_end (reading_t *self)
{
    pthread_mutex_lock (&self->lock);
    self->busy--;
    pthread_cond_signal (&self->fewer);         //  only the thread with the turn waits
    pthread_mutex_unlock (&self->lock);
}

//  The next request, with its memory; NULL: no more.
static reader_request_t *
s_next (reading_t *self)
{
    pthread_mutex_lock (&self->turn);
    reader_request_t *request;
    while ((request = exchange_take (self->todo)) == &self->poke)
        atomic_store (&self->poked, false);
    if (request && !s_begin (self, request)) {
        s_cancel (self, request);
        request = NULL;
    }
    if (request)
        request->memory = request->kind == READER_RANGE? s_memory_take (&self->memory, request, true): NULL;
    pthread_mutex_unlock (&self->turn);
    return request;
}

static void *
s_run_plain (void *argument)
{
    worker_t *worker = argument;
    reading_t *self = worker->reading;
    reader_request_t *request;
    while ((request = s_next (self))) {
        uint32_t in_flight = request->in_flight;
        reader_submit (worker->reader, request);
        while (!(request = reader_take (worker->reader)))
            reader_wait (worker->reader, -1);
        s_end (self);
        request->in_flight = in_flight;
        s_complete (self, request);
        exchange_announce (self->done);
    }
    return NULL;
}

static void *
s_run_ring (void *argument)
{
    worker_t *worker = argument;
    reading_t *self = worker->reading;
    reader_request_t *request;
    while (!atomic_load (&self->stopping)) {
        s_feed (worker);
        //  Checked again: a stop that came while the last poke was being taken has sent none.
        if (atomic_load (&self->stopping))
            break;
        //  If a request waits for memory a read is under way, because the largest range fits when there is
        //  none.
        assert (!worker->held || reader_pending (worker->reader) > 0);
        bool has_ring = reader_is_concurrent (worker->reader);
        if (!has_ring && reader_pending (worker->reader) == 0) {
            strcpy (self->mode_without, reader_mode (worker->reader));
            atomic_store (&self->lost_ring, true);
            return s_run_plain (worker);
        }
        reader_wait (worker->reader, worker->held || !has_ring? -1: exchange_descriptor (self->todo));
        while ((request = reader_take (worker->reader))) {
            s_complete (self, request);
            s_feed (worker);    //  keeps the disk busy meanwhile
        }
        exchange_announce (self->done);
    }
    reader_cancel (worker->reader);
    do {
        while ((request = reader_take (worker->reader)))
            s_complete (self, request);
        reader_wait (worker->reader, -1);
    } while (reader_pending (worker->reader) > 0);
    while ((request = reader_take (worker->reader)))
        s_complete (self, request);
    exchange_announce (self->done);
    if (worker->held)
        s_cancel (self, worker->held);
    return NULL;
}

//  A thread with every signal blocked: signals are the broker thread's alone.
static int
s_start (reading_t *self)
{
    worker_t *worker = &self->workers [self->running];
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    int rc = pthread_create (&worker->thread, NULL, reader_is_concurrent (worker->reader)? s_run_ring:
        s_run_plain, worker);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    if (rc)
        return -rc;
    pthread_setname_np (worker->thread, "reading");
    self->running++;
    return 0;
}


//  -- life

//  The first worker gets a ring, if possible, and opens the files.
static int
s_add_first (reading_t *self, const char **path_p)
{
    const reading_options_t *options = &self->options;
    reader_options_t wanted = { .depth = options->depth, .no_ring = options->no_ring,
        .no_direct = options->no_direct, .store = options->store,
        .backend = options->store? &reader_store: NULL, .cluster = options->cluster };
    worker_t *worker = &self->workers [0];
    worker->reading = self;
    int rc = reader_new (&worker->reader, &wanted);
    if (rc)
        return rc;
    self->worker_count = 1;
    for (size_t index = 0; rc == 0 && index < options->path_count; index++) {
        uint32_t file;
        rc = options->store?
            reader_add_object (worker->reader, options->paths [index], options->versions [index], &file):
            reader_add (worker->reader, options->paths [index], &file);
        if (rc)
            *path_p = options->paths [index];
        else
            assert (file == index);
        if (rc == 0 && options->blocks)
            reader_keep_object (worker->reader, file, &options->blocks [index]);
    }
    strcpy (self->mode, reader_mode (worker->reader));
    self->began_with_ring = reader_is_concurrent (worker->reader);
    return rc;
}

//  Without a ring there are as many threads as the depth; those that cannot start now may start later.
static void
s_add_others (reading_t *self)
{
    reader_options_t wanted = { .depth = 1, .no_ring = true, .files_of = self->workers [0].reader };
    int rc = atomic_load (&self->stopping) || s_has_ring (self)? -ECANCELED: 0;
    while (rc == 0 && self->running < atomic_load (&self->depth)) {
        if (self->worker_count == self->running) {
            self->workers [self->running].reading = self;
            rc = reader_new (&self->workers [self->running].reader, &wanted);
            self->worker_count += rc == 0;
        }
        if (rc == 0)
            rc = s_start (self);
    }
}

static int
s_open (reading_t *self, const char **path_p)
{
    self->todo = exchange_new (self->options.requests_max + 1, true);   //  plus the poke
    self->done = exchange_new (self->options.requests_max, true);
    if (!self->todo || !self->done)
        return -errno;
    if (!s_memory_open (&self->memory, self->options.buffer_bytes, self->options.requests_max))
        return -ENOMEM;
    int rc = s_add_first (self, path_p);
    if (rc == 0)
        rc = s_start (self);
    if (rc == 0)
        s_add_others (self);
    return rc;
}

int
reading_new (reading_t **self_p, const reading_options_t *options, const char **path_p)
{
    assert (self_p); assert (options); assert (path_p);
    assert (options->requests_max > 0);
    assert (options->depth > 0 && options->depth <= READING_DEPTH_MAX);
    assert (options->finish || options->path_count == 0);
    *self_p = NULL;
    *path_p = NULL;
    reading_t *self = calloc (1, sizeof *self);
    if (!self)
        return -ENOMEM;
    self->options = *options;
    pthread_mutex_init (&self->turn, NULL);
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->fewer, NULL);
    atomic_init (&self->depth, options->depth);
    atomic_init (&self->lost_ring, false);
    atomic_init (&self->stopping, false);
    atomic_init (&self->poked, false);
    int rc = s_open (self, path_p);
    if (rc == 0) {
        self->options.paths = NULL;             //  the caller's, and not used any more
        self->options.blocks = NULL;
        *self_p = self;
        self = NULL;
    }
    reading_destroy (&self);
    return rc;
}

void
reading_destroy (reading_t **self_p)
{
    assert (self_p);
    reading_t *self = *self_p;
    if (!self)
        return;
    reading_stop (self);
    assert (self->requests == 0);
    while (self->worker_count > 0)              //  the first, which has the files, ends last
        reader_destroy (&self->workers [--self->worker_count].reader);
    s_memory_close (&self->memory);
    exchange_destroy (&self->todo);
    exchange_destroy (&self->done);
    pthread_mutex_destroy (&self->turn);
    pthread_mutex_destroy (&self->lock);
    pthread_cond_destroy (&self->fewer);
    free (self);
    *self_p = NULL;
}


//  -- requests

void
reading_submit (reading_t *self, reader_request_t *request)
{
    assert (self->requests < self->options.requests_max);
    assert (request->kind == READER_FILE
        || reader_span (request->offset, request->bytes) <= self->memory.limit_bytes);
    self->requests++;
    if (atomic_load (&self->stopping)) {
        s_cancel (self, request);
        return;
    }
    bool put = exchange_put (self->todo, request);
    assert (put);
}

reader_request_t *
reading_done (reading_t *self)
{
    reader_request_t *request = exchange_try (self->done);
    if (request)
        self->requests--;
    return request;
}

size_t
reading_pending (const reading_t *self)
{
    return self->requests;
}

int
reading_descriptor (const reading_t *self)
{
    return exchange_descriptor (self->done);
}

//  At most one poke is on its way, so there is room for it.
static void
s_poke (reading_t *self)
{
    if (atomic_exchange (&self->poked, true))
        return;
    bool put = exchange_put (self->todo, &self->poke);
    assert (put);
}

//  Wakes threads that wait until fewer are busy.
static void
s_look_again (reading_t *self)
{
    pthread_mutex_lock (&self->lock);
    pthread_cond_broadcast (&self->fewer);
    pthread_mutex_unlock (&self->lock);
}

void
reading_set_depth (reading_t *self, uint32_t depth)
{
    assert (depth > 0 && depth <= READING_DEPTH_MAX);
    bool is_other = atomic_exchange (&self->depth, depth) != depth;
    if (self->running == 0)
        return;
    if (is_other && s_has_ring (self))
        s_poke (self);
    s_look_again (self);
    s_add_others (self);
}

uint32_t
reading_source_depth (const reading_t *self)
{
    uint32_t depth = atomic_load (&self->depth);
    return s_has_ring (self) || self->running > depth? depth: (uint32_t) self->running;
}

uint32_t
reading_depth (const reading_t *self)
{
    uint32_t depth = reading_source_depth (self);
    //  Reads of the local disk are beside the others, and may be all there are.
    uint32_t local = s_has_ring (self)? reader_local_depth (self->workers [0].reader): 0;
    return local > depth? local: depth;
}

void
reading_stop (reading_t *self)
{
    atomic_store (&self->stopping, true);
    if (self->running > 0)
        s_poke (self);
    s_look_again (self);
    if (self->todo)
        exchange_close (self->todo);
    for (; self->running > 0; self->running--)
        pthread_join (self->workers [self->running - 1].thread, NULL);
    reader_request_t *request;
    while (self->todo && (request = exchange_try (self->todo)))
        s_cancel (self, request);
}

const char *
reading_mode (const reading_t *self)
{
    return self->began_with_ring && !s_has_ring (self)? self->mode_without: self->mode;
}

bool
reading_is_direct (const reading_t *self, uint32_t file)
{
    return reader_is_direct (self->workers [0].reader, file);
}
