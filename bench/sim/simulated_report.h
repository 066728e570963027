/*  simulated_report -- a trial's figures, for people and as JSON.  */
#ifndef SIMULATED_REPORT_H
#define SIMULATED_REPORT_H
#include <stdbool.h>

#include "simulated_trials.h"

double simulated_per_delivery (const simulated_result_t *result);
//  Preparations that full sharing would take, per delivery.
double simulated_lower_bound (const simulated_result_t *result);

//  Both write to standard output.
void simulated_report_table (const simulated_trial_t *trial);
void simulated_report_json (const simulated_trial_t *trial);

#endif
