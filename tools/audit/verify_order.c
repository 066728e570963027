#include "verify_order.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

enum { TENTHS = 10, TENTHS_LEAST = 1000 };

typedef struct {
    const uint32_t *order;
    uint32_t samples;
    uint32_t chunk_samples;
    const int64_t *labels;
    double n;
} look_t;

//  ---- probabilities

static double
s_z (const verify_figure_t *figure)
{
    return (figure->value - figure->expected) / figure->spread;
}

//  Too far off on either side.
static void
s_both (verify_figure_t *figure)
{
    figure->p = fmin (1, 2 * chance_normal (fabs (s_z (figure))));
}


//  ---- figures

//  Pearson's coefficient of a permutation has the variance 1 / (n - 1) exactly.
static void
s_correlation (const look_t *look, verify_figure_t *figure)
{
    double middle = (look->n - 1) / 2, sum = 0;
    for (uint32_t place = 0; place < look->samples; place++)
        sum += (place - middle) * (look->order [place] - middle);
    figure->value = sum / (look->n * (look->n * look->n - 1) / 12);
    figure->spread = 1 / sqrt (look->n - 1);
    s_both (figure);
}

//  Eulerian numbers.
static void
s_ascents (const look_t *look, verify_figure_t *figure)
{
    uint32_t count = 0;
    for (uint32_t place = 1; place < look->samples; place++)
        count += look->order [place] > look->order [place - 1];
    figure->value = count;
    figure->expected = (look->n - 1) / 2;
    figure->spread = sqrt ((look->n + 1) / 12);
    s_both (figure);
}

//  Mean and variance by counting over pairs of pairs; test_verify_order holds them against shuffles.
static void
s_jumps (const look_t *look, verify_figure_t *figure)
{
    double n = look->n, sum = 0;
    for (uint32_t place = 1; place < look->samples; place++)
        sum += fabs ((double) look->order [place] - look->order [place - 1]);
    figure->value = sum;
    figure->expected = (n * n - 1) / 3;
    figure->spread = sqrt ((n - 2) * (n + 1) * (4 * n - 7) / 90);
    figure->p = chance_normal (-s_z (figure));
}

static void
s_neighbours (const look_t *look, verify_figure_t *figure)
{
    uint64_t count = 0;
    for (uint32_t place = 1; place < look->samples; place++)
        count += llabs ((long long) look->order [place] - look->order [place - 1]) == 1;
    double chance = 2 / look->n;
    figure->value = (double) count;
    figure->expected = (look->n - 1) * chance;
    figure->spread = sqrt (figure->expected);
    figure->p = chance_binomial (look->samples - 1, chance, count);
}

//  Chi-square with both margins fixed; scaled, its mean is the degrees of freedom.
static void
s_tenths (const look_t *look, verify_figure_t *figure)
{
    figure->tested = look->samples >= TENTHS_LEAST;
    if (!figure->tested)
        return;
    uint64_t table [TENTHS] [TENTHS] = { { 0 } }, sizes [TENTHS] = { 0 };
    for (uint64_t place = 0; place < look->samples; place++) {
        table [place * TENTHS / look->samples] [(uint64_t) look->order [place] * TENTHS / look->samples]++;
        sizes [place * TENTHS / look->samples]++;
    }
    double sum = 0, freedom = (TENTHS - 1) * (TENTHS - 1);
    for (size_t row = 0; row < TENTHS; row++)
        for (size_t column = 0; column < TENTHS; column++) {
            double expected = (double) sizes [row] * (double) sizes [column] / look->n;
            sum += pow ((double) table [row] [column] - expected, 2) / expected;
        }
    figure->value = sum * (look->n - 1) / look->n;
    figure->expected = freedom;
    figure->spread = sqrt (2 * freedom);
    figure->p = chance_skewed (s_z (figure), sqrt (8 / freedom));
}

