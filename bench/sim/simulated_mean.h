/*  simulated_mean -- a mean that can be added to and merged, and how sure it is.  */
#ifndef SIMULATED_MEAN_H
#define SIMULATED_MEAN_H
#include <math.h>
#include <stdint.h>

typedef struct {
    uint64_t count;
    double sum, squares;
} mean_t;

static inline void
mean_add (mean_t *self, double value)
{
    self->count++;
    self->sum += value;
    self->squares += value * value;
}

static inline void
mean_merge (mean_t *self, const mean_t *other)
{
    self->count += other->count;
    self->sum += other->sum;
    self->squares += other->squares;
}

//  NAN of nothing.
static inline double
mean_of (const mean_t *self)
{
    return self->count? self->sum / (double) self->count: NAN;
}

//  Of the mean, from the spread of what was added; NAN of fewer than two.
static inline double
mean_standard_error (const mean_t *self)
{
    if (self->count < 2)
        return NAN;
    double count = (double) self->count;
    double variance = (self->squares - self->sum * self->sum / count) / (count - 1);
    return sqrt (fmax (variance, 0) / count);
}

#endif
