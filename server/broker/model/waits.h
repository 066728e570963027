/*  waits -- where a job's time goes: for each moment since its start, what it waited for.
 *
 *  The first job of an idle group draws nothing for a moment, in which others may join (draw_start): DRAW.
 *  No other draw is late: a job with credit draws in the same turn, whatever its tenant has and whatever
 *  reads fail.
 *
 *  While the client has not taken a ready batch, the job waits for its CLIENT.  Otherwise the next batch to
 *  be sent decides: its first row, in drawn order, that is neither filled nor a hole:
 *      READ     its sample's bytes are being read, or wait for it
 *      MEMORY   its version waits for memory of the prepared cache, which versions in use fill
 *      DECODE   its version is being prepared, or waits for a worker; or it waits to be written while
 *               preparing takes more of the workers' time than copies
 *      COPY     the private stage writes it, or waits for a worker that others' copies occupy
 *  If no row is pending, it is the padding that a rank lacks.  If there is none either, the job is short of
 *  credit: CLIENT again (the client holds all its slots, or has had everything).
 *
 *  A job with ranks waits for its CLIENT while each rank has an untaken batch, and while the job pauses for a
 *  rank.  Each of its ranks has sums of its own: of CLIENT while it has an untaken batch; else of the job's
 *  cause, or, if that is CLIENT and others of the job have untaken batches or are not there, of OTHER_RANK.
 *
 *  The broker judges at the end of each turn, and the result holds until the next turn's end: so the sums of
 *  a job add up to the time since its start, to the millisecond.  The search never looks at a filled row
 *  twice.  Owner: the broker's thread.
 */
#ifndef WAITS_H
#define WAITS_H
#include <stdint.h>
#include <jansson.h>
#include "broker.h"

typedef enum { WAITS_DRAW, WAITS_READ, WAITS_MEMORY, WAITS_DECODE, WAITS_COPY, WAITS_CLIENT, WAITS_KINDS,
    WAITS_OTHER_RANK = WAITS_KINDS, WAITS_RANK_KINDS } waits_kind_t;

//  How long batches were waited for, for each cause: in a bucket those that took no longer than its bound in
//  waits.c, and longer than the one before it; in the last one all that took longer.  A batch for which a
//  cause took no time at all is counted too.
enum { WAITS_BUCKETS = 10 };
typedef struct {
    uint64_t counts [WAITS_KINDS][WAITS_BUCKETS + 1];
    int64_t sums_ms [WAITS_KINDS];
} waits_histogram_t;

//  A job's; nothing but zeros when it joins.
typedef struct {
    bool runs;                  //  time counts
    int64_t spent_ms [WAITS_KINDS];
    int64_t counted_ms [WAITS_KINDS];   //  of these, by batches that were sent: in the histograms
    waits_histogram_t sent;     //  of its batches
    waits_kind_t kind;          //  since since_ms
    int64_t since_ms;
    uint32_t row;               //  of the next batch to be sent: the first row that may be open
} waits_t;

//  A rank's, of a job with several: the job's clock is its clock.
typedef struct {
    int64_t spent_ms [WAITS_RANK_KINDS];
    waits_kind_t kind;
} waits_of_rank_t;

//  Adds the time until now to what each job has waited for.
void waits_pass (broker_t *self, int64_t now_ms);
//  Finds what each job waits for from now on.
void waits_look (broker_t *self, int64_t now_ms);
//  {"draw": seconds, "read": .., "memory": .., "decode": .., "copy": .., "client": ..}; a new reference.
json_t *waits_status (const job_t *job, int64_t now_ms);
//  The same of a rank, and "other_rank".
json_t *waits_rank_status (const rank_t *rank, int64_t now_ms);
//  A batch is sent: what was waited for since the last one goes into the job's and the tenant's histogram.
void waits_count (job_t *job, waits_histogram_t *histogram);
void waits_histogram_add (waits_histogram_t *self, const waits_histogram_t *other);
//  {"bounds": [seconds, ..], "read": {"counts": [..], "sum": seconds}, ..}; counts: one more than bounds.  A
//  new reference.
json_t *waits_histogram_status (const waits_histogram_t *histogram);
//  The same of the job's batches, with every second bound from 10 ms on, and "batches": how many they are.
//  Causes that took no time are left out.
json_t *waits_job_histogram_status (const job_t *job);
//  The next batch to be sent is another one, or filled rows of it were emptied.
void waits_restart (job_t *job);
//  Asserts that no row before the first one that may be open is open.
void waits_check (const job_t *job);

#endif
