/*  prepare_options -- the arguments of `tureen prepare`.  */
#ifndef PREPARE_OPTIONS_H
#define PREPARE_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pipeline.h"

typedef struct {
    const char *recipe, *operations;        //  the texts of --recipe and --pipeline; NULL: not given
    const pipeline_t *pipeline;             //  made of them; one reference
    pipeline_source_t source;               //  "image", then the further fields
    const char *folders [PIPELINE_FIELDS_MAX];  //  where the files of a further field are; lent from argv
    pipeline_key_t shared;                  //  ids: of the first sample, the others follow
    pipeline_key_t private;
    uint32_t warnings_max;
    const char *out;                        //  NULL: nothing is written
    uint32_t format;                        //  0: .npy, 1: .ppm
    bool time;
    uint32_t threads;
    uint32_t repeat;
    char **files;
    size_t file_count;
} prepare_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
//  prepare_options_clear in every case.
int prepare_options_parse (prepare_options_t *self, int argc, char **argv);
void prepare_options_clear (prepare_options_t *self);

#endif
