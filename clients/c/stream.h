/*  stream -- what follows JOINED: batches and epoch ends, checked against what must come next, then put to
 *  the user.
 *
 *  All joinings together are one run: a batch's sequence starts again with each joining, its epoch and index
 *  continue, and no sample comes twice in an epoch (position.h).  Owner: the loader's thread.
 */
#ifndef STREAM_H
#define STREAM_H
#include "batch_queue.h"
#include "dealer.h"
#include "message.h"
#include "position.h"
#include "recent_steps.h"

typedef struct {
    batch_queue_t *batches;             //  lent
    position_t *received;               //  lent
    const message_joined_t *joined;     //  of the present joining, lent
    recent_steps_t recent;              //  the last messages, over all joinings
    uint64_t sequence;                  //  of the next batch in this joining
    uint64_t before;                    //  batches of earlier joinings
    bool last;                          //  the last epoch's end has come
} stream_t;

//  The job is joined (again).
void stream_begin (stream_t *self, const message_joined_t *joined);
void stream_clear (stream_t *self);
//  False: the server's mistake, or no memory; error tells which.
bool stream_take_batch (stream_t *self, dealer_message_t *message, message_error_t *error) TUREEN_CHECKED;
bool stream_take_epoch_end (stream_t *self, const dealer_message_t *message,
    message_error_t *error) TUREEN_CHECKED;

#endif
