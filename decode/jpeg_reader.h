/*  jpeg_reader -- JPEG bytes to RGB pixels, as Pillow's Image.open (...).convert ("RGB") gives them.
 *
 *  Settings are libjpeg's own (accurate integer DCT, smooth upsampling of the colours); grey, CMYK and YCCK
 *  become RGB. Untrusted bytes: a file that ends before its image does is bad, other damage that libjpeg can
 *  read past is not (so does Pillow).  No file makes it take more than DECODER_PIXELS_MAX pixels or
 *  DECODER_SCANS_MAX scans. Orientation tags and colour profiles are not looked at, as Pillow does not.
 *  Owner: one thread; buffers are kept from image to image.
 */
#ifndef JPEG_READER_H
#define JPEG_READER_H
#include <stddef.h>
#include <stdint.h>
#include "image.h"

typedef struct jpeg_reader jpeg_reader_t;

//  NULL with errno ENOMEM.
jpeg_reader_t *jpeg_reader_new (void);
void jpeg_reader_destroy (jpeg_reader_t **self_p);
//  0 and *image is lent until the next call; or -EBADMSG, or -ENOMEM, and error (always ended) says why, for
//  people.
int jpeg_reader_run (jpeg_reader_t *self, const uint8_t *bytes, size_t size, image_t *image,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

#endif
