/*  states -- what a job, a rank, a slot, a row and a version go through: one table each, and one function
 *  that moves it.  A move that the table does not have is a bug of ours: the server says it, and aborts.
 *  Owner: the broker's thread.
 */
#ifndef STATES_H
#define STATES_H
#include "broker_state.h"

void job_move (job_t *self, job_state_t state);
void rank_move (rank_t *self, rank_state_t state);
void slot_move (batch_t *self, slot_state_t state);
void row_move (batch_row_t *self, row_state_t state);
void version_move (version_t *self, version_state_t state);

#endif
