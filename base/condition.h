/*  condition -- waits on a condition for a span of time, whatever becomes of the time of day.  No state.  */
#ifndef CONDITION_H
#define CONDITION_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>

//  For deadlines of condition_until; pthread_cond_destroy is due.
static inline void
condition_init (pthread_cond_t *self)
{
    pthread_condattr_t attributes;
    pthread_condattr_init (&attributes);
    pthread_condattr_setclock (&attributes, CLOCK_MONOTONIC);
    pthread_cond_init (self, &attributes);
    pthread_condattr_destroy (&attributes);
}

//  The deadline of a wait that begins now.
static inline struct timespec
condition_until (int64_t span_ms)
{
    struct timespec until;
    clock_gettime (CLOCK_MONOTONIC, &until);
    until.tv_sec += span_ms / 1000;
    until.tv_nsec += span_ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

#endif
