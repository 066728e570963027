/*  action -- what the broker wants done outside of it, in order: `tureen serve` (service.c) or a simulation
 *  takes each by broker_next and carries it out.
 */
#ifndef ACTION_H
#define ACTION_H
#include "broker.h"
#include "wire.h"

typedef enum {
    ACTION_READ,                //  request: read the range of its data set's pack into the memory of its
                                //  samples
    ACTION_PREPARE,             //  version: take its sample's bytes (version_raw) or read its files, run the
                                //  class's shared stage into memory
    ACTION_FETCH_AHEAD,         //  dataset, id, fields: read these files of the sample, so that the local
                                //  disk has them; no job waits
    ACTION_COPY,                //  row: run the job's private stage from the version into row_slot,
                                //  row_index
    ACTION_SIDE_TASK,           //  tenant, charged_us: let a worker do the oldest task announced by
                                //  tenant_side_task_waits
    ACTION_SEND_BATCH,          //  rank: BATCH from batch and step.  A batch of WIRE_SLOT_NONE goes inline,
                                //  whatever the rank's transport
    ACTION_SEND_EPOCH_END,      //  rank, epoch_end
    ACTION_SEND_ENDED,          //  rank, reason, message; after it the rank is as after broker_gone
    ACTION_SEND_NOTICE,         //  rank, reason (the notice's kind), message; message NULL (`unreadable`):
                                //  the driver asks job_unreadable and job_unreadable_message when it sends
    ACTION_RECLAIM_RANK,        //  rank: free its ring, then broker_reclaim_rank
    ACTION_RECLAIM              //  job: free the resources of its ranks' users, then broker_reclaim
} action_kind_t;

struct action {
    action_kind_t kind;
    job_t *job;                 //  the rank's, or RECLAIM's
    rank_t *rank;               //  COPY: the row's
    version_t *version;
    batch_row_t *row;
    raw_request_t *request;
    dataset_t *dataset;         //  FETCH_AHEAD
    uint32_t id, fields;        //  FETCH_AHEAD; a bit for each field
    tenant_t *tenant;           //  SIDE_TASK
    uint32_t charged_us;        //  SIDE_TASK
    wire_batch_t batch;         //  SEND_BATCH
    const uint64_t *step;       //  SEND_BATCH of a job with ranks: step_words numbers, as on the wire; else
                                //  NULL.  Lent until the
    size_t step_words;          //  action is carried out
    wire_epoch_end_t epoch_end;
    const char *reason;         //  SEND_ENDED, SEND_NOTICE; static
    const char *message;        //  lives until the job is reclaimed
};

//  For the broker alone: adds an action, which the caller fills in.
action_t *action_add (broker_t *self, action_kind_t kind, job_t *job);
action_t *action_add_rank (broker_t *self, action_kind_t kind, rank_t *rank);

#endif
