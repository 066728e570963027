/*  request_recent -- where a job's client stands, and what its ranks received last (docs/protocol.md, Ranks),
 *  as requests say it and the broker keeps it.
 */
#ifndef REQUEST_RECENT_H
#define REQUEST_RECENT_H
#include <stdbool.h>
#include <stdint.h>

//  A position: after so many batches of this epoch, and after all earlier epochs.
typedef struct {
    uint64_t epoch, batches;
} broker_position_t;

typedef struct {
    bool is_end;                    //  end of an epoch; false: a step
    uint64_t epoch;
    uint64_t index;                 //  of the step; of an end: the epoch's steps
    uint64_t samples;               //  of the step; of an end: the epoch's
    const uint64_t *step;           //  of a step: world_size counts, then its ids, rank by rank
} broker_record_t;

#endif
