/*  jpeg_entropy -- a Huffman decoder for libjpeg that decodes only the blocks that are wanted.
 *
 *  libjpeg asks its entropy decoder for each MCU of an image, in order, and does the rest: inverse DCT,
 *  upsampling, colours.  Most of that decoder's time goes into MCUs outside of the box, of which libjpeg uses
 *  nothing.  Once attached, this decoder is asked in its place.  It *walks* over unwanted MCUs, by the
 *  lengths of their symbols alone (all that is needed of them is the sum of their DC differences), and
 *  decodes wanted ones two symbols at a time (jpeg_lookup.h).  Over whole restart intervals it jumps; and, if
 *  it is told where the rows begin (jpeg_rows.h), to each wanted one.
 *
 *  It takes one kind of scan: sequential, Huffman, 8 bits, all components interleaved, the image's only one
 *  (the marker behind it is EOI).  It reports damage at the end (a code that is none, a block of more than 64
 *  coefficients, bits past the end): the pixels are of no use then, and libjpeg's own decoder has to read the
 *  image again and judge the damage.
 *
 *  The scan is copied without its stuffing first: memory for its bytes, kept from image to image.
 *  Owner: one thread.
 */
#ifndef JPEG_ENTROPY_H
#define JPEG_ENTROPY_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <jpeglib.h>

typedef struct jpeg_entropy jpeg_entropy_t;

//  NULL with errno ENOMEM.
jpeg_entropy_t *jpeg_entropy_new (void);
void jpeg_entropy_destroy (jpeg_entropy_t **self_p);

//  Between jpeg_start_decompress with jpeg_crop_scanline and the first row; the source's buffer holds the
//  rest of the file.  1: it is attached; 0: libjpeg reads the image by itself, because it is of another kind;
//  -ENOMEM.  is_judged: each MCU is looked at, also behind the last wanted row; `rows` does not count then.
//  rows: what jpeg_entropy_rows gave of this image, lent for the call; 0 bytes: nothing is known.  Bytes that
//  cannot be this image's do not count.  Those of another image give wrong pixels, or a scan that is read
//  again without them.
int jpeg_entropy_attach (jpeg_entropy_t *self, j_decompress_ptr info, bool is_judged, const uint8_t *rows,
    size_t rows_bytes);

//  Once, behind the last row that is wanted of an image that this decoder is attached to.  True: the pixels
//  are libjpeg's own, and if is_judged, libjpeg has no warning about the scan.  False: of no use.
bool jpeg_entropy_finish (jpeg_entropy_t *self);

//  After finish was true: where the rows begin as far as the image was read (is_judged: all of them), lent
//  until the next image; 0 bytes: nothing is known beside what attach was told, or there are restarts.  0 or
//  -ENOMEM.
int jpeg_entropy_rows (jpeg_entropy_t *self, const uint8_t **rows_p, size_t *rows_bytes_p)
    __attribute__ ((warn_unused_result));

#endif
