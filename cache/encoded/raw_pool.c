//  What all policies have in common: the set of resident samples, its size in bytes, and the counters.

#include "raw_pool.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "raw_policy.h"
#include "xalloc.h"

enum { RAW_POOL_MAGIC = 0x72617770, DEVIATIONS = 5, RESIDENTS_FIRST = 64 };

static void *
s_direct_make (raw_pool_t *pool)
{
    return pool;                        //  any address: there is no state
}

static void
s_direct_destroy (void *policy)
{
    (void) policy;
}

const raw_policy_ops_t raw_direct_ops = { .make = s_direct_make, .destroy = s_direct_destroy };

static size_t
s_bytes (const raw_pool_t *self, uint32_t id)
{
    return self->options.sample_bytes (self->options.context, id);
}

raw_need_t
raw_pool_need (const raw_pool_t *self, uint32_t job, uint32_t id)
{
    return self->options.need (self->options.context, job, id);
}

uint64_t
raw_pool_random (const raw_pool_t *self, uint64_t bound)
{
    return self->options.random_below (self->options.random, bound);
}

static uint32_t *
s_make_positions (const raw_pool_options_t *options)
{
    size_t bytes = options->samples * sizeof (uint32_t);
    uint32_t *positions = xalloc_memory (malloc (bytes));
    for (uint32_t position = 0; position < options->samples; position++)
        positions [options->order [position]] = position;
    return positions;
}

static void
s_measure (raw_pool_t *self)
{
    double squares = 0;
    for (uint32_t id = 0; id < self->options.samples; id++) {
        size_t bytes = s_bytes (self, id);
        self->all_bytes += bytes;
        squares += (double) bytes * (double) bytes;
        self->sample_bytes_max = bytes > self->sample_bytes_max? bytes: self->sample_bytes_max;
    }
    double mean = (double) self->all_bytes / self->options.samples;
    double variance = squares / self->options.samples - mean * mean;
    self->sample_bytes_deviation = variance > 0? sqrt (variance): 0;
}

uint64_t
raw_pool_capacity (const raw_pool_t *self, size_t bytes)
{
    double mean = (double) self->all_bytes / self->options.samples;
    if (mean <= 0)
        return self->options.samples;
    //  The largest n with n * mean + DEVIATIONS * sqrt (n) * deviation <= bytes.
    double spread = DEVIATIONS * self->sample_bytes_deviation;
    double root = (sqrt (spread * spread + 4 * mean * (double) bytes) - spread) / (2 * mean);
    return (uint64_t) (root * root + 1e-6);
}

raw_pool_t *
raw_pool_new (const raw_pool_options_t *options)
{
    assert (options->ops && options->samples > 0 && options->order && options->sample_bytes && options->need
        && options->random_below);
    assert (options->break_count > 0 && options->breaks [0] == 0);
    raw_pool_t *self = xalloc_memory (calloc (1, sizeof *self));
    self->magic = RAW_POOL_MAGIC;
    self->options = *options;
    if (!options->positions)
        self->positions_made = s_make_positions (options);
    self->positions = options->positions? options->positions: self->positions_made;
    s_measure (self);
    size_t bytes = options->samples * sizeof *self->places;
    self->places = xalloc_memory (malloc (bytes));
    memset (self->places, 0xff, bytes);     //  RAW_POOL_NOWHERE
    self->figures.limit_bytes = options->limit_bytes;
    self->policy = self->options.ops->make (self);
    return self;
}

//  The table of residents doubles.
size_t
raw_pool_bytes (const raw_policy_ops_t *ops, uint32_t samples, uint32_t chunk, uint64_t residents)
{
    return sizeof (raw_pool_t) + (samples + 2 * (size_t) residents + RESIDENTS_FIRST) * sizeof (uint32_t)
        + (ops->bytes? ops->bytes (samples, chunk): 0);
}

size_t
raw_pool_job_bytes (const raw_policy_ops_t *ops, uint32_t samples, uint64_t residents)
{
    return ops->job_bytes? ops->job_bytes (samples, residents): 0;
}

void
raw_pool_destroy (raw_pool_t **self_p)
{
    raw_pool_t *self = *self_p;
    if (!self)
        return;
    assert (self->magic == RAW_POOL_MAGIC);
    self->options.ops->destroy (self->policy);
    free (self->residents);
    free (self->places);
    free (self->positions_made);
    self->magic = 0;
    free (self);
    *self_p = NULL;
}

