/*  join_request -- what a JOIN asks for: parsed, checked against its data set, and held until its job can be
 *  made.
 *
 *  It outlives the message, because a rank waits for others (rendezvous.h).  Owner: the broker's thread.
 */
#ifndef JOIN_REQUEST_H
#define JOIN_REQUEST_H
#include <stdint.h>
#include <sys/types.h>
#include "broker.h"
#include "caller.h"
#include "data_digest.h"
#include "layout.h"
#include "outbox.h"

//  The first three are there from join_request_new on, the others from join_request_place, join_request_read
//  and join_request_complete on.
typedef struct {
    request_join_t request;
    peer_t peer;
    uint64_t tag;
    caller_t caller;
    layout_t layout;
    data_digest_t digest;
    char fresh_run [WIRE_RUN_BYTES + 1];
    //  What the broker is asked for.  Its pipeline (one reference), subset, taken, list_made (one reference),
    //  in which list lies, and recent (one block) are the request's own; its texts lie in the members above.
    broker_join_t join;
} join_request_t;

//  One that the caller may use; NULL: there is none, which is told in the same way.
dataset_t *join_request_find_dataset (broker_t *broker, const caller_t *caller, const char *name,
    refusal_t *refusal);

//  frames are a JOIN of this peer.  NULL: refused.
join_request_t *join_request_new (const frame_t *frames, size_t count, const peer_t *peer, uint64_t tag,
    refusal_t *refusal);
//  Its data set, and its pipeline on that.  caller: whose it is; kept.  like: where the pipeline has no mark,
//  it gets that of this one; NULL: of the jobs that are there.
bool join_request_place (join_request_t *self, broker_t *broker, const caller_t *caller,
    const pipeline_t *like, refusal_t *refusal);
//  Its ids, of which there may be millions.  Any thread, while no other has the request.
bool join_request_read (join_request_t *self, const frame_t *frames, refusal_t *refusal);
//  Whether that takes so long that the broker's thread should not.
bool join_request_is_long (const join_request_t *self, const frame_t *frames);
//  The rest of what can be told without the jobs that are there: join is filled.
bool join_request_complete (join_request_t *self, refusal_t *refusal);
void join_request_destroy (join_request_t **self_p);

//  What it holds.
size_t join_request_bytes (const join_request_t *self);
//  Of two that ask for the same data, one need have them: self's go to the other, if that has none; else they
//  are let go.
void join_request_yield_data (join_request_t *self, join_request_t *other);

#endif
