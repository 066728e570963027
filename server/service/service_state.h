/*  service_state -- what a service is made of.  Its sources stand one above the other: service.c (actions,
 *  status), service_messages.c (requests).  */
#ifndef SERVICE_STATE_H
#define SERVICE_STATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "service.h"
#include "arrivals.h"
#include "side_jobs.h"
#include "connection.h"
#include "explaining.h"
#include "ring.h"
#include "inbound_message.h"
#include "rejection_log.h"
#include "send_backlog.h"
#include "request_queue.h"

struct service {
    service_options_t options;
    bool stopping;
    bool ends_now;                      //  an operator has asked for it
    int64_t now_ms;             //  of this turn
    int64_t adding_until_ms;    //  a client waits for a data set that is being added
    side_jobs_t *side_jobs;
    explaining_t *explaining;
    arrivals_t *arrivals;
    ring_closing_t closing_rings;
    atomic_size_t outgoing [BROKER_TENANTS_MAX];    //  bytes of inline batches of each tenant that ZeroMQ has
                                                    //  not sent yet; its threads count down
    //  requests: those that wait, and answers
    request_queue_t *request_queue;
    join_t *reading [BROKER_TENANTS_MAX];      //  for each tenant, the JOIN with ids that a
                                //  worker reads, NULL: none; it is held at the head of its tenant's line
    inbound_message_t *stuck;   //  with one tenant: a message that found the queue full; nothing is received
                                //  until it is in
    int64_t resting_until_ms;   //  no request is taken from the queue before
    uint64_t rest_ns;           //  still to be paused: less than a millisecond
    uint64_t reclaimed_ns;      //  charged for reclaims so far
    error_rate_limit_t error_rate_limit;
    rejection_log_t *rejection_log;
    send_backlog_t *send_backlog;
    uint64_t ignored, strangers;        //  messages of another protocol, or of callers without a tenant
    uint64_t dropped [REJECTION_LOG_LINES_MAX];     //  refusals that were not sent, by tenant
    //  scratch for one batch
    uint32_t *rows;
    uint64_t *ids;
};

//  A rank in the log: fields, and "job 3", or "job 3, rank 1" if there are several.
enum { SERVICE_LABEL_FIELDS = 6 };
typedef struct {
    char text [64];
    log_field_t fields [SERVICE_LABEL_FIELDS];
} service_label_t;

//  reason: NULL, or one of the server's own words.
void service_label (const service_t *self, rank_t *rank, const char *reason, service_label_t *label);

void service_carry_out_all (service_t *self);
//  Reports memory that counts in the budget of jobs and belongs to no job.
void service_count_outside (service_t *self);

//  Counts and logs a refusal, and answers it if the caller is below its limit of errors.
void service_refuse (service_t *self, const inbound_message_t *inbound, const refusal_t *refusal);
//  The processor time of this thread; and a charge of so much of it to one tenant, because it held up the
//  others.
uint64_t service_nanoseconds (const service_t *self);
//  The processor time without reclaims, which are charged separately: for the difference between two calls.
uint64_t service_unreclaimed_ns (const service_t *self);
void service_charge (service_t *self, const tenant_t *tenant, uint64_t nanoseconds);
//  Of the tenant's line in the queue.
uint32_t service_weight (const service_t *self, const tenant_t *tenant);

//  The counter for answers to this connection; NULL: refused, because it does not read its answers.
atomic_size_t *service_account (service_t *self, const inbound_message_t *inbound, refusal_t *refusal);
//  Always false.
bool service_refuse_revoked (refusal_t *refusal);
bool service_refuse_stopping (refusal_t *refusal);

//  For service_stop: tells all clients, ends their jobs and the workers; afterwards frees what jobs had.
void service_end_jobs (service_t *self);
void service_reclaim_all (service_t *self);

#endif
