/*  bucket_options -- the command line of store_sim.  */
#ifndef BUCKET_OPTIONS_H
#define BUCKET_OPTIONS_H
#include <stdbool.h>
#include "bucket_question.h"

typedef struct {
    bucket_question_t question;
    const char *price;              //  the path of the prices
    bool published, json;
    uint64_t seed;
} bucket_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
int bucket_options_parse (bucket_options_t *self, int argc, char **argv);

#endif
