/*  bucket_draws -- orders of epochs: each a fresh shuffle of all samples, of which a worker takes a slice.
 *
 *  The first ids of an order are drawn uniformly without replacement.  An order that starts from the one
 *  before is as fresh as any other, so a worker's slice costs its own length, not the data set's.
 *  Owner: one thread.
 */
#ifndef BUCKET_DRAWS_H
#define BUCKET_DRAWS_H
#include <stdint.h>
#include "random.h"

typedef struct {
    uint32_t samples;
    uint32_t *order;
    random_t random;
} bucket_draws_t;

//  samples > 0.
bucket_draws_t *bucket_draws_new (uint32_t samples, uint64_t seed);
void bucket_draws_destroy (bucket_draws_t **self_p);
//  The first count ids of the next epoch's order, lent until the next call.
const uint32_t *bucket_draws_epoch (bucket_draws_t *self, uint32_t count);

#endif
