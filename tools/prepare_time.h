/*  prepare_time -- how long a pipeline takes on samples that are in memory, on any number of threads.  */
#ifndef PREPARE_TIME_H
#define PREPARE_TIME_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "decoder.h"

//  A sample that can be prepared.
typedef struct {
    decoder_file_t files [PIPELINE_FIELDS_MAX];
    pipeline_key_t shared;
    pipeline_key_t private;
} prepare_sample_t;

typedef struct {
    const pipeline_t *pipeline;
    const prepare_sample_t *samples;
    size_t count;
    uint32_t threads;
    uint32_t repeat;            //  how often each sample is prepared; each time under the next round
    uint32_t warnings_max;
} prepare_time_options_t;

typedef struct {
    uint64_t prepared;
    double seconds;             //  by the wall
    double shared_seconds;      //  processor time of all threads in the shared stage
    double private_seconds;
} prepare_time_t;

//  False: no memory or threads for it (errno).  Samples that turn out bad under another round are left out of
//  `prepared`.
bool prepare_time (const prepare_time_options_t *options, prepare_time_t *result);

#endif
