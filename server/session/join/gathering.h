/*  gathering -- ranks of jobs to come, each waiting for the others (docs/protocol.md, Ranks).
 *
 *  happy path:     gathering_add, a rank at a time: GATHERING_WAITS .. NOTICE `gathering` to each, about once a second .. the
 *                  last one: GATHERING_COMPLETE, and what all of them ask for goes to the caller
 *  failure modes:  one asks for something else than the others: all are told (`ranks_differ`).  Too late: all are told
 *                  (`ranks_missing`).  A connection that cannot be sent to is forgotten; the others wait on.
 *  on close:       gathering_stop tells everybody.
 *
 *  Invariants, checked by gathering_check ():
 *    G1  who waits under one name waits for one world size, and was told to agree; of one rank there is one.
 *    G2  one of them, and only one, has the job's data (subset or list), if there are any.
 *    G3  none is empty, and none complete.
 *    G4  a tenant has no more than its share by weight of GATHERING_MAX and GATHERING_BYTES_MAX.  What others have is as if it were
 *        not there: names are a tenant's own.
 *  Owner: the broker's thread.
 */
#ifndef GATHERING_H
#define GATHERING_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "draft.h"
#include "log.h"

typedef struct gathering gathering_t;

enum {
    GATHERING_MAX = 64,             //  jobs
    GATHERING_BYTES_MAX = 256 << 20,
    GATHERING_NOTICE_MS = 1000
};

//  All that wait.  router (NOTICE and ERROR go there), broker and log are lent.  NULL: no memory.
gathering_t *gathering_new (void *router, broker_t *broker, log_t *log);
//  Who waits hears nothing.
void gathering_destroy (gathering_t **self_p);

//  The name of the job that this connection, if it is the caller's (NULL: anybody's), waits for; NULL: it does not wait.  Lent.
const char *gathering_of (const gathering_t *self, const peer_t *peer, const caller_t *caller);
//  The pipeline of those who wait for a job of the tenant's of this name; NULL: none do.  Lent.
const pipeline_t *gathering_pipeline (const gathering_t *self, const tenant_t *tenant, const char *job_name);
//  Whether a job of one process may have the name that it asks for; it is free if nobody waits under it.
bool gathering_leaves_name (gathering_t *self, const draft_t *draft, int64_t now_ms, refusal_t *refusal);

//  A job whose ranks are all there.
typedef struct {
    draft_t *drafts [WIRE_RANKS_MAX];       //  by rank; the caller's
    uint32_t count;
    broker_join_t join;                     //  what they ask for together; lent by drafts and by this
    broker_position_t positions [WIRE_RANKS_MAX];
} gathered_t;

typedef enum {
    GATHERING_WAITS,                //  *draft_p was taken, and is NULL now
    GATHERING_COMPLETE,             //  the same, and *gathered is the caller's
    GATHERING_REFUSED               //  refusal says why; others that this ends have been told
} gathering_status_t;

//  A checked draft of a job with ranks.
gathering_status_t gathering_add (gathering_t *self, draft_t **draft_p, int64_t now_ms, gathered_t *gathered,
    refusal_t *refusal);
//  One that waits and is wanted: it waits no longer, and is the caller's.  NULL: none is.
draft_t *gathering_take (gathering_t *self, bool (*is_wanted) (void *context, const draft_t *draft), void *context);
//  Ends its drafts.
void gathered_clear (gathered_t *gathered);

//  Notices, and whoever has waited too long; at least twice a second.
void gathering_beat (gathering_t *self, int64_t now_ms);
//  Those of callers for whom is_gone says so are refused (`revoked`).
void gathering_forget (gathering_t *self, bool (*is_gone) (void *context, const caller_t *caller), void *context);
//  Everybody is refused: the server ends.
void gathering_stop (gathering_t *self);

//  The tenant's jobs that wait for ranks, and what is held for them; NULL: all.
size_t gathering_count (const gathering_t *self, const tenant_t *tenant);
size_t gathering_bytes (const gathering_t *self, const tenant_t *tenant);
//  [{"job": name, "world_size": 2, "missing": [1], "left": seconds}], of the tenant's (NULL: of all); for status; a new reference.
json_t *gathering_status (const gathering_t *self, const tenant_t *tenant, int64_t now_ms);
//  Aborts at a broken invariant.
void gathering_check (const gathering_t *self);

#endif
