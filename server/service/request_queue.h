/*  request_queue -- requests that cost the broker's thread much wait here for their turn: by weight over
 *  tenants.
 *
 *  Each tenant has a line with its requests in the order of their arrival.  Lines take turns by the thread's
 *  time (fairness.h).  What a line was charged while it had no requests it owes later, but at most
 *  WAITING_DEBT_MAX: a tenant saves up no time, and does not pay for long for time that no other tenant
 *  wanted.  While two lines both have requests, the time spent on them, over their weights, differs by no
 *  more than one request of each and that debt.
 *
 *  Everything is bounded.  If a line is full of small requests, the connection with the most of them loses
 *  one to a new request of a connection with at least two fewer: so one user of a tenant, or one broken
 *  client, does not shut out the others.
 *
 *  Invariants, checked by request_queue_check ():
 *    W1  a line has at most WAITING_LINE_MAX requests, WAITING_CONNECTION_MAX of one connection; its small
 *        requests (up to WAITING_SMALL_BYTES) have at most WAITING_LINE_BYTES_MAX together, its large ones
 *        WAITING_LINE_LARGE_MAX unless there is one alone; the large requests of all lines WAITING_LARGE_MAX,
 *        unless there is one alone.
 *    W2  counts and bytes are those of the waiting requests.
 *    W3  the lines with requests take turns, except those with a held head.
 *  The queue knows no message, tenant or clock.  Owner: the broker's thread.
 */
#ifndef REQUEST_QUEUE_H
#define REQUEST_QUEUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct request_queue request_queue_t;

enum {
    WAITING_LINES_MAX = 64,
    WAITING_LINE_MAX = 256,                 //  as many JOINs as a data set can have jobs may come at once
    WAITING_CONNECTION_MAX = 32,
    WAITING_SMALL_BYTES = 1 << 20,
    WAITING_LINE_BYTES_MAX = 8 << 20,
    WAITING_LINE_LARGE_MAX = 128 << 20,
    WAITING_LARGE_MAX = 256 << 20,
    WAITING_DEBT_MAX = 100 << 20            //  in the caller's unit of cost: nanoseconds, so a tenth of a
                                            //  second
};

//  A waiting request, embedded in the caller's structure.  The caller owns it before the put and after the
//  take.
typedef struct waiting {
    uint64_t connection;                    //  key of its connection; two connections hardly ever share one
    size_t bytes;                           //  memory held for it
    bool is_first;                          //  no other message of its connection may overtake it
                                            //  (request_queue_holds_back)
    uint32_t line;                          //  the queue's from here on
    struct waiting *before, *after;
} waiting_t;

//  NULL: no memory.
request_queue_t *request_queue_new (void);
//  The queue must be empty.
void request_queue_destroy (request_queue_t **self_p);

//  Appends the request to its line.  weight: the line's, 1 or more.  Returns the request that finds no room,
//  this one or another, which is the caller's again; NULL: none.
waiting_t *request_queue_put (request_queue_t *self, uint32_t line, uint32_t weight, waiting_t *request);
//  Takes out the next request, which is the caller's again; NULL: none waits.
waiting_t *request_queue_take (request_queue_t *self);
//  The request just taken is not finished yet: it returns to its line's head, and blocks its line until
//  request_queue_release takes it for good.  At most one for each line.
void request_queue_hold (request_queue_t *self, waiting_t *request);
void request_queue_release (request_queue_t *self, waiting_t *request);
//  Takes out a request for which is_gone returns true, but none that is held; NULL: none.
waiting_t *request_queue_take_if (request_queue_t *self,
    bool (*is_gone) (void *context, const waiting_t *request), void *context);
//  Charges the line for work: for a request that was taken, or for something else.
void request_queue_charge (request_queue_t *self, uint32_t line, uint32_t weight, uint64_t cost);

//  Whether a request of this connection with is_first waits.  The second: whether any request of it waits.
bool request_queue_holds_back (const request_queue_t *self, uint32_t line, uint64_t connection);
bool request_queue_has (const request_queue_t *self, uint32_t line, uint64_t connection);
size_t request_queue_count (const request_queue_t *self);
//  Whether request_queue_take would find a request.
bool request_queue_has_next (const request_queue_t *self);
size_t request_queue_line_count (const request_queue_t *self, uint32_t line);
size_t request_queue_bytes (const request_queue_t *self);
//  Aborts at a broken invariant.
void request_queue_check (const request_queue_t *self);

#endif