void
raw_pool_on_leave (raw_pool_t *self, void (*left) (void *context, uint32_t id), void *context)
{
    self->left = left;
    self->left_context = context;
}

uint32_t
raw_pool_resident_count (const raw_pool_t *self)
{
    return (uint32_t) self->figures.resident;
}

uint32_t
raw_pool_resident_at (const raw_pool_t *self, uint32_t index)
{
    assert (index < self->figures.resident);
    return self->residents [index];
}

bool
raw_pool_is_resident (const raw_pool_t *self, uint32_t id)
{
    return self->places [id] != RAW_POOL_NOWHERE;
}

void
raw_pool_join (raw_pool_t *self, uint32_t job)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (job < RAW_JOBS_MAX);
    if (self->options.ops->join)
        self->options.ops->join (self->policy, job);
    raw_pool_needs_grew (self);
}

void
raw_pool_leave (raw_pool_t *self, uint32_t job)
{
    assert (self->magic == RAW_POOL_MAGIC);
    if (self->options.ops->leave)
        self->options.ops->leave (self->policy, job);
}

void
raw_pool_epoch_begin (raw_pool_t *self, uint32_t job)
{
    assert (self->magic == RAW_POOL_MAGIC);
    if (self->options.ops->epoch_begin)
        self->options.ops->epoch_begin (self->policy, job);
    raw_pool_needs_grew (self);
}

void
raw_pool_pace (raw_pool_t *self, uint32_t job, double speed)
{
    if (self->options.ops->pace)
        self->options.ops->pace (self->policy, job, speed);
}

void
raw_pool_give_back (raw_pool_t *self, uint32_t job, uint32_t id)
{
    if (self->options.ops->give_back)
        self->options.ops->give_back (self->policy, job, id);
}

void
raw_pool_share_out (raw_pool_t *self)
{
    if (self->options.ops->share_out)
        self->options.ops->share_out (self->policy);
}

uint32_t
raw_pool_supply_count (const raw_pool_t *self, uint32_t job)
{
    return self->options.ops->supply? self->options.ops->supply (self->policy, job)->count: 0;
}

uint32_t
raw_pool_supply_at (const raw_pool_t *self, uint32_t job, uint32_t index)
{
    const supply_t *supply = self->options.ops->supply (self->policy, job);
    assert (index < supply->count);
    return supply->ids [index];
}

bool
raw_pool_is_in_supply (const raw_pool_t *self, uint32_t job, uint32_t id)
{
    return self->options.ops->supply && supply_has (self->options.ops->supply (self->policy, job), id);
}

void
raw_pool_enter (raw_pool_t *self, uint32_t id)
{
    assert (!raw_pool_is_resident (self, id));
    if (self->figures.resident == self->resident_room) {
        self->resident_room = self->resident_room? self->resident_room * 2: RESIDENTS_FIRST;
        size_t bytes = self->resident_room * sizeof *self->residents;
        self->residents = xalloc_memory (realloc (self->residents, bytes));
    }
    self->places [id] = raw_pool_resident_count (self);
    self->residents [self->figures.resident++] = id;
    self->figures.resident_bytes += s_bytes (self, id);
    assert (self->figures.resident_bytes <= self->figures.limit_bytes);
}

static void
s_leave (raw_pool_t *self, uint32_t id)
{
    uint32_t place = self->places [id];
    assert (place != RAW_POOL_NOWHERE);
    uint32_t last = self->residents [--self->figures.resident];
    self->residents [place] = last;
    self->places [last] = place;
    self->places [id] = RAW_POOL_NOWHERE;
    self->figures.resident_bytes -= s_bytes (self, id);
    if (self->options.ops->has_left)
        self->options.ops->has_left (self->policy, id);
}

void
raw_pool_discard (raw_pool_t *self, uint32_t id)
{
    s_leave (self, id);
    self->figures.discarded++;
    if (self->left)
        self->left (self->left_context, id);
}

uint32_t
raw_pool_redirect (raw_pool_t *self, uint32_t id, bool (*accepts) (void *context, uint32_t id), void *context)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (id < self->options.samples);
    return self->options.ops->redirect? self->options.ops->redirect (self->policy, id, accepts, context): id;
}

static bool
s_holds (const raw_pool_t *self)
{
    return self->options.ops->holds && self->options.ops->holds (self->policy);
}

static bool
s_is_wanted (const raw_pool_t *self, uint32_t id)
{
    return self->options.ops->wants (self->policy, id);
}

static void
s_was_drawn (raw_pool_t *self, uint32_t id)
{
    if (self->options.ops->was_drawn)
        self->options.ops->was_drawn (self->policy, id);
}

