#include "bucket_draws.h"
#include <assert.h>
#include <stdlib.h>
#include "simulated_memory.h"

bucket_draws_t *
bucket_draws_new (uint32_t samples, uint64_t seed)
{
    assert (samples > 0);
    bucket_draws_t *self = simulated_alloc (1, sizeof *self);
    self->samples = samples;
    self->random = random_from_seed (seed);
    self->order = simulated_alloc (samples, sizeof *self->order);
    for (uint32_t id = 0; id < samples; id++)
        self->order [id] = id;
    return self;
}

void
bucket_draws_destroy (bucket_draws_t **self_p)
{
    bucket_draws_t *self = *self_p;
    if (!self)
        return;
    free (self->order);
    free (self);
    *self_p = NULL;
}

const uint32_t *
bucket_draws_epoch (bucket_draws_t *self, uint32_t count)
{
    assert (count <= self->samples);
    for (uint32_t place = 0; place < count; place++) {
        uint32_t other = place + (uint32_t) random_below (&self->random, self->samples - place);
        uint32_t id = self->order [place];
        self->order [place] = self->order [other];
        self->order [other] = id;
    }
    return self->order;
}
