/*  fingerprint -- a hash as text, by which data are known again: 32 hexadecimal digits of XXH3-128.  */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H
#include <stdio.h>
#include <xxhash.h>

enum { FINGERPRINT_BYTES = 33 };        //  with the zero

//  The fingerprint of what the state has hashed; frees the state.  Any thread.
static inline void
fingerprint_end (XXH3_state_t *state, char text [FINGERPRINT_BYTES])
{
    XXH128_hash_t hash = XXH3_128bits_digest (state);
    XXH3_freeState (state);
    snprintf (text, FINGERPRINT_BYTES, "%016llx%016llx", (unsigned long long) hash.high64,
        (unsigned long long) hash.low64);
}

#endif
