/*  service -- between the ROUTER and the broker: answers clients' messages and carries out the broker's
 *  actions.
 *
 *  happy path:     JOIN -> ring + token -> JOINED .. the door says attached -> batches .. PROGRESS .. LEAVE
 *                  -> ENDED.  With ranks each JOIN waits until all have come (rendezvous.h); each rank has a
 *                  connection of its own.
 *                  What costs this thread much waits its turn (request_queue.h), so that no tenant has the
 *                  thread for itself.
 *  failure modes:  no ring to be had, or the client asks: INLINE.  A peer that cannot be sent to has left.
 *                  A message that makes no sense is answered by ERROR, one that is not ours, or nobody's, by
 *                  silence; so is what comes beyond a user's ration of errors (rations.h).  Who does not read
 *                  its answers gets no more (unread.h).
 *  on close:       service_stop tells every job, and leaves to living clients what they have mapped.
 *
 *  Owner: the broker's thread.
 */
#ifndef SERVICE_H
#define SERVICE_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>
#include "broker.h"
#include "ring_server.h"
#include "connection_limit.h"
#include "gate.h"
#include "idle.h"
#include "log.h"
#include "outbox.h"
#include "request.h"
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
    const idle_t *idle;         //  for status
    const gate_t *gate;         //  the same; NULL: without
    const connection_limit_t *connection_limit;       //  for status; never NULL
    //  Processor time of this thread; NULL: the system's.  For simulations.
    uint64_t (*nanoseconds) (void *clock);
    void *clock;
    uint64_t restarts;          //  by its supervisor, of this server before; for status
} service_options_t;

enum { SERVICE_MESSAGES_A_TURN = 256 };

service_t *service_new (const service_options_t *options);
//  After the ROUTER's context has ended: until then its threads count what they have sent.
void service_destroy (service_t **self_p);

//  Takes what has arrived at the ROUTER, at most SERVICE_MESSAGES_A_TURN and for about a millisecond; then a
//  slice of what waits is served (request_queue.h).  Returns how many it took.
int service_receive (service_t *self, int64_t now_ms);
//  When service_receive wants to be called again though nothing has arrived; INT64_MAX: never.
int64_t service_wakeup (const service_t *self);
//  Whether service_receive would take nothing now: do not wait for messages.
bool service_is_full (const service_t *self);
//  One message, as service_receive finds it: everything of foreign make enters here.  All is lent for the
//  call.
typedef struct {
    const peer_t *peer;
    uid_t uid;                  //  as tenants_caller takes it
    const char *key;
    const frame_t *frames;      //  the head's first
    size_t count;               //  of the message, which may be more than WIRE_FRAMES_MAX: so many of them
                                //  are there
    zmq_msg_t *messages;        //  that the frames lie in; large ones may be taken out of them.  NULL: they
                                //  lie elsewhere
} service_message_t;
void service_take (service_t *self, const service_message_t *message, int64_t now_ms);
//  A slice of what waits; service_receive does that.
void service_serve (service_t *self, int64_t now_ms);
//  Takes what the door has to say.
void service_attend (service_t *self, int64_t now_ms);
//  Tells the broker what workers have done, lets it advance, and carries out its actions until there are
//  none.
void service_act (service_t *self, int64_t now_ms);
//  About every half second: heartbeats for jobs that have no ring (yet), which is also how the death of one
//  is noticed.
void service_beat (service_t *self, int64_t now_ms);
//  Who uses the server: jobs that are there, and those whose ranks still gather.
uint64_t service_jobs (const service_t *self);
//  Somebody has asked it to drain (WIRE_DRAIN), and nobody uses it any more.
bool service_is_drained (const service_t *self);
//  Keys are no more: jobs of callers that are gone end (`revoked`), those that wait are forgotten; what else
//  such a connection sends is refused, as tenants_caller does not know its key any more.  Returns how many
//  jobs have ended.
size_t service_revoke (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context, int64_t now_ms);
//  Ends all jobs: ENDED "stopping" to each, and `stopping` for those who ask for something new from now on.
void service_stop (service_t *self, int64_t now_ms);

#endif
