/*  decode_request -- what the files of a sample are declared to be, and how they are read: the first
 *  operation of every pipeline (docs/pipeline.md).
 */
#ifndef DECODE_REQUEST_H
#define DECODE_REQUEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "dtype.h"

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

#endif
