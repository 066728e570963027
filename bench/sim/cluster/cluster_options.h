/*  cluster_options -- the command line of cluster_sim.  */
#ifndef CLUSTER_OPTIONS_H
#define CLUSTER_OPTIONS_H
#include "cluster_plan.h"

typedef struct {
    bool published, json;
    uint64_t seed;
    cluster_plan_t plan;            //  its changes are these
    cluster_change_t changes [CLUSTER_CHANGES_MAX];
} cluster_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.  The plan points
//  into self, which must not move then.
int cluster_options_parse (cluster_options_t *self, int argc, char **argv);

#endif
