/*  tier_options -- the command line of tier_sim.  */
#ifndef TIER_OPTIONS_H
#define TIER_OPTIONS_H
#include "tier_plan.h"

typedef struct {
    tier_plan_t plan;
    tier_plan_job_t *jobs;              //  the plan's
    size_t job_count;
    uint32_t epochs;                    //  of the one job, where no --job is given; 0: the default
    uint64_t seed;
    bool json;
    bool table;                         //  tier_table.h
    const char *data;                   //  its folder or pack; NULL: samples of one size
} tier_options_t;

//  -1: go on; else the exit status: help was printed, or standard error says what is wrong.  The caller calls
//  tier_options_clear in every case.
int tier_options_parse (tier_options_t *self, int argc, char **argv);
void tier_options_clear (tier_options_t *self);

#endif
