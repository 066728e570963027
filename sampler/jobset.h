/*  jobset -- a set of job numbers below SAMPLER_JOBS_MAX.  Plain data: { 0 } is empty, assignment copies.  */
#ifndef JOBSET_H
#define JOBSET_H
#include <stdbool.h>
#include <stdint.h>

#include "sampler.h"

enum { JOBSET_WORDS = SAMPLER_JOBS_MAX / 64 };
_Static_assert (SAMPLER_JOBS_MAX % 64 == 0, "whole words");

typedef struct { uint64_t words [JOBSET_WORDS]; } jobset_t;

static inline void
jobset_add (jobset_t *self, uint32_t job)
{
    self->words [job / 64] |= UINT64_C (1) << (job % 64);
}

static inline void
jobset_remove (jobset_t *self, uint32_t job)
{
    self->words [job / 64] &= ~(UINT64_C (1) << (job % 64));
}

static inline bool
jobset_has (const jobset_t *self, uint32_t job)
{
    return self->words [job / 64] >> (job % 64) & 1;
}

static inline uint32_t
jobset_count (jobset_t self)
{
    uint32_t count = 0;
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        count += (uint32_t) __builtin_popcountll (self.words [word]);
    return count;
}

#endif
