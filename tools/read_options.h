/*  read_options -- the arguments of `tureen read`.  Single-threaded.  */
#ifndef READ_OPTIONS_H
#define READ_OPTIONS_H
#include <stdbool.h>
#include "tureen.h"

enum { READ_RANGES_MAX = 4096 };

typedef struct {
    tureen_options_t loader;            //  for tureen_loader_new; its texts are lent from argv
    tureen_range_t ranges [READ_RANGES_MAX];
    const char *list_path;
    uint64_t *list;                     //  loader.ids; owned
    const char *recipe, *pipeline;      //  one of them is loader.pipeline
    double timeout_seconds, rejoin_seconds;
    uint32_t rank_wait_seconds;
    double rate;                        //  samples a second; 0: as fast as they come
    const char *ids_path;               //  where the ids go; NULL: nowhere, "-": standard output
    const char *state_path;             //  NULL: nowhere
    uint64_t state_every;               //  after how many batches the state is written
    bool is_inline, json;
} read_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
//  read_options_clear in every case.
int read_options_parse (read_options_t *self, int argc, char **argv);
void read_options_clear (read_options_t *self);

//  Says why tureen_loader_new did not take the options, calling them as the user does.
void read_options_explain (const read_options_t *self, const char *error);

#endif
