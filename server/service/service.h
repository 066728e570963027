/*  service -- between the ROUTER and the broker: answers clients' messages and carries out the broker's
 *  actions.
 *
 *  happy path:     JOIN -> ring + token -> JOINED .. the ring server reports attached -> batches .. PROGRESS
 *                  .. LEAVE -> ENDED.  With ranks each JOIN waits until all have come (rank_gathering.h);
 *                  each rank has a connection of its own.  Requests that take this thread long wait their
 *                  turn (request_queue.h), so that no tenant has the thread to itself.
 *  failure modes:  no ring, or the client asks: INLINE.  A peer that cannot be sent to has left.  An invalid
 *                  message gets ERROR.  A message of another protocol, or of a caller without a tenant, gets
 *                  no answer; nor does an error beyond a user's limit (rejection_log.h).  A client that
 *                  does not read its answers gets no more (outbox.h).
 *  on close:       service_stop tells every job; living clients keep what they have mapped.
 *
 *  What comes in goes to its receiver (receiver.h); service.c has what goes out.  Owner: the broker's thread.
 */
#ifndef SERVICE_H
#define SERVICE_H
#include <stdbool.h>
#include <stdint.h>
#include "additions.h"
#include "broker.h"
#include "client_socket.h"
#include "connection_limit.h"
#include "dataset.h"
#include "log.h"
#include "memory_parts.h"
#include "receiver.h"
#include "ring_server.h"
#include "tasks.h"
#include "tenants.h"

typedef struct service service_t;

typedef struct {
    broker_t *broker;           //  all of these: lent until service_destroy
    tasks_t *tasks;
    ring_server_t *ring_server;
    void *router;               //  ROUTER, bound, with ROUTER_MANDATORY
    const char *ring_path;
    log_t *log;
    const tenants_t *tenants;
    const client_socket_t *client_socket;       //  for status; NULL: none
    const block_cache_t *block_cache;       //  for status, as the next two; NULL: none
    const memory_parts_t *memory;       //  of --memory
    cluster_t *cluster;
    customs_t *customs;
    additions_t *additions;     //  NULL: data sets are neither added nor removed
    const connection_limit_t *connection_limit;         //  for status; never NULL
    //  Processor time of this thread; NULL: the system's.  For simulations.
    uint64_t (*nanoseconds) (void *clock);
    void *clock;
    uint64_t restarts;          //  how often the supervisor has restarted this server; for status
} service_options_t;

service_t *service_new (const service_options_t *options);
//  Call it after the ROUTER's context has ended: until then its threads count what they have sent.
void service_destroy (service_t **self_p);

//  Receives messages from the ROUTER, at most RECEIVER_MESSAGES_A_TURN and for about a millisecond; then
//  serves waiting requests for a slice of time (request_queue.h).  Returns how many messages it received.
int service_receive (service_t *self, int64_t now_ms);
//  When to call service_receive again even if nothing has arrived; INT64_MAX: never.
int64_t service_wakeup (const service_t *self);
//  Whether service_receive would receive nothing now: do not poll for messages.
bool service_is_full (const service_t *self);
//  Handles one message, as service_receive finds it: all foreign input enters here.
void service_take (service_t *self, const receiver_message_t *message, int64_t now_ms);
//  Serves waiting requests for a slice of time; service_receive calls it.
void service_serve (service_t *self, int64_t now_ms);
//  Takes the ring server's events.
void service_attend (service_t *self, int64_t now_ms);
//  Reports the workers' results to the broker, advances it, and carries out its actions until there are none.
void service_act (service_t *self, int64_t now_ms);
//  Call it about every half second: sends heartbeats to jobs without a ring; a failed one shows that the
//  client is dead.
void service_beat (service_t *self, int64_t now_ms);
//  What `tureen status --json` says to the caller; a reference of yours, to all of it: nothing in it is kept.
json_t *service_status (service_t *self, const caller_t *caller, int64_t now_ms);
//  The jobs that use the server: those that exist, and those that wait for ranks.
uint64_t service_jobs (const service_t *self);
//  The same, and one more while a client waits for a data set that is being added: the server is not idle.
uint64_t service_uses (const service_t *self);
//  The server is to end limit_ms after its last job (--until-idle); 0: it never ends by itself.  The time
//  without a job also counts from now on, with a longer limit: a script that starts a server for a job needs
//  a while to import its libraries.
enum { SERVICE_IDLE_START_MS = 60000 };         //  until the first job has joined, at least
void service_begin_idle (service_t *self, int64_t limit_ms, int64_t now_ms);
//  Call it each turn.  True: no job needs the server any more, and it should end.
bool service_is_idle (service_t *self, int64_t now_ms);
//  When to call service_is_idle again if nothing happens; INT64_MAX: never.
int64_t service_idle_due_ms (const service_t *self);
//  An operator has asked the server to drain (WIRE_DRAIN), and no job uses it any more.
bool service_is_drained (const service_t *self);
//  An operator has asked for the end, whatever jobs are there, and the log says so.
bool service_ends_now (const service_t *self);
//  Keys were revoked: ends the jobs of their callers (`revoked`), and forgets their waiting joins.  Later
//  messages of such a connection are refused, because tenants_caller no longer knows its key.  Returns how
//  many jobs have ended.
size_t service_revoke (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context, int64_t now_ms);
//  Ends all jobs: sends ENDED "stopping" to each, and refuses new requests from now on (`stopping`).
void service_stop (service_t *self, int64_t now_ms);
//  Aborts at a broken invariant.
void service_check (const service_t *self);

#endif
