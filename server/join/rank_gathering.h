/*  rank_gathering -- ranks of jobs to come wait for each other (docs/protocol.md, Ranks).
 *
 *  happy path:     rank_gathering_add, a rank at a time: RANK_GATHERING_WAITS .. NOTICE `gathering` to each,
 *                  about once a second .. the last one: RANK_GATHERING_COMPLETE, and the joins of all ranks
 *                  go to the caller
 *  failure modes:  a rank asks for something else than the others: all are told (`ranks_differ`).  A rank is
 *                  too late: all are told (`ranks_missing`).  A connection that cannot be sent to is
 *                  forgotten; the others still wait.
 *  on close:       rank_gathering_stop tells every waiting rank.
 *
 *  Invariants, checked by rank_gathering_check ():
 *    G1  the ranks that wait under one name wait for one world size, and agree; no rank is there twice.
 *    G2  exactly one of them holds the job's data (subset or list), if there are any.
 *    G3  no gathering is empty, and none complete.
 *    G4  a tenant has no more than its share by weight of RANK_GATHERING_MAX and RANK_GATHERING_BYTES_MAX.
 *        It depends on no other tenant: each tenant has its own names.
 *  Owner: the broker's thread.
 */
#ifndef RANK_GATHERING_H
#define RANK_GATHERING_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "job.h"
#include "join.h"
#include "log.h"

typedef struct rank_gathering rank_gathering_t;

enum {
    RANK_GATHERING_MAX = 64,            //  jobs
    RANK_GATHERING_BYTES_MAX = 256 << 20,
    RANK_GATHERING_NOTICE_MS = 1000
};

//  All waiting ranks.  router (for NOTICE and ERROR), broker and log are lent.  NULL: no memory.
rank_gathering_t *rank_gathering_new (void *router, broker_t *broker, log_t *log);
//  Waiting ranks are told nothing.
void rank_gathering_destroy (rank_gathering_t **self_p);

//  The name of the job that this connection waits for, if the connection is the caller's (NULL: any
//  caller's); NULL: it does not wait.  Lent.
const char *rank_gathering_of (const rank_gathering_t *self, const peer_t *peer, const caller_t *caller);
//  The pipeline of the ranks that wait for the tenant's job of this name; NULL: none wait.  Lent.
const pipeline_t *rank_gathering_pipeline (const rank_gathering_t *self, const tenant_t *tenant,
    const char *job_name);
//  Whether no rank waits under the name that a job of one process asks for.
bool rank_gathering_leaves_name (rank_gathering_t *self, const join_t *join, int64_t now_ms,
    refusal_t *refusal);

typedef enum {
    RANK_GATHERING_WAITS,               //  *join_p was taken, and is NULL now
    RANK_GATHERING_COMPLETE,            //  the same, and the joins of all ranks are the caller's
    RANK_GATHERING_REFUSED             //  refusal holds the reason; other ranks that this ends have been told
} rank_gathering_status_t;

//  A checked request of a job with ranks.  joins has WIRE_RANKS_MAX places: a complete job's are filled, by
//  rank.  *terms_p is then what the job of all of them asks for; it lies in one of the joins, uses the others
//  (names), and is good until the next call.
rank_gathering_status_t rank_gathering_add (rank_gathering_t *self, join_t **join_p, int64_t now_ms,
    join_t **joins, const broker_terms_t **terms_p, refusal_t *refusal);
//  Takes out a waiting rank that is wanted, for the caller.  NULL: none.
join_t *rank_gathering_take (rank_gathering_t *self,
    bool (*is_wanted) (void *context, const join_t *join), void *context);

//  Sends notices, and ends ranks that have waited too long; call at least twice a second.
void rank_gathering_beat (rank_gathering_t *self, int64_t now_ms);
//  Refuses the ranks for which is_gone returns true, as of all that wait for one job or of none.
void rank_gathering_forget (rank_gathering_t *self, bool (*is_gone) (void *context, const join_t *join),
    void *context, const refusal_t *refusal);
//  Refuses all waiting ranks: the server ends.
void rank_gathering_stop (rank_gathering_t *self);

//  The tenant's jobs that wait for ranks, and the bytes held for them; NULL: of all tenants.
size_t rank_gathering_count (const rank_gathering_t *self, const tenant_t *tenant);
size_t rank_gathering_bytes (const rank_gathering_t *self, const tenant_t *tenant);
//  The jobs on this data set that wait for ranks.
size_t rank_gathering_count_on (const rank_gathering_t *self, const dataset_t *dataset);
//  [{"job": name, "world_size": 2, "missing": [1], "left": seconds}], of the tenant's (NULL: of all); for
//  status; a new reference.
json_t *rank_gathering_status (const rank_gathering_t *self, const tenant_t *tenant, int64_t now_ms);
//  Aborts at a broken invariant.
void rank_gathering_check (const rank_gathering_t *self);

#endif
