/*  remote_worker -- one worker on another machine, as the server sees it: its state, its figures, its credit.
 *
 *  States, and the ways between them:
 *      CHALLENGED  it has been sent a number for its golden samples     -> CHECKED, REFUSED
 *      CHECKED     it has answered, and the server makes the same       -> WORKING, REFUSED
 *      WORKING     it gets tasks                                        -> STALLED, REFUSED
 *      STALLED     a task came back too late: it gets none              -> WORKING, REFUSED
 *      REFUSED     it is told why, and is remembered for a while
 *  Plain data, owned by remote_workers.c.
 */
#ifndef REMOTE_WORKER_H
#define REMOTE_WORKER_H
#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include "build_check.h"
#include "outbox.h"
#include "work_message.h"

enum { REMOTE_WORKER_WRONG_MAX = 3 };   //  the server dismisses a worker with its third wrong result

typedef enum {
    REMOTE_WORKER_FREE, REMOTE_WORKER_CHALLENGED, REMOTE_WORKER_CHECKED, REMOTE_WORKER_WORKING,
    REMOTE_WORKER_STALLED, REMOTE_WORKER_REFUSED
} remote_worker_state_t;

typedef struct {
    remote_worker_state_t state;
    uint64_t number;                    //  of all that said hello
    peer_t peer;
    uint64_t user;                      //  caller_t
    char name [REQUEST_NAME_BYTES_MAX + 1];
    char libraries [WORK_TEXT_BYTES];
    char reason [WORK_REASON_BYTES];  //  REFUSED: why
    uint32_t processors;                //  that it has
    uint32_t granted;                   //  of them, as far as the server takes them
    size_t datasets;                    //  that it reads by itself, by their fingerprints; "": it cannot
    char fingerprints [WIRE_WORK_DATASETS_MAX][WIRE_WORK_FINGERPRINT + 1];
    uint64_t nonce;
    uint64_t digests [BUILD_CHECK_SAMPLES];  //  its answer
    int64_t begun_ms, heard_ms;
    uint32_t known [WIRE_WORK_PIPELINES_MAX];   //  numbers of pipelines, each in its place
    size_t out;                         //  tasks that it has, those among them that others do by now
    uint64_t out_bytes;                 //  of their versions
    //  measured; 0: unknown yet
    double task_ns;                     //  processor time of a task, a running mean
    double trip_ns;                     //  on the way, a task and its answer; a running mean
    double turn_ns;                     //  from handing out a task to its answer, a running mean
    double rate;                        //  tasks a second
    uint64_t rated_done;
    int64_t rated_ms;
    double window;                      //  bound of its credit since tasks were taken back; 0: none
    uint64_t window_number;             //  tasks up to this number have narrowed it already
    int64_t rests_until_ms;             //  it answered without a result, and gets no task until then
    uint64_t empty_handed;              //  answers without a result since the last one with one
    uint64_t wrong;                     //  results that the server found wrong
    uint64_t done, late, lost, taken_back, read, bytes_sent, bytes_received;
} remote_worker_t;

//  Moves to another state; a way that is not above is a bug, asserted.
void remote_worker_move (remote_worker_t *self, remote_worker_state_t state);
//  It was wrong so often that it gets no task any more; a person should see it.
bool remote_worker_is_dismissed (const remote_worker_t *self);
//  How many tasks it may have at once.
size_t remote_worker_credit (const remote_worker_t *self);
//  How long one more task would take, in nanoseconds.
double remote_worker_wait_ns (const remote_worker_t *self);
//  A task that is out for so long is handed out again.
int64_t remote_worker_late_ms (const remote_worker_t *self);
//  The place of the data set among those that it reads by itself; SIZE_MAX: it must be sent the bytes.
size_t remote_worker_dataset (const remote_worker_t *self, const char *fingerprint);
//  Takes in an answer: after turn_ns, of which the worker had it for held_ns, its processor for worker_ns.
void remote_worker_learn (remote_worker_t *self, double turn_ns, double held_ns, double worker_ns);
//  Its task of that number was taken back, because a thread of the server waited for it; last_number: of the
//  last task that was given to any worker.
void remote_worker_learn_taken_back (remote_worker_t *self, uint64_t number, uint64_t last_number);
//  It answered, and had no memory or could not read the files.
void remote_worker_learn_empty_handed (remote_worker_t *self, int64_t now_ms);
//  A task was out for so long, and did not come: the next ones are waited for longer.
void remote_worker_learn_late (remote_worker_t *self, double turn_ns);
//  Looks how many tasks a second it does; call it about once a second.
void remote_worker_rate (remote_worker_t *self, int64_t now_ms);
//  The worker in `status`; a new reference.
json_t *remote_worker_status (const remote_worker_t *self);

#endif
