#include "orders_record.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "simulated_memory.h"

enum { RECORD_MAGIC = 0x0dde4ec0, TENTHS = 10, TWENTIETHS = 20 };
enum { NOWHERE = 0xffffffff };          //  not given in this epoch

struct orders_record {
    uint32_t magic;
    orders_options_t options;
    uint32_t samples;
    uint32_t *positions [ORDERS_LAGS + 1];      //  by id - from: of the present epoch, the one before, ...
    uint32_t *order;                    //  id - from by position, of the epoch before
    uint32_t *tally;                    //  one for each batch, 0 between uses
    uint32_t *touched;                  //  batches with a tally above 0
    uint32_t given;                     //  in the present epoch
    bool epoch_is_sound;
    uint32_t history;                   //  sound epochs in a row before this one
    orders_figures_t figures;
};

static size_t
s_stratum_count (const orders_options_t *options)
{
    size_t count = 0;
    for (size_t piece = 0; piece < options->piece_count; piece++)
        if (options->pieces [piece].number >= count)
            count = options->pieces [piece].number + 1;
    return count;
}

static void
s_epoch_begin (orders_record_t *self)
{
    memset (self->positions [0], 0xff, self->samples * sizeof (uint32_t));      //  NOWHERE
    self->given = 0;
    self->epoch_is_sound = true;
}

orders_record_t *
orders_record_new (const orders_options_t *options)
{
    assert (options->from < options->to);
    assert (options->batch > 0);
    orders_record_t *self = simulated_alloc (1, sizeof *self);
    self->magic = RECORD_MAGIC;
    self->options = *options;
    self->samples = options->to - options->from;
    for (size_t epoch = 0; epoch <= ORDERS_LAGS; epoch++)
        self->positions [epoch] = simulated_alloc (self->samples, sizeof (uint32_t));
    self->order = simulated_alloc (self->samples, sizeof (uint32_t));
    self->tally = simulated_alloc (self->samples / options->batch + 1, sizeof (uint32_t));
    self->touched = simulated_alloc (options->batch, sizeof (uint32_t));
    self->figures.exactly_once = true;
    self->figures.correlations = simulated_alloc (options->epochs_max, sizeof (mean_t));
    self->figures.stratum_count = s_stratum_count (options);
    self->figures.strata = simulated_alloc (self->figures.stratum_count, sizeof (mean_t));
    s_epoch_begin (self);
    return self;
}

void
orders_record_destroy (orders_record_t **self_p)
{
    orders_record_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == RECORD_MAGIC);
    for (size_t epoch = 0; epoch <= ORDERS_LAGS; epoch++)
        free (self->positions [epoch]);
    free (self->order);
    free (self->tally);
    free (self->touched);
    orders_figures_clear (&self->figures);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
orders_record_fail (orders_record_t *self)
{
    self->epoch_is_sound = false;
    self->figures.exactly_once = false;
}

void
orders_record_deliver (orders_record_t *self, uint32_t id)
{
    assert (self->magic == RECORD_MAGIC);
    if (id < self->options.from || id >= self->options.to
            || self->positions [0] [id - self->options.from] != NOWHERE) {
        orders_record_fail (self);
        return;
    }
    self->positions [0] [id - self->options.from] = self->given++;
}

//  ---- one epoch by itself

static void
s_measure_strata (orders_record_t *self)
{
    const orders_options_t *options = &self->options;
    for (size_t piece = 0; piece < options->piece_count; piece++) {
        const orders_stratum_t *stratum = &options->pieces [piece];
        if (stratum->from < options->from || stratum->to > options->to)
            continue;
        for (uint32_t id = stratum->from; id < stratum->to; id++)
            mean_add (&self->figures.strata [stratum->number],
                (self->positions [0] [id - options->from] + 0.5) / self->samples);
    }
}

static void
s_measure_marked (orders_record_t *self)
{
    uint64_t marked = 0, first = 0;
    uint32_t head = self->options.batch < self->samples? self->options.batch: self->samples;
    for (uint32_t sample = 0; sample < self->samples; sample++)
        if (self->options.marked [self->options.from + sample]) {
            mean_add (&self->figures.marked_position, (self->positions [0] [sample] + 0.5) / self->samples);
            marked++;
            first += self->positions [0] [sample] < head;
        }
    if (marked)
        mean_add (&self->figures.marked_first,
            (double) first * self->samples / ((double) marked * head));
}

