/*  image_reader -- compressed bytes of an image to pixels, as Pillow's Image.open (...).convert ("RGB") gives
 *  them.  The decoder calls it, and it calls the reader of the image's format, as jpeg_reader.h.
 *
 *  In two steps, because the size decides which pixels are wanted: open reads the header, read decodes a box
 *  of it.
 *  All readers of images, some of which a build may lack, behind one interface; the bytes say what they are,
 *  not the file's name.
 *
 *  A mask is read as it is stored: values of a grey image or indices of a palette, a byte each, as
 *  numpy.array (Image.open (...)) gives them; other images are no masks.  A wide one has two bytes a
 *  value, and may be grey of 16 bits: a PNG or a TIFF.
 *
 *  Untrusted bytes: whatever they are, the answer is pixels or a reason, in bounded time and memory
 *  (DECODER_PIXELS_MAX, DECODER_SCANS_MAX), and never an abort.  Owner: one thread; buffers are kept from
 *  image to image.
 */
#ifndef IMAGE_READER_H
#define IMAGE_READER_H
#include <stddef.h>
#include <stdint.h>
#include "image_codec.h"

typedef struct image_reader image_reader_t;

//  NULL with errno ENOMEM.
image_reader_t *image_reader_new (void);
void image_reader_destroy (image_reader_t **self_p);

//  0 and the image's size as read gives it (turned, if the orientation turns it); or one of these, and error
//  (always ended) says why, for people:
//    -EBADMSG  no image that this build reads, or a damaged one: no good, however it is asked for
//    -EDOM     whole, as far as it was looked at, but not what was asked for: an array or audio; or a good
//              image that is no mask
//    -ENOMEM
//  bytes are lent until the next open.
int image_reader_open (image_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
//  After open, once.  -EBADMSG and -ENOMEM as open.  Whether a damaged file is bad does not depend on the
//  box: where something behind the box could make it bad, all is decoded and judged.
int image_reader_read (image_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  Whether these are grey of 16 bits: read as an image, values above 255 become 255, as by Pillow's convert
//  ("RGB").  By the header alone.
bool image_reader_clips (const uint8_t *bytes, size_t size);

//  Where the rows of a JPEG begin: jpeg_reader_rows.  Of other bytes: 0, and nothing.
int image_reader_rows (image_reader_t *self, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
    size_t *rows_bytes_p) __attribute__ ((warn_unused_result));

//  After a read that went well: jpeg_reader_learned.  Of other images 0.
size_t image_reader_learned (image_reader_t *self, const uint8_t **rows_p);

#ifdef TUREEN_PNG
#define IMAGE_READER_PNG ", PNG"
#else
#define IMAGE_READER_PNG ""
#endif
#ifdef TUREEN_WEBP
#define IMAGE_READER_WEBP ", WebP"
#else
#define IMAGE_READER_WEBP ""
#endif
#ifdef TUREEN_TIFF
#define IMAGE_READER_TIFF ", TIFF"
#else
#define IMAGE_READER_TIFF ""
#endif
#define IMAGE_READER_FORMATS "JPEG" IMAGE_READER_PNG IMAGE_READER_WEBP IMAGE_READER_TIFF ", GIF, BMP, PNM"

//  "JPEG, PNG, WebP, TIFF, GIF, BMP, PNM": what this build reads; static.
const char *image_reader_formats (void);

#endif
