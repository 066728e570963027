/*  tile_original -- the file that a tiled JPEG was made of, byte for byte, kept in the tiled one.
 *
 *  Huffman coding leaves an encoder little freedom: from the same coefficients and the same tables nearly every one writes the
 *  same bits.  So of the original only what stands around the coded data is kept, its metadata not even that (they are in the
 *  tiled file already), deflated, in an application's segment of a few hundred bytes behind the metadata.  Decoders pass
 *  over it.  Whether the original comes back is tried before anybody relies on it: where an encoder used what freedom there is,
 *  nothing is kept.
 *
 *  The segment (APP9): the signature, version, method, then in the order of bytes that JPEG has (the highest first) the
 *  original's size and CRC-32 (that of zlib), and the size of the skeleton, each of four bytes; then the skeleton, deflated
 *  without a header, with a dictionary: Huffman tables as in Annex K of the JPEG standard, and the tiled file's own header.  The
 *  skeleton is a list of instructions that make the original (s_rebuild).  What stands behind its end marker is at its end.
 *
 *  Untrusted bytes: bounded memory (as tile_transcode.h), no abort.  Owner: one thread, no state.
 */
#ifndef TILE_ORIGINAL_H
#define TILE_ORIGINAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tile_transcode.h"

//  Puts the original into the file that tile_transcode made of it.  0; or, with tiled as it was and error (always ended):
//  -EDOM it would not come back byte for byte, -ENOMEM.
int tile_original_keep (const uint8_t *original, size_t original_bytes, tiled_t *tiled, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));

//  Of a file that has such a segment and is to stay as it is, all the same: one more segment, from which it comes back as it
//  was.  0 and *sealed_p, which the caller frees, or as above.
int tile_original_seal (const uint8_t *bytes, size_t size, uint8_t **sealed_p, size_t *sealed_bytes_p, char *error,
    size_t error_bytes) __attribute__ ((warn_unused_result));

//  Whether a segment says so; not whether it tells the truth.
bool tile_original_is_kept (const uint8_t *bytes, size_t size);

//  0 and *original_p, which the caller frees; or, with nothing to free and error: -EDOM nothing is kept there, -EBADMSG it is
//  damaged, or was kept by another version, -ENOMEM.
int tile_original_restore (const uint8_t *bytes, size_t size, uint8_t **original_p, size_t *original_bytes_p, char *error,
    size_t error_bytes) __attribute__ ((warn_unused_result));

#endif
