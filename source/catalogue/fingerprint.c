#include "fingerprint.h"
#include <stdio.h>

void
fingerprint_end (XXH3_state_t *state, char text [FINGERPRINT_BYTES])
{
    XXH128_hash_t hash = XXH3_128bits_digest (state);
    XXH3_freeState (state);
    snprintf (text, FINGERPRINT_BYTES, "%016llx%016llx", (unsigned long long) hash.high64,
        (unsigned long long) hash.low64);
}
