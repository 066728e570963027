//  clock -- the two clocks that the programs look at.  No state.
#ifndef CLOCK_H
#define CLOCK_H
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

#endif
