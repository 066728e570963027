/*  pool -- threads that run one function on tasks and give them back done.
 *
 *  happy path:    pool_submit (task) .. a thread runs work (context, task) .. pool_descriptor readable ..
 *                 pool_done ()
 *  The owner is woken for several done tasks at once, as long as others wait to be begun: by the descriptor
 *  when no more tasks wait than there are threads, or when as many are done as should not wait longer.  Each
 *  wake costs a thread its processor.  What the threads do meanwhile may take long; so an owner that cannot
 *  wait for it looks after POOL_QUIET_MS by itself, when pool_is_quiet.
 *  failure modes: none of its own: a task carries its own result.
 *  on close:      pool_destroy lets the threads finish what they have begun; the tasks still queued come
 *                 back by
 *                 pool_drain, so call pool_stop, then pool_drain until NULL, then pool_destroy.
 *
 *  Tasks belong to the pool from submit until done.  Owner: one thread submits and takes back.
 */
#ifndef POOL_H
#define POOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pool pool_t;

enum { POOL_QUIET_MS = 5 };

typedef struct {
    const char *name;                       //  of the threads, at most 15 bytes
    size_t threads;                         //  > 0
    size_t tasks_max;                       //  submitted and not yet taken back
    void (*work) (void *context, void *task);
    void *(*context_new) (void);            //  one a thread, made before pool_new returns; NULL: no context
    void (*context_destroy) (void *context);
} pool_options_t;

//  Threads run when it returns, all signals blocked in them.  NULL with errno: too few threads or no memory
//  to be had.
pool_t *pool_new (const pool_options_t *options);
//  The caller keeps below tasks_max: one more is a bug, asserted.
void pool_submit (pool_t *self, void *task);
//  A finished task, or NULL.  Never blocks.
void *pool_done (pool_t *self);
//  Readable when pool_done should be called: it has something, and the threads will soon want more.
int pool_descriptor (const pool_t *self);
//  Whether tasks may be done, now or from now on, and the descriptor not readable.  Asked before the owner
//  sleeps.
bool pool_is_quiet (pool_t *self);
//  Waits until the tasks begun are finished; no thread runs after it.
void pool_stop (pool_t *self);
//  After pool_stop: the tasks that were never begun, one by one, then NULL.
void *pool_drain (pool_t *self);
//  Stops if it was not.  Every task must have been taken back.
void pool_destroy (pool_t **self_p);

#endif
