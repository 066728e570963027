/*  handover -- the one place where the courier (the loader's own thread) and the user's threads meet.
 *
 *  The courier puts what the server sent, the user takes it in that order and gives batches back in any; the
 *  courier looks at what that makes of the job's progress.  One mutex, one condition for those who wait for
 *  the courier, one eventfd to wake it in its poll; no socket is touched here.
 *
 *  A batch is one of as many as the window has slots, made once (window.h):
 *      FREE --put--> QUEUED --take--> GIVEN --release--> FREE
 *  Its content is the courier's while FREE, the user's while GIVEN, nobody's between.  Batches in no slot (of
 *  ranks) are the same, but made when they come.
 *  There is one window for each time that the job was joined: the present one, which is put into, and retired
 *  ones that the user has not done with.  All that is queued of a retired one is taken before anything of a
 *  later one.
 *
 *  Invariants, under the mutex:
 *    H1  of the present window: released <= consumed <= put; none of the three goes back.
 *    H2  kept has the bits of its GIVEN batches in slots whose sequence is below released, and no others.
 *    H3  the queue has at most HANDOVER_QUEUE_MAX entries; while it is full the courier reads no socket.
 *    H4  what is put after a failure is dropped; what was put before it is still taken.
 *    H5  the course says what was taken off the queue, epoch ends included, and nothing else.
 */
#ifndef HANDOVER_H
#define HANDOVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>
#include "course.h"
#include "message.h"
#include "tureen.h"
#include "wire.h"

typedef struct handover handover_t;
struct window;

enum { HANDOVER_QUEUE_MAX = 256 };
_Static_assert ((int) HANDOVER_QUEUE_MAX > (int) WIRE_SLOTS_MAX, "a whole window can be queued");

//  NULL and errno: the system has no descriptor or memory.
handover_t *handover_new (void);
//  The notices that come while handover_wait_open waits are given to tell, in that thread, and not kept.
//  Before any thread is inside.
void handover_set_tell (handover_t *self, void (*tell) (void *context, const char *text), void *context);
//  No batch may be GIVEN; no thread may be inside.  Frees the windows and the course.
void handover_destroy (handover_t **self_p);

//  --- For the courier.

//  The job is joined, or joined again after handover_retire: takes *window_p over.  course_p: of what the
//  user is given;
//  taken over the first time, NULL later.
void handover_open (handover_t *self, struct window **window_p, course_t **course_p);
//  The job is lost and will be joined again: what was put is still taken.
void handover_retire (handover_t *self);
//  There is nothing to join for: every take is TUREEN_END.  Instead of all else; before any thread is inside.
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
    bool full;                          //  the queue has no room
    size_t queued;                      //  entries in it
    bool leave;                         //  nothing more is wanted: stopped, or all had and released
    bool stop;                          //  handover_stop was called: come to an end
} handover_view_t;
//  Takes the wake-up back, then looks.
handover_view_t handover_look (handover_t *self);
//  For the user, who is told it once.
void handover_put_notice (handover_t *self, const char *text);
//  So many samples cannot be read: json, taken over, says which.  Text is a notice, if there are more than
//  were told before.
void handover_put_unreadable (handover_t *self, uint64_t count, char *json, const char *text);
//  Readable when it is worth a look.
int handover_descriptor (const handover_t *self);

//  --- For the user's threads.

//  Makes the courier look.
void handover_wake (handover_t *self);
//  Waits for handover_report, timeout_ms at most; true: it has come.
bool handover_wait_report (handover_t *self, int timeout_ms);
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
//  Of the first window, for as long as the handover is there; NULL before.
const message_joined_t *handover_joined (const handover_t *self);
//  The oldest notice that was not told yet, malloc'ed; NULL: none.
char *handover_take_notice (handover_t *self);
//  The json that was put last, malloc'ed; none: that of no samples.  NULL: no memory.
char *handover_unreadable (handover_t *self);

//  What the user has been given, and under which run.
typedef struct {
    uint64_t epoch;
    uint64_t batches;
    course_taken_t taken;               //  for course_taken_clear
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
