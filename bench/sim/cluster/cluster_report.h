/*  cluster_report -- what a run of cluster_sim came to, for people or as JSON.  */
#ifndef CLUSTER_REPORT_H
#define CLUSTER_REPORT_H
#include "cluster_run.h"

void cluster_report_table (const cluster_plan_t *plan, uint64_t seed, const cluster_epoch_t *epochs);
void cluster_report_json (const cluster_plan_t *plan, uint64_t seed, const cluster_epoch_t *epochs);

#endif
