#include "cost.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "clock.h"

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

//  ---- the probe: latency, bandwidth and requests a second, by reads of the source's own files

enum {
    BLOCK = 4096, MIB = 1024 * 1024, TOGETHER_MAX = 16, READS_MAX = 32,
    PHASE_NS = 12 * 1000 * 1000         //  a phase's time, once it has the reads that it must have
};

typedef struct {
    uint32_t threads;
    size_t bytes;
    uint32_t reads_min, reads_max;      //  of all threads
    bool is_wide;                       //  only if the earlier reads took hardly longer than a block's
} phase_t;

//  The most important phase comes first: limit_ms may end the probe.  A store with a long latency shows its
//  bandwidth only to many large reads at once.
static const phase_t s_phases [] = {
    { 1, BLOCK, 2, 16, false }, { 1, 2 * MIB, 1, 8, false }, { 4, 2 * MIB, 4, READS_MAX, false },
    { 4, BLOCK, 8, READS_MAX, false }, { 8, 4 * MIB, 8, 8, true },
    { TOGETHER_MAX, 8 * MIB, TOGETHER_MAX, TOGETHER_MAX, true }
};

typedef struct {
    uint64_t bytes, nanoseconds;
    uint32_t in_flight;
} sight_t;

//  Set at birth; then shared by the threads of a phase.
typedef struct {
    const cost_source_t *source;        //  NULL: fd
    int fd;
    uint64_t size;
    bool direct;
    uint64_t deadline;
    const phase_t *phase;
    uint64_t phase_end;
    atomic_uint begun, in_flight;
    atomic_int error;                   //  -errno of a read
    sight_t sights [READS_MAX];
} probe_t;

typedef struct {
    probe_t *probe;
    pthread_t thread;
    uint8_t *memory;
    uint64_t random;
} prober_t;

