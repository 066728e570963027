/*  fairness -- which user's turn it is, by weight, over measured time: stride scheduling (Waldspurger and
 *  Weihl, 1995).
 *
 *  Several *users* (tenants) wait for one resource (the workers).  The *pass* of a user is the time that it
 *  was charged, over its weight.  The user with the least pass has the next turn.  The length of a turn is
 *  known only at its end, so a turn is charged as an estimate when it is given out, and corrected when it is
 *  done: many turns in flight cheat no user.
 *  The *system's pass* is that of the user served last.  A user that begins to wait is raised to it: idle
 *  time earns nothing.  A user that runs alone carries the system's pass along, and owes nothing later.  A
 *  user that waits and lacks something else for its turn counts as idle.
 *
 *  A turn that serves several users is split equally among them.  A user that was charged for others' turns
 *  until it is further ahead than all tasks in flight could bring it pays nothing; the other users of the
 *  turn pay its part.  So several users get no more than their weights together, and no user starves for work
 *  that others wanted too.
 *
 *  Invariants, checked by fairness_check (); N tasks in flight at most, each of c at most, weight w:
 *    F1  no pass is further than (2 N + 1) c / w ahead of the system's; N c / w without shared turns.
 *    F2  no pass of a waiting user is further than N c / w behind it.
 *  So the times given to two users that always wait and share nothing, over their weights, differ by at most
 *  2 N c (1/w + 1/w'), over any time.
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
//  From now on tasks_max is another number.
void fairness_set_tasks (fairness_t *self, size_t tasks_max);
void fairness_destroy (fairness_t **self_p);
//  Adds a user of weight > 0; returns its number, from 0 on.  No user may be waiting.
uint32_t fairness_add (fairness_t *self, uint32_t weight);

void fairness_set_weight (fairness_t *self, uint32_t user, uint32_t weight);

//  The user begins to wait, or waits no more.  Idempotent.
void fairness_wait (fairness_t *self, uint32_t user);
void fairness_rest (fairness_t *self, uint32_t user);
//  The users that wait.
uint64_t fairness_waiting (const fairness_t *self);
//  The waiting user with the next turn, these left out.  False: there is none.  Nothing changes.
bool fairness_next (const fairness_t *self, uint64_t without, uint32_t *user_p);

//  Gives the user a turn that is estimated to take estimate_ns and also serves these others.  passed_over:
//  users that could not take their turn.  Returns the users that pay, for fairness_done.
uint64_t fairness_serve (fairness_t *self, uint32_t user, uint64_t others, uint64_t passed_over,
    uint64_t estimate_ns);
//  The turn is over, and took so long.
void fairness_done (fairness_t *self, uint64_t payers, uint64_t estimate_ns, uint64_t took_ns);

//  Beyond the system's pass the user owes at most so much time.  For users that are charged for more than
//  turns: F1 does not hold then.
void fairness_forgive (fairness_t *self, uint32_t user, uint64_t most_ns);

//  The time that the user was charged for finished turns.
uint64_t fairness_charged_ns (const fairness_t *self, uint32_t user);
//  Aborts naming the broken invariant.
void fairness_check (const fairness_t *self);

#endif
