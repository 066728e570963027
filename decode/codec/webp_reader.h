/*  webp_reader -- image_reader's part for WebP, on libwebp: the same two steps, the same results as Pillow.
 *
 *  Pixels are what Image.open (...).convert ("RGB") gives: alpha is dropped, not blended; colour profiles are
 *  not looked at.  Of an animation it is the first image, and what that leaves of the canvas is black.  All
 *  of the image is decoded, whatever the box: so a file is good or bad for every job alike.
 *  A file that ends early is bad, as it is for Pillow.  No WebP is a mask.
 *  Owner: one thread.
 */
#ifndef WEBP_READER_H
#define WEBP_READER_H
#include "decode_request.h"

typedef struct webp_reader webp_reader_t;

enum { WEBP_READER_VERSION_BYTES = 16 };

//  NULL with errno ENOMEM.
webp_reader_t *webp_reader_new (void);
void webp_reader_destroy (webp_reader_t **self_p);

//  As image_reader_open and image_reader_read.  The orientation is the caller's business; least_height and
//  least_width are not looked at: pixels always come at full size.
int webp_reader_open (webp_reader_t *self, const image_reader_options_t *options, const uint8_t *bytes,
    size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
int webp_reader_read (webp_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  After open: the content of the EXIF chunk; NULL if there is none.  Lent like bytes.
const uint8_t *webp_reader_exif (const webp_reader_t *self, size_t *size_p);
//  Likewise of the XMP chunk.
image_block_t webp_reader_xmp (const webp_reader_t *self);

//  Of the library, "1.2.4".
void webp_reader_version (char text [WEBP_READER_VERSION_BYTES]);

#endif
