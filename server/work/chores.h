/*  chores -- what workers do beside samples, each for a tenant that pays for it: explanations, the ids of long joins.
 *
 *  happy path:     chores_add .. its tenant's turn (ACTION_ERRAND): chores_start .. a worker works .. chores_collect: done
 *  on close:       after tasks_stop chores_collect gives back all: done (.., false) for what was not begun.
 *
 *  A tenant's chores are begun as they came.  How many there are, who adds them bounds: TASKS_ERRANDS_MAX together.
 *  Owner: the broker's thread.
 */
#ifndef CHORES_H
#define CHORES_H
#include "broker.h"
#include "tasks.h"

typedef struct chores chores_t;

//  Part of whatever the caller keeps of it; the chores' from chores_add until done.
typedef struct chore {
    errand_t errand;            //  first: the way back from it; its work is the caller's to set
    //  In the broker's thread, at the end; it may add chores.  was_done: a worker has done it.
    void (*done) (struct chore *self, bool was_done);
    //  the chores':
    tenant_t *tenant;
    uint32_t charged_us;
    struct chore *after;
} chore_t;

//  broker and tasks are lent.  NULL: no memory.
chores_t *chores_new (broker_t *broker, tasks_t *tasks);
//  Nothing may wait or be out.
void chores_destroy (chores_t **self_p);
void chores_add (chores_t *self, tenant_t *tenant, chore_t *chore);
//  ACTION_ERRAND: the oldest that the tenant waits for goes to a worker.
void chores_start (chores_t *self, const tenant_t *tenant, uint32_t charged_us);
//  Tells of what is done.  is_stopped: tasks_stop was called; what was not begun is given up.
void chores_collect (chores_t *self, bool is_stopped);

#endif
