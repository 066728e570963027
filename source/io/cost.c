#include "cost.h"
#include <assert.h>
#include <math.h>
#include <string.h>

//  GOAL of what is possible is enough: the last 5 % would take endless depth.
#define GOAL 0.95
#define ASSUMED_LATENCY 1e-4
#define ASSUMED_SERIAL 5e-6
#define ASSUMED_BANDWIDTH 5e8

//  A cell's mean follows its last GAIN reads or so; an observation counts for at most CLIP deviations, a
//  deviation for at least SPREAD_MIN.  FADE: reads, of all cells, after which a cell that got none counts
//  1/e.
enum { GAIN = 32, WEIGHT_MAX = 32, FADE = 1000, FIT_MIN = 4, FIT_MAX = 128, MORE_EVERY = 8 };
#define CLIP 3.0f
#define SPREAD_MIN 0.1f

//  The anchor's weight, in reads: enough to fix what no read determines, too little to resist ten reads.  An
//  assumption, which may be off by a factor of a thousand, must yield to two.
#define ANCHOR_WEIGHT 0.5
#define ASSUMED_WEIGHT 0.01
#define ANCHOR_WEIGHT_SERIAL 0.1        //  of that: it is far from known before reads overlap

//  The search: latency in bytes (latency * bandwidth) by half octaves, serial as a part of latency by
//  octaves; then finer.
enum { BYTES_STEPS = 64, PART_STEPS = 13, REFINEMENTS = 7 };
#define BYTES_FIRST 16.0

static double
s_clamp (double value, double least, double most)
{
    return value < least? least: value > most? most: value;
}

cost_t
cost_known (double latency_seconds, double serial_seconds, double bytes_per_second)
{
    assert (serial_seconds > 0);
    assert (latency_seconds >= serial_seconds);
    assert (bytes_per_second > 0);
    return (cost_t) {
        .latency_seconds = latency_seconds, .serial_seconds = serial_seconds,
        .bytes_per_second = bytes_per_second,
        .anchor_latency = latency_seconds, .anchor_serial = serial_seconds,
        .anchor_bandwidth = bytes_per_second,
        .is_anchored = true
    };
}

cost_t
cost_assumed (void)
{
    cost_t cost = cost_known (ASSUMED_LATENCY, ASSUMED_SERIAL, ASSUMED_BANDWIDTH);
    cost.is_anchored = false;
    return cost;
}

//  ---- cells

//  Factors of four from 8 KiB on, of two for depths.
static cost_cell_t *
s_cell (cost_t *self, uint64_t bytes, uint32_t in_flight)
{
    int size = bytes < 8192? 0: (63 - __builtin_clzll (bytes) - 11) / 2;
    int depth = 31 - __builtin_clz (in_flight);
    return &self->cells [size < COST_SIZES? size: COST_SIZES - 1] [depth < COST_DEPTHS? depth:
        COST_DEPTHS - 1];
}

//  The first reads: the mean must not begin with an outlier.
static void
s_cell_begin (cost_cell_t *cell, float log_seconds)
{
    uint32_t place = cell->reads;
    for (; place > 0 && cell->first [place - 1] > log_seconds; place--)
        cell->first [place] = cell->first [place - 1];
    cell->first [place] = log_seconds;
    uint32_t count = cell->reads + 1;
    cell->log_seconds = (cell->first [(count - 1) / 2] + cell->first [count / 2]) / 2;
    float quartiles = cell->first [count - 1 - count / 4] - cell->first [count / 4];
    cell->spread = fmaxf (SPREAD_MIN, quartiles / 2);
}

static void
s_cell_go_on (cost_cell_t *cell, float log_seconds, float gain)
{
    float limit = CLIP * cell->spread, difference = log_seconds - cell->log_seconds;
    difference = fminf (fmaxf (difference, -limit), limit);
    cell->log_seconds += gain * difference;
    cell->spread = fmaxf (SPREAD_MIN, cell->spread + gain * (fabsf (difference) - cell->spread));
}

