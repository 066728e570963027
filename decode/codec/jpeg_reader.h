/*  jpeg_reader -- the reader of JPEG, for image_reader.h: bytes to RGB pixels, or to those of a box (a crop
 *  decodes no more than it needs), as Pillow's Image.open (...).convert ("RGB") has them.
 *
 *  Settings are libjpeg's own (accurate integer DCT, smooth upsampling of the colours); grey, CMYK and YCCK
 *  become RGB.
 *  A box's pixels are those of the whole image, to the last bit: context is decoded, and where libjpeg would
 *  still differ (progressive files that end early, some odd samplings at reduced size), the whole is.
 *
 *  Smaller pixels are libjpeg's reduced DCT.  Beside means of full pixels, on 400 photographs: 0.4 of 255
 *  apart on average, more than 4 apart in 0.3 % of the values, at most 46 (at hard edges).
 *
 *  Untrusted bytes: a file that ends before its image does is bad, other damage that libjpeg can read past is
 *  not (so does Pillow), unless there are more warnings than allowed.  Whether a file is bad does not depend
 *  on the box: rows below it are left undecoded only where nothing in them can make the image bad.  With a
 *  limit on warnings the rows below are looked through too (jpeg_entropy.h), or decoded.  No file makes it
 *  take more than DECODER_PIXELS_MAX pixels or DECODER_SCANS_MAX scans.  Colour profiles are not looked at,
 *  as Pillow does not.
 *
 *  Files are opened and read by the table `jpeg_reader` (image_codec.h); what else can be asked of a reader
 *  stands here.  TUREEN_JPEG=libjpeg in the environment: libjpeg reads by itself (jpeg_entropy.h), for tests
 *  and for finding faults.
 *  Owner: one thread; buffers are kept from image to image.
 */
#ifndef JPEG_READER_H
#define JPEG_READER_H
#include "image_codec.h"

typedef struct jpeg_reader jpeg_reader_t;          //  what jpeg_reader.new gives

//  Pixels come at JPEG_READER_SCALE_WHOLE eighths of their size, or at fewer; then with some around the box,
//  for a filter that looks over its edge.
enum { JPEG_READER_SCALE_WHOLE = 8, JPEG_READER_SCALED_MARGIN = 2 };

//  Whether it has the entropy decoder: not if that is turned off, or this libjpeg's structures are others.
bool jpeg_reader_is_fast (const jpeg_reader_t *self);
//  Whether the image that was read last was decoded by jpeg_entropy.h, not by libjpeg alone.
bool jpeg_reader_was_fast (const jpeg_reader_t *self);

//  Finds where the rows of a JPEG begin (jpeg_rows.h), for image_reader_options_t.  0 and the bytes, lent
//  until the next call; or 0 and no bytes: the file is damaged, or no reader jumps to rows in a file of its
//  kind. -ENOMEM.  Ends what was opened.
int jpeg_reader_rows (jpeg_reader_t *self, const uint8_t *bytes, size_t size, const uint8_t **rows_p,
    size_t *rows_bytes_p) __attribute__ ((warn_unused_result));

//  After a read that was fast: where the rows begin as far as it went, lent until the next open; 0 bytes:
//  nothing that its options, or this function before, did not say.
size_t jpeg_reader_learned (jpeg_reader_t *self, const uint8_t **rows_p);

#endif