static void
s_count_bins (orders_record_t *self)
{
    _Atomic uint32_t *bins = self->options.bins
        + (uint64_t) self->figures.epochs * self->samples * ORDERS_BINS;
    for (uint32_t sample = 0; sample < self->samples; sample++) {
        uint64_t bin = (uint64_t) self->positions [0] [sample] * ORDERS_BINS / self->samples;
        atomic_fetch_add_explicit (&bins [(uint64_t) sample * ORDERS_BINS + bin], 1, memory_order_relaxed);
    }
}

//  ---- pairs of epochs

//  Position p of n falls into bin floor (p * bins / n), so bin b begins at ceil (b * n / bins).
uint64_t
orders_bin_size (uint64_t samples, uint64_t bins, uint64_t bin)
{
    return ((bin + 1) * samples + bins - 1) / bins - (bin * samples + bins - 1) / bins;
}

static double
s_phi2 (const uint32_t *before, const uint32_t *after, uint64_t samples)
{
    uint64_t table [TENTHS] [TENTHS] = { { 0 } };
    for (uint64_t sample = 0; sample < samples; sample++)
        table [before [sample] * (uint64_t) TENTHS / samples] [after [sample] * (uint64_t) TENTHS
            / samples]++;
    double chi_square = 0;
    for (uint64_t row = 0; row < TENTHS; row++)
        for (uint64_t column = 0; column < TENTHS; column++) {
            double expected = (double) orders_bin_size (samples, TENTHS, row)
                * (double) orders_bin_size (samples, TENTHS, column) / (double) samples;
            double off = (double) table [row] [column] - expected;
            if (expected > 0)
                chi_square += off * off / expected;
        }
    return (chi_square - (TENTHS - 1) * (TENTHS - 1)) / (double) samples;
}

static double
s_tail_to_head (const uint32_t *before, const uint32_t *after, uint64_t samples)
{
    uint64_t head = orders_bin_size (samples, TWENTIETHS, 0);
    uint64_t tail = orders_bin_size (samples, TWENTIETHS, TWENTIETHS - 1);
    uint64_t moved = 0;
    for (uint64_t sample = 0; sample < samples; sample++)
        moved += before [sample] >= samples - tail && after [sample] < head;
    return (double) moved * (double) samples / ((double) head * (double) tail);
}

static double
s_correlation (const uint32_t *before, const uint32_t *after, uint64_t samples)
{
    double middle = ((double) samples - 1) / 2, product = 0, square = 0;
    for (uint64_t sample = 0; sample < samples; sample++) {
        product += (before [sample] - middle) * (after [sample] - middle);
        square += (before [sample] - middle) * (before [sample] - middle);
    }
    return product / square;
}

//  Pairs of the samples [first .. end) of the epoch before that share a batch of this epoch too.
static uint64_t
s_pairs_again (orders_record_t *self, uint32_t first, uint32_t end)
{
    uint64_t pairs = 0;
    size_t touched = 0;
    for (uint32_t position = first; position < end; position++) {
        uint32_t batch = self->positions [0] [self->order [position]] / self->options.batch;
        if (self->tally [batch] == 0)
            self->touched [touched++] = batch;
        pairs += self->tally [batch]++;
    }
    while (touched > 0)
        self->tally [self->touched [--touched]] = 0;
    return pairs;
}

static double
s_pair_repeat (orders_record_t *self)
{
    uint32_t batch = self->options.batch;
    for (uint32_t sample = 0; sample < self->samples; sample++)
        self->order [self->positions [1] [sample]] = sample;
    double again = 0, pairs = 0;
    for (uint64_t first = 0; first < self->samples; first += batch) {
        uint64_t end = first + batch < self->samples? first + batch: self->samples;
        again += (double) s_pairs_again (self, (uint32_t) first, (uint32_t) end);
        pairs += (double) (end - first) * (double) (end - first - 1) / 2;
    }
    double all = (double) self->samples * (self->samples - 1.0) / 2;
    return again / (pairs * pairs / all);
}

