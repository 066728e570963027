/*  broker_replay -- the last steps of jobs with ranks, and the steps that a rank lacks.  */
#ifndef BROKER_REPLAY_H
#define BROKER_REPLAY_H
#include "broker_state.h"

//  Whether the steps that the ranks of the join lack are known.
bool replay_allows (const broker_join_t *join, refusal_t *refusal);
//  Whether any rank lacks a step.
bool replay_is_wanted (const broker_join_t *join);
size_t replay_bytes (const broker_join_t *join);
//  A new job takes over from the join the last steps, and which of them each rank lacks.  False: no memory.
bool replay_new (job_t *job, const broker_join_t *join);
void replay_free (job_t *job);
//  Finds the record at this position; false: there is none.
bool replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p);
//  The number of steps among the records from this one on.
uint64_t replay_steps_from (const job_t *job, uint64_t number);
//  Records a step, or an epoch's end, that is sent to all ranks.  Returns the step: world_size counts, then
//  ids.
const uint64_t *replay_enter_step (job_t *job, uint32_t slot);
void replay_enter_end (job_t *job, const wire_epoch_end_t *end);
//  Sends or prepares the next record that the rank lacks.
void replay_go_on (broker_t *self, rank_t *rank);
//  Stops preparing for the rank.
void replay_stop (broker_t *self, rank_t *rank);
//  Sends the rank its replayed batch if all rows of it are filled or holes.
void replay_deliver (broker_t *self, rank_t *rank);
void replay_check (const job_t *job);

#endif
