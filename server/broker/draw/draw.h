/*  draw -- rounds of draws, epochs, and the rows that draws fill.  */
#ifndef DRAW_H
#define DRAW_H
#include "broker_state.h"

//  Runs the rounds that are due in every group.
void draw_rounds (broker_t *self, int64_t now_ms);
//  The place's sample cannot be read: another takes its place, or a hole.
void draw_again (broker_t *self, place_t *place);
//  Closes epochs that an unreadable sample has emptied.
void draw_settle (broker_t *self, dataset_t *dataset);
//  All ranks are there, and level: draws go on, unless nothing is left to draw of the epoch.
void draw_go_on (broker_t *self, job_t *job);
//  The slot may be drawn into again.
void draw_release (job_t *job, uint32_t slot);
//  A list, or what is a function of a seed, has its order whatever turns out unreadable, and holes instead.
bool draw_keeps_order (const job_t *job);
//  The place gets a version of the sample that it has, which the job has drawn before.
version_t *draw_serve (broker_t *self, place_t *place);
//  The rank's places that are not sent wait for nobody; and, when it is back, for their samples once more.
void draw_lose (broker_t *self, rank_t *rank);
void draw_revive (broker_t *self, rank_t *rank);

#endif
