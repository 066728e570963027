/*  tier_report -- what a run of tier_sim came to, for people or as JSON.  */
#ifndef TIER_REPORT_H
#define TIER_REPORT_H
#include "tier_run.h"

void tier_report_table (const tier_plan_t *plan, uint64_t seed, const tier_result_t *result);
void tier_report_json (const tier_plan_t *plan, uint64_t seed, const tier_result_t *result);

#endif
