/*  plain_reader -- image_reader's part for the formats that need no library, BMP, PNM and the first picture
 *  of a GIF: the same two steps, the same results as Pillow.
 *
 *  Pixels are what Image.open (...).convert ("RGB") gives: palettes are looked up (an index beyond the end
 *  of a palette is black), transparency and alpha are dropped, 16 bits of grey are cut to 255.  A mask is
 *  grey or has a palette, as for PNG.
 *  All of the image is decoded, whatever the box: so a file is good or bad for every job alike.
 *  Owner: one thread.
 */
#ifndef PLAIN_READER_H
#define PLAIN_READER_H
#include "decode_request.h"
#include "file_kind.h"

typedef struct plain_reader plain_reader_t;

//  NULL with errno ENOMEM.
plain_reader_t *plain_reader_new (void);
void plain_reader_destroy (plain_reader_t **self_p);

//  As image_reader_open and image_reader_read.  kind: of the bytes, FILE_KIND_GIF, FILE_KIND_BMP or
//  FILE_KIND_PNM.  least_height and least_width are not looked at: pixels always come at full size.  bytes
//  are lent until the end of read.
int plain_reader_open (plain_reader_t *self, file_kind_t kind, const image_reader_options_t *options,
    const uint8_t *bytes, size_t size, uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
int plain_reader_read (plain_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  As image_reader_clips, of a file of that kind.
bool plain_reader_clips (file_kind_t kind, const uint8_t *bytes, size_t size);

#endif