//  Two given samples share a chunk with the same probability whichever they are.
static void
s_chunk_mates (const look_t *look, uint32_t *chunks, verify_figure_t *figure)
{
    figure->tested = look->samples > look->chunk_samples;
    if (!figure->tested)
        return;
    double pairs = 0;
    for (uint32_t first = 0; first < look->samples; first += look->chunk_samples) {
        double size = fmin (look->chunk_samples, look->n - first);
        pairs += size * (size - 1);
        if (look->samples - first <= look->chunk_samples)
            break;                      //  the next one might not fit 32 bits
    }
    for (uint32_t place = 0; place < look->samples; place++)
        chunks [look->order [place]] = place / look->chunk_samples;
    uint64_t count = 0;
    for (uint32_t id = 1; id < look->samples; id++)
        count += chunks [id] == chunks [id - 1];
    double chance = pairs / (look->n * (look->n - 1));
    figure->value = (double) count;
    figure->expected = (look->n - 1) * chance;
    figure->spread = sqrt (figure->expected * (1 - chance));
    figure->p = chance_binomial (look->samples - 1, chance, count);
}

static int
s_compare (const void *left, const void *right)
{
    const int64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

//  Runs of several kinds: mean and variance by Mood (1940).  Where labels are many and rare the count is
//  nearly Poisson's, hence the skewness; where they are few it leans less than that.
static void
s_label_runs (const look_t *look, int64_t *sorted, verify_figure_t *figure)
{
    double n = look->n, squares = 0, cubes = 0;
    memcpy (sorted, look->labels, look->samples * sizeof *sorted);
    qsort (sorted, look->samples, sizeof *sorted, s_compare);
    for (uint32_t from = 0, to; from < look->samples; from = to) {
        for (to = from + 1; to < look->samples && sorted [to] == sorted [from]; )
            to++;
        double size = to - from;
        squares += size * size;
        cubes += size * size * size;
    }
    uint32_t count = 0;
    for (uint32_t place = 1; place < look->samples; place++)
        count += look->labels [look->order [place]] == look->labels [look->order [place - 1]];
    double variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n * n * n) / (n * n * (n - 1));
    figure->value = count;
    figure->expected = (squares - n) / n;
    figure->tested = figure->expected > 0 && variance > 1e-9;       //  not all alike, nor all different
    if (!figure->tested)
        return;
    figure->spread = sqrt (variance);
    figure->p = chance_skewed (s_z (figure), 1 / sqrt (figure->expected));
}


//  ---- all of them

static void
s_sum_up (verify_order_t *result)
{
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++) {
        const verify_figure_t *figure = &result->figures [index];
        result->tested += figure->tested;
        result->faults += figure->tested && figure->p < VERIFY_ORDER_BOUND;
    }
}

int
verify_order (const uint32_t *order, uint32_t samples, uint32_t chunk_samples, const int64_t *labels,
    verify_order_t *result)
{
    assert (order); assert (result);
    assert (chunk_samples > 0);
    static const char *const names [VERIFY_ORDER_TESTS] = { "correlation", "ascents", "jumps", "neighbours",
        "tenths", "chunk_mates", "labels" };
    *result = (verify_order_t) { .tested = 0 };
    bool enough = samples >= VERIFY_ORDER_LEAST;
    for (size_t index = 0; index < VERIFY_ORDER_TESTS; index++)
        result->figures [index] = (verify_figure_t) { .name = names [index], .tested = enough };
    verify_figure_t *figures = result->figures;
    figures [6].tested = enough && labels;
    if (!enough)
        return 0;
    look_t look = { .order = order, .samples = samples, .chunk_samples = chunk_samples, .labels = labels,
        .n = samples };
    int64_t *room = malloc (samples * sizeof *room);
    if (!room)
        return -ENOMEM;
    s_correlation (&look, &figures [0]);
    s_ascents (&look, &figures [1]);
    s_jumps (&look, &figures [2]);
    s_neighbours (&look, &figures [3]);
    s_tenths (&look, &figures [4]);
    s_chunk_mates (&look, (uint32_t *) room, &figures [5]);
    if (labels)
        s_label_runs (&look, room, &figures [6]);
    free (room);
    s_sum_up (result);
    return 0;
}
