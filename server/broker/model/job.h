/*  job -- marks on jobs and rows, by which a phase tells a later one what is to be done; states of a job.  */
#ifndef JOB_H
#define JOB_H
#include "broker_state.h"

static inline bool
job_has_ended (const job_t *job)
{
    return job->state >= JOB_ENDING;
}
//  The server ends the job, for a reason (static) with a message in printf's format; or its clients have
//  gone.  Idempotent.
void job_end (job_t *job, const char *reason, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
void job_go (job_t *job);
//  Each rank's first free place in its ring, for its part of the step in the slot; all have one
//  (free_places).
void job_take_places (job_t *job, uint32_t slot);
//  After parts of this rank, or of all, were released, kept or given back, or a slot has become free.
void rank_measure_places (rank_t *rank);
void job_measure_places (job_t *job);
//  The slot of the part at that place, which the rank holds.
uint32_t rank_slot_at (const rank_t *rank, uint32_t place);
//  There may be something to send to the job's ranks.
void job_mark_delivery (job_t *job);
//  The row is filled or a hole.
void row_done (batch_row_t *row);
static inline bool
job_has_parts (const job_t *job)
{
    return job->parts.nodes > 1;
}
//  With parts: the batches of an epoch, on all nodes alike.
static inline uint64_t
job_epoch_batches (const job_t *job, uint64_t epoch)
{
    return epoch == job->first_epoch? job->first_batches: job->later_batches;
}
//  The epoch of the next batch to be sent.
uint64_t job_sending_epoch (const job_t *job);
//  Ends a job without an open epoch, because the server begins no more epochs.
bool drain_is_between (const job_t *job);

#endif
