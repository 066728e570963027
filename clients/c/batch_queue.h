/*  batch_queue -- batches on their way from the loader's thread (loader_thread.h) to the user's threads, and
 *  back.
 *
 *  The loader's thread puts what the server sent; the user takes it in that order and gives batches back in
 *  any order; the loader's thread reads the job's progress from that.  One mutex, one condition for the
 *  user's threads that wait, one eventfd to wake the loader's thread in its poll; no socket is touched here.
 *
 *  A batch is one of as many as the window has slots, made once:
 *      FREE --put--> QUEUED --take--> GIVEN --release--> FREE
 *  The loader's thread owns its content while FREE, the user while GIVEN; in between no thread touches it.
 *  Batches in no slot (of ranks) are the same, but made when they come.  Each joining of the job has a
 *  window: the present one, which is filled, and retired ones with batches that the user still has.  All
 *  queued batches of a retired window are taken before any of a later one.
 *
 *  Invariants, under the mutex:
 *    Q1  of the present window: released <= consumed <= put; none of the three goes back.
 *    Q2  kept has the bits of its GIVEN batches in slots with a sequence below released, and no others.
 *    Q3  the queue has at most BATCH_QUEUE_MAX entries; while it is full the loader's thread reads no
 *        socket.
 *    Q4  entries put after a failure are dropped; those put before it are still taken.
 *    Q5  the position has exactly the entries taken off the queue, epoch ends included.
 */
#ifndef BATCH_QUEUE_H
#define BATCH_QUEUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "mapped_ring.h"
#include "message.h"
#include "position.h"
#include "tureen.h"
#include "wire.h"

typedef struct batch_queue batch_queue_t;
typedef struct window window_t;     //  what one joining gave: the ring and its batches

enum { BATCH_QUEUE_MAX = 256 };
_Static_assert ((int) BATCH_QUEUE_MAX > (int) WIRE_SLOTS_MAX, "a whole window can be queued");

//  NULL and errno: the system has no descriptor or memory.
batch_queue_t *batch_queue_new (void);
//  Passes notices that come while batch_queue_wait_open waits to tell, in that thread, and does not keep
//  them.  Call it before any thread uses the queue.
void batch_queue_set_tell (batch_queue_t *self, void (*tell) (void *context, const char *text),
    void *context);
//  No batch may be GIVEN; no thread may be inside.  Frees the windows and the position.
void batch_queue_destroy (batch_queue_t **self_p);

//  --- For the loader's thread.

//  Batches in no slot that are in use at a time.  A server sends no more than a window's worth and a few.
enum { WINDOW_LOOSE_MAX = 2 * WIRE_SLOTS_MAX };

//  Takes over *joined_p and *ring_p (NULL inside: none).  base: the ring's first byte, NULL: inline.  NULL:
//  no memory, and both are still the caller's.
window_t *batch_queue_window_new (batch_queue_t *queue, message_joined_t **joined_p, mapped_ring_t **ring_p,
    uint8_t *base, uint64_t sequence_base);

//  The job is joined, or joined again after batch_queue_retire: takes *window_p over.  position_p: of what
//  the user is given; taken over the first time, NULL later.
void batch_queue_open (batch_queue_t *self, window_t **window_p, position_t **position_p);
//  The job is lost and will be joined again: entries already put are still taken.
void batch_queue_retire (batch_queue_t *self);
//  There is nothing left to join for: every take is TUREEN_END.  Instead of all other calls; before any
//  thread uses the queue.
void batch_queue_finish (batch_queue_t *self);
//  Ends the wait in batch_queue_wait_open: with rc 0 after batch_queue_open, or with -errno and why.
void batch_queue_report (batch_queue_t *self, int rc, const message_error_t *why);
//  A batch that came (validated); payload: the message part with its bytes or NULL, which is moved from.
//  False: the slot is not free (the server's mistake), or there is no memory.
bool batch_queue_put_batch (batch_queue_t *self, const message_batch_t *from, zmq_msg_t *payload);
void batch_queue_put_epoch_end (batch_queue_t *self, const wire_epoch_end_t *epoch_end);
//  The job is lost; only the first reason counts.
void batch_queue_fail (batch_queue_t *self, const message_error_t *why);

typedef struct {
    wire_progress_t progress;
    bool full;                          //  the queue is full
    size_t queued;                      //  entries in it
    bool leave;                         //  leave the job: stopped, or everything received and released
    bool stop;                          //  batch_queue_stop was called: come to an end
} batch_queue_view_t;
//  Clears the wake-up, then reads the state.
batch_queue_view_t batch_queue_look (batch_queue_t *self);
//  A notice, which the user gets once.
void batch_queue_put_notice (batch_queue_t *self, const char *text);
//  So many samples cannot be read, listed in json, which is taken over.  text becomes a notice if there are
//  more than in the last one.
void batch_queue_put_unreadable (batch_queue_t *self, uint64_t count, char *json, const char *text);
//  Readable when batch_queue_look has news.
int batch_queue_descriptor (const batch_queue_t *self);

//  --- For the user's threads.

//  Wakes the loader's thread.
void batch_queue_wake (batch_queue_t *self);
//  Waits for batch_queue_report, timeout_ms at most; true: it has come.
bool batch_queue_wait_report (batch_queue_t *self, int timeout_ms);
//  Waits for batch_queue_report: 0, or its -errno and why.
int batch_queue_wait_open (batch_queue_t *self, message_error_t *why);
//  The next event; timeout_ms below 0: waits for ever.  With nothing to take, it first wakes the loader's
//  thread if that has not seen all of `consumed`.
tureen_event_t batch_queue_take (batch_queue_t *self, tureen_batch_t **batch_p, int timeout_ms);
//  Asks the loader's thread to end.  Asserts that no batch is GIVEN; drops queued ones.
void batch_queue_stop (batch_queue_t *self);
tureen_epoch_t batch_queue_epoch (batch_queue_t *self);
const char *batch_queue_error (batch_queue_t *self);
//  JOINED of the first window, lent for the queue's life; NULL before.
const message_joined_t *batch_queue_joined (const batch_queue_t *self);
//  The oldest notice that was not given yet, malloc'ed; NULL: none.
char *batch_queue_take_notice (batch_queue_t *self);
//  The json that was put last, malloc'ed; before any: one without samples.  NULL: no memory.
char *batch_queue_unreadable (batch_queue_t *self);

//  What the user has received, and the run.
typedef struct {
    uint64_t epoch;
    uint64_t batches;
    position_taken_t taken;             //  for position_taken_clear
    position_cut_t cut;                 //  likewise; with nodes
    char run [WIRE_RUN_BYTES + 1];
} batch_queue_given_t;
//  False: no memory.
bool batch_queue_given (batch_queue_t *self, batch_queue_given_t *given);

typedef struct {
    uint64_t job;                       //  the present one, 0: none
    uint64_t batches;                   //  given
    uint64_t samples;
    uint64_t joins;
    double waited_seconds;              //  of the user's threads in batch_queue_take
} batch_queue_figures_t;
batch_queue_figures_t batch_queue_figures (batch_queue_t *self);

#endif
