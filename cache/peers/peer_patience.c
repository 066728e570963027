#include "peer_patience.h"

enum {
    MS = 1000000,
    FACTOR = 8, FIRST_MS = 250,         //  taken for usual before the first answer
    WEIGHT = 16,                        //  a question is one part in so many of the mean
    LEAST_MS = 500, MOST_MS = 10000
};

void
peer_patience_begin (peer_patience_t *self, uint64_t system_ns)
{
    *self = (peer_patience_t) { .now_ns = system_ns, .seen_ns = system_ns,
        .typical_ns = (uint64_t) FIRST_MS * MS };
}

void
peer_patience_look (peer_patience_t *self, uint64_t system_ns, uint64_t pause_ns)
{
    uint64_t passed_ns = system_ns - self->seen_ns;
    self->seen_ns = system_ns;
    self->now_ns += passed_ns < pause_ns? passed_ns: pause_ns;
}

void
peer_patience_learn (peer_patience_t *self, uint64_t nanoseconds)
{
    self->typical_ns += nanoseconds / WEIGHT;
    self->typical_ns -= self->typical_ns / WEIGHT;
}

uint64_t
peer_patience_ns (const peer_patience_t *self)
{
    uint64_t patience = FACTOR * self->typical_ns, least = (uint64_t) LEAST_MS * MS,
        most = (uint64_t) MOST_MS * MS;
    return patience < least? least: patience > most? most: patience;
}
