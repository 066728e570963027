/*  job_life -- jobs join and end: which job a join continues or replaces, what it must have to be taken, and
 *  its end, up to the reclaim of its memory.  A job that ends is marked while an event is handled, and swept
 *  at the event's end.  Owner: the broker's thread.
 */
#ifndef JOB_LIFE_H
#define JOB_LIFE_H
#include "broker.h"

//  Once a turn, if the broker drains: marks the jobs without an open epoch.  First in the next turn, when the
//  driver has carried out their last actions: ends them.
void job_life_mark_drained (broker_t *self);
void job_life_end_drained (broker_t *self);
//  Emits ACTION_RECLAIM for a job that is over, once no worker writes for it.
void job_life_reclaim_when_still (broker_t *self, job_t *job);
//  Takes the marked jobs out of everything: their clients are told, and nothing of them is drawn, read or
//  sent any more.
void job_life_sweep (broker_t *self);
//  At the end of an event or a turn: delivers and sweeps until no job is marked.
void job_life_settle (broker_t *self);
void job_life_check (const broker_t *self);

#endif
