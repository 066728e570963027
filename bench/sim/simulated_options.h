/*  simulated_options -- the arguments of sampler_sim.  */
#ifndef SIMULATED_OPTIONS_H
#define SIMULATED_OPTIONS_H
#include <stdbool.h>

#include "simulated_plan.h"

typedef struct {
    simulated_plan_t plan;              //  its jobs belong to the options
    uint64_t seed;
    uint32_t seeds;
    bool json;
    bool help;
    const char *sweep;                  //  the folder; NULL: one plan
} simulated_options_t;

//  Writes "sampler_sim: ..." and the end of the line to standard error.  Returns false.
bool simulated_complain (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

//  Parses argv, which is lent while the options are used.  False: an argument is unusable, and why has been
//  said on standard error.  Help asked for ends the parsing: the rest is not looked at.
bool simulated_options_parse (simulated_options_t *self, int argc, char **argv);
void simulated_options_clear (simulated_options_t *self);

#endif
