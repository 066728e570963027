/*  describe -- what the operations of a pipeline do to one sample: what chance chooses for each, and what
 *  follows from the sample's size.  Nothing is decoded: the same functions that say it to a stage
 *  (geometry.h, stage_random) say it here.
 *
 *  Pure functions of what they are given; any thread.
 */
#ifndef DESCRIBE_H
#define DESCRIBE_H
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "pipeline.h"

typedef struct {
    pipeline_key_t shared_key, private_key;     //  of the two stages
    uint32_t height, width;                     //  of the sample's images (decoder_size)
} describe_sample_t;

//  An array, one object for each operation of the list, in each view that it is done for, on each field that
//  it is done on:
//      {"op": "flip", "field": "image", "view": 0, "stage": "private", "parameters": {"flipped": true}}
//  docs/protocol.md (EXPLAIN) has the parameters.  At most PIPELINE_OPERATIONS_MAX x PIPELINE_OUTPUTS_MAX.
//  The caller's; or NULL where an operation cannot be done on images of this size, and error (of error_bytes
//  > 0) says which.
json_t *describe_operations (const pipeline_t *pipeline, const describe_sample_t *sample, char *error,
    size_t error_bytes);

#endif
