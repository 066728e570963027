/*  tiling_source -- a source of samples (cache/pack/pack_source.h) around another: the same ones in the same
 *  order, their JPEGs tiled by threads (tiling.h).
 *
 *  happy path:     it reads samples ahead of the caller, as far as its memory allows; workers convert them in
 *                  any order; the caller gets them in the source's order.
 *  failure modes:  a source that fails does so behind the samples that it gave before.  No memory for a file
 *                  is an error, never a file that stays as it is: what a pack holds must not depend on that.
 *  on destroy:     files that are being converted are finished first; the others are dropped, those that wait
 *                  for memory too.
 *
 *  Memory: a quarter of memory_bytes for samples on their way, or one of them; all of it for coefficients, or
 *  one file's.
 *  Owner: one thread.
 */
#ifndef TILING_SOURCE_H
#define TILING_SOURCE_H
#include <stdint.h>
#include "pack_source.h"

typedef struct {
    uint32_t tile;                  //  not off
    uint32_t workers;               //  > 0
    uint64_t memory_bytes;
} tiling_source_options_t;

//  Puts it in the place of *source_p, which it takes.  0; or -errno and error (PACK_SOURCE_ERROR_BYTES),
//  nothing changed.
int tiling_source_wrap (pack_source_t **source_p, const tiling_source_options_t *options, char *error);

#endif
