/*  bucket_frequency -- how often one of N workers uses a sample in E epochs, and what that is worth to a
 *  cache.
 *
 *  (Dryden and others 2021, NoPFS.)  Each epoch gives a sample to one worker, each with probability 1/N, so a
 *  worker uses it X ~ Binomial (E, 1/N) times.  A worker that caches what it will use most has more local
 *  hits than its cache's share of the data.
 *  Owner: one thread.
 */
#ifndef BUCKET_FREQUENCY_H
#define BUCKET_FREQUENCY_H
#include <stdint.h>

//  Samples that a worker is expected to use more than (1 + excess) E/N times.
double bucket_frequency_expected (uint32_t workers, uint32_t epochs, uint32_t samples, double excess);
//  The same, counted over a worker's slices of shuffles.
uint32_t bucket_frequency_counted (uint32_t workers, uint32_t epochs, uint32_t samples, double excess,
    uint64_t seed);

//  The share of its draws that a worker finds in a cache of this share of the data, filled with what it uses
//  most: c (1 + k sqrt ((N - 1)/E)), k = phi (z_c)/c (a normal distribution of X), and counted.
double bucket_frequency_hits (uint32_t workers, uint32_t epochs, double share);
double bucket_frequency_hits_counted (uint32_t workers, uint32_t epochs, uint32_t samples, double share,
    uint64_t seed);

//  What NoPFS's placement looks at: each worker's uses over E epochs, uses [workers] [samples], zeroed
//  before.
void bucket_frequency_uses (uint32_t workers, uint32_t epochs, uint32_t samples, uint64_t seed,
    uint16_t *uses);
//  The ids of used samples, most used first; returns how many.  order has room for `samples`.
uint32_t bucket_frequency_order (const uint16_t *uses, uint32_t samples, uint32_t *order);

#endif
