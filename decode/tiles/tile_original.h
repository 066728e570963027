/*  tile_original -- the file that a tiled JPEG was made of, byte for byte, kept in the tiled one.
 *
 *  Huffman coding leaves an encoder little freedom: from the same coefficients and the same tables nearly
 *  every one writes the same bits.  So of the original only what stands around the coded data is kept, its
 *  metadata not even that (they are in the tiled file already), deflated, in an application's segment of a
 *  few hundred bytes behind the metadata.  Decoders skip it.  The restoration is tried before it is relied
 *  on: if an encoder used its freedom so that it fails, nothing is kept.
 *
 *  docs/format.md has the format.
 *
 *  Untrusted bytes: memory for the coefficients (as tile_transcode.h), for what the segment says to be the
 *  original's size, of at most TILE_ORIGINAL_BYTES_MAX, twice, and for a skeleton of 1 MiB; at most
 *  DECODER_SCANS_MAX scans; no abort.
 *  Owner: one thread, no state.
 */
#ifndef TILE_ORIGINAL_H
#define TILE_ORIGINAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tile_transcode.h"

enum { TILE_ORIGINAL_BYTES_MAX = 256 << 20 };

//  Puts the original into the file that tile_transcode made of it.  0; or, with tiled as it was and error
//  (always ended):
//  -EDOM it would not come back byte for byte, -ENOMEM.
int tile_original_keep (const uint8_t *original, size_t original_bytes, tiled_t *tiled, char *error,
    size_t error_bytes)
    __attribute__ ((warn_unused_result));

//  Whether a segment says so; not whether it tells the truth.
bool tile_original_is_kept (const uint8_t *bytes, size_t size);

//  0 and *original_p, which the caller frees; or, with nothing to free and error: -EDOM nothing is kept
//  there, -EBADMSG it does not come back: the file is damaged, or was made by another version of this, or of
//  libjpeg; -ENOMEM.
int tile_original_restore (const uint8_t *bytes, size_t size, uint8_t **original_p, size_t *original_bytes_p,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

#endif
