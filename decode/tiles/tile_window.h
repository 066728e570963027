/*  tile_window -- a box of a tiled JPEG as a small JPEG of its own, without decoding anything.
 *
 *  It has the original's header with another height and width, the segments that cover the box, and restart
 *  markers counted from 0.  Any decoder reads it, and the box's pixels in it are those of the box in a
 *  decoded whole, to the last bit: where a decoder smooths colours over the border of an MCU, the segments
 *  beyond are there, and at the image's own border the window ends where the image does.  That holds for
 *  libjpeg's decoding in whole and by jpeg_reader.h, at each of its scales.
 *
 *  Window and image have the same rows and columns of MCUs, so a scaled window is a part of the scaled image.
 *
 *  Untrusted bytes: damage in a segment stays in it, and the decoder judges it.  Owner: one thread.
 */
#ifndef TILE_WINDOW_H
#define TILE_WINDOW_H
#include "image_request.h"
#include "tile_frame.h"
#include "tile_table.h"

typedef struct {
    const uint8_t *bytes;       //  a whole JPEG
    size_t size;
    image_box_t part;           //  what of the image it shows
} tile_window_t;

//  A window is worth its while from so many pixels on that it leaves out, and from this share of what is
//  decoded without it, one in so many (docs/tiles.md has the figures).
enum { TILE_WINDOW_PIXELS_MIN = 1024, TILE_WINDOW_SHARE = 32 };

//  Whether a window would be so much smaller than what jpeg_reader.h decodes of the whole image for the same
//  request.
bool tile_window_pays (const tile_frame_t *frame, const image_request_t *request);

//  Writes into room, which holds it until the next call; false: no memory.  table is one that is OK for frame
//  and bytes.
//  request's box lies inside the image; what jpeg_reader_read makes of the same request on the whole image,
//  it makes of tile_window_request on the window.
bool tile_window_write (tile_window_t *self, const tile_frame_t *frame, const tile_table_t *table,
    const uint8_t *bytes,
    const image_request_t *request, scratch_t *room) __attribute__ ((warn_unused_result));

//  The same box, as the window has it.
image_request_t tile_window_request (const tile_window_t *self, const image_request_t *request);

#endif
