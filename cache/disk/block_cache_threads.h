/*  block_cache_threads -- the threads that read and write the cache on the local disk (block_cache.h), so
 *  that a disk that hangs holds up no others.
 *
 *  A caller hands over a request, and a thread works on a copy of it, in memory of the copy's own.  The
 *  caller waits for it (block_cache_threads_do), has several under way at once (block_queue.h), or goes on
 *  without an answer (block_cache_threads_hand_over).
 *
 *  Requests without an answer are carried out in order, by one thread at a time, and those of one data set
 *  together: they wait until BLOCK_CACHE_TOGETHER of them are there, or for BLOCK_CACHE_SOON_MS.  So the
 *  cache's lock is taken, and its room counted, once for several of them.  A request that asks for the order
 *  (is_behind) makes them begin at once, and has its turn when they have ended.  If they hang, that shows
 *  when a caller waits behind them, or when BLOCK_CACHE_HANDED_BYTES_MAX wait and the next one has to; the
 *  caller's patience begins anew with each step that ends before it.
 *
 *      A request takes 2 s: the caller goes on without a result, and the thread throws its own away when the
 *      disk answers.  Until then, and for 8 s at least, the cache is *aside*: no request begins.
 *      The disk answers, but takes more than 0.1 s (a slice): the caller's wait is lost.  With several under
 *      way that is the time in which none of them ends: requests that the disk carries out one after the
 *      other take long, and nothing is lost.  A lost second is forgotten after four.  When 2 s are lost, the
 *      cache is aside for 8 s.  So a disk that is always late costs about a quarter of the time, and a third
 *      if each answer takes nearly 2 s.
 *      Another server has the cache's lock for long: that time is not lost by the disk, and does not count,
 *      but for the last two seconds of an opening (block_cache_do_opening).
 *      No more threads can be started: requests wait for a free one, in order.
 *
 *  Any thread.
 */
#ifndef BLOCK_CACHE_THREADS_H
#define BLOCK_CACHE_THREADS_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct block_cache_threads block_cache_threads_t;
struct block_cache;
struct block_data;

enum {
    BLOCK_CACHE_THREADS_MAX = 32,       //  at most; each has one read of the disk under way
    BLOCK_CACHE_SLICE_MS = 100,
    BLOCK_CACHE_PATIENCE = 20,          //  slices that a request may take
    BLOCK_CACHE_UNITS_MAX = 256,
    BLOCK_CACHE_UNIT_BYTES = 4096,
    BLOCK_CACHE_TOGETHER = 16, BLOCK_CACHE_SOON_MS = 50,
    BLOCK_CACHE_HANDED_BYTES_MAX = 16 * 1024 * 1024     //  of requests without an answer that have not ended
};

//  Some units of a data set, and what is to be done with them.
typedef struct block_cache_request {
    void (*work) (struct block_cache_request *self);
    struct block_cache *cache;          //  lent until block_cache_close
    struct block_data *data;            //  the same
    uint64_t owner;                     //  of the units (block_data.h); 0: none
    bool is_modest;                     //  a store: other data sets stay; a drop: all stays without the lock
    bool may_wait;                      //  for the cache's lock, as long as another server has it
    uint64_t first;                     //  unit
    size_t count;                       //  of units, at most BLOCK_CACHE_UNITS_MAX
    size_t bytes;                       //  the last one may be short
    uint8_t *memory;                    //  of `bytes` bytes; NULL: none is needed
    bool is_change;                     //  what is in the memory goes to the disk
    bool is_behind;                     //  what was handed over before is done first
    //  Set by the threads: one that is to be done together with this one, with the same work and data.
    struct block_cache_request *more;
    //  the result
    bool is_good;
    bool is_locked_out;                 //  another server has the cache's lock
    size_t begin, end;                  //  of the memory: what has a meaning
    size_t found;                       //  units
    uint32_t sums [BLOCK_CACHE_UNITS_MAX];
} block_cache_request_t;

//  One; more are started when they are needed.  NULL: no memory, or no thread can be had.
block_cache_threads_t *block_cache_threads_new (void);
//  Waits for all that they work on.
void block_cache_threads_destroy (block_cache_threads_t **self_p);
//  Carries the request out, on a copy.  False: the cache is aside, the disk took longer than callers wait, or
//  there is no memory.
bool block_cache_threads_do (block_cache_threads_t *self, block_cache_request_t *request);
//  Has a copy of the request carried out soon; nothing tells how it ended.  False: it will not be, since the
//  cache is aside, or there is no memory, or too many bytes wait: then block_cache_threads_do waits for its
//  turn.
bool block_cache_threads_hand_over (block_cache_threads_t *self, const block_cache_request_t *request);
//  Whether a request that was handed over, of this data set and some of these units, has not ended.
bool block_cache_threads_have (block_cache_threads_t *self, const struct block_data *data, uint64_t first,
    uint64_t count);
//  Of what was handed over and has not ended.
uint64_t block_cache_threads_bytes (block_cache_threads_t *self);
//  True while no request begins; how often that began.
bool block_cache_threads_are_aside (block_cache_threads_t *self);
uint64_t block_cache_threads_times_aside (block_cache_threads_t *self);
//  For tests: waits until no thread works for a caller that has gone on.
void block_cache_threads_settle (block_cache_threads_t *self);
//  For tests: slices of another length.
void block_cache_threads_set_slice (block_cache_threads_t *self, uint32_t slice_ms);


//  ---- for block_queue.c

typedef enum { BLOCK_CACHE_JOB_WAITS, BLOCK_CACHE_JOB_WORKS, BLOCK_CACHE_JOB_DONE } block_cache_job_state_t;

//  A copy of a request, with its memory.  It is the caller's until it begins and when it has ended; between,
//  and once its caller has left it, the threads'.
typedef struct block_cache_job {
    block_cache_request_t request;
    block_cache_threads_t *threads;
    size_t capacity;                    //  of `memory`
    bool is_handed_over;                //  it has no caller
    //  Called by a thread, under the threads' lock, when it has ended; NULL: its caller waits for `changed`.
    void (*ended) (struct block_cache_job *self);
    pthread_cond_t changed;
    //  the queue's (block_queue.h)
    void *queue, *user;
    uint64_t began_ns;
    struct block_cache_job *before, *behind;
    //  the threads', and then the queue's
    struct block_cache_job *next;
    //  the threads', under their lock
    block_cache_job_state_t state;
    bool is_left;                       //  its caller has gone on
    _Alignas (max_align_t) uint8_t memory [];
} block_cache_job_t;

//  NULL: no memory.
block_cache_job_t *block_cache_threads_copy (block_cache_threads_t *self,
    const block_cache_request_t *request);
void block_cache_threads_free (block_cache_job_t *job);
//  False: the cache is aside, and it stays the caller's.
bool block_cache_threads_begin (block_cache_threads_t *self, block_cache_job_t *job);
//  The caller has waited for `slices`, and goes on without the job.  False: the job has ended, and is the
//  caller's.
bool block_cache_threads_leave (block_cache_threads_t *self, block_cache_job_t *job, double slices);
//  What is in the request's memory comes into this.
void block_cache_threads_take_over (const block_cache_request_t *request, uint8_t *memory);
//  Counts slices that a caller has waited and in which no read ended.
void block_cache_threads_count_lost (block_cache_threads_t *self, double slices);
uint32_t block_cache_threads_slice_ms (block_cache_threads_t *self);

#endif
