/*  statistics -- how tests of chance decide, and how rarely they cry wolf.
 *
 *  Each case of the sampler's tests that judges by chance takes the largest |z| of its k figures and fails
 *  beyond the two-sided normal quantile of 3.66e-6 / k.  There are twenty-seven such cases: one in
 *  test_follow_statistics, test_going_on_statistics, test_history, test_passes and test_reusable_set each,
 *  two in test_dsa_law and test_stream_order each, three in test_dsa_shapes, four in test_orders and
 *  test_random each and seven in test_permutation.  So all of them together raise a false alarm in at most
 *  0.99 of 10,000 runs (with the default seed: in every run or in none), which leaves room for the few cases
 *  with fixed bounds (phi2, shares of preparations): these are five standard deviations and more from what
 *  they bound.  A new case: count again.
 */
#ifndef STATISTICS_H
#define STATISTICS_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

//  The z that a case of k figures may reach.
static inline double
statistics_z_limit (size_t k)
{
    double low = 0, high = 40;
    while (high - low > 1e-9) {
        double z = (low + high) / 2;
        if (erfc (z / sqrt (2)) > 3.66e-6 / (double) k)
            low = z;
        else
            high = z;
    }
    return high;
}

//  A chi-square figure as a normal one (Wilson and Hilferty 1931): unlike (x - df) / sqrt (2 df) it is
//  right far out in the tails, which is where these tests look.
static inline double
statistics_z_of_chi_square (double chi_square, double df)
{
    double spread = 2 / (9 * df);
    return (cbrt (chi_square / df) - (1 - spread)) / sqrt (spread);
}

//  Chi-square of counts that should all be alike.
static inline double
statistics_chi_square_even (const uint64_t *counts, size_t cells)
{
    double total = 0, sum = 0;
    for (size_t cell = 0; cell < cells; cell++)
        total += (double) counts [cell];
    double expected = total / (double) cells;
    for (size_t cell = 0; cell < cells; cell++)
        sum += ((double) counts [cell] - expected) * ((double) counts [cell] - expected) / expected;
    return sum;
}

enum { STATISTICS_BINS = 20 };          //  of positions (design: the contract)

//  Chi-square of sample x position of one epoch of one job over many seeds (design: the contract), as a
//  normal z.  counts: of each id, how often it came in each bin of positions; ids that never came are not of
//  the job's data, which are `size` samples.
static inline double
statistics_z_of_positions (const uint32_t (*counts) [STATISTICS_BINS], uint32_t ids, uint32_t size,
    uint32_t seeds)
{
    double chi_square = 0, widths [STATISTICS_BINS] = { 0 };
    for (uint32_t position = 0; position < size; position++)
        widths [position * STATISTICS_BINS / size]++;
    for (uint32_t id = 0; id < ids; id++) {
        uint32_t any = 0;
        for (int bin = 0; bin < STATISTICS_BINS; bin++)
            any |= counts [id] [bin];
        for (int bin = 0; any && bin < STATISTICS_BINS; bin++) {
            double expected = seeds * widths [bin] / size;
            chi_square += (counts [id] [bin] - expected) * (counts [id] [bin] - expected) / expected;
        }
    }
    return statistics_z_of_chi_square (chi_square * (size - 1.0) / size,
        (STATISTICS_BINS - 1.0) * (size - 1));
}

//  The same of groups of samples: those in the same quarter of the ids that leave the same remainder by six,
//  as jobs' data begin, end and skip in these tests.  What goes wrong where jobs overlap goes wrong for whole
//  groups, and here it is spread over a tenth of the degrees of freedom.
static inline double
statistics_z_of_groups (const uint32_t (*counts) [STATISTICS_BINS], uint32_t ids, uint32_t size)
{
    enum { QUARTERS = 4, REMAINDERS = 6, GROUPS = QUARTERS * REMAINDERS };
    double found [GROUPS] [STATISTICS_BINS] = { { 0 } }, widths [STATISTICS_BINS] = { 0 }, chi_square = 0;
    int groups = 0;
    for (uint32_t position = 0; position < size; position++)
        widths [position * STATISTICS_BINS / size]++;
    for (uint32_t id = 0; id < ids; id++)
        for (int bin = 0; bin < STATISTICS_BINS; bin++)
            found [id * QUARTERS / ids * REMAINDERS + id % REMAINDERS] [bin] += counts [id] [bin];
    for (int group = 0; group < GROUPS; group++) {
        double all = 0;
        for (int bin = 0; bin < STATISTICS_BINS; bin++)
            all += found [group] [bin];
        for (int bin = 0; all > 0 && bin < STATISTICS_BINS; bin++) {
            double expected = all * widths [bin] / size;
            chi_square += (found [group] [bin] - expected) * (found [group] [bin] - expected) / expected;
        }
        groups += all > 0;
    }
    return statistics_z_of_chi_square (chi_square * (size - 1.0) / size,
        (STATISTICS_BINS - 1.0) * (groups - 1));
}

//  The larger one of both.
static inline double
statistics_worst_z (const uint32_t (*counts) [STATISTICS_BINS], uint32_t ids, uint32_t size, uint32_t seeds)
{
    return fmax (fabs (statistics_z_of_positions (counts, ids, size, seeds)),
        fabs (statistics_z_of_groups (counts, ids, size)));
}

//  Events of known and perhaps differing probability: how many happened, beside how many should have.
typedef struct { double happened, expected, variance; } statistics_events_t;

static inline void
statistics_event (statistics_events_t *self, int happened, double probability)
{
    self->happened += happened;
    self->expected += probability;
    self->variance += probability * (1 - probability);
}

static inline double
statistics_z_of_events (const statistics_events_t *self)
{
    if (self->variance > 0)
        return (self->happened - self->expected) / sqrt (self->variance);
    return self->happened == self->expected? 0: 1e9;
}

#endif
