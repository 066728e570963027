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

static inline bool
jobset_equals (const jobset_t *self, const jobset_t *other)
{
    for (size_t word = 0; word < JOBSET_WORDS; word++)
        if (self->words [word] != other->words [word])
            return false;
    return true;
}

#endif
