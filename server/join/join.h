/*  join -- one JOIN, from its message to its answer: parsed, checked against its data set, and held until its
 *  job can be made.
 *
 *  It outlives the message, because it may have to wait three times on its way.  Its states, and what ends
 *  them; whatever fails on the way, it is *refused* (ERROR) and freed:
 *
 *      state       where it is                         until
 *      received    receiver.c, taken from the queue    it is parsed, and has its data set and its pipeline
 *                                                      (admission_begin)
 *      reading     receiver.c; a worker if it is long  its ids are read (join_read), its terms complete
 *      gathering   rank_gathering.c: one of several    its job's other ranks are there; a refusal is for all
 *                  ranks of a job to come
 *      returning   admission.c: a rank of a job that   its former connection is reclaimed
 *                  there is
 *      admitted    its terms are a job's (broker_join), or a rank's (broker_return): JOINED, and it is freed
 *
 *  Owner: the broker's thread; a worker while it reads the ids, but for message, caller and is_revoked, which
 *  stay that thread's.
 */
#ifndef JOIN_H
#define JOIN_H
#include <stdint.h>
#include <sys/types.h>
#include "additions.h"
#include "broker.h"
#include "job.h"
#include "layout.h"
#include "outbox.h"
#include "request.h"
#include "tasks.h"
#include "tenants.h"

//  join_new sets what the message says (request, peer, caller, tag); join_place, join_read and join_complete
//  set the rest.
typedef struct {
    //  The receiver's, while a worker reads the ids.
    side_task_t side_task;              //  first, so that it leads back here
    struct inbound_message *message;    //  while a worker reads its ids; else NULL
    bool ids_refused;
    refusal_t refusal;                  //  of the ids
    bool is_revoked;                    //  the client's key, meanwhile
    request_join_t request;
    peer_t peer;
    uint64_t tag;
    caller_t caller;
    layout_t layout;
    request_digest_t digest;
    request_digest_t partition;    //  with nodes: the same on all of them if their parts make up one whole
    size_t list_whole;          //  of a list: its places over all nodes; terms.list has this node's
    char fresh_run [WIRE_RUN_BYTES + 1];
    int64_t since_ms;           //  begin of its wait for other ranks, or for its former connection
    //  What the broker is asked for.  The join owns the pipeline (one reference), subset, taken, parts.cut,
    //  list_made (one reference; list lies in it) and recent (one block); the texts lie in the members above,
    //  but of a complete job with ranks (rank_gathering_add).
    broker_terms_t terms;
} join_t;

//  A data set that the caller may use; NULL: it does not exist or the caller may not use it, with one refusal
//  for both, or it is still to be opened (additions, or NULL).  path: the client means the one that status
//  shows there, and no other; NULL: any.
dataset_t *join_find_dataset (broker_t *broker, const additions_t *additions, const caller_t *caller,
    const char *name, const char *path, refusal_t *refusal);

//  frames are a JOIN of this peer, which is the caller's.  NULL: refused.
join_t *join_new (const frame_t *frames, size_t count, const peer_t *peer, const caller_t *caller,
    uint64_t tag, refusal_t *refusal);
//  Finds its data set, which it holds from now on (dataset_hold), and makes its pipeline for that.  like: a
//  pipeline without a share point gets that of this one; NULL: that of existing jobs.
bool join_place (join_t *self, broker_t *broker, const additions_t *additions, const pipeline_t *like,
    refusal_t *refusal);
//  Reads its ids, of which there may be millions.  Any thread, while no other uses the join.
bool join_read (join_t *self, const frame_t *frames, refusal_t *refusal);
//  Whether reading the ids takes too long for the broker's thread.
bool join_is_long (const join_t *self, const frame_t *frames);
//  Checks all that does not depend on existing jobs, and fills terms.
bool join_complete (join_t *self, refusal_t *refusal);
void join_destroy (join_t **self_p);

//  The bytes that it holds.
size_t join_bytes (const join_t *self);
//  If two joins have the same data, only one need hold them: self's data go to the other if it has none;
//  otherwise they are freed.
void join_yield_data (join_t *self, join_t *other);

#endif
