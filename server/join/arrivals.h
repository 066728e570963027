/*  arrivals -- JOIN from the message to JOINED: jobs of one process, ranks that come together, ranks that
 *  come back.
 *
 *  happy path:     a plain job: arrivals_begin, its ids, arrivals_join: memory, token, a job -> JOINED.  A
 *                  rank: broker_returns says whether it returns to an existing job; otherwise it waits for
 *                  other ranks (rendezvous.h), and the last one makes the job.
 *  failure modes:  ERROR to the clients concerned.  If a rank returns while a worker still writes to its
 *                  former connection, it waits until that is reclaimed, which takes no longer than a copy;
 *                  after ARRIVALS_PATIENCE_MS it is refused (`busy`).
 *  on close:       arrivals_stop tells all waiting ranks.
 *
 *  Owner: the broker's thread.
 */
#ifndef ARRIVALS_H
#define ARRIVALS_H
#include <stdatomic.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "ring_server.h"
#include "join.h"
#include "log.h"
#include "outbox.h"
#include "tenants.h"

typedef struct arrivals arrivals_t;

enum { ARRIVALS_RETURNING_MAX = WIRE_RANKS_MAX, ARRIVALS_PATIENCE_MS = 5000 };

typedef struct {
    broker_t *broker;           //  all of these: lent until arrivals_destroy
    ring_server_t *ring_server;
    void *router;
    const char *ring_path;
    log_t *log;
    atomic_size_t *outgoing;    //  of each tenant, by number
    //  Carries out the broker's actions, and counts memory outside the broker (tenant_outside).
    void (*settle) (void *context);
    //  Called for a refusal that comes later than the answer to the message; this module tells the rank.
    void (*refused) (void *context, const caller_t *caller, const refusal_t *refusal);
    void *context;
    outbox_backlog_t *backlog;                  //  where answers are counted
} arrivals_options_t;

//  NULL: no memory.
arrivals_t *arrivals_new (const arrivals_options_t *options);
//  Waiting ranks are told nothing.
void arrivals_destroy (arrivals_t **self_p);

//  Whether the connection has no job, and waits for none.
bool arrivals_is_free (const arrivals_t *self, const peer_t *peer, const caller_t *caller,
    refusal_t *refusal);
//  Whether the client may join, and its request fits its data set.  The ids come next (join_read).  False:
//  refusal is the answer.
bool arrivals_begin (arrivals_t *self, join_t *join, int64_t now_ms, refusal_t *refusal);
//  Takes over the join with its ids.  True: it was answered, or will be.  False: refusal is the answer.
bool arrivals_join (arrivals_t *self, join_t *join, int64_t now_ms, refusal_t *refusal);
//  After the broker's actions: continues ranks that waited for them.  True: there may be new actions.
bool arrivals_act (arrivals_t *self, int64_t now_ms);
//  At least twice a second.
void arrivals_beat (arrivals_t *self, int64_t now_ms);
void arrivals_stop (arrivals_t *self);
//  Refuses the waiting ranks for which is_gone returns true.
void arrivals_forget (arrivals_t *self, bool (*is_gone) (void *context, const join_t *join), void *context,
    const refusal_t *refusal);
//  The broker drains: tells ranks that wait for others that the server is ending.  Ranks may still return to
//  existing jobs.
void arrivals_drain (arrivals_t *self);

//  The tenant's jobs that wait for ranks, and the bytes held for them; NULL: of all tenants.
size_t arrivals_count (const arrivals_t *self, const tenant_t *tenant);
size_t arrivals_bytes (const arrivals_t *self, const tenant_t *tenant);
//  The jobs on this data set that wait for ranks.
size_t arrivals_count_on (const arrivals_t *self, const dataset_t *dataset);
//  rendezvous_status.
json_t *arrivals_status (const arrivals_t *self, const tenant_t *tenant, int64_t now_ms);

#endif
