/*  tile_table -- where the segments of a tiled JPEG begin: found in its bytes (docs/tiles.md says why not
 *  kept beside them).
 *
 *  A segment is what stands between two restart markers.  Invariant: begins rise, by at least the two bytes
 *  of a marker;
 *  segment i is [begins [i], begins [i + 1] - 2), and begins [count] is the end of the end marker.
 *
 *  Untrusted bytes.  Owner: one thread; the memory is kept from file to file.
 */
#ifndef TILE_TABLE_H
#define TILE_TABLE_H
#include "image.h"
#include "tile_frame.h"

typedef struct {
    scratch_t room;
    size_t *begins;             //  in room
    uint32_t count;
} tile_table_t;

typedef enum {
    TILE_TABLE_OK,
    TILE_TABLE_DAMAGED,         //  restart markers are missing, or others stand between them, or no end
                                //  marker does
    TILE_TABLE_NO_MEMORY
} tile_table_status_t;

void tile_table_free (tile_table_t *self);

//  By looking for all markers: what is OK is a whole file, up to flipped bits inside the segments.
tile_table_status_t tile_table_scan (tile_table_t *self, const tile_frame_t *frame, const uint8_t *bytes,
    size_t size)
    __attribute__ ((warn_unused_result));

#endif
