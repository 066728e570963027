/*  service_state -- what a service is made of: for service.c (actions), service_messages.c (requests) and
 *  service_status.c.  */
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
#include "closing_rings.h"
#include "inbound_message.h"
#include "error_rate_limit.h"
#include "rejection_log.h"
#include "send_backlog.h"
#include "request_queue.h"

struct service {
    service_options_t options;
    bool stopping;
    int64_t now_ms;             //  of this turn
    side_jobs_t *side_jobs;
    explaining_t *explaining;
    arrivals_t *arrivals;
    closing_rings_t closing_rings;
    atomic_size_t outgoing [BROKER_TENANTS_MAX];    //  bytes of inline batches of each tenant that ZeroMQ has
                                                    //  not sent yet; its threads count down
    //  requests: those that wait, and answers
    request_queue_t *room;
    struct reading_join *reading [BROKER_TENANTS_MAX];      //  a JOIN of each tenant whose ids a worker
                                                            //  reads, NULL: none; it is its line's head, and
                                                            //  held
    inbound_message_t *stuck;              //  one that found the room full, where there is one tenant;
                                           //  nothing is received until it is in
    int64_t resting_until_ms;   //  nobody is taken from the room before
    uint64_t rest_ns;           //  that are to be rested besides: less than a millisecond
    uint64_t reclaimed_ns;         //  charged for reclaims so far
    error_rate_limit_t error_rate_limit;
    rejection_log_t *rejection_log;
    send_backlog_t *unread;
    uint64_t ignored, strangers;        //  messages that are not ours, or nobody's
    uint64_t dropped [REJECTION_LOG_LINES_MAX];      //  refusals that were not sent, by tenant
    //  scratch for one batch
    uint32_t *rows;
    uint64_t *ids;
};

//  What the log says of a rank: fields, and "job 3" or where there are several "job 3, rank 1".
typedef struct {
    char text [64], user [24];
    log_field_t fields [6];
} service_label_t;

void service_label (const service_t *self, rank_t *rank, service_label_t *label);
//  The tenant's name in the log; NULL: there is only one.
const char *service_tenant_name (const service_t *self, const tenant_t *tenant);

void service_carry_out_all (service_t *self);
//  What counts in the budget of jobs, and is no job's.
void service_count_outside (service_t *self);

//  Counts a refusal, tells the log of it, and answers it if the caller has not had too many.
void service_refuse (service_t *self, const inbound_message_t *inbound, const refusal_t *refusal);
//  What this thread has worked, and that so much of it was done for one tenant and held up the others.
uint64_t service_nanoseconds (const service_t *self);
//  The same without reclaims, which are charged by themselves: for what lies between two looks.
uint64_t service_unreclaimed_ns (const service_t *self);
void service_charge (service_t *self, const tenant_t *tenant, uint64_t nanoseconds);
//  All requests that wait are handled; or those of callers that are gone are refused (is_gone NULL: all go
//  without a word).
void service_empty_room (service_t *self);
void service_forget_mail (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context);

//  Where the answer to this connection is counted; NULL: refused, it does not read what it has.
atomic_size_t *service_account (service_t *self, const inbound_message_t *inbound, refusal_t *refusal);
//  Always false.
bool service_refuse_revoked (refusal_t *refusal);
bool service_refuse_stopping (refusal_t *refusal);

//  ---- service_joins.c
//  mail is kept, and has just been taken from the room.  True: it was answered, or will be, perhaps later
//  (service_is_reading: the mail is not the caller's any more).  False: refusal is the answer.
bool service_join (service_t *self, inbound_message_t *inbound, refusal_t *refusal);
bool service_is_reading (const service_t *self, const inbound_message_t *inbound);
//  Those of callers that are gone will be refused.
void service_revoke_reading (service_t *self, bool (*is_gone) (void *context, const caller_t *caller),
    void *context);

//  STATUS_REPLY: JSON, malloc'ed, the caller's.  NULL: no memory.
char *service_status (service_t *self, const caller_t *caller, int64_t now_ms);

#endif
