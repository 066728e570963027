/*  build_check -- whether two builds decode alike: golden samples, small ones, go through pipelines in both,
 *  and have the same digests.
 *
 *  For the handshake with a worker on another machine (docs/workers.md).  The files are part of the build
 *  (build_check.c): JPEGs, a PNG, an array, a WAV.  The random operations are keyed by a number that the
 *  server draws, so the digests cannot be known before.
 *  Threads: no state; a decoder belongs to its thread.
 */
#ifndef BUILD_CHECK_H
#define BUILD_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decoder.h"

enum { BUILD_CHECK_SAMPLES = 14 };

//  "JPEG, random crop": static.  index below BUILD_CHECK_SAMPLES.
const char *build_check_name (size_t index);
//  Makes the version of each sample, and its digest.  A codec that this build lacks has a digest too, another
//  one.  A few milliseconds.  False: no memory.
bool build_check_make (decoder_t *decoder, uint64_t nonce, uint64_t digests [BUILD_CHECK_SAMPLES]);

//  Which libraries this build decodes with: "tureen 0.1.0, libjpeg-turbo 2.1.5, libpng 1.6.39, libwebp
//  1.2.4, libtiff 4.5.0, libsndfile-1.2.0, libsoxr-0.1.3"; a codec that the build lacks is "no libpng".
//  Always ended.
enum { BUILD_CHECK_LIBRARIES_BYTES = 176 };
void build_check_libraries (char text [BUILD_CHECK_LIBRARIES_BYTES]);

#endif
