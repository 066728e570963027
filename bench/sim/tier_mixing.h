/*  tier_mixing -- how well one epoch's order mixes what lies together in the pack.
 *
 *  For samples of one chunk, and of one piece (those of `piece` neighbours, counted from the pack's begin),
 *  over all pairs:
 *    - mean distance: |difference of their positions in the order| / samples of the order; a shuffle has 1/3;
 *    - same batch (pieces): how often both are in one batch, over how often chance would have it.
 *  For each batch that is full:
 *    - distinct chunks: from how many chunks its samples are;
 *    - most of one chunk: how many are of the one that has most.
 *  Owner: one thread.
 */
#ifndef TIER_MIXING_H
#define TIER_MIXING_H
#include <stddef.h>
#include <stdint.h>
#include "simulated_mean.h"

typedef struct {
    mean_t chunk_distance, piece_distance;
    mean_t piece_same_batch;        //  a ratio an epoch
    mean_t batch_distinct_chunks, batch_most_of_one_chunk;
} tier_mixing_t;

//  Adds an epoch.  order [0 .. count): ids; positions: the place in the pack of each of `samples` ids.
void tier_mixing_add (tier_mixing_t *self, const uint32_t *order, uint32_t count, const uint32_t *positions,
    uint32_t samples, uint32_t chunk, uint32_t piece, uint32_t batch);
void tier_mixing_merge (tier_mixing_t *self, const tier_mixing_t *other);

#endif
