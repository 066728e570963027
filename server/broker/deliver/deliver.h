/*  deliver -- sends complete steps, in drawn order.  */
#ifndef DELIVER_H
#define DELIVER_H
#include "broker.h"

//  Sends the next steps that are complete.
void deliver_steps (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void deliver_marked (broker_t *self);
//  Whether a rank is not there, or lacks a step.
bool deliver_is_held_up (const job_t *job);
//  Lets the job go on if no rank lacks a step any more.
void deliver_settle (broker_t *self, job_t *job);

#endif
