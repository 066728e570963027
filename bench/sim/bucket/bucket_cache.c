#include "bucket_cache.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "bucket_draws.h"
#include "simulated_memory.h"

//  A list of the held units through a head that is no unit: the newest is behind it, the oldest before it.
struct bucket_cache {
    bucket_rule_t rule;
    uint32_t units, capacity, count;
    uint32_t *newer, *older;
    bool *held;
};

bucket_cache_t *
bucket_cache_new (bucket_rule_t rule, uint32_t units, uint32_t capacity)
{
    assert (units > 0 && units < UINT32_MAX);
    bucket_cache_t *self = simulated_alloc (1, sizeof *self);
    *self = (bucket_cache_t) { .rule = rule, .units = units, .capacity = capacity };
    self->newer = simulated_alloc ((size_t) units + 1, sizeof *self->newer);
    self->older = simulated_alloc ((size_t) units + 1, sizeof *self->older);
    self->held = simulated_alloc (units, sizeof *self->held);
    self->newer [units] = self->older [units] = units;
    return self;
}

void
bucket_cache_destroy (bucket_cache_t **self_p)
{
    bucket_cache_t *self = *self_p;
    if (!self)
        return;
    free (self->newer);
    free (self->older);
    free (self->held);
    free (self);
    *self_p = NULL;
}

static void
s_link (bucket_cache_t *self, uint32_t unit)
{
    uint32_t head = self->units, newest = self->older [head];
    self->older [unit] = newest;
    self->newer [unit] = head;
    self->newer [newest] = unit;
    self->older [head] = unit;
}

static void
s_unlink (bucket_cache_t *self, uint32_t unit)
{
    self->newer [self->older [unit]] = self->newer [unit];
    self->older [self->newer [unit]] = self->older [unit];
}

bool
bucket_cache_holds (const bucket_cache_t *self, uint32_t unit)
{
    return self->held [unit];
}

bool
bucket_cache_use (bucket_cache_t *self, uint32_t unit)
{
    if (!self->held [unit])
        return false;
    if (self->rule == BUCKET_LRU) {
        s_unlink (self, unit);
        s_link (self, unit);
    }
    return true;
}

void
bucket_cache_insert (bucket_cache_t *self, uint32_t unit)
{
    assert (!self->held [unit]);
    if (self->capacity == 0 || (self->rule == BUCKET_PINNED && self->count == self->capacity))
        return;
    if (self->count == self->capacity) {
        uint32_t oldest = self->newer [self->units];
        s_unlink (self, oldest);
        self->held [oldest] = false;
        self->count--;
    }
    s_link (self, unit);
    self->held [unit] = true;
    self->count++;
}

uint32_t
bucket_cache_count (const bucket_cache_t *self)
{
    return self->count;
}

void
bucket_cache_check (const bucket_cache_t *self)
{
    assert (self->count <= self->capacity);
    uint32_t listed = 0;
    for (uint32_t unit = self->newer [self->units]; unit != self->units; unit = self->newer [unit]) {
        assert (self->held [unit]);
        assert (self->newer [self->older [unit]] == unit);
        listed++;
        assert (listed <= self->count);
    }
    assert (listed == self->count);
}

void
bucket_cache_run (const bucket_cache_plan_t *plan, uint64_t seed, uint32_t *misses)
{
    uint32_t slice = plan->units / plan->workers;
    bucket_draws_t *draws = bucket_draws_new (plan->units, seed);
    bucket_cache_t *cache = bucket_cache_new (plan->rule, plan->units, plan->capacity);
    for (uint32_t epoch = 0; epoch < plan->epochs; epoch++) {
        const uint32_t *order = bucket_draws_epoch (draws, slice);
        misses [epoch] = 0;
        for (uint32_t place = 0; place < slice; place++)
            if (!bucket_cache_use (cache, order [place])) {
                bucket_cache_insert (cache, order [place]);
                misses [epoch]++;
            }
    }
    bucket_cache_destroy (&cache);
    bucket_draws_destroy (&draws);
}

//  Between two uses of a unit, at places x and y of their epochs, the other draws are (1 - x) + y - (1 - x) y
//  of the units; the unit is held if that is below the share.
double
bucket_cache_lru_misses (double share)
{
    return share >= 1? 0: (1 - share) * (1 - log (1 - share));
}

//  A draw hits with y/N, if y slices of the first epoch are still held.  Misses fill the room that is left,
//  and then evict: y' = y/N - 1, until y is 0 at N ln (N/(N-y)), or the epoch ends.
double
bucket_cache_second_misses (uint32_t workers, double partitions)
{
    double n = workers, held = fmin (partitions, 1), left = 1;
    double room = fmin (fmax (partitions - 1, 0) / (1 - 1 / n), 1);
    double misses = room * (1 - 1 / n);
    left -= room;
    double end = n * log (n / (n - held));
    return misses + (end <= left? left - end + held: (n - held) * (exp (left / n) - 1));
}