bool
raw_pool_take (raw_pool_t *self, uint32_t id)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (id < self->options.samples);
    bool hit = raw_pool_is_resident (self, id);
    if (hit && !(self->options.ops->stays && self->options.ops->stays (self->policy, id)))
        s_leave (self, id);
    if (hit)
        self->figures.hits++;
    else
        self->figures.misses++;
    s_was_drawn (self, id);
    return hit;
}

void
raw_pool_drawn (raw_pool_t *self, uint32_t id)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (id < self->options.samples);
    if (raw_pool_is_resident (self, id) && !s_is_wanted (self, id) && !s_holds (self))
        raw_pool_discard (self, id);
    s_was_drawn (self, id);
}

void
raw_pool_dropped (raw_pool_t *self, uint32_t id)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (id < self->options.samples);
    if (self->options.ops->dropped)
        self->options.ops->dropped (self->policy, id);
}

bool
raw_pool_next (raw_pool_t *self, raw_read_t *read)
{
    assert (self->magic == RAW_POOL_MAGIC);
    if (!self->options.ops->next || !self->options.ops->next (self->policy, read))
        return false;
    self->figures.reads++;
    return true;
}

void
raw_pool_needs_grew (raw_pool_t *self)
{
    if (self->options.ops->needs_grew)
        self->options.ops->needs_grew (self->policy);
}

void
raw_pool_each (const raw_pool_t *self, void (*visit) (void *context, uint32_t id), void *context)
{
    for (uint32_t index = 0; index < raw_pool_resident_count (self); index++)
        visit (context, self->residents [index]);
}

static void
s_sweep_all (raw_pool_t *self)
{
    if (self->options.ops->needs_shrank)
        self->options.ops->needs_shrank (self->policy);
    //  Samples that are held: either all or none.
    uint32_t index = raw_pool_resident_count (self);
    while (s_holds (self) && index > 0)
        if (s_is_wanted (self, self->residents [--index]))
            return;
    //  From the end, because the last takes the place of one that leaves.
    for (index = raw_pool_resident_count (self); index-- > 0;)
        if (!s_is_wanted (self, self->residents [index]))
            raw_pool_discard (self, self->residents [index]);
}

void
raw_pool_sweep (raw_pool_t *self)
{
    assert (self->magic == RAW_POOL_MAGIC);
    if (!self->options.ops->sweep || !self->options.ops->sweep (self->policy))
        s_sweep_all (self);
}

void
raw_pool_limit (raw_pool_t *self, size_t limit_bytes)
{
    assert (self->magic == RAW_POOL_MAGIC);
    bool shrinks = limit_bytes < self->figures.limit_bytes;
    self->figures.limit_bytes = limit_bytes;
    if (self->options.ops->limit_changed)
        self->options.ops->limit_changed (self->policy);
    if (shrinks)
        s_sweep_all (self);             //  samples that no job needs leave first
    while (self->figures.resident_bytes > limit_bytes)
        raw_pool_discard (self, self->residents [raw_pool_random (self, self->figures.resident)]);
}

void
raw_pool_piece (raw_pool_t *self, uint32_t piece)
{
    assert (self->magic == RAW_POOL_MAGIC);
    assert (piece >= 1 && piece <= RAW_PIECE_MAX);
    if (self->options.ops->piece_changed)
        self->options.ops->piece_changed (self->policy, piece);
}

void
raw_pool_restart (raw_pool_t *self)
{
    assert (self->magic == RAW_POOL_MAGIC);
    while (self->figures.resident)
        raw_pool_discard (self, self->residents [self->figures.resident - 1]);
    if (self->options.ops->restart)
        self->options.ops->restart (self->policy);
}

raw_pool_figures_t
raw_pool_figures (const raw_pool_t *self)
{
    return self->figures;
}

void
raw_pool_check (const raw_pool_t *self)
{
    assert (self->magic == RAW_POOL_MAGIC);
    size_t bytes = 0;
    uint32_t resident = 0;
    for (uint32_t id = 0; id < self->options.samples; id++)
        resident += raw_pool_is_resident (self, id);
    assert (resident == self->figures.resident);
    for (uint32_t index = 0; index < resident; index++) {
        assert (self->places [self->residents [index]] == index);
        bytes += s_bytes (self, self->residents [index]);
    }
    assert (bytes == self->figures.resident_bytes);
    assert (bytes <= self->figures.limit_bytes);
    if (self->options.ops->check)
        self->options.ops->check (self->policy);
}
