/*  rank -- one of a job's clients; what its coming, death, return and leaving do is in life/client_life.h.
 *
 *  The driver attaches its own data to each rank.  The members are for server/broker alone.
 */
#ifndef RANK_H
#define RANK_H
#include "broker.h"
#include "row.h"
#include "waits.h"
#include "wire.h"

typedef enum {
    RANK_ATTACHING,             //  neither ring nor inline yet
    RANK_HERE,
    RANK_LOST,                  //  it may come back, and the job pauses until then
    RANK_LEFT                   //  it has received everything, and is gone
} rank_state_t;

//  The step that is being prepared again for a rank that lacks it (send/steps.c); none while used is 0.
typedef struct {
    batch_row_t *rows;          //  rank_batch of them; NULL: the job has one rank
    uint32_t used, open;        //  of them; neither filled nor a hole
    bool is_padding;
    //  rows and ids of the batch sent last, until the next one is sent
    uint32_t *sent_rows, *ids;
    uint32_t told;
} again_t;

//  One of a job's clients.
struct rank {
    job_t *job;
    uint32_t number;
    void *user;
    char instance [WIRE_RUN_BYTES + 1];     //  empty: not said
    rank_state_t state;
    bool is_inline;
    bool left_itself;           //  LEFT: it sent LEAVE, so it does not come back
    bool reclaiming, reclaimed;         //  not there: ACTION_RECLAIM_RANK was issued; was carried out
    int64_t joined_ms, alive_ms;
    bool is_awaited;            //  not there, and may come back:
    int64_t lost_ms, due_ms;    //  LOST: since when; until when the job waits for it, even with no other rank
                                //  left
    uint32_t copying;           //  rows of it that a worker has
    //  what was sent to this client and received from it
    uint64_t sent;              //  batches; the next sequence
    wire_progress_t progress;
    uint64_t held;              //  a bit for each slot: sent, and not released
    uint64_t in_hand;           //  of these: in the hands of the user's loop
    //  Where its part of the step in a slot lies in its own ring.  Each rank's user may keep batches of other
    //  steps, and one that is kept must hold up no other rank's ring.
    uint32_t place [WIRE_SLOTS_MAX];
    uint64_t places;            //  a bit for each: it has a part that is not released, or that the user keeps
    uint64_t kept;              //  of these: the user keeps it, beyond batches of later steps
    uint64_t sequence [WIRE_SLOTS_MAX];     //  of the batches that it holds
    uint32_t rows [WIRE_SLOTS_MAX];         //  samples of that, padding not counted
    uint64_t padded;            //  a bit for each slot: what was sent in it last is padding,
    uint32_t padding_ids [WIRE_SLOTS_MAX];  //  this sample
    batch_row_t padding;            //  of the step that is to be sent next, if the rank has nothing in it
    uint64_t lacks;             //  number of the next record to send it; equal to the job's next: it lacks
                                //  none
    again_t again;
    char *notice;               //  that it was lost
    waits_of_rank_t waits;
};

//  For the driver.
void *rank_user (const rank_t *self);           //  NULL until it is set, and after broker_reclaim_rank
void rank_set_user (rank_t *self, void *user, bool is_inline);
job_t *rank_job (const rank_t *self);
uint32_t rank_number (const rank_t *self);
bool rank_is_inline (const rank_t *self);
bool rank_is_there (const rank_t *self);        //  the broker may send to it: it has neither left nor been
                                                //  lost, its job is not over
//  The rows of a batch that ACTION_SEND_BATCH named, by its slot in the rank's ring: the row in the slot of
//  each sample (ascending: rows of unreadable samples are missing) and its id.  At most batch_size; returns
//  how many.
uint32_t rank_batch_rows (const rank_t *self, uint32_t place, uint32_t *rows, uint64_t *ids);
//  Calls visit for each present rank, for heartbeats.
void rank_each (broker_t *self, void (*visit) (void *context, rank_t *rank), void *context);

//  For the broker alone.
void rank_move (rank_t *self, rank_state_t state);
//  broker_add_action, of the rank.
action_t *rank_add_action (rank_t *rank, action_kind_t kind);
//  ACTION_SEND_NOTICE or ACTION_SEND_ENDED to the rank.
void rank_tell (rank_t *rank, action_kind_t kind, const char *reason, const char *message);
//  After parts of this rank were released, kept or given back, or a slot has become free.
void rank_measure_places (rank_t *rank);
//  The slot of the part at that place, which the rank holds.
uint32_t rank_slot_at (const rank_t *rank, uint32_t place);
//  Batches that the client has consumed or thrown away.
uint64_t rank_batches_done (const wire_progress_t *progress);

#endif
