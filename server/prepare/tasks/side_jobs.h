/*  side_jobs -- what workers do beside samples, each for a tenant that pays for it: explanations, the ids of
 *  long joins.
 *
 *  happy path:     side_jobs_add .. its tenant's turn (ACTION_SIDE_TASK): side_jobs_start .. a worker works
 *                  .. side_jobs_collect: done
 *  on close:       after tasks_stop side_jobs_collect gives back all: done (.., false) if not begun.
 *
 *  A tenant's side jobs begin in the order in which they were added.  The modules that add them bound their
 *  number: TASKS_SIDE_TASKS_MAX together.  Owner: the broker's thread.
 */
#ifndef SIDE_JOBS_H
#define SIDE_JOBS_H
#include "broker.h"
#include "dataset.h"
#include "tasks.h"

typedef struct side_jobs side_jobs_t;

//  Embedded in the caller's structure; owned by the side jobs from side_jobs_add until done.
typedef struct side_job {
    side_task_t side_task;              //  first, so that it leads back here; the caller sets its work
    //  In the broker's thread, at the end; it may add side jobs.  was_done: a worker has done it.
    void (*done) (struct side_job *self, bool was_done);
    void *context;                      //  the caller's
    //  the side jobs':
    tenant_t *tenant;
    uint32_t charged_us;
    struct side_job *after;
} side_job_t;

//  broker and tasks are lent.  NULL: no memory.
side_jobs_t *side_jobs_new (broker_t *broker, tasks_t *tasks);
//  No side job may wait or be with a worker.
void side_jobs_destroy (side_jobs_t **self_p);
void side_jobs_add (side_jobs_t *self, tenant_t *tenant, side_job_t *side_job);
//  ACTION_SIDE_TASK: hands the tenant's oldest side job to a worker.
void side_jobs_start (side_jobs_t *self, const tenant_t *tenant, uint32_t charged_us);
//  Calls done for finished side jobs.  is_stopped: tasks_stop was called; side jobs not begun are given up.
void side_jobs_collect (side_jobs_t *self, bool is_stopped);

#endif
