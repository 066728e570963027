/*  golden -- small samples through pipelines: two builds that make the same digests of them decode alike.
 *
 *  For the handshake with a worker on another machine (docs/workers.md).  The files are part of the build
 *  (golden.c): JPEGs, a PNG, an array, a WAV.  The random operations are keyed by a number that the
 *  server draws, so the digests cannot be known before.
 *  Threads: no state; a decoder belongs to its thread.
 */
#ifndef GOLDEN_H
#define GOLDEN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decoder.h"

enum { GOLDEN_SAMPLES = 14 };

//  "JPEG, random crop": static.  index below GOLDEN_SAMPLES.
const char *golden_name (size_t index);
//  Makes the version of each sample, and its digest.  A codec that this build lacks has a digest too, another
//  one.  A few milliseconds.  False: no memory.
bool golden_make (decoder_t *decoder, uint64_t nonce, uint64_t digests [GOLDEN_SAMPLES]);

#endif
