/*  tile_frame -- the header of a tiled JPEG, and what a window of it needs of that.
 *
 *  Tiled is a JPEG of one Huffman-coded, sequential scan of 8 bits that holds all components, with restart
 *  markers so that a whole number of intervals makes a row of MCUs (those are what the scan is made of: 8 x 8
 *  pixels, or 16 x 16 where colours have half the resolution, and so on).  Then a rectangle of intervals is a
 *  picture in itself.  Restart intervals count MCUs over the whole scan: one that does not divide the row
 *  begins in each row at another column, and no rectangle can be cut out.  Any decoder reads a tiled JPEG,
 *  and many that others wrote with restart markers are tiled already.
 *
 *  Untrusted bytes: a bounded parse; offsets lie inside the bytes.  Pure functions.
 */
#ifndef TILE_FRAME_H
#define TILE_FRAME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TILE_PIECES_MAX = 32, TILE_COMPONENTS_MAX = 4, TILE_MARKER_BYTES = 2 };

//  Bytes of the file.
typedef struct {
    size_t at;
    size_t size;
} tile_piece_t;

typedef struct {
    uint32_t height;
    uint32_t width;
    uint32_t mcu_height;        //  in pixels
    uint32_t mcu_width;
    uint32_t rows;              //  in MCUs
    uint32_t columns;
    bool mixed_down;            //  components have different resolutions: decoders smooth over the border of
                                //  an MCU
    bool mixed_across;
    uint32_t interval;          //  in MCUs; divides columns
    //  What a window's header is made of, in the file's order: tables, the frame and the scan's header, and
    //  the markers that say what the colours mean.  No profiles, no comments, no EXIF, and not the restart
    //  interval.
    tile_piece_t pieces [TILE_PIECES_MAX];
    size_t piece_count;         //  the last is the scan's header
    size_t frame_piece;         //  which of them is the frame's header
    size_t scan;                //  where the entropy-coded data begin
} tile_frame_t;

//  False: not tiled, or damaged; *reason_p (static) says why.
bool tile_frame_read (tile_frame_t *self, const uint8_t *bytes, size_t size, const char **reason_p)
    __attribute__ ((warn_unused_result));

//  In each row, and in all.
static inline uint32_t
tile_frame_columns (const tile_frame_t *self)
{
    return self->columns / self->interval;
}

static inline uint32_t
tile_frame_segments (const tile_frame_t *self)
{
    return self->rows * tile_frame_columns (self);
}

#endif
