#include "random.h"

random_t
random_from_seed (uint64_t seed)
{
    return (random_t) { .state = seed };
}

bool
random_ratio (random_t *self, uint64_t numerator, uint64_t denominator)
{
    assert (denominator > 0);
    assert (numerator <= denominator);
    //  What is certain costs no random number: jobs with equal sets agree without one.
    if (numerator == denominator)
        return true;
    return numerator > 0 && random_below (self, denominator) < numerator;
}
