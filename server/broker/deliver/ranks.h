/*  ranks -- the ranks of a job: they come, are lost, come back and leave.
 *
 *  A client's end is noticed
 *      by its ring socket or its process (ring_server.h), or by a message that could not be sent (outbox.h):
 *      then the service calls broker_lost, and ranks_lost follows;
 *      by its silence, or because it has not attached: ranks_end_overdue.
 *  A job of one rank ends then.  One of several waits rank_wait_seconds for the lost rank, and gives it again
 *  what it has not trained on (replay.h); broker_returns brings it back.
 *  Owner: the broker's thread.
 */
#ifndef RANKS_H
#define RANKS_H
#include "broker.h"
#include "dataset.h"

//  Makes the ranks of a new job.  False: no memory; ranks_destroy frees those that exist.
bool ranks_new (job_t *job, const broker_terms_t *join, int64_t now_ms);
void ranks_destroy (job_t *job);
//  The bytes that ranks_new takes; with several ranks also the replayed batches and ids on their way outside
//  the rings.
size_t ranks_bytes (const broker_terms_t *join);
//  What broker_attached, broker_inline, broker_left and broker_lost do, up to the marks that they leave.
void ranks_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_inline (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_left (broker_t *self, rank_t *rank);
void ranks_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  A present rank is lost from now on; the job waits so long for it.
void ranks_lose (broker_t *self, rank_t *rank, int64_t now_ms, int64_t wait_ms);
//  Counts the slots that users' loops hold.
void ranks_count_in_hand (job_t *job);
//  Once a turn: sends steps that have waited until a rank took its replayed batches.
void ranks_send (broker_t *self, job_t *job);
//  A worker has filled the row of a rank that was lost meanwhile.
void ranks_copied_late (broker_t *self, batch_row_t *row);
//  Ends overdue ranks of the job: those that do not attach, are silent, or do not come back.
void ranks_end_overdue (broker_t *self, job_t *job, int64_t now_ms);
//  For a job that is over: cancels the rows of its ranks that are in no step.
void ranks_cancel (broker_t *self, job_t *job);
void ranks_check (const job_t *job);

#endif
