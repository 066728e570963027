/*  join_request -- what a JOIN asks for: parsed, checked against its data set, and held until its job can be
 *  made.
 *
 *  It outlives the message, because a rank waits for other ranks (rendezvous.h).  Owner: the broker's thread.
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

//  join_request_new sets the first three members; join_request_place, join_request_read and
//  join_request_complete set the others.
typedef struct {
    request_join_t request;
    peer_t peer;
    uint64_t tag;
    caller_t caller;
    layout_t layout;
    data_digest_t digest;
    data_digest_t partition;    //  with nodes: the same on all of them if their parts make up one whole
    size_t list_whole;          //  of a list: its places over all nodes; join.list has this node's
    char fresh_run [WIRE_RUN_BYTES + 1];
    //  The join for the broker.  The request owns its pipeline (one reference), subset, taken, parts.cut,
    //  list_made (one reference; list lies in it) and recent (one block); its texts lie in the members above.
    broker_join_t join;
} join_request_t;

//  A data set that the caller may use; NULL: it does not exist or the caller may not use it, with one refusal
//  for both.
dataset_t *join_request_find_dataset (broker_t *broker, const caller_t *caller, const char *name,
    refusal_t *refusal);

//  frames are a JOIN of this peer.  NULL: refused.
join_request_t *join_request_new (const frame_t *frames, size_t count, const peer_t *peer, uint64_t tag,
    refusal_t *refusal);
//  Finds its data set, and makes its pipeline for that.  caller: the client, kept.  like: a pipeline without
//  a share point gets that of this one; NULL: that of existing jobs.
bool join_request_place (join_request_t *self, broker_t *broker, const caller_t *caller,
    const pipeline_t *like, refusal_t *refusal);
//  Reads its ids, of which there may be millions.  Any thread, while no other uses the request.
bool join_request_read (join_request_t *self, const frame_t *frames, refusal_t *refusal);
//  Whether reading the ids takes too long for the broker's thread.
bool join_request_is_long (const join_request_t *self, const frame_t *frames);
//  Checks all that does not depend on existing jobs, and fills join.
bool join_request_complete (join_request_t *self, refusal_t *refusal);
void join_request_destroy (join_request_t **self_p);

//  The bytes that it holds.
size_t join_request_bytes (const join_request_t *self);
//  If two requests have the same data, only one need hold them: self's data go to the other if it has none;
//  otherwise they are freed.
void join_request_yield_data (join_request_t *self, join_request_t *other);

#endif
