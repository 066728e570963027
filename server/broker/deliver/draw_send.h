/*  draw_send -- sends complete steps, in drawn order.  */
#ifndef DRAW_SEND_H
#define DRAW_SEND_H
#include "broker_state.h"

//  Sends what is complete and whose turn it is.
void draw_send (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void deliver_marked (broker_t *self);
//  A step of which no sample can be read any more, though it was told, or would be padded: the job ends.
void draw_end_unreadable (job_t *job);

#endif
