/*  image_codec -- the kinds of image files behind image_reader.h, a table of functions each, and what these
 *  are asked for and give.
 *
 *  Two steps, because the size decides which pixels are wanted: open reads the header, read decodes a box.
 *  Results are Pillow's.  What bounds the time and memory that one image may take stands here too, whatever
 *  its bytes say.  Each source begins with what it makes of its files.
 *  Owner of what new returns: one thread.
 */
#ifndef IMAGE_CODEC_H
#define IMAGE_CODEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "image.h"

enum { DECODER_PIXELS_MAX = 100 * 1000 * 1000, DECODER_SCANS_MAX = 100 };

//  Bytes of a file; NULL: there are none.
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
//  quarter, an eighth; JPEG only), as long as the box is at least least_height x least_width then.
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

//  What a file says about its image.
typedef struct { image_block_t exif, xmp; } image_notes_t;

//  clips and notes may be NULL: no, and none.
typedef struct {
    //  NULL with errno ENOMEM.
    void *(*new) (void);
    void (*destroy) (void *self);       //  or NULL
    //  As image_reader_open and image_reader_read, of bytes of the codec's kind (file_kind.h), lent until the
    //  end of read.  The orientation is the caller's business: the size is that of the pixels as they are
    //  stored.  All but JPEG give pixels at full size.
    int (*open) (void *self, const image_reader_options_t *options, const uint8_t *bytes, size_t size,
        uint32_t *height_p, uint32_t *width_p, char *error, size_t error_bytes);
    int (*read) (void *self, const image_request_t *request, image_pixels_t *pixels, char *error,
        size_t error_bytes);
    bool (*clips) (const uint8_t *bytes, size_t size);      //  as image_reader_clips
    //  After open, with the option orientation, which a PNG's own chunk and a TIFF do not need.  Lent until
    //  the next open.
    image_notes_t (*notes) (const void *self);
} image_codec_t;

extern const image_codec_t jpeg_reader;         //  and more of it: jpeg_reader.h
extern const image_codec_t plain_reader;        //  GIF, BMP and PNM
//  Where the build has the library.
extern const image_codec_t png_reader;
extern const image_codec_t tiff_reader;
extern const image_codec_t webp_reader;

#endif
