/*  broker_replay -- the last steps of jobs with ranks, and the steps that a rank lacks.  */
#ifndef BROKER_REPLAY_H
#define BROKER_REPLAY_H
#include "broker_state.h"

//  Whether all ranks of the join stand where something is known to go on from.
bool replay_allows (const broker_join_t *join, refusal_t *refusal);
//  Whether any of them lacks something.
bool replay_is_wanted (const broker_join_t *join);
size_t replay_bytes (const broker_join_t *join);
//  Of a new job: takes over what the join knows, and what each rank lacks of it.  False: no memory.
bool replay_new (job_t *job, const broker_join_t *join);
void replay_free (job_t *job);
//  Where the records have this position; false: nowhere.
bool replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p);
//  Steps among the records from this one on.
uint64_t replay_steps_from (const job_t *job, uint64_t number);
//  Enters what is being sent to all ranks.  Returns the step, world_size counts and ids.
const uint64_t *replay_enter_step (job_t *job, uint32_t slot);
void replay_enter_end (job_t *job, const wire_epoch_end_t *end);
//  Sends the rank what it lacks, as far as that can be sent now.
void replay_go_on (broker_t *self, rank_t *rank);
//  Nothing is prepared for it any more.
void replay_stop (broker_t *self, rank_t *rank);
//  Sends the rank what it is given again, if all rows of that are filled or holes.
void replay_deliver (broker_t *self, rank_t *rank);
void replay_check (const job_t *job);

#endif
