/*  image_reader -- compressed bytes of an image to pixels, as Pillow's Image.open (...).convert ("RGB") gives
 *  them.
 *
 *  In two steps, because the size decides which pixels are wanted: open reads the header, read decodes a box
 *  of it.
 *  JPEG (jpeg_reader.h) and PNG (png_reader.h, if the build has libpng) behind one interface; the bytes say
 *  what they are, not the file's name.
 *
 *  A mask is read as it is stored: values of a grey image or indices of a palette, a byte each, as
 *  numpy.array (Image.open (...)) gives them; other images are no masks.
 *
 *  Of a tiled JPEG no more is decoded than what covers the box, where that is less by enough (tile_window.h).
 *
 *  Untrusted bytes: whatever they are, the answer is pixels or a reason, in bounded time and memory
 *  (DECODER_PIXELS_MAX, DECODER_SCANS_MAX), and never an abort.  Owner: one thread; buffers are kept from
 *  image to image.
 */
#ifndef IMAGE_READER_H
#define IMAGE_READER_H
#include <stddef.h>
#include <stdint.h>
#include "image.h"

typedef struct image_reader image_reader_t;

//  How to read.
typedef struct {
    bool is_mask;               //  one channel
    bool orientation;           //  apply the EXIF orientation tag, as Pillow's ImageOps.exif_transpose; else
                                //  not looked at
    uint32_t warnings_max;      //  libjpeg warnings beyond which a sample is bad; UINT32_MAX: any number is
                                //  read past
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
    size_t size,
    uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes)
    __attribute__ ((warn_unused_result));
//  After open, once.  -EBADMSG and -ENOMEM as open.  Whether a damaged file is bad does not depend on the
//  box: where something behind the box could make it bad, all is decoded and judged.
int image_reader_read (image_reader_t *self, const image_request_t *request, image_pixels_t *pixels,
    char *error, size_t error_bytes) __attribute__ ((warn_unused_result));

//  How many images came from windows so far: boxes of tiled JPEGs (tile_window.h).  The pixels do not show
//  it.
uint64_t image_reader_windows (const image_reader_t *self);

//  "JPEG, PNG": what this build reads; static.
const char *image_reader_formats (void);

#endif
