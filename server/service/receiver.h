/*  receiver -- what clients ask, from the socket to the answer: a message comes in, its caller is found, its
 *  head is read, and its kind says what serves it.
 *
 *  happy path:     a cheap request is served at once, and so are an operator's (DRAIN, ADD, REMOVE).  An
 *                  expensive one (JOIN, STATUS, EXPLAIN, DATASET) waits in the queue (request_queue.h), and
 *                  so does any message that must not overtake it; the queue is served by weight over
 *                  tenants, a slice of time each turn.
 *  failure modes:  a caller without a tenant, or a message without our magic, gets no answer.  A line that is
 *                  full: `busy`.  More errors than a user's limit: counted, not answered (rejection_log.h).
 *  on close:       the queue is emptied: each request gets its answer, a JOIN `stopping`.
 *
 *  A service has one receiver (service.h).  Owner: the broker's thread.
 */
#ifndef RECEIVER_H
#define RECEIVER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <zmq.h>
#include <jansson.h>
#include "additions.h"
#include "admission.h"
#include "broker.h"
#include "explaining.h"
#include "log.h"
#include "outbox.h"
#include "request.h"
#include "ring_server.h"
#include "tasks.h"
#include "tenants.h"

typedef struct receiver receiver_t;

typedef struct {
    broker_t *broker;           //  all of these: lent until receiver_destroy
    tasks_t *tasks;
    ring_server_t *ring_server;
    void *router;
    log_t *log;
    const tenants_t *tenants;
    additions_t *additions;     //  NULL: data sets are neither added nor removed
    explaining_t *explaining;
    admission_t *admission;
    outbox_backlog_t *backlog;
    const int64_t *now_ms;      //  of this turn
    uint64_t (*nanoseconds) (void *clock);      //  as in service_options_t
    void *clock;
    //  Carries out the broker's actions.
    void (*carry_out) (void *context);
    //  What STATUS answers to the caller; a new reference.
    json_t *(*status) (void *context, const caller_t *caller);
    void *context;
} receiver_options_t;

enum { RECEIVER_MESSAGES_A_TURN = 256 };

//  NULL: no memory.
receiver_t *receiver_new (const receiver_options_t *options);
void receiver_destroy (receiver_t **self_p);

//  As service_receive, which calls it; so are the others up to receiver_revoke, of service.h's functions.
int receiver_receive (receiver_t *self);
int64_t receiver_wakeup (const receiver_t *self);
bool receiver_is_full (const receiver_t *self);
//  Everything is lent for the call.
typedef struct {
    const peer_t *peer;
    uid_t uid;                  //  as tenants_caller takes it
    const char *key;
    const frame_t *frames;      //  the head's first
    size_t count;               //  frames of the message; if more than WIRE_FRAMES_MAX, only so many are
                                //  present
    zmq_msg_t *messages;        //  the frames' memory; large ones may be moved out.  NULL: the frames lie
                                //  elsewhere
} receiver_message_t;
void receiver_take (receiver_t *self, const receiver_message_t *message);
void receiver_serve (receiver_t *self);
bool receiver_ends_now (const receiver_t *self);
size_t receiver_revoke (receiver_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context);

//  About twice a second.
void receiver_beat (receiver_t *self);
//  The processor time of this thread.
uint64_t receiver_nanoseconds (const receiver_t *self);
//  Charges to the tenant so much of this thread's time, because it held up the others: memory of its job was
//  given back.
void receiver_charge_reclaim (receiver_t *self, const tenant_t *tenant, uint64_t nanoseconds);
//  Counts and logs a refusal that another module tells the client.
void receiver_count_refusal (receiver_t *self, const caller_t *caller, const refusal_t *refusal);
//  Whether a client waits for a data set that is being added, or one is being opened again.
bool receiver_is_adding (const receiver_t *self);

//  Takes what has come, and empties the queue.  New requests are refused from now on (`stopping`).
void receiver_stop (receiver_t *self);
bool receiver_is_stopping (const receiver_t *self);
//  Serves all requests that wait: those behind a JOIN with ids that were being read, when they are read.
void receiver_empty (receiver_t *self);

//  For status: the tenant's refusals and waiting requests; those of all.
void receiver_describe_tenant (const receiver_t *self, json_t *object, const tenant_t *tenant);
void receiver_describe (const receiver_t *self, json_t *object);
//  Aborts at a broken invariant.
void receiver_check (const receiver_t *self);

#endif
