/*  fingerprint -- a hash as text, by which data are known again: 32 hexadecimal digits of XXH3-128.  */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H
#include <xxhash.h>

enum { FINGERPRINT_BYTES = 33 };        //  with the zero

//  The fingerprint of what the state has hashed; frees the state.  Any thread.
void fingerprint_end (XXH3_state_t *state, char text [FINGERPRINT_BYTES]);

#endif
