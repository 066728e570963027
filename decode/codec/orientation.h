/*  orientation -- how a camera was held: the number 1 .. 8 that an EXIF block or an XMP packet holds, and
 *  turning pixels as Pillow's ImageOps.exif_transpose does.
 *
 *  Why not libexif: it reads all of a block, and again and again what directories in it point at: 64 KiB of
 *  hostile bytes took libexif 0.6.24 three minutes.  Here one directory is walked once.
 *  No state; any thread.
 */
#ifndef ORIENTATION_H
#define ORIENTATION_H
#include "image.h"
#include "image_codec.h"

//  Stored pixels become turned ones: first the rows are taken from below and the columns from the right, then
//  rows and columns change places.
typedef struct {
    bool down;
    bool across;
    bool swaps;
} orientation_t;

//  The orientation of an EXIF number; all numbers except 2 .. 8 mean: as it is.
orientation_t orientation_of_number (uint32_t number);
//  The number in an EXIF block, which may begin with "Exif\0\0" or behind that.  Where that has no entry for
//  it, the number in an XMP packet: the digit behind the first "tiff:Orientation" that has one, be it an
//  attribute or an element, as Pillow 13 looks for it.  1 where there is none, or something that is no whole
//  number.  Any bytes are fine.
uint32_t orientation_number (image_block_t exif, image_block_t xmp);
//  The XMP packet of a TIFF, which lies in its first directory.
image_block_t orientation_tiff_xmp (image_block_t file);

static inline bool
orientation_turns (orientation_t self)
{
    return self.down || self.across || self.swaps;
}

//  Where a box of the turned image is in the stored one, which is height x width.
image_box_t orientation_stored_box (orientation_t self, const image_box_t *turned, uint32_t height,
    uint32_t width);

//  The stored image, turned, to target: rows of target_stride bytes.  They do not overlap.
void orientation_turn (orientation_t self, const image_t *stored, uint8_t *target, size_t target_stride);

#endif
