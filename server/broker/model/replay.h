/*  replay -- keeps the last steps of a job with several ranks, and sends a rank those that it lacks
 *  (server/broker/send/steps.c).
 */
#ifndef REPLAY_H
#define REPLAY_H
#include "broker.h"
#include "request.h"

//  One of the last messages to all ranks of a job: a step, or an epoch's end.
typedef struct {
    broker_position_t before;   //  the position of a client that lacks it
    uint64_t samples;           //  of the step; of an end: the epoch's
    uint64_t *step;             //  world_size counts, then the ids, rank by rank; of a list then their
                                //  occurrences; NULL: an end
} replay_record_t;

//  For a job with several ranks; otherwise all zero.
typedef struct {
    replay_record_t *records;          //  a ring, by number
    uint32_t room;
    uint64_t first, next;       //  numbers
    uint64_t *step_memory;      //  step_room buffers, also a ring
    uint32_t step_room;
    uint64_t steps;             //  that were ever entered
    broker_position_t position; //  after the last record
} replay_t;

//  The step that is being prepared again for a rank that lacks it; none while used is 0.
typedef struct {
    batch_row_t *rows;          //  rank_batch of them; NULL: the job has one rank
    uint32_t used, open;        //  of them; neither filled nor a hole
    bool is_padding;
    //  rows and ids of the batch sent last, until the next one is sent
    uint32_t *sent_rows, *ids;
    uint32_t told;
} again_t;

//  Whether the steps that the ranks of the join lack are known.
bool replay_allows (const broker_terms_t *join, refusal_t *refusal);
//  Whether any rank lacks a step.
bool replay_is_wanted (const broker_terms_t *join);
size_t replay_bytes (const broker_terms_t *join);
//  A new job takes over from the join the last steps, and which of them each rank lacks.  False: no memory.
bool replay_new (job_t *job, const broker_terms_t *join);
void replay_free (job_t *job);
//  Finds the record at this position; false: there is none.
bool replay_find (const job_t *job, uint64_t epoch, uint64_t batches, uint64_t *number_p);
//  The number of steps among the records from this one on.
uint64_t replay_steps_from (const job_t *job, uint64_t number);
//  Sends or prepares the next record that the rank lacks.
void replay_go_on (broker_t *self, rank_t *rank);
//  Stops preparing for the rank.
void replay_stop (broker_t *self, rank_t *rank);
void replay_check (const job_t *job);

#endif
