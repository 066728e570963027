/*  ready_tasks -- versions that can be prepared now: which local threads make, and which workers on other
 *  machines.
 *
 *  Local threads first: they are given tasks until there are READY_TASKS_A_THREAD for each, so that none
 *  waits for the network.  The tasks beyond that wait in one queue, and workers with credit take from it.
 *  A worker's word that a sample is bad is not believed: a thread of this server prepares it, and knows.  A
 *  worker that was wrong REMOTE_WORKER_WRONG_MAX times is dismissed.
 *  A task that a worker does not end comes back to the head of the queue.  A thread that has nothing left to
 *  do takes back what workers have had for longer than READY_TASKS_PATIENCE tasks of its kind, slow or not,
 *  take here: a job would wait for it, and a worker on a slow network must not make a job slower than it is
 *  without one.  Busy threads do the same after READY_TASKS_PATIENCE_BUSY of the longest tasks here: other
 *  jobs keep them busy while the job with that task waits, and their tasks may be shorter.  Without workers
 *  all go to the threads at once.
 *  Owner: the broker's thread.
 */
#ifndef READY_TASKS_H
#define READY_TASKS_H
#include "build_check.h"
#include "dataset.h"
#include "pool.h"
#include "remote_workers.h"
#include "task.h"

enum { READY_TASKS_A_THREAD = 2, READY_TASKS_PATIENCE = 8, READY_TASKS_PATIENCE_BUSY = 32 };

//  The golden samples of a worker's handshake, made by a thread of the pool.
typedef struct {
    side_task_t side_task;              //  first, so that it leads back here
    task_t task;
    uint64_t nonce, digests [BUILD_CHECK_SAMPLES];
    bool is_made;
} ready_tasks_build_check_t;

typedef struct {
    pool_t *pool, *slow_pool;           //  lent; slow tasks are given to workers at once, or to the second
    size_t threads;
    broker_t *broker;                   //  lent
    void (*finish) (void *context, task_t *task);       //  a worker has prepared it, or knows why not
    void *context;
    remote_workers_t *remote;           //  NULL: none may come
    size_t local [2];                   //  tasks that the pool has, and the pool for slow ones
    double local_ns [2], most_ns [2];   //  that one takes there: a running mean, and the most of late; 0:
                                        //  unknown yet
    bool takes_back;                    //  a task that comes back undone now is for the pool
    task_t *first, *last;               //  those that wait
    ready_tasks_build_check_t build_check;
    int64_t now_ms;
} ready_tasks_t;

//  From now on workers may come; router and log are lent.  0 or -ENOMEM.
int ready_tasks_lend (ready_tasks_t *self, void *router, log_t *log);
//  The task's bytes are there, or it is known to be bad.
void ready_tasks_add (ready_tasks_t *self, task_t *task);
//  One of the pools has given a task back; if a worker called its sample bad, that is judged.  True: it was
//  one of this file's own.
bool ready_tasks_done (ready_tasks_t *self, task_t *task);
//  Hands out what waits, and looks after workers.
void ready_tasks_hand_out (ready_tasks_t *self, int64_t now_ms);
int64_t ready_tasks_wakeup (const ready_tasks_t *self);
//  A task that waits, or that a worker had; NULL: no more.  After this workers get none.
task_t *ready_tasks_drain (ready_tasks_t *self);
void ready_tasks_destroy (ready_tasks_t *self);

#endif
