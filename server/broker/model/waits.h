/*  waits -- where a job's time goes: for each moment since its start, what it waited for.
 *
 *  While a batch lies ready that the client has not taken, the job waits for its CLIENT.  Else it is decided
 *  by the next batch to be sent, and there by the first place, in drawn order, that is neither filled nor a
 *  hole:
 *      DISK     its sample's bytes are being read, or wait for it
 *      DECODE   its version is being prepared, or is to be handed to a worker
 *      COPY     the private stage writes it, or is to
 *  If no row is pending, the job is short of credit: CLIENT again (the client holds all its slots, or has had
 *  everything).
 *
 *  A job with ranks waits for its CLIENT while each of them has a batch that it has not taken, and while it
 *  stands still for one of them.
 *
 *  The broker looks at the end of each turn, and the finding holds until the next look: so the sums of a job
 *  add up to the time since its start, to the millisecond.  Each row is looked at once on the way, however
 *  often that is.
 *  Owner: the broker's thread.
 */
#ifndef WAITS_H
#define WAITS_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"

typedef enum { WAITS_DISK, WAITS_DECODE, WAITS_COPY, WAITS_CLIENT, WAITS_KINDS } waits_kind_t;

//  A job's; nothing but zeros when it joins.
typedef struct {
    bool runs;                  //  time counts
    int64_t spent_ms [WAITS_KINDS];
    waits_kind_t kind;          //  since since_ms
    int64_t since_ms;
    uint32_t place;             //  of the next batch to be sent, the first that may be open
} waits_t;

//  The time until now goes to what each job has waited for.
void waits_pass (broker_t *self, int64_t now_ms);
//  What each waits for from now on.
void waits_look (broker_t *self, int64_t now_ms);
//  {"disk": seconds, "decode": .., "copy": .., "client": ..}; a new reference.
json_t *waits_status (const job_t *job, int64_t now_ms);
//  Another batch is the next to be sent, or places of it that were filled are not any more.
void waits_restart (job_t *job);
//  What lies before the first place that may be open is not open.
void waits_check (const job_t *job);

#endif
