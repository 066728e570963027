/*  decode_request -- what the files of a sample are declared to be, and how they are read: the first
 *  operation of every pipeline (docs/pipeline.md).
 */
#ifndef DECODE_REQUEST_H
#define DECODE_REQUEST_H
#include <stdbool.h>
#include <stdint.h>
#include "dtype.h"

enum { PIPELINE_DIMENSIONS_MAX = 4, PIPELINE_FIELDS_MAX = 8 };

typedef enum { DECODE_IMAGE, DECODE_BYTES, DECODE_ARRAY, DECODE_AUDIO } decode_as_t;

typedef struct {
    decode_as_t as;
    uint32_t field_count;           //  images: which of the source's fields, in this order
    uint8_t fields [PIPELINE_FIELDS_MAX];
    bool is_mask [PIPELINE_FIELDS_MAX];     //  of each of them
    bool exact;                     //  images: false allows decoding at a smaller scale
    bool orientation;               //  images: apply the EXIF tag
    uint64_t pixels_max;            //  images: 0 if not given; larger ones are bad samples
    dtype_t dtype;                  //  array, audio
    uint32_t dimensions;            //  array: its shape; bytes: one, the length
    uint32_t shape [PIPELINE_DIMENSIONS_MAX];
    uint32_t channels;              //  audio
    uint32_t rate;                  //  audio, samples a second; 0: any
} decode_request_t;

#endif
