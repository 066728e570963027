/*  fairness -- whose turn it is, by weight, over measured time: stride scheduling (Waldspurger and Weihl,
 *  1995).
 *
 *  Several *users* (tenants) wait for one resource (the workers).  Each has a *pass*: the time that it was
 *  charged, over its weight.  The next turn is the least pass's.  What a turn takes is known only when it is
 *  over, so it is charged as an estimate when it is given out and put right when it is done: many turns in
 *  flight cheat nobody.  The *system's pass* is that of the last one that was served.  Who begins to wait is
 *  raised to it: being idle earns nothing.  Who has run alone has taken the system's pass along: that costs
 *  nothing.  Who waits and cannot take its turn, because of something else that it lacks, is as if idle.
 *
 *  A turn that serves several is split equally among them, those left out who have been charged for others'
 *  turns so often that they are further ahead than all tasks in flight could bring them; what they would owe
 *  is paid by the others of the turn.
 *  So the work of several is never more than their weights together, and nobody starves for what others
 *  wanted too.
 *
 *  Invariants, checked by fairness_check (); N tasks in flight at most, each of c at most, weight w:
 *    F1  nobody's pass is further than (2 N + 1) c / w ahead of the system's; N c / w without shared turns.
 *    F2  of those who wait, nobody's is further than N c / w behind it.
 *  So of two who wait all the time and share nothing, what each was given since any moment, over its weight,
 *  differs by 2 N c (1/w + 1/w') at most, however long that is.
 *  Owner: one thread.
 */
#ifndef FAIRNESS_H
#define FAIRNESS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fairness fairness_t;

enum { FAIRNESS_USERS_MAX = 64 };       //  a set of them is the bits of a number

//  At most tasks_max turns are given out and not yet done.  NULL: no memory.
fairness_t *fairness_new (size_t tasks_max);
//  From now on another number.
void fairness_set_tasks (fairness_t *self, size_t tasks_max);
void fairness_destroy (fairness_t **self_p);
//  One more user, of weight > 0; its number, from 0 on.  Nobody is waiting.
uint32_t fairness_add (fairness_t *self, uint32_t weight);

//  The user begins to wait, or waits no more.  Idempotent.
void fairness_wait (fairness_t *self, uint32_t user);
void fairness_rest (fairness_t *self, uint32_t user);
//  Who waits.
uint64_t fairness_waiting (const fairness_t *self);
//  Of those who wait, without these: whose turn it is.  False: nobody's.  Nothing changes.
bool fairness_next (const fairness_t *self, uint64_t without, uint32_t *user_p);

//  The user is given a turn that is thought to take estimate_ns and serves also these others.  passed_over:
//  those who could not take theirs.  Returns who pays, for fairness_done.
uint64_t fairness_serve (fairness_t *self, uint32_t user, uint64_t others, uint64_t passed_over,
    uint64_t estimate_ns);
//  The turn is over, and took so long.
void fairness_done (fairness_t *self, uint64_t payers, uint64_t estimate_ns, uint64_t took_ns);

//  What it was charged for what is done.
uint64_t fairness_charged_ns (const fairness_t *self, uint32_t user);
//  Aborts naming the broken invariant.
void fairness_check (const fairness_t *self);

#endif
