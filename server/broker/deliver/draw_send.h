/*  draw_send -- sends complete steps, in drawn order.  */
#ifndef DRAW_SEND_H
#define DRAW_SEND_H
#include "broker_state.h"

//  Sends the next steps that are complete.
void draw_send (broker_t *self, job_t *job);
//  Sends what the marked jobs may be sent, in the order in which they were marked.
void deliver_marked (broker_t *self);
//  Of a job over several nodes: a sample that stands for those that a step lacks, one that the job was sent
//  if there is one.  False: none can be read, or the job is on one node.
bool draw_padding_id (job_t *job, uint32_t *id_p);
//  Ends the job: none of the step's samples can be read any more, for a replay or for padding.
void draw_end_unreadable (job_t *job);

#endif