static void
s_cell_observe (cost_cell_t *cell, double bytes, double seconds, double depth)
{
    float gain = cell->reads < GAIN? 1 / (float) (cell->reads + 1): 1.0f / GAIN;
    cell->log_bytes += gain * ((float) log (bytes) - cell->log_bytes);
    cell->log_depth += gain * ((float) log (depth) - cell->log_depth);
    if (cell->reads < COST_FIRST)
        s_cell_begin (cell, (float) log (seconds));
    else
        s_cell_go_on (cell, (float) log (seconds), gain);
    cell->weight = fminf (cell->weight + 1, WEIGHT_MAX);
    if (cell->reads < UINT32_MAX)
        cell->reads++;
}

//  ---- the fit

typedef struct {
    double bytes, depth, log_seconds, weight;
} point_t;

typedef struct {
    size_t count;
    double log_latency, log_serial, log_slope;          //  the anchor: latency, serial, seconds a byte
    double anchor_weight;
    point_t points [COST_SIZES * COST_DEPTHS];
} fit_t;

//  The logarithm of the model's time divided by seconds a byte.
static double
s_shape (const point_t *point, double latency_bytes, double part)
{
    double alone = latency_bytes + point->bytes;
    double together = point->depth * (part * latency_bytes + point->bytes);
    return log (alone > together? alone: together);
}

//  Given latency in bytes and serial's part of it, log seconds is shape + log slope: the best slope is a
//  mean, and what is left the weighted variance.  The anchor is three points more.
static double
s_misfit (const fit_t *self, double log_latency_bytes, double log_part, double *log_slope_p)
{
    double latency_bytes = exp (log_latency_bytes), part = exp (log_part);
    double anchors [] = { self->log_slope, self->log_latency - log_latency_bytes,
        self->log_serial - log_latency_bytes - log_part };
    double anchor_weights [] = { self->anchor_weight, self->anchor_weight,
        ANCHOR_WEIGHT_SERIAL * self->anchor_weight };
    double sum = 0, squares = 0, weights = 0;
    for (size_t anchor = 0; anchor < 3; anchor++) {
        sum += anchor_weights [anchor] * anchors [anchor];
        squares += anchor_weights [anchor] * anchors [anchor] * anchors [anchor];
        weights += anchor_weights [anchor];
    }
    for (size_t index = 0; index < self->count; index++) {
        const point_t *point = &self->points [index];
        double slope = point->log_seconds - s_shape (point, latency_bytes, part);
        sum += point->weight * slope;
        squares += point->weight * slope * slope;
        weights += point->weight;
    }
    *log_slope_p = sum / weights;
    return squares - sum * sum / weights;
}

typedef struct {
    double log_latency_bytes, log_part, log_slope, misfit;
} candidate_t;

static void
s_try (const fit_t *self, double log_latency_bytes, double log_part, candidate_t *best)
{
    double log_slope, misfit = s_misfit (self, log_latency_bytes, fmin (log_part, 0), &log_slope);
    if (misfit < best->misfit)
        *best = (candidate_t) { log_latency_bytes, fmin (log_part, 0), log_slope, misfit };
}

//  The misfit has several valleys (above and below each cell's knee), so the whole grid is looked at first.
static candidate_t
s_search (const fit_t *self)
{
    candidate_t best = { .misfit = INFINITY };
    for (int bytes = 0; bytes < BYTES_STEPS; bytes++)
        for (int part = 0; part < PART_STEPS; part++)
            s_try (self, log (BYTES_FIRST) + bytes * M_LN2 / 2, -part * M_LN2, &best);
    double step = M_LN2 / 4;
    for (int refinement = 0; refinement < REFINEMENTS; refinement++, step /= 2) {
        candidate_t centre = best;
        for (int bytes = -1; bytes <= 1; bytes++)
            for (int part = -1; part <= 1; part++)
                s_try (self, centre.log_latency_bytes + bytes * step, centre.log_part + 2 * part * step,
                    &best);
    }
    return best;
}

static void
s_gather (const cost_t *self, fit_t *fit)
{
    const cost_cell_t *cells = &self->cells [0] [0];
    for (size_t index = 0; index < COST_SIZES * COST_DEPTHS; index++)
        if (cells [index].weight > 1e-3f)
            fit->points [fit->count++] = (point_t) {
                .bytes = exp (cells [index].log_bytes), .depth = exp (cells [index].log_depth),
                .log_seconds = cells [index].log_seconds, .weight = cells [index].weight
            };
}

