/*  explaining -- EXPLAIN from the question to the answer: what the broker knows now, and what a worker finds
 *  out later.
 *
 *  happy path:     explaining_begin (explain_sample) .. its tenant's turn (tasks.h): a worker reads the
 *                  sample's first file, looks at its size, describes the operations, writes the answer ..
 *                  which is sent, with the asker's tag
 *  failure modes:  no such sample, or too many questions at once: refused.  A sample that can no longer be
 *                  read: ERROR later.
 *                  The client has gone meanwhile: its answer is dropped.
 *  on close:       tasks_collect_side_tasks gives back questions that were not begun.
 *
 *  At most EXPLAINING_MAX questions are pending at once, EXPLAINING_OF_JOB_MAX of them for one job, its share
 *  by weight for one tenant.  Owner: the broker's thread.
 */
#ifndef EXPLAINING_H
#define EXPLAINING_H
#include "broker.h"
#include "outbox.h"
#include "tasks.h"

typedef struct explaining explaining_t;

enum { EXPLAINING_MAX = 16, EXPLAINING_OF_JOB_MAX = 4 };

//  router, broker, tasks and backlog (where answers are counted) are lent.  NULL: no memory.
explaining_t *explaining_new (void *router, broker_t *broker, tasks_t *tasks, outbox_backlog_t *backlog);
//  No question may be pending.
void explaining_destroy (explaining_t **self_p);
//  Begins a question of a job of this peer; frame: the question.  False: refused.
bool explaining_begin (explaining_t *self, job_t *job, const peer_t *peer, uint64_t tag, const frame_t *frame,
    int64_t now_ms, refusal_t *refusal);

#endif
