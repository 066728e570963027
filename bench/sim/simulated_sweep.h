/*  simulated_sweep -- how sharing and freshness change with the jobs' offset and with their speeds.  */
#ifndef SIMULATED_SWEEP_H
#define SIMULATED_SWEEP_H
#include "simulated_options.h"

//  Writes sweep.md, offsets.dat, ratios.dat and sweep.svg into options->sweep, a folder that is made if need
//  be.
//  Returns the exit status: 1 if something could not be written, or plotted; why is said on standard error.
int simulated_sweep (const simulated_options_t *options);

#endif
