#include "relation.h"
#include <assert.h>
#include <math.h>
#include "tail_probability.h"

void
relation_add (relation_t *self, const relation_t *other)
{
    self->value += other->value;
    self->mean += other->mean;
    self->variance += other->variance;
    self->third += other->third;
}

relation_t
relation_scaled (relation_t self, double factor)
{
    return (relation_t) { self.value * factor, self.mean * factor, self.variance * factor * factor,
        self.third * factor * factor * factor };
}

double
relation_tail (const relation_t *self)
{
    assert (self->variance > 0);
    double spread = sqrt (self->variance);
    return tail_probability_skewed ((self->value - self->mean) / spread,
        self->third / (self->variance * spread));
}

//  --------------------------------------------------------------------------
//  The table of tenths

//  Mean and variance of the chi-square of a table with fixed margins (Haldane 1940, in Dawson's form of
//  1954; inverse is the sum of 1 / margin, the same for rows and columns).  The third moment is that of
//  independent Poisson cells, expected of them in each.
static relation_t
s_chi_square_law (double value, double count, double inverse)
{
    double bins = RELATION_TENTHS, degrees = (bins - 1) * (bins - 1), expected = count / (bins * bins);
    double even = (bins - 1) * (count - bins) / (count - 1);
    double uneven = (count * inverse - bins * bins) / (count - 2);
    return (relation_t) {
        .value = value,
        .mean = degrees * count / (count - 1),
        .variance = 2 * count / (count - 3) * (even - uneven) * (even - uneven)
            + count * count / (count - 1) * uneven * uneven,
        .third = degrees * (8 + 4 / expected)
    };
}

//  The tenth of count that place, below count, is in; inverse: RELATION_TENTHS / count.  Its rounding may be
//  off by one where a tenth ends.  (A division here was a quarter of an audit's time.)
static size_t
s_tenth (size_t place, size_t count, double inverse)
{
    size_t tenth = (size_t) ((double) place * inverse);
    tenth -= tenth * count > place * RELATION_TENTHS;
    return tenth + ((tenth + 1) * count <= place * RELATION_TENTHS);
}

relation_t
relation_tenths (const uint32_t *relative, size_t count)
{
    assert (count >= RELATION_TENTHS);
    uint64_t cells [RELATION_TENTHS] [RELATION_TENTHS] = { { 0 } }, margin [RELATION_TENTHS] = { 0 };
    double tenths = RELATION_TENTHS / (double) count;
    for (size_t place = 0; place < count; place++) {
        size_t tenth = s_tenth (place, count, tenths);
        margin [tenth]++;
        cells [tenth] [s_tenth (relative [place], count, tenths)]++;
    }
    double sum = 0, inverse = 0;
    for (size_t row = 0; row < RELATION_TENTHS; row++) {
        inverse += 1 / (double) margin [row];
        for (size_t column = 0; column < RELATION_TENTHS; column++) {
            double found = (double) cells [row] [column];
            sum += found * found / ((double) margin [row] * (double) margin [column]);
        }
    }
    return s_chi_square_law ((sum - 1) * (double) count, (double) count, inverse);
}

//  --------------------------------------------------------------------------
//  Pairs

//  Sums over the batches that count splits into: of sizes a, of a (a - 1), of a (a - 1)(a - 2), a^2 and a^3.
typedef struct { double pairs, adjacent, squares, cubes; } batches_t;

static batches_t
s_batches (size_t count)
{
    batches_t sums = { 0 };
    for (size_t begin = 0; begin < count; begin += RELATION_BATCH) {
        double size = (double) (count - begin < RELATION_BATCH? count - begin: RELATION_BATCH);
        sums.pairs += size * (size - 1) / 2;
        sums.adjacent += size * (size - 1) * (size - 2);
        sums.squares += size * size;
        sums.cubes += size * size * size;
    }
    return sums;
}

//  Two graphs, each a set of cliques (the batches), one of them with its nodes shuffled: how many edges they
//  share.  The second moment counts ordered pairs of edges: the same one, two with a common end, two
//  without.
static relation_t
s_pairs_law (double value, size_t count)
{
    batches_t batches = s_batches (count);
    double n = (double) count, all = n * (n - 1) / 2;
    double mean = batches.pairs * batches.pairs / all;
    double adjacent = batches.adjacent * batches.adjacent / (n * (n - 1) * (n - 2));
    double apart = batches.pairs * (batches.pairs - 1) - batches.adjacent;
    double all_apart = all * (n - 2) * (n - 3) / 2;
    //  Cells that are Poisson of mean e contribute e^2/2 + e^3 each to the third moment, less what the
    //  margins take away.
    double margins = 1 - RELATION_BATCH / n;
    double third = batches.squares * batches.squares / (n * n) / 2
        + batches.cubes * batches.cubes / (n * n * n);
    return (relation_t) { .value = value, .mean = mean,
        .variance = mean + adjacent + apart * (apart / all_apart) - mean * mean,
        .third = third * margins * margins };
}

relation_t
relation_pairs (const uint32_t *relative, size_t count)
{
    assert (count > RELATION_BATCH);
    uint64_t shared = 0;
    for (size_t begin = 0; begin < count; begin += RELATION_BATCH) {
        size_t size = count - begin < RELATION_BATCH? count - begin: RELATION_BATCH;
        uint32_t batch [RELATION_BATCH], found = 0;
        for (size_t place = 0; place < size; place++)
            batch [place] = relative [begin + place] / RELATION_BATCH;
        for (size_t place = 1; place < size; place++)
            for (size_t other = 0; other < place; other++)
                found += batch [place] == batch [other];
        shared += found;
    }
    return s_pairs_law ((double) shared, count);
}

//  --------------------------------------------------------------------------
//  Correlation

relation_t
relation_rank (const uint32_t *relative, size_t count)
{
    assert (count >= 2);
    double n = (double) count, sum = 0;
    for (size_t place = 0; place < count; place++) {
        double apart = (double) place - (double) relative [place];
        sum += apart * apart;
    }
    return (relation_t) { .value = 1 - 6 * sum / (n * (n * n - 1)), .variance = 1 / (n - 1) };
}

relation_t
relation_nearness (const uint32_t *relative, size_t count)
{
    assert (count >= 3);
    double n = (double) count, sum = 0;
    for (size_t place = 1; place < count; place++)
        sum += fabs ((double) relative [place] - (double) relative [place - 1]);
    double variance = (n - 2) * (n + 1) * (4 * n - 7) / 90;
    //  Skewness: measured 0.07 at 50, 0.04 at 100, 0.02 at 1,000; rather too much than too little.
    double skewness = 0.5 / sqrt (n);
    relation_t steps = { .value = -sum, .mean = -(n * n - 1) / 3, .variance = variance,
        .third = skewness * variance * sqrt (variance) };
    return relation_scaled (steps, 1 / (n * (n - 1)));
}

//  --------------------------------------------------------------------------

size_t
relation_twentieth (size_t count)
{
    return count < RELATION_TWENTIETHS? 1: count / RELATION_TWENTIETHS;
}

size_t
relation_tail_to_head (const uint32_t *relative, size_t count)
{
    size_t part = relation_twentieth (count), hits = 0;
    for (size_t place = count - part; place < count; place++)
        hits += relative [place] < part;
    return hits;
}
