/*  pack_tiling -- what a pack's note says of its tiled files; tiling.h writes such notes.  */
#ifndef PACK_TILING_H
#define PACK_TILING_H
#include <stdbool.h>
#include <stdint.h>
#include "packing.h"

typedef struct {
    bool is_tiled;                  //  false: ignore the rest
    bool originals;                 //  original_files files keep their originals (tile_original.h), which
                                    //  readers give back
    char tile [PACKING_TILE_BYTES];
    uint64_t files, tiled, original_files;
} pack_tiling_t;

//  From pack_note, which may be NULL; a note without tiling counts as none.
pack_tiling_t pack_tiling (const char *note);

#endif
