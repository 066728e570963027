/*  tiff_reader -- image_reader's part for TIFF, on libtiff: the same two steps, the same results as Pillow.
 *
 *  Pixels are what Image.open (...).convert ("RGB") gives of the first page: 16 bits of grey are cut to 255,
 *  of colours the upper 8 are taken; alpha is dropped (premultiplied colours are divided by it first), colour
 *  profiles are not looked at.  A mask is grey or has a palette, as for PNG.
 *  tiff_reader.c says which kinds are read, and looks at all tags of pixels before libtiff does.  libtiff
 *  decodes strips and tiles, and finds its tables.  It allocates no more at once than a multiple of the
 *  file's size; pixels take no more than DECODER_PIXELS_MAX allows.
 *  All of the image is decoded, whatever the box: so a file is good or bad for every job alike.  Damage that
 *  libtiff only warns of makes it bad; libjpeg's warnings do so beyond the number allowed, as in a JPEG.
 *  libtiff's complaints come by handlers of this one file: nothing global, nothing on stderr.
 *  Owner: one thread.
 */
#ifndef TIFF_READER_H
#define TIFF_READER_H
#include "decode_request.h"

typedef struct tiff_reader tiff_reader_t;

//  NULL with errno ENOMEM.
tiff_reader_t *tiff_reader_new (void);
void tiff_reader_destroy (tiff_reader_t **self_p);

//  As image_reader_open and image_reader_read.  The orientation is the caller's business; least_height and
//  least_width are not looked at: pixels always come at full size.  bytes are lent until the end of read.
int tiff_reader_open (tiff_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
int tiff_reader_read (tiff_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  As image_reader_clips, of a TIFF.
bool tiff_reader_clips (const uint8_t *bytes, size_t size);

//  After open: the file itself, which is laid out as an EXIF block is.  Lent like bytes.
const uint8_t *tiff_reader_exif (const tiff_reader_t *self, size_t *size_p);

#endif
