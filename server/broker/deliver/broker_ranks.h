/*  broker_ranks -- the ranks of a job: they come, are lost, come back and leave.  */
#ifndef BROKER_RANKS_H
#define BROKER_RANKS_H
#include "broker_state.h"

//  The ranks of a new job.  False: no memory; ranks_destroy frees what there is.
bool ranks_new (job_t *job, const broker_join_t *join, int64_t now_ms);
void ranks_destroy (job_t *job);
//  What ranks_new takes, and of several ranks what is on its way to them beside their rings: a batch that is
//  given again, ids.
size_t ranks_bytes (const broker_join_t *join);
//  broker_attached, broker_inline, broker_left and broker_lost, up to what is marked.
void ranks_attached (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_inline (broker_t *self, rank_t *rank, int64_t now_ms);
void ranks_left (broker_t *self, rank_t *rank);
void ranks_lost (broker_t *self, rank_t *rank, int64_t now_ms);
//  The rank, which is there, is lost from now on, and waited for so long.
void ranks_lose (broker_t *self, rank_t *rank, int64_t now_ms, int64_t wait_ms);
//  What users' loops hold on to has changed.
void ranks_count_in_hand (job_t *job);
//  A rank may have become level: the job may go on.
void ranks_settle (broker_t *self, job_t *job);
//  Once a turn: sends steps that have waited for a rank to take what it was given again.
void ranks_send (broker_t *self, job_t *job);
//  A worker has written into the place of a rank that was lost meanwhile.
void ranks_copied_late (broker_t *self, place_t *place);
//  Ends what is overdue of the job: its ranks that do not attach, are silent, or do not come back.
void ranks_end_overdue (broker_t *self, job_t *job, int64_t now_ms);
//  All places of its ranks that are in no step are left; for a job that is over.
void ranks_cancel (broker_t *self, job_t *job);
//  "the job 'name'", or by its number.
enum { RANKS_WHO_BYTES = REQUEST_NAME_BYTES_MAX + 32 };
const char *ranks_job_text (const job_t *job, char text [RANKS_WHO_BYTES]);
void ranks_check (const job_t *job);

#endif
