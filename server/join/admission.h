/*  admission -- turns what clients ask for into a job, or into a rank of one: memory, token, and the text of
 *  JOINED.  */
#ifndef ADMISSION_H
#define ADMISSION_H
#include <stdint.h>
#include "broker.h"
#include "ring_server.h"
#include "join_request.h"
#include "log.h"

typedef struct {
    broker_t *broker;           //  this and the others: lent
    ring_server_t *ring_server;
    const char *ring_path;
    log_t *log;
    atomic_size_t *outgoing;    //  of each tenant, by number
    uint64_t keys;              //  keys given to connections so far; 0 at first
} admission_t;

//  The job that join describes, with a rank for each request, in their order; texts [rank] is its JOINED
//  (JSON, malloc'ed, the caller's).  NULL: refusal holds the reason, and nothing has changed.
job_t *admission_run (admission_t *self, const broker_join_t *join, join_request_t *const *join_requests,
    int64_t now_ms, char **texts, refusal_t *refusal);
//  A rank returns to its job, after broker_returns; *text_p as above.  NULL: refused.
rank_t *admission_return (admission_t *self, job_t *job, join_request_t *join_request, int64_t now_ms,
    char **text_p, refusal_t *refusal);

#endif
