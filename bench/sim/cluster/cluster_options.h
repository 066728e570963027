/*  cluster_options -- the command line of cluster_sim.  */
#ifndef CLUSTER_OPTIONS_H
#define CLUSTER_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool published;
    uint64_t seed;
} cluster_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.
int cluster_options_parse (cluster_options_t *self, int argc, char **argv);

#endif
