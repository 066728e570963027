/*  loader_thread -- a loader's own thread: the one owner of its DEALER socket and of the ring's Unix socket.
 *
 *  happy path:   JOINING: JOIN sent .. JOINED came, ring taken (or INLINE sent) .. RUNNING: batches in,
 *                PROGRESS out .. everything received and released, or the user stops: LEAVING: LEAVE sent ..
 *                ENDED came .. OVER.  A rank's JOIN is answered when all ranks have joined: until then,
 *                JOINING or AWAY, the server says every second that it waits.
 *  failure:      JOINING: refused, not admitted, no answer, an invalid answer: reported to the waiting
 *                thread, OVER.  If the server is only busy, or is opening the data set again, this thread
 *                first repeats the JOIN LOADER_THREAD_BUSY_TRIES times, after ever longer pauses.  JOINING:
 *                the server is gone before its answer, is ending, or does not listen yet: AWAY, as below, but
 *                with nothing received.
 *                RUNNING: the server is gone (its ring socket closed, the connection broke, or inline: silent
 *                for ten heartbeats), is ending, or does not know us any more: AWAY: this thread looks for a
 *                server, and joins again from what was received (rejoin.h) .. RUNNING.  Received batches stay
 *                readable.  RUNNING: the server ends the job for another reason, or breaks the protocol:
 *                FAILED.  As long as the server lives the sockets stay open, because their end would empty
 *                the ring.  AWAY: refused permanently, or the time is up: OVER; the user gets the received
 *                batches, then the error.  A rank that has received everything looks for the server as the
 *                others do: they cannot continue without it, and may lack steps that it has (recent_steps.h).
 *  on close:     loader_thread_destroy after batch_queue_stop: leaves the job if there is one, within
 *                LOADER_THREAD_LEAVE_MS.
 *
 *  A closed ring socket or connection is a symptom: the message that explains it (ENDED, "stopping") may
 *  still be on its way, so this thread waits LOADER_THREAD_GRACE_MS for it.
 */
#ifndef LOADER_THREAD_H
#define LOADER_THREAD_H
#include "batch_queue.h"
#include "credentials.h"
#include "job_options.h"
#include "question_queue.h"

typedef struct loader_thread loader_thread_t;

enum {
    LOADER_THREAD_LEAVE_MS = 2000,
    LOADER_THREAD_GRACE_MS = 300,
    LOADER_THREAD_SILENT_HEARTBEATS = 10,
    LOADER_THREAD_BUSY_TRIES = 4,       //  after LOADER_THREAD_BUSY_MS, and twice as long each time
    LOADER_THREAD_BUSY_MS = 250,
    LOADER_THREAD_GATHERING_MS = 3000   //  a server that waits for ranks says so again within this, at least
};

typedef struct {
    batch_queue_t *batches;             //  lent
    question_queue_t *questions;        //  lent
    const job_options_t *options;       //  lent
    const char *address;                //  copied
    const credentials_t *credentials;   //  copied, and wiped at the thread's end
    int timeout_ms;                     //  for the answer to a JOIN
    int rejoin_ms;                      //  how long to look for a server that is gone; 0: REJOIN_DEFAULT_MS;
                                        //  below 0: not at all
} loader_thread_setup_t;

//  Starts the thread, with every signal blocked; batch_queue_wait_open tells whether it joined.  0, or
//  -errno.
int loader_thread_new (loader_thread_t **self_p, const loader_thread_setup_t *setup) TUREEN_CHECKED;
//  Ends the thread, after batch_queue_stop (or if it never joined a job).
void loader_thread_destroy (loader_thread_t **self_p);

#endif
