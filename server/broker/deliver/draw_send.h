/*  draw_send -- sends complete steps, in drawn order.  */
#ifndef DRAW_SEND_H
#define DRAW_SEND_H
#include "broker_state.h"

//  Sends the next steps that are complete.
void draw_send (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void deliver_marked (broker_t *self);
//  Ends the job: none of the step's samples can be read any more, for a replay or for padding.
void draw_end_unreadable (job_t *job);

#endif
