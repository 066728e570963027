/*  explaining -- EXPLAIN from the question to the answer: what the broker knows now, and what a worker finds out later.
 *
 *  happy path:     explaining_begin (broker_explain) .. its tenant's turn: explaining_start .. a worker reads the sample's first file, looks at its size, describes the
 *                  operations, writes the answer .. explaining_collect sends it, with the asker's tag
 *  failure modes:  no such sample, or too many questions at once: refused.  A sample that can no longer be read: ERROR later.
 *                  An asker that has gone meanwhile: nobody gets the answer.
 *  on close:       after tasks_stop explaining_collect takes back what was not begun.
 *
 *  At most EXPLAINING_MAX are out at once, EXPLAINING_OF_JOB_MAX of them for one job, its share by weight for one tenant.
 *  Owner: the broker's thread.
 */
#ifndef EXPLAINING_H
#define EXPLAINING_H
#include "broker.h"
#include "outbox.h"
#include "tasks.h"
#include "unread.h"

typedef struct explaining explaining_t;

enum { EXPLAINING_MAX = TASKS_ERRANDS_MAX, EXPLAINING_OF_JOB_MAX = 4 };

//  router, broker, tasks and unread (where answers are counted) are lent.  NULL: no memory.
explaining_t *explaining_new (void *router, broker_t *broker, tasks_t *tasks, unread_t *unread);
//  Nothing may be out.
void explaining_destroy (explaining_t **self_p);
//  Of a job of this peer; frame: what it asks.  False: refused.
bool explaining_begin (explaining_t *self, job_t *job, const peer_t *peer, uint64_t tag, const frame_t *frame, refusal_t *refusal);
//  ACTION_ERRAND: the oldest question of the tenant that waits goes to a worker.
void explaining_start (explaining_t *self, const tenant_t *tenant, uint32_t charged_us);
//  Sends what is done.  is_stopped: tasks_stop was called; what was not begun is given up.
void explaining_collect (explaining_t *self, bool is_stopped);

#endif
