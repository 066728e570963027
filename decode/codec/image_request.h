/*  image_request -- what is asked of the readers of images, what they give, and what bounds the time and
 *  memory that one image may take, whatever its bytes say.
 */
#ifndef IMAGE_REQUEST_H
#define IMAGE_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "image.h"

enum { DECODER_PIXELS_MAX = 100 * 1000 * 1000, DECODER_SCANS_MAX = 100 };

//  A block of what a file says about its image: EXIF, XMP.  bytes NULL: there is none.
typedef struct {
    const uint8_t *bytes;
    size_t size;
} image_block_t;

//  How to read.
typedef struct {
    bool is_mask;               //  one channel
    bool is_wide;               //  a mask of values of 16 bits: IMAGE_WIDE channels
    bool is_field;              //  not the sample's own file: grey of 16 bits is unsuitable, not cut
    bool orientation;           //  apply the EXIF orientation tag, as Pillow's ImageOps.exif_transpose; else
                                //  not looked at
    uint32_t warnings_max;      //  libjpeg warnings beyond which a sample is bad; UINT32_MAX: any number is
                                //  read past
    const uint8_t *rows;        //  JPEG: what image_reader_rows gave of it (jpeg_rows.h); lent as the bytes
    size_t rows_bytes;          //  are.  0: not known
} image_reader_options_t;

//  What of it.  Where least_height is 0, pixels come at full size.  Else they may come smaller (a half, a
//  quarter, an eighth;
//  JPEG only), as long as the box is at least least_height x least_width then.
typedef struct {
    image_box_t box;            //  inside the image
    uint32_t least_height;
    uint32_t least_width;
} image_request_t;

//  What came: pixels in which the box is at (top, left), of height x width; at full size it is the whole
//  image, and the four are 0, 0 and the box's sides.  Lent until the next call.
typedef struct {
    image_t image;
    double top;
    double left;
    double height;
    double width;
} image_pixels_t;

#endif