static void
s_fit (cost_t *self)
{
    float fade = expf (-(float) (self->observed - self->fitted) / FADE);
    cost_cell_t *cells = &self->cells [0] [0];
    for (size_t index = 0; index < COST_SIZES * COST_DEPTHS; index++)
        cells [index].weight *= fade;
    fit_t fit = {
        .log_latency = log (self->anchor_latency), .log_serial = log (self->anchor_serial),
        .log_slope = -log (self->anchor_bandwidth),
        .anchor_weight = self->is_anchored? ANCHOR_WEIGHT: ASSUMED_WEIGHT
    };
    s_gather (self, &fit);
    candidate_t best = s_search (&fit);
    self->bytes_per_second = exp (-best.log_slope);
    self->latency_seconds = exp (best.log_latency_bytes + best.log_slope);
    self->serial_seconds = exp (best.log_latency_bytes + best.log_part + best.log_slope);
    self->fitted = self->observed;
}

void
cost_observe (cost_t *self, uint64_t bytes, uint64_t nanoseconds, uint32_t in_flight)
{
    assert (in_flight > 0);
    if (bytes == 0)
        return;
    double seconds = 1e-9 * (double) (nanoseconds? nanoseconds: 1);
    s_cell_observe (s_cell (self, bytes, in_flight), (double) bytes, seconds, in_flight);
    self->observed++;
    //  A fit costs as much as a hundred observations: often at first, then rarely.
    double pause = s_clamp ((double) self->observed / 8, FIT_MIN, FIT_MAX);
    if ((double) (self->observed - self->fitted) >= pause)
        s_fit (self);
}

void
cost_anchor (cost_t *self)
{
    s_fit (self);
    self->anchor_latency = self->latency_seconds;
    self->anchor_serial = self->serial_seconds;
    self->anchor_bandwidth = self->bytes_per_second;
    self->is_anchored = true;
}

//  ---- depth and pieces

double
cost_rate (const cost_t *self, double read_bytes, uint32_t depth)
{
    assert (read_bytes > 0);
    assert (depth > 0);
    double transfer = read_bytes / self->bytes_per_second;
    double alone = self->latency_seconds + transfer, together = self->serial_seconds + transfer;
    return read_bytes / fmax (alone / depth, together);
}

uint32_t
cost_depth (const cost_t *self, uint64_t read_bytes, uint32_t depth_max)
{
    assert (depth_max > 0);
    double transfer = (double) read_bytes / self->bytes_per_second;
    double depth = self->depth_set;
    if (!self->depth_set)
        depth = 1 + ceil (GOAL * (self->latency_seconds + transfer) / (self->serial_seconds + transfer));
    return (uint32_t) s_clamp (depth, 1, depth_max);
}

uint32_t
cost_next_depth (cost_t *self, uint64_t read_bytes, uint32_t depth_max)
{
    uint32_t depth = cost_depth (self, read_bytes, depth_max);
    if (self->depth_set || ++self->asked % MORE_EVERY)
        return depth;
    return depth < depth_max / 2? 2 * depth: depth_max;
}

uint32_t
cost_piece (const cost_t *self, double sample_bytes, uint32_t depth, uint64_t pool_samples, uint32_t least,
    uint32_t most)
{
    assert (least > 0);
    assert (least <= most);
    assert (sample_bytes > 0);
    uint64_t limit = pool_samples / 32 < most? pool_samples / 32: most;
    uint32_t piece = 1;
    while (piece < least && piece <= most / 2)
        piece *= 2;
    while ((uint64_t) piece * 2 <= limit && cost_rate (self, piece * sample_bytes,
        depth) < GOAL * self->bytes_per_second)
        piece *= 2;
    return piece;
}

bool
cost_prefers_singles (const cost_t *self, uint32_t useful, double sample_bytes, double piece_bytes,
    uint32_t depth)
{
    return useful * sample_bytes / cost_rate (self, sample_bytes, depth) < piece_bytes / cost_rate (self,
        piece_bytes, depth);
}

double
cost_seconds (const cost_t *self, uint64_t bytes, uint64_t read_bytes, uint32_t depth)
{
    assert (read_bytes > 0);
    if (bytes == 0)
        return 0;
    double size = (double) (read_bytes < bytes? read_bytes: bytes);
    double alone = self->latency_seconds + size / self->bytes_per_second;
    return fmax (alone, (double) bytes / cost_rate (self, size, depth));
}
