/*  tier_options -- the command line of tier_sim.  */
#ifndef TIER_OPTIONS_H
#define TIER_OPTIONS_H
#include "tier_plan.h"

typedef struct {
    tier_plan_t plan;
    tier_plan_job_t *jobs;              //  the plan's
    uint64_t seed;
    bool json, help;
} tier_options_t;

//  False: something is wrong, and has been said.  Either way to be cleared.
bool tier_options_parse (tier_options_t *self, int argc, char **argv);
void tier_options_clear (tier_options_t *self);

#endif
