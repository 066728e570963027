/*  tiling -- `--tile`: what it may be, what it makes of one file, and what is told of it.
 *
 *  A JPEG becomes a tiled one (decode/tiles/tile_transcode.h) or stays as it is, for a reason that has a
 *  name.  Both depend on the file and the setting alone.  Every JPEG is tiled, of whatever field: what
 *  another program asks for the pixels of gets the same ones.
 *
 *  A pack's note says how it was made, and how many of its files are tiled: those that were converted, and
 *  those that were tiled before and stayed as they are.  A recount must find as many.
 */
#ifndef TILING_H
#define TILING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>
#include "packing.h"

//  What became of a file; packing keeps them on the disk, so their numbers stay.
typedef enum {
    TILING_NOT_ASKED,
    TILING_TILED,
    TILING_TILED_PROGRESSIVE,       //  it was progressive, and is sequential now
    TILING_WAS_TILED,               //  cannot be transcoded, and came with restart markers that do
    TILING_NO_JPEG,
    TILING_DAMAGED,
    TILING_CODING,                  //  arithmetic, lossless, 12 bits
    TILING_UNFINISHED,              //  progressive without its last scans
    TILING_SEVERAL,                 //  an index of several pictures
    TILING_PIXELS,                  //  too many
    TILING_BYTES,                   //  too many, if it were tiled
    TILING_OTHER,
    TILING_NO_WAY_BACK,             //  originals are to be kept, and it would not come back byte for byte
    TILING_METADATA,                //  behind a scan's header, where decoders do not look for them
    TILING_DAMAGED_TILED,           //  and its restart markers do all the same
    TILING_MARKS
} tiling_mark_t;

_Static_assert ((int) TILING_MARKS <= (int) PACKING_MARKS_MAX, "packing counts them");

typedef struct {
    uint8_t *bytes;                 //  the caller frees them; NULL: the file stays as it is
    size_t size;
    tiling_mark_t mark;
} tiling_file_t;

//  tile is not off.  0; -ENOMEM; or -EEXIST: originals are to be kept, and it would stay as it is with one of
//  its own, which would be given back in its place.  Any thread.
int tiling_convert (const uint8_t *bytes, size_t size, uint32_t tile, tiling_file_t *file);
//  How much memory that takes at most, beside the file's; of what is no JPEG, or none that can be tiled: 0.
uint64_t tiling_memory (const uint8_t *bytes, size_t size);
//  1: windows can be cut out of the file; 0: they cannot; -ENOMEM.
int tiling_is_tiled (const uint8_t *bytes, size_t size);


//  ---- what is told

//  Lines on how it went.
void tiling_print (FILE *stream, const packing_result_t *result);
//  The same as an object; NULL: no memory.
json_t *tiling_json (const packing_result_t *result);

//  As packing_options_t.note.
void tiling_note (void *context, const packing_result_t *result, char note [PACKING_NOTE_BYTES]);

#endif
