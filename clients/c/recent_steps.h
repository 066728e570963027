/*  recent_steps -- the last steps and ends of epochs that a rank received, as its JOIN lists them
 *  (docs/protocol.md, Ranks).
 *
 *  When a server dies, one rank may have received more than another.  The job resumes at the furthest
 *  position; that rank's recent records have the steps that the others lack.
 *
 *      a step   { WIRE_RECENT_STEP, epoch, index, ids }, world_size counts, the ids rank by rank
 *      an end   { WIRE_RECENT_END, epoch, batches, samples }
 *
 *  Invariants:
 *    R1  the records follow each other without a gap, in the order of their coming; the last one is what came
 *        last.
 *    R2  at most the requested steps, WIRE_RECENT_RECORDS_MAX records and WIRE_RECENT_IDS_MAX ids: the oldest
 *        are dropped.
 *  Owner: the loader's thread.
 */
#ifndef RECENT_STEPS_H
#define RECENT_STEPS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "message.h"
#include "wire.h"

//  Zeroed memory, except the first two.
typedef struct {
    //  Set at birth.
    uint32_t world_size;                //  1: nothing is kept
    uint32_t steps_max;
    //  Later.
    uint64_t *numbers;                  //  the records, joined end to end: count of them from first on
    size_t first;
    size_t count;
    size_t room;
    uint32_t steps;
    uint32_t records;
    uint64_t ids;
} recent_steps_t;

//  False: no memory, and nothing is changed.
bool recent_steps_add (recent_steps_t *self, const message_batch_t *batch);
bool recent_steps_add_end (recent_steps_t *self, const wire_epoch_end_t *end);
void recent_steps_clear (recent_steps_t *self);

//  The numbers of the records, lent until the next change; *count_p of them.
const uint64_t *recent_steps_numbers (const recent_steps_t *self, size_t *count_p);

#endif
