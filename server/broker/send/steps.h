/*  steps -- sends a job's complete steps to its ranks, in drawn order, as actions (ACTION_SEND_BATCH); keeps
 *  the last ones of a job with several ranks, and sends them again to a rank that lacks them.
 */
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

//  ---- what ranks lack

//  Whether the steps that the ranks of the join lack are known.
bool steps_replay_allows (const broker_terms_t *join, refusal_t *refusal);
//  Whether any rank lacks a step.
bool steps_replay_is_wanted (const broker_terms_t *join);
size_t steps_replay_bytes (const broker_terms_t *join);
//  A new job takes over from the join the last steps, and which of them each rank lacks.  False: no memory.
bool steps_replay_new (job_t *job, const broker_terms_t *join);
void steps_replay_free (job_t *job);
//  Finds the record at this position; false: there is none.
bool steps_replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p);
//  The number of steps among the records from this one on.
uint64_t steps_replay_count (const job_t *job, uint64_t number);
//  Sends or prepares the next record that the rank lacks.
void steps_replay_go_on (broker_t *self, rank_t *rank);
//  Stops preparing for the rank.
void steps_replay_stop (broker_t *self, rank_t *rank);
void steps_replay_check (const job_t *job);

#endif
