/*  tiff_layout -- what the tags of a TIFF's first page say of its pixels: which kind, how many, where.
 *
 *  Pillow reads the tags itself, libtiff does too, and each mends in its own way what looks odd.  So nothing
 *  odd is taken: a tag of pixels stands once, with values of a type and number that writers use, in the file;
 *  tiles have sides that 16 divides; there are as many strips or tiles as the size needs, each with a place
 *  and a size, inside the file, and long enough where it is not compressed.  Values of tags, and strips or
 *  tiles, may not use the same bytes again and again, since each costs memory or time.
 *  Kinds: grey and palettes of 1, 2, 4 and 8 bits, grey of 16, grey and alpha of 8, RGB and RGBA of 8 and 16,
 *  YCbCr of 8 by JPEG; separate planes of RGB of 8; uncompressed, LZW, deflate, PackBits, JPEG (8 bits, no
 *  alpha), fax group 4 (1 bit).  Others are bad, and the reason says what they are.
 *  Plain data, which lends the file's bytes.  Nothing is allocated.
 */
#ifndef TIFF_LAYOUT_H
#define TIFF_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "image.h"

//  The tags that are looked at.
typedef enum { TAG_WIDTH, TAG_HEIGHT, TAG_BITS, TAG_COMPRESSION, TAG_PHOTOMETRIC, TAG_ORDER, TAG_STRIPS,
    TAG_TURN, TAG_SAMPLES, TAG_STRIP_HEIGHT, TAG_STRIP_BYTES, TAG_PLANES, TAG_PALETTE, TAG_TILE_WIDTH,
    TAG_TILE_HEIGHT, TAG_TILES, TAG_TILE_BYTES, TAG_EXTRA, TAG_FORMAT, TAG_PREDICTOR, TAGS } tiff_tag_t;

typedef struct {
    size_t place;                       //  in the file, of the first value
    uint32_t count, unit_bytes;         //  0: the tag is missing
} tiff_field_t;

typedef struct {
    const uint8_t *bytes;               //  the file, lent
    size_t size;
    uint64_t value_bytes;               //  of all tags, known or not, that lie outside of the directory
    tiff_field_t fields [TAGS];
    uint32_t height, width;
    uint32_t compression, photometric, bits, samples;
    bool is_tiled;
    bool is_planar;                     //  a block has one sample of each pixel
    bool is_premultiplied;
    uint32_t block_height, block_width; //  of a tile, or of a strip: a block
    uint32_t blocks;
    size_t block_stride;                //  bytes from row to row
} tiff_layout_t;

//  0, or -EBADMSG with the reason.
int tiff_layout_read (tiff_layout_t *self, const uint8_t *bytes, size_t size, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));

//  A tag's value; of one that is missing, what holds then.
uint32_t tiff_layout_value (const tiff_layout_t *self, tiff_tag_t tag, uint32_t index);

//  A block as it is in the file; and its bytes once decoded: the last strip has the rows that are left, a
//  tile has all of its rows.
const uint8_t *tiff_layout_data (const tiff_layout_t *self, uint32_t block, size_t *bytes_p);
size_t tiff_layout_block_bytes (const tiff_layout_t *self, uint32_t block);

#endif
