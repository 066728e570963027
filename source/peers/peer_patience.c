#include "peer_patience.h"

enum {
    MS = 1000000,
    FACTOR = 8, FIRST_MS = 250,         //  taken for usual before the first answer
    WEIGHT = 16,                        //  each answer moves the mean by a sixteenth of the difference
    STORE_FACTOR = 4,                   //  a home may take four times as long as a read of the store
    LEAST_MS = 500, MOST_MS = 10000
};

peer_patience_t
peer_patience_new (void)
{
    return (peer_patience_t) { .typical_ns = (uint64_t) FIRST_MS * MS };
}

static void
s_learn (uint64_t *mean_ns, uint64_t nanoseconds)
{
    *mean_ns += nanoseconds / WEIGHT - *mean_ns / WEIGHT;
}

void
peer_patience_learn (peer_patience_t *self, uint64_t nanoseconds)
{
    s_learn (&self->typical_ns, nanoseconds);
}

void
peer_patience_grow (peer_patience_t *self)
{
    uint64_t least = (uint64_t) LEAST_MS * MS / FACTOR;
    if (self->typical_ns < least)
        self->typical_ns = least;
    //  A member that goes leaves hundreds of questions.  What grows beyond the bound is of no use, and takes
    //  as many answers to fade.
    if (self->typical_ns < (uint64_t) MOST_MS * MS / FACTOR)
        s_learn (&self->typical_ns, 2 * self->typical_ns);
}

void
peer_patience_learn_store (peer_patience_t *self, uint64_t nanoseconds)
{
    if (self->store_ns == 0)
        self->store_ns = nanoseconds;
    s_learn (&self->store_ns, nanoseconds);
}

uint64_t
peer_patience_ns (const peer_patience_t *self)
{
    uint64_t usual = FACTOR * self->typical_ns, fetched = STORE_FACTOR * self->store_ns,
        patience = usual > fetched? usual: fetched, least = (uint64_t) LEAST_MS * MS,
        most = (uint64_t) MOST_MS * MS;
    return patience < least? least: patience > most? most: patience;
}
