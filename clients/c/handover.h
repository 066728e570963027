/*  handover -- the one place where the courier (the loader's own thread) and the user's threads meet.
 *
 *  The courier puts what the server sent, the user takes it in that order and gives batches back in any; the
 *  courier looks at what that makes of the job's progress.  One mutex, one condition for those who wait for
 *  the courier, one eventfd to wake it in its poll; no socket is touched here.
 *
 *  A batch is one of as many as the window has slots, made once:
 *      FREE --put--> QUEUED --take--> GIVEN --release--> FREE
 *  Its content is the courier's while FREE, the user's while GIVEN, nobody's between.
 *
 *  Invariants, under the mutex:
 *    H1  released <= consumed <= put; none of the three goes back.
 *    H2  kept has the bits of the GIVEN batches whose sequence is below released, and no others.
 *    H3  the queue has at most HANDOVER_QUEUE_MAX entries; while it is full the courier reads no socket.
 *    H4  what is put after a failure is dropped; what was put before it is still taken.
 */
#ifndef HANDOVER_H
#define HANDOVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "message.h"
#include "tureen.h"
#include "wire.h"

typedef struct handover handover_t;

enum { HANDOVER_QUEUE_MAX = 256 };
_Static_assert ((int) HANDOVER_QUEUE_MAX > (int) WIRE_SLOTS_MAX, "a whole window can be queued");

//  NULL and errno: the system has no descriptor or memory.
handover_t *handover_new (void);
//  No batch may be GIVEN; no thread may be inside.  Frees the joined it was opened with.
void handover_destroy (handover_t **self_p);

//  --- For the courier.

//  The job is joined; takes *joined_p over.  base: the ring, or NULL for inline.  False: no memory, and
//  *joined_p is still the caller's.
bool handover_open (handover_t *self, message_joined_t **joined_p, uint8_t *base);
//  Ends the wait in handover_wait_open: with rc 0 after handover_open, or with -errno and why.
void handover_report (handover_t *self, int rc, const message_error_t *why);
//  The batch whose head came as frame 1 (validated); ids: frame 2; payload: frame 3 or NULL, which is moved
//  from.  False: the slot is not free (the server's mistake), or there is no memory for an unaligned payload.
bool handover_put_batch (handover_t *self, const wire_batch_t *head, const uint8_t *ids, zmq_msg_t *payload);
void handover_put_epoch_end (handover_t *self, const wire_epoch_end_t *epoch_end);
//  The job is lost; only the first reason counts.
void handover_fail (handover_t *self, const message_error_t *why);

typedef struct {
    wire_progress_t progress;
    bool full;                          //  the queue has no room
    bool leave;                         //  nothing more is wanted: stopped, or all had and released
    bool stop;                          //  handover_stop was called: come to an end
} handover_view_t;
//  Takes the wake-up back, then looks.
handover_view_t handover_look (handover_t *self);
//  Readable when it is worth a look.
int handover_descriptor (const handover_t *self);

//  --- For the user's threads.

//  Waits for handover_report: 0, or its -errno and why.
int handover_wait_open (handover_t *self, message_error_t *why);
//  The next event; timeout_ms below 0: waits for ever.  With nothing to take, it first wakes the courier if
//  that has not seen all of `consumed`.
tureen_event_t handover_take (handover_t *self, tureen_batch_t **batch_p, int timeout_ms);
void handover_release (handover_t *self, tureen_batch_t *batch);
//  Asks the courier to come to an end.  Asserts that no batch is GIVEN; queued ones are dropped.
void handover_stop (handover_t *self);
tureen_epoch_t handover_epoch (handover_t *self);
const char *handover_error (handover_t *self);
//  NULL before handover_open.
const message_joined_t *handover_joined (const handover_t *self);

#endif
