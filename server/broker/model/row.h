/*  row -- one row of a batch: the sample drawn for it, and the version that fills it; and the queues of a
 *  job's rows.
 *
 *  A row's way:
 *
 *        draw             version ready       handed out            worker done
 *      EMPTY -> WAITING -------------> READY ------------> COPYING -------------> FILLED
 *        ^         | unreadable                                                      |
 *        +---------+ (then drawn again, or HOLE when the epoch has nothing left)      | batch released
 *        +---------------------------------------------------------------------------+
 *
 *  If a rank is lost before the step is sent, its rows are LOST, and WAITING again, for the same samples,
 *  when the rank is back.  Two kinds of rows are in no step's window: a rank's *padding*, and replayed
 *  rows (*again*).
 */
#ifndef ROW_H
#define ROW_H
#include "broker.h"
#include "pipeline.h"

typedef enum {
    ROW_EMPTY,
    ROW_WAITING,                //  in its version's waiting list; also in the job's queue until the version
                                //  is handed out
    ROW_READY,                  //  in the job's queue of copies
    ROW_COPYING,                //  a worker has it
    ROW_FILLED,
    ROW_HOLE,                   //  its sample could not be read, and no other sample was left
    ROW_LOST                    //  its rank is lost, and so are the pixels written for it
} row_state_t;

//  One row of one slot.
struct batch_row {
    job_t *job;
    version_t *version;         //  pinned while WAITING, READY, COPYING; else NULL
    batch_row_t *previous, *next;   //  in the job's queue: wanted or ready
    batch_row_t *next_waiting, *previous_waiting;   //  for the same version, while WAITING
    uint64_t epoch;
    uint32_t id;
    uint32_t occurrence;
    uint32_t slot, index;       //  in the step
    uint32_t rank, rank_row;    //  its rank, and the row in the rank's batch; set when the row is taken
    row_state_t state;
    uint32_t charged_us;        //  COPYING: the estimate of a worker's time
    //  about the last version of this row, kept until the next one, for EXPLAIN
    uint32_t draw;
    uint32_t record;            //  sharing.h
    bool is_reused;             //  the version existed already, for a job of the same tenant
    uint16_t tenant_jobs;       //  jobs of its tenant that the version had served then; 0: a single tenant,
                                //  record has the number
    bool is_hole;               //  the batch was sent without this row
};

typedef struct {
    batch_row_t *first, *last;
} row_list_t;

//  For the driver.
job_t *row_job (const batch_row_t *self);
rank_t *row_rank (const batch_row_t *self);
//  In its rank's ring; WIRE_SLOT_NONE: its batch is in no slot.
uint32_t row_slot (const batch_row_t *self);
uint32_t row_index (const batch_row_t *self);   //  row in the rank's batch
uint32_t row_id (const batch_row_t *self);
const version_t *row_version (const batch_row_t *self);
pipeline_key_t row_key (const batch_row_t *self);

//  For the broker alone.
void row_move (batch_row_t *self, row_state_t state);
//  The row is filled or a hole.
void row_done (batch_row_t *row);

void row_queue_append (row_list_t *list, batch_row_t *row);
void row_queue_remove (row_list_t *list, batch_row_t *row);
//  The version's bytes have come: its rows may be handed out.
void row_queue_arrived (version_t *version);
//  The bytes are gone again: unless a worker has the version, its rows wait for them.
void row_queue_left (version_t *version);
//  The version is ready: the rows that wait for it may be copied.
void row_queue_ready (version_t *version);
//  A worker takes the version, or the row: it leaves its queue.
void row_queue_take_version (version_t *version);
void row_queue_take_copy (batch_row_t *row);

#endif
