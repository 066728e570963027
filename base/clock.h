/*  clock -- the two clocks that the programs look at, waits on a condition until one of them says so, and a
 *  clock that counts only the time in which its owner looks.  No state but the owner's.
 */
#ifndef CLOCK_H
#define CLOCK_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t
clock_read_ns (clockid_t clock)
{
    struct timespec now;
    clock_gettime (clock, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

//  Goes on whatever becomes of the time of day.
static inline uint64_t
clock_now_ns (void)
{
    return clock_read_ns (CLOCK_MONOTONIC);
}

static inline int64_t
clock_now_ms (void)
{
    return (int64_t) (clock_now_ns () / 1000000);
}

static inline double
clock_seconds (clockid_t clock)
{
    return (double) clock_read_ns (clock) * 1e-9;
}

//  Processor time of this thread: what it waits for, and others' work on the same processor, do not count.
static inline uint64_t
clock_thread_ns (void)
{
    return clock_read_ns (CLOCK_THREAD_CPUTIME_ID);
}

//  ---- waits on a condition for a span of time, whatever becomes of the time of day

//  For deadlines of clock_deadline; pthread_cond_destroy is due.
static inline void
clock_condition_init (pthread_cond_t *self)
{
    pthread_condattr_t attributes;
    pthread_condattr_init (&attributes);
    pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
    pthread_cond_init (self, &attributes);
    pthread_condattr_destroy (&attributes);
}

//  The deadline of a wait that begins now.
static inline struct timespec
clock_deadline (int64_t span_ms)
{
    struct timespec until;
    clock_gettime (CLOCK_MONOTONIC, &until);
    until.tv_sec += span_ms / 1000;
    until.tv_nsec += span_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

//  ---- a clock that counts only the time in which its owner looks

//  Since the look before, no longer than the owner meant to wait.  While the owner's thread stands still,
//  answers lie unread, and that is no fault of the parts that sent them: so they are not late.  Owner: one
//  thread.
typedef struct {
    uint64_t now_ns;                    //  its own time
    uint64_t seen_ns;                   //  the system's clock, when the owner looked last
} watched_clock_t;

static inline watched_clock_t
watched_clock_new (uint64_t system_ns)
{
    return (watched_clock_t) { .now_ns = system_ns, .seen_ns = system_ns };
}

//  The owner looks, having meant to wait at most pause_ns since it did before.
static inline void
watched_clock_look (watched_clock_t *self, uint64_t system_ns, uint64_t pause_ns)
{
    uint64_t passed_ns = system_ns - self->seen_ns;
    self->seen_ns = system_ns;
    self->now_ns += passed_ns < pause_ns? passed_ns: pause_ns;
}

static inline int64_t
watched_clock_ms (const watched_clock_t *self)
{
    return (int64_t) (self->now_ns / 1000000);
}

#endif
