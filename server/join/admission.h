/*  admission -- JOIN from the message to JOINED: jobs of one process, ranks that come together, ranks that
 *  come back.
 *
 *  happy path:     a plain job: admission_begin, its ids, admission_join: memory, token, a job -> JOINED.  A
 *                  rank: broker_returns says whether it returns to an existing job; otherwise it waits for
 *                  other ranks (rank_gathering.h), and the last one makes the job.
 *  failure modes:  ERROR to the clients concerned.  If a rank returns while a worker still writes to its
 *                  former connection, it waits until that is reclaimed, which takes no longer than a copy;
 *                  after ADMISSION_PATIENCE_MS it is refused (`busy`).
 *  on close:       admission_stop tells all waiting ranks.
 *
 *  Owner: the broker's thread.
 */
#ifndef ADMISSION_H
#define ADMISSION_H
#include <stdatomic.h>
#include <stdint.h>
#include <jansson.h>
#include "additions.h"
#include "broker.h"
#include "join.h"
#include "log.h"
#include "outbox.h"
#include "ring_server.h"
#include "tenants.h"

typedef struct admission admission_t;

enum { ADMISSION_RETURNING_MAX = WIRE_RANKS_MAX, ADMISSION_PATIENCE_MS = 5000 };

typedef struct {
    broker_t *broker;           //  all of these: lent until admission_destroy
    ring_server_t *ring_server;
    void *router;
    const char *ring_path;
    log_t *log;
    const additions_t *additions;       //  or NULL
    atomic_size_t *outgoing;    //  of each tenant, by number
    //  Carries out the broker's actions, and counts memory outside the broker (tenant_outside).
    void (*settle) (void *context);
    //  Called for a refusal that comes later than the answer to the message; this module tells the rank.
    void (*refused) (void *context, const caller_t *caller, const refusal_t *refusal);
    void *context;
    outbox_backlog_t *backlog;                  //  where answers are counted
} admission_options_t;

//  NULL: no memory.
admission_t *admission_new (const admission_options_t *options);
//  Waiting ranks are told nothing.
void admission_destroy (admission_t **self_p);

//  The JOIN of this client, which are the frames: the client may join, and its request fits its data set.
//  The ids come next.  NULL: refusal is the answer.
join_t *admission_begin (admission_t *self, const frame_t *frames, size_t count, const peer_t *peer,
    const caller_t *caller, uint64_t tag, int64_t now_ms, refusal_t *refusal);
//  Takes over the join.  frames: its ids are read here; NULL: they are read already (join_read).  True: it
//  was answered, or will be.  False: refusal is the answer.
bool admission_join (admission_t *self, join_t *join, const frame_t *frames, int64_t now_ms,
    refusal_t *refusal);
//  After the broker's actions: continues ranks that waited for them.  True: there may be new actions.
bool admission_act (admission_t *self, int64_t now_ms);
//  At least twice a second.
void admission_beat (admission_t *self, int64_t now_ms);
void admission_stop (admission_t *self);
//  Refuses the waiting ranks for which is_gone returns true.
void admission_forget (admission_t *self, bool (*is_gone) (void *context, const join_t *join), void *context,
    const refusal_t *refusal);
//  The broker drains: tells ranks that wait for others that the server is ending.  Ranks may still return to
//  existing jobs.
void admission_drain (admission_t *self);

//  The tenant's jobs that wait for ranks, and the bytes held for them; NULL: of all tenants.
size_t admission_count (const admission_t *self, const tenant_t *tenant);
size_t admission_bytes (const admission_t *self, const tenant_t *tenant);
//  The jobs on this data set that wait for ranks.
size_t admission_count_on (const admission_t *self, const dataset_t *dataset);
//  rank_gathering_status.
json_t *admission_status (const admission_t *self, const tenant_t *tenant, int64_t now_ms);

#endif
