/*  pack_tiling -- what a pack's note says of its tiled files; tiling.h writes such notes.  */
#ifndef PACK_TILING_H
#define PACK_TILING_H
#include <stdbool.h>
#include <stdint.h>
#include "packing.h"

typedef struct {
    bool is_tiled;                  //  else the rest says nothing
    bool originals;                 //  are kept, in original_files of the files (tile_original.h), and are to
                                    //  be given back
    char tile [PACKING_TILE_BYTES];
    uint64_t files, tiled, original_files;
} pack_tiling_t;

//  From pack_note, which may be NULL; a note of other things is none.
pack_tiling_t pack_tiling (const char *note);

#endif
