/*  median -- of some measurements.  */
#ifndef MEDIAN_H
#define MEDIAN_H
#include <stddef.h>
#include <stdlib.h>

static inline int
median_compare (const void *left, const void *right)
{
    double difference = *(const double *) left - *(const double *) right;
    return (difference > 0) - (difference < 0);
}

//  Of count > 0 values, which it sorts.
static inline double
median_of (double *values, size_t count)
{
    qsort (values, count, sizeof *values, median_compare);
    return (values [(count - 1) / 2] + values [count / 2]) / 2;
}

#endif
