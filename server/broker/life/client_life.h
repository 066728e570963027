/*  client_life -- what becomes of a job when one of its clients, its ranks, comes, dies, comes back or
 *  leaves.
 *
 *  A client's end is noticed
 *      by its ring socket or its process (ring_server.h), or by a message that could not be sent (outbox.h):
 *      then the service calls broker_lost, and client_life_lost follows;
 *      by its silence, or because it has not attached: client_life_end_overdue.
 *  A job of one rank ends then.  One of several waits rank_wait_seconds for the lost rank, and gives it again
 *  what it has not trained on (send/steps.h); broker_return brings it back.
 *  Owner: the broker's thread.
 */
#ifndef CLIENT_LIFE_H
#define CLIENT_LIFE_H
#include "broker.h"
#include "dataset.h"

//  What broker_attached, broker_inline, broker_left and broker_lost do, up to the marks that they leave.
void client_life_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void client_life_inline (broker_t *self, rank_t *rank, int64_t now_ms);
void client_life_left (broker_t *self, rank_t *rank);
void client_life_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  Counts the slots that users' loops hold.
void client_life_count_in_hand (job_t *job);
//  Once a turn: sends steps that have waited until a rank took its replayed batches.
void client_life_send (broker_t *self, job_t *job);
//  A worker has filled the row of a rank that was lost meanwhile.
void client_life_copied_late (batch_row_t *row);
//  Ends overdue ranks of the job: those that do not attach, are silent, or do not come back.
void client_life_end_overdue (broker_t *self, job_t *job, int64_t now_ms);
//  For a job that is over: cancels the rows of its ranks that are in no step.
void client_life_cancel (broker_t *self, job_t *job);
void client_life_check (const job_t *job);

#endif
