/*  decode_request -- what the files of a sample are declared to be, and how they are read: the first
 *  operation of every pipeline (docs/pipeline.md).
 */
#ifndef DECODE_REQUEST_H
#define DECODE_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "dtype.h"
#include "image.h"

enum { PIPELINE_DIMENSIONS_MAX = 4, PIPELINE_FIELDS_MAX = 8 };

typedef enum { DECODE_IMAGE, DECODE_BYTES, DECODE_ARRAY, DECODE_AUDIO, DECODE_BOXES } decode_as_t;

//  What a file is declared to be that is no image.
typedef struct {
    decode_as_t as;
    dtype_t dtype;                  //  bytes: uint8
    uint32_t dimensions;            //  array: its shape; bytes: one, the length
    uint32_t shape [PIPELINE_DIMENSIONS_MAX];
    bool is_ragged;                 //  array, bytes: shape [0] is the most; samples have as many rows as they
                                    //  have.  Boxes are always
    bool truncates;                 //  ragged: of more rows than that the first are taken; else unsuitable
    uint32_t channels;              //  audio
    uint32_t rate;                  //  audio, samples a second; 0: any
    bool resamples;                 //  audio: of another rate it is resampled to that; else unsuitable
    float size_min;                 //  boxes: smaller ones are left out
} decode_tensor_t;

typedef struct {
    decode_as_t as;                 //  all but DECODE_IMAGE: the sample's own file alone is read, in that way
    uint32_t field_count;           //  which of the source's fields, in this order
    uint32_t image_count;           //  the first of them are images and masks
    uint8_t fields [PIPELINE_FIELDS_MAX];
    bool is_mask [PIPELINE_FIELDS_MAX];             //  of images
    bool is_wide [PIPELINE_FIELDS_MAX];             //  of masks: their values have 16 bits
    decode_tensor_t tensors [PIPELINE_FIELDS_MAX];  //  of the fields behind them
    bool exact;                     //  images: false allows decoding at a smaller scale
    bool orientation;               //  images: apply the EXIF tag
    uint64_t pixels_max;            //  images: 0 if not given; larger ones are bad samples
} decode_request_t;


//  ---- what is asked of the readers of images

//  What is asked of the readers of images, what they give, and what bounds the time and memory that one image
//  may take, whatever its bytes say.

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