static void
s_measure_pairs (orders_record_t *self)
{
    for (size_t lag = 1; lag <= ORDERS_LAGS && lag <= self->history; lag++)
        mean_add (&self->figures.phi2 [lag - 1],
            s_phi2 (self->positions [lag], self->positions [0], self->samples));
    if (self->history == 0)
        return;
    const uint32_t *before = self->positions [1], *after = self->positions [0];
    mean_add (&self->figures.tail_to_head, s_tail_to_head (before, after, self->samples));
    if (self->options.batch > 1 && self->samples > 1)
        mean_add (&self->figures.pair_repeat, s_pair_repeat (self));
    if (self->samples > 1)
        mean_add (&self->figures.correlations [self->figures.epochs - 1],
            s_correlation (before, after, self->samples));
}

void
orders_record_epoch_end (orders_record_t *self)
{
    assert (self->magic == RECORD_MAGIC);
    assert (self->figures.epochs < self->options.epochs_max);
    if (self->given != self->samples)
        orders_record_fail (self);
    if (self->epoch_is_sound) {
        s_measure_strata (self);
        if (self->options.marked)
            s_measure_marked (self);
        if (self->options.bins)
            s_count_bins (self);
        s_measure_pairs (self);
    }
    self->history = self->epoch_is_sound? self->history + 1: 0;
    self->figures.epochs++;
    uint32_t *oldest = self->positions [ORDERS_LAGS];
    memmove (self->positions + 1, self->positions, ORDERS_LAGS * sizeof *self->positions);
    self->positions [0] = oldest;
    s_epoch_begin (self);
}

//  ---- figures

orders_figures_t
orders_record_figures (orders_record_t *self)
{
    assert (self->magic == RECORD_MAGIC);
    orders_figures_t figures = self->figures;
    figures.correlation_count = figures.epochs? figures.epochs - 1: 0;
    self->figures = (orders_figures_t) { .exactly_once = figures.exactly_once };
    return figures;
}

void
orders_figures_merge (orders_figures_t *self, const orders_figures_t *other)
{
    assert (self->stratum_count == other->stratum_count);
    self->exactly_once = self->exactly_once && other->exactly_once;
    for (size_t lag = 0; lag < ORDERS_LAGS; lag++)
        mean_merge (&self->phi2 [lag], &other->phi2 [lag]);
    mean_merge (&self->tail_to_head, &other->tail_to_head);
    mean_merge (&self->pair_repeat, &other->pair_repeat);
    mean_merge (&self->marked_position, &other->marked_position);
    mean_merge (&self->marked_first, &other->marked_first);
    for (size_t number = 0; number < self->stratum_count; number++)
        mean_merge (&self->strata [number], &other->strata [number]);
    //  Both lists have room for all the epochs that the job may have.
    for (size_t pair = 0; pair < other->correlation_count; pair++)
        mean_merge (&self->correlations [pair], &other->correlations [pair]);
    if (other->epochs > self->epochs) {
        self->epochs = other->epochs;
        self->correlation_count = other->correlation_count;
    }
}

void
orders_figures_clear (orders_figures_t *self)
{
    free (self->correlations);
    free (self->strata);
    *self = (orders_figures_t) { .exactly_once = false };
}

//  Each of the n samples adds 19 to the figure's mean, but since every place is taken there are 19 (n - 1)
//  degrees of freedom: hence the factor (n - 1) / n before it is compared.
double
orders_bins_z (const _Atomic uint32_t *bins, uint64_t samples, uint64_t runs)
{
    double chi_square = 0;
    for (uint64_t sample = 0; sample < samples; sample++)
        for (uint64_t bin = 0; bin < ORDERS_BINS; bin++) {
            double expected = (double) runs * (double) orders_bin_size (samples, ORDERS_BINS, bin)
                / (double) samples;
            double off = (double) bins [sample * ORDERS_BINS + bin] - expected;
            if (expected > 0)
                chi_square += off * off / expected;
        }
    uint64_t used = samples < ORDERS_BINS? samples: ORDERS_BINS;        //  the others get no position
    double df = ((double) used - 1) * ((double) samples - 1);
    double spread = 2 / (9 * df);
    chi_square *= ((double) samples - 1) / (double) samples;
    return (cbrt (chi_square / df) - (1 - spread)) / sqrt (spread);
}
