/*  service -- between the ROUTER and the broker: answers clients' messages and carries out the broker's actions.
 *
 *  happy path:     JOIN -> ring + token -> JOINED .. the door says attached -> batches .. PROGRESS .. LEAVE
 *                  -> ENDED.  With ranks each JOIN waits until all have come (gathering.h); each rank has a connection of its
 *                  own.
 *  failure modes:  no ring to be had, or the client asks: INLINE.  A peer that cannot be sent to has left.
 *                  A message that makes no sense is answered by ERROR, one that is not ours by silence.
 *  on close:       service_stop tells every job, and leaves to living clients what they have mapped.
 *
 *  Owner: the broker's thread.
 */
#ifndef SERVICE_H
#define SERVICE_H
#include <stdint.h>
#include "broker.h"
#include "door.h"
#include "idle.h"
#include "log.h"
#include "tasks.h"
#include "tenants.h"

typedef struct service service_t;

typedef struct {
    broker_t *broker;           //  all of these: lent until service_destroy
    tasks_t *tasks;
    door_t *door;
    void *router;               //  ROUTER, bound, with ROUTER_MANDATORY
    const char *ring_path;
    log_t *log;
    const tenants_t *tenants;
    const idle_t *idle;         //  for status
} service_options_t;

enum { SERVICE_MESSAGES_A_TURN = 16 };      //  a JOIN that is hard to parse takes milliseconds

service_t *service_new (const service_options_t *options);
//  After the ROUTER's context has ended: until then its threads count what they have sent.
void service_destroy (service_t **self_p);

//  Takes what has arrived at the ROUTER, at most SERVICE_MESSAGES_A_TURN.  Returns how many it took.
int service_receive (service_t *self, int64_t now_ms);
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
//  Ends all jobs: ENDED "stopping" to each, and `stopping` for those who ask for something new from now on.
void service_stop (service_t *self, int64_t now_ms);

#endif