//  splitmix64: random enough for places to read.
static uint64_t
s_random_below (uint64_t *state, uint64_t bound)
{
    uint64_t mixed = (*state += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (mixed ^ (mixed >> 31)) % bound;
}

//  A place at which so many bytes end before the file does, if it is that long.
static uint64_t
s_offset (const probe_t *self, size_t bytes, uint64_t *random)
{
    return self->size <= bytes? 0: s_random_below (random, (self->size - bytes) / BLOCK + 1) * BLOCK;
}

//  Bytes read, or -errno.
static ssize_t
s_read_at (const probe_t *self, uint8_t *memory, size_t bytes, uint64_t offset)
{
    ssize_t got;
    if (self->source) {
        size_t wanted = bytes < self->size - offset? bytes: (size_t) (self->size - offset);
        int rc = self->source->read (self->source->context, memory, wanted, offset);
        return rc? rc: (ssize_t) wanted;
    }
    do
        got = pread (self->fd, memory, bytes, (off_t) offset);
    while (got < 0 && errno == EINTR);
    return got < 0? -errno: got;
}

static void
s_sight (probe_t *self, prober_t *prober, uint32_t read)
{
    size_t bytes = self->phase->bytes;
    uint64_t offset = s_offset (self, bytes, &prober->random);
    if (!self->source && !self->direct) //  past the page cache, as far as possible
        posix_fadvise (self->fd, (off_t) offset, (off_t) bytes, POSIX_FADV_DONTNEED);
    uint32_t in_flight = atomic_fetch_add (&self->in_flight, 1) + 1;
    uint64_t begin = clock_now_ns ();
    ssize_t got = s_read_at (self, prober->memory, bytes, offset);
    self->sights [read] = (sight_t) { .bytes = got > 0? (uint64_t) got: 0,
        .nanoseconds = clock_now_ns () - begin, .in_flight = in_flight };
    atomic_fetch_sub (&self->in_flight, 1);
    if (got < 0)
        atomic_store (&self->error, (int) got);
}

static bool
s_goes_on (const probe_t *self, uint32_t read)
{
    uint64_t now = clock_now_ns ();
    return read < self->phase->reads_max && now < self->deadline && !atomic_load (&self->error)
        && (read < self->phase->reads_min || now < self->phase_end);
}

static void *
s_run (void *argument)
{
    prober_t *prober = argument;
    probe_t *self = prober->probe;
    for (uint32_t read; (read = atomic_fetch_add (&self->begun, 1), s_goes_on (self, read));)
        s_sight (self, prober, read);
    return NULL;
}

//  One of them is this thread; threads that cannot be started are left out.
static int
s_phase (probe_t *self, const phase_t *phase, cost_t *cost)
{
    uint8_t *memory = aligned_alloc (BLOCK, phase->threads * phase->bytes);
    if (!memory)
        return -ENOMEM;
    self->phase = phase;
    self->phase_end = clock_now_ns () + PHASE_NS;
    atomic_init (&self->begun, 0);
    for (uint32_t read = 0; read < READS_MAX; read++)
        self->sights [read] = (sight_t) { 0 };
    prober_t probers [TOGETHER_MAX];
    uint32_t started = 1;
    for (uint32_t index = 0; index < phase->threads; index++) {
        prober_t *prober = &probers [index];
        *prober = (prober_t) { .probe = self, .memory = memory + index * phase->bytes };
        if (getrandom (&prober->random, sizeof prober->random, 0) != sizeof prober->random)
            prober->random = clock_now_ns () + index;
    }
    while (started < phase->threads
        && !pthread_create (&probers [started].thread, NULL, s_run, &probers [started]))
        started++;
    s_run (&probers [0]);
    while (--started > 0)
        pthread_join (probers [started].thread, NULL);
    for (uint32_t read = 0; read < READS_MAX; read++)
        if (self->sights [read].bytes)
            cost_observe (cost, self->sights [read].bytes, self->sights [read].nanoseconds,
                self->sights [read].in_flight);
    free (memory);
    return 0;
}

//  The mean of the phase's reads; 0: it had none.
static uint64_t
s_mean_ns (const probe_t *self)
{
    uint64_t sum = 0, count = 0;
    for (uint32_t read = 0; read < READS_MAX; read++)
        if (self->sights [read].bytes) {
            sum += self->sights [read].nanoseconds;
            count++;
        }
    return count? sum / count: 0;
}

//  Some file systems refuse O_DIRECT when a file is opened, others when it is read.
static int
s_open_probe (probe_t *self, const char *path)
{
    _Alignas (BLOCK) uint8_t block [BLOCK];
    self->direct = true;
    self->fd = open (path, O_RDONLY | O_CLOEXEC | O_DIRECT | O_NONBLOCK);
    if (self->fd >= 0 && s_read_at (self, block, BLOCK, 0) == -EINVAL) {
        close (self->fd);
        self->fd = -1;
        errno = EINVAL;
    }
    if (self->fd < 0 && errno == EINVAL) {
        self->direct = false;
        self->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    struct stat status;
    if (self->fd < 0 || fstat (self->fd, &status))
        return -errno;
    self->size = (uint64_t) status.st_size;
    return !S_ISREG (status.st_mode)? -EINVAL: self->size == 0? -ENODATA: 0;
}

//  0, or -errno; *cost: the measurement.
static int
s_measure (probe_t *self, cost_t *cost)
{
    uint64_t block_ns = 0, large_ns = 0;
    if (!self->source && !self->direct)
        posix_fadvise (self->fd, 0, 0, POSIX_FADV_RANDOM);
    for (size_t index = 0; index < sizeof s_phases / sizeof *s_phases; index++) {
        const phase_t *phase = &s_phases [index];
        bool is_of_use = self->size >= phase->threads * phase->bytes && large_ns < 2 * block_ns;
        if (phase->is_wide && !is_of_use)
            continue;
        int rc = s_phase (self, phase, cost);
        if (rc && !phase->is_wide)
            return rc;
        if (index == 0)
            block_ns = s_mean_ns (self);
        else
        if (phase->bytes > BLOCK && phase->threads > 1)
            large_ns = s_mean_ns (self);
    }
    int error = atomic_load (&self->error);
    return error? error: cost->observed? 0: -ETIME;
}

//  The probe is open.
static int
s_probe (probe_t *probe, cost_t *self, uint32_t limit_ms)
{
    probe->deadline = clock_now_ns () + (uint64_t) limit_ms * 1000000u;
    atomic_init (&probe->in_flight, 0);
    atomic_init (&probe->error, 0);
    cost_t cost = cost_assumed ();
    int rc = s_measure (probe, &cost);
    if (rc)
        return rc;
    cost_anchor (&cost);
    cost.depth_set = self->depth_set;
    *self = cost;
    return 0;
}

int
cost_probe (cost_t *self, const char *path, uint32_t limit_ms)
{
    assert (path);
    probe_t probe = { .fd = -1 };
    int rc = s_open_probe (&probe, path);
    if (rc == 0)
        rc = s_probe (&probe, self, limit_ms);
    if (probe.fd >= 0)
        close (probe.fd);
    return rc;
}

int
cost_probe_source (cost_t *self, const cost_source_t *source, uint32_t limit_ms)
{
    assert (source && source->read && source->size_bytes > 0);
    probe_t probe = { .source = source, .fd = -1, .size = source->size_bytes };
    return s_probe (&probe, self, limit_ms);
}
