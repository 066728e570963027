/*  simulated_options -- the arguments of sampler_sim.  */
#ifndef SIMULATED_OPTIONS_H
#define SIMULATED_OPTIONS_H
#include <stdbool.h>
#include "option.h"
#include "simulated_plan.h"

typedef struct {
    simulated_plan_t plan;              //  its jobs belong to the options
    uint64_t seed;
    uint32_t seeds;
    bool json;
    const char *sweep;                  //  the folder; NULL: one plan
    uint32_t subsets;                   //  so many jobs on random halves; 0: the jobs are given
    uint32_t subset_epochs;
    bool staggered;
    uint32_t *subset_ids;               //  of all these jobs
} simulated_options_t;

//  Writes "sampler_sim: ..." and the end of the line to standard error.  Returns false.
bool simulated_complain (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

//  Parses argv, which is lent while the options are used.  -1: go on; else the exit status: help was
//  printed, or standard error says what is wrong.
int simulated_options_parse (simulated_options_t *self, int argc, char **argv);
//  SPEED:START:EPOCHS:FROM:TO.  False: error says what was expected.
bool simulated_options_job (const char *text, uint32_t epochs_max, simulated_job_t *job,
    char error [OPTION_ERROR_BYTES]);
void simulated_options_clear (simulated_options_t *self);

#endif
