/*  batch -- what is drawn into a slot, and sent from it.
 *
 *  A job has one rank or several.  A batch here is a *step*: the batches of all ranks together, in the same
 *  slot number of each rank's ring.  With one rank, batch and step are the same.
 */
#ifndef BATCH_H
#define BATCH_H
#include "broker.h"

typedef enum {
    SLOT_FREE,
    SLOT_FILLING,               //  draws go here
    SLOT_FULL,                  //  all drawn; sent when every row is filled and all earlier batches are
                                //  sent
    SLOT_SENT
} slot_state_t;

//  One batch in its slot; of a job with ranks, one step.
typedef struct {
    slot_state_t state;
    uint64_t epoch;
    uint32_t planned;           //  samples that it should have, by what was known when it was opened
    uint32_t drawn;             //  rows in use, from 0 on
    uint32_t open;              //  of them: neither filled nor a hole
    uint32_t holes;
    bool ends_epoch;
    uint64_t index;             //  of its epoch, on the wire; set when sent
    batch_row_t *rows;          //  batch_size of them
    //  what the slot held before its release, kept while it is free
    struct { uint64_t epoch, index; uint32_t drawn; } past;
} batch_t;

void batch_move (batch_t *self, slot_state_t state);

#endif
