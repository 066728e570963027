/*  handover -- the one place where the loader's thread (loader_thread.h) and the user's threads meet.
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
 *    H1  of the present window: released <= consumed <= put; none of the three goes back.
 *    H2  kept has the bits of its GIVEN batches in slots with a sequence below released, and no others.
 *    H3  the queue has at most HANDOVER_QUEUE_MAX entries; while it is full the loader's thread reads no
 *        socket.
 *    H4  entries put after a failure are dropped; those put before it are still taken.
 *    H5  the position has exactly the entries taken off the queue, epoch ends included.
 */
#ifndef HANDOVER_H
#define HANDOVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "attach.h"
#include "message.h"
#include "position.h"
#include "tureen.h"
#include "wire.h"

typedef struct handover handover_t;
typedef struct window window_t;     //  what one joining gave: the ring and its batches

enum { HANDOVER_QUEUE_MAX = 256 };
_Static_assert ((int) HANDOVER_QUEUE_MAX > (int) WIRE_SLOTS_MAX, "a whole window can be queued");

//  NULL and errno: the system has no descriptor or memory.
handover_t *handover_new (void);
//  Passes notices that come while handover_wait_open waits to tell, in that thread, and does not keep them.
//  Call it before any thread uses the handover.
void handover_set_tell (handover_t *self, void (*tell) (void *context, const char *text), void *context);
//  No batch may be GIVEN; no thread may be inside.  Frees the windows and the position.
void handover_destroy (handover_t **self_p);

//  --- For the loader's thread.

//  Batches in no slot that are in use at a time.  A server sends no more than a window's worth and a few.
enum { WINDOW_LOOSE_MAX = 2 * WIRE_SLOTS_MAX };

//  Takes over *joined_p and *attach_p (NULL inside: none).  base: the ring's first byte, NULL: inline.  NULL:
//  no memory, and both are still the caller's.
window_t *handover_window_new (handover_t *handover, message_joined_t **joined_p, attach_t **attach_p,
    uint8_t *base, uint64_t sequence_base);
void handover_window_destroy (window_t **self_p);

//  The job is joined, or joined again after handover_retire: takes *window_p over.  position_p: of what the
//  user is given; taken over the first time, NULL later.
void handover_open (handover_t *self, window_t **window_p, position_t **position_p);
//  The job is lost and will be joined again: entries already put are still taken.
void handover_retire (handover_t *self);
//  There is nothing left to join for: every take is TUREEN_END.  Instead of all other calls; before any
//  thread uses the handover.
void handover_finish (handover_t *self);
//  Ends the wait in handover_wait_open: with rc 0 after handover_open, or with -errno and why.
void handover_report (handover_t *self, int rc, const message_error_t *why);
//  A batch that came (validated); payload: the message part with its bytes or NULL, which is moved from.
//  False: the slot is not free (the server's mistake), or there is no memory.
bool handover_put_batch (handover_t *self, const message_batch_t *from, zmq_msg_t *payload);
void handover_put_epoch_end (handover_t *self, const wire_epoch_end_t *epoch_end);
//  The job is lost; only the first reason counts.
void handover_fail (handover_t *self, const message_error_t *why);

typedef struct {
    wire_progress_t progress;
    bool full;                          //  the queue is full
    size_t queued;                      //  entries in it
    bool leave;                         //  leave the job: stopped, or everything received and released
    bool stop;                          //  handover_stop was called: come to an end
} handover_view_t;
//  Clears the wake-up, then reads the state.
handover_view_t handover_look (handover_t *self);
//  A notice, which the user gets once.
void handover_put_notice (handover_t *self, const char *text);
//  So many samples cannot be read, listed in json, which is taken over.  text becomes a notice if there are
//  more than in the last one.
void handover_put_unreadable (handover_t *self, uint64_t count, char *json, const char *text);
//  Readable when handover_look has news.
int handover_descriptor (const handover_t *self);

//  --- For the user's threads.

//  Wakes the loader's thread.
void handover_wake (handover_t *self);
//  Waits for handover_report, timeout_ms at most; true: it has come.
bool handover_wait_report (handover_t *self, int timeout_ms);
//  Waits for handover_report: 0, or its -errno and why.
int handover_wait_open (handover_t *self, message_error_t *why);
//  The next event; timeout_ms below 0: waits for ever.  With nothing to take, it first wakes the loader's
//  thread if that has not seen all of `consumed`.
tureen_event_t handover_take (handover_t *self, tureen_batch_t **batch_p, int timeout_ms);
void handover_release (handover_t *self, tureen_batch_t *batch);
//  Asks the loader's thread to end.  Asserts that no batch is GIVEN; drops queued ones.
void handover_stop (handover_t *self);
tureen_epoch_t handover_epoch (handover_t *self);
const char *handover_error (handover_t *self);
//  JOINED of the first window, lent for the handover's life; NULL before.
const message_joined_t *handover_joined (const handover_t *self);
//  The oldest notice that was not given yet, malloc'ed; NULL: none.
char *handover_take_notice (handover_t *self);
//  The json that was put last, malloc'ed; before any: one without samples.  NULL: no memory.
char *handover_unreadable (handover_t *self);

//  What the user has received, and the run.
typedef struct {
    uint64_t epoch;
    uint64_t batches;
    position_taken_t taken;               //  for position_taken_clear
    position_cut_t cut;                   //  likewise; with nodes
    char run [WIRE_RUN_BYTES + 1];
} handover_given_t;
//  False: no memory.
bool handover_given (handover_t *self, handover_given_t *given);

typedef struct {
    uint64_t job;                       //  the present one, 0: none
    uint64_t batches;                   //  given
    uint64_t samples;
    uint64_t joins;
    double waited_seconds;              //  of the user's threads in handover_take
} handover_figures_t;
handover_figures_t handover_figures (handover_t *self);

#endif
