#include "bucket_frequency.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "bucket_draws.h"
#include "simulated_memory.h"

//  The least count that is more than (1 + excess) E/N; products of decimals may be a little off.
static uint32_t
s_least (uint32_t workers, uint32_t epochs, double excess)
{
    return (uint32_t) floor ((1 + excess) * epochs / workers + 1e-9) + 1;
}

double
bucket_frequency_expected (uint32_t workers, uint32_t epochs, uint32_t samples, double excess)
{
    double e = epochs, chance = 1.0 / workers, sum = 0;
    if (workers == 1)
        return s_least (workers, epochs, excess) <= epochs? samples: 0;
    for (uint32_t uses = s_least (workers, epochs, excess); uses <= epochs; uses++) {
        double k = uses;
        sum += exp (lgamma (e + 1) - lgamma (k + 1) - lgamma (e - k + 1) + k * log (chance)
            + (e - k) * log1p (-chance));
    }
    return samples * sum;
}

//  A worker's uses of each sample.
static uint16_t *
s_count_worker (uint32_t workers, uint32_t epochs, uint32_t samples, uint64_t seed)
{
    uint16_t *uses = simulated_alloc (samples, sizeof *uses);
    bucket_draws_t *draws = bucket_draws_new (samples, seed);
    uint32_t slice = samples / workers;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        const uint32_t *order = bucket_draws_epoch (draws, slice);
        for (uint32_t place = 0; place < slice; place++)
            uses [order [place]]++;
    }
    bucket_draws_destroy (&draws);
    return uses;
}

uint32_t
bucket_frequency_counted (uint32_t workers, uint32_t epochs, uint32_t samples, double excess, uint64_t seed)
{
    uint16_t *uses = s_count_worker (workers, epochs, samples, seed);
    uint32_t least = s_least (workers, epochs, excess), count = 0;
    for (uint32_t id = 0; id < samples; id++)
        count += uses [id] >= least;
    free (uses);
    return count;
}

double
bucket_frequency_hits (uint32_t workers, uint32_t epochs, double share)
{
    //  z: a share of a normal distribution lies above it.
    double low = -40, high = 40;
    for (int step = 0; step < 200; step++) {
        double middle = (low + high) / 2;
        if (erfc (middle / sqrt (2)) / 2 > share)
            low = middle;
        else
            high = middle;
    }
    double density = exp (-low * low / 2) / sqrt (2 * acos (-1));
    return share * (1 + density / share * sqrt ((workers - 1.0) / epochs));
}

double
bucket_frequency_hits_counted (uint32_t workers, uint32_t epochs, uint32_t samples, double share,
    uint64_t seed)
{
    uint16_t *uses = s_count_worker (workers, epochs, samples, seed);
    uint32_t *order = simulated_alloc (samples, sizeof *order);
    uint32_t used = bucket_frequency_order (uses, samples, order), capacity = (uint32_t) (share * samples);
    double hits = 0;
    for (uint32_t place = 0; place < used && place < capacity; place++)
        hits += uses [order [place]];
    free (order);
    free (uses);
    return hits / ((double) (samples / workers) * epochs);
}

void
bucket_frequency_uses (uint32_t workers, uint32_t epochs, uint32_t samples, uint64_t seed, uint16_t *uses)
{
    bucket_draws_t *draws = bucket_draws_new (samples, seed);
    uint32_t slice = samples / workers;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        const uint32_t *order = bucket_draws_epoch (draws, slice * workers);
        for (uint32_t place = 0; place < slice * workers; place++)
            uses [(size_t) (place / slice) * samples + order [place]]++;
    }
    bucket_draws_destroy (&draws);
}

uint32_t
bucket_frequency_order (const uint16_t *uses, uint32_t samples, uint32_t *order)
{
    //  Counting sort: places [k] is where samples of k uses begin.
    uint32_t *places = simulated_alloc ((size_t) UINT16_MAX + 2, sizeof *places), used = 0;
    for (uint32_t id = 0; id < samples; id++)
        places [uses [id]]++;
    for (uint32_t count = UINT16_MAX; count > 0; count--) {
        uint32_t begin = used;
        used += places [count];
        places [count] = begin;
    }
    for (uint32_t id = 0; id < samples; id++)
        if (uses [id])
            order [places [uses [id]]++] = id;
    free (places);
    return used;
}
