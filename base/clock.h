//  clock -- the two clocks that a server looks at.  No state.
#ifndef CLOCK_H
#define CLOCK_H
#include <stdint.h>
#include <time.h>

//  Goes on whatever becomes of the time of day.
static inline int64_t
clock_now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

//  Processor time of this thread: what it waits for, and others' work on the same processor, do not count.
static inline uint64_t
clock_thread_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

#endif
