/*  draw_start -- jobs that are started together begin together.  */
#ifndef DRAW_START_H
#define DRAW_START_H
#include "broker.h"

//  All ranks of the job are there for the first time: it runs.
void draw_start (broker_t *self, job_t *job, int64_t now_ms);

#endif
