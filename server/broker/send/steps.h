/*  steps -- complete steps are sent, in drawn order.  */
#ifndef STEPS_H
#define STEPS_H
#include "broker.h"

//  Sends the next steps that are complete.
void steps_send (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void steps_send_marked (broker_t *self);
//  Whether a rank is not there, or lacks a step.
bool steps_are_held_up (const job_t *job);
//  Lets the job go on if no rank lacks a step any more.
void steps_settle (broker_t *self, job_t *job);

#endif
