/*  remote_workers -- workers on other machines: lets them in, hands tasks to them, takes results back.
 *
 *  happy path:     HELLO -> CHALLENGE -> ANSWER -> the same golden samples in a thread of the server (check,
 *                  remote_workers_checked) -> WELCOME; remote_workers_give: PIPELINE, TASK -> RESULT -> done
 *  failure modes:  a worker that is silent, or cannot be sent to: its tasks are done (result NULL: undone).
 *                  A task that is late: the same, and the worker gets none until it answers something.  A
 *                  task that the caller could do by now: done undone.  An answer that comes later:
 *                  dropped.  Another build, a result of a wrong size, or
 *                  REMOTE_WORKER_WRONG_MAX results that the caller found wrong: REFUSED, and its tasks are
 *                  done undone.  An answer without a result: the worker gets no task for a moment, longer
 *                  with each that follows.
 *  on close:       remote_workers_stop gives every task back undone.
 *
 *  The caller keeps a task's bytes until it is done.  Time comes in by now_ms and nanoseconds of the options,
 *  so tests have a clock of their own.
 *
 *  Invariants, checked by remote_workers_check ():
 *    W1  a worker has as many tasks out as the table has tasks of it, those that were taken back and that it
 *        has not answered among them; and only a worker that works or is stalled has some.
 *    W2  the processors that are lent are those that workers were granted, at most WIRE_WORK_PROCESSORS_MAX.
 *  Owner: the broker's thread, which owns the ROUTER.
 */
#ifndef REMOTE_WORKERS_H
#define REMOTE_WORKERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "broker.h"
#include "build_check.h"
#include "catalogue.h"
#include "dataset.h"
#include "log.h"
#include "outbox.h"
#include "request.h"
#include "work_message.h"

typedef struct remote_workers remote_workers_t;

enum {
    REMOTE_WORKERS_MAX = 64,
    REMOTE_WORKERS_TASKS_MAX = 8 * WIRE_WORK_PROCESSORS_MAX,
    REMOTE_WORKERS_SILENT_MS = 3000     //  a worker that says nothing for so long is gone
};

//  What a worker has answered.  Lent for the call.
typedef struct {
    outcome_t outcome;
    bool is_starved;                    //  it has no memory, or cannot read the files: another one may
    uint64_t worker;                    //  its number, for remote_workers_was_wrong
    uint64_t worker_ns;
    size_t file;                        //  at fault; below the task's files
    char what [WORK_TEXT_BYTES];        //  unless ready: why
    const frame_t *frames;              //  ready: of the version
    size_t count;
    frame_t rows;                       //  ready: what was learned of the first file's rows; size 0: nothing
    bool is_clipped;                    //  decoder_clipped
} remote_result_t;

typedef struct {
    void *router;                       //  lent
    log_t *log;                         //  lent
    //  All of these are called from within the functions below.  A task is over: with a result, or undone.
    void (*done) (void *context, void *task, const remote_result_t *result);
    //  So many processors are lent from now on.
    void (*lends) (void *context, uint32_t processors);
    //  Makes the golden samples, then calls remote_workers_checked; one check at a time.
    void (*check) (void *context, uint64_t nonce);
    void *context;
    int64_t (*nanoseconds) (void);      //  a clock that goes on; NULL: the system's
} remote_workers_options_t;

//  NULL: no memory.
remote_workers_t *remote_workers_new (const remote_workers_options_t *options);
void remote_workers_destroy (remote_workers_t **self_p);

//  A message of kind WIRE_WORK_.., with a good head.  label: what the operator calls its key, or NULL.
//  False: it is refused.
typedef struct {
    const peer_t *peer;
    uint64_t user;
    const char *label;
    const wire_head_t *head;
    const frame_t *frames;
    size_t count;
} remote_message_t;
bool remote_workers_take (remote_workers_t *self, const remote_message_t *message, int64_t now_ms,
    refusal_t *refusal);
//  digests: NULL: no memory.
void remote_workers_checked (remote_workers_t *self, const uint64_t *digests, int64_t now_ms);

//  Whether any worker could take tasks, now or later.
bool remote_workers_are_there (const remote_workers_t *self);
//  A task as it is sent; lent for the call.
typedef struct {
    void *task;
    const pipeline_t *pipeline;
    const catalogue_t *catalogue;
    pipeline_key_t key;
    decoder_sample_t sample;
    size_t files;
    const char *fingerprint;            //  of the data set, if a worker may read the files by itself
    bool is_slow;                       //  its kind, for remote_workers_take_back
    bool learns;                        //  what is learned of the first file's rows is wanted
} remote_task_t;
//  Whether a worker could take a task with a version of this size now.
bool remote_workers_have_credit (remote_workers_t *self, uint64_t version_bytes, int64_t now_ms);
//  Gives it to the worker that will be ready first; its version has at most WIRE_WORK_VERSION_MAX bytes.
//  False: no worker has credit.
bool remote_workers_give (remote_workers_t *self, const remote_task_t *task, int64_t now_ms);

//  Takes back the task of this kind that is out for longest, if it is for age_ns at least: a thread of the
//  caller's does it, so that no job waits for a slow worker or network.  What the worker answers to it is
//  dropped, and the worker gets fewer tasks at once.  False: there is none.
bool remote_workers_take_back (remote_workers_t *self, bool is_slow, int64_t age_ns);
//  Whether there may be one, now or later.
bool remote_workers_have_tasks (const remote_workers_t *self, bool is_slow);

//  The worker of that number, if it is still there, gave a result that is wrong, as the caller has found: it
//  is counted, and with REMOTE_WORKER_WRONG_MAX of them the worker is dismissed.  what: a sentence for the
//  log.
void remote_workers_was_wrong (remote_workers_t *self, uint64_t worker, const char *what, int64_t now_ms);

//  Looks for tasks that are late and workers that are gone, and sends heartbeats: call it at the time of
//  remote_workers_wakeup (INT64_MAX: never).
void remote_workers_look (remote_workers_t *self, int64_t now_ms);
int64_t remote_workers_wakeup (const remote_workers_t *self);
//  Refuses the workers with users that are gone.
void remote_workers_revoke (remote_workers_t *self, bool (*is_gone) (void *context, uint64_t user),
    void *context, int64_t now_ms);
//  Gives all tasks back; then no more are taken, and no worker is let in.
void remote_workers_stop (remote_workers_t *self);

//  An array with an object for each worker; a new reference.  *lost_p: workers that worked, and are gone
//  without a goodbye: they died, fell silent, or their network did.
json_t *remote_workers_status (const remote_workers_t *self, uint64_t *lost_p);
//  Aborts at a broken invariant.
void remote_workers_check (const remote_workers_t *self);

#endif
