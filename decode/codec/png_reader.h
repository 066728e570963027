/*  png_reader -- image_reader's part for PNG, on libpng: the same two steps, the same results as Pillow.
 *
 *  Pixels are what Image.open (...).convert ("RGB") gives: alpha and transparency are dropped, not blended;
 *  of 16 bits the high byte is kept, but 16-bit grey (Pillow's mode I) is clipped to 255; gamma, colour
 *  profiles and texts are not looked at.  Of an animation it is the first image.
 *
 *  Damage: a wrong checksum in the chunks before the image data is bad, and so is a file that ends before its
 *  image data do, whatever the box; one that merely lacks what stands behind them is not.  Where a CRC of the
 *  image data is wrong all rows are read, and zlib's checksum of these decides.  Data with right checksums
 *  that cannot be inflated, which no accident makes, are seen as far as the box needs them.  Critical chunks
 *  that PNG does not have are stepped over.  Pillow agrees, but that it does without the last few bytes of
 *  the image data, and fills up with black where they end with a row too early (docs/decoding.md).  No side
 *  may be above PNG_READER_SIDE_MAX: rows cost time, too.
 *  Owner: one thread.
 */
#ifndef PNG_READER_H
#define PNG_READER_H
#include "decode_request.h"

typedef struct png_reader png_reader_t;

enum { PNG_READER_SIDE_MAX = 1000 * 1000 };

//  NULL with errno ENOMEM.
png_reader_t *png_reader_new (void);
void png_reader_destroy (png_reader_t **self_p);

//  As image_reader_open and image_reader_read.  The orientation is the caller's business; least_height and
//  least_width are not looked at: pixels always come at full size.
int png_reader_open (png_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
int png_reader_read (png_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  As image_reader_clips, of a PNG.
bool png_reader_clips (const uint8_t *bytes, size_t size);

//  After open: the content of the eXIf chunk.  Of several the last, before the image data or behind, as
//  Pillow has it.  Without that chunk, and with the option orientation: the EXIF data of a text.  NULL:
//  neither is there.
//  Lent until the next open.
const uint8_t *png_reader_exif (const png_reader_t *self, size_t *size_p);
//  After open with the option orientation: the XMP packet of a text.
image_block_t png_reader_xmp (const png_reader_t *self);

#endif
